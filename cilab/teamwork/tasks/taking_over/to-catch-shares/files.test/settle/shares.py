"""Shares of a sum by weights, to the cent. See docs/agreement.md, annex 3."""


def split(cents, weights):
    """Whole cents for each weight, in the order of the weights."""
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise ValueError("weights must not be negative, nor all zero")
    if cents < 0:
        return [-share for share in split(-cents, weights)]
    shares = [cents * weight // total for weight in weights]
    by_fraction = sorted(range(len(weights)), key=lambda i: -(cents * weights[i] % total))
    for i in by_fraction[: cents - sum(shares)]:
        shares[i] += 1
    return shares
