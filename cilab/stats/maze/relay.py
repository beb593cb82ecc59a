"""Relay inference: what K turns of a strong agent are worth at the start of a dialogue, or after it.

May import `cilab.core` and `cilab.stats`. Compares relays with both homogeneous pairs in the same mazes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Column, Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze import rows as maze_rows
from cilab.stats.maze.rows import Clustering, Density, MazeOutcome, bare, interval_notes
from cilab.stats.methods.means import Units, clustered_mean
from cilab.stats.methods.ratings import MOST_UNDEFINED
from cilab.stats.methods.uncertainty import LEAST_UNITS, NO_SPREAD, Bounds, IntervalKind, draw_bounds, too_few

#: Gaps and spreads below are rounding.
_NOTHING = 1e-12

KINDS = {"primer": "strong primer", "recovery": "strong recovery"}

_POINTS = {
    "strong": pl.String,
    "weak": pl.String,
    "kind": pl.String,
    "k": pl.Int64,
    "n": pl.Int64,
    "n_left_out": pl.Int64,
    "n_ended_before_swap": pl.Int64,
    **dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64),
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
    "n_mazes": pl.Int64,
    **dict.fromkeys(("over_weak", "over_weak_lo", "over_weak_hi", "over_weak_p"), pl.Float64),
    **dict.fromkeys(("closed", "closed_lo", "closed_hi"), pl.Float64),
    "reason": pl.String,
}
_REFERENCES = {
    "strong": pl.String,
    "weak": pl.String,
    "reference": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64),
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
}
_CONTRASTS = {
    "strong": pl.String,
    "weak": pl.String,
    "what": pl.String,
    "k": pl.Int64,
    "n_mazes": pl.Int64,
    "n_clusters": pl.Int64,
    **dict.fromkeys(("diff", "lo", "hi", "p"), pl.Float64),
    "reason": pl.String,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class RelayResult(Result):
    """Outcome against K.

    Attributes
    ----------
    table : one row per strong agent, weak agent, kind and K: `n`, `n_left_out`, `n_ended_before_swap` (of the scored:
        the first turns ended the dialogue, so nobody was swapped in; they count), `mean, se, lo, hi`, `n_clusters`
        (mazes, or what `cluster` names, behind the interval), `no_interval` (why there is none); paired by maze
        `n_mazes` and `over_weak` (relay - two copies of the weak agent) with interval and p (paired t); `closed`, the
        share of the gap between the two homogeneous pairs that the relay closes, with its percentile interval over
        mazes at the expanded level (`cilab.stats.methods.uncertainty`); `reason` where one of these is undefined.
    references : mean and band of both homogeneous pairs, with `n_clusters` and `no_interval`.
    contrasts : paired by maze, `primer - recovery` at each K, and the change per turn of K (`slope of primer`,
        `slope of recovery`: the least-squares slope within each maze, its mean over mazes).
    statements : what the numbers say, in sentences.
    """

    references: pl.DataFrame
    contrasts: pl.DataFrame
    statements: tuple[str, ...]

    figure: ClassVar[str | None] = "relay"
    title: ClassVar[str] = "Relay inference"

    def sheet(self) -> Sheet:
        """One line per relay point, the homogeneous pairs above them."""
        lines = [
            {"Strong": r["strong"], "Weak": r["weak"], "Relay": r["reference"], "K": "", "Mean": _mean(r)}
            | {"n": str(r["n"]), "Over two weak": "", "Gap closed": ""}
            for r in self.references.iter_rows(named=True)
        ]
        for r in self.table.iter_rows(named=True):
            over, closed = (bare(r, name).ends() for name in ("over_weak", "closed"))
            lines.append(
                {"Strong": r["strong"], "Weak": r["weak"], "Relay": KINDS[r["kind"]], "K": str(r["k"])}
                | {"Mean": _mean(r), "n": str(r["n"]), "Over two weak": over, "Gap closed": closed}
            )
        return self.on_sheet(pl.DataFrame(lines).sort("Strong", "Weak", maintain_order=True))

    def notes(self) -> list[str]:
        """What the numbers say, what has no interval, then what was used and left out."""
        gone = [r for t in (self.references, self.table) for r in t.filter(pl.col("mean").is_not_null())["no_interval"]]
        differences = self.table.filter(pl.col("over_weak").is_not_null() & pl.col("over_weak_lo").is_null())
        words = differences["reason"].str.extract("over two weak: ([^;]*)")
        return [*self.statements, *interval_notes({"means": gone, "differences": words}), *super().notes()]


@estimator
def relay(
    data: Any,
    *,
    outcome: MazeOutcome = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    arm: str | None = None,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> RelayResult:
    """Outcome against K for strong primer and strong recovery, with both homogeneous pairs as references.

    The share of the gap that is closed is (relay - weak pair) / (strong pair - weak pair) over the mazes that all
    three have; its interval is that of percentiles over mazes drawn with replacement, the same draw for all three, at
    the expanded level that allows for few mazes. Differences are over the mazes that both have, each maze once.

    Parameters
    ----------
    data : an opened study, a data set, or a runs table with `version, model` (the strong agent of a relay),
        `partner_model` (the weak one), `status, relay_k, relay_kind` and the outcome; `task_id` for pairing by maze.
    outcome, maze_size, wall_density, arm, ci_level : as in `cilab.stats.maze.pairs.pairs`.
    resamples, seed : of the interval of the share closed.
    cluster : what intervals are taken over; as in `cilab.stats.maze.gap.gap`. By "rollout" means have the paper's plain
        standard errors, and the share closed plain percentiles; what is paired by maze stays so.

    Returns
    -------
    RelayResult

    Raises
    ------
    TableError
        No scored relay, a relay without K or kind, or clusters that cannot be used.

    References
    ----------
    Collaboration-gap paper, sections 3 and 4.3, figure 4.6.
    """
    found = maze_rows.read_maze_rows(
        data,
        outcome=outcome,
        versions=("pair", "relay"),
        what="rollout of a pair or a relay in a maze",
        fixed={"maze_size": maze_size, "wall_density": wall_density, "arm": arm},
        optional=("relay_k", "relay_kind", "rounds"),
        cluster=cluster,
    )
    relays = found.rows.filter(pl.col("version") == "relay")
    _check_relays(relays)
    units = found.clustering.units(ci_level, outcome)
    asked = _Asked(units, found.clustering, resamples, seed)
    points, references, contrasts = [], [], []
    teams = sorted(relays.partition_by("first", "second", as_dict=True).items())
    for (strong, weak), part in teams:
        own = {name: _pair_of(found.rows, name) for name in (strong, weak)}
        references += _references(strong, weak, own, units)
        new_points, mazes = _points(strong, weak, part, own, asked)
        points += new_points
        contrasts += [{"strong": strong, "weak": weak} | row for row in _contrasts(mazes, asked)]
    other = found.used.filter(_no_reference({name for team, _ in teams for name in team})).height
    left_out = dict(found.left_out) | ({"pairs that are no reference of a relay": other} if other else {})
    table = pl.DataFrame(points, schema=_POINTS)
    contrast_table = pl.DataFrame(contrasts, schema=_CONTRASTS)
    return RelayResult(
        table=table,
        references=pl.DataFrame(references, schema=_REFERENCES),
        contrasts=contrast_table,
        statements=(*_statements(table, contrast_table), *found.clustering.notes()),
        n_used=found.used.height - other,
        n_left_out=left_out,
        provenance=found.provenance,
        parameters=found.parameters,
        caption=f"{maze_rows.OUTCOMES[outcome]} ± half the {found.clustering.level(units)}, in "
        f"{found.maze_words()}. K: turns before the swap. Differences and shares are paired by maze.",
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    units: Units
    clustering: Clustering
    resamples: int
    seed: int


def _check_relays(relays: pl.DataFrame) -> None:
    if relays.is_empty():
        raise TableError("runs: no relay rollout of a maze; add `versions: [relay]` and a relay part to the study")
    gone = relays.filter(pl.col("relay_k").is_null() | pl.col("relay_kind").is_null()).height
    if gone:
        raise TableError(f"runs: {gone} relay rollouts without relay_k or relay_kind")
    if stray := sorted(set(relays["relay_kind"]) - set(KINDS)):
        raise TableError(f"runs: relay_kind is {stray[0]!r}, not one of {', '.join(KINDS)}")


def _pair_of(rows: pl.DataFrame, agent: str) -> pl.DataFrame:
    return rows.filter((pl.col("version") == "pair") & (pl.col("first") == agent) & (pl.col("second") == agent))


def _no_reference(agents: set[str]) -> pl.Expr:
    """Pairs that are not two copies of an agent of a relay."""
    return (pl.col("version") == "pair") & ((pl.col("first") != pl.col("second")) | ~pl.col("first").is_in(agents))


def _references(strong: str, weak: str, own: Mapping[str, pl.DataFrame], units: Units) -> list[dict[str, Any]]:
    head = {"strong": strong, "weak": weak}
    return [
        head
        | {"reference": f"two copies of the {role} agent"}
        | clustered_mean(maze_rows.sample(_scored(own[name])), units)
        for role, name in head.items()
    ]


def _points(
    strong: str, weak: str, relays: pl.DataFrame, own: Mapping[str, pl.DataFrame], asked: _Asked
) -> tuple[list[dict[str, Any]], dict[tuple[str, int], dict[str, float]]]:
    """The lines of one team, and the outcome by maze of every kind and K."""
    levels = [maze_rows.by_maze(_scored(own[name])) for name in (strong, weak)]
    points, mazes = [], {}
    for (kind, k), cell in sorted(relays.partition_by("relay_kind", "relay_k", as_dict=True).items()):
        mazes[kind, k] = maze_rows.by_maze(_scored(cell))
        head = {"strong": strong, "weak": weak, "kind": kind, "k": k}
        points.append(head | _point(cell, mazes[kind, k], *levels, asked))
    return points, mazes


def _scored(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("reason").is_null())


def _point(
    cell: pl.DataFrame,
    mazes: Mapping[str, float],
    strong: Mapping[str, float],
    weak: Mapping[str, float],
    asked: _Asked,
) -> dict[str, Any]:
    scored = _scored(cell)
    paired = asked.clustering.paired(mazes, weak, asked.units)
    closed, reason = _closed(mazes, strong, weak, asked)
    reasons = [paired["reason"] and f"over two weak: {paired['reason']}", reason and f"gap closed: {reason}"]
    return {
        **clustered_mean(maze_rows.sample(scored), asked.units),
        "n_left_out": cell.height - scored.height,
        "n_ended_before_swap": scored.filter(pl.col("rounds") <= pl.col("relay_k")).height,
        "n_mazes": paired["n_mazes"],
        "over_weak": paired["diff"],
        "over_weak_lo": paired["lo"],
        "over_weak_hi": paired["hi"],
        "over_weak_p": paired["p"],
        "closed": closed[0],
        "closed_lo": closed[1],
        "closed_hi": closed[2],
        "reason": "; ".join(filter(None, reasons)) or None,
    }


def _closed(
    mazes: Mapping[str, float], strong: Mapping[str, float], weak: Mapping[str, float], asked: _Asked
) -> tuple[tuple[float | None, float | None, float | None], str | None]:
    """Share of the gap closed with its interval, and why one is missing."""
    nothing = (None, None, None)
    if not strong or not weak:
        return nothing, f"no pair of two {'strong' if not strong else 'weak'} agents"
    shared = sorted(set(mazes) & set(strong) & set(weak))
    if not shared:
        return nothing, "no maze that the relay and both pairs have"
    values = np.array([[m[t] for m in (mazes, strong, weak)] for t in shared])
    reached, gap = _gap_parts(values.mean(0))
    if gap <= _NOTHING:
        return nothing, "the strong pair is no better than the weak one: no gap to close"
    found = _closed_bounds(values, shared, asked)
    reason = found.reason and f"{found.reason}: no interval"
    return (float(reached / gap), found.lo, found.hi), reason


def _closed_bounds(values: np.ndarray, mazes: Sequence[str], asked: _Asked) -> Bounds:
    """Interval of the share closed: whole clusters of mazes are drawn, the same for all three columns of `values`."""
    _, of = np.unique(asked.clustering.codes(mazes), return_inverse=True)
    n = int(of.max()) + 1
    totals = np.array([np.bincount(of, column, n) for column in values.T]).T
    drawn = np.random.default_rng(asked.seed).integers(n, size=(asked.resamples, n))
    sizes = np.bincount(of, minlength=n)[drawn].sum(1)
    reached, gap = _gap_parts((totals[drawn].sum(1) / sizes[:, None]).T)
    there = gap > _NOTHING
    undefined = 1 - float(there.mean())
    unit = "maze" if asked.clustering.of_maze is None else asked.clustering.unit
    if n < LEAST_UNITS:
        return Bounds(n_clusters=n, reason=too_few(n, unit))
    if undefined > MOST_UNDEFINED:
        return Bounds(n_clusters=n, reason=f"no gap in {100 * undefined:.0f}% of the resamples")
    draws = reached[there] / gap[there]
    kind: IntervalKind = "percentile" if asked.units.plain else "rule"
    if np.ptp(draws) < _NOTHING:
        return Bounds(n_clusters=n, reason=NO_SPREAD)
    return draw_bounds(draws, n, interval=kind, ci_level=asked.units.ci_level, unit=unit)


def _gap_parts(means: np.ndarray) -> tuple[Any, Any]:
    relay_mean, strong, weak = means
    return relay_mean - weak, strong - weak


def _contrasts(mazes: Mapping[tuple[str, int], Mapping[str, float]], asked: _Asked) -> list[dict[str, Any]]:
    """Primer against recovery at each K, and the change per turn."""
    out = []
    for k in sorted({k for _, k in mazes}):
        if ("primer", k) in mazes and ("recovery", k) in mazes:
            paired = asked.clustering.paired(mazes["primer", k], mazes["recovery", k], asked.units)
            out.append({"what": "primer - recovery", "k": k, **paired})
    for kind in KINDS:
        ks = sorted(k for other, k in mazes if other == kind)
        if len(ks) > 1:
            slopes = _slopes(ks, [mazes[kind, k] for k in ks])
            paired = asked.clustering.paired(slopes, dict.fromkeys(slopes, 0.0), asked.units)
            out.append({"what": f"slope of {kind}", "k": None, **paired})
    return out


def _slopes(ks: Sequence[int], levels: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Least-squares slope on K within each maze that was played at every K."""
    at = np.asarray(ks, dtype=float) - np.mean(ks)
    shared = set.intersection(*(set(level) for level in levels))
    return {t: float(at @ [level[t] for level in levels] / (at @ at)) for t in shared}


def _statements(table: pl.DataFrame, contrasts: pl.DataFrame) -> list[str]:
    out = []
    for (strong, weak), part in sorted(table.partition_by("strong", "weak", as_dict=True).items()):
        team = f"{strong} with {weak}"
        for kind, words in KINDS.items():
            points = part.filter((pl.col("kind") == kind) & pl.col("closed").is_not_null()).sort("k")
            shares = ", ".join(f"{100 * r['closed']:.0f} % at K = {r['k']}" for r in points.iter_rows(named=True))
            if shares:
                out.append(f"{team}: a {words} closes {shares} of the gap between the two pairs of copies.")
        mine = contrasts.filter((pl.col("strong") == strong) & (pl.col("weak") == weak))
        both = mine.filter(pl.col("what") == "primer - recovery")
        if both.height:
            clear = both.filter(pl.col("lo") > 0).height
            out.append(f"{team}: priming is better than recovery at {clear} of {both.height} K (interval over 0).")
        falls = mine.filter((pl.col("what") == "slope of recovery") & pl.col("diff").is_not_null())
        for row in falls.iter_rows(named=True):
            change = bare(row, "diff").ends()
            out.append(f"{team}: a later recovery changes the outcome by {change} per turn.")
    return out


def _mean(row: Mapping[str, Any]) -> str:
    return bare(row).half()
