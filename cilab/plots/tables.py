"""The papers' tables from results: one function per kind, each returns a great_tables `GT`.

May import `cilab.core`, `cilab.datasets`, `cilab.stats`, `cilab.plots.parts.style` and `roster`. Computes
nothing: every cell is a number of the result, written as text. `.as_raw_html()` of a table is HTML; `latex` is LaTeX.
Source notes say what the numbers stand on, and that agents are simulated where they are.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import roster
from cilab.plots.parts.style import FigureError, require
from cilab.results.names import at_default, model_of
from cilab.results.numbers import Interval
from cilab.stats.judges.agreement import AgreementResult
from cilab.stats.judges.grading import GradingResult
from cilab.stats.maze.disagreement import DisagreementResult
from cilab.stats.maze.mediation import MediationResult
from cilab.stats.maze.pairs import PairsResult
from cilab.stats.methods.cluster import mark
from cilab.stats.teamwork.capability import Capability
from cilab.stats.teamwork.conflict import Conflict
from cilab.stats.teamwork.effort import Effort
from cilab.stats.teamwork.failures import FailureModes, Noticed
from cilab.stats.teamwork.lite import LiteResult
from cilab.stats.teamwork.people import People
from cilab.stats.teamwork.scores import DimensionScores, GroupMeans, Leaderboard

if TYPE_CHECKING:
    from great_tables import GT

SIMULATED_NOTE = "SIMULATED AGENTS: these data are, in whole or in part, from simulated agents."
_NONE = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
#: How the note on bold cells begins.
_BOLD = "Bold: "
#: Column, and the lines in it that are set in bold (HTML only).
_Bold = Mapping[str, Sequence[int]]


# -- what all tables share ----------------------------------------------------------------------------------


def latex(table: GT) -> str:
    """`table` as LaTeX for a document with `booktabs`, compiled by LuaLaTeX or XeLaTeX (signs such as ± stay Unicode).

    great_tables has no bold cells in LaTeX, so the note that explains them goes.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Styles are not yet supported in LaTeX")
        lines = table.as_latex().splitlines()
    return "\n".join(line for line in lines if not line.startswith(_BOLD)) + "\n"


def _table(
    cells: pl.DataFrame,
    result: Any,
    title: str,
    *,
    groups: str | None = None,
    bold: _Bold | None = None,
    left: Iterable[str] = (),
    spanner: tuple[str, Sequence[str]] | None = None,
    notes: Iterable[str] = (),
) -> GT:
    """A GT of formatted text: first column the names of rows, `groups` a column of headings between rows.

    Raises
    ------
    FigureError
        There are no rows.
    """
    from great_tables import GT, loc, style

    if not cells.height:
        raise FigureError(f"nothing to show: the result holds no rows for {title[0].lower()}{title[1:]}")
    stub = next(c for c in cells.columns if c != groups)
    digest = hashlib.blake2b(f"{title}{result.provenance.data_hash}{cells.columns}".encode(), digest_size=6)
    gt = GT(cells, rowname_col=stub, groupname_col=groups, id=f"cilab-{digest.hexdigest()}")
    gt = gt.tab_header(title=title).tab_stubhead(label=stub)
    plain = [c for c in cells.columns if c not in (stub, groups)]
    aligned = set(left)
    gt = gt.cols_align("right", [c for c in plain if c not in aligned])
    if aligned:
        gt = gt.cols_align("left", [c for c in plain if c in aligned])
    if spanner is not None:
        gt = gt.tab_spanner(spanner[0], list(spanner[1]))
    for column, rows in (bold or {}).items():
        if rows:
            gt = gt.tab_style(style.text(weight="bold"), loc.body(columns=[column], rows=list(rows)))
    for note in [*([SIMULATED_NOTE] if result.provenance.simulated else []), *notes, result.provenance.line()]:
        if note:
            gt = gt.tab_source_note(note)
    return gt.tab_options(table_font_size="13px", data_row_padding="3px")


def _number(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", _MINUS)


def _digits(values: Iterable[float | None]) -> int:
    """Decimals that it takes to write every value, at most four."""
    there = [v for v in values if v is not None]
    return next((n for n in range(4) if all(abs(v - round(v, n)) < 1e-9 for v in there)), 4)


def _half(row: Mapping[str, Any], name: str = "score_pct", lo: str = "lo_pct", hi: str = "hi_pct") -> str:
    """Mean ± half the interval."""
    value, low, high = row[name], row[lo], row[hi]
    return _number(value) if value is None or low is None else f"{_number(value)} ± {(high - low) / 2:.1f}"


def _ends(row: Mapping[str, Any], name: str, lo: str | None = None, hi: str | None = None, digits: int = 2) -> str:
    """Value [lo, hi]; None: of columns `name_lo` and `name_hi`."""
    value, low, high = (row[c] for c in (name, lo or f"{name}_lo", hi or f"{name}_hi"))
    shown = _number(value, digits)
    return shown if value is None or low is None else f"{shown} [{_number(low, digits)}, {_number(high, digits)}]"


def _dimension(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _best(values: Sequence[float | None], *, low: bool = False) -> list[int]:
    """Places of the highest (or lowest) value that is there."""
    there = [v for v in values if v is not None]
    top = (min(there) if low else max(there)) if there else None
    return [i for i, v in enumerate(values) if v is not None and v == top]


def _named_rows(table: pl.DataFrame) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line with the name of its row."""
    return zip(roster.full_names(table), table.iter_rows(named=True), strict=True)


def _filled(lines: Iterable[Mapping[str, str]], columns: Sequence[str]) -> pl.DataFrame:
    """Lines that lack some columns as a frame with all of them."""
    return pl.DataFrame([{c: line.get(c, _NONE) for c in columns} for line in lines], schema=list(columns))


def _one_of(word: str, value: str, there: Sequence[str]) -> None:
    if value not in there:
        raise FigureError(f"{word} is {value!r}, not one of {', '.join(there)}")


# -- teamwork -----------------------------------------------------------------------------------------------


def leaderboard(result: Leaderboard, groups: GroupMeans | None = None, *, efforts: bool = False) -> GT:
    """Main results: table 2 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.leaderboard` returned.
    groups : what `cilab.group_means` returned for the same data; its groups become headings (a model that is in several
        stands under the first).
    efforts : rows at other settings than each model's default too.

    Raises
    ------
    FigureError
        A result is of another kind, or holds no rows.
    """
    require(result, Leaderboard, "tables.leaderboard")
    table = result.table if efforts else at_default(result.table)
    of_group: dict[str, str] = {}
    if groups is not None:
        require(groups, GroupMeans, "tables.leaderboard")
        for group, members in groups.members.items():
            for member in members:
                of_group.setdefault(model_of(member), group)
    order = list(groups.members) if groups is not None else []
    lines = [
        {
            "Model": name,
            "Group": of_group.get(r["model"], "others").capitalize(),
            "Overall": _half(r),
            "Solved alone": f"{r['n_gated']}/{r['n_complete']}",
            "Baseline": _number(r["baseline_pct"]),
            "Drop": _number(r["drop_pct"]),
            "Public": _number(r["public_pct"]),
            "Held out": _number(r["held_out_pct"]),
            "_score": r["score_pct"],
            "_drop": r["drop_pct"],
            "_place": order.index(of_group[r["model"]]) if r["model"] in of_group else len(order),
        }
        for name, r in _named_rows(table)
    ]
    cells = pl.DataFrame(lines, infer_schema_length=None).sort("_place", maintain_order=True)
    bold = {"Overall": _best_in(cells, "_score"), "Drop": _best(cells["_drop"].to_list(), low=True)}
    blank = [c for c in ("Baseline", "Drop", "Public", "Held out") if (cells[c] == _NONE).all()]
    blank += ["Solved alone"] if result.parameters.get("gate") == "off" else []
    cells = cells.drop("_score", "_drop", "_place", *blank, *([] if of_group else ["Group"]))
    return _table(
        cells,
        result,
        "Main results",
        groups="Group" if of_group else None,
        bold={c: rows for c, rows in bold.items() if c in cells.columns},
        notes=[result.caption, f"{_BOLD}best overall score{' of each group' if of_group else ''}, smallest drop."],
    )


def _best_in(cells: pl.DataFrame, column: str) -> list[int]:
    """Places of the best value of each group of lines."""
    found = []
    for _, part in cells.with_row_index("_at").group_by("Group", maintain_order=True):
        found += [part["_at"][i] for i in _best(part[column].to_list())]
    return sorted(found)


def dimensions(result: DimensionScores) -> GT:
    """Score by dimension for every row: table 5 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.dimensions` returns.
    """
    require(result, DimensionScores, "tables.dimensions")
    lines: dict[str, dict[str, str]] = {}
    values: dict[str, list[float | None]] = {}
    for name, r in _named_rows(result.table):
        of = _dimension(r["dimension"])
        lines.setdefault(name, {"Row": name})[of] = _half(r)
        values.setdefault(of, []).append(r["score_pct"])
    cells = _filled(lines.values(), ["Row", *values])
    bold = {of: _best(found) for of, found in values.items() if len(found) == cells.height}
    notes = [result.caption, f"{_BOLD}best of each dimension."]
    return _table(cells, result, "Scores by dimension", bold=bold, notes=notes)


def judges(result: AgreementResult, comparison: str = "referee × second") -> GT:
    """How often judges choose the same label: table 3 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.agreement` returned.
    comparison : one of those in `result.table`.

    Raises
    ------
    FigureError
        `result` is of another kind, or has no such comparison.
    """
    require(result, AgreementResult, "tables.judges")
    there = result.table["comparison"].unique(maintain_order=True).to_list()
    _one_of("comparison", comparison, there)
    lines = [
        {
            "Group": _dimension(r["group"]),
            "Messages": f"{r['n']:,}",
            "Same label": _ends(r, "raw"),
            "Kappa": _ends(r, "kappa"),
            "Differ": f"{r['n_differ']:,}",
            "Of all differences (%)": _number(
                None if r["share_of_differences"] is None else 100 * r["share_of_differences"], 0
            ),
        }
        for r in result.table.filter(pl.col("comparison") == comparison).iter_rows(named=True)
    ]
    return _table(pl.DataFrame(lines), result, f"Agreement of judges: {comparison}", notes=[result.caption])


def lite_tasks(result: LiteResult, method: str | None = None) -> GT:
    """The tasks of a smaller subset: table 4 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.lite` returned.
    method : whose subset; None takes the last of `result.table`.

    Raises
    ------
    FigureError
        `result` is of another kind, or the method was not asked for.
    """
    require(result, LiteResult, "tables.lite_tasks")
    there = result.table["method"].to_list()
    method = there[-1] if method is None else method
    _one_of("method", method, there)
    chosen = result.tasks.filter(pl.col("method") == method).sort("dimension", "place", nulls_last=True)
    cells = chosen.select(
        pl.col("task_id").alias("Task"),
        pl.col("dimension").map_elements(_dimension, return_dtype=pl.String).alias("Dimension"),
        pl.col("source_family").fill_null(_NONE).str.replace_all("_", " ").alias("Source"),
    )
    title = f"The {chosen.height} tasks of the Lite subset ({method.replace('_', ' ')})"
    return _table(cells, result, title, groups="Dimension", left=["Source"], notes=[result.caption])


def effort(result: Effort) -> GT:
    """Default against high reasoning effort: table 6 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.effort` returns.
    """
    require(result, Effort, "tables.effort")
    lines = [
        {
            "Model": r["model"],
            "Default": _number(r["default_pct"]),
            "High": _number(r["high_pct"]),
            "Change": _number(r["diff_points"]),
            "Interval": _NONE if r["lo_points"] is None else f"{_number(r['lo_points'])} to {_number(r['hi_points'])}",
            "Cost": _NONE if r["cost_ratio"] is None else f"× {r['cost_ratio']:.1f}",
            "Rise": str(r["n_better"]),
            "Fall": str(r["n_worse"]),
            "p": _p(r["p"]),
        }
        for r in result.table.iter_rows(named=True)
    ]
    spanner = "Tasks whose value", ["Rise", "Fall"]
    return _table(pl.DataFrame(lines), result, "Reasoning effort", spanner=spanner, notes=[result.caption])


def _p(value: float | None) -> str:
    return _NONE if value is None else "< 0.001" if value < 0.0005 else f"{value:.3f}"


def capability(result: Capability, words: Mapping[str, str] | None = None) -> GT:
    """Scores and public measures of capability: table 7 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.capability` returned.
    words : measure -> heading of its column; measures of the paper have headings of their own.

    Raises
    ------
    FigureError
        `result` is of another kind.
    """
    from cilab.plots.teamwork.capability import MEASURES

    require(result, Capability, "tables.capability")
    named = {m: m.replace("_", " ") for m in result.fits["measure"]} | MEASURES | dict(words or {})
    rows = result.residuals.sort("score_pct", descending=True, maintain_order=True)
    digits = {m: _digits(rows.filter(pl.col("measure") == m)["value"].to_list()) for m in named}
    lines: dict[str, dict[str, Any]] = {}
    for r in rows.iter_rows(named=True):
        line = lines.setdefault(r["model"], {"Model": r["model"], "Score (%)": _number(r["score_pct"])})
        line[named[r["measure"]]] = f"{r['value']:,.{digits[r['measure']]}f}"
    columns = ["Model", "Score (%)", *(named[m] for m in result.fits["measure"])]
    cells = _filled(lines.values(), columns)
    r = "; ".join(f"{named[m]} {_number(v, 2)}" for m, v in _overall_r(result) if m in named)
    return _table(cells, result, "Scores and capability", notes=[f"Pearson's r with the score: {r}."])


def _overall_r(result: Capability) -> list[tuple[str, float | None]]:
    return result.table.filter(pl.col("dimension") == "overall").select("measure", "r").rows()


def conflict(result: Conflict) -> GT:
    """How conflicts end, and joint points: table 8 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.conflict` returns.
    """
    require(result, Conflict, "tables.conflict")
    columns = {
        "Conflict": "conflict_pct",
        "Best deal": "best_pct",
        "Held firm": "held_firm_pct",
        "Gave in": "gave_in_pct",
        "No deal": "no_deal_pct",
        "Joint points": "joint_pct",
        "After giving in": "joint_gave_in_pct",
    }
    cells = pl.DataFrame(
        [{"Model": name} | {c: _number(r[v]) for c, v in columns.items()} for name, r in _named_rows(result.table)]
    )
    blank = [c for c in columns if (cells[c] == _NONE).all()]
    return _table(cells.drop(blank), result, "How conflicts end (%)", notes=[result.caption])


def people(result: People) -> GT:
    """People and models on the same tasks: table 9 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.people` returns.
    """
    require(result, People, "tables.people")
    groups = [g for g in result.table["group"].unique(maintain_order=True) if g is not None]
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for r in result.table.iter_rows(named=True):
        first = {"Task": r["task"].capitalize(), "Version": r["version"]}
        first["n people"] = _NONE if r["people_n"] is None else f"{r['people_n']:,}"
        first["People (%)"] = _ends(r, "people_pct", "people_lo_pct", "people_hi_pct", 0)
        line = lines.setdefault((r["task"], r["version"]), first)
        if r["group"] is not None:
            line[_group(r["group"])] = _number(r["models_pct"], 0)
    columns = ["Task", "Version", "n people", "People (%)", *(_group(g) for g in groups)]
    cells = _filled(lines.values(), columns)
    spanner = ("Models (%)", [_group(g) for g in groups]) if groups else None
    title = "People and models on the same tasks"
    return _table(cells, result, title, left=["Version"], spanner=spanner, notes=[result.caption])


def _group(name: str) -> str:
    return "All" if name == "all" else name.capitalize()


def noticed_labels(result: Noticed) -> GT:
    """The labels that count as seeing the problem: table 10 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.noticed` returns.
    """
    require(result, Noticed, "tables.noticed_labels")
    lines = [
        {
            "Dimension": _dimension(dimension),
            "Counts as seeing it": _listed(part.filter(pl.col("noticed"))),
            "Other labels": _listed(part.filter(~pl.col("noticed").fill_null(False))),
            "Messages": f"{part['n'].sum():,}",
        }
        for (dimension,), part in result.labels.group_by("dimension", maintain_order=True)
    ]
    left = ["Counts as seeing it", "Other labels"]
    notes = ["Messages: of failed runs."]
    return _table(pl.DataFrame(lines), result, "Labels that count as seeing the problem", left=left, notes=notes)


def _listed(labels: pl.DataFrame) -> str:
    return ", ".join(name.replace("_", " ") for name in labels["label"]) or _NONE


def failure_rules(result: FailureModes) -> GT:
    """The rules that sort failed runs into modes, with their counts: table 11 of the collaborative-intelligence paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.failures` returns.
    """
    require(result, FailureModes, "tables.failure_rules")
    found = {r["mode"]: r for r in result.table.filter(pl.col("by") == "all").iter_rows(named=True)}
    lines = [
        {
            "Mode": rule.name.capitalize(),
            "Stage": rule.stage.capitalize(),
            "A failed run in which": rule.doc or _NONE,
            "Runs": f"{found[rule.name]['n']:,}" if rule.name in found else "0",
            "Share (%)": _half(found[rule.name], "share_pct") if rule.name in found else _NONE,
        }
        for rule in result.rules
    ]
    notes = ["Rules are tried in this order; the first that fits counts.", result.caption]
    left = ["Stage", "A failed run in which"]
    return _table(pl.DataFrame(lines), result, "Rules of failure modes", left=left, notes=notes)


# -- mazes --------------------------------------------------------------------------------------------------

#: Line, effect in model 1, effect in model 2 (None: the model has none).
_PATHS = (
    ("Path a: grounding → strategy", "a", "a"),
    ("Path b: strategy → outcome", "b", "synergy_b1"),
    ("Synergy X × M", None, "synergy_b2"),
    ("Direct effect c′", "direct", "synergy_direct"),
    ("Total effect c", "total", "total"),
    ("Indirect effect a × b", "indirect", "indirect_at_0"),
)


def mediation(result: MediationResult) -> GT:
    """The two mediation models: table 2 of the collaboration-gap paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.mediation` returns.
    """
    require(result, MediationResult, "tables.mediation")
    found = {r["effect"]: r for r in result.table.iter_rows(named=True) if r["estimate"] is not None}

    def cell(effect: str | None) -> str:
        row = found.get(effect) if effect else None
        return _NONE if row is None else f"{_number(row['estimate'], 4)}{mark(row['p'])}"

    def interval(effect: str) -> str:
        row = found.get(effect)
        return _NONE if row is None or row["lo"] is None else f"[{_number(row['lo'], 4)}, {_number(row['hi'], 4)}]"

    lines = [
        {"Effect": words, "Model 1 (additive)": cell(one), "Model 2 (synergy)": cell(two)} for words, one, two in _PATHS
    ]
    last = f"{100 * result.parameters['ci_level']:g}% interval of the indirect effect"
    ends = {"Model 1 (additive)": interval("indirect"), "Model 2 (synergy)": interval("indirect_at_0")}
    note = f"{result.n_clusters} clusters. Model 2: indirect effect at X = 0."
    return _table(pl.DataFrame([*lines, {"Effect": last} | ends]), result, "Mediation", notes=[result.caption, note])


def disagreement(result: DisagreementResult) -> GT:
    """Odds ratios of disagreement: table 3 of the collaboration-gap paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.disagreement` returns, or no outcome could be modelled.
    """
    require(result, DisagreementResult, "tables.disagreement")
    if not result.models:
        raise FigureError(f"no outcome could be modelled: {'; '.join(f'{k}: {v}' for k, v in result.failed.items())}")
    shown = result.display().with_columns(pl.col("Predictor").str.replace(": ", " = "))
    cells = shown.rename({"Total": "Any"}, strict=False)
    spanner = "Disagreement", [c for c in cells.columns if c != "Predictor"]
    return _table(cells, result, "Predictors of disagreement: odds ratios", spanner=spanner, notes=[result.caption])


def pairs(result: PairsResult) -> GT:
    """Ordered pairs, starters in rows: table 4 (weighted outcome) or 5 (success) of the collaboration-gap paper.

    Raises
    ------
    FigureError
        `result` is not what `cilab.pairs` or `pairs_from_means` returns.
    """
    from great_tables import loc, style

    require(result, PairsResult, "tables.pairs")
    means, shown = result.matrix(), {(r["starter"], r["follower"]): r for r in result.table.iter_rows(named=True)}
    cells = {
        b: [Interval.of(shown.get((a, b)), "mean", "lo", "hi", digits=2).half() for a in result.agents]
        for b in result.agents
    }
    bold = {name: set(_best(means[name].to_list())) for name in result.agents}
    for i, row in enumerate(means.select(result.agents).rows()):
        for j in _best(row):
            bold[result.agents[j]].add(i)
    table = _table(
        pl.DataFrame({"Starter": result.agents, **cells}),
        result,
        f"Ordered pairs: {str(result.parameters.get('outcome', 'mean')).replace('_', ' ')}",
        bold={name: sorted(rows) for name, rows in bold.items()},
        spanner=("Follower", result.agents),
        notes=[result.caption, f"{_BOLD}best of each row and of each column."],
    )
    return table.tab_style(style.css("white-space: nowrap"), [loc.body(), loc.stub()])


def grading(result: GradingResult) -> GT:
    """Consistency of graders: the parts of tables 6 to 9 of the collaboration-gap paper as one table.

    Which of the four it is depends on the gradings and the setting that `cilab.grader_agreement` was given.

    Raises
    ------
    FigureError
        `result` is not what `cilab.grader_agreement` returns.
    """
    require(result, GradingResult, "tables.grading")
    lines = [*_overall_lines(result), *_majority_lines(result), *_conditional_lines(result), *_agent_lines(result)]
    cells = pl.DataFrame(lines, schema=["Part", "Quantity", "Value", "p (adjusted)", "n"], orient="row")
    setting = result.parameters["setting"]
    where = "" if setting is None else f" ({str(setting).replace('_', ' ')})"
    return _table(cells, result, f"Consistency of graders{where}", groups="Part", notes=[result.caption])


_Line = tuple[str, str, str, str, str]


def _overall_lines(result: GradingResult) -> list[_Line]:
    part = "All raters"
    lines = [
        (part, f"{r['method'].partition(':')[0]}, {r['measure']}", _ends(r, "value", "lo", "hi"), "", f"{r['n']:,}")
        for r in result.table.iter_rows(named=True)
    ]
    return lines + [
        (part, f"Pearson's r, {r['first']} and {r['second']}", _ends(r, "r", "lo", "hi"), "", f"{r['n']:,}")
        for r in result.correlations.iter_rows(named=True)
    ]


def _majority_lines(result: GradingResult) -> list[_Line]:
    part = "(a) Majority vote against the reference"
    lines = []
    for r in result.majority.iter_rows(named=True):
        n = f"{r['n']:,}"
        words = f"Difference in mean, {r['measure']}"
        lines.append((part, words, _ends(r, "mean_difference", "lo", "hi"), _both_p(r), n))
        if r["cohen_d"] is not None:
            lines.append((part, f"Cohen's d, {r['measure']}", _number(r["cohen_d"], 2), "", n))
    return lines


def _both_p(row: Mapping[str, Any]) -> str:
    """p, and in brackets the one adjusted for several tests."""
    return f"{_p(row['p'])} ({_p(row['p_adjusted'])})"


def _conditional_lines(result: GradingResult) -> list[_Line]:
    part = "(b) By the reference's outcome"
    lines = []
    for r in result.conditional.iter_rows(named=True):
        n = f"{r['n']:,}"
        lines.append((part, f"Binary disagreement, {r['group']}", _number(r["disagreement_rate"], 2), "", n))
        lines.append((part, f"Mean sd of weighted outcomes, {r['group']}", _number(r["mean_sd"], 2), "", n))
    for r in result.conditional_tests.iter_rows(named=True):
        words = f"{r['effect_name'].capitalize()}, {r['measure']}"
        lines.append((part, words, _number(r["effect"], 2), _both_p(r), f"{r['n']:,}"))
    return lines


def _agent_lines(result: GradingResult) -> list[_Line]:
    return [
        (
            "(c) By agent: ICC / kappa",
            r["model"],
            f"{_number(r['icc'], 2)} / {_number(r['kappa'], 2)}",
            "",
            f"{r['n']:,}",
        )
        for r in result.by_agent.iter_rows(named=True)
    ]


# -- printed numbers and the registry -----------------------------------------------------------------------


def published(name: str, **where: Any) -> GT:
    """A table as it was printed, from `cilab.datasets.published_table`.

    Parameters
    ----------
    name : of the published table, such as `maze_grader_agreement`.
    where : column=value; only the lines that have it.

    Raises
    ------
    FigureError
        No line fits, or the table has no such column.
    TableError
        There is no published table of that name.
    """
    from cilab.datasets import published_table

    frame = published_table(name)
    for column, value in where.items():
        if column not in frame.columns:
            raise FigureError(f"{name} has no column {column}; there are {', '.join(frame.columns)}")
        frame = frame.filter(pl.col(column) == value)
    source = _Printed(_Words(f"As printed: table {name} of data/published.", str(frame.hash_rows().sum())))
    shown = frame.drop(where)
    words = [_heading(c) for c, kind in shown.schema.items() if kind == pl.String]
    which = "".join(f", {column} {value}" for column, value in where.items())
    title = f"{name.replace('_', ' ').capitalize()} (printed{which})"
    return _table(_as_text(shown), source, title, left=words)


def models(study: str | None = None) -> GT:
    """The models of the registry: table 1 of the collaboration-gap paper, and who stands in the other one.

    Parameters
    ----------
    study : `maze` or `teamwork`; None takes all models.

    Raises
    ------
    FigureError
        No model belongs to the study.
    """
    from cilab.core import registry

    table = registry.models()
    if study is not None:
        table = table.filter(pl.col("studies").str.split(" ").list.contains(study))
    cells = table.sort("builder", maintain_order=True).select(
        pl.col("model").alias("Model"),
        pl.col("builder").alias("Builder"),
        *(_flag(c).alias(words) for c, words in (("open_weights", "Open weights"), ("distilled", "Distilled"))),
        pl.col("released").cast(pl.String).fill_null(_NONE).alias("Released"),
    )
    source = _Printed(_Words("Registry of models, data/models.csv.", f"{study}{table.height}"))
    return _table(cells, source, "Models", groups="Builder")


def _flag(column: str) -> pl.Expr:
    return pl.when(pl.col(column)).then(pl.lit("yes")).when(~pl.col(column)).then(pl.lit("no")).otherwise(pl.lit("?"))


def _as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """The same cells as text; the numbers of a column have the same decimals."""
    shown = []
    for name, kind in frame.schema.items():
        values = frame[name].to_list()
        if kind == pl.Boolean:
            text = ["yes" if v else "no" for v in values]
        elif kind.is_float():
            digits = _digits(values)
            text = [_number(v, digits) for v in values]
        else:
            text = [_NONE if v is None else str(v) for v in values]
        shown.append(pl.Series(_heading(name), text))
    return pl.DataFrame(shown)


def _heading(column: str) -> str:
    words = column.removesuffix("_pct").replace("_", " ")
    return {"icc": "ICC", "n": "n"}.get(column, words.capitalize()) + (" (%)" if column.endswith("_pct") else "")


class _Words:
    """Stands for a provenance where the numbers are printed ones."""

    simulated = False

    def __init__(self, line: str, data_hash: str) -> None:
        self._line, self.data_hash = line, data_hash

    def line(self) -> str:
        return self._line


class _Printed:
    """Stands for a result where the numbers are printed ones."""

    def __init__(self, provenance: _Words) -> None:
        self.provenance = provenance
