"""Leg planning for the rescue helicopters."""
