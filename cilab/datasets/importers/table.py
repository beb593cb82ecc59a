"""Any table of runs, messages, labels or annotations, through a mapping of columns.

May import `cilab.core` and this folder's parts. Invents no value: what it fills in (a repeat's
number, a run id, a status) follows from the rows and is said in the report.

Rules that hold for every table
    A row is placed, dropped or doubled, and counted as such. What a table has no column for, and every row that was
    not placed, is kept as extra. Ids are texts. NaN is missing. A cost of 0 where tokens were used, or where nobody
    says how many, is an unknown price, hence null. A run without a score has status `error`, so that it never enters
    a mean. A score above 1, a percentage, or a word outside a closed list is refused with the column and a guess,
    or with `on_bad="drop"` the row is dropped and counted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import nearest
from cilab.core.tables import TABLES
from cilab.datasets.importers import mapping as mappings
from cilab.datasets.importers.coverage import coverage_notes, orphan_notes
from cilab.datasets.importers.guess import columns_by_name, header_guess, matrix_guess
from cilab.datasets.importers.mapping import MappingFile, Section
from cilab.datasets.importers.reading import read_rows
from cilab.datasets.importers.report import EXAMPLES, Imported, ImportFailed, Tally, short
from cilab.datasets.importers.rows import KEYS, Rows


def import_table(
    path: str | os.PathLike[str],
    mapping: str | Path | Mapping[str, Any] | None = None,
    *,
    into: str = "runs",
    name: str | None = None,
    header: Sequence[str] | None = None,
    wide: str | Mapping[str, Any] | None = None,
    scale: Mapping[str, float] | float | str | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
    on_bad: str | None = None,
    **columns: Any,
) -> Imported:
    """Import CSV, TSV, JSON, JSONL or Parquet (plain or gzipped): long tables and matrices.

    Parameters
    ----------
    path : a file; or a folder, for a mapping that names files.
    mapping : a YAML file, the name of a shipped mapping (`metr_runs`), or the same as a dict
        (`cilab.datasets.importers.mapping` says what it may hold). Without one, the columns of `into` are found by
        their names, and the report says which were taken.
    into : table that `columns` speak of (see `cilab.core.tables.TABLES`).
    name : name of the data set and, where nothing else says it, of the benchmark; default the mapping's or the file's.
    header : column names of a CSV file that has none.
    wide : for a matrix, our column that its column headings are (`task_id` or `model`); its cells are scores.
    scale : our column -> factor, e.g. `{"score": 0.01}` for percentages; a number is the score's.
    values : our column -> {their word: ours}, e.g. `{"version": {"solo": "alone"}}`.
    on_bad : `refuse` (default) or `drop` rows with a value that cannot stand.
    **columns : our_column=their_column, or our_column="=constant", or our_column="{theirs}/{theirs}".

    Returns
    -------
    Imported
        The data set, the report, and what could not be placed.

    Raises
    ------
    ImportFailed
        One line: the file, the column, the first rows, and a guess at what is meant.

    Examples
    --------
    >>> import_table("matrix.csv", wide="task_id", model="submission", version="=alone")  # doctest: +SKIP
    """
    path = Path(path)
    tally = Tally(path)
    told = _told(columns, wide, scale, values, on_bad, into)
    if mapping is None:
        plan = MappingFile(name=name, tables=[_by_name(path, told, into, header)])
    else:
        loaded, _ = mappings.load(mapping)
        plan = _overridden(loaded, told, into)
    name = name or plan.name or path.name.split(".")[0]
    sections = _sections_for(path, plan)
    made: dict[str, list[tuple[Section, pl.DataFrame]]] = {}
    sources: dict[Path, pl.DataFrame] = {}
    for section, file in sections:
        rows = Rows(section, file, name, tally, header, sources)
        made.setdefault(section.into, []).append((section, rows.placed()))
    tables = {table: _merged(table, parts, tally) for table, parts in made.items()}
    for text in (*coverage_notes(tables.get("runs")), *orphan_notes(tables)):
        tally.note(text)
    notes = [text for text in (plan.about, f"Source: {plan.source}" if plan.source else None) if text]
    return tally.finish(name, tables, [" ".join(n.split()) for n in notes])


# -- what the caller said ---------------------------------------------------------------------------------


def _told(
    columns: Mapping[str, Any],
    wide: str | Mapping[str, Any] | None,
    scale: Any,
    values: Any,
    on_bad: str | None,
    into: str,
) -> dict[str, Any]:
    """The keyword arguments as a part of a section."""
    known = TABLES[into].names if into in TABLES else ()
    scale, values = _factors(scale), values or {}
    if not isinstance(values, Mapping) or not all(isinstance(v, Mapping) for v in values.values()):
        raise ImportFailed(f"values is {values!r}: give a mapping of our column to a mapping of its values")
    if not isinstance(wide, str | Mapping | None):
        raise ImportFailed(f"wide is {wide!r}: give what the headers are, such as model, or a mapping")
    stray = [c for c in (*columns, *scale, *values) if c not in known]
    if stray:
        raise ImportFailed(f"table {into} has no column {stray[0]}.{nearest(stray[0], known)}")
    out: dict[str, Any] = {"columns": {k: mappings.column(_named(k, v)) for k, v in columns.items()}}
    out["more"] = {k: {"scale": v} for k, v in scale.items()}
    for k, v in values.items():
        out["more"].setdefault(k, {})["values"] = v
    if wide is not None:
        out["wide"] = {"headers": wide} if isinstance(wide, str) else dict(wide)
    if on_bad is not None:
        out["on_bad"] = on_bad
    return out


def _named(ours: str, column: Any) -> str | Mapping[str, Any]:
    """What a caller says of one of our columns; a column may be called by a number."""
    if isinstance(column, int | float) and not isinstance(column, bool):
        return str(column)
    if not isinstance(column, str | Mapping):
        raise ImportFailed(
            f"{ours} is {column!r}: give the name of a column of the table, '=a constant' or '{{a}}/{{b}}'"
        )
    return column


def _factors(scale: Any) -> dict[str, Any]:
    """Our column -> factor, from a mapping, a number (the score's), or `score=0.01` (from the command line)."""
    if isinstance(scale, Mapping):
        return dict(scale)
    if scale is None:
        return {}
    if isinstance(scale, str):
        column, _, factor = scale.partition("=")
        with contextlib.suppress(ValueError):
            return {column.strip(): float(factor)}
    elif isinstance(scale, int | float) and not isinstance(scale, bool):
        return {"score": scale}
    raise ImportFailed(f"scale is {scale!r}: give a factor for the score, such as 0.01, or score=0.01")


def _with_told(section: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    columns = section.get("columns", {}) | told["columns"]
    for ours, more in told["more"].items():
        wide = told.get("wide") or section.get("wide")
        if wide and wide.get("cells", "score") == ours:
            section["wide"] = wide | more
        else:
            if ours not in columns:
                raise ImportFailed(f"scale or values speak of {ours}, but no column is mapped to it; say {ours}='...'")
            columns[ours] = columns[ours] | more
    return {"wide": told.get("wide")} | section | {k: told[k] for k in ("on_bad",) if k in told} | {"columns": columns}


def _overridden(plan: MappingFile, told: Mapping[str, Any], into: str) -> MappingFile:
    if not told["columns"] and not told["more"] and set(told) == {"columns", "more"}:
        return plan
    raw = plan.model_dump(by_alias=True, exclude_unset=True)
    everywhere = {k: told[k] for k in ("on_bad",) if k in told}
    raw["tables"] = [_with_told(s, told) if s["into"] == into else s | everywhere for s in raw["tables"]]
    return mappings.parse(raw, "mapping with the arguments")


def _by_name(path: Path, told: Mapping[str, Any], into: str, header: Sequence[str] | None) -> Section:
    """A section for `path`: the columns that were told, and those found by their names."""
    if path.is_dir():
        raise ImportFailed(
            f"{path}: is a folder; name a file, or say mapping= ({', '.join(mappings.shipped_mappings())})"
        )
    if into not in TABLES:
        raise ImportFailed(f"no table named {into}.{nearest(into, tuple(TABLES))}")
    df = read_rows(path, Tally(path), header=header)
    wide = told.get("wide")
    taken = {s for c in told["columns"].values() for s in mappings.Column.model_validate(c).sources}
    found = columns_by_name(
        df.columns, into, taken, set(told["columns"]) | ({wide["headers"], "score"} if wide else set())
    )
    section = _with_told({"into": into, "columns": {k: {"from": v} for k, v in found.items()}}, told)
    parsed = mappings.parse({"tables": [section]}, "arguments").tables[0]
    given = set(parsed.columns) | ({wide["headers"], wide.get("cells", "score")} if wide else set())
    if into == "runs":
        lacking = [c for c in ("task_id", "model", "score") if c not in given]
        if lacking:
            guess = header_guess(df, path, header) or matrix_guess(df, lacking)
            columns = ", ".join(short(c, 30) for c in df.columns[:12])
            raise ImportFailed(
                f"{path}: no column for {' and '.join(lacking)} among {columns}. "
                + (guess or f"Say {lacking[0]}='their column' or {lacking[0]}='=value'.")
            )
    return parsed


def _sections_for(path: Path, plan: MappingFile) -> list[tuple[Section, Path]]:
    if not path.exists():
        near = nearest(path.name, [p.name for p in path.parent.glob("*")]) if path.parent.is_dir() else ""
        raise ImportFailed(f"{path}: no such file or folder.{near}")
    out: list[tuple[Section, Path]] = []
    if path.is_dir():
        for section in plan.tables:
            there = [path / f for f in section.file if (path / f).is_file()]
            if not there:
                raise ImportFailed(f"{path}: has no file {' or '.join(section.file) or '(the mapping names none)'}")
            out.append((section, there[0]))
        return out
    out = [(s, path) for s in plan.tables if path.name in s.file]
    if not out and len(plan.tables) == 1:
        out = [(plan.tables[0], path)]
    if not out:
        files = ", ".join(f for s in plan.tables for f in s.file)
        raise ImportFailed(
            f"{path}: the mapping speaks of {files}, not of {path.name}; give their folder, or another mapping"
        )
    return out


def _merged(table: str, parts: list[tuple[Section, pl.DataFrame]], tally: Tally) -> pl.DataFrame:
    """The rows of all sections of a table; what an earlier one already gave is counted as doubled and kept as extra."""
    key = list(KEYS[table])
    out = parts[0][1]
    for section, df in parts[1:]:
        again = _is_in(df, out, key)
        same = _is_in(_comparable(table, df), _comparable(table, out), out.columns)
        for mask, reason in (
            (again & same, section.doubles or "already in an earlier file"),
            (again & ~same, "in an earlier file with other content; that one is kept"),
        ):
            rows = df.filter(mask)
            shown = [" ".join(str(v) for v in row) for row in rows.select(key).head(EXAMPLES).iter_rows()]
            tally.find("doubled", table, reason, rows.height, shown)
            for row in rows.iter_rows(named=True):
                kept = {k: v for k, v in row.items() if v is not None}
                ids = {"run_id": row.get("run_id"), "index": row.get("index"), "source": " or ".join(section.file)}
                tally.keep_row(table, kept, **ids, reason=f"doubled: {reason}")
        out = pl.concat([out, df.filter(~again)])
    return out


def _comparable(table: str, df: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are compared: where an annotation has a value, its words (yes, TRUE) do not matter."""
    if table != "annotations":
        return df
    return df.with_columns(text=pl.when(pl.col("value").is_null()).then(pl.col("text")))


def _is_in(df: pl.DataFrame, others: pl.DataFrame, columns: list[str]) -> pl.Series:
    """Mask of the rows of `df` that `others` has too, by these columns (null equals null)."""
    known = others.select(columns).unique().with_columns(pl.lit(True).alias("__known"))
    joined = df.select(columns).join(known, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["__known"].fill_null(False)
