"""Figures of maze runs, a module each. See `cilab.plots`."""
