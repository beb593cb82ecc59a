"""The page of a run: what stands on it, that words of a run are never markup, and that it is quick."""

from __future__ import annotations

import doctest
import json
import re
import textwrap
import time
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cilab
from cilab.core.errors import StoreError
from cilab.core.tables import frame
from cilab.datasets.dataset import Dataset
from cilab.show import markup, show, show_blind, words

RUN = {
    "run_id": "abc111",
    "study": "by hand",
    "benchmark": "teamwork",
    "task_id": "campers",
    "dimension": "handling_conflict",
    "version": "test",
    "model": "model-one",
    "effort": "high",
    "seed": 1,
    "status": "ok",
    "ended": "deal",
    "outcome": "took_offer",
    "evidence": ["offered_to_accept", "raised_problem"],
    "score": 0.0,
    "passed": False,
    "joint_share": 37 / 39,
    "tokens_in": 5200,
    "tokens_out": 431,
    "finished_at": datetime(2026, 11, 30, 8, 0, 12, tzinfo=UTC),
}


def events(*rows):
    """Messages: (seat, seat_kind, content) or a dict with more."""
    out = []
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            row = dict(zip(("seat", "seat_kind", "content"), row, strict=True))
        out.append({"run_id": RUN["run_id"], "index": index, "kind": "message", "round": 0} | row)
    return out


TALK = events(
    ("user", "user", "You are Robin."),
    {
        "seat": "Robin",
        "seat_kind": "under_test",
        "kind": "tool_call",
        "tool": "read_file",
        "tool_input_json": '{"path": "values.md"}',
    },
    {
        "seat": "Robin",
        "seat_kind": "environment",
        "kind": "tool_result",
        "tool": "read_file",
        "tool_output": "food 5",
    },
    ("Sam", "scripted", "I need the water."),
    {
        "seat": "Robin",
        "seat_kind": "under_test",
        "content": "Fine, take it.",
        "model": "model-one",
        "delivered_to": ["Sam", "Kim"],
        "tokens_out": 1234,
        "cost_usd": 0.0125,
        "round": 1,
    },
    ("Kim", "partner", "Good."),
)
LABELS = [
    {
        "run_id": "abc111",
        "index": 4,
        "rater": r,
        "model": m,
        "label": label,
        "reason": why,
        "gives_way": g,
        "noticed": n,
    }
    for r, m, label, why, g, n in [
        ("final", None, "concedes", None, True, False),
        ("person:1", None, "hedges", "Half-hearted.", False, True),
        ("referee", "judge-a", "concedes", "It accepts.", True, False),
    ]
]


def study(run=None, messages=TALK, kind="imported", more_runs=(), **tables):
    rows = {"runs": [RUN | (run or {}), *more_runs], "messages": messages} | tables
    frames = {name: frame(name, part) for name, part in rows.items()}
    return Dataset("by hand", frames, simulated=kind == "simulated", kind=kind)


class Seen(HTMLParser):
    """Tags in order, attributes, text; fails on a tag that is not closed."""

    VOID = {"meta"}

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def rows_below(page, content):
    """The text of the article that holds `content`."""
    articles = re.findall(r"<article.*?</article>", page.html, re.DOTALL)
    return Seen(next(a for a in articles if content in a)).text


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(words).failed == 0
    assert doctest.testmod(words).attempted >= 2


def test_the_verdict_stands_first_and_the_facts_below():
    seen = Seen(show(study(), "abc111").html).text
    assert seen.index("Failed") < seen.index("offered to accept the teammate's own offer") < seen.index("Run abc111")
    for fact in ("model-one, effort high", "94.9 % of the best deal", "5,200", "2026-11-30 08:00:12 UTC", "campers"):
        assert fact in seen
    assert "costunknown" in seen  # no price is not free


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"score": 1.0, "passed": True}, "✓ Passed"),
        ({"score": 0.5}, "✗ Failed, with part of the score"),
        ({"score": None, "passed": None, "outcome": "ungraded"}, "○ No score"),
        ({"status": "refused", "score": None, "passed": None, "refused_seat": "2"}, "(seat 2): not scored"),
        ({"status": "gated_out", "score": None, "passed": None}, "○ Gated out"),
        ({"status": "error", "score": None, "passed": None, "error": "429 <too many>"}, "error 429 <too many>"),
    ],
)
def test_every_status_has_its_own_words(run, said):
    unscored = {} if run.get("status", "ok") == "ok" else {"joint_share": None}
    page = show(study(run | unscored), "abc111")
    assert said in Seen(page.html).text
    assert said.replace("error 429", "error: 429") in page.text


def test_labels_of_each_rater_stand_on_their_message_and_only_there():
    page = show(study(labels=LABELS), "abc111")
    on_it = rows_below(page, "Fine, take it.")
    assert on_it.index("referee judge-a") < on_it.index("final") < on_it.index("person:1")
    assert "gives way" in on_it and "noticed" in on_it and "Half-hearted." in on_it
    assert "concedes" not in rows_below(page, "I need the water.")
    assert "referee (judge-a): concedes [gives way] - It accepts." in page.text


def test_a_label_of_a_message_that_is_not_there_is_not_lost():
    stray = LABELS[0] | {"index": 99, "label": "odd_one"}
    page = show(study(labels=[stray]), "abc111")
    assert "Labels without a message" in page.html and "odd_one" in page.html and "odd_one" in page.text


def test_a_tool_call_is_folded_together_with_its_result():
    articles = re.findall(r"<article.*?</article>", show(study(), "abc111").html, re.DOTALL)
    call = next(a for a in articles if "read_file" in a)
    summary, folded = call.split("</summary>")
    assert "values.md" in summary and "food 5" not in summary
    assert "<details" in summary and "<details open" not in summary and "food 5" in folded


def test_tool_arguments_that_are_no_json_stand_as_the_model_sent_them():
    rows = events(
        {"seat": "a", "seat_kind": "under_test", "kind": "tool_call", "tool": "t", "tool_input_json": '{"x": <b>'},
        {"seat": "a", "seat_kind": "under_test", "kind": "tool_call", "tool": "t", "tool_input_json": "[" * 5000},
    )
    assert '{"x": <b>' in Seen(show(study(messages=rows), "abc111").html).text


def test_seats_carry_their_kind_as_a_word_and_as_a_border():
    page = show(study(), "abc111")
    for kind, word in (("under_test", "under test"), ("scripted", "scripted"), ("partner", "partner")):
        assert f'class="ev k-{kind}' in page.html and word in Seen(page.html).text
    borders = dict(re.findall(r"\.ev\.k-(\w+)\{--k:[^;]+;border-left-(?:style|width):(\w+)", markup.style()))
    assert len(set(borders.values())) == len(borders) == len(words.KINDS) - 1  # under_test is the solid one


def test_a_simulated_agent_is_said_in_every_form_and_nobody_else_is():
    for page in (show(study({"model": "sim/strong"}), "abc111"), show(study(kind="simulated"), "abc111")):
        assert 'class="sim">simulated agents' in page.html and "[SIMULATED AGENTS]" in page.text
        assert 'class="sim">simulated agents' in page._repr_html_()
    real = show(study(), "abc111")
    assert "simulated agents" not in real.html and "SIMULATED" not in real.text


# -- safety -----------------------------------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)></div></article></details><!-- <b>unclosed \" ' & "
    "[x](javascript:alert(1)) <a href='javascript:alert(2)'>\x00\x1b[31m\u202eexe.txt\u2066\ufeff\U000e0041]]></style>"
)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "article", "div", "span", "p"),
    *("h1", "h2", "dl", "dt", "dd", "ul", "li", "code", "pre", "b", "strong", "details", "summary", "figure"),
    *("figcaption", "table", "tr", "th", "td"),
}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "id", "dir"}


def everywhere(text):
    """A study with `text` in every free text that a page shows."""
    run = dict.fromkeys(("study", "task_id", "dimension", "model", "arm", "ended", "outcome", "error"), text)
    rows = events(
        (text, "user", text),
        {"seat": text, "seat_kind": "under_test", "kind": "tool_call", "tool": text, "tool_input_json": text},
        {"seat": text, "seat_kind": "under_test", "content": text, "model": text, "delivered_to": [text]},
    )
    label = {"run_id": "abc111", "index": 2, "rater": text, "model": text, "label": text, "reason": text}
    note = {"run_id": "abc111", "annotator": text, "repeat": 0, "agent": 0, "feature": text, "text": text}
    review = {"run_id": "abc111", "reviewer": text, "reason": text}
    call = {"run_id": "abc111", "index": 0, "seat": text, "purpose": "play", "model_asked": text, "error": text}
    tables = {"labels": [label, label | {"index": 7}], "annotations": [note], "reviews": [review], "calls": [call]}
    return study(run, rows, **tables)


def assert_safe(page):
    for source in (page.html, page._repr_html_()):
        seen = Seen(source.removeprefix("<!doctype html>\n"))
        assert set(seen.tags) <= TAGS and set(seen.attributes) <= ATTRIBUTES
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]", source
        )
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)


def test_markup_and_control_characters_in_a_run_are_words_and_nothing_else():
    page = show(everywhere(HOSTILE), "abc111")
    assert_safe(page)
    seen = Seen(page.html).text
    assert "<script>alert(1)</script>" in seen and "⟨U+0000⟩" in seen and "⟨U+202E⟩exe.txt" in seen
    assert_safe(show_blind(everywhere(HOSTILE), "abc111", name=HOSTILE, until=2))


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("<>\"'&/`-#?*@ \n\r\t")), max_size=80)
)
def test_no_text_whatever_becomes_markup(text):
    assert_safe(show(everywhere(text or "x"), "abc111"))


def test_emoji_and_right_to_left_words_stay_as_they_are():
    text = "👩‍🚒 שלום مرحبا é"
    assert text in Seen(show(study(messages=events(("a", "under_test", text))), "abc111").html).text
    assert words.visible("a\ud800b") == "a⟨U+D800⟩b"


def test_a_page_loads_nothing_and_runs_nothing():
    html = show(study(), "abc111").html
    assert "default-src 'none'" in html
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", html)


def test_the_style_touches_nothing_but_the_page():
    css = re.sub(r"/\*.*?\*/", "", markup.style(), flags=re.DOTALL)
    css = re.sub(r"@media print\{(.*)\}", r"\1", css)
    selectors = [s.strip() for rule in re.findall(r"([^{}]+)\{", css) for s in rule.split(",")]
    assert len(selectors) > 50
    assert [
        s for s in selectors if not re.match(r"(\[data-jp-theme-light=\w+\] |\.vscode-\w+ )?\.cilab-run\b", s)
    ] == []


def test_a_huge_message_is_folded_and_whole():
    text = "".join(f"{i} <b> words\n" for i in range(14_000))
    assert len(text) > 200_000
    html = show(study(messages=events(("a", "under_test", text))), "abc111").html
    head, folded = html.split('<summary>… the rest <span class="dim">')
    assert "13999 &lt;b&gt; words" in folded and "13999 &lt;b&gt;" not in head
    assert all(f"{i} &lt;b&gt; words" in html for i in range(0, 14_000, 997))
    page = show(study(messages=events(("a", "under_test", text))), "abc111")
    assert len(page.text) < 6000 and "more characters; --full shows all]" in page.text
    assert "13999 <b> words" in page.as_text(full=True) and "more characters" not in page.as_text(full=True)


@pytest.mark.parametrize("line", ["```x\n", "- - - -\n", "? ", "`", "\n", "@\u202e"])
def test_odd_long_texts_take_no_longer_than_others(line):
    rows = events(("a", "under_test", line * (200_000 // len(line))))
    page = show(study(messages=rows), "abc111")
    began = time.perf_counter()
    assert page.html and page.text
    assert time.perf_counter() - began < 2


# -- mazes ------------------------------------------------------------------------------------------------


def test_a_maze_run_shows_both_copies_and_the_two_together():
    rows = events(
        {"seat": "user", "seat_kind": "user", "content": "Yours:\n\n@ ? #\n- ? -\n? # *\n\nGo.", "delivered_to": ["1"]},
        {"seat": "user", "seat_kind": "user", "content": "Yours:\n\n@ - ?\n? # ?\n- ? *\n\nGo.", "delivered_to": ["2"]},
        ("1", "under_test", "Down."),
    )
    page = show(study({"benchmark": "maze", "version": "pair", "dimension": None}, rows), "abc111")
    assert "Maze, both together\n  @ - #\n  - # -\n  - # *\n" in page.text
    assert Seen(page.html).text.count("@ - #\n- # -\n- # *") == 1
    assert "seen by 1" in page.html and "seen by 2" in page.html


def test_copies_that_contradict_each_other_are_not_laid_together():
    rows = events(("user", "user", "@ ? #\n- - -\n- - *\n\nand\n\n@ - -\n- - -\n- - *"))
    page = show(study({"benchmark": "maze"}, rows), "abc111")
    assert "copy 2" in page.html and "both together" not in page.html


def test_a_map_that_an_agent_draws_keeps_its_columns():
    rows = events(("a", "under_test", "I see:\n@ - #\n- # -\n- - *\nright?"))
    html = show(study(messages=rows), "abc111").html
    assert '<pre class="map"><span class="s">@</span> <span class="p">-</span> <span class="w">#</span>\n' in html


# -- finding a run ----------------------------------------------------------------------------------------

MORE = [RUN | {"run_id": r} for r in ("abc222", "xyz333", "7", "077")]


def test_the_beginning_of_an_id_is_enough_when_no_other_begins_so():
    data = study(more_runs=MORE)
    assert show(data, "xyz").run["run_id"] == "xyz333"
    assert show(data, " abc222 ").run["run_id"] == "abc222"
    assert show(data, "7").run["run_id"] == "7"
    with pytest.raises(StoreError, match=r"'abc' begins 2 run ids: abc111, abc222"):
        show(data, "abc")


@pytest.mark.parametrize("asked", ["abd222", "nothing like it", "", "x" * 5000, "'; drop\x00"])
def test_an_id_that_does_not_exist_names_the_nearest(asked):
    with pytest.raises(StoreError, match=r"no run .* among 5\. The nearest ids: ") as caught:
        show(study(more_runs=MORE), asked)
    message = str(caught.value)
    assert "\n" not in message and "\x00" not in message and len(message) < 200
    assert asked != "abd222" or "ids: abc222" in message


def test_among_many_ids_the_nearest_is_found_quickly():
    ids = [f"{i * 2654435761 % 2**40:010x}" for i in range(30_000)]
    data = study(more_runs=[RUN | {"run_id": i} for i in ids])
    wrong = ids[777][:5] + "zz" + ids[777][7:]
    began = time.perf_counter()
    with pytest.raises(StoreError, match=ids[777]):
        show(data, wrong)
    assert time.perf_counter() - began < 2


def test_a_study_without_runs_says_so():
    empty = Dataset("none", {}, simulated=False, kind="imported")
    with pytest.raises(StoreError, match="holds no runs yet"):
        show(empty, "abc")


# -- the rest ---------------------------------------------------------------------------------------------


def test_a_run_without_messages_labels_and_calls_has_a_page():
    page = show(study(messages=[]), "abc111")
    assert "There are no messages." in page.html and "Model calls" not in page.html and "Annotations" not in page.html


def test_annotations_reviews_and_calls_stand_at_the_end():
    page = show(
        study(
            annotations=[
                {
                    "run_id": "abc111",
                    "annotator": "rules",
                    "repeat": 0,
                    "agent": 1,
                    "feature": "politeness",
                    "value": 0.5,
                }
            ],
            reviews=[
                {"run_id": "abc111", "reviewer": "person:2", "old_score": 0.0, "new_score": 0.5, "reason": "firm"}
            ],
            calls=[{"run_id": "abc111", "index": 0, "seat": "Robin", "purpose": "play", "model_asked": "model-one"}],
        ),
        "abc111",
    )
    seen = Seen(page.html).text
    assert seen.index("Good.") < seen.index("firm") < seen.index("politeness") < seen.index("Model calls (1)")
    assert "person:2 · 0 -> 0.5 · firm" in page.text and "politeness · 0.5" in page.text


def test_a_run_that_is_stored_twice_is_shown_once_and_said():
    page = show(study(more_runs=[RUN]), "abc111")
    assert "2 rows have this run id" in page.html and "2 rows have this run id" in page.text


def test_text_keeps_to_its_width_and_maps_are_never_broken():
    rows = events(("a", "under_test", "word " * 400 + "\n" + "@ - #\n- # -\n- - *"), ("b", "partner", "x" * 1000))
    text = show(study(messages=rows, labels=LABELS), "abc111").as_text(60)
    assert max(len(line) for line in text.splitlines()) <= 60
    assert "  @ - #\n  - # -\n  - - *\n" in text


def test_a_long_text_is_cut_between_words_in_every_form():
    task = "start " + "carefully " * 700
    call = {"seat": "me", "seat_kind": "under_test", "kind": "tool_call", "tool": "t", "tool_input_json": task}
    result = {"seat": "me", "seat_kind": "environment", "kind": "tool_result", "tool": "t", "tool_output": task}
    page = show(study(messages=events(("user", "user", task), ("me", "under_test", task), call, result)), "abc111")
    for form in (page.text, page.as_text(47), Seen(page.html).text):
        words_of_it = [w.strip('.,;()[]"…') for w in form.split() if w.startswith("c")]
        assert "carefully" in words_of_it
        assert not [w for w in words_of_it if w and w != "carefully" and "carefully".startswith(w)]


def test_lines_that_were_broken_by_hand_are_wrapped_as_one_paragraph():
    sentence = "The pump was closed at noon and the night crew opened it again before anybody had read the log of it. "
    said = textwrap.fill(sentence * 4, 108) + "\n\n" + "- " + textwrap.fill(sentence * 2, 106, subsequent_indent="  ")
    text = show(study(messages=events(("a", "under_test", said))), "abc111").as_text(80)
    lines = text[text.index("  The pump") :].rstrip().split("\n")
    prose, item = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert " ".join(" ".join(prose).split()) == (sentence * 4).strip()
    assert min(len(line) for line in prose[:-1]) > 60 and max(len(line) for line in prose) <= 80
    assert " ".join(" ".join(item).split()) == "- " + (sentence * 2).strip()
    assert item[0].startswith("  - The") and all(line.startswith("    ") for line in item[1:])
    assert min(len(line) for line in item[:-1]) > 60


@pytest.mark.parametrize(
    "kept",
    [
        ["Dear all,", "the pump is closed.", "Dana"],
        ["1. first", "2) second", "* third", "a) fourth", "| a | b |", "> said", "# head"],
        ["```", "def f(x):", "    return x", "```"],
        ["Do this:", "    x = 1", "    y = 2"],
        ["@ - #", "- # -", "- - *"],
    ],
)
def test_short_lines_lists_code_and_maps_keep_their_lines_beside_a_long_one(kept):
    long = "word " * 21 + "end."
    for said in ("\n".join(kept), "\n".join([*kept, "", long]), "\n".join([long, "", *kept])):
        text = show(study(messages=events(("a", "under_test", said))), "abc111").as_text(80)
        assert "\n".join(f"  {line}" for line in kept) + "\n" in text


def test_lines_that_are_paragraphs_of_their_own_are_never_joined():
    said = "First " + "word " * 60 + "end.\nSecond " + "word " * 40 + "end.\nThird."
    text = show(study(messages=events(("a", "under_test", said))), "abc111").as_text(80)
    assert "\n  Second word" in text and "\n  Third.\n" in text


def test_a_page_is_saved_as_it_is_and_a_place_that_cannot_be_written_is_one_line(tmp_path):
    page = show(study(), "abc111")
    assert page.save(tmp_path / "new" / "run.html").read_text(encoding="utf-8") == page.html
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        page.save(tmp_path / "file" / "run.html")


def test_a_blind_page_ends_with_the_message_and_names_no_model_no_label_no_verdict():
    rows = [*TALK, *events(*[("x", "user", "")] * 6, ("model-one", "under_test", "My last words."))[6:]]
    data = study(messages=rows, labels=LABELS)
    page = show_blind(data, "abc111", name="item 4", until=4)
    for form in (page.html, page.text, page._repr_html_(), repr(page)):
        assert not re.search("model-one|judge-a|concedes|gives way|Failed|took_offer|abc111|1,234|0.0125|Good", form)
    assert "the message to label" in rows_below(page, "Fine, take it.") and ">>> the message to label" in page.text
    whole = show_blind(data, "abc111", name="item 4")
    assert "My last words." in whole.html and "agent 1" in whole.html and "model-one" not in whole.html + whole.text


def test_a_blind_page_leaves_out_what_holds_a_verdict_and_a_full_page_shows_it():
    step = {"from": "asks", "label": "concedes", "votes": {"referee": "concedes"}, "to": "branch_b", "held_back": False}
    judged = events(("script", "environment", json.dumps(step)), ("g", "grader", "It failed."))
    rows = [*TALK, *(row | {"index": 6 + row["index"]} for row in judged)]
    blind = show_blind(study(messages=rows), "abc111", name="item 4")
    for form in (blind.html, blind.text):
        assert not re.search(r"concedes|branch_b|It failed|\bscript\b", form) and "Fine, take it." in form
    assert "branch_b" in show(study(messages=rows), "abc111").text


def test_who_judges_a_message_gets_the_whole_text_before_it():
    rows = events(("user", "user", "start " + "task " * 1000 + "end of task"), ("me", "under_test", "Fine."))
    data = study(messages=rows)
    assert "end of task" not in show(data, "abc111").text
    assert "end of task" in show_blind(data, "abc111", name="item", until=1).text


def test_a_played_study_on_disk_shows_its_runs(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nblocks:\n  - benchmark: maze\n    models: [sim/strong]\n    mazes: {count: 1}\n", encoding="utf-8"
    )
    cilab.run_study(path, out=tmp_path / "data", show_progress=False)
    opened = cilab.open(tmp_path / "data")
    for run_id, version in opened.runs.select("run_id", "version").collect().iter_rows():
        page = show(opened, run_id[:12])
        assert page.simulated and page.text.count("Maze, ") == (1 if version == "solo_full" else 3)


def test_a_run_of_500_messages_is_shown_in_less_than_a_third_of_a_second(tmp_path):
    kinds = ("under_test", "scripted", "partner")
    rows = events(*[(f"seat {i % 3}", kinds[i % 3], f"Message {i}: " + "some words " * 40) for i in range(500)])
    labels = [
        LABELS[2] | {"index": i, "rater": rater} for i in range(0, 500, 3) for rater in ("referee", "second", "final")
    ]
    opened = cilab.open(study(messages=rows, labels=labels).save(tmp_path / "study"))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        html = show(opened, "abc111").html
        times.append(time.perf_counter() - began)
    assert html.count("<article") == 500 and html.count("<table") == 167
    assert min(times) < 0.3, times
