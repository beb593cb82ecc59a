"""Puts a study, a benchmark and the engine together: forecast, run, status.

May import `cilab.running.study_file`, `cilab.collect`, `cilab.store` and `cilab.core`; knows no benchmark by name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from cilab import store
from cilab.collect import background
from cilab.collect.engine import Elsewhere, Engine, Job, Summary, rollout_job
from cilab.collect.model import CallError, ChatModel
from cilab.collect.models import resolve
from cilab.collect.progress import Display, display
from cilab.collect.retry import RetryPolicy
from cilab.collect.spec import Benchmark
from cilab.collect.user_model import source_hash
from cilab.core import plugins, registry, tables
from cilab.core.errors import CilabError, StoreError, StudyError, nearest
from cilab.core.redact import hide_credentials
from cilab.running.study_file import ModelSettings, Study, load
from cilab.store import journal

#: Where studies live unless told otherwise, below the current folder.
STUDIES = Path("data") / "studies"
#: Seconds that a call is expected to take, for the dry run's estimate of time.
_SECONDS_PER_CALL = 6.0
#: Seats of calls that looked at stored rollouts again (`cilab.running.again`, `cilab.running.relabel`).
_SECOND_LOOK = r"^(?:grade|annotate|relabel):"


def benchmarks() -> Mapping[str, Benchmark]:
    """The benchmarks by name, ours and those that other packages bring; each is loaded when it is asked for."""
    return plugins.Found(plugins.BENCHMARKS)


def load_study(path: str | os.PathLike[str], scale: float = 1.0) -> Study:
    """Read and check a study file and the models that it names.

    Raises
    ------
    StudyError
        The file is wrong, or a model is not known.
    """
    study = load(Path(path), benchmarks(), scale)
    for name in sorted(study.model_names()):
        _check_name(study, name, str(path))
    return _with_code(study)


def _with_code(study: Study) -> Study:
    """The source of a user's own agent enters the run ids: edited code gives new runs."""
    versions = {}
    try:
        for name in sorted(study.model_names()):
            if name.startswith("python:"):
                versions[name] = source_hash(name)
    except CallError as e:
        raise StudyError(f"{study.where}: {e}") from None
    if not versions:
        return study
    return replace(study, blocks=tuple((benchmark, block.with_code(versions)) for benchmark, block in study.blocks))


def _check_name(study: Study, name: str, where: str) -> None:
    """A name without a provider must be in the registry or in the study's `models`."""
    if name.startswith("sim/"):
        for benchmark, block in study.blocks:
            if name in block.model_names():
                try:
                    benchmark.simulated(name.removeprefix("sim/"))
                except CilabError as e:
                    raise StudyError(f"{where}: {e}") from None
        return
    if name not in study.file.models and not _has_provider(name) and registry.lookup(name) is None:
        names = [*study.file.models, *registry.models()["model"].to_list()]
        raise StudyError(
            f"{where}: unknown model {name!r}.{nearest(name, names)} "
            "Write a provider string such as openai/gpt-4.1, or describe it under `models`."
        )


def resolver(study: Study | None, benchmark_of: Mapping[str, Benchmark]) -> Any:
    """Model string -> ChatModel, with the study's routes, prices and bases.

    A name is reached by the study's `route`, else as it stands; a plain name by the registry's LiteLLM string.
    """
    settings = study.file.models if study else {}

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


def _benchmark_of(study: Study) -> dict[str, Benchmark]:
    return {name: benchmark for benchmark, block in study.blocks for name in block.model_names()}


# -- run --------------------------------------------------------------------------------------------------


def run_study(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    scale: float = 1.0,
    limit: int | None = None,
    gate: bool = True,
    show_progress: bool = True,
) -> Summary:
    """Play what is not finished yet of a study; the same call again continues after any interruption.

    Parameters
    ----------
    path : the study file.
    out : the study's folder, or an fsspec URL (`s3://...`); default `data/studies/<name>`.
    scale : factor on the number of tasks.
    limit : play at most this many of the planned rollouts.
    gate : False plays test and baseline whatever came out alone.

    Raises
    ------
    CilabError
        Bad input, before anything is played.
    """
    return run_loaded(load_study(path, scale), out=out, limit=limit, gate=gate, show_progress=show_progress)


def run_loaded(
    study: Study,
    *,
    out: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    gate: bool = True,
    show_progress: bool = True,
    elsewhere: Elsewhere | None = None,
) -> Summary:
    """As `run_study`, for a study that was read already; `elsewhere` plays its rollouts on other machines."""
    for _ in study.specs(gate=gate, limit=limit):
        pass  # the whole plan, before anything is written: a task that cannot be made is bad input
    plan = None if limit is None else frozenset(spec.run_id for _, spec in study.specs(gate=gate))
    models = models_of(study)
    mirror = store.mirror(out)
    folder = prepare_folder(study, out if mirror is None else mirror.folder)
    engine = Engine(
        folder,
        study=label(study),
        resolve=models.__getitem__,
        budget_usd=study.file.budget_usd,
        elsewhere=elsewhere,
        after_parts=None if mirror is None else mirror.push,
        plan=plan,
        **model_policy(study),
    )

    def jobs() -> Iterator[Job]:
        for benchmark, spec in study.specs(gate=gate, limit=limit):
            yield rollout_job(spec, benchmark.play)

    try:
        return drive(engine, jobs, show_progress)
    finally:
        if mirror is not None:
            mirror.push()


def models_of(study: Study) -> dict[str, ChatModel]:
    """Every model of a study, ready to be called.

    Raises
    ------
    StudyError
        Nothing goes by that name, or something that a model needs is missing on this machine.
    """
    resolve_one = resolver(study, _benchmark_of(study))
    models = {}
    for name in sorted(study.model_names()):
        try:
            models[name] = resolve_one(name)
            check_ready({name: models[name]})
        except CilabError as e:
            raise StudyError(f"{study.where}: {e}") from None
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


def model_policy(study: Study | None) -> dict[str, Any]:
    """Limits, concurrency and retries of a study file, as the engine takes them."""
    if study is None:
        return {}
    return {
        "limits": {name: entry.limit() for name, entry in study.file.limits.items()},
        "concurrency": study.file.concurrency,
        "policy": RetryPolicy(max_requests=study.file.max_requests, deadline_s=study.file.deadline_s),
    }


def label(study: Study) -> str:
    """The study's name; one with simulated agents says so."""
    name = study.file.name
    simulated = any(m.startswith("sim/") for m in study.model_names())
    return f"{name} (simulated)" if simulated and "sim" not in name.lower() else name


def prepare_folder(study: Study, out: str | os.PathLike[str] | None) -> Path:
    """Make the study's folder and keep the file as run; an edited file keeps its earlier versions beside it.

    Raises
    ------
    StoreError
        The folder cannot be written, another process is writing to it, or its journal is newer or damaged:
        nothing is written then.
    """
    folder = Path(out) if out is not None else STUDIES / study.file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise StoreError(f"{folder}: cannot be made ({e.strerror}). Choose another folder with --out.") from None
    lock = journal.FolderLock(folder)
    lock.acquire()
    try:
        journal.count_unfinished(folder)
        _keep_file(folder, study.text)
        _keep_simulated(folder, study)
        _keep_tasks(folder, study)
    finally:
        lock.release()
    return folder


def _keep_simulated(folder: Path, study: Study) -> None:
    """`models.csv` of the study: family and strength of its simulated agents, for the analyses that need them."""
    known = {}
    for benchmark, block in study.blocks:
        for name in sorted(block.model_names()):
            if name.startswith("sim/"):
                about = benchmark.describe(name.removeprefix("sim/"))
                known[name] = {"model": name, "builder": "simulated", **about}
    if not known:
        return
    kept, rows = folder / "models.csv", tables.frame("models", list(known.values()))
    if kept.exists():
        before = registry.models(kept)
        earlier = before.filter((before["builder"] == "simulated") & ~before["model"].is_in(list(known)))
        rows = rows.vstack(earlier)
    store.write_text(kept, rows.sort("model").write_csv())


def _keep_tasks(folder: Path, study: Study) -> None:
    """The tasks table: a row for each task of the plan that it does not hold yet."""
    planned = {
        row["task_id"]: row for benchmark, block in study.blocks if benchmark.tasks for row in benchmark.tasks(block)
    }
    if not planned:
        return
    known = set(store.collect(store.Study(folder).tasks.select("task_id"), folder)["task_id"])
    if new := [row for task_id, row in sorted(planned.items()) if task_id not in known]:
        store.write_group(folder, {"tasks": tables.frame("tasks", new)})


def _keep_file(folder: Path, text: str) -> None:
    kept, text = folder / "study.yaml", hide_credentials(text)
    if kept.exists():
        try:
            before = kept.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise StoreError(f"{kept}: cannot be read ({e}). Move it away.") from None
        if before == text:
            return
        mark = hashlib.blake2b(before.encode(), digest_size=4).hexdigest()
        store.write_text(folder / f"study-{mark}.yaml", before)
    store.write_text(kept, text)


def drive(engine: Engine, jobs: Any, show_progress: bool) -> Summary:
    """Run the engine on the background loop, show progress once it is planned, and pass Ctrl-C on.

    The first Ctrl-C lets the calls in flight finish; the second gives them up; the third leaves without them, where
    somebody's own code holds up the loop. Each keeps what arrived.

    Raises
    ------
    CilabError
        The folder cannot be used, or the loop broke.
    """
    future = background.submit(engine.run(jobs))
    view: Display | None = None
    pressed = 0
    try:
        while True:
            try:
                summary = future.result(timeout=0.2)
                view = view or display(show_progress)
                return summary
            except FutureTimeout as e:
                if future.done() and future.exception() is e:  # its own, not that of the wait
                    raise
                if engine.progress.planned:
                    view = view or display(show_progress)
                    view.update(engine.progress)
            except KeyboardInterrupt:
                pressed += 1
                if pressed == 1:
                    engine.progress.note = "stopping after the calls in flight; Ctrl-C again to give them up"
                    engine.stop()
                elif pressed == 2:
                    engine.progress.note = "giving up the calls in flight; Ctrl-C again to leave at once"
                    engine.abort()
                else:
                    raise
    finally:
        if view is not None:
            view.close(engine.progress)


# -- forecast ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyForecast:
    """What a study would do and cost: every triple is (least, expected, most).

    `usd` counts the models with a known price only; `unpriced` names the others. `finished` is None where what was
    played is not known on this machine: the forecast is then of the whole plan.
    """

    study: str
    run_ids: tuple[str, ...]
    finished: int | None
    calls: tuple[float, float, float]
    tokens_in: tuple[float, float, float]
    tokens_out: tuple[float, float, float]
    usd: tuple[float, float, float] | None
    hours: tuple[float, float, float]
    unpriced: tuple[str, ...]
    by_model: tuple[Mapping[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def forecast_study(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    scale: float = 1.0,
    limit: int | None = None,
    gate: bool = True,
) -> StudyForecast:
    """What is left to play of a study, in calls, tokens, USD and hours. Calls nothing, writes nothing.

    Of a study behind a URL, what this machine holds of it is counted; a machine that never played it does not know.
    """
    study = load_study(path, scale)
    behind_url = out is not None and "://" in os.fspath(out)
    if behind_url:
        folder = store.Mirror(os.fspath(out)).folder
    else:
        folder = Path(out) if out is not None else STUDIES / study.file.name
    done: set[str] = set()
    if known := folder.is_dir():
        done = store.finished_jobs(folder)
        again = journal.PROVISIONAL if not gate else ("error",)
        done |= {job for job, status, _ in journal.read_finished(folder) if status not in again}
    sums: dict[str, list[list[float]]] = {}
    run_ids, finished = [], 0
    for benchmark, spec in study.specs(gate=gate, limit=limit):
        run_id = spec.run_id
        run_ids.append(run_id)
        if run_id in done:
            finished += 1
            continue
        f = benchmark.forecast(spec)
        for name in f.calls:
            model = sums.setdefault(name, [[0.0] * 3 for _ in range(3)])
            for row, part in zip(model, (f.calls, f.tokens_in, f.tokens_out), strict=True):
                for case in range(3):
                    row[case] += part[name][case]
    return _summed(study, tuple(run_ids), finished if known or not behind_url else None, sums)


def _summed(
    study: Study, run_ids: tuple[str, ...], finished: int | None, sums: Mapping[str, list[list[float]]]
) -> StudyForecast:
    by_model, unpriced = [], []
    usd = [0.0] * 3
    for name, (calls, tokens_in, tokens_out) in sorted(sums.items()):
        costs = [_cost(study, name, i, o) for i, o in zip(tokens_in, tokens_out, strict=True)]
        if costs[0] is None:
            unpriced.append(name)
        else:
            usd = [a + b for a, b in zip(usd, costs, strict=True)]
        by_model.append(
            {
                "model": name,
                "calls": tuple(calls),
                "tokens_in": tuple(tokens_in),
                "tokens_out": tuple(tokens_out),
                "usd": None if costs[0] is None else tuple(costs),
            }
        )
    totals = [
        tuple(sum(m[k][case] for m in by_model) for case in range(3)) for k in ("calls", "tokens_in", "tokens_out")
    ]
    paid = [tuple(m["calls"]) for m in by_model if not m["model"].startswith("sim/")]
    width = min(study.file.concurrency, 8 * max(1, len(paid)))
    hours = tuple(sum(c[case] for c in paid) * _SECONDS_PER_CALL / width / 3600 for case in range(3))
    return StudyForecast(
        study=label(study),
        run_ids=run_ids,
        finished=finished,
        calls=totals[0],
        tokens_in=totals[1],
        tokens_out=totals[2],
        usd=tuple(usd) if len(unpriced) < len(by_model) or not by_model else None,
        hours=hours,
        unpriced=tuple(unpriced),
        by_model=tuple(by_model),
    )


def _cost(study: Study, name: str, tokens_in: float, tokens_out: float) -> float | None:
    if name.startswith(("sim/", "local/")):
        return 0.0
    settings = study.file.models.get(name)
    if settings and settings.price:
        return (tokens_in * settings.price.input + tokens_out * settings.price.output) / 1e6
    return registry.cost_usd(name, round(tokens_in), round(tokens_out), 0)


# -- status -----------------------------------------------------------------------------------------------


def status(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Counts of a study's folder, while it runs or afterwards: by status, unfinished, USD.

    Returns
    -------
    dict
        `planned` is the size of the whole plan, also after a session with a limit; None where no session was here.
        `finished` counts every finished rollout, with those that were gated out; `earlier` those of them that are not
        in the plan, since the study file was edited. `usd` is what is known to have been paid: for finished rollouts,
        for answers kept of unfinished ones, and for second looks. `unpriced_calls` and `unpriced_runs` count what is
        not in it since its price is unknown.
    """
    study = store.open_study(folder)
    kept = _paid_kept(study.path)
    runs = store.collect(study.runs.select("run_id", "status", "cost_usd_team", "error"), study.path)
    counts = dict(runs.group_by("status").len().iter_rows())
    meta = journal.read_meta(study.path)
    jobs, completions = journal.count_unfinished(study.path)
    planned = meta.get("planned")
    finished = sum(n for s, n in counts.items() if s != "error")
    earlier = meta.get("earlier", 0)
    cost = _cost_so_far(study, runs, kept)
    cost["usd"] = max(cost["usd"], meta.get("usd", 0.0))  # a failed call that cost something may stand nowhere else
    return {
        "study": meta.get("study", study.name),
        "planned": planned,
        "finished": finished,
        "earlier": earlier,
        "by_status": counts,
        "missing": None if planned is None else max(0, planned - (finished - earlier)),
        "interrupted_rollouts": jobs,
        "kept_completions": completions,
        **cost,
        "errors": dict(runs.filter(runs["status"] == "error").group_by("error").len().iter_rows()),
    }


def _paid_kept(folder: Path) -> pl.DataFrame:
    """Per job, the USD of its answers in the journal and how many have no known price; `ended`: rows hold them too."""
    jobs: dict[str, list[Any]] = {}
    for job, ended, payload in journal.read_kept(folder):
        usd = payload["row"].get("cost_usd")
        entry = jobs.setdefault(job, [ended, 0.0, 0])
        entry[1] += usd or 0.0
        entry[2] += usd is None
    schema = {"run_id": pl.String, "ended": pl.Boolean, "kept": pl.Float64, "kept_unknown": pl.Int64}
    return pl.DataFrame([(job, *entry) for job, entry in jobs.items()], schema=schema, orient="row")


def _cost_so_far(study: Any, runs: pl.DataFrame, kept: pl.DataFrame) -> dict[str, Any]:
    """`usd`, `unpriced_calls` and `unpriced_runs`; an answer that stands in more than one place is counted once.

    A run's own sum says what its calls cost, unless one of them has no known cost: only then they are read. Data that
    was imported may have costs and no calls, or neither.
    """
    partly = runs.filter(pl.col("cost_usd_team").is_null() & (pl.col("status") != "gated_out"))["run_id"]
    second = pl.col("seat").str.contains(_SECOND_LOOK).alias("second")
    unknown = pl.col("cost_usd").is_null() & pl.col("error").is_null()
    paid = study.calls.filter(second | pl.col("run_id").is_in(partly.implode()))
    sums = (pl.col("cost_usd").sum().alias("paid"), unknown.cast(pl.Int64).sum().alias("unknown"))
    calls = store.collect(paid.group_by("run_id", second).agg(*sums), study.path)
    looks, own = calls.filter("second"), calls.filter(~pl.col("second")).drop("second")

    kept = kept.filter(~pl.col("ended") | pl.col("run_id").is_in(runs["run_id"].implode()))
    each = runs.join(own, on="run_id", how="left").join(kept, on="run_id", how="full", coalesce=True)
    calls_unknown = pl.max_horizontal("unknown", "kept_unknown").fill_null(0)
    no_calls = pl.col("run_id").is_in(partly.implode()) & pl.col("unknown").is_null()
    found = each.select(
        usd=pl.max_horizontal("cost_usd_team", "paid", "kept").sum(),
        calls=calls_unknown.sum(),
        runs=(no_calls | (pl.col("status").is_not_null() & (calls_unknown > 0))).sum(),
    ).row(0, named=True)
    return {
        "usd": float(found["usd"] + looks["paid"].sum()),
        "unpriced_calls": int(found["calls"] + looks["unknown"].sum()),
        "unpriced_runs": int(found["runs"]),
    }
