"""From a block to run specs: which, in which order, and under which ids; and what they are expected to cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cilab.collect.spec import Requirement, RunSpec, seat_sampling
from cilab.core.errors import MazeError
from cilab.maze import texts
from cilab.maze.plan import MazeBlock, forecast, maze_of, plan, seat_players

KINDS = ("solo_full", "solo_distributed", "pair")


def block(**more):
    known = {"benchmark": "maze", "models": ["a/x", "a/y"], "mazes": {"count": 3}}
    return MazeBlock.model_validate(known | more)


def relay_block(**more):
    relay = {"strong": "a/s", "weak": "a/w", "k": [2, 4]} | more.pop("relay", {})
    return block(models=[], versions=["relay"], relay=[relay], **more)


def ids(specs):
    return [s.run_id for s in specs]


def only(specs):
    (spec,) = specs
    return spec


# -- ids ---------------------------------------------------------------------------------------------------

_WORD = st.text(min_size=1, max_size=5)
_SPEC = st.builds(
    RunSpec,
    benchmark=_WORD,
    task_id=_WORD,
    task_hash=_WORD,
    version=_WORD,
    model=_WORD,
    seed=st.integers(0, 9),
    partner_model=st.none() | _WORD,
    effort=st.none() | _WORD,
    partner_effort=st.none() | _WORD,
    arm=st.none() | _WORD,
    prompts=st.dictionaries(_WORD, _WORD, max_size=2),
    judges=st.dictionaries(_WORD, _WORD, max_size=2),
    sampling=st.dictionaries(_WORD, st.dictionaries(_WORD, st.integers(), max_size=1), max_size=2),
    settings=st.dictionaries(_WORD, st.integers() | _WORD, max_size=2),
)


@given(_SPEC, st.text(), st.dictionaries(st.text(), st.integers()))
def test_a_run_id_does_not_depend_on_conditions_and_hints(spec, run_id, hints):
    assert replace(spec, requires=Requirement(run_id), hints=hints).run_id == spec.run_id


_IDENTITY = [f.name for f in fields(RunSpec) if f.name not in ("requires", "hints")]


@pytest.mark.parametrize("name", _IDENTITY)
@settings(max_examples=20)
@given(spec=_SPEC, other=_SPEC)
def test_a_run_id_depends_on_every_field_of_the_identity(name, spec, other):
    changed = replace(spec, **{name: getattr(other, name)})
    assert (changed.run_id == spec.run_id) == (getattr(other, name) == getattr(spec, name))


@given(_SPEC)
def test_a_run_id_does_not_depend_on_the_order_of_keys(spec):
    def turned(d):
        return dict(reversed(list(d.items())))

    names = ("prompts", "judges", "sampling", "settings")
    assert replace(spec, **{n: turned(getattr(spec, n)) for n in names}).run_id == spec.run_id


@pytest.mark.parametrize(
    "change",
    [
        {"max_turns": 10},
        {"arms": [{"name": "kind", "text": "Be kind."}]},
        {"seeds": [1]},
        {"sampling": {"temperature": 0.5}},
        {"grader": "a/g"},
        {"models": [{"model": "a/x", "effort": "high"}]},
        {"mazes": {"count": 1, "density": 0.2}},
        {"mazes": {"count": 1, "first": 1}},
        {"code": {"a/x": "v2"}},
    ],
)
def test_what_changes_the_rollout_changes_its_id(change):
    base = block(versions=["pair"], models=["a/x"], mazes={"count": 1})
    changed = block(**({"versions": ["pair"], "models": ["a/x"], "mazes": {"count": 1}} | change))
    assert only(plan(base)).run_id != only(plan(changed)).run_id


def test_what_does_not_change_the_rollout_leaves_its_id():
    base = only(plan(block(versions=["pair"], models=["a/x"], mazes={"count": 1})))
    more = block(
        versions=["pair", "solo_full"],
        models=["a/z", "a/x"],
        pairs="all",
        mazes={"count": 5, "size": [6, 8], "path": [7, 9]},
        seeds=[3, 0],
        critic=False,  # not for pairs
        grader_fallbacks=["a/g"],
        code={"a/other": "v1"},
    )
    assert base.run_id in ids(plan(more))
    solo = only(plan(block(versions=["solo_full"], models=["a/x"], mazes={"count": 1}, max_turns=10)))
    assert solo.run_id in ids(plan(block(versions=["solo_full"], models=["a/x"])))


def test_an_arm_is_told_apart_by_its_text_and_by_its_name():
    texts_ = [("a", "x"), ("a", "y"), ("b", "x")]
    found = {
        only(plan(block(versions=["pair"], models=["a/x"], mazes={"count": 1}, arms=[{"name": n, "text": t}]))).run_id
        for n, t in texts_
    }
    assert len(found) == 3


# -- what is planned ---------------------------------------------------------------------------------------


def test_the_same_block_gives_the_same_specs_in_the_same_order():
    b = block(pairs="all", seeds=[0, 1], arms=[{"name": "kind", "text": "Be kind."}])
    assert ids(plan(b)) == ids(plan(MazeBlock.model_validate(b.model_dump())))


def test_every_model_and_setting_meets_the_same_mazes():
    specs = list(plan(block(seeds=[0, 1])))
    per = Counter((s.version, s.model, s.task_id, s.seed) for s in specs)
    assert set(per.values()) == {1} and len(per) == 3 * 2 * 3 * 2
    assert len({s.task_id for s in specs}) == 3 and len(set(ids(specs))) == len(specs)


def test_the_first_runs_are_balanced_over_models_and_settings():
    first = [s for s, _ in zip(plan(block()), range(6), strict=False)]
    assert Counter((s.version, s.model) for s in first) == {(v, m): 1 for v in KINDS for m in ("a/x", "a/y")}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("homogeneous", [("a/x", "a/x"), ("a/y", "a/y")]),
        ("all", [("a/x", "a/x"), ("a/x", "a/y"), ("a/y", "a/x"), ("a/y", "a/y")]),
        ([["a/y", "a/x"], ["a/x", "a/y"], ["a/y", "a/x"]], [("a/y", "a/x"), ("a/x", "a/y")]),
    ],
)
def test_pairs_are_ordered_and_each_stands_once(pairs, expected):
    b = block(pairs=pairs, versions=["pair"], mazes={"count": 1})
    assert [(s.model, s.partner_model) for s in plan(b)] == expected


def test_the_order_of_a_pair_and_the_effort_of_each_seat_are_part_of_the_run():
    high = {"model": "a/x", "effort": "high"}
    b = block(
        pairs=[["a/x", "a/y"], ["a/y", "a/x"], [high, "a/y"], ["a/y", high]], versions=["pair"], mazes={"count": 1}
    )
    specs = list(plan(b))
    assert len(set(ids(specs))) == 4
    assert [(s.effort, s.partner_effort) for s in specs] == [(None, None), (None, None), ("high", None), (None, "high")]


def test_arms_and_seeds_multiply_the_runs_and_stand_in_the_specs():
    arms = [{"name": "kind", "text": "Be kind."}, {"name": "plan", "text": "Plan first."}]
    specs = list(plan(block(versions=["pair"], arms=arms, seeds=[0, 5])))
    assert Counter((s.arm, s.seed) for s in specs) == {(a, s): 6 for a in ("kind", "plan") for s in (0, 5)}
    assert {s.settings["arm_text"] for s in specs} == {"Be kind.", "Plan first."}


def test_sizes_and_densities_are_combined_and_known_in_advance():
    b = block(
        versions=["solo_full"], models=["a/x"], mazes={"count": 2, "size": [4, 6], "density": [0.0, 0.3], "path": None}
    )
    specs = list(plan(b))
    assert Counter((s.hints["maze_size"], s.hints["wall_density"]) for s in specs) == {
        (n, d): 2 for n in (4, 6) for d in (0.0, 0.3)
    }
    for s in specs:
        maze = maze_of(s)
        assert (maze.size, maze.path_length, maze.task_id) == (s.hints["maze_size"], s.hints["path_length"], s.task_id)


def test_a_range_of_mazes_goes_on_where_another_ends():
    whole = ids(plan(block(mazes={"count": 4})))
    parts = ids(plan(block(mazes={"count": 2}))) + ids(plan(block(mazes={"count": 2, "first": 2})))
    assert parts == whole


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 6), factor=st.floats(0.01, 4))
def test_scaling_changes_the_number_of_mazes_and_keeps_the_runs_in_common(count, factor):
    b = block(versions=["pair"], models=["a/x"], mazes={"count": count})
    scaled = b.scaled(factor)
    assert scaled.mazes.count == max(1, round(count * factor))
    assert b.mazes.count == count  # the block itself stays
    few, many = sorted((ids(plan(b)), ids(plan(scaled))), key=len)
    assert many[: len(few)] == few


def test_a_setting_without_a_maze_is_refused_and_never_looped_on():
    with pytest.raises(MazeError, match="lower path_min"):
        list(plan(block(mazes={"size": 4, "density": 0.75, "path": [7, 9]})))


def test_the_prompts_of_a_version_are_hashed_and_no_others():
    specs = {s.version: s for s in plan(block(models=["a/x"], mazes={"count": 1}))}
    assert set(specs["solo_full"].prompts) == {"solo_full", "critic"}
    assert set(specs["pair"].prompts) == {"system", "pair"}
    graded = {s.version: s for s in plan(block(models=["a/x"], mazes={"count": 1}, grader="a/g", critic=False))}
    assert set(graded["solo_full"].prompts) == {"solo_full", "grader_solo", "retry"}
    assert set(graded["pair"].prompts) == {"system", "pair", "grader_pair", "retry"}
    assert specs["pair"].prompts["pair"] == texts.hashes(["pair"])["pair"]


def test_the_models_to_be_called_are_all_named():
    b = block(versions=["pair", "relay"], pairs=[["a/p", "a/q"]], relay=[{"strong": "a/s", "weak": "a/w"}], models=[])
    assert b.model_names() == {"a/p", "a/q", "a/s", "a/w"}
    assert block(grader="a/g", grader_fallbacks=["a/f"]).model_names() == {"a/x", "a/y", "a/g", "a/f"}


# -- relays ------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    max_turns=st.integers(5, 50),
    seeds=st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
    temperature=st.none() | st.floats(0, 2),
    arm=st.booleans(),
    critic=st.booleans(),
    effort=st.none() | st.just("high"),
)
def test_a_relays_prefix_is_the_pair_that_a_pair_block_plays(max_turns, seeds, temperature, arm, critic, effort):
    shared = {
        "max_turns": max_turns,
        "seeds": seeds,
        "sampling": {"temperature": temperature},
        "arms": [{"name": "kind", "text": "Be kind."}] if arm else [],
        "critic": critic,
        "mazes": {"count": 2},
    }
    strong = {"model": "a/s", "effort": effort}
    pairs = block(versions=["pair"], pairs=[[strong, "a/w"], ["a/w", "a/w"]], **shared)
    relays = list(plan(relay_block(relay={"strong": strong}, **shared)))
    played = set(ids(plan(pairs)))
    assert {s.requires.run_id for s in relays if s.version == "relay"} == played
    assert {s.run_id for s in relays if s.version == "pair"} == played


def test_a_relay_comes_after_its_prefix_and_waits_for_it_to_be_finished():
    seen = set()
    for s in plan(relay_block()):
        if s.version == "relay":
            assert s.requires == Requirement(s.settings["prefix_run_id"], "finished")
            assert s.requires.run_id in seen
        seen.add(s.run_id)


def test_a_relay_is_played_in_both_kinds_at_every_swap():
    relays = [s for s in plan(relay_block(mazes={"count": 1})) if s.version == "relay"]
    assert [(s.settings["relay_kind"], s.settings["relay_k"]) for s in relays] == [
        ("primer", 2),
        ("primer", 4),
        ("recovery", 2),
        ("recovery", 4),
    ]
    assert {(s.model, s.partner_model) for s in relays} == {("a/s", "a/w")} and len(set(ids(relays))) == 4
    assert [s.hints["relay_k"] for s in relays] == [2, 4, 2, 4]


def relay(kind, k, seat="next"):
    b = relay_block(relay={"k": [k], "kinds": [kind], "seat": seat}, mazes={"count": 1})
    return next(s for s in plan(b) if s.version == "relay")


def names_after_swap(s):
    return tuple(name for name, _ in seat_players(s))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8])
def test_a_strong_primer_starts_and_gives_its_seat_to_a_copy_of_the_weak_model(k):
    s = relay("primer", k)
    assert names_after_swap(s) == ("a/w", "a/w")


@pytest.mark.parametrize(
    ("k", "seat", "after"),
    [
        (2, "next", ("a/s", "a/w")),  # after an even number of turns the starter speaks next
        (4, "next", ("a/s", "a/w")),
        (1, "next", ("a/w", "a/s")),
        (3, "next", ("a/w", "a/s")),
        (2, "1", ("a/s", "a/w")),
        (3, "1", ("a/s", "a/w")),
        (2, "2", ("a/w", "a/s")),
        (3, "2", ("a/w", "a/s")),
    ],
)
def test_a_strong_recovery_takes_the_seat_asked_for(k, seat, after):
    s = relay("recovery", k, seat)
    assert names_after_swap(s) == after


def test_the_seat_of_a_recovery_is_part_of_its_id_and_that_of_a_primer_fixed():
    assert len({relay("recovery", 2, seat).run_id for seat in ("next", "1", "2")}) == 3
    assert len({relay("primer", 2, seat).run_id for seat in ("next", "1", "2")}) == 1


# -- blocks that are refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"models": []},
        {"models": [], "versions": ["solo_full"], "pairs": [["a/x", "a/y"]]},
        {"versions": []},
        {"versions": ["relay"]},
        {"relay": [{"strong": "a/s", "weak": "a/w"}]},
        {"versions": ["relay"], "relay": [{"strong": "a/s", "weak": "a/w", "k": [0]}]},
        {"versions": ["relay"], "relay": [{"strong": "a/s", "weak": "a/w", "k": []}]},
        {"seeds": []},
        {"seeds": [-1]},
        {"mazes": {"count": 0}},
        {"max_turns": 1},
        {"pairs": "some"},
        {"modles": ["a/x"]},
        {"arms": [{"name": "", "text": "x"}]},
    ],
)
def test_a_block_that_asks_for_nothing_or_for_nonsense_is_refused(bad):
    with pytest.raises(ValidationError):
        block(**bad)


# -- forecasts ---------------------------------------------------------------------------------------------


def totals(spec):
    f = forecast(spec)
    return tuple(sum(calls[case] for calls in f.calls.values()) for case in range(3))


def test_least_expected_and_most_calls_are_in_order_and_within_the_turns():
    for spec in [*plan(block(pairs="all", mazes={"count": 1})), *plan(relay_block(mazes={"count": 1}))]:
        least, expected, most = totals(spec)
        assert 0 <= least <= expected <= most <= 50
        f = forecast(spec)
        for tokens in (*f.tokens_in.values(), *f.tokens_out.values()):
            assert tokens[0] <= tokens[1] <= tokens[2]


def test_a_relay_pays_only_for_the_turns_after_its_prefix():
    pair = only(plan(block(versions=["pair"], models=["a/x"], mazes={"count": 1})))
    assert [totals(pair)[2] - totals(relay("primer", k))[2] for k in (2, 4, 7)] == [2, 4, 7]


def test_a_pair_shares_its_calls_between_its_models_and_a_grader_adds_its_own():
    spec = only(plan(block(versions=["pair"], pairs=[["a/x", "a/y"]], mazes={"count": 1}, grader="a/g")))
    calls = forecast(spec).calls
    assert calls["a/x"][2] == calls["a/y"][2] == 25 and calls["a/g"] == (1.0, 1.0, 2.0)


# -- sampling ----------------------------------------------------------------------------------------------


def test_all_models_of_a_task_and_repeat_draw_the_same_seed_and_other_repeats_another():
    b = block(versions=["pair"], pairs="all", mazes={"count": 1}, seeds=[0, 1])
    seeds = {(s.seed, seat_sampling(s, seat).seed) for s in plan(b) for seat in ("1", "2")}
    assert len(seeds) == 2 and len({drawn for _, drawn in seeds}) == 2


def test_sampling_of_a_block_reaches_every_seat_with_its_effort():
    b = block(versions=["pair"], models=["a/x"], mazes={"count": 1}, sampling={"temperature": 0.2, "max_tokens": 99})
    asked = seat_sampling(only(plan(b)), "2", "high")
    assert (asked.temperature, asked.max_tokens, asked.top_p, asked.effort) == (0.2, 99, None, "high")


def test_a_relay_point_at_the_turn_cap_and_two_arms_of_one_name_are_refused():
    with pytest.raises(ValueError, match="leaves no turn to play"):
        relay_block(relay={"k": [50]})
    with pytest.raises(ValueError, match="two have the same name"):
        relay_block(arms=[{"name": "a", "text": "x"}, {"name": "a", "text": "y"}])
