"""Variance components of crossed and nested random effects by restricted maximum likelihood (REML), cells missing too.

May import numpy, scipy, `cilab.core` and `cilab.stats.methods.distributions`. Knows codes of factors, no study: what a
row, a task or a seed is, the caller knows. Draws nothing at random and imputes nothing.

How
    Innermost effects (a cell, and a run within it) are absorbed in closed form; the other effects stand in the mixed
    model equations, which fall into blocks (what belongs to one dimension) and a border (what spans several). The
    deviance is that of Bates, Maechler, Bolker and Walker (2015), profiled over the residual variance, so that one
    evaluation costs a Cholesky factor of each block. Estimates at the border are 0 and are given as 0.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.stats.methods.distributions import chi2_quantile

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

RESIDUAL = "residual"
#: Ratio of standard deviations, to the residual's, below which a component is 0, and the largest that is tried.
_ZERO, _LARGEST = 1e-3, 1e3
#: Degrees of freedom below which an interval is that of the profile likelihood.
_FEW = 5.0
#: Step of the second derivatives by the logarithms of variances.
_LOG_STEP = 1e-2


@dataclass(frozen=True)
class Components:
    """Estimated variance components.

    Attributes
    ----------
    variance : component -> estimate, in squared units of y; `residual` last. 0 where the likelihood is highest there.
    positive : names of the components above 0, in the order of `log_covariance`.
    log_covariance : large-sample covariance of the logarithms of the positive components, from the observed
        information; NaN where the information is not positive definite.
    profile : gives (lo, hi) of a component by profile likelihood, from its name and a level; a component at 0 has a
        one-sided bound.
    n : observations.
    deviance : the REML criterion (-2 log restricted likelihood) at the estimates, as lme4 prints it.
    """

    variance: Mapping[str, float]
    positive: tuple[str, ...]
    log_covariance: Array
    profile: Callable[[str, float], tuple[float, float]]
    n: int
    deviance: float

    def se(self, name: str) -> float | None:
        """Large-sample standard error; None at 0 and where there is none."""
        if name not in self.positive:
            return None
        at = self.positive.index(name)
        found = self.log_covariance[at, at]
        return self.variance[name] * math.sqrt(found) if np.isfinite(found) and found > 0 else None

    def is_flat(self, name: str) -> bool:
        """A component is 0, or so little is known of it that its interval is that of the profile likelihood."""
        se = self.se(name)
        return name != self.positive[-1] and (se is None or 2 * (self.variance[name] / se) ** 2 < _FEW)

    def interval(self, name: str, ci_level: float = CI_LEVEL) -> tuple[float | None, float | None]:
        """Interval of a component.

        It is Satterthwaite's: the estimate is taken as a multiple of chi-square with df = 2 (estimate / se)^2. With
        fewer than five degrees of freedom, and at 0, it is that of the profile likelihood, at 0 one-sided.
        """
        se, value = self.se(name), self.variance[name]
        if self.is_flat(name):
            return self.profile(name, ci_level)
        if se is None:
            return None, None
        df, tail = 2 * (value / se) ** 2, (1 - ci_level) / 2
        return df * value / chi2_quantile(1 - tail, df), df * value / chi2_quantile(tail, df)

    def delta(self, function: Callable[[Mapping[str, float]], float]) -> float | None:
        """Large-sample standard error of a function of the components (delta method); None where there is none."""
        if not np.isfinite(self.log_covariance).all():
            return None
        slopes = []
        for name in self.positive:
            up, down = (dict(self.variance) | {name: self.variance[name] * math.exp(h)} for h in (1e-4, -1e-4))
            slopes.append((function(up) - function(down)) / 2e-4)
        found = float(np.array(slopes) @ self.log_covariance @ np.array(slopes))
        return math.sqrt(found) if math.isfinite(found) and found >= 0 else None


def reml(
    y: Any,
    effects: Mapping[str, Any],
    *,
    cell: str | None = None,
    run: str | None = None,
    blocks: Any = None,
) -> Components:
    """Variance components of y = mean + random effects + residual, by REML.

    Parameters
    ----------
    y : observations (n,), finite.
    effects : component -> level of each observation, whole numbers from 0 (n,). Two components with the same levels
        cannot be told apart; leave one out.
    cell : name of an effect with many levels that is absorbed; every level of `run` lies within one of its levels.
    run : name of an effect within `cell` that is absorbed as well; None where each observation is a run.
    blocks : codes (n,) of a partition, such as the dimension: effects whose levels lie within one part are worked on
        part by part. Changes the time that it takes, and no number.

    Returns
    -------
    Components

    Raises
    ------
    TableError
        y does not vary, a number is missing, or the effects leave no residual.

    References
    ----------
    Patterson, H. D., & Thompson, R. (1971). Biometrika, 58, 545-554. Bates, D., Maechler, M., Bolker, B., & Walker, S.
    (2015). Journal of Statistical Software, 67(1). Satterthwaite, F. E. (1946). Biometrics Bulletin, 2, 110-114.

    Examples
    --------
    Six batches of dyestuff, five samples each (Davies, 1947): lme4 gives 1764.05 and 2451.25.

    >>> y = [1545, 1440, 1440, 1520, 1580, 1540, 1555, 1490, 1560, 1495, 1595, 1550, 1605, 1510, 1560]
    >>> y += [1445, 1440, 1595, 1465, 1545, 1595, 1630, 1515, 1635, 1625, 1520, 1455, 1450, 1480, 1445]
    >>> found = reml(y, {"batch": [i // 5 for i in range(30)]}).variance
    >>> round(found["batch"]), round(found["residual"])
    (1764, 2451)
    """
    values = np.asarray(y, float)
    codes = {name: np.asarray(of, np.int64) for name, of in effects.items()}
    if not np.isfinite(values).all():
        raise TableError("variance components: an observation is missing or no number; leave it out and count it")
    if any(len(of) != len(values) for of in codes.values()):
        raise TableError("variance components: every effect needs one level for each observation")
    spread = float(values.std())
    if len(values) < 3 or spread <= 1e-12 * max(1.0, float(np.abs(values).max())):
        raise TableError("variance components: the observations do not vary")
    names = list(codes)
    equations = _Equations((values - values.mean()) / spread, codes, cell, run, blocks)
    ratio = _at_border(equations, _minimum(equations, np.full(len(names), 0.5)))
    ratio = _polished(equations, ratio)
    residual = equations.residual(ratio)
    if residual <= 1e-10 or ratio.max(initial=0.0) >= 0.99 * _LARGEST:
        raise TableError("variance components: the effects leave no residual")
    scale = spread**2
    variance = {name: float(r**2 * residual * scale) for name, r in zip(names, ratio, strict=True)}
    variance[RESIDUAL] = float(residual * scale)
    at = np.flatnonzero(ratio > 0)

    def profile(name: str, ci_level: float) -> tuple[float, float]:
        lo, hi = _profile(equations, ratio, names.index(name), ci_level)
        return lo * scale, hi * scale

    return Components(
        variance=variance,
        positive=(*(names[i] for i in at), RESIDUAL),
        log_covariance=_log_covariance(equations, ratio, residual, at),
        profile=profile,
        n=len(values),
        deviance=float(equations.deviance(ratio)) + 2 * (len(values) - 1) * math.log(spread),
    )


def same_partition(a: Codes, b: Codes) -> bool:
    """Whether two factors part the observations alike, so that their effects cannot be told apart.

    >>> same_partition(np.array([0, 0, 1]), np.array([5, 5, 2])), same_partition(np.array([0, 1]), np.array([0, 0]))
    (True, False)
    """
    (of_a, n_a), (of_b, n_b) = _levels(a), _levels(b)
    return n_a == n_b == len(np.unique(of_a * n_b + of_b))


class _Factors(NamedTuple):
    """Cholesky factors of blocks with what they leave of the border, of the border, and y in its terms."""

    blocks: list[tuple[Array, Array]]
    edge: Array
    last: Array


class _Equations:
    """The mixed model equations as sums of constant matrices, weighted by functions of the ratios of variances."""

    def __init__(self, y: Array, codes: Mapping[str, Codes], cell: str | None, run: str | None, blocks: Any) -> None:
        self.names = list(codes)
        self.n = len(y)
        self.cell, self.run = cell, run
        outer = {name: of for name, of in codes.items() if name not in (cell, run)}
        parts = np.zeros(self.n, np.int64) if blocks is None else np.unique(np.asarray(blocks), return_inverse=True)[1]
        columns, self._where, self._of, sizes = _columns(outer, parts, [self.names.index(name) for name in outer])
        # Border: effects that span blocks, then the mean, then y itself; the last pivot is then y'Py.
        border = len(sizes) - 1
        width = sum(sizes)
        ones = np.ones(self.n)
        design = _sparse(columns, width + 2, ones, y)
        self._slices = _cut([*sizes[:-1], sizes[border] + 2])
        weights: list[tuple[Any, Any]] = [("plain", design)]
        self._patterns: list[tuple[Any, int]] = []
        runs, in_run = _levels(codes[run]) if run else (np.arange(self.n), self.n)
        per_run = np.bincount(runs, minlength=in_run)
        self._runs = Counter(per_run.tolist())
        by_run = _summed(design, runs, in_run) if run else design
        if run:
            weights += [(("run", int(k)), by_run[per_run == k]) for k in sorted(self._runs)]
        if cell:
            weights += self._cells(by_run, per_run, _of_run(codes[cell], runs, in_run))
        self._kinds = [kind for kind, _ in weights]
        grams = [_gram(matrix, self._slices) for _, matrix in weights]
        self._inner = [np.stack([g[0][b] for g in grams]) for b in range(border)]
        self._cross = [np.stack([g[1][b] for g in grams]) for b in range(border)]
        self._edge = np.stack([g[2] for g in grams])

    def _cells(self, by_run: Any, per_run: Codes, cells: Codes) -> list[tuple[Any, Any]]:
        """Sums over cells of the same make-up; a pair of sizes gives the product of their sums."""
        of, count = _levels(cells)
        sizes = sorted(set(per_run.tolist()))
        made = np.stack([np.bincount(of[per_run == k], minlength=count) for k in sizes], axis=1)
        patterns, which = np.unique(made, axis=0, return_inverse=True)
        sums = [_summed(by_run[per_run == k], of[per_run == k], count) for k in sizes]
        out = []
        for p, pattern in enumerate(patterns):
            mine = np.flatnonzero(which.reshape(-1) == p)
            self._patterns.append((tuple(zip(sizes, pattern.tolist(), strict=True)), len(mine)))
            there = [i for i, k in enumerate(pattern) if k]
            for i in there:
                for j in there:
                    if i <= j:
                        pair = sums[i][mine] if i == j else (sums[i][mine], sums[j][mine])
                        out.append((("cell", p, sizes[i], sizes[j]), pair))
        return out

    def _coefficients(self, ratio: Array) -> tuple[Array, float]:
        """Weights of the constant matrices, and the log determinant of what was absorbed."""
        u, c = self._absorbed(ratio)
        logdet = sum(times * math.log1p(k * u) for k, times in self._runs.items())
        shrunk = []
        for pattern, times in self._patterns:
            total = sum(k * n / (1 + k * u) for k, n in pattern)
            shrunk.append(c / (1 + c * total))
            logdet += times * math.log1p(c * total)
        out = []
        for kind in self._kinds:
            if kind == "plain":
                out.append(1.0)
            elif kind[0] == "run":
                out.append(-u / (1 + kind[1] * u))
            else:
                _, p, k, m = kind
                out.append(-shrunk[p] / ((1 + k * u) * (1 + m * u)))
        return np.array(out), logdet

    def _slopes_of_coefficients(self, ratio: Array) -> list[tuple[int, Array, float]]:
        """Of each ratio that was absorbed: its place, and the slopes of `_coefficients` by it."""
        u, c = self._absorbed(ratio)
        out = []
        for name in filter(None, (self.cell, self.run)):
            by_run = name == self.run
            logdet = sum(times * k / (1 + k * u) for k, times in self._runs.items()) if by_run else 0.0
            shrunk = []
            for pattern, times in self._patterns:
                total = sum(k * n / (1 + k * u) for k, n in pattern)
                moved = -sum(n * (k / (1 + k * u)) ** 2 for k, n in pattern) if by_run else 0.0
                held = 1 + c * total
                shrunk.append((c / held, -((c / held) ** 2) * moved if by_run else 1 / held**2))
                logdet += times * (c * moved if by_run else total) / held
            weights = []
            for kind in self._kinds:
                if kind == "plain":
                    weights.append(0.0)
                elif kind[0] == "run":
                    weights.append(-1 / (1 + kind[1] * u) ** 2 if by_run else 0.0)
                else:
                    _, p, k, m = kind
                    both = (1 + k * u) * (1 + m * u)
                    of_both = k * (1 + m * u) + m * (1 + k * u) if by_run else 0.0
                    weights.append(-shrunk[p][1] / both + shrunk[p][0] * of_both / both**2)
            i = self.names.index(name)
            out.append((i, 2 * ratio[i] * np.array(weights), 2 * ratio[i] * logdet))
        return out

    def _absorbed(self, ratio: Array) -> tuple[float, float]:
        """Variances of run and cell, in units of the residual's."""
        return tuple(float(ratio[self.names.index(name)] ** 2) if name else 0.0 for name in (self.run, self.cell))  # type: ignore[return-value]

    def _solved(self, ratio: Array) -> tuple[float, float, _Factors]:
        """(log determinants of the whole, y'Py, factors), with the residual variance as the unit."""
        import scipy.linalg

        weights, logdet = self._coefficients(ratio)
        lams = [ratio[of] for of in self._of]
        scale = np.concatenate([lams[-1], [1.0, 1.0]])
        edge = _weighted(weights, self._edge) * scale[:, None] * scale
        edge[np.diag_indices(len(scale) - 2)] += 1.0
        blocks = []
        for b, lam in enumerate(lams[:-1]):
            inner = _weighted(weights, self._inner[b]) * lam[:, None] * lam
            inner[np.diag_indices(len(lam))] += 1.0
            factor = scipy.linalg.cholesky(inner, lower=True, check_finite=False, overwrite_a=True)
            cross = _weighted(weights, self._cross[b]) * lam[:, None] * scale
            half = scipy.linalg.solve_triangular(factor, cross, lower=True, check_finite=False)
            logdet += 2 * float(np.log(np.diag(factor)).sum())
            edge -= half.T @ half
            blocks.append((factor, half))
        factor = scipy.linalg.cholesky(edge[:-1, :-1], lower=True, check_finite=False)
        last = scipy.linalg.solve_triangular(factor, edge[:-1, -1], lower=True, check_finite=False)
        logdet += 2 * float(np.log(np.diag(factor)).sum())
        return logdet, max(float(edge[-1, -1] - last @ last), 1e-300), _Factors(blocks, factor, last)

    def _with_slopes(self, ratio: Array) -> tuple[float, float, Array, Array]:
        """Log determinants and y'Py, and the slopes of both by the ratios.

        Of a ratio of the equations: 2 (columns - trace of the inverse) / ratio and -2 u'u / ratio, u being the effects
        predicted, in units of their standard deviation. Of one that was absorbed: by the chain rule.
        """
        import scipy.linalg

        logdet, left, made = self._solved(ratio)
        lams = [ratio[of] for of in self._of]
        scale = np.concatenate([lams[-1], [1.0, 1.0]])
        inverse = scipy.linalg.solve_triangular(made.edge, np.eye(len(made.edge)), lower=True, check_finite=False)
        at_edge = inverse.T @ made.last
        border, edge = len(lams[-1]), inverse.T @ inverse
        whole, ends = np.append(-at_edge, 1.0), []
        traces, squares = np.zeros(len(ratio)), np.zeros(len(ratio))
        np.add.at(traces, self._of[-1], 1 - np.diag(edge)[:border])
        np.add.at(squares, self._of[-1], at_edge[:border] ** 2)
        absorbed = self._slopes_of_coefficients(ratio)
        of_logdet, of_left = np.zeros(len(ratio)), np.zeros(len(ratio))
        for b, (factor, half) in enumerate(made.blocks):
            own = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
            through = own.T @ half
            cross = -through[:, :-1] @ edge
            inner = own.T @ own - cross @ through[:, :-1].T
            predicted = through[:, -1] - through[:, :-1] @ at_edge
            np.add.at(traces, self._of[b], 1 - np.diag(inner))
            np.add.at(squares, self._of[b], predicted**2)
            ends.append(predicted)
            for i, weights, _ in absorbed:
                of_inner = _weighted(weights, self._inner[b]) * lams[b][:, None] * lams[b]
                of_cross = _weighted(weights, self._cross[b]) * lams[b][:, None] * scale
                of_logdet[i] += float((inner * of_inner).sum() + 2 * (cross * of_cross[:, :-1]).sum())
                of_left[i] += float(predicted @ of_inner @ predicted - 2 * predicted @ of_cross @ whole)
        for i, weights, slope in absorbed:
            of_edge = _weighted(weights, self._edge) * scale[:, None] * scale
            of_logdet[i] += slope + float((edge * of_edge[:-1, :-1]).sum())
            of_left[i] += float(whole @ of_edge @ whole)
        positive = np.where(ratio > 0, ratio, 1.0)
        of_logdet += np.where(ratio > 0, 2 * traces / positive, 0.0)
        of_left -= np.where(ratio > 0, 2 * squares / positive, 0.0)
        return logdet, left, of_logdet, of_left

    def with_slopes(self, ratio: Array) -> tuple[float, Array]:
        """The profiled deviance and its slopes."""
        logdet, left, of_logdet, of_left = self._with_slopes(ratio)
        df = self.n - 1
        return logdet + df * (1 + math.log(2 * math.pi * left / df)), of_logdet + df * of_left / left

    def log_slopes(self, ratio: Array, residual: float) -> Array:
        """Slopes of the deviance, not profiled, by the logarithms of the variances, the residual's last."""
        _, left, of_logdet, of_left = self._with_slopes(ratio)
        by_ratio = (of_logdet + of_left / residual) * ratio / 2
        return np.append(by_ratio, self.n - 1 - left / residual - by_ratio.sum())

    def deviance(self, ratio: Array) -> float:
        """The REML criterion, profiled over the residual variance."""
        logdet, left, _ = self._solved(ratio)
        df = self.n - 1
        return logdet + df * (1 + math.log(2 * math.pi * left / df))

    def residual(self, ratio: Array) -> float:
        """The residual variance that goes with the ratios."""
        return self._solved(ratio)[1] / (self.n - 1)


def _columns(
    outer: Mapping[str, Codes], parts: Codes, numbers: list[int]
) -> tuple[list[Codes], list[int], list[Codes], list[int]]:
    """Place of each effect's level among the columns; for blocks, then the border: the effect of each column."""
    blocks = int(parts.max()) + 1 if len(parts) else 1
    of: list[list[Codes]] = [[] for _ in range(blocks + 1)]
    placed: list[tuple[int, Codes, Codes]] = []  # effect, block of each level, place within that block
    filled = [0] * (blocks + 1)
    for codes, number in zip(outer.values(), numbers, strict=True):
        level, count = _levels(codes)
        first, last = np.full(count, blocks), np.full(count, -1)
        np.minimum.at(first, level, parts)
        np.maximum.at(last, level, parts)
        home = first if (first == last).all() else np.full(count, blocks)
        place = np.empty(count, np.int64)
        for b in np.unique(home):
            mine = np.flatnonzero(home == b)
            place[mine] = filled[b] + np.arange(len(mine))
            filled[b] += len(mine)
            of[b].append(np.full(len(mine), number))
        placed.append((number, home[level], place[level]))
    starts = np.concatenate([[0], np.cumsum(filled)])
    columns = [starts[home] + place for _, home, place in placed]
    joined = [np.concatenate(o) if o else np.empty(0, np.int64) for o in of]
    return columns, numbers, joined, filled


def _levels(codes: Codes) -> tuple[Codes, int]:
    """Codes from 0 without gaps, and how many there are."""
    levels, inverse = np.unique(codes, return_inverse=True)
    return inverse.reshape(-1), len(levels)


def _sparse(columns: list[Codes], width: int, ones: Array, y: Array) -> Any:
    """The design, a line for each observation: ones for its levels, the mean, and y."""
    import scipy.sparse as sparse

    n = len(y)
    at = np.stack([*columns, np.full(n, width - 2), np.full(n, width - 1)], axis=1)
    data = np.concatenate([np.ones((n, len(columns))), ones[:, None], y[:, None]], axis=1)
    lines = np.arange(0, at.size + 1, at.shape[1])
    return sparse.csr_matrix((data.ravel(), at.ravel(), lines), shape=(n, width))


def _summed(matrix: Any, of: Codes, count: int) -> Any:
    """Lines added up by group."""
    import scipy.sparse as sparse

    n = matrix.shape[0]
    return sparse.csr_matrix((np.ones(n), (of, np.arange(n))), shape=(count, n)) @ matrix


def _of_run(cells: Codes, runs: Codes, count: int) -> Codes:
    """The cell of each run."""
    out = np.zeros(count, np.int64)
    out[runs] = cells
    if (out[runs] != cells).any():
        raise TableError("variance components: a run lies in two cells; runs are nested in cells")
    return out


def _cut(sizes: list[int]) -> list[slice]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def _gram(matrix: Any, slices: list[slice]) -> tuple[list[Array], list[Array], Array]:
    """Products of columns: within each block, of blocks with the border, within the border."""
    a, b = matrix if isinstance(matrix, tuple) else (matrix, matrix)
    product = (a.T @ b).tocsr()
    if a is not b:
        product = (product + product.T).tocsr()
    edge = slices[-1]
    inner = [product[s, s].toarray() for s in slices[:-1]]
    cross = [product[s, edge].toarray() for s in slices[:-1]]
    return inner, cross, product[edge, edge].toarray()


def _weighted(weights: Array, matrices: Array) -> Array:
    shape = matrices.shape[1:]
    return (weights @ matrices.reshape(len(weights), -1)).reshape(shape)


def _minimum(equations: _Equations, start: Array, free: NDArray[np.bool_] | None = None, within: float = 0.0) -> Array:
    """Ratios from 0 on at which the deviance is least, or about so high; those not `free` stay."""
    from scipy.optimize import minimize

    if not len(start):
        return start
    bounds = [(0.0, _LARGEST) if free is None or free[i] else (v, v) for i, v in enumerate(start)]
    found = minimize(
        equations.with_slopes,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 200, "ftol": max(1e-12, within / equations.n), "gtol": 1e-5},
    )
    return np.asarray(found.x)


def _at_border(equations: _Equations, ratio: Array) -> Array:
    """The same with components that are 0 at 0. There the slope vanishes, so 0 and what lies beside it are tried."""
    function = equations.deviance
    for _ in range(len(ratio)):
        beside = np.where(ratio < 0.05, 0.05, ratio)
        stuck = [i for i in np.flatnonzero(ratio < _ZERO) if function(_with(ratio, i, beside[i])) < function(ratio)]
        if not stuck:
            break
        for i in stuck:
            ratio = _with(ratio, i, 0.3)
        ratio = _minimum(equations, ratio)
    for i in np.flatnonzero((ratio < 0.05) & (ratio > 0)):
        if ratio[i] < _ZERO or function(_with(ratio, i, 0.0)) <= function(ratio) + 1e-6:
            ratio = _with(ratio, i, 0.0)
    return ratio


def _with(ratio: Array, i: int | np.signedinteger[Any], value: float) -> Array:
    out = ratio.copy()
    out[i] = value
    return out


def _polished(equations: _Equations, ratio: Array) -> Array:
    """The same with its positive ratios at the minimum to the last digits: Newton's method from close by."""
    at = np.flatnonzero(ratio > 0)

    def slopes(values: Array) -> Array:
        full = np.zeros(len(ratio))
        full[at] = values
        return equations.with_slopes(full)[1][at]

    values = ratio[at]
    curvature = _differences(slopes, values, 1e-3 * np.minimum(values, 1.0))
    if not len(at) or np.linalg.eigvalsh(curvature).min() <= 0:
        return ratio
    for _ in range(6):
        step = np.linalg.solve(curvature, slopes(values))
        if (np.abs(step) > 0.1 * values).any():
            return ratio
        values = values - step
        if np.abs(step).max() < 1e-12:
            break
    out = np.zeros(len(ratio))
    out[at] = values
    return out


def _differences(slopes: Callable[[Array], Array], at: Array, steps: Array) -> Array:
    """Second derivatives from central differences of slopes, symmetric."""
    moves = np.diag(steps)
    rows = [(slopes(at + m) - slopes(at - m)) / (2 * h) for m, h in zip(moves, steps, strict=True)]
    found = np.array(rows).reshape(len(at), len(at))
    return (found + found.T) / 2


def _log_covariance(equations: _Equations, ratio: Array, residual: float, at: NDArray[np.intp]) -> Array:
    """Inverse of half the deviance's second derivatives by the logarithms of the positive variances."""

    def slopes(logs: Array) -> Array:
        v = np.exp(logs)
        full = np.zeros(len(ratio))
        full[at] = np.sqrt(v[:-1] / v[-1])
        return equations.log_slopes(full, float(v[-1]))[[*at, -1]]

    logs = np.log(np.concatenate([ratio[at] ** 2 * residual, [residual]]))
    curvature = _differences(slopes, logs, np.full(len(logs), _LOG_STEP))
    if np.linalg.eigvalsh(curvature).min() <= 0:
        return np.full(curvature.shape, np.nan)
    return np.asarray(np.linalg.inv(curvature / 2))


def _profile(equations: _Equations, ratio: Array, i: int, ci_level: float) -> tuple[float, float]:
    """Where the deviance, the other components following, has risen by the quantile: below and above a variance.

    From a component at 0 it rises by the one-sided quantile, as the estimate lies at the border.
    """
    level = ci_level if ratio[i] > 0 else max(2 * ci_level - 1, 0.0)
    rise, least = chi2_quantile(level, 1), equations.deviance(ratio)
    free = (np.arange(len(ratio)) != i) & (ratio > 0)
    near = ratio

    def risen(at: float) -> float:
        nonlocal near
        # One that has come to 0 would stay there, as the slope vanishes.
        start = np.where(free, np.maximum(near, ratio / 4), near)
        near = _minimum(equations, _with(start, i, at), free, within=1e-4)
        return equations.deviance(near) - least

    def variance(at: float) -> float:
        return at**2 * equations.residual(near)

    start, low = float(ratio[i]), 0.0
    if start > 0 and risen(0.0) > rise:
        low = _crossing(risen, start, 0.6 * start, rise)
        low = low**2 * equations.residual(near)
    near = ratio
    high = _crossing(risen, start, 1.5 * start + 0.05, rise)
    return low, high**2 * equations.residual(near)


def _crossing(risen: Callable[[float], float], start: float, first: float, rise: float) -> float:
    """Where a deviance, least at `start`, has risen by `rise`, to 2 %: secants of its root, nearly straight."""
    root = math.sqrt(rise)
    (a, below), b = (start, -root), first
    for _ in range(15):
        above = math.sqrt(max(risen(b), 0.0)) - root
        if abs(above) < 0.01 * root or not 0 < b < _LARGEST:
            break
        step = -above * (b - a) / (above - below) if above != below else b - a
        furthest = 2 * abs(b - start) + 0.01
        a, below, b = b, above, min(max(b + float(np.clip(step, -furthest, furthest)), 1e-4), _LARGEST)
    return b
