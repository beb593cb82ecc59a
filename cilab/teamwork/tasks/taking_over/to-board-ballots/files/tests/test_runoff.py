import pytest

from tally.runoff import winner


def test_majority():
    assert winner([['A'], ['A'], ['B']]) == 'A'


def test_transfer():
    assert winner([['A']] * 4 + [['B', 'C']] * 3 + [['C', 'B']] * 2) == 'A'


def test_one_ballot():
    assert winner([['Z', 'A']]) == 'Z'


def test_exhausted():
    assert winner([['A']] * 3 + [['B']] * 2 + [['C']] * 2) == 'A'


def test_tie_alphabet():
    assert winner([['A'], ['B']]) == 'A'


def test_second_choice():
    assert winner([['A', 'B']] * 2 + [['B']] * 2 + [['C', 'B']]) == 'B'


def test_never_first():
    assert winner([['A', 'D'], ['B', 'D'], ['C', 'D']]) == 'A'


def test_empty_ballot_ignored():
    assert winner([[], ['A']]) == 'A'


def test_no_ballots():
    with pytest.raises(ValueError):
        winner([])


def test_all_empty():
    with pytest.raises(ValueError):
        winner([[], []])
