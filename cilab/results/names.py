"""What a row of a result is called.

May import nothing of ours.
"""

from __future__ import annotations


def row_names(keys: list[tuple[str, str | None, str | None]]) -> dict[tuple, str]:
    """The model's name; with effort or arm added where one model stands in several rows that differ in it."""
    out = {}
    for model, effort, arm in keys:
        same = [k for k in keys if k[0] == model]
        parts = [model]
        if len({k[1] for k in same}) > 1:
            parts.append(effort or "default effort")
        if len({k[2] for k in same}) > 1:
            parts.append(arm or "no arm")
        out[model, effort, arm] = " · ".join(parts)
    return out
