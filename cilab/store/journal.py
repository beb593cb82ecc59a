"""The SQLite journal of a study's folder: what has arrived and is not in Parquet yet.

May import `cilab.core`, and of the parts what tells newer versions. Knows nothing of models or
benchmarks: it keeps completions (answers that were received inside unfinished jobs) and finished jobs (rows for the
tables, as JSON).

What is durable when
    A completion or a finished job is on disk (WAL, synchronous=FULL) when
    `Journal.put_completion` or `Journal.finish` returns. The rows of a finished job leave
    the journal only after their Parquet parts are in place (`Journal.forget`). Jobs that ended in an
    error stay, with their completions, so that the next session continues inside them; gated-out ones stay,
    since the gate may be off next time.

All SQLite work happens in one writer thread; what is queued meanwhile is committed together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from cilab.core import tables
from cilab.core.errors import StoreError, first_line
from cilab.core.tables import valid_text
from cilab.store.footers import NewerLayout, read_only
from cilab.store.parts import check_writable

JOURNAL_NAME = "journal.sqlite"
#: Statuses that another session may change: such rollouts stay in the journal and are looked at again.
PROVISIONAL = ("error", "gated_out")
#: Version of the journal's own tables, part of the layout. A newer one is refused.
JOURNAL_VERSION = 1
#: Entries of `meta` on who wrote the rows: the two versions, and columns that packages of others brought.
_TABLES, _LAYOUT, _OTHERS = "tables", "layout", "others"

_Statements = list[tuple[str, list[tuple[Any, ...]]]]

_SCHEMA = """
CREATE TABLE completions (
    job TEXT NOT NULL, purpose TEXT NOT NULL, seat TEXT NOT NULL, n INTEGER NOT NULL,
    request TEXT NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (job, purpose, seat, n)
) WITHOUT ROWID;
CREATE TABLE finished (job TEXT PRIMARY KEY, status TEXT NOT NULL, payload BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


def _explain(e: Exception, path: Path) -> StoreError:
    text = first_line(e).lower()
    if "full" in text or "no space" in text:
        return StoreError(f"{path}: the disk is full. Free some space and run the same command again: it continues.")
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return StoreError(f"{path}: cannot be written (read-only folder?). Choose another folder with --out.")
    if "not a database" in text or "malformed" in text:
        return _damaged(e, path)
    if "disk i/o" in text:
        return StoreError(
            f"{path}: the disk does not take it ({e}). Look at free space, quota and file size limit, then run the "
            "same command again: it continues."
        )
    return StoreError(f"{path}: {e}")


def _damaged(e: Exception, path: Path) -> StoreError:
    return StoreError(f"{path}: is damaged ({e}). Move it away; what is in tables/ stays readable.")


def _cannot_read(e: Exception, path: Path) -> StoreError:
    if "unable to open" in str(e) or isinstance(e, OSError):
        return StoreError(f"{path}: cannot be read ({e}). Check who may read the folder.")
    return _explain(e, path)


def _to_blob(value: Any) -> bytes:
    """JSON; a lone surrogate, which no file can hold, becomes U+FFFD."""
    try:
        return to_json(value)
    except ValueError:
        return to_json(valid_text(value))


def _from_blob(blob: bytes | str, path: Path) -> Any:
    try:
        return from_json(blob)
    except ValueError as e:
        raise _damaged(e, path) from None


def _check_version(db: sqlite3.Connection, path: Path) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > JOURNAL_VERSION:
        raise NewerLayout(path, "journal", version, JOURNAL_VERSION)
    return version


def _written_in(db: sqlite3.Connection) -> int:
    """The version of the tables that the rows are of."""
    found = db.execute("SELECT value FROM meta WHERE key = ?", (_TABLES,)).fetchone()
    return int(found[0]) if found else 1


def _resolve(futures: list[asyncio.Future[None]], error: StoreError | None) -> None:
    for done in futures:
        if done.done():  # its task was cancelled
            continue
        if error:
            done.set_exception(error)
        else:
            done.set_result(None)


def _holder(fd: int, patience_s: float = 0.5) -> str:
    """The process id in a lock file that somebody holds.

    Who has just taken the lock may not have written its id yet: the file is empty then, or names an earlier holder.
    """
    end = time.monotonic() + patience_s
    while True:
        text = os.pread(fd, 64, 0).decode(errors="replace").strip()
        if (text.isdigit() and Path(f"/proc/{text}").exists()) or time.monotonic() > end:
            return text or "unknown"
        time.sleep(0.01)


class FolderLock:
    """One process writes a study folder at a time; the lock goes with the process, however it ends."""

    def __init__(self, folder: Path):
        self.path = folder / "study.lock"
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise StoreError naming the process that holds it."""
        import fcntl

        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as e:
            raise StoreError(
                f"{self.path}: cannot be written ({e.strerror}). Choose another folder with --out."
            ) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            holder = _holder(fd) if isinstance(e, BlockingIOError) else ""
            os.close(fd)
            if not isinstance(e, BlockingIOError):
                raise StoreError(
                    f"{self.path}: this file system gives no locks ({e.strerror}). Choose another folder with --out."
                ) from None
            raise StoreError(
                f"{self.path.parent}: another process (pid {holder}) is writing here. "
                "Wait for it, stop it, or choose another folder with --out."
            ) from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
        except OSError as e:
            os.close(fd)
            raise StoreError(f"{self.path}: {e.strerror}. Free some space and try again.") from None
        self._fd = fd

    def release(self) -> None:
        """Give the lock back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Journal:
    """The journal, open for writing.

    Parameters
    ----------
    folder : the study's folder (must exist).

    Raises
    ------
    StoreError
        The folder cannot be written, another process holds it, or its journal or parts are newer or damaged.
    """

    def __init__(self, folder: Path):
        self.path = folder / JOURNAL_NAME
        check_writable(folder)
        self._lock = FolderLock(folder)
        self._lock.acquire()
        self._queue: queue.SimpleQueue[tuple[_Statements, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._failed: StoreError | None = None
        self._closed = False
        try:
            self._db = self._open()
        except BaseException:
            self._lock.release()
            raise
        self._thread = threading.Thread(target=self._write_loop, name="cilab-journal", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        db = None
        try:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            version = _check_version(db, self.path)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            if version == 0:
                db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={JOURNAL_VERSION}; COMMIT;")
            if (written := _written_in(db)) > tables.TABLES_VERSION:
                raise read_only(self.path, written)
            self._sign(db)
            return db
        except (sqlite3.Error, StoreError) as e:
            if db is not None:
                db.close()
            raise (e if isinstance(e, StoreError) else _explain(e, self.path)) from None

    def _sign(self, db: sqlite3.Connection) -> None:
        """Say in which version the rows are written from now on."""
        others = [f"{t.name}.{c.name}" for t in tables.TABLES.values() for c in t.columns if c.since is None]
        facts = {_TABLES: tables.TABLES_VERSION, _LAYOUT: tables.LAYOUT_VERSION} | ({_OTHERS: others} if others else {})
        rows = [(key, _to_blob(value).decode()) for key, value in facts.items()]
        if set(rows) - set(db.execute("SELECT key, value FROM meta")):
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?,?)", rows)

    # -- writing: each returns when the rows are on disk ----------------------------------------------

    async def put_completion(self, job: str, purpose: str, seat: str, n: int, request: str, payload: Any) -> None:
        """Keep an answer that was received. `payload` is JSON-able."""
        row = (job, purpose, seat, n, request, _to_blob(payload))
        await self._submit([("INSERT OR REPLACE INTO completions VALUES (?,?,?,?,?,?)", [row])])

    async def finish(self, job: str, status: str, payload: Any) -> None:
        """Keep a finished job's rows. Its completions go, unless it ended in an error."""
        row = (job, status, _to_blob(payload))
        statements: _Statements = [("INSERT OR REPLACE INTO finished VALUES (?,?,?)", [row])]
        if status != "error":
            statements.append(("DELETE FROM completions WHERE job = ?", [(job,)]))
        await self._submit(statements)

    async def forget(self, jobs: Iterable[str]) -> None:
        """Drop finished jobs whose Parquet parts are in place."""
        await self._submit([("DELETE FROM finished WHERE job = ?", [(j,) for j in jobs])])

    async def set_meta(self, values: Mapping[str, Any]) -> None:
        """Small facts about the study (planned runs, spent USD) for `status`."""
        rows = [(k, _to_blob(v).decode()) for k, v in values.items()]
        await self._submit([("INSERT OR REPLACE INTO meta VALUES (?,?)", rows)])

    # -- reading -------------------------------------------------------------------------------------

    def completions(self, job: str) -> dict[tuple[str, str, int], tuple[str, Any]]:
        """(purpose, seat, n) -> (request hash, payload) of an unfinished job."""
        rows = self._select("SELECT purpose, seat, n, request, payload FROM completions WHERE job = ?", (job,))
        return {(p, s, n): (r, _from_blob(b, self.path)) for p, s, n, r, b in rows}

    def unfinished(self) -> set[str]:
        """Jobs with received completions that are not finished."""
        return {j for (j,) in self._select("SELECT DISTINCT job FROM completions", ())}

    def finished(self, *, errors: bool = False) -> Iterator[tuple[str, str, Any]]:
        """(job, status, payload) of finished jobs still here; those with an error only when asked for."""
        where = "" if errors else " WHERE status != 'error'"
        for job, status, blob in self._select(f"SELECT job, status, payload FROM finished{where} ORDER BY job", ()):
            yield job, status, _from_blob(blob, self.path)

    def finished_payload(self, job: str) -> Any | None:
        """The rows of one finished job, or None."""
        for (blob,) in self._select("SELECT payload FROM finished WHERE job = ?", (job,)):
            return _from_blob(blob, self.path)
        return None

    def _select(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        # A connection of its own: reads never wait for the writer thread's transaction.
        try:
            with contextlib.closing(sqlite3.connect(self.path)) as db:
                return db.execute(sql, args).fetchall()
        except sqlite3.Error as e:
            raise _explain(e, self.path) from None

    # -- the writer thread ----------------------------------------------------------------------------

    def _submit(self, statements: _Statements) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failed or self._closed:
            done.set_exception(self._failed or StoreError(f"{self.path}: is closed"))
        else:
            self._queue.put((statements, done))
        return done

    def _write_loop(self) -> None:
        while (item := self._queue.get()) is not None:
            batch, last = [item], False
            with contextlib.suppress(queue.Empty):
                while not last:
                    more = self._queue.get_nowait()
                    last = more is None
                    if more is not None:
                        batch.append(more)
            self._commit(batch)
            if last:
                return

    def _commit(self, batch: list[tuple[_Statements, asyncio.Future[None]]]) -> None:
        if self._failed is None:
            try:
                self._db.execute("BEGIN")
                for statements, _ in batch:
                    for sql, rows in statements:
                        self._db.executemany(sql, rows)
                self._db.execute("COMMIT")
            except Exception as e:  # whatever it is: this thread must live, or every caller waits for ever
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                # Nothing after a failed commit may pretend to be durable: the journal stays failed.
                self._failed = _explain(e, self.path)
        futures = [done for _, done in batch]
        # One wake-up of the loop for the whole batch. The loop may be gone after an abort.
        with contextlib.suppress(RuntimeError):
            futures[0].get_loop().call_soon_threadsafe(_resolve, futures, self._failed)

    def close(self) -> None:
        """Write what is queued, shrink the file when most of it is free, release the folder."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        with contextlib.suppress(sqlite3.Error):
            if self._failed is None:
                free, pages = (self._db.execute(f"PRAGMA {p}").fetchone()[0] for p in ("freelist_count", "page_count"))
                if 2 * free > pages:
                    self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        self._lock.release()


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection | None]:
    """The journal of a folder for reading; None where there is none, or none that was begun."""
    path = folder / JOURNAL_NAME
    with contextlib.ExitStack() as stack:
        try:
            if not path.exists():
                yield None
                return
            db = stack.enter_context(_opened(path, stack))
            yield db if _check_version(db, path) else None  # 0: its process has not come to the first row yet
        except (sqlite3.Error, OSError) as e:
            raise _cannot_read(e, path) from None


def _opened(path: Path, stack: contextlib.ExitStack) -> contextlib.closing[sqlite3.Connection]:
    """A connection that writes nothing into the folder, also where the folder cannot be written.

    SQLite reads a WAL journal through its -shm file. Without one, in a folder that cannot be written, it
    reads a journal without a WAL as it is, and else a copy.
    """
    try:
        return _connected(path, "mode=ro")
    except sqlite3.OperationalError:
        if os.access(path.parent, os.W_OK):
            raise
    wal = path.with_name(f"{path.name}-wal")
    if not wal.exists() or wal.stat().st_size == 0:
        return _connected(path, "immutable=1")
    copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cilab-"))) / path.name
    shutil.copyfile(path, copy)
    shutil.copyfile(wal, copy.with_name(wal.name))
    return _connected(copy, "mode=rw")


def _connected(path: Path, mode: str) -> contextlib.closing[sqlite3.Connection]:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)
    try:
        db.execute("PRAGMA user_version").fetchone()  # opens the files, or fails
    except sqlite3.Error:
        db.close()
        raise
    return contextlib.closing(db)


def read_finished(folder: Path) -> list[tuple[str, str, Any]]:
    """(job, status, payload) of every finished job in the journal of `folder`, errors included.

    Never writes and needs no lock: works while a study runs and after it was killed.
    """
    with _reading(folder) as db:
        if db is None:
            return []
        rows = db.execute("SELECT job, status, payload FROM finished ORDER BY job").fetchall()
    return [(j, s, _from_blob(b, folder / JOURNAL_NAME)) for j, s, b in rows]


def read_meta(folder: Path) -> dict[str, Any]:
    """The small facts that the last session kept (see `Journal.set_meta`)."""
    with _reading(folder) as db:
        if db is None:
            return {}
        rows = db.execute(
            "SELECT key, value FROM meta WHERE key NOT IN (?,?,?)", (_TABLES, _LAYOUT, _OTHERS)
        ).fetchall()
    return {k: _from_blob(v, folder / JOURNAL_NAME) for k, v in rows}


def tables_version(folder: Path) -> int:
    """The version of the tables that the rows of the journal are of.

    One above ours where a package that is not installed here brought columns: they are not known either.
    """
    with _reading(folder) as db:
        if db is None:
            return tables.TABLES_VERSION
        written = _written_in(db)
        found = db.execute("SELECT value FROM meta WHERE key = ?", (_OTHERS,)).fetchone()
    others = _from_blob(found[0], folder / JOURNAL_NAME) if found else []
    known = {f"{t.name}.{name}" for t in tables.TABLES.values() for name in t.names} if others else set()
    return written if known.issuperset(others) else max(written, tables.TABLES_VERSION + 1)


def read_kept(folder: Path) -> Iterator[tuple[str, bool, Any]]:
    """(job, whether it ended, payload) of every answer kept here; a job that ended so far ended in an error."""
    sql = "SELECT job, job IN (SELECT job FROM finished), payload FROM completions ORDER BY job"
    with _reading(folder) as db:
        rows = () if db is None else db.execute(sql)
        for job, ended, blob in rows:
            yield job, bool(ended), _from_blob(blob, folder / JOURNAL_NAME)


def count_unfinished(folder: Path) -> tuple[int, int]:
    """(jobs, completions) received inside unfinished jobs."""
    with _reading(folder) as db:
        if db is None:
            return 0, 0
        jobs, completions = db.execute("SELECT count(DISTINCT job), count(*) FROM completions").fetchone()
        return jobs, completions
