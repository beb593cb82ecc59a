"""Puts the counts of a whole campaign into `docs/reliability.md`: `python -m tests.faults.document LOG`.

Writes only between the two marks of that file. Where something is lost, doubled or paid twice, the tests fail before
it comes here.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- counts: written by make faults -->", "<!-- end of counts -->"


def table(log: str) -> str:
    """The counts of a log as a Markdown table: what was done, and what was counted."""
    entries: dict[str, dict[str, object]] = {}
    for line in log.splitlines():
        entry = json.loads(line)
        if entry.pop("whole"):
            entries[entry.pop("what")] = entry  # the last of several campaigns counts
    rows = [f"| {what} | {_words(counts)} |" for what, counts in entries.items()]
    return "\n".join(["| fault | counted |", "|---|---|", *rows])


def _words(counts: dict[str, object]) -> str:
    parts = []
    for name, value in counts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{n} {kind}" for kind, n in sorted(value.items()))
        parts.append(f"{name.replace('_', ' ')} {value}")
    return "; ".join(parts)


def main(log: Path) -> None:
    """Replace what stands between the marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = datetime.now(UTC).strftime("%Y-%m-%d")
    head = f"Measured on {made}: Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} processors."
    counts = table(log.read_text(encoding="utf-8"))
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{head}\n\n{counts}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
