"""Simulated teammates: their truth is what comes out, and they see nothing but their messages."""

import asyncio
import math

import pytest

from cilab.collect.model import Sampling
from cilab.collect.spec import run_seed
from cilab.teamwork import acting, bank, sim, tools
from cilab.teamwork.task import TaskError
from tests.teamwork.small import Table, spec, write


@pytest.fixture
def hoist(tmp_path):
    return bank.load(write(tmp_path))


def test_every_profile_is_known_and_described():
    assert len(sim.profiles()) == 18
    for name, profile in sim.profiles().items():
        assert sim.simulated(f"team-{name}").name == f"sim/team-{name}"
        assert sim.describe(f"team-{name}")["open_weights"] is profile.open_weights is name.startswith("O")
    for name in ("team-judge-a", "team-partner", "team-silent", "team-agreeable", "team-refusing"):
        assert sim.simulated(name).provider == "sim"


def test_an_unknown_profile_is_told_with_the_nearest():
    with pytest.raises(TaskError, match=r"no simulated teammate 'team-F11'. Did you mean"):
        sim.simulated("team-F11")


def test_chance_is_what_comes_out_over_many_seeds(hoist):
    for name in ("F1", "C4", "O7"):
        profile = sim.profiles()[name]
        for version in ("alone", "baseline", "test"):
            wanted = sim.chance(profile, hoist, version)
            seeds = 1500
            picked = [sim.choose(profile, hoist, version, seed, 0.0) for seed in range(seeds)]
            share = sum(e is not None and e.expect == "pass" for e in picked) / seeds
            # the logistic-normal mean is approximated: 0.02 for that, and three standard errors
            assert abs(share - wanted) < 0.02 + 3 * math.sqrt(wanted * (1 - wanted) / seeds)


def test_those_who_notice_more_fail_later(hoist):
    weak, strong = sim.profiles()["O7"], sim.profiles()["F1"]

    def missed(profile):
        failed = [e for s in range(4000) if (e := sim.choose(profile, hoist, "test", s, -9.0)) and e.expect != "pass"]
        return sum(e.expect == "missed" for e in failed) / len(failed)

    assert missed(weak) == pytest.approx(1 - weak.notices, abs=0.04)
    assert missed(strong) == pytest.approx(1 - strong.notices, abs=0.04)


class Spy(sim.SimTeammate):
    """A simulated model that notes which version it takes a run for."""

    def __init__(self, profile, heard):
        super().__init__(profile)
        self.heard = heard

    async def complete(self, messages, *, tools=None, sampling):
        self.heard.append(sim._told(messages, sampling)[1])
        return await super().complete(messages, tools=tools, sampling=sampling)


def test_a_version_is_told_by_its_seed_where_the_words_are_the_same(hoist):
    folder = hoist.folder
    for version in ("alone", "baseline", "test"):
        for number in range(3):
            table = Table()
            sent = []
            table.fakes["you"] = Spy(sim.profiles()["F1"], sent)
            from dataclasses import replace

            from cilab.teamwork.play import play

            asyncio.run(play(replace(spec(folder, version), seed=number), table))
            assert set(sent) == {version}
    assert len({run_seed(hoist.task_hash, v, k) for v in ("alone", "baseline", "test") for k in range(30)}) == 90


def test_a_judge_says_the_exemplars_label_and_slips_at_its_rate(hoist):
    from cilab.teamwork import texts

    prompt = texts.judge(hoist.file, [], "All right. 950 is over the limit.")

    def label(judge, seed):
        with bank.at_hand(hoist):
            asked = [{"role": "user", "content": prompt}]
            return asyncio.run(judge.complete(asked, sampling=Sampling(seed=seed))).content

    said = [label(sim.SimJudge("a"), seed) for seed in range(800)]
    right = said.count("challenges") / len(said)
    assert abs(right - (1 - 0.08 + 0.08 / 5)) < 0.03
    assert label(sim.SimJudge("b", slips=0.0), 1) == "challenges"


def test_a_partner_tells_its_own_facts_once():
    system = "You are Omar.\n\nWhat only you know:\n- There are two slings.\n- The key is in box 4.\n\nYou read on."
    first = acting.partner([{"role": "system", "content": system}, {"role": "user", "content": "x"}])
    then = acting.partner([{"role": "system", "content": system}, {"role": "user", "content": f"Omar: {first}"}])
    done = acting.partner([{"role": "system", "content": system}, {"role": "user", "content": f"{first}\n{then}"}])
    assert first == "From my side: There are two slings." and "box 4" in then and done == "PASS"


def test_an_agent_without_a_task_says_so():
    answer = asyncio.run(
        sim.SimTeammate(sim.profiles()["F1"]).complete(
            [{"role": "system", "content": "s"}, {"role": "user", "content": "nothing known"}],
            sampling=Sampling(seed=1),
        )
    )
    assert answer.content == "I have no part in this."


def test_a_model_without_native_tools_acts_its_calls_as_lines_of_text():
    calls = [{"read_file": {"path": "a.txt"}}, {"list_files": {}}]
    asked = [{"role": "system", "content": "A call stands on a line that begins with CALL."}]
    said = acting.completion(asked, "I look first.", calls, in_text=True)
    assert said.tool_calls == () and said.content.startswith('CALL read_file {"path": "a.txt"}\n')
    words, read = tools.text_calls(said.content)
    assert words == "I look first." and [(c.name, c.arguments) for c in read] == [
        ("read_file", {"path": "a.txt"}),
        ("list_files", {}),
    ]
