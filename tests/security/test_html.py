"""Pages are inert whatever a model wrote: checked in a real browser."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime

import pytest

import cilab
from cilab import reports, store
from cilab.core import paths, tables
from cilab.reports import batch as report_all
from tests.faults import notebooks

#: Each sets `window.hit` if it runs, or asks for something from elsewhere.
SCRIPTS = (
    "<script>window.hit = 1</script>",
    "</main></body></html><script>window.hit = 2</script>",
    "<img src=x onerror='window.hit = 3'>",
    "<svg onload=window.hit=4><circle r=9 /></svg>",
    "<a href='javascript:window.hit=5' id=trap>look here</a>",
    "[look](javascript:window.hit=6) ![x](http://127.0.0.1:9/pixel.png)",
    "<iframe srcdoc='<script>parent.hit = 7</script>'></iframe>",
    "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/gone'>",
    "<form action=http://127.0.0.1:9/ ><button autofocus onfocus='window.hit = 8'>x</button></form>",
    "<details open ontoggle='window.hit = 9'><summary>x</summary></details>",
    "<!-- never closed <b>",
    "</pre></code></td></tr></table></details><h1>A verdict of my own</h1>",
    "<textarea><title><plaintext>",
    "${window.hit = 10} {{ constructor.constructor('window.hit = 11')() }}",
    "&lt;script&gt;window.hit = 12&lt;/script&gt; &#60;script&#62;",
    "<math><mtext></p><style><img src=x onerror=window.hit=13></style></mtext></math>",
    "```html\n<script>window.hit = 14</script>\n```",
)
BIDI = "safe\u202eevil\u2066 and \u200bnothing\u2069 \ufeff \x1b[31mred\x07 \u2028next"
TEXTS = (*SCRIPTS, BIDI)


@pytest.fixture(scope="module")
def browser():
    """A real browser; the tests are left out where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if path is None:
        pytest.skip("no browser here: apt-get install chromium")
    with playwright.sync_playwright() as p:
        running = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A study in which everything that a model, a user or a judge can word is hostile; its folder."""
    folder = tmp_path_factory.mktemp("hostile") / "study"
    folder.mkdir()
    at = datetime(2026, 10, 9, 12, tzinfo=UTC)
    evil = SCRIPTS[1]
    run = {"run_id": "r1", "study": evil, "benchmark": "teamwork", "task_id": SCRIPTS[2], "version": "test"}
    run |= {"model": SCRIPTS[3], "partner_model": SCRIPTS[0], "seed": 0, "status": "ok", "score": 0.0, "passed": False}
    run |= {"dimension": "sharing_information", "arm": SCRIPTS[4], "effort": SCRIPTS[6], "ended": SCRIPTS[9]}
    run |= {"outcome": SCRIPTS[11], "evidence": ["did_pushed_thing"], "started_at": at, "finished_at": at}
    run |= {"source_family": evil, "spec_json": json.dumps({"a": evil}), "rule_version": evil}
    kinds = ("under_test", "scripted", "partner", "environment", "user", "grader")
    messages = []
    for i, text in enumerate(TEXTS):
        row = {"run_id": "r1", "index": len(messages), "round": 1, "kind": "message", "seat": text[:60]}
        row |= {"seat_kind": kinds[i % len(kinds)], "model": text[:60], "content": text, "delivered_to": [text[:40]]}
        messages.append(row)
        tool = {"run_id": "r1", "round": 2, "seat": "you", "tool": text[:60]}
        call = {"index": len(messages), "kind": "tool_call", "seat_kind": "under_test"}
        messages.append(tool | call | {"tool_input_json": json.dumps({"path": text, text: [text]})})
        result = {"index": len(messages), "kind": "tool_result", "seat_kind": "environment", "tool_output": text}
        messages.append(tool | result)
    # Long texts are folded, and cut in the middle of a payload.
    messages.append({**messages[0], "index": len(messages), "content": "x" * 680 + evil * 200})
    labels = [
        {"run_id": "r1", "index": 3 * i, "rater": f"person:{i}", "model": text[:60], "label": text, "reason": text}
        for i, text in enumerate(TEXTS)
    ]
    calls = [
        {"run_id": "r1", "index": 0, "seat": evil, "purpose": "play", "model_asked": evil, "model_returned": evil}
        | {"wire_json": json.dumps({"messages": [{"role": "user", "content": evil}]}), "finish_reason": evil}
        | {"error": evil, "retries": 0}
    ]
    reviews = [{"run_id": "r1", "reviewer": evil, "old_score": 0.0, "new_score": 1.0, "reason": evil, "at": at}]
    notes = [{"run_id": "r1", "annotator": evil, "repeat": 0, "agent": 1, "feature": evil, "value": 1.0, "text": evil}]
    rows = {"runs": [run], "messages": messages, "labels": labels, "calls": calls, "reviews": reviews}
    rows["annotations"] = notes
    store.write_group(folder, {name: tables.frame(name, found) for name, found in rows.items()})
    return folder


def visit(browser, page_path):
    """Open a page, look at it, press everything that can be pressed; what happened."""
    page = browser.new_page()
    asked, dialogs = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    page.goto(page_path.resolve().as_uri())
    for details in page.locator("details:not([open]) > summary").all()[:40]:
        if details.is_visible():
            details.click()
    for link in page.locator("a[href^='javascript:' i]").all():
        link.evaluate("a => a.click()")
    page.wait_for_timeout(200)
    seen = page.evaluate(
        """() => ({
            hit: window.hit ?? null,
            scripts: document.querySelectorAll('script').length,
            handlers: [...document.querySelectorAll('*')].filter(
                e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
            links: document.querySelectorAll("a[href^='javascript:' i]").length,
            frames: document.querySelectorAll('iframe, object, embed, form, base').length,
            mains: document.querySelectorAll('main').length,
            outside: [...document.body.children].filter(e => e.tagName !== 'MAIN' && e.tagName !== 'FOOTER').length,
            headings: [...document.querySelectorAll('h1')].map(e => e.innerText),
            text: document.body.textContent,
            url: document.location.href,
        })"""
    )
    elsewhere = [url for url in asked if not url.startswith(("file:", "data:"))]
    page.close()
    return seen | {"elsewhere": elsewhere, "dialogs": dialogs}


def test_the_page_of_a_run_shows_hostile_words_and_obeys_none(hostile, browser, tmp_path):
    page = cilab.open(hostile).show("r1")
    page.save(tmp_path / "run.html")
    seen = visit(browser, tmp_path / "run.html")
    assert (seen["hit"], seen["elsewhere"], seen["dialogs"]) == (None, [], [])
    assert (seen["scripts"], seen["handlers"], seen["links"], seen["frames"]) == (0, 0, 0, 0)
    assert (seen["mains"], seen["outside"], len(seen["headings"])) == (1, 0, 1)
    assert seen["url"].endswith("run.html")
    for text in SCRIPTS:
        for line in text.split("\n"):
            if not line.startswith("```"):
                assert line in seen["text"], line
    assert not set(seen["text"]) & set("\u202e\u2066\u2069\u200b\ufeff\x1b\x07\u2028")
    assert "⟨U+202E⟩" in seen["text"]


def test_a_run_shown_inside_a_notebook_brings_no_script_into_it(hostile, browser, tmp_path):
    inside = cilab.open(hostile).show("r1")._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8><body>{inside}</body>", encoding="utf-8")
    seen = visit(browser, tmp_path / "cell.html")  # without the page's own policy
    assert (seen["hit"], seen["elsewhere"], seen["dialogs"]) == (None, [], [])
    assert (seen["scripts"], seen["handlers"], seen["links"], seen["frames"]) == (0, 0, 0, 0)


#: What a notebook shows of a study: tables of every kind, a run, text.
SHOWN = """
import cilab
from cilab import reports
from IPython.display import display
study = reports.load(data)
display(reports.header(study))
display(study.table("messages").collect(), study.table("labels").collect().to_pandas())
display(study.show("r1"), study)
display(study.sql("select content, tool_output from messages"))
print(study.table("messages").collect()["content"].to_list())
"""
#: A notebook whose author takes a model's words for HTML: the page's policy stops what would run.
RAW = """
import cilab
from IPython.display import HTML, Markdown, display
for text in cilab.open(data).table("messages").collect()["content"].drop_nulls():
    if "http-equiv" not in text:
        display(HTML(text), Markdown(text))
"""


@pytest.fixture
def rendered(hostile, tmp_path, monkeypatch):
    """Renders a notebook on the hostile study; the page."""
    monkeypatch.setenv(notebooks.ROOT, str(tmp_path / "root"))
    monkeypatch.setattr(paths, "shipped", notebooks.shipped)

    def make(source):
        notebooks.write(tmp_path / "root", "hostile", source, parameters=f"data = {str(hostile)!r}")
        return reports.render("hostile", out=tmp_path / "reports", figures=tmp_path / "figures").html

    return make


def test_a_report_on_a_hostile_study_and_the_index_run_nothing_and_ask_nobody(rendered, browser):
    page = rendered(SHOWN)
    report_all.write_index(page.parent, failed={"other": f"report other: {SCRIPTS[0]} {SCRIPTS[2]}"})
    for path in (page, page.with_name("index.html")):
        seen = visit(browser, path)
        assert (seen["hit"], seen["elsewhere"], seen["dialogs"]) == (None, [], []), path
        assert (seen["scripts"], seen["handlers"], seen["links"], seen["frames"]) == (0, 0, 0, 0), path
        assert seen["url"].endswith(path.name)


def test_a_report_that_shows_a_models_words_as_html_runs_none_of_them(rendered, browser):
    seen = visit(browser, rendered(RAW))
    assert seen["scripts"] and seen["handlers"], "they are in the page"
    assert (seen["hit"], seen["dialogs"]) == (None, [])


def test_the_browser_would_have_told(browser, tmp_path):
    (tmp_path / "open.html").write_text(f"<!doctype html><body>{''.join(SCRIPTS[:7])}</body>")
    seen = visit(browser, tmp_path / "open.html")
    assert seen["hit"] is not None and seen["scripts"] and seen["handlers"] and seen["links"] and seen["frames"]
