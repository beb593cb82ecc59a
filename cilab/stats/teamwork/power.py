"""How many tasks and seeds tell two models apart: power by simulation from a model fitted to the data at hand.

May import `cilab.core` and its own folder. Reads no file, plays nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, heading
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.distributions import share_interval, t_quantile
from cilab.stats.methods.item_response import ItemResponse, expit, fit_item_response
from cilab.stats.methods.parallel import each
from cilab.stats.teamwork.grid import Grid, Scope, grid

#: What is tried unless told otherwise: differences in points, tasks per dimension, test seeds.
DIFFERENCES = (2.0, 3.0, 5.0, 7.5, 10.0)
TASKS = (10, 20, 30, 45, 60, 90)
SEEDS = (1, 3, 5)
#: The usual target, and the number of simulated studies: the standard error of a power of 0.8 is 1.3 points.
TARGET, SIMULATIONS = 0.8, 1000

#: Quadrature over the cell effect; rows of simulated numbers made at a time.
_NODES, _BLOCK = 15, 50
#: Up to so many runs of a cell are thrown one by one.
_THROWN = 10
_WIDEST_CELL = 6.0
#: A scatter below this is none.
_NO_SCATTER = 1e-6


@dataclass(frozen=True, kw_only=True, repr=False)
class PowerResult(Result):
    """Power by difference, number of tasks and seeds.

    Attributes
    ----------
    table : one line per difference, seeds and number of tasks: `difference_points, seeds, tasks_per_dimension,
        n_tasks, runs_per_model` (tests, on the tasks expected to pass the gate), `power` (share of simulated studies
        in which the difference is found, in its direction), `power_lo, power_hi` (Monte Carlo error, Wilson 95 %),
        `wrong_way` (share in which it is found the other way round), `mean_points` (mean observed difference).
        Lines of difference 0 show the rate of false alarms, in either direction, as `power`.
    needed : one line per difference (0 left out) and seeds: `difference_points, seeds, tasks_per_dimension, n_tasks,
        power`: the fewest tasks of those tried from which on the target is reached; null where none is enough.
    model : what was simulated: `quantity, value, unit`: `cell_sd`, `level_pct`, the variance between the seeds of a
        cell in the data and in the model (`seed_variance_data, seed_variance_model`), and a line `scatter: DIMENSION`
        for each with graded scores.
    """

    needed: pl.DataFrame
    model: pl.DataFrame
    seed: int
    target: float
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "power"
    title: ClassVar[str] = "Power to tell two models apart"

    def sheet(self) -> Sheet:
        """One line per difference and seeds, one column per number of tasks per dimension: the power."""
        shown = self.table.with_columns(
            pl.col("difference_points").map_elements(lambda d: f"{d:g}", return_dtype=pl.String),
            pl.col("power").map_elements(lambda p: number(p, 2), return_dtype=pl.String),
        )
        keys = ["difference_points", "seeds"]
        wide = shown.pivot(on="tasks_per_dimension", index=keys, values="power")
        named = {c: heading(c) if c in keys else f"{c} tasks" for c in wide.columns}
        return self.on_sheet(wide.rename(named).cast(pl.String))

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def power(
    study: Any,
    *,
    differences: Sequence[float] = DIFFERENCES,
    tasks_per_dimension: Sequence[int] = TASKS,
    seeds: Sequence[int] = SEEDS,
    target: float = TARGET,
    level_pct: float | None = None,
    cell_sd: float | None = None,
    ci_level: Level = CI_LEVEL,
    simulations: int = SIMULATIONS,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> PowerResult:
    """How many tasks and seeds it takes to tell two models `d` points apart.

    An item-response model is fitted to the study (`cilab.stats.methods.item_response`). Two models are made from the
    mean row, moved up and down by the same number of logits in every dimension until their expected overall scores lie
    d / 2 points above and below `level_pct`. Each simulated study draws new tasks (difficulties of the fitted ones,
    with replacement, within dimension), lets each model solve a task alone with the share of the rows that did, of
    those of which it is known (a task that a row never ran is not one that it failed), and plays the seeds. Seeds of a
    cell agree more than independent ones would: the model has an effect of the cell, as wide as the agreement in the
    data says. The difference is found where the interval of the overall score's difference, paired by task, lies off 0:
    Student's t times the standard error over tasks within dimension, with tasks less dimensions degrees of freedom.

    Where all scores of a dimension are 0 or 1 a run passes or fails. Graded scores are drawn from a beta distribution
    with the expected value of the cell and the scatter seen in the data, as a share of that of passing and failing:
    between seeds, or with one seed between the tasks on which two rows differ. Scores that do not vary do not in
    the simulation either.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    differences : in points of the overall score (percent); 0 shows the false alarms.
    tasks_per_dimension, seeds : numbers to try.
    target : the power that is wanted, a fraction.
    level_pct : where the two models lie; default the median row's overall score.
    cell_sd : standard deviation of the cell effect in logits; default estimated, which needs two seeds.
    ci_level : of the interval that must lie off 0.
    simulations, seed : number of simulated studies, and what they are drawn from.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    PowerResult
        The curve is `.table`, the answer `.needed`.

    Raises
    ------
    TableError
        An argument is out of range, two models so far apart do not fit between 0 and 100, fewer than two rows have a
        score, one seed says nothing of the cell effect and more are asked for; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, sections 2.3 and 4.1 (the score and its intervals); the simulation is this
    project's.
    """
    sizes, repeats = _whole("tasks_per_dimension", tasks_per_dimension, 2), _whole("seeds", seeds, 1)
    _check(differences, target, level_pct, cell_sd, ci_level, simulations)
    g = grid(study, **scope)
    g.need_known_tasks("power")
    values = np.where(g.scored, g.values, np.nan)
    fitted, remarks = _fitted(g, values)
    graded = [not _binary(g, tasks) for tasks in g.slices]
    sd, more = _cell_sd(g, fitted, cell_sd, repeats, graded)
    world = _World(fitted, sd, _scatter(g, fitted, sd, graded), _passing(g))
    more += _graded_words(g, world, graded)
    level = _level(g, level_pct)
    cases = []
    for i, d in enumerate(differences):
        abilities = [world.ability_at(level + s * d / 200, d) for s in (-1, 1)]
        cases += [((seed, i, j), abilities, float(d), n_seeds) for j, n_seeds in enumerate(repeats)]
    lines = [
        line for some in each(functools.partial(_case, world, sizes, simulations, ci_level), cases) for line in some
    ]
    table = pl.DataFrame(lines, schema=_TABLE, orient="row")
    return PowerResult(
        table=table,
        needed=_needed(table, target),
        model=_model_lines(g, world, level, graded),
        seed=seed,
        target=float(target),
        remarks=(*g.notes, *remarks, *more),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={**g.asked, "level_pct": 100 * level, "cell_sd": sd},
        caption=(
            f"Share of {simulations:,} simulated studies in which two models around {100 * level:.0f} % are told apart "
            f"({percent(ci_level)} interval of the difference off 0, paired by task), by tasks per dimension; "
            f"{len(g.slices)} dimensions."
        ),
    )


_TABLE = {
    "difference_points": pl.Float64,
    "seeds": pl.Int64,
    "tasks_per_dimension": pl.Int64,
    "n_tasks": pl.Int64,
    "runs_per_model": pl.Float64,
    "power": pl.Float64,
    "power_lo": pl.Float64,
    "power_hi": pl.Float64,
    "wrong_way": pl.Float64,
    "mean_points": pl.Float64,
}

# -- what is asked for ------------------------------------------------------------------------------------


def _whole(name: str, values: Any, least: int) -> tuple[int, ...]:
    given = [values] if isinstance(values, int) else values
    wrong = isinstance(given, str) or not isinstance(given, Collection | np.ndarray) or not len(given)
    wrong = wrong or any(isinstance(v, bool) or not isinstance(v, int | np.integer) or v < least for v in given)
    if wrong:
        raise TableError(f"{name} is {values!r}: give whole numbers of at least {least}, such as {[least, 30]}")
    return tuple(sorted({int(v) for v in given}))


def _check(differences: Any, target: Any, level_pct: Any, cell_sd: Any, ci_level: Any, simulations: Any) -> None:
    def number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    if isinstance(differences, str) or not isinstance(differences, Collection | np.ndarray) or not len(differences):
        raise TableError(f"differences is {differences!r}: give a list of points, such as [3, 5, 10]")
    for d in differences:
        if not number(d) or not 0 <= d < 100:
            raise TableError(f"differences holds {d!r}: give points of the overall score, from 0 to below 100")
    for name, value in (("target", target), ("ci_level", ci_level)):
        if not number(value) or not 0 < value < 1:
            raise TableError(f"{name} is {value!r}: give a fraction between 0 and 1")
    if level_pct is not None and (not number(level_pct) or not 0 < level_pct < 100):
        raise TableError(f"level_pct is {level_pct!r}: give percent between 0 and 100")
    if cell_sd is not None and (not number(cell_sd) or not 0 <= cell_sd <= _WIDEST_CELL):
        raise TableError(f"cell_sd is {cell_sd!r}: give logits from 0 to {_WIDEST_CELL:g}")
    if isinstance(simulations, bool) or not isinstance(simulations, int) or simulations < 20:
        raise TableError(f"simulations is {simulations!r}: give a whole number of at least 20")


# -- the world that is simulated --------------------------------------------------------------------------


def _fitted(g: Grid, values: Array) -> tuple[ItemResponse, tuple[str, ...]]:
    """The model of all rows with a score, and what is to be said about it."""
    for name, tasks in zip(g.dimensions, g.slices, strict=True):
        if not g.scored[:, tasks].any():
            raise TableError(f"power: no row has a score in {name}; name the dimensions to use: dimensions=[...]")
    rows = g.scored.any(axis=1)
    if rows.sum() < 2:
        raise TableError("power: fewer than two rows have a score; how much tasks differ cannot be told from one row")
    gone = [g.names[r] for r in np.flatnonzero(~rows)]
    remarks = (f"Rows without a score: {', '.join(gone)}.",) if gone else ()
    return fit_item_response(np.where(rows[:, None], values, np.nan)[rows], g.slices), remarks


@functools.cache
def _nodes() -> tuple[Array, Array]:
    """Nodes and weights of a quadrature over a standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(_NODES)
    return x, w / w.sum()


@dataclass(frozen=True, eq=False)
class _World:
    """The fitted model with an effect of the cell.

    The model was fitted without one, to means over seeds. With an effect of standard deviation s beside it, the same
    mean needs a logit larger by sqrt(1 + s^2 (16 sqrt(3) / (15 pi))^2), the usual normal approximation.
    """

    model: ItemResponse
    cell_sd: float
    #: Per dimension, variance of a run's score about the cell's as a share of that of passing and failing; None: all 1.
    scatter: Array | None = None
    #: Share of rows that a task counts for, shape (T,); None: of those with a score.
    passing: Array | None = None

    @property
    def share(self) -> Array:
        """Chance that a task counts for a model, shape (T,)."""
        return self.model.share_scored if self.passing is None else self.passing

    @property
    def stretch(self) -> float:
        return math.sqrt(1 + (16 * math.sqrt(3) / (15 * math.pi)) ** 2 * self.cell_sd**2)

    def logits(self, ability: Array) -> Array:
        """Of the mean cell; the shape of abilities by task."""
        return self.stretch * (ability[..., self.model.dimension] - self.model.difficulty)

    def moments(self, ability: Array) -> tuple[Array, Array]:
        """E p and E p^2 over the cell effect, per task."""
        x, w = _nodes()
        p = expit(self.logits(ability)[..., None] + self.cell_sd * x)
        return p @ w, p**2 @ w

    def score(self, ability: Array) -> float:
        """Expected overall score over new tasks, a fraction."""
        expected, _ = self.moments(ability)
        share = self.share
        return float(np.mean([np.average(expected[s], weights=share[s]) for s in self.model.slices]))

    def ability_at(self, score: float, difference: float) -> Array:
        """The mean row, moved by the same number of logits everywhere until its expected score is `score`."""
        from scipy.optimize import brentq

        mean, lo, hi = self.model.prior_mean, -30.0, 30.0
        if not self.score(mean + lo) < score < self.score(mean + hi):
            raise TableError(
                f"power: two models {difference:g} points apart need a score of {100 * score:.1f} %, which no model "
                "can have; ask for smaller differences, or give level_pct nearer to 50"
            )
        return mean + brentq(lambda moved: self.score(mean + moved) - score, lo, hi)


def _binary(g: Grid, tasks: slice) -> bool:
    """Whether all scores of a dimension are 0 or 1."""
    seen = g.by_seed[:, tasks][g.scored[:, tasks]]
    return bool(np.isin(seen[~np.isnan(seen)], (0.0, 1.0)).all())


def _passing(g: Grid) -> Array:
    """Share of the rows that a task counts for, of those of which it is known, shape (T,).

    A cell that was never run, or lacks an alone run, says nothing of the gate. Where no row is known, the mean of the
    dimension.
    """
    rows = g.scored.any(axis=1)
    known = (g.decided | g.refused)[rows]
    counts = (g.decided & g.solved & ~g.refused)[rows].sum(axis=0)
    n = known.sum(axis=0)
    share = np.where(n > 0, counts / np.maximum(n, 1), np.nan)
    for tasks in g.slices:
        share[tasks] = np.where(n[tasks] > 0, share[tasks], np.nanmean(share[tasks]))
    return share


def _within(g: Grid, among: Mask | None = None) -> tuple[float, Mask]:
    """Mean variance between the seeds of a cell (divisor n - 1), and which cells have several; of some tasks only."""
    n = (~np.isnan(g.by_seed)).sum(axis=2)
    cells = g.scored & (n > 1)
    if among is not None:
        cells = cells & among
    if not cells.any():
        return float("nan"), cells
    squares = np.nansum((g.by_seed[cells] - g.values[cells][:, None]) ** 2, axis=1)
    return float(np.mean(squares / (n[cells] - 1))), cells


def _between(g: Grid, model: ItemResponse, d: int) -> float:
    """Variance of a cell's score about what row and task explain, in one dimension.

    Half the variance over tasks of the difference of two rows, mean over pairs of rows, less what the model expects
    such differences to vary by. Rows and tasks drop out of it; what the fit's shrinkage leaves does not enter.
    """
    rows = g.scored.any(axis=1)
    tasks = g.slices[d]
    y = np.where(g.scored[:, tasks], g.values[:, tasks], np.nan)[rows]
    expected = model.expected()[:, tasks]
    total = weight = 0.0
    for a in range(len(y)):
        for b in range(a):
            both = ~np.isnan(y[a] - y[b])
            n = int(both.sum())
            if n > 1:
                seen, own = ((of[a] - of[b])[both].var(ddof=1) for of in (y, expected))
                total, weight = total + (n - 1) * (seen - own) / 2, weight + n - 1
    return max(0.0, total / weight) if weight else 0.0


def _scatter(g: Grid, model: ItemResponse, sd: float, graded: Sequence[bool]) -> Array:
    """Per dimension, the variance of a run's score about the cell's, as a share of that of passing and failing."""
    out = np.ones(len(g.slices))
    first, second = _World(model, sd).moments(model.ability)
    rows = g.scored.any(axis=1)
    for d in np.flatnonzero(graded):
        within, cells = _within(g, g.dimension_of == d)
        at = cells[rows] if cells.any() else (g.scored & (g.dimension_of == d))[rows]
        if math.isnan(within):
            within = _between(g, model, int(d)) - float((second - first**2)[at].mean())
        out[d] = min(1.0, max(0.0, within / float((first - second)[at].mean())))
    return out


def _cell_sd(
    g: Grid, model: ItemResponse, given: float | None, seeds: Sequence[int], graded: Sequence[bool]
) -> tuple[float, tuple[str, ...]]:
    """The cell effect with which the seeds of the model differ as much as those of the data do.

    From the dimensions of passing and failing, where seeds that agree less than chance say it; of graded scores alone
    from what is left between cells when the scatter of seeds is taken off.
    """
    from scipy.optimize import brentq

    if given is not None:
        return float(given), ()
    binary = ~np.array(graded)[g.dimension_of]
    within, cells = _within(g, binary)
    if math.isnan(within) and not math.isnan(_within(g)[0]):
        return _cell_sd_of_graded(g, model), ()
    if math.isnan(within):
        if max(seeds) > 1:
            raise TableError(
                "power: these data have one seed, which does not say how much seeds agree; give cell_sd= (logits; "
                "about 2 in the paper's tests) or seeds=[1]"
            )
        return 0.0, ()
    at = cells[g.scored.any(axis=1)]

    def excess(sd: float) -> float:
        first, second = _World(model, sd).moments(model.ability)
        return float((first - second)[at].mean()) - within

    if excess(0.0) <= 0:
        return 0.0, ("Seeds differ as much as independent ones would: no effect of the cell.",)
    if excess(_WIDEST_CELL) > 0:
        return _WIDEST_CELL, (f"Seeds hardly differ; the effect of the cell is held at {_WIDEST_CELL:g} logits.",)
    return brentq(excess, 0.0, _WIDEST_CELL), ()


def _cell_sd_of_graded(g: Grid, model: ItemResponse) -> float:
    from scipy.optimize import brentq

    within, cells = _within(g)
    n = (~np.isnan(g.by_seed)).sum(axis=2)[cells]
    between = np.average(
        [_between(g, model, d) for d in range(len(g.slices))], weights=[s.stop - s.start for s in g.slices]
    )
    left = float(between) - within * float((1 / n).mean())
    at = cells[g.scored.any(axis=1)]

    def excess(sd: float) -> float:
        first, second = _World(model, sd).moments(model.ability)
        return float((second - first**2)[at].mean()) - left

    if excess(0.0) >= 0:
        return 0.0
    return _WIDEST_CELL if excess(_WIDEST_CELL) < 0 else brentq(excess, 0.0, _WIDEST_CELL)


def _graded_words(g: Grid, world: _World, graded: Sequence[bool]) -> tuple[str, ...]:
    if not any(graded) or world.scatter is None:
        return ()
    said = [f"{g.dimensions[d].replace('_', ' ')} {100 * world.scatter[d]:.0f}%" for d in np.flatnonzero(graded)]
    return (f"Graded scores, drawn with the scatter seen there (of that of passing and failing): {', '.join(said)}.",)


def _level(g: Grid, given: float | None) -> float:
    if given is not None:
        return given / 100
    overall = bootstrap.overall_means(g.points())
    if not np.isfinite(overall).any():
        raise TableError("power: no row has an overall score; give level_pct, or name dimensions=[...]")
    return float(np.nanmedian(overall))


def _model_lines(g: Grid, world: _World, level: float, graded: Sequence[bool]) -> pl.DataFrame:
    within, _ = _within(g)
    expected, squared = world.moments(world.model.ability)
    scatter = np.ones(len(g.slices)) if world.scatter is None else world.scatter
    variance = scatter[g.dimension_of] * (expected - squared)
    lines = [
        ("cell_sd", world.cell_sd, "logits"),
        ("level_pct", 100 * level, "percent"),
        ("seed_variance_data", None if math.isnan(within) else within, "mean variance between seeds of a cell"),
        ("seed_variance_model", float(variance[g.scored[g.scored.any(axis=1)]].mean()), "the same"),
        *(
            (f"scatter: {g.dimensions[d]}", float(scatter[d]), "share of the variance of passing and failing")
            for d in np.flatnonzero(graded)
        ),
    ]
    return pl.DataFrame(lines, schema={"quantity": pl.String, "value": pl.Float64, "unit": pl.String}, orient="row")


# -- simulated studies ------------------------------------------------------------------------------------


def _case(
    world: _World,
    sizes: Sequence[int],
    simulations: int,
    ci_level: float,
    case: tuple[tuple[int, ...], Sequence[Array], float, int],
) -> list[tuple[Any, ...]]:
    """Lines of one difference and number of seeds, from random numbers of their own."""
    stream, abilities, difference, n_seeds = case
    rng = np.random.default_rng(stream)
    return _simulated(world, abilities, difference, n_seeds, sizes, simulations, ci_level, rng)


def _simulated(
    world: _World,
    abilities: Sequence[Array],
    difference: float,
    n_seeds: int,
    sizes: Sequence[int],
    simulations: int,
    ci_level: float,
    rng: np.random.Generator,
) -> list[tuple[Any, ...]]:
    """One line per number of tasks. Smaller studies are the first tasks of the largest, so that the curve is smooth."""
    found: dict[int, list[Array]] = {n: [] for n in sizes}
    for start in range(0, simulations, _BLOCK):
        y, m = _play(world, abilities, n_seeds, sizes[-1], min(_BLOCK, simulations - start), rng)
        for n in sizes:
            found[n].append(np.stack(difference_and_se(y[..., :n], m[..., :n])))
    lines = []
    for n in sizes:
        diff, se = np.concatenate(found[n], axis=1)
        # Where nothing varies any difference is found, but none that is rounding.
        half = t_quantile(0.5 + ci_level / 2, len(world.model.slices) * (n - 1)) * se + 1e-12
        right = float(np.mean(diff > half))
        wrong = float(np.mean(diff < -half))
        share = right + wrong if difference == 0 else right
        ends = share_interval(round(share * len(diff)), len(diff), CI_LEVEL, method="wilson")
        tasks = n * len(world.model.slices)
        gated = sum(float(world.share[s].mean()) for s in world.model.slices)
        mean = 100 * float(np.nanmean(diff)) if np.isfinite(diff).any() else None
        lines.append((difference, n_seeds, n, tasks, n * gated * n_seeds, share, *ends, wrong, mean))
    return lines


def _play(
    world: _World, abilities: Sequence[Array], n_seeds: int, n: int, studies: int, rng: np.random.Generator
) -> tuple[Array, Mask]:
    """Values and gate of two models, shape (2, studies, dimensions, n)."""
    shape = (studies, len(world.model.slices), n)
    logits, share = np.empty((2, *shape)), np.empty(shape)
    own = [world.logits(a) for a in abilities]
    for d, tasks in enumerate(world.model.slices):
        drawn = tasks.start + rng.integers(0, tasks.stop - tasks.start, size=(studies, n))
        share[:, d] = world.share[drawn]
        for k in range(2):
            logits[k, :, d] = own[k][drawn]
    p = expit(logits + world.cell_sd * rng.standard_normal((2, *shape)))
    y, m = _passes(n_seeds, p, rng) / n_seeds, rng.random((2, *shape)) < share
    scatter = np.ones(shape[1]) if world.scatter is None else world.scatter
    for d in np.flatnonzero(scatter < 1).tolist():
        y[:, :, d] = _grades(n_seeds, p[:, :, d], float(scatter[d]), rng)
    return y, m


def _grades(n: int, p: Array, scatter: float, rng: np.random.Generator) -> Array:
    """Mean of `n` graded scores of expected value `p`, whose variance is that share of p (1 - p): beta variables."""
    if scatter < _NO_SCATTER:
        return p
    weight = 1 / scatter - 1
    inside = np.clip(p, 1e-9, 1 - 1e-9)
    return np.mean([rng.beta(weight * inside, weight * (1 - inside)) for _ in range(n)], axis=0)


def _passes(n: int, p: Array, rng: np.random.Generator) -> Array:
    """Binomial counts of `n` runs that pass with chance `p`; throwing few of them one by one takes a third of the time
    of numpy's generator."""
    if n > _THROWN:
        return rng.binomial(n, p)
    counts = np.zeros(p.shape)
    for _ in range(n):
        counts += rng.random(p.shape) < p
    return counts


def difference_and_se(y: Array, m: Mask) -> tuple[Array, Array]:
    """Difference of two overall scores (second minus first) and its standard error over tasks within dimension.

    The error is that of the paired bootstrap over tasks, to first order: a task's weight in the difference of the two
    gated means, squared and summed. With n tasks a factor n / (n - 1) takes the bootstrap's small-sample bias away.

    Parameters
    ----------
    y : values of the two models, shape (2, ..., dimensions, n).
    m : which tasks each solves alone, the same shape.

    Returns
    -------
    Arrays of the shape between; NaN where a model solves no task of a dimension.
    """
    n = y.shape[-1]
    count = m.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(m, y, 0.0).sum(axis=-1) / count
        weight = np.where(m, y - mean[..., None], 0.0) / count[..., None]
    variance = ((weight[1] - weight[0]) ** 2).sum(axis=-1) * n / (n - 1)
    return (mean[1] - mean[0]).mean(axis=-1), np.sqrt(variance.sum(axis=-1)) / variance.shape[-1]


def _needed(table: pl.DataFrame, target: float) -> pl.DataFrame:
    """The fewest tasks from which on every larger number tried reaches the target."""
    lines = []
    for (d, n_seeds), part in table.filter(pl.col("difference_points") > 0).group_by(
        ["difference_points", "seeds"], maintain_order=True
    ):
        best = None
        for row in part.sort("tasks_per_dimension", descending=True).iter_rows(named=True):
            if row["power"] < target:
                break
            best = row
        found = (None, None, None) if best is None else (best["tasks_per_dimension"], best["n_tasks"], best["power"])
        lines.append((d, n_seeds, *found))
    keep = ("difference_points", "seeds", "tasks_per_dimension", "n_tasks", "power")
    return pl.DataFrame(lines, schema={c: _TABLE[c] for c in keep}, orient="row")
