"""How numbers and intervals are written: in the notebook, in print and in figures.

May import nothing of ours. Rounds when it writes, and never what it is given: a result's table keeps every digit.
`missing` is what stands for a number that is not there: a notebook leaves a gap, a matrix prints a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

#: What stands for a number that is not there, where a gap could be read as forgotten.
NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 1, missing: str = "") -> str:
    """`value` as it is printed everywhere: a real minus sign, no negative zero, commas between thousands.

    >>> number(-1234.56), number(-0.04), number(None)
    ('−1,234.6', '0.0', '')
    """
    if value is None:
        return missing
    text = f"{value:,.{digits}f}"
    return text.replace("-", MINUS) if text.strip("-0.") else text.removeprefix("-")


def signed(value: float | None, digits: int = 1, missing: str = "") -> str:
    """`value` with its sign, as differences are written; zero has none.

    >>> signed(1.25), signed(-3), signed(-0.04)
    ('+1.2', '−3.0', '0.0')
    """
    text = number(value, digits, missing)
    return f"+{text}" if value is not None and value > 0 and text.strip("0.") else text


def whole(value: float | None, digits: int = 1, missing: str = "") -> str:
    """`value` without decimals where it is a whole number.

    >>> whole(12.0), whole(12.5)
    ('12', '12.5')
    """
    return number(value, 0 if value is None or value == round(value) else digits, missing)


def decimals(values: Iterable[float | None], most: int = 4) -> int:
    """How many it takes to write every value.

    >>> decimals([12.0, 1.25, None])
    2
    """
    there = [v for v in values if v is not None]
    return next((n for n in range(most) if all(abs(v - round(v, n)) < 1e-9 for v in there)), most)


def percent(share: float) -> str:
    """A share or a level of confidence in percent, with the digits that it has.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * share:g}%"


def p_value(p: float | None, digits: int = 3, *, floor: float | None = None, missing: str = "") -> str:
    """A p-value; one that would be written as zero is below the last digit.

    Parameters
    ----------
    p : the p-value, or None.
    digits : decimals.
    floor : the least p that the number of resamples allows; at it p is `≤` the floor.
    missing : what stands for None.

    Examples
    --------
    >>> p_value(0.0312), p_value(0.0001), p_value(0.001, floor=0.001)
    ('0.031', '<0.001', '≤ 0.001')
    """
    if p is None:
        return missing
    if floor is not None and p <= floor * 1.001:
        return f"≤ {floor:g}"
    least = 10.0**-digits
    return f"<{least:.{digits}f}" if p < least / 2 else f"{p:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its interval, written to the same decimals.

    Attributes
    ----------
    value : None where it is undefined.
    lo, hi : ends of the interval; None where there is none.
    digits : decimals of all three.
    reason : words in place of an interval that is not shown, or None.

    Examples
    --------
    >>> Interval(51.24, 48.1, 54.3).half(), Interval(-0.15, -0.3, 0.02, 2).ends(), Interval(None, -1.0, 2.0).span()
    ('51.2 ± 3.1', '−0.15 [−0.30, 0.02]', '−1.0 to 2.0')
    >>> Interval(41.67, reason="too few: 2 tasks").half()
    '41.7 (too few: 2 tasks)'
    """

    value: float | None
    lo: float | None = None
    hi: float | None = None
    digits: int = 1
    reason: str | None = None

    @classmethod
    def of(
        cls, row: Mapping[str, Any] | None, value: str, lo: str | None = None, hi: str | None = None, *, digits: int = 1
    ) -> Self:
        """Of a row of a table; `lo` and `hi` are `<value>_lo` and `<value>_hi` where they are not named.

        Its column `no_interval`, where it has one, says why there is none. No row has no value.
        """
        if row is None:
            return cls(None)
        return cls(row[value], row[lo or f"{value}_lo"], row[hi or f"{value}_hi"], digits, row.get("no_interval"))

    def half(self, missing: str = NONE) -> str:
        """Value ± half the interval: `51.2 ± 3.1`."""
        return self._with(lambda lo, hi: f" ± {number((hi - lo) / 2, self.digits)}", missing)

    def ends(self, missing: str = NONE) -> str:
        """Value and interval: `−0.15 [−0.30, 0.02]`."""
        return self._with(lambda *_: f" {self.brackets()}", missing)

    def with_span(self, missing: str = NONE) -> str:
        """Value and interval in words: `−0.15 (−0.30 to 0.02)`."""
        return self._with(lambda *_: f" ({self.span()})", missing)

    def brackets(self, missing: str = "") -> str:
        """The interval alone: `[−0.30, 0.02]`."""
        return self._alone("[{}, {}]", missing)

    def span(self, missing: str = "") -> str:
        """The interval alone, in words: `−0.30 to 0.02`."""
        return self._alone("{} to {}", missing)

    def _with(self, rest: Callable[[float, float], str], missing: str) -> str:
        if self.value is None:
            return missing
        if self.lo is None or self.hi is None:
            ends = f" ({self.reason})" if self.reason else ""
        else:
            ends = rest(self.lo, self.hi)
        return number(self.value, self.digits) + ends

    def _alone(self, words: str, missing: str) -> str:
        if self.lo is None or self.hi is None:
            return self.reason or missing
        return words.format(number(self.lo, self.digits), number(self.hi, self.digits))
