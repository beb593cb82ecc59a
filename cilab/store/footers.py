"""The ends of Parquet parts: columns, version and jobs, of many parts at little cost.

May import `cilab.core`. Reads no rows.

A long study has a thousand parts, and to let Polars read the schema of each takes longer than many a question. Parts
that one program wrote describe their schema with the same bytes, at the beginning of the footer. So Polars reads the
first part, and of the others those bytes are compared; a part that differs in one of them is read by Polars too.
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

from cilab.core.errors import StoreError, first_line
from cilab.core.tables import TABLES_VERSION

VERSION_KEY, JOBS_KEY = "cilab_tables", "cilab_jobs"
#: Parts whose footer was looked at; parts never change, so the answer is kept.
_KEPT = 1 << 16
_MAGIC = b"PAR1"
#: What reading a damaged Parquet file can raise: on some, Polars panics, which is no `Exception`.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class Footer:
    """What the end of a part says.

    Attributes
    ----------
    columns : name -> Polars type.
    jobs : ids of jobs other than runs that the part finishes.
    beginning : the bytes of format version and schema; empty where they could not be told apart.
    """

    columns: Mapping[str, Any]
    jobs: tuple[str, ...]
    beginning: bytes


def footers(paths: Iterable[Path]) -> Iterator[Footer]:
    """The footer of each part, in order. Parts with the same schema share one `columns` object.

    Raises
    ------
    StoreError
        A part cannot be read, is no Parquet file, or is of a newer version.
    """
    last: Footer | None = None
    for path in paths:
        try:
            stat = path.stat()
        except OSError as e:
            raise StoreError(f"{path}: cannot be read ({e.strerror}).") from None
        at = str(path), stat.st_size, stat.st_mtime_ns
        if last is not None and _ends_alike(*at, last.beginning):
            yield last
        else:
            found = _read(*at)
            last = replace(found, jobs=())
            yield found


def damaged(path: str | Path, e: BaseException) -> StoreError:
    """The error for a part that cannot be read."""
    reason = first_line(e)
    return StoreError(
        f"{path}: is no readable Parquet file ({reason}). Move it and the parts of the same number away, "
        "then run the study again: only their rollouts are played again."
    )


@functools.lru_cache(maxsize=_KEPT)
def _read(path: str, size: int, mtime_ns: int) -> Footer:
    try:
        meta = pl.read_parquet_metadata(path)
        version = int(meta.get(VERSION_KEY, 0))
        columns = dict(pl.scan_parquet(path, glob=False).collect_schema())
        jobs = tuple(json.loads(meta.get(JOBS_KEY, "[]")))
        beginning = _beginning(_bytes(path, size))
    except (*UNREADABLE, ValueError, TypeError) as e:
        raise damaged(path, e) from None
    if version > TABLES_VERSION:
        raise StoreError(
            f"{path}: written by a newer cilab (tables {version}, this one reads {TABLES_VERSION}). Upgrade cilab."
        )
    return Footer(columns, jobs, beginning)


@functools.lru_cache(maxsize=_KEPT)
def _ends_alike(path: str, size: int, mtime_ns: int, beginning: bytes) -> bool:
    """Whether a part has this schema and version, and no jobs. False also where it cannot be read."""
    try:
        footer = _bytes(path, size)
    except OSError:
        return False
    return bool(beginning) and footer.startswith(beginning) and _STAMP in footer and JOBS_KEY.encode() not in footer


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
#: The entry of a key-value list that says which version of the tables a part is written in.
_STAMP = b"".join(b"\x18" + bytes([len(text)]) + text.encode() for text in (VERSION_KEY, str(TABLES_VERSION)))


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
