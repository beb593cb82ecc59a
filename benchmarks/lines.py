"""What every benchmark prints: lines of our time, a peer's time in the same run, and what was promised.

A line is a dict with `name`, `ours` (None where it could not be measured), `peer` and `ratio` (None where there is no
peer), `unit`, and, where something is promised, `target` in words and `met`. `note` says what else a reader must know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def line(
    name: str,
    ours: float | None,
    unit: str,
    *,
    peer: float | None = None,
    ratio: float | None = None,
    least: float | None = None,
    most: float | None = None,
    of: str = "ratio",
    note: str = "",
) -> dict[str, Any]:
    """A line; `least` and `most` are the target of `of` (`ratio` or `ours`).

    `ratio` defaults to ours / peer. What could not be measured, as a peer is missing, is neither met nor missed: `met`
    is None then.
    """
    if ratio is None and peer is not None and ours is not None:
        ratio = ours / peer
    found: dict[str, Any] = {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "unit": unit}
    bounds = [(f"at least {least:g}", least, 1)] if least is not None else []
    bounds += [(f"at most {most:g}", most, -1)] if most is not None else []
    if bounds:
        value = ratio if of == "ratio" else ours
        what = "ratio" if of == "ratio" else unit
        found["target"] = f"{what} {' and '.join(words for words, _, _ in bounds)}"
        found["met"] = None if value is None else all(sign * (value - bound) >= 0 for _, bound, sign in bounds)
    return found | ({"note": note} if note else {})


def show(lines: Iterable[dict[str, Any]], as_json: bool) -> int:
    """Print the lines, as a table or one JSON object each; 1 where a target is missed, else 0."""
    lines = list(lines)
    if not as_json:
        print(f"{'':<44}{'ours':>11}{'peer':>11}{'ratio':>9}  unit; target")
    for x in lines:
        if as_json:
            print(json.dumps(x))
            continue
        ours, peer, ratio = ("-" if x[k] is None else f"{x[k]:.4g}" for k in ("ours", "peer", "ratio"))
        says = "; ".join(filter(None, (x["unit"], x.get("target", ""), verdict(x), x.get("note", ""))))
        print(f"{x['name']:<44}{ours:>11}{peer:>11}{ratio:>9}  {says}")
    return int(any(x.get("met") is False for x in lines))


def verdict(x: dict[str, Any]) -> str:
    """met, missed, not judged, or nothing where nothing is promised."""
    if "target" not in x:
        return ""
    return {True: "met", False: "MISSED", None: "not judged"}[x["met"]]
