"""What must hold of a study's folder, at any instant and at the end."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

import cilab
from cilab.collect.model import RETRYABLE, TERMINAL
from cilab.store.journal import JOURNAL_NAME


def kept_answers(folder: Path) -> set[str]:
    """Fingerprints of all answers that the folder holds: in tables, in finished rollouts, inside interrupted ones."""
    if not (folder / JOURNAL_NAME).exists():
        return set()
    calls = cilab.open(folder).table("calls").filter(pl.col("error").is_null()).collect()
    return {f for f in calls["system_fingerprint"] if f} | unfinished_answers(folder)


def unfinished_answers(folder: Path) -> set[str]:
    """Fingerprints of the answers received inside rollouts that are not finished."""
    uri = f"{(folder / JOURNAL_NAME).resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            return set()
        found = db.execute("SELECT json_extract(payload, '$.row.system_fingerprint') FROM completions").fetchall()
    return {f for (f,) in found}


def stored_answers(folder: Path) -> list[str]:
    """Fingerprint of every answer in the calls table, one for each row."""
    calls = cilab.open(folder).table("calls").filter(pl.col("error").is_null()).collect()
    return calls["system_fingerprint"].to_list()


def check_errors_are_typed(folder: Path) -> dict[str, int]:
    """Every rollout in error says of which kind it is, and nothing else has an error; the kinds counted."""
    runs = cilab.open(folder).runs.collect()
    failed = runs.filter(pl.col("status") == "error")
    kinds: dict[str, int] = {}
    for text in failed["error"]:
        kind = str(text).partition(":")[0]
        assert kind in RETRYABLE + TERMINAL, text
        assert "\n" not in text and "Traceback" not in text
        kinds[kind] = kinds.get(kind, 0) + 1
    assert failed["score"].null_count() == failed.height
    return kinds
