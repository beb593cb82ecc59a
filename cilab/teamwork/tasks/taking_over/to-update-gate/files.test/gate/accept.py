"""May the device take this update? See docs/gate.md."""

import re

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-rc(\d+))?")


def rank(version):
    """What versions are compared by; a release comes after all its candidates."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"not a version: {version!r}")
    *numbers, candidate = found.groups()
    return [*map(int, numbers), float("inf") if candidate is None else int(candidate)]


def accepts(current, offered):
    """True when a device that runs `current` may install `offered`."""
    return rank(offered) > rank(current)
