"""Parquet parts: written atomically, checked on write and on read.

May import `cilab.store.footers` and `cilab.core`. The layout, and what is durable when, stand in
`cilab.store`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import StoreError, TableError, nearest
from cilab.core.tables import TABLES, TABLES_VERSION, check, frame, schema_problems, valid_text
from cilab.store.footers import JOBS_KEY, UNREADABLE, VERSION_KEY, damaged, footers

#: Tables that a study's folder holds; `models` comes from the registry.
RUN_TABLES = ("runs", "messages", "calls", "labels", "annotations", "reviews", "tasks")
_PART = re.compile(r"part-(\d{6,})\.parquet$")
# Free text gains nothing from a dictionary, ids and repeated words gain a lot.
_NO_DICTIONARY = {"content", "wire_json", "tool_input_json", "tool_output", "text", "reason"}
#: Groups of one process are written one after the other, so that no two take the same number.
_WRITING = threading.Lock()
_DATETIMES = {name: [c.name for c in t.columns if isinstance(c.dtype, pl.Datetime)] for name, t in TABLES.items()}


# -- writing ------------------------------------------------------------------------------------------


def write_group(folder: Path, tables: Mapping[str, pl.DataFrame], jobs: Sequence[str] = ()) -> int:
    """Write one group of rows as the next part of each table; returns the part's number.

    Parameters
    ----------
    tables : table name -> data frame; checked against the schemas. `runs` may be left out
        (annotations of stored rollouts): an empty part then commits the group.
    jobs : ids of jobs other than runs that the group finishes (kept in the part's metadata).

    Raises
    ------
    TableError, StoreError
        Rows do not fit, or the disk does not take them. Nothing is visible to readers then.
    """
    stray = [name for name in tables if name not in RUN_TABLES]
    if stray:
        raise TableError(f"a study has no table named {stray[0]}.{nearest(stray[0], RUN_TABLES)}")
    filled = {name: check(name, df) for name, df in tables.items() if name != "runs" and df.height}
    runs = check("runs", tables["runs"]) if "runs" in tables else frame("runs", [])
    with _WRITING, _writing(folder):
        number = max(_part_numbers(folder, "runs"), default=0) + 1
        _drop_leftovers(folder, number)
        for name, df in filled.items():
            _write_part(_part_path(folder, name, number), df, ())
        _write_part(_part_path(folder, "runs", number), runs, jobs)
    return number


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the disk answers, as one clear line."""
    try:
        yield
    except OSError as e:
        what = "the disk is full" if e.errno == errno.ENOSPC else (e.strerror or str(e))
        raise StoreError(f"{folder}: {what}. Nothing is lost; free space and run the same command again.") from None


def _drop_leftovers(folder: Path, number: int) -> None:
    """Parts of a number without its `runs` part are left over from a killed writer, and are in the journal."""
    for name in RUN_TABLES:
        path = _part_path(folder, name, number)
        if name != "runs" and path.exists():
            path.unlink()
            _fsync_dir(path.parent)


def _part_path(folder: Path, table: str, number: int) -> Path:
    return folder / "tables" / table / f"part-{number:06d}.parquet"


def _write_part(path: Path, df: pl.DataFrame, jobs: Sequence[str]) -> None:
    import pyarrow.parquet as pq

    _make_durable(path.parent)
    meta = {VERSION_KEY: str(TABLES_VERSION)}
    if jobs:
        meta[JOBS_KEY] = json.dumps(list(jobs))
    df = df.select(TABLES[path.parent.name].names)  # parts are read one after the other: one order of columns
    arrow = df.to_arrow(compat_level=pl.CompatLevel.oldest())
    settings: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 6,
        "use_dictionary": [c for c in df.columns if c not in _NO_DICTIONARY],
        "write_statistics": ["run_id", "finished_at"] if "finished_at" in df.columns else ["run_id"],
        "store_schema": False,
        "data_page_version": "2.0",
    }
    with _renamed(path, "wb") as f, pq.ParquetWriter(f, arrow.schema, **settings) as writer:
        writer.write_table(arrow)
        writer.add_key_value_metadata(meta)  # metadata of the schema is not written with store_schema=False


@contextlib.contextmanager
def _renamed(path: Path, mode: str, **how: Any) -> Iterator[Any]:
    """A file that stands under its name only when it is whole and on disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, mode, **how) as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
        _fsync_dir(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _make_durable(folder: Path) -> None:
    """Make a folder, and its entry in the folder above survive a power cut."""
    if not folder.is_dir():
        _make_durable(folder.parent)
        folder.mkdir(exist_ok=True)
        _fsync_dir(folder.parent)


def _fsync_dir(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically (temporary name, fsync, rename)."""
    try:
        _make_durable(path.parent)
        with _renamed(path, "w", encoding="utf-8") as f:
            f.write(valid_text(text))
    except OSError as e:
        raise StoreError(f"{path}: {e.strerror or e}. Choose another folder or free some space.") from None


# -- reading ------------------------------------------------------------------------------------------


def _part_numbers(folder: Path, table: str) -> list[int]:
    directory = folder / "tables" / table
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as e:
        raise StoreError(f"{directory}: {e.strerror}") from None
    return sorted(int(m.group(1)) for n in names if (m := _PART.match(n)))


def committed(folder: Path) -> frozenset[int]:
    return frozenset(_part_numbers(folder, "runs"))


def part_paths(folder: Path, table: str, committed: frozenset[int]) -> list[Path]:
    """The committed parts of a table, checked against its schema."""
    paths = [_part_path(folder, table, n) for n in _part_numbers(folder, table) if n in committed]
    checked: Any = None
    for path, footer in zip(paths, footers(paths), strict=True):
        if footer.columns is not checked:
            if problems := schema_problems(table, footer.columns):
                raise StoreError(f"{path}: {'; '.join(problems)}; it was not written by cilab as it stands.")
            checked = footer.columns
    return paths


def scan(table: str, parts: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(parts, glob=False) if parts else pl.LazyFrame(schema=TABLES[table].schema)


def collect(lazy: pl.LazyFrame, folder: Path) -> pl.DataFrame:
    """Read what a question needs; a part of `folder` that is damaged inside is one clear line."""
    try:
        return lazy.collect()
    except UNREADABLE as e:
        raise damaged(_unreadable(folder) or folder / "tables", e) from None


def _unreadable(folder: Path) -> Path | None:
    """The first part that cannot be read to its end."""
    for path in sorted(folder.glob("tables/*/part-*.parquet")):
        try:
            pl.read_parquet(path, glob=False)
        except UNREADABLE:
            return path
    return None


def revive(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that were JSON: times are text there. Changes and returns `rows`."""
    for column in _DATETIMES[table]:
        for row in rows:
            if isinstance(row.get(column), str):
                row[column] = datetime.fromisoformat(row[column])
    return rows


def payload_frames(payloads: Iterable[Mapping[str, list[dict[str, Any]]]]) -> dict[str, pl.DataFrame]:
    """Rows of finished jobs (table -> rows, several jobs) as checked data frames.

    Raises
    ------
    TableError
        A row does not fit its table.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for payload in payloads:
        for name, part in payload.items():
            rows.setdefault(name, []).extend(part)
    return {name: frame(name, part) for name, part in rows.items() if part}


def check_parts(folder: Path) -> None:
    """Look at the footer of every committed part, so that a damaged one is told before anything is paid.

    Raises
    ------
    StoreError
        A part is no Parquet file of this layout; the line names it.
    """
    numbers = committed(folder)
    for name in RUN_TABLES:
        part_paths(folder, name, numbers)


def finished_jobs(folder: Path) -> set[str]:
    """Ids of runs and other jobs whose rows are in Parquet."""
    return finished_in(folder, committed(folder))


def finished_in(folder: Path, committed: frozenset[int]) -> set[str]:
    parts = part_paths(folder, "runs", committed)
    done = {job for footer in footers(parts) for job in footer.jobs}
    done.update(collect(scan("runs", parts).select("run_id"), folder)["run_id"].to_list())
    return done


def run_states(folder: Path, run_ids: set[str]) -> dict[str, dict[str, Any]]:
    """status and passed of those of `run_ids` that are in Parquet."""
    if not run_ids:
        return {}
    runs = scan("runs", part_paths(folder, "runs", committed(folder)))
    states = runs.select("run_id", "status", "passed").filter(pl.col("run_id").is_in(list(run_ids)))
    return {r["run_id"]: r for r in collect(states, folder).iter_rows(named=True)}


def transcript(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Messages of one run in order, from Parquet; empty when it is not there."""
    messages = scan("messages", part_paths(folder, "messages", committed(folder)))
    return collect(messages.filter(pl.col("run_id") == run_id).sort("index"), folder).to_dicts()


def wire_messages(calls: pl.DataFrame, run_id: str, purpose: str, seat: str, index: int) -> dict[str, Any]:
    """Messages and tools of one call as they were sent, shared prefixes put back.

    Parameters
    ----------
    calls : rows of the calls table (at least those of the run).

    Returns
    -------
    dict with `messages` (list) and, where tools were sent, `tools`.
    """
    rows = calls.filter(
        (pl.col("run_id") == run_id) & (pl.col("purpose") == purpose) & (pl.col("seat") == seat)
    ).select("index", "wire_json")
    wires = dict(rows.iter_rows())
    if index not in wires:
        raise StoreError(f"run {run_id} has no {purpose} call {index} of seat {seat}")

    chain, at = [], index  # from the call back to one that is stored whole; a loop, since chains are long
    while True:
        if wires.get(at) is None or len(chain) > len(wires):
            raise StoreError(f"run {run_id}: what was sent in {purpose} call {index} of seat {seat} is not stored")
        wire = json.loads(wires[at])
        chain.append(wire)
        if "same_as" not in wire:
            break
        at = wire["same_as"]
    messages: list[Any] = []
    for wire in reversed(chain):
        messages = messages[: wire.get("first", 0)] + wire["messages"]
    out = {"messages": messages}
    if tools := chain[0].get("tools"):
        out["tools"] = tools
    return out
