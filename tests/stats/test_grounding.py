"""Grounding: equation 1 by hand, the join with runs, messages and models, agreement, incomplete annotations."""

from __future__ import annotations

import math
from zlib import crc32

import numpy as np
import polars as pl
import pytest
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.core.tables import frame
from cilab.datasets import simulated_mazes
from cilab.datasets.dataset import Dataset
from cilab.stats.maze.grounding import COMPONENTS, GroundingResult, grounding, grounding_score

FEATURES = ("grounded_start_goal", "shared_map", "merged_map")
MODELS = [("big", "one", "strong"), ("mid", "one", "medium"), ("low", "two", "weak")]


def run(run_id: str, model: str = "big", partner: str | None = "low", **columns: object) -> dict:
    return {
        "run_id": run_id,
        "study": "by hand",
        "benchmark": "maze",
        "task_id": "maze-1",
        "version": "pair",
        "model": model,
        "partner_model": partner,
        "seed": crc32(run_id.encode()),  # runs with ids of their own are runs of their own
        "status": "ok",
        "weighted_outcome": 0.5,
        "path_length": 8,
        **columns,
    }


def notes(
    run_id: str,
    starter: tuple[float | None, ...] = (1, 1, 0),
    follower: tuple[float | None, ...] = (1, 0, 0),
    reconciliation: float | None = 2,
    strategy: float | None = 1,
    annotator: str = "rules",
    repeat: int = 0,
) -> list[dict]:
    values = {(1, f): v for f, v in zip(FEATURES, starter, strict=True)}
    values |= {(2, f): v for f, v in zip(FEATURES, follower, strict=True)}
    values |= {(0, "reconciliation"): reconciliation, (0, "strategy_global"): strategy}
    return [
        {"run_id": run_id, "annotator": annotator, "repeat": repeat, "agent": agent, "feature": feature, "value": value}
        for (agent, feature), value in values.items()
    ]


def message(run_id: str, index: int, tokens: int | None, seat_kind: str = "under_test") -> dict:
    return {
        "run_id": run_id,
        "index": index,
        "kind": "message",
        "seat": str(1 + index % 2),
        "seat_kind": seat_kind,
        "tokens_out": tokens,
    }


def study(runs: list[dict], annotations: list[dict], messages: list[dict] | None = None) -> Dataset:
    models = [{"model": m, "family": f, "strength": s} for m, f, s in MODELS]
    tables = {
        "runs": frame("runs", runs),
        "annotations": frame("annotations", annotations),
        "messages": frame("messages", messages or []),
        "models": frame("models", models),
    }
    return Dataset("by hand", tables, simulated=False, kind="imported")


def test_the_score_is_equation_1_worked_by_hand() -> None:
    # starter grounds and shares (2), follower grounds (1), reconciled up front (2): 5 / 8
    row = grounding(study([run("r1")], notes("r1"))).table.row(0, named=True)
    assert row["grounding"] == 5 / 8
    assert row["strategy_global"] == 1
    assert row["reconciliation"] == 2 and row["shared_map_1"] == 1 and row["shared_map_2"] == 0


def test_the_score_runs_from_zero_to_one() -> None:
    nothing = notes("r1", (0, 0, 0), (0, 0, 0), 0)
    everything = notes("r2", (1, 1, 1), (1, 1, 1), 2)
    table = grounding(study([run("r1"), run("r2")], nothing + everything)).table
    assert table["grounding"].to_list() == [0.0, 1.0]
    most = dict(COMPONENTS)
    assert sum(most.values()) == 8
    assert grounding_score(most) == 1.0
    assert grounding_score(most | {(0, "reconciliation"): None}) is None
    assert grounding_score({}) is None


def test_the_score_is_the_one_that_the_annotator_of_the_maze_benchmark_computes() -> None:
    from cilab.maze.annotate import parse_annotator_answer

    answer = """{"agent_1": {"grounded_start_goal": true, "shared_map": true, "merged_map": false},
      "agent_2": {"grounded_start_goal": true, "shared_map": false, "merged_map": true},
      "reconciliation": "gradual", "strategy_global": true,
      "has_factual_disagreement": false, "has_nonfactual_disagreement": true}"""
    rows = [{"run_id": "r1", "annotator": "m", "repeat": 0, **row} for row in parse_annotator_answer(answer)]
    theirs = next(row["value"] for row in rows if row["feature"] == "grounding_score")
    assert theirs == 5 / 8
    assert grounding(study([run("r1")], rows)).table["grounding"].to_list() == [theirs]


def test_an_unreadable_feature_makes_the_score_missing_and_never_false() -> None:
    annotations = notes("r1", starter=(None, 1, 1)) + notes("r2") + notes("r3", strategy=None)
    result = grounding(study([run("r1"), run("r2"), run("r3")], annotations))
    assert result.table["grounding"].to_list() == [None, 5 / 8, 5 / 8]
    assert result.table["strategy_global"].to_list() == [1, 1, None]
    assert result.n_used == 3


def test_controls_come_from_models_runs_and_messages() -> None:
    messages = [message("r1", i, t) for i, t in enumerate([10, 40, 20, None])]
    messages += [message("r1", 9, 5000, seat_kind="user"), message("r2", 0, 7)]
    runs = [
        run("r1", task_id="maze-7", path_length=9),
        run("r2", "low", "low", path_length=7),
        run("r3", "mid", "big"),
        run("r4", "low", "big"),
    ]
    annotations = [row for r in runs for row in notes(r["run_id"])]
    rows = grounding(study(runs, annotations, messages)).table.rows(named=True)
    first = rows[0]
    assert (first["starter_tier"], first["follower_tier"]) == ("strong", "weak")
    assert (first["starter_family"], first["follower_family"]) == ("one", "two")
    assert (first["maze"], first["path_length"]) == ("maze-7", 9)
    assert first["median_tokens"] == 20
    assert first["log_median_tokens"] == pytest.approx(math.log(20))
    assert [row["interaction"] for row in rows] == ["cross family", "homogeneous", "same family", "cross family"]
    assert [row["homogeneous"] for row in rows] == [0, 1, 0, 0]
    assert [row["same_family"] for row in rows] == [0, 1, 1, 0]
    assert [row["ordered_pair"] for row in rows] == ["big > low", "low > low", "mid > big", "low > big"]
    assert rows[0]["unordered_pair"] == rows[3]["unordered_pair"] == "big + low"
    assert rows[2]["median_tokens"] is None


def test_one_model_at_two_reasoning_settings_is_no_homogeneous_pair() -> None:
    efforts = [("high", "low"), ("high", None), (None, "high"), ("high", "high"), (None, None)]
    runs = [run(f"r{i}", "big", "big", effort=a, partner_effort=b) for i, (a, b) in enumerate(efforts)]
    rows = grounding(study(runs, [n for r in runs for n in notes(r["run_id"])])).table.rows(named=True)
    assert [row["homogeneous"] for row in rows] == [0, 0, 0, 1, 1]
    assert rows[0]["ordered_pair"] == "big · high > big · low"


def test_what_is_left_out_is_counted_with_its_reason() -> None:
    runs = [
        run("used"),
        run("solo", version="solo_full", partner=None),
        run("relay", version="relay"),
        run("team", benchmark="teamwork", version="alone"),
        run("treated", arm="be kind"),
        run("refused", status="refused", weighted_outcome=None),
        run("ungraded", weighted_outcome=None),
        run("other", "mid"),
        run("unknown", "nobody"),
    ]
    annotations = [row for r in runs if r["run_id"] != "other" for row in notes(r["run_id"])]
    result = grounding(study(runs, annotations))
    assert result.table["run_id"].to_list() == ["used"]
    assert dict(result.n_left_out) == {
        "of other settings than pairs": 2,
        "not annotated by rules": 1,
        "of another arm": 1,
        "of another benchmark": 1,
        "of models without family or tier": 1,
        "refused": 1,
        "without an outcome": 1,
    }
    assert result.n_used + sum(result.n_left_out.values()) == len(runs)
    assert grounding(study(runs, annotations), arm="be kind").table["run_id"].to_list() == ["treated"]


def test_an_annotator_who_left_rollouts_out_is_named() -> None:
    annotations = notes("r1") + notes("r2") + notes("r1", annotator="judge")
    data = study([run("r1"), run("r2")], annotations)
    result = grounding(data, annotator="judge")
    assert dict(result.n_left_out) == {"not annotated by judge": 1}
    assert "1 not annotated by judge" in repr(result)
    with pytest.raises(TableError, match="annotations by judge, rules: name one, such as annotator='judge'"):
        grounding(data)
    with pytest.raises(TableError, match=r"no annotations by 'judges'; there are some by judge, rules\. Did you mean"):
        grounding(data, annotator="judges")


def test_models_may_be_given_as_any_frame() -> None:
    data = study([run("r1", "nobody", "low")], notes("r1"))
    with pytest.raises(TableError, match=r"1 of models without family or tier\. Pass facts="):
        grounding(data)
    models = pl.DataFrame({"model": ["nobody", "low"], "family": ["x", "y"], "strength": ["weak", "weak"]})
    for given in (models, models.to_pandas(), models.lazy()):
        assert grounding(data, facts=given).table["starter_family"].to_list() == ["x"]
    with pytest.raises(TableError, match="missing column strength"):
        grounding(data, facts=models.drop("strength"))
    with pytest.raises(TableError, match="low stands there twice"):
        grounding(data, facts=pl.concat([models, models.tail(1)]))
    with pytest.raises(TableError, match="not str"):
        grounding(data, facts="models.csv")


def test_repeats_are_kept_apart() -> None:
    annotations = notes("r1") + notes("r1", reconciliation=0, repeat=1)
    data = study([run("r1")], annotations)
    assert grounding(data).table["grounding"].to_list() == [5 / 8]
    assert grounding(data, repeat=1).table["grounding"].to_list() == [3 / 8]
    with pytest.raises(TableError, match="no repeat 2; there are 0, 1"):
        grounding(data, repeat=2)
    with pytest.raises(TableError, match="repeat is -1"):
        grounding(data, repeat=-1)


def test_the_same_annotation_twice_is_one_and_two_values_are_refused() -> None:
    data = study([run("r1")], notes("r1") * 2)
    assert grounding(data).table["grounding"].to_list() == [5 / 8]
    clash = study([run("r1")], notes("r1") + notes("r1", reconciliation=0))
    with pytest.raises(TableError, match="rules gave run r1 two values for reconciliation"):
        grounding(clash)


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ([], "none of grounding or disagreement; make some: cilab annotate"),
        (notes("r1", reconciliation=3), "reconciliation is 3 in run r1; it must be 0, 1 or 2"),
        (notes("r1", starter=(0.5, 1, 1)), "grounded_start_goal is 0.5 in run r1; it must be 0 or 1"),
        (notes("r2"), "no annotated pair rollout to use; left out: 1 not annotated by rules"),
    ],
)
def test_annotations_that_cannot_be_used_are_refused(annotations, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        grounding(study([run("r1")], annotations))
    assert "\n" not in str(caught.value)


def test_a_frame_of_runs_is_no_study_with_annotations() -> None:
    with pytest.raises(TableError, match="give an opened study"):
        grounding(frame("runs", [run("r1")]))


def test_two_scored_rollouts_of_one_cell_are_refused() -> None:
    rows = [run("r1", seed=7), run("r2", seed=7)]
    with pytest.raises(TableError, match=r"big with low, maze maze-1, pair, seed 7 has 2 scored runs \(r1, r2\)"):
        grounding(study(rows, notes("r1") + notes("r2")))


def test_a_rollout_that_stands_twice_counts_once() -> None:
    class Merged:
        runs = pl.concat([frame("runs", [run("r1")])] * 2).lazy()
        annotations = frame("annotations", notes("r1")).lazy()
        models = study([], []).models

    result = grounding(Merged())
    assert result.n_used == 1
    assert dict(result.n_left_out) == {"the same run again": 1}


# -- what goes with the score


@pytest.fixture(scope="module")
def mazes() -> Dataset:
    return simulated_mazes(scale=0.2)


@pytest.fixture(scope="module")
def result(mazes: Dataset) -> GroundingResult:
    return grounding(mazes, annotator="sim:annotator1")


def test_correlations_over_pairs_are_those_of_scipy(result: GroundingResult) -> None:
    frame_ = result.table.to_pandas().groupby("ordered_pair")[["grounding", "weighted_outcome"]].mean()
    assert len(frame_) == 53
    found = {row["method"]: row for row in result.correlations.iter_rows(named=True)}
    for method, test in (("pearson", scipy_stats.pearsonr), ("spearman", scipy_stats.spearmanr)):
        theirs = test(frame_["grounding"], frame_["weighted_outcome"])
        assert found[method]["r"] == pytest.approx(theirs.statistic)
        assert found[method]["p"] == pytest.approx(theirs.pvalue)
        assert found[method]["n"] == 53


def test_means_by_strategy_have_the_errors_of_statsmodels_clustered_by_ordered_pair(result: GroundingResult) -> None:
    import statsmodels.api as sm

    rows = [*result.by_strategy.iter_rows(named=True), *result.by_score.filter(pl.col("n") > 150).iter_rows(named=True)]
    for row in rows:
        mine = pl.col("strategy_global") == (row["strategy"] == "global")
        if "grounding" in row:
            mine &= pl.col("grounding") == row["grounding"]
        part = result.table.filter(mine)
        groups = part["ordered_pair"].rank("dense").to_numpy()
        known = {"groups": groups, "use_correction": False}
        fit = sm.OLS(part["weighted_outcome"].to_numpy(), np.ones(part.height)).fit(cov_type="cluster", cov_kwds=known)
        n = len(set(groups))
        assert (row["n"], row["n_clusters"]) == (part.height, n)
        assert row["se"] == pytest.approx(float(fit.bse[0]) * (n / (n - 1)) ** 0.5, rel=1e-9)
        assert row["lo"] < row["mean"] - 1.96 * row["se"] and row["mean"] + 1.96 * row["se"] < row["hi"]


def test_by_rollout_means_by_strategy_are_those_of_scipy(mazes) -> None:
    result = grounding(mazes, annotator="sim:annotator1", cluster="rollout")
    for row in result.by_strategy.iter_rows(named=True):
        wanted = 1 if row["strategy"] == "global" else 0
        values = result.table.filter(pl.col("strategy_global") == wanted)["weighted_outcome"].to_numpy()
        assert row["n"] == len(values)
        assert row["mean"] == pytest.approx(values.mean())
        assert row["se"] == pytest.approx(scipy_stats.sem(values))
        assert (row["lo"], row["hi"]) == pytest.approx(scipy_stats.norm.interval(0.95, values.mean(), row["se"]))
    means = dict(result.by_strategy.select("strategy", "mean").iter_rows())
    assert means["global"] > means["local"]


def test_shares_by_tier_count_both_orders_together(result: GroundingResult) -> None:
    assert result.by_tier["n"].sum() == result.n_used
    assert result.by_tier["tiers"].to_list()[0] == "strong - strong"
    rows = result.table.filter(
        ((pl.col("starter_tier") == "weak") & (pl.col("follower_tier") == "medium"))
        | ((pl.col("starter_tier") == "medium") & (pl.col("follower_tier") == "weak"))
    )
    row = result.by_tier.row(by_predicate=pl.col("tiers") == "medium - weak", named=True)
    assert (row["n"], row["share_global"]) == (rows.height, pytest.approx(rows["strategy_global"].mean()))


def counted_kappa(a: np.ndarray, b: np.ndarray) -> float:
    """Cohen's kappa from the table of counts."""
    values = np.union1d(a, b)
    table = np.array([[np.sum((a == u) & (b == v)) for v in values] for u in values]) / len(a)
    chance = table.sum(axis=1) @ table.sum(axis=0)
    return (np.trace(table) - chance) / (1 - chance)


def test_agreement_is_pearson_for_the_score_and_kappa_for_its_components(mazes, result) -> None:
    tables = {
        name: grounding(mazes, annotator=name).table.select("run_id", "grounding", "reconciliation", "^shared_map_.$")
        for name in ("sim:annotator1", "sim:annotator3")
    }
    both = tables["sim:annotator1"].join(tables["sim:annotator3"], on="run_id", suffix="_other")
    row = {
        r["feature"]: r
        for r in result.agreement.iter_rows(named=True)
        if (r["annotator"], r["other"]) == ("sim:annotator1", "sim:annotator3")
    }
    assert row["grounding"]["statistic"] == "pearson"
    assert row["grounding"]["n"] == both.height == 50
    assert row["grounding"]["value"] == pytest.approx(
        np.corrcoef(both["grounding"].to_numpy(), both["grounding_other"].to_numpy())[0, 1]
    )
    assert row["reconciliation"]["value"] == pytest.approx(
        counted_kappa(both["reconciliation"].to_numpy(), both["reconciliation_other"].to_numpy())
    )
    one, two = (
        np.concatenate([both[f"shared_map_{agent}{end}"].to_numpy() for agent in (1, 2)]) for end in ("", "_other")
    )
    assert row["shared_map"]["value"] == pytest.approx(counted_kappa(one, two))
    assert row["shared_map"]["n"] == 100
    assert row["shared_map"]["raw"] == pytest.approx((one == two).mean())
    assert result.agreement.height == 3 * 6


def test_annotators_who_give_everyone_the_same_value_have_no_kappa_and_the_reason_is_said() -> None:
    runs = [run(f"r{i}") for i in range(4)]
    annotations = [row for r in runs for a in "ab" for row in notes(r["run_id"], (1, 1, 1), (1, 1, 1), annotator=a)]
    table = grounding(study(runs, annotations), annotator="a").agreement
    assert table["value"].null_count() == table.height
    assert table["raw"].to_list() == [1.0] * table.height
    assert table["reason"].null_count() == 0


def test_few_rollouts_make_means_without_intervals_and_no_correlation() -> None:
    result = grounding(study([run("r1")], notes("r1")))
    assert result.by_strategy.rows() == [("global", 1, 0.5, None, None, None, 1, "too few: 1 ordered pair")]
    assert "No interval of 1 mean: too few: 1 ordered pair." in result.notes()
    assert result.correlations["r"].to_list() == [None, None]
    assert "undefined" in repr(result)


def test_the_result_says_whose_annotations_and_that_agents_are_simulated(result: GroundingResult) -> None:
    asked = {"annotator": "sim:annotator1", "facts": None, "repeat": 0, "arm": None, "cluster": "ordered_pair"}
    assert dict(result.parameters) == asked
    text = repr(result)
    assert "[SIMULATED AGENTS]" in text
    assert "not annotated by sim:annotator1" in text
    assert "Kappa, merged_map" in text
    assert "simulated agents" in result._repr_html_()
