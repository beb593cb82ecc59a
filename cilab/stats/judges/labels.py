"""Judges' labels as statistics read them.

May import `cilab.core` and `cilab.results.result`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, read_rows


def read_labels(study: Any) -> tuple[pl.DataFrame, Provenance]:
    """The labels of a study (run_id, index, rater, label, gives_way), and where they come from.

    Raises
    ------
    TableError
        There are none, or a rater labelled a message twice.
    """
    lazy = getattr(study, "labels", None)
    if not isinstance(lazy, pl.LazyFrame):
        raise TableError(f"labels: needs an opened study or a data set with labels, not {type(study).__name__}")
    labels = lazy.select("run_id", "index", "rater", "label", "gives_way").collect()
    if labels.is_empty():
        raise TableError("labels: none in this study")
    double = labels.filter(pl.struct("run_id", "index", "rater").is_duplicated())
    if double.height:
        run, index, rater = double.select("run_id", "index", "rater").row(0)
        raise TableError(f"labels: {rater} labelled message {index} of run {run} more than once")
    return labels, read_rows(study, ("run_id",), ("model", "partner_model"))[1]


def wide(labels: pl.DataFrame, value: str, raters: Sequence[str]) -> pl.DataFrame:
    """One row per message (run_id, index), one column per rater with its `value`; sorted.

    Raises
    ------
    TableError
        A rater has no label.
    """
    known = sorted(labels["rater"].unique().to_list())
    if gone := [r for r in raters if r not in known]:
        raise TableError(f"labels: no label of rater {gone[0]!r}.{nearest(gone[0], known)} Known: {', '.join(known)}")
    kept = labels.filter(pl.col("rater").is_in(list(raters)))
    table = kept.pivot(on="rater", index=["run_id", "index"], values=value)
    return table.select("run_id", "index", *raters).sort("run_id", "index")
