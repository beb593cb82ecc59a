"""Studies of other versions: an old one opens for ever, a newer one opens read-only and keeps what is not known here.

`golden/study_v1` was written by cilab 0.1.0 (see `golden/study_v1_make.py`). A version that is to come is made here by
hand: tables 2, with one more column of `runs` and a new word in two of its closed lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import cilab
from cilab import store
from cilab.core import columns, plugins, tables
from cilab.core.columns import Column, Table, text, texts, whole
from cilab.core.errors import CilabError, CilabWarning, TableError
from cilab.core.tables import TABLES
from cilab.datasets.dataset import Dataset
from cilab.datasets.importers import import_any
from cilab.running.again import annotate
from cilab.running.relabel import relabel
from cilab.store import footers, journal

GOLDEN = Path(__file__).parent / "golden" / "study_v1"
REVIEW = "run_id,reviewer,old_score,new_score,reason\n{},me,1,0,no\n"
#: Rows of each table of the kept study, and a hash of them in the columns that version 1 had.
CONTENTS = {
    "runs": (29, "4fb9393d99eda923"),
    "messages": (410, "675911af32957c45"),
    "calls": (355, "8b93d458c214d652"),
    "labels": (179, "d507f58c33a0626f"),
    "annotations": (24, "ae3e7bf14810c14a"),
    "reviews": (1, "abecd1524d60fe6e"),
    "tasks": (2, "d0f64db36fb34cb3"),
}
DATA_HASH = "554e0b58b113"


@pytest.fixture
def old(tmp_path) -> Path:
    """The kept study, in a folder that may be written."""
    return shutil.copytree(GOLDEN, tmp_path / "old")


@contextlib.contextmanager
def tables_2() -> Iterator[None]:
    """The code of a version to come."""
    words = {"status": "paused", "evidence": "sulked"}
    known = [replace(c, allowed=(*c.allowed, words[c.name])) if c.name in words else c for c in TABLES["runs"].columns]
    known.insert(9, Column("harness", pl.String, "Scaffold around the model; null for none.", since=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLES, "runs", Table("runs", "One row per rollout.", tuple(known)))
        patch.setattr(tables, "TABLES_VERSION", 2)
        yield


def newer_runs(folder: Path) -> list[dict]:
    """Two runs as tables 2 has them."""
    ok = store.open_study(folder).runs.filter(benchmark="teamwork", version="test").collect().row(0, named=True)
    nothing = dict.fromkeys(("score", "passed", "weighted_outcome", "success", "joint_share"))
    sulked = ok | {"run_id": "new1", "task_id": "new", "harness": "loop", "evidence": ["sulked", "raised_problem"]}
    return [sulked, ok | nothing | {"run_id": "new2", "task_id": "newer", "status": "paused", "harness": None}]


@pytest.fixture
def newer(tmp_path) -> Path:
    """The kept study after a version to come has gone on with it."""
    folder = shutil.copytree(GOLDEN, tmp_path / "newer")
    with tables_2():
        store.write_group(folder, {"runs": tables.frame("runs", newer_runs(folder))})
    return folder


@contextlib.contextmanager
def told(*words: str) -> Iterator[None]:
    """One line says that a study is newer."""
    store.study._say.cache_clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    lines = [str(w.message) for w in found if issubclass(w.category, CilabWarning)]
    assert len(lines) == 1 and "\n" not in lines[0]
    assert all(word in lines[0] for word in words), lines[0]


def line(action) -> str:
    with pytest.raises(CilabError) as e:
        action()
    assert "\n" not in str(e.value)
    return str(e.value)


def opened(*folders):
    """A study, with nothing said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CilabWarning)
        return cilab.open(list(folders) if len(folders) > 1 else folders[0])


def held(folder: Path) -> dict[str, bytes]:
    """What stands in a folder, but for a lock and SQLite's own files beside the journal."""
    passing = ("study.lock", "journal.sqlite-shm", "journal.sqlite-wal")
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name not in passing}


def in_version_1(name: str, df: pl.DataFrame) -> pl.DataFrame:
    """The columns that version 1 had, rows in an order of their own."""
    part = next((GOLDEN / "tables" / name).glob("*.parquet"))
    df = df.select(*pl.read_parquet_schema(part))
    return df.sort([c for c, t in df.schema.items() if t != pl.List(pl.String)], nulls_last=True)


# -- an old study --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTENTS)
def test_the_kept_study_is_what_it_was_as_frames_and_in_sql(name, old):
    study = cilab.open(old)
    df = in_version_1(name, study.table(name).collect())
    digest = hashlib.blake2b(df.write_ndjson().encode(), digest_size=8).hexdigest()
    assert (df.height, digest) == CONTENTS[name]
    assert_frame_equal(in_version_1(name, study.sql(f"select * from {name}")), df)


def test_the_kept_study_answers_as_it_did(old):
    study = cilab.open(old)
    assert study.data_hash == DATA_HASH and study.simulated
    found = cilab.status(old)
    assert (found["planned"], found["finished"], found["interrupted_rollouts"]) == (34, 29, 4)
    assert found["kept_completions"] == 20


def test_the_kept_study_goes_on_inside_its_unfinished_rollouts(old):
    before = set(cilab.open(old).runs.collect()["run_id"])
    with contextlib.closing(sqlite3.connect(old / journal.JOURNAL_NAME)) as db:
        kept = [json.loads(p)["row"] for (p,) in db.execute("SELECT payload FROM completions")]
    assert cilab.run_study(old / "study.yaml", out=old, show_progress=False).exit_code == 0
    study = cilab.open(old)
    runs = study.runs.collect()["run_id"]
    assert len(runs) == 34 and before < set(runs) and runs.is_unique().all()
    key = ("run_id", "seat", "index", "latency_s")
    calls = set(study.calls.select(key).collect().iter_rows())
    assert len(kept) == 20 and {tuple(row[k] for k in key) for row in kept} <= calls  # paid once


# -- old parts under new code ------------------------------------------------------------------------------


def test_old_parts_have_nulls_in_a_new_column(old, tmp_path):
    with tables_2():
        study = cilab.open(old)
        runs = study.runs.collect()
        assert runs.schema == TABLES["runs"].schema and runs["harness"].null_count() == runs.height == 29
        asked = study.sql("select * from runs")
        assert asked.schema == runs.schema
        assert_frame_equal(asked.sort("run_id"), runs.sort("run_id"))
        assert study.sql("select count(harness) from runs join labels using (run_id)").item() == 0
        assert study.data_hash == DATA_HASH
        store.write_group(old, {"runs": tables.frame("runs", newer_runs(old))})
        both = cilab.open(old)
        for found in (both.runs.collect(), both.sql("select * from runs")):
            assert found.height == 31 and found["harness"].drop_nulls().to_list() == ["loop"]
            assert found.columns == list(TABLES["runs"].names)
        assert cilab.status(old)["by_status"] == {"ok": 30, "paused": 1}


def test_old_parts_that_lack_a_column_of_their_own_version_are_refused_still(old):
    part = old / "tables" / "runs" / "part-000001.parquet"
    rewrite(part, lambda t: t.drop_columns(["seed"]))
    with tables_2():
        assert "missing columns: seed" in line(lambda: cilab.open(old).runs)


def test_a_part_that_lacks_a_column_of_its_newer_version_is_refused(newer):
    part = sorted((newer / "tables" / "runs").glob("*.parquet"))[-1]
    rewrite(part, lambda t: t.drop_columns(["harness"]))
    with tables_2():
        assert "missing columns: harness" in line(lambda: cilab.open(newer).runs)


def test_an_old_study_goes_on_under_new_code(old):
    with tables_2():
        assert cilab.run_study(old / "study.yaml", out=old, show_progress=False).exit_code == 0
        runs = cilab.open(old).runs.collect()
        assert runs.height == 34 and runs["harness"].null_count() == 34
        assert footers.tables_version(sorted((old / "tables" / "runs").glob("*.parquet"))[-1]) == 2
        assert journal.tables_version(old) == 2
    assert "read-only" in line(lambda: cilab.run_study(old / "study.yaml", out=old, show_progress=False))


def test_an_old_data_set_is_taken_by_its_version(old, tmp_path):
    frames = {name: cilab.open(old).table(name).collect() for name in ("runs", "labels")}
    with tables_2():
        data = Dataset("old", frames, simulated=True, kind="imported", version=1)
        assert data.runs.collect()["harness"].null_count() == 29
        data.save(tmp_path / "saved")
        assert cilab.open(tmp_path / "saved").data_hash == data.data_hash
        with pytest.raises(TableError, match="missing columns: harness"):
            Dataset("new", frames, simulated=True, kind="imported")


# -- new parts under old code --------------------------------------------------------------------------------


def test_a_newer_study_opens_says_so_once_and_keeps_what_is_new(newer):
    with told(str(newer), "tables 2, this one knows 1", "read-only", "runs.harness"):
        study = cilab.open(newer)
        again = cilab.open(newer)
        runs = study.runs.collect()
    assert runs.columns == [*TABLES["runs"].names, "harness"]
    assert runs["harness"].drop_nulls().to_list() == ["loop"] and runs.height == 31
    assert "paused" in runs["status"].to_list() and ["sulked", "raised_problem"] in runs["evidence"].to_list()
    asked = again.sql("select * from runs")
    assert asked.columns == runs.columns
    assert_frame_equal(asked.sort("run_id"), runs.sort("run_id"))
    assert study.sql("select run_id from runs where harness = 'loop'").item() == "new1"


def test_statistics_of_a_newer_study_work(newer):
    study = opened(newer)
    board = cilab.leaderboard(study, resamples=50)
    assert board.table.height == 2 and sum(board.n_left_out.values())
    assert cilab.failures(study).table.height
    assert cilab.gap(study).table.height


def test_a_newer_study_is_read_together_with_an_old_one_and_behind_a_url(newer, old):
    both = opened(old, newer)
    for found in (both.runs.collect(), both.sql("select * from runs")):
        assert found.height == 31 and found["harness"].drop_nulls().to_list() == ["loop"]
    with told(f"file://{newer}", "tables 2", "runs.harness"):
        remote = cilab.open(f"file://{newer}")
    for found in (remote.runs.collect(), remote.sql("select * from runs")):
        assert found.height == 27 and found["harness"].drop_nulls().to_list() == ["loop"]  # without the journal's four
        assert found.columns == [*TABLES["runs"].names, "harness"]
    with tables_2():
        remote = cilab.open(f"file://{old}")
        for found in (remote.runs.collect(), remote.sql("select * from runs")):
            assert found.height == 25 and found["harness"].null_count() == 25 and found.schema == TABLES["runs"].schema


def test_a_newer_study_is_a_data_set_of_its_version(newer, tmp_path):
    data = Dataset("new", {"runs": opened(newer).runs.collect()}, simulated=True, kind="imported", version=2)
    assert data.runs.collect()["harness"].drop_nulls().to_list() == ["loop"]
    assert data.sql("select count(harness) from runs").item() == 1
    with pytest.raises(TableError, match="unknown columns: harness"):
        data.save(tmp_path / "saved")


def test_nothing_is_written_into_a_newer_study(newer, tmp_path):
    form = tmp_path / "form.csv"
    form.write_text(REVIEW.format(opened(newer).runs.collect()["run_id"][0]), encoding="utf-8")
    before = held(newer)
    (tmp_path / "study.yaml").write_text((newer / "study.yaml").read_text() + "description: edited\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CilabWarning)
        for action in (
            lambda: cilab.run_study(tmp_path / "study.yaml", out=newer, show_progress=False),
            lambda: annotate(newer, annotator="rules", show_progress=False),
            lambda: relabel(newer, judge="sim/team-judge-c", show_progress=False),
            lambda: import_any("reviews", form, newer),
            lambda: store.write_group(newer, {}),
        ):
            text = line(action)
            assert "newer cilab (tables 2, this one writes 1)" in text and "Upgrade cilab, or choose another" in text
    assert held(newer) == before


@pytest.mark.parametrize("command", [["status"], ["query", "select count(harness) n from runs", "--data"]])
def test_the_shell_says_one_line_and_answers(newer, command):
    done = subprocess.run([sys.executable, "-m", "cilab", *command, str(newer)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout
    assert (
        done.stderr.startswith(f"cilab: {newer}: written by a newer cilab (tables 2") and done.stderr.count("\n") == 1
    )


# -- journals ------------------------------------------------------------------------------------------------


def test_rows_of_a_newer_journal_are_kept_and_nothing_is_added(old):
    async def finish(held, rows):
        for row in rows:
            await held.finish(row["run_id"], row["status"], {"runs": [row]})

    with tables_2():
        rows = newer_runs(old)
        held = journal.Journal(old)
        asyncio.run(finish(held, rows))
        held.close()
    with told("tables 2"):
        study = cilab.open(old)
    for found in (study.runs.collect(), study.sql("select * from runs")):
        assert found.height == 31 and found["harness"].drop_nulls().to_list() == ["loop"]
        assert "paused" in found["status"].to_list()
    assert "journal.sqlite: written by a newer cilab (tables 2" in line(lambda: journal.Journal(old))
    assert cilab.status(old)["finished"] == 31


def test_a_newer_layout_is_refused_in_one_line(old):
    last = sorted((old / "tables" / "runs").glob("*.parquet"))[-1]
    rewrite(last, lambda t: t, {b"cilab_layout": b"2"})
    for action in (lambda: cilab.open(old), lambda: cilab.status(old), lambda: cilab.open(f"file://{old}")):
        assert "written by a newer cilab (layout 2, this one reads 1). Upgrade cilab." in line(action)


def rewrite(path, change, meta=None):
    import pyarrow.parquet as pq

    table = change(pq.read_table(path))
    pq.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | (meta or {})), path)


# -- columns that benchmarks bring ---------------------------------------------------------------------------


@pytest.fixture
def brings(monkeypatch):
    """Makes another package bring columns of runs."""

    def bring(*found: Column, module: str = "wordpair.terms:RUNS") -> Table:
        entries = dict(plugins.names(plugins.COLUMNS))
        loaded = dict(plugins.loaded(plugins.COLUMNS))
        entry = type("Entry", (), {"value": module})()
        monkeypatch.setattr(plugins, "names", lambda group: {**entries, "wordpair": entry})
        monkeypatch.setattr(plugins, "loaded", lambda group: {**loaded, "wordpair": found})
        columns.brought.cache_clear()
        runs = Table("runs", tables.RUNS.doc, tables.RUNS.own, tables.RUNS.room)
        monkeypatch.setitem(TABLES, "runs", runs)
        return runs

    yield bring
    columns.brought.cache_clear()


def test_columns_of_a_benchmark_stand_in_their_places(brings):
    runs = brings(whole("guesses", "Words guessed."), text("opening", "First word.", after="split"))
    assert runs.names.index("guesses") == runs.names.index("prefix_run_id") - 1
    assert runs.names.index("opening") == runs.names.index("split") + 1
    assert [n for n in runs.names if n not in ("guesses", "opening")] == list(tables.RUNS.names)


def test_a_benchmark_adds_its_words_and_may_not_change_a_column(brings):
    with pytest.warns(UserWarning, match="wordpair brings 'score', which is there already; it is left out"):
        runs = brings(text("version", "Setting.", ("guess",)), texts("evidence", "", ()), text("score", "Mine."))
        assert runs.schema == tables.RUNS.schema
    version = next(c for c in runs.columns if c.name == "version")
    assert version.allowed == ("guess", *next(c.allowed for c in tables.RUNS.columns if c.name == "version"))


def test_a_column_of_another_package_is_read_where_the_package_is_missing(brings, old, monkeypatch):
    before = TABLES["runs"]
    brings(whole("guesses", "Words guessed."))
    row = newer_runs(old)[0]
    row.pop("harness")
    store.write_group(old, {"runs": tables.frame("runs", [row | {"evidence": [], "guesses": 3}])})
    store.write_group(old, {"runs": tables.frame("runs", [row | {"evidence": [], "run_id": "new3"}])})
    assert cilab.open(old).runs.collect()["guesses"].drop_nulls().to_list() == [3]
    monkeypatch.setitem(TABLES, "runs", before)
    study = cilab.open(old)
    for found in (study.runs.collect(), study.sql("select * from runs")):
        assert found.columns == [*before.names, "guesses"] and found["guesses"].drop_nulls().to_list() == [3]
    row.pop("guesses")
    store.write_group(old, {"runs": tables.frame("runs", [row | {"evidence": [], "run_id": "new4"}])})
    assert cilab.open(old).runs.collect().height == 32
