"""What a process in the sandbox sees of this machine: a Python, its standard library, its shared libraries, pytest.

May import this folder. Each thing is named one by one and mounted read-only at a path that is the same on every
machine; no folder of the host is handed over whole but those of the standard library and of pytest's packages.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .base import ROOT, Limits, SandboxError

INSIDE = Path(__file__).with_name("inside.py")
PYTHON = "/usr/bin/python3"
SITE = "/usr/lib/site"
RUNNER = "/usr/lib/sandbox/inside.py"
_LIBRARIES = "/usr/lib/shared"
_DEVICES = ("null", "zero", "random", "urandom")
#: pytest and what it imports.
_PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")

#: The whole environment of code that runs. `-I` would be stricter, but makes Python ignore the fixed hash seed.
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": ROOT,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "COLUMNS": "100",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    # Else every thread reserves 64 MB of the address space that is limited.
    "MALLOC_ARENA_MAX": "1",
}

# Run by the base Python: its extension modules are imported, then the kernel says which libraries they brought.
_PROBE = """
import importlib, json, os, sys
skip = ("_tkinter", "_test", "xx", "_xx", "readline", "_curses", "_dbm", "_gdbm", "nis", "ossaudiodev")
extensions = [p for p in sys.path if os.path.basename(p) == "lib-dynload" and os.path.isdir(p)]
for folder in extensions:
    for name in sorted({f.split(".")[0] for f in os.listdir(folder)}):
        if not name.startswith(skip):
            try:
                importlib.import_module(name)
            except ImportError:
                pass
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].strip() for line in maps if len(line.split(None, 5)) == 6}
libraries = sorted(path for path in mapped if ".so" in os.path.basename(path))
standard = os.path.dirname(os.__file__)
print(json.dumps({"standard": standard, "under": sys.platlibdir, "extensions": extensions, "libraries": libraries}))
"""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host, and where it is seen in the sandbox."""

    source: str
    target: str


def base_python() -> str:
    """The interpreter below a virtual environment, as a real path."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def pytest_packages() -> tuple[Mount, ...]:
    """The folders (and the one module) of pytest and of what it imports.

    Raises
    ------
    SandboxError
        When pytest is not installed beside cilab.
    """
    mounts = []
    for name in _PYTEST:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            raise SandboxError(f"the sandbox runs tests with pytest, and {name} is not installed: pip install pytest")
        origin = Path(spec.origin).resolve()
        source = origin.parent if origin.name == "__init__.py" else origin
        mounts.append(Mount(str(source), f"{SITE}/{source.name}"))
    return tuple(mounts)


def pytest_folders() -> list[str]:
    """The folders of the host on which pytest is found, for a process that sees the host."""
    return sorted({os.path.dirname(m.source) for m in pytest_packages()})


@cache
def python_mounts() -> tuple[Mount, ...]:
    """The standard library, first; the interpreter, the runner, and the shared libraries that they need."""
    executable = base_python()
    found = _probe(executable)
    standard = found["standard"]
    home = f"/usr/{found['under']}/{os.path.basename(standard)}"
    mounts = [Mount(standard, home), Mount(executable, PYTHON), Mount(str(INSIDE), RUNNER)]
    mounts += [Mount(e, f"{home}/lib-dynload") for e in found["extensions"] if os.path.dirname(e) != standard]
    inside = (os.path.realpath(standard) + os.sep, *(os.path.realpath(e) + os.sep for e in found["extensions"]))
    libraries = [path for path in found["libraries"] if not path.startswith(inside)]
    mounts += [Mount(path, f"{_LIBRARIES}/{name}") for path in libraries for name in _names(path)]
    loader = _loader(executable)
    return (*mounts, Mount(os.path.realpath(loader), loader))


def _probe(executable: str) -> dict[str, Any]:
    done = subprocess.run([executable, "-I", "-S", "-c", _PROBE], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SandboxError(f"the sandbox cannot ask {executable} for its libraries: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)


def _names(library: str) -> list[str]:
    """The names by which programs ask for a library: its file's, and those of the links beside that lead to it."""
    folder, own = os.path.split(library)
    stem = own.split(".so")[0] + ".so"
    links = [e.name for e in os.scandir(folder) if e.name.startswith(stem) and e.is_symlink()]
    return [own, *(name for name in sorted(links) if os.path.realpath(os.path.join(folder, name)) == library)]


def _loader(executable: str) -> str:
    """The program that loads `executable`, as its ELF header names it (PT_INTERP)."""
    with open(executable, "rb") as f:
        header = f.read(64)
        table, size, count = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54)
        f.seek(table)
        entries = f.read(size * count)
        for at in range(0, size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", entries, at)
            if kind == 3:
                f.seek(offset)
                return f.read(length).rstrip(b"\0").decode()
    raise SandboxError(f"{executable} is no program that the sandbox can start (no loader in its header)")


@cache
def _static_arguments() -> tuple[str, ...]:
    """Those arguments of bubblewrap that are the same for every run."""
    mounts = python_mounts()
    standard = mounts[0]
    flags = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    flags += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"]
    for name, value in {**ENVIRONMENT, "LD_LIBRARY_PATH": _LIBRARIES}.items():
        flags += ["--setenv", name, value]
    for mount in (*mounts, *pytest_packages()):
        flags += ["--ro-bind", mount.source, mount.target]
    if os.path.isdir(f"{standard.source}/site-packages"):
        hidden = f"{standard.target}/site-packages"
        flags += ["--size", "4096", "--tmpfs", hidden, "--remount-ro", hidden]
    for device in _DEVICES:
        flags += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    return tuple(flags)


def bwrap_command(limits: Limits, info_fd: int, seccomp_fd: int, report_fd: int) -> list[str]:
    """The command that runs `inside.py` in the sandbox.

    There is no /proc: nothing of it is needed, and it would tell of the host. Only the two disks in memory can be
    written; the root itself is one too, unless it is made read-only at the end.
    """
    disks = []
    for folder in ("/tmp", ROOT):
        disks += ["--size", str(limits.disk_bytes), "--tmpfs", folder]
    fds = ["--info-fd", str(info_fd), "--seccomp", str(seccomp_fd)]
    start = ["--chdir", ROOT, "--remount-ro", "/", "--", PYTHON, "-B", "-P", "-s", "-S"]
    return [bwrap(), *_static_arguments(), *fds, *disks, *start, RUNNER, str(report_fd), ROOT]


def bwrap() -> str:
    """Where bubblewrap is.

    Raises
    ------
    SandboxError
        When it is not installed.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxError("bubblewrap is not installed: apt-get install bubblewrap (or your system's package of it)")
    return path
