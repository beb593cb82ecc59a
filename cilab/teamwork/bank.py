"""Finds tasks: our own bank by id, pattern or dimension, and folders of the user's own.

May import `cilab.core`, `cilab.collect.spec` and its own folder. Reads task folders only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path

from cilab.collect.spec import digest
from cilab.core.errors import nearest
from cilab.core.inputs import checked, read_yaml
from cilab.teamwork.task import TaskError, TaskFile
from cilab.teamwork.terms import DIMENSIONS, VERSIONS

#: Our own tasks: `<dimension>/<task_id>/task.yaml`.
HOME = Path(__file__).parent / "tasks"
#: Most bytes of one file of a task.
_FILE_BYTES = 1_000_000


@dataclass(frozen=True, eq=False)
class Task:
    """A task as it is played.

    Attributes
    ----------
    file : the checked task file.
    folder : where it lies.
    base : path -> text of `files/`.
    overlays : version -> path -> text of `files.<version>/`.
    hidden : path -> text of `hidden/`, which no model sees.
    task_hash : hash of all of it.
    """

    file: TaskFile
    folder: Path
    base: Mapping[str, str] = field(default_factory=dict)
    overlays: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The task's id."""
        return self.file.id

    @cached_property
    def task_hash(self) -> str:
        """Changes with any part of the task that a run depends on; exemplars and remarks are left out."""
        told = self.file.model_dump(mode="json", exclude={"exemplars", "why_hard", "difficulty", "source", "split"})
        return digest([told, dict(self.base), {k: dict(v) for k, v in self.overlays.items()}, dict(self.hidden)])

    def files(self, version: str) -> dict[str, str]:
        """The sandbox at the start of a run."""
        return {**self.base, **self.overlays.get(version, {})}


def load(folder: Path) -> Task:
    """Read and check a task folder; read anew only when something in it changed.

    Raises
    ------
    TaskError
        One line: file, key, what is wrong and how to mend it.
    """
    folder = folder.resolve()
    return _load(folder, _stamp(folder))


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    try:
        found = sorted(p for p in folder.rglob("*") if p.is_file())
        return tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in found)
    except OSError as e:
        raise TaskError(f"{folder}: cannot be read ({e.strerror}).") from None


@lru_cache(maxsize=4096)
def _load(folder: Path, stamp: object) -> Task:
    where = folder / "task.yaml"
    try:
        text = where.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TaskError(f"{where}: is missing; a task is a folder with a task.yaml in it.") from None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskError(f"{where}: cannot be read ({e}).") from None
    raw = read_yaml(text, str(where), TaskError)
    if not isinstance(raw, dict):
        raise TaskError(f"{where}: is no task file. `cilab tasks new` writes a template.")
    file: TaskFile = checked(TaskFile, raw, str(where), "", TaskError)
    if file.id != folder.name:
        raise TaskError(f"{where}: id: is {file.id!r}, but the folder is called {folder.name!r}; give both one name.")
    task = Task(
        file,
        folder,
        _texts(folder / "files"),
        {version: _texts(folder / f"files.{version}") for version in VERSIONS},
        _texts(folder / "hidden"),
    )
    _check_files(task, str(where))
    return task


#: What is played where this is asked. Simulated agents know a task by its brief, as they get no more than messages.
_AT_HAND: ContextVar[tuple[Task, ...]] = ContextVar("tasks at hand", default=())


@contextmanager
def at_hand(*tasks: Task) -> Iterator[None]:
    """While these are played: the simulated agents that are called from here act them out."""
    token = _AT_HAND.set(tasks)
    try:
        yield
    finally:
        _AT_HAND.reset(token)


def known() -> tuple[Task, ...]:
    """The tasks at hand; our own bank where nothing is played (a judge who looks at a stored study)."""
    return _AT_HAND.get() or _ours_as_read()


@lru_cache(maxsize=1)
def _ours_as_read() -> tuple[Task, ...]:
    return tuple(ours())


def _texts(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    out = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or "__pycache__" in path.parts:
            continue
        try:
            if path.stat().st_size > _FILE_BYTES:
                raise TaskError(f"{path}: is larger than {_FILE_BYTES:,} bytes; make it smaller.")
            out[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise TaskError(f"{path}: is no UTF-8 text ({e}).") from None
    return out


def _check_files(task: Task, where: str) -> None:
    every = {**task.base, **{p: t for overlay in task.overlays.values() for p, t in overlay.items()}}
    if task.file.sandbox is None:
        if every:
            raise TaskError(f"{where}: there are files, but no `sandbox`; add one or take the files out.")
        return
    shown = {path for notice in task.file.notices for path in notice.files}
    known = [*every, *shown]
    for path in task.file.sandbox.tests:
        if path not in every:
            raise TaskError(f"{where}: sandbox.tests: there is no file files/{path}.{nearest(path, known)}")
    for condition in task.file.check.passes:
        for part in condition.parts():
            for path in part.tests.files if part.tests else ():
                if path not in task.hidden:
                    raise TaskError(f"{where}: check: tests: there is no file hidden/{path}.")
            if part.file and part.file.is_ in ("original", "unchanged") and part.file.path not in every:
                raise TaskError(f"{where}: check: file: there is no file files/{part.file.path}.")
            if part.opened and part.opened not in known:
                raise TaskError(f"{where}: check: opened: there is no file files/{part.opened}.")


def folders(root: Path) -> Iterator[Path]:
    """Every folder at or below `root` with a task.yaml in it, in order."""
    if (root / "task.yaml").is_file():
        yield root
        return
    yield from (p.parent for p in sorted(root.rglob("task.yaml")))


def find(wanted: Iterable[str], home: Path = HOME) -> list[Task]:
    """The tasks meant by ids, patterns (`ti-*`), dimensions, or paths to folders; each once, in order of the ids.

    Raises
    ------
    TaskError
        Nothing goes by that name, a task is wrong, or two have one id.
    """
    own = {path.name: path for path in folders(home)}
    found: dict[Path, Task] = {}
    for entry in wanted:
        for path in _meant(entry, own):
            task = load(path)
            found[task.folder] = task
    tasks = sorted(found.values(), key=lambda t: (DIMENSIONS.index(t.file.dimension), t.id))
    _check_ids(tasks)
    return tasks


def beside(wanted: Iterable[str], folder: Path) -> list[str]:
    """`wanted` with relative folders made absolute: as they lie from `folder`, else from the working folder.

    Raises
    ------
    TaskError
        A folder is in neither; the places that were looked in are named.
    """
    return [_placed(entry, folder.resolve()) for entry in wanted]


def _placed(entry: str, folder: Path) -> str:
    path = _expanded(entry)
    if path.is_absolute():
        return entry
    places = list(dict.fromkeys((folder, Path.cwd())))
    if is_path := _is_path(entry):
        hits = [place / path for place in places if (place / path).is_dir()]
    else:  # a name, of a folder or of ours
        hits = [] if entry in ("", *DIMENSIONS) else [p for place in places if any(folders(p := place / path))]
    if is_path and not hits:
        raise TaskError(f"tasks: there is no folder {entry} in {', nor in '.join(map(str, places))}.")
    return str(hits[0]) if hits else entry


def _is_path(entry: str) -> bool:
    return "/" in entry or "\\" in entry or entry.startswith(".")


def _expanded(entry: str) -> Path:
    try:
        return Path(entry).expanduser()
    except RuntimeError:  # ~name, and there is no such user
        return Path(entry)


def _meant(entry: str, own: Mapping[str, Path]) -> list[Path]:
    if _is_path(entry) or (entry and Path(entry).is_dir()):
        root = _expanded(entry)
        if not root.is_dir():
            at = "" if root.is_absolute() else f" in {Path.cwd()}"
            raise TaskError(f"tasks: there is no folder {entry}{at}.")
        if paths := list(folders(root)):
            return paths
        raise TaskError(f"tasks: {entry} has no task.yaml in it.")
    hits = [path for name, path in own.items() if fnmatchcase(name, entry) or path.parent.name == entry]
    if not hits:
        raise TaskError(
            f"tasks: no task is called {entry!r}.{nearest(entry, [*own, *DIMENSIONS])} Try: cilab tasks list"
        )
    return hits


def _check_ids(tasks: Sequence[Task]) -> None:
    by_id: dict[str, Task] = {}
    for task in tasks:
        if task.id in by_id:
            raise TaskError(f"tasks: {task.folder} and {by_id[task.id].folder} have one id, {task.id!r}; rename one.")
        by_id[task.id] = task


def ours() -> list[Task]:
    """Every task of our own bank."""
    return find(["*"])
