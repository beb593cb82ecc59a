"""The same verbs for a shell. Every command is a thin call of the Python function of its name.

May import everything below it, inside the commands only: `cilab --help` stays quick. Turns a
`CilabError` into one line on stderr and its exit code; shows no traceback for a user's slip.

Exit codes: 0 done, 1 finished with failed or missing runs, 2 bad input, 3 budget reached, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cilab.core.errors import CilabError
from cilab.shell import warned

app = typer.Typer(
    name="cilab",
    help="How well do language-model agents work as teammates? Collect runs, analyse them, render reports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Out = Annotated[
    str | None, typer.Option("--out", help="The study's folder or URL (s3://...); default data/studies/NAME.")
]
Data = Annotated[list[str], typer.Option("--data", help="A study: a folder, a pattern or a URL; may be given again.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, for scripts.")]
With = Annotated[str, typer.Option("--with", help="The model that grades or annotates; `rules` for code.")]
Judge = Annotated[str, typer.Option("--with", help="The model that judges, named as in a study file.")]
Repeat = Annotated[int, typer.Option("--repeat", help="How often each rollout is looked at.", min=1)]
PerCell = Annotated[
    int | None,
    typer.Option("--sample", help="Rollouts per model, stratified by setting and success (paper: 40).", min=1),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the sample.")]
Budget = Annotated[
    float | None,
    typer.Option("--budget", help="Start no call once the folder's known cost, all before included, is this (USD)."),
]
StudyFolder = Annotated[Path, typer.Argument(help="A study's folder.")]
RouteFile = Annotated[Path | None, typer.Option("--study", help="Study file with the model's route, price and limits.")]


@contextlib.contextmanager
def _stdout_for_us() -> Iterator[Any]:
    """Standard output for our answer alone: what a user's agent prints, or a program that it starts, goes to stderr.

    The process ends with the command, so its descriptor is not put back: a call that was given up may print still.
    """
    ours = sys.stdout
    if ours is sys.__stdout__ and None not in (ours, sys.stderr):
        ours.flush()
        with open(os.dup(ours.fileno()), "w", encoding=ours.encoding, errors=ours.errors) as kept:
            os.dup2(sys.stderr.fileno(), ours.fileno())
            with contextlib.redirect_stdout(sys.stderr):
                yield kept
    else:  # somebody has put another stream in its place
        with contextlib.redirect_stdout(sys.stderr):
            yield ours


def _say(text: str) -> None:
    from cilab.core.redact import hide_credentials

    print(hide_credentials(text), file=sys.stderr)


@app.command()
def quickstart(
    out: Annotated[
        Path | None, typer.Option("--out", help="The study's folder; default data/studies/quickstart.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page of reports where there is a screen.")
    ] = True,
) -> None:
    """Play both benchmarks on the embedded models and render their reports. No key, no network."""
    from cilab.shell.quickstart import quickstart as start

    made = start(out, told=_report_told)
    if made.left_out:
        _say(f"left out: the small real model ({made.left_out})")
    code = _tell(made.summary, made.data)
    print(f"data     {made.data}")
    if made.index is not None:
        print(f"reports  {made.index.resolve()}")
    if show and made.index is not None and _has_screen():
        import webbrowser

        webbrowser.open(made.index.resolve().as_uri())
    raise typer.Exit(code or (1 if made.failed else 0))


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study file (YAML).")],
    out: Out = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do and cost.")] = False,
    as_json: Json = False,
    limit: Annotated[int | None, typer.Option(help="At most this many of the planned rollouts.")] = None,
    scale: Annotated[float, typer.Option(help="Factor on the number of tasks.")] = 1.0,
    gate: Annotated[str, typer.Option(help="on or off: off plays what a failed alone run gates out.")] = "on",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (tcp://HOST:PORT) whose workers play the rollouts.")
    ] = None,
) -> None:
    """Play a study. The same command again continues after any interruption."""
    import cilab.running.play as runs

    if gate not in ("on", "off"):
        raise CilabError(f"--gate {gate}: is on or off.")
    with _stdout_for_us() as ours:
        if dry_run:
            forecast = runs.forecast_study(study, out=out, scale=scale, limit=limit, gate=gate == "on")
            print(json.dumps(forecast.as_dict()) if as_json else _forecast_text(forecast), file=ours)
            return
        loaded = runs.load_study(study, scale)
        folder = out or str(runs.STUDIES / loaded.file.name)
        elsewhere = None
        if scheduler is not None:
            from cilab.running.cluster import Cluster

            elsewhere = Cluster(scheduler, loaded)
        summary = runs.run_loaded(loaded, out=out, limit=limit, gate=gate == "on", elsewhere=elsewhere)
        if as_json:
            print(json.dumps(_summary_dict(summary, folder)), file=ours)
        raise typer.Exit(_tell(summary, folder))


@app.command()
def status(
    data: StudyFolder,
    as_json: Json = False,
) -> None:
    """Counts of a study, while it runs or afterwards."""
    from cilab.running.play import status as counts

    found = counts(data)
    if as_json:
        print(json.dumps(found))
        return
    print(f"study     {found['study']}")
    planned = "" if found["planned"] is None else f" of {found['planned']}"
    earlier = f", and {found['earlier']} of earlier plans" if found["earlier"] else ""
    print(f"finished  {found['finished'] - found['earlier']}{planned}{earlier}")
    for name, n in sorted(found["by_status"].items()):
        print(f"  {name:<9} {n}")
    if found["kept_completions"]:
        print(
            f"interrupted rollouts {found['interrupted_rollouts']}, {found['kept_completions']} answers kept for them"
        )
    print(f"cost      {_cost_text(found)}")
    for reason, n in sorted(found["errors"].items(), key=lambda item: -item[1])[:5]:
        print(f"  {n} x {reason}")


@app.command()
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
    params = _params(param or [])
    if data is None and "data" not in params:
        _say("no --data: the reports stand on the simulated data sets, and say so")
    if name != ["all"] and len(name) == 1:
        rendered = reports.render(name[0], data=data, params=params, out=out, figures=figures)
        report_all.write_index(out)
        for what in rendered.not_computed:
            _say(f"not computed: {what}")
        print(rendered.html.resolve())
        raise typer.Exit(1 if rendered.empty else 0)
    wanted = None if name == ["all"] else name
    batch = report_all.render_all(
        wanted, data=data, params=params, out=out, figures=figures, workers=workers, told=_report_told
    )
    for which, why in batch.left_out.items():
        _say(f"left out {which}: {why}")
    for which, done in batch.rendered.items():
        for what in done.not_computed:
            _say(f"{which}: not computed: {what}")
    print(batch.index.resolve())
    raise typer.Exit(1 if batch.failed or any(done.empty for done in batch.rendered.values()) else 0)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="A DuckDB SELECT over runs, messages, calls, labels, annotations ...")],
    data: Data,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Ask a study a question in SQL."""
    import cilab

    if form not in ("table", "csv", "json"):
        raise CilabError(f"--format {form}: is table, csv or json.")
    answer = cilab.query(sql, data)
    if form == "csv":
        print(_flat(answer).write_csv(), end="")
    elif form == "json":
        print(answer.write_json())
    else:
        _print_table(answer)


@app.command()
def regrade(
    data: StudyFolder,
    grader: With,
    repeat: Repeat = 1,
    sample: PerCell = None,
    seed: Seed = 0,
    study: RouteFile = None,
    budget: Budget = None,
) -> None:
    """Grade stored rollouts again with another grader. Nothing is replayed."""
    from cilab.running.again import regrade as again

    summary = again(data, grader=grader, repeat=repeat, sample=sample, seed=seed, study=study, budget_usd=budget)
    raise typer.Exit(_tell(summary, data))


@app.command()
def relabel(
    data: StudyFolder,
    judge: Judge,
    repeat: Repeat = 1,
    sample: Annotated[
        int | None, typer.Option("--sample", help="Runs per model, effort and arm, spread over the dimensions.", min=1)
    ] = None,
    seed: Seed = 0,
    study: RouteFile = None,
    budget: Budget = None,
) -> None:
    """Have stored teamwork messages labelled by another judge. Nothing is replayed."""
    from cilab.running.relabel import relabel as again

    summary = again(data, judge=judge, repeat=repeat, sample=sample, seed=seed, study=study, budget_usd=budget)
    raise typer.Exit(_tell(summary, data))


@app.command()
def annotate(
    data: StudyFolder,
    annotator: With,
    repeat: Repeat = 1,
    sample: PerCell = None,
    seed: Seed = 0,
    study: RouteFile = None,
    budget: Budget = None,
) -> None:
    """Annotate stored dialogues for grounding and disagreement. Nothing is replayed."""
    from cilab.running.again import annotate as look

    summary = look(data, annotator=annotator, repeat=repeat, sample=sample, seed=seed, study=study, budget_usd=budget)
    raise typer.Exit(_tell(summary, data))


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="A run id, or the beginning of one.")],
    data: Data,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page here instead of text to the screen.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing that is long; a page of --html is whole.")] = False,
) -> None:
    """The transcript of one run, readable: who said what, the labels, the verdict."""
    import cilab
    from cilab.show import show as page_of

    page = page_of(cilab.open(data), run_id)
    if html is None:
        print(page.as_text(os.get_terminal_size().columns if sys.stdout.isatty() else 100, full=full))
    else:
        page.save(html)
        print(html.resolve())


@app.command()
def sample(
    data: StudyFolder,
    what: Annotated[str, typer.Option("--what", help="messages to label, or runs to review.")] = "messages",
    n: Annotated[
        int | None, typer.Option("-n", help="Messages in all (40), or runs per failure mode (20).", min=1)
    ] = None,
    seed: Seed = 0,
    rater: Annotated[list[str] | None, typer.Option("--rater", help="Who answers; a form each.")] = None,
    choice: Annotated[
        list[str] | None, typer.Option("--label", help="A label that may be given, NAME or NAME=DEFINITION.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the forms go.")] = Path("samples"),
) -> None:
    """Draw a blind, stratified sample for people, and write its forms (CSV and notebook)."""
    import cilab
    from cilab.humans import samples

    if what not in ("messages", "runs"):
        raise CilabError(f"--what {what}: is messages or runs.")
    study = cilab.open(data)
    if what == "messages":
        drawn = samples.sample_messages(study, n or 40, seed=seed)
    else:
        drawn = samples.sample_runs(study, n or 20, seed=seed)
    labels: Any = {"*": _named(choice)} if choice else None
    if labels is None and what == "messages":
        from cilab.running.relabel import label_choices

        labels = label_choices(study, drawn.table["run_id"].to_list())
    for note in drawn.notes:
        _say(note)
    form = samples.write_form(drawn, out, raters=rater or ("person:1",), choices=labels, study_path=data.resolve())
    for path in (*form.csv, *form.notebooks, *([form.key] if form.key else [])):
        print(path)


@app.command(name="import")
def import_(
    kind: Annotated[str, typer.Argument(help="release, inspect, table, labels or reviews.")],
    path: Annotated[Path, typer.Argument(help="What to import.")],
    out: Annotated[Path, typer.Option("--out", help="The new study; for labels and reviews the study they belong to.")],
    option: Annotated[list[str] | None, typer.Option("-o", help="An option of the importer, key=value.")] = None,
) -> None:
    """Bring your own data, or people's answers; says what was dropped, doubled or repaired."""
    from cilab.datasets.importers import import_any

    if kind in ("labels", "reviews"):
        from cilab.humans.samples import restore

        path = restore(path)
    print(import_any(kind, path, out, **_params(option or [], "-o")).report.text())


export = typer.Typer(help="Write a study in another tool's format.", no_args_is_help=True)
app.add_typer(export, name="export")


@export.command(name="inspect")
def export_inspect(
    data: StudyFolder,
    out: Annotated[Path, typer.Option("--out", help="Where the logs go.")] = Path("logs"),
) -> None:
    """Logs that Inspect AI's viewer opens (needs the extra `inspect`)."""
    import cilab
    from cilab.datasets import export_inspect as write

    for path in write(cilab.open(data), out):
        print(path)


tasks_app = typer.Typer(help="Tasks of the teamwork benchmark: list, write, prove.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")

Tasks = Annotated[
    list[str] | None,
    typer.Argument(help="Ids, patterns, dimensions, or folders with tasks of your own; default all of ours."),
]


@tasks_app.command(name="list")
def tasks_list(wanted: Tasks = None, as_json: Json = False) -> None:
    """The tasks, with what each one needs."""
    from cilab.teamwork.prove import list_tasks

    table = list_tasks(wanted or ["*"])
    if as_json:
        print(table.write_json())
    else:
        _print_table(table)


@tasks_app.command(name="check")
def tasks_check(
    wanted: Tasks = None,
    sandbox: Annotated[str, typer.Option(help="bwrap, or none to run code without bubblewrap.")] = "bwrap",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every run.")] = False,
) -> None:
    """Play every exemplar through the engine: each must come out as it says."""
    from cilab.running.prove import check_tasks

    if sandbox not in ("bwrap", "none"):
        raise CilabError(f"--sandbox {sandbox}: is bwrap or none.")
    found = check_tasks(wanted or ["*"], isolation=sandbox)
    if verbose:
        _print_table(found.table.drop("dimension", "as_expected"))
    for problem in found.problems:
        _say(problem)
    proven = found.table.filter(found.table["as_expected"])
    print(f"{found.table['task_id'].n_unique()} tasks, {proven.height} exemplars come out as they say")
    for agent, share in found.shares.items():
        print(f"the {agent} agent fails {share:.0%}")
    raise typer.Exit(1 if found.problems else 0)


@tasks_app.command(name="new")
def tasks_new(
    task_id: Annotated[str, typer.Argument(help="The new task's id: small letters, digits and dashes.")],
    dimension: Annotated[str, typer.Option("--dimension", help="One of the eight dimensions.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for your tasks.")] = Path("tasks"),
) -> None:
    """Write a commented template of a task."""
    from cilab.teamwork.prove import write_template

    print(write_template(task_id, dimension, out))


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="A model, or MODEL:EFFORT, as in the leaderboard.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
    data: Data,
) -> None:
    """Two rows of a teamwork study, task by task: the paired difference and the tasks that flipped."""
    import cilab

    print(cilab.compare(cilab.open(data), a, b))


@app.command()
def claims(
    data: Annotated[list[str] | None, typer.Option("--data", help="A study; default: what ships.")] = None,
) -> None:
    """The papers' published numbers, beside the function that computes each, and how near it comes."""
    import cilab
    from cilab import claims as ledger

    width = os.get_terminal_size().columns if sys.stdout.isatty() else 118
    print(ledger.render(ledger.ledger(cilab.open(data) if data else None), width))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, or a workspace to bring up to date.")],
) -> None:
    """Lay out a folder to work in: study files, notebooks, and room for data, figures and reports."""
    from cilab.shell.workspace import init as lay_out

    made = lay_out(folder)
    for name in made.kept:
        _say(f"kept {name}: you changed it")
    counts = [(made.written, "laid out"), (made.there, "there already"), (made.kept, "kept as you changed them")]
    said = ", ".join(f"{len(files)} {words}" for files, words in counts if files)
    print(f"{made.folder.resolve()}: study files and notebooks: {said}")
    steps = [] if made.folder.resolve() == Path.cwd() else [f"cd {made.folder}"]
    steps += [
        "cilab quickstart                # a small study and its reports, without a key",
        "cilab lab                       # JupyterLab on the notebooks",
        "cilab run studies/my_first.yaml # your own study: edit the file first",
    ]
    print("next   " + "\n       ".join(steps))


@app.command()
def lab(
    port: Annotated[int | None, typer.Option("--port", help="Default: the first free one from 8888 on.", min=1)] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab on the notebooks, with this Python as its kernel."""
    from cilab.shell.lab import lab as start

    raise typer.Exit(start(port=port, browser=browser, told=lambda how: _say(f"JupyterLab in {how.folder}")))


@app.command()
def doctor() -> None:
    """What is missing on this machine, and the command that brings it."""
    from cilab.shell import doctor as check

    found = check.checks()
    print(check.render(found))
    raise typer.Exit(check.exit_code(found))


# -- words ------------------------------------------------------------------------------------------------


def _report_told(n: int, of: int, which: str, reason: str | None) -> None:
    _say(f"{n}/{of} {which}{f' failed: {reason}' if reason else ''}")


def _cost_text(found: dict[str, Any]) -> str:
    """The known cost, and what is not in it; where no price is known at all, that it is unknown."""
    calls, runs = found["unpriced_calls"], found["unpriced_runs"]
    n, what = (calls, "call") if calls else (runs, "run")
    if not n:
        return f"${found['usd']:.4f}"
    unknown = f"{n} {what}{'' if n == 1 else 's'} of unknown price"
    return f"${found['usd']:.4f} (+{unknown})" if found["usd"] else f"unknown ({unknown})"


def _summary_dict(summary: Any, folder: str | Path) -> dict[str, Any]:
    """For --json: `ok`, `refused` and `gated_out` add up to `finished`; `this_session` is what was done just now."""
    p = summary.progress
    session = {
        "ok": p.ok,
        "refused": p.refused,
        "gated_out": p.gated_out - p.gated_again,
        "errors": p.errors,
        "calls": p.calls,
        "replayed": p.replayed,
        "usd": p.usd - p.usd_before,
        "unpriced_calls": p.unpriced_calls,
        "seconds": summary.seconds,
    }
    return {
        "data": str(folder),
        "planned": p.planned,
        "finished": p.done,
        **p.by_status,
        "this_session": session,
        "errors": dict(summary.errors),
        "missing": summary.missing,
        "calls": p.calls,
        "replayed": p.replayed,
        "usd": p.usd,
        "unpriced_calls": p.unpriced_calls,
        "stopped": summary.stopped,
        "seconds": summary.seconds,
    }


def _tell(summary: Any, folder: str | Path) -> int:
    """Say how a session ended and how to go on; returns the exit code."""
    p = summary.progress
    n = summary.unreadable
    unread = f"; {n} answer{'' if n == 1 else 's'} could not be read" if n else ""
    took = f"{summary.seconds:.0f} s, {p.calls} calls, ${p.usd:.4f}"
    _say(f"{p.done} of {p.planned} finished in {folder} ({took}){unread}")
    if p.unpriced_calls:
        _say(f"{p.unpriced_calls} calls had no known price; they are not in the cost, nor in the budget")
    for reason, n in sorted(summary.errors.items(), key=lambda item: -item[1])[:5]:
        _say(f"  {n} failed: {reason}")
    if summary.fatal:
        _say(str(summary.fatal))
    if summary.stopped == "budget":
        _say("budget reached; raise budget_usd (or --budget) and run the same command again: it continues")
    elif summary.stopped == "interrupted":
        _say("interrupted; nothing that arrived is lost. Run the same command again: it continues")
    elif summary.missing:
        _say(f"{summary.missing} not finished; {_how_to_go_on(summary.errors)}")
    return summary.exit_code


def _how_to_go_on(errors: Mapping[str, int]) -> str:
    """What to do about runs that failed: first what asking again will not mend, by the kinds of the errors."""
    from cilab.collect.model import TERMINAL

    key, agent, other = "set the right key", "correct the agent", "mend what is named above"
    found = set()
    for reason in errors:
        kind, _, text = reason.partition(": ")
        if kind in TERMINAL:
            found.add(key if kind in ("auth", "no_key") else agent if text.startswith("python:") else other)
    played = "all runs of an edited agent are played anew" if agent in found else "only these are played"
    again = f"run the same command again: {played}"
    first = " and ".join(what for what in (key, agent, other) if what in found)
    return f"{first}, then {again}" if first else again


def _forecast_text(f: Any) -> str:
    def triple(values: Any, form: str = ",.0f") -> str:
        return " / ".join(format(v, form) for v in values)

    if f.finished is None:
        finished = "how many are finished is not known on this machine; the whole plan is forecast"
    else:
        finished = f"{f.finished:,} finished already"
    lines = [
        f"study      {f.study}",
        f"rollouts   {len(f.run_ids):,} planned, {finished}",
        "           least / expected / most",
        f"calls      {triple(f.calls)}",
        f"tokens in  {triple(f.tokens_in)}",
        f"tokens out {triple(f.tokens_out)}",
        f"USD        {'unknown' if f.usd is None else triple(f.usd, ',.2f')}",
        f"hours      {triple(f.hours, ',.1f')}",
    ]
    if f.unpriced:
        lines.append(f"no price is known for {', '.join(f.unpriced)}: their cost is not in the sum")
    return "\n".join(lines)


def _has_screen() -> bool:
    """A person at a desktop: a text browser in a terminal, or a browser in a script, would be in the way."""
    desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(desktop)


def _flat(answer: Any) -> Any:
    """Lists and records as JSON, for a CSV file, which has neither."""
    import polars as pl

    nested = [name for name, dtype in answer.schema.items() if dtype.is_nested()]
    texts = {n: [None if v is None else json.dumps(v, default=str) for v in answer[n].to_list()] for n in nested}
    return answer.with_columns([pl.Series(n, values, dtype=pl.String) for n, values in texts.items()])


def _named(texts: list[str]) -> dict[str, str]:
    """NAME=DEFINITION, or NAME alone."""
    return {name.strip(): meaning.strip() for name, _, meaning in (t.partition("=") for t in texts)}


def _params(pairs: list[str], flag: str = "-p") -> dict[str, Any]:
    from cilab.core.inputs import read_yaml

    out = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found:
            raise CilabError(f"{flag} {pair}: write key=value")
        out[key.strip()] = read_yaml(value, pair, CilabError)
    return out


def _print_table(answer: Any) -> None:
    import polars as pl

    width = os.get_terminal_size().columns if sys.stdout.isatty() else 160
    with pl.Config(tbl_rows=200, tbl_cols=-1, tbl_width_chars=width, fmt_str_lengths=60, tbl_hide_dataframe_shape=True):
        print(answer)


def _usage(e: typer.TyperException) -> str:
    """A wrong option or command in one line; the whole help where nothing was asked."""
    text = e.format_message()
    command = getattr(getattr(e, "ctx", None), "command_path", "cilab")
    return text if "\n" in text else f"cilab: {text.rstrip('.')}. See {command} --help."


def main() -> None:
    """The `cilab` command."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    warned.in_one_line()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code or 0)
    except typer.TyperException as e:
        _say(_usage(e))
        sys.exit(e.exit_code)
    except CilabError as e:
        _say(f"cilab: {e}")
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
