"""Verbs of a person's own work: look at a run, draw a sample, write and prove tasks, a folder, JupyterLab, a check-up.

May import everything below the shell, inside the verbs only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cilab.shell.terminal import Data, Json, Seed, StudyFolder, one_of, print_table, say, width

Tasks = Annotated[
    list[str] | None,
    typer.Argument(help="Ids, patterns, dimensions, or folders with tasks of your own; default all of ours."),
]


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
        print(page.as_text(width(100), full=full))
    else:
        page.save(html)
        print(html.resolve())


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
    from cilab.humans import sample_messages, sample_runs, write_form

    one_of("--what", what, "messages", "runs")
    study = cilab.open(data)
    if what == "messages":
        drawn = sample_messages(study, n or 40, seed=seed)
    else:
        drawn = sample_runs(study, n or 20, seed=seed)
    labels: Any = {"*": _named(choice)} if choice else None
    if labels is None and what == "messages":
        from cilab.running.relabel import label_choices

        labels = label_choices(study, drawn.table["run_id"].to_list())
    for note in drawn.notes:
        say(note)
    form = write_form(drawn, out, raters=rater or ("person:1",), choices=labels, study_path=data.resolve())
    for path in (*form.csv, *form.notebooks, *([form.key] if form.key else [])):
        print(path)


def _named(texts: list[str]) -> dict[str, str]:
    """NAME=DEFINITION, or NAME alone."""
    return {name.strip(): meaning.strip() for name, _, meaning in (t.partition("=") for t in texts)}


def tasks_list(wanted: Tasks = None, as_json: Json = False) -> None:
    """The tasks, with what each one needs."""
    from cilab.teamwork.prove import list_tasks

    table = list_tasks(wanted or ["*"])
    if as_json:
        print(table.write_json())
    else:
        print_table(table)


def tasks_check(
    wanted: Tasks = None,
    sandbox: Annotated[str, typer.Option(help="bwrap, or none to run code without bubblewrap.")] = "bwrap",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every run.")] = False,
) -> None:
    """Play every exemplar through the engine: each must come out as it says."""
    from cilab.running.prove import check_tasks

    one_of("--sandbox", sandbox, "bwrap", "none")
    found = check_tasks(wanted or ["*"], isolation=sandbox)
    if verbose:
        print_table(found.table.drop("dimension", "as_expected"))
    for problem in found.problems:
        say(problem)
    proven = found.table.filter(found.table["as_expected"])
    print(f"{found.table['task_id'].n_unique()} tasks, {proven.height} exemplars come out as they say")
    for agent, share in found.shares.items():
        print(f"the {agent} agent fails {share:.0%}")
    raise typer.Exit(1 if found.problems else 0)


def tasks_new(
    task_id: Annotated[str, typer.Argument(help="The new task's id: small letters, digits and dashes.")],
    dimension: Annotated[str, typer.Option("--dimension", help="One of the eight dimensions.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for your tasks.")] = Path("tasks"),
) -> None:
    """Write a commented template of a task."""
    from cilab.teamwork.prove import write_template

    print(write_template(task_id, dimension, out))


def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, or a workspace to bring up to date.")],
) -> None:
    """Lay out a folder to work in: study files, notebooks, and room for data, figures and reports."""
    from cilab.shell.workspace import init as lay_out

    made = lay_out(folder)
    for name in made.kept:
        say(f"kept {name}: you changed it")
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


def lab(
    port: Annotated[int | None, typer.Option("--port", help="Default: the first free one from 8888 on.", min=1)] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab on the notebooks, with this Python as its kernel."""
    from cilab.shell.lab import lab as start

    raise typer.Exit(start(port=port, browser=browser, told=lambda how: say(f"JupyterLab in {how.folder}")))


def doctor() -> None:
    """What is missing on this machine, and the command that brings it."""
    from cilab.shell import doctor as check

    found = check.checks()
    print(check.render(found))
    raise typer.Exit(check.exit_code(found))
