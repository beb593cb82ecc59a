"""Verbs that read and write data: report, query, compare, claims, import and export.

May import everything below the shell, inside the verbs only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cilab.core.errors import CilabError
from cilab.shell.terminal import Data, StudyFolder, key_values, one_of, print_table, say, say_report, width


def report(
    name: Annotated[list[str] | None, typer.Argument(help="Which report, or several, or all; see --list.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="A study's folder; default the simulated data sets.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option("-p", help="A parameter of the notebook, key=value.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the notebook and the HTML go.")] = Path("reports"),
    figures: Annotated[Path, typer.Option("--figures", help="Where the figures go.")] = Path("figures"),
    list_them: Annotated[bool, typer.Option("--list", help="Name the reports.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; default one per processor.", min=1)] = None,
) -> None:
    """Render reports: notebook, HTML without code, figures as PNG, SVG and PDF; and an index of them."""
    from cilab import reports
    from cilab.reports import batch as report_all

    if list_them:
        width = max(map(len, reports.list_reports()))
        for known, title in reports.list_reports().items():
            print(f"{known:<{width}}  {title}")
        return
    if not name:
        raise CilabError(f"name a report, or all: {', '.join(reports.list_reports())}")
    params = key_values(param or [])
    if data is None and "data" not in params:
        say("no --data: the reports stand on the simulated data sets, and say so")
    if name != ["all"] and len(name) == 1:
        rendered = reports.render(name[0], data=data, params=params, out=out, figures=figures)
        report_all.write_index(out)
        for what in rendered.not_computed:
            say(f"not computed: {what}")
        print(rendered.html.resolve())
        raise typer.Exit(1 if rendered.empty else 0)
    wanted = None if name == ["all"] else name
    batch = report_all.render_all(
        wanted, data=data, params=params, out=out, figures=figures, workers=workers, told=say_report
    )
    for which, why in batch.left_out.items():
        say(f"left out {which}: {why}")
    for which, done in batch.rendered.items():
        for what in done.not_computed:
            say(f"{which}: not computed: {what}")
    print(batch.index.resolve())
    raise typer.Exit(1 if batch.failed or any(done.empty for done in batch.rendered.values()) else 0)


def query(
    sql: Annotated[str, typer.Argument(help="A DuckDB SELECT over runs, messages, calls, labels, annotations ...")],
    data: Data,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Ask a study a question in SQL."""
    import cilab

    one_of("--format", form, "table", "csv", "json")
    answer = cilab.query(sql, data)
    if form == "csv":
        print(_flat(answer).write_csv(), end="")
    elif form == "json":
        print(answer.write_json())
    else:
        print_table(answer)


def compare(
    a: Annotated[str, typer.Argument(help="A model, or MODEL:EFFORT, as in the leaderboard.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
    data: Data,
) -> None:
    """Two rows of a teamwork study, task by task: the paired difference and the tasks that flipped."""
    import cilab

    print(cilab.compare(cilab.open(data), a, b))


def claims(
    data: Annotated[list[str] | None, typer.Option("--data", help="A study; default: what ships.")] = None,
) -> None:
    """The papers' published numbers, beside the function that computes each, and how near it comes."""
    import cilab
    from cilab import claims as ledger

    print(ledger.render(ledger.ledger(cilab.open(data) if data else None), width(118)))


def import_(
    kind: Annotated[str, typer.Argument(help="release, inspect, table, labels or reviews.")],
    path: Annotated[Path, typer.Argument(help="What to import.")],
    out: Annotated[Path, typer.Option("--out", help="The new study; for labels and reviews the study they belong to.")],
    option: Annotated[list[str] | None, typer.Option("-o", help="An option of the importer, key=value.")] = None,
) -> None:
    """Bring your own data, or people's answers; says what was dropped, doubled or repaired."""
    from cilab.datasets.importers import import_any

    if kind in ("labels", "reviews"):
        from cilab.humans import restore

        path = restore(path)
    print(import_any(kind, path, out, **key_values(option or [], "-o")).report.text())


def export_inspect(
    data: StudyFolder,
    out: Annotated[Path, typer.Option("--out", help="Where the logs go.")] = Path("logs"),
) -> None:
    """Logs that Inspect AI's viewer opens (needs the extra `inspect`)."""
    import cilab
    from cilab.datasets import export_inspect as write

    for path in write(cilab.open(data), out):
        print(path)


def _flat(answer: Any) -> Any:
    """Lists and records as JSON, for a CSV file, which has neither."""
    import polars as pl

    nested = [name for name, dtype in answer.schema.items() if dtype.is_nested()]
    texts = {n: [None if v is None else json.dumps(v, default=str) for v in answer[n].to_list()] for n in nested}
    return answer.with_columns([pl.Series(n, values, dtype=pl.String) for n, values in texts.items()])
