"""Studies through `cilab.running`: forecast, own agents, routes, labels, status."""

from __future__ import annotations

import asyncio
import json

import polars as pl
import pytest

import cilab
from cilab import store
from cilab.collect.litellm_model import LiteLLMModel
from cilab.collect.model import CallError, Completion, Usage
from cilab.core.errors import StudyError
from cilab.running import load
from cilab.shell import app as cli

MAZES = "mazes: {count: 2}"


def write(folder, text, name="s.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def study(folder, models, extra="", **block):
    lines = "\n".join(f"    {k}: {v}" for k, v in ({"models": models, "mazes": "{count: 2}"} | block).items())
    return write(folder, f"name: s\n{extra}\nblocks:\n  - benchmark: maze\n{lines}\n")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_study_runs_into_its_own_folder_and_a_second_call_has_nothing_to_do(tmp_path):
    path = study(tmp_path, "[sim/strong]")
    first = cilab.run_study(path, show_progress=False)
    assert (first.exit_code, first.progress.ok, first.progress.usd) == (0, 6, 0.0)
    again = cilab.run_study(path, show_progress=False)
    assert (again.progress.calls, again.progress.stored) == (0, 6)
    opened = cilab.open("data/studies/s")
    assert opened.simulated and opened.runs.collect()["study"].unique().to_list() == ["s (simulated)"]


def test_the_forecast_names_the_runs_that_are_then_stored(tmp_path):
    path = study(tmp_path, "[sim/weak]")
    planned = cilab.forecast(path)
    assert planned.finished == 0 and planned.calls[0] <= planned.calls[1] <= planned.calls[2]
    cilab.run_study(path, show_progress=False)
    assert set(planned.run_ids) == set(cilab.open("data/studies/s").runs.collect()["run_id"])
    left = cilab.forecast(path)
    assert (left.finished, left.calls) == (6, (0.0, 0.0, 0.0))


def test_the_calls_made_lie_within_the_forecast(tmp_path):
    path = study(tmp_path, "[sim/medium, sim/weak]", pairs="all")
    planned = cilab.forecast(path)
    made = cilab.run_study(path, show_progress=False).progress.calls
    assert planned.calls[0] <= made <= planned.calls[2]


def test_an_unpriced_model_is_named_and_not_counted_as_free(tmp_path):
    path = study(tmp_path, "[openrouter/nobody/knows, gpt-4.1]")
    planned = cilab.forecast(path)
    assert planned.unpriced == ("openrouter/nobody/knows",)
    priced = next(m for m in planned.by_model if m["model"] == "gpt-4.1")
    assert planned.usd == priced["usd"] and priced["usd"][1] > 0


def test_a_price_of_the_study_overrides_the_list(tmp_path):
    extra = "models: {gpt-4.1: {price: {input: 1000, output: 0}}}"
    planned = cilab.forecast(study(tmp_path, "[gpt-4.1]", extra))
    assert planned.usd[1] == pytest.approx(planned.tokens_in[1] / 1000)


def test_a_plain_name_is_reached_as_the_registry_says_and_a_provider_string_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    loaded = load.load_study(study(tmp_path, "[gpt-4.1]", "models: {mine: {route: openai/x, api_base: 'http://h'}}"))
    resolve = load.resolver(loaded, {})
    assert isinstance(resolve("gpt-4.1"), LiteLLMModel)
    assert resolve("gpt-4.1").name == "openai/gpt-4.1"
    assert resolve("azure/gpt-4.1").name == "azure/gpt-4.1"
    assert resolve("mine").name == "openai/x"


def test_edited_code_of_an_own_agent_gives_new_runs_and_keeps_the_old(tmp_path):
    agent = "def make():\n    return answer\n\ndef answer(messages):\n    return 'I go right. ACTI!'\n"
    write(tmp_path, agent, "own_agent_under_test.py")
    path = study(tmp_path, '["python:own_agent_under_test:make"]', versions="[solo_full]")
    first = cilab.run_study(path, show_progress=False)
    write(tmp_path, agent.replace("right", "down"), "own_agent_under_test.py")
    second = cilab.run_study(path, show_progress=False)
    assert (first.progress.ok, second.progress.ok) == (2, 2)
    assert cilab.open("data/studies/s").runs.collect().height == 4


def test_a_version_given_for_own_code_keeps_its_runs(tmp_path):
    write(tmp_path, "def answer(messages):\n    return 'x'\n", "own_agent_versioned.py")
    code = '{"python:own_agent_versioned:answer": v1}'
    path = study(tmp_path, '["python:own_agent_versioned:answer"]', versions="[solo_full]", code=code)
    before = cilab.forecast(path).run_ids
    write(tmp_path, "def answer(messages):\n    return 'x'  # a remark\n", "own_agent_versioned.py")
    assert cilab.forecast(path).run_ids == before


def test_an_own_agent_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(StudyError, match="there is no module no_such_agent"):
        cilab.forecast(study(tmp_path, '["python:no_such_agent:make"]'))


def test_relays_continue_stored_pairs_and_pay_only_for_what_comes_after(tmp_path):
    text = study(
        tmp_path, "[sim/weak]", versions="[pair, relay]", relay="[{strong: sim/strong, weak: sim/weak, k: [2]}]"
    )
    cilab.run_study(text, show_progress=False)
    opened = cilab.open("data/studies/s")
    table = opened.runs.collect()
    relays = table.filter(pl.col("version") == "relay")
    assert relays.height == 4 and set(relays["prefix_run_id"]) <= set(table["run_id"])
    messages, calls = opened.messages.collect(), opened.calls.collect()
    for relay in relays.iter_rows(named=True):
        said = _said(messages, relay["run_id"])
        assert said[:2] == _said(messages, relay["prefix_run_id"])[:2]
        assert calls.filter(pl.col("run_id") == relay["run_id"]).height == len(said) - 2


def _said(messages, run_id):
    rows = messages.filter((pl.col("run_id") == run_id) & (pl.col("seat_kind") == "under_test")).sort("index")
    return rows["content"].to_list()


def test_an_edited_study_keeps_its_earlier_text_and_rows(tmp_path):
    path = study(tmp_path, "[sim/strong]", versions="[solo_full]")
    cilab.run_study(path, show_progress=False)
    before = (tmp_path / "data/studies/s/study.yaml").read_text()
    study(tmp_path, "[sim/strong]", versions="[solo_full]", critic="false")
    cilab.run_study(path, show_progress=False)
    kept = list((tmp_path / "data/studies/s").glob("study-*.yaml"))
    assert [p.read_text() for p in kept] == [before]
    assert cilab.open("data/studies/s").runs.collect().height == 4


def test_status_counts_what_is_there(tmp_path):
    path = study(tmp_path, "[sim/strong]")
    cilab.run_study(path, limit=4, show_progress=False)
    found = cilab.status("data/studies/s")
    assert (found["finished"], found["by_status"], found["usd"], found["unpriced_runs"]) == (4, {"ok": 4}, 0.0, 0)
    assert (found["planned"], found["missing"]) == (6, 2)


def test_a_limit_after_the_whole_study_does_not_make_it_look_smaller(tmp_path):
    path = study(tmp_path, "[sim/strong]")
    cilab.run_study(path, show_progress=False)
    whole = cilab.status("data/studies/s")
    cilab.run_study(path, limit=2, show_progress=False)
    assert cilab.status("data/studies/s") == whole and whole["planned"] == 6


def test_a_limit_below_one_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(StudyError, match="--limit 0"):
        cilab.run_study(study(tmp_path, "[sim/strong]"), limit=0, show_progress=False)
    assert not (tmp_path / "data").exists()


# -- what was paid ------------------------------------------------------------------------------------------


class Paid:
    """A model of a known price, or of none: every call takes a moment, so that many are in flight."""

    name, provider = "fake/paid", "fake"

    def __init__(self, usd):
        self.usd, self.calls = usd, 0

    async def complete(self, messages, *, tools=None, sampling):
        self.calls += 1
        await asyncio.sleep(0.02)
        return Completion("I go right.", usage=Usage(100, 10), cost_usd=self.usd)


@pytest.fixture
def paid(monkeypatch):
    """Makes the model that every name is resolved to."""

    def use(usd):
        model = Paid(usd)
        monkeypatch.setattr(load, "resolver", lambda study, benchmarks: lambda name: model)
        return model

    return use


LIMITS = "limits: {default: {concurrency: 64}}"


@pytest.mark.parametrize("concurrency", [1, 5])
def test_status_counts_what_unfinished_rollouts_have_cost_and_the_budget_is_passed_by_calls_in_flight_only(
    tmp_path, paid, concurrency
):
    model = paid(0.5)
    extra = f"budget_usd: 3\nconcurrency: {concurrency}\n{LIMITS}"
    path = study(tmp_path, "[openai/x]", extra, mazes="{count: 9}", versions="[pair]")
    summary = cilab.run_study(path, show_progress=False)
    assert (summary.exit_code, summary.progress.done) == (3, 0)
    found = cilab.status("data/studies/s")
    assert found["kept_completions"] == model.calls
    assert found["usd"] == pytest.approx(0.5 * model.calls) == pytest.approx(summary.progress.usd)
    assert 6 <= model.calls < 6 + concurrency
    assert (found["unpriced_calls"], found["unpriced_runs"]) == (0, 0)


def test_status_counts_each_answer_once_when_a_stopped_study_was_finished(tmp_path, paid):
    first = paid(0.5)
    block = {"mazes": "{count: 2}", "versions": "[pair]", "max_turns": "6"}
    cilab.run_study(study(tmp_path, "[openai/x]", f"budget_usd: 3\n{LIMITS}", **block), show_progress=False)
    second = paid(0.5)
    cilab.run_study(study(tmp_path, "[openai/x]", f"budget_usd: 300\n{LIMITS}", **block), show_progress=False)
    assert cilab.status("data/studies/s")["usd"] == pytest.approx(0.5 * (first.calls + second.calls)) == 6.0


def test_a_price_that_nobody_knows_is_said_and_never_nothing(tmp_path, paid, capsys):
    model = paid(None)
    path = study(tmp_path, "[openai/x]", LIMITS, mazes="{count: 1}", versions="[pair]", max_turns="4")
    cilab.run_study(path, show_progress=False)
    found = cilab.status("data/studies/s")
    assert (found["usd"], found["unpriced_calls"], found["unpriced_runs"]) == (0.0, model.calls, 1)
    assert model.calls == 4
    cli.app(["status", "data/studies/s"], standalone_mode=False)
    assert "cost      unknown (4 calls of unknown price)" in capsys.readouterr().out


def test_an_error_that_is_tried_again_costs_its_answers_once(tmp_path, paid):
    model = paid(0.5)
    path = study(tmp_path, "[openai/x]", "max_requests: 1", mazes="{count: 1}", versions="[pair]", max_turns="6")
    complete = model.complete

    async def fails(messages, **how):
        if model.calls == 3:
            raise CallError("bad_request", "no")
        return await complete(messages, **how)

    model.complete = fails
    assert cilab.run_study(path, show_progress=False).exit_code == 1
    found = cilab.status("data/studies/s")
    assert (found["usd"], found["by_status"], found["kept_completions"]) == (1.5, {"error": 1}, 3)
    again = paid(0.5)
    assert cilab.run_study(path, show_progress=False).exit_code == 0
    assert (cilab.status("data/studies/s")["usd"], again.calls) == (3.0, 3)


def test_what_one_session_did_stands_apart_from_the_totals_of_all(tmp_path, paid, capsys):
    paid(0.5)
    path = str(study(tmp_path, "[openai/x]", LIMITS, mazes="{count: 3}", versions="[pair]", max_turns="2"))
    told = []
    for limit in ("2", "3", "3"):
        assert cli.app(["run", path, "--json", "--limit", limit], standalone_mode=False) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [(t["finished"], t["ok"], t["usd"]) for t in told] == [(2, 2, 2.0), (3, 3, 3.0), (3, 3, 3.0)]
    session = [t["this_session"] for t in told]
    assert [(s["ok"], s["calls"], s["usd"]) for s in session] == [(2, 4, 2.0), (1, 2, 1.0), (0, 0, 0.0)]
    assert all(t["ok"] + t["refused"] + t["gated_out"] == t["finished"] for t in told)


# -- what a dry run knows of a study behind a URL ------------------------------------------------------------


def test_a_dry_run_for_a_url_counts_the_runs_of_that_url_and_not_those_of_the_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = study(tmp_path, "[sim/strong]")
    cilab.run_study(path, show_progress=False)
    url = f"file://{tmp_path}/shared/place"
    unknown = cilab.forecast(path, out=url)
    assert unknown.finished is None and unknown.calls[0] > 0
    cli.app(["run", str(path), "--dry-run", "--out", url], standalone_mode=False)
    assert "6 planned, how many are finished is not known on this machine" in capsys.readouterr().out
    assert not (tmp_path / "cache").exists() and not (tmp_path / "shared").exists()
    cilab.run_study(path, out=url, limit=2, show_progress=False)
    known = cilab.forecast(path, out=url)
    assert known.finished == 2 and 0 < known.calls[1] < unknown.calls[1]


def test_a_merged_data_set_has_no_doubles_since_the_same_run_has_the_same_id(tmp_path):
    path = study(tmp_path, "[sim/strong]")
    cilab.run_study(path, out="a", show_progress=False)
    cilab.run_study(path, out="b", show_progress=False)
    a, b = (store.open_study(f).runs.collect().sort("run_id") for f in ("a", "b"))
    assert a["run_id"].to_list() == b["run_id"].to_list()
    assert a["weighted_outcome"].to_list() == b["weighted_outcome"].to_list()


def test_the_gap_shows_the_chance_floor_once_it_was_computed(tmp_path):
    path = study(tmp_path, "[sim/strong, sim/weak]", mazes="{count: 6}")
    cilab.run_study(path, show_progress=False)
    opened = cilab.open("data/studies/s")
    assert cilab.gap(opened).chance_floor is None
    cilab.regrade("data/studies/s", grader="rules", show_progress=False)
    result = cilab.gap(opened)
    chance = opened.annotations.filter(pl.col("feature") == "chance_weighted_outcome").collect()["value"]
    assert result.chance_n == chance.len() == result.n_used
    assert result.chance_floor == pytest.approx(chance.mean()) and -0.2 < result.chance_floor < 0.2
    assert "Chance floor" in result.caption
    assert "Chance floor" in {text.get_text() for text in result.plot().get_legend().get_texts()}


def test_a_study_brings_family_and_strength_of_its_simulated_agents(tmp_path):
    path = study(tmp_path, "[sim/strong]", versions="[solo_full]")
    cilab.run_study(path, show_progress=False)
    study(tmp_path, "[sim/F1]", versions="[solo_full]")
    cilab.run_study(path, show_progress=False)
    models = cilab.open("data/studies/s").models.filter(pl.col("builder") == "simulated").collect()
    assert dict(models.select("model", "strength").iter_rows()) == {"sim/F1": "strong", "sim/strong": "strong"}
    assert models["family"].null_count() == 0


def test_the_mechanisms_of_a_self_played_study_are_computed_from_rules_annotations(tmp_path):
    path = study(tmp_path, "[sim/strong, sim/medium, sim/weak]", pairs="all", mazes="{count: 8}", versions="[pair]")
    cilab.run_study(path, show_progress=False)
    cilab.annotate("data/studies/s", annotator="rules", show_progress=False)
    found = cilab.grounding(cilab.open("data/studies/s"))
    assert found.n_used == 72 and found.table.height > 0
