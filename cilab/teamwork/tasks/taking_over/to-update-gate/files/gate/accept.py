"""May the device take this update? See docs/gate.md."""


def accepts(current, offered):
    """True when a device that runs `current` may install `offered`."""
    raise NotImplementedError
