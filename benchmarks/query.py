"""A failure-mode question over ten million messages: time and memory of `study.sql` and of the lazy tables.

    python benchmarks/query.py [--json] [--rows 10000000] [--part-runs 12500] [--rounds 7] [--keep DIR]

A study of the wanted size is generated once (about a minute for ten million rows). The question counts, by model
and dimension, failed runs in which the model under test opened a file, and how late it first did. Peers on the same
files in the same run:
    DuckDB by hand: a new connection, a view over each table's files, the same query, its rows as Python objects, and
    the connection closed, as ours is (which answers with a Polars frame);
    pandas: both tables read whole, as is usual there.
Every measurement is a process of its own, timed without its imports. All but pandas take turns, some rounds, and the
fastest of each counts, so that a busy machine slows them alike. Their answers must be equal, row by row.
`--part-runs 512` cuts the study into as many parts as a long run of the engine leaves.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lines import line, show

MESSAGES_PER_RUN = 40
TAKING_TURNS = ("ours", "lazy", "duckdb")
TIME_LIMIT, MEMORY_LIMIT_MB, PANDAS_AT_LEAST = 1.15, 200, 25
QUESTION = """
    select r.model, r.dimension, count(*) as failed_after_opening, avg(o.first_round) as first_round
    from (
        select run_id, min(round) as first_round from messages
        where seat_kind = 'under_test' and tool = 'read_file' group by run_id
    ) o join runs r using (run_id)
    where r.score < 1 group by all order by 1, 2
"""


def generate(folder: Path, rows: int, part_runs: int) -> None:
    """A study with `rows` messages, in parts of `part_runs` rollouts."""
    import numpy as np
    import polars as pl

    from cilab import store
    from cilab.core.tables import MESSAGES, RUNS
    from cilab.teamwork.terms import DIMENSIONS

    rng = np.random.default_rng(0)
    words = ["we", "should", "check", "the", "plan", "before", "lunch", "and", "tell", "others", "about", "it"]
    texts = np.array([" ".join(rng.choice(words, 12)) for _ in range(5000)])
    tools = pl.Series([None] * 6 + ["read_file", "edit_file", "send_mail"], dtype=pl.String)
    runs = rows // MESSAGES_PER_RUN
    for first in range(0, runs, part_runs):
        n = min(part_runs, runs - first)
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


def measure(which: str, folder: Path) -> dict[str, Any]:
    """Answer the question once; seconds without imports, peak MB, and the answer's rows in order."""
    seconds, rows = {"ours": _ours, "lazy": _lazy, "duckdb": _duckdb, "pandas": _pandas}[which](folder)
    return {"seconds": seconds, "peak_mb": peak_mb(), "rows": sorted(rows)}


def _ours(folder: Path) -> tuple[float, list[tuple]]:
    import duckdb

    import cilab
    from cilab import store
    from cilab.core import registry

    assert all((duckdb, registry, store))  # imported before the clock starts
    began = time.perf_counter()
    answer = cilab.open(folder).sql(QUESTION)
    return time.perf_counter() - began, answer.rows()


def _lazy(folder: Path) -> tuple[float, list[tuple]]:
    import polars as pl

    import cilab
    from cilab import store
    from cilab.core import registry

    assert all((registry, store))
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
    return time.perf_counter() - began, answer.rows()


def _duckdb(folder: Path) -> tuple[float, list[tuple]]:
    import duckdb
    import polars

    assert polars  # so that memory is compared like with like
    began = time.perf_counter()
    with duckdb.connect() as db:
        for table in ("runs", "messages"):
            db.execute(f"create view {table} as select * from read_parquet('{folder}/tables/{table}/*.parquet')")
        answer = db.execute(QUESTION).fetchall()
    return time.perf_counter() - began, answer


def _pandas(folder: Path) -> tuple[float, list[tuple]]:
    import pandas as pd

    began = time.perf_counter()
    messages = pd.read_parquet(folder / "tables/messages")
    runs = pd.read_parquet(folder / "tables/runs")
    opened = messages[(messages["seat_kind"] == "under_test") & (messages["tool"] == "read_file")]
    first = opened.groupby("run_id", as_index=False)["round"].min()
    both = first.merge(runs.loc[runs["score"] < 1, ["run_id", "model", "dimension"]], on="run_id")
    answer = both.groupby(["model", "dimension"])["round"].agg(["size", "mean"]).reset_index()
    return time.perf_counter() - began, [tuple(row) for row in answer.to_numpy(dtype=object).tolist()]


def peak_mb() -> float:
    """Peak memory of this process alone (the kernel's ru_maxrss also counts the parent that started it)."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("VmHWM"):
            return int(entry.split()[1]) / 1024
    raise SystemExit("this benchmark reads /proc/self/status: run it on Linux")


def in_turns(names: Sequence[str], folder: Path, rounds: int) -> dict[str, dict[str, Any]]:
    """The fastest of some processes of each kind, which take turns; memory is the most that any of them had."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, "--measure", name, "--keep", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {
        name: min(several, key=lambda m: m["seconds"]) | {"peak_mb": max(m["peak_mb"] for m in several)}
        for name, several in found.items()
    }


def same_answer(a: list[list[Any]], b: list[list[Any]]) -> bool:
    """Equal rows; means to nine digits, since they are summed in another order."""
    return len(a) == len(b) > 0 and all(
        x[:3] == y[:3] and math.isclose(x[3], y[3], rel_tol=1e-9) for x, y in zip(a, b, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--part-runs", type=int, default=12_500, help="rollouts in a part")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder of the generated study, made when it is not there")
    parser.add_argument("--measure", choices=[*TAKING_TURNS, "pandas"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.keep)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary) / "study"
        if not folder.exists():
            generate(folder, args.rows, args.part_runs)
        of = in_turns(TAKING_TURNS, folder, args.rounds) | in_turns(["pandas"], folder, 1)
    for name in of:
        if not same_answer(of["ours"]["rows"], of[name]["rows"]):
            raise SystemExit(f"study.sql and {name} give different answers")
    return report(of, args.json)


def report(of: Mapping[str, Mapping[str, Any]], as_json: bool) -> int:
    """Print a line for each comparison; 0 when every target is met, else 1."""

    def against(name: str, which: str, peer: str, what: str, **target: Any) -> dict[str, Any]:
        return line(name, of[which][what], "MB" if what == "peak_mb" else "s", peer=of[peer][what], **target)

    limit = {"most": MEMORY_LIMIT_MB, "of": "ours"}
    lines = [
        against("study.sql against DuckDB by hand", "ours", "duckdb", "seconds", most=TIME_LIMIT),
        against("lazy tables against DuckDB by hand", "lazy", "duckdb", "seconds"),
        against("study.sql against pandas", "ours", "pandas", "seconds", most=1 / PANDAS_AT_LEAST),
        against("memory of study.sql against DuckDB", "ours", "duckdb", "peak_mb", **limit),
        against("memory of lazy tables against DuckDB", "lazy", "duckdb", "peak_mb"),
        against("memory of study.sql against pandas", "ours", "pandas", "peak_mb"),
    ]
    return show(lines, as_json)


if __name__ == "__main__":
    sys.exit(main())
