"""Outcomes of hand-worked routes under every family of schemes, the chance floor, and the graders."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.collect.model import Completion, Sampling
from cilab.maze.grade import (
    GraderAnswer,
    grade_by_rules,
    grade_moves,
    grade_with_model,
    parse_grader_answer,
    route_chance_floor,
    transcript_text,
)
from cilab.maze.grid import Maze, MazeSettings, make, shortest_path
from cilab.maze.schemes import all_schemes, write_cell

# Start (0,0), goal (3,3); the only way is down, right, right, down, down, right: 6 steps.
SMALL = Maze.from_rows(["@#--", "---#", "##-#", "-#-*"])
SMALL_WAY = [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (3, 3)]
# A corridor: the goal at its end, the start 7 steps from it, and 15 more steps beyond the start.
CORRIDOR = Maze.from_rows(["*------", "######@", "-------", "-######", "-------", "#######", "#######"])


@pytest.mark.parametrize(
    ("moves", "scheme"),
    [
        ("(2,1) (2,2) (2,3) (3,3) (4,3) (4,4)", "row-col from 1, top left"),
        ("(1,0) (1,1) (1,2) (2,2) (3,2) (3,3)", "row-col from 0, top left"),
        ("(1,2) (2,2) (3,2) (3,3) (3,4) (4,4)", "col-row from 1, top left"),
        ("(0,1) (1,1) (2,1) (2,2) (2,3) (3,3)", "col-row from 0, top left"),
        # rows counted from the bottom: row 0 is drawn at the bottom
        ("(2,0) (2,1) (2,2) (1,2) (0,2) (0,3)", "row-col from 0, bottom left"),
        ("(3,1) (3,2) (3,3) (2,3) (1,3) (1,4)", "row-col from 1, bottom left"),
        ("(0,2) (1,2) (2,2) (2,1) (2,0) (3,0)", "col-row from 0, bottom left"),
        ("(1,3) (2,3) (3,3) (3,2) (3,1) (4,1)", "col-row from 1, bottom left"),
        ("r2c1 r2c2 r2c3 r3c3 r4c3 r4c4", "rXcY from 1, top left"),
        ("R1C0 R1C1 R1C2 R2C2 R3C2 R3C3", "rXcY from 0, top left"),
        ("A2 B2 C2 C3 C4 D4", "letter-col from 1, top left"),
        ("A3 B3 C3 C2 C1 D1", "letter-col from 1, bottom left"),
        ("B1 B2 B3 C3 D3 D4", "letter-row from 1, top left"),
        ("down right right down down right", "words"),
        ("south east east south south east", "compass"),
        ("S E E S S E", "compass"),
        ("D R R D D R", "words"),
        ("↓ → → ↓ ↓ →", "words"),
    ],
)
def test_a_right_route_succeeds_in_every_family_of_schemes(moves, scheme):
    grade = grade_moves(SMALL, moves.split())
    assert (grade.weighted_outcome, grade.success, grade.scheme) == (1.0, True, scheme)
    assert (grade.n_valid, grade.first_illegal, grade.last_cell) == (6, None, (3, 3))


@given(
    index=st.integers(0, 400),
    size=st.sampled_from((4, 6, 10, 18)),
    scheme=st.sampled_from([s for s in all_schemes() if s.kind not in ("words", "compass")]),
    with_start=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_a_shortest_path_written_in_any_scheme_succeeds(index, size, scheme, with_start):
    maze = make(MazeSettings(size, 0.3, None, None), index)
    way = shortest_path(maze)
    grade = grade_moves(maze, [write_cell(cell, scheme, size) for cell in way[0 if with_start else 1 :]])
    assert grade.success
    assert grade.weighted_outcome == 1
    assert grade.n_valid == maze.path_length


def test_an_illegal_first_move_into_a_wall_gives_nothing():
    grade = grade_moves(SMALL, ["right", "down"])
    assert (grade.weighted_outcome, grade.success, grade.n_valid) == (0.0, False, 0)
    assert (grade.first_illegal, grade.last_cell, grade.scheme) == ("wall", (0, 0), "")


def test_leaving_the_grid_ends_the_route():
    grade = grade_moves(SMALL, ["down", "left", "right"])
    assert (grade.first_illegal, grade.n_valid, grade.last_cell) == ("off_grid", 1, (1, 0))
    assert grade.weighted_outcome == pytest.approx(1 / 6)


def test_a_jump_ends_the_route_where_it_stood():
    grade = grade_moves(SMALL, ["(2,1)", "(2,2)", "(3,3)", "(4,3)", "(4,4)"])
    assert (grade.first_illegal, grade.n_valid, grade.last_cell) == ("jump", 2, (1, 1))
    assert grade.weighted_outcome == pytest.approx(2 / 6)


def test_a_diagonal_is_a_jump():
    assert grade_moves(SMALL, ["down", "south-east"]).first_illegal == "jump"


def test_an_outcome_can_be_as_low_as_minus_11_sevenths():
    # -1.57 is the lowest in the paper's data: a = 7 from start to goal, b = 18 from the last cell.
    away = ["down", *["left"] * 6, "down", "down", "right", "right"]
    grade = grade_moves(CORRIDOR, away)
    assert CORRIDOR.path_length == 7
    assert grade.last_cell == (4, 2)
    assert grade.weighted_outcome == pytest.approx((7 - 18) / 7)
    assert round(grade.weighted_outcome, 2) == -1.57
    assert (grade.n_valid, grade.success, grade.first_illegal) == (11, False, None)


def test_no_moves_and_unreadable_moves_give_nothing():
    for given_moves in ([], ["hello", "??"]):
        grade = grade_moves(SMALL, given_moves)
        assert (grade.weighted_outcome, grade.n_moves_given, grade.first_illegal) == (0.0, 0, None)


def test_staying_in_place_is_neither_a_step_nor_illegal():
    grade = grade_moves(SMALL, ["(1,1)", "(2,1)", "(2,1)", "(2,2)"])
    assert (grade.n_moves_given, grade.n_valid, grade.first_illegal) == (4, 2, None)


def test_the_route_ends_at_the_goal_whatever_follows():
    grade = grade_moves(SMALL, ["down", "right", "right", "down", "down", "right", "right", "up"])
    assert (grade.success, grade.first_illegal, grade.n_valid) == (True, None, 6)


def test_a_route_that_reads_well_both_ways_is_ambiguous():
    # The maze is its own mirror image, so row-col and col-row both reach the goal, by different ways.
    mirror = Maze.from_rows(["@--", "---", "--*"])
    assert grade_moves(mirror, ["(1,2)", "(1,3)", "(2,3)", "(3,3)"]).ambiguous is True
    # Along the diagonal neighbours there is one reading only: no step is the same both ways here.
    assert grade_moves(SMALL, ["(2,1)", "(2,2)", "(2,3)"]).ambiguous is False
    assert grade_moves(mirror, ["down", "down", "right", "right"]).ambiguous is False


def test_the_most_favourable_of_the_readings_counts():
    # (1,2) (2,2) (2,3) is right then down then right as (row, col), or down then right then down as (col, row).
    maze = Maze.from_rows(["@-#", "#--", "##*"])
    assert grade_moves(maze, ["(1,2)", "(2,2)", "(2,3)", "(3,3)"]).success is True
    assert grade_moves(maze, ["(2,1)", "(2,2)", "(3,2)", "(3,3)"]).scheme == "col-row from 1, top left"


def _turned(rows: tuple[str, ...]) -> list[str]:
    return [row[::-1] for row in reversed(rows)]


def _mirrored(rows: tuple[str, ...]) -> list[str]:
    return ["".join(column) for column in zip(*rows, strict=True)]


@given(
    index=st.integers(0, 300),
    moves=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    lead=st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_positions_score_the_same_when_the_maze_is_turned_or_mirrored(index, moves, lead):
    # Every corner and both orders are tried, so a symmetry of the square maps the schemes onto themselves.
    maze = make(MazeSettings(), index)
    raw = [f"({r + 1},{c + 1})" for r, c in shortest_path(maze)[1 : 1 + lead]] + [f"({r},{c})" for r, c in moves]
    grade = grade_moves(maze, raw)
    for change in (_turned, _mirrored):
        other = grade_moves(Maze.from_rows(change(maze.cells)), raw)
        assert other.weighted_outcome == grade.weighted_outcome
        assert other.n_valid == grade.n_valid
        assert other.ambiguous == grade.ambiguous


@given(index=st.integers(0, 300), moves=st.lists(st.sampled_from(["up", "down", "left", "right"]), max_size=30))
@settings(max_examples=80, deadline=None)
def test_an_outcome_is_at_most_one_and_is_one_just_at_the_goal(index, moves):
    maze = make(MazeSettings(), index)
    grade = grade_moves(maze, moves)
    assert grade.weighted_outcome <= 1
    assert (grade.weighted_outcome == 1) == grade.success == (grade.last_cell == maze.goal)
    assert grade.n_valid <= grade.n_moves_given


def test_a_split_pair_is_graded_by_its_better_agent_and_flagged():
    one = ["(2,1)", "(2,2)", "(2,3)", "(3,3)", "(4,3)", "(4,4)"]
    other = ["(2,1)", "(2,2)"]
    assert grade_moves(SMALL, [], True, (other, one)).success is True
    assert grade_moves(SMALL, [], True, (other, other)).weighted_outcome == pytest.approx(2 / 6)
    assert grade_moves(SMALL, [], True, (other, one)).split_up is True


def test_interleaved_moves_of_a_split_pair_are_told_apart():
    # One agent goes right and into a dead end, the other down to the goal: read as one marker this is a jump.
    maze = Maze.from_rows(["@--", "-##", "--*"])
    mixed = ["(1,2)", "(2,1)", "(1,3)", "(3,1)", "(3,2)", "(3,3)"]
    assert grade_moves(maze, mixed).first_illegal == "jump"
    split = grade_moves(maze, mixed, split_up=True)
    assert (split.success, split.split_up, split.first_illegal) == (True, True, None)


def test_the_chance_floor_is_the_mean_over_shuffles():
    # Open square: any order of two rights and two downs arrives. Corridor corner: only one of two orders does.
    assert route_chance_floor(Maze.from_rows(["@--", "---", "--*"]), ["right", "right", "down", "down"], 20, 1) == (
        1,
        1,
    )
    outcome, success = route_chance_floor(Maze.from_rows(["@-", "#*"]), ["right", "down"], 2000, 1)
    assert outcome == success == pytest.approx(0.5, abs=0.05)


def test_the_chance_floor_follows_from_its_seed_and_lies_below_the_route_itself():
    raw = [f"({r + 1},{c + 1})" for r, c in SMALL_WAY]
    floor = route_chance_floor(SMALL, raw, 300, 7)
    assert floor == route_chance_floor(SMALL, raw, 300, 7)
    assert 0 <= floor[0] < 0.5
    assert floor[1] < 0.05


# --------------------------------------------------------------------------- graders


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"moves": ["(1,2)", "B3"], "split_up": false}', GraderAnswer(("(1,2)", "B3"), False)),
        ('```json\n{"moves": ["up"], "split_up": true}\n```', GraderAnswer(("up",), True)),
        ('Here it is: {"Moves": ["up",], "Split_Up": "True"} Done.', GraderAnswer(("up",), True)),
        ('\u200b{"mo\u200bves": ["up"]}', GraderAnswer(("up",), False)),
        ("{“moves”: [“up”]}", GraderAnswer(("up",), False)),
        ('{"moves": [], "split_up": False}', GraderAnswer((), False)),
        ('{"moves": []}', GraderAnswer((), False)),
        ('{"moves": [[1, 2], {"row": 2, "col": 2}]}', GraderAnswer(("(1,2)", "row 2, col 2"), False)),
        ('{"moves": [{"from": "(1,1)", "to": "(1,2)"}]}', GraderAnswer(("(1,2)",), False)),
        ('I first thought {"moves": ["up"]} but no: {"moves": ["down"]}', GraderAnswer(("down",), False)),
        ('{"note": "{}", "moves": ["up"]}', GraderAnswer(("up",), False)),
        ("The moves are up, down.", None),
        ('{"moves": "up, down"}', None),
        ('{"moves": ["up", 3]}', None),
        ('{"route": ["up"]}', None),
        ('{"moves": ["up"', None),
        ("", None),
    ],
)
def test_a_graders_answer_is_read_or_known_to_be_unreadable(text, answer):
    assert parse_grader_answer(text) == answer


@given(st.text(alphabet='{}[]":,moves up\n', max_size=200))
def test_reading_a_graders_answer_never_fails(text):
    assert parse_grader_answer(text) is None or isinstance(parse_grader_answer(text), GraderAnswer)


class Scripted:
    """A model that gives its answers in turn and keeps what it was asked."""

    name, provider = "test/scripted", "test"

    def __init__(self, *answers: str):
        self.answers, self.asked = list(answers), []

    async def complete(self, messages, *, tools=None, sampling):
        self.asked.append([dict(m) for m in messages])
        return Completion(self.answers.pop(0))


DIALOGUE = [
    {"seat": "user", "content": "the task"},
    {"seat": "1", "content": "Let's go down."},
    {"seat": "2", "content": "Agreed. Then right?"},
    {"seat": "1", "content": "Yes."},
]


def test_a_model_grader_reads_the_dialogue_and_its_moves_are_graded():
    model = Scripted('{"moves": ["down", "right"], "split_up": false}')
    grade, text = asyncio.run(grade_with_model(model, SMALL, DIALOGUE, "pair", Sampling()))
    assert grade == grade_moves(SMALL, ["down", "right"])
    assert text.startswith("{")
    prompt = model.asked[0][0]["content"]
    assert "Agent 1: Let's go down." in prompt
    assert "the task" not in prompt
    assert len(model.asked) == 1


def test_an_unreadable_answer_is_asked_for_once_more():
    model = Scripted("down and right", '{"moves": ["down"]}')
    grade, _ = asyncio.run(grade_with_model(model, SMALL, DIALOGUE, "pair", Sampling()))
    assert grade.n_valid == 1
    assert [m["role"] for m in model.asked[1]] == ["user", "assistant", "user"]


def test_two_unreadable_answers_give_no_grade_and_never_a_zero():
    grade, text = asyncio.run(grade_with_model(Scripted("no", "still no"), SMALL, DIALOGUE, "pair", Sampling()))
    assert grade is None
    assert text == "still no"


def test_a_solo_answer_is_graded_by_its_last_message():
    said = [
        {"seat": "1", "content": "(1,1) (1,2) (1,3)"},
        {"seat": "1", "content": "Down, right, right, down, down, right"},
    ]
    assert grade_by_rules(SMALL, said, "solo_full").success is True
    model = Scripted('{"moves": ["D", "R"]}')
    asyncio.run(grade_with_model(model, SMALL, said, "solo_distributed", Sampling()))
    assert "(1,2)" not in model.asked[0][0]["content"].split("=== BEGIN ===")[1].split("=== END ===")[0]
    assert grade_by_rules(SMALL, [], "solo_full").n_moves_given == 0


def test_rules_and_a_model_that_reads_the_same_moves_agree():
    by_rules = grade_by_rules(SMALL, DIALOGUE, "pair")
    by_model, _ = asyncio.run(
        grade_with_model(Scripted('{"moves": ["down", "right"]}'), SMALL, DIALOGUE, "relay", Sampling())
    )
    assert by_rules == by_model
    assert replace(by_rules, n_valid=99) != by_model


def test_a_transcript_names_the_agents_in_order():
    assert transcript_text(DIALOGUE).split("\n\n") == [
        "Agent 1: Let's go down.",
        "Agent 2: Agreed. Then right?",
        "Agent 1: Yes.",
    ]
