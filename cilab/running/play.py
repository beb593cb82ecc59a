"""Plays a study: a plan and its models go to the engine, the study's folder is made, Ctrl-C is passed on.

May import `cilab.running.load` and `study_file`, `cilab.collect`, `cilab.store` and `cilab.core`. Knows no benchmark.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from cilab import store
from cilab.collect import background
from cilab.collect.engine import Elsewhere, Engine, Job, Summary, rollout_job
from cilab.collect.progress import Display, display
from cilab.core import registry, tables
from cilab.core.errors import StoreError
from cilab.core.redact import hide_credentials
from cilab.running.load import folder_of, label, load_study, model_policy, models_of
from cilab.running.study_file import Plan
from cilab.store import journal


def run_study(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    scale: float = 1.0,
    limit: int | None = None,
    gate: bool = True,
    show_progress: bool = True,
) -> Summary:
    """Play what is not finished yet of a study; the same call again continues after any interruption.

    Parameters
    ----------
    path : the study file.
    out : the study's folder, or an fsspec URL (`s3://...`); default `data/studies/<name>`.
    scale : factor on the number of tasks.
    limit : play at most this many of the planned rollouts.
    gate : False plays test and baseline whatever came out alone.

    Raises
    ------
    CilabError
        Bad input, before anything is played.
    """
    return run_loaded(load_study(path, scale), out=out, limit=limit, gate=gate, show_progress=show_progress)


def run_loaded(
    plan: Plan,
    *,
    out: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    gate: bool = True,
    show_progress: bool = True,
    elsewhere: Elsewhere | None = None,
) -> Summary:
    """As `run_study`, for a study that was read already; `elsewhere` plays its rollouts on other machines."""
    for _ in plan.specs(gate=gate, limit=limit):
        pass  # the whole plan, before anything is written: a task that cannot be made is bad input
    whole = None if limit is None else frozenset(spec.run_id for _, spec in plan.specs(gate=gate))
    models = models_of(plan)
    mirror = store.mirror(out)
    folder = prepare_folder(plan, out if mirror is None else mirror.folder)
    engine = Engine(
        folder,
        study=label(plan),
        resolve=models.__getitem__,
        budget_usd=plan.file.budget_usd,
        elsewhere=elsewhere,
        after_parts=None if mirror is None else mirror.push,
        plan=whole,
        **model_policy(plan),
    )

    def jobs() -> Iterator[Job]:
        for benchmark, spec in plan.specs(gate=gate, limit=limit):
            yield rollout_job(spec, benchmark.play)

    try:
        return drive(engine, jobs, show_progress)
    finally:
        if mirror is not None:
            mirror.push()


def prepare_folder(plan: Plan, out: str | os.PathLike[str] | None) -> Path:
    """Make the study's folder and keep the file as run; an edited file keeps its earlier versions beside it.

    Raises
    ------
    StoreError
        The folder cannot be written, another process is writing to it, or its journal is newer or damaged:
        nothing is written then.
    """
    folder = folder_of(plan, out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise StoreError(f"{folder}: cannot be made ({e.strerror}). Choose another folder with --out.") from None
    lock = journal.FolderLock(folder)
    lock.acquire()
    try:
        journal.count_unfinished(folder)
        store.check_writable(folder)
        _keep_file(folder, plan.text)
        _keep_simulated(folder, plan)
        _keep_tasks(folder, plan)
    finally:
        lock.release()
    return folder


def _keep_simulated(folder: Path, plan: Plan) -> None:
    """`models.csv` of the study: family and strength of its simulated agents, for the analyses that need them."""
    known = {}
    for benchmark, block in plan.blocks:
        for name in sorted(block.model_names()):
            if name.startswith("sim/"):
                about = benchmark.describe(name.removeprefix("sim/"))
                known[name] = {"model": name, "builder": "simulated", **about}
    if not known:
        return
    kept, rows = folder / "models.csv", tables.frame("models", list(known.values()))
    if kept.exists():
        before = registry.models(kept)
        earlier = before.filter((before["builder"] == "simulated") & ~before["model"].is_in(list(known)))
        rows = rows.vstack(earlier)
    store.write_text(kept, rows.sort("model").write_csv())


def _keep_tasks(folder: Path, plan: Plan) -> None:
    """The tasks table: a row for each task of the plan that it does not hold yet."""
    planned = {
        row["task_id"]: row for benchmark, block in plan.blocks if benchmark.tasks for row in benchmark.tasks(block)
    }
    if not planned:
        return
    known = set(store.collect(store.Study(folder).tasks.select("task_id"), folder)["task_id"])
    if new := [row for task_id, row in sorted(planned.items()) if task_id not in known]:
        store.write_group(folder, {"tasks": tables.frame("tasks", new)})


def _keep_file(folder: Path, text: str) -> None:
    kept, text = folder / "study.yaml", hide_credentials(text)
    if kept.exists():
        try:
            before = kept.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise StoreError(f"{kept}: cannot be read ({e}). Move it away.") from None
        if before == text:
            return
        mark = hashlib.blake2b(before.encode(), digest_size=4).hexdigest()
        store.write_text(folder / f"study-{mark}.yaml", before)
    store.write_text(kept, text)


def drive(engine: Engine, jobs: Any, show_progress: bool) -> Summary:
    """Run the engine on the background loop, show progress once it is planned, and pass Ctrl-C on.

    The first Ctrl-C lets the calls in flight finish; the second gives them up; the third leaves without them, where
    somebody's own code holds up the loop. Each keeps what arrived.

    Raises
    ------
    CilabError
        The folder cannot be used, or the loop broke.
    """
    future = background.submit(engine.run(jobs))
    view: Display | None = None
    pressed = 0
    try:
        while True:
            try:
                summary = future.result(timeout=0.2)
                view = view or display(show_progress)
                return summary
            except FutureTimeout as e:
                if future.done() and future.exception() is e:  # its own, not that of the wait
                    raise
                if engine.progress.planned:
                    view = view or display(show_progress)
                    view.update(engine.progress)
            except KeyboardInterrupt:
                pressed += 1
                if pressed == 1:
                    engine.progress.note = "stopping after the calls in flight; Ctrl-C again to give them up"
                    engine.stop()
                elif pressed == 2:
                    engine.progress.note = "giving up the calls in flight; Ctrl-C again to leave at once"
                    engine.abort()
                else:
                    raise
    finally:
        if view is not None:
            view.close(engine.progress)
