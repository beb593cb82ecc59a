"""The files of a run, in memory, and the tools with which a model reads and changes them.

May import `cilab.core` and this folder. Never touches the host's disk, so that no path, link or archive
can lead out of it. A tool never raises for what a model does wrong: it answers `error: ...` in one line.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from cilab.core.errors import nearest

from .base import ROOT, Limits, SandboxError, shorten

_PLAIN = re.compile(r"[A-Za-z0-9_.\-/ ]+")
#: Signs allowed in names beside letters, marks and digits of any script. No look-alike of a slash is among them.
_SIGNS = frozenset(" ._-+@()[]=,#%&!'~^{}$")
#: A line ends with a line feed only, as editors and tracebacks count; `splitlines` knows eight more ends.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_PATH_CHARS = 200
_MAX_DEPTH = 12
_MAX_HITS = 50
_EXCERPT_CHARS = 160


class Workspace:
    """The files of one run.

    Parameters
    ----------
    files : relative path with `/` -> text.
    readonly : glob patterns (`tests/*`; a `*` also matches `/`) of paths that nothing may change or create.
    limits : sizes; what is beyond them is refused.

    Attributes
    ----------
    initial : the files as they were at the start.
    opened : path -> the round in which the model first read it.
    changed : paths that were ever written, edited or deleted, by a tool or by code that ran.
    round : the round that is being played; set by who plays.

    Raises
    ------
    SandboxError
        When the files themselves break a rule: that is a mistake of the task's author.

    Examples
    --------
    >>> w = Workspace({"notes.txt": "one\\ntwo\\n"}, readonly=["tests/*"])
    >>> w.edit_file("notes.txt", "two", "three")
    'notes.txt: 1 passage replaced.'
    >>> w.write_file("../escape", "x")
    "error: ../escape: '..' is not allowed; paths are relative to the folder of the task."
    """

    def __init__(self, files: Mapping[str, str], *, readonly: Sequence[str] = (), limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.readonly = tuple(readonly)
        self.opened: dict[str, int] = {}
        self.changed: set[str] = set()
        self.round = 0
        self._files: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        for path, text in files.items():
            try:
                name = normalise(path)
                if name in self._files:
                    raise Refused("there are two files of this name")
                self._store(name, text, self._admit(name, text))
            except Refused as e:
                raise SandboxError(f"sandbox file {path!r}: {e}") from None
        self.initial: Mapping[str, str] = dict(self._files)

    # ------------------------------------------------------------------ for the program

    def snapshot(self) -> dict[str, str]:
        """The files as they are now, as a copy: path -> text, by path."""
        return dict(sorted(self._files.items()))

    def is_readonly(self, path: str) -> bool:
        """Whether a normalised path is protected."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.readonly)

    def take_back(self, files: Mapping[str, str], unread: Iterable[str] = ()) -> tuple[str, ...]:
        """Take over what executed code made of the files, but for the read-only ones.

        Parameters
        ----------
        files : all files that were there after the execution, by normalised path.
        unread : paths that were there and could not be read; they are neither changed nor deleted.

        Returns
        -------
        tuple of str
            The paths that changed, sorted. What breaks a limit is left as it was.
        """
        changed = []
        keep = set(unread)
        for path in sorted(set(self._files) - set(files) - keep):
            if not self.is_readonly(path):
                self._remove(path)
                changed.append(path)
        for path, text in sorted(files.items()):
            if self._files.get(path) == text or self.is_readonly(path):
                continue
            try:
                self._store(path, text, self._admit(path, text))
            except Refused:
                continue
            changed.append(path)
        self.changed.update(changed)
        return tuple(sorted(changed))

    def place(self, path: str, text: str) -> None:
        """Put a file there, read-only or not: the environment's or a teammate's doing, never the model's.

        Raises
        ------
        SandboxError
            The path or the text breaks a rule: a mistake of the task's author.
        """
        try:
            name = normalise(path)
            self._store(name, text, self._admit(name, text))
        except Refused as e:
            raise SandboxError(f"sandbox file {path!r}: {e}") from None

    # ------------------------------------------------------------------ for the model

    def list_files(self, path: str = "") -> str:
        """The files at or below `path`, one a line; read-only ones are marked."""
        try:
            names = self._below(path)
        except Refused as e:
            return _error(path, e)
        marks = (f"{name}  (read-only)" if self.is_readonly(name) else name for name in names)
        return shorten("\n".join(marks) or "(no files)", self.limits.output_chars)

    def read_file(self, path: str, start_line: int = 1) -> str:
        """The text of a file, from a line on; long texts are cut, and the answer says where to go on."""
        try:
            name = self._existing(path)
            lines = _LINE.findall(self._files[name])
            start = _line_number(start_line, len(lines))
        except Refused as e:
            return _error(path, e)
        self.opened.setdefault(name, self.round)
        return self._page(lines, start) if lines else "(the file is empty)"

    def search_files(self, text: str, path: str = "") -> str:
        """Lines that hold `text` (no pattern; case does not matter), as `path:line: excerpt`."""
        try:
            if not isinstance(text, str) or not text.strip():
                raise Refused("give the text to search for")
            names = self._below(path)
        except Refused as e:
            return _error(path if isinstance(text, str) and text.strip() else "search", e)
        wanted = text.casefold()
        hits = [
            f"{name}:{number}: {_excerpt(line, wanted)}"
            for name in names
            for number, line in enumerate(self._files[name].split("\n"), 1)
            if wanted in line.casefold()
        ]
        more = [f"[{len(hits) - _MAX_HITS} more lines]"] if len(hits) > _MAX_HITS else []
        return shorten("\n".join([*hits[:_MAX_HITS], *more]) or "(not found)", self.limits.output_chars)

    def write_file(self, path: str, content: str) -> str:
        """Create a file, or replace all of it."""
        try:
            name = self._writable(path)
            size = self._admit(name, content)
        except Refused as e:
            return _error(path, e)
        known = name in self._files
        self._put(name, content, size)
        return f"{name}: {'replaced' if known else 'created'}, {len(content)} characters."

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace the one passage that reads exactly `old` by `new`."""
        try:
            name = self._existing(path)
            self._writable(path)
            text = _replaced(self._files[name], old, new)
            size = self._admit(name, text)
        except Refused as e:
            return _error(path, e)
        self._put(name, text, size)
        return f"{name}: 1 passage replaced."

    def delete_file(self, path: str) -> str:
        """Delete a file."""
        try:
            name = self._existing(path)
            self._writable(path)
        except Refused as e:
            return _error(path, e)
        self._remove(name)
        self.changed.add(name)
        return f"{name}: deleted."

    # ------------------------------------------------------------------ inside

    def _put(self, name: str, text: str, size: int) -> None:
        if self._files.get(name) != text:
            self._store(name, text, size)
            self.changed.add(name)

    def _store(self, name: str, text: str, size: int) -> None:
        self._files[name], self._sizes[name] = text, size

    def _remove(self, name: str) -> None:
        del self._files[name], self._sizes[name]

    def _page(self, lines: list[str], start: int) -> str:
        room = self.limits.output_chars
        text = "".join(lines[start - 1 :])
        if len(text) <= room:
            return text
        shown = text[:room]
        whole = shown.count("\n")
        if whole:
            shown = shown[: shown.rindex("\n") + 1]
            return f"{shown}[cut: go on with start_line={start + whole}; the file has {len(lines)} lines]"
        return f"{shown}\n[cut: line {start} is longer than can be shown; the file has {len(lines)} lines]"

    def _below(self, path: object) -> list[str]:
        folder = "" if path in ("", ".", "./", "/", ROOT, f"{ROOT}/") else normalise(path)
        names = [n for n in sorted(self._files) if not folder or n == folder or n.startswith(f"{folder}/")]
        if folder and not names:
            raise Refused(self._no_such(folder))
        return names

    def _existing(self, path: object) -> str:
        name = normalise(path)
        if name not in self._files:
            folder = any(n.startswith(f"{name}/") for n in self._files)
            raise Refused("is a folder; give a file" if folder else self._no_such(name))
        return name

    def _no_such(self, name: str) -> str:
        return f"there is no such file.{nearest(name, list(self._files))}"

    def _writable(self, path: object) -> str:
        name = normalise(path)
        if self.is_readonly(name):
            raise Refused("is read-only")
        return name

    def _admit(self, name: str, text: object) -> int:
        """The size of `text` in bytes, where it may stand at `name` beside what is there."""
        size = _size(text)
        limits = self.limits
        if size > limits.file_bytes:
            raise Refused(f"{size} bytes are more than a file may have ({limits.file_bytes})")
        if name not in self._files:
            if len(self._files) >= limits.files:
                raise Refused(f"there are already {limits.files} files, no more are allowed")
            self._fits_the_tree(name)
        total = size - self._sizes.get(name, 0) + sum(self._sizes.values())
        if total > limits.total_bytes:
            raise Refused(f"all files together would have {total} bytes, {limits.total_bytes} are allowed")
        return size

    def _fits_the_tree(self, name: str) -> None:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if (folder := "/".join(parts[:depth])) in self._files:
                raise Refused(f"{folder} is a file, not a folder")
        if any(n.startswith(f"{name}/") for n in self._files):
            raise Refused("is a folder")


class Refused(Exception):
    """What a tool answers instead of doing it."""


def normalise(path: object) -> str:
    """The one spelling of a path inside the workspace.

    Parameters
    ----------
    path : as a model wrote it. `/work/...` is taken as the workspace itself, since tracebacks name it so.

    Returns
    -------
    str
        Relative, with `/`, in Unicode NFC, without `.`; case is kept.

    Raises
    ------
    Refused
        For what is no text, empty, absolute, too long, or holds `..`, a backslash, or a character that is not
        a letter, digit or harmless sign (control and direction characters, look-alikes of a slash).
    """
    if not isinstance(path, str):
        raise Refused("a path is a text")
    return _normalised(path)


@lru_cache(maxsize=4096)
def _normalised(path: str) -> str:
    if len(path) > _MAX_PATH_CHARS:
        raise Refused(f"a path has at most {_MAX_PATH_CHARS} characters")
    text = unicodedata.normalize("NFC", path)
    if "\\" in text:
        raise Refused("a backslash is not allowed; use / between folders")
    if not _PLAIN.fullmatch(text):
        _look_at_characters(text)
    text = text.removeprefix(f"{ROOT}/")
    if text.startswith(("/", "~")):
        raise Refused("absolute paths are not allowed; paths are relative to the folder of the task.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused("'..' is not allowed; paths are relative to the folder of the task.")
    if not parts or any(part != part.strip() for part in parts):
        raise Refused("give the path of a file, without spaces around a name")
    if len(parts) > _MAX_DEPTH or any(len(part.encode()) > 200 for part in parts):
        raise Refused(f"a path has at most {_MAX_DEPTH} folders, and a name at most 200 bytes")
    return "/".join(parts)


def _look_at_characters(text: str) -> None:
    for c in text:
        if c != "/" and c not in _SIGNS and unicodedata.category(c)[0] not in "LMN":
            raise Refused(f"the character U+{ord(c):04X} is not allowed in a path")


def _error(path: object, reason: Refused) -> str:
    shown = path if isinstance(path, str) else type(path).__name__
    shown = "".join(c if c.isprintable() else "?" for c in shown[:_MAX_PATH_CHARS])
    return f"error: {shown or '(no path)'}: {reason}"


def _size(text: object) -> int:
    if not isinstance(text, str):
        raise Refused("the content must be a text")
    if "\0" in text:
        raise Refused("the content holds a NUL character")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Refused("the content cannot be written as UTF-8") from None


def _replaced(text: str, old: object, new: object) -> str:
    if not isinstance(old, str) or not isinstance(new, str):
        raise Refused("the old and the new passage must be texts")
    if not old:
        raise Refused("give the passage to replace, or use write_file")
    if old == new:
        raise Refused("the old and the new passage are the same")
    count = text.count(old)
    if count == 0:
        raise Refused("the passage to replace is not in the file; it must match exactly, with all spaces")
    if count > 1:
        raise Refused(f"the passage to replace is there {count} times; give more of the text around it")
    return text.replace(old, new)


def _line_number(start: object, lines: int) -> int:
    if not isinstance(start, int) or isinstance(start, bool) or start < 1:
        raise Refused("start_line must be a whole number from 1 on")
    if start > max(lines, 1):
        raise Refused(f"the file has only {lines} lines")
    return start


def _excerpt(line: str, wanted: str) -> str:
    if len(line) <= _EXCERPT_CHARS:
        return line.strip()
    at = max(0, line.casefold().find(wanted) - _EXCERPT_CHARS // 3)
    return f"...{line[at : at + _EXCERPT_CHARS].strip()}..."
