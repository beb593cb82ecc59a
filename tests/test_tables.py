"""What a table takes and what it refuses: one clear line, and no value changed in silence."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import TableError
from cilab.core.tables import TABLES, check, check_rows, check_types, empty, frame, valid_text
from cilab.teamwork.terms import EVIDENCE

RUN = {
    "run_id": "r",
    "study": "s",
    "benchmark": "maze",
    "task_id": "t",
    "version": "pair",
    "model": "m",
    "seed": 0,
    "status": "ok",
}


def run(**more):
    return frame("runs", [RUN | more])


def refusal(**more):
    with pytest.raises(TableError) as e:
        run(**more)
    text = str(e.value)
    assert "\n" not in text and text.startswith("table runs")
    return text


def test_every_table_has_documented_columns_with_names_of_their_own():
    for table in TABLES.values():
        assert table.doc and all(c.doc for c in table.columns)
        assert len(set(table.names)) == len(table.names)
        assert empty(table.name).schema == table.schema


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run_id", 5),
        ("model", b"m"),
        ("model", ["m"]),
        ("seed", "1"),
        ("seed", 1.5),
        ("seed", 2.0),
        ("seed", True),
        ("seed", 2**63),
        ("score", "0.5"),
        ("score", True),
        ("passed", 1),
        ("passed", "yes"),
        ("evidence", "noticed_by_check"),
        ("evidence", [None]),
        ("started_at", "2026-01-01"),
        ("started_at", datetime(2026, 1, 1)),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_row_column_and_value(column, value):
    text = refusal(**{column: value})
    assert "row 0" in text and f"{column} is {value!r}" in text and "is wanted" in text


def test_the_row_that_does_not_fit_is_named_wherever_it_stands():
    with pytest.raises(TableError, match="row 300: run_id is 5"):
        frame("runs", [RUN] * 300 + [RUN | {"run_id": 5}])


def test_an_unknown_column_is_refused():
    assert "no column named scroe" in refusal(scroe=1.0)


@pytest.mark.parametrize("column", [c.name for c in TABLES["runs"].columns if c.required])
def test_a_required_value_may_not_be_missing(column):
    rows = [{k: v for k, v in RUN.items() if k != column}, RUN]
    with pytest.raises(TableError, match=f"1 rows without {column}"):
        frame("runs", rows)


def test_a_value_outside_its_closed_list_is_refused_and_the_list_is_told():
    assert "status is 'done', not one of ok, refused, gated_out, error" in refusal(status="done")
    assert "evidence is 'bored'" in refusal(evidence=["noticed_by_check", "bored"])


def test_every_kind_of_evidence_is_taken_and_none_is_an_empty_list():
    assert run(evidence=list(EVIDENCE))["evidence"].to_list() == [list(EVIDENCE)]
    assert run(evidence=[])["evidence"].to_list() == [[]]


@pytest.mark.parametrize("column", ["score", "joint_share", "wall_density"])
def test_a_percentage_in_the_place_of_a_fraction_is_refused_with_a_guess(column):
    assert f"{column} is 85.0, above 1 (percentages must be divided by 100)" in refusal(**{column: 85})
    assert f"{column} is -0.5, below 0" in refusal(**{column: -0.5})


def test_a_weighted_outcome_may_be_negative_but_not_above_one():
    assert run(weighted_outcome=-1.57)["weighted_outcome"].to_list() == [-1.57]
    assert "weighted_outcome is 1.01, above 1" in refusal(weighted_outcome=1.01)


@pytest.mark.parametrize("column", ["score", "weighted_outcome", "cost_usd", "seconds"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_no_values(column, value):
    assert f"{column} is {value}; what is not known is null" in refusal(**{column: value})


def test_a_cost_of_zero_stays_zero_and_an_unknown_one_null():
    costs = frame("runs", [RUN | {"cost_usd": 0.0}, RUN | {"cost_usd": None}, RUN])["cost_usd"].to_list()
    assert costs == [0.0, None, None]


def test_counts_and_costs_are_not_negative():
    assert "tokens_in is -1, below 0" in refusal(tokens_in=-1)
    assert "cost_usd_team is -0.1, below 0" in refusal(cost_usd_team=-0.1)


@pytest.mark.parametrize("status", ["refused", "gated_out", "error"])
@pytest.mark.parametrize(
    ("column", "value"), [("score", 0.0), ("passed", False), ("weighted_outcome", 0.0), ("success", False)]
)
def test_a_rollout_that_is_not_ok_has_no_score(status, column, value):
    assert f"{column} of a rollout that is not ok must be null" in refusal(status=status, **{column: value})


def test_a_whole_number_becomes_a_float_and_a_time_of_any_zone_utc():
    df = run(score=1, started_at=datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert df["score"].to_list() == [1.0]
    assert df["started_at"].to_list() == [datetime(2026, 1, 1, 10, tzinfo=UTC)]
    model = frame("models", [{"model": "m", "released": date(2026, 1, 2)}])
    assert model["released"].to_list() == [date(2026, 1, 2)]


def test_nul_emoji_and_long_texts_are_kept_and_half_a_surrogate_pair_is_replaced():
    texts = ["a\0b", "🧭🇪🇺", "x" * 200_000, "line\r\nline", "", "\ufeffbom"]
    rows = [{"run_id": "r", "index": i, "kind": "message", "seat": "1", "seat_kind": "user"} for i in range(7)]
    for row, text in zip(rows, [*texts, "a\ud83db"], strict=True):
        row["content"] = text
    assert frame("messages", rows)["content"].to_list() == [*texts, "a\ufffdb"]


def test_a_frame_with_missing_unknown_or_other_columns_is_refused():
    good = run()
    for bad, words in (
        (good.drop("seed"), "missing columns: seed"),
        (good.with_columns(extra=pl.lit(1)), "unknown columns: extra"),
        (good.with_columns(pl.col("seed").cast(pl.String)), "seed is String, expected Int64"),
        (good.with_columns(started_at=pl.lit(datetime(2026, 1, 1))), "started_at is Datetime"),
    ):
        with pytest.raises(TableError, match=words):
            check("runs", bad)


def test_a_checked_frame_comes_back_as_it_was():
    df = run(score=1.0, passed=True)
    assert check("runs", df) is df


_VALUES = {
    pl.String: st.text(st.characters(exclude_categories=["Cs"])),
    pl.Int64: st.integers(0, 2**63 - 1),
    pl.Float64: st.floats(0, 1),
    pl.Boolean: st.booleans(),
    pl.List: st.lists(st.sampled_from(EVIDENCE)),
    pl.Datetime: st.datetimes(timezones=st.just(UTC)),
    pl.Date: st.dates(),
}


def rows_of(name):
    """Rows that fit a table."""
    fields = {}
    for c in TABLES[name].columns:
        values = st.sampled_from(c.allowed) if c.allowed and c.dtype == pl.String else _VALUES[c.dtype.base_type()]
        fields[c.name] = values if c.required else st.none() | values
    return st.lists(st.fixed_dictionaries(fields), max_size=3)


@pytest.mark.parametrize("name", ["messages", "calls", "labels", "annotations", "reviews", "tasks", "models"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_that_fit_come_back_unchanged(name, data):
    rows = data.draw(rows_of(name))
    assert frame(name, rows).to_dicts() == rows


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=[])),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
        max_leaves=5,
    )
)
def test_valid_text_can_be_written_and_changes_nothing_that_could_be(value):
    valid = valid_text(value)
    assert all(_can_be_written(s) for s in _strings(valid))
    if all(_can_be_written(s) for s in _strings(value)):
        assert valid == value


def _can_be_written(text):
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def _strings(value):
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in (k, *_strings(v))]
    return [s for v in value for s in _strings(v)]


def test_types_are_checked_without_making_a_frame():
    check_types("runs", [RUN])
    with pytest.raises(TableError, match=r"seed is 1\.5"):
        check_types("runs", [RUN | {"seed": 1.5}])


_ANY = {
    "run_id": st.sampled_from(["r", None, 5]),
    "status": st.sampled_from(["ok", "error", "done", None]),
    "score": st.sampled_from([None, 0, 0.5, 1, 1.5, 85, -1, math.nan, math.inf, "1"]),
    "passed": st.sampled_from([None, True, 1]),
    "weighted_outcome": st.sampled_from([None, -1.57, 1.0, 1.01, -math.inf]),
    "tokens_in": st.sampled_from([None, 0, 3, -1, 2.0, 2**70]),
    "cost_usd": st.sampled_from([None, 0.0, 0.1, -0.1, math.nan]),
    "evidence": st.sampled_from([None, [], ["noticed_by_check"], ["bored"], "noticed_by_check", [3]]),
    "split": st.sampled_from([None, "public", "private"]),
}


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({}, optional=_ANY))
def test_a_row_is_refused_by_the_quick_check_when_a_frame_refuses_it_and_only_then(more):
    def refuses(action):
        try:
            action()
        except TableError as e:
            assert "\n" not in str(e)
            return True
        return False

    row = RUN | more
    assert refuses(lambda: check_rows("runs", [row])) == refuses(lambda: frame("runs", [row]))
