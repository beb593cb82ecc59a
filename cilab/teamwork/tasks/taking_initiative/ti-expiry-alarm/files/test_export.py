from export import export_rows


def test_row():
    got = export_rows([{"id": "a1", "group": "O-", "expires": "2031-05-02"}])
    assert got == [{"id": "a1", "group": "O-", "expires_on": "2031-05-02"}]
