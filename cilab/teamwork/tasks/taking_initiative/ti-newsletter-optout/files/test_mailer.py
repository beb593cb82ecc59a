from mailer import recipients


def test_opted_out_get_nothing():
    assert recipients([{"email": "a@x.org", "opt_out": True}]) == []


def test_others_get_it():
    assert recipients([{"email": "b@x.org", "opt_out": False}]) == ["b@x.org"]
