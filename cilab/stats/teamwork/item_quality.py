"""Tasks as a psychometrician sees them: difficulty, discrimination, fit, dependence, fairness, information.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing. The model is that of
`cilab.stats.methods.two_parameter`, one fit for each dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core import registry
from cilab.core.errors import TableError, choice
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, number
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import two_parameter as irt
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.distributions import average_ranks, normal_two_sided, t_two_sided
from cilab.stats.methods.hypothesis_tests import adjust
from cilab.stats.methods.two_parameter import Prior, TwoParameter
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups, members
from cilab.stats.teamwork.items import CEILING, FLOOR, item_rest, task_means

#: Rows and tasks from which a dimension is fitted; rows from which a task has a discrimination and statistics of fit.
LEAST_ROWS, LEAST_TASKS, LEAST_ROWS_FOR_FIT = 3, 3, 5
#: Tasks from which the pattern of a row is judged, and rows of a group and of the others for differential functioning.
LEAST_TASKS_OF_ROW, LEAST_GROUP = 5, 3
#: Rows in a stratum of ability, about, and strata at most.
ROWS_IN_STRATUM, MOST_STRATA = 4, 20
#: Mean squares outside these do not fit (Bond & Fox), where they are significant too.
MISFIT = (0.7, 1.3)
#: Q3 above its mean by so much is local dependence (Christensen, Makransky & Horton 2017), where it is significant too.
DEPENDENT = 0.2
#: Level of what is flagged, after Benjamini and Hochberg.
FLAG_LEVEL = 0.05
#: Abilities at which information is given, standard deviations of the rows.
ABILITIES = np.linspace(-4, 4, 33)
SIMULATIONS = 200
#: Fits in turn that settle how much repeats agree: how they count changes the fit that they are held against.
_ROUNDS = 3

Method = Literal["logistic", "mantel_haenszel"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ItemQualityResult(Result):
    """What each task measures and how well, which rows are odd.

    Attributes
    ----------
    table : see `item_quality`.
    pairs : two tasks of a dimension a line: `dimension, task_a, task_b, n_rows, q3, q3_adjusted` (less the dimension's
        mean), `p, p_adjusted, dependent`.
    functioning : a task and a group of models a line: `task_id, dimension, group, n_in_group, n_others` (rows),
        `log_odds_ratio, se, ets_delta` (-2.35 times it), `ets_class` (A, B, C), `p, p_adjusted, flagged, no_estimate`.
    rows : `model, effort, arm, n_tasks, lz, p` (one-sided: how often a pattern so odd comes), `p_adjusted, odd,
        no_estimate`.
    abilities : a row and a dimension a line: `ability, ability_se` (standard deviations of the rows), `lz`.
    information : `dimension` (null: all tasks, for a row of the same ability in every dimension), `ability,
        information` (of one run of each task), `se` of an ability from that alone.
    dimensions : `dimension, n_rows, n_tasks, parameters` (2, or 1: one slope for all), `typical_discrimination,
        reliability, mean_q3, no_estimate`.
    summary : `quantity, value`: how many tasks, pairs and rows are flagged, and the correlation of repeats.
    """

    pairs: pl.DataFrame
    functioning: pl.DataFrame
    rows: pl.DataFrame
    abilities: pl.DataFrame
    information: pl.DataFrame
    dimensions: pl.DataFrame
    summary: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "item_quality"
    title: ClassVar[str] = "What each task measures, and how well"

    def value(self, quantity: str) -> float | None:
        """A quantity of `.summary` by name."""
        found = self.summary.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no quantity {quantity!r}; there are {', '.join(self.summary['quantity'])}")
        return found["value"][0]

    def flagged(self) -> pl.DataFrame:
        """The lines of `.table` that have a flag."""
        return self.table.filter(pl.col("flags").is_not_null())

    def sheet(self) -> Sheet:
        """One line per task: estimates with their standard errors, fit, and what is odd about it, in words."""
        lines = [
            {
                "Task": r["task_id"],
                "Dimension": r["dimension"],
                "Rows": str(r["n_rows"]),
                "Mean": number(r["mean_value"], 2, NONE),
                "Difficulty": _with_error(r["difficulty"], r["difficulty_se"]),
                "Discrimination": _with_error(r["discrimination"], r["discrimination_se"]),
                "Rest r": number(r["item_rest_r"], 2, NONE),
                "Infit": number(r["infit"], 2, NONE),
                "Outfit": number(r["outfit"], 2, NONE),
                "Information": number(r["information"], 2, NONE),
                "Remarks": "; ".join(x for x in (r["no_estimate"], r["flags"]) if x),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines, group="Dimension")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


def _with_error(value: float | None, se: float | None) -> str:
    return NONE if value is None else f"{number(value, 2)} (se {number(se, 2, NONE)})"


@estimator
def item_quality(
    study: Any,
    *,
    groups: Groups = None,
    method: Method = "logistic",
    simulations: Resamples = SIMULATIONS,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> ItemQualityResult:
    """Difficulty, discrimination, fit, local dependence, differential functioning and information of every task.

    Each dimension is one scale, fitted by the two-parameter logistic model to the rows that solve the tasks alone. The
    fraction of a cell's seeds that passed enters as a binomial count; half a point is half a pass. Seeds of a cell
    agree more than independent runs would, so they count as fewer: the notes say as how many. Priors keep estimates
    finite (log slopes: standard deviation 0.5 around their mean in the dimension; easiness: 3 logits), so that of few
    rows discriminations lie near the dimension's typical one, and their errors say so.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    groups : of models, for differential functioning, each against all other rows: `{group: [models]}`, `{model:
        group}`, or a frame with `model` and `group`. Default: providers, as the study's models table or the registry
        has them; where none is known, the groups of `cilab.group_means`.
    method : of differential functioning: `logistic` regression at the abilities of the model, or `mantel_haenszel`,
        which needs no model but strata of rows of like ability, and so many more rows.
    simulations, seed : of the data sets from the fitted model that mean squares and Q3 are held against.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; no number here rests on `cluster`.

    Returns
    -------
    ItemQualityResult
        `.table`, one line per task of the plan: `task_id, dimension, n_rows, n_runs, mean_value` (a fraction),
        `difficulty` (the ability at which half pass) and `discrimination` (logits for a standard deviation of ability)
        with `_se`; `item_rest_r`; `infit, infit_t, outfit, outfit_t`; `most_dependent_on, largest_q3_adjusted`;
        `largest_ets_delta, functioning_group`; `information` (of one run, mean over rows); `no_estimate` (why
        something is null, such as "too few: 3 rows"); `flags`, in words, null where nothing is odd.

    Raises
    ------
    TableError
        The tasks are those of a published round (ids beginning with `unknown:`), `groups` names a model that is not
        there; or as in `grid`.

    References
    ----------
    Birnbaum (1968) for the model; Wright & Masters (1982) for infit and outfit; Yen (1984) for Q3; Holland & Thayer
    (1988) for Mantel-Haenszel and the classes of the Educational Testing Service; Snijders (2001) for lz*.
    """
    choice("method", method, ("logistic", "mantel_haenszel"))
    g = grid(study, **scope)
    g.need_known_tasks("item_quality")
    of_model, words = _groups(study, g, groups)
    data = _observed(g)
    scales = [_scale(data, d, simulations, np.random.default_rng([seed, k])) for k, d in enumerate(g.slices)]
    pairs = _pairs(g, scales)
    functioning = _functioning(g, scales, of_model, method)
    abilities = _abilities(g, scales)
    rows = _rows(g, scales)
    table = _table(g, scales, pairs, functioning)
    return ItemQualityResult(
        table=table,
        pairs=pairs,
        functioning=functioning,
        rows=rows,
        abilities=abilities,
        information=_information(g, scales),
        dimensions=_dimensions(g, scales),
        summary=_summary(table, pairs, functioning, rows, data),
        remarks=(*g.notes, *_remarks(data, words)),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked | {"rows": g.rows.height, "ceiling": CEILING, "floor": FLOOR, "misfit": list(MISFIT)},
        caption=(
            f"Over {g.rows.height} rows; rows count on the tasks that they {g.gate_words}. Difficulty and "
            "discrimination by the two-parameter logistic model, one scale per dimension, in standard deviations of "
            "the rows' ability."
        ),
    )


# -- the data as the model reads them ---------------------------------------------------------------------


class _Data(NamedTuple):
    """Passes and runs of each cell, as they count and as they are, shape (R, T); how much repeats agree, 0 to 1."""

    passes: Array
    runs: Array
    n_runs: NDArray[np.int64]
    correlation: float
    repeats: bool


def _observed(g: Grid) -> _Data:
    there = g.scored[:, :, None] & ~np.isnan(g.by_seed)
    scores = np.where(there, g.by_seed, 0.0)
    passes, runs = scores.sum(axis=2), there.sum(axis=2)
    repeats = bool((runs > 1).any())
    # All runs of a cell as one at first: what the model says of a single run is what repeats are held against.
    correlation = 1.0 if repeats else 0.0
    for _ in range(_ROUNDS if repeats else 0):
        p = np.full(passes.shape, 0.5)
        for d in g.slices:
            if (runs[:, d] > 0).any():
                model = irt.fit_two_parameter(*irt.standardised(passes[:, d], runs[:, d], correlation))
                p[:, d] = model.posterior @ model.probability(model.nodes)
        correlation = irt.repeat_correlation(passes, (scores**2).sum(axis=2), runs.astype(float), p)
    return _Data(*irt.standardised(passes, runs.astype(float), correlation), runs, correlation, repeats)


def _remarks(data: _Data, groups: str) -> list[str]:
    out = []
    if data.repeats:
        most = int(data.n_runs.max())
        counts = irt.effective_runs(np.array([float(most)]), data.correlation)[0]
        out.append(
            f"Seeds of one row and task agree beyond what the model expects (correlation {data.correlation:.2f}): "
            f"{most} of them count as {counts:.2f} runs."
        )
    return [*out, groups]


class _Scale(NamedTuple):
    """One dimension: its model, or why there is none; statistics of its tasks, NaN where they are not estimated."""

    tasks: slice
    rows: NDArray[np.int64]
    model: TwoParameter | None
    one_slope: bool
    no_estimate: str | None
    passes: Array
    runs: Array
    squares: irt.MeanSquares | None = None
    dependence: irt.Dependence | None = None
    standardised: irt.Standardised | None = None
    lz: Array | None = None


def _scale(data: _Data, tasks: slice, simulations: int, rng: np.random.Generator) -> _Scale:
    rows = np.flatnonzero((data.runs[:, tasks] > 0).any(axis=1))
    passes, runs = data.passes[rows][:, tasks], data.runs[rows][:, tasks]
    n_tasks = int((runs > 0).any(axis=0).sum())
    missing = None
    if len(rows) < LEAST_ROWS:
        missing = _too_few(len(rows), "row")
    elif n_tasks < LEAST_TASKS:
        missing = _too_few(n_tasks, "task")
    elif passes.sum() <= 0:
        missing = "every row fails every task"
    elif (passes >= runs).all():
        missing = "every row passes every task"
    if missing:
        return _Scale(tasks, rows, None, False, missing, passes, runs)
    one_slope = len(rows) < LEAST_ROWS_FOR_FIT
    model = irt.fit_two_parameter(passes, runs, Prior(slope_spread=0.0) if one_slope else Prior())
    if one_slope:
        return _Scale(tasks, rows, model, True, None, passes, runs)
    lz = irt.person_fit(model, passes, runs)
    lz[(runs > 0).sum(axis=1) < LEAST_TASKS_OF_ROW] = np.nan
    squares, dependence = irt.mean_squares(model, passes, runs), irt.residual_correlations(model, passes, runs)
    standardised = irt.standardised_fit(
        model,
        passes,
        runs,
        n_runs=data.n_runs[rows][:, tasks],
        correlation=data.correlation,
        simulations=simulations,
        rng=rng,
    )
    return _Scale(tasks, rows, model, False, None, passes, runs, squares, dependence, standardised, lz)


def _too_few(n: int, what: str) -> str:
    return f"too few: {n} {what}{'' if n == 1 else 's'}"


# -- tasks ------------------------------------------------------------------------------------------------


def _table(g: Grid, scales: Sequence[_Scale], pairs: pl.DataFrame, functioning: pl.DataFrame) -> pl.DataFrame:
    mean = task_means(g, g.scored)
    n_rows = g.scored.sum(axis=0)
    there = g.scored[:, :, None] & ~np.isnan(g.by_seed)
    rest = np.concatenate([item_rest(g.values[:, d], g.scored[:, d]) for d in g.slices])
    numbers = {name: np.full(len(mean), np.nan) for name in _ESTIMATES}
    reasons: list[str | None] = [None] * len(mean)
    low = np.zeros(len(mean), dtype=bool)
    for scale in scales:
        for t in range(scale.tasks.start, scale.tasks.stop):
            reasons[t] = _why_not(scale, mean[t], int(n_rows[t]))
        _fill(numbers, low, scale, mean, n_rows)
    table = g.tasks.select("task_id", "dimension").with_columns(
        pl.Series("n_rows", n_rows, dtype=pl.Int64),
        pl.Series("n_runs", there.sum(axis=(0, 2)), dtype=pl.Int64),
        pl.Series("mean_value", mean).fill_nan(None),
        *(pl.Series(n, numbers[n]).fill_nan(None) for n in _ESTIMATES[:4]),
        pl.Series("item_rest_r", rest).fill_nan(None),
        *(pl.Series(n, numbers[n]).fill_nan(None) for n in _ESTIMATES[4:8]),
    )
    table = table.join(_most_dependent(pairs), on="task_id", how="left", maintain_order="left")
    table = table.join(_most_different(functioning), on="task_id", how="left", maintain_order="left")
    table = table.with_columns(
        pl.Series("information", numbers["information"]).fill_nan(None),
        pl.Series("no_estimate", reasons, dtype=pl.String),
    )
    flags = _flags(table, low, pairs, functioning)
    return table.with_columns(pl.Series("flags", flags, dtype=pl.String))


_ESTIMATES = (
    *("difficulty", "difficulty_se", "discrimination", "discrimination_se"),
    *("infit", "infit_t", "outfit", "outfit_t", "information"),
)


def _why_not(scale: _Scale, mean: float, n_rows: int) -> str | None:
    """Why something of a task is null."""
    if n_rows == 0:
        return "no row has it"
    if scale.no_estimate:
        return scale.no_estimate
    if mean in (0.0, 1.0):
        return "every row passes" if mean else "every row fails"
    if n_rows < LEAST_ROWS_FOR_FIT:
        return _too_few(n_rows, "row")
    return None


def _fill(numbers: Mapping[str, Array], low: Mask, scale: _Scale, mean: Array, n_rows: NDArray[np.int64]) -> None:
    """Write the estimates of one dimension's tasks, where they can be estimated."""
    if scale.model is None:
        return
    model, own = scale.model, scale.tasks
    varies = (mean[own] > 0) & (mean[own] < 1)
    placed = varies & (n_rows[own] >= LEAST_ROWS)
    judged = varies & (n_rows[own] >= LEAST_ROWS_FOR_FIT) & (not scale.one_slope)
    weight = np.exp(-0.5 * model.nodes**2)
    information = (weight / weight.sum()) @ model.information(model.nodes)
    found: dict[str, tuple[Array, Mask]] = {
        "difficulty": (model.difficulty, placed),
        "difficulty_se": (model.difficulty_se, placed),
        "information": (information, placed),
        "discrimination": (model.slope, judged),
        "discrimination_se": (model.slope_se, judged),
    }
    if scale.squares is not None and scale.standardised is not None:
        for name in ("infit", "outfit"):
            found[name] = (getattr(scale.squares, name), judged)
            found[f"{name}_t"] = (getattr(scale.standardised, name), judged)
        error = model.slope_se / model.slope
        low[own] = judged & (np.log(model.slope) + 1.96 * error < np.log(model.slope).mean())
    for name, (values, where) in found.items():
        numbers[name][own] = np.where(where, values, np.nan)


def _most_dependent(pairs: pl.DataFrame) -> pl.DataFrame:
    """The task with which each one goes most, among the flagged pairs."""
    flagged = pairs.filter("dependent")
    both = pl.concat(
        [
            flagged.select(task_id="task_a", most_dependent_on="task_b", largest_q3_adjusted="q3_adjusted"),
            flagged.select(task_id="task_b", most_dependent_on="task_a", largest_q3_adjusted="q3_adjusted"),
        ]
    )
    return both.sort("largest_q3_adjusted", descending=True, maintain_order=True).unique(
        "task_id", keep="first", maintain_order=True
    )


def _most_different(functioning: pl.DataFrame) -> pl.DataFrame:
    """The group for which each task differs most, among the flagged ones."""
    flagged = functioning.filter("flagged").sort(pl.col("ets_delta").abs(), descending=True, maintain_order=True)
    return flagged.unique("task_id", keep="first", maintain_order=True).select(
        "task_id", largest_ets_delta="ets_delta", functioning_group="group"
    )


def _flags(table: pl.DataFrame, low: Mask, pairs: pl.DataFrame, functioning: pl.DataFrame) -> list[str | None]:
    """What is odd about each task, in words with the number behind it; None where nothing is."""
    misfit = _misfit(table)
    n_pairs = Counter([*pairs.filter("dependent")["task_a"], *pairs.filter("dependent")["task_b"]])
    n_groups = Counter(functioning.filter("flagged")["task_id"])
    out: list[str | None] = []
    for i, r in enumerate(table.iter_rows(named=True)):
        words = []
        if r["mean_value"] is not None and r["mean_value"] >= CEILING - 1e-9:
            words.append(f"at the ceiling (mean {number(r['mean_value'], 2)})")
        if r["mean_value"] is not None and r["mean_value"] <= FLOOR + 1e-9:
            words.append(f"at the floor (mean {number(r['mean_value'], 2)})")
        if r["item_rest_r"] is not None and r["item_rest_r"] < 0:
            words.append(f"better rows pass it less (rest r {number(r['item_rest_r'], 2)})")
        if low[i]:
            words.append(f"tells rows apart less than others (discrimination {number(r['discrimination'], 2)})")
        if misfit[i]:
            words.append(f"does not fit (infit {number(r['infit'], 2)}, outfit {number(r['outfit'], 2)})")
        if n := n_pairs[r["task_id"]]:
            more = f" and {n - 1} more" if n > 1 else ""
            words.append(f"goes with {r['most_dependent_on']}{more} (Q3 +{number(r['largest_q3_adjusted'], 2)})")
        if n := n_groups[r["task_id"]]:
            side = "easier" if r["largest_ets_delta"] < 0 else "harder"
            more = f" and {n - 1} more groups" if n > 1 else ""
            words.append(f"{side} for {r['functioning_group']}{more} (delta {number(r['largest_ets_delta'], 1)})")
        out.append("; ".join(words) or None)
    return out


def _misfit(table: pl.DataFrame) -> list[bool]:
    """Infit or outfit out of bounds, and significantly off 1 among all tasks."""
    out = np.zeros(table.height, dtype=bool)
    for name in ("infit", "outfit"):
        p = [None if t is None else normal_two_sided(t) for t in table[f"{name}_t"]]
        found = np.array([a is not None and a < FLAG_LEVEL for a in adjust(p).adjusted], dtype=bool)
        square = table[name].fill_null(1.0).to_numpy()
        out |= found & ((square < MISFIT[0]) | (square > MISFIT[1]))
    return [bool(x) for x in out]


# -- pairs of tasks ---------------------------------------------------------------------------------------

_PAIRS = {
    "dimension": pl.String,
    "task_a": pl.String,
    "task_b": pl.String,
    "n_rows": pl.Int64,
    "q3": pl.Float64,
    "q3_adjusted": pl.Float64,
    "p": pl.Float64,
}


def _mean_q3(scale: _Scale) -> float:
    """Mean of the dimension's pairs, NaN where none has a Q3. Of n independent tasks it lies near -1 / (n - 1)."""
    if scale.dependence is None:
        return float("nan")
    q3 = scale.dependence.q3[np.triu_indices(len(scale.dependence.q3), 1)]
    q3 = q3[~np.isnan(q3)]
    return float(q3.mean()) if len(q3) else float("nan")


def _pairs(g: Grid, scales: Sequence[_Scale]) -> pl.DataFrame:
    ids, parts = g.tasks["task_id"].to_list(), []
    for name, scale in zip(g.dimensions, scales, strict=True):
        if scale.dependence is None or scale.standardised is None:
            continue
        a, b = np.triu_indices(len(scale.dependence.q3), 1)
        q3, n, z = scale.dependence.q3[a, b], scale.dependence.n_rows[a, b], scale.standardised.q3[a, b]
        kept = ~np.isnan(z) & (n >= LEAST_ROWS_FOR_FIT)
        mean, first = _mean_q3(scale), scale.tasks.start
        for i, j, r, rows, away in zip(a[kept], b[kept], q3[kept], n[kept], z[kept], strict=True):
            # Student's t: of few rows the tails are longer than the normal distribution's.
            p = t_two_sided(float(away), int(rows) - 2)
            parts.append((name, ids[first + i], ids[first + j], int(rows), float(r), float(r - mean), p))
    found = pl.DataFrame(parts, schema=_PAIRS, orient="row")
    adjusted = pl.Series("p_adjusted", adjust(found["p"].to_list()).adjusted, dtype=pl.Float64)
    return found.with_columns(adjusted).with_columns(
        dependent=(pl.col("p_adjusted") < FLAG_LEVEL) & (pl.col("q3_adjusted") > DEPENDENT)
    )


# -- groups of models -------------------------------------------------------------------------------------

_FUNCTIONING = {
    "task_id": pl.String,
    "dimension": pl.String,
    "group": pl.String,
    "n_in_group": pl.Int64,
    "n_others": pl.Int64,
    "log_odds_ratio": pl.Float64,
    "se": pl.Float64,
    "ets_delta": pl.Float64,
    "ets_class": pl.String,
    "p": pl.Float64,
    "no_estimate": pl.String,
}


def _groups(study: Any, g: Grid, groups: Groups) -> tuple[dict[str, list[str]], str]:
    """group -> models, and a sentence on which groups these are."""
    if groups is not None:
        return members(study, g, groups), "Differential functioning: the groups given, each against all other rows."
    found: dict[str, list[str]] = {}
    known = _providers(study)
    for name in g.rows["model"].unique(maintain_order=True):
        if provider := known.get(name) or registry.family(name):
            found.setdefault(provider, []).append(name)
    if found:
        return found, "Differential functioning: each provider against all other rows."
    try:
        usual = members(study, g, None)
    except TableError:
        return {}, "Differential functioning: no provider or group of these models is known; give groups=."
    return usual, "Differential functioning: no provider is known, so each group of models against all other rows."


def _providers(study: Any) -> dict[str, str]:
    table = getattr(study, "models", None)
    if not isinstance(table, pl.LazyFrame | pl.DataFrame):
        return {}
    lazy = table.lazy()
    if not {"model", "family"} <= set(lazy.collect_schema().names()):
        return {}
    return dict(lazy.filter(pl.col("family").is_not_null()).select("model", "family").collect().iter_rows())


def _strata(ability: Array) -> NDArray[np.int64]:
    """Rows of like ability together, about `ROWS_IN_STRATUM` of them; ties fall together."""
    n = int(np.clip(len(ability) // ROWS_IN_STRATUM, 1, MOST_STRATA))
    return np.minimum((average_ranks(np.round(ability, 9)) - 0.5) * n // len(ability), n - 1).astype(np.int64)


def _functioning(
    g: Grid, scales: Sequence[_Scale], groups: Mapping[str, Sequence[str]], method: Method
) -> pl.DataFrame:
    ids, models, lines = g.tasks["task_id"].to_list(), g.rows["model"].to_list(), []
    for name, scale in zip(g.dimensions, scales, strict=True):
        for group, own in groups.items():
            inside = np.array([models[r] in own for r in scale.rows], dtype=bool)
            n_in, n_out = ((scale.runs[of] > 0).sum(axis=0) for of in (inside, ~inside))
            found = _differences(scale, inside, method)
            for t in range(scale.tasks.stop - scale.tasks.start):
                why = scale.no_estimate
                if why is None and n_in[t] < LEAST_GROUP:
                    why = f"{_too_few(int(n_in[t]), 'row')} of the group"
                if why is None and n_out[t] < LEAST_GROUP:
                    why = _too_few(int(n_out[t]), "other row")
                if why is None and (found is None or np.isnan(found.p[t])):
                    why = "no rows of like ability that differ"
                line = (ids[scale.tasks.start + t], name, group, int(n_in[t]), int(n_out[t]))
                lines.append((*line, *((None,) * 5 if why or found is None else _sizes(found, t)), why))
    table = pl.DataFrame(lines, schema=_FUNCTIONING, orient="row")
    adjusted = pl.Series("p_adjusted", adjust(table["p"].to_list()).adjusted, dtype=pl.Float64)
    flagged = (pl.col("p_adjusted") < FLAG_LEVEL) & pl.col("ets_class").is_in(["B", "C"])
    table = table.with_columns(adjusted).with_columns(flagged=flagged.fill_null(False))
    return table.select(*[c for c in table.columns if c != "no_estimate"], "no_estimate")


def _differences(scale: _Scale, inside: Mask, method: Method) -> irt.Difference | None:
    """Of every task of a dimension, arrays of shape (tasks,); None without a model."""
    if scale.model is None:
        return None
    if method == "logistic":
        return irt.logistic_differences(scale.model, scale.passes, scale.runs, inside)
    strata = _strata(scale.model.ability)
    columns = zip(scale.passes.T, scale.runs.T, strict=True)
    found = [irt.mantel_haenszel(passes, runs, inside, strata) for passes, runs in columns]
    return irt.Difference(*(np.array(values) for values in zip(*found, strict=True)))


def _sizes(found: irt.Difference, t: int) -> tuple[float, float, float, str, float]:
    """`log_odds_ratio, se, ets_delta, ets_class, p` of one task."""
    value, se, p = (float(x[t]) for x in found)
    return value, se, irt.ETS_SCALE * value, irt.ets_class(value, se), p


# -- rows and information ---------------------------------------------------------------------------------


def _rows(g: Grid, scales: Sequence[_Scale]) -> pl.DataFrame:
    lz = np.full((g.rows.height, len(scales)), np.nan)
    n_tasks = np.zeros(g.rows.height, dtype=np.int64)
    for k, scale in enumerate(scales):
        n_tasks[scale.rows] += (scale.runs > 0).sum(axis=1)
        if scale.lz is not None:
            lz[scale.rows, k] = scale.lz
    known = (~np.isnan(lz)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        overall = np.where(known > 0, np.nansum(lz, axis=1) / np.sqrt(known), np.nan)
    # One-sided: the upper half of a two-sided p is a pattern that is too regular, which nobody asks about.
    p = [None if np.isnan(z) else _below(float(z)) for z in overall]
    few = g.rows.height < LEAST_ROWS_FOR_FIT
    why = [
        None
        if not np.isnan(z)
        else (_too_few(g.rows.height, "row") if few else _too_few(int(n), "task") if n < LEAST_TASKS_OF_ROW else _FLAT)
        for z, n in zip(overall, n_tasks, strict=True)
    ]
    return g.rows.select(ROW).with_columns(
        pl.Series("n_tasks", n_tasks),
        pl.Series("lz", overall).fill_nan(None),
        pl.Series("p", p, dtype=pl.Float64),
        pl.Series("p_adjusted", adjust(p).adjusted, dtype=pl.Float64),
        pl.Series("odd", [a is not None and a < FLAG_LEVEL for a in adjust(p).adjusted], dtype=pl.Boolean),
        pl.Series("no_estimate", why, dtype=pl.String),
    )


_FLAT = "no dimension with enough tasks that differ"


def _below(z: float) -> float:
    half = normal_two_sided(z) / 2
    return half if z < 0 else 1 - half


def _abilities(g: Grid, scales: Sequence[_Scale]) -> pl.DataFrame:
    parts = []
    for name, scale in zip(g.dimensions, scales, strict=True):
        if scale.model is None:
            continue
        lz = np.full(len(scale.rows), np.nan) if scale.lz is None else scale.lz
        parts.append(
            g.rows[scale.rows]
            .select(ROW)
            .with_columns(
                pl.lit(name).alias("dimension"),
                pl.Series("ability", scale.model.ability),
                pl.Series("ability_se", scale.model.ability_sd),
                pl.Series("lz", lz).fill_nan(None),
            )
        )
    empty = (
        g.rows[:0]
        .select(ROW)
        .with_columns(
            pl.lit(None, pl.String).alias("dimension"), *(pl.lit(None, pl.Float64).alias(n) for n in _OF_ABILITY)
        )
    )
    return pl.concat([empty, *parts])


_OF_ABILITY = ("ability", "ability_se", "lz")


def _information(g: Grid, scales: Sequence[_Scale]) -> pl.DataFrame:
    total = np.zeros(len(ABILITIES))
    lines: list[tuple[str | None, float, float, float]] = []
    for name, scale in zip(g.dimensions, scales, strict=True):
        if scale.model is None:
            continue
        own = scale.model.information(ABILITIES)[:, (scale.runs > 0).any(axis=0)].sum(axis=1)
        total += own
        lines += [(name, float(a), float(i), float(i**-0.5)) for a, i in zip(ABILITIES, own, strict=True)]
    if lines:
        lines += [(None, float(a), float(i), float(i**-0.5)) for a, i in zip(ABILITIES, total, strict=True)]
    schema = {"dimension": pl.String, "ability": pl.Float64, "information": pl.Float64, "se": pl.Float64}
    return pl.DataFrame(lines, schema=schema, orient="row")


def _dimensions(g: Grid, scales: Sequence[_Scale]) -> pl.DataFrame:
    lines = []
    for name, scale in zip(g.dimensions, scales, strict=True):
        m, mean = scale.model, _mean_q3(scale)
        lines.append(
            {
                "dimension": name,
                "n_rows": len(scale.rows),
                "n_tasks": int((scale.runs > 0).any(axis=0).sum()),
                "parameters": None if m is None else 2 - scale.one_slope,
                "typical_discrimination": None if m is None else float(np.exp(np.log(m.slope).mean())),
                "reliability": None if m is None else _reliability(m),
                "mean_q3": None if np.isnan(mean) else mean,
                "no_estimate": scale.no_estimate,
            }
        )
    schema = {"dimension": pl.String, "n_rows": pl.Int64, "n_tasks": pl.Int64, "parameters": pl.Int64}
    more = {"typical_discrimination": pl.Float64, "reliability": pl.Float64, "mean_q3": pl.Float64}
    return pl.DataFrame(lines, schema=schema | more | {"no_estimate": pl.String})


def _reliability(m: TwoParameter) -> float:
    """The share of the variance of estimated abilities that is not their error."""
    spread = float(m.ability.var())
    return spread / (spread + float((m.ability_sd**2).mean()))


def _summary(
    table: pl.DataFrame, pairs: pl.DataFrame, functioning: pl.DataFrame, rows: pl.DataFrame, data: _Data
) -> pl.DataFrame:
    lines = [
        ("tasks", table.height),
        ("tasks_with_a_flag", table["flags"].drop_nulls().len()),
        ("tasks_that_do_not_fit", sum(_misfit(table))),
        ("negative_items", (table["item_rest_r"] < 0).sum()),
        ("dependent_pairs", pairs["dependent"].sum()),
        ("tasks_that_function_differently", functioning.filter("flagged")["task_id"].n_unique()),
        ("odd_rows", rows["odd"].sum()),
        ("median_discrimination", table["discrimination"].median()),
        ("repeat_correlation", data.correlation if data.repeats else None),
    ]
    values = [(name, None if value is None else float(value)) for name, value in lines]  # type: ignore[arg-type]
    return pl.DataFrame(values, schema={"quantity": pl.String, "value": pl.Float64}, orient="row")
