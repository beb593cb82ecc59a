"""Estimators of the collaborative-intelligence paper's claims (CI...) about scores, and of what it prints beside them.

May import `cilab.results` and its own folder. Scores nothing: the numbers are those of the face's estimators, with the
defaults that everybody gets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from cilab.claims.cells import FEW, cell, rows
from cilab.claims.data import Answer, Estimator, Inputs, MissingInput, Source
from cilab.results.names import row_names

CONFLICT = "handling_conflict"

_TABLE = "cilab.datasets.published_table"
_PERCENT = "cilab.claims.percent"
#: Points only, which do not hang on the resamples.
SCORES = {"resamples": FEW}
#: An overall score of the dimensions that have one.
OVERALL = SCORES | {"skip_undefined": True}
#: Rows at the setting that nobody asked for, without a treatment, as the paper's tables of models have them.
DEFAULT = {"effort": (None, "default"), "arm": None}


# -- rows and groups ----------------------------------------------------------------------------------------


def default_scores(inputs: Inputs) -> pl.DataFrame:
    """The leaderboard's lines at default settings that have a score."""
    table = rows(inputs, "leaderboard", DEFAULT, settings=OVERALL, lacking="rows at default settings")
    return table.filter(pl.col("score_pct").is_not_null())


def of_group(inputs: Inputs, table: pl.DataFrame, group: str) -> pl.Series:
    """Which lines are of rows that `cilab.group_means` counts to the group, true or false."""
    row = ("model", "effort", "arm")
    members = inputs.result("group_means", **SCORES).members.get(group, ())
    names = row_names(inputs.result("dimensions", **SCORES).table.select(row).unique().rows())
    return pl.Series([names[key] in members for key in table.select(row).iter_rows()], dtype=pl.Boolean)


def mean_of_group(
    group: str, function: str, column: str, *, lacking: str, source: Source = "runs", **where: Any
) -> Estimator:
    """A claim that is a mean over a group's models of a column of a result that has no groups."""

    def compute(inputs: Inputs) -> Answer:
        table = rows(inputs, function, DEFAULT | where, settings=SCORES, lacking=f"{lacking} of {group} models")
        values = table.filter(of_group(inputs, table, group))[column].drop_nulls()
        if values.len() == 0:
            raise MissingInput(f"{lacking} of {group} models in {inputs.name}")
        return Answer(float(values.mean()))  # type: ignore[arg-type]

    return Estimator(f"cilab.{function}", source, compute)


def over_models(r: float | None, n: int) -> str:
    """How surely so few models give a correlation."""
    if r is None or n < 3:
        return f"{n} models"
    return f"{n} models, so a standard error of about {(1 - r**2) / np.sqrt(n - 1):.2f}"


# -- estimators, claim by claim -------------------------------------------------------------------------


_score_cell = partial(cell, source="runs", settings=SCORES)


def _row(model: str, effort: str | None = None) -> Estimator:
    """The overall score of one row."""
    at = DEFAULT if effort is None else DEFAULT | {"effort": effort}
    return cell(
        "leaderboard",
        {"model": model} | at,
        source="runs",
        settings=OVERALL,
        lacking=f"a row of {model}{f' at {effort} effort' if effort else ''}",
        value="score_pct",
    )


def _group(group: str, dimension: str | None = None) -> Estimator:
    """The score of a group of models, overall or in one dimension."""
    return _score_cell(
        "group_means",
        {"group": group, "dimension": dimension},
        lacking=f"{dimension or 'scores'} of {group} models",
        value="score_pct",
    )


def _lowest(group: str, *dimensions: str) -> Callable[[Inputs], Answer]:
    """The lowest of a group's scores in several dimensions."""
    of = [_group(group, d) for d in dimensions]
    return lambda inputs: Answer(min(e.compute(inputs).value for e in of))  # type: ignore[type-var]


def _losses_of(group: str) -> Estimator:
    """What a group of models loses in a calm team, and to the teammate's problem (D.1)."""
    return _score_cell(
        "loss",
        {"by": "group", "name": group},
        frame="summary",
        lacking=f"baselines of {group} models",
        why="the paper's rows are others than the round's" if group == "frontier" else "",
        value="lost_calm_points",
        hi="lost_test_points",
    )


def _extreme_drop(which: int) -> Callable[[Inputs], Answer]:
    """The smallest (0) or greatest (-1) difference of the overall scores without and with the problem (table 2)."""

    def compute(inputs: Inputs) -> Answer:
        table = default_scores(inputs).select("model", drop=pl.col("baseline_pct") - pl.col("score_pct")).drop_nulls()
        if table.height == 0:
            raise MissingInput(f"baseline runs in {inputs.name}")
        row = table.sort("drop").row(which, named=True)
        return Answer(row["drop"], note=f"here it is {row['model']}")

    return compute


def _of_the_best(inputs: Inputs) -> Answer:
    best = inputs.result("leaderboard", **OVERALL).table["score_pct"].max()
    return Answer(100 * _row("GPT-6.1 Sol").compute(inputs).value / best)  # type: ignore[operator]


def _initiative_on_busy_days(inputs: Inputs) -> Answer:
    """The second number of the claim: the three closed models of the earlier round; the first has no data."""
    names = ("GPT-6 Astra", "Claude Opus 5.5", "Claude Fable 5.1")
    lacking = f"taking_initiative of {', '.join(names)}"
    where = {"model": names, "dimension": "taking_initiative"}
    scores = rows(inputs, "dimensions", where, settings=SCORES, lacking=lacking)["score_pct"].drop_nulls()
    if scores.len() != len(names):
        raise MissingInput(f"{lacking} in {inputs.name}")
    return Answer(hi=float(scores.mean()), note="busy days only; runs on quiet days are missing")  # type: ignore[arg-type]


def _need_half_points(inputs: Inputs) -> None:
    if not inputs.half_points:
        raise MissingInput(f"half points in {CONFLICT}, which {inputs.name} does not give")


def _loss_share(inputs: Inputs) -> Answer:
    summary = inputs.result("loss", **SCORES).summary
    share = summary.filter(by="all")["test_share_pct"][0]
    if share is None:
        raise MissingInput(f"a model that loses anything in {inputs.name}")
    note = "mean over models of each model's share"
    names = summary.filter(by="dimension")["name"].to_list()
    others = [d for d in names if d != CONFLICT]
    if 0 < len(others) < len(names) and not inputs.half_points:
        rest = inputs.result("loss", **SCORES, dimensions=others).summary.filter(by="all")["test_share_pct"][0]
        without = "undefined" if rest is None else f"{rest:.1f}"
        note += f"; this round gives no half points in conflict, without which it is {without}"
    return Answer(share, note=note)


def _calm_loss_in_conflict(inputs: Inputs) -> Answer:
    _need_half_points(inputs)
    lost = rows(inputs, "loss", {"by": "dimension"}, frame="summary", settings=SCORES)
    conflict = pl.col("name") == CONFLICT
    own, others = lost.filter(conflict)["lost_calm_points"], lost.filter(~conflict)["lost_calm_points"]
    if own.len() == 0 or others.len() == 0:
        raise MissingInput(f"{CONFLICT} and another dimension with baselines in {inputs.name}")
    return Answer(float(own[0]), hi=float(others.mean()))  # type: ignore[arg-type]


def _correlations(of_conflict: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        if of_conflict:
            _need_half_points(inputs)
        with_conflict = (pl.col("dimension") == CONFLICT) | (pl.col("other") == CONFLICT)
        pairs = rows(inputs, "dimension_correlations", {}, settings=SCORES)
        r = pairs.filter(with_conflict if of_conflict else ~with_conflict)["r"].drop_nulls()
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

    return Answer(float(fisher_exact([[1, 51], [6, 122]]).pvalue))


def _people(task: str, **columns: str) -> Callable[[Inputs], Answer]:
    """Percentages of `people.csv` for the task whose name begins with `task`, by part of the claim."""

    def compute(inputs: Inputs) -> Answer:
        row = inputs.table("people").row(by_predicate=pl.col("task").str.starts_with(task), named=True)
        return Answer(**{part: row[column] for part, column in columns.items()})

    return compute


def _people_pairs(inputs: Inputs) -> Answer:
    row = inputs.table("people").row(by_predicate=pl.col("task").str.starts_with("negotiation"), named=True)
    return Answer(row["people_n"] * row["people_pct"] / 100, note="from the percentage")


ESTIMATORS: dict[str, Estimator] = {
    "CI001": Estimator(_TABLE, "counts", lambda i: Answer(i.claim("CI003") + i.claim("CI004")), why="CI003 + CI004"),
    "CI010": _row("Gemini 4 Argon"),
    "CI011": _row("Gemini 4 Argon", "high"),
    "CI012": _row("Kimi K3.1 Pro"),
    "CI014": Estimator("cilab.leaderboard", "runs", _extreme_drop(0)),
    "CI015": Estimator("cilab.leaderboard", "runs", _extreme_drop(-1)),
    "CI016": _row("gpt-oss-120b"),
    "CI017": _row("Claude Haiku 5.5"),
    "CI018": _group("open-weight"),
    "CI019": _score_cell(
        "group_means",
        {"group": "frontier", "other": "open-weight", "dimension": None},
        frame="differences",
        lacking="scores of frontier and open-weight models",
        value="diff_points",
    ),
    "CI020": Estimator(
        "cilab.group_means",
        "runs",
        _lowest("frontier", "resisting_unsafe_pressure", "reporting_misconduct"),
        relation="at least",
    ),
    "CI021": mean_of_group("frontier", "conflict", "best_pct", lacking=CONFLICT),
    "CI022": _group("frontier", "emotional_intelligence"),
    "CI023": _group("open-weight", "sharing_information"),
    "CI024": _group("frontier", "sharing_information"),
    "CI025": _group("open-weight", "taking_initiative"),
    "CI026": _group("frontier", "taking_initiative"),
    "CI027": _group("open-weight", "resisting_unsafe_pressure"),
    "CI028": _group("frontier", "taking_over"),
    "CI042": Estimator(
        _TABLE,
        "counts",
        lambda i: Answer(i.claim("CI041") / i.claim("CI040")),
        tolerance=10.5,
        why="CI041 / CI040, where 1.8 stands for 1.75 to 1.85",
    ),
    "CI046": Estimator("cilab.leaderboard", "runs", _of_the_best),
    "CI054": Estimator("scipy.stats.binomtest", "counts", _sign_test(20, 46)),
    "CI055": Estimator("scipy.stats.binomtest", "counts", _sign_test(37, 66)),
    "CI070": Estimator(
        "cilab.dimensions",
        "runs",
        _initiative_on_busy_days,
        tolerance=0.5,
        why="the round is the earlier round's busy days",
    ),
    "CI090": Estimator(_PERCENT, "counts", percent(33, 40)),
    "CI092": Estimator(_PERCENT, "counts", percent(35, 40)),
    "CI093": Estimator(_PERCENT, "counts", percent(31, 35)),
    "CI098": Estimator(_PERCENT, "counts", percent(36, 40)),
    "CI099": Estimator(
        "scipy.stats.fisher_exact",
        "counts",
        _lenient_labels,
        why="two-sided; it rounds to another number than printed",
    ),
    "CI127": Estimator(_PERCENT, "counts", percent(40, 240), why="40 of 240 tasks, five runs each"),
    "CI150": Estimator("cilab.loss", "runs", _loss_share),
    "CI151": _losses_of("frontier"),
    "CI152": _losses_of("open-weight"),
    "CI153": _score_cell("loss", {}, frame="correlation", value="r"),
    "CI154": Estimator("cilab.loss", "runs", _calm_loss_in_conflict),
    "CI171": Estimator(
        _TABLE,
        "counts",
        lambda i: Answer(100 * i.claim("CI170") ** 2),
        tolerance=1.5,
        why="the square of CI170, where 0.92 stands for 0.915 to 0.925",
    ),
    "CI180": Estimator("cilab.dimension_correlations", "runs", _correlations(of_conflict=True)),
    "CI181": Estimator("cilab.dimension_correlations", "runs", _correlations(of_conflict=False), relation="at least"),
    "CI182": _score_cell("dimension_correlations", {"component": 1}, frame="components", value="variance_pct"),
    "CI185": _score_cell(
        "conflict",
        {"quantity": "best", "against": "other dimensions"},
        frame="correlations",
        note=lambda r: over_models(r["r"], r["n_rows"]),
        value="r",
    ),
    "CI200": Estimator(_TABLE, "tables", _people_pairs),
    "CI201": Estimator(_TABLE, "tables", _people("negotiation", value="frontier_pct", hi="open_pct")),
    "CI203": Estimator(_TABLE, "tables", _people("lumbar", value="people_pct")),
    "CI204": Estimator(_TABLE, "tables", _people("car crash", value="people_pct"), why="people only"),
}
