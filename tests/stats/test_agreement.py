"""Agreement: R's numbers, tables worked by hand, second implementations from the definitions, and where none exists.

The golden numbers are those of tests/golden/agreement.json (R packages irr and psych; irr's two errors are marked).
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import TableError
from cilab.core.tables import TABLES
from cilab.datasets.dataset import Dataset
from cilab.stats.judges import agreement as agree

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden" / "agreement.json").read_text())
SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared"))
#: Three coders and fifteen units; the worked example of the encyclopedia article on Krippendorff's alpha.
KRIPPENDORFF = [
    [None, None, None, None, None, 3, 4, 1, 2, 1, 1, 3, 3, None, 3],
    [1, None, 2, 1, 3, 3, 4, 3, None, None, None, None, None, None, None],
    [None, None, 2, 1, 3, 4, 4, None, 2, 1, 1, 3, 3, None, 4],
]
#: Six subjects, four judges (Shrout and Fleiss 1979, table 2).
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]

ratings = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.lists(st.integers(1, 4), min_size=raters, max_size=raters), min_size=2, max_size=20)
)


def golden_rows(name: str) -> list[list[str]]:
    path = SHARED / "golden" / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/golden (or the folder that CILAB_SHARED names)")
    return list(csv.reader(path.open()))[1:]


def anxiety() -> list[list[int]]:
    return [[int(v) for v in row] for row in golden_rows("anxiety.csv")]


# -- against R --------------------------------------------------------------------------------------------


def test_fleiss_kappa_and_its_z_are_rs() -> None:
    kappa = agree.fleiss_kappa(golden_rows("diagnoses.csv"))
    assert kappa.value == pytest.approx(GOLDEN["fleiss"]["kappa"], rel=1e-11)
    assert kappa.detail["z"] == pytest.approx(GOLDEN["fleiss"]["z"], rel=1e-11)
    assert (kappa.n_subjects, kappa.n_raters) == (GOLDEN["fleiss"]["subjects"], GOLDEN["fleiss"]["raters"])


def test_cohens_kappa_weighted_and_not_is_rs() -> None:
    rows, golden = golden_rows("diagnoses.csv"), GOLDEN["cohen_diag_raters_2_3"]
    kappa = agree.cohen_kappa([r[1] for r in rows], [r[2] for r in rows])
    assert kappa.value == pytest.approx(golden["kappa"], rel=1e-11)
    assert kappa.detail["z"] == pytest.approx(golden["z"], rel=1e-11)
    assert kappa.detail["p"] == pytest.approx(golden["p"], rel=1e-3)  # R subtracts a probability from 1 here
    first, second, _ = zip(*anxiety(), strict=True)
    for weights in ("linear", "quadratic"):
        value = agree.cohen_kappa(first, second, weights=weights).value
        assert value == pytest.approx(GOLDEN[f"cohen_anx_12_{weights}"], rel=1e-11)


def test_the_mean_of_cohens_kappas_is_lights() -> None:
    columns = list(zip(*golden_rows("diagnoses.csv"), strict=True))
    kappas = [agree.cohen_kappa(a, b).value for a, b in itertools.combinations(columns, 2)]
    assert np.mean(kappas) == pytest.approx(GOLDEN["light"], rel=1e-11)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_krippendorffs_alpha_is_that_of_the_definition_and_not_irrs(level: str) -> None:
    value = agree.krippendorff(anxiety(), level=level).value
    assert value == pytest.approx(GOLDEN["kripp_anxiety"][level], rel=1e-12)
    assert value != pytest.approx(GOLDEN["kripp_anxiety_irr_WRONG"][level], abs=1e-3)


def test_all_six_intraclass_correlations_and_their_intervals_are_psychs() -> None:
    names = {"ICC1": "ICC(1)", "ICC1k": "ICC(k)", "ICC2": "ICC(A,1)", "ICC2k": "ICC(A,k)"}
    names |= {"ICC3": "ICC(C,1)", "ICC3k": "ICC(C,k)"}
    forms = agree.icc_forms(anxiety())
    for golden in GOLDEN["icc_psych"]:
        ours = forms[names[golden["type"]]]
        assert ours.value == pytest.approx(golden["ICC"], rel=1e-10)
        assert (ours.lo, ours.hi) == pytest.approx((golden["lower bound"], golden["upper bound"]), rel=1e-9)
        assert ours.detail["F"] == pytest.approx(golden["F"], rel=1e-10)
        assert (ours.detail["df1"], ours.detail["df2"]) == (golden["df1"], golden["df2"])
        assert ours.detail["p"] == pytest.approx(golden["p"], rel=1e-9)
    # The absolute agreement of means: irr multiplies by k twice.
    assert forms["ICC(A,k)"].lo != pytest.approx(GOLDEN["icc_irr"]["ICC(A,3)"]["lb"], abs=1e-3)


# -- published and worked by hand -------------------------------------------------------------------------


def test_shrout_and_fleiss_six_coefficients() -> None:
    forms = agree.icc_forms(SHROUT_FLEISS)
    printed = {"ICC(1)": 0.17, "ICC(A,1)": 0.29, "ICC(C,1)": 0.71, "ICC(k)": 0.44, "ICC(A,k)": 0.62, "ICC(C,k)": 0.91}
    assert {form: round(forms[form].value, 2) for form in printed} == printed


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.691), ("interval", 0.811)])
def test_krippendorffs_alpha_with_missing_ratings_is_that_of_a_worked_example(level: str, printed: float) -> None:
    units = list(zip(*KRIPPENDORFF, strict=True))
    alpha = agree.krippendorff(units, level=level)
    assert alpha.value == pytest.approx(printed, abs=0.0006)
    assert alpha.n_left_out == {"with fewer than two ratings": 3}


def test_kappa_worked_by_hand() -> None:
    # 50 grants, 20 both yes, 15 both no, 5 and 10 apart: observed 0.70, expected 0.5 * 0.6 + 0.5 * 0.4 = 0.50.
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    kappa = agree.cohen_kappa(a, b)
    assert (kappa.value, kappa.raw) == (pytest.approx(0.4), pytest.approx(0.7))


def test_the_papers_people_and_judges_give_its_raw_agreement_and_interval() -> None:
    # 33 of 40 messages: 82.5 % (95 % bootstrap interval 70.0 to 92.5); collaborative-intelligence paper, section C.2.
    raw = agree.raw_agreement([["a", "a"]] * 33 + [["a", "b"]] * 7, resamples=20_000, seed=1)
    assert (raw.value, raw.lo, raw.hi) == (0.825, pytest.approx(0.70, abs=0.013), pytest.approx(0.925, abs=0.013))


def test_the_papers_leniency_test_and_the_share_it_could_detect() -> None:
    # 1 of 52 against 6 of 128, detectable about 19 % (section C.2 of the same paper). It prints p = 0.68; it is 0.675.
    lenient = [True] + [False] * 51 + [True] * 6 + [False] * 122
    judges = [[False, False, False, True] if hit else [True, False, False, True] for hit in lenient]
    result = agree.leniency_test([True] * 180, judges, [True] * 52 + [False] * 128)
    assert (result.n_own, result.lenient_own, result.n_other, result.lenient_other) == (52, 1, 128, 6)
    assert result.test.p == pytest.approx(0.675, abs=0.0005)
    assert result.detectable == pytest.approx(0.19, abs=0.006)
    assert result.majority == 3


@pytest.mark.parametrize(("n_own", "n_other", "hits"), [(14, 9, 1), (5, 30, 4), (20, 20, 0)])
def test_the_detectable_share_is_that_of_counting_every_table(n_own: int, n_other: int, hits: int) -> None:
    # In whole numbers: the ways to have i of the own and j of the other messages lenient, and the tables they reject.
    def ways(i: int, j: int) -> int:
        return math.comb(n_own, i) * math.comb(n_other, j)

    def rejects(i: int, j: int) -> bool:
        same = [ways(k, i + j - k) for k in range(max(0, i + j - n_other), min(n_own, i + j) + 1)]
        p = sum(w for w in same if w <= ways(i, j)) / sum(same)
        return p <= 0.05 and i * n_other > j * n_own

    base = hits / n_other
    found = [(i, j) for i in range(n_own + 1) for j in range(n_other + 1) if rejects(i, j)]

    def power(share: float) -> float:
        chances = (
            ways(i, j) * share**i * (1 - share) ** (n_own - i) * base**j * (1 - base) ** (n_other - j) for i, j in found
        )
        return math.fsum(chances)

    final = [True] * (n_own + n_other)
    judges = [[True] * 4] * n_own + [[False] * 4] * hits + [[True] * 4] * (n_other - hits)
    result = agree.leniency_test(final, judges, [True] * n_own + [False] * n_other)
    assert power(result.detectable) >= 0.8 > power(result.detectable - 0.001)


def test_a_label_that_does_not_give_way_is_never_lenient_and_missing_judges_are_counted() -> None:
    rows = [(False, [False] * 4, True), (True, [False] * 4, True), (True, [None, False, False, False], False)]
    result = agree.leniency_test(*map(list, zip(*rows, strict=True)))
    assert (result.lenient_own, result.n_own, result.n_other) == (1, 2, 0)
    assert result.n_left_out == {"without a label of every judge": 1}
    assert result.detectable is None and result.test.reason is not None


def test_a_majority_is_the_most_frequent_label_and_a_tie_is_none() -> None:
    assert agree.majority_label([["a", "b", "a"], ["a", "b", None], [None, None, "c"], [None] * 3]) == [
        "a",
        None,
        "c",
        None,
    ]
    against = agree.majority_vs_reference([["a", "a"], ["a", "b"], ["b", "b"]], ["a", "a", "a"], resamples=50)
    assert against["raw"].value == 0.5
    assert against["raw"].n_left_out == {"with a missing rating": 1}


# -- second implementations -------------------------------------------------------------------------------


def cohen_by_counting(a: list, b: list, power: int | None = None) -> float | None:
    values = sorted(set(a) | set(b))
    place = {v: i for i, v in enumerate(values)}

    def cost(x, y) -> float:
        return float(x != y) if power is None else abs(place[x] - place[y]) ** power

    observed = sum(cost(x, y) for x, y in zip(a, b, strict=True)) / len(a)
    expected = sum(cost(x, y) for x in a for y in b) / len(a) ** 2
    return None if expected == 0 else 1 - observed / expected


def fleiss_by_counting(rows: list[list]) -> float | None:
    m = len(rows[0])
    agreeing = sum(x == y for row in rows for x, y in itertools.permutations(row, 2)) / (len(rows) * m * (m - 1))
    shares = [n / (len(rows) * m) for n in Counter(v for row in rows for v in row).values()]
    chance = sum(s * s for s in shares)
    return None if chance == 1 else (agreeing - chance) / (1 - chance)


def alpha_by_pairs(rows: list[list], level: str) -> float | None:
    """Krippendorff's alpha from all ordered pairs of values, as the definition has it."""
    units = [[v for v in row if v is not None] for row in rows]
    units = [u for u in units if len(u) > 1]
    values = [v for u in units for v in u]
    counts = Counter(values)

    def delta(x, y) -> float:
        if level == "nominal":
            return float(x != y)
        if level == "interval":
            return (x - y) ** 2
        if level == "ratio":
            return ((x - y) / (x + y)) ** 2
        low, high = sorted((x, y))
        between = sum(n for v, n in counts.items() if low <= v <= high)
        return (between - (counts[low] + counts[high]) / 2) ** 2 if low != high else 0.0

    observed = sum(delta(x, y) / (len(u) - 1) for u in units for x, y in itertools.permutations(u, 2)) / len(values)
    expected = sum(delta(x, y) for x, y in itertools.permutations(values, 2)) / (len(values) * (len(values) - 1))
    return None if expected == 0 else 1 - observed / expected


def same(value: float | None, other: float | None) -> bool:
    return value is other is None or (
        value is not None and other is not None and value == pytest.approx(other, rel=1e-9, abs=1e-9)
    )


@settings(max_examples=80, deadline=None)
@given(ratings)
def test_kappas_agree_with_counting_all_pairs(rows: list[list[int]]) -> None:
    a, b = [r[0] for r in rows], [r[1] for r in rows]
    assert same(agree.cohen_kappa(a, b).value, cohen_by_counting(a, b))
    for weights, power in (("linear", 1), ("quadratic", 2)):
        assert same(agree.cohen_kappa(a, b, weights=weights).value, cohen_by_counting(a, b, power))
    assert same(agree.fleiss_kappa(rows, counts=False).value, fleiss_by_counting(rows))


@settings(max_examples=80, deadline=None)
@given(ratings, st.sampled_from(["nominal", "ordinal", "interval", "ratio"]), st.randoms(use_true_random=False))
def test_alpha_agrees_with_the_definition_with_ratings_missing(rows, level: str, random) -> None:
    holed = [[v if random.random() < 0.8 else None for v in row] for row in rows]
    if not any(sum(v is not None for v in row) > 1 for row in holed):
        assert agree.krippendorff(holed, level=level).reason == "no subject with two ratings"
        return
    assert same(agree.krippendorff(holed, level=level).value, alpha_by_pairs(holed, level))


@settings(max_examples=60, deadline=None)
@given(ratings)
def test_intraclass_correlations_agree_with_regression_sums_of_squares(rows: list[list[int]]) -> None:
    x = np.array(rows, dtype=float)
    n, k = x.shape

    def residual(design: np.ndarray) -> float:
        fit = design @ np.linalg.lstsq(design, x.ravel(), rcond=None)[0]
        return float(((x.ravel() - fit) ** 2).sum())

    subjects, judges = np.repeat(np.eye(n), k, axis=0), np.tile(np.eye(k), (n, 1))
    total, within = residual(np.ones((n * k, 1))), residual(subjects)
    error = residual(np.hstack([subjects, judges]))
    msr, msw, mse = (total - within) / (n - 1), within / (n * (k - 1)), error / ((n - 1) * (k - 1))
    msc = (within - error) / (k - 1)
    forms = agree.icc_forms(rows)
    if msr > 1e-9:
        assert same(forms["ICC(1)"].value, (msr - msw) / (msr + (k - 1) * msw))
        assert same(forms["ICC(C,k)"].value, (msr - mse) / msr)
        below = msr + (k - 1) * mse + k * (msc - mse) / n
        assert same(forms["ICC(A,1)"].value, (msr - mse) / below)
    else:
        assert all(form.value is None for form in forms.values())


# -- where there is none ----------------------------------------------------------------------------------


def test_one_category_has_no_kappa_and_no_alpha_but_full_raw_agreement() -> None:
    one = [["a", "a"]] * 5
    results = [
        agree.cohen_kappa(["a"] * 5, ["a"] * 5, resamples=10),
        agree.fleiss_kappa(one, resamples=10),
        agree.krippendorff(one, resamples=10),
        agree.krippendorff([[3, 3]] * 5, level="interval"),
    ]
    for result in results:
        assert (result.value, result.lo, result.raw) == (None, None, 1.0)
        assert "one" in result.reason


def test_raters_who_all_agree_have_kappa_one_and_a_correlation_of_one_without_an_interval() -> None:
    rows = [["a", "a", "a"], ["b", "b", "b"], ["a", "a", "a"], ["c", "c", "c"]] * 3
    assert agree.fleiss_kappa(rows).value == pytest.approx(1)
    assert agree.krippendorff(rows).value == pytest.approx(1)
    for form in agree.icc_forms([[0.1, 0.1, 0.1], [0.7, 0.7, 0.7], [0.3, 0.3, 0.3]]).values():
        assert (form.value, form.lo, form.hi) == (pytest.approx(1), None, None) and "no interval" in form.reason
        assert form.detail["F"] is None


def test_subjects_that_do_not_differ_have_no_intraclass_correlation() -> None:
    for form in agree.icc_forms([[1, 2], [2, 1], [1.5, 1.5]]).values():
        assert form.value is None and "subjects do not differ" in form.reason


def test_a_constant_shift_between_raters_is_consistent_but_not_in_agreement() -> None:
    forms = agree.icc_forms([[1, 2], [2, 3], [3, 4], [5, 6]])
    assert forms["ICC(C,1)"].value == pytest.approx(1)
    assert forms["ICC(A,1)"].value < 0.99
    assert forms["ICC(A,1)"].lo < forms["ICC(A,1)"].value < forms["ICC(A,1)"].hi


def test_an_interval_undefined_in_many_resamples_is_not_given() -> None:
    # With one of 12 messages apart, over a third of the resamples miss it and use one category only.
    kappa = agree.cohen_kappa(["a"] * 12, ["a"] * 11 + ["b"], resamples=400)
    assert kappa.value == pytest.approx(0.0, abs=1e-12)
    assert kappa.lo is None and kappa.share_undefined > 0.05
    assert "of the resamples" in kappa.reason


def test_subjects_with_missing_ratings_are_counted() -> None:
    kappa = agree.cohen_kappa([1, 2, None, 1], [1, 2, 2, float("nan")])
    assert (kappa.value, kappa.n_subjects, kappa.n_left_out) == (1.0, 2, {"with a missing rating": 2})
    nothing = agree.cohen_kappa([None], ["a"])
    assert (nothing.value, nothing.reason) == (None, "no subject rated by both")


def test_pandas_and_polars_frames_with_missing_values_read_alike() -> None:
    rows = [["a", "a", None], ["a", "b", "b"], ["b", None, "b"]]
    values = [
        agree.krippendorff(data).value
        for data in (rows, pd.DataFrame(rows), pl.DataFrame(rows, orient="row"), pd.DataFrame(rows, dtype="string"))
    ]
    assert len(set(values)) == 1


# -- counts and ratings, bad input ------------------------------------------------------------------------

COUNTS = [[3, 0, 0], [0, 3, 0], [1, 2, 0], [0, 1, 2]]


def test_counts_and_ratings_give_the_same_kappa() -> None:
    rows = [[c for c, n in zip("xyz", row, strict=True) for _ in range(n)] for row in COUNTS]
    assert agree.fleiss_kappa(COUNTS, counts=True).value == pytest.approx(agree.fleiss_kappa(rows).value)


def test_counts_given_as_ratings_are_refused_and_can_be_insisted_on() -> None:
    with pytest.raises(TableError, match="every row adds up to 3: these look like counts"):
        agree.fleiss_kappa(COUNTS)
    assert agree.fleiss_kappa(COUNTS, counts=False).defined


def test_ratings_given_as_counts_and_unequal_numbers_of_raters_are_refused() -> None:
    with pytest.raises(TableError, match="needs the same number"):
        agree.fleiss_kappa([[1, 2], [2, 2], [1, 1]], counts=True)
    with pytest.raises(TableError, match="look like ratings"):
        agree.fleiss_kappa([["a", "b"]], counts=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: agree.cohen_kappa([1], [1, 2]), "they have 1 and 2 ratings"),
        (lambda: agree.cohen_kappa(["a", "b"], ["a", "b"], weights="linear"), "need an order of the categories"),
        (lambda: agree.cohen_kappa(["a"], ["c"], categories=["a", "b"]), "'c', which is not among"),
        (lambda: agree.cohen_kappa([1], [1], weights="cubic"), "None, linear, quadratic"),
        (lambda: agree.cohen_kappa("aab", "aba"), "not a text"),
        (lambda: agree.fleiss_kappa([[1], [2]]), "two raters or more"),
        (lambda: agree.krippendorff([["a", "b"]], level="interval"), "takes numbers"),
        (lambda: agree.krippendorff([["a", "b"]], level="ordinal"), "needs an order"),
        (lambda: agree.krippendorff([[-1, 2]], level="ratio"), "numbers from 0 on"),
        (lambda: agree.krippendorff([[1, 2]], level="ordinary"), "Did you mean ordinal"),
        (lambda: agree.icc([[1, None], [2, 3]]), "1 of 2 subjects lack a rating, the first at position 0"),
        (lambda: agree.icc([[1, 2]]), "needs 2 subjects"),
        (lambda: agree.icc([[1, 2], [2, 3]], form="ICC2"), "not one of"),
        (lambda: agree.icc([["a", "b"], ["b", "a"]]), "must be numbers"),
        (lambda: agree.raw_agreement([[1, 2], [1]]), "all rows of one length"),
        (lambda: agree.raw_agreement([[1, 2]], resamples=-1), "whole number from 0 on"),
        (lambda: agree.raw_agreement([[1, 2]], ci_level=95), "fraction between 0 and 1"),
        (lambda: agree.raw_agreement([[1, 2]], groups=["g", "h"]), "2 labels for 1 subjects"),
        (lambda: agree.raw_agreement([[1, 2]], groups=[None]), "missing label"),
        (lambda: agree.leniency_test([True], [[True]], [True, False]), "one row per message"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# -- properties -------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(ratings, st.randoms(use_true_random=False))
def test_order_of_subjects_and_raters_and_names_of_categories_do_not_matter(rows, random) -> None:
    shuffled = random.sample(rows, len(rows))
    columns = random.sample(range(len(rows[0])), len(rows[0]))
    new_names = dict(zip([1, 2, 3, 4], random.sample(["p", "q", "r", "s"], 4), strict=True))
    other = [[new_names[row[c]] for c in columns] for row in shuffled]
    for coefficient in (agree.fleiss_kappa, agree.krippendorff, agree.raw_agreement):
        how = {"counts": False} if coefficient is agree.fleiss_kappa else {}
        assert same(coefficient(rows, **how).value, coefficient(other, **how).value)
    swapped = agree.cohen_kappa([r[1] for r in shuffled], [r[0] for r in shuffled])
    assert same(agree.cohen_kappa([r[0] for r in rows], [r[1] for r in rows]).value, swapped.value)


@settings(max_examples=50, deadline=None)
@given(ratings, st.floats(0.1, 9), st.floats(-5, 5))
def test_intraclass_correlations_do_not_depend_on_the_unit(rows, scale: float, shift: float) -> None:
    moved = [[shift + scale * v for v in row] for row in rows]
    for one, other in zip(agree.icc_forms(rows).values(), agree.icc_forms(moved).values(), strict=True):
        assert one.value == (None if other.value is None else pytest.approx(other.value, abs=1e-6))


@settings(max_examples=40, deadline=None)
@given(ratings)
def test_no_coefficient_is_ever_nan(rows) -> None:
    results = [
        agree.fleiss_kappa(rows, counts=False, resamples=20),
        agree.krippendorff(rows, level="ordinal", resamples=20),
        agree.cohen_kappa([r[0] for r in rows], [r[1] for r in rows], resamples=20),
        *agree.icc_forms(rows).values(),
    ]
    for result in results:
        numbers = [result.value, result.lo, result.hi, result.raw, *result.detail.values()]
        assert not any(v is not None and math.isnan(v) for v in numbers)
        assert result.defined or result.reason


def test_drawing_patterns_is_drawing_subjects() -> None:
    # The share of agreeing messages among 200 is binomial / 200: its 2.5 % and 97.5 % points are known.
    from scipy import stats

    rows = [["a", "a"]] * 150 + [["a", "b"]] * 50
    raw = agree.raw_agreement(rows, resamples=40_000, seed=2)
    low, high = stats.binom.ppf([0.025, 0.975], 200, 0.75) / 200
    assert (raw.lo, raw.hi) == (pytest.approx(low, abs=0.0051), pytest.approx(high, abs=0.0051))
    each_apart = [[i, i] for i in range(150)] + [[i, -i] for i in range(200, 250)]  # 200 patterns: subjects are drawn
    other = agree.raw_agreement(each_apart, resamples=40_000, seed=2)
    assert (other.lo, other.hi) == (pytest.approx(low, abs=0.0051), pytest.approx(high, abs=0.0051))


def test_drawing_whole_groups_widens_the_interval_of_messages_that_go_together() -> None:
    rows = [["a", "a"]] * 60 + [["a", "b"]] * 20
    runs = [i // 20 for i in range(80)]
    alone = agree.raw_agreement(rows, resamples=2000)
    grouped = agree.raw_agreement(rows, resamples=2000, groups=runs)
    assert (grouped.lo, grouped.hi) == (0.25, 1.0)
    assert grouped.hi - grouped.lo > 2 * (alone.hi - alone.lo)


# -- the judges of a study --------------------------------------------------------------------------------


def study(labels: list[dict], runs: list[dict] | None = None) -> Dataset:
    """A data set with labels; two runs of two dimensions unless given."""
    runs = runs or [
        {"run_id": "r1", "dimension": "handling_conflict", "version": "test", "model": "sim:F1", "task_id": "t1"},
        {"run_id": "r2", "dimension": "taking_over", "version": "baseline", "model": "sim:O1", "task_id": "t2"},
    ]
    base = {"study": "s", "benchmark": "teamwork", "seed": 0, "status": "ok"}
    frames = {
        "runs": pl.DataFrame([base | run for run in runs], schema=TABLES["runs"].schema),
        "labels": pl.DataFrame(labels, schema=TABLES["labels"].schema),
    }
    return Dataset("labels by hand", frames, simulated=True, kind="simulated")


def judged(run: str, index: int, **raters: str | None) -> list[dict]:
    names = {"person_1": "person:1", "person_2": "person:2"}
    return [
        {
            "run_id": run,
            "index": index,
            "rater": names.get(rater, rater),
            "label": label,
            "gives_way": label == "yields",
        }
        for rater, label in raters.items()
        if label is not None
    ]


BY_HAND = [
    *judged("r1", 1, referee="asks", second="asks", final="asks", person_1="asks"),
    *judged("r1", 2, referee="asks", second="yields", third="asks", final="asks", person_2="yields"),
    *judged("r1", 3, referee="yields", second="yields", final="yields"),
    *judged("r2", 1, referee="holds", second="holds", final="holds", person_1="holds"),
    *judged("r2", 2, referee="unparsed", second="holds", final="holds"),
]


def test_judges_are_compared_overall_and_by_dimension() -> None:
    result = agree.agreement(study(BY_HAND), resamples=200)
    pair = result.table.filter(pl.col("comparison") == "referee × second").rows(named=True)
    assert [(r["group"], r["n"], r["raw"]) for r in pair] == [
        ("all", 4, 0.75),
        ("handling_conflict", 3, pytest.approx(2 / 3)),
        ("taking_over", 1, 1.0),
    ]
    # asks, asks, yields, holds against asks, yields, yields, holds: expected (2 * 1 + 1 * 2 + 1 * 1) / 16.
    assert pair[0]["kappa"] == pytest.approx((0.75 - 5 / 16) / (1 - 5 / 16))
    assert pair[2]["kappa"] is None and "one category" in pair[2]["reason"]
    assert [r["share_of_differences"] for r in pair] == [None, 1.0, 0.0]
    # The final label of r1:3, which no person saw, and both labels of r2:2, of which the referee's is none.
    assert result.n_left_out == {"answers that were no label": 1, "without another label to compare with": 3}
    assert result.n_used == len(BY_HAND) - 4
    assert set(result.sheet().cells["Group"]) == {"all", "handling conflict", "taking over"}
    assert result.provenance.simulated and "SIMULATED" in repr(result)


def test_labels_of_one_judge_alone_are_compared_with_nothing_and_not_counted_as_used() -> None:
    result = agree.agreement(study(BY_HAND), by=None, raters=["referee"], resamples=50)
    # Five labels of second, one of third and three of people against five final ones; the referee's four are not used.
    assert result.n_used == 5 + 1 + 3 + 5
    assert result.n_left_out == {"answers that were no label": 1, "without another label to compare with": 4}


def test_people_are_compared_with_the_final_label() -> None:
    people = agree.agreement(study(BY_HAND), by=None).table.filter(pl.col("comparison") == "people × final")
    assert people.select("n", "raw").row(0) == (3, pytest.approx(2 / 3))


def test_a_third_rater_asked_only_on_disagreement_is_not_taken_for_an_estimate() -> None:
    table = agree.agreement(study(BY_HAND), by=None).table
    reasons = dict(table.select("comparison", "reason").rows())
    assert "asked only where" in reasons["referee × third"]
    assert reasons["referee × second"] is None


def test_three_judges_of_whom_one_settles_disputes_have_no_alpha_for_the_reason_of_the_pairs() -> None:
    # 15 messages, of which 11 are agreed on. Of the two judges who label all, alpha by hand: 0.482.
    agreed = [judged("r1", i, referee="ab"[i % 2], second="ab"[i % 2]) for i in range(1, 12)]
    disputes = [judged("r1", 12 + i, referee="ab"[i % 2], second="ba"[i % 2], third="a") for i in range(4)]
    labels = [row for rows in [*agreed, *disputes] for row in rows]
    table = agree.agreement(study(labels), by=None, resamples=200).table
    found = {r["comparison"]: r for r in table.iter_rows(named=True)}
    two = found["referee × second"]
    assert (two["n"], two["raw"], two["reason"]) == (15, pytest.approx(11 / 15), None) and two["kappa_lo"] < two[
        "kappa"
    ]
    pairs = [(row["label"], other["label"]) for row, other, *_ in [*agreed, *disputes]]
    assert agree.krippendorff(pairs).value == pytest.approx(0.4821428571428572)
    reason = "third was asked only where referee and second differ: not an estimate for all messages"
    for name, n in (("referee × third", 4), ("second × third", 4), ("referee × second × third", 15)):
        row = found[name]
        assert (row["n"], row["reason"]) == (n, reason)
        assert [row[c] for c in ("raw", "raw_lo", "raw_hi", "kappa", "kappa_lo", "kappa_hi")] == [None] * 6


def test_judges_asked_because_of_the_final_label_are_named() -> None:
    final = [i % 2 == 0 for i in range(60)]
    fair, picked = ([(f, f) if asked(i, f) else (None, f) for i, f in enumerate(final)] for asked in (
        lambda i, f: i % 4 < 2, lambda i, f: f,
    ))  # fmt: skip
    own = [i < 30 for i in range(60)]
    assert agree.leniency_test(final, fair, own).by_label is None
    found = agree.leniency_test(final, picked, own)
    assert "labelled 30 of 30 messages whose final label favours the model and 0 of 30 of the others" in found.by_label


def test_a_rater_asked_more_often_in_disputes_has_no_estimate_and_one_asked_at_random_has() -> None:
    def labels(asked: Callable[[int], bool], name: str) -> list[dict]:
        rows = []
        for i in range(120):
            a, b = "xy"[i % 2], "xy"[(i + (i % 3 == 0)) % 2]
            rows += judged("r1", i, referee=a, second=b, final=a, **({name: a} if asked(i) else {}))
        return rows

    settles = labels(lambda i: i % 3 == 0 or i % 10 == 0, "person_1")  # every dispute, and few others
    chance = labels(lambda i: i % 4 < 2, "person_1")  # half of the disputes and half of the others
    for judges, name in (((), "people × final"), (("referee", "second", "person:1"), "referee × second × person:1")):
        raters = list(judges) or None
        biased, fair = (
            agree.agreement(study(rows), by=None, raters=raters, resamples=50).table.filter(comparison=name)
            for rows in (settles, chance)
        )
        assert (
            biased["kappa"][0] is None
            and "asked more often where referee and second differ (100%)" in biased["reason"][0]
        )
        assert fair["raw"][0] is not None and "asked" not in (fair["reason"][0] or "")


def test_other_versions_and_runs_that_are_not_there_are_counted() -> None:
    runs = [{"run_id": "r1", "version": "alone", "model": "m", "task_id": "t1"}]
    runs += [{"run_id": "r3", "version": "test", "model": "m", "task_id": "t1"}]
    more = [*BY_HAND, *judged("r3", 1, referee="asks", second="asks")]
    result = agree.agreement(study(more, runs), by="version")
    assert result.n_left_out == {"of another version": 12, "of runs that the runs table does not hold": 7}
    assert set(result.table["group"]) == {"all", "test"}


def test_resampling_runs_is_another_interval_with_the_same_estimate() -> None:
    # Of four runs two agree on all: one resample in 16 draws these alone, and one the others.
    answers = {"r1": "a", "r2": "b", "r3": "a", "r4": "b"}
    labels = [row for run, b in answers.items() for i in range(15) for row in judged(run, i, referee="a", second=b)]
    more = [{"run_id": r, "version": "test", "model": "m", "task_id": r, "dimension": "taking_over"} for r in answers]
    by_message, by_run = (
        agree.agreement(study(labels, more), by=None, resample=r, resamples=500).table.row(0, named=True)
        for r in ("message", "run")
    )
    assert by_message["raw"] == by_run["raw"] == 0.5
    assert (by_run["raw_lo"], by_run["raw_hi"]) == (0.0, 1.0)
    assert by_message["raw_lo"] > 0.3


def test_leniency_of_a_study_counts_the_messages_of_its_judges_family() -> None:
    labels = []
    for i in range(6):
        labels += judged("r1", i, final="asks", a="yields", b="yields", c="yields", d="asks")
        # Harsher than the others, or milder than half of them: neither is lenient.
        others = "asks" if i % 2 else "yields"
        labels += judged("r2", i, final="yields" if i % 2 else "asks", a=others, b=others, c="asks", d="asks")
    result = agree.leniency(
        study(labels), judges=["a", "b", "c", "d"], own_family="f", families={"sim:F1": "f", "sim:O1": "g"}
    )
    assert result.table.select("models", "n_messages", "n_lenient").rows() == [("own", 6, 6), ("other", 6, 0)]
    assert result.table.row(1)[3:] == pytest.approx((0.0, 0.0, 100 * (1 - 0.025 ** (1 / 6))))  # Clopper and Pearson
    assert result.found.test.p == pytest.approx(2 / math.comb(12, 6))
    assert (result.n_used, result.n_left_out) == (12, {})
    assert "p = 0.002" in repr(result) and "power" in repr(result) and "Used 12 messages." in repr(result)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: agree.agreement(study(BY_HAND), raters=["referee", "secnd"]), "'secnd'. Did you mean second"),
        (lambda: agree.agreement(study(BY_HAND), by="dimensoin"), "Did you mean dimension"),
        (lambda: agree.agreement(study(BY_HAND), raters="referee"), "raters is a text"),
        (lambda: agree.agreement(study(BY_HAND), resample="task"), "message, run"),
        (lambda: agree.agreement(study([])), "labels: none in this study"),
        (lambda: agree.agreement(study(BY_HAND + BY_HAND[:1])), "labelled message 1 of run r1 more than once"),
        (lambda: agree.agreement(study(BY_HAND), versions=["alone"]), "none left to compare; left out: 19 of another"),
        (
            lambda: agree.agreement(study(BY_HAND), versions=["tst"]),
            "no version 'tst' in these runs. Did you mean test",
        ),
        (lambda: agree.agreement(study(BY_HAND), versions="test"), "versions is a text"),
        (lambda: agree.agreement(study(BY_HAND), seed=-1), "seed is -1: give a whole number"),
        (lambda: agree.agreement(study(judged("r1", 1, final="a"))), "fewer than two"),
        (lambda: agree.agreement(pl.DataFrame()), "needs an opened study"),
        (lambda: agree.leniency(study(BY_HAND), judges=["gemini"], own_family="f"), "no label of rater 'gemini'"),
    ],
)
def test_a_study_that_cannot_be_compared_is_refused_in_one_line(call, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_rows_with_a_count_are_rows_repeated() -> None:
    rows, times = [["a", "a"], ["a", "b"], ["b", "b"], [None, "b"]], [5, 2, 3, 4]
    repeated = [row for row, n in zip(rows, times, strict=True) for _ in range(n)]
    for coefficient in (agree.raw_agreement, agree.krippendorff):
        one, other = coefficient(rows, times=times, resamples=100), coefficient(repeated, resamples=100)
        assert (one.value, one.lo, one.hi, one.n_left_out) == (other.value, other.lo, other.hi, other.n_left_out)
    with pytest.raises(TableError, match="one whole number from 1 on for each of the 4 subjects"):
        agree.raw_agreement(rows, times=[1, 2, 3, 0])
