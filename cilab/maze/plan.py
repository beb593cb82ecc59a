"""From a block of a study file to run specs, and what they will cost.

May import `cilab.maze.grid`, `cilab.maze.texts`, `cilab.collect.spec` and `cilab.core`. Calls no model.

Order of the plan: maze by maze, so that the first N runs of a study are balanced over models and
settings; a relay comes after the pair whose first turns it continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cilab.collect.spec import (
    RULES,
    Block,
    Entry,
    Forecast,
    ModelEntry,
    Requirement,
    RunSpec,
    SamplingEntry,
    Strict,
)
from cilab.maze import texts
from cilab.maze.grid import Maze, MazeSettings, make

#: Turns of a rollout in all (paper, section 3).
MAX_TURNS = 50
#: Expected messages of a pair and tokens of a message (paper, appendix D.5: 20 to 40 messages,
#: medians under 100 tokens); tokens of a solo answer are a guess of the same kind.
EXPECTED_TURNS, EXPECTED_TOKENS, SOLO_TOKENS = 28, 90, 400
_CHARS_PER_TOKEN = 4


class Mazes(Strict):
    """Which mazes: all combinations of sizes and densities, `count` of each from number `first` on."""

    size: int | Annotated[list[int], Field(min_length=1)] = 6
    density: float | Annotated[list[float], Field(min_length=1)] = 0.30
    path: tuple[int, int] | None = (7, 9)
    count: int = Field(default=100, ge=1)
    first: int = Field(default=0, ge=0)

    def settings(self) -> list[MazeSettings]:
        """One `MazeSettings` per combination."""
        sizes = self.size if isinstance(self.size, list) else [self.size]
        densities = self.density if isinstance(self.density, list) else [self.density]
        low, high = self.path or (None, None)
        return [MazeSettings(n, p, low, high) for n in sizes for p in densities]


class Arm(Strict):
    """A named treatment: a paragraph added to the task message of every agent."""

    name: str = Field(min_length=1)
    text: str = Field(min_length=1)


class Relay(Strict):
    """Relay inference (paper, sections 3 and 4.3).

    `seat` is the seat that the strong model takes in a recovery: `next` (the next to speak; the paper
    does not say which), `1` (starter) or `2` (follower).
    """

    strong: Entry
    weak: Entry
    kinds: list[Literal["primer", "recovery"]] = Field(default=["primer", "recovery"], min_length=1)
    k: list[Annotated[int, Field(ge=1)]] = Field(default=[2, 4, 6, 8], min_length=1)
    seat: Literal["next", "1", "2"] = "next"


class MazeBlock(Block):
    """A block of a study file with `benchmark: maze`."""

    benchmark: Literal["maze"]
    versions: list[Literal["solo_full", "solo_distributed", "pair", "relay"]] = Field(
        default=["solo_full", "solo_distributed", "pair"], min_length=1
    )
    models: list[Entry] = []
    pairs: Literal["homogeneous", "all"] | list[tuple[Entry, Entry]] = "homogeneous"
    relay: list[Relay] = []
    mazes: Mazes = Mazes()
    seeds: list[Annotated[int, Field(ge=0)]] = Field(default=[0], min_length=1)
    arms: list[Arm] = []
    max_turns: int = Field(default=MAX_TURNS, ge=2)
    critic: bool = True
    grader: str = RULES
    grader_fallbacks: list[str] = []
    sampling: SamplingEntry = SamplingEntry()

    @model_validator(mode="after")
    def _complete(self) -> MazeBlock:
        solo = {"solo_full", "solo_distributed"} & set(self.versions)
        if (solo or ("pair" in self.versions and isinstance(self.pairs, str))) and not self.models:
            raise ValueError("models: name at least one")
        if "relay" in self.versions and not self.relay:
            raise ValueError("relay: name a strong and a weak model")
        if self.relay and "relay" not in self.versions:
            raise ValueError("versions: add relay, or take the relay part out")
        late = [k for r in self.relay for k in r.k if k >= self.max_turns]
        if late:
            raise ValueError(f"relay: k = {late[0]} leaves no turn to play of {self.max_turns}")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("arms: two have the same name")
        return self

    def model_names(self) -> set[str]:
        """Every model that the block calls, graders included."""
        entries = [*self.models, *(e for r in self.relay for e in (r.strong, r.weak))]
        if not isinstance(self.pairs, str):
            entries += [e for pair in self.pairs for e in pair]
        names = {e.model for e in entries} | set(self.grader_fallbacks)
        return names if self.grader == RULES else names | {self.grader}

    def scaled(self, factor: float) -> MazeBlock:
        """The block with `count` mazes times `factor` (at least 1)."""
        count = max(1, round(self.mazes.count * factor))
        return self.model_copy(update={"mazes": self.mazes.model_copy(update={"count": count})})

    def ordered_pairs(self) -> list[tuple[ModelEntry, ModelEntry]]:
        """(starter, follower), each once."""
        if self.pairs == "homogeneous":
            return [(m, m) for m in self.models]
        if self.pairs == "all":
            return [(a, b) for a in self.models for b in self.models]
        return list(dict.fromkeys(self.pairs))


def plan(block: MazeBlock) -> Iterator[RunSpec]:
    """The run specs of a block, in order; the same block gives the same specs.

    Raises
    ------
    MazeError
        No maze fits the settings.
    """
    for settings in block.mazes.settings():
        for index in range(block.mazes.first, block.mazes.first + block.mazes.count):
            maze = cached_maze(settings, index)
            for seed in block.seeds:
                for arm in block.arms or [None]:
                    yield from _of_maze(block, _Where(settings, index, maze, seed, arm))


@lru_cache(maxsize=4096)
def cached_maze(settings: MazeSettings, index: int) -> Maze:
    """Maze number `index` of the settings."""
    return make(settings, index)


@lru_cache(maxsize=4096)
def _content_hash(maze: Maze) -> str:
    return maze.content_hash


class _Where:
    """What the specs of one maze, repeat and arm share."""

    def __init__(self, settings: MazeSettings, index: int, maze: Maze, seed: int, arm: Arm | None):
        self.settings, self.index, self.maze, self.seed, self.arm = settings, index, maze, seed, arm


def _of_maze(block: MazeBlock, where: _Where) -> Iterator[RunSpec]:
    for version in block.versions:
        if version in ("solo_full", "solo_distributed"):
            for entry in block.models:
                yield _spec(block, where, version, entry)
        elif version == "pair":
            for starter, follower in block.ordered_pairs():
                yield _spec(block, where, version, starter, follower)
        else:
            for relay in block.relay:
                yield from _relay(block, where, relay)


def _relay(block: MazeBlock, where: _Where, relay: Relay) -> Iterator[RunSpec]:
    for kind in relay.kinds:
        starter = relay.strong if kind == "primer" else relay.weak
        prefix = _spec(block, where, "pair", starter, relay.weak)
        prefix_id = prefix.run_id
        yield prefix
        for k in relay.k:
            seat = relay.seat if kind == "recovery" else "1"
            extra = {"relay_k": k, "relay_kind": kind, "relay_seat": seat, "prefix_run_id": prefix_id}
            yield _spec(block, where, "relay", relay.strong, relay.weak, extra, Requirement(prefix_id, "finished"))


def _prompt_names(version: str, critic: bool, grader: str) -> tuple[str, ...]:
    if version.startswith("solo"):
        names = (version, *(("critic",) if critic else ()))
        return names if grader == RULES else (*names, "grader_solo", "retry")
    return ("system", "pair") if grader == RULES else ("system", "pair", "grader_pair", "retry")


@lru_cache(maxsize=64)
def _prompt_hashes(names: tuple[str, ...]) -> Mapping[str, str]:
    return texts.hashes(names)


def _spec(
    block: MazeBlock,
    where: _Where,
    version: str,
    model: ModelEntry,
    partner: ModelEntry | None = None,
    extra: Mapping[str, Any] | None = None,
    requires: Requirement | None = None,
) -> RunSpec:
    m = where.settings
    low, high = m.path_range
    settings: dict[str, Any] = {
        "size": m.size,
        "density": m.density,
        "path_min": low,
        "path_max": high,
        "index": where.index,
    }
    if version.startswith("solo"):
        settings["critic"] = block.critic
    else:
        settings["max_turns"] = block.max_turns
    if where.arm:
        settings["arm_text"] = where.arm.text
    called = [name for name in (model.model, partner.model if partner else None, block.grader) if name in block.code]
    if called:
        settings["code"] = {name: block.code[name] for name in called}
    settings |= extra or {}
    sampling = {k: v for k, v in block.sampling.model_dump().items() if v is not None}
    hints = {"split": "public", "maze_size": m.size, "wall_density": m.density, "path_length": where.maze.path_length}
    if block.grader_fallbacks:
        hints["grader_fallbacks"] = list(block.grader_fallbacks)
    hints |= {k: v for k, v in (extra or {}).items() if k in ("relay_k", "relay_kind")}
    return RunSpec(
        benchmark="maze",
        task_id=where.maze.task_id,
        task_hash=_content_hash(where.maze),
        version=version,
        model=model.model,
        partner_model=partner.model if partner else None,
        effort=model.effort,
        partner_effort=partner.effort if partner else None,
        arm=where.arm.name if where.arm else None,
        seed=where.seed,
        prompts=_prompt_hashes(_prompt_names(version, block.critic, block.grader)),
        judges={"grader": block.grader},
        sampling={"default": sampling} if sampling else {},
        settings=settings,
        requires=requires,
        hints=hints,
    )


def maze_of(spec: RunSpec) -> Maze:
    """The maze of a spec, made again from its settings."""
    s = spec.settings
    return cached_maze(MazeSettings(s["size"], s["density"], s["path_min"], s["path_max"]), s["index"])


# -- what it will cost ----------------------------------------------------------------------------------


def forecast(spec: RunSpec) -> Forecast:
    """(least, expected, most) calls and tokens by model.

    The expected pair has 28 messages of 90 tokens (paper, appendix D.5); least is two messages, most the
    turn cap with messages of 400 tokens. A relay counts only the turns after its prefix.
    """
    if spec.version.startswith("solo"):
        seats = {spec.model: _solo_forecast(spec)}
    else:
        seats = _pair_forecast(spec)
    if (grader := spec.judges.get("grader", RULES)) != RULES:
        turns = 2 if spec.version.startswith("solo") else EXPECTED_TURNS
        read = [300.0 + t * EXPECTED_TOKENS for t in (2, turns, MAX_TURNS)]
        _add(seats, grader, [(1.0, read[0], 50.0), (1.0, read[1], 120.0), (2.0, 2 * read[2], 400.0)])
    return Forecast(*({name: tuple(case[i] for case in cases) for name, cases in seats.items()} for i in range(3)))


_Cases = list[tuple[float, float, float]]  # (calls, tokens in, tokens out): least, expected, most


def _add(seats: dict[str, _Cases], name: str, cases: _Cases) -> None:
    old = seats.get(name, [(0.0, 0.0, 0.0)] * 3)
    seats[name] = [(a + x, b + y, c + z) for (a, b, c), (x, y, z) in zip(old, cases, strict=True)]


@lru_cache(maxsize=64)
def _prompt_tokens(version: str, size: int) -> float:
    """Tokens of the task messages; mazes of one size have prompts of one length."""
    rows = tuple("-" * size for _ in range(size))
    maze = Maze(size, rows, (0, 0), (size - 1, size - 1), 1, "any")
    if version.startswith("solo"):
        text = texts.solo_prompt(maze, version == "solo_distributed")
    else:
        text = texts.system_prompt() + texts.pair_prompt(rows)
    return len(text) / _CHARS_PER_TOKEN


def _solo_forecast(spec: RunSpec) -> _Cases:
    prompt = _prompt_tokens(spec.version, spec.settings["size"])
    critic = len(texts.critic_prompt()) / _CHARS_PER_TOKEN
    out: _Cases = []
    for tokens in (SOLO_TOKENS / 4, SOLO_TOKENS, SOLO_TOKENS * 4):
        if spec.settings.get("critic"):
            out.append((2.0, 2 * prompt + tokens + critic, 2.0 * tokens))
        else:
            out.append((1.0, prompt, float(tokens)))
    return out


def _pair_forecast(spec: RunSpec) -> dict[str, _Cases]:
    fixed = _prompt_tokens("pair", spec.settings["size"])
    first, cap = spec.settings.get("relay_k", 0), spec.settings["max_turns"]
    seats: dict[str, _Cases] = {}
    for seat, (name, _) in enumerate(seat_players(spec)):
        cases: _Cases = []
        for turns, tokens in ((min(2, cap), 30), (min(EXPECTED_TURNS, cap), EXPECTED_TOKENS), (cap, 400)):
            mine = range(first + (first + seat) % 2, turns, 2)  # each reads all that was said before
            cases.append((float(len(mine)), len(mine) * fixed + tokens * sum(mine), float(len(mine) * tokens)))
        _add(seats, name, cases)
    return seats


Player = tuple[str, str | None]


def seat_players(spec: RunSpec) -> tuple[Player, Player]:
    """(model, effort) in seats 1 (starter) and 2 (follower); for a relay, after the swap."""
    one = (spec.model, spec.effort)
    other = one if spec.partner_model is None else (spec.partner_model, spec.partner_effort)
    if spec.version != "relay":
        return one, other
    if spec.settings["relay_kind"] == "primer":
        return other, other
    seat = spec.settings["relay_seat"]
    taken = spec.settings["relay_k"] % 2 if seat == "next" else int(seat) - 1
    return (one, other) if taken == 0 else (other, one)
