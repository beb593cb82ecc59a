"""An importer in a package of its own: a diary, one rollout a line, as `task model won`."""

from pathlib import Path

from cilab.core.tables import frame
from cilab.datasets.importers.report import Tally


def import_diary(path, *, name="diary"):
    """Read a diary; a line of other than three words is dropped."""
    tally, runs = Tally(path), []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        tally.saw(Path(path).name)
        try:
            task, model, won = line.split()
        except ValueError:
            tally.find("dropped", "runs", "a line of other than three words", examples=[f"line {number}"])
            continue
        won = won == "yes"
        ids = {"run_id": f"diary-{number}", "study": name, "benchmark": "diary", "task_id": task, "model": model}
        verdict = {"score": float(won), "passed": won, "success": won}
        runs.append({**ids, **verdict, "version": "alone", "seed": 0, "status": "ok"})
    return tally.finish(name, {"runs": frame("runs", runs)})
