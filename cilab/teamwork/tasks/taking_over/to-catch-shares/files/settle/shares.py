"""Shares of a sum by weights, to the cent. See docs/agreement.md, annex 3."""


def split(cents, weights):
    """Whole cents for each weight, in the order of the weights."""
    raise NotImplementedError
