"""Merging duplicate contacts (ticket T-214)."""


def merge(records):
    """One dict per address; see docs/spec_merge.md."""
    raise NotImplementedError("T-214")
