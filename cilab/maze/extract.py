"""From what agents wrote to the moves that they meant, by rules alone.

May import `cilab.maze.grid`, `cilab.maze.schemes` and `cilab.maze.texts` (the completion phrase). Calls no model
and never looks at the maze: whether a move is legal is not its business.

The rules read plain English. How a dialogue is read: a proposal waits until the other agent accepts it (in
words, by repeating it, or by going on from where it leads), refuses it or proposes something else. Only
accepted moves count, each once. A whole route that both accept is a plan, not a move; it counts for the steps
that were not taken one by one only when the agents then finish with the completion phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from cilab.maze.grid import MAP_LINE
from cilab.maze.schemes import Found, Token, find_tokens, plain_arrows, write_token
from cilab.maze.texts import COMPLETION


@dataclass(frozen=True, slots=True)
class Extraction:
    """The moves that a text or a dialogue comes down to.

    Attributes
    ----------
    moves : the agreed moves in order, in the agents' own notation (readable by `schemes.read_move`).
    split_up : the agents gave up the common marker and each moved on its own.
    own_moves : where they split up, the moves of agent 1 and of agent 2.
    from_route : at least one move was taken from an agreed route, not from an agreement on that move.
    completed : the completion phrase was written.
    objections : proposals that the other agent refused.
    planned_ahead : most moves that were laid out at once (a list of positions begins where the marker stands).
    first_agreed : number of the message (from 0) in which the first move was agreed; None for none.
    """

    moves: tuple[str, ...] = ()
    split_up: bool = False
    own_moves: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    from_route: bool = False
    completed: bool = False
    objections: int = 0
    planned_ahead: int = 0
    first_agreed: int | None = None


# --------------------------------------------------------------------------- words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# In a clause, positions stand as P and directions as D with their number: see `_mask`.
_P, _D, _END = "\ue000", "\ue001", "\ue002"
_PLACE = rf"{_P}\d+{_END}"
_WAY = rf"{_D}\d+{_END}"
# Between words: spaces and the marks of Markdown; bounded, so that no text takes long to read.
_QUOTE = r"[\s`'\"*]{0,5}"
_ANY = rf"[{_P}{_D}]\d+{_END}"

_MOVE = (
    r"\b(?:mov(?:e|ing)|go(?:ing)?|step(?:ping)?|proceed(?:ing)?|head(?:ing)?|advanc(?:e|ing)|continu(?:e|ing)|"
    r"shift(?:ing)?|walk(?:ing)?|travel(?:l?ing)?|tak(?:e|ing)|try(?:ing)?|backtrack(?:ing)?|return(?:ing)?)\b"
)
_PROPOSE = (
    r"\b(?:propos(?:e|ed|al|ing)|suggest(?:ed|ion|ing)?|recommend(?:ed|ing|ation)?|how about|what about|"
    r"(?:the |our |my |your )?next(?! to\b)(?: (?:move|step|one|cell|position|target))?|shall we|should we|"
    r"(?:my|our|your|first|second|third|final|last) (?:move|step)|(?:move|step) #?\d+|"
    r"let['’]?s(?! (?:check|verify|confirm|look|compare|share|consider|see|discuss|avoid|make sure|say|call|use|"
    r"define))|"
    r"let us|i['’]d like to|we should|we need to)\b|(?:^|[\s*])(?:next|move|step)\s*\**:"
)
_STRONG = re.compile(_PROPOSE)
# Text between a cue and a position that shows that the position is no target.
_NO_TARGET = re.compile(
    r"\b(?:what|whether|contains?|contents?|symbol|coordinates?|as the|is the (?:start|goal)|from|wall at|instead of|"
    r"not|hidden|unknown|avoid|marker is|for you|look|see|tell|because|since|until|before|away|than|beside|next to)\b"
)
_CUE_PLACE = re.compile(rf"(?:{_MOVE}|{_PROPOSE})(?P<between>[^{_P}?]{{0,70}}?)(?P<target>{_PLACE})")
_CUE_WAY = re.compile(rf"(?:{_MOVE}|{_PROPOSE})(?P<between>[^{_D}{_P}?]{{0,45}}?)(?P<target>{_WAY})")
_CUE_FROM_WAY = re.compile(rf"{_MOVE} from {_PLACE}(?P<between>[^{_D}{_P}?]{{0,30}}?)(?P<target>{_WAY})")
_FROM_TO = re.compile(rf"({_PLACE}){_QUOTE}(?:→|\bto\b|\binto\b|\bonto\b){_QUOTE}(?:(?:cell|position)\s+)?({_PLACE})")
_CHAIN = re.compile(
    rf"{_PLACE}(?:{_QUOTE}(?:→|,|;|\bto\b|\bthen\b|\band\b)?{_QUOTE}(?:then|to|and)?{_QUOTE}{_PLACE}){{2,}}"
    rf"|{_WAY}(?:{_QUOTE}(?:→|,|;|\bthen\b|\band\b)?{_QUOTE}(?:then|and|again)?{_QUOTE}{_WAY})+"
)
_ONLY = re.compile(
    rf"\W*(?:(?:move|step|go|ok(?:ay)?|then|and|now|yes|agreed|finally|first|so|next|great|sure)\W+)*({_ANY})"
    r"(?:,? (?:it is|please|next|again|now|then|first|once more))*\W*"
)
_ONE_PLACE = re.compile(_PLACE)
_FROM = re.compile(rf"from{_QUOTE}({_PLACE})")
_FROM_LEFT = re.compile(r"from\W*$")
_PAST = re.compile(r"\b(?:moved|went|gone|stepped|executed|completed|made|took)\b[^.]{0,40}$")
_NUMBER = re.compile(rf"[{_P}{_D}](\d+){_END}")
_LISTED = re.compile(rf"\s*(?:[-*•]\s+|\(?\d{{1,2}}[.):]\s*|(?:step|move)\s*#?\d+\s*[:.)-]?\s*)+[^{_P}{_D}]*{_ANY}")
_ALTERNATIVES = re.compile(
    rf"{_ANY}[^{_P}{_D}]{{0,25}}\bor\b[^{_P}{_D}]{{0,25}}{_ANY}|\b(?:options?|either|alternatives?)\b"
)
_ROUTE = re.compile(
    r"\b(?:route|path is|path would|full path|whole path|shortest path|path:|plan|sequence|itinerary|overall)\b"
)
_CELLS = _words("cells squares tiles paths hidden unknown visible known walls")
_NOT_NOW = re.compile(
    r"\b(?:can['’]?t|cannot|can not|don['’]?t|do not|doesn['’]?t|not|shouldn['’]?t|won['’]?t|unable to|never|avoid|"
    r"after|once|when|having|before|by|would have|could have|until|already|instead of|rather than|without|"
    r"we(?:['’]ve| have)|what if|if (?:we|i|you))\s+(?:\w+\s+){0,3}$"
)
_LATER = re.compile(r"^(?:\W|and|so)*(?:then|after that|afterwards|later|from there|subsequently|eventually)\b")
_MAYBE = _words("could can might may possible possibly maybe perhaps if")

_AGREE = re.compile(
    r"\b(?:i (?:fully |completely |also |do )*(?:agree|concur|accept|approve|consent)|agree[ds]?|"
    r"agreement (?:reached|confirmed)|"
    r"confirm(?:ed|ing)?|approved?|accepted|sounds (?:good|great|right|perfect|fine)|works for me|"
    r"let['’]?s (?:do (?:it|that|this)|go(?=\W*$))|"
    r"go ahead|affirmative|i concur|looks (?:good|right|fine|great)|makes sense|absolutely|definitely|of course|"
    r"exactly|"
    r"i['’]m (?:fine|happy|ok|okay) with|with you on|good (?:move|idea|plan|call|choice)|great (?:move|idea|"
    r"plan|choice)|"
    r"you have my (?:agreement|ok|consent)|happy to|fine (?:by|with) me|that works|ready to move|seconded|lgtm|"
    r"move (?:executed|accepted))\b"
)
_AGREE_FIRST = re.compile(
    r"^\W*(?:yes|yep|yeah|yup|sure|ok|okay|great|perfect|correct|right|good|excellent|fine|alright|all right|"
    r"done|roger|aye|"
    r"wonderful|deal|understood|certainly|indeed|👍|✓|✅|☑)(?![a-z])"
)
_TERMS = re.compile(r" (?:on|that we|to use|with using)\b")  # agreement on words, not on a move
_TAG = re.compile(r"\W*\w+\W*")  # 'Right?'
_ASKS = re.compile(
    r"\b(?:please|can you|could you|would you|let me know|if you|if we|do you|does that|are you|once (?:you|we)|"
    r"need|must|wait(?:ing)?|"
    r"await(?:ing)?|before|both (?:of us )?(?:must|have to|need)|ask|request|seek|until|when you|for your|"
    r"to confirm|want|"
    r"your (?:agreement|confirmation)|tell me|should (?:both )?(?:agree|confirm)|have to|unless|shall we)\b"
)
_OBJECT = re.compile(
    r"^\W*(?:no|nope|nay|wait|hold on|stop|hmm,? no|not yet|sorry)\s*(?:[,.;:!–—-]|$|\bi\b|\bthat\b|\bwe\b|\bthis\b)"
    r"|\b(?:disagree|object(?:ion)?(?! to)|(?:don['’]?t|do not|cannot|can['’]?t|can not|won['’]?t|"
    r"not) (?:fully |quite )?(?:agree|accept|confirm|"
    r"approve|go (?:there|that way)|do that|move there)|(?:that|this|it|which|the move|that move|that cell|this cell)"
    r"(?:['’]s| is| would be| shows| appears| looks)?(?: (?:also|actually|definitely|clearly|really|to be|as|"
    r"on my (?:map|copy)|in my (?:map|copy))){0,3} (?:a )?(?:wall|blocked|illegal|invalid|"
    r"impossible|not (?:allowed|possible|"
    r"valid|legal|adjacent|a (?:valid|legal)))|not (?:a )?(?:valid|legal) move|hold on|instead|i (?:would|"
    r"['’]d) rather|not possible|"
    r"(?:is|that['’]s|seems|looks) (?:wrong|incorrect|a mistake)|against (?:that|this)|reject|refuse|veto|"
    r"i must correct|"
    r"but (?:first|let['’]?s first)|first let['’]?s)\b"
)
_NO_OBJECTION = re.compile(
    r"\b(?:no (?:objections?|problem|worries|disagreement|wall)|not? object|isn['’]t a wall|not a wall|"
    r"wait(?:ing)? for)\b"
)
_BLOCKED = re.compile(
    r"\b(?:wall|blocked|#|not (?:a )?path|illegal|invalid|not (?:adjacent|possible|allowed|reachable)|"
    r"off the (?:grid|map))\b|#"
)
_HERE = re.compile(
    rf"\b(?:we|i|marker|position|now|currently|us|our)\b[^{_P}?]{{0,30}}\b(?:at|is|in|on|reached|arrived at|"
    rf"moved to|to)\b[^{_P}?]{{0,12}}({_PLACE})"
    rf"|\b(?:reached|arrived at|moved to|from|position:?|executed:?)\W{{1,4}}({_PLACE})"
)
_AGAIN = _words("again once more another next then further continue keep")
_CLAUSE = re.compile(r"(?<=[.!?;])(?<!\d\.)[\s*_]+|\n+|(?<=[a-z\ue002]),? (?=but |however|although )")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\ue000-\ue002]")

_SPLIT = re.compile(
    r"\bsplit(?:ting)? up\b|\bseparately\b|\bindependently\b|\bgo our (?:own|separate) ways?\b|"
    r"\beach (?:of us )?(?:should |will |can |could )?(?:explore|move|take|follow|try|go)s? (?:a |our |its |"
    r"his |their )?(?:different|own|separate)\b|"
    r"\b(?:my|your) (?:own )?(?:marker|token|piece|avatar)\b|\byou (?:explore|take|try|go|"
    r"move)\b[^.]{0,60}\b(?:while|and) i(?:['’]ll| will| explore| take| try| go| move)\b|"
    r"\bi(?:['’]ll| will)? (?:explore|take|try|go|move)\b[^.]{0,60}\b(?:while|and) you\b"
)
_NO_SPLIT = re.compile(r"\b(?:not|don['’]t|shouldn['’]t|cannot|can['’]t|never|no need to)\b[^.]{0,20}$")
_MINE = re.compile(
    rf"\b(?:i(?:['’]ll| will|['’]m| am| have|['’]ve)?(?: now)? (?:mov(?:e|ed|ing)|go(?:ing)?|went|step(?:ped|"
    rf"ping)?|advanc(?:e|ed|ing)|proceed(?:ed|ing)?)|"
    rf"my (?:next )?move)\b[^{_P}{_D}?]{{0,40}}(?:{_PLACE}[^{_P}{_D}?]{{0,10}}(?:to|"
    rf"→)[^{_P}{_D}?]{{0,6}})?(?P<target>{_ANY})"
)
_MY_PLACE = re.compile(
    rf"\b(?:i['’]m|i am|my (?:current |new )?position(?: is)?|my marker is)\b(?: now|"
    rf" currently)?[^{_P}?]{{0,15}}(?P<place>{_PLACE})"
)


# Most clauses match few of the patterns. A match of a pattern always holds one of its words here, and looking
# up words is far cheaper than searching: `_Clause.says` looks first.
_TRIGGERS = {
    pattern: _words(words)
    for pattern, words in (
        (
            _STRONG,
            "propose proposed proposal proposing suggest suggested suggestion suggesting recommend recommended "
            "recommending recommendation about next shall should let lets like need move step",
        ),
        (
            _AGREE,
            "agree agreed agrees concur accept approve consent agreement confirm confirmed confirming approved "
            "accepted sounds works let lets go affirmative looks makes absolutely definitely course exactly fine "
            "happy ok okay with good great have ready seconded lgtm executed",
        ),
        (
            _OBJECT,
            "no nope nay wait hold stop hmm not sorry disagree object objection don dont cannot can cant won wont wall "
            "blocked illegal invalid impossible instead rather wrong incorrect mistake against reject refuse veto must "
            "first",
        ),
        (_ROUTE, "route path plan sequence itinerary overall"),
        (_ALTERNATIVES, "or option options either alternative alternatives"),
        (_HERE, "we i marker position now currently us our reached arrived moved from executed"),
        (_MINE, "i my"),
        (_MY_PLACE, "i my"),
        (
            _SPLIT,
            "split splitting separately independently separate different own marker token piece avatar explore take "
            "try go move",
        ),
    )
}
_CUE_WORDS = _TRIGGERS[_STRONG] | _words(
    "moving go going stepping proceed proceeding head heading advance advancing continue continuing shift shifting "
    "walk walking travel traveling travelling take taking try trying backtrack backtracking return returning"
)
_LETTERS = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause in lower case with positions and directions masked."""

    text: str
    words: frozenset[str]
    first: bool
    question: bool

    @classmethod
    def of(cls, text: str, first: bool) -> _Clause:
        return cls(text, frozenset(_LETTERS.findall(text)), first, text.rstrip().endswith("?"))

    def says(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match of a pattern that has triggers."""
        return None if self.words.isdisjoint(_TRIGGERS[pattern]) else pattern.search(self.text)

    def has(self, words: frozenset[str]) -> bool:
        """Whether one of the words stands in the clause."""
        return not self.words.isdisjoint(words)

    @property
    def blocks(self) -> bool:
        """Calls something a wall or out of reach."""
        return ("#" in self.text or self.has(_BLOCKED_WORDS)) and _BLOCKED.search(self.text) is not None


_BLOCKED_WORDS = _words("wall blocked not illegal invalid off")


# --------------------------------------------------------------------------- one message


@dataclass(frozen=True, slots=True)
class Proposal:
    """A move put forward: its steps, where from (if said), how surely it is one (0, 1, 2)."""

    steps: tuple[Token, ...]
    start: Token | None = None
    rank: int = 1
    again: bool = False
    later: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What one message does.

    `verdict` is 1 (accepts), -1 (refuses), 0 (neither), as said in words; `blocked` are positions that it calls
    a wall or unreachable, `here` positions where the marker is said to be, `mentioned` every position.
    """

    proposals: tuple[Proposal, ...] = ()
    routes: tuple[tuple[Token, ...], ...] = ()
    verdict: int = 0
    blocked: frozenset[Token] = frozenset()
    here: tuple[Token, ...] = ()
    mentioned: frozenset[Token] = frozenset()
    mine: tuple[Token, ...] = ()
    my_places: tuple[Token, ...] = ()
    split_up: bool = False
    completed: bool = False


@dataclass(slots=True)
class _Notes:
    proposals: list[Proposal] = field(default_factory=list)
    routes: list[tuple[Token, ...]] = field(default_factory=list)
    verdict: int = 0
    blocked: set[Token] = field(default_factory=set)
    here: list[Token] = field(default_factory=list)
    mine: list[Token] = field(default_factory=list)
    my_places: list[Token] = field(default_factory=list)
    listed: list[Token] = field(default_factory=list)
    listed_lines: int = 0
    split_up: bool = False


@lru_cache(maxsize=256)
def read_message(message: str) -> Reading:
    """What a message proposes, accepts, refuses and states."""
    completed = COMPLETION in message
    clean = _words_only(message)
    found = find_tokens(clean)
    low = _mask(clean, found)
    notes = _Notes()
    about_route = False
    for number, text in enumerate(c for c in _CLAUSE.split(low) if c and c.strip()):
        about_route = _read_clause(_Clause.of(text, number == 0), found, notes, about_route)
    _close_list(notes)
    mentioned = frozenset(t for f in found for t in f.tokens if _is_place(t))
    return Reading(
        tuple(notes.proposals),
        tuple(notes.routes),
        notes.verdict,
        frozenset(notes.blocked),
        tuple(notes.here),
        mentioned,
        tuple(notes.mine),
        tuple(notes.my_places),
        notes.split_up,
        completed,
    )


def _is_place(token: Token | None) -> bool:
    return token is not None and token.kind in ("pair", "rc", "a1")


def _words_only(text: str) -> str:
    """The text without drawn maps and invisible characters, arrows written alike."""
    if "\n" in text:
        text = MAP_LINE.sub("", text)
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return plain_arrows(text)


def _mask(text: str, found: Sequence[Found]) -> str:
    parts, at = [], 0
    for k, (start, end, tokens) in enumerate(found):
        sign = _P if _is_place(tokens[0]) else _D
        parts += [text[at:start].lower(), sign, str(k), _END]
        at = end
    parts.append(text[at:].lower())
    return "".join(parts)


def _read_clause(clause: _Clause, found: Sequence[Found], notes: _Notes, about_route: bool) -> bool:
    """Reads one clause into `notes`; returns whether what follows may be the list of a route."""
    _read_verdict(clause, notes)
    parting = clause.says(_SPLIT)
    if parting and not _NO_SPLIT.search(_left(clause.text, parting.start())):
        notes.split_up = True
    routed = clause.says(_ROUTE) is not None
    if _P not in clause.text and _D not in clause.text:
        if not about_route:
            _close_list(notes)
        return routed or (about_route and clause.text.rstrip().endswith(":"))
    if _P in clause.text:
        _read_places(clause, found, notes)
    if clause.says(_MINE):
        notes.mine += [t for hit in _MINE.finditer(clause.text) for t in _token(hit["target"], found)]
    if not clause.question and _LISTED.match(clause.text):
        notes.listed_lines += 1
        notes.listed += _targets(clause.text, found)
        return about_route
    _close_list(notes)
    _read_moves(clause, found, notes, routed or about_route)
    return routed


def _read_verdict(clause: _Clause, notes: _Notes) -> None:
    if clause.says(_OBJECT) and not _NO_OBJECTION.search(clause.text):
        notes.verdict = -1
        return
    if clause.first and notes.verdict == 0 and _AGREE_FIRST.match(clause.text):
        # 'Yes, what is at (2,2)?' still says yes; 'Right?' does not.
        if not (clause.question and _TAG.fullmatch(clause.text)):
            notes.verdict = 1
        return
    if clause.question:
        return
    said = clause.says(_AGREE)
    if said and not _ASKS.search(clause.text[: said.end()]) and not _TERMS.match(clause.text[said.end() :]):
        notes.verdict = 1


def _read_places(clause: _Clause, found: Sequence[Found], notes: _Notes) -> None:
    if not clause.question and clause.blocks:
        notes.blocked.update(_token(m[0], found)[0] for m in _ONE_PLACE.finditer(clause.text))
    if clause.says(_HERE):
        notes.here += [_token(m[1] or m[2], found)[0] for m in _HERE.finditer(clause.text)]
    if clause.says(_MY_PLACE):
        notes.my_places += [_token(m["place"], found)[0] for m in _MY_PLACE.finditer(clause.text)]


def _read_moves(clause: _Clause, found: Sequence[Found], notes: _Notes, routed: bool) -> None:
    chain = _CHAIN.search(clause.text) if clause.text.count(_END) > 1 else None
    if chain:
        steps = tuple(t for m in _NUMBER.finditer(chain[0]) for t in found[int(m[1])].tokens)
        plain = _FROM_TO.match(chain[0]) and len(steps) <= 3 and not routed and "→" not in chain[0]
        if not plain:
            _read_chain(clause, chain, _without_repeats(steps), notes, routed)
            return
    proposal = _proposal(clause, found)
    if proposal is not None and (not routed or clause.says(_STRONG)):
        notes.proposals.append(proposal)


def _read_chain(clause: _Clause, chain: re.Match[str], steps: tuple[Token, ...], notes: _Notes, routed: bool) -> None:
    """Several positions or directions in a row: a route, whose first step may be a proposal."""
    if len(steps) < 2 or not _connected(steps) or clause.says(_ALTERNATIVES) or clause.blocks:
        return
    if "→" not in chain[0] and clause.has(_CELLS):  # a list of cells of some kind
        return
    notes.routes.append(steps)
    if not routed and len(steps) <= 3 and clause.has(_CUE_WORDS):
        skip = 1 if _FROM_LEFT.search(_left(clause.text, chain.start())) else 0
        notes.proposals.append(Proposal(steps[skip : skip + 1], steps[0] if skip else None))


def _proposal(clause: _Clause, found: Sequence[Found]) -> Proposal | None:
    text = clause.text
    strong = clause.says(_STRONG)
    again, later = clause.has(_AGAIN), _LATER.match(text) is not None
    only = _ONLY.fullmatch(text)
    if only:
        return Proposal(_token(only[1], found), None, 2, again, later)
    rank = 2 if strong else 0 if clause.has(_MAYBE) else 1
    pair = _FROM_TO.search(text) if text.count(_P) > 1 else None
    if pair:
        before = _left(text, pair.start())
        if _NOT_NOW.search(before.removesuffix("from ")) or _PAST.search(before):
            return None
        return Proposal(_token(pair[2], found), _token(pair[1], found)[0], rank, again, later)
    if not clause.has(_CUE_WORDS) or clause.says(_ALTERNATIVES):
        return None
    for pattern in (_CUE_PLACE, _CUE_FROM_WAY, _CUE_WAY):
        for hit in pattern.finditer(text):
            if _NO_TARGET.search(hit["between"]) or _NOT_NOW.search(_left(text, hit.start())):
                continue
            start = _FROM.search(text)
            return Proposal(
                _token(hit["target"], found), _token(start[1], found)[0] if start else None, rank, again, later
            )
    return None


def _left(clause: str, at: int) -> str:
    """What stands right before a place in a clause; enough for the patterns that look back."""
    return clause[max(0, at - 100) : at]


def _token(mark: str, found: Sequence[Found]) -> tuple[Token, ...]:
    return found[int(_NUMBER.search(mark)[1])].tokens  # type: ignore[index]


def _targets(clause: str, found: Sequence[Found]) -> tuple[Token, ...]:
    """The positions of a listed step, or its directions where it names no position."""
    tokens = [t for m in _NUMBER.finditer(clause) for t in found[int(m[1])].tokens]
    return tuple(t for t in tokens if _is_place(t)) or tuple(tokens)


def _connected(tokens: Sequence[Token]) -> bool:
    """Whether most positions lie beside the one before: a route, not a list of cells."""
    pairs = [(a, b) for a, b in pairwise(tokens) if _is_place(a) and _is_place(b)]
    beside = sum(abs(a.a - b.a) + abs(a.b - b.b) <= 1 for a, b in pairs)
    return beside >= 0.7 * len(pairs)


def _without_repeats(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """'(1,1) to (1,2), (1,2) to (1,3)' names (1,2) twice; a direction said twice is two steps."""
    return tuple(t for k, t in enumerate(tokens) if k == 0 or t != tokens[k - 1] or not _is_place(t))


def _close_list(notes: _Notes) -> None:
    """A list of three or more steps is a route; a shorter one counts as proposals."""
    if notes.listed_lines >= 3:
        route = _without_repeats(notes.listed)
        if _connected(route):
            notes.routes.append(route)
    elif notes.listed_lines and notes.listed:
        notes.proposals.append(Proposal((notes.listed[min(1, len(notes.listed) - 1)],), None, 0))
    notes.listed, notes.listed_lines = [], 0


# --------------------------------------------------------------------------- a dialogue


@dataclass(slots=True)
class _Talk:
    moves: list[Token] = field(default_factory=list)
    pending: Proposal | None = None
    pending_seat: str = ""
    refused: Proposal | None = None
    refused_seat: str = ""
    route: tuple[Token, ...] = ()
    route_seat: str = ""
    agreed_route: tuple[Token, ...] = ()
    since_route: int = 0
    objections: int = 0
    planned: int = 0
    first_agreed: int | None = None


def agent_messages(messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(seat, content) of what the agents '1' and '2' said, in order; everything else is left out."""
    return [
        (str(m["seat"]), m.get("content") or "")
        for m in messages
        if str(m.get("seat")) in ("1", "2") and m.get("kind", "message") == "message"
    ]


def objections_in(text: str) -> tuple[str, ...]:
    """The clauses of a message that refuse something, each with the clause after it, in lower case."""
    clean = _words_only(text)
    clauses = [c for c in _CLAUSE.split(clean.lower()) if c and c.strip()]
    return tuple(
        " ".join(clauses[k : k + 2])
        for k, clause in enumerate(clauses)
        if _OBJECT.search(clause) and not _NO_OBJECTION.search(clause)
    )


def extract_pair(messages: Iterable[Mapping[str, Any]]) -> Extraction:
    """The moves that two agents agreed on.

    Parameters
    ----------
    messages : dicts with `seat` ('1' or '2') and `content`, in order; other seats are skipped.
    """
    talk, said = _Talk(), agent_messages(messages)
    readings = [(seat, read_message(content)) for seat, content in said]
    for number, (seat, reading) in enumerate(readings):
        before = len(talk.moves)
        _answer(talk, seat, reading)
        accepted = len(talk.moves) > before
        if accepted and talk.first_agreed is None:
            talk.first_agreed = number
        _put_forward(talk, seat, reading, accepted)
    completed = any(r.completed for _, r in readings)
    rest = _rest_of_route(talk) if completed else ()
    split, own = _split_up(readings)
    return Extraction(
        tuple(map(write_token, (*talk.moves, *rest))),
        split,
        own,
        bool(rest),
        completed,
        talk.objections,
        talk.planned,
        talk.first_agreed if talk.moves else (len(said) - 1 if rest else None),
    )


def _answer(talk: _Talk, seat: str, reading: Reading) -> None:
    """What a message does to the other agent's open proposal and route."""
    if talk.route and talk.route_seat != seat:
        if reading.verdict > 0 or talk.route in reading.routes:
            talk.agreed_route, talk.since_route = talk.route, 0
            talk.route = ()
        elif reading.verdict < 0 or reading.routes:
            talk.route = ()
    pending = talk.pending
    if pending is None or talk.pending_seat == seat:
        return
    verdict = _verdict(pending, reading)
    if verdict > 0:
        talk.moves += pending.steps
        talk.since_route += len(pending.steps)
        talk.pending = talk.refused = None
    elif verdict < 0:
        talk.objections += 1
        talk.refused, talk.refused_seat = pending, talk.pending_seat
        talk.pending = None


def _verdict(pending: Proposal, reading: Reading) -> int:
    target = pending.steps[-1]
    if target in reading.blocked and reading.verdict <= 0:
        return -1
    if reading.verdict < 0:
        return -1
    place = _is_place(target)
    if reading.verdict > 0:
        # 'Yes. Let's go to (2,1)' after a proposal of (1,2): another move from the same place is no yes.
        return 1
    if any(p.steps == pending.steps and not (p.again and not place) for p in reading.proposals):
        return 1
    if place and (target in reading.here or any(p.start == target for p in reading.proposals)):
        return 1
    if any(p.later for p in reading.proposals):
        return 1
    return 0


def _put_forward(talk: _Talk, seat: str, reading: Reading, accepted: bool) -> None:
    """What a message proposes itself, once its answer to the other agent is taken in."""
    for route in reading.routes:
        talk.planned = max(talk.planned, len(route) - _is_place(route[0]))
    if reading.routes:
        talk.route, talk.route_seat = reading.routes[-1], seat
    last = talk.moves[-1] if talk.moves else None
    fresh = [p for p in reading.proposals if not _restates(p, last, reading, accepted)]
    if fresh:
        best = max(p.rank for p in fresh)
        talk.pending, talk.pending_seat = next(p for p in fresh if p.rank == best), seat
        return
    refused = talk.refused
    if refused and talk.refused_seat == seat and refused.steps[-1] in reading.mentioned and reading.verdict <= 0:
        talk.pending, talk.pending_seat, talk.refused = refused, seat, None


def _restates(proposal: Proposal, last: Token | None, reading: Reading, accepted: bool) -> bool:
    """Whether a proposal only says again what has been agreed."""
    if last is None or proposal.steps[-1] != last:
        return False
    if _is_place(last):
        return True
    # The same direction again is a new move when the message says so, or when it answers nothing.
    return not proposal.again and (accepted or (reading.verdict > 0 and proposal.rank < 2))


def _rest_of_route(talk: _Talk) -> tuple[Token, ...]:
    """An agreed route that was not walked move by move, from where the marker is."""
    if talk.since_route:  # they went on move by move: what was not agreed then was not done
        return ()
    route, last = talk.agreed_route, talk.moves[-1] if talk.moves else None
    return route[route.index(last) + 1 :] if last in route and _is_place(last) else route


def _split_up(readings: Sequence[tuple[str, Reading]]) -> tuple[bool, tuple[tuple[str, ...], tuple[str, ...]]]:
    own: dict[str, list[Token]] = {"1": [], "2": []}
    places: dict[str, set[Token]] = {"1": set(), "2": set()}
    for seat, reading in readings:
        own[seat] += reading.mine
        places[seat] |= set(reading.my_places)
    said = any(r.split_up for _, r in readings) and any(own.values())
    apart = all(len(places[s]) >= 2 for s in "12") and not places["1"] & places["2"]
    if not (said or apart):
        return False, ((), ())
    return True, (tuple(map(write_token, own["1"])), tuple(map(write_token, own["2"])))


# --------------------------------------------------------------------------- an answer

_FILLER = re.compile(
    r"(?:[\s\W\d_]|\b(?:and|then|to|from|go|goes|going|move|moves|moving|step|steps|stepping|the|a|start|goal|"
    r"next|finally|at|"
    r"cell|cells|position|row|column|reach|reaching|reached|arrive|arriving|arrives|one|once|again|now|into|in|"
    r"on|first|second|"
    r"last|end|is|of|path|open|which|continue|continuing|head|proceed|square|space|you|we|i|starting|begin|"
    r"beginning|ending|"
    r"this|there|free|by|s|coordinates?|route|destination|it)\b)*",
    re.IGNORECASE,
)


# 'Start (3,6), goal (6,2). Route: (3,6) ...': what was named before the heading is no part of the route.
_HEADING = re.compile(r"\b(?:route|path|moves|solution|answer|steps|sequence)\b[^:\n]{0,30}:\W*$", re.IGNORECASE)


def extract_solo(answer: str) -> Extraction:
    """The route that an agent alone gives: the last list of three or more moves in its answer.

    Where no such list stands, the last shorter one.
    """
    text = _words_only(answer)
    groups: list[list[Found]] = []
    for item in find_tokens(text):
        gap = text[groups[-1][-1].end : item.start] if groups else None
        joined = gap is not None and len(gap) <= 90 and "\n\n\n" not in gap and not _HEADING.search(gap)
        if joined and _FILLER.fullmatch(gap):
            groups[-1].append(item)
        else:
            groups.append([item])
    routes = [_one_notation(group) for group in groups]
    long = [r for r in routes if len(r) >= 3]
    chosen = long[-1] if long else (routes[-1] if routes else ())
    return Extraction(tuple(map(write_token, chosen)), completed=COMPLETION in answer, planned_ahead=len(chosen))


def _one_notation(group: Sequence[Found]) -> tuple[Token, ...]:
    tokens = [t for item in group for t in item.tokens]
    places = [t for t in tokens if _is_place(t)]
    ways = [t for t in tokens if not _is_place(t)]
    return tuple(places) if len(places) >= 0.6 * len(ways) else tuple(ways)
