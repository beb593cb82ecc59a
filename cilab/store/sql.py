"""Questions in SQL: one DuckDB SELECT over a study's tables. It cannot write, nor reach any other file.

May import `cilab.store.parts` and `cilab.core`.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import StoreError, nearest
from cilab.core.tables import empty, valid_text
from cilab.store.parts import RUN_TABLES, Parts, collect

_READS = "a query is one SELECT; it cannot write, load or set anything"
_LEADING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
#: Tables of a rollout itself; the others are remarks on it, and those of several studies add up.
OF_THE_ROLLOUT = ("runs", "messages", "calls")
#: Types that Polars takes from DuckDB as they are. Others (intervals, unions) go through pyarrow.
_PLAIN = {
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "VARCHAR[]"),
    *("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
}
#: The tables that can be asked.
_NAMES = (*RUN_TABLES, "models")
_SHOW_TABLES = re.compile(r"\s*show\s+(?:all\s+)?tables\s*;?\s*", re.I)
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*explain(?:\s+analyze)?\s*(?:\([^)]*\))?", re.DOTALL | re.I)


@dataclass(frozen=True)
class Source:
    """What a table of a study is made of: Parquet parts, and rows that are in the journal only.

    Attributes
    ----------
    name : the table.
    parts : its files, those with the same columns together.
    rows : rows of the journal, or None.
    without : run ids that are left out of the parts and rows (seen in another study already).
    """

    name: str
    parts: Parts
    rows: pl.DataFrame | None = None
    without: frozenset[str] = frozenset()

    def lazy(self) -> pl.LazyFrame:
        """The table, read when and where it is asked for."""
        lazy = self.parts.lazy()
        if self.rows is not None:
            lazy = stacked([(lazy, self.parts.schema), (self.rows.lazy(), self.rows.schema)])
        return lazy.filter(~pl.col("run_id").is_in(list(self.without))) if self.without else lazy

    @property
    def schema(self) -> pl.Schema:
        """The table's columns, and then those that are not known here."""
        return pl.Schema({**self.parts.schema, **({} if self.rows is None else self.rows.schema)})


def stacked(frames: Sequence[tuple[pl.LazyFrame, pl.Schema]]) -> pl.LazyFrame:
    """Frames of one table, with their schemas, one below the other; a column that one does not have is null in it."""
    same = all(schema == frames[0][1] for _, schema in frames)
    return pl.concat([lazy for lazy, _ in frames], how="vertical" if same else "diagonal_relaxed")


def _view(db: Any, name: str, sources: Sequence[Source]) -> list[str]:
    """Make a view over the parts and rows of a table, so that DuckDB reads only what a query needs; the files used."""
    selects, files = [], []
    for number, source in enumerate(sources):
        unseen = ""
        if source.without:
            db.register(f"_{name}_{number}_without", pl.DataFrame({"id": sorted(source.without)}).to_arrow())
            unseen = f" WHERE run_id NOT IN (SELECT id FROM _{name}_{number}_without)"
        if not source.parts.complete:  # the columns and their order, for parts that are without some
            db.register(f"_{name}_{number}_shape", pl.DataFrame(schema=source.schema).to_arrow())
            selects.append(f"SELECT * FROM _{name}_{number}_shape")
        for _, alike in source.parts.alike:
            paths = [os.path.abspath(path) for path in alike]
            files += paths
            listed = _sql_list([glob.escape(path) for path in paths])
            selects.append(f"SELECT * FROM read_parquet({listed}){unseen}")
        if source.rows is not None or not source.parts.alike:
            rows = empty(name) if source.rows is None else source.rows
            db.register(f"_{name}_{number}", rows.to_arrow())
            selects.append(f"SELECT * FROM _{name}_{number}{unseen}")
    table = " UNION ALL BY NAME ".join(selects)
    if len(sources) > 1 and name not in OF_THE_ROLLOUT:  # the same remark in two studies is one
        table = f"SELECT DISTINCT * FROM ({table})"
    db.execute(f"CREATE VIEW {name} AS {table}")
    return files


def answer(query: str, read: Callable[[str], Any]) -> pl.DataFrame:
    """Answer a DuckDB SELECT.

    Parameters
    ----------
    query : one SELECT over the tables by their names.
    read : name -> an Arrow table (or data set), a `Source`, or a list of them; asked for the tables named only.

    Raises
    ------
    StoreError
        The query is not one SELECT, or DuckDB does not accept it (its first line is quoted).
    """
    import duckdb

    files: list[str] = []
    query = valid_text(query)
    words = set(re.findall(r"[A-Za-z_]+", query.lower()))
    with duckdb.connect(":memory:") as db:
        try:
            if not _is_read(db, query):
                raise StoreError(_READS)
            if _SHOW_TABLES.fullmatch(query):  # DuckDB knows the tables that a query names, and this one names none
                return pl.DataFrame({"name": _NAMES})
            for name in _NAMES:
                if name in words:
                    found = read(name)
                    if isinstance(found, Source | list):
                        files += _view(db, name, found if isinstance(found, list) else [found])
                    else:
                        db.register(name, found)
            db.execute(
                f"SET TimeZone = 'UTC'; SET allowed_paths = {_sql_list([*{*files, *map(glob.escape, files)}])}; "
                "SET enable_external_access = false; SET lock_configuration = true"
            )
            return _fetch(db, query)
        except duckdb.Error as e:
            of_query = (
                duckdb.ParserException,
                duckdb.BinderException,
                duckdb.CatalogException,
                duckdb.PermissionException,
            )
            damaged = None if isinstance(e, of_query) else _damaged_part(files)
            if damaged is not None:
                raise StoreError(damaged) from None
            raise StoreError(f"query: {_reason(e)}") from None
        except pl.exceptions.PolarsError as e:
            raise StoreError(
                f"query: its answer has a type without a column ({_reason(e)}); cast it, as in x::varchar"
            ) from None


def _damaged_part(files: Sequence[str]) -> str | None:
    """What is wrong with the first part that cannot be read to its end; None when all can."""
    for file in files:
        try:
            collect(pl.scan_parquet(file, glob=False), Path(file).parents[2])
        except StoreError as e:
            return str(e)
    return None


def _sql_list(texts: Sequence[str]) -> str:
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"


def _is_read(db: Any, query: str) -> bool:
    import duckdb

    statements = db.extract_statements(query)
    if len(statements) != 1:
        return False
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        explained = _EXPLAIN.sub("", query, count=1)
        return explained != query and _is_read(db, explained)
    if kind == duckdb.StatementType.MULTI:  # a PIVOT looks up its columns first
        leading = _LEADING.match(query)
        return leading is not None and leading[1].lower() in ("pivot", "from", "select", "with")
    return bool(kind == duckdb.StatementType.SELECT)


def _reason(e: Exception) -> str:
    """DuckDB's first line, with its hint where the second line is one."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
    if missing := _NO_TABLE.search(lines[0]):  # DuckDB knows the tables that were named rightly only
        return f"there is no table {missing[1]!r}.{nearest(missing[1].lower(), _NAMES)} Tables: {', '.join(_NAMES)}"
    hints = [line for line in lines[1:2] if line.startswith(("Did you mean", "Candidate bindings"))]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join([lines[0], *hints])[:300])


def _fetch(db: Any, query: str) -> pl.DataFrame:
    """The answer, handed over as it comes where it holds plain columns only; through pyarrow where it does not."""
    found = db.sql(query)
    if len(set(found.columns)) == len(found.columns) and {str(kind) for kind in found.types} <= _PLAIN:
        with contextlib.suppress(pl.exceptions.PolarsError):  # DuckDB's own words on what is wrong are asked for below
            return _whole_sums(pl.DataFrame(found))
        found = db.sql(query)
    return _as_polars(found.to_arrow_table())


def _whole_sums(df: pl.DataFrame) -> pl.DataFrame:
    """Sums of whole numbers as Int64."""
    whole = [n for n, dtype in df.schema.items() if dtype == pl.Decimal(38, 0)]
    with contextlib.suppress(pl.exceptions.PolarsError):  # too large for 64 bits: it stays as it is
        return df.with_columns(pl.col(whole).cast(pl.Int64)) if whole else df
    return df


def _as_polars(arrow: Any) -> pl.DataFrame:
    """DuckDB's answer in Polars: names made unique, sums of whole numbers whole, spans of time as durations."""
    import pyarrow as pa

    names: list[str] = []
    for name in arrow.column_names:
        tries = (f"{name}_{i}" for i in itertools.count(1))
        names.append(name if name not in names else next(n for n in tries if n not in names))
    spans = [i for i, f in enumerate(arrow.schema) if f.type == pa.month_day_nano_interval()]
    for i in spans:
        arrow = arrow.set_column(i, arrow.column_names[i], pa.array(_spans(arrow.column(i)), pa.duration("us")))
    return _whole_sums(pl.DataFrame(arrow.rename_columns(names)))


def _spans(column: Any) -> list[int | None]:
    """Microseconds of DuckDB intervals; a month counts 30 days, as DuckDB compares them."""
    out: list[int | None] = []
    for span in column.to_pylist():
        days = None if span is None else span.months * 30 + span.days
        out.append(None if days is None else days * 86_400_000_000 + span.nanoseconds // 1000)
    return out
