"""From a study's file to what plays it: the checked plan, its models, and their limits.

May import `cilab.running.study_file`, `cilab.collect` and `cilab.core`; the benchmarks are found by `core.plugins`.
No model is called here and no file is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cilab.collect.model import CallError, ChatModel
from cilab.collect.models import resolve
from cilab.collect.retry import RetryPolicy
from cilab.collect.spec import Benchmark
from cilab.collect.user_model import source_hash
from cilab.core import plugins, registry
from cilab.core.errors import CilabError, StudyError, nearest
from cilab.running.study_file import ModelSettings, Plan, load

#: Where studies live unless told otherwise, below the current folder.
STUDIES = Path("data") / "studies"


def benchmarks() -> Mapping[str, Benchmark]:
    """The benchmarks by name, ours and those that other packages bring; each is loaded when it is asked for."""
    return plugins.Found(plugins.BENCHMARKS)


def load_study(path: str | os.PathLike[str], scale: float = 1.0) -> Plan:
    """Read and check a study file and the models that it names.

    Raises
    ------
    StudyError
        The file is wrong, or a model is not known.
    """
    plan = load(Path(path), benchmarks(), scale)
    for name in sorted(plan.model_names()):
        _check_name(plan, name, str(path))
    return _with_code(plan)


def _with_code(plan: Plan) -> Plan:
    """The source of a user's own agent enters the run ids: edited code gives new runs."""
    versions = {}
    try:
        for name in sorted(plan.model_names()):
            if name.startswith("python:"):
                versions[name] = source_hash(name)
    except CallError as e:
        raise StudyError(f"{plan.where}: {e}") from None
    if not versions:
        return plan
    return replace(plan, blocks=tuple((benchmark, block.with_code(versions)) for benchmark, block in plan.blocks))


def _check_name(plan: Plan, name: str, where: str) -> None:
    """A name without a provider must be in the registry or in the study's `models`."""
    if name.startswith("sim/"):
        for benchmark, block in plan.blocks:
            if name in block.model_names():
                try:
                    benchmark.simulated(name.removeprefix("sim/"))
                except CilabError as e:
                    raise StudyError(f"{where}: {e}") from None
        return
    if name not in plan.file.models and not _has_provider(name) and registry.lookup(name) is None:
        names = [*plan.file.models, *registry.models()["model"].to_list()]
        raise StudyError(
            f"{where}: unknown model {name!r}.{nearest(name, names)} "
            "Write a provider string such as openai/gpt-4.1, or describe it under `models`."
        )


def resolver(plan: Plan | None, benchmark_of: Mapping[str, Benchmark]) -> Any:
    """Model string -> ChatModel, with the study's routes, prices and bases.

    A name is reached by the study's `route`, else as it stands; a plain name by the registry's LiteLLM string.
    """
    settings = plan.file.models if plan else {}

    def make(name: str) -> ChatModel:
        s = settings.get(name, ModelSettings())
        route = s.route or name
        if not _has_provider(route):
            known = registry.lookup(route)
            route = (known.litellm if known else None) or route
        if not _has_provider(route):
            raise StudyError(f"{name}: no provider is known for it. Add to the study: models: {{{name}: {{route: …}}}}")
        price = _price(s, name)
        return resolve(
            route, simulated=_simulated(name, benchmark_of), api_base=s.api_base, system=s.system, price=price
        )

    return make


def _has_provider(name: str) -> bool:
    return "/" in name or ":" in name


def _price(s: ModelSettings, name: str) -> Any:
    if s.price is not None:
        return registry.Price(s.price.input, s.price.output, s.price.cached)
    return registry.price(name)


def _simulated(name: str, benchmark_of: Mapping[str, Benchmark]) -> Any:
    """How `sim/<profile>` is made: by the benchmark whose block names it, else by the first that knows it."""
    if name in benchmark_of:
        return benchmark_of[name].simulated

    def first_known(profile: str) -> ChatModel:
        problem: CilabError | None = None
        for benchmark in plugins.loaded(plugins.BENCHMARKS).values():
            try:
                return benchmark.simulated(profile)
            except CilabError as e:
                problem = e
        raise problem or StudyError(f"sim/{profile}: nobody knows it.")

    return first_known


def _benchmark_of(plan: Plan) -> dict[str, Benchmark]:
    return {name: benchmark for benchmark, block in plan.blocks for name in block.model_names()}


def models_of(plan: Plan) -> dict[str, ChatModel]:
    """Every model of a study, ready to be called.

    Raises
    ------
    StudyError
        Nothing goes by that name, or something that a model needs is missing on this machine.
    """
    resolve_one = resolver(plan, _benchmark_of(plan))
    models = {}
    for name in sorted(plan.model_names()):
        try:
            models[name] = resolve_one(name)
            check_ready({name: models[name]})
        except CilabError as e:
            raise StudyError(f"{plan.where}: {e}") from None
    return models


def check_ready(models: Mapping[str, ChatModel]) -> None:
    """Refuse before anything is played what cannot work: a missing key, a missing extra."""
    for name, model in models.items():
        ready = getattr(model, "check_ready", None)
        if ready is None:
            continue
        try:
            ready()
        except CallError as e:
            text = str(e)
            raise StudyError(text if text.startswith(name) else f"{name}: {text}") from None


def model_policy(plan: Plan | None) -> dict[str, Any]:
    """Limits, concurrency and retries of a study file, as the engine takes them."""
    if plan is None:
        return {}
    return {
        "limits": {name: entry.limit() for name, entry in plan.file.limits.items()},
        "concurrency": plan.file.concurrency,
        "policy": RetryPolicy(max_requests=plan.file.max_requests, deadline_s=plan.file.deadline_s),
    }


def folder_of(plan: Plan, out: str | os.PathLike[str] | None = None) -> Path:
    """The study's folder: `out`, else the one of its name below `STUDIES`."""
    return Path(out) if out is not None else STUDIES / plan.file.name


def label(plan: Plan) -> str:
    """The study's name; one with simulated agents says so."""
    name = plan.file.name
    simulated = any(m.startswith("sim/") for m in plan.model_names())
    return f"{name} (simulated)" if simulated and "sim" not in name.lower() else name
