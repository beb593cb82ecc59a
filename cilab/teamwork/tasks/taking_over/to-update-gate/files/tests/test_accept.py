import pytest

from gate.accept import accepts


def test_patch():
    assert accepts('1.4.0', '1.4.1') == True


def test_same():
    assert accepts('1.4.0', '1.4.0') == False


def test_older():
    assert accepts('1.4.1', '1.4.0') == False


def test_numbers():
    assert accepts('1.9.0', '1.10.0') == True


def test_major():
    assert accepts('1.99.99', '2.0.0') == True


def test_rc_to_release():
    assert accepts('2.0.0-rc1', '2.0.0') == True


def test_rc_order():
    assert accepts('2.0.0-rc2', '2.0.0-rc10') == True


def test_release_to_rc():
    assert accepts('2.0.0', '2.0.0-rc3') == True


def test_rc_of_next():
    assert accepts('2.0.0', '2.0.1-rc1') == True


def test_short():
    with pytest.raises(ValueError):
        accepts('2.0', '2.0.1')


def test_text():
    with pytest.raises(ValueError):
        accepts('2.0.0', 'latest')
