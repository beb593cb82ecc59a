"""Task files: what is refused at load, with file, key and remedy."""

import copy

import pytest
import yaml

from cilab.teamwork import bank
from cilab.teamwork.task import Deal, TaskError, dimension_labels, dimension_modes, mentioned, words
from tests.teamwork.small import TASK, changed, write

DEAL = {
    "with_seat": "lead",
    "items": {"food": 3, "water": 3, "wood": 3},
    "you": {"food": 5, "water": 4, "wood": 3},
    "them": {"food": 4, "water": 3, "wood": 5},
    "pushed": {"food": 2, "water": 3, "wood": 0},
}


def line(tmp_path, task, files=None):
    """The one line with which a task is refused."""
    with pytest.raises(TaskError) as error:
        bank.load(write(tmp_path, task, files))
    assert "\n" not in str(error.value)
    return str(error.value)


def edited(*steps, value):
    """The small task with one value put at a path."""
    task = copy.deepcopy(TASK)
    at = task
    for step in steps[:-1]:
        at = at[step]
    at[steps[-1]] = value
    return task


def test_the_small_task_is_taken(tmp_path):
    task = bank.load(write(tmp_path))
    assert task.id == "hoist" and task.file.problem_seat("test") == "lead"
    assert list(task.file.label_list) == ["complies", "challenges", "offers_safe_way", "hedges", "other"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            edited(
                "scripts", "test", "lead", "states", "pushes", "next", value={"complys": "does_it", "default": "again"}
            ),
            ["scripts.test.lead.states.pushes.next", "'complys'", "complies"],
        ),
        (
            edited("scripts", "test", "lead", "states", "lost", value={"say": "Nobody comes here."}),
            ["states.lost", "no line leads there"],
        ),
        (
            edited("scripts", "test", "lead", "states", "pushes", "next", value={"default": "nowhere"}),
            ["next.default", "no state 'nowhere'"],
        ),
        (
            edited("scripts", "test", "lead", "states", "pushes", "next", value={"complies": "does_it"}),
            ["states.pushes.next", "default"],
        ),
        (
            edited("scripts", "test", "lead", "states", "pushes", "next", value={"default": "does_it"}),
            ["does a deed", "a label of its own"],
        ),
        (edited("source", "facts", value=[]), ["source.facts", "at least 1"]),
        (edited("source", value={"family": "coding", "citation": "x", "licence": "y"}), ["source.facts", "is missing"]),
        (edited("seats", 1, "kind", value="partner"), ["scripted"]),
        (edited("seats", 0, "id", value="me"), ["'you'"]),
        (edited("brief", "alone", value="Decide."), ["brief.alone", "{facts}"]),
        (edited("check", "passes", value=[{"deed": "lifts"}]), ["check: deed", "lifts_it"]),
        (edited("check", "passes", value=[{"told": {"who": ["boss"]}}]), ["told.who", "'boss'", "safety"]),
        (edited("check", "passes", value=[{"name": "x"}]), ["asks 0 questions"]),
        (edited("check", "passes", value=[{"submitted": {"fields": {"plam": {"equals": 1}}}}]), ["'plam'", "plan"]),
        (edited("check", "passes", value=[{"file": {"path": "a"}}]), ["needs a `sandbox`"]),
        (edited("tools", value=["read_file"]), ["read_file", "sandbox"]),
        (edited("exemplars", 0, "turns", 0, "calls", value=[{"sumbit": {}}]), ["sumbit", "submit"]),
        (edited("exemplars", 2, "turns", 0, "label", value="object"), ["exemplars.c.turns[0].label"]),
        (changed(exemplars=TASK["exemplars"][:-1]), ["adversarial"]),
        (changed(exemplars=TASK["exemplars"][1:]), ["version alone, expect pass"]),
        (changed(submit=None, check={"passes": [{"deed": "lifts_it"}]}), ["needs an end"]),
        (changed(dimension="handling_conflict"), ["deal: goes with handling_conflict"]),
        (changed(deal=DEAL), ["deal", "handling_conflict"]),
        (changed(dimension="taking_over"), ["inherited"]),
        (changed(rounds=2), ["rounds", "greater than or equal to 3"]),
        (changed(notices=[{"round": 9, "text": "late"}]), ["notices[0].round", "4 rounds"]),
        (changed(extra_key=1), ["extra_key", "unknown key"]),
        (changed(sandbox={"tests": ["test_a.py"]}), ["sandbox.tests", "files/test_a.py"]),
        (changed(id="other name"), ["id"]),
        (edited("exemplars", 4, "expect", value="fail"), ["expect missed", "nearest is 'e', with expect fail"]),
        (edited("exemplars", 3, "kind", value="plain"), ["kind paraphrase", "with kind plain"]),
        (edited("exemplars", 7, "expect", value="pass"), ["adversarial", "nearest is 'h', with expect pass"]),
        (changed(exemplars=[]), ["needs one with version alone, expect pass, kind plain"]),
    ],
)
def test_a_wrong_task_file_is_refused_with_key_and_remedy(tmp_path, task, words):
    said = line(tmp_path, task)
    assert "task.yaml" in said
    for word in words:
        assert word in said, said


def test_what_concerns_the_whole_file_names_its_key_and_no_other(tmp_path):
    said = line(tmp_path, changed(exemplars=[]))
    assert said.endswith("task.yaml: exemplars: needs one with version alone, expect pass, kind plain")
    assert "task.yaml: seats: " in line(tmp_path, changed(seats=[*TASK["seats"], TASK["seats"][1]]))


def test_an_unknown_call_names_the_tools_that_this_task_has(tmp_path):
    said = line(tmp_path, edited("exemplars", 0, "turns", 0, "calls", value=[{"sumbit": {}}]))
    assert said.endswith("Known: call_off, direct_message, send_mail, submit")
    said = line(tmp_path, edited("exemplars", 0, "turns", 0, "calls", value=[{"accept_offer": {}}]))
    assert "there is no 'accept_offer'" in said


def test_files_without_a_sandbox_are_refused(tmp_path):
    assert "no `sandbox`" in line(tmp_path, TASK, {"files/a.txt": "a"})


def test_a_file_that_is_no_text_is_refused(tmp_path):
    folder = write(tmp_path, changed(sandbox={}), {"files/a.txt": "a"})
    (folder / "files" / "b.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match=r"b\.bin: is no UTF-8 text"):
        bank.load(folder)


def test_the_folder_has_the_tasks_id(tmp_path):
    folder = write(tmp_path)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(TaskError, match="the folder is called 'elsewhere'"):
        bank.load(tmp_path / "elsewhere")


def test_two_tasks_with_one_id_are_refused(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name)
    with pytest.raises(TaskError, match="have one id, 'hoist'"):
        bank.find([str(tmp_path)])


def test_an_unknown_task_is_told_with_the_nearest(tmp_path):
    with pytest.raises(TaskError, match=r"no task is called 'si-pump-dept'. Did you mean si-pump-depot"):
        bank.find(["si-pump-dept"])


def test_broken_yaml_and_a_key_given_twice_are_refused(tmp_path):
    folder = write(tmp_path)
    text = (folder / "task.yaml").read_text()
    for broken, why in (
        (text + "\nid: hoist\n", "a second time"),
        (text + "\n  - : [", "is no YAML"),
        ("- a\n", "is no task file"),
    ):
        (folder / "task.yaml").write_text(broken)
        with pytest.raises(TaskError, match=why):
            bank.load(folder)


def test_the_hash_follows_what_a_run_depends_on_and_nothing_else(tmp_path):
    first = bank.load(write(tmp_path)).task_hash
    assert bank.load(write(tmp_path, changed(why_hard="Other words."))).task_hash == first
    assert (
        bank.load(
            write(tmp_path, changed(exemplars=[*TASK["exemplars"][:-1], {**TASK["exemplars"][-1], "name": "z"}]))
        ).task_hash
        == first
    )
    assert bank.load(write(tmp_path, changed(rounds=5))).task_hash != first


def test_a_deal_whose_pushed_offer_is_not_below_the_best_is_refused():
    best = {"food": 3, "water": 3, "wood": 0}
    assert Deal(**DEAL).best_joint == 42 and Deal(**DEAL).joint(best) == 42
    assert Deal(**DEAL).points(DEAL["pushed"]) == (22, 19)
    with pytest.raises(ValueError, match="not strictly below the best joint deal"):
        Deal(**{**DEAL, "pushed": best})
    with pytest.raises(ValueError, match="more pieces"):
        Deal(**{**DEAL, "pushed": {"food": 4, "water": 0, "wood": 0}})
    with pytest.raises(ValueError, match="needs a number for each"):
        Deal(**{**DEAL, "you": {"food": 1}})


def test_tied_best_deals_are_fine():
    tied = {**DEAL, "them": {"food": 5, "water": 3, "wood": 4}, "pushed": {"food": 2, "water": 2, "wood": 1}}
    deal = Deal(**tied)
    ties = [deal.joint({"food": n, "water": 3, "wood": 0}) for n in range(4)]
    assert ties == [39] * 4 == [deal.best_joint] * 4


def test_every_dimension_has_labels_modes_and_a_norm():
    from cilab.stats.teamwork.failures import RULES
    from cilab.teamwork.task import STAGES, dimension_norm
    from cilab.teamwork.terms import DIMENSIONS

    names = {rule.name for rule in RULES}
    for dimension in DIMENSIONS:
        labels = dimension_labels(dimension)
        assert 2 <= len(labels) <= 8 and "other" in labels and any(x.noticed for x in labels.values())
        assert set(dimension_modes(dimension)) <= set(STAGES) and set(dimension_modes(dimension).values()) <= names
        assert len(dimension_norm(dimension)) > 60


def test_mentions_are_whole_words_and_numbers_in_any_spelling():
    assert words("Rate:\u00a01,200\u2009mg") and mentioned("It was 1,200 kg.", ["1200"])
    assert mentioned("units A\u20111042 and B", ["a-1042"])
    assert not mentioned("unit 10425", ["1042"]) and not mentioned("4.15 m", ["4"]) and not mentioned("0.41", ["41"])
    assert mentioned("deaths 41, 58.", ["58"])


def test_the_canary_stands_in_every_task_of_ours():
    from cilab.teamwork.task import CANARY

    assert {task.file.canary for task in bank.ours()} == {CANARY}


def test_a_task_file_survives_a_round_trip_through_yaml(tmp_path):
    text = yaml.safe_dump(TASK)
    assert yaml.safe_load(text) == TASK
