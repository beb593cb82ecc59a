"""The simulated release: the paper's sizes and aggregates, the stated model, and its own truth.

Published numbers stand with their id in claims.csv. Tolerances are sampling errors: `spread` is the standard deviation
of an aggregate over 40 seeds, so one data set may lie 3.5 of them away and the mean of 40 seeds 3.5 / sqrt(40).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache

import numpy as np
import polars as pl
import pytest

from cilab.core import registry, tables
from cilab.core.errors import StudyError
from cilab.datasets import simulated_mazes, simulated_release
from cilab.datasets.release import labels as words
from cilab.datasets.release.data import simulated_scores
from cilab.datasets.release.model import load_parameters
from cilab.teamwork.terms import DIMENSIONS
from tools import fit_release

SEEDS = range(1, 41)
ROW = ["model", "effort"]


@pytest.fixture(scope="module")
def release():
    return simulated_release()


@pytest.fixture(scope="module")
def groups():
    return load_parameters().rows.select("model", "effort", "group")


@lru_cache(maxsize=64)
def scores(seed: int) -> pl.DataFrame:
    return simulated_scores(seed).filter(pl.col("status") == "ok")


def dimension_scores(runs: pl.DataFrame, version: str = "test") -> pl.DataFrame:
    """Score % of each row in each dimension: mean over tasks with every seed of the mean over seeds."""
    tasks = runs.filter(pl.col("version") == version).group_by(*ROW, "dimension", "task_id")
    whole = tasks.agg(pl.col("score").mean(), pl.len()).filter(pl.col("len") == (3 if version == "test" else 1))
    return whole.group_by(*ROW, "dimension").agg(pl.col("score").mean() * 100)


def aggregates(runs: pl.DataFrame) -> dict[str, float]:
    """Main aggregates of one data set's scores, named by claim."""
    group = load_parameters().rows.select("model", "effort", "group")
    cells = dimension_scores(runs).join(group, on=ROW)
    default = cells.filter(pl.col("effort") == "default")
    overall = {(m, e): s for m, e, s in cells.group_by(ROW).agg(pl.col("score").mean()).rows()}
    mean = {(g, d): s for g, d, s in default.group_by("group", "dimension").agg(pl.col("score").mean()).rows()}
    by_group = dict(default.group_by("group").agg(pl.col("score").mean()).rows())
    tests = runs.filter((pl.col("version") == "test") & (pl.col("effort") == "default")).join(group, on=ROW)
    conflict = tests.filter(pl.col("dimension") == "handling_conflict")
    of = {g: conflict.filter(pl.col("group") == g)["score"] for g in ("frontier", "open")}
    calm = dimension_scores(runs, "baseline").filter(pl.col("effort") == "default").join(group, on=ROW)
    six = calm.filter(pl.col("dimension") != "taking_over")
    lost = {g: 100 - six.filter(pl.col("group") == g)["score"].mean() for g in ("frontier", "open")}
    in_conflict = six.filter(pl.col("dimension") == "handling_conflict")["score"].mean()
    triples = runs.filter(pl.col("version") == "test").group_by(*ROW, "task_id")
    whole = triples.agg(pl.len(), pl.col("score").n_unique().alias("k")).filter(pl.col("len") == 3)
    return {
        "CI010": overall["sim:F1", "default"],
        "CI011": overall["sim:F1", "high"],
        "CI012": overall["sim:O1", "default"],
        "CI016": overall["sim:O7", "default"],
        "CI017": overall["sim:C4", "default"],
        "CI018": by_group["open"],
        "CI019": by_group["frontier"] - by_group["open"],
        "CI022": mean["frontier", "emotional_intelligence"],
        "CI023": mean["open", "sharing_information"],
        "CI024": mean["frontier", "sharing_information"],
        "CI025": mean["open", "taking_initiative"],
        "CI026": mean["frontier", "taking_initiative"],
        "CI027": mean["open", "resisting_unsafe_pressure"],
        "CI028": mean["frontier", "taking_over"],
        "CI021": 100 * (of["frontier"] == 1).mean(),
        "CI188 frontier": 100 * (of["frontier"] == 0.5).mean(),
        "CI060": float((tests["score"] < 1).sum()),
        "CI190": float(conflict.height),
        "CI083": 100 * (whole["k"] == 1).mean(),
        "CI151": lost["frontier"],
        "CI152": lost["open"],
        "CI154": 100 - in_conflict,
    }


PUBLISHED = {
    "CI010": 76.6,
    "CI011": 82.2,
    "CI012": 59.9,
    "CI016": 19.1,
    "CI017": 51.7,
    "CI018": 41.6,
    "CI019": 31.2,
    "CI022": 45.0,
    "CI023": 30.0,
    "CI024": 88.0,
    "CI025": 16.0,
    "CI026": 73.0,
    "CI027": 75.0,
    "CI028": 81.0,
    "CI021": 14.0,
    "CI188 frontier": 5.0,
    "CI060": 5094.0,
    "CI190": 1359.0,
    "CI083": 80.0,
    "CI151": 3.2,
    "CI152": 17.0,
    "CI154": 31.0,
}


@pytest.fixture(scope="module")
def many():
    """Aggregates of 40 seeds: name -> array."""
    found = [aggregates(scores(seed)) for seed in SEEDS]
    return {name: np.array([f[name] for f in found]) for name in PUBLISHED}


@pytest.mark.parametrize("claim", list(PUBLISHED))
def test_an_aggregate_of_the_default_data_set_lies_within_its_sampling_error_of_the_paper(claim, release, many):
    runs = release.tables["runs"].filter(pl.col("status") == "ok")
    assert abs(aggregates(runs)[claim] - PUBLISHED[claim]) < 3.5 * many[claim].std(ddof=1)


@pytest.mark.parametrize("claim", list(PUBLISHED))
def test_an_aggregate_is_that_of_the_paper_on_average_over_seeds(claim, many):
    # Beside the error of the mean: half a unit of the last printed digit, and half a point for what is not a fitted
    # target itself but follows from rates chosen by hand (counts: 2 %).
    slack = 0.02 * PUBLISHED[claim] if claim in ("CI060", "CI190") else 1.0
    error = 3.5 * many[claim].std(ddof=1) / np.sqrt(len(SEEDS))
    assert abs(many[claim].mean() - PUBLISHED[claim]) < error + slack


def test_the_sizes_are_the_papers(release):
    tasks, runs = release.tables["tasks"], release.tables["runs"]
    assert tasks.height == 240  # CI001
    per_dimension = tasks.group_by("dimension", "split").len().sort("dimension", "split")
    assert per_dimension["len"].to_list() == [10, 20] * 8  # CI002
    assert tasks["real_world"].sum() == 94  # CI003
    assert (~tasks["real_world"]).sum() == 146  # CI004
    assert tasks["sandbox"].sum() == 79  # CI005
    assert tasks.filter(pl.col("executes_code") & ~pl.col("sandbox")).is_empty()
    families = dict(tasks.group_by("source_family").len().rows())  # table 1
    assert families == {
        "regulators_papers": 36,
        "clinical_cases": 35,
        "accident_reports": 23,
        "coding": 66,
        "negotiations": 34,
        "team_decisions": 27,
        "exam_problems": 19,
    }
    assert runs.select(ROW).unique().height == 24
    assert runs.filter(pl.col("effort") == "high")["model"].n_unique() == 6
    assert release.tables["models"].height == 18
    # CI006: 24,851 scored runs. Baselines of the six high-effort rows are about 1,300 more than that total leaves room.
    n_ok = (runs["status"] == "ok").sum()
    n_high = runs.filter((pl.col("effort") == "high") & (pl.col("version") == "baseline")).height
    assert abs(n_ok / 24_851 - 1) < 0.06
    assert abs((n_ok - n_high) / 24_851 - 1) < 0.02


def test_every_row_runs_alone_once_and_the_rest_only_on_tasks_it_solves(release):
    runs = release.tables["runs"]
    alone = runs.filter(pl.col("version") == "alone")
    assert alone.height == 24 * 240
    solved = alone.filter(pl.col("passed")).select(*ROW, "task_id")
    for version, times in (("baseline", 1), ("test", 3)):
        of = runs.filter(pl.col("version") == version)
        assert of.join(solved, on=[*ROW, "task_id"], how="anti").is_empty()
        assert of.height == times * solved.height
        assert set(of["seed"]) == set(range(times))


def test_refused_runs_have_no_score_and_refusals_are_those_of_three_models(release):
    runs = release.tables["runs"]
    refused = runs.filter(pl.col("status") == "refused")
    assert refused["score"].null_count() == refused["passed"].null_count() == refused.height > 0
    assert set(refused["model"]) == {"sim:C1", "sim:F4", "sim:F5"}
    most = refused.filter((pl.col("model") == "sim:F5") & (pl.col("effort") == "default"))["task_id"].n_unique()
    assert abs(most - 46) < 3.5 * np.sqrt(46)  # 40 of 210 in the published round, as a share of 240


def test_scores_are_graded_only_in_conflict(release):
    ok = release.tables["runs"].filter(pl.col("status") == "ok")
    assert set(ok.filter(pl.col("dimension") == "handling_conflict")["score"].unique()) == {0.0, 0.5, 1.0}
    assert set(ok.filter(pl.col("dimension") != "handling_conflict")["score"].unique()) == {0.0, 1.0}
    assert (ok["passed"] == (ok["score"] == 1)).all()


def test_in_conflict_ability_works_the_other_way(many):
    slope = load_parameters().dimensions.filter(pl.col("slope") < 0)
    assert slope["dimension"].to_list() == ["handling_conflict"]
    r = []
    for seed in SEEDS:
        default = dimension_scores(scores(seed)).filter(pl.col("effort") == "default")
        wide = default.pivot("dimension", index="model", values="score").sort("model").select(DIMENSIONS).to_numpy()
        rest = np.delete(wide, DIMENSIONS.index("handling_conflict"), axis=1).mean(1)
        r.append(np.corrcoef(rest, wide[:, DIMENSIONS.index("handling_conflict")])[0, 1])
    assert np.mean(r) < -0.15
    assert np.mean(np.array(r) < 0) > 0.95


def test_the_first_component_and_the_correlation_with_capability_are_near_the_papers(release):
    default = dimension_scores(release.tables["runs"].filter(pl.col("status") == "ok"))
    default = default.filter(pl.col("effort") == "default")
    wide = default.pivot("dimension", index="model", values="score").sort("model")
    values = wide.select(DIMENSIONS).to_numpy()
    share = np.linalg.eigvalsh(np.corrcoef(values.T))[-1] / 8
    assert abs(share - 0.71) < 0.06  # CI182; sd over seeds 0.016
    known = wide.join(release.truth["capability"], on="model").drop_nulls("intelligence_index")
    assert known.height == 17
    r = np.corrcoef(known["intelligence_index"], known.select(DIMENSIONS).to_numpy().mean(1))[0, 1]
    assert 0.87 < r < 0.97  # CI170 with its interval


def test_real_records_are_easier_by_what_the_paper_says():
    gaps = []
    real = simulated_release(scale=1.0).tables["tasks"].select("task_id", "real_world")
    for seed in SEEDS:
        tests = scores(seed).filter((pl.col("version") == "test") & (pl.col("dimension") != "handling_conflict"))
        by = tests.join(real, on="task_id").group_by(*ROW, "dimension", "real_world").agg(pl.col("score").mean())
        means = dict(by.group_by("real_world").agg(pl.col("score").mean() * 100).rows())
        gaps.append(means[True] - means[False])
    assert abs(np.mean(gaps) - 10.4) < 3.5 * np.std(gaps) / np.sqrt(len(gaps)) + 0.5  # CI142


def test_scores_recover_their_expected_values_over_new_tasks():
    truth = simulated_release(scale=0.1).truth["cells"].select(*ROW, "dimension", "expected_score")
    found = pl.concat([dimension_scores(scores(seed)) for seed in SEEDS])
    mean = found.group_by(*ROW, "dimension").agg(pl.col("score").mean(), pl.col("score").std().alias("sd"))
    both = mean.join(truth, on=[*ROW, "dimension"])
    z = (both["score"] - 100 * both["expected_score"]) / (both["sd"].clip(0.2, None) / np.sqrt(len(SEEDS)))
    assert both.height == 24 * 8
    # Cells share tasks, so the 192 errors are no independent sample: only their bulk is asserted.
    assert (z.abs() < 3).mean() > 0.93
    assert abs(both["score"].mean() - 100 * both["expected_score"].mean()) < 0.7


def test_the_fit_reproduces_its_targets():
    assert "score 0.000" in fit_release.check(load_parameters())
    p = load_parameters()
    logits = p.matrix("eta")
    again = (
        p.dimensions["mean"].to_numpy()
        + np.outer(p.rows["ability"].to_numpy(), p.dimensions["slope"].to_numpy())
        + p.matrix("deviation")
    )
    assert np.allclose(logits, again, atol=1e-4)


def test_the_committed_targets_are_those_of_the_fit_script():
    default, high = fit_release.target_scores(np.random.default_rng(fit_release.SEED))
    assert np.allclose(load_parameters().matrix("target_score"), np.vstack([default, high]), atol=1e-5)


@pytest.mark.study
def test_the_stated_command_remakes_the_committed_parameters(tmp_path):
    fit_release.write(fit_release.fit(), tmp_path)  # python tools/fit_release.py, about a minute
    again = pl.read_csv(tmp_path / "release_cells.csv", infer_schema_length=None)
    for column in ("eta", "alone_logit", "baseline_logit", "notice_logit"):
        assert np.allclose(again[column].to_numpy(), load_parameters().cells[column].to_numpy(), atol=1e-4)


# -- labels, messages, failures -----------------------------------------------------------------------------


def test_raters_agree_as_the_paper_says(release):
    labels, runs = release.tables["labels"], release.tables["runs"]
    two = labels.filter(pl.col("rater").is_in(["referee", "second"])).pivot(
        "rater", on_columns=["referee", "second"], index=["run_id", "index"], values="label"
    )
    two = two.join(runs.select("run_id", "dimension", "effort"), on="run_id").filter(pl.col("effort") == "default")
    assert abs(two.height / 51_279 - 1) < 0.04  # CI094's number of messages, by 18 models
    agree = (two["referee"] == two["second"]).mean()
    assert abs(agree - 0.81) < 0.005 + 3.5 * np.sqrt(0.81 * 0.19 / two.height)  # CI094, printed to a percent
    by = two.group_by("dimension").agg((pl.col("referee") == pl.col("second")).mean().alias("p"), pl.len())
    for dimension, p, n in by.rows():
        assert abs(p - words.AGREEMENT[dimension]) < 4 * np.sqrt(p * (1 - p) / n)
    close = ["taking_over", "emotional_intelligence", "handling_conflict", "sharing_information"]
    differ = two.filter(pl.col("referee") != pl.col("second"))
    assert abs(differ["dimension"].is_in(close).mean() - 0.72) < 0.05  # CI097


def test_the_final_label_follows_from_the_three_raters(release):
    labels = release.tables["labels"]
    wide = labels.filter(pl.col("rater").is_in(["referee", "second", "third", "final"])).pivot(
        "rater", index=["run_id", "index"], values="label"
    )
    settled = pl.when(pl.col("referee") == pl.col("second")).then("referee").otherwise("third")
    assert wide.select((settled == pl.col("final")).all()).item()
    known = {label for d in DIMENSIONS for label, _, _ in words.LABELS[d]}
    assert set(labels["label"]) == known


def test_noticed_shares_are_the_papers_and_rise_with_ability(release, groups):
    runs = release.tables["runs"].filter((pl.col("version") == "test") & (pl.col("effort") == "default"))
    final = release.tables["labels"].filter(pl.col("rater") == "final")
    noticed = final.group_by("run_id").agg(pl.col("noticed").any())
    failed = runs.filter(pl.col("score") < 1).join(noticed, on="run_id").join(groups, on=ROW)
    assert abs(100 * failed["noticed"].mean() - 45) < 4  # CI061: plus or minus 4
    frontier = failed.filter(pl.col("group") == "frontier")["noticed"].mean()
    assert 0.55 < frontier < 0.68  # CI064
    share = dict(failed.group_by("dimension").agg(100 * pl.col("noticed").mean()).rows())
    three = ("sharing_information", "emotional_intelligence", "taking_initiative")
    # CI062 61 to 88 % and CI063 12 to 19 %, with 3 standard errors of the smallest cell (about 80 and 600 failures).
    assert all(12 - 4 < share[d] < 19 + 5 for d in three)
    assert all(61 - 16 < v < 88 + 3 for d, v in share.items() if d not in three)
    overall = dimension_scores(release.tables["runs"].filter(pl.col("status") == "ok"))
    overall = overall.filter(pl.col("effort") == "default").group_by("model").agg(pl.col("score").mean())
    both = failed.group_by("model").agg(pl.col("noticed").mean()).join(overall, on="model")
    assert np.corrcoef(both["noticed"], both["score"])[0, 1] > 0.55  # CI066: 0.78
    gave_in = failed.filter((pl.col("dimension") == "handling_conflict") & (pl.col("score") == 0))
    assert abs(gave_in["noticed"].mean() - 0.86) < 3.5 * np.sqrt(0.86 * 0.14 / gave_in.height)  # CI065


def test_evidence_and_failure_modes_tell_the_same_story(release):
    modes = release.truth["failure_modes"]
    runs = release.tables["runs"]
    seen = modes.join(runs.select("run_id", "evidence", "dimension", "score", "outcome"), on="run_id")
    assert seen.height == runs.filter((pl.col("version") == "test") & (pl.col("score") < 1)).height
    has = pl.col("evidence").list.contains
    gave = seen.filter(pl.col("mode") == "took_worse_deal")
    assert gave.select((has("accepted_offer") | has("offered_to_accept")).all()).item()
    assert set(gave["outcome"]) == {"gave_in"}
    told = seen.filter(pl.col("mode") == "not_to_who_can_act")
    assert told.select((has("raised_problem") & ~has("told_accountable")).all()).item()
    never = seen.filter(pl.col("mode") == "never_fixed")
    assert never.select(has("problem_remains").all()).item()
    missed = seen.filter(pl.col("mode") == "missed")
    assert not missed.select((pl.col("noticed_by_label") | pl.col("noticed_by_check_only")).any()).item()
    assert missed.select((~has("noticed_by_check") & ~has("raised_problem") & ~has("told_accountable")).all()).item()
    assert seen.filter(pl.col("mode") == "no_rule").height < 10  # CI071: 2 of 5,094


def test_conflict_endings_and_joint_points_are_the_papers(release, groups):
    conflict = release.tables["runs"].filter(
        (pl.col("version") == "test") & (pl.col("effort") == "default") & (pl.col("dimension") == "handling_conflict")
    )
    no_deal = conflict.filter(pl.col("ended") == "no_deal")
    assert no_deal["joint_share"].null_count() == no_deal.height > 0
    assert abs(conflict["joint_share"].mean() - 0.94) < 0.01  # CI191, printed to a percent
    gave = conflict.filter(pl.col("score") == 0)["joint_share"].drop_nulls()
    assert abs(gave.mean() - 0.93) < 0.01  # CI192
    assert abs((gave >= 0.9).mean() - 0.82) < 3.5 * np.sqrt(0.82 * 0.18 / len(gave))  # CI192
    firm = conflict.filter(pl.col("score") == 0.5)
    assert abs((firm["ended"] == "deal").mean() - 0.76) < 3.5 * np.sqrt(0.76 * 0.24 / firm.height)  # CI193
    asks = release.tables["labels"].filter((pl.col("rater") == "final") & (pl.col("label") == "asks_needs"))
    frontier = conflict.join(groups, on=ROW).filter(pl.col("group") == "frontier")
    assert frontier["run_id"].is_in(asks["run_id"].unique().to_list()).mean() > 0.97  # 99 % (section 3.2)


def test_costs_and_tokens_span_what_the_paper_prints(release):
    ok = release.tables["runs"].filter(pl.col("status") == "ok")
    cost = ok.group_by(ROW).agg(pl.col("cost_usd").sum(), pl.col("tokens_out").mean()).sort("cost_usd")
    assert cost["cost_usd"][0] == pytest.approx(1.8, rel=0.2)  # CI040; sd over seeds 6 %
    assert cost.row(-1)[:2] == ("sim:F2", "high")
    assert cost["cost_usd"][-1] == pytest.approx(662, rel=0.06)  # CI041
    default = cost.filter(pl.col("effort") == "default")["tokens_out"]
    assert default.min() == pytest.approx(501, rel=0.05)  # appendix E
    assert default.max() == pytest.approx(4609, rel=0.05)


# -- the data set as a whole --------------------------------------------------------------------------------


def test_the_same_seed_gives_identical_frames_and_another_seed_does_not():
    one, same, other = simulated_release(3, 0.1), simulated_release(3, 0.1), simulated_release(4, 0.1)
    for name, frame in one.tables.items():
        assert frame.equals(same.tables[name])
    assert not one.tables["runs"]["score"].equals(other.tables["runs"]["score"])
    assert one.data_hash == same.data_hash != other.data_hash


def test_scale_changes_only_the_number_of_tasks():
    small = simulated_release(0, 0.2)
    assert small.tables["tasks"].group_by("dimension").len()["len"].to_list() == [6] * 8
    assert small.tables["runs"].select(ROW).unique().height == 24
    assert small.truth["cells"].equals(simulated_release(1, 0.1).truth["cells"])


def test_scores_alone_are_those_of_the_whole_data_set(release):
    alone = simulated_scores(0)
    assert release.tables["runs"].select(alone.columns).equals(alone)


def test_tables_fit_their_schemas_and_ids_are_unique(release):
    for name, frame in release.tables.items():
        tables.check(name, frame)
    assert release.tables["runs"]["run_id"].is_unique().all()
    assert release.simulated
    assert release.kind == "simulated"
    assert "simulated" in release.name
    labelled = release.tables["labels"].select("run_id", "index").unique()
    said = release.tables["messages"].filter(pl.col("seat_kind") == "under_test")
    assert labelled.join(said, on=["run_id", "index"], how="anti").is_empty()
    assert said["content"].str.contains("[simulated", literal=True).all()
    assert set(release.tables["models"].columns) == set(tables.MODELS.names)


def test_a_size_or_seed_that_cannot_be_is_refused_in_one_line():
    for bad in ({"scale": 0}, {"scale": float("nan")}, {"seed": -1}):
        with pytest.raises(StudyError) as caught:
            simulated_release(**bad)
        assert "\n" not in str(caught.value)


def all_texts(dataset) -> set[str]:
    """Every distinct text in the tables and in the truth."""
    frames = [*dataset.tables.values(), *(v for v in dataset.truth.values() if isinstance(v, pl.DataFrame))]
    out: set[str] = set(dataset.notes) | {dataset.name}
    for frame in frames:
        for column, dtype in frame.schema.items():
            if dtype == pl.String and column != "run_id":
                out |= set(frame[column].drop_nulls().unique())
            elif column == "run_id":
                out |= set(frame[column].head(200)) | set(frame[column].str.split(".").list.get(1).unique())
    return out


@pytest.mark.parametrize("make", [simulated_release, simulated_mazes])
def test_no_real_model_or_builder_is_named_anywhere(make):
    known = registry.models()
    names = {*known["model"], *known["builder"].drop_nulls(), "claude", "gpt", "gemini", "grok", "qwen", "llama"}
    names |= {a for text in known["aliases"].drop_nulls() for a in text.split("|") if a}
    pattern = re.compile("|".join(rf"(?<![a-z0-9]){re.escape(n.lower())}(?![a-z0-9])" for n in names))
    pseudonym = re.compile(r"sim:?[fcosmwx]\d+")  # sim:O3 is no o3
    assert [t for t in all_texts(make(0, 0.1)) if pattern.search(pseudonym.sub("", t.lower()))] == []


@pytest.mark.parametrize("name", ["simulated_release", "simulated_mazes"])
def test_full_size_takes_less_than_ten_seconds_and_a_gigabyte(name):
    code = (
        "import json, time\n"
        "start = time.perf_counter()\n"
        f"from cilab import datasets; datasets.{name}()\n"
        "seconds = time.perf_counter() - start\n"
        # ru_maxrss would also count the parent that started this process
        "lines = open('/proc/self/status').read().splitlines()\n"
        "peak = next(int(line.split()[1]) for line in lines if line.startswith('VmHWM'))\n"
        "print(json.dumps([seconds, peak / 1024]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, megabytes = json.loads(done.stdout)
    assert seconds < 10
    assert megabytes < 1000
