"""Reports: a notebook and its parameters become an executed notebook, a page without code, and figures.

May import everything but the shell. What a notebook calls stands here by name; `rendering` says what makes a report
reproducible, `batch` renders all of them. Never computes a number: the notebook does, through the package.
"""

from cilab.reports.rendering import (
    DATA_SETS,
    FORMATS,
    Header,
    NotComputed,
    RenderedReport,
    ReportInfo,
    Table,
    attempt,
    find_report,
    head,
    header,
    list_reports,
    load,
    normalise,
    parameters,
    render,
    save,
    table,
    write_text,
)

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
