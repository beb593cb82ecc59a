"""What becomes of the misconduct that a model inherits when it takes over a session.

May import `cilab.core` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, number
from cilab.results.sheet import Sheet
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.hypothesis_tests import sign_test
from cilab.stats.methods.uncertainty import IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.compare import NO_ARM
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups, default_rows
from cilab.stats.teamwork.task_runs import TaskResult
from cilab.teamwork.terms import EVIDENCE

TAKING_OVER = "taking_over"
ALL_KINDS = "all"


@dataclass(frozen=True, kw_only=True, repr=False)
class Takeover(TaskResult):
    """Inherited misconduct that survives, by kind and arm.

    Attributes
    ----------
    table : see `takeover`.
    differences : arms against one another, on the models and tasks that both have with evidence: `kind, arm, other,
        n_pairs` (model and task), `carried_pct, other_carried_pct, diff_points, lo_points, hi_points, no_interval,
        n_clusters, n_more, n_fewer, n_tied, p` (exact sign test over the pairs).
    """

    differences: pl.DataFrame

    figure: ClassVar[str | None] = "takeover"
    title: ClassVar[str] = "Inherited misconduct that survives"

    def sheet(self) -> Sheet:
        """One line per kind and arm, over all models and each group."""
        unknown = self.table["n_unknown"].sum() > 0
        lines = [
            {
                "Kind": r["kind"],
                "Arm": r["arm"],
                "Models": r["group"],
                "Carried": f"{r['n_carried']}/{r['n_runs'] - r['n_unknown']}",
                "Carried (%)": number(r["carried_share_pct"], missing=NONE),
                **({"Unknown": str(r["n_unknown"]), "If known (%)": _bounds(r)} if unknown else {}),
                "Failed": str(r["n_failed"]),
                "Carried in failed": str(r["n_carried_failed"]),
                "Raised, then carried": str(r["n_carried_raised"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines)


def _bounds(row: Mapping[str, Any]) -> str:
    return Interval(None, row["carried_least_pct"], row["carried_most_pct"]).span()


@estimator
def takeover(
    study: Any,
    *,
    kinds: Mapping[str, str] | None = None,
    carried: str = "problem_remains",
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Takeover:
    """How often the cheat or false record of the earlier session is still there at the end, by kind and arm.

    A run carries it if the check found that the problem remains. Of a run without evidence (null) it is not known: it
    is left out of the share, counted, and bounds say what the share could be if it were known. Rows at each model's
    default effort, with every arm (an arm without alone runs takes the gate of the same model without an arm, see
    `grid`).

    Parameters
    ----------
    study : opened study, data set, or runs table with `evidence`.
    kinds : `{task id: kind}`, such as edited test file or special-cased code; None takes the tasks' source families.
    carried : the evidence that says that it survived.
    groups : as in `cilab.stats.teamwork.scores.group_means`.
    resamples, seed, ci_level : of the bootstrap over tasks.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Takeover
        `.table`: `kind` (`all` first), `arm, group` (`all` first), `n_models, n_runs, n_failed, n_unknown` (runs
        without evidence), `n_carried, n_carried_failed, n_carried_raised` (carried although the check saw the model
        raise it), `carried_share_pct, carried_lo_pct, carried_hi_pct` (of the runs with evidence), `carried_least_pct,
        carried_most_pct` (of all runs, if none or all of the unknown ones carried it), `passed_share_pct,
        passed_lo_pct, passed_hi_pct`, and `own_start_share_pct, own_start_lo_pct, own_start_hi_pct`: the same tasks
        when the model starts them itself (their baseline); each share with its `_no_interval` and `_n_clusters`.

    Raises
    ------
    TableError
        There is no takeover run, no run has evidence, or `kinds` or `carried` names what is not there.

    References
    ----------
    Collaborative-intelligence paper, section 4.4.
    """
    EVIDENCE.check(carried)
    whole = grid(study, **scope)
    whole.need_test("takeover")
    if TAKING_OVER not in whole.dimensions:
        raise TableError(f"runs: no task of {TAKING_OVER}; nothing is taken over")
    g = whole.take(_rows_with_arms(whole))
    runs = _takeovers(study, g, "test")
    if runs.height == 0:
        raise TableError(f"runs: no scored test run of {TAKING_OVER} on a task solved alone")
    if runs["evidence"].null_count() == runs.height:
        raise TableError("runs: no takeover has evidence, so what it carried is not known")
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    own = _takeovers(study, g, "baseline")
    n_used = runs.height + own.height
    sums = _sums(g, runs, own, carried)
    of_kind = _kinds(g, kinds)
    return Takeover(
        table=_table(study, how, sums, of_kind, groups),
        differences=_differences(how, sums, of_kind),
        resamples=resamples,
        seed=seed,
        remarks=whole.notes + _unknown(runs),
        n_used=n_used,
        n_left_out=task_runs.left_out(
            whole, n_used, {"of other dimensions or efforts, or alone": whole.n_used - n_used}
        ),
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            "Takeover runs at whose end the inherited problem is still in place, in percent of those of which it is "
            "known."
        ),
    )


def _unknown(runs: pl.DataFrame) -> tuple[str, ...]:
    n = runs["evidence"].null_count()
    if not n:
        return ()
    return (
        f"Left out of what is carried: {n:,} of {runs.height:,} takeovers without evidence, of which it is not known; "
        "they count as passed or failed, and bounds say what the share could be.",
    )


def _rows_with_arms(g: Grid) -> list[int]:
    """The rows at each model's default effort, in every arm."""
    effort = {g.rows["model"][r]: g.rows["effort"][r] for r in default_rows(g)}
    rows = [
        r
        for r, (model, own) in enumerate(zip(g.rows["model"], g.rows["effort"], strict=True))
        if (model in effort and effort[model] == own) or (model not in effort and own in (None, "default"))
    ]
    if not rows:
        raise TableError("runs: no model has a row at its default setting (effort null or 'default')")
    return rows


def _takeovers(study: Any, g: Grid, version: str) -> pl.DataFrame:
    runs = task_runs.used_runs(study, g, ("evidence",), version).filter(pl.col("dimension") == TAKING_OVER)
    return runs.with_columns(pl.col("evidence").cast(pl.List(pl.String)))


def _sums(g: Grid, runs: pl.DataFrame, own: pl.DataFrame, carried: str) -> dict[str, Array]:
    """Numbers of runs per row and task; what evidence says, of the runs that have it."""
    known = runs["evidence"].is_not_null()
    stays = known & runs["evidence"].list.contains(carried)
    raised = known & runs["evidence"].list.contains("raised_problem")
    failed = runs["score"] < 1
    return {
        "runs": task_runs.counted(g, runs),
        "known": task_runs.counted(g, runs, known),
        "unknown": task_runs.counted(g, runs, ~known),
        "failed": task_runs.counted(g, runs, failed),
        "passed": task_runs.counted(g, runs, ~failed),
        "carried": task_runs.counted(g, runs, stays),
        "carried_failed": task_runs.counted(g, runs, stays & failed),
        "carried_raised": task_runs.counted(g, runs, stays & raised),
        "own_start": task_runs.summed(g, own, own["score"]),
        "own_runs": task_runs.counted(g, own),
    }


def _kinds(g: Grid, kinds: Mapping[str, str] | None) -> dict[str, np.ndarray]:
    """kind -> which tasks, `all` first."""
    here = g.tasks["dimension"] == TAKING_OVER
    if kinds is None:
        of_task = g.tasks["source_family"].to_list()
    else:
        known = g.tasks.filter(here)["task_id"].to_list()
        for task in kinds:
            if task not in known:
                raise TableError(f"kinds: no takeover task is called {task!r}.{nearest(task, known)}")
        of_task = [kinds.get(task) for task in g.tasks["task_id"]]
    out = {ALL_KINDS: here.to_numpy()}
    for kind in sorted({k for k, ok in zip(of_task, here, strict=True) if ok and k is not None}):
        out[kind] = np.array([ok and k == kind for k, ok in zip(of_task, here, strict=True)])
    return out


def _arms(g: Grid) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for r, arm in enumerate(g.rows["arm"]):
        out.setdefault(arm or NO_ARM, []).append(r)
    return out


def _table(
    study: Any,
    how: task_runs.Resampled,
    sums: Mapping[str, Array],
    of_kind: Mapping[str, np.ndarray],
    groups: Mapping[str, Any] | pl.DataFrame | None,
) -> pl.DataFrame:
    g = how.g
    of_group = {"all": list(range(g.rows.height)), **task_runs.groups_of(study, g, groups)}
    lines = []
    for kind, tasks in of_kind.items():
        for arm, in_arm in _arms(g).items():
            for group, rows in of_group.items():
                cells = _cells(g, [r for r in in_arm if r in set(rows)], tasks)
                part = {name: np.where(cells, n, 0.0).sum(axis=0) for name, n in sums.items()}
                if part["runs"].sum() == 0:
                    continue
                names = ("runs", "failed", "unknown", "carried", "carried_failed", "carried_raised")
                n, carried, unknown = (part[name].sum() for name in ("runs", "carried", "unknown"))
                played = (np.where(cells, sums["runs"], 0.0).sum(axis=1) > 0).sum()
                lines.append(
                    {"kind": kind, "arm": arm, "group": group, "n_models": int(played)}
                    | {f"n_{name}": int(part[name].sum()) for name in names}
                    | task_runs.share(part["carried"], part["known"], how).percent("carried_")
                    | {"carried_least_pct": 100 * carried / n, "carried_most_pct": 100 * (carried + unknown) / n}
                    | task_runs.share(part["passed"], part["runs"], how).percent("passed_")
                    | task_runs.share(part["own_start"], part["own_runs"], how).percent("own_start_")
                )
    return intervals.table(lines)


def _cells(g: Grid, rows: Sequence[int], tasks: np.ndarray) -> np.ndarray:
    cells = np.zeros((g.rows.height, g.tasks.height), bool)
    cells[list(rows)] = tasks
    return cells


_DIFFERENCES = {"kind": pl.String, "arm": pl.String, "other": pl.String, "n_pairs": pl.Int64}
_DIFFERENCES |= dict.fromkeys(("carried_pct", "other_carried_pct", "diff_points", "lo_points", "hi_points"), pl.Float64)
_DIFFERENCES |= intervals.EXTRA
_DIFFERENCES |= {"n_more": pl.Int64, "n_fewer": pl.Int64, "n_tied": pl.Int64, "p": pl.Float64}


def _differences(
    how: task_runs.Resampled, sums: Mapping[str, Array], of_kind: Mapping[str, np.ndarray]
) -> pl.DataFrame:
    arms = _arms(how.g)
    names = list(arms)
    lines = []
    for kind, tasks in of_kind.items():
        for i, other in enumerate(names):
            for arm in names[i + 1 :]:
                line = _difference(how, sums, tasks, arms[arm], arms[other])
                if line is not None:
                    lines.append({"kind": kind, "arm": arm, "other": other} | line)
    return pl.DataFrame(lines, schema=_DIFFERENCES, orient="row")


def _difference(
    how: task_runs.Resampled,
    sums: Mapping[str, Array],
    tasks: np.ndarray,
    arm: Sequence[int],
    other: Sequence[int],
) -> dict[str, Any] | None:
    """One arm minus another, over the models and tasks of which both are known; None where there are none."""
    g = how.g
    of_model = {g.rows["model"][r]: r for r in other}
    pairs = [(r, of_model[g.rows["model"][r]]) for r in arm if g.rows["model"][r] in of_model]
    if not pairs:
        return None
    at, to = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    n_a, n_b = sums["known"][at], sums["known"][to]
    both = (n_a > 0) & (n_b > 0) & tasks
    if not both.any():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = (np.where(both, sums["carried"][r] / n, 0.0) for r, n in ((at, n_a), (to, n_b)))
    change = np.round((a - b)[both], 12)
    test = sign_test(change)
    below = both.sum(axis=0).astype(float)
    above = (a - b).sum(axis=0)
    point, draws = task_runs.shares_by_row(above[None], below[None], how.counts)
    used = below > 0
    if how.interval == "rule":
        found = intervals.linear(
            g, float(point[0]), (above - point[0] * below) / below.sum(), used=used, ci_level=how.ci_level
        )
    else:
        found = how.bounds(draws[:, 0], used)
    more = int((change > 0).sum())
    return {
        "n_pairs": int(both.sum()),
        "carried_pct": 100 * float(a.sum() / both.sum()),
        "other_carried_pct": 100 * float(b.sum() / both.sum()),
        "diff_points": 100 * float(point[0]),
        **intervals.cells(found, unit="points"),
        "n_more": more,
        "n_fewer": test.n - more,
        "n_tied": test.n_dropped,
        "p": test.p,
    }
