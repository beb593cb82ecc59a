"""A data set in memory answers as the study that it is saved as."""

from __future__ import annotations

import pytest

import cilab
from cilab import datasets, reports
from cilab.core.errors import StoreError
from cilab.core.tables import frame
from cilab.datasets.dataset import Dataset


@pytest.fixture(scope="module")
def made():
    return datasets.simulated_release(scale=0.05)


@pytest.fixture(scope="module")
def saved(made, tmp_path_factory):
    return made.save(tmp_path_factory.mktemp("data") / "study")


def some_run(made):
    """A run with messages."""
    return made.messages.select("run_id").first().collect().item()


def test_a_data_set_shows_a_run_as_its_saved_study_does(made, saved):
    run_id = some_run(made)
    page = made.show(run_id)
    assert page.simulated and page.messages
    assert page.html == cilab.open(saved).show(run_id).html == reports.load(saved).show(run_id).html


def test_a_data_set_that_a_notebook_names_shows_a_run():
    worked = reports.load("hand_worked_round")
    run_id = worked.runs.select("run_id").first().collect().item()
    assert run_id in worked.show(run_id).text


def test_the_beginning_of_an_id_is_enough_and_an_unknown_one_names_the_nearest(made):
    run_id = some_run(made)
    with pytest.raises(StoreError, match="The nearest ids: .*" + run_id.replace(".", r"\.")):
        made.show(run_id[:-1] + "~")
    with pytest.raises(StoreError, match="give more of it"):
        made.show(run_id[:3])


def test_a_data_set_without_runs_has_nothing_to_show():
    labels = Dataset("people", {"labels": frame("labels", [])}, simulated=False, kind="imported")
    with pytest.raises(StoreError, match="holds no runs yet"):
        labels.show("x")


def test_data_hash_and_tables_are_those_of_the_saved_study(made, saved):
    opened = cilab.open(saved)
    assert opened.data_hash == made.data_hash
    for name in ("runs", "messages", "labels", "tasks"):
        assert opened.table(name).collect().equals(made.table(name).collect())
    question = "select runs.model, rater, count(*) n from runs join labels using (run_id) group by all order by all"
    assert opened.sql(question).equals(made.sql(question))


def test_the_data_hash_changes_with_the_labels(made):
    fewer = dict(made.tables) | {"labels": made.tables["labels"].head(-1)}
    assert Dataset("fewer", fewer, simulated=True, kind="simulated").data_hash != made.data_hash
