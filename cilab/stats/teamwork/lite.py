"""A smaller subset of the tasks: which to choose, and how well it stands for all of them on rows not seen before.

May import `cilab.core` and its own folder. Reads no file, plays nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, nearest
from cilab.results.arguments import Seed, inside
from cilab.results.estimator import estimator
from cilab.results.numbers import whole
from cilab.results.result import Result
from cilab.results.sheet import Sheet, heading, readable
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.hypothesis_tests import kendall_tau_b, spearman
from cilab.stats.methods.item_response import (
    ItemResponse,
    Places,
    choose_informative,
    estimate_scores,
    fit_item_response,
)
from cilab.stats.methods.parallel import each
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import split_mask

#: The paper's subset and its check (collaborative-intelligence paper, appendix C.4).
PER_DIMENSION, SPLITS = 5, 40
#: Subsets that `exhaustive` looks at in one dimension, at most. 5 of 20 are 15,504, 8 of 20 are 125,970.
MAX_SUBSETS = 200_000
#: Random subsets drawn per split: one would make the yardstick of every other method a lottery.
RANDOM_DRAWS = 10
#: Two or three rows are in the right order by chance in a half or a sixth of the cases: that is no rank order.
LEAST_ROWS = 4
#: Sizes of the curve of figure 11a, tasks per dimension.
SIZES = (1, 2, 3, 5, 8, 10, 15)

#: Errors nearer than this are a tie: sums in another order must not change a choice.
_TIE = 9
_PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e4)

#: How tasks are chosen, and how a row's dimension scores are read off them.
METHODS: dict[str, tuple[str, str]] = {
    "random": ("random", "mean"),
    "greedy": ("greedy", "mean"),
    "exhaustive": ("exhaustive", "mean"),
    "ridge": ("informative", "ridge"),
    "item_response": ("informative", "item_response"),
}
METHOD_NAMES = {
    "random": "random subsets",
    "greedy": "greedy choice (the paper's)",
    "exhaustive": "best of all subsets within a dimension",
    "ridge": "ridge estimate on the informative choice",
    "item_response": "item-response estimate on the informative choice",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class LiteResult(Result):
    """A smaller subset, and how well it does.

    Attributes
    ----------
    table : one line per method: `method, what` (score: the mean over the chosen tasks; estimate: predicted from them),
        `n_tasks`, `tau, error_points, reduction_pct` (Kendall's tau-b, mean absolute error of the overall score, and
        by how much it is below that of random subsets, on rows that were not used to choose; mean over splits, tau
        over those with four rows or more),
        `n_without` (rows in splits without a solved chosen task in some dimension: they have no score and are not in
        the error, an estimate has one all the same), `tau_all, rho_all, error_all_points, max_error_all_points` (the
        subset of `tasks` over all rows, which were used to choose it; for random, one draw).
    tasks : the chosen tasks, chosen on all rows, one line each: `method, dimension, place` (1 is chosen first, where
        there is an order), `task_id, source_family`.
    rows : one line per method and row: `method, row, model, effort, arm, full_pct, lite_pct, error_points` (lite minus
        full), `n_solved` (chosen tasks that it solves alone), `n_dimensions_without`.
    splits : one line per method and split: `method, split, tau, error_points, max_error_points, n_rows, n_without`.
    methods : one line per method asked for: `method, fitted, reason` (why it could not be fitted, else null).
    """

    tasks: pl.DataFrame
    rows: pl.DataFrame
    splits: pl.DataFrame
    methods: pl.DataFrame
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "lite"
    title: ClassVar[str] = "A smaller subset of the tasks"

    def chosen(self, method: str | None = None) -> list[str]:
        """Ids of the tasks that a method chose; of the last method of the table where none is named.

        Raises
        ------
        TableError
            The method was not asked for.
        """
        name = self.table["method"][-1] if method is None else method
        found = self.tasks.filter(pl.col("method") == name)
        if not found.height:
            raise TableError(f"no method {name!r} here; there are {', '.join(self.table['method'])}")
        return found["task_id"].to_list()

    def sheet(self) -> Sheet:
        """One line per method."""
        columns = ("method", "what", "n_tasks", "tau", "error_points", "reduction_pct", "n_without")
        return self.on_sheet(_readable(self.table.select(columns)))

    def paper_sheet(self, method: str | None = None) -> Sheet:
        """The tasks of a method's subset, by dimension: table 4 of the collaborative-intelligence paper.

        Parameters
        ----------
        method : None takes the last of the table.

        Raises
        ------
        TableError
            The method was not asked for.
        """
        chosen, name = self.chosen(method), self.table["method"][-1] if method is None else method
        tasks = self.tasks.filter(pl.col("method") == name).sort("dimension", "place", nulls_last=True)
        words = pl.col("dimension").str.replace_all("_", " ")
        cells = tasks.select(
            pl.col("task_id").alias("Task"),
            (words.str.slice(0, 1).str.to_uppercase() + words.str.slice(1)).alias("Dimension"),
            pl.col("source_family").fill_null("").str.replace_all("_", " ").alias("Source"),
        )
        title = f"The {len(chosen)} tasks of the Lite subset ({name.replace('_', ' ')})"
        return self.on_sheet(cells, title, group="Dimension")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@dataclass(frozen=True, kw_only=True, repr=False)
class LiteCurve(Result):
    """How well subsets of several sizes do.

    Attributes
    ----------
    table : one line per size and method: `per_dimension, n_tasks, method, what, tau, error_points, reduction_pct,
        n_without`, as in `LiteResult.table`, on rows that were not used to choose.
    methods : one line per size and method asked for: `per_dimension, method, fitted, reason` (why it could not be
        fitted, else null).
    """

    methods: pl.DataFrame
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "lite_curve"
    title: ClassVar[str] = "Subsets of several sizes"

    def sheet(self) -> Sheet:
        """One line per size and method."""
        return self.on_sheet(_readable(self.table))

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


#: Heading of `n_without`, and what the captions say of it.
_WITHOUT = "Rows without a solved task"
_WITHOUT_WORDS = (
    f"{_WITHOUT}: over all splits, rows that solve none of the chosen tasks of a dimension. Random is the mean over "
    f"{RANDOM_DRAWS} draws in each split."
)


def _readable(table: pl.DataFrame) -> pl.DataFrame:
    """As `readable`; numbers of rows are whole, but for the means over random draws."""
    rows = pl.col("n_without").map_elements(whole, return_dtype=pl.String)
    return readable(table.with_columns(rows)).rename({heading("n_without"): _WITHOUT})


@estimator
def lite(
    study: Any,
    per_dimension: Annotated[int, inside] = PER_DIMENSION,
    *,
    method: Annotated[str | Sequence[str], inside] = "item_response",
    splits: Annotated[int, inside] = SPLITS,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> LiteResult:
    """Choose a few tasks per dimension that give nearly the full score, and check the choice on unseen rows.

    Methods

    - random: any tasks. Always computed, since the others are held against it.
    - greedy (the paper's): within a dimension, add the task that brings the mean over the chosen tasks nearest to the
      full score (mean absolute error over rows).
    - exhaustive: of all subsets of a dimension's tasks, the one with the least mean squared error.
    - ridge and item_response: estimates from the tasks that tell most about a new row under an item-response model
      (`cilab.stats.methods.item_response.choose_informative`) fitted to the rows at hand. Choosing by what errs least
      on these very rows, as greedy does, fits their noise: an estimate from greedy tasks errs more on unseen rows.
    - ridge: the mean over the chosen tasks plus a linear correction that ridge regression learns from the rows at
      hand, its penalty chosen by leaving one model out. A dozen rows teach it little: look at its line before using it.
    - item_response: what was seen, and for every other task its expected value under the model.

    Only public tasks are chosen, where the tasks say which are public. The full score is that of all tasks. Check:
    tasks are chosen, and estimates learned, on the rows of half of the models; the rows of the other half are scored;
    `splits` times. A model's rows (its efforts and arms) stay together.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    per_dimension : tasks chosen in each dimension.
    method : one of the above, several of them, or `all`: those that can be fitted, and in `.methods` why another
        cannot. One that is named and cannot be is refused.
    splits, seed : halvings of the models, and what they and the random subsets are drawn from.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    LiteResult

    Raises
    ------
    TableError
        Fewer than four models have a full score, a dimension has too few tasks to choose from, `exhaustive` was named
        and has more than 200,000 subsets to look at, the tasks are those of a published round; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.4, figure 11 and table 4.

    Examples
    --------
    >>> lite(cilab.datasets.simulated_release(), method="all")  # doctest: +SKIP
    """
    asked, named = _methods(method)
    _check_whole("splits", splits, 1)
    g, remarks, left = _grid(study, scope)
    methods = _fittable(g, per_dimension, asked, named)
    names = _fitted(methods)
    drawn = _splits(g, {per_dimension: names}, splits, seed).drop("per_dimension")
    chosen, read = _on_all_rows(g, names, per_dimension, seed)
    rows = pl.concat([_row_lines(g, name, chosen[name], read[name]) for name in names])
    table = _summary(drawn, names, per_dimension * len(g.slices)).with_columns(_over_all(rows, names))
    return LiteResult(
        table=table,
        tasks=pl.concat([_task_lines(g, name, chosen[name]) for name in names]),
        rows=rows,
        splits=drawn,
        methods=methods,
        seed=seed,
        remarks=(*remarks, *_left_out_words(methods), *_tau_words(drawn)),
        n_used=g.n_used,
        n_left_out=left,
        provenance=g.provenance,
        parameters=g.asked,
        caption=_caption(g, per_dimension, splits),
    )


@estimator
def lite_curve(
    study: Any,
    sizes: Annotated[Sequence[int], inside] = SIZES,
    *,
    method: Annotated[str | Sequence[str], inside] = ("greedy", "item_response"),
    splits: Annotated[int, inside] = SPLITS,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> LiteCurve:
    """Rank order and error of subsets against their size, on rows that were not used to choose.

    Parameters
    ----------
    study, method, splits, seed : as in `lite`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.
    sizes : tasks per dimension. Of the default, sizes that a dimension has too few tasks for are left out and named.

    Raises
    ------
    TableError
        No size is given; or as in `lite`.

    References
    ----------
    Collaborative-intelligence paper, figure 11a.
    """
    asked, named = _methods(method)
    _check_whole("splits", splits, 1)
    g, remarks, left = _grid(study, scope)
    if isinstance(sizes, str) or not isinstance(sizes, Collection | np.ndarray) or not len(sizes):
        raise TableError(f"sizes is {sizes!r}: give a list of numbers of tasks per dimension, such as [1, 3, 5]")
    usual = tuple(sizes) == SIZES
    by_size = {size: _fittable(g, size, asked, named) for size in sizes if not usual or _has_tasks(g, size)}
    if not by_size:
        _fittable(g, SIZES[0], asked, named)
    lines, drawn = [], _splits(g, {size: _fitted(methods) for size, methods in by_size.items()}, splits, seed)
    for size in by_size:
        n = size * len(g.slices)
        found = _summary(drawn.filter(pl.col("per_dimension") == size), _fitted(by_size[size]), n)
        lines.append(found.select(pl.lit(size, pl.Int64).alias("per_dimension"), *(c for c in _CURVE)))
    size_column = [pl.lit(size, pl.Int64).alias("per_dimension") for size in by_size]
    methods = pl.concat([m.select(column, *m.columns) for column, m in zip(size_column, by_size.values(), strict=True)])
    if gone := [size for size in sizes if size not in by_size]:
        remarks += (f"A dimension has fewer tasks than {', '.join(map(str, gone))}: these sizes are left out.",)
    words = [w for size, m in by_size.items() for w in _left_out_words(m, f" at {size} tasks per dimension")]
    return LiteCurve(
        table=pl.concat(lines),
        methods=methods,
        seed=seed,
        remarks=(*remarks, *words, *_tau_words(drawn)),
        n_used=g.n_used,
        n_left_out=left,
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Overall score from a subset against the full score, on rows not used to choose; {splits} splits. "
        f"{_WITHOUT_WORDS}",
    )


_CURVE = ("n_tasks", "method", "what", "tau", "error_points", "reduction_pct", "n_without")

# -- what is asked for ------------------------------------------------------------------------------------


def _methods(method: str | Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The methods asked for, in the order of `METHODS`, random always; and whether they were named one by one."""
    if not isinstance(method, str | Collection):
        raise TableError(f"method is {method!r}: give a name or a list of names out of {', '.join([*METHODS, 'all'])}")
    asked = [method] if isinstance(method, str) else list(method)
    if asked == ["all"]:
        return tuple(METHODS), False
    for name in asked:
        if name not in METHODS:
            choices = [*METHODS, "all"]
            raise TableError(f"method is {name!r}, not one of {', '.join(choices)}.{nearest(str(name), choices)}")
    return tuple(name for name in METHODS if name in asked or name == "random"), True


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise TableError(f"{name} is {value!r}: give a whole number of at least {least}")


def _grid(study: Any, scope: Scope) -> tuple[Grid, tuple[str, ...], dict[str, int]]:
    """The rows that have a full score, remarks, and what was left out."""
    g = grid(study, **scope)
    g.need_known_tasks("lite")
    full = bootstrap.overall_means(g.points())
    kept = np.flatnonzero(np.isfinite(full))
    models = g.rows["model"][kept].n_unique()
    if models < 4:
        raise TableError(
            f"lite: {models} model{'' if models == 1 else 's'} with a full score; choosing on half of the models and "
            "scoring the other half needs at least 4"
        )
    if len(kept) == g.rows.height:
        return g, g.notes, dict(g.n_left_out)
    gone = [g.names[r] for r in np.flatnonzero(~np.isfinite(full))]
    lost = g.runs.filter(pl.col("used") & ~pl.col("r").is_in(kept.tolist())).height
    remarks = (*g.notes, f"No full score, because a dimension has no solved task: {', '.join(gone)}.")
    left = {**g.n_left_out, **({"of rows without a full score": lost} if lost else {})}
    return replace(g.take(kept.tolist()), n_used=g.n_used - lost), remarks, left


def _candidates(g: Grid) -> Mask:
    """Which tasks may be chosen: the public ones, or all where no task says what it is."""
    public = split_mask(g, "public")
    return (public if public.any() else np.ones(len(public), bool)) & g.scored.any(axis=0)


def _has_tasks(g: Grid, size: int) -> bool:
    """Whether every dimension has so many tasks to choose from."""
    there = _candidates(g)
    return all(int(there[tasks].sum()) >= size for tasks in g.slices)


def _fittable(g: Grid, per_dimension: int, asked: Sequence[str], named: bool) -> pl.DataFrame:
    """`method, fitted, reason` of the methods asked for; one that was named and cannot be fitted is refused.

    Raises
    ------
    TableError
        A dimension has too few tasks for any method, or for one that was named there are too many subsets.
    """
    _check_whole("per_dimension", per_dimension, 1)
    there = _candidates(g)
    reasons: dict[str, str | None] = dict.fromkeys(asked)
    for name, tasks in zip(g.dimensions, g.slices, strict=True):
        n = int(there[tasks].sum())
        if n < per_dimension:
            raise TableError(f"lite: {name} has {n} tasks to choose from, fewer than per_dimension = {per_dimension}")
        if "exhaustive" in asked and math.comb(n, per_dimension) > MAX_SUBSETS:
            why = f"{name} has {math.comb(n, per_dimension):,} subsets of {per_dimension} of {n} tasks"
            if named:
                raise TableError(f"lite: {why}, too many for exhaustive; take greedy or item_response")
            reasons["exhaustive"] = reasons["exhaustive"] or f"{why}, more than {MAX_SUBSETS:,}"
    return pl.DataFrame(
        [(name, why is None, why) for name, why in reasons.items()],
        schema={"method": pl.String, "fitted": pl.Boolean, "reason": pl.String},
        orient="row",
    )


def _fitted(methods: pl.DataFrame) -> tuple[str, ...]:
    return tuple(methods.filter("fitted")["method"])


def _left_out_words(methods: pl.DataFrame, where: str = "") -> list[str]:
    """A sentence on each method that could not be fitted."""
    return [f"Without {m}{where}: {why}." for m, fitted, why in methods.rows() if not fitted]


def _tau_words(drawn: pl.DataFrame) -> list[str]:
    """A sentence where splits have too few rows for a rank order."""
    few = drawn.filter(pl.col("n_rows") < LEAST_ROWS)
    if not few.height:
        return []
    which = "No split has" if few.height == drawn.height else "Some splits do not have"
    return [f"{which} the {LEAST_ROWS} scored rows that a rank order takes: tau is not defined there."]


# -- choosing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cells:
    """What a choice knows: values (rows, tasks) with NaN where a task does not count, and which may be chosen."""

    values: Array
    slices: tuple[slice, ...]
    may: Mask
    models: NDArray[Any]

    def rows(self, which: Mask) -> Cells:
        """Some of the rows."""
        return replace(self, values=self.values[which], models=self.models[which])

    def full(self) -> Array:
        """Dimension scores on all tasks, shape (rows, dimensions)."""
        return means(self.values, [np.arange(s.start, s.stop) for s in self.slices])

    def places(self, tasks: slice) -> Places:
        """Places of the tasks of a dimension that may be chosen."""
        return np.flatnonzero(self.may[tasks]) + tasks.start


def _cells(g: Grid) -> Cells:
    return Cells(np.where(g.scored, g.values, np.nan), g.slices, _candidates(g), g.rows["model"].to_numpy())


def means(values: Array, chosen: Sequence[Places]) -> Array:
    """Mean over the chosen tasks of each dimension, shape (rows, dimensions); NaN where a row solves none of them."""
    starts = np.cumsum([0, *map(len, chosen[:-1])])
    taken = values[:, np.concatenate(chosen)]
    there = ~np.isnan(taken)
    sums = np.add.reduceat(np.where(there, taken, 0.0), starts, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / np.add.reduceat(there.astype(float), starts, axis=1)


def choose_random(cells: Cells, k: int, rng: np.random.Generator) -> list[Places]:
    """`k` tasks of each dimension, any with the same chance."""
    return [np.sort(rng.choice(cells.places(s), size=k, replace=False)) for s in cells.slices]


def choose_greedy(cells: Cells, k: int) -> list[Places]:
    """`k` tasks of each dimension, one after the other, each the best beside those before it."""
    return [_greedy(cells.values, full, cells.places(s), k) for s, full in _targets(cells)]


def _targets(cells: Cells) -> list[tuple[slice, Array]]:
    return list(zip(cells.slices, cells.full().T, strict=True))


def _greedy(values: Array, full: Array, places: Places, k: int) -> Places:
    there = ~np.isnan(values[:, places])
    y = np.where(there, values[:, places], 0.0)
    sums, counts = np.zeros((len(y), 1)), np.zeros((len(y), 1))
    picked: list[int] = []
    for _ in range(k):
        error = np.abs(_errors(sums + y, counts + there, full[:, None], axis=0))
        absolute, squared = np.round(error.mean(axis=0), _TIE), np.round((error**2).mean(axis=0), _TIE)
        absolute[picked] = np.inf
        best = int(np.lexsort((squared, absolute))[0])
        picked.append(best)
        sums, counts = sums + y[:, [best]], counts + there[:, [best]]
    return places[picked]


def _errors(sums: Array, counts: Array, full: Array, axis: int) -> Array:
    """Subset mean minus full score; a row without a solved task in the subset can only be guessed, at the mean row."""
    guess = full.mean(axis=axis, keepdims=True) - full
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts - full, guess)


def choose_exhaustive(cells: Cells, k: int) -> list[Places]:
    """The best `k` tasks of each dimension, of all subsets (mean squared error over rows)."""
    return [_exhaustive(cells.values, full, cells.places(s), k) for s, full in _targets(cells)]


def _exhaustive(values: Array, full: Array, places: Places, k: int) -> Places:
    subsets = _subsets(len(places), k)
    there = ~np.isnan(values[:, places])
    y = np.where(there, values[:, places], 0.0)
    total = np.zeros(len(subsets))
    guess = full.mean() - full
    # Row by row and place by place: gathering k numbers a subset is quicker than a product with 0 and 1.
    for r in range(len(y)):
        sums, counts = y[r][subsets[:, 0]], there[r][subsets[:, 0]].astype(float)
        for column in subsets.T[1:]:
            sums = sums + y[r][column]
            counts += there[r][column]
        with np.errstate(invalid="ignore", divide="ignore"):
            total += np.where(counts > 0, sums / counts - full[r], guess[r]) ** 2
    return places[subsets[int(np.argmin(np.round(total / len(y), _TIE)))]]


@functools.lru_cache(maxsize=8)
def _subsets(n: int, k: int) -> NDArray[np.int64]:
    """All subsets of k of n, shape (n over k, k)."""
    flat = itertools.chain.from_iterable(itertools.combinations(range(n), k))
    return np.fromiter(flat, dtype=np.int64, count=k * math.comb(n, k)).reshape(-1, k)


# -- reading a row's scores off the chosen tasks ----------------------------------------------------------


def read_ridge(seen: Cells, new: Array, chosen: Sequence[Places]) -> Array:
    """The mean over the chosen tasks, corrected by ridge regression on them; shape (rows, dimensions).

    The weights shrink to those of the mean and not to 0. A task that a row does not solve alone stands at its mean.
    """
    tasks = np.concatenate(chosen)
    there = ~np.isnan(seen.values[:, tasks])
    counts = there.sum(axis=0)
    level = np.where(counts > 0, np.where(there, seen.values[:, tasks], 0.0).sum(axis=0) / np.maximum(counts, 1), 0.5)
    a, b = (np.where(np.isnan(v[:, tasks]), level, v[:, tasks]) for v in (seen.values, new))
    bounds = np.cumsum([0, *(len(c) for c in chosen)])
    old, raw = (np.stack([x[:, i:j].mean(axis=1) for i, j in itertools.pairwise(bounds)], axis=1) for x in (a, b))
    target = seen.full() - old
    middle = a.mean(axis=0)
    kernel, across = (a - middle) @ (a - middle).T, (b - middle) @ (a - middle).T
    penalty = _penalty(kernel, target, seen.models)
    slope = np.linalg.solve(kernel + penalty * np.eye(len(a)), target - target.mean(axis=0))
    return raw + target.mean(axis=0) + across @ slope


def _penalty(kernel: Array, target: Array, models: NDArray[Any]) -> float:
    """The penalty with the least squared error of the overall score when each model is left out in turn."""
    n = len(kernel)
    scale = max(float(np.trace(kernel)) / n, 1e-9)
    groups = [np.flatnonzero(models == m) for m in np.unique(models)]
    best, found = np.inf, _PENALTIES[-1] * scale
    if len(groups) < 2:
        return found
    for factor in _PENALTIES:
        hat = kernel @ np.linalg.inv(kernel + factor * scale * np.eye(n)) + 1 / n
        residual = target - hat @ target
        error = 0.0
        for rows in groups:
            out = np.linalg.solve(np.eye(len(rows)) - hat[np.ix_(rows, rows)], residual[rows])
            error += float((out.mean(axis=1) ** 2).sum())
        if error < best - 1e-12:
            best, found = error, factor * scale
    return found


@dataclass(eq=False)
class _Learned:
    """What is learned from some rows: choices and models, each once however many methods and sizes use it."""

    seen: Cells
    largest: int

    def __post_init__(self) -> None:
        self._made: dict[str, Any] = {}

    def chosen(self, how: str, k: int, rng: np.random.Generator) -> list[Places]:
        """`k` tasks each, by `greedy`, `exhaustive` or `informative` (once), or at `random` (anew at every call)."""
        if how == "random":
            return choose_random(self.seen, k, rng)
        if how == "greedy":  # one task after the other: few are the first ones of many
            return [tasks[:k] for tasks in self._once(how, lambda: choose_greedy(self.seen, self.largest))]
        if how == "exhaustive":
            return self._once(f"{how} {k}", lambda: choose_exhaustive(self.seen, k))
        return self._once(f"{how} {k}", lambda: choose_informative(self._model(), k, self.seen.may))

    def read(self, new: Array, chosen: Sequence[Places], how: str) -> Array:
        """Dimension scores of new rows."""
        if how == "ridge":
            return read_ridge(self.seen, new, chosen)
        if how == "item_response":
            return estimate_scores(self._model(), new, np.concatenate(chosen))
        return means(new, chosen)

    def _model(self) -> ItemResponse:
        return self._once("model", lambda: fit_item_response(self.seen.values, self.seen.slices))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


# -- the check on unseen rows -----------------------------------------------------------------------------

_SPLITS = {
    "per_dimension": pl.Int64,
    "method": pl.String,
    "split": pl.Int64,
    "tau": pl.Float64,
    "error_points": pl.Float64,
    "max_error_points": pl.Float64,
    "n_rows": pl.Int64,
    "n_without": pl.Int64,
}


def halves(models: NDArray[Any], splits: int, rng: np.random.Generator) -> list[Mask]:
    """Rows of a random half of the models, `splits` times; all rows of a model are on the same side."""
    names = np.unique(models)
    return [np.isin(models, rng.permutation(names)[: len(names) // 2]) for _ in range(splits)]


def _splits(g: Grid, sizes: Mapping[int, Sequence[str]], splits: int, seed: int) -> pl.DataFrame:
    """One line per size, method and split; for random, one per drawn subset. `sizes` names the methods of each.

    Halves and random subsets have streams of their own, so that a method more or less changes no other's numbers.
    """
    cells = _cells(g)
    drawn = halves(cells.models, splits, np.random.default_rng((seed, 0)))
    one = functools.partial(_split, cells, cells.full().mean(axis=1), sizes, seed)
    lines = [line for some in each(one, enumerate(drawn)) for line in some]
    return pl.DataFrame(lines, schema=_SPLITS, orient="row")


def _split(
    cells: Cells, full: Array, sizes: Mapping[int, Sequence[str]], seed: int, numbered: tuple[int, Mask]
) -> list[tuple[Any, ...]]:
    """Lines of one split: what is chosen on its half, scored on the other one."""
    i, half = numbered
    learned = _Learned(cells.rows(half), max(sizes))
    new, lines = cells.values[~half], []
    for k, names in sizes.items():
        rng = np.random.default_rng((seed, 1, i))
        for name in names:
            choose, read = METHODS[name]
            for _ in range(RANDOM_DRAWS if choose == "random" else 1):
                chosen = learned.chosen(choose, k, rng)
                overall = learned.read(new, chosen, read).mean(axis=1)
                without = int(np.isnan(means(new, chosen)).any(axis=1).sum())
                lines.append((k, name, i, *_agreement(overall, full[~half]), without))
    return lines


def _agreement(found: Array, full: Array) -> tuple[float | None, float | None, float | None, int]:
    """(tau-b, mean and greatest absolute error in points, rows) over the rows that have a subset score."""
    there = np.isfinite(found)
    ranked = there.sum() >= LEAST_ROWS
    if not there.any():
        return None, None, None, 0
    error = 100 * np.abs(found - full)[there]
    tau = kendall_tau_b(found[there], full[there]).estimate if ranked else None
    return tau, bootstrap.exact_mean(error), float(error.max()), int(there.sum())


def _summary(drawn: pl.DataFrame, names: Sequence[str], n_tasks: int) -> pl.DataFrame:
    """Means over splits, one line per method."""
    found = {
        row["method"]: row
        for row in drawn.group_by("method")
        .agg(pl.col("tau").mean(), pl.col("error_points").mean(), pl.col("n_without").sum())
        .iter_rows(named=True)
    }
    random = found["random"]["error_points"]
    draws = {name: RANDOM_DRAWS if name == "random" else 1 for name in names}
    lines = [
        {
            "method": name,
            "what": "score" if METHODS[name][1] == "mean" else "estimate",
            "n_tasks": n_tasks,
            "tau": found[name]["tau"],
            "error_points": found[name]["error_points"],
            "reduction_pct": _reduction(found[name]["error_points"], random),
            "n_without": found[name]["n_without"] / draws[name],
        }
        for name in names
    ]
    schema = {"method": pl.String, "what": pl.String, "n_tasks": pl.Int64}
    schema |= dict.fromkeys(("tau", "error_points", "reduction_pct", "n_without"), pl.Float64)
    return pl.DataFrame(lines, schema=schema, orient="row")


def _reduction(error: float | None, random: float | None) -> float | None:
    return None if error is None or not random else 100 * (1 - error / random)


# -- the subset itself, chosen on all rows ----------------------------------------------------------------


def _on_all_rows(g: Grid, names: Sequence[str], k: int, seed: int) -> tuple[dict[str, list[Places]], dict[str, Array]]:
    cells = _cells(g)
    learned, rng = _Learned(cells, k), np.random.default_rng((seed, 2))
    chosen = {name: learned.chosen(METHODS[name][0], k, rng) for name in names}
    return chosen, {name: learned.read(cells.values, chosen[name], METHODS[name][1]) for name in names}


def _task_lines(g: Grid, name: str, chosen: Sequence[Places]) -> pl.DataFrame:
    tasks = np.concatenate(chosen)
    place = np.concatenate([np.arange(1, len(c) + 1) for c in chosen])
    return g.tasks[tasks].select(
        pl.lit(name).alias("method"), "dimension", pl.Series("place", place), "task_id", "source_family"
    )


def _row_lines(g: Grid, name: str, chosen: Sequence[Places], read: Array) -> pl.DataFrame:
    cells = _cells(g)
    full, found = 100 * cells.full().mean(axis=1), 100 * read.mean(axis=1)
    raw = means(cells.values, chosen)
    return g.rows.select(
        pl.lit(name).alias("method"),
        *g.rows.columns,
        pl.Series("full_pct", full),
        pl.Series("lite_pct", found).fill_nan(None),
        pl.Series("error_points", found - full).fill_nan(None),
        pl.Series("n_solved", g.scored[:, np.concatenate(chosen)].sum(axis=1), dtype=pl.Int64),
        pl.Series("n_dimensions_without", np.isnan(raw).sum(axis=1), dtype=pl.Int64),
    )


def _over_all(rows: pl.DataFrame, names: Sequence[str]) -> list[pl.Series]:
    """tau_all, rho_all, error_all_points, max_error_all_points of each method."""
    columns: dict[str, list[float | None]] = {
        c: [] for c in ("tau_all", "rho_all", "error_all_points", "max_error_all_points")
    }
    for name in names:
        there = rows.filter((pl.col("method") == name) & pl.col("lite_pct").is_not_null())
        x, y = there["lite_pct"].to_numpy(), there["full_pct"].to_numpy()
        tau, error, greatest, _ = _agreement(x / 100, y / 100)
        rho = spearman(x, y).estimate if len(x) >= LEAST_ROWS else None
        for column, value in zip(columns, (tau, rho, error, greatest), strict=True):
            columns[column].append(value)
    return [pl.Series(name, values, dtype=pl.Float64) for name, values in columns.items()]


def _caption(g: Grid, k: int, splits: int) -> str:
    models = g.rows["model"].n_unique()
    return (
        f"{k} tasks per dimension. Tau, error and its reduction against random subsets are of the overall score "
        f"(points), on the rows of the half of {models} models that was not used to choose; mean of {splits} splits. "
        f"{_WITHOUT_WORDS}"
    )
