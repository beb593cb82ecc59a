"""A study on a Dask cluster: the same engine, with its rollouts played by the cluster's workers.

May import what `cilab.running.play` may; Dask is imported inside functions (extra `cluster`). No scheduler of our own.

What stays here and what goes there
    The plan, the gate, the budget, the journal and the Parquet parts stay with the driver: the process that runs the
    command. A worker gets one run spec and the study's text, makes the models itself (with the keys of its own
    environment) and plays the rollout. Every answer travels to the driver's journal, and the worker goes on only when
    it is durable there. When a worker dies, Dask starts the rollout on another one, which is answered from the journal
    up to where the first one was: no answer that had been received is paid again. A worker needs this package, and the
    task folders of the user's own under the same path.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any

from pydantic_core import from_json, to_json

from cilab.collect.engine import Engine, Job, Paused, Played, Summary, play_job, rollout_job
from cilab.collect.limits import Limit
from cilab.collect.model import ChatModel
from cilab.collect.pool import ModelPool
from cilab.collect.spec import RunSpec
from cilab.core.errors import CilabError
from cilab.core.redact import one_line
from cilab.running.load import benchmarks, load_study, model_policy, models_of
from cilab.running.play import run_loaded
from cilab.running.study_file import Plan, parse

#: Seconds to wait for the scheduler.
_CONNECT_S = 20
#: Seconds that a study waits for a worker when there is none.
WITHOUT_WORKERS_S = 60.0
#: Times that Dask starts a rollout whose worker died before it is called an error (the next session plays it again).
_RETRIES = 20


def run_on_cluster(
    path: str | os.PathLike[str],
    address: str,
    *,
    scale: float = 1.0,
    without_workers_s: float = WITHOUT_WORKERS_S,
    **settings: Any,
) -> Summary:
    """Play a study on the workers of a Dask cluster; the same call again continues after any interruption.

    Parameters
    ----------
    path, scale, settings : as in `cilab.run_study`.
    address : of the Dask scheduler, such as `tcp://host:8786`.
    without_workers_s : as in `Cluster`.

    Raises
    ------
    CilabError
        Bad input; the cluster cannot be reached, went away, or has no workers.
    """
    plan = load_study(path, scale)
    return run_loaded(plan, elsewhere=Cluster(address, plan, without_workers_s=without_workers_s), **settings)


class ClusterError(CilabError):
    """The cluster cannot be reached, went away, or has no workers."""

    exit_code = 1


class Cluster:
    """A line from the engine to a Dask cluster; use it as an async context manager around `Engine.run`.

    Parameters
    ----------
    address : of the Dask scheduler, such as `tcp://host:8786`.
    plan : the study that is played.
    without_workers_s : seconds to wait for a worker when there is none, at the start or later.
    """

    def __init__(self, address: str, plan: Plan, *, without_workers_s: float = WITHOUT_WORKERS_S):
        self.address, self._plan = address, plan
        self._without_workers_s, self._deserted = without_workers_s, False
        self._playing: set[Any] = set()
        self._token = secrets.token_urlsafe(16)
        self.engine: Engine | None = None

    async def __aenter__(self) -> Cluster:
        try:
            import distributed
            from distributed.core import Server
            from distributed.utils import get_ip
        except ImportError:
            raise ClusterError("--scheduler needs Dask; install it: pip install 'cilab[cluster]'") from None
        try:
            self._client = await distributed.Client(
                self.address, asynchronous=True, timeout=_CONNECT_S, set_as_default=False
            )
            self._workers = max(1, len(await self._client.nthreads()))
        except (OSError, ValueError, TimeoutError) as e:
            raise ClusterError(
                f"--scheduler {self.address}: cannot be reached ({one_line(str(e) or type(e).__name__)})"
            ) from None
        host = self.address.rpartition("://")[2].rpartition(":")[0]
        handlers = {"received": self._received, "keep": self._keep, "transcript": self._transcript}
        self._server = Server(handlers)
        await self._server.listen(f"tcp://{'127.0.0.1' if host in ('127.0.0.1', 'localhost') else get_ip(host)}:0")
        self._watch = asyncio.create_task(self._watch_workers())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._watch.cancel()
        await self._client.close(timeout=5)
        await self._server.close()

    async def play(self, job: Job) -> Played:
        """Play a rollout's job on a worker.

        Raises
        ------
        Paused
            The engine is stopping.
        ClusterError
            The scheduler is gone, or all workers are.
        """
        import distributed

        deaths = 0
        while deaths < _RETRIES:
            if self._deserted:
                raise self._no_workers()
            future = self._submit(job)
            self._playing.add(future)
            try:
                played: Played | None = await future
            except distributed.KilledWorker as e:
                deaths += e.allowed_failures + 1  # after so many the scheduler gives a task up
                continue
            except (distributed.CancelledError, OSError, TimeoutError) as e:
                if self._deserted:
                    raise self._no_workers() from None
                why = one_line(str(e) or type(e).__name__)
                raise ClusterError(
                    f"--scheduler {self.address}: went away ({why}). What arrived is kept; start the cluster and run "
                    "the same command again: it continues."
                ) from None
            finally:
                self._playing.discard(future)
            if played is None:
                raise Paused
            return played
        text = f"cluster: {deaths} workers died under this rollout"
        return Played("error", extra={"ended": "error", "error": text})

    def _submit(self, job: Job) -> Any:
        return self._client.submit(
            _play_there,
            job.spec,
            (self._plan.text, self._plan.where),
            (self._server.address, self._token),
            self._workers,
            key=f"cilab-{job.id}-{secrets.token_hex(4)}",
            pure=False,
            retries=_RETRIES,
        )

    async def _watch_workers(self) -> None:
        """Give up every rollout that waits when the cluster has been without workers for too long."""
        seen = time.monotonic()
        while time.monotonic() - seen < self._without_workers_s:
            await asyncio.sleep(min(1.0, self._without_workers_s / 4))
            try:
                there = await self._client.nthreads()
            except OSError:  # the scheduler is away, which the rollouts hear themselves
                there = {"unknown": 0}
            if there:
                seen = time.monotonic()
        self._deserted = True
        await self._client.cancel(list(self._playing), force=True)

    def _no_workers(self) -> ClusterError:
        return ClusterError(
            f"--scheduler {self.address}: no workers for {self._without_workers_s:g} s. What arrived is kept; start "
            f"workers (dask worker {self.address}) and run the same command again: it continues."
        )

    # -- what workers ask

    def _host(self, token: str) -> Engine:
        if self.engine is None or not secrets.compare_digest(token, self._token):
            raise ClusterError("this line belongs to another study")
        return self.engine

    async def _received(self, token: str, job_id: str) -> bytes:
        kept = self._host(token).answers(job_id)
        return to_json([[*place, request, payload] for place, (request, payload) in kept.items()])

    async def _keep(self, token: str, job_id: str, place: Any, request: str, row: bytes, payload: bytes) -> bool:
        """Keep a call; True when the worker must stop."""
        engine = self._host(token)
        purpose, seat, n = place
        await engine.keep(job_id, (purpose, seat, n), request, from_json(row), from_json(payload))
        return engine.stopping()

    async def _transcript(self, token: str, run_id: str) -> bytes:
        return to_json(await self._host(token).transcript(run_id))


# -- on a worker --------------------------------------------------------------------------------------------------


async def _play_there(spec: RunSpec, study: tuple[str, str], line: tuple[str, str], workers: int) -> Played | None:
    """Play one rollout in this process; None when the driver stopped meanwhile."""
    from distributed.core import rpc

    address, token = line
    driver = rpc(address)
    try:
        kept = from_json(await driver.received(token=token, job_id=spec.run_id))
        received = {(purpose, seat, n): (request, payload) for purpose, seat, n, request, payload in kept}
        host = _There(driver, token, _pool(*study, workers), received)
        return await play_job(rollout_job(spec, benchmarks()[spec.benchmark].play), host)
    except Paused:
        return None
    finally:
        await driver.close_rpc()


class _There:
    """The host of one rollout on a worker: models here, the journal at the other end of the line."""

    def __init__(
        self, driver: Any, token: str, models: ModelPool, received: Mapping[tuple[str, str, int], tuple[str, Any]]
    ):
        self._driver, self._token, self._models, self._kept = driver, token, models, received
        self._stopped = False

    def received(self, job_id: str) -> Mapping[tuple[str, str, int], tuple[str, Any]]:
        """See `cilab.collect.engine.Host`."""
        return self._kept

    def may_call(self) -> None:
        """See `Host`."""
        if self._stopped:
            raise Paused

    def model(self, name: str) -> ChatModel:
        """See `Host`."""
        return self._models.get(name)

    async def keep(
        self, job_id: str, place: tuple[str, str, int], request: str, row: dict[str, Any], payload: Any
    ) -> None:
        """See `Host`."""
        self._stopped = await self._driver.keep(
            token=self._token, job_id=job_id, place=place, request=request, row=to_json(row), payload=to_json(payload)
        )

    async def transcript(self, run_id: str) -> list[dict[str, Any]]:
        """See `Host`."""
        found: list[dict[str, Any]] = from_json(await self._driver.transcript(token=self._token, run_id=run_id))
        return found

    def replayed(self) -> None:
        """See `Host`. Nothing to tell: it cost nothing."""


@lru_cache(maxsize=4)
def _pool(text: str, where: str, workers: int) -> ModelPool:
    """A study's models in this process, with its share of each provider's limits."""
    plan = parse(text, benchmarks(), where=where)
    policy, ready = model_policy(plan), models_of(plan)
    limits = {"default": Limit()} | policy["limits"]
    return ModelPool(
        ready.__getitem__, {name: limit.share(workers) for name, limit in limits.items()}, policy["policy"]
    )
