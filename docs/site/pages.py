"""An extension of Sphinx: it fills the source folder with the guides, the reference and the gallery.

Which names have a page follows from the package's own lists: what `cilab` gives out, what the modules of its face give
out, and the modules that a guide, an example or a notebook names. An estimator's page holds its result too; a figure's
page shows it as the gallery does.

May import `reference` and `gallery`. Writes into Sphinx's source folder only, which lies below build/.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import gallery
from docutils import nodes
from reference import REFERENCE, Name, constants, import_for_types, leads, modules, named_classes, problems, public
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import cilab
from cilab.core.columns import Column
from cilab.core.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("README.md", "CHANGELOG.md", "docs/*.md", "docs/statistics/*.md")
#: What guides, examples and notebooks name as code or import.
NAMING = (*GUIDES, "docs/examples/*.py", "notebooks/*.ipynb")
_NAMED = re.compile(r"(?:`|\bfrom |\bimport )(cilab(?:\.\w+)+)")
#: Sections whose entries here are `name : what it is`; numpydoc would take what it is for a type.
_DESCRIBING = ("Parameters", "Other Parameters", "Attributes")

log = logging.getLogger(__name__)


# -- the source folder ----------------------------------------------------------------------------------------


def write_sources(app: Sphinx) -> None:
    """Fill the source folder, and tell what is wrong with docstrings."""
    source = Path(app.srcdir)
    import_for_types()
    for guide in guides():
        (source / guide).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / guide, source / guide)
    for folder in ("docs/images", "docs/examples"):
        shutil.copytree(ROOT / folder, source / folder, dirs_exist_ok=True)
    figures = [f for f in public(cilab.plots) if app.config.gallery_figures in ("all", f.value.__name__)]
    pictures = gallery.draw(figures, source / "pictures")
    groups = write_reference(source / "api", pictures)
    write(source / "gallery.rst", _gallery(figures, pictures))
    write(source / "tables.rst", *_tables())
    write(source / "index.rst", _index(groups))
    for line in (line for module in modules().values() for line in problems(module)):
        log.warning(line)


def guides() -> list[str]:
    """The guides' files, the README first."""
    return [path.relative_to(ROOT).as_posix() for pattern in GUIDES for path in sorted(ROOT.glob(pattern))]


def write(path: Path, *parts: str) -> None:
    """A page from its parts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


class Group(NamedTuple):
    """Pages that stand together in the contents: (page, what is on it) each."""

    slug: str
    title: str
    intro: str
    pages: list[tuple[str, str]]


def write_reference(folder: Path, pictures: dict[str, str]) -> list[Group]:
    """A page for each name of the face, then one for each other module that is given out or named; each name once."""
    done: dict[int, Name] = {}
    face = {f"cilab.{name}": getattr(cilab, name) for name in cilab._MODULES}
    groups = [
        Group("notebook", "What a notebook types", ".. automodule:: cilab", []),
        Group("figures", "Figures", ".. automodule:: cilab.plots", []),
        Group("data", "Data sets", ".. automodule:: cilab.datasets", []),
        Group("modules", "Modules of the face", "They come with `import cilab`.", []),
        Group("further", "Further modules", "What guides, examples, notebooks and the pages above name.", []),
    ]
    of_names = [("cilab", cilab), *((path, face.pop(path)) for path in ("cilab.plots", "cilab.datasets"))]
    for group, (path, module) in zip(groups, of_names, strict=False):
        for name in public(module, path):
            picture = f".. image:: /pictures/{pictures[name.path]}" if name.path in pictures else ""
            write(folder / f"{name.path}.rst", _heading(name.path), picture, *_documented([name], done))
            group.pages.append((name.path, _summary(name.value)))
    _write_modules(folder, groups[3], face, done)
    of_face = [module for _, module in (*of_names, *face.items())]
    _write_modules(folder, groups[4], _named(of_face, done.values()), done)
    for group in groups:
        write(folder / f"{group.slug}.rst", _heading(group.title), group.intro, _listed(group), _toctree(group.pages))
    return groups


def _write_modules(folder: Path, group: Group, some: Mapping[str, ModuleType], done: dict[int, Name]) -> None:
    """A page for each module, by the path that users know, unless all that it has stands on other pages."""
    for path, module in some.items():
        known = [(name, done[id(value)].path) for name, value in public(module, path) if id(value) in done]
        elsewhere = "\n".join(f"- :py:obj:`{name} <{page}>`" for name, page in known)
        values = [f".. autodata:: {module.__name__}.{name}\n   :no-value:" for name in constants(module)]
        new = [*values, *_documented(public(module, path), done)]
        if new:
            pointers = ["On pages of their own:", elsewhere] if elsewhere else []
            write(folder / f"{path}.rst", _heading(path), f".. automodule:: {module.__name__}", *pointers, *new)
            group.pages.append((path, _summary(module)))


def _tables() -> Iterator[str]:
    """The tables of a study: each column with its type and meaning, each closed list with its words."""
    yield _heading("The tables of a study")
    yield (
        "Every table is a polars LazyFrame of an opened study, as ``study.runs``, and a view in SQL. A column is null "
        "where it is not known, and in studies that were written before the column was there."
    )
    for table in TABLES.values():
        yield _heading(table.name, "-")
        yield _plain(table.doc)
        yield "\n".join(line for column in table.columns for line in _column(column))


def _column(column: Column) -> Iterator[str]:
    """A column as an entry of a definition list."""
    notes = ["required"] if column.required else []
    if column.since is not None and column.since > 1:
        notes.append(f"since tables {column.since}")
    yield f"``{column.name}`` : {column.dtype}{f' ({chr(44).join(notes)})' if notes else ''}"
    yield f"   {_plain(column.doc)}"
    if column.allowed is not None:
        meaning = getattr(column.allowed, "meaning", {})
        yield ""
        for word in column.allowed:
            yield f"   - ``{word}``" + (f": {_plain(meaning[word])}" if meaning.get(word) else "")
        yield ""


def _documented(names: Iterable[Name], done: dict[int, Name]) -> Iterator[str]:
    """Directives for names that have no page yet, and for the classes that they return."""
    for path, value in names:
        if id(value) not in done:
            done[id(value)] = Name(path, value)
            if inspect.isclass(value):
                bases = "" if value.__bases__ == (object,) else "\n   :show-inheritance:"
                yield f".. autoclass:: {path}\n   :members:{bases}"
            else:
                yield f".. autofunction:: {path}"
                results = [Name(f"{c.__module__}.{c.__qualname__}", c) for c in named_classes(value)]
                yield from _documented(results, done)


def _named(face: Sequence[ModuleType], documented: Iterable[Name]) -> dict[str, ModuleType]:
    """Modules that are not of the face and that it needs, or that texts for readers name.

    It needs those that its docstrings name, and those where its classes have their bases.
    """
    texts = [path.read_text("utf-8") for pattern in NAMING for path in sorted(ROOT.glob(pattern))]
    texts += [inspect.getdoc(value) or "" for module in face for value in (module, *(n.value for n in public(module)))]
    named = {_module_of(name) for text in texts for name in _NAMED.findall(text)}
    named |= {
        base.__module__ for _, value in documented for base in getattr(value, "__mro__", ())[1:]
    } & modules().keys()
    return {name: modules()[name] for name in sorted(named) if modules()[name] not in face}


def _module_of(name: str) -> str:
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


def _heading(title: str, line: str = "=") -> str:
    return f"{title}\n{line * len(title)}"


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _listed(group: Group) -> str:
    return "\n".join(f":doc:`{page}`\n   {summary}\n" for page, summary in group.pages)


def _toctree(pages: Iterable[tuple[str, str]]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + "\n".join(f"   {page}" for page, _ in pages)


def _gallery(figures: list[Name], pictures: dict[str, str]) -> str:
    parts = [_heading("Gallery"), gallery.WORDS]
    for name in figures:
        about = f":doc:`{name.path} <api/{name.path}>`\n\n      {_summary(name.value)}"
        parts.append(
            f"   .. figure:: /pictures/{pictures[name.path]}\n      :target: api/{name.path}.html\n"
            f"      :alt: {name.path}, drawn from simulated data\n\n      {about}"
        )
    return "\n\n".join([*parts[:2], *([".. container:: gallery"] if figures else []), *parts[2:]])


def _index(groups: list[Group]) -> str:
    readme, changelog, *others = (guide.removesuffix(".md") for guide in guides())
    listed = [f"Start here <{readme}>", *others, changelog]
    reference = ["gallery", "tables", *(f"api/{group.slug}" for group in groups)]
    about = (cilab.__doc__ or "").partition("\n")[0].removeprefix("cilab: ").capitalize()
    contents = (
        f".. toctree::\n   :caption: {caption}\n   :maxdepth: 1\n\n" + "\n".join(f"   {page}" for page in pages)
        for caption, pages in (("Guides", listed), ("Reference", reference))
    )
    return "\n\n".join([_heading("cilab"), about, *contents])


# -- docstrings and links -------------------------------------------------------------------------------------


def as_numpydoc(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Put a docstring as numpydoc wants it.

    `name : what it is` becomes a name and its description: types stand in the signature. An indented block after a
    colon becomes code, and a bar is a bar.
    """
    section, out = "", []
    for line, below, then in zip(lines, [*lines[1:], ""], [*lines[2:], "", ""], strict=True):
        if line and set(below) == {"-"}:
            section = line
        name, colon, text = line.partition(" : ")
        if section in _DESCRIBING and colon and not line.startswith(" "):
            out += [name, f"    {_plain(text)}"]
        else:
            shows_code = not section and line.endswith(":") and not below and then.startswith("    ")
            out.append(_plain(line) + ":" * shows_code)
    lines[:] = out


def _plain(line: str) -> str:
    """A line whose bars are bars; between backticks they are anyway."""
    return "`".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(line.split("`")))


def hide_constructor(_app: Sphinx, what: str, _name: str, obj: Any, *_rest: Any) -> tuple[str, None] | None:
    """A result is never made by hand: its page begins with what it holds."""
    return ("", None) if what == "class" and any(c.__name__ == "Result" for c in obj.__mro__[1:]) else None


class NoAddresses(SphinxTransform):
    """Symbols with an @ between them are no address to write to."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        """Leave the symbols alone."""
        for link in list(self.document.findall(nodes.reference)):
            if link.get("refuri", "").startswith("mailto:"):
                link.replace_self(nodes.Text(link.astext()))


class LinkCode(SphinxTransform):
    """Code that names something of the package leads to its page, in guides and docstrings alike."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        """Wrap each such piece of code into a reference."""
        for code in list(self.document.findall(nodes.literal)):
            found = REFERENCE.match(code.astext())
            if not found or isinstance(code.parent, nodes.title | nodes.reference | addnodes.pending_xref):
                continue
            if not leads(found[0]):
                log.warning("`%s` leads nowhere", found[0], location=code)
            of = {"refdomain": "py", "reftype": "obj", "reftarget": found[0], "refdoc": self.env.docname}
            code.replace_self(addnodes.pending_xref("", code.deepcopy(), **of, refspecific=True))


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_config_value("gallery_figures", "all", "env", types=str)
    app.add_transform(NoAddresses)
    app.add_transform(LinkCode)
    app.connect("builder-inited", write_sources)
    app.connect("autodoc-process-docstring", as_numpydoc, priority=400)
    app.connect("autodoc-process-signature", hide_constructor)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
