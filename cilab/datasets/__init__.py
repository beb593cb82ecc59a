"""Data to work with: published tables, simulated data sets of the papers' size, other people's runs.

May import `cilab.show`, `cilab.store` and `cilab.core`. Never calls a model.
Everything is imported when it is first used. `import_NAME` also finds the importers of other packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cilab.core import plugins

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
