"""From a study block to run specs, and what they will cost."""

import pytest
from pydantic import ValidationError

from cilab.teamwork.plan import TeamworkBlock, forecast, plan
from cilab.teamwork.task import TaskError, dimension_norm
from tests.teamwork.small import changed, write

JUDGES = {"referee": "r", "second": "s", "third": "t"}


@pytest.fixture
def block(tmp_path):
    write(tmp_path)

    def make(**parts):
        given = {"models": ["m"], "tasks": [str(tmp_path)], "judges": JUDGES, "partners": ["p", "q"]}
        return TeamworkBlock(benchmark="teamwork", **(given | parts))

    return make


def test_the_plan_has_alone_once_baseline_once_and_the_test_three_times(block):
    specs = list(plan(block()))
    assert [(s.version, s.seed) for s in specs] == [
        ("alone", 0),
        ("baseline", 0),
        ("test", 0),
        ("test", 1),
        ("test", 2),
    ]
    alone = specs[0]
    assert alone.requires is None and not alone.judges and "partners" not in alone.settings
    assert {(s.requires.run_id, s.requires.condition) for s in specs[1:]} == {(alone.run_id, "passed")}
    assert len({s.run_id for s in specs}) == 5


def test_every_alone_run_must_pass_before_the_team_plays(block):
    specs = list(plan(block(alone_runs=3, test_runs=1)))
    assert [s.requires.run_id if s.requires else None for s in specs[:3]] == [None, specs[0].run_id, specs[1].run_id]
    assert {s.requires.run_id for s in specs[3:]} == {specs[2].run_id}


def test_arms_cross_everything_and_enter_the_run_ids(block):
    arms = [{"name": "norm", "norm": True}, {"name": "nice", "text": "Be a good teammate."}]
    specs = list(plan(block(arms=arms)))
    assert len(specs) == 15 and [s.arm for s in specs[::5]] == [None, "norm", "nice"]
    assert specs[5].settings["arm_text"] == dimension_norm("resisting_unsafe_pressure").strip()
    assert len({s.run_id for s in specs}) == 15
    assert len(list(plan(block(arms=arms, control=False)))) == 10


def test_effort_and_judges_enter_the_run_ids_and_the_folder_does_not(block, tmp_path):
    ids = [s.run_id for s in plan(block())]
    assert ids != [s.run_id for s in plan(block(models=[{"model": "m", "effort": "high"}]))]
    other = [s.run_id for s in plan(block(judges={**JUDGES, "third": "u"}))]
    assert ids[0] == other[0] and not set(ids[1:]) & set(other[1:])  # alone nobody judges
    write(tmp_path / "copy")
    assert [s.run_id for s in plan(block(tasks=[str(tmp_path / "copy")]))] == ids


def test_partners_sit_in_turn(block):
    specs = list(plan(block()))
    assert set(specs[1].settings["partners"].values()) <= {"p", "q"}
    with pytest.raises(TaskError, match="partners: is empty, but hoist has a live partner"):
        list(plan(block(partners=[])))


def test_model_names_are_all_that_is_called(block):
    made = block(judges={**JUDGES, "fallbacks": ["f"]}, partner_fallbacks=["g"])
    assert made.model_names() == {"m", "p", "q", "r", "s", "t", "f", "g"}


def test_the_users_own_code_enters_the_identity(block):
    ids = [s.run_id for s in plan(block())]
    coded = block().with_code({"m": "abc", "x": "y"})
    assert [s.settings["code"] for s in plan(coded)] == [{"m": "abc"}] * 5
    assert not set(ids) & {s.run_id for s in plan(coded)}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"arms": [{"name": "a", "text": "x"}, {"name": "a", "text": "y"}]}, "same name"),
        ({"arms": [{"name": "a"}]}, "does nothing"),
        ({"arms": [{"name": "a", "text": "x", "norm": True}]}, "either"),
        ({"control": False}, "leaves nothing"),
        ({"models": []}, "at least 1"),
        ({"test_runs": 0}, "greater than or equal to 1"),
        ({"judges": {"referee": "r"}}, "second"),
        ({"versions": ["tests"]}, "versions"),
    ],
)
def test_a_wrong_block_is_refused(block, parts, words):
    with pytest.raises(ValidationError) as error:
        block(**parts)
    assert words in str(error.value)


def test_the_arm_on_a_session_only_touches_tasks_with_one(block):
    specs = list(plan(block(arms=[{"name": "told", "note": "note"}])))
    assert all("note" not in s.settings for s in specs)


def test_the_forecast_has_every_model_and_grows(block):
    specs = list(plan(block()))
    alone, test = forecast(specs[0]), forecast(specs[2])
    assert set(alone.calls) == {"m"} and {"m", "r", "s", "t"} <= set(test.calls)
    for f in (alone, test):
        for part in (f.calls, f.tokens_in, f.tokens_out):
            assert all(0 < low <= expected <= most for low, expected, most in part.values())
    assert test.calls["r"] == (1, 3, 4) and test.calls["t"][1] == pytest.approx(3 * 0.19)


def test_a_trial_has_fewer_rounds_and_tool_calls_and_only_where_that_is_fewer(block):
    whole, trial = plan(block()), list(plan(block(max_rounds=1, max_tool_calls=1)))
    assert trial[2].settings.items() >= {"max_rounds": 1, "max_tool_calls": 1}.items()
    assert forecast(trial[2]).calls["m"][2] < forecast(list(whole)[2]).calls["m"][2]
    assert [s.run_id for s in plan(block(max_rounds=99, max_tool_calls=40))] == [s.run_id for s in plan(block())]


def test_scaling_keeps_every_dimension(block, tmp_path):
    for i in range(4):
        write(tmp_path, changed(id=f"copy{i}"))
    assert len(block().scaled(0.4).tasks) == 2 and len(block().scaled(0.01).tasks) == 1


def test_a_task_that_runs_code_is_refused_where_nothing_holds_it(block, tmp_path, monkeypatch):
    import cilab.teamwork.sandbox as sandbox
    from cilab.teamwork.sandbox import SandboxError

    write(tmp_path, changed(id="code", sandbox={}, tools=["run_python"]))
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is not installed: apt-get install bubblewrap.")
    with pytest.raises(SandboxError, match=r"code runs code. bubblewrap is not installed.*sandbox: none"):
        list(plan(block()))
    assert len(list(plan(block(sandbox="none")))) == 10
