"""Second looks at stored maze rollouts: which are drawn, and what a grader or an annotator finds in them.

May import `cilab.collect.spec`, `cilab.store` and its own folder. Replays nothing; `cilab.running.again` asks.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.model import ChatModel, Sampling
from cilab.collect.spec import Ask, Look, digest
from cilab.maze import annotate, grade, texts
from cilab.maze.grid import Maze, MazeSettings
from cilab.maze.plan import cached_maze
from cilab.store.transcripts import Transcripts

#: Temperature of repeated grading (collaboration-gap paper, appendix E).
TEMPERATURE = 0.5
_MAX_TOKENS = 4096
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
_OUTCOMES = ("weighted_outcome", "success")


async def _grade(
    transcripts: Transcripts, run: Mapping[str, Any], model: ChatModel | None, sampling: Sampling
) -> AsyncIterator[dict[str, Any]]:
    maze, messages, version = maze_of_run(run["spec_json"]), transcripts[run["run_id"]], run["version"]
    if model is None:
        verdict, text = grade.grade_by_rules(maze, messages, version), ""
        moves = grade.extract(messages, version).moves
    else:
        verdict, text = await grade.grade_with_model(model, maze, messages, version, sampling)
        moves = () if verdict is None else grade.parse_grader_answer(text).moves
    if verdict is None:
        for feature in _OUTCOMES:
            yield {"agent": 0, "feature": feature, "value": None, "text": text}
        return
    chance = grade.route_chance_floor(maze, moves, draws=_CHANCE_DRAWS, seed=sampling.seed or 0)
    values = {
        "weighted_outcome": verdict.weighted_outcome,
        "success": float(verdict.success),
        "n_valid": float(verdict.n_valid),
        "split_up": float(verdict.split_up),
        "chance_weighted_outcome": chance[0],
        "chance_success": chance[1],
    }
    for feature, value in values.items():
        yield {"agent": 0, "feature": feature, "value": value, "text": ""}
    yield {"agent": 0, "feature": "scheme", "value": None, "text": verdict.scheme}


async def _annotate(
    transcripts: Transcripts, run: Mapping[str, Any], model: ChatModel | None, sampling: Sampling
) -> AsyncIterator[dict[str, Any]]:
    messages = transcripts[run["run_id"]]
    if model is None:
        found = annotate.annotate_rules(maze_of_run(run["spec_json"]), messages)
    else:
        found = await annotate.annotate_with_model(model, messages, sampling)
    for row in found:
        yield row


def _open(ask: Callable[..., AsyncIterator[dict[str, Any]]], study: Any, runs: pl.DataFrame) -> Ask:
    return partial(ask, Transcripts(study, runs["run_id"].to_list()))


def _choose(versions: tuple[str, ...] | None, study: Any, sample: int | None, seed: int) -> pl.DataFrame:
    runs = study.runs.filter((pl.col("benchmark") == "maze") & (pl.col("status") == "ok"))
    if versions is not None:
        runs = runs.filter(pl.col("version").is_in(versions))
    rows = store.collect(runs.select("run_id", *_CELL, "spec_json").sort("run_id"), study.path)
    return rows if sample is None else stratified(rows, sample, seed)


def _sampling(number: int) -> Sampling:
    return Sampling(temperature=TEMPERATURE, max_tokens=_MAX_TOKENS, seed=number)


def _prompt(*names: str) -> str:
    return digest(texts.hashes(names), 5)


def maze_of_run(spec_json: str) -> Maze:
    """The maze of a stored run, from its `spec_json`."""
    s = json.loads(spec_json)["settings"]
    return cached_maze(MazeSettings(s["size"], s["density"], s["path_min"], s["path_max"]), s["index"])


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


LOOKS = {
    "grade": Look(
        what="maze rollout to grade",
        choose=partial(_choose, None),
        open=partial(_open, _grade),
        sampling=_sampling,
        prompt=partial(_prompt, "grader_solo", "grader_pair", "retry"),
        features=_OUTCOMES,
        rules=True,
    ),
    "annotate": Look(
        what="maze rollout to annotate",
        choose=partial(_choose, _PAIRED),
        open=partial(_open, _annotate),
        sampling=_sampling,
        prompt=partial(_prompt, "annotator", "retry"),
        features=(*annotate.AGENT_FEATURES, *annotate.PAIR_FEATURES),
        rules=True,
    ),
}
