"""Stored transcripts of many rollouts, read in chunks: one scan for many, a few chunks in memory.

May import `cilab.store`. Reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import polars as pl

_CHUNK = 256
_CHUNKS_KEPT = 4


class Transcripts:
    """Run id -> the run's messages in order, as rows of the messages table.

    Parameters
    ----------
    study : an opened study.
    run_ids : the runs that will be asked for, in about the order in which they will be.
    """

    def __init__(self, study: Any, run_ids: Sequence[str]):
        self._study, self._ids = study, list(run_ids)
        self._place = {run_id: i for i, run_id in enumerate(self._ids)}
        self._chunk = lru_cache(maxsize=_CHUNKS_KEPT)(self._read)

    def __getitem__(self, run_id: str) -> list[dict[str, Any]]:
        return self._chunk(self._place[run_id] // _CHUNK).get(run_id, [])

    def _read(self, chunk: int) -> dict[str, list[dict[str, Any]]]:
        wanted = self._ids[chunk * _CHUNK : (chunk + 1) * _CHUNK]
        lines = self._study.messages.filter(pl.col("run_id").is_in(wanted)).sort("run_id", "index").collect()
        return {str(key[0]): part.to_dicts() for key, part in lines.partition_by("run_id", as_dict=True).items()}
