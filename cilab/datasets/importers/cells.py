"""One column of a source into one column of our tables: types, repairs, and the values that cannot stand.

May import `cilab.core`, this folder's `mapping`, `reading` and `report`. Pure functions over polars Series.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

import polars as pl

from cilab.core.columns import Column as OurColumn
from cilab.datasets.importers.mapping import Column

#: Texts that mean "missing" where an id belongs.
MISSING_IDS = ("", "None", "none", "nan", "NaN", "null", "NULL")
#: Columns that hold fractions, 0 to 1.
FRACTIONS = ("score", "joint_share", "wall_density", "old_score", "new_score")
COSTS = ("cost_usd", "cost_usd_team")
_TRUE = ("true", "yes", "y", "t")
_FALSE = ("false", "no", "n", "f")


@dataclass
class Cells:
    """One of our columns, made.

    Attributes
    ----------
    values : the column, of the table's type.
    bad : reason -> mask of the rows whose value cannot stand.
    repaired : reason -> mask of the rows whose value was changed.
    lost : mask of the rows whose source cell cannot be told from the value; it is kept as extra.
    """

    values: pl.Series
    bad: dict[str, pl.Series] = field(default_factory=dict)
    repaired: dict[str, pl.Series] = field(default_factory=dict)
    lost: pl.Series | None = None

    def lose(self, mask: pl.Series) -> None:
        self.lost = mask if self.lost is None else self.lost | mask


def build(df: pl.DataFrame, column: Column, ours: OurColumn) -> Cells:
    """Our column `ours` from the source rows `df`."""
    if column.value is not None:
        constant = pl.Series(ours.name, [column.value], dtype=pl.String, strict=False)
        made = _typed(Cells(constant), ours, column)
        return Cells(
            made.values.new_from_index(0, df.height), {k: m.new_from_index(0, df.height) for k, m in made.bad.items()}
        )
    if column.template is not None:
        return Cells(_template(df, column.template, ours.required).alias(ours.name))
    if column.hash is not None:
        return Cells(hashes(df.select(column.hash)).alias(ours.name))
    source = df[column.from_].alias(ours.name)
    if source.dtype.is_nested() and not isinstance(ours.dtype, pl.List) and (ours.required or ours.dtype != pl.String):
        whole = "lists" if isinstance(source.dtype, pl.List | pl.Array) else "records"
        unread = source.is_not_null()
        empty = pl.Series(ours.name, [None], dtype=ours.dtype).new_from_index(0, df.height)
        return Cells(empty, bad={f"holds {whole}, not single values": unread})
    cells = Cells(source)
    is_id = ours.required and ours.dtype == pl.String
    if column.values or column.null_if or is_id or ours.dtype == pl.String or isinstance(ours.dtype, pl.List):
        texts = as_text(source)
        cells = Cells(texts)
        if is_id:
            _tidy_ids(cells)
        _null_if(cells, column.null_if)
        _map_values(cells, column)
    return _typed(cells, ours, column)


def as_text(source: pl.Series) -> pl.Series:
    """A column as text: whole floats without `.0`, truth values as true and false."""
    if source.dtype == pl.String:
        return source
    if source.dtype.is_float() and (source.drop_nulls().drop_nans() % 1 == 0).all():
        return source.fill_nan(None).cast(pl.Int64, strict=False).cast(pl.String)
    if source.dtype.is_nested() or source.dtype == pl.Binary:
        return pl.Series(source.name, [None if v is None else str(v) for v in source.to_list()], dtype=pl.String)
    return source.cast(pl.String)


def _tidy_ids(cells: Cells) -> None:
    before = cells.values
    known = before.drop_nulls()
    if known.len() and known.str.contains(r"^-?\d+\.0$").all():
        cells.values = before.str.strip_suffix(".0")
        cells.repaired["whole numbers written with .0 read as ids"] = before.is_not_null()
    missing = cells.values.is_in(list(MISSING_IDS)).fill_null(False)
    if missing.any():
        cells.values = _nulled(cells.values, missing)
        cells.repaired["a word for missing read as missing"] = missing
        cells.lose(missing)


def _null_if(cells: Cells, words: list[str]) -> None:
    if not words:
        return
    hit = cells.values.is_in(words).fill_null(False)
    if hit.any():
        quoted = ", ".join(repr(w) for w in words)
        cells.values = _nulled(cells.values, hit)
        cells.repaired[f"{quoted} read as missing (by the mapping)"] = hit
        cells.lose(hit)


def _map_values(cells: Cells, column: Column) -> None:
    if not column.values:
        return
    before = cells.values
    default = None if column.otherwise == "null" else before
    cells.values = before.replace_strict(
        list(column.values), list(column.values.values()), default=default, return_dtype=pl.String
    )
    cells.lose((before.ne_missing(cells.values)) & before.is_not_null())


def _typed(cells: Cells, ours: OurColumn, column: Column) -> Cells:
    dtype = ours.dtype
    if dtype == pl.String:
        return cells
    if dtype.is_numeric():
        return _number(cells, ours, column)
    if dtype == pl.Boolean:
        return _truth(cells, ours)
    if isinstance(dtype, pl.List):
        texts = cells.values.str.split(column.split or "|").list.eval(pl.element().str.strip_chars())
        cells.values = texts.list.eval(pl.element().filter(pl.element() != ""))
        return cells
    if isinstance(dtype, pl.Datetime):
        return _time(cells, ours, column)
    cells.values = cells.values.cast(dtype, strict=False)
    return cells


def _number(cells: Cells, ours: OurColumn, column: Column) -> Cells:
    before = cells.values
    if before.dtype == pl.Boolean:
        numbers = before.cast(pl.Float64)
    elif before.dtype == pl.String:
        numbers, unread = _parse(before)
        cells.bad["is no number"] = unread
    else:
        numbers = before.cast(pl.Float64, strict=False)
    nan = numbers.is_nan().fill_null(False)
    if nan.any():
        numbers = _nulled(numbers, nan)
        cells.repaired["NaN read as missing"] = nan
    if column.scale is not None:
        # Rounding takes away what the binary product adds: 35.6 * 0.01 is 0.356, not 0.35600000000000004.
        numbers = (numbers * column.scale).round(12)
    cells.bad["is infinite"] = numbers.is_infinite().fill_null(False)
    if ours.dtype.is_integer():
        cells.bad["is no whole number"] = ((numbers % 1) != 0).fill_null(False)
        cells.values = numbers.cast(ours.dtype, strict=False)
    else:
        cells.values = numbers
    return cells


def _parse(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """(numbers, mask of texts that are none); words for truth are 1 and 0, an empty text is missing."""
    # `93 %` is read as 93: the check of fractions then refuses it with a guess, and a scale mends it.
    stripped = texts.str.strip_chars().str.strip_suffix("%").str.strip_chars()
    numbers = stripped.cast(pl.Float64, strict=False)
    if numbers.null_count() > stripped.null_count():
        word = stripped.str.to_lowercase()
        truth = word.replace_strict([*_TRUE, *_FALSE], [1.0] * 4 + [0.0] * 4, default=None, return_dtype=pl.Float64)
        numbers = numbers.zip_with(numbers.is_not_null(), truth)
    return numbers, numbers.is_null() & stripped.is_not_null() & (stripped != "")


def _truth(cells: Cells, ours: OurColumn) -> Cells:
    before = cells.values
    if before.dtype == pl.Boolean:
        return cells
    numbers, unread = _parse(before if before.dtype == pl.String else before.cast(pl.String))
    cells.bad["is neither true nor false"] = (unread | ~numbers.is_in([0.0, 1.0])).fill_null(False)
    cells.values = (numbers == 1).alias(ours.name)
    return cells


def _time(cells: Cells, ours: OurColumn, column: Column) -> Cells:
    before = cells.values
    if isinstance(before.dtype, pl.Datetime):
        aware = (
            before.dt.replace_time_zone("UTC") if before.dtype.time_zone is None else before.dt.convert_time_zone("UTC")
        )
        cells.values = aware.cast(ours.dtype)
        return cells
    if column.unit == "iso":
        texts = as_text(before)
        times = texts.str.to_datetime(time_zone="UTC", time_unit="us", strict=False)
        times = times.zip_with(times.is_not_null(), texts.str.to_date(strict=False).cast(ours.dtype))
    else:
        numbers = before if before.dtype.is_numeric() else _parse(before)[0]
        factor = 1000 if column.unit == "ms" else 1_000_000
        times = (numbers * factor).cast(pl.Int64, strict=False).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    cells.bad["is no time (say its unit: iso, s or ms)"] = times.is_null() & before.is_not_null()
    cells.values = times.cast(ours.dtype)
    return cells


def _nulled(values: pl.Series, mask: pl.Series) -> pl.Series:
    return values.zip_with(~mask, pl.Series(values.name, [None], dtype=values.dtype).new_from_index(0, values.len()))


def _template(df: pl.DataFrame, template: str, is_id: bool) -> pl.Series:
    """The parts put together; null where a part is missing (in an id, also where it is a word for missing)."""
    parts: list[pl.Expr] = []
    for literal, name, _, _ in Formatter().parse(template):
        parts.append(pl.lit(literal))
        if name:
            text = as_text(df[name])
            parts.append(pl.lit(_nulled(text, text.is_in(list(MISSING_IDS)).fill_null(False)) if is_id else text))
    return df.select(pl.concat_str(parts, ignore_nulls=False)).to_series()


def can_be_undone(df: pl.DataFrame, template: str) -> bool:
    """True when the parts can be read off every text that the template makes: no part holds what stands between."""
    parsed = list(Formatter().parse(template))
    names = [name for _, name, _, _ in parsed if name]
    between = [literal for literal, name, _, _ in parsed[1:] if name]
    if any(not literal for literal in between):
        return False
    return not any(as_text(df[n]).str.contains(b, literal=True).any() for n in names for b in between)


def hashes(df: pl.DataFrame) -> pl.Series:
    """20 hex digits for each row over the texts of its cells."""
    columns = [as_text(df[c]).to_list() for c in df.columns]
    return pl.Series([text_hash(row) for row in zip(*columns, strict=True)], dtype=pl.String)


def text_hash(parts: Any) -> str:
    """20 hex digits over texts (None is told from an empty text)."""
    joined = "\x1f".join("\x00" if p is None else str(p) for p in parts)
    return hashlib.blake2b(joined.encode("utf-8", "replace"), digest_size=10).hexdigest()
