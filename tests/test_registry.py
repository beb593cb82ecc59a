"""The model registry against the published tables, the papers and the installed price map."""

from __future__ import annotations

import csv
import datetime as dt
import importlib.util
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.core import registry, tables
from cilab.core.errors import CilabError, RegistryError
from cilab.core.paths import find_shipped, shipped


def published(name: str) -> list[dict[str, str]]:
    with shipped(f"data/published/{name}").open(newline="") as f:
        return list(csv.DictReader(f))


@pytest.fixture(scope="module")
def price_map() -> dict[str, dict]:
    """LiteLLM's price map as installed, read without importing LiteLLM."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.origin is not None
    return json.loads((Path(spec.origin).parent / "model_prices_and_context_window_backup.json").read_text())


def mapped(price_map: dict[str, dict], litellm: str) -> dict:
    """The map's entry of a LiteLLM string; entries of the first providers stand there without their prefix."""
    entry = price_map.get(litellm) or price_map.get(litellm.split("/", 1)[1])
    assert entry is not None, f"{litellm} is not in the installed LiteLLM's model map: see data/README.md"
    return entry


def test_all_32_maze_models_are_there_as_table_1_says() -> None:
    rows = published("maze_models.csv")
    assert len(rows) == 32
    for row in rows:
        model = registry.find(row["model"])
        assert "maze" in model.studies
        assert model.builder == row["builder"]
        assert model.open_weights is (row["open_weights"] == "1")
        assert model.distilled is (row["distilled"] == "1")
        assert model.system_prompt_flexible is (row["system_prompt_flexible"] == "1")
        assert ("uncertain" in (model.note or "")) == ("uncertain" in row["note"])
    assert registry.models().filter(pl.col("studies").str.contains("maze")).height == 32


def test_every_name_in_the_maze_result_tables_is_a_canonical_name() -> None:
    canonical = set(registry.models()["model"])
    names = {row[side] for row in published("maze_pairs.csv") for side in ("starter", "follower")}
    assert len(names) == 18
    assert names <= canonical


def test_every_leaderboard_model_is_there_with_its_maker_and_weights() -> None:
    rows = published("leaderboard_2026-10-09.csv")
    assert {row["model"] for row in rows} == {row["model"] for row in published("overall_2026-10-09.csv")}
    for row in rows:
        model = registry.find(row["model"])
        assert model.model == row["model"]
        assert "teamwork" in model.studies
        assert (model.builder, model.open_weights) == (row["maker"], row["open_weight"] == "1")


def test_the_five_frontier_models_of_the_teamwork_paper_are_closed_models_of_three_labs() -> None:
    # collaborative-intelligence paper, section 3
    names = ("Gemini 4 Argon", "GPT-6 Astra", "GPT-6.1 Sol", "Claude Opus 5.5", "Claude Fable 5.1")
    found = [registry.find(n) for n in names]
    assert {m.builder for m in found} == {"Google", "OpenAI", "Anthropic"}
    assert not any(m.open_weights for m in found)


def test_strength_tiers_are_the_13_models_of_appendix_d2() -> None:
    table = registry.models().drop_nulls("strength")
    tiers = {t: set(table.filter(pl.col("strength") == t)["model"]) for t in ("strong", "medium", "weak")}
    assert tiers == {
        "strong": {"grok-3-mini", "grok-4", "gemini-2.5-pro", "gpt-5", "claude-opus-4.1"},
        "medium": {"grok-3", "gemini-2.5-flash", "gpt-4.1", "claude-sonnet-4"},
        "weak": {"gemini-2.5-flash-lite", "gpt-5-nano", "gpt-4.1-mini", "claude-haiku-3.5"},
    }


def test_what_no_source_states_is_null() -> None:
    table = registry.models()
    teamwork_only = table.filter(pl.col("studies") == "teamwork")
    assert teamwork_only["distilled"].null_count() == teamwork_only.height
    assert table["effort_lightest"].null_count() == table.height
    assert set(table.drop_nulls("effort_high")["model"]) == {
        "Gemini 4 Argon",
        "GPT-6 Astra",
        "Claude Opus 5.5",
        "Kimi K3.1 Pro",
    }
    assert registry.find("Nemotron 3 Ultra").open_weights is None


def test_every_litellm_string_is_a_chat_model_of_the_installed_map(price_map: dict[str, dict]) -> None:
    strings = registry.models()["litellm"].drop_nulls()
    assert strings.len() > 40
    for litellm in strings:
        assert mapped(price_map, litellm)["mode"] == "chat"


def test_prices_are_those_of_the_installed_map_per_million_tokens(price_map: dict[str, dict]) -> None:
    names = {
        "usd_per_mtok_in": "input_cost_per_token",
        "usd_per_mtok_out": "output_cost_per_token",
        "usd_per_mtok_cached": "cache_read_input_token_cost",
    }
    for row in registry.models().drop_nulls("litellm").iter_rows(named=True):
        entry = mapped(price_map, row["litellm"])
        for ours, theirs in names.items():
            per_token = entry.get(theirs)
            expected = None if per_token is None else pytest.approx(per_token * 1e6, rel=1e-9)
            assert row[ours] == expected, f"{row['model']}: {ours}"


def test_o3_and_gpt_5_are_of_one_family_and_gemini_of_another() -> None:
    assert registry.family("o3") == registry.family("gpt-5") == "openai"
    assert registry.family("gemini-2.5-pro") == "google"
    assert registry.family("nobody") is None


def test_the_table_keeps_its_schema_and_models_its_columns() -> None:
    assert registry.models().schema == tables.MODELS.schema
    assert registry.Model.__slots__ == tables.MODELS.names


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("openai/gpt-4.1", "gpt-4.1"),
        ("AZURE/GPT-4.1", "gpt-4.1"),
        ("gemini 2.5 pro", "gemini-2.5-pro"),
        ("vertex_ai/gemini-2.5-pro", "gemini-2.5-pro"),
        ("llama-3.3 70B it", "llama-3.3-70b"),
        ("claude sonnet 4.0", "claude-sonnet-4"),
        ("gpt-6-astra", "GPT-6 Astra"),
        ("anthropic/claude-opus-5-5", "Claude Opus 5.5"),
        ("together:moonshotai/Kimi-K3", "Kimi K3"),
        ("together_ai/openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_a_model_is_found_by_every_spelling(name: str, model: str) -> None:
    assert registry.find(name).model == model


@given(st.sampled_from(registry.models()["model"].to_list()), st.data())
def test_case_and_separators_of_a_name_do_not_matter(name: str, data: st.DataObject) -> None:
    letters = [data.draw(st.sampled_from([c.lower(), c.upper()])) for c in name]
    spelling = "".join(data.draw(st.sampled_from(" _.-")) if c in " _.-" else c for c in letters)
    assert registry.find(spelling).model == name


def test_an_unknown_model_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(RegistryError, match=r"no model called 'openai/gtp-4\.1'.*Did you mean gpt-4\.1"):
        registry.find("openai/gtp-4.1")
    assert registry.lookup("openai/gtp-4.1") is None


@pytest.mark.parametrize("name", ["sim/gpt-5", "sim:o3", "local/phi-4", "python:o3", "", "/"])
def test_what_cilab_plays_itself_never_passes_for_a_real_model(name: str) -> None:
    assert registry.lookup(name) is None
    assert registry.cost_usd(name, 10, 10, 0) is None


def test_cost_counts_cached_tokens_once_at_their_own_price() -> None:
    # gpt-4.1 at 2, 8 and 0.5 USD per million: (1000 - 400) * 2 + 400 * 0.5 + 100 * 8 = 2200 millionths
    assert registry.cost_usd("gpt-4.1", 1000, 100, 400) == pytest.approx(0.0022)
    assert registry.cost_usd("gpt-4.1", 1000, 100, None) == pytest.approx(0.0028)


def test_cached_tokens_without_a_price_of_their_own_cost_as_much_as_the_others() -> None:
    assert registry.price("grok-4").usd_per_mtok_cached is None
    # grok-4 at 3 and 15 USD per million: 10 * 3 + 10 * 15 = 180 millionths, however many were cached
    assert registry.cost_usd("grok-4", 10, 10, 5) == registry.cost_usd("grok-4", 10, 10) == pytest.approx(0.00018)


def test_an_unknown_price_gives_no_cost_and_never_zero() -> None:
    assert registry.cost_usd("openai/some-new-model", 10, 10, 0) is None
    assert registry.cost_usd("gpt-4.1", None, 10, 0) is None
    assert registry.price("azure/gpt-4.1") is None, "the price of another provider is not this provider's"


@pytest.mark.parametrize("usage", [(-1, 0, 0), (0, -1, 0), (10, 0, 11), (10, 0, -1)])
def test_impossible_usage_is_refused(usage: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="impossible usage"):
        registry.cost_usd("gpt-4.1", *usage)


def test_a_users_own_models_are_added_and_replace_known_ones(tmp_path: Path) -> None:
    own = tmp_path / "models.csv"
    own.write_text(
        "model,litellm,family,open_weights,released,usd_per_mtok_in,usd_per_mtok_out\n"
        "my-agent,python:my.agent:make,home,true,2026-11-01,0.5,1\n"
        "gpt-4.1,openai/gpt-4.1,openai,false,,3,9\n"
    )
    assert registry.models(extra=own).height == registry.models().height + 1
    agent = registry.find("My-Agent", extra=own)
    assert (agent.open_weights, agent.released, agent.strength) == (True, dt.date(2026, 11, 1), None)
    assert registry.find("python:my.agent:make", extra=own) == agent
    assert registry.price("gpt-4.1", extra=own).usd_per_mtok_in == 3
    assert registry.price("gpt-4.1").usd_per_mtok_in == 2
    assert registry.lookup("my-agent") is None


def test_a_users_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    import os

    own = tmp_path / "models.csv"
    own.write_text("model,builder\nmine,A\n")
    assert registry.find("mine", extra=own).builder == "A"
    own.write_text("model,builder\nmine,B\n")
    os.utime(own, ns=(1, 1))
    assert registry.find("mine", extra=own).builder == "B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle\nx\n", "no column 'modle'.*Did you mean model"),
        ("builder\nx\n", "needs the column 'model'"),
        ("model,open_weights\nx,perhaps\n", "open_weights is 'perhaps'"),
        ("model,released\nx,August 2025\n", "released is 'August 2025'"),
        ("model,usd_per_mtok_in\nx,cheap\n", "usd_per_mtok_in is 'cheap'"),
        ("model,usd_per_mtok_in\nx,-1\n", "negative"),
        ("model,strength\nx,mighty\n", "strength is 'mighty'"),
        ("model,builder\n,x\n", "rows without model"),
        ("model\nx\nx\n", "two models answer to 'x'"),
        ("model,aliases\nx,gpt-5\n", "two models answer to 'gpt-5'"),
        ("", "cannot read the models file"),
    ],
)
def test_a_wrong_models_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "models.csv"
    own.write_text(text)
    with pytest.raises(RegistryError, match=message) as caught:
        registry.models(extra=own)
    assert "\n" not in str(caught.value)


def test_a_missing_models_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="cannot read the models file"):
        registry.find("gpt-5", extra=tmp_path / "none.csv")


def test_a_checkout_gives_its_own_file_and_a_wheel_the_copy_inside_it(tmp_path: Path) -> None:
    package = tmp_path / "cilab"
    inside = package / "_shipped" / "data" / "models.csv"
    inside.parent.mkdir(parents=True)
    inside.write_text("wheel")
    assert find_shipped("data/models.csv", package) == inside
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(CilabError, match=r"data/models\.csv is not among the files of cilab"):
        find_shipped("data/models.csv", package)
    own = tmp_path / "data" / "models.csv"
    own.parent.mkdir()
    own.write_text("checkout")
    assert find_shipped("data/models.csv", package) == own


@pytest.mark.parametrize("outside", ["../secret", "data/../../secret", "/etc/hostname"])
def test_a_path_out_of_the_project_is_refused(outside: str) -> None:
    with pytest.raises(CilabError, match="path inside the project"):
        shipped(outside)
