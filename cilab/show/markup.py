"""A page as HTML. Every text of a run passes through `esc`: what agents write is never markup here.

May import `cilab.show.words`. Needs no script, loads nothing.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cilab.show import words
from cilab.show.words import (
    EVIDENCE_WORDS,
    FOLD_CHARS,
    FOLD_LINES,
    KINDS,
    MAP_SYMBOLS,
    SYMBOLS,
    TASK_FOLD_CHARS,
    TASK_KINDS,
)

if TYPE_CHECKING:
    from cilab.show.rows import Rows

#: Of a long text this much stands before the fold: characters, and lines.
HEAD_CHARS, HEAD_LINES = 700, 12

#: What a page of its own adds to the style.
DOCUMENT_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;background:light-dark(#fff,#16191d)}"
    ".cilab-run{max-width:64em;margin:0 auto}"
)


@cache
def style() -> str:
    """The style of every page, each rule bound to `.cilab-run`."""
    return (resources.files("cilab.show") / "page.css").read_text(encoding="utf-8")


def esc(value: Any) -> str:
    """Any value as text that is safe in HTML, in attributes too."""
    return html.escape(words.visible(str(value)), quote=True)


def body(page: Rows, classes: str) -> str:
    """Everything between the body's tags, in one element of these classes."""
    return f'<main class="{classes}">{"".join(_sections(page))}</main>'


def _sections(page: Rows) -> Iterator[str]:
    yield "<header>"
    if not page.blind:
        yield _verdict_html(page.run)
    tag = ' <span class="sim">simulated agents</span>' if page.simulated else ""
    what = "Item" if page.blind else "Run"
    yield f"<h1>{what} <code>{esc(page.run['run_id'])}</code>{tag}</h1>"
    facts = "".join(f"<div><dt>{esc(name)}</dt><dd>{esc(value)}</dd></div>" for name, value in words.facts(page))
    yield f'<dl class="facts">{facts}</dl>'
    yield "".join(f'<p class="note">{esc(note)}</p>' for note in page.notes)
    yield "</header>"
    yield _maps_html(page)
    yield _legend(page)
    yield from _transcript_html(page)
    yield _stray_labels_html(page)
    yield _reviews_html(page)
    yield _annotations_html(page)
    yield _calls_html(page)


def _verdict_html(run: Mapping[str, Any]) -> str:
    kind, said = words.verdict(run)
    details = "".join(
        f'<span><span class="dim">{esc(name)}</span> {esc(value)}</span>' for name, value in words.verdict_details(run)
    )
    if run["evidence"] is None:
        evidence = ""
    elif run["evidence"]:
        items = "".join(f"<li>{esc(EVIDENCE_WORDS.get(e, e))} <code>{esc(e)}</code></li>" for e in run["evidence"])
        evidence = f'<div class="evidence"><span class="dim">The check saw</span><ul>{items}</ul></div>'
    else:
        evidence = '<div class="evidence dim">The check saw nothing of its list.</div>'
    return (
        f'<section class="verdict v-{kind}"><strong>{SYMBOLS[kind]} {esc(said)}</strong>'
        f'<div class="details">{details}</div>{evidence}</section>'
    )


def _maps_html(page: Rows) -> str:
    figures = "".join(
        f"<figure>{_map_html(piece)}<figcaption>{esc(whose)}</figcaption></figure>" for whose, piece in page.view.maps
    )
    if not figures:
        return ""
    key = f'<p class="dim">{esc(" · ".join(f"{symbol} {name}" for symbol, name in MAP_SYMBOLS.items()))}</p>'
    return f'<section><h2>{esc(page.view.maps_title)}</h2><div class="maps">{figures}</div>{key}</section>'


def _map_html(piece: str) -> str:
    def cell(symbol: str) -> str:
        known = MAP_SYMBOLS.get(symbol)
        return f'<span class="{known[0]}">{esc(symbol)}</span>' if known else esc(symbol)

    lines = (" ".join(cell(c) for c in line.split()) for line in piece.split("\n"))
    return f'<pre class="map">{chr(10).join(lines)}</pre>'


def _legend(page: Rows) -> str:
    seats: dict[str, list[str]] = {}
    for m in page.messages:
        if m["kind"] != "tool_result":
            seats.setdefault(m["seat_kind"], []).append(m["seat"])
    items = "".join(
        f'<span class="k-{kind}">{name}: {esc(", ".join(dict.fromkeys(seats[kind])))}</span>'
        for kind, name in KINDS.items()
        if kind in seats
    )
    return f'<div class="legend">{items}</div>' if items else ""


def _transcript_html(page: Rows) -> Iterator[str]:
    yield "<section><h2>Transcript</h2>"
    if not page.messages:
        yield '<p class="dim">There are no messages.</p>'
    indent, labels = _indents(page.messages), words.labels_by_index(page)
    round_ = None
    for event, results in words.paired(page.messages):
        if not page.view.turns and event["round"] is not None and event["round"] != round_:
            round_ = event["round"]
            yield f'<div class="round">round {round_}</div>'
        meta = esc(" · ".join(words.meta(event, page.view.turns)))
        tool = event["kind"] in ("tool_call", "tool_result")
        inner = _tool_html(event, results, meta) if tool else _head_html(event, meta) + _content_html(event)
        under = "".join(_labels_html(labels.get(e["index"], ())) for e in (event, *results))
        yield _framed(event, inner + under, indent[event["seat_kind"], event["seat"]], page.marked)
    yield "</section>"


def _indents(messages: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """(kind, seat) -> the seat's place among those of its kind, so that two agents under test stand apart."""
    seen: dict[str, list[str]] = {}
    out = {}
    for kind, seat in dict.fromkeys((m["seat_kind"], m["seat"]) for m in messages):
        names = seen.setdefault(kind, [])
        out[kind, seat] = min(len(names), 3)
        names.append(seat)
    return out


def _framed(event: Mapping[str, Any], inner: str, indent: int, marked: int | None) -> str:
    is_marked = marked is not None and event["index"] == marked
    flag = '<div class="flag">the message to label</div>' if is_marked else ""
    kind = event["seat_kind"] if event["seat_kind"] in KINDS else "user"
    classes = f"ev k-{kind} i{indent}{' marked' if is_marked else ''}"
    return f'<article class="{classes}" id="m{event["index"]}">{flag}{inner}</article>'


def _head_html(event: Mapping[str, Any], meta: str) -> str:
    kind = KINDS.get(event["seat_kind"], "")
    what = "" if event["kind"] == "message" else f", {esc(event['kind'].replace('_', ' '))}"
    return (
        f'<div class="head"><b dir="auto">{esc(event["seat"])}</b> <span class="kind">{kind}{what}</span>'
        f'<span class="meta">{meta}</span></div>'
    )


def _content_html(event: Mapping[str, Any]) -> str:
    text = words.content(event)
    if not text or not text.strip():
        return '<div class="txt dim">(no text)</div>'
    if event["seat_kind"] in TASK_KINDS and len(text) > TASK_FOLD_CHARS:
        return f"<details><summary>{esc(words.one_line(text, 90))} {_size(text)}</summary>{_text_html(text)}</details>"
    return _folded(text)


def _folded(text: str) -> str:
    """Text, the beginning of it and the rest folded where it is long."""
    if len(text) <= FOLD_CHARS and text.count("\n") <= FOLD_LINES:
        return _text_html(text)
    cut = _cut(text)
    rest = text[cut:]
    return f"{_text_html(text[:cut])}<details><summary>… the rest {_size(rest)}</summary>{_text_html(rest)}</details>"


def _cut(text: str) -> int:
    """Where the head of a long text ends: at a line break near `HEAD_CHARS`, and after `HEAD_LINES` at most."""
    head = text[:HEAD_CHARS]
    lines = head.split("\n")
    if len(lines) > HEAD_LINES:
        return len("\n".join(lines[:HEAD_LINES])) + 1
    at = head.rfind("\n")
    return at + 1 if at > HEAD_CHARS // 2 else words.word_end(text, HEAD_CHARS)


def _size(text: str) -> str:
    return f'<span class="dim">({len(text):,} characters)</span>'


def _text_html(text: str) -> str:
    pieces = []
    for kind, piece in words.blocks(text):
        if kind == "map":
            pieces.append(_map_html(piece))
        elif kind == "code":
            pieces.append(f'<pre class="code">{esc(piece)}</pre>')
        else:
            pieces.append(f'<div class="txt" dir="auto">{esc(piece)}</div>')
    return "".join(pieces)


def _tool_html(event: Mapping[str, Any], results: Sequence[Mapping[str, Any]], meta: str) -> str:
    arguments, name = event["tool_input_json"], esc(event["tool"] or "tool")
    short = "" if arguments is None else esc(words.one_line(arguments, 90))
    what = "result of " if event["kind"] == "tool_result" else ""
    summary = f'<b>{esc(event["seat"])}</b> {what}<code>{name}</code> <code class="dim">{short}</code>'
    parts = []
    if arguments is not None:
        parts.append(f'<div class="dim">arguments</div><pre class="code">{esc(words.pretty_json(arguments))}</pre>')
    for e in (event, *results):
        parts += [_text_html(e["content"])] if e["content"] else []
        if e["tool_output"] is not None:
            parts.append(f'<div class="dim">result</div><pre class="code">{esc(e["tool_output"])}</pre>')
    return (
        f'<details class="tool"><summary>{summary}<span class="meta">{meta}</span></summary>{"".join(parts)}</details>'
    )


def _labels_html(labels: Sequence[Mapping[str, Any]]) -> str:
    if not labels:
        return ""
    rows = "".join(
        f'<tr class="{"final" if label["rater"] == "final" else ""}">'
        f"<td>{esc(label['rater'])}{_by(label)}</td><td><code>{esc(label['label'] or '')}</code></td>"
        f"<td>{_marks_html(label)}</td><td>{esc(label['reason'] or '')}</td></tr>"
        for label in labels
    )
    head = "<tr><th>rater</th><th>label</th><th>means</th><th>reason</th></tr>"
    return f'<table class="labels">{head}{rows}</table>'


def _by(label: Mapping[str, Any]) -> str:
    return f' <span class="dim">{esc(label["model"])}</span>' if label["model"] else ""


def _marks_html(label: Mapping[str, Any]) -> str:
    return "".join(f'<span class="mark m-{m.split()[0]}">{m}</span>' for m in words.marks(label))


def _stray_labels_html(page: Rows) -> str:
    if not (stray := words.stray_labels(page)):
        return ""
    rows = [(f"#{s['index']}", s["rater"], s["label"], ", ".join(words.marks(s)), s["reason"]) for s in stray]
    return _table_html("Labels without a message", ("message", "rater", "label", "means", "reason"), rows)


def _reviews_html(page: Rows) -> str:
    columns = ("reviewer", "old_score", "new_score", "reason")
    rows = [[words.number(r[c]) if c.endswith("score") else r[c] for c in columns] for r in page.reviews]
    return _table_html("Reviews of the verdict", [c.replace("_", " ") for c in columns], rows)


def _annotations_html(page: Rows) -> str:
    columns = ("annotator", "repeat", "agent", "feature", "value", "text")
    rows = [[words.number(a[c]) if c == "value" else a[c] for c in columns] for a in page.annotations]
    return _table_html("Annotations", columns, rows)


def _calls_html(page: Rows) -> str:
    columns = ("purpose", "seat", "index", "model_asked", "model_returned", "finish_reason")
    columns += ("tokens_in", "tokens_out", "cost_usd", "latency_s", "retries", "error")
    rows = [[words.number(c[k]) if k == "latency_s" else c[k] for k in columns] for c in page.calls]
    table = _table_html("", [c.replace("_", " ") for c in columns], rows)
    if not table:
        return ""
    return f"<section><details><summary><h2>Model calls ({len(rows)})</h2></summary>{table}</details></section>"


def _table_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{esc(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{'' if v is None else esc(v)}</td>" for v in row) + "</tr>" for row in rows)
    heading = f"<h2>{esc(title)}</h2>" if title else ""
    return f'<section>{heading}<div class="wide"><table class="rows"><tr>{head}</tr>{body}</table></div></section>'
