"""Mediation with clustered data: does X act on Y through M, and does the effect of M depend on X?

May import `cilab.core` and `cilab.stats`. Estimates, intervals, p-values and sensitivity come from one set of cluster
draws. Checks no range of the outcome in `mediate` (the maze builder `mediation` does), and claims no cause: the models
are regressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.frames import Provenance, read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Column, Columns, Level, Resamples, Seed, column
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze.grounding import CONTROLS, REFERENCE, annotated_pairs, with_features
from cilab.stats.methods import cluster as cl

#: The effects of `.table`, in order, with the model they belong to.
EFFECTS = {
    "a": "mediator",
    "b": "additive",
    "direct": "additive",
    "total": "total",
    "indirect": "additive",
    "share_mediated": "additive",
    "synergy_b1": "synergy",
    "synergy_b2": "synergy",
    "synergy_direct": "synergy",
    "b_at_1": "synergy",
    "indirect_at_0": "synergy",
    "indirect_at_1": "synergy",
}
_COEFFICIENTS = ("a", "b", "direct", "total", "synergy_b1", "synergy_b2", "synergy_direct")
_SYNERGY = ("synergy_b1", "synergy_b2", "synergy_direct", "synergy_ratio")
_NUMBERS = ("estimate", "lo", "hi", "p", "se", "sd_draws")
_MEANING = {
    "a": "a: X on M",
    "b": "b: M on Y",
    "direct": "c' direct",
    "total": "c total",
    "indirect": "a × b indirect",
    "share_mediated": "a × b / c share mediated",
    "synergy_b1": "b1: M at X = 0",
    "synergy_b2": "b2: X × M",
    "synergy_direct": "c' direct",
    "b_at_1": "b1 + b2: M at X = 1",
    "indirect_at_0": "a × b1: indirect at X = 0",
    "indirect_at_1": "indirect at X = 1",
}
_MODEL_WORDS = {"mediator": "both", "total": "both", "additive": "1 additive", "synergy": "2 synergy"}
#: Line of the paper's table, effect in model 1, effect in model 2 (None: the model has none).
_PATHS = (
    ("Path a: grounding → strategy", "a", "a"),
    ("Path b: strategy → outcome", "b", "synergy_b1"),
    ("Synergy X × M", None, "synergy_b2"),
    ("Direct effect c′", "direct", "synergy_direct"),
    ("Total effect c", "total", "total"),
    ("Indirect effect a × b", "indirect", "indirect_at_0"),
)


class Sensitivity(NamedTuple):
    """How strong an unobserved confounder must be.

    Attributes
    ----------
    x : where the synergy model is evaluated; None for the additive model.
    rho_at_zero : correlation of the two models' residuals at which the indirect effect is 0.
    lo, hi : its percentile interval.
    rho_significant : the correlation up to which the indirect effect keeps its sign and stays significant: for a
        positive `rho_at_zero` the largest at which the interval of the effect leaves out 0. Of the opposite sign
        where the effect is not significant to begin with; None where it is significant at no correlation.
    """

    x: float | None
    rho_at_zero: float
    lo: float
    hi: float
    rho_significant: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class MediationResult(Result):
    """Model 1 (additive) and model 2 (with the product X M), with everything from the same cluster draws.

    Attributes
    ----------
    table : one row per effect: `effect` (a, b, direct, total, indirect, share_mediated, synergy_b1, synergy_b2,
        synergy_direct, b_at_1, indirect_at_0, indirect_at_1), `model`, `estimate`, `lo`, `hi` (percentile interval),
        `p` (from the draws, at least `p_floor`), `se`, `se_from` ("cluster-robust" HC1 for what is a coefficient or a
        sum of two, "draws" for products and quotients: the sd of the draws), `sd_draws`. Null where the product X M is
        redundant.
    coefficients : all four regressions in full: `model` (mediator, total, additive, synergy), `term`, `estimate`, `se`
        (cluster-robust, HC1).
    rho_at_zero, rho_at_zero_interval, rho_significant : sensitivity of the additive model; see `Sensitivity`.
    sensitivities : the same as a table, with the synergy model at X = 0 and X = 1.
    n_clusters : number of clusters. p_floor : 2 / resamples.
    reference : control -> level without a column.
    controls_dropped : control (or level) -> number of replicates in which it did not vary, or followed from
        the others, and was left out.
    point : name -> estimate, in the form of `draws`. b_covariance : cluster-robust variance of b1, covariance of b1
        and b2, variance of b2 (NaN without synergy model).
    controls_left_out : control -> why it is in no model (only from `mediation`).
    draws : name -> (resamples,) of the coefficients, and of `ratio` and `synergy_ratio` = s_m / s_y.
    """

    coefficients: pl.DataFrame
    rho_at_zero: float
    rho_at_zero_interval: tuple[float, float]
    rho_significant: float | None
    sensitivities: pl.DataFrame
    n_clusters: int
    p_floor: float
    reference: Mapping[str, str]
    controls_dropped: Mapping[str, int]
    controls_left_out: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, np.ndarray]
    point: Mapping[str, float]
    b_covariance: tuple[float, float, float]

    figure = "mediation"
    title = "Mediation"

    @property
    def estimates(self) -> dict[str, float | None]:
        """effect -> estimate."""
        return dict(self.table.select("effect", "estimate").iter_rows())

    def effect_at(self, x: float) -> pl.DataFrame:
        """Synergy model at X = `x`: rows `b_at_x` (b1 + b2 x) and `indirect_at_x` (a (b1 + b2 x)) as in `.table`.

        Raises
        ------
        TableError
            The synergy model is not defined in these data, or `x` is no number.
        """
        at = self._where(x)
        b, indirect = (_effects_at(at, which) for which in (self.point, self.draws))
        rows = [
            _row(f"{name}_at_x", "synergy", b[i], indirect[i], se, self.parameters["ci_level"])
            for i, (name, se) in enumerate((("b", self._se_at(at)), ("indirect", None)))
        ]
        return pl.DataFrame(rows, schema=_SCHEMA)

    def sensitivity(self, x: float | None = None) -> Sensitivity:
        """The correlation that explains the indirect effect away: additive model, or the synergy model at X = `x`.

        rho* = h / sqrt(1 + h^2) with h = (b1 + b2 x) s_m / s_y; s_m and s_y are the root mean squares (divisor n) of
        the residuals of the mediator model and of the full outcome model. In the additive model rho* is the partial
        correlation of M and Y given X and the controls.

        Raises
        ------
        TableError
            As `effect_at`.

        References
        ----------
        Imai, Keele and Yamamoto, 2010; collaboration-gap paper, appendix D.2.1.
        """
        at = None if x is None else self._where(x)
        point, draws = _rho(self.point, at), _rho(self.draws, at)
        a, sign = self.draws["a"], math.copysign(1.0, self.point["a"])
        level = self.parameters["ci_level"]
        ends = cl.summarise(np.asarray(draws), level)
        threshold = _significant(a * sign, np.asarray(draws) * math.copysign(1.0, point), level)
        if threshold is not None:
            threshold = float(threshold * math.copysign(1.0, point))
        return Sensitivity(at, float(point), ends.lo, ends.hi, threshold)

    def indirect_at_rho(self, rho: float, x: float | None = None) -> tuple[float, float, float]:
        """Indirect effect if the residuals of the two models had correlation `rho`: estimate, lo, hi.

        a (g - s_y / s_m rho / sqrt(1 - rho^2)), with g = b in the additive model and b1 + b2 x in the synergy model.

        Raises
        ------
        TableError
            `rho` is not between -1 and 1; or as `effect_at`.
        """
        if not -1 < rho < 1:
            raise TableError(f"rho is {rho!r}: a correlation between -1 and 1 is wanted")
        at = None if x is None else self._where(x)
        tilt = rho / math.sqrt(1 - rho * rho)
        point, draws = (_tilted(values, at, tilt) for values in (self.point, self.draws))
        ends = cl.summarise(np.asarray(draws), self.parameters["ci_level"])
        return float(point), ends.lo, ends.hi

    def replicated_by(self, other: MediationResult) -> pl.DataFrame:
        """Every effect beside that of another annotator: `effect, estimate, p, other, other_p, replicates`.

        `replicates` is true where the signs agree and both are significant, or neither is, at 1 - ci_level.
        """
        alpha = 1 - self.parameters["ci_level"]
        both = self.table.select("effect", "estimate", "p").join(
            other.table.select("effect", other="estimate", other_p="p"), on="effect", how="inner", maintain_order="left"
        )
        same_sign = pl.col("estimate").sign() == pl.col("other").sign()
        significant = pl.col("p") < alpha
        alike = (significant == (pl.col("other_p") < alpha)) & (same_sign | ~significant)
        return both.with_columns(alike.alias("replicates"))

    def sheet(self) -> Sheet:
        """Effect in words, estimate with marks, interval, p (≤ at its floor), standard error."""
        lines = []
        for row in self.table.iter_rows(named=True):
            head = {"Effect": _MEANING[row["effect"]], "Model": _MODEL_WORDS[row["model"]]}
            if row["estimate"] is None:
                lines.append(head | {"Estimate": "not defined", "Interval": "", "p": "", "se": ""})
                continue
            lines.append(
                head
                | {
                    "Estimate": _with_mark(row),
                    "Interval": _ends(row),
                    "p": p_value(row["p"], floor=self.p_floor),
                    "se": number(row["se"], 4),
                }
            )
        return self.on_sheet(lines)

    def paper_sheet(self) -> Sheet:
        """The paths, a column for each of the two models: table 2 of the collaboration-gap paper."""
        found = {r["effect"]: r for r in self.table.iter_rows(named=True) if r["estimate"] is not None}
        columns = ("Model 1 (additive)", "Model 2 (synergy)")
        lines = [
            {"Effect": words} | {c: _with_mark(found.get(effect)) for c, effect in zip(columns, effects, strict=True)}
            for words, *effects in _PATHS
        ]
        last = f"{percent(self.parameters['ci_level'])} interval of the indirect effect"
        ends = (_ends(found.get(effect)) for effect in ("indirect", "indirect_at_0"))
        lines.append({"Effect": last} | dict(zip(columns, ends, strict=True)))
        caption = f"{self.caption} Model 2: indirect effect at X = 0."
        return self.on_sheet(lines, "Mediation", caption=caption)

    def notes(self) -> list[str]:
        """As of any result, with clusters, the floor of p, sensitivity, and what became of the controls."""
        first, *others = super().notes()
        resamples = self.parameters["resamples"]
        out = [
            first,
            f"{self.n_clusters} clusters ({_plain(self.parameters['cluster'])}), drawn {resamples:,} times; "
            f"no p-value can be below {self.p_floor:g}.",
            _sensitivity_words(self.sensitivities, [self.indirect_at_rho(0.0, x) for x in self.sensitivities["x"]]),
        ]
        if self.n_clusters < cl.FEW_MEDIATED:
            out.append(cl.FEW_MEDIATED_WORDS)
        if self.reference:
            levels = ", ".join(f"{_plain(name)} {level}" for name, level in self.reference.items())
            out.append(f"Reference levels of the controls: {levels}.")
        if self.controls_left_out:
            out.append(
                "Controls in no model: "
                + "; ".join(f"{_plain(n)} {_plain(w)}" for n, w in self.controls_left_out.items())
                + "."
            )
        if self.controls_dropped:
            dropped = ", ".join(f"{_plain(name)} in {n}" for name, n in self.controls_dropped.items())
            out.append(f"Controls without variation of their own, left out of replicates: {dropped}.")
        return out + others

    def _where(self, x: Any) -> float:
        if "synergy_b2" not in self.draws:
            raise TableError("no synergy model: the product of x and m follows from the other columns in these data")
        if isinstance(x, bool) or not isinstance(x, int | float | np.number) or not math.isfinite(x):
            raise TableError(f"x is {x!r}: give a number")
        return float(x)

    def _se_at(self, x: float) -> float:
        """Cluster-robust standard error of b1 + b2 x."""
        v11, v12, v22 = self.b_covariance
        return math.sqrt(max(v11 + 2 * x * v12 + x * x * v22, 0.0))


@estimator
def mediate(
    data: Any,
    *,
    x: Column,
    m: Column,
    y: Column,
    controls: Columns = (),
    cluster: Column,
    resamples: Resamples = 1000,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
) -> MediationResult:
    """Mediation of X on Y through M, with and without the product X M, by a cluster bootstrap.

    Three least-squares models, the paper's equations 2 to 4, each with an intercept and the controls:
    M on X; Y on X and M (model 1, additive); Y on X, M and X M (model 2, synergy). The total effect c is that of Y on X
    and the controls. In every replicate whole clusters are drawn with replacement, all models are fitted to the
    same draw, and products and quotients are formed within it. Intervals are percentile intervals, p is twice the
    smaller share of draws on either side of 0, and the two never disagree (see
    `cilab.stats.methods.cluster.summarise`).

    Parameters
    ----------
    data : DataFrame or LazyFrame (polars) or DataFrame (pandas), one row per observation.
    x, m, y : columns of numbers or truth values: exposure, mediator, outcome. Any range.
    controls : columns of numbers, truth values, or text (one 0/1 column per level but the first in the alphabet).
    cluster : column of cluster labels.
    resamples : number of replicates, at least 20; no p-value is below 2 / resamples.
    seed : of the draws.
    ci_level : a fraction between 0 and 1.

    Returns
    -------
    MediationResult
        Rows with a missing x, m, y or control are left out and counted. A control that does not vary in a
        replicate, or follows from the others there, is left out of that replicate and counted.

    Raises
    ------
    TableError
        A column is missing or holds no numbers; a cluster label is missing; x or m is constant or follows from the
        controls; a control is constant or collinear (it is named); a reported effect is undefined in more than 5 %
        of the replicates.

    Warns
    -----
    cilab.stats.methods.cluster.FewClustersWarning
        There are fewer than 30 clusters. The numbers stay; the notes say how often such intervals cover.

    See Also
    --------
    mediation : the same from a maze study.

    References
    ----------
    Collaboration-gap paper, appendix D.2.1, table 2; Imai, Keele and Tingley, 2010.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(size=600)
    >>> m = 0.5 * x + rng.normal(size=600)
    >>> frame = pl.DataFrame({"x": x, "m": m, "y": 0.8 * m + rng.normal(size=600), "pair": np.arange(600) % 30})
    >>> found = mediate(frame, x="x", m="m", y="y", cluster="pair").estimates
    >>> bool(np.isclose(found["indirect"], found["a"] * found["b"]))
    True
    """
    _check_names(x, m, y, controls)
    wanted = list(dict.fromkeys((x, m, y, *controls, cluster)))
    rows, provenance = read_rows(data, wanted, tuple(c for c in ("model", "partner_model") if c not in wanted))
    rows, groups, left_out = cl.complete(rows, (x, m, y, *controls), cluster)
    cl.warn_if_few(groups, cluster, cl.FEW_MEDIATED, cl.FEW_MEDIATED_WORDS)
    columns = cl.design(rows, controls)
    cl.refuse_single_levels(columns, controls, "controls")
    parameters = {
        "x": x,
        "m": m,
        "y": y,
        "controls": list(controls),
        "cluster": cluster,
        "resamples": resamples,
        "seed": seed,
        "ci_level": ci_level,
    }
    return _estimate(rows, columns, groups, parameters, left_out, provenance)


@estimator
def mediation(
    study: Any,
    *,
    annotator: str | None = None,
    cluster: Literal["ordered_pair", "unordered_pair", "maze"] = "ordered_pair",
    resamples: Resamples = 1000,
    seed: Seed = 0,
    facts: Any = None,
    repeat: int = 0,
    arm: str | None = None,
) -> MediationResult:
    """The paper's mediation of grounding on the weighted outcome through a global strategy, from a maze study.

    X is the grounding score of equation 1, M whether a global strategy was annotated, Y the weighted outcome. Controls:
    family and tier of both agents, whether they are the same model and of the same family, the shortest path's length,
    and the logarithm of the median tokens per message. A control that is constant in the study, or follows from the
    others, is in no model, and named. Which rollouts are used stands at `cilab.stats.maze.grounding.grounding`.

    Parameters
    ----------
    study : an opened study or data set (runs, annotations, messages).
    annotator : whose annotations; None where the study holds those of one annotator only.
    cluster : ordered pairs of models (the paper's), unordered pairs, or mazes.
    resamples, seed : as in `mediate`.
    facts, repeat, arm : as in `grounding`.

    Raises
    ------
    TableError
        As `mediate` and `grounding`; an outcome above 1.

    References
    ----------
    Collaboration-gap paper, appendix D.2.1, table 2.
    """
    found = annotated_pairs(study, annotator=annotator, facts=facts, repeat=repeat, arm=arm)
    x, m, y = "grounding", "strategy_global", "weighted_outcome"
    rows = with_features(found.rows, found.annotations)
    empty = {name: "is known of no rollout" for name in CONTROLS if rows[name].null_count() == rows.height}
    controls = [name for name in CONTROLS if name not in empty]
    rows, groups, missing = cl.complete(rows, (x, m, y, *controls), cluster)
    cl.warn_if_few(groups, cluster, cl.FEW_MEDIATED, cl.FEW_MEDIATED_WORDS)
    reference = {k: v for k, v in REFERENCE.items() if k in controls and v in rows[k].unique().to_list()}
    columns = cl.design(rows, controls, reference)
    surplus = cl.redundant(columns.matrix, columns.names)
    lone = {name: "is constant" for name in controls if name not in columns.predictors}
    parameters = {
        "annotator": found.annotator,
        "x": x,
        "m": m,
        "y": y,
        "controls": controls,
        "cluster": cluster,
        "resamples": resamples,
        "seed": seed,
        "ci_level": CI_LEVEL,
    }
    left_out = {**found.left_out, **missing}
    result = _estimate(rows, columns.without(list(surplus)), groups, parameters, left_out, found.provenance)
    return replace(result, controls_left_out=empty | lone | {columns.names[j]: words for j, words in surplus.items()})


def _check_names(x: str, m: str, y: str, controls: Sequence[str]) -> None:
    for name in controls:
        column("controls", name)
    roles = [x, m, y, *controls]
    twice = [name for i, name in enumerate(roles) if name in roles[:i]]
    if twice:
        raise TableError(f"column {twice[0]} stands in two of x, m, y and controls")


class _Data(NamedTuple):
    """What the models are fitted to.

    `columns`: intercept, controls, X, M and X M, standardised, `names` theirs; `products`: their cross-products and
    those with the outcome (mean 0, sd 1) per cluster, `gram` over all; `m`, `y`: mediator and outcome.
    """

    columns: cl.Standardised
    names: tuple[str, ...]
    products: np.ndarray
    gram: np.ndarray
    m: np.ndarray
    y: np.ndarray
    groups: cl.Clusters


def _estimate(
    rows: pl.DataFrame,
    controls: cl.Design,
    groups: cl.Clusters,
    parameters: dict[str, Any],
    left_out: Mapping[str, int],
    provenance: Provenance,
) -> MediationResult:
    roles = {role: parameters[role] for role in ("x", "m", "y")}
    x, m, y = (_varying(rows[name], role) for role, name in roles.items())
    names = (*controls.names, roles["x"], roles["m"], f"{roles['x']} × {roles['m']}")
    columns = cl.standardised(np.column_stack([controls.matrix, x, m, x * m]))
    q = len(names) + 1
    products = cl.grams(np.column_stack([columns.z, (y - y.mean()) / y.std()]), groups.codes, groups.n)
    gram = cl.symmetric(cl.matrices(products.sum(axis=1, keepdims=True), q, q))[0]
    data = _Data(columns, names, products, gram, m, y, groups)
    coefficients, point, errors, vcov_b = _point_estimates(data, synergy=_product_is_free(data))
    counts = groups.counts(parameters["resamples"], parameters["seed"])
    draws, dropped = _draws(data, counts)
    if "synergy_b2" not in point:
        draws = {k: v for k, v in draws.items() if k not in _SYNERGY}
    cl.refuse_undefined(
        {
            (roles["m"] if k == "b" else roles["x"]) + f" (effect {k})": draws[k]
            for k in ("a", "b", "synergy_b2")
            if k in draws
        },
        "too few clusters carry its variation; use more clusters, other clusters or fewer controls",
    )
    table = _table(point, draws, errors, vcov_b, parameters["ci_level"])
    result = MediationResult(
        table=table,
        n_used=rows.height,
        n_left_out=dict(left_out),
        provenance=provenance,
        parameters=parameters,
        caption=_caption(roles, parameters["ci_level"]),
        coefficients=coefficients,
        rho_at_zero=math.nan,
        rho_at_zero_interval=(math.nan, math.nan),
        rho_significant=None,
        sensitivities=pl.DataFrame(),
        n_clusters=groups.n,
        p_floor=2 / parameters["resamples"],
        reference=controls.reference,
        controls_dropped=dropped,
        draws=draws,
        point=point,
        b_covariance=vcov_b,
    )
    return _with_sensitivity(result)


def _with_sensitivity(result: MediationResult) -> MediationResult:
    places = (None, 0.0, 1.0) if "synergy_b2" in result.draws else (None,)
    found = [result.sensitivity(x) for x in places]
    lines = [{"model": "additive" if s.x is None else "synergy", **s._asdict()} for s in found]
    schema = {"model": pl.String, **dict.fromkeys(Sensitivity._fields, pl.Float64)}
    first = found[0]
    return replace(
        result,
        rho_at_zero=first.rho_at_zero,
        rho_at_zero_interval=(first.lo, first.hi),
        rho_significant=first.rho_significant,
        sensitivities=pl.DataFrame(lines, schema=schema),
    )


def _varying(column: pl.Series, role: str) -> np.ndarray:
    values = cl.numbers(column)
    if values.min() == values.max():
        raise TableError(f"{role}: column {column.name} is {values[0]:g} in every row; nothing to estimate")
    return values


def _product_is_free(data: _Data) -> bool:
    """Whether X M is no combination of the other columns; refuses such controls, exposures and mediators."""
    found = cl.redundant_in(data.gram[:-1, :-1], data.names)
    last = len(data.names) - 1
    for j, words in found.items():
        if j < last - 2:
            raise TableError(f"controls: {data.names[j]} {words}; leave it out")
        if j < last:
            role = "x" if j == last - 2 else "m"
            raise TableError(f"{role}: {data.names[j]} {words}; its effect cannot be told from theirs")
    return not found


def _point_estimates(
    data: _Data, synergy: bool
) -> tuple[pl.DataFrame, dict[str, float], dict[str, float], tuple[float, float, float]]:
    """All coefficients; the estimates by name; cluster-robust standard errors by name; covariance of b1 and b2."""
    n, k = len(data.y), len(data.names) - 3
    models = {"mediator": (data.m, k + 1), "total": (data.y, k + 1), "additive": (data.y, k + 2)}
    if synergy:
        models["synergy"] = (data.y, k + 3)
    fits = {
        name: cl.ols(data.columns.first(size), data.gram[:size, :size], y, data.groups)
        for name, (y, size) in models.items()
    }
    coefficients = {
        "model": [model for model, fit in fits.items() for _ in fit.coef],
        "term": [term for fit in fits.values() for term in data.names[: len(fit.coef)]],
        "estimate": np.concatenate([fit.coef for fit in fits.values()]),
        "se": np.concatenate([fit.se for fit in fits.values()]),
    }
    where = {"a": ("mediator", k), "total": ("total", k), "direct": ("additive", k), "b": ("additive", k + 1)}
    vcov_b = (math.nan,) * 3
    s_m = math.sqrt(fits["mediator"].rss / n)
    ratios = {"ratio": s_m / _positive(math.sqrt(fits["additive"].rss / n))}
    if "synergy" in fits:
        where |= {"synergy_direct": ("synergy", k), "synergy_b1": ("synergy", k + 1), "synergy_b2": ("synergy", k + 2)}
        v = fits["synergy"].vcov
        vcov_b = (float(v[k + 1, k + 1]), float(v[k + 1, k + 2]), float(v[k + 2, k + 2]))
        ratios["synergy_ratio"] = s_m / _positive(math.sqrt(fits["synergy"].rss / n))
    point = {name: float(fits[model].coef[j]) for name, (model, j) in where.items()} | ratios
    errors = {name: float(fits[model].se[j]) for name, (model, j) in where.items()}
    return pl.DataFrame(coefficients), point, errors, vcov_b


def _positive(value: float) -> float:
    """Not 0, so that a perfect fit gives a very large ratio."""
    return max(value, 1e-150)


def _draws(data: _Data, counts: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Every quantity in every replicate, and in how many replicates each control was left out.

    With the columns in the order controls, X, M, X M, Y, one elimination of the cross-products serves all four
    regressions: each is a back substitution in the last rows.
    """
    parts = [_draws_of(data, counts[part]) for part in cl.chunks(len(counts))]
    draws = {name: np.concatenate([found[name] for found, _ in parts]) for name in parts[0][0]}
    lost = sum(dropped for _, dropped in parts)
    return draws, {name: int(n) for name, n in zip(data.names[1:-3], lost, strict=True) if n}


def _draws_of(data: _Data, counts: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """`_draws` of replicates that are solved at once, and how many of them leave out each control."""
    k, (sx, sm, sp), sy = len(data.names) - 3, data.columns.sd[-3:], data.y.std()
    u, kept = cl.eliminate(cl.matrices(cl.product(data.products, counts.T), k + 4, k + 4), k + 3)
    ix, im, ip, iy = range(k, k + 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        xx, mm, pp = (np.where(kept[j], u[j, j], np.nan) for j in (ix, im, ip))
        a, total = u[ix, im] / xx, u[ix, iy] / xx
        b = u[im, iy] / mm
        b2 = u[ip, iy] / pp
        b1 = (u[im, iy] - u[im, ip] * b2) / mm
        rest = np.maximum(u[iy, iy], 1e-300)
        rest_additive = rest + np.where(kept[ip], u[ip, iy] ** 2 / u[ip, ip], 0.0)
        draws = {
            "a": a * sm / sx,
            "b": b * sy / sm,
            "direct": (u[ix, iy] - u[ix, im] * b) / xx * sy / sx,
            "total": total * sy / sx,
            "ratio": np.sqrt(mm / rest_additive) * sm / sy,
            "synergy_b1": b1 * sy / sm,
            "synergy_b2": b2 * sy / sp,
            "synergy_direct": (u[ix, iy] - u[ix, im] * b1 - u[ix, ip] * b2) / xx * sy / sx,
            "synergy_ratio": np.sqrt(mm / rest) * sm / sy,
        }
    return draws, (~kept[1:k]).sum(axis=1)


def _slope(values: Mapping[str, Any], x: float | None) -> Any:
    """Effect of M: b, or b1 + b2 x."""
    return values["b"] if x is None else values["synergy_b1"] + values["synergy_b2"] * x


def _effects_at(x: float, values: Mapping[str, Any]) -> tuple[Any, Any]:
    slope = _slope(values, x)
    return slope, values["a"] * slope


def _rho(values: Mapping[str, Any], x: float | None) -> Any:
    h = _slope(values, x) * values["ratio" if x is None else "synergy_ratio"]
    return np.sin(np.arctan(h))


def _tilted(values: Mapping[str, Any], x: float | None, tilt: float) -> Any:
    return values["a"] * (_slope(values, x) - tilt / values["ratio" if x is None else "synergy_ratio"])


def _significant(a: np.ndarray, rho: np.ndarray, ci_level: float) -> float | None:
    """Largest correlation up to which the lower end of the indirect effect's interval is above 0.

    In a draw with a > 0 the effect is above 0 below that draw's `rho`; with a < 0, above it. `a` and `rho` have
    the signs of their estimates taken out. Where a > 0 in every draw, it is the lower end of rho's own interval.
    """
    known = ~np.isnan(rho) & ~np.isnan(a)
    a, rho = a[known], rho[known]
    if len(rho) < 2:
        return None
    allowed = cl.tail_count(len(rho), ci_level) - 1
    up, down = np.sort(rho[a > 0]), np.sort(rho[a < 0])
    stuck = int((a == 0).sum())
    ends = np.r_[up, 1.0]
    # Just below each end: draws that have gone to 0 or below from the left, and those that have not come up yet.
    beyond = np.searchsorted(up, ends, "left") + (len(down) - np.searchsorted(down, ends, "left")) + stuck
    fits = ends[beyond <= allowed]
    return float(fits.max()) if len(fits) else None


_SCHEMA = {
    "effect": pl.String,
    "model": pl.String,
    "estimate": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "p": pl.Float64,
    "se": pl.Float64,
    "se_from": pl.String,
    "sd_draws": pl.Float64,
}


def _row(effect: str, model: str, estimate: float, draws: np.ndarray, se: float | None, level: float) -> dict[str, Any]:
    found = cl.summarise(draws, level)
    return {
        "effect": effect,
        "model": model,
        "estimate": float(estimate),
        "lo": found.lo,
        "hi": found.hi,
        "p": found.p,
        "se": found.sd if se is None else se,
        "se_from": "draws" if se is None else "cluster-robust",
        "sd_draws": found.sd,
    }


def _table(
    point: Mapping[str, float],
    draws: Mapping[str, np.ndarray],
    errors: Mapping[str, float],
    vcov_b: tuple[float, float, float],
    level: float,
) -> pl.DataFrame:
    both = [_derived(values) for values in (point, draws)]
    se = dict(errors)
    if "synergy_b2" in point:
        se["b_at_1"] = math.sqrt(max(vcov_b[0] + 2 * vcov_b[1] + vcov_b[2], 0.0))
    rows = [
        _row(name, model, both[0][name], both[1][name], se.get(name), level)
        if name in both[0]
        else {"effect": name, "model": model}
        for name, model in EFFECTS.items()
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _derived(values: Mapping[str, Any]) -> dict[str, Any]:
    """Coefficients, and the products and quotients formed from them."""
    out = {name: values[name] for name in _COEFFICIENTS if name in values}
    out["indirect"] = values["a"] * values["b"]
    with np.errstate(divide="ignore", invalid="ignore"):
        out["share_mediated"] = np.divide(out["indirect"], values["total"])
    if "synergy_b2" in values:
        out["b_at_1"], out["indirect_at_1"] = _effects_at(1.0, values)
        out["indirect_at_0"] = _effects_at(0.0, values)[1]
    return out


def _plain(column: str) -> str:
    """A column's name as it is printed."""
    return column.replace("_", " ")


def _caption(roles: Mapping[str, str], ci_level: float) -> str:
    return (
        f"X {_plain(roles['x'])}, M {_plain(roles['m'])}, Y {_plain(roles['y'])}; least squares; percentile intervals "
        f"at {percent(ci_level)} and p-values from the same draws of whole clusters. ** p < 0.01, * p < 0.05, "
        "† p < 0.10. Associations, not causes."
    )


def _sensitivity_words(table: pl.DataFrame, effects: Sequence[tuple[float, float, float]]) -> str:
    """The correlations of `MediationResult.sensitivities`; `effects` are the indirect effects there, with intervals.

    A `rho_significant` of the other sign says how far off significance the effect is, and nothing that it survives.
    """
    parts = []
    for row, (_, lo, hi) in zip(table.iter_rows(named=True), effects, strict=True):
        where = "additive model" if row["x"] is None else f"synergy model at {row['x']:g}"
        limit = row["rho_significant"]
        holds = limit is not None and limit * row["rho_at_zero"] > 0 and not lo <= 0 <= hi
        until = f"significant up to {number(limit, 2)}" if holds else "not significant"
        ends = Interval.of(row, "rho_at_zero", "lo", "hi", digits=2).ends()
        parts.append(f"{where} {ends}, {until}")
    return "Residual correlation at which the indirect effect is 0: " + "; ".join(parts) + "."


def _with_mark(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{number(row['estimate'], 4)}{cl.mark(row['p'])}"


def _ends(row: Mapping[str, Any] | None) -> str:
    return Interval.of(row, "estimate", "lo", "hi", digits=4).brackets()
