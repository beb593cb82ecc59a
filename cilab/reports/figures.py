"""Saving figures: PNG, SVG and PDF with what they show in their metadata, the same bytes each time.

May import `cilab.plots.parts`, `cilab.core` and its neighbours; matplotlib is imported inside functions. Draws nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cilab.core.errors import ReportError
from cilab.reports.files import replacing
from cilab.reports.lean import fonts_of_outlines_only
from cilab.reports.notebook import tell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cilab.results.result import Result

FORMATS = ("png", "svg", "pdf")
#: Packed in two thirds of the time, a tenth larger.
_OPTIONS = {"png": {"pil_kwargs": {"compress_level": 3}}}
_INLINE = ("inline", "matplotlib_inline.backend_inline")
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*$")


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
    with style.context(), _placed(fig), fonts_of_outlines_only():
        for ending in FORMATS:
            target = Path(folder) / f"{name}.{ending}"
            with replacing(target) as temporary:
                fig.savefig(temporary, format=ending, metadata=metadata[ending], **_OPTIONS.get(ending, {}))
            written.append(target)
    _show_instead(fig, written[0])
    tell("figures", [path.name for path in written])
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
