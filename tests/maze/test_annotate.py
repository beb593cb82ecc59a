"""Grounding, planning and disagreement in hand-written dialogues; answers of annotators; the score X."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.collect.model import Completion, Sampling
from cilab.maze.annotate import (
    AGENT_FEATURES,
    PAIR_FEATURES,
    annotate_rules,
    annotate_with_model,
    grounding_score,
    parse_annotator_answer,
)
from cilab.maze.grid import Maze, render, split

MAZE = Maze.from_rows(["@#--", "---#", "##-#", "-#-*"])
ONE, TWO = split(MAZE)


def values(*contents: str, maze: Maze | None = MAZE) -> dict[tuple[int, str], float]:
    said = [{"seat": "12"[k % 2], "content": content} for k, content in enumerate(contents)]
    return {(row["agent"], row["feature"]): row["value"] for row in annotate_rules(maze, said)}


CAREFUL = (
    f"Hello! I use (row, column) from 1. The start is at (1,1) and the goal is at (4,4). My copy:\n\n{render(ONE)}\n\n"
    "Please share your complete map so that we can merge them.",
    f"I see the start @ at (1,1) and the goal * at (4,4) too. My copy:\n\n{render(TWO)}\n\nI propose (1,1) -> (2,1).",
    "Agreed. I merged both copies. The full route: (1,1) (2,1) (2,2) (2,3) (3,3) (4,3) (4,4). Next: (2,2)?",
    "Agreed. I also have the merged map now. (2,3) next?",
)


def test_a_careful_pair_has_every_grounding_feature():
    found = values(*CAREFUL)
    for agent in (1, 2):
        assert [found[agent, f] for f in AGENT_FEATURES] == [1, 1, 1]
    assert found[0, "reconciliation"] == 2
    assert found[0, "strategy_global"] == 1
    assert found[0, "has_factual_disagreement"] == found[0, "has_nonfactual_disagreement"] == 0
    assert found[0, "grounding_score"] == 1


def test_a_local_pair_that_tells_cells_as_it_goes_is_gradual_and_shares_nothing():
    found = values(
        "Let's go down. On my map it is a path.", "Agreed. What is to the right on your copy?", "A path. Right?"
    )
    for agent in (1, 2):
        assert [found[agent, f] for f in AGENT_FEATURES] == [0, 0, 0]
    assert (found[0, "reconciliation"], found[0, "strategy_global"], found[0, "grounding_score"]) == (1, 0, 1 / 8)


def test_a_pair_that_says_nothing_about_its_copies_never_reconciles():
    assert values("Down?", "Yes. Right?", "Yes.")[0, "reconciliation"] == 0


def test_maps_shared_after_the_first_agreed_move_are_gradual():
    first, second, *_ = CAREFUL
    assert values("Let's go down.", "Agreed.", first, second)[0, "reconciliation"] == 1
    assert values(first, second)[0, "reconciliation"] == 2


def test_asking_to_merge_is_not_merging():
    assert values("Could you send me your full map?", "Let's build a complete map first.")[1, "merged_map"] == 0
    assert values("Could you send me your full map?", "Let's build a complete map first.")[2, "merged_map"] == 0


def test_drawing_a_map_with_the_hidden_cells_filled_in_is_merging():
    found = values(f"Mine:\n{render(ONE)}", f"Together:\n{render(MAZE.cells)}", "OK")
    assert (found[1, "merged_map"], found[2, "merged_map"]) == (0, 1)


def test_confirming_the_others_start_and_goal_is_grounding_too():
    found = values("The start is at (1,1), the goal at (4,4).", "Yes, I have the same start and goal.", "Fine.")
    assert (found[1, "grounded_start_goal"], found[2, "grounded_start_goal"]) == (1, 1)
    assert values("The start is at (1,1).", "OK.")[1, "grounded_start_goal"] == 0


@pytest.mark.parametrize(
    ("objection", "factual", "other"),
    [
        ("I disagree, (2,1) is a wall on my map.", 1, 0),
        ("That move is not possible: (2,1) is not adjacent.", 1, 0),
        ("No, we are still at (1,1).", 1, 0),
        ("I would rather not: this is a detour.", 0, 1),
        ("I disagree with the direction, let us take another way.", 0, 1),
        ("I think that we name cells differently.", 0, 1),
        ("Agreed.", 0, 0),
        ("No problem, agreed.", 0, 0),
        ("What is at (2,2)?", 0, 0),
    ],
)
def test_disagreements_about_facts_and_about_anything_else_are_told_apart(objection, factual, other):
    found = values("I propose moving to (2,1).", objection, "OK.")
    assert (found[0, "has_factual_disagreement"], found[0, "has_nonfactual_disagreement"]) == (factual, other)


def test_a_plan_of_three_moves_is_local_and_one_of_four_global():
    assert values("The plan: (1,1) (2,1) (2,2) (2,3).", "OK")[0, "strategy_global"] == 0
    assert values("The plan: (1,1) (2,1) (2,2) (2,3) (3,3).", "OK")[0, "strategy_global"] == 1
    assert values("Plan: down, right, right.", "OK")[0, "strategy_global"] == 0
    assert values("Plan: down, right, right, down.", "OK")[0, "strategy_global"] == 1


def test_an_empty_dialogue_and_an_unknown_maze_are_annotated_all_the_same():
    assert values(maze=None)[0, "grounding_score"] == 0
    assert values(*CAREFUL, maze=None)[0, "grounding_score"] == 1


# --------------------------------------------------------------------------- the score


def rows(reconciliation: float | None, *flags: float | None) -> list[dict]:
    keys = [(agent, feature) for agent in (1, 2) for feature in AGENT_FEATURES]
    out = [{"agent": a, "feature": f, "value": v, "text": ""} for (a, f), v in zip(keys, flags, strict=True)]
    return [*out, {"agent": 0, "feature": "reconciliation", "value": reconciliation, "text": ""}]


def test_the_score_is_equation_1_of_the_paper():
    assert grounding_score(rows(2, 1, 1, 1, 1, 1, 1)) == 1
    assert grounding_score(rows(0, 0, 0, 0, 0, 0, 0)) == 0
    assert grounding_score(rows(1, 1, 0, 0, 1, 1, 0)) == 4 / 8


def test_a_score_with_a_missing_value_is_unknown():
    assert grounding_score(rows(None, 1, 1, 1, 1, 1, 1)) is None
    assert grounding_score(rows(1, 1, None, 1, 1, 1, 1)) is None
    assert grounding_score([]) is None


@given(st.integers(0, 2), st.lists(st.integers(0, 1), min_size=6, max_size=6))
def test_the_score_lies_between_0_and_1_and_swapping_the_agents_changes_nothing(timing, flags):
    score = grounding_score(rows(timing, *flags))
    assert 0 <= score <= 1
    assert score == grounding_score(rows(timing, *flags[3:], *flags[:3]))


# --------------------------------------------------------------------------- annotators

FULL = {
    "agent_1": {"grounded_start_goal": True, "shared_map": True, "merged_map": False},
    "agent_2": {"grounded_start_goal": "yes", "shared_map": 0, "merged_map": 1},
    "reconciliation": 1,
    "strategy_global": "True",
    "has_factual_disagreement": False,
    "has_nonfactual_disagreement": None,
}


def read(answer: str) -> dict[tuple[int, str], float | None]:
    return {(r["agent"], r["feature"]): r["value"] for r in parse_annotator_answer(answer)}


def test_an_annotators_answer_is_read_with_or_without_a_fence():
    for text in (json.dumps(FULL), f"Sure:\n```json\n{json.dumps(FULL)}\n```\nDone."):
        found = read(text)
        assert [found[1, f] for f in AGENT_FEATURES] == [1, 1, 0]
        assert [found[2, f] for f in AGENT_FEATURES] == [1, 0, 1]
        assert [found[0, f] for f in PAIR_FEATURES] == [1, 1, 0, None]
        assert found[0, "grounding_score"] == 5 / 8


@pytest.mark.parametrize(
    ("word", "value"), [("upfront", 2), ("never", 0), (2, 2), (3, None), (True, None), ("soon", None)]
)
def test_a_value_that_is_none_of_the_allowed_ones_is_null(word, value):
    assert read(json.dumps(FULL | {"reconciliation": word}))[0, "reconciliation"] == value


def test_a_missing_agent_is_null_and_so_is_the_score():
    found = read(json.dumps({k: v for k, v in FULL.items() if k != "agent_2"}))
    assert found[2, "shared_map"] is None
    assert found[0, "grounding_score"] is None


@pytest.mark.parametrize("text", ["", "I cannot say.", "{}", '{"agent_1": {}}', "[1, 2]", '{"reconciliation": '])
def test_an_answer_without_the_object_is_known_to_be_unreadable(text):
    assert parse_annotator_answer(text) is None


class Scripted:
    """A model that gives its answers in turn."""

    name, provider = "test/scripted", "test"

    def __init__(self, *answers: str):
        self.answers, self.asked = list(answers), []

    async def complete(self, messages, *, tools=None, sampling):
        self.asked.append(list(messages))
        return Completion(self.answers.pop(0))


SAID = [{"seat": "1", "content": "Down?"}, {"seat": "2", "content": "Yes."}]


def test_a_model_annotates_and_is_asked_once_more_when_it_cannot_be_read():
    model = Scripted("well", json.dumps(FULL))
    found = asyncio.run(annotate_with_model(model, SAID, Sampling()))
    assert len(model.asked) == 2
    assert found == parse_annotator_answer(json.dumps(FULL))


def test_an_annotation_that_cannot_be_read_is_null_in_every_feature():
    found = asyncio.run(annotate_with_model(Scripted("well", "hm"), SAID, Sampling()))
    assert {row["value"] for row in found} == {None}
    assert len(found) == 2 * len(AGENT_FEATURES) + len(PAIR_FEATURES) + 1
    assert "hm" in found[0]["text"]


def test_rules_and_models_give_the_same_rows_in_the_same_order():
    keys = [(r["agent"], r["feature"]) for r in annotate_rules(MAZE, SAID)]
    assert keys == [(r["agent"], r["feature"]) for r in parse_annotator_answer(json.dumps(FULL))]
    assert keys == [
        (r["agent"], r["feature"]) for r in asyncio.run(annotate_with_model(Scripted("", ""), SAID, Sampling()))
    ]
