"""The rooms of the package and who may import whom, as data; and what the modules' sources really import.

`tests/test_architecture.py` holds the sources to these rules, `tools/draw_house.py` draws them for the docs. The
modules are parsed, not imported: imports inside functions and `import_module("...")` with a literal name count as well.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "cilab"
#: The benchmarks that come with the package: those of the project file's entry points.
BENCHMARKS = tuple(
    sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["cilab.benchmarks"])
)
#: Those that have definitions beside their words.
RULES = tuple(f"{name}.rules" for name in BENCHMARKS if (PACKAGE / name / "rules.py").is_file())
#: Rooms, top to bottom. A module may import from lower floors and from inside its own room, nothing else. A module's
#: room is the longest name here that its own begins with; `__init__` is the face (cilab/__init__.py).
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("shell",),
    ("__init__",),
    ("claims", "reports", "humans", "running", "testing"),
    ("plots",),
    ("plots.judges", "plots.teamwork", "plots.maze"),
    ("stats",),
    ("stats.judges",),
    ("stats.teamwork", "stats.maze", "datasets", *BENCHMARKS),
    ("stats.methods", "plots.parts", "collect", "show"),
    ("results", "store", "stats.expressions"),
    RULES,
    tuple(f"{name}.terms" for name in BENCHMARKS),
    ("core",),
)
#: What each room is for; the docs draw it.
ROOMS: Mapping[str, str] = {
    "__main__": "python -m cilab",
    "shell": "the verbs of a terminal",
    "__init__": "the face: what a notebook types",
    "claims": "the ledger",
    "reports": "notebook + parameters -> page",
    "humans": "samples, forms, answers",
    "running": "a plan, a benchmark, the engine",
    "testing": "rows and studies by hand",
    "plots": "figures by name",
    "plots.judges": "figures of judges",
    "plots.teamwork": "figures of teamwork",
    "plots.maze": "figures of mazes",
    "plots.parts": "what figures share",
    "stats": "estimators by name",
    "stats.judges": "agreement, grading",
    "stats.teamwork": "scores, failures, validity",
    "stats.maze": "gap, pairs, mechanisms",
    "stats.methods": "arrays in, numbers out",
    "stats.expressions": "definitions as polars",
    "datasets": "published, simulated, imported",
    "collect": "the only code that calls a model",
    "show": "one run as a page",
    "results": "what an answer is",
    "store": "the only code that touches run files",
    "core": "said once",
    **dict.fromkeys(BENCHMARKS, "a benchmark"),
    **dict.fromkeys(RULES, "its definitions"),
    **{f"{name}.terms": "its words and columns" for name in BENCHMARKS},
}
HEIGHT = {name: -depth for depth, floor in enumerate(FLOORS) for name in floor}

#: Lower rooms of which a room may see these modules only.
ONLY: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    name: {"collect": ("cilab.collect.model", "cilab.collect.spec")} for name in BENCHMARKS
}
#: Lower rooms that a room may not see at all. The open parts of benchmarks (terms, rules) are rooms of their own.
NEVER: Mapping[str, tuple[str, ...]] = {
    "stats": ("collect", *BENCHMARKS),
    "plots": ("collect", *BENCHMARKS),
    "collect": (*(f"{name}.terms" for name in BENCHMARKS), *RULES),
    "datasets": ("collect",),
    # Benchmarks are found by entry point: what they bring is said in collect/spec.py.
    "running": BENCHMARKS,
}
#: The one door upwards: a result looks its figure up by name when `.plot()` is called.
DOORS = {("cilab.results.result", "cilab.plots")}

MODEL_LIBRARIES = {"litellm", "xllamacpp", "llama_cpp", "openai", "anthropic"}
HEAVY = {
    *MODEL_LIBRARIES,
    *("pandas", "duckdb", "scipy", "statsmodels", "sklearn", "pymc", "nutpie", "arviz"),
    *("matplotlib", "seaborn", "papermill", "nbconvert", "nbclient", "great_tables", "itables", "dask", "distributed"),
}
PARQUET_CALLS = {"scan_parquet", "read_parquet", "write_parquet", "sink_parquet", "to_parquet", "read_parquet_schema"}
PARQUET_SQL = ("read_parquet(", "parquet_scan(", "format parquet")
MAY_TOUCH_PARQUET = ("store", "datasets")
#: Hidden state: what a source must not hold (a regular expression), and the modules that may all the same.
STATE: Mapping[str, tuple[str, ...]] = {
    # A library's optional imports are kept out while it loads; the box has no other module to be in.
    r"sys\.modules(\.update|\[.*\] =)|del sys\.modules": ("cilab.reports.lean", "cilab.teamwork.sandbox.inside"),
    r"sys\._getframe": (),
    r"\.__class__ = ": (),
    r"(?m)^\s+global \w": (),
    # LiteLLM asks the network for prices unless it is told before its import.
    r"os\.environ(\[.*\] =|\.(setdefault|update|pop|clear)\()": ("cilab.collect.litellm_model",),
}


class Import(NamedTuple):
    """One import: the full dotted name of what is imported, and where it stands."""

    target: str
    line: int
    at_import_time: bool
    by_name: bool = False


def room(name: str) -> str | None:
    """The room of a module, `stats.maze` for `cilab.stats.maze.gap`; None where it has none."""
    parts = name.split(".")[1:]
    if not parts:
        return "__init__"
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in HEIGHT), None)


def wing_of(name: str, room_name: str) -> bool:
    """Whether a room is `name` or one of its wings."""
    return room_name == name or room_name.startswith(f"{name}.")


def barred(upper: str, lower: str) -> bool:
    """Whether a room may not see a lower one by `NEVER`."""
    return any(wing_of(name, upper) and lower in rooms for name, rooms in NEVER.items())


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of a module, with attributes of `import cilab` (as in `cilab.running.play.start`) resolved."""
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
    """`cilab.x` is a room where there is one of that name, else something of the face."""
    parts = target.split(".")
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


def file_arrows() -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, the doors left out."""
    known = dict(modules())
    out: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for imported in imports(ast.parse(path.read_text()), name, path.name == "__init__.py"):
            if (name, imported.target) in DOORS or not imported.target.startswith("cilab"):
                continue
            parts = imported.target.split(".")
            target = next(t for t in (".".join(parts[:n]) for n in range(len(parts), 0, -1)) if t in known)
            if target != name:
                out[name].add(target)
    return out


def room_arrows() -> dict[str, set[str]]:
    """Room -> other rooms that its modules import."""
    out: dict[str, set[str]] = {name: set() for name in HEIGHT}
    for name, targets in file_arrows().items():
        upper = room(name)
        for lower in (room(target) for target in targets):
            if upper is not None and lower is not None and upper != lower:
                out[upper].add(lower)
    return out


def circles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of names that reach each other (Tarjan's strongly connected components of two or more)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in arrows.get(name, ()):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in arrows:
        if name not in index:
            visit(name)
    return found
