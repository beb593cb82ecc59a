"""Rows of the contact store for other programs. Owner: Maren."""


def export_rows(contacts):
    """One row per contact."""
    return [{"email": c["email"], "branch": c.get("branch", "main"), "unsubscribed": c["opt_out"]} for c in contacts]
