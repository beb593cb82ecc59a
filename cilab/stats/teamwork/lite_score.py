"""The full score of a new model from its runs on a subset of the tasks, beside the rows of a study.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file, plays nothing. The prediction is that of
`cilab.stats.methods.subset_prediction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, inside
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods import subset_prediction as prediction
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.subset_prediction import Calibration, Cells, Prediction, Spread
from cilab.stats.methods.uncertainty import LEAST_UNITS, too_few
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import ALL_TASKS, Grid, Scope, grid
from cilab.stats.teamwork.lite import LiteResult
from cilab.stats.teamwork.scores import split_mask

#: A row of the study has a full score where it has a verdict on at least this share of the tasks.
WHOLE = 0.9
#: Scores nearer than this (fractions) share a rank.
_SAME = 9
#: Ids that a sentence names before it says how many more there are.
_NAMED = 5

_NO_TEST = "no test seen"
_ALL_RUN = "all tasks were run: nothing is predicted"
_FROM_OTHERS = "no test seen: predicted from the other dimensions"
_SEEN, _FAILED, _REFUSED, _INCOMPLETE, _NOT_RUN = "seen", "not solved alone", "refused", "incomplete", "not run"
_OUTSIDE, _UNKNOWN = "of tasks outside the subset", "of tasks that the study does not have"


@dataclass(frozen=True, kw_only=True, repr=False)
class LiteScore(Result):
    """Predicted full scores of new rows.

    Attributes
    ----------
    table : one line per new row: `row, model, effort, arm, predicted_pct, lo_pct, hi_pct, rank, rank_lo, rank_hi`
        (among the study's rows as they were measured: 1 is above all of them), `subset_pct` (plain mean of what was
        seen; null where a dimension has nothing), `n_tasks` (of the full score), `n_subset`, `n_seen` (tests that
        count), `n_not_solved, n_refused, n_without` (tasks of the subset without a verdict), `misfit` (mean squared
        standardised residual of the tests seen; about 1 where the model holds), `n_clusters` (models of the study that
        were left out in turn), `no_interval` and `reason` (words for an interval and a prediction that are not there).
    dimensions : one line per new row and dimension: `row, model, effort, arm, dimension, predicted_pct, lo_pct, hi_pct,
        n_tasks, n_subset, n_seen, no_interval, reason`.
    ranks : `row, rank, probability_pct`: of each rank among the study's rows.
    beside : one line per new row and row of the study with a full score: `row, study_row, model, effort, arm, full_pct,
        above_pct` (probability that the new row's full score is above it).
    check : each model of the study left out in turn and predicted from the same tasks: `row` (the new one whose tasks
        they are), `study_row, model, effort, arm, full_pct, predicted_pct, error_points, subset_pct, misfit`.
    tasks : what became of each task of the subset: `row, task_id, dimension, what` (seen, not solved alone, refused,
        incomplete, not run), `value` (a fraction).
    """

    dimensions: pl.DataFrame
    ranks: pl.DataFrame
    beside: pl.DataFrame
    check: pl.DataFrame
    tasks: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "lite_score"
    title: ClassVar[str] = "Full scores predicted from a subset"

    def sheet(self) -> Sheet:
        """One line per new row: predicted score, interval, rank, and what it stands on."""
        lines = [
            {
                "Row": r["row"],
                "Predicted (%)": number(r["predicted_pct"], missing=r["reason"] or NONE),
                "Interval": Interval.of(r, "predicted_pct", "lo_pct", "hi_pct").span(NONE),
                "Rank": number(r["rank"], 0, NONE),
                "Rank interval": Interval.of(r, "rank", "rank_lo", "rank_hi", digits=0).span(NONE),
                "Mean of the subset (%)": number(r["subset_pct"], missing=NONE),
                "Tests seen": f"{r['n_seen']} of {r['n_subset']}",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, with how far the prediction was out for the study's own models, and what it cannot tell."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def lite_score(
    study: Any,
    runs_of_new_model: Any,
    *,
    subset: Annotated[Sequence[str] | LiteResult | None, inside] = None,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> LiteScore:
    """Predict the score on all tasks of a model that was run on some of them.

    The study's rows, which were run on all tasks, say how hard each task is, how often it is solved alone, and how
    abilities go together. What was seen of the new model stands as it was seen: its tests, and which tasks of the
    subset it does not solve alone. Every other task counts with its expected value under an item-response model,
    weighted by the share of the study's rows that solve it alone.

    Intervals are calibrated: each model of the study is left out in turn and predicted from the same tasks, and the
    errors it then has, in units of those that the model claims, widen or narrow them. They lie within what the tests
    seen allow, so between 0 and 100. They are of the score that the model would have on the study's tasks, run as the
    subset was; the study's rows are taken as measured.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set, with the rows that were run on all tasks.
    runs_of_new_model : the same of models that are not in the study: alone runs and tests of the subset's tasks. Each
        (model, effort, arm) is predicted by itself.
    subset : ids of the tasks; what `cilab.lite` returned, of which the tasks of its last method are taken; or None, all
        tasks that the new runs have. Runs of other tasks are left out, and counted. A task of the subset without a
        verdict is predicted like any other task, which widens the interval, and named.
    ci_level : of the intervals.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`. `models`, `dimensions`, `common_tasks` and `missing` are about the study.

    Returns
    -------
    LiteScore

    Raises
    ------
    TableError
        A new row stands in the study; no task of the subset is in the study, or in the new runs; an id of the subset
        is no task of the study; fewer than two models have a full score; task ids of a published round; as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.4 (the subset). Polo et al. (2024), tinyBenchmarks: evaluating LLMs
    with fewer examples, ICML.

    Examples
    --------
    >>> study = cilab.datasets.simulated_release()  # doctest: +SKIP
    >>> chosen = cilab.lite(study)  # doctest: +SKIP
    >>> cilab.lite_score(study, my_runs, subset=chosen)  # doctest: +SKIP
    """
    g = grid(study, **scope)
    g.need_known_tasks("lite_score")
    new = _new_grid(runs_of_new_model, scope, g)
    given = _subset_ids(subset, g)
    known = known_cells(g)
    place, left = _placed(g, new, given)
    models = g.rows["model"].to_numpy()
    whole = whole_rows(g, known)
    if (n := len(np.unique(models[whole]))) < 2:
        raise TableError(
            f"lite_score: {n} model{'' if n == 1 else 's'} of the study with a full score; it takes at least 2 to say "
            "how hard the tasks are"
        )
    cells, what = _new_cells(g, new, place, given)
    fitted = prediction.fit_subset_model(known)
    predicted = prediction.predict(fitted, cells)
    full = bootstrap.overall_means(g.points())
    frame = _Study(g, known, fitted, models, whole, np.where(whole, full, np.nan))
    lines = [_line(frame, new, cells, what, predicted, r, ci_level) for r in range(new.rows.height)]
    parts = {name: pl.concat([line[name] for line in lines]) for name in lines[0]}
    n_in = int(new.runs["used"].sum()) - sum(left.values())
    settled = {"subset": list(given.ids)} if given.asked else {}
    return LiteScore(
        **parts,  # type: ignore[arg-type]
        remarks=_remarks(frame, parts, new),
        n_used=g.n_used + n_in,
        n_left_out=_added(g.n_left_out, new.n_left_out, left),
        provenance=_both(g.provenance, new.provenance),
        parameters={**g.asked, **settled, "n_rows": int(whole.sum())},
        caption=f"Percent, {percent(ci_level)} intervals: of the score on all {int(known_tasks(known).sum())} tasks, "
        "run as the subset was. Ranks are among the study's rows as measured.",
    )


# -- what is there ----------------------------------------------------------------------------------------


class _Subset(NamedTuple):
    """Which tasks of the study's axis are in the subset, their ids, and whether somebody named them."""

    tasks: Mask
    ids: tuple[str, ...]
    asked: bool


class _Study(NamedTuple):
    """The study as the prediction sees it; `full` is NaN for rows without a full score."""

    grid: Grid
    known: Cells
    fitted: prediction.SubsetModel
    models: NDArray[Any]
    whole: Mask
    full: Array


def _new_grid(data: Any, scope: Scope, g: Grid) -> Grid:
    """The new runs, under the same rules; rows that the study has are refused."""
    asked = {n: v for n, v in scope.items() if n not in ("models", "dimensions", "common_tasks", "missing", "cluster")}
    try:
        new = grid(data, **asked)  # type: ignore[arg-type]
    except TableError as e:
        raise TableError(f"runs of the new model: {str(e).removeprefix('runs: ')}") from None
    there = set(g.rows.select(ROW).rows())
    again = [name for name, key in zip(new.names, new.rows.select(ROW).rows(), strict=True) if key in there]
    if again:
        raise TableError(
            f"lite_score: {', '.join(again)} stands in the study too; leave it out of one of them, with models= of the "
            "study's rows or by filtering the runs"
        )
    return new


def _subset_ids(subset: Any, g: Grid) -> _Subset:
    ids = g.tasks["task_id"].to_list()
    if subset is None:
        return _Subset(np.ones(len(ids), bool), (), asked=False)
    if isinstance(subset, LiteResult):
        subset = subset.chosen()
    if isinstance(subset, str) or not all(isinstance(t, str) for t in _listed(subset)):
        raise TableError(f"subset is {subset!r}: give a list of task ids, what cilab.lite returned, or None")
    named = list(dict.fromkeys(subset))
    if not named:
        raise TableError("subset is empty: give the ids of its tasks, or None for all tasks that the new runs have")
    unknown = [t for t in named if t not in set(ids)]
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise TableError(f"subset: no task {unknown[0]!r}{more} in the study.{nearest(unknown[0], ids)}")
    return _Subset(np.isin(ids, named), tuple(named), asked=True)


def _listed(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        return [None]


def known_cells(g: Grid) -> Cells:
    """The study's cells: a value where a task counts; the gate 1 where it does, 0 where it does not, NaN if open."""
    settled = g.scored | g.refused | (g.decided & ~g.solved)
    return Cells(np.where(g.scored, g.values, np.nan), np.where(settled, g.scored, np.nan), g.slices)


def known_tasks(known: Cells) -> Mask:
    """The tasks that any row has a value of: those of the full score; shape (T,)."""
    out: Mask = ~np.isnan(known.values).all(axis=0)  # type: ignore[assignment]
    return out


def whole_rows(g: Grid, known: Cells) -> Mask:
    """Rows with a full score: every dimension has a scored task, and few tasks lack a verdict."""
    there = known_tasks(known)
    share = (~np.isnan(known.gate[:, there])).mean(axis=1) if there.any() else np.zeros(g.rows.height)
    whole: Mask = np.isfinite(bootstrap.overall_means(g.points())) & (share >= WHOLE)
    return whole


def _placed(g: Grid, new: Grid, subset: _Subset) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Where each task of the new runs lies among the study's (-1: nowhere), and the runs that are left out for it."""
    at = {t: i for i, t in enumerate(g.tasks["task_id"])}
    place = np.array([at.get(t, -1) for t in new.tasks["task_id"]], dtype=np.int64)
    if (place < 0).all():
        raise TableError(
            f"lite_score: none of the {len(place)} tasks of the new runs is in the study, such as "
            f"{new.tasks['task_id'][0]}; the study has {g.tasks['task_id'][0]} and {g.tasks.height - 1} others"
        )
    for t, i in enumerate(place):
        mine = new.tasks["dimension"][t]
        if i >= 0 and mine not in (ALL_TASKS, g.tasks["dimension"][int(i)]):
            raise TableError(
                f"lite_score: task {new.tasks['task_id'][t]} is of {g.tasks['dimension'][int(i)]} in the study and of "
                f"{mine} in the new runs"
            )
    inside_ = (place >= 0) & subset.tasks[np.maximum(place, 0)]
    if not inside_.any():
        raise TableError(
            f"lite_score: the new runs have none of the {len(subset.ids)} tasks of the subset, such as {subset.ids[0]}"
        )
    used = new.runs.filter("used")["t"].to_numpy()
    left = {_UNKNOWN: int((place[used] < 0).sum()), _OUTSIDE: int(((place[used] >= 0) & ~inside_[used]).sum())}
    return np.where(inside_, place, -1), {reason: n for reason, n in left.items() if n}


def _new_cells(g: Grid, new: Grid, place: NDArray[np.int64], subset: _Subset) -> tuple[Cells, NDArray[np.object_]]:
    """The new rows on the study's tasks, and what became of each task (empty outside the subset)."""
    shape = (new.rows.height, g.tasks.height)
    values, gate = np.full(shape, np.nan), np.full(shape, np.nan)
    what = np.full(shape, "", dtype=object)
    if subset.asked:
        what[:, subset.tasks] = _NOT_RUN
    here = np.flatnonzero(place >= 0)
    to = place[here]
    failed = new.decided & ~new.solved & ~new.refused
    opened = new.solved & new.decided & ~new.scored & ~new.refused & (new.gate != "off")
    played = np.zeros((new.rows.height, new.tasks.height), bool)
    played[new.runs["r"].to_numpy(), new.runs["t"].to_numpy()] = True
    for which, word, value in (
        (played & ~new.decided & ~new.refused, _INCOMPLETE, np.nan),
        (opened, _INCOMPLETE, 1.0),
        (failed, _FAILED, 0.0),
        (new.refused, _REFUSED, 0.0),
        (new.scored, _SEEN, 1.0),
    ):
        r, k = np.nonzero(which[:, here])
        what[r, to[k]], gate[r, to[k]] = word, value
    r, k = np.nonzero(new.scored[:, here])
    values[r, to[k]] = new.values[r, here[k]]
    return Cells(values, gate, g.slices), what


# -- one new row ------------------------------------------------------------------------------------------


def _line(
    study: _Study,
    new: Grid,
    cells: Cells,
    what: NDArray[np.object_],
    predicted: Prediction,
    r: int,
    ci_level: float,
) -> dict[str, pl.DataFrame]:
    """The frames of the result for one new row."""
    mine = Prediction(*(field[[r]] for field in predicted))  # type: ignore[arg-type]
    who = new.rows[r].select("row", *ROW)
    asked = what[r] != ""
    seen = ~np.isnan(cells.gate[r])
    check = prediction.leave_out(study.known, study.fitted, study.models, seen)
    calibration = prediction.calibrate(check, study.models, study.whole)
    overall, reason, no_interval, dimensions = _bounds(mine, calibration, ci_level)
    marks = study.full[study.whole]
    rank, ranks, above = _ranks(mine, overall, calibration, marks, show=no_interval is None)
    counts = {word: int((what[r] == word).sum()) for word in (_SEEN, _FAILED, _REFUSED, _INCOMPLETE, _NOT_RUN)}
    plain = _plain_mean(cells.rows([r]))
    there = known_tasks(study.known)
    table = {
        **who.row(0, named=True),
        **overall,
        **rank,
        "subset_pct": intervals.percent(plain[0]),
        "n_tasks": int(there.sum()),
        "n_subset": int(asked.sum()),
        "n_seen": counts[_SEEN],
        "n_not_solved": counts[_FAILED],
        "n_refused": counts[_REFUSED],
        "n_without": counts[_INCOMPLETE] + counts[_NOT_RUN],
        "misfit": _some(mine.misfit[0]),
        "n_clusters": calibration.models,
        "no_interval": no_interval,
        "reason": reason,
    }
    g = study.grid
    n_in = [(int(there[d].sum()), int(asked[d].sum()), int(mine.seen[0, k])) for k, d in enumerate(g.slices)]
    names = names_of(g.rows)
    kept = np.flatnonzero(study.whole)
    row = pl.lit(who["row"][0]).alias("row")
    tasks = np.flatnonzero(asked)
    return {
        "table": pl.DataFrame([table], schema=_TABLE),
        "dimensions": pl.DataFrame(
            [
                {**who.row(0, named=True), "dimension": d, **line, "n_tasks": a, "n_subset": b, "n_seen": c}
                for d, line, (a, b, c) in zip(g.dimensions, dimensions, n_in, strict=True)
            ],
            schema=_DIMENSIONS,
        ),
        "ranks": pl.DataFrame(
            [(who["row"][0], k + 1, p) for k, p in enumerate(ranks)],
            schema={"row": pl.String, "rank": pl.Int64, "probability_pct": pl.Float64},
            orient="row",
        ),
        "beside": g.rows[kept].select(
            row,
            pl.Series("study_row", [names[k] for k in kept], dtype=pl.String),
            *ROW,
            pl.Series("full_pct", 100 * marks),
            pl.Series("above_pct", above, dtype=pl.Float64),
        ),
        "check": _check_lines(study, check, seen, names, row),
        "tasks": g.tasks[tasks].select(
            row,
            "task_id",
            "dimension",
            pl.Series("what", what[r][tasks].tolist(), dtype=pl.String),
            pl.Series("value", cells.values[r][tasks]).fill_nan(None),
        ),
    }


_KEYS = {"row": pl.String, "model": pl.String, "effort": pl.String, "arm": pl.String}
_ENDS = {"predicted_pct": pl.Float64, "lo_pct": pl.Float64, "hi_pct": pl.Float64}
_TABLE: dict[str, Any] = {
    **_KEYS,
    **_ENDS,
    **dict.fromkeys(("rank", "rank_lo", "rank_hi"), pl.Int64),
    "subset_pct": pl.Float64,
    **dict.fromkeys(("n_tasks", "n_subset", "n_seen", "n_not_solved", "n_refused", "n_without"), pl.Int64),
    "misfit": pl.Float64,
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
    "reason": pl.String,
}
_DIMENSIONS: dict[str, Any] = {
    **_KEYS,
    "dimension": pl.String,
    **_ENDS,
    **dict.fromkeys(("n_tasks", "n_subset", "n_seen"), pl.Int64),
    "no_interval": pl.String,
    "reason": pl.String,
}


def _bounds(
    mine: Prediction, calibration: Calibration, ci_level: float
) -> tuple[dict[str, Any], str | None, str | None, list[dict[str, Any]]]:
    """The overall prediction, why there is none, why it has no interval, and a line per dimension."""
    few = too_few(calibration.models, "model") if calibration.models < LEAST_UNITS else None
    if not mine.seen.any():
        nothing = {"predicted_pct": None, "lo_pct": None, "hi_pct": None}
        empty = {**nothing, "no_interval": _NO_TEST, "reason": _NO_TEST}
        return nothing, _NO_TEST, _NO_TEST, [empty] * mine.score.shape[1]
    whole = Spread.of(mine.overall, calibration.overall, calibration.degrees)
    parts = Spread.of(mine.by_dimension, calibration.by_dimension, calibration.degrees)
    lo, hi = (float(end[0]) for end in whole.interval(ci_level))
    none = few if np.isfinite(lo) else _ALL_RUN
    overall = _ends(float(mine.overall.score[0]), lo, hi, none)
    low, high = (end[0] for end in parts.interval(ci_level))
    lines = []
    for d, score in enumerate(mine.score[0]):
        why = few if np.isfinite(low[d]) else _ALL_RUN
        reason = None if mine.seen[0, d] else _FROM_OTHERS
        lines.append({**_ends(float(score), float(low[d]), float(high[d]), why), "no_interval": why, "reason": reason})
    return overall, None, none, lines


def _ends(score: float, lo: float, hi: float, none: str | None) -> dict[str, float | None]:
    ends = (lo, hi) if none is None else (np.nan, np.nan)
    return dict(zip(("predicted_pct", "lo_pct", "hi_pct"), map(intervals.percent, (score, *ends)), strict=True))


def _ranks(
    mine: Prediction, overall: Mapping[str, Any], calibration: Calibration, marks: Array, *, show: bool
) -> tuple[dict[str, int | None], list[float | None], list[float | None]]:
    """Rank and its interval, the probability of each rank, and that of being above each row; percent, None unknown."""
    same = np.round(marks, _SAME)

    def rank(pct: float | None) -> int | None:
        return None if pct is None else 1 + int((same > round(pct / 100, _SAME)).sum())

    place = {
        "rank": rank(overall["predicted_pct"]),
        "rank_lo": rank(overall["hi_pct"]),
        "rank_hi": rank(overall["lo_pct"]),
    }
    if not show:
        return place, [None] * (len(marks) + 1), [None] * len(marks)
    above = Spread.of(mine.overall, calibration.overall, calibration.degrees).exceeds(marks)[0]
    within = np.concatenate([above[np.argsort(-marks, kind="stable")], [1.0]])
    return place, (100 * np.diff(within, prepend=0.0)).tolist(), (100 * above).tolist()


def _check_lines(
    study: _Study, check: prediction.Check, seen: Mask, names: Sequence[str], row: pl.Expr
) -> pl.DataFrame:
    kept = np.flatnonzero(study.whole)
    found = check.predicted.overall.score[kept]
    plain = _plain_mean(study.known.only(seen))[kept]
    full = study.full[kept]
    return study.grid.rows[kept].select(
        row,
        pl.Series("study_row", [names[k] for k in kept], dtype=pl.String),  # type: ignore[call-overload]
        *ROW,
        pl.Series("full_pct", 100 * full),
        pl.Series("predicted_pct", 100 * found).fill_nan(None),
        pl.Series("error_points", 100 * (found - full)).fill_nan(None),
        pl.Series("subset_pct", 100 * plain).fill_nan(None),
        pl.Series("misfit", check.predicted.misfit[kept]).fill_nan(None),
    )


def _plain_mean(cells: Cells) -> Array:
    """Mean over dimensions of the mean of what is there, shape (rows,); NaN where a dimension has nothing."""
    return bootstrap.overall_means(bootstrap.dimension_means(cells.values, ~np.isnan(cells.values), cells.slices))


def _some(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- what a reader must know ------------------------------------------------------------------------------


def _remarks(study: _Study, parts: Mapping[str, pl.DataFrame], new: Grid) -> tuple[str, ...]:
    g = study.grid
    out = [*g.notes, *(n for n in new.notes if n not in g.notes)]
    gone = [g.names[r] for r in np.flatnonzero(~study.whole)]
    if gone:
        out.append(f"Rows of the study without a full score, which tell of the tasks' difficulty only: {_named(gone)}.")
    for line in parts["table"].iter_rows(named=True):
        out += _of_row(
            line, {n: parts[n].filter(pl.col("row") == line["row"]) for n in ("tasks", "dimensions", "check")}
        )
    out += dict.fromkeys(
        words for (_, check) in parts["check"].group_by("row", maintain_order=True) for words in _of_check(check)
    )
    out.append(_cannot_tell(study, parts))
    return tuple(out)


def _of_row(line: Mapping[str, Any], mine: Mapping[str, pl.DataFrame]) -> list[str]:
    name, out = line["row"], []
    without = mine["tasks"].filter(pl.col("what").is_in([_NOT_RUN, _INCOMPLETE]))["task_id"].to_list()
    if without:
        n = len(without)
        out.append(f"{name}: {n} task{'' if n == 1 else 's'} of the subset without a verdict: {_named(without)}.")
    if line["reason"]:
        words = f"{line['n_not_solved']} not solved alone, {line['n_refused']} refused, {line['n_without']} not run"
        return [*out, f"{name}: no prediction, as no test of the subset counts ({words})."]
    blind = mine["dimensions"].filter(pl.col("n_seen") == 0)["dimension"].to_list()
    if blind:
        words = _named([d.replace("_", " ") for d in blind])
        out.append(f"{name}: no test seen in {words}; predicted from the other dimensions.")
    most = mine["check"]["misfit"].max()
    if most is not None and line["misfit"] > most:
        out.append(
            f"{name}: passes and fails in an odder pattern than any row of the study on these tasks (misfit "
            f"{number(line['misfit'])}, theirs at most {number(most)}); its interval rests on rows unlike it."  # type: ignore[arg-type]
        )
    return out


def _of_check(check: pl.DataFrame) -> list[str]:
    """How far the prediction and the plain mean are out for the study's own models; nothing where nothing is known."""
    errors = check.drop_nulls("error_points")
    if not errors.height:
        return []
    own, plain = errors["error_points"].abs().mean(), (errors["subset_pct"] - errors["full_pct"]).abs().mean()
    beside = "" if plain is None else f", the plain mean of the tasks seen by {number(plain)}"  # type: ignore[arg-type]
    return [
        f"Each of the study's {errors['model'].n_unique()} models left out in turn, the prediction from the same tasks "
        f"errs by {number(own)} points{beside}."  # type: ignore[arg-type]
    ]


def _cannot_tell(study: _Study, parts: Mapping[str, pl.DataFrame]) -> str:
    """What the subset is silent on."""
    seen = parts["dimensions"].group_by("row").agg(pl.col("n_seen").min(), hi=pl.col("n_seen").max())
    low, high = int(seen["n_seen"].min()), int(seen["hi"].max())  # type: ignore[arg-type]
    words = f"{low}" if low == high else f"{low} to {high}"
    text = (
        f"What the subset cannot tell: single dimensions stand on {words} test{'' if high == 1 else 's'} each; failure "
        "modes, noticing and losses need the full tasks; a model that is unlike the study's may lie outside."
    )
    g = study.grid
    public, there = split_mask(g, "public"), known_tasks(study.known)
    chosen = g.tasks["task_id"].is_in(parts["tasks"]["task_id"].unique().to_list()).to_numpy()
    if public.any() and public[chosen].all() and not public[there].all():
        text += " Its tasks are public, others are not: whether the model knew them from training does not show."
    return text


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _added(*left: Mapping[str, int]) -> dict[str, int]:
    out: dict[str, int] = {}
    for one in left:
        for reason, n in one.items():
            out[reason] = out.get(reason, 0) + n
    return dict(sorted(out.items(), key=lambda item: (-item[1], item[0])))


def _both(a: Provenance, b: Provenance) -> Provenance:
    """Where both sets of runs come from; the hash is the study's, as the new runs are recorded as an argument."""
    names = list(dict.fromkeys([*a.study.split(" + "), *b.study.split(" + ")]))
    times = [t for t in (a.last_finished_at, b.last_finished_at) if t is not None]
    return replace(
        a,
        study=" + ".join(names),
        simulated=a.simulated or b.simulated,
        last_finished_at=max(times, default=None),
    )
