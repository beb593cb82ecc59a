"""`cilab init` and `cilab lab`: what is laid out, what is left alone, and what a user's slip is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from cilab.core import paths
from cilab.running.load import load_study
from cilab.shell import lab, workspace
from cilab.shell.workspace import MARKER, WorkspaceError

OURS = {p.name for p in paths.shipped("notebooks").glob("*.ipynb")}


def cilab(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cilab", *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """cilab as a wheel installs it: the shipped files inside the package, and no checkout around it."""
    package = tmp_path / "site-packages" / "cilab"
    for name in ("notebooks", "studies"):
        (package / "_shipped" / name).mkdir(parents=True)
        for path in paths.shipped(name).glob("*.*"):
            (package / "_shipped" / name / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(workspace, "shipped", lambda part: paths.find_shipped(part, package))
    return package / "_shipped"


def test_init_lays_out_a_workspace_whose_studies_load(tmp_path):
    made = workspace.init(tmp_path / "lab")
    assert {p.name for p in made.folder.iterdir()} == {"notebooks", "studies", "data", "figures", "reports", MARKER}
    assert {p.name for p in (made.folder / "notebooks").iterdir()} == OURS
    for path in (made.folder / "studies").iterdir():
        assert load_study(path).file.name == path.stem


def test_init_says_what_to_do_next_and_every_command_it_names_is_there(tmp_path):
    ended = cilab("init", "my_lab", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    named = [line.split("#")[0].split() for line in ended.stdout.splitlines() if " cilab " in line]
    assert [words[1] for words in named] == ["quickstart", "lab", "run"]
    forecast = cilab("run", named[2][2], "--dry-run", "--json", folder=tmp_path / "my_lab")
    assert json.loads(forecast.stdout)["usd"] == [0, 0, 0]


def test_init_in_a_fresh_workspace_says_what_is_there_and_sends_nobody_anywhere(tmp_path):
    first = cilab("init", ".", folder=tmp_path).stdout
    again = cilab("init", ".", folder=tmp_path).stdout
    n = len(workspace.init(tmp_path).there)
    assert n > 20 and f"{tmp_path.resolve()}: study files and notebooks: {n} laid out\n" in first
    assert f"{tmp_path.resolve()}: study files and notebooks: {n} there already\n" in again
    for said in (first, again):
        assert "cd " not in said and "next   cilab quickstart" in said
    (tmp_path / "studies" / "my_first.yaml").write_text("name: mine\n")
    (tmp_path / "studies" / "maze_sim.yaml").unlink()
    mixed = cilab("init", str(tmp_path), folder=tmp_path.parent).stdout
    assert f"1 laid out, {n - 2} there already, 1 kept as you changed them" in mixed and f"cd {tmp_path}" in mixed


def test_init_again_changes_nothing_and_brings_back_what_was_deleted(tmp_path):
    first = workspace.init(tmp_path)
    assert workspace.init(tmp_path).written == ()
    (tmp_path / "studies" / "my_first.yaml").unlink()
    assert workspace.init(tmp_path).written == ("studies/my_first.yaml",)
    assert "studies/my_first.yaml" in first.written


def test_init_keeps_what_the_user_changed_and_brings_the_rest_up_to_date(tmp_path, installed):
    workspace.init(tmp_path / "lab")
    mine, theirs = (tmp_path / "lab" / "studies" / name for name in ("my_first.yaml", "maze_sim.yaml"))
    mine.write_text("name: mine\n")
    (installed / "studies" / "maze_sim.yaml").write_text("name: newer\n")  # as a newer cilab ships it
    again = workspace.init(tmp_path / "lab")
    assert (again.written, again.kept) == (("studies/maze_sim.yaml",), ("studies/my_first.yaml",))
    assert (mine.read_text(), theirs.read_text()) == ("name: mine\n", "name: newer\n")


def test_init_refuses_a_folder_that_holds_something_else_and_leaves_it_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    ended = cilab("init", ".", folder=tmp_path)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert "not empty" in ended.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / MARKER).write_text("{")
    for target in (tmp_path / "thesis.tex", tmp_path / "broken"):
        with pytest.raises(WorkspaceError):
            workspace.init(target)


def test_the_notebooks_are_those_of_the_workspace_that_one_stands_in(tmp_path):
    workspace.init(tmp_path / "lab")
    assert workspace.notebooks(tmp_path / "lab" / "data" / "studies") == tmp_path / "lab" / "notebooks"
    for path in (tmp_path / "lab" / "notebooks").iterdir():
        path.unlink()
    with pytest.raises(WorkspaceError, match="cilab init"):
        workspace.notebooks(tmp_path / "lab")


def test_outside_of_a_workspace_a_checkout_opens_its_own_notebooks(tmp_path):
    assert workspace.notebooks(tmp_path) == paths.shipped("notebooks")
    assert list(tmp_path.iterdir()) == []


def test_an_installed_wheel_copies_its_notebooks_beside_the_user_and_never_over_hers(tmp_path, installed):
    here = tmp_path / "here"
    here.mkdir()
    assert workspace.notebooks(here) == here / "notebooks"
    assert {p.name for p in (here / "notebooks").iterdir()} == OURS
    (here / "notebooks" / "11_maze_gap.ipynb").write_text("mine")
    workspace.notebooks(here)
    assert (here / "notebooks" / "11_maze_gap.ipynb").read_text() == "mine"


def test_an_installed_wheel_leaves_a_strangers_folder_of_notebooks_alone(tmp_path, installed):
    (tmp_path / "here" / "notebooks").mkdir(parents=True)
    (tmp_path / "here" / "notebooks" / "thesis.ipynb").write_text("{}")
    with pytest.raises(WorkspaceError, match="cilab init"):
        workspace.notebooks(tmp_path / "here")
    assert [p.name for p in (tmp_path / "here" / "notebooks").iterdir()] == ["thesis.ipynb"]


@pytest.mark.parametrize("package", ["jupyterlab", "ipykernel"])
def test_lab_without_jupyterlab_or_its_kernel_says_what_brings_it(tmp_path, monkeypatch, package):
    find = lab.importlib.util.find_spec
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(lab.LabError, match=f"{package} is not installed.*pip install {package}") as raised:
        lab.command(tmp_path)
    assert "\n" not in str(raised.value)


def test_lab_on_a_port_that_is_taken_says_so_in_one_line_and_names_a_free_one(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = cilab("lab", "--no-browser", "--port", str(taken.getsockname()[1]), folder=tmp_path)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
        free = int(ended.stderr.rsplit(" ", 1)[1])
        assert "taken" in ended.stderr and free != taken.getsockname()[1]
    assert lab.command(tmp_path, port=free).argv
    with pytest.raises(lab.LabError, match="65535"):
        lab.command(tmp_path, port=70_000)


def test_lab_starts_with_the_first_notebook_or_with_the_folder(tmp_path):
    workspace.init(tmp_path)
    (tmp_path / "notebooks" / lab.FIRST).write_text("{}")
    with_first = lab.command(tmp_path, browser=False).argv
    assert f"--LabApp.default_url=/lab/tree/notebooks/{lab.FIRST}" in with_first
    assert "--no-browser" in with_first and f"--ServerApp.root_dir={tmp_path}" in with_first
    (tmp_path / "notebooks" / lab.FIRST).unlink()
    assert "--LabApp.default_url=/lab/tree/notebooks" in lab.command(tmp_path).argv


@pytest.mark.slow
def test_lab_serves_the_notebooks_with_this_python_whatever_kernel_the_user_has_and_ends_on_a_signal(tmp_path):
    """A user's own kernel `python3` that starts another Python is what cilab must not fall for."""
    made = workspace.init(tmp_path / "lab")
    other = tmp_path / "home" / "kernels" / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text(
        json.dumps({"argv": ["/elsewhere/python", "-m", "ipykernel"], "display_name": "Another", "language": "python"})
    )
    port = lab._free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")} | {
        "JUPYTER_DATA_DIR": str(tmp_path / "home"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_TOKEN": "key",
    }
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "cilab", "lab", "--no-browser", "--port", str(port)],
            cwd=made.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        specs = _answer(server, f"http://127.0.0.1:{port}/api/kernelspecs?token=key", tmp_path / "log")
        assert specs["kernelspecs"]["python3"]["spec"]["argv"][0] == sys.executable
        contents = _answer(server, f"http://127.0.0.1:{port}/api/contents/notebooks?token=key", tmp_path / "log")
        assert {entry["name"] for entry in contents["content"]} == OURS
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status?token=key", timeout=2)


def _answer(server: subprocess.Popen[bytes], url: str, log: Path) -> dict:
    end = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            assert server.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.2)
