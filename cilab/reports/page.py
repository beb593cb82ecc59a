"""The page of a report: one HTML file without code, its small picture, and what stands in its head.

May import `cilab.core` and its neighbours; nbconvert and Pillow are imported inside functions. Writes no file.
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from cilab.core.redact import hide_values
from cilab.reports.catalogue import ReportInfo
from cilab.reports.notebook import Header

if TYPE_CHECKING:
    from nbconvert import HTMLExporter
    from nbformat import NotebookNode

#: Greatest side of a report's small picture, pixels, and characters in which the head of a page ends.
_THUMBNAIL, _HEAD = 480, 1_000_000
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


def html_exporter() -> HTMLExporter:
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


def page_of(
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
