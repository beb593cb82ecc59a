"""Abilities from won and lost comparisons (Bradley and Terry, 1952), with a ridge, order effect and intervals.

May import `cilab.core`. Knows no run: records or counts in, abilities out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, choice, nearest
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.row_task_model import expit

Ties = Literal["half", "drop"]

_STEPS, _TOLERANCE = 200, 1e-10


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
    choice("ties", ties, ("half", "drop"))
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


def newton_together(beats: Array, ridge: float) -> Array:
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
