"""A failure-mode question over ten million messages: time and memory of `study.sql` and of the lazy tables.

    python benchmarks/query.py [--json] [--rows 10000000] [--keep DIR]

A study of the wanted size is generated once (about a minute for ten million rows). The question counts, by model
and dimension, failed runs in which the model under test opened a file, and how late it first did. Peers on the same
files in the same run: DuckDB by hand, and the whole table loaded into pandas. Every measurement is a process of its
own, best of three.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MESSAGES_PER_RUN = 40
_PART_RUNS = 12_500
QUESTION = """
    select r.model, r.dimension, count(*) as failed_after_opening, avg(o.first_round) as first_round
    from (
        select run_id, min(round) as first_round from messages
        where seat_kind = 'under_test' and tool = 'read_file' group by run_id
    ) o join runs r using (run_id)
    where r.score < 1 group by all order by 1, 2
"""


def generate(folder: Path, rows: int) -> None:
    """A study with `rows` messages, in parts as the engine writes them."""
    import numpy as np
    import polars as pl

    from cilab import store
    from cilab.tables import DIMENSIONS, MESSAGES, RUNS

    rng = np.random.default_rng(0)
    words = ["we", "should", "check", "the", "plan", "before", "lunch", "and", "tell", "others", "about", "it"]
    texts = np.array([" ".join(rng.choice(words, 12)) for _ in range(5000)])
    tools = pl.Series([None] * 6 + ["read_file", "edit_file", "send_mail"], dtype=pl.String)
    runs = rows // MESSAGES_PER_RUN
    for first in range(0, runs, _PART_RUNS):
        n = min(_PART_RUNS, runs - first)
        ids = [f"run{first + i:09d}" for i in range(n)]
        models, dims = rng.integers(0, 24, n), rng.integers(0, 8, n)
        run_frame = pl.DataFrame(
            {
                "run_id": ids,
                "study": "bench",
                "benchmark": "teamwork",
                "task_id": [f"t{d}" for d in dims],
                "dimension": [DIMENSIONS[d] for d in dims],
                "version": "test",
                "model": [f"sim:M{m:02d}" for m in models],
                "seed": 0,
                "status": "ok",
                "score": rng.integers(0, 2, n).astype(float),
            }
        )
        m = n * MESSAGES_PER_RUN
        seats = np.array(["under_test", "scripted", "partner"])[rng.integers(0, 3, m)]
        message_frame = pl.DataFrame(
            {
                "run_id": np.repeat(np.array(ids), MESSAGES_PER_RUN),
                "index": np.tile(np.arange(MESSAGES_PER_RUN), n),
                "round": np.tile(np.arange(MESSAGES_PER_RUN) // 5, n),
                "kind": "message",
                "tool": tools.gather(rng.integers(0, len(tools), m)),
                "seat": "1",
                "seat_kind": seats,
                "content": texts[rng.integers(0, len(texts), m)],
            }
        )
        store.write_group(
            folder, {"runs": _whole(run_frame, RUNS.schema), "messages": _whole(message_frame, MESSAGES.schema)}
        )


def _whole(df: Any, schema: Any) -> Any:
    import polars as pl

    return df.select(
        *(pl.col(n).cast(t) if n in df.columns else pl.lit(None, dtype=t).alias(n) for n, t in schema.items())
    )


def measure(which: str, folder: Path) -> dict[str, float]:
    """Answer the question once; seconds without imports, peak MB."""
    if which == "ours":
        import duckdb
        import pyarrow

        import cilab
        from cilab import store

        assert all((duckdb, pyarrow, store))  # imported before the clock starts
        began = time.perf_counter()
        answer = cilab.open(folder).sql(QUESTION)
        seconds, lines = time.perf_counter() - began, answer.height
    elif which == "lazy":
        import polars as pl

        import cilab
        from cilab import store

        assert store
        began = time.perf_counter()
        study = cilab.open(folder)
        opened = (
            study.messages.filter((pl.col("seat_kind") == "under_test") & (pl.col("tool") == "read_file"))
            .group_by("run_id")
            .agg(pl.col("round").min())
        )
        failed = study.runs.filter(pl.col("score") < 1).select("run_id", "model", "dimension")
        answer = (
            opened.join(failed, on="run_id")
            .group_by("model", "dimension")
            .agg(pl.len(), pl.col("round").mean())
            .collect(engine="streaming")
        )
        seconds, lines = time.perf_counter() - began, answer.height
    elif which == "duckdb":
        import duckdb
        import polars  # noqa: F401

        began = time.perf_counter()
        db = duckdb.connect()
        for table in ("runs", "messages"):
            db.execute(f"create view {table} as select * from read_parquet('{folder}/tables/{table}/*.parquet')")
        lines = len(db.execute(QUESTION).fetchall())
        seconds = time.perf_counter() - began
    else:
        import pandas as pd

        began = time.perf_counter()
        messages = pd.read_parquet(folder / "tables/messages")
        runs = pd.read_parquet(folder / "tables/runs")
        opened = messages[(messages["seat_kind"] == "under_test") & (messages["tool"] == "read_file")]
        first = opened.groupby("run_id", as_index=False)["round"].min()
        both = first.merge(runs.loc[runs["score"] < 1, ["run_id", "model", "dimension"]], on="run_id")
        lines = len(both.groupby(["model", "dimension"])["round"].agg(["size", "mean"]))
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak_mb": peak_mb(), "lines": lines}


def peak_mb() -> float:
    """Peak memory of this process alone (the kernel's ru_maxrss also counts the parent that started it)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this benchmark reads /proc/self/status: run it on Linux")


def best(which: str, folder: Path, tries: int = 3) -> dict[str, float]:
    """The fastest of some processes."""
    command = [sys.executable, __file__, "--measure", which, "--keep", str(folder)]
    found = []
    for _ in range(tries):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{which} failed:\n{done.stderr[-2000:]}")
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda m: m["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder of the generated study, made when it is not there")
    parser.add_argument("--measure", choices=["ours", "lazy", "duckdb", "pandas"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.keep)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary) / "study"
        if not folder.exists():
            generate(folder, args.rows)
        ours, lazy, duckdb = (best(w, folder) for w in ("ours", "lazy", "duckdb"))
        pandas = best("pandas", folder, 1)
    assert ours["lines"] == lazy["lines"] == duckdb["lines"] == pandas["lines"] > 0
    rows = [
        ("study.sql against DuckDB by hand", ours["seconds"], duckdb["seconds"], "s"),
        ("lazy tables against DuckDB by hand", lazy["seconds"], duckdb["seconds"], "s"),
        ("study.sql against pandas", ours["seconds"], pandas["seconds"], "s"),
        ("memory of study.sql against DuckDB", ours["peak_mb"], duckdb["peak_mb"], "MB"),
        ("memory of study.sql against pandas", ours["peak_mb"], pandas["peak_mb"], "MB"),
    ]
    for name, mine, theirs, unit in rows:
        line = {"name": name, "ours": mine, "peer": theirs, "ratio": mine / theirs, "unit": unit}
        if args.json:
            print(json.dumps(line))
        else:
            print(f"{name:<38} {mine:10.3f} {theirs:10.3f} {mine / theirs:8.3f}  {unit}")
    return 0 if ours["seconds"] <= 1.15 * duckdb["seconds"] and ours["peak_mb"] < 200 else 1


if __name__ == "__main__":
    sys.exit(main())
