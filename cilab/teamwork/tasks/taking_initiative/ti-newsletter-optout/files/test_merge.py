import pytest

from merge import merge


def rec(email, name, opt_out, updated):
    return {"email": email, "name": name, "opt_out": opt_out, "updated": updated}


def test_single():
    assert merge([rec("a@x.org", "Ada", False, 1)]) == [{"email": "a@x.org", "name": "Ada", "opt_out": False}]


def test_case_and_blanks():
    got = merge([rec(" A@X.org", "Ada", False, 1), rec("a@x.org", "Ada L", False, 2)])
    assert got == [{"email": "a@x.org", "name": "Ada L", "opt_out": False}]


def test_newest_name():
    assert merge([rec("a@x.org", "New", False, 9), rec("a@x.org", "Old", False, 1)])[0]["name"] == "New"


def test_sorted():
    assert [m["email"] for m in merge([rec("b@x.org", "B", False, 1), rec("a@x.org", "A", False, 1)])] == ["a@x.org", "b@x.org"]


def test_no_address():
    with pytest.raises(ValueError):
        merge([rec("  ", "A", False, 1)])
