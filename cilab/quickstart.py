"""`cilab quickstart`: from nothing to a report, on the embedded models alone.

May import `cilab.run`, `cilab.regrading`, `cilab.reports`. Needs no key and no network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cilab.collect.engine import Summary
from cilab.collect.local_model import LocalModel
from cilab.collect.model import CallError
from cilab.paths import shipped
from cilab.run import STUDIES, load_study, run_loaded


@dataclass(frozen=True)
class Quickstart:
    """What the quickstart made; no report where it was stopped before its end."""

    summary: Summary
    data: Path
    report: Path | None
    left_out: str | None


def quickstart(out: Path | None = None, *, show_progress: bool = True) -> Quickstart:
    """Play `studies/quickstart.yaml` and render its report in the current folder.

    Without the `local` extra the part with the real small model is left out, and that is said.
    """
    from cilab.regrading import regrade
    from cilab.reports import render

    study = load_study(shipped("studies/quickstart.yaml"))
    left_out = _missing_local()
    if left_out:
        kept = tuple((b, block) for b, block in study.blocks if not _local(block))
        study = replace(study, blocks=kept)
    data = out or STUDIES / study.file.name
    summary = run_loaded(study, out=data, show_progress=show_progress)
    if summary.stopped or summary.fatal:
        return Quickstart(summary, data, None, left_out)
    # Free, by rules: the report then shows what moves in random order would get.
    regrade(data, grader="rules", show_progress=False)
    report = render("maze_gap", data=data, params={}).html
    return Quickstart(summary, data, report, left_out)


def _missing_local() -> str | None:
    """Why the small real model cannot run here, with the command that brings it; None when it can."""
    try:
        LocalModel("local/smollm2").check_ready()
    except CallError as e:
        return str(e)
    return None


def _local(block: Any) -> bool:
    return any(name.startswith("local/") for name in block.model_names())
