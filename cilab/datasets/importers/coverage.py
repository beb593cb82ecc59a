"""Sentences on what a table of runs covers: repeats, gaps, models seen in one version only.

May import nothing of the package. Drops nothing: a reader is told.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def coverage_notes(runs: pl.DataFrame | None) -> list[str]:
    """What a reader of these runs should know about their completeness."""
    if runs is None or runs.height == 0:
        return []
    return [*_repeats(runs), *_lone_versions(runs), *_gaps(runs), *_flat(runs)]


def _repeats(runs: pl.DataFrame) -> list[str]:
    cell = ("model", "partner_model", "effort", "arm", "version", "benchmark", "task_id")
    counts = runs.group_by(cell).len()["len"]
    if counts.min() == counts.max():
        return []
    return [
        f"Repeats differ: {counts.min()} to {counts.max()} runs per model, task and version "
        f"(median {counts.median():g})."
    ]


def _lone_versions(runs: pl.DataFrame) -> list[str]:
    versions = runs["version"].n_unique()
    if versions < 2:
        return []
    per = runs.group_by("model").agg(pl.col("version").n_unique().alias("n"), pl.col("version").first()).sort("model")
    lone = per.filter(pl.col("n") == 1)
    if lone.height == 0:
        return []
    named = ", ".join(f"{m} ({v})" for m, v in lone.select("model", "version").head(5).iter_rows())
    more = f" and {lone.height - 5} more" if lone.height > 5 else ""
    return [f"{lone.height} of {per.height} models are there in one version only: {named}{more}; kept."]


def _gaps(runs: pl.DataFrame) -> list[str]:
    """Models that lack tasks which other models have in the same benchmark and version."""
    where = ("benchmark", "dimension", "version")
    tasks = runs.group_by(where).agg(pl.col("task_id").n_unique().alias("all"))
    per = (
        runs.group_by(*where, "model")
        .agg(pl.col("task_id").n_unique().alias("n"))
        .join(tasks, on=where, nulls_equal=True)
    )
    short = per.filter(pl.col("n") < pl.col("all")).sort("n", "model", *where)
    if short.height in (0, per.height):  # where nobody has all tasks there is no grid to be complete
        return []
    named = ", ".join(
        f"{' '.join(filter(None, (r['model'], r['dimension'], r['version'])))} {r['n']} of {r['all']}"
        for r in short.head(4).iter_rows(named=True)
    )
    return [
        f"{short.height} of {per.height} model, dimension and version cells lack tasks: {named}"
        f"{' …' if short.height > 4 else ''}."
    ]


def _flat(runs: pl.DataFrame) -> list[str]:
    scored = runs.filter(pl.col("score").is_not_null())
    per = scored.group_by("model").agg(
        pl.len().alias("n"), pl.col("score").min().alias("lo"), pl.col("score").max().alias("hi")
    )
    flat = per.filter((pl.col("n") >= 20) & (pl.col("lo") == pl.col("hi"))).sort("model")
    return [
        f"{m} has score {s:g} on all its {n} runs; look before you trust it."
        for m, n, s in flat.select("model", "n", "lo").iter_rows()
    ]


def orphan_notes(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Messages, labels, annotations and reviews whose run is not among the runs."""
    if "runs" not in tables:
        return []
    ids = tables["runs"].select("run_id").unique()
    out = []
    for name in ("messages", "labels", "annotations", "reviews"):
        if name in tables:
            lone = tables[name].join(ids, on="run_id", how="anti")
            if lone.height:
                count = lone["run_id"].n_unique()
                out.append(f"{lone.height:,} rows of {name} belong to {count:,} runs that are not in runs; kept.")
    return out
