"""Reports of the tests' own, in the place of those that come with cilab, for this process and for a pool's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from cilab import reports
from cilab.core import paths

#: Environment variable with the folder that stands for the project's root.
ROOT = "FAULT_NOTEBOOKS"


def shipped(relative: str | Path) -> Path:
    """In the place of `cilab.core.paths.shipped`."""
    return Path(os.environ[ROOT]) / relative


def render(name: str, *, data: Any, params: Mapping[str, Any], out: str, figures: str) -> reports.RenderedReport:
    """In the place of the function that a pool's process calls."""
    paths.shipped = shipped
    return reports.render(name, data=data, params=params, out=out, figures=figures)


def write(root: Path, name: str, source: str, parameters: str = "n = 1") -> None:
    """A report with one cell below its parameters."""
    cells = [
        new_markdown_cell(f"# Report {name}", id="title"),
        new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]}),
        new_code_cell(source, id="cell"),
    ]
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    target = root / "notebooks" / f"{name}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), target)
