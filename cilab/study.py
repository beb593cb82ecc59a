"""Study files: YAML in, a validated plan out, or one clear line on what is wrong.

May import `cilab.collect.spec`, `cilab.collect.limits`, `cilab.registry`, `cilab.errors`. The benchmarks
are handed in by `cilab.run`; no model is called here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from cilab.collect.limits import Limit
from cilab.collect.spec import Benchmark, RunSpec, Strict
from cilab.errors import CilabError, StudyError, nearest


class _Numbers(Strict):
    """Where a number is wanted, `true` and `yes` are mistakes, not 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("must not be true or false")
        return value


class LimitEntry(_Numbers):
    """What one provider takes."""

    concurrency: int = Field(default=8, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)

    def limit(self) -> Limit:
        """As the engine takes it."""
        return Limit(**self.model_dump())


class Price(_Numbers):
    """USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)


class ModelSettings(Strict):
    """How a model is reached; nothing here enters a run id.

    `route` is LiteLLM's provider string where the study uses another name; `system: fold` puts the system
    prompt into the first user message, for providers without one.
    """

    route: str | None = None
    api_base: str | None = None
    system: str = Field(default="keep", pattern="^(keep|fold)$")
    price: Price | None = None


class StudyFile(_Numbers):
    """A study file, checked; its blocks are checked by their benchmarks."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    budget_usd: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=64, ge=1, le=4096)
    deadline_s: float = Field(default=180.0, gt=0)
    max_requests: int = Field(default=5, ge=1)
    limits: dict[str, LimitEntry] = {}
    models: dict[str, ModelSettings] = {}
    blocks: list[dict[str, Any]] = Field(min_length=1)


@dataclass(frozen=True)
class Study:
    """A study file with its blocks checked.

    Attributes
    ----------
    file : the file's content.
    text : the file as it was read, for the copy in the study's folder.
    blocks : (benchmark, checked block).
    where : the file's path, for errors.
    """

    file: StudyFile
    text: str
    blocks: tuple[tuple[Benchmark, Any], ...]
    where: str = "study"

    def specs(self, *, gate: bool = True, limit: int | None = None) -> Iterator[tuple[Benchmark, RunSpec]]:
        """The planned rollouts, each once; `gate=False` plays what a failed alone run would gate out.

        Raises
        ------
        StudyError
            A block asks for what cannot be made, or plans no rollout.
        """
        seen: set[str] = set()
        for benchmark, spec in self._planned():
            if not gate and spec.requires and spec.requires.condition == "passed":
                spec = replace(spec, requires=None)
            run_id = spec.run_id
            if run_id in seen:
                continue
            if limit is not None and len(seen) >= limit:
                return
            seen.add(run_id)
            yield benchmark, spec

    def _planned(self) -> Iterator[tuple[Benchmark, RunSpec]]:
        for i, (benchmark, block) in enumerate(self.blocks):
            plans = False
            try:
                for spec in benchmark.plan(block):
                    plans = True
                    yield benchmark, spec
            except CilabError as e:
                raise StudyError(f"{self.where}: blocks[{i}]: {e}") from None
            if not plans:
                raise StudyError(f"{self.where}: blocks[{i}]: plans no rollout; a list in it is empty.")

    def model_names(self) -> set[str]:
        """Every model that is called."""
        return {name for _, block in self.blocks for name in block.model_names()}


def load(path: Path, benchmarks: Mapping[str, Benchmark], scale: float = 1.0) -> Study:
    """Read and check a study file.

    Raises
    ------
    StudyError
        One line: the file, the key, what is wrong and how to mend it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file.{_similar(path)}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise StudyError(f"{path}: cannot be read ({e}).") from None
    return parse(text, benchmarks, where=str(path), scale=scale)


def _similar(path: Path) -> str:
    """' Did you mean ...?' with study files beside the one that is missing, or in a `studies` folder there."""
    folders = [f for f in (path.parent, path.parent / "studies") if f.is_dir()]
    known = {p.stem: str(p) for f in folders for p in (*f.glob("*.yaml"), *f.glob("*.yml"))}
    hint = nearest(path.stem, list(known), limit=1)
    return f" Did you mean {known[hint.removeprefix(' Did you mean ').removesuffix('?')]}?" if hint else ""


def parse(text: str, benchmarks: Mapping[str, Benchmark], *, where: str = "study", scale: float = 1.0) -> Study:
    """As `load`, from the file's text."""
    if not 0 < scale < math.inf:
        raise StudyError(f"--scale {scale}: must be a number above 0.")
    raw = _read_yaml(text, where)
    if not isinstance(raw, dict):
        raise StudyError(f"{where}: is no study file; it needs at least `name` and `blocks`.")
    file = _checked(StudyFile, raw, where, "")
    blocks = []
    for i, block in enumerate(file.blocks):
        at = f"blocks[{i}]"
        name = block.get("benchmark")
        if name is None:
            raise StudyError(f"{where}: {at}.benchmark is missing; known: {', '.join(benchmarks)}.")
        if not isinstance(name, str) or name not in benchmarks:
            hint = nearest(str(name), list(benchmarks))
            raise StudyError(f"{where}: {at}.benchmark is {name!r}; known: {', '.join(benchmarks)}.{hint}")
        checked = _checked(benchmarks[name].block, block, where, at)
        blocks.append((benchmarks[name], checked.scaled(scale) if scale != 1.0 else checked))
    return Study(file, text, tuple(blocks), where)


def _read_yaml(text: str, where: str) -> Any:
    import yaml

    try:
        raw = yaml.load(text, _loader())
        _check_texts(raw)
        return raw
    except yaml.reader.ReaderError as e:
        reason = f"the character U+{e.character:04X} is not allowed" if isinstance(e.character, int) else e.reason
        raise StudyError(f"{where}: is no YAML: {reason}.") from None
    except yaml.MarkedYAMLError as e:
        at = f" line {e.problem_mark.line + 1}:" if e.problem_mark else ""
        what = ", ".join(part for part in (e.context, e.problem) if part) or "cannot be parsed"
        raise StudyError(f"{where}:{at} is no YAML: {' '.join(what.split())}.") from None
    except (yaml.YAMLError, ValueError) as e:
        raise StudyError(f"{where}: is no YAML: {(str(e).splitlines() or ['cannot be parsed'])[0]}.") from None
    except RecursionError:
        raise StudyError(f"{where}: is no YAML: nested too deeply.") from None


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

    class Loader(yaml.SafeLoader):
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


def _checked(model: type[BaseModel], raw: Any, where: str, at: str) -> Any:
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        raise StudyError(f"{where}: {_first_line(e, model, raw, at)}") from None


def _first_line(error: ValidationError, model: type[BaseModel], raw: Any, at: str) -> str:
    problems = [(_steps(p, raw), p) for p in error.errors(include_url=False)]
    steps, first = _likeliest(problems)
    place = (at + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)).lstrip(".") or "file"
    others = {other[: len(steps)] for other, _ in problems if steps[: len(other)] != other} - {steps}
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown key.{nearest(str(steps[-1]), sorted(_field_names(model)))}{more}"
    return f"{place}: {_words(first)}{more}"


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
    hint = f"; write [{value}]" if kind == "list_type" and isinstance(value, str | int | float) else ""
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
