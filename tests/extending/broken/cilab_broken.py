"""A package that does not load."""

raise RuntimeError("its licence ran out\non Monday")
