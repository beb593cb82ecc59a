"""Tasks as items: how hard each is, and how it goes with the rest of its dimension.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.results.estimator import estimator
from cilab.results.result import Result
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.teamwork.grid import Grid, Scope, grid

#: A task passed by at least this share of the rows is at the ceiling, by at most that share at the floor.
CEILING, FLOOR = 0.95, 0.05


@dataclass(frozen=True, kw_only=True, repr=False)
class ItemsResult(Result):
    """What each task contributes.

    Attributes
    ----------
    table : see `items`.
    summary : one line per quantity: `quantity, value` (median item-rest correlation; numbers of ceiling, floor and
        negative items, of those without a correlation, of tasks).
    """

    summary: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "items"
    title: ClassVar[str] = "Tasks as items"

    def value(self, quantity: str) -> float | None:
        """A quantity of `.summary` by name."""
        found = self.summary.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no quantity {quantity!r}; there are {', '.join(self.summary['quantity'])}")
        return found["value"][0]

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def items(study: Any, **scope: Unpack[Scope]) -> ItemsResult:
    """Mean value of each task over rows, and its correlation with the rest of its dimension.

    The item-rest correlation of a task is Pearson's r, over the rows that solve it alone, between the row's value on it
    and the row's mean over the other tasks of the dimension that it solves alone. It is undefined where either does not
    vary or fewer than three rows have both.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    ItemsResult
        `.table`, one line per task of the plan: `task_id, dimension, source_family, split, mean_value` (a fraction),
        `n_rows` (rows that solve it alone), `item_rest_r`, `ceiling` (mean value at least 0.95), `floor` (at most
        0.05), `negative` (r below 0); null where undefined.

    Raises
    ------
    TableError
        The tasks are those of a published round (ids beginning with `unknown:`); or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.4.
    """
    g = grid(study, **scope)
    g.need_known_tasks("items")
    mean = task_means(g, g.scored)
    rest = np.concatenate([item_rest(g.values[:, d], g.scored[:, d]) for d in g.slices])
    table = g.tasks.select("task_id", "dimension", "source_family", "split").with_columns(
        pl.Series("mean_value", mean).fill_nan(None),
        pl.Series("n_rows", g.scored.sum(axis=0), dtype=pl.Int64),
        pl.Series("item_rest_r", rest).fill_nan(None),
    )
    table = table.with_columns(
        ceiling=pl.col("mean_value") >= CEILING - 1e-9,
        floor=pl.col("mean_value") <= FLOOR + 1e-9,
        negative=pl.col("item_rest_r") < 0,
    )
    return ItemsResult(
        table=table,
        summary=_summary(table),
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={**g.asked, "rows": g.rows.height, "ceiling": CEILING, "floor": FLOOR},
        caption=f"Over {g.rows.height} rows; rows count on the tasks that they {g.gate_words}.",
    )


def task_means(g: Grid, used: Mask) -> Array:
    """Mean over rows of each task's value; NaN where no row has it."""
    return np.array([bootstrap.exact_mean(v[u]) for v, u in zip(g.values.T, used.T, strict=True)])


def item_rest(values: Array, scored: Mask) -> Array:
    """Item-rest correlation of each task of one dimension; shape (tasks,)."""
    kept = np.where(scored, values, 0.0)
    others = scored.sum(axis=1, keepdims=True) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = (kept.sum(axis=1, keepdims=True) - kept) / others
    there = scored & (others > 0)
    out = np.full(values.shape[1], np.nan)
    for t in range(values.shape[1]):
        a, b = kept[there[:, t], t], rest[there[:, t], t]
        if len(a) > 2 and np.ptp(a) > 1e-9 and np.ptp(b) > 1e-9:
            # A correlation of 0 must not take the sign of a rounding error, which hangs on the order of the rows.
            out[t] = np.round(np.corrcoef(a, b)[0, 1], 12) + 0.0
    return out


def _summary(table: pl.DataFrame) -> pl.DataFrame:
    rest = table["item_rest_r"]
    lines = [
        ("median_item_rest_r", rest.median()),
        ("ceiling_items", table["ceiling"].sum()),
        ("floor_items", table["floor"].sum()),
        ("negative_items", table["negative"].sum()),
        ("items_without_correlation", rest.null_count()),
        ("items_without_value", table["mean_value"].null_count()),
        ("items", table.height),
    ]
    pairs = [(name, None if value is None else float(value)) for name, value in lines]  # type: ignore[arg-type]
    return pl.DataFrame(pairs, schema={"quantity": pl.String, "value": pl.Float64}, orient="row")
