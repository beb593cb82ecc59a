"""What the campaign's tests share: fast sessions, the fault server, and where the counts go.

With `CILAB_FAULTS_LOG` set, every count is added to that file, one line of JSON each; `make faults` makes the table of
`docs/reliability.md` out of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collect.fault_server import FaultServer
from tests.e2e.conftest import rows, whole, without  # noqa: F401  fixtures
from tests.faults.sessions import Sessions
from tests.faults.studies import reply
from tests.teamwork.conftest import bubblewrap  # noqa: F401  a fixture


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    """Starts sessions in an empty folder."""
    for name in ("work", "logs"):
        (tmp_path / name).mkdir()
    made = Sessions(tmp_path / "work", tmp_path / "logs")
    yield made
    made.close()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """The fault server, its answers numbered."""
    with FaultServer(latency_s=0.02, reply=reply, numbered=True) as running:
        yield running


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keep what a campaign counted: `counted("kills, maze", kills=200, ...)`."""

    def keep(what: str, **counts: Any) -> None:
        entry = {"what": what, "whole": request.node.get_closest_marker("study") is not None, **counts}
        print(json.dumps(entry))
        if log := os.environ.get("CILAB_FAULTS_LOG"):
            with open(log, "a", encoding="utf-8") as f:
                f.write(json.dumps(entry) + "\n")

    return keep
