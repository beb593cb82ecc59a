"""Settling a trip: who gets what of the catch."""
