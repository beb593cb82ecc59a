"""What a row of a result is called, and which rows stand at their model's default.

May import nothing of ours. A row is a model at an effort and in an arm.
"""

from __future__ import annotations

import polars as pl

_ROW = ("model", "effort", "arm")
_BETWEEN = " · "


def row_names(keys: list[tuple[str, str | None, str | None]]) -> dict[tuple[str, str | None, str | None], str]:
    """The model's name; with effort or arm added where one model stands in several rows that differ in it."""
    out = {}
    for model, effort, arm in keys:
        same = [k for k in keys if k[0] == model]
        parts = [model]
        if len({k[1] for k in same}) > 1:
            parts.append(effort or "default effort")
        if len({k[2] for k in same}) > 1:
            parts.append(arm or "no arm")
        out[model, effort, arm] = _BETWEEN.join(parts)
    return out


def names_of(table: pl.DataFrame) -> list[str]:
    """Name of every line of a table with `model, effort, arm`."""
    keys = table.select(_ROW).rows()
    named = row_names(list(dict.fromkeys(keys)))
    return [named[key] for key in keys]


def model_of(row: str) -> str:
    """The model in the name of a row."""
    return row.partition(_BETWEEN)[0]


def raised(table: pl.DataFrame) -> list[bool]:
    """For every line: does the model stand here at another setting than its default effort?"""
    several = {m for m, n in table.unique(["model", "effort"])["model"].value_counts().rows() if n > 1}
    return [m in several and e not in (None, "default") for m, e in table.select("model", "effort").rows()]


def at_default(table: pl.DataFrame) -> pl.DataFrame:
    """The lines of rows at their model's default effort and without an arm; all lines where that leaves none."""
    plain = table.filter(~pl.Series(raised(table), dtype=pl.Boolean) & pl.col("arm").is_null())
    return plain if plain.height else table
