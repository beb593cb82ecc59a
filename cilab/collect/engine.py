"""The engine: plays jobs concurrently, and never pays twice for an answer.

May import the rest of `cilab.collect`, `cilab.store`, `cilab.store.journal`. Knows no benchmark: a job brings
its own play function.

How it continues after a kill
    A play function asks its `Seats` for models. Every answer is in the journal before the play
    function sees it. In the next session the function starts from its beginning and is answered from
    the journal, by position within (purpose, seat) and a hash of the request, up to where it was; then
    it goes on with real calls. So resume is inside a rollout, needs no code in the benchmarks, and
    repeats at most the requests that were in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import polars as pl
from pydantic_core import to_json

from cilab import store
from cilab.collect.answer import without_keys
from cilab.collect.limits import Limit
from cilab.collect.model import CallError, ChatModel, Completion, Message, Refusal, Sampling
from cilab.collect.pool import FREE, ModelPool
from cilab.collect.retry import RetryPolicy
from cilab.collect.rows import (
    call_row,
    completion_from_payload,
    completion_payload,
    fitting,
    run_row,
    wire_delta,
    wire_unfold,
)
from cilab.collect.spec import Play, Requirement, Rollout, RunSpec, Seats
from cilab.core.errors import CilabError, StoreError, first_line
from cilab.core.redact import redact
from cilab.core.tables import TABLES_VERSION
from cilab.core.version import __version__
from cilab.store.journal import PROVISIONAL, Journal

#: Finished rollouts that are gathered in the journal before a Parquet part is written: large parts
#: read fast, and the journal is readable meanwhile. Time and bytes bound how long they stay there.
_PART_ROLLOUTS = 512
_PART_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to play: a rollout, or a look at a stored one.

    Attributes
    ----------
    id : what finished jobs are known by; for a rollout its run id.
    run_id : the rollout that the rows belong to.
    spec : the run spec of a rollout; None for a look at a stored one.
    play : the function that plays it.
    requires : condition on another rollout, or None.
    """

    id: str
    run_id: str
    play: Callable[[Seats], Awaitable[Rollout]]
    spec: RunSpec | None = None
    requires: Requirement | None = None


def rollout_job(spec: RunSpec, play: Play) -> Job:
    """The job that plays a run spec."""
    run_id = spec.run_id
    return Job(run_id, run_id, lambda seats: play(spec, seats), spec, spec.requires)


@dataclass(slots=True)
class Progress:
    """Counts that a display may read at any time, from any thread.

    They are of this session, except: `stored` jobs were finished by earlier ones, `stored_refused` of them with a
    refusal; `gated_again` of `gated_out` stood there already; `usd` is the folder's cost, `usd_before` of it was
    paid by earlier sessions.
    """

    planned: int = 0
    stored: int = 0
    stored_refused: int = 0
    ok: int = 0
    refused: int = 0
    gated_out: int = 0
    gated_again: int = 0
    errors: int = 0
    running: int = 0
    waiting: int = 0
    retrying: int = 0
    calls: int = 0
    replayed: int = 0
    usd: float = 0.0
    usd_before: float = 0.0
    unpriced_calls: int = 0
    tokens_out: int = 0
    started: float = field(default_factory=time.monotonic)
    note: str = ""

    @property
    def done(self) -> int:
        """Jobs that need no more work, earlier sessions included."""
        return self.stored + self.ok + self.refused + self.gated_out

    @property
    def by_status(self) -> dict[str, int]:
        """`done` by status, earlier sessions included."""
        refused = self.stored_refused + self.refused
        return {"ok": self.done - refused - self.gated_out, "refused": refused, "gated_out": self.gated_out}


@dataclass(frozen=True, slots=True)
class Summary:
    """How a session ended.

    `stopped` is None, `budget` or `interrupted`, and None where the calls in flight finished the plan; `fatal` the
    error that ended it (a full disk). `errors` maps a one-line reason to a count; `missing` counts planned jobs that
    were not finished. Of a second look, `answers` counts what the finished jobs were given, in earlier sessions too,
    and `unreadable` those of them from which nothing could be read.
    """

    progress: Progress
    missing: int
    errors: Mapping[str, int]
    stopped: str | None
    fatal: StoreError | None
    seconds: float
    answers: int = 0
    unreadable: int = 0

    @property
    def exit_code(self) -> int:
        """0 done, 1 failed or missing runs or no answer that could be read, 3 budget reached, 130 interrupted."""
        if self.stopped == "interrupted":
            return 130
        if self.stopped == "budget":
            return 3
        return 1 if self.missing or self.fatal or 0 < self.answers == self.unreadable else 0


@dataclass(slots=True)
class Played:
    """What playing one job gave, before it is made into rows; plain values, so that it can travel.

    `status` is ok, refused, gated_out or error; `extra` are columns of the run that follow from it.
    """

    status: str = "ok"
    rollout: Rollout = field(default_factory=Rollout)
    extra: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    replayed_s: float = 0.0
    first_at: datetime | None = None


class Host(Protocol):
    """What the seats of a job need of whoever plays it: the engine here, or a cluster worker's line to it."""

    def received(self, job_id: str) -> Mapping[tuple[str, str, int], tuple[str, Any]]:
        """Answers of earlier sessions, by (purpose, seat, position)."""
        ...

    def may_call(self) -> None:
        """Raise when no further call may start."""
        ...

    def model(self, name: str) -> ChatModel:
        """The model of that name, with its limits and retries."""
        ...

    async def keep(
        self, job_id: str, place: tuple[str, str, int], request: str, row: dict[str, Any], payload: Any
    ) -> None:
        """Account a call; its answer (`payload`, None for a failed call) is durable when this returns."""
        ...

    async def transcript(self, run_id: str) -> list[dict[str, Any]]:
        """The stored messages of a finished run."""
        ...

    def replayed(self) -> None:
        """An answer came from the journal."""
        ...


class Elsewhere(Protocol):
    """Plays rollouts on other machines; the engine keeps what comes back. Entered before the first, left at the end."""

    engine: Engine | None

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, kind: Any, error: Any, at: Any) -> None: ...

    async def play(self, job: Job) -> Played:
        """Play a rollout's job; raises `Paused` when the engine is stopping."""
        ...


class Paused(BaseException):
    """The engine is stopping: leave the play function; what has arrived is in the journal."""


async def play_job(job: Job, host: Host) -> Played:
    """Play one job with the models of `host`; every way in which it can end has a status.

    Raises
    ------
    Paused
        No further call may start.
    StoreError
        What arrived cannot be kept.
    """
    seats = _Seats(host, job)
    played = Played(rollout=seats.rollout, calls=seats.calls)
    try:
        played.rollout = await job.play(seats)
    except _Refused as e:
        played.status = "refused"
        played.extra = {"refused_seat": e.seat, "ended": "refused", "error": redact(str(e))}
    except StoreError:
        raise
    except CallError as e:
        played.status, played.extra = "error", {"ended": "error", "error": redact(f"{e.kind}: {e}")}
    except CilabError as e:
        played.status, played.extra = "error", {"ended": "error", "error": redact(str(e))}
    except Exception as e:
        played.status, played.extra = "error", {"ended": "error", "error": redact(_describe(e))}
    played.replayed_s, played.first_at = seats.replayed_s, seats.first_at
    return played


class Engine:
    """Plays jobs into a study's folder.

    Parameters
    ----------
    folder : the study's folder (made by the caller).
    study : name written into the rows.
    resolve : model string -> ChatModel.
    limits : by provider name; `default` for the others.
    concurrency : rollouts in flight.
    budget_usd : stop starting calls when the folder's known cost reaches it; None for no limit. A call that was started
        by then is finished and paid: up to `concurrency` rollouts have calls in flight.
    policy : how failed calls are tried again.
    elsewhere : plays a rollout's job on another machine; None plays it here.
    after_parts : called, in a thread, each time parts have been written.
    plan : run ids of the whole plan, where the jobs are a part of it only; None where they are all of it.

    Notes
    -----
    `stop` ends a session after the calls in flight; `abort` at once. Both may be called from any thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        study: str,
        resolve: Callable[[str], ChatModel],
        limits: Mapping[str, Limit] | None = None,
        concurrency: int = 64,
        budget_usd: float | None = None,
        policy: RetryPolicy | None = None,
        part_rollouts: int = _PART_ROLLOUTS,
        elsewhere: Elsewhere | None = None,
        after_parts: Callable[[], None] | None = None,
        plan: frozenset[str] | None = None,
    ):
        self.folder, self.study = folder, study
        self.progress = Progress()
        self._pool = ModelPool(resolve, limits, policy, self._retrying)
        self._concurrency, self._budget = concurrency, budget_usd
        self._part_rollouts = part_rollouts
        self._elsewhere, self._after_parts = elsewhere, after_parts
        self._plan = plan
        if elsewhere is not None:
            elsewhere.engine = self
        self._stopped: str | None = None
        self._fatal: StoreError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._error_reasons: dict[str, int] = {}
        self._buffer: list[tuple[str, bool, dict[str, Any]]] = []
        self._buffer_since = 0.0
        self._flush_lock: asyncio.Lock
        self._writing: asyncio.Future[None] | None = None
        self._journal: Journal

    # -- stopping ---------------------------------------------------------------------------------------

    def stop(self, reason: str = "interrupted") -> None:
        """Start no more calls; those in flight are waited for and kept."""
        if self._stopped is None:
            self._stopped = reason
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def abort(self) -> None:
        """Give up the calls in flight as well. What had arrived is kept."""
        self.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: [t.cancel() for t in self._tasks])

    # -- one session ------------------------------------------------------------------------------------

    async def run(self, jobs: Callable[[], Iterable[Job]]) -> Summary:
        """Play what is not finished yet of `jobs()` (called twice: to count, and to play).

        Raises
        ------
        StoreError
            The folder cannot be used (before anything is played).
        """
        self._loop = asyncio.get_running_loop()
        self._flush_lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self.progress.started = time.monotonic()
        self._journal = Journal(self.folder)
        try:
            await self._prepare(jobs)
            workers = min(self._concurrency, max(1, len(self._todo)))
            async with self._elsewhere or contextlib.nullcontext():
                self._tasks = [asyncio.create_task(self._work()) for _ in range(workers)]
                await asyncio.gather(*self._tasks, return_exceptions=True)
            for task in self._tasks:
                if not task.cancelled() and (e := task.exception()) is not None and not isinstance(e, StoreError):
                    raise e
            if self._fatal is None:
                await self._flush()
            return await self._summary()
        finally:
            await self._written()
            self._journal.close()

    async def _prepare(self, jobs: Callable[[], Iterable[Job]]) -> None:
        store.check_parts(self.folder)
        stored = store.finished_jobs(self.folder)
        planned: set[str] = set()
        self._required: set[str] = set()
        self._plays = False
        for job in jobs():
            planned.add(job.id)
            self._plays = self._plays or job.spec is not None
            if job.requires:
                self._required.add(job.requires.run_id)
        self._states = store.run_states(self.folder, self._required)
        moved, self._gated_before = [], set[str]()
        for job_id, status, payload in self._journal.finished():
            if status in PROVISIONAL:  # a gate may be off this time
                if status == "gated_out":
                    self._gated_before.add(job_id)
                continue
            if job_id in stored:  # killed between the part and forgetting it
                moved.append(job_id)
                continue
            self._buffer.append((job_id, "runs" in payload, payload))
            for run in payload.get("runs", []):
                if job_id in self._required:
                    self._states[job_id] = {"status": status, "passed": run.get("passed")}
        if moved:
            await self._journal.forget(moved)
        finished = stored | {job_id for job_id, _, _ in self._buffer}
        self._buffer_since = time.monotonic()
        self._started_before = self._journal.unfinished()
        self._todo = planned - finished
        self.progress.planned = len(planned)
        self.progress.stored = len(planned) - len(self._todo)
        self.progress.usd = self.progress.usd_before = self._spent_before()
        self._count_runs(planned)
        self._iterator: Iterator[Job] = iter(jobs())
        self._ready: deque[Job] = deque()
        self._blocked: dict[str, list[Job]] = {}
        if self._buffer:
            self._revive_buffer()
            await self._flush()
        await self._keep_meta()

    def _revive_buffer(self) -> None:
        for _, _, payload in self._buffer:
            for name, rows in payload.items():
                store.revive(name, rows)

    def _count_runs(self, planned: set[str]) -> None:
        """How large the whole plan is, and which of the finished runs do not belong to it."""
        if not self._plays:  # a second look at stored rollouts plans none
            return
        runs = store.Study(self.folder).runs.filter(pl.col("status") != "error").select("run_id", "status").collect()
        plan = planned if self._plan is None else self._plan | planned
        self._whole = len(plan)
        self._earlier = sum(run_id not in plan for run_id in runs["run_id"])
        refused = runs.filter(pl.col("status") == "refused")["run_id"]
        self.progress.stored_refused = sum(run_id in planned for run_id in refused)

    def _spent_before(self) -> float:
        calls = store.Study(self.folder).table("calls").select("cost_usd").collect()["cost_usd"].sum() or 0.0
        counted = {job for job, _, _ in self._journal.finished(errors=True)}
        for job in self._started_before - counted:
            for _, payload in self._journal.completions(job).values():
                calls += payload["row"].get("cost_usd") or 0.0
        return float(calls)

    # -- choosing what to play ----------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()

    async def _next(self) -> tuple[Job, bool] | None:
        """(job, whether its condition holds), or None when there is nothing left to start."""
        while self._stopped is None and self._fatal is None:
            if self._ready:
                job = self._ready.popleft()
            else:
                job = next(self._iterator, None)
                if job is not None and job.id not in self._todo:
                    continue
            if job is not None:
                self._todo.discard(job.id)
                if job.requires is None:
                    return job, True
                state = self._states.get(job.requires.run_id)
                if state is not None:
                    return job, job.requires.met_by(state)
                self._blocked.setdefault(job.requires.run_id, []).append(job)
                continue
            if not self._blocked or self.progress.running == 0:
                self._wake()  # the other workers have nothing to wait for either
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _settle(self, job: Job, status: str, passed: bool | None) -> None:
        if job.id in self._required and status != "error":
            self._states[job.id] = {"status": status, "passed": passed}
            self._ready.extend(self._blocked.pop(job.id, ()))
        self._wake()

    # -- playing ------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while (chosen := await self._next()) is not None:
            job, allowed = chosen
            self.progress.running += 1
            try:
                await self._play(job, allowed)
            except Paused:
                return
            except StoreError as e:
                self._fatal = self._fatal or e
                return
            finally:
                self.progress.running -= 1
                self._wake()

    async def _play(self, job: Job, allowed: bool) -> None:
        began, clock = datetime.now(UTC), time.monotonic()
        if not allowed:
            played = Played("gated_out", extra={"ended": "gated_out"})
        elif self._elsewhere is not None and job.spec is not None:
            played = await self._elsewhere.play(job)
        else:
            played = await play_job(job, self)
        status, extra = played.status, played.extra
        known = dict(played.rollout.run) if status == "ok" else _without_scores(played.rollout.run)
        rows = self._rows(job, played) | self._run(job, played, played.calls, status, known | extra, began, clock)
        payload, problem = fitting(rows)
        if problem is not None:  # rows that no table takes: the rollout is an error, and the rest of it is kept
            status, known, extra = "error", {}, {"ended": "error", "error": redact(problem)}
            payload |= self._run(job, played, payload.get("calls", []), status, dict(extra), began, clock)
        if status == "gated_out" and job.id in self._gated_before:  # it stands there already, with its own time
            self.progress.gated_again += 1
        else:
            await self._journal.finish(job.id, status, payload)
        self._count(status, extra)
        self._settle(job, status, known.get("passed"))
        if status not in PROVISIONAL:
            await self._keep(job, payload)

    def _rows(self, job: Job, played: Played) -> dict[str, Any]:
        """What was said, called, labelled and annotated."""
        rows: dict[str, Any] = {"calls": played.calls}
        for name in ("messages", "labels", "annotations"):
            if part := getattr(played.rollout, name):
                rows[name] = [{"run_id": job.run_id, **row} for row in part]
        return rows

    def _run(
        self,
        job: Job,
        played: Played,
        calls: Sequence[Mapping[str, Any]],
        status: str,
        known: dict[str, Any],
        began: datetime,
        clock: float,
    ) -> dict[str, Any]:
        """The rollout's own row; none for a look at a stored one."""
        if job.spec is None:
            return {}
        started = min(began, played.first_at) if played.first_at else began
        known |= {
            "run_id": job.run_id,
            "study": self.study,
            "status": status,
            "seconds": time.monotonic() - clock + played.replayed_s,
            "started_at": started,
            "finished_at": max(started, datetime.now(UTC)),  # a clock may have been set back meanwhile
            "code_version": __version__,
            "rule_version": known.get("rule_version") or f"tables-{TABLES_VERSION}",
        }
        return {"runs": [run_row(job.spec, known, calls)]}

    def _count(self, status: str, extra: Mapping[str, Any]) -> None:
        p = self.progress
        if status == "ok":
            p.ok += 1
        elif status == "refused":
            p.refused += 1
        elif status == "gated_out":
            p.gated_out += 1
        else:
            p.errors += 1
            reason = str(extra["error"])[:300]
            self._error_reasons[reason] = self._error_reasons.get(reason, 0) + 1

    # -- parts --------------------------------------------------------------------------------------------

    async def _keep(self, job: Job, payload: dict[str, Any]) -> None:
        if not self._buffer:
            self._buffer_since = time.monotonic()
        self._buffer.append((job.id, job.spec is not None, payload))
        if self._part_is_due():
            await self._flush(when_due=True)

    def _part_is_due(self) -> bool:
        full = len(self._buffer) >= self._part_rollouts
        return full or time.monotonic() - self._buffer_since > _PART_SECONDS

    async def _flush(self, *, when_due: bool = False) -> None:
        async with self._flush_lock:
            await self._written()
            if not self._buffer or (when_due and not self._part_is_due()):  # another worker has done it
                return
            batch, self._buffer = self._buffer, []
            self._buffer_since = time.monotonic()
            others = [job for job, is_run, _ in batch if not is_run]
            payloads = [payload for _, _, payload in batch]
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write_parts, payloads, others))
            # An abort cancels the worker, not the thread that writes: see `_written`.
            await asyncio.shield(self._writing)
            await self._journal.forget(job for job, _, _ in batch)
            await self._keep_meta()
            if self._after_parts is not None:
                await asyncio.to_thread(self._after_parts)

    async def _written(self) -> None:
        """Wait for parts that are being written; their worker may have been cancelled."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])

    def _write_parts(self, payloads: list[dict[str, Any]], others: Sequence[str]) -> None:
        store.write_group(self.folder, store.payload_frames(payloads), others)

    async def _keep_meta(self) -> None:
        p = self.progress
        meta = {"usd": p.usd, "unpriced_calls": p.unpriced_calls}
        if self._plays:
            meta |= {"study": self.study, "planned": self._whole, "earlier": self._earlier}
        await self._journal.set_meta(meta)

    async def _summary(self) -> Summary:
        p = self.progress
        if self._fatal is None:
            await self._keep_meta()
        missing = p.planned - p.done
        return Summary(
            progress=p,
            missing=missing,
            errors=dict(self._error_reasons),
            stopped=self._stopped if missing or self._fatal else None,
            fatal=self._fatal,
            seconds=time.monotonic() - p.started,
        )

    # -- models -------------------------------------------------------------------------------------------

    def model(self, name: str) -> ChatModel:
        """See `Host`."""
        return self._pool.get(name)

    def _retrying(self, change: int) -> None:
        self.progress.retrying += change

    def received(self, job_id: str) -> Mapping[tuple[str, str, int], tuple[str, Any]]:
        """See `Host`."""
        return self._journal.completions(job_id) if job_id in self._started_before else {}

    def answers(self, job_id: str) -> Mapping[tuple[str, str, int], tuple[str, Any]]:
        """Every answer that was kept for a job, those of this session included: for a worker that takes it over."""
        return self._journal.completions(job_id)

    def stopping(self) -> bool:
        """No further call may start."""
        try:
            self.may_call()
        except Paused:
            return True
        return False

    async def keep(
        self, job_id: str, place: tuple[str, str, int], request: str, row: dict[str, Any], payload: Any
    ) -> None:
        """See `Host`."""
        self._account(row)
        if payload is not None:
            await self._journal.put_completion(job_id, *place, request, payload)

    def replayed(self) -> None:
        """See `Host`."""
        self.progress.replayed += 1

    def may_call(self) -> None:
        """See `Host`."""
        self.progress.waiting = self._pool.waiting
        if self._budget is not None and self.progress.usd >= self._budget:
            self.stop("budget")
        if self._stopped is not None or self._fatal is not None:
            raise Paused

    def _account(self, row: Mapping[str, Any]) -> None:
        p = self.progress
        p.calls += 1
        p.tokens_out += row.get("tokens_out") or 0
        if row.get("cost_usd") is not None:
            p.usd += row["cost_usd"]
        elif not row.get("error"):
            p.unpriced_calls += 1

    async def transcript(self, run_id: str) -> list[dict[str, Any]]:
        """See `Host`."""
        for job, _, payload in self._buffer:
            if job == run_id:
                return list(payload.get("messages", []))
        payload = self._journal.finished_payload(run_id)
        if payload is not None:
            return list(payload.get("messages", []))
        return await asyncio.to_thread(store.transcript, self.folder, run_id)


class _Refused(Exception):
    def __init__(self, seat: str, reason: str):
        super().__init__(reason)
        self.seat = seat


class _Seats:
    """The `Seats` of one job: hands out recorded models and remembers what was called."""

    def __init__(self, host: Host, job: Job):
        self._host, self._job = host, job
        self.calls: list[dict[str, Any]] = []
        self.rollout = Rollout()
        self.replayed_s = 0.0
        self.first_at: datetime | None = None
        self._received = host.received(job.id)
        self._positions: dict[tuple[str, str], itertools.count[int]] = {}
        self._indices: dict[str, itertools.count[int]] = {}
        self._wires: dict[tuple[str, str], tuple[Sequence[Message], int | None]] = {}

    def model(
        self,
        name: str,
        seat: str,
        purpose: str = "play",
        *,
        under_test: bool = True,
        fallbacks: Sequence[str] = (),
    ) -> ChatModel:
        return _Recorded(self, name, seat, purpose, under_test, tuple(fallbacks))

    async def transcript(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._host.transcript(run_id)

    async def call(
        self, name: str, seat: str, purpose: str, messages: Sequence[Message], tools: Any, sampling: Sampling
    ) -> Completion:
        """One recorded call: from the journal where it was received before, else from the model."""
        key = (purpose, seat)
        n = next(self._positions.setdefault(key, itertools.count()))
        request = _request_hash(name, messages, tools, sampling)
        kept = self._received.get((purpose, seat, n))
        if kept is not None and kept[0] == request:
            return self._replay(key, kept[1])
        self._host.may_call()
        index = next(self._indices.setdefault(purpose, itertools.count()))
        model = self._host.model(name)
        try:
            answer: Completion | CallError | Refusal = await model.complete(messages, tools=tools, sampling=sampling)
            if model.provider not in FREE:  # simulated agents have seen no key
                answer = without_keys(answer)
        except (CallError, Refusal) as e:
            answer = e
        row = self._row(key, index, name, answer, messages, tools, sampling)
        if not isinstance(answer, Completion):
            await self._host.keep(self._job.id, (purpose, seat, n), request, row, None)
            raise answer
        payload = completion_payload(row, answer) | {"at": datetime.now(UTC)}
        await self._host.keep(self._job.id, (purpose, seat, n), request, row, payload)
        return answer

    def _row(
        self,
        key: tuple[str, str],
        index: int,
        name: str,
        answer: Completion | CallError | Refusal,
        messages: Sequence[Message],
        tools: Any,
        sampling: Sampling,
    ) -> dict[str, Any]:
        wire = tuple(answer.wire if answer.wire is not None else messages)  # play functions go on with their list
        before, before_index = self._wires.get(key, ((), None))
        row = call_row(
            answer,
            run_id=self._job.run_id,
            index=index,
            seat=key[1],
            purpose=key[0],
            model=name,
            sampling=sampling,
            wire_json=wire_delta(wire, tools, before, before_index),
        )
        self._wires[key] = (wire, index)
        self.calls.append(row)
        return row

    def _replay(self, key: tuple[str, str], payload: Mapping[str, Any]) -> Completion:
        row = payload["row"]
        indices = self._indices.setdefault(key[0], itertools.count())
        index = next(indices)
        before, before_index = self._wires.get(key, ((), None))
        wire, tools = wire_unfold(row["wire_json"], before)
        # Concurrent seats may come in another order than before: the row is made anew for its place.
        row = dict(row) | {"index": index, "wire_json": wire_delta(wire, tools, before, before_index)}
        self._wires[key] = (wire, index)
        self.calls.append(row)
        self.replayed_s += row["latency_s"] or 0.0
        at = datetime.fromisoformat(payload["at"])
        self.first_at = min(self.first_at, at) if self.first_at else at
        self._host.replayed()
        return completion_from_payload(payload)


class _Recorded:
    """A `ChatModel` for one seat of one job."""

    def __init__(self, seats: _Seats, name: str, seat: str, purpose: str, under_test: bool, fallbacks: tuple[str, ...]):
        self.name, self.provider = name, name.split("/", 1)[0]
        self._seats, self._seat, self._purpose = seats, seat, purpose
        self._under_test, self._fallbacks = under_test, fallbacks

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        last: Refusal | None = None
        for name in (self.name, *self._fallbacks):
            try:
                return await self._seats.call(name, self._seat, self._purpose, messages, tools, sampling)
            except Refusal as e:
                if self._under_test:
                    raise _Refused(self._seat, str(e)) from None
                last = e
        raise CallError("bad_request", f"{self._purpose} {self._seat}: every model refused ({last})")


def _request_hash(name: str, messages: Sequence[Message], tools: Any, sampling: Sampling) -> str:
    h = hashlib.blake2b(to_json([name, messages, tools, sampling.as_dict()]), digest_size=10)
    return h.hexdigest()


def _without_scores(run: Mapping[str, Any]) -> dict[str, Any]:
    scores = ("score", "passed", "weighted_outcome", "success", "joint_share", "evidence")
    return {k: v for k, v in run.items() if k not in scores}


def _describe(e: Exception) -> str:
    """One line on an unexpected error: its type, its words, and where."""
    import traceback

    frames = traceback.extract_tb(e.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(e).__name__}: {first_line(e, '')}{where}"
