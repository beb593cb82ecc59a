"""The README and the guides promise only what runs; notebooks are committed without outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cilab import run as runs
from cilab.study import parse

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


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_every_command_in_a_guide_exists(path):
    from cilab.cli import app

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
