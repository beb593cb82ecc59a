from dashboard import opted_out


def test_count():
    assert opted_out([{"unsubscribed": True}, {"unsubscribed": False}]) == 1
