"""Units that leave the fridge tonight. Written in 2029 for the night shift."""


def expiring(rows, day):
    """Ids to be thrown out at the end of `day`."""
    return [r["id"] for r in rows if r["expires_on"] <= day]
