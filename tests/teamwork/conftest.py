"""What tests of the teamwork benchmark share."""

from __future__ import annotations

import os

import pytest

from cilab.teamwork import sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Bubblewrap works here. Where it does not, the tests that need it are left out, but fail where they must run."""
    complaint = sandbox.available()
    if complaint is not None:
        (pytest.fail if os.environ.get("CILAB_NEEDS_SANDBOX") else pytest.skip)(complaint)
