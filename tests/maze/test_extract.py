"""Agreed moves out of hand-written dialogues. What each comes down to was worked out by reading it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.maze.extract import extract_pair, extract_solo, read_message


def talk(*contents: str) -> list[dict[str, str]]:
    return [{"seat": "12"[k % 2], "content": content} for k, content in enumerate(contents)]


def moves(*contents: str) -> tuple[str, ...]:
    return extract_pair(talk(*contents)).moves


def test_a_careful_dialogue_with_maps_and_positions():
    found = extract_pair(
        talk(
            "Hello! My map is:\n@ # -\n- - -\n# ? *\nStart at (1,1), goal at (3,3). I propose we move from (1,1) to "
            "(2,1). Do you agree?",
            "Yes, I agree. Here is mine:\n@ ? ?\n? - -\n# # *\nNext I propose (2,1) -> (2,2).",
            "Agreed. We are now at (2,2). Let's move to (2,3)?",
            "Sounds good. The marker is at (2,3). Shall we go to (3,3)?",
            "Agreed. ACTI!",
        )
    )
    assert found.moves == ("(2,1)", "(2,2)", "(2,3)", "(3,3)")
    assert (found.completed, found.split_up, found.from_route, found.objections) == (True, False, False, 0)
    assert found.first_agreed == 1


@pytest.mark.parametrize(
    "words",
    [
        "move from (1,1) to (1,2)",
        "I propose (1,1) -> (1,2).",
        "I propose that we move to (1,2). Do you agree?",
        "Let's go to (1,2).",
        "next: (1,2)",
        "Next move: (1,2)",
        "How about (1,2)?",
        "(1,2)?",
        "My suggestion is moving to **(1,2)**.",
        "Shall we step right to (1,2)?",
        "I think (1,2) is free. Can we move there? I suggest moving from (1,1) to (1,2).",
        "We could try moving to (1,2).",
        "- Move 1: (1,1) → (1,2)",
        "We are at (1,1). The goal is at (5,5). (2,1) is a wall, so let's move to (1,2).",
        "Is (2,2) a wall on your map? Anyway, I propose we go to (1,2) first.",
    ],
)
def test_a_proposed_position_is_agreed_by_a_plain_yes(words):
    assert moves(words, "Agreed.") == ("(1,2)",)


@pytest.mark.parametrize(
    ("words", "move"),
    [
        ("go right", "right"),
        ("move down one", "down"),
        ("I propose moving east", "east"),
        ("I suggest we move one step to the left.", "left"),
        ("Let's go north.", "north"),
        ("Right?", "right"),
        ("Next: down", "down"),
        ("I propose moving right from (1,1). OK?", "right"),
        ("let's go to r1c2", "r1c2"),
        ("Let's move to row 1, column 2.", "r1c2"),
        ("next: B3", "B3"),
        ("I propose A1 -> B1.", "B1"),
    ],
)
def test_directions_and_other_notations_are_proposals_too(words, move):
    assert moves(words, "Yes, sounds good!") == (move,)


@pytest.mark.parametrize(
    "words",
    [
        "Agreed.",
        "I agree with the move.",
        "Yes!",
        "Yes, let's do it.",
        "OK",
        "Confirmed: (1,2).",
        "Sounds good to me.",
        "That works. What next?",
        "Okay, moving to (1,2).",
        "Good move. Your turn.",
        "Move to (1,2).",
        "We are now at (1,2). What is at (1,3)?",
        "Great, from (1,2) I propose moving to (1,3).",
        "I propose we move from (1,2) to (1,3).",
        "Then (1,3).",
        "No objections, I agree.",
    ],
)
def test_a_move_is_accepted_in_words_by_repeating_it_or_by_going_on_from_it(words):
    assert moves("I propose to move from (1,1) to (1,2).", words) == ("(1,2)",)


@pytest.mark.parametrize(
    "words",
    [
        "No.",
        "I disagree.",
        "I don't agree with that.",
        "That's a wall on my map.",
        "Wait, (1,2) is a wall.",
        "On my copy (1,2) is blocked.",
        "I can't agree: the move is not possible.",
        "Hold on. What is at (1,3)?",
        "How about (2,1) instead?",
        "Let's go to (2,1).",
        "What is at (1,2) on your map?",
        "Do you agree with me that the goal is at (5,5)?",
        "Please confirm that the start is at (1,1).",
        "We need to agree on a coordinate system.",
        "I will wait for your agreement.",
        "",
    ],
)
def test_objections_questions_and_counter_proposals_are_no_agreement(words):
    assert moves("I propose to move from (1,1) to (1,2).", words) == ()


def test_an_accepted_move_counts_once_however_often_it_is_confirmed():
    assert moves(
        "I propose (1,2).",
        "Agreed. So we move from (1,1) to (1,2).",
        "Confirmed, we moved to (1,2). Do you agree that we are at (1,2)?",
        "Yes, I agree. We are at (1,2).",
        "Great. We have moved to (1,2). Do you confirm?",
        "Confirmed.",
    ) == ("(1,2)",)


def test_the_same_direction_twice_is_two_moves_and_confirming_it_is_none():
    assert moves(
        "Let's move right.",
        "Agreed, let's move right.",
        "Next, let's move right again.",
        "Yes. Then down.",
        "Okay!",
    ) == ("right", "right", "down")


def test_one_message_may_accept_a_move_and_propose_the_next():
    assert moves("r1c2?", "Yes. Next r1c3?", "Yes. Next r2c3?", "Yes, ACTI!") == ("r1c2", "r1c3", "r2c3")


def test_a_counter_proposal_replaces_the_first_and_can_be_accepted():
    found = extract_pair(
        talk("I propose (1,2).", "No, (1,2) is a wall. I propose (2,1).", "You are right, agreed: (2,1).")
    )
    assert found.moves == ("(2,1)",)
    assert found.objections == 1


def test_a_refused_move_that_its_proposer_insists_on_can_still_be_accepted():
    # As in figure 4.5 of the paper: an objection, a correction, then agreement.
    assert moves(
        "I propose moving from (1,2) to (2,2).",
        "I disagree, that is a wall.",
        "On my map (2,2) is a path, please check again.",
        "You're right, my mistake. I agree.",
    ) == ("(2,2)",)


def test_a_move_that_is_never_answered_is_not_executed():
    assert moves("I propose (1,2).", "Agreed. I propose (1,3).") == ("(1,2)",)


def test_saying_where_the_marker_is_is_no_move():
    assert moves("We are at (1,1).", "Yes.", "Our current position is (1,1), the goal is (5,5).", "Agreed.") == ()


def test_alternatives_are_no_proposal():
    assert moves("We could move to (1,2) or (2,1).", "Agreed.") == ()


def test_a_listed_route_is_a_plan_and_its_steps_count_when_agreed_one_by_one():
    found = extract_pair(
        talk(
            "Full route: (1,1) (1,2) (1,3) (2,3) (3,3). Do you agree with the plan?",
            "I agree with the route. First move: (1,1) to (1,2).",
            "Agreed.",
            "Next (1,3).",
            "I think (1,3) is a wall. ACTI!",
        )
    )
    assert found.moves == ("(1,2)",)
    assert found.from_route is False
    assert found.planned_ahead == 4


@pytest.mark.parametrize(
    "route",
    [
        "Full route: (1,1) → (1,2) → (1,3) → (2,3). Shall we execute it?",
        "Here is the path:\n1. (1,1) -> (1,2)\n2. (1,2) -> (1,3)\n3. (1,3) -> (2,3)\nDo you agree to all of it?",
    ],
)
def test_an_agreed_route_counts_when_the_agents_then_finish_and_is_flagged(route):
    found = extract_pair(talk(route, "Agreed, let's execute the whole route. ACTI!"))
    assert found.moves[-3:] == ("(1,2)", "(1,3)", "(2,3)")
    assert found.from_route is True
    assert extract_pair(talk(route, "Agreed, let's execute the whole route.")).moves == ()
    assert extract_pair(talk(route, "I disagree. ACTI!")).moves == ()


def test_a_list_of_cells_is_no_route():
    found = extract_pair(talk("Walls are at (1,3), (2,5), (4,1), (5,5).", "Agreed. ACTI!"))
    assert (found.moves, found.planned_ahead) == ((), 0)
    assert extract_pair(talk("My path cells: (1,2), (1,3), (1,4), (3,1).", "Okay. ACTI!")).moves == ()


def test_the_symbols_of_a_map_and_its_row_labels_are_no_moves():
    drawn = "R1: @ - #\nR2: ? - #\nR3: # - *"
    assert moves(f"My map:\n{drawn}\nWhat is yours?", "Agreed. Mine:\n1 @ ? ?\n2 ? - #\n3 # ? *", "OK") == ()


def test_a_pair_that_splits_up_is_flagged_with_each_agents_own_moves():
    found = extract_pair(
        talk(
            "Let's split up: I'll move my marker to (2,1), you explore the top.",
            "Ok, I move to (1,2).",
            "I moved to (2,2).",
            "I'm moving to (1,3).",
        )
    )
    assert found.split_up is True
    assert found.own_moves == (("(2,1)", "(2,2)"), ("(1,2)", "(1,3)"))


def test_agents_that_report_two_different_places_again_and_again_have_split_up():
    found = extract_pair(talk("I am at (1,2).", "I am at (2,1).", "I'm now at (1,3).", "My position is (3,1)."))
    assert found.split_up is True


def test_refusing_to_split_up_is_no_split():
    assert extract_pair(talk("We should not split up. Let's move to (1,2).", "Agreed.")).split_up is False


def test_what_other_seats_say_is_left_out():
    said = talk("I propose (1,2).", "Agreed.")
    said.insert(1, {"seat": "user", "content": "No, I disagree. Go to (9,9)."})
    assert extract_pair(said).moves == ("(1,2)",)


@pytest.mark.parametrize(
    ("answer", "route"),
    [
        ("(1,1) → (1,2) → (2,2)", ("(1,1)", "(1,2)", "(2,2)")),
        ("[(0,0), (0,1), (1,1)]", ("(0,0)", "(0,1)", "(1,1)")),
        ("Right, down, down.", ("right", "down", "down")),
        ("RRDD", ("right", "right", "down", "down")),
        ("→ → ↓", ("right", "right", "down")),
        ("1. Move right to (1,2)\n2. Move down to (2,2)\n3. Move down to (3,2)", ("(1,2)", "(2,2)", "(3,2)")),
        ("**Step 1:** Right\n\n**Step 2:** Down\n\n**Step 3:** Down", ("right", "down", "down")),
        ("r1c1 -> r1c2 -> r2c2", ("r1c1", "r1c2", "r2c2")),
        ("A1, B1, B2, B3", ("A1", "B1", "B2", "B3")),
        ("Start (1,1), then go to (1,2), then (2,2), and finally reach the goal at (3,2).",
         ("(1,1)", "(1,2)", "(2,2)", "(3,2)")),
        (
            "The maze:\n@ - #\n# - *\n# # -\nFirst try: (1,1), (2,1), (3,1): a wall, so no.\n"
            "Final answer: (1,1), (1,2), (2,2), (2,3)\nThat is 3 moves from (1,1) to (2,3).",
            ("(1,1)", "(1,2)", "(2,2)", "(2,3)"),
        ),
        ("I cannot find a route.", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_a_solo_answer_gives_its_last_route(answer, route):
    assert extract_solo(answer).moves == route


_STEP = st.sampled_from(["(1,2)", "(2,2)", "(3,4)", "r2c3", "B4"])
_ASK = st.sampled_from(["I propose we move to {}.", "Let's go to {}. Agree?", "Next: {}", "How about {}?"])
_YES = st.sampled_from(["Agreed.", "Yes, I agree.", "Sounds good!", "Okay."])


@given(st.lists(st.tuples(_STEP, _ASK, _YES), min_size=1, max_size=12))
def test_any_row_of_proposals_each_accepted_comes_out_in_order(plan):
    # The partner accepts and proposes the next; a position directly repeated is no move.
    said, carried = [], ""
    for step, ask, yes in plan:
        said.append((carried + " " + ask.format(step)).strip())
        carried = yes
    steps = [s for k, (s, _, _) in enumerate(plan) if k == 0 or s != plan[k - 1][0]]
    assert moves(*said, carried) == tuple(steps)


@given(st.lists(st.text(max_size=200), max_size=8))
@settings(deadline=None)
def test_reading_a_dialogue_never_fails(contents):
    assert extract_pair(talk(*contents)).objections >= 0
    assert extract_solo(" ".join(contents)).split_up is False


_BITS = st.sampled_from(
    [
        "agree",
        "no",
        "move to",
        "(1,2)",
        "right",
        "?",
        ".",
        "\n",
        "->",
        "wall",
        "I",
        "we are at",
        "B3",
        "1.",
        "- ",
        "path",
    ]
)


@given(st.lists(st.lists(_BITS, max_size=12).map(" ".join), max_size=8))
@settings(deadline=None)
def test_no_message_brings_more_agreed_moves_than_were_proposed_before_it(contents):
    for k in range(len(contents)):
        before, after = moves(*contents[:k]), moves(*contents[: k + 1])
        assert after[: len(before)] == before
    assert moves(*contents[:1]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "move to (1,2)" + " " * 200_000 + "x",
        "(1,2)" + "* " * 100_000,
        "(1,2) -> " * 20_000,
        "not move " * 20_000 + "(1,2)",
        "@ # - " * 30_000 + "x",
        "1. " * 60_000,
        "right down " * 18_000,
    ],
)
def test_a_message_of_200_kilobytes_is_read_in_seconds(text):
    began = time.process_time()
    read_message(text)
    extract_solo(text)
    assert time.process_time() - began < 30


def test_a_heading_before_the_route_parts_it_from_what_was_named_before():
    answer = "The start @ is at (3,6) and the goal * is at (6,2).\n\nRoute: (3,6) → (4,6) → (5,6)"
    assert extract_solo(answer).moves == ("(3,6)", "(4,6)", "(5,6)")


def test_once_more_is_another_step_in_the_same_direction():
    talk = ["Let's move right.", "Agreed. I propose that we move right once more.", "Agreed. Next, down.", "Yes."]
    messages = [{"seat": str(k % 2 + 1), "content": text} for k, text in enumerate(talk)]
    assert extract_pair(messages).moves == ("right", "right", "down")
