"""Where the score is lost: alone, in a calm team, in the test.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import number
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, Mask, exact_mean
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups
from cilab.stats.teamwork.task_runs import SAME, TaskResult, overall_draws, percent_series

OVERALL = "overall"

#: The dimension without a calm team: its baseline is the model's own start (collaborative-intelligence paper, D.1).
TAKING_OVER = "taking_over"


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

    def sheet(self) -> Sheet:
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
        return self.on_sheet(lines)


@estimator
def loss(
    study: Any,
    *,
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Loss:
    """Split what each model loses, from the tasks it solves alone to the test, into two parts.

    Over the tasks solved alone that have both a baseline and a test: passed is the test score, lost in a calm team is 1
    minus the baseline, lost in the test is baseline minus test; the three add up to 100. A task whose test is better
    than its baseline counts as a negative loss in the test and is counted, not clipped away. Each dimension counts
    equally; taking over is left out, because its baseline is no calm team. Rows at each model's default setting.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    groups, resamples, seed, ci_level : as in `cilab.stats.teamwork.failures.failures`.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

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
    whole = grid(study, **scope)
    whole.need_test("loss")
    g = task_runs.default_grid(whole)
    kept = (g.tasks["dimension"] != TAKING_OVER).to_numpy()
    both = g.scored & g.has_baseline
    with_baseline = np.flatnonzero((both & kept).any(axis=1)).tolist()
    if not with_baseline:
        which = "with a scored test" if g.gate == "off" else "that it solves alone"
        raise TableError(f"loss: no row has a baseline run of a task {which} (taking over does not count)")
    all_tasks = task_runs.resampled(g, resamples, seed, interval, ci_level).take(with_baseline)
    scored, how = all_tasks.g, all_tasks.where(kept)
    g = how.g
    both = g.scored & g.has_baseline
    parts = {"passed": g.values, "lost_test": g.baseline - g.values, "lost_calm": 1 - g.baseline}
    found = {name: task_runs.score_draws(g, how.counts, values, both) for name, values in parts.items()}
    score, score_draws = overall_draws(scored, all_tasks.counts)
    used = int((g.runs["used"] & _of_tasks(g, scored)).sum())
    calm, calm_draws = found["lost_calm"]
    paired = task_runs.paired(g, score_draws)
    line = task_runs.correlation(bootstrap.overall_means(calm), score, calm_draws.mean(axis=0), paired, all_tasks)
    gone = [name for r, name in enumerate(task_runs.default_grid(whole).names) if r not in with_baseline]
    return Loss(
        table=_loss_table(g, {name: points for name, (points, _) in found.items()}, both),
        summary=_loss_summary(study, how, both, found, groups),
        correlation=pl.DataFrame([line], schema=task_runs.CORRELATION_SCHEMA, orient="row"),
        resamples=resamples,
        seed=seed,
        remarks=whole.notes + ((f"No baseline: {', '.join(gone)}.",) if gone else ()),
        n_used=used,
        n_left_out=task_runs.left_out(whole, used, {"of taking over, or of rows left out": whole.n_used - used}),
        provenance=g.provenance,
        parameters=whole.asked,
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
        return np.where(total > SAME, lost_test / total, np.nan)


def _loss_table(g: Grid, points: Mapping[str, Array], both: np.ndarray) -> pl.DataFrame:
    above = both & (np.nan_to_num(g.values - g.baseline) > SAME)
    frames = []
    for name, which, tasks in [(OVERALL, None, slice(None)), *_numbered(g)]:
        of = {k: bootstrap.overall_means(v) if which is None else v[:, which] for k, v in points.items()}
        frames.append(
            g.rows.select(ROW).with_columns(
                pl.lit(name).alias("dimension"),
                percent_series("passed_pct", of["passed"]),
                percent_series("lost_test_points", of["lost_test"]),
                percent_series("lost_calm_points", of["lost_calm"]),
                percent_series("test_share_pct", _in_test(of["lost_test"], of["lost_calm"])),
                pl.Series("n_tasks", both[:, tasks].sum(axis=1), dtype=pl.Int64),
                pl.Series("n_test_above", above[:, tasks].sum(axis=1), dtype=pl.Int64),
            )
        )
    return pl.concat(frames)


def _numbered(g: Grid) -> list[tuple[str, int, slice]]:
    return [(name, d, tasks) for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True))]


def _loss_summary(
    study: Any,
    how: task_runs.Resampled,
    both: Mask,
    found: Mapping[str, tuple[Array, Array]],
    groups: Mapping[str, Any] | pl.DataFrame | None,
) -> pl.DataFrame:
    g = how.g
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
            used = both[there].any(axis=0) & (True if by != "dimension" else (g.tasks["dimension"] == name).to_numpy())
            bounds = Bounds(reason=intervals.UNPAIRED) if g.unknown_tasks else None
            line |= _mean_line(f"{part}_{unit}", point, draws, how, used, bounds)  # type: ignore[arg-type]
        lines.append(line)
    return intervals.table(lines)


def _mean_line(
    name: str, point: Array, draws: Array, how: task_runs.Resampled, used: Mask, bounds: Bounds | None
) -> dict[str, float | int | str | None]:
    """Mean over rows in percent with its interval; rows without a value are left out of it."""
    there = np.isfinite(point)
    value = None
    if there.any():
        value = 100 * exact_mean(point[there])
        bounds = bounds or how.bounds(draws[:, there].mean(axis=1), used)
    lo, hi, n, reason, *_ = (bounds if bounds and there.any() else Bounds()).times(100)
    stem = name.rsplit("_", 1)[0]
    return {name: value, f"{name}_lo": lo, f"{name}_hi": hi, f"{stem}_no_interval": reason, "n_clusters": n}
