import pytest

from pick import pick

STOCK = [
    {"id": "a1", "group": "O-", "expires": "2031-05-09"},
    {"id": "a2", "group": "O+", "expires": "2031-05-01"},
    {"id": "a3", "group": "A+", "expires": "2031-05-03"},
    {"id": "a4", "group": "A-", "expires": "2031-05-05"},
]


def test_o_negative():
    assert pick(STOCK, "O-", 1) == ["a1"]


def test_a_positive():
    assert pick(STOCK, "A+", 3) == ["a2", "a3", "a4"]


def test_too_few():
    with pytest.raises(LookupError):
        pick(STOCK, "O-", 2)


def test_unknown():
    with pytest.raises(ValueError):
        pick(STOCK, "X+", 1)
