"""For all tests: threads, the order in which files are dealt, limits.

Files are dealt whole (`--dist loadfile`), so that what a module's tests share is made once, and the longest come first,
so that no worker is left alone with one. How long each takes stands in `seconds.csv`; it need not be exact. To measure
again all files of a run, or those of a folder alone:

    python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --keep-seconds tests
"""

import csv
import os
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

# Tests run side by side: with threads of their own, matrix libraries would fight for the processors.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SECONDS = Path(__file__).with_name("seconds.csv")


def stored_seconds() -> dict[str, float]:
    """File, as in a test's id -> seconds that its tests took."""
    if not SECONDS.exists():
        return {}
    with open(SECONDS, encoding="utf-8", newline="") as f:
        return {row["file"]: float(row["seconds"]) for row in csv.DictReader(f)}


def file_of(nodeid: str) -> str:
    """The file of a test's id."""
    return nodeid.partition("::")[0]


def pytest_addoption(parser):
    parser.addoption("--keep-seconds", action="store_true", help=f"store what each file took in {SECONDS.name}")


def pytest_configure(config):
    if config.getoption("--keep-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_KeepSeconds(config.rootpath))


def pytest_collection_modifyitems(items):
    """Longest files first, one whose seconds nobody knows among the middle ones; no limit for what a study takes."""
    known = stored_seconds()
    middle = mean(known.values()) if known else 0.0

    def rank(item):
        file = file_of(item.nodeid)
        return -known.get(file, middle), file

    items.sort(key=rank)
    for item in items:
        if item.get_closest_marker("study"):
            item.add_marker(pytest.mark.timeout(0))


class _KeepSeconds:
    """Adds up what the tests of a file took, fixtures included, and stores it beside what is known of other files."""

    def __init__(self, root: Path):
        self._root, self._spent = root, Counter()

    def pytest_runtest_logreport(self, report):
        self._spent[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        both = stored_seconds() | self._spent
        there = {file: seconds for file, seconds in both.items() if (self._root / file).exists()}
        with open(SECONDS, "w", encoding="utf-8", newline="") as f:
            rows = csv.writer(f, lineterminator="\n")
            rows.writerow(("file", "seconds"))
            rows.writerows((file, f"{seconds:.1f}") for file, seconds in sorted(there.items()))
