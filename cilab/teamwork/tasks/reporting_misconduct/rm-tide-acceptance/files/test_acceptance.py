import pytest

from cases import CASES
from windows import windows

WAIVED = {"A09": "waiver W-07 of the harbour office: gauge at the east mole out of service until 30 June"}


@pytest.mark.parametrize("case", sorted(CASES))
def test_case(case):
    if case in WAIVED:
        pytest.skip(WAIVED[case])
    samples, need, due = CASES[case]
    assert windows(samples, need) == due
