"""Running a model's code: `run_tests` and `evaluate` in the sandbox beside bare pytest on the same files.

    python benchmarks/sandbox.py [--json] [--rounds 9]

Seconds by the clock, the least of some rounds, in turns (the processor time of a killed namespace is told to nobody).
Bare pytest is a new process in a folder, without plugins and without any protection. The sandbox makes the folder, the
namespaces and the process, reads back what changed and reports in a way that the code under test cannot forge.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lines import line, show

#: Promised: at most so many times bare pytest.
MOST_TESTS, MOST_CALLS = 1.25, 0.5
FILES = {
    "src/prices.py": "def total(items, rate=0.0):\n    return round(sum(items) * (1 + rate), 2)\n",
    "tests/test_prices.py": (
        "import pytest\nfrom prices import total\n\n\n"
        "def test_sum():\n    assert total([1, 2]) == 3\n\n\n"
        "@pytest.mark.parametrize('rate', [0.1, 0.5])\n"
        "def test_rate(rate):\n    assert total([10], rate) == round(10 * (1 + rate), 2)\n"
    ),
}


def bare_pytest(folder: Path) -> None:
    """The same tests as a user runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    settings = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, text=True)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def measure(rounds: int) -> list[dict[str, Any]]:
    """Lines for executing tests and for calling a function."""
    from cilab.teamwork.sandbox import Call, Workspace, evaluate, run_tests

    files = Workspace(FILES)

    def tests() -> None:
        assert len(run_tests(files).passed) == 3

    def calls() -> None:
        assert evaluate(files, [Call.of("prices", "total", [1, 2])])[0].value == 3

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        works: dict[str, Callable[[], None]] = {"tests": tests, "calls": calls, "pytest": lambda: bare_pytest(folder)}
        least = dict.fromkeys(works, float("inf"))
        for _ in range(rounds):
            for what, work in works.items():
                began = time.perf_counter()
                work()
                least[what] = min(least[what], time.perf_counter() - began)
    peer = least["pytest"]
    return [
        line("run_tests / bare pytest", least["tests"], "s", peer=peer, most=MOST_TESTS),
        line("evaluate / bare pytest", least["calls"], "s", peer=peer, most=MOST_CALLS),
    ]


def main() -> int:
    """Measure and print; exit code 1 where a target is missed, or where there is no sandbox."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    from cilab.teamwork.sandbox import available

    if (problem := available()) is not None:
        names = ("run_tests / bare pytest", "evaluate / bare pytest")
        lines = [line(n, None, "s", most=1.0, note=f"no sandbox here: {problem}") for n in names]
        return show(lines, given.json)
    return show(measure(given.rounds), given.json)


if __name__ == "__main__":
    sys.exit(main())
