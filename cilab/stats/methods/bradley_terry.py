"""Abilities from won, lost and tied comparisons (Bradley and Terry; Davidson), with a ridge, order effect, intervals.

May import `cilab.core`. Knows no run: records or counts in, abilities out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, choice, nearest
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import checked_level
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.distributions import normal_quantile
from cilab.stats.methods.row_task_model import expit

Ties = Literal["davidson", "half", "drop"]

_STEPS, _TOLERANCE = 200, 1e-10


@dataclass(frozen=True, slots=True)
class Difference:
    """The log-odds that one player beats another.

    Attributes
    ----------
    log_odds : given that the two do not tie; with ties as half wins, of the mean result.
    se, lo, hi : standard error and the interval at `ci_level` (normal approximation); None where the comparisons have
        no spread to tell it from, with the `reason`.
    """

    log_odds: float
    se: float | None
    lo: float | None
    hi: float | None
    ci_level: float
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class BradleyTerry:
    """Log abilities: of a comparison that is no tie, P(a beats b) = 1 / (1 + exp(-(ability a - ability b))).

    Attributes
    ----------
    table : one line per player: `player, log_ability, se` (against the reference of its part; 0 for the reference; null
        where nothing tells it), `part` (number of its part: abilities compare within a part only), `wins, losses,
        ties` as they were, whatever became of ties.
    exists : the estimate exists for all players: one part.
    reason : why it does not; None where it does.
    order_effect, order_effect_se : log-odds that standing first adds (None where it was not asked for).
    tie_parameter : Davidson's nu: two equal players tie with probability nu / (2 + nu). 0 where nobody tied; None with
        other `ties`, or where no estimate exists.
    covariance : of the log abilities against the references, shape (players, players) in the order of `table`; 0
        between parts, NaN where nothing tells it.
    deviance : of the records as given, against one probability each; None where no estimate exists.
    ties : what became of ties: `davidson`, `half` or `drop`.
    ridge : the penalty's weight; 0 is maximum likelihood.
    n_comparisons, n_ties : counts; ties as they were, whatever became of them.
    """

    table: pl.DataFrame
    exists: bool
    reason: str | None
    order_effect: float | None
    order_effect_se: float | None
    tie_parameter: float | None
    covariance: Array
    deviance: float | None
    ties: Ties
    ridge: float
    n_comparisons: float
    n_ties: float

    def difference(self, a: str, b: str, *, ci_level: float = CI_LEVEL) -> Difference:
        """Log-odds that `a` beats `b`, with standard error and interval.

        Raises
        ------
        TableError
            A name is unknown, or the two are in different parts, between which the data say nothing finite.
        """
        level = checked_level(ci_level)
        names = self.table["player"].to_list()
        for name in (a, b):
            if name not in names:
                raise TableError(f"no player {name!r} in these comparisons.{nearest(name, names)}")
        i, j = names.index(a), names.index(b)
        ability, part = self.table["log_ability"], self.table["part"]
        if part[i] != part[j]:
            raise TableError(f"no estimate of {a} against {b}: {self.reason}")
        change = ability[i] - ability[j]
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        if i == j:
            return Difference(0.0, None, None, None, level, "a player against itself")
        if not variance > 0:
            return Difference(change, None, None, None, level, "the comparisons have no spread")
        se = math.sqrt(variance)
        half = normal_quantile(0.5 + level / 2) * se
        return Difference(change, se, change - half, change + half, level)


def bradley_terry(
    records: Any,
    *,
    ridge: float = 0.0,
    ties: Ties = "davidson",
    order_effect: bool = False,
    reference: str | None = None,
) -> BradleyTerry:
    """Bradley-Terry log abilities by maximum likelihood (Newton's method), or with a ridge penalty.

    Parameters
    ----------
    records : DataFrame (polars or pandas) or sequence of tuples `first, second, first_wins, second_wins` and, where
        there are ties, `ties`. Counts; several records of one pair are fine.
    ridge : weight of the penalty ridge / 2 * sum of squared log abilities (centred). With one above 0 an estimate
        always exists (but in Davidson's model from ties alone), also across players who never met: there it says that
        they are alike, not that they were compared.
    ties : `davidson` models them, P(a wins) : P(b wins) : P(tie) = exp(d / 2) : exp(-d / 2) : nu, so that d is the
        log-odds that a beats b given that they do not tie. `half` counts a tie as half a win for each: then d is the
        log-odds of the mean result, and its standard error is the robust one (sandwich, HC0), since half wins are no
        coin flips. `drop` leaves ties out. Without ties all three are the same.
    order_effect : estimate what standing first (playing at home) adds to d, too.
    reference : the player with log ability 0; default the first by name. Other parts take their own first by name.

    Returns
    -------
    BradleyTerry
        The maximum-likelihood estimate exists if and only if, however the players are split in two, some of each side
        beat some of the other (Ford, 1957). In Davidson's model a tie does for both sides, if somewhere a circle of
        comparisons holds more wins than ties (two who beat each other are one): else abilities can grow with nu for
        ever. Where that fails, each largest set in which it holds is a part with its own estimates, from the
        comparisons within it, and `reason` says what stands between the parts.

    Raises
    ------
    TableError
        No comparison, a count that is negative or no number, a player against itself, an unknown reference, or an
        order effect without a finite estimate.

    References
    ----------
    Bradley and Terry, Biometrika 39, 1952; Davidson, Journal of the American Statistical Association 65, 1970.

    Examples
    --------
    >>> two = bradley_terry([("a", "b", 2, 1)])
    >>> round(two.difference("a", "b").log_odds, 4)
    0.6931
    >>> tied = bradley_terry([("a", "b", 5, 1, 2754)]).difference("a", "b")
    >>> round(tied.log_odds, 3), round(tied.se, 3)
    (1.609, 1.095)
    """
    choice("ties", ties, ("davidson", "half", "drop"))
    if not np.isfinite(ridge) or ridge < 0:
        raise TableError(f"ridge is {ridge!r}: give 0 (maximum likelihood) or a positive number")
    names, ij, counts = _records(records)
    wins, tied = counts[:, :2], counts[:, 2] if ties == "davidson" else np.zeros(len(counts))
    halves = counts[:, 2] if ties == "half" else np.zeros(len(counts))
    if not wins.sum() and not (tied + halves).sum():
        raise TableError("comparisons: every one is a tie, and ties are dropped; nothing is left")
    if reference is not None and reference not in names:
        raise TableError(f"no player {reference!r} in these comparisons.{nearest(reference, names)}")
    part, reason = np.zeros(len(names), int), None
    if ridge == 0:
        part, reason = parts(names, ij, wins + halves[:, None] / 2, tied)
    elif tied.sum() and not wins.sum():
        part, reason = np.arange(len(names)), _ALL_TIED
    if order_effect and reason is not None:
        raise TableError(f"no order effect can be estimated: {reason}; pass ridge=0.1 or leave order_effect out")
    ability, covariance = np.zeros(len(names)), np.zeros((len(names), len(names)))
    effect: tuple[float | None, float | None] = (None, None)
    deviance = tie_parameter = None
    for k in range(part.max() + 1):
        own = np.flatnonzero(part == k)
        base = int(np.searchsorted(own, names.index(reference))) if reference in [names[i] for i in own] else 0
        inside = np.isin(ij, own).all(axis=1)
        if len(own) > 1:
            record = _Record(len(own), np.searchsorted(own, ij[inside]), wins[inside], tied[inside], halves[inside])
            fitted = record.fit(ridge, order_effect, base)
            ability[own], covariance[np.ix_(own, own)], effect = fitted.ability, fitted.covariance, fitted.effect
            if reason is None:
                deviance = record.deviance(fitted)
                tie_parameter = fitted.nu if ties == "davidson" else None
    won, lost = _won_and_lost(len(names), ij, counts)
    table = pl.DataFrame(
        {
            "player": names,
            "log_ability": ability,
            "se": np.sqrt(np.diag(covariance)),
            "part": part,
            "wins": won,
            "losses": lost,
            "ties": _per_player(len(names), ij, counts[:, 2]),
        }
    ).with_columns(pl.col("part").cast(pl.Int64), pl.col("se").fill_nan(None))
    return BradleyTerry(
        table=table,
        exists=reason is None,
        reason=reason,
        order_effect=effect[0] if order_effect else None,
        order_effect_se=effect[1] if order_effect else None,
        tie_parameter=tie_parameter,
        covariance=covariance,
        deviance=deviance,
        ties=ties,
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


def _per_player(n: int, ij: NDArray[np.int64], counts: Array) -> Array:
    return np.bincount(ij.ravel(), weights=np.repeat(counts, 2), minlength=n).astype(float)


# -- where an estimate exists -----------------------------------------------------------------------------

_ALL_TIED = "every comparison is a tie, and no win says who is ahead"
_NO_CIRCLE = "no circle of comparisons holds more wins than ties (two who beat each other are one): no finite estimate"


def parts(
    names: Sequence[str], ij: NDArray[np.int64], wins: Array, tied: Array
) -> tuple[NDArray[np.int64], str | None]:
    """Number of each player's part, by the first name in it, and why there are several.

    `tied` are the ties that Davidson's model reads; where there are none, or they are half wins, it is all 0.
    """
    n = len(names)
    beats, met = _win_matrix(n, ij, wins), _win_matrix(n, ij, np.column_stack([tied, tied]))
    part = _strong(beats + met)
    why = []
    for k in range(part.max() + 1):
        own = np.flatnonzero(part == k)
        if met[np.ix_(own, own)].any() and not _bounded(beats[np.ix_(own, own)], met[np.ix_(own, own)]):
            # Without a circle of wins everybody is a part: the players of this one get numbers of their own.
            part[own[1:]] = part.max() + 1 + np.arange(len(own) - 1)
            why = [_NO_CIRCLE if beats.any() else _ALL_TIED]
    part = _by_first(part)
    if part.max() == 0:
        return part, None
    return part, " and ".join(dict.fromkeys([*_apart(names, beats + met, part), *why]))


def exists(beats: Array, tied: Array) -> bool:
    """Whether all players have a finite estimate: win matrix and symmetric matrix of ties, shape (n, n)."""
    from scipy.sparse.csgraph import connected_components

    if connected_components(beats > 0, connection="strong")[0] == 1:
        return True
    if not tied.any() or connected_components(beats + tied > 0, connection="strong")[0] > 1:
        return False
    return _bounded(beats, tied)


def _strong(beats: Array) -> NDArray[np.int64]:
    from scipy.sparse.csgraph import connected_components

    return _by_first(connected_components(beats > 0, directed=True, connection="strong")[1])


def _by_first(part: NDArray[Any]) -> NDArray[np.int64]:
    """Parts numbered by the first player in each."""
    _, first, inverse = np.unique(part, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def _bounded(beats: Array, tied: Array) -> bool:
    """Whether nu, and with it the distances between players who tie, has a finite estimate.

    The likelihood rises without end where nu and abilities grow together: abilities with winners at least 2 above
    losers and players who tied at most 2 apart (in units of log nu). There are such if and only if the graph of these
    bounds has no circle of negative length, which a circle of wins and ties with more wins than ties is.
    """
    n = len(beats)
    length = np.where(tied > 0, 2.0, np.inf)  # ability of the column at most so far above that of the row
    length = np.where(beats > 0, -2.0, length)  # the loser, in the column, at least 2 below the winner
    reach = np.zeros(n)
    for _ in range(n):
        shorter = np.minimum(reach, (reach[:, None] + length).min(axis=0))
        if (shorter == reach).all():
            return False
        reach = shorter
    return True


def _apart(names: Sequence[str], beats: Array, part: NDArray[np.int64]) -> list[str]:
    """What stands between parts."""
    from scipy.sparse.csgraph import connected_components

    n_linked, linked = connected_components(beats > 0, directed=False)
    reasons = []
    if n_linked > 1:
        groups = [_listed([names[i] for i in np.flatnonzero(linked == k)]) for k in range(n_linked)]
        reasons.append(f"{n_linked} groups were never compared with one another ({' | '.join(groups)})")
    ends = [
        f"{_listed([names[i] for i in np.flatnonzero(part == k)])} {words}"
        for k in range(part.max() + 1)
        for words in _one_sided(beats, part == k)
    ]
    if ends:
        reasons.append(f"maximum likelihood puts an infinite distance between some: {'; '.join(ends[:4])}")
    return reasons


def _one_sided(beats: Array, own: NDArray[np.bool_]) -> list[str]:
    won, lost = beats[own][:, ~own].any(), beats[~own][:, own].any()
    if won == lost:
        return []
    return ["never lost to the others"] if won else ["never beat the others"]


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# -- one set of records -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fit:
    """Log abilities against player `base`, their covariance, nu, and (order effect, its error)."""

    ability: Array
    covariance: Array
    nu: float
    effect: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class _Record:
    """Comparisons of `n` players within one part: positions (m, 2), wins of either (m, 2), ties and half wins (m,)."""

    n: int
    ij: NDArray[np.int64]
    wins: Array
    tied: Array
    halves: Array

    def fit(self, ridge: float, order_effect: bool, base: int) -> _Fit:
        """By Newton's method."""
        n, m = self.n, len(self.ij)
        x = np.zeros((m, n + order_effect))
        x[np.arange(m), self.ij[:, 0]] = 1.0
        x[np.arange(m), self.ij[:, 1]] = -1.0
        score = self.wins + self.halves[:, None] / 2
        if order_effect:
            x[:, -1] = 1.0
            _refuse_separated_order(x, score, self.tied)
        beta, log_nu, information = self._newton(x, score, ridge)
        covariance = np.linalg.inv(information)
        if self.halves.any():
            p = expit(x @ beta[: x.shape[1]])
            spread = self.wins[:, 0] * (1 - p) ** 2 + self.wins[:, 1] * p**2 + self.halves * (0.5 - p) ** 2
            covariance = covariance @ ((x * spread[:, None]).T @ x) @ covariance
        k = len(beta)
        against = np.eye(k)[:n] - np.eye(k)[base]
        of_abilities = against @ covariance[:k, :k] @ against.T
        # Rounding leaves a trace where the comparisons do not differ at all.
        of_abilities[np.abs(of_abilities) < 1e-12 * max(1.0, np.abs(covariance).max())] = 0.0
        blind = np.flatnonzero(np.diag(of_abilities) <= 0)
        blind = blind[blind != base]
        of_abilities[blind, :] = of_abilities[:, blind] = np.nan
        effect = (float(beta[-1]), float(np.sqrt(covariance[k - 1, k - 1]))) if order_effect else (None, None)
        return _Fit(beta[:n] - beta[base], of_abilities, float(np.exp(log_nu)) if self.tied.any() else 0.0, effect)

    def _newton(self, x: Array, score: Array, ridge: float) -> tuple[Array, float, Array]:
        """Coefficients, log nu, and the information with the sum of abilities pinned."""
        k, modelled = x.shape[1], bool(self.tied.any())
        total = score.sum(axis=1) + self.tied
        centre, pin = (np.zeros((k + modelled, k + modelled)) for _ in range(2))
        centre[: self.n, : self.n] = np.eye(self.n) - 1.0 / self.n
        # The likelihood is flat along a shift of all abilities: pinning their sum costs it nothing.
        pin[: self.n, : self.n] = 1.0
        theta = np.zeros(k + modelled)
        value = self._log_likelihood(x, score, theta)
        for _ in range(_STEPS):
            first, second, tie = _chances(x @ theta[:k], float(theta[k]) if modelled else -math.inf)
            slope = np.zeros(k + modelled)
            if modelled:
                slope[:k] = x.T @ (score[:, 0] - score[:, 1] - total * (first - second)) / 2
                slope[k] = (self.tied - total * tie).sum()
                information = _information(x, total, first, second, tie)
            else:
                slope = x.T @ (score[:, 0] - total * first)
                information = (x * (total * first * second)[:, None]).T @ x
            slope = slope - ridge * centre @ theta
            information = information + ridge * centre
            step = np.linalg.solve(information + pin, slope)
            scale = 1.0
            while scale > 1e-8:
                new = theta + scale * step
                new_value = self._log_likelihood(x, score, new) - 0.5 * ridge * new @ centre @ new
                if new_value >= value - 1e-10 * abs(value):
                    break
                scale /= 2
            theta, value = new, new_value
            if np.abs(step).max() < _TOLERANCE:
                break
        else:
            raise TableError("Bradley-Terry: Newton's method did not come to rest; pass ridge=0.1")
        return theta[:k], float(theta[k]) if modelled else -math.inf, information + pin

    def _log_likelihood(self, x: Array, score: Array, theta: Array) -> float:
        eta = x @ theta[: x.shape[1]]
        if not self.tied.any():
            return float((score[:, 0] * eta - score.sum(axis=1) * np.logaddexp(0.0, eta)).sum())
        log_nu = theta[x.shape[1]]
        below = np.logaddexp(np.logaddexp(eta / 2, -eta / 2), log_nu)
        won = (score[:, 0] - score[:, 1]) * eta / 2 + self.tied * log_nu
        return float((won - (score.sum(axis=1) + self.tied) * below).sum())

    def deviance(self, fit: _Fit) -> float:
        """Twice the log-likelihood that one probability per record would add."""
        eta = fit.ability[self.ij[:, 0]] - fit.ability[self.ij[:, 1]] + (fit.effect[0] or 0.0)
        observed = np.column_stack([self.wins + self.halves[:, None] / 2, self.tied])
        chances = np.column_stack(_chances(eta, math.log(fit.nu) if fit.nu else -np.inf))
        model = observed.sum(axis=1, keepdims=True) * chances
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(observed > 0, observed * np.log(observed / model), 0.0)
        return float(2 * terms.sum())


def _chances(eta: Array, log_nu: float) -> tuple[Array, Array, Array]:
    """Of a win of the first, of the second, and of a tie."""
    decided = expit(-(log_nu - np.logaddexp(eta / 2, -eta / 2))) if log_nu > -np.inf else np.ones_like(eta)
    first = expit(eta)
    return decided * first, decided * (1 - first), 1 - decided


def _information(x: Array, total: Array, first: Array, second: Array, tie: Array) -> Array:
    """Expected information of coefficients and log nu in Davidson's model."""
    k = x.shape[1]
    out = np.empty((k + 1, k + 1))
    out[:k, :k] = (x * (total * (first + second - (first - second) ** 2) / 4)[:, None]).T @ x
    out[:k, k] = out[k, :k] = -x.T @ (total * (first - second) * tie) / 2
    out[k, k] = (total * tie * (1 - tie)).sum()
    return out


def _refuse_separated_order(x: Array, wins: Array, tied: Array) -> None:
    """Refuse where some direction of the parameters predicts every comparison: there is no finite estimate."""
    from scipy.optimize import linprog

    sides = np.vstack([x[wins[:, 0] > 0], -x[wins[:, 1] > 0]])
    if tied.any():  # the last parameter is twice log nu: above it for a win, between it and its opposite for a tie
        even = x[tied > 0]
        above, below = np.column_stack([sides, -np.ones(len(sides))]), np.ones((len(even), 1))
        sides = np.vstack([np.column_stack([sides, np.zeros(len(sides))]), above])
        sides = np.vstack([sides, np.column_stack([-even, below]), np.column_stack([even, below])])
    found = linprog(-sides.sum(axis=0), A_ub=-sides, b_ub=np.zeros(len(sides)), bounds=[(-1, 1)] * sides.shape[1])
    if found.status == 0 and -found.fun > 1e-7:
        raise TableError(
            "Bradley-Terry: standing first, with the players' abilities, predicts every comparison, so the order "
            "effect has no finite estimate; leave order_effect out"
        )


# -- many sets at once ------------------------------------------------------------------------------------


def newton_together(beats: Array, tied: Array, ridge: float) -> Array:
    """Centred log abilities of many sets of comparisons at once, shape (B, n).

    Parameters
    ----------
    beats : win matrices, shape (B, n, n); half wins are in them.
    tied : symmetric matrices of the ties that Davidson's model reads, the same shape.
    ridge : as in `bradley_terry`.
    """
    with_ties = np.asarray(tied.any(axis=(1, 2)))
    out = np.empty(beats.shape[:2])
    for which, modelled in ((with_ties, True), (~with_ties, False)):
        if which.any():
            out[which] = _newton_together(beats[which], tied[which], ridge, modelled)
    return out


def _newton_together(beats: Array, tied: Array, ridge: float, modelled: bool) -> Array:
    b, n = beats.shape[:2]
    games = beats + beats.transpose(0, 2, 1) + tied
    ahead = beats.sum(axis=2) - beats.sum(axis=1)
    theta = np.zeros((b, n + modelled))
    centre = np.eye(n) - 1.0 / n
    at = np.arange(n)
    information = np.empty((b, n + modelled, n + modelled))
    slope = np.empty((b, n + modelled))
    for _ in range(_STEPS):
        ability = theta[:, :n]
        eta = ability[:, :, None] - ability[:, None, :]
        log_nu = theta[:, n, None, None] if modelled else None
        decided = 1.0 if log_nu is None else expit(np.logaddexp(eta / 2, -eta / 2) - log_nu)
        lead = decided * np.tanh(eta / 2)  # chance of a win minus that of a loss
        slope[:, :n] = (ahead - (games * lead).sum(axis=2)) / 2 - ridge * ability @ centre
        spread = games * (decided - lead**2) / 4
        information[:, :n, :n] = -spread + 1.0 / n + ridge * centre
        information[:, at, at] += spread.sum(axis=2)
        if modelled:
            slope[:, n] = (tied - games * (1 - decided)).sum(axis=(1, 2)) / 2
            information[:, :n, n] = information[:, n, :n] = -(games * lead * (1 - decided)).sum(axis=2) / 2
            information[:, n, n] = (games * decided * (1 - decided)).sum(axis=(1, 2)) / 2
        step = np.linalg.solve(information, slope[:, :, None])[:, :, 0]
        # Shorter than Newton's where that would leap, which keeps a near-separated resample from running away.
        step *= np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        theta += step
        if np.abs(step).max() < 1e-8:
            return theta[:, :n] - theta[:, :n].mean(axis=1, keepdims=True)
    raise TableError("Bradley-Terry: a resample did not come to rest; pass ridge=0.1")
