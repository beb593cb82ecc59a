"""Drives the command as a shell does, but inside this process: fast enough for hundreds of malformed inputs.

`command` calls `cilab.shell.app.main`, so what is tested is what a user meets: the line, the exit code, what was
written.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock


@dataclass(frozen=True)
class Case:
    """One malformed input.

    Attributes
    ----------
    name : what is wrong with it, in words.
    argv : the command's arguments; `{out}` is a played study that no case may change.
    words : all of them stand in the one line that is said.
    files : name -> content, written into the folder where the command runs.
    code : the exit code.
    """

    name: str
    argv: tuple[str, ...]
    words: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    code: int = 2

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(*argv: str) -> Ended:
    """`cilab ARGV` in the current folder."""
    from cilab.shell.app import main

    out, err = io.StringIO(), io.StringIO()
    term = signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["cilab", *argv]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as e:
        code = e.code
    finally:
        signal.signal(signal.SIGTERM, term)
    return Ended(int(code or 0), out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, and the names of its folders; SQLite's index and log apart."""
    return {
        os.path.relpath(p, folder): p.read_bytes() if p.is_file() else b""
        for p in sorted(folder.rglob("*"))
        if not p.name.endswith(("-shm", "-wal"))
    }


def check(case: Case, folder: Path, out: Path) -> None:
    """Run a case in `folder` (empty) and hold it against what every bad input gets."""
    for name, content in case.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = contents(folder)
    ended = command(*(part.replace("{out}", str(out)) for part in case.argv))
    said = [line for line in ended.err.splitlines() if not line.startswith("no --data:")]
    assert ended.code == case.code, ended
    assert "Traceback" not in ended.err + ended.out
    assert len(said) == 1, ended.err
    assert ended.out == ""
    assert said[0].isprintable(), said
    assert len(said[0]) < 1200, "a line, not a listing"
    for word in case.words:
        assert word in said[0], said[0]
    assert contents(folder) == before, "something was written"
