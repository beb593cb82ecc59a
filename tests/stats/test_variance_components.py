"""Variance components against lme4's published numbers, closed forms, statsmodels and a known truth."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cilab
from cilab import testing
from cilab.core.errors import TableError
from cilab.datasets import published_round, simulated_release
from cilab.stats.methods.intraclass import icc
from cilab.stats.methods.variance_components import reml
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.variance_components import VarianceComponents

# Davies and Goldsmith (1972), as in lme4's `Penicillin`: 24 plates, a line each has four of them, 6 samples.
PENICILLIN = """
27 23 26 23 23 21 27 23 26 23 23 21 25 21 25 24 24 20 26 23 25 23 23 20
25 22 26 22 23 20 24 22 25 23 22 19 24 20 23 21 22 19 26 22 26 24 24 21
24 21 24 22 22 20 24 21 24 23 22 19 26 23 26 24 24 21 25 22 26 24 24 20
26 24 26 24 25 22 26 23 26 23 23 20 26 23 25 24 24 22 25 22 25 23 23 20
25 21 24 23 23 20 25 22 24 23 23 19 24 21 23 21 21 19 26 23 26 24 24 21
25 21 24 22 22 18 25 22 25 22 22 20 24 21 24 22 24 19 24 21 24 22 21 18
"""
# Davies and Goldsmith (1972), as in lme4's `Pastes`: 10 batches, 3 casks each, 2 measurements.
PASTES = """
62.8 62.6 60.1 62.3 62.7 63.1 60.0 61.4 57.5 56.9 61.1 58.9 58.7 57.5 63.9 63.1 65.4 63.7 57.1 56.4 56.9 58.6 64.7 64.5
55.1 55.1 54.7 54.2 58.8 57.5 63.4 64.9 59.3 58.1 60.5 60.0 62.5 62.6 61.0 58.7 56.9 57.7 59.2 59.4 65.2 66.0 64.8 64.1
54.8 54.8 64.0 64.0 57.7 56.8 58.3 59.3 59.2 59.2 58.9 56.6
"""
# Shrout and Fleiss (1979), table 2: 6 targets, 4 judges; ICC(3,4) = .91 and ICC(2,4) = .62.
SHROUT = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def numbers(text: str) -> np.ndarray:
    return np.array(text.split(), float)


def deviations(found) -> dict[str, float]:
    return {name: math.sqrt(v) for name, v in found.variance.items()}


# -- the method -------------------------------------------------------------------------------------------


def test_crossed_components_are_those_that_lme4_gives_for_penicillin() -> None:
    i = np.arange(144)
    found = reml(numbers(PENICILLIN), {"plate": i // 6, "sample": i % 6})
    # lme4's documentation: 0.8467, 1.9316, 0.5499, REML criterion 330.8606 (MixedModels.jl has more digits).
    expected = {"plate": 0.846706, "sample": 1.931556, "residual": 0.549923}
    assert deviations(found) == pytest.approx(expected, rel=1e-4)
    assert found.deviance == pytest.approx(330.860589, abs=1e-4)


def test_nested_components_are_those_that_lme4_gives_for_pastes_absorbed_or_not() -> None:
    i = np.arange(60)
    effects = {"batch": i // 6, "sample": i // 2}
    for how in ({}, {"cell": "sample"}, {"blocks": i // 6}):
        found = reml(numbers(PASTES), effects, **how)
        # lme4's documentation: sample 2.9041, batch 1.2874, residual 0.8234; REML criterion 246.9907.
        assert deviations(found) == pytest.approx({"batch": 1.2874, "sample": 2.9041, "residual": 0.8234}, rel=1e-4)
        assert found.deviance == pytest.approx(246.9907, abs=1e-3)


def test_a_component_that_the_data_put_below_zero_is_zero_with_an_upper_bound() -> None:
    # Four groups whose means differ less than their members do: the ANOVA estimate is (MSB - MSW) / 3 < 0.
    y = [1.0, 5.0, 9.0, 2.0, 5.0, 8.0, 1.0, 6.0, 8.0, 2.0, 4.0, 9.0]
    found = reml(y, {"group": np.arange(12) // 3})
    assert found.variance["group"] == 0 and found.se("group") is None
    assert found.variance["residual"] == pytest.approx(np.var(y, ddof=1), rel=1e-6)
    lo, hi = found.interval("group")
    assert lo == 0 and hi > 0.5


def drawn(seed: int, shape: tuple[int, int, int, int], sd: dict[str, float], keep: float = 1.0):
    """Scores of rows x dimensions x tasks x seeds as a sum of normal effects; some cells and runs are missing."""
    rng = np.random.default_rng(seed)
    _, dims, tasks, _ = shape
    r, d, t, _ = (a.ravel() for a in np.meshgrid(*map(np.arange, shape), indexing="ij"))
    task = d * tasks + t
    effects = {"row": r, "dimension": d, "task": task, "row_x_dimension": r * dims + d}
    effects |= {"row_x_task": r * dims * tasks + task}
    y = rng.normal(0, sd["residual"], r.size)
    for name, of in effects.items():
        y += rng.normal(0, sd[name], of.max() + 1)[of]
    kept = (rng.random(effects["row_x_task"].max() + 1) < keep)[effects["row_x_task"]] & (rng.random(r.size) < keep)
    return y[kept], {name: of[kept] for name, of in effects.items()}


SD = {"row": 0.5, "dimension": 0.6, "task": 0.6, "row_x_dimension": 0.4, "row_x_task": 0.5, "residual": 0.7}


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), rows=st.integers(4, 8), tasks=st.integers(3, 8), seeds=st.integers(2, 3))
def test_balanced_data_have_the_components_of_the_analysis_of_variance(seed, rows, tasks, seeds) -> None:
    sd = {name: v if name in ("row", "task", "row_x_task", "residual") else 0.0 for name, v in SD.items()}
    y, effects = drawn(seed, (rows, 1, tasks, seeds), sd)
    x = y.reshape(rows, tasks, seeds)
    m, r, t, c = x.mean(), x.mean((1, 2)), x.mean((0, 2)), x.mean(2)
    # Expected mean squares of the crossed two-way layout (Searle, Casella and McCulloch 1992, section 4.3).
    ms_r = tasks * seeds * ((r - m) ** 2).sum() / (rows - 1)
    ms_t = rows * seeds * ((t - m) ** 2).sum() / (tasks - 1)
    ms_c = seeds * ((c - r[:, None] - t + m) ** 2).sum() / ((rows - 1) * (tasks - 1))
    ms_e = ((x - c[:, :, None]) ** 2).sum() / (rows * tasks * (seeds - 1))
    expected = [(ms_r - ms_c) / (tasks * seeds), (ms_t - ms_c) / (rows * seeds), (ms_c - ms_e) / seeds, ms_e]
    names = ("row", "task", "row_x_task")
    found = reml(y, {name: effects[name] for name in names}, cell="row_x_task")
    if min(expected) > 0.01:  # REML is the analysis of variance where that is inside
        assert [*found.variance.values()] == pytest.approx(expected, rel=2e-3)
    assert min(found.variance.values()) >= 0


def test_incomplete_crossed_data_agree_with_statsmodels() -> None:
    import statsmodels.api as sm

    y, effects = drawn(3, (6, 1, 7, 2), SD, keep=0.8)
    kept = {name: effects[name] for name in ("row", "task", "row_x_task")}
    found = reml(y, kept, cell="row_x_task")
    parts = {name: np.eye(of.max() + 1)[of] for name, of in kept.items()}
    parts = {name: z[:, z.any(axis=0)] for name, z in parts.items()}
    names = [*parts]
    spec = sm.regression.mixed_linear_model.VCSpec(
        names, [[[str(i) for i in range(parts[n].shape[1])]] for n in names], [[parts[n]] for n in names]
    )
    groups = np.zeros(len(y))
    other = sm.MixedLM(y, np.ones((len(y), 1)), groups, exog_re=None, exog_vc=spec).fit(reml=True)
    assert [found.variance[n] for n in names] == pytest.approx(list(other.vcomp), rel=5e-3)
    assert found.variance["residual"] == pytest.approx(other.scale, rel=5e-3)


def test_blocks_and_absorption_change_no_number() -> None:
    y, effects = drawn(5, (6, 3, 5, 3), SD, keep=0.8)
    plain = reml(y, effects)
    quick = reml(y, effects, cell="row_x_task", blocks=effects["dimension"])
    assert quick.deviance == pytest.approx(plain.deviance, abs=1e-6)
    assert quick.variance == pytest.approx(plain.variance, rel=1e-3)
    assert quick.se("task") == pytest.approx(plain.se("task"), rel=1e-2)


def test_runs_within_cells_are_absorbed_too() -> None:
    rng = np.random.default_rng(1)
    row, task, run, judge = (a.ravel() for a in np.meshgrid(*map(np.arange, (6, 8, 2, 3)), indexing="ij"))
    cell, runs = row * 8 + task, (row * 8 + task) * 2 + run
    effects = {"row": row, "judge": judge, "row_x_task": cell, "seed": runs}
    y = sum(rng.normal(0, s, of.max() + 1)[of] for s, of in zip((0.6, 0.4, 0.5, 0.5), effects.values(), strict=True))
    y = y + rng.normal(0, 0.5, row.size)
    kept = rng.random(row.size) < 0.8
    effects = {name: of[kept] for name, of in effects.items()}
    plain = reml(y[kept], effects)
    quick = reml(y[kept], effects, cell="row_x_task", run="seed")
    assert quick.deviance == pytest.approx(plain.deviance, abs=1e-6)
    assert quick.variance == pytest.approx(plain.variance, rel=1e-3, abs=1e-6)


def test_a_known_truth_is_recovered_with_cells_and_runs_missing() -> None:
    found = [
        reml(y, e, cell="row_x_task", blocks=e["dimension"])
        for y, e in (drawn(seed, (15, 3, 10, 3), SD, keep=0.7) for seed in range(10))
    ]
    for name, sd in SD.items():
        estimates = np.array([f.variance[name] for f in found])
        error = estimates.std(ddof=1) / math.sqrt(len(estimates))
        assert abs(estimates.mean() - sd**2) < 4 * error, name
    # And the standard error is that of estimates over data sets, within what ten of them can say.
    tasks = [f.se("row_x_task") for f in found]
    spread = np.std([f.variance["row_x_task"] for f in found], ddof=1)
    assert 0.5 < np.mean(tasks) / spread < 2


def test_adding_a_constant_and_scaling_scores_scales_components() -> None:
    y, effects = drawn(2, (6, 2, 5, 2), SD)
    one, two = reml(y, effects, cell="row_x_task"), reml(100 + 10 * y, effects, cell="row_x_task")
    assert [v * 100 for v in one.variance.values()] == pytest.approx([*two.variance.values()], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("y", "words"),
    [([1.0] * 6, "do not vary"), ([1, 2, math.nan, 3, 4, 5], "missing"), ([1, 1, 2, 2, 3, 3], "residual")],
)
def test_what_cannot_be_estimated_is_one_line(y, words) -> None:
    with pytest.raises(TableError, match=words):
        reml(y, {"group": [0, 0, 1, 1, 2, 2]})


# -- the estimator ----------------------------------------------------------------------------------------


def scored(values: np.ndarray, dims: int = 1) -> pl.DataFrame:
    """Runs with these test scores, shape (rows, tasks, seeds), all tasks solved alone."""
    rows, tasks, seeds = values.shape
    per = tasks // dims
    out = []
    for r in range(rows):
        for t in range(tasks):
            name = f"d{t // per}:{t:02}"
            out.append(testing.run(f"m{r}", name, "alone"))
            out += [testing.run(f"m{r}", name, "test", float(values[r, t, s]), s) for s in range(seeds)]
    return testing.runs(out)


def fractions(seed: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Graded scores with effects of row, task and their cell."""
    rng = np.random.default_rng(seed)
    rows, tasks, _ = shape
    x = 0.5 + rng.normal(0, 0.1, (rows, 1, 1)) + rng.normal(0, 0.1, (1, tasks, 1))
    x = x + rng.normal(0, 0.08, (rows, tasks, 1)) + rng.normal(0, 0.1, shape)
    return np.clip(x, 0, 1)


def test_coefficients_of_a_crossed_design_are_the_intraclass_correlations_of_shrout_and_fleiss() -> None:
    found = cilab.variance_components(scored(np.array(SHROUT, float)[:, :, None] / 10))
    # Published: ICC(3,4) = .91 is the generalizability, ICC(2,4) = .62 the dependability of the mean of four.
    assert found.quantity("generalizability") == pytest.approx(icc(SHROUT, form="ICC(C,k)").value, abs=2e-4)
    assert found.quantity("dependability") == pytest.approx(icc(SHROUT, form="ICC(A,k)").value, abs=2e-4)
    assert round(found.quantity("generalizability"), 2) == 0.91 and round(found.quantity("dependability"), 2) == 0.62
    # The interval is near Feldt's exact one, which the F of ICC(C,k) gives: 0.68 to 0.99.
    line = found.reliability.row(0, named=True)
    exact = icc(SHROUT, form="ICC(C,k)")
    assert line["lo"] == pytest.approx(exact.lo, abs=0.08) and line["hi"] == pytest.approx(exact.hi, abs=0.03)


def test_the_design_at_hand_is_the_line_of_the_d_study_with_its_numbers() -> None:
    found = cilab.variance_components(
        scored(fractions(0, (6, 10, 3)), dims=2), tasks_per_dimension=[5, 20], seeds=[1, 3]
    )
    line = found.d_study.filter(tasks_per_dimension=5, seeds=3).row(0, named=True)
    assert line["runs_per_row"] == 30 and line["judges"] is None
    for name in ("generalizability", "dependability"):
        assert line[name] == pytest.approx(found.quantity(name), rel=1e-9)
    assert line["se_score_points"] == pytest.approx(found.quantity("se_score"), rel=1e-9)
    assert line["se_difference_points"] == pytest.approx(found.quantity("se_difference"), rel=1e-9)
    # By hand from the components.
    v = {n: found.value(n) or 0.0 for n in ("task", "row_x_task", "seed")}
    error = (v["row_x_task"] / 5 + v["seed"] / 15) / 2
    assert line["se_difference_points"] == pytest.approx(100 * math.sqrt(2 * error), rel=1e-9)
    assert line["se_score_points"] == pytest.approx(100 * math.sqrt(error + v["task"] / 10), rel=1e-9)


def test_more_of_anything_never_makes_a_score_less_certain() -> None:
    found = cilab.variance_components(simulated_release(scale=0.2))
    for _, part in found.d_study.group_by("seeds"):
        curve = part.sort("tasks_per_dimension")
        assert (curve["se_score_points"].diff().drop_nulls() < 0).all()
        assert (curve["dependability"].diff().drop_nulls() > 0).all()


def test_the_standard_error_of_a_row_is_the_spread_of_its_score_over_new_tasks() -> None:
    # Known components; each data set has new tasks and runs, the rows and their deviations by dimension stay.
    rng = np.random.default_rng(7)
    ability = rng.normal(0, 0.1, (8, 1, 1))
    scores, errors = [], []
    for _ in range(40):
        x = 0.5 + ability + rng.normal(0, 0.07, (1, 12, 1)) + rng.normal(0, 0.05, (8, 12, 1))
        x = np.clip(x + rng.normal(0, 0.08, (8, 12, 2)), 0, 1)
        scores.append(100 * x.mean((1, 2)))
    found = cilab.variance_components(scored(x))
    errors = found.rows["se_points"].to_numpy()
    expected = 100 * math.sqrt(0.07**2 / 12 + 0.05**2 / 12 + 0.08**2 / 24)
    assert np.std(scores, axis=0, ddof=1).mean() == pytest.approx(expected, rel=0.15)  # the simulation is what it says
    assert errors == pytest.approx([expected] * 8, rel=0.4)


def test_rows_that_count_other_tasks_have_their_own_standard_errors() -> None:
    frame = scored(fractions(1, (5, 12, 2)))
    few = frame.filter(~((pl.col("model") == "m0") & (pl.col("task_id") >= "d0:04")))
    found = cilab.variance_components(few)
    by_row = dict(found.rows.select("row", "se_points").iter_rows())
    assert by_row["m0"] > 1.5 * by_row["m1"] and by_row["m1"] == pytest.approx(by_row["m4"])
    assert found.rows["n_tasks"].to_list() == [4, 12, 12, 12, 12]


def test_family_variance_is_found_where_tasks_have_families() -> None:
    rng = np.random.default_rng(4)
    family = np.repeat(np.arange(10), 4)
    x = 0.5 + rng.normal(0, 0.05, (12, 1, 1)) + rng.normal(0, 0.15, 10)[family][None, :, None]
    x = np.clip(x + rng.normal(0, 0.05, (1, 40, 1)) + rng.normal(0, 0.08, (12, 40, 2)), 0, 1)
    frame = scored(x).with_columns(family=pl.format("f{}", pl.col("task_id").str.slice(3).cast(pl.Int64) // 4))
    found = cilab.variance_components(frame)
    assert found.parameters["cluster_column"] == "family" and found.value("family") > 2 * found.value("task")
    without = cilab.variance_components(frame, cluster="task")
    assert "family" not in without.table["component"] and without.value("task") > found.value("task")
    # By hand: 20 tasks are 5 families of 4.
    v = {n: found.value(n) for n in ("family", "task", "row_x_family", "row_x_task", "seed")}
    error = (v["family"] + v["row_x_family"]) / 5 + (v["task"] + v["row_x_task"] + v["seed"] / 3) / 20
    line = found.d_study.filter(tasks_per_dimension=20, seeds=3).row(0, named=True)
    assert line["se_score_points"] == pytest.approx(100 * math.sqrt(error), rel=1e-9)


def test_a_judge_that_is_harsh_is_a_component_of_its_own() -> None:
    rng = np.random.default_rng(5)
    frame = scored(fractions(2, (8, 10, 2)))
    tests = frame.filter(version="test")
    harsh = {"a": 0.0, "b": -0.15, "c": 0.15, "d": -0.1}
    lines = [
        {"run_id": i, "judge": j, "score": min(1.0, max(0.0, s + h + rng.normal(0, 0.02)))}
        for i, s in tests.select("run_id", "score").iter_rows()
        for j, h in harsh.items()
    ]
    found = cilab.variance_components(frame, ratings=pl.DataFrame(lines), judges=[1, 4])
    assert found.value("judge") == pytest.approx(np.var([*harsh.values()], ddof=1), rel=0.3)
    assert found.value("residual") < 0.002 and found.value("seed") > 0.005
    assert set(found.d_study["judges"]) == {1, 4} and found.n_used == tests.height
    one, four = (found.d_study.filter(judges=j, tasks_per_dimension=30, seeds=3).row(0, named=True) for j in (1, 4))
    assert one["se_score_points"] > 1.5 * four["se_score_points"]  # a harsh judge moves all rows alike
    assert one["generalizability"] == pytest.approx(four["generalizability"], abs=0.02)


def test_labels_of_two_judges_are_ratings() -> None:
    data = simulated_release(scale=0.2)
    found = cilab.variance_components(data, ratings="labels", dimensions=["handling_conflict", "taking_initiative"])
    line = found.table.filter(component="judge").row(0, named=True)
    assert line["n_levels"] == 2 and line["no_interval"] == "too few: 2 judges"
    assert found.n_used + sum(found.n_left_out.values()) == data.runs.collect().height


# -- what is not identified -------------------------------------------------------------------------------


def reasons(found: VarianceComponents) -> dict[str, str | None]:
    return dict(found.table.select("component", "reason").iter_rows())


def test_one_row_has_the_error_of_a_score_and_no_reliability() -> None:
    found = cilab.variance_components(scored(fractions(3, (1, 12, 3))))
    assert reasons(found)["row"] == "one row" and found.value("row") is None
    assert reasons(found)["row_x_task"] == "cannot be told from task: the two coincide in these data"
    assert found.quantity("se_score") > 0 and found.quantity("generalizability") is None
    assert found.d_study["dependability"].null_count() == found.d_study.height


def test_one_task_a_dimension_has_no_error_of_a_score() -> None:
    found = cilab.variance_components(scored(fractions(3, (6, 2, 3)), dims=2))
    assert reasons(found)["task"] == "cannot be told from dimension: one task a dimension"
    assert found.quantity("se_score") is None and found.d_study.is_empty()
    assert set(found.reliability["reason"]) == {"one task a dimension: how much tasks differ cannot be told"}


def test_one_seed_leaves_the_row_by_task_in_the_residual_and_says_so() -> None:
    found = cilab.variance_components(scored(fractions(3, (6, 12, 1))), seeds=[1, 3])
    assert reasons(found)["row_x_task"] == "cannot be told from seed: one run of a task"
    assert reasons(found)["seed"] == "holds row × task too"
    assert set(found.d_study["seeds"]) == {1} and any("run twice" in note for note in found.notes())


def test_repeats_that_never_differ_have_no_seed_variance() -> None:
    found = cilab.variance_components(scored(np.repeat(fractions(3, (6, 12, 1)), 3, axis=2)))
    line = found.table.filter(component="seed").row(0, named=True)
    assert line["variance"] == 0 and line["no_interval"] == "repeats never differ" and line["lo"] is None
    assert found.value("row_x_task") > 0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_equal_scores_have_no_components_and_the_reason(value: float) -> None:
    found = cilab.variance_components(scored(np.full((3, 6, 2), value)))
    assert found.table["variance"].null_count() == found.table.height
    assert set(found.table["reason"]) == {"all scores are equal"} and found.d_study.is_empty()
    assert "all scores are equal" in repr(found)


def test_rows_that_pass_the_same_tasks_leave_no_residual_and_it_is_said() -> None:
    passed = np.broadcast_to((np.arange(8) % 2)[None, :, None], (4, 8, 2)).astype(float)
    found = cilab.variance_components(scored(passed))
    assert found.table["variance"].null_count() == found.table.height
    assert set(found.table["reason"]) == {"the effects leave no residual"}


def test_two_rows_have_components_without_an_interval_of_the_row() -> None:
    found = cilab.variance_components(scored(fractions(8, (2, 15, 2))))
    line = found.table.filter(component="row").row(0, named=True)
    assert line["lo"] is None and line["no_interval"] == "too few: 2 rows"
    assert found.reliability.filter(quantity="generalizability")["lo"][0] is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ratings": "label"}, "ratings is 'label'"),
        ({"ratings": pl.DataFrame({"run_id": ["x"], "judge": ["a"]})}, "ratings: missing column score"),
        ({"ratings": pl.DataFrame({"run_id": ["x"], "judge": ["a"], "score": [1.0]})}, "no judge scored a run"),
        ({"ratings": pl.DataFrame({"run_id": ["x"], "judge": ["a"], "score": [50.0]})}, "outside 0 to 1"),
        ({"ratings": pl.DataFrame({"run_id": ["x"] * 2, "judge": ["a"] * 2, "score": [1.0, 0]})}, "twice"),
        ({"cluster": "colour"}, "cluster: no column 'colour'"),
        ({"cluster": "source_family"}, "tasks have no source_family"),
        ({"seeds": [0]}, "seeds is \\[0\\]: give whole numbers"),
        ({"judges": "three"}, "judges is 'three'"),
    ],
)
def test_bad_arguments_are_one_line(more, words) -> None:
    with pytest.raises(TableError, match=words) as e:
        cilab.variance_components(scored(fractions(0, (3, 4, 2))), **more)
    assert "\n" not in str(e.value)


def test_a_task_in_two_families_is_refused_and_the_published_round_too() -> None:
    frame = scored(fractions(0, (3, 4, 2))).with_columns(family=pl.col("model"))
    with pytest.raises(TableError, match="has 3 values of family"):
        cilab.variance_components(frame)
    with pytest.raises(TableError, match="pairs rows by task"):
        cilab.variance_components(published_round("2026-10-09"))


def test_every_run_is_counted_once() -> None:
    data = simulated_release(scale=0.2)
    found = cilab.variance_components(data)
    g = grid(data)
    assert (found.n_used, dict(found.n_left_out)) == (g.n_used, dict(g.n_left_out))
    assert found.table["share_pct"].sum() == pytest.approx(100)
