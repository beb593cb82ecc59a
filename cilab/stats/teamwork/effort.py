"""What a higher reasoning effort changes: scores, output tokens, tool calls, cost.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, p_value
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, exact_mean
from cilab.stats.methods.hypothesis_tests import sign_test
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import default_rows
from cilab.stats.teamwork.task_runs import SAME, TaskResult, usage


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

    def sheet(self) -> Sheet:
        """One line per model, as the paper's table 6."""
        lines = [
            {
                "Model": r["model"],
                "Effort": f"{r['default_effort'] or 'none'} → {r['effort']}",
                "Default": number(r["default_pct"]),
                "High": number(r["high_pct"]),
                "Change": number(r["diff_points"]),
                "Interval": Interval.of(r, "diff_points", "lo_points", "hi_points").span(),
                "Cost": "" if r["cost_ratio"] is None else f"× {number(r['cost_ratio'])}",
                "Better/worse": f"{r['n_better']}/{r['n_worse']}",
                "Tied": str(r["n_tied"]),
                "p": p_value(r["p"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines, spanner=("Tasks whose value", ["Better/worse", "Tied"]))


@estimator
def effort(
    study: Any,
    *,
    default: str | None = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
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
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

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
    g = grid(study, **scope)
    g.need_known_tasks("effort")
    pairs = _effort_pairs(g, default)
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    points, draws = task_runs.score_draws(g, how.counts)
    overall, overall_draws = bootstrap.overall_means(points), draws.mean(axis=0)
    use, work = usage(study, g), _work(study, g)
    cells, lines = [], []
    for low, high in pairs:
        key = {"model": g.rows["model"][low], "default_effort": g.rows["effort"][low], "effort": g.rows["effort"][high]}
        change = overall[high] - overall[low]
        found = _bounds(how, [(low, high)], None, change, overall_draws[:, high] - overall_draws[:, low])
        lines.append(
            key
            | _change(overall[low], overall[high])
            | intervals.cells(found, unit="points")
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
    length = _output_length(how, use["tokens_out"], overall, overall_draws)
    return Effort(
        table=intervals.table(lines),
        dimensions=_effort_dimensions(how, pairs, points, draws),
        cells=pl.DataFrame(cells, infer_schema_length=None),
        output_length=length,
        resamples=resamples,
        seed=seed,
        remarks=g.notes,
        n_used=used,
        n_left_out=task_runs.left_out(g, used, {"of rows that were run at one effort only": g.n_used - used}),
        provenance=g.provenance,
        parameters=g.asked,
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
    change[np.abs(change) < SAME] = 0.0
    test = sign_test(change)
    better = int((change > 0).sum())
    return {"n_better": better, "n_worse": test.n - better, "n_tied": test.n_dropped, "p": test.p}


def _bounds(
    how: task_runs.Resampled, pairs: Sequence[tuple[int, int]], d: int | None, change: float, draws: Array
) -> Bounds:
    """Interval of the mean change over pairs of rows, overall or in dimension `d`; paired by task."""
    if not np.isfinite(change):
        return Bounds()
    g = how.g
    sides = [intervals.of_rows(g, [pair[i] for pair in pairs], d) for i in (0, 1)]
    used = (sides[0][2] > 0) | (sides[1][2] > 0)
    if how.interval == "percentile":
        return how.bounds(draws, used)
    return intervals.linear(g, change, sides[1][1] - sides[0][1], used=used, ci_level=how.ci_level)


def _effort_dimensions(
    how: task_runs.Resampled, pairs: Sequence[tuple[int, int]], points: Array, draws: Array
) -> pl.DataFrame:
    g, lines = how.g, []
    low, high = ([pair[i] for pair in pairs] for i in (0, 1))
    for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True)):
        change = points[high, d] - points[low, d]
        there = np.isfinite(change)
        drawn = (draws[d][:, high] - draws[d][:, low])[:, there].mean(axis=1) if there.any() else np.empty(0)
        mean = exact_mean(change[there]) if there.any() else np.nan
        found = _bounds(how, [pair for pair, ok in zip(pairs, there, strict=True) if ok], d, mean, drawn)
        lines.append(
            {
                "dimension": name,
                "n_models": int(there.sum()),
                "diff_points": 100 * mean if there.any() else None,
            }
            | intervals.cells(found, unit="points")
            | _sign(g, pairs, tasks)
            | _zero_pairs(g, pairs, tasks)
        )
    return intervals.table(lines)


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


def _output_length(how: task_runs.Resampled, tokens: Array, overall: Array, draws: Array) -> pl.DataFrame:
    rows = [r for r in default_rows(how.g) if tokens[r] > 0]
    x = np.log10(tokens[rows])
    line = task_runs.correlation(x, overall[rows], np.broadcast_to(x, (len(draws), len(x))), draws[:, rows], how)
    return pl.DataFrame([line], schema=task_runs.CORRELATION_SCHEMA, orient="row")
