"""What each agent sees, when a dialogue ends, who sits where in a relay, and what is graded: with scripted models."""

from __future__ import annotations

import asyncio
import itertools
import json

import polars as pl
import pytest

from cilab import store
from cilab.collect.engine import Engine, rollout_job
from cilab.collect.model import CallError, Completion, Refusal, Usage
from cilab.collect.retry import RetryPolicy
from cilab.collect.spec import Rollout
from cilab.maze import texts
from cilab.maze.grid import render, split
from cilab.maze.plan import MazeBlock, maze_of, plan
from cilab.maze.play import EMPTY, play, run_columns

SAYS = texts.OTHER_PREFIX


class Script:
    """A model that answers by a function of its calls so far and keeps what it was shown."""

    def __init__(self, answer, name="a/m"):
        self.name, self.provider = name, name.split("/")[0]
        self.answer, self.seen, self.sampling = answer, [], []

    async def complete(self, messages, *, tools=None, sampling):
        self.seen.append([dict(m) for m in messages])
        self.sampling.append(sampling)
        answer = self.answer(len(self.seen) - 1)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completion) else Completion(answer, usage=Usage(7, 3), cost_usd=0.01)


class FakeSeats:
    """Seats without an engine: a script for each seat, and stored transcripts."""

    def __init__(self, scripts, stored=None):
        self.rollout, self.scripts, self.stored = Rollout(), scripts, stored or {}
        self.asked = []

    def model(self, name, seat, purpose="play", *, under_test=True, fallbacks=()):
        self.asked.append((name, seat, purpose, under_test, tuple(fallbacks)))
        return self.scripts[seat]

    async def transcript(self, run_id):
        return self.stored[run_id]


def lines(prefix):
    return Script(lambda n: f"{prefix}{n}")


def block(**more):
    known = {"benchmark": "maze", "versions": ["pair"], "pairs": [["a/start", "a/follow"]], "mazes": {"count": 1}}
    return MazeBlock.model_validate(known | more)


def spec_of(**more):
    return next(iter(plan(block(**more))))


def solo_of(version="solo_full", **more):
    return spec_of(versions=[version], models=["a/m"], **more)


def relay_specs(kind="primer", k=2, seat="next", **more):
    relay = {"strong": "a/strong", "weak": "a/weak", "kinds": [kind], "k": [k], "seat": seat}
    prefix, relayed = plan(block(versions=["relay"], relay=[relay], pairs="homogeneous", **more))
    return prefix, relayed


def played(spec, scripts, stored=None):
    seats = FakeSeats(scripts, stored)
    return asyncio.run(play(spec, seats)), seats


def said(rollout):
    return [m for m in rollout.messages if m["seat_kind"] == "under_test"]


def pair(starter, follower, **more):
    spec = spec_of(**more)
    return spec, *played(spec, {"1": starter, "2": follower})


# -- what each agent sees ----------------------------------------------------------------------------------


def test_each_agent_sees_the_dialogue_with_roles_swapped_and_prefixes():
    starter, follower = lines("s"), lines("f")
    spec, _, _ = pair(starter, follower, max_turns=5)
    one, two = (texts.pair_prompt(copy) for copy in split(maze_of(spec)))
    system = {"role": "system", "content": texts.system_prompt()}
    assert starter.seen == [
        [system, {"role": "user", "content": one}],
        [
            system,
            {"role": "user", "content": one},
            {"role": "assistant", "content": "s0"},
            {"role": "user", "content": f"{SAYS} f0"},
        ],
        [
            system,
            {"role": "user", "content": one},
            {"role": "assistant", "content": "s0"},
            {"role": "user", "content": f"{SAYS} f0"},
            {"role": "assistant", "content": "s1"},
            {"role": "user", "content": f"{SAYS} f1"},
        ],
    ]
    assert follower.seen == [
        [system, {"role": "user", "content": f"{two}\n\n{SAYS} s0"}],
        [
            system,
            {"role": "user", "content": f"{two}\n\n{SAYS} s0"},
            {"role": "assistant", "content": "f0"},
            {"role": "user", "content": f"{SAYS} s1"},
        ],
    ]
    assert one.startswith(texts.USER_PREFIX) and two.startswith(texts.USER_PREFIX)


def test_every_call_is_system_user_and_then_strictly_alternating_to_the_last_turn():
    starter, follower = lines("s"), lines("f")
    pair(starter, follower)
    for messages in starter.seen + follower.seen:
        roles = [m["role"] for m in messages]
        assert roles[0] == "system" and roles[-1] == "user" and all(m["content"] for m in messages)
        assert roles[1:] == [r for r, _ in zip(itertools.cycle(["user", "assistant"]), roles[1:], strict=False)]


def test_an_agent_never_sees_the_other_copy_nor_the_whole_maze():
    starter, follower = lines("s"), lines("f")
    spec, _, _ = pair(starter, follower)
    one, two = (render(copy) for copy in split(maze_of(spec)))
    whole = render(maze_of(spec).cells)
    for own, other, model in ((one, two, starter), (two, one, follower)):
        shown = "\n".join(m["content"] for messages in model.seen for m in messages)
        assert own in shown and other not in shown and whole not in shown


def test_both_models_are_asked_under_their_own_seat_and_with_their_own_effort():
    spec = spec_of(
        pairs=[[{"model": "a/start", "effort": "high"}, {"model": "a/follow", "effort": "low"}]], max_turns=2
    )
    starter, follower = lines("s"), lines("f")
    _, seats = played(spec, {"1": starter, "2": follower})
    assert seats.asked[:2] == [("a/start", "1", "play", True, ()), ("a/follow", "2", "play", True, ())]
    assert (starter.sampling[0].effort, follower.sampling[0].effort) == ("high", "low")
    assert starter.sampling[0].seed == follower.sampling[0].seed


def test_a_model_that_plays_with_itself_at_another_effort_keeps_both_efforts():
    spec = spec_of(pairs=[[{"model": "a/m", "effort": "high"}, {"model": "a/m", "effort": "low"}]], max_turns=2)
    starter, follower = lines("s"), lines("f")
    played(spec, {"1": starter, "2": follower})
    assert (starter.sampling[0].effort, follower.sampling[0].effort) == ("high", "low")


def test_the_text_of_an_arm_is_read_by_both_agents_after_their_task():
    starter, follower = lines("s"), lines("f")
    pair(starter, follower, arms=[{"name": "kind", "text": "Be kind to each other."}], max_turns=2)
    assert starter.seen[0][1]["content"].endswith("\n\nBe kind to each other.")
    assert f"\n\nBe kind to each other.\n\n{SAYS} s0" in follower.seen[0][1]["content"]


def test_the_transcript_keeps_both_tasks_and_every_message_with_who_received_it():
    _, rollout, _ = pair(lines("s"), lines("f"), max_turns=3)
    found = [(m["index"], m.get("round"), m["seat"], m["seat_kind"], m["delivered_to"]) for m in rollout.messages]
    assert found == [
        (0, None, "user", "user", ["1"]),
        (1, None, "user", "user", ["2"]),
        (2, 0, "1", "under_test", ["2"]),
        (3, 1, "2", "under_test", ["1"]),
        (4, 2, "1", "under_test", ["2"]),
    ]
    assert [m["content"] for m in said(rollout)] == ["s0", "f0", "s1"]
    assert [m["model"] for m in said(rollout)] == ["a/start", "a/follow", "a/start"]
    assert [(m["tokens_in"], m["tokens_out"], m["cost_usd"]) for m in said(rollout)] == [(7, 3, 0.01)] * 3


# -- how a dialogue ends -----------------------------------------------------------------------------------


def test_a_dialogue_ends_after_fifty_turns_in_all():
    starter, follower = lines("s"), lines("f")
    _, rollout, _ = pair(starter, follower)
    assert (len(starter.seen), len(follower.seen)) == (25, 25)
    assert (rollout.run["ended"], rollout.run["rounds"], rollout.run["messages"]) == ("turn_cap", 50, 50)


@pytest.mark.parametrize(("seat", "at", "turns"), [("1", 0, 1), ("1", 2, 5), ("2", 0, 2), ("2", 3, 8)])
def test_either_agent_ends_it_with_the_completion_phrase(seat, at, turns):
    scripts = {"1": lines("s"), "2": lines("f")}
    scripts[seat] = Script(lambda n: "We are there. ACTI!" if n == at else f"m{n}")
    rollout, _ = played(spec_of(), scripts)
    assert (rollout.run["ended"], rollout.run["rounds"]) == ("completed", turns)
    assert said(rollout)[-1]["content"] == "We are there. ACTI!"


@pytest.mark.parametrize("word", ["acti!", "ACTI", "A C T I !"])
def test_anything_but_the_phrase_itself_does_not_end_it(word):
    _, rollout, _ = pair(Script(lambda n: word), lines("f"), max_turns=4)
    assert (rollout.run["ended"], rollout.run["rounds"]) == ("turn_cap", 4)


def test_an_answer_without_text_is_stored_empty_and_shown_to_the_others_as_such():
    starter, follower = Script(lambda n: "" if n == 0 else "s"), lines("f")
    _, rollout, _ = pair(starter, follower, max_turns=3)
    assert [m["content"] for m in said(rollout)] == ["", "f0", "s"]
    assert follower.seen[0][1]["content"].endswith(f"{SAYS} {EMPTY}")
    assert starter.seen[1][2] == {"role": "assistant", "content": EMPTY}


def test_what_was_said_is_kept_when_a_later_call_fails():
    def fails(n):
        return CallError("server", "boom") if n == 1 else "f0"

    seats = FakeSeats({"1": lines("s"), "2": Script(fails)})
    with pytest.raises(CallError):
        asyncio.run(play(spec_of(), seats))
    assert [m["content"] for m in said(seats.rollout)] == ["s0", "f0", "s1"]


# -- solo --------------------------------------------------------------------------------------------------


def test_a_solo_agent_sees_the_full_map_and_is_asked_to_review_its_answer_once():
    spec, model = solo_of(), lines("route ")
    rollout, _ = played(spec, {"1": model})
    task = {"role": "user", "content": texts.solo_prompt(maze_of(spec), False)}
    critic = {"role": "user", "content": texts.critic_prompt()}
    assert model.seen == [[task], [task, {"role": "assistant", "content": "route 0"}, critic]]
    assert [m["content"] for m in said(rollout)] == ["route 0", "route 1"]
    assert (rollout.run["ended"], rollout.run["rounds"]) == ("completed", 2)
    assert render(maze_of(spec).cells) in task["content"]


def test_a_solo_agent_with_distributed_maps_sees_both_copies_and_not_the_whole():
    spec, model = solo_of("solo_distributed"), lines("r")
    played(spec, {"1": model})
    shown = model.seen[0][0]["content"]
    assert all(render(copy) in shown for copy in split(maze_of(spec)))
    assert render(maze_of(spec).cells) not in shown


def test_without_the_critic_step_a_solo_agent_is_asked_once():
    model = lines("r")
    rollout, _ = played(solo_of(critic=False), {"1": model})
    assert len(model.seen) == 1 and rollout.run["messages"] == 1


def test_an_empty_solo_answer_is_shown_to_the_critic_step_as_such():
    model = Script(lambda n: "" if n == 0 else "route")
    played(solo_of(), {"1": model})
    assert model.seen[1][1] == {"role": "assistant", "content": EMPTY}


def test_only_the_last_solo_answer_counts():
    spec = solo_of()
    first_right = Script(lambda n: route_text(spec) if n == 0 else "I do not know.")
    last_right = Script(lambda n: route_text(spec) if n == 1 else "I do not know.")
    assert played(spec, {"1": first_right})[0].run["success"] is False
    assert played(spec, {"1": last_right})[0].run["success"] is True


def route_cells(spec):
    """Cells of a shortest route, found here by flooding from the goal."""
    maze = maze_of(spec)
    steps, edge = {maze.goal: 0}, [maze.goal]
    while edge:
        here = edge.pop(0)
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            r, c = here[0] + dr, here[1] + dc
            if 0 <= r < maze.size and 0 <= c < maze.size and maze.cells[r][c] != "#" and (r, c) not in steps:
                steps[r, c] = steps[here] + 1
                edge.append((r, c))
    here, route = maze.start, []
    while here != maze.goal:
        around = [(here[0] + dr, here[1] + dc) for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        here = min((c for c in around if c in steps), key=steps.__getitem__)
        route.append(here)
    return route


def route_text(spec):
    cells = [maze_of(spec).start, *route_cells(spec)]
    return "The route is " + " -> ".join(f"({r},{c})" for r, c in cells)


def moves_json(spec):
    return json.dumps({"moves": [f"({r},{c})" for r, c in route_cells(spec)], "split_up": False})


# -- relays ------------------------------------------------------------------------------------------------


def stored_pair(spec, turns, starter="a/strong", last=None):
    """Rows of the messages table as a finished pair left them, every column there."""
    rows = [
        {"kind": "message", "seat": "user", "seat_kind": "user", "content": f"task {i}", "delivered_to": [str(i)]}
        for i in (1, 2)
    ]
    for turn in range(turns):
        rows.append(
            {
                "round": turn,
                "kind": "message",
                "seat": str(turn % 2 + 1),
                "seat_kind": "under_test",
                "model": starter if turn % 2 == 0 else "a/weak",
                "content": f"old {turn}" if turn < turns - 1 or last is None else last,
                "delivered_to": [str(2 - turn % 2)],
                "tokens_in": 1000,
                "tokens_out": 1000,
                "cost_usd": 9.0,
            }
        )
    return [{"run_id": spec.run_id, "index": i} | row for i, row in enumerate(rows)]


def relayed(kind, k, seat="next", stored=20, last=None, **more):
    prefix, spec = relay_specs(kind, k, seat, **more)
    scripts = {"1": lines("one "), "2": lines("two ")}
    rows = stored_pair(prefix, stored, prefix.model, last)
    rollout, seats = played(spec, scripts, {prefix.run_id: rows})
    return spec, rollout, seats, scripts


@pytest.mark.parametrize(
    ("kind", "k", "seat", "models"),
    [
        ("primer", 2, "next", ("a/weak", "a/weak")),
        ("primer", 3, "next", ("a/weak", "a/weak")),
        ("recovery", 2, "next", ("a/strong", "a/weak")),
        ("recovery", 3, "next", ("a/weak", "a/strong")),
        ("recovery", 3, "1", ("a/strong", "a/weak")),
        ("recovery", 2, "2", ("a/weak", "a/strong")),
    ],
)
def test_after_the_swap_each_seat_has_its_model_and_the_next_to_speak_goes_on(kind, k, seat, models):
    _, rollout, seats, scripts = relayed(kind, k, seat, max_turns=k + 3)
    assert [(name, s) for name, s, *_ in seats.asked[:2]] == [(models[0], "1"), (models[1], "2")]
    new = said(rollout)[k:]
    assert [m["seat"] for m in new] == [str(turn % 2 + 1) for turn in range(k, k + 3)]
    assert [m["model"] for m in new] == [models[turn % 2] for turn in range(k, k + 3)]
    assert sum(len(s.seen) for s in scripts.values()) == 3
    assert rollout.run["rounds"] == k + 3 and rollout.run["ended"] == "turn_cap"


@pytest.mark.parametrize("k", [2, 3])
def test_the_model_that_takes_over_reads_the_first_turns_as_its_own_seats(k):
    spec, _, _, scripts = relayed("recovery", k, max_turns=k + 1)
    me = k % 2
    (messages,) = scripts[str(me + 1)].seen
    prompt = texts.pair_prompt(split(maze_of(spec))[me])
    own = [f"old {t}" for t in range(k) if t % 2 == me]
    others = [f"{SAYS} old {t}" for t in range(k) if t % 2 != me]
    assert [m["content"] for m in messages if m["role"] == "assistant"] == own
    users = [m["content"] for m in messages if m["role"] == "user"]
    assert users == ([prompt, *others] if me == 0 else [f"{prompt}\n\n{others[0]}", *others[1:]])


def test_the_first_turns_are_copied_with_their_models_and_without_their_price():
    _, rollout, _, _ = relayed("primer", 4, max_turns=6)
    old = said(rollout)[:4]
    assert [(m["content"], m["seat"], m["model"], m["round"]) for m in old] == [
        ("old 0", "1", "a/strong", 0),
        ("old 1", "2", "a/weak", 1),
        ("old 2", "1", "a/strong", 2),
        ("old 3", "2", "a/weak", 3),
    ]
    assert not any({"tokens_in", "tokens_out", "cost_usd", "run_id"} & set(m) for m in old)
    assert [m["index"] for m in rollout.messages] == list(range(2 + 6))


@pytest.mark.parametrize(("stored", "k"), [(1, 2), (3, 4), (7, 8)])
def test_a_prefix_that_ended_before_the_swap_is_kept_counted_graded_and_costs_nothing(stored, k):
    _, rollout, seats, scripts = relayed("primer", k, stored=stored, last="Done, ACTI!")
    assert rollout.run["ended"] == "ended_before_swap" and rollout.run["rounds"] == stored
    assert [m["content"] for m in said(rollout)][-1] == "Done, ACTI!"
    assert rollout.run["weighted_outcome"] == 0.0 and rollout.run["success"] is False
    assert seats.asked == [] and all(not s.seen for s in scripts.values())


def test_a_prefix_that_ended_exactly_at_the_swap_is_over_too():
    _, rollout, _, scripts = relayed("recovery", 4, stored=4, last="ACTI!")
    assert rollout.run["ended"] == "ended_before_swap" and all(not s.seen for s in scripts.values())


def test_a_dialogue_that_said_the_phrase_after_the_swap_point_goes_on_from_it():
    _, rollout, _, _ = relayed("primer", 2, stored=6, last="ACTI!", max_turns=4)
    assert [m["content"] for m in said(rollout)] == ["old 0", "old 1", "one 0", "two 0"]


# -- grading -----------------------------------------------------------------------------------------------


def test_a_dialogue_that_agrees_on_every_move_reaches_the_goal():
    spec = spec_of()
    cells = [maze_of(spec).start, *route_cells(spec)]
    steps = list(itertools.pairwise(cells))

    def propose(n):
        if n >= len(steps):
            return "ACTI!"
        (r, c), (r2, c2) = steps[n]
        return f"I propose the move ({r},{c}) -> ({r2},{c2}), with (row, col) counted from 0 at the top left. Agreed?"

    rollout, _ = played(spec, {"1": Script(propose), "2": Script(lambda n: "Agreed.")})
    run = rollout.run
    assert (run["success"], run["weighted_outcome"], run["score"], run["passed"], run["outcome"]) == (
        True,
        1.0,
        1.0,
        True,
        "goal",
    )


def test_a_dialogue_without_a_move_scores_nothing_and_says_so():
    _, rollout, _ = pair(Script(lambda n: "Hello."), Script(lambda n: "Hello to you."), max_turns=4)
    run = rollout.run
    assert (run["success"], run["weighted_outcome"], run["score"], run["outcome"]) == (False, 0.0, 0.0, "no_move")


def graded(answers, **more):
    spec = spec_of(grader="g/one", grader_fallbacks=["g/two"], max_turns=2, **more)
    grader = Script(lambda n: answers(spec)[n])
    rollout, seats = played(spec, {"1": lines("s"), "2": lines("f"), "grader": grader})
    return spec, rollout, seats, grader


def test_a_model_grader_reads_the_dialogue_without_maze_or_tasks_and_its_route_counts():
    spec, rollout, seats, grader = graded(lambda s: [moves_json(s)])
    assert (rollout.run["success"], rollout.run["outcome"]) == (True, "goal")
    assert seats.asked[-1] == ("g/one", "grader", "grade", False, ("g/two",))
    (shown,) = grader.seen[0]
    assert "Agent 1: s0" in shown["content"] and "Agent 2: f0" in shown["content"]
    assert not any(render(copy) in shown["content"] for copy in (maze_of(spec).cells, *split(maze_of(spec))))


def test_a_graders_answer_that_cannot_be_read_is_asked_for_once_more():
    _, rollout, _, grader = graded(lambda s: ["They got there.", moves_json(s)])
    assert rollout.run["success"] is True and len(grader.seen) == 2
    assert [m["role"] for m in grader.seen[1]] == ["user", "assistant", "user"]
    assert grader.seen[1][2]["content"] == texts.retry_prompt()


def test_an_answer_that_cannot_be_read_twice_is_no_score_at_all():
    _, rollout, _, grader = graded(lambda s: ["They got there.", "I said so."])
    assert len(grader.seen) == 2 and rollout.run["outcome"] == "ungraded"
    assert not {"score", "passed", "success", "weighted_outcome"} & set(rollout.run)
    assert run_columns(None).keys() == {"outcome", "rule_version"}


# -- through the engine ------------------------------------------------------------------------------------


def through_engine(folder, specs, models):
    engine = Engine(
        folder, study="s", resolve=models.__getitem__, policy=RetryPolicy(max_requests=1, base_s=0.0), concurrency=4
    )
    summary = asyncio.run(engine.run(lambda: [rollout_job(s, play) for s in specs]))
    return summary, store.open_study(folder).runs.collect()


def named(name, answer):
    return Script(answer, name)


def test_an_ungraded_rollout_is_ok_with_null_scores(tmp_path):
    spec = spec_of(grader="g/one", max_turns=2)
    models = {n: named(n, lambda n: "x") for n in ("a/start", "a/follow", "g/one")}
    summary, runs = through_engine(tmp_path, [spec], models)
    row = runs.row(0, named=True)
    assert summary.exit_code == 0 and (row["status"], row["outcome"]) == ("ok", "ungraded")
    assert [row[c] for c in ("score", "passed", "success", "weighted_outcome")] == [None] * 4


def test_a_graders_refusal_goes_to_the_fallback_and_both_calls_are_told(tmp_path):
    spec = spec_of(grader="g/one", grader_fallbacks=["g/two"], max_turns=2)
    models = {n: named(n, lambda n: "x") for n in ("a/start", "a/follow")}
    models |= {"g/one": named("g/one", lambda n: Refusal("no")), "g/two": named("g/two", lambda n: moves_json(spec))}
    summary, runs = through_engine(tmp_path, [spec], models)
    assert summary.exit_code == 0 and runs["success"].to_list() == [True]
    calls = store.open_study(tmp_path).calls.filter(pl.col("purpose") == "grade").sort("index").collect()
    assert calls.select("model_asked", "finish_reason").rows() == [("g/one", "content_filter"), ("g/two", "stop")]


def test_when_every_grader_refuses_the_rollout_is_an_error_and_its_turns_are_not_paid_again(tmp_path):
    spec = spec_of(grader="g/one", max_turns=4)
    models = {n: named(n, lambda n: "x") for n in ("a/start", "a/follow")}
    refusing = models | {"g/one": named("g/one", lambda n: Refusal("no"))}
    summary, runs = through_engine(tmp_path, [spec], refusing)
    assert summary.exit_code == 1 and runs["status"].to_list() == ["error"] and runs["score"].to_list() == [None]
    asked = [len(models[n].seen) for n in ("a/start", "a/follow")]
    summary, runs = through_engine(tmp_path, [spec], models | {"g/one": named("g/one", lambda n: moves_json(spec))})
    assert summary.exit_code == 0 and runs["success"].to_list() == [True]
    assert [len(models[n].seen) for n in ("a/start", "a/follow")] == asked


def test_a_refusal_of_either_agent_is_a_status_with_its_seat(tmp_path):
    spec = spec_of(max_turns=4)
    models = {"a/start": named("a/start", lambda n: "x"), "a/follow": named("a/follow", lambda n: Refusal("no"))}
    _, runs = through_engine(tmp_path, [spec], models)
    row = runs.row(0, named=True)
    assert (row["status"], row["refused_seat"], row["success"]) == ("refused", "2", None)


@pytest.mark.parametrize("kind", ["primer", "recovery"])
def test_a_relay_pays_for_its_own_turns_only(tmp_path, kind):
    prefix, spec = relay_specs(kind, 2, max_turns=6)
    models = {n: named(n, lambda n: "x") for n in ("a/strong", "a/weak")}
    summary, runs = through_engine(tmp_path, [prefix, spec], models)
    assert summary.exit_code == 0
    row = runs.filter(pl.col("version") == "relay").row(0, named=True)
    assert (row["rounds"], row["tokens_in"], row["tokens_out"]) == (6, 28, 12)  # four turns of 7 and 3 tokens
    assert row["cost_usd_team"] == pytest.approx(0.04) and row["prefix_run_id"] == prefix.run_id
    assert (row["relay_k"], row["relay_kind"], row["model"], row["partner_model"]) == (2, kind, "a/strong", "a/weak")
    assert sum(len(m.seen) for m in models.values()) == 10


def test_a_relay_whose_prefix_was_refused_is_gated_out_and_unpaid(tmp_path):
    prefix, spec = relay_specs("primer", 2)
    models = {"a/strong": named("a/strong", lambda n: Refusal("no")), "a/weak": named("a/weak", lambda n: "x")}
    summary, runs = through_engine(tmp_path, [prefix, spec], models)
    assert dict(runs.select("version", "status").iter_rows()) == {"pair": "refused", "relay": "gated_out"}
    assert summary.exit_code == 0 and models["a/weak"].seen == []
