"""Figures of judges and graders, a module each. See `cilab.plots`."""
