"""An open study: lazy tables over parts and journal, one study, several, or one behind a URL.

May import the rest of `cilab.store`, `cilab.journal`, `cilab.registry`, `cilab.errors`.
"""

from __future__ import annotations

import functools
import hashlib
import html
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab import journal
from cilab.errors import StoreError, TableError, nearest
from cilab.store import parts as files
from cilab.store.parts import RUN_TABLES, collect, payload_frames, revive
from cilab.store.sql import Source, answer


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
        return cls(folder, journaled, files.committed(folder))

    @functools.cached_property
    def fresh(self) -> list[tuple[str, Any]]:
        """(job, payload) of finished jobs that are in the journal only."""
        if not self.journaled:
            return []
        moved = files.finished_in(self.folder, self.committed)
        return [(job, payload) for job, _, payload in self.journaled if job not in moved]

    def source(self, name: str) -> Source:
        parts = files.part_paths(self.folder, name, self.committed)
        return Source(name, tuple(parts), self._journal_rows(name))

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
        return (snapshot or _Snapshot.of(self.path)).source(name).lazy()

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
        return answer(query, lambda name: self._models().to_arrow() if name == "models" else snapshot.source(name))

    def _repr_html_(self) -> str:
        runs = self.runs.group_by("benchmark", "version", "status").len("runs").sort("benchmark", "version", "status")
        note = " (simulated agents)" if self.simulated else ""
        return f"<b>study {html.escape(self.name)}</b>{note}{_read(self, runs)._repr_html_()}"


def _read(study: Any, lazy: pl.LazyFrame) -> pl.DataFrame:
    """Rows of a study, or of a data set in memory, which borrows its properties and has no folder."""
    return collect(lazy, study.path) if isinstance(study, Study) else lazy.collect()


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
