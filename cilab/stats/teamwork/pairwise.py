"""Bradley-Terry ratings: from any comparisons, and of a study's rows on the tasks that both solve alone.

May import `cilab.core` and its own folder. Where no estimate exists it gives none and says why: it
never returns the numbers at which an algorithm happened to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, nearest
from cilab.results.names import row_names
from cilab.results.result import Result, number, readable
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.hypothesis_tests import kendall_tau_b
from cilab.stats.methods.ratings import MOST_UNDEFINED, check_level, check_seed
from cilab.stats.methods.row_task_model import expit
from cilab.stats.teamwork.grid import ROW, Grid, check_choice, grid
from cilab.stats.teamwork.scores import shared_ranks

Ties = Literal["half", "drop"]

_STEPS, _TOLERANCE = 200, 1e-10
#: Two scores closer than this are a tie.
_SAME = 1e-9


# -- comparisons ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BradleyTerry:
    """Log abilities: P(a beats b) = 1 / (1 + exp(-(ability a - ability b))).

    Attributes
    ----------
    table : one line per player: `player, log_ability, se` (against the reference of its part; 0 for the reference),
        `part` (number of its part: abilities compare within a part only), `wins, losses` (a tie is half of each).
    exists : the estimate exists for all players: one part.
    reason : why it does not; None where it does.
    order_effect, order_effect_se : log-odds that standing first adds (None where it was not asked for).
    deviance : of the records as given, against one probability each; None where no estimate exists.
    ridge : the penalty's weight; 0 is maximum likelihood.
    n_comparisons, n_ties : counts; ties as they were, whatever became of them.
    """

    table: pl.DataFrame
    exists: bool
    reason: str | None
    order_effect: float | None
    order_effect_se: float | None
    deviance: float | None
    ridge: float
    n_comparisons: float
    n_ties: float

    def difference(self, a: str, b: str) -> float:
        """Log-odds that `a` beats `b`.

        Raises
        ------
        TableError
            A name is unknown, or the two are in different parts, between which the data say nothing finite.
        """
        known = {p: (x, part) for p, x, part in self.table.select("player", "log_ability", "part").iter_rows()}
        for name in (a, b):
            if name not in known:
                raise TableError(f"no player {name!r} in these comparisons.{nearest(name, list(known))}")
        if known[a][1] != known[b][1]:
            raise TableError(f"no estimate of {a} against {b}: {self.reason}")
        return known[a][0] - known[b][0]


def bradley_terry(
    records: Any,
    *,
    ridge: float = 0.0,
    ties: Ties = "half",
    order_effect: bool = False,
    reference: str | None = None,
) -> BradleyTerry:
    """Bradley-Terry log abilities by maximum likelihood (Newton's method), or with a ridge penalty.

    Parameters
    ----------
    records : DataFrame (polars or pandas) or sequence of tuples `first, second, first_wins, second_wins` and, where
        there are ties, `ties`. Counts; several records of one pair are fine.
    ridge : weight of the penalty ridge / 2 * sum of squared log abilities (centred). With one above 0 an estimate
        always exists, also across players who never met: there it says that they are alike, not that they were
        compared.
    ties : a tie is `half` a win for each, or dropped (`drop`). Counted either way.
    order_effect : estimate what standing first (playing at home) adds, too.
    reference : the player with log ability 0; default the first by name. Other parts take their own first by name.

    Returns
    -------
    BradleyTerry
        The maximum-likelihood estimate exists if and only if, however the players are split in two, some of each side
        beat some of the other (Ford, 1957). Where that fails, each largest set in which it holds is a part with its
        own estimates, from the comparisons within it, and `reason` says what stands between the parts.

    Raises
    ------
    TableError
        No comparison, a count that is negative or no number, a player against itself, an unknown reference, or an
        order effect without a finite estimate.

    Examples
    --------
    >>> two = bradley_terry([("a", "b", 2, 1)])
    >>> round(two.difference("a", "b"), 4)
    0.6931
    """
    check_choice("ties", ties, ("half", "drop"))
    if not np.isfinite(ridge) or ridge < 0:
        raise TableError(f"ridge is {ridge!r}: give 0 (maximum likelihood) or a positive number")
    names, ij, counts = _records(records)
    wins = counts[:, :2] + (0.5 * counts[:, 2:] if ties == "half" else 0.0)
    if not wins.sum():
        raise TableError("comparisons: every one is a tie, and ties are dropped; nothing is left")
    if reference is not None and reference not in names:
        raise TableError(f"no player {reference!r} in these comparisons.{nearest(reference, names)}")
    part, reason = _parts(names, _win_matrix(len(names), ij, wins)) if ridge == 0 else (np.zeros(len(names), int), None)
    if order_effect and reason is not None:
        raise TableError(f"no order effect can be estimated: {reason}; pass ridge=0.1 or leave order_effect out")
    ability, se = np.zeros(len(names)), np.zeros(len(names))
    effect: tuple[float | None, float | None] = (None, None)
    deviance = None
    for k in range(part.max() + 1):
        own = np.flatnonzero(part == k)
        base = int(np.searchsorted(own, names.index(reference))) if reference in [names[i] for i in own] else 0
        inside = np.isin(ij, own).all(axis=1)
        if len(own) > 1:
            place = np.searchsorted(own, ij[inside])
            fitted = _newton(len(own), place, wins[inside], ridge, order_effect, base)
            ability[own], se[own], effect = fitted[0], fitted[1], fitted[2]
            if reason is None:
                deviance = _deviance(place, wins[inside], fitted[0], effect[0] or 0.0)
    won, lost = _won_and_lost(len(names), ij, wins)
    table = pl.DataFrame(
        {"player": names, "log_ability": ability, "se": se, "part": part, "wins": won, "losses": lost}
    ).with_columns(pl.col("part").cast(pl.Int64))
    return BradleyTerry(
        table=table,
        exists=reason is None,
        reason=reason,
        order_effect=effect[0] if order_effect else None,
        order_effect_se=effect[1] if order_effect else None,
        deviance=deviance,
        ridge=float(ridge),
        n_comparisons=float(counts.sum()),
        n_ties=float(counts[:, 2].sum()),
    )


def _records(records: Any) -> tuple[list[str], NDArray[np.int64], Array]:
    """Names by alphabet, positions of first and second (n, 2), and wins of either and ties (n, 3)."""
    if type(records).__module__.partition(".")[0] in ("pandas", "polars"):
        frame = records.collect() if isinstance(records, pl.LazyFrame) else records
        lines = list(frame.rows() if isinstance(frame, pl.DataFrame) else frame.itertuples(index=False, name=None))
    else:
        lines = [tuple(line) for line in records]
    if not lines:
        raise TableError("comparisons: there is none; give records of first, second, first_wins, second_wins")
    if any(len(line) not in (4, 5) for line in lines):
        raise TableError("comparisons: each is first, second, first_wins, second_wins and, if there are any, ties")
    try:
        counts = np.array([[*line[2:], 0.0][:3] for line in lines], dtype=float)
    except (TypeError, ValueError):
        raise TableError("comparisons: wins and ties must be numbers") from None
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise TableError("comparisons: wins and ties must be numbers of at least 0; what is not known is left out")
    names = sorted({str(name) for line in lines for name in line[:2]})
    place = {name: i for i, name in enumerate(names)}
    ij = np.array([[place[str(name)] for name in line[:2]] for line in lines])
    if (ij[:, 0] == ij[:, 1]).any():
        raise TableError(f"comparisons: {names[ij[ij[:, 0] == ij[:, 1]][0, 0]]} is compared with itself")
    return names, ij, counts


def _win_matrix(n: int, ij: NDArray[np.int64], wins: Array) -> Array:
    """How often row i beat column j."""
    out = np.zeros((n, n))
    np.add.at(out, (ij[:, 0], ij[:, 1]), wins[:, 0])
    np.add.at(out, (ij[:, 1], ij[:, 0]), wins[:, 1])
    return out


def _won_and_lost(n: int, ij: NDArray[np.int64], wins: Array) -> tuple[Array, Array]:
    matrix = _win_matrix(n, ij, wins)
    return matrix.sum(axis=1), matrix.sum(axis=0)


def _parts(names: Sequence[str], beats: Array) -> tuple[NDArray[np.int64], str | None]:
    """Number of each player's part, by the first name in it, and why there are several."""
    from scipy.sparse.csgraph import connected_components

    n_linked, linked = connected_components(beats > 0, directed=False)
    n_strong, strong = connected_components(beats > 0, directed=True, connection="strong")
    first = {int(k): i for i, k in reversed(list(enumerate(strong)))}
    order = {k: at for at, k in enumerate(sorted(first, key=first.__getitem__))}
    part = np.array([order[int(k)] for k in strong])
    if n_strong == 1:
        return part, None
    reasons = []
    if n_linked > 1:
        groups = [_listed([names[i] for i in np.flatnonzero(linked == k)]) for k in range(n_linked)]
        reasons.append(f"{n_linked} groups were never compared with one another ({' | '.join(groups)})")
    if n_strong > n_linked:
        ends = [
            f"{_listed([names[i] for i in np.flatnonzero(part == k)])} {words}"
            for k in range(n_strong)
            for words in _one_sided(beats, part == k)
        ]
        reasons.append(f"maximum likelihood puts an infinite distance between some: {'; '.join(ends[:4])}")
    return part, " and ".join(reasons)


def _one_sided(beats: Array, own: NDArray[np.bool_]) -> list[str]:
    won, lost = beats[own][:, ~own].any(), beats[~own][:, own].any()
    if won == lost:
        return []
    return ["never lost to the others"] if won else ["never beat the others"]


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _newton(
    n: int, ij: NDArray[np.int64], wins: Array, ridge: float, order_effect: bool, base: int
) -> tuple[Array, Array, tuple[float | None, float | None]]:
    """Log abilities and standard errors against player `base`; (order effect, its error)."""
    x = np.zeros((len(ij), n + order_effect))
    x[np.arange(len(ij)), ij[:, 0]] = 1.0
    x[np.arange(len(ij)), ij[:, 1]] = -1.0
    if order_effect:
        x[:, -1] = 1.0
        _refuse_separated_order(x, wins)
    total = wins.sum(axis=1)
    centre = np.zeros((x.shape[1], x.shape[1]))
    centre[:n, :n] = np.eye(n) - 1.0 / n
    # The likelihood is flat along a shift of all abilities: pinning their sum costs it nothing.
    pin = np.zeros_like(centre)
    pin[:n, :n] = 1.0
    beta = np.zeros(x.shape[1])
    value = _log_likelihood(x @ beta, wins)
    for _ in range(_STEPS):
        p = expit(x @ beta)
        slope = x.T @ (wins[:, 0] - total * p) - ridge * centre @ beta
        information = (x * (total * p * (1 - p))[:, None]).T @ x + ridge * centre
        step = np.linalg.solve(information + pin, slope)
        scale = 1.0
        while scale > 1e-8:
            new = beta + scale * step
            new_value = _log_likelihood(x @ new, wins) - 0.5 * ridge * new @ centre @ new
            if new_value >= value - 1e-10 * abs(value):
                break
            scale /= 2
        beta, value = new, new_value
        if np.abs(step).max() < _TOLERANCE:
            break
    else:
        raise TableError("Bradley-Terry: Newton's method did not come to rest; pass ridge=0.1")
    covariance = np.linalg.inv(information + pin)
    against = np.eye(len(beta))[:n] - np.eye(len(beta))[base]
    se = np.sqrt(np.clip(np.einsum("ij,jk,ik->i", against, covariance, against), 0.0, None))
    effect = (float(beta[-1]), float(np.sqrt(covariance[-1, -1]))) if order_effect else (None, None)
    return beta[:n] - beta[base], se, effect


def _log_likelihood(eta: Array, wins: Array) -> float:
    return float((wins[:, 0] * eta - wins.sum(axis=1) * np.logaddexp(0.0, eta)).sum())


def _deviance(ij: NDArray[np.int64], wins: Array, ability: Array, effect: float) -> float:
    """Twice the log-likelihood that one probability per record would add."""
    expected = expit(ability[ij[:, 0]] - ability[ij[:, 1]] + effect)
    total = wins.sum(axis=1)
    observed = np.column_stack([wins[:, 0], wins[:, 1]])
    model = np.column_stack([total * expected, total * (1 - expected)])
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(observed > 0, observed * np.log(observed / model), 0.0)
    return float(2 * terms.sum())


def _refuse_separated_order(x: Array, wins: Array) -> None:
    """Refuse where some direction of the parameters predicts every comparison: there is no finite estimate."""
    from scipy.optimize import linprog

    sides = np.vstack([x[wins[:, 0] > 0], -x[wins[:, 1] > 0]])
    found = linprog(-sides.sum(axis=0), A_ub=-sides, b_ub=np.zeros(len(sides)), bounds=[(-1, 1)] * x.shape[1])
    if found.status == 0 and -found.fun > 1e-7:
        raise TableError(
            "Bradley-Terry: standing first, with the players' abilities, predicts every comparison, so the order "
            "effect has no finite estimate; leave order_effect out"
        )


# -- a study's rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class PairwiseResult(Result):
    """Bradley-Terry rating of rows beside their leaderboard rank.

    Attributes
    ----------
    table : one line per row, best first: `model, effort, arm, rating_rank, log_ability, lo, hi` (log-odds against the
        average row of its part), `part`, `score_rank, rank_change` (positive: the rating ranks it lower), `wins,
        losses` (a tie is half of each), `n_comparisons`.
    estimate : the underlying `BradleyTerry`.
    kendall_tau_b : between rating and overall score; None where a rating or a score is missing.
    n_undefined : resamples without a finite estimate, left out of the intervals.
    """

    estimate: BradleyTerry
    kendall_tau_b: float | None
    n_undefined: int
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    title: ClassVar[str] = "Pairwise rating on commonly solved tasks"

    def display(self) -> pl.DataFrame:
        """One line per row, best first; wins and losses are whole or halves."""
        named = row_names(self.table.select(ROW).rows())
        names = pl.Series("row", [named[key] for key in self.table.select(ROW).rows()], dtype=pl.String)
        one = self.table["part"].n_unique() == 1
        columns = [c for c in self.table.columns if c not in (*ROW, "lo", "hi") and not (one and c == "part")]
        ends = pl.Series(
            [
                "–" if lo is None or hi is None else f"{number(lo, 3)} to {number(hi, 3)}"
                for lo, hi in self.table.select("lo", "hi").iter_rows()
            ],
            dtype=pl.String,
        )
        halves = pl.col("wins", "losses").map_elements(_halves, return_dtype=pl.String)
        shown = self.table.with_columns(halves).select(names, *columns)
        shown.insert_column(shown.get_column_index("log_ability") + 1, ends.alias("interval"))
        return readable(shown)

    def notes(self) -> list[str]:
        """As in `Result`, and where no estimate exists."""
        out = super().notes()
        more = [*self.remarks]
        if not self.estimate.exists:
            more.append(f"No single rating exists: {self.estimate.reason}. Log abilities compare within a part only.")
        if self.n_undefined:
            more.append(f"{self.n_undefined:,} of {self.resamples:,} resamples have no estimate and are left out.")
        return [*out[:-1], *more, out[-1]]


def _halves(value: float) -> str:
    return number(value, 0 if value == round(value) else 1)


def pairwise(
    study: Any,
    *,
    ridge: float = 0.0,
    ties: Ties = "half",
    resamples: int = RESAMPLES_OTHER,
    seed: int = 0,
    ci_level: float = 0.95,
    **settings: Any,
) -> PairwiseResult:
    """A rating fitted only to pairwise comparisons, on the tasks that both rows solve alone.

    On each such task the row with the higher mean test score wins. Every comparison counts alike, so that a
    dimension in which more tasks are solved weighs more than in the overall score.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    ridge, ties : see `bradley_terry`.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension; the comparisons on one task are not
        independent, so that the model's own standard errors are too small.
    settings : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    PairwiseResult
        Intervals are null where more than 5 % of the resamples, or the data themselves, have no estimate.

    Raises
    ------
    TableError
        One row only, no common task, only dropped ties, published task ids, or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.3.
    """
    bootstrap.check_resamples(resamples)
    check_seed(seed)
    check_level(ci_level)
    g = grid(study, **settings)
    g.need_known_tasks("pairwise")
    if g.rows.height < 2:
        raise TableError("pairwise compares rows, and these runs have one only")
    wins, tied = _task_wins(g)
    records = _pair_records(g.names, wins, tied)
    if not records:
        raise TableError("pairwise: no task is solved alone and scored for two rows, so there is nothing to compare")
    estimate = bradley_terry(records, ridge=ridge, ties=ties)
    matrix = wins + (0.5 * tied if ties == "half" else 0.0)
    draws = _resampled(matrix, g, ridge, resamples, seed) if estimate.exists else np.full((1, g.rows.height), np.nan)
    table = _pairwise_table(g, estimate, matrix, draws, ci_level)
    both = table.filter(pl.col("score_rank").is_not_null())
    tau = kendall_tau_b(both["log_ability"], -both["score_rank"]).estimate if estimate.exists else None
    return PairwiseResult(
        table=table,
        estimate=estimate,
        kendall_tau_b=tau,
        n_undefined=int(np.isnan(draws[:, 0]).sum()) if estimate.exists else 0,
        resamples=resamples,
        seed=seed,
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={
            **g.asked,
            "ridge": ridge,
            "ties": ties,
            "resamples": resamples,
            "seed": seed,
            "ci_level": ci_level,
        },
        caption=f"Log-odds against the average row; {100 * ci_level:g}% intervals, tasks resampled within dimension.",
    )


def _task_wins(g: Grid) -> tuple[Array, Array]:
    """Whether row i beats row j on a task, and whether they tie; shape (T, R, R), 0 where one has no score."""
    values = np.where(g.scored, g.values, np.nan).T
    difference = values[:, :, None] - values[:, None, :]
    with np.errstate(invalid="ignore"):
        tied = np.abs(difference) <= _SAME
        won = difference > _SAME
    at = np.arange(values.shape[1])
    tied[:, at, at] = False
    return won.astype(float), tied.astype(float)


def _pair_records(names: Sequence[str], wins: Array, tied: Array) -> list[tuple[str, str, float, float, float]]:
    won, ties = wins.sum(axis=0), tied.sum(axis=0)
    i, j = np.triu_indices(len(names), 1)
    records = [(names[a], names[b], won[a, b], won[b, a], ties[a, b]) for a, b in zip(i, j, strict=True)]
    met = {name for a, b, *counts in records if sum(counts) for name in (a, b)}
    # A row that meets nobody stays, as a part of its own.
    return [r for r in records if sum(r[2:]) or not {r[0], r[1]} <= met] if met else []


def _resampled(wins: Array, g: Grid, ridge: float, resamples: int, seed: int) -> Array:
    """Centred log abilities in every resample, shape (resamples, R); NaN where there is no estimate."""
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(seed)
    n = g.rows.height
    total = np.zeros((resamples, n * n))
    for tasks in g.slices:
        total += bootstrap.draw_counts(tasks.stop - tasks.start, resamples, rng) @ wins[tasks].reshape(-1, n * n)
    beats = total.reshape(resamples, n, n)
    sound = np.ones(resamples, bool)
    if ridge == 0:
        sound = np.array([connected_components(b > 0, connection="strong")[0] == 1 for b in beats])
    out = np.full((resamples, n), np.nan)
    if sound.any():
        out[sound] = _newton_together(beats[sound], ridge)
    return out


def _newton_together(beats: Array, ridge: float) -> Array:
    """Centred log abilities of many win matrices at once, shape (B, n)."""
    n = beats.shape[1]
    games = beats + beats.transpose(0, 2, 1)
    won = beats.sum(axis=2)
    ability = np.zeros(won.shape)
    centre = np.eye(n) - 1.0 / n
    for _ in range(_STEPS):
        p = expit(ability[:, :, None] - ability[:, None, :])
        spread = games * p * (1 - p)
        slope = won - (games * p).sum(axis=2) - ridge * ability @ centre
        information = -spread + 1.0 / n + ridge * centre
        information[:, np.arange(n), np.arange(n)] += spread.sum(axis=2)
        step = np.linalg.solve(information, slope[:, :, None])[:, :, 0]
        # Shorter than Newton's where that would leap, which keeps a near-separated resample from running away.
        step *= np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        ability += step
        if np.abs(step).max() < 1e-8:
            return ability - ability.mean(axis=1, keepdims=True)
    raise TableError("Bradley-Terry: a resample did not come to rest; pass ridge=0.1")


def _pairwise_table(g: Grid, estimate: BradleyTerry, matrix: Array, draws: Array, ci_level: float) -> pl.DataFrame:
    found = {row["player"]: row for row in estimate.table.iter_rows(named=True)}
    ability = np.array([found[name]["log_ability"] for name in g.names])
    part = np.array([found[name]["part"] for name in g.names])
    for k in np.unique(part):
        ability[part == k] -= ability[part == k].mean()
    enough = np.isnan(draws[:, 0]).mean() <= MOST_UNDEFINED
    lo, hi = bootstrap.percentile_interval(draws, ci_level) if enough else np.full((2, len(ability)), np.nan)
    total = matrix.sum(axis=0)
    rating_rank = shared_ranks(ability) if estimate.exists else [None] * len(ability)
    score_rank = shared_ranks(bootstrap.overall_means(g.points()))
    change = [None if a is None or b is None else a - b for a, b in zip(rating_rank, score_rank, strict=True)]
    columns = {
        "rating_rank": pl.Series(rating_rank, dtype=pl.Int64),
        "log_ability": ability,
        "lo": pl.Series(lo).fill_nan(None),
        "hi": pl.Series(hi).fill_nan(None),
        "part": part,
        "score_rank": pl.Series(score_rank, dtype=pl.Int64),
        "rank_change": pl.Series(change, dtype=pl.Int64),
        "wins": total.sum(axis=1),
        "losses": total.sum(axis=0),
        "n_comparisons": pl.Series((total + total.T).sum(axis=1)).round().cast(pl.Int64),
    }
    lines = g.rows.select(ROW).with_columns(**columns)
    return lines.sort("part", "log_ability", descending=[False, True], maintain_order=True)
