"""Plain English for simulated maze agents: `hear` reads a message, `Voice` writes one.

May import `cilab.maze.grid` only. Knows no maze, no profile and no plan: it turns words into what was
said and back. What was said keeps the speaker's own numbers (`Ref`); which cell they mean depends on a
`Scheme`, and two agents may well assume different ones. `hear` takes any text, also of a real model, and
never raises.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cilab.maze.grid import Cell, Rows, parse_maps, render

STYLES = ("row_col", "col_row", "r_c", "a1", "directions", "compass")
WORD_STYLES = ("directions", "compass")

_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_WORDS = dict(_STEPS) | {
    "north": (-1, 0),
    "south": (1, 0),
    "west": (0, -1),
    "east": (0, 1),
    "above": (-1, 0),
    "below": (1, 0),
}
_NAMES = {
    "directions": {v: k for k, v in _STEPS.items()},
    "compass": {(-1, 0): "north", (1, 0): "south", (0, -1): "west", (0, 1): "east"},
}
# What a message may grow to before the rest is left unread (a parroting model can be endless).
_LONGEST = 20_000
_MOST_REFS = 400


class Scheme(NamedTuple):
    """How an agent names cells: style (one of STYLES), first number (0 or 1), whether rows count from the top."""

    style: str
    base: int = 1
    top: bool = True

    @property
    def in_words(self) -> bool:
        """True where cells have no names and moves are words such as 'left'."""
        return self.style in WORD_STYLES


class Ref(NamedTuple):
    """A cell as a speaker named it.

    kind is `xy` for a bare pair of numbers, `rc` for a row and a column by name, `a1` for a letter
    (column, from 0) and a row number, `by` for a direction (a, b = rows down, columns right).
    """

    kind: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Said:
    """What a message says, in the speaker's own terms.

    Attributes
    ----------
    convention : the way of naming cells that it lays down in words, or None.
    maps : maps drawn in it.
    start, goal, position : where it says they are, or None.
    plan : cells of a whole route that it lays out.
    move : (from or None, to) of the move that it proposes, or None.
    claims : (cell, symbol) for every cell that it describes.
    questions : cells that it asks about.
    refs : every cell that it names, in order, for guessing the numbering.
    agrees, objects : it accepts, or turns down, what was proposed.
    asks_map, asks_agreement : it asks for the other copy, or whether the other agrees.
    splits : it suggests to go separate ways.
    """

    convention: Scheme | None = None
    maps: tuple[Rows, ...] = ()
    start: Ref | None = None
    goal: Ref | None = None
    position: Ref | None = None
    plan: tuple[Ref, ...] = ()
    move: tuple[Ref | None, Ref] | None = None
    claims: tuple[tuple[Ref, str], ...] = ()
    questions: tuple[Ref, ...] = ()
    refs: tuple[Ref, ...] = ()
    agrees: bool = False
    objects: bool = False
    asks_map: bool = False
    asks_agreement: bool = False
    splits: bool = False

    @property
    def empty(self) -> bool:
        """True where nothing in it helps to go on."""
        return not (
            self.convention
            or self.maps
            or self.start
            or self.position
            or self.plan
            or self.move
            or self.claims
            or self.questions
            or self.agrees
            or self.objects
            or self.asks_map
            or self.asks_agreement
            or self.splits
        )


def locate(ref: Ref, scheme: Scheme, size: int, here: Cell) -> Cell:
    """The (row, column) that a reference means under a scheme; may lie off the grid."""
    if ref.kind == "by":
        return here[0] + ref.a, here[1] + ref.b
    if ref.kind == "a1":
        r, c = ref.b - 1, ref.a
    elif ref.kind == "xy" and scheme.style == "col_row":
        r, c = ref.b - scheme.base, ref.a - scheme.base
    else:
        r, c = ref.a - scheme.base, ref.b - scheme.base
    return (r if scheme.top else size - 1 - r), c


# --------------------------------------------------------------------------- hearing

_REF = re.compile(
    r"[(\[]\s*(-?\d{1,3})\s*,\s*(-?\d{1,3})\s*[)\]]"
    r"|\brow\s*(\d{1,2})\s*,?\s*(?:and\s+)?col(?:umn)?\s*(\d{1,2})\b"
    r"|\br(\d{1,2})c(\d{1,2})\b"
    r"|\b([A-R])(\d{1,2})\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])[*_\"']*\s+|\n+")
_DRAWN = re.compile(r"^[^A-Za-z\n]*(?:row[ \t]*\d+\W+)?(?:[@*#?-][ \t,|]+){2,}[@*#?-]\W*$", re.MULTILINE | re.I)

_PAIR_ORDER = re.compile(r"\(?\b(row|col(?:umn)?|x|y)(?:\s*number|\s*index)?\s*,\s*(row|col(?:umn)?|x|y)\b")
_BASED = re.compile(r"\b(0|1|zero|one)[- ](?:based|indexed)|(?:from|starting (?:at|with))\s+(0|1|zero|one)\b")
_CORNER = re.compile(r"\b(top|upper|bottom|lower)[- ]left\b")
_LETTERS = re.compile(r"\bletters?\b.*\bcolumns?\b|\bcolumns?\b.*\bletters?\b")
_BY_WORDS = re.compile(
    r"\bdirections?\b.*\b(?:compass|look on the map|seen on the map|first row|north at the top|north is up)\b"
    r"|\b(?:use|using|say)\b.*\b(?:up.*down.*left.*right|north.*south.*east.*west)\b"
)

_ARROW = r"(?:->|→|–>|=>|⇒)"
_FROM_TO = re.compile(rf"<(\d+)>\s*(?:@|\*)?\s*(?:{_ARROW}|to)\s*(?:the\s+)?(?:goal\s+|cell\s+)?(?:at\s+)?<(\d+)>")
_TO = re.compile(r"\b(?:to|into|onto|towards?)\s+(?:the\s+)?(?:cell\s+|goal\s+|square\s+)?(?:at\s+)?<(\d+)>")
_VERB = re.compile(
    r"\b(propose|suggest|let's|lets|let us|shall we|should we|next (?:move|step)|how about|what about moving"
    r"|i(?:'ll| will) (?:move|go|step)|we (?:can|could|should|will) (?:\w+ )?(?:move|go|step)"
    r"|i(?: would|'d) (?:move|go|step|like to (?:move|go|step))|mov(?:e|ing)|going|step(?:ping)?|try)\b"
)
_WAY = re.compile(
    r"\b(?:move|moving|go|going|step|stepping|head|heading|try)\s+(?:(?:one|a|1)\s+(?:cell|step|square)\s+)?"
    r"(?:back\s+)?(?:to\s+the\s+)?(up|down|left|right|north|south|east|west)\b"
)
_NOT_MOVE = re.compile(r"\b(?:can't|cannot|can not|don't|do not|should not|shouldn't|not)\s+(?:move|go|step|mov|going)")
_AGREE = re.compile(
    r"\b(agreed|i agree|yes|ok|okay|sounds good|works for me|confirmed|that works|fine by me|good idea"
    r"|i accept|accepted|perfect|happy with)\b"
)
_NOT_AGREE = re.compile(r"\b(if you agree|when you agree|once you agree|before we agree|please agree|unless)\b")
_OBJECT = re.compile(
    r"\b(disagree|(?:can't|cannot|can not|do not|don't) agree|i object|not possible|(?:can't|cannot) (?:move|go)"
    r"|not legal|illegal|not next to|is blocked|i(?: would|'d) rather|hold on|not so fast|that is off)\b|^no\b"
)
_POSITION = re.compile(
    r"\b(?:we are|we're|we stand|us|marker is|position(?: is)?|now)\s*:?\s*(?:now\s+|currently\s+|both\s+|is\s+)*"
    r"(?:at|on|in)?\s*(?:cell\s+)?<(\d+)>"
)
_START = re.compile(
    r"\bstart\b(?:ing (?:point|position|cell))?(?: cell)?\s*\(?@?\)?\s*(?:is|=|:|lies)?\s*(?:at|in)?\s*<(\d+)>"
)
_GOAL = re.compile(r"\bgoal\b(?: cell)?\s*\(?\*?\)?\s*(?:is|=|:|lies)?\s*(?:at|in)?\s*<(\d+)>")
_MARK = {"wall": "#", "blocked": "#", "path": "-", "free": "-", "open": "-", "clear": "-", "passable": "-"}
_MARK |= {"hidden": "?", "unknown": "?"}
_MARKS = "|".join(_MARK)
_IS = re.compile(rf"<(\d+)>\s*(?:is|are|shows?|as|=|:)\s*(?:an?\s+)?(?:also\s+)?({_MARKS})s?\b")
_AT = re.compile(rf"\b({_MARKS})s?\b(?:\s+(?:cells?|squares?))?\s*(?:at|on|in|:)\s*((?:<\d+>(?:\s*,\s*|\s+and\s+)?)+)")
_SIDE = re.compile(
    rf"\b(?:cell|square)\s+(?:to\s+the\s+|to\s+our\s+)?(up|down|left|right|north|south|east|west|above|below)\b"
    rf"(?:\s+of)?(?:\s+us)?(?:,)?\s*(?:is\s+(?:an?\s+)?({_MARKS})\b)?"
)
_ASKS_MAP = re.compile(
    r"\b(?:share|send|show|paste|give|tell)\b[^.!?]*\b(?:your|whole)\b[^.!?]*\b(?:copy|map|maze|grid)\b"
    r"|what does your (?:copy|map|maze|grid) look like"
)
_ASKS_AGREEMENT = re.compile(
    r"\b(?:do you agree|agree\?|is that ok|okay with you|does that work|are we agreed|can you confirm)"
)
_SPLITS = re.compile(r"\bsplit up\b|\bseparately\b|\byou explore\b|\beach (?:of us )?explore")


@lru_cache(maxsize=8192)
def hear(text: str) -> Said:
    """What a message says. Takes any text; what it cannot make out is left out."""
    text = text[:_LONGEST]
    maps = tuple(parse_maps(text)) if text.count("\n") > 1 else ()
    if maps:
        text = _DRAWN.sub("", text)
    found: dict = {}
    for sentence in _SENTENCE.split(text):
        if sentence.strip():
            _hear_sentence(sentence.strip(), found)
    lists = {k: tuple(found.pop(k, ())) for k in ("claims", "questions", "refs")}
    return Said(maps=maps, **lists, **found)


def _hear_sentence(sentence: str, found: dict) -> None:
    refs: list[Ref] = []

    def mark(hit: re.Match) -> str:
        if len(refs) >= _MOST_REFS:
            return " "
        refs.append(_ref(hit))
        return f"<{len(refs) - 1}>"

    text = _REF.sub(mark, sentence).lower().replace("’", "'")
    convention = _convention(text, refs)
    if convention is not None:
        found["convention"] = convention
        return
    question = sentence.rstrip("*_\"' ").endswith("?")
    found.setdefault("refs", []).extend(refs)
    if len(refs) > 2 and len(re.findall(_ARROW, text)) > 1:
        found["plan"] = tuple(refs)
        return
    _hear_stance(text, question, found)
    if _hear_move(text, refs, found):
        return
    for name, pattern in (("start", _START), ("goal", _GOAL), ("position", _POSITION)):
        if (hit := pattern.search(text)) and not question:
            found[name] = refs[int(hit[1])]
    _hear_cells(text, refs, question, found)


def _ref(hit: re.Match) -> Ref:
    if hit[1] is not None:
        return Ref("xy", int(hit[1]), int(hit[2]))
    if hit[3] is not None:
        return Ref("rc", int(hit[3]), int(hit[4]))
    if hit[5] is not None:
        return Ref("rc", int(hit[5]), int(hit[6]))
    return Ref("a1", ord(hit[7].upper()) - ord("A"), int(hit[8]))


def _convention(text: str, refs: Sequence[Ref]) -> Scheme | None:
    corner = _CORNER.search(text)
    order = _PAIR_ORDER.search(text)
    kinds = {ref.kind for ref in refs}
    if order:
        style = "row_col" if order[1] in ("row", "y") else "col_row"
    elif corner and "rc" in kinds:
        style = "r_c"
    elif "a1" in kinds and (corner or _LETTERS.search(text)):
        return Scheme("a1", 1, corner is None or corner[1] in ("top", "upper"))
    elif _BY_WORDS.search(text):
        return Scheme("compass" if "compass" in text or "north" in text else "directions")
    else:
        return None
    base = _base(text, refs, corner is not None)
    if base is None and not re.search(r"\b(use|using|write|name|notation|format|coordinates)\b", text):
        return None
    return Scheme(style, 1 if base is None else base, corner is None or corner[1] in ("top", "upper"))


def _base(text: str, refs: Sequence[Ref], corner: bool) -> int | None:
    if hit := _BASED.search(text):
        return 0 if (hit[1] or hit[2]) in ("0", "zero") else 1
    if corner and refs and refs[0].a == refs[0].b and refs[0].a in (0, 1):
        return refs[0].a
    return None


def _hear_stance(text: str, question: bool, found: dict) -> None:
    if _ASKS_AGREEMENT.search(text):
        found["asks_agreement"] = True
    if _ASKS_MAP.search(text):
        found["asks_map"] = True
    if _SPLITS.search(text):
        found["splits"] = True
    if question:
        return
    if _OBJECT.search(text):
        found["objects"] = True
    elif _AGREE.search(text) and not _NOT_AGREE.search(text):
        found["agrees"] = True


def _hear_move(text: str, refs: Sequence[Ref], found: dict) -> bool:
    if not _VERB.search(text) or _NOT_MOVE.search(text):
        return False
    if hit := _FROM_TO.search(text):
        found["move"] = (refs[int(hit[1])], refs[int(hit[2])])
    elif hit := _TO.search(text):
        found["move"] = (None, refs[int(hit[1])])
    elif hit := _WAY.search(text):
        found["move"] = (None, Ref("by", *_WORDS[hit[1]]))
    else:
        return False
    return True


def _hear_cells(text: str, refs: Sequence[Ref], question: bool, found: dict) -> None:
    if question:
        asked = list(refs) or [Ref("by", *_WORDS[hit[1]]) for hit in _SIDE.finditer(text)]
        if asked and not _ASKS_AGREEMENT.search(text):
            found.setdefault("questions", []).extend(asked)
        return
    claims = found.setdefault("claims", [])
    claims.extend((refs[int(hit[1])], _MARK[hit[2]]) for hit in _IS.finditer(text))
    for hit in _AT.finditer(text):
        claims.extend((refs[int(i)], _MARK[hit[1]]) for i in re.findall(r"<(\d+)>", hit[2]))
    claims.extend((Ref("by", *_WORDS[hit[1]]), _MARK[hit[2]]) for hit in _SIDE.finditer(text) if hit[2])


# --------------------------------------------------------------------------- speaking

_SEEN = {"#": "a wall", "-": "a path", "?": "hidden", "@": "the start", "*": "the goal"}


class Voice:
    """Says things about a maze of `size` in one scheme, in varied words.

    Parameters
    ----------
    rng : picks the wording.
    scheme : how cells are named.
    size : cells along a side.
    wordy : 0 (a few words) to 1 (whole sentences, explained).
    """

    def __init__(self, rng: random.Random, scheme: Scheme, size: int, wordy: float):
        self.rng, self.scheme, self.size, self.wordy = rng, scheme, size, wordy

    def _pick(self, *texts: str) -> str:
        return texts[int(self.rng.random() * len(texts))]

    def _chatty(self) -> bool:
        return self.rng.random() < self.wordy

    def cell(self, cell: Cell) -> str:
        """A cell's name in numbers or letters (a scheme in words has none and falls back on a pair)."""
        style, base, top = self.scheme
        r, c = (cell[0] if top else self.size - 1 - cell[0]), cell[1]
        if style == "a1":
            return f"{chr(ord('A') + c)}{r + 1}"
        if style == "r_c":
            return f"r{r + base}c{c + base}"
        if style == "col_row":
            r, c = c, r
        return f"({r + base},{c + base})"

    def way(self, here: Cell, there: Cell) -> str:
        """The word for a step, e.g. 'left' or 'west'."""
        names = _NAMES.get(self.scheme.style, _NAMES["directions"])
        dr, dc = there[0] - here[0], there[1] - here[1]
        unit = ((dr > 0) - (dr < 0), 0) if abs(dr) >= abs(dc) else (0, (dc > 0) - (dc < 0))
        return names.get(unit, names[(0, 1)])

    def _spot(self, here: Cell, there: Cell) -> str:
        if not self.scheme.in_words:
            return self.cell(there)
        way = self.way(here, there)
        return "the cell " + {"up": "above us", "down": "below us"}.get(way, f"to the {way} of us")

    def greeting(self) -> str:
        return self._pick("Hello!", "Hi there!", "Hello, good to work with you.", "Hi, let us solve this together.")

    def convention(self) -> str:
        """Lays down how cells are named."""
        style, base, top = self.scheme
        corner = "top-left" if top else "bottom-left"
        first = self.cell((0 if top else self.size - 1, 0))
        if style == "r_c":
            return self._pick(
                f"I name cells by row and column, so {first} is the {corner} corner.",
                f"To avoid confusion, {first} is the {corner} cell: first the row, then the column.",
            )
        if style == "a1":
            return self._pick(
                f"I name cells with a letter for the column and a number for the row: {first} is the {corner} cell.",
                f"Columns get letters, rows get numbers, and {first} is the {corner} corner.",
            )
        if style == "directions":
            return "I name directions as they look on the map, with up being towards the first row."
        if style == "compass":
            return "I name directions like on a compass, with north at the top of the map."
        pair = "(row, column)" if style == "row_col" else "(column, row)"
        return self._pick(
            f"To be sure we mean the same cells, let's use {pair} coordinates counted from {base}, "
            f"with {first} in the {corner} corner.",
            f"I write cells as {pair}, starting at {base}, so {first} is the {corner} cell.",
            f"Let's use {pair} notation with {base}-based numbers, where {first} is the {corner} corner.",
        )

    def ends(self, start: Cell, goal: Cell) -> str:
        """Says where start and goal are."""
        if self.scheme.in_words:
            return f"The start @ is in the {self._area(start)} part and the goal * is in the {self._area(goal)} part."
        s, g = self.cell(start), self.cell(goal)
        return self._pick(
            f"The start @ is at {s} and the goal * is at {g}.",
            f"On my copy the start @ is at {s} and the goal * is at {g}.",
            f"I see the start @ at {s} and the goal * at {g}.",
        )

    def _area(self, cell: Cell) -> str:
        half = self.size / 2
        return f"{'upper' if cell[0] < half else 'lower'} {'left' if cell[1] < half else 'right'}"

    def symbols(self) -> str:
        return self._pick(
            "The symbol # is a wall, - is a path and ? is hidden from me.",
            "As a reminder, # means wall, - means path, and ? means that I cannot see it.",
        )

    def map(self, rows: Rows) -> str:
        """One's own copy, drawn."""
        lead = self._pick("Here is my copy of the maze:", "This is my copy, row by row:", "My copy looks like this:")
        return f"\n{lead}\n\n{render(rows)}\n\n"

    def ask_map(self) -> str:
        return self._pick(
            "Please share your copy in the same way, so that we can merge them.",
            "Could you share your copy of the maze, row by row?",
            "Please send me your whole copy so that we can fill in the hidden cells.",
        )

    def no_map(self) -> str:
        return self._pick("I will just tell you what is around us.", "Let us look at the cells around us first.")

    def merged(self) -> str:
        return self._pick(
            "I merged both copies into one complete map.",
            "I have combined your copy with mine, and the hidden cells are filled in.",
        )

    def plan(self, cells: Sequence[Cell]) -> str:
        """Lays out a whole route, to be walked move by move."""
        if self.scheme.in_words:
            steps = ", ".join(self.way(a, b) for a, b in pairwise(cells))
            return f"The plan for the whole route would be: {steps}."
        steps = " → ".join(self.cell(c) for c in cells)
        return self._pick(
            f"The plan for the whole route would be: {steps}.",
            f"On the merged map the shortest route is {steps}.",
        )

    def near(self, here: Cell, seen: Sequence[tuple[Cell, str]]) -> str:
        """Describes cells beside the marker."""
        parts = [f"{self._spot(here, cell)} is {_SEEN[mark]}" for cell, mark in seen]
        return f"On my copy {', '.join(parts[:-1]) + ' and ' if len(parts) > 1 else ''}{parts[-1]}."

    def propose(self, here: Cell, there: Cell, again: bool = False) -> str:
        """Proposes one move; `again`: it goes the same way as the last one, which words must make plain."""
        if self.scheme.in_words:
            way = self.way(here, there)
            if again:
                return self._pick(f"Let's move {way} again.", f"I propose that we go {way} again.")
            return self._pick(
                f"I propose that we move {way}.", f"Let's move {way}.", f"I suggest we move one cell {way}."
            )
        a, b = self.cell(here), self.cell(there)
        return self._pick(
            f"I propose that we move from {a} to {b}.",
            f"Next, let's move from {a} to {b}.",
            f"I suggest we move from {a} to {b}.",
        )

    def wants_agreement(self) -> str:
        return (
            self._pick("Do you agree?", "Does that work for you?", "Is that okay with you?") if self._chatty() else ""
        )

    def because(self, here: Cell, there: Cell, mark: str, told: bool) -> str:
        """Why the cell ahead can be entered."""
        if not self._chatty() or mark not in ("-", "*"):
            return ""
        whose = "your" if told else "my"
        return f"On {whose} copy {self._spot(here, there)} is {_SEEN[mark]}."

    def agree(self, here: Cell, there: Cell) -> str:
        """Accepts a proposed move and says where it leads."""
        yes = self._pick("Agreed.", "Yes, I agree.", "Agreed, that works.", "Okay, agreed.")
        if self.scheme.in_words or self.rng.random() > 0.5 + self.wordy / 2:
            return yes
        return f"{yes} We are now at {self.cell(there)}."

    def go_back(self) -> str:
        return self._pick("This looks like a dead end.", "We seem to be stuck here.")

    def wall(self, here: Cell, there: Cell) -> str:
        """Turns a move down because of a wall."""
        spot = self._spot(here, there)
        return self._pick(
            f"I cannot agree: on my copy {spot} is a wall.",
            f"I disagree, because {spot} is a wall on my copy.",
            f"Hold on, on my copy {spot} is a wall.",
        )

    def told_wall(self, here: Cell, there: Cell) -> str:
        spot = self._spot(here, there)
        return f"I cannot agree: from what you told me, {spot} is a wall."

    def jump(self, here: Cell, there: Cell) -> str:
        """Turns a move down because the cells do not touch."""
        if self.scheme.in_words:
            return "I cannot agree: that is off the grid."
        return self._pick(
            f"I cannot agree: {self.cell(there)} is not next to {self.cell(here)}, where we are.",
            f"I disagree, because {self.cell(there)} is not next to our position {self.cell(here)}.",
        )

    def off(self) -> str:
        return "I cannot agree: that is off the grid."

    def detour(self) -> str:
        return self._pick(
            "I would rather not: this leads away from the goal.",
            "I disagree with the direction: it is a detour.",
        )

    def other_way(self) -> str:
        """Turns a possible move down for a route that one likes better."""
        return self._pick(
            "I would rather take another way, which is at least as short.",
            "I disagree with this route: I have another one in mind.",
        )

    def insist(self, here: Cell, there: Cell) -> str:
        """Stands by one's own reading of a cell."""
        spot = self._spot(here, there)
        return self._pick(
            f"Are you sure? On my copy {spot} is a path.",
            f"I checked my copy again, and {spot} is a path there.",
        )

    def answer(self, here: Cell, cell: Cell, mark: str) -> str:
        """Tells what a cell is on one's own copy."""
        spot = self._spot(here, cell)
        return self._pick(f"On my copy {spot} is {_SEEN[mark]}.", f"I checked: {spot} is {_SEEN[mark]} on my copy.")

    def ask(self, here: Cell, there: Cell) -> str:
        """Asks what a cell is on the other copy."""
        spot = self._spot(here, there)
        return self._pick(
            f"I cannot see it: is {spot} free on your copy?",
            f"It is hidden from me: what is {spot} on your copy?",
        )

    def stand(self, here: Cell) -> str:
        """Says where the marker is, as one sees it."""
        if self.scheme.in_words:
            return self._pick("We have moved as agreed.", "That move is done.")
        return self._pick(f"So we are now at {self.cell(here)}.", f"Our position is {self.cell(here)}.")

    def confirm(self, here: Cell, stated: bool) -> str:
        """Asks for agreement on what is agreed already; `stated`: the position has just been said."""
        ask = self._pick("Can you confirm that?", "Are we agreed on this?", "Just to be sure, do you agree?")
        return ask if stated else f"{self.stand(here)} {ask}"

    def your_turn(self) -> str:
        """Leaves the next proposal to the other."""
        return self._pick("What do you suggest next?", "Your turn to pick the next one.", "Where to next?")

    def mix_up(self) -> str:
        return self._pick(
            "I think that we name cells differently or have lost track.",
            "We may be out of step, so let me say again how I read the map.",
        )

    def unclear(self) -> str:
        return self._pick(
            "I could not follow your last message.",
            "Sorry, I did not understand that.",
        )

    def consent(self) -> str:
        return self._pick("As I hear no objection, I go on.", "I take that as no objection.")

    def split(self) -> str:
        return self._pick(
            "I suggest that we split up: you explore the lower half and I explore the upper half.",
            "To be quicker, we could split up and look for a way separately.",
        )

    def alone(self, here: Cell, there: Cell) -> str:
        """Reports a step taken without asking."""
        if self.scheme.in_words:
            return f"On my side I will move {self.way(here, there)}."
        return f"On my side I will move from {self.cell(here)} to {self.cell(there)}."

    def done(self) -> str:
        return self._pick("We have reached the goal. ACTI!", "That is the goal, so we are done. ACTI!")

    def think_done(self) -> str:
        return self._pick("I think we have reached the goal. ACTI!", "That should bring us to the goal. ACTI!")

    def route(self, cells: Sequence[Cell]) -> str:
        """The whole route of a solo answer."""
        if self.scheme.in_words:
            return "My complete route: " + ", ".join(self.way(a, b) for a, b in pairwise(cells))
        return "My complete route: " + " → ".join(self.cell(c) for c in cells)
