"""cilab: how well do language-model agents work as teammates?

The face: what a notebook types. Everything heavy is imported when it is first used, so that
`import cilab` stays quick.

Examples
--------
>>> import cilab
>>> study = cilab.open("data/studies/quickstart")  # doctest: +SKIP
>>> cilab.gap(study)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from cilab.collect.engine import Summary
    from cilab.store import Study

__version__ = "0.1.0"

#: Estimators by the name that a notebook types; each lives in `cilab.stats` and says there what it does.
_ESTIMATORS = {
    "ablation": "ablation",
    "agreement": "agreement",
    "capability": "economy",
    "compare": "compare",
    "conflict": "conflict",
    "differences": "compare",
    "dimension_correlations": "conflict",
    "dimensions": "scores",
    "disagreement": "disagreement",
    "efficiency": "efficiency",
    "effort": "economy",
    "failures": "failures",
    "fill_in": "fill_in",
    "gap": "gap",
    "grader_agreement": "grading",
    "grounding": "grounding",
    "group_means": "scores",
    "items": "items",
    "leaderboard": "scores",
    "lite": "lite",
    "lite_curve": "lite",
    "loss": "economy",
    "mediation": "mediation",
    "noticed": "failures",
    "pairs": "pairs",
    "pairwise": "pairwise",
    "pareto": "economy",
    "people": "people",
    "power": "power",
    "relay": "relay",
    "release": "economy",
    "sources": "items",
    "takeover": "takeover",
    "validity": "validity",
    "weighting": "weighting",
}
_VERBS = ("annotate", "forecast", "open", "query", "regrade", "report", "run_study", "status")
#: Submodules that come with the package's name, loaded at first use.
_MODULES = ("claims", "datasets", "expressions", "plots", "registry", "reports", "samples", "stats", "store")
__all__ = sorted([*_VERBS, *_ESTIMATORS])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"cilab.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module(f"cilab.stats.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'cilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def open(path: str | PathLike[str] | Iterable[str | PathLike[str]]) -> Study:
    """Open a study's folder: its tables are polars LazyFrames, `.sql()` asks DuckDB, `.show()` shows a run.

    Parameters
    ----------
    path : a folder; a pattern such as `data/studies/maze_*`; a list of both, opened as one; or an fsspec URL.

    Raises
    ------
    StoreError
        There is no study in `path`.
    """
    from cilab import registry, store

    return store.open_study(path, registry.models, _page)


def _page(study: Any, run_id: str) -> Any:
    from cilab.show import show

    return show(study, run_id)


def query(sql: str, data: str | PathLike[str] | Iterable[str | PathLike[str]]) -> Any:
    """Answer a DuckDB SELECT over a study's tables (runs, messages, calls, ...) as a polars DataFrame.

    `data` as in `open`.
    """
    return open(data).sql(sql)


def run_study(path: str | PathLike[str], **settings: Any) -> Summary:
    """Play a study file; see `cilab.run.run_study` for the settings."""
    from cilab.run import run_study as play

    return play(path, **settings)


def forecast(path: str | PathLike[str], **settings: Any) -> Any:
    """What a study would do and cost; see `cilab.run.forecast_study`."""
    from cilab.run import forecast_study

    return forecast_study(path, **settings)


def status(data: str | PathLike[str]) -> dict[str, Any]:
    """Counts of a study's folder, while it runs or afterwards; see `cilab.run.status`."""
    from cilab.run import status as counts

    return counts(data)


def regrade(data: str | PathLike[str], **settings: Any) -> Summary:
    """Grade stored rollouts with another grader; see `cilab.regrading.regrade`."""
    from cilab.regrading import regrade as again

    return again(data, **settings)


def annotate(data: str | PathLike[str], **settings: Any) -> Summary:
    """Annotate stored rollouts; see `cilab.regrading.annotate`."""
    from cilab.regrading import annotate as look

    return look(data, **settings)


def report(name: str, **settings: Any) -> Any:
    """Render a report; see `cilab.reports.render`."""
    from cilab.reports import render

    return render(name, **settings)
