import pytest

from settle.shares import split


def test_thirds():
    assert split(100, [1, 1, 1]) == [34, 33, 33]


def test_halves():
    assert split(101, [1, 1]) == [51, 50]


def test_nothing():
    assert split(0, [1, 2]) == [0, 0]


def test_zero_weight():
    assert split(10, [0, 1]) == [0, 10]


def test_even():
    assert split(100, [1, 2, 3, 4]) == [10, 20, 30, 40]


def test_exact():
    assert split(7, [2, 2, 3]) == [2, 2, 3]


def test_two_left():
    assert split(5, [1, 1, 1]) == [2, 2, 1]


def test_five_partners():
    assert split(1000, [1, 1, 1, 3, 1]) == [143, 143, 143, 429, 143]


def test_refund():
    assert split(-100, [1, 1, 1]) == [-34, -33, -33]


def test_negative_weight():
    with pytest.raises(ValueError):
        split(5, [1, -1, 3])


def test_no_weight():
    with pytest.raises(ValueError):
        split(5, [0, 0])
