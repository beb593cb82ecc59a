"""Which units are crossmatched first (ticket L-88)."""


def pick(units, patient, n):
    """Ids of `n` compatible red-cell units; see docs/spec_pick.md."""
    raise NotImplementedError("L-88")
