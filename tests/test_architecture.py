"""The import rule of the design, held over every module of the package.

The modules are parsed, not imported, so imports inside functions and `import_module("...")` with a
literal name count as well. Each rule has a source below that breaks it: the test can fail.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cilab"

#: Floors, top to bottom. A module may import from lower floors and from inside its own folder, nothing else.
#: `__init__` is the face (cilab/__init__.py), which may reach everything below the shell.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("__init__",),
    ("quickstart",),
    ("relabelling", "report_all", "lab"),
    ("regrading", "samples", "cluster"),
    ("run", "reports", "query", "claims", "doctor", "taskcheck", "workspace"),
    ("plots",),
    ("stats", "expressions", "datasets", "teamwork", "maze", "study"),
    ("collect", "show"),
    ("store",),
    ("journal",),
    ("registry",),
    ("paths", "tables", "inputs"),
    ("errors",),
)
HEIGHT = {name: -depth for depth, floor in enumerate(FLOORS) for name in floor}

#: Lower floors that a module still may not see.
BARRED = {
    "stats": ("collect", "teamwork", "maze"),
    "plots": ("collect", "teamwork", "maze"),
}
BENCHMARKS = ("teamwork", "maze")
#: All that a benchmark may know of the collector: the protocol and the run specs.
OPEN_TO_BENCHMARKS = ("cilab.collect.model", "cilab.collect.spec")
#: The one door upwards: a result looks its figure up by name when `.plot()` is called.
DOOR = ("cilab.stats.result", "cilab.plots")

MODEL_LIBRARIES = {"litellm", "xllamacpp", "llama_cpp", "openai", "anthropic"}
HEAVY = {
    *MODEL_LIBRARIES,
    *("pandas", "duckdb", "scipy", "statsmodels", "sklearn", "pymc", "nutpie", "arviz"),
    *("matplotlib", "seaborn", "papermill", "nbconvert", "nbclient", "great_tables", "itables", "dask", "distributed"),
}
PARQUET_CALLS = {"scan_parquet", "read_parquet", "write_parquet", "sink_parquet", "to_parquet", "read_parquet_schema"}
PARQUET_SQL = ("read_parquet(", "parquet_scan(", "format parquet")
MAY_TOUCH_PARQUET = ("store", "datasets")


class Import(NamedTuple):
    """One import: the full dotted name of what is imported, and where it stands."""

    target: str
    line: int
    at_import_time: bool
    by_name: bool = False


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module's source does against the rules, one line each.

    `module` is its dotted name, e.g. `cilab.stats.gap`; `is_package` is true for an `__init__.py`.
    """
    tree = ast.parse(source)
    top = top_level(module)
    if top not in HEIGHT:
        return [unknown(module, top)]
    found = [] if ast.get_docstring(tree) else [f"{module}: has no docstring"]
    for imported in imports(tree, module, is_package):
        where = f"{module}:{imported.line}"
        found += [f"{where}: {problem}" for problem in import_problems(top, module, imported)]
    if top not in MAY_TOUCH_PARQUET:
        found += [f"{module}:{line}: {what}; only cilab.store touches Parquet" for what, line in parquet(tree)]
    return found


def unknown(where: str, top: str) -> str:
    return (
        f"{where}: cilab.{top} has no floor. Give it one in FLOORS of tests/test_architecture.py "
        "and name it in docs/architecture.md"
    )


def top_level(module: str) -> str:
    """`stats` for `cilab.stats.gap`; `__init__` for `cilab` itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def import_problems(top: str, module: str, imported: Import) -> Iterator[str]:
    target = imported.target
    root = target.split(".")[0]
    if root != "cilab":
        if imported.at_import_time and root in HEAVY:
            yield f"imports {root} at the top level; do it inside the function that needs it"
        if root in MODEL_LIBRARIES and top != "collect":
            yield f"imports {root}; only cilab.collect calls models"
        return
    lower = top_level(target)
    if lower not in HEIGHT:
        yield unknown(target, lower)
    elif lower != top and not is_door(module, imported):
        if HEIGHT[lower] >= HEIGHT[top]:
            yield f"imports {target}, which is not on a lower floor"
        elif lower in BARRED.get(top, ()):
            yield f"imports {target}; cilab.{top} knows no {lower}"
        elif top in BENCHMARKS and lower == "collect" and not target.startswith(OPEN_TO_BENCHMARKS):
            yield f"imports {target}; a benchmark knows only {' and '.join(OPEN_TO_BENCHMARKS)}"


def is_door(module: str, imported: Import) -> bool:
    return (module, imported.target) == DOOR and imported.by_name and not imported.at_import_time


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of a module, with attributes of `import cilab` (as in `cilab.run.start`) resolved."""
    yield from _imports(tree, module if is_package else module.rpartition(".")[0], at_import_time=True)


def _imports(node: ast.AST, package: str, at_import_time: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            # Never run: no cost at import, but knowing a higher floor's types is knowing that floor.
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), package, False)
            yield from _imports(ast.Module(child.orelse, []), package, at_import_time)
            continue
        yield from _own_imports(child, package, at_import_time)
        yield from _imports(child, package, at_import_time and not inside)


def _own_imports(node: ast.AST, package: str, at_import_time: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            # A bare `import cilab` says nothing yet: the attributes used say what is meant.
            if alias.name != "cilab":
                yield Import(alias.name, node.lineno, at_import_time)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node.module or "", node.level, package)
        for alias in node.names:
            yield from _meant(f"{base}.{alias.name}", node.lineno, at_import_time)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cilab":
        yield from _meant(f"cilab.{node.attr}", node.lineno, at_import_time)
    elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            level = len(name.value) - len(name.value.lstrip("."))
            target = _absolute(name.value.lstrip("."), level, package)
            yield Import(target, node.lineno, at_import_time, by_name=True)


def _meant(target: str, line: int, at_import_time: bool) -> Iterator[Import]:
    """`cilab.x` is a module where there is one of that name, else something of the face. The version is free to all."""
    parts = target.split(".")
    if target == "cilab.__version__":
        return
    if parts[0] == "cilab" and len(parts) == 2 and parts[1] not in HEIGHT:
        is_module = (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file()
        yield Import(target if is_module else "cilab", line, at_import_time)
    else:
        yield Import(target, line, at_import_time)


def _absolute(name: str, level: int, package: str) -> str:
    if level == 0:
        return name
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{name}" if name else base


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def parquet(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Reading or writing Parquet: calls by name, pyarrow's module, and DuckDB's SQL functions in strings."""
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PARQUET_CALLS:
            yield f"uses {node.attr}", node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (f"{prefix}{alias.name}" for alias in node.names):
                if name.startswith("pyarrow.parquet") or name.rpartition(".")[2] in PARQUET_CALLS:
                    yield f"imports {name}", node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            sql = node.value.lower()
            if any(word in sql for word in PARQUET_SQL):
                yield "reads or writes Parquet in SQL", node.lineno


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package. Files that a task hands to a model (`teamwork/tasks/…/files`) are data."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[1:3] == ("teamwork", "tasks") or parts[1] == "_shipped":
            continue
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_module_keeps_the_import_rule() -> None:
    found = [
        problem
        for module, path in modules()
        for problem in violations(path.read_text(), module, is_package=path.name == "__init__.py")
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_modules_are_found() -> None:
    names = {module for module, _ in modules()}
    assert {"cilab", "cilab.errors", "cilab.collect.model", "cilab.registry"} <= names
    assert not [n for n in names if n.endswith("__init__")]


@pytest.mark.parametrize(
    ("module", "statement", "problem"),
    [
        # floors
        ("cilab.errors", "import cilab.tables", "imports cilab.tables, which is not on a lower floor"),
        ("cilab.store", "from cilab import run", "imports cilab.run, which is not on a lower floor"),
        ("cilab.store", "import cilab\ncilab.run.start()", "imports cilab.run, which is not on a lower floor"),
        ("cilab.journal", "from . import store", "imports cilab.store, which is not on a lower floor"),
        ("cilab.collect.engine", "from ..maze.plan import plan", "imports cilab.maze.plan.plan, which is not on"),
        ("cilab.collect.engine", "def f():\n    from cilab.run import x", "imports cilab.run.x, which is not on"),
        ("cilab.collect.engine", "async def f():\n    import cilab.cli", "imports cilab.cli, which is not on"),
        ("cilab.registry", "__import__('cilab.run')", "imports cilab.run, which is not on a lower floor"),
        ("cilab.tables", "from cilab import leaderboard", "imports cilab, which is not on a lower floor"),
        ("cilab.tables", "import cilab\ncilab.open('x')", "imports cilab, which is not on a lower floor"),
        ("cilab.tables", "if TYPE_CHECKING:\n    from cilab.run import R", "imports cilab.run.R, which is not on"),
        # neighbours
        ("cilab.maze.plan", "import cilab.study", "imports cilab.study, which is not on a lower floor"),
        ("cilab.teamwork.play", "from cilab import maze", "imports cilab.maze, which is not on a lower floor"),
        ("cilab.study", "import cilab.maze", "imports cilab.maze, which is not on a lower floor"),
        ("cilab.stats.gap", "import cilab.maze.grid", "imports cilab.maze.grid, which is not on a lower floor"),
        ("cilab.stats.gap", "from cilab.plots import gap", "imports cilab.plots.gap, which is not on a lower floor"),
        ("cilab.stats.result", "from cilab import plots", "imports cilab.plots, which is not on a lower floor"),
        # lower, and barred all the same
        ("cilab.stats.gap", "def f():\n    import cilab.collect.spec", "cilab.stats knows no collect"),
        ("cilab.plots.gap", "from cilab.maze import grid", "cilab.plots knows no maze"),
        ("cilab.plots.gap", "import cilab.teamwork", "cilab.plots knows no teamwork"),
        ("cilab.plots.gap", "from cilab.collect.model import Usage", "cilab.plots knows no collect"),
        ("cilab.maze.play", "from cilab.collect.engine import Engine", "a benchmark knows only"),
        ("cilab.teamwork.play", "from cilab.collect import engine", "a benchmark knows only"),
        # libraries
        ("cilab.run", "def f():\n    import litellm", "only cilab.collect calls models"),
        ("cilab.maze.annotate", "def f():\n    from litellm import acompletion", "only cilab.collect calls models"),
        ("cilab.doctor", "def f():\n    import xllamacpp", "only cilab.collect calls models"),
        ("cilab.doctor", "def f():\n    importlib.import_module('litellm')", "only cilab.collect calls models"),
        ("cilab.collect.litellm", "import litellm", "imports litellm at the top level"),
        ("cilab.stats.gap", "import pandas as pd", "imports pandas at the top level"),
        ("cilab.stats.gap", "try:\n    from scipy import stats\nexcept ImportError:\n    pass", "imports scipy at"),
        ("cilab.stats.gap", "class A:\n    import statsmodels.api", "imports statsmodels at the top level"),
        ("cilab.plots.gap", "import matplotlib.pyplot as plt", "imports matplotlib at the top level"),
        ("cilab.reports", "import papermill", "imports papermill at the top level"),
        ("cilab.store", "import duckdb", "imports duckdb at the top level"),
        # Parquet
        ("cilab.run", "import polars\npolars.scan_parquet('x')", "uses scan_parquet; only cilab.store"),
        ("cilab.query", "def f(df):\n    df.write_parquet('x')", "uses write_parquet; only cilab.store"),
        ("cilab.stats.gap", "from polars import read_parquet", "imports polars.read_parquet; only cilab.store"),
        ("cilab.collect.engine", "import pyarrow.parquet as pq", "imports pyarrow.parquet; only cilab.store"),
        ("cilab.collect.engine", "from pyarrow import parquet", "imports pyarrow.parquet; only cilab.store"),
        ("cilab.query", "def f(d, p):\n    d.sql(f\"from read_parquet('{p}')\")", "reads or writes Parquet in SQL"),
        # unknown
        ("cilab.helpers", "", "cilab.helpers has no floor. Give it one in FLOORS"),
        ("cilab.run", "import cilab.helpers", "cilab.helpers has no floor"),
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
        ("cilab.cli", "def f():\n    import cilab.run, cilab.reports, cilab.registry"),
        ("cilab", "def f():\n    from cilab import run\n    return run"),
        ("cilab.quickstart", "from cilab import run, reports"),
        ("cilab.plots.gap", "from cilab.plots import style\nfrom cilab.stats.gap import gap"),
        (
            "cilab.maze.play",
            "from cilab.collect.model import Message\nfrom cilab.collect import spec\nfrom . import grid",
        ),
        ("cilab.collect.litellm", "async def f():\n    import litellm"),
        ("cilab.collect.engine", "import cilab\nfrom cilab import store\nv = cilab.__version__"),
        ("cilab.stats.result", "def f():\n    from cilab import __version__\n    import pandas"),
        ("cilab.stats.result", "import importlib\ndef f():\n    return importlib.import_module('cilab.plots')"),
        ("cilab.stats.result", "if TYPE_CHECKING:\n    import pandas"),
        ("cilab.store", "import polars\npolars.scan_parquet('x')\ndef f():\n    import pyarrow.parquet"),
        ("cilab.query", 'def f():\n    """Never calls read_parquet(x) itself."""'),
        ("cilab.doctor", "NAMES = ('litellm', 'xllamacpp')"),
    ],
)
def test_a_source_that_keeps_the_rules_passes(module: str, statement: str) -> None:
    assert violations(f'"""A module."""\n{statement}\n', module) == []


def test_a_module_without_a_docstring_is_caught() -> None:
    assert violations("x = 1\n", "cilab.store") == ["cilab.store: has no docstring"]
    assert violations("", "cilab.stats", is_package=True) == ["cilab.stats: has no docstring"]


def test_relative_imports_of_a_package_and_of_a_module_are_told_apart() -> None:
    source = '"""Doc."""\nfrom ..run import x\n'
    assert violations(source, "cilab.stats", is_package=True) != []
    assert violations('"""Doc."""\nfrom .gap import gap\n', "cilab.stats", is_package=True) == []
    assert violations('"""Doc."""\nfrom .gap import gap\n', "cilab.stats.more") == []


def test_importing_the_face_loads_no_heavy_library() -> None:
    code = "import cilab, sys; print(sorted(m for m in sys.argv[1:] if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *sorted(HEAVY)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
