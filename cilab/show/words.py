"""What a page says, whatever it is written in: verdict, facts, and text made safe to print.

May import the words of `cilab.core.vocabulary` and of the benchmarks' terms. Pure functions of a run's rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cilab.core.vocabulary import SEAT_KINDS
from cilab.teamwork.terms import EVIDENCE

if TYPE_CHECKING:
    from cilab.show.rows import Rows

#: What the seats are called on a page, in the order of the legend.
KINDS = {kind: kind.replace("_", " ") for kind in SEAT_KINDS}
#: The evidence of a check in words.
EVIDENCE_WORDS = EVIDENCE.meaning
#: Longer texts are folded: characters, and lines.
FOLD_CHARS, FOLD_LINES = 3000, 60
#: Task messages are folded earlier: they are long and the same in many runs.
TASK_FOLD_CHARS = 600
TASK_KINDS = ("user", "environment", "grader")
#: Columns of the plain text.
TEXT_WIDTH = 100
#: A longer run of characters without a blank may be cut.
_WORD_CHARS = 60
#: Lines that were broken by hand are at most so long; where one is longer, each line is a paragraph of its own.
_HAND_COLUMNS = 132
#: A line that is indented so far, and is no list, is code.
_CODE_COLUMNS = 4


# -- making text safe --------------------------------------------------------------------------------------

# Control characters, bidi controls, invisible and tag characters, lone surrogates, noncharacters. A joiner inside an
# emoji (U+200D), U+200C and variation selectors belong to real writing and stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """`text` with every character that cannot be seen, or that turns the text around, written as `⟨U+202E⟩`.

    CRLF becomes a line break.

    Examples
    --------
    >>> visible("a\\r\\nb\\x00\\u202ec")
    'a\\nb⟨U+0000⟩⟨U+202E⟩c'
    """
    return _UNSEEN.sub(lambda m: f"⟨U+{ord(m.group()):04X}⟩", text.replace("\r\n", "\n"))


# -- numbers and words -------------------------------------------------------------------------------------


def verdict(run: Mapping[str, Any]) -> tuple[str, str]:
    """(kind, words) of a run's verdict; kind is passed, failed or none.

    Examples
    --------
    >>> verdict({"status": "ok", "score": 0.5, "passed": False})
    ('failed', 'Failed, with part of the score')
    """
    status, score = run["status"], run["score"]
    if status == "refused":
        seat = f" (seat {run['refused_seat']})" if run.get("refused_seat") else ""
        return "none", f"Refused by the provider{seat}: not scored"
    if status == "gated_out":
        return "none", "Gated out: its condition was not met, so it was not played"
    if status == "error":
        return "none", "Ended in an error: not scored"
    if run["passed"] or score == 1:
        return "passed", "Passed"
    if score is None and run["passed"] is None:
        return "none", "No score"
    return "failed", "Failed, with part of the score" if score else "Failed"


SYMBOLS = {"passed": "✓", "failed": "✗", "none": "○"}


def verdict_details(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        ("score", number(run["score"])),
        ("outcome", run["outcome"]),
        ("weighted outcome", number(run["weighted_outcome"])),
        ("joint points", None if run["joint_share"] is None else f"{100 * run['joint_share']:.1f} % of the best deal"),
        ("ended", run["ended"]),
        ("error", run["error"]),
    ]
    return [(name, value) for name, value in pairs if value is not None]


def facts(page: Rows) -> list[tuple[str, str]]:
    run, task = page.run, page.task
    if page.blind:
        pairs: list[tuple[str, Any]] = [("benchmark", run["benchmark"]), ("task", run["task_id"])]
        return [(n, str(v)) for n, v in [*pairs, ("dimension", run["dimension"])] if v is not None]
    kind = [w for w, is_so in (("real record", task.get("real_world")), ("sandbox", task.get("sandbox"))) if is_so]
    scored = run["status"] == "ok"
    pairs = [
        ("study", run["study"]),
        ("benchmark", run["benchmark"]),
        ("task", run["task_id"]),
        ("dimension", run["dimension"]),
        ("source", run["source_family"]),
        ("task kind", ", ".join(kind) or None),
        ("split", run["split"]),
        ("version", run["version"]),
        ("model", _with_effort(run["model"], run["effort"])),
        ("partner", _with_effort(run["partner_model"], run["partner_effort"])),
        ("arm", run["arm"]),
        ("seed", run["seed"]),
        *page.view.facts.values(),
        ("continues run", run["prefix_run_id"]),
        ("rounds", run["rounds"]),
        ("messages", run["messages"]),
        ("tool calls", run["tool_calls"]),
        ("tokens in", _count(run["tokens_in"], scored)),
        ("tokens out", _count(run["tokens_out"], scored)),
        ("of them reasoning", _count(run["tokens_reasoning"], False)),
        ("cost", _usd(run["cost_usd"], scored)),
        ("cost, all calls", _usd(run["cost_usd_team"], scored)),
        ("seconds", None if run["seconds"] is None else f"{run['seconds']:.1f}"),
        ("started", _time(run["started_at"])),
        ("finished", _time(run["finished_at"])),
        ("rules", run["rule_version"]),
        ("played by", f"cilab {run['code_version']}" if run["code_version"] else None),
    ]
    return [(name, str(value)) for name, value in pairs if value is not None]


def _with_effort(model: str | None, effort: str | None) -> str | None:
    return f"{model}, effort {effort}" if model and effort else model


def number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _count(value: int | None, say_unknown: bool) -> str | None:
    return f"{value:,}" if value is not None else "unknown" if say_unknown else None


def _usd(value: float | None, say_unknown: bool) -> str | None:
    return f"${value:.4f}" if value is not None else "unknown" if say_unknown else None


def _time(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def marks(label: Mapping[str, Any]) -> list[str]:
    return [word for word, flag in (("gives way", "gives_way"), ("noticed", "noticed")) if label[flag]]


def is_step(event: Mapping[str, Any]) -> bool:
    """Whether it is a step of the script: a row for the record, with the judges' votes, that no seat is told."""
    return event["seat"] == "script" and event["seat_kind"] == "environment"


def is_told(event: Mapping[str, Any]) -> bool:
    """Whether it belongs to the run itself; steps of the script and a grader's words are verdicts on it."""
    return not is_step(event) and event["seat_kind"] != "grader"


def content(event: Mapping[str, Any]) -> str | None:
    """The text of an event; a step of the script, which is stored as JSON, in words."""
    text: str | None = event["content"]
    if not is_step(event) or not text:
        return text
    try:
        step = json.loads(text)
        votes = ", ".join(f"{rater} {label}" for rater, label in step["votes"].items())
        held = "; one judge is not two, so it is held back" if step["held_back"] else ""
        return f"{step['from']} → {step['to']}, on {step['label']} ({votes}{held})"
    except (ValueError, TypeError, KeyError, AttributeError):
        return text


def pretty_json(text: str | None) -> str:
    """JSON over several lines; what is no JSON stays as the model sent it."""
    if text is None:
        return ""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def one_line(text: str, width: int) -> str:
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width and len(text) <= 4 * width else line[: word_end(line, width - 1)] + "…"


def word_end(text: str, most: int) -> int:
    """Where to cut `text` at `most` characters or a little before, so that no word is cut unless it is very long.

    Examples
    --------
    >>> "the referee notices"[: word_end("the referee notices", 14)]
    'the referee'
    """
    if most >= len(text) or text[most].isspace():
        return min(most, len(text))
    least = max(most - _WORD_CHARS, most // 2)
    return next((i for i in range(most - 1, least, -1) if text[i].isspace()), most)


# -- maps --------------------------------------------------------------------------------------------------

#: The symbols that maps are drawn with, in the task's words and in the agents' own.
MAP_SYMBOLS = {"@": "start", "*": "goal", "#": "wall", "-": "path", "?": "hidden"}
_MAP_LINE = re.compile(r"\s{0,8}[@*#?-](?: [@*#?-]){2,}\s{0,8}")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """`text` cut into ("text" | "map" | "code", piece): lines of map symbols, and closed ``` fences."""
    lines, plain, i = text.split("\n"), [], 0
    fences = True
    while i < len(lines):
        kind, end = "map", _map_end(lines, i)
        if fences and end == i and lines[i].lstrip().startswith("```"):
            closed = _fence_end(lines, i)
            # Where nothing closes this fence, nothing closes a later one: one look to the end is enough.
            kind, end, fences = "code", closed or i, closed is not None
        if end == i:
            plain.append(lines[i])
            i += 1
            continue
        if plain:
            yield "text", "\n".join(plain)
            plain = []
        yield kind, "\n".join(lines[i:end])
        i = end
    if plain:
        yield "text", "\n".join(plain)


def _map_end(lines: Sequence[str], start: int) -> int:
    end = start
    while end < len(lines) and _MAP_LINE.fullmatch(lines[end].rstrip("\r")):
        end += 1
    return end if end - start >= 3 else start


def _fence_end(lines: Sequence[str], start: int) -> int | None:
    """Behind the fence that closes the one at `start`; None where nothing closes it."""
    return next((i + 1 for i in range(start + 1, len(lines)) if lines[i].strip() == "```"), None)


# -- paragraphs --------------------------------------------------------------------------------------------

#: What begins a line of its own: a list's mark, a heading, a quotation, a row of a table.
_STARTS = re.compile(r"\s*(?:(?:[-*+•–]|\d{1,3}[.)]|[A-Za-z][.)])\s+|[>|#])")


def paragraphs(text: str, room: int) -> Iterator[tuple[str, int]]:
    """(line, columns that what is wrapped of it is indented by): the lines that were broken by hand joined again.

    Lines are joined only in a paragraph with a line above `room` columns (others need no wrapping), and only where the
    next word would not have fitted into the longest line: verses, lists, tables and addresses stay as they are.

    Examples
    --------
    >>> [line for line, _ in paragraphs("one two three\\nfour five six\\n- seven", 12)]
    ['one two three four five six', '- seven']
    """
    paragraph: list[str] = []
    for line in text.split("\n"):
        if line.strip():
            paragraph.append(line)
            continue
        yield from _joined(paragraph, room)
        paragraph = []
        yield "", 0
    yield from _joined(paragraph, room)


def _joined(lines: Sequence[str], room: int) -> Iterator[tuple[str, int]]:
    longest = max((len(line.rstrip()) for line in lines), default=0)
    by_hand = room < longest <= _HAND_COLUMNS
    parts: list[str] = []
    hang, is_open, length = 0, False, 0
    for new in lines:
        indent, starts = len(new) - len(new.lstrip()), _STARTS.match(new)
        would_fit = length + 1 + len(new.split(maxsplit=1)[0]) <= longest
        if parts and is_open and by_hand and not starts and not would_fit and indent in (0, hang):
            parts.append(new.strip())
        else:
            if parts:
                yield " ".join(parts), hang
            parts = [new.rstrip()]
            hang = starts.end() if starts and new[starts.end() - 1].isspace() else indent
            is_open = indent < _CODE_COLUMNS or starts is not None
        length = len(new.rstrip())
        is_open = is_open and not new.rstrip().endswith(":")
    if parts:
        yield " ".join(parts), hang


# -- events ------------------------------------------------------------------------------------------------


def labels_by_index(page: Rows) -> dict[int, list[Mapping[str, Any]]]:
    """Message index -> its labels."""
    out: dict[int, list[Mapping[str, Any]]] = {}
    for label in page.labels:
        out.setdefault(label["index"], []).append(label)
    return out


def paired(
    messages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Each event, a tool call together with the result that follows it at once."""
    i = 0
    while i < len(messages):
        event, after = messages[i], messages[i + 1 : i + 2]
        is_result = after and after[0]["kind"] == "tool_result" and after[0]["tool"] in (None, event["tool"])
        results = list(after) if event["kind"] == "tool_call" and is_result else []
        yield event, results
        i += 1 + len(results)


def meta(event: Mapping[str, Any], is_turn: bool = False) -> list[str]:
    """The small print of an event; where every message is a turn of its own, its turn too."""
    to = event["delivered_to"]
    meta = [event["model"]] if event["model"] else []
    meta += [f"turn {event['round']}"] if is_turn and event["round"] is not None else []
    meta += [f"to {', '.join(to)}" if to else "to nobody"] if to is not None else []
    meta += [f"{event['tokens_out']:,} tokens"] if event["tokens_out"] is not None else []
    meta += [f"${event['cost_usd']:.4f}"] if event["cost_usd"] else []
    return [*meta, f"#{event['index']}"]


def stray_labels(page: Rows) -> list[Mapping[str, Any]]:
    """Labels of messages that the run does not have."""
    known = {m["index"] for m in page.messages}
    return [label for label in page.labels if label["index"] not in known]
