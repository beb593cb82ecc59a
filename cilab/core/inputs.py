"""Reading what people write: YAML and pydantic models, with errors of one clear line.

May import `cilab.core` only. Used for study files, task files and mappings alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from cilab.core.errors import CilabError, first_line, nearest


def read_yaml(text: str, where: str, error: type[CilabError]) -> Any:
    """YAML as plain values, read safely; a key given twice is refused.

    Raises
    ------
    error
        One line: `where`, the line, and what is wrong.
    """
    import yaml

    try:
        raw = yaml.load(text, _loader())
        _check_texts(raw)
        return raw
    except yaml.reader.ReaderError as e:
        reason = f"the character U+{e.character:04X} is not allowed" if isinstance(e.character, int) else e.reason
        raise error(f"{where}: is no YAML: {reason}.") from None
    except yaml.MarkedYAMLError as e:
        at = f" line {e.problem_mark.line + 1}:" if e.problem_mark else ""
        what = ", ".join(part for part in (e.context, e.problem) if part) or "cannot be parsed"
        raise error(f"{where}:{at} is no YAML: {' '.join(what.split())}.") from None
    except (yaml.YAMLError, ValueError) as e:
        raise error(f"{where}: is no YAML: {first_line(e, 'cannot be parsed')}.") from None
    except RecursionError:
        raise error(f"{where}: is no YAML: nested too deeply.") from None


def _check_texts(value: Any) -> None:
    """Refuse half of a surrogate pair (an escape such as \\ud800), which no file can hold."""
    todo, seen = [value], set()
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as e:
                raise ValueError(f"{value[:40]!r} holds half of a surrogate pair, at character {e.start + 1}") from None
        elif isinstance(value, Mapping | list) and id(value) not in seen:  # an alias may lead back to its anchor
            seen.add(id(value))
            todo += [*value, *value.values()] if isinstance(value, Mapping) else value


@lru_cache(maxsize=1)
def _loader() -> Any:
    """YAML's safe loader, which keeps the last of two equal keys, made to refuse the second."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:  # before `<<` brings in keys that may be given again
                name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
                if name is not None and name in seen:
                    problem = f"the key {key.value!r} stands here a second time"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(name)
            return node

    return Loader


def checked(model: type[BaseModel], raw: Any, where: str, at: str, error: type[CilabError]) -> Any:
    """`raw` as the pydantic `model`; `at` is where it stands in the file.

    Raises
    ------
    error
        One line: `where`, the key, what is wrong and how to mend it.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        raise error(f"{where}: {_first_line(e, model, raw, at)}") from None


def _first_line(error: ValidationError, model: type[BaseModel], raw: Any, at: str) -> str:
    problems = [(_steps(p, raw), p) for p in error.errors(include_url=False)]
    steps, first = _likeliest(problems)
    place = (at + "".join(_step(s) for s in steps)).lstrip(".")
    place = f"{place}: " if place else ""  # what concerns the whole names its keys itself
    others = {other[: len(steps)] for other, _ in problems if steps[: len(other)] != other} - {steps}
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"{place}unknown key.{nearest(str(steps[-1]), sorted(_field_names(model)))}{more}"
    return f"{place}{_words(first)}{more}"


def _step(step: Any) -> str:
    """`[3]` or `.key`; a key with line breaks or other unprintable characters is quoted, to keep one line."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if str(step).isprintable() else f".{step!r}"


def _likeliest(problems: Sequence[tuple[tuple[Any, ...], Any]]) -> tuple[tuple[Any, ...], Any]:
    """Where a value may be one thing or another, every branch complains: the one that got furthest is meant."""
    unknown = [p for p in problems if p[1]["type"] == "extra_forbidden"]
    start = (unknown or problems)[0]
    inside = [p for p in unknown or problems if p[0][: len(start[0])] == start[0]]
    return start if unknown else max(inside, key=lambda p: len(p[0]))


def _steps(problem: Any, raw: Any) -> tuple[Any, ...]:
    """The keys and positions that lead to a problem in the file; pydantic's names of branches left out."""
    steps: list[Any] = []
    for last, step in zip(range(len(problem["loc"]) - 1, -1, -1), problem["loc"], strict=True):
        inside = step in raw if isinstance(raw, dict) else isinstance(raw, list) and step in range(len(raw))
        if inside:
            steps.append(step)
            raw = raw[step]
        elif problem["type"] == "missing" and not last:
            steps.append(step)
    return tuple(steps)


def _words(problem: Any) -> str:
    """What is wrong, in words that say how to mend it."""
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "too_short":
        return f"is too short; name at least {context['min_length']}"
    text = problem["msg"].removeprefix("Value error, ")
    text = text.replace("Input should be", "must be").replace("a valid dictionary or instance of", "a mapping for")
    text = text.replace("a valid dictionary", "a mapping")
    if kind == "string_pattern_mismatch":
        text = f"must match {context['pattern']}"
    got = "" if isinstance(value, dict | list) and value else f", got {value!r}"
    plain = isinstance(value, str | int | float) and str(value).isprintable()
    hint = f"; write [{value}]" if kind == "list_type" and plain else ""
    return f"{text}{got}{hint}"


def _field_names(model: type[BaseModel], seen: set[type] | None = None) -> set[str]:
    """Names of all fields of a model and of the models inside it."""
    import typing

    seen = seen if seen is not None else set()
    if model in seen:
        return set()
    seen.add(model)
    names = set(model.model_fields)
    todo: list[Any] = [f.annotation for f in model.model_fields.values()]
    while todo:
        kind = todo.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= _field_names(kind, seen)
        todo += typing.get_args(kind)
    return names
