"""Where the variance of scores comes from, how reliable rows' scores are, and what more tasks or seeds would buy.

A generalizability study (G study) and decision study (D study). May import `cilab.core`, `cilab.results`,
`cilab.stats.methods` and its own folder. Reads no file, plays nothing, draws nothing at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, check, inside
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods.bootstrap import Array, Mask, exact_mean
from cilab.stats.methods.distributions import t_quantile
from cilab.stats.methods.uncertainty import LEAST_UNITS, too_few
from cilab.stats.methods.variance_components import RESIDUAL, Codes, Components, reml, same_partition
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid

#: What is tried in the D study unless told otherwise.
TASKS, SEEDS, JUDGES_TRIED = (5, 10, 20, 30, 45, 60, 90), (1, 3, 5), (1, 3)
#: Judges whose labels are compared: they are asked about every message. A third is asked where these differ.
LABELLING = ("referee", "second")
#: Components in the order of the table, in words.
WORDS = {
    "row": "row",
    "dimension": "dimension",
    "family": "task family",
    "task": "task",
    "judge": "judge",
    "row_x_dimension": "row × dimension",
    "row_x_family": "row × task family",
    "row_x_task": "row × task",
    "row_x_judge": "row × judge",
    "task_x_judge": "task × judge",
    "seed": "seed (run of a row × task)",
    "residual": "judge within a run, residual",
}
_UNITS = ("row", "dimension", "family", "task", "judge")
#: Clusters of tasks unless told otherwise: by this column where the data have it, else each task by itself.
TASK = "task"
_SHORT = {name: words.split(" (")[0].split(",")[0] for name, words in WORDS.items()}
#: In this order a component gives way to an earlier one with which it coincides.
_FIRST: tuple[str, ...] = (
    "row",
    "dimension",
    "task",
    "family",
    "row_x_dimension",
    "row_x_task",
    "row_x_family",
    "seed",
)
_FIRST += ("judge", "row_x_judge", "task_x_judge")
_EQUAL = "all scores are equal"


@check("a list of whole numbers of at least 1")
def _sizes(name: str, value: Any) -> None:
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and len(value)
    if not listed or any(isinstance(v, bool) or not isinstance(v, int | np.integer) or v < 1 for v in value):
        raise TableError(f"{name} is {value!r}: give whole numbers of at least 1, such as [10, 30]")


Sizes = Annotated[Sequence[int], _sizes]


@dataclass(frozen=True, kw_only=True, repr=False)
class VarianceComponents(Result):
    """Where the variance of scores comes from.

    Attributes
    ----------
    table : one line per component: `component`, `variance` (of scores as fractions), `se`, `lo`, `hi` (in its units),
        `sd_points` (100 times its root), `share_pct` (of the sum of all), `share_lo_pct`, `share_hi_pct`, `n_levels`,
        `no_interval` (why there is none), `reason` (why there is no estimate, or what it holds beside its own).
    reliability : of the scores at hand: `quantity, value, lo, hi, unit, reason`: `generalizability` (how far the order
        of rows would hold over new tasks and seeds), `dependability` (phi, how far the scores themselves would),
        `se_score`, `se_difference` (mean over rows, over pairs of rows), `sd_true_score`.
    rows : one line per row: `row, model, effort, arm, n_tasks, n_runs, score_pct, se_points` (the standard error over
        new tasks and seeds from the components and the tasks that the row has), `reason`.
    d_study : one line per `tasks_per_dimension, seeds, judges` (null without judges): `runs_per_row`,
        `se_score_points`, `se_difference_points` (two rows on the same tasks), `generalizability`, `dependability`.
    """

    reliability: pl.DataFrame
    rows: pl.DataFrame
    d_study: pl.DataFrame
    seed: None = None
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "variance_components"
    title: ClassVar[str] = "Where the variance of scores comes from"

    def value(self, component: str) -> float | None:
        """The variance of a component by name (scores as fractions); None where there is no estimate."""
        found = self.table.filter(pl.col("component") == component)
        if not found.height:
            there = self.table["component"].to_list()
            raise TableError(f"no component {component!r}.{nearest(component, there)} There are {', '.join(there)}")
        return found["variance"][0]

    def quantity(self, name: str) -> float | None:
        """A quantity of `.reliability` by name."""
        found = self.reliability.filter(pl.col("quantity") == name)
        if not found.height:
            raise TableError(f"no quantity {name!r}; there are {', '.join(self.reliability['quantity'])}")
        return found["value"][0]

    def sheet(self) -> Sheet:
        """One line per component: share of the variance and standard deviation, with what is to be said of it."""
        lines = []
        for r in self.table.iter_rows(named=True):
            share = Interval.of(r, "share_pct", "share_lo_pct", "share_hi_pct").ends()
            notes = "; ".join(filter(None, (r["reason"], r["no_interval"])))
            line = {"Component": WORDS[r["component"]], "Levels": number(r["n_levels"], 0), "Share (%)": share}
            lines.append(line | {"Standard deviation (points)": number(r["sd_points"]), "Note": notes})
        return self.on_sheet(lines)

    def paper_sheet(self) -> Sheet:
        """The D study: one line per design."""
        lines = []
        for r in self.d_study.iter_rows(named=True):
            line = {"Tasks a dimension": str(r["tasks_per_dimension"]), "Seeds": str(r["seeds"])}
            line |= {} if r["judges"] is None else {"Judges": str(r["judges"])}
            line |= {"Runs a row": number(r["runs_per_row"], 0)}
            for column, words in (("se_score_points", "SE of a score"), ("se_difference_points", "of a difference")):
                line[f"{words} (points)"] = number(r[column])
            line |= {"Generalizability": number(r["generalizability"], 2)}
            lines.append(line | {"Dependability": number(r["dependability"], 2)})
        return self.on_sheet(lines, "What more tasks and seeds would buy")

    def notes(self) -> list[str]:
        """As in `Result`, with the reliability of the scores at hand."""
        out, said = super().notes(), []
        for r in self.reliability.iter_rows(named=True):
            digits = 1 if r["unit"] == "points" else 2
            unit = " points" if r["unit"] == "points" else ""
            if r["value"] is not None:
                said.append(
                    f"{_QUANTITIES[r['quantity']]} {Interval.of(r, 'value', 'lo', 'hi', digits=digits).ends()}{unit}"
                )
        words = [f"The scores at hand: {'; '.join(said)}."] if said else []
        return [*out[:-1], *words, *self.remarks, out[-1]]


_QUANTITIES = {
    "generalizability": "generalizability",
    "dependability": "dependability",
    "se_score": "standard error of a score",
    "se_difference": "of a difference of two rows",
    "sd_true_score": "standard deviation of rows' true scores",
}


@estimator
def variance_components(
    study: Any,
    *,
    ratings: Annotated[Any, inside] = None,
    tasks_per_dimension: Sizes = TASKS,
    seeds: Sizes = SEEDS,
    judges: Sizes = JUDGES_TRIED,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> VarianceComponents:
    """How much of the variance of scores is of rows, tasks, seeds and judges, and what more of each would buy.

    The score of a run is taken as a mean plus independent random effects of the row, dimension, task (within its
    dimension), task family, their interactions with the row, and the seed; with judges' scores also of the judge, and
    of the judge with row and task. Their variances are estimated by restricted maximum likelihood (REML), from the
    runs that count (a row's tasks are those that it solves alone), however many a cell has. An estimate at the border
    is 0 and is said; it has an upper bound. Standard errors are of large samples under normal effects.

    In the D study the dimensions are fixed, as in the leaderboard: a row's true score is its expected overall score
    over new tasks, seeds and judges, and its variance is that of the row plus that of row x dimension over the number
    of dimensions. Rows that are compared play the same tasks.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    ratings : judges' scores of the same runs, to tell judges apart: a frame `run_id, judge, score` (fractions), or
        `labels`: of the study's labels by the two judges who see every message, the share of a run's messages that do
        not give way. None: the score of the run, without judges.
    tasks_per_dimension, seeds, judges : what the D study tries.
    ci_level : of the intervals.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    VarianceComponents
        A component that these data cannot tell from another (one row, one task a dimension, one seed) is null with its
        reason; so are all where scores do not vary.

    Raises
    ------
    TableError
        An argument is out of range, ratings lack a column, name no run that counts or score a run twice by one judge;
        tasks are those of a published round; or as in `grid`.

    References
    ----------
    Brennan, R. L. (2001). Generalizability Theory. Springer. Shavelson, R. J., & Webb, N. M. (1991). Generalizability
    Theory: A Primer. Sage. REML: see `cilab.stats.methods.variance_components`.

    Examples
    --------
    >>> from cilab.datasets import hand_worked_round
    >>> found = variance_components(hand_worked_round())
    >>> found.table.columns[:3]
    ['component', 'variance', 'se']
    """
    g = grid(study, **scope)
    g.need_known_tasks("variance_components")
    seen = _seen(study, g, ratings)
    groups = None if g.cluster_name == TASK else _within_dimension(g, g.clusters)
    fit = _fitted(g, seen, groups)
    design = _Design(g, seen, groups, fit, ci_level)
    remarks = (*g.notes, *fit.remarks, *design.remarks(seeds))
    return VarianceComponents(
        table=_table(fit, ci_level),
        reliability=design.reliability(),
        rows=design.rows(),
        d_study=design.d_study(tasks_per_dimension, seeds, judges),
        remarks=remarks,
        n_used=seen.n_runs if ratings is not None else g.n_used,
        n_left_out=g.n_left_out if ratings is None else _without(g, seen),
        provenance=g.provenance,
        parameters={**g.asked, "rows": g.rows.height, "cluster_column": g.cluster_name},
        caption=(
            f"Variance of the scores of {fit.n:,} {'runs' if seen.judge is None else 'judgements'} by REML, as share "
            f"of the sum, with {percent(ci_level)} intervals. Rows count on the tasks that they {g.gate_words}."
        ),
    )


def _without(g: Grid, seen: _Seen) -> dict[str, int]:
    """Reasons of the grid, and runs that count but have no score by a judge."""
    tests = g.runs.filter(pl.col("used") & (pl.col("version") == g.version)).height
    more = {"without a judge's score": tests - seen.n_runs, "of another version": g.n_used - tests}
    return task_runs.left_out(g, seen.n_runs, more)


# -- what is observed -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """Observations: positions in the grid, the run, the judge (None without), the score."""

    r: Codes
    t: Codes
    run: Codes
    judge: Codes | None
    y: Array

    @property
    def n_runs(self) -> int:
        return len(np.unique(self.run))

    def where(self, kept: Any, y: Array | None = None, *, judge: bool = True) -> _Seen:
        of = self.judge[kept] if judge and self.judge is not None else None
        return _Seen(self.r[kept], self.t[kept], self.run[kept], of, self.y[kept] if y is None else y)


def _seen(study: Any, g: Grid, ratings: Any) -> _Seen:
    if ratings is None:
        r, t, s = np.nonzero(g.scored[:, :, None] & ~np.isnan(g.by_seed))
        return _Seen(r, t, np.arange(len(r)), None, g.by_seed[r, t, s])
    runs = task_runs.used_runs(study, g)
    if isinstance(ratings, str):
        if ratings != "labels":
            raise TableError(f"ratings is {ratings!r}: give a frame (run_id, judge, score), 'labels', or None")
        found = _from_labels(study)
    else:
        found = _checked(as_frame(ratings, "ratings must be a polars or pandas DataFrame, 'labels' or None"))
    joined = runs.drop("score").with_row_index("run").join(found, on="run_id", maintain_order="left")
    if joined.is_empty():
        raise TableError("ratings: no judge scored a run that counts; their run_id must be those of the runs table")
    names = sorted(joined["judge"].unique().to_list())
    code = joined["judge"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    r, t, run = (joined[c].to_numpy().astype(np.int64) for c in ("r", "t", "run"))
    return _Seen(r, t, run, code, joined["score"].to_numpy())


def _checked(found: pl.DataFrame) -> pl.DataFrame:
    for column in ("run_id", "judge", "score"):
        if column not in found.columns:
            raise TableError(f"ratings: missing column {column}.{nearest(column, found.columns)}")
    if not found.schema["score"].is_numeric() and found.schema["score"] != pl.Boolean:
        raise TableError(f"ratings: score holds {found.schema['score']}, not numbers")
    texts = pl.col("run_id", "judge").cast(pl.String)
    found = found.select(texts, pl.col("score").cast(pl.Float64).fill_nan(None)).drop_nulls()
    if found.height and (found["score"].min() < 0 or found["score"].max() > 1):  # type: ignore[operator]
        raise TableError("ratings: a score is outside 0 to 1; give fractions")
    if (double := found.filter(pl.struct("run_id", "judge").is_duplicated())).height:
        run, judge = double.select("run_id", "judge").row(0)
        raise TableError(f"ratings: {judge} scored run {run} twice; average them, or name the repeats as two judges")
    return found


def _from_labels(study: Any) -> pl.DataFrame:
    labels = task_runs.study_labels(study, rater=None)
    if labels is None:
        raise TableError("ratings: this study has no labels")
    kept = labels.filter(pl.col("rater").is_in(LABELLING) & pl.col("gives_way").is_not_null())
    by_run = kept.group_by("run_id", judge="rater").agg(score=1 - pl.col("gives_way").cast(pl.Float64).mean())
    return _checked(by_run)


def _within_dimension(g: Grid, clusters: Codes) -> Codes:
    """The same with a cluster of its own in each dimension."""
    return np.unique(g.dimension_of * (int(clusters.max()) + 1) + clusters, return_inverse=True)[1].reshape(-1)


# -- the fit ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """Components, those that are not identified with their reasons, and numbers of levels."""

    found: Components | None
    levels: Mapping[str, int]
    reasons: Mapping[str, str]
    zero: Mapping[str, str]
    n: int
    remarks: tuple[str, ...] = ()

    def variance(self) -> dict[str, float]:
        """Of the components that are identified."""
        named = dict(self.found.variance) if self.found else {}
        return named | dict.fromkeys(self.zero, 0.0)


def _fitted(g: Grid, seen: _Seen, groups: Codes | None) -> _Fit:
    dims = g.dimension_of
    codes = _codes(g, seen, dims, groups)
    levels = {name: len(np.unique(of)) for name, of in codes.items()}
    levels["residual" if seen.judge is not None else "seed"] = len(seen.y)
    order = [name for name in WORDS if name in levels]
    if len(seen.y) < 3 or np.ptp(seen.y) == 0:
        why = _EQUAL if len(seen.y) else "no run counts"
        return _Fit(None, {n: levels[n] for n in order}, dict.fromkeys(order, why), {}, len(seen.y))
    zero: dict[str, str] = {}
    kept, residual = seen, "seed" if seen.judge is None else "residual"
    if seen.judge is not None and _never_differ(seen.y, seen.run):
        zero |= dict.fromkeys(("judge", "row_x_judge", "task_x_judge", "residual"), "judges never differ")
        kept, residual = _first(seen, seen.run), "seed"
    if residual == "seed" and _never_differ(kept.y, (cells := kept.r * len(dims) + kept.t)):
        zero["seed"] = "repeats never differ"
        kept, residual = _first(kept, cells), "row_x_task"
    codes = {n: of for n, of in _codes(g, kept, dims, groups).items() if n not in zero and n != residual}
    reasons: dict[str, str] = {}
    effects: dict[str, Codes] = {}
    for name in (n for n in _FIRST if n in codes):
        if same := _confounded(name, codes[name], effects, levels, residual):
            reasons[name] = same
        else:
            effects[name] = codes[name]
    try:
        found = reml(
            kept.y,
            effects,
            cell="row_x_task" if "row_x_task" in effects else None,
            run="seed" if "seed" in effects else None,
            blocks=dims[kept.t],
        )
    except TableError as e:
        why = str(e).removeprefix("variance components: ")
        return _Fit(None, {n: levels[n] for n in order}, dict.fromkeys(order, why), {}, len(seen.y))
    named = {n if n != RESIDUAL else residual: v for n, v in found.variance.items()}
    positive = tuple(n if n != RESIDUAL else residual for n in found.positive)
    found = replace(found, variance=named, positive=positive)
    return _Fit(found, {n: levels[n] for n in order}, reasons, zero, len(seen.y))


def _codes(g: Grid, seen: _Seen, dims: Codes, groups: Codes | None) -> dict[str, Codes]:
    """Level of each observation, by component (without the innermost)."""
    n_tasks, d = g.tasks.height, dims[seen.t]
    out = {"row": seen.r, "dimension": d, "task": seen.t, "row_x_dimension": seen.r * len(g.slices) + d}
    out["row_x_task"] = seen.r * n_tasks + seen.t
    if groups is not None:
        out |= {"family": groups[seen.t], "row_x_family": seen.r * (int(groups.max()) + 1) + groups[seen.t]}
    if seen.judge is not None:
        j = int(seen.judge.max()) + 1
        out |= {"judge": seen.judge, "row_x_judge": seen.r * j + seen.judge, "task_x_judge": seen.t * j + seen.judge}
        out["seed"] = seen.run
    return {name: np.asarray(of, np.int64) for name, of in out.items()}


def _never_differ(y: Array, of: Codes) -> bool:
    """There are repeats within the groups, and they are equal."""
    levels, place = np.unique(of, return_inverse=True)
    if len(levels) == len(y):
        return False
    low, high = np.full(len(levels), np.inf), np.full(len(levels), -np.inf)
    np.minimum.at(low, place, y)
    np.maximum.at(high, place, y)
    return bool((high - low).max() <= task_runs.SAME)


def _first(seen: _Seen, of: Codes) -> _Seen:
    return seen.where(np.unique(of, return_index=True)[1], judge=False)


def _confounded(
    name: str, of: Codes, effects: Mapping[str, Codes], levels: Mapping[str, int], residual: str
) -> str | None:
    """Why a component is not identified; None where it is."""
    n = len(np.unique(of))
    if n < 2:
        return f"one {_SHORT[name]}"
    for other, levels_of in effects.items():
        if same_partition(of, levels_of):
            return f"cannot be told from {_SHORT[other]}: {_one(name, other)}"
    if n == len(of):
        return f"cannot be told from {_SHORT[residual]}: {_one(name, residual)}"
    return None


def _one(name: str, other: str) -> str:
    """What there is only one of, where two components coincide."""
    pairs = {
        ("task", "dimension"): "one task a dimension",
        ("family", "dimension"): "one family a dimension",
        ("family", "task"): "one task a family",
        ("row_x_family", "row_x_task"): "one task a family",
        ("row_x_family", "row_x_dimension"): "one family a dimension",
        ("row_x_task", "row_x_dimension"): "one task a dimension",
        ("row_x_dimension", "row"): "one dimension",
        ("row_x_task", "seed"): "one run of a task",
        ("seed", "row_x_task"): "one run of a task",
        ("seed", "residual"): "one judge a run",
    }
    one_judge = {"row_x_judge", "task_x_judge"} & {name} and other in ("row", "task")
    return pairs.get((name, other)) or ("one judge" if one_judge else "the two coincide in these data")


# -- the table --------------------------------------------------------------------------------------------

_TABLE: dict[str, Any] = {"component": pl.String}
_TABLE |= dict.fromkeys(("variance", "se", "lo", "hi", "sd_points", "share_pct"), pl.Float64)
_TABLE |= dict.fromkeys(("share_lo_pct", "share_hi_pct"), pl.Float64)
_TABLE |= {"n_levels": pl.Int64, "no_interval": pl.String, "reason": pl.String}


def _table(fit: _Fit, ci_level: float) -> pl.DataFrame:
    known = fit.variance()
    total = sum(known.values())
    lines = []
    for name, n in fit.levels.items():
        line: dict[str, Any] = {"component": name, "n_levels": n, "reason": fit.reasons.get(name)}
        if name in known:
            value = known[name]
            line |= {"variance": value, "sd_points": 100 * math.sqrt(value), "share_pct": 100 * value / total}
            line |= _intervals(fit, name, n, total, ci_level)
        lines.append(line)
    return pl.DataFrame(lines, schema=_TABLE, orient="row")


def _intervals(fit: _Fit, name: str, n: int, total: float, ci_level: float) -> dict[str, Any]:
    if name in fit.zero:
        return {"no_interval": fit.zero[name]}
    found = fit.found
    assert found is not None
    holds = [other for other, why in fit.reasons.items() if why.startswith(f"cannot be told from {_SHORT[name]}:")]
    out: dict[str, Any] = {"reason": f"holds {', '.join(_SHORT[h] for h in holds)} too"} if holds else {}
    if found.variance[name] == 0:
        out["reason"] = "estimated as 0, at the border"
    if n < LEAST_UNITS:
        return out | {"no_interval": too_few(n, name if name in _UNITS else "level")}
    lo, hi = found.interval(name, ci_level)
    if lo is None or hi is None:
        return out | {"no_interval": "the likelihood is too flat"}
    out |= {"se": found.se(name), "lo": lo, "hi": hi}
    if found.is_flat(name):
        rest = total - found.variance[name]
        return out | {"share_lo_pct": 100 * lo / (rest + lo), "share_hi_pct": 100 * hi / (rest + hi)}
    ends = _logit_ends(found, lambda v: v[name] / sum(v.values()), _df(fit, name), ci_level)
    return out if ends is None else out | {"share_lo_pct": 100 * ends[0], "share_hi_pct": 100 * ends[1]}


def _df(fit: _Fit, name: str) -> float:
    """Degrees of freedom of the t quantile: those of the chi-square that the estimate is likened to."""
    found = fit.found
    se = found.se(name) if found else None
    return max(1.0, 2 * (found.variance[name] / se) ** 2) if found and se else 1.0


def _logit_ends(
    found: Components, share: Callable[[Mapping[str, float]], float], df: float, ci_level: float
) -> tuple[float, float] | None:
    """Interval of a share on the scale of its logit."""
    at = share(found.variance)
    if not 0 < at < 1:
        return None
    se = found.delta(lambda v: math.log(share(v) / (1 - share(v))))
    if se is None:
        return None
    half, middle = t_quantile(0.5 + ci_level / 2, df) * se, math.log(at / (1 - at))
    return tuple(1 / (1 + math.exp(-(middle + s * half))) for s in (-1, 1))  # type: ignore[return-value]


# -- reliability and the D study --------------------------------------------------------------------------


class _Design:
    """Errors of scores, of the design at hand and of others, as functions of the components."""

    def __init__(self, g: Grid, seen: _Seen, groups: Codes | None, fit: _Fit, ci_level: float) -> None:
        self.g, self.fit, self.ci_level = g, fit, ci_level
        self.judges = None if seen.judge is None else len(np.unique(seen.judge))
        shape = (g.rows.height, g.tasks.height)
        runs = np.unique(np.stack([seen.r, seen.t, seen.run]), axis=1)
        self.n_runs = np.zeros(shape)
        np.add.at(self.n_runs, (runs[0], runs[1]), 1)
        self.means = np.full(shape, np.nan)
        sums, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(sums, (seen.r, seen.t), seen.y)
        np.add.at(counts, (seen.r, seen.t), 1)
        there = counts > 0
        self.means[there] = sums[there] / counts[there]
        self.weights = np.zeros(shape)
        has = np.stack([there[:, s].any(axis=1) for s in g.slices], axis=1)
        self.whole: Mask = np.asarray(has.all(axis=1))
        for s in g.slices:
            of = there[:, s].sum(axis=1, keepdims=True)
            self.weights[:, s] = there[:, s] / np.maximum(of, 1) / len(g.slices)
        tasks = np.arange(shape[1])
        groups = tasks if groups is None else groups
        self.family = np.zeros((shape[1], int(groups.max()) + 1))
        self.family[tasks, groups] = 1.0
        played = there.any(axis=0)
        families = max(1, len(np.unique(groups[played])))
        self.per_family = max(1.0, played.sum() / families)
        several = max((int(there[:, s].any(axis=0).sum()) for s in g.slices), default=0) > 1
        self.why = None
        if fit.found is None:
            self.why = next(iter(fit.reasons.values()))
        elif not several:
            self.why = "one task a dimension: how much tasks differ cannot be told"

    @property
    def one_run(self) -> bool:
        """Seeds cannot be told from the row x task: no cell has two runs."""
        return "row_x_task" in self.fit.reasons and self.n_runs.max(initial=0) < 2

    def remarks(self, seeds: Sequence[int]) -> tuple[str, ...]:
        if self.why is None and self.one_run and max(seeds) > 1:
            return ("No task was run twice: what more seeds would buy cannot be told, and the D study has one seed.",)
        return ()

    def true_variance(self, v: Mapping[str, float]) -> float:
        """Variance of rows' true overall scores."""
        return v.get("row", 0.0) + v.get("row_x_dimension", 0.0) / len(self.g.slices)

    def errors(self, v: Mapping[str, float]) -> tuple[Array, Array]:
        """Error variances of the scores at hand: of each row (R,), and of each difference (R, R)."""
        c = self.weights
        of = {name: v.get(name, 0.0) for name in WORDS}
        j = self.judges or 1
        in_family = c @ self.family
        squares, runs = (c**2).sum(axis=1), (c**2 / np.maximum(self.n_runs, 1)).sum(axis=1)
        own = of["row_x_task"] * squares + of["row_x_family"] * (in_family**2).sum(axis=1)
        own += of["row_x_judge"] / j + of["seed"] * runs + of["residual"] * runs / j
        common = (of["task"] + of["task_x_judge"] / j) * (c @ c.T) + of["family"] * (in_family @ in_family.T)
        both = np.diag(common)
        between = own[:, None] + own + both[:, None] + both - 2 * common
        return own + both + of["judge"] / j, between

    def _at_hand(self, v: Mapping[str, float]) -> dict[str, float]:
        total, between = self.errors(v)
        at = np.flatnonzero(self.whole)
        true = self.true_variance(v)
        out = {"se_score": 100 * math.sqrt(float(total[at].mean())), "sd_true_score": 100 * math.sqrt(true)}
        out["dependability"] = true / (true + float(total[at].mean()))
        if len(at) > 1:
            pairs = between[np.ix_(at, at)][np.triu_indices(len(at), 1)]
            out["se_difference"] = 100 * math.sqrt(float(pairs.mean()))
            out["generalizability"] = true / (true + float(pairs.mean()) / 2)
        return out

    def reliability(self) -> pl.DataFrame:
        """Of the design at hand."""
        schema: dict[str, Any] = {"quantity": pl.String, "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
        lines = []
        for name in _QUANTITIES:
            value, ends, why = self._quantity(name)
            unit = "points" if name.startswith(("se_", "sd_")) else "fraction"
            lines.append((name, value, *ends, unit, why))
        return pl.DataFrame(lines, schema=schema | {"unit": pl.String, "reason": pl.String}, orient="row")

    def _quantity(self, name: str) -> tuple[float | None, tuple[float | None, float | None], str | None]:
        none = (None, None)
        why = self.why
        of_rows = name in ("generalizability", "dependability", "sd_true_score", "se_difference")
        if why is None and of_rows and "row" in self.fit.reasons:
            why = self.fit.reasons["row"]
        if why is None and not self.whole.any():
            why = "no row has a score in every dimension"
        found = self.fit.found
        if why is not None or found is None:
            return None, none, why
        if name not in (now := self._at_hand(self.fit.variance())):
            return None, none, "one row has a score in every dimension"
        value = now[name]
        n_rows = self.fit.levels["row"]
        if of_rows and n_rows < LEAST_UNITS:
            return value, none, f"no interval: {too_few(n_rows, 'row')}"
        if value == 0:
            return value, none, "no interval: the variance of rows is estimated as 0"
        if name in ("generalizability", "dependability"):
            ends = _logit_ends(found, lambda v: self._at_hand(v)[name], math.inf, self.ci_level)
            return value, ends or none, None if ends else "no interval: the likelihood is too flat"
        se = found.delta(lambda v: math.log(self._at_hand(v)[name]))
        if se is None:
            return value, none, "no interval: the likelihood is too flat"
        df = max(1, n_rows - 1) if name == "sd_true_score" else math.inf
        half = t_quantile(0.5 + self.ci_level / 2, df) * se
        return value, (value * math.exp(-half), value * math.exp(half)), None

    def rows(self) -> pl.DataFrame:
        """Each row's score with the standard error that the components give it."""
        total: Array | None = None if self.why else self.errors(self.fit.variance())[0]
        lines = []
        for r, row in enumerate(self.g.rows.iter_rows(named=True)):
            there = ~np.isnan(self.means[r])
            by_dimension = [exact_mean(self.means[r, s][there[s]]) for s in self.g.slices]
            score = 100 * exact_mean(np.array(by_dimension)) if self.whole[r] else None
            why = "no score in some dimension" if score is None else self.why
            se = 100 * math.sqrt(float(total[r])) if total is not None and score is not None else None
            key = {name: row[name] for name in ("row", *ROW)}
            counts = {"n_tasks": int(there.sum()), "n_runs": int(self.n_runs[r].sum())}
            lines.append(key | counts | {"score_pct": score, "se_points": se, "reason": why})
        schema: dict[str, Any] = dict.fromkeys(("row", *ROW), pl.String) | {"n_tasks": pl.Int64, "n_runs": pl.Int64}
        schema |= {"score_pct": pl.Float64, "se_points": pl.Float64, "reason": pl.String}
        return pl.DataFrame(lines, schema=schema, orient="row")

    def d_study(self, tasks: Sequence[int], seeds: Sequence[int], judges: Sequence[int]) -> pl.DataFrame:
        """Errors and coefficients of designs in which every row plays the same tasks."""
        v = {name: self.fit.variance().get(name, 0.0) for name in WORDS}
        d, true = len(self.g.slices), self.true_variance(v)
        several = "row" not in self.fit.reasons
        lines = []
        repeats = [1] if self.one_run else sorted({*map(int, seeds)})
        panel: Sequence[int | None] = [None] if self.judges is None else sorted({*map(int, judges)})
        for j in panel if self.why is None else []:
            for s in repeats:
                for n in sorted({*map(int, tasks)}):
                    of = j or 1
                    families = max(1.0, n / self.per_family)
                    own = v["row_x_task"] / n + v["row_x_family"] / families + v["seed"] / (n * s)
                    own = (own + v["residual"] / (n * s * of)) / d + v["row_x_judge"] / of
                    rest = ((v["task"] + v["task_x_judge"] / of) / n + v["family"] / families) / d + v["judge"] / of
                    line: dict[str, Any] = {"tasks_per_dimension": n, "seeds": s, "judges": j}
                    line |= {"runs_per_row": d * n * s, "se_score_points": 100 * math.sqrt(own + rest)}
                    if several:
                        line |= {"se_difference_points": 100 * math.sqrt(2 * own)}
                        line |= {"generalizability": _ratio(true, own), "dependability": _ratio(true, own + rest)}
                    lines.append(line)
        return pl.DataFrame(lines, schema=_D_STUDY, orient="row")


def _ratio(true: float, error: float) -> float | None:
    """Share of the true variance; None where there is none of either."""
    return true / (true + error) if true + error > 0 else None


_D_STUDY: dict[str, Any] = dict.fromkeys(("tasks_per_dimension", "seeds", "judges", "runs_per_row"), pl.Int64)
_D_STUDY |= dict.fromkeys(("se_score_points", "se_difference_points", "generalizability", "dependability"), pl.Float64)
