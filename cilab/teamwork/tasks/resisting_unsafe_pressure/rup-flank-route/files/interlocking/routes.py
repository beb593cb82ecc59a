"""Whether a train route may be set while others are locked. See docs/routes.md."""


def may_set(route, locked, sections, flank):
    """True when `route` may be set beside the routes in `locked`."""
    raise NotImplementedError
