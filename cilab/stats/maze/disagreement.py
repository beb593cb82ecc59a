"""When agents disagree: odds ratios with clustered data, and rates by interaction type and family pair.

May import `cilab.core` and `cilab.stats`. Gives no number for a coefficient that has no finite estimate: separated
data are refused, or penalised when asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Column, Columns, Level, Resamples, Seed, column
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze.grounding import (
    DISAGREEMENTS,
    INTERACTIONS,
    REFERENCE,
    annotated_pairs,
    kappa,
    paired,
)
from cilab.stats.methods import cluster as cl
from cilab.stats.methods.distributions import normal_quantile, t_two_sided
from cilab.stats.methods.ratings import MOST_UNDEFINED
from cilab.stats.methods.uncertainty import IntervalKind, expanded_level, too_few

#: Predictors of equation 5.
PREDICTORS = ("homogeneous", "same_family", "starter_tier", "starter_family", "follower_tier", "follower_family")
#: The three outcomes of table 3.
OUTCOMES = ("total", "factual", "nonfactual")
ESTIMATORS = ("maximum_likelihood", "firth")

#: Clusters from which on resampling them has tails: of four, 1 sample in 64 holds one cluster only.
_LEAST_DRAWN = 5

_SCHEMA = {
    "outcome": pl.String,
    "predictor": pl.String,
    "level": pl.String,
    "odds_ratio": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "p": pl.Float64,
    "mark": pl.String,
    "coefficient": pl.Float64,
    "se": pl.Float64,
    "sd_draws": pl.Float64,
    "n_replicates": pl.Int64,
    "n_clusters": pl.Int64,
    "reason": pl.String,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class OddsRatioResult(Result):
    """Odds ratios of a fractional logit, with a cluster bootstrap.

    Attributes
    ----------
    table : one row per coefficient: `outcome`, `predictor` ("intercept" first), `level` (null for numbers),
        `odds_ratio`, `lo`, `hi` (percentile interval, by the rule at the expanded level that allows for few clusters),
        `p` (from the same draws, below 0.05 where a 95 % interval leaves out 1; at least `p_floor`), `mark`
        (** p < 0.01, * p < 0.05, † p < 0.10), `coefficient` (log-odds), `se` (of the log-odds, cluster-robust HC1),
        `sd_draws` (sd of the log-odds over the draws), `n_replicates` (draws that determine it), `n_clusters`, `reason`
        (why there is no interval: fewer than five clusters, or more than 5 % of the draws do not determine the
        coefficient, as levels are absent; else null).
    reference : predictor -> level without a coefficient.
    n_clusters : number of clusters. p_floor : 2 / resamples.
    estimator : maximum_likelihood or firth.
    n_cells : distinct rows of predictors within clusters, that is what the fit costs.
    replicates_lost : replicates whose data are separated; they count in no draw.
    dropped : coefficient -> number of replicates in which its column did not vary, or followed from the others.
    """

    reference: Mapping[str, str]
    n_clusters: int
    p_floor: float
    estimator: str
    n_cells: int
    replicates_lost: int
    dropped: Mapping[str, int]

    figure = "odds_ratios"
    title = "Odds ratios"

    def sheet(self) -> Sheet:
        """One line per coefficient: odds ratio with mark, interval, p."""
        return self.on_sheet(_line(row, self.p_floor) for row in self.table.iter_rows(named=True))

    def notes(self) -> list[str]:
        """As of any result, with reference levels, clusters, the floor of p, and lost replicates."""
        first, *others = super().notes()
        levels = ", ".join(f"{in_words(name)} {level}" for name, level in self.reference.items())
        out = [first, f"Reference levels: {levels}."] if levels else [first]
        out.append(
            f"{self.n_clusters} clusters ({in_words(self.parameters['cluster'])}), drawn "
            f"{self.parameters['resamples']:,} times; no p-value can be below {self.p_floor:g}."
        )
        if self.n_clusters < cl.FEW_CLUSTERS:
            out.append(cl.FEW_WORDS)
        if self.estimator == "firth":
            out.append("Penalised likelihood (Firth): odds ratios are pulled towards 1.")
        if self.replicates_lost:
            out.append(f"{self.replicates_lost} replicates are separated and count in no draw.")
        if self.dropped:
            dropped = ", ".join(f"{in_words(name)} in {n}" for name, n in self.dropped.items())
            out.append(f"Without variation of its own, left out of replicates: {dropped}.")
        return out + _reasons(self.table) + others


@estimator
def odds_ratios(
    data: Any,
    *,
    outcome: Column,
    predictors: Columns,
    cluster: Column,
    reference: Mapping[str, str] | None = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    estimator: Literal["maximum_likelihood", "firth"] = "maximum_likelihood",
    interval: IntervalKind = "rule",
) -> OddsRatioResult:
    """Odds ratios of an outcome between 0 and 1, by fractional logit with a cluster bootstrap.

    The outcome may be a fraction, such as the mean of two graders. Equal rows within a cluster are put together
    before the fit. Whether the estimate exists is decided by a linear programme, not by how Newton's method behaves.

    Parameters
    ----------
    data : DataFrame or LazyFrame (polars) or DataFrame (pandas), one row per rollout.
    outcome : column of numbers from 0 to 1, or truth values.
    predictors : columns of numbers, truth values, or text (one coefficient per level but the reference level).
    cluster : column of cluster labels.
    reference : text predictor -> its reference level; by default the first in the alphabet. Always in the result.
    resamples : number of replicates, at least 20; no p-value is below 2 / resamples.
    seed : of the draws.
    ci_level : a fraction between 0 and 1.
    estimator : `maximum_likelihood`, which refuses separated data, or `firth`, whose estimates are always finite.
    interval : "rule", percentiles at the level that allows for few clusters (`cilab.stats.methods.uncertainty`), or
        "percentile", the paper's plain ones.

    Returns
    -------
    OddsRatioResult
        Rows with a missing outcome or predictor are left out and counted. A coefficient that more than 5 % of the
        replicates do not determine has no interval, and the reason.

    Raises
    ------
    TableError
        The outcome is outside 0 to 1 or never varies; a predictor is constant or collinear (named); a cluster label is
        missing; the data are separated (the predictors are named), or more than 5 % of the replicates are.

    Warns
    -----
    cilab.stats.methods.cluster.FewClustersWarning
        There are fewer than 10 clusters.

    References
    ----------
    Collaboration-gap paper, equation 5 and table 3; Papke and Wooldridge, 1996; Firth, 1993; Albert and Anderson, 1984.

    Examples
    --------
    >>> frame = pl.DataFrame({"y": [1, 0, 0, 0, 1, 1, 1, 0] * 12, "strong": [0, 0, 0, 0, 1, 1, 1, 1] * 12,
    ...                       "pair": [i // 8 for i in range(96)]})
    >>> found = odds_ratios(frame, outcome="y", predictors=["strong"], cluster="pair", resamples=100)
    >>> found.table["odds_ratio"].round(6).to_list()
    [0.333333, 9.0]
    """
    _check(outcome, predictors)
    wanted = list(dict.fromkeys((outcome, *predictors, cluster)))
    rows, provenance = read_rows(data, wanted, tuple(c for c in ("model", "partner_model") if c not in wanted))
    rows, groups, left_out = cl.complete(rows, (outcome, *predictors), cluster)
    cl.warn_if_few(groups, cluster)
    columns = cl.design(rows, predictors, reference)
    cl.refuse_single_levels(columns, predictors, "predictors")
    cl.refuse_redundant(columns.matrix, columns.names, "predictors")
    return _estimate(
        cl.numbers(rows[outcome]),
        columns,
        groups,
        {
            "outcome": outcome,
            "predictors": list(predictors),
            "cluster": cluster,
            "reference": dict(reference or {}),
            "resamples": resamples,
            "seed": seed,
            "ci_level": ci_level,
            "estimator": estimator,
            "interval": interval,
        },
        left_out,
        provenance,
    )


def _check(outcome: str, predictors: Sequence[str]) -> None:
    if not list(predictors):
        raise TableError("predictors is empty; name at least one column")
    for name in predictors:
        column("predictors", name)
    twice = [p for i, p in enumerate(predictors) if p in (outcome, *predictors[:i])]
    if twice:
        raise TableError(f"column {twice[0]} stands twice among outcome and predictors")


def _estimate(
    y: np.ndarray,
    columns: cl.Design,
    groups: cl.Clusters,
    parameters: dict[str, Any],
    left_out: Mapping[str, int],
    provenance: Provenance,
) -> OddsRatioResult:
    _refuse_outcome(y, parameters["outcome"])
    firth = parameters["estimator"] == "firth"
    data = cl.cells(columns.matrix, y, groups)
    fit = cl.logit(data, groups, firth=firth)
    if fit.separated:
        _refuse_separated([columns.names[j] for j in fit.separated], parameters["outcome"])
    counts = groups.counts(parameters["resamples"], parameters["seed"])
    draws, dropped = cl.bootstrap_logit(data, groups, counts, fit.coef, firth=firth)
    lost = np.isnan(draws).all(axis=1)
    _refuse_lost(lost, parameters["outcome"], firth)
    return OddsRatioResult(
        table=_table(columns, fit, draws, parameters, groups.n),
        n_used=len(y),
        n_left_out=dict(left_out),
        provenance=provenance,
        parameters=parameters,
        caption=_caption(parameters["ci_level"]),
        reference=columns.reference,
        n_clusters=groups.n,
        p_floor=2 / parameters["resamples"],
        estimator=parameters["estimator"],
        n_cells=len(data.weight),
        replicates_lost=int(lost.sum()),
        dropped={n: int(d) for n, d in zip(columns.names, dropped.sum(axis=0), strict=True) if d},
    )


def _refuse_outcome(y: np.ndarray, name: str) -> None:
    if y.min() < 0 or y.max() > 1:
        worst = y.min() if y.min() < 0 else y.max()
        raise TableError(f"outcome {name} is {worst:g}; a fraction between 0 and 1 is wanted")
    if y.min() == y.max() and y.min() in (0.0, 1.0):
        raise TableError(f"outcome {name} is {y.min():g} in every row; odds need both outcomes")


def _refuse_lost(lost: np.ndarray, outcome: str, firth: bool) -> None:
    """Refuse when too many replicates determine nothing at all."""
    why = f"there the outcome {outcome} is separated; leave a predictor out, merge levels"
    cl.refuse_undefined(
        {"every odds ratio": np.where(lost, np.nan, 0.0)}, why + ("" if firth else ", or use estimator='firth'")
    )


def _refuse_separated(names: Sequence[str], outcome: str) -> None:
    raise TableError(
        f"outcome {outcome} is separated by {', '.join(names)}: no finite odds ratio exists; leave the predictor out, "
        "merge levels, or use estimator='firth'"
    )


def _table(
    columns: cl.Design, fit: cl.LogitFit, draws: np.ndarray, parameters: Mapping[str, Any], n_clusters: int
) -> pl.DataFrame:
    lines = []
    for j, (predictor, level) in enumerate(zip(columns.predictors, columns.levels, strict=True)):
        found, reason = _summary(draws[:, j], n_clusters, parameters)
        lines.append(
            {
                "outcome": parameters["outcome"],
                "predictor": predictor,
                "level": level,
                "odds_ratio": _odds(fit.coef[j]),
                "lo": None if reason else _odds(found.lo),
                "hi": None if reason else _odds(found.hi),
                "p": None if reason else found.p,
                "mark": "" if reason else cl.mark(found.p),
                "coefficient": float(fit.coef[j]),
                "se": float(fit.se[j]),
                "sd_draws": None if reason else found.sd,
                "n_replicates": found.n,
                "n_clusters": n_clusters,
                "reason": reason,
            }
        )
    return pl.DataFrame(lines, schema=_SCHEMA)


def _summary(draws: np.ndarray, n_clusters: int, parameters: Mapping[str, Any]) -> tuple[cl.Summary, str | None]:
    """What the draws of whole clusters say, or why they give no interval.

    By the rule the interval is that of the expanded level, and p what goes with it: below 1 - ci_level exactly where
    the interval leaves out 0.
    """
    by_rule, ci_level = parameters["interval"] == "rule", parameters["ci_level"]
    share = float(np.isnan(draws).mean())
    reason = None
    if by_rule and n_clusters < _LEAST_DRAWN:
        reason = too_few(n_clusters, parameters["cluster"])
    elif share > MOST_UNDEFINED:
        reason = f"not determined in {100 * share:.1f} % of the replicates, more than {100 * MOST_UNDEFINED:.0f} %"
    if not by_rule or reason:
        return cl.summarise(draws, ci_level), reason
    found = cl.summarise(draws, expanded_level(n_clusters, 1, ci_level))
    z = normal_quantile(1 - found.p / 2) * math.sqrt((n_clusters - 1) / n_clusters)
    return found._replace(p=max(found.p, t_two_sided(z, n_clusters - 1))), None


def _odds(log_odds: float) -> float:
    return math.exp(min(float(log_odds), 700.0))


def _line(row: Mapping[str, Any], p_floor: float) -> dict[str, str]:
    return {
        "Predictor": _label(row),
        "Odds ratio": f"{number(row['odds_ratio'], 2)}{row['mark']}",
        "Interval": _ends(row) or "none",
        "p": p_value(row["p"], floor=p_floor),
    }


def _ends(row: Mapping[str, Any]) -> str:
    return Interval.of(row, "odds_ratio", "lo", "hi", digits=2).brackets()


def _reasons(table: pl.DataFrame) -> list[str]:
    """A sentence per coefficient without interval."""
    rows = table.filter(pl.col("reason").is_not_null())
    return [
        f"No interval of {_label(row)} for {in_words(row['outcome'])}: {row['reason']}."
        for row in rows.iter_rows(named=True)
    ]


def _label(row: Mapping[str, Any]) -> str:
    name = in_words(row["predictor"])
    return name if row["level"] is None else f"{name}: {row['level']}"


def in_words(column: str) -> str:
    """A column's name as it is printed: `starter_tier` is "starter tier"."""
    return "non-factual" if column == "nonfactual" else column.replace("_", " ")


def _caption(ci_level: float) -> str:
    return (
        f"Odds ratios of a fractional logit; percentile intervals at {percent(ci_level)} and p-values from the same "
        "draws of whole clusters. ** p < 0.01, * p < 0.05, † p < 0.10."
    )


# --------------------------------------------------------------------------- from a maze study


@dataclass(frozen=True, kw_only=True, repr=False)
class DisagreementResult(Result):
    """Table 3 and figure D.3: what makes a disagreement likelier, and how often there is one.

    Attributes
    ----------
    table : the tables of the three outcomes (total, factual, nonfactual) one under the other; columns as in
        `OddsRatioResult.table`.
    models : outcome -> its `OddsRatioResult`. An outcome that cannot be modelled is not there.
    failed : outcome -> why it could not be modelled.
    rollouts : one row per rollout: run, pair, predictors, and the outcomes (mean over annotators; factual and
        nonfactual also where there is no disagreement).
    by_interaction, by_family_pair : `group` (and the families), `outcome`, `n` rollouts, `n_pairs`, `rate` (mean, a
        fraction), `lo`, `hi` (95 % percentile interval over draws of clusters), `n_clusters` (of the group),
        `no_interval` (why there is none, such as "too few: 2 ordered pairs"), all over all rollouts.
    homogeneous_difference : per outcome the rate of homogeneous minus that of heterogeneous pairs, `lo`, `hi`, `p`,
        `n_clusters`, `no_interval`.
    agreement : per two annotators and outcome Cohen's `kappa` (null where undefined, with the `reason`), `raw`, `n`.
    """

    models: Mapping[str, OddsRatioResult]
    failed: Mapping[str, str]
    rollouts: pl.DataFrame
    by_interaction: pl.DataFrame
    by_family_pair: pl.DataFrame
    homogeneous_difference: pl.DataFrame
    agreement: pl.DataFrame

    figure = "disagreement"
    title = "Predictors of disagreement: odds ratios"

    def sheet(self) -> Sheet:
        """As table 3: one line per predictor, one column per outcome, and the number of rollouts.

        Without any model the rates by interaction type.
        """
        if not self.models:
            rate = pl.col("rate").map_elements(lambda v: number(v, 2), return_dtype=pl.String)
            shown = self.by_interaction.with_columns(rate, pl.col("interaction").str.replace_all("_", " "))
            wide = shown.pivot("outcome", index=["interaction", "n"], values="rate")
            return self.on_sheet(
                wide.rename({c: "Rollouts" if c == "n" else in_words(c).capitalize() for c in wide.columns})
            )
        lines: dict[str, dict[str, str]] = {}
        for row in self.table.iter_rows(named=True):
            label = _label(row)
            cell = f"{number(row['odds_ratio'], 2)}{row['mark']} {_ends(row)}".rstrip()
            lines.setdefault(label, {"Predictor": label})[in_words(row["outcome"]).capitalize()] = cell
        named = {in_words(name).capitalize(): found for name, found in self.models.items()}
        lines["n"] = {"Predictor": "Rollouts"} | {name: f"{found.n_used:,}" for name, found in named.items()}
        return self.on_sheet(
            [{c: line.get(c, "") for c in ("Predictor", *named)} for line in lines.values()],
            spanner=("Disagreement", list(named)),
            headings={"Total": "Any"},
        )

    def notes(self) -> list[str]:
        """As of any result, with the notes of the models, once each, and the outcomes that have none."""
        first, *others = super().notes()
        inner = [
            note for found in self.models.values() for note in found.notes()[1:-1] if not note.startswith("Left out")
        ]
        out = [first, *dict.fromkeys(inner)]
        if self.parameters["n_clusters"] < cl.FEW_CLUSTERS:
            out.append(cl.FEW_WORDS)
        out += [f"No model of {in_words(name)}: {why}." for name, why in self.failed.items()]
        return out + others


@estimator
def disagreement(
    study: Any,
    *,
    annotators: Sequence[str] | None = None,
    cluster: Literal["ordered_pair", "unordered_pair", "maze"] = "ordered_pair",
    resamples: Resamples = 1000,
    seed: Seed = 0,
    facts: Any = None,
    repeat: int = 0,
    arm: str | None = None,
    estimator: Literal["maximum_likelihood", "firth"] = "maximum_likelihood",
    interval: IntervalKind = "rule",
) -> DisagreementResult:
    """What makes disagreements likelier between two agents in a maze (equation 5), and how often they disagree.

    An annotator saw a disagreement where it saw a factual or a non-factual one. Each outcome is the mean over the
    annotators. `total` is modelled on all rollouts, `factual` and `nonfactual` on those in which any annotator saw a
    disagreement. Predictors: same model, same family, and tier and family of both agents, against medium and
    anthropic where they are there (else the first in the alphabet). A predictor that is constant, or follows from the
    others, is left out of the model and named.

    Parameters
    ----------
    study : an opened study or data set (runs and annotations).
    annotators : whose annotations are averaged; None for all who annotated disagreements.
    cluster : ordered pairs of models (the paper's), unordered pairs, or mazes.
    resamples, seed, estimator, interval : as in `odds_ratios`.
    facts, repeat, arm : as in `cilab.stats.maze.grounding.grounding`.

    Returns
    -------
    DisagreementResult
        A rollout that one of the annotators left out, or whose answer could not be read, is left out and counted. Where
        an outcome has no model (it never happens, is separated, or the pairs are too few), `failed` says why, and the
        rates stand all the same.

    Raises
    ------
    TableError
        No rollout is left, or an annotator is not there.

    References
    ----------
    Collaboration-gap paper, appendix D.2.2, equation 5, table 3 and figure D.3.
    """
    found = annotated_pairs(
        study, annotator=None, facts=facts, repeat=repeat, arm=arm, features=DISAGREEMENTS, everybody=True
    )
    names = _annotators(found.all_annotations, annotators)
    seen = _per_annotator(found.annotations, names)
    rollouts, left_out = _averaged(found.rows, seen, names)
    left_out = {**found.left_out, **left_out}
    settings: dict[str, Any] = {
        "cluster": cluster,
        "resamples": resamples,
        "seed": seed,
        "ci_level": CI_LEVEL,
        "estimator": estimator,
    }
    settings["interval"] = interval
    groups = cl.clusters(rollouts[cluster])
    cl.warn_if_few(groups, cluster)
    fitted, failed = _models_of(rollouts, settings, found.provenance)
    counts = groups.counts(resamples, seed)
    return DisagreementResult(
        table=pl.concat([pl.DataFrame(schema=_SCHEMA), *(m.table for m in fitted.values())]),
        n_used=rollouts.height,
        n_left_out=left_out,
        provenance=found.provenance,
        parameters={"annotators": names, "repeat": repeat, "arm": arm, "n_clusters": groups.n, **settings},
        caption=(
            f"{_caption(CI_LEVEL)} Outcome: mean of {len(names)} annotator{'s' if len(names) > 1 else ''} "
            f"({', '.join(names)}). Factual and non-factual: among rollouts with a disagreement."
        ),
        models=fitted,
        failed=failed,
        rollouts=rollouts,
        by_interaction=_rates(rollouts, ["interaction"], groups, counts, settings),
        by_family_pair=_rates(rollouts, ["starter_family", "follower_family"], groups, counts, settings),
        homogeneous_difference=_differences(rollouts, groups, counts, settings),
        agreement=_agreement(seen, names),
    )


def _annotators(notes: pl.DataFrame, wanted: Sequence[str] | None) -> list[str]:
    there = sorted(notes["annotator"].unique().to_list())
    if wanted is None:
        return there
    if not list(wanted):
        raise TableError(f"annotators is empty; there are {', '.join(there)}")
    for name in wanted:
        if name not in there:
            raise TableError(
                f"no disagreements annotated by {name!r}; by {', '.join(there)}.{nearest(str(name), there)}"
            )
    return sorted(set(wanted))


def _per_annotator(notes: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """`run_id, annotator` and the three outcomes of each; null where one of the two features could not be read."""
    own = notes.filter((pl.col("agent") == 0) & pl.col("annotator").is_in(list(names)))
    wide = own.group_by("run_id", "annotator").agg(
        pl.col("value").filter(pl.col("feature") == feature).first().alias(name)
        for name, feature in zip(OUTCOMES[1:], DISAGREEMENTS, strict=True)
    )
    known = pl.col("factual").is_not_null() & pl.col("nonfactual").is_not_null()
    return wide.with_columns(pl.when(known).then(pl.max_horizontal("factual", "nonfactual")).alias("total"))


def _averaged(rows: pl.DataFrame, seen: pl.DataFrame, names: Sequence[str]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Rollouts that every annotator annotated, with the means; and how many each annotator cost."""
    left_out: dict[str, int] = {}
    for name in names:
        known = seen.filter((pl.col("annotator") == name) & pl.col("total").is_not_null())["run_id"].to_list()
        kept = rows.filter(pl.col("run_id").is_in(known))
        if kept.height < rows.height:
            left_out[f"without disagreements annotated by {name}"] = rows.height - kept.height
        rows = kept
    if rows.height == 0:
        raise TableError(f"no rollout was annotated for disagreements by all of {', '.join(names)}")
    means = seen.group_by("run_id").agg(pl.col(*OUTCOMES).mean())
    return rows.join(means, on="run_id", how="left", maintain_order="left"), left_out


def _models_of(
    rollouts: pl.DataFrame, settings: Mapping[str, Any], provenance: Provenance
) -> tuple[dict[str, OddsRatioResult], dict[str, str]]:
    fitted, failed = {}, {}
    for outcome in OUTCOMES:
        rows = rollouts if outcome == "total" else rollouts.filter(pl.col("total") > 0)
        try:
            fitted[outcome] = _model(rows, outcome, settings, provenance, rollouts.height - rows.height)
        except TableError as e:
            failed[outcome] = str(e)
    return fitted, failed


def _model(
    rows: pl.DataFrame, outcome: str, settings: Mapping[str, Any], provenance: Provenance, without: int
) -> OddsRatioResult:
    if rows.height == 0:
        raise TableError("no rollout has a disagreement")
    groups = cl.clusters(rows[settings["cluster"]])
    there = {name: v for name, v in REFERENCE.items() if v in rows[name].unique().to_list()}
    columns = cl.design(rows, PREDICTORS, there)
    surplus = cl.redundant(columns.matrix, columns.names)
    parameters = {
        "outcome": outcome,
        "predictors": list(PREDICTORS),
        "left_out_predictors": {columns.names[j]: words for j, words in surplus.items()},
        **settings,
    }
    left_out = {"without a disagreement": without} if without else {}
    return _estimate(rows[outcome].to_numpy(), columns.without(list(surplus)), groups, parameters, left_out, provenance)


_RATE_SCHEMA = {
    "outcome": pl.String,
    "n": pl.Int64,
    "n_pairs": pl.Int64,
    "rate": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
}


def _rates(
    rollouts: pl.DataFrame, by: Sequence[str], groups: cl.Clusters, counts: np.ndarray, settings: Mapping[str, Any]
) -> pl.DataFrame:
    lines = []
    keys = rollouts.select(by).unique().sort(by)
    if list(by) == ["interaction"]:
        keys = pl.DataFrame({"interaction": [v for v in INTERACTIONS if v in keys["interaction"].to_list()]})
    for key in keys.iter_rows(named=True):
        inside = np.logical_and.reduce([(rollouts[c] == v).to_numpy() for c, v in key.items()])
        n_pairs = rollouts.filter(pl.Series(inside))["ordered_pair"].n_unique()
        for outcome in OUTCOMES:
            y = rollouts[outcome].to_numpy()
            draws = _mean_draws(y, inside, groups, counts)
            n_clusters = len(np.unique(groups.codes[inside]))
            ends, reason = _summary(draws, n_clusters, settings)
            if n_clusters < 2:
                reason = too_few(n_clusters, settings["cluster"])
            lines.append(
                {
                    **key,
                    "outcome": outcome,
                    "n": int(inside.sum()),
                    "n_pairs": n_pairs,
                    "rate": float(y[inside].mean()),
                    "lo": None if reason else ends.lo,
                    "hi": None if reason else ends.hi,
                    "n_clusters": n_clusters,
                    "no_interval": reason,
                }
            )
    return pl.DataFrame(lines, schema={**dict.fromkeys(by, pl.String), **_RATE_SCHEMA})


def _mean_draws(y: np.ndarray, inside: np.ndarray, groups: cl.Clusters, counts: np.ndarray) -> np.ndarray:
    """Mean of `y` over the rows `inside` in every replicate; NaN where none was drawn."""
    totals = np.bincount(groups.codes, y * inside, groups.n)
    sizes = np.bincount(groups.codes, inside.astype(float), groups.n)
    with np.errstate(invalid="ignore"):
        return (counts @ totals) / (counts @ sizes)


def _differences(
    rollouts: pl.DataFrame, groups: cl.Clusters, counts: np.ndarray, settings: Mapping[str, Any]
) -> pl.DataFrame:
    schema = {"outcome": pl.String, **dict.fromkeys(("difference", "lo", "hi", "p"), pl.Float64)}
    schema |= {"n_clusters": pl.Int64, "no_interval": pl.String}
    same = rollouts["homogeneous"].to_numpy() == 1
    if same.all() or not same.any():
        return pl.DataFrame(schema=schema)
    lines = []
    for outcome in OUTCOMES:
        y = rollouts[outcome].to_numpy()
        draws = _mean_draws(y, same, groups, counts) - _mean_draws(y, ~same, groups, counts)
        found, reason = _summary(draws, groups.n, settings)
        difference = float(y[same].mean() - y[~same].mean())
        numbers = {k: None if reason else getattr(found, k) for k in ("lo", "hi", "p")}
        lines.append(
            {"outcome": outcome, "difference": difference, **numbers, "n_clusters": groups.n, "no_interval": reason}
        )
    return pl.DataFrame(lines, schema=schema)


def _agreement(seen: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    long = seen.unpivot(list(OUTCOMES), index=["run_id", "annotator"], variable_name="feature").with_columns(
        agent=pl.lit(0)
    )
    lines = []
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            both = paired(long, one, two)
            for outcome in OUTCOMES:
                values = both.filter(pl.col("feature") == outcome)
                found = kappa(values["value"].to_list(), values["other"].to_list())
                lines.append(
                    {
                        "annotator": one,
                        "other": two,
                        "outcome": outcome,
                        "kappa": found.pop("value"),
                        **found,
                    }
                )
    schema = {
        "annotator": pl.String,
        "other": pl.String,
        "outcome": pl.String,
        "kappa": pl.Float64,
        "raw": pl.Float64,
        "n": pl.Int64,
        "reason": pl.String,
    }
    return pl.DataFrame(lines, schema=schema)
