"""How many legs of a mission can be flown before the final reserve is touched. See docs/last-leg.md."""


def last_leg(fuel_kg, reserve_kg, legs):
    """Number of legs that can be flown; `legs` are (minutes, kg_per_minute) in flying order."""
    raise NotImplementedError
