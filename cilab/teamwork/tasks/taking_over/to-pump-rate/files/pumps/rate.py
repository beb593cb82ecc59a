"""Pump rate for a weight-based infusion. See docs/rate.md."""


def rate_ml_h(weight_kg, mcg_per_kg_min, mg_per_ml):
    """Rate in mL per hour, in the pump's steps."""
    raise NotImplementedError
