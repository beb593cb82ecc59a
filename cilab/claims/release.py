"""Estimators of the collaborative-intelligence paper's claims (CI...) that need results task by task, labels or costs.

May import of `cilab.stats` the public estimators, and its own folder. The data are those given, or the simulated
release, whose parameters are fitted to the paper's aggregates: near then says that an estimator finds again what was
put in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import polars as pl

from cilab import stats
from cilab.claims.cells import FEW, NARROW, cell, rows, span
from cilab.claims.data import Answer, Estimator, Inputs, MissingInput, Relation
from cilab.claims.scores import CONFLICT, default_scores, mean_of_group, of_group, over_models

#: Why a simulated release need not carry a number of the paper.
_COUNT = "a count this small varies from draw to draw by about its square root"
_GATE = "how far the gate selects harder tests is chosen in the simulation and not fitted"
_CALM = "baselines are set by group in the simulation and so follow ability more closely"
_THIRTY = "one draw of 30 conflict tasks"
_SMALL = "a few tenths of a point: less than two draws of tasks are apart"

#: The dimensions in which failures come from not acting, and those in which they come from not noticing (section 4.5).
ACTING = (
    "resisting_unsafe_pressure",
    "reporting_misconduct",
    "keeping_on_track",
    "handling_conflict",
    "taking_over",
)
NOTICING = ("sharing_information", "emotional_intelligence", "taking_initiative")
DIMENSIONS = (*ACTING, *NOTICING)
#: The dimensions in which judges agree least (section C.2).
CLOSE = ("taking_over", "emotional_intelligence", "handling_conflict", "sharing_information")
OTHERS = tuple(d for d in DIMENSIONS if d not in CLOSE)
SAFETY = ("resisting_unsafe_pressure", "reporting_misconduct")


# -- single claims ------------------------------------------------------------------------------------------


def tasks_with(flag: str, value: bool) -> Callable[[Inputs], Answer]:
    """Number of teamwork tasks whose column `flag` of the tasks table is `value`."""

    def compute(inputs: Inputs) -> Answer:
        if not hasattr(inputs.data, "tasks"):
            raise MissingInput(f"the list of tasks with {flag} ({inputs.name} is a table of runs)")
        flags = inputs.data.tasks.filter(pl.col("dimension").is_not_null()).select(flag).collect()[flag]
        if flags.drop_nulls().len() == 0:
            raise MissingInput(f"the list of tasks with {flag}")
        return Answer(int((flags == value).sum()), note="by design of the simulation" if _invented(inputs) else "")

    return compute


def full_dimensions(inputs: Inputs) -> Answer:
    """Number of dimensions with 20 public and 10 held-out tasks (section 2)."""
    if not hasattr(inputs.data, "tasks"):
        raise MissingInput(f"the list of tasks with their split ({inputs.name} is a table of runs)")
    tasks = inputs.data.tasks.filter(pl.col("dimension").is_not_null() & pl.col("split").is_not_null())
    split = pl.col("split").cast(pl.String)
    counts = tasks.group_by("dimension").agg(public=(split == "public").sum(), held_out=(split == "held_out").sum())
    found = counts.collect()
    if found.height == 0:
        raise MissingInput(f"tasks with a split in {inputs.name}")
    full = found.filter((pl.col("public") == 20) & (pl.col("held_out") == 10))
    return Answer(full.height, note="by design of the simulation" if _invented(inputs) else f"of {found.height}")


def scored_runs(inputs: Inputs) -> Answer:
    """Number of teamwork runs that were scored."""
    runs = inputs.data.runs if hasattr(inputs.data, "runs") else inputs.data
    scored = runs.lazy().filter((pl.col("status") == "ok") & pl.col("dimension").is_not_null()).select(pl.len())
    n = scored.collect().item()
    if n == 0:
        raise MissingInput(f"scored teamwork runs in {inputs.name}")
    note = "the simulation has baselines at high effort too" if _invented(inputs) else ""
    return Answer(n, note=note)


def _invented(inputs: Inputs) -> bool:
    return inputs.kind == "simulated"


def _closed_below_best_open(inputs: Inputs) -> Answer:
    """Number of closed models that the best open-weight model places above, at default settings (section 3.1)."""
    table = default_scores(inputs)
    opened = of_group(inputs, table, "open-weight")
    best, closed = table.filter(opened)["score_pct"].max(), table.filter(~opened)["score_pct"]
    if best is None or closed.len() == 0:
        raise MissingInput(f"open-weight and closed models in {inputs.name}")
    return Answer(int((closed < best).sum()), note=f"of {closed.len()} closed models")


#: How the label for pushing back against a teammate's offer is called.
PUSHES_BACK = "pushes_back"
_PARETO = {"resamples": FEW}


def _cost(which: int) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        row = inputs.result("pareto", **_PARETO).table.sort("cost_usd").row(which, named=True)
        return Answer(row["cost_usd"], note=f"here it is {row['row']}")

    return compute


def _on_frontier(inputs: Inputs) -> Answer:
    table = inputs.result("pareto", **_PARETO).table
    return Answer(int(table["on_frontier"].sum()), note=f"of {table.height} rows")


def expected_change(inputs: Inputs, dimension: str | None = None) -> pl.DataFrame | None:
    """What high effort adds to each model by the parameters of simulated data: `model, points`; None without them."""
    truth = inputs.truths
    if not {"rows", "cells"} <= set(truth):
        return None
    table, column = (truth["rows"], "expected_overall") if dimension is None else (truth["cells"], "expected_score")
    if dimension is not None:
        table = table.filter(pl.col("dimension") == dimension)
    high = pl.col("effort") == "high"
    both = table.filter(~high).join(table.filter(high), on="model", suffix="_high")
    return both.select("model", points=100 * (pl.col(f"{column}_high") - pl.col(column)))


def _raised_by_effort(inputs: Inputs) -> Answer:
    change = inputs.result("effort", **_EFFORT).table["diff_points"]
    if change.drop_nulls().len() == 0:
        raise MissingInput(f"a model with a score at two efforts in {inputs.name}")
    note = f"of {change.len()}; changes from {change.min():.1f} to {change.max():.1f} points"
    expected = expected_change(inputs)
    if expected is not None:
        note += f"; by the parameters of the simulation {int((expected['points'] > 0).sum())}"
    return Answer(int((change > 0).sum()), note=note)


def _kinds(inputs: Inputs) -> dict[str, str] | None:
    """The takeover tasks of simulated data in which the earlier model cheated, as the paper's coding tasks."""
    known = inputs.truths.get("tasks")
    if known is None or "kind" not in known.columns:
        return None
    return dict.fromkeys(known.filter(pl.col("kind") == "inherited_cheat")["task_id"], "coding")


def _coding_takeovers(column: str) -> Estimator:
    """A count over the frontier models' takeovers of coding tasks in which the earlier model cheated (section 4.4)."""
    return cell(
        "takeover",
        {"kind": "coding", "group": "frontier", "arm": "no arm"},
        settings={"kinds": _kinds, "resamples": FEW},
        note=lambda r: f"{r['n_failed']} of {r['n_runs']} runs failed",
        lacking="takeovers of coding tasks by frontier models",
        simulated=_COUNT,
        value=column,
    )


def pushed_back_then_gave_in(inputs: Inputs) -> Answer:
    """Percent of conflict runs that gave in although a final label says that the model pushed back (section 4.5)."""
    for table in ("runs", "labels"):
        if not hasattr(inputs.data, table):
            raise MissingInput(f"runs and labels of conflict runs ({inputs.name} is a table of runs)")
    labels = inputs.data.labels.filter((pl.col("rater") == "final") & (pl.col("label") == PUSHES_BACK))
    runs = inputs.data.runs.filter(
        (pl.col("dimension") == CONFLICT)
        & (pl.col("version") == "test")
        & (pl.col("status") == "ok")
        & (pl.col("score") == 0)
        & (pl.col("effort").is_null() | (pl.col("effort") == "default"))
    )
    found = runs.select("run_id", pushed=pl.col("run_id").is_in(labels.collect()["run_id"].unique().implode()))
    pushed = found.collect()["pushed"]
    if not pushed.any():
        raise MissingInput(f"conflict runs that gave in and a label {PUSHES_BACK} in {inputs.name}")
    return Answer(100 * float(pushed.mean()), note=f"{pushed.len()} runs")


def _most_changed(inputs: Inputs) -> Answer:
    table = inputs.result("weighting", resamples=FEW).table
    most = {c: table[f"{c}_change_points"].abs().max() for c in ("ipw", "dr")}
    if any(v is None for v in most.values()):
        raise MissingInput(f"a row with a weighted score in {inputs.name}")
    note = f"weighted {most['ipw']:.1f}, doubly robust {most['dr']:.1f}"
    return Answer(max(float(v) for v in most.values()), note=note)


def _lite(method: str, *, tolerance: float | None = None, simulated: str = "", **parts: Any) -> Estimator:
    return cell(
        "lite",
        {"method": method},
        settings={"method": "greedy"},
        note=lambda r: "the paper's method, greedy" if r["method"] == "greedy" else "",
        tolerance=tolerance,
        simulated=simulated,
        **parts,
    )


def _ceiling(inputs: Inputs) -> Answer:
    table = inputs.result("items").table.filter(pl.col("ceiling"))
    safe = int(table["dimension"].is_in(SAFETY).sum())
    return Answer(table.height, note=f"{safe} of them in the two safety dimensions")


def _close_share(inputs: Inputs) -> Answer:
    close = rows(inputs, "agreement", _TWO_JUDGES | {"group": CLOSE}, settings=_AGREEMENT)
    return Answer(100 * float(close["share_of_differences"].sum()), note=f"{close['n_differ'].sum()} disagreements")


def _lowered(top: bool) -> Callable[[Inputs], Answer]:
    """By how many points the fill-in lowers the ten top rows, or the others (then with the most)."""

    def compute(inputs: Inputs) -> Answer:
        table = inputs.result("fill_in", **_FILL_IN).table
        change = table.filter((pl.col("rank") <= _TOP) if top else (pl.col("rank") > _TOP))[
            "change_points"
        ].drop_nulls()
        if change.len() == 0:
            raise MissingInput(f"rows {'up to' if top else 'below'} rank {_TOP} in {inputs.name}")
        most = None if top else -float(change.min())
        return Answer(-float(change.mean()), hi=most, note=f"{change.len()} rows")

    return compute


def _setters_of_best(inputs: Inputs) -> Answer:
    table = inputs.result("release").table
    return Answer(int(table["sets_best"].sum()), note=f"of {table.height} dated models")


def _measures(inputs: Inputs) -> pl.DataFrame:
    """Capability scores of the models, of simulated data."""
    if "capability" not in inputs.truths:
        raise MissingInput("capability scores of the models")
    return inputs.truths["capability"]


def _capability(measure: str, dimension: str, **interval: Any) -> Estimator:
    """r of a score, overall or of one dimension, with a measure."""
    return cell(
        "capability",
        {"measure": measure, "dimension": dimension},
        settings=_MEASURES,
        note=lambda r: f"{over_models(r['r'], r['n_rows'])}; the interval resamples tasks",
        value="r",
        **interval,
    )


def _deals_after_holding_firm(inputs: Inputs) -> Answer:
    pooled = rows(inputs, "conflict", {"group": None}, frame="groups", settings=_CONFLICT)
    found = {r["quantity"]: r for r in pooled.iter_rows(named=True)}
    firm, deals = found["held_firm"]["n"], found["joint_held_firm"]
    if firm == 0 or deals["n_of"] == 0:
        raise MissingInput(f"deals after holding firm in {inputs.name}")
    return Answer(100 * deals["n_of"] / firm, note=f"those deals reach {deals['share_pct']:.1f} %")


def _of_group(quantity: str, first: str, second: str) -> Estimator:
    """A share of conflict runs in two groups: value and second number."""

    def compute(inputs: Inputs) -> Answer:
        pooled = rows(inputs, "conflict", {"quantity": quantity}, frame="groups", settings=_CONFLICT)
        share = dict(pooled.select("group", "share_pct").iter_rows())
        if first not in share or second not in share:
            raise MissingInput(f"conflict runs of {first} and {second} models in {inputs.name}")
        return Answer(share[first], hi=share[second])

    return _study("conflict", compute, tolerance=3.0, why=NARROW, simulated=_THIRTY)


# -- the claims -----------------------------------------------------------------------------------------------

_AGREEMENT = {"raters": ("referee", "second"), "resamples": FEW}
_TWO_JUDGES = {"comparison": "referee × second"}
_CONFLICT = {"resamples": FEW}
_EFFORT = {"resamples": FEW}
_MEASURES = {"measures": _measures}
_FILL_IN = {"resamples": FEW}
_TOP = 10
_VALIDITY = {"resamples": FEW}


def _study(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    """A claim that is computed from results on a study with its tables."""
    return Estimator(f"cilab.{function}", "tasks", lambda inputs: compute(inputs.with_tables()), **settings)


def _noticed(by: str, name: str, **parts: Any) -> Estimator:
    return cell(
        "noticed",
        {"by": by, "name": name},
        note=lambda r: f"{r['n']} of {r['n_failed']} failed runs",
        **parts,
    )


def _check(check: str, quantity: str, *, tolerance: float | None = None, relation: Relation = "equal") -> Estimator:
    return cell(
        "validity",
        {"check": check, "quantity": quantity},
        settings=_VALIDITY,
        note=lambda r: f"{r['n']} {r['n_of']}",
        tolerance=tolerance,
        relation=relation,
        value="value",
    )


def _endings(quantity: str, **parts: Any) -> Estimator:
    return cell("conflict", {"group": None, "quantity": quantity}, frame="groups", settings=_CONFLICT, **parts)


def _ending_correlation(
    quantity: str, against: str = "other dimensions", *, simulated: str = "", **settings: Any
) -> Estimator:
    return cell(
        "conflict",
        {"quantity": quantity, "against": against},
        frame="correlations",
        settings=_CONFLICT | settings,
        note=lambda r: over_models(r["r"], r["n_rows"]),
        simulated=simulated,
        value="r",
    )


def _effort_in(dimension: str) -> Estimator:
    def compute(inputs: Inputs) -> Answer:
        found = rows(inputs, "effort", {"dimension": dimension}, frame="dimensions", settings=_EFFORT)
        row = found.row(0, named=True)
        note = f"{row['n_better']} tasks better, {row['n_worse']} worse, sign test p = {_short(row['p'])}"
        expected = expected_change(inputs, dimension)
        if expected is not None:
            note += f"; by the parameters of the simulation {expected['points'].mean():.1f}"
        return Answer(row["diff_points"], note=note)

    return _study("effort", compute, tolerance=3.0, why=NARROW)


def _filled_in(quantity: str, tolerance: float | None = None, **remarks: Any) -> Estimator:
    return cell(
        "fill_in",
        {"quantity": quantity},
        frame="quantities",
        settings=_FILL_IN,
        note=lambda r: r["note"] or "",
        tolerance=tolerance,
        value="value",
        **remarks,
    )


def _alone_failures(dimension: str | None) -> Estimator:
    return cell(
        "fill_in",
        {"dimension": dimension},
        frame="alone_failures",
        settings=_FILL_IN,
        note=lambda r: f"{r['n_tasks']} tasks, permutation p = {_short(r['p'])}",
        simulated=_GATE,
        value="spearman",
    )


def _moved(tasks: str, tolerance: float) -> Estimator:
    return cell(
        "fill_in",
        {"scored_tasks": tasks},
        frame="movement",
        settings=_FILL_IN,
        note=lambda r: f"{r['n_cells']} cells",
        simulated=_GATE,
        tolerance=tolerance,
        value="mean_absolute_points",
    )


def _short(p: float | None) -> str:
    return "undefined" if p is None else f"{p:.2g}"


def _resamples(function: str) -> Estimator:
    """How many resamples an estimator draws unless told otherwise."""

    def compute(_: Inputs) -> Answer:
        return Answer(inspect.signature(getattr(stats, function)).parameters["resamples"].default)

    return Estimator(f"cilab.{function}", "design", compute)


ESTIMATORS: dict[str, Estimator] = {
    "CI002": Estimator("cilab.claims.full_dimensions", "tasks", full_dimensions, tolerance=0.0),
    "CI003": Estimator("cilab.claims.tasks_with", "tasks", tasks_with("real_world", True), tolerance=0.0),
    "CI004": Estimator("cilab.claims.tasks_with", "tasks", tasks_with("real_world", False), tolerance=0.0),
    "CI005": Estimator("cilab.claims.tasks_with", "tasks", tasks_with("sandbox", True), tolerance=0.0),
    "CI006": Estimator("cilab.claims.scored_runs", "tasks", scored_runs),
    "CI007": _resamples("leaderboard"),
    "CI008": _resamples("validity"),
    "CI013": Estimator("cilab.leaderboard", "tasks", _closed_below_best_open),
    "CI029": mean_of_group(
        "frontier",
        "dimensions",
        "baseline_pct",
        lacking="taking_over",
        source="tasks",
        dimension="taking_over",
    ),
    "CI030": _coding_takeovers("n_failed"),
    "CI031": _coding_takeovers("n_carried_failed"),
    "CI040": _study(
        "pareto", _cost(0), simulated="what a row costs varies with the tasks that it solves alone in this draw"
    ),
    "CI041": _study("pareto", _cost(-1)),
    "CI043": _study("pareto", _on_frontier),
    "CI050": _study("effort", _raised_by_effort),
    "CI052": _effort_in("taking_initiative"),
    "CI053": _effort_in("emotional_intelligence"),
    "CI056": cell("effort", {}, frame="output_length", settings=_EFFORT, value="r"),
    "CI060": _noticed("all", "all", value="n_failed"),
    "CI061": _noticed("all", "all", value="share_pct", lo="lo_pct", hi="hi_pct"),
    "CI062": span("noticed", {"by": "dimension", "name": ACTING}, "share_pct"),
    "CI063": span("noticed", {"by": "dimension", "name": NOTICING}, "share_pct"),
    "CI064": _noticed("group", "frontier", value="share_pct", lo="lo_pct", hi="hi_pct"),
    "CI065": Estimator("cilab.claims.pushed_back_then_gave_in", "tasks", pushed_back_then_gave_in),
    "CI066": cell("noticed", {"dimension": None}, frame="correlations", value="r"),
    "CI067": span(
        "noticed",
        {"dimension": DIMENSIONS, "score": "overall"},
        "r",
        frame="correlations",
        simulated="noticing rises with ability much alike in every dimension of the simulation",
    ),
    "CI068": _noticed("dimension", "taking_initiative", value="share_pct"),
    "CI071": cell(
        "failures",
        {"by": "all", "mode": "fits no rule"},
        settings={"resamples": FEW},
        note=lambda r: f"of {r['n_failed']} failed runs",
        value="n",
    ),
    "CI080": _check("held_out", "kendall_tau_b"),
    "CI081": _check("held_out", "mean_absolute_difference", tolerance=1.0),
    "CI082": _check("seeds", "least_pearson_r", tolerance=0.01, relation="at least"),
    "CI083": _check("same_verdict", "same_verdict_pct"),
    "CI084": _check("split_half", "reliability", tolerance=0.01),
    "CI085": _check("head_to_head", "higher_ranked_wins", tolerance=5.0),
    "CI091": cell(
        "agreement",
        {"group": "all", "comparison": "people × final"},
        settings=_AGREEMENT,
        note=lambda r: f"{r['n']} messages",
        value="kappa",
    ),
    "CI094": cell(
        "agreement",
        _TWO_JUDGES | {"group": "all"},
        settings=_AGREEMENT,
        note=lambda r: f"{r['n']:,} messages",
        times=100,
        value="raw",
    ),
    "CI095": span("agreement", _TWO_JUDGES | {"group": OTHERS}, "raw", settings=_AGREEMENT, times=100),
    "CI096": span("agreement", _TWO_JUDGES | {"group": CLOSE}, "raw", settings=_AGREEMENT, times=100),
    "CI097": _study("agreement", _close_share),
    "CI100": _alone_failures(None),
    "CI101": _alone_failures("taking_over"),
    "CI102": _filled_in("log_loss"),
    "CI103": _filled_in("log_loss_own_mean"),
    "CI104": _filled_in(
        "pairs", why="all ordered pairs of fourteen rows; the paper does not say which of the 182 it leaves out"
    ),
    "CI105": _filled_in("error_remaining_points", 0.5),
    "CI106": _filled_in("error_filled_points", 0.5, simulated=_SMALL),
    "CI107": _filled_in("shift", 0.1, simulated=_GATE),
    "CI108": _study("fill_in", _lowered(top=True), tolerance=0.5, why=NARROW, simulated=_SMALL),
    "CI109": _study("fill_in", _lowered(top=False), tolerance=1.0, why=NARROW),
    "CI110": _filled_in("kendall_tau_b", 0.05),
    "CI111": _study("weighting", _most_changed, tolerance=1.5, why=NARROW, simulated=_GATE),
    "CI112": _moved("10 to 19", 2.0),
    "CI113": _moved("27 or more", 0.2),
    "CI120": cell("items", {"quantity": "median_item_rest_r"}, frame="summary", value="value"),
    "CI121": _study("items", _ceiling),
    "CI122": cell("items", {"quantity": "floor_items"}, frame="summary", simulated=_COUNT, value="value"),
    "CI123": cell("items", {"quantity": "negative_items"}, frame="summary", simulated=_COUNT, value="value"),
    "CI124": _lite("greedy", value="tau_all"),
    "CI125": _lite("greedy", value="rho_all"),
    "CI126": _lite(
        "greedy",
        tolerance=1.0,
        simulated="the greatest of 24 differences varies much from draw to draw",
        value="error_all_points",
        hi="max_error_all_points",
    ),
    "CI128": _lite("greedy", value="tau"),
    "CI129": _lite("greedy", tolerance=0.5, value="error_points"),
    "CI130": _lite("random", value="tau"),
    "CI131": _lite("random", tolerance=0.5, value="error_points"),
    "CI140": cell(
        "sources", {"quantity": "pearson_r"}, frame="summary", tolerance=0.05, value="value", lo="lo", hi="hi"
    ),
    "CI141": cell("sources", {"quantity": "kendall_tau_b"}, frame="summary", value="value"),
    "CI142": cell("sources", {"quantity": "benchmark_harder_points"}, frame="summary", value="value", lo="lo", hi="hi"),
    "CI160": _study("release", _setters_of_best, simulated=_COUNT),
    "CI170": _capability("intelligence_index", "overall", lo="lo", hi="hi"),
    "CI172": _capability("lmarena", "overall", lo="lo", hi="hi"),
    "CI173": _capability("intelligence_index", CONFLICT),
    "CI174": span(
        "capability",
        {"measure": "intelligence_index", "dimension": tuple(d for d in DIMENSIONS if d != CONFLICT)},
        "r",
        settings=_MEASURES,
    ),
    "CI183": _ending_correlation("asks"),
    "CI184": _ending_correlation("gave_in"),
    "CI186": _ending_correlation("held_firm"),
    "CI187": _ending_correlation("gave_in", version="baseline", simulated=_CALM),
    "CI188": _of_group("held_firm", "open-weight", "frontier"),
    "CI190": _endings("conflict", value="n_of"),
    "CI191": _endings("joint", tolerance=2.0, value="share_pct"),
    "CI192": _endings("joint_gave_in", tolerance=2.0, value="share_pct"),
    "CI193": _study("conflict", _deals_after_holding_firm),
    "CI194": _ending_correlation("joint_none_as_0", "conflict"),
    "CI195": _of_group("no_deal", "frontier", "open-weight"),
}
