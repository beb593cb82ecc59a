"""Numbers and intervals are written in one way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.results.numbers import MINUS, NONE, Interval, decimals, number, p_value, percent, signed, whole

VALUES = st.floats(-1e6, 1e6)


def test_an_interval_is_half_ends_brackets_or_a_span() -> None:
    one = Interval(-0.151, -0.3, 0.021, 2)
    assert one.half() == "−0.15 ± 0.16"
    assert one.ends() == "−0.15 [−0.30, 0.02]"
    assert one.brackets() == "[−0.30, 0.02]"
    assert one.span() == "−0.30 to 0.02"
    assert one.with_span() == "−0.15 (−0.30 to 0.02)"


def test_without_ends_the_value_stands_alone_and_without_a_value_what_is_missing() -> None:
    for alone in (Interval(1.25), Interval(1.25, 1.0), Interval(1.25, None, 2.0)):
        assert (alone.half(), alone.ends(), alone.brackets(), alone.span("none")) == ("1.2", "1.2", "", "none")
    gone = Interval(None, 1.0, 2.0)
    assert (gone.half(), gone.ends("undefined"), gone.half("")) == (NONE, "undefined", "")
    assert Interval.of(None, "x").half() == NONE


def test_an_interval_is_read_from_a_row_by_the_names_of_its_columns() -> None:
    row = {"gap": 0.5, "gap_lo": 0.4, "gap_hi": 0.6, "lo": 0.0, "hi": 1.0}
    assert Interval.of(row, "gap", digits=2) == Interval(0.5, 0.4, 0.6, 2)
    assert Interval.of(row, "gap", "lo", "hi") == Interval(0.5, 0.0, 1.0, 1)


@pytest.mark.parametrize(
    ("p", "digits", "floor", "text"),
    [
        (0.0312, 3, None, "0.031"),
        (0.0005, 3, None, "0.001"),
        (0.00049, 3, None, "<0.001"),
        (0.0, 4, None, "<0.0001"),
        (1.0, 3, None, "1.000"),
        (0.001, 3, 0.001, "≤ 0.001"),
        (0.002, 3, 0.001, "0.002"),
        (None, 3, 0.001, ""),
    ],
)
def test_a_p_value_is_never_written_as_zero(p: float | None, digits: int, floor: float | None, text: str) -> None:
    assert p_value(p, digits, floor=floor) == text


def test_a_level_keeps_the_digits_that_it_has() -> None:
    assert [percent(level) for level in (0.95, 0.9, 0.999, 0.5)] == ["95%", "90%", "99.9%", "50%"]


def test_whole_numbers_have_no_decimals_and_a_column_as_many_as_it_needs() -> None:
    assert [whole(v) for v in (3.0, 3.5, -2.0, None)] == ["3", "3.5", "−2", ""]
    assert [decimals(v) for v in ([], [None], [1.0, 2.5], [0.125], [1 / 3])] == [0, 0, 1, 3, 4]


@given(VALUES, st.integers(0, 4))
def test_a_number_reads_back_to_its_digits_and_has_no_negative_zero(value: float, digits: int) -> None:
    text = number(value, digits)
    assert "-" not in text and not re.fullmatch(rf"{MINUS}[0.]+", text)
    assert float(text.replace(",", "").replace(MINUS, "-")) == pytest.approx(value, abs=0.50001 * 10**-digits)


@given(VALUES, st.integers(0, 4))
def test_a_sign_says_the_same_as_the_number(value: float, digits: int) -> None:
    assert signed(value, digits).removeprefix("+") == number(value, digits)
    assert signed(value, digits).startswith("+") == (
        float(number(value, digits).replace(",", "").replace(MINUS, "-")) > 0
    )
