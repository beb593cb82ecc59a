"""Draws the rooms of the package from the import rules and the real imports, for `docs/architecture.md`.

    python tools/draw_house.py          # writes docs/images/house.svg and the table in docs/architecture.md
    python tools/draw_house.py --check  # says whether both are as the rules and the sources are; exit code 1 if not

The rules are data in `tests/house.py`; a test calls `--check`, so that the picture cannot lie.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.house import FLOORS, ROOMS, modules, room, room_arrows  # noqa: E402

SVG = ROOT / "docs" / "images" / "house.svg"
TEXT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: made by tools/draw_house.py -->", "<!-- end of rooms -->"
WIDTH, FLOOR, BOX, GAP = 1120, 96, 66, 10
STYLE = """\
svg { font-family: system-ui, sans-serif; font-size: 12px; background: #fff; color: #1b1b1b }
rect { fill: #f3f5f8; stroke: #8a94a3 } text { fill: #1b1b1b } .what { fill: #4d5560; font-size: 10.5px }
path { fill: none; stroke: #5b7fb4; stroke-opacity: .28 }
@media (prefers-color-scheme: dark) {
  svg { background: #16181c } rect { fill: #23272e; stroke: #6d7785 } text { fill: #e8eaed }
  .what { fill: #b3bac4 } path { stroke: #8fb4ea }
}"""


def names(name: str) -> str:
    """What a room is called in the picture."""
    return "cilab (the face)" if name == "__init__" else name


def places() -> dict[str, tuple[float, float, float]]:
    """Room -> left, top and width of its box."""
    found = {}
    for depth, floor in enumerate(FLOORS):
        width = min(240.0, (WIDTH - GAP * (len(floor) + 1)) / len(floor))
        left = (WIDTH - width * len(floor) - GAP * (len(floor) - 1)) / 2
        for i, name in enumerate(floor):
            found[name] = (left + i * (width + GAP), GAP + depth * FLOOR, width)
    return found


def picture() -> str:
    """The picture as SVG."""
    where, arrows = places(), room_arrows()
    height = FLOOR * len(FLOORS)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"',
        ' aria-label="The rooms of cilab by floors; imports run downwards only">',
        f"<style>{STYLE}</style>",
    ]
    for upper in where:
        for lower in sorted(arrows[upper]):
            x, y, w = where[upper]
            to_x, to_y, to_w = where[lower]
            a, b, mid = x + w / 2, to_x + to_w / 2, (y + BOX + to_y) / 2
            lines.append(f'<path d="M{a:.0f} {y + BOX:.0f} C{a:.0f} {mid:.0f} {b:.0f} {mid:.0f} {b:.0f} {to_y:.0f}"/>')
    for name, (x, y, w) in where.items():
        lines.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{BOX}" rx="5"/>')
        lines.append(f'<text x="{x + 8:.0f}" y="{y + 19:.0f}" font-weight="600">{escape(names(name))}</text>')
        for i, words in enumerate(wrap(ROOMS[name], max(12, int(w / 6.2)))[:3]):
            lines.append(f'<text class="what" x="{x + 8:.0f}" y="{y + 35 + 13 * i:.0f}">{escape(words)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def table() -> str:
    """The rooms as a Markdown table: what each is for, how large it is, what it imports."""
    sizes: dict[str, int] = {}
    for module, _ in modules():
        if (own := room(module)) is not None:
            sizes[own] = sizes.get(own, 0) + 1
    arrows = room_arrows()
    lines = ["| room | for | modules | imports |", "|---|---|---:|---|"]
    for name in places():
        lower = ", ".join(f"`{names(n)}`" for n in sorted(arrows[name])) or "nothing of ours"
        lines.append(f"| `{names(name)}` | {ROOMS[name]} | {sizes.get(name, 0)} | {lower} |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Write both, or check them."""
    before = TEXT.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    text = f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"
    if argv == ["--check"]:
        stale = [str(p.relative_to(ROOT)) for p, now in ((SVG, picture()), (TEXT, text)) if p.read_text() != now]
        print(f"not as the sources are: {', '.join(stale)}; run: python tools/draw_house.py" if stale else "as it is")
        return int(bool(stale))
    SVG.write_text(picture(), encoding="utf-8")
    TEXT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
