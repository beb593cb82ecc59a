"""Communication efficiency: medians, bands and adaptation worked by hand, and a study that was really played."""

from __future__ import annotations

import polars as pl
import pytest
from scipy import stats as scipy_stats

import cilab
from cilab.core.errors import TableError
from cilab.stats.maze.efficiency import efficiency
from tests.stats.maze_runs import dataset, pair


def said(run: dict, tokens_1: list, tokens_2: list) -> list[dict]:
    """Messages in turn, with the completion tokens of each; None where unknown."""
    turns = [t for both in zip(tokens_1, tokens_2, strict=True) for t in both]
    return [
        {"run_id": run["run_id"], "index": i, "kind": "message", "seat": str(1 + i % 2), "seat_kind": "under_test"}
        | {"tokens_out": t}
        for i, t in enumerate(turns)
    ]


def study(*dialogues: tuple[dict, list, list], **tables):
    runs = [run | {"messages": len(one) + len(two)} for run, one, two in dialogues]
    return dataset(runs, messages=[m for d in dialogues for m in said(*d)], **tables)


def run(a: str, b: str, outcome: float, maze: int = 0, ended: str = "completed") -> dict:
    return pair(a, b, [outcome], first_maze=maze, ended=ended)[0]


BY_HAND = [
    (run("terse", "terse", 1.0), [10, 20], [10, 20]),  # median 15
    (run("terse", "terse", 0.1, 1, "turn_cap"), [10, 10], [10, 10]),  # 10
    (run("wordy", "wordy", 0.8), [100, 100], [90, 110]),  # 100
    (run("wordy", "wordy", 0.3, 1), [120, 120], [120, 120]),  # 120
    (run("terse", "wordy", 1.0), [30, 30, 40], [80, 80, 90]),  # terse 30, wordy 80
    (run("wordy", "terse", -0.5), [70, 90], [20, 20]),  # wordy 80, terse 20
]


def cell(table: pl.DataFrame, **where) -> dict:
    return table.row(by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in where.items()), named=True)


def test_tokens_are_the_mean_over_rollouts_of_the_agents_median_message() -> None:
    table = efficiency(study(*BY_HAND)).table
    own = cell(table, agent="terse", setting="homogeneous")
    assert (own["mean"], own["n"]) == (pytest.approx(12.5), 2)
    assert (own["se"], own["no_interval"]) == (None, "too few: 2 mazes")
    assert cell(table, agent="wordy", setting="heterogeneous")["mean"] == pytest.approx(80)
    assert own["per_solution"] == pytest.approx(15 * 4)


def test_agents_adapt_to_their_partner() -> None:
    result = efficiency(study(*BY_HAND))
    less = cell(result.adaptation, agent="terse", partners="less efficient")
    assert (less["n"], less["mean"], less["change"]) == (2, pytest.approx(25), pytest.approx(12.5))
    more = cell(result.adaptation, agent="wordy", partners="more efficient")
    assert more["change"] == pytest.approx(80 - 110)
    assert set(result.adaptation.select("agent", "partners").rows()) == {
        ("terse", "less efficient"),
        ("wordy", "more efficient"),
    }
    # Nobody had both kinds of partner, so there is no difference, and it says so.
    overall = cell(result.adaptation_overall, partners="less - more efficient")
    assert (overall["change"], overall["reason"]) == (None, "too few: 0 agents")


def test_messages_are_counted_in_the_bands_of_the_outcome() -> None:
    messages = efficiency(study(*BY_HAND)).messages
    assert cell(messages, agent="terse", setting="homogeneous", band="Success")["mean"] == 4
    assert cell(messages, agent="wordy", setting="homogeneous", band="Partial Fail")["median"] == 4
    assert cell(messages, agent="wordy", setting="homogeneous", band="Success")["n"] == 1
    # The failed heterogeneous rollout (a negative outcome) counts for both of its agents.
    failed = messages.filter(pl.col("setting") == "heterogeneous", pl.col("band") == "Fail")
    assert failed.select("agent", "n", "mean").rows() == [("terse", 1, 4.0), ("wordy", 1, 4.0)]


@pytest.mark.parametrize(
    ("outcome", "band"),
    [(0.2499, "Fail"), (0.25, "Partial Fail"), (0.5, "Partial Success"), (0.75, "Success"), (1.0, "Success")],
)
def test_the_lower_end_of_a_band_belongs_to_it(outcome: float, band: str) -> None:
    assert efficiency(study((run("a", "a", outcome), [1], [1]))).messages["band"].to_list() == [band]


def test_by_rollout_those_at_the_turn_limit_are_a_share_with_wilsons_interval() -> None:
    more = [(run("wordy", "wordy", 0.1, 5), [1, 1], [1, 1])]
    result = efficiency(study(*BY_HAND, *more), cluster="rollout")
    whole = cell(result.cap, agent="all", group="failures")
    assert (whole["at_cap"], whole["n"], whole["share"]) == (1, 3, pytest.approx(1 / 3))
    ends = scipy_stats.binomtest(1, 3).proportion_ci(method="wilson")
    assert (whole["lo"], whole["hi"]) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert any("of the failures hit the turn limit (1 of 3)" in s for s in result.statements)
    by_maze = efficiency(study(*BY_HAND))
    whole = cell(by_maze.cap, agent="all", group="failures")
    assert (whole["share"], whole["lo"], whole["no_interval"]) == (0.5, None, "too few: 2 mazes")
    assert cell(by_maze.cap, agent="wordy", setting="homogeneous", group="failures")["share"] is None
    assert any("50 % of the failures hit the turn limit (1 of 2)" in s for s in by_maze.statements)


def test_a_rollout_with_an_unknown_token_count_keeps_its_messages_only() -> None:
    rows = [(run("a", "a", 1.0), [10, None], [10, 10]), (run("a", "a", 1.0, 1), [20, 20], [20, 20])]
    result = efficiency(study(*rows))
    assert result.table.select("n", "mean").row(0) == (1, 20.0)
    assert cell(result.messages, agent="a")["n"] == 2
    assert any("1 rollouts are without token counts" in s for s in result.statements)


def test_thinking_is_taken_off_where_the_calls_say_how_much_it_was() -> None:
    rollout = run("a", "b", 1.0)
    calls = [
        {"run_id": rollout["run_id"], "index": i, "seat": str(1 + i % 2), "purpose": "play", "model_asked": "m"}
        | {"tokens_reasoning": thought, "error": error}
        for i, (thought, error) in enumerate([(90, None), (None, None), (90, None), (5, None), (500, "timed out")])
    ]
    result = efficiency(study((rollout, [100, 110], [20, 25]), calls=calls))
    assert dict(result.table.select("agent", "mean").rows()) == {"a": 15.0, "b": 20.0}


def test_a_study_without_dialogues_is_refused() -> None:
    with pytest.raises(TableError, match="messages: none of these rollouts"):
        efficiency(dataset([run("a", "a", 1.0)]))
    with pytest.raises(TableError, match="needs an opened study"):
        efficiency(dataset([run("a", "a", 1.0)]).runs)
    with pytest.raises(TableError, match="no rollout of a pair"):
        efficiency(dataset([run("a", "a", 1.0) | {"version": "solo_full", "partner_model": None}]))


def test_a_played_study_agrees_with_its_messages(tmp_path) -> None:
    text = "name: e\nblocks:\n  - benchmark: maze\n    versions: [pair]\n    models: [sim/F1, sim/C3]\n    pairs: all\n"
    (tmp_path / "s.yaml").write_text(text + "    mazes: {count: 2}\n", encoding="utf-8")
    cilab.run_study(tmp_path / "s.yaml", out=tmp_path / "out", show_progress=False)
    opened = cilab.open(tmp_path / "out")
    result = efficiency(opened)
    mine = (pl.col("kind") == "message") & (pl.col("model") == "sim/C3")
    runs = opened.runs.select("run_id", pair="partner_model", starter="model").collect()
    medians = opened.messages.filter(mine).group_by("run_id").agg(pl.median("tokens_out")).collect()
    medians = medians.join(runs, on="run_id")
    own = medians.filter((pl.col("pair") == "sim/C3") & (pl.col("starter") == "sim/C3"))["tokens_out"].mean()
    assert cell(result.table, agent="sim/C3", setting="homogeneous")["mean"] == pytest.approx(own)
    assert result.n_used == 8
