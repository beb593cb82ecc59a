"""How far a study is and what it cost, counted from its folder alone, while it runs or afterwards.

May import `cilab.store` and `cilab.core`. Writes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from cilab import store
from cilab.store import journal

#: Seats of calls that looked at stored rollouts again (`cilab.running.again`, `cilab.running.relabel`).
_SECOND_LOOK = r"^(?:grade|annotate|relabel):"


def status(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Counts of a study's folder, while it runs or afterwards: by status, unfinished, USD.

    Returns
    -------
    dict
        `planned` is the size of the whole plan, also after a session with a limit; None where no session was here.
        `finished` counts every finished rollout, with those that were gated out; `earlier` those of them that are not
        in the plan, since the study file was edited. `usd` is what is known to have been paid: for finished rollouts,
        for answers kept of unfinished ones, and for second looks. `unpriced_calls` and `unpriced_runs` count what is
        not in it since its price is unknown.
    """
    study = store.open_here(folder)
    kept = _paid_kept(study.path)
    runs = store.collect(study.runs.select("run_id", "status", "cost_usd_team", "error"), study.path)
    counts = dict(runs.group_by("status").len().iter_rows())
    meta = journal.read_meta(study.path)
    jobs, completions = journal.count_unfinished(study.path)
    planned = meta.get("planned")
    finished = sum(n for s, n in counts.items() if s != "error")
    earlier = meta.get("earlier", 0)
    cost = _cost_so_far(study, runs, kept)
    cost["usd"] = max(cost["usd"], meta.get("usd", 0.0))  # a failed call that cost something may stand nowhere else
    return {
        "study": meta.get("study", study.name),
        "planned": planned,
        "finished": finished,
        "earlier": earlier,
        "by_status": counts,
        "missing": None if planned is None else max(0, planned - (finished - earlier)),
        "interrupted_rollouts": jobs,
        "kept_completions": completions,
        **cost,
        "errors": dict(runs.filter(runs["status"] == "error").group_by("error").len().iter_rows()),
    }


def _paid_kept(folder: Path) -> pl.DataFrame:
    """Per job, the USD of its answers in the journal and how many have no known price; `ended`: rows hold them too."""
    jobs: dict[str, list[Any]] = {}
    for job, ended, payload in journal.read_kept(folder):
        usd = payload["row"].get("cost_usd")
        entry = jobs.setdefault(job, [ended, 0.0, 0])
        entry[1] += usd or 0.0
        entry[2] += usd is None
    schema = {"run_id": pl.String, "ended": pl.Boolean, "kept": pl.Float64, "kept_unknown": pl.Int64}
    return pl.DataFrame([(job, *entry) for job, entry in jobs.items()], schema=schema, orient="row")


def _cost_so_far(study: Any, runs: pl.DataFrame, kept: pl.DataFrame) -> dict[str, Any]:
    """`usd`, `unpriced_calls` and `unpriced_runs`; an answer that stands in more than one place is counted once.

    A run's own sum says what its calls cost, unless one of them has no known cost: only then they are read. Data that
    was imported may have costs and no calls, or neither.
    """
    partly = runs.filter(pl.col("cost_usd_team").is_null() & (pl.col("status") != "gated_out"))["run_id"]
    second = pl.col("seat").str.contains(_SECOND_LOOK).alias("second")
    unknown = pl.col("cost_usd").is_null() & pl.col("error").is_null()
    paid = study.calls.filter(second | pl.col("run_id").is_in(partly.implode()))
    sums = (pl.col("cost_usd").sum().alias("paid"), unknown.cast(pl.Int64).sum().alias("unknown"))
    calls = store.collect(paid.group_by("run_id", second).agg(*sums), study.path)
    looks, own = calls.filter("second"), calls.filter(~pl.col("second")).drop("second")

    kept = kept.filter(~pl.col("ended") | pl.col("run_id").is_in(runs["run_id"].implode()))
    each = runs.join(own, on="run_id", how="left").join(kept, on="run_id", how="full", coalesce=True)
    calls_unknown = pl.max_horizontal("unknown", "kept_unknown").fill_null(0)
    no_calls = pl.col("run_id").is_in(partly.implode()) & pl.col("unknown").is_null()
    found = each.select(
        usd=pl.max_horizontal("cost_usd_team", "paid", "kept").sum(),
        calls=calls_unknown.sum(),
        runs=(no_calls | (pl.col("status").is_not_null() & (calls_unknown > 0))).sum(),
    ).row(0, named=True)
    return {
        "usd": float(found["usd"] + looks["paid"].sum()),
        "unpriced_calls": int(found["calls"] + looks["unknown"].sum()),
        "unpriced_runs": int(found["runs"]),
    }
