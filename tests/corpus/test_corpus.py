"""Every malformed input of the corpus gets one clear line and the right exit code; nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.corpus import questions, studies, tables, tasks
from tests.corpus.driver import check

CASES = [*studies.CASES, *tasks.CASES, *tables.CASES, *questions.CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_input_is_one_clear_line_with_the_right_exit_code_and_writes_nothing(case, here, played):
    check(case, here, played)


def test_the_corpus_is_as_large_as_it_says_and_no_case_stands_in_it_twice():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 150
    assert len({(case.argv, tuple(sorted(case.files.items()))) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES[5::75], ids=str)
def test_the_real_command_says_the_same(case, here, played):
    for name, content in case.files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    argv = [sys.executable, "-m", "cilab", *(part.replace("{out}", str(played)) for part in case.argv)]
    ended = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, timeout=300)
    said = [line for line in ended.stderr.splitlines() if not line.startswith("no --data:")]
    assert (ended.returncode, ended.stdout, len(said)) == (case.code, "", 1), ended
    assert all(word in said[0] for word in case.words)
