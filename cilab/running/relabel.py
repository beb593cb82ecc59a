"""Other judges on stored runs: each sees the exact prompts that the study's own judges saw.

May import `cilab.running.again` and what it may. Replays no rollout; the new labels go into the labels table under the
new judge's name, so that agreement and leniency can be asked of them (collaborative-intelligence paper, appendix C.2).
What is asked is the benchmark's business (`Benchmark.looks`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.engine import Job, Summary
from cilab.collect.spec import RULES, UNPARSED, Ask, Look, Rollout, Seats, digest
from cilab.core.errors import StudyError
from cilab.running.again import SecondLook, looks_at


def relabel(
    data: str | os.PathLike[str],
    *,
    judge: str,
    repeat: int = 1,
    sample: int | None = None,
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    budget_usd: float | None = None,
    show_progress: bool = True,
) -> Summary:
    """Have stored messages labelled by another judge.

    Parameters
    ----------
    data : the study's folder.
    judge : a model string.
    repeat : how often each message is labelled; the second time on, the rater is called `NAME#1` and so on.
    sample : runs per row (model, effort, arm), spread evenly over dimensions; None takes every run with labels.
    seed : of the sample.
    study : a study file with the judge's route, price, base and limits.
    budget_usd : start no call once the known cost of the folder, all that was paid before included, has reached this;
        what is in flight then is finished and paid.

    Returns
    -------
    Summary
        Rows of `labels` have the judge's name as rater. Its `unreadable` of `answers` gave no label; nothing but such
        answers is exit code 1.

    Raises
    ------
    StudyError, StoreError
        Bad input, before anything is called.
    """
    if judge == RULES:
        raise StudyError("--with rules: no rules can judge messages; name a model, such as --with openai/gpt-4.1.")
    again = SecondLook(data, judge, repeat, sample, study, budget_usd)
    chosen = again.chosen("relabel", sample, seed)

    def jobs() -> Iterator[Job]:
        for look, runs in chosen:
            ask = look.open(again.opened, runs)
            for number in range(repeat):
                for run in runs.iter_rows(named=True):
                    yield _job(ask, look, run, judge, number)

    summary = again.drive(jobs, show_progress)
    run_ids = [run_id for _, runs in chosen for run_id in runs["run_id"]]
    return again.counted(summary, lambda: _answers(again.opened, judge, run_ids, repeat))


def _answers(opened: store.Study, judge: str, run_ids: Sequence[str], repeat: int) -> tuple[int, int]:
    """(stored answers of a judge on some runs, those of them that were no label)."""
    raters = [_rater(judge, number) for number in range(repeat)]
    mine = pl.col("rater").is_in(raters) & pl.col("run_id").is_in(run_ids)
    labels = store.collect(opened.labels.filter(mine).select("label"), opened.path)["label"]
    return labels.len(), int((labels == UNPARSED).sum())


def _rater(judge: str, number: int) -> str:
    return judge if number == 0 else f"{judge}#{number}"


def label_choices(study: Any, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The labels that the judges of some runs could choose from: task id -> label -> definition, for people's forms.

    Parameters
    ----------
    study : an opened study.
    run_ids : the runs; those without judged messages give nothing.
    """
    looks = [look for look in looks_at(study, "relabel").values() if look.choices is not None]
    return {task: labels for look in looks for task, labels in look.choices(study, run_ids).items()}


def _job(ask: Ask, look: Look, run: Mapping[str, Any], judge: str, number: int) -> Job:
    rater = _rater(judge, number)

    async def play(seats: Seats) -> Rollout:
        model = seats.model(judge, f"relabel:{rater}", "judge", under_test=False)
        async for row in ask(run, model, look.sampling(number)):
            seats.rollout.labels.append({"rater": rater, "model": judge, **row})
        return seats.rollout

    identity = {"purpose": "relabel", "run": run["run_id"], "judge": judge, "repeat": number}
    return Job(digest(identity), run["run_id"], play)
