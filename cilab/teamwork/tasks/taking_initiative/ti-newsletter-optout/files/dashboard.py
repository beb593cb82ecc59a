"""Numbers for the director's wall. Owner: Maren."""


def opted_out(rows):
    """How many contacts want no mail."""
    return sum(bool(r["unsubscribed"]) for r in rows)
