"""`cilab lab`: JupyterLab on the notebooks, with the Python that cilab runs in.

May import `cilab.shell.workspace` and `cilab.core`. Installs nothing, and changes no setting of the user's JupyterLab:
the kernel is put before any other of its name for this one server only. JupyterLab itself runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cilab.core.errors import CilabError
from cilab.shell.workspace import notebooks

#: The notebook that is open when JupyterLab starts, where it is there.
FIRST = "00_start_here.ipynb"


class LabError(CilabError):
    """JupyterLab cannot be started."""


@dataclass(frozen=True, slots=True)
class Command:
    """How JupyterLab is started.

    Attributes
    ----------
    argv : the command and its arguments.
    folder : the folder of the notebooks.
    """

    argv: tuple[str, ...]
    folder: Path


def command(start: str | os.PathLike[str] = ".", *, port: int | None = None, browser: bool = True) -> Command:
    """Find the notebooks and check that JupyterLab can start on them.

    Parameters
    ----------
    start : where the user stands; see `cilab.shell.workspace.notebooks`.
    port : the port, which must be free; None takes the first free one from 8888 on.
    browser : whether JupyterLab opens a browser.

    Raises
    ------
    LabError
        JupyterLab or its kernel is not installed, or the port is taken or not allowed.
    WorkspaceError
        There are no notebooks.
    """
    for package in ("jupyterlab", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            raise LabError(f"{package} is not installed here; get it: {sys.executable} -m pip install {package}")
    if port is not None:
        _check_port(port)
    folder = notebooks(start)
    first = folder / FIRST
    opened = f"{folder.name}/{FIRST}" if first.is_file() else folder.name
    argv = [
        *(sys.executable, "-m", "jupyterlab"),
        # The file browser starts in notebooks/ and can go up, to data, figures and reports.
        f"--ServerApp.root_dir={folder.parent}",
        f"--LabApp.default_url=/lab/tree/{opened}",
        "--MultiKernelManager.default_kernel_name=python3",
    ]
    if port is not None:
        argv += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        argv.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        argv.append("--allow-root")  # whoever is root, as in most containers, has chosen so already
    return Command(tuple(argv), folder)


def lab(
    start: str | os.PathLike[str] = ".",
    *,
    port: int | None = None,
    browser: bool = True,
    told: Callable[[Command], None] | None = None,
) -> int:
    """Run JupyterLab until it ends; parameters and errors as in `command`.

    Parameters
    ----------
    told : called with the command before it starts.

    Returns
    -------
    int
        The exit code of JupyterLab; 0 where Ctrl-C or SIGTERM ended it.
    """
    how = command(start, port=port, browser=browser)
    if told is not None:
        told(how)
    with tempfile.TemporaryDirectory(prefix="cilab-lab-") as kernels:
        _write_kernel(Path(kernels))
        paths = [kernels, *filter(None, [os.environ.get("JUPYTER_PATH")])]
        env = {**os.environ, "JUPYTER_PATH": os.pathsep.join(paths)}
        server = subprocess.Popen(how.argv, env=env)
        return _wait(server)


def _wait(server: subprocess.Popen[bytes]) -> int:
    """Until the server ends. A Ctrl-C in a terminal reaches it directly: it asks whether it is meant."""
    asked = False

    def end(*_: object) -> None:
        nonlocal asked
        asked = True
        server.terminate()

    def interrupted(*_: object) -> None:
        if not sys.stdin.isatty():
            end()

    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = server.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0 if asked else code


def _write_kernel(folder: Path) -> None:
    """The kernel `python3` as this interpreter: a user's own of that name may start another Python."""
    from ipykernel.kernelspec import write_kernel_spec

    (folder / "kernels").mkdir()
    write_kernel_spec(folder / "kernels" / "python3")


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OverflowError:
            raise LabError(f"--port {port}: is a number from 1 to 65535") from None
        except PermissionError:
            raise LabError(f"--port {port}: ports below 1024 are the system's; take another: --port 8889") from None
        except OSError as e:
            raise LabError(f"--port {port}: is taken ({e.strerror}); take another: --port {_free_port()}") from None


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
