from stocktake import soonest


def test_soonest():
    assert soonest([{"group": "O-", "expires_on": "2031-05-02"}, {"group": "O-", "expires_on": "2031-05-01"}]) == {"O-": "2031-05-01"}
