"""The ends of Parquet parts: columns, versions and jobs, of many parts at little cost.

May import `cilab.core`. Reads no rows.

A long study has a thousand parts, and to let Polars read the schema of each takes longer than many a question. Parts
that one program wrote describe their schema with the same bytes, at the beginning of the footer. So Polars reads the
first part, and of the others those bytes are compared; a part that differs in one of them is read by Polars too.
(On 10,000 parts this is ten times as fast as Polars, and more than pyarrow: `benchmarks/parts.py`.)
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core import tables
from cilab.core.errors import StoreError, first_line

#: Metadata of a part: the versions that wrote it, its columns that packages of others brought, the jobs that it ends.
TABLES_KEY, LAYOUT_KEY, OTHERS_KEY, JOBS_KEY = "cilab_tables", "cilab_layout", "cilab_others", "cilab_jobs"
#: Parts whose footer was looked at; parts never change, so the answer is kept.
_KEPT = 1 << 16
_MAGIC = b"PAR1"
#: What reading a damaged Parquet file can raise: on some, Polars panics, which is no `Exception`.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class Likeness:
    """The bytes by which parts that are written alike are known.

    Attributes
    ----------
    beginning : of format version and schema; empty where they could not be told apart: nothing is alike then.
    marks : entries of the metadata that stand in the footer.
    absent : keys that do not.
    """

    beginning: bytes
    marks: tuple[bytes, ...]
    absent: tuple[bytes, ...]

    def holds(self, footer: bytes) -> bool:
        """Whether a footer is of this kind."""
        return (
            bool(self.beginning)
            and footer.startswith(self.beginning)
            and all(mark in footer for mark in self.marks)
            and not any(key in footer for key in self.absent)
        )


@dataclass(frozen=True)
class Footer:
    """What the end of a part says.

    Attributes
    ----------
    columns : name -> Polars type.
    version : of the tables that it was written in.
    others : columns that packages of others brought.
    jobs : ids of jobs other than runs that the part finishes.
    likeness : how parts that say the same, and finish no such job, are known.
    """

    columns: Mapping[str, Any]
    version: int
    others: frozenset[str]
    jobs: tuple[str, ...]
    likeness: Likeness


def footers(paths: Iterable[Path]) -> Iterator[Footer]:
    """The footer of each part, in order. Parts with the same schema share one `columns` object.

    Raises
    ------
    StoreError
        A part cannot be read, is no Parquet file, or is of a newer layout.
    """
    last: Footer | None = None
    for path in paths:
        try:
            stat = path.stat()
        except OSError as e:
            raise StoreError(f"{path}: cannot be read ({e.strerror}).") from None
        at = str(path), stat.st_size, stat.st_mtime_ns
        if last is not None and _ends_alike(*at, last.likeness):
            yield last
        else:
            found = _read(*at)
            last = replace(found, jobs=())
            yield found


def tables_version(path: Path) -> int:
    """The version of the tables that a part was written in; of one of ours that is told by its bytes alone.

    Raises
    ------
    StoreError
        As `footers`.
    """
    try:
        found = _bytes(str(path), path.stat().st_size)
    except OSError as e:
        raise StoreError(f"{path}: cannot be read ({e.strerror}).") from None
    ours = ((TABLES_KEY, tables.TABLES_VERSION), (LAYOUT_KEY, tables.LAYOUT_VERSION))
    if all(_binary(key) + _binary(str(version)) in found for key, version in ours):
        return tables.TABLES_VERSION
    return next(footers([path])).version


def damaged(path: str | Path, e: BaseException) -> StoreError:
    """The error for a part that cannot be read."""
    reason = first_line(e)
    return StoreError(
        f"{path}: is no readable Parquet file ({reason}). Move it and the parts of the same number away, "
        "then run the study again: only their rollouts are played again."
    )


def read_only(path: str | Path, version: int) -> StoreError:
    """The error for writing to what a newer version wrote."""
    return StoreError(
        f"{path}: written by a newer cilab (tables {version}, this one writes {tables.TABLES_VERSION}); it is "
        "read-only here. Upgrade cilab, or choose another folder with --out."
    )


class NewerLayout(StoreError):
    """What a newer version wrote lies in a way that is not known here."""

    def __init__(self, path: str | Path, what: str, version: int, known: int):
        super().__init__(f"{path}: written by a newer cilab ({what} {version}, this one reads {known}). Upgrade cilab.")


@functools.lru_cache(maxsize=_KEPT)
def _read(path: str, size: int, mtime_ns: int) -> Footer:
    try:
        meta = pl.read_parquet_metadata(path)
        columns = dict(pl.scan_parquet(path, glob=False).collect_schema())
        return _footer(path, meta, columns, _bytes(path, size))
    except (*UNREADABLE, ValueError, TypeError) as e:
        raise damaged(path, e) from None


def of_open_file(path: str, fs: Any) -> Footer:
    """The footer of one part on an fsspec file system.

    Raises
    ------
    StoreError
        As `footers`.
    """
    try:
        with fs.open(path) as f:
            meta = pl.read_parquet_metadata(f)
            f.seek(0)
            return _footer(path, meta, dict(pl.read_parquet_schema(f)), b"")
    except (*UNREADABLE, ValueError, TypeError) as e:
        raise damaged(path, e) from None


def check_layout(path: str | Path, meta: Mapping[str, str]) -> None:
    """Refuse a part of a newer layout by its metadata."""
    layout = int(meta.get(LAYOUT_KEY, 1))
    if layout > tables.LAYOUT_VERSION:
        raise NewerLayout(path, "layout", layout, tables.LAYOUT_VERSION)


def _footer(path: str, meta: Mapping[str, str], columns: Mapping[str, Any], footer: bytes) -> Footer:
    check_layout(path, meta)
    kept = {key: meta[key] for key in (TABLES_KEY, LAYOUT_KEY, OTHERS_KEY) if key in meta}
    return Footer(
        columns,
        int(meta.get(TABLES_KEY, 1)),  # without a word of ours it must have what the first version had
        frozenset(json.loads(meta.get(OTHERS_KEY, "[]"))),
        tuple(json.loads(meta.get(JOBS_KEY, "[]"))),
        Likeness(
            _beginning(footer),
            tuple(_binary(key) + _binary(value) for key, value in kept.items()),
            tuple(key.encode() for key in (LAYOUT_KEY, OTHERS_KEY, JOBS_KEY) if key not in kept),
        ),
    )


@functools.lru_cache(maxsize=_KEPT)
def _ends_alike(path: str, size: int, mtime_ns: int, likeness: Likeness) -> bool:
    """Whether a part has this schema and these versions, and no jobs. False also where it cannot be read."""
    try:
        return likeness.holds(_bytes(path, size))
    except OSError:
        return False


def _bytes(path: str, size: int) -> bytes:
    """The footer as it stands in the file; empty where the file does not end like Parquet."""
    fd = os.open(path, os.O_RDONLY)
    try:
        tail = os.pread(fd, 8, size - 8) if size > 12 else b""
        length = int.from_bytes(tail[:4], "little")
        return os.pread(fd, length, size - 8 - length) if tail[4:] == _MAGIC and length <= size - 12 else b""
    finally:
        os.close(fd)


# -- the bytes of a footer: a FileMetaData of the Parquet format, in Thrift's compact protocol ---------------

_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}  # length of true, false, a byte, a double; the true and false of a field have none
_INTEGERS, _BINARY, _LISTS, _STRUCT = (4, 5, 6), 8, (9, 10), 12


def _binary(text: str) -> bytes:
    """A text of a key-value entry: the field's number and type, its length, its bytes."""
    data = text.encode()
    length, out = len(data), bytearray(b"\x18")
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length]) + data


def _beginning(footer: bytes) -> bytes:
    """Format version and schema, which are the first two fields; empty where they are not."""
    if footer[:1] != b"\x15":  # field 1, an i32
        return b""
    try:
        at = _varint(footer, 1)[1]
        if footer[at] != 0x19:  # field 2, a list
            return b""
        return footer[: _after(footer, at + 1, 9)]
    except (IndexError, ValueError):
        return b""


def _after(data: bytes, at: int, kind: int) -> int:
    """The position after a value of some type."""
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in _INTEGERS:
        return _varint(data, at)[1]
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind in _LISTS:
        count, of, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = _varint(data, at)
        for _ in range(count):
            at = _after(data, at, of)
        return at
    if kind != _STRUCT:
        raise ValueError(f"type {kind}")
    while field := data[at]:
        at = at + 1 if field >> 4 else _varint(data, at + 1)[1]
        at = _after(data, at, field & 15)
    return at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
