"""The corpus, grown by hypothesis: whatever is done to a good input, it is taken or refused in one clear line."""

from __future__ import annotations

import contextlib
import copy
import io
import tempfile
from pathlib import Path

import polars as pl
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cilab
from cilab.core.errors import CilabError
from cilab.datasets.importers.table import import_table
from cilab.running.load import benchmarks
from cilab.running.study_file import parse
from cilab.teamwork import bank
from tests.corpus.studies import GOOD, TEAM
from tests.teamwork.small import TASK

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["", "*", "sim/", "../..", "/etc/passwd", "\x00", "a\nb", "${x}", "1e999", "{facts}", "default"]),
    st.dates(),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@st.composite
def changed(draw, good):
    """`good` with one to three of its values replaced, removed, doubled or renamed."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        holder, key = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["replace", "remove", "rename", "double"]))
        if how == "replace":
            holder[key] = draw(odd)
        elif how == "remove":
            del holder[key]
        elif how == "rename" and isinstance(holder, dict):
            holder[draw(st.one_of(st.text(max_size=8), st.integers()))] = holder.pop(key)
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        if not list(_places(value)):
            break
    return value


def _places(value):
    """(holder, key) of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


@contextlib.contextmanager
def one_line_at_most():
    """Nothing is raised, or a `CilabError` of one printable line."""
    try:
        yield
    except CilabError as e:
        said = str(e)
        assert said and said.isprintable() and "Traceback" not in said, said
        assert e.exit_code == 2


def plan(text):
    for number, _ in enumerate(parse(text, benchmarks(), where="s.yaml").specs()):
        if number > 20:
            break


@SETTINGS
@given(study=st.sampled_from([yaml.safe_load(GOOD), yaml.safe_load(TEAM)]).flatmap(changed))
def test_a_changed_study_is_planned_or_refused_in_one_line(study):
    with one_line_at_most():
        plan(yaml.dump(study, Dumper=yaml.SafeDumper, allow_unicode=True))


@SETTINGS
@given(text=st.one_of(st.text(max_size=80), st.text("{}[]:,-&*!|>'\"#% \n\tab1", max_size=60)))
@example("? : \n")
@example("&a [*a, *a]")
@example("!!python/object/apply:os.system [ls]")
@example("a: &a {<<: *a}")
def test_any_text_for_a_study_is_refused_in_one_line(text):
    with one_line_at_most():
        plan(text)


@SETTINGS
@given(task=changed(TASK))
def test_a_changed_task_is_taken_or_refused_in_one_line(task):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "hoist"
        home.mkdir()
        (home / "task.yaml").write_text(yaml.dump(task, Dumper=yaml.SafeDumper, allow_unicode=True), encoding="utf-8")
        with one_line_at_most():
            bank.load(home)


def imported(name, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        with one_line_at_most():
            import_table(path, version="=alone")


cells = st.one_of(st.text("abm01.,-\"'\n\r\t ;|é", max_size=6), st.sampled_from(["1e999", "NaN", "-1", "True", "null"]))


@SETTINGS
@given(
    names=st.lists(
        st.sampled_from(["model", "task_id", "score", "seed", "started_at", "cost_usd", "x", ""]), max_size=5
    ),
    rows=st.lists(st.lists(cells, max_size=6), max_size=5),
)
def test_any_csv_is_imported_or_refused_in_one_line(names, rows):
    imported("t.csv", "\n".join(",".join(row) for row in [names, *rows]).encode())


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@SETTINGS
@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["model", "task_id", "score", "seed", "evidence", "passed"]), json_values)
    )
)
def test_any_json_is_imported_or_refused_in_one_line(rows):
    import json

    imported("t.json", json.dumps(rows).encode())


def _whole():
    buffer = io.BytesIO()
    frame = {"model": ["a", "b"], "task_id": ["t", "t"], "score": [1.0, 0.0], "seed": [0, 1], "tags": [["x"], []]}
    pl.DataFrame(frame).write_parquet(buffer)
    return buffer.getvalue()


WHOLE = _whole()


@SETTINGS
@given(
    changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.one_of(st.none(), st.integers(0, len(WHOLE))),
)
def test_a_parquet_file_with_any_bytes_changed_is_read_or_refused_in_one_line(changes, cut):
    content = bytearray(WHOLE)
    for at, byte in changes:
        content[at] = byte
    imported("t.parquet", bytes(content[:cut]))


words = st.sampled_from(
    (
        *("select", "from", "where", "group by", "having", "count(*)", "runs", "messages", "model", "score", "*", "("),
        *(
            ")",
            ",",
            "'a'",
            "1",
            "=",
            "and",
            "null",
            "join",
            "using",
            "run_id",
            "union all",
            "with",
            "t",
            "as",
            "order by",
        ),
        *("limit", "over", "explain", "pivot", "on", "case", "when", "end", ";", "--", "copy", "to"),
    )
)


@SETTINGS
@given(query=st.one_of(st.lists(words, max_size=10).map(" ".join), st.text(max_size=30)))
@example(query="select * from runs r, runs s, (select unnest(range(3)))")
@example(query="select {'a': 1}, [1, 2], interval 3 month, uuid()")
def test_any_sql_is_answered_or_refused_in_one_line(query, played):
    with one_line_at_most():
        cilab.query(query, played)


@pytest.mark.parametrize("depth", [10, 500, 5000])
def test_nesting_of_any_depth_is_refused_in_one_line(depth):
    for text in ("[" * depth, "{a: " * depth, "- " * depth + "a", "name: s\nblocks: " + "[" * depth + "]" * depth):
        with one_line_at_most():
            plan(text)
    imported("t.json", (b"[" * depth) + (b"]" * depth))
