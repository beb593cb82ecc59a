"""The only code that reads or writes run files: Parquet parts of a study, and the union with its journal.

May import `cilab.tables`, `cilab.journal`, `cilab.errors`. Never calls a model, never plots.

Layout of a study's folder: `tables/<table>/part-NNNNNN.parquet`, `journal.sqlite`, `study.yaml`.

What is durable when
    A group of rollouts is one part number in every table that has rows. Each part is written under a
    temporary name, fsynced and renamed; the part of `runs` comes last and commits the group. Readers
    ignore parts without their `runs` part; a writer that was killed in between writes the same number
    again, from the journal. So a reader sees each rollout once, whole, at any instant.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab import journal
from cilab.errors import StoreError, TableError, nearest
from cilab.tables import TABLES, TABLES_VERSION, check, frame

#: Tables that a study's folder holds; `models` comes from the registry.
RUN_TABLES = ("runs", "messages", "calls", "labels", "annotations", "reviews", "tasks")
_PART = re.compile(r"part-(\d{6,})\.parquet$")
# Free text gains nothing from a dictionary, ids and repeated words gain a lot.
_NO_DICTIONARY = {"content", "wire_json", "tool_input_json", "tool_output", "text", "reason"}
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
    number = max(_part_numbers(folder, "runs"), default=0) + 1
    filled = {name: check(name, df) for name, df in tables.items() if name != "runs" and df.height}
    runs = check("runs", tables["runs"]) if "runs" in tables else frame("runs", [])
    try:
        # A part of this number without its `runs` part is left over from a killed writer.
        for name in RUN_TABLES:
            if name not in filled and name != "runs":
                _part_path(folder, name, number).unlink(missing_ok=True)
        for name, df in filled.items():
            _write_part(_part_path(folder, name, number), df, ())
        _write_part(_part_path(folder, "runs", number), runs, jobs)
    except OSError as e:
        what = "the disk is full" if e.errno == 28 else (e.strerror or str(e))
        raise StoreError(f"{folder}: {what}. Nothing is lost; free space and run the same command again.") from None
    return number


def _part_path(folder: Path, table: str, number: int) -> Path:
    return folder / "tables" / table / f"part-{number:06d}.parquet"


def _write_part(path: Path, df: pl.DataFrame, jobs: Sequence[str]) -> None:
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    meta = {"cilab_tables": str(TABLES_VERSION)}
    if jobs:
        meta["cilab_jobs"] = json.dumps(list(jobs))
    arrow = df.to_arrow(compat_level=pl.CompatLevel.oldest()).replace_schema_metadata(meta)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as f:
        pq.write_table(
            arrow,
            f,
            compression="zstd",
            compression_level=6,
            use_dictionary=[c for c in df.columns if c not in _NO_DICTIONARY],
            write_statistics=["run_id", "finished_at"] if "finished_at" in df.columns else ["run_id"],
            store_schema=False,
            data_page_version="2.0",
        )
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)
    _fsync_dir(path.parent)


def _fsync_dir(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically (temporary name, fsync, rename)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with open(temporary, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
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


@functools.lru_cache(maxsize=4096)
def _footer(path: str, size: int, mtime_ns: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns, jobs) of a part; parts never change, so the answer is kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError) as e:
        reason = str(e).splitlines()[0]
        raise StoreError(
            f"{path}: is no readable Parquet file ({reason}). Move it and the parts of the same number away, "
            "then run the study again: only their rollouts are played again."
        ) from None
    meta = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
    version = int(meta.get("cilab_tables", 0))
    if version > TABLES_VERSION:
        raise StoreError(
            f"{path}: written by a newer cilab (tables {version}, this one reads {TABLES_VERSION}). Upgrade cilab."
        )
    return tuple(schema.names), tuple(json.loads(meta.get("cilab_jobs", "[]")))


def _parts(folder: Path, table: str) -> list[Path]:
    committed = set(_part_numbers(folder, "runs"))
    paths = [_part_path(folder, table, n) for n in _part_numbers(folder, table) if n in committed]
    expected = set(TABLES[table].names)
    for path in paths:
        stat = path.stat()
        columns, _ = _footer(str(path), stat.st_size, stat.st_mtime_ns)
        stray = [c for c in columns if c not in expected]
        missing = expected.difference(columns)
        if stray or missing:
            what = f"has no column {sorted(missing)[0]}" if missing else f"has an unknown column {stray[0]}"
            raise StoreError(f"{path}: {what}; it was not written by cilab as it stands.")
    return paths


def revive(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that were JSON: times are text there. Changes and returns `rows`."""
    for column in _DATETIMES[table]:
        for row in rows:
            if isinstance(row.get(column), str):
                row[column] = datetime.fromisoformat(row[column])
    return rows


def payload_frames(payloads: Iterable[Mapping[str, list[dict[str, Any]]]]) -> dict[str, pl.DataFrame]:
    """Rows of finished jobs (table -> rows, several jobs) as checked data frames."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for payload in payloads:
        for name, part in payload.items():
            rows.setdefault(name, []).extend(part)
    return {name: frame(name, part) for name, part in rows.items() if part}


def finished_jobs(folder: Path) -> set[str]:
    """Ids of runs and other jobs whose rows are in Parquet."""
    done: set[str] = set()
    parts = _parts(folder, "runs")
    for path in parts:
        stat = path.stat()
        done.update(_footer(str(path), stat.st_size, stat.st_mtime_ns)[1])
    if parts:
        done.update(pl.scan_parquet(parts).select("run_id").collect()["run_id"].to_list())
    return done


def run_states(folder: Path, run_ids: set[str]) -> dict[str, dict[str, Any]]:
    """status and passed of those of `run_ids` that are in Parquet."""
    parts = _parts(folder, "runs")
    if not parts or not run_ids:
        return {}
    lf = pl.scan_parquet(parts).select("run_id", "status", "passed").filter(pl.col("run_id").is_in(list(run_ids)))
    return {r["run_id"]: r for r in lf.collect().iter_rows(named=True)}


def transcript(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Messages of one run in order, from Parquet; empty when it is not there."""
    parts = _parts(folder, "messages")
    if not parts:
        return []
    lf = pl.scan_parquet(parts).filter(pl.col("run_id") == run_id).sort("index")
    return lf.collect().to_dicts()


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

    def unfold(i: int) -> list[Any]:
        wire = json.loads(wires[i])
        before = unfold(wire["same_as"])[: wire["first"]] if "same_as" in wire else []
        return before + wire["messages"]

    out = {"messages": unfold(index)}
    if tools := json.loads(wires[index]).get("tools"):
        out["tools"] = tools
    return out


# -- an open study --------------------------------------------------------------------------------------


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
        if name == "models":
            return self.models_table().lazy()
        if name not in RUN_TABLES:
            raise StoreError(f"no table named {name}.{nearest(name, (*RUN_TABLES, 'models'))}")
        # The journal first: a group that moves to Parquet in between is then seen twice, never missed.
        journaled = journal.read_finished(self.path)
        parts = _parts(self.path, name)
        lazy = pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=TABLES[name].schema)
        if journaled:
            moved = finished_jobs(self.path)
            fresh = [payload for job, _, payload in journaled if job not in moved]
            rows = payload_frames({name: revive(name, p[name])} for p in fresh if name in p).get(name)
            if rows is not None:
                lazy = pl.concat([lazy, rows.lazy()])
        return lazy

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
        return bool(self.runs.select(pl.any_horizontal(seats).any()).collect().item())

    @property
    def last_finished_at(self) -> datetime | None:
        """When the last run finished (UTC)."""
        return self.runs.select(pl.col("finished_at").max()).collect().item()

    @property
    def data_hash(self) -> str:
        """12 hex digits over every run's id, status, outcomes and end; how the files are cut does not matter."""
        columns = ("run_id", "status", "score", "weighted_outcome", "success", "joint_share", "finished_at")
        runs = self.runs.select(columns).sort("run_id").collect()
        return hashlib.blake2b(runs.write_csv().encode(), digest_size=6).hexdigest()

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables by their names.

        Raises
        ------
        StoreError
            The query is not a SELECT, or DuckDB does not accept it (its first line is quoted).
        """
        import duckdb

        words = set(re.findall(r"[A-Za-z_]+", query.lower()))
        with duckdb.connect(":memory:") as db:
            try:
                statements = db.extract_statements(query)
                if len(statements) != 1 or statements[0].type not in (
                    duckdb.StatementType.SELECT,
                    duckdb.StatementType.EXPLAIN,
                ):
                    raise StoreError("a query is one SELECT; it cannot write")
                for name in (*RUN_TABLES, "models"):
                    if name in words:
                        db.register(name, self._relation(db, name))
                db.execute("SET enable_external_access = false")
                db.execute("SET lock_configuration = true")
                return pl.DataFrame(db.sql(query).to_arrow_table())
            except duckdb.Error as e:
                raise StoreError(f"query: {str(e).splitlines()[0]}") from None

    def _relation(self, db: Any, name: str) -> Any:
        return self.table(name).collect().to_arrow()

    def _repr_html_(self) -> str:
        runs = self.runs.group_by("benchmark", "version", "status").len("runs").sort("benchmark", "version", "status")
        note = " (simulated agents)" if self.simulated else ""
        return f"<b>study {self.name}</b>{note}{runs.collect()._repr_html_()}"


def open_study(path: str | os.PathLike[str], models_table: Any = None) -> Study:
    """Open a study's folder.

    Raises
    ------
    StoreError
        There is no study in `path`.
    """
    folder = Path(path)
    if not folder.is_dir():
        siblings = [p.name for p in folder.parent.glob("*")] if folder.parent.is_dir() else []
        raise StoreError(f"{folder}: no such folder.{nearest(folder.name, siblings)}")
    if not (folder / "tables").is_dir() and not (folder / journal.JOURNAL_NAME).exists():
        raise StoreError(f"{folder}: holds no study (neither tables/ nor {journal.JOURNAL_NAME}).")
    return Study(folder, models_table)


__all__ = [
    "RUN_TABLES",
    "Study",
    "TableError",
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
