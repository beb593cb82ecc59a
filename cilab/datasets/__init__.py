"""Data to work with: published tables, simulated data sets of the papers' size, other people's runs.

May import `cilab.show`, `cilab.store` and `cilab.core`. Never calls a model.
Everything is imported when it is first used. `import_NAME` also finds the importers of other packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cilab.core import plugins

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from collections.abc import Callable

    from cilab.datasets.importers.inspect import export_inspect as export_inspect
    from cilab.datasets.importers.inspect import import_inspect as import_inspect
    from cilab.datasets.importers.release import import_release as import_release
    from cilab.datasets.importers.report import Imported
    from cilab.datasets.importers.table import import_table as import_table
    from cilab.datasets.mazes.data import simulated_mazes as simulated_mazes
    from cilab.datasets.published import hand_worked_round as hand_worked_round
    from cilab.datasets.published import published_round as published_round
    from cilab.datasets.published import published_table as published_table
    from cilab.datasets.published import published_tables as published_tables
    from cilab.datasets.release.data import simulated_release as simulated_release
    from cilab.datasets.release.data import simulated_scores as simulated_scores

    # Of a higher room: known by name alone.
    import_labels: Callable[..., Imported]
    import_reviews: Callable[..., Imported]

#: public name -> module that defines it
_WHERE = {
    "published_round": "cilab.datasets.published",
    "published_table": "cilab.datasets.published",
    "published_tables": "cilab.datasets.published",
    "hand_worked_round": "cilab.datasets.published",
    "simulated_release": "cilab.datasets.release.data",
    "simulated_mazes": "cilab.datasets.mazes.data",
    "simulated_scores": "cilab.datasets.release.data",
    "import_release": "cilab.datasets.importers.release",
    "import_inspect": "cilab.datasets.importers.inspect",
    "export_inspect": "cilab.datasets.importers.inspect",
    "import_table": "cilab.datasets.importers.table",
    "import_labels": "cilab.humans.answers",
    "import_reviews": "cilab.humans.answers",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    kind = name.removeprefix("import_")
    if kind != name and kind in plugins.names(plugins.IMPORTERS):
        return plugins.load(plugins.IMPORTERS, kind)
    raise AttributeError(f"module 'cilab.datasets' has no attribute {name!r}")
