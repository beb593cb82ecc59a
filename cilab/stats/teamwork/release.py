"""Scores by date of release, open and closed weights.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.results.estimator import estimator
from cilab.results.result import Result
from cilab.stats.methods import bootstrap
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import Scope, grid


@dataclass(frozen=True, kw_only=True, repr=False)
class Release(Result):
    """Best score so far by release date.

    Attributes
    ----------
    table : see `release`.
    undated : models of the data without a release date.
    """

    undated: tuple[str, ...]

    figure: ClassVar[str | None] = "release"
    title: ClassVar[str] = "Score by release date"

    def notes(self) -> list[str]:
        """As in `Result`, with the models that have no date."""
        out = super().notes()
        return [*out[:-1], *([f"Without a release date: {', '.join(self.undated)}."] if self.undated else []), out[-1]]


@estimator
def release(study: Any, *, facts: Any = None, **scope: Unpack[Scope]) -> Release:
    """Each model's best setting by the day its version could first be called, and the best score so far.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    facts : about models: a frame (polars or pandas) with one line per model, `model,
        released` (dates, or texts such as 2026-02-28) and, if wanted, `open_weights` (true or false, yes or no, 1 or
        0; null where unknown). None takes the study's models table, or the registry's.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Release
        `.table`, by date: `model, effort, released, open_weights, score_pct, sets_best, best_so_far_pct,
        sets_best_open, best_open_pct`. A model sets a best if it beats every model released before it; of two that are
        released on the same day only the better one can.

    Raises
    ------
    TableError
        No model has a date and a score; `facts` is no such frame; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section D.2, figure 15.
    """
    g = grid(study, **scope)
    score = bootstrap.overall_means(g.points())
    about = _model_facts(study, facts)
    plain = g.rows.with_columns(pl.Series("score", score).fill_nan(None)).filter(
        pl.col("arm").is_null() & pl.col("score").is_not_null()
    )
    best = plain.sort("score", descending=True, maintain_order=True).unique("model", keep="first", maintain_order=True)
    dated = best.join(about, on="model", how="left", maintain_order="left")
    undated = tuple(sorted(dated.filter(pl.col("released").is_null())["model"].to_list()))
    dated = dated.filter(pl.col("released").is_not_null()).sort("released", "score", descending=[False, True])
    if dated.height == 0:
        raise TableError("release: no model of these runs has both a release date and an overall score")
    opened = pl.col("open_weights").fill_null(False)
    dated = dated.with_columns(
        best=pl.col("score").cum_max(),
        best_open=pl.when(opened).then("score").cum_max().forward_fill(),
    )
    table = dated.select(
        "model",
        "effort",
        "released",
        "open_weights",
        (100 * pl.col("score")).alias("score_pct"),
        (pl.col("score") > pl.col("best").shift(1).fill_null(-1.0)).alias("sets_best"),
        (100 * pl.col("best")).alias("best_so_far_pct"),
        (opened & (pl.col("score") > pl.col("best_open").shift(1).fill_null(-1.0))).alias("sets_best_open"),
        (100 * pl.col("best_open")).alias("best_open_pct"),
    )
    shown = set(dated["row"])
    used = int((g.runs["used"] & g.runs["r"].is_in([r for r, name in enumerate(g.names) if name in shown])).sum())
    return Release(
        table=table,
        undated=undated,
        n_used=used,
        n_left_out=task_runs.left_out(g, used, {"of rows that are not a dated model's best": g.n_used - used}),
        provenance=g.provenance,
        caption="Overall score of each model's best setting, in percent, by release date.",
    )


def _model_facts(study: Any, facts: Any) -> pl.DataFrame:
    """`model, released, open_weights` of every known model, one line each."""
    from cilab.core import registry

    own = getattr(study, "models", None)
    if facts is None:
        facts = own if isinstance(own, pl.DataFrame | pl.LazyFrame) else registry.models()
    table = as_frame(facts, "facts must be a polars or pandas DataFrame with model and released")
    for column in ("model", "released"):
        if column not in table.columns:
            raise TableError(f"facts: missing column {column}.{nearest(column, table.columns)}")
    if "open_weights" not in table.columns:
        table = table.with_columns(open_weights=pl.lit(None, dtype=pl.Boolean))
    known = table.select(pl.col("model").cast(pl.String), _dates(table["released"]), _truths(table["open_weights"]))
    return known.unique("model", keep="first")


def _dates(values: pl.Series) -> pl.Series:
    """Release dates; texts are read as year-month-day."""
    try:
        if values.dtype == pl.String:
            return values.str.strip_chars().replace("", None).str.to_date("%Y-%m-%d")
        if values.dtype.is_numeric():
            raise TableError(f"facts: released holds {values.dtype}, not dates such as 2026-02-28")
        return values.cast(pl.Date)
    except pl.exceptions.PolarsError:
        raise TableError("facts: released holds something other than dates such as 2026-02-28") from None


_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truths(values: pl.Series) -> pl.Series:
    """Whether weights are open, from the ways in which tables say yes and no; an empty text is unknown."""
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise TableError(f"facts: open_weights holds {values.dtype}; give true or false")
    words = values.fill_nan(None) if values.dtype.is_float() else values
    words = words.cast(pl.String).str.strip_chars().str.strip_suffix(".0").str.to_lowercase().replace("", None)
    if stray := sorted(set(words.drop_nulls()) - set(_TRUTHS)):
        raise TableError(f"facts: open_weights is {stray[0]!r}; give true or false, or leave it empty where unknown")
    return words.replace_strict(_TRUTHS, return_dtype=pl.Boolean)
