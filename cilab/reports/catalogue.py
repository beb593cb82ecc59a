"""The reports that come with cilab: their names, headings, notebooks and parameters.

May import `cilab.core` and `cilab.reports.lean`; nbformat and papermill are imported inside functions. Runs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cilab.core.errors import ReportError, nearest
from cilab.reports.lean import import_lean

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: The number before a notebook's name orders the folder in JupyterLab; a report goes without it.
_NUMBER = re.compile(r"^\d+_")


@dataclass(frozen=True, slots=True)
class ReportInfo:
    """A report that can be rendered: its name, the notebook's heading, and the notebook."""

    name: str
    title: str
    path: Path


def list_reports() -> dict[str, str]:
    """Name -> heading of every notebook that comes with cilab and has a cell tagged `parameters`."""
    return {name: report.title for name, report in _reports().items()}


def _reports() -> dict[str, ReportInfo]:
    from cilab.core import paths

    found = {}
    for path in sorted(paths.shipped("notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if any("parameters" in cell["metadata"].get("tags", []) for cell in cells):
            name = _NUMBER.sub("", path.stem)
            found[name] = ReportInfo(name, title_of(cells) or name, path)
    return found


def find_report(name: str) -> ReportInfo:
    """The report called `name`.

    Raises
    ------
    ReportError
        There is none; the message names the nearest ones and all.
    """
    known = _reports()
    if name not in known:
        there = ", ".join(known) or "none"
        raise ReportError(f"no report named {name!r}.{nearest(str(name), [*known])} There are: {there}")
    return known[name]


def parameters(name: str) -> dict[str, str]:
    """Names of a report's parameters and their defaults, as written in the notebook."""
    return defaults(find_report(name))


def defaults(report: ReportInfo) -> dict[str, str]:
    """As `parameters`, of a report that was found already."""
    import_lean("jsonschema"), import_lean("papermill")
    import papermill as pm

    # Papermill formats paths that it is given; a notebook is left alone.
    return {k: p["default"] for k, p in pm.inspect_notebook(read(report.path)).items()}


def read(path: Path) -> NotebookNode:
    """A notebook from its file."""
    import_lean("jsonschema")
    import nbformat

    return nbformat.read(path, as_version=4)


def title_of(cells: Sequence[Mapping[str, Any]]) -> str | None:
    """Text of the first first-level heading."""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return None
