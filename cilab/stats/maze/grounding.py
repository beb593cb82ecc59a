"""What agents did to understand each other, rollout by rollout, and how far annotators agree on it.

May import `cilab.core` and `cilab.stats`. States the score of equation 1 over the annotations
table; how an annotation is made is no concern of its own. Takes a missing feature as missing, never as false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from cilab.core import registry
from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, as_lazy, read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.estimator import estimator
from cilab.results.numbers import number
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze.rows import bare, copies, interval_notes, plural, refuse_doubles, with_partner_effort
from cilab.stats.methods.coefficients import cohen_kappa
from cilab.stats.methods.hypothesis_tests import pearson, spearman
from cilab.stats.methods.means import Sample, Units, clustered_mean

#: What each agent (1 the starter, 2 the follower) did: 0 or 1.
AGENT_FEATURES = ("grounded_start_goal", "shared_map", "merged_map")
RECONCILIATION = "reconciliation"
STRATEGY = "strategy_global"
DISAGREEMENTS = ("has_factual_disagreement", "has_nonfactual_disagreement")
#: (agent, feature) -> largest value, for all that enters equation 1.
COMPONENTS = {(0, RECONCILIATION): 2, **{(agent, f): 1 for agent in (1, 2) for f in AGENT_FEATURES}}

CLUSTERS = ("ordered_pair", "unordered_pair", "maze")
CONTROLS = (
    "starter_tier",
    "follower_tier",
    "starter_family",
    "follower_family",
    "homogeneous",
    "same_family",
    "path_length",
    "log_median_tokens",
)
#: Reference levels of the paper (note a of table 3).
REFERENCE = {
    "starter_tier": "medium",
    "follower_tier": "medium",
    "starter_family": "anthropic",
    "follower_family": "anthropic",
}
INTERACTIONS = ("homogeneous", "same family", "cross family")

_STATUS_REASONS = {"refused": "refused", "gated_out": "gated out", "error": "ended in an error"}
_AGENTS = ("under_test", "partner")


def grounding_score(values: Mapping[tuple[int, str], float | None]) -> float | None:
    """X of equation 1: reconciliation (0, 1, 2) and the three features of both agents, summed, over 8.

    Parameters
    ----------
    values : (agent, feature) -> value, with at least the keys of `COMPONENTS`.

    Returns
    -------
    A fraction between 0 and 1; None when one of the seven values is missing.

    Examples
    --------
    >>> grounding_score({key: 1 for key in COMPONENTS})
    0.875
    """
    found = [values.get(key) for key in COMPONENTS]
    return None if None in found else sum(found) / 8  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, repr=False)
class GroundingResult(Result):
    """Grounding, strategy and outcome of every annotated pair rollout, with the controls of the mediation.

    Attributes
    ----------
    table : one row per rollout: `run_id, starter, follower, ordered_pair, unordered_pair, maze, grounding` (score of
        equation 1, 0 to 1), `strategy_global` (0 or 1), `weighted_outcome` (at most 1), the components of the score,
        `starter_tier, follower_tier, starter_family, follower_family, interaction, homogeneous, same_family` (0 or 1),
        `path_length` (steps), `median_tokens` (per message), `log_median_tokens`. Missing values are null.
    pairs : one row per ordered pair: `n`, mean `grounding`, `weighted_outcome`, and `share_global`.
    correlations : `method` (pearson, spearman), `r`, `p`, `n`: mean grounding against mean outcome, over ordered
        pairs.
    by_strategy : per strategy (global, local) the `mean` outcome with `se`, `lo`, `hi` (95 %), `n_clusters` (ordered
        pairs, or what `cluster` names, behind the interval), `no_interval` (why there is none).
    by_score : the same per strategy and grounding score.
    by_tier : share of global strategies per pair of tiers, strongest first, with `n`.
    agreement : per two annotators and feature: `statistic` (pearson for the score, kappa for its components and the
        strategy, agents pooled), `value` (null where undefined, with the `reason`), `raw` (share of equal
        values), `n` (values compared).
    """

    pairs: pl.DataFrame
    correlations: pl.DataFrame
    by_strategy: pl.DataFrame
    by_score: pl.DataFrame
    by_tier: pl.DataFrame
    agreement: pl.DataFrame

    figure = "grounding"
    title = "Grounding and strategy"

    def sheet(self) -> Sheet:
        """One line per strategy, correlation and agreement."""
        lines = []
        for row in self.by_strategy.iter_rows(named=True):
            value = bare(row, digits=3).half()
            lines.append((f"Mean outcome, {row['strategy']} strategy", "", value, row["n"]))
        for row in self.correlations.iter_rows(named=True):
            value = "undefined" if row["r"] is None else f"{number(row['r'], 2)} (p {row['p']:.2g})"
            lines.append((f"Score and outcome, {row['method']}", "over ordered pairs", value, row["n"]))
        for row in self.agreement.iter_rows(named=True):
            who = f"{row['annotator']}, {row['other']}"
            value = number(row["value"], 2, "undefined")
            lines.append((f"{row['statistic'].capitalize()}, {row['feature']}", who, value, row["n"]))
        columns = ("Quantity", "Between", "Value", "n")
        return self.on_sheet([dict(zip(columns, map(str, line), strict=True)) for line in lines])

    def notes(self) -> list[str]:
        """What has no interval and why, then what was used and left out."""
        return [*interval_notes({"means": self.by_strategy["no_interval"]}), *super().notes()]


@estimator
def grounding(
    study: Any,
    *,
    annotator: str | None = None,
    facts: Any = None,
    repeat: int = 0,
    arm: str | None = None,
    cluster: Literal["ordered_pair", "unordered_pair", "maze", "rollout"] = "ordered_pair",
) -> GroundingResult:
    """Grounding score, strategy, outcome and controls of every annotated pair rollout; agreement between annotators.

    Parameters
    ----------
    study : an opened study or data set: anything with LazyFrames `.runs`, `.annotations` and, for the median
        tokens, `.messages`.
    annotator : whose annotations; None where the study holds those of one annotator only.
    facts : DataFrame with `model`, `family` and `strength` (tier: strong, medium, weak); by default the study's own
        models table, else the registry.
    repeat : which repeat of the annotator, from 0.
    arm : the treatment; None for rollouts without one.
    cluster : what the intervals of mean outcomes are taken over: ordered pairs of models, as the paper's mediation,
        unordered pairs, mazes, or rollouts as if independent, with the normal interval.

    Returns
    -------
    GroundingResult
        Left out and counted: what is no pair or of another arm, refused or broken rollouts, those without an outcome,
        those that the annotator did not annotate, those of models without family or tier. A rollout with an unreadable
        feature stays, with a null score.

    Raises
    ------
    TableError
        No rollout is left; two scored rollouts of one cell; the annotator is not there, or has to be named; an outcome
        is above 1; a feature is outside its range.

    References
    ----------
    Collaboration-gap paper, equation 1 and appendix D.2.1 (figure D.2, the agreement in its last paragraph).
    """
    found = annotated_pairs(study, annotator=annotator, facts=facts, repeat=repeat, arm=arm)
    table = with_features(found.rows, found.annotations)
    pairs = _by_pair(table)
    units = Units(cluster, CI_LEVEL, fraction=True, plain=cluster == "rollout")
    return GroundingResult(
        table=table,
        n_used=table.height,
        n_left_out=found.left_out,
        provenance=found.provenance,
        parameters={"annotator": found.annotator},
        caption=(
            "Grounding score: reconciliation (0 to 2) and three features of each agent, over 8. Outcome: weighted, "
            f"1 = goal reached, ± half its 95% interval over {plural(cluster)}. "
            "Annotations carry the annotator's errors."
        ),
        pairs=pairs,
        correlations=_correlations(pairs),
        by_strategy=_means(table, ["strategy"], units),
        by_score=_means(table.drop_nulls("grounding"), ["strategy", "grounding"], units),
        by_tier=_by_tier(table),
        agreement=_agreement(found.all_annotations, found.rows["run_id"]),
    )


# --------------------------------------------------------------------------- rollouts


class AnnotatedPairs(NamedTuple):
    """Pair rollouts with controls, and annotations.

    `rows`: one per rollout that `annotator` annotated (any annotator, for None); `annotations`: theirs, of the wanted
    repeat; `all_annotations`: everybody's; `left_out`: reason -> number.
    """

    rows: pl.DataFrame
    annotator: str | None
    annotations: pl.DataFrame
    all_annotations: pl.DataFrame
    left_out: dict[str, int]
    provenance: Provenance


def annotated_pairs(
    study: Any,
    *,
    annotator: str | None,
    facts: Any = None,
    repeat: int = 0,
    arm: str | None = None,
    features: Sequence[str] = (STRATEGY, RECONCILIATION),
    everybody: bool = False,
) -> AnnotatedPairs:
    """Scored pair rollouts with their controls, and the annotations of them; see `grounding`.

    `features` are those by which an annotator is known; with `everybody`, rollouts that any annotator annotated are
    kept, `annotator` is not asked for, and an outcome is not needed.
    """
    notes = _annotations(study, repeat, features)
    name = None if everybody else _annotator(notes, annotator)
    mine = notes if name is None else notes.filter(pl.col("annotator") == name)
    rows, provenance = _runs(study)
    rows = rows.join(_facts(study, facts, "starter"), on="starter", how="left")
    rows = rows.join(_facts(study, facts, "follower"), on="follower", how="left")
    rows = rows.with_columns(_reason(mine, name, arm, not everybody).alias("reason"))
    again = pl.col("run_id").is_first_distinct().not_() & pl.col("reason").is_null()
    rows = rows.with_columns(pl.when(again).then(pl.lit("the same run again")).otherwise("reason").alias("reason"))
    counts = rows["reason"].drop_nulls().value_counts()
    left_out = dict(sorted(counts.iter_rows(), key=lambda item: (-item[1], item[0])))
    rows = rows.filter(pl.col("reason").is_null()).drop("reason")
    refuse_doubles(rows.rename({"starter": "model", "follower": "partner_model", "maze": "task_id"}))
    rows = rows.drop("seed")
    if rows.height == 0:
        listed = "; ".join(f"{n:,} {reason}" for reason, n in left_out.items())
        hint = ". Pass facts= with model, family and strength" if any("family" in r for r in left_out) else ""
        raise TableError(f"no annotated pair rollout to use; left out: {listed}{hint}")
    worst = rows["weighted_outcome"].max()
    if worst is not None and worst > 1:
        raise TableError(
            f"runs: weighted_outcome is {worst:g}, above 1; it is a fraction of the way (divide percentages by 100)"
        )
    rows = _with_controls(rows).join(_median_tokens(study, rows["run_id"]), on="run_id", how="left")
    rows = rows.with_columns(
        pl.when(pl.col("median_tokens") > 0).then(pl.col("median_tokens").log()).alias("log_median_tokens")
    )
    return AnnotatedPairs(rows.sort("run_id"), name, mine, notes, left_out, provenance)


def _annotations(study: Any, repeat: int, features: Sequence[str]) -> pl.DataFrame:
    """Annotations of the wanted repeat by everybody who annotated `features`."""
    lazy = getattr(study, "annotations", None)
    if not isinstance(lazy, pl.LazyFrame | pl.DataFrame):
        raise TableError(f"annotations are needed: give an opened study (cilab.open), not {type(study).__name__}")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 0:
        raise TableError(f"repeat is {repeat!r}: give a whole number from 0")
    known = [RECONCILIATION, STRATEGY, *AGENT_FEATURES, *DISAGREEMENTS]
    notes = lazy.lazy().select("run_id", "annotator", "repeat", "agent", "feature", "value").collect()
    notes = notes.filter(pl.col("feature").is_in(known))
    if notes.height == 0:
        raise TableError("annotations: none of grounding or disagreement; make some: cilab annotate DATA --with rules")
    if notes.filter(pl.col("repeat") == repeat).height == 0:
        there = ", ".join(map(str, sorted(notes["repeat"].unique().to_list())))
        raise TableError(f"annotations: no repeat {repeat}; there are {there}")
    notes = notes.filter(pl.col("repeat") == repeat)
    mine = notes.filter(pl.col("feature").is_in(list(features)))["annotator"].unique()
    notes = notes.filter(pl.col("annotator").is_in(mine.to_list()))
    if notes.height == 0:
        raise TableError(f"annotations: nobody annotated {' or '.join(features)}")
    twice = notes.filter(pl.struct("run_id", "annotator", "agent", "feature").is_duplicated())
    if twice.height:
        # Merged studies hold the same annotation twice: that is one; two different values are none.
        notes = notes.unique(maintain_order=True)
        clash = notes.filter(pl.struct("run_id", "annotator", "agent", "feature").is_duplicated())
        if clash.height:
            first = clash.row(0, named=True)
            raise TableError(
                f"annotations: {first['annotator']} gave run {first['run_id']} two values for {first['feature']}"
            )
    _check_values(notes)
    return notes.with_columns(pl.col("value").fill_nan(None))


def _check_values(notes: pl.DataFrame) -> None:
    most = pl.when(pl.col("feature") == RECONCILIATION).then(2.0).otherwise(1.0)
    value = pl.col("value")
    wrong = notes.filter(
        value.is_not_null() & value.is_not_nan() & ~((value >= 0) & (value <= most) & (value % 1 == 0))
    )
    if wrong.height:
        first = wrong.row(0, named=True)
        allowed = "0, 1 or 2" if first["feature"] == RECONCILIATION else "0 or 1"
        raise TableError(
            f"annotations: {first['feature']} is {first['value']:g} in run {first['run_id']}; it must be {allowed}"
        )


def _annotator(notes: pl.DataFrame, wanted: str | None) -> str:
    there = sorted(notes["annotator"].unique().to_list())
    if wanted is None and len(there) == 1:
        return there[0]
    if wanted is None:
        raise TableError(f"annotations by {', '.join(there)}: name one, such as annotator={there[0]!r}")
    if wanted not in there:
        raise TableError(
            f"no annotations by {wanted!r}; there are some by {', '.join(there)}.{nearest(str(wanted), there)}"
        )
    return wanted


def _runs(study: Any) -> tuple[pl.DataFrame, Provenance]:
    rows, provenance = read_rows(
        study,
        required=("run_id", "task_id", "version", "model", "partner_model", "status", "weighted_outcome"),
        optional=("benchmark", "effort", "partner_effort", "arm", "seed", "path_length"),
    )
    try:
        rows = with_partner_effort(rows).with_columns(
            pl.col("weighted_outcome").cast(pl.Float64).fill_nan(None), pl.col("path_length").cast(pl.Float64)
        )
    except pl.exceptions.PolarsError:
        raise TableError("runs: weighted_outcome and path_length must be numbers") from None
    text = [c for c in rows.columns if c not in ("weighted_outcome", "path_length")]
    rows = rows.with_columns(pl.col(text).cast(pl.String)).with_columns(copies().alias("copies"))
    return rows.rename({"model": "starter", "partner_model": "follower", "task_id": "maze"}), provenance


def _facts(study: Any, facts: Any, seat: str) -> pl.DataFrame:
    """Family and tier of every known model, named for a seat."""
    table = facts if facts is not None else getattr(study, "models", None)
    if table is None:
        table = registry.models()
    lazy = as_lazy(table, "facts must be a DataFrame with model, family and strength")
    missing = [c for c in ("model", "family", "strength") if c not in lazy.collect_schema().names()]
    if missing:
        raise TableError(f"facts: missing column {', '.join(missing)}")
    wanted = lazy.select(
        pl.col("model").cast(pl.String).alias(seat),
        pl.col("family").cast(pl.String).alias(f"{seat}_family"),
        pl.col("strength").cast(pl.String).alias(f"{seat}_tier"),
    ).collect()
    twice = wanted.filter(pl.col(seat).is_duplicated())
    if twice.height:
        raise TableError(f"facts: {twice[seat][0]} stands there twice")
    return wanted


def _reason(mine: pl.DataFrame, annotator: str | None, arm: str | None, scored: bool) -> pl.Expr:
    """Why a run is left out; null where it is used. The first reason that fits counts."""
    version, who = pl.col("version"), "anybody" if annotator is None else annotator
    known = [f"{seat}_{what}" for seat in ("starter", "follower") for what in ("family", "tier")]
    reason = (
        pl.when(pl.col("benchmark").fill_null("maze") != "maze")
        .then(pl.lit("of another benchmark"))
        .when(version != "pair")
        .then(pl.lit("of other settings than pairs"))
        .when(pl.col("follower").is_null())
        .then(pl.lit("pairs without a partner named"))
        .when(~pl.col("arm").eq_missing(pl.lit(arm, pl.String)))
        .then(pl.lit("of another arm"))
    )
    for status, words in _STATUS_REASONS.items():
        reason = reason.when(pl.col("status") == status).then(pl.lit(words))
    return (
        reason.when(pl.lit(scored) & pl.col("weighted_outcome").is_null())
        .then(pl.lit("without an outcome"))
        .when(~pl.col("run_id").is_in(mine["run_id"].unique().to_list()))
        .then(pl.lit(f"not annotated by {who}"))
        .when(pl.any_horizontal(pl.col(known).is_null()))
        .then(pl.lit("of models without family or tier"))
        .otherwise(None)
    )


def _with_controls(rows: pl.DataFrame) -> pl.DataFrame:
    """Pair labels, interaction type, and the two indicators of equation 5."""
    one, two = (
        pl.concat_str([pl.col(seat), pl.col(effort)], separator=" · ", ignore_nulls=True)
        for seat, effort in (("starter", "effort"), ("follower", "partner_effort"))
    )
    homogeneous = pl.col("copies")
    family = pl.col("starter_family") == pl.col("follower_family")
    rows = rows.with_columns(
        pl.concat_str([one, two], separator=" > ").alias("ordered_pair"),
        pl.concat_str([pl.min_horizontal(one, two), pl.max_horizontal(one, two)], separator=" + ").alias(
            "unordered_pair"
        ),
        homogeneous.cast(pl.Float64).alias("homogeneous"),
        family.cast(pl.Float64).alias("same_family"),
        pl.when(homogeneous)
        .then(pl.lit(INTERACTIONS[0]))
        .when(family)
        .then(pl.lit(INTERACTIONS[1]))
        .otherwise(pl.lit(INTERACTIONS[2]))
        .alias("interaction"),
    )
    return rows.select(
        "run_id",
        "starter",
        "follower",
        *CLUSTERS,
        "weighted_outcome",
        "starter_tier",
        "follower_tier",
        "starter_family",
        "follower_family",
        "interaction",
        "homogeneous",
        "same_family",
        "path_length",
    )


def _median_tokens(study: Any, run_ids: pl.Series) -> pl.DataFrame:
    """Median completion tokens per message of the agents; no row where the messages do not say."""
    messages = getattr(study, "messages", None)
    if not isinstance(messages, pl.LazyFrame | pl.DataFrame):
        return pl.DataFrame(schema={"run_id": pl.String, "median_tokens": pl.Float64})
    said = (pl.col("kind") == "message") & pl.col("seat_kind").is_in(_AGENTS) & pl.col("tokens_out").is_not_null()
    return (
        messages.lazy()
        .filter(said & pl.col("run_id").is_in(run_ids.to_list()))
        .group_by("run_id")
        .agg(pl.col("tokens_out").median().cast(pl.Float64).alias("median_tokens"))
        .collect()
    )


# --------------------------------------------------------------------------- the score and what it goes with


def with_features(rows: pl.DataFrame, notes: pl.DataFrame) -> pl.DataFrame:
    """Rollouts with the components, the score (null where one is missing) and the strategy."""
    wanted = {_column(agent, f): (agent, f) for agent, f in COMPONENTS} | {STRATEGY: (0, STRATEGY)}
    wide = notes.group_by("run_id").agg(
        pl.col("value").filter((pl.col("agent") == agent) & (pl.col("feature") == f)).first().alias(name)
        for name, (agent, f) in wanted.items()
    )
    parts = [pl.col(name) for name in wanted if name != STRATEGY]
    score = pl.when(pl.all_horizontal(part.is_not_null() for part in parts)).then(pl.sum_horizontal(parts) / 8)
    wide = wide.with_columns(score.alias("grounding"))
    out = rows.join(wide, on="run_id", how="left", maintain_order="left")
    first = ["run_id", "starter", "follower", *CLUSTERS, "grounding", STRATEGY, "weighted_outcome"]
    return out.select(*first, *(c for c in out.columns if c not in first))


def _column(agent: int, feature: str) -> str:
    return feature if agent == 0 else f"{feature}_{agent}"


def _by_pair(table: pl.DataFrame) -> pl.DataFrame:
    scored = table.filter(pl.col("grounding").is_not_null())
    return (
        scored.group_by("ordered_pair", "interaction")
        .agg(
            pl.len().alias("n"),
            pl.col("grounding").mean(),
            pl.col("weighted_outcome").mean(),
            pl.col(STRATEGY).mean().alias("share_global"),
        )
        .sort("ordered_pair")
    )


def _correlations(pairs: pl.DataFrame) -> pl.DataFrame:
    x, y = pairs["grounding"].to_numpy(), pairs["weighted_outcome"].to_numpy()
    lines = []
    for method, test in (("pearson", pearson), ("spearman", spearman)):
        found = test(x, y) if len(x) >= 3 else None
        lines.append({"method": method, "r": found and found.estimate, "p": found and found.p, "n": len(x)})
    return pl.DataFrame(lines, schema={"method": pl.String, "r": pl.Float64, "p": pl.Float64, "n": pl.Int64})


def _means(table: pl.DataFrame, by: Sequence[str], units: Units) -> pl.DataFrame:
    """Mean outcome by strategy, global ones first, and by what else `by` names."""
    strategy = pl.when(pl.col(STRATEGY) == 1).then(pl.lit("global")).otherwise(pl.lit("local")).alias("strategy")
    known = table.drop_nulls([STRATEGY, "weighted_outcome"]).with_columns(strategy)
    lines = []
    for key, part in sorted(known.partition_by(by, as_dict=True).items()):
        if units.plain:
            codes = np.arange(part.height)
            values = part["weighted_outcome"].sort().to_numpy()
        else:
            part = part.sort(units.unit, "weighted_outcome")
            codes = part[units.unit].rank("dense").cast(pl.Int64).to_numpy()
            values = part["weighted_outcome"].to_numpy()
        lines.append(dict(zip(by, key, strict=True)) | clustered_mean(Sample(values, codes), units))
    numbers = dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64)
    head = {name: pl.String if name == "strategy" else pl.Float64 for name in by}
    return pl.DataFrame(
        lines, schema={**head, "n": pl.Int64, **numbers, "n_clusters": pl.Int64, "no_interval": pl.String}
    )


_TIERS = ("strong", "medium", "weak")


def _by_tier(table: pl.DataFrame) -> pl.DataFrame:
    """Share of global strategies per unordered pair of tiers."""
    rank = {tier: str(i) for i, tier in enumerate(_TIERS)}
    one, two = (pl.col(f"{seat}_tier").replace(rank) for seat in ("starter", "follower"))
    name = pl.concat_str([pl.min_horizontal(one, two), pl.max_horizontal(one, two)], separator="-")
    shares = (
        table.filter(pl.col(STRATEGY).is_not_null())
        .group_by(name.alias("tiers"))
        .agg(pl.len().alias("n"), pl.col(STRATEGY).mean().alias("share_global"))
        .sort("tiers")
    )
    words = {f"{i}-{j}": f"{_TIERS[i]} - {_TIERS[j]}" for i in range(3) for j in range(i, 3)}
    return shares.with_columns(pl.col("tiers").replace(words))


# --------------------------------------------------------------------------- agreement

_AGREEMENT_SCHEMA = {
    "annotator": pl.String,
    "other": pl.String,
    "feature": pl.String,
    "statistic": pl.String,
    "value": pl.Float64,
    "raw": pl.Float64,
    "n": pl.Int64,
    "reason": pl.String,
}


def _agreement(notes: pl.DataFrame, run_ids: pl.Series) -> pl.DataFrame:
    """Every two annotators on the rollouts that both annotated."""
    notes = notes.filter(pl.col("run_id").is_in(run_ids.to_list()))
    names = sorted(notes["annotator"].unique().to_list())
    lines = []
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            both = paired(notes, one, two)
            lines.append({"annotator": one, "other": two, **_score_agreement(both)})
            for feature in (*AGENT_FEATURES, RECONCILIATION, STRATEGY):
                values = both.filter(pl.col("feature") == feature)
                found = kappa(values["value"].to_list(), values["other"].to_list())
                lines.append({"annotator": one, "other": two, "feature": feature, "statistic": "kappa", **found})
    return pl.DataFrame(lines, schema=_AGREEMENT_SCHEMA)


def paired(notes: pl.DataFrame, one: str, two: str) -> pl.DataFrame:
    """Values of two annotators side by side: `run_id, agent, feature, value, other`, unreadable ones left out."""
    key = ["run_id", "agent", "feature"]
    left = notes.filter(pl.col("annotator") == one).select(*key, "value")
    right = notes.filter(pl.col("annotator") == two).select(*key, pl.col("value").alias("other"))
    return left.join(right, on=key, how="inner").drop_nulls()


def _score_agreement(both: pl.DataFrame) -> dict[str, Any]:
    inside = pl.any_horizontal((pl.col("agent") == a) & (pl.col("feature") == f) for a, f in COMPONENTS)
    scores = (
        both.filter(inside)
        .group_by("run_id")
        .agg(pl.len(), pl.col("value", "other").sum() / 8)
        .filter(pl.col("len") == len(COMPONENTS))
    )
    x, y = scores["value"].to_numpy(), scores["other"].to_numpy()
    line: dict[str, Any] = {"feature": "grounding", "statistic": "pearson", "value": None, "raw": None, "n": len(x)}
    line["reason"] = None
    if len(x):
        line["raw"] = float((x == y).mean())
    if len(x) < 3:
        line["reason"] = "fewer than 3 rollouts annotated by both"
    elif np.ptp(x) == 0 or np.ptp(y) == 0:
        line["reason"] = "an annotator gave every rollout the same score"
    else:
        line["value"] = float(np.corrcoef(x, y)[0, 1])
    return line


def kappa(one: Sequence[float], two: Sequence[float]) -> dict[str, Any]:
    """Cohen's kappa as part of a line: `value` (None where undefined, with the `reason`), `raw` agreement, `n`."""
    found = cohen_kappa(list(one), list(two))
    return {"value": found.value, "raw": found.raw, "n": found.n_subjects, "reason": found.reason}
