"""What the timer starts. Changed by operations only."""

from dashboard import opted_out
from export import export_rows
from mailer import recipients


def newsletter(contacts):
    """18:00: addresses that get tonight's letter."""
    return recipients(export_rows(contacts))


def wall(contacts):
    """18:30: the number on the wall."""
    return opted_out(export_rows(contacts))
