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
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core import tables as our
from cilab.core.errors import StoreError, TableError, nearest
from cilab.core.tables import TABLES, check, frame, schema_problems, valid_text
from cilab.store.footers import (
    JOBS_KEY,
    LAYOUT_KEY,
    OTHERS_KEY,
    TABLES_KEY,
    UNREADABLE,
    Footer,
    damaged,
    footers,
    read_only,
    tables_version,
)

#: Tables that a study's folder holds; `models` comes from the registry.
RUN_TABLES = ("runs", "messages", "calls", "labels", "annotations", "reviews", "tasks")
_PART = re.compile(r"part-(\d{6,})\.parquet$")
# Free text gains nothing from a dictionary, ids and repeated words gain a lot.
_NO_DICTIONARY = {"content", "wire_json", "tool_input_json", "tool_output", "text", "reason"}
#: Groups of one process are written one after the other, so that no two take the same number.
_WRITING = threading.Lock()


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
        Rows do not fit, the disk does not take them, or a newer version wrote here. Nothing is visible to readers
        then.
    """
    stray = [name for name in tables if name not in RUN_TABLES]
    if stray:
        raise TableError(f"a study has no table named {stray[0]}.{nearest(stray[0], RUN_TABLES)}")
    filled = {name: check(name, df) for name, df in tables.items() if name != "runs" and df.height}
    runs = check("runs", tables["runs"]) if "runs" in tables else frame("runs", [])
    with _WRITING, _writing(folder):
        check_writable(folder)
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
    columns = TABLES[path.parent.name].columns  # parts are read one after the other: one order of columns
    kept = [c for c in columns if c.since is not None or df[c.name].null_count() < df.height]
    meta = {TABLES_KEY: str(our.TABLES_VERSION), LAYOUT_KEY: str(our.LAYOUT_VERSION)}
    if others := [c.name for c in kept if c.since is None]:
        meta[OTHERS_KEY] = json.dumps(others)
    if jobs:
        meta[JOBS_KEY] = json.dumps(list(jobs))
    df = df.select(c.name for c in kept)
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


@dataclass(frozen=True)
class Parts:
    """The committed parts of a table, checked against it as the version that wrote each of them had it.

    Attributes
    ----------
    table : its name.
    alike : (columns, files) of parts with the same columns.
    version : the newest version of the tables that one is written in.
    """

    table: str
    alike: tuple[tuple[Mapping[str, Any], tuple[Path, ...]], ...] = ()
    version: int = 0

    @property
    def paths(self) -> list[Path]:
        """Their files, in order of their numbers."""
        if len(self.alike) == 1:
            return list(self.alike[0][1])
        return sorted((path for _, paths in self.alike for path in paths), key=lambda path: (len(path.name), path.name))

    @cached_property
    def schema(self) -> pl.Schema:
        """The columns of the table, and then those that are not known here."""
        known = TABLES[self.table].schema
        return pl.Schema({**known, **{n: t for columns, _ in self.alike for n, t in columns.items() if n not in known}})

    @property
    def complete(self) -> bool:
        """Whether every part has every column."""
        return all(len(columns) == len(self.schema) for columns, _ in self.alike)

    def lazy(self) -> pl.LazyFrame:
        """Their rows, read when and where they are asked for; what a part does not have is null."""
        if not self.alike:
            return pl.LazyFrame(schema=self.schema)
        return pl.scan_parquet(self.paths, glob=False, schema=self.schema, missing_columns="insert")


def parts_of(folder: Path, table: str, committed: frozenset[int]) -> Parts:
    """The committed parts of a table.

    Raises
    ------
    StoreError
        A part cannot be read, is of a newer layout, or has other columns than its version had.
    """
    paths = [_part_path(folder, table, n) for n in _part_numbers(folder, table) if n in committed]
    alike: dict[tuple[str, ...], tuple[Mapping[str, Any], list[Path]]] = {}
    last: Mapping[str, Any] | None = None
    files: list[Path] = []
    version = 0
    for path, footer in zip(paths, footers(paths), strict=True):
        if footer.columns is not last:
            if problems := _problems(table, footer):
                raise StoreError(f"{path}: {'; '.join(problems)}; it was not written by cilab as it stands.")
            last, version = footer.columns, max(version, footer.version)
            files = alike.setdefault(tuple(last), (last, []))[1]
        files.append(path)
    return Parts(table, tuple((columns, tuple(files)) for columns, files in alike.values()), version)


def _problems(table: str, footer: Footer) -> list[str]:
    """What does not fit; columns of a package that is not installed here are no problem."""
    known = TABLES[table].kinds
    columns = {n: t for n, t in footer.columns.items() if n in known or n not in footer.others}
    return schema_problems(table, columns, footer.version)


def newest(folder: Path, table: str = "runs") -> Path | None:
    """The last committed part of a table; that of `runs` is of the newest version: nobody writes after a newer one."""
    there = committed(folder)
    numbers = [n for n in _part_numbers(folder, table) if n in there]
    return _part_path(folder, table, numbers[-1]) if numbers else None


def check_writable(folder: Path) -> None:
    """Refuse a folder that a newer version of the tables wrote to.

    Raises
    ------
    StoreError
        It is read-only here; or its last part cannot be read.
    """
    last = newest(folder)
    if last is not None and (version := tables_version(last)) > our.TABLES_VERSION:
        raise read_only(last, version)


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
    for column in TABLES[table].times:
        for row in rows:
            if isinstance(row.get(column), str):
                row[column] = datetime.fromisoformat(row[column])
    return rows


def payload_frames(
    payloads: Iterable[Mapping[str, list[dict[str, Any]]]], version: int | None = None
) -> dict[str, pl.DataFrame]:
    """Rows of finished jobs (table -> rows, several jobs) as data frames, checked as a version of the tables had
    them (default: ours).

    Raises
    ------
    TableError
        A row does not fit its table.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for payload in payloads:
        for name, part in payload.items():
            rows.setdefault(name, []).extend(part)
    return {name: frame(name, part, version) for name, part in rows.items() if part}


def check_parts(folder: Path) -> None:
    """Look at the footer of every committed part, so that what cannot go on is told before anything is paid.

    Raises
    ------
    StoreError
        A part is damaged, or a newer version wrote it; the line names it.
    """
    numbers = committed(folder)
    for name in RUN_TABLES:
        found = parts_of(folder, name, numbers)
        if found.version > our.TABLES_VERSION:
            newer = (
                p for p, end in zip(found.paths, footers(found.paths), strict=True) if end.version == found.version
            )
            raise read_only(next(newer), found.version)


def finished_jobs(folder: Path) -> set[str]:
    """Ids of runs and other jobs whose rows are in Parquet."""
    return finished_in(folder, committed(folder))


def finished_in(folder: Path, committed: frozenset[int]) -> set[str]:
    parts = parts_of(folder, "runs", committed)
    done = {job for footer in footers(parts.paths) for job in footer.jobs}
    done.update(collect(parts.lazy().select("run_id"), folder)["run_id"].to_list())
    return done


def run_states(folder: Path, run_ids: set[str]) -> dict[str, dict[str, Any]]:
    """status and passed of those of `run_ids` that are in Parquet."""
    if not run_ids:
        return {}
    runs = parts_of(folder, "runs", committed(folder)).lazy()
    states = runs.select("run_id", "status", "passed").filter(pl.col("run_id").is_in(list(run_ids)))
    return {r["run_id"]: r for r in collect(states, folder).iter_rows(named=True)}


def transcript(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Messages of one run in order, from Parquet; empty when it is not there."""
    messages = parts_of(folder, "messages", committed(folder)).lazy()
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

    # From the call back to one that is stored whole; a loop, since chains are long.
    chain: list[dict[str, Any]] = []
    at = index
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
