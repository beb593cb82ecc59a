"""The real command as a user's shell starts it: in a process of its own, in a folder of its own, without keys.

Most commands are children of a process that has imported the package already (`warm.py`). Started from nothing are
those with an interpreter, limits or an environment of their own, and those said to be `cold`: one of each verb, and
where the start itself is what a test looks at.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cilab
from cilab.store import RUN_TABLES
from tests.e2e.warm import KEYS, Forked, WarmProcess

#: The checkout that these tests stand in.
ROOT = Path(__file__).resolve().parents[2]
#: Long enough for a machine that does a lot else; a command that takes this long has hung. Shorter than a test's limit.
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` as a shell tells it: 128 + N after a death by signal N."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard error without those of the progress display."""
        return [line for line in self.err.splitlines() if " tokens/s" not in line]

    @property
    def json(self) -> Any:
        """Standard output, which must be JSON and nothing else."""
        return json.loads(self.out)


class Session:
    """A command that runs: the leader of a process group of its own."""

    def __init__(self, logs: Path, start: Callable[[Any, Any], subprocess.Popen[bytes] | Forked]):
        self._out, self._err = logs.with_suffix(".out"), logs.with_suffix(".err")
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = start(out, err)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self.process.poll() is None

    def send(self, what: signal.Signals) -> None:
        """Send a signal to the command itself."""
        self.process.send_signal(what)

    def kill(self) -> None:
        """SIGKILL to the whole group, and wait until it is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile, and was waited for where it was forked
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, seconds: float = PATIENCE_S) -> Ended:
        """Wait for the end; one that does not come is a failure."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {seconds} s: {self._err.read_text()[-2000:]}") from None
        # CPython ends with SIGINT, not with a code, when a Ctrl-C struck inside an `exec` of a library's import.
        return Ended(code if code >= 0 else 128 - code, self._out.read_text(), self._err.read_text())


class Shell:
    """Starts commands in `folder`; keeps what they print outside of it."""

    def __init__(self, folder: Path, logs: Path, warm: WarmProcess | None):
        self.folder, self._logs, self._warm = folder, logs, warm
        self._sessions: list[Session] = []
        self.env = user_environment()

    def start(
        self, *args: str | Path, argv: list[str] | None = None, env: Any = None, cold: bool = False, **popen: Any
    ) -> Session:
        """Start `cilab ARGS`, or `argv`, from nothing where it is `cold`; returns at once."""
        words, full = [*map(str, args)], self.env | (env or {})

        def forked(out: Any, err: Any) -> Forked:
            return self._warm.start(words, self.folder, full, out, err)

        def started(out: Any, err: Any) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv or [sys.executable, "-m", "cilab", *words], cwd=self.folder, env=full,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, **popen,
            )  # fmt: skip

        own = cold or argv or popen or self._warm is None or not self._warm.serves(full)
        logs = self._logs / f"session-{len(self._sessions)}"
        self._sessions.append(Session(logs, started if own else forked))
        return self._sessions[-1]

    def run(self, *args: str | Path, **how: Any) -> Ended:
        """`cilab ARGS`, to its end."""
        return self.start(*args, **how).wait()

    def close(self) -> None:
        """End what a failed test left running."""
        for session in self._sessions:
            session.kill()


def user_environment() -> dict[str, str]:
    """The environment of these tests without keys, and without what pytest and polars have added in this process."""
    ours = ("PYTEST_", "_RJEM_MALLOC_CONF")
    kept = {k: v for k, v in os.environ.items() if not k.endswith(KEYS) and not k.startswith(ours)}
    return kept | {"NO_COLOR": "1", "COLUMNS": "120"}


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess | None]:
    """The process that forks commands; None where the system cannot, and all start cold."""
    if not WarmProcess.possible():
        yield None
        return
    process = WarmProcess(user_environment(), tmp_path_factory.mktemp("warm") / "log")
    yield process
    process.close()


@contextlib.contextmanager
def _shell(folder: Path, warm: WarmProcess | None) -> Iterator[Shell]:
    (folder / "work").mkdir()
    (folder / "logs").mkdir()
    made = Shell(folder / "work", folder / "logs", warm)
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path: Path, warm: WarmProcess | None) -> Iterator[Shell]:
    """A shell in an empty folder."""
    with _shell(tmp_path, warm) as made:
        yield made


@pytest.fixture(scope="module")
def module_shell(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcess | None) -> Iterator[Shell]:
    """A shell for what a module's tests share."""
    with _shell(tmp_path_factory.mktemp("module"), warm) as made:
        yield made


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def _rows(folder: Path, table: str) -> pl.DataFrame:
    return cilab.open(folder).table(table).collect()


@pytest.fixture(scope="session")
def rows() -> Any:
    """(study's folder, table) -> its rows, read as a user reads them."""
    return _rows


@pytest.fixture(scope="session")
def snapshot() -> Any:
    """Folder -> the bytes of every file in it, by relative path; the lock file and SQLite's index apart."""

    def take(folder: Path) -> dict[str, bytes]:
        passing = ("study.lock", "journal.sqlite-shm", "journal.sqlite-wal")
        return {
            str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name not in passing
        }

    return take


@pytest.fixture(scope="session")
def whole() -> Any:
    """Check that a study's folder holds exactly `run_ids`, each once, with all that belongs to them."""

    def check(folder: Path, run_ids: list[str]) -> None:
        runs, messages, calls = (_rows(folder, t) for t in ("runs", "messages", "calls"))
        assert sorted(runs["run_id"]) == sorted(run_ids)
        for table, key in ((messages, ["run_id", "index"]), (calls, ["run_id", "purpose", "index"])):
            assert table.height == table.select(key).unique().height
            assert set(table["run_id"]) <= set(run_ids)
        # Each rollout with as many spoken messages as its own row counts: none is half there.
        spoken = (pl.col("seat_kind") == "under_test") & (pl.col("kind") == "message")
        said = messages.filter(spoken).group_by("run_id").len("said")
        both = runs.filter(pl.col("status") == "ok").join(said, on="run_id", how="left")
        assert both.filter(pl.col("messages") != pl.col("said").fill_null(0)).is_empty()
        # Indices without a hole.
        for table, key in ((messages, ["run_id"]), (calls, ["run_id", "purpose"])):
            spans = table.group_by(key).agg(pl.col("index").max() + 1 - pl.len().cast(pl.Int64))
            assert spans["index"].to_list() == [0] * spans.height

    return check


@pytest.fixture(scope="session")
def without() -> Any:
    """Check that a text stands nowhere: not in any file of a folder, packed or unpacked, nor in the texts given."""

    def check(secret: str, folder: Path, *texts: str) -> None:
        for text in texts:
            assert secret not in text
        for path in folder.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path
        for table in RUN_TABLES:  # Parquet is compressed
            assert secret not in json.dumps(_rows(folder, table).to_dicts(), default=str), table

    return check


@pytest.fixture(scope="session")
def until() -> Any:
    """Wait for a condition; False when the session ended first."""

    def wait(condition: Any, session: Session, every_s: float = 0.005) -> bool:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if not session.alive:
                return bool(condition())
            assert time.monotonic() < end, "waited in vain"
            time.sleep(every_s)
        return True

    return wait
