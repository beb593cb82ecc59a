"""What the progress line says, and where it is shown."""

from __future__ import annotations

import io
import sys
import time
import types

import pytest

from cilab.collect import progress as shown
from cilab.collect.engine import Progress
from cilab.collect.progress import describe, display


def progress(**counts):
    started = time.monotonic() - counts.pop("seconds", 100.0)
    return Progress(started=started, **counts)


def test_the_line_counts_what_is_done_failed_refused_running_waiting_and_retrying():
    line = describe(
        progress(
            planned=100,
            stored=5,
            ok=10,
            refused=2,
            gated_out=3,
            errors=4,
            running=6,
            waiting=7,
            retrying=8,
            usd=1.5,
            tokens_out=2000,
        )
    )
    for part in (
        "20/100 done",
        "4 failed",
        "2 refused",
        "3 gated out",
        "6 running",
        "7 waiting",
        "8 retrying",
        "$1.50",
    ):
        assert part in line
    assert "20 tokens/s" in line and "\n" not in line


def test_counts_of_zero_are_left_out():
    line = describe(progress(planned=10, ok=10))
    assert line.startswith("10/10 done · $0.00") and "failed" not in line and "left" not in line


def test_calls_of_unknown_price_are_told_beside_the_sum():
    assert "$0.25 (+3 calls of unknown price)" in describe(progress(planned=1, usd=0.25, unpriced_calls=3))


@pytest.mark.parametrize(
    ("planned", "left"), [(20, "about 50 s left"), (70, "about 5 min left"), (2000, "about 2.8 h left"), (10, None)]
)
def test_the_time_left_follows_from_this_sessions_pace(planned, left):
    line = describe(progress(planned=planned, ok=10, seconds=50))
    assert (left in line) if left else ("left" not in line)


def test_runs_of_earlier_sessions_do_not_flatter_the_time_left():
    assert "about 50 s left" in describe(progress(planned=1010, stored=1000, ok=5, seconds=50))


def test_no_time_is_told_before_the_first_rollout():
    assert "left" not in describe(progress(planned=10, running=3))


def test_the_note_of_a_stop_is_shown():
    assert describe(progress(planned=3, note="stopping after the calls in flight")).endswith(
        "stopping after the calls in flight"
    )


def test_nothing_is_shown_when_nobody_asks(capsys):
    view = display(False)
    view.update(progress())
    view.close(progress())
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    view = display()
    for _ in range(50):
        view.update(progress(planned=3, ok=1))
    assert stream.getvalue() == ""
    monkeypatch.setattr(shown, "_LOG_SECONDS", 0.0)
    view.update(progress(planned=3, ok=1))
    view.close(progress(planned=3, ok=3))
    lines = stream.getvalue().splitlines()
    assert [line[:8] for line in lines] == ["1/3 done", "3/3 done"]


def test_a_terminal_gets_a_bar_on_standard_error(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "200")
    view = display()
    view.update(progress(planned=4, ok=1))
    view.close(progress(planned=4, ok=4, note="[bold]stopped[/bold]"))
    assert "4/4 done" in stream.getvalue() and "[bold]stopped" in stream.getvalue()
    assert capsys.readouterr().out == ""


def test_a_notebook_gets_a_bar_that_is_redrawn_in_place(monkeypatch):
    drawn = []
    handle = types.SimpleNamespace(update=drawn.append)
    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    parts = types.ModuleType("IPython.display")
    parts.HTML, parts.display = str, lambda html, display_id: handle
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    view = display()
    for _ in range(50):
        view.update(progress(planned=4, ok=1))
    view.close(progress(planned=4, ok=4, note="<b>stopped</b>"))
    assert len(drawn) == 2  # one while it runs, however often it is asked, and one at the end
    assert 'max="4" value="4"' in drawn[-1] and "4/4 done" in drawn[-1]
    assert "&lt;b&gt;stopped" in drawn[-1]
