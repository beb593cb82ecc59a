"""From moves to an outcome: replayed on the maze under every scheme, the most favourable valid one counts.

May import the other core modules of `cilab.maze` and `cilab.collect.model`. Grades what was said, never changes
it; never turns an answer that could not be read into a zero.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from cilab.collect.model import ChatModel, Sampling
from cilab.maze import texts
from cilab.maze.extract import Extraction, agent_messages, extract_pair, extract_solo
from cilab.maze.grid import WALL, Cell, Maze, distances
from cilab.maze.schemes import Scheme, Token, read_move, schemes_for, to_cell

#: Name of the grader that is code.
RULES = "rules"
SOLO_VERSIONS = ("solo_full", "solo_distributed")


@dataclass(frozen=True, slots=True)
class Grade:
    """How far a route got (paper, section 3).

    Attributes
    ----------
    weighted_outcome : (a - b) / a with a the shortest path from the start and b the distance from the last
        valid cell to the goal, in steps. At most 1 (goal reached), 0 without a valid move, may be negative.
    success : the goal was reached. The route ends there: what follows the goal is not looked at.
    scheme : name of the scheme that counted; '' without a valid move.
    n_moves_given : moves handed in (steps; 'right twice' is two).
    n_valid : steps taken before the goal or the first illegal move; staying in place is no step.
    first_illegal : why the route ended early: `wall`, `off_grid`, `jump` (not a neighbouring cell), or None.
    ambiguous : several schemes give this outcome by different routes.
    split_up : each agent moved a marker of its own; the better one counts.
    last_cell : last valid cell, (row, column) from 0 at the top left.
    """

    weighted_outcome: float
    success: bool
    scheme: str
    n_moves_given: int
    n_valid: int
    first_illegal: str | None
    ambiguous: bool
    split_up: bool
    last_cell: Cell


class GraderAnswer(NamedTuple):
    """What a model grader read out of a transcript."""

    moves: tuple[str, ...]
    split_up: bool


class _Board(NamedTuple):
    size: int
    start: Cell
    goal: Cell
    length: int
    steps: Mapping[Cell, int]  # steps to the goal from every cell that can reach it
    walls: frozenset[Cell]


class _Walk(NamedTuple):
    route: tuple[Cell, ...]  # cells entered, without the start
    illegal: str | None


@lru_cache(maxsize=1024)
def _board(maze: Maze) -> _Board:
    walls = frozenset((r, c) for r, row in enumerate(maze.cells) for c, mark in enumerate(row) if mark == WALL)
    return _Board(maze.size, maze.start, maze.goal, maze.path_length, distances(maze), walls)


def grade_moves(
    maze: Maze,
    raw_moves: Sequence[str],
    split_up: bool = False,
    own_moves: Sequence[Sequence[str]] = (),
) -> Grade:
    """The most favourable valid reading of a list of moves.

    Every scheme is tried. Among those under which at least one move is valid, the one with the best outcome
    counts; equal ones are settled by a route without an illegal move, then by more valid steps, then by the
    order of `all_schemes`. With no valid move under any scheme the outcome is 0 and the marker stays at the
    start.

    Parameters
    ----------
    maze : the whole maze.
    raw_moves : moves as written, in order; a move that cannot be read is passed over.
    split_up : each agent moved on its own. Then the moves are also read as those of two markers, and each
        list in `own_moves` by itself; the best counts.
    own_moves : with `split_up`, the moves of each agent where they are known.
    """
    board = _board(maze)
    tokens = _read(raw_moves)
    best = _best(board, tokens, _walk)
    if split_up:
        others = [_best(board, tokens, _walk_two), *(_best(board, _read(own), _walk) for own in own_moves)]
        best = max([best, *others], key=lambda found: found[0])
    key, scheme, walk, ambiguous = best
    last = walk.route[-1] if walk.route else board.start
    return Grade(
        weighted_outcome=key[1],
        success=last == board.goal,
        scheme=scheme.name if scheme is not None and walk.route else "",
        n_moves_given=len(tokens),
        n_valid=len(walk.route),
        first_illegal=walk.illegal,
        ambiguous=ambiguous,
        split_up=split_up,
        last_cell=last,
    )


def _read(raw_moves: Sequence[str]) -> list[Token]:
    return [token for move in raw_moves for token in read_move(move)]


_Best = tuple[tuple[bool, float, bool, int], Scheme | None, _Walk, bool]


def _best(board: _Board, tokens: Sequence[Token], walker: Any) -> _Best:
    best: _Best | None = None
    routes: set[tuple[Cell, ...]] = set()
    for scheme in schemes_for(frozenset(t.kind for t in tokens)):
        walk = walker(board, tokens, scheme)
        outcome = _outcome(board, walk.route[-1]) if walk.route else 0.0
        key = (bool(walk.route), outcome, walk.illegal is None, len(walk.route))
        if best is None or key[:2] > best[0][:2]:
            routes = set()
        if best is None or key[:2] >= best[0][:2]:
            routes.add(walk.route)
        if best is None or key > best[0]:
            best = (key, scheme, walk, False)
    if best is None:
        return (False, 0.0, True, 0), None, _Walk((), None), False
    return (*best[:3], best[0][0] and len(routes) > 1)


def _outcome(board: _Board, last: Cell) -> float:
    return (board.length - board.steps[last]) / board.length


def _walk(board: _Board, tokens: Sequence[Token], scheme: Scheme) -> _Walk:
    """Replay from the start; ends at the goal or at the first illegal move."""
    here, route, size, steps = board.start, [], board.size, board.steps
    for token in tokens:
        there = to_cell(token, scheme, size, here)
        if there == here:
            continue
        illegal = _illegal(board, here, there)
        if illegal:
            return _Walk(tuple(route), illegal)
        route.append(there)
        here = there
        if steps[here] == 0:
            break
    return _Walk(tuple(route), None)


def _illegal(board: _Board, here: Cell, there: Cell) -> str | None:
    if not (0 <= there[0] < board.size and 0 <= there[1] < board.size):
        return "off_grid"
    if abs(there[0] - here[0]) + abs(there[1] - here[1]) != 1:
        return "jump"
    return "wall" if there in board.walls else None


def _walk_two(board: _Board, tokens: Sequence[Token], scheme: Scheme) -> _Walk:
    """Replay with two markers: a move goes to the marker that can make it, of two such to the one that moved
    longer ago. The better marker's route counts."""
    routes: tuple[list[Cell], list[Cell]] = ([], [])
    here = [board.start, board.start]
    turn, illegal = 0, None
    for token in tokens:
        fits = [m for m in (turn, 1 - turn) if _step_ok(board, here[m], to_cell(token, scheme, board.size, here[m]))]
        if not fits:
            illegal = _illegal(board, here[turn], to_cell(token, scheme, board.size, here[turn]))
            break
        mover = fits[0]
        there = to_cell(token, scheme, board.size, here[mover])
        if there != here[mover]:
            routes[mover].append(there)
            here[mover] = there
            turn = 1 - mover
        if there == board.goal:
            break
    better = min(routes, key=lambda r: board.steps[r[-1]] if r else board.length)
    return _Walk(tuple(better), None if better and better[-1] == board.goal else illegal)


def _step_ok(board: _Board, here: Cell, there: Cell) -> bool:
    return there == here or _illegal(board, here, there) is None


# --------------------------------------------------------------------------- the chance floor


def route_chance_floor(maze: Maze, raw_moves: Sequence[str], draws: int = 200, seed: int = 0) -> tuple[float, float]:
    """What the best of all schemes gives for the same moves in random order.

    Because the most favourable reading counts, meaningless moves score above nothing: this is by how much.

    Parameters
    ----------
    draws : number of shuffles.
    seed : of the shuffles.

    Returns
    -------
    mean weighted outcome and mean success of the shuffled routes, fractions.
    """
    if draws < 1:
        raise ValueError("draws must be at least 1")
    rng, moves = random.Random(seed), list(raw_moves)
    outcomes = successes = 0.0
    for _ in range(draws):
        rng.shuffle(moves)
        grade = grade_moves(maze, moves)
        outcomes += grade.weighted_outcome
        successes += grade.success
    return outcomes / draws, successes / draws


# --------------------------------------------------------------------------- graders


def extract(messages: Sequence[Mapping[str, Any]], version: str) -> Extraction:
    """The moves of a rollout by rules: of a dialogue, or of the last answer of an agent alone."""
    if version in SOLO_VERSIONS:
        said = agent_messages(messages)
        return extract_solo(said[-1][1]) if said else Extraction()
    return extract_pair(messages)


def grade_by_rules(maze: Maze, messages: Sequence[Mapping[str, Any]], version: str) -> Grade:
    """Grades a rollout without a model.

    Parameters
    ----------
    messages : rows with `seat` ('1', '2'; others are skipped) and `content`, in order.
    version : solo_full, solo_distributed, pair or relay.
    """
    found = extract(messages, version)
    return grade_moves(maze, found.moves, found.split_up, found.own_moves)


async def grade_with_model(
    model: ChatModel,
    maze: Maze,
    messages: Sequence[Mapping[str, Any]],
    version: str,
    sampling: Sampling,
) -> tuple[Grade | None, str]:
    """Grades a rollout with a model that reads out the moves (paper, section 2.1 and appendix E).

    The model never sees the maze. An answer that cannot be read is asked for once more.

    Returns
    -------
    the grade and the model's answer; the grade is None when neither answer could be read.
    """
    if version in SOLO_VERSIONS:
        said = agent_messages(messages)
        prompt = texts.grader_solo_prompt(said[-1][1] if said else "")
    else:
        prompt = texts.grader_pair_prompt(transcript_text(messages))
    answer, text = await ask_twice(model, prompt, parse_grader_answer, sampling)
    if answer is None:
        return None, text
    return grade_moves(maze, answer.moves, answer.split_up), text


def transcript_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """A dialogue as graders and annotators read it: 'Agent 1: ...', blank lines between messages."""
    return "\n\n".join(f"Agent {seat}: {content}" for seat, content in agent_messages(messages))


async def ask_twice(model: ChatModel, prompt: str, parse: Any, sampling: Sampling) -> tuple[Any, str]:
    """The parsed answer to a prompt, asked once more when `parse` gives None; and the last raw answer."""
    wire = [{"role": "user", "content": prompt}]
    text = (await model.complete(wire, sampling=sampling)).content
    found = parse(text)
    if found is None:
        wire += [{"role": "assistant", "content": text or "-"}, {"role": "user", "content": texts.retry_prompt()}]
        text = (await model.complete(wire, sampling=sampling)).content
        found = parse(text)
    return found, text


_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
_MOST_READ = 40_000  # characters of an answer that are searched, from its end
_TRAILING = re.compile(r",(\s*[\]}])")


def last_object(text: str, key: str) -> dict[str, Any] | None:
    """The last JSON object in a text that has `key`, keys in lower case.

    Code fences and words around it do not matter, nor do zero-width characters, typographic quotes, a comma
    before a closing bracket, or `True` for `true`. None when there is none.
    """
    clean = _INVISIBLE.sub("", text[-_MOST_READ:]).translate({0x201C: '"', 0x201D: '"'})
    clean = _TRAILING.sub(r"\1", clean)
    decoder = json.JSONDecoder()
    found, at = None, clean.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(clean, at)
        except (ValueError, RecursionError):
            at = clean.find("{", at + 1)
            continue
        lowered = _lower_keys(value)
        found = lowered if key in lowered else found
        at = clean.find("{", end)
    if found is None and re.search(r"\b(?:True|False|None)\b", clean):
        words = {"True": "true", "False": "false", "None": "null"}
        return last_object(re.sub(r"\b(?:True|False|None)\b", lambda m: words[m[0]], clean), key)
    return found


def _lower_keys(value: Any) -> dict[str, Any]:
    return {str(k).strip().lower(): v for k, v in value.items()} if isinstance(value, dict) else {}


def parse_grader_answer(text: str) -> GraderAnswer | None:
    """The moves in a grader's answer: its last JSON object with a list `moves`. None when there is none.

    A move may be a string, a pair of numbers ([1, 2]), or an object with `to` (and `from`) or `row` and `col`.
    """
    found = last_object(text, "moves")
    if found is None or not isinstance(found["moves"], list):
        return None
    moves = [_as_text(m) for m in found["moves"]]
    if any(m is None for m in moves):
        return None
    split = found.get("split_up", False)
    return GraderAnswer(
        tuple(m for m in moves if m), split is True or str(split).strip().lower() in ("true", "yes", "1")
    )


def _as_text(move: Any) -> str | None:
    if isinstance(move, str):
        return move
    if isinstance(move, list) and len(move) == 2:
        if all(isinstance(x, int) for x in move):
            return f"({move[0]},{move[1]})"
        ends = [_as_text(x) for x in move]
        return None if None in ends else " -> ".join(ends)  # type: ignore[arg-type]
    if isinstance(move, dict):
        named = _lower_keys(move)
        if "row" in named and ("col" in named or "column" in named):
            return f"row {named['row']}, col {named.get('col', named.get('column'))}"
        for key in ("to", "move", "direction", "position"):
            if key in named:
                return _as_text(named[key])
    return None
