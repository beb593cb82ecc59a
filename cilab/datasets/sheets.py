"""Tables for print that no estimator computes: numbers as the papers print them, and the registry's models.

May import `cilab.core`, `cilab.results` and `cilab.datasets.published`. Every cell stands in a file of the package.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from cilab.core import registry
from cilab.core.errors import TableError, nearest
from cilab.datasets.published import published_table
from cilab.results.numbers import NONE, decimals, number
from cilab.results.sheet import Sheet


def published(name: str, **where: Any) -> Sheet:
    """A table as it was printed: the numbers of a column have the same decimals.

    Parameters
    ----------
    name : of the published table, such as `maze_grader_agreement`.
    where : column=value; only the lines that have it.

    Raises
    ------
    TableError
        There is no published table of that name, it has no such column, or no line fits.
    """
    frame = published_table(name)
    for column, value in where.items():
        if column not in frame.columns:
            raise TableError(f"{name} has no column {column}.{nearest(column, frame.columns)}")
        frame = frame.filter(pl.col(column) == value)
    if not frame.height:
        raise TableError(f"{name} has no line with {', '.join(f'{c} {v}' for c, v in where.items())}")
    which = "".join(f", {column} {value}" for column, value in where.items())
    return Sheet(
        title=f"{name.replace('_', ' ').capitalize()} (printed{which})",
        cells=pl.DataFrame([_as_text(values) for values in frame.drop(where)]),
        notes=(f"As printed: table {name} of data/published.",),
    )


def models(study: str | None = None) -> Sheet:
    """The models of the registry: table 1 of the collaboration-gap paper, and who stands in the other one.

    Parameters
    ----------
    study : `maze` or `teamwork`; None takes all models.

    Raises
    ------
    TableError
        No model belongs to the study.
    """
    table = registry.models()
    if study is not None:
        table = table.filter(pl.col("studies").str.split(" ").list.contains(study))
    if not table.height:
        raise TableError(f"no model of the registry belongs to the study {study!r}")
    cells = table.sort("builder", maintain_order=True).select(
        pl.col("model").alias("Model"),
        pl.col("builder").alias("Builder"),
        *(_flag(c).alias(words) for c, words in (("open_weights", "Open weights"), ("distilled", "Distilled"))),
        pl.col("released").cast(pl.String).fill_null(NONE).alias("Released"),
    )
    return Sheet(title="Models", cells=cells, group="Builder", notes=("Registry of models, data/models.csv.",))


def _flag(column: str) -> pl.Expr:
    return pl.when(pl.col(column)).then(pl.lit("yes")).when(~pl.col(column)).then(pl.lit("no")).otherwise(pl.lit("?"))


def _as_text(values: pl.Series) -> pl.Series:
    """The same cells as text, under a heading in words."""
    if values.dtype == pl.Boolean:
        text = ["yes" if v else "no" for v in values]
    elif values.dtype.is_float():
        digits = decimals(values)
        text = [number(v, digits, NONE) for v in values]
    else:
        text = [NONE if v is None else str(v) for v in values]
    words = values.name.removesuffix("_pct").replace("_", " ")
    unit = " (%)" if values.name.endswith("_pct") else ""
    return pl.Series({"icc": "ICC", "n": "n"}.get(values.name, words.capitalize()) + unit, text, dtype=pl.String)
