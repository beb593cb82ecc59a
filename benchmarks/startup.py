"""How long a shell or a notebook waits for cilab: `import cilab` and `cilab --help`, beside `import pandas`.

    python benchmarks/startup.py [--json] [--rounds 5]

CPU seconds of whole processes, Python's own start included; the least of some rounds, in turns. Run it once before it
counts: the bytecode must be there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

from lines import line, show

MOST = {"import cilab": 0.3, "cilab --help": 0.5}
COMMANDS = {
    "bare": ["-c", "pass"],
    "import pandas": ["-c", "import pandas"],
    "import cilab": ["-c", "import cilab"],
    "cilab --help": ["-m", "cilab", "--help"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """Processor time of one Python process with these arguments."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: ended with code {process.returncode}")
    return used.ru_utime + used.ru_stime


def measure(rounds: int) -> list[dict[str, Any]]:
    """One line for each promise."""
    least = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            least[name] = min(least[name], cpu_seconds(arguments))
    peer, note = least["import pandas"], f"Python alone: {least['bare']:.3f} s"
    return [
        line(name, least[name], "s of CPU", peer=peer, most=most, of="ours", note=note) for name, most in MOST.items()
    ]


def main() -> int:
    """Measure and print; exit code 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON line per promise")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    return show(measure(given.rounds), given.json)


if __name__ == "__main__":
    sys.exit(main())
