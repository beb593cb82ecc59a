"""Checks the package's types with mypy, and holds the errors to those that are known: `tests/mypy_baseline.txt`.

    python tools/check_types.py           # prints what is new and what is gone; exit code 1 if anything is
    python tools/check_types.py --shrink  # takes out of the baseline what is gone

The baseline counts errors by file and by mypy's code, so that a line more or less above them does not matter. It only
shrinks: `--shrink` adds nothing. A file that moves takes its lines along by hand. Where another version of a library
changes what mypy finds, delete the baseline and run `--shrink` in a commit of its own.
What mypy looks at, and how strictly, stands in pyproject.toml.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "tests" / "mypy_baseline.txt"
SHRINK = "python tools/check_types.py --shrink"

#: File and mypy's code -> number of errors.
Counts = Mapping[tuple[str, str], int]


def errors() -> list[tuple[str, str, str]]:
    """What mypy finds now: file, code, and the line to print.

    Raises
    ------
    RuntimeError
        mypy did not get as far as checking.
    """
    command = [sys.executable, "-m", "mypy", "--output", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1) or done.stderr:
        raise RuntimeError(f"mypy: {(done.stderr or done.stdout).strip()}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [
        (e["file"], e["code"], f"{e['file']}:{e['line']}: {e['message']} [{e['code']}]")
        for e in found
        if e["severity"] == "error"
    ]


def known() -> Counter[tuple[str, str]]:
    """The baseline: a line `file code number` for each count."""
    rows = (line.split() for line in BASELINE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return Counter({(file, code): int(number) for file, code, number in rows})


def more(now: Counts, before: Counts) -> dict[tuple[str, str], int]:
    """By how much the counts of `now` are above those of `before`, where they are."""
    return {key: n - before.get(key, 0) for key, n in now.items() if n > before.get(key, 0)}


def problems(found: list[tuple[str, str, str]], before: Counts) -> list[str]:
    """What does not agree with the baseline, in lines to print; where an error is new, all that it may be."""
    now = Counter((file, code) for file, code, _ in found)
    out = []
    for (file, code), n in sorted(more(now, before).items()):
        out.append(f"{file}: {n} more [{code}] than tests/mypy_baseline.txt knows; one of these is new:")
        out += [f"    {text}" for where, what, text in found if (where, what) == (file, code)]
    if gone := more(before, now):
        out += [f"{file}: {n} fewer [{code}] than the baseline knows" for (file, code), n in sorted(gone.items())]
        out.append(f"The baseline shrinks: run `{SHRINK}` and commit it.")
    return out


def shrink(found: list[tuple[str, str, str]]) -> None:
    """Take out of the baseline what is gone; without a baseline, write one."""
    now = Counter((file, code) for file, code, _ in found)
    kept = now & known() if BASELINE.exists() else now
    lines = ["# Known type errors: file, mypy's code, number. It only shrinks; see tools/check_types.py."]
    lines += [f"{file} {code} {n}" for (file, code), n in sorted(kept.items())]
    BASELINE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """What the shell calls."""
    found = errors()
    if "--shrink" in sys.argv[1:]:
        shrink(found)
    told = problems(found, known())
    print("\n".join(told) or f"types: as the baseline knows them ({sum(known().values())} errors)")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
