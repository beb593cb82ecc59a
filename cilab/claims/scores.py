"""Estimators of the collaborative-intelligence paper's claims (CI...) about scores, and of what it prints beside them.

May import `cilab.datasets`, `cilab.core`, `cilab.stats` and its own folder. Plays no run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from cilab.claims.data import Answer, Estimator, Inputs, MissingInput
from cilab.core import registry
from cilab.core.frames import read_rows

#: The paper's frontier models (collaborative-intelligence paper, section 3); pseudonyms of simulated ones begin sim:F.
FRONTIER = ("Gemini 4 Argon", "GPT-6 Astra", "GPT-6.1 Sol", "Claude Opus 5.5", "Claude Fable 5.1")

CONFLICT = "handling_conflict"

_HERE = "cilab.claims."
_TABLE = "cilab.datasets.published_table"


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


def default_rows(inputs: Inputs) -> pl.DataFrame:
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
    table = members(default_rows(inputs), group)
    if dimension is not None:
        table = table.filter(pl.col("dimension") == dimension)
    values = overall(table, column)[column]
    if values.len() == 0:
        raise MissingInput(f"{dimension or 'scores'} of {group} models in {inputs.name}")
    return float(values.mean())  # type: ignore[arg-type]


def drops(inputs: Inputs) -> pl.DataFrame:
    """Baseline minus test in points per row, of the overall means, smallest first (paper, table 2)."""
    table = default_rows(inputs)
    joined = overall(table, "baseline_pct").join(overall(table), on="model")
    if joined.height == 0:
        raise MissingInput(f"baseline runs in {inputs.name}")
    return joined.select("model", drop=pl.col("baseline_pct") - pl.col("test_pct")).sort("drop")


def losses(inputs: Inputs) -> pl.DataFrame:
    """Points lost in a calm team and lost to the teammate's problem, per model and dimension (paper, D.1).

    Taking over is left out. Only tasks with baseline and test count, and a test that is better than its baseline does
    so with its sign: it is not clipped away.
    """
    table = default_rows(inputs).filter((pl.col("dimension") != "taking_over") & pl.col("baseline_pct").is_not_null())
    if table.height == 0:
        raise MissingInput(f"baseline runs in {inputs.name}")
    return table.with_columns(calm=100 - pl.col("baseline_pct"), problem=pl.col("drop_points"))


def half_points(inputs: Inputs) -> bool:
    """Whether any run was scored between 0 and 1, as conflict runs that hold firm are in the paper."""
    scores = read_rows(inputs.data, ("score",))[0]["score"]
    return bool(((scores > 0) & (scores < 1)).any())


def _need_half_points(inputs: Inputs) -> None:
    if not half_points(inputs):
        raise MissingInput(f"half points in {CONFLICT}, which {inputs.name} does not give")


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
    wide = default_rows(inputs).pivot("dimension", index="model", values="test_pct").drop_nulls()
    if wide.height < 3 or wide.width < 3:
        raise MissingInput(f"three models with two dimensions in {inputs.name}")
    return wide.columns[1:], wide.drop("model").to_numpy()


def first_component_share(inputs: Inputs) -> float:
    """Percent of the variance of the standardised dimension scores on their first principal component."""
    _, values = _matrix(inputs)
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(values, rowvar=False))
    return float(100 * eigenvalues[-1] / eigenvalues.sum())


def best_deal_against_ability(inputs: Inputs) -> tuple[float, int]:
    """Pearson r over models of the best-deal share in conflict with the mean of the other dimensions, and how many."""
    table = default_rows(inputs)
    conflict = table.filter(pl.col("dimension") == CONFLICT).select("model", "pass_pct")
    others = _by_model(table.filter(pl.col("dimension") != CONFLICT), "test_pct")
    both = conflict.join(others, on="model")
    if both.height < 3:
        raise MissingInput(f"{CONFLICT} of three models in {inputs.name}")
    return float(np.corrcoef(both["pass_pct"], both["test_pct"])[0, 1]), both.height


def _best_deals(inputs: Inputs) -> Answer:
    r, n = best_deal_against_ability(inputs)
    return Answer(r, note=over_models(r, n))


def over_models(r: float | None, n: int) -> str:
    """How surely so few models give a correlation."""
    if r is None or n < 3:
        return f"{n} models"
    return f"{n} models, so a standard error of about {(1 - r**2) / np.sqrt(n - 1):.2f}"


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
    share = _lost_in_test(lost)
    if np.isnan(share):
        raise MissingInput(f"a model that loses anything in {inputs.name}")
    note = "mean over models of each model's share"
    if not half_points(inputs):
        rest = _lost_in_test(lost.filter(pl.col("dimension") != CONFLICT))
        note += f"; this round gives no half points in conflict, without which it is {rest:.1f}"
    return Answer(share, note=note)


def _lost_in_test(lost: pl.DataFrame) -> float:
    """Percent of what a model loses that it loses in the test, mean over models; NaN where nobody loses anything."""
    calm, problem = (_by_model(lost, c)[c].to_numpy() for c in ("calm", "problem"))
    some = calm + problem > 0
    return 100 * float(np.mean(problem[some] / (calm + problem)[some])) if some.any() else float("nan")


def _group_losses(group: str) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        lost = members(losses(inputs), group)
        if lost.height == 0:
            raise MissingInput(f"baselines of {group} models in {inputs.name}")
        calm, problem = (float(_by_model(lost, c)[c].mean()) for c in ("calm", "problem"))  # type: ignore[arg-type]
        return Answer(calm, hi=problem)

    return compute


def _calm_loss_against_score(inputs: Inputs) -> Answer:
    both = _by_model(losses(inputs), "calm").join(overall(default_rows(inputs)), on="model")
    if both.height < 3:
        raise MissingInput(f"baselines of three models in {inputs.name}")
    return Answer(float(np.corrcoef(both["calm"], both["test_pct"])[0, 1]))


def _calm_loss_in_conflict(inputs: Inputs) -> Answer:
    _need_half_points(inputs)
    by_dimension = losses(inputs).group_by("dimension").agg(pl.col("calm").mean())
    conflict = pl.col("dimension") == CONFLICT
    own, others = by_dimension.filter(conflict)["calm"], by_dimension.filter(~conflict)["calm"]
    if own.len() == 0 or others.len() == 0:
        raise MissingInput(f"{CONFLICT} and another dimension with baselines in {inputs.name}")
    return Answer(float(own[0]), hi=float(others.mean()))  # type: ignore[arg-type]


def _correlations(of_conflict: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        if of_conflict:
            _need_half_points(inputs)
        pairs = dimension_correlations(inputs)
        with_conflict = (pl.col("a") == CONFLICT) | (pl.col("b") == CONFLICT)
        r = pairs.filter(with_conflict if of_conflict else ~with_conflict)["r"]
        if r.len() == 0:
            raise MissingInput(f"{CONFLICT} in {inputs.name}")
        low, high = float(r.min()), float(r.max())  # type: ignore[arg-type]
        return Answer(lo=low, hi=high) if of_conflict else Answer(low)

    return compute


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


def _runs(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    return Estimator(_HERE + function, "runs", compute, **settings)


ESTIMATORS: dict[str, Estimator] = {
    "CI001": Estimator(_TABLE, "counts", lambda i: Answer(i.claim("CI003") + i.claim("CI004")), why="CI003 + CI004"),
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
    "CI021": _runs("group_score", _dimension_means("frontier", CONFLICT, best_deal=True)),
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
    "CI099": Estimator(
        "scipy.stats.fisher_exact",
        "counts",
        _lenient_labels,
        why="two-sided; it rounds to another number than printed",
    ),
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
    "CI185": _runs("best_deal_against_ability", _best_deals),
    "CI200": Estimator(_TABLE, "tables", _people_pairs),
    "CI201": Estimator(_TABLE, "tables", _people("negotiation", value="frontier_pct", hi="open_pct")),
    "CI203": Estimator(_TABLE, "tables", _people("lumbar", value="people_pct")),
    "CI204": Estimator(_TABLE, "tables", _people("car crash", value="people_pct"), why="people only"),
}
