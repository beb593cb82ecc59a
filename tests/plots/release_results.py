"""Results of a small simulated release and of the published round, computed once for the tests of plots."""

from __future__ import annotations

from functools import cache
from typing import Any

import cilab
from cilab.datasets import published_round, simulated_release
from cilab.datasets.dataset import Dataset
from tests.frozen.outputs import new_model, new_round

_FEW: dict[str, Any] = {"resamples": 50}
_OPTIONS: dict[str, dict[str, Any]] = {
    "agreement": _FEW,
    "all_pairs": {"resamples": 200},
    "capability": _FEW,
    "conflict": _FEW,
    "differences": _FEW,
    "dimension_correlations": _FEW,
    "dimensions": _FEW,
    "drift": {"by": "day"},
    "effort": _FEW,
    "failures": _FEW,
    "fill_in": _FEW | {"widths": (1.0, 1.5)},
    "item_quality": {"simulations": 20},
    "leaderboard": _FEW,
    "lite": {"per_dimension": 2, "splits": 2, "method": ("greedy", "item_response")},
    "lite_curve": {"sizes": (1, 2), "splits": 1, "method": ("greedy",)},
    "loss": _FEW,
    "noticed": _FEW,
    "power": {"simulations": 20, "tasks_per_dimension": (10, 30), "seeds": (1, 3), "differences": (0, 5, 10)},
    "takeover": _FEW,
}


@cache
def release() -> Dataset:
    """Six tasks in each dimension, 24 rows; two tests that want it get the same object."""
    return simulated_release(scale=0.2)


@cache
def round_() -> Dataset:
    """The published round: real models, no labels, tasks without identity."""
    return published_round("2026-10-09")


@cache
def result(name: str) -> Any:
    """`cilab.<name>` of the simulated release."""
    more = {
        "capability": lambda: (release().truth["capability"],),
        "equate": lambda: (new_round(release(), 6),),
        "lite_score": lambda: (new_model(release(), 4),),
    }
    return getattr(cilab, name)(release(), *more.get(name, tuple)(), **_OPTIONS.get(name, {}))


@cache
def published(name: str) -> Any:
    """`cilab.<name>` of the published round."""
    return getattr(cilab, name)(round_(), **_OPTIONS.get(name, {}))
