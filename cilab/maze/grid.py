"""Mazes as grids: making them from a seed, hiding half of the cells, drawing and reading them as text.

May import `cilab.core` and `cilab.collect.spec` (for the hash) only. Calls no model, reads no file, and
never uses a source of chance other than the seed that follows from its arguments.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cilab.collect.spec import digest
from cilab.core.errors import MazeError

Cell = tuple[int, int]
Rows = tuple[str, ...]

START, GOAL, WALL, PATH, HIDDEN = "@", "*", "#", "-", "?"
SIZES = (4, 18)
DENSITIES = (0.0, 0.75)

# A pilot of this many uniform draws decides how the mazes of a setting are made.
_PILOT_DRAWS = 300
_PILOT_HITS = 3
_UNIFORM_DRAWS = 30_000
# Work that is spent on a maze built around a path, in cells looked at (a few seconds at most).
_BUILT_COST = 400_000
_PATH_STEPS = 4_000


@dataclass(frozen=True, slots=True)
class MazeSettings:
    """What a family of mazes looks like (collaboration-gap paper, section 3; ablations in appendix C).

    Attributes
    ----------
    size : cells along a side, 4 to 18.
    density : walls as a fraction of all cells, 0 to 0.75. A maze has exactly
        round(density * size * size) walls (halves up).
    path_min, path_max : shortest path from start to goal, in steps, both ends allowed. Both None: a range
        that grows with the size, size + 1 to size + 3 (7 to 9 for the paper's 6 x 6).
    """

    size: int = 6
    density: float = 0.30
    path_min: int | None = 7
    path_max: int | None = 9

    @property
    def path_range(self) -> tuple[int, int]:
        """Least and greatest length of the shortest path, in steps."""
        low = self.size + 1 if self.path_min is None else self.path_min
        high = max(low, self.size + 3) if self.path_max is None else self.path_max
        return low, high

    @property
    def walls(self) -> int:
        """Number of wall cells."""
        return math.floor(self.density * self.size * self.size + 0.5)


@dataclass(frozen=True, slots=True)
class Maze:
    """One maze.

    Attributes
    ----------
    size : cells along a side.
    cells : the rows from the top, one character a cell ('@' start, '*' goal, '#' wall, '-' path).
    start, goal : (row, column), counted from 0 at the top left.
    path_length : shortest path from start to goal, in steps.
    task_id : a readable name; a maze made by hand is named after its content.
    """

    size: int
    cells: Rows
    start: Cell
    goal: Cell
    path_length: int
    task_id: str = ""

    def __post_init__(self) -> None:
        if not self.task_id:
            object.__setattr__(self, "task_id", f"maze-n{self.size}-{self.content_hash[:10]}")

    @property
    def content_hash(self) -> str:
        """Hash of the cells; equal for equal mazes, whatever their name."""
        return digest(list(self.cells))

    @classmethod
    def from_rows(cls, rows: Iterable[str], task_id: str = "") -> Maze:
        """A maze from rows such as '@-#*' (spaces between the symbols are allowed).

        Raises
        ------
        MazeError : when the rows are not a square with one start, one goal and a way between them.
        """
        cells = tuple("".join(row.split()) for row in rows)
        text = "".join(cells)
        size = len(cells)
        if size < 2 or any(len(row) != size for row in cells):
            raise MazeError("A maze needs as many rows as columns, at least 2; give every row the same length.")
        if text.count(START) != 1 or text.count(GOAL) != 1 or set(text) - {START, GOAL, WALL, PATH}:
            raise MazeError("A maze is made of one '@', one '*', and '#' or '-' elsewhere; correct the rows.")
        start, goal = divmod(text.index(START), size), divmod(text.index(GOAL), size)
        length = _distance(_free_bits(cells), size + 1, _bit(start, size), _bit(goal, size), size * size)
        if length is None:
            raise MazeError("The maze has no way from start to goal; take a wall away.")
        return cls(size, cells, start, goal, length, task_id)


def make(settings: MazeSettings, index: int) -> Maze:
    """Maze number `index` of a family; the same on every machine.

    Where enough uniform draws fit (walls, start and goal all drawn uniformly, kept when the shortest path is
    in range), mazes are such draws: uniform over everything that fits. Where hardly any fits (dense walls,
    long paths), a path that touches itself nowhere is drawn first and kept free, then walls are spread
    uniformly over the other cells. Which of the two is used depends on the settings alone, not on the index.

    Parameters
    ----------
    settings : size, density and range of the shortest path.
    index : 0, 1, 2, ...

    Raises
    ------
    MazeError : when no maze fits the settings; says which knob to turn.
    """
    _check(settings)
    if index < 0:
        raise MazeError(f"Maze index {index} is below 0; count from 0.")
    rng = _rng("maze", _settings_key(settings), index)
    found = (_uniform if _uniform_works(settings) else _built)(settings, rng)
    if found is not None:
        return _to_maze(settings, index, *found)
    low, high = settings.path_range
    raise MazeError(
        f"No {settings.size} x {settings.size} maze with {settings.walls} walls "
        f"(density {settings.density:g}) and a shortest path of {low} to {high} steps was found; lower path_min, or "
        f"{'raise' if low > 2 * (settings.size - 1) else 'lower'} the density."
    )


def distances(maze: Maze, to: Cell | None = None) -> dict[Cell, int]:
    """Steps from every cell that can reach `to` (default the goal), by breadth-first search.

    Returns
    -------
    dict from (row, column) to steps; walls and cut-off cells are absent.
    """
    target = maze.goal if to is None else to
    free = {(r, c) for r, row in enumerate(maze.cells) for c, mark in enumerate(row) if mark != WALL}
    if target not in free:
        return {}
    found = {target: 0}
    front = [target]
    while front:
        cell = front.pop(0)
        for near in neighbours(cell):
            if near in free and near not in found:
                found[near] = found[cell] + 1
                front.append(near)
    return found


def shortest_path(maze: Maze) -> list[Cell]:
    """One shortest path, start and goal included (where several exist, the same one every time)."""
    steps = distances(maze)
    path = [maze.start]
    while path[-1] != maze.goal:
        path.append(min((n for n in neighbours(path[-1]) if n in steps), key=steps.__getitem__))
    return path


def neighbours(cell: Cell) -> tuple[Cell, Cell, Cell, Cell]:
    """The four cells beside a cell (up, down, left, right), also those off the grid."""
    r, c = cell
    return (r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)


def split(maze: Maze) -> tuple[Rows, Rows]:
    """Two copies of a maze, each with about half of the cells hidden (paper, section 2.1).

    Every cell other than start and goal is hidden ('?') in exactly one copy. The split follows from the
    maze's content.
    """
    rng = _rng("split", maze.content_hash)
    cells = [(r, c) for r in range(maze.size) for c in range(maze.size) if (r, c) not in (maze.start, maze.goal)]
    _shuffle(cells, rng)
    cut = len(cells) // 2 + (_below(rng, 2) if len(cells) % 2 else 0)
    return _hide(maze.cells, cells[:cut]), _hide(maze.cells, cells[cut:])


def render(rows: Sequence[str]) -> str:
    """Rows as text: symbols separated by single spaces, one row a line."""
    return "\n".join(" ".join(row) for row in rows)


# A line of a map: maybe a bullet or a quote mark, maybe a row label, then three or more symbols set apart.
MAP_LINE = re.compile(
    r"^[ \t>|`]{0,40}"
    r"(?:(?:[-*•][ \t]+)?\**row[ \t]*\d{1,2}\**[ \t]*[:.)|=-]?\**[ \t]+"
    r"|(?:\d{1,2}|[a-r])[ \t]*[:.)|]?[ \t]+)?"
    r"[\[(|`]?[ \t]{0,8}"
    r"([@*#?-](?:[ \t,|]+[@*#?-]){2,})"
    r"[ \t|`\])]*$",
    re.MULTILINE | re.IGNORECASE,
)
_GAP = re.compile(r"[ \t,|]+")
_BLANK = re.compile(r"\s*\n\s*\n\s*")
_LOOKALIKES = str.maketrans(
    {"–": "-", "—": "-", "−": "-", "‐": "-", "∗": "*", "＊": "*", "＃": "#", "\\": None, "\r": None}
)


def parse_maps(text: str) -> list[Rows]:
    """Every map drawn in a text, in order.

    A map is three or more lines of symbols out of '@*#-?', set apart by spaces (or commas, or bars), about
    as many lines as symbols in a line. Lines may carry row labels ('row 1: @ # -', '1 | @ # -'), and may be
    double spaced. Several equal maps right below each other are told apart by their width.
    """
    if text.isascii() and "\\" not in text and "\r" not in text:
        clean = text
    else:
        clean = text.translate(_LOOKALIKES)
    runs: list[list[str]] = []
    spaced: list[bool] = []  # whether a run is preceded by a blank line only
    end = None
    for hit in MAP_LINE.finditer(clean):
        row = _GAP.sub("", hit[1])
        between = None if end is None else clean[end : hit.start()]
        if between == "\n" and len(runs[-1][-1]) == len(row):
            runs[-1].append(row)
        else:
            runs.append([row])
            spaced.append(between is not None and _BLANK.fullmatch(between) is not None)
        end = hit.end()
    return [chunk for run in _join_double_spaced(runs, spaced) for chunk in _squares(run)]


def _join_double_spaced(runs: list[list[str]], spaced: list[bool]) -> list[list[str]]:
    out: list[list[str]] = []
    loose = False  # whether the last run is made of single lines
    for run, after_blank in zip(runs, spaced, strict=True):
        if len(run) == 1 and after_blank and loose and len(out[-1][0]) == len(run[0]):
            out[-1].extend(run)
        else:
            out.append(list(run))
            loose = len(run) == 1
    return out


def _squares(run: list[str]) -> list[Rows]:
    height, width = len(run), len(run[0])
    if height < 3:
        return []
    if abs(height - width) <= 1:
        return [tuple(run)]
    if height % width == 0:
        return [tuple(run[i : i + width]) for i in range(0, height, width)]
    return []


# --------------------------------------------------------------------------- making a maze


def _check(settings: MazeSettings) -> None:
    size, (low, high) = settings.size, settings.path_range
    if not SIZES[0] <= size <= SIZES[1]:
        raise MazeError(f"Maze size {size} is not between {SIZES[0]} and {SIZES[1]}; change size.")
    if not DENSITIES[0] <= settings.density <= DENSITIES[1]:
        raise MazeError(
            f"Wall density {settings.density:g} is not between {DENSITIES[0]:g} and {DENSITIES[1]:g}; change density."
        )
    if not 1 <= low <= high:
        raise MazeError(f"Path range {low} to {high} is empty or below 1; set 1 <= path_min <= path_max.")
    most, knob = _longest(settings)
    if low > most:
        raise MazeError(
            f"A {size} x {size} maze with {settings.walls} walls (density {settings.density:g}) has no "
            f"shortest path longer than {most} steps, but path_min is {low}; lower path_min or {knob}."
        )


def _longest(settings: MazeSettings) -> tuple[int, str]:
    """An upper bound of the shortest path in steps, and the other knob that would lift it."""
    cells = settings.size * settings.size
    if settings.walls == 0:
        return 2 * (settings.size - 1), "raise density or size"
    # Four cells of a 2 x 2 block never lie on one shortest path longer than two steps.
    crowded = cells - (settings.size // 2) ** 2 - 1
    free = cells - settings.walls - 1
    return (free, "lower density") if free <= crowded else (crowded, "raise size")


def _settings_key(settings: MazeSettings) -> str:
    low, high = settings.path_range
    two = f"{settings.density:.2f}"
    density = two if float(two) == settings.density else repr(float(settings.density))
    return f"n{settings.size}-p{density}-l{low}to{high}"


def _to_maze(settings: MazeSettings, index: int, walls: set[int], start: int, goal: int, length: int) -> Maze:
    size = settings.size
    flat = [WALL if i in walls else PATH for i in range(size * size)]
    flat[start], flat[goal] = START, GOAL
    rows = tuple("".join(flat[r * size : (r + 1) * size]) for r in range(size))
    name = f"maze-{_settings_key(settings)}-{index:04d}"
    return Maze(size, rows, divmod(start, size), divmod(goal, size), length, name)


@lru_cache(maxsize=256)
def _uniform_works(settings: MazeSettings) -> bool:
    rng = _rng("pilot", _settings_key(settings))
    hits = 0
    for _ in range(_PILOT_DRAWS):
        hits += _draw_uniform(settings, rng) is not None
        if hits >= _PILOT_HITS:
            return True
    return False


_Draw = tuple[set[int], int, int, int]


def _draw_uniform(settings: MazeSettings, rng: random.Random) -> _Draw | None:
    size = settings.size
    picked = _sample(size * size, settings.walls + 2, rng)
    start, goal, walls = picked[0], picked[1], set(picked[2:])
    return _if_in_range(settings, walls, start, goal)


def _uniform(settings: MazeSettings, rng: random.Random) -> _Draw | None:
    for _ in range(_UNIFORM_DRAWS):
        found = _draw_uniform(settings, rng)
        if found is not None:
            return found
    return None


def _built(settings: MazeSettings, rng: random.Random) -> _Draw | None:
    size, (low, high) = settings.size, settings.path_range
    high = min(high, _longest(settings)[0])
    cost = 0
    while cost < _BUILT_COST:
        path, steps = _lone_path(size, low + _below(rng, high - low + 1), rng)
        cost += steps + size * size
        if path is None:
            continue
        on_path = set(path)
        others = [i for i in range(size * size) if i not in on_path]
        walls = {others[i] for i in _sample(len(others), settings.walls, rng)}
        found = _if_in_range(settings, walls, path[0], path[-1])
        if found is not None:
            return found
    return None


def _if_in_range(settings: MazeSettings, walls: set[int], start: int, goal: int) -> _Draw | None:
    size, (low, high) = settings.size, settings.path_range
    free = 0
    for i in range(size * size):
        if i not in walls:
            free |= 1 << (i + i // size)
    found = _distance(free, size + 1, 1 << (start + start // size), 1 << (goal + goal // size), high)
    return (walls, start, goal, found) if found is not None and found >= low else None


def _lone_path(size: int, length: int, rng: random.Random) -> tuple[list[int] | None, int]:
    """A random path of `length` steps of which no two cells touch but those that follow each other.

    Also the number of steps tried; the path is None when it was not found in `_PATH_STEPS`.
    """
    path = [_below(rng, size * size)]
    used = set(path)
    choices = [_onward(path, used, size, rng)]
    for tried in range(_PATH_STEPS):
        if len(path) == length + 1:
            return path, tried
        if choices[-1]:
            path.append(choices[-1].pop())
            used.add(path[-1])
            choices.append(_onward(path, used, size, rng))
        elif len(path) > 1:
            used.discard(path.pop())
            choices.pop()
        else:
            return None, tried
    return None, _PATH_STEPS


def _onward(path: list[int], used: set[int], size: int, rng: random.Random) -> list[int]:
    here = path[-1]
    out = [n for n in _beside(here, size) if n not in used and sum(m in used for m in _beside(n, size)) == 1]
    _shuffle(out, rng)
    return out


def _beside(cell: int, size: int) -> list[int]:
    r, c = divmod(cell, size)
    out = []
    if r:
        out.append(cell - size)
    if r < size - 1:
        out.append(cell + size)
    if c:
        out.append(cell - 1)
    if c < size - 1:
        out.append(cell + 1)
    return out


# A grid as the bits of one integer, each row one bit wider than the maze: the extra bit is never free, so
# that a shift by one cannot wrap into the next row.


def _bit(cell: Cell, size: int) -> int:
    return 1 << (cell[0] * (size + 1) + cell[1])


def _free_bits(rows: Rows) -> int:
    size = len(rows)
    return sum(_bit((r, c), size) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != WALL)


def _distance(free: int, width: int, start: int, goal: int, most: int) -> int | None:
    """Steps from start to goal over free bits; None when farther than `most` or not to be reached."""
    seen = front = start
    for steps in range(most + 1):
        if front & goal:
            return steps
        front = ((front << 1) | (front >> 1) | (front << width) | (front >> width)) & free & ~seen
        if not front:
            return None
        seen |= front
    return None


# --------------------------------------------------------------------------- chance
# Only `Random.random` is promised to give the same numbers in every version of Python, so all is built on it.


def _rng(*parts: object) -> random.Random:
    key = "|".join(map(str, parts)).encode()
    return random.Random(int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big"))


def _below(rng: random.Random, n: int) -> int:
    return int(rng.random() * n)


def _sample(n: int, k: int, rng: random.Random) -> list[int]:
    """`k` different numbers below `n`, in random order."""
    pool = list(range(n))
    for i in range(k):
        j = i + _below(rng, n - i)
        pool[i], pool[j] = pool[j], pool[i]
    return pool[:k]


def _shuffle(items: list, rng: random.Random) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = _below(rng, i + 1)
        items[i], items[j] = items[j], items[i]


def _hide(rows: Rows, cells: Iterable[Cell]) -> Rows:
    grid = [list(row) for row in rows]
    for r, c in cells:
        grid[r][c] = HIDDEN
    return tuple("".join(row) for row in grid)
