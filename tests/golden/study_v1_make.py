"""How `study_v1` was made: a small simulated study with every table, and a last session that was killed.

    python tests/golden/study_v1_make.py FOLDER

Run once, with cilab 0.1.0 as it wrote tables 1 and layout 1; the result is kept beside this file and must open for
ever. Never make it anew: a later version gets a folder of its own. Everything in it is simulated.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

STUDY = """\
name: study_v1_sim
blocks:
  - benchmark: teamwork
    models: [sim/team-F1, sim/team-O7]
    tasks: [hc-market-pitches, ot-last-pass]
    judges: {referee: sim/team-judge-a, second: sim/team-judge-b, third: sim/team-judge-c}
    partners: [sim/team-partner]
  - benchmark: maze
    models: [sim/F1, sim/C3]
    versions: [solo_full, pair]
    mazes: {size: 4, density: 0.30, path: null, count: 2}
  - benchmark: maze
    versions: [relay]
    relay: [{strong: sim/F1, weak: sim/C3, k: [2]}]
    mazes: {size: 4, density: 0.30, path: null, count: 2}
"""
#: Planned rollouts that the first sessions go up to, and answers that the last session takes before it is killed.
LIMITS, ANSWERS = (10, 25), 40
REVIEW = "run_id,reviewer,old_score,new_score,reason,at\n{},reader,{},0.5,half of it was done,2026-11-30T10:00:00Z\n"


def play(path: Path, out: Path, limit: int | None) -> None:
    import cilab

    cilab.run_study(path, out=out, limit=limit, show_progress=False)


def play_until_killed(path: Path, out: Path) -> None:
    """Leaves rollouts that are finished and in no part yet, and answers inside unfinished ones."""
    from cilab.store.journal import Journal

    keep, kept = Journal.put_completion, []

    async def counted(*args: object) -> None:
        await keep(*args)
        kept.append(args)
        if len(kept) == ANSWERS:
            os._exit(9)

    Journal.put_completion = counted
    play(path, out, None)


def make(folder: Path) -> None:
    import cilab
    from cilab.datasets.importers import import_any
    from cilab.running.again import annotate
    from cilab.running.relabel import relabel

    path, form = folder.with_name("study_v1.yaml"), folder.with_name("reviews.csv")
    path.write_text(STUDY, encoding="utf-8")
    for limit in LIMITS:
        play(path, folder, limit)
    annotate(folder, annotator="rules", show_progress=False)
    relabel(folder, judge="sim/team-judge-b", sample=1, show_progress=False)
    run = cilab.open(folder).runs.filter(status="ok").sort("run_id").collect().row(0, named=True)
    form.write_text(REVIEW.format(run["run_id"], run["score"]), encoding="utf-8")
    import_any("reviews", form, folder)
    done = subprocess.run([sys.executable, __file__, "--kill", str(path), str(folder)], check=False)
    assert done.returncode == 9, done
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for name in ("journal.sqlite-wal", "journal.sqlite-shm", "study.lock", "import_report.json"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1] == "--kill":
        play_until_killed(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        make(Path(sys.argv[1]))
