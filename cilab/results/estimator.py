"""`@estimator`: a statistic of the public face binds, checks and records every argument; `rerun` repeats it from that.

May import `cilab.core` and its own folder. Computes nothing itself and reads no file.

What a value is recorded as
    Numbers, texts, lists and mappings as they are. A polars expression as polars' own JSON, a frame of up to 1,000 rows
    as its columns, a dataclass (a failure rule) as its fields. What cannot be rebuilt from text (a larger frame, an
    expression or a rule that holds a Python function, an opened study) is recorded as what it is and its hash: `rerun`
    names it, and takes it from the caller when the hash is the same. Nothing is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

import numpy as np
import polars as pl

from cilab.core import options
from cilab.core.errors import TableError, nearest
from cilab.results.arguments import Check, checks_of
from cilab.results.result import Result

P = ParamSpec("P")
R = TypeVar("R", bound=Result)
T = TypeVar("T")

#: Rows up to which a frame among the arguments is recorded by value.
MOST_ROWS = 1_000
#: Estimators by name, as their modules are loaded.
ESTIMATORS: dict[str, Callable[..., Result]] = {}


def estimator(function: Callable[P, R]) -> Callable[P, R]:
    """Bind every argument of a call, check it by its type, compute, and record all of them in `.parameters`.

    The first parameter is the data, which is recorded as provenance. `**scope: Unpack[Scope]` stands for the arguments
    that the typed dictionary names, with the defaults that `scope` gave it. An argument that is not in the call comes
    from `cilab.options`, else it has its default. What the function itself puts into `parameters` (settled where
    None was asked) wins.

    Raises
    ------
    TableError
        By the estimator: an argument is unknown, missing, or of the wrong type.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        known = _arguments(function)
        bound = known.bind(name, args, kwargs)
        more = {n: v for n, v in options.current().items() if n in known.defaults and n not in bound}
        asked = {**known.defaults, **more, **bound}
        for argument, value in asked.items():
            if value is not known.defaults[argument]:
                for check in known.checks[argument]:
                    check(argument, value)
        # What was set outside is settled now: a statistic that this one asks sees what it is given, and nothing else.
        with options.none():
            result = function(*args, **kwargs, **more)
        parameters = {n: recorded(v) for n, v in asked.items()} | dict(result.parameters)
        return dataclasses.replace(result, made_by=name, parameters=parameters)

    call.__signature__ = _opened(function)  # type: ignore[attr-defined]
    ESTIMATORS[name] = call
    return call


def opened(function: Callable[P, T]) -> Callable[P, T]:
    """Marks a function that takes a scope as `**given: Unpack[...]`: its signature shows the names."""
    function.__signature__ = _opened(function)  # type: ignore[attr-defined]
    return function


def _opened(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with `**scope` opened; the other types stay texts until a call needs them."""
    plain = inspect.signature(function)
    parameters = []
    for parameter in plain.parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        named = _scope_of(function, parameter)
        types = get_type_hints(named, include_extras=True)
        parameters += [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[n])
            for n, default in DEFAULTS[named].items()
            if n == parameter.name or n not in plain.parameters
        ]
    return plain.replace(parameters=parameters)


def _scope_of(function: Callable[..., Any], parameter: inspect.Parameter) -> type:
    """The typed dictionary of `**scope: Unpack[...]`."""
    asked = parameter.annotation
    if isinstance(asked, str):
        asked = get_type_hints(_Only({parameter.name: asked}, function), include_extras=True)[parameter.name]
    named: type
    (named,) = get_args(asked)
    return named


class _Only:
    """Stands for a function that has some of its annotations, so that those alone are resolved."""

    def __init__(self, annotations: Mapping[str, Any], function: Callable[..., Any]):
        self.__annotations__ = dict(annotations)
        self.__globals__ = function.__globals__
        self.__module__ = function.__module__


@dataclasses.dataclass(frozen=True, slots=True)
class _Arguments:
    """What an estimator takes beside the data: names in order, defaults, checks."""

    signature: inspect.Signature
    defaults: Mapping[str, Any]
    checks: Mapping[str, tuple[Check, ...]]

    @property
    def names(self) -> Sequence[str]:
        return [*self.defaults]

    def bind(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without the data."""
        data, *_ = self.signature.parameters
        if stray := [n for n in kwargs if n not in self.signature.parameters]:
            raise TableError(
                f"{name} has no argument {stray[0]!r}.{nearest(stray[0], self.names)} "
                f"It takes by name: {', '.join(self.names)}"
            )
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TableError(f"{name}: {e}. It takes: {', '.join(self.signature.parameters)}") from None
        return {n: v for n, v in bound.arguments.items() if n != data}


@functools.cache
def _arguments(function: Callable[..., Any]) -> _Arguments:
    signature = _opened(function)
    hints = get_type_hints(function, include_extras=True)
    _, *own = signature.parameters.values()
    # Those of a scope have their types already; the others are texts.
    types = {p.name: hints[p.name] if isinstance(p.annotation, str) else p.annotation for p in own}
    return _Arguments(signature, {p.name: p.default for p in own}, {n: checks_of(kind) for n, kind in types.items()})


#: Typed dictionary -> defaults of its names; see `scope`.
DEFAULTS: dict[type, Mapping[str, Any]] = {}


def scope(**defaults: Any) -> Callable[[type[T]], type[T]]:
    """Marks a typed dictionary whose names estimators take as `**scope: Unpack[...]`, and gives them defaults."""

    def mark(kind: type[T]) -> type[T]:
        if [*kind.__annotations__] != [*defaults]:
            raise TypeError(f"{kind.__name__}: a default for each of {', '.join(kind.__annotations__)}, in this order")
        DEFAULTS[kind] = defaults
        return kind

    return mark


#: Classes of arguments that a record can be made into again, by name; see `recordable`.
RECORDABLE: dict[str, type] = {}


def recordable(kind: type[T]) -> type[T]:
    """Marks a dataclass that is an argument of estimators: it is recorded by its fields and made again from them."""
    RECORDABLE[kind.__qualname__] = kind
    return kind


def settled(kind: type, given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The arguments of a scope, checked: those given, and the defaults of the others. `name` is who takes them."""
    defaults = DEFAULTS[kind]
    if stray := [n for n in given if n not in defaults]:
        raise TableError(f"{name} has no argument {stray[0]!r}.{nearest(stray[0], [*defaults])}")
    for argument, hint in get_type_hints(kind, include_extras=True).items():
        if argument in given:
            for check in checks_of(hint):
                check(argument, given[argument])
    return {**defaults, **given}


# -- recording --------------------------------------------------------------------------------------------


def recorded(value: Any) -> Any:
    """A value as JSON-able data that says what it is; see the module's text for what can be rebuilt."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, pl.Expr):
        return _recorded_expression(value)
    if isinstance(value, pl.LazyFrame):
        value = value.collect()
    if isinstance(value, pl.DataFrame):
        return _recorded_frame(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            plain = {key: recorded(v) for key, v in value.items()}
            return {"mapping": plain} if _is_tagged(plain) else plain
        return {"pairs": [[recorded(k), recorded(v)] for k, v in value.items()]}
    if isinstance(value, set | frozenset):
        return sorted((recorded(v) for v in value), key=str)
    if isinstance(value, list | tuple | pl.Series | np.ndarray):
        return [recorded(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: recorded(getattr(value, f.name)) for f in dataclasses.fields(value)}
        name = type(value).__qualname__
        return {"object": name, "fields": fields} if name in RECORDABLE else _kept(name, json.dumps(fields))
    if hasattr(value, "__arrow_c_stream__") or type(value).__module__.partition(".")[0] == "pandas":
        return _recorded_frame(pl.DataFrame(value))
    if callable(value) and hasattr(value, "__qualname__"):
        return _kept(f"function {value.__module__}:{value.__qualname__}", _source(value))
    if data_hash := getattr(value, "data_hash", None):
        return {"kept": f"study {getattr(value, 'name', '')}".strip(), "hash": str(data_hash)}
    return _kept(type(value).__qualname__, repr(value))


#: Keys by which a record of something other than a plain mapping is known.
_TAGS = ("date", "expression", "frame", "mapping", "pairs", "object", "kept")


def _is_tagged(value: Any) -> bool:
    return isinstance(value, Mapping) and next(iter(value), None) in _TAGS


def _kept(what: str, text: str) -> dict[str, str]:
    return {"kept": what, "hash": hashlib.blake2b(text.encode(), digest_size=15).hexdigest()}


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(getattr(function, "__code__", function))


def _recorded_expression(value: pl.Expr) -> dict[str, str]:
    try:
        text = value.meta.serialize(format="json")
    except pl.exceptions.PolarsError:
        return _kept("expression", str(value))
    # A Python function inside an expression is pickled by polars: never kept, and never loaded.
    return _kept("expression with a Python function", text) if _holds_code(json.loads(text)) else {"expression": text}


def _holds_code(tree: Any) -> bool:
    if isinstance(tree, Mapping):
        return any("Anonymous" in k or "Plugin" in k or "Python" in k or _holds_code(v) for k, v in tree.items())
    return isinstance(tree, list) and any(_holds_code(v) for v in tree)


#: Types of columns that a record can name; a frame with another one is kept by its hash.
_DTYPES = {
    str(kind): kind
    for kind in (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
        *(pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Date, pl.Null),
        *(pl.List(pl.String), pl.List(pl.Int64), pl.List(pl.Float64)),
    )
}


def _recorded_frame(value: pl.DataFrame) -> dict[str, Any]:
    mark = hashlib.blake2b(repr(value.schema).encode() + value.write_ndjson().encode(), digest_size=15).hexdigest()
    types = {name: str(kind) for name, kind in value.schema.items()}
    if value.height > MOST_ROWS or not set(types.values()) <= set(_DTYPES):
        return {"kept": f"frame of {value.height:,} rows ({', '.join(types)})", "hash": mark}
    columns = {name: {"type": kind, "values": _plain(value[name])} for name, kind in types.items()}
    return {"frame": columns, "hash": mark}


def _plain(values: pl.Series) -> list[Any]:
    return (values.cast(pl.String) if values.dtype == pl.Date else values).to_list()


# -- repeating --------------------------------------------------------------------------------------------


def rerun(result: Result | Mapping[str, Any], study: Any, **handed: Any) -> Result:
    """Repeat a result from the arguments that it recorded.

    Parameters
    ----------
    result : a result; or what a figure or report keeps of it, a mapping with `made_by` and `parameters`.
    study : the data: a study or frame, as the estimator takes it; the same for the same result, another for the same
        question.
    **handed : arguments that the record names but does not hold (a frame of more than 1,000 rows, a rule with a Python
        function), with the hash that it holds.

    Returns
    -------
    Result
        With the same estimator and arguments. Options in force play no part.

    Raises
    ------
    TableError
        The result names no estimator; something cannot be rebuilt and is not handed in; what is handed in is not what
        the result was computed with.

    Examples
    --------
    >>> import cilab
    >>> from cilab.datasets import hand_worked_round
    >>> board = cilab.leaderboard(hand_worked_round(), resamples=50)
    >>> rerun(board, hand_worked_round()).table.equals(board.table)
    True
    """
    if isinstance(result, Mapping):
        name, parameters = str(result.get("made_by") or ""), result.get("parameters") or {}
    else:
        name, parameters = result.made_by, result.parameters
    function = _find(name)
    known = _arguments(inspect.unwrap(function))
    asked = {n: v for n, v in parameters.items() if n in known.defaults}
    if stray := [n for n in handed if n not in asked]:
        raise TableError(f"rerun: {name} recorded no argument {stray[0]!r}.{nearest(stray[0], [*asked])}")
    values = {}
    for argument, record in asked.items():
        if argument in handed:
            _refuse_other(argument, record, recorded(handed[argument]))
            values[argument] = handed[argument]
        else:
            values[argument] = _rebuilt(argument, record)
    with options.none():
        return function(study, **values)


def _find(name: str) -> Callable[..., Result]:
    if not name:
        raise TableError("rerun: this result names no estimator; it was not made by a function of cilab's face")
    if name not in ESTIMATORS:
        raise TableError(f"rerun: no estimator is called {name!r}.{nearest(name, [*ESTIMATORS])}")
    return ESTIMATORS[name]


def _refuse_other(argument: str, record: Any, handed: Any) -> None:
    """Refuse what is not what the result was computed with."""
    for path, mark in _hashes(record):
        other = dict(_hashes(handed)).get(path)
        if other != mark:
            raise TableError(f"rerun: {argument} is not what the result was computed with ({argument}{path} differs)")


def _hashes(record: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Where a record holds hashes, and which."""
    if isinstance(record, Mapping):
        if isinstance(record.get("hash"), str) and ("kept" in record or "frame" in record):
            yield path, record["hash"]
        for key, value in record.items():
            yield from _hashes(value, f"{path}.{key}")
    elif isinstance(record, list):
        for i, value in enumerate(record):
            yield from _hashes(value, f"{path}[{i}]")


def _rebuilt(where: str, record: Any) -> Any:
    """The value that was recorded."""
    if isinstance(record, list):
        return [_rebuilt(f"{where}[{i}]", value) for i, value in enumerate(record)]
    if not isinstance(record, Mapping):
        return record
    if not _is_tagged(record):
        return {key: _rebuilt(f"{where}.{key}", value) for key, value in record.items()}
    tag = next(iter(record))
    inside = record[tag]
    if tag == "kept":
        argument = where.partition("[")[0].partition(".")[0]
        raise TableError(
            f"rerun: {where} was {_article(inside)} {inside}, which a record does not hold; hand it in: "
            f"rerun(result, study, {argument}=...)"
        )
    if tag == "date":
        return date.fromisoformat(inside)
    if tag == "expression":
        if _holds_code(json.loads(inside)):
            raise TableError(f"rerun: {where} holds code; hand the expression in")
        return pl.Expr.deserialize(inside.encode(), format="json")
    if tag == "frame":
        return pl.DataFrame(
            [_column(name, kind["type"], kind["values"]) for name, kind in inside.items()],
        )
    if tag == "mapping":
        return {key: _rebuilt(f"{where}.{key}", value) for key, value in inside.items()}
    if tag == "pairs":
        return {_rebuilt(where, key): _rebuilt(f"{where}[{key}]", value) for key, value in inside}
    return _object(where, record)


def _article(word: str) -> str:
    return "an" if word[:1] in "aeiou" else "a"


def _column(name: str, kind: str, values: list[Any]) -> pl.Series:
    if kind == str(pl.Date):
        return pl.Series(name, values, dtype=pl.String).str.to_date()
    return pl.Series(name, values, dtype=_DTYPES[kind])


def _object(where: str, record: Mapping[str, Any]) -> Any:
    """An argument's class from its fields. No class is ever made from a record but those that are marked."""
    name = str(record["object"])
    if name not in RECORDABLE:
        raise TableError(f"rerun: {where} was a {name}, which this version of cilab does not make; hand it in")
    return RECORDABLE[name](**{key: _rebuilt(f"{where}.{key}", value) for key, value in record["fields"].items()})
