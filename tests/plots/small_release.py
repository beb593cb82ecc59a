"""A few models of the simulated release, under other names where a test wants them."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl

import cilab
from cilab.datasets import simulated_release
from cilab.datasets.dataset import Dataset
from tests.plots.release_results import _OPTIONS

#: Two of each group: F1, O1 and C1 have runs at high effort.
MODELS = ("sim:F1", "sim:O1", "sim:C1", "sim:F2", "sim:O2", "sim:C2")


@cache
def few(names: tuple[str, ...], tasks: int | None = None) -> Dataset:
    """As many models as there are names, which they have; `tasks` keeps the first so many tasks."""
    base = simulated_release(scale=0.1)
    mine = dict(zip(MODELS, names, strict=False))
    ids = base.runs.filter(pl.col("model").is_in(list(mine))).select("run_id", "task_id").collect()
    kept = ids["task_id"].unique().sort().head(tasks or ids.height)
    runs = ids.filter(pl.col("task_id").is_in(kept.implode()))["run_id"]
    tables = {}
    for name, table in base.tables.items():
        for column, there in (("run_id", runs), ("task_id", kept)):
            if column in table.columns:
                table = table.filter(pl.col(column).is_in(there.implode()))
        if name in ("runs", "models"):
            table = table.filter(pl.col("model").is_in(list(mine))).with_columns(pl.col("model").replace(mine))
        tables[name] = table
    return Dataset("few", tables, simulated=True, kind="simulated", truth=base.truth)


@cache
def result(stat: str, names: tuple[str, ...], tasks: int | None = None) -> Any:
    """`cilab.<stat>` of `few`."""
    return getattr(cilab, stat)(few(names, tasks), **_OPTIONS.get(stat, {}))
