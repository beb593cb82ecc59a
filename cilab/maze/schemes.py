"""Notations for moves: reading them from text, and turning them into cells under every scheme.

Agents write moves as they like, so the same words can mean different cells. A scheme is one reading. May
import `cilab.maze.grid` only. Never judges whether a move is legal: `cilab.maze.grade` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from cilab.maze.grid import Cell

ORIGINS = ("tl", "tr", "bl", "br")
#: Kinds of schemes. In `letter-col` 'B3' is column B, row 3; in `letter-row` it is row B, column 3.
KINDS = ("row-col", "col-row", "rXcY", "letter-col", "letter-row", "compass", "words")
_CORNERS = {"tl": "top left", "tr": "top right", "bl": "bottom left", "br": "bottom right"}


class Token(NamedTuple):
    """One move as written.

    `kind` is `pair` (two numbers, order unknown), `rc` (row and column named: a is the row), `a1` (a is the
    letter's number from 0, b the number), `compass` or `word` (a, b are the row and column steps).
    """

    kind: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Scheme:
    """One reading of moves (paper, section 2.1).

    Attributes
    ----------
    kind : one of KINDS.
    origin : corner where counting begins (tl, tr, bl, br); directions are always as drawn, so 'tl'.
    base : number of the first row and column, 0 or 1; letters always begin at A.
    """

    kind: str
    origin: str = "tl"
    base: int = 0

    @property
    def name(self) -> str:
        """Readable and unique, e.g. 'row-col from 1, top left'."""
        if self.kind in ("compass", "words"):
            return self.kind
        return f"{self.kind} from {self.base}, {_CORNERS[self.origin]}"


@lru_cache(maxsize=1)
def all_schemes() -> tuple[Scheme, ...]:
    """Every scheme that is tried, the usual ones first."""
    placed = [
        Scheme(kind, origin, base)
        for kind in ("row-col", "col-row", "rXcY", "letter-col", "letter-row")
        for origin in ORIGINS
        for base in (1, 0)
    ]
    return (*placed, Scheme("compass"), Scheme("words"))


@lru_cache(maxsize=64)
def schemes_for(kinds: frozenset[str]) -> tuple[Scheme, ...]:
    """The schemes that differ for moves of these token kinds.

    Where notations are mixed, one convention (origin and base) holds for all of them; directions are always
    steps from where the marker is.
    """
    for kind, names in (
        ("pair", ("row-col", "col-row")),
        ("a1", ("letter-col", "letter-row")),
        ("rc", ("rXcY",)),
        ("word", ("words",)),
        ("compass", ("compass",)),
    ):
        if kind in kinds:
            return tuple(s for s in all_schemes() if s.kind in names)
    return ()


def to_cell(token: Token, scheme: Scheme, size: int, here: Cell) -> Cell:
    """The cell (row, column from 0 at the top left) that a move leads to; may lie off the grid.

    Parameters
    ----------
    token : the move.
    scheme : how to read it.
    size : cells along a side.
    here : where the marker is, for directions.
    """
    kind, a, b = token
    if kind in ("word", "compass"):
        return here[0] + a, here[1] + b
    if kind == "a1":
        row, col = (a, b - scheme.base) if scheme.kind == "letter-row" else (b - scheme.base, a)
    else:
        row, col = a - scheme.base, b - scheme.base
        if kind == "pair" and scheme.kind == "col-row":
            row, col = col, row
    if scheme.origin[0] == "b":
        row = size - 1 - row
    if scheme.origin[1] == "r":
        col = size - 1 - col
    return row, col


def write_cell(cell: Cell, scheme: Scheme, size: int) -> str:
    """A cell in the words of a scheme, e.g. '(2,3)', 'r2c3', 'C2'. The inverse of `to_cell`."""
    row, col = cell
    if scheme.origin[0] == "b":
        row = size - 1 - row
    if scheme.origin[1] == "r":
        col = size - 1 - col
    base = scheme.base
    if scheme.kind == "row-col":
        return f"({row + base},{col + base})"
    if scheme.kind == "col-row":
        return f"({col + base},{row + base})"
    if scheme.kind == "rXcY":
        return f"r{row + base}c{col + base}"
    letter, number = (row, col) if scheme.kind == "letter-row" else (col, row)
    return f"{chr(65 + letter)}{number + base}"


_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_COMPASS = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
_LETTERS = {"u": "up", "d": "down", "l": "left", "r": "right", "n": "north", "s": "south", "w": "west", "e": "east"}
_ARROWS = {"↑": "up", "↓": "down", "←": "left", "→": "right", "⬆": "up", "⬇": "down", "⬅": "left", "➡": "right"}
_TIMES = {"one": 1, "once": 1, "two": 2, "twice": 2, "three": 3, "thrice": 3, "four": 4, "five": 5}

_COUNT = r"one|once|two|twice|three|four|five|\d{1,2}"
_UNIT = r"(?:cells?|steps?|times?|squares?|spaces?|units?|positions?|moves?)"
# Words that look like directions and are none; matched against the text around such a word.
_NO_DIRECTION = re.compile(
    r"(?:(?:that|it|this|you|they|he|she)(?:['’]s|['’]re| is| are| were)|all|quite|exactly|sounds|is that|am i)"
    r"\s+right\b"
    r"|\bright(?:\s+(?:now|away|about|after|before|here|there|answer|direction|move|path|track|side|half)\b"
    r"|\s+(?:column|edge)\b|-?most\b|ly\b)|,\s*right\s*\?"
    r"|\b(?:top|bottom|upper|lower)[\s-]*(?:left|right)\b"
    r"|\bleft(?:\s+(?:over|to (?:do|go|right)|side|half|column|edge|with)\b|-?most\b)"
    r"|\b(?:is|are|what['’]s|nothing)\s+left\b"
    r"|\b(?:sum|set|line|end|match|follow|wrap|split|back|speed|look|pick|clear|mess|mix|give|open|bring|come|build|catch)"
    r"(?:s|ed|ing|ting)?\s+up\b|\bup\s*(?:to\s+(?:now|date|you|this|here|\d)|-?front|-to)|\bup/down|\bleft/right"
    r"|\b(?:narrow|break|write|wrote|note|slow|written|let)(?:s|ed|ing)?\s+(?:\w+\s+)?down\b"
    r"|\b(?:row|column)s?\s+down\b"
)
# All patterns below but the letters are matched against lower-case text. They begin with what is rare and
# leave the look to the left (no letter or digit there) to code: that is several times faster.
_ROW = r"r(?:ow)?\s*[#=:]?\s*(?P<r>\d{1,2})"
_COL = r"c(?:ol(?:umn)?)?\s*[#=:]?\s*(?P<c>\d{1,2})"
_SEP = r"\s*[,;/_-]?\s*(?:and\s+)?"
_RC = re.compile(rf"{_ROW}{_SEP}{_COL}(?:\s*[)\]])?(?![a-z0-9])")
_CR = re.compile(rf"{_COL}{_SEP}{_ROW}(?:\s*[)\]])?(?![a-z0-9])")
_XY = re.compile(r"x\s*[=:]\s*(?P<c>\d{1,2})\s*[,;]?\s*y\s*[=:]\s*(?P<r>\d{1,2})(?:\s*[)\]])?")
_PAIR = re.compile(r"[(\[{<]\s*(-?\d{1,2})\s*[,;/|]\s*(-?\d{1,2})\s*[)\]}>]")
_OPEN_PAIR = re.compile(r"(\d{1,2}),\s?(\d{1,2})(?![\d,])")
_OPEN_LEFT = re.compile(r"(?:\bto|\bat|\bfrom|→|:)\s$")
_A1 = re.compile(r"([A-R])(\d{1,2})(?![A-Za-z0-9]|:\s)")
_DIAGONAL = re.compile(r"(?:(?:north|south)[\s-]?(?:east|west)|(?:up|down)[\s-](?:left|right)|diagonal(?:ly)?)\b")
_DIAGONAL_SIGNS = ("north", "south", "diagonal", "up-", "down-", "up ", "down ")
_WORD = re.compile(
    r"(?P<word>up|down|left|right|north|south|east|west)(?:wards?)?\b"
    rf"(?:[ \t]*[x×*(][ \t]*(?P<after1>\d)\)?"
    rf"|[ \t]+(?:by[ \t]+)?(?P<after>{_COUNT})\b(?![.):,/]|[ \t]*→)(?:[ \t]+{_UNIT})?)?"
)
_BEFORE = re.compile(rf"\b({_COUNT})\s+(?:more\s+)?{_UNIT}\s+(?:to the\s+)?$")
_ARROW_RUN = re.compile(r"[↑↓←→⬆⬇⬅➡]\ufe0f?(?:[ \t,]*[↑↓←→⬆⬇⬅➡]\ufe0f?)+|[↑↓←⬆⬇⬅➡]")
_LETTER_RUN = re.compile(
    r"[UDLRNSEW](?:(?:[ \t]*(?:,|→|;|>)[ \t]*|[ \t]+)[UDLRNSEW]){2,}(?![A-Za-z0-9'’])|[UDLR]{4,}(?![A-Za-z0-9])"
)
_BARE = re.compile(r"\s*(?:\(\s*)?(-?\d{1,2})\s*[,;: ]\s*(-?\d{1,2})(?:\s*\))?\s*")
_LOWER_A1 = re.compile(r"\s*([a-rA-R])\s*(\d{1,2})\s*")
_NUMBER_LETTER = re.compile(r"\s*(\d{1,2})\s*([a-rA-R])\s*")
_LONG_ARROW = re.compile(r"[ \t]*(?:[-=]{1,3}>|[⟶➔➜⇒]|\\(?:to|rightarrow)\b)[ \t]*")
_ARROW_SIGNS = (">", "⟶", "➔", "➜", "⇒", "\\to", "\\right")
_NO_MOVE = Token("word", 1, 1)  # a diagonal, of whatever kind: never a legal step


class Found(NamedTuple):
    """A move found in a text: where, and the steps that it stands for ('right twice' is two)."""

    start: int
    end: int
    tokens: tuple[Token, ...]


def plain_arrows(text: str) -> str:
    """The text with '->', '=>' and the like written as ' → '."""
    return _LONG_ARROW.sub(" → ", text) if any(sign in text for sign in _ARROW_SIGNS) else text


def find_tokens(text: str) -> list[Found]:
    """Every move-like piece of a text in order (after `plain_arrows`)."""
    low = text.lower()
    if len(low) != len(text):  # a few letters grow when lowered; places must stay
        low = text
    out: list[Found] = []
    taken = bytearray(len(text))
    for start, end, tokens in _candidates(text, low):
        if taken.find(1, start, end) < 0:
            out.append(Found(start, end, tokens))
            taken[start:end] = b"\x01" * (end - start)
    out.sort()
    return out


def _candidates(text: str, low: str) -> Iterator[Found]:
    """What may be a move, the surest first: of two that overlap the first one counts."""
    for h in _PAIR.finditer(low):
        yield Found(h.start(), h.end(), (Token("pair", int(h[1]), int(h[2])),))
    for pattern in (_RC, _CR, _XY):
        yield from (_named(low, h) for h in pattern.finditer(low) if _alone(low, h))
    for h in _OPEN_PAIR.finditer(low):
        if _OPEN_LEFT.search(low, max(0, h.start() - 6), h.start()):
            yield Found(h.start(), h.end(), (Token("pair", int(h[1]), int(h[2])),))
    for h in _A1.finditer(text):
        if _alone(low, h):
            yield Found(h.start(), h.end(), (Token("a1", ord(h[1]) - 65, int(h[2])),))
    if any(sign in low for sign in _DIAGONAL_SIGNS):
        yield from (Found(h.start(), h.end(), (_NO_MOVE,)) for h in _DIAGONAL.finditer(low) if _alone(low, h))
    for h in _WORD.finditer(low):
        if _alone(low, h) and (found := _word(low, h)):
            yield found
    for pattern in (_ARROW_RUN, _LETTER_RUN):
        for h in pattern.finditer(text):
            if _alone(low, h):
                marks = [m for m in h[0] if m in _ARROWS or m in "UDLRNSEW"]
                yield Found(h.start(), h.end(), tuple(map(_direction, marks)))


def _alone(low: str, hit: re.Match[str]) -> bool:
    """No letter or digit right before the hit."""
    return hit.start() == 0 or not low[hit.start() - 1].isalnum()


def _named(low: str, hit: re.Match[str]) -> Found:
    start = hit.start()
    if hit[0][-1] in ")]":  # its opening bracket belongs to it
        start -= len(low[max(0, start - 2) : start]) - len(low[max(0, start - 2) : start].rstrip(" (["))
    return Found(start, hit.end(), (Token("rc", int(hit["r"]), int(hit["c"])),))


def _word(low: str, hit: re.Match[str]) -> Found | None:
    start, end = hit.span()
    left = max(0, start - 24)
    around = low[left : end + 16]
    for other in _NO_DIRECTION.finditer(around):
        if other.start() + left < hit.end("word") and other.end() + left > start:
            return None
    count = hit["after1"] or hit["after"] or "1"
    if before := _BEFORE.search(low, left, start):
        start, count = before.start(), before[1]
    times = _TIMES.get(count) or int(count)
    return Found(start, end, (_direction(hit["word"]),) * max(1, min(times, 18)))


def _direction(mark: str) -> Token:
    word = _ARROWS.get(mark) or _LETTERS.get(mark.lower()) or mark
    if word in _STEPS:
        return Token("word", *_STEPS[word])
    return Token("compass", *_COMPASS[word])


@lru_cache(maxsize=8192)
def read_move(text: str) -> tuple[Token, ...]:
    """The steps that one written move stands for, e.g. '(1,2)', 'r1c2', 'b3', 'up', 'E', 'right 2'.

    Of 'from (1,1) to (1,2)' both positions; where a position stands beside a direction ('right to (1,2)'),
    the position alone. An unreadable move gives an empty tuple.
    """
    text = text.strip().strip("\"'`*.")
    if text.lower() in _LETTERS or text in _ARROWS or text.rstrip("\ufe0f") in _ARROWS:
        return (_direction(text.rstrip("\ufe0f")),)
    if hit := _LOWER_A1.fullmatch(text):
        return (Token("a1", ord(hit[1].upper()) - 65, int(hit[2])),)
    if hit := _NUMBER_LETTER.fullmatch(text):
        return (Token("a1", ord(hit[2].upper()) - 65, int(hit[1])),)
    if hit := _BARE.fullmatch(text):
        return (Token("pair", int(hit[1]), int(hit[2])),)
    text = plain_arrows(text)
    bare = [_BARE.fullmatch(part) for part in text.split("→")]
    if len(bare) > 1 and all(bare):
        return tuple(Token("pair", int(hit[1]), int(hit[2])) for hit in bare)
    tokens = [t for found in find_tokens(text) for t in found.tokens]
    places = tuple(t for t in tokens if t.kind in ("pair", "rc", "a1"))
    return places or tuple(tokens)


def write_token(token: Token) -> str:
    """A token in plain notation, readable by `read_move`."""
    kind, a, b = token
    if kind == "pair":
        return f"({a},{b})"
    if kind == "rc":
        return f"r{a}c{b}"
    if kind == "a1":
        return f"{chr(65 + a)}{b}"
    for words in (_STEPS, _COMPASS):
        for word, step in words.items():
            if step == (a, b) and (words is _COMPASS) == (kind == "compass"):
                return word
    return "diagonal"


def positions(moves: Iterable[str], scheme: Scheme, size: int, start: Cell) -> list[Cell]:
    """The cells that raw moves lead to under a scheme, legal or not, from `start` on."""
    out, here = [], start
    for move in moves:
        for token in read_move(move):
            here = to_cell(token, scheme, size, here)
            out.append(here)
    return out
