"""Study files: YAML in, a validated plan out, or one clear line on what is wrong.

May import `cilab.collect.spec`, `limits`, `redact` and `cilab.core`. The benchmarks
are handed in by `cilab.running.load`; no model is called here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from cilab.collect.limits import Limit
from cilab.collect.spec import Benchmark, RunSpec, Strict
from cilab.core.errors import CilabError, PluginError, StudyError, nearest
from cilab.core.inputs import checked, read_yaml
from cilab.core.redact import hide_credentials


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
class Plan:
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
            A block asks for what cannot be made, or plans no rollout; or `limit` is below 1.
        """
        if limit is not None and limit < 1:
            raise StudyError(f"--limit {limit}: must be at least 1.")
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


def load(path: Path, benchmarks: Mapping[str, Benchmark], scale: float = 1.0) -> Plan:
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
    return parse(text, benchmarks, where=str(path), scale=scale, folder=path.parent)


def _refuse_credentials(file: StudyFile, where: str) -> None:
    """A user name or password in a base: no request can be sent with both it and a key, and the file is kept."""
    for name, settings in file.models.items():
        if settings.api_base and hide_credentials(settings.api_base) != settings.api_base:
            raise StudyError(
                f"{where}: models.{name}.api_base: holds a user name, password or key. Leave it out, and set the "
                "provider's key in the environment."
            )


def _similar(path: Path) -> str:
    """' Did you mean ...?' with study files beside the one that is missing, or in a `studies` folder there."""
    folders = [f for f in (path.parent, path.parent / "studies") if f.is_dir()]
    known = {p.stem: str(p) for f in folders for p in (*f.glob("*.yaml"), *f.glob("*.yml"))}
    hint = nearest(path.stem, list(known), limit=1)
    return f" Did you mean {known[hint.removeprefix(' Did you mean ').removesuffix('?')]}?" if hint else ""


def parse(
    text: str,
    benchmarks: Mapping[str, Benchmark],
    *,
    where: str = "study",
    scale: float = 1.0,
    folder: Path | None = None,
) -> Plan:
    """As `load`, from the file's text; folders that a block names are looked for in `folder` first."""
    if not 0 < scale < math.inf:
        raise StudyError(f"--scale {scale}: must be a number above 0.")
    raw = read_yaml(text, where, StudyError)
    if not isinstance(raw, dict):
        raise StudyError(f"{where}: is no study file; it needs at least `name` and `blocks`.")
    file = checked(StudyFile, raw, where, "", StudyError)
    _refuse_credentials(file, where)
    blocks = []
    for i, block in enumerate(file.blocks):
        at = f"blocks[{i}]"
        name = block.get("benchmark")
        if name is None:
            raise StudyError(f"{where}: {at}.benchmark is missing; known: {', '.join(benchmarks)}.")
        if not isinstance(name, str) or name not in benchmarks:
            hint = nearest(str(name), list(benchmarks))
            raise StudyError(f"{where}: {at}.benchmark is {name!r}; known: {', '.join(benchmarks)}.{hint}")
        try:
            benchmark = benchmarks[name]
        except PluginError as e:
            raise StudyError(f"{where}: {at}.benchmark: {e}") from None
        part = checked(benchmark.block, block, where, at, StudyError)
        if folder is not None and hasattr(part, "beside"):
            try:
                part = part.beside(folder)
            except CilabError as e:
                raise StudyError(f"{where}: {at}: {e}") from None
        blocks.append((benchmark, part.scaled(scale) if scale != 1.0 else part))
    return Plan(file, text, tuple(blocks), where)
