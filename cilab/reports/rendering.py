"""Rendering: a notebook and its parameters are run in a kernel of their own, cleaned and written.

May import `cilab.core` and its neighbours; papermill, nbconvert and jupyter_client are imported inside functions.
Never computes a number and never calls a model: the notebook does what it does through the package.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cilab.core.errors import ReportError, nearest
from cilab.core.redact import hide_values, redact
from cilab.reports.catalogue import ReportInfo, defaults, find_report, read, title_of
from cilab.reports.files import log_rendering, make_folder, write_text
from cilab.reports.notebook import DATA_SETS, RECORD
from cilab.reports.page import html_exporter, page_of

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: Called with (cells begun, cells in all, words) while a report is rendered.
Progress = Callable[[int, int, str], None]

#: Seconds that the kernel may take to start, and one cell to run.
START_TIMEOUT_S = 120
CELL_TIMEOUT_S = 900
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


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
    known = defaults(report)
    _refuse_unknown(report, asked, known)
    if "figures_dir" in known:
        asked.setdefault("figures_dir", _portable(figures_dir, out_dir))
    began = time.monotonic()
    make_folder(out_dir), make_folder(figures_dir)
    exporter = ThreadPoolExecutor(1).submit(html_exporter)  # while the kernel runs, this process has nothing to do
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
        write_text(target.html, page_of(nb, report, facts, asked, exporter.result()))
        failed.unlink(missing_ok=True)
    except ReportError as e:
        log_rendering(out_dir, name, asked, began, str(e), ())
        raise
    log_rendering(out_dir, name, asked, began, "done", target.warnings)
    return target


def _figures_of(notebook: Path) -> list[str]:
    """Names of the figure files that the last rendering wrote; none where there is no such notebook."""
    try:
        found = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["cilab"]["figures"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in found if Path(str(name)).name == name]


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

    nb = read(report.path)
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
        return (read(partial) if partial.exists() else nb), failure


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
    title = title_of(nb.cells)
    for number, cell in enumerate(nb.cells):
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
        elif "papermill-error-cell-tag" in cell.metadata.get("tags", []):
            cell["id"] = f"error-{number}"
        kept = []
        for output in cell.get("outputs", []):
            record = output.get("data", {}).get(RECORD)
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


def _one_line(text: str) -> str:
    return redact(next((line.strip() for line in _ANSI.sub("", text).splitlines() if line.strip()), ""))
