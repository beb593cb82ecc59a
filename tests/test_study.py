"""Study files: what is read from them, and one clear line for every mistake: the file, the key, how to mend it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.collect.limits import Limit
from cilab.core.errors import CilabError, StudyError
from cilab.running.load import benchmarks, load_study
from cilab.running.study_file import StudyFile, load, parse

STUDIES = Path(__file__).resolve().parents[1] / "studies"

GOOD = """\
name: s
blocks:
  - benchmark: maze
    models: [sim/strong]
    mazes: {count: 2}
"""
RELAY = """\
name: s
blocks:
  - benchmark: maze
    versions: [relay]
    relay: [{strong: sim/strong, weak: sim/weak, k: [2]}]
    mazes: {count: 1}
"""


def study(text, **more):
    return parse(text, benchmarks(), where="s.yaml", **more)


def line(text, action=None, path=None):
    """The one line with which a study file is refused, its plan included; it begins with the file."""
    with pytest.raises(CilabError) as e:
        list(study(text).specs()) if action is None else action()
    said = str(e.value)
    assert "\n" not in said and said.startswith(f"{path or 's.yaml'}:"), said
    assert e.value.exit_code == 2
    return said


def changed(old, new, text=GOOD):
    assert old in text
    return text.replace(old, new)


def with_block(more, text=GOOD):
    return text + f"    {more}\n"


# -- misspelt and unknown ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "meant"),
    [
        (GOOD + "bugdet_usd: 3\n", "bugdet_usd", "budget_usd"),
        (changed("mazes:", "mzaes:"), "blocks[0].mzaes", "mazes"),
        (changed("count:", "cuont:"), "blocks[0].mazes.cuont", "count"),
        (changed("[sim/strong]", "[{model: sim/strong, efort: high}]"), "blocks[0].models[0].efort", "effort"),
        (with_block("pairs: [[{modle: sim/weak}, sim/weak]]"), "blocks[0].pairs[0][0].modle", "model"),
        (changed("strong:", "stong:", RELAY), "blocks[0].relay[0].stong", "strong"),
        (GOOD + "limits: {openai: {concurency: 3}}\n", "limits.openai.concurency", "concurrency"),
        (GOOD + "models: {x: {price: {inptu: 3, output: 1}}}\n", "models.x.price.inptu", "input"),
    ],
)
def test_a_misspelt_key_is_named_with_its_place_and_what_was_meant(text, place, meant):
    said = line(text)
    assert said.startswith(f"s.yaml: {place}: unknown key. Did you mean ") and re.search(rf"\b{meant}\b", said)


def test_an_unknown_benchmark_is_named_with_those_known():
    assert line(changed("benchmark: maze", "benchmark: mase")) == (
        "s.yaml: blocks[0].benchmark is 'mase'; known: maze, teamwork. Did you mean maze?"
    )
    assert line(changed("- benchmark: maze\n    models", "- models")).startswith(
        "s.yaml: blocks[0].benchmark is missing"
    )
    for odd in ("[maze]", "{maze: 1}", "5"):
        assert "blocks[0].benchmark is" in line(changed("benchmark: maze", f"benchmark: {odd}"))


def test_an_unknown_version_is_told_with_the_known_ones():
    said = line(with_block("versions: [solo_ful]"))
    assert "blocks[0].versions[0]" in said and "'solo_full'" in said and "got 'solo_ful'" in said


def written(folder, text, name="s.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder, text):
    path = written(folder, text)
    return line("", lambda: load_study(path), path)


def test_an_unknown_model_is_told_with_its_nearest_name_and_how_to_describe_it(tmp_path):
    said = refused(tmp_path, changed("sim/strong", "gpt-4.l"))
    assert "'gpt-4.l'" in said and "gpt-4.1" in said and "under `models`" in said


def test_an_unknown_profile_is_told_with_its_nearest_name(tmp_path):
    said = refused(tmp_path, changed("sim/strong", "sim/stong"))
    assert "'stong'" in said and "Did you mean strong?" in said


# -- empty and missing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_block("seeds: []"), "blocks[0].seeds: is too short; name at least 1"),
        (with_block("versions: []"), "blocks[0].versions: is too short; name at least 1"),
        (changed("[sim/strong]", "[]"), "blocks[0]: models: name at least one"),
        (changed("    models: [sim/strong]\n", ""), "blocks[0]: models: name at least one"),
        (changed("[sim/strong]", "['']"), "blocks[0].models[0]: String should have at least 1 character"),
        (changed("count: 2", "count: 2, density: []"), "blocks[0]"),
        ("name: s\nblocks: []\n", "blocks: is too short; name at least 1"),
        ("name: s\n", "blocks: is missing"),
        ("name: s\nblocks:\n", "blocks: must be a valid list, got None"),
        (changed("name: s\n", ""), "name: is missing"),
        (with_block("versions: [relay]"), "blocks[0]: relay: name a strong and a weak model"),
        (with_block("relay: [{strong: sim/a, weak: sim/b}]"), "blocks[0]: versions: add relay"),
        (changed(", weak: sim/weak", "", RELAY), "blocks[0].relay[0].weak: is missing"),
        (changed("k: [2]", "k: []", RELAY), "blocks[0].relay[0].k: is too short"),
        (with_block("arms: [{name: a, text: ''}]"), "blocks[0].arms[0].text"),
    ],
)
def test_what_is_empty_or_missing_is_named(text, words):
    assert words in line(text)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "- a\n- b\n", "hello\n", "5\n", "~\n", "\ufeff"])
def test_a_file_that_is_no_mapping_is_no_study_file(text):
    assert line(text) == "s.yaml: is no study file; it needs at least `name` and `blocks`."


# -- types and bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "budget_usd: -3\n", "budget_usd: must be greater than 0, got -3"),
        (GOOD + "budget_usd: 0\n", "budget_usd: must be greater than 0, got 0"),
        (GOOD + "budget_usd: .nan\n", "budget_usd: must be a finite number, got nan"),
        (changed("count: 2", "count: 2, density: .nan"), "blocks[0].mazes.density: must be a finite number, got nan"),
        (GOOD + "budget_usd: lots\n", "budget_usd: must be a valid number"),
        (GOOD + "budget_usd: true\n", "budget_usd: must not be true or false"),
        (GOOD + "concurrency: many\n", "concurrency: must be a valid integer"),
        (GOOD + "concurrency: 0\n", "concurrency: must be greater than or equal to 1, got 0"),
        (GOOD + "concurrency: yes\n", "concurrency: must not be true or false"),
        (GOOD + "deadline_s: 0\n", "deadline_s: must be greater than 0"),
        (GOOD + "max_requests: 0\n", "max_requests: must be greater than or equal to 1"),
        (GOOD + "limits: {openai: 3}\n", "limits.openai: must be a mapping"),
        (GOOD + "limits: {openai: {concurrency: 0}}\n", "limits.openai.concurrency: must be greater"),
        (GOOD + "limits: {openai: {requests_per_minute: 0}}\n", "limits.openai.requests_per_minute: must be greater"),
        (GOOD + "models: {x: {price: {input: -1, output: 2}}}\n", "models.x.price.input: must be greater"),
        (GOOD + "models: {x: {price: {input: 1}}}\n", "models.x.price.output: is missing"),
        (GOOD + "models: {x: {system: fould}}\n", "models.x.system: must match ^(keep|fold)$, got 'fould'"),
        (changed("name: s", "name: a b"), "name: must match"),
        (changed("name: s", "name: ../up"), "name: must match"),
        (changed("name: s", "name: 5"), "name: must be a valid string, got 5"),
        ("name: s\nblocks: {benchmark: maze}\n", "blocks: must be a valid list"),
        ("name: s\nblocks: maze\n", "blocks: must be a valid list, got 'maze'; write [maze]"),
        ("name: s\nblocks: [1]\n", "blocks[0]: must be a mapping, got 1"),
        (
            changed("[sim/strong]", "sim/strong"),
            "blocks[0].models: must be a valid list, got 'sim/strong'; write [sim/strong]",
        ),
        (changed("[sim/strong]", "[5]"), "blocks[0].models[0]: must be a mapping"),
        (changed("count: 2", "count: 0"), "blocks[0].mazes.count: must be greater than or equal to 1, got 0"),
        (changed("count: 2", "count: 2, size: big"), "blocks[0].mazes.size: must be a valid integer"),
        (changed("count: 2", "count: 2, density: high"), "blocks[0].mazes.density: must be a valid number"),
        (changed("count: 2", "count: 2, path: [7, 8, 9]"), "blocks[0].mazes.path"),
        (with_block("seeds: 3"), "blocks[0].seeds: must be a valid list, got 3; write [3]"),
        (with_block("seeds: [-1]"), "blocks[0].seeds[0]: must be greater than or equal to 0, got -1"),
        (with_block("max_turns: 1"), "blocks[0].max_turns: must be greater than or equal to 2, got 1"),
        (with_block("pairs: everyone"), "blocks[0].pairs: must be 'homogeneous' or 'all', got 'everyone'"),
        (with_block("pairs: [[sim/strong]]"), "blocks[0].pairs[0][1]: is missing"),
        (with_block("pairs: [[a, b, c]]"), "blocks[0].pairs[0]: "),
        (with_block("sampling: {temperature: hot}"), "blocks[0].sampling.temperature: must be a valid number"),
        (changed("k: [2]", "k: [0]", RELAY), "blocks[0].relay[0].k[0]: must be greater than or equal to 1, got 0"),
        (changed("k: [2]", "k: 2", RELAY), "blocks[0].relay[0].k: must be a valid list, got 2; write [2]"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_would_be_right(text, words):
    assert words in line(text)


def test_several_mistakes_are_counted_and_branches_of_one_are_not():
    assert line(GOOD + "concurrency: 0\nbudget_usd: -1\n").endswith("(and 1 more)")
    assert "more)" not in line(changed("count: 2", "count: 2, size: big"))
    assert "more)" not in line(with_block("pairs: everyone"))


@pytest.mark.parametrize(
    ("mazes", "words"),
    [
        ("{count: 2, density: 0.97}", "density"),
        ("{count: 2, density: 30}", "density"),
        ("{count: 2, size: 2}", "size"),
        ("{count: 2, size: 400}", "size"),
        ("{count: 2, path: [9, 7]}", "path_min <= path_max"),
        ("{count: 2, path: [60, 70]}", "lower path_min"),
        ("{count: 2, size: 4, density: 0.75, path: [7, 9]}", "lower path_min or lower density"),
    ],
)
def test_mazes_that_cannot_exist_are_told_with_the_block_and_what_to_change(mazes, words):
    said = line(changed("{count: 2}", mazes))
    assert said.startswith("s.yaml: blocks[0]: ") and words in said


def test_a_later_block_is_named_by_its_number():
    second = GOOD + "  - {benchmark: maze, models: [sim/weak], mazes: {density: 0.97}}\n"
    assert line(second).startswith("s.yaml: blocks[1]: ")


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), -float("inf")])
def test_a_scale_that_is_no_number_above_zero_is_refused(scale):
    with pytest.raises(StudyError, match=r"--scale .*must be a number above 0"):
        study(GOOD, scale=scale)


# -- YAML --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [s\n", "line 2: is no YAML"),
        ("name: s\n\tblocks: 1\n", "line 2: is no YAML"),
        ("name: *unknown\n", "line 1: is no YAML: found undefined alias 'unknown'"),
        ("? [a]\n: b\n", "line 1: is no YAML"),
        (GOOD + "---\nname: t\n", "expected a single document"),
        (GOOD + "description: 2026-99-99\n", "is no YAML: month must be in 1..12"),
        (GOOD + "description: a\0b\n", "the character U+0000 is not allowed"),
        (GOOD + 'description: "a\\ud800b"\n', "half of a surrogate pair"),
        (GOOD + '"\\udfff": 1\n', "half of a surrogate pair"),
        ("name: !!python/object/apply:os.system [ls]\n", "line 1: is no YAML"),
        ("[" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text, words):
    assert words in line(text)


@pytest.mark.parametrize(
    ("text", "at", "key"),
    [
        (GOOD + "name: t\n", 6, "name"),
        (changed("{count: 2}", "{count: 2, count: 3}"), 5, "count"),
        (with_block("models: [sim/weak]"), 6, "models"),
        (GOOD + "'name': t\n", 6, "name"),
    ],
)
def test_a_key_that_stands_twice_is_refused_and_not_overwritten(text, at, key):
    assert line(text) == f"s.yaml: line {at}: is no YAML: the key '{key}' stands here a second time."


def test_a_merged_block_may_give_its_keys_anew():
    text = """\
name: s
blocks:
  - &first {benchmark: maze, models: [sim/strong], versions: [solo_full], mazes: {count: 1}}
  - {<<: *first, models: [sim/weak]}
  - {<<: [*first], versions: [pair]}
"""
    assert [(s.version, s.model) for _, s in study(text).specs()] == [
        ("solo_full", "sim/strong"),
        ("solo_full", "sim/weak"),
        ("pair", "sim/strong"),
    ]


def test_an_alias_that_leads_back_to_itself_ends_in_a_line():
    line("name: &x [*x]\nblocks: *x\n")
    line("name: s\nblocks:\n  - &b {benchmark: maze, models: [*b]}\n")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path, bom, line_end):
    path = tmp_path / "s.yaml"
    path.write_bytes((bom + GOOD.replace("\n", line_end)).encode())
    assert [s.run_id for _, s in load_study(path).specs()] == [s.run_id for _, s in study(GOOD).specs()]


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text):
    for candidate in (text, GOOD + text):
        try:
            study(candidate)
        except CilabError as e:
            assert "\n" not in str(e)


@settings(max_examples=100, deadline=None)
@given(
    key=st.sampled_from(
        ["models", "pairs", "relay", "mazes", "seeds", "arms", "versions", "sampling", "benchmark", "code"]
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=2),
        max_leaves=4,
    ),
)
def test_any_value_of_any_key_is_taken_or_refused_in_one_line(key, value):
    import yaml

    block = {"benchmark": "maze", "models": ["sim/strong"], key: value}
    try:
        study(yaml.safe_dump({"name": "s", "blocks": [block]}))
    except CilabError as e:
        assert "\n" not in str(e) and str(e).startswith("s.yaml:")


# -- files -------------------------------------------------------------------------------------------------


def test_a_missing_file_is_told_with_the_nearest_one(tmp_path):
    written(tmp_path, GOOD, "quickstart.yaml")
    (tmp_path / "studies").mkdir()
    written(tmp_path / "studies", GOOD, "maze_sim.yml")
    for asked, meant in (("quikstart.yaml", "quickstart.yaml"), ("maze_simm.yaml", "studies/maze_sim.yml")):
        said = line("", lambda asked=asked: load(tmp_path / asked, benchmarks()), tmp_path / asked)
        assert said == f"{tmp_path / asked}: no such study file. Did you mean {tmp_path / meant}?"
    nowhere = tmp_path / "no" / "where.yaml"
    assert line("", lambda: load(nowhere, benchmarks()), nowhere).endswith("no such study file.")


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    assert "cannot be read" in line("", lambda: load(tmp_path, benchmarks()), tmp_path)
    path = tmp_path / "s.yaml"
    path.write_bytes(GOOD.encode("utf-16"))
    assert "cannot be read" in line("", lambda: load(path, benchmarks()), path)


# -- what is read ------------------------------------------------------------------------------------------


def test_the_settings_of_a_study_are_read():
    text = GOOD + (
        "budget_usd: 2.5\nconcurrency: 3\ndescription: näive 🧭\n"
        "limits: {default: {concurrency: 2}, openai: {requests_per_minute: 60}}\n"
        "models: {mine: {route: openai/gpt-4.1, system: fold, price: {input: 1, output: 2}}}\n"
    )
    found = study(text)
    file = found.file
    assert (file.budget_usd, file.concurrency, file.description, found.text) == (2.5, 3, "näive 🧭", text)
    assert file.limits["default"].limit() == Limit(concurrency=2)
    assert file.limits["openai"].limit() == Limit(requests_per_minute=60.0)
    assert file.models["mine"].price.output == 2 and file.models["mine"].system == "fold"
    assert StudyFile(name="s", blocks=[{}]).budget_usd is None


def test_a_run_that_two_blocks_ask_for_is_planned_once():
    twice = study(GOOD + "  - {benchmark: maze, models: [sim/strong, sim/weak], mazes: {count: 1}}\n")
    found = [s.run_id for _, s in twice.specs()]
    assert len(found) == len(set(found)) == 3 * 2 + 3  # the second block adds its other model on one maze


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 20))
def test_a_limit_takes_the_first_runs_of_the_plan(limit):
    whole = [s.run_id for _, s in study(GOOD).specs()]
    assert [s.run_id for _, s in study(GOOD).specs(limit=limit)] == whole[:limit]


def test_run_ids_do_not_depend_on_what_is_around_the_blocks():
    around = "budget_usd: 1\nconcurrency: 2\nlimits: {sim: {concurrency: 1}}\ndeadline_s: 5\nmax_requests: 2\n"
    other = changed("name: s", "name: another") + around
    assert [s.run_id for _, s in study(other).specs()] == [s.run_id for _, s in study(GOOD).specs()]


def test_scaling_multiplies_the_mazes_of_every_block():
    assert sum(1 for _ in study(GOOD, scale=2.5).specs()) == 3 * 5
    assert sum(1 for _ in study(GOOD, scale=0.01).specs()) == 3


def test_the_gate_is_lifted_from_runs_that_must_pass_and_not_from_relays():
    kept = [s for _, s in study(RELAY).specs(gate=False) if s.version == "relay"]
    assert kept and all(s.requires is not None for s in kept)


@pytest.mark.parametrize(
    ("name", "runs"), [("quickstart", (900, 1_000)), ("maze_sim", (1_500, 1_700)), ("maze_paper", (15_000, 20_000))]
)
def test_the_studies_that_come_with_cilab_are_valid_and_of_the_size_they_promise(name, runs):
    found = load_study(STUDIES / f"{name}.yaml")
    ids = [s.run_id for _, s in found.specs()]
    assert runs[0] <= len(ids) <= runs[1] and len(set(ids)) == len(ids)
    assert found.file.name == name
