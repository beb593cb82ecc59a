"""Samples for people: who is drawn, what a form tells, and that answers find their way back."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

import nbformat
import polars as pl
import pytest

import cilab
from cilab.core.tables import frame
from cilab.datasets.dataset import Dataset
from cilab.humans import (
    CONTEXT_CHARS,
    SampleError,
    restore,
    sample_messages,
    sample_runs,
    show_item,
    write_form,
)
from cilab.humans.answers import import_labels, import_reviews

MODELS = ("secret-alpha", "secret-beta", "secret-gamma")
DIMENSIONS = ("handling_conflict", "taking_initiative")
CHOICES = {"*": {"gives_in": "Takes the offer.", "pushes_back": "Keeps asking."}}
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def hashed(number: int) -> str:
    """An id like cilab's own: 24 letters that say nothing."""
    return LETTERS[number // 32] + LETTERS[number % 32] + "a" * 22


def study(named=hashed, tasks=8, seeds=2, **changes):
    """Every model plays every task of both dimensions `seeds` times; two messages each, both judged."""
    runs, messages, labels = [], [], []
    cells = [(d, t, m, s) for d in DIMENSIONS for t in range(tasks) for m in MODELS for s in range(seeds)]
    for number, (dimension, task, model, seed) in enumerate(cells):
        run_id = named(number)
        score = 1.0 if (number + seed) % 3 == 0 else 0.0
        run = {
            "run_id": run_id,
            "study": "s",
            "benchmark": "teamwork",
            "task_id": f"{dimension[:4]}_{task}",
            "dimension": dimension,
            "version": "test",
            "model": model,
            "seed": seed,
            "status": "ok",
            "score": score,
            "passed": score == 1,
            "outcome": "verdict_good" if score else "verdict_bad",
            "cost_usd": 0.777,
        }
        runs.append(run | changes)
        for index, (seat, kind, text) in enumerate(
            [
                ("boss", "scripted", f"Do it now, {number}."),
                ("me", "under_test", f"=1+1 I would rather not, {number}."),
                ("boss", "scripted", "Do it."),
                ("me", "under_test", f"Later words {number}."),
                ("me", "under_test", "  "),
            ]
        ):
            said_by = model if kind == "under_test" else None
            messages.append(
                {"run_id": run_id, "index": index, "round": index // 2, "kind": "message", "seat": seat}
                | {"seat_kind": kind, "model": said_by, "content": text}
            )
        for rater in ("referee", "final"):
            flags = {"gives_way": False, "noticed": True, "reason": "judges_reason"}
            labels.append({"run_id": run_id, "index": 1, "rater": rater, "label": "pushes_back"} | flags)
    tables = {"runs": frame("runs", runs), "messages": frame("messages", messages), "labels": frame("labels", labels)}
    return Dataset("s", tables, simulated=False, kind="imported")


def test_no_task_gives_two_messages_and_every_message_is_one_that_judges_labelled():
    drawn = sample_messages(study(), 12, seed=3).table
    assert drawn.height == drawn["task_id"].n_unique() == 12
    assert set(drawn["index"]) == {1}


def test_the_strata_get_equal_numbers():
    drawn = sample_messages(study(), 12, seed=1).table
    assert set(Counter(drawn.select("dimension", "model").iter_rows()).values()) == {2}


def test_below_one_item_a_stratum_each_column_is_still_balanced():
    drawn = sample_messages(study(), 3, seed=5).table
    assert drawn["model"].n_unique() == 3
    assert sorted(Counter(drawn["dimension"]).values()) == [1, 2]


def test_the_same_seed_draws_the_same_whatever_the_order_of_the_rows():
    one = study()
    shuffled = {name: df.sample(fraction=1, shuffle=True, seed=9) for name, df in one.tables.items()}
    two = Dataset("s", shuffled, simulated=False, kind="imported")
    assert sample_messages(one, 10, seed=4).table.equals(sample_messages(two, 10, seed=4).table)
    assert sample_runs(one, 5, seed=4).table.equals(sample_runs(two, 5, seed=4).table)
    assert not sample_messages(one, 10, seed=5).table.equals(sample_messages(one, 10, seed=4).table)


def test_every_message_of_a_stratum_has_its_chance():
    data = study(tasks=2)
    seen = {row for seed in range(120) for row in sample_messages(data, 4, seed=seed).table["run_id"]}
    assert seen == set(data.tables["runs"]["run_id"])


def test_a_sample_that_cannot_be_filled_says_so():
    drawn = sample_messages(study(tasks=3), 40)
    assert drawn.table.height == 6
    assert drawn.notes == ("40 messages asked, 6 drawn: there are no more tasks.",)


def test_a_study_without_labels_gives_messages_that_have_text():
    data = study()
    bare = Dataset("s", {k: v for k, v in data.tables.items() if k != "labels"}, simulated=False, kind="imported")
    seen = {i for seed in range(20) for i in sample_messages(bare, 16, seed=seed).table["index"]}
    assert seen == {1, 3}
    with pytest.raises(SampleError, match="no message with a judge's label"):
        sample_messages(bare, 4, among="labelled")


def test_runs_that_were_not_scored_and_runs_left_out_by_where_are_never_drawn():
    with pytest.raises(SampleError, match="no scored run"):
        sample_runs(study(status="refused", score=None, passed=None))
    drawn = sample_runs(study(), 5, where=pl.col("model") == "secret-beta", by="model").table
    assert set(drawn["model"]) == {"secret-beta"}


def test_each_mode_gives_its_number_of_runs_spread_over_tasks_and_models():
    data = study()
    drawn = sample_runs(data, 14, seed=2, by=["outcome"]).table
    assert Counter(drawn["outcome"]) == {"verdict_good": 14, "verdict_bad": 14}
    bad = data.runs.collect().join(drawn.filter(pl.col("outcome") == "verdict_bad").select("run_id"), on="run_id")
    assert max(Counter(bad["task_id"]).values()) == 1
    assert min(Counter(bad["model"]).values()) >= 4


def test_a_mode_can_be_an_expression_or_a_frame():
    data = study()
    by_expression = sample_runs(data, 3, by=pl.col("score") < 1).table
    assert sorted(by_expression["mode"]) == [False] * 3 + [True] * 3
    modes = pl.DataFrame({"run_id": [hashed(0), hashed(1), hashed(2)], "failure": ["a", "a", None]})
    assert set(sample_runs(data, 3, by=modes).table["run_id"]) == {hashed(0), hashed(1)}


def test_a_mode_with_too_few_runs_gives_all_and_is_named():
    drawn = sample_runs(study(tasks=2, seeds=1), 20, by="outcome")
    assert drawn.table.height == 12
    assert any("verdict_good" in note and "of 20 runs" in note for note in drawn.notes)


def test_an_unknown_column_is_one_clear_line():
    with pytest.raises(SampleError, match=r"no column 'dimensions'\. Did you mean dimension"):
        sample_messages(study(), 4, strata=["dimensions"])
    with pytest.raises(SampleError, match=r"no column 'outcom'\. Did you mean outcome"):
        sample_runs(study(), by="outcom")


@pytest.fixture
def stored(tmp_path):
    """A study on disk."""
    return cilab.open(study().save(tmp_path / "study"))


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def filled(path, **answers):
    """The form with the same answer in every row, as a person's spreadsheet would save it."""
    rows = [row | answers for row in rows_of(path)]
    out = path.with_name(path.stem + "-filled.csv")
    with out.open("w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return out


@pytest.mark.parametrize("kind", ["messages", "runs"])
def test_a_form_tells_no_label_no_verdict_and_no_model(stored, tmp_path, kind):
    sample = sample_messages(stored, 6) if kind == "messages" else sample_runs(stored, 3)
    form = write_form(sample, tmp_path / "form")
    telling = ("secret", "pushes_back", "judges_reason", "verdict", "0.777", "noticed", "gives way", "referee")
    for path in (*form.csv, *form.notebooks):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in telling if word in text], path
        assert "rather not" in text or path.suffix == ".ipynb"


TEAM = """\
name: team
blocks:
  - benchmark: teamwork
    models: [sim/team-F1, sim/team-C3]
    tasks: [si-ward-fever, hc-seed-rescue, ti-ferry-masses]
    judges: {referee: sim/team-judge-a, second: sim/team-judge-b, third: sim/team-judge-c}
    partners: [sim/team-partner]
    sandbox: none
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A teamwork study as the engine plays it, with judges and a script that steps on their votes."""
    folder = tmp_path_factory.mktemp("played")
    (folder / "team.yaml").write_text(TEAM, encoding="utf-8")
    cilab.run_study(folder / "team.yaml", out=folder / "study", show_progress=False)
    return cilab.open(folder / "study")


@pytest.mark.parametrize("kind", ["messages", "runs"])
def test_no_form_of_a_played_study_holds_a_vote_a_branch_a_verdict_or_a_model(played, tmp_path, kind, monkeypatch):
    sample = sample_messages(played, 40) if kind == "messages" else sample_runs(played, 40)
    form = write_form(sample, tmp_path / "form")
    runs, labels = played.runs.collect(), played.labels.collect()
    steps = (
        played.messages.filter(pl.col("seat") == "script")
        .collect()["content"]
        .str.json_decode(pl.Struct({"from": pl.String, "to": pl.String}))
    )
    assert labels.height > 20 and len(steps) > 20
    hidden = {*labels["label"], *labels["rater"], *steps.struct["from"], *steps.struct["to"], "votes", "held"}
    hidden |= {*runs["outcome"].drop_nulls(), *runs["evidence"].explode().drop_nulls(), *runs["model"], "sim/"}
    # Everyday words may be said at the table; names with an underscore, and all before a vote, are nobody's words.
    names = [w for w in hidden if w and ("_" in w or "/" in w or w in ("votes", "referee"))]
    assert len(names) > 15
    shown = [rows_of(form.csv[0])]
    monkeypatch.chdir(form.notebooks[0].parent)
    code = [c for c in nbformat.read(form.notebooks[0], as_version=4).cells if c.cell_type == "code"]
    scope: dict = {}
    exec(code[0].source, scope)
    pages = [eval(cell.source, scope) for cell in code[1:]]
    assert len(pages) == len(shown[0]) == sample.table.height > 2
    said = "\n".join([*(row["context"] for row in shown[0]), *(p.html for p in pages), *(p.text for p in pages)])
    assert [name for name in names if name in said] == []
    votes = {f"{rater} {label}" for rater, label in labels.select("rater", "label").iter_rows()}
    assert [vote for vote in votes if vote in said] == []
    assert not re.search(r"\[environment\] to nobody|script \[|referee |second \w+, third", said)
    for page in pages:
        assert not page.labels and {m["seat"] for m in page.messages}.isdisjoint({"script"})


def test_the_context_of_a_long_run_begins_with_a_whole_line(tmp_path):
    data = study()
    long = data.tables["messages"].with_columns(pl.col("content") + " and so on, for the record," * 600)
    opened = Dataset("s", data.tables | {"messages": long}, simulated=False, kind="imported")
    form = write_form(sample_messages(opened, 2), tmp_path / "form")
    for row in rows_of(form.csv[0]):
        first, then = row["context"].split("\n")[:2]
        assert "characters before this" in first and then.startswith("  ") and len(row["context"]) <= 8_100


def test_the_context_ends_with_the_message_to_label(stored, tmp_path):
    form = write_form(sample_messages(stored, 4), tmp_path / "form")
    for row in rows_of(form.csv[0]):
        assert row["context"].rstrip().endswith(row["message"].removeprefix("'"))
        assert "Later words" not in row["context"]
        assert row["message"].startswith("'=1+1")  # shown, never computed


def test_labels_come_back_through_the_importer(stored, tmp_path):
    sample = sample_messages(stored, 6)
    form = write_form(sample, tmp_path / "form", raters=["person:1", "person:2"], choices=CHOICES)
    assert form.key is None and len(form.csv) == len(form.notebooks) == 2
    got = import_labels(restore(filled(form.csv[1], label="Gives_in ")), stored).dataset.tables["labels"]
    assert set(got.select("run_id", "index").iter_rows()) == set(sample.table.select("run_id", "index").iter_rows())
    assert set(got["rater"]) == {"person:2"} and set(got["label"]) == {"gives_in"}


def test_reviews_come_back_through_the_importer_with_the_old_score_put_in(stored, tmp_path):
    sample = sample_runs(stored, 3, by="outcome")
    form = write_form(sample, tmp_path / "form", raters=["person:7"])
    got = import_reviews(filled(form.csv[0], new_score="0.5"), stored).dataset.tables["reviews"]
    runs = dict(stored.runs.select("run_id", "score").collect().iter_rows())
    assert got.height == 6 and set(got["reviewer"]) == {"person:7"}
    assert all(row["old_score"] == runs[row["run_id"]] for row in got.iter_rows(named=True))


def test_a_notebook_is_valid_shows_every_item_blind_and_its_answers_come_back(stored, tmp_path, monkeypatch):
    sample = sample_messages(stored, 3)
    form = write_form(sample, tmp_path / "deep" / "form", choices=CHOICES)
    path = form.notebooks[0]
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert len(code) == 4 and not any(c.outputs for c in code)
    monkeypatch.chdir(path.parent)  # where Jupyter runs it
    scope: dict = {}
    exec(code[0].source, scope)
    for cell in code[1:]:
        page = eval(cell.source, scope)
        shown = page.html + page.text
        assert "the message to label" in shown and "secret" not in shown and "pushes_back" not in shown
    for cell in notebook.cells:
        if cell.cell_type == "raw":
            cell.source = cell.source.replace("label: ", "label: pushes_back").replace("reason: ", "reason: clear")
    nbformat.write(notebook, path)
    got = import_labels(path, stored).dataset.tables["labels"]
    assert got.height == 3 and set(got["rater"]) == {"person:1"} and set(got["reason"]) == {"clear"}


def test_ids_that_spell_a_model_are_hashed_and_the_key_brings_them_back(tmp_path):
    def named(number):
        return f"leak/{MODELS[number % 3]}/{number}"

    opened = cilab.open(study(named).save(tmp_path / "study"))
    sample = sample_messages(opened, 5)
    form = write_form(sample, tmp_path / "form")
    for path in (*form.csv, *form.notebooks):
        assert "secret" not in path.read_text(encoding="utf-8")
    assert form.key is not None
    key = form.key.read_text(encoding="utf-8")
    assert "pushes_back" not in key and key.splitlines()[0] == "item,run_id,index"
    first = rows_of(form.csv[0])[0]
    page = show_item(opened, first["run_id"], int(first["index"]), key=form.key)
    assert "secret" not in page.html and first["run_id"] in page.html

    back = restore(filled(form.csv[0], label="gives_in"))
    assert set(import_labels(back, opened).dataset.tables["labels"]["run_id"]) == set(sample.table["run_id"])
    notebook = json.loads(form.notebooks[0].read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "raw":
            cell["source"] = "label: gives_in"
    form.notebooks[0].write_text(json.dumps(notebook), encoding="utf-8")
    back = restore(form.notebooks[0])
    assert set(import_labels(back, opened).dataset.tables["labels"]["run_id"]) == set(sample.table["run_id"])
    with pytest.raises(SampleError, match="knows no item 'item-nothing'"):
        show_item(opened, "item-nothing", key=form.key)


def test_answers_are_never_overwritten(stored, tmp_path):
    sample = sample_messages(stored, 3)
    write_form(sample, tmp_path / "form")
    with pytest.raises(SampleError, match="is there already, perhaps with answers"):
        write_form(sample, tmp_path / "form")


def test_nobody_answers_in_a_judges_name(stored, tmp_path):
    with pytest.raises(SampleError, match="'final' is a judge's name"):
        write_form(sample_messages(stored, 3), tmp_path / "form", raters=["final"])
    with pytest.raises(SampleError, match="name each person once"):
        write_form(sample_messages(stored, 3), tmp_path / "form", raters=["a b", "a-b"])


def test_a_data_set_in_memory_gets_a_table_but_no_notebook_that_could_not_open_it(tmp_path):
    form = write_form(sample_messages(study(), 3), tmp_path / "form")
    assert len(form.csv) == 1 and form.notebooks == ()


def test_a_cell_stays_below_what_a_spreadsheet_takes(tmp_path):
    data = study(tasks=1)
    long = data.tables["messages"].with_columns(pl.col("content") + "long words " * 9000)
    data = Dataset("s", {**data.tables, "messages": long}, simulated=False, kind="imported")
    form = write_form(sample_messages(data, 2), tmp_path / "form")
    assert max(len(v) for row in rows_of(form.csv[0]) for v in row.values()) < CONTEXT_CHARS["runs"] + 2500
