"""What the evening timer starts. Kept by operations."""

from alarm import expiring
from export import export_rows
from stocktake import soonest


def expiry_list(units, day):
    """20:00: the list for the night technician."""
    return expiring(export_rows(units), day)


def supply(units):
    """06:00: first dates by group."""
    return soonest(export_rows(units))
