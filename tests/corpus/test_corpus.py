"""Every malformed input of the corpus gets one clear line and the right exit code; nothing is written."""

from __future__ import annotations

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
