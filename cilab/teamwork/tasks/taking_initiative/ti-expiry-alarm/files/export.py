"""Rows of the stock for other programs. Owner: Ferit."""


def export_rows(units):
    """One row per unit."""
    return [{"id": u["id"], "group": u["group"], "expires_on": u["expires"]} for u in units]
