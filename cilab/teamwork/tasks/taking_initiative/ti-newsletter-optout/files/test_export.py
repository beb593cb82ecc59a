from export import export_rows


def test_row():
    rows = export_rows([{"email": "a@x.org", "opt_out": True}])
    assert rows == [{"email": "a@x.org", "branch": "main", "unsubscribed": True}]
