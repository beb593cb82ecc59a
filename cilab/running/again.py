"""A second look at stored rollouts: grade or annotate them again, with other models, repeated.

May import what `cilab.running.play` may. Replays nothing: the transcripts are read from the store, the rollouts'
own rows stay as they are, and what is found goes into `annotations` (and `calls`). The same command again continues
after any interruption, like a study. What is drawn and asked is the benchmark's business (`Benchmark.looks`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.engine import Engine, Job, Summary
from cilab.collect.spec import RULES, Ask, Look, Rollout, Seats, digest
from cilab.core import plugins, registry
from cilab.core.errors import StudyError
from cilab.running.load import check_ready, load_study, model_policy, resolver
from cilab.running.play import drive


def regrade(
    data: str | os.PathLike[str],
    *,
    grader: str,
    repeat: int = 1,
    sample: int | None = None,
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    budget_usd: float | None = None,
    show_progress: bool = True,
) -> Summary:
    """Grade stored maze rollouts with another grader.

    Parameters
    ----------
    data : the study's folder.
    grader : a model string, or `rules`.
    repeat : how often each rollout is graded, at temperature 0.5.
    sample : rollouts per model, drawn without replacement and stratified as in appendix E of the paper:
        a quarter from each setting and success alone, half from each success in homogeneous pairs. None
        takes every rollout.
    seed : of the sample.
    study : a study file with the grader's route, price, base and limits.
    budget_usd : start no call once the known cost of the folder, all that was paid before included, has reached this;
        what is in flight then is finished and paid.

    Returns
    -------
    Summary
        Its `unreadable` of `answers` could not be read; nothing but such answers is exit code 1.
        Rows of `annotations` have agent 0 and the features weighted_outcome, success, n_valid, split_up;
        chance_weighted_outcome and chance_success (the same moves shuffled, graded alike: the chance floor);
        scheme (its name in `text`) and grade_prompt (the prompts' hash in `text`). An answer that could not be
        read leaves nulls.

    Raises
    ------
    StudyError, StoreError
        Bad input, before anything is called.
    """
    return _again("grade", grader, data, repeat, sample, seed, study, budget_usd, show_progress)


def annotate(
    data: str | os.PathLike[str],
    *,
    annotator: str,
    repeat: int = 1,
    sample: int | None = None,
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    budget_usd: float | None = None,
    show_progress: bool = True,
) -> Summary:
    """Annotate stored dialogues for grounding, strategy and disagreement (paper, appendix D.2).

    Parameters as in `regrade`; only pairs and relays are looked at. The features are those of
    `cilab.maze.annotate`, the grounding score X among them. An answer that could not be read leaves nulls, and
    `unparsed: ` with its beginning in `text`.
    """
    return _again("annotate", annotator, data, repeat, sample, seed, study, budget_usd, show_progress)


# -- one engine, other jobs -------------------------------------------------------------------------------


def _again(
    verb: str,
    name: str,
    data: str | os.PathLike[str],
    repeat: int,
    sample: int | None,
    seed: int,
    study: str | os.PathLike[str] | None,
    budget_usd: float | None,
    show_progress: bool,
) -> Summary:
    again = SecondLook(data, name, repeat, sample, study, budget_usd)
    chosen = again.chosen(verb, sample, seed)
    named = [
        (look, runs, prompt := look.prompt(), _annotator(again.opened, verb, name, prompt)) for look, runs in chosen
    ]

    def jobs() -> Iterator[Job]:
        for look, runs, prompt, annotator in named:
            ask = look.open(again.opened, runs)
            for run in runs.iter_rows(named=True):
                for number in range(repeat):
                    yield _job(ask, look, run, verb, name, annotator, prompt, number)

    def answers() -> tuple[int, int]:
        counts = [_answers(again.opened, look, annotator, runs, repeat) for look, runs, _, annotator in named]
        return sum(n for n, _ in counts), sum(unread for _, unread in counts)

    return again.counted(again.drive(jobs, show_progress), answers)


def _answers(opened: store.Study, look: Look, annotator: str, chosen: pl.DataFrame, repeat: int) -> tuple[int, int]:
    """(looks that are stored, those of them from which no feature could be read), of one annotator and its rollouts."""
    mine = (
        (pl.col("annotator") == annotator)
        & (pl.col("repeat") < repeat)
        & pl.col("feature").is_in(look.features)
        & pl.col("run_id").is_in(chosen["run_id"].implode())
    )
    looks = opened.annotations.filter(mine).group_by("run_id", "repeat").agg(pl.col("value").is_null().all())
    unread = store.collect(looks.select("value"), opened.path)["value"]
    return unread.len(), int(unread.sum())


def looks_at(study: Any, verb: str) -> Mapping[str, Look]:
    """Benchmark -> its look of that name, of the benchmarks that a study has finished runs of."""
    finished = study.runs.filter(pl.col("status") == "ok").select(pl.col("benchmark").unique().sort())
    return _looks(store.collect(finished, study.path)["benchmark"].to_list(), verb)


def _looks(names: Sequence[str], verb: str) -> Mapping[str, Look]:
    found = {name: plugins.optional(plugins.BENCHMARKS, name) for name in names}
    return {name: b.looks[verb] for name, b in found.items() if b is not None and verb in b.looks}


class SecondLook:
    """A model that looks at the stored rollouts of a study: checked at the start, then driven by the one engine.

    Raises
    ------
    StudyError, StoreError
        Bad input, before anything is called.
    """

    def __init__(
        self,
        data: str | os.PathLike[str],
        name: str,
        repeat: int,
        sample: int | None,
        study: str | os.PathLike[str] | None,
        budget_usd: float | None,
    ):
        for option, value in (("--repeat", repeat), ("--sample", 1 if sample is None else sample)):
            if value < 1:
                raise StudyError(f"{option} {value}: must be at least 1.")
        self.opened = store.open_here(data, registry.models)
        if budget_usd is not None and not 0 < budget_usd < math.inf:
            raise StudyError(f"--budget {budget_usd:g}: must be a number above 0.")
        self._data, self._budget = Path(data), budget_usd
        self._file = load_study(study) if study is not None else None
        self._model = None if name == RULES else resolver(self._file, {})(name)
        if self._model is not None:
            check_ready({name: self._model})

    def chosen(self, verb: str, sample: int | None, seed: int) -> list[tuple[Look, pl.DataFrame]]:
        """Which runs are looked at, and how, benchmark by benchmark.

        Raises
        ------
        StudyError
            There are none, or rules were asked for where a benchmark has none.
        """
        looks = looks_at(self.opened, verb)
        chosen = [(look, look.choose(self.opened, sample, seed)) for look in looks.values()]
        if self._model is None and (stray := [name for name, look in looks.items() if not look.rules]):
            raise StudyError(f"--with rules: {stray[0]} has no rules to {verb} with; name a model.")
        if all(runs.is_empty() for _, runs in chosen):
            known = _looks(list(plugins.names(plugins.BENCHMARKS)), verb).values()
            raise StudyError(f"{self._data}: holds no finished {' or '.join(look.what for look in known)}.")
        return [(look, runs) for look, runs in chosen if not runs.is_empty()]

    def drive(self, jobs: Callable[[], Iterator[Job]], show_progress: bool) -> Summary:
        """Play the jobs that are not finished yet."""
        model = self._model
        engine = Engine(
            self._data,
            study=self.opened.name,
            resolve=lambda _: model,
            budget_usd=self._budget,
            **model_policy(self._file),
        )
        return drive(engine, jobs, show_progress)

    @staticmethod
    def counted(summary: Summary, count: Callable[[], tuple[int, int]]) -> Summary:
        """The summary with its answers, and how many of them could not be read."""
        if summary.fatal:  # the disk is full, say: what ended the session is told, not what reading gives now
            return summary
        answers, unreadable = count()
        return replace(summary, answers=answers, unreadable=unreadable)


def _job(
    ask: Ask,
    look: Look,
    run: Mapping[str, Any],
    verb: str,
    name: str,
    annotator: str,
    prompt: str,
    number: int,
) -> Job:
    async def play(seats: Seats) -> Rollout:
        seat = f"{verb}:{annotator}#{number}"
        model = None if name == RULES else seats.model(name, seat, verb, under_test=False)
        found = [row async for row in ask(run, model, look.sampling(number))]
        found.append({"agent": 0, "feature": f"{verb}_prompt", "value": None, "text": prompt})
        seats.rollout.annotations += [{"annotator": annotator, "repeat": number, **row} for row in found]
        return seats.rollout

    identity = {"purpose": verb, "run": run["run_id"], "annotator": name, "repeat": number, "prompt": prompt}
    return Job(digest(identity), run["run_id"], play)


def _annotator(opened: store.Study, verb: str, name: str, prompt: str) -> str:
    """The name in the rows: the model's, with the prompts' hash where its earlier rows have other prompts."""
    mine = (pl.col("feature") == f"{verb}_prompt") & pl.col("annotator").is_in([name, f"{name}@{prompt}"])
    known = store.collect(opened.annotations.filter(mine).select("annotator", "text").unique(), opened.path).rows()
    return f"{name}@{prompt}" if any(who == name and text != prompt for who, text in known) else name


__all__ = ["SecondLook", "annotate", "looks_at", "regrade"]
