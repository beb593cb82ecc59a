"""Estimators of the collaboration-gap paper's claims (CG...), and the places where that paper contradicts itself.

May import `cilab.datasets`, `cilab.maze.plan`, of `cilab.stats` the public estimators, and its own folder. Plays no
maze.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from cilab import datasets
from cilab.claims.cells import FEW, cell, rows
from cilab.claims.data import Answer, Estimator, Inputs, MissingInput
from cilab.core.errors import TableError
from cilab.stats.maze.grounding import AGENT_FEATURES
from cilab.stats.maze.pairs import PairsResult, pairs_from_means

_TABLE = "cilab.datasets.published_table"
_BLOCK = "cilab.maze.plan.MazeBlock"
_PAIRS = "cilab.stats.maze.pairs.pairs_from_means"
_TWO_SE = "tolerance: two standard errors of ours"
#: By the main annotator, or by the second.
_MAIN = {"annotator": Inputs.annotator}
_SECOND = {"annotator": lambda mazes: mazes.annotator(1)}


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


def _printed_pairs() -> PairsResult:
    """Table 4, every pair with an interval."""
    return pairs_from_means(datasets.published_table("maze_pairs"))


def _one_pair(pairs: PairsResult, starter: str, follower: str) -> dict[str, Any]:
    return pairs.table.row(by_predicate=(pl.col("starter") == starter) & (pl.col("follower") == follower), named=True)


def _pair(starter: str, follower: str) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        row = _one_pair(_printed_pairs(), starter, follower)
        return Answer(row["mean"], row["lo"], row["hi"], note="table 4 against the text")

    return compute


def _effects(model: str) -> dict[str, float]:
    """Effects of table 2 in the additive model (`model_1`) or in the one with interaction (`model_2`)."""
    return dict(datasets.published_table("maze_mediation").select("effect", model).iter_rows())


def _share_mediated(inputs: Inputs) -> Answer:
    """Indirect over total effect of the additive model, in percent (collaboration-gap paper, D.2.1)."""
    effects = _effects("model_1")
    share = 100 * effects["a"] * effects["b"] / effects["total"]
    return Answer(share, note="100 a b / c of table 2; " + _beside(inputs, _mediated("share_mediated", 100)))


def _strategy_at_full_grounding(inputs: Inputs) -> Answer:
    """Effect of a global strategy at grounding 1 in the model with interaction (collaboration-gap paper, D.2.1)."""
    boost, times = _boost()
    note = f"{times:.1f} times the additive b, where the text says effectively doubling; "
    return Answer(boost, note=note + _beside(inputs, _mediated("b_at_1")))


def _boost() -> tuple[float, float]:
    """That effect by table 2, and how many times the additive model's b it is."""
    effects = _effects("model_2")
    boost = effects["b"] + effects["synergy"]
    return boost, boost / _effects("model_1")["b"]


def _identical_model_odds(inputs: Inputs) -> Answer:
    odds = inputs.table("odds_ratios").row(by_predicate=pl.col("predictor") == "identical_model", named=True)
    return Answer(odds["or_total"], note="table 3 against the text; " + _beside(inputs, _homogeneous_odds))


def _homogeneous_odds(mazes: Inputs) -> str:
    where = {"outcome": "total", "predictor": "homogeneous"}
    found = rows(mazes, "disagreement", where, lacking="a model of any disagreement")["odds_ratio"].drop_nulls()
    if found.len() == 0:
        raise MissingInput("a model of any disagreement")
    truth = mazes.truth("odds", predictor="homogeneous", kind="total")
    return f"cilab.disagreement gives {found[0]:.2f}" + _true(truth)


def _mediated(effect: str, factor: float = 1.0) -> Callable[[Inputs], str]:
    def text(mazes: Inputs) -> str:
        ours = mazes.result("mediation", annotator=mazes.annotator()).estimates[effect]
        if ours is None:
            raise MissingInput("a synergy model")
        truth = mazes.truth("mediation", effect=effect)
        shown = None if truth is None else factor * truth
        return f"cilab.mediation gives {factor * ours:.3g}{_true(shown)}"

    return text


def _grader_agreement(number: int, setting: str, same_grader: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        models = inputs.table("maze_grader_agreement").filter(pl.col("table") == number)
        icc, kappa = (float(np.average(models[c], weights=models["n"])) for c in ("icc", "fleiss_kappa"))
        note = f"mean over 14 models weighted by n; kappa the same way {kappa:.2f}; "
        return Answer(icc, note=note + _beside(inputs, lambda mazes: _regraded(mazes, setting, same_grader)))

    return compute


def _regraded(mazes: Inputs, setting: str, same_grader: bool) -> str:
    """Agreement of the stored verdicts with repeats of the first grader, or with the first grade of the others."""
    grades = mazes.data.annotations.filter(pl.col("feature") == "success").select("annotator", "repeat").unique()
    known = sorted(grades.collect().iter_rows())
    first = known[0][0] if known else None
    graders = tuple(g for g in known if (g[0] == first) == same_grader and (g[1] > 0) == same_grader)
    if not graders:
        raise MissingInput("regraded rollouts")
    table = mazes.result("grader_agreement", setting=setting, graders=graders, resamples=FEW).table
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
    pairs = mazes.result("grounding", annotator=mazes.annotator()).pairs
    low, high = pairs["n"].min(), pairs["n"].max()
    return Answer(pairs.height, note=f"{low} to {high} rollouts each" if low != high else f"{low} rollouts each")


def _outcome_of(strategy: str) -> Estimator:
    return cell(
        "grounding",
        {"strategy": strategy},
        source="mazes",
        frame="by_strategy",
        settings=_MAIN,
        note=lambda r: f"{r['n']} rollouts",
        lacking=f"rollouts with a {strategy} strategy",
        value="mean",
        lo="lo",
        hi="hi",
    )


def _grounding_correlation(method: str) -> Estimator:
    return cell(
        "grounding",
        {"method": method},
        source="mazes",
        frame="correlations",
        settings=_MAIN,
        note=lambda r: f"over {r['n']} ordered pairs",
        lacking=f"a {method} correlation",
        value="r",
    )


def _sensitivity(x: float | None) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        found = mazes.result("mediation", annotator=mazes.annotator()).sensitivity(x)
        rho = _defined(found.rho_significant, "a threshold: the effect is significant at no correlation")
        two_se = 2 * (found.hi - found.lo) / 3.92
        return Answer(rho, note=f"the effect is 0 at {found.rho_at_zero:.2f}; {_TWO_SE}", tolerance=two_se)

    return compute


def _annotator_agreement(statistic: str, features: Sequence[str]) -> Callable[[Inputs], Answer]:
    def compute(mazes: Inputs) -> Answer:
        where = {"statistic": statistic, "feature": tuple(features)}
        table = rows(mazes, "grounding", where, frame="agreement", settings=_MAIN, lacking="two annotators")
        table = table.filter(pl.col("value").is_not_null())
        if table.height == 0:
            raise MissingInput(f"two annotators in {mazes.name}")
        n = table.select("annotator", "other").unique().height
        return Answer(lo=table["value"].min(), hi=table["value"].max(), note=f"over {n} pairs of annotators")  # type: ignore[arg-type]

    return compute


def _replicated(effect: str, part: str = "estimate") -> Callable[[Inputs], Answer]:
    """An effect by the second annotator: estimate, p, or interval."""

    def compute(mazes: Inputs) -> Answer:
        row = rows(mazes, "mediation", {"effect": effect}, settings=_SECOND).row(0, named=True)
        note = "the simulated second annotator is a noisy copy of the first" if mazes.kind == "simulated" else ""
        if part == "p":
            return Answer(_defined(row["p"], "a p-value"), note=note)
        note = "; ".join(filter(None, (note, _TWO_SE)))
        if part == "interval":
            return Answer(lo=row["lo"], hi=row["hi"], note=note, tolerance=2 * row["sd_draws"])
        return Answer(_defined(row["estimate"], effect), note=note, tolerance=2 * row["se"])

    return compute


def _disagreement_kappa(outcome: str) -> Estimator:
    return cell(
        "disagreement",
        {"outcome": outcome},
        source="mazes",
        frame="agreement",
        note=lambda r: f"{r['n']} rollouts",
        lacking="two annotators of disagreement",
        value="kappa",
    )


def _defined(value: float | None, what: str) -> float:
    if value is None:
        raise MissingInput(what)
    return float(value)


def _true(value: float | None) -> str:
    return "" if value is None else f" (its truth: {value:.3g})"


def _on_mazes(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    return Estimator(f"cilab.{function}", "mazes", compute, **settings)


_POOLED = "the text pools all rollouts, the table is by model"

ESTIMATORS: dict[str, Estimator] = {
    "CG001": Estimator(_TABLE, "tables", lambda i: Answer(i.table("maze_models").height)),
    "CG002": Estimator("cilab.maze.plan.Mazes", "design", _maze_defaults),
    "CG003": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG004": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG005": Estimator(_BLOCK, "design", _maze_rollouts, relation="at least"),
    "CG006": Estimator("cilab.maze.plan.Relay", "design", _relay_rollouts, relation="at least"),
    "CG010": Estimator(_PAIRS, "tables", _pair("o3", "gpt-4.1-mini")),
    "CG011": Estimator(_PAIRS, "tables", _pair("gpt-4.1-mini", "o3")),
    "CG020": _on_mazes("grounding", _annotated_pairs, tolerance=0.0),
    "CG021": _outcome_of("global"),
    "CG022": _outcome_of("local"),
    "CG023": _grounding_correlation("pearson"),
    "CG024": _grounding_correlation("spearman"),
    "CG025": Estimator(_TABLE, "tables", _share_mediated),
    "CG026": Estimator(_TABLE, "tables", _strategy_at_full_grounding),
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
    "CG040": _disagreement_kappa("total"),
    "CG041": _disagreement_kappa("factual"),
    "CG042": _disagreement_kappa("nonfactual"),
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
    pairs = _printed_pairs()
    claims = datasets.published_table("claims")
    one, two = _effects("model_1"), _effects("model_2")
    found = [
        f"Table 4 prints {starter} with {follower} twice: "
        + " and ".join(f"{r['mean']:.2f} ± {r['half_width']:.2f}" for r in rows.iter_rows(named=True))
        + "."
        for (starter, follower), rows in pairs.conflicts.partition_by(
            "starter", "follower", as_dict=True, maintain_order=True
        ).items()
    ]
    for claim_id, starter, follower in (("CG010", "o3", "gpt-4.1-mini"), ("CG011", "gpt-4.1-mini", "o3")):
        text = claims.row(by_predicate=pl.col("id") == claim_id, named=True)
        row = _one_pair(pairs, starter, follower)
        found.append(
            f"Section 4.2.1 gives [{text['lo']:.2f}, {text['hi']:.2f}] for {starter} with {follower}, table 4 "
            f"[{row['lo']:.2f}, {row['hi']:.2f}] ({claim_id})."
        )
    if all(one[e] == two[e] for e in ("direct", "total")):
        found.append(
            f"Table 2 prints the same direct effect ({two['direct']}) and total effect ({two['total']}) for both "
            f"models; in model 2 direct and indirect add up to {two['direct'] + two['indirect']:.4f}, not to the total."
        )
    boost, times = _boost()
    found.append(
        f"D.2.1 calls {boost:.2f} against {one['b']:.2f} effectively doubling: it is {times:.1f} times as much (CG026)."
    )
    found.append(
        f"D.2.1 gives [-0.10, 0.03] as the interval of the strategy path b1, table 2 [{two['indirect_lo']}, "
        f"{two['indirect_hi']}] as that of the indirect effect a b1."
    )
    return found
