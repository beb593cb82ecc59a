"""The README and the guides promise only what runs; the reference builds; notebooks are committed without outputs."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cilab
from cilab.running import play as runs
from cilab.running.study_file import parse

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def fenced(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_every_study_in_a_guide_is_a_valid_study(path):
    for text in fenced(path, "yaml"):
        if "blocks:" in text:
            study = parse(text, runs.benchmarks(), where=path.name)
            assert next(study.specs(limit=1), None) is not None


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda p: p.name)
def test_every_study_that_ships_loads_and_plans(path):
    study = runs.load_study(path)
    specs = [spec for _, spec in study.specs(limit=200)]
    assert len({s.run_id for s in specs}) == len(specs) > 0


@pytest.mark.parametrize("name", ["studies/my_first.yaml", "docs/studies.md", "docs/collect.md"])
def test_where_a_budget_is_explained_the_calls_in_flight_are_named(name):
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
    assert "beyond this" not in text
    assert re.search(r"in flight[^.]*`concurrency`|`concurrency`[^.]*calls", text)


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_every_command_in_a_guide_exists(path):
    from cilab.shell.app import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands}
    known |= {g.name for g in app.registered_groups}
    text = path.read_text(encoding="utf-8")
    used = set(re.findall(r"(?:^|`)cilab ([a-z]+)", text, re.MULTILINE))
    assert used <= known, used - known


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_every_relative_link_of_a_guide_leads_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_are_committed_without_outputs_and_with_one_parameters_cell(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert all(not c["outputs"] and c["execution_count"] is None for c in code)
    assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1
    assert all(len(c["source"]) <= 12 for c in code if "parameters" not in c["metadata"].get("tags", []))


def test_the_lock_names_no_index_and_pins_hashes():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock and "index" not in {
        line.split()[0].strip("-") for line in lock.splitlines() if line.strip()
    }
    assert lock.count("==") <= lock.count("--hash=")
    for bad in ("litellm==1.82.7", "litellm==1.82.8"):
        assert bad not in lock


# -- the reference --------------------------------------------------------------------------------------------


def reference():
    """docs/build_reference.py as a module."""
    spec = importlib.util.spec_from_file_location("build_reference", ROOT / "docs" / "build_reference.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_documentation_builds_without_a_warning_and_every_link_in_it_leads_somewhere(tmp_path):
    ended = subprocess.run(
        [sys.executable, ROOT / "docs" / "build_reference.py", tmp_path], capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    pages = {p.name: p.read_text() for p in tmp_path.glob("*.html")}
    for name in (
        "cilab",
        "cilab.stats.maze.gap",
        "cilab.plots.gap",
        "cilab.reports",
        "writing-tasks",
        "README",
        "index",
    ):
        assert f"{name}.html" in pages
    for name, text in pages.items():
        for target in re.findall(r'(?:href|src)="(?!https?:|#)([^"#]+)', text):
            assert (tmp_path / target).exists(), (name, target)
    assert "<code>ci_level</code>" in pages["cilab.stats.maze.gap.html"]  # a parameter, described


def test_every_name_of_the_face_is_on_a_page_of_the_reference():
    module = reference()
    there = {n.name for _, found in module.Library.read().pages() for m in found for n in module._members(m.tree)}
    assert set(cilab.__all__) <= there


def with_section(heading, *lines, rule=None):
    """A function whose docstring has that section."""
    body = "".join(f"    {line}\n" for line in (heading, rule or "-" * len(heading), *lines))
    return f'def f(x):\n    """A.\n\n{body}    """'


ATTRIBUTE = with_section("Attributes", "gone : int").replace("def f(x)", "class C") + "\n    here: int"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def f(): pass", "has no docstring"),
        ('class C:\n    """A."""\n    def m(self): pass', "has no docstring"),
        (with_section("Arguments", "x : int"), "numpydoc does not know"),
        (with_section("Parameters", "x : int", rule="-----"), "does not fit"),
        (with_section("Parameters", "x, y : int"), "describes 'y'"),
        (ATTRIBUTE, "describes 'gone'"),
        (with_section("Raises", "ValueError", "", "Returns", "-------", "int"), "order"),
        (with_section("Returns", "int", "", "Returns", "-------", "int"), "twice"),
        (with_section("See Also", "cilab.nowhere : B."), "See Also: cilab.nowhere"),
        ('def f():\n    """As `cilab.stats.maze.gap.nothing`."""', "`cilab.stats.maze.gap.nothing` leads nowhere"),
        ('def f():\n    """As `cilab.nowhere`."""', "`cilab.nowhere` leads nowhere"),
        ('def f():\n    """As `Result.nothing`."""', "`Result.nothing` leads nowhere"),
    ],
)
def test_the_reference_complains_of(source, complaint):
    module = reference()
    library = module.Library.read()
    bad = module.Module("cilab.core.errors", ast.parse(f'"""A module."""\n{source}\n'))
    library.modules["cilab.core.errors"] = bad
    (line,) = (p for p in module.problems(library) if p.startswith("cilab.core.errors"))
    assert complaint in line


def test_the_reference_is_silent_on_references_that_lead_somewhere():
    module = reference()
    library = module.Library.read()
    for good in ("cilab.gap", "cilab.stats.maze.gap.gap", "cilab.open", "Result.table", "RunSpec.run_id", "Path.name"):
        assert library.leads(good), good
