"""Every estimator of the face records every argument, is repeated from what it recorded, and refuses in one line."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypedDict, Unpack, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import cilab
from cilab.core.errors import CilabError, TableError
from cilab.core.frames import Provenance
from cilab.results.arguments import Level, Seed
from cilab.results.estimator import ESTIMATORS, MOST_ROWS, estimator, recorded, rerun, scope
from cilab.results.result import Result
from cilab.stats import ESTIMATORS as FACE
from cilab.stats.teamwork.failures import RULES, FailureRule, failures
from cilab.stats.teamwork.grid import Scope
from tests.frozen import outputs

CALLS = {key: (name, data, arguments) for key, name, data, arguments in outputs.calls()}
ROUND = cilab.datasets.hand_worked_round()


@cache
def found(key: str) -> Result:
    name, data, arguments = CALLS[key]
    return getattr(cilab, name)(data, **arguments)


def frames(result: Result) -> dict[str, pl.DataFrame]:
    values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return {name: value for name, value in values.items() if isinstance(value, pl.DataFrame)}


def same(a: Result, b: Result) -> None:
    """Two results are equal in every frame, text and count."""
    assert type(a) is type(b) and repr(a) == repr(b) and dict(a.parameters) == dict(b.parameters)
    assert (a.n_used, dict(a.n_left_out)) == (b.n_used, dict(b.n_left_out))
    for name, frame in frames(a).items():
        assert_frame_equal(frame, frames(b)[name], rel_tol=1e-12)


# -- the whole face ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FACE))
def test_every_estimator_of_the_face_shows_its_signature_and_its_types_resolve(name: str) -> None:
    function = getattr(cilab, name)
    assert ESTIMATORS[name] is function and function.__doc__
    parameters = inspect.signature(function).parameters
    assert all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if "gate" in parameters:
        assert set(Scope.__annotations__) <= set(parameters)
    assert get_type_hints(inspect.unwrap(function), include_extras=True)


@pytest.mark.parametrize("key", CALLS)
def test_a_result_holds_every_argument_by_value_and_is_repeated_from_them(key: str) -> None:
    name, data, arguments = CALLS[key]
    result = found(key)
    _, *names = inspect.signature(getattr(cilab, name)).parameters
    assert set(names) <= set(result.parameters) and result.made_by == name
    for argument, value in arguments.items():
        if argument not in ("version", "gate", "dimensions"):
            assert result.parameters[argument] == recorded(value)
    same(cilab.rerun(result, data), result)
    kept = json.loads(json.dumps({"made_by": result.made_by, "parameters": result.parameters}))
    assert_frame_equal(cilab.rerun(kept, data).table, result.table, rel_tol=1e-12)


@pytest.mark.parametrize("name", sorted(FACE))
def test_an_argument_that_nobody_knows_is_refused_with_the_nearest(name: str) -> None:
    function = getattr(cilab, name)
    _, *known = inspect.signature(function).parameters
    slip = known[-1] + "_"
    with pytest.raises(TableError) as e:
        function(ROUND, **{slip: 1})
    assert "\n" not in str(e.value)
    assert f"{name} has no argument {slip!r}. Did you mean" in str(e.value) and known[-1] in str(e.value)


@pytest.mark.parametrize("name", sorted(FACE))
def test_a_value_of_a_wrong_type_is_refused_in_one_line_before_the_data_are_read(name: str) -> None:
    function = getattr(cilab, name)
    hints = get_type_hints(inspect.unwrap(function), include_extras=True) | get_type_hints(Scope, include_extras=True)
    _, *known = inspect.signature(function).parameters
    others = {n: CALLS[name][2][n] for n in CALLS[name][2]}
    wrong = {"ci_level": (1.5, True, "a"), "seed": (-1, 0.5), "models": ("m", 3), "allow_partial": ("yes",)}
    for argument in known:
        for value in wrong.get(argument, ()):
            if hints[argument] is Any:
                continue
            with pytest.raises(TableError, match=rf"^{argument} is ") as e:
                function(object(), **{**others, argument: value})
            assert "\n" not in str(e.value)


def test_what_is_missing_or_too_much_is_one_line() -> None:
    with pytest.raises(TableError, match=r"^compare: missing a required argument: 'b'\. It takes: study, a, b, "):
        cilab.compare(ROUND, "x")
    with pytest.raises(TableError, match=r"^leaderboard: too many positional arguments\. It takes: study, "):
        cilab.leaderboard(ROUND, 1, 2)


# -- options ----------------------------------------------------------------------------------------------


def test_an_option_is_an_argument_for_a_while_and_what_the_call_says_wins() -> None:
    plain = cilab.leaderboard(ROUND, resamples=50)
    with cilab.options(ci_level=0.5, resamples=60):
        with cilab.options(ci_level=0.6):
            inner = cilab.leaderboard(ROUND)
        given = cilab.leaderboard(ROUND, ci_level=0.95, resamples=50)
    assert (inner.parameters["ci_level"], inner.parameters["resamples"]) == (0.6, 60)
    same(given, plain)
    same(inner, cilab.leaderboard(ROUND, ci_level=0.6, resamples=60))
    same(cilab.leaderboard(ROUND, resamples=50), plain)


def test_an_option_leaves_alone_who_has_no_such_argument_and_what_is_computed_inside() -> None:
    data = outputs._mazes()
    plain = cilab.mediation(data, annotator="sim:annotator1", resamples=50)
    with cilab.options(ci_level=0.5, outcome="success", gate="off"):
        same(cilab.mediation(data, annotator="sim:annotator1", resamples=50), plain)


def test_an_option_is_checked_like_an_argument_and_an_unknown_one_is_named() -> None:
    with (
        pytest.raises(TableError, match=r"no option is called 'ci_levl'\. Did you mean ci_level"),
        cilab.options(ci_levl=0.9),
    ):
        pass
    with cilab.options(ci_level=95), pytest.raises(TableError, match="ci_level is 95: give a fraction"):
        cilab.leaderboard(ROUND)


def test_every_option_is_an_argument_of_two_estimators_or_more() -> None:
    from cilab.core.options import NAMES

    taken = [p for name in FACE for p in inspect.signature(getattr(cilab, name)).parameters]
    assert {name: taken.count(name) for name in NAMES if taken.count(name) < 2} == {}


# -- records ----------------------------------------------------------------------------------------------

RULE = FailureRule("short", "stopped short", pl.col("score") < 0.5, "a rule of one's own")


def test_a_rule_of_ones_own_is_recorded_with_its_condition_and_repeated() -> None:
    data = outputs._release()
    result = failures(data, rules=[RULE, *RULES], resamples=50)
    record = json.loads(json.dumps(result.parameters["rules"]))
    assert record[0]["object"] == "FailureRule" and record[0]["fields"]["name"] == "short"
    same(rerun(result, data), result)


def test_a_rule_that_holds_a_python_function_is_named_and_may_be_handed_in() -> None:
    data = outputs._release()
    mine = FailureRule("odd", "stopped short", pl.col("score").map_elements(lambda s: s < 0.5, return_dtype=pl.Boolean))
    result = failures(data, rules=[mine], resamples=50)
    assert "PLPYFN" not in json.dumps(result.parameters)
    with pytest.raises(TableError, match=r"rules\[0\]\.when was an expression with a Python"):
        rerun(result, data)
    same(rerun(result, data, rules=[mine]), result)
    with pytest.raises(TableError, match="rules is not what the result was computed with"):
        rerun(result, data, rules=[RULE])


def test_a_record_that_holds_code_is_never_loaded() -> None:
    code = pl.col("x").map_elements(lambda x: x, return_dtype=pl.Int64).meta.serialize(format="json")
    rule = {"object": "FailureRule", "fields": {"name": "a", "stage": "b", "doc": "", "when": {"expression": code}}}
    record = {"made_by": "failures", "parameters": {"rules": [rule]}}
    with pytest.raises(TableError, match="holds code"):
        rerun(record, ROUND)
    for name in ("Path", "pathlib:Path", "os:system"):
        other = {"made_by": "failures", "parameters": {"rules": [{"object": name, "fields": {}}]}}
        with pytest.raises(TableError, match="does not make"):
            rerun(other, ROUND)


def test_a_frame_of_many_rows_is_kept_by_its_hash_and_handed_in() -> None:
    data = outputs._release()
    models = data.runs.select("model").unique().sort("model").collect()["model"].to_list()
    groups = pl.DataFrame({"model": (models * 100)[: MOST_ROWS + 1]}).with_columns(group=pl.lit("all"))
    result = cilab.group_means(data, groups, resamples=50)
    assert list(result.parameters["groups"]) == ["kept", "hash"]
    with pytest.raises(TableError, match=r"groups was a frame of 1,001 rows \(model, group\).*groups=\.\.\."):
        rerun(result, data)
    same(rerun(result, data, groups=groups), result)
    with pytest.raises(TableError, match="groups is not what"):
        rerun(result, data, groups=groups.head(5))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.25, "x", [1, "a"], {"a": [1, None]}, {"frame": 1}, {1: "a"}),
        pl.col("a").is_null() & (pl.col("b") > 2),
        pl.DataFrame({"a": [1, None], "b": ["x", "y"], "c": [[1.5], []]}),
        pl.DataFrame({"d": ["2026-01-02", None]}).with_columns(pl.col("d").str.to_date()),
    ],
    ids=str,
)
def test_what_is_recorded_by_value_comes_back_as_it_was(value: Any) -> None:
    from cilab.results.estimator import _rebuilt

    back = _rebuilt("x", json.loads(json.dumps(recorded(value))))
    if isinstance(value, pl.DataFrame):
        assert_frame_equal(back, value)
    elif isinstance(value, pl.Expr):
        assert back.meta.eq(value)
    else:
        assert back == value


def test_numbers_of_numpy_sets_tuples_and_pandas_are_recorded_as_plain_values() -> None:
    assert recorded((np.float64(0.5), np.int64(2))) == [0.5, 2]
    assert recorded({"b", "a"}) == ["a", "b"]
    frame = {"a": [1, 2]}
    assert recorded(pd.DataFrame(frame)) == recorded(pl.DataFrame(frame)) == recorded(pl.LazyFrame(frame))


def test_a_result_that_no_estimator_made_and_a_name_that_is_none_are_refused() -> None:
    with pytest.raises(TableError, match="names no estimator"):
        cilab.rerun({"parameters": {}}, ROUND)
    with pytest.raises(TableError, match=r"no estimator is called 'leaderbord'\. Did you mean leaderboard"):
        cilab.rerun({"made_by": "leaderbord"}, ROUND)
    with pytest.raises(TableError, match=r"recorded no argument 'resample_'\. Did you mean"):
        cilab.rerun(found("leaderboard"), ROUND, resample_=3)


# -- an estimator of one's own ----------------------------------------------------------------------------


@scope(near=1.0)
class _Near(TypedDict, total=False):
    near: float


@estimator
def _counts(
    data: Any,
    which: Literal["rows", "models"] = "rows",
    *,
    names: Sequence[str] | None = None,
    table: Mapping[str, int] | None = None,
    level: Level = 0.95,
    seed: Seed = 0,
    flag: bool = False,
    either: Annotated[int | str, "free"] = 1,
    **near: Unpack[_Near],
) -> Result:
    """Counts."""
    provenance = Provenance("s", "h", False, None, "v")
    shown = pl.DataFrame({"n": [len(data)]})
    return Result(table=shown, n_used=len(data), n_left_out={}, provenance=provenance, parameters={"seed": 7, **near})


def test_what_the_function_settles_wins_and_positions_count() -> None:
    result = _counts([1, 2], "models", names=("a",), near=2)
    assert dict(result.parameters) == {
        "which": "models",
        "names": ["a"],
        "table": None,
        "level": 0.95,
        "seed": 7,
        "flag": False,
        "either": 1,
        "near": 2,
    }
    assert result.made_by == "_counts" and result.n_used == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"which": "row"}, "which is 'row', not one of rows, models. Did you mean rows"),
        ({"which": ["rows"]}, "which is ['rows'], not one of rows, models."),
        ({"names": "a"}, "names is a text; give a list of names, such as ['a']"),
        ({"names": 3}, "names is 3: give a list of names"),
        ({"table": [1]}, "table is [1]: give a mapping"),
        ({"level": 95}, "level is 95: give a fraction between 0 and 1, such as 0.95"),
        ({"seed": True}, "seed is True: give a whole number of at least 0"),
        ({"flag": 1}, "flag is 1: give True or False"),
        ({"either": 1.5}, "either is 1.5: give a whole number or a text"),
        ({"near": "x"}, "near is 'x': give a number"),
        ({"nea": 1}, "_counts has no argument 'nea'. Did you mean near"),
    ],
)
def test_types_are_checks(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CilabError) as e:
        _counts([], **arguments)
    assert str(e.value).startswith(words) and "\n" not in str(e.value)
