"""Other people's runs, which are not ours to keep here: under CILAB_SHARED, or in ../shared beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared(path: str) -> Path:
    """A file or folder below `data` of the shared folder; where it is not there, the test is skipped."""
    found = SHARED / "data" / path
    if not found.exists():
        pytest.skip("other people's runs are not here (set CILAB_SHARED, or put them in ../shared)")
    return found
