"""A claim that is a cell of a result: which estimator of the face, with which settings, which line and columns.

May import its own folder. Computes nothing: an estimator's result holds the number, or it is a missing input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from cilab.claims.data import Answer, Estimator, Inputs, MissingInput, Relation, Source

#: Resamples where only points are shown, the fewest that estimators draw; where the claim has an interval the
#: estimator's own number is used.
FEW = 20

#: Remark of a claim with a tolerance of its own.
NARROW = "narrower tolerance than usual, which would call any such number near"


def rows(
    inputs: Inputs,
    function: str,
    where: Mapping[str, Any],
    *,
    frame: str = "table",
    settings: Mapping[str, Any] | None = None,
    lacking: str = "",
) -> pl.DataFrame:
    """The lines of one table of the result of `cilab.<function>`.

    Parameters
    ----------
    where : column -> value, or a tuple of values; None is a value like any other.
    settings : arguments of the function; a callable one is asked for its value with the inputs.
    lacking : what the data lack where there is no such line; None names the values.

    Raises
    ------
    MissingInput
        There is no such line, or the function refuses the data.
    """
    given = {name: value(inputs) if callable(value) else value for name, value in (settings or {}).items()}
    found = getattr(inputs.result(function, **given), frame).filter(
        *(
            pl.col(c).is_in(v, nulls_equal=True) if isinstance(v, tuple) else pl.col(c).eq_missing(pl.lit(v))
            for c, v in where.items()
        )
    )
    if found.height == 0:
        raise MissingInput(f"{lacking or ', '.join(map(str, where.values()))} in {inputs.name}")
    return found


def cell(
    function: str,
    where: Mapping[str, Any],
    *,
    source: Source = "tasks",
    frame: str = "table",
    note: Callable[[dict[str, Any]], str] = lambda row: "",
    settings: Mapping[str, Any] | None = None,
    lacking: str = "",
    relation: Relation = "equal",
    tolerance: float | None = None,
    why: str = "",
    simulated: str = "",
    times: float = 1,
    **parts: str,
) -> Estimator:
    """A claim whose parts are columns of one line of a result, `times` 100 where a fraction is claimed in percent.

    Other arguments as in `rows` and `Estimator`.
    """

    def compute(inputs: Inputs) -> Answer:
        whole = inputs.with_tables() if source == "tasks" else inputs
        row = rows(whole, function, where, frame=frame, settings=settings, lacking=lacking).row(0, named=True)
        values = {part: row[column] for part, column in parts.items()}
        if all(v is None for v in values.values()):
            reasons = (row.get(c) for c in ("note", "reason", "undefined"))
            unknown = f"{lacking} in {inputs.name}" if lacking else f"a value for {where}"
            raise MissingInput(next(filter(None, reasons), unknown))
        return Answer(**{part: v if v is None else times * v for part, v in values.items()}, note=note(row))

    why = "; ".join(filter(None, ("" if tolerance is None else NARROW, why)))
    return Estimator(f"cilab.{function}", source, compute, tolerance, relation, why, simulated)


def span(
    function: str,
    where: Mapping[str, Any],
    column: str,
    *,
    frame: str = "table",
    settings: Mapping[str, Any] | None = None,
    simulated: str = "",
    times: float = 1,
) -> Estimator:
    """A claim that is the least and the largest value of a column over dimensions; arguments as in `cell`."""

    def compute(inputs: Inputs) -> Answer:
        values = rows(inputs.with_tables(), function, where, frame=frame, settings=settings)[column].drop_nulls()
        if values.len() == 0:
            raise MissingInput(f"{column} in {inputs.name}")
        low, high = (times * float(end) for end in (values.min(), values.max()))  # type: ignore[arg-type]
        return Answer(lo=low, hi=high, note=f"over {values.len()} dimensions")

    return Estimator(f"cilab.{function}", "tasks", compute, simulated=simulated)
