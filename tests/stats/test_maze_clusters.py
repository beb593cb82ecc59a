"""What was sampled are mazes: intervals of maze statistics are taken over them, and repeats are no new evidence."""

from __future__ import annotations

import matplotlib
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import cilab
from cilab.core.errors import TableError
from cilab.stats.maze.ablation import ablation, distilled
from cilab.stats.maze.efficiency import efficiency
from cilab.stats.maze.gap import gap
from cilab.stats.maze.pairs import pairs
from cilab.stats.maze.relay import relay
from cilab.stats.methods.means import Sample, Units, clustered_contrast, clustered_mean
from cilab.stats.methods.uncertainty import mean_bounds
from tests.stats.maze_runs import dataset, frame, guarded, pair, rollouts

matplotlib.use("Agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def repeated(rows: list[dict], times: int = 6) -> list[dict]:
    """Every rollout `times` times, each with a seed of its own."""
    return [row | {"run_id": f"{row['run_id']}/{i}", "seed": i} for row in rows for i in range(times)]


#: Three mazes, six repeats each, all repeats alike: two are solved alone, one as a pair. Made, with known answers.
ALONE, TOGETHER = [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]
CASE = frame(repeated([*rollouts("solo_distributed", "a", None, ALONE), *pair("a", "a", TOGETHER)]))
#: By hand: mean 1/3, standard error 1/3, t with 2 degrees of freedom 4.302653.
ENDS = pytest.approx((-1.100884243249821, 1.7675509099164874))


def ends(row: dict, name: str = "") -> tuple:
    return row[f"{name}lo"], row[f"{name}hi"]


# -- a few mazes, many repeats ------------------------------------------------------------------------------


def test_repeats_of_three_mazes_are_three_clusters_in_gap_and_pairs() -> None:
    result = gap(CASE)
    cell = result.cell("a", "pair")
    assert (cell["n"], cell["mean"], cell["se"]) == (18, pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (cell["n_clusters"], cell["no_interval"], ends(cell)) == (3, None, ENDS)
    row = result.gaps.row(0, named=True)
    assert (row["gap"], row["gap_se"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (row["gap_n_clusters"], row["gap_reported"], ends(row, "gap_")) == (3, False, ENDS)
    (line,) = pairs(CASE).table.iter_rows(named=True)
    assert (line["n"], line["n_clusters"], ends(line)) == (18, 3, ENDS)


def test_two_mazes_without_spread_have_neither_interval_nor_star() -> None:
    rows = [*rollouts("solo_distributed", "a", None, [1.0, 1.0]), *pair("a", "a", [0.5, 0.5])]
    for result in (gap(frame(rows)), gap(frame(repeated(rows)))):
        row = result.gaps.row(0, named=True)
        assert (row["gap"], row["gap_se"], ends(row, "gap_"), row["gap_reported"]) == (0.5, None, (None, None), None)
        assert row["gap_no_interval"] == "too few: 2 mazes"
        assert "*" not in result.sheet().cells["Collaboration gap"].item()
        assert "No interval of 1 difference: too few: 2 mazes." in result.notes()


def test_many_mazes_without_spread_have_no_interval_of_width_zero_whatever_they_are_taken_over() -> None:
    rows = frame([*rollouts("solo_distributed", "a", None, [1.0] * 9), *pair("a", "a", [0.5] * 9)])
    for cluster in ("auto", "rollout"):
        result = gap(rows, cluster=cluster)
        assert result.table["lo"].to_list() == [None, None]
        assert set(result.table["no_interval"]) == {"no spread between the units"}
        assert result.gaps["gap_reported"].to_list() == [None]


def test_repeats_are_no_new_evidence_in_ablation() -> None:
    eight = [1.0, 1.0, 0.0]
    rows = repeated([*pair("a", "a", TOGETHER), *pair("a", "a", eight, maze_size=8)])
    six, larger = ablation(frame(rows), "maze_size").table.sort("level").iter_rows(named=True)
    assert (six["n"], six["n_clusters"], ends(six)) == (18, 3, ENDS)
    # Two sizes share no maze: Welch's t of the mazes' means, by SciPy.
    welch = scipy_stats.ttest_ind(TOGETHER, eight, equal_var=False).confidence_interval()
    assert ends(larger, "drop_") == (pytest.approx(welch.low), pytest.approx(welch.high))
    assert (larger["drop"], larger["drop_n_clusters"], larger["drop_reported"]) == (pytest.approx(-1 / 3), 6, False)


def test_repeats_are_no_new_evidence_in_efficiency() -> None:
    runs = [row | {"messages": 2} for row in repeated(pair("a", "a", [1.0] * 3), 4)]
    count = {"m0": 100, "m1": 100, "m2": 400}
    said = [
        {"run_id": r["run_id"], "index": i, "kind": "message", "seat": str(1 + i), "seat_kind": "under_test"}
        | {"tokens_out": count[r["task_id"]]}
        for r in runs
        for i in range(2)
    ]
    (row,) = efficiency(dataset(runs, messages=said)).table.iter_rows(named=True)
    assert (row["n"], row["n_clusters"], row["mean"], row["se"]) == (12, 3, 200.0, pytest.approx(100.0))
    assert ends(row) == (pytest.approx(200 - 430.2652730), pytest.approx(200 + 430.2652730))


def test_repeats_are_no_new_evidence_in_relay() -> None:
    swap = {"relay_kind": "primer", "relay_k": 2, "rounds": 20}
    rows = [*pair("big", "big", [1.0, 1.0, 0.9]), *pair("small", "small", [0.0, 0.0, 0.3])]
    rows += rollouts("relay", "big", "small", TOGETHER, **swap)
    result = relay(frame(repeated(rows)), resamples=200)
    (row,) = result.table.iter_rows(named=True)
    assert (row["n"], row["n_clusters"], ends(row)) == (18, 3, ENDS)
    over = scipy_stats.ttest_rel(TOGETHER, [0.0, 0.0, 0.3])
    both = over.confidence_interval()
    assert ends(row, "over_weak_") == (pytest.approx(both.low), pytest.approx(both.high))
    assert row["over_weak_p"] == pytest.approx(over.pvalue)


def test_a_relay_in_two_mazes_has_points_without_intervals_or_p_and_says_why() -> None:
    swap = {"relay_kind": "primer", "relay_k": 2, "rounds": 20}
    rows = [*pair("big", "big", [1.0, 0.9]), *pair("small", "small", [0.0, 0.3])]
    result = relay(frame([*rows, *rollouts("relay", "big", "small", [0.5, 0.7], **swap)]), resamples=50)
    (row,) = result.table.iter_rows(named=True)
    assert row["over_weak"] == pytest.approx(0.45) and row["closed"] == pytest.approx(0.45 / 0.8)
    assert [row[c] for c in ("lo", "over_weak_lo", "over_weak_p", "closed_lo")] == [None] * 4
    assert row["reason"] == "over two weak: too few: 2 mazes; gap closed: too few: 2 mazes: no interval"
    assert "No interval of 1 difference: too few: 2 mazes." in result.notes()


def test_a_few_mazes_that_happen_to_be_alike_do_not_make_a_narrow_interval() -> None:
    (row,) = pairs(frame(pair("a", "b", [0.9, 0.9, 0.91]))).table.iter_rows(named=True)
    score = mean_bounds(np.array([0.9, 0.9, 0.91]))
    assert (row["lo"], row["hi"]) == (pytest.approx(score.lo), pytest.approx(score.hi))
    # A way that may be lost altogether has no such bounds; nor is it needed with ten mazes.
    for values in ([-0.1, -0.1, -0.09], [0.9, 0.91] * 5):
        (row,) = pairs(frame(pair("a", "b", values))).table.iter_rows(named=True)
        t = scipy_stats.ttest_1samp(values, 0).confidence_interval()
        assert ends(row) == (pytest.approx(t.low), pytest.approx(t.high))


# -- pairing ------------------------------------------------------------------------------------------------


def test_what_is_hard_in_both_settings_cancels_in_the_gap() -> None:
    hard = np.linspace(0, 0.6, 10)
    rows = frame(
        [
            *rollouts("solo_distributed", "m", None, list(1 - hard)),
            *pair("m", "m", list(0.9 - hard - 0.01 * (np.arange(10) % 2))),
        ]
    )
    row, plain = (gap(rows, cluster=c).gaps.row(0, named=True) for c in ("maze", "rollout"))
    paired = scipy_stats.ttest_rel(1 - hard, 0.9 - hard - 0.01 * (np.arange(10) % 2)).confidence_interval()
    assert ends(row, "gap_") == (pytest.approx(paired.low), pytest.approx(paired.high))
    assert (row["gap_reported"], plain["gap_reported"]) == (True, False)


def test_a_difference_with_uneven_repeats_has_the_clustered_error_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(4)
    mazes = 12
    a, b = (np.r_[np.arange(mazes), rng.integers(0, mazes, n)] for n in (15, 40))
    level = rng.normal(0, 0.3, mazes)
    x, y = level[a] + rng.normal(0, 0.1, len(a)), level[b] + rng.normal(0.2, 0.1, len(b))
    found = clustered_contrast([(1, Sample(y, b)), (-1, Sample(x, a))], Units("maze"))
    design = sm.add_constant(np.r_[np.zeros(len(a)), np.ones(len(b))])
    groups = {"groups": np.r_[a, b], "use_correction": False}
    fit = sm.OLS(np.r_[x, y], design).fit(cov_type="cluster", cov_kwds=groups)
    assert found["diff"] == pytest.approx(fit.params[1])
    assert found["se"] == pytest.approx(float(fit.bse[1]) * np.sqrt(mazes / (mazes - 1)), rel=1e-9)


def test_a_maze_that_one_setting_lacks_stays_in_the_other_mean() -> None:
    rows = frame([*rollouts("solo_distributed", "m", None, [1.0, 0.8, 0.9, 0.5]), *pair("m", "m", [0.5, 0.4, 0.3])])
    row = gap(rows).gaps.row(0, named=True)
    assert (row["gap"], row["gap_n_clusters"]) == (pytest.approx(0.8 - 0.4), 4)
    # By hand: deviations over n, (0.2, 0, 0.1, -0.3) / 4 less (0.1, 0, -0.1) / 3.
    parts = np.array([0.2 / 4 - 0.1 / 3, 0.0, 0.1 / 4 + 0.1 / 3, -0.3 / 4])
    assert row["gap_se"] == pytest.approx(np.sqrt(4 / 3 * (parts**2).sum()))


def test_where_most_mazes_are_in_one_mean_only_the_few_shared_ones_set_the_degrees_of_freedom() -> None:
    rng = np.random.default_rng(2)
    wide, few = Sample(rng.random(100), np.arange(100)), Sample(np.array([0.1, 0.9, 0.4]), np.arange(3))
    found = clustered_contrast([(1, wide), (-1, few)], Units("maze"))
    t = (found["hi"] - found["diff"]) / found["se"]
    assert scipy_stats.t.ppf(0.975, 2.5) < t < scipy_stats.t.ppf(0.975, 1.9)


# -- shares -------------------------------------------------------------------------------------------------


def test_a_share_that_is_solved_in_every_maze_has_the_interval_of_clopper_and_pearson() -> None:
    rows = frame(repeated(pair("m", "m", [1.0] * 30), 4))
    row = pairs(rows, outcome="success").table.row(0, named=True)
    exact = scipy_stats.binomtest(30, 30).proportion_ci(0.95, "exact")
    assert (row["n"], row["n_clusters"], ends(row)) == (120, 30, (pytest.approx(exact.low), 1.0))


def test_a_share_has_an_interval_between_zero_and_one_and_its_gap_between_minus_one_and_one() -> None:
    result = gap(CASE, outcome="success")
    assert result.table.select(((pl.col("lo") >= 0) & (pl.col("hi") <= 1)).all()).item()
    row = result.gaps.row(0, named=True)
    assert ends(row, "gap_") == (-1.0, 1.0)


@pytest.mark.parametrize(("mazes", "reported"), [(5, False), (6, True)])
def test_a_drop_from_all_to_none_is_reported_where_the_exact_sign_test_is_below_5_percent(mazes, reported) -> None:
    # 2 / 2^5 = .0625, 2 / 2^6 = .03125
    rows = [*rollouts("solo_distributed", "m", None, [1.0] * mazes), *pair("m", "m", [0.0] * mazes)]
    row = gap(frame(rows), outcome="success").gaps.row(0, named=True)
    assert (row["gap_hi"], row["gap_reported"]) == (1.0, reported)


# -- over what ----------------------------------------------------------------------------------------------

SITES = ["x", "x", "y", "y", "z", "z"]
BY_SITE = frame([*rollouts("solo_distributed", "m", None, [1.0, 0.9, 0.8, 0.9, 0.7, 0.5]), *pair("m", "m", [0.1] * 6)])
BY_SITE = BY_SITE.with_columns(
    pl.col("task_id").replace(dict(zip([f"m{i}" for i in range(6)], SITES, strict=True))).alias("site")
)


def test_a_column_whose_values_hold_whole_mazes_may_be_named() -> None:
    cell = gap(BY_SITE, cluster="site").cell("m", "solo_distributed")
    means = [0.95, 0.85, 0.6]
    assert (cell["n_clusters"], cell["se"]) == (3, pytest.approx(scipy_stats.sem(means)))
    assert gap(BY_SITE, cluster="site").parameters["cluster"] == "site"
    assert gap(BY_SITE).parameters["cluster"] == "maze"
    assert "t over sites" in gap(BY_SITE, cluster="site").caption
    assert pairs(BY_SITE, cluster="site").table["n_clusters"].item() == 3


def test_agents_with_several_partners_may_be_clustered_by_pair() -> None:
    rows = [row for b in ("b", "c", "d") for row in pair("a", b, [0.5, 0.7])]
    runs = [row | {"messages": 2} for row in rows]
    said = [
        {"run_id": r["run_id"], "index": i, "kind": "message", "seat": str(1 + i), "seat_kind": "under_test"}
        | {"tokens_out": {"b": 10, "c": 20, "d": 60}[r["partner_model"]]}
        for r in runs
        for i in range(2)
    ]
    table = efficiency(dataset(runs, messages=said), cluster="pair").table
    row = table.row(by_predicate=pl.col("agent") == "a", named=True)
    assert (row["n"], row["n_clusters"], row["se"]) == (6, 3, pytest.approx(scipy_stats.sem([10, 20, 60])))
    assert table.row(by_predicate=pl.col("agent") == "b", named=True)["no_interval"] == "too few: 1 pair"


def test_rollouts_without_a_maze_stand_each_for_itself_and_the_notes_say_so() -> None:
    known = pair("m", "m", [0.1, 0.5, 0.9])
    lost = [row | {"task_id": None, "seed": None} for row in pair("m", "m", [0.3, 0.7], first_maze=7)]
    result = pairs(frame([*repeated(known, 2), *lost]))
    assert result.table["n_clusters"].item() == 5
    assert "2 rollouts name no maze (task_id): each stands for itself." in result.notes()
    assert pairs(frame(lost)).table["no_interval"].item() == "too few: 2 rollouts"


@pytest.mark.parametrize("statistic", [gap, pairs, distilled])
@pytest.mark.parametrize(
    ("column", "cluster", "words"),
    [
        (pl.lit("x"), "sit", r"cluster is 'sit': give auto, maze, pair, rollout or a column.*Did you mean site"),
        (pl.lit("x"), "site", "cluster site: all (12|6) rollouts are x; intervals need several"),
        (
            pl.when(pl.col("task_id") != "m0").then("site"),
            "site",
            "cluster site: [12] of (12|6) rollouts have no value",
        ),
        (pl.col("run_id"), "site", "cluster site: maze m0 lies in [24] of them; a cluster holds whole mazes"),
        (pl.col("site"), 3, "cluster is 3: give the name of a column"),
    ],
)
def test_clusters_that_cannot_be_used_are_refused_in_one_line(statistic, column, cluster, words: str) -> None:
    again = BY_SITE.with_columns(seed=1, run_id=pl.col("run_id") + "again")
    rows = pl.concat([BY_SITE, again.cast(BY_SITE.schema)]) if words.endswith("whole mazes") else BY_SITE
    with pytest.raises(TableError, match=words) as caught:
        statistic(rows.with_columns(column.alias("site")), cluster=cluster)
    assert "\n" not in str(caught.value)


def test_relay_ablation_and_efficiency_refuse_an_unknown_cluster_too() -> None:
    rows = frame([*pair("a", "a", [0.5, 0.7]), *pair("a", "a", [0.5], maze_size=8)])
    for statistic in (relay, ablation, efficiency):
        with pytest.raises(TableError, match="cluster is 'labs'"):
            statistic(rows, cluster="labs")


def test_a_result_is_repeated_from_what_it_records() -> None:
    for cluster in ("auto", "site", "rollout"):
        result = gap(BY_SITE, cluster=cluster)
        assert cilab.rerun(result, BY_SITE).table.equals(result.table)


# -- properties ---------------------------------------------------------------------------------------------

outcomes = st.lists(st.sampled_from([-0.5, 0.0, 0.3, 0.7, 1.0]), min_size=3, max_size=8)


@settings(max_examples=25, deadline=None)
@given(outcomes, outcomes, st.integers(2, 4))
def test_repeating_every_rollout_changes_nothing_but_n(alone, together, times: int) -> None:
    rows = [*rollouts("solo_distributed", "m", None, alone), *pair("m", "m", together)]
    once, often = gap(frame(rows)), gap(frame(repeated(rows, times)))
    assert often.table["n"].to_list() == [times * n for n in once.table["n"]]
    for one, other in ((once.table.drop("n"), often.table.drop("n")), (once.gaps, often.gaps)):
        assert_alike(one, other)


@settings(max_examples=25, deadline=None)
@given(outcomes, outcomes, st.randoms(use_true_random=False))
def test_the_names_of_mazes_and_the_order_of_rollouts_do_not_matter(alone, together, random) -> None:
    rows = frame(repeated([*rollouts("solo_distributed", "m", None, alone), *pair("m", "m", together)], 2))
    names = rows["task_id"].unique().sort().to_list()
    others = random.sample(names, len(names))
    mixed = rows.with_columns(pl.col("task_id").replace(names, others)).sample(fraction=1, shuffle=True, seed=1)
    assert_alike(gap(rows).table, gap(mixed).table)
    assert_alike(gap(rows).gaps, gap(mixed).gaps)


@settings(max_examples=40, deadline=None)
@given(outcomes, st.floats(-3, 3))
def test_an_interval_moves_with_its_values(values: list[float], shift: float) -> None:
    codes, units = np.arange(len(values)), Units("maze")
    one, other = (clustered_mean(Sample(np.array(values) + s, codes), units) for s in (0.0, shift))
    assert one["no_interval"] == other["no_interval"]
    if one["no_interval"] is None:
        assert (other["lo"] - shift, other["hi"] - shift) == pytest.approx(ends(one), abs=1e-9)


def assert_alike(one: pl.DataFrame, other: pl.DataFrame) -> None:
    assert one.columns == other.columns
    for name in one.columns:
        a, b = one[name].to_list(), other[name].to_list()
        assert a == (pytest.approx(b) if one.schema[name].is_float() and None not in (*a, *b) else b) or (
            [v is None for v in a] == [v is None for v in b]
            and [v for v in a if v is not None] == pytest.approx([v for v in b if v is not None])
        ), name


# -- figures ------------------------------------------------------------------------------------------------


def test_a_mean_without_an_interval_is_drawn_without_a_bar() -> None:
    rows = frame(
        [*rollouts("solo_full", "m", None, [1.0] * 4), *rollouts("solo_distributed", "m", None, [0.9, 0.5, 0.1])]
    )
    ax = gap(rows).plot(distributed="all")
    bars = {c.get_label(): c.lines[2][0].get_segments() for c in ax.containers}
    assert [np.isfinite(s).all() for s in bars["Solo, distributed map"]] == [True]
    assert [np.isfinite(s).all() for s in bars["Solo, full map"] if len(s)] in ([], [False])
    assert "95% intervals over mazes" in ax.figure._supxlabel.get_text()


def test_pairs_print_a_mean_without_its_interval_as_it_is() -> None:
    ax = pairs(frame(pair("a", "b", [0.5, 0.5]) + pair("b", "a", [0.5, 0.6, 0.7]))).plot()
    words = {t.get_text() for t in ax.texts if t.get_gid() == "cell"}
    lo, hi = guarded([0.5, 0.6, 0.7])
    assert words == {"0.50", f"0.60\n±{(hi - lo) / 2:.2f}"}
