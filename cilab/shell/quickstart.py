"""`cilab quickstart`: from nothing to a page of reports on both benchmarks, on the embedded models alone.

May import `cilab.running`, `cilab.reports.batch`. Needs no key and no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cilab.collect.engine import Summary
from cilab.collect.local_model import LocalModel
from cilab.collect.model import CallError
from cilab.core.paths import shipped
from cilab.reports.batch import Told
from cilab.running.load import folder_of, load_study
from cilab.running.play import run_loaded

#: Reports on what the study holds, as a newcomer should meet them; `cilab report all` renders the others too.
REPORTS = ("start_here", "leaderboard", "failures", "conflict", "maze_gap", "maze_pairs", "maze_relay")


@dataclass(frozen=True)
class Quickstart:
    """What the quickstart made.

    Attributes
    ----------
    summary : how playing ended.
    data : the study's folder.
    index : the page that leads to the reports; None where playing was stopped before its end.
    failed : report -> one line, for those that could not be rendered.
    left_out : why the small real model did not play; None where it did.
    """

    summary: Summary
    data: Path
    index: Path | None
    failed: Mapping[str, str]
    left_out: str | None


def quickstart(out: Path | None = None, *, show_progress: bool = True, told: Told | None = None) -> Quickstart:
    """Play `studies/quickstart.yaml` and render its reports in the current folder.

    Without the `local` extra the part with the real small model is left out, and that is said.

    Parameters
    ----------
    out : the study's folder; default `data/studies/quickstart`.
    show_progress : show how playing goes on.
    told : called as each report ends, as in `cilab.reports.batch.render_all`.

    Raises
    ------
    CilabError
        A folder cannot be written; `out` holds another study.
    """
    from cilab.reports import batch as report_all
    from cilab.running.again import regrade

    plan = load_study(shipped("studies/quickstart.yaml"))
    left_out = _missing_local()
    if left_out:
        kept = tuple((b, block) for b, block in plan.blocks if not _local(block))
        plan = replace(plan, blocks=kept)
    data = folder_of(plan, out)
    summary = run_loaded(plan, out=data, show_progress=show_progress)
    if summary.stopped or summary.fatal:
        return Quickstart(summary, data, None, {}, left_out)
    # Free, by rules: the report then shows what moves in random order would get.
    regrade(data, grader="rules", show_progress=False)
    batch = report_all.render_all(REPORTS, data=data, params={"maze_data": data}, told=told)
    return Quickstart(summary, data, batch.index, batch.failed, left_out)


def _missing_local() -> str | None:
    """Why the small real model cannot run here, with the command that brings it; None when it can."""
    try:
        LocalModel("local/smollm2").check_ready()
    except CallError as e:
        return str(e)
    return None


def _local(block: Any) -> bool:
    return any(name.startswith("local/") for name in block.model_names())
