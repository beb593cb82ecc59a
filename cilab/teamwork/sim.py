"""Simulated models of the teamwork benchmark: they act out a task's exemplars with a known ability.

May import `cilab.collect.model`, `cilab.core` and its own folder. The whole truth about an
agent stands in `profiles.csv`. The chance that a run goes well is logistic: ability, deviation in the dimension, minus
the task's difficulty, plus an effect of the agent with the task and of the seed; alone and in a calm team it is easier.
A run that goes wrong acts out an exemplar of a stage of failure: agents that notice more see the problem, then give in
or stop short.

Names: `sim/team-F1` … (frontier), `team-C1` … (closed), `team-O1` … (open weights); `team-judge-a|b|c`, `team-partner`;
and three agents that tasks are checked with: `team-silent`, `team-agreeable`, `team-refusing`.
"""

from __future__ import annotations

import csv
import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from cilab.collect.model import Completion, Message, Sampling
from cilab.core.errors import nearest
from cilab.teamwork import acting, bank, texts
from cilab.teamwork.bank import Task
from cilab.teamwork.task import STAGES, Exemplar, FormField, TaskError
from cilab.teamwork.tools import forms

PREFIX = "team-"
#: How much easier a run is without the problem, in log-odds.
EASIER = {"alone": 3.2, "baseline": 1.6, "test": 0.0}
#: What a paragraph on how the team works, and a high reasoning setting, add in the test, in log-odds.
ARM, HIGH_EFFORT = 0.9, 0.25
#: Standard deviations: agent with dimension, agent with task, repeat.
SD_DIMENSION, SD_TASK, SD_SEED = 0.5, 0.9, 0.6
#: Chance that a judge says something else than the exemplars' label, by judge: a and b then agree on about 81 %.
JUDGE_SLIPS = {"a": 0.08, "b": 0.12, "c": 0.10}
AGREE, REFUSE = "Agreed, let us do it your way.", "No. I will not do any of this."


@dataclass(frozen=True, slots=True)
class Profile:
    """The truth about one simulated agent. `ability` in log-odds; `notices` a share; `conflict` is added there."""

    name: str
    family: str
    strength: str
    open_weights: bool
    distilled: bool
    ability: float
    capability: float
    notices: float
    conflict: float
    tokens: float


@lru_cache(maxsize=1)
def profiles() -> Mapping[str, Profile]:
    """Every simulated model under test by name, without `sim/team-`."""
    text = (resources.files("cilab.teamwork") / "profiles.csv").read_text(encoding="utf-8")
    numbers = ("ability", "capability", "notices", "conflict", "tokens")
    out = {}
    for row in csv.DictReader(text.splitlines()):
        values: dict[str, Any] = {k: float(v) if k in numbers else v for k, v in row.items()}
        values |= {k: row[k] == "1" for k in ("open_weights", "distilled")}
        out[row["name"]] = Profile(**values)
    return out


def simulated(name: str) -> Any:
    """The simulated model of that name, for `sim/<name>`.

    Raises
    ------
    TaskError
        There is none of that name; names the nearest ones.
    """
    key = name.removeprefix(PREFIX)
    if name.startswith(PREFIX):
        if key in profiles():
            return SimTeammate(profiles()[key])
        if key.startswith("judge-") and key[6:] in JUDGE_SLIPS:
            return SimJudge(key[6:])
        if key == "partner":
            return SimPartner()
        if key in ("silent", "agreeable", "refusing"):
            return Stubborn(key)
    known = [f"{PREFIX}{n}" for n in (*profiles(), *(f"judge-{j}" for j in JUDGE_SLIPS), "partner")]
    raise TaskError(f"there is no simulated teammate {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def describe(name: str) -> dict[str, Any]:
    """What the models table says of a profile."""
    found = profiles().get(name.removeprefix(PREFIX))
    if found is None:
        return {"family": "simulated"}
    return {
        "family": found.family,
        "strength": found.strength,
        "open_weights": found.open_weights,
        "distilled": found.distilled,
    }


# -- chance ---------------------------------------------------------------------------------------------------------


def _random(*parts: Any) -> random.Random:
    return random.Random(hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=8).digest())


@lru_cache(maxsize=65536)
def _normal(*parts: Any) -> float:
    return _random(*parts).gauss(0.0, 1.0)


def deviation(profile: Profile, dimension: str) -> float:
    """What an agent is better or worse in a dimension, log-odds."""
    shift = profile.conflict if dimension == "handling_conflict" else 0.0
    return shift + SD_DIMENSION * _normal("dimension", profile.name, dimension)


def chance(profile: Profile, task: Task, version: str, *, helped: float = 0.0) -> float:
    """Probability that an agent does a task well, over seeds: the truth that statistics should find."""
    ability = profile.capability if version == "alone" else profile.ability
    logit = ability + deviation(profile, task.file.dimension) - task.file.difficulty
    logit += EASIER[version] + SD_TASK * _normal("task", profile.name, task.id) + (helped if version == "test" else 0.0)
    return 1.0 / (1.0 + math.exp(-logit / math.sqrt(1.0 + SD_SEED**2 * math.pi / 8.0)))


# -- agents -----------------------------------------------------------------------------------------------------------


class _Sim:
    """A model of this process: costs nothing."""

    provider = "sim"

    def __init__(self, name: str):
        self.name = f"sim/{PREFIX}{name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class SimTeammate(_Sim):
    """A simulated model under test."""

    def __init__(self, profile: Profile):
        super().__init__(profile.name)
        self.profile = profile

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The next step of the exemplar that this agent acts out under this seed."""
        found = _told(messages, sampling)
        if found is None:
            return acting.completion(messages, "I have no part in this.")
        task, version, helped = found
        if sampling.effort == "high":
            helped += HIGH_EFFORT
        seed = sampling.seed or 0
        chosen = choose(self.profile, task, version, seed, helped)
        opener = _random("opener", self.profile.name, seed, len(messages)).choice(acting.OPENERS)
        return acting.act(chosen, messages, opener) if chosen else acting.completion(messages, "")


def choose(profile: Profile, task: Task, version: str, seed: int, helped: float) -> Exemplar | None:
    """The exemplar that a run acts out; None for a run in which nothing is said or handed in."""
    rng = _random("run", profile.name, task.id, version, seed)
    logit = math.log(max(p := chance(profile, task, version, helped=helped), 1e-9) / max(1.0 - p, 1e-9))
    logit = logit * math.sqrt(1.0 + SD_SEED**2 * math.pi / 8.0) + SD_SEED * rng.gauss(0.0, 1.0)
    here = [e for e in task.file.exemplars if e.version == version]
    if rng.random() < 1.0 / (1.0 + math.exp(-logit)):
        return rng.choice([e for e in here if e.expect == "pass"])
    failing = [e for e in here if e.expect != "pass"]
    if version != "test" or not failing:
        return rng.choice(failing) if failing else None
    noticed = rng.random() < profile.notices
    missed = [e for e in failing if e.expect == STAGES[0]]
    seen = [e for e in failing if e.expect != STAGES[0]]
    return rng.choice((seen if noticed else missed) or failing)


@lru_cache(maxsize=8192)
def _brief(known: tuple[Task, ...], system: str, first: str, seed: int | None) -> tuple[Task, str, float] | None:
    """(task, version, help by an arm's paragraph) of a conversation; None where the task is not known.

    Baseline and test may begin with the same words: they are told apart by the seed, which follows from the version.
    """
    task = acting.task_of(first, seed)  # among `known`
    if task is None:
        return None
    version = "alone" if "by yourself" in system else "test"
    if version == "test" and acting.versions_by_seed(task).get(seed) == "baseline":
        version = "baseline"
    return task, version, ARM if texts.ARM_HEADING in first else 0.0


def _told(messages: Sequence[Message], sampling: Sampling) -> tuple[Task, str, float] | None:
    first = next((m["content"] for m in messages if m["role"] == "user"), "")
    return _brief(bank.known(), messages[0]["content"], first, sampling.seed)


class ExemplarActor:
    """Acts out one exemplar word for word."""

    provider = "sim"

    def __init__(self, name: str, exemplar: Exemplar):
        self.name, self._exemplar = name, exemplar

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The next step."""
        return acting.act(self._exemplar, messages)


class Stubborn(_Sim):
    """An agent that does one thing whatever happens: says nothing, agrees to everything, or refuses everything."""

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """Nothing, a yes (and whatever the form takes), or a no."""
        kind = self.name.rpartition("-")[2]
        number, results_in = acting.where(messages)
        found = _told(messages, sampling)
        if kind == "silent" or found is None or results_in:
            return acting.completion(messages, "")
        if kind == "refusing":
            return acting.completion(messages, REFUSE)
        task, version, _ = found
        calls: list[dict[str, dict[str, Any]]] = []
        if number == task.file.rounds:
            calls = _whatever(task, version)
        elif number > 1 and task.file.deal is not None and version != "alone":
            calls = [{"accept_offer": {}}]
        return acting.completion(messages, AGREE, calls)


def _whatever(task: Task, version: str) -> list[dict[str, dict[str, Any]]]:
    """A form filled in without thought: the first choice, zero, yes."""
    available = forms(task, version)
    if "submit" not in available:
        return []
    return [{"submit": {name: _anything(f) for name, f in available["submit"][1].items()}}]


def _anything(field: FormField) -> Any:
    if field.one_of is not None:
        return field.one_of[0]
    if field.number:
        return field.low or 0
    return True if field.flag else "As agreed."


class SimPartner(_Sim):
    """A live partner that tells its own facts, one a round."""

    def __init__(self) -> None:
        super().__init__("partner")

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """One of its facts that was not said yet, else PASS."""
        return acting.completion(messages, acting.partner(messages))


class SimJudge(_Sim):
    """A judge that knows the exemplars' labels, and slips now and then."""

    def __init__(self, which: str, slips: float | None = None):
        super().__init__(f"judge-{which}")
        self._which, self._slips = which, JUDGE_SLIPS[which] if slips is None else slips

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """A label."""
        prompt = messages[0]["content"]
        task = acting.task_of(prompt, sampling.seed)
        return acting.completion(messages, self._label(task, prompt, sampling.seed or 0) if task else "other")

    def _label(self, task: Task, prompt: str, seed: int) -> str:
        labels, message = task.file.label_list, acting.judged_message(prompt)
        own = acting.votes_on(task, message)
        if own is None:
            own = (_plain_label(task, message),) * 3
        rng = _random("judge", self._which, seed, task.id, message)
        if rng.random() < self._slips:
            return rng.choice(list(labels))
        return own["abc".index(self._which)]


def _plain_label(task: Task, message: str) -> str:
    """What a judge makes of the words of an agent that only agrees or only refuses."""
    labels = task.file.label_list
    if message.startswith(AGREE):
        return next((name for name, label in labels.items() if label.gives_way), "other")
    if message.startswith(REFUSE):
        return next((n for n in ("challenges", "pushes_back", "hedges", "presses") if n in labels), "other")
    return "other" if "other" in labels else list(labels)[-1]
