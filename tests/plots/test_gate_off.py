"""Figures and tables of results without the gate do not speak of tasks solved alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("agg")
import matplotlib.pyplot as plt

import cilab
from cilab import plots
from cilab.results.result import Result

DRAWN = {
    "dimensions": plots.dimensions,
    "leaderboard": plots.leaderboard,
    "failures": plots.failures,
    "loss": plots.loss,
    "validity": plots.validity,
}


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Iterator[None]:
    yield
    plt.close("all")


def found(name: str, gate: str) -> Result:
    study = cilab.datasets.simulated_release()
    few = {"splits": 4} if name == "validity" else {}
    return getattr(cilab, name)(study, gate=gate, resamples=20, **few)


def texts(name: str, gate: str) -> str:
    ax = DRAWN[name](found(name, gate))
    return " ".join(t.get_text() for t in ax.get_figure(root=True).findobj(matplotlib.text.Text))


@pytest.mark.parametrize("name", [*DRAWN])
def test_a_figure_without_the_gate_does_not_name_it(name: str) -> None:
    assert not re.search(r"solves? alone|solved\s+alone", texts(name, "off"))
    assert found(name, "off").parameters["gate"] == "off"


@pytest.mark.parametrize("name", ["dimensions", "failures", "loss", "validity"])
def test_a_figure_with_the_gate_names_it(name: str) -> None:
    assert re.search(r"solves?\s+alone|solved\s+alone", texts(name, "solved_alone"))


@pytest.mark.parametrize("name", ["leaderboard", "dimensions"])
def test_a_table_without_the_gate_does_not_name_it(name: str) -> None:
    assert "olved alone" not in found(name, "off").paper_sheet().gt().as_raw_html()
