"""A second look at stored rollouts: grade or annotate them again, with other models, repeated.

May import what `cilab.running.play` may. Replays nothing: the transcripts are read from the store, the rollouts'
own rows stay as they are, and what is found goes into `annotations` (and `calls`). The same command
again continues after any interruption, like a study.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.engine import Engine, Job, Summary
from cilab.collect.model import Sampling
from cilab.collect.spec import Rollout, Seats, digest
from cilab.core import registry
from cilab.core.errors import StudyError
from cilab.maze import annotate as annotating
from cilab.maze import grade as grading
from cilab.maze import texts
from cilab.maze.grid import Maze, MazeSettings
from cilab.maze.plan import RULES, cached_maze
from cilab.running.load import check_ready, load_study, model_policy, resolver
from cilab.running.play import drive

#: Temperature of repeated grading (collaboration-gap paper, appendix E).
TEMPERATURE = 0.5
_MAX_TOKENS = 4096
_CHUNK = 256
#: Shuffles of a rollout's moves for its chance floor.
_CHANCE_DRAWS = 40
_PAIRED = ("pair", "relay")
#: What a cell of the stratified sample has in common.
_CELL = (
    "version",
    "model",
    "effort",
    "partner_model",
    "partner_effort",
    "arm",
    "relay_kind",
    "relay_k",
    "success",
)

#: Features that each look asks for: without a value in any of them, its answer could not be read.
_FEATURES = {
    "grade": ("weighted_outcome", "success"),
    "annotate": (*annotating.AGENT_FEATURES, *annotating.PAIR_FEATURES),
}

_Look = Callable[[Maze, Sequence[Mapping[str, Any]], str, Seats, Any, Sampling], Awaitable[list[dict[str, Any]]]]


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
    names = ("grader_solo", "grader_pair", "retry")
    return _again("grade", _grade, grader, names, data, repeat, sample, seed, study, budget_usd, show_progress)


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
    names = ("annotator", "retry")
    return _again("annotate", _annotate, annotator, names, data, repeat, sample, seed, study, budget_usd, show_progress)


# -- what is looked for -----------------------------------------------------------------------------------


async def _grade(
    maze: Maze, messages: Sequence[Mapping[str, Any]], version: str, seats: Seats, model: Any, sampling: Sampling
) -> list[dict[str, Any]]:
    if model is None:
        verdict, text = grading.grade_by_rules(maze, messages, version), ""
        moves = grading.extract(messages, version).moves
    else:
        verdict, text = await grading.grade_with_model(model, maze, messages, version, sampling)
        moves = () if verdict is None else grading.parse_grader_answer(text).moves
    if verdict is None:
        return [{"agent": 0, "feature": f, "value": None, "text": text} for f in ("weighted_outcome", "success")]
    chance = grading.route_chance_floor(maze, moves, draws=_CHANCE_DRAWS, seed=sampling.seed or 0)
    values = {
        "weighted_outcome": verdict.weighted_outcome,
        "success": float(verdict.success),
        "n_valid": float(verdict.n_valid),
        "split_up": float(verdict.split_up),
        "chance_weighted_outcome": chance[0],
        "chance_success": chance[1],
    }
    rows = [{"agent": 0, "feature": f, "value": v, "text": ""} for f, v in values.items()]
    return [*rows, {"agent": 0, "feature": "scheme", "value": None, "text": verdict.scheme}]


async def _annotate(
    maze: Maze, messages: Sequence[Mapping[str, Any]], version: str, seats: Seats, model: Any, sampling: Sampling
) -> list[dict[str, Any]]:
    if model is None:
        return annotating.annotate_rules(maze, messages)
    return await annotating.annotate_with_model(model, messages, sampling)


# -- one engine, other jobs -------------------------------------------------------------------------------


def _again(
    purpose: str,
    look: _Look,
    name: str,
    prompts: Sequence[str],
    data: str | os.PathLike[str],
    repeat: int,
    sample: int | None,
    seed: int,
    study: str | os.PathLike[str] | None,
    budget_usd: float | None,
    show_progress: bool,
) -> Summary:
    again = SecondLook(data, name, repeat, sample, study, budget_usd)
    rows = _chosen(again.opened, purpose, sample, seed)
    if rows.is_empty():
        raise StudyError(f"{data}: holds no finished maze rollout to {purpose}.")
    prompt = digest(texts.hashes(prompts), 5)
    annotator = _annotator(again.opened, purpose, name, prompt)
    transcripts = _Transcripts(again.opened, rows["run_id"].to_list())

    def jobs() -> Iterator[Job]:
        for position, row in enumerate(rows.iter_rows(named=True)):
            for number in range(repeat):
                yield _job(transcripts, position, row, purpose, look, name, annotator, prompt, number)

    summary = again.drive(jobs, show_progress)
    return again.counted(summary, lambda: _answers(again.opened, purpose, annotator, rows, repeat))


def _answers(opened: store.Study, purpose: str, annotator: str, chosen: pl.DataFrame, repeat: int) -> tuple[int, int]:
    """(looks that are stored, those of them from which no feature could be read), of one annotator and its rollouts."""
    mine = (
        (pl.col("annotator") == annotator)
        & (pl.col("repeat") < repeat)
        & pl.col("feature").is_in(_FEATURES[purpose])
        & pl.col("run_id").is_in(chosen["run_id"].implode())
    )
    looks = opened.annotations.filter(mine).group_by("run_id", "repeat").agg(pl.col("value").is_null().all())
    unread = store.collect(looks.select("value"), opened.path)["value"]
    return unread.len(), int(unread.sum())


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
        self.opened = store.open_study(data, registry.models)
        if budget_usd is not None and not 0 < budget_usd < math.inf:
            raise StudyError(f"--budget {budget_usd:g}: must be a number above 0.")
        self._data, self._budget = Path(data), budget_usd
        self._file = load_study(study) if study is not None else None
        self._model = None if name == RULES else resolver(self._file, {})(name)
        if self._model is not None:
            check_ready({name: self._model})

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
    transcripts: _Transcripts,
    position: int,
    row: Mapping[str, Any],
    purpose: str,
    look: _Look,
    name: str,
    annotator: str,
    prompt: str,
    again: int,
) -> Job:
    async def play(seats: Seats) -> Rollout:
        messages = transcripts[position]
        seat = f"{purpose}:{annotator}#{again}"
        model = None if name == RULES else seats.model(name, seat, purpose, under_test=False)
        sampling = Sampling(temperature=TEMPERATURE, max_tokens=_MAX_TOKENS, seed=again)
        found = await look(_maze(row["spec_json"]), messages, row["version"], seats, model, sampling)
        found.append({"agent": 0, "feature": f"{purpose}_prompt", "value": None, "text": prompt})
        seats.rollout.annotations += [{"annotator": annotator, "repeat": again, **r} for r in found]
        return seats.rollout

    identity = {"purpose": purpose, "run": row["run_id"], "annotator": name, "repeat": again, "prompt": prompt}
    return Job(digest(identity), row["run_id"], play)


def _annotator(opened: store.Study, purpose: str, name: str, prompt: str) -> str:
    """The name in the rows: the model's, with the prompts' hash where its earlier rows have other prompts."""
    mine = (pl.col("feature") == f"{purpose}_prompt") & pl.col("annotator").is_in([name, f"{name}@{prompt}"])
    known = store.collect(opened.annotations.filter(mine).select("annotator", "text").unique(), opened.path).rows()
    return f"{name}@{prompt}" if any(who == name and text != prompt for who, text in known) else name


class _Transcripts:
    """Transcripts of the chosen rollouts, read in chunks: one scan for many, a few chunks in memory."""

    def __init__(self, opened: store.Study, run_ids: Sequence[str]):
        self._opened, self._ids = opened, run_ids
        self._chunk = lru_cache(maxsize=4)(self._read)

    def __getitem__(self, position: int) -> list[dict[str, Any]]:
        return self._chunk(position // _CHUNK).get(self._ids[position], [])

    def _read(self, chunk: int) -> dict[str, list[dict[str, Any]]]:
        wanted = list(self._ids[chunk * _CHUNK : (chunk + 1) * _CHUNK])
        lines = self._opened.messages.filter(pl.col("run_id").is_in(wanted)).sort("run_id", "index").collect()
        return {str(key[0]): part.to_dicts() for key, part in lines.partition_by("run_id", as_dict=True).items()}


def _maze(spec_json: str) -> Maze:
    s = json.loads(spec_json)["settings"]
    return cached_maze(MazeSettings(s["size"], s["density"], s["path_min"], s["path_max"]), s["index"])


def _chosen(opened: store.Study, purpose: str, sample: int | None, seed: int) -> pl.DataFrame:
    rows = opened.runs.filter((pl.col("benchmark") == "maze") & (pl.col("status") == "ok"))
    if purpose == "annotate":
        rows = rows.filter(pl.col("version").is_in(_PAIRED))
    rows = store.collect(rows.select("run_id", *_CELL, "spec_json").sort("run_id"), opened.path)
    return rows if sample is None else stratified(rows, sample, seed)


def stratified(rows: pl.DataFrame, sample: int, seed: int) -> pl.DataFrame:
    """`sample` rollouts per model and kind, in equal shares by setting and success (paper, appendix E).

    The paper samples homogeneous pairs; here every ordered pair is sampled alike.

    Parameters
    ----------
    rows : columns run_id, version, model, effort, partner_model, partner_effort, arm, relay_kind, relay_k, success.
    sample : rollouts per row of the leaderboard (model, effort, arm) for solo, in four cells: setting by success; and
        per ordered pair (and relay point) for dialogues, in two. A cell with fewer rollouts gives all it has; nothing
        makes up for it. Rollouts that could not be graded are a cell of their own.

    Returns
    -------
    DataFrame
        The chosen rows, each once, sorted by run_id; the same for the same rows and seed.
    """
    solo = pl.col("version").str.starts_with("solo")
    cells = rows.with_columns(quota=pl.when(solo).then(math.ceil(sample / 4)).otherwise(math.ceil(sample / 2)))
    chosen = []
    for cell in cells.sort("run_id").partition_by(*_CELL, maintain_order=True):
        order = sorted(range(cell.height), key=lambda i, ids=cell["run_id"]: digest([seed, ids[i]]))
        chosen.append(cell[sorted(order[: cell["quota"][0]])])
    return pl.concat(chosen).select(rows.columns).sort("run_id") if chosen else rows


__all__ = ["annotate", "regrade", "stratified"]
