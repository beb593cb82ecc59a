"""Grader agreement (appendix E): every part worked by hand or done a second time, and what graders may do wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import cilab
from cilab.core.errors import TableError
from cilab.datasets.mazes.data import simulated_mazes
from cilab.stats.judges import agreement
from cilab.stats.judges.grading import GradingResult, grader_agreement
from tests.stats.maze_runs import dataset, frame, pair, rollouts

#: Stored outcomes of ten homogeneous rollouts of two models: five successes, five failures.
STORED = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.0, -0.5, 0.75]
RUNS = [*pair("sim:A", "sim:A", STORED[:5]), *pair("sim:B", "sim:B", STORED[5:])]


def graded(name: str, outcomes: list[float | None], repeat: int = 0, runs: list[dict] | None = None) -> list[dict]:
    """A grader's rows; an outcome of None is an answer that could not be read."""
    out = []
    for run, value in zip(runs or RUNS, outcomes, strict=False):
        head = {"run_id": run["run_id"], "annotator": name, "repeat": repeat, "agent": 0}
        success = None if value is None else float(value == 1.0)
        out += [head | {"feature": "weighted_outcome", "value": value}, head | {"feature": "success", "value": success}]
        out.append(head | {"feature": "n_valid", "value": 3.0})
    return out


def changed(**changes: float | None) -> list[float | None]:
    """The stored outcomes with some others: i3=0.5 changes rollout 3."""
    return [changes.get(f"i{i}", v) for i, v in enumerate(STORED)]


FIRST = changed(i0=0.75, i5=0.6)
SECOND = changed(i0=0.5, i1=0.75, i8=0.0)
STUDY = dataset(RUNS, annotations=[*graded("one", FIRST), *graded("two", SECOND)])


def line(table: pl.DataFrame, **where) -> dict:
    return table.row(by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in where.items()), named=True)


@pytest.fixture(scope="module")
def result() -> GradingResult:
    return grader_agreement(STUDY, resamples=200)


def test_overall_agreement_is_the_chosen_correlation_and_fleiss_kappa(result) -> None:
    grades = np.array([STORED, FIRST, SECOND]).T
    icc = agreement.icc(grades, form="ICC(A,1)")
    kappa = agreement.fleiss_kappa((grades == 1).tolist(), counts=False)
    assert line(result.table, measure="weighted outcome")["value"] == pytest.approx(icc.value)
    assert line(result.table, measure="weighted outcome")["lo"] == pytest.approx(icc.lo)
    assert line(result.table, measure="binary success")["value"] == pytest.approx(kappa.value)
    assert result.raters == ("reference", "one#0", "two#0")
    assert line(result.table, measure="weighted outcome")["method"].startswith("ICC(A,1): two-way, absolute agreement")


def test_correlations_of_every_two_raters_agree_with_numpy(result) -> None:
    matrix = np.corrcoef([STORED, FIRST, SECOND])
    found = {(r["first"], r["second"]): r["r"] for r in result.correlations.iter_rows(named=True)}
    assert found["reference", "one#0"] == pytest.approx(matrix[0, 1])
    assert found["reference", "two#0"] == pytest.approx(matrix[0, 2])
    assert found["one#0", "two#0"] == pytest.approx(matrix[1, 2])


def test_the_majority_is_the_median_and_the_most_frequent_verdict(result) -> None:
    medians = np.median([STORED, FIRST, SECOND], axis=0)
    weighted = line(result.majority, measure="weighted outcome")
    # Rollout 0 is 0.75 by the median of 1, 0.75 and 0.5; nothing else changes.
    assert (weighted["n_changed"], weighted["mean_difference"]) == (1, pytest.approx(-0.025))
    assert weighted["cohen_d"] == pytest.approx(np.mean(medians - STORED) / np.std(medians - STORED, ddof=1))
    binary = line(result.majority, measure="binary success")
    assert (binary["n_changed"], binary["mean_difference"], binary["p"]) == (1, pytest.approx(-0.1), 1.0)


def test_differences_that_are_not_normal_are_compared_by_wilcoxon_and_it_says_so(result) -> None:
    weighted = line(result.majority, measure="weighted outcome")
    assert weighted["normality_p"] < 0.05
    assert weighted["method"].startswith("Wilcoxon signed-rank test")
    assert weighted["p"] == 1.0  # one difference that is not 0


def test_differences_that_look_normal_are_compared_by_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    runs = pair("sim:A", "sim:A", rng.uniform(-0.5, 0.5, 40).round(3).tolist())
    stored = np.array([r["weighted_outcome"] for r in runs])
    other = np.minimum(stored + rng.normal(0.05, 0.1, 40), 0.9)
    study = dataset(runs, annotations=graded("one", other.tolist(), runs=runs))
    weighted = line(grader_agreement(study).majority, measure="weighted outcome")
    medians = (stored + other) / 2  # the median of two
    assert weighted["normality_p"] == pytest.approx(scipy_stats.shapiro(medians - stored).pvalue, rel=1e-6)
    assert weighted["method"] == "paired t-test"
    theirs = scipy_stats.ttest_rel(medians, stored)
    assert weighted["p"] == pytest.approx(theirs.pvalue)
    assert weighted["lo"] == pytest.approx(theirs.confidence_interval().low)
    asked = grader_agreement(study, normality_alpha=0.999).majority
    assert line(asked, measure="weighted outcome")["method"].startswith("Wilcoxon")


def test_successes_and_failures_are_looked_at_apart(result) -> None:
    success, failure = result.conditional.iter_rows(named=True)
    assert (success["n"], success["n_disagree"], success["disagreement_rate"]) == (5, 2, 0.4)
    assert (failure["n"], failure["n_disagree"]) == (5, 0)
    sd = np.std([STORED, FIRST, SECOND], axis=0)  # divisor: the number of raters
    spread = np.ptp([STORED, FIRST, SECOND], axis=0)
    assert success["mean_sd"] == pytest.approx(sd[:5].mean()) and failure["mean_sd"] == pytest.approx(sd[5:].mean())
    assert success["mean_range"] == pytest.approx(spread[:5].mean())
    binary = line(result.conditional_tests, measure="binary disagreement")
    assert binary["p"] == pytest.approx(scipy_stats.fisher_exact([[2, 3], [0, 5]]).pvalue)
    assert binary["effect"] is None and "infinite" in binary["reason"]
    weighted = line(result.conditional_tests, measure="sd of weighted outcomes")
    assert weighted["p"] == pytest.approx(scipy_stats.ttest_ind(sd[:5], sd[5:], equal_var=False).pvalue)
    pooled = np.sqrt((sd[:5].var(ddof=1) + sd[5:].var(ddof=1)) / 2)
    assert weighted["effect"] == pytest.approx((sd[:5].mean() - sd[5:].mean()) / pooled)


def test_the_four_tests_are_corrected_together(result) -> None:
    p = [*result.majority["p"], *result.conditional_tests["p"]]
    adjusted = [*result.majority["p_adjusted"], *result.conditional_tests["p_adjusted"]]
    np.testing.assert_allclose(adjusted, scipy_stats.false_discovery_control(p, method="bh"))
    assert "m = 4" in result.caption


def test_each_model_has_its_own_line_and_kappa_is_undefined_where_one_verdict_is_given(result) -> None:
    a, b = (line(result.by_agent, model=m) for m in ("sim:A", "sim:B"))
    assert (a["n"], b["n"]) == (5, 5)
    assert (b["kappa"], b["raw"]) == (None, 1.0)
    assert "kappa: one category only" in b["reason"]
    grades = np.array([STORED, FIRST, SECOND]).T
    assert a["icc"] == pytest.approx(agreement.icc(grades[:5]).value)
    assert a["kappa"] == pytest.approx(agreement.fleiss_kappa((grades[:5] == 1).tolist(), counts=False).value)
    assert b["icc"] == pytest.approx(agreement.icc(grades[5:]).value)


def test_graders_who_all_agree_leave_nothing_to_test() -> None:
    notes = [*graded("one", STORED), *graded("two", STORED)]
    result = grader_agreement(dataset(RUNS, annotations=notes), resamples=50)
    assert result.table["value"].to_list() == [pytest.approx(1), pytest.approx(1)]
    weighted, binary = result.majority.iter_rows(named=True)
    assert (weighted["p"], weighted["lo"], weighted["hi"]) == (None, None, None)
    assert "no spread" in weighted["reason"]
    assert (binary["p"], binary["reason"]) == (1.0, "no discordant pair: chi-square is undefined")
    assert line(result.conditional_tests, measure="sd of weighted outcomes")["p"] is None
    assert result.repeated == ("one#0", "two#0")
    assert any("one#0 gives the reference's grade in every rollout" in note for note in result.notes())


def test_grading_failures_only_is_said_and_grading_at_random_is_not() -> None:
    stored = [1.0 if i % 2 else 0.25 for i in range(40)]
    runs = pair("sim:A", "sim:A", stored)
    notes = graded("one", stored, runs=runs)
    ids = {run["run_id"] for run, value in zip(runs, stored, strict=True) if value < 1}
    some = {run["run_id"] for run in runs[:20]}
    picked, chance = (
        grader_agreement(dataset(runs, annotations=[n for n in notes if n["run_id"] in kept]), resamples=20)
        for kept in (ids, some)
    )
    said = "Graded were 0 of 20 that succeeded and 20 of 20 that failed"
    assert picked.by_outcome.startswith(said) and any(note.startswith(said) for note in picked.notes())
    assert chance.by_outcome is None


def test_a_grader_who_left_rollouts_out_is_named_and_counted() -> None:
    notes = [*graded("one", FIRST[:7]), *graded("two", changed(i2=None))]
    result = grader_agreement(dataset(RUNS, annotations=notes), resamples=50)
    assert result.n_left_out == {"left out by one#0": 3, "with an unreadable grade by two#0": 1}
    assert result.n_used == 6


def test_rollouts_that_nobody_regraded_and_other_settings_are_counted() -> None:
    runs = [*RUNS, *rollouts("solo_full", "sim:A", None, [1.0, 0.0, None]), *pair("sim:A", "sim:B", [0.5])]
    notes = graded("one", FIRST) + graded("one", [1.0], runs=runs[10:])
    homogeneous = grader_agreement(dataset(runs, annotations=notes), setting="homogeneous", resamples=50)
    assert (homogeneous.n_used, homogeneous.n_left_out) == (10, {"of other settings than asked for": 4})
    everything = grader_agreement(dataset(runs, annotations=notes), resamples=50)
    assert everything.n_left_out == {"graded once only, not regraded": 2, "not finished with an outcome": 1}
    assert everything.n_used + sum(everything.n_left_out.values()) == len(runs)


def test_a_tie_between_an_even_number_of_raters_has_no_majority_and_is_counted() -> None:
    result = grader_agreement(dataset(RUNS, annotations=graded("one", FIRST)), resamples=50)
    binary = line(result.majority, measure="binary success")
    assert (binary["n"], binary["n_changed"]) == (9, 0)
    assert "1 rollouts without a majority left out" in binary["reason"]


def test_repeats_of_a_grader_are_raters_of_their_own_and_one_can_be_the_reference() -> None:
    notes = graded("one", STORED) + graded("one", FIRST, repeat=1) + graded("one", SECOND, repeat=2)
    study = dataset(RUNS, annotations=notes)
    intra = grader_agreement(study, graders=["one"], reference=("one", 0), resamples=50)
    assert intra.raters == ("one#0", "one#1", "one#2")
    stored = grader_agreement(study, graders=[("one", 1), ("one", 2)], resamples=50)
    assert intra.table["value"].to_list() == stored.table["value"].to_list()


def test_frames_of_annotations_and_runs_are_taken_too() -> None:
    notes, runs = STUDY.annotations.collect(), frame(RUNS)
    one = grader_agreement(STUDY, resamples=50).table
    assert grader_agreement(notes, runs=runs, resamples=50).table.equals(one)
    assert grader_agreement(notes.to_pandas(), runs=runs, resamples=50).table.equals(one)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: grader_agreement(STUDY, graders=["thre"]), "no grades by 'thre'. Known: one, two"),
        (lambda: grader_agreement(STUDY, graders=[("one", 4)]), "no grades by 'one' in repeat 4"),
        (lambda: grader_agreement(STUDY, graders="one"), "graders is a text"),
        (lambda: grader_agreement(STUDY, graders=["one"], reference=("one", 0)), "nobody is left beside the reference"),
        (lambda: grader_agreement(STUDY, reference="one"), r"reference is a text; give .*, such as \('one', 0\)"),
        (lambda: grader_agreement(STUDY, graders=[("one", 0, 1)]), "is neither a name nor"),
        (lambda: grader_agreement(STUDY, resamples=0), "resamples is 0: give a whole number of at least 20"),
        (lambda: grader_agreement(STUDY, seed=-1), "seed is -1: give a whole number of at least 0"),
        (lambda: grader_agreement(STUDY, seed=1.5), "seed is 1.5"),
        (lambda: grader_agreement(STUDY, setting="homogenous"), "Did you mean homogeneous"),
        (lambda: grader_agreement(STUDY, form="ICC2"), "form is 'ICC2'"),
        (lambda: grader_agreement(STUDY, normality_alpha=5), "normality_alpha"),
        (lambda: grader_agreement(STUDY, setting="solo"), "no rollout that every grader graded"),
        (lambda: grader_agreement(dataset(RUNS)), "annotations: no grades"),
        (lambda: grader_agreement(STUDY.annotations), "give an opened study, or a frame of annotations with runs="),
        (lambda: grader_agreement(pl.DataFrame({"run_id": ["a"]}), runs=frame(RUNS)), "missing column annotator"),
        (
            lambda: grader_agreement(dataset(RUNS, annotations=graded("one", FIRST) * 2)),
            "graded run .* twice in repeat 0",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(call: Callable[[], object], words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_graders_do_not_matter(random) -> None:
    notes = [*graded("zwei", SECOND), *graded("eins", FIRST)]
    shuffled = dataset(random.sample(RUNS, len(RUNS)), annotations=random.sample(notes, len(notes)))
    one, other = grader_agreement(STUDY, resamples=50), grader_agreement(shuffled, resamples=50)
    for name in ("table", "majority", "conditional", "conditional_tests", "by_agent"):
        assert getattr(one, name).equals(getattr(other, name))


def test_a_played_and_regraded_study_is_read_from_its_folder(tmp_path) -> None:
    text = "name: g\nblocks:\n  - benchmark: maze\n    models: [sim/F1, sim/C3]\n    mazes: {count: 3}\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    cilab.run_study(tmp_path / "s.yaml", out=tmp_path / "out", show_progress=False)
    cilab.regrade(tmp_path / "out", grader="rules", repeat=2, show_progress=False)
    result = grader_agreement(cilab.open(tmp_path / "out"), resamples=50)
    # The rules graded these rollouts in the first place: they must find the same again.
    assert result.raters == ("reference", "rules#0", "rules#1")
    assert result.n_used == 18 and result.repeated == ("rules#0", "rules#1")
    assert "SIMULATED AGENTS" in repr(result)


@pytest.mark.parametrize(
    ("setting", "graders", "icc", "kappa"),
    [
        ("solo", ["sim:grader1"], 0.99, 0.99),
        ("homogeneous", ["sim:grader1"], 0.89, 0.87),
        ("solo", ["sim:grader2", "sim:grader3"], 0.88, 0.91),
        ("homogeneous", ["sim:grader2", "sim:grader3"], 0.84, 0.77),
    ],
)
def test_the_simulated_graders_agree_as_far_as_those_of_the_paper(setting, graders, icc: float, kappa: float) -> None:
    # Appendix E's printed overall values; the simulator's error rates are set to meet them, up to its draws.
    study, first = simulated_mazes(), ("sim:grader1", 0)
    result = grader_agreement(study, graders=graders, reference=first, setting=setting, resamples=100)
    assert result.table["value"].to_list() == [pytest.approx(icc, abs=0.04), pytest.approx(kappa, abs=0.04)]
