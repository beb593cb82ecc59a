"""Simulated maze agents: they look at their own copy, listen, and answer in plain English.

An agent is a pure function of its profile, the messages it is given and the sampling seed. It keeps no
state and never sees the maze: what it knows is its own copy (as it reads it) and what it makes of the
other's words. May import `cilab.collect.model`, `cilab.core`, `cilab.maze.grid`, `cilab.maze.texts` and
`cilab.maze.sim_talk`. Never grades, and never calls another model.

The behaviours are those that the collaboration-gap paper describes (sections 2.2 and 4, appendices D.1,
D.2 and F). How they turn out (gap, order, relay) is written nowhere here; it follows from the talking.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from cilab.collect.model import Completion, Message, Sampling, Usage
from cilab.core.errors import MazeError, nearest
from cilab.maze.grid import Cell, Rows, neighbours, parse_maps
from cilab.maze.sim_talk import STYLES, Ref, Said, Scheme, Voice, hear, locate
from cilab.maze.texts import OTHER_PREFIX, USER_PREFIX

SHARING = ("never", "asked", "upfront")
# Order in which equally good cells are looked at, as weights of row and column.
_LEANS = {"up": (1.0, 0.1), "down": (-1.0, 0.1), "left": (0.1, 1.0), "right": (0.1, -1.0)}
# What a step costs when planning, in steps.
_UNKNOWN_COST = 0.8
_REVISIT_COST = 1.5
_REFUSED_COST = 4.0
# After so many objections in a row an agent gives in, so that no pair quarrels to the turn cap.
_PATIENCE = 4
# A partner that passes over a proposal so often in a row is taken to have no objection.
_DEAF = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """What a simulated agent is like. All rates and tendencies are probabilities, 0 to 1.

    Attributes
    ----------
    name, family, open_weights, distilled, strength : as in the models table; strength is strong, medium or weak.
    coords : habitual way of naming cells, one of `sim_talk.STYLES`; base, top : first number (0 or 1), and
        whether rows are counted from the top.
    style_noise : tendency to use another way than the habitual one in a rollout.
    share_map : never, asked or upfront.
    grounds, grounds_ends : tendency to lay down how cells are named; to say where start and goal are.
    merges : tendency to put a map that was shared together with the own one (otherwise only the cells
        beside the marker are looked up in it).
    plans : tendency to plan, and announce, the whole route once enough of the map is known.
    lookahead : steps that are looked ahead otherwise; leans : which way it goes first among equally good
        ones (up, down, left or right), so that agents of one kind come to the same plan.
    misread : rate per cell of misreading the own copy, fixed for a rollout.
    mixup : further rate per cell of an error in what comes from a second map.
    slip : rate per step of proposing another step than the planned one.
    objects : tendency to object to a move that looks impossible, rather than to comply; insists : to one
        that looks useless.
    follows : tendency to take up a way of naming cells that the other laid down in words; imitates : to
        take up the other's style where it spoke first.
    checks : tendency to work out from the other's numbers which order they are in.
    tracks : tendency to notice that the other stands elsewhere.
    loses_track : rate per move, given as a direction, of losing the own position.
    asks : tendency to ask about a hidden cell before stepping on it; repairs : to restate conventions and
        share the map after a dispute.
    waits, loops, wanders, early_acti : rates per message of leaving the next proposal to the other, of only
        asking for agreement again, of proposing a step anywhere, of announcing the end too early.
    splits : tendency to suggest going separate ways.
    critic : tendency to find an own error when asked to check.
    wordy : how much is said, 0 to 1.
    """

    name: str
    family: str
    open_weights: bool
    distilled: bool
    strength: str
    coords: str
    base: int
    top: bool
    style_noise: float
    share_map: str
    grounds: float
    grounds_ends: float
    merges: float
    plans: float
    lookahead: int
    leans: str
    misread: float
    mixup: float
    slip: float
    objects: float
    insists: float
    follows: float
    imitates: float
    checks: float
    tracks: float
    loses_track: float
    asks: float
    repairs: float
    waits: float
    loops: float
    wanders: float
    early_acti: float
    splits: float
    critic: float
    wordy: float

    def __post_init__(self) -> None:
        for what, allowed in (("coords", STYLES), ("share_map", SHARING), ("leans", tuple(_LEANS))):
            if getattr(self, what) not in allowed:
                raise MazeError(
                    f"Simulated profile {self.name}: {what} must be one of {', '.join(allowed)}; correct the profile."
                )


@lru_cache(maxsize=1)
def _profiles() -> dict[str, Profile]:
    casts = {
        "bool": lambda text: text == "1",
        "int": int,
        "float": float,
        "str": str,
    }
    text = (resources.files("cilab.maze") / "profiles.csv").read_text(encoding="utf-8")
    out = {}
    for row in csv.DictReader(text.splitlines()):
        out[row["name"]] = Profile(**{f.name: casts[str(f.type)](row[f.name]) for f in fields(Profile)})
    return out


def profiles() -> dict[str, Profile]:
    """All named profiles: strong, medium, weak, and 32 pseudonymous ones (F frontier, C closed, O open)."""
    return dict(_profiles())


@dataclass(frozen=True, slots=True)
class SimAgent:
    """A `ChatModel` that acts out a profile; see the module's first lines."""

    profile: Profile

    @property
    def name(self) -> str:
        """`sim/<profile>`."""
        return f"sim/{self.profile.name}"

    @property
    def provider(self) -> str:
        """`sim`."""
        return "sim"

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The answer to `messages`: always the same for the same messages and `sampling.seed`.

        Tokens are a quarter of the characters; the cost is known to be 0 USD.
        """
        texts = [(m.get("role", ""), _plain(m.get("content"))) for m in messages]
        content = answer(self.profile, texts, sampling.seed or 0)
        usage = Usage(tokens_in=sum(len(t) for _, t in texts) // 4 + 1, tokens_out=len(content) // 4 + 1)
        honoured = {} if sampling.seed is None else {"seed": sampling.seed}
        return Completion(content, usage=usage, cost_usd=0.0, model_returned=self.name, sampling_honoured=honoured)


def simulated(profile: str) -> SimAgent:
    """The simulated agent of that name, for `sim/<profile>`.

    Raises
    ------
    MazeError : when there is no such profile; names the nearest ones.
    """
    known = _profiles()
    if profile not in known:
        raise MazeError(
            f"There is no simulated profile {profile!r}; use strong, medium, weak, or one of F1 to F6, C1 to C12, "
            f"O1 to O14.{nearest(profile, tuple(known))}"
        )
    return SimAgent(known[profile])


def describe(profile: str) -> dict[str, Any]:
    """What the models table says of a profile: family, strength, open weights, distilled."""
    found = profiles()[profile]
    return {
        "family": found.family,
        "strength": found.strength,
        "open_weights": bool(found.open_weights),
        "distilled": bool(found.distilled),
    }


def answer(profile: Profile, texts: Sequence[tuple[str, str]], seed: int) -> str:
    """What an agent of a profile says to (role, content) messages under a seed. Never raises on any text."""
    scene = _scene(texts)
    rng = random.Random(_hash(seed, profile.name, *(part for pair in texts for part in pair)))
    if not scene.copies:
        return "I cannot find a map in what I was given. Could you send me my copy of the maze?"
    if scene.alone:
        return _solo_answer(profile, scene, seed, rng)
    view = _look(profile, seed, scene.copies[0])
    beliefs = _Beliefs(view)
    for index, (mine, text) in enumerate(scene.dialogue):
        beliefs.take(index, mine, hear(text))
    return _Speaker(view, beliefs, rng, _wordiness(profile, scene.dialogue)).reply()


# --------------------------------------------------------------------------- what is asked for


class _Scene(NamedTuple):
    alone: bool
    copies: tuple[Rows, ...]
    dialogue: tuple[tuple[bool, str], ...]  # (mine, text); alone: own answers only


_TASK = re.compile(rf"^{re.escape(USER_PREFIX)}(?! written by)", re.MULTILINE)
_OTHER = re.compile(rf"^{re.escape(OTHER_PREFIX)}[ \t]?", re.MULTILINE)


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return ""


def _scene(texts: Sequence[tuple[str, str]]) -> _Scene:
    task, dialogue, paired = None, [], False
    for role, text in texts:
        if role == "assistant":
            dialogue.append((True, text))
        elif role == "user" and task is None:
            task, heard = _opening(text)
            paired = bool(_TASK.search(text)) or heard is not None
            if heard is not None:
                dialogue.append((False, heard))
        elif role == "user":
            hit = _OTHER.search(text)
            paired = paired or hit is not None
            if hit is not None:
                dialogue.append((False, text[hit.end() :]))
    copies = _copies(task or "")
    alone = not paired and (len(copies) != 1 or "?" not in "".join(copies[0]))
    return _Scene(alone, copies, tuple(dialogue))


def _opening(text: str) -> tuple[str, str | None]:
    """The task in a first user message, and the other agent's message where one was merged into it.

    A system prompt may be folded in before the task; it names both prefixes itself.
    """
    tasks = list(_TASK.finditer(text))
    start = tasks[0].end() if tasks else 0
    hit = _OTHER.search(text, start)
    return (text[start:], None) if hit is None else (text[start : hit.start()], text[hit.end() :])


@lru_cache(maxsize=2048)
def _copies(task: str) -> tuple[Rows, ...]:
    """The maps in a task that an agent can use: square, with one start and one goal."""
    out = []
    for rows in parse_maps(task):
        text = "".join(rows)
        if all(len(row) == len(rows) for row in rows) and text.count("@") == text.count("*") == 1:
            out.append(rows)
    return tuple(out)


# --------------------------------------------------------------------------- chance


def _hash(*parts: object) -> int:
    key = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def _chance(*parts: object) -> float:
    """A number in [0, 1) that is fixed by the parts."""
    return _hash(*parts) / 2**64


# --------------------------------------------------------------------------- a look at the own copy


class _View(NamedTuple):
    """An own copy as its reader takes it, with what this reader tends to in this rollout."""

    profile: Profile
    seed: int
    rows: Rows
    size: int
    start: Cell
    goal: Cell
    habit: Scheme
    grounds: bool
    grounds_ends: bool
    shares: bool
    merges: bool
    plans: bool
    follows: bool
    imitates: bool
    checks: bool
    splits: bool


@lru_cache(maxsize=4096)
def _look(profile: Profile, seed: int, copy: Rows) -> _View:
    rng = random.Random(_hash("look", seed, profile.name, *copy))
    rows = _misread(copy, profile.misread, rng)
    size, text = len(rows), "".join(rows)

    def tends(rate: float) -> bool:
        return rng.random() < rate

    return _View(
        profile,
        seed,
        rows,
        size,
        divmod(text.index("@"), size),
        divmod(text.index("*"), size),
        _habit(profile, rng),
        tends(profile.grounds),
        tends(profile.grounds_ends),
        profile.share_map == "upfront",
        tends(profile.merges),
        tends(profile.plans),
        tends(profile.follows),
        tends(profile.imitates),
        tends(profile.checks),
        tends(profile.splits),
    )


def _habit(profile: Profile, rng: random.Random) -> Scheme:
    style = profile.coords
    if rng.random() < profile.style_noise:
        other = {"row_col": "col_row", "directions": "row_col", "compass": "row_col"}
        style = other.get(style, "row_col")
    return Scheme(style, profile.base, profile.top)


def _misread(rows: Rows, rate: float, rng: random.Random) -> Rows:
    swap = {"#": "-", "-": "#"}
    return tuple("".join(swap.get(m, m) if rng.random() < rate else m for m in row) for row in rows)


# --------------------------------------------------------------------------- planning


def _beside(cell: Cell, size: int) -> list[Cell]:
    return [(r, c) for r, c in neighbours(cell) if 0 <= r < size and 0 <= c < size]


def _apart(a: Cell, b: Cell) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _search(size: int, here: Cell, goal: Cell, cost: Any, depth: int, leans: str) -> list[Cell]:
    """Cells of the cheapest way from `here` towards the goal, looking `depth` steps ahead.

    `cost(a, b)` is what the step from a to b costs, None where there is none. Beyond the horizon the way
    is taken to be straight. `[here]` when there is no step at all. Ties fall the way the agent leans.
    """
    best: tuple[float, Cell] | None = None
    came: dict[Cell, Cell] = {}
    paid = {here: 0.0}
    down, right = _LEANS[leans]
    queue: list[tuple[float, int, float, Cell]] = [(0.0, 0, 0.0, here)]
    closed = set()
    while queue:
        spent, steps, _, cell = heapq.heappop(queue)
        if cell in closed:
            continue
        closed.add(cell)
        if cell != here and (cell == goal or steps >= depth):
            total = spent + _apart(cell, goal)
            if best is None or total < best[0]:
                best = (total, cell)
            continue
        for near in _beside(cell, size):
            price = cost(cell, near)
            if price is not None and spent + price < paid.get(near, float("inf")):
                paid[near] = spent + price
                came[near] = cell
                heapq.heappush(queue, (spent + price, steps + 1, down * near[0] + right * near[1], near))
    if best is None:  # cut off from the horizon and the goal: go where it is nearest
        seen = [c for c in closed if c != here]
        if not seen:
            return [here]
        best = (0.0, min(seen, key=lambda c: (_apart(c, goal) + paid[c] / 4, c)))
    way = [best[1]]
    while way[-1] != here:
        way.append(came[way[-1]])
    return way[::-1]


# --------------------------------------------------------------------------- alone


def _solo_answer(profile: Profile, scene: _Scene, seed: int, rng: random.Random) -> str:
    copies = scene.copies
    text = "".join(copies[0])
    start, goal = divmod(text.index("@"), len(copies[0])), divmod(text.index("*"), len(copies[0]))
    voice = Voice(rng, _look(profile, seed, copies[0]).habit, len(copies[0]), profile.wordy)
    before = [answer_text for mine, answer_text in scene.dialogue if mine]
    if not before:
        route = _solo_route(profile, copies, rng)
        lead = "I put both copies together into one map. " if len(copies) > 1 else ""
        return _solo_text(voice, lead + "I looked for a way from the start to the goal.", start, goal, route)
    if rng.random() < profile.critic:
        # Checking means to look again, with fresh eyes, at every step.
        route = _solo_route(profile, copies, rng)
        return _solo_text(voice, "I checked every step again. This is my final answer.", start, goal, route)
    return f"I checked every step again and nothing has to change.\n\n{before[-1]}"


def _solo_text(voice: Voice, lead: str, start: Cell, goal: Cell, route: Sequence[Cell]) -> str:
    ground = "" if voice.scheme.in_words else f" {voice.convention()} {voice.ends(start, goal)}"
    return f"{lead}{ground}\n\n{voice.route(route)}"


def _solo_route(profile: Profile, copies: Sequence[Rows], rng: random.Random) -> list[Cell]:
    rows = _misread(copies[0], profile.misread, rng)
    for extra in copies[1:]:
        second = _misread(extra, min(1.0, profile.misread + profile.mixup), rng)
        rows = tuple(
            "".join(b if a == "?" else a for a, b in zip(x, y, strict=False))
            for x, y in zip(rows, second, strict=False)
        )
    size, text = len(rows), "".join(rows)
    goal = divmod(text.index("*"), size)
    route = [divmod(text.index("@"), size)]

    def cost(a: Cell, b: Cell) -> float:
        return 25.0 if rows[b[0]][b[1]] == "#" else 1.0 + (_REVISIT_COST if b in route else 0.0)

    for _ in range(4 * size):
        if route[-1] == goal:
            break
        step = _search(size, route[-1], goal, cost, size * size, profile.leans)[1]
        if rng.random() < profile.slip:
            step = _slip(route[-1], step, size, rng)
        route.append(step)
    return route


def _slip(here: Cell, step: Cell, size: int, rng: random.Random) -> Cell:
    """Another cell than the planned one: one beside, or a jump over the planned one."""
    others = [c for c in _beside(here, size) if c != step]
    leap = (2 * step[0] - here[0], 2 * step[1] - here[1])
    if 0 <= leap[0] < size and 0 <= leap[1] < size and rng.random() < 0.3:
        return leap
    return others[int(rng.random() * len(others))] if others else step


# --------------------------------------------------------------------------- what one believes


class _Evidence:
    """What a speaker's numbers tell about the way it names cells."""

    __slots__ = ("first_from", "goals", "guess", "kind", "rim", "since", "starts")

    def __init__(self) -> None:
        self.kind: str | None = None  # of the first cell or direction named
        self.since = 10**9  # message in which that was
        self.starts: list[Ref] = []
        self.goals: list[Ref] = []
        self.first_from: Ref | None = None
        self.rim: set[Ref] = set()  # cells at the rim, which rule numberings out
        self.guess: Scheme | None = None  # what fits all that

    def add(self, index: int, said: Said, size: int) -> None:
        """Takes in message number `index`."""
        named = said.refs[0] if said.refs else (said.move[1] if said.move else None)
        if named is None:
            return
        if self.kind is None or self.kind == "by":
            self.since = min(self.since, index)
            self.kind, self.guess = named.kind, None
        if said.start and len(self.starts) < 4:
            self.starts.append(said.start)
            self.guess = None
        if said.goal and len(self.goals) < 4:
            self.goals.append(said.goal)
            self.guess = None
        if self.first_from is None and said.move and said.move[0]:
            self.first_from, self.guess = said.move[0], None
        fresh = {r for r in said.refs if not 0 < r.a < size or not 0 < r.b < size} - self.rim
        if fresh and len(self.rim) < 40:
            self.rim |= fresh
            self.guess = None

    def fit(self, scheme: Scheme, view: _View) -> int:
        """How well the numbers go with a scheme."""
        size = view.size
        points = 3 * sum(locate(ref, scheme, size, (0, 0)) == view.start for ref in self.starts)
        points += 3 * sum(locate(ref, scheme, size, (0, 0)) == view.goal for ref in self.goals)
        if self.first_from is not None:
            points += 2 * (locate(self.first_from, scheme, size, (0, 0)) == view.start)
        for ref in self.rim:
            r, c = locate(ref, scheme, size, (0, 0))
            points -= not (0 <= r < size and 0 <= c < size)
        return points


class _Move(NamedTuple):
    mine: bool
    here: Cell  # where the proposer puts the marker
    there: Cell
    by_word: bool


class _Beliefs:
    """What an agent makes of a dialogue, message by message."""

    def __init__(self, view: _View):
        self.view = view
        self.told: dict[Cell, str] = {}
        self.pos = view.start
        self.last_way: Cell | None = None  # of the last agreed move: rows down, columns right
        self.visits: dict[Cell, int] = {view.start: 1}
        self.pending: _Move | None = None
        self.plan: list[Cell] = []
        self.laid_down: dict[bool, tuple[int, Scheme]] = {}
        self.evidence = {True: _Evidence(), False: _Evidence()}
        self.refused: dict[tuple[Cell, Cell], int] = {}
        self.mapped = {True: -1, False: -1}  # last message with a map, by speaker
        self.spoke = {True: 0, False: 0}
        self.asked: set[Cell] = set()  # cells that I asked about
        self.questions: list[Cell] = []  # of the other, open
        self.map_wanted = False
        self.map_asked = 0
        self.opposed = False  # the other's last message turned my move down
        self.out_of_step = False  # the other stands elsewhere
        self.quarrel = 0  # objections in a row, of either
        self.babble = False  # the other's last message said nothing usable
        self.deaf = 0  # messages of the other in a row that passed over my proposal
        self.told_off = -9  # last message in which conventions were restated by me
        self.split = False
        self.index = 0

    # -- reading -------------------------------------------------------------

    def reading(self, mine: bool) -> Scheme:
        """The scheme in which the messages of one side are read."""
        view, own, other = self.view, self.laid_down.get(True), self.laid_down.get(False)
        if mine and own and not (other and other[0] > own[0] and view.follows):
            return own[1]
        if other and (view.follows or not mine):
            return other[1]
        if own and not mine and self.evidence[False].since > own[0]:
            return own[1]  # I laid it down before the other named any cell, so it will keep to it
        return self._guess(mine)

    def _guess(self, mine: bool) -> Scheme:
        """The scheme that fits a speaker's numbers best; worked out again only when there are new ones."""
        found = self.evidence[mine]
        if found.guess is None:
            found.guess = self._best_fit(found)
        return found.guess

    def _best_fit(self, found: _Evidence) -> Scheme:
        view = self.view
        habit = view.habit
        style = {"rc": "r_c", "a1": "a1", "by": habit.style if habit.in_words else "directions"}.get(
            found.kind or "", habit.style
        )
        if found.kind == "xy" and style not in ("row_col", "col_row"):
            style = "row_col"
        styles = [style]
        if view.checks and found.kind == "xy":
            styles.append("col_row" if style == "row_col" else "row_col")
        options = [Scheme(s, b, habit.top) for s in styles for b in (habit.base, 1 - habit.base)]
        if found.kind in (None, "by", "a1"):
            return options[0]
        return max(options, key=lambda s: found.fit(s, view))

    def speaking(self) -> Scheme:
        """The scheme in which the agent itself speaks now."""
        view, own, other = self.view, self.laid_down.get(True), self.laid_down.get(False)
        if other and view.follows and (own is None or other[0] > own[0]):
            return other[1]
        if own:
            return own[1]
        mine, theirs = self.evidence[True], self.evidence[False]
        if theirs.kind and theirs.since < mine.since and view.imitates:
            return self._guess(False)
        return self._guess(True) if mine.kind else view.habit

    def mark(self, cell: Cell) -> str:
        """What a cell is, as far as the agent knows: own copy first, then what the other told."""
        r, c = cell
        seen = self.view.rows[r][c]
        if seen != "?":
            return seen
        if self.view.merges or _apart(cell, self.pos) <= 1:
            return self.told.get(cell, "?")
        return "?"

    def inside(self, cell: Cell) -> bool:
        """Whether a cell lies on the grid."""
        return 0 <= cell[0] < self.view.size and 0 <= cell[1] < self.view.size

    def known(self) -> float:
        """Share of the own hidden cells that the other has told."""
        hidden = sum(row.count("?") for row in self.view.rows)
        return len(self.told) / hidden if hidden else 1.0

    # -- listening -------------------------------------------------------------

    def take(self, index: int, mine: bool, said: Said) -> None:
        """Takes in message number `index`, the agent's own (also of a predecessor) or the other's."""
        self.index = index + 1
        self.spoke[mine] += 1
        if said.convention is not None:
            self.laid_down[mine] = (index, said.convention)
            self.evidence[mine].since = min(self.evidence[mine].since, index)
            if mine:
                self.told_off = index
        self.evidence[mine].add(index, said, self.view.size)
        scheme = self.reading(mine)
        self._take_maps(index, mine, said)
        self._settle(mine, said, scheme)
        self._take_claims(mine, said, scheme)
        self._take_position(mine, said, scheme)
        self._take_requests(mine, said, scheme)
        if said.move is not None:
            self._take_move(mine, said, scheme)

    def _cell(self, ref: Ref, scheme: Scheme) -> Cell:
        return locate(ref, scheme, self.view.size, self.pos)

    def _take_maps(self, index: int, mine: bool, said: Said) -> None:
        size, view = self.view.size, self.view
        for rows in said.maps:
            if len(rows) != size or any(len(row) != size for row in rows):
                continue
            self.mapped[mine] = index
            if mine:
                self.map_wanted = False
                continue
            slips = random.Random(_hash("copying", view.seed, view.profile.name, *view.rows, *rows))
            for r, row in enumerate(_misread(rows, view.profile.mixup, slips)):
                for c, mark in enumerate(row):
                    if mark in "#-" and view.rows[r][c] == "?":
                        self.told[(r, c)] = mark

    def _take_claims(self, mine: bool, said: Said, scheme: Scheme) -> None:
        if mine:
            return
        for ref, mark in said.claims:
            cell = self._cell(ref, scheme)
            if mark != "?" and self.inside(cell) and self.view.rows[cell[0]][cell[1]] == "?":
                self.told[cell] = mark

    def _take_position(self, mine: bool, said: Said, scheme: Scheme) -> None:
        if not mine:
            self.out_of_step = False
        if said.position is not None:
            cell = self._cell(said.position, scheme)
            if mine and self.inside(cell):
                self.pos = cell
            elif cell != self.pos:
                self.stands_elsewhere(cell)
        if said.plan and said.plan[0].kind != "by":
            cells = [self._cell(ref, scheme) for ref in said.plan]
            if all(self.inside(c) for c in cells):
                self.plan = cells

    def stands_elsewhere(self, cell: Cell) -> None:
        """The other takes the marker to be elsewhere: notice it, or silently go along."""
        view = self.view
        if _chance("tracks", view.seed, view.profile.name, self.index, *view.rows) < view.profile.tracks:
            self.out_of_step = True
        elif self.inside(cell):
            self.pos = cell

    def _take_requests(self, mine: bool, said: Said, scheme: Scheme) -> None:
        cells = [c for c in (self._cell(ref, scheme) for ref in said.questions) if self.inside(c)]
        if mine:
            self.asked.update(cells)
            self.questions = []
            self.map_asked += said.asks_map
            self.split = self.split or said.splits
            return
        self.questions = cells[:6]
        self.map_wanted = said.asks_map
        self.babble = said.empty
        passed_over = self.pending is not None and self.pending.mine and not (said.questions or said.move)
        self.deaf = self.deaf + 1 if said.empty or passed_over else 0

    def _settle(self, mine: bool, said: Said, scheme: Scheme) -> None:
        """Whether this message accepts or turns down the move that the other side had proposed."""
        if not mine:
            self.opposed = False
        open_move = self.pending
        if open_move is None or open_move.mine == mine:
            return
        goes_on = [said.position, said.move[0] if said.move else None]
        if said.objects:
            edge = (open_move.here, open_move.there)
            self.refused[edge] = self.refused.get(edge, 0) + 1
            self.quarrel += 1
            self.opposed = not mine
            self.pending = None
        elif said.agrees or any(ref and self._cell(ref, scheme) == open_move.there for ref in goes_on):
            self.quarrel = 0
            self.step(open_move)

    def _take_move(self, mine: bool, said: Said, scheme: Scheme) -> None:
        assert said.move is not None
        start, end = said.move
        there = self._cell(end, scheme)
        here = self._cell(start, scheme) if start is not None else self.pos
        if mine and start is not None and self.inside(here):
            self.pos = here
        self.pending = _Move(mine, here, there, end.kind == "by")

    def step(self, move: _Move) -> None:
        """Carries out an agreed move, as the agent keeps track of it."""
        view = self.view
        self.pending = None
        self.last_way = (move.there[0] - move.here[0], move.there[1] - move.here[1])
        lost = move.by_word and _chance("track", view.seed, view.profile.name, self.index, *view.rows)
        if not self.inside(move.there) or (move.by_word and lost < view.profile.loses_track):
            return
        self.pos = move.there
        self.visits[self.pos] = self.visits.get(self.pos, 0) + 1

    # -- planning -------------------------------------------------------------

    def way(self, depth: int) -> list[Cell]:
        """The way ahead as the agent would go now."""

        def cost(a: Cell, b: Cell) -> float | None:
            mark = self.mark(b)
            if mark == "#":
                return None
            price = 1.0 + (_UNKNOWN_COST if mark == "?" else 0.0)
            return price + _REVISIT_COST * self.visits.get(b, 0) + _REFUSED_COST * self.refused.get((a, b), 0)

        return _search(self.view.size, self.pos, self.view.goal, cost, depth, self.view.profile.leans)

    def horizon(self) -> int:
        """How far ahead it plans: all the way where it plans globally and knows enough."""
        whole = self.view.plans and self.view.merges and self.known() > 0.8
        return self.view.size**2 if whole else self.view.profile.lookahead


def _wordiness(profile: Profile, dialogue: Sequence[tuple[bool, str]]) -> float:
    """How much an agent says: its own way, drawn towards the other's (paper, figure D.4b)."""
    lengths = [len(text) for mine, text in dialogue if not mine]
    if not lengths:
        return profile.wordy
    theirs = min(1.0, sum(lengths) / len(lengths) / 300)
    return profile.wordy + 0.4 * profile.imitates * (theirs - profile.wordy)


# --------------------------------------------------------------------------- answering


class _Speaker:
    """Makes up one message from what an agent believes."""

    def __init__(self, view: _View, beliefs: _Beliefs, rng: random.Random, wordy: float):
        self.view, self.b, self.rng = view, beliefs, rng
        self.voice = Voice(rng, beliefs.speaking(), view.size, wordy)
        self.out: list[str] = []
        self.disputed = False
        self.agreed = False

    def _tends(self, rate: float) -> bool:
        return self.rng.random() < rate

    def say(self, *texts: str) -> None:
        """Adds sentences to the message, none of them twice."""
        self.out.extend(t for t in texts if t and t not in self.out)

    def reply(self) -> str:
        """The message."""
        b, profile = self.b, self.view.profile
        if b.spoke[True] >= 2 and self._tends(profile.early_acti):
            return self.voice.think_done()
        if not b.spoke[True]:
            self._open()
        if b.babble:
            self.say(self.voice.unclear())
        self._react()
        if b.pos == self.view.goal and b.pending is None:
            self.say(self.voice.done())
            return self._text()
        self._repair()
        self._inform()
        if not self._waits_for_map():
            self._go_on()
        return self._text()

    def _text(self) -> str:
        text = " ".join(self.out)
        return re.sub(r" *\n *", "\n", text).strip()

    # -- parts of a message -------------------------------------------------------------

    def _led(self) -> bool:
        """The other spoke first and this agent falls in with its style."""
        return self.b.spoke[False] > 0 and self.view.imitates

    def _open(self) -> None:
        view, b, voice = self.view, self.b, self.voice
        self.say(voice.greeting() if self._tends(view.profile.wordy) else "")
        led = self._led()
        grounded = b.laid_down.get(False) is not None
        if (view.grounds and not led) or (grounded and view.follows and self._tends(0.7)):
            self.say(voice.convention())
        ends_given = b.evidence[False].starts != []
        if (view.grounds_ends and not led) or (ends_given and (led or view.grounds_ends)):
            self.say(voice.ends(view.start, view.goal))
        if view.profile.wordy > 0.3 and self._tends(0.4):
            self.say(voice.symbols())
        shared = b.mapped[False] >= 0
        if (view.shares and not led) or (shared and (led or view.profile.share_map != "never")):
            self._share()
        if view.splits:
            self.say(voice.split())
            b.split = True

    def _share(self) -> None:
        if self.b.mapped[True] < 0:
            self.say(self.voice.map(self.view.rows))
            self.b.mapped[True] = self.b.index
        self.b.map_wanted = False

    def _react(self) -> None:
        """Accepts or turns down what the other proposed."""
        b, voice = self.b, self.voice
        move = b.pending
        if move is None or move.mine:
            return
        problem = self._problem(move)
        if problem is None:
            self.say(voice.agree(b.pos, move.there))
            b.quarrel = 0
            b.step(move)
            self.agreed = True
            return
        self.disputed = True
        edge = (move.here, move.there)
        b.refused[edge] = b.refused.get(edge, 0) + 1
        b.pending = None
        self.say(problem)

    def _problem(self, move: _Move) -> str | None:
        """What speaks against a move, in words; None where the agent goes along."""
        view, b, voice = self.view, self.b, self.voice
        if move.here != b.pos:
            b.stands_elsewhere(move.here)
        objects = self._tends(view.profile.objects) and b.quarrel < _PATIENCE
        if not b.inside(move.there):
            return voice.off() if objects else None
        if _apart(move.there, b.pos) != 1:
            return voice.jump(b.pos, move.there) if objects else None
        if b.mark(move.there) == "#":
            own = view.rows[move.there[0]][move.there[1]] == "#"
            text = voice.wall(b.pos, move.there) if own else voice.told_wall(b.pos, move.there)
            return text if objects else None
        if self._useless(move) and self._tends(view.profile.insists):
            return voice.detour()
        if self._prefers_another(move) and self._tends(view.profile.insists):
            b.plan = []
            return voice.other_way()
        return None

    def _prefers_another(self, move: _Move) -> bool:
        """The agent has a route of its own over the whole map that begins otherwise (said only once)."""
        view, b = self.view, self.b
        if not (view.plans and view.merges) or b.known() <= 0.8 or b.refused:
            return False
        way = b.way(view.size**2)
        return len(way) > 1 and way[1] != move.there and way[-1] == view.goal and b.mark(way[1]) in "-*"

    def _useless(self, move: _Move) -> bool:
        """The move leads back or away, and the agent knows a better one (objected to only once)."""
        b = self.b
        if move.there == self.view.goal or b.refused.get((move.here, move.there)) or b.quarrel > 1:
            return False
        way = b.way(b.horizon())
        return (
            len(way) > 1
            and way[1] != move.there
            and b.mark(way[1]) in "-*"
            and (b.visits.get(move.there, 0) > 0 or _apart(move.there, self.view.goal) > _apart(b.pos, self.view.goal))
        )

    def _repair(self) -> None:
        """After a dispute: says again how cells are named and where we are, and shares the map."""
        view, b, voice = self.view, self.b, self.voice
        trouble = self.disputed or b.opposed or b.out_of_step
        if not trouble or not self._tends(view.profile.repairs) or b.index - b.told_off < 6:
            return
        self.say(voice.mix_up() if b.out_of_step or self._tends(0.3) else "", voice.convention())
        if b.out_of_step:
            self.say(voice.stand(b.pos))
        if view.profile.share_map != "never" and b.mapped[True] < 0:
            self._share()
            if b.mapped[False] < 0:
                self.say(voice.ask_map())
                b.map_asked += 1

    def _inform(self) -> None:
        """Answers questions and a request for the map."""
        view, b, voice = self.view, self.b, self.voice
        for cell in b.questions:
            mark = view.rows[cell[0]][cell[1]]
            self.say(voice.answer(b.pos, cell, mark if mark != "?" else b.told.get(cell, "?")))
        if b.map_wanted and b.mapped[True] < 0:
            if view.profile.share_map != "never" or (b.mapped[False] >= 0 and view.imitates):
                self._share()
            else:
                self.say(voice.no_map())
                self._describe()
        elif not b.spoke[True] and not b.questions and b.mapped[True] < 0 and self._tends(0.6):
            self._describe()

    def _describe(self) -> None:
        b = self.b
        seen = [(c, self.view.rows[c[0]][c[1]]) for c in _beside(b.pos, self.view.size)]
        seen = [(c, mark) for c, mark in seen if mark in "#-"]
        if seen:
            self.say(self.voice.near(b.pos, seen))

    def _waits_for_map(self) -> bool:
        """Asks for the other copy where it is needed, and then proposes nothing yet."""
        view, b = self.view, self.b
        wants = view.shares and b.mapped[True] >= 0 and b.mapped[False] < 0
        if not wants or b.map_asked >= 2 or (b.pending is not None and b.pending.mine):
            return False
        self.say(self.voice.ask_map())
        return b.spoke[True] == 0 and not (b.pending or b.visits.keys() - {view.start})

    def _go_on(self) -> None:
        """Proposes the next move, or asks what is needed for it."""
        view, b, voice, profile = self.view, self.b, self.voice, self.view.profile
        if b.pending is not None and b.pending.mine:
            if b.deaf < _DEAF:
                self.say(
                    voice.propose(b.pos, b.pending.there, self._again(b.pos, b.pending.there)), voice.wants_agreement()
                )
                return
            self.say(voice.consent())
            b.step(b.pending)
            if b.pos == view.goal:
                self.say(voice.done())
                return
        if b.spoke[True] and not self.disputed and self._tends(profile.loops):
            self.say(voice.confirm(b.pos, stated=self.agreed))
            return
        self._announce()
        if b.spoke[True] and self.agreed and self._tends(profile.waits):
            self.say(voice.your_turn())
            return
        here, there = b.pos, self._next()
        if there == here:
            self.say(voice.go_back(), voice.ask_map())
            return
        mark = b.mark(there)
        if mark == "?" and there not in b.asked and self._tends(profile.asks):
            self.say(voice.ask(here, there))
            return
        if b.split and view.splits:
            self.say(voice.alone(here, there))
            return
        if b.opposed and b.refused.get((here, there)) and view.rows[there[0]][there[1]] == "-":
            self.say(voice.insist(here, there))
        told = view.rows[there[0]][there[1]] == "?"
        self.say(
            voice.because(here, there, mark, told),
            voice.propose(here, there, self._again(here, there)),
            voice.wants_agreement(),
        )

    def _again(self, here: Cell, there: Cell) -> bool:
        """Whether this step goes the same way as the last one."""
        last = self.b.last_way
        return last is not None and last == (there[0] - here[0], there[1] - here[1])

    def _announce(self) -> None:
        """Lays out the whole route, once the maps are merged."""
        view, b, voice = self.view, self.b, self.voice
        if b.plan or not (view.plans and view.merges and b.known() > 0.8):
            return
        way = b.way(view.size**2)
        if way[-1] == view.goal and all(b.mark(c) != "?" for c in way):
            self.say(voice.merged(), voice.plan(way))
            b.plan = way

    def _next(self) -> Cell:
        """The cell to propose, with the agent's own errors."""
        view, b, rng = self.view, self.b, self.rng
        free = [c for c in _beside(b.pos, view.size) if b.mark(c) != "#"]
        if free and self._tends(view.profile.wanders):
            return free[int(rng.random() * len(free))]
        step = self._planned()
        if step is None:
            way = b.way(b.horizon())
            step = way[1] if len(way) > 1 else b.pos
        if step != b.pos and self._tends(view.profile.slip):
            return _slip(b.pos, step, view.size, rng)
        return step

    def _planned(self) -> Cell | None:
        """The next cell of a route that either agent has laid out, where it still makes sense."""
        b = self.b
        if b.pos not in b.plan[:-1]:
            return None
        step = b.plan[b.plan.index(b.pos) + 1]
        if _apart(step, b.pos) != 1 or b.mark(step) == "#" or b.refused.get((b.pos, step)):
            return None
        return step
