"""Arguments that many estimators take: their types, and the checks that a type stands for.

May import `cilab.core`. A check is `(name, value) -> None` and refuses a value in one line; it stands in an annotation,
`Level = Annotated[float, level]`, where the decorator of estimators finds it.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from cilab.core.errors import TableError, choice


class Check:
    """A check of an argument, which says in words what it asks for."""

    def __init__(self, words: str, refuse: Callable[[str, Any], None]):
        self._words, self._refuse = words, refuse

    def __call__(self, name: str, value: Any) -> None:
        self._refuse(name, value)

    def __repr__(self) -> str:
        return self._words


def check(words: str) -> Callable[[Callable[[str, Any], None]], Check]:
    """Makes a check of a function `(name, value)`."""
    return lambda refuse: Check(words, refuse)


# -- checks -----------------------------------------------------------------------------------------------


@check("a fraction between 0 and 1")
def level(name: str, value: Any) -> None:
    """A level of confidence."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise TableError(f"{name} is {value!r}: give a fraction between 0 and 1, such as 0.95")


def whole(least: int, hint: str = "") -> Check:
    """A whole number of at least `least`."""

    @check(f"{least} or more")
    def refuse(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise TableError(f"{name} is {value!r}: give a whole number of at least {least}{hint}")

    return refuse


def texts(what: str) -> Check:
    """A list of texts; one text alone is refused with the list that was meant. `what` is what the texts are."""

    @check(f"a list of {what}")
    def refuse(name: str, value: Any) -> None:
        _refuse_text(name, value, what)
        if not _is_list(value):
            raise TableError(f"{name} is {_short(value)}: give a list of {what}")

    return refuse


@check("the name of a column")
def column(name: str, value: Any) -> None:
    """The name of a column."""
    if not isinstance(value, str):
        raise TableError(f"{name} is {value!r}: give the name of a column")


def numeric(fits: Callable[[float], bool], words: str) -> Check:
    """A number for which `fits` holds; `words` say what to give."""

    @check(words)
    def refuse(name: str, value: Any) -> None:
        if not _is_number(value) or not fits(value):
            raise TableError(f"{name} is {value!r}: give {words}")

    return refuse


def or_none(asked: Check) -> Check:
    """A check that lets None pass."""

    @check(f"{asked!r}, or None")
    def refuse(name: str, value: Any) -> None:
        if value is not None:
            asked(name, value)

    return refuse


#: No check here: the estimator says it better, when it sees the data.
inside = Check("see below", lambda name, value: None)

Level = Annotated[float, level]
Column = Annotated[str, column]
Columns = Annotated[Sequence[str], texts("columns")]
Seed = Annotated[int, whole(0)]
Resamples = Annotated[int, whole(20, " (the paper has 4000)")]


def check_all(**values: Any) -> None:
    """The checks of arguments that methods without the decorator take: `ci_level`, `seed`, `resamples`, by name."""
    for name, value in values.items():
        for asked in checks_of(_KNOWN[name]):
            asked(name, value)


def checked_level(ci_level: float) -> float:
    """A level of confidence, checked."""
    level("ci_level", ci_level)
    return float(ci_level)


_KNOWN = {"ci_level": Level, "seed": Seed, "resamples": Resamples}


# -- types as checks --------------------------------------------------------------------------------------


def checks_of(annotation: Any) -> tuple[Check, ...]:
    """The checks that an annotation stands for; none for `Any` and for types that only an estimator can judge."""
    if get_origin(annotation) is Annotated:
        base, *more = get_args(annotation)
        own = tuple(asked for asked in more if isinstance(asked, Check))
        # A check of one's own says it better than the type would.
        return own or checks_of(base)
    options = _alternatives(annotation)
    if Any in options:
        return ()
    known = [_test(option) for option in options if option is not type(None)]
    if any(test is None for test in known):
        return ()
    found = [test for test in known if test is not None]
    words = " or ".join(dict.fromkeys(test.words for test in found))
    optional = type(None) in options

    @check(words)
    def refuse(name: str, value: Any) -> None:
        if (optional and value is None) or any(test.fits(value) for test in found):
            return
        if len(found) == 1 and found[0].refuse is not None:
            found[0].refuse(name, value)
        raise TableError(f"{name} is {_short(value)}: give {words}")

    return (refuse,)


class _Test(typing.NamedTuple):
    """Whether a value is of a type, in words, and a refusal that says more than the words."""

    fits: Callable[[Any], bool]
    words: str
    refuse: Callable[[str, Any], None] | None = None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(option for part in get_args(annotation) for option in _alternatives(part))
    return (annotation,)


def _test(kind: Any) -> _Test | None:
    """The test of a plain type; None where there is no telling."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        checks = checks_of(kind)

        @check(" and ".join(map(repr, checks)))
        def refuse(name: str, value: Any) -> None:
            for asked in checks:
                asked(name, value)

        return _Test(lambda value: _passes(refuse, value), repr(refuse), refuse)
    if origin is Literal:
        return _Test(
            lambda value: isinstance(value, collections.abc.Hashable) and value in inner,
            "one of " + ", ".join(map(str, inner)),
            lambda name, value: choice(name, value, inner),
        )
    if origin in (collections.abc.Sequence, list, tuple):
        of_texts = bool(inner) and inner[0] is str
        return _Test(_is_list, "a list of names" if of_texts else "a list", _refuse_text if of_texts else None)
    if origin in (collections.abc.Mapping, dict):
        return _Test(lambda value: isinstance(value, Mapping), "a mapping such as {...}")
    if inspect.isclass(kind):
        return _TYPES.get(kind) or _Test(lambda value: isinstance(value, kind), f"a {kind.__name__}")
    return None


def _passes(asked: Check, value: Any) -> bool:
    try:
        asked("", value)
    except TableError:
        return False
    return True


def _is_list(value: Any) -> bool:
    """A sequence of values, also a Series, an array or a set: whatever an estimator may go through more than once."""
    sized = isinstance(value, collections.abc.Sized) and isinstance(value, collections.abc.Iterable)
    return sized and not isinstance(value, str | bytes | Mapping)


def _refuse_text(name: str, value: Any, what: str = "names") -> None:
    if isinstance(value, str):
        raise TableError(f"{name} is a text; give a list of {what}, such as [{value!r}]")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value).splitlines()[0]
    return text if len(text) <= 60 else f"a {type(value).__name__}"


_TYPES: Mapping[Any, _Test] = {
    bool: _Test(lambda value: isinstance(value, bool | np.bool_), "True or False"),
    int: _Test(lambda value: isinstance(value, int | np.integer) and not isinstance(value, bool), "a whole number"),
    float: _Test(_is_number, "a number"),
    str: _Test(lambda value: isinstance(value, str), "a text"),
}
