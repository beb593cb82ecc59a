"""Ordered pairs of agents: who starts, who follows, and what the pair reaches against each agent with a copy of itself.

May import `cilab.core` and `cilab.stats`. Works on rollouts, or on printed means with their intervals; what needs the
rollouts themselves (pairing by maze) is then undefined, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, as_frame, read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Column, Level
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, best, without_blanks
from cilab.stats.maze import rows as maze_rows
from cilab.stats.maze.rows import Clustering, Density, MazeOutcome, bare, interval_notes
from cilab.stats.methods.hypothesis_tests import adjust, sign_test, two_sample_t
from cilab.stats.methods.means import (
    Sample,
    Units,
    clustered_contrast,
    clustered_mean,
    mean_over,
    normal_contrast,
    z_of,
)

#: Agents up to which pairs are printed as a matrix.
_MATRIX = 10
_SIDES = ("over_stronger", "over_weaker", "over_midpoint")
_NO_ROLLOUTS = "no rollouts: cannot be paired by maze"

_CELL = {
    "starter": pl.String,
    "follower": pl.String,
    "n": pl.Int64,
    "n_left_out": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
    "homogeneous": pl.Boolean,
    "starter_family": pl.String,
    "follower_family": pl.String,
    "same_family": pl.Boolean,
}
_ORDERING = {
    "stronger": pl.String,
    "weaker": pl.String,
    "stronger_starts": pl.Float64,
    "weaker_starts": pl.Float64,
    "diff": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
    "n_mazes": pl.Int64,
    "paired_diff": pl.Float64,
    "paired_lo": pl.Float64,
    "paired_hi": pl.Float64,
    "paired_p": pl.Float64,
    "paired_p_adjusted": pl.Float64,
    "reason": pl.String,
}
_BOUNDS = {
    "starter": pl.String,
    "follower": pl.String,
    "stronger": pl.String,
    "weaker": pl.String,
    "mean": pl.Float64,
    "stronger_mean": pl.Float64,
    "weaker_mean": pl.Float64,
    **{f"{side}{part}": pl.Float64 for side in _SIDES for part in ("", "_lo", "_hi")},
    **{f"{side}_n_clusters": pl.Int64 for side in _SIDES},
    **{f"{side}_no_interval": pl.String for side in _SIDES},
    "verdict": pl.String,
    "same_family": pl.Boolean,
}
_AFFINITY = {
    "model": pl.String,
    "n_own": pl.Int64,
    "n_other": pl.Int64,
    "own_family": pl.Float64,
    "other_family": pl.Float64,
    "diff": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "p": pl.Float64,
    "reason": pl.String,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PairsResult(Result):
    """What ordered pairs of agents reach.

    Attributes
    ----------
    table : one row per ordered pair (tables 4 and 5 of the paper): `starter`, `follower`, `n`, `n_left_out`, `mean`,
        `se`, `lo`, `hi` (fractions), `n_clusters` (mazes, or what `cluster` names, behind the interval), `no_interval`
        (why there is none; null where there is one), `homogeneous`, the families, `same_family`.
    ordering : one row per two different agents: `stronger` (by the mean with a copy of itself), `weaker`, the means
        with either starting, `diff` = stronger starts - weaker starts with its interval over all their mazes,
        `n_clusters`, `no_interval`; and over the mazes that were played in both orders, each once, `n_mazes`,
        `paired_diff` with interval, `paired_p` (paired t) and `paired_p_adjusted` (Benjamini-Hochberg over the pairs).
        Where one order was never played the rest is null and `reason` says so.
    bounds : one row per ordered pair of two different agents that both have a homogeneous mean: how far the pair lies
        over the stronger's, over the weaker's and over the middle of both, with intervals (`_lo`, `_hi`,
        `_n_clusters`, `_no_interval`); `verdict`: `above the stronger`, `below the weaker` (the interval excludes 0),
        else `between`.
    families : mean of `over_midpoint` for pairs of one family and of two, their difference with Welch's t over pairs.
    affinity : the same by model: with partners of its own family and of others.
    conflicts : printed cells with more than one value (only from `pairs_from_means`).
    statements : what the paper says about these tables, as computed from them.
    unit : what `n_used` counts: rollouts, or printed cells.
    """

    ordering: pl.DataFrame
    bounds: pl.DataFrame
    families: pl.DataFrame
    affinity: pl.DataFrame
    conflicts: pl.DataFrame
    statements: tuple[str, ...]
    unit: str = "rollouts"

    figure: ClassVar[str | None] = "pairs"
    title: ClassVar[str] = "Ordered pairs"

    @property
    def agents(self) -> list[str]:
        """Agents in order of their mean with a copy of themselves, best first; those without one come last."""
        return _order(self.table)

    def matrix(self, value: str = "mean") -> pl.DataFrame:
        """Starters in rows, followers in columns; null where a pair was not played. `value`: a column of `.table`."""
        if value not in self.table.columns:
            raise TableError(f"no column {value!r} in the table.{nearest(value, self.table.columns)}")
        cells = {(r["starter"], r["follower"]): r[value] for r in self.table.iter_rows(named=True)}
        columns = {b: [cells.get((a, b)) for a in self.agents] for b in self.agents}
        return pl.DataFrame({"starter": self.agents, **columns})

    def sheet(self) -> Sheet:
        """The matrix as the paper prints it: mean ± half the interval, starters in rows.

        Of more than ten agents, which no line holds: one line per played pair, best first.
        """
        return self._long() if len(self.agents) > _MATRIX else self._matrix(self.title)

    def paper_sheet(self) -> Sheet:
        """The matrix of any size: table 4 (weighted outcome) or 5 (success) of the collaboration-gap paper."""
        return self._matrix(f"{self.title}: {str(self.parameters.get('outcome', 'mean')).replace('_', ' ')}")

    def _matrix(self, title: str) -> Sheet:
        shown = {(r["starter"], r["follower"]): r for r in self.table.iter_rows(named=True)}
        cells = {b: [_mean(shown.get((a, b))) for a in self.agents] for b in self.agents}
        means = self.matrix().drop("starter")
        bold = {name: set(best(means[name].to_list())) for name in self.agents}
        for i, row in enumerate(means.rows()):
            for j in best(row):
                bold[self.agents[j]].add(i)
        corner = "Starter \\ follower"
        return self.on_sheet(
            pl.DataFrame({corner: self.agents, **cells}),
            title,
            bold={name: sorted(rows) for name, rows in bold.items()},
            bold_words="best of each row and of each column",
            spanner=("Follower", self.agents),
            headings={corner: "Starter"},
        )

    def _long(self) -> Sheet:
        best_first = self.table.sort("mean", "starter", "follower", descending=[True, False, False], nulls_last=True)
        lines = [
            {
                "Starter": r["starter"],
                "Follower": r["follower"],
                "Outcome": _mean(r),
                "n": number(r["n"], 0),
                "Left out": str(r["n_left_out"] or ""),
            }
            for r in best_first.iter_rows(named=True)
        ]
        return self.on_sheet(without_blanks(pl.DataFrame(lines), ("n", "Left out")))

    def notes(self) -> list[str]:
        """What the tables say, what has no interval, then what was used and left out."""
        gone = interval_notes({"means": self.table.filter(pl.col("mean").is_not_null())["no_interval"]})
        used = (note.replace(" rollouts.", f" {self.unit}.") for note in super().notes())
        return [*self.statements, *gone, *used]


@dataclass(frozen=True, slots=True)
class _Cell:
    """One ordered pair."""

    starter: str
    follower: str
    n: int | None
    n_left_out: int
    mean: float | None
    se: float | None
    lo: float | None
    hi: float | None
    n_clusters: int | None = None
    no_interval: str | None = None
    mazes: Mapping[str, float] | None = None
    sample: Sample | None = None

    @property
    def numbers(self) -> dict[str, Any]:
        ends = {"mean": self.mean, "se": self.se, "lo": self.lo, "hi": self.hi}
        return ends | {"n_clusters": self.n_clusters, "no_interval": self.no_interval}


_Cells = dict[tuple[str, str], _Cell]


@dataclass(frozen=True, slots=True)
class _Asked:
    """How intervals are taken; `units` and `clustering` only where there are rollouts."""

    ci_level: float
    units: Units | None = None
    clustering: Clustering | None = None

    def contrast(self, *parts: tuple[float, _Cell | None]) -> dict[str, Any]:
        """`diff, lo, hi, n_clusters, no_interval` of a sum of means times factors."""
        samples = [(factor, cell.sample) for factor, cell in parts if cell is not None and cell.sample is not None]
        if self.units is not None and len(samples) == len(parts):
            found = clustered_contrast(samples, self.units)
        else:
            numbers = [(factor, None if cell is None else cell.numbers) for factor, cell in parts]
            found = normal_contrast(numbers, z_of(self.ci_level)) | {"n_clusters": None, "no_interval": None}
        return {name: found[name] for name in ("diff", "lo", "hi", "n_clusters", "no_interval")}


@estimator
def pairs(
    data: Any,
    *,
    outcome: MazeOutcome = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    arm: str | None = None,
    models: Sequence[str] | None = None,
    families: Mapping[str, str] | None = None,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> PairsResult:
    """Mean outcome of every ordered pair, the effect of who starts, families, and the two agents' own levels as bounds.

    Parameters
    ----------
    data : an opened study, a data set, or a runs table (polars or pandas) with `version, model, partner_model, status`
        and the outcome; `task_id` for pairing by maze.
    outcome : `weighted_outcome` (table 4) or `success` (table 5).
    maze_size, wall_density, arm : None takes the most frequent mazes, and rollouts without a treatment.
    models : names to keep; None keeps all.
    families : mapping model -> family; the models table fills what it leaves out.
    cluster : what intervals are taken over: mazes ("auto"), ordered pairs ("pair"), a column of the runs whose values
        hold whole mazes, or "rollout", the paper's normal intervals from plain standard errors; as in
        `cilab.stats.maze.gap.gap`.
    ci_level : a fraction.

    Returns
    -------
    PairsResult
        Differences are paired by maze. Refused, failed and unscored rollouts are left out and counted.

    Raises
    ------
    TableError
        No pair of agents in the data, a column is missing, a value is outside its range, or the clusters cannot be
        used.

    References
    ----------
    Collaboration-gap paper, section 4.2, figure 4.3, appendices D.3 and D.4 (tables 4 and 5).
    """
    found = maze_rows.read_maze_rows(
        data,
        outcome=outcome,
        versions=("pair",),
        what="rollout of a pair of agents in a maze",
        fixed={"maze_size": maze_size, "wall_density": wall_density, "arm": arm},
        models=models,
        cluster=cluster,
    )
    units = found.clustering.units(ci_level, outcome)
    cells = {}
    for key, part in found.rows.partition_by("first", "second", as_dict=True).items():
        used = part.filter(pl.col("reason").is_null())
        scored = maze_rows.sample(used)
        beside: dict[str, Any] = {"mazes": maze_rows.by_maze(used), "sample": scored, **clustered_mean(scored, units)}
        cells[key] = _Cell(*key, n_left_out=part.height - used.height, **beside)
    known = maze_rows.families(data, {a for key in cells for a in key}, families)
    return _result(
        cells,
        known,
        _Asked(ci_level, units, found.clustering),
        n_used=found.used.height,
        n_left_out=found.left_out,
        provenance=found.provenance,
        parameters=found.parameters,
        caption=f"{maze_rows.OUTCOMES[outcome]} ± half the {found.clustering.level(units)}, "
        f"in {found.maze_words()}. {_layout(cells)}",
    )


@estimator
def pairs_from_means(
    table: Any,
    *,
    mean: str = "weighted_mean",
    half_width: str = "weighted_ci95",
    families: Mapping[str, str] | None = None,
    ci_level: Level = CI_LEVEL,
    study: str = "published means",
) -> PairsResult:
    """The same from a table of printed means, where there are no rollouts.

    Parameters
    ----------
    table : polars or pandas DataFrame with `starter`, `follower`, and the columns named by
        `mean` (a fraction) and `half_width` (half of the interval at `ci_level`).
        `cilab.datasets.published_table("maze_pairs")` is one.

    Returns
    -------
    PairsResult
        A pair that is printed more than once with the same numbers counts once; with different numbers the first one
        counts, and `conflicts` holds all of them. Tests that pair by maze are undefined. `n_used` counts cells.

    Raises
    ------
    TableError
        A column is missing, a mean lies above 1, a half-width below 0.
    """
    z = z_of(ci_level)
    rows = _printed(table, mean, half_width)
    cells: _Cells = {}
    printed: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for a, b, value, half in rows.select("starter", "follower", mean, half_width).iter_rows():
        printed.setdefault((a, b), []).append((value, half))
        if (a, b) not in cells:
            cells[a, b] = _Cell(a, b, None, 0, value, half / z, value - half, value + half)
    clashes = {key: values for key, values in printed.items() if len(set(values)) > 1}
    again = sum(len(values) - 1 for key, values in printed.items() if key not in clashes)
    left_out = {"printed again with the same numbers": again} if again else {}
    if clashes:
        left_out["printed again with other numbers"] = sum(len(v) - 1 for v in clashes.values())
    known = maze_rows.families(table, {a for key in cells for a in key}, families)
    return _result(
        cells,
        known,
        _Asked(ci_level),
        n_used=len(cells),
        n_left_out=left_out,
        provenance=_provenance(rows, study),
        caption=f"Printed means ± half the {percent(ci_level)} interval. {_layout(cells)}",
        conflicts=_conflicts(clashes),
        unit="printed cells",
    )


def _layout(cells: _Cells) -> str:
    """What stands where in the printed table, which depends on the number of agents."""
    if len({agent for key in cells for agent in key}) > _MATRIX:
        return "A pair of one name is two copies."
    return "Starters in rows, followers in columns; the diagonal holds pairs of copies."


def _printed(table: Any, mean: str, half_width: str) -> pl.DataFrame:
    table = as_frame(table, "means must be a polars or pandas DataFrame")
    for column in ("starter", "follower", mean, half_width):
        if column not in table.columns:
            raise TableError(f"means: missing column {column}.{nearest(column, table.columns)}")
    rows = table.with_columns(pl.col(mean, half_width).cast(pl.Float64).fill_nan(None))
    gone = rows.select(pl.any_horizontal(pl.col("starter", "follower", mean, half_width).is_null()).sum()).item()
    if gone or rows.is_empty():
        raise TableError(f"means: {gone} rows lack a name, a mean or an interval" if gone else "means: no rows")
    if rows[mean].max() > 1 or rows[half_width].min() < 0:
        raise TableError("means: a mean above 1 or an interval below 0; both are fractions (divide percentages by 100)")
    return rows


def _provenance(rows: pl.DataFrame, study: str) -> Provenance:
    names = {"starter": "model", "follower": "partner_model"}
    bare = rows.drop("study", *names.values(), strict=False).rename(names).with_columns(pl.lit(study).alias("study"))
    return read_rows(bare, bare.columns)[1]


def _conflicts(clashes: Mapping[tuple[str, str], list[tuple[float, float]]]) -> pl.DataFrame:
    schema = {"starter": pl.String, "follower": pl.String, "mean": pl.Float64, "half_width": pl.Float64}
    rows = [(*key, *values) for key, printed in sorted(clashes.items()) for values in dict.fromkeys(printed)]
    return pl.DataFrame(rows, schema=schema, orient="row")


# -- the tables -------------------------------------------------------------------------------------------


def _result(
    cells: _Cells,
    families: Mapping[str, str | None],
    asked: _Asked,
    *,
    conflicts: pl.DataFrame | None = None,
    **head: Any,
) -> PairsResult:
    table = pl.DataFrame([_row(c, families) for _, c in sorted(cells.items())], schema=_CELL)
    order = _order(table)
    rank = (
        pl.col("starter").replace_strict(order, range(len(order))),
        pl.col("follower").replace_strict(order, range(len(order))),
    )
    ordering, bounds = _ordering(cells, asked), _bounds(cells, families, asked)
    by_family, affinity = _by_family(bounds, asked.ci_level), _affinity(bounds, families, asked.ci_level)
    clashes = conflicts if conflicts is not None else _conflicts({})
    return PairsResult(
        table=table.sort(*rank),
        ordering=ordering,
        bounds=bounds,
        families=by_family,
        affinity=affinity,
        conflicts=clashes,
        statements=tuple(_statements(ordering, bounds, by_family, clashes, asked)),
        **head,
    )


def _row(c: _Cell, families: Mapping[str, str | None]) -> dict[str, Any]:
    own, other = families.get(c.starter), families.get(c.follower)
    alike = c.starter == c.follower
    return {
        "starter": c.starter,
        "follower": c.follower,
        "n": c.n,
        "n_left_out": c.n_left_out,
        **c.numbers,
        "homogeneous": alike,
        "starter_family": own,
        "follower_family": other,
        "same_family": True if alike else None if own is None or other is None else own == other,
    }


def _order(table: pl.DataFrame) -> list[str]:
    own = {r["starter"]: r["mean"] for r in table.filter("homogeneous").iter_rows(named=True)}
    names = sorted({*table["starter"], *table["follower"]})
    return sorted(names, key=lambda a: (own.get(a) is None, -(own.get(a) or 0.0), a))


def _own(cells: _Cells, agent: str) -> _Cell | None:
    """The agent with a copy of itself, where that has a mean."""
    cell = cells.get((agent, agent))
    return cell if cell is not None and cell.mean is not None else None


def _ranked(cells: _Cells, a: str, b: str) -> tuple[str, str]:
    """Stronger, weaker by the homogeneous means; where one is missing, as the names sort."""
    own_a, own_b = _own(cells, a), _own(cells, b)
    if own_a is None or own_b is None or own_a.mean == own_b.mean:
        return (a, b) if a < b else (b, a)
    return (a, b) if own_a.mean > own_b.mean else (b, a)


def _ordering(cells: _Cells, asked: _Asked) -> pl.DataFrame:
    """The effect of who starts, for every two different agents."""
    rows = []
    for a, b in sorted({tuple(sorted(key)) for key in cells if key[0] != key[1]}):
        strong, weak = _ranked(cells, a, b)
        rows.append(_swap(cells, strong, weak, asked))
    adjusted = adjust([r["paired_p"] for r in rows]).adjusted
    return pl.DataFrame([r | {"paired_p_adjusted": p} for r, p in zip(rows, adjusted, strict=True)], schema=_ORDERING)


def _swap(cells: _Cells, strong: str, weak: str, asked: _Asked) -> dict[str, Any]:
    first, second = cells.get((strong, weak)), cells.get((weak, strong))
    row: dict[str, Any] = {
        "stronger": strong,
        "weaker": weak,
        "stronger_starts": first.mean if first else None,
        "weaker_starts": second.mean if second else None,
    }
    row |= asked.contrast((1, first), (-1, second))
    empty = dict.fromkeys(("n_mazes", "diff", "lo", "hi", "p"))
    if row["diff"] is None:
        row |= {"n_clusters": None, "no_interval": None}
        starts = strong if first and first.mean is not None else weak
        paired = empty | {"reason": f"seen in one order only: {starts} starts"}
        if not any(c is not None and c.mean is not None for c in (first, second)):
            paired["reason"] = "no scored rollout in either order"
    elif asked.clustering is None or asked.units is None or first.mazes is None or second.mazes is None:
        paired = empty | {"reason": _NO_ROLLOUTS}
    else:
        paired = asked.clustering.paired(first.mazes, second.mazes, asked.units)
        paired.pop("n_clusters")
    reason = paired.pop("reason")
    if _own(cells, strong) is None or _own(cells, weak) is None:
        reason = "; ".join(filter(None, (reason, "which is stronger is unknown: no pair of copies")))
    return row | {"n_mazes": paired.pop("n_mazes"), **{f"paired_{k}": v for k, v in paired.items()}, "reason": reason}


def _bounds(cells: _Cells, families: Mapping[str, str | None], asked: _Asked) -> pl.DataFrame:
    """Every heterogeneous ordered pair against what its two agents reach with copies of themselves."""
    rows = []
    for (a, b), cell in sorted(cells.items()):
        if a == b or cell.mean is None or _own(cells, a) is None or _own(cells, b) is None:
            continue
        strong, weak = _ranked(cells, a, b)
        high, low = _own(cells, strong), _own(cells, weak)
        over = {
            "over_stronger": asked.contrast((1, cell), (-1, high)),
            "over_weaker": asked.contrast((1, cell), (-1, low)),
            "over_midpoint": asked.contrast((1, cell), (-0.5, high), (-0.5, low)),
        }
        row: dict[str, Any] = {"starter": a, "follower": b, "stronger": strong, "weaker": weak, "mean": cell.mean}
        row |= {"stronger_mean": high.mean, "weaker_mean": low.mean, "verdict": _verdict(over)}
        for name, numbers in over.items():
            row |= {name: numbers.pop("diff"), **{f"{name}_{k}": v for k, v in numbers.items()}}
        own, other = families.get(a), families.get(b)
        rows.append(row | {"same_family": None if own is None or other is None else own == other})
    return pl.DataFrame(rows, schema=_BOUNDS)


def _verdict(over: Mapping[str, Mapping[str, float | None]]) -> str | None:
    lo, hi = over["over_stronger"]["lo"], over["over_weaker"]["hi"]
    if lo is None or hi is None:
        return None
    return "above the stronger" if lo > 0 else "below the weaker" if hi < 0 else "between"


def _by_family(bounds: pl.DataFrame, ci_level: float) -> pl.DataFrame:
    """Pairs of one family against pairs of two, each relative to the middle of the agents' own levels."""
    groups = {
        name: bounds.filter(pl.col("same_family") == alike)["over_midpoint"].to_list()
        for name, alike in (("same family", True), ("different families", False))
    }
    rows = [
        {"group": name, "n_pairs": len(values), "over_midpoint": m["diff"], "lo": m["lo"], "hi": m["hi"], "p": None}
        | {"reason": m["reason"]}
        for name, values in groups.items()
        for m in [mean_over(values, "pair", ci_level)]
    ]
    test = two_sample_t(*groups.values(), ci_level=ci_level)
    ends = {"lo": None, "hi": None} if test.reason else {"lo": test.lo, "hi": test.hi}
    rows.append(
        {"group": "difference", "n_pairs": test.n, "over_midpoint": test.estimate, **ends}
        | {"p": test.p, "reason": test.reason}
    )
    if unknown := bounds["same_family"].null_count():
        rows.append(
            {"group": "family unknown", "n_pairs": unknown, "over_midpoint": None, "lo": None, "hi": None, "p": None}
            | {"reason": "left out: give families={model: family}"}
        )
    schema = {"group": pl.String, "n_pairs": pl.Int64, **dict.fromkeys(("over_midpoint", "lo", "hi", "p"), pl.Float64)}
    return pl.DataFrame(rows, schema={**schema, "reason": pl.String})


def _affinity(bounds: pl.DataFrame, families: Mapping[str, str | None], ci_level: float) -> pl.DataFrame:
    """For each model: partners of its own family against partners of others."""
    rows = []
    for model in sorted({*bounds["starter"], *bounds["follower"]}):
        mine = bounds.filter((pl.col("starter") == model) | (pl.col("follower") == model))
        own, other = (mine.filter(pl.col("same_family") == s)["over_midpoint"].to_list() for s in (True, False))
        if families.get(model) is None:
            continue
        test = two_sample_t(own, other, ci_level=ci_level)
        rows.append(
            {
                "model": model,
                "n_own": len(own),
                "n_other": len(other),
                "own_family": math.fsum(own) / len(own) if own else None,
                "other_family": math.fsum(other) / len(other) if other else None,
                "diff": test.estimate,
                "lo": None if test.reason else test.lo,
                "hi": None if test.reason else test.hi,
                "p": test.p,
                "reason": test.reason,
            }
        )
    return pl.DataFrame(rows, schema=_AFFINITY)


# -- what the tables say ----------------------------------------------------------------------------------


def _statements(
    ordering: pl.DataFrame, bounds: pl.DataFrame, by_family: pl.DataFrame, conflicts: pl.DataFrame, asked: _Asked
) -> Iterable[str]:
    yield from _bound_statements(bounds)
    yield from _ordering_statements(ordering, asked.ci_level)
    if asked.clustering is not None:
        yield from asked.clustering.notes()
    difference_row = by_family.row(by_predicate=pl.col("group") == "difference", named=True)
    if difference_row["over_midpoint"] is not None:
        ends = Interval.of(difference_row, "over_midpoint", "lo", "hi", digits=2).ends()
        p = "" if difference_row["p"] is None else f" (Welch's t over pairs, p = {difference_row['p']:.3f})"
        yield f"Pairs of one family lie {ends} over pairs of two, each against the middle of its agents' levels{p}."
    for (a, b), part in sorted(conflicts.partition_by("starter", "follower", as_dict=True).items()):
        values = " and ".join(f"{m:.2f} ± {h:.2f}" for _, _, m, h in part.iter_rows())
        yield f"{a} with {b} is printed with {values}; the first is used."


def _bound_statements(bounds: pl.DataFrame) -> Iterable[str]:
    n = bounds.height
    if n == 0:
        yield "No pair of two different agents that both played with a copy of themselves: no bounds to compare with."
        return
    above, below = ((bounds["verdict"] == v).sum() for v in ("above the stronger", "below the weaker"))
    under = int((bounds["over_stronger"] <= 0).sum())
    over = int((bounds["over_weaker"] >= 0).sum())
    p = sign_test(bounds["over_stronger"].to_list()).p
    yield (
        f"The stronger agent as a bound from above: {under} of {n} ordered pairs reach at most what the stronger "
        f"reaches with a copy of itself (sign test, p = {p:.2g}); the interval of {above} lies above it."
    )
    yield (
        f"The weaker agent as a bound from below: {over} of {n} reach at least what the weaker reaches with a copy of "
        f"itself; the interval of {below} lies below it."
    )


def _ordering_statements(ordering: pl.DataFrame, ci_level: float) -> Iterable[str]:
    known = ordering.filter(pl.col("diff").is_not_null() & ~pl.col("reason").fill_null("").str.contains("stronger"))
    diffs = known["diff"].to_list()
    if diffs:
        over = mean_over(diffs, "pair", ci_level)
        clear = int(((known["lo"] > 0) | (known["hi"] < 0)).sum())
        p = "" if over["p"] is None else f" (t over pairs, p = {over['p']:.2g})"
        yield (
            f"Starting with the stronger agent instead of the weaker changes the mean by "
            f"{bare(over, 'diff').ends()} over {len(diffs)} pairs{p}; in {clear} of them "
            "the interval excludes 0."
        )
    found = ordering.filter(pl.col("paired_p_adjusted") < 0.05)
    if ordering["paired_p"].null_count() < ordering.height:
        few = f"{found.height} of {ordering.height}"
        yield f"Paired by maze, {few} pairs differ by who starts (Benjamini-Hochberg, 0.05)."
    if single := int(ordering["reason"].fill_null("").str.contains("one order only").sum()):
        yield f"{single} pairs were seen in one order only and have no ordering effect."


def _mean(row: Mapping[str, Any] | None) -> str:
    return bare(row).half()
