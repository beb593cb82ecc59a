"""Who gets the newsletter. Owner: Joris."""


def recipients(rows):
    """Addresses for tonight's newsletter, in the order of the rows."""
    return [r["email"] for r in rows if not r.get("opt_out")]
