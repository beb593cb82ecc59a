"""Route logic of Brenna Junction."""
