"""Rows beside one another: adjacent differences and rank stability, and two rows or two arms task by task.

May import `cilab.core`, `cilab.results`, `cilab.stats.methods` and its own folder. Reads no file. What pairs rows by
task is refused where the tasks of a published round are not known; bounds take its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, choice, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed, numeric, or_none
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, p_value, percent, whole
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.methods import bootstrap, paired, sign_flip, uncertainty
from cilab.stats.methods.bootstrap import RESAMPLES_SCORES, Array, Mask
from cilab.stats.methods.hypothesis_tests import adjust, mcnemar
from cilab.stats.methods.paired import Layout
from cilab.stats.methods.ratings import MOST_UNDEFINED
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import default_rows
from cilab.stats.teamwork.scores import shared_ranks

Tasks = Literal["both", "own"]
Margin = Annotated[
    float | None,
    or_none(numeric(lambda v: 0 < v <= 100, "a margin in points above 0, such as 3, up to 100")),
]

#: Name of the line over all dimensions.
OVERALL = "overall"


# -- one difference ---------------------------------------------------------------------------------------


class Contrast(NamedTuple):
    """What the tasks say about one difference; fractions.

    Attributes
    ----------
    p : two-sided, by sign flips.
    exact : whether all choices of signs were counted.
    lo, hi : ends of the interval; None where there is none.
    mdd : minimum detectable difference (80 % power); None without a spread.
    p_equivalent : of two one-sided tests; None where no margin is asked for or there is no interval.
    varies : whether the tasks' differences do.
    n_clusters : independent units, of the side with fewer.
    no_interval : why there is no interval, in words.
    """

    p: float
    exact: bool
    lo: float | None
    hi: float | None
    mdd: float | None
    p_equivalent: float | None
    varies: bool
    n_clusters: int
    no_interval: str | None


class Units(NamedTuple):
    """What tasks belong to: the name of each one's dimension, its cluster's code, and what a cluster is called."""

    dimensions: NDArray[Any]
    clusters: NDArray[np.int64]
    unit: str

    @classmethod
    def of(cls, g: Grid) -> Units:
        """Of a grid."""
        return cls(g.tasks["dimension"].to_numpy(), g.clusters, g.cluster_name)

    def layout(self, tasks: Any = slice(None)) -> Layout:
        """Strata and clusters of some of the tasks; strata in the order of their names."""
        return Layout.of(self.dimensions[tasks], self.clusters[tasks])


def contrast(
    a: Array,
    b: Array,
    used: tuple[Mask, Mask],
    units: Units,
    *,
    ci_level: float,
    flips: int,
    seed: Sequence[int],
    margin: float | None = None,
) -> Contrast:
    """Judge the difference of two sides over tasks.

    Sides that rest on the same tasks are compared by sign flips of the tasks' differences; else all that a task has is
    swapped between the sides (`cilab.stats.methods.sign_flip`). The interval is that of a difference by the rule
    (`cilab.stats.methods.uncertainty`), made to agree with p (`paired.agreeing`).

    Parameters
    ----------
    a, b : values, fractions, shape (pairs, tasks); what is not used may be NaN.
    used : which count, for a and for b.
    units : the dimension and the cluster of each task.
    ci_level, flips, seed : level; number of random flips where not all are counted, and what they are drawn from.
    margin : of equivalence, a fraction.
    """
    counted = (used[0] | used[1]).any(axis=0)
    layout = units.layout(counted)
    one, two = (side[:, counted] for side in used)
    values = np.where(one, a[:, counted], 0.0), np.where(two, b[:, counted], 0.0)
    found = paired.parts(values[0], values[1], (one, two), layout)
    rng = np.random.default_rng(seed)
    if (one == two).all():
        test = sign_flip.sign_flip(layout.by_cluster(found.units), flips=flips, rng=rng)
    else:
        test = sign_flip.swap_test(values[0], values[1], (one, two), layout, flips=flips, rng=rng)
    names = np.unique(units.dimensions[counted]).tolist()
    bounds, weight = _bounded(values, (one, two), layout, ci_level=ci_level, unit=units.unit, names=names)
    common: dict[str, Any] = {"p": test.p, "exact": test.exact, "n_clusters": bounds.n_clusters}
    if bounds.lo is None or bounds.hi is None:
        none: dict[str, Any] = dict.fromkeys(("lo", "hi", "mdd", "p_equivalent"))
        return Contrast(**none, varies=False, no_interval=bounds.reason, **common)
    difference = float(found.difference)
    lo, hi = paired.agreeing(difference, (bounds.lo, bounds.hi), test.p, ci_level, bounds.df)
    n = 1 / float((layout.by_cluster(weight) ** 2).sum())
    return Contrast(
        lo=lo,
        hi=hi,
        mdd=uncertainty.detectable(bounds, ci_level=ci_level),
        p_equivalent=None
        if margin is None
        else paired.equivalence_p(difference, margin, se=bounds.se, df=bounds.df, n=n),
        varies=bounds.se is not None,
        no_interval=None,
        **common,
    )


def _bounded(
    values: tuple[Array, Array], used: tuple[Mask, Mask], layout: Layout, *, ci_level: float, **words: Any
) -> tuple[Bounds, Array]:
    """The interval by the rule, and the weights of the tasks on which it stands.

    Where the sides rest on different tasks it stands, in each dimension, on those of the side with fewer: degrees of
    freedom are hers, and each side's part in the variance is corrected for its own number of tasks.
    """
    sides: list[Mask] = [np.any(side, axis=0) for side in used]
    counts = [layout.by_stratum(side) for side in sides]
    whole = layout.by_stratum(sides[0] | sides[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = [np.where(n > 1, np.sqrt(n / (n - 1) * (whole - 1) / whole), 1.0) for n in counts]
    found = paired.parts(values[0], values[1], used, layout, scale=(scale[0], scale[1]))
    fewer = np.where((counts[0] <= counts[1])[layout.strata], *sides)
    weight = fewer / (np.minimum(*counts)[layout.strata] * layout.n_strata)
    at = found.of_strata[layout.strata]
    asked: dict[str, Any] = {"span": (-1.0, 1.0), "ci_level": ci_level, **words}

    def of(tasks: Any) -> Bounds:
        each = {"strata": layout.strata[tasks], "clusters": layout.clusters[tasks]}
        point = float(found.difference)
        return uncertainty.linear_bounds(
            point, found.influence[tasks], weight=weight[tasks], at=at[tasks], **each, **asked
        )

    bounds = of(slice(None))
    if fewer.all():
        return bounds, weight
    scarce = of(fewer)
    return (scarce if scarce.lo is None else bounds._replace(n_clusters=scarce.n_clusters)), weight


# -- adjacent differences -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Differences(Result):
    """Differences of rows that are neighbours in rank.

    Attributes
    ----------
    table : see `differences`.
    ranks : one line per row, best first: `row, model, effort, arm, rank, stability_pct` (share of resamples in which
        the row keeps its rank), `rank_lo, rank_hi` (ends of the interval of its rank). Null where rows are not paired,
        for a row without a score in more than 5 % of the resamples, and where the difference to a neighbour has no
        interval or no spread.
    resamples, seed : of the bootstrap and of random flips.
    """

    ranks: pl.DataFrame
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "differences"
    title: ClassVar[str] = "Differences between neighbours in rank"

    def sheet(self) -> Sheet:
        """One line per pair: the difference with its interval (or its two bounds), p, and p that it is positive."""
        lines = [
            {
                "Higher": r["higher"],
                "Lower": r["lower"],
                "Difference": number(r["diff_points"]),
                "Interval": "" if r["no_interval"] == intervals.UNPAIRED else _span(r, "") or r["no_interval"] or "",
                "p": p_value(r["p"], 4),
                "p (Holm)": p_value(r["p_holm"], 4),
                "p higher": number(r["p_higher"], 3),
                "Detectable": number(r["mdd_points"]),
                "If independent": _span(r, "_independent"),
                "If comonotone": _span(r, "_comonotone"),
            }
            for r in self.table.iter_rows(named=True)
        ]
        shown = pl.DataFrame(lines)
        return self.on_sheet(without_blanks(shown, shown.columns[3:]))

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def differences(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    interval: IntervalKind = "rule",
    **scope: Unpack[Scope],
) -> Differences:
    """Difference of the overall score between each row and the next, with its paired interval.

    Each row counts on its own tasks, as in the leaderboard. p, and the interval, are those of `compare` with
    `tasks="own"`. `p_higher` is the share of resamples (of tasks within dimension, the same for every row) in which the
    higher row is higher, a tie counting half, and not more than 1 - p / 2: how sure the order of two neighbours is.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    resamples, seed, ci_level : of the bootstrap; and random flips where too many tasks differ to count all choices.
    interval : by the `rule` of uncertainty, or `percentile`: the paper's, from the resamples, and p from them too.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; `models` compares some models only.

    Returns
    -------
    Differences
        `.table`: `higher, lower` (row names), `rank_higher, rank_lower, diff_points, lo_points, hi_points, p, p_holm`
        (over these pairs), `p_higher, mdd_points` (the least difference found with 80 % power);
        then, only where task ids are places in published counts (so that the interval needs what nobody published),
        `lo_independent_points, hi_independent_points, p_higher_independent` (rows resampled apart from each other) and
        `lo_comonotone_points, hi_comonotone_points, p_higher_comonotone` (tasks placed so that both rows pass the same
        ones as far as their counts permit). The paired interval lies between the two. `n_clusters` (independent units
        behind the interval), `n_empty_resamples`: in them one of the two rows has a dimension without a task that it
        solves alone; with more than 5 % of them `p_higher` is null, and the percentile interval. `no_interval`: why
        there is none, and then no `p_higher` either.

    Raises
    ------
    TableError
        Fewer than two rows have an overall score; or as in `grid`.

    References
    ----------
    Collaborative Intelligence leaderboard of 9 October 2026 (adjacent differences, rank stability).
    """
    g = grid(study, **scope)
    overall = bootstrap.overall_means(g.points())
    order = [int(r) for r in np.argsort(-overall, kind="stable") if np.isfinite(overall[r])]
    if len(order) < 2:
        raise TableError(f"differences need two rows with an overall score; {g.provenance.study} has {len(order)}")
    ranks = shared_ranks(overall)
    pairs = list(itertools.pairwise(order))
    lines = [
        {
            "higher": g.names[a],
            "lower": g.names[b],
            "rank_higher": ranks[a],
            "rank_lower": ranks[b],
            "diff_points": 100 * (overall[a] - overall[b]),
        }
        for a, b in pairs
    ]
    stability: dict[str, list[Any]] = {c: [None] * len(order) for c in ("stability_pct", "rank_lo", "rank_hi")}
    if g.unknown_tasks:
        unpaired = {"no_interval": intervals.UNPAIRED}
        extra = [_bounds(g, a, b, resamples, seed, ci_level) | unpaired for a, b in pairs]
        how = f"bounds of the {percent(ci_level)} interval from {resamples:,} resamples."
    else:
        drawn = g.replicates(resamples=resamples, seed=seed).overall
        if interval == "percentile":
            extra = [_resampled(drawn[:, a] - drawn[:, b], ci_level) for a, b in pairs]
            sound = [True] * len(pairs)
            how = f"{percent(ci_level)} intervals from {resamples:,} paired resamples."
        else:
            asked: dict[str, Any] = {"ci_level": ci_level, "flips": resamples}
            found = [
                contrast(
                    g.values[[a]],
                    g.values[[b]],
                    (g.scored[[a]], g.scored[[b]]),
                    Units.of(g),
                    seed=[seed, a, b],
                    **asked,
                )
                for a, b in pairs
            ]
            extra = [_judged(drawn[:, a] - drawn[:, b], c) for (a, b), c in zip(pairs, found, strict=True)]
            sound = [c.varies for c in found]
            how = f"{percent(ci_level)} intervals (t), p by swaps of tasks, ranks from {resamples:,} resamples."
        stability = _stability(drawn[:, order], overall[order], [ranks[r] for r in order], ci_level)
        near = [all(sound[max(0, i - 1) : i + 1]) for i in range(len(order))]
        stability = {
            c: [v if ok else None for v, ok in zip(values, near, strict=True)] for c, values in stability.items()
        }
    corrected = adjust([e.get("p") for e in extra], method="holm").adjusted
    lost = [g.names[r] for r in range(g.rows.height) if r not in order]
    remarks = (*g.notes, *([f"No overall score, so left out: {', '.join(lost)}."] if lost else []))
    if g.unknown_tasks:
        remarks += ("Tasks are not known, so rows are not paired: bounds instead of intervals, no rank stability.",)
    if n := sum((e["n_empty_resamples"] or 0) > MOST_UNDEFINED * resamples for e in extra):
        remarks += (_few(n, "pair") if interval == "percentile" or g.unknown_tasks else _unsure(n),)
    table = [line | e | {"p_holm": p} for line, e, p in zip(lines, extra, corrected, strict=True)]
    return Differences(
        table=pl.DataFrame(table, schema=_DIFFERENCES, orient="row"),
        ranks=g.rows[order].with_columns(
            pl.Series("rank", [ranks[r] for r in order], dtype=pl.Int64),
            pl.Series("stability_pct", stability["stability_pct"], dtype=pl.Float64),
            *(pl.Series(c, stability[c], dtype=pl.Int64) for c in ("rank_lo", "rank_hi")),
        ),
        resamples=resamples,
        seed=seed,
        remarks=remarks,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Points of the overall score; {how}",
    )


_BOUNDS = tuple(
    f"{c}_{kind}{unit}"
    for kind in ("independent", "comonotone")
    for c, unit in (("lo", "_points"), ("hi", "_points"), ("p_higher", ""))
)
_DIFFERENCES = {
    "higher": pl.String,
    "lower": pl.String,
    "rank_higher": pl.Int64,
    "rank_lower": pl.Int64,
    **dict.fromkeys(
        ("diff_points", "lo_points", "hi_points", "p", "p_holm", "p_higher", "mdd_points", *_BOUNDS), pl.Float64
    ),
    **dict.fromkeys(("n_clusters", "n_empty_resamples"), pl.Int64),
    "no_interval": pl.String,
}


def _interval(difference: Array, ci_level: float, kind: str) -> dict[str, Any]:
    """Interval in points and share above 0 of replicates of a difference, under column names that end in `kind`."""
    found = bootstrap.interval(100 * difference, ci_level)
    out: dict[str, Any] = {"n_empty_resamples": found.n_empty}
    if found.lo is not None:
        above = float(bootstrap.share_above_zero(difference))
        out |= {f"lo{kind}_points": found.lo, f"hi{kind}_points": found.hi, f"p_higher{kind}": above}
    return out


def _resampled(difference: Array, ci_level: float) -> dict[str, Any]:
    """The paper's interval of replicates of a difference, and p from the same."""
    out = _interval(difference, ci_level, "")
    if "lo_points" not in out:
        return out | {"no_interval": bootstrap.interval(difference, ci_level).reason}
    return out | {"p": float(bootstrap.two_sided_p(np.round(difference[~np.isnan(difference)], 12)))}


def _judged(difference: Array, found: Contrast) -> dict[str, Any]:
    """A contrast's columns, and how often replicates of the difference lie above 0."""
    out = _columns(found) | {"n_empty_resamples": int(np.isnan(difference).sum())}
    if found.no_interval is None and out["n_empty_resamples"] <= MOST_UNDEFINED * len(difference):
        above = float(bootstrap.share_above_zero(difference))
        out["p_higher"] = min(max(above, found.p / 2), 1 - found.p / 2)
    return out


def _columns(found: Contrast) -> dict[str, Any]:
    in_points = {"lo_points": found.lo, "hi_points": found.hi, "mdd_points": found.mdd}
    out: dict[str, Any] = {c: None if v is None else 100 * v for c, v in in_points.items()}
    return out | {"p": found.p, "n_clusters": found.n_clusters, "no_interval": found.no_interval}


def _unsure(n: int) -> str:
    """A sentence on pairs without `p_higher`."""
    return f"No p higher for {n} pair{'s' * (n != 1)}: more than 5 % of the resamples are empty (.table counts them)."


def _few(n: int, what: str) -> str:
    """A sentence on what has no interval."""
    return f"No interval for {n} {what}{'s' * (n != 1)}: more than 5 % of its resamples are empty (.table counts them)."


def _bounds(g: Grid, a: int, b: int, resamples: int, seed: int, ci_level: float) -> dict[str, Any]:
    """The two ends of what the pairing can be: none, and as much as the values permit."""
    pair = g.take([a, b])
    one, two = (pair.take([i]).replicates(resamples=resamples, seed=[seed, i]).overall[:, 0] for i in (0, 1))
    nested = _nested(pair).replicates(resamples=resamples, seed=seed).overall
    found = [
        _interval(one - two, ci_level, "_independent"),
        _interval(nested[:, 0] - nested[:, 1], ci_level, "_comonotone"),
    ]
    return found[0] | found[1] | {"n_empty_resamples": max(f["n_empty_resamples"] for f in found)}


def _nested(g: Grid) -> Grid:
    """The same values with each row's tasks of a dimension put in the same order: gated ones first, best first."""
    values, scored = np.where(g.scored, g.values, -1.0), g.scored.copy()
    for d in g.slices:
        values[:, d] = -np.sort(-values[:, d], axis=1)
        scored[:, d] = values[:, d] >= 0
    return replace(g, by_seed=np.where(scored, values, np.nan)[:, :, None], scored=scored, decided=np.ones_like(scored))


def _stability(drawn: Array, overall: Array, ranks: Sequence[int | None], ci_level: float) -> dict[str, list[Any]]:
    """Share of resamples in which a row keeps its rank, and the interval of its rank; rows in order of rank.

    A row without a score in a resample is filled in there, so that the others keep their ranks; its own is not told
    where that happens often.
    """
    told = np.isnan(drawn).mean(axis=0) <= MOST_UNDEFINED
    kept = bootstrap.filled(drawn, overall)
    kept = np.round(kept[~np.isnan(kept).any(axis=1)], 9)
    if not len(kept) or not told.any():
        return {c: [None] * drawn.shape[1] for c in ("stability_pct", "rank_lo", "rank_hi")}
    # Rank of each row in each resample: 1 + the number of rows above it.
    place = 1 + (kept[:, None, :] > kept[:, :, None]).sum(axis=2)
    ends = [0.5 - ci_level / 2, 0.5 + ci_level / 2]
    lo, hi = np.quantile(place, ends, axis=0, method="inverted_cdf")
    same = 100 * (place == np.array(ranks)).mean(axis=0)
    found = {"stability_pct": same.tolist(), "rank_lo": lo.astype(int).tolist(), "rank_hi": hi.astype(int).tolist()}
    return {c: [v if ok else None for v, ok in zip(values, told, strict=True)] for c, values in found.items()}


def _span(row: Mapping[str, Any], kind: str) -> str:
    return Interval(row["diff_points"], row[f"lo{kind}_points"], row[f"hi{kind}_points"]).span()


# -- two rows, two arms ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Result):
    """Two rows, or two arms, paired by task.

    Attributes
    ----------
    table : see `compare`.
    flipped : tasks whose value is not the same, largest change first: `a_row, b_row, task_id, dimension, a_value,
        b_value` (mean over seeds, fractions), `higher` (`a` or `b`), `run_ids_a, run_ids_b` (lists).
    a, b : what was compared, by name.
    resamples, seed : of random flips, and of the bootstrap where that is asked for.
    multiplicity : what the p-values are corrected for.
    """

    flipped: pl.DataFrame
    a: str
    b: str
    resamples: int
    seed: int
    multiplicity: str
    remarks: tuple[str, ...] = ()

    title: ClassVar[str] = "Comparison"

    def sheet(self) -> Sheet:
        """One line per dimension: both scores, the difference with its interval, p, and the tasks that changed."""
        margin = self.parameters.get("margin")
        equivalent = {} if margin is None else {f"p within {whole(margin)}": "p_equivalent", "Verdict": "verdict"}
        lines = [
            {
                "Dimension": r["dimension"].replace("_", " "),
                f"{self.a} (%)": number(r["a_pct"]),
                f"{self.b} (%)": number(r["b_pct"]),
                "Difference": number(r["diff_points"]),
                "Interval": _span(r, "") or r["no_interval"] or "",
                "p": p_value(r["p"], 4),
                "p (Holm)": p_value(r["p_holm"], 4),
                "Detectable": number(r["mdd_points"]),
                **{k: r[c] or "" if c == "verdict" else p_value(r[c], 4) for k, c in equivalent.items()},
                "p (McNemar)": p_value(r["p_mcnemar"], 4),
                "Tasks": _tasks(r),
                "a higher": str(r["n_a_higher"]),
                "b higher": str(r["n_b_higher"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(without_blanks(pl.DataFrame(lines), ("Detectable", "p (McNemar)")))

    def notes(self) -> list[str]:
        """As in `Result`, and how p-values are to be read."""
        out = super().notes()
        return [*out[:-1], self.multiplicity, *self.remarks, out[-1]]


def _tasks(row: Mapping[str, Any]) -> str:
    """How many tasks a line rests on, for each side where that is not the same."""
    sides = (row["n_a_tasks"], row["n_b_tasks"])
    return str(row["n_tasks"]) if set(sides) == {row["n_tasks"]} else f"{sides[0]} / {sides[1]}"


_COMPARISON = {
    "dimension": pl.String,
    **dict.fromkeys(
        (
            *("a_pct", "b_pct", "diff_points", "lo_points", "hi_points", "p", "p_holm", "mdd_points"),
            *("p_equivalent", "p_equivalent_holm"),
        ),
        pl.Float64,
    ),
    "verdict": pl.String,
    **dict.fromkeys(("p_mcnemar", "risk_diff_points"), pl.Float64),
    "no_mcnemar": pl.String,
    **dict.fromkeys(
        (
            *("n_tasks", "n_a_tasks", "n_b_tasks", "n_clusters", "n_a_higher", "n_b_higher"),
            "n_empty_resamples",
        ),
        pl.Int64,
    ),
    "no_interval": pl.String,
}


@estimator
def compare(
    study: Any,
    a: Any,
    b: Any,
    *,
    tasks: Tasks = "both",
    margin: Margin = None,
    interval: IntervalKind = "rule",
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Comparison:
    """Two rows, or two arms over the models that have both, paired by task.

    p is a sign-flip test: were the sides alike, each task's difference would as likely have the other sign. It is exact
    where all choices of signs can be counted (always up to 32 tasks that differ, and for hundreds where differences
    are multiples of one number), else from random flips. With `tasks="own"`, where the sides rest on other tasks, all
    that a task has is swapped between them. Clusters of tasks flip as one.

    The interval is a t interval from the spread between tasks within dimensions (Satterthwaite's degrees of freedom);
    where nothing varies, the exact bound of what so many tasks may have missed. It leaves out 0 exactly when p is below
    1 - `ci_level`: where t disagrees with p, the end nearer to 0 is the test-based limit.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    a, b : each a row: its name as the leaderboard prints it, a model (its default row), or (model, effort) or (model,
        effort, arm); or each an arm by name, `"no arm"` for the rows without one.
    tasks : `both` compares on the tasks that both sides solve alone; `own` each on its own ones, so that the overall
        difference is the leaderboard's.
    margin : in points: differences below it do not matter. Asks whether the sides are equivalent.
    interval : by the `rule` of uncertainty, or `percentile`: the paper's bootstrap over tasks within dimension, both
        sides sharing the resamples, and p from the same resamples, not below 2 / `resamples`.
    resamples, seed, ci_level : number of random flips and resamples, what they are drawn from, and the level.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Comparison
        `.table`: the overall line first, then one line per dimension: `dimension, a_pct, b_pct, diff_points` (a - b),
        `lo_points, hi_points, p` (two-sided), `p_holm` (over the dimensions; null in the overall line), `mdd_points`
        (minimum detectable difference: found with 80 % power at this level; null where nothing varies);
        `p_equivalent` (two one-sided t-tests against the margin; null without a margin), `p_equivalent_holm` (over the
        dimensions), `verdict` (`a higher`, `b higher`, `equivalent`, `undecided`, by the corrected p of a dimension;
        a difference that is there but smaller than the margin is said so); `p_mcnemar` (exact) and `risk_diff_points`
        (over tasks, each counting alike), or why not in `no_mcnemar`: they need one row a side and task values of 0 and
        1; `n_tasks` (shared by both sides; for arms, pairs of a row and a task), `n_a_tasks, n_b_tasks` (that each side
        rests on), `n_clusters` (independent units behind the interval), `n_a_higher, n_b_higher` (of the shared tasks),
        `n_empty_resamples` (percentile only: left out of the interval; with more than 5 % of them there is none, and no
        p), `no_interval` (why there is none). Overall is the mean of the dimensions in which both sides have a task.

    Raises
    ------
    TableError
        a or b is no row and no arm, a row is compared with an arm or itself, no task is shared, the margin is no number
        above 0, or the tasks are those of a published round (ids beginning with `unknown:`), which cannot be paired.

    References
    ----------
    Collaborative-intelligence paper, appendix C.1 (head to head) and section 2.3 (intervals). Fisher, The Design of
    Experiments (1935). Satterthwaite (1946). Miettinen, Estimability and estimation in case-referent studies (1976).
    Schuirmann, A comparison of the two one-sided tests procedure (1987).

    Examples
    --------
    >>> from cilab.datasets import hand_worked_round
    >>> found = compare(hand_worked_round(), ("sim:H1", "high"), "sim:H1")
    >>> found.table["diff_points"][0].__round__(2), found.table["p"][0]
    (5.56, 0.75)
    """
    choice("tasks", tasks, ("both", "own"))
    g = grid(study, **scope)
    g.need_known_tasks("compare")
    name_a, name_b, pairs = _sides(g, a, b)
    left, right = [p[0] for p in pairs], [p[1] for p in pairs]
    g = g.take([*left, *right])
    n = len(pairs)
    shared = g.scored[:n] & g.scored[n:]
    used = np.vstack([shared, shared]) if tasks == "both" else g.scored
    points = g.points(used)
    resample = interval == "percentile"
    drawn = g.replicates(used, resamples=resamples, seed=seed).by_dimension if resample else None
    judge = _Judge(g, shared, used, ci_level, resamples, seed, None if margin is None else margin / 100)
    table = judge.table(points[:n], points[n:], None if drawn is None else drawn[..., :n] - drawn[..., n:])
    if table.height == 1:
        raise TableError(f"compare: {name_a} and {name_b} have no task in common that both {g.gate_words}")
    dims = table.height - 1
    empty = table["n_empty_resamples"].fill_null(0) > MOST_UNDEFINED * resamples
    remarks = [*g.notes, *([_few(int(empty.sum()), "line")] if empty.any() else [])]
    if table["lo_points"][0] is None and not empty[0]:
        remarks.append(f"No overall interval: {table['no_interval'][0]}.")
    if resample:
        floor = f"p cannot lie below {2 / resamples:g}."
        how = f"{percent(ci_level)} intervals from {resamples:,} paired resamples of tasks within dimension."
    else:
        floor = f"p by {'sign flips' if tasks == 'both' else 'swaps'} of {intervals.units(g)}{judge.drawn_words}."
        how = f"{percent(ci_level)} intervals (t within dimensions; exact where nothing varies)."
    return Comparison(
        table=table,
        flipped=_flipped(g, shared),
        a=name_a,
        b=name_b,
        resamples=resamples,
        seed=seed,
        multiplicity=(
            f"One overall comparison; p_holm corrects the {dims} comparison{'s' * (dims != 1)} by dimension (Holm). "
            f"{floor} Comparing further pairs needs its own correction (cilab.all_pairs)."
        ),
        remarks=tuple(remarks),
        n_used=int(g.runs["used"].sum()),
        n_left_out=_left_out(grid_left=g.n_left_out, total=g.n_used, used=int(g.runs["used"].sum())),
        provenance=g.provenance,
        parameters={**g.asked, "rows": n},
        caption=(
            f"{name_a} minus {name_b} in points, {_WHICH[tasks]} {g.gate_words}"
            f"{f', mean over {n} rows' if n > 1 else ''}; {how}"
        ),
    )


_WHICH = {"both": "on the tasks that both", "own": "each side on the tasks that its rows"}


def _left_out(*, grid_left: Mapping[str, int], total: int, used: int) -> dict[str, int]:
    return {**grid_left, "of rows not compared": total - used} if total > used else dict(grid_left)


@dataclass
class _Judge:
    """The lines of a comparison.

    `g` holds the rows of a, then those of b; `shared` is of shape (pairs, tasks), `used` of shape (rows, tasks).
    """

    g: Grid
    shared: Mask
    used: Mask
    ci_level: float
    resamples: int
    seed: int
    margin: float | None

    def __post_init__(self) -> None:
        self.units = Units.of(self.g)
        self.drawn_words = ""
        n = len(self.shared)
        self.sides = self.g.values[:n], self.g.values[n:]
        self.changed = np.where(self.shared, self.sides[0] - self.sides[1], 0.0)

    def table(self, a: Array, b: Array, drawn: Array | None) -> pl.DataFrame:
        """All lines; a, b of shape (pairs, dimensions), `drawn` of shape (dimensions, resamples, pairs) or None."""
        lines, means, kept = [], [], []
        compared = np.zeros_like(self.shared)
        for d, (name, tasks) in enumerate(zip(self.g.dimensions, self.g.slices, strict=True)):
            both = np.isfinite(a[:, d]) & np.isfinite(b[:, d])
            if not both.any():
                continue
            means.append((bootstrap.exact_mean(a[both, d]), bootstrap.exact_mean(b[both, d])))
            compared[both, tasks] = True
            here = np.zeros_like(self.shared)
            here[both, tasks] = True
            if drawn is not None:
                kept.append(bootstrap.filled(drawn[d][:, both], a[both, d] - b[both, d]).mean(axis=1))
            lines.append({"dimension": name, **self.line(*means[-1], here, [d + 1], kept[-1:])})
        if not lines:
            return pl.DataFrame([{"dimension": OVERALL}], schema=_COMPARISON)
        overall = [bootstrap.exact_mean(np.array(side)) for side in zip(*means, strict=True)]
        of_all = [np.mean(kept, axis=0)] if kept else []
        first = {"dimension": OVERALL, **self.line(overall[0], overall[1], compared, [0], of_all)}
        if kept and any(line["no_interval"] == _ONE_TASK for line in lines):
            # One task cannot be resampled: its dimension would enter the interval as if it were known without error.
            first |= dict.fromkeys(("lo_points", "hi_points", "p")) | {"no_interval": "a dimension has one task"}
        for column in ("p", "p_equivalent"):
            corrected = adjust([line.get(column) for line in lines], method="holm").adjusted
            lines = [line | {f"{column}_holm": p} for line, p in zip(lines, corrected, strict=True)]
        told = [line | {"verdict": self.verdict(line)} for line in (first, *lines)]
        return pl.DataFrame(told, schema=_COMPARISON, orient="row")

    def line(self, a: float, b: float, here: Mask, seed: list[int], drawn: list[Array]) -> dict[str, Any]:
        """One line over the tasks that are `here`, shape (pairs, tasks)."""
        n = len(here)
        used = (self.used[:n] & here, self.used[n:] & here)
        asked: dict[str, Any] = {"ci_level": self.ci_level, "flips": self.resamples, "margin": self.margin}
        found = contrast(*self.sides, used, self.units, seed=[self.seed, *seed], **asked)
        if not found.exact:
            self.drawn_words = f", where there are too many to count {self.resamples:,} random ones"
        out = {"a_pct": 100 * a, "b_pct": 100 * b, "diff_points": 100 * (a - b), **_columns(found)}
        out |= {"p_equivalent": found.p_equivalent, **self.binary(here), **self.counts(here, used)}
        if not drawn:
            return out
        out |= dict.fromkeys(("lo_points", "hi_points", "p", "no_interval")) | _resampled(drawn[0], self.ci_level)
        if (used[0] | used[1]).any(axis=0).sum() < 2:
            out |= dict.fromkeys(("lo_points", "hi_points", "p")) | {"no_interval": _ONE_TASK}
        return {c: v for c, v in out.items() if c in _COMPARISON}

    def binary(self, here: Mask) -> dict[str, Any]:
        """McNemar's test and the risk difference of the shared tasks, or why there are none."""
        if len(here) > 1:
            return {"no_mcnemar": "several rows a side: their tasks are not independent"}
        shared = (self.shared & here)[0]
        if not shared.any():
            return {"no_mcnemar": "no shared task"}
        if self.units.unit != "task":
            return {"no_mcnemar": f"tasks of one {self.units.unit} are not independent"}
        one, two = (side[0, shared] for side in self.sides)
        if ((one % 1 > 0) | (two % 1 > 0)).any():
            return {"no_mcnemar": "graded: a task's value is not 0 or 1"}
        counts = [[int(((one == i) & (two == j)).sum()) for j in (1, 0)] for i in (1, 0)]
        found = mcnemar(counts)
        return {"p_mcnemar": found.p, "risk_diff_points": 100 * (found.estimate or 0.0)}

    def counts(self, here: Mask, used: tuple[Mask, Mask]) -> dict[str, int]:
        """Tasks of a line, and those that one side does better."""
        return {
            "n_tasks": int((self.shared & here).sum()),
            "n_a_tasks": int(used[0].sum()),
            "n_b_tasks": int(used[1].sum()),
            "n_a_higher": int((self.changed[here] > 1e-9).sum()),
            "n_b_higher": int((self.changed[here] < -1e-9).sum()),
        }

    def verdict(self, line: Mapping[str, Any]) -> str | None:
        """What a line shows at this level."""
        p, p_equivalent = (
            line.get(f"{c}_holm") if line.get(f"{c}_holm") is not None else line.get(c) for c in ("p", "p_equivalent")
        )
        if p is None:
            return None
        level = 1 - self.ci_level - 1e-12
        higher = ("a higher" if line["diff_points"] > 0 else "b higher") if p < level else None
        equivalent = p_equivalent is not None and p_equivalent < level
        if higher:
            return f"{higher}, by less than the margin" if equivalent else higher
        return "equivalent" if equivalent else "undecided"


_ONE_TASK = "too few: 1 task"


def _flipped(g: Grid, shared: Mask) -> pl.DataFrame:
    """Shared tasks with different values, and the runs behind them."""
    n = len(shared)
    difference = np.where(shared, g.values[:n] - g.values[n:], 0.0)
    at, t = np.nonzero(np.abs(difference) > 1e-9)
    order = np.lexsort((t, at, -np.abs(difference[at, t]).round(9)))
    at, t = at[order], t[order]
    runs = g.runs.filter((pl.col("version") == g.version) & pl.col("used")).sort("seed")
    ids = {(r, task): i for r, task, i in runs.group_by("r", "t", maintain_order=True).agg("run_id").iter_rows()}
    return (
        g.tasks[t]
        .select("task_id", "dimension")
        .select(
            pl.Series("a_row", [g.names[i] for i in at], dtype=pl.String),
            pl.Series("b_row", [g.names[n + i] for i in at], dtype=pl.String),
            "task_id",
            "dimension",
            pl.Series("a_value", g.values[at, t], dtype=pl.Float64),
            pl.Series("b_value", g.values[n + at, t], dtype=pl.Float64),
            pl.Series("higher", ["a" if v > 0 else "b" for v in difference[at, t]], dtype=pl.String),
            pl.Series("run_ids_a", [ids[i, j] for i, j in zip(at, t, strict=True)], dtype=pl.List(pl.String)),
            pl.Series("run_ids_b", [ids[n + i, j] for i, j in zip(at, t, strict=True)], dtype=pl.List(pl.String)),
        )
    )


def _sides(g: Grid, a: Any, b: Any) -> tuple[str, str, list[tuple[int, int]]]:
    """Names of the two sides, and the pairs of rows."""
    row_a, row_b = find_row(g, a), find_row(g, b)
    if row_a is not None and row_b is not None:
        if row_a == row_b:
            raise TableError(f"compare: a and b are the same row, {g.names[row_a]}")
        return g.names[row_a], g.names[row_b], [(row_a, row_b)]
    arms = g.rows["arm"].to_list()
    arm_a, arm_b = _arm(a, arms), _arm(b, arms)
    if arm_a is not _NONE and arm_b is not _NONE and row_a is None and row_b is None:
        keys = g.rows.select(ROW).rows()
        pairs = [
            (keys.index((m, e, arm_a)), keys.index((m, e, arm_b)))
            for m, e in dict.fromkeys((m, e) for m, e, _ in keys)
            if (m, e, arm_a) in keys and (m, e, arm_b) in keys
        ]
        if arm_a == arm_b or not pairs:
            raise TableError(f"compare: no model was run both in {arm_a or NO_ARM} and in {arm_b or NO_ARM}")
        return arm_a or NO_ARM, arm_b or NO_ARM, pairs
    known = [*g.names, *sorted({x for x in arms if x})]
    for side, row, arm in ((a, row_a, arm_a), (b, row_b, arm_b)):
        if row is None and arm is _NONE:
            hint = nearest(str(side), known)
            raise TableError(f"compare: no row or arm {side!r}.{hint} Rows: {', '.join(g.names[:12])}")
    raise TableError(f"compare: {a!r} and {b!r} are a row and an arm; give two rows or two arms")


NO_ARM = "no arm"
_NONE = object()


def _arm(which: Any, arms: Sequence[str | None]) -> Any:
    if which == NO_ARM and None in arms:
        return None
    return which if isinstance(which, str) and which in arms else _NONE


def find_row(g: Grid, which: Any) -> int | None:
    """Position of a row; None where there is none.

    A row is given by its name, by its model (the default row), as `model:effort` or `model:effort:arm`, or as a tuple
    of these.
    """
    keys = g.rows.select(ROW).rows()
    if isinstance(which, tuple | list):
        key = (*which, None, None)[:3]
        return keys.index(key) if key in keys else None
    if which in g.names:
        return g.names.index(which)
    of_model = [i for i, key in enumerate(keys) if key[0] == which]
    if len(of_model) == 1:
        return of_model[0]
    written = {":".join(filter(None, key)): i for i, key in enumerate(keys)}
    return next((r for r in default_rows(g) if r in of_model), written.get(which))
