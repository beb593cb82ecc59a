"""Rows beside one another: adjacent differences and rank stability, and two rows or two arms task by task.

May import `cilab.core` and its own folder. Reads no file. What pairs rows by task is refused where the tasks of a
published round are not known; bounds take its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, choice, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_SCORES, Array, Mask
from cilab.stats.methods.hypothesis_tests import adjust
from cilab.stats.methods.ratings import MOST_UNDEFINED
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import default_rows
from cilab.stats.teamwork.scores import shared_ranks

Tasks = Literal["both", "own"]

#: Name of the line over all dimensions.
OVERALL = "overall"


# -- adjacent differences -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Differences(Result):
    """Differences of rows that are neighbours in rank.

    Attributes
    ----------
    table : see `differences`.
    ranks : one line per row, best first: `row, model, effort, arm, rank, stability_pct` (share of resamples in which
        the row keeps its rank), `rank_lo, rank_hi` (ends of the interval of its rank). Null where rows are not paired,
        and for a row without a score in more than 5 % of the resamples.
    resamples, seed : of the bootstrap.
    """

    ranks: pl.DataFrame
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "differences"
    title: ClassVar[str] = "Differences between neighbours in rank"

    def sheet(self) -> Sheet:
        """One line per pair: the difference with its interval (or the two bounds of it) and p that it is positive."""
        lines = [
            {
                "Higher": r["higher"],
                "Lower": r["lower"],
                "Difference": number(r["diff_points"]),
                "Interval": _span(r, ""),
                "p higher": number(r["p_higher"], 3),
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
    **scope: Unpack[Scope],
) -> Differences:
    """Difference of the overall score between each row and the next, with its paired interval.

    Tasks are resampled within dimension, the same resamples for every row. `p_higher` is the share of resamples in
    which the higher row is higher (a tie counts half): how sure the order of two neighbours is, not a test.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    resamples, seed, ci_level : of the bootstrap.
    version, gate, allow_partial, reviews, benchmark, models, dimensions : see `cilab.stats.teamwork.grid.grid`;
        `models` compares some models only.

    Returns
    -------
    Differences
        `.table`: `higher, lower` (row names), `rank_higher, rank_lower, diff_points, lo_points, hi_points, p_higher`;
        then, only where task ids are places in published counts (so that the interval needs what nobody published),
        `lo_independent_points, hi_independent_points, p_higher_independent` (rows resampled apart from each other) and
        `lo_comonotone_points, hi_comonotone_points, p_higher_comonotone` (tasks placed so that both rows pass the same
        ones as far as their counts permit). The paired interval lies between the two. `n_empty_resamples`: in them one
        of the two rows has a dimension without a task that it solves alone; with more than 5 % of them the interval
        and `p_higher` are null.

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
    if g.unknown_tasks:
        extra = [_bounds(g, a, b, resamples, seed, ci_level) for a, b in pairs]
        stability: dict[str, list[Any]] = {c: [None] * len(order) for c in ("stability_pct", "rank_lo", "rank_hi")}
    else:
        drawn = g.replicates(resamples=resamples, seed=seed).overall
        extra = [_interval(drawn[:, a] - drawn[:, b], ci_level, "") for a, b in pairs]
        stability = _stability(drawn[:, order], overall[order], [ranks[r] for r in order], ci_level)
    lost = [g.names[r] for r in range(g.rows.height) if r not in order]
    remarks = (*g.notes, *([f"No overall score, so left out: {', '.join(lost)}."] if lost else []))
    if g.unknown_tasks:
        remarks += ("Tasks are not known, so rows are not paired: bounds instead of intervals, no rank stability.",)
        how = f"bounds of the {percent(ci_level)} interval from {resamples:,} resamples."
    else:
        how = f"{percent(ci_level)} intervals from {resamples:,} paired resamples."
    if n := sum(e["n_empty_resamples"] > MOST_UNDEFINED * resamples for e in extra):
        remarks += (_few(n, "pair"),)
    return Differences(
        table=pl.DataFrame([line | e for line, e in zip(lines, extra, strict=True)], schema=_DIFFERENCES, orient="row"),
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
    **dict.fromkeys(("diff_points", "lo_points", "hi_points", "p_higher", *_BOUNDS), pl.Float64),
    "n_empty_resamples": pl.Int64,
}


def _interval(difference: Array, ci_level: float, kind: str) -> dict[str, Any]:
    """Interval in points and share above 0 of replicates of a difference, under column names that end in `kind`."""
    found = bootstrap.interval(100 * difference, ci_level)
    out: dict[str, Any] = {"n_empty_resamples": found.n_empty}
    if found.lo is not None:
        above = float(bootstrap.share_above_zero(difference))
        out |= {f"lo{kind}_points": found.lo, f"hi{kind}_points": found.hi, f"p_higher{kind}": above}
    return out


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
    return Interval.of(row, "diff_points", f"lo{kind}_points", f"hi{kind}_points").span()


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
    resamples, seed : of the bootstrap.
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
        lines = [
            {
                "Dimension": r["dimension"].replace("_", " "),
                f"{self.a} (%)": number(r["a_pct"]),
                f"{self.b} (%)": number(r["b_pct"]),
                "Difference": number(r["diff_points"]),
                "Interval": _span(r, ""),
                "p": p_value(r["p"], 4),
                "p (Holm)": p_value(r["p_holm"], 4),
                "Tasks": str(r["n_tasks"]),
                "a higher": str(r["n_a_higher"]),
                "b higher": str(r["n_b_higher"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines)

    def notes(self) -> list[str]:
        """As in `Result`, and how p-values are to be read."""
        out = super().notes()
        return [*out[:-1], self.multiplicity, *self.remarks, out[-1]]


_COMPARISON = {
    "dimension": pl.String,
    **dict.fromkeys(("a_pct", "b_pct", "diff_points", "lo_points", "hi_points", "p", "p_holm"), pl.Float64),
    **dict.fromkeys(("n_tasks", "n_a_higher", "n_b_higher", "n_empty_resamples"), pl.Int64),
}


@estimator
def compare(
    study: Any,
    a: Any,
    b: Any,
    *,
    tasks: Tasks = "both",
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Comparison:
    """Two rows, or two arms over the models that have both, paired by task.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    a, b : each a row: its name as the leaderboard prints it, a model (its default row), or (model, effort) or (model,
        effort, arm); or each an arm by name, `"no arm"` for the rows without one.
    tasks : `both` compares on the tasks that both sides solve alone; `own` each on its own ones, so that the overall
        difference is the leaderboard's.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension; both sides share the resamples.
    version, gate, allow_partial, reviews, benchmark, models, dimensions : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Comparison
        `.table`: the overall line first, then one line per dimension: `dimension, a_pct, b_pct, diff_points` (a - b),
        `lo_points, hi_points, p` (two-sided, from the same resamples as the interval, not below 2 / resamples),
        `p_holm` (over the dimensions; null in the overall line), `n_tasks` (tasks of the comparison; for arms, pairs of
        a row and a task), `n_a_higher, n_b_higher, n_empty_resamples` (left out of the interval; with more than 5 % of
        them there is none, and no p). Overall is the mean of the dimensions in which both sides have a task.

    Raises
    ------
    TableError
        a or b is no row and no arm, a row is compared with an arm or itself, no task is shared, or the tasks are those
        of a published round (ids beginning with `unknown:`), which cannot be paired.

    References
    ----------
    Collaborative-intelligence paper, appendix C.1 (head to head) and section 2.3 (intervals).
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
    drawn = g.replicates(used, resamples=resamples, seed=seed).by_dimension
    table = _compared(g, points[:n], points[n:], drawn[..., :n] - drawn[..., n:], shared, used, ci_level)
    if table.height == 1:
        raise TableError(f"compare: {name_a} and {name_b} have no task in common that both {g.gate_words}")
    dims = table.height - 1
    empty = table["n_empty_resamples"] > MOST_UNDEFINED * resamples
    remarks = [*g.notes, *([_few(int(empty.sum()), "line")] if empty.any() else [])]
    if table["lo_points"][0] is None and not empty[0]:
        remarks.append("A dimension has one task to compare, which cannot be resampled: no overall interval and p.")
    return Comparison(
        table=table,
        flipped=_flipped(g, shared),
        a=name_a,
        b=name_b,
        resamples=resamples,
        seed=seed,
        multiplicity=(
            f"One overall comparison; p_holm corrects the {dims} comparison{'s' * (dims != 1)} by dimension (Holm). "
            f"p cannot lie below {2 / resamples:g}. Comparing further pairs needs its own correction."
        ),
        remarks=tuple(remarks),
        n_used=int(g.runs["used"].sum()),
        n_left_out=_left_out(grid_left=g.n_left_out, total=g.n_used, used=int(g.runs["used"].sum())),
        provenance=g.provenance,
        parameters={**g.asked, "rows": n},
        caption=(
            f"{name_a} minus {name_b} in points, {_WHICH[tasks]} {g.gate_words}"
            f"{f', mean over {n} rows' if n > 1 else ''}; "
            f"{percent(ci_level)} intervals from {resamples:,} paired resamples of tasks within dimension."
        ),
    )


_WHICH = {"both": "on the tasks that both", "own": "each side on the tasks that its rows"}


def _left_out(*, grid_left: Mapping[str, int], total: int, used: int) -> dict[str, int]:
    return {**grid_left, "of rows not compared": total - used} if total > used else dict(grid_left)


def _compared(g: Grid, a: Array, b: Array, drawn: Array, shared: Mask, used: Mask, ci_level: float) -> pl.DataFrame:
    """The table; a, b of shape (pairs, dimensions), drawn of shape (dimensions, resamples, pairs)."""
    changed = np.where(shared, g.values[: len(a)] - g.values[len(a) :], 0.0)
    lines, means, kept, distinct = [], [], [], []
    for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True)):
        both = np.isfinite(a[:, d]) & np.isfinite(b[:, d])
        if not both.any():
            continue
        means.append((bootstrap.exact_mean(a[both, d]), bootstrap.exact_mean(b[both, d])))
        kept.append(bootstrap.filled(drawn[d][:, both], a[both, d] - b[both, d]).mean(axis=1))
        counts = _changes(shared, changed, tasks)
        distinct.append(int(used[:, tasks].any(axis=0).sum()))
        lines.append({"dimension": name, **_paired(*means[-1], kept[-1], ci_level, distinct[-1]), **counts})
    if not lines:
        return pl.DataFrame([{"dimension": OVERALL}], schema=_COMPARISON)
    overall = [bootstrap.exact_mean(np.array(side)) for side in zip(*means, strict=True)]
    whole = slice(0, shared.shape[1])
    # One task cannot be resampled: its dimension would enter the interval as if it were known without error.
    first = {"dimension": OVERALL, **_paired(*overall, np.mean(kept, axis=0), ci_level, min(distinct))}
    corrected = adjust([line.get("p") for line in lines], method="holm").adjusted
    lines = [line | {"p_holm": p} for line, p in zip(lines, corrected, strict=True)]
    return pl.DataFrame([first | _changes(shared, changed, whole), *lines], schema=_COMPARISON, orient="row")


def _paired(a: float, b: float, drawn: Array, ci_level: float, n_tasks: int) -> dict[str, Any]:
    found = bootstrap.interval(100 * drawn, ci_level)
    out = {"a_pct": 100 * a, "b_pct": 100 * b, "diff_points": 100 * (a - b), "n_empty_resamples": found.n_empty}
    if found.lo is None or n_tasks < 2:  # one task has no spread to speak of
        return out
    p = float(bootstrap.two_sided_p(np.round(drawn[~np.isnan(drawn)], 12)))
    return out | {"lo_points": found.lo, "hi_points": found.hi, "p": p}


def _changes(shared: Mask, changed: Array, tasks: slice) -> dict[str, int]:
    return {
        "n_tasks": int(shared[:, tasks].sum()),
        "n_a_higher": int((changed[:, tasks] > 1e-9).sum()),
        "n_b_higher": int((changed[:, tasks] < -1e-9).sum()),
    }


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
