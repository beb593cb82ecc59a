"""SQL reads a study and nothing else: no other file, no network, no setting, no write."""

from __future__ import annotations

import polars as pl
import pytest

import cilab
from cilab.core.errors import CilabError
from tests.corpus.conftest import played  # noqa: F401  a fixture
from tests.corpus.driver import contents

CANARY = "canary-7f3a91"


@pytest.fixture
def decoys(played):  # noqa: F811
    """Files beside the study that a query must not reach; the study's folder, and theirs."""
    beside = played.parent / "beside"
    beside.mkdir(exist_ok=True)
    (beside / "secret.csv").write_text(f"a\n{CANARY}\n")
    (beside / "secret.json").write_text(f'{{"a": "{CANARY}"}}\n')
    (beside / "secret.txt").write_text(CANARY)
    pl.DataFrame({"a": [CANARY]}).write_parquet(beside / "secret.parquet")
    return played, beside


def queries(beside, study):
    """Ways to a file that is not the study's, and ways to change something."""
    csv, parquet, text = (beside / f"secret.{ending}" for ending in ("csv", "parquet", "txt"))
    yield from (
        f"select * from '{csv}'",
        f'select * from "{csv}"',
        f"from '{parquet}'",
        f"select * from read_csv('{csv}')",
        f"select * from read_csv_auto(['{csv}'])",
        f"select * from read_parquet('{parquet}')",
        f"select * from parquet_scan('{beside}/*.parquet')",
        f"select * from read_parquet('{study}/tables/runs/../../../beside/secret.parquet')",
        f"select * from read_text('{text}')",
        f"select * from read_blob('{text}')",
        f"select * from read_json('{beside}/secret.json')",
        f"select * from glob('{beside}/*')",
        f"select * from parquet_metadata('{parquet}')",
        f"select * from parquet_schema('{parquet}')",
        f"select * from sniff_csv('{csv}')",
        f"select (select a from read_csv('{csv}')) as x from runs",
        f"with t as (select * from '{csv}') select * from t, runs",
        f"select * from runs where model = (select a from read_csv('{csv}'))",
        f"select * from query('select * from read_csv(''{csv}'')')",
        f"select * from query_table('{csv}')",
        f"pivot (select * from '{csv}') on a",
        f"explain analyze select * from read_csv('{csv}')",
        f"copy runs to '{beside}/stolen.csv'",
        f"export database '{beside}/stolen'",
        f"attach '{beside}/stolen.db' as x",
        "install httpfs",
        "load httpfs",
        "create or replace secret s (type s3, key_id 'a', secret 'b')",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "pragma enable_external_access",
        "select * from read_csv('http://127.0.0.1:9/x')",
        "select * from read_parquet('s3://b/x.parquet')",
        "select * from sqlite_scan('" + str(study / "journal.sqlite") + "', 'meta')",
        f"select * from read_text('{study}/study.yaml')",
        f"select * from read_blob('{study}/journal.sqlite')",
        "select 1; select 2",
        "delete from runs",
        "drop view runs",
        "create table t as select 1",
        "update runs set score = 1",
        "checkpoint",
        "vacuum",
    )


def test_no_query_reaches_a_file_outside_or_changes_anything(decoys):
    study, beside = decoys
    before = contents(study.parent)
    for query in queries(beside, study):
        with pytest.raises(CilabError) as error:
            print(query, cilab.query(query, study))
        said = str(error.value)
        assert "\n" not in said and CANARY not in said, query
    assert contents(study.parent) == before


def test_the_study_itself_can_be_asked_everything(decoys):
    study, _ = decoys
    assert cilab.query("select count(*) as n from runs", study)["n"].item() == 4
    assert cilab.query("from messages select count(*) as n", study)["n"].item() > 0
    assert cilab.query("explain select * from runs", study).height
    assert cilab.query("pivot runs on version using count(*)", study).height
