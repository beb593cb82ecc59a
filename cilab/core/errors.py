"""Errors that a user can meet: each is one clear line. Imports nothing of the package."""

from __future__ import annotations


class CilabError(Exception):
    """Base of every error that cilab raises on purpose.

    The message says what, where and how to mend. `exit_code` is what the shell command ends with.
    """

    exit_code = 2


class TableError(CilabError):
    """Rows do not fit a table's schema."""


class StoreError(CilabError):
    """A study's files cannot be read or written."""


class StudyError(CilabError):
    """A study file is wrong."""


class RegistryError(CilabError):
    """A model is not known."""


class MazeError(CilabError):
    """A maze cannot be made or read."""


class PluginError(CilabError):
    """What another package brings cannot be found or loaded."""


class ReportError(CilabError):
    """A report cannot be rendered."""


def nearest(word: str, known: list[str] | tuple[str, ...], limit: int = 3) -> str:
    """' Did you mean a, b?' with the known names nearest to `word`, or an empty string."""
    import difflib

    hits = difflib.get_close_matches(word, list(known), n=limit, cutoff=0.5)
    return f" Did you mean {', '.join(hits)}?" if hits else ""


def first_line(error: BaseException) -> str:
    """The first line of an error's words, or its class where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
