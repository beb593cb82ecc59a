"""Where the shared data stand, and small files to import."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLE = PROJECT / "tests" / "data" / "release_example"


def shared_data() -> Path | None:
    """The folder of other people's runs: under CILAB_SHARED, or ../shared beside the checkout; None where absent."""
    for root in (os.environ.get("CILAB_SHARED"), PROJECT.parent / "shared"):
        if root and (Path(root) / "data" / "reference_numbers.json").is_file():
            return Path(root) / "data"
    return None


@pytest.fixture
def shared() -> Path:
    found = shared_data()
    if found is None:
        pytest.skip("other people's runs are not here (set CILAB_SHARED, or put them in ../shared)")
    return found


@pytest.fixture
def example() -> Path:
    return EXAMPLE


@pytest.fixture
def write(tmp_path):
    """write(name, text or bytes) -> path of a new file."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make
