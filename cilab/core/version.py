"""The version of cilab, where every room can read it. Imports nothing."""

__version__ = "0.1.0"
