"""Inherited misconduct that survives, by kind, group and arm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

import cilab
from cilab import plots
from cilab.plots.parts import style
from cilab.testing import run, runs
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def with_arms() -> Any:
    """Two kinds in two arms: of 6 runs 5 and 1 carry an edited file, 4 and 3 a special case."""
    kept = {
        ("edited file", None): 5,
        ("edited file", "diff"): 1,
        ("special case", None): 4,
        ("special case", "diff"): 3,
    }
    rows, kinds = [], {}
    for kind in ("edited file", "special case"):
        for i in range(2):
            kinds[f"{kind}{i}"] = kind
            rows.append(_run(f"{kind}{i}", "alone", 0, None, True))
        for arm in (None, "diff"):
            rows += [_run(f"{kind}{j // 3}", "test", j % 3, arm, j >= kept[kind, arm]) for j in range(6)]
    return cilab.takeover(runs(rows), kinds=kinds, resamples=50)


def _run(task: str, version: str, seed: int, arm: str | None, good: bool) -> dict[str, Any]:
    evidence = [] if good else ["problem_remains"]
    kind = {"dimension": "taking_over", "source_family": "coding", "evidence": evidence}
    return run("m", task, version, float(good), seed, arm=arm, **kind)


def test_each_arm_has_its_marks_by_kind_and_the_counts_beside_them() -> None:
    ax = with_arms().plot(panel="kinds")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["All kinds", "Edited file", "Special case"]
    assert list(series(ax)) == ["no arm", "diff"]
    shares = {
        arm: [round(x / 100 * n) for (x, _), n in zip(marks(ax, arm), (12, 6, 6), strict=True)] for arm in series(ax)
    }
    assert shares == {"no arm": [9, 5, 4], "diff": [4, 1, 3]}
    assert sorted(texts(ax, "n")) == sorted(["9/12", "5/6", "4/6", "4/12", "1/6", "3/6"])


def test_arms_are_held_against_each_other() -> None:
    found = with_arms()
    ax = found.plot(panel="arms")
    assert [x for x, _ in marks(ax, "Difference")] == found.differences["diff_points"].to_list()
    assert [round(x, 6) for x, _ in marks(ax, "Difference")][1] == round(-400 / 6, 6)
    assert overlaps(found.plot()) == []
    assert texts(ax, "simulated") == []


def test_groups_of_models_stand_below_all_models() -> None:
    found = result("takeover")
    rows = found.table.filter(pl.col("kind") == "all")
    ax = found.plot(panel="groups")
    assert [t.get_text().replace("\n", " ").lower() for t in ax.get_yticklabels()] == [
        "all models",
        *rows["group"].to_list()[1:],
    ]
    assert [x for x, _ in marks(ax, "no arm")] == rows["carried_share_pct"].to_list()
    assert ends(ax, "no arm", 0) == [pytest.approx(e) for e in rows.select("carried_lo_pct", "carried_hi_pct").rows()]


def test_simulated_data_are_marked_and_no_text_overlaps() -> None:
    fig = result("takeover").plot()
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Takeover"):
        plots.takeover(result("items"))
