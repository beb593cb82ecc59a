"""The public names of the package, found by importing it, and what is wrong with their docstrings.

Wrong is: a public name without a docstring, a section that numpydoc does not know, that stands twice, in another order
or over a line that does not fit, a parameter or attribute that is described and is not there, and a code reference
(`cilab.gap`, `RunSpec.run_id`) or See Also that leads nowhere.

May import the package, and numpydoc and Sphinx to read docstrings and comments. Writes nothing.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import ALLOWED_SECTIONS, Validator
from sphinx.pycode import ModuleAnalyzer

import cilab

#: Endings of modules whose functions are told by their names alone.
WITHOUT_DOCSTRINGS = (
    *(".bayes_kernel", ".importers.cells", ".collect.progress", ".mazes.plan", ".sandbox.inside", ".show.words"),
    *(".sim_talk", ".store.parts"),
)
#: Groups of entry points have names like modules.
ENTRY_POINTS = {"cilab.benchmarks", "cilab.columns", "cilab.importers"}
#: A name that a docstring or a guide writes as code and means as a link.
REFERENCE = re.compile(r"(?:cilab|[A-Z]\w*)(?:\.\w+)+")
_FILES = (".py", ".md", ".yaml", ".json", ".csv", ".html", ".ipynb", ".mplstyle", ".sqlite")
_ENTRIES = ("Parameters", "Other Parameters", "Attributes")


# -- what there is --------------------------------------------------------------------------------------------


class Name(NamedTuple):
    """A public name as a user types it, and what it names."""

    path: str
    value: Any


def is_api(value: Any) -> bool:
    """Whether a value is something to call: a function or a class."""
    return inspect.isfunction(value) or inspect.isclass(value)


def public(module: ModuleType, path: str | None = None) -> list[Name]:
    """The functions and classes that a module gives out: its `__all__`, or what it defines without an underscore.

    `path` is how a user calls the module, where that is not its name.
    """
    own = [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", None) == module.__name__]
    found = (Name(f"{path or module.__name__}.{n}", getattr(module, n)) for n in getattr(module, "__all__", own))
    return [name for name in found if is_api(name.value)]


def constants(module: ModuleType) -> list[str]:
    """The public values of a module that a comment `#:` describes."""
    described = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
    return [name for scope, name in described if not scope and name[0] != "_"]


@cache
def modules() -> dict[str, ModuleType]:
    """Every public module of the package, by name; files that a task hands to a model are data."""
    names = [m.name for m in pkgutil.walk_packages(cilab.__path__, "cilab.") if not m.name.endswith("__main__")]
    names = [n for n in names if not any(part[0] == "_" or part == "tasks" for part in n.split("."))]
    return {"cilab": cilab} | {name: import_module(name) for name in names}


@cache
def classes() -> dict[str, list[type]]:
    """Every class of the package by its bare name."""
    found: dict[str, list[type]] = {}
    for module in modules().values():
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                found.setdefault(value.__name__, []).append(value)
    return found


def import_for_types() -> None:
    """Give modules the names that they import for type checkers alone, so that every annotation can be told."""
    for module in modules().values():
        for block in ast.parse(inspect.getsource(module)).body:
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
                for name, value in _imported(block):
                    setattr(module, name, value)


def _imported(block: ast.If) -> Iterator[tuple[str, Any]]:
    for statement in block.body:
        if isinstance(statement, ast.ImportFrom):
            home = _package(statement.module or "")
            yield from ((name.asname or name.name, getattr(home, name.name)) for name in statement.names)
        elif isinstance(statement, ast.Import):
            yield from ((name.asname or name.name, _package(name.name)) for name in statement.names)


def _package(name: str) -> ModuleType:
    ours = name.partition(".")[0] in {"cilab", *sys.stdlib_module_names}
    return import_module(name) if ours else _Elsewhere(name)


class _Elsewhere(ModuleType):
    """Stands for a package that is slow to import: all that a page shows of its classes is their name."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__, "__class_getitem__": classmethod(lambda cls, _: cls)})


def named_classes(function: Callable[..., Any], argument: str = "return") -> list[type]:
    """The package's own classes in a function's annotation of an argument, or of what it returns."""
    words = re.findall(r"\w+", str(getattr(function, "__annotations__", {}).get(argument, "")))
    found = (getattr(modules()[function.__module__], word, None) for word in words)
    return [value for value in found if inspect.isclass(value) and value.__module__.startswith("cilab")]


def leads(reference: str) -> bool:
    """Whether a dotted name is there: a module, a name in it, a class's attribute, a group of entry points.

    Others cannot be told.
    """
    first, *rest = reference.split(".")
    if reference in ENTRY_POINTS:
        return True
    if first != "cilab":
        return first not in classes() or any(_has(c, rest[0]) for c in classes()[first])
    for cut in range(len(rest), -1, -1):
        value: Any = modules().get(".".join([first, *rest[:cut]]))
        if value is not None:
            return _reached(value, rest[cut:])
    return False


def _reached(value: Any, words: list[str]) -> bool:
    if not words:
        return True
    if inspect.isclass(value):
        return _has(value, words[0])
    return hasattr(value, words[0]) and _reached(getattr(value, words[0]), words[1:])


def _has(cls: type, name: str) -> bool:
    """Whether instances have an attribute: a method, a field, or one that a method sets."""
    own = [c for c in cls.__mro__ if c.__module__.startswith("cilab")]
    return (
        hasattr(cls, name)
        or any(name in inspect.get_annotations(c) for c in own)
        or any(re.search(rf"self\.{name}\b", inspect.getsource(c)) for c in own)
    )


# -- what is wrong with a docstring ---------------------------------------------------------------------------


def problems(module: ModuleType) -> Iterator[str]:
    """What is wrong with the docstrings of a module, a line each."""
    may_be_silent = module.__name__.endswith(WITHOUT_DOCSTRINGS)
    if not module.__doc__:
        yield f"{module.__name__}: has no docstring"
    for path, value in _described(module):
        text = inspect.getdoc(value)
        if text:
            wrong = [*_misshapen(value), *_astray(text)]
        else:
            wrong = [] if may_be_silent else ["has no docstring"]
        yield from (f"{path}: {what}" for what in wrong)
    yield from (f"{module.__name__}: {what}" for what in _astray(module.__doc__ or ""))


def _described(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """(path, object) of a module's own public functions, classes and their members."""
    for name, value in list(vars(module).items()):
        if name[0] != "_" and is_api(value) and value.__module__ == module.__name__:
            yield f"{module.__name__}.{name}", value
            for member, inner in vars(value).items() if inspect.isclass(value) else ():
                if member[0] != "_" and isinstance(inner, _MEMBERS):
                    yield f"{module.__name__}.{name}.{member}", getattr(value, member)


_MEMBERS = (property, cached_property, classmethod, staticmethod, type(lambda: None))


def _misshapen(value: Any) -> Iterator[str]:
    """What numpydoc finds wrong, and names that are described and are not there."""
    try:
        with warnings.catch_warnings(category=UserWarning, action="error"):
            doc = get_doc_object(value)
    except (ValueError, UserWarning) as error:
        yield " ".join(str(error).split())
        return
    order = [ALLOWED_SECTIONS.index(title) for title in Validator(doc).section_titles if title in ALLOWED_SECTIONS]
    if order != sorted(order):
        yield "has its sections in another order than numpydoc's"
    for section in _ENTRIES:
        for entry in doc[section]:
            for name in (n.strip().lstrip("*") for n in entry.name.split(",")):
                if not _holds(value, section, name):
                    yield f"describes {name!r} under {section}, and has none"
    for names, _ in doc["See Also"]:
        yield from (f"See Also: {name} leads nowhere" for name, _ in names if name[:5] == "cilab" and not leads(name))


def _holds(value: Any, section: str, name: str) -> bool:
    """Whether what a section describes is there; True where it cannot be told."""
    if section == "Attributes":
        return not inspect.isclass(value) or _has(value, name)
    try:
        return name in inspect.signature(value).parameters
    except (TypeError, ValueError):
        return True


def _astray(text: str) -> Iterator[str]:
    """References in a text that lead nowhere."""
    for reference in re.findall(rf"`({REFERENCE.pattern})", text):
        if not reference.endswith(_FILES) and not leads(reference):
            yield f"`{reference}` leads nowhere"
