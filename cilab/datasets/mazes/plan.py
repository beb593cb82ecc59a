"""The rollouts of `simulated_mazes` as arrays: solo, pairs, relays and ablations on shared mazes.

May import `model` beside it and numpy. Builds no table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cilab.datasets.mazes import model as model
from cilab.maze.terms import RELAY_KINDS as KINDS
from cilab.maze.terms import VERSIONS

SOLO_AND_SAME, MIXED, RELAY, ABLATION = 100, 50, 100, 30
MAX_TURNS = 50
NONE = -1

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Relay inference: strong model, weak models, expected outcome by kind, weak model and K (figure 4.6 prints none:
#: chosen between both homogeneous pairs, one primer message helps much, late recovery little).
RELAY_STRONG = "sim:X01"
RELAY_MEANS = {
    ("primer", "sim:W4"): (0.62, 0.67, 0.70, 0.72),
    ("primer", "sim:W2"): (0.52, 0.57, 0.61, 0.63),
    ("recovery", "sim:W4"): (0.58, 0.52, 0.47, 0.44),
    ("recovery", "sim:W2"): (0.55, 0.47, 0.42, 0.39),
}
RELAY_K = (2, 4, 6, 8)
#: Pairs that relays continue: (starter, follower) and expected outcome.
RELAY_PAIRS = {
    ("sim:X01", "sim:W4"): 0.77,
    ("sim:W4", "sim:X01"): 0.62,
    ("sim:X01", "sim:W2"): 0.68,
    ("sim:W2", "sim:X01"): 0.58,
}
#: Ablations (appendix C): solo sizes and densities, and sizes of homogeneous pairs of strong models.
SOLO_SIZES, PAIR_SIZES, DENSITIES = (4, 8, 10, 12, 18), (8, 10), (0.0, 0.15, 0.45, 0.60, 0.75)
SIZE_MODELS = ("sim:S3", "sim:X01", "sim:S5", "sim:M2", "sim:M3", "sim:W4")
PAIR_SIZE_MODELS = ("sim:S3", "sim:X01", "sim:S5", "sim:S4")
DENSITY_MODELS = ("sim:M3", "sim:W4", "sim:X04")


def count_of(n: int, scale: float) -> int:
    return max(2, round(n * scale))


@lru_cache(maxsize=1)
def model_index() -> dict[str, int]:
    return {m: i for i, m in enumerate(model.load_models()["model"])}


@dataclass(frozen=True, slots=True)
class Mazes:
    """The mazes of each setting: (size, density) -> numbers in the arrays; all settings of runs share them."""

    size: Ints
    density: Array
    path: Ints
    at: dict[tuple[int, float], Ints]
    task_ids: tuple[str, ...]


def make_mazes(scale: float, rng: np.random.Generator) -> Mazes:
    settings = [(6, 0.30), *((n, 0.30) for n in SOLO_SIZES), *((6, p) for p in DENSITIES)]
    size, density, path, ids, at = [], [], [], [], {}
    for n, p in settings:
        count = count_of(SOLO_AND_SAME if (n, p) == (6, 0.30) else ABLATION, scale)
        at[n, p] = np.arange(len(size), len(size) + count)
        size += [n] * count
        density += [p] * count
        path += rng.integers(n + 1, n + 4, count).tolist()
        ids += [f"sim-maze-n{n}-d{round(100 * p):02d}-{i:03d}" for i in range(count)]
    return Mazes(np.array(size), np.array(density), np.array(path), at, tuple(ids))


@dataclass(frozen=True, slots=True)
class Plan:
    """Rollouts as arrays of one length. Models, mazes are numbers; -1 stands for none.

    `log_tokens` (rollouts x 2): of the agents in seats 1 and 2, for a relay after the swap; `log_tokens_first`
    before it. `count` is the number of messages.
    """

    version: Ints
    model: Ints
    partner: Ints
    maze: Ints
    path: Ints
    y: Array
    log_tokens: Array
    log_tokens_first: Array
    relay_k: Ints
    relay_kind: Ints
    count: Ints


def _block(
    mazes: Mazes,
    version: Ints | int,
    starter: Ints,
    partner: Ints,
    maze: Ints,
    mean: Array,
    rng: np.random.Generator,
    relay: tuple[Ints, Ints] | None = None,
) -> Plan:
    """Rollouts with expected outcomes `mean`."""
    n = len(maze)
    style = np.log(model.load_models()["tokens"].to_numpy().astype(float))
    second = np.where(partner == NONE, starter, partner)
    first = model.adapted(np.column_stack([style[starter], style[second]]), rng)
    y = model.lattice(mean, mazes.path[maze], rng)
    none = np.full(n, NONE)
    k, kind = relay or (none, none)
    whole = np.full(n, version) if np.isscalar(version) else np.asarray(version)
    return Plan(whole, starter, partner, maze, mazes.path[maze], y, first, first, k, kind, none)


def join(parts: list[Plan]) -> Plan:
    return Plan(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Plan)))


def annotated_kind(mazes: Mazes, scale: float, rng: np.random.Generator) -> model.Rollouts:
    """100 rollouts of each homogeneous pair and 50 of each mixed one; those on the first 50 mazes are annotated."""
    same, mixed = count_of(SOLO_AND_SAME, scale), count_of(MIXED, scale)
    counts = np.array([same if a == b else mixed for a, b in model.pairs()])
    pair = np.repeat(np.arange(len(counts)), counts)
    return model.draw_rollouts(pair, mazes.path[first_mazes(pair)], rng)


def first_mazes(pair: Ints) -> Ints:
    """Numbers 0, 1, ... within each pair: the main mazes come first."""
    counts = np.bincount(pair)
    return np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)


def from_rollouts(r: model.Rollouts) -> Plan:
    ends = np.array([[model_index()[m] for m in p] for p in model.pairs()])[r.pair]
    n, none = len(r.pair), np.full(len(r.pair), NONE)
    version = np.full(n, VERSIONS.index("pair"))
    logs = r.log_tokens
    return Plan(version, ends[:, 0], ends[:, 1], first_mazes(r.pair), r.path, r.y, logs, logs, none, none, none)


def solos(mazes: Mazes, scale: float, rng: np.random.Generator) -> Plan:
    table = model.load_models()
    n = count_of(SOLO_AND_SAME, scale)
    who = np.repeat(np.arange(table.height), 2 * n)
    version = np.tile(np.repeat([0, 1], n), table.height)
    means = table.select("solo_full", "solo_distributed").to_numpy()
    maze = np.tile(mazes.at[6, 0.30][:n], 2 * table.height)
    return _block(mazes, version, who, np.full(len(who), NONE), maze, means[who, version], rng)


def other_pairs(mazes: Mazes, scale: float, rng: np.random.Generator) -> list[Plan]:
    """Homogeneous pairs of the 19 models without tier, and the pairs that relays continue."""
    table = model.load_models()
    wanted = {(m, m): mean for m, mean in table.select("model", "pair").rows() if mean is not None} | RELAY_PAIRS
    n = count_of(SOLO_AND_SAME, scale)
    starter, partner = (np.repeat([model_index()[p[i]] for p in wanted], n) for i in (0, 1))
    maze = np.tile(mazes.at[6, 0.30][:n], len(wanted))
    return [_block(mazes, 2, starter, partner, maze, np.repeat(list(wanted.values()), n), rng)]


def relays(mazes: Mazes, scale: float, rng: np.random.Generator) -> Plan:
    n = count_of(RELAY, scale)
    cells = [
        (model_index()[weak], KINDS.index(kind), k, mean)
        for (kind, weak), means in RELAY_MEANS.items()
        for k, mean in zip(RELAY_K, means, strict=True)
    ]
    weak, kind, k = (np.repeat(np.array([c[i] for c in cells]), n) for i in range(3))
    mean = np.repeat([c[3] for c in cells], n)
    maze = np.tile(mazes.at[6, 0.30][:n], len(cells))
    strong = np.full(len(weak), model_index()[RELAY_STRONG])
    part = _block(mazes, 3, strong, weak, maze, mean, rng, (k, kind))
    style = np.log(model.load_models()["tokens"].to_numpy().astype(float))
    primer = kind == 0
    # A primer is weak and weak after the swap; a recovery weak and weak before it, and the strong model speaks next
    # (seat 1, since K is even).
    weak_pair = model.adapted(np.column_stack([style[weak], style[weak]]), rng)
    after = np.where(primer[:, None], weak_pair, part.log_tokens)
    before = np.where(primer[:, None], part.log_tokens, weak_pair)
    return replace(part, log_tokens=after, log_tokens_first=before)


def ablations(mazes: Mazes, scale: float, rng: np.random.Generator) -> list[Plan]:
    """Sizes and densities other than the main one; means fall with size, more so where the map is distributed."""
    table = model.load_models()
    means = {m: (f, d, p) for m, f, d, p in table.select("model", "solo_full", "solo_distributed", "pair").rows()}
    n = count_of(ABLATION, scale)
    cells = []
    for size in SOLO_SIZES:
        for m in SIZE_MODELS:
            cells += [(v, m, size, 0.30, _sized(means[m][v], size, v)) for v in (0, 1)]
    for size in PAIR_SIZES:
        cells += [(2, m, size, 0.30, _sized(means[m][2] or 0.88, size, 2)) for m in PAIR_SIZE_MODELS]
    for p in DENSITIES:
        for m in DENSITY_MODELS:
            cells += [(v, m, 6, p, np.clip(means[m][v] - 0.35 * (p - 0.30), 0.05, 0.995)) for v in (0, 1)]
    version = np.repeat([c[0] for c in cells], n)
    who = np.repeat([model_index()[c[1]] for c in cells], n)
    maze = np.concatenate([mazes.at[c[2], c[3]][:n] for c in cells])
    partner = np.where(version == 2, who, NONE)
    return [_block(mazes, version, who, partner, maze, np.repeat([float(c[4]) for c in cells], n), rng)]


def _sized(mean: float, size: int, version: int) -> float:
    """Expected outcome at another size: the odds fall with every cell, least for the full map."""
    odds = mean / (1 - min(mean, 0.999))
    odds *= np.exp(-(0.12, 0.30, 0.35)[version] * (size - 6))
    return float(np.clip(odds / (1 + odds), 0.05, 0.999))


def with_messages(plan: Plan, rng: np.random.Generator) -> Plan:
    """Numbers of messages: 20 to 40 for most dialogues, few at the cap (figure D.5); two in a solo run."""
    n = len(plan.y)
    spread = np.where(plan.y == 1, 6.0, 9.0)
    middle = 24 + 6 * (1 - np.clip(plan.y, 0, 1))
    count = np.clip(np.rint(middle + spread * rng.standard_normal(n)), 4, MAX_TURNS).astype(int)
    count = np.where(plan.version < 2, 2, np.maximum(count, plan.relay_k + 2))
    return replace(plan, count=count)
