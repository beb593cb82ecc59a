"""What a score costs and what goes with it: effort, cost, where the score is lost, capability, release dates.

May import `cilab.core` and its own folder. Reads no file and calls no model: public
capability measures come in as a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.results.result import Result, number
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, exact_mean
from cilab.stats.methods.hypothesis_tests import pearson, sign_test
from cilab.stats.methods.ratings import check_level
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import ROW, Grid, grid
from cilab.stats.teamwork.groups import default_rows
from cilab.stats.teamwork.task_runs import TaskResult

OVERALL = "overall"
#: The dimension without a calm team: its baseline is the model's own start (collaborative-intelligence paper, D.1).
TAKING_OVER = "taking_over"

_SAME = 1e-9


def _pct(name: str, values: Array) -> pl.Series:
    return pl.Series(name, 100 * np.asarray(values, float), dtype=pl.Float64).fill_nan(None)


def _ends(lo: float | None, hi: float | None, digits: int = 1) -> str:
    return "" if lo is None or hi is None else f"{number(lo, digits)} to {number(hi, digits)}"


def _overall(g: Grid, counts: Array) -> tuple[Array, Array]:
    """Overall scores and replicates: shapes (R,) and (resamples, R); NaN where a dimension is undefined."""
    points, draws = task_runs.score_draws(g, counts)
    return bootstrap.overall_means(points), draws.mean(axis=0)


# -- effort -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Effort(TaskResult):
    """A model's default setting against its high reasoning effort.

    Attributes
    ----------
    table : see `effort`.
    dimensions : over all models: `dimension, n_models, diff_points, lo_points, hi_points` (mean change of the score),
        `n_better, n_worse, n_tied, p` (tasks solved alone at both settings, exact sign test), and by task and seed
        `n_pairs, n_zero_only_high, n_zero_only_default, p_pairs` (runs that score 0 at one setting only; in a conflict,
        runs that give in; exact sign test).
    cells : `model, effort, dimension, default_pct, high_pct, diff_points, n_better, n_worse, n_tied`, and over the
        tests of the tasks solved alone at both settings `both_default_pct, both_high_pct` (scores),
        `default_tokens_out, high_tokens_out, default_tool_calls, high_tool_calls` (means per run; null where unknown).
    output_length : Pearson's r of log10 mean output tokens per run with the score, over default rows: `n_rows, r, lo,
        hi, lo_models, hi_models, p, n_empty_resamples, undefined`.
    """

    dimensions: pl.DataFrame
    cells: pl.DataFrame
    output_length: pl.DataFrame

    figure: ClassVar[str | None] = "effort"
    title: ClassVar[str] = "Default against high reasoning effort"

    def display(self) -> pl.DataFrame:
        """One line per model, as the paper's table 6."""
        lines = [
            {
                "Model": r["model"],
                "Effort": f"{r['default_effort'] or 'none'} → {r['effort']}",
                "Default": number(r["default_pct"]),
                "High": number(r["high_pct"]),
                "Change": number(r["diff_points"]),
                "Interval": _ends(r["lo_points"], r["hi_points"]),
                "Cost": "" if r["cost_ratio"] is None else f"× {r['cost_ratio']:.1f}",
                "Better/worse": f"{r['n_better']}/{r['n_worse']}",
                "Tied": str(r["n_tied"]),
                "p": f"{r['p']:.3f}",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return pl.DataFrame(lines)


def effort(
    study: Any,
    *,
    default: str | None = None,
    resamples: int = RESAMPLES_OTHER,
    seed: int = 0,
    ci_level: float = 0.95,
    **settings: Any,
) -> Effort:
    """What more reasoning changes, model by model and dimension by dimension.

    Each model's other effort settings are compared with its default one. Tasks are paired where both settings solve
    them alone; ties are dropped from the sign test and counted. The scores are each setting's own, as on the
    leaderboard, so their difference need not be the mean difference of the paired tasks.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    default : name of the default effort; None: null or "default", else a model's only one.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension, paired.
    settings : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Effort
        `.table`: `model, default_effort, effort, default_pct, high_pct, diff_points, lo_points, hi_points, cost_ratio,
        tokens_out_ratio` (mean output tokens per run; null where unknown), `n_better, n_worse, n_tied, p`.

    Raises
    ------
    TableError
        No model was run at its default and another setting; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section 3.2 and appendix E, table 6, figures 16 and 17.
    """
    check_level(ci_level)
    g = grid(study, **settings)
    g.need_known_tasks("effort")
    pairs = _effort_pairs(g, default)
    counts = task_runs.task_counts(g, resamples, seed)
    points, draws = task_runs.score_draws(g, counts)
    overall, overall_draws = bootstrap.overall_means(points), draws.mean(axis=0)
    use, work = _usage(study, g), _work(study, g)
    cells, lines = [], []
    for low, high in pairs:
        key = {"model": g.rows["model"][low], "default_effort": g.rows["effort"][low], "effort": g.rows["effort"][high]}
        lo, hi = bootstrap.ends(overall_draws[:, high] - overall_draws[:, low], ci_level)
        lines.append(
            key
            | _change(overall[low], overall[high])
            | {"lo_points": None if lo is None else 100 * lo, "hi_points": None if hi is None else 100 * hi}
            | {f"{name}_ratio": _ratio(values[high], values[low]) for name, values in use.items()}
            | _sign(g, [(low, high)], slice(None))
        )
        for d, name in enumerate(g.dimensions):
            signs = _sign(g, [(low, high)], g.slices[d])
            signs.pop("p")
            cells.append(
                {"model": key["model"], "effort": key["effort"], "dimension": name}
                | _change(points[low, d], points[high, d])
                | signs
                | _both(g, work, low, high, g.slices[d])
            )
    compared = sorted({r for pair in pairs for r in pair})
    used = int((g.runs["used"] & g.runs["r"].is_in(compared)).sum())
    length = _output_length(g, use["tokens_out"], overall, overall_draws, ci_level)
    return Effort(
        table=pl.DataFrame(lines, infer_schema_length=None),
        dimensions=_effort_dimensions(g, pairs, points, draws, ci_level),
        cells=pl.DataFrame(cells, infer_schema_length=None),
        output_length=length,
        resamples=resamples,
        seed=seed,
        remarks=g.notes,
        n_used=used,
        n_left_out=task_runs.left_out(g, used, {"of rows that were run at one effort only": g.n_used - used}),
        provenance=g.provenance,
        parameters={**g.asked, "default": default, "resamples": resamples, "seed": seed, "ci_level": ci_level},
        caption=(
            f"Score at the default and at high reasoning effort in percent; {_gated(g)} at both whose {_value(g)} "
            "rises or falls; p from a two-sided exact sign test, ties dropped."
        ),
    )


def _gated(g: Grid) -> str:
    return "tasks scored" if g.gate == "off" else "tasks solved alone"


def _value(g: Grid) -> str:
    return "test value" if g.version == "test" else f"value ({g.version})"


def _effort_pairs(g: Grid, default: str | None) -> list[tuple[int, int]]:
    """(default row, other row) of one model, without an arm."""
    if default is None:
        low = {g.rows["model"][r]: r for r in default_rows(g)}
    else:
        known = sorted({e for e in g.rows["effort"].to_list() if e is not None})
        if default not in known:
            raise TableError(f"effort: no row has effort {default!r}.{nearest(default, known)}")
        rows = zip(*(g.rows[c].to_list() for c in ROW), strict=True)
        low = {m: r for r, (m, e, arm) in enumerate(rows) if e == default and arm is None}
    plain = g.rows["arm"].is_null().to_list()
    pairs = [(low[m], r) for r, m in enumerate(g.rows["model"].to_list()) if m in low and plain[r] and r != low[m]]
    if not pairs:
        raise TableError("effort: no model was run at its default and at another reasoning effort; say default=")
    return pairs


def _change(low: float, high: float) -> dict[str, float | None]:
    a, b = (None if np.isnan(v) else 100 * float(v) for v in (low, high))
    return {"default_pct": a, "high_pct": b, "diff_points": None if a is None or b is None else b - a}


def _ratio(a: float, b: float) -> float | None:
    return None if np.isnan(a) or np.isnan(b) or b == 0 else float(a / b)


def _sign(g: Grid, pairs: Sequence[tuple[int, int]], tasks: slice) -> dict[str, Any]:
    """Tasks solved alone at both settings: better, worse, tied, and p of the sign test."""
    changes = []
    for low, high in pairs:
        both = g.scored[low, tasks] & g.scored[high, tasks]
        changes.append((g.values[high, tasks] - g.values[low, tasks])[both])
    change = np.concatenate(changes)
    change[np.abs(change) < _SAME] = 0.0
    test = sign_test(change)
    better = int((change > 0).sum())
    return {"n_better": better, "n_worse": test.n - better, "n_tied": test.n_dropped, "p": test.p}


def _effort_dimensions(
    g: Grid, pairs: Sequence[tuple[int, int]], points: Array, draws: Array, ci_level: float
) -> pl.DataFrame:
    lines = []
    low, high = ([pair[i] for pair in pairs] for i in (0, 1))
    for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True)):
        change = points[high, d] - points[low, d]
        there = np.isfinite(change)
        drawn = (draws[d][:, high] - draws[d][:, low])[:, there].mean(axis=1) if there.any() else np.empty(0)
        lo, hi = bootstrap.ends(drawn, ci_level)
        lines.append(
            {
                "dimension": name,
                "n_models": int(there.sum()),
                "diff_points": 100 * exact_mean(change[there]) if there.any() else None,
                "lo_points": None if lo is None else 100 * lo,
                "hi_points": None if hi is None else 100 * hi,
            }
            | _sign(g, pairs, tasks)
            | _zero_pairs(g, pairs, tasks)
        )
    return pl.DataFrame(lines, infer_schema_length=None)


def _work(study: Any, g: Grid) -> dict[str, Array]:
    """Sums over the test runs of each row and task (R, T); NaN where one is unknown, and the number of runs."""
    runs = task_runs.used_runs(study, g, ("tokens_out", "tool_calls"))
    of = {c: runs[c].cast(pl.Float64).fill_null(np.nan) for c in ("tokens_out", "tool_calls")}
    return {"n": task_runs.counted(g, runs)} | {name: task_runs.summed(g, runs, values) for name, values in of.items()}


def _both(g: Grid, work: Mapping[str, Array], low: int, high: int, tasks: slice) -> dict[str, float | None]:
    """Score, output tokens and tool calls per test run, over the tasks solved alone at both settings."""
    both = g.scored[low, tasks] & g.scored[high, tasks]
    out: dict[str, float | None] = {}
    for name, r in (("default", low), ("high", high)):
        out[f"both_{name}_pct"] = 100 * exact_mean(g.values[r, tasks][both]) if both.any() else None
        n = work["n"][r, tasks][both].sum()
        for column in ("tokens_out", "tool_calls"):
            total = work[column][r, tasks][both].sum()
            out[f"{name}_{column}"] = float(total / n) if n and not np.isnan(total) else None
    return out


def _zero_pairs(g: Grid, pairs: Sequence[tuple[int, int]], tasks: slice) -> dict[str, Any]:
    """Runs of one task and seed at both settings: which score 0 at one of them only."""
    n = only_high = only_low = 0
    for low, high in pairs:
        both = (g.scored[low, tasks] & g.scored[high, tasks])[:, None]
        a, b = g.by_seed[low, tasks], g.by_seed[high, tasks]
        there = both & np.isfinite(a) & np.isfinite(b)
        n += int(there.sum())
        only_high += int((there & (b == 0) & (a > 0)).sum())
        only_low += int((there & (a == 0) & (b > 0)).sum())
    test = sign_test([1] * only_high + [-1] * only_low) if only_high + only_low else None
    p = 1.0 if test is None else test.p
    return {"n_pairs": n, "n_zero_only_high": only_high, "n_zero_only_default": only_low, "p_pairs": p}


def _usage(study: Any, g: Grid) -> dict[str, Array]:
    """Cost of each row's evaluation (USD) and mean output tokens per run; NaN where a run's is unknown."""
    runs = _with_usage(study, g)
    out = {}
    for column, name, how in (("cost_usd", "cost", pl.Expr.sum), ("tokens_out", "tokens_out", pl.Expr.mean)):
        known = runs.group_by("r").agg(pl.when(pl.col(column).null_count() == 0).then(how(pl.col(column))).alias(name))
        values = np.full(g.rows.height, np.nan)
        values[known["r"].to_numpy()] = known[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        out[name] = values
    return out


def _with_usage(study: Any, g: Grid) -> pl.DataFrame:
    """Every run that the rows played, scored or not, with its cost and tokens.

    A run that the gate kept from being played costs nothing; so does a run that ended in an error and has no cost.
    """
    played = g.runs.filter(pl.col("status") != "gated_out").select("run_id", "r", "status")
    if played["run_id"].null_count():
        raise TableError("runs: some have no run_id, so their cost cannot be found")
    more = task_runs.run_columns(study, ("cost_usd", "tokens_out"))
    runs = played.join(more, on="run_id", how="left").with_columns(
        pl.col("cost_usd").cast(pl.Float64), pl.col("tokens_out").cast(pl.Float64)
    )
    failed = pl.col("status") == "error"
    return runs.with_columns(cost_usd=pl.when(failed).then(pl.col("cost_usd").fill_null(0.0)).otherwise("cost_usd"))


def _output_length(g: Grid, tokens: Array, overall: Array, draws: Array, ci_level: float) -> pl.DataFrame:
    rows = [r for r in default_rows(g) if tokens[r] > 0]
    x = np.log10(tokens[rows])
    line = task_runs.correlation(x, overall[rows], np.broadcast_to(x, (len(draws), len(x))), draws[:, rows], ci_level)
    return pl.DataFrame([line], schema=task_runs.CORRELATION_SCHEMA, orient="row")


# -- cost -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Pareto(TaskResult):
    """Scores against the cost of the evaluation.

    Attributes
    ----------
    table : see `pareto`.
    unpriced : row -> why it is left out: the cost of some of its runs is unknown, or it has no overall score.
    """

    unpriced: Mapping[str, str]

    figure: ClassVar[str | None] = "pareto"
    title: ClassVar[str] = "The cost of a score"

    def display(self) -> pl.DataFrame:
        """One line per row, cheapest first; a star marks the frontier."""
        lines = [
            {
                "Row": r["row"],
                "Score (%)": number(r["score_pct"]),
                "Cost (USD)": number(r["cost_usd"], 2),
                "Points per USD": number(r["points_per_usd"], 2),
                "Frontier": "*" if r["on_frontier"] else "",
                "In resamples (%)": number(r["frontier_pct"], 0),
                "Beaten by": r["beaten_by"] or "",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return pl.DataFrame(lines)

    def notes(self) -> list[str]:
        """As in `Result`, with the rows that are left out by name."""
        out = super().notes()
        return [*out[:-1], *([f"Not shown: {by_reason(self.unpriced)}."] if self.unpriced else []), out[-1]]


def pareto(
    study: Any, *, resamples: int = RESAMPLES_OTHER, seed: int = 0, ci_level: float = 0.95, **settings: Any
) -> Pareto:
    """Score of every row against the cost of its whole evaluation, and the rows that no cheaper row beats.

    The cost is that of the model under test in all its runs of the tasks that are asked for, scored or not. A row
    is on the frontier unless another one scores at least as much for at most as much money, and is better in one of
    the two. Every row enters: all effort settings and arms.

    Parameters
    ----------
    study : opened study, data set, or runs table with `cost_usd`.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension.
    settings : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Pareto
        `.table`, cheapest first: `row, model, effort, arm, score_pct, lo_pct, hi_pct, cost_usd, points_per_usd,
        on_frontier, frontier_pct` (share of the resamples with a score for every row in which the row is on the
        frontier; null where rows are not paired by task), `beaten_by` (the best row that is no dearer; null on the
        frontier).

    Raises
    ------
    TableError
        No row has both a score and a known cost; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section 3.3, figure 4.
    """
    check_level(ci_level)
    whole = grid(study, **settings)
    cost = _usage(study, whole)["cost"]
    score = bootstrap.overall_means(whole.points())
    unpriced = _unpriced(whole, cost, score)
    rows = [r for r in np.argsort(cost, kind="stable").tolist() if whole.names[r] not in unpriced]
    if not rows:
        raise TableError(f"pareto: no row has a score and a known cost: {by_reason(unpriced)}")
    g = whole.take(rows)
    counts = task_runs.task_counts(whole, resamples, seed)
    score, draws = _overall(g, counts)
    cost = cost[rows]
    lo, hi = bootstrap.percentile_interval(draws, ci_level)
    beaten = _beaten(score[None], cost)[0]
    share = np.full(len(rows), np.nan)
    whole_draws = draws[np.isfinite(draws).all(axis=1)]
    if len(whole_draws) and not g.unknown_tasks:
        share = 1 - _beaten(whole_draws, cost).any(axis=2).mean(axis=0)
    used = int(g.runs["used"].sum())
    return Pareto(
        table=g.rows.select("row", *ROW).with_columns(
            _pct("score_pct", score),
            _pct("lo_pct", lo),
            _pct("hi_pct", hi),
            pl.Series("cost_usd", cost),
            pl.Series("points_per_usd", [100 * s / c if c > 0 else None for s, c in zip(score, cost, strict=True)]),
            pl.Series("on_frontier", ~beaten.any(axis=1)),
            _pct("frontier_pct", share),
            pl.Series("beaten_by", _best_of(beaten, score, cost, g.names), dtype=pl.String),
        ),
        unpriced=unpriced,
        resamples=resamples,
        seed=seed,
        remarks=whole.notes,
        n_used=used,
        n_left_out=task_runs.left_out(whole, used, {"of rows without a known cost or a score": whole.n_used - used}),
        provenance=g.provenance,
        parameters={**g.asked, "resamples": resamples, "seed": seed, "ci_level": ci_level},
        caption="Overall score in percent against the cost of the model under test in its whole evaluation, in USD.",
    )


def _unpriced(g: Grid, cost: Array, score: Array) -> dict[str, str]:
    out = {}
    for name, c, s in zip(g.names, cost, score, strict=True):
        if np.isnan(c):
            out[name] = "the cost of some of its runs is unknown"
        elif np.isnan(s):
            which = "scored task" if g.gate == "off" else "task solved alone"
            out[name] = f"no overall score: a dimension without a {which}"
    return out


def by_reason(left_out: Mapping[str, str]) -> str:
    """Rows behind each reason why they are left out, each reason once."""
    rows: dict[str, list[str]] = {}
    for row, why in left_out.items():
        rows.setdefault(why, []).append(row)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in rows.items())


def _beaten(score: Array, cost: Array) -> np.ndarray:
    """[..., i, j]: row j scores at least as much as row i for at most as much, and one of the two is strict."""
    rounded = np.round(score, 12)
    higher = rounded[..., None, :] > rounded[..., :, None]
    same = rounded[..., None, :] == rounded[..., :, None]
    cheaper, as_cheap = cost[None, :] < cost[:, None], cost[None, :] <= cost[:, None]
    return (higher & as_cheap) | (same & cheaper)


def _best_of(beaten: np.ndarray, score: Array, cost: Array, names: Sequence[str]) -> list[str | None]:
    out: list[str | None] = []
    for by in beaten:
        better = np.flatnonzero(by)
        out.append(names[min(better, key=lambda j: (-score[j], cost[j]))] if len(better) else None)
    return out


# -- where the score is lost ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Loss(TaskResult):
    """Where the score is lost: in a calm team, or to the teammate's problem.

    Attributes
    ----------
    table : see `loss`.
    summary : means over models: `by` (all, dimension, group), `name, n_rows, passed_pct, lost_test_points,
        lost_calm_points, test_share_pct` (mean over models of the share of the loss that falls in the test), each with
        its `_lo, _hi`.
    correlation : Pearson's r over models of the loss in a calm team with the overall score.
    """

    summary: pl.DataFrame
    correlation: pl.DataFrame

    figure: ClassVar[str | None] = "loss"
    title: ClassVar[str] = "Where the score is lost"

    def display(self) -> pl.DataFrame:
        """One line per model, over the dimensions."""
        lines = [
            {
                "Model": r["model"],
                "Passed (%)": number(r["passed_pct"]),
                "Lost in the test": number(r["lost_test_points"]),
                "Lost in a calm team": number(r["lost_calm_points"]),
                "Of the loss, in the test (%)": number(r["test_share_pct"], 0),
                "Tasks": str(r["n_tasks"]),
                "Test above baseline": str(r["n_test_above"]),
            }
            for r in self.table.filter(pl.col("dimension") == OVERALL).iter_rows(named=True)
        ]
        return pl.DataFrame(lines)


def loss(
    study: Any,
    *,
    groups: Mapping[str, Any] | pl.DataFrame | None = None,
    resamples: int = RESAMPLES_OTHER,
    seed: int = 0,
    ci_level: float = 0.95,
    **settings: Any,
) -> Loss:
    """Split what each model loses, from the tasks it solves alone to the test, into two parts.

    Over the tasks solved alone that have both a baseline and a test: passed is the test score, lost in a calm team is 1
    minus the baseline, lost in the test is baseline minus test; the three add up to 100. A task whose test is better
    than its baseline counts as a negative loss in the test and is counted, not clipped away. Each dimension counts
    equally; taking over is left out, because its baseline is no calm team. Rows at each model's default setting.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    groups, resamples, seed, ci_level, settings : as in `cilab.stats.teamwork.failures.failures`.

    Returns
    -------
    Loss
        `.table`: `model, effort, arm, dimension` (`overall` is the mean over dimensions), `passed_pct,
        lost_test_points, lost_calm_points, test_share_pct` (of the loss; null where nothing is lost), `n_tasks,
        n_test_above`.

    Raises
    ------
    TableError
        No row has a baseline outside taking over; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section D.1, figure 14.
    """
    check_level(ci_level)
    whole = grid(study, **settings)
    g = task_runs.default_grid(whole)
    kept = (g.tasks["dimension"] != TAKING_OVER).to_numpy()
    both = g.scored & g.has_baseline
    with_baseline = np.flatnonzero((both & kept).any(axis=1)).tolist()
    if not with_baseline:
        which = "with a scored test" if g.gate == "off" else "that it solves alone"
        raise TableError(f"loss: no row has a baseline run of a task {which} (taking over does not count)")
    scored, scored_draws_of = g.take(with_baseline), task_runs.task_counts(g, resamples, seed)
    g = scored.where(kept)
    both = g.scored & g.has_baseline
    counts = scored_draws_of[:, kept]
    parts = {"passed": g.values, "lost_test": g.baseline - g.values, "lost_calm": 1 - g.baseline}
    found = {name: task_runs.score_draws(g, counts, values, both) for name, values in parts.items()}
    score, score_draws = _overall(scored, scored_draws_of)
    used = int((g.runs["used"] & _of_tasks(g, scored)).sum())
    calm, calm_draws = found["lost_calm"]
    paired = task_runs.paired(g, score_draws)
    line = task_runs.correlation(bootstrap.overall_means(calm), score, calm_draws.mean(axis=0), paired, ci_level)
    gone = [name for r, name in enumerate(task_runs.default_grid(whole).names) if r not in with_baseline]
    return Loss(
        table=_loss_table(g, {name: points for name, (points, _) in found.items()}, both),
        summary=_loss_summary(study, g, found, groups, ci_level),
        correlation=pl.DataFrame([line], schema=task_runs.CORRELATION_SCHEMA, orient="row"),
        resamples=resamples,
        seed=seed,
        remarks=whole.notes + ((f"No baseline: {', '.join(gone)}.",) if gone else ()),
        n_used=used,
        n_left_out=task_runs.left_out(whole, used, {"of taking over, or of rows left out": whole.n_used - used}),
        provenance=g.provenance,
        parameters={**g.asked, "resamples": resamples, "seed": seed, "ci_level": ci_level},
        caption=(
            f"Of {'all tasks' if g.gate == 'off' else 'the tasks solved alone'}, in percent: passed in the test, lost "
            "in the test, lost in a calm team."
        ),
    )


def _of_tasks(part: Grid, whole: Grid) -> pl.Series:
    """Which runs are of the tasks of `part`; the runs still have the positions of `whole`."""
    kept = whole.tasks["task_id"].is_in(part.tasks["task_id"].to_list())
    return part.runs["t"].is_in(np.flatnonzero(kept.to_numpy()).tolist())


def _in_test(lost_test: Array, lost_calm: Array) -> Array:
    """Share of the loss that falls in the test; NaN where nothing is lost."""
    total = lost_test + lost_calm
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > _SAME, lost_test / total, np.nan)


def _loss_table(g: Grid, points: Mapping[str, Array], both: np.ndarray) -> pl.DataFrame:
    above = both & (np.nan_to_num(g.values - g.baseline) > _SAME)
    frames = []
    for name, which, tasks in [(OVERALL, None, slice(None)), *_numbered(g)]:
        of = {k: bootstrap.overall_means(v) if which is None else v[:, which] for k, v in points.items()}
        frames.append(
            g.rows.select(ROW).with_columns(
                pl.lit(name).alias("dimension"),
                _pct("passed_pct", of["passed"]),
                _pct("lost_test_points", of["lost_test"]),
                _pct("lost_calm_points", of["lost_calm"]),
                _pct("test_share_pct", _in_test(of["lost_test"], of["lost_calm"])),
                pl.Series("n_tasks", both[:, tasks].sum(axis=1), dtype=pl.Int64),
                pl.Series("n_test_above", above[:, tasks].sum(axis=1), dtype=pl.Int64),
            )
        )
    return pl.concat(frames)


def _numbered(g: Grid) -> list[tuple[str, int, slice]]:
    return [(name, d, tasks) for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True))]


def _loss_summary(
    study: Any,
    g: Grid,
    found: Mapping[str, tuple[Array, Array]],
    groups: Mapping[str, Any] | pl.DataFrame | None,
    ci_level: float,
) -> pl.DataFrame:
    overall = {k: (bootstrap.overall_means(p), d.mean(axis=0)) for k, (p, d) in found.items()}
    everyone = list(range(g.rows.height))
    asked = [("all", "all", everyone, overall)]
    asked += [("group", name, rows, overall) for name, rows in task_runs.groups_of(study, g, groups).items()]
    for name, d, _ in _numbered(g):
        asked.append(("dimension", name, everyone, {k: (p[:, d], draws[d]) for k, (p, draws) in found.items()}))
    lines = []
    for by, name, rows, of in asked:
        there = [r for r in rows if np.isfinite(of["passed"][0][r])]
        line: dict[str, Any] = {"by": by, "name": name, "n_rows": len(there)}
        of = of | {"test_share": tuple(_in_test(of["lost_test"][i], of["lost_calm"][i]) for i in (0, 1))}
        for part, unit in (("passed", "pct"), ("lost_test", "points"), ("lost_calm", "points"), ("test_share", "pct")):
            point, draws = of[part][0][there], of[part][1][:, there]
            line |= _mean_line(f"{part}_{unit}", point, draws, ci_level if not g.unknown_tasks else None)
        lines.append(line)
    return pl.DataFrame(lines, infer_schema_length=None)


def _mean_line(name: str, point: Array, draws: Array, ci_level: float | None) -> dict[str, float | None]:
    """Mean over rows in percent with its interval; rows without a value are left out of it."""
    there = np.isfinite(point)
    if not there.any():
        return {name: None, f"{name}_lo": None, f"{name}_hi": None}
    lo, hi = (None, None) if ci_level is None else bootstrap.ends(draws[:, there].mean(axis=1), ci_level)
    ends = {f"{name}_{end}": None if v is None else 100 * v for end, v in (("lo", lo), ("hi", hi))}
    return {name: 100 * exact_mean(point[there])} | ends


# -- capability -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Capability(TaskResult):
    """Scores against public measures of capability.

    Attributes
    ----------
    table : see `capability`.
    fits : least-squares line of the overall score on each measure: `measure, n_rows, intercept_pct, slope_points` (per
        unit of the measure), `r_squared`; null with fewer than three models, through which any line fits.
    residuals : `measure, model, value, score_pct, fitted_pct, residual_points`, largest residual first; the last two
        null where there is no line.
    missing : measure -> models of the data without a value.
    """

    fits: pl.DataFrame
    residuals: pl.DataFrame
    missing: Mapping[str, Sequence[str]]

    figure: ClassVar[str | None] = "capability"
    title: ClassVar[str] = "Capability and teamwork"

    def display(self) -> pl.DataFrame:
        """One line per measure and dimension."""
        lines = [
            {
                "Measure": r["measure"],
                "Dimension": r["dimension"].replace("_", " "),
                "r": number(r["r"], 2, missing="–"),
                "Tasks resampled": _ends(r["lo"], r["hi"], 2),
                "Models (Fisher's z)": _ends(r["lo_models"], r["hi_models"], 2),
                "Models": str(r["n_rows"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return pl.DataFrame(lines)

    def notes(self) -> list[str]:
        """As in `Result`, with the models that have no value, and why an r is missing."""
        out = super().notes()
        gone = [f"{measure}: {', '.join(models)}" for measure, models in self.missing.items() if models]
        more = [f"Without a value: {'; '.join(gone)}."] if gone else []
        why = self.table["undefined"].drop_nulls().unique(maintain_order=True).to_list()
        more += [f"No r: {'; '.join(why)}."] if why else []
        return [*out[:-1], *more, out[-1]]


def capability(
    study: Any,
    measures: Any,
    *,
    columns: Sequence[str] | None = None,
    resamples: int = RESAMPLES_OTHER,
    seed: int = 0,
    ci_level: float = 0.95,
    **settings: Any,
) -> Capability:
    """Correlate the overall score and every dimension score with public measures of capability, over models.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    measures : frame (polars or pandas) with `model` and one column per measure; null where a model has no value.
    columns : the measures to use; None takes every numeric column.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension; measures stay as they are.
    settings : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Capability
        Rows at each model's default setting. `.table`: `measure, dimension` (`overall` first), `n_rows, r, lo, hi`
        (tasks resampled; null where rows are not paired by task), `lo_models, hi_models` (Fisher's z), `p,
        n_empty_resamples, undefined` (why there is no r: fewer than three models with a value, or all alike).

    Raises
    ------
    TableError
        The frame has no column `model`, lists a model twice, has no numeric column or none of the models; or as in
        `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix F, figure 18, table 7.
    """
    check_level(ci_level)
    whole = grid(study, **settings)
    g = task_runs.default_grid(whole)
    frame, names = _measures(measures, columns, g)
    counts = task_runs.task_counts(g, resamples, seed)
    points, draws = task_runs.score_draws(g, counts)
    overall, overall_draws = bootstrap.overall_means(points), draws.mean(axis=0)
    values = g.rows.select("model").join(frame, on="model", how="left", maintain_order="left")
    lines, fits, residuals, missing = [], [], [], {}
    for name in names:
        x = values[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        missing[name] = values.filter(pl.col(name).is_null() | pl.col(name).cast(pl.Float64).is_nan())[
            "model"
        ].to_list()
        x_draws = None if g.unknown_tasks else np.broadcast_to(x, overall_draws.shape)
        of = [(OVERALL, overall, overall_draws), *((d, points[:, i], draws[i]) for i, d in enumerate(g.dimensions))]
        for dimension, y, y_draws in of:
            key = {"measure": name, "dimension": dimension}
            lines.append(key | task_runs.correlation(x, y, x_draws, y_draws, ci_level))
        fit, left = _fit(name, g.rows["model"].to_list(), x, overall)
        fits.append(fit)
        residuals += left
    tests = int((g.runs["used"] & (g.runs["version"] == g.version)).sum())
    schema = {"measure": pl.String, "dimension": pl.String} | task_runs.CORRELATION_SCHEMA
    return Capability(
        table=pl.DataFrame(lines, schema=schema, orient="row"),
        fits=pl.DataFrame(fits, schema=_FIT, orient="row"),
        residuals=pl.DataFrame(residuals, schema=_RESIDUAL, orient="row"),
        missing=missing,
        resamples=resamples,
        seed=seed,
        remarks=whole.notes,
        n_used=tests,
        n_left_out=task_runs.left_out(whole, tests, {"of other rows or versions": whole.n_used - tests}),
        provenance=g.provenance,
        parameters={**g.asked, "measures": names, "resamples": resamples, "seed": seed, "ci_level": ci_level},
        caption="Pearson's r of scores with public measures of capability, over models at their default setting.",
    )


_FIT = {"measure": pl.String, "n_rows": pl.Int64}
_FIT |= dict.fromkeys(("intercept_pct", "slope_points", "r_squared"), pl.Float64)
_RESIDUAL = {"measure": pl.String, "model": pl.String}
_RESIDUAL |= dict.fromkeys(("value", "score_pct", "fitted_pct", "residual_points"), pl.Float64)


def _measures(measures: Any, columns: Sequence[str] | None, g: Grid) -> tuple[pl.DataFrame, list[str]]:
    frame = pl.from_pandas(measures) if type(measures).__module__.partition(".")[0] == "pandas" else measures
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        raise TableError(f"measures must be a polars or pandas DataFrame, not {type(measures).__name__}")
    frame = frame.lazy().collect()
    if "model" not in frame.columns:
        raise TableError("measures: missing column model")
    if double := frame.filter(pl.col("model").is_duplicated())["model"].to_list():
        raise TableError(f"measures: model {double[0]!r} stands there twice")
    numeric = [c for c, kind in frame.schema.items() if c != "model" and kind.is_numeric()]
    if isinstance(columns, str):
        raise TableError(f"columns is a text; give a list of columns, such as [{columns!r}]")
    for name in columns or ():
        if name not in numeric:
            raise TableError(f"measures: no numeric column {name!r}.{nearest(name, numeric)}")
    names = list(columns) if columns is not None else numeric
    if not names:
        raise TableError("measures: no numeric column beside model")
    there = g.rows["model"].to_list()
    if not set(frame["model"]) & set(there):
        raise TableError(f"measures: none of its models is in these runs, which have {', '.join(there[:5])} ...")
    return frame.select("model", *names), names


def _fit(name: str, models: Sequence[str], x: Array, score: Array) -> tuple[tuple, list[tuple]]:
    there = np.isfinite(x) & np.isfinite(score)
    a, y = x[there], 100 * score[there]
    if there.sum() < 2 or np.ptp(a) == 0:
        return (name, int(there.sum()), None, None, None), []
    kept = [m for m, ok in zip(models, there, strict=True) if ok]
    if len(a) < task_runs.LEAST_ROWS:
        points = [(name, m, float(v), float(s), None, None) for m, v, s in zip(kept, a, y, strict=True)]
        return (name, len(a), None, None, None), points
    intercept, slope = task_runs.least_squares(a, y)
    r = pearson(a, y).estimate
    fitted = intercept + slope * a
    rows = [
        (name, m, float(v), float(s), float(f), float(s - f)) for m, v, s, f in zip(kept, a, y, fitted, strict=True)
    ]
    rows.sort(key=lambda row: -row[-1])
    return (name, len(a), intercept, slope, None if r is None else r * r), rows


# -- release dates ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Release(Result):
    """Best score so far by release date.

    Attributes
    ----------
    table : see `release`.
    undated : models of the data without a release date.
    """

    undated: tuple[str, ...]

    figure: ClassVar[str | None] = "release"
    title: ClassVar[str] = "Score by release date"

    def notes(self) -> list[str]:
        """As in `Result`, with the models that have no date."""
        out = super().notes()
        return [*out[:-1], *([f"Without a release date: {', '.join(self.undated)}."] if self.undated else []), out[-1]]


def release(study: Any, *, models: Any = None, **settings: Any) -> Release:
    """Each model's best setting by the day its version could first be called, and the best score so far.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    models : no list of names but facts about models: a frame (polars or pandas) with one line per model, `model,
        released` (dates, or texts such as 2026-02-28) and, if wanted, `open_weights` (true or false, yes or no, 1 or
        0; null where unknown). None takes the study's models table, or the registry's.
    settings : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Release
        `.table`, by date: `model, effort, released, open_weights, score_pct, sets_best, best_so_far_pct,
        sets_best_open, best_open_pct`. A model sets a best if it beats every model released before it; of two that are
        released on the same day only the better one can.

    Raises
    ------
    TableError
        No model has a date and a score; `models` is no such frame; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section D.2, figure 15.
    """
    g = grid(study, **settings)
    score = bootstrap.overall_means(g.points())
    about = _model_facts(study, models)
    plain = g.rows.with_columns(pl.Series("score", score).fill_nan(None)).filter(
        pl.col("arm").is_null() & pl.col("score").is_not_null()
    )
    best = plain.sort("score", descending=True, maintain_order=True).unique("model", keep="first", maintain_order=True)
    dated = best.join(about, on="model", how="left", maintain_order="left")
    undated = tuple(sorted(dated.filter(pl.col("released").is_null())["model"].to_list()))
    dated = dated.filter(pl.col("released").is_not_null()).sort("released", "score", descending=[False, True])
    if dated.height == 0:
        raise TableError("release: no model of these runs has both a release date and an overall score")
    opened = pl.col("open_weights").fill_null(False)
    dated = dated.with_columns(
        best=pl.col("score").cum_max(),
        best_open=pl.when(opened).then("score").cum_max().forward_fill(),
    )
    table = dated.select(
        "model",
        "effort",
        "released",
        "open_weights",
        (100 * pl.col("score")).alias("score_pct"),
        (pl.col("score") > pl.col("best").shift(1).fill_null(-1.0)).alias("sets_best"),
        (100 * pl.col("best")).alias("best_so_far_pct"),
        (opened & (pl.col("score") > pl.col("best_open").shift(1).fill_null(-1.0))).alias("sets_best_open"),
        (100 * pl.col("best_open")).alias("best_open_pct"),
    )
    shown = set(dated["row"])
    used = int((g.runs["used"] & g.runs["r"].is_in([r for r, name in enumerate(g.names) if name in shown])).sum())
    return Release(
        table=table,
        undated=undated,
        n_used=used,
        n_left_out=task_runs.left_out(g, used, {"of rows that are not a dated model's best": g.n_used - used}),
        provenance=g.provenance,
        caption="Overall score of each model's best setting, in percent, by release date.",
    )


def _model_facts(study: Any, models: Any) -> pl.DataFrame:
    """`model, released, open_weights` of every known model, one line each."""
    from cilab.core import registry

    own = getattr(study, "models", None)
    if models is not None:
        table = pl.from_pandas(models) if type(models).__module__.partition(".")[0] == "pandas" else models
    else:
        table = own if isinstance(own, pl.DataFrame | pl.LazyFrame) else registry.models()
    if not isinstance(table, pl.DataFrame | pl.LazyFrame):
        raise TableError(
            "models must be a polars or pandas DataFrame with model and released (facts about models), not "
            f"{type(table).__name__}"
        )
    table = table.lazy().collect()
    for column in ("model", "released"):
        if column not in table.columns:
            raise TableError(f"models: missing column {column}.{nearest(column, table.columns)}")
    if "open_weights" not in table.columns:
        table = table.with_columns(open_weights=pl.lit(None, dtype=pl.Boolean))
    facts = table.select(pl.col("model").cast(pl.String), _dates(table["released"]), _truths(table["open_weights"]))
    return facts.unique("model", keep="first")


def _dates(values: pl.Series) -> pl.Series:
    """Release dates; texts are read as year-month-day."""
    try:
        if values.dtype == pl.String:
            return values.str.strip_chars().replace("", None).str.to_date("%Y-%m-%d")
        if values.dtype.is_numeric():
            raise TableError(f"models: released holds {values.dtype}, not dates such as 2026-02-28")
        return values.cast(pl.Date)
    except pl.exceptions.PolarsError:
        raise TableError("models: released holds something other than dates such as 2026-02-28") from None


_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truths(values: pl.Series) -> pl.Series:
    """Whether weights are open, from the ways in which tables say yes and no; an empty text is unknown."""
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise TableError(f"models: open_weights holds {values.dtype}; give true or false")
    words = values.fill_nan(None) if values.dtype.is_float() else values
    words = words.cast(pl.String).str.strip_chars().str.strip_suffix(".0").str.to_lowercase().replace("", None)
    if stray := sorted(set(words.drop_nulls()) - set(_TRUTHS)):
        raise TableError(f"models: open_weights is {stray[0]!r}; give true or false, or leave it empty where unknown")
    return words.replace_strict(_TRUTHS, return_dtype=pl.Boolean)
