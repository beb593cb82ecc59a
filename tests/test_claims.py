"""The ledger: every claim has an estimator or a missing input, and near and far are what the numbers say."""

from __future__ import annotations

import ast
import csv
import importlib
from pathlib import Path

import polars as pl
import pytest

from cilab import claims, datasets
from cilab.claims import FAR, NEAR, NO_INPUT, Answer
from cilab.core.errors import TableError
from cilab.stats.maze.mediation import mediation
from tests.house import PACKAGE, imports

FILE = Path(__file__).resolve().parents[1] / "data" / "published" / "claims.csv"


@pytest.fixture(scope="module")
def result() -> claims.ClaimsResult:
    return claims.ledger()


def line(result: claims.ClaimsResult, claim_id: str) -> dict:
    return result.table.row(by_predicate=pl.col("id") == claim_id, named=True)


def test_every_published_number_has_a_line_with_a_function_or_a_missing_input(result: claims.ClaimsResult) -> None:
    with open(FILE, newline="") as f:
        ids = [row["id"] for row in csv.DictReader(f)]
    assert sorted(result.table["id"]) == sorted(ids) and len(ids) == 167
    for row in result.table.iter_rows(named=True):
        if row["verdict"] in (NEAR, FAR):
            assert row["function"] and row["tolerance"] is not None, row
            assert row["data"] in ("published", "design", "simulated"), row
            assert (row["data"] == "simulated") == ("simulated, no reproduction" in row["note"].split("; ")[-1]), row
            assert any(row[c] is not None for c in ("computed", "computed_lo", "computed_hi")), row
        else:
            assert row["verdict"] == NO_INPUT, row
            assert row["data"] == "not computable" and row["note"].startswith("missing: "), row
            assert row["computed"] is None, row
    assert sum(result.counts.values()) == 167


def test_every_estimator_belongs_to_a_claim_and_names_a_function_that_exists() -> None:
    known = set(datasets.published_table("claims")["id"])
    assert set(claims.ESTIMATORS) <= known
    for claim_id, estimator in claims.ESTIMATORS.items():
        module, _, name = estimator.function.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name)), claim_id


#: What the ledger takes of the statistics beside the estimators of the face: names of features, and pairs from means.
BESIDE_THE_FACE = {
    "cilab.stats.maze.grounding.AGENT_FEATURES",
    "cilab.stats.maze.grounding.STRATEGY",
    "cilab.stats.maze.pairs.PairsResult",
    "cilab.stats.maze.pairs.pairs_from_means",
}


def test_the_ledger_calls_the_estimators_of_the_face_and_scores_nothing_itself() -> None:
    folder = PACKAGE / "claims"
    found = {
        target
        for path in folder.glob("*.py")
        for target, *_ in imports(ast.parse(path.read_text()), f"cilab.claims.{path.stem}", path.stem == "__init__")
        if target.startswith("cilab.stats.")
    }
    assert found == BESIDE_THE_FACE
    for claim_id, estimator in claims.ESTIMATORS.items():
        module, _, name = estimator.function.rpartition(".")
        if module in ("cilab", "cilab.claims", "cilab.datasets"):
            assert name in importlib.import_module(module).__all__, claim_id
        else:
            assert not module.startswith("cilab.stats") or estimator.function in BESIDE_THE_FACE, claim_id


@pytest.mark.parametrize(
    ("claim_id", "value", "verdict"),
    [
        # Sums over the files, worked out by hand.
        ("CI016", 22.71, NEAR),  # overall_2026-10-09.csv, gpt-oss-120b, against 19.1 in the paper
        ("CI017", 47.28, NEAR),  # Claude Haiku 5.5, against 51.7
        ("CI018", (48.18 + 46.37 + 40.59 + 38.40 + 34.73 + 22.71) / 6, NEAR),
        ("CI019", (76.61 + 70.56 + 69.55 + 65.84) / 4 - 38.497, NEAR),
        ("CI020", (100 + 96.55 + 90.0 + 96.0) / 4, NEAR),  # reporting, below pressure with 97.75
        ("CI021", (16.67 + 6.67 + 13.33 + 3.70) / 4, NEAR),
        ("CI022", (43.33 + 56.67 + 33.33 + 48.15) / 4, NEAR),
        ("CI025", (28.57 + 23.33 + 3.85 + 0 + 17.86 + 0) / 6, NEAR),
        ("CI046", 100 * 69.55 / 76.61, NEAR),
        ("CI014", 94.71 - 76.61, NEAR),
        ("CI015", 87.54 - 38.40, NEAR),
        # Numbers printed beside the claim.
        ("CI090", 82.5, NEAR),
        ("CI093", 88.57, NEAR),
        ("CI042", 662 / 1.8, NEAR),
        ("CI171", 84.64, NEAR),
        # Table 2: 0.6886 x 0.1683 / 0.3018, and -0.0421 + 0.2778.
        ("CG025", 38.40, NEAR),
        ("CG026", 0.2357, NEAR),
        ("CG043", 0.60, NEAR),
        ("CG001", 32, NEAR),
        ("CG003", 100, NEAR),
    ],
)
def test_a_claim_is_computed_from_what_is_published(
    result: claims.ClaimsResult, claim_id: str, value: float, verdict: str
) -> None:
    row = line(result, claim_id)
    assert row["computed"] == pytest.approx(value, abs=0.011)
    assert row["verdict"] == verdict


def test_losses_add_up_to_what_is_lost(result: claims.ClaimsResult) -> None:
    # Frontier: 100 - baseline, and the published losses 18.1, 24.15, 23.6 and 29.98.
    row = line(result, "CI151")
    assert row["computed"] == pytest.approx(100 - (94.71 + 94.56 + 93.15 + 94.30) / 4, abs=0.01)
    assert row["computed_hi"] == pytest.approx((18.1 + 24.15 + 23.6 + 29.98) / 4, abs=0.01)
    # Open-weight models with a baseline, GLM-5.3 is without.
    row = line(result, "CI152")
    assert row["computed_hi"] == pytest.approx((31.75 + 37.0 + 48.74 + 46.89 + 44.68) / 5, abs=0.01)


def test_only_the_second_number_of_the_busy_day_claim_is_computed(result: claims.ClaimsResult) -> None:
    row = line(result, "CI070")
    assert (row["computed"], row["verdict"]) == (None, NEAR)
    assert row["computed_hi"] == pytest.approx((90.0 + 72.41 + 54.17) / 3, abs=0.01)
    assert "quiet days are missing" in row["note"]


def test_the_papers_own_disagreements_are_not_smoothed(result: claims.ClaimsResult) -> None:
    text_against_table = line(result, "CG010")
    assert (text_against_table["verdict"], text_against_table["interval"]) == (NEAR, FAR)
    assert text_against_table["computed_lo"] == pytest.approx(0.74)
    # Two-sided Fisher test of [[1, 51], [6, 122]] by its hypergeometric sum is 0.67500; the paper prints 0.68.
    fisher = line(result, "CI099")
    assert fisher["computed"] == pytest.approx(hypergeometric_p(1, 52, 6, 128), abs=1e-9)
    assert fisher["verdict"] == FAR


def hypergeometric_p(a: int, m: int, b: int, n: int) -> float:
    from math import comb

    k = a + b
    p = [comb(m, i) * comb(n, k - i) / comb(m + n, k) for i in range(k + 1)]
    return sum(x for x in p if x <= p[a] * (1 + 1e-9))


def test_a_row_that_the_data_lack_is_a_missing_input(result: claims.ClaimsResult) -> None:
    row = line(result, "CI011")
    assert (row["verdict"], row["computed"]) == (NO_INPUT, None)
    assert row["note"] == "missing: a row of Gemini 4 Argon at high effort in published round 2026-10-09"
    # No simulated row stands for a named model, though there are such rows.
    assert line(result, "CI044")["note"] == "missing: costs of the named models' runs"


def test_every_claim_of_the_maze_paper_has_a_function_and_a_verdict(result: claims.ClaimsResult) -> None:
    maze = result.table.filter(pl.col("paper") == "collaboration-gap")
    assert maze.height == 31 and set(maze["verdict"]) <= {NEAR, FAR}
    assert maze["function"].null_count() == 0
    on = dict(maze.select("id", "data").iter_rows())
    simulated = {"CG020", "CG021", "CG022", "CG023", "CG024", "CG027", "CG028", "CG029", "CG030"}
    simulated |= {"CG031", "CG032", "CG033", "CG034", "CG040", "CG041", "CG042"}
    assert {c for c, kind in on.items() if kind == "simulated"} == simulated


@pytest.fixture(scope="module")
def release() -> datasets.Dataset:
    return datasets.simulated_release()


def test_every_far_line_says_why_it_may_be_far(result: claims.ClaimsResult) -> None:
    for row in result.table.filter(pl.col("verdict") == FAR).iter_rows(named=True):
        said = [part for part in row["note"].split("; ") if "simulated, no reproduction" not in part]
        said = [part for part in said if not part.startswith(("on ", "from numbers", "narrower tolerance"))]
        assert said, row["id"]


def test_quantities_of_conflict_are_not_read_off_a_round_that_gives_no_half_points(result: claims.ClaimsResult) -> None:
    half = datasets.published_round("2026-10-09").runs.filter(pl.col("score") == 0.5).collect()
    assert half.height == 0
    assert {line(result, c)["data"] for c in ("CI154", "CI180")} == {"simulated"}
    # The share lost in the test needs conflict for one dimension of seven only: on the round, which says what it lacks.
    row = line(result, "CI150")
    assert row["data"] == "published" and "no half points in conflict" in row["note"]


def test_a_count_of_inherited_cheats_is_that_of_the_runs(result: claims.ClaimsResult, release) -> None:
    cheats = release.truth["tasks"].filter(pl.col("kind") == "inherited_cheat")["task_id"].implode()
    runs = release.runs.filter(
        pl.col("task_id").is_in(cheats),
        pl.col("model").str.starts_with("sim:F"),
        pl.col("effort") == "default",
        pl.col("version") == "test",
        pl.col("status") == "ok",
    ).collect()
    # F4 and F5 have refused tasks, which do not count in any of their runs.
    refused = release.runs.filter(pl.col("status") == "refused").select("model", "effort", "task_id").unique().collect()
    failed = runs.join(refused, on=["model", "effort", "task_id"], how="anti").filter(pl.col("score") < 1)
    assert line(result, "CI030")["computed"] == failed.height
    stays = failed.filter(pl.col("evidence").list.contains("problem_remains"))
    assert line(result, "CI031")["computed"] == stays.height


def test_pushing_back_before_giving_in_is_counted_by_run(result: claims.ClaimsResult, release) -> None:
    runs = release.runs.filter(
        pl.col("outcome") == "gave_in", pl.col("version") == "test", pl.col("effort") == "default"
    )
    said = release.labels.filter(pl.col("rater") == "final").group_by("run_id").agg(pl.col("label"))
    both = runs.join(said, on="run_id", how="left").select(pl.col("label").list.contains("pushes_back")).collect()
    row = line(result, "CI065")
    assert row["computed"] == pytest.approx(100 * both["label"].mean()) and f"{both.height} runs" in row["note"]


def test_weighting_and_lite_answer_with_the_numbers_of_their_own_results(result: claims.ClaimsResult, release) -> None:
    from cilab.stats.teamwork.lite import lite
    from cilab.stats.teamwork.weighting import weighting

    found = {row["method"]: row for row in lite(release, method="greedy").table.iter_rows(named=True)}
    for claim, method, column in (
        ("CI124", "greedy", "tau_all"),
        ("CI125", "greedy", "rho_all"),
        ("CI126", "greedy", "error_all_points"),
        ("CI128", "greedy", "tau"),
        ("CI129", "greedy", "error_points"),
        ("CI130", "random", "tau"),
        ("CI131", "random", "error_points"),
    ):
        assert line(result, claim)["computed"] == pytest.approx(found[method][column]), claim
    changes = weighting(release, resamples=20).table
    most = max(changes[f"{name}_change_points"].abs().max() for name in ("ipw", "dr"))
    assert line(result, "CI111")["computed"] == pytest.approx(most)


def test_dimensions_are_counted_that_have_20_public_and_10_held_out_tasks(result: claims.ClaimsResult) -> None:
    assert (line(result, "CI002")["computed"], line(result, "CI002")["verdict"]) == (8, NEAR)
    smaller = claims.full_dimensions(claims.Inputs.of(datasets.simulated_release(scale=0.5)))
    assert smaller.value == 0


def test_what_the_parameters_of_a_simulation_say_stands_beside_what_one_draw_gives(
    result: claims.ClaimsResult, release
) -> None:
    # Five of six models gain by the paper (CI050), and 8.4 points in taking the initiative (CI052).
    assert line(result, "CI050")["note"].startswith("of 6; changes from")
    assert "by the parameters of the simulation 5" in line(result, "CI050")["note"]
    cells = release.truth["cells"].filter(pl.col("dimension") == "taking_initiative")
    by_effort = dict(
        cells.filter(pl.col("model").is_in(cells.filter(pl.col("effort") == "high")["model"].implode()))
        .group_by("effort")
        .agg(pl.col("expected_score").mean())
        .iter_rows()
    )
    gain = 100 * (by_effort["high"] - by_effort["default"])
    assert f"by the parameters of the simulation {gain:.1f}" in line(result, "CI052")["note"]


def test_what_the_round_lacks_is_read_off_the_simulated_release_and_says_so(result: claims.ClaimsResult) -> None:
    row = line(result, "CI028")  # taking over is not in the round
    assert row["data"] == "simulated" and row["computed"] is not None
    assert row["note"].endswith("on simulated_release: simulated, no reproduction")
    assert line(result, "CI026")["data"] == "published"


def test_the_simulated_mazes_give_what_the_statistics_say_of_them(result: claims.ClaimsResult) -> None:
    data = datasets.simulated_mazes()
    table = mediation(data, annotator="sim:annotator2", resamples=1000).table
    effects = {row["effect"]: row for row in table.iter_rows(named=True)}
    assert line(result, "CG031")["computed"] == pytest.approx(effects["a"]["estimate"])
    assert line(result, "CG031")["tolerance"] == pytest.approx(2 * effects["a"]["se"])
    assert line(result, "CG034")["computed"] == effects["synergy_b2"]["p"]
    # Annotated outcomes by strategy, by polars alone.
    notes = data.annotations.filter(
        (pl.col("annotator") == "sim:annotator1") & (pl.col("feature") == "strategy_global") & (pl.col("repeat") == 0)
    )
    means = notes.join(data.runs, on="run_id").group_by("value").agg(pl.col("weighted_outcome").mean()).collect()
    by_value = dict(means.iter_rows())
    assert line(result, "CG021")["computed"] == pytest.approx(by_value[1.0])
    assert line(result, "CG022")["computed"] == pytest.approx(by_value[0.0])


def test_a_far_verdict_on_simulated_data_stands(result: claims.ClaimsResult) -> None:
    # The second annotator of the simulation is a noisy copy of the first: the synergy does not replicate there.
    row = line(result, "CG034")
    assert row["computed"] > 0.05 and row["verdict"] == FAR


def test_where_the_papers_contradict_themselves_is_computed_and_told(result: claims.ClaimsResult) -> None:
    told = "\n".join(claims.inconsistencies()["where"])
    # Tables 2 and 4 of the collaboration-gap paper: 0.1859 - 0.0290, and (0.2778 - 0.0421) / 0.1683.
    for part in ("0.63 ± 0.09 and 0.68 ± 0.06", "0.56 ± 0.09 and 0.63 ± 0.07", "0.1569", "1.4 times"):
        assert part in told
    for part in ("[0.73, 0.81]", "[0.74, 0.80]", "[-0.1019, 0.0309]", "6 dimensions", "0.675"):
        assert part in told
    text = " ".join(claims.render(result).split())
    assert all(" ".join(sentence.split()) in text for sentence in told.split("\n"))


@pytest.mark.parametrize(
    ("claim", "answer", "tolerance", "relation", "verdicts"),
    [
        ((0.77, 0.73, 0.81), Answer(0.774, 0.73, 0.81), 0.005, "equal", (NEAR, NEAR)),
        ((0.77, 0.73, 0.81), Answer(0.776, 0.73, 0.81), 0.005, "equal", (FAR, NEAR)),
        ((0.77, 0.73, 0.81), Answer(0.77), 0.005, "equal", (NEAR, None)),
        ((None, 12.0, 19.0), Answer(lo=12.4, hi=19.6), 0.5, "equal", (FAR, None)),
        ((3.2, None, 25.0), Answer(3.2, hi=26.0), 0.5, "equal", (FAR, None)),
        ((93.0, None, None), Answer(99.0), 0.5, "at least", (NEAR, None)),
        ((93.0, None, None), Answer(92.0), 0.5, "at least", (FAR, None)),
        ((0.5, None, None), Answer(float("nan")), 0.5, "equal", (FAR, None)),
    ],
)
def test_near_and_far_follow_the_tolerance(claim, answer, tolerance, relation, verdicts) -> None:
    row = dict(zip(("value", "lo", "hi"), claim, strict=True)) | {"id": "X"}
    assert claims.compare(row, answer, tolerance, relation) == verdicts


def test_an_estimator_that_computes_nothing_of_its_claim_is_an_error() -> None:
    with pytest.raises(TableError, match="computes none of its numbers"):
        claims.compare({"id": "X", "value": 1.0, "lo": None, "hi": None}, Answer(hi=1.0), 0.5)
    with pytest.raises(TableError, match="neither an estimator nor a missing input"):
        claims.missing("XX001")


def test_simulated_data_are_called_simulated_in_every_line_about_runs() -> None:
    result = claims.ledger(datasets.hand_worked_round())
    assert result.data_kind == "simulated" and "[SIMULATED DATA]" in claims.render(result)
    about_runs = [c for c, e in claims.ESTIMATORS.items() if e.source == "runs"]
    about_runs += [c for c, e in claims.ESTIMATORS.items() if e.source == "tasks"]
    kinds = {line(result, c)["data"] for c in about_runs}
    assert kinds == {"simulated", "not computable"}
    assert "on hand" in line(result, "CI006")["note"] and line(result, "CI140")["verdict"] == NO_INPUT
    assert line(result, "CI017")["verdict"] == NO_INPUT
    assert "simulated data" in result._repr_html_()
    # CI014 is the smallest drop of a row. hand_worked_scores.csv, without the incomplete task, as on the leaderboard:
    # sim:H2 falls from 5/8 without the problem to 17/24 with it, which is no fall.
    assert line(result, "CI014")["computed"] == pytest.approx(100 * (5 / 8 - 17 / 24))


def test_runs_of_ones_own_are_real_data() -> None:
    runs = datasets.published_round("2026-10-09").runs.collect()
    result = claims.ledger(runs.filter(pl.col("model") == "gpt-oss-120b"))
    assert line(result, "CI080")["note"].startswith("missing: a study with its tasks")
    row = line(result, "CI016")
    assert (row["data"], round(row["computed"], 2)) == ("real", 22.71)
    assert line(result, "CI021")["note"].startswith("missing: handling_conflict of frontier models")


def test_runs_of_another_benchmark_leave_the_claims_about_teamwork_without_input() -> None:
    mazes = pl.DataFrame(
        {"model": ["m"], "task_id": ["t"], "dimension": [None], "version": ["pair"], "status": ["ok"], "score": [0.5]},
        schema_overrides={"dimension": pl.String},
    )
    result = claims.ledger(mazes)
    about_runs = [c for c, e in claims.ESTIMATORS.items() if e.source in ("runs", "tasks")]
    assert {line(result, c)["verdict"] for c in about_runs} == {NO_INPUT}


def test_what_rests_on_published_or_real_data_comes_first(result: claims.ClaimsResult) -> None:
    kinds = list(dict.fromkeys(result.table["data"]))
    assert kinds == [kind for kind in claims.lines.KINDS if kind in kinds]
    assert kinds[0] == "published" and result.table["data"].rle_id().n_unique() == len(kinds)


def test_no_line_is_near_that_zero_would_pass(result: claims.ClaimsResult) -> None:
    there = result.table.filter(pl.col("verdict").is_in([NEAR, FAR]) & (pl.col("published") != 0))
    assert there.height > 100
    for row in there.iter_rows(named=True):
        claim = {"id": row["id"], "value": row["published"], "lo": None, "hi": None}
        assert claims.compare(claim, Answer(0.0), row["tolerance"])[0] == FAR, row["id"]


def test_the_text_has_every_claim_and_the_counts(result: claims.ClaimsResult) -> None:
    text = claims.render(result)
    starts = [part[:5] for part in text.splitlines() if part[:2] in ("CI", "CG")]
    assert starts == result.table["id"].to_list()
    assert f"{result.counts[NO_INPUT]} missing input" in text.splitlines()[0]
    assert max(map(len, text.splitlines())) < 145
    assert "On simulated data nothing is reproduced" in text
    by_paper = result.by_paper
    assert by_paper["len"].sum() == 167
    assert by_paper.filter(pl.col("on") == " (simulated)")["len"].sum() == (result.table["data"] == "simulated").sum()
    assert repr(result) == text
