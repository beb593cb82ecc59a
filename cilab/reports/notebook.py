"""What a notebook of a report calls: data, the header, an attempt, a table; and the records that it leaves.

May import `cilab.datasets`, `cilab.store`, `cilab.show`, `cilab.results` and `cilab.core`. Computes nothing itself.
"""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from cilab.core.errors import CilabError

if TYPE_CHECKING:
    import polars as pl

#: Data sets that a notebook's `data` parameter may name instead of a folder; each is a function of `cilab.datasets`.
DATA_SETS = ("simulated_mazes", "simulated_release", "published_round", "hand_worked_round")
#: Type of the outputs in which a notebook leaves records for `render`; they are taken out of the report.
RECORD = "application/vnd.cilab.record+json"


def load(data: str | os.PathLike[str]) -> Any:
    """What a notebook's `data` parameter names: a data set of `DATA_SETS`, or a study's folder.

    Parameters
    ----------
    data : name of a data set, or what `cilab.open` takes.

    Returns
    -------
    Dataset or Study
        Both have the tables, `.sql`, `.show`, `.name`, `.data_hash`, `.simulated` and `.last_finished_at`.

    Raises
    ------
    StoreError
        `data` is neither.
    """
    from cilab import datasets, store
    from cilab.show import show

    if data in DATA_SETS:
        return getattr(datasets, str(data))()
    return store.open_study(data, page=show)


class Header:
    """What a report stands on, said first. Made by `header`; prints as HTML or text."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = dict(facts)

    def __repr__(self) -> str:
        f = self.facts
        mark = "SIMULATED AGENTS. " if f["simulated"] else ""
        counts = ", ".join(f"{n:,} {status}" for status, n in f["runs"].items()) or "none"
        last = f["last_finished_at"] or "unknown"
        return (
            f"{mark}Study {f['study']}: rollouts {counts}. Data {f['data_hash']}, last rollout finished {last}, "
            f"cilab {f['code_version']}."
        )

    def _repr_html_(self) -> str:
        from cilab.results.sheet import WARNING_INK

        text = repr(self).removeprefix("SIMULATED AGENTS. ")
        warning = (
            f'<strong style="color:{WARNING_INK}">Simulated agents.</strong> '
            "They are programs with a known ability; these numbers say nothing about any real model. "
        )
        color = WARNING_INK if self.facts["simulated"] else "#808080"
        return (
            f'<div class="cilab-header" style="border-left:3px solid {color};padding:.2em .8em;margin:.5em 0">'
            f"{warning if self.facts['simulated'] else ''}{html.escape(text)}</div>"
        )


def header(study: Any) -> Header:
    """What the report stands on: study, rollouts by status, data hash, last finished, whether simulated.

    Parameters
    ----------
    study : an opened study (`cilab.open`).
    """
    from cilab.core.version import __version__

    counts = study.runs.select("status").collect()["status"].value_counts().sort("status")
    last = study.last_finished_at
    facts = {
        "study": study.name,
        "simulated": bool(study.simulated),
        "data_hash": study.data_hash,
        "last_finished_at": None if last is None else last.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "runs": dict(counts.rows()),
        "code_version": __version__,
    }
    tell("header", facts)
    return Header(facts)


class NotComputed:
    """Why there is no result, in one line. Made by `attempt`; false, where every result is true."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Not computed: {self.reason}"

    def _repr_html_(self) -> str:
        style = "border-left:3px solid #808080;padding:.2em .8em;margin:.5em 0"
        return f'<div class="cilab-not-computed" style="{style}">{html.escape(repr(self))}</div>'


def attempt(compute: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """`compute(*args, **settings)`, or one line on why these data cannot give it.

    For notebooks that run on any data: labels, costs or repeats may be missing. Only a `CilabError` is caught, which
    says what is wrong with the data or the settings in one line; anything else is a fault and stays one. What was not
    computed stands in the report where the result would, and in `RenderedReport.not_computed`.

    Returns
    -------
    What `compute` returns, or a `NotComputed`, which is false.

    Examples
    --------
    >>> import polars as pl
    >>> import cilab
    >>> attempt(cilab.gap, pl.DataFrame({"model": []}))
    Not computed: runs: missing column version, partner_model, status, weighted_outcome. Did you mean model?
    """
    try:
        return compute(*args, **settings)
    except CilabError as e:
        tell("not_computed", str(e))
        return NotComputed(str(e))


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A frame as a report prints it. Made by `table`."""

    frame: pl.DataFrame
    title: str = ""

    def __repr__(self) -> str:
        from cilab.results.sheet import readable

        return str(readable(self.frame))

    def _repr_html_(self) -> str:
        from cilab.results.sheet import html_table, readable

        return html_table(readable(self.frame), title=self.title)


def table(frame: pl.DataFrame, title: str = "") -> Table:
    """A frame of one's own in words: headings for columns, rounded numbers, every row, long texts in lines.

    Parameters
    ----------
    frame : polars DataFrame.
    title : what stands above it.
    """
    return Table(frame, title)


def tell(kind: str, value: Any) -> None:
    """Leave a record in the notebook for `render`; does nothing outside a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        from IPython.display import display

        display({RECORD: {"kind": kind, "value": value}}, raw=True)
