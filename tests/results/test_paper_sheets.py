"""The papers' tables: every cell is a number of the result, simulated data are marked, HTML and LaTeX say the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import cilab
from cilab.core.errors import TableError
from cilab.datasets import published_table, sheets
from cilab.results.sheet import SIMULATED_NOTE, Sheet
from cilab.stats.maze.pairs import pairs_from_means
from tests.plots import maze_results
from tests.plots.release_results import published, release, result, round_
from tests.results.shown import column, in_latex, read

MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def one(value: float | None, digits: int = 1) -> str:
    """A number as the tables write it, said once more here."""
    return NONE if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS)


def half(row: dict[str, Any]) -> str:
    if row["lo_pct"] is None:
        return f"{row['score_pct']:.1f} ({row['no_interval']})"
    return f"{row['score_pct']:.1f} ± {(row['hi_pct'] - row['lo_pct']) / 2:.1f}"


# -- teamwork -----------------------------------------------------------------------------------------------


def test_main_results_are_those_of_the_leaderboard_at_the_default_setting() -> None:
    wanted = result("leaderboard").table.filter(pl.col("effort") == "default")
    lines, bold, _ = read(result("leaderboard").paper_sheet())
    assert [line["Row"] for line in lines] == wanted["model"].to_list()
    assert [line["Score (%)"] for line in lines] == [half(r) for r in wanted.iter_rows(named=True)]
    for name, of in (("Baseline", "baseline_pct"), ("Drop", "drop_pct"), ("Public", "public_pct")):
        assert [line[name] for line in lines] == [one(v) for v in wanted[of]]
    solved = wanted.select(pl.format("{}/{}", "n_gated", "n_complete")).to_series()
    assert [line["Solved alone"] for line in lines] == solved.to_list()
    assert [i for i, b in enumerate(bold) if b["Score (%)"]] == [wanted["score_pct"].arg_max()]
    assert [i for i, b in enumerate(bold) if b["Drop"]] == [wanted["drop_pct"].arg_min()]


def test_with_groups_each_has_its_best_score_in_bold() -> None:
    groups = cilab.group_means(release(), resamples=20)
    lines, bold, notes = read(result("leaderboard").paper_sheet(groups))
    assert [line["Row"][4] for line in lines] == ["F"] * 5 + ["C"] * 6 + ["O"] * 7
    found = [line["Row"] for line, b in zip(lines, bold, strict=True) if b["Score (%)"]]
    best = result("leaderboard").table.filter(pl.col("effort") == "default")
    assert found == [best.filter(pl.col("model").str.contains(f":{g}"))["model"][0] for g in "FCO"]
    assert "Bold: best score of each group, smallest drop." in notes


def test_high_effort_stands_in_the_table_where_it_is_asked_for() -> None:
    names = column(result("leaderboard").paper_sheet(efforts=True), "Row")
    assert len(names) == len(set(names)) == result("leaderboard").table.height
    assert sum(name.endswith(" · high") for name in names) == 6


def test_scores_by_dimension_are_those_of_the_result() -> None:
    table = result("dimensions").table
    lines, bold, _ = read(result("dimensions").sheet())
    for name in ("handling_conflict", "taking_over"):
        wanted = table.filter(pl.col("dimension") == name)
        of = name.replace("_", " ")
        assert [line[of] for line in lines] == [half(r) for r in wanted.iter_rows(named=True)]
        top = wanted["score_pct"].max()
        assert [b[of] for b in bold] == [v == top for v in wanted["score_pct"]]


@pytest.mark.parametrize("comparison", ["referee × second", "second × third"])
def test_agreement_of_judges_is_that_of_the_comparison(comparison: str) -> None:
    wanted = result("agreement").table.filter(pl.col("comparison") == comparison)
    lines, _, _ = read(result("agreement").paper_sheet(comparison))
    assert [line["Messages"] for line in lines] == [f"{n:,}" for n in wanted["n"]]
    ends = wanted.select("raw", "raw_lo", "raw_hi").rows()
    assert [line["Raw agreement"] for line in lines] == [f"{v:.2f} [{lo:.2f}, {hi:.2f}]" for v, lo, hi in ends]
    assert [line["Of all differences (%)"] for line in lines] == [
        NONE if v is None else f"{100 * v:.0f}" for v in wanted["share_of_differences"]
    ]


def test_the_lite_subset_lists_its_tasks_under_their_dimensions() -> None:
    names = column(result("lite").paper_sheet("greedy"), "Task")
    assert sorted(names) == sorted(result("lite").chosen("greedy"))
    assert len(names) == 16


def test_effort_has_scores_changes_costs_and_counts() -> None:
    lines, _, _ = read(result("effort").sheet())
    for line, r in zip(lines, result("effort").table.iter_rows(named=True), strict=True):
        assert (line["Model"], line["Default"], line["High"]) == (r["model"], one(r["default_pct"]), one(r["high_pct"]))
        assert line["Change"] == one(r["diff_points"])
        assert line["Cost"] == f"× {r['cost_ratio']:.1f}"
        assert (line["Better/worse"], line["p"]) == (f"{r['n_better']}/{r['n_worse']}", f"{r['p']:.3f}")


def test_capability_lists_scores_and_measures_of_every_model() -> None:
    lines, _, notes = read(result("capability").paper_sheet({"lmarena": "Arena"}))
    rows = result("capability").residuals
    for line in lines:
        mine = rows.filter(pl.col("model") == line["Model"])
        values = dict(mine.select("measure", "value").rows())
        assert line["Score (%)"] == one(mine["score_pct"][0])
        assert float(line["Artificial Analysis Intelligence Index"]) == pytest.approx(values["intelligence_index"])
        assert float(line["Arena"].replace(",", "")) == pytest.approx(values["lmarena"])
    r = result("capability").table.row(0, named=True)["r"]
    assert f"Artificial Analysis Intelligence Index {r:.2f};" in notes[1]


def test_conflicts_have_endings_and_joint_points() -> None:
    lines, _, _ = read(result("conflict").paper_sheet())
    wanted = result("conflict").table
    for name, of in (("Best deal", "best_pct"), ("Gave in", "gave_in_pct"), ("Joint points", "joint_pct")):
        assert [line[name] for line in lines] == [one(v) for v in wanted[of]]
    assert list(read(published("conflict").paper_sheet()).lines[0]) == [
        "Model",
        "Conflict",
        "Best deal",
    ]


def test_people_stand_beside_the_groups_of_models() -> None:
    task = release().tasks.collect()["task_id"][0]
    frame = pl.DataFrame({"task": ["a push"], "version": ["test"], "people_pct": [62.0], "people_n": [50]})
    found = cilab.people(release(), frame, {"a push": task})
    ((line,), _, _) = read(found.paper_sheet())
    shares = dict(found.table.select("group", "models_pct").rows())
    assert (line["Task"], line["n people"]) == ("A push", "50")
    assert line["People (%)"].startswith("62 [")
    assert (line["All"], line["Frontier"]) == (one(shares["all"], 0), one(shares["frontier"], 0))


def test_people_without_runs_are_shown_alone() -> None:
    table = cilab.people(round_(), published_table("people")).paper_sheet()
    assert "79 [76, 81]" in column(table, "People (%)")


def test_labels_that_count_are_apart_from_the_others() -> None:
    found = result("noticed").labels
    lines, _, _ = read(result("noticed").paper_sheet())
    for line in lines:
        mine = found.filter(pl.col("dimension") == line["Dimension"].lower().replace(" ", "_"))
        seen = [name.replace("_", " ") for name in mine.filter(pl.col("noticed"))["label"]]
        assert line["Counts as seeing it"].split(", ") == seen
        assert line["Messages"] == f"{mine['n'].sum():,}"
    assert len(lines) == 8


def test_rules_stand_in_their_order_with_the_runs_they_sort() -> None:
    found = result("failures")
    lines, _, _ = read(found.paper_sheet())
    counts = dict(found.table.filter(pl.col("by") == "all").select("mode", "n").rows())
    assert [line["Mode"].lower() for line in lines] == [rule.name for rule in found.rules]
    assert [line["Runs"] for line in lines] == [f"{counts[rule.name]:,}" for rule in found.rules]
    assert [line["A failed run in which"] for line in lines] == [rule.doc for rule in found.rules]


# -- mazes --------------------------------------------------------------------------------------------------


def test_the_mediation_has_the_paths_of_both_models() -> None:
    found = maze_results.result("mediation")
    lines, _, _ = read(found.paper_sheet())
    at = {line["Effect"]: line for line in lines}
    b = found.estimates
    assert at["Path b: strategy → outcome"]["Model 1 (additive)"].rstrip("*†") == one(b["b"], 4)
    assert at["Path b: strategy → outcome"]["Model 2 (synergy)"].rstrip("*†") == one(b["synergy_b1"], 4)
    assert at["Synergy X × M"]["Model 1 (additive)"] == NONE
    row = found.table.row(by_predicate=pl.col("effect") == "indirect", named=True)
    ends = f"[{row['lo']:.4f}, {row['hi']:.4f}]"
    assert at["95% interval of the indirect effect"]["Model 1 (additive)"] == ends


def test_odds_ratios_stand_by_predictor_and_kind_of_disagreement() -> None:
    found = maze_results.result("disagreement")
    lines, _, _ = read(found.sheet())
    at = {line["Predictor"]: line for line in lines}
    for words, outcome in (("Any", "total"), ("Factual", "factual"), ("Non-factual", "nonfactual")):
        row = found.models[outcome].table.row(by_predicate=pl.col("predictor") == "homogeneous", named=True)
        assert at["homogeneous"][words] == f"{row['odds_ratio']:.2f}{row['mark']} [{row['lo']:.2f}, {row['hi']:.2f}]"
        assert at["Rollouts"][words] == f"{found.models[outcome].n_used:,}"


def test_printed_pairs_come_out_as_printed_with_the_best_in_bold() -> None:
    """Table 4 of the collaboration-gap paper: gemini-2.5-pro with itself 0.84 ± 0.06."""
    found = pairs_from_means(published_table("maze_pairs"))
    lines, bold, _ = read(found.paper_sheet())
    at = {line["Starter"]: i for i, line in enumerate(lines)}
    assert lines[at["gemini-2.5-pro"]]["gemini-2.5-pro"] == "0.84 ± 0.06"
    means = found.matrix()
    for name in ("gpt-5", "gpt-4.1"):
        i = at[name]
        row = {k: v for k, v in means.row(i, named=True).items() if k != "starter" and v is not None}
        assert all(bold[i][k] for k, v in row.items() if v == max(row.values()))
        assert all(bold[j][name] for j, v in enumerate(means[name]) if v == means[name].max())
    assert 0 < sum(b[k] for b in bold for k in found.agents) < found.table.height


def test_grading_has_all_three_parts_of_the_papers_tables() -> None:
    found = maze_results.result("grader_agreement")
    lines, _, _ = read(found.paper_sheet())
    at = {line["Quantity"]: line["Value"] for line in lines}
    icc = found.table.row(0, named=True)
    assert at["ICC(A,1), weighted outcome"] == f"{icc['value']:.2f} [{icc['lo']:.2f}, {icc['hi']:.2f}]"
    rates = dict(found.conditional.select("group", "disagreement_rate").rows())
    assert at["Binary disagreement, success"] == f"{rates['success']:.2f}"
    for model, icc, kappa in found.by_agent.select("model", "icc", "kappa").rows():
        assert at[model] == f"{one(icc, 2)} / {one(kappa, 2)}"


# -- printed numbers, notes, formats ------------------------------------------------------------------------


def test_a_published_table_is_shown_as_it_is_and_can_be_narrowed() -> None:
    table = sheets.published("maze_grader_agreement", table=6)
    assert "Maze grader agreement (printed, table 6)" in table.gt().as_raw_html()
    lines, _, notes = read(table)
    wanted = published_table("maze_grader_agreement").filter(pl.col("table") == 6)
    assert [line["Model"] for line in lines] == wanted["model"].to_list()
    assert [float(line["ICC"]) for line in lines] == wanted["icc"].to_list()
    assert notes == ["As printed: table maze_grader_agreement of data/published."]


def test_models_of_a_study_come_from_the_registry() -> None:
    from cilab.core import registry

    lines, _, _ = read(sheets.models("maze"))
    wanted = registry.models().filter(pl.col("studies").str.split(" ").list.contains("maze"))
    assert sorted(line["Model"] for line in lines) == sorted(wanted["model"])
    opened = dict(wanted.select("model", "open_weights").rows())
    assert all(line["Open weights"] == ("yes" if opened[line["Model"]] else "no") for line in lines)


_KINDS: dict[str, Callable[[], Sheet]] = {
    "leaderboard": lambda: result("leaderboard").paper_sheet(),
    "dimensions": lambda: result("dimensions").paper_sheet(),
    "judges": lambda: result("agreement").paper_sheet(),
    "lite_tasks": lambda: result("lite").paper_sheet(),
    "effort": lambda: result("effort").paper_sheet(),
    "capability": lambda: result("capability").paper_sheet(),
    "conflict": lambda: result("conflict").paper_sheet(),
    "noticed_labels": lambda: result("noticed").paper_sheet(),
    "failure_rules": lambda: result("failures").paper_sheet(),
    "mediation": lambda: maze_results.result("mediation").paper_sheet(),
    "disagreement": lambda: maze_results.result("disagreement").paper_sheet(),
    "pairs": lambda: maze_results.result("pairs").paper_sheet(),
    "grading": lambda: maze_results.result("grader_agreement").paper_sheet(),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_simulated_data_are_marked_first_and_latex_holds_the_same_cells(kind: str) -> None:
    sheet = _KINDS[kind]()
    lines, bold, notes = read(sheet)
    assert notes[0] == SIMULATED_NOTE
    assert "Study simulated_" in notes[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = sheet.latex().replace("\\", "")
    assert SIMULATED_NOTE in text and ("Bold: " in text) == any(any(line.values()) for line in bold)
    assert all(cell in text for line in lines[:3] for cell in line.values() if "<" not in cell)
    assert in_latex(sheet) == (lines, bold, notes)


def test_real_data_are_not_marked() -> None:
    notes = read(published("leaderboard").paper_sheet()).notes
    assert SIMULATED_NOTE not in notes
    assert "Study published round 2026-10-09" in notes[-1]


def test_the_same_result_gives_the_same_bytes() -> None:
    assert _KINDS["effort"]().gt().as_raw_html() == _KINDS["effort"]().gt().as_raw_html()


def test_wrong_names_are_refused_in_one_line() -> None:
    for ask, words in (
        (lambda: result("agreement").paper_sheet("x"), "comparison is 'x', not one of referee × second"),
        (lambda: result("lite").paper_sheet("ridge"), "no method 'ridge' here; there are random, greedy"),
        (lambda: sheets.published("maze_pairs", panle="a"), "maze_pairs has no column panle. Did you mean panel?"),
        (lambda: sheets.published("maze_grader_agreement", table=1), "maze_grader_agreement has no line with table 1"),
        (lambda: sheets.published("no such table"), "no such table"),
        (lambda: sheets.models("chess"), "no model of the registry belongs to the study 'chess'"),
    ):
        with pytest.raises(TableError) as told:
            ask()
        assert words in str(told.value) and "\n" not in str(told.value)
