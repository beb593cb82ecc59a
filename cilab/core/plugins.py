"""The one place that finds what packages bring by entry point: benchmarks, their columns, importers.

Imports `cilab.core.errors` and nothing else of ours. A package that brings something lists it in its project file:

    [project.entry-points."cilab.benchmarks"]
    maze = "cilab.maze:BENCHMARK"

The groups are `cilab.benchmarks` (a `cilab.collect.spec.Benchmark`), `cilab.columns` (its own columns of the runs
table, a tuple of `cilab.core.columns.Column`, loaded without the benchmark) and `cilab.importers` (a function: path and
options -> `cilab.datasets.importers.report.Imported`). What fails to load is named in a warning, once, and the rest
works; asked for by name it is an error of one line.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cilab.core.errors import CilabWarning, PluginError, first_line, nearest

BENCHMARKS, COLUMNS, IMPORTERS = "cilab.benchmarks", "cilab.columns", "cilab.importers"


@cache
def names(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, in alphabetical order; nothing is loaded.

    Raises
    ------
    PluginError
        Two packages bring the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda e: (e.name, e.value)):
        before = found.setdefault(entry.name, entry)
        if before.value != entry.value:
            raise PluginError(
                f"{group}: two packages bring {entry.name!r} ({_origin(before)} and {_origin(entry)}). Uninstall one."
            )
    return found


@cache
def load(group: str, name: str) -> Any:
    """What the entry point `name` of a group leads to.

    Raises
    ------
    PluginError
        There is none of that name, or it fails to load: named, with the package that brings it.
    """
    known = names(group)
    if name not in known:
        there = ", ".join(known) or "none"
        raise PluginError(f"{group}: nothing is called {name!r}.{nearest(name, list(known))} There are: {there}")
    entry = known[name]
    try:
        return entry.load()
    except Exception as e:
        reason = first_line(e, "")
        raise PluginError(
            f"{group}: {name} of {_origin(entry)} does not load ({type(e).__name__}: {reason}). "
            "Mend or uninstall that package; everything else works."
        ) from e


@cache
def optional(group: str, name: str) -> Any | None:
    """As `load`, where one can do without: None for what is not there; what does not load is also a warning, once."""
    if name not in names(group):
        return None
    try:
        return load(group, name)
    except PluginError as e:
        warnings.warn(str(e), CilabWarning, stacklevel=2)
        return None


def loaded(group: str) -> Mapping[str, Any]:
    """Everything of a group that loads, by name; what does not is named in a warning, once."""
    found = {name: optional(group, name) for name in names(group)}
    return {name: value for name, value in found.items() if value is not None}


class Found(Mapping[str, Any]):
    """A group by name: all names are known, each is loaded when it is asked for (and raises what `load` does)."""

    def __init__(self, group: str):
        self._group = group

    def __getitem__(self, name: str) -> Any:
        if name not in names(self._group):
            raise KeyError(name)
        return load(self._group, name)

    def __contains__(self, name: object) -> bool:
        return name in names(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(names(self._group))

    def __len__(self) -> int:
        return len(names(self._group))


def _origin(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "a package"
    return f"{package} ({entry.value})"
