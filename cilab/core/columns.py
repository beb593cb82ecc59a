"""Columns and tables as data: what each holds, since when, and which of its values fit.

May import `cilab.core.errors` and `cilab.core.plugins`. Reads no rows and knows no table: those are
`cilab.core.tables`. Columns that a benchmark brings of its own come by entry point, when a table is first asked for
them: importing this loads no benchmark.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache, cached_property
from typing import Any

import polars as pl

from cilab.core import plugins
from cilab.core.errors import CilabWarning

UTC = pl.Datetime("us", time_zone="UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name, dtype : the Polars name and data type.
    doc : what the column holds, with its unit.
    allowed : the closed list of values, or None where any value of the type may stand.
    required : True where null is an error.
    low, high : bounds of a number, both allowed; None for no bound.
    since : the version of the tables that brought it: parts of older versions are read with nulls. None where a
        package of others brings it: any part may be without it.
    hinted : known before a run is played, so that a plan may put it into a run spec's hints.
    after : of a column that a benchmark brings: the column that it follows. Else it follows the one before it in the
        benchmark's list, and the first one stands where the table has room for such columns.
    """

    name: str
    dtype: Any
    doc: str
    allowed: tuple[str, ...] | None = None
    required: bool = False
    low: float | None = None
    high: float | None = None
    since: int | None = 1
    hinted: bool = False
    after: str | None = None

    @property
    def bounded(self) -> bool:
        """True where a number has a bound."""
        return self.low is not None or self.high is not None

    @property
    def ruled(self) -> bool:
        """True where not every value of the type fits."""
        return self.required or self.allowed is not None or self.bounded or self.dtype == pl.Float64

    @property
    def kind(self) -> tuple[str, Callable[[Any], bool]]:
        """Its data type in words, and whether a value is of it."""
        return _KINDS[self.dtype.base_type()]

    def expected(self, version: int) -> bool:
        """Whether every part that a version of the tables wrote has it."""
        return self.since is not None and self.since <= version

    def misfit(self, value: Any) -> str | None:
        """Why one value (or, of a closed list, one word) does not fit; None when it does."""
        if self.allowed is not None:
            return None if value in self.allowed else f"{self.name} is {value!r}, not one of {', '.join(self.allowed)}"
        if isinstance(value, float) and not math.isfinite(value):
            return f"{self.name} is {value}; what is not known is null"
        if self.high is not None and value > self.high:
            guess = " (percentages must be divided by 100)" if self.low == 0 and self.high == 1 and value <= 100 else ""
            return f"{self.name} is {value}, above {self.high:g}{guess}"
        if self.low is not None and value < self.low:
            return f"{self.name} is {value}, below {self.low:g}"
        return None

    def problems(self, values: pl.Series) -> list[str]:
        """What does not fit of many values; at most one phrase."""
        if self.required and values.null_count():
            return [f"{values.null_count()} rows without {self.name}"]
        if values.null_count() == len(values):
            return []
        if self.allowed is not None:
            words = values.explode() if isinstance(self.dtype, pl.List) else values
            suspects = words.drop_nulls().unique().sort().to_list()
        elif self.dtype == pl.Float64 and not values.is_finite().all():
            suspects = [next(v for v in values if v is not None and not math.isfinite(v))]
        else:
            suspects = [values.max(), values.min()] if self.bounded else []
        return [problem for v in suspects if (problem := self.misfit(v))][:1]

    def problem(self, value: Any) -> str | None:
        """What does not fit of one value of the right type, null and lists included."""
        if value is None:
            return f"{self.name} is missing" if self.required else None
        if isinstance(value, list | tuple):
            return next((p for word in value if (p := self.misfit(word))), None)
        return self.misfit(value)


@dataclass(frozen=True)
class Table:
    """A named list of columns.

    Attributes
    ----------
    name, doc : what it is called, and what a row is.
    own : its columns but for those that benchmarks bring.
    room : the one of them before which benchmarks' columns stand; None where there are none.
    """

    name: str
    doc: str
    own: tuple[Column, ...]
    room: str | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns in order, those that benchmarks bring in their places."""
        return self.own if self.room is None else _placed(self.own, self.room, brought())

    @cached_property
    def schema(self) -> pl.Schema:
        """The Polars schema, columns in order."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The columns that hold a time."""
        return tuple(c.name for c in self.columns if isinstance(c.dtype, pl.Datetime))

    @cached_property
    def kinds(self) -> Mapping[str, tuple[str, Callable[[Any], bool]]]:
        """Each column's data type in words, and whether a value is of it."""
        return {c.name: c.kind for c in self.columns}

    @cached_property
    def ruled(self) -> tuple[Column, ...]:
        """The columns that not every value of the type fits."""
        return tuple(
            c for c in self.columns if c.required or c.allowed is not None or c.bounded or c.dtype == pl.Float64
        )

    @cached_property
    def hinted(self) -> tuple[str, ...]:
        """The columns that a plan may know."""
        return tuple(c.name for c in self.columns if c.hinted)


def text(name: str, doc: str, allowed: tuple[str, ...] | None = None, required: bool = False, **more: Any) -> Column:
    """A column of texts."""
    return Column(name, pl.String, doc, allowed, required, **more)


def texts(name: str, doc: str, allowed: tuple[str, ...] | None = None, **more: Any) -> Column:
    """A column of lists of texts."""
    return Column(name, pl.List(pl.String), doc, allowed, **more)


def whole(name: str, doc: str, required: bool = False, low: int | None = 0, **more: Any) -> Column:
    """A column of whole numbers, from 0 unless told otherwise."""
    return Column(name, pl.Int64, doc, None, required, low, **more)


def number(name: str, doc: str, low: float | None = None, high: float | None = None, **more: Any) -> Column:
    """A column of numbers."""
    return Column(name, pl.Float64, doc, None, False, low, high, **more)


def flag(name: str, doc: str, required: bool = False, **more: Any) -> Column:
    """A column of true and false."""
    return Column(name, pl.Boolean, doc, None, required, **more)


# -- columns that benchmarks bring ---------------------------------------------------------------------------


@cache
def brought() -> Mapping[str, tuple[Column, ...]]:
    """Columns of the runs table by the benchmark that brings them; those of other packages have no `since`.

    What is no tuple of columns is named in a warning, once, and left out.
    """
    found = {}
    for name, columns in plugins.loaded(plugins.COLUMNS).items():
        if not isinstance(columns, tuple) or not all(isinstance(c, Column) for c in columns):
            what = f"{plugins.COLUMNS}: {name} is no tuple of columns"
            warnings.warn(f"{what}; it is left out.", CilabWarning, stacklevel=2)
            continue
        ours = plugins.names(plugins.COLUMNS)[name].value.startswith("cilab.")
        found[name] = columns if ours else tuple(replace(c, since=None, required=False) for c in columns)
    return found


def _placed(own: Iterable[Column], room: str, more: Mapping[str, Iterable[Column]]) -> tuple[Column, ...]:
    """The columns of a table with those of benchmarks in their places.

    A column that is there already brings its words to the closed list; where there is none it is said and left out.
    """
    placed = {c.name: c for c in own}
    order = list(placed)
    for benchmark, columns in more.items():
        at = order.index(room)
        for column in columns:
            there = placed.get(column.name)
            if there is not None:
                if there.allowed is not None and column.allowed is not None and there.dtype == column.dtype:
                    placed[column.name] = replace(there, allowed=column.allowed + there.allowed)
                elif there != column:
                    what = f"{benchmark} brings {column.name!r}, which is there already"
                    warnings.warn(f"{plugins.COLUMNS}: {what}; it is left out.", CilabWarning, stacklevel=2)
                continue
            if column.after in order:
                at = order.index(column.after) + 1
            placed[column.name] = column
            order.insert(at, column.name)
            at += 1
    return tuple(placed[name] for name in order)


# -- values of a data type ----------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    # Exact types first: an abstract base class is slow to ask, and rows are many.
    whole = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    return whole and -(2**63) <= value < 2**63


def _is_float(value: Any) -> bool:
    return type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_date(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    pl.String: ("text", _is_text),
    pl.Int64: ("a whole number of 64 bits", _is_int),
    pl.Float64: ("a number", _is_float),
    pl.Boolean: ("true or false", _is_bool),
    pl.List: ("a list of texts", _is_texts),
    pl.Datetime: ("a time with its zone", _is_time),
    pl.Date: ("a date", _is_date),
}
