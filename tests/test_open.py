"""Opening one study, several as one, by pattern, and behind a URL."""

from __future__ import annotations

import fsspec
import polars as pl
import pytest

import cilab
from cilab import store
from cilab.core.errors import StoreError
from cilab.core.tables import frame


def run(run_id, status="ok", value=1.0, study="s"):
    scored = {"weighted_outcome": value, "success": value == 1.0} if status == "ok" else {"error": "x"}
    row = {"run_id": run_id, "study": study, "benchmark": "maze", "task_id": "t", "version": "pair", "model": "sim/a"}
    return row | {"seed": 0, "status": status} | scored


def message(run_id, text):
    seat = {"kind": "message", "seat": "1", "seat_kind": "under_test"}
    return {"run_id": run_id, "index": 0, "content": text} | seat


def note(run_id, annotator):
    return {"run_id": run_id, "annotator": annotator, "repeat": 0, "agent": 0, "feature": "x", "value": 1.0}


@pytest.fixture
def studies(tmp_path):
    def make(name, runs, notes=()):
        store.write_group(
            tmp_path / name,
            {
                "runs": frame("runs", runs),
                "messages": frame("messages", [message(r["run_id"], name) for r in runs]),
                "annotations": frame("annotations", list(notes)),
            },
        )
        return tmp_path / name

    make("one", [run("a"), run("b", value=0.5)], [note("a", "x")])
    make("two", [run("b", value=0.25), run("c")], [note("a", "x"), note("a", "y")])
    return tmp_path


def test_several_studies_are_one_and_a_shared_run_is_seen_once(studies):
    both = cilab.open([studies / "one", studies / "two"])
    runs = both.runs.sort("run_id").collect()
    assert runs["run_id"].to_list() == ["a", "b", "c"]
    assert runs["weighted_outcome"].to_list() == [1.0, 0.5, 1.0]
    said = dict(both.messages.select("run_id", "content").collect().iter_rows())
    assert said == {"a": "one", "b": "one", "c": "two"}
    assert both.annotations.collect().height == 2 and both.name == "one + two" and both.simulated


def test_sql_over_several_studies_gives_the_same(studies):
    both = cilab.open(studies / "*")
    assert both.sql("select run_id, weighted_outcome from runs order by 1").rows() == [
        ("a", 1.0),
        ("b", 0.5),
        ("c", 1.0),
    ]
    joined = "select count(*) from runs join messages using (run_id) where content = 'two'"
    assert both.sql(joined).item() == 1
    assert both.sql("select count(distinct model) from models").item() > 30


@pytest.mark.parametrize("table", ["runs", "messages", "annotations", "labels", "tasks", "models"])
def test_lazy_tables_and_sql_hold_the_same_rows_of_several_studies(studies, table):
    both = cilab.open(studies / "*")
    lazy, found = both.table(table).collect(), both.sql(f"select * from {table}")
    assert sorted(map(repr, found.rows())) == sorted(map(repr, lazy.select(found.columns).rows()))
    assert found.schema == lazy.schema


def test_models_that_one_of_several_studies_brings_are_those_of_all(studies):
    (studies / "two" / "models.csv").write_text("model,family\nmine,mine\n")
    both = cilab.open([studies / "one", studies / "two"])
    assert both.models.filter(pl.col("model") == "mine").collect()["family"].to_list() == ["mine"]
    assert both.models.collect()["model"].is_unique().all()


def test_the_order_of_merging_changes_nothing_but_which_double_counts(studies):
    ab, ba = cilab.open([studies / "one", studies / "two"]), cilab.open([studies / "two", studies / "one"])
    assert set(ab.runs.collect()["run_id"]) == set(ba.runs.collect()["run_id"])
    assert ba.runs.filter(pl.col("run_id") == "b").collect()["weighted_outcome"].to_list() == [0.25]


def test_a_finished_run_counts_before_the_same_run_that_failed(studies):
    store.write_group(studies / "zero", {"runs": frame("runs", [run("a", status="error")])})
    merged = cilab.open([studies / "zero", studies / "one"])
    assert merged.runs.filter(pl.col("run_id") == "a").collect()["status"].to_list() == ["ok"]


def test_one_match_of_a_pattern_is_that_study_and_no_match_is_told(studies):
    assert cilab.open(studies / "o*").name == "one"
    with pytest.raises(StoreError, match="matches no study's folder"):
        cilab.open(studies / "x*")
    with pytest.raises(StoreError, match="at least one"):
        cilab.open([])


def test_a_study_behind_a_url_answers_the_same_questions(studies):
    fs = fsspec.filesystem("memory")
    for path in (studies / "one").rglob("*.parquet"):
        fs.pipe(f"/lab/one/{path.relative_to(studies / 'one')}", path.read_bytes())
    remote, local = cilab.open("memory://lab/one"), cilab.open(studies / "one")
    assert remote.runs.sort("run_id").collect().equals(local.runs.sort("run_id").collect())
    assert remote.data_hash == local.data_hash and remote.name == "one" and remote.simulated
    query = "select run_id, content from runs join messages using (run_id) order by 1"
    assert remote.sql(query).equals(local.sql(query))
    assert remote.labels.collect().height == 0


def test_a_url_without_a_study_is_one_clear_line():
    with pytest.raises(StoreError, match="holds no study"):
        cilab.open("memory://nothing/here")


def test_an_opened_study_shows_a_run(studies):
    assert "weighted outcome" in cilab.open(studies / "one").show("a").text


def test_a_data_set_that_was_saved_brings_its_own_models(tmp_path):
    from cilab.datasets import simulated_release

    made = simulated_release(scale=0.1)
    made.save(tmp_path / "saved")
    opened = cilab.open(tmp_path / "saved")
    own = set(made.models.collect()["model"])
    assert own <= set(opened.models.collect()["model"]) and opened.data_hash == made.data_hash
    assert opened.sql("select count(*) from models where model = 'sim:F1'").item() == 1
