"""Pump arithmetic of the bedside calculator."""
