"""Importers of other people's runs: each says what it dropped, doubled or repaired.

`import_any` is the one door for the shell; the functions themselves are `cilab.datasets.import_table` and so on. May
import `cilab.store`, `cilab.core.tables`, `cilab.core.errors` and `cilab.datasets.dataset`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cilab.datasets.importers.report import Imported

KINDS = ("release", "inspect", "table", "labels", "reviews")


def import_any(kind: str, path: str | os.PathLike[str], out: str | os.PathLike[str] | None, **options: Any) -> Imported:
    """Import `path` as `kind` and save what came of it: `cilab import KIND PATH --out DIR`.

    Parameters
    ----------
    kind : `release`, `inspect`, `table`, `labels` or `reviews`.
    path : what to import.
    out : the folder of the new study. For labels and reviews, the study that the form was drawn from: the answers
        are added to it. None saves nothing.
    **options : of the importer. For labels and reviews also `study`, an opened study, in place of `out`.

    Raises
    ------
    ImportFailed
        The kind is not known, an option is not the importer's, or the importer says no.
    StoreError
        `out` already holds a study (or, for answers, holds none).
    """
    from cilab.core.errors import StoreError, nearest
    from cilab.datasets.importers.report import ImportFailed

    if kind not in KINDS:
        raise ImportFailed(f"no importer named {kind}; there are {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    if kind in ("labels", "reviews"):
        return _answers(kind, path, out, options)
    if out is not None and (Path(out) / "tables").exists():
        raise StoreError(f"{out}: already holds a study; choose a new folder")
    imported = _call(_importer(kind), path, options)
    if out is not None:
        imported.save(out)
    return imported


def _importer(kind: str) -> Any:
    from cilab import datasets

    return getattr(datasets, f"import_{kind}")


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


def _answers(kind: str, path: str | os.PathLike[str], out: Any, options: dict[str, Any]) -> Imported:
    """Labels or reviews, added to the study that they speak of."""
    from cilab import store
    from cilab.datasets.importers.report import write_notes

    study = options.pop("study", None)
    if study is None and out is not None:
        study = store.open_study(out)
    imported = _call(_importer(kind), path, {"study": study, **options})
    if out is not None:
        if imported.dataset.tables:
            store.write_group(Path(out), imported.dataset.tables)
        write_notes(Path(out), imported)
    return imported
