"""Errors that a user can meet: each is one clear line. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Collection, Iterable


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


class CilabWarning(UserWarning):
    """Something that is told once, in one line, and refuses nothing."""


def nearest(word: str, known: Iterable[str], limit: int = 3) -> str:
    """' Did you mean a, b?' with the known names nearest to `word`, or an empty string."""
    import difflib

    hits = difflib.get_close_matches(word, list(known), n=limit, cutoff=0.5)
    return f" Did you mean {', '.join(hits)}?" if hits else ""


def choice(
    name: str, value: object, known: Collection[str], error: type[CilabError] = TableError, *, hint: bool = True
) -> None:
    """Refuse an argument that is none of its known words; with `hint`, the nearest of them are named.

    >>> choice("setting", "sol", ("solo", "pair"))
    Traceback (most recent call last):
        ...
    cilab.core.errors.TableError: setting is 'sol', not one of solo, pair. Did you mean solo?
    """
    if value not in known:
        near = f".{nearest(str(value), list(known))}" if hint else ""
        raise error(f"{name} is {value!r}, not one of {', '.join(known)}{near}")


def first_line(error: BaseException, otherwise: str | None = None) -> str:
    """The first line of what an error says; where it says nothing `otherwise`, which is its class unless given."""
    lines = str(error).splitlines()
    if lines:
        return lines[0]
    return type(error).__name__ if otherwise is None else otherwise
