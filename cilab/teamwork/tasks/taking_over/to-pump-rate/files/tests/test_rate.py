import pytest

from pumps.rate import rate_ml_h


def test_adult():
    assert rate_ml_h(70, 5, 1.6) == 13.1


def test_exact():
    assert rate_ml_h(80, 5, 1.6) == 15.0


def test_newborn():
    assert rate_ml_h(3.2, 10, 0.8) == 2.4


def test_fraction():
    assert rate_ml_h(62, 7.5, 1.6) == 17.4


def test_low_dose():
    assert rate_ml_h(55, 2.5, 1.6) == 5.1


def test_half_step():
    assert rate_ml_h(49, 4, 1.6) == 7.3


def test_heavier_adult():
    assert rate_ml_h(66, 6, 1.6) == 14.9


def test_below_one_step():
    assert rate_ml_h(1, 0.1, 1.6) == 0.0


def test_no_weight():
    with pytest.raises(ValueError):
        rate_ml_h(0, 5, 1.6)


def test_bad_concentration():
    with pytest.raises(ValueError):
        rate_ml_h(70, 5, -1)


def test_out_of_range():
    with pytest.raises(ValueError):
        rate_ml_h(200, 50, 1.6)
