"""Study files: YAML in, a validated plan out, or one clear line on what is wrong.

May import `cilab.collect.spec`, `cilab.collect.limits`, `cilab.registry`, `cilab.errors`. The benchmarks
are handed in by `cilab.run`; no model is called here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from cilab.collect.limits import Limit
from cilab.collect.spec import Benchmark, RunSpec, Strict
from cilab.errors import StudyError, nearest


class LimitEntry(Strict):
    """What one provider takes."""

    concurrency: int = Field(default=8, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)

    def limit(self) -> Limit:
        """As the engine takes it."""
        return Limit(**self.model_dump())


class Price(Strict):
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


class StudyFile(Strict):
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
    """

    file: StudyFile
    text: str
    blocks: tuple[tuple[Benchmark, Any], ...]

    def specs(self, *, gate: bool = True, limit: int | None = None) -> Iterator[tuple[Benchmark, RunSpec]]:
        """The planned rollouts, each once; `gate=False` plays what a failed alone run would gate out."""
        from dataclasses import replace

        seen: set[str] = set()
        for benchmark, block in self.blocks:
            for spec in benchmark.plan(block):
                if not gate and spec.requires and spec.requires.condition == "passed":
                    spec = replace(spec, requires=None)
                run_id = spec.run_id
                if run_id in seen:
                    continue
                if limit is not None and len(seen) >= limit:
                    return
                seen.add(run_id)
                yield benchmark, spec

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
        folder = path.parent if str(path.parent) else Path()
        known = [str(p) for p in folder.glob("*.yaml")] if folder.is_dir() else []
        raise StudyError(f"{path}: no such study file.{nearest(str(path), known)}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise StudyError(f"{path}: cannot be read ({e}).") from None
    return parse(text, benchmarks, where=str(path), scale=scale)


def parse(text: str, benchmarks: Mapping[str, Benchmark], *, where: str = "study", scale: float = 1.0) -> Study:
    """As `load`, from the file's text."""
    import yaml

    if scale <= 0:
        raise StudyError(f"--scale {scale}: must be above 0.")
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        at = f" line {mark.line + 1}" if mark else ""
        raise StudyError(f"{where}:{at} is no YAML: {getattr(e, 'problem', None) or 'cannot be parsed'}.") from None
    if not isinstance(raw, dict):
        raise StudyError(f"{where}: is no study file; it needs at least `name` and `blocks`.")
    file = _checked(StudyFile, raw, where, "")
    blocks = []
    for i, block in enumerate(file.blocks):
        at = f"blocks[{i}]"
        name = block.get("benchmark")
        if name not in benchmarks:
            hint = nearest(str(name), list(benchmarks))
            raise StudyError(f"{where}: {at}.benchmark is {name!r}; known: {', '.join(benchmarks)}.{hint}")
        checked = _checked(benchmarks[name].block, block, where, at)
        blocks.append((benchmarks[name], checked.scaled(scale) if scale != 1.0 else checked))
    return Study(file, text, tuple(blocks))


def _checked(model: type[BaseModel], raw: Any, where: str, at: str) -> Any:
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        raise StudyError(f"{where}: {_first_line(e, model, at)}") from None


def _first_line(error: ValidationError, model: type[BaseModel], at: str) -> str:
    problems = error.errors(include_url=False)
    # Unions report every branch; an unknown key is the likeliest cause of the others.
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    steps = [f"[{s}]" if isinstance(s, int) else f".{s}" for s in first["loc"] if not str(s).startswith("function-")]
    place = (at + "".join(steps)).lstrip(".") or "file"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        return f"{place}: unknown key.{nearest(key, sorted(_field_names(model)))}{more}"
    message = first["msg"].removeprefix("Value error, ")
    got = "" if isinstance(first["input"], dict | list) and first["input"] else f", got {first['input']!r}"
    return f"{place}: {message}{got}{more}"


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
