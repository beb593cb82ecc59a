"""Builds the documentation as plain pages: the guides, and an API reference from the docstrings.

    python docs/build_reference.py build/docs    # writes index.html, a page per guide and a page per module
    python docs/build_reference.py --check       # writes nothing

Modules are parsed, not imported. A page lists the public names of its module with signature and docstring. What is
wrong with a docstring is printed, a line each, and makes the exit code 1: a public name without one, a heading that
numpydoc does not know or whose underline does not fit, sections out of numpydoc's order, a parameter or attribute that
is described and is not there, a code reference (`cilab.stats.maze.gap`, `RunSpec.run_id`) or a See Also that leads
nowhere.

May import the standard library, and mistune (which comes with nbconvert) to write the pages.
"""

from __future__ import annotations

import ast
import html
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "cilab"

#: Group -> modules, in the order of the contents; a star takes every public module of a folder.
GROUPS: dict[str, tuple[str, ...]] = {
    "What a notebook types": ("cilab", "cilab.stats.expressions", "cilab.humans.samples", "cilab.show.page"),
    "Collecting": (
        *(
            "cilab.running.play",
            "cilab.running.study_file",
            "cilab.running.again",
            "cilab.running.relabel",
            "cilab.running.prove",
        ),
        *("cilab.collect.model", "cilab.collect.spec", "cilab.collect.user_model"),
        *("cilab.maze.plan", "cilab.teamwork.plan", "cilab.teamwork.task"),
    ),
    "Data": (
        *(
            "cilab.store.study",
            "cilab.core.tables",
            "cilab.core.registry",
            "cilab.datasets.dataset",
            "cilab.datasets.published",
        ),
        *("cilab.datasets.release.data", "cilab.datasets.mazes.data", "cilab.datasets.importers"),
    ),
    "Statistics": ("cilab.stats.*",),
    "Figures": ("cilab.plots.*",),
    "Reports": (
        *(
            "cilab.reports",
            "cilab.reports.batch",
            "cilab.claims",
            "cilab.shell.quickstart",
            "cilab.shell.workspace",
            "cilab.shell.lab",
        ),
        *("cilab.shell.doctor", "cilab.core.errors"),
    ),
}
#: Parts that other modules of their folder are made of; nobody calls them from outside.
INTERNAL = {"cilab.stats.methods.bayes_kernel", "cilab.stats.teamwork.grid"}
#: numpydoc's sections, in its order.
SECTIONS = (
    *("Parameters", "Attributes", "Methods", "Returns", "Yields", "Receives", "Other Parameters", "Raises", "Warns"),
    *("Warnings", "See Also", "Notes", "References", "Examples"),
)
_ENTRIES = ("Parameters", "Other Parameters", "Attributes")
_REFERENCE = re.compile(r"`((?:cilab|[A-Z]\w*)(?:\.\w+)+)")
_WITHOUT = shutil.ignore_patterns("__pycache__")
_FILES = (".py", ".md", ".yaml", ".json", ".csv", ".html", ".ipynb", ".mplstyle", ".sqlite")

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """A parsed module: its dotted name and its tree."""

    name: str
    tree: ast.Module

    @property
    def names(self) -> set[str]:
        """Every name at the top level, imported ones included."""
        return _names(self.tree)


@dataclass
class Library:
    """The package as a whole: its modules by name, and its classes by their bare name."""

    modules: dict[str, Module]
    classes: dict[str, list[ast.ClassDef]] = field(default_factory=dict)

    @classmethod
    def read(cls, package: Path = PACKAGE) -> Library:
        """Parse every module below `package`; files that a task hands to a model are data."""
        modules = {}
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            if "tasks" not in parts and "_shipped" not in parts:
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                modules[name] = Module(name, ast.parse(path.read_text(encoding="utf-8")))
        library = cls(modules)
        for module in modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    library.classes.setdefault(node.name, []).append(node)
        return library

    def pages(self) -> Iterator[tuple[str, list[Module]]]:
        """The groups with their modules; a name that is not there is an error of this file."""
        for group, wanted in GROUPS.items():
            names: list[str] = []
            for name in wanted:
                folder = name.removesuffix("*")
                names += [n for n in self.modules if n.startswith(folder) and _public(n)] if name != folder else [name]
            yield group, [self.modules[n] for n in names if n not in INTERNAL]

    def leads(self, reference: str) -> bool:
        """Whether a dotted name is there: a module, a name in it, an attribute of a class; others cannot be told."""
        first, *rest = reference.split(".")
        if first != "cilab":
            found = self.classes.get(first)
            return not found or any(self._has(c, rest[0]) for c in found)
        for cut in range(len(rest), -1, -1):
            module = self.modules.get(".".join([first, *rest[:cut]]))
            if module is not None:
                left = rest[cut:]
                return not left or left[0] in module.names or left[0] in _faced(module)
        return False

    def _has(self, node: ast.ClassDef, name: str) -> bool:
        if name in _names(node) or name in _set_on_self(node):
            return True
        bases = [ast.unparse(b).split("[")[0].rpartition(".")[2] for b in node.bases]
        known = [c for b in bases for c in self.classes.get(b, [])]
        return any(self._has(c, name) for c in known) or any(b not in self.classes for b in bases)


def _public(module: str) -> bool:
    return not any(part.startswith("_") for part in module.split("."))


def _names(node: ast.Module | ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for child in node.body:
        if isinstance(child, Node):
            found.add(child.name)
        elif isinstance(child, ast.Assign):
            found |= {t.id for t in child.targets if isinstance(t, ast.Name)}
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            found.add(child.target.id)
        elif isinstance(child, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in child.names}
    return found


def _set_on_self(node: ast.ClassDef) -> set[str]:
    return {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == "self"
    }


def _faced(module: Module) -> set[str]:
    """Names that a module gives out by `__getattr__`: the string keys of its dictionaries."""
    if "__getattr__" not in module.names:
        return set()
    keys = (k for n in ast.walk(module.tree) if isinstance(n, ast.Dict) for k in n.keys)
    return {k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}


def _members(node: ast.Module | ast.ClassDef) -> Iterator[Node]:
    """Public functions, classes and methods, in the order of the source. A setter has its getter's words."""
    for child in node.body:
        if not isinstance(child, Node) or child.name.startswith("_"):
            continue
        if not any(ast.unparse(d).endswith((".setter", "overload")) for d in child.decorator_list):
            yield child


# -- what a docstring holds -----------------------------------------------------------------------------------


def sections(text: str) -> Iterator[tuple[str, list[str], str]]:
    """(heading, lines, complaint) of a docstring; the heading of what stands before the first one is empty."""
    lines = text.splitlines()
    heading, body, complaint, fenced = "", [], "", False
    for i, line in enumerate(lines):
        fenced ^= line.startswith("```")
        below = lines[i + 1] if i + 1 < len(lines) else ""
        if not fenced and line.strip() and line == line.lstrip() and re.fullmatch(r"-{3,}", below):
            yield heading, body, complaint
            heading, body = line.strip(), []
            complaint = "" if len(below) == len(heading) else f"the line below {heading} does not fit"
        elif not (body == [] and heading and re.fullmatch(r"-{3,}", line)):
            body.append(line)
    yield heading, body, complaint


def entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(names, description) of the entries of a section."""
    head, rest = None, []
    for line in lines:
        if line.strip() and line == line.lstrip():
            if head is not None:
                yield head, " ".join(rest)
            head, rest = line.strip(), []
        elif line.strip():
            rest.append(line.strip())
    if head is not None:
        yield head, " ".join(rest)


def problems(library: Library) -> list[str]:
    """What is wrong, a line each, over every page of the reference."""
    found = []
    for _, modules in library.pages():
        for module in modules:
            if not ast.get_docstring(module.tree):
                found.append(f"{module.name}: has no docstring")
            for node, name in _walk(module.tree, module.name):
                found += [f"{name}: {what}" for what in _wrong(library, node)]
    return found


def _walk(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[Node | ast.Module, str]]:
    if isinstance(node, ast.Module):
        yield node, prefix
    for child in _members(node):
        yield child, f"{prefix}.{child.name}"
        if isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}.{child.name}")


def _wrong(library: Library, node: Node | ast.Module) -> Iterator[str]:
    text = ast.get_docstring(node)
    if not text:
        yield "has no docstring"
        return
    order = []
    for heading, lines, complaint in sections(text):
        if complaint:
            yield complaint
        if heading and heading not in SECTIONS:
            yield f"has a section {heading!r}, which numpydoc does not know"
        elif heading:
            order.append(SECTIONS.index(heading))
        if heading in _ENTRIES and not isinstance(node, ast.Module):
            there = _described(node, heading)
            for entry, _ in entries(lines):
                for name in (n.strip().lstrip("*") for n in entry.partition(" : ")[0].split(",")):
                    if there is not None and name not in there and name != "...":
                        yield f"describes {name!r} under {heading}, and has none"
        if heading == "See Also":
            for entry, _ in entries(lines):
                for name in re.findall(r"[\w.]+", entry.partition(" : ")[0]):
                    if name.startswith("cilab") and not library.leads(name):
                        yield f"See Also: {name} leads nowhere"
    if order != sorted(order):
        yield "has its sections in another order than numpydoc's"
    if len(set(order)) < len(order):
        yield "has a section twice"
    for reference in _REFERENCE.findall(text):
        if not reference.endswith(_FILES) and not library.leads(reference):
            yield f"`{reference}` leads nowhere"


def _described(node: Node, heading: str) -> set[str] | None:
    """The names that a section may describe; None where they cannot be told."""
    if isinstance(node, ast.ClassDef):
        if heading == "Attributes":
            return None if node.bases else _names(node) | _set_on_self(node)
        own = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
        return _arguments(own[0]) if own else None if node.bases else _names(node)
    return _arguments(node)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return {arg.arg for arg in every}


# -- the pages ------------------------------------------------------------------------------------------------


def markdown(module: Module) -> str:
    """The page of a module."""
    parts = [f"# {module.name}", prose(ast.get_docstring(module.tree) or "")]
    for node in _members(module.tree):
        parts += _shown(node, "", 2)
    return "\n\n".join(parts) + "\n"


def _shown(node: Node, prefix: str, level: int) -> list[str]:
    parts = [
        f"{'#' * level} {prefix}{node.name}",
        f"```python\n{_signature(node)}\n```",
        prose(ast.get_docstring(node) or ""),
    ]
    if isinstance(node, ast.ClassDef):
        for child in _members(node):
            parts += _shown(child, f"{node.name}.", level + 1)
    return parts


def _signature(node: Node) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    if any(ast.unparse(d).endswith("property") for d in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    back = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{kind} {node.name}({ast.unparse(node.args)}){back}"
    if len(line) <= 100:
        return line
    return f"{kind} {node.name}(\n    " + ast.unparse(node.args).replace(", ", ",\n    ") + f"\n){back}"


def prose(text: str) -> str:
    """A docstring as Markdown: headings in bold, entries as a list, examples as code."""
    parts = []
    for heading, lines, _ in sections(text):
        if heading:
            parts.append(f"**{heading}**")
        body = "\n".join(lines).strip("\n")
        if heading == "Examples":
            parts.append(f"```python\n{body}\n```")
        elif heading in (*_ENTRIES, "Returns", "Yields", "Raises", "Warns", "See Also"):
            parts.append("\n".join(f"- {_entry(head, rest)}" for head, rest in entries(lines)))
        else:
            parts.append(body)
    return "\n\n".join(part for part in parts if part)


def _entry(head: str, rest: str) -> str:
    names, colon, kind = head.partition(" : ")
    text = f"`{names}`" + (f": {kind}" if colon else "")
    return f"{text}. {rest}" if rest else text


_STYLE = """
:root { color-scheme: light dark; --line: #c9c9c9; --soft: #f4f4f4; --link: #0b5394; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #222; --link: #8ab8e6; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
a { color: var(--link); } img { max-width: 100%; } h2, h3 { margin-top: 2.2rem; }
code, pre { font: .88em/1.45 ui-monospace, Menlo, Consolas, monospace; background: var(--soft); border-radius: 3px; }
code { padding: .1em .25em; } pre { padding: .7rem .9rem; overflow-x: auto; } pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; } th, td { border: 1px solid var(--line);
padding: .3em .6em; text-align: left; vertical-align: top; }
"""


def page(title: str, text: str, up: str) -> str:
    """Markdown as an HTML page. Every page lies in one folder: links to guides lead to their pages there."""
    import mistune

    body = mistune.create_markdown(plugins=["table"])(text)
    body = re.sub(r'href="(?!https?:)(?:[\w./-]+/)?([\w-]+)\.md(#[^"]*)?"', r'href="\1.html\2"', str(body))
    body = re.sub(r'(src|href)="docs/', r'\1="', body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
        f'</head><body><p><a href="{up}">Contents</a></p>\n{body}</body></html>\n'
    )


def build(out: Path, library: Library) -> int:
    """Write the pages; returns how many."""
    out.mkdir(parents=True, exist_ok=True)
    contents = ["# cilab", "## Guides"]
    guides = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path in guides:
        text = path.read_text(encoding="utf-8")
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), path.stem)
        (out / f"{path.stem}.html").write_text(page(title, text, "index.html"), encoding="utf-8")
        contents.append(f"- [{title}]({path.stem}.html)")
    for folder in ("images", "examples"):
        shutil.copytree(ROOT / "docs" / folder, out / folder, dirs_exist_ok=True, ignore=_WITHOUT)
    count = len(guides)
    for group, modules in library.pages():
        contents.append(f"## {group}")
        for module in modules:
            summary = (ast.get_docstring(module.tree) or "").splitlines()[0]
            (out / f"{module.name}.html").write_text(page(module.name, markdown(module), "index.html"), "utf-8")
            contents.append(f"- [{module.name}]({module.name}.html): {summary}")
            count += 1
    text = re.sub(r"\n\n- ", "\n- ", "\n\n".join(contents))
    (out / "index.html").write_text(page("cilab", text, "index.html"), encoding="utf-8")
    return count + 1


def main(arguments: list[str]) -> int:
    """Check, and write the pages where a folder is given; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python docs/build_reference.py OUT | --check", file=sys.stderr)
        return 2
    library = Library.read()
    wrong = problems(library)
    for line in wrong:
        print(line, file=sys.stderr)
    if arguments != ["--check"]:
        print(f"{build(Path(arguments[0]), library)} pages in {arguments[0]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
