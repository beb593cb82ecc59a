"""Published tables, the rebuilt round and the hand-worked one, against the files themselves and sums done by hand."""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import cilab
from cilab import datasets
from cilab.core import registry
from cilab.core.errors import StoreError, TableError
from cilab.core.frames import read_rows
from cilab.core.tables import TABLES, empty, frame
from cilab.datasets import published
from cilab.datasets.dataset import Dataset

FILES = Path(__file__).resolve().parents[2] / "data" / "published"


def lines(name: str) -> list[dict[str, str]]:
    """The rows of a file as text, read without polars and without the code under test."""
    with open(FILES / name, newline="") as f:
        return list(csv.DictReader(line for line in f if not line.startswith("#")))


@pytest.fixture(scope="module")
def round_runs() -> pl.DataFrame:
    return datasets.published_round("2026-10-09").runs.collect()


# -- tables -------------------------------------------------------------------------------------------


def test_every_published_file_is_a_table_with_all_its_rows() -> None:
    tables = datasets.published_tables()
    heights = {name: df.height for name, df in tables.items()}
    assert heights == {
        "leaderboard": 84,
        "overall": 12,
        "adjacent": 5,
        "maze_models": 32,
        "maze_pairs": 100,
        "maze_grader_agreement": 56,
        "maze_mediation": 8,
        "odds_ratios": 13,
        "odds_observations": 3,
        "people": 6,
        "claims": 167,
    }
    read = {source.file for source in published._SOURCES.values()}
    hand_worked = {"hand_worked_runs.csv", "hand_worked_scores.csv"}
    assert read == {path.name for path in FILES.glob("*.csv")} - hand_worked


def test_flags_are_booleans_and_percentages_say_so() -> None:
    board = datasets.published_table("leaderboard")
    assert board["open_weights"].dtype == pl.Boolean and board["n_gated"].dtype == pl.Int64
    assert sorted(board.filter("open_weights")["model"].unique()) == [
        "DeepSeek V4 Pro",
        "DeepSeek V4.1 Flash",
        "GLM-5.3",
        "Kimi K3",
        "Qwen 3.7 Max",
        "gpt-oss-120b",
    ]
    first = board.row(3, named=True)
    assert (first["dimension"], first["test_pct"], first["test_hi_pct"]) == ("emotional_intelligence", 43.33, 63.33)
    above_one = [c for c in board.columns if board[c].dtype == pl.Float64 and (board[c].max() or 0) > 1]
    assert all(c.endswith("_pct") for c in above_one)


def test_both_values_of_an_ordered_pair_are_kept_and_marked() -> None:
    pairs = datasets.published_table("maze_pairs")
    doubled = pairs.filter("values_differ").select("panel", "starter", "follower", "weighted_mean").rows()
    assert sorted(doubled) == [
        ("a", "gemini-2.5-flash", "gpt-4.1", 0.63),
        ("a", "gpt-4.1", "gemini-2.5-flash", 0.56),
        ("d", "gemini-2.5-flash", "gpt-4.1", 0.68),
        ("d", "gpt-4.1", "gemini-2.5-flash", 0.63),
    ]


def test_numbers_of_rollouts_are_no_odds_ratios() -> None:
    assert "n_observations" not in datasets.published_table("odds_ratios")["predictor"].to_list()
    assert datasets.published_table("odds_observations")["n"].to_list() == [2628, 1472, 1472]


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TableError, match=r"no published table named leaderbord\. Did you mean leaderboard"):
        datasets.published_table("leaderbord")
    with pytest.raises(TableError, match=r"no published round of 2026-10-10\. Known: 2026-10-09"):
        datasets.published_round("2026-10-10")


def test_claims_keep_the_printed_decimals() -> None:
    claim = datasets.published_table("claims").row(by_predicate=pl.col("id") == "CI120", named=True)
    assert (claim["value_printed"], claim["value"], claim["lo"]) == ("0.70", 0.7, None)


# -- the published round ------------------------------------------------------------------------------


def test_passes_and_fails_are_the_published_ones_in_all_84_cells(round_runs: pl.DataFrame) -> None:
    board = lines("leaderboard_2026-10-09.csv")
    assert len(board) == 84
    for cell in board:
        runs = round_runs.filter((pl.col("model") == cell["model"]) & (pl.col("dimension") == cell["dimension"]))

        def n(version: str, status: str, runs: pl.DataFrame = runs, **score: float) -> int:
            found = runs.filter((pl.col("version") == version) & (pl.col("status") == status))
            return found.filter(pl.col("score") == score["score"]).height if score else found.height

        where = f"{cell['model']}, {cell['dimension']}"
        gated, complete = int(cell["n_gated"]), int(cell["n_complete"])
        assert n("alone", "ok", score=1) == gated, where
        assert n("alone", "ok", score=0) == complete - gated, where
        assert n("alone", "refused") == int(cell["n_refused"]), where
        assert n("alone", "ok") + n("alone", "refused") == int(cell["n_tasks"]) == 30, where
        assert n("test", "ok") == gated and n("test", "gated_out") == 30 - gated, where
        assert n("baseline", "ok") == int(cell["n_baseline"]), where
        assert round(100 * n("test", "ok", score=1) / gated, 2) == float(cell["test"]), where
        assert round(100 * gated / complete, 2) == float(cell["alone"]), where
        if cell["baseline"]:
            share = 100 * n("baseline", "ok", score=1) / int(cell["n_baseline"])
            assert round(share, 2) == float(cell["baseline"]), where
        else:
            assert runs.filter(pl.col("version") == "baseline").height == 0, where


def test_one_cell_by_hand(round_runs: pl.DataFrame) -> None:
    # Claude Fable 5.1: 9 of 30 refused, 18 of 21 solved alone (85.71 %), 17 of 18 passed (94.44 %), 13 baselines.
    cell = round_runs.filter(
        (pl.col("model") == "Claude Fable 5.1") & (pl.col("dimension") == "resisting_unsafe_pressure")
    )
    counts = cell.group_by("version", "status").agg(n=pl.len(), passed=pl.col("passed").sum())
    assert sorted(counts.rows()) == [
        ("alone", "ok", 21, 18),
        ("alone", "refused", 9, 0),
        ("baseline", "gated_out", 12, 0),
        ("baseline", "ok", 13, 13),
        ("test", "gated_out", 12, 0),
        ("test", "ok", 18, 17),
    ]


def test_scores_baselines_and_losses_are_the_published_ones(round_runs: pl.DataFrame) -> None:
    by_task = round_runs.filter(pl.col("status") == "ok").pivot(
        "version", index=["model", "dimension", "task_id"], values="score"
    )
    paired = pl.col("baseline").is_not_null()
    means = (
        by_task.filter(pl.col("alone") == 1)
        .group_by("model", "dimension")
        .agg(
            pl.col("test", "baseline").mean(),
            loss=(pl.col("baseline") - pl.col("test")).filter(paired).mean(),
        )
        .group_by("model")
        .agg(pl.col("test", "baseline", "loss").mean() * 100)
    )
    ours = {row["model"]: row for row in means.iter_rows(named=True)}
    for row in lines("overall_2026-10-09.csv"):
        mine = ours[row["model"]]
        assert mine["test"] == pytest.approx(float(row["score"]), abs=0.00501)
        if row["baseline"]:
            assert mine["baseline"] == pytest.approx(float(row["baseline"]), abs=0.00501)
            assert mine["loss"] == pytest.approx(float(row["teamwork_loss"]), abs=0.00501)
        else:
            assert mine["baseline"] is None
    for row in lines("adjacent_2026-10-09.csv"):
        assert ours[row["higher"]]["test"] - ours[row["lower"]]["test"] == pytest.approx(
            float(row["diff"]), abs=0.00501
        )


def test_the_round_counts_what_the_paper_says_of_the_earlier_round(round_runs: pl.DataFrame) -> None:
    # Section 4.3: the six models failed initiative 91 times; Astra takes it in 27 of 30 tests, Qwen 3.7 Max in 0 of 23.
    six = {row["model"] for row in lines("leaderboard_2026-10-09.csv") if row["main_study"] == "1"}
    tests = round_runs.filter(
        (pl.col("dimension") == "taking_initiative") & (pl.col("version") == "test") & (pl.col("status") == "ok")
    )
    assert len(six) == 6
    assert tests.filter(pl.col("model").is_in(six) & ~pl.col("passed")).height == 91
    passed = {m: (k, n) for m, k, n in tests.group_by("model").agg(pl.col("passed").sum(), n=pl.len()).rows()}
    assert passed["GPT-6 Astra"] == (27, 30) and passed["Qwen 3.7 Max"] == (0, 23)


def test_tasks_of_the_round_say_that_nobody_knows_them(round_runs: pl.DataFrame) -> None:
    data = datasets.published_round()
    assert round_runs["task_id"].str.starts_with("unknown:").all()
    assert "unknown:handling_conflict:07" in round_runs["task_id"].to_list()
    assert any("not allowed" in note for note in data.notes)
    assert round_runs["run_id"].n_unique() == round_runs.height
    assert set(round_runs["task_id"]) == set(data.tasks.collect()["task_id"])
    assert round_runs["rule_version"].unique().to_list() == ["round-2026-10-09"]
    for column in ("finished_at", "cost_usd", "source_family", "split", "effort"):
        assert round_runs[column].null_count() == round_runs.height, column


def test_the_round_is_published_data_that_statistics_take(round_runs: pl.DataFrame) -> None:
    data = datasets.published_round("2026-10-09")
    assert (data.kind, data.simulated, data.last_finished_at) == ("published", False, None)
    _, source = read_rows(data, ["model", "score"])
    assert (source.study, source.data_hash, source.simulated) == (data.name, data.data_hash, False)
    assert round_runs.schema == TABLES["runs"].schema
    weights = dict(data.models.collect().select("model", "open_weights").iter_rows())
    assert weights == dict(datasets.published_table("leaderboard").select("model", "open_weights").iter_rows())


def test_the_round_is_rebuilt_in_a_fifth_of_a_second() -> None:
    def seconds() -> float:
        start = time.process_time()
        datasets.published_round("2026-10-09")
        return time.process_time() - start

    seconds()
    assert min(seconds() for _ in range(5)) < 0.2


def test_a_percentage_that_is_no_share_of_its_tasks_is_refused() -> None:
    assert published._count(94.44, 18, "here") == 17
    with pytest.raises(TableError, match=r"here: 94.4 % is no share of 18 tasks; the nearest is 17 \(94.44 %\)"):
        published._count(94.4, 18, "here")
    with pytest.raises(TableError, match="a percentage without tasks"):
        published._count(50.0, 0, "here")


def test_a_cell_whose_counts_contradict_each_other_is_refused() -> None:
    row = datasets.published_table("leaderboard").row(0, named=True)
    with pytest.raises(TableError, match="GPT-6 Astra, resisting_unsafe_pressure: n_complete is not"):
        published._Cell.of(row | {"n_refused": 1})
    with pytest.raises(TableError, match="alone is not n_gated / n_complete"):
        published._Cell.of(row | {"n_gated": 29, "test_pct": 100.0, "n_baseline": 29})


# -- the hand-worked round ----------------------------------------------------------------------------


def test_the_hand_worked_scores_follow_from_its_runs() -> None:
    """Exact fractions over the files as text; the sums themselves stand in the second file's comments."""
    runs = lines("hand_worked_runs.csv")
    rows = sorted({(r["model"], r["effort"]) for r in runs})
    worked = {(r["model"], r["effort"], r["dimension"]): r for r in lines("hand_worked_scores.csv")}
    assert len(rows) == 3 and len(worked) == 9
    for row in rows:
        scores = {}
        for dimension in ("taking_initiative", "handling_conflict"):
            own = [r for r in runs if (r["model"], r["effort"]) == row and r["dimension"] == dimension]
            tasks = sorted({r["task_id"] for r in own})
            refused = {r["task_id"] for r in own if r["status"] == "refused"}
            alone = {r["task_id"]: Fraction(r["score"]) for r in own if r["version"] == "alone"}
            gated = [t for t in tasks if alone[t] == 1 and t not in refused]
            ok = [r for r in own if r["status"] == "ok"]
            tests = {
                t: [Fraction(r["score"]) for r in ok if (r["task_id"], r["version"]) == (t, "test")] for t in gated
            }
            values = {t: sum(v) / Fraction(len(v)) for t, v in tests.items()}
            whole = [t for t in gated if len(tests[t]) == 3]
            base = [Fraction(r["score"]) for r in ok if r["version"] == "baseline" and r["task_id"] in gated]
            scores[dimension] = (
                sum(values[t] for t in whole) / Fraction(len(whole)),
                sum(values.values()) / Fraction(len(gated)),
                sum(base) / Fraction(len(base)),
            )
            counts = (len(tasks), len(refused), len(gated), len(gated) - len(whole))
            check(worked[(*row, dimension)], scores[dimension], counts)
        overall = tuple(sum(s) / 2 for s in zip(*scores.values(), strict=True))
        check(worked[(*row, "")], overall, None)


def check(line: dict[str, str], scores: tuple[Fraction, ...], counts: tuple[int, ...] | None) -> None:
    assert tuple(Fraction(line[c]) for c in ("score", "score_partial", "baseline")) == scores, line
    if counts is not None:
        assert tuple(int(line[c]) for c in ("n_tasks", "n_refused", "n_gated", "n_incomplete")) == counts, line


def test_the_hand_worked_round_has_every_trap_and_says_that_it_is_invented() -> None:
    data = datasets.hand_worked_round()
    runs = data.runs.collect()
    assert data.simulated and runs["model"].str.starts_with("sim:").all()
    assert runs["run_id"].n_unique() == runs.height == 90
    assert runs.filter(pl.col("status") == "refused")["task_id"].to_list() == ["hand:initiative:1"]
    assert 0.5 in runs.filter(pl.col("dimension") == "handling_conflict")["score"].to_list()
    assert runs["effort"].unique().sort().to_list() == [None, "high"]
    error = runs.filter(pl.col("status") == "error")
    assert error.select("model", "task_id", "version").rows() == [("sim:H2", "hand:initiative:2", "test")]
    scores = data.truth["scores"]
    line = scores.filter((pl.col("model") == "sim:H2") & pl.col("dimension").is_null())
    assert line.select("score", "score_partial").row(0) == pytest.approx((17 / 24, 7 / 12))


# -- Dataset ------------------------------------------------------------------------------------------


def small(**changes: object) -> Dataset:
    row = {"study": "s", "benchmark": "maze", "task_id": "t", "version": "pair", "model": "m", "status": "ok"}
    rows = [row | {"run_id": f"r{i}", "seed": i, "weighted_outcome": i / 4} for i in range(4)]
    labels = frame("labels", [{"run_id": "r1", "index": 0, "rater": "final", "label": "hedges"}])
    settings = {"name": "small", "tables": {"runs": frame("runs", rows), "labels": labels}} | changes
    return Dataset(**{"simulated": False, "kind": "imported", **settings})


def test_a_data_set_answers_like_a_study_and_saves_as_one(tmp_path: Path) -> None:
    data = small()
    folder = data.save(tmp_path / "small")
    study = cilab.open(folder)
    question = "select label, weighted_outcome from runs join labels using (run_id)"
    assert_frame_equal(data.sql(question), study.sql(question))
    assert data.sql(question).rows() == [("hedges", 0.25)]
    for name in ("runs", "messages", "calls", "labels", "annotations", "reviews", "tasks"):
        assert_frame_equal(getattr(data, name).collect(), getattr(study, name).collect())
    assert data.data_hash == study.data_hash
    with pytest.raises(StoreError, match="already holds a study"):
        data.save(folder)


def test_models_of_a_saved_data_set_can_be_read_back(tmp_path: Path) -> None:
    models = frame("models", [{"model": "sim:F1", "family": "A", "open_weights": False}])
    folder = small(tables={"models": models, "runs": small().tables["runs"]}).save(tmp_path / "s")
    known = registry.models(extra=folder / "models.csv")
    assert known.filter(pl.col("model") == "sim:F1")["family"].to_list() == ["A"]


def test_the_hash_of_a_data_set_does_not_depend_on_the_order_of_its_rows() -> None:
    tables = small().tables
    shuffled = small(tables={name: df.sample(fraction=1, shuffle=True, seed=3) for name, df in tables.items()})
    changed = small(tables={**tables, "runs": tables["runs"].with_columns(weighted_outcome=pl.lit(0.5))})
    assert small().data_hash == shuffled.data_hash != changed.data_hash


def test_a_data_set_without_runs_is_hashed_over_its_other_tables() -> None:
    labels = [{"run_id": "r", "index": i, "rater": "person:1", "label": "a"} for i in range(3)]
    one, other = frame("labels", labels), frame("labels", [labels[0] | {"label": "b"}, *labels[1:]])
    hashes = [small(tables={"labels": df}).data_hash for df in (one, one.sort("index", descending=True), other)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_data_set_refuses_tables_that_do_not_fit() -> None:
    with pytest.raises(StoreError, match=r"no table named run\. Did you mean runs"):
        small(tables={"run": empty("runs")})
    with pytest.raises(TableError, match="missing columns: "):
        small(tables={"runs": pl.DataFrame({"run_id": ["a"]})})
    with pytest.raises(StoreError, match=r"no table named massages\. Did you mean messages"):
        small().table("massages")
    with pytest.raises(StoreError, match="cannot write"):
        small().sql("create table x as select 1")


def test_reading_published_tables_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom cilab import datasets\ndatasets.published_round()\n"
        "print([m for m in ('pandas', 'duckdb', 'litellm', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
