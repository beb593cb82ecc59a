"""Every estimator of the face on few, clustered and saturated data: no interval of width 0, no star, words instead.

Whatever frame a result holds is searched for pairs of columns `...lo...` and `...hi...`: a new estimator is walked
without a line here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import polars as pl
import pytest

import cilab
from cilab import datasets
from cilab.core.errors import CilabError
from tests.frozen import outputs

#: Settled elsewhere: they do not resample units (Fisher's z over models, Wilson's over simulations, bounds of a rank).
_OTHER = ("lo_models", "power_lo", "rank_lo")
#: One task a dimension; four that all score 1.
_TASKS = ("one", "passed")


@cache
def _cut(how: str) -> Any:
    """The simulated release with few tasks a dimension, or with one score for all."""
    whole = datasets.simulated_release()
    tasks = whole.runs.select("task_id", "dimension").unique().collect().sort("task_id")
    many = 1 if how == "one" else 4
    kept = tasks.group_by("dimension", maintain_order=True).head(many)["task_id"].to_list()
    runs = whole.runs.filter(pl.col("task_id").is_in(kept)).collect()
    if how == "passed":
        runs = runs.with_columns(score=pl.when(pl.col("status") == "ok").then(1.0).otherwise("score"))
    keys = {"run_id": runs["run_id"].to_list(), "task_id": kept}
    tables = {}
    for name, table in whole.tables.items():
        key = next((key for key in keys if key in table.columns), None)
        tables[name] = table if key is None else table.filter(pl.col(key).is_in(keys[key]))
    return dataclasses.replace(whole, tables=tables | {"runs": runs})


def _pairs(columns: list[str]) -> Iterator[tuple[str, str]]:
    """`(lo, hi)` of every interval among the columns."""
    for lo in columns:
        parts = lo.split("_")
        if "lo" in parts and lo not in _OTHER:
            hi = "_".join("hi" if part == "lo" else part for part in parts)
            if hi in columns:
                yield lo, hi


def _teamwork() -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, arguments)
        for key, name, data, arguments in outputs.calls()
        if key == name and name not in outputs._MAZES
    ]


def _widths(found: Any) -> Iterator[tuple[str, str, float]]:
    for field in dataclasses.fields(found):
        table = getattr(found, field.name)
        if isinstance(table, pl.DataFrame):
            for lo, hi in _pairs(table.columns):
                for width in (table[hi] - table[lo]).drop_nulls():
                    yield field.name, lo, width


@pytest.mark.parametrize("how", _TASKS)
@pytest.mark.parametrize("name", sorted({name for name, _ in _teamwork()}))
def test_no_estimator_shows_an_interval_without_a_width(name: str, how: str) -> None:
    arguments = dict(_teamwork())[name]
    try:
        found = getattr(cilab, name)(_cut(how), **arguments)
    except CilabError as refused:
        assert "\n" not in str(refused).strip() and len(str(refused)) > 20
        return
    assert [(frame, column) for frame, column, width in _widths(found) if width < 1e-9] == []
    assert "± 0.0" not in str(found)
    assert found.sheet() is not None
    if found.figure is not None:
        try:
            found.plot()
        except CilabError as nothing:
            assert "nothing to draw" in str(nothing)
        finally:
            plt.close("all")


@pytest.mark.parametrize("name", ["leaderboard", "dimensions", "group_means", "failures", "noticed", "effort"])
def test_where_a_number_has_no_interval_words_stand_in_its_place(name: str) -> None:
    table = getattr(cilab, name)(_cut("one"), **dict(_teamwork())[name]).table
    pair = next(_pairs(table.columns))
    value = table.columns[table.columns.index(pair[0]) - 1]
    bare = table.filter(pl.col(pair[0]).is_null() & pl.col(value).is_not_null())
    assert bare["no_interval"].null_count() == 0


def test_every_estimator_with_an_interval_takes_the_rule_or_the_papers_percentile_by_name() -> None:
    asked = (
        "leaderboard",
        "dimensions",
        "differences",
        "compare",
        "weighting",
        "capability",
        "effort",
        "loss",
        "pareto",
    )
    asked += (
        "conflict",
        "fill_in",
        "failures",
        "noticed",
        "takeover",
        "sources",
        "group_means",
        "dimension_correlations",
    )
    for name in asked:
        assert "interval" in inspect.signature(getattr(cilab, name)).parameters, name
