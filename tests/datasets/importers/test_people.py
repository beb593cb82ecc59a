"""People's labels and reviews: matched by run and message, the others reported."""

from __future__ import annotations

import json

import polars as pl
import pytest

from cilab.core.errors import StoreError
from cilab.datasets.importers import import_any
from cilab.datasets.importers.release import import_release
from cilab.datasets.importers.report import ImportFailed
from cilab.humans.answers import import_labels, import_reviews
from cilab.store import open_study


@pytest.fixture
def study(example, tmp_path):
    """The example tree as a stored study, with one judge's flag on a label."""
    imported = import_release(example)
    labels = imported.dataset.labels.collect().with_columns(
        gives_way=pl.when(pl.col("label") == "accepts").then(True).when(pl.col("label") == "hedges").then(False)
    )
    from cilab.datasets.dataset import Dataset

    tables = dict(imported.dataset.tables) | {"labels": labels}
    Dataset("release", tables, simulated=False, kind="imported").save(tmp_path / "study")
    return open_study(tmp_path / "study")


@pytest.fixture
def target(study):
    """(run id, index) of a message that a judge has labelled `accepts`."""
    row = study.labels.filter(pl.col("label") == "accepts").collect().row(0, named=True)
    return row["run_id"], row["index"]


def reasons(imported) -> dict[str, int]:
    return {f.reason: f.count for f in imported.report.findings}


def test_answers_are_matched_and_take_the_flags_of_their_label(study, target, write):
    run, index = target
    form = write(
        "form.csv", f"run_id,index,rater,label,reason\n{run},{index},person:1,accepts,it says so\n{run},1,person:1,,\n"
    )
    imported = import_labels(form, study)
    (row,) = imported.dataset.labels.collect().to_dicts()
    assert (row["rater"], row["label"], row["gives_way"], row["noticed"]) == ("person:1", "accepts", True, None)
    assert row["reason"] == "it says so" and row["model"] is None
    assert "1 of 2 rows of the form have no answer." in imported.report.notes


def test_answers_that_fit_nothing_are_reported_and_kept(study, target, write):
    run, index = target
    lines = [
        f"{run[:-1]}x,{index},p,holds,",  # no such run
        f"{run},99,p,holds,",  # no such message
        f"{run},{index},,holds,",  # nobody
        f"{run},{index},final,holds,",  # a judge's name
        f"{run},{index},p,holdz,",  # not in the list
        f"{run},{index},p,Holds,fine",  # a capital: mended
        f"{run},{index},p,holds,again",  # twice
    ]
    form = write("form.csv", "run_id,index,rater,label,reason\n" + "\n".join(lines) + "\n")
    imported = import_labels(form, study, labels=["holds", "accepts"])
    assert imported.dataset.labels.collect()["label"].to_list() == ["holds"]
    assert reasons(imported) == {
        "no such run in the study": 1,
        "no such message": 1,
        "no rater": 1,
        "a judge's name as rater": 1,
        "a label outside its list": 1,
        "this rater has already labelled this message": 1,
        "blanks or capitals of a label": 1,
    }
    assert imported.extra.height == 6
    assert f"Did you mean {run}" in imported.text() and "Did you mean holds" in imported.text()
    with pytest.raises(ImportFailed, match="row 1: no run"):
        import_labels(form, study, on_bad="refuse")


def test_the_forms_own_list_of_labels_is_held_to(study, target, write):
    run, index = target
    form = write(
        "form.csv",
        f"run_id,index,rater,label,labels\n{run},{index},p,maybe,holds|accepts\n{run},1,p,holds,holds|accepts\n",
    )
    imported = import_labels(form, study)
    assert imported.dataset.labels.collect()["index"].to_list() == [1]
    assert reasons(imported) == {"a label outside its list": 1}


def test_a_notebook_form_reads_its_tagged_cells(study, target, write):
    run, index = target
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "words"},
        {
            "cell_type": "raw",
            "metadata": {"cilab": {"run_id": run, "index": index}},
            "source": ["label: accepts\n", "reason: clear\n", "rater: person:2\n"],
        },
        {"cell_type": "raw", "metadata": {"cilab": {"run_id": run, "index": 1}}, "source": "label:\n"},
    ]
    form = write("form.ipynb", json.dumps({"cells": cells, "nbformat": 4}))
    (row,) = import_labels(form, study).dataset.labels.collect().to_dicts()
    assert (row["rater"], row["label"], row["reason"]) == ("person:2", "accepts", "clear")
    with pytest.raises(ImportFailed, match="no cell of the notebook is an answer"):
        import_labels(write("empty.ipynb", json.dumps({"cells": cells[:1]})), study)


def test_imported_answers_are_added_to_the_study_once(study, target, write):
    run, index = target
    form = write("form.csv", f"run_id,index,rater,label\n{run},{index},person:1,accepts\n")
    before = study.labels.collect().height
    import_any("labels", form, study.path)
    again = import_any("labels", form, study.path)
    assert study.labels.collect().height == before + 1
    assert study.runs.collect().height == 17
    assert again.report.doubled == 1


def test_reviews_take_the_runs_score_and_refuse_percentages(study, write):
    run = study.runs.filter((pl.col("score") == 0) & (pl.col("dimension") == "taking_initiative")).collect()["run_id"][
        0
    ]
    form = write(
        "form.csv",
        "run_id,reviewer,old_score,new_score,reason,at\n"
        f"{run},ann,,1,she did raise it,2026-11-01T10:00:00Z\n"
        f"{run},ann,,1,she did raise it,2026-11-01T10:00:00Z\n"
        f"{run},ben,1,0.5,half,\n"
        f"{run},cat,0,50,,\n"
        f"{run},,0,1,,\n"
        f"nope,dan,0,1,,\n"
        f"{run},eve,0,,,\n",
    )
    imported = import_reviews(form, study)
    rows = imported.dataset.reviews.collect()
    assert rows.select("reviewer", "old_score", "new_score").rows() == [("ann", 0.0, 1.0), ("ben", 1.0, 0.5)]
    assert rows["at"][0].isoformat() == "2026-11-01T10:00:00+00:00"
    assert reasons(imported) == {
        "the same review again": 1,
        "a score outside 0 to 1": 1,
        "no reviewer": 1,
        "no such run in the study": 1,
    }
    assert "looks like a percentage" in imported.text() and "the form says old_score 1, the run 0" in imported.text()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n", "a form for labels has columns run_id, index, label; no run_id"),
        ("r1,0,p,holds\nr2,1,p,accepts\n", "form for labels has columns"),
        ("", "the file is empty"),
    ],
)
def test_a_file_that_is_no_form_is_refused(study, write, text, match):
    with pytest.raises(ImportFailed, match=match):
        import_labels(write("form.csv", text), study)


def test_answers_without_a_study_are_refused(write, tmp_path):
    form = write("form.csv", "run_id,index,rater,label\nr,0,p,x\n")
    with pytest.raises(ImportFailed, match=r"give it, e.g. study="):
        import_labels(form, None)
    with pytest.raises(StoreError, match="no such folder"):
        import_any("labels", form, tmp_path / "nowhere")


def test_the_door_for_the_shell_names_a_wrong_kind_or_option(example, tmp_path):
    with pytest.raises(ImportFailed, match=r"no importer named relase.*Did you mean release"):
        import_any("relase", example, None)
    with pytest.raises(ImportFailed, match="import_release has no option nam; it has name"):
        import_any("release", example, None, nam="x")
    import_any("release", example, tmp_path / "s")
    with pytest.raises(StoreError, match="already holds a study"):
        import_any("release", example, tmp_path / "s")
