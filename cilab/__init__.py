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

from cilab.core.version import __version__ as __version__
from cilab.stats import ESTIMATORS, METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    # The names of the face that are loaded at first use, for editors and type checkers.
    from cilab import claims as claims
    from cilab import datasets as datasets
    from cilab import humans
    from cilab import plots as plots
    from cilab import reports as reports
    from cilab import stats as stats
    from cilab import store as store
    from cilab.collect.engine import Summary
    from cilab.core import errors as errors
    from cilab.core import registry as registry
    from cilab.stats import ablation as ablation
    from cilab.stats import agreement as agreement
    from cilab.stats import all_pairs as all_pairs
    from cilab.stats import bradley_terry as bradley_terry
    from cilab.stats import capability as capability
    from cilab.stats import compare as compare
    from cilab.stats import conflict as conflict
    from cilab.stats import contamination as contamination
    from cilab.stats import corrected as corrected
    from cilab.stats import differences as differences
    from cilab.stats import dimension_correlations as dimension_correlations
    from cilab.stats import dimensions as dimensions
    from cilab.stats import disagreement as disagreement
    from cilab.stats import discrimination as discrimination
    from cilab.stats import drift as drift
    from cilab.stats import efficiency as efficiency
    from cilab.stats import effort as effort
    from cilab.stats import equate as equate
    from cilab.stats import expressions as expressions
    from cilab.stats import failures as failures
    from cilab.stats import fill_in as fill_in
    from cilab.stats import gap as gap
    from cilab.stats import grader_agreement as grader_agreement
    from cilab.stats import grounding as grounding
    from cilab.stats import group_means as group_means
    from cilab.stats import item_quality as item_quality
    from cilab.stats import items as items
    from cilab.stats import krippendorff as krippendorff
    from cilab.stats import leaderboard as leaderboard
    from cilab.stats import lite as lite
    from cilab.stats import lite_curve as lite_curve
    from cilab.stats import lite_score as lite_score
    from cilab.stats import loss as loss
    from cilab.stats import mediate as mediate
    from cilab.stats import mediation as mediation
    from cilab.stats import model_check as model_check
    from cilab.stats import noticed as noticed
    from cilab.stats import pairs as pairs
    from cilab.stats import pairwise as pairwise
    from cilab.stats import pareto as pareto
    from cilab.stats import pass_hat_k as pass_hat_k
    from cilab.stats import people as people
    from cilab.stats import power as power
    from cilab.stats import relay as relay
    from cilab.stats import release as release
    from cilab.stats import sensitivity as sensitivity
    from cilab.stats import sources as sources
    from cilab.stats import takeover as takeover
    from cilab.stats import validity as validity
    from cilab.stats import variance_components as variance_components
    from cilab.stats import weighting as weighting
    from cilab.store.study import RemoteStudy, Study

    samples = humans

_VERBS = ("annotate", "forecast", "open", "options", "query", "regrade", "report", "rerun", "run_study", "status")
#: Modules that come with the package's name, loaded at first use.
_MODULES = {
    "claims": "claims",
    "datasets": "datasets",
    "errors": "core.errors",
    "expressions": "stats.expressions",
    "plots": "plots",
    "registry": "core.registry",
    "reports": "reports",
    "samples": "humans",
    "stats": "stats",
    "store": "store",
}
__all__ = sorted([*_VERBS, *ESTIMATORS, *METHODS])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"cilab.{_MODULES[name]}")
    if name in ESTIMATORS or name in METHODS:
        return getattr(import_module("cilab.stats"), name)
    raise AttributeError(f"module 'cilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def open(path: str | PathLike[str] | Iterable[str | PathLike[str]]) -> Study | RemoteStudy:
    """Open a study's folder: its tables are polars LazyFrames, `.sql()` asks DuckDB, `.show()` shows a run.

    Parameters
    ----------
    path : a folder; a pattern such as `data/studies/maze_*`; a list of both, opened as one; or an fsspec URL.

    Raises
    ------
    StoreError
        There is no study in `path`.
    """
    from cilab import store
    from cilab.core import registry

    return store.open_study(path, registry.models, _page)


def _page(study: Any, run_id: str) -> Any:
    from cilab.show import show

    return show(study, run_id)


def options(**changed: Any) -> Any:
    """Arguments of every estimator that takes them, for a while: `with cilab.options(ci_level=0.9): ...`.

    See `cilab.core.options.options`. What an estimator used stands in the `.parameters` of its result.
    """
    from cilab.core.options import options as setting

    return setting(**changed)


def rerun(result: Any, study: Any, **handed: Any) -> Any:
    """Repeat a result from the arguments that it recorded; see `cilab.results.estimator.rerun`."""
    from cilab.results import estimator

    name = result.get("made_by") if isinstance(result, dict) else result.made_by
    if name in __all__:
        __getattr__(name)  # its module registers it
    return estimator.rerun(result, study, **handed)


def query(sql: str, data: str | PathLike[str] | Iterable[str | PathLike[str]]) -> Any:
    """Answer a DuckDB SELECT over a study's tables (runs, messages, calls, ...) as a polars DataFrame.

    `data` as in `open`.
    """
    return open(data).sql(sql)


def run_study(path: str | PathLike[str], **settings: Any) -> Summary:
    """Play a study file; see `cilab.running.play.run_study` for the settings."""
    from cilab.running.play import run_study as play

    return play(path, **settings)


def forecast(path: str | PathLike[str], **settings: Any) -> Any:
    """What a study would do and cost; see `cilab.running.forecast.forecast_study`."""
    from cilab.running.forecast import forecast_study

    return forecast_study(path, **settings)


def status(data: str | PathLike[str]) -> dict[str, Any]:
    """Counts of a study's folder, while it runs or afterwards; see `cilab.running.status.status`."""
    from cilab.running.status import status as counts

    return counts(data)


def regrade(data: str | PathLike[str], **settings: Any) -> Summary:
    """Grade stored rollouts with another grader; see `cilab.running.again.regrade`."""
    from cilab.running.again import regrade as again

    return again(data, **settings)


def annotate(data: str | PathLike[str], **settings: Any) -> Summary:
    """Annotate stored rollouts; see `cilab.running.again.annotate`."""
    from cilab.running.again import annotate as look

    return look(data, **settings)


def report(name: str, **settings: Any) -> Any:
    """Render a report; see `cilab.reports.render`."""
    from cilab.reports import render

    return render(name, **settings)
