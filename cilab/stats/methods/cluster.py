"""Cluster bootstrap and cluster-robust standard errors for linear and fractional logit models.

May import `cilab.core` and the rule of `cilab.stats.methods.bootstrap` on undefined replicates. Knows matrices and
cluster codes, no study: `mediation` and `disagreement` bring the meaning. Cluster-robust covariances and the logit of
all rows are those of statsmodels, imported where it is used. Fits no replicate row by row: a linear model is resampled
through its per-cluster cross-products, a logit through cells of equal rows within a cluster, and all replicates are
solved at once. Drops nothing in silence: a column without variation in a replicate is marked there, and an undefined
coefficient is NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.stats.methods.bootstrap import MOST_UNDEFINED

#: A column whose part that the columns before it do not explain is below this share of its square is redundant.
REDUNDANT = 1e-9
FEW_CLUSTERS = 10
FEW_WORDS = f"With fewer than {FEW_CLUSTERS} clusters the intervals are too narrow and the p-values too small."
#: Of a mediated effect more are needed; benchmarks/studies/few_clusters.py measures how narrow its interval is.
FEW_MEDIATED = 30
FEW_MEDIATED_WORDS = (
    f"With fewer than {FEW_MEDIATED} clusters the 95% interval of the indirect effect is somewhat narrow: simulated "
    "with 6, 10 and 20 clusters it covered 91 to 92%."
)
INTERCEPT = "intercept"

#: Replicates that are solved at once.
_CHUNK = 1000
#: Numbers in one array of the logit's replicates (32 MB).
_MOST_NUMBERS = 4_000_000
#: Multiplications below which BLAS keeps a product on one thread.
_ONE_THREAD = 250_000
#: Fitted log-odds beyond which a logit is taken to run away (a probability of 1.4e-11).
_RUNAWAY = 25.0
#: Up to here a vanishing gradient proves that the estimate exists.
_CERTAIN = 12.0
_NEWTON_STEPS = 60
#: Steps of statsmodels: log-odds of hundreds, where they exist, are reached in less than twenty.
_MOST_STEPS = 25


class FewClustersWarning(UserWarning):
    """Few clusters (below 10; of a mediated effect below 30): intervals from resampling them are too narrow."""


# --------------------------------------------------------------------------- clusters


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which row belongs to which cluster.

    Attributes
    ----------
    codes : int array (rows,), positions in `labels`.
    labels : names of the clusters, sorted, so that the draws do not depend on the order of rows.
    """

    codes: np.ndarray
    labels: tuple[Any, ...]

    @property
    def n(self) -> int:
        """Number of clusters."""
        return len(self.labels)

    def counts(self, resamples: int, seed: int) -> np.ndarray:
        """How often each cluster is drawn: float array (resamples, clusters), each row summing to `n`."""
        picks = np.random.default_rng(seed).integers(0, self.n, size=(resamples, self.n))
        picks += self.n * np.arange(resamples)[:, None]
        return np.bincount(picks.ravel(), minlength=resamples * self.n).reshape(resamples, self.n).astype(np.float64)


def clusters(labels: pl.Series) -> Clusters:
    """Clusters from a column of labels (text, whole numbers or categories).

    Raises
    ------
    TableError
        A label is missing, or there are fewer than 2 clusters.

    Examples
    --------
    >>> clusters(pl.Series("pair", ["b", "a", "b"])).codes.tolist()
    [1, 0, 1]
    """
    missing = labels.null_count() + (int(labels.is_nan().sum()) if labels.dtype.is_float() else 0)
    if missing:
        raise TableError(
            f"cluster {labels.name}: {missing} of {labels.len():,} rows have no label; "
            "give each row its cluster or leave those rows out"
        )
    plain = labels.cast(pl.String) if labels.dtype in (pl.Categorical, pl.Enum) else labels
    names, codes = np.unique(plain.to_numpy(), return_inverse=True)
    if len(names) < 2:
        raise TableError(f"cluster {labels.name}: only one cluster; resampling clusters needs at least 2")
    return Clusters(codes.reshape(-1), tuple(names.tolist()))


def warn_if_few(groups: Clusters, name: str, least: int = FEW_CLUSTERS, words: str = FEW_WORDS) -> None:
    """Issue a `FewClustersWarning` where there are fewer than `least`; to be called by what the user called."""
    if groups.n < least:
        warnings.warn(f"cluster {name}: only {groups.n} clusters. {words}", FewClustersWarning, stacklevel=4)


def complete(rows: pl.DataFrame, columns: Sequence[str], cluster: str) -> tuple[pl.DataFrame, Clusters, dict[str, int]]:
    """Rows without a missing value, their clusters, and how many rows each column cost (the first one counts).

    Raises
    ------
    TableError
        A cluster label is missing, in any row; no row is complete; fewer than 2 clusters.
    """
    groups = clusters(rows[cluster])
    if not any(
        rows[name].null_count() or (rows.schema[name].is_float() and np.isnan(rows[name].to_numpy()).any())
        for name in columns
    ):
        return rows, groups, {}
    reason = pl.lit(None, pl.String)
    for name in reversed(columns):
        missing = pl.col(name).is_null()
        if rows.schema[name].is_float():
            missing = missing | pl.col(name).is_nan()
        reason = pl.when(missing).then(pl.lit(f"without {name}")).otherwise(reason)
    reasons = rows.select(reason.alias("reason"))["reason"]
    counts = reasons.drop_nulls().value_counts(sort=True)
    left_out = dict(counts.iter_rows())
    keep = reasons.is_null()
    if not keep.any():
        listed = ", ".join(f"{n:,} {why}" for why, n in left_out.items())
        raise TableError(f"no row has every value that is needed: {listed}")
    rows = rows.filter(keep)
    return rows, clusters(rows[cluster]), left_out


# --------------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class Design:
    """Columns of a regression; the first is the intercept.

    Attributes
    ----------
    matrix : float array (rows, columns).
    predictors : per column the predictor it comes from.
    levels : per column the level that it marks; None for a number.
    reference : predictor -> level that has no column.
    """

    matrix: np.ndarray
    predictors: tuple[str, ...]
    levels: tuple[str | None, ...]
    reference: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Per column `predictor`, or `predictor=level`."""
        return tuple(p if v is None else f"{p}={v}" for p, v in zip(self.predictors, self.levels, strict=True))

    def without(self, drop: Sequence[int]) -> Design:
        """The same without the columns at the positions `drop`."""
        keep = [j for j in range(len(self.predictors)) if j not in set(drop)]
        return Design(
            self.matrix[:, keep],
            tuple(self.predictors[j] for j in keep),
            tuple(self.levels[j] for j in keep),
            self.reference,
        )


def design(rows: pl.DataFrame, predictors: Sequence[str], reference: Mapping[str, Any] | None = None) -> Design:
    """Intercept, numbers as they are, one 0/1 column per level of a text other than its reference level.

    Parameters
    ----------
    rows : without missing values in `predictors`.
    reference : text predictor -> level without a column; by default the first in the alphabet.

    Raises
    ------
    TableError
        `reference` names a predictor or a level that is not there; a predictor holds something else.
    """
    wanted = dict(reference or {})
    unknown = [name for name in wanted if name not in predictors]
    if unknown:
        raise TableError(f"reference: {unknown[0]!r} is no predictor.{nearest(str(unknown[0]), list(predictors))}")
    columns: list[np.ndarray] = [np.ones(rows.height)]
    names: list[str] = [INTERCEPT]
    levels: list[str | None] = [None]
    chosen: dict[str, str] = {}
    for name in predictors:
        column = rows[name]
        if is_text(column):
            text = column.cast(pl.String)
            there = sorted(text.unique().to_list())
            chosen[name] = _reference_level(name, there, wanted.get(name))
            others = [level for level in there if level != chosen[name]]
            columns += [(text == level).to_numpy() for level in others]
            names += [name] * len(others)
            levels += others
        elif name in wanted:
            raise TableError(f"reference: {name} holds numbers, which have no reference level")
        else:
            columns.append(numbers(column))
            names.append(name)
            levels.append(None)
    return Design(np.column_stack(columns), tuple(names), tuple(levels), chosen)


def _reference_level(name: str, there: list[str], wanted: Any) -> str:
    if wanted is None:
        return there[0]
    if str(wanted) not in there:
        raise TableError(
            f"reference: {name} has no level {str(wanted)!r}; it has {', '.join(there)}.{nearest(str(wanted), there)}"
        )
    return str(wanted)


def is_text(column: pl.Series) -> bool:
    """Whether a column holds names rather than numbers."""
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def numbers(column: pl.Series) -> np.ndarray:
    """A column of numbers or truth values as a float array; missing and NaN as NaN.

    Raises
    ------
    TableError
        It holds something else, or an infinite number.
    """
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise TableError(f"column {column.name} holds {column.dtype}, not numbers")
    values = column.cast(pl.Float64).to_numpy()
    if np.isinf(values).any():
        raise TableError(f"column {column.name} holds an infinite number")
    return values


def redundant(matrix: np.ndarray, names: Sequence[str]) -> dict[int, str]:
    """Columns that those before them explain: position -> what they follow from, in words. First the intercept."""
    return redundant_in(_gram(standardised(matrix).z), names)


def redundant_in(gram: np.ndarray, names: Sequence[str]) -> dict[int, str]:
    """As `redundant`, from the cross-products (columns, columns) of standardised columns."""
    if _well_conditioned(gram):
        return {}
    upper, kept = eliminate(gram[:, :, None].copy(), len(names))
    found = {}
    for j in np.flatnonzero(~kept[:, 0]):
        weights = np.abs(back_substitute(upper, kept, int(j), int(j))[:, 0])
        from_these = [names[i] for i in range(1, j) if weights[i] > 1e-6]
        found[int(j)] = f"is a combination of {', '.join(from_these)}" if from_these else "is constant"
    return found


def _well_conditioned(gram: np.ndarray) -> bool:
    """Whether every column has clearly more than the redundant share of its own: the quick way to say no to most."""
    try:
        pivots = np.diag(np.linalg.cholesky(gram)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > 1e4 * REDUNDANT * np.diag(gram)).all())


def refuse_single_levels(columns: Design, predictors: Sequence[str], what: str) -> None:
    """Raise TableError that names a text predictor with one level only, for which a design has no column."""
    for name in predictors:
        if name not in columns.predictors:
            raise TableError(f"{what}: {name} is {columns.reference[name]!r} in every row; leave it out")


def refuse_redundant(matrix: np.ndarray, names: Sequence[str], what: str) -> None:
    """Raise TableError that names the first redundant column and what it follows from; `what` are its kind (plural)."""
    for j, words in redundant(matrix, names).items():
        raise TableError(f"{what}: {names[j]} {words}; leave it out")


class Standardised(NamedTuple):
    """Columns `z` (rows, columns) with mean 0 and sd 1, and the `mean` and `sd` (columns,) they had.

    The first column is the intercept and stays as it is; a constant one is 0 throughout, with sd 1.
    """

    z: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    def first(self, k: int) -> Standardised:
        """The first `k` columns."""
        return Standardised(self.z[:, :k], self.mean[:k], self.sd[:k])


def standardised(matrix: np.ndarray) -> Standardised:
    """The columns of `matrix`, of which the first is the intercept, on one scale."""
    mean = matrix.mean(axis=0)
    mean[0] = 0.0
    z = matrix - mean
    sd = np.sqrt(np.einsum("ij,ij->j", z, z) / len(z))
    sd[sd <= 1e-12 * (np.abs(mean) + sd)] = 0.0
    sd[0] = 1.0
    z *= np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    return Standardised(z, mean, np.where(sd > 0, sd, 1.0))


# --------------------------------------------------------------------------- elimination of all replicates at once


def grams(z: np.ndarray, codes: np.ndarray, n: int) -> np.ndarray:
    """Cross-products of the columns of `z` (rows, q) per cluster: (pairs of columns, clusters), for `matrices`."""
    order = np.argsort(codes, kind="stable")
    ordered, bounds = z[order], np.searchsorted(codes[order], np.arange(n + 1))
    out = np.empty((n, z.shape[1], z.shape[1]))
    for c in range(n):
        part = ordered[bounds[c] : bounds[c + 1]]
        np.matmul(part.T, part, out=out[c])
    one, two = np.triu_indices(z.shape[1])
    return np.ascontiguousarray(out[:, one, two].T)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a @ b`, in blocks of columns so small that BLAS stays on one thread.

    To hand such products to several threads costs more than it saves: five times as much where others use the cores.
    """
    step = max(1, _ONE_THREAD // max(1, a.shape[0] * a.shape[1]))
    out = np.empty((a.shape[0], b.shape[1]))
    for start in range(0, b.shape[1], step):
        out[:, start : start + step] = a @ b[:, start : start + step]
    return out


def _gram(z: np.ndarray) -> np.ndarray:
    """`z.T @ z`, in blocks of rows for the same reason."""
    q = z.shape[1]
    step = max(1, _ONE_THREAD // (q * q))
    return sum((z[i : i + step].T @ z[i : i + step] for i in range(0, len(z), step)), np.zeros((q, q)))


def _pairs(z: np.ndarray) -> np.ndarray:
    """Products of every two columns of `z` (rows, q): (pairs of columns, rows)."""
    one, two = np.triu_indices(z.shape[1])
    return np.ascontiguousarray((z[:, one] * z[:, two]).T)


def matrices(pairs: np.ndarray, k: int, size: int) -> np.ndarray:
    """Pairs of k columns, (pairs, replicates), as upper triangular matrices (size, size, replicates), size >= k."""
    out = np.zeros((size, size, pairs.shape[1]))
    out[np.triu_indices(k)] = pairs
    return out


def symmetric(upper: np.ndarray) -> np.ndarray:
    """(q, q, replicates) with an upper triangle as full symmetric matrices (replicates, q, q)."""
    full = np.moveaxis(upper, 2, 0)
    return np.triu(full) + np.swapaxes(np.triu(full, 1), 1, 2)


def eliminate(gram: np.ndarray, pivots: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian elimination of the first `pivots` columns of symmetric matrices, in place.

    Parameters
    ----------
    gram : float array (q, q, replicates), positive semidefinite; only the upper triangles are read.

    Returns
    -------
    upper : `gram`, holding the upper triangular factor in its first `pivots` rows (pivots not divided out) and the
        cross-products of what is left of the other columns in its lower right block (upper triangle).
    kept : bool array (pivots, replicates)
        False where a column is redundant given those before it. Such a column is passed over.
    """
    q = gram.shape[0]
    floor = REDUNDANT * np.einsum("jjb->jb", gram)
    kept = np.empty((pivots, gram.shape[2]), bool)
    for j in range(pivots):
        pivot = gram[j, j]
        kept[j] = pivot > floor[j]
        scaled = gram[j, j + 1 :] * np.divide(1.0, pivot, out=np.zeros_like(pivot), where=kept[j])
        for i in range(j + 1, q):
            gram[i, i:] -= scaled[i - j - 1] * gram[j, i:]
    return gram, kept


def back_substitute(upper: np.ndarray, kept: np.ndarray, pivots: int, target: int) -> np.ndarray:
    """Coefficients of column `target` on the first `pivots` ones: (pivots, replicates), 0 for passed-over columns."""
    out = np.zeros((pivots, upper.shape[2]))
    for j in range(pivots - 1, -1, -1):
        rest = upper[j, target] - np.einsum("lb,lb->b", upper[j, j + 1 : pivots], out[j + 1 :])
        np.divide(rest, upper[j, j], out=out[j], where=kept[j])
    return out


def _undefined(gram: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Which coefficients rows with these cross-products (columns, columns) do not determine: bool array (columns,).

    Not only the column that elimination happens to pass over: where a reference level is never drawn, all
    levels of that predictor are undefined.
    """
    scale = np.sqrt(np.clip(np.diag(gram), 0, None))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    null = (vectors / scale[:, None])[:, values < 10 * REDUNDANT]
    null = null / np.abs(null).max(axis=0, initial=1e-300)
    null[0] -= (mean[1:] / sd[1:]) @ null[1:]
    return (np.abs(null) > 1e-5).any(axis=1)


# --------------------------------------------------------------------------- linear models


@dataclass(frozen=True, slots=True)
class LinearFit:
    """A least-squares fit with cluster-robust covariance.

    Attributes
    ----------
    coef, se : (columns,) coefficients and their cluster-robust standard errors.
    vcov : (columns, columns) cluster-robust covariance, HC1: times C / (C - 1) x (n - 1) / (n - columns).
    rss : residual sum of squares.
    """

    coef: np.ndarray
    se: np.ndarray
    vcov: np.ndarray
    rss: float


def ols(columns: Standardised, gram: np.ndarray, y: np.ndarray, groups: Clusters) -> LinearFit:
    """Least squares of `y` (rows,) on columns that are not redundant.

    From standardised columns and their cross-products `gram`; the coefficients are those of the original columns. Equal
    to R `lm` with `sandwich::vcovCL(type = "HC1")` and to statsmodels `OLS` with `cov_type="cluster"`, which takes
    three times as long, as it does not know the cross-products.
    """
    z, mean, sd = columns
    bread = np.linalg.inv(gram)
    b, residual = np.zeros(z.shape[1]), y
    for _ in range(2):  # the second round takes back the digits that the cross-products lost
        b = b + bread @ np.einsum("ij,i->j", z, residual)
        residual = y - np.einsum("ij,j->i", z, b)
    vcov = _clustered(z * residual[:, None], bread, groups.codes, groups.n, len(z))
    coef, vcov = _raw(b, vcov, mean, sd)
    return LinearFit(coef, _roots(vcov), vcov, float(residual @ residual))


def chunks(n: int, size: int = 1) -> list[slice]:
    """Slices of `n` replicates, so many at once that arrays of `size` numbers per replicate stay moderate."""
    step = max(1, min(_CHUNK, _MOST_NUMBERS // size))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _clustered(scores: np.ndarray, bread: np.ndarray, codes: np.ndarray, n_clusters: int, n: float) -> np.ndarray:
    """Cluster-robust covariance (HC1) by statsmodels, from the scores (rows or cells, columns) of `n` rows.

    The small-sample factor is ours: statsmodels would count cells, and divide by zero where there are as many columns
    as rows (then the second part is left out).
    """
    from statsmodels.stats.sandwich_covariance import cov_cluster

    k = scores.shape[1]
    factor = n_clusters / (n_clusters - 1) * ((n - 1) / (n - k) if n > k else 1.0)
    return factor * cov_cluster((scores, bread), codes, use_correction=False)


def _roots(vcov: np.ndarray) -> np.ndarray:
    """Standard errors; a variance of 0 may come out below it by rounding."""
    return np.sqrt(np.clip(np.diag(vcov), 0.0, None))


def _raw(b: np.ndarray, vcov: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and covariance on the columns' own scale."""
    back = np.diag(1.0 / sd)
    back[0, 1:] = -mean[1:] / sd[1:]
    return back @ b, back @ vcov @ back.T


# --------------------------------------------------------------------------- fractional logit


class Cells(NamedTuple):
    """Equal rows of one cluster put together.

    `x` (cells, columns); `weight`, number of rows; `total`, sum of their outcomes; `cluster`, its code.
    """

    x: np.ndarray
    weight: np.ndarray
    total: np.ndarray
    cluster: np.ndarray


def cells(matrix: np.ndarray, y: np.ndarray, groups: Clusters) -> Cells:
    """Put equal rows within a cluster together; pair-level predictors leave one cell per pair."""
    order = np.lexsort((*matrix.T, groups.codes))
    keyed = np.column_stack([groups.codes, matrix])[order]
    starts = np.flatnonzero(np.r_[True, (keyed[1:] != keyed[:-1]).any(axis=1)])
    weight = np.diff(np.r_[starts, len(y)]).astype(float)
    return Cells(keyed[starts, 1:], weight, np.add.reduceat(y[order], starts), keyed[starts, 0].astype(int))


@dataclass(frozen=True, slots=True)
class LogitFit:
    """A fractional logit with cluster-robust covariance.

    Attributes
    ----------
    coef, se : (columns,) log-odds and their cluster-robust standard errors (HC1 as in `LinearFit`).
    vcov : (columns, columns).
    separated : positions of the columns whose coefficient has no finite estimate (empty with the penalty).
    """

    coef: np.ndarray
    se: np.ndarray
    vcov: np.ndarray
    separated: tuple[int, ...]


def logit(data: Cells, groups: Clusters, *, firth: bool = False) -> LogitFit:
    """Fractional logit (quasi-likelihood of Papke and Wooldridge, 1996), by statsmodels or with Firth's penalty.

    Parameters
    ----------
    data : from `cells`; outcomes between 0 and 1; the columns of `data.x` must not be redundant.
    firth : maximise the likelihood with Jeffreys' prior (Firth, 1993), which is finite also under separation.

    Returns
    -------
    LogitFit
        With `separated` not empty the numbers are where the method was stopped, and mean nothing.
    """
    z, mean, sd = _standardised_cells(data)
    separated: tuple[int, ...] = ()
    if firth:
        b = _newton(z, data, np.ones((1, len(data.weight))), np.zeros((1, z.shape[1])), firth=True)[0][0]
    else:
        b, sure = _maximum_likelihood(z, data)
        separated = () if sure else separation(data)
    p = _expit(z @ b)
    bread = np.linalg.pinv((z * (data.weight * p * (1 - p))[:, None]).T @ z, hermitian=True)
    scores = (data.total - data.weight * p)[:, None] * z
    vcov = _clustered(scores, bread, data.cluster, groups.n, data.weight.sum())
    coef, vcov = _raw(b, vcov, mean, sd)
    return LogitFit(coef, _roots(vcov), vcov, separated)


def _maximum_likelihood(z: np.ndarray, data: Cells) -> tuple[np.ndarray, bool]:
    """Coefficients (columns,) by statsmodels, and whether it is sure that they are finite."""
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    model = GLM(data.total / data.weight, z, family=Binomial(), var_weights=data.weight)
    # What it warns of, perfect prediction and no convergence, is decided exactly by `separation`.
    with warnings.catch_warnings(action="ignore"):
        fit = model.fit(maxiter=_MOST_STEPS, tol=1e-8, tol_criterion="params")
    return fit.params, bool(fit.converged and np.abs(z @ fit.params).max() <= _CERTAIN)


def bootstrap_logit(
    data: Cells, groups: Clusters, counts: np.ndarray, start: np.ndarray, *, firth: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds in every replicate of the cluster bootstrap.

    Parameters
    ----------
    data, groups, firth : as for `logit`.
    counts : float array (replicates, clusters), from `Clusters.counts`.
    start : (columns,) where Newton's method starts: the estimate on all rows.

    Returns
    -------
    draws : float array (replicates, columns); NaN where the replicate does not determine the coefficient, and in
        whole where its data are separated.
    dropped : bool array (replicates, columns)
        The columns that were passed over as redundant.
    """
    z, mean, sd = _standardised_cells(data)
    k = z.shape[1]
    b0 = start * sd
    b0[0] = start[0] + start[1:] @ mean[1:]
    draws, dropped = np.empty((len(counts), k)), np.empty((len(counts), k), bool)
    for part in chunks(len(counts), len(z)):
        times = counts[part][:, data.cluster]
        b, sound, kept = _newton(z, data, times, np.tile(b0, (len(times), 1)), firth=firth)
        draws[part] = b / sd
        draws[part, 0] = b[:, 0] - (b[:, 1:] * (mean[1:] / sd[1:])).sum(axis=1)
        draws[part][~sound] = np.nan
        dropped[part] = ~kept
    for r in np.flatnonzero(dropped.any(axis=1)):
        weights = counts[r][data.cluster] * data.weight
        draws[r, _undefined((z * weights[:, None]).T @ z, mean, sd)] = np.nan
    return draws, dropped


def _standardised_cells(data: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `standardised`, with means and sds over rows rather than cells."""
    share = data.weight / data.weight.sum()
    mean = share @ data.x
    sd = np.sqrt(share @ (data.x - mean) ** 2)
    mean[0], sd[0] = 0.0, 1.0
    sd = np.where(sd > 0, sd, 1.0)
    return (data.x - mean) / sd, mean, sd


def _newton(
    z: np.ndarray, data: Cells, times: np.ndarray, start: np.ndarray, *, firth: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton's method in all replicates; those that are done are not touched again.

    `times` (replicates, cells) is how often a cell is drawn. Returns coefficients (replicates, columns), whether each
    replicate came to rest at finite log-odds, and which columns are not redundant in it (replicates, columns).
    """
    k = z.shape[1]
    products = _pairs(z)
    b, sound, kept = start.copy(), np.zeros(len(start), bool), np.ones(start.shape, bool)
    todo, t, eta = np.arange(len(start)), times, product(start, z.T)
    # Newton's steps shrink quadratically: after one of 1e-4 what is left is beyond the eighth digit. The penalty's
    # own curvature is not in the step, so there it is waited for.
    rest = 1e-10 if firth else 1e-4
    for step_number in range(_NEWTON_STEPS):
        p = _expit(eta)
        weight = t * data.weight
        spread = weight * p * (1 - p)
        gram = matrices(product(products, spread.T), k, k + 1)
        score = t * data.total - weight * p
        if firth:
            score += _leverages(products, spread, gram[:k, :k]) * (0.5 - p)
        gram[:k, k] = product(z.T, score.T)
        if not kept.all():
            _pass_over(gram, kept[todo].T)
        upper, solved = eliminate(gram, k)
        if step_number == 0:
            # At moderate weights a column is flat only where the drawn rows do not determine it.
            kept = solved.T.copy()
        step = back_substitute(upper, solved, k, k).T
        move = product(step, z.T)
        change = np.abs(move).max(axis=1)
        share = np.minimum(1.0, 4.0 / np.maximum(change, 1e-300))[:, None]
        b[todo] += step * share
        eta += move * share
        far = np.abs(eta).max(axis=1, where=t > 0, initial=0.0) > _RUNAWAY
        at_rest = change < rest
        # A column that later weights make flat is on its way to infinity.
        flat = (~solved.T & kept[todo]).any(axis=1)
        sound[todo] = at_rest & ~far & ~flat
        more = ~(at_rest | far | flat)
        todo, t, eta = todo[more], t[more], eta[more]
        if not len(todo):
            break
    return b, sound, kept


def _pass_over(gram: np.ndarray, kept: np.ndarray) -> None:
    """Make the step of a passed-over column 0: its row and column become 0, which elimination passes over."""
    k = len(kept)
    gram[:k] *= kept[:, None]
    gram[:, :k] *= kept[None]


def _leverages(products: np.ndarray, spread: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Sum of the hat values of a cell's rows: (replicates, cells)."""
    inverse = np.linalg.pinv(symmetric(information), hermitian=True)
    one, two = np.triu_indices(len(information))
    return spread * product(inverse[:, one, two] * np.where(one == two, 1.0, 2.0), products)


def _expit(eta: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-eta)), for which numpy takes less than half the time of scipy.special."""
    return 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700)))


def separation(data: Cells) -> tuple[int, ...]:
    """Columns along which the outcomes are separated (complete or quasi-complete): their positions, none where not.

    Decided exactly, by a linear programme: a direction that is never against an outcome of 0 or 1, level in every cell
    with both or with fractions, and not level everywhere (Albert and Anderson, 1984; Konis, 2007).
    """
    from scipy.optimize import linprog

    x = data.x / np.maximum(np.abs(data.x).max(axis=0), 1e-300)
    rows, group = np.unique(x, axis=0, return_inverse=True)
    weight = np.bincount(group.reshape(-1), data.weight, len(rows))
    total = np.bincount(group.reshape(-1), data.total, len(rows))
    slack = 1e-12 * weight
    sign = np.where(total >= weight - slack, 1.0, np.where(total <= slack, -1.0, 0.0))
    pure, mixed = rows[sign != 0] * sign[sign != 0, None], rows[sign == 0]
    if not len(pure):
        return ()
    found = linprog(
        -pure.sum(axis=0),
        A_ub=-pure,
        b_ub=np.zeros(len(pure)),
        A_eq=mixed if len(mixed) else None,
        b_eq=np.zeros(len(mixed)) if len(mixed) else None,
        bounds=[(-1.0, 1.0)] * x.shape[1],
        method="highs",
    )
    if found.x is None or -found.fun < 1e-6:
        return ()
    return tuple(int(j) for j in np.flatnonzero(np.abs(found.x) > 1e-6))


# --------------------------------------------------------------------------- what the draws say


class Summary(NamedTuple):
    """`lo`, `hi` ends of the percentile interval; `p` two-sided; `sd` of the draws; `n` draws that are defined."""

    lo: float
    hi: float
    p: float
    sd: float
    n: int


def summarise(draws: np.ndarray, ci_level: float = CI_LEVEL) -> Summary:
    """Percentile interval and p-value from the same draws.

    The ends are order statistics, the m-th from below and from above with m = B (1 - ci_level) / 2 rounded up; p is
    twice the smaller share of draws at or beyond 0, at least 2 / B. So the interval leaves out 0 exactly when p is
    below 1 - ci_level (from B = 2 / (1 - ci_level) draws on; with fewer, p can never be that small).

    Parameters
    ----------
    draws : (replicates,); undefined ones NaN, which are not counted.

    Examples
    --------
    >>> summarise(np.arange(1.0, 1001.0))[:3]
    (25.0, 976.0, 0.002)
    """
    kept = np.sort(draws[~np.isnan(draws)])
    n = len(kept)
    if n < 2:
        return Summary(math.nan, math.nan, math.nan, math.nan, n)
    m = tail_count(n, ci_level)
    below, above = np.searchsorted(kept, 0.0, "right"), n - np.searchsorted(kept, 0.0, "left")
    p = min(1.0, max(2 * min(below, above), 2) / n)
    return Summary(float(kept[m - 1]), float(kept[n - m]), float(p), float(kept.std(ddof=1)), n)


def tail_count(n: int, ci_level: float) -> int:
    """Which order statistic of n draws is the end of the interval, counted from its side, from 1 on."""
    return max(1, math.ceil(n * (1 - ci_level) / 2 - 1e-9))


def refuse_undefined(draws: Mapping[str, np.ndarray], why: str) -> None:
    """Refuse when a reported quantity is undefined in more than 5 % of the replicates.

    Parameters
    ----------
    draws : name -> (replicates,), NaN where undefined.
    why : what makes them so and how to mend it.

    Raises
    ------
    TableError
        Names the worst quantity and the share.
    """
    shares = {name: float(np.isnan(values).mean()) for name, values in draws.items()}
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is not None and shares[worst] > MOST_UNDEFINED:
        many = [name for name, share in shares.items() if share > MOST_UNDEFINED]
        more = f" (and {', '.join(n for n in many if n != worst)})" if 1 < len(many) <= 4 else ""
        raise TableError(
            f"{worst}{more} is undefined in {100 * shares[worst]:.1f} % of the {len(draws[worst]):,} replicates, "
            f"more than {100 * MOST_UNDEFINED:.0f} %: {why}"
        )


def mark(p: float | None) -> str:
    """Significance mark as in table 3 of the collaboration-gap paper: ** below 0.01, * below 0.05, † below 0.10."""
    if p is None or math.isnan(p):
        return ""
    return "**" if p < 0.01 else "*" if p < 0.05 else "†" if p < 0.10 else ""
