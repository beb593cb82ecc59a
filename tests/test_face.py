"""What a notebook types: quick to import, and every name leads somewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cilab


@pytest.mark.parametrize("name", cilab.__all__)
def test_every_name_of_the_face_is_a_documented_function(name):
    assert callable(getattr(cilab, name)) and getattr(cilab, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'leaderbord'"):
        _ = cilab.leaderbord


def test_importing_the_face_loads_nothing_heavy():
    heavy = {"polars", "pandas", "litellm", "pymc", "statsmodels", "matplotlib", "scipy", "duckdb", "pyarrow", "typer"}
    code = f"import sys, cilab; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_submodules_come_with_the_package():
    code = "import cilab; print(cilab.datasets.hand_worked_round, cilab.plots.gap, 'reports' in dir(cilab))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("True"), done.stderr
