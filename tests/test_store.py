"""Parts and their union with the journal: what a reader sees at any instant, and what it is told when a file is bad."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import threading
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cilab import store
from cilab.collect.rows import wire_delta
from cilab.core.errors import CilabError, CilabWarning, StoreError, TableError
from cilab.core.tables import TABLES, TABLES_VERSION, frame
from cilab.store import journal, parts

START = datetime(2026, 1, 1, tzinfo=UTC)


def run(i, **more):
    row = {
        "run_id": f"run{i:03d}",
        "study": "s",
        "benchmark": "maze",
        "task_id": f"t{i % 5}",
        "version": "pair",
        "model": "a/m",
        "seed": i,
        "status": "ok",
        "score": float(i % 2),
        "passed": bool(i % 2),
        "cost_usd": 0.25 * i,
        "tokens_in": 10 * i,
        "finished_at": START + timedelta(minutes=i),
    }
    return row | more


def message(i, index=0, **more):
    row = {"run_id": f"run{i:03d}", "index": index, "kind": "message", "seat": "1", "seat_kind": "under_test"}
    return row | {"content": f"word {i}.{index}", "delivered_to": ["2"]} | more


def frames(*numbers):
    return {
        "runs": frame("runs", [run(i) for i in numbers]),
        "messages": frame("messages", [message(i, k) for i in numbers for k in range(2)]),
    }


def journal_with(folder, *payloads, status="ok"):
    """A journal as a running study has it: finished jobs that are in no part."""
    written = journal.Journal(folder)

    async def put():
        for payload in payloads:
            await written.finish(payload["runs"][0]["run_id"], status, payload)

    asyncio.run(put())
    return written


def payload(i, **more):
    return {"runs": [run(i, **more)], "messages": [message(i, k) for k in range(2)]}


def ids(folder):
    return store.open_study(folder).runs.collect()["run_id"].to_list()


def line(action):
    """The one line of the error that `action` ends with."""
    with pytest.raises(CilabError) as e:
        action()
    assert "\n" not in str(e.value)
    return str(e.value)


# -- parts ------------------------------------------------------------------------------------------------


def test_a_group_comes_back_as_it_was_written(tmp_path):
    groups = frames(1, 2)
    assert store.write_group(tmp_path, groups) == 1
    study = store.open_study(tmp_path)
    assert study.runs.collect().equals(groups["runs"])
    assert study.messages.collect().equals(groups["messages"])
    assert study.labels.collect().height == 0 and study.labels.collect_schema() == TABLES["labels"].schema


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 12), max_size=4), order=st.permutations(range(12)))
def test_rows_and_data_hash_do_not_depend_on_how_runs_are_cut_into_parts_or_on_their_order(
    tmp_path_factory, cuts, order
):
    whole, cut = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cut")
    store.write_group(whole, frames(*range(12)))
    edges = [0, *sorted(cuts), 12]
    for low, high in itertools.pairwise(edges):
        if low < high:
            store.write_group(cut, frames(*order[low:high]))
    a, b = store.open_study(whole), store.open_study(cut)
    assert a.data_hash == b.data_hash
    assert a.runs.sort("run_id").collect().equals(b.runs.sort("run_id").collect())
    keys = ["run_id", "index"]
    assert a.messages.sort(keys).collect().equals(b.messages.sort(keys).collect())


@pytest.mark.parametrize(
    "change",
    [
        {"score": 0.5},
        {"passed": False},
        {"weighted_outcome": 0.25},
        {"success": True},
        {"joint_share": 0.5},
        {"outcome": "goal"},
        {"run_id": "another"},
        {"finished_at": START},
        {"status": "error", "score": None, "passed": None},
    ],
)
def test_the_data_hash_changes_when_an_outcome_does(tmp_path, change):
    before, after = tmp_path / "before", tmp_path / "after"
    store.write_group(before, {"runs": frame("runs", [run(1), run(2)])})
    store.write_group(after, {"runs": frame("runs", [run(1) | change, run(2)])})
    hashes = store.open_study(before).data_hash, store.open_study(after).data_hash
    assert hashes[0] != hashes[1] and all(len(h) == 12 for h in hashes)


def label(i=1, index=0, **more):
    row = {"run_id": f"run{i:03d}", "index": index, "rater": "final", "label": "calm"}
    return row | {"gives_way": False, "noticed": False} | more


def note(i=1, **more):
    row = {"run_id": f"run{i:03d}", "annotator": "a", "repeat": 0, "agent": 1, "feature": "shared_map", "value": 1.0}
    return row | {"text": "yes"} | more


def review(i=1, **more):
    return {"run_id": f"run{i:03d}", "reviewer": "me", "old_score": 1.0, "new_score": 0.0, "at": START} | more


def hash_with(folder, **remarks):
    """The hash of two runs and what was said of them."""
    tables = {"runs": frame("runs", [run(1), run(2)])} | {n: frame(n, rows) for n, rows in remarks.items()}
    store.write_group(folder, tables)
    return store.open_study(folder).data_hash


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"labels": [label()]}),
        ({}, {"annotations": [note()]}),
        ({}, {"reviews": [review()]}),
        ({"labels": [label()]}, {"labels": [label(), label(2)]}),
        ({"labels": [label()]}, {"labels": [label(label="angry")]}),
        ({"labels": [label()]}, {"labels": [label(gives_way=True)]}),
        ({"labels": [label()]}, {"labels": [label(rater="second")]}),
        ({"labels": [label()]}, {"labels": [label(index=1)]}),
        ({"labels": [label(1), label(2, label="angry")]}, {"labels": [label(1, label="angry"), label(2)]}),
        ({"labels": [label(1, 0), label(1, 1, label="x")]}, {"labels": [label(1, 1), label(1, 0, label="x")]}),
        ({"annotations": [note()]}, {"annotations": [note(value=0.0)]}),
        ({"annotations": [note()]}, {"annotations": [note(text="no")]}),
        ({"annotations": [note()]}, {"annotations": [note(2)]}),
        ({"reviews": [review()]}, {"reviews": [review(new_score=0.5)]}),
    ],
)
def test_the_data_hash_changes_with_what_is_said_of_the_runs(tmp_path, before, after):
    assert hash_with(tmp_path / "before", **before) != hash_with(tmp_path / "after", **after)


def test_the_data_hash_does_not_depend_on_the_order_of_remarks_nor_on_the_reasons_given(tmp_path):
    labels = [label(i, k, label=word) for i in (1, 2) for k, word in enumerate(("calm", "angry"))]
    reasoned = [row | {"reason": f"because {n}"} for n, row in enumerate(labels)]
    assert hash_with(tmp_path / "a", labels=labels) == hash_with(tmp_path / "b", labels=reasoned[::-1])


def test_a_remark_that_came_in_a_later_part_counts_like_one_of_the_first(tmp_path):
    whole = hash_with(tmp_path / "whole", labels=[label(1), label(2)], annotations=[note(1)])
    hash_with(tmp_path / "cut", labels=[label(2)])
    store.write_group(tmp_path / "cut", {"labels": frame("labels", [label(1)])})
    store.write_group(tmp_path / "cut", {"annotations": frame("annotations", [note(1)])})
    assert store.open_study(tmp_path / "cut").data_hash == whole


def test_the_order_of_a_frames_columns_does_not_matter(tmp_path):
    store.write_group(tmp_path, frames(1))
    turned = {k: df.select(reversed(df.columns)) for k, df in frames(2).items()}
    store.write_group(tmp_path, turned)
    assert store.open_study(tmp_path).runs.collect().equals(frame("runs", [run(1), run(2)]))


def test_rows_that_do_not_fit_leave_nothing_behind(tmp_path):
    bad = frames(1)
    bad["messages"] = bad["messages"].with_columns(kind=pl.lit("shout"))
    assert "kind is 'shout'" in line(lambda: store.write_group(tmp_path, bad))
    with pytest.raises(TableError, match=r"no table named mesages. Did you mean messages"):
        store.write_group(tmp_path, {"mesages": bad["messages"]})
    assert list(tmp_path.rglob("*")) == []


def test_a_group_without_runs_is_committed_by_an_empty_part_and_keeps_its_jobs(tmp_path):
    note = {"run_id": "run001", "annotator": "rules", "repeat": 0, "agent": 0, "feature": "x", "value": 1.0}
    store.write_group(tmp_path, frames(1))
    store.write_group(tmp_path, {"annotations": frame("annotations", [note])}, ["job-1", "job-2"])
    assert store.open_study(tmp_path).annotations.collect().height == 1
    assert store.finished_jobs(tmp_path) == {"run001", "job-1", "job-2"}
    assert ids(tmp_path) == ["run001"]


def test_a_killed_writers_parts_are_not_seen_and_are_replaced(tmp_path):
    store.write_group(tmp_path, frames(1))
    orphan = frames(2)
    orphan["labels"] = frame("labels", [{"run_id": "run002", "index": 0, "rater": "final", "label": "x"}])
    store.write_group(tmp_path, orphan)
    (tmp_path / "tables" / "runs" / "part-000002.parquet").unlink()  # killed before the commit
    (tmp_path / "tables" / "runs" / ".part-000002.parquet.tmp").write_bytes(b"half")
    study = store.open_study(tmp_path)
    assert ids(tmp_path) == ["run001"]
    assert study.messages.collect()["run_id"].unique().to_list() == ["run001"] and study.labels.collect().is_empty()
    assert store.transcript(tmp_path, "run002") == []
    assert store.write_group(tmp_path, frames(3)) == 2
    assert ids(tmp_path) == ["run001", "run003"]
    assert sorted(study.messages.collect()["run_id"].unique()) == ["run001", "run003"]
    assert study.labels.collect().is_empty()


@pytest.mark.parametrize("broken", ["messages", "runs"])
def test_a_full_disk_is_one_clear_line_and_shows_nothing_of_the_group(tmp_path, monkeypatch, broken):
    store.write_group(tmp_path, frames(1))
    real = os.fsync

    def full(fd):
        if f"/{broken}/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", full)
    assert "the disk is full. Nothing is lost" in line(lambda: store.write_group(tmp_path, frames(2)))
    monkeypatch.undo()
    assert ids(tmp_path) == ["run001"]
    assert list(tmp_path.rglob("*.tmp")) == []  # what was half written gives its space back
    store.write_group(tmp_path, frames(2))
    assert ids(tmp_path) == ["run001", "run002"]


def test_every_new_file_and_folder_is_synced_before_the_next_part(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def watch(fd):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", watch)
    store.write_group(tmp_path / "study", frames(1))
    assert synced[:3] == [".", "study", "study/tables"]
    tables = [s.removeprefix("study/") for s in synced[3:]]
    assert tables == [
        "tables/messages/.part-000001.parquet.tmp",
        "tables/messages",
        "tables",
        "tables/runs/.part-000001.parquet.tmp",
        "tables/runs",
    ]


def test_every_part_carries_the_version_of_the_tables(tmp_path):
    store.write_group(tmp_path, frames(1))
    for path in tmp_path.rglob("*.parquet"):
        assert pq.read_schema(path).metadata[b"cilab_tables"] == str(TABLES_VERSION).encode()


def test_writers_of_one_process_never_take_the_same_number(tmp_path):
    threads = [threading.Thread(target=store.write_group, args=(tmp_path, frames(i))) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(ids(tmp_path)) == [f"run{i:03d}" for i in range(8)]


def test_a_reader_beside_a_writer_sees_each_run_once_and_whole(tmp_path):
    """A study that runs: jobs are finished into the journal, moved to parts and forgotten, over and over."""
    held, stop, seen, wrong = journal.Journal(tmp_path), threading.Event(), [], []

    def read():
        study = store.open_study(tmp_path)
        while not stop.is_set():
            found = study.sql(
                "select r.run_id, count(m.index) n from runs r left join messages m using (run_id) group by all"
            )
            names = study.runs.collect()["run_id"].to_list()
            seen.append(len(names))
            if found["n"].to_list() != [2] * found.height or len(set(names)) != len(names) or len(names) < seen[-2:][0]:
                wrong.append((names, found))

    async def write():
        for start in range(0, 30, 3):
            batch = range(start, start + 3)
            for i in batch:
                await held.finish(f"run{i:03d}", "ok", payload(i))
            await asyncio.to_thread(store.write_group, tmp_path, frames(*batch))
            await held.forget([f"run{i:03d}" for i in batch])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for r in readers:
        r.start()
    asyncio.run(write())
    stop.set()
    for r in readers:
        r.join()
    held.close()
    assert wrong == [] and len(seen) > 4 and len(ids(tmp_path)) == 30


def test_a_group_that_is_committed_between_two_looks_of_a_reader_is_not_missed(tmp_path, monkeypatch):
    held = journal_with(tmp_path, payload(1))
    real = parts._part_numbers

    def committed_meanwhile(folder, table):
        found = real(folder, table)
        if table == "runs":
            monkeypatch.setattr(parts, "_part_numbers", real)
            store.write_group(tmp_path, frames(1))  # lands just after the reader has listed the parts
        return found

    monkeypatch.setattr(parts, "_part_numbers", committed_meanwhile)
    assert ids(tmp_path) == ["run001"]
    held.close()


# -- parts and journal together ---------------------------------------------------------------------------


def test_finished_runs_are_read_from_the_journal_before_there_is_any_part(tmp_path):
    held = journal_with(tmp_path, payload(1), payload(2))
    study = store.open_study(tmp_path)
    assert ids(tmp_path) == ["run001", "run002"]
    assert study.runs.collect()["finished_at"].to_list() == [START + timedelta(minutes=i) for i in (1, 2)]
    assert study.messages.collect().height == 4
    assert study.last_finished_at == START + timedelta(minutes=2)
    held.close()


def test_after_a_crash_between_part_and_journal_each_run_is_seen_once(tmp_path):
    held = journal_with(tmp_path, payload(1), payload(2))
    store.write_group(tmp_path, frames(1))  # moved, and killed before it was forgotten
    assert ids(tmp_path) == ["run001", "run002"]
    assert store.open_study(tmp_path).messages.collect().height == 4
    held.close()


def test_the_data_hash_is_the_same_in_the_journal_and_in_a_part(tmp_path):
    held = journal_with(tmp_path, payload(1), payload(2))
    before = store.open_study(tmp_path).data_hash
    store.write_group(tmp_path, frames(1, 2))
    assert store.open_study(tmp_path).data_hash == before
    held.close()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 99), max_size=4, unique=True), max_size=5))
def test_payloads_keep_every_row_in_order(groups):
    payloads = [{"runs": [run(i) for i in g], "messages": [message(i) for i in g]} for g in groups]
    found = store.payload_frames(payloads)
    flat = [i for g in groups for i in g]
    assert [r["seed"] for r in (found["runs"].to_dicts() if flat else [])] == flat
    assert [r["content"] for r in (found["messages"].to_dicts() if flat else [])] == [f"word {i}.0" for i in flat]


def test_a_journal_row_that_does_not_fit_is_named_with_its_job(tmp_path):
    held = journal_with(tmp_path, payload(1), payload(2, score=85.0))
    text = line(lambda: store.open_study(tmp_path).runs)
    assert "journal.sqlite: job run002 cannot be read" in text and "score is 85.0" in text
    held.close()


def test_lone_surrogates_in_a_payload_reach_journal_and_part_as_replacement_marks(tmp_path):
    odd = payload(1)
    odd["messages"][0]["content"] = "a\ud800b"
    held = journal_with(tmp_path, odd)
    assert store.open_study(tmp_path).messages.collect()["content"].to_list()[0] == "a\ufffdb"
    store.write_group(tmp_path, store.payload_frames([odd]))
    assert store.transcript(tmp_path, "run001")[0]["content"] == "a\ufffdb"
    held.close()


# -- bad files --------------------------------------------------------------------------------------------


def part(folder, table="runs", number=1):
    return folder / "tables" / table / f"part-{number:06d}.parquet"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"no parquet at all",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-4] + b"XXXX",
        lambda data: data[:100] + bytes(len(data) - 100),
    ],
)
@pytest.mark.parametrize("table", ["runs", "messages"])
def test_a_corrupt_part_is_named_with_what_to_do(tmp_path, damage, table):
    store.write_group(tmp_path, frames(1, 2))
    path = part(tmp_path, table)
    path.write_bytes(damage(path.read_bytes()))
    text = line(lambda: store.open_study(tmp_path).table(table))
    assert text.startswith(f"{path}: is no readable Parquet file") and "run the study again" in text


def test_a_part_whose_pages_are_damaged_is_named_when_it_is_read(tmp_path):
    store.write_group(tmp_path, frames(1))
    store.write_group(tmp_path, frames(*range(2, 60)))
    path = part(tmp_path, number=2)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:4] + b"\xff" * (footer - 4) + data[footer:])
    for action in (
        lambda: store.finished_jobs(tmp_path),
        lambda: store.run_states(tmp_path, {"run002"}),
        lambda: store.open_study(tmp_path).data_hash,
        lambda: store.open_study(tmp_path).sql("select * from runs"),
    ):
        assert line(action).startswith(f"{path}: is no readable Parquet file")


def rewrite(path, change, meta=None):
    table = pq.read_table(path)
    kept = table.schema.metadata or {}
    pq.write_table(change(table).replace_schema_metadata(kept | (meta or {})), path)


def test_a_part_of_a_newer_layout_is_refused(tmp_path):
    store.write_group(tmp_path, frames(1))
    rewrite(part(tmp_path), lambda t: t, {b"cilab_layout": b"99"})
    assert "written by a newer cilab (layout 99" in line(lambda: ids(tmp_path))
    assert "written by a newer cilab (layout 99" in line(lambda: store.open_study(tmp_path))


def test_a_part_of_newer_tables_is_read_and_not_written_to(tmp_path):
    store.write_group(tmp_path, frames(1))
    rewrite(part(tmp_path), lambda t: t, {b"cilab_tables": b"99"})
    with pytest.warns(CilabWarning, match="written by a newer cilab \\(tables 99"):
        assert ids(tmp_path) == ["run001"]
    for action in (lambda: store.write_group(tmp_path, frames(2)), lambda: store.check_parts(tmp_path)):
        assert "written by a newer cilab (tables 99" in line(action)
    assert ids(tmp_path) == ["run001"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns(["seed"]), "missing columns: seed"),
        (lambda t: t.append_column("mood", t["seed"]), "unknown columns: mood"),
        (lambda t: t.set_column(t.schema.get_field_index("seed"), "seed", t["model"]), "seed is String"),
    ],
)
def test_a_part_with_other_columns_is_refused(tmp_path, change, words):
    store.write_group(tmp_path, frames(1))
    rewrite(part(tmp_path), change)
    text = line(lambda: ids(tmp_path))
    assert text.startswith(str(part(tmp_path))) and words in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns(["seed"]), "missing columns: seed"),
        (lambda t: t.drop_columns(["error"]), "missing columns: error"),  # the last one
        (lambda t: t.append_column("mood", t["seed"]), "unknown columns: mood"),
        (lambda t: t.set_column(t.schema.get_field_index("seed"), "seed", t["model"]), "seed is String"),
        (lambda t: t.set_column(t.schema.get_field_index("error"), "error", t["seed"]), "error is Int64"),
    ],
)
def test_a_part_with_other_columns_is_refused_also_after_a_good_one(tmp_path, change, words):
    for i in range(1, 4):
        store.write_group(tmp_path, frames(i))
    rewrite(part(tmp_path, number=3), change)
    text = line(lambda: ids(tmp_path))
    assert text.startswith(str(part(tmp_path, number=3))) and words in text


@pytest.mark.parametrize("meta", [{b"cilab_layout": b"99"}, {b"cilab_tables": b"one"}, {b"cilab_jobs": b"[1"}])
def test_metadata_is_looked_at_also_after_a_good_part(tmp_path, meta):
    for i in range(1, 4):
        store.write_group(tmp_path, frames(i))
    rewrite(part(tmp_path, number=2), lambda t: t, meta)
    assert line(lambda: ids(tmp_path)).startswith(f"{part(tmp_path, number=2)}: ")


def test_of_parts_that_are_written_alike_only_the_first_is_read_in_full(tmp_path, monkeypatch):
    for i in range(1, 5):
        store.write_group(tmp_path, frames(i))
    asked = []
    real = pl.read_parquet_metadata
    monkeypatch.setattr(pl, "read_parquet_metadata", lambda path: asked.append(path) or real(path))
    assert len(ids(tmp_path)) == 4
    assert asked == [str(part(tmp_path))]


def test_parts_of_other_writers_are_read_beside_those_of_cilab(tmp_path):
    for i in range(1, 4):
        store.write_group(tmp_path, frames(i))
    path = part(tmp_path, number=2)
    pl.read_parquet(path).write_parquet(path)  # other bytes, the same columns
    study = store.open_study(tmp_path)
    assert ids(tmp_path) == ["run001", "run002", "run003"]
    assert study.sql("select run_id from runs order by 1")["run_id"].to_list() == ids(tmp_path)


def test_jobs_of_parts_that_are_written_alike_stay_with_their_part(tmp_path):
    groups = [("a", "b"), (), ("c",), ()]
    for i, jobs in enumerate(groups):
        store.write_group(tmp_path, frames(i), jobs)
    assert store.finished_jobs(tmp_path) == {"a", "b", "c", *(f"run{i:03d}" for i in range(4))}


@pytest.mark.parametrize("meta", [{b"cilab_tables": b"one"}, {b"cilab_jobs": b"[1"}, {b"cilab_jobs": b"5"}])
def test_a_part_with_garbage_in_its_metadata_is_refused(tmp_path, meta):
    store.write_group(tmp_path, frames(1))
    rewrite(part(tmp_path), lambda t: t, meta)
    assert line(lambda: ids(tmp_path)).startswith(f"{part(tmp_path)}: is no readable Parquet file")


def test_files_that_are_no_parts_are_left_alone(tmp_path):
    store.write_group(tmp_path, frames(1))
    for name in (".part-000002.parquet.tmp", "notes.txt", "part-1.parquet", "part-000003.parquet.bak"):
        (tmp_path / "tables" / "runs" / name).write_bytes(b"x")
    assert ids(tmp_path) == ["run001"]


def test_an_orphan_part_that_is_corrupt_does_not_matter(tmp_path):
    store.write_group(tmp_path, frames(1))
    part(tmp_path, "messages", 2).write_bytes(b"half a part")
    assert store.open_study(tmp_path).messages.collect().height == 2
    assert store.write_group(tmp_path, frames(2)) == 2


@pytest.mark.parametrize("name", ["a [1]", "a*b", "q?x", "{a,b}", "it's", "ünï 🧭"])
def test_marks_of_a_pattern_in_a_folders_name_are_part_of_the_name(tmp_path, name):
    store.write_group(tmp_path / name, frames(1))
    store.write_group(tmp_path / "a-b", frames(2))  # what a*b would match
    study = store.open_study(tmp_path / name)
    assert study.runs.collect()["run_id"].to_list() == ["run001"]
    assert study.sql("select run_id from runs").rows() == [("run001",)]


def test_sql_reaches_a_study_through_a_link(tmp_path):
    store.write_group(tmp_path / "study", frames(1))
    (tmp_path / "link").symlink_to(tmp_path / "study")
    assert store.open_study(tmp_path / "link").sql("select count(*) from messages").item() == 2


# -- opening ----------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_study_is_told_with_its_nearest_name(tmp_path):
    (tmp_path / "quickstart").mkdir()
    assert "no such folder. Did you mean quickstart?" in line(lambda: store.open_study(tmp_path / "quikstart"))
    assert "holds no study" in line(lambda: store.open_study(tmp_path / "quickstart"))
    (tmp_path / "file").write_text("x")
    assert "is a file" in line(lambda: store.open_study(tmp_path / "file"))
    line(lambda: store.open_study("no\0name"))
    line(lambda: store.open_study(tmp_path / ("x" * 5000)))


def test_an_unknown_table_is_told_with_its_nearest_name(tmp_path):
    store.write_group(tmp_path, frames(1))
    assert "no table named mesages. Did you mean messages" in line(lambda: store.open_study(tmp_path).table("mesages"))


def test_the_models_come_from_the_registry_unless_others_are_given(tmp_path):
    store.write_group(tmp_path, frames(1))
    assert "gpt-4.1" in store.open_study(tmp_path).models.collect()["model"].to_list()
    own = store.open_study(tmp_path, lambda: frame("models", [{"model": "mine"}]))
    assert own.sql("select model from models")["model"].to_list() == ["mine"]


def test_a_study_with_simulated_agents_says_so_and_a_markup_name_is_text(tmp_path):
    folder = tmp_path / "<b>x"
    store.write_group(folder, {"runs": frame("runs", [run(1), run(2, partner_model="sim/F1")])})
    study = store.open_study(folder)
    assert study.simulated and "simulated" in study._repr_html_() and "&lt;b&gt;x" in study._repr_html_()
    store.write_group(tmp_path / "real", {"runs": frame("runs", [run(1, model="simple/m")])})
    assert not store.open_study(tmp_path / "real").simulated


def test_a_text_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "study.yaml"
    store.write_text(path, "naïve 🧭\r\nline\n")
    assert path.read_bytes() == "naïve 🧭\r\nline\n".encode()
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    assert "No space left on device" in line(lambda: store.write_text(path, "new"))
    assert path.read_text().startswith("naïve") and [p.name for p in path.parent.iterdir()] == ["study.yaml"]


# -- wires ------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": _TEXT})


@st.composite
def dialogues(draw):
    """What a seat sent, call by call: mostly the last one and more, sometimes cut or begun anew."""
    sent, history = [], []
    for _ in range(draw(st.integers(1, 8))):
        history = history[: draw(st.integers(0, len(history)))] if draw(st.integers(0, 3)) == 0 else list(history)
        history += draw(st.lists(_MESSAGE, max_size=3))
        tools = draw(st.none() | st.just([{"type": "function", "function": {"name": "f"}}]))
        sent.append((list(history), tools))
    return sent


@settings(max_examples=60, deadline=None)
@given(dialogues())
def test_what_was_sent_comes_back_from_the_stored_deltas(sent):
    rows, before, before_index = [], (), None
    for k, (messages, tools) in enumerate(sent):
        index = 3 * k  # other seats have calls in between
        row = {"run_id": "r", "index": index, "seat": "1", "purpose": "play", "model_asked": "m"}
        rows.append(row | {"wire_json": wire_delta(messages, tools, before, before_index)})
        before, before_index = messages, index
    calls = frame("calls", rows[::-1])
    for k, (messages, tools) in enumerate(sent):
        found = store.wire_messages(calls, "r", "play", "1", 3 * k)
        assert found == {"messages": messages} | ({"tools": tools} if tools else {})


def test_the_wire_of_a_very_long_dialogue_comes_back(tmp_path):
    rows = []
    for k in range(3000):
        wire = {"messages": [{"role": "user", "content": str(k)}]}
        wire = wire if k == 0 else {"same_as": k - 1, "first": k, **wire}
        rows.append({"run_id": "r", "index": k, "seat": "1", "purpose": "play", "model_asked": "m"})
        rows[-1]["wire_json"] = json.dumps(wire)
    found = store.wire_messages(frame("calls", rows), "r", "play", "1", 2999)["messages"]
    assert [m["content"] for m in found] == [str(k) for k in range(3000)]


def test_a_wire_that_is_not_there_is_told():
    row = {"run_id": "r", "index": 1, "seat": "1", "purpose": "play", "model_asked": "m"}
    gone = frame("calls", [row | {"wire_json": '{"same_as":0,"first":1,"messages":[]}'}])
    assert "run r has no play call 7" in line(lambda: store.wire_messages(gone, "r", "play", "1", 7))
    assert "is not stored" in line(lambda: store.wire_messages(gone, "r", "play", "1", 1))
    circle = frame("calls", [row | {"wire_json": '{"same_as":1,"first":1,"messages":[]}'}])
    assert "is not stored" in line(lambda: store.wire_messages(circle, "r", "play", "1", 1))
    none = frame("calls", [row])
    assert "is not stored" in line(lambda: store.wire_messages(none, "r", "play", "1", 1))


# -- SQL --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    store.write_group(folder, frames(*range(1, 6)))
    store.write_group(folder, {"messages": frame("messages", [message(1, 9, content="drop runs; 'x'\0🧭")])})
    return store.open_study(folder)


def test_tables_are_joined_and_counted(asked):
    found = asked.sql("""
        select version, passed, count(*) n, avg(score) score
        from runs join messages using (run_id) group by all order by passed
    """)
    assert found.rows() == [("pair", False, 4, 0.0), ("pair", True, 7, 1.0)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select count(*) from runs", [(5,)]),
        ("SELECT COUNT(*) FROM RUNS;", [(5,)]),
        ("from runs select count(*)", [(5,)]),
        ('select count(*) from "runs" as "messages"', [(5,)]),
        ("select 'runs and messages; labels' as x", [("runs and messages; labels",)]),
        ("with runs as (select 1 as x) select * from runs", [(1,)]),
        ("with best as (select max(score) s from runs) select s from best", [(1.0,)]),
        ("-- the runs\nselect /* messages */ count(*) from labels", [(0,)]),
        ("select content from messages where content like '%drop runs;%'", [("drop runs; 'x'\0🧭",)]),
        ("select sum(tokens_in) from runs", [(150,)]),
        ("select max(finished_at) from runs", [(START + timedelta(minutes=5),)]),
        ("select max(finished_at) - min(finished_at) from runs", [(timedelta(minutes=4),)]),
        ("select 1 union all select 2 order by 1", [(1,), (2,)]),
        ("values (1)", [(1,)]),
        ("select count(*) from (pivot runs on passed using count(*) group by version)", [(1,)]),
    ],
)
def test_a_read_is_answered(asked, query, rows):
    assert asked.sql(query).rows() == rows


@pytest.mark.parametrize("query", ["select * from runs", "describe runs", "summarize runs", "show tables"])
def test_everything_a_notebook_asks_for_comes_back(asked, query):
    assert asked.sql(query).height


@pytest.mark.parametrize("query", ["show tables", " SHOW ALL TABLES ;\n"])
def test_the_tables_are_listed_also_those_without_rows(asked, query):
    names = asked.sql(query)["name"].to_list()
    assert names == [*parts.RUN_TABLES, "models"]
    for name in names:
        assert asked.sql(f"select count(*) from {name}").height == 1


def test_an_unknown_table_names_those_that_there_are(asked):
    said = line(lambda: asked.sql("select * from rums"))
    assert "there is no table 'rums'. Did you mean runs?" in said
    assert "Tables: runs, messages" in said and "models" in said


def test_the_answer_has_the_stored_types(asked):
    assert asked.sql("select * from runs").schema == TABLES["runs"].schema


def test_pivots_and_plans_are_reads(asked):
    assert asked.sql("pivot runs on passed using count(*) group by version").rows() == [("pair", 2, 3)]
    assert asked.sql("explain select * from runs").height == 1
    assert asked.sql("explain analyze select * from runs").height == 1


def test_columns_of_the_same_name_stay_apart(asked):
    found = asked.sql("select a.run_id, b.run_id, 1 as run_id_1 from runs a join runs b using (run_id)")
    assert found.columns == ["run_id", "run_id_1", "run_id_1_1"]


def test_a_sum_too_large_for_64_bits_is_not_cut(asked):
    huge = asked.sql("select sum(x) s from (values (9223372036854775807::bigint), (9223372036854775807)) t(x)")
    assert int(huge.item()) == 2 * (2**63 - 1)


@pytest.mark.parametrize(
    "query",
    [
        "insert into runs values (1)",
        "update runs set score = 1",
        "delete from runs",
        "drop table runs",
        "create table x as select * from runs",
        "create view x as select 1",
        "alter table runs add column x int",
        "copy runs to '{out}'",
        "copy (select * from runs) to '{out}' (format csv)",
        "export database '{out}'",
        "attach '{out}' as x",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "pragma database_list",
        "begin",
        "prepare x as select 1",
        "select 1; select 2",
        "select 1; drop table runs",
        "explain create table x as select 1",
        "explain analyze copy runs to '{out}'",
        "create table x as pivot runs on passed using count(*)",
        "",
        " ; ",
        "-- nothing",
    ],
)
def test_what_is_no_single_read_is_refused(asked, tmp_path, query):
    out = tmp_path / "out"
    assert line(lambda: asked.sql(query.format(out=out))).startswith(("a query is one SELECT", "query: Parser Error"))
    assert not out.exists() and asked.sql("select count(*) from runs").item() == 5


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{file}')",
        "select * from read_text('{file}')",
        "select * from read_parquet('{file}')",
        "select * from '{file}'",
        "select * from glob('/*')",
        "select * from sniff_csv('{file}')",
        "select getenv('HOME')",
        "select * from sqlite_scan('{file}', 't')",
        "select * from read_csv('https://example.com/x.csv')",
        "with x as (delete from runs returning *) select * from x",
        "select * from TABLES",
        "select * from pl",
    ],
)
def test_nothing_outside_the_tables_is_reached(asked, tmp_path, query):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    assert line(lambda: asked.sql(query.format(file=secret))).startswith("query: ")


def test_duckdbs_first_line_is_quoted_with_its_hint(asked):
    assert line(lambda: asked.sql("selec 1")) == 'query: Parser Error: syntax error at or near "selec"'
    text = line(lambda: asked.sql("select scroe from runs"))
    assert text.startswith('query: Binder Error: Referenced column "scroe" not found') and "score" in text
    assert "Did you mean" in line(lambda: asked.sql("select * from runz, runs"))
    line(lambda: asked.sql("select 'a\ud800"))
    line(lambda: asked.sql("select \0"))


def test_what_goes_wrong_in_the_middle_of_an_answer_is_told_in_duckdbs_words(asked):
    late = "select case when i < 40000 then 1 else error('late') end from range(50000) t(i)"
    assert line(lambda: asked.sql(late)) == "query: Invalid Input Error: late"


def test_lazy_tables_and_sql_hold_the_same_rows(asked):
    for name in ("runs", "messages", "labels", "annotations", "models"):
        lazy, found = asked.table(name).collect(), asked.sql(f"select * from {name}")
        assert found.equals(lazy) and found.schema == lazy.schema


def test_an_answer_that_polars_cannot_hold_is_told(asked):
    assert "cast it" in line(lambda: asked.sql("select union_value(a := 1) as u"))


def test_a_question_about_some_tables_reads_no_others(tmp_path):
    store.write_group(tmp_path, frames(1))
    part(tmp_path, "messages").write_bytes(b"damaged")
    study = store.open_study(tmp_path)
    assert study.sql("select count(*) from runs").item() == 1
    assert "part-000001.parquet: is no readable" in line(lambda: study.sql("select count(*) from messages"))


def test_a_store_error_is_a_bad_input():
    assert StoreError("x").exit_code == 2
