"""Where the files that come with cilab are: published tables, the model list, notebooks, example studies.

May import `cilab.core` only. Knows two places, a checkout and an installed wheel, and never looks
at the current folder. Reads and writes nothing.
"""

from __future__ import annotations

from pathlib import Path

from cilab.core.errors import CilabError

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped(relative: str | Path) -> Path:
    """Path of a file or folder that comes with cilab.

    Parameters
    ----------
    relative : path from the project's root, e.g. `data/models.csv`, `notebooks`, `studies/quickstart.yaml`.

    Returns
    -------
    Path
        In a checkout (pyproject.toml beside the package folder) the checkout's own file, so that an
        edit counts at once; in an installed wheel the copy inside the package.

    Raises
    ------
    CilabError
        There is no such file, or `relative` is absolute or leads out of the project.

    Examples
    --------
    >>> shipped("data/models.csv").name
    'models.csv'
    """
    return find_shipped(relative, _PACKAGE)


def find_shipped(relative: str | Path, package: Path) -> Path:
    """As `shipped`, for the package folder `package`."""
    part = Path(relative)
    if part.is_absolute() or ".." in part.parts:
        raise CilabError(f"{relative}: a shipped file is named by its path inside the project, e.g. data/models.csv")
    root = package.parent
    base = root if (root / "pyproject.toml").is_file() else package / "_shipped"
    path = base / part
    if not path.exists():
        raise CilabError(f"{part.as_posix()} is not among the files of cilab ({base}); install cilab again")
    return path
