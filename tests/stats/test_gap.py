"""The collaboration gap: numbers worked by hand and by pandas and SciPy, the rule for reporting, what is left out."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.results.result import Result
from cilab.stats.maze.gap import gap
from tests.stats.maze_runs import guarded

# Worked by hand: full has mean 0.9 and sd sqrt(0.04 / 3); distributed 0.6 and 0.1; pair 0 and sqrt(0.08 / 3).
HAND = {
    "solo_full": [1.0, 1.0, 0.8, 0.8],
    "solo_distributed": [0.5, 0.7, 0.6],
    "pair": [0.0, 0.2, -0.2, 0.0],
}


def rollouts(model: str, cells: dict[str, list[float]], **columns: object) -> pl.DataFrame:
    """Finished rollouts of one model: setting -> weighted outcomes."""
    rows = [
        {
            "run_id": f"{model}-{version}-{i}-{columns.get('maze_size', 6)}",
            "study": "by hand",
            "benchmark": "maze",
            "version": version,
            "model": model,
            "partner_model": model if version == "pair" else None,
            "status": "ok",
            "weighted_outcome": value,
            "success": value == 1.0,
            "maze_size": 6,
            "wall_density": 0.3,
            "finished_at": datetime(2026, 10, 9, 12, i, tzinfo=UTC),
            **columns,
        }
        for version, values in cells.items()
        for i, value in enumerate(values)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def test_mean_standard_error_and_interval_are_those_worked_by_hand() -> None:
    result = gap(rollouts("m", HAND))
    full, distributed, pair = result.table.rows(named=True)
    assert [full["setting"], distributed["setting"], pair["setting"]] == ["solo_full", "solo_distributed", "pair"]
    assert [full["n"], distributed["n"], pair["n"]] == [4, 3, 4]
    assert full["mean"] == pytest.approx(0.9)
    assert full["se"] == pytest.approx(0.05773503)
    # These rows name no maze, so each rollout stands for itself.
    assert (full["lo"], full["hi"]) == pytest.approx(guarded(HAND["solo_full"]))
    # t with 3 degrees of freedom: 3.182446. Negative outcomes have no bounds.
    assert (pair["lo"], pair["hi"]) == (pytest.approx(-0.2598457), pytest.approx(0.2598457))
    assert (full["n_clusters"], full["no_interval"]) == (4, None)
    assert "11 rollouts name no maze (task_id): each stands for itself." in result.notes()
    assert distributed["se"] == pytest.approx(0.05773503)
    assert pair["mean"] == pytest.approx(0.0)
    assert pair["se"] == pytest.approx(0.08164966)


def test_degradation_and_gap_are_those_worked_by_hand() -> None:
    row = gap(rollouts("m", HAND)).gaps.row(0, named=True)
    assert row["degradation"] == pytest.approx(0.3)
    assert row["degradation_se"] == pytest.approx(0.0816497)
    assert row["gap"] == pytest.approx(0.6)
    assert row["gap_se"] == pytest.approx(0.1)
    # No maze is shared: Welch's t, as SciPy has it.
    for name, before, after in (("degradation", "solo_full", "solo_distributed"), ("gap", "solo_distributed", "pair")):
        welch = scipy_stats.ttest_ind(HAND[before], HAND[after], equal_var=False).confidence_interval()
        assert (row[f"{name}_lo"], row[f"{name}_hi"]) == (pytest.approx(welch.low), pytest.approx(welch.high))
        assert welch.low > 0 and row[f"{name}_reported"] is True


def test_by_rollout_the_papers_normal_interval_and_its_rule_for_reporting_stand_as_they_were() -> None:
    row = gap(rollouts("m", HAND), cluster="rollout").gaps.row(0, named=True)
    # 0.9 - 0.1132 (full, low) lies above 0.6 + 0.1132 (distributed, high); 0.6 - 0.1132 above 0 + 0.1600 (pair, high).
    assert (row["degradation_reported"], row["gap_reported"]) == (True, True)
    assert row["gap_lo"] == pytest.approx(0.6 - 1.959964 * 0.1, abs=1e-6)


def test_numbers_agree_with_pandas_and_scipy_on_many_models() -> None:
    rng = np.random.default_rng(5)
    frames = [rollouts(f"m{i}", {v: list(rng.uniform(-0.5, 1, rng.integers(3, 60))) for v in HAND}) for i in range(12)]
    runs = pl.concat(frames)
    result = gap(runs, ci_level=0.9, cluster="rollout")
    theirs = runs.to_pandas().groupby(["model", "version"])["weighted_outcome"].agg(["mean", "sem", "size"])
    low, high = scipy_stats.norm.interval(0.9, theirs["mean"], theirs["sem"])
    ours = result.to_pandas().set_index(["model", "setting"]).loc[theirs.index]
    for mine, other in [("mean", theirs["mean"]), ("se", theirs["sem"]), ("lo", low), ("hi", high)]:
        np.testing.assert_allclose(ours[mine], other, rtol=1e-12)
    assert (ours["n"].to_numpy() == theirs["size"].to_numpy()).all()


def test_models_stand_in_order_of_their_pair_mean_and_one_without_pairs_comes_last() -> None:
    runs = pl.concat(
        [
            rollouts("middle", {"pair": [0.5, 0.6], "solo_distributed": [0.1, 0.2]}),
            rollouts("alone", {"solo_full": [1.0, 1.0]}),
            rollouts("best", {"pair": [0.9, 1.0]}),
            rollouts("worst", {"pair": [-0.5, -0.4]}),
        ]
    )
    assert gap(runs).rows == ["best", "middle", "worst", "alone"]


@pytest.mark.parametrize(
    ("full", "distributed", "reported"),
    [
        ([0.5, 0.5, 0.6], [0.9, 0.9, 0.8], False),  # separate, but the wrong way: no degradation
        ([1.0, 0.9, 0.8], [0.67, 0.57, 0.47], True),  # 0.9 - 0.113 = 0.787 > 0.57 + 0.113 = 0.683
        ([1.0, 0.9, 0.8], [0.78, 0.68, 0.58], False),  # 0.787 < 0.68 + 0.113 = 0.793; their difference is above 0
        ([1.0, 1.0, 1.0], [0.9, 0.9, 0.9], None),  # two points apart: no spread, no star
        ([1.0, 0.8], [0.1, 0.2], None),  # no interval, no verdict
    ],
)
def test_by_rollout_degradation_is_reported_only_where_the_intervals_separate(full, distributed, reported) -> None:
    result = gap(rollouts("m", {"solo_full": full, "solo_distributed": distributed}), cluster="rollout")
    assert result.gaps["degradation_reported"].to_list() == [reported]


def test_one_rollout_gives_a_mean_without_an_interval() -> None:
    cell = gap(rollouts("m", {"pair": [0.4]})).cell("m", "pair")
    assert cell["mean"] == 0.4
    assert (cell["se"], cell["lo"], cell["hi"]) == (None, None, None)


def test_only_pairs_of_copies_count_as_pairs() -> None:
    runs = pl.concat(
        [
            rollouts("m", HAND),
            rollouts("m", {"pair": [1.0] * 3}, partner_model="other", run_id=None),
            rollouts("m", {"relay": [1.0] * 2}, run_id=None),
            rollouts("m", {"test": [1.0]}, benchmark="teamwork", run_id=None),
        ],
        how="vertical_relaxed",
    )
    result = gap(runs)
    assert result.cell("m", "pair")["mean"] == pytest.approx(0.0)
    assert result.n_left_out == {"pairs of two different models": 3, "relay rollouts": 2, "of another benchmark": 1}
    assert result.n_used + sum(result.n_left_out.values()) == runs.height


def test_unplayed_rollouts_are_counted_by_reason_and_never_scored_as_zero() -> None:
    lost = [
        rollouts("m", {"pair": [0.0] * n}, status=status, run_id=None)
        for status, n in [("refused", 4), ("error", 3), ("gated_out", 2)]
    ]
    blank = rollouts("m", {"pair": [0.0]}, run_id=None).with_columns(weighted_outcome=pl.lit(None, pl.Float64))
    result = gap(pl.concat([rollouts("m", {"pair": [0.8, 1.0]}), *lost, blank], how="vertical_relaxed"))
    assert result.cell("m", "pair")["mean"] == pytest.approx(0.9)
    assert result.cell("m", "pair")["n_left_out"] == 10
    assert result.n_used == 2
    assert result.n_left_out == {"refused": 4, "ended in an error": 3, "gated out": 2, "without an outcome": 1}


def test_a_model_that_always_refused_stays_in_the_table_without_a_mean() -> None:
    shy = rollouts("shy", {"pair": [0.0, 0.0]}, status="refused")
    result = gap(pl.concat([rollouts("m", HAND), shy]))
    assert result.rows == ["m", "shy"]
    assert result.cell("shy", "pair")["mean"] is None
    assert result.cell("shy", "pair")["n_left_out"] == 2


def test_of_several_maze_settings_the_most_frequent_is_kept_and_the_rest_counted() -> None:
    runs = pl.concat(
        [
            rollouts("m", HAND),
            rollouts("m", {"pair": [1.0, 1.0]}, maze_size=8),
            rollouts("m", {"pair": [0.9]}, wall_density=0.45, run_id="dense"),
        ]
    )
    result = gap(runs)
    assert result.parameters["maze_size"] == 6
    assert result.parameters["wall_density"] == 0.3
    assert result.n_left_out == {"in other mazes than 6×6 mazes with wall density 0.30": 3}
    assert gap(runs, maze_size=8).cell("m", "pair")["mean"] == 1.0
    assert gap(runs, wall_density=0.45).n_used == 1


def test_on_a_tie_of_maze_settings_the_papers_is_kept() -> None:
    runs = pl.concat([rollouts("m", {"pair": [0.1, 0.2]}, maze_size=4), rollouts("m", {"pair": [0.5, 0.6]})])
    assert gap(runs).parameters["maze_size"] == 6


def test_a_run_that_stands_twice_counts_once_and_with_its_score() -> None:
    first = rollouts("m", HAND)
    failed = first.with_columns(status=pl.lit("error"), weighted_outcome=pl.lit(None, pl.Float64))
    result = gap(pl.concat([failed, first, first]))
    assert result.table.equals(gap(first).table)
    assert result.n_left_out == {"the same run again": 22}


def test_arms_and_efforts_of_one_model_are_rows_of_their_own() -> None:
    runs = pl.concat(
        [
            rollouts("m", {"pair": [0.5, 0.6]}, arm=None, effort="high"),
            rollouts("m", {"pair": [0.8, 0.9]}, arm="share the map first", effort="high", run_id=None),
            rollouts("other", {"pair": [0.1, 0.2]}, arm=None, effort="low"),
        ],
        how="vertical_relaxed",
    )
    assert gap(runs).rows == ["m · share the map first", "m · no arm", "other"]


def test_success_is_the_share_of_solved_mazes() -> None:
    result = gap(rollouts("m", HAND), outcome="success")
    assert result.cell("m", "solo_full")["mean"] == 0.5
    assert result.cell("m", "solo_full")["se"] == pytest.approx(0.2886751)  # sqrt(4 x 0.25 / 3 / 4)


@given(st.permutations(range(10)), st.integers(0, 10))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_changes_nothing(order: list[int], at: int) -> None:
    runs = rollouts(
        "m", {"solo_full": [0.1, 0.7, 1.0], "solo_distributed": [0.3, 0.3, 0.9], "pair": [0.2, 0.6, -1, 0.1]}
    )
    mixed = runs[order]
    split = pl.concat([mixed[:at], mixed[at:]])
    one, two = gap(runs), gap(split)
    assert one.table.equals(two.table)
    assert one.gaps.equals(two.gaps)
    assert one.provenance == two.provenance


def test_pandas_lazy_and_eager_frames_and_a_study_give_the_same_numbers() -> None:
    runs = pl.concat([rollouts("m", HAND), rollouts("m", {"pair": [0.3]}, status="error", run_id=None)])

    class Study:
        name, data_hash, simulated, last_finished_at = "mine", "abc", False, None

        def __init__(self, frame: pl.DataFrame) -> None:
            self.runs = frame.lazy()

    table = gap(runs).table
    for other in (runs.lazy(), runs.to_pandas(), Study(runs)):
        assert gap(other).table.equals(table)
    assert gap(Study(runs)).provenance.study == "mine"
    assert gap(Study(runs)).provenance.data_hash == "abc"


def test_a_pandas_column_of_true_false_and_missing_is_read() -> None:
    frame = pd.DataFrame(
        {
            "version": "pair",
            "model": "m",
            "partner_model": "m",
            "status": ["ok", "ok", "refused"],
            "success": [True, False, None],
        }
    )
    result = gap(frame, outcome="success")
    assert result.cell("m", "pair")["mean"] == 0.5
    assert result.n_left_out == {"refused": 1}


def test_provenance_names_study_last_rollout_and_simulated_agents() -> None:
    real, sim = rollouts("m", HAND), rollouts("sim/strong", HAND)
    assert gap(real).provenance.simulated is False
    assert gap(sim).provenance.simulated is True
    assert gap(real).provenance.study == "by hand"
    assert gap(real).provenance.last_finished_at == datetime(2026, 10, 9, 12, 3, tzinfo=UTC)
    changed = real.with_columns(weighted_outcome=pl.col("weighted_outcome") - 0.001)
    assert gap(real).provenance.data_hash != gap(changed).provenance.data_hash


def test_a_model_whose_name_begins_like_simulated_is_not_simulated() -> None:
    assert gap(rollouts("simple-7b", HAND)).provenance.simulated is False


def test_the_printed_table_has_the_numbers_and_says_what_was_left_out() -> None:
    refused = rollouts("sim/<b>", {"pair": [0.0]}, status="refused", run_id=None)
    result = gap(pl.concat([rollouts("sim/<b>", HAND), refused]))
    page = result._repr_html_()
    assert "0.00 ± 0.26 (4)" in page
    assert "0.60 ± 0.26 *" in page
    assert "Left out 1: 1 refused." in page
    assert "simulated agents" in page
    assert "sim/&lt;b&gt;" in page and "<b>" not in page
    assert "0.00 ± 0.26 (4)" in repr(result)
    assert "SIMULATED" in repr(result)


def test_a_real_study_is_not_called_simulated() -> None:
    result = gap(rollouts("m", HAND))
    assert "simulated" not in result._repr_html_().lower()
    assert "simulated" not in repr(result).lower()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weighted_outcome": pl.lit(85.0)}, "divide percentages by 100"),
        ({"weighted_outcome": pl.lit(1.01)}, "above 1"),
        ({"weighted_outcome": pl.lit(float("-inf"))}, "inf"),
        ({"weighted_outcome": pl.lit("0.5")}, "not numbers"),
        ({"status": pl.lit("done")}, "status is 'done'"),
        ({"status": pl.lit(None, pl.String)}, "without status"),
        ({"status": pl.lit("error")}, "11 ended in an error"),
        ({"version": pl.lit("relay")}, "11 relay rollouts"),
    ],
)
def test_rows_outside_their_range_are_refused_in_one_line(change, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        gap(rollouts("m", HAND).with_columns(**change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ci_level": 95}, "such as 0.95"),
        ({"wall_density": 30}, "such as 0.30"),
        ({"wall_density": 0.6}, "these runs hold 6×6 mazes with wall density 0.30"),
        ({"outcome": "weighted"}, "Did you mean weighted_outcome"),
        ({"models": ["mm"]}, "Did you mean m"),
        ({"models": "m"}, "list of names"),
    ],
)
def test_arguments_outside_their_range_are_refused_in_one_line(arguments, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        gap(rollouts("m", HAND), **arguments)
    assert "\n" not in str(caught.value)


def test_missing_columns_empty_data_and_things_that_are_no_table_are_refused() -> None:
    runs = rollouts("m", HAND)
    with pytest.raises(TableError, match=r"missing column weighted_outcome\. Did you mean weighted_outcomes"):
        gap(runs.rename({"weighted_outcome": "weighted_outcomes"}))
    with pytest.raises(TableError, match="no rows"):
        gap(runs.clear())
    with pytest.raises(TableError, match=r"cilab\.open"):
        gap("data/studies/quickstart")
    with pytest.raises(TableError, match="list"):
        gap([1, 2])


def test_a_result_without_a_figure_says_so() -> None:
    from cilab.core.frames import Provenance

    source = Provenance("s", "h", False, None, "0")
    bare = Result(table=pl.DataFrame({"a": [1]}), n_used=1, n_left_out={}, provenance=source)
    with pytest.raises(TableError, match="no figure"):
        bare.plot()
