"""A data set in memory that answers the same questions as a study on disk.

May import `cilab.show`, `cilab.store` and `cilab.core`. Invents no row: it holds what it is given,
checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from cilab import store
from cilab.core.errors import StoreError, nearest
from cilab.core.tables import TABLES, TABLES_VERSION, check, empty
from cilab.store import Study

if TYPE_CHECKING:
    from cilab.show import Page

Kind = Literal["published", "simulated", "imported"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Tables in memory with a name and an origin; every statistic takes it where it takes an opened study.

    Attributes
    ----------
    name : what the data set is called in figures and reports.
    tables : table name -> DataFrame (see `cilab.core.tables.TABLES`); checked when the data set is made. A table that
        is left out is empty.
    simulated : True when any row is invented by a model of the world rather than observed.
    kind : `published` (rebuilt from printed numbers), `simulated`, or `imported` (other people's runs).
    truth : for simulated data the parameters that made them, by name; else None.
    notes : sentences that a reader of any result on these data should know.
    version : the version of the tables that the frames were read in; None for this one. Of an older one, columns that
        came later are null; of a newer one, what is not known is kept, and the data set cannot be saved.

    Raises
    ------
    StoreError
        A table's name is not known.
    TableError
        A table does not fit its schema.

    Examples
    --------
    >>> from cilab.core.tables import empty
    >>> Dataset("nothing yet", {"runs": empty("runs")}, simulated=False, kind="imported").runs.collect().height
    0
    """

    name: str
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    simulated: bool
    kind: Kind
    truth: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    version: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in self.tables:
            _known(name)
        checked = {name: check(name, df, self.version) for name, df in self.tables.items()}
        object.__setattr__(self, "tables", MappingProxyType(checked))

    def table(self, name: str) -> pl.LazyFrame:
        """One table by name; empty where the data set has none.

        Raises
        ------
        StoreError
            There is no table of that name.
        """
        _known(name)
        return (self.tables[name] if name in self.tables else empty(name)).lazy()

    # A stored study's own definitions, which read nothing but `self.table`: the words mean the same here.
    runs, messages, calls, labels = Study.runs, Study.messages, Study.calls, Study.labels
    annotations, reviews, tasks, models = Study.annotations, Study.reviews, Study.tasks, Study.models
    last_finished_at = Study.last_finished_at

    @property
    def _newer(self) -> bool:
        """True when its frames are of a newer version of the tables."""
        return self.version is not None and self.version > TABLES_VERSION

    def show(self, run_id: str) -> Page:
        """The transcript of one run as a readable page, as of a study on disk (see `cilab.show.show`).

        Parameters
        ----------
        run_id : the run's id, or as much of its beginning as no other run shares.

        Raises
        ------
        StoreError
            No run, or more than one, has an id that begins so; the nearest ids are named.
        """
        from cilab.show import show

        return show(self, run_id)

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a DuckDB SELECT over the tables by their names.

        Raises
        ------
        StoreError
            The query is not a SELECT, or DuckDB does not accept it.
        """
        return store.answer(query, lambda name: self.table(name).collect().to_arrow())

    @cached_property
    def data_hash(self) -> str:
        """12 hex digits, whatever the order of the rows; the same as that of the study that `save` writes.

        A data set without runs (labels, reviews) is hashed over all its tables.
        """
        runs = self.tables.get("runs")
        if runs is not None and runs.height:
            return Study.data_hash.fget(self)  # type: ignore[attr-defined]
        digest = hashlib.blake2b(digest_size=6)
        for name in sorted(self.tables):
            digest.update(name.encode())
            for line in sorted(self.tables[name].write_ndjson().splitlines()):
                digest.update(line.encode())
        return digest.hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the data set as a study's folder, which `cilab.open` opens. Returns the folder.

        Beside the tables stands `dataset.json` with name, kind, notes and (where it is JSON) the truth, and
        `models.csv` where the data set has models of its own (the form of `cilab.core.registry.models(extra=...)`).

        Raises
        ------
        StoreError
            The folder already holds a study, or cannot be written.
        """
        path = Path(folder)
        if (path / "tables").exists():
            raise StoreError(f"{path}: already holds a study; choose a new folder")
        store.write_group(path, {n: df for n, df in self.tables.items() if n in store.RUN_TABLES})
        about = {
            "name": self.name,
            "kind": self.kind,
            "simulated": self.simulated,
            "data_hash": self.data_hash,
            "notes": list(self.notes),
            "truth": None if self.truth is None else dict(self.truth),
        }
        store.write_text(path / "dataset.json", json.dumps(about, indent=1, default=_plain, ensure_ascii=False) + "\n")
        if "models" in self.tables:
            store.write_text(path / "models.csv", self.tables["models"].write_csv())
        return path

    def _repr_html_(self) -> str:
        note = " (simulated agents)" if self.simulated else ""
        runs = self.runs.group_by("benchmark", "version", "status").len("runs").sort("benchmark", "version", "status")
        return f"<b>{self.kind} data {self.name}</b>{note}{runs.collect()._repr_html_()}"


def _known(name: str) -> None:
    if name not in TABLES:
        raise StoreError(f"no table named {name}.{nearest(name, tuple(TABLES))}")


def _plain(value: Any) -> Any:
    """What JSON does not know, in its terms: arrays and frames as lists, anything else as text."""
    if isinstance(value, pl.DataFrame):
        return value.to_dict(as_series=False)
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)
