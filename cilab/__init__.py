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

    from cilab.collect.engine import Summary
    from cilab.store.study import RemoteStudy, Study

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
