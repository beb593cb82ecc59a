"""Guesses: which column is meant, whether a file has a header, whether it is a matrix.

May import `cilab.core` and this folder's `report`. A guess by name is said in the report; every other guess stands in
the error that refuses the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from cilab.core.tables import TABLES
from cilab.datasets.importers.report import short

#: Our column -> names that others give it, the likeliest first.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "run_id": ("run", "rollout_id", "trajectory_id", "uuid"),
    "task_id": ("task", "instance_id", "problem_id", "question_id", "sample_id", "scenario"),
    "model": ("model_name", "alias", "agent_llm", "submission", "evaluated_model", "agent"),
    "partner_model": ("partner", "user_llm"),
    "version": ("setting", "condition"),
    "effort": ("reasoning_effort",),
    "seed": ("trial", "epoch", "repeat", "attempt"),
    "score": ("score_binarized", "reward", "correct", "resolved", "accuracy", "pass", "passed"),
    "source_family": ("task_family", "family"),
    "cost_usd": ("cost", "agent_cost", "total_cost"),
    "tokens_in": ("prompt_tokens", "input_tokens"),
    "tokens_out": ("completion_tokens", "output_tokens"),
    "tokens_reasoning": ("reasoning_tokens", "thinking_tokens"),
    "seconds": ("duration", "total_time"),
    "finished_at": ("completed_at",),
    "index": ("turn", "position"),
    "content": ("text", "message"),
    "seat": ("speaker", "name"),
    "rater": ("annotator", "worker", "judge"),
    "annotator": ("rater", "worker", "judge"),
    "feature": ("factor",),
    "value": ("label",),
}


def columns_by_name(there: Sequence[str], into: str, taken: set[str], told: set[str]) -> dict[str, str]:
    """our column -> their column, where a name says it; `taken` columns and `told` ones of ours are left alone."""
    lower = {c.lower().strip().replace(" ", "_"): c for c in reversed(there) if c not in taken}
    out: dict[str, str] = {}
    for ours in TABLES[into].names:
        if ours in told:
            continue
        for name in (ours, *SYNONYMS.get(ours, ())):
            if name in lower and lower[name] not in out.values():
                out[ours] = lower[name]
                break
    return out


def header_guess(df: pl.DataFrame, path: Path, header: Sequence[str] | None) -> str | None:
    """A sentence when the column names look like a row of data, with names for the columns; else None."""
    if header is not None or path.suffix in (".parquet", ".pq") or not _headless(df):
        return None
    names = _names(df)
    first = ", ".join(short(c, 20) for c in df.columns[:6])
    return f"The first line ({first}) looks like data, so the header is missing: say header={names!r} (a guess)."


def _headless(df: pl.DataFrame) -> bool:
    if any(_number(c) is not None for c in df.columns):
        return True
    own = sum(c in set(df[c].cast(pl.String, strict=False)) for c in df.columns)
    return own >= min(2, df.width)


def _number(text: str) -> float | None:
    try:
        return float(text.removesuffix("_duplicated_0"))
    except ValueError:
        return None


def _names(df: pl.DataFrame) -> list[str]:
    names: list[str] = []
    texts = [c for c in df.columns if not _numeric(df[c])]
    by_variety = sorted(texts, key=lambda c: len({c, *df[c]}))
    for position, column in enumerate(df.columns):
        if column in texts:
            name = "model" if column == by_variety[0] and len(texts) > 1 else "task_id"
        else:
            values = pl.Series([*df[column].cast(pl.Float64, strict=False), _number(column)]).drop_nulls()
            whole = (values % 1 == 0).all()
            name = "score" if values.max() <= 1 and values.min() >= 0 else "seed" if whole else f"column_{position + 1}"
        names.append(name if name not in names else f"column_{position + 1}")
    return names


def _numeric(column: pl.Series) -> bool:
    known = column.drop_nulls()
    return bool(known.len()) and known.cast(pl.Float64, strict=False).is_not_null().all()


def matrix_guess(df: pl.DataFrame, lacking: Sequence[str]) -> str | None:
    """A sentence when the file looks like a matrix of scores; else None."""
    if "score" not in lacking or df.width < 4:
        return None
    numbers = [c for c in df.columns if _numeric(df[c]) and _fraction(df[c])]
    others = [c for c in df.columns if c not in numbers]
    if len(numbers) < 3 or len(others) > 2 or not others:
        return None
    other = others[0]
    rows_are_tasks = df.height > len(numbers)
    ours, headings = ("task_id", "model") if rows_are_tasks else ("model", "task_id")
    return f"It looks like a matrix ({df.height} x {len(numbers)}): say wide={headings!r}, {ours}={other!r} (a guess)."


def _fraction(column: pl.Series) -> bool:
    values = column.cast(pl.Float64, strict=False).drop_nulls()
    return values.min() >= 0 and values.max() <= 1
