"""The `cilab` command: the verbs by name, and what becomes of errors and signals. A verb is a thin call of a function.

May import everything below the shell, inside the verbs only: `cilab --help` stays quick. Turns a `CilabError` into one
line on stderr and its exit code; shows no traceback for a user's slip.

Exit codes: 0 done, 1 finished with failed or missing runs, 2 bad input, 3 budget reached, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer

from cilab.core.errors import CilabError
from cilab.shell import verbs_data, verbs_people, verbs_run, warned
from cilab.shell.terminal import say

#: The verbs in the order in which the help names them; groups of verbs stand before them.
VERBS = {
    "quickstart": verbs_run.quickstart,
    "run": verbs_run.run,
    "status": verbs_run.status,
    "report": verbs_data.report,
    "query": verbs_data.query,
    "regrade": verbs_run.regrade,
    "relabel": verbs_run.relabel,
    "annotate": verbs_run.annotate,
    "show": verbs_people.show,
    "sample": verbs_people.sample,
    "import": verbs_data.import_,
    "compare": verbs_data.compare,
    "claims": verbs_data.claims,
    "init": verbs_people.init,
    "lab": verbs_people.lab,
    "doctor": verbs_people.doctor,
}
EXPORTS = {"inspect": verbs_data.export_inspect}
TASKS = {"list": verbs_people.tasks_list, "check": verbs_people.tasks_check, "new": verbs_people.tasks_new}


def _group(verbs: Mapping[str, Callable[..., None]], **settings: Any) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, **settings)
    for name, verb in verbs.items():
        group.command(name=name)(verb)
    return group


app = _group(
    VERBS,
    name="cilab",
    help="How well do language-model agents work as teammates? Collect runs, analyse them, render reports.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(_group(EXPORTS, help="Write a study in another tool's format."), name="export")
app.add_typer(_group(TASKS, help="Tasks of the teamwork benchmark: list, write, prove."), name="tasks")


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
        say(_usage(e))
        sys.exit(e.exit_code)
    except CilabError as e:
        say(f"cilab: {e}")
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
