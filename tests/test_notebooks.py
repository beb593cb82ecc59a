"""Every notebook: thin, without outputs, and its cells run on simulated, published and collected data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import polars as pl
import pytest
from polars.testing import assert_frame_equal

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import cilab
from cilab import datasets, reports
from cilab.datasets.dataset import Dataset
from cilab.reports import NotComputed
from cilab.stats.teamwork.failures import FailureModes
from cilab.stats.teamwork.scores import Leaderboard
from tests.plots.maze_results import mazes

MAZE_FIGURES = {
    "maze_gap": ["gap"],
    "maze_pairs": ["pairs"],
    "maze_relay": ["relay"],
    "maze_mechanisms": ["disagreement", "grounding", "mediation", "odds_ratios"],
    "maze_ablation": ["maze_size", "wall_density"],
    "maze_efficiency": ["messages", "tokens"],
    "maze_grading": ["agreement"],
}
_PAPER_1 = [f"figure_{n:02}" for n in (1, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)]
_PAPER_2 = [f"figure_{n}" for n in ("4_1", "4_3", "4_6", "c_1", "c_2", "d_1", "d_2", "d_3", "d_4", "d_5")]
#: notebook -> figures that it saves
FIGURES = {
    "start_here": ["failures", "leaderboard", "maze_gap"],
    "leaderboard": ["dimensions", "profiles", "scores"],
    "failures": ["modes", "noticed"],
    "conflict": ["endings", "joint_points"],
    "cost_and_effort": ["effort", "output_tokens", "pareto"],
    "validity": ["agreement", "checks"],
    "fill_in": ["fill_in"],
    "tasks": ["items", "lite", "sources"],
    "people": ["people"],
    "losses": ["capability", "loss", "release", "takeover"],
    "plan": ["power"],
    **MAZE_FIGURES,
    "variance_components": ["components"],
    "sensitivity": ["ranks", "scores"],
    "ask": ["own_rule"],
    "item_quality": ["quality"],
    "bring_your_own_data": ["leaderboard"],
    "reproduce": [*_PAPER_1, *_PAPER_2, "appendix_c3", "appendix_e", "section_4_4", "table_08", "table_3"],
}
#: What the published counts can draw: they hold neither labels, costs nor the identity of tasks. Others draw nothing.
PUBLISHED = {
    "start_here": ["leaderboard", "maze_gap"],
    "leaderboard": ["dimensions", "profiles", "scores"],
    "conflict": ["endings"],
    "losses": ["loss"],
    "sensitivity": ["ranks", "scores"],
    "bring_your_own_data": ["leaderboard"],
}
#: Values of parameters that keep a notebook short, where it has them.
SMALL = {
    "resamples": 50,
    "splits": 2,
    "simulations": 20,
    "per_dimension": 2,
    "sizes": [1, 2],
    "differences": [5.0],
    "tasks_per_dimension": [10, 20],
    "seeds": [1],
    "with_ledger": False,  # tests/test_claims.py reads it line by line
}


@cache
def release() -> Dataset:
    """A fifth of the simulated release; two tests that want it get the same object."""
    return datasets.simulated_release(scale=0.2)


@pytest.fixture(autouse=True)
def _undo() -> Iterator[None]:
    """Figures are closed, and what a notebook sets for printing tables ends with it."""
    with pl.Config():
        yield
    plt.close("all")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks get small data, and write one format."""
    load = reports.load
    known = {"simulated_mazes": mazes, "simulated_release": release}
    monkeypatch.setattr(reports, "load", lambda data: known[data]() if data in known else load(data))
    monkeypatch.setattr("cilab.reports.figures.FORMATS", ("png",))


def notebook(name: str) -> Any:
    return nbformat.read(reports.find_report(name).path, as_version=4)


def code(name: str) -> list[Any]:
    return [cell for cell in notebook(name).cells if cell.cell_type == "code"]


def play(name: str, figures: Path, **values: Any) -> list[Any]:
    """Run a notebook's cells in this process, and give what they would print: displayed objects and last values."""
    shown: list[Any] = []
    space: dict[str, Any] = {"display": shown.append}
    for cell in code(name):
        tree = ast.parse(cell.source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{name}:{cell.id}", "exec"), space)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), f"{name}:{cell.id}", "eval"), space))
        if "parameters" in cell.metadata.get("tags", []):
            space |= {"figures_dir": str(figures), **{k: v for k, v in SMALL.items() if k in space}, **values}
        plt.close("all")  # as the inline backend does after each cell
    return [value for value in shown if value is not None]


def printed(value: Any) -> str:
    """As a notebook prints it."""
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


def drawn(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def expected(name: str, figures: dict[str, list[str]]) -> list[str]:
    return sorted(f"{name}-{figure}.png" for figure in figures.get(name, []))


# -- as committed -------------------------------------------------------------------------------------


def test_every_notebook_is_here() -> None:
    assert list(reports.list_reports()) == list(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_notebook_is_thin_and_committed_without_outputs(name: str) -> None:
    nb = notebook(name)
    nbformat.validate(nb)
    assert all(not cell.outputs and cell.execution_count is None for cell in code(name))
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in nb.cells) == 1
    assert all(len(cell.source.splitlines()) <= 10 for cell in code(name))
    assert nb.cells[0].source.startswith("# ")
    own = "simulated_mazes" if name in MAZE_FIGURES else "simulated_release"
    assert reports.parameters(name)["data"] == f'"{own}"'


@pytest.mark.parametrize("name", FIGURES)
def test_a_notebook_draws_from_no_number_of_its_own(name: str) -> None:
    text = "\n".join(cell.source for cell in code(name))
    assert [word for word in ("plt.", "matplotlib", "np.", "DataFrame({") if word in text] == []


# -- on small data ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_the_cells_of_a_notebook_run_print_and_save_its_figures(name: str, small: None, tmp_path: Path) -> None:
    shown = play(name, tmp_path)
    assert drawn(tmp_path) == expected(name, FIGURES)
    assert [str(value) for value in shown if isinstance(value, NotComputed)] == []
    assert all(printed(value) for value in shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in FIGURES if n not in MAZE_FIGURES and n != "reproduce"])
def test_what_published_counts_cannot_give_is_one_line_and_no_traceback(name: str, small: None, tmp_path: Path) -> None:
    shown = play(name, tmp_path, data="published_round")
    assert drawn(tmp_path) == expected(name, PUBLISHED)
    lines = [str(value) for value in shown if isinstance(value, NotComputed)]
    assert all(line.startswith("Not computed: ") and "\n" not in line for line in lines)
    assert bool(lines) == (expected(name, PUBLISHED) != expected(name, FIGURES) or name == "bring_your_own_data")


@pytest.mark.slow
def test_a_notebook_takes_a_study_on_disk_and_prints_the_results_themselves(small: None, tmp_path: Path) -> None:
    folder = release().save(tmp_path / "mine")
    shown = play("failures", tmp_path / "figures", data=str(folder))
    assert drawn(tmp_path / "figures") == expected("failures", FIGURES)
    found = next(value for value in shown if isinstance(value, FailureModes))
    own = cilab.failures(cilab.open(folder), resamples=50)
    assert_frame_equal(found.table, own.table)
    assert printed(found) == printed(own)


@pytest.mark.slow
def test_the_file_that_another_lab_might_send_gives_the_same_scores_when_imported(small: None, tmp_path: Path) -> None:
    shown = play("bring_your_own_data", tmp_path / "figures", work_dir=str(tmp_path))
    columns = ("rank", "score_pct", "lo_pct", "hi_pct", "n_gated", "n_refused")
    board = next(value for value in shown if isinstance(value, Leaderboard))
    own = cilab.leaderboard(release(), resamples=50)
    assert_frame_equal(board.table.select(columns), own.table.select(columns))
    assert pl.read_csv(tmp_path / "runs.csv").columns[:3] == ["system", "setting", "item"]


@pytest.mark.slow
def test_a_report_without_data_says_that_it_is_simulated_and_shows_every_figure(tmp_path: Path) -> None:
    report = reports.render(
        "maze_mechanisms", params={"resamples": 50}, out=tmp_path / "reports", figures=tmp_path / "figures"
    )
    page = report.html.read_text()
    assert "Simulated agents." in page
    assert "Study simulated_mazes" in page
    assert page.count("data:image/png") == len(FIGURES["maze_mechanisms"])
    assert report.not_computed == ()
