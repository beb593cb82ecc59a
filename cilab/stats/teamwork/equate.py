"""Two rounds on one scale: what rows of a new round would score on the tasks of an old one.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing. The linking is that of
`cilab.stats.methods.linking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, inside, numeric, texts
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, number, percent, signed
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.methods import linking, two_means
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.distributions import t_quantile
from cilab.stats.methods.item_response import SD_DEVIATION, SD_DIFFICULTY, SD_LEVEL, SD_MEAN
from cilab.stats.methods.linking import Link, Method
from cilab.stats.methods.row_task_model import Trials, Widths, expit, fit
from cilab.stats.methods.uncertainty import LEAST_UNITS, NO_SPREAD, Bounds, too_few
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.lite_score import _added, _both, _named

Through = Literal["tasks", "rows"]
#: What becomes of a task that both rounds have.
ANCHOR, CHANGED, OTHER_DIMENSION, NOT_ASKED = "anchor", "content changed", "of another dimension", "not asked for"
_UNSCORED = ("not scored in the old round", "not scored in the new round")
_NOTHING = 1e-12


@dataclass(frozen=True, kw_only=True, repr=False)
class Equated(Result):
    """Scores of a new round on the scale of an old one.

    Attributes
    ----------
    table : see `equate`.
    dimensions : one line per new row and dimension of the old round: `row, model, effort, arm, dimension, new_pct,
        adjustment_points, equated_pct, lo_pct, hi_pct, no_interval, n_clusters, link_error_points, old_pct, reason`.
    linking : one line per dimension of the old round: `dimension, n_anchors, slope, shift_logits, se_logits,
        lo_logits, hi_logits, no_interval, n_clusters` (independent anchors), `shift_without_drifting_logits`,
        `correlation, sd_ratio` (of the anchors' difficulties, new to old), `reason` (why it is not linked).
    methods : `dimension, method, slope, shift_logits`: what every method of linking gives.
    anchors : one line per task of both rounds: `task_id, new_task_id, dimension, what` (anchor, or why it is none),
        `old_difficulty, new_difficulty, linked_difficulty` (logits; linked: the new one on the old scale), `residual`
        (linked less old: positive has become harder), `robust_z, drifting`.
    """

    dimensions: pl.DataFrame
    linking: pl.DataFrame
    methods: pl.DataFrame
    anchors: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "equate"
    title: ClassVar[str] = "Scores on the scale of the old round"

    def sheet(self) -> Sheet:
        """One line per row of the new round: as measured, adjustment, on the old scale, and what it had there."""
        lines = [
            {
                "Row": r["row"],
                "New round (%)": number(r["new_pct"], missing=NONE),
                "Adjustment": signed(r["adjustment_points"], missing=NONE),
                "On the old scale (%)": Interval.of(r, "equated_pct", "lo_pct", "hi_pct").half(r["reason"] or NONE),
                "Linking error": number(r["link_error_points"], missing=NONE),
                "Old round (%)": number(r["old_pct"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(without_blanks(pl.DataFrame(lines), ("Old round (%)",)), stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and what the link rests on."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def equate(
    old: Any,
    new: Annotated[Any, inside],
    *,
    through: Through = "tasks",
    anchors: Annotated[Sequence[str] | None, texts("task ids")] = None,
    method: Method = "stocking_lord",
    drifting_z: Annotated[float, numeric(lambda z: z > 0, "a number above 0, such as 2.7")] = 2.7,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Equated:
    """Scores of the rows of a new round on the scale of an old round, through the tasks or rows that both have.

    The tasks of a new round may be harder. In each round a one-parameter item-response model says how hard they are and
    what each row can do, in each dimension on a scale of its own. Tasks of both rounds (anchors) say how the new scale
    becomes the old one; then the model says what each row would be expected to score on the old round's tasks, and on
    the new round's. The difference of the two is added to the row's score as it was measured: a round equated with
    itself changes nothing.

    Anchors have the same id in both, and the same `version_hash` where both tasks tables have one; or, under another
    id, a hash that no other task has. A dimension takes at least three. Each anchor's residual shows whether it has
    drifted (become known, or been changed): leave such out with `anchors=`, and see what it changes.

    Parameters
    ----------
    old, new : runs tables (polars or pandas), opened studies or data sets. The result is on the scale of the first.
    through : `tasks` that both have; or `rows` that both have, which takes these to be as able now as they were then.
    anchors : ids (of the old round) of the tasks to link through; None: all that both have.
    method : see `cilab.stats.methods.linking.link`; `.methods` has all of them.
    drifting_z : from which robust z, to either side, an anchor counts as drifting.
    ci_level : a fraction. The interval puts the score interval of the new round (over tasks) and the error of linking
        together; the latter is the jackknife's over anchors, or clusters of them, or over models.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; the same for both.

    Returns
    -------
    Equated
        `.table`, one line per row of the new round, best first: `row, model, effort, arm, new_pct` (as measured),
        `adjustment_points, equated_pct, lo_pct, hi_pct, no_interval, n_clusters` (units behind the new score),
        `link_error_points` (standard error of the adjustment), `old_pct` (what the row scored in the old round, where
        it was there), `reason` (why it is not equated). Overall is the mean of the old round's dimensions.

    Raises
    ------
    TableError
        No dimension has three anchors, or three models in common; an anchor is unknown; task ids are those of a
        published round; or as in `grid`.

    References
    ----------
    Kolen and Brennan (2014), Test Equating, Scaling, and Linking. Stocking and Lord (1983). Haebara (1980). Huynh and
    Meyer (2010), robust z.

    Examples
    --------
    >>> from cilab.datasets import simulated_release
    >>> study = simulated_release(scale=0.1)
    >>> found = equate(study, study)
    >>> found.table["adjustment_points"].drop_nulls().abs().max()
    0.0
    """
    one, two = _round(old, scope, "old"), _round(new, scope, "new")
    pairs = _pairs(one, two, anchors)
    bonds = [_bond(one, two, pairs, name, through, method) for name in one.g.dimensions]
    if all(bond.reason for bond in bonds):
        raise TableError(_nothing(one, two, pairs, through))
    told = _anchor_table(one, two, pairs, bonds, drifting_z)
    table, dimensions = _scores(one, two, bonds, through, ci_level)
    lines = _linking_table(one, two, bonds, told, through, method, ci_level)
    n_used = one.g.n_used + two.g.n_used
    return Equated(
        table=table,
        dimensions=dimensions,
        linking=lines,
        methods=_methods_table(one, two, bonds, through),
        anchors=told,
        remarks=_remarks(one, two, lines, told, through),
        n_used=n_used,
        n_left_out=_added(one.g.n_left_out, two.g.n_left_out),
        provenance=_both(one.g.provenance, two.g.provenance),
        parameters={**one.g.asked},
        caption=(
            f"Percent. {percent(ci_level)} intervals over {intervals.units(two.g)} within dimension, with the error of "
            f"linking through {'anchor tasks' if through == 'tasks' else 'rows of both rounds'}."
        ),
    )


# -- the two rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Round:
    """A round and the model fitted to it.

    Attributes
    ----------
    g : its grid.
    level : what each row can do in each dimension, logits, shape (dimensions, R).
    difficulty : of each task, logits, shape (T,).
    hashes : version_hash by task id, where the tasks table has one.
    """

    g: Grid
    level: Array
    difficulty: Array
    hashes: Mapping[str, str]

    @cached_property
    def scored(self) -> Mask:
        """Tasks that any row has a score on, shape (T,)."""
        return np.asarray(self.g.scored.any(axis=0))

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each task lies."""
        return {t: i for i, t in enumerate(self.g.tasks["task_id"])}

    def tasks(self, dimension: str) -> slice:
        """The tasks of a dimension; none where the round does not have it."""
        g = self.g
        return g.slices[g.dimensions.index(dimension)] if dimension in g.dimensions else slice(0, 0)

    def ability(self, dimension: str) -> Array:
        """What each row can do in a dimension, shape (R,)."""
        return self.level[self.g.dimensions.index(dimension)]

    def expected(self, dimension: str, ability: Array) -> Array:
        """Score that abilities, shape (..., rows), are expected to have on the tasks that rows solve alone."""
        tasks = self.tasks(dimension)
        share = self.g.scored[:, tasks].mean(axis=0)
        return expit(ability[..., None] - self.difficulty[tasks]) @ share / share.sum()


def _round(data: Any, scope: Mapping[str, Any], which: str) -> _Round:
    try:
        g = grid(data, **scope)
        g.need_known_tasks("equate")
    except TableError as e:
        raise TableError(f"{which} round: {e}") from None
    there = ~np.isnan(g.by_seed) & g.scored[:, :, None]
    runs = there.sum(axis=2).astype(float)
    passes = np.where(there, g.by_seed, 0.0).sum(axis=2)
    widths = Widths(deviation=SD_DEVIATION, task=SD_DIFFICULTY, mean=SD_MEAN, ability=SD_LEVEL)
    found = fit(Trials(passes, runs, g.slices), widths)
    return _Round(g, found.level, found.difficulty, _hashes(data, g))


def _hashes(data: Any, g: Grid) -> dict[str, str]:
    table = getattr(data, "tasks", None)
    if not isinstance(table, pl.LazyFrame | pl.DataFrame):
        return {}
    lazy = table.lazy()
    if "version_hash" not in lazy.collect_schema().names():
        return {}
    found = lazy.select("task_id", "version_hash").drop_nulls().unique("task_id", keep="first").collect()
    known = set(g.tasks["task_id"])
    return {t: h for t, h in found.rows() if t in known}


# -- what both have ---------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """A task of both rounds: its places, its dimension in the old one, and what it is."""

    old: int
    new: int
    dimension: str
    what: str


def _pairs(one: _Round, two: _Round, asked: Sequence[str] | None) -> list[_Pair]:
    """The tasks of both rounds in the order of the old one."""
    if asked is not None and (unknown := [t for t in asked if t not in one.place]):
        raise TableError(f"anchors: no task {unknown[0]!r} in the old round.{nearest(str(unknown[0]), [*one.place])}")
    renamed = _renamed(one, two)
    wanted = None if asked is None else set(asked)
    out = []
    for task, i in one.place.items():
        j = two.place.get(task, renamed.get(task))
        if j is None:
            continue
        dimension = one.g.tasks["dimension"][i]
        hashes = one.hashes.get(task), two.hashes.get(two.g.tasks["task_id"][j])
        if None not in hashes and hashes[0] != hashes[1]:
            what = CHANGED
        elif two.g.tasks["dimension"][j] != dimension:
            what = OTHER_DIMENSION
        elif not one.scored[i] or not two.scored[j]:
            what = _UNSCORED[int(bool(one.scored[i]))]
        else:
            what = ANCHOR if wanted is None or task in wanted else NOT_ASKED
        out.append(_Pair(i, j, dimension, what))
    return out


def _renamed(one: _Round, two: _Round) -> dict[str, int]:
    """Tasks of the old round that stand in the new one under another id, by a hash that no other task has."""
    of = []
    for each in (one, two):
        tasks: dict[str, list[str]] = {}
        for task, mark in each.hashes.items():
            tasks.setdefault(mark, []).append(task)
        of.append({mark: ids[0] for mark, ids in tasks.items() if len(ids) == 1})
    first, second = of
    return {
        task: two.place[second[mark]]
        for mark, task in first.items()
        if mark in second and task not in two.place and second[mark] not in one.place
    }


@dataclass(frozen=True, eq=False)
class _Bond:
    """What links a dimension.

    Attributes
    ----------
    old, new : places of the anchors in either round: tasks or rows.
    clusters : which unit each came in.
    link : from the new to the old scale; None without one.
    without : the link with each unit left out in turn.
    reason : why there is no link.
    """

    dimension: str
    old: NDArray[np.int64]
    new: NDArray[np.int64]
    clusters: NDArray[np.int64]
    link: Link | None = None
    without: tuple[Link, ...] = ()
    reason: str | None = None

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.clusters))


def _bond(one: _Round, two: _Round, pairs: Sequence[_Pair], dimension: str, through: Through, method: Method) -> _Bond:
    if dimension not in two.g.dimensions:
        none = np.zeros(0, dtype=np.int64)
        return _Bond(dimension, none, none, none, reason="not in the new round")
    if through == "rows":
        return _row_bond(one, two, dimension)
    mine = [p for p in pairs if p.dimension == dimension and p.what == ANCHOR]
    old, new = (np.array([p[k] for p in mine], dtype=np.int64) for k in (0, 1))
    bond = _Bond(dimension, old, new, one.g.clusters[old])
    if len(mine) < LEAST_UNITS:
        return replace(bond, reason=too_few(len(mine), "anchor task"))
    values = one.difficulty[old], two.difficulty[new]
    points = one.ability(dimension), two.ability(dimension)
    found = linking.link(*values, method, points)
    if not np.isfinite(found.slope):
        return replace(bond, reason="all anchors are equally hard, so that mean_sigma has no slope")
    without = linking.leave_out(*values, bond.clusters, method, points) if bond.n_clusters >= LEAST_UNITS else []
    if not all(np.isfinite(w.slope) for w in without):  # the others are equally hard: no error of linking
        without = []
    return replace(bond, link=found, without=tuple(without))


def _row_bond(one: _Round, two: _Round, dimension: str) -> _Bond:
    keys = [{k: i for i, k in enumerate(each.g.rows.select(ROW).rows())} for each in (one, two)]
    there = [np.asarray(each.g.scored[:, each.tasks(dimension)].any(axis=1)) for each in (one, two)]
    both = [(i, keys[1][k]) for k, i in keys[0].items() if k in keys[1] and there[0][i] and there[1][keys[1][k]]]
    old, new = (np.array([b[k] for b in both], dtype=np.int64) for k in (0, 1))
    models = np.unique(one.g.rows["model"].to_numpy()[old].astype(str), return_inverse=True)[1].astype(np.int64)
    bond = _Bond(dimension, old, new, models)
    if bond.n_clusters < LEAST_UNITS:
        return replace(bond, reason=f"{too_few(bond.n_clusters, 'model')} in both rounds")
    values = one.ability(dimension)[old], two.ability(dimension)[new]
    without = linking.leave_out(*values, models, "mean_mean")
    return replace(bond, link=linking.link(*values, "mean_mean"), without=tuple(without))


def _nothing(one: _Round, two: _Round, pairs: Sequence[_Pair], through: Through) -> str:
    """Why the rounds cannot be linked, in one line."""
    rows = set(one.g.rows.select(ROW).rows()) & set(two.g.rows.select(ROW).rows())
    models = len({key[0] for key in rows})
    common = f"{models} model{'s' * (models != 1)} of both rounds" if models else "no row in common"
    if through == "rows":
        return (
            f"equate: the rounds have {common}, and a dimension takes {LEAST_UNITS}; run more of the old models on the "
            "new tasks, or link through='tasks'"
        )
    n = sum(p.what == ANCHOR for p in pairs)
    lost = {what: sum(p.what == what for p in pairs) for what in dict.fromkeys(p.what for p in pairs) if what != ANCHOR}
    others = f" ({'; '.join(f'{k} {what}' for what, k in lost.items())})" if lost else ""
    hint = "through='rows' would link by them" if models >= LEAST_UNITS else "so rows cannot link them either"
    return (
        f"equate: no dimension has {LEAST_UNITS} anchor tasks; the rounds have {n} in all{others}, and {common}: {hint}"
    )


# -- scores -----------------------------------------------------------------------------------------------

_KEYS = {"row": pl.String, "model": pl.String, "effort": pl.String, "arm": pl.String}
_SCORES: dict[str, Any] = {
    **dict.fromkeys(("new_pct", "adjustment_points", "equated_pct", "lo_pct", "hi_pct"), pl.Float64),
    **intervals.EXTRA,
    **dict.fromkeys(("link_error_points", "old_pct"), pl.Float64),
    "reason": pl.String,
}


class _Moved(NamedTuple):
    """What a row's score gains on the old tasks (fractions), its variance through linking, and degrees of freedom."""

    gain: float
    variance: float | None
    df: float


def _scores(
    one: _Round, two: _Round, bonds: Sequence[_Bond], through: Through, ci_level: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    g = two.g
    points, raw = g.points(), intervals.by_dimension(g, ci_level=ci_level)
    old_points = _old_points(one, two)
    moved = [_gains(one, two, bond) for bond in bonds]
    lines, parts = [], []
    for r, key in enumerate(g.rows.select("row", *ROW).iter_rows(named=True)):
        of = []
        for k, bond in enumerate(bonds):
            d = g.dimensions.index(bond.dimension) if bond.dimension in g.dimensions else None
            score = np.nan if d is None else float(points[r, d])
            reason = bond.reason or (None if np.isfinite(score) else "no scored task")
            bounds = Bounds() if d is None or reason else raw[r][d]
            gains = moved[k]
            move = None if reason or gains is None else _moved(gains[0], gains[1], r, bond.n_clusters)
            of.append(_line(score, bounds, move, ci_level, reason, old_points[r, k]))
            parts.append(key | {"dimension": bond.dimension} | of[-1])
        lines.append(key | _overall(two, r, bonds, of, moved, old_points[r], through, ci_level))
    table = pl.DataFrame(lines, schema=_KEYS | _SCORES)
    table = table.sort("equated_pct", "row", descending=[True, False], nulls_last=[True, False])
    return table, pl.DataFrame(parts, schema=_KEYS | {"dimension": pl.String} | _SCORES)


def _gains(one: _Round, two: _Round, bond: _Bond) -> tuple[Array, Array] | None:
    """What each row gains, shape (R,), and with each unit of the link left out, shape (units, R)."""
    if bond.link is None:
        return None
    ability = two.ability(bond.dimension)
    here = two.expected(bond.dimension, ability)
    gain = one.expected(bond.dimension, bond.link.to_old(ability)) - here
    if not bond.without:
        return gain, np.zeros((0, len(ability)))
    return gain, one.expected(bond.dimension, np.stack([w.to_old(ability) for w in bond.without])) - here


def _moved(gain: Array, without: Array, r: int, units: int) -> _Moved:
    if not len(without):
        return _Moved(float(gain[r]), None, 1.0)
    return _Moved(float(gain[r]), float(linking.jackknife_variance(without[:, r])), max(1.0, units - 1.0))


def _line(
    score: float, raw: Bounds, move: _Moved | None, ci_level: float, reason: str | None, old: float
) -> dict[str, Any]:
    """The cells of one equated score; `score` and `old` are fractions, NaN where there is none."""
    both = {"new_pct": intervals.percent(score), "old_pct": intervals.percent(old)}
    line = dict.fromkeys(_SCORES) | both | {"reason": reason}
    if move is None:
        return line
    equated = float(np.clip(score + move.gain, 0.0, 1.0))
    line |= {"equated_pct": 100 * equated, "adjustment_points": 100 * (equated - score)}
    line |= {"n_clusters": raw.n_clusters}
    if move.variance is not None:
        line["link_error_points"] = 100 * float(np.sqrt(move.variance))
    if raw.reason or raw.lo is None or raw.hi is None:
        return line | {"no_interval": raw.reason}
    if move.variance is None:
        return line | {"no_interval": f"too few independent anchors for the error of linking (at least {LEAST_UNITS})"}
    half = t_quantile(0.5 + ci_level / 2, move.df) * float(np.sqrt(move.variance))
    parts = [two_means.Part(score, raw.lo, raw.hi), two_means.Part(move.gain, move.gain - half, move.gain + half)]
    _, lo, hi = two_means.together(parts)
    lo, hi = max(0.0, lo), min(1.0, hi)
    if hi - lo < 1e-9:
        return line | {"no_interval": "the adjusted score lies beyond the ends of the scale"}
    return line | {"lo_pct": 100 * lo, "hi_pct": 100 * hi}


def _overall(
    two: _Round,
    r: int,
    bonds: Sequence[_Bond],
    of: Sequence[Mapping[str, Any]],
    moved: Sequence[tuple[Array, Array] | None],
    old: Array,
    through: Through,
    ci_level: float,
) -> dict[str, Any]:
    """The overall line of a row from those of its dimensions."""
    g = two.g
    scores = [line["new_pct"] for line in of]
    score = np.nan if None in scores else float(np.mean(scores)) / 100
    before = float(np.mean(old))
    for bond, line in zip(bonds, of, strict=True):
        if line["reason"]:
            reason = f"{line['reason']} in {bond.dimension.replace('_', ' ')}"
            return _line(score, Bounds(), None, ci_level, reason, before)
    used = g.scored[r] & np.isin(g.dimension_of, [g.dimensions.index(b.dimension) for b in bonds])
    raw = intervals.mean(g, g.values[r], used, ci_level=ci_level)
    gain = float(np.mean([line["equated_pct"] for line in of])) / 100 - score
    variance, df = _overall_variance(bonds, moved, r, through)
    return _line(score, raw, _Moved(gain, variance, df), ci_level, None, before)


def _overall_variance(
    bonds: Sequence[_Bond], moved: Sequence[tuple[Array, Array] | None], r: int, through: Through
) -> tuple[float | None, float]:
    """Variance of the mean gain: dimensions are linked by tasks of their own, or all by the same rows."""
    draws = [m[1][:, r] for m in moved if m is not None]
    if any(not len(d) for d in draws):
        return None, 1.0
    n = len(draws)
    if through == "rows" and len({len(d) for d in draws}) == 1:
        return float(linking.jackknife_variance(np.mean(draws, axis=0))), len(draws[0]) - 1.0
    variances = np.array([linking.jackknife_variance(d) for d in draws]) / n**2
    if through == "rows":  # not the same rows in every dimension: as if they hung together entirely
        return float(np.sqrt(variances).sum() ** 2), min(len(d) for d in draws) - 1.0
    degrees = np.array([b.n_clusters - 1.0 for b in bonds])
    total = float(variances.sum())
    if total < _NOTHING:
        return total, float(degrees.sum())
    return total, max(1.0, float(total**2 / (variances**2 / degrees).sum()))


def _old_points(one: _Round, two: _Round) -> Array:
    """What each row of the new round scored in the old one, shape (R, dimensions of the old); NaN where it was not."""
    points = one.g.points()
    at = {key: i for i, key in enumerate(one.g.rows.select(ROW).rows())}
    out = np.full((two.g.rows.height, len(one.g.dimensions)), np.nan)
    for r, key in enumerate(two.g.rows.select(ROW).rows()):
        if key in at:
            out[r] = points[at[key]]
    return out


# -- what the link rests on -------------------------------------------------------------------------------

_ANCHORS: dict[str, Any] = {
    **dict.fromkeys(("task_id", "new_task_id", "dimension", "what"), pl.String),
    **dict.fromkeys(("old_difficulty", "new_difficulty", "linked_difficulty", "residual", "robust_z"), pl.Float64),
    "drifting": pl.Boolean,
}


def _anchor_table(
    one: _Round, two: _Round, pairs: Sequence[_Pair], bonds: Sequence[_Bond], drifting_z: float
) -> pl.DataFrame:
    """Every task of both rounds; residuals of all dimensions are judged together."""
    links = {bond.dimension: bond.link for bond in bonds}
    lines = []
    for p in pairs:
        line = dict.fromkeys(_ANCHORS) | {
            "task_id": one.g.tasks["task_id"][p.old],
            "new_task_id": two.g.tasks["task_id"][p.new],
            "dimension": p.dimension,
            "what": p.what,
        }
        if p.what in (ANCHOR, NOT_ASKED):
            hard = float(one.difficulty[p.old]), float(two.difficulty[p.new])
            line |= {"old_difficulty": hard[0], "new_difficulty": hard[1]}
            if (found := links[p.dimension]) is not None:
                linked = found.slope * hard[1] + found.shift
                line |= {"linked_difficulty": linked, "residual": linked - hard[0]}
        lines.append(line)
    judged = [i for i, line in enumerate(lines) if line["what"] == ANCHOR and line["residual"] is not None]
    z = linking.robust_z(np.array([lines[i]["residual"] for i in judged])) if len(judged) >= LEAST_UNITS else None
    if z is not None:
        for i, value in zip(judged, z, strict=True):
            lines[i] |= {"robust_z": float(value), "drifting": bool(abs(value) >= drifting_z)}
    return pl.DataFrame(lines, schema=_ANCHORS)


_LINKING: dict[str, Any] = {
    "dimension": pl.String,
    "n_anchors": pl.Int64,
    **dict.fromkeys(("slope", "shift_logits", "se_logits", "lo_logits", "hi_logits"), pl.Float64),
    **intervals.EXTRA,
    **dict.fromkeys(("shift_without_drifting_logits", "correlation", "sd_ratio"), pl.Float64),
    "reason": pl.String,
}


def _linking_table(
    one: _Round,
    two: _Round,
    bonds: Sequence[_Bond],
    told: pl.DataFrame,
    through: Through,
    method: Method,
    ci_level: float,
) -> pl.DataFrame:
    drifting = {one.place[t] for t in told.filter(pl.col("drifting"))["task_id"]}
    lines = []
    for bond in bonds:
        line = dict.fromkeys(_LINKING) | {"dimension": bond.dimension, "n_anchors": len(bond.old)}
        line |= {"n_clusters": bond.n_clusters, "reason": bond.reason}
        if bond.link is not None:
            line |= {"slope": bond.link.slope, "shift_logits": bond.link.shift}
            line |= _shift_interval(bond, ci_level)
            values = _values(one, two, bond, through)
            line |= _alike(*values)
            kept = ~np.isin(bond.old, [*drifting])
            if through == "tasks" and not kept.all() and kept.sum() >= LEAST_UNITS:
                points = one.ability(bond.dimension), two.ability(bond.dimension)
                again = linking.link(values[0][kept], values[1][kept], method, points)
                line["shift_without_drifting_logits"] = again.shift
        lines.append(line)
    return pl.DataFrame(lines, schema=_LINKING)


def _values(one: _Round, two: _Round, bond: _Bond, through: Through) -> tuple[Array, Array]:
    """What is linked: difficulties of tasks, or abilities of rows."""
    if through == "rows":
        return one.ability(bond.dimension)[bond.old], two.ability(bond.dimension)[bond.new]
    return one.difficulty[bond.old], two.difficulty[bond.new]


def _shift_interval(bond: _Bond, ci_level: float) -> dict[str, Any]:
    if not bond.without or bond.link is None:
        return {"no_interval": too_few(bond.n_clusters, "independent anchor")}
    se = float(np.sqrt(linking.jackknife_variance(np.array([w.shift for w in bond.without]))))
    if se < _NOTHING:
        return {"se_logits": se, "no_interval": NO_SPREAD}
    half = t_quantile(0.5 + ci_level / 2, bond.n_clusters - 1) * se
    return {"se_logits": se, "lo_logits": bond.link.shift - half, "hi_logits": bond.link.shift + half}


def _alike(old: Array, new: Array) -> dict[str, float | None]:
    """Correlation and ratio of standard deviations; None where one does not vary."""
    if min(np.ptp(old), np.ptp(new)) < 1e-9:
        return {"correlation": None, "sd_ratio": None}
    return {"correlation": float(np.corrcoef(old, new)[0, 1]), "sd_ratio": float(new.std() / old.std())}


def _methods_table(one: _Round, two: _Round, bonds: Sequence[_Bond], through: Through) -> pl.DataFrame:
    lines = []
    for bond in bonds:
        if bond.link is None:
            continue
        values = _values(one, two, bond, through)
        points = one.ability(bond.dimension), two.ability(bond.dimension)
        asked: Sequence[Method] = linking.METHODS if through == "tasks" else ("mean_mean",)
        for method in asked:
            found = linking.link(*values, method, points)
            slope, shift = (v if np.isfinite(v) else None for v in found)
            lines.append((bond.dimension, method, slope, shift))
    kinds = {"dimension": pl.String, "method": pl.String, "slope": pl.Float64, "shift_logits": pl.Float64}
    return pl.DataFrame(lines, schema=kinds, orient="row")


def _remarks(one: _Round, two: _Round, lines: pl.DataFrame, told: pl.DataFrame, through: Through) -> tuple[str, ...]:
    out = [*one.g.notes, *(n for n in two.g.notes if n not in one.g.notes)]
    lost = lines.filter(pl.col("reason").is_not_null())
    if lost.height:
        words = "; ".join(f"{d.replace('_', ' ')}: {why}" for d, why in lost.select("dimension", "reason").iter_rows())
        out.append(f"Not linked: {words}.")
    if more := [d.replace("_", " ") for d in two.g.dimensions if d not in one.g.dimensions]:
        out.append(f"Not in the old round, so not equated: {', '.join(more)}.")
    if through == "rows":
        out.append("Linked through rows: what such a row has gained or lost since then is taken for the tasks' doing.")
        return tuple(out)
    n = told.filter(pl.col("what") == ANCHOR).height
    drifting = told.filter(pl.col("drifting"))
    if drifting.height:
        out.append(
            f"Anchors that have drifted: {drifting.height} of {n} ({_named(drifting['task_id'].to_list())}); "
            ".linking has the shift without them."
        )
    for what in (CHANGED, OTHER_DIMENSION, *_UNSCORED):
        if (some := told.filter(pl.col("what") == what)).height:
            out.append(f"No anchors, {what}: {_named(some['task_id'].to_list())}.")
    return tuple(out)
