"""What a home ventilator accepts as an update."""
