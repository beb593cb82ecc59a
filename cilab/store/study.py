"""An open study: lazy tables over parts and journal, one study, several, or one behind a URL.

May import the rest of `cilab.store`, `cilab.store.journal` and `cilab.core`.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import html
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core import tables
from cilab.core.errors import CilabWarning, StoreError, TableError, first_line, nearest
from cilab.core.tables import TABLES, empty
from cilab.core.vocabulary import PSEUDONYM, SIM
from cilab.store import journal
from cilab.store import parts as files
from cilab.store.footers import Footer, NewerLayout, check_layout, footers, of_open_file, tables_version
from cilab.store.parts import RUN_TABLES, collect, payload_frames, revive
from cilab.store.sql import OF_THE_ROLLOUT, Source, answer, stacked


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
        return Source(name, files.parts_of(self.folder, name, self.committed), self._journal_rows(name))

    def _journal_rows(self, name: str) -> pl.DataFrame | None:
        found = [(job, payload[name]) for job, payload in self.fresh if payload.get(name)]
        if not found:
            return None
        version = journal.tables_version(self.folder)
        try:
            return payload_frames(({name: revive(name, rows)} for _, rows in found), version).get(name)
        except (TableError, ValueError) as e:
            where = self.folder / journal.JOURNAL_NAME
            raise StoreError(f"{where}: {_misfits(name, found, version) or 'a job'} cannot be read ({e}).") from None


def _misfits(name: str, found: Iterable[tuple[str, Any]], version: int) -> str:
    """The first job whose rows do not fit, in words."""
    for job, rows in found:
        try:
            payload_frames([{name: revive(name, rows)}], version)
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
    page: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The study's name (its folder's)."""
        return self.path.resolve().name

    def show(self, run_id: str) -> Any:
        """The transcript of one run as a readable page (see `cilab.show`); the beginning of an id is enough."""
        if self.page is None:
            raise StoreError("open the study with cilab.open to show a run")
        return self.page(self, run_id)

    def table(self, name: str) -> pl.LazyFrame:
        """One table by name (see `cilab.core.tables.TABLES`)."""
        return self._table_of(None, name)

    def _table_of(self, snapshot: _Snapshot | None, name: str) -> pl.LazyFrame:
        if name == "models":
            return self._models().lazy()
        if name not in RUN_TABLES:
            raise StoreError(f"no table named {name}.{nearest(name, (*RUN_TABLES, 'models'))}")
        return (snapshot or _Snapshot.of(self.path)).source(name).lazy()

    def _models(self) -> pl.DataFrame:
        """The models that the study brings (`models.csv` in its folder), beside those of the registry."""
        from cilab.core import registry

        read, folder = self.models_table or registry.models, getattr(self, "path", None)
        own = None if folder is None else folder / "models.csv"
        return read(own) if own is not None and own.is_file() else read()

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
        seats = pl.col("model", "partner_model").fill_null("").str.contains(f"^({SIM}|{PSEUDONYM})")
        return bool(_read(self, self.runs.select(pl.any_horizontal(seats).any())).item())

    @property
    def last_finished_at(self) -> datetime | None:
        """When the last run finished (UTC)."""
        last: datetime | None = _read(self, self.runs.select(pl.col("finished_at").max())).item()
        return last

    @property
    def data_hash(self) -> str:
        """12 hex digits over every run's id, status, outcomes and end, and over what was said of the runs since.

        That is labels, annotations and reviews, without the reasons given. How the files are cut does not matter.
        """
        outcomes = ("outcome", "score", "passed", "weighted_outcome", "success", "joint_share")
        runs = _read(self, self.runs.select("run_id", "status", *outcomes, "finished_at").sort("run_id"))
        digest = hashlib.blake2b(runs.write_csv().encode(), digest_size=6)
        ids = runs.select(pl.col("run_id").unique(maintain_order=True))
        places = ids.with_row_index("place", offset=1).cast({"place": pl.Int64})
        for name in _REMARKS:
            tally = _read(self, _tally(self.table(name), name, places))
            if tally.height:
                digest.update(f"{name}\n{tally.write_csv()}".encode())
        return digest.hexdigest()

    @property
    def _newer(self) -> bool:
        """True when a newer version of the tables wrote it: it may hold columns and words that are not known here."""
        return _written_in(self.path) > tables.TABLES_VERSION

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables by their names.

        Raises
        ------
        StoreError
            The query is not a SELECT, or DuckDB does not accept it (its first line is quoted).
        """
        # One instant for all tables, so that those of a join fit together while the study runs.
        snapshot = _Snapshot.of(self.path)
        return answer(query, lambda name: self._models().to_arrow() if name == "models" else snapshot.source(name))

    def _repr_html_(self) -> str:
        runs = self.runs.group_by("benchmark", "version", "status").len("runs").sort("benchmark", "version", "status")
        note = " (simulated agents)" if self.simulated else ""
        return f"<b>study {html.escape(self.name)}</b>{note}{_read(self, runs)._repr_html_()}"


#: What a remark says, by table: few different values, so that they are counted rather than sorted.
_REMARKS = {
    "labels": ("rater", "model", "label", "gives_way", "noticed"),
    "annotations": ("annotator", "repeat", "agent", "feature", "value", "text"),
    "reviews": ("reviewer", "old_score", "new_score", "at"),
}


def _tally(remarks: pl.LazyFrame, name: str, places: pl.DataFrame) -> pl.LazyFrame:
    """How often each remark stands, with sums over the places where it does: they change when it moves."""
    place = pl.col("place")
    sums = [place.sum().alias("places"), (place * place).sum().alias("squares")]
    if name == "labels":
        sums += [pl.col("index").sum().alias("indices"), (place * pl.col("index")).sum().alias("messages")]
    placed = remarks.join(places.lazy(), on="run_id", how="left")
    return placed.group_by(_REMARKS[name]).agg(pl.len().alias("n"), *sums).sort(_REMARKS[name], nulls_last=True)


def _read(study: Any, lazy: pl.LazyFrame) -> pl.DataFrame:
    """Rows of a study, or of a data set in memory, which borrows its properties and has no folder."""
    return collect(lazy, study.path) if isinstance(study, Study) else lazy.collect()


@dataclass(frozen=True)
class Studies(Study):
    """Several studies as one. A rollout that stands in more than one is seen once: the first finished one counts.

    Attributes
    ----------
    members : the studies, in order.
    """

    members: tuple[Study, ...] = ()

    @property
    def name(self) -> str:
        """The studies' names."""
        return " + ".join(study.name for study in self.members)

    @property
    def _newer(self) -> bool:
        """True when a newer version of the tables wrote one of them."""
        return any(study._newer for study in self.members)

    def _models(self) -> pl.DataFrame:
        """The models that any of the studies brings, before those of the registry."""
        known = super()._models()
        of_all = pl.concat([study._models() for study in self.members])
        own = of_all.join(known, on=known.columns, how="anti", nulls_equal=True, maintain_order="left")
        return pl.concat([own, known]).unique("model", keep="first", maintain_order=True)

    def _table_of(self, snapshot: Any, name: str) -> pl.LazyFrame:
        if name == "models" or name not in RUN_TABLES:
            return super()._table_of(None, name)
        found = self._sources(self._snapshots(), name)
        lazy = stacked([(source.lazy(), source.schema) for source in found])
        return lazy if name in OF_THE_ROLLOUT else lazy.unique(maintain_order=True)

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables of all studies by their names (see `Study.sql`)."""
        snapshots = self._snapshots()
        return answer(
            query, lambda name: self._models().to_arrow() if name == "models" else self._sources(snapshots, name)
        )

    def _snapshots(self) -> list[tuple[_Snapshot, frozenset[str]]]:
        """What each study holds, and the run ids that count elsewhere."""
        snapshots = [_Snapshot.of(study.path) for study in self.members]
        states = [collect(s.source("runs").lazy().select("run_id", "status"), s.folder) for s in snapshots]
        best: dict[str, int] = {}
        final: set[str] = set()
        for number, table in enumerate(states):
            for run_id, status in table.iter_rows():
                done = status not in journal.PROVISIONAL
                if run_id not in best or (done and run_id not in final):
                    best[run_id] = number
                if done:
                    final.add(run_id)
        elsewhere = [frozenset(i for i in t["run_id"] if best[i] != n) for n, t in enumerate(states)]
        return list(zip(snapshots, elsewhere, strict=True))

    def _sources(self, snapshots: Iterable[tuple[_Snapshot, frozenset[str]]], name: str) -> list[Source]:
        out = []
        for snapshot, elsewhere in snapshots:
            source = snapshot.source(name)
            out.append(replace(source, without=elsewhere) if name in OF_THE_ROLLOUT else source)
        return out


#: Ends of parts behind a URL that are read at the same time.
_AT_ONCE = 16


@dataclass(frozen=True)
class RemoteStudy:
    """A study behind an fsspec URL (`s3://...`). Holds what is in Parquet; a journal is read on its own machine only.

    Attributes
    ----------
    url : the study's folder.
    """

    url: str
    models_table: Any = field(default=None, repr=False)
    page: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The study's name (its folder's)."""
        return self.url.rstrip("/").rsplit("/", 1)[-1]

    def table(self, name: str) -> pl.LazyFrame:
        """One table by name (see `cilab.core.tables.TABLES`)."""
        if name == "models":
            return Study._models(self).lazy()  # type: ignore[arg-type]
        if name not in RUN_TABLES:
            raise StoreError(f"no table named {name}.{nearest(name, (*RUN_TABLES, 'models'))}")
        found = self._dataset(name)
        return pl.LazyFrame(schema=TABLES[name].schema) if found is None else pl.scan_pyarrow_dataset(found)

    def _dataset(self, name: str) -> Any:
        """The committed parts of a table as an Arrow data set; None where there are none."""
        with self._reading():
            fs, root, committed = self._committed()
            paths = [p for p in sorted(fs.glob(f"{root}/tables/{name}/part-*.parquet")) if _last(p) in committed]
            return _in_full(name, paths, fs) if paths else None

    def _committed(self) -> tuple[Any, str, set[str]]:
        """The file system, the study's place on it, and the names of committed parts."""
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(self.url)
        committed = {_last(p) for p in fs.glob(f"{root}/tables/runs/part-*.parquet")}
        if not committed:
            raise StoreError(f"{self.url}: holds no study (no tables/runs/part-*.parquet).")
        return fs, root, committed

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, ValueError, ImportError, pa.ArrowException) as e:
            raise StoreError(f"{self.url}: cannot be read ({first_line(e, repr(e))}).") from None

    @property
    def _newer(self) -> bool:
        """True when a newer version of the tables wrote it (see `Study`)."""
        last = self._newest("runs")
        return last is not None and last.version > tables.TABLES_VERSION

    def tell(self) -> None:
        """Say that a newer version wrote it, where one did."""
        last = self._newest("runs")
        if last is not None and last.version > tables.TABLES_VERSION:
            ends = {name: end for name in RUN_TABLES if (end := self._newest(name)) is not None}
            _tell(self.url, last.version, ends)

    def _newest(self, name: str) -> Footer | None:
        """What the end of the last committed part of a table says."""
        with self._reading():
            fs, root, committed = self._committed()
            paths = [p for p in sorted(fs.glob(f"{root}/tables/{name}/part-*.parquet")) if _last(p) in committed]
            return of_open_file(paths[-1], fs) if paths else None

    # A stored study's own definitions, which read nothing but `self.table`.
    runs, messages, calls, labels = Study.runs, Study.messages, Study.calls, Study.labels
    annotations, reviews, tasks, models = Study.annotations, Study.reviews, Study.tasks, Study.models
    simulated, last_finished_at, data_hash = Study.simulated, Study.last_finished_at, Study.data_hash
    show = Study.show

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables by their names (see `Study.sql`)."""

        def read(name: str) -> Any:
            found = None if name == "models" else self._dataset(name)
            return self.table(name).collect().to_arrow() if found is None else found

        return answer(query, read)


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _in_full(name: str, paths: list[str], fs: Any) -> Any:
    """An Arrow data set of parts of several versions: every column of ours, and those that are not known here.

    The ends of all parts are read here, some at a time, and kept for reading the rows.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    fragments = list(ds.dataset(paths, filesystem=fs, format="parquet").get_fragments())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        schemas = list(pool.map(lambda fragment: fragment.physical_schema, fragments))
    for path, schema in zip(paths, schemas, strict=True):
        check_layout(path, {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()})
    there = pa.unify_schemas([schema.remove_metadata() for schema in schemas])
    ours = empty(name).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    names = [*ours.names, *(n for n in there.names if n not in ours.names)]
    columns = pa.schema([(there if n in there.names else ours).field(n) for n in names])
    return ds.FileSystemDataset(fragments, columns, ds.ParquetFileFormat(), fragments[0].filesystem)


def open_here(path: str | os.PathLike[str], models_table: Any = None) -> Study:
    """Open a study on this machine, with its journal: to count what is under way, or to add to it.

    Raises
    ------
    StoreError
        There is no study in `path`, or it is a URL.
    """
    opened = open_study(path, models_table)
    if isinstance(opened, RemoteStudy):
        raise StoreError(f"{opened.url}: a study behind a URL can only be read; name its folder")
    return opened


def open_study(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], models_table: Any = None, page: Any = None
) -> Study | RemoteStudy:
    """Open a study's folder, several of them as one, or one behind a URL.

    Parameters
    ----------
    path : a folder; a pattern (`data/studies/maze_*`); a list of folders and patterns; an fsspec URL (`s3://...`).
    models_table : function that gives the models table; default the registry's.
    page : function (study, run_id) -> page behind `study.show`; `cilab.open` brings it.

    Raises
    ------
    StoreError
        There is no study in `path`.
    """
    several = [path] if isinstance(path, str | os.PathLike) else list(path)
    if len(several) == 1 and "://" in str(several[0]):
        remote = RemoteStudy(str(several[0]), models_table, page)
        remote.tell()  # a wrong URL is told here as well, not at the first question
        return remote
    folders = [folder for one in several for folder in _matching(one)]
    if not folders:
        raise StoreError("name at least one study's folder")
    members = tuple(_open_folder(folder, models_table, page) for folder in dict.fromkeys(folders))
    for member in members:
        _tell_of(member.path)
    if len(members) == 1:
        return members[0]
    common = Path(os.path.commonpath([str(m.path.resolve()) for m in members]))
    return Studies(common, models_table, page, members)


def _matching(path: str | os.PathLike[str]) -> list[Path]:
    """The folder, or the folders that a pattern matches and that hold a study."""
    text = str(path)
    if "://" in text:
        raise StoreError(f"{text}: a URL is opened alone, not together with others.")
    if not any(mark in text for mark in "*?[") or Path(text).exists():
        return [Path(text)]
    found = [Path(p) for p in sorted(glob.glob(text, recursive=True)) if _holds_study(Path(p))]
    if not found:
        raise StoreError(f"{text}: matches no study's folder.")
    return found


def _holds_study(folder: Path) -> bool:
    return (folder / "tables").is_dir() or (folder / journal.JOURNAL_NAME).exists()


def _open_folder(folder: Path, models_table: Any, page: Any) -> Study:
    try:
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder}: is a file; name the study's folder.")
        if not folder.is_dir():
            siblings = [p.name for p in folder.parent.glob("*")] if folder.parent.is_dir() else []
            raise StoreError(f"{folder}: no such folder.{nearest(folder.name, siblings)}")
        found = _holds_study(folder)
    except (OSError, ValueError) as e:
        raise StoreError(f"{str(folder)!r}: cannot be read ({getattr(e, 'strerror', None) or e}).") from None
    if not found:
        raise StoreError(f"{folder}: holds no study (neither tables/ nor {journal.JOURNAL_NAME}).")
    return Study(folder, models_table, page)


def _written_in(folder: Path) -> int:
    """The newest version of the tables that wrote to a folder."""
    last = files.newest(folder)
    return max(0 if last is None else tables_version(last), journal.tables_version(folder))


def _tell_of(folder: Path) -> None:
    """Say that a newer version wrote to a folder. What is damaged in it is told by the question that meets it."""
    try:
        written = _written_in(folder)
        if written > tables.TABLES_VERSION:
            ends = {name: files.newest(folder, name) for name in RUN_TABLES}
            _tell(str(folder), written, {name: next(footers([end])) for name, end in ends.items() if end is not None})
    except NewerLayout:
        raise
    except StoreError:
        return


def _tell(where: str, written: int, ends: Mapping[str, Footer]) -> None:
    """Say what it means that a newer version of the tables wrote a study, and what is not known of it."""
    new = [
        f"{name}.{column}" for name, end in ends.items() for column in end.columns if column not in TABLES[name].kinds
    ]
    _say(
        f"{where}: written by a newer cilab (tables {written}, this one knows {tables.TABLES_VERSION}). Here it is "
        f"read-only; what is new in it ({', '.join([*new, 'words of closed lists'])}) is kept as it is. "
        "Upgrade cilab to use that."
    )


@functools.cache
def _say(text: str) -> None:
    warnings.warn(text, CilabWarning, stacklevel=6)  # where `cilab.open` was called
