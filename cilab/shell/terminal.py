"""What the verbs share: options that are said alike, the two streams, tables, and one line for a wrong word.

May import `cilab.core`, inside functions but for its errors: `cilab --help` stays quick.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cilab.core.errors import CilabError

Data = Annotated[list[str], typer.Option("--data", help="A study: a folder, a pattern or a URL; may be given again.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, for scripts.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the sample.")]
StudyFolder = Annotated[Path, typer.Argument(help="A study's folder.")]


@contextlib.contextmanager
def stdout_for_us() -> Iterator[Any]:
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


def say(text: str) -> None:
    """A line on standard error, without credentials."""
    from cilab.core.redact import hide_credentials

    print(hide_credentials(text), file=sys.stderr)


def say_report(n: int, of: int, which: str, reason: str | None) -> None:
    """How the `n`th of some reports ended."""
    say(f"{n}/{of} {which}{f' failed: {reason}' if reason else ''}")


def width(otherwise: int) -> int:
    """Columns of the terminal; `otherwise` where the output goes to a file or a program."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else otherwise


def print_table(answer: Any) -> None:
    """A frame as text, with all its columns and up to 200 of its rows."""
    import polars as pl

    shape = {"tbl_rows": 200, "tbl_cols": -1, "tbl_width_chars": width(160)}
    with pl.Config(**shape, fmt_str_lengths=60, tbl_hide_dataframe_shape=True):
        print(answer)


def one_of(option: str, word: str, *known: str) -> None:
    """Refuse a word that an option does not know."""
    if word not in known:
        raise CilabError(f"{option} {word}: is {', '.join(known[:-1])} or {known[-1]}.")


def key_values(pairs: list[str], flag: str = "-p") -> dict[str, Any]:
    """`key=value` of an option that may be given again; each value is read as YAML."""
    from cilab.core.inputs import read_yaml

    out = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found:
            raise CilabError(f"{flag} {pair}: write key=value")
        out[key.strip()] = read_yaml(value, pair, CilabError)
    return out
