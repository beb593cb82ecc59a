"""What a study would do and cost, before it is played. Calls nothing, writes nothing.

May import `cilab.running.load` and `study_file`, `cilab.store` and `cilab.core`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cilab import store
from cilab.core import registry
from cilab.running.load import folder_of, label, load_study
from cilab.running.study_file import Plan
from cilab.store import journal

#: Seconds that a call is expected to take, for the dry run's estimate of time.
_SECONDS_PER_CALL = 6.0


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
    plan = load_study(path, scale)
    behind_url = out is not None and "://" in os.fspath(out)
    folder = store.Mirror(os.fspath(out)).folder if behind_url else folder_of(plan, out)
    done: set[str] = set()
    if known := folder.is_dir():
        done = store.finished_jobs(folder)
        again = journal.PROVISIONAL if not gate else ("error",)
        done |= {job for job, status, _ in journal.read_finished(folder) if status not in again}
    sums: dict[str, list[list[float]]] = {}
    run_ids, finished = [], 0
    for benchmark, spec in plan.specs(gate=gate, limit=limit):
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
    return _summed(plan, tuple(run_ids), finished if known or not behind_url else None, sums)


def _summed(
    plan: Plan, run_ids: tuple[str, ...], finished: int | None, sums: Mapping[str, list[list[float]]]
) -> StudyForecast:
    by_model, unpriced = [], []
    usd = [0.0] * 3
    for name, (calls, tokens_in, tokens_out) in sorted(sums.items()):
        costs = [_cost(plan, name, i, o) for i, o in zip(tokens_in, tokens_out, strict=True)]
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
    width = min(plan.file.concurrency, 8 * max(1, len(paid)))
    hours = tuple(sum(c[case] for c in paid) * _SECONDS_PER_CALL / width / 3600 for case in range(3))
    return StudyForecast(
        study=label(plan),
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


def _cost(plan: Plan, name: str, tokens_in: float, tokens_out: float) -> float | None:
    if name.startswith(("sim/", "local/")):
        return 0.0
    settings = plan.file.models.get(name)
    if settings and settings.price:
        return (tokens_in * settings.price.input + tokens_out * settings.price.output) / 1e6
    return registry.cost_usd(name, round(tokens_in), round(tokens_out), 0)
