"""Our own forty tasks: each is proven through the engine, and the bank as a whole is what it says."""

import pytest

from cilab.running.prove import check_tasks
from cilab.stats.teamwork.failures import RULES
from cilab.teamwork import bank, sandbox
from cilab.teamwork.prove import list_tasks
from cilab.teamwork.task import FAMILIES, STAGES, dimension_modes
from cilab.teamwork.terms import DIMENSIONS


@pytest.fixture(scope="module")
def proven():
    """Every exemplar, played once; where bubblewrap does not work, code of ours runs without it."""
    return check_tasks(isolation="bwrap" if sandbox.available() is None else "none")


@pytest.mark.slow
def test_every_exemplar_comes_out_as_it_says(proven):
    assert list(proven.problems) == []
    assert proven.table.filter(proven.table["as_expected"]).height > 400


@pytest.mark.slow
def test_agents_that_do_one_thing_whatever_happens_fail(proven):
    assert proven.shares["silent"] >= 0.9 and proven.shares["agreeable"] >= 0.9 and proven.shares["refusing"] >= 0.5


def test_there_are_five_tasks_a_dimension_from_seven_families():
    table = list_tasks()
    assert table["dimension"].value_counts().sort("dimension").rows() == sorted((d, 5) for d in DIMENSIONS)
    assert set(table["source_family"]) == set(FAMILIES)
    assert table["sandbox"].sum() >= 13 and table["executes_code"].sum() >= 10
    assert table["seats"].is_between(2, 5).all() and table["rounds"].is_between(3, 8).all()
    assert table["title"].n_unique() == table["task_id"].n_unique() == 40


def test_every_task_shows_every_stage_that_its_dimension_can_show():
    for task in bank.ours():
        shown = {e.expect for e in task.file.exemplars if e.version == "test"} & set(STAGES)
        assert shown >= set(dimension_modes(task.file.dimension)), task.id
    assert {rule.stage for rule in RULES} == {"missed it", "gave in", "stopped short"}


def test_no_two_tasks_share_their_scene_and_briefs_do_not_name_labels():
    tasks = bank.ours()
    assert len({t.file.brief.scene.strip() for t in tasks}) == len(tasks)
    for task in tasks:
        brief = " ".join((task.file.brief.scene, task.file.brief.alone, task.file.brief.team))
        assert not [name for name in task.file.label_list if name != "other" and name in brief], task.id


def test_difficulty_and_shape_spread():
    tasks = bank.ours()
    assert min(t.file.difficulty for t in tasks) < 0 < 1 <= max(t.file.difficulty for t in tasks)
    assert len({t.file.rounds for t in tasks}) >= 4 and len({len(t.file.seats) for t in tasks}) == 4
    assert all(len(t.file.why_hard) > 80 for t in tasks)


def test_what_a_model_must_not_see_is_not_in_the_sandbox():
    for task in bank.ours():
        for version in ("alone", "baseline", "test"):
            names = {path.rpartition("/")[2] for path in task.files(version)}
            assert not names & {
                "planted.md",
                "rename.txt",
                "expected.txt",
                "notes.md",
                "cheat.py",
                "cheat.diff",
                "task.yaml",
            }
