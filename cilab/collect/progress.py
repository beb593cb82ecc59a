"""Live progress in a terminal, a notebook or a log file. Only reads the engine's counts.

May import `cilab.collect.engine` for its `Progress`. Runs in the caller's thread, never on the loop.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Protocol

from cilab.collect.engine import Progress

_LOG_SECONDS = 15.0


class Display(Protocol):
    """Shows progress; `update` may be called often."""

    def update(self, progress: Progress) -> None: ...

    def close(self, progress: Progress) -> None: ...


def describe(p: Progress) -> str:
    """The counts in one line: done, failed, refused, waiting, retrying, USD, tokens/s, time left."""
    seconds = max(time.monotonic() - p.started, 1e-6)
    now = p.ok + p.refused + p.gated_out + p.errors
    parts = [f"{p.done}/{p.planned} done"]
    parts += [
        f"{n} {word}"
        for n, word in (
            (p.errors, "failed"),
            (p.refused, "refused"),
            (p.gated_out, "gated out"),
            (p.running, "running"),
            (p.waiting, "waiting"),
            (p.retrying, "retrying"),
        )
        if n
    ]
    parts.append(f"${p.usd:.2f}" + (f" (+{p.unpriced_calls} calls of unknown price)" if p.unpriced_calls else ""))
    parts.append(f"{p.tokens_out / seconds:.0f} tokens/s")
    left = p.planned - p.done - p.errors
    if now and left > 0:
        parts.append(f"about {_duration(seconds / now * left)} left")
    if p.note:
        parts.append(p.note)
    return " · ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class _Silent:
    def update(self, progress: Progress) -> None:
        """Nothing is shown."""

    def close(self, progress: Progress) -> None:
        """Nothing is shown."""


class _Log:
    """A line now and then, for output that is no terminal."""

    def __init__(self, stream: Any):
        self._stream, self._last = stream, time.monotonic()

    def update(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            print(describe(progress), file=self._stream, flush=True)

    def close(self, progress: Progress) -> None:
        print(describe(progress), file=self._stream, flush=True)


class _Terminal:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def update(self, progress: Progress) -> None:
        self._bar.update(
            self._task, total=progress.planned or None, completed=progress.done, description=describe(progress)
        )

    def close(self, progress: Progress) -> None:
        self.update(progress)
        self._bar.stop()


class _Notebook:
    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML("starting"), display_id=True)
        self._last = 0.0

    def update(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= 0.5:
            self._last = time.monotonic()
            self._draw(progress)

    def close(self, progress: Progress) -> None:
        self._draw(progress)

    def _draw(self, p: Progress) -> None:
        bar = f'<progress max="{max(p.planned, 1)}" value="{p.done}" style="width:16em"></progress> '
        self._handle.update(self._html(bar + html.escape(describe(p))))


def display(show: bool = True) -> Display:
    """The display that fits where this runs."""
    if not show:
        return _Silent()
    if "IPython" in sys.modules:
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell":
            return _Notebook()
    return _Terminal() if sys.stderr.isatty() else _Log(sys.stderr)
