"""Files of rows into data frames: CSV, TSV, JSON, JSONL and Parquet, plain or gzipped.

May import `cilab.core` and this folder's `report`. Every cell of a text format is read as text, so that no id loses
a leading zero and no long number its last digits; the mapping says what a column is. Repairs what cannot stand in a
table (NUL, lone surrogates, bytes that are no UTF-8) and counts it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import first_line
from cilab.datasets.importers.report import EXAMPLES, ImportFailed, Tally, short
from cilab.store.footers import UNREADABLE

#: What a character that cannot stand in a table becomes.
REPLACEMENT = "\ufffd"
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_DELIMITERS = ",\t;|"


def read_rows(path: Path, tally: Tally, *, header: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of one file; cells of text formats as text, of Parquet with their types.

    Parameters
    ----------
    header : names of the columns of a CSV file without a header.

    Raises
    ------
    ImportFailed
        There is no such file, it is empty, cut off, or of another format.
    """
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*") if _suffix(p) in SUFFIXES) if path.parent.is_dir() else []
        there = f" There: {', '.join(near[:5])}." if near else ""
        raise ImportFailed(f"{path}: no such file.{there}")
    if path.stat().st_size == 0:
        raise ImportFailed(f"{path}: the file is empty (0 bytes). Was its download cut off?")
    suffix = _suffix(path)
    if suffix in (".parquet", ".pq"):
        df = _read_parquet(path)
    elif suffix in (".jsonl", ".ndjson", ".json"):
        df = _read_json(path, suffix == ".json", tally)
    elif suffix in (".csv", ".tsv", ".txt"):
        df = _read_csv(path, tally, header)
    else:
        raise ImportFailed(f"{path}: unknown kind of file {suffix!r}. Known: {', '.join(SUFFIXES)} (and .gz of them).")
    if df.height == 0:
        raise ImportFailed(f"{path}: has column names ({', '.join(df.columns[:5])}) and no rows.")
    return _without_nul(df, path.name, tally)


def _suffix(path: Path) -> str:
    """`.csv` for `a.csv` and for `a.csv.gz`."""
    return (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as e:
        raise ImportFailed(f"{path}: is no whole gzip file ({e}). Was its download cut off?") from None


# -- Parquet ------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> pl.DataFrame:
    with open(path, "rb") as f:
        head = f.read(4)
        f.seek(-min(4, path.stat().st_size), 2)
        tail = f.read(4)
    if head != b"PAR1":
        raise ImportFailed(f"{path}: is no Parquet file (it begins with {head!r}).")
    if tail != b"PAR1":
        raise ImportFailed(f"{path}: is cut off (a Parquet file ends with PAR1, this one with {tail!r}). Get it again.")
    try:
        return pl.read_parquet(path, glob=False)
    except UNREADABLE as e:
        raise ImportFailed(f"{path}: is no readable Parquet file ({first_line(e)}).") from None


# -- CSV ------------------------------------------------------------------------------------------------


def _read_csv(path: Path, tally: Tally, header: Sequence[str] | None) -> pl.DataFrame:
    text = _text(path, tally)
    if not text.strip():
        raise ImportFailed(f"{path}: the file holds nothing but blanks.")
    if "\r\n" in text:
        tally.find("repaired", path.name, "line ends CRLF read as LF", 1)
        text = text.replace("\r\n", "\n")
    separator = "\t" if _suffix(path) == ".tsv" else _delimiter(text.partition("\n")[0])
    try:
        df = pl.read_csv(
            text.encode(),
            has_header=header is None,
            separator=separator,
            infer_schema=False,
            truncate_ragged_lines=False,
        )
    except pl.exceptions.NoDataError:
        raise ImportFailed(f"{path}: the file holds no rows.") from None
    except pl.exceptions.PolarsError as e:
        raise ImportFailed(f"{path}: {_ragged(text, separator) or first_line(e)}") from None
    if header is not None:
        if len(header) != df.width:
            raise ImportFailed(f"{path}: header= has {len(header)} names, the file {df.width} columns.")
        df.columns = list(header)
    repeated = [c for c in df.columns if "_duplicated_" in c]
    if repeated:
        tally.note(f"{path.name}: repeated column names were numbered: {', '.join(repeated[:5])}.")
    blank = pl.all_horizontal(pl.all().is_null())
    count = df.select(blank.sum()).item()
    if count:
        tally.note(f"{path.name}: {count} blank lines left out.")
        df = df.filter(~blank)
    return df


def _text(path: Path, tally: Tally) -> str:
    data = _bytes(path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        tally.find("repaired", path.name, "UTF-16 read as UTF-8", 1)
        return data.decode("utf-16", errors="replace")
    if data.startswith(b"\xef\xbb\xbf"):
        tally.find("repaired", path.name, "byte order mark at the start left out", 1)
        data = data[3:]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        text = data.decode("utf-8", errors="replace")
        bad = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())
        tally.find("repaired", path.name, "bytes that are no UTF-8 replaced by U+FFFD", bad, [f"line {line}"])
        return text


def _delimiter(first_line: str) -> str:
    counts = {d: first_line.count(d) for d in _DELIMITERS}
    return max(counts, key=lambda d: (counts[d], -_DELIMITERS.index(d)))


def _ragged(text: str, separator: str) -> str | None:
    """The first line whose number of cells differs from the header's, as a message."""
    import csv

    rows = csv.reader(text.splitlines(keepends=True), delimiter=separator)
    try:
        width = len(next(rows))
        for row in rows:
            if row and len(row) != width:
                return f"line {rows.line_num} has {len(row)} cells, the header {width}. Is a quotation mark missing?"
    except csv.Error as e:
        return f"line {rows.line_num}: {e}"
    return None


# -- JSON -----------------------------------------------------------------------------------------------


def _read_json(path: Path, one_value: bool, tally: Tally) -> pl.DataFrame:
    rows = list(_json_rows(path, one_value, tally))
    if not rows:
        raise ImportFailed(f"{path}: the file holds no rows.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_as_text(row.get(name)) for row in rows] for name in names}
    for name in names:
        kinds = {_kind(row.get(name)) for row in rows} - {None}
        if len(kinds) > 1:
            counts = {k: sum(_kind(row.get(name)) == k for row in rows) for k in sorted(kinds)}
            what = " and ".join(f"{n} {k}" for k, n in counts.items())
            tally.note(f"{path.name}: column {name} mixes {what}; read as text.")
    df = pl.DataFrame({n: [_scrub(v) for v in c] for n, c in columns.items()}, schema=dict.fromkeys(names, pl.String))
    for name in names:
        bad = [i for i, v in enumerate(columns[name]) if v is not None and _has_surrogate(v)]
        shown = [f"{path.name} row {i + 1}: {name}" for i in bad[:EXAMPLES]]
        tally.find("repaired", path.name, "lone surrogates replaced by U+FFFD", len(bad), shown)
    return df


def _json_rows(path: Path, one_value: bool, tally: Tally) -> Iterator[Mapping[str, Any]]:
    text = _text(path, tally)
    if one_value:
        value = _parsed(text, lambda why, line: f"{path}: line {line} is no JSON ({why}). Is the file cut off?")
        values = value if isinstance(value, list) else [value]
        lines = enumerate(values, 1)
    else:
        lines = ((n, _json_line(path, n, line)) for n, line in enumerate(text.split("\n"), 1) if line.strip())
    for number, row in lines:
        if not isinstance(row, Mapping):
            raise ImportFailed(f"{path}: row {number} is {type(row).__name__}, not an object of column: value.")
        yield {_scrub(str(k)): v for k, v in row.items()}


def _json_line(path: Path, number: int, line: str) -> Any:
    return _parsed(
        line, lambda why, _: f"{path}: line {number} is no JSON ({why}): {short(line)!r}. Is the file cut off?"
    )


def _parsed(text: str, told: Callable[[str, int], str]) -> Any:
    """JSON as plain values; `told` makes the error out of a reason and a line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise ImportFailed(told(e.msg, e.lineno)) from None
    except RecursionError:
        raise ImportFailed(told("nested too deeply", 1)) from None
    except ValueError as e:  # a number with thousands of digits
        raise ImportFailed(told(str(e), 1)) from None


def _kind(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "truth values"
    return "numbers" if isinstance(value, int | float) else "texts" if isinstance(value, str) else "lists or objects"


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def _scrub(text: str | None) -> str | None:
    """`text` without lone surrogates."""
    if text is None or text.isascii() or not _has_surrogate(text):
        return text
    return "".join(REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in text)


def clean(value: Any, tally: Tally, table: str, where: str) -> Any:
    """A value from JSON in which every text can stand in a table: NUL and lone surrogates are replaced and counted."""
    if isinstance(value, str):
        scrubbed = _scrub(value).replace("\x00", REPLACEMENT)
        if scrubbed != value:
            tally.find("repaired", table, "NUL or lone surrogates replaced by U+FFFD", 1, [where])
        return scrubbed
    if isinstance(value, Mapping):
        return {clean(str(k), tally, table, where): clean(v, tally, table, where) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v, tally, table, where) for v in value]
    return value


def _without_nul(df: pl.DataFrame, name: str, tally: Tally) -> pl.DataFrame:
    texts = [c for c, t in df.schema.items() if t == pl.String]
    for column in texts:
        rows = df[column].str.contains("\x00", literal=True).fill_null(False).arg_true()
        shown = [f"{name} row {i + 1}: {column}" for i in rows[:EXAMPLES]]
        tally.find("repaired", name, "NUL replaced by U+FFFD", rows.len(), shown)
        if rows.len():
            df = df.with_columns(pl.col(column).str.replace_all("\x00", REPLACEMENT, literal=True))
    return df
