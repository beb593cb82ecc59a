"""Simulated maze agents: what they hear, say and know, and that the paper's effects follow from it."""

from __future__ import annotations

import dataclasses
import random
import statistics
from functools import lru_cache

import pytest

from cilab.collect.model import ChatModel, Sampling
from cilab.core.errors import MazeError
from cilab.maze import texts
from cilab.maze.grade import grade_by_rules
from cilab.maze.grid import Maze, MazeSettings, make, split
from cilab.maze.sim import SimAgent, profiles, simulated
from cilab.maze.sim_talk import STYLES, WORD_STYLES, Scheme, Voice, hear, locate

TURNS = 50
COPY = ("@-?#", "#?--", "-#?-", "?-#*")


# --------------------------------------------------------------------------- a small driver


def run(call):
    """The result of a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a simulated agent waits for something")


def ask(agent, messages, seed=0):
    return run(agent.complete(messages, sampling=Sampling(seed=seed))).content


def seen_by(me, copy, said):
    """A dialogue as agent `me` sees it: system, task, then its own and the other's messages."""
    messages = [
        {"role": "system", "content": texts.system_prompt()},
        {"role": "user", "content": texts.pair_prompt(copy)},
    ]
    for turn, text in enumerate(said):
        if turn % 2 == me:
            messages.append({"role": "assistant", "content": text})
        else:
            messages.append({"role": "user", "content": f"{texts.OTHER_PREFIX} {text}"})
    return messages


def talk(maze, agents, seed=0, said=(), turns=TURNS):
    copies, said = split(maze), list(said)
    while len(said) < turns and not (said and texts.COMPLETION in said[-1]):
        me = len(said) % 2
        said.append(ask(agents[me], seen_by(me, copies[me], said), seed))
    return said


def rows(said):
    return [{"seat": str(i % 2 + 1), "content": text} for i, text in enumerate(said)]


def outcome(maze, said, version="pair"):
    return grade_by_rules(maze, rows(said), version).weighted_outcome


@lru_cache(maxsize=1)
def mazes() -> tuple[Maze, ...]:
    return tuple(make(MazeSettings(), i) for i in range(120))


@lru_cache(maxsize=64)
def dialogues(one, two, n, seed=0):
    return [talk(maze, (simulated(one), simulated(two)), seed) for maze in mazes()[:n]]


def outcomes(one, two, n):
    return [outcome(maze, said) for maze, said in zip(mazes(), dialogues(one, two, n), strict=False)]


def alone(name, distributed, n):
    agent, got = simulated(name), []
    for maze in mazes()[:n]:
        messages = [{"role": "user", "content": texts.solo_prompt(maze, distributed)}]
        first = ask(agent, messages)
        messages += [{"role": "assistant", "content": first}, {"role": "user", "content": texts.critic_prompt()}]
        got.append(outcome(maze, ["", ask(agent, messages)], "solo_full"))
    return statistics.mean(got)


def chance_of_no_difference(differences, draws=4000):
    """One-sided sign-flip permutation test of paired differences."""
    rng, seen = random.Random(0), sum(differences)
    hits = sum(sum(d if rng.random() < 0.5 else -d for d in differences) >= seen for _ in range(draws))
    return (hits + 1) / (draws + 1)


def faultless(name="strong", **changes):
    """An agent without errors of chance, for tests of what it knows."""
    still = dict.fromkeys(("style_noise", "misread", "mixup", "slip", "wanders", "loops", "waits", "early_acti"), 0.0)
    still |= {"loses_track": 0.0, "objects": 1.0, "insists": 0.0, "splits": 0.0}
    return SimAgent(dataclasses.replace(profiles()[name], **(still | changes)))


# --------------------------------------------------------------------------- talking and hearing

SCHEMES = [Scheme(s, b, t) for s in STYLES if s not in (*WORD_STYLES, "a1") for b in (0, 1) for t in (True, False)]
SCHEMES += [Scheme("a1", 1, True), Scheme("a1", 1, False), Scheme("directions"), Scheme("compass")]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: "-".join(map(str, s)))
@pytest.mark.parametrize("seed", range(4))
def test_what_is_said_is_heard_as_it_was_meant(scheme, seed):
    voice, here, there = Voice(random.Random(seed), scheme, 6, 1.0), (2, 3), (2, 4)

    def cell(ref):
        return locate(ref, scheme, 6, here)

    assert hear(voice.convention()).convention == scheme
    proposal = hear(voice.propose(here, there))
    assert cell(proposal.move[1]) == there
    assert not proposal.agrees and not proposal.objects
    assert hear(voice.agree(here, there)).agrees
    refusal = hear(voice.wall(here, there))
    assert refusal.objects and not refusal.agrees and refusal.move is None
    assert [(cell(ref), mark) for ref, mark in refusal.claims] == [(there, "#")]
    told = hear(voice.answer(here, there, "-"))
    assert [(cell(ref), mark) for ref, mark in told.claims] == [(there, "-")]
    asked = hear(voice.ask(here, there))
    assert [cell(ref) for ref in asked.questions] == [there] and asked.move is None
    assert hear(voice.ask_map()).asks_map
    assert hear(voice.map(COPY)).maps == (COPY,)
    assert hear(voice.split()).splits
    for objection in (voice.jump(here, (5, 5)), voice.off(), voice.detour(), voice.other_way()):
        assert hear(objection).objects and hear(objection).move is None
    for idle in (voice.your_turn(), voice.unclear(), voice.consent(), voice.greeting(), voice.symbols()):
        assert hear(idle).move is None and not hear(idle).agrees and not hear(idle).objects


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if not s.in_words], ids=lambda s: "-".join(map(str, s)))
def test_start_goal_position_and_plan_are_heard_in_every_notation(scheme):
    voice, start, goal = Voice(random.Random(1), scheme, 6, 1.0), (0, 1), (5, 3)

    def cell(ref):
        return locate(ref, scheme, 6, start)

    said = hear(f"{voice.ends(start, goal)} {voice.stand((2, 2))} {voice.plan([start, (1, 1), (2, 1)])}")
    assert (cell(said.start), cell(said.goal), cell(said.position)) == (start, goal, (2, 2))
    assert [cell(ref) for ref in said.plan] == [start, (1, 1), (2, 1)]
    assert said.move is None


def test_the_words_of_other_models_are_understood_too():
    said = hear("Sounds good! I suggest we move from (1, 2) -> (1, 3).\nDoes your map show a wall at (2, 3)?")
    assert said.agrees and said.move is not None
    assert [(ref.a, ref.b) for ref in said.questions] == [(2, 3)]
    assert hear("Row 2, column 3 is blocked on my map.").claims == ((hear("r2c3").refs[0], "#"),)
    assert hear("No, I don't agree with that.").objects
    assert hear("Do you agree?").agrees is False


# --------------------------------------------------------------------------- what an agent knows


def test_there_are_three_named_and_thirty_two_pseudonymous_profiles():
    names = list(profiles())
    assert names[:3] == ["strong", "medium", "weak"]
    assert names[3:] == [f"{k}{i}" for k, n in (("F", 6), ("C", 12), ("O", 14)) for i in range(1, n + 1)]
    assert all(p.open_weights == p.name.startswith("O") for p in profiles().values() if p.name[0] in "FCO")


def test_an_unknown_profile_is_refused_with_the_nearest_names():
    with pytest.raises(MazeError, match=r"'stronk'.*Did you mean strong"):
        simulated("stronk")


def test_an_agent_is_a_chat_model_that_costs_nothing_and_counts_tokens():
    agent = simulated("strong")
    assert isinstance(agent, ChatModel) and (agent.name, agent.provider) == ("sim/strong", "sim")
    messages = seen_by(0, COPY, [])
    got = run(agent.complete(messages, sampling=Sampling(seed=3)))
    assert got.cost_usd == 0.0 and got.sampling_honoured == {"seed": 3}
    assert got.usage.tokens_in == pytest.approx(sum(len(m["content"]) for m in messages) / 4, abs=1)
    assert got.usage.tokens_out == pytest.approx(len(got.content) / 4, abs=1)


@pytest.mark.parametrize("name", ["strong", "medium", "weak", "C9", "O11"])
def test_the_same_messages_and_seed_give_the_same_answer_and_another_seed_another_play(name):
    said = dialogues(name, name, 3)[2]
    copies = split(mazes()[2])
    for turn in range(len(said)):
        me = turn % 2
        assert ask(simulated(name), seen_by(me, copies[me], said[:turn])) == said[turn]
    assert any(a != b for a, b in zip(dialogues(name, name, 3), dialogues(name, name, 3, seed=1), strict=True))


def test_a_wall_that_the_other_tells_of_is_walked_around():
    agent, copy = faultless(coords="row_col", base=1, leans="right"), ("@?--", "---#", "#---", "---*")
    ground = "We use (row, column) coordinates from 1, where (1,1) is the top-left corner."
    opening = [f"{ground} What is (1,2) on your copy?"]
    free = ask(agent, seen_by(0, copy, [*opening, "On my copy (1,2) is a path. What do you suggest next?"]))
    wall = ask(agent, seen_by(0, copy, [*opening, "On my copy (1,2) is a wall. What do you suggest next?"]))
    assert hear(free).move[1][1:] == (1, 2)
    assert hear(wall).move[1][1:] == (2, 1)


def test_a_move_into_a_wall_of_the_own_copy_is_refused_and_into_a_path_accepted():
    agent = faultless()
    proposal = "We use (row, column) from 1, so (1,1) is the top-left corner. Let's move from (1,1) to (2,1)."
    for copy, accepted in ((("@-?#", "-?--", "-#?-", "?-#*"), True), (("@-?#", "#?--", "-#?-", "?-#*"), False)):
        said = hear(ask(agent, seen_by(1, copy, [proposal])))
        assert said.agrees is accepted and said.objects is not accepted


def test_swapping_two_messages_of_the_dialogue_changes_the_next_move():
    # No chance but the wording is left in this agent, so another move comes from another understanding.
    agent = faultless("medium", asks=1.0, repairs=0.0)
    changed = 0
    for maze in mazes()[:20]:
        said, copy = talk(maze, (agent, agent)), split(maze)[0]
        if len(said) < 8:
            continue
        swapped = [*said[:2], said[4], said[3], said[2], said[5]]
        before, after = (hear(ask(agent, seen_by(0, copy, d))) for d in (said[:6], swapped))
        changed += (before.move, before.questions) != (after.move, after.questions)
    assert changed >= 10


def test_one_visible_cell_of_the_own_copy_changes_what_is_proposed():
    agent = faultless("weak", asks=0.0, leans="right")

    def target(copy):
        return locate(hear(ask(agent, seen_by(0, copy, []))).move[1], Scheme("row_col", 0), 4, (0, 0))

    assert target(("@-?-", "----", "-?--", "-?-*")) == (0, 1)
    assert target(("@#?-", "----", "-?--", "-?-*")) == (1, 0)


def test_an_agent_that_takes_over_keeps_to_what_it_said_before():
    primer = "I name cells by row and column, so r1c1 is the top-left corner. I suggest we move from r1c1 to r1c2."
    taken_over = ask(faultless("weak", asks=0.0), seen_by(0, ("@---", "#?--", "-#?-", "?-#*"), [primer, "Agreed."]))
    assert hear(taken_over).move[0][0] == "rc"
    assert hear(taken_over).move[0][1:] == (1, 2)  # where the predecessor's move led


def test_bare_numbers_are_misread_unless_the_convention_is_said():
    copy = ("?-#-", "@?--", "-#?-", "?--*")
    wrong = faultless("C8", checks=0.0, follows=1.0, tracks=1.0)  # its habit is (column, row)
    bare = "Let's move from (1,0) to (2,0)."
    said = "I write cells as (row, column), starting at 0, so (0,0) is the top-left cell. " + bare
    assert hear(ask(wrong, seen_by(1, copy, [bare]))).objects
    assert hear(ask(wrong, seen_by(1, copy, [said]))).agrees
    assert hear(ask(faultless("C8", checks=1.0, tracks=1.0), seen_by(1, copy, [bare]))).agrees


def test_the_task_is_found_with_the_system_prompt_folded_in_and_the_first_message_merged():
    proposal = "We use (row, column) from 1, so (1,1) is the top-left corner. Let's move from (1,1) to (1,2)."
    task = texts.pair_prompt(COPY)
    separate = seen_by(1, COPY, [proposal])
    merged = [separate[0], {"role": "user", "content": f"{task}\n\n{texts.OTHER_PREFIX} {proposal}"}]
    folded = [{"role": "user", "content": f"{texts.system_prompt()}\n\n{task}"}, separate[2]]
    both = [{"role": "user", "content": f"{texts.system_prompt()}\n\n{merged[1]['content']}"}]
    for messages in (separate, merged, folded, both):
        assert hear(ask(faultless(), messages)).agrees


def test_a_whole_route_is_laid_out_only_by_an_agent_that_was_sent_the_other_map():
    planned = 0
    for pair in (("strong", "strong"), ("medium", "medium"), ("weak", "strong")):
        for said in dialogues(*pair, 40):
            heard = [hear(text) for text in said]
            first = next((i for i, h in enumerate(heard) if h.plan), None)
            if first is not None:
                planned += 1
                assert any(h.maps for h in heard[first - 1 :: -2])
    assert planned > 40
    assert not any(hear(text).plan for said in dialogues("weak", "weak", 40) for text in said)


# --------------------------------------------------------------------------- partners that make no sense


class Noise:
    def __init__(self, say):
        self.say = say

    async def complete(self, messages, *, sampling, tools=None):
        return dataclasses.make_dataclass("C", ["content"])(self.say(messages))


def babble(messages, bits=("(1,2)", "(99,-3)", "r1c1", "yes", "no", "@ # -", "\n", "→", "is a wall", "\ud800", "?")):
    rng = random.Random(len(messages[-1]["content"]))
    return " ".join(bits[rng.randrange(len(bits))] for _ in range(rng.randrange(40)))


NONSENSE = {
    "empty": lambda messages: "",
    "weather": lambda messages: "The weather is nice today. " * 400,
    "parrot": lambda messages: messages[-1]["content"],
    "its own task": lambda messages: messages[1]["content"].replace(texts.COMPLETION, "")[:900],
    "babble": babble,
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_an_agent_copes_with_a_partner_that_makes_no_sense(kind):
    lengths = []
    for name in ("strong", "medium", "weak", "C4", "F1"):
        for maze in mazes()[:4]:
            for order in ((simulated(name), Noise(NONSENSE[kind])), (Noise(NONSENSE[kind]), simulated(name))):
                said = talk(maze, order)
                assert all(said[i].strip() for i in range(len(said)) if isinstance(order[i % 2], SimAgent))
                lengths.append(len(said))
    if kind in ("empty", "weather"):  # silence is taken as consent: it ends by itself, mostly
        assert statistics.median(lengths) < TURNS


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        [{"role": "assistant", "content": "(1,1)"}, {"role": "tool"}],
        [{"role": "user", "content": "[user]: - - -\n- - -\n- - -"}],
    ],
)
def test_an_agent_without_a_map_says_so(messages):
    assert "map" in ask(simulated("weak"), messages)


# --------------------------------------------------------------------------- what follows from it


def test_a_strong_pair_beats_a_weak_pair_although_weak_agents_solve_mazes_alone():
    strong, weak = outcomes("strong", "strong", 40), outcomes("weak", "weak", 40)
    assert statistics.mean(strong) > 0.9
    assert statistics.mean(strong) - statistics.mean(weak) > 0.4
    assert alone("weak", False, 40) > 0.7
    assert alone("weak", False, 40) > alone("weak", True, 40)
    assert alone("weak", True, 40) > statistics.mean(weak) + 0.2


def test_it_matters_who_starts():
    first, second = outcomes("strong", "weak", 120), outcomes("weak", "strong", 120)
    differences = [a - b for a, b in zip(first, second, strict=True)]
    assert statistics.mean(differences) > 0.1
    assert chance_of_no_difference(differences) < 0.01


def test_two_turns_of_a_strong_primer_help_a_weak_pair():
    strong, weak = simulated("strong"), simulated("weak")
    differences = []
    for maze, unprimed in zip(mazes()[:60], outcomes("weak", "weak", 60), strict=True):
        said = talk(maze, (weak, weak), said=talk(maze, (strong, weak), turns=2))
        differences.append(outcome(maze, said) - unprimed)
    assert statistics.mean(differences) > 0.15
    assert chance_of_no_difference(differences) < 0.01


def test_agents_that_differ_in_style_alone_disagree_more_and_get_less_far_than_agents_of_one_style():
    one = simulated("C1")
    two = SimAgent(dataclasses.replace(one.profile, name="other", coords="col_row", leans="up"))

    def play(pairs):
        said = [(maze, talk(maze, pair)) for pair in pairs for maze in mazes()[:60]]
        objections = statistics.mean(sum(hear(text).objects for text in d) for _, d in said)
        return objections, statistics.mean(outcome(maze, d) for maze, d in said)

    (same, same_outcome), (mixed, mixed_outcome) = play([(one, one), (two, two)]), play([(one, two), (two, one)])
    assert mixed > 1.2 * same
    assert mixed_outcome < same_outcome


@pytest.mark.parametrize("name", ["strong", "medium", "F1", "C4"])
def test_pairs_mostly_end_with_the_completion_phrase_before_the_cap(name):
    ended = [texts.COMPLETION in said[-1] for said in dialogues(name, name, 40)]
    assert all(len(said) <= TURNS for said in dialogues(name, name, 40))
    assert statistics.mean(ended) >= 0.8


def test_messages_are_plain_and_short_and_weak_agents_say_less():
    def mean_words(name):
        return statistics.mean(len(t.split()) for said in dialogues(name, name, 40) for t in said)

    assert mean_words("weak") < mean_words("strong") < 120
