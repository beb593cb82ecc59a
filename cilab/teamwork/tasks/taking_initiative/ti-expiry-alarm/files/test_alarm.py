from alarm import expiring


def test_expiring():
    assert expiring([{"id": "a1", "expires": "2031-05-01"}], "2031-05-02") == ["a1"]


def test_still_good():
    assert expiring([{"id": "a1", "expires": "2031-05-03"}], "2031-05-02") == []
