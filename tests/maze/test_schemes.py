"""Notations: read from text, and turned into cells under every scheme."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.maze.schemes import (
    Scheme,
    Token,
    all_schemes,
    positions,
    read_move,
    schemes_for,
    to_cell,
    write_cell,
    write_token,
)

PLACED = [s for s in all_schemes() if s.kind not in ("compass", "words")]


def test_all_schemes_are_every_kind_by_corner_and_base_and_the_two_sorts_of_directions():
    assert len(all_schemes()) == 5 * 4 * 2 + 2
    assert len({s.name for s in all_schemes()}) == len(all_schemes())
    assert all_schemes()[0] == Scheme("row-col", "tl", 1)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("(1,2)", ["(1,2)"]),
        ("[1, 2]", ["(1,2)"]),
        ("1,2", ["(1,2)"]),
        ("( 0 ; 3 )", ["(0,3)"]),
        ("(-1, 2)", ["(-1,2)"]),
        ("(1,1) -> (1,2)", ["(1,1)", "(1,2)"]),
        ("1,1 → 1,2", ["(1,1)", "(1,2)"]),
        ("from (1,1) to (1,2)", ["(1,1)", "(1,2)"]),
        ("r1c2", ["r1c2"]),
        ("R1C2", ["r1c2"]),
        ("(r1, c2)", ["r1c2"]),
        ("row 1, column 2", ["r1c2"]),
        ("Row=1, Col=2", ["r1c2"]),
        ("column 2, row 1", ["r1c2"]),
        ("c2r1", ["r1c2"]),
        ("x=2, y=1", ["r1c2"]),
        ("B3", ["B3"]),
        ("b3", ["B3"]),
        ("3B", ["B3"]),
        ("up", ["up"]),
        ("Down.", ["down"]),
        ("E", ["east"]),
        ("n", ["north"]),
        ("L", ["left"]),
        ("→", ["right"]),
        ("⬆️", ["up"]),
        ("move right", ["right"]),
        ("right to (1,2)", ["(1,2)"]),
        ("right 2", ["right", "right"]),
        ("two steps down", ["down", "down"]),
        ("left twice", ["left", "left"]),
        ("right x3", ["right", "right", "right"]),
        ("eastward", ["east"]),
        ("north-east", ["diagonal"]),
        ("RRDD", ["right", "right", "down", "down"]),
        ("", []),
        ("let us wait", []),
        ("that's right", []),
        ("the upper left corner", []),
    ],
)
def test_a_move_is_read_in_every_notation(text, tokens):
    assert [write_token(t) for t in read_move(text)] == tokens


def test_the_same_pair_is_another_cell_under_another_scheme():
    # 4 x 4, worked by hand: two numbers 1 and 2, read as row-col or col-row, from each corner, from 0 or 1.
    token = Token("pair", 1, 2)
    expected = {
        ("row-col", "tl", 0): (1, 2),
        ("row-col", "tl", 1): (0, 1),
        ("row-col", "bl", 0): (2, 2),
        ("row-col", "bl", 1): (3, 1),
        ("row-col", "tr", 0): (1, 1),
        ("row-col", "br", 1): (3, 2),
        ("col-row", "tl", 0): (2, 1),
        ("col-row", "tl", 1): (1, 0),
        ("col-row", "bl", 0): (1, 1),
        ("col-row", "bl", 1): (2, 0),
        ("col-row", "br", 0): (1, 2),
    }
    for (kind, origin, base), cell in expected.items():
        assert to_cell(token, Scheme(kind, origin, base), 4, (0, 0)) == cell


def test_letters_begin_at_a_and_numbers_at_the_base():
    b3 = read_move("B3")[0]
    assert to_cell(b3, Scheme("letter-col", "tl", 1), 6, (0, 0)) == (2, 1)
    assert to_cell(b3, Scheme("letter-col", "bl", 1), 6, (0, 0)) == (3, 1)
    assert to_cell(b3, Scheme("letter-col", "tl", 0), 6, (0, 0)) == (3, 1)
    assert to_cell(b3, Scheme("letter-row", "tl", 1), 6, (0, 0)) == (1, 2)


def test_directions_are_steps_as_drawn_from_where_the_marker_is():
    cells = positions(["up", "east", "down 2", "west"], Scheme("words"), 6, (3, 3))
    assert cells == [(2, 3), (2, 4), (3, 4), (4, 4), (4, 3)]


def test_positions_and_directions_may_be_mixed_in_one_list():
    assert positions(["(2,2)", "right", "(3,3)"], Scheme("row-col", "tl", 1), 6, (0, 0)) == [(1, 1), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("kinds", "count"), [({"pair"}, 16), ({"rc"}, 8), ({"a1"}, 16), ({"word"}, 1), ({"pair", "word"}, 16), (set(), 0)]
)
def test_only_schemes_that_differ_for_the_notation_are_tried(kinds, count):
    assert len(schemes_for(frozenset(kinds))) == count


@given(scheme=st.sampled_from(PLACED), size=st.integers(4, 18), data=st.data())
def test_writing_a_cell_and_reading_it_back_gives_the_cell(scheme, size, data):
    cell = (data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1)))
    tokens = read_move(write_cell(cell, scheme, size))
    assert [to_cell(t, scheme, size, (0, 0)) for t in tokens] == [cell]


@given(st.text(max_size=80))
def test_reading_a_move_never_fails_and_what_it_gives_can_be_written_and_read_again(text):
    for token in read_move(text):
        again = read_move(write_token(token))
        assert len(again) == 1
