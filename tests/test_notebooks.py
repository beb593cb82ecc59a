"""Every notebook of the maze benchmark: thin, without outputs, and its cells run on the simulated study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import paths, reports
from tests.plots.maze_results import mazes

#: notebook -> figures that it saves
FIGURES = {
    "maze_gap": ["gap"],
    "maze_pairs": ["pairs"],
    "maze_relay": ["relay"],
    "maze_mechanisms": ["disagreement", "grounding", "mediation", "odds_ratios"],
    "maze_efficiency": ["messages", "tokens"],
    "maze_ablation": ["maze_size", "wall_density"],
    "maze_grading": ["agreement"],
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def notebook(name: str) -> Any:
    return nbformat.read(paths.shipped("notebooks") / f"{name}.ipynb", as_version=4)


def code(name: str) -> list[Any]:
    return [cell for cell in notebook(name).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", FIGURES)
def test_a_notebook_is_thin_and_committed_without_outputs(name: str) -> None:
    nb = notebook(name)
    nbformat.validate(nb)
    assert all(not cell.outputs and cell.execution_count is None for cell in code(name))
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in nb.cells) == 1
    assert all(len(cell.source.splitlines()) <= 10 for cell in code(name))
    assert nb.cells[0].source.startswith("# ")
    assert reports.parameters(name)["data"] == '"simulated_mazes"'


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_the_cells_of_a_notebook_run_and_save_its_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "load", lambda data: {"simulated_mazes": mazes()}[data])
    monkeypatch.setattr(reports, "FORMATS", ("png",))
    shown: list[Any] = []
    space: dict[str, Any] = {"display": shown.append}
    for cell in code(name):
        exec(compile(cell.source, f"{name}:{cell.id}", "exec"), space)
        if "parameters" in cell.metadata.get("tags", []):
            fewer = {"resamples": 50} if "resamples" in space else {}
            space |= {"figures_dir": str(tmp_path), **fewer}
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{name}-{figure}.png" for figure in FIGURES[name]]


@pytest.mark.slow
def test_a_report_without_data_says_that_it_is_simulated_and_shows_every_figure(tmp_path: Path) -> None:
    report = reports.render(
        "maze_mechanisms", params={"resamples": 50}, out=tmp_path / "reports", figures=tmp_path / "figures"
    )
    page = report.html.read_text()
    assert "Simulated agents." in page
    assert "Study simulated_mazes" in page
    assert page.count("data:image/png") == len(FIGURES["maze_mechanisms"])
