"""The README and the guides promise only what runs; the reference builds; notebooks are committed without outputs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cilab
from cilab.running.load import benchmarks, load_study
from cilab.running.study_file import parse

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES += sorted((ROOT / "docs" / "statistics").glob("*.md"))


def fenced(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_every_study_in_a_guide_is_a_valid_study(path):
    for text in fenced(path, "yaml"):
        if "blocks:" in text:
            study = parse(text, benchmarks(), where=path.name)
            assert next(study.specs(limit=1), None) is not None


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda p: p.name)
def test_every_study_that_ships_loads_and_plans(path):
    study = load_study(path)
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


# -- the pages of `make docs` -----------------------------------------------------------------------------------


@pytest.fixture
def site(monkeypatch):
    """The modules beside Sphinx's settings, by name."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    return import_module


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning_and_every_link_in_it_leads_somewhere(tmp_path):
    # The plain theme and one figure: words and links are the same, and a build takes half as long.
    plain = ["-D", "html_theme=basic", "-D", "gallery_figures=gap"]
    source = tmp_path / ".source"
    source.mkdir()
    command = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "-c", ROOT / "docs" / "site", *plain]
    ended = subprocess.run([*command, source, tmp_path], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")
    pages = {p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*.html")}
    for name in ("cilab.gap", "cilab.plots.gap", "cilab.reports", "cilab.expressions", "notebook"):
        assert f"api/{name}.html" in pages
    assert {"docs/writing-tasks.html", "README.html", "CHANGELOG.html", "gallery.html", "index.html"} <= set(pages)
    for name, text in pages.items():
        for target in re.findall(r'(?:href|src)="(?!https?:|#)([^"#?]+)', text):
            assert ((tmp_path / name).parent / target).exists(), (name, target)
    assert "<strong>ci_level</strong>" in pages["api/cilab.gap.html"]  # a parameter, described
    assert 'href="cilab.plots.gap.html' in pages["api/figures.html"]
    for name in ("gallery", "api/cilab.plots.gap"):
        assert re.search(r'<img[^>]*src="[^"]*/gap.png"', pages[f"{name}.html"])
    assert "simulated" in pages["gallery.html"]


def test_every_name_of_the_face_has_a_page_of_the_reference(site, tmp_path):
    site("pages").write_reference(tmp_path, {})
    faces = {"cilab": cilab, "cilab.datasets": cilab.datasets, "cilab.plots": cilab.plots}
    for face, module in faces.items():
        for name in module.__all__:
            assert f":: {face}.{name}\n" in (tmp_path / f"{face}.{name}.rst").read_text()


def test_a_result_stands_on_the_page_of_its_estimator(site, tmp_path):
    site("pages").write_reference(tmp_path, {})
    assert re.search(r"autoclass:: cilab\.\S+\.GapResult", (tmp_path / "cilab.gap.rst").read_text())


def test_every_figure_is_drawn_in_the_gallery_from_an_estimator_of_its_result(site):
    gallery, reference = site("gallery"), site("reference")
    reference.import_for_types()
    for name in cilab.plots.__all__:
        assert callable(gallery.estimator_of(getattr(cilab.plots, name))), name
    assert gallery.estimator_of(cilab.plots.gap) is cilab.gap


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
        (with_section("Arguments", "x : int"), "Unknown section Arguments"),
        (with_section("Parameters", "x : int", rule="-----"), "wrong underline length"),
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
def test_the_reference_complains_of(site, tmp_path, monkeypatch, source, complaint):
    path = tmp_path / "made_up.py"
    path.write_text(f'"""A module."""\n{source}\n', encoding="utf-8")
    spec = importlib.util.spec_from_file_location("cilab.made_up", path)
    bad = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, bad)
    spec.loader.exec_module(bad)
    (line,) = site("reference").problems(bad)
    assert complaint in line


@pytest.mark.parametrize(
    "good", ["cilab.gap", "cilab.stats.maze.gap.gap", "cilab.open", "Result.table", "RunSpec.run_id", "Path.name"]
)
def test_the_reference_is_silent_on_references_that_lead_somewhere(site, good):
    assert site("reference").leads(good)
