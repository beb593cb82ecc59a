"""`cilab init`: a folder to work in, for those who installed the wheel; and where the notebooks are.

May import `cilab.core`. Starts nothing and calls no model. Never changes a file that the user
changed: the marker file of a workspace holds the hash of each file as it was laid out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cilab.core.errors import CilabError
from cilab.core.paths import shipped

MARKER = "cilab-workspace.json"
#: What comes from cilab, by the ending of its files, and what the user fills.
_SHIPPED = {"notebooks": ".ipynb", "studies": ".yaml"}
_OWN = ("data/studies", "figures", "reports")


class WorkspaceError(CilabError):
    """A workspace cannot be laid out or found."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """What `init` did.

    Attributes
    ----------
    folder : the workspace.
    written : files that were laid out or brought up to date, by their path inside.
    kept : files that differ from ours because the user changed them; they were left alone.
    there : files that were there already, as they come from this version.
    """

    folder: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]
    there: tuple[str, ...] = ()


def init(folder: str | os.PathLike[str]) -> Workspace:
    """Lay out studies, notebooks and the folders for data, figures and reports.

    In a folder that is a workspace already, what is missing is laid out again and what the user never changed is
    brought to this version of cilab.

    Parameters
    ----------
    folder : a new or empty folder, or a workspace.

    Raises
    ------
    WorkspaceError
        The folder holds something else, is a file, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as somewhere:
    ...     made = init(Path(somewhere) / "lab")
    >>> "studies/my_first.yaml" in made.written
    True
    """
    target = Path(folder).expanduser()
    known = _laid_out(target)
    try:
        if known is None and target.is_dir() and any(target.iterdir()):
            raise WorkspaceError(f"{target} is not empty and no workspace; name a new folder: cilab init my_lab")
        for name in _OWN:
            (target / name).mkdir(parents=True, exist_ok=True)
        written, kept, there, hashes = _lay_out(target, known or {})
        _write_marker(target, hashes)
    except OSError as e:
        raise WorkspaceError(f"{target}: cannot be laid out ({e.strerror}); name another folder") from None
    return Workspace(target, tuple(written), tuple(kept), tuple(there))


def root(start: str | os.PathLike[str] = ".") -> Path | None:
    """The workspace or checkout that `start` stands in, itself or one of its parents; None where there is none."""
    here = Path(start).expanduser().resolve()
    return next((p for p in (here, *here.parents) if (p / MARKER).is_file() or _is_checkout(p)), None)


def notebooks(start: str | os.PathLike[str] = ".") -> Path:
    """The folder with the notebooks to open from `start`.

    Returns
    -------
    Path
        That of the workspace or checkout that `start` stands in; else that of the checkout that cilab runs from; else,
        for an installed wheel, `start/notebooks`, to which the notebooks are copied.

    Raises
    ------
    WorkspaceError
        `start/notebooks` holds other things, or cannot be written.
    """
    found = root(start)
    ours = shipped("notebooks")
    if found is None and _is_checkout(ours.parent):
        found = ours.parent
    if found is not None:
        if not any((found / "notebooks").glob("*.ipynb")):
            raise WorkspaceError(f"{found / 'notebooks'} has no notebooks; lay them out again: cilab init {found}")
        return found / "notebooks"
    return _copy_notebooks(ours, Path(start).expanduser().resolve() / "notebooks")


def _copy_notebooks(ours: Path, target: Path) -> Path:
    names = [p.name for p in sorted(ours.glob("*.ipynb"))]
    there = [p for p in target.glob("*") if not p.name.startswith(".")]
    if there and not any((target / name).is_file() for name in names):
        raise WorkspaceError(f"{target} holds other things; make a folder for the lab: cilab init my_lab && cd my_lab")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not (target / name).exists():
                shutil.copyfile(ours / name, target / name)
    except OSError as e:
        raise WorkspaceError(f"{target}: the notebooks cannot be copied here ({e.strerror})") from None
    return target


def _is_checkout(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / "cilab" / "core" / "paths.py").is_file()


def _laid_out(folder: Path) -> Mapping[str, str] | None:
    """Path -> hash of each file as it was laid out; None where `folder` is no workspace."""
    try:
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))["files"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise WorkspaceError(f"{folder / MARKER} cannot be read; name another folder") from None
    return {str(k): str(v) for k, v in dict(found).items()}


def _lay_out(target: Path, known: Mapping[str, str]) -> tuple[list[str], list[str], list[str], dict[str, str]]:
    """Copy what ships to `target`; returns what was written, kept and there already, and the hashes of ours."""
    written, kept, same, hashes = [], [], [], dict(known)
    for name, source in _sources():
        copy, new = target / name, _hash(source)
        there = _hash(copy) if copy.is_file() else None
        if there is not None and there not in (new, known.get(name)):
            kept.append(name)
            continue
        if there != new:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            written.append(name)
        else:
            same.append(name)
        hashes[name] = new
    return written, kept, same, hashes


def _sources() -> Iterator[tuple[str, Path]]:
    for folder, ending in _SHIPPED.items():
        for path in sorted(shipped(folder).glob(f"*{ending}")):
            yield f"{folder}/{path.name}", path


def _hash(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=15).hexdigest()


def _write_marker(target: Path, hashes: Mapping[str, str]) -> None:
    from cilab.core.version import __version__

    text = json.dumps({"cilab": __version__, "files": dict(sorted(hashes.items()))}, indent=1) + "\n"
    temporary = target / f".{MARKER}.tmp"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, target / MARKER)
