"""What agents did to understand each other: grounding, planning, disagreement (paper, appendix D.2).

May import the other core modules of `cilab.maze` and `cilab.collect.model`. An annotation that cannot be read is
null, never false.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cilab.collect.model import ChatModel, Sampling
from cilab.maze import texts
from cilab.maze.extract import agent_messages, extract_pair, objections_in
from cilab.maze.grade import ask_twice, last_object, transcript_text
from cilab.maze.grid import HIDDEN, Maze, parse_maps
from cilab.maze.schemes import find_tokens, plain_arrows

#: Features of each agent (1 the starter, 2 the follower): 0 or 1.
AGENT_FEATURES = ("grounded_start_goal", "shared_map", "merged_map")
#: Features of the pair (agent 0): reconciliation is 0, 1 or 2, the others are 0 or 1.
PAIR_FEATURES = ("reconciliation", "strategy_global", "has_factual_disagreement", "has_nonfactual_disagreement")
SCORE = "grounding_score"
RECONCILIATION = ("never", "gradual", "upfront")

Row = dict[str, Any]


def annotate_rules(maze: Maze | None, messages: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Features of a dialogue by rules.

    Parameters
    ----------
    maze : where given, a drawn map counts as merged only if it fills in hidden cells.
    messages : rows with `seat` ('1', '2'; others are skipped) and `content`, in order.

    Returns
    -------
    rows with `agent` (1, 2, or 0 for the pair), `feature`, `value` (a number) and `text` (why, or '').
    """
    said = agent_messages(messages)
    found = extract_pair(messages)
    maps = [(k, seat, parse_maps(content)) for k, (seat, content) in enumerate(said)]
    rows: list[Row] = []
    shown: dict[str, int | None] = {}
    merged: dict[str, tuple[int, str] | None] = {}
    for seat in ("1", "2"):
        shown[seat] = next((k for k, who, drawn in maps if who == seat and drawn), None)
        merged[seat] = _merges(maze, said, maps, seat)
        grounds = _grounds(said, seat)
        rows += [
            _row(int(seat), "grounded_start_goal", grounds is not None, grounds or ""),
            _row(int(seat), "shared_map", shown[seat] is not None, _at(shown[seat])),
            _row(int(seat), "merged_map", merged[seat] is not None, merged[seat][1] if merged[seat] else ""),
        ]
    timing = _timing(said, shown, merged, found.first_agreed)
    factual, other = _disagreements(said)
    rows += [
        _row(0, "reconciliation", timing, RECONCILIATION[timing]),
        _row(0, "strategy_global", found.planned_ahead > 3, f"{found.planned_ahead} moves laid out at once"),
        _row(0, "has_factual_disagreement", bool(factual), factual),
        _row(0, "has_nonfactual_disagreement", bool(other), other),
    ]
    return _with_score(rows)


async def annotate_with_model(model: ChatModel, messages: Sequence[Mapping[str, Any]], sampling: Sampling) -> list[Row]:
    """Features of a dialogue as a model sees them; rows as from `annotate_rules`.

    An answer that cannot be read is asked for once more. A feature that is missing or no truth value then
    has the value None, with the answer in `text`.
    """
    prompt = texts.annotator_prompt(transcript_text(messages))
    found, text = await ask_twice(model, prompt, parse_annotator_answer, sampling)
    return found if found is not None else _unread(text)


def parse_annotator_answer(text: str) -> list[Row] | None:
    """Rows from an annotator's answer: its last JSON object with `reconciliation`. None when there is none."""
    found = last_object(text, "reconciliation")
    if found is None:
        return None
    rows: list[Row] = []
    for agent in (1, 2):
        own = found.get(f"agent_{agent}", found.get(f"agent {agent}"))
        own = {str(k).lower(): v for k, v in own.items()} if isinstance(own, dict) else {}
        rows += [_read(agent, feature, own.get(feature), 1) for feature in AGENT_FEATURES]
    rows += [_read(0, f, found.get(f), 2 if f == "reconciliation" else 1) for f in PAIR_FEATURES]
    return _with_score(rows)


def grounding_score(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """X = (R + sum of the agents' grounding features) / 8, between 0 and 1 (paper, equation 1).

    R is the reconciliation (2 upfront, 1 gradual, 0 never). None when one of the seven values is missing.
    """
    values = {(int(r["agent"]), r["feature"]): r["value"] for r in rows}
    wanted = [(0, "reconciliation"), *((agent, f) for agent in (1, 2) for f in AGENT_FEATURES)]
    if any(values.get(key) is None for key in wanted):
        return None
    return sum(values[key] for key in wanted) / 8


def _with_score(rows: list[Row]) -> list[Row]:
    score = grounding_score(rows)
    return [*rows, {"agent": 0, "feature": SCORE, "value": score, "text": ""}]


def _row(agent: int, feature: str, value: float, text: str) -> Row:
    return {"agent": agent, "feature": feature, "value": float(value), "text": text}


def _at(index: int | None) -> str:
    return "" if index is None else f"message {index}"


def _unread(text: str) -> list[Row]:
    wanted = [(agent, f) for agent in (1, 2) for f in AGENT_FEATURES] + [(0, f) for f in (*PAIR_FEATURES, SCORE)]
    return [{"agent": agent, "feature": f, "value": None, "text": f"unparsed: {text[:200]}"} for agent, f in wanted]


_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


def _read(agent: int, feature: str, value: Any, most: int) -> Row:
    word = str(value).strip().lower()
    number: float | None = None
    if most == 2:
        words = {"0": 0, "1": 1, "2": 2, "0.0": 0, "1.0": 1, "2.0": 2} | {w: k for k, w in enumerate(RECONCILIATION)}
        number = None if isinstance(value, bool) else words.get(word)
    elif word in _TRUE or word in _FALSE:
        number = float(word in _TRUE)
    return {"agent": agent, "feature": feature, "value": None if number is None else float(number), "text": word[:200]}


# --------------------------------------------------------------------------- the rules

_AREA = r"(?:upper|lower|top|bottom|left|right|corner|middle|cent(?:re|er))"
_PLACE = rf"(?:\ue000|\b{_AREA}\b)"
_START_AT = re.compile(rf"(?:\bstart(?:ing)?\b|@)[^.!?\n\ue000]{{0,40}}?{_PLACE}", re.IGNORECASE)
_GOAL_AT = re.compile(
    rf"(?:\b(?:goal|target|finish|destination|end)\b|(?<!\*)\*(?!\*))[^.!?\n\ue000]{{0,40}}?{_PLACE}", re.IGNORECASE
)
_SAME_ENDS = re.compile(
    r"\b(?:confirm(?:ed)?|agree(?:d)?|same|match(?:es)?|correct|also|"
    r"yes)\b[^.!?\n]{0,60}\bstart\b[^.!?\n]{0,30}\bgoal\b"
    r"|\bstart\b[^.!?\n]{0,20}\bgoal\b[^.!?\n]{0,60}\b(?:confirm(?:ed)?|agree(?:d)?|same|match(?:es)?|correct)\b",
    re.IGNORECASE,
)
_MERGED = re.compile(
    r"\bi(?:['’]ve| have)? (?:now )?(?:merged|combined|filled in|put together|overlaid)\b|\b(?:merging|"
    r"combining|overlaying) (?:our|both|the two|"
    r"your|my)\b|\b(?:merged|combined|complete|completed|full|reconstructed|joint) (?:map|maze|grid|"
    r"view)\b(?! of yours)|"
    r"\b(?:map|maze|grid)s? (?:combined|merged)\b",
    re.IGNORECASE,
)
_ONLY_WISH = re.compile(
    r"\b(?:please|could you|can you|can we|we can|we could|share|send|so that|let['’]?s|let us|should|would|"
    r"once|after|when|want|need|to get)\b"
    r"|\?\s*$",
    re.IGNORECASE,
)
_CELL_TALK = re.compile(
    r"\bon (?:my|your) (?:copy|map|maze|grid|side|view)\b|\b(?:my|your) (?:copy|map|maze|grid|view) (?:shows?|"
    r"says?|has)\b"
    r"|\bhidden (?:from me|for me|on my|in my)\b|\bwhat(?:['’]s| is| do you (?:see|have)) (?:at|in|on|to)\b",
    re.IGNORECASE,
)
_FACT = re.compile(
    r"\b(?:wall|blocked|path|hidden|free|open|clear|adjacent|next to|off the (?:grid|map)|outside|illegal|"
    r"invalid|not (?:allowed|possible)|"
    r"impossible|jump|misread|position is|we are (?:at|actually|still)|still at|incorrect(?:ly)?|wrong|mistake)\b|#"
)
_WAY = re.compile(
    r"\b(?:detour|away from|direction|instead|rather|longer|shorter|dead[- ]end|another (?:way|route)|other way|"
    r"better|prefer|backtrack|"
    r"strategy|plan|route)\b"
)
_NAMING = re.compile(
    r"\b(?:name cells differently|lost track|out of step|different (?:coordinate|notation|convention|numbering|"
    r"system)s?|"
    r"(?:coordinates?|notation|convention|numbering|indexing) (?:is|are|differs?|mismatch|confusion|mix-?up)|"
    r"mixed up|misunderst\w+|"
    r"swapped|\(col(?:umn)?, ?row\) (?:instead|rather|not)|\(row, ?col(?:umn)?\) (?:instead|rather|not)|(?:0|1|"
    r"zero|one)-based (?:instead|rather|not))\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def _grounds(said: Sequence[tuple[str, str]], seat: str) -> str | None:
    start = goal = False
    for k, (who, content) in enumerate(said):
        if who != seat:
            continue
        plain = _masked(content)
        start, goal = start or bool(_START_AT.search(plain)), goal or bool(_GOAL_AT.search(plain))
        if start and goal:
            return f"message {k}: says where start and goal are"
        if k and _SAME_ENDS.search(content):
            return f"message {k}: confirms start and goal"
    return None


def _masked(text: str) -> str:
    parts, at = [], 0
    text = plain_arrows(text)
    for start, end, tokens in find_tokens(text):
        if tokens[0].kind in ("pair", "rc", "a1"):
            parts += [text[at:start], "\ue000"]
            at = end
    return "".join([*parts, text[at:]])


def _merges(
    maze: Maze | None, said: Sequence[tuple[str, str]], maps: Sequence[tuple[int, str, list]], seat: str
) -> tuple[int, str] | None:
    """First message in which an agent puts both copies together, and how."""
    for k, who, drawn in maps:
        if who != seat:
            continue
        if any(_fills_in(maze, rows) for rows in drawn):
            return k, f"message {k}: draws a map with hidden cells filled in"
        for sentence in _SENTENCE.split(said[k][1]):
            hit = _MERGED.search(sentence)
            if hit and not _ONLY_WISH.search(sentence):
                return k, f"message {k}: {hit[0].lower()}"
    return None


def _fills_in(maze: Maze | None, rows: tuple[str, ...]) -> bool:
    """A drawn map shows clearly more than one copy, which hides about half of the cells."""
    cells = "".join(rows)
    if maze is not None and (len(rows) != maze.size or any(len(row) != maze.size for row in rows)):
        return False
    return len(cells) >= 9 and cells.count(HIDDEN) < 0.25 * len(cells)


def _timing(
    said: Sequence[tuple[str, str]],
    shown: Mapping[str, int | None],
    merged: Mapping[str, tuple[int, str] | None],
    first_agreed: int | None,
) -> int:
    limit = len(said) if first_agreed is None else first_agreed
    both = [k for k in shown.values() if k is not None]
    if len(both) == 2 and max(both) <= limit:
        return 2
    if any(m is not None and m[0] <= limit for m in merged.values()):
        return 2
    if both or any(m is not None for m in merged.values()) or any(_CELL_TALK.search(c) for _, c in said):
        return 1
    return 0


def _disagreements(said: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """A reason for a factual and one for another disagreement; '' where there is none."""
    factual = other = ""
    for k, (_, content) in enumerate(said):
        naming = _NAMING.search(content.lower())
        if k and naming:
            other = other or f"message {k}: {naming[0]}"
        for clause in objections_in(content) if k else ():
            first = _FACT.search(clause)
            if first:
                factual = factual or f"message {k}: {first[0]}"
            way = _WAY.search(clause)
            if way and not first:
                other = other or f"message {k}: {way[0]}"
    return factual, other
