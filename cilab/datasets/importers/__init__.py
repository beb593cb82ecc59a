"""Importers of other people's runs: each says what it dropped, doubled or repaired."""
