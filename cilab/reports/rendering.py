"""Reports: a notebook and its parameters become an executed notebook, an HTML page without code, and figures.

May import everything but `cilab.shell.app`. Never computes a number and never calls a model: the notebook does what it
does through the package. Papermill, nbconvert and jupyter_client are imported inside functions.

Same input, same bytes
    Nothing that a report writes holds the time of rendering, the current folder or a random id: cell ids are fixed,
    papermill's timing is taken out, hashes in SVG are salted, PDF has no creation date, what cells print to stderr
    (warnings name files of this machine) goes to the side log, and paths below the workspace (the folder that holds
    the output folder) are written relative to the output folder, which is also where the kernel runs. When and how
    long a report was rendered stands in `render.log` beside it.
"""

from __future__ import annotations

import base64
import html
import importlib
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from cilab.core.errors import CilabError, ReportError, nearest
from cilab.core.redact import hide_values, redact

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from nbconvert import HTMLExporter
    from nbformat import NotebookNode

    from cilab.results.result import Result

#: Called with (cells begun, cells in all, words) while a report is rendered.
Progress = Callable[[int, int, str], None]

#: Seconds that the kernel may take to start, and one cell to run.
START_TIMEOUT_S = 120
CELL_TIMEOUT_S = 900

FORMATS = ("png", "svg", "pdf")
#: Packed in two thirds of the time, a tenth larger.
_OPTIONS = {"png": {"pil_kwargs": {"compress_level": 3}}}
_INLINE = ("inline", "matplotlib_inline.backend_inline")
#: Data sets that a notebook's `data` parameter may name instead of a folder; each is a function of `cilab.datasets`.
DATA_SETS = ("simulated_mazes", "simulated_release", "published_round", "hand_worked_round")
#: jsonschema compiles a grammar of international URLs (3 s), papermill loads clients of file systems (0.5 s).
_NOT_NEEDED = {"jsonschema": ("rfc3987_syntax",), "papermill": ("pyarrow.fs", "boto3")}
_RECORD = "application/vnd.cilab.record+json"
#: Greatest side of a report's small picture, pixels, and characters in which the head of a page ends.
_THUMBNAIL, _HEAD = 480, 1_000_000
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*$")
#: The number before a notebook's name orders the folder in JupyterLab; a report goes without it.
_NUMBER = re.compile(r"^\d+_")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class ReportInfo:
    """A report that can be rendered: its name, the notebook's heading, and the notebook."""

    name: str
    title: str
    path: Path


@dataclass(frozen=True, slots=True)
class RenderedReport:
    """What `render` wrote.

    Attributes
    ----------
    html, notebook : the page without code, and the executed notebook.
    figures : every figure file, in the order in which the notebook saved them.
    warnings : what the cells printed to stderr, line by line (it is in `render.log` too, not in the report).
    not_computed : what these data could not give, one line each, as the report says it (see `attempt`).
    """

    html: Path
    notebook: Path
    figures: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = field(default=(), repr=False)
    not_computed: tuple[str, ...] = field(default=(), repr=False)

    @property
    def empty(self) -> bool:
        """Whether nothing at all came out: no figure, and something that these data or parameters could not give."""
        return bool(self.not_computed) and not self.figures


# -- what there is ------------------------------------------------------------------------------------


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
            found[name] = ReportInfo(name, _title(cells) or name, path)
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


def _title(cells: Sequence[Mapping[str, Any]]) -> str | None:
    """Text of the first first-level heading."""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return None


# -- what a notebook calls ----------------------------------------------------------------------------


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
    _tell("header", facts)
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
        _tell("not_computed", str(e))
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


def save(figure: Axes | Figure, name: str, *, result: Result, folder: str | os.PathLike[str] = "") -> tuple[Path, ...]:
    """Write a figure as PNG, SVG and PDF, with the result's provenance and parameters in each file's metadata.

    A notebook that draws figures below its cells shows the PNG, and does not draw this figure once more.

    Parameters
    ----------
    figure : Axes or Figure, as `result.plot()` returned it.
    name : file name without ending, such as `maze_gap-gap`.
    result : what the figure shows.
    folder : where to; empty saves nothing, which is what one wants while exploring in JupyterLab.

    Returns
    -------
    tuple of Path
        The files written. The same figure gives the same bytes.

    Raises
    ------
    ReportError
        `name` is no plain file name, or the folder cannot be written.
    """
    from cilab.plots.parts import style

    if not os.fspath(folder):
        return ()
    if not _STEM.match(name):
        raise ReportError(f"figure name {name!r}: use letters, digits, '_', '-' and '.' only, without ending")
    fig = figure.get_figure(root=True)
    record = {**result.provenance.as_dict(), "figure": name, "parameters": dict(result.parameters)}
    text = json.dumps(record, sort_keys=True, default=str)
    metadata = {
        "png": {"Title": name, "Description": text},
        "svg": {"Title": name, "Description": text, "Date": None},
        "pdf": {"Title": name, "Subject": text, "CreationDate": None},
    }
    written = []
    with style.context(), _placed(fig), _fonts_of_outlines_only():
        for ending in FORMATS:
            target = Path(folder) / f"{name}.{ending}"
            with _replacing(target) as temporary:
                fig.savefig(temporary, format=ending, metadata=metadata[ending], **_OPTIONS.get(ending, {}))
            written.append(target)
    _show_instead(fig, written[0])
    _tell("figures", [path.name for path in written])
    return tuple(written)


def _show_instead(fig: Figure, png: Path) -> None:
    """In a notebook that draws figures below its cells: the file, where the figure would be drawn once more."""
    import matplotlib

    if matplotlib.get_backend().removeprefix("module://") not in _INLINE:
        return
    import matplotlib.pyplot as plt

    number = getattr(fig, "number", None)  # only figures of pyplot have one, and only they are drawn unasked
    if number is not None and plt.fignum_exists(number):
        from IPython.display import Image, display

        plt.close(fig)
        display(Image(png.read_bytes(), retina=True))


@contextmanager
def _fonts_of_outlines_only() -> Iterator[None]:
    """Fonts go into a PDF without their rules for setting text, which is set by then: half of the time goes there."""
    from fontTools import subset

    load = subset.load_font

    def load_outlines(*args: Any, **options: Any) -> Any:
        font = load(*args, **options)
        for table in {"GSUB", "GPOS", "GDEF"} & {*font.keys()}:
            del font[table]
        return font

    subset.load_font = load_outlines
    try:
        yield
    finally:
        subset.load_font = load


@contextmanager
def _placed(fig: Figure) -> Iterator[None]:
    """Everything has its place within: to find places takes as long as to draw, and each format would look for them."""
    import matplotlib

    from cilab.plots.parts.page import one_warning

    engine, dpi, saved = fig.get_layout_engine(), fig.dpi, matplotlib.rcParams["savefig.dpi"]
    if engine is None:
        yield
        return
    try:
        fig.dpi = dpi if saved == "figure" else saved  # the size of letters is rounded to pixels
        with one_warning(fig):
            engine.execute(fig)
        fig.dpi = dpi
        with matplotlib.rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
            fig.set_layout_engine(None)
        yield
    finally:
        fig.dpi = dpi
        fig.set_layout_engine(engine)


def _tell(kind: str, value: Any) -> None:
    """Leave a record in the notebook for `render`; does nothing outside a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        from IPython.display import display

        display({_RECORD: {"kind": kind, "value": value}}, raw=True)


# -- rendering ----------------------------------------------------------------------------------------


def render(
    name: str,
    *,
    data: str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] = "reports",
    figures: str | os.PathLike[str] = "figures",
    progress: Progress | None = None,
    start_timeout_s: int = START_TIMEOUT_S,
    cell_timeout_s: int = CELL_TIMEOUT_S,
) -> RenderedReport:
    """Run the notebook `name` with these parameters and write the report.

    Parameters
    ----------
    name : a report of `list_reports()`.
    data : the study's folder, or a data set's name (`DATA_SETS`); None keeps the notebook's own default.
    params : values for the notebook's parameters. Paths, dates and NumPy scalars are made plain.
    out : folder of `<name>.ipynb`, `<name>.html` and `render.log`. The kernel runs there.
    figures : folder of the figure files, `<name>-<figure>.png`, `.svg` and `.pdf`.
    progress : called as cells begin.
    start_timeout_s, cell_timeout_s : seconds for the kernel's start and for each cell.

    Returns
    -------
    RenderedReport

    Raises
    ------
    ReportError
        No such report or parameter (the nearest is named), a value that no notebook can hold, a folder that cannot
        be written, a cell that failed (the notebook up to there is kept as `<name>.failed.ipynb`), a timeout.
    """
    report = find_report(name)
    out_dir, figures_dir = Path(out).expanduser(), Path(figures).expanduser()
    asked = {key: normalise(key, value, out_dir) for key, value in (params or {}).items()}
    if data is not None:
        if "data" in asked:
            raise ReportError(f"report {name}: the data are given twice, as data= and as parameter 'data'")
        asked["data"] = _data(data, out_dir)
    known = _parameters(report)
    _refuse_unknown(report, asked, known)
    if "figures_dir" in known:
        asked.setdefault("figures_dir", _portable(figures_dir, out_dir))
    began = time.monotonic()
    _folder(out_dir), _folder(figures_dir)
    exporter = ThreadPoolExecutor(1).submit(_exporter)  # while the kernel runs, this process has nothing to do
    try:
        nb, failure = _execute(report, asked, out_dir, progress, start_timeout_s, cell_timeout_s)
        records, warnings = _clean(nb)
        failed = out_dir / f"{name}.failed.ipynb"
        if failure:
            write_text(failed, _notebook_text(nb))
            raise ReportError(f"report {name}: {failure}. The notebook up to there: {failed}")
        target = RenderedReport(
            html=out_dir / f"{name}.html",
            notebook=out_dir / f"{name}.ipynb",
            figures=tuple(figures_dir / f for kind, value in records if kind == "figures" for f in value),
            warnings=warnings,
            not_computed=tuple(value for kind, value in records if kind == "not_computed"),
        )
        facts = next((value for kind, value in records if kind == "header"), {})
        nb.metadata["cilab"] = {"figures": [path.name for path in target.figures]}
        for left in set(_figures_of(target.notebook)) - {path.name for path in target.figures}:
            (figures_dir / left).unlink(missing_ok=True)  # else it would pass for a figure of this rendering
        write_text(target.notebook, _notebook_text(nb))
        write_text(target.html, _page(nb, report, facts, asked, exporter.result()))
        failed.unlink(missing_ok=True)
    except ReportError as e:
        _log(out_dir, name, asked, began, str(e), ())
        raise
    _log(out_dir, name, asked, began, "done", target.warnings)
    return target


def _figures_of(notebook: Path) -> list[str]:
    """Names of the figure files that the last rendering wrote; none where there is no such notebook."""
    try:
        found = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["cilab"]["figures"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in found if Path(str(name)).name == name]


def parameters(name: str) -> dict[str, str]:
    """Names of a report's parameters and their defaults, as written in the notebook."""
    return _parameters(find_report(name))


def _import_lean(package: str) -> None:
    """Import jsonschema or papermill without the optional packages of `_NOT_NEEDED`, which take most of the time.

    Both do without where these are not installed. So they are missing while they are imported.
    """
    if package in sys.modules:
        return
    optional = [name for name in _NOT_NEEDED[package] if name not in sys.modules]
    sys.modules.update(dict.fromkeys(optional))  # type: ignore[arg-type]
    try:
        importlib.import_module(package)
    finally:
        for name in optional:
            del sys.modules[name]


def _parameters(report: ReportInfo) -> dict[str, str]:
    _import_lean("jsonschema"), _import_lean("papermill")
    import papermill as pm

    # Papermill formats paths that it is given; a notebook is left alone.
    return {k: p["default"] for k, p in pm.inspect_notebook(_read(report.path)).items()}


def _read(path: Path) -> NotebookNode:
    _import_lean("jsonschema")
    import nbformat

    return nbformat.read(path, as_version=4)


def _refuse_unknown(report: ReportInfo, asked: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for key in asked:
        if key not in known:
            hint = nearest(key, [*known])
            raise ReportError(f"report {report.name} has no parameter {key!r}.{hint} It takes: {', '.join(known)}")


def normalise(key: str, value: Any, out: Path) -> Any:
    """`value` as what a notebook cell can hold: numbers, text, booleans, None, lists and dicts of them.

    Raises
    ------
    ReportError
        There is no such form; the message names the parameter and the type.
    """
    if value is None or (isinstance(value, (bool, int, float, str)) and type(value).__module__ == "builtins"):
        return value
    if isinstance(value, os.PathLike):
        return _portable(Path(value), out)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): normalise(f"{key}.{k}", v, out) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((normalise(key, v, out) for v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [normalise(key, v, out) for v in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, without importing NumPy
        return normalise(key, value.tolist(), out)
    raise ReportError(f"parameter {key!r} is a {type(value).__name__}; give a number, text, path, date or list")


def _data(data: str | os.PathLike[str], out: Path) -> str:
    """A folder as a portable path; a name of `DATA_SETS` stays, unless there is a folder of that name."""
    path = Path(data)
    if path.exists():
        return _portable(path, out)
    if os.fspath(data) in DATA_SETS:
        return os.fspath(data)
    there = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
    near = nearest(path.name, [*there, *DATA_SETS])
    raise ReportError(f"{path}: no such folder of data.{near}")


def _portable(path: Path, out: Path) -> str:
    """`path` relative to `out` where both are in one workspace, else absolute: never by the current folder."""
    path, out = path.expanduser().resolve(), out.resolve()
    if path.is_relative_to(out.parent):
        return Path(os.path.relpath(path, out)).as_posix()
    return path.as_posix()


def _execute(
    report: ReportInfo,
    asked: Mapping[str, Any],
    out: Path,
    progress: Progress | None,
    start_timeout_s: int,
    cell_timeout_s: int,
) -> tuple[NotebookNode, str | None]:
    """The notebook after it ran, and one line on what stopped it (None when nothing did)."""
    import papermill as pm
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    nb = _read(report.path)
    total = sum(cell.cell_type == "code" for cell in nb.cells) + bool(asked)
    begun = 0

    def count(**_: Any) -> None:
        nonlocal begun
        begun += 1
        if progress is not None:
            progress(begun, total, report.title)

    failure = None
    with tempfile.TemporaryDirectory(prefix="cilab-report-") as scratch:
        partial = Path(scratch) / "notebook.ipynb"
        try:
            pm.execute_notebook(
                nb,
                partial,
                parameters=dict(asked),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                start_timeout=start_timeout_s,
                execution_timeout=cell_timeout_s,
                resources={"metadata": {"path": str(out)}},
                kernel_manager_class=_kernel_manager(scratch),
                shutdown_kernel="immediate",  # all that it wrote is there; to say goodbye takes half a second
                extra_arguments=["--InlineBackend.figure_formats=retina", "--IPKernelApp.log_level=CRITICAL"],
                on_cell_execute=count,
            )
        except pm.PapermillExecutionError as e:
            value = _one_line(e.evalue)
            failure = f"cell {e.exec_count} failed with {e.ename}" + (f": {value}" if value else "")
        except CellTimeoutError:
            failure = f"a cell took longer than {cell_timeout_s} s"
        except DeadKernelError:
            failure = "the kernel died (out of memory, or killed from outside)"
        except (RuntimeError, NoSuchKernel) as e:
            failure = f"the kernel did not start: {_one_line(str(e))}"
        return (_read(partial) if partial.exists() else nb), failure


def _kernel_manager(scratch: str) -> type:
    """Kernel manager that always starts this interpreter, whatever kernels are installed.

    The kernel gets a fixed hash seed, the inline backend and an empty IPython profile, so that nothing of the
    user's own set-up enters a report. Its sockets are encrypted where the installed ZeroMQ can.
    """
    import zmq
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec

    spec = KernelSpec(
        name="python3",
        **get_kernel_dict(),
        env={
            "IPYTHONDIR": scratch,
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "PYTHONHASHSEED": "0",
        },
    )

    class ThisInterpreter(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            if zmq.has("curve"):
                self.transport_encryption = "auto"

        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

    return ThisInterpreter


def _clean(nb: NotebookNode) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
    """Take out of `nb` what differs from one rendering to the next; return the records and the stderr lines."""
    records, warnings = [], []
    nb.metadata.pop("papermill", None)
    title = _title(nb.cells)
    for number, cell in enumerate(nb.cells):
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
        elif "papermill-error-cell-tag" in cell.metadata.get("tags", []):
            cell["id"] = f"error-{number}"
        kept = []
        for output in cell.get("outputs", []):
            record = output.get("data", {}).get(_RECORD)
            if record is not None:
                records.append((record["kind"], record["value"]))
            elif output.output_type == "stream" and output.name == "stderr":
                warnings += [line for line in _ANSI.sub("", output.text).splitlines() if line.strip()]
            else:
                if title and "image/png" in output.get("data", {}):
                    output.metadata.setdefault("image/png", {})["alt"] = f"Figure: {title}"
                kept.append(output)
        if "outputs" in cell:
            cell.outputs = kept
    return records, tuple(warnings)


def _notebook_text(nb: NotebookNode) -> str:
    import nbformat

    return hide_values(nbformat.writes(nb).rstrip("\n") + "\n")


# -- the page -----------------------------------------------------------------------------------------

# One file, no script, no font and no picture from elsewhere: it opens the same on a train.
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="cilab $version">
<meta name="cilab:record" content="$record">
<meta name="cilab:thumbnail" content="$thumbnail">
<title>$title</title>
<style>
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: #1f1f1f;
  background: #fff; margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 62rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; letter-spacing: -0.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2rem 0 .5rem; }
p, li { max-width: 46rem; }
a { color: #0b5394; }
img, svg { max-width: 100%; height: auto; }
table { font-size: .875rem; }
code, pre { font: .85em/1.45 ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { overflow-x: auto; background: #f6f6f6; padding: .6rem .8rem; border-radius: 4px; }
.output_area, .output_subarea { margin: .75rem 0; }
table.dataframe { border-collapse: collapse; border: 0; font-variant-numeric: tabular-nums; }
table.dataframe th, table.dataframe td { border: 0; padding: .2em .6em; }
table.dataframe thead { border-bottom: 1px solid #999; }
footer { margin-top: 3rem; padding-top: .75rem; border-top: 1px solid #ccc; color: #555; font-size: .8rem; }
footer p { max-width: none; margin: .2rem 0; overflow-wrap: anywhere; }
@media print { body { padding: 0; max-width: none; font-size: 11px; } figure, img, tr { break-inside: avoid; } }
</style>
</head>
<body>
<main>
$body
</main>
<footer>
$footer
</footer>
</body>
</html>
""")


@cache
def _exporter() -> HTMLExporter:
    """What makes pages, with its templates compiled."""
    from nbconvert import HTMLExporter
    from nbformat.v4 import new_notebook

    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    exporter.from_notebook_node(new_notebook())
    return exporter


def _page(
    nb: NotebookNode,
    report: ReportInfo,
    facts: Mapping[str, Any],
    asked: Mapping[str, Any],
    exporter: HTMLExporter,
) -> str:
    """The notebook as one self-contained HTML page without code."""
    from cilab.core.version import __version__

    body, _ = exporter.from_notebook_node(nb)
    lines = [repr(Header(facts))] if facts else []
    lines.append("Parameters: " + (json.dumps(dict(asked), sort_keys=True)[1:-1] or "the notebook's own") + ".")
    lines.append(f"Rendered by cilab {__version__} from the notebook {report.name}.")
    record = {**facts, "report": report.name, "parameters": dict(asked)}
    page = _PAGE.substitute(
        version=__version__,
        title=html.escape(("[simulated] " if facts.get("simulated") else "") + report.title),
        record=html.escape(json.dumps(record, sort_keys=True)),
        thumbnail=_thumbnail(nb),
        body=body.strip(),
        footer="\n".join(f"<p>{html.escape(line)}</p>" for line in lines),
    )
    return hide_values(page)


def _thumbnail(nb: NotebookNode) -> str:
    """The first picture of an executed notebook, made small, as base64; empty where there is none."""
    outputs = (output for cell in nb.cells for output in cell.get("outputs", ()))
    first = next((found for o in outputs if (found := o.get("data", {}).get("image/png"))), None)
    if first is None:
        return ""
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(first))) as picture:
        small = picture.convert("RGB")
        small.thumbnail((_THUMBNAIL, _THUMBNAIL))
        buffer = io.BytesIO()
        small.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def head(page: Path) -> dict[str, Any]:
    """What `render` left in a page's head: `record` (study, parameters, ...; empty where it is no such page) and
    `thumbnail` (base64 of a PNG, or empty)."""
    with page.open(encoding="utf-8") as f:
        text = f.read(_HEAD).partition("<title>")[0]
    raw = {
        key: text.partition(f'name="cilab:{key}" content="')[2].partition('">')[0] for key in ("record", "thumbnail")
    }
    try:
        record = json.loads(html.unescape(raw["record"]))
    except ValueError:
        record = {}
    return raw | {"record": record if isinstance(record, dict) else {}}


# -- files --------------------------------------------------------------------------------------------


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ReportError(f"{folder}: cannot make this folder ({e.strerror}); choose another") from None
    return folder


class _replacing:
    """Context manager: write to a temporary name beside `target`, then rename. Half a file is never seen."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        _folder(self.target.parent)
        return self.temporary

    def __exit__(self, kind: type | None, error: BaseException | None, _: Any) -> None:
        try:
            if error is None:
                os.replace(self.temporary, self.target)
        except OSError as e:
            error = e
        self.temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, CilabError):
            raise ReportError(f"{self.target}: cannot be written ({error.strerror or error})") from None


def write_text(target: Path, text: str) -> None:
    """Write a text whole or not at all; a ReportError where the folder cannot be written."""
    with _replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _log(out: Path, name: str, asked: Mapping[str, Any], began: float, ending: str, warnings: Sequence[str]) -> None:
    """One line of JSON on this rendering in `render.log`, the only place where its time stands."""
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "report": name,
        "seconds": round(time.monotonic() - began, 2),
        "parameters": dict(asked),
        "ending": ending,
        "stderr": list(warnings),
    }
    try:
        with (out / "render.log").open("a", encoding="utf-8") as f:
            f.write(hide_values(json.dumps(entry)) + "\n")
    except OSError as e:
        raise ReportError(f"{out / 'render.log'}: cannot be written ({e.strerror})") from None


def _one_line(text: str) -> str:
    return redact(next((line.strip() for line in _ANSI.sub("", text).splitlines() if line.strip()), ""))
