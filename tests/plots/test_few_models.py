"""Figures of one or two models and of two tasks: each is drawn, or says in one line why not."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from datetime import date, timedelta

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import cilab
from cilab import plots
from cilab.core.errors import CilabError
from tests.plots.small_release import MODELS, few, result

#: Figure -> statistic, and those that even one model on two tasks of one dimension has.
ALWAYS = {
    "leaderboard": "leaderboard",
    "drop": "leaderboard",
    "dimensions": "dimensions",
    "pareto": "pareto",
    "effort": "effort",
    "release": "release",
    "loss": "loss",
    "failures": "failures",
    "noticed": "noticed",
    "fill_in": "fill_in",
    "items": "items",
    "sources": "sources",
    "validity": "validity",
}
SOMETIMES = {
    "profiles": "dimensions",
    "conflict": "conflict",
    "joint_points": "conflict",
    "dimension_correlations": "dimension_correlations",
    "all_pairs": "all_pairs",
    "differences": "differences",
    "agreement": "agreement",
    "takeover": "takeover",
    "lite": "lite",
    "lite_curve": "lite_curve",
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def save(drawn) -> None:
    (drawn if hasattr(drawn, "savefig") else drawn.get_figure()).savefig(io.BytesIO())


@pytest.mark.parametrize("figure", ALWAYS | SOMETIMES)
@pytest.mark.parametrize(("n", "tasks"), [(2, None), (1, None), (2, 2), (1, 2)])
def test_few_models_are_drawn_or_refused_in_one_line(figure: str, n: int, tasks: int | None) -> None:
    try:
        found = result((ALWAYS | SOMETIMES)[figure], MODELS[:n], tasks)
        more = {"scores": result("leaderboard", MODELS[:n], tasks)} if figure == "noticed" else {}
        save(getattr(plots, figure)(found, **more))
    except CilabError as error:
        assert figure in SOMETIMES, error
        assert "\n" not in str(error)


@pytest.mark.parametrize("apart", [(), (0,), (1,), (24,), (25,), (36,), (60,), (365,), (3, 400), (24, 24)])
def test_releases_any_number_of_days_apart_are_drawn(apart: tuple[int, ...]) -> None:
    names = MODELS[: len(apart) + 1]
    days = [date(2026, 1, 20) + timedelta(days=sum(apart[:i])) for i in range(len(names))]
    found = cilab.release(few(names), facts=pl.DataFrame({"model": names, "released": days}))
    ax = plots.release(found)
    save(ax)
    rows = [line.get_xdata()[0] for line in ax.lines if line.get_gid() == "row"]
    assert sorted(rows) == [(day - date(1970, 1, 1)).days for day in days]
    pixels = [ax.transData.transform((x, 50))[0] for x in sorted(rows)]
    assert pixels == sorted(pixels)
    assert [a < b for a, b in itertools.pairwise(pixels)] == [days > 0 for days in apart]
