"""How conflicts end and what goes with it, and how the dimensions of teamwork go together.

May import `cilab.core` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, choice, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed, texts
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, number
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups
from cilab.stats.teamwork.task_runs import TaskResult

CONFLICT = "handling_conflict"
#: What each ending scores (collaborative-intelligence paper, section 2.3).
BEST, FIRM, GAVE_IN = 1.0, 0.5, 0.0

#: Said where scores are rebuilt from counts of passes, which are 1 and 0 only.
UNTOLD = "These data do not tell holding firm without the best deal from giving in."

_UNLABELLED = "{:,} of {:,} conflict runs have no label: left out of who asks, not taken for a no."
_SHARES = ("best", "held_firm", "gave_in", "no_deal", "asks")
_JOINT = ("joint", "joint_gave_in", "joint_held_firm", "joint_none_as_0")


@dataclass(frozen=True, kw_only=True, repr=False)
class Conflict(TaskResult):
    """Endings of conflicts, and how they go with the other dimensions.

    Attributes
    ----------
    table : see `conflict`.
    groups : the same shares pooled over all rows and over each group, with intervals: `group` (null: all), `quantity,
        n, n_of, share_pct, lo_pct, hi_pct`; `n` is a number of runs, or a sum of joint shares.
    correlations : `quantity, against, n_rows, r, lo, hi` (tasks resampled), `lo_models, hi_models` (Fisher's z), `p,
        n_empty_resamples, undefined`, over rows, and the least-squares line of the quantity on `against`, both in
        percent: `intercept_pct, slope` (null where r is).
    """

    groups: pl.DataFrame
    correlations: pl.DataFrame

    figure: ClassVar[str | None] = "conflict"
    title: ClassVar[str] = "How conflicts end"

    def sheet(self) -> Sheet:
        """One line per model, as the paper's table 8."""
        columns = {
            "conflict_pct": "Conflict",
            "best_pct": "Best deal (%)",
            "held_firm_pct": "Held firm",
            "gave_in_pct": "Gave in",
            "no_deal_pct": "No deal",
            "asks_pct": "Asks",
            "joint_pct": "Joint points",
            "others_pct": "Other dimensions",
        }
        return self.on_sheet(self._shown(columns, self.table["model"].alias("Row")))

    def paper_sheet(self) -> Sheet:
        """How conflicts end, and joint points: table 8 of the collaborative-intelligence paper."""
        columns = {
            "conflict_pct": "Conflict",
            "best_pct": "Best deal",
            "held_firm_pct": "Held firm",
            "gave_in_pct": "Gave in",
            "no_deal_pct": "No deal",
            "joint_pct": "Joint points",
            "joint_gave_in_pct": "After giving in",
        }
        return self.on_sheet(self._shown(columns, pl.Series("Model", names_of(self.table))), "How conflicts end (%)")

    def _shown(self, columns: Mapping[str, str], names: pl.Series) -> pl.DataFrame:
        """One column per name that has a number."""
        found = [
            pl.col(c).map_elements(number, return_dtype=pl.String).alias(n)
            for c, n in columns.items()
            if self.table[c].null_count() < self.table.height
        ]
        return self.table.select(names, *found).fill_null("")


@estimator
def conflict(
    study: Any,
    *,
    version: str = "test",
    asks_labels: Annotated[Sequence[str], texts("labels")] = ("asks_needs",),
    labels: Any = None,
    rater: str | None = "final",
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Conflict:
    """How each model's conflict runs end, the joint points of the deals, and each share against the other dimensions.

    A run that scores 1 reached the best deal, 0.5 held firm without it, 0 gave in. Joint points are those of the final
    deal as a share of the task's best, over the runs that end with a deal. Rows at each model's default setting.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    version : `test` (a teammate who pushes) or `baseline` (a normal one); the other dimensions' mean is of the tests.
    asks_labels : labels of a message that asks what the teammate needs.
    labels, rater, groups, resamples, seed, ci_level : as in `cilab.stats.teamwork.failures.failures`.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Conflict
        `.table`, best overall score first: `model, effort, arm, others_pct` (mean of the other dimension scores),
        `conflict_pct, best_pct, held_firm_pct, gave_in_pct` (the last two null where the data do not tell them apart),
        `no_deal_pct` (null where it is not known how runs ended), `asks_pct` (of the runs with labels), `joint_pct,
        joint_gave_in_pct, joint_held_firm_pct, joint_none_as_0_pct` (a run without a deal counts as 0), `n_runs,
        n_deals`; each share also with `_lo_pct, _hi_pct` in place of `_pct`.

    Raises
    ------
    TableError
        There are no conflict runs, or a score is none of 0, 0.5 and 1; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, sections 4.2, F.1 and F.2, figure 19, table 8.
    """
    choice("version", version, ("test", "baseline"))
    if not all(isinstance(label, str) for label in asks_labels):
        raise TableError(f"asks_labels is {asks_labels!r}; give a list of labels, such as ['asks_needs']")
    asks_labels = list(asks_labels)
    whole = grid(study, **scope)
    if CONFLICT not in whole.dimensions:
        raise TableError(f"runs: no task of {CONFLICT}; there is no conflict to look at")
    g = task_runs.default_grid(whole)
    runs = _conflict_runs(study, g, version, asks_labels, labels, rater)
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    sums = _sums(g, runs)
    others, others_draws = _others(g, how.counts)
    known = {name: task_runs.shares_by_row(*pair, how.counts) for name, pair in sums.items()}
    order = np.argsort(-np.nan_to_num(bootstrap.overall_means(g.points()), nan=-1.0), kind="stable")
    n_unlabelled = runs["asks"].null_count()
    asked = n_unlabelled < runs.height
    here = int(g.runs["used"].sum())
    return Conflict(
        table=_table(how, others, sums)[order.tolist()],
        groups=_pooled(study, how, sums, groups),
        correlations=_correlations(how, known, others, others_draws, asked),
        resamples=resamples,
        seed=seed,
        remarks=whole.notes
        + (() if _endings_told(runs) else (UNTOLD,))
        + (() if asked else ("No labels in these data: who asks about needs is not known.",))
        + ((_UNLABELLED.format(n_unlabelled, runs.height),) if asked and n_unlabelled else ()),
        n_used=runs.height,
        n_left_out=task_runs.left_out(
            whole,
            runs.height,
            {
                "that are no conflict run of this version": here - runs.height,
                task_runs.OTHER_ROWS: whole.n_used - here,
            },
        ),
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Shares of conflict runs ({version}) in percent; joint points in percent of the best deal, over the runs "
            "that end with one; the mean test score of the other dimensions."
        ),
    )


def _conflict_runs(
    study: Any, g: Grid, version: str, asks_labels: Sequence[str], labels: Any, rater: str | None
) -> pl.DataFrame:
    runs = task_runs.used_runs(study, g, ("ended", "joint_share"), version).filter(pl.col("dimension") == CONFLICT)
    if runs.height == 0:
        raise TableError(f"runs: no scored {version} run of {CONFLICT} on a task solved alone")
    strange = runs.filter(~pl.col("score").is_in([BEST, FIRM, GAVE_IN]))
    if strange.height:
        raise TableError(f"runs: a conflict run scores {strange['score'][0]:g}; endings score 1, 0.5 or 0")
    runs = runs.with_columns(
        pl.col("joint_share").cast(pl.Float64),
        no_deal=pl.col("ended").cast(pl.String) == "no_deal",
    )
    found = task_runs.study_labels(study, labels, rater)
    if found is None:
        return runs.with_columns(asks=pl.lit(None, dtype=pl.Boolean))
    known = found.join(runs.select("run_id"), on="run_id", how="semi")
    asked = known.filter(pl.col("label").is_in(asks_labels))["run_id"].unique()
    if known.height and not len(asked):
        there = sorted(known["label"].drop_nulls().unique().to_list())
        hint = nearest(asks_labels[0], there) if asks_labels else ""
        raise TableError(f"labels: no message of a conflict has {' or '.join(asks_labels)}.{hint} Known: {there}")
    # Of a run without a label it is not known, unless the model said nothing.
    heard = known["run_id"].unique()
    heard = [*heard, *task_runs.silent(study, runs.filter(~pl.col("run_id").is_in(heard.implode()))["run_id"])]  # type: ignore[assignment]
    return runs.with_columns(asks=pl.when(pl.col("run_id").is_in(heard)).then(pl.col("run_id").is_in(asked.to_list())))


def _endings_told(runs: pl.DataFrame) -> bool:
    """Whether the data tell holding firm from giving in; scores rebuilt from counts of passes are 1 and 0 only."""
    return bool((runs["score"] == FIRM).any()) or runs["joint_share"].null_count() < runs.height


def _sums(g: Grid, runs: pl.DataFrame) -> dict[str, tuple[Array, Array]]:
    """quantity -> (sum above, sum below) per row and task."""
    n = task_runs.counted(g, runs)
    told = n if _endings_told(runs) else np.zeros_like(n)
    ending = {"best": (BEST, n), "held_firm": (FIRM, told), "gave_in": (GAVE_IN, told)}
    out = {
        name: (np.where(of > 0, task_runs.counted(g, runs, runs["score"] == value), 0), of)
        for name, (value, of) in ending.items()
    }
    out["conflict"] = (task_runs.summed(g, runs, runs["score"]), n)
    ended = runs.filter(pl.col("no_deal").is_not_null())
    out["no_deal"] = (task_runs.counted(g, ended, ended["no_deal"]), task_runs.counted(g, ended))
    asked = runs.filter(pl.col("asks").is_not_null())
    out["asks"] = (task_runs.counted(g, asked, asked["asks"]), task_runs.counted(g, asked))
    deals = runs.filter(pl.col("joint_share").is_not_null())
    for name, kept in (
        ("joint", deals),
        ("joint_gave_in", deals.filter(pl.col("score") == GAVE_IN)),
        ("joint_held_firm", deals.filter(pl.col("score") == FIRM)),
    ):
        out[name] = (task_runs.summed(g, kept, kept["joint_share"]), task_runs.counted(g, kept))
    known = runs.filter(pl.col("joint_share").is_not_null() | pl.col("no_deal").fill_null(False))
    joint_or_0 = known["joint_share"].fill_null(0.0)
    out["joint_none_as_0"] = (task_runs.summed(g, known, joint_or_0), task_runs.counted(g, known))
    return out


def _others(g: Grid, counts: Array) -> tuple[Array, Array]:
    """Mean of the test scores of all dimensions but conflict, and its replicates; NaN where there are none."""
    points, draws = task_runs.score_draws(g, counts)
    kept = [d for d, name in enumerate(g.dimensions) if name != CONFLICT]
    if not kept:
        return np.full(g.rows.height, np.nan), np.full((len(counts), g.rows.height), np.nan)
    return bootstrap.overall_means(points[:, kept]), draws[kept].mean(axis=0)


def _table(how: task_runs.Resampled, others: Array, sums: Mapping[str, tuple[Array, Array]]) -> pl.DataFrame:
    g = how.g
    columns = [pl.Series("others_pct", 100 * others, dtype=pl.Float64).fill_nan(None)]
    for name in ("conflict", *_SHARES, *_JOINT):
        lines = [share.percent(f"{name}_") for share in task_runs.shares(*sums[name], how)]
        for column in ("share_pct", "lo_pct", "hi_pct"):
            values = [line[f"{name}_{column}"] for line in lines]
            columns.append(pl.Series(f"{name}_{column}".replace("_share_pct", "_pct"), values, dtype=pl.Float64))
        if name == "conflict":
            extra = intervals.EXTRA.items()
            columns += [pl.Series(c, [x[f"conflict_{c}"] for x in lines], dtype=kind) for c, kind in extra]
    n_runs, n_deals = sums["best"][1].sum(axis=1), sums["joint"][1].sum(axis=1)
    return g.rows.select(ROW).with_columns(
        *columns,
        pl.Series("n_runs", n_runs, dtype=pl.Int64),
        pl.Series("n_deals", n_deals, dtype=pl.Int64),
    )


def _pooled(
    study: Any,
    how: task_runs.Resampled,
    sums: Mapping[str, tuple[Array, Array]],
    groups: Mapping[str, Any] | pl.DataFrame | None,
) -> pl.DataFrame:
    g, lines = how.g, []
    for group, rows in [(None, list(range(g.rows.height))), *task_runs.groups_of(study, g, groups).items()]:
        for name, (above, below) in sums.items():
            a, b = above[rows].sum(axis=0), below[rows].sum(axis=0)
            line = {"group": group, "quantity": name, "n": float(a.sum()), "n_of": int(b.sum())}
            found = task_runs.share(a, b, how).percent()
            if g.unknown_tasks and len(rows) > 1:  # a pooled share pairs rows by task
                found |= {"lo_pct": None, "hi_pct": None, "no_interval": intervals.UNPAIRED}
            lines.append(line | found)
    return intervals.table(lines)


def _correlations(
    how: task_runs.Resampled,
    known: Mapping[str, tuple[Array, Array]],
    others: Array,
    others_draws: Array,
    asked: bool,
) -> pl.DataFrame:
    pairs = [(name, "other dimensions", others, others_draws) for name in ("conflict", *_SHARES, "joint")]
    pairs.append(("joint_none_as_0", "conflict", *known["conflict"]))
    lines = []
    for name, against, y, draws in pairs:
        if name == "asks" and not asked:
            continue
        x, there = known[name][0], np.isfinite(known[name][0]) & np.isfinite(y)
        found = task_runs.correlation(x, y, task_runs.paired(how.g, known[name][1]), draws, how)
        line = (None, None) if found["r"] is None else task_runs.least_squares(100 * y[there], 100 * x[there])
        found |= {"intercept_pct": line[0], "slope": line[1]}
        lines.append({"quantity": name, "against": against} | found)
    schema = {"quantity": pl.String, "against": pl.String} | task_runs.CORRELATION_SCHEMA
    return pl.DataFrame(lines, schema=schema | {"intercept_pct": pl.Float64, "slope": pl.Float64}, orient="row")


# -- how dimensions go together -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class DimensionCorrelations(TaskResult):
    """Correlations of dimension scores over models.

    Attributes
    ----------
    table : see `dimension_correlations`.
    against_rest : each dimension against the mean of the others: `dimension, n_rows, r, lo, hi, lo_models, hi_models,
        p, n_empty_resamples, undefined`.
    components : principal components of the correlation matrix, `component, variance_pct, lo_pct, hi_pct`.
    loadings : `dimension`, and its correlation `loading` with the first component, whose sign is such that the
        loadings sum to a positive number.
    rows : names of the rows that have a score in every dimension; the others are left out.
    """

    against_rest: pl.DataFrame
    components: pl.DataFrame
    loadings: pl.DataFrame
    rows: tuple[str, ...]

    figure: ClassVar[str | None] = "dimension_correlations"
    title: ClassVar[str] = "Correlations of dimension scores"

    def sheet(self) -> Sheet:
        """The matrix, r to two places."""
        names = self.loadings["dimension"].to_list()
        r = {(a, b): v for a, b, v in self.table.select("dimension", "other", "r").iter_rows()}
        lines = []
        for a in names:
            line = {"Dimension": a.replace("_", " ")}
            for b in names:
                line[b.replace("_", " ")] = "1" if a == b else number(r.get((a, b), r.get((b, a))), 2, NONE)
            lines.append(line)
        return self.on_sheet(lines)


@estimator
def dimension_correlations(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> DimensionCorrelations:
    """Pearson correlation of every pair of dimension scores over models, and what one component explains.

    Rows at each model's default setting that have a score in every dimension. Intervals `lo, hi` resample tasks within
    dimension, the same for every row; those that end in `_models` are Fisher's z. Resampled tasks add noise to scores
    whose correlation is high already, so `lo, hi` (and those of the components) lie low and may leave the point out.

    Returns
    -------
    DimensionCorrelations
        `.table`: every pair once, `dimension, other, n_rows, r, lo, hi, lo_models, hi_models, p, n_empty_resamples,
        undefined`.

    Raises
    ------
    TableError
        Fewer than two dimensions or fewer than three rows have scores, or a dimension's score is the same for every
        row (a correlation with it does not exist).

    References
    ----------
    Collaborative-intelligence paper, section F.1, figure 19a.
    """
    whole = grid(study, **scope)
    g = task_runs.default_grid(whole)
    points = g.points()
    complete = np.flatnonzero(np.isfinite(points).all(axis=1)).tolist()
    if len(g.dimensions) < 2 or len(complete) < 3:
        raise TableError(
            f"correlations of dimensions need two dimensions and three rows with a score in each; these runs have "
            f"{len(g.dimensions)} and {len(complete)}"
        )
    g = g.take(complete)
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    points, draws = task_runs.score_draws(g, how.counts)
    flat = [name for name, spread in zip(g.dimensions, np.ptp(points, axis=0), strict=True) if spread < 1e-12]
    if flat:
        raise TableError(f"{flat[0]}: every row has the same score, so a correlation with it does not exist")
    here = int(g.runs["used"].sum())
    tests = int((g.runs["used"] & (g.runs["version"] == g.version)).sum())
    share, share_draws, loadings = _components(points, draws)
    bounds = [Bounds(reason=intervals.UNPAIRED) if g.unknown_tasks else how.bounds(d) for d in share_draws.T]
    return DimensionCorrelations(
        table=_pairs(how, points, draws),
        against_rest=_against_rest(how, points, draws),
        components=pl.DataFrame({"component": range(1, len(share) + 1), "variance_pct": 100 * share}).with_columns(
            intervals.columns(bounds)
        ),
        loadings=pl.DataFrame({"dimension": g.dimensions, "loading": loadings}),
        rows=tuple(g.names),
        resamples=resamples,
        seed=seed,
        remarks=whole.notes,
        n_used=tests,
        n_left_out=task_runs.left_out(
            whole,
            tests,
            {
                "of other versions": here - tests,
                "of rows left out (not at default, or without a score)": whole.n_used - here,
            },
        ),
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Pearson's r of dimension scores over {len(complete)} models.",
    )


def _pairs(how: task_runs.Resampled, points: Array, draws: Array) -> pl.DataFrame:
    g = how.g
    lines = [
        {"dimension": g.dimensions[i], "other": g.dimensions[j]}
        | task_runs.correlation(points[:, i], points[:, j], task_runs.paired(g, draws[i]), draws[j], how)
        for i in range(len(g.dimensions))
        for j in range(i + 1, len(g.dimensions))
    ]
    return pl.DataFrame(
        lines, schema={"dimension": pl.String, "other": pl.String} | task_runs.CORRELATION_SCHEMA, orient="row"
    )


def _against_rest(how: task_runs.Resampled, points: Array, draws: Array) -> pl.DataFrame:
    g, lines = how.g, []
    for i, name in enumerate(g.dimensions):
        rest = [j for j in range(len(g.dimensions)) if j != i]
        y, y_draws = bootstrap.overall_means(points[:, rest]), draws[rest].mean(axis=0)
        lines.append(
            {"dimension": name} | task_runs.correlation(points[:, i], y, task_runs.paired(g, draws[i]), y_draws, how)
        )
    return pl.DataFrame(lines, schema={"dimension": pl.String} | task_runs.CORRELATION_SCHEMA, orient="row")


def _components(points: Array, draws: Array) -> tuple[Array, Array, Array]:
    """Share of variance of each component (largest first), its replicates, and the first one's loadings."""
    values, vectors = np.linalg.eigh(np.corrcoef(points.T))
    share = values[::-1] / len(values)
    first = vectors[:, -1] * (1 if vectors[:, -1].sum() >= 0 else -1)
    return share, _component_draws(draws), first * np.sqrt(values[-1])


def _component_draws(draws: Array) -> Array:
    """Shares of variance in each resample in which every dimension is defined and varies."""
    x = np.moveaxis(draws, 0, 2)  # resamples, rows, dimensions
    centred = x - x.mean(axis=1, keepdims=True)
    sd = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    ok = (np.isfinite(sd) & (sd > 1e-12)).all(axis=(1, 2))
    z = centred[ok] / sd[ok]
    matrices = np.einsum("brd,bre->bde", z, z) / x.shape[1]
    return np.linalg.eigvalsh(matrices)[:, ::-1] / x.shape[2]
