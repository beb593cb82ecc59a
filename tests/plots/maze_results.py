"""Results of the simulated maze study, computed once for all tests of figures."""

from __future__ import annotations

from functools import cache
from typing import Any

import cilab
from cilab.datasets import simulated_mazes
from cilab.datasets.dataset import Dataset

ANNOTATOR = "sim:annotator1"
_OPTIONS: dict[str, dict[str, Any]] = {
    "mediation": {"annotator": ANNOTATOR, "resamples": 100},
    "grounding": {"annotator": ANNOTATOR},
    "disagreement": {"resamples": 100},
    "grader_agreement": {"resamples": 100},
}


@cache
def mazes() -> Dataset:
    """The simulated study; two tests that want it get the same object."""
    return simulated_mazes()


@cache
def result(name: str, *args: Any) -> Any:
    """`cilab.<name>` of the simulated study."""
    return getattr(cilab, name)(mazes(), *args, **_OPTIONS.get(name, {}))
