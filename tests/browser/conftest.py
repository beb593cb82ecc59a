"""JupyterLab as `cilab lab` starts it, on a workspace as `cilab init` lays it out, and a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cilab.shell.doctor import BROWSERS
from cilab.shell.workspace import init

TOKEN = "cilab-browser-test"
PATIENCE_S = 180
#: Quiet, and nothing fetched from outside.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: Settings of this JupyterLab: no question about news over the page, and every cell in the page, seen or not.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its workspace, and where its settings are."""

    url: str
    workspace: Path
    settings: Path

    def address(self, path: str) -> str:
        """The address of a page or of the API, with the key."""
        return f"{self.url}/{path}?token={TOKEN}"

    def ask(self, path: str) -> Any:
        """The server's JSON."""
        with urllib.request.urlopen(self.address(path), timeout=5) as answer:
            return json.load(answer)

    def use(self, setting: str, **values: Any) -> None:
        """Set what a user sets in the settings editor; it counts from the next page on."""
        path = self.settings / "@jupyterlab" / f"{setting}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`cilab lab --no-browser` in a new workspace, with Jupyter folders of its own."""
    here = tmp_path_factory.mktemp("browser")
    init(here / "lab")
    env = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")} | {
        "JUPYTER_CONFIG_DIR": str(here / "config"),
        "JUPYTER_DATA_DIR": str(here / "data"),
        "JUPYTER_RUNTIME_DIR": str(here / "runtime"),
        "JUPYTERLAB_WORKSPACES_DIR": str(here / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(here / "settings"),
        "JUPYTER_TOKEN": TOKEN,
        "IPYTHONDIR": str(here / "ipython"),
    }
    port = _free_port()
    made = Lab(f"http://127.0.0.1:{port}", here / "lab", here / "settings")
    for setting, values in SETTINGS.items():
        made.use(setting, **values)
    with open(here / "lab.log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "cilab", "lab", "--no-browser", "--port", str(port)],
            cwd=here / "lab", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(made, server, here / "lab.log")
        yield made
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            code = server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            raise
    assert code == 0, (here / "lab.log").read_text()[-2000:]


def _wait(made: Lab, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            made.ask("api/status")
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium as installed on this machine; the test is left out where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which the extra `dev` brings")
    path = next((p for name in BROWSERS if (p := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"needs a browser ({', '.join(BROWSERS)}); on Debian: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()
