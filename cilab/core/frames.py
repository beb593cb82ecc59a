"""Frames of any kind as polars, rows with their origin, and where a result's rows come from.

Imports `cilab.core` and nothing else of ours. Reads no file and calls no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from cilab.core.errors import CilabError, TableError, first_line, nearest
from cilab.core.version import __version__
from cilab.core.vocabulary import is_simulated


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result's rows come from.

    Attributes
    ----------
    study : name of the study, or the names found in the rows, joined by " + ".
    data_hash : hash of the data; for a bare frame, of the rows that were read, in any order.
    simulated : True when any agent in the data is simulated.
    last_finished_at : when the last rollout finished (UTC), or None where the data do not say.
    code_version : version of cilab that computed the result.
    """

    study: str
    data_hash: str
    simulated: bool
    last_finished_at: datetime | None
    code_version: str

    def line(self) -> str:
        """The small print: one sentence."""
        when = self.last_finished_at
        last = f"last rollout finished {_minute(when)}" if when else "no finishing times"
        return f"Study {self.study}, data {self.data_hash[:12]}, {last}, cilab {self.code_version}."

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-able values, for a file's metadata."""
        last = self.last_finished_at
        return {
            "study": self.study,
            "data_hash": self.data_hash,
            "simulated": self.simulated,
            "last_finished_at": None if last is None else last.astimezone(UTC).isoformat(),
            "code_version": self.code_version,
        }


def as_lazy(
    data: Any,
    must: str,
    *,
    columns: Collection[str] | None = None,
    error: type[CilabError] = TableError,
    hint: str = "",
) -> pl.LazyFrame:
    """`data` as a polars LazyFrame: polars, pandas, or anything that speaks Arrow (pyarrow, DuckDB).

    Parameters
    ----------
    must : how a refusal begins: what it is, and what it must be.
    columns : those that are wanted, as far as they are there; an odd column elsewhere is no concern of ours.
    error : class of the refusal.
    hint : how a refusal ends.
    """
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data.lazy()
    pandas = _is_pandas(data)
    if not pandas and not hasattr(data, "__arrow_c_stream__"):
        raise error(f"{must}, not {type(data).__name__}{hint}")
    try:
        if not pandas:
            return pl.DataFrame(data).lazy()
        kept = data if columns is None else data[[c for c in data.columns if c in columns]]
        return pl.from_pandas(kept).lazy()
    except (pl.exceptions.PolarsError, TypeError, ValueError, ArithmeticError) as e:
        what = must.partition(" ")[0].rstrip(":")
        raise error(f"{what}: a pandas column cannot be read: {first_line(e)}") from None


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def as_frame(data: Any, must: str, **how: Any) -> pl.DataFrame:
    """As `as_lazy`, in memory."""
    return as_lazy(data, must, **how).collect()


def _is_study(data: Any) -> bool:
    bare = isinstance(data, pl.DataFrame | pl.LazyFrame) or _is_pandas(data) or hasattr(data, "__arrow_c_stream__")
    return not bare and hasattr(data, "runs")


def runs_of(data: Any, columns: Sequence[str]) -> pl.LazyFrame:
    """The runs of an opened study or data set, or a frame of runs; of pandas only the wanted columns."""
    return as_lazy(
        data.runs if _is_study(data) else data,
        "runs must be a polars or pandas DataFrame or an opened study",
        columns=columns,
        hint="; open the study first: cilab.open(path)" if isinstance(data, str) else "",
    )


def read_rows(data: Any, required: Sequence[str], optional: Sequence[str] = ()) -> tuple[pl.DataFrame, Provenance]:
    """The wanted columns of runs, in memory, and where they come from.

    Parameters
    ----------
    data : polars DataFrame or LazyFrame, pandas DataFrame, or an opened study (anything with a LazyFrame `.runs`;
        its `.name`, `.data_hash`, `.simulated` and `.last_finished_at` are the provenance).
    required : columns that must be there.
    optional : columns that are read where they are there, and null where not.

    Returns
    -------
    rows : DataFrame with the columns `required + optional`.
    provenance : of the study, or read off the rows.

    Raises
    ------
    TableError
        `data` is something else, has no rows, or lacks a required column.
    """
    study = data if _is_study(data) else None
    lazy = runs_of(data, (*required, *optional, "study", "finished_at"))
    there = lazy.collect_schema().names()
    missing = [c for c in required if c not in there]
    if missing:
        hints = "".join(nearest(c, there, 1) for c in missing)
        raise TableError(f"runs: missing column {', '.join(missing)}.{hints}")
    wanted = [*required, *(c for c in optional if c not in required)]
    rows = lazy.select([c for c in dict.fromkeys([*wanted, "study", "finished_at"]) if c in there]).collect()
    if rows.height == 0:
        raise TableError("runs: no rows; nothing has been collected yet, or a filter left nothing")
    source = _of_study(study, rows) if study is not None else _of_rows(rows)
    gone = [pl.lit(None).alias(c) for c in wanted if c not in there]
    return rows.with_columns(gone).select(wanted), source


def _of_study(study: Any, rows: pl.DataFrame) -> Provenance:
    return Provenance(
        study=str(getattr(study, "name", "unnamed")),
        data_hash=str(getattr(study, "data_hash", None) or _hash(rows)),
        simulated=bool(getattr(study, "simulated", False)) or _any_simulated(rows),
        last_finished_at=getattr(study, "last_finished_at", None) or _last(rows),
        code_version=__version__,
    )


def _of_rows(rows: pl.DataFrame) -> Provenance:
    names = sorted(rows["study"].drop_nulls().unique().to_list()) if "study" in rows.columns else []
    return Provenance(
        study=" + ".join(map(str, names)) or "unnamed",
        data_hash=_hash(rows),
        simulated=_any_simulated(rows),
        last_finished_at=_last(rows),
        code_version=__version__,
    )


def _any_simulated(rows: pl.DataFrame) -> bool:
    return any(
        is_simulated(name)
        for c in ("model", "partner_model")
        if c in rows.columns
        for name in rows[c].cast(pl.String, strict=False).unique()
    )


def _hash(rows: pl.DataFrame) -> str:
    """Hash of the rows' content; the order of rows and columns does not matter."""
    plain = rows.select(_as_text(c, rows.schema[c]) for c in sorted(rows.columns))
    text = plain.sort(plain.columns, nulls_last=True).write_csv(null_value="\\N")
    return hashlib.blake2b(text.encode(), digest_size=15).hexdigest()


def _as_text(column: str, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return pl.col(column).list.eval(pl.element().cast(pl.String)).list.join("\x1f")
    return pl.col(column).cast(pl.String, strict=False)


def _last(rows: pl.DataFrame) -> datetime | None:
    last = rows["finished_at"].max() if "finished_at" in rows.columns else None
    if not isinstance(last, datetime):
        return None
    return last if last.tzinfo else last.replace(tzinfo=UTC)


def _minute(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
