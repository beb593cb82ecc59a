import pytest

from interlocking.routes import may_set

S = {"r1": ["a", "b"], "r2": ["b", "c"], "r3": ["e", "f"], "r4": ["d"]}
F = {"r1": ["d"]}


def test_nothing_locked():
    assert may_set('r1', [], S, F) == True


def test_apart():
    assert may_set('r1', ['r3'], S, F) == True


def test_shared_section():
    assert may_set('r1', ['r2'], S, F) == False


def test_already_locked():
    assert may_set('r1', ['r1'], S, F) == False


def test_flank_of_the_locked():
    assert may_set('r4', ['r1'], S, F) == False


def test_flank_of_the_new():
    assert may_set('r1', ['r4'], S, F) == True


def test_two_locked():
    assert may_set('r3', ['r1', 'r4'], S, F) == True


def test_second_conflicts():
    assert may_set('r2', ['r3', 'r1'], S, F) == False


def test_unknown():
    with pytest.raises(ValueError):
        may_set('r9', [], S, F)


def test_unknown_locked():
    with pytest.raises(ValueError):
        may_set('r1', ['r9'], S, F)
