"""Importers of other people's runs: each says what it dropped, doubled or repaired.

`import_any` is the one door for the shell; the functions themselves are `cilab.datasets.import_table` and so on. May
import `cilab.store`, `cilab.core` and `cilab.datasets.dataset`.

An importer is a function that a package names among the entry points `cilab.importers`, ours as well as others': it
takes a path, and options by name, and gives an `Imported`. One with a parameter `study` reads answers: what it gives is
added to that study, which is handed to it opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cilab.core import plugins

if TYPE_CHECKING:
    from cilab.datasets.importers.report import Imported


def import_any(kind: str, path: str | os.PathLike[str], out: str | os.PathLike[str] | None, **options: Any) -> Imported:
    """Import `path` as `kind` and save what came of it: `cilab import KIND PATH --out DIR`.

    Parameters
    ----------
    kind : `release`, `inspect`, `table`, `labels`, `reviews`, or what another package brings.
    path : what to import.
    out : the folder of the new study. For labels and reviews, the study that the form was drawn from: the answers
        are added to it. None saves nothing.
    **options : of the importer. For labels and reviews also `study`, an opened study, in place of `out`.

    Raises
    ------
    ImportFailed
        The kind is not known, an option is not the importer's, or the importer says no.
    PluginError
        The package that brings it does not load.
    StoreError
        `out` already holds a study (or, for answers, holds none).
    """
    from inspect import signature

    from cilab.core.errors import StoreError, nearest
    from cilab.datasets.importers.report import ImportFailed

    known = list(plugins.names(plugins.IMPORTERS))
    if kind not in known:
        raise ImportFailed(f"no importer named {kind}; there are {', '.join(known)}.{nearest(kind, known)}")
    importer = plugins.load(plugins.IMPORTERS, kind)
    if "study" in signature(importer).parameters:
        return _answers(importer, path, out, options)
    if out is not None and (Path(out) / "tables").exists():
        raise StoreError(f"{out}: already holds a study; choose a new folder")
    imported = _call(importer, path, options)
    if out is not None:
        imported.save(out)
    return imported


def _call(importer: Any, path: str | os.PathLike[str], options: dict[str, Any]) -> Imported:
    """The importer's answer; an option that it does not have is the user's slip."""
    from inspect import signature

    from cilab.core.errors import nearest
    from cilab.datasets.importers.report import ImportFailed

    parameters = signature(importer).parameters
    free = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    stray = [o for o in options if o not in parameters]
    if stray and not free:
        known = tuple(p for p in parameters if p != "path")
        hint = nearest(stray[0], known)
        raise ImportFailed(f"{importer.__name__} has no option {stray[0]}; it has {', '.join(known)}.{hint}")
    return importer(path, **options)


def _answers(importer: Any, path: str | os.PathLike[str], out: Any, options: dict[str, Any]) -> Imported:
    """Labels or reviews, say, added to the study that they speak of."""
    from cilab import store
    from cilab.datasets.importers.report import write_notes

    study = options.pop("study", None)
    if study is None and out is not None:
        study = store.open_study(out)
    imported = _call(importer, path, {"study": study, **options})
    if out is not None:
        if imported.dataset.tables:
            store.write_group(Path(out), imported.dataset.tables)
        write_notes(Path(out), imported)
    return imported
