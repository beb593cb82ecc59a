"""Types: mypy finds no error that is not known, none in the rooms that everything stands on; names have types."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest

from tests.house import ROOT

_spec = importlib.util.spec_from_file_location("check_types", ROOT / "tools" / "check_types.py")
check_types = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_types)

#: Rooms in which every error is mended.
STRICT = ("cilab/core/", "cilab/results/", "cilab/store/")


@pytest.fixture(scope="session")
def found():
    """What mypy finds, once a session."""
    return check_types.errors()


# mypy's cache lies in the venv. Without it a run takes 12 s of processor time, with it less than one.
@pytest.mark.slow
def test_mypy_finds_what_the_baseline_knows_and_nothing_else(found):
    assert "\n".join(check_types.problems(found, check_types.known())) == ""


@pytest.mark.slow
def test_core_results_and_store_have_no_error(found):
    assert [text for file, _, text in found if file.startswith(STRICT)] == []
    assert [file for file, _ in check_types.known() if file.startswith(STRICT)] == []


def test_a_new_error_is_told_with_its_line_and_an_error_that_is_gone_with_the_way_to_shrink():
    found = [("a.py", "arg-type", "a.py:3: wrong [arg-type]"), ("a.py", "index", "a.py:9: not here [index]")]
    assert check_types.problems(found, {("a.py", "arg-type"): 1, ("a.py", "index"): 1}) == []
    new = check_types.problems(found, {("a.py", "arg-type"): 1})
    assert new == [
        "a.py: 1 more [index] than tests/mypy_baseline.txt knows; one of these is new:",
        "    a.py:9: not here [index]",
    ]
    gone = check_types.problems(found, {("a.py", "arg-type"): 3, ("a.py", "index"): 1})
    assert gone[0] == "a.py: 2 fewer [arg-type] than the baseline knows"
    assert "tools/check_types.py --shrink" in gone[1]


def test_the_baseline_only_shrinks(tmp_path, monkeypatch):
    monkeypatch.setattr(check_types, "BASELINE", tmp_path / "baseline.txt")
    check_types.shrink([("a.py", "index", ""), ("a.py", "index", ""), ("b.py", "misc", "")])
    assert check_types.known() == {("a.py", "index"): 2, ("b.py", "misc"): 1}
    check_types.shrink([("a.py", "index", ""), ("c.py", "misc", "")])
    assert check_types.known() == Counter({("a.py", "index"): 1})
