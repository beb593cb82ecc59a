"""The ledger of the papers' printed numbers: what computes each one here, on which data, and how far it is.

May import `cilab.datasets`, `cilab.maze.plan`, `cilab.registry`, `cilab.stats.result` and `cilab.errors`. Computes from
tables that are there; never plays a run, and never writes a number down that it did not compute.

Every claim has either an estimator (`ESTIMATORS`) or the input that is missing (`MISSING`). A claim about the paper's
runs is computed on the data at hand all the same, and its line says on which: near and far are then about the quantity
on other runs, not about our arithmetic.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import polars as pl

from cilab import datasets, registry
from cilab.errors import TableError
from cilab.stats.result import html_table, is_simulated, read_rows

Kind = Literal["real", "published", "simulated", "design"]
Relation = Literal["equal", "at least"]

#: The paper's frontier models (collaborative-intelligence paper, section 3); pseudonyms of simulated ones begin sim:F.
FRONTIER = ("Gemini 4 Argon", "GPT-6 Astra", "GPT-6.1 Sol", "Claude Opus 5.5", "Claude Fable 5.1")

#: How far a value on other runs than the paper's may be away and still be near, by unit. 5 points is half the width
#: of a typical interval of an overall score; counts and all other units: a tenth of the published value.
OTHER_DATA_TOLERANCE = {"points": 5.0, "percent": 5.0, "r": 0.1, "rho": 0.1, "tau": 0.1, "kappa": 0.1, "ICC": 0.1}

PARTS = ("value", "lo", "hi")
NEAR, FAR, NO_INPUT, NO_ESTIMATOR = "near", "far", "missing input", "no estimator yet"


class MissingInput(Exception):
    """The data at hand lack what the estimator needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an estimator found: one number for each part of the claim that it computes, and a remark."""

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Estimator:
    """How one claim is computed.

    Attributes
    ----------
    function : the function that does the work, by its full name.
    source : `runs` (the data given, else the published round), `tables` (published tables), `counts` (numbers printed
        beside the claim) or `design` (defaults of this package).
    compute : the call.
    tolerance : absolute; None is half a unit of the last printed digit, or for `runs` `OTHER_DATA_TOLERANCE`.
    relation : `at least` where the claim is a lower bound.
    """

    function: str
    source: Literal["runs", "tables", "counts", "design"]
    compute: Callable[[Inputs], Answer]
    tolerance: float | None = None
    relation: Relation = "equal"
    why: str = ""


@dataclass(frozen=True)
class Inputs:
    """What estimators may read: the runs of the data set, and the published tables."""

    data: Any
    name: str
    kind: Kind

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One line per row (model, effort, arm) and dimension: see `cells`."""
        return cells(self.data)

    def table(self, name: str) -> pl.DataFrame:
        """A published table."""
        return datasets.published_table(name)

    def claim(self, claim_id: str) -> float:
        """The published value of another claim."""
        return float(self.table("claims").row(by_predicate=pl.col("id") == claim_id, named=True)["value"])


# -- scores of a runs table -----------------------------------------------------------------------------


def cells(data: Any) -> pl.DataFrame:
    """Score, baseline and best-deal share per row and dimension, for every row of the data.

    The mean over gated tasks of the mean over seeds, for tasks solved alone of which no version was refused
    (collaborative-intelligence paper, section 2.3).

    Parameters
    ----------
    data : runs table or anything with `.runs`.

    Returns
    -------
    DataFrame
        `model, effort, arm, dimension, test_pct, pass_pct` (share of tests with score 1), `baseline_pct`, and
        `drop_points`, baseline minus test over the tasks that have both (null without baseline runs).
    """
    runs, _ = read_rows(
        data, ("model", "task_id", "dimension", "version", "status", "score"), ("effort", "arm", "seed")
    )
    runs = runs.with_columns(pl.col("effort", "arm").cast(pl.String)).filter(pl.col("dimension").is_not_null())
    key = ["model", "effort", "arm", "dimension"]
    score, ok = pl.col("score"), pl.col("status") == "ok"

    def mean(version: str, value: pl.Expr) -> pl.Expr:
        return value.filter(ok & (pl.col("version") == version)).mean()

    tasks = runs.group_by([*key, "task_id"], maintain_order=True).agg(
        gated=((pl.col("version") == "alone") & ok & (score == 1)).any() & (pl.col("status") != "refused").all(),
        test=mean("test", score),
        passed=mean("test", (score == 1).cast(pl.Float64)),
        baseline=mean("baseline", score),
    )
    return (
        tasks.filter("gated")
        .group_by(key, maintain_order=True)
        .agg(
            test_pct=100 * pl.col("test").mean(),
            pass_pct=100 * pl.col("passed").mean(),
            baseline_pct=100 * pl.col("baseline").mean(),
            drop_points=100 * (pl.col("baseline") - pl.col("test")).mean(),
        )
    )


def overall(table: pl.DataFrame, column: str = "test_pct") -> pl.DataFrame:
    """Mean over dimensions of `column` per row; rows without it are left out."""
    return (
        table.group_by("model", "effort", "arm", maintain_order=True)
        .agg(pl.col(column).mean())
        .filter(pl.col(column).is_not_null())
    )


def row_score(inputs: Inputs, model: str, effort: str | None = None) -> float:
    """Overall score of one row in percent."""
    scores = overall(inputs.cells).filter((pl.col("model") == model) & _at(effort) & pl.col("arm").is_null())
    if scores.height != 1:
        raise MissingInput(f"a row of {model}{f' at {effort} effort' if effort else ''} in {inputs.name}")
    return float(scores["test_pct"][0])


def _default(inputs: Inputs) -> pl.DataFrame:
    """Rows at the default setting without a treatment, as the paper's tables of models have them."""
    return inputs.cells.filter(_at(None) & pl.col("arm").is_null())


def _at(effort: str | None) -> pl.Expr:
    """Rows at `effort`; None is the setting that nobody asked for, whether it is null or called default."""
    asked = pl.col("effort").replace("default", None)
    return asked.is_null() if effort is None else asked == effort


def members(table: pl.DataFrame, group: str) -> pl.DataFrame:
    """The lines of `frontier` or `open` models."""
    if group == "frontier":
        return table.filter(pl.col("model").is_in(FRONTIER) | pl.col("model").str.starts_with("sim:F"))
    known = registry.models().filter("open_weights")["model"].to_list()
    return table.filter(pl.col("model").is_in(known) | pl.col("model").str.starts_with("sim:O"))


def group_score(inputs: Inputs, group: str, dimension: str | None = None, column: str = "test_pct") -> float:
    """Mean over a group's models of one dimension, or of the overall score, in percent."""
    table = members(_default(inputs), group)
    if dimension is not None:
        table = table.filter(pl.col("dimension") == dimension)
    values = overall(table, column)[column]
    if values.len() == 0:
        raise MissingInput(f"{dimension or 'scores'} of {group} models in {inputs.name}")
    return float(values.mean())  # type: ignore[arg-type]


def drops(inputs: Inputs) -> pl.DataFrame:
    """Baseline minus test in points per row, of the overall means, smallest first (paper, table 2)."""
    table = _default(inputs)
    joined = overall(table, "baseline_pct").join(overall(table), on="model")
    if joined.height == 0:
        raise MissingInput(f"baseline runs in {inputs.name}")
    return joined.select("model", drop=pl.col("baseline_pct") - pl.col("test_pct")).sort("drop")


def losses(inputs: Inputs) -> pl.DataFrame:
    """Points lost in a calm team and lost to the teammate's problem, per model and dimension (paper, D.1).

    Taking over is left out. Only tasks with baseline and test count, and a test that is better than its baseline does
    so with its sign: it is not clipped away.
    """
    table = _default(inputs).filter((pl.col("dimension") != "taking_over") & pl.col("baseline_pct").is_not_null())
    if table.height == 0:
        raise MissingInput(f"baseline runs in {inputs.name}")
    return table.with_columns(calm=100 - pl.col("baseline_pct"), problem=pl.col("drop_points"))


def _by_model(table: pl.DataFrame, column: str) -> pl.DataFrame:
    return table.group_by("model", maintain_order=True).agg(pl.col(column).mean())


def dimension_correlations(inputs: Inputs) -> pl.DataFrame:
    """Pearson correlations between dimension scores over models: `a, b, r`, every pair once."""
    names, values = _matrix(inputs)
    r = np.corrcoef(values, rowvar=False)
    pairs = [(names[i], names[j], float(r[i, j])) for i in range(len(names)) for j in range(i)]
    return pl.DataFrame(pairs, schema=["a", "b", "r"], orient="row")


def _matrix(inputs: Inputs) -> tuple[list[str], np.ndarray]:
    """Dimension names, and the models x dimensions matrix of scores; models that lack a dimension are left out."""
    wide = _default(inputs).pivot("dimension", index="model", values="test_pct").drop_nulls()
    if wide.height < 3 or wide.width < 3:
        raise MissingInput(f"three models with two dimensions in {inputs.name}")
    return wide.columns[1:], wide.drop("model").to_numpy()


def first_component_share(inputs: Inputs) -> float:
    """Percent of the variance of the standardised dimension scores on their first principal component."""
    _, values = _matrix(inputs)
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(values, rowvar=False))
    return float(100 * eigenvalues[-1] / eigenvalues.sum())


def best_deal_against_ability(inputs: Inputs) -> float:
    """Pearson r over models between the best-deal share in conflict and the mean score of the other dimensions."""
    table = _default(inputs)
    conflict = table.filter(pl.col("dimension") == "handling_conflict").select("model", "pass_pct")
    others = _by_model(table.filter(~pl.col("dimension").is_in(["handling_conflict"])), "test_pct")
    both = conflict.join(others, on="model")
    if both.height < 3:
        raise MissingInput(f"handling_conflict of three models in {inputs.name}")
    return float(np.corrcoef(both["pass_pct"], both["test_pct"])[0, 1])


# -- estimators, claim by claim -------------------------------------------------------------------------


def _dimension_means(group: str, *dimensions: str, best_deal: bool = False) -> Callable[[Inputs], Answer]:
    column = "pass_pct" if best_deal else "test_pct"
    return lambda i: Answer(min(group_score(i, group, d, column) for d in dimensions))


def _extreme_drop(which: int) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        row = drops(inputs).row(which, named=True)
        return Answer(row["drop"], note=f"here it is {row['model']}")

    return compute


def _initiative_on_busy_days(inputs: Inputs) -> Answer:
    """The second number of the claim: the three closed models of the earlier round; the first has no data."""
    names = ("GPT-6 Astra", "Claude Opus 5.5", "Claude Fable 5.1")
    rows = inputs.cells.filter(pl.col("model").is_in(names) & (pl.col("dimension") == "taking_initiative"))
    if rows.height != len(names):
        raise MissingInput(f"taking_initiative of {', '.join(names)} in {inputs.name}")
    return Answer(hi=float(rows["test_pct"].mean()), note="busy days only; runs on quiet days are missing")  # type: ignore[arg-type]


def _loss_share(inputs: Inputs) -> Answer:
    lost = losses(inputs)
    calm, problem = (_by_model(lost, c)[c].to_numpy() for c in ("calm", "problem"))
    some = calm + problem > 0
    if not some.any():
        raise MissingInput(f"a model that loses anything in {inputs.name}")
    share = 100 * float(np.mean(problem[some] / (calm + problem)[some]))
    return Answer(share, note="mean over models of each model's share")


def _group_losses(group: str) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        lost = members(losses(inputs), group)
        if lost.height == 0:
            raise MissingInput(f"baselines of {group} models in {inputs.name}")
        calm, problem = (float(_by_model(lost, c)[c].mean()) for c in ("calm", "problem"))  # type: ignore[arg-type]
        return Answer(calm, hi=problem)

    return compute


def _calm_loss_against_score(inputs: Inputs) -> Answer:
    both = _by_model(losses(inputs), "calm").join(overall(_default(inputs)), on="model")
    if both.height < 3:
        raise MissingInput(f"baselines of three models in {inputs.name}")
    return Answer(float(np.corrcoef(both["calm"], both["test_pct"])[0, 1]))


def _calm_loss_in_conflict(inputs: Inputs) -> Answer:
    by_dimension = losses(inputs).group_by("dimension").agg(pl.col("calm").mean())
    conflict = pl.col("dimension") == "handling_conflict"
    own, others = by_dimension.filter(conflict)["calm"], by_dimension.filter(~conflict)["calm"]
    if own.len() == 0 or others.len() == 0:
        raise MissingInput(f"handling_conflict and another dimension with baselines in {inputs.name}")
    return Answer(float(own[0]), hi=float(others.mean()), note=_without_halves(inputs))  # type: ignore[arg-type]


def _correlations(of_conflict: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        pairs = dimension_correlations(inputs)
        with_conflict = (pl.col("a") == "handling_conflict") | (pl.col("b") == "handling_conflict")
        r = pairs.filter(with_conflict if of_conflict else ~with_conflict)["r"]
        if r.len() == 0:
            raise MissingInput(f"handling_conflict in {inputs.name}")
        low, high = float(r.min()), float(r.max())  # type: ignore[arg-type]
        return Answer(lo=low, hi=high, note=_without_halves(inputs)) if of_conflict else Answer(low)

    return compute


def _without_halves(inputs: Inputs) -> str:
    return "this round gives no half points in conflict" if inputs.kind == "published" else ""


def _dimensions(inputs: Inputs) -> Answer:
    n = inputs.cells["dimension"].n_unique()
    if n == 0:
        raise MissingInput(f"scored teamwork tasks in {inputs.name}")
    return Answer(n)


def percent(k: int, n: int) -> Callable[[Inputs], Answer]:
    """`k` of `n`, both printed in the paper beside the claim, in percent."""
    return lambda _: Answer(100 * k / n)


def _sign_test(better: int, worse: int) -> Callable[[Inputs], Answer]:
    def compute(_: Inputs) -> Answer:
        from scipy.stats import binomtest

        return Answer(float(binomtest(better, better + worse).pvalue), note="exact, two-sided, ties dropped")

    return compute


def _lenient_labels(_: Inputs) -> Answer:
    from scipy.stats import fisher_exact

    return Answer(float(fisher_exact([[1, 51], [6, 122]]).pvalue))  # type: ignore[attr-defined]


def _people(task: str, **columns: str) -> Callable[[Inputs], Answer]:
    """Percentages of `people.csv` for the task whose name begins with `task`, by part of the claim."""

    def compute(inputs: Inputs) -> Answer:
        row = inputs.table("people").row(by_predicate=pl.col("task").str.starts_with(task), named=True)
        return Answer(**{part: row[column] for part, column in columns.items()})

    return compute


def _people_pairs(inputs: Inputs) -> Answer:
    row = inputs.table("people").row(by_predicate=pl.col("task").str.starts_with("negotiation"), named=True)
    return Answer(row["people_n"] * row["people_pct"] / 100, note="from the percentage")


def _pair(starter: str, follower: str) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        row = (
            inputs.table("maze_pairs")
            .filter((pl.col("starter") == starter) & (pl.col("follower") == follower))
            .row(0, named=True)
        )
        mean, half = row["weighted_mean"], row["weighted_ci95"]
        return Answer(mean, mean - half, mean + half)

    return compute


def _effects(inputs: Inputs, model: str) -> dict[str, float]:
    return dict(inputs.table("maze_mediation").select("effect", model).iter_rows())


def share_mediated(inputs: Inputs) -> Answer:
    """Indirect over total effect of the additive model, in percent (collaboration-gap paper, D.2.1)."""
    effects = _effects(inputs, "model_1")
    return Answer(100 * effects["a"] * effects["b"] / effects["total"], note="100 a b / c of table 2")


def strategy_at_full_grounding(inputs: Inputs) -> Answer:
    """Effect of a global strategy at grounding 1 in the model with interaction (collaboration-gap paper, D.2.1)."""
    effects = _effects(inputs, "model_2")
    boost = effects["b"] + effects["synergy"]
    times = boost / _effects(inputs, "model_1")["b"]
    return Answer(boost, note=f"{times:.1f} times the additive b, where the text says effectively doubling")


def _identical_model_odds(inputs: Inputs) -> Answer:
    odds = inputs.table("odds_ratios")
    return Answer(odds.row(by_predicate=pl.col("predictor") == "identical_model", named=True)["or_total"])


def _grader_agreement(number: int) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        rows = inputs.table("maze_grader_agreement").filter(pl.col("table") == number)
        weights = rows["n"].to_numpy()
        icc, kappa = (float(np.average(rows[c].to_numpy(), weights=weights)) for c in ("icc", "fleiss_kappa"))
        return Answer(icc, note=f"mean over 14 models weighted by n; kappa the same way {kappa:.2f}")

    return compute


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


_HERE = "cilab.claims."
_TABLE = "cilab.datasets.published_table"
_BLOCK = "cilab.maze.plan.MazeBlock"


def _runs(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    return Estimator(_HERE + function, "runs", compute, **settings)


#: claim id -> how it is computed. A later estimator of the statistics replaces its line here.
ESTIMATORS: dict[str, Estimator] = {
    "CI001": Estimator(_TABLE, "counts", lambda i: Answer(i.claim("CI003") + i.claim("CI004")), why="CI003 + CI004"),
    "CI002": _runs("cells", _dimensions, tolerance=0.0),
    "CI010": _runs("row_score", lambda i: Answer(row_score(i, "Gemini 4 Argon"))),
    "CI011": _runs("row_score", lambda i: Answer(row_score(i, "Gemini 4 Argon", "high"))),
    "CI012": _runs("row_score", lambda i: Answer(row_score(i, "Kimi K3.1 Pro"))),
    "CI014": _runs("drops", _extreme_drop(0)),
    "CI015": _runs("drops", _extreme_drop(-1)),
    "CI016": _runs("row_score", lambda i: Answer(row_score(i, "gpt-oss-120b"))),
    "CI017": _runs("row_score", lambda i: Answer(row_score(i, "Claude Haiku 5.5"))),
    "CI018": _runs("group_score", lambda i: Answer(group_score(i, "open"))),
    "CI019": _runs("group_score", lambda i: Answer(group_score(i, "frontier") - group_score(i, "open"))),
    "CI020": _runs(
        "group_score",
        _dimension_means("frontier", "resisting_unsafe_pressure", "reporting_misconduct"),
        relation="at least",
    ),
    "CI021": _runs("group_score", _dimension_means("frontier", "handling_conflict", best_deal=True)),
    "CI022": _runs("group_score", _dimension_means("frontier", "emotional_intelligence")),
    "CI023": _runs("group_score", _dimension_means("open", "sharing_information")),
    "CI024": _runs("group_score", _dimension_means("frontier", "sharing_information")),
    "CI025": _runs("group_score", _dimension_means("open", "taking_initiative")),
    "CI026": _runs("group_score", _dimension_means("frontier", "taking_initiative")),
    "CI027": _runs("group_score", _dimension_means("open", "resisting_unsafe_pressure")),
    "CI028": _runs("group_score", _dimension_means("frontier", "taking_over")),
    "CI042": Estimator(
        _TABLE,
        "counts",
        lambda i: Answer(i.claim("CI041") / i.claim("CI040")),
        tolerance=10.5,
        why="CI041 / CI040, where 1.8 stands for 1.75 to 1.85",
    ),
    "CI046": _runs(
        "row_score", lambda i: Answer(100 * row_score(i, "GPT-6.1 Sol") / float(overall(i.cells)["test_pct"].max()))
    ),
    "CI054": Estimator("scipy.stats.binomtest", "counts", _sign_test(20, 46)),
    "CI055": Estimator("scipy.stats.binomtest", "counts", _sign_test(37, 66)),
    "CI070": _runs("cells", _initiative_on_busy_days, tolerance=0.5, why="the round is the earlier round's busy days"),
    "CI090": Estimator(_HERE + "percent", "counts", percent(33, 40)),
    "CI092": Estimator(_HERE + "percent", "counts", percent(35, 40)),
    "CI093": Estimator(_HERE + "percent", "counts", percent(31, 35)),
    "CI098": Estimator(_HERE + "percent", "counts", percent(36, 40)),
    "CI099": Estimator("scipy.stats.fisher_exact", "counts", _lenient_labels),
    "CI127": Estimator(_HERE + "percent", "counts", percent(40, 240), why="40 of 240 tasks, five runs each"),
    "CI150": _runs("losses", _loss_share),
    "CI151": _runs("losses", _group_losses("frontier")),
    "CI152": _runs("losses", _group_losses("open")),
    "CI153": _runs("losses", _calm_loss_against_score),
    "CI154": _runs("losses", _calm_loss_in_conflict),
    "CI171": Estimator(
        _TABLE,
        "counts",
        lambda i: Answer(100 * i.claim("CI170") ** 2),
        tolerance=1.5,
        why="the square of CI170, where 0.92 stands for 0.915 to 0.925",
    ),
    "CI180": _runs("dimension_correlations", _correlations(of_conflict=True)),
    "CI181": _runs("dimension_correlations", _correlations(of_conflict=False), relation="at least"),
    "CI182": _runs("first_component_share", lambda i: Answer(first_component_share(i))),
    "CI185": _runs("best_deal_against_ability", lambda i: Answer(best_deal_against_ability(i))),
    "CI200": Estimator(_TABLE, "tables", _people_pairs),
    "CI201": Estimator(_TABLE, "tables", _people("negotiation", value="frontier_pct", hi="open_pct")),
    "CI203": Estimator(_TABLE, "tables", _people("lumbar", value="people_pct")),
    "CI204": Estimator(_TABLE, "tables", _people("car crash", value="people_pct"), why="people only"),
    "CG001": Estimator(_TABLE, "tables", lambda i: Answer(i.table("maze_models").height)),
    "CG002": Estimator("cilab.maze.plan.Mazes", "design", _maze_defaults),
    "CG003": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG004": Estimator(_BLOCK, "design", _maze_rollouts),
    "CG005": Estimator(_BLOCK, "design", _maze_rollouts, relation="at least"),
    "CG006": Estimator("cilab.maze.plan.Relay", "design", _relay_rollouts, relation="at least"),
    "CG010": Estimator(_TABLE, "tables", _pair("o3", "gpt-4.1-mini")),
    "CG011": Estimator(_TABLE, "tables", _pair("gpt-4.1-mini", "o3")),
    "CG025": Estimator(_HERE + "share_mediated", "tables", share_mediated),
    "CG026": Estimator(_HERE + "strategy_at_full_grounding", "tables", strategy_at_full_grounding),
    "CG043": Estimator(_TABLE, "tables", _identical_model_odds),
    **{
        f"CG05{n}": Estimator(
            "numpy.average",
            "tables",
            _grader_agreement(6 + n),
            tolerance=0.05,
            why="the text pools all rollouts, the table is by model",
        )
        for n in range(4)
    },
}

_BY_TASK = "alone and test values by task for the 24 rows (identities are not in the published round)"
_LABELS = "labels of single messages in the failed test runs"
_EFFORT = "runs at high effort"
_JUDGES = "the judges' and people's labels of single messages"
#: (first id, last id, the input without which nothing can be computed) for claims without an estimator.
MISSING: tuple[tuple[str, str, str], ...] = (
    ("CI003", "CI005", "the list of the benchmark's tasks with source and sandbox flag"),
    ("CI006", "CI006", "the runs of the study"),
    ("CI007", "CI008", "an estimator with a bootstrap, whose default this is"),
    ("CI013", "CI013", "scores of the 18 models"),
    ("CI029", "CI033", "runs of the takeover tasks, with the final code"),
    ("CI040", "CI047", "costs of the runs"),
    ("CI050", "CI057", _EFFORT + " and output tokens"),
    ("CI060", "CI071", _LABELS),
    ("CI080", "CI085", _BY_TASK + ", with the split and three seeds"),
    ("CI091", "CI097", _JUDGES),
    ("CI100", "CI113", _BY_TASK),
    ("CI120", "CI131", _BY_TASK),
    ("CI140", "CI142", _BY_TASK + ", with the source of each task"),
    ("CI160", "CI160", "release dates and scores of the 18 models"),
    ("CI170", "CI174", "capability scores of 17 models"),
    ("CI183", "CI188", "labels and endings of the conflict runs"),
    ("CI190", "CI195", "deals and joint points of the conflict runs"),
    ("CI202", "CI202", "runs of the 13 negotiation tasks and the pairs' own deals"),
    ("CG020", "CG024", "annotated rollouts of the 53 pairs"),
    ("CG027", "CG034", "annotated rollouts of the 53 pairs, by two annotators"),
    ("CG040", "CG042", "both graders' answers on single rollouts"),
)


# -- the ledger -----------------------------------------------------------------------------------------

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "paper", "section", "quantity", "unit"), pl.String),
    **{f"published{s}": pl.Float64 for s in ("", "_lo", "_hi")},
    **{f"computed{s}": pl.Float64 for s in ("", "_lo", "_hi")},
    **dict.fromkeys(("function", "data"), pl.String),
    "tolerance": pl.Float64,
    **dict.fromkeys(("verdict", "interval", "note"), pl.String),
}


@dataclass(frozen=True, repr=False)
class ClaimsResult:
    """The ledger: one line per published number.

    Attributes
    ----------
    table : `id, paper, section, quantity, unit`; `published, published_lo, published_hi`; `computed...` likewise (null
        where that part is not computed); `function` (null without estimator); `data` (`real`, `published`,
        `simulated`, `design`, or `not computable`); `tolerance` (absolute, in the claim's unit); `verdict` (near, far,
        missing input, no estimator yet); `interval` (near or far, where both are intervals of the same value, else
        null); `note` (remark, or the missing input).
    data_name : the runs that estimators of runs have read.
    data_kind : `real`, `published` or `simulated`.
    """

    table: pl.DataFrame = field()
    data_name: str
    data_kind: Kind

    @property
    def counts(self) -> dict[str, int]:
        """Number of claims per verdict."""
        verdicts = self.table["verdict"]
        return {v: int((verdicts == v).sum()) for v in (NEAR, FAR, NO_INPUT, NO_ESTIMATOR)}

    def __repr__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        lines = [_line(row) for row in self.table.iter_rows(named=True)]
        label = "simulated data" if self.data_kind == "simulated" else None
        return html_table(pl.DataFrame(lines), title="Published numbers and ours", label=label, notes=[_summary(self)])


def ledger(data: Any = None) -> ClaimsResult:
    """Hold every published number against what this package computes.

    Parameters
    ----------
    data : runs of the teamwork benchmark (a study, a data set or a table) for the claims about runs. None takes the
        published round of 2026-10-09, which is not the paper's set of runs.

    Returns
    -------
    ClaimsResult
        167 lines, in the order of `data/published/claims.csv`.

    Raises
    ------
    TableError
        `data` is no runs table.

    Examples
    --------
    >>> row = ledger().table.row(by_predicate=pl.col("id") == "CG025", named=True)
    >>> row["verdict"], round(row["computed"], 1)
    ('near', 38.4)
    """
    inputs = _inputs(data)
    lines = [_entry(claim, inputs) for claim in datasets.published_table("claims").iter_rows(named=True)]
    return ClaimsResult(pl.DataFrame(lines, schema=_SCHEMA), inputs.name, inputs.kind)


def _inputs(data: Any) -> Inputs:
    if data is None:
        data = datasets.published_round("2026-10-09")
    rows, source = read_rows(data, ("model",))
    kind: Kind = "published" if getattr(data, "kind", None) == "published" else "real"
    if source.simulated or any(is_simulated(m) for m in rows["model"].unique()):
        kind = "simulated"
    return Inputs(data, source.study, kind)


def _entry(claim: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    line = {c: claim[c] for c in ("id", "paper", "section", "quantity", "unit")}
    line |= {"published": claim["value"], "published_lo": claim["lo"], "published_hi": claim["hi"]}
    line |= dict.fromkeys(("computed", "computed_lo", "computed_hi", "tolerance", "interval", "function"))
    estimator = ESTIMATORS.get(claim["id"])
    if estimator is None:
        return line | {"data": "not computable", "verdict": NO_ESTIMATOR, "note": f"missing: {missing(claim['id'])}"}
    line["function"] = estimator.function
    try:
        answer = estimator.compute(inputs)
    except MissingInput as e:
        return line | {"data": "not computable", "verdict": NO_INPUT, "note": f"missing: {e}"}
    tolerance = _tolerance(claim, estimator)
    verdict, interval = compare(claim, answer, tolerance, estimator.relation)
    return line | {
        "computed": answer.value,
        "computed_lo": answer.lo,
        "computed_hi": answer.hi,
        "data": {"runs": inputs.kind, "design": "design"}.get(estimator.source, "published"),
        "tolerance": tolerance,
        "verdict": verdict,
        "interval": interval,
        "note": "; ".join(filter(None, _remarks(estimator, answer, inputs))),
    }


def _remarks(estimator: Estimator, answer: Answer, inputs: Inputs) -> list[str]:
    where = {
        "runs": f"on {inputs.name}",
        "counts": "from numbers printed beside it",
        "tables": "from a published table",
        "design": "default of this package",
    }
    bound = "the claim is a lower bound" if estimator.relation == "at least" else ""
    return [estimator.why, answer.note, bound, where[estimator.source]]


def missing(claim_id: str) -> str:
    """The input without which the claim cannot be computed.

    Raises
    ------
    TableError
        The claim has an estimator, or `MISSING` does not name it.
    """
    for first, last, what in MISSING:
        if claim_id not in ESTIMATORS and first <= claim_id <= last:
            return what
    raise TableError(f"claim {claim_id}: neither an estimator nor a missing input is named in cilab.claims")


def compare(
    claim: Mapping[str, Any], answer: Answer, tolerance: float, relation: Relation = "equal"
) -> tuple[str, str | None]:
    """near or far for the claim's numbers, and for its interval where both have one (else None).

    A claim with value, lo and hi has an interval, unless it is CG002, whose three numbers are three quantities. Parts
    that the estimator does not compute are not compared; at least one must be.
    """
    has_interval = all(claim[p] is not None for p in PARTS) and claim["id"] != "CG002"
    distances = {p: _distance(claim[p], getattr(answer, p), relation) for p in PARTS}
    known = {p: d for p, d in distances.items() if d is not None}
    numbers = [d for p, d in known.items() if p == "value" or not has_interval]
    if not numbers:
        raise TableError(f"claim {claim['id']}: the estimator computes none of its numbers")
    ends = [d for p, d in known.items() if p != "value" and has_interval]
    return _verdict(numbers, tolerance), _verdict(ends, tolerance) if ends else None


def _distance(published: float | None, ours: float | None, relation: Relation) -> float | None:
    if published is None or ours is None:
        return None
    return max(0.0, published - ours) if relation == "at least" else abs(ours - published)


def _verdict(distances: Sequence[float], tolerance: float) -> str:
    # Printed decimals are not exact in binary: 0.77 - 0.03 must count as 0.74. NaN is far.
    return NEAR if all(d <= tolerance + 1e-9 for d in distances) else FAR


def _tolerance(claim: Mapping[str, Any], estimator: Estimator) -> float:
    if estimator.tolerance is not None:
        return estimator.tolerance
    if estimator.source == "runs":
        largest = max(abs(claim[p]) for p in PARTS if claim[p] is not None)
        return OTHER_DATA_TOLERANCE.get(claim["unit"], 0.1 * largest)
    printed = [claim[f"{p}_printed"] for p in PARTS if claim[f"{p}_printed"] is not None]
    decimals = min(len(text.partition(".")[2]) for text in printed)
    return 0.5 * 10.0**-decimals


# -- in words -------------------------------------------------------------------------------------------


def render(result: ClaimsResult, width: int = 118) -> str:
    """The ledger as text: three short lines per claim, and a summary first and last."""
    head = textwrap.fill(_summary(result), width)
    blocks = []
    for row in result.table.iter_rows(named=True):
        line = _line(row)
        first = f"{line['Claim']}  {line['Verdict']:<18} {line['Data']:<15} {line['Published']}  |  {line['Ours']}"
        rest = [f"{row['quantity']} [{row['paper']}, section {row['section']}]"]
        rest.append(" - ".join(filter(None, (row["function"], row["note"]))))
        wrapped = [w for text in rest for w in textwrap.wrap(text, width - 7) or [""]]
        blocks.append("\n".join([first.rstrip(" |"), *(f"       {w}" for w in wrapped)]))
    return "\n".join([head, "", *blocks, "", head])


def _line(row: Mapping[str, Any]) -> dict[str, str]:
    """One claim as short texts, for the terminal and the notebook."""
    ours = _numbers(row, "computed", row["unit"])
    if ours and row["tolerance"] is not None:
        ours += f" (tolerance {row['tolerance']:g})"
    interval = {None: "", NEAR: "", FAR: ", interval far"}[row["interval"]]
    return {
        "Claim": row["id"],
        "Verdict": row["verdict"] + interval,
        "Data": row["data"],
        "Published": _numbers(row, "published", row["unit"]),
        "Ours": ours,
        "Function": row["function"] or "",
        "Quantity": row["quantity"],
        "Note": row["note"],
    }


def _numbers(row: Mapping[str, Any], prefix: str, unit: str) -> str:
    value, lo, hi = row[prefix], row[f"{prefix}_lo"], row[f"{prefix}_hi"]
    if value is None and lo is None and hi is None:
        return ""
    ends = [None if x is None else f"{x:.4g}" for x in (lo, hi)]
    text = "" if value is None else f"{value:.5g}"
    if ends[0] is not None and ends[1] is not None:
        text += f" [{ends[0]}, {ends[1]}]"
    elif ends[1] is not None:
        text += f" and {ends[1]}" if text else f"second number {ends[1]}"
    return f"{text.strip()} {unit}"


def _summary(result: ClaimsResult) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in result.counts.items())
    flag = " [SIMULATED DATA]" if result.data_kind == "simulated" else ""
    own = ", which is not the paper's set of runs" if result.data_kind == "published" else ""
    return f"{result.table.height} published numbers: {counts}. Claims about runs: {result.data_name}{own}.{flag}"
