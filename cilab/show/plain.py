"""A page as plain text for a terminal.

May import `cilab.show.words`. Control characters of a run never reach the terminal as such.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cilab.show import words
from cilab.show.words import EVIDENCE_WORDS, FOLD_CHARS, FOLD_LINES, KINDS, SYMBOLS, TASK_FOLD_CHARS, TASK_KINDS

if TYPE_CHECKING:
    from cilab.show.rows import Rows

#: What is shown of a tool's result: characters, and lines.
TOOL_CHARS, TOOL_LINES = 600, 8


def lines(page: Rows, width: int, *, full: bool = False) -> Iterator[str]:
    """The page line by line, at most `width` columns where lines can be broken; `full` cuts nothing that is long."""
    tag = " [SIMULATED AGENTS]" if page.simulated else ""
    if not page.blind:
        yield from _verdict_lines(page.run, width, tag)
    yield from _wrapped(page.title + (tag if page.blind else ""), width, "")
    yield from _wrapped(" · ".join(f"{name} {value}" for name, value in words.facts(page)), width, "  ")
    yield from page.notes
    for whose, piece in page.view.maps:
        yield from (
            "",
            words.visible(f"{page.view.maps_title}, {whose}"),
            *(f"  {line.strip()}" for line in piece.split("\n")),
        )
    yield from _transcript_lines(page, width, is_whole=full or page.blind)
    for title, rows in _tables(page):
        if rows:
            yield from ("", title)
            for row in rows:
                yield from _wrapped(" · ".join(str(v) for v in row if v is not None), width, "  ")


def _verdict_lines(run: Mapping[str, Any], width: int, tag: str) -> Iterator[str]:
    kind, said = words.verdict(run)
    yield from _wrapped(f"{SYMBOLS[kind]} {said}{tag}", width, "")
    for name, value in words.verdict_details(run):
        yield from _wrapped(f"{name}: {value}", width, "  ")
    for mark in run["evidence"] or ():
        yield from _wrapped(f"the check saw: {EVIDENCE_WORDS.get(mark, mark)} ({mark})", width, "  ")
    yield ""


def _transcript_lines(page: Rows, width: int, *, is_whole: bool) -> Iterator[str]:
    labels, round_ = words.labels_by_index(page), None
    for event, results in words.paired(page.messages):
        if not page.view.turns and event["round"] is not None and event["round"] != round_:
            round_ = event["round"]
            yield from ("", f"── round {round_} ".ljust(width, "─"))
        yield ""
        if event["index"] == page.marked:
            yield ">>> the message to label"
        kind = KINDS.get(event["seat_kind"], event["seat_kind"])
        yield from _wrapped(f"{event['seat']} [{kind}] {' · '.join(words.meta(event, page.view.turns))}", width, "")
        yield from _content_lines(event, results, width, is_whole=is_whole)
        for e in (event, *results):
            for label in labels.get(e["index"], ()):
                yield from _wrapped(_label_line(label), width, "  | ")


def _content_lines(
    event: Mapping[str, Any], results: Sequence[Mapping[str, Any]], width: int, *, is_whole: bool
) -> Iterator[str]:
    """What an event says: all of it (`is_whole`, as for people who judge it), or the beginning of what is long."""
    text = words.content(event)
    if event["kind"] not in ("tool_call", "tool_result"):
        most = TASK_FOLD_CHARS if event["seat_kind"] in TASK_KINDS else FOLD_CHARS
        said = text if is_whole else _short(text or "", most, FOLD_LINES)
        yield from _flowing(said or "(no text)", width, "  ")
        return
    arguments = event["tool_input_json"] or ""
    yield from _wrapped(
        f"{event['tool'] or 'tool'} {arguments if is_whole else words.one_line(arguments, 300)}", width, "  $ "
    )
    for e in (event, *results):
        for part in (e["content"], e["tool_output"]):
            if part:
                yield from _wrapped(part if is_whole else _short(part, TOOL_CHARS, TOOL_LINES), width, "    ")


def _short(text: str, chars: int, lines: int) -> str:
    """The beginning of a long text to the end of a word, with what is left out in words."""
    cut = "\n".join(text[: words.word_end(text, chars)].split("\n")[:lines])
    return text if len(cut) == len(text) else f"{cut}\n\n[… {len(text) - len(cut):,} more characters; --full shows all]"


def _label_line(label: Mapping[str, Any]) -> str:
    marks = "".join(f" [{m}]" for m in words.marks(label))
    by = f" ({label['model']})" if label["model"] else ""
    return f"{label['rater']}{by}: {label['label']}{marks}" + (f" - {label['reason']}" if label["reason"] else "")


def _tables(page: Rows) -> Iterator[tuple[str, list[Sequence[Any]]]]:
    number = words.number
    yield "Labels without a message", [(f"#{s['index']}", _label_line(s)) for s in words.stray_labels(page)]
    yield (
        "Reviews of the verdict",
        [(r["reviewer"], f"{number(r['old_score'])} -> {number(r['new_score'])}", r["reason"]) for r in page.reviews],
    )
    yield (
        "Annotations",
        [
            (f"{a['annotator']} {a['repeat']}", f"agent {a['agent']}", a["feature"], number(a["value"]), a["text"])
            for a in page.annotations
        ],
    )


def _flowing(text: str, width: int, indent: str) -> Iterator[str]:
    """What somebody says: the lines of a paragraph are wrapped as one; maps and code keep their lines."""
    room = width - len(indent)
    for kind, piece in words.blocks(words.visible(text).expandtabs(4)):
        if kind != "text":
            yield from _wrapped(piece, width, indent)
            continue
        for line, hang in words.paragraphs(piece, room):
            below = " " * min(hang, room // 2)
            parts = [line] if len(line) <= room else textwrap.wrap(line, room, subsequent_indent=below)
            yield from ((indent + part).rstrip() for part in parts or [""])


def _wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    """Lines of at most `width` columns; line breaks of the text and lines that fit are kept as they are."""
    room = width - len(indent)
    for line in words.visible(text).expandtabs(4).split("\n"):
        parts = [line] if len(line) <= room else textwrap.wrap(line, room)
        yield from ((indent + part).rstrip() for part in parts or [""])
