"""Estimators of the collaboration-gap paper's claims (CG...), and the places where that paper contradicts itself.

May import `cilab.maze.plan`, `cilab.stats`, `cilab.datasets` and its own folder. Plays no maze.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from cilab.claims.data import Answer, Estimator, Inputs, MissingInput
from cilab.core.errors import TableError
from cilab.stats.maze.grounding import AGENT_FEATURES

_TABLE = "cilab.datasets.published_table"
_BLOCK = "cilab.maze.plan.MazeBlock"
_FACE = "cilab."
_TWO_SE = "tolerance: two standard errors of ours"


# -- design ---------------------------------------------------------------------------------------------


def _maze_defaults(inputs: Inputs) -> Answer:
    from cilab.maze.plan import Mazes

    mazes = Mazes()
    low, high = mazes.path or (None, None)
    return Answer(mazes.size, low, high, note=f"wall density {mazes.density:.2f}, as the paper's 30 %")  # type: ignore[arg-type]


def _maze_rollouts(inputs: Inputs) -> Answer:
    from cilab.maze.plan import MAX_TURNS, MazeBlock

    block = MazeBlock(benchmark="maze", models=["sim/strong"])  # type: ignore[list-item]
    return Answer(block.mazes.count * len(block.seeds), note=f"{MAX_TURNS} turns at most")


def _relay_rollouts(inputs: Inputs) -> Answer:
    from cilab.maze.plan import Relay

    relay = Relay(strong="sim/strong", weak="sim/weak")  # type: ignore[arg-type]
    return Answer(_maze_rollouts(inputs).value, note=f"K in {', '.join(map(str, relay.k))}")


# -- published tables, with the estimator on rollouts beside it -------------------------------------------


def _pair(starter: str, follower: str) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        from cilab.stats.maze.pairs import pairs_from_means

        table = pairs_from_means(inputs.table("maze_pairs")).table
        row = table.row(by_predicate=(pl.col("starter") == starter) & (pl.col("follower") == follower), named=True)
        return Answer(row["mean"], row["lo"], row["hi"], note="table 4 against the text")

    return compute


def _effects(inputs: Inputs, model: str) -> dict[str, float]:
    return dict(inputs.table("maze_mediation").select("effect", model).iter_rows())


def share_mediated(inputs: Inputs) -> Answer:
    """Indirect over total effect of the additive model, in percent (collaboration-gap paper, D.2.1)."""
    effects = _effects(inputs, "model_1")
    share = 100 * effects["a"] * effects["b"] / effects["total"]
    return Answer(share, note="100 a b / c of table 2; " + _beside(inputs, _mediated("share_mediated", 100)))


def strategy_at_full_grounding(inputs: Inputs) -> Answer:
    """Effect of a global strategy at grounding 1 in the model with interaction (collaboration-gap paper, D.2.1)."""
    effects = _effects(inputs, "model_2")
    boost = effects["b"] + effects["synergy"]
    times = boost / _effects(inputs, "model_1")["b"]
    note = f"{times:.1f} times the additive b, where the text says effectively doubling; "
    return Answer(boost, note=note + _beside(inputs, _mediated("b_at_1")))


def _identical_model_odds(inputs: Inputs) -> Answer:
    odds = inputs.table("odds_ratios").row(by_predicate=pl.col("predictor") == "identical_model", named=True)
    return Answer(odds["or_total"], note="table 3 against the text; " + _beside(inputs, _homogeneous_odds))


def _homogeneous_odds(mazes: Inputs) -> str:
    rows = mazes.disagreement().table.filter(
        (pl.col("outcome") == "total") & (pl.col("predictor") == "homogeneous") & pl.col("odds_ratio").is_not_null()
    )
    if rows.height == 0:
        raise MissingInput("a model of any disagreement")
    truth = mazes.truth("odds", predictor="homogeneous", kind="total")
    return f"cilab.disagreement gives {rows['odds_ratio'][0]:.2f}" + _true(truth)


def _mediated(effect: str, factor: float = 1.0) -> Callable[[Inputs], str]:
    def text(mazes: Inputs) -> str:
        ours = mazes.mediation().estimates[effect]
        if ours is None:
            raise MissingInput("a synergy model")
        truth = mazes.truth("mediation", effect=effect)
        shown = None if truth is None else factor * truth
        return f"cilab.mediation gives {factor * ours:.3g}{_true(shown)}"

    return text


def _grader_agreement(number: int, setting: str, same_grader: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        rows = inputs.table("maze_grader_agreement").filter(pl.col("table") == number)
        weights = rows["n"].to_numpy()
        icc, kappa = (float(np.average(rows[c].to_numpy(), weights=weights)) for c in ("icc", "fleiss_kappa"))
        note = f"mean over 14 models weighted by n; kappa the same way {kappa:.2f}; "
        return Answer(icc, note=note + _beside(inputs, lambda mazes: _regraded(mazes, setting, same_grader)))

    return compute


def _regraded(mazes: Inputs, setting: str, same_grader: bool) -> str:
    """Agreement of the stored verdicts with repeats of the first grader, or with the first grade of the others."""
    from cilab.stats.judges.grading import grader_agreement

    grades = mazes.data.annotations.filter(pl.col("feature") == "success").select("annotator", "repeat").unique()
    known = sorted(grades.collect().iter_rows())
    first = known[0][0] if known else None
    graders = tuple(g for g in known if (g[0] == first) == same_grader and (g[1] > 0) == same_grader)
    if not graders:
        raise MissingInput("regraded rollouts")
    # 20 resamples: only kappa's interval comes from them, and it is not shown.
    table = mazes.once(grader_agreement, setting=setting, graders=graders, resamples=20).table
    icc, kappa = table["value"]
    return f"cilab.grader_agreement gives ICC {icc:.2f}, kappa {kappa:.2f}"


def _beside(inputs: Inputs, text: Callable[[Inputs], str]) -> str:
    """What the estimator on rollouts finds, with the data's name; why not, where it finds nothing."""
    try:
        mazes = inputs.mazes
        kind = "simulated, no reproduction" if mazes.kind == "simulated" else mazes.kind
        return f"{text(mazes)} on {mazes.name} ({kind})"
    except (MissingInput, TableError) as e:
        return f"not on rollouts: {e}"


# -- rollouts and annotations -----------------------------------------------------------------------------


def _annotated_pairs(mazes: Inputs) -> Answer:
    pairs = mazes.grounding().pairs
    low, high = pairs["n"].min(), pairs["n"].max()
    return Answer(pairs.height, note=f"{low} to {high} rollouts each" if low != high else f"{low} rollouts each")


def _outcome_of(strategy: str) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        rows = mazes.grounding().by_strategy.filter(pl.col("strategy") == strategy)
        if rows.height == 0:
            raise MissingInput(f"rollouts with a {strategy} strategy in {mazes.name}")
        return Answer(*(rows[c][0] for c in ("mean", "lo", "hi")), note=f"{rows['n'][0]} rollouts")

    return compute


def _grounding_correlation(method: str) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        row = mazes.grounding().correlations.row(by_predicate=pl.col("method") == method, named=True)
        return Answer(_defined(row["r"], f"a {method} correlation"), note=f"over {row['n']} ordered pairs")

    return compute


def _sensitivity(x: float | None) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        found = mazes.mediation().sensitivity(x)
        rho = _defined(found.rho_significant, "a threshold: the effect is significant at no correlation")
        two_se = 2 * (found.hi - found.lo) / 3.92
        return Answer(rho, note=f"the effect is 0 at {found.rho_at_zero:.2f}; {_TWO_SE}", tolerance=two_se)

    return compute


def _annotator_agreement(statistic: str, features: Sequence[str]) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        table = mazes.grounding().agreement.filter(
            (pl.col("statistic") == statistic) & pl.col("feature").is_in(features) & pl.col("value").is_not_null()
        )
        if table.height == 0:
            raise MissingInput(f"two annotators in {mazes.name}")
        n = table.select("annotator", "other").unique().height
        return Answer(lo=table["value"].min(), hi=table["value"].max(), note=f"over {n} pairs of annotators")  # type: ignore[arg-type]

    return compute


def _replicated(effect: str, part: str = "estimate") -> Callable[[Inputs], Answer]:
    """An effect by the second annotator: estimate, p, or interval."""

    def compute(mazes: Inputs) -> Answer:
        table = mazes.mediation(which=1).table
        row = table.row(by_predicate=pl.col("effect") == effect, named=True)
        note = "the simulated second annotator is a noisy copy of the first" if mazes.kind == "simulated" else ""
        if part == "p":
            return Answer(_defined(row["p"], "a p-value"), note=note)
        note = "; ".join(filter(None, (note, _TWO_SE)))
        if part == "interval":
            return Answer(lo=row["lo"], hi=row["hi"], note=note, tolerance=2 * row["sd_draws"])
        return Answer(_defined(row["estimate"], effect), note=note, tolerance=2 * row["se"])

    return compute


def _disagreement_kappa(outcome: str) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        row = mazes.disagreement().agreement.filter(pl.col("outcome") == outcome)
        if row.height == 0:
            raise MissingInput(f"two annotators of disagreement in {mazes.name}")
        return Answer(_defined(row["kappa"][0], "kappa"), note=f"{row['n'][0]} rollouts")

    return compute


def _defined(value: float | None, what: str) -> float:
    if value is None:
        raise MissingInput(what)
    return float(value)


def _true(value: float | None) -> str:
    return "" if value is None else f" (its truth: {value:.3g})"


def _on_mazes(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    return Estimator(_FACE + function, "mazes", compute, **settings)


_POOLED = "the text pools all rollouts, the table is by model"

ESTIMATORS: dict[str, Estimator] = {
    "CG001": Estimator(_TABLE, "tables", lambda i: Answer(i.table("maze_models").height)),
    "CG002": Estimator("cilab.maze.plan.Mazes", "design", _maze_defaults),
    "CG003": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG004": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG005": Estimator(_BLOCK, "design", _maze_rollouts, relation="at least"),
    "CG006": Estimator("cilab.maze.plan.Relay", "design", _relay_rollouts, relation="at least"),
    "CG010": Estimator("cilab.stats.maze.pairs.pairs_from_means", "tables", _pair("o3", "gpt-4.1-mini")),
    "CG011": Estimator("cilab.stats.maze.pairs.pairs_from_means", "tables", _pair("gpt-4.1-mini", "o3")),
    "CG020": _on_mazes("grounding", _annotated_pairs, tolerance=0.0),
    "CG021": _on_mazes("grounding", _outcome_of("global")),
    "CG022": _on_mazes("grounding", _outcome_of("local")),
    "CG023": _on_mazes("grounding", _grounding_correlation("pearson")),
    "CG024": _on_mazes("grounding", _grounding_correlation("spearman")),
    "CG025": Estimator("cilab.claims.share_mediated", "tables", share_mediated),
    "CG026": Estimator("cilab.claims.strategy_at_full_grounding", "tables", strategy_at_full_grounding),
    "CG027": _on_mazes("mediation", _sensitivity(None)),
    "CG028": _on_mazes("mediation", _sensitivity(1.0)),
    "CG029": _on_mazes("grounding", _annotator_agreement("pearson", ("grounding",))),
    "CG030": _on_mazes("grounding", _annotator_agreement("kappa", AGENT_FEATURES)),
    "CG031": _on_mazes("mediation", _replicated("a")),
    "CG032": _on_mazes("mediation", _replicated("b")),
    "CG033": _on_mazes("mediation", _replicated("indirect", "interval")),
    "CG034": _on_mazes(
        "mediation", _replicated("synergy_b2", "p"), tolerance=0.032, why="tolerance: the same side of 0.05"
    ),
    "CG040": _on_mazes("disagreement", _disagreement_kappa("total")),
    "CG041": _on_mazes("disagreement", _disagreement_kappa("factual")),
    "CG042": _on_mazes("disagreement", _disagreement_kappa("nonfactual")),
    "CG043": Estimator(_TABLE, "tables", _identical_model_odds),
    **{
        f"CG05{n}": Estimator(
            "numpy.average", "tables", _grader_agreement(6 + n, setting, n < 2), tolerance=0.05, why=_POOLED
        )
        for n, setting in enumerate(("solo", "homogeneous", "solo", "homogeneous"))
    },
}


def inconsistencies() -> list[str]:
    """Where the collaboration-gap paper contradicts itself, from the published tables; one sentence each."""
    from cilab import datasets
    from cilab.stats.maze.pairs import pairs_from_means

    pairs = pairs_from_means(datasets.published_table("maze_pairs"))
    table, conflicts = pairs.table, pairs.conflicts
    claims = datasets.published_table("claims")
    effects = {m: dict(datasets.published_table("maze_mediation").select("effect", m).iter_rows()) for m in _MODELS}
    found = [
        f"Table 4 prints {starter} with {follower} twice: "
        + " and ".join(f"{r['mean']:.2f} ± {r['half_width']:.2f}" for r in rows.iter_rows(named=True))
        + "."
        for (starter, follower), rows in conflicts.partition_by(
            "starter", "follower", as_dict=True, maintain_order=True
        ).items()
    ]
    for claim_id, starter, follower in (("CG010", "o3", "gpt-4.1-mini"), ("CG011", "gpt-4.1-mini", "o3")):
        text = claims.row(by_predicate=pl.col("id") == claim_id, named=True)
        row = table.row(by_predicate=(pl.col("starter") == starter) & (pl.col("follower") == follower), named=True)
        found.append(
            f"Section 4.2.1 gives [{text['lo']:.2f}, {text['hi']:.2f}] for {starter} with {follower}, table 4 "
            f"[{row['lo']:.2f}, {row['hi']:.2f}] ({claim_id})."
        )
    if all(effects["model_1"][e] == effects["model_2"][e] for e in ("direct", "total")):
        two = effects["model_2"]
        found.append(
            f"Table 2 prints the same direct effect ({two['direct']}) and total effect ({two['total']}) for both "
            f"models; in model 2 direct and indirect add up to {two['direct'] + two['indirect']:.4f}, not to the total."
        )
    boost, b = effects["model_2"]["b"] + effects["model_2"]["synergy"], effects["model_1"]["b"]
    found.append(
        f"D.2.1 calls {boost:.2f} against {b:.2f} effectively doubling: it is {boost / b:.1f} times as much (CG026)."
    )
    low, high = effects["model_2"]["indirect_lo"], effects["model_2"]["indirect_hi"]
    found.append(
        f"D.2.1 gives [-0.10, 0.03] as the interval of the strategy path b1, table 2 [{low}, {high}] as that of the "
        "indirect effect a b1."
    )
    return found


_MODELS = ("model_1", "model_2")
