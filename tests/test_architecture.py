"""The import rule of the design, held over every module of the package. The rules are data: `tests/house.py`.

Each rule has a source below that breaks it: the test can fail.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.house import (
    DOORS,
    FLOORS,
    HEAVY,
    HEIGHT,
    MAY_TOUCH_PARQUET,
    MODEL_LIBRARIES,
    ONLY,
    ROOMS,
    ROOT,
    STATE,
    Import,
    barred,
    circles,
    file_arrows,
    imports,
    modules,
    parquet,
    room,
    room_arrows,
    wing_of,
)


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module's source does against the rules, one line each.

    `module` is its dotted name, e.g. `cilab.stats.maze.gap`; `is_package` is true for an `__init__.py`.
    """
    tree = ast.parse(source)
    own = room(module)
    if own is None:
        return [unknown(module, module)]
    found = [] if ast.get_docstring(tree) else [f"{module}: has no docstring"]
    for imported in imports(tree, module, is_package):
        where = f"{module}:{imported.line}"
        found += [f"{where}: {problem}" for problem in import_problems(own, module, imported)]
    if not any(wing_of(name, own) for name in MAY_TOUCH_PARQUET):
        found += [f"{module}:{line}: {what}; only cilab.store touches Parquet" for what, line in parquet(tree)]
    hidden = [state for state, who in STATE.items() if module not in who and re.search(state, source)]
    return found + [f"{module}: holds hidden state: {state}" for state in hidden]


def unknown(where: str, target: str) -> str:
    return f"{where}: {target} has no room. Give it one in FLOORS and ROOMS of tests/house.py"


def import_problems(own: str, module: str, imported: Import) -> Iterator[str]:
    target = imported.target
    root = target.split(".")[0]
    if root != "cilab":
        if imported.at_import_time and root in HEAVY:
            yield f"imports {root} at the top level; do it inside the function that needs it"
        if root in MODEL_LIBRARIES and own != "collect":
            yield f"imports {root}; only cilab.collect calls models"
        return
    lower = room(target)
    if lower is None:
        yield unknown(module, target)
    elif lower != own and not is_door(module, imported):
        allowed = ONLY.get(own, {}).get(lower)
        if HEIGHT[lower] >= HEIGHT[own]:
            yield f"imports {target}, which is not on a lower floor"
        elif barred(own, lower):
            yield f"imports {target}; cilab.{own} knows no {lower}"
        elif allowed is not None and not target.startswith(allowed):
            yield f"imports {target}; a benchmark knows only {' and '.join(allowed)}"


def is_door(module: str, imported: Import) -> bool:
    return (module, imported.target) in DOORS and imported.by_name and not imported.at_import_time


def test_every_module_keeps_the_import_rule() -> None:
    found = [
        problem
        for module, path in modules()
        for problem in violations(path.read_text(), module, is_package=path.name == "__init__.py")
    ]
    assert not found, "\n" + "\n".join(found)


def test_no_rooms_and_no_files_import_each_other_in_a_circle() -> None:
    assert circles(room_arrows()) == []
    assert circles(file_arrows()) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_every_room_stands_on_one_floor_is_described_and_is_there() -> None:
    rooms = [name for floor in FLOORS for name in floor]
    assert len(rooms) == len(set(rooms)) and set(rooms) == set(ROOMS)
    assert {room(name) for name, _ in modules()} == set(rooms)


def test_the_picture_and_the_table_of_the_docs_are_as_the_rules_and_the_sources_are() -> None:
    command = [sys.executable, "tools/draw_house.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "as it is\n")


def test_the_modules_are_found() -> None:
    names = {module for module, _ in modules()}
    assert {"cilab", "cilab.core.errors", "cilab.collect.model", "cilab.core.registry"} <= names
    assert not [n for n in names if n.endswith("__init__")]


@pytest.mark.parametrize(
    ("module", "statement", "problem"),
    [
        # floors
        ("cilab.core.errors", "import cilab.store", "imports cilab.store, which is not on a lower floor"),
        ("cilab.store", "from cilab import running", "imports cilab.running, which is not on a lower floor"),
        ("cilab.store", "import cilab\ncilab.running.start()", "imports cilab.running, which is not on a lower floor"),
        ("cilab.core.tables", "from .. import store", "imports cilab.store, which is not on a lower floor"),
        ("cilab.collect.engine", "from ..maze.plan import plan", "imports cilab.maze.plan.plan, which is not on"),
        ("cilab.collect.engine", "def f():\n    from cilab.running import x", "imports cilab.running.x, which is not"),
        ("cilab.collect.engine", "async def f():\n    import cilab.shell.app", "imports cilab.shell.app, which is not"),
        ("cilab.core.registry", "__import__('cilab.running')", "imports cilab.running, which is not on a lower floor"),
        ("cilab.core.tables", "from cilab import leaderboard", "imports cilab, which is not on a lower floor"),
        ("cilab.core.tables", "import cilab\ncilab.open('x')", "imports cilab, which is not on a lower floor"),
        (
            "cilab.core.tables",
            "if TYPE_CHECKING:\n    from cilab.store import S",
            "imports cilab.store.S, which is not",
        ),
        (
            "cilab.results.result",
            "from cilab.stats.methods import ratings",
            "imports cilab.stats.methods.ratings, which",
        ),
        ("cilab.stats.methods.bayes", "from cilab.stats.maze import gap", "imports cilab.stats.maze.gap, which is not"),
        # neighbours
        ("cilab.maze.plan", "import cilab.teamwork", "imports cilab.teamwork, which is not on a lower floor"),
        ("cilab.stats.maze.gap", "from cilab.stats.teamwork import grid", "imports cilab.stats.teamwork.grid, which"),
        ("cilab.stats.maze.gap", "import cilab.maze.grid", "imports cilab.maze.grid, which is not on a lower floor"),
        ("cilab.stats.maze.gap", "from cilab.plots import gap", "imports cilab.plots.gap, which is not on a lower"),
        ("cilab.results.result", "from cilab import plots", "imports cilab.plots, which is not on a lower floor"),
        ("cilab.running.play", "from cilab import reports", "imports cilab.reports, which is not on a lower floor"),
        ("cilab.store.parts", "from cilab.results import result", "imports cilab.results.result, which is not on a"),
        # lower, and barred all the same
        ("cilab.stats.maze.gap", "def f():\n    import cilab.collect.spec", "cilab.stats.maze knows no collect"),
        ("cilab.plots.maze.gap", "from cilab.maze import grid", "cilab.plots.maze knows no maze"),
        ("cilab.plots", "import cilab.teamwork", "cilab.plots knows no teamwork"),
        ("cilab.plots.maze.gap", "from cilab.collect.model import Usage", "cilab.plots.maze knows no collect"),
        ("cilab.datasets.published", "from cilab.collect.model import Usage", "cilab.datasets knows no collect"),
        ("cilab.maze.play", "from cilab.collect.engine import Engine", "a benchmark knows only"),
        ("cilab.teamwork.play", "from cilab.collect import engine", "a benchmark knows only"),
        # libraries
        ("cilab.running.play", "def f():\n    import litellm", "only cilab.collect calls models"),
        ("cilab.maze.annotate", "def f():\n    from litellm import acompletion", "only cilab.collect calls models"),
        ("cilab.shell.doctor", "def f():\n    import xllamacpp", "only cilab.collect calls models"),
        ("cilab.shell.doctor", "def f():\n    importlib.import_module('litellm')", "only cilab.collect calls models"),
        ("cilab.collect.litellm", "import litellm", "imports litellm at the top level"),
        ("cilab.stats.maze.gap", "import pandas as pd", "imports pandas at the top level"),
        (
            "cilab.stats.maze.gap",
            "try:\n    from scipy import stats\nexcept ImportError:\n    pass",
            "imports scipy at",
        ),
        ("cilab.stats.maze.gap", "class A:\n    import statsmodels.api", "imports statsmodels at the top level"),
        ("cilab.plots.maze.gap", "import matplotlib.pyplot as plt", "imports matplotlib at the top level"),
        ("cilab.reports.page", "import papermill", "imports papermill at the top level"),
        ("cilab.store.sql", "import duckdb", "imports duckdb at the top level"),
        # Parquet
        ("cilab.running.play", "import polars\npolars.scan_parquet('x')", "uses scan_parquet; only cilab.store"),
        ("cilab.shell.app", "def f(df):\n    df.write_parquet('x')", "uses write_parquet; only cilab.store"),
        ("cilab.stats.maze.gap", "from polars import read_parquet", "imports polars.read_parquet; only cilab.store"),
        ("cilab.collect.engine", "import pyarrow.parquet as pq", "imports pyarrow.parquet; only cilab.store"),
        ("cilab.collect.engine", "from pyarrow import parquet", "imports pyarrow.parquet; only cilab.store"),
        ("cilab.shell.app", "def f(d, p):\n    d.sql(f\"from read_parquet('{p}')\")", "reads or writes Parquet in SQL"),
        # hidden state
        ("cilab.stats.maze.gap", "import sys\nsys._getframe(1)", "holds hidden state"),
        ("cilab.plots", "sys.modules[__name__].__class__ = Figures", "holds hidden state"),
        ("cilab.collect.engine", "sys.modules['x'] = None", "holds hidden state"),
        ("cilab.reports.rendering", "sys.modules.update(x=None)", "holds hidden state"),
        ("cilab.running.play", "def f():\n    global x\n    x = 1", "holds hidden state"),
        ("cilab.running.play", "import os\nos.environ['X'] = '1'", "holds hidden state"),
        # unknown
        ("cilab.helpers", "", "cilab.helpers has no room. Give it one in FLOORS"),
        ("cilab.running.play", "import cilab.helpers", "cilab.helpers has no room"),
    ],
)
def test_a_source_that_breaks_a_rule_is_caught(module: str, statement: str, problem: str) -> None:
    found = violations(f'"""A module."""\n{statement}\n', module)
    assert len(found) == 1
    assert problem in found[0]
    assert found[0].startswith(module)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("cilab.shell.app", "def f():\n    import cilab.running.play, cilab.reports, cilab.core.registry"),
        ("cilab", "def f():\n    from cilab import running\n    return running"),
        ("cilab.shell.quickstart", "from cilab import running, reports"),
        ("cilab.plots.maze.gap", "from cilab.plots.parts import style\nfrom cilab.stats.maze.gap import gap"),
        (
            "cilab.maze.play",
            "from cilab.collect.model import Message\nfrom cilab.collect import spec\nfrom . import grid",
        ),
        ("cilab.collect.litellm", "async def f():\n    import litellm"),
        ("cilab.collect.engine", "from cilab import store\nfrom cilab.core.version import __version__"),
        ("cilab.results.result", "def f():\n    import pandas"),
        ("cilab.results.result", "import importlib\ndef f():\n    return importlib.import_module('cilab.plots')"),
        ("cilab.results.result", "if TYPE_CHECKING:\n    import pandas"),
        ("cilab.store", "import polars\npolars.scan_parquet('x')\ndef f():\n    import pyarrow.parquet"),
        ("cilab.shell.app", 'def f():\n    """Never calls read_parquet(x) itself."""'),
        ("cilab.shell.doctor", "NAMES = ('litellm', 'xllamacpp')"),
        ("cilab.collect.progress", "there = 'IPython' in sys.modules"),
    ],
)
def test_a_source_that_keeps_the_rules_passes(module: str, statement: str) -> None:
    assert violations(f'"""A module."""\n{statement}\n', module) == []


def test_a_module_without_a_docstring_is_caught() -> None:
    assert violations("x = 1\n", "cilab.store") == ["cilab.store: has no docstring"]
    assert violations("", "cilab.stats", is_package=True) == ["cilab.stats: has no docstring"]


def test_relative_imports_of_a_package_and_of_a_module_are_told_apart() -> None:
    source = '"""Doc."""\nfrom ..running import x\n'
    assert violations(source, "cilab.stats", is_package=True) != []
    assert violations('"""Doc."""\nfrom .gap import gap\n', "cilab.stats", is_package=True) == []
    assert violations('"""Doc."""\nfrom .gap import gap\n', "cilab.stats.more") == []


def test_importing_the_face_loads_no_heavy_library() -> None:
    code = "import cilab, sys; print(sorted(m for m in sys.argv[1:] if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *sorted(HEAVY)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
