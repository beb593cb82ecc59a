"""The ends of many parts: our reader beside Polars and pyarrow, which must say the same of each.

    python benchmarks/parts.py [--json] [--parts 10000] [--rounds 3]

Every measurement is a process of its own, imports included, as `cilab status` is; they take turns and the fastest of
each counts. All read columns, versions and jobs of every part of `runs`. Half of the parts are as an older version
left them, without the entry that says the layout.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import query
from lines import line, show

MOST = 0.5
READERS = {
    "ours": """
from cilab.store.footers import footers
found = [(tuple(f.columns), f.version, f.jobs) for f in footers(paths)]
""",
    "Polars": """
import json
import polars as pl
found = []
for path in paths:
    meta = pl.read_parquet_metadata(path)
    columns = pl.read_parquet_schema(path)
    found.append((tuple(columns), int(meta["cilab_tables"]), tuple(json.loads(meta.get("cilab_jobs", "[]")))))
""",
    "pyarrow": """
import json
import pyarrow.parquet as pq
found = []
for path in paths:
    end = pq.read_metadata(path)
    meta, columns = end.metadata, end.schema.to_arrow_schema().names
    found.append((tuple(columns), int(meta[b"cilab_tables"]), tuple(json.loads(meta.get(b"cilab_jobs", b"[]")))))
""",
}
ASKED = """
import sys
from pathlib import Path
paths = sorted(Path(sys.argv[1]).glob("part-*.parquet"))
{}
import hashlib
print(len(found), hashlib.blake2b(repr(found).encode()).hexdigest())
"""


def generate(folder: Path, parts: int) -> Path:
    """The parts of `runs` of a study, with two rollouts each."""
    import pyarrow.parquet as pq

    query.generate(folder, 2 * query.MESSAGES_PER_RUN, 2)
    runs = folder / "tables" / "runs"
    first = runs / "part-000001.parquet"
    older = pq.read_table(first)
    newer = first.read_bytes()
    with pq.ParquetWriter(first, older.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(older)
        writer.add_key_value_metadata({"cilab_tables": "1"})
    data = (first.read_bytes(), newer)
    for n in range(1, parts + 1):
        (runs / f"part-{n:06d}.parquet").write_bytes(data[n > parts // 2])
    return runs


def seconds(reader: str, runs: Path) -> tuple[float, str]:
    """Seconds of a process, and what it found."""
    began = time.perf_counter()
    code = ASKED.format(READERS[reader])
    done = subprocess.run([sys.executable, "-c", code, str(runs)], capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def measure(parts: int, rounds: int) -> list[dict[str, Any]]:
    """Ours beside each peer."""
    times: dict[str, list[float]] = {reader: [] for reader in READERS}
    with tempfile.TemporaryDirectory(prefix="cilab-parts-") as scratch:
        runs = generate(Path(scratch) / "study", parts)
        for _ in range(rounds):
            answers = set()
            for reader, took in times.items():
                spent, answer = seconds(reader, runs)
                took.append(spent)
                answers.add(answer)
            assert len(answers) == 1, answers
    least = {reader: min(took) for reader, took in times.items()}
    return [
        line(f"ends of {parts:,} parts, beside {peer}", least["ours"], "s", peer=least[peer], most=MOST)
        for peer in ("Polars", "pyarrow")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    return show(measure(asked.parts, asked.rounds), asked.json)


if __name__ == "__main__":
    sys.exit(main())
