"""Reports: a notebook and its parameters become an executed notebook, a page without code, and figures.

May import everything but the shell. What a notebook or a script calls stands here by name: `catalogue` knows the
reports, `notebook` is what a notebook calls, `rendering` runs one, `page` makes its page, `figures` and `files` write,
`batch` renders all of them. Never computes a number and never calls a model: the notebook does, through the package.

Same input, same bytes
    Nothing that a report writes holds the time of rendering, the current folder or a random id: cell ids are fixed,
    papermill's timing is taken out, hashes in SVG are salted, PDF has no creation date, what cells print to stderr
    (warnings name files of this machine) goes to the side log, and paths below the workspace (the folder that holds
    the output folder) are written relative to the output folder, which is also where the kernel runs. When and how
    long a report was rendered stands in `render.log` beside it.

What stands on disk when
    Every file is whole or not there: it is written beside its place and renamed. A figure stands as soon as its `save`
    returns. The executed notebook and then the page follow when the last cell has run. A cell that fails leaves the
    earlier notebook and page as they were; the notebook up to there is `<name>.failed.ipynb`, until the report next
    comes out. Each rendering ends with a line in `render.log`, a failed one too. Nothing is forced to the disk as a
    study's data are: a report can be rendered again.
"""

from cilab.reports.catalogue import ReportInfo, find_report, list_reports, parameters
from cilab.reports.figures import FORMATS, save
from cilab.reports.files import write_text
from cilab.reports.notebook import DATA_SETS, Header, NotComputed, Table, attempt, header, load, table
from cilab.reports.page import head
from cilab.reports.rendering import RenderedReport, normalise, render

__all__ = [
    "DATA_SETS",
    "FORMATS",
    "Header",
    "NotComputed",
    "RenderedReport",
    "ReportInfo",
    "Table",
    "attempt",
    "find_report",
    "head",
    "header",
    "list_reports",
    "load",
    "normalise",
    "parameters",
    "render",
    "save",
    "table",
    "write_text",
]
