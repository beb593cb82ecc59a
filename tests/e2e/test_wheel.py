"""The wheel works as well as the clone: built, put into an empty environment, used in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SHIPPED = "cilab/_shipped"


def uv() -> str:
    """The program uv: beside this Python, where `make setup` puts it, or on the path."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        pytest.skip("needs uv, which `make setup` brings")
    return found


def run_uv(*args: str | Path) -> None:
    """Run uv from its cache, which the set-up has filled; from the index where something is missing there."""
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    for more in (["--offline"], []):
        ended = subprocess.run([uv(), *map(str, args), *more], capture_output=True, text=True, env=env)
        if ended.returncode == 0:
            return
    raise AssertionError(ended.stderr[-2000:])


@pytest.fixture
def venv(tmp_path):
    """Where the empty environment goes; pytest would keep its gigabytes."""
    yield tmp_path / "venv"
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(600)  # an environment of two hundred packages, and a whole quickstart in it
def test_the_wheel_carries_what_it_needs_and_works_in_an_empty_environment_and_folder(shell, root, tmp_path, venv):
    run_uv("build", "--wheel", "--out-dir", tmp_path / "dist", root)
    (wheel,) = (tmp_path / "dist").glob("cilab-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("data/published", "notebooks", "studies"):
        kinds = (".csv", ".ipynb", ".yaml", ".md")
        wanted = {p.relative_to(root) for p in (root / folder).rglob("*") if p.suffix in kinds}
        wanted = {p for p in wanted if ".ipynb_checkpoints" not in p.parts}
        assert wanted
        assert {f"{SHIPPED}/{p}" for p in wanted} <= names
    assert f"{SHIPPED}/data/models.csv" in names
    package = {p for p in (root / "cilab").rglob("*") if p.is_file() and p.suffix not in (".pyc",)}
    package = {str(p.relative_to(root)) for p in package if "__pycache__" not in p.parts}
    assert package <= names  # prompts, profiles, the figure style and whatever else stands beside the code
    for needed in ("cilab/py.typed", "cilab/maze/prompts/", "profiles.csv", ".mplstyle"):
        assert any(needed in name for name in package)
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/")) or "/data/studies/" in n]

    python = venv / "bin" / "python"
    run_uv("venv", "--python", sys.executable, venv)
    install = ("pip", "install", "--python", python, "--no-deps")
    run_uv(*install, "--require-hashes", "-r", root / "requirements.lock")
    run_uv(*install, wheel)

    ours = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    shell.env = {k: v for k, v in shell.env.items() if k not in ours}
    asked = "import cilab, cilab.core.paths as p; print(cilab.__file__); print(p.shipped('data/published'))"
    where = shell.run(argv=[str(python), "-c", asked])
    assert where.code == 0, where.err
    assert all(Path(line).is_relative_to(venv) for line in where.out.splitlines())

    ended = shell.start(argv=[str(venv / "bin" / "cilab"), "quickstart", "--no-open"]).wait(280.0)
    assert ended.code == 0, ended.err
    assert "left out" not in ended.err  # the small real model is in the lock
    index = Path(dict(line.split(maxsplit=1) for line in ended.out.splitlines())["reports"])
    assert index == shell.folder.resolve() / "reports" / "index.html"
    for page in (index, index.with_name("start_here.html"), index.with_name("maze_gap.html")):
        text = page.read_text()
        assert len(text) > 10_000
        assert str(root) not in text
    assert sorted(p.name for p in shell.folder.iterdir()) == ["data", "figures", "reports"]
    study = shell.folder / "data" / "studies" / "quickstart" / "study.yaml"
    assert study.read_text() == (root / "studies" / "quickstart.yaml").read_text()
    again = shell.run(argv=[str(venv / "bin" / "cilab"), "run", str(study), "--json"])
    assert (again.code, again.json["calls"], again.json["missing"]) == (0, 0, 0)

    laid = shell.run(argv=[str(venv / "bin" / "cilab"), "init", "my_lab"])
    assert laid.code == 0, laid.err
    for name in ("notebooks", "studies"):
        ours = {p.name for p in (root / name).iterdir() if p.suffix in (".ipynb", ".yaml")}
        assert {p.name for p in (shell.folder / "my_lab" / name).iterdir()} == ours
    mine = shell.folder / "my_lab" / "studies" / "my_first.yaml"
    first = shell.run(argv=[str(venv / "bin" / "cilab"), "run", str(mine), "--json"])
    assert (first.code, first.json["missing"], first.json["usd"]) == (0, 0, 0)
    started = "from cilab.shell import lab; how = lab.command('my_lab'); print(how.argv[0]); print(how.folder)"
    how = shell.run(argv=[str(python), "-c", started])
    assert how.out.splitlines() == [str(python), str(shell.folder.resolve() / "my_lab" / "notebooks")]
