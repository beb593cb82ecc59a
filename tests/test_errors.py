"""What every room says of a wrong word and of another library's error, in one line."""

from __future__ import annotations

import doctest

import pytest

from cilab.core import errors
from cilab.core.errors import ReportError, choice, first_line


def test_the_examples_of_the_docstrings_hold() -> None:
    found = doctest.testmod(errors)
    assert (found.failed, found.attempted) == (0, 1)


def test_a_known_word_passes_and_another_is_refused_by_the_error_asked_for() -> None:
    choice("panel", "a", {"a": 1, "b": 2})
    with pytest.raises(ReportError, match=r"^panel is 3, not one of a, b$"):
        choice("panel", 3, {"a": 1, "b": 2}, ReportError, hint=False)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\nsecond"), "first"),
        (ValueError("\nsecond"), ""),
        (TimeoutError(), "TimeoutError"),
        (KeyError("k"), "'k'"),
    ],
)
def test_of_an_error_its_first_line_is_told_or_its_class(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_an_error_without_words_may_be_told_in_others() -> None:
    assert first_line(TimeoutError(), "no answer") == "no answer"
    assert first_line(TimeoutError("late"), "no answer") == "late"
