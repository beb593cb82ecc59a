"""The collaboration gap: how much a model loses when it must solve a maze with a copy of itself.

May import `cilab.core` and `cilab.results.result`. Scores nothing that was not played to its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import polars as pl

from cilab.core.errors import TableError
from cilab.core.frames import read_rows
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level
from cilab.results.estimator import estimator
from cilab.results.names import row_names
from cilab.results.numbers import Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.maze.rows import (
    NO_OUTCOME,
    OUTCOMES,
    PAPER_MAZES,
    STATUS_REASONS,
    Density,
    check_models,
    copies,
    count_reasons,
    mark_doubles,
    maze_text,
    typed,
)
from cilab.stats.methods.means import mean_interval, z_of

#: The three settings of figure 4.1, from the easiest on.
SETTINGS = ("solo_full", "solo_distributed", "pair")
SETTING_NAMES = {"solo_full": "Solo, full map", "solo_distributed": "Solo, distributed map", "pair": "Pair of copies"}


_TABLE_SCHEMA = {
    "row": pl.String,
    "model": pl.String,
    "effort": pl.String,
    "arm": pl.String,
    "setting": pl.String,
    "n": pl.Int64,
    "n_left_out": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
}
_GAPS_SCHEMA = {
    "row": pl.String,
    "model": pl.String,
    "effort": pl.String,
    "arm": pl.String,
    **{
        f"{what}{part}": pl.Boolean if part == "_reported" else pl.Float64
        for what in ("degradation", "gap")
        for part in ("", "_se", "_lo", "_hi", "_reported")
    },
}


@dataclass(frozen=True, kw_only=True, repr=False)
class GapResult(Result):
    """Outcome per model in the three settings, and the two differences between them.

    Attributes
    ----------
    table : one row per model and setting, models in order of their pair mean, best first: `row` (name in figures),
        `model, effort, arm, setting`, `n` (rollouts scored), `n_left_out` (rollouts of this cell that have no
        score), `mean`, `se`, `lo`, `hi` (fractions; null where n is too small).
    gaps : one row per model, same order: `degradation` = solo full - solo distributed, `gap` = solo distributed -
        pair (both positive when performance drops), each with `_se`, `_lo`, `_hi` and `_reported`: True where the
        intervals of the two means separate in the direction of a drop, null where one of them is missing.
    chance_floor : mean outcome of the same moves in random order, graded alike, over the `chance_n` used rollouts that
        have it (`cilab regrade DATA --with rules` computes it). The best of many schemes counts, so it lies above 0.
        None where no rollout has it.
    """

    gaps: pl.DataFrame
    chance_floor: float | None = None
    chance_n: int = 0

    figure: ClassVar[str | None] = "gap"
    title: ClassVar[str] = "Collaboration gap"

    @property
    def rows(self) -> list[str]:
        """Names of the models in order, best pair first."""
        return self.gaps["row"].to_list()

    def cell(self, row: str, setting: str) -> dict[str, Any] | None:
        """The line of `.table` for one model and setting, or None where nothing was collected."""
        found = self.table.filter((pl.col("row") == row) & (pl.col("setting") == setting))
        return found.row(0, named=True) if found.height else None

    def sheet(self) -> Sheet:
        """One line per model: mean ± half-width (n), and the two differences; * where reported."""
        lines = []
        for gap_row in self.gaps.iter_rows(named=True):
            cells = {s: self.cell(gap_row["row"], s) for s in SETTINGS}
            line = {"Model": gap_row["row"]}
            line |= {SETTING_NAMES[s].replace("distributed map", "distributed"): _mean_text(cells[s]) for s in SETTINGS}
            line |= {"Degradation": _drop_text(gap_row, "degradation"), "Collaboration gap": _drop_text(gap_row, "gap")}
            line["Left out"] = str(sum(c["n_left_out"] for c in cells.values() if c) or "")
            lines.append(line)
        return self.on_sheet(without_blanks(pl.DataFrame(lines), ["Left out"]))


@estimator
def gap(
    runs: Any,
    *,
    outcome: Literal["weighted_outcome", "success"] = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    models: Sequence[str] | None = None,
    ci_level: Level = CI_LEVEL,
) -> GapResult:
    """Mean outcome with its interval, solo with the full map, solo with the distributed map, and as a pair of copies.

    The estimator is the paper's: per model and setting the mean over rollouts; its standard error sd / sqrt(n) with
    n - 1 in the sd; and the normal interval mean ± z x se (z = 1.96 at 0.95), not clipped to the outcome's range. A
    pair is one model at one reasoning setting on both seats (`version == "pair"`, `partner_model == model` and
    `partner_effort == effort`). The degradation from the full to the distributed map is reported only where the two
    intervals separate; so is the collaboration gap, from the distributed map to the pair. Rollouts count as
    independent: that settings share mazes is not used, so the intervals of the two differences (root of the summed
    squared standard errors) are rather wide than narrow.

    Parameters
    ----------
    runs : DataFrame or LazyFrame (polars), DataFrame (pandas), or an opened study; the runs table, or at least the
        columns `version, model, partner_model, status` and the outcome. In a table without `partner_effort` a copy
        has the `effort` of its model.
    outcome : `weighted_outcome` (fraction, at most 1, may be negative) or `success` (true or false).
    maze_size : cells along a side. None: see below.
    wall_density : fraction of cells. None: with several (size, density) in the data, the most frequent one is used
        (on a tie the paper's 6 and 0.30) and the others are counted in `n_left_out`.
    models : names to keep; None keeps all.
    ci_level : a fraction between 0 and 1.

    Returns
    -------
    GapResult
        Models in order of the pair mean. Rollouts that were refused, gated out, ended in an error or have no outcome
        are never scored as 0: they are left out and counted. With n = 1 the mean stands without interval; with
        n = 0 the model stands without mean. Same outcome in all rollouts of a cell gives an interval of width 0.

    Raises
    ------
    TableError
        A column is missing, a value is outside its range (percentages, an outcome above 1), a filter leaves nothing, or
        two scored runs are of one agent, arm, maze, version and seed.

    References
    ----------
    Collaboration-gap paper, section 4.1, figure 4.1 and appendix A (intervals from standard errors).

    Examples
    --------
    >>> import polars as pl
    >>> versions, outcomes = ["solo_distributed"] * 2 + ["pair"] * 2, [1.0, 0.8, 0.5, 0.3]
    >>> runs = pl.DataFrame({"version": versions, "model": "m", "partner_model": "m", "status": "ok",
    ...                      "weighted_outcome": outcomes})
    >>> gap(runs).gaps["gap"].round(3).to_list()
    [0.5]
    """
    rows, provenance = read_rows(
        runs,
        required=("version", "model", "partner_model", "status", outcome),
        optional=(
            *("benchmark", "effort", "partner_effort", "arm", "maze_size", "wall_density"),
            *("run_id", "task_id", "seed"),
        ),
    )
    rows = typed(rows, outcome, runs)
    check_models(rows, models, ("model",))
    mazes = _mazes(rows, models, maze_size, wall_density)
    rows = rows.with_columns(_reason(models, mazes).alias("reason"))
    rows = mark_doubles(rows)
    cells = rows.filter(pl.col("reason").is_null() | pl.col("reason").is_in([*STATUS_REASONS.values(), NO_OUTCOME]))
    used = cells.filter(pl.col("reason").is_null())
    left_out = count_reasons(rows)
    if used.height == 0:
        raise TableError(f"runs: no scored solo or same-model pair rollout of a maze; left out: {_listed(left_out)}")
    table, gaps = _estimate(cells, ci_level)
    floor, floor_n = _chance(runs, used, outcome)
    return GapResult(
        table=table,
        gaps=gaps,
        n_used=used.height,
        n_left_out=left_out,
        provenance=provenance,
        parameters={"maze_size": mazes[0], "wall_density": mazes[1]},
        caption=_caption(outcome, mazes, ci_level) + _chance_words(floor, floor_n),
        chance_floor=floor,
        chance_n=floor_n,
    )


def _in_scope(models: Sequence[str] | None) -> pl.Expr:
    """Solo rollouts and pairs of copies of the wanted models, in mazes."""
    scope = pl.col("benchmark").fill_null("maze").eq("maze") & pl.col("version").is_in(SETTINGS)
    scope &= pl.col("version").ne("pair") | copies()
    return scope if models is None else scope & pl.col("model").is_in(list(models))


def _mazes(
    rows: pl.DataFrame, models: Sequence[str] | None, size: int | None, density: float | None
) -> tuple[int | None, float | None]:
    """The (size, density) to keep: as asked for, else the most frequent one."""
    counts = rows.filter(_in_scope(models)).group_by("maze_size", "wall_density").len().rows()
    fits = [
        (n, (s, d))
        for s, d, n in counts
        if (size is None or s == size)
        and (density is None or (d is not None and math.isclose(d, density, abs_tol=1e-6)))
    ]
    if counts and not fits:
        there = ", ".join(sorted(_maze_text((s, d)) for s, d, _ in counts))
        raise TableError(f"no rollouts in {_maze_text((size, density))}; these runs hold {there}")
    paper = tuple(PAPER_MAZES.values())
    best = max(fits, key=lambda f: (f[0], f[1] == paper, *(-(v or 0) for v in f[1])), default=None)
    return best[1] if best else (size, density)


def _reason(models: Sequence[str] | None, mazes: tuple[int | None, float | None]) -> pl.Expr:
    """Why a row is left out; null where it is used. The first reason that fits counts."""
    partner, version = pl.col("partner_model"), pl.col("version")
    reason = (
        pl.when(pl.col("benchmark").fill_null("maze") != "maze")
        .then(pl.lit("of another benchmark"))
        .when(version == "relay")
        .then(pl.lit("relay rollouts"))
        .when(~version.is_in(SETTINGS))
        .then(pl.lit("of another version"))
        .when((version == "pair") & partner.is_null())
        .then(pl.lit("pairs without a partner named"))
        .when((version == "pair") & (partner != pl.col("model")))
        .then(pl.lit("pairs of two different models"))
        .when((version == "pair") & ~copies())
        .then(pl.lit("pairs of one model at two reasoning settings"))
        .when(~_in_scope(models))
        .then(pl.lit("of models not asked for"))
        .when(~(pl.col("maze_size").eq_missing(mazes[0]) & pl.col("wall_density").eq_missing(mazes[1])))
        .then(pl.lit(f"in other mazes than {_maze_text(mazes)}"))
    )
    for status, words in STATUS_REASONS.items():
        reason = reason.when(pl.col("status") == status).then(pl.lit(words))
    return reason.when(pl.col("value").is_null()).then(pl.lit(NO_OUTCOME)).otherwise(None)


def _estimate(cells: pl.DataFrame, ci_level: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two tables, from the rows of every cell, scored or not."""
    z = z_of(ci_level)
    grouped = cells.group_by(*ROW, "version").agg(
        pl.col("value").filter(pl.col("reason").is_null()), pl.col("reason").is_not_null().sum().alias("lost")
    )
    found: dict[tuple, dict[str, dict[str, Any]]] = {}
    for model, effort, arm, version, values, lost in grouped.iter_rows():
        estimate = mean_interval(values, z) | {"n_left_out": lost}
        found.setdefault((model, effort, arm), {})[version] = estimate
    names = row_names(list(found))
    order = sorted(found, key=lambda key: (*_rank(found[key]), names[key]))
    table, gaps = [], []
    for key in order:
        head = {"row": names[key], **dict(zip(ROW, key, strict=True))}
        settings = {s: found[key][s] for s in SETTINGS if s in found[key]}
        table += [{**head, "setting": s, **estimate} for s, estimate in settings.items()]
        full, distributed, pair = (settings.get(s) for s in SETTINGS)
        gaps.append(head | _drop("degradation", full, distributed, z) | _drop("gap", distributed, pair, z))
    return pl.DataFrame(table, schema=_TABLE_SCHEMA), pl.DataFrame(gaps, schema=_GAPS_SCHEMA)


def _drop(name: str, before: dict | None, after: dict | None, z: float) -> dict[str, Any]:
    """Difference before - after, its interval, and whether the two intervals separate downwards."""
    empty = {name: None, f"{name}_se": None, f"{name}_lo": None, f"{name}_hi": None, f"{name}_reported": None}
    if before is None or after is None or before["mean"] is None or after["mean"] is None:
        return empty
    drop = before["mean"] - after["mean"]
    if before["se"] is None or after["se"] is None:
        return empty | {name: drop}
    se = math.hypot(before["se"], after["se"])
    reported = before["lo"] > after["hi"]
    return {name: drop, f"{name}_se": se, f"{name}_lo": drop - z * se, f"{name}_hi": drop + z * se} | {
        f"{name}_reported": reported
    }


def _rank(settings: dict[str, dict[str, Any]]) -> tuple[float, ...]:
    """Best pair first; without one, best solo; without any, last."""
    means = (settings.get(s, {}).get("mean") for s in reversed(SETTINGS))
    return tuple(math.inf if m is None else -m for m in means)


def _maze_text(mazes: tuple[int | None, float | None]) -> str:
    return "mazes of unknown size" if mazes == (None, None) else maze_text(*mazes)


def _caption(outcome: str, mazes: tuple[int | None, float | None], ci_level: float) -> str:
    z, level = z_of(ci_level), percent(ci_level)
    where = "" if mazes == (None, None) else f" {_maze_text(mazes)}."
    return (
        f"{OUTCOMES[outcome]} ± half the {level} interval ({z:.2f} standard errors), rollouts in brackets.{where} "
        f"Degradation: full map to distributed map. Collaboration gap: distributed map to pair. "
        f"* the two {level} intervals separate."
    )


def _chance(data: Any, used: pl.DataFrame, outcome: str) -> tuple[float | None, int]:
    """(mean, number) of the chance outcomes stored for the used rollouts; a study's only, each rollout once."""
    notes = getattr(data, "annotations", None)
    if not isinstance(notes, pl.LazyFrame):
        return None, 0
    wanted = (pl.col("feature") == f"chance_{outcome}") & pl.col("run_id").is_in(used["run_id"].to_list())
    values = notes.filter(wanted).group_by("run_id").agg(pl.col("value").mean()).collect()["value"].drop_nulls()
    return (float(math.fsum(sorted(values)) / values.len()), values.len()) if values.len() else (None, 0)


def _chance_words(floor: float | None, n: int) -> str:
    return "" if floor is None else f" Chance floor (moves in random order): {number(floor, 2)} over {n:,} rollouts."


def _mean_text(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else f"{Interval.of(cell, 'mean', 'lo', 'hi', digits=2).half()} ({cell['n']})"


def _drop_text(row: dict[str, Any], name: str) -> str:
    return Interval.of(row, name, digits=2).half("") + (" *" if row[f"{name}_reported"] else "")


def _listed(left_out: dict[str, int]) -> str:
    return "; ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "nothing"
