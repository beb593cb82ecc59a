"""Freeze the outputs as they are: `python -m tests.frozen.remake [reports]`, for a change that means to change one.

Writes `tests/golden/frozen/records.json`, one text for each call of an estimator, and the help of the shell; with
`reports` only `reports.json`, the hashes of all reports (four minutes).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.frozen import outputs

FOLDER = outputs.ROOT / "tests" / "golden" / "frozen"


def main() -> None:
    """Write every record anew."""
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["reports"]:
            (FOLDER / "reports.json").write_text(json.dumps(outputs.reports(Path(folder)), indent=1) + "\n")
            return
    records: dict[str, Any] = {"calls": {}, "ledger": outputs.ledger(), "names": outputs.names()}
    for key, *_ in outputs.calls():
        records["calls"][key], text = outputs.call(key)
        (FOLDER / f"{key}.txt").write_text(text + "\n")
    records["plans"] = {name: outputs.plan(name) for name in outputs.PLANS}
    with tempfile.TemporaryDirectory() as folder:
        records["played"] = outputs.played(Path(folder))
    (FOLDER / "help.txt").write_text(outputs.helps())
    (FOLDER / "records.json").write_text(_lines(records))


def _lines(records: dict) -> str:
    """JSON with a line for each column, so that a change is a short diff."""

    def write(value: object, indent: int) -> str:
        if not isinstance(value, dict) or not value:
            return json.dumps(value)
        inner = ",\n".join(f"{' ' * (indent + 1)}{json.dumps(k)}: {write(v, indent + 1)}" for k, v in value.items())
        return f"{{\n{inner}\n{' ' * indent}}}"

    return write(records, 0) + "\n"


if __name__ == "__main__":
    main()
