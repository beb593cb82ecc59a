"""Figures of teamwork runs, a module each. See `cilab.plots`."""
