"""What is to be played: run specs, their ids and conditions; and what comes out: a rollout.

May import `cilab.core` and `cilab.collect.model`. Knows no benchmark: a benchmark puts what it
needs into `settings` (part of the run's identity) and `hints` (not part of it).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cilab.collect.model import ChatModel, Sampling

if TYPE_CHECKING:
    from polars import DataFrame

#: What `--with` calls code in a model's place.
RULES = "rules"
#: The label of an answer that was none.
UNPARSED = "unparsed"
_ID_BYTES = 15


def digest(value: Any, size: int = _ID_BYTES) -> str:
    """Lower-case base-32 hash of a JSON-able value; equal values give equal digests on every machine."""
    import base64

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    raw = hashlib.blake2b(text.encode(), digest_size=size).digest()
    return base64.b32encode(raw).decode().rstrip("=").lower()


class Strict(BaseModel):
    """A part of a study file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _entry(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


class ModelEntry(Strict):
    """A model, with its reasoning setting where one is asked for."""

    model: str = Field(min_length=1)
    effort: str | None = None


Entry = Annotated[ModelEntry, BeforeValidator(_entry)]


class Block(Strict):
    """A block of a study file; a benchmark's own adds its keys and says what it calls.

    `scaled` is for `--scale`; a block that names folders also has `beside(folder)`, which places them as they lie from
    the study file's.
    """

    benchmark: str
    #: Version of a user's own agent by its `python:` name; filled with the hash of its source when left out. A plan
    #: puts those of the models that a run calls into its settings.
    code: dict[str, str] = {}

    def model_names(self) -> set[str]:
        """Every model that the block calls."""
        raise NotImplementedError

    def with_code(self, versions: Mapping[str, str]) -> Self:
        """The block with the versions of the user's own agents, those given in the block kept."""
        return self.model_copy(update={"code": {**versions, **self.code}})

    def scaled(self, factor: float) -> Self:
        """The block with its number of tasks times `factor`, at least one; as it is where it has no number."""
        return self


class SamplingEntry(Strict):
    """Sampling settings of a seat, or of every agent; a setting left out is the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = Field(default=None, ge=1)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A run that must be finished first, and in which way.

    `condition` is `passed` (score = 1) or `finished` (status ok, whatever the score).
    """

    run_id: str
    condition: str = "finished"

    def met_by(self, run: Mapping[str, Any]) -> bool:
        """Whether a finished run (with keys status and passed) fulfils the condition."""
        if self.condition == "passed":
            return run.get("status") == "ok" and run.get("passed") is True
        return run.get("status") == "ok"


@dataclass(frozen=True)
class RunSpec:
    """One rollout to be played: all that makes it what it is.

    Attributes
    ----------
    benchmark, task_id, version, model, partner_model, effort, arm, seed : as in the runs table.
    task_hash : hash of the task's content.
    prompts : hash of each prompt text by name.
    judges : model of each judge or grader by seat; `rules` for code.
    sampling : settings by seat; `seed` inside them follows from the spec's seed.
    settings : what else belongs to the identity (turn cap, relay, arm text, maze parameters).
    requires : condition under which it is played; not part of the identity.
    hints : what play needs but identity does not (paths, forecasts, columns known in advance).
    """

    benchmark: str
    task_id: str
    task_hash: str
    version: str
    model: str
    seed: int
    partner_model: str | None = None
    effort: str | None = None
    partner_effort: str | None = None
    arm: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    requires: Requirement | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """What the run id hashes."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("requires", "hints")}

    @cached_property
    def run_id(self) -> str:
        """24 characters; the same for the same run, whatever study asks for it."""
        return digest(self.identity())


@dataclass(slots=True)
class Rollout:
    """What playing a spec gave: rows for the tables.

    Attributes
    ----------
    run : columns of the runs table that the benchmark knows (ended, outcome, score, weighted_outcome,
        success, rounds, messages, ...). Ids, status, tokens, cost and times are the engine's.
    messages, labels, annotations : rows of those tables without run_id.
    """

    run: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)


class Seats(Protocol):
    """What a benchmark's play function gets: models to call and finished rollouts to read.

    `rollout` is where the play function gathers what it has; it is kept even when the play fails.
    """

    rollout: Rollout

    def model(
        self,
        name: str,
        seat: str,
        purpose: str = "play",
        *,
        under_test: bool = True,
        fallbacks: Sequence[str] = (),
    ) -> ChatModel:
        """The model `name` for one seat. Its calls are recorded under `seat` and `purpose`, in order.

        A play function must make the calls of one seat in a reproducible order: after a crash they
        are answered from the journal by position. A refusal where `under_test` is true ends the
        rollout as refused; elsewhere the `fallbacks` are asked in turn, and then it is an error.
        """
        ...

    async def transcript(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        """The stored messages of a finished run, in order (rows of the messages table)."""
        ...


Play = Callable[[RunSpec, Seats], Awaitable[Rollout]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected calls and tokens of one rollout, for the dry run.

    `calls`, `tokens_in` and `tokens_out` are (least, expected, most), by model.
    """

    calls: Mapping[str, tuple[float, float, float]]
    tokens_in: Mapping[str, tuple[float, float, float]]
    tokens_out: Mapping[str, tuple[float, float, float]]


#: Asks about one stored run: (the run's row, the model or None for rules, sampling) -> rows of the look's table, one by
#: one and without run_id and rater. What was given before an error is kept.
Ask = Callable[[Mapping[str, Any], ChatModel | None, Sampling], AsyncIterator[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A second look at stored rollouts by another model, or by rules: nothing is replayed.

    Attributes
    ----------
    what : what it looks at, in words, as in "holds no finished maze rollout to grade".
    choose : (opened study, sample, seed) -> the runs to look at: a data frame with `run_id` and whatever `ask` reads,
        each run once and in the order of run ids. `sample` is None for every run.
    open : (opened study, those runs) -> `ask`, which reads in chunks what it needs of them.
    sampling : number of the repeat, from 0 -> Sampling.
    prompt : () -> hash of the prompts that it sends, where they are not those of the run itself.
    features : of annotations: a look without a value in any of them could not be read.
    rules : whether code can do it as well: `--with rules`.
    choices : (opened study, run ids) -> task id -> label -> definition, for people's forms; of looks that give labels.
    """

    what: str
    choose: Callable[[Any, int | None, int], DataFrame]
    open: Callable[[Any, DataFrame], Ask]
    sampling: Callable[[int], Sampling]
    prompt: Callable[[], str] = str
    features: tuple[str, ...] = ()
    rules: bool = False
    choices: Callable[[Any, Sequence[str]], dict[str, dict[str, str]]] | None = None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What a benchmark brings: an entry point among `cilab.benchmarks` of its package leads to one.

    Its own columns of the runs table, and its words of closed lists (versions), come by another of the same name, among
    `cilab.columns`: they are read without loading the benchmark.

    Attributes
    ----------
    name : as in the runs table, and the entry point's name.
    block : its block of a study file, a kind of `Block`.
    plan : block -> run specs; gives the same specs at every call.
    play : plays one spec.
    simulated : profile name -> ChatModel, for `sim/<profile>`.
    forecast : spec -> Forecast.
    describe : profile name -> columns of the models table (family, strength, ...), for `sim/<profile>`.
    tasks : block -> rows of the tasks table, where the benchmark has tasks with properties of their own.
    looks : `grade`, `annotate` and `relabel`, as far as stored rollouts can be looked at again.
    view : rows of a run (`cilab.show.rows.Rows`) -> what its page shows beside what every page does (`View`, there).
    data_sets : name -> "module:function" of data sets that reports can stand on.
    prove : as `cilab.teamwork.prove.check_tasks`, where its tasks bring exemplars that must come out as they say.
    """

    name: str
    block: type[Block]
    plan: Callable[[Any], Iterable[RunSpec]]
    play: Play
    simulated: Callable[[str], ChatModel]
    forecast: Callable[[RunSpec], Forecast]
    describe: Callable[[str], Mapping[str, Any]]
    tasks: Callable[[Any], Iterable[Mapping[str, Any]]] | None = None
    looks: Mapping[str, Look] = field(default_factory=dict)
    view: Callable[[Any], Any] | None = None
    data_sets: Mapping[str, str] = field(default_factory=dict)
    prove: Callable[..., Any] | None = None


def seat_sampling(spec: RunSpec, seat: str, effort: str | None = None) -> Sampling:
    """Sampling of one seat: the spec's settings for `seat` (or `default`), seed derived from the spec.

    All models that play one task and repeat get the same seed, so that differences are paired.
    """
    asked = dict(spec.sampling.get("default", {}))
    asked.update(spec.sampling.get(seat, {}))
    asked.setdefault("seed", run_seed(spec.task_hash, spec.version, spec.seed))
    return Sampling(**asked, effort=effort)


def run_seed(task_hash: str, version: str, seed: int) -> int:
    """The sampling seed of a task's version and repeat, 31 bits."""
    raw = hashlib.blake2b(f"{task_hash}|{version}|{seed}".encode(), digest_size=4).digest()
    return int.from_bytes(raw, "big") & 0x7FFFFFFF
