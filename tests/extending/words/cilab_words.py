"""A benchmark in a package of its own: one agent describes a word, the other guesses it."""

from typing import Literal

import polars as pl
from pydantic import Field

from cilab.collect.model import Completion, Sampling, Usage
from cilab.collect.spec import Benchmark, Block, Entry, Forecast, Look, RunSpec, digest, seat_sampling
from cilab.core.errors import StudyError
from cilab.show.rows import View

CLUES = {"lighthouse": "It shows ships the way.", "anvil": "A smith works on it.", "kite": "It flies on a string."}


class WordsBlock(Block):
    benchmark: Literal["words"]
    models: list[Entry] = Field(min_length=1)

    def model_names(self):
        return {entry.model for entry in self.models}


def plan(block):
    for word, clue in CLUES.items():
        for entry in block.models:
            pair = {"model": entry.model, "partner_model": entry.model, "effort": entry.effort}
            yield RunSpec("words", word, digest([word, clue]), "pair", seed=0, **pair)


async def play(spec, seats):
    told = f"Describe the word {spec.task_id} without naming it."
    for turn, (seat, name) in enumerate((("teller", spec.model), ("guesser", spec.partner_model))):
        asked, sampling = [{"role": "user", "content": told}], seat_sampling(spec, seat, spec.effort)
        said = (await seats.model(name, seat).complete(asked, sampling=sampling)).content
        event = {"index": turn, "round": turn, "kind": "message", "seat": seat, "seat_kind": "under_test"}
        seats.rollout.messages.append({**event, "model": name, "content": said})
        told = f"Which word is it? {said}"
    won = said.strip(".").lower() == spec.task_id
    verdict = {"score": float(won), "passed": won, "success": won, "outcome": "guessed" if won else "missed"}
    seats.rollout.run |= {**verdict, "ended": "completed", "rounds": 2, "messages": 2, "rule_version": "words-1"}
    return seats.rollout


class Sim:
    provider = "sim"

    def __init__(self, profile):
        if profile not in ("words-good", "words-poor"):
            raise StudyError(f"sim/{profile}: is words-good or words-poor.")
        self.name = f"sim/{profile}"

    async def complete(self, messages, *, tools=None, sampling):
        asked = messages[0]["content"]
        word, clue = next(pair for pair in CLUES.items() if pair[0] in asked or pair[1] in asked)
        guess = word if self.name == "sim/words-good" else "No idea."
        return Completion(clue if word in asked else guess, usage=Usage(20, 5), cost_usd=0.0)


def forecast(spec):
    return Forecast({spec.model: (2, 2, 2)}, {spec.model: (30, 40, 50)}, {spec.model: (5, 10, 20)})


def finished(study, sample, seed):
    mine = study.runs.filter(pl.col("benchmark") == "words", pl.col("status") == "ok")
    return mine.select("run_id", "task_id").sort("run_id").head(sample or 1_000_000).collect()


def grading(study, runs):
    async def count_letters(run, model, sampling):
        yield {"agent": 0, "feature": "letters", "value": float(len(run["task_id"])), "text": ""}

    return count_letters


GRADE = Look(what="words rollout", choose=finished, open=grading, sampling=lambda n: Sampling(seed=n), rules=True)
BENCHMARK = Benchmark(
    name="words",
    block=WordsBlock,
    plan=plan,
    play=play,
    simulated=Sim,
    forecast=forecast,
    describe=lambda profile: {"family": "words"},
    looks={"grade": GRADE},
    view=lambda page: View(facts={"task_id": ("letters", str(len(page.run["task_id"])))}, turns=True),
)
