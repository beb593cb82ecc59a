"""The disk full at every write: the session ends with one clear line, and the next one ends as if nothing had been."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

import cilab
from tests.faults import hooks
from tests.faults.checks import check_errors_are_typed

STUDY = {
    "name": "disk_sim",
    "blocks": [
        {"benchmark": "maze", "versions": ["solo_full", "pair"], "models": ["sim/strong"], "mazes": {"count": 3}},
    ],
}


@pytest.fixture
def study(sessions):
    path = sessions.folder / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


@pytest.fixture
def planned(sessions, study):
    return sessions.run("run", study, "--dry-run", "--json").json["run_ids"]


def check_end(ended):
    """An end that a user can act on: the right exit code, and one line on the disk where it failed."""
    assert ended.code in (0, 1, 2), ended.err
    assert "Traceback" not in ended.err, ended.err
    if ended.code:
        # SQLite's own limit, a full disk and an unfinished write are told in words of their own.
        told = [line for line in ended.err.splitlines() if " tokens/s" not in line]
        assert [line for line in told if "full" in line or "space" in line or "disk" in line], ended.err


def check_resumes(sessions, study, folder, planned, whole):
    """What a failed session left is readable, and the same command ends the study."""
    before = set()
    if (folder / "tables").exists() or (folder / "journal.sqlite").exists():
        before = set(cilab.open(folder).runs.collect()["run_id"])
        check_errors_are_typed(folder)
    assert before <= set(planned)
    again = sessions.run("run", study, "--out", folder)
    assert again.code == 0, again.err
    whole(folder, planned)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.study)])
def test_a_disk_that_is_full_from_any_write_on_loses_nothing(step, sessions, study, planned, whole, counted):
    folder, seen = sessions.folder / "out", sessions.folder / "seen.txt"
    failed = met = 0
    kinds = set()
    for nth in range(1, 400, step):
        shutil.rmtree(folder, ignore_errors=True)
        seen.unlink(missing_ok=True)
        env = {hooks.NTH: str(nth), hooks.BELOW: str(folder), hooks.SEEN: str(seen)}
        ended = sessions.run("run", study, "--out", folder, env=env, before=hooks.nth_write_fails)
        number, _, what = seen.read_text().partition(" ")
        check_end(ended)
        if int(number) < nth:  # it came through without meeting the fault
            assert ended.code == 0
            break
        met += 1
        kinds.add(what.split()[0])
        failed += ended.code != 0
        check_resumes(sessions, study, folder, planned, whole)
    else:
        raise AssertionError("the study writes more often than was tried")
    counted("disk full from the n-th write on", writes=met, sessions_that_said_so=failed, rollouts=len(planned))
    assert failed == met > 0
    assert len(kinds) > 1 if step > 1 else kinds >= {"open", "fsync"}


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.study)])
def test_a_journal_that_is_full_at_any_page_loses_nothing(step, sessions, study, planned, whole, counted):
    folder = sessions.folder / "out"
    met = 0
    for pages in range(1, 200, step):
        shutil.rmtree(folder, ignore_errors=True)
        ended = sessions.run("run", study, "--out", folder, env={hooks.PAGES: str(pages)}, before=hooks.journal_is_full)
        check_end(ended)
        if ended.code == 0:
            whole(folder, planned)
            break
        met += 1
        check_resumes(sessions, study, folder, planned, whole)
    else:
        raise AssertionError("the journal needs more pages than were tried")
    counted("journal full at the n-th page", pages=met, rollouts=len(planned))
    assert met > 0


@pytest.fixture
def disk(tmp_path):
    """A disk, and a function that gives it a size in kB; left out where only root may mount."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        done = subprocess.run(["mount", *map(str, options)], capture_output=True)
        if done.returncode:
            pytest.skip("only root can mount a disk here")

    mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", place)
    yield place, lambda kb: mount("-o", f"remount,size={kb}k", place)
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("step", [240, pytest.param(8, marks=pytest.mark.study)])
def test_a_small_disk_of_any_size_loses_nothing(step, sessions, study, planned, whole, disk, counted):
    place, resize = disk
    folder = place / "out"
    met = 0
    for kb in range(8, 1600, step):
        resize(kb)
        ended = sessions.run("run", study, "--out", folder)
        check_end(ended)
        if ended.code == 0:
            whole(folder, planned)
            break
        met += 1
        resize(8192)
        check_resumes(sessions, study, folder, planned, whole)
        shutil.rmtree(folder)
    else:
        raise AssertionError("the study needs more room than was tried")
    counted("a disk of n kB", sizes=met, rollouts=len(planned), root=os.geteuid() == 0)
    assert met > 0
