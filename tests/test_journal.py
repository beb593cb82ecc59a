"""The journal: what is on disk when a call returns, what a reader sees meanwhile, and what bad files are told as."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cilab import store
from cilab.core.errors import CilabError
from cilab.store import journal
from cilab.store.journal import JOURNAL_NAME, JOURNAL_VERSION, FolderLock, Journal


def line(action):
    with pytest.raises(CilabError) as e:
        action()
    assert "\n" not in str(e.value)
    return str(e.value)


@contextlib.contextmanager
def opened(folder):
    held = Journal(folder)
    try:
        yield held
    finally:
        held.close()


def put(folder, *jobs, status="ok"):
    async def write(held):
        for job in jobs:
            await held.finish(job, status, {"runs": [{"run_id": job}]})

    with opened(folder) as held:
        asyncio.run(write(held))


def jobs_in(folder):
    return [job for job, _, _ in journal.read_finished(folder)]


# -- what is kept -----------------------------------------------------------------------------------------


def test_completions_are_kept_until_their_job_is_finished(tmp_path):
    async def write(held):
        for n in range(3):
            await held.put_completion("job", "play", "1", n, f"hash{n}", {"content": str(n)})
        await held.put_completion("other", "play", "1", 0, "h", {})
        assert held.completions("job")["play", "1", 2] == ("hash2", {"content": "2"})
        assert held.unfinished() == {"job", "other"} and journal.count_unfinished(tmp_path) == (2, 4)
        await held.finish("job", "ok", {"runs": []})
        assert held.completions("job") == {} and held.unfinished() == {"other"}
        assert held.finished_payload("job") == {"runs": []} and held.finished_payload("none") is None

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert jobs_in(tmp_path) == ["job"] and journal.count_unfinished(tmp_path) == (1, 1)


def test_a_job_that_ended_in_an_error_keeps_its_answers_and_gives_way_to_its_next_try(tmp_path):
    async def write(held):
        await held.put_completion("job", "play", "1", 0, "h", {"content": "paid"})
        await held.finish("job", "error", {"try": 1})
        assert held.completions("job") and list(held.finished()) == []
        assert list(held.finished(errors=True)) == [("job", "error", {"try": 1})]
        await held.finish("job", "ok", {"try": 2})
        assert held.completions("job") == {} and list(held.finished()) == [("job", "ok", {"try": 2})]

    with opened(tmp_path) as held:
        asyncio.run(write(held))


def test_what_is_forgotten_is_gone_and_facts_are_overwritten(tmp_path):
    put(tmp_path, "a", "b", "c")

    async def write(held):
        await held.forget(["a", "c", "never there"])
        await held.set_meta({"planned": 3, "usd": 0.5})
        await held.set_meta({"planned": 4})

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert jobs_in(tmp_path) == ["b"] and journal.read_meta(tmp_path) == {"planned": 4, "usd": 0.5}


_WORDS = st.text(st.characters(exclude_categories=["Cs"]))
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda v: (
        st.lists(v, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), v, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=_JSON)
def test_a_payload_comes_back_as_it_was(tmp_path_factory, payload):
    folder = tmp_path_factory.mktemp("j")
    with opened(folder) as held:
        asyncio.run(held.finish("job", "ok", payload))
        assert held.finished_payload("job") == payload
    assert journal.read_finished(folder) == [("job", "ok", payload)]


def test_odd_values_never_stop_the_journal(tmp_path):
    async def write(held):
        await held.finish("odd", "ok", {"nan": math.nan, "inf": -math.inf, "nul": "a\0b", "long": "🧭" * 200_000})
        await held.finish("half", "ok", {"text": "a\ud800b", "\ud800": ["\udfff"]})
        await held.finish("time", "ok", {"at": datetime(2026, 1, 1, tzinfo=UTC)})

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    found = {job: payload for job, _, payload in journal.read_finished(tmp_path)}
    assert math.isnan(found["odd"]["nan"]) and found["odd"]["inf"] == -math.inf and found["odd"]["nul"] == "a\0b"
    assert len(found["odd"]["long"]) == 200_000
    assert found["half"] == {"text": "a\ufffdb", "\ufffd": ["\ufffd"]}
    assert datetime.fromisoformat(found["time"]["at"]) == datetime(2026, 1, 1, tzinfo=UTC)


def test_what_sqlite_cannot_take_ends_in_an_error_and_not_in_waiting_for_ever(tmp_path):
    async def write(held):
        with pytest.raises(CilabError):
            await asyncio.wait_for(held.put_completion("job", "play", "seat \ud800", 0, "h", {}), 5)
        with pytest.raises(CilabError):  # nothing after it may pretend to be durable
            await asyncio.wait_for(held.finish("job", "ok", {}), 5)

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert jobs_in(tmp_path) == []


def test_many_writers_at_once_all_get_their_answer(tmp_path):
    async def write(held):
        await asyncio.gather(*(held.finish(f"job{i:03d}", "ok", {"i": i}) for i in range(300)))

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert [p["i"] for _, _, p in journal.read_finished(tmp_path)] == list(range(300))


def test_a_writer_that_was_cancelled_harms_no_other(tmp_path):
    async def write(held):
        lost = asyncio.ensure_future(held.finish("lost", "ok", {}))
        kept = asyncio.ensure_future(held.finish("kept", "ok", {}))
        await asyncio.sleep(0)
        lost.cancel()
        await asyncio.wait_for(kept, 5)

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert "kept" in jobs_in(tmp_path)


def test_a_closed_journal_says_so_and_can_be_closed_again(tmp_path):
    held = Journal(tmp_path)
    held.close()
    held.close()
    with pytest.raises(CilabError, match="is closed"):
        asyncio.run(asyncio.wait_for(held.finish("job", "ok", {}), 5))


@pytest.mark.parametrize("left", [[], ["gated"]])
def test_a_journal_that_is_mostly_free_shrinks_and_leaves_no_wal(tmp_path, left):
    async def fill(held):
        await held.finish("job", "ok", {"text": "x" * 3_000_000})
        for job in left:
            await held.finish(job, "gated_out", {"text": "y" * 20_000})
        await held.forget(["job"])

    with opened(tmp_path) as held:
        asyncio.run(fill(held))
    assert (tmp_path / JOURNAL_NAME).stat().st_size < 100_000
    assert not (tmp_path / f"{JOURNAL_NAME}-wal").exists()
    assert jobs_in(tmp_path) == left


# -- killed -----------------------------------------------------------------------------------------------

_WRITES = """
import asyncio, sys
from pathlib import Path
from cilab.store.journal import Journal

async def main():
    held = Journal(Path(sys.argv[1]))
    for i in range(10**6):
        await held.put_completion("open", "play", "1", i, "h", {"content": "x" * 500})
        await held.finish(f"job{i:06d}", "ok", {"runs": [{"run_id": f"job{i:06d}"}]})
        print(i, flush=True)

asyncio.run(main())
"""


def killed(folder, after=40):
    """A folder as `kill -9` leaves it, and the number of the last job that was reported as kept."""
    child = subprocess.Popen([sys.executable, "-c", _WRITES, str(folder)], stdout=subprocess.PIPE, text=True)
    last = -1
    for text in child.stdout:
        last = int(text)
        if last == after:
            child.send_signal(signal.SIGKILL)
    child.wait()
    return last


def test_after_kill_9_all_that_was_reported_is_there_for_readers_and_for_the_next_writer(tmp_path):
    last = killed(tmp_path)
    assert (tmp_path / f"{JOURNAL_NAME}-wal").stat().st_size > 0
    assert len(jobs_in(tmp_path)) in (last + 1, last + 2)  # at most one more, committed and not reported
    assert journal.count_unfinished(tmp_path)[1] >= last + 1
    with opened(tmp_path) as held:  # the lock went with the process
        assert len(held.completions("open")) >= last + 1
    assert len(jobs_in(tmp_path)) >= last + 1


@pytest.fixture
def public():
    """A folder that any user may read and only its owner may write."""
    folder = Path(tempfile.mkdtemp(prefix="cilab-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_killed_studys_journal_is_read_in_a_folder_that_cannot_be_written(public):
    last = killed(public)
    for name in (f"{JOURNAL_NAME}-shm", None):  # with all of SQLite's files, and without its index of the WAL
        if name:
            found = _as_another_user(public)
            assert found >= last + 1
            (public / name).unlink()
    assert _as_another_user(public) >= last + 1
    assert sorted(p.name for p in public.iterdir()) == [JOURNAL_NAME, f"{JOURNAL_NAME}-wal", "study.lock"]


def test_a_closed_journal_is_read_in_a_folder_that_cannot_be_written(public):
    put(public, "a", "b")
    assert _as_another_user(public) == 2


def _as_another_user(folder):
    """The number of finished jobs that a process without the right to write sees."""
    if os.getuid() != 0:
        folder.chmod(0o555)
        return len(journal.read_finished(folder))
    here, there = os.pipe()
    child = os.fork()
    if child == 0:  # no other thread is needed here: SQLite runs in this one
        code = 1
        with contextlib.suppress(BaseException):
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(there, str(len(journal.read_finished(folder))).encode())
            code = 0
        os._exit(code)
    os.close(there)
    said = os.read(here, 100)
    os.close(here)
    assert os.waitpid(child, 0)[1] == 0
    return int(said)


def test_a_journal_is_read_while_it_is_written(tmp_path):
    stop, counts = threading.Event(), []

    def read():
        while not stop.is_set():
            counts.append(len(jobs_in(tmp_path)))

    async def write(held):
        for i in range(80):
            await held.finish(f"job{i:03d}", "ok", {"text": "x" * 2000})

    readers = [threading.Thread(target=read) for _ in range(2)]
    with opened(tmp_path) as held:
        for r in readers:
            r.start()
        asyncio.run(write(held))
        stop.set()
        for r in readers:
            r.join()
    assert counts and max(counts) <= 80 and len(jobs_in(tmp_path)) == 80


# -- bad files --------------------------------------------------------------------------------------------


def test_a_folder_without_a_journal_holds_nothing(tmp_path):
    assert jobs_in(tmp_path) == [] and journal.read_meta(tmp_path) == {}
    assert journal.count_unfinished(tmp_path) == (0, 0) and list(tmp_path.iterdir()) == []


def test_a_journal_that_was_just_begun_holds_nothing(tmp_path):
    (tmp_path / JOURNAL_NAME).touch()
    assert jobs_in(tmp_path) == [] and journal.count_unfinished(tmp_path) == (0, 0)
    put(tmp_path, "a")
    assert jobs_in(tmp_path) == ["a"]


def test_a_journal_of_a_newer_version_is_refused_by_readers_and_writers(tmp_path):
    put(tmp_path, "a")
    with contextlib.closing(sqlite3.connect(tmp_path / JOURNAL_NAME)) as db:
        db.execute(f"PRAGMA user_version={JOURNAL_VERSION + 1}")
        db.commit()
    for action in (
        lambda: Journal(tmp_path),
        lambda: jobs_in(tmp_path),
        lambda: journal.read_meta(tmp_path),
        lambda: journal.count_unfinished(tmp_path),
        lambda: store.open_study(tmp_path).runs,
    ):
        assert "written by a newer cilab" in line(action)
    lock = FolderLock(tmp_path)
    lock.acquire()  # a writer that was refused holds no lock
    lock.release()


@pytest.mark.parametrize("damage", [lambda data: b"no database" * 500, lambda data: data[:100] + b"\0" * 9000])
def test_a_damaged_journal_is_told_and_says_what_stays_readable(tmp_path, damage):
    put(tmp_path, *(f"job{i}" for i in range(50)))
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(damage(path.read_bytes()))
    for action in (lambda: Journal(tmp_path), lambda: jobs_in(tmp_path), lambda: journal.read_meta(tmp_path)):
        text = line(action)
        assert text.startswith(str(path)) and "tables/ stays readable" in text


def test_a_row_that_is_no_json_is_told_as_damage(tmp_path):
    put(tmp_path, "a")
    with contextlib.closing(sqlite3.connect(tmp_path / JOURNAL_NAME)) as db:
        db.execute("UPDATE finished SET payload = '{\"runs\": ['")
        db.commit()
    assert "is damaged" in line(lambda: jobs_in(tmp_path))
    with opened(tmp_path) as held:
        assert "is damaged" in line(lambda: list(held.finished()))


def test_a_journal_that_is_a_folder_cannot_be_used(tmp_path):
    (tmp_path / JOURNAL_NAME).mkdir()
    for action in (lambda: jobs_in(tmp_path), lambda: Journal(tmp_path)):
        assert line(action).startswith(str(tmp_path / JOURNAL_NAME))


def test_a_full_disk_is_told_once_and_everything_before_it_is_kept(tmp_path):
    async def write(held):
        await held.finish("a", "ok", {})
        held._db.execute("PRAGMA max_page_count=1")
        for job in ("b", "c"):
            with pytest.raises(CilabError, match=r"the disk is full\. Free some space and run the same"):
                await held.finish(job, "ok", {"text": "x" * 100_000})

    with opened(tmp_path) as held:
        asyncio.run(write(held))
    assert jobs_in(tmp_path) == ["a"]


# -- the lock ---------------------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_writes(tmp_path):
    with opened(tmp_path):
        assert f"another process (pid {os.getpid()}) is writing here" in line(lambda: Journal(tmp_path))
    put(tmp_path, "a")


def test_the_lock_of_another_process_goes_with_it(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from cilab.store.journal import FolderLock\n"
        "FolderLock(Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    assert f"pid {child.pid}" in line(lambda: Journal(tmp_path))
    child.kill()
    child.wait()
    put(tmp_path, "a")


def test_a_folder_that_is_gone_or_gives_no_locks_is_told(tmp_path, monkeypatch):
    assert "cannot be written (No such file or directory)" in line(lambda: Journal(tmp_path / "gone"))

    def none(fd, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    assert "gives no locks (No locks available)" in line(lambda: Journal(tmp_path))


def test_readers_need_no_lock_and_take_none(tmp_path):
    with opened(tmp_path) as held:
        asyncio.run(held.finish("a", "ok", {}))
        assert jobs_in(tmp_path) == ["a"]
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert jobs_in(tmp_path) == ["a"]
    lock.release()


def test_a_holder_that_has_not_written_its_id_yet_is_waited_for(tmp_path):
    path = tmp_path / "study.lock"
    path.write_text("999999999")  # an earlier holder, long gone
    holder = os.open(path, os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)

    def write_late():
        time.sleep(0.1)
        os.ftruncate(holder, 0)
        os.pwrite(holder, str(os.getpid()).encode(), 0)

    late = threading.Thread(target=write_late)
    late.start()
    with pytest.raises(CilabError, match=rf"pid {os.getpid()}\)"):
        FolderLock(tmp_path).acquire()
    late.join()
    os.close(holder)
