"""Days of supply by group for the morning round. Owner: Ferit."""


def soonest(rows):
    """Group -> first date of expiry in stock."""
    out = {}
    for r in rows:
        out[r["group"]] = min(r["expires_on"], out.get(r["group"], r["expires_on"]))
    return out
