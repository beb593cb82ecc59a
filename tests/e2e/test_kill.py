"""A simulated study killed at start-up, while it plans, plays, and writes a part: nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import cilab
from cilab.store.journal import JOURNAL_NAME

#: Kills of a test; there is a test for each kind of moment, which it meets once more often than the others.
KILLS = 10
KINDS = ("start-up", "playing", "part")
COUNT = "select count(*) as n, count(distinct run_id) as ids from runs where status != 'error'"


def finished(folder: Path) -> int:
    """Finished rollouts as a user would count them; none before the folder holds a study."""
    if not (folder / JOURNAL_NAME).exists() and not (folder / "tables").exists():
        return 0
    n, ids = cilab.query(COUNT, folder).row(0)
    assert n == ids
    assert cilab.status(folder)["finished"] >= n  # asked a moment later
    return int(n)


def written_since(path: Path, when_ns: int) -> bool:
    try:
        return path.stat().st_mtime_ns > when_ns
    except FileNotFoundError:
        return False


def part_counts(folder: Path) -> Counter[str]:
    """How many parts and temporary files a table has."""
    return Counter(p.parent.name for p in folder.glob("tables/*/*part-*"))


def files(folder: Path) -> set[tuple[str, int]]:
    """(name, time of change) of all that stands in the tables, temporary files included."""
    found = set()
    for path in folder.glob("tables/*/*part-*"):
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            found.add((str(path), path.stat().st_mtime_ns))
    return found


def part_written(folder: Path) -> Callable[[], bool]:
    """True from the moment on at which a part is begun; one that was left half done is written again by its name."""
    before = files(folder)
    return lambda: files(folder) != before


@pytest.fixture(scope="module")
def through(module_shell, root):
    """The study file, the run ids that it plans, and the folder of one session that ran to its end."""
    study = root / "studies" / "maze_sim.yaml"
    planned = module_shell.run("run", study, "--dry-run", "--json").json["run_ids"]
    assert module_shell.run("run", study, "--out", "through", cold=True).code == 0
    return study, planned, module_shell.folder / "through"


@pytest.mark.slow
@pytest.mark.parametrize("more", KINDS)
def test_a_study_killed_at_ten_moments_ends_as_one_that_ran_through(more, shell, through, rows, whole, until):
    study, planned, undisturbed = through
    folder = shell.folder / "killed"
    rng = random.Random(20261009 + KINDS.index(more))
    kinds = [*KINDS * (KILLS // len(KINDS)), more]
    rng.shuffle(kinds)
    from_nothing = kinds.index("start-up")  # where the imports are met as well
    least, met, halves = 0, Counter(), 0
    for i, kind in enumerate(kinds):
        wal, began, changed = folder / f"{JOURNAL_NAME}-wal", time.time_ns(), part_written(folder)
        session = shell.start("run", study, "--out", folder, cold=i == from_nothing)
        if kind == "start-up":
            time.sleep(rng.uniform(0.0, 1.6 if i == from_nothing else 0.5))
        elif kind == "playing":
            assert until(lambda wal=wal, began=began: written_since(wal, began), session)
            time.sleep(rng.uniform(0.0, 1.2))
            running = finished(folder)  # answers while it runs, and what it saw outlives the kill
            assert running >= least
            least = running
        else:
            # Where the last session left nothing to write, the first part is far away.
            end = time.monotonic() + 4.0
            assert until(lambda changed=changed, end=end: changed() or time.monotonic() > end, session, every_s=0.002)
            time.sleep(rng.uniform(0.0, 0.02))
        met[kind] += session.alive
        session.kill()
        parts = part_counts(folder)
        halves += len({parts[t] for t in ("runs", "messages", "calls")}) > 1
        n = finished(folder)
        assert n >= least, f"kill {i} ({kind}): {n} finished rollouts after {least}"
        least = n
    told = shell.run("status", folder, "--json")
    asked = shell.run("query", COUNT, "--data", folder, "--format", "json")
    assert (told.code, asked.code) == (0, 0)
    assert told.json["finished"] == asked.json[0]["n"] == n
    print(f"killed while running: {dict(met)}; between the parts of one group: {halves}; {least} finished by then")
    assert sum(met.values()) == KILLS, "each of the sessions was killed before its end"
    assert 0 < least < len(planned)

    assert shell.run("run", study, "--out", folder).code == 0
    whole(folder, planned)
    whole(undisturbed, planned)
    status = cilab.status(folder)
    assert (status["missing"], status["interrupted_rollouts"], status["by_status"]) == (0, 0, {"ok": len(planned)})
    for table, columns in (
        ("runs", ("run_id", "status", "ended", "weighted_outcome", "success", "messages", "prefix_run_id")),
        ("messages", ("run_id", "index", "seat", "content")),
    ):
        one, other = (rows(where, table).select(columns).sort(columns[:2]) for where in (folder, undisturbed))
        assert_frame_equal(one, other)
