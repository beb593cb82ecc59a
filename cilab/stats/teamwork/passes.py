"""Chances over several runs of a task, beside the mean over them: that all of k runs pass, and that any does.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, check
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap, repeats
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.uncertainty import Bounds
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.task_runs import SAME


@check("a whole number of at least 1, or a list of such, or None")
def _numbers(name: str, value: Any) -> None:
    """How many runs."""
    listed = [value] if isinstance(value, int | np.integer) else value
    if isinstance(listed, str) or not isinstance(listed, Sequence) or not len(listed):
        raise TableError(f"{name} is {value!r}: give a whole number of at least 1, or a list of such")
    for k in listed:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise TableError(f"{name} is {value!r}: give a whole number of at least 1, or a list of such")


#: How many runs: a number, several, or None for 1 up to the most that a task has.
Runs = Annotated[int | Sequence[int] | None, _numbers]


@dataclass(frozen=True, kw_only=True, repr=False)
class PassHatK(Result):
    """Chances over k runs of a task.

    Attributes
    ----------
    table : see `pass_hat_k`.
    """

    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "pass_hat_k"
    title: ClassVar[str] = "All of k runs pass, and any of k"

    def sheet(self) -> Sheet:
        """One line per row: mean score, pass^k with half its interval for every k, pass@k for the largest."""
        ks = self.table["k"].unique().sort().to_list()
        lines: dict[str, dict[str, str]] = {}
        for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True):
            line = lines.setdefault(name, {"Row": name, "Mean score (%)": number(r["score_pct"], missing=NONE)})
            line[f"pass^{r['k']} (%)"] = Interval.of(r, "pass_hat_pct", "lo_pct", "hi_pct").half()
            if r["k"] == ks[-1]:
                line[f"pass@{r['k']} (%)"] = number(r["pass_at_pct"], missing=NONE)
        return self.on_sheet(list(lines.values()), stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and what counts as a pass."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def pass_hat_k(study: Any, *, k: Runs = None, ci_level: Level = CI_LEVEL, **scope: Unpack[Scope]) -> PassHatK:
    """Chance that all of k runs of a task pass (pass^k), and that any does (pass@k), per row.

    Of a task with n scored runs, c of which passed, the chance that k runs drawn from them all pass is C(c, k) / C(n,
    k), which estimates the chance of k new runs without bias; pass@k is 1 - C(n - c, k) / C(n, k). A run has passed if
    its score is 1; a graded run in between has not. Both are averaged as scores are: over the tasks of a dimension that
    count and have k runs, then over dimensions. pass^1 is the share of runs that pass, each task weighing alike.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    k : a number of runs, several, or None: 1 up to the most that a task has.
    ci_level : a fraction; intervals are score intervals over tasks, by `cilab.stats.methods.uncertainty`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    PassHatK
        `.table`, one line per row and k, rows by mean score: `model, effort, arm, k, score_pct` (the mean over runs, as
        on the leaderboard), `pass_hat_pct, lo_pct, hi_pct, no_interval, n_clusters`, `pass_at_pct, pass_at_lo_pct,
        pass_at_hi_pct, pass_at_no_interval, pass_at_n_clusters`, `n_tasks` (with k runs or more), `n_fewer` (scored
        tasks with fewer, which do not count at this k), `reason` (why there is no number).

    Raises
    ------
    TableError
        k is more than the runs of any task, task ids are those of a published round, or as in `grid`.

    References
    ----------
    Yao et al. (2024), tau-bench (pass^k). Chen et al. (2021), Evaluating large language models trained on code
    (pass@k).

    Examples
    --------
    >>> from cilab.testing import grid as played
    >>> runs = played([[[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]]])
    >>> pass_hat_k(runs, k=[1, 3]).table["pass_hat_pct"].round(1).to_list()
    [66.7, 25.0]
    """
    g = grid(study, **scope)
    g.need_known_tasks("pass_hat_k")
    there = ~np.isnan(g.by_seed) & g.scored[:, :, None]
    runs = there.sum(axis=2)
    passed = (there & (np.nan_to_num(g.by_seed) >= 1 - SAME)).sum(axis=2)
    most = int(runs.max())
    asked = list(range(1, most + 1)) if k is None else sorted({int(v) for v in ([k] if isinstance(k, int) else k)})
    if asked[-1] > most:
        raise TableError(
            f"k is {asked[-1]}, but no task has more than {most} scored {g.version} run{'s' * (most != 1)}; "
            f"give k up to {most}"
        )
    lines = [line for n in asked for line in _lines(g, passed, runs, n, ci_level)]
    table = intervals.table(lines).with_columns(pl.col(*ROW, "reason").cast(pl.String))
    up = [False] * (len(ROW) + 1)
    table = table.sort("score_pct", *ROW, "k", descending=[True, *up], nulls_last=[True, *up])
    return PassHatK(
        table=table,
        remarks=(*g.notes, *_remarks(g, there, runs, asked)),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={**g.asked, "k": asked},
        caption=(
            "Percent, with half the "
            f"{percent(ci_level)} score interval over {intervals.units(g)} within dimension. pass^k: all of k runs of "
            "a task pass; pass@k: any does. A run passes with score 1."
        ),
    )


def _lines(g: Grid, passed: Any, runs: Any, k: int, ci_level: float) -> list[dict[str, Any]]:
    """A line per row at one k."""
    used = g.scored & (runs >= k)
    hat, at = (chance(passed, runs, k) for chance in (repeats.all_pass, repeats.any_pass))
    score = bootstrap.overall_means(g.points())
    lines = []
    for r, key in enumerate(g.rows.select(ROW).iter_rows(named=True)):
        reason = _reason(g, used[r], g.scored[r], k)
        lines.append(
            {
                **key,
                "k": k,
                "score_pct": None if np.isnan(score[r]) else 100 * float(score[r]),
                **_chance(g, hat[r], used[r], "pass_hat_pct", "", ci_level, reason),
                **_chance(g, at[r], used[r], "pass_at_pct", "pass_at_", ci_level, reason),
                "n_tasks": int(used[r].sum()),
                "n_fewer": int((g.scored[r] & ~used[r]).sum()),
                "reason": reason,
            }
        )
    return lines


def _chance(
    g: Grid, values: Array, used: Mask, name: str, prefix: str, ci_level: float, reason: str | None
) -> dict[str, Any]:
    if reason:
        return {name: None, **intervals.cells(Bounds(reason=reason), prefix)}
    point = float(bootstrap.overall_means(bootstrap.dimension_means(values[None], used[None], g.slices))[0])
    return {name: 100 * point, **intervals.cells(intervals.mean(g, values, used, ci_level=ci_level), prefix)}


def _reason(g: Grid, used: Mask, scored: Mask, k: int) -> str | None:
    """Why a row has no chance at this k: a dimension without a task of so many runs, or without any."""
    for name, tasks in zip(g.dimensions, g.slices, strict=True):
        if not used[tasks].any():
            what = f"no task with {k} runs" if scored[tasks].any() else "no scored task"
            return f"{what} in {name.replace('_', ' ')}"
    return None


def _remarks(g: Grid, there: Mask, runs: Any, asked: Sequence[int]) -> list[str]:
    out = []
    values = g.by_seed[there]
    graded = int(((values > SAME) & (values < 1 - SAME)).sum())
    if graded:
        out.append(f"A run passes with score 1; {graded:,} of {len(values):,} runs have a score between 0 and 1.")
    fewer = g.scored & (runs < asked[-1])
    if fewer.any():
        out.append(
            f"Tasks with fewer than {asked[-1]} runs: {fewer.sum():,} of {g.scored.sum():,} scored tasks, in "
            f"{fewer.any(axis=1).sum()} of the rows; at a k beyond their runs they do not count, so that numbers for "
            "different k may rest on different tasks."
        )
    return out
