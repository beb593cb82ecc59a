"""Which model of rows and tasks predicts better, and what neither reproduces: LOO and posterior predictive checks.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing. The models are sampled by
`cilab.stats.methods.bayes`, which takes minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.results.arguments import Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, number, signed
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import predictive
from cilab.stats.methods.predictive import Predicted
from cilab.stats.methods.row_task_model import Trials
from cilab.stats.teamwork.fill_in import trials_of
from cilab.stats.teamwork.grid import Grid, Scope, grid

#: The models by the number of parameters of a task.
MODELS = {"one parameter": 1, "two parameters": 2}
#: Data sets drawn from each posterior.
REPLICATES = 500


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelCheckResult(Result):
    """How well each model predicts, and how the data differ from what it draws.

    Attributes
    ----------
    table : one line per model, best first: `model, elpd, elpd_se` (expected log predictive density of a new run of the
        data, a sum over cells), `difference, difference_se` (from the best), `p_loo`, `n_cells, n_unreliable` (Pareto
        k above 0.7), `no_estimate`.
    checks : one line per model, statistic and unit: `model, statistic` (row score, task score, pair odds, repeat
        disagreement), `unit, observed, expected, lo, hi` (95 % of the drawn data sets), `p`.
    summary : per model and statistic `n, outside_pct`: how many lie outside those ends; about 5 or less is what fits.
    diagnostics : model -> what the chains say. A model whose chains fail has neither LOO nor checks.
    """

    checks: pl.DataFrame
    summary: pl.DataFrame
    diagnostics: Mapping[str, Any]
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = None
    title: ClassVar[str] = "Models of rows and tasks, checked"

    def sheet(self) -> Sheet:
        """One line per model: LOO, difference, and the share of each statistic outside what the model draws."""
        lines = []
        for r in self.table.iter_rows(named=True):
            own = self.summary.filter(pl.col("model") == r["model"])
            outside = {
                f"{s.capitalize()} outside (%)": number(x, 1, NONE)
                for s, x in own.select("statistic", "outside_pct").rows()
            }
            lines.append(
                {
                    "Model": r["model"],
                    "elpd (LOO)": number(r["elpd"], 1, NONE),
                    "Difference": NONE
                    if r["difference"] is None
                    else f"{signed(r['difference'])} (se {number(r['difference_se'])})",
                    "Parameters, effective": number(r["p_loo"], 1, NONE),
                    "Unreliable cells": NONE if r["n_unreliable"] is None else str(r["n_unreliable"]),
                }
                | outside
                | {"Remarks": r["no_estimate"] or ""}
            )
        return self.on_sheet(pl.DataFrame(lines, infer_schema_length=None).fill_null(NONE), stub="Model")

    def notes(self) -> list[str]:
        """As in `Result`, with what the chains say."""
        out = super().notes()
        chains = [f"{name.capitalize()}: {found.line()}" for name, found in self.diagnostics.items()]
        return [*out[:-1], *self.remarks, *chains, out[-1]]


@estimator
def model_check(
    study: Any,
    *,
    replicates: Resamples = REPLICATES,
    seed: Seed = 0,
    sampler: Mapping[str, Any] | None = None,
    **scope: Unpack[Scope],
) -> ModelCheckResult:
    """Compare the model of one parameter a task with that of two, and hold both against the data.

    Both are sampled by Markov chain Monte Carlo. Leave-one-out cross-validation is approximated by Pareto-smoothed
    importance sampling; what is left out is a cell, a row on a task with all its runs. Data sets drawn from the
    posterior give what the model expects of row scores, task scores, the odds that two tasks go together, and the
    disagreement of repeats. A difference below twice its error decides nothing.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set; at least 2 rows and 2 tasks.
    replicates : data sets drawn from each posterior.
    seed : of sampler and replicates.
    sampler : `draws, tune, chains, cores` (see `cilab.stats.methods.bayes.sample`).
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; no number here rests on `cluster`.

    Returns
    -------
    ModelCheckResult
        With failing diagnostics of a model all its numbers are null, with the reason.

    Raises
    ------
    TableError
        Fewer than 2 rows or 2 tasks have a score; published task ids; or as in `grid`.

    References
    ----------
    Vehtari, Gelman & Gabry (2017), Statistics and Computing 27; Gelman, Meng & Stern (1996); Sinharay (2005) for odds
    ratios of pairs.
    """
    from cilab.stats.methods import bayes

    g = grid(study, **scope)
    g.need_known_tasks("model_check")
    g, trials = _with_scores(g)
    posteriors = {
        name: bayes.sample(trials, parameters=n, seed=seed, **(sampler or {}))  # type: ignore[arg-type]
        for name, n in MODELS.items()
    }
    rng = np.random.default_rng([seed, 1])
    table, checks, summary = checked(g, trials, posteriors, replicates, rng)
    return ModelCheckResult(
        table=table,
        checks=checks,
        summary=summary,
        diagnostics={name: p.diagnostics for name, p in posteriors.items()},
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Over {trials.runs.shape[0]} rows and {trials.runs.shape[1]} tasks. elpd: higher is better. Outside: "
            "share of the data's statistics beyond 95 % of those drawn from the model."
        ),
    )


def _with_scores(g: Grid) -> tuple[Grid, Trials]:
    """Rows and tasks that have a score."""
    rows, tasks = (np.asarray(g.scored.any(axis=of), dtype=bool) for of in (1, 0))
    if min(rows.sum(), tasks.sum()) < 2:
        raise TableError(
            f"model_check compares how rows do on tasks; {int(rows.sum())} rows and {int(tasks.sum())} tasks with a "
            "score are too few, it takes 2 of each"
        )
    g = g.take(np.flatnonzero(rows).tolist()).where(tasks)
    return g, trials_of(g)


def checked(
    g: Grid, trials: Trials, posteriors: Mapping[str, Any], replicates: int, rng: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """`table, checks, summary` of posteriors that were sampled from `trials`, by name."""
    from cilab.stats.methods import bayes

    loo, parts = {}, []
    for name, posterior in posteriors.items():
        if not posterior.diagnostics.sound:
            continue
        loo[name] = bayes.leave_one_out(posterior, trials)
        n_draws = len(posterior.draws.level)
        picks = rng.choice(n_draws, size=replicates, replace=n_draws < replicates)
        logits = bayes.logits_of(posterior, trials.dimensions, picks)
        statistics = [
            predictive.row_scores,
            predictive.task_scores,
            predictive.pair_odds(trials.dimensions),
            predictive.repeat_disagreement(trials.dimensions),
        ]
        found = predictive.predict(logits, trials, statistics, rng)
        parts += _lines(name, g, found)
    checks = pl.DataFrame(parts, schema=_CHECKS, orient="row")
    return _table(posteriors, loo, int((trials.runs > 0).sum())), checks, _summary(checks)


_STATISTICS = ("row score", "task score", "pair odds", "repeat disagreement")
_CHECKS = {"model": pl.String, "statistic": pl.String, "unit": pl.String} | dict.fromkeys(
    ("observed", "expected", "lo", "hi", "p"), pl.Float64
)


def _lines(model: str, g: Grid, found: Sequence[Predicted]) -> list[tuple[Any, ...]]:
    ids = g.tasks["task_id"].to_list()
    pairs = [
        f"{ids[at.start + a]} and {ids[at.start + b]}"
        for at in g.slices
        for a, b in zip(*np.triu_indices(at.stop - at.start, 1), strict=True)
    ]
    out = []
    for statistic, units, values in zip(_STATISTICS, (g.names, ids, pairs, g.dimensions), found, strict=True):
        for unit, *numbers in zip(units, *values, strict=True):
            if np.isfinite(numbers[0]):
                out.append((model, statistic, unit, *map(float, numbers)))
    return out


def _summary(checks: pl.DataFrame) -> pl.DataFrame:
    # A statistic of whole counts may equal an end, which is inside.
    inside = (pl.col("lo") - 1e-9 <= pl.col("observed")) & (pl.col("observed") <= pl.col("hi") + 1e-9)
    share = (100 * (~inside).cast(pl.Float64)).mean().alias("outside_pct")
    return checks.group_by("model", "statistic", maintain_order=True).agg(pl.len().cast(pl.Int64).alias("n"), share)


def _table(posteriors: Mapping[str, Any], loo: Mapping[str, Any], n_cells: int) -> pl.DataFrame:
    best = max(loo, key=lambda name: loo[name].elpd) if loo else None
    order = [*sorted(loo, key=lambda name: -loo[name].elpd), *(n for n in posteriors if n not in loo)]
    lines: list[tuple[Any, ...]] = []
    for name in order:
        found = loo.get(name)
        if found is None or best is None:
            problems = "; ".join(posteriors[name].diagnostics.problems)
            lines.append((name, *[None] * 5, n_cells, None, f"chains cannot be trusted: {problems}"))
            continue
        away = found.pointwise - loo[best].pointwise
        error = None if name == best else float(np.sqrt(len(away)) * away.std(ddof=1))
        lines.append(
            (
                *(name, found.elpd, found.se, None if name == best else float(away.sum()), error),
                *(found.p_loo, n_cells, found.n_unreliable, None),
            )
        )
    schema = {"model": pl.String, "elpd": pl.Float64, "elpd_se": pl.Float64, "difference": pl.Float64}
    schema |= {"difference_se": pl.Float64, "p_loo": pl.Float64, "n_cells": pl.Int64, "n_unreliable": pl.Int64}
    return pl.DataFrame(lines, schema=schema | {"no_estimate": pl.String}, orient="row")
