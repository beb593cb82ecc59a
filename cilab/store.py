"""The only code that reads or writes run files: Parquet parts of a study, and the union with its journal.

May import `cilab.tables`, `cilab.journal`, `cilab.registry`, `cilab.errors`. Never calls a model, never plots.

Layout of a study's folder: `tables/<table>/part-NNNNNN.parquet`, `journal.sqlite`, `study.yaml`.

What is durable when
    A group of rollouts is one part number in every table that has rows. Each part is written under a
    temporary name, fsynced and renamed; the part of `runs` comes last and commits the group. Readers
    ignore parts without their `runs` part; a writer that was killed in between writes the same number
    again, from the journal. A reader looks at the journal first and then at the list of committed groups,
    once for a question, so it sees each rollout once, whole, at any instant.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import html
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab import journal
from cilab.errors import StoreError, TableError, nearest
from cilab.tables import TABLES, TABLES_VERSION, check, frame, schema_problems, valid_text

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
    meta = {"cilab_tables": str(TABLES_VERSION)}
    if jobs:
        meta["cilab_jobs"] = json.dumps(list(jobs))
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


@dataclass(frozen=True)
class _Footer:
    columns: Mapping[str, Any]  # name -> Polars type
    jobs: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def _footer_of(path: str, size: int, mtime_ns: int) -> _Footer:
    """Columns and jobs of a part; parts never change, so the answer is kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        meta = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
        version = int(meta.get("cilab_tables", 0))
        columns = dict(pl.Schema(schema.remove_metadata()))
        jobs = tuple(json.loads(meta.get("cilab_jobs", "[]")))
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, TypeError) as e:
        raise _damaged(path, e) from None
    if version > TABLES_VERSION:
        raise StoreError(
            f"{path}: written by a newer cilab (tables {version}, this one reads {TABLES_VERSION}). Upgrade cilab."
        )
    return _Footer(columns, jobs)


def _footer(path: Path) -> _Footer:
    try:
        stat = path.stat()
    except OSError as e:
        raise StoreError(f"{path}: cannot be read ({e.strerror}).") from None
    return _footer_of(str(path), stat.st_size, stat.st_mtime_ns)


def _damaged(path: str | Path, e: BaseException) -> StoreError:
    reason = (str(e).splitlines() or [type(e).__name__])[0]
    return StoreError(
        f"{path}: is no readable Parquet file ({reason}). Move it and the parts of the same number away, "
        "then run the study again: only their rollouts are played again."
    )


def _committed(folder: Path) -> frozenset[int]:
    return frozenset(_part_numbers(folder, "runs"))


def _parts(folder: Path, table: str, committed: frozenset[int]) -> list[Path]:
    """The committed parts of a table, checked against its schema."""
    paths = [_part_path(folder, table, n) for n in _part_numbers(folder, table) if n in committed]
    for path in paths:
        if problems := schema_problems(table, _footer(path).columns):
            raise StoreError(f"{path}: {'; '.join(problems)}; it was not written by cilab as it stands.")
    return paths


def _scan(table: str, parts: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=TABLES[table].schema)


def collect(lazy: pl.LazyFrame, folder: Path) -> pl.DataFrame:
    """Read what a question needs; a part of `folder` that is damaged inside is one clear line."""
    try:
        return lazy.collect()
    except (pl.exceptions.PolarsError, OSError) as e:
        raise _damaged(_unreadable(folder) or folder / "tables", e) from None


def _unreadable(folder: Path) -> Path | None:
    """The first part that cannot be read to its end."""
    for path in sorted(folder.glob("tables/*/part-*.parquet")):
        try:
            pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError):
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


def finished_jobs(folder: Path) -> set[str]:
    """Ids of runs and other jobs whose rows are in Parquet."""
    return _finished_in(folder, _committed(folder))


def _finished_in(folder: Path, committed: frozenset[int]) -> set[str]:
    parts = _parts(folder, "runs", committed)
    done = {job for path in parts for job in _footer(path).jobs}
    done.update(collect(_scan("runs", parts).select("run_id"), folder)["run_id"].to_list())
    return done


def run_states(folder: Path, run_ids: set[str]) -> dict[str, dict[str, Any]]:
    """status and passed of those of `run_ids` that are in Parquet."""
    if not run_ids:
        return {}
    runs = _scan("runs", _parts(folder, "runs", _committed(folder)))
    states = runs.select("run_id", "status", "passed").filter(pl.col("run_id").is_in(list(run_ids)))
    return {r["run_id"]: r for r in collect(states, folder).iter_rows(named=True)}


def transcript(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Messages of one run in order, from Parquet; empty when it is not there."""
    messages = _scan("messages", _parts(folder, "messages", _committed(folder)))
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


# -- an open study --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Snapshot:
    """What a study's folder held at one instant: the finished jobs of the journal and the committed groups."""

    folder: Path
    journaled: list[tuple[str, str, Any]]
    committed: frozenset[int]

    @classmethod
    def of(cls, folder: Path) -> _Snapshot:
        # The journal first: a group that moves to Parquet in between is then seen twice, never missed.
        journaled = journal.read_finished(folder)
        return cls(folder, journaled, _committed(folder))

    @functools.cached_property
    def fresh(self) -> list[tuple[str, Any]]:
        """(job, payload) of finished jobs that are in the journal only."""
        if not self.journaled:
            return []
        moved = _finished_in(self.folder, self.committed)
        return [(job, payload) for job, _, payload in self.journaled if job not in moved]

    def table(self, name: str) -> pl.LazyFrame:
        lazy = _scan(name, _parts(self.folder, name, self.committed))
        rows = self._journal_rows(name)
        return pl.concat([lazy, rows.lazy()]) if rows is not None else lazy

    def _journal_rows(self, name: str) -> pl.DataFrame | None:
        found = [(job, payload[name]) for job, payload in self.fresh if payload.get(name)]
        try:
            return payload_frames({name: revive(name, rows)} for _, rows in found).get(name)
        except (TableError, ValueError) as e:
            where = self.folder / journal.JOURNAL_NAME
            raise StoreError(f"{where}: {_misfits(name, found) or 'a job'} cannot be read ({e}).") from None


def _misfits(name: str, found: Iterable[tuple[str, Any]]) -> str:
    """The first job whose rows do not fit, in words."""
    for job, rows in found:
        try:
            payload_frames([{name: revive(name, rows)}])
        except (TableError, ValueError):
            return f"job {job}"
    return ""


@dataclass(frozen=True)
class Study:
    """A study's data, open for questions. Made by `cilab.open`; reads again at every access.

    The tables are polars LazyFrames, so only what a question needs is read. They hold what is in
    Parquet and what is finished but still in the journal: readable while a study runs, or after it
    was killed, with no further step.
    """

    path: Path
    models_table: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The study's name (its folder's)."""
        return self.path.resolve().name

    def table(self, name: str) -> pl.LazyFrame:
        """One table by name (see `cilab.tables.TABLES`)."""
        return self._table_of(None, name)

    def _table_of(self, snapshot: _Snapshot | None, name: str) -> pl.LazyFrame:
        if name == "models":
            return self._models().lazy()
        if name not in RUN_TABLES:
            raise StoreError(f"no table named {name}.{nearest(name, (*RUN_TABLES, 'models'))}")
        return (snapshot or _Snapshot.of(self.path)).table(name)

    def _models(self) -> pl.DataFrame:
        if self.models_table is not None:
            return self.models_table()
        from cilab import registry

        return registry.models()

    @property
    def runs(self) -> pl.LazyFrame:
        """One row per rollout."""
        return self.table("runs")

    @property
    def messages(self) -> pl.LazyFrame:
        """One row per event."""
        return self.table("messages")

    @property
    def calls(self) -> pl.LazyFrame:
        """One row per model call."""
        return self.table("calls")

    @property
    def labels(self) -> pl.LazyFrame:
        """One row per judgement of a message."""
        return self.table("labels")

    @property
    def annotations(self) -> pl.LazyFrame:
        """One row per annotated or regraded feature."""
        return self.table("annotations")

    @property
    def reviews(self) -> pl.LazyFrame:
        """One row per verdict on a verdict."""
        return self.table("reviews")

    @property
    def tasks(self) -> pl.LazyFrame:
        """One row per task."""
        return self.table("tasks")

    @property
    def models(self) -> pl.LazyFrame:
        """One row per known model."""
        return self.table("models")

    @property
    def simulated(self) -> bool:
        """True when any seat of any finished run was a simulated agent."""
        seats = pl.col("model", "partner_model").fill_null("").str.contains("^sim[/:]")
        return bool(_read(self, self.runs.select(pl.any_horizontal(seats).any())).item())

    @property
    def last_finished_at(self) -> datetime | None:
        """When the last run finished (UTC)."""
        return _read(self, self.runs.select(pl.col("finished_at").max())).item()

    @property
    def data_hash(self) -> str:
        """12 hex digits over every run's id, status, outcomes and end; how the files are cut does not matter."""
        outcomes = ("outcome", "score", "passed", "weighted_outcome", "success", "joint_share")
        runs = _read(self, self.runs.select("run_id", "status", *outcomes, "finished_at").sort("run_id"))
        return hashlib.blake2b(runs.write_csv().encode(), digest_size=6).hexdigest()

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables by their names.

        Raises
        ------
        StoreError
            The query is not a SELECT, or DuckDB does not accept it (its first line is quoted).
        """
        if not isinstance(self, Study):  # a data set in memory borrows this method; it cannot change meanwhile
            return answer(query, lambda name: self.table(name).collect().to_arrow())
        # One instant for all tables, so that those of a join fit together while the study runs.
        snapshot = _Snapshot.of(self.path)
        return answer(query, lambda name: _read(self, self._table_of(snapshot, name)).to_arrow())

    def _repr_html_(self) -> str:
        runs = self.runs.group_by("benchmark", "version", "status").len("runs").sort("benchmark", "version", "status")
        note = " (simulated agents)" if self.simulated else ""
        return f"<b>study {html.escape(self.name)}</b>{note}{_read(self, runs)._repr_html_()}"


def _read(study: Any, lazy: pl.LazyFrame) -> pl.DataFrame:
    """Rows of a study, or of a data set in memory, which borrows its properties and has no folder."""
    return collect(lazy, study.path) if isinstance(study, Study) else lazy.collect()


# -- questions in SQL -----------------------------------------------------------------------------------

_READS = "a query is one SELECT; it cannot write, load or set anything"
_LEADING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*explain(?:\s+analyze)?\s*(?:\([^)]*\))?", re.DOTALL | re.I)


def answer(query: str, read: Callable[[str], Any]) -> pl.DataFrame:
    """Answer a DuckDB SELECT; `read` gives the Arrow table of a name, and is asked for the tables named only.

    Raises
    ------
    StoreError
        The query is not one SELECT, or DuckDB does not accept it (its first line is quoted).
    """
    import duckdb

    query = valid_text(query)
    words = set(re.findall(r"[A-Za-z_]+", query.lower()))
    with duckdb.connect(":memory:") as db:
        try:
            if not _is_read(db, query):
                raise StoreError(_READS)
            for name in (*RUN_TABLES, "models"):
                if name in words:
                    db.register(name, read(name))
            db.execute("SET TimeZone = 'UTC'")
            db.execute("SET enable_external_access = false")
            db.execute("SET lock_configuration = true")
            return _as_polars(db.sql(query).to_arrow_table())
        except duckdb.Error as e:
            raise StoreError(f"query: {_reason(e)}") from None
        except pl.exceptions.PolarsError as e:
            raise StoreError(
                f"query: its answer has a type without a column ({_reason(e)}); cast it, as in x::varchar"
            ) from None


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
        return _LEADING.match(query)[1].lower() in ("pivot", "from", "select", "with")  # type: ignore[index]
    return kind == duckdb.StatementType.SELECT


def _reason(e: Exception) -> str:
    """DuckDB's first line, with its hint where the second line is one."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
    hints = [line for line in lines[1:2] if line.startswith(("Did you mean", "Candidate bindings"))]
    return " ".join([lines[0], *hints])[:300]


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
    df = pl.DataFrame(arrow.rename_columns(names))
    whole = [n for n, dtype in df.schema.items() if dtype == pl.Decimal(38, 0)]
    with contextlib.suppress(pl.exceptions.PolarsError):  # too large for 64 bits: it stays as it is
        df = df.with_columns(pl.col(whole).cast(pl.Int64))
    return df


def _spans(column: Any) -> list[int | None]:
    """Microseconds of DuckDB intervals; a month counts 30 days, as DuckDB compares them."""
    out: list[int | None] = []
    for span in column.to_pylist():
        days = None if span is None else span.months * 30 + span.days
        out.append(None if days is None else days * 86_400_000_000 + span.nanoseconds // 1000)
    return out


def open_study(path: str | os.PathLike[str], models_table: Any = None) -> Study:
    """Open a study's folder.

    Raises
    ------
    StoreError
        There is no study in `path`.
    """
    folder = Path(path)
    try:
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder}: is a file; name the study's folder.")
        if not folder.is_dir():
            siblings = [p.name for p in folder.parent.glob("*")] if folder.parent.is_dir() else []
            raise StoreError(f"{folder}: no such folder.{nearest(folder.name, siblings)}")
        found = (folder / "tables").is_dir() or (folder / journal.JOURNAL_NAME).exists()
    except (OSError, ValueError) as e:
        raise StoreError(f"{str(path)!r}: cannot be read ({getattr(e, 'strerror', None) or e}).") from None
    if not found:
        raise StoreError(f"{folder}: holds no study (neither tables/ nor {journal.JOURNAL_NAME}).")
    return Study(folder, models_table)


__all__ = [
    "RUN_TABLES",
    "Study",
    "TableError",
    "answer",
    "finished_jobs",
    "open_study",
    "payload_frames",
    "revive",
    "run_states",
    "transcript",
    "wire_messages",
    "write_group",
    "write_text",
]
