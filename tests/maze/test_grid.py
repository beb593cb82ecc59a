"""Mazes: made from a seed, within their settings; split into two copies; drawn and read back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import MazeError
from cilab.maze.grid import (
    Maze,
    MazeSettings,
    distances,
    make,
    neighbours,
    parse_maps,
    render,
    shortest_path,
    split,
)

FIRST_MAZE = ("----#-", "--##--", "--#-#@", "---#--", "-----#", "#*##-#")
SIZES = (4, 6, 8, 10, 12, 18)
DENSITIES = (0.0, 0.15, 0.30, 0.45, 0.60, 0.75)


def slow_distance(maze: Maze) -> int | None:
    """Shortest path by relaxing every edge until nothing changes: not the search under test."""
    far = 10**6
    cost = {(r, c): far for r in range(maze.size) for c in range(maze.size) if maze.cells[r][c] != "#"}
    cost[maze.start] = 0
    for _ in range(len(cost)):
        for cell in cost:
            cost[cell] = min([cost[cell], *(cost.get(n, far) + 1 for n in neighbours(cell))])
    return cost[maze.goal] if cost[maze.goal] < far else None


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_and_density_of_the_paper_gives_mazes_within_range_or_says_which_knob(size, density):
    family = MazeSettings(size, density, None, None)
    if (size, density) == (4, 0.75):  # 4 free cells: no way longer than 3 steps
        with pytest.raises(MazeError, match=r"longer than 3 steps.*lower path_min"):
            make(family, 0)
        return
    low, high = family.path_range
    for index in range(4):
        maze = make(family, index)
        assert sum(row.count("#") for row in maze.cells) == int(density * size * size + 0.5)
        assert low <= maze.path_length <= high
        assert slow_distance(maze) == maze.path_length
        assert "".join(maze.cells).count("@") == "".join(maze.cells).count("*") == 1
        assert maze.cells[maze.start[0]][maze.start[1]] == "@"
        assert maze.cells[maze.goal[0]][maze.goal[1]] == "*"


@pytest.mark.parametrize("density", [0.60, 0.75])
def test_dense_six_by_six_mazes_with_paths_of_seven_to_nine_steps_exist_and_differ(density):
    mazes = [make(MazeSettings(6, density), i) for i in range(40)]
    assert all(7 <= m.path_length <= 9 for m in mazes)
    assert len({m.cells for m in mazes}) > 35
    assert len({m.path_length for m in mazes}) > 1


def test_the_same_settings_and_index_give_the_same_maze_and_another_index_another():
    assert make(MazeSettings(), 5) == make(MazeSettings(), 5)
    assert make(MazeSettings(), 5).cells != make(MazeSettings(), 6).cells


def test_a_seeded_maze_stays_what_it_was():
    # Written down from the first version: a change of the generator must not pass unseen, it renames no maze.
    maze = make(MazeSettings(), 0)
    assert maze.task_id == "maze-n6-p0.30-l7to9-0000"
    assert maze.cells == FIRST_MAZE


def test_uniform_mazes_put_walls_everywhere_alike():
    counts = [0] * 36
    for index in range(600):
        for i, mark in enumerate("".join(make(MazeSettings(), index).cells)):
            counts[i] += mark == "#"
    # 11 walls in 36 cells; the eight symmetries of the square must not show, and no cell may be left out.
    assert min(counts) > 600 * 11 / 36 * 0.6
    assert max(counts) < 600 * 11 / 36 * 1.4
    corners, middle = [0, 5, 30, 35], [14, 15, 20, 21]
    for group in (corners, middle):
        values = [counts[i] for i in group]
        assert max(values) - min(values) < 80  # sd of one count is about 11


@pytest.mark.parametrize(
    ("family", "word"),
    [
        (MazeSettings(size=3), "size"),
        (MazeSettings(size=19), "size"),
        (MazeSettings(density=0.8), "density"),
        (MazeSettings(density=-0.1), "density"),
        (MazeSettings(density=float("nan")), "density"),
        (MazeSettings(path_min=0), "path_min"),
        (MazeSettings(path_min=9, path_max=8), "path_min"),
        (MazeSettings(density=0.0, path_min=11, path_max=12), "raise density"),
        (MazeSettings(density=0.75, path_min=9, path_max=9), "lower density"),
        (MazeSettings(path_min=35, path_max=40), "path_min"),
        (MazeSettings(density=0.1, path_min=20, path_max=22), "raise the density"),
        (MazeSettings(size=18, path_min=150, path_max=160), "path_min"),
    ],
)
def test_settings_that_no_maze_fits_are_refused_with_one_line_that_names_a_knob(family, word):
    with pytest.raises(MazeError) as caught:
        make(family, 0)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_length_bound_of_a_wall_free_maze_is_its_diagonal():
    assert make(MazeSettings(4, 0.0, 6, 6), 0).path_length == 6
    with pytest.raises(MazeError):
        make(MazeSettings(4, 0.0, 7, 7), 0)


def test_long_winding_paths_are_built_where_drawing_would_not_find_them():
    assert make(MazeSettings(6, 0.45, 16, 18), 0).path_length in (16, 17, 18)


@given(
    size=st.integers(4, 18),
    density=st.floats(0, 0.75),
    low=st.integers(1, 30),
    more=st.integers(0, 4),
    index=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_for_a_maze_fits_or_is_refused(size, density, low, more, index):
    try:
        maze = make(MazeSettings(size, density, low, low + more), index)
    except MazeError:
        return
    assert low <= maze.path_length <= low + more
    assert distances(maze)[maze.start] == maze.path_length


@given(size=st.sampled_from(SIZES), density=st.sampled_from(DENSITIES[:-1]), index=st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_the_two_copies_together_are_the_maze_and_every_cell_is_hidden_in_just_one(size, density, index):
    maze = make(MazeSettings(size, density, None, None), index)
    one, two = split(maze)
    hidden = 0
    for r in range(size):
        for c in range(size):
            seen = {one[r][c], two[r][c]}
            if (r, c) in (maze.start, maze.goal):
                assert seen == {maze.cells[r][c]}
            else:
                assert seen == {"?", maze.cells[r][c]}
                hidden += one[r][c] == "?"
    others = size * size - 2
    assert hidden in (others // 2, others - others // 2)
    assert split(maze) == (one, two)


@given(index=st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_the_shortest_path_is_as_long_as_it_says_and_walks_on_free_cells(index):
    maze = make(MazeSettings(), index)
    path = shortest_path(maze)
    assert (path[0], path[-1], len(path)) == (maze.start, maze.goal, maze.path_length + 1)
    assert all(b in neighbours(a) and maze.cells[b[0]][b[1]] != "#" for a, b in pairwise(path))


def test_distances_count_steps_around_walls_and_leave_cut_off_cells_out():
    maze = Maze.from_rows(["@#*", "---", "##-"])
    assert distances(maze) == {(0, 2): 0, (1, 2): 1, (1, 1): 2, (2, 2): 2, (1, 0): 3, (0, 0): 4}
    walled = Maze.from_rows(["@*#", "##-", "###"])
    assert (1, 2) not in distances(walled)
    assert distances(maze, (0, 1)) == {}


@pytest.mark.parametrize("rows", [["@-", "-"], ["@@", "-*"], ["--", "-*"], ["@x", "-*"], ["@#", "#*"], ["@"]])
def test_rows_that_are_no_maze_are_refused(rows):
    with pytest.raises(MazeError):
        Maze.from_rows(rows)


def test_a_maze_made_by_hand_is_named_after_its_content():
    one, same, other = (Maze.from_rows(r) for r in (["@ -", "- *"], ["@-", "-*"], ["@-", "#*"]))
    assert one.task_id == same.task_id != other.task_id
    assert one.content_hash == same.content_hash != other.content_hash


COPY = ("@-#", "?-#", "#?*")


@pytest.mark.parametrize(
    "text",
    [
        "@ - #\n? - #\n# ? *",
        "My map:\n\n@ - #\n? - #\n# ? *\n\nWhat is yours?",
        "```\n@ - #\n? - #\n# ? *\n```",
        "row 1: @ - #\nrow 2: ? - #\nrow 3: # ? *",
        "- Row 1: @ - #\n- Row 2: ? - #\n- Row 3: # ? *",
        "1 | @ - #\n2 | ? - #\n3 | # ? *",
        "  1 2 3\n1 @ - #\n2 ? - #\n3 # ? *",
        "a) @ - #\nb) ? - #\nc) # ? *",
        "| @ | - | # |\n| ? | - | # |\n| # | ? | * |",
        "@, -, #\n?, -, #\n#, ?, *",
        "@ - #\n\n? - #\n\n# ? *",
        "@ – #\r\n? — #\r\n# ? ∗",
        "> @ - #\n> ? - #\n> # ? *",
        "\\@ \\- \\#\n? - \\#\n\\# ? \\*",
    ],
)
def test_a_map_is_read_however_an_agent_draws_it(text):
    assert parse_maps(text) == [COPY]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I see # and - and ?",
        "- - -\n\nsome words",
        "@ - #\n? - #",
        "@-#\n?-#\n#?*",
        "@ o #\n? - #\n# ? *",
        "- one\n- two\n- three",
        "@ - # - - -\n? - # - - -\n# ? * - - -",
    ],
)
def test_what_is_no_map_is_not_read_as_one(text):
    assert parse_maps(text) == []


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n\nAnd the other:\n\n"])
def test_two_maps_below_each_other_are_told_apart(gap):
    assert parse_maps(render(COPY) + gap + render(COPY[::-1])) == [COPY, COPY[::-1]]


@given(index=st.integers(0, 200), size=st.sampled_from((4, 6, 10, 18)))
@settings(max_examples=30, deadline=None)
def test_a_rendered_copy_is_read_back_as_it_was(index, size):
    one, two = split(make(MazeSettings(size, 0.3, None, None), index))
    assert parse_maps(f"Hello\n{render(one)}\n\nand\n{render(two)}\nbye") == [one, two]


@given(st.text(alphabet="@*#-? \n1|o:`", max_size=300))
@settings(max_examples=200, deadline=None)
def test_reading_maps_never_fails_and_gives_even_rows(text):
    for rows in parse_maps(text):
        assert len(rows) >= 3
        assert len({len(row) for row in rows}) == 1
        assert set("".join(rows)) <= set("@*#-?")
