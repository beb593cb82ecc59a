"""Estimators of the collaborative-intelligence paper's claims (CI...) that need results task by task, labels or costs.

May import `cilab.stats` and its own folder. The data are those given, or the simulated release, whose parameters are
fitted to the paper's aggregates: near then says that an estimator finds again what was put in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from cilab import stats
from cilab.claims.data import Answer, Estimator, Inputs, MissingInput, Relation
from cilab.claims.scores import CONFLICT, default_rows, group_score, members, over_models, overall
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, RESAMPLES_SCORES

_NARROW = "narrower tolerance than usual, which would call any such number near"
#: Why a simulated release need not carry a number of the paper.
_COUNT = "a count this small varies from draw to draw by about its square root"
_GATE = "how far the gate selects harder tests is chosen in the simulation and not fitted"
_CALM = "baselines are set by group in the simulation and so follow ability more closely"
_THIRTY = "one draw of 30 conflict tasks"
#: Resamples where only points are shown; where the claim has an interval the estimator's own number is used.
_FEW = 50

#: The dimensions in which failures come from not acting, and those in which they come from not noticing (section 4.5).
ACTING = (
    "resisting_unsafe_pressure",
    "reporting_misconduct",
    "keeping_on_track",
    "handling_conflict",
    "taking_over",
)
NOTICING = ("sharing_information", "emotional_intelligence", "taking_initiative")
#: The dimensions in which judges agree least (section C.2).
CLOSE = ("taking_over", "emotional_intelligence", "handling_conflict", "sharing_information")
SAFETY = ("resisting_unsafe_pressure", "reporting_misconduct")


# -- reading a cell of a result ----------------------------------------------------------------------------


def _result(inputs: Inputs, function: str, settings: dict[str, Any]) -> Any:
    """`cilab.<function>` of the data, once."""
    for table in ("tasks", "labels"):
        if not hasattr(inputs.data, table):
            raise MissingInput(f"a study with its {table} ({inputs.name} is a table of runs)")
    return inputs.once(getattr(stats, function), **settings)


def _rows(inputs: Inputs, function: str, settings: dict[str, Any], frame: str, where: dict[str, Any]) -> pl.DataFrame:
    """The lines of one table of a result."""
    table = getattr(_result(inputs, function, settings), frame)
    rows = table.filter(
        *(pl.col(c).is_in(v) if isinstance(v, tuple) else pl.col(c).eq_missing(pl.lit(v)) for c, v in where.items())
    )
    if rows.height == 0:
        raise MissingInput(f"{', '.join(map(str, where.values()))} in {inputs.name}")
    return rows


def _cell(
    function: str,
    where: dict[str, Any],
    *,
    frame: str = "table",
    note: Callable[[dict[str, Any]], str] = lambda row: "",
    settings: dict[str, Any] | None = None,
    relation: Relation = "equal",
    tolerance: float | None = None,
    why: str = "",
    simulated: str = "",
    **parts: str,
) -> Estimator:
    """A claim whose parts are columns of one line of a result."""

    def compute(inputs: Inputs) -> Answer:
        row = _rows(inputs, function, settings or {}, frame, where).row(0, named=True)
        values = {part: row[column] for part, column in parts.items()}
        if all(v is None for v in values.values()):
            raise MissingInput(row.get("note") or row.get("reason") or row.get("undefined") or f"a value for {where}")
        return Answer(**values, note=note(row))

    why = "; ".join(filter(None, ("" if tolerance is None else _NARROW, why)))
    return Estimator(f"cilab.{function}", "tasks", compute, tolerance, relation, why, simulated)


def _range(
    function: str,
    where: dict[str, Any],
    column: str,
    *,
    frame: str = "table",
    settings: dict[str, Any] | None = None,
    simulated: str = "",
) -> Estimator:
    """A claim that is the least and the largest value of a column."""

    def compute(inputs: Inputs) -> Answer:
        values = _rows(inputs, function, settings or {}, frame, where)[column].drop_nulls()
        if values.len() == 0:
            raise MissingInput(f"{column} in {inputs.name}")
        return Answer(lo=float(values.min()), hi=float(values.max()), note=f"over {values.len()} dimensions")  # type: ignore[arg-type]

    return Estimator(f"cilab.{function}", "tasks", compute, simulated=simulated)


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


def closed_below_best_open(inputs: Inputs) -> Answer:
    """Number of closed models that the best open-weight model places above, at default settings (section 3.1)."""
    scores = overall(default_rows(inputs))
    open_models = members(scores, "open")
    closed = scores.join(open_models, on="model", how="anti")
    if open_models.height == 0 or closed.height == 0:
        raise MissingInput(f"open-weight and closed models in {inputs.name}")
    best = float(open_models["test_pct"].max())  # type: ignore[arg-type]
    return Answer(int((closed["test_pct"] < best).sum()), note=f"of {closed.height} closed models")


#: How the label for pushing back against a teammate's offer is called.
PUSHES_BACK = "pushes_back"
_PARETO = {"resamples": _FEW}


def _cost(which: int) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        row = _result(inputs, "pareto", _PARETO).table.sort("cost_usd").row(which, named=True)
        return Answer(row["cost_usd"], note=f"here it is {row['row']}")

    return compute


def _on_frontier(inputs: Inputs) -> Answer:
    table = _result(inputs, "pareto", _PARETO).table
    return Answer(int(table["on_frontier"].sum()), note=f"of {table.height} rows")


def expected_change(inputs: Inputs, dimension: str | None = None) -> pl.DataFrame | None:
    """What high effort adds to each model by the parameters of simulated data: `model, points`; None without them."""
    truth = getattr(inputs.data, "truth", None) or {}
    if not {"rows", "cells"} <= set(truth):
        return None
    table, column = (truth["rows"], "expected_overall") if dimension is None else (truth["cells"], "expected_score")
    if dimension is not None:
        table = table.filter(pl.col("dimension") == dimension)
    high = pl.col("effort") == "high"
    both = table.filter(~high).join(table.filter(high), on="model", suffix="_high")
    return both.select("model", points=100 * (pl.col(f"{column}_high") - pl.col(column)))


def _raised_by_effort(inputs: Inputs) -> Answer:
    change = _result(inputs, "effort", {"resamples": _FEW}).table["diff_points"]
    if change.drop_nulls().len() == 0:
        raise MissingInput(f"a model with a score at two efforts in {inputs.name}")
    note = f"of {change.len()}; changes from {change.min():.1f} to {change.max():.1f} points"
    expected = expected_change(inputs)
    if expected is not None:
        note += f"; by the parameters of the simulation {int((expected['points'] > 0).sum())}"
    return Answer(int((change > 0).sum()), note=note)


def _coding_takeovers(inputs: Inputs, column: str) -> Answer:
    """A count over the frontier models' takeovers of coding tasks in which the earlier model cheated (section 4.4)."""
    known = (getattr(inputs.data, "truth", None) or {}).get("tasks")
    kinds = None
    if known is not None and "kind" in known.columns:
        kinds = dict.fromkeys(known.filter(pl.col("kind") == "inherited_cheat")["task_id"], "coding")
    table = _result(inputs, "takeover", {"kinds": kinds, "resamples": _FEW}).table
    row = table.filter((pl.col("kind") == "coding") & (pl.col("group") == "frontier") & (pl.col("arm") == "no arm"))
    if row.height != 1:
        raise MissingInput(f"takeovers of coding tasks by frontier models in {inputs.name}")
    line = row.row(0, named=True)
    return Answer(line[column], note=f"{line['n_failed']} of {line['n_runs']} runs failed")


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
    return Answer(100 * float(pushed.mean()), note=f"{pushed.len()} runs")  # type: ignore[arg-type]


def _most_changed(inputs: Inputs) -> Answer:
    table = _result(inputs, "weighting", {"resamples": _FEW}).table
    most = {c: table[f"{c}_change_points"].abs().max() for c in ("ipw", "dr")}
    if any(v is None for v in most.values()):
        raise MissingInput(f"a row with a weighted score in {inputs.name}")
    note = f"weighted {most['ipw']:.1f}, doubly robust {most['dr']:.1f}"
    return Answer(max(float(v) for v in most.values()), note=note)  # type: ignore[arg-type]


def _lite(method: str, *, tolerance: float | None = None, simulated: str = "", **parts: str) -> Estimator:
    return _cell(
        "lite",
        {"method": method},
        settings={"method": "greedy"},
        note=lambda r: "the paper's method, greedy" if r["method"] == "greedy" else "",
        tolerance=tolerance,
        simulated=simulated,
        **parts,
    )


def _ceiling(inputs: Inputs) -> Answer:
    table = _result(inputs, "items", {}).table.filter(pl.col("ceiling"))
    safe = int(table["dimension"].is_in(SAFETY).sum())
    return Answer(table.height, note=f"{safe} of them in the two safety dimensions")


def _close_share(inputs: Inputs) -> Answer:
    rows = _rows(inputs, "agreement", _AGREEMENT, "table", _TWO_JUDGES | {"group": CLOSE})
    return Answer(100 * float(rows["share_of_differences"].sum()), note=f"{rows['n_differ'].sum()} disagreements")


def _in_percent(inputs: Inputs, rows: pl.DataFrame) -> Answer:
    values = 100 * rows["raw"]
    return Answer(lo=float(values.min()), hi=float(values.max()), note=f"over {rows.height} dimensions")  # type: ignore[arg-type]


def _agreement_in(dimensions: Sequence[str], *, close: bool) -> Callable[[Inputs], Answer]:
    def compute(inputs: Inputs) -> Answer:
        rows = _rows(inputs, "agreement", _AGREEMENT, "table", _TWO_JUDGES)
        rows = rows.filter((pl.col("group") != "all") & (pl.col("group").is_in(dimensions) == close))
        if rows.height == 0:
            raise MissingInput(f"labels in these dimensions in {inputs.name}")
        return _in_percent(inputs, rows)

    return compute


def _judges_agree(inputs: Inputs) -> Answer:
    row = _rows(inputs, "agreement", _AGREEMENT, "table", _TWO_JUDGES | {"group": "all"}).row(0, named=True)
    return Answer(100 * row["raw"], note=f"{row['n']:,} messages")


def _lowered(top: bool) -> Callable[[Inputs], Answer]:
    """By how many points the fill-in lowers the ten top rows, or the others (then with the most)."""

    def compute(inputs: Inputs) -> Answer:
        table = _result(inputs, "fill_in", _FILL_IN).table
        change = table.filter((pl.col("rank") <= _TOP) if top else (pl.col("rank") > _TOP))[
            "change_points"
        ].drop_nulls()
        if change.len() == 0:
            raise MissingInput(f"rows {'up to' if top else 'below'} rank {_TOP} in {inputs.name}")
        most = None if top else -float(change.min())  # type: ignore[arg-type]
        return Answer(-float(change.mean()), hi=most, note=f"{change.len()} rows")  # type: ignore[arg-type]

    return compute


def _setters_of_best(inputs: Inputs) -> Answer:
    table = _result(inputs, "release", {}).table
    return Answer(int(table["sets_best"].sum()), note=f"of {table.height} dated models")


def _capability(measure: str, dimension: str | None) -> Callable[[Inputs], Answer]:
    """r of a score with a measure: overall, one dimension, or (None) the range over all but conflict."""

    def compute(inputs: Inputs) -> Answer:
        from cilab.stats.teamwork.capability import capability

        measures = (getattr(inputs.data, "truth", None) or {}).get("capability")
        if measures is None:
            raise MissingInput("capability scores of the models")
        table = inputs.once(capability, measures, resamples=RESAMPLES_OTHER).table.filter(pl.col("measure") == measure)
        if dimension is None:
            r = table.filter(~pl.col("dimension").is_in(["overall", "handling_conflict"]))["r"].drop_nulls()
            return Answer(lo=float(r.min()), hi=float(r.max()), note=f"over {r.len()} dimensions")  # type: ignore[arg-type]
        row = table.row(by_predicate=pl.col("dimension") == dimension, named=True)
        ends = (row["lo"], row["hi"]) if dimension == "overall" else (None, None)
        return Answer(row["r"], *ends, note=f"{over_models(row['r'], row['n_rows'])}; the interval resamples tasks")

    return compute


def _deals_after_holding_firm(inputs: Inputs) -> Answer:
    rows = _rows(inputs, "conflict", _CONFLICT, "groups", {"group": None})
    found = {r["quantity"]: r for r in rows.iter_rows(named=True)}
    firm, deals = found["held_firm"]["n"], found["joint_held_firm"]
    if firm == 0 or deals["n_of"] == 0:
        raise MissingInput(f"deals after holding firm in {inputs.name}")
    return Answer(100 * deals["n_of"] / firm, note=f"those deals reach {deals['share_pct']:.1f} %")


def _of_group(quantity: str, first: str, second: str) -> Estimator:
    """A share of conflict runs in two groups: value and second number."""

    def compute(inputs: Inputs) -> Answer:
        rows = _rows(inputs, "conflict", _CONFLICT, "groups", {"quantity": quantity})
        share = dict(rows.select("group", "share_pct").iter_rows())
        if first not in share or second not in share:
            raise MissingInput(f"conflict runs of {first} and {second} models in {inputs.name}")
        return Answer(share[first], hi=share[second])

    return _tasks("conflict", compute, tolerance=3.0, why=_NARROW, simulated=_THIRTY)


# -- the claims -----------------------------------------------------------------------------------------------

_AGREEMENT = {"raters": ("referee", "second"), "resamples": 2}
_TWO_JUDGES = {"comparison": "referee × second"}
_CONFLICT = {"resamples": _FEW}
_FILL_IN = {"resamples": _FEW}
_TOP = 10
_NOTICED = {"resamples": RESAMPLES_OTHER}
_VALIDITY = {"resamples": _FEW}


def _tasks(function: str, compute: Callable[[Inputs], Answer], **settings: Any) -> Estimator:
    return Estimator(function if function.startswith("cilab.") else f"cilab.{function}", "tasks", compute, **settings)


def _noticed(by: str, name: str, **parts: str) -> Estimator:
    return _cell(
        "noticed",
        {"by": by, "name": name},
        settings=_NOTICED,
        note=lambda r: f"{r['n']} of {r['n_failed']} failed runs",
        **parts,
    )


def _check(check: str, quantity: str, *, tolerance: float | None = None, relation: Relation = "equal") -> Estimator:
    return _cell(
        "validity",
        {"check": check, "quantity": quantity},
        settings=_VALIDITY,
        note=lambda r: f"{r['n']} {r['n_of']}",
        tolerance=tolerance,
        relation=relation,
        value="value",
    )


def _endings(quantity: str, **parts: str) -> Estimator:
    return _cell("conflict", {"group": None, "quantity": quantity}, frame="groups", settings=_CONFLICT, **parts)


def _ending_correlation(
    quantity: str, against: str = "other dimensions", *, simulated: str = "", **settings: Any
) -> Estimator:
    return _cell(
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
        row = _rows(inputs, "effort", {"resamples": _FEW}, "dimensions", {"dimension": dimension}).row(0, named=True)
        note = f"{row['n_better']} tasks better, {row['n_worse']} worse, sign test p = {_short(row['p'])}"
        expected = expected_change(inputs, dimension)
        if expected is not None:
            note += f"; by the parameters of the simulation {expected['points'].mean():.1f}"
        return Answer(row["diff_points"], note=note)

    return _tasks("effort", compute, tolerance=3.0, why=_NARROW)


def _filled_in(quantity: str, tolerance: float | None = None, **remarks: str) -> Estimator:
    return _cell(
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
    return _cell(
        "fill_in",
        {"dimension": dimension},
        frame="alone_failures",
        settings=_FILL_IN,
        note=lambda r: f"{r['n_tasks']} tasks, permutation p = {_short(r['p'])}",
        simulated=_GATE,
        value="spearman",
    )


def _moved(tasks: str, tolerance: float) -> Estimator:
    return _cell(
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


def _resamples(default: int) -> Callable[[Inputs], Answer]:
    return lambda _: Answer(default)


ESTIMATORS: dict[str, Estimator] = {
    "CI002": _tasks("cilab.claims.full_dimensions", full_dimensions, tolerance=0.0),
    "CI003": _tasks("cilab.claims.tasks_with", tasks_with("real_world", True), tolerance=0.0),
    "CI004": _tasks("cilab.claims.tasks_with", tasks_with("real_world", False), tolerance=0.0),
    "CI005": _tasks("cilab.claims.tasks_with", tasks_with("sandbox", True), tolerance=0.0),
    "CI006": _tasks("cilab.claims.scored_runs", scored_runs),
    "CI007": Estimator("cilab.leaderboard", "design", _resamples(RESAMPLES_SCORES)),
    "CI008": Estimator("cilab.validity", "design", _resamples(RESAMPLES_OTHER)),
    "CI013": _tasks("cilab.claims.closed_below_best_open", closed_below_best_open),
    "CI029": _tasks(
        "cilab.claims.group_score", lambda i: Answer(group_score(i, "frontier", "taking_over", "baseline_pct"))
    ),
    "CI030": _tasks("takeover", lambda i: _coding_takeovers(i, "n_failed"), simulated=_COUNT),
    "CI031": _tasks("takeover", lambda i: _coding_takeovers(i, "n_carried_failed"), simulated=_COUNT),
    "CI040": _tasks(
        "pareto", _cost(0), simulated="what a row costs varies with the tasks that it solves alone in this draw"
    ),
    "CI041": _tasks("pareto", _cost(-1)),
    "CI043": _tasks("pareto", _on_frontier),
    "CI050": _tasks("effort", _raised_by_effort),
    "CI052": _effort_in("taking_initiative"),
    "CI053": _effort_in("emotional_intelligence"),
    "CI056": _cell("effort", {}, frame="output_length", settings={"resamples": _FEW}, value="r"),
    "CI060": _noticed("all", "all", value="n_failed"),
    "CI061": _noticed("all", "all", value="share_pct", lo="lo_pct", hi="hi_pct"),
    "CI062": _range("noticed", {"by": "dimension", "name": ACTING}, "share_pct", settings=_NOTICED),
    "CI063": _range("noticed", {"by": "dimension", "name": NOTICING}, "share_pct", settings=_NOTICED),
    "CI064": _noticed("group", "frontier", value="share_pct", lo="lo_pct", hi="hi_pct"),
    "CI065": _tasks("cilab.claims.pushed_back_then_gave_in", pushed_back_then_gave_in),
    "CI066": _cell("noticed", {"dimension": None}, frame="correlations", settings=_NOTICED, value="r"),
    "CI067": _range(
        "noticed",
        {"dimension": (*ACTING, *NOTICING), "score": "overall"},
        "r",
        frame="correlations",
        settings=_NOTICED,
        simulated="noticing rises with ability much alike in every dimension of the simulation",
    ),
    "CI068": _noticed("dimension", "taking_initiative", value="share_pct"),
    "CI071": _cell(
        "failures",
        {"by": "all", "mode": "fits no rule"},
        settings={"resamples": _FEW},
        note=lambda r: f"of {r['n_failed']} failed runs",
        value="n",
    ),
    "CI080": _check("held_out", "kendall_tau_b"),
    "CI081": _check("held_out", "mean_absolute_difference", tolerance=1.0),
    "CI082": _check("seeds", "least_pearson_r", tolerance=0.01, relation="at least"),
    "CI083": _check("same_verdict", "same_verdict_pct"),
    "CI084": _check("split_half", "reliability", tolerance=0.01),
    "CI085": _check("head_to_head", "higher_ranked_wins", tolerance=5.0),
    "CI091": _cell(
        "agreement",
        {"group": "all", "comparison": "people × final"},
        settings=_AGREEMENT,
        note=lambda r: f"{r['n']} messages",
        value="kappa",
    ),
    "CI094": _tasks("agreement", _judges_agree),
    "CI095": _tasks("agreement", _agreement_in(CLOSE, close=False)),
    "CI096": _tasks("agreement", _agreement_in(CLOSE, close=True)),
    "CI097": _tasks("agreement", _close_share),
    "CI100": _alone_failures(None),
    "CI101": _alone_failures("taking_over"),
    "CI102": _filled_in("log_loss"),
    "CI103": _filled_in("log_loss_own_mean"),
    "CI104": _filled_in(
        "pairs", why="all ordered pairs of fourteen rows; the paper does not say which of the 182 it leaves out"
    ),
    "CI105": _filled_in("error_remaining_points", 0.5),
    "CI106": _filled_in("error_filled_points", 0.5),
    "CI107": _filled_in("shift", 0.1, simulated=_GATE),
    "CI108": _tasks("fill_in", _lowered(top=True), tolerance=0.5, why=_NARROW),
    "CI109": _tasks("fill_in", _lowered(top=False), tolerance=1.0, why=_NARROW),
    "CI110": _filled_in("kendall_tau_b", 0.05),
    "CI111": _tasks("weighting", _most_changed, tolerance=1.5, why=_NARROW, simulated=_GATE),
    "CI112": _moved("10 to 19", 2.0),
    "CI113": _moved("27 or more", 0.2),
    "CI120": _cell("items", {"quantity": "median_item_rest_r"}, frame="summary", value="value"),
    "CI121": _tasks("items", _ceiling),
    "CI122": _cell("items", {"quantity": "floor_items"}, frame="summary", simulated=_COUNT, value="value"),
    "CI123": _cell("items", {"quantity": "negative_items"}, frame="summary", simulated=_COUNT, value="value"),
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
    "CI140": _cell(
        "sources", {"quantity": "pearson_r"}, frame="summary", tolerance=0.05, value="value", lo="lo", hi="hi"
    ),
    "CI141": _cell("sources", {"quantity": "kendall_tau_b"}, frame="summary", value="value"),
    "CI142": _cell(
        "sources", {"quantity": "benchmark_harder_points"}, frame="summary", value="value", lo="lo", hi="hi"
    ),
    "CI160": _tasks("release", _setters_of_best, simulated=_COUNT),
    "CI170": _tasks("capability", _capability("intelligence_index", "overall")),
    "CI172": _tasks("capability", _capability("lmarena", "overall")),
    "CI173": _tasks("capability", _capability("intelligence_index", "handling_conflict")),
    "CI174": _tasks("capability", _capability("intelligence_index", None)),
    "CI183": _ending_correlation("asks"),
    "CI184": _ending_correlation("gave_in"),
    "CI186": _ending_correlation("held_firm"),
    "CI187": _ending_correlation("gave_in", version="baseline", simulated=_CALM),
    "CI188": _of_group("held_firm", "open-weight", "frontier"),
    "CI190": _endings("conflict", value="n_of"),
    "CI191": _endings("joint", tolerance=2.0, value="share_pct"),
    "CI192": _endings("joint_gave_in", tolerance=2.0, value="share_pct"),
    "CI193": _tasks("conflict", _deals_after_holding_firm),
    "CI194": _ending_correlation("joint_none_as_0", "conflict"),
    "CI195": _of_group("no_deal", "frontier", "open-weight"),
}
