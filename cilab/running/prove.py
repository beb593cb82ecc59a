"""Proves tasks: every exemplar is played through the engine and must come out as it says.

May import `cilab.collect`, `cilab.store`, `cilab.stats.teamwork.failures` and `cilab.running.play`. What an exemplar is
and what must come out is the benchmark's business (`Benchmark.prove`). Calls no language model; what it plays lies in a
temporary folder and is thrown away.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from cilab import store
from cilab.collect import background
from cilab.collect.engine import Engine, Job, rollout_job
from cilab.collect.model import ChatModel
from cilab.collect.spec import Play, RunSpec
from cilab.core import plugins
from cilab.core.errors import StudyError
from cilab.stats.teamwork.failures import sort_failures
from cilab.teamwork.rules import NAMED_IT


def check_tasks(wanted: Sequence[str] = ("*",), *, isolation: str = "bwrap", benchmark: str | None = None) -> Any:
    """Play every exemplar of the tasks, and agents that do one thing whatever happens.

    Parameters
    ----------
    wanted : ids, patterns, dimensions or folders.
    isolation : `none` runs code without bubblewrap.
    benchmark : whose tasks; None where one benchmark only has tasks to prove.

    Returns
    -------
    TaskCheck
        Of `cilab.teamwork.prove`: its `problems` are empty when everything is proven.

    Raises
    ------
    TaskError, SandboxError
        A task file is wrong, or code cannot be held here.
    StudyError
        It must be said which benchmark.
    """
    known = {name: b for name, b in plugins.loaded(plugins.BENCHMARKS).items() if b.prove is not None}
    if benchmark is None and len(known) == 1:
        benchmark = next(iter(known))
    if benchmark not in known:
        raise StudyError(f"tasks of which benchmark? Those of {', '.join(known) or 'none'} can be proven.")
    return known[benchmark].prove(wanted, isolation, partial(_played, known[benchmark].play), _failure)


def _played(play: Play, specs: Sequence[RunSpec], models: Mapping[str, ChatModel]) -> dict[str, pl.DataFrame]:
    """The tables of what was played, runs in the order of `specs`."""
    with tempfile.TemporaryDirectory(prefix="cilab-tasks-") as folder:

        def jobs() -> Iterator[Job]:
            return (rollout_job(spec, play) for spec in specs)

        engine = Engine(Path(folder), study="task check", resolve=models.__getitem__)
        background.submit(engine.run(jobs)).result()
        study = store.Study(Path(folder))
        order = pl.LazyFrame({"run_id": [spec.run_id for spec in specs]}, schema={"run_id": pl.String})
        runs = order.join(study.runs, on="run_id", how="left", maintain_order="left")
        return {"runs": runs.collect(), "messages": study.messages.collect(), "labels": study.labels.collect()}


def _failure(run: Mapping[str, Any]) -> tuple[str, str]:
    """Stage and mode of a failed test run by the rules that the statistics use."""
    by_check = bool(set(run["evidence"]) & set(NAMED_IT))
    failed = pl.DataFrame(
        {
            "dimension": [run["dimension"]],
            "score": [run["score"]],
            "outcome": [run["outcome"]],
            "evidence": pl.Series([run["evidence"]], dtype=pl.List(pl.String)),
            "labels": pl.Series([run["labels"]], dtype=pl.List(pl.String)),
            "noticed": [run["noticed"] or by_check],
        }
    )
    return sort_failures(failed).select("stage", "mode").row(0)
