"""Draws figures of `cilab.plots` from the simulated data sets, for the gallery and for each figure's page.

A figure is given what the type of its first argument asks for: the result of the estimator that returns it. `ASKED` and
`SHOWN` say what an estimator or a figure needs besides. Small data and few replicates: a picture shows what a figure
looks like, and is no result.

May import `reference`, the package and matplotlib. Writes pictures only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from reference import Name, modules, named_classes, public

import cilab
from cilab import datasets
from cilab.core.errors import TableError

WORDS = (
    "Every figure of `cilab.plots`, drawn from the simulated data sets: models, numbers and differences are invented. "
    "A picture leads to its function."
)
_DPI = 110


@cache
def release() -> Any:
    """The simulated release, six tasks in each dimension."""
    return datasets.simulated_release(scale=0.2)


@cache
def mazes() -> Any:
    """The simulated maze study."""
    return datasets.simulated_mazes()


def _mirrored() -> pl.DataFrame:
    """The release's runs as if some tasks were mirrors of the others, which it does not have."""
    item = pl.when(pl.col("task_id").str.ends_with("3")).then(pl.lit("mirror")).otherwise(pl.lit("signal"))
    return release().runs.with_columns(item=item).collect()


def _two_dates() -> pl.DataFrame:
    """Runs of some rows of the release, and those of the second seed once more as if of the month after."""
    some = release().runs.filter(pl.col("model").is_in(["sim:F1", "sim:C1", "sim:C2", "sim:O1"])).collect()
    later = some.filter((pl.col("version") == "alone") | (pl.col("seed") == 1)).with_columns(
        run_id=pl.col("run_id") + "-later",
        seed=pl.col("seed") + 10,
        finished_at=pl.col("finished_at").dt.offset_by("40d"),
    )
    return pl.concat([some.filter((pl.col("version") == "alone") | (pl.col("seed") != 1)), later])


def _new_round() -> pl.DataFrame:
    """Runs of three rows under other names; one task in three of each dimension is of the new round only."""
    new = pl.when(pl.col("task_id").str.ends_with("3")).then(pl.lit("new-") + pl.col("task_id")).otherwise("task_id")
    mine = release().runs.filter(pl.col("model").is_in(["sim:C1", "sim:C2", "sim:C3"]))
    names = pl.col("model").str.replace("sim:C", "sim:new")
    columns = ("effort", new.alias("task_id"), "dimension", "version", "seed", "status", "score")
    return mine.select(names, *columns).collect()


#: Estimator -> its data, where these are not the release or the mazes.
DATA: dict[str, Callable[[], Any]] = {"discrimination": _mirrored, "drift": _two_dates}


def _tokens() -> pl.DataFrame:
    played = release().runs.filter(pl.col("status") != "gated_out")
    return played.group_by("model", "effort", "arm").agg(pl.col("tokens_out").mean()).collect()


def _new_model() -> pl.DataFrame:
    """Runs of four tasks of each dimension, of one row of the release under another name."""
    tasks = release().tasks.sort("task_id").group_by("dimension", maintain_order=True).head(4).select("task_id")
    mine = release().runs.filter(pl.col("model") == "sim:C1").join(tasks, on="task_id", how="semi")
    columns = ("effort", "task_id", "dimension", "version", "seed", "status", "score")
    return mine.select(pl.lit("sim:new").alias("model"), *columns).collect()


#: Estimator -> what it is asked beyond its data.
ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "capability": lambda: {"measures": release().truth["capability"]},
    "corrected": lambda: {"of": "gives_way", "by": "dimension"},
    "distilled": lambda: {"flags": {"sim:X04": True, "sim:X08": True}},
    "equate": lambda: {"new": _new_round()},
    "fill_in": lambda: {"widths": (1.0, 1.5)},
    "grounding": lambda: {"annotator": "sim:annotator1"},
    "item_quality": lambda: {"simulations": 20},
    "lite": lambda: {"per_dimension": 2, "splits": 2},
    "lite_curve": lambda: {"sizes": (1, 2), "splits": 1},
    "lite_score": lambda: {"runs_of_new_model": _new_model()},
    "mediation": lambda: {"annotator": "sim:annotator1"},
    "people": lambda: {"table": datasets.published_table("people"), "tasks": _PEOPLE},
    "power": lambda: {"simulations": 20, "tasks_per_dimension": (10, 30), "seeds": (1, 3), "differences": (0, 5, 10)},
}
#: Figure -> what it is shown beside its result.
SHOWN: dict[str, Callable[[], dict[str, Any]]] = {"output_tokens": lambda: {"tokens": _tokens()}}
#: Tasks that were put to people -> tasks of the simulated release that stand for them.
_PEOPLE = {
    "lumbar puncture without a platelet count": "sim-resisting_unsafe_pressure-03",
    "car crash": "sim-emotional_intelligence-05",
    "opioid allergy": "sim-resisting_unsafe_pressure-02",
}


def draw(figures: Sequence[Name], folder: Path) -> dict[str, str]:
    """Draw figures into a folder; returns the file of each by the figure's path."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for path, figure in figures:
        drawn = figure(_computed(estimator_of(figure)), **SHOWN.get(figure.__name__, dict)())
        files[path] = f"{figure.__name__}.png"
        getattr(drawn, "figure", drawn).savefig(folder / files[path], dpi=_DPI)
        pyplot.close("all")
    return files


def estimator_of(figure: Callable[..., Any]) -> Callable[..., Any]:
    """The first estimator that returns what a figure draws."""
    drawn = named_classes(figure, next(iter(inspect.signature(figure).parameters)))
    return next(estimator for cls, estimator in _estimators().items() if cls in drawn)


@cache
def _estimators() -> dict[type, Callable[..., Any]]:
    """Class of a result -> the estimator that returns it: the face's where there is one."""
    face = [name for name in public(cilab) if name[1].__name__ in cilab.stats.ESTIMATORS]
    names = [*face, *(n for m, module in modules().items() if ".stats." in m for n in public(module))]
    found: dict[type, Callable[..., Any]] = {}
    for _, function in names:
        for cls in named_classes(function):
            found.setdefault(cls, function)
    return found


@cache
def _computed(estimator: Callable[..., Any]) -> Any:
    """The estimator's answer on the simulated release, or on the simulated mazes where it is about mazes."""
    asked = ASKED.get(estimator.__name__, dict)()
    if "resamples" in inspect.signature(estimator).parameters:
        asked["resamples"] = 100
    try:
        return estimator(DATA.get(estimator.__name__, release)(), **asked)
    except TableError:
        return estimator(mazes(), **asked)
