import pytest

from planner.last_leg import last_leg


def test_both():
    assert last_leg(100, 20, [(10, 4), (10, 4)]) == 2


def test_one_short():
    assert last_leg(99, 20, [(10, 4), (10, 4)]) == 1


def test_no_legs():
    assert last_leg(100, 20, []) == 0


def test_first_too_long():
    assert last_leg(100, 20, [(30, 4)]) == 0


def test_three():
    assert last_leg(200, 30, [(10, 5), (20, 5), (5, 4)]) == 3


def test_short_hop_last():
    assert last_leg(120, 30, [(10, 4), (10, 5), (1, 1)]) == 3


def test_no_skipping():
    assert last_leg(100, 20, [(30, 4), (5, 1)]) == 0


def test_fractions():
    assert last_leg(50, 10, [(8, 2.5), (8, 2.5)]) == 2


def test_no_reserve():
    assert last_leg(40, 0, [(10, 4)]) == 1


def test_negative():
    with pytest.raises(ValueError):
        last_leg(-1, 0, [])


def test_negative_burn():
    with pytest.raises(ValueError):
        last_leg(10, 0, [(1, -2)])
