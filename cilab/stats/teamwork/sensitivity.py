"""What a leaderboard hangs on: scores and ranks with other choices on refusals, missing runs, gate and dimensions.

May import `cilab.core`, `cilab.results` and its own folder. Scores nothing: each scenario is a grid with other
arguments, or the dimension scores of the grid as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Seed
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, number
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.hypothesis_tests import kendall_tau_b
from cilab.stats.teamwork.fill_in import fill_in
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks

#: What `of` is for the overall score; else it is the name of a dimension.
LEADERBOARD = "leaderboard"
AS_IS, FILL_IN = "as is", "fill-in"
#: Scenarios that are the grid with one other argument.
_ARGUMENTS: Mapping[str, tuple[str, Any]] = {
    "common tasks": ("common_tasks", True),
    "refused = fail": ("refused", "fail"),
    "missing = fail": ("missing", "fail"),
    "missing = pass": ("missing", "pass"),
    "gate on": ("gate", "solved_alone"),
    "gate off": ("gate", "off"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Sensitivity(Result):
    """Scores and ranks of every row in every scenario.

    Attributes
    ----------
    table : see `sensitivity`.
    scenarios : one line per scenario: `scenario, n_rows` (with a score), `note` (how much there is to count otherwise),
        `tau` (Kendall's tau-b of its scores with those as they are, over the rows that have both),
        `largest_change_points` (signed, of any row), `n_rank_changes` (rows), `reason` (why there is no score or no
        tau).
    summary : one line per row: `model, effort, arm, score_pct, rank` (as they are), `best_rank, worst_rank` with
        `best_in, worst_in` (the first scenario with that rank), `lowest_pct, highest_pct`, `n_scenarios` (of ranks:
        those that score every row that is scored as is).
    remarks : sentences on what a reader must know.
    """

    scenarios: pl.DataFrame
    summary: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "sensitivity"
    title: ClassVar[str] = "What the leaderboard hangs on"

    def sheet(self) -> Sheet:
        """One line per row: rank and score as they are, and the least and the greatest over all scenarios."""
        lines = [
            {
                "Rank": number(r["rank"], 0),
                "Row": name,
                "Score (%)": number(r["score_pct"], missing=NONE),
                "Ranks": _span(r["best_rank"], r["worst_rank"], 0),
                "Best in": _where(r["best_in"]),
                "Worst in": _where(r["worst_in"]),
                "Scores (%)": _span(r["lowest_pct"], r["highest_pct"], 1),
            }
            for name, r in zip(names_of(self.summary), self.summary.iter_rows(named=True), strict=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, with how close each scenario's order is to the order as it is."""
        out = super().notes()
        told = self.scenarios.filter((pl.col("scenario") != AS_IS) & pl.col("tau").is_not_null()).sort("tau")
        if told.height:
            taus = [f"{name} {tau:.2f}" for name, tau in told.select("scenario", "tau").head(3).iter_rows()]
            out.insert(-1, f"Kendall's tau with the order as it is, lowest first: {', '.join(taus)}.")
        for name, reason in self.scenarios.filter(pl.col("n_rows") == 0).select("scenario", "reason").iter_rows():
            out.insert(-1, f"No score for {name}: {reason}.")
        return [*out[:-1], *self.remarks, out[-1]]


def _span(low: float | None, high: float | None, decimals: int) -> str:
    if low is None or high is None:
        return NONE
    ends = [number(v, decimals) for v in (low, high)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _where(scenario: str | None) -> str:
    return NONE if scenario is None else scenario.replace("_", " ")


@dataclass(frozen=True, slots=True)
class _Scenario:
    """Scores of the rows (fractions, NaN where undefined), the tasks that they rest on, and why there are none."""

    name: str
    scores: Array
    n_tasks: Array
    reasons: list[str | None]
    note: str | None = None


@estimator
def sensitivity(
    study: Any,
    *,
    of: str = LEADERBOARD,
    skip_undefined: bool = False,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> Sensitivity:
    """Score and rank of every row as it is, and under other assumptions, one at a time.

    Scenarios: `as is`; `common tasks` (those that every row has scored); `refused = fail`, `missing = fail` and
    `missing = pass` (see `grid`: what is out is counted instead); `fill-in` (tests not taken, by the model of
    `cilab.fill_in`); `gate off`, or `gate on` where it is off; `first run` (of each task its run of the lowest seed
    only, where a task has several); and `without` each dimension in turn. A choice that was made already is left out.
    Rows whose order survives all of them do not owe their place to a choice. Between `missing = fail` and `missing =
    pass` lies what the missing runs could have brought, had their tasks counted.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    of : `leaderboard` for overall scores, or the name of a dimension.
    skip_undefined : as in `cilab.leaderboard`.
    seed : of the folds of the fill-in.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing :
        see `cilab.stats.teamwork.grid.grid`; they settle what is `as is`.

    Returns
    -------
    Sensitivity
        `.table`, one line per scenario and row, rows best first: `scenario, row, model, effort, arm, score_pct, rank`
        (shared by equal scores), `change_points` (from the score as it is), `rank_change` (positive: lower; among the
        rows that have both scores), `n_tasks` (which the score rests on), `reason` (why there is no score, else null).

    Raises
    ------
    TableError
        `of` names no dimension, or as in `grid`.

    References
    ----------
    For the bounds by missing outcomes: Manski (2003), Partial Identification of Probability Distributions, chapter 1.
    Gate, refusals and the mean over dimensions: collaborative-intelligence paper, section 2.3.

    Examples
    --------
    >>> from cilab.datasets import hand_worked_round
    >>> result = sensitivity(hand_worked_round())
    >>> result.table.filter(model="sim:H2", scenario="refused = fail")["score_pct"].round(2).to_list()
    [45.83]
    """
    if of != LEADERBOARD:
        scope = {**scope, "dimensions": [of]}
    g = grid(study, **scope)
    found = list(_scenarios(study, g, dict(scope), skip_undefined, seed))
    order = np.argsort(-np.nan_to_num(found[0].scores, nan=-1.0), kind="stable").tolist()
    table = pl.concat([_lines(g, s, found[0], order) for s in found])
    every = [s for s in found if np.isfinite(s.scores[np.isfinite(found[0].scores)]).all()]
    return Sensitivity(
        table=table,
        scenarios=pl.DataFrame([_scenario_line(s, found[0], table) for s in found], schema=_SCENARIOS),
        summary=_summary(table, g.rows.select(ROW)[order], [s.name for s in every]),
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={**g.asked, "of": of},
        caption=(
            f"{'Overall score' if of == LEADERBOARD else f'Score in {of}'} in percent and rank as they are, and their "
            f"range over {len(found)} scenarios, each with one choice made otherwise."
        ),
    )


# -- scenarios --------------------------------------------------------------------------------------------


def _scenarios(study: Any, g: Grid, scope: dict[str, Any], skip: bool, seed: int) -> Iterator[_Scenario]:
    """As is first, then all others that can make a difference or say why there are none."""
    points = g.points()
    yield _scored(AS_IS, g, points, skip)
    settled = {"common_tasks": False, "refused": "out", "missing": "out", **scope, "gate": g.gate}
    for name, (argument, value) in _ARGUMENTS.items():
        if settled[argument] == value or (name == "gate on" and g.version == "alone"):
            continue
        try:
            other = grid(study, **{**scope, argument: value})
        except TableError as e:
            yield _none(name, g, str(e))
            continue
        yield replace(_scored(name, other, other.points(), skip), note=_note(argument, g, other))
    yield _filled(study, g, scope, seed)
    if ((~np.isnan(g.by_seed)).sum(axis=2)[g.scored] > 1).any():
        yield _scored("first run", _first_run(g), _first_run(g).points(), skip)
    for d, name in enumerate(g.dimensions):
        if len(g.dimensions) > 1:
            part = g.where((g.tasks["dimension"] != name).to_numpy())
            yield _scored(f"without {name}", part, np.delete(points, d, axis=1), skip)


def _note(argument: str, g: Grid, other: Grid) -> str | None:
    """How much there is to count otherwise."""
    if argument == "common_tasks":
        return f"{other.tasks.height} tasks that every row has scored"
    if argument == "refused":
        return f"{g.refused.sum():,} refused tasks"
    if argument == "missing":
        return f"{g.missing.sum():,} incomplete tasks"
    if g.gate == "off":
        return None
    failed = g.decided & ~g.solved & ~g.refused
    return f"{failed.sum():,} tasks failed alone, {(failed & ~other.scored).sum():,} of them without a {g.version} run"


def _scored(name: str, g: Grid, points: Array, skip: bool) -> _Scenario:
    scores = bootstrap.overall_means(points, skip_undefined=skip)
    gone = [[d for d, p in zip(g.dimensions, line, strict=True) if np.isnan(p)] for line in points]
    reasons = [
        f"no scored task in {', '.join(dims)}" if np.isnan(score) else None
        for score, dims in zip(scores, gone, strict=True)
    ]
    return _Scenario(name, scores, g.scored.sum(axis=1), reasons)


def _none(name: str, g: Grid, reason: str) -> _Scenario:
    n = g.rows.height
    return _Scenario(name, np.full(n, np.nan), np.zeros(n, np.int64), [reason] * n)


def _filled(study: Any, g: Grid, scope: Mapping[str, Any], seed: int) -> _Scenario:
    try:
        # Only the scores are asked for: percentiles of a few resamples cost least.
        filled = fill_in(study, fill="both", interval="percentile", resamples=20, seed=seed, **scope).table
    except TableError as e:
        return _none(FILL_IN, g, str(e))
    if not filled["n_filled"].sum():
        return _none(FILL_IN, g, "no task was failed alone or lacks a run: nothing to fill in")
    lines = g.rows.select(ROW).join(filled, on=list(ROW), how="left", nulls_equal=True, maintain_order="left")
    scores = lines["adjusted_pct"].cast(pl.Float64).fill_null(np.nan).to_numpy() / 100
    reasons = [None if there else "no adjusted score" for there in np.isfinite(scores)]
    n_tasks = (lines["n_scored"] + lines["n_filled"]).fill_null(0).to_numpy()
    return _Scenario(FILL_IN, scores, n_tasks, reasons, f"{filled['n_filled'].sum()} tasks filled in")


def _first_run(g: Grid) -> Grid:
    """Of each task its run of the lowest seed."""
    first = np.argmax(~np.isnan(g.by_seed), axis=2)[:, :, None]
    return replace(g, by_seed=np.take_along_axis(g.by_seed, first, axis=2), seeds=g.seeds[:1])


# -- tables -----------------------------------------------------------------------------------------------


def _lines(g: Grid, scenario: _Scenario, base: _Scenario, order: list[int]) -> pl.DataFrame:
    """One scenario of the table, rows in the order as they are."""
    change = 100 * (scenario.scores - base.scores)
    both = np.isfinite(change)
    ranks = [shared_ranks(np.where(both, s.scores, np.nan)) for s in (scenario, base)]
    moved = [None if a is None or b is None else a - b for a, b in zip(*ranks, strict=True)]
    lines = g.rows.select(pl.lit(scenario.name).alias("scenario"), "row", *ROW).with_columns(
        pl.Series("score_pct", 100 * scenario.scores).fill_nan(None),
        pl.Series("rank", shared_ranks(scenario.scores), dtype=pl.Int64),
        pl.Series("change_points", np.where(np.abs(change) < 1e-9, 0.0, change)).fill_nan(None),
        pl.Series("rank_change", moved, dtype=pl.Int64),
        pl.Series("n_tasks", scenario.n_tasks, dtype=pl.Int64),
        pl.Series("reason", scenario.reasons, dtype=pl.String),
    )
    return lines[order]


_SCENARIOS = {
    "scenario": pl.String,
    "n_rows": pl.Int64,
    "note": pl.String,
    "tau": pl.Float64,
    "largest_change_points": pl.Float64,
    "n_rank_changes": pl.Int64,
    "reason": pl.String,
}


def _scenario_line(scenario: _Scenario, base: _Scenario, table: pl.DataFrame) -> dict[str, Any]:
    own = table.filter(pl.col("scenario") == scenario.name)
    changes = own["change_points"].drop_nulls()
    both = np.isfinite(scenario.scores) & np.isfinite(base.scores)
    test = kendall_tau_b(scenario.scores[both], base.scores[both]) if both.sum() > 1 else None
    n_rows = int(np.isfinite(scenario.scores).sum())
    no_tau = "fewer than two rows" if test is None else test.reason
    return {
        "scenario": scenario.name,
        "n_rows": n_rows,
        "note": scenario.note,
        "tau": None if test is None else test.estimate,
        "largest_change_points": changes[int(changes.abs().arg_max())] if changes.len() else None,  # type: ignore[arg-type]
        "n_rank_changes": int((own["rank_change"].fill_null(0) != 0).sum()),
        "reason": next(filter(None, scenario.reasons), None) if n_rows == 0 else no_tau,
    }


def _summary(table: pl.DataFrame, rows: pl.DataFrame, ranked: list[str]) -> pl.DataFrame:
    """Range of ranks and scores of each row; ranks of the scenarios `ranked` only, as fewer rows have better ranks."""
    out = []
    for key in rows.iter_rows():
        own = table.filter(*(pl.col(c).eq_missing(pl.lit(v)) for c, v in zip(ROW, key, strict=True)))
        base = own.row(0, named=True)
        there = own.filter(pl.col("scenario").is_in(ranked) & pl.col("rank").is_not_null())
        ends = {end: there.filter(pl.col("rank") == getattr(there["rank"], end)()) for end in ("min", "max")}
        best, worst = (e.row(0, named=True) if e.height else {"rank": None, "scenario": None} for e in ends.values())
        out.append(
            dict(zip(ROW, key, strict=True))
            | {"score_pct": base["score_pct"], "rank": base["rank"]}
            | {"best_rank": best["rank"], "worst_rank": worst["rank"]}
            | {"best_in": best["scenario"], "worst_in": worst["scenario"]}
            | {"lowest_pct": own["score_pct"].min(), "highest_pct": own["score_pct"].max(), "n_scenarios": there.height}
        )
    ranks: dict[str, Any] = dict.fromkeys(("rank", "best_rank", "worst_rank"), pl.Int64)
    texts = dict.fromkeys((*ROW, "best_in", "worst_in"), pl.String)
    numbers = dict.fromkeys(("score_pct", "lowest_pct", "highest_pct"), pl.Float64)
    return pl.DataFrame(out, schema_overrides=ranks | texts | numbers)
