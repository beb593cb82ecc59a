"""What the page of a maze run shows beside what every page does: its maze, its relay, and the maps.

May import `cilab.show`. Pure functions of a run's rows.
"""

from __future__ import annotations

from cilab.show.rows import Rows, View
from cilab.show.words import blocks, number


def view(page: Rows) -> View:
    """Facts and maps of a maze run. A blind page, whose run has no such columns, has the maps only."""
    run = page.run
    size, kind = run.get("maze_size"), run.get("relay_kind")
    length = run.get("path_length")
    return View(
        facts={
            "maze_size": ("maze", None if size is None else f"{size} x {size}"),
            "wall_density": ("wall density", number(run.get("wall_density"))),
            "path_length": ("shortest path", None if length is None else str(length)),
            "relay_kind": ("relay", f"{kind}, after {run['relay_k']} turns" if kind else None),
            "relay_k": ("relay", None),  # said with its kind
        },
        maps=maps(page),
        maps_title="Maze",
        turns=True,
    )


def maps(page: Rows) -> list[tuple[str, str]]:
    """(whose, map) read off the task messages; two copies are also laid over each other."""
    found = []
    for m in page.messages:
        if m["seat_kind"] == "user" and m["content"]:
            pieces = [piece for kind, piece in blocks(m["content"]) if kind == "map"]
            to = ", ".join(m["delivered_to"] or [])
            found += [(f"seen by {to}" if len(pieces) == 1 else f"copy {i}", one) for i, one in enumerate(pieces, 1)]
    if len(found) == 2 and (both := _overlay(found[0][1], found[1][1])):
        found.append(("both together", both))
    return found


def _overlay(one: str, two: str) -> str | None:
    """Two copies as one map, or None where they do not fit each other."""
    rows = [[line.split() for line in copy.split("\n")] for copy in (one, two)]
    if [len(r) for r in rows[0]] != [len(r) for r in rows[1]]:
        return None
    out = []
    for a, b in zip(*rows, strict=True):
        if any(x != y and "?" not in (x, y) for x, y in zip(a, b, strict=True)):
            return None
        out.append(" ".join(y if x == "?" else x for x, y in zip(a, b, strict=True)))
    return "\n".join(out)
