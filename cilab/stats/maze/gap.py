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
from cilab.core.frames import Provenance, read_rows
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Column, Level
from cilab.results.estimator import estimator
from cilab.results.names import row_names
from cilab.results.numbers import number
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.maze.rows import (
    NO_OUTCOME,
    OUTCOMES,
    PAPER_MAZES,
    STATUS_REASONS,
    Clustering,
    Density,
    bare,
    check_models,
    cluster_columns,
    copies,
    count_reasons,
    interval_notes,
    mark_doubles,
    maze_text,
    sample,
    typed,
    with_clusters,
)
from cilab.stats.methods.means import Sample, Units, clustered_contrast, clustered_mean, mean_interval, z_of

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
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
}
#: The two differences: name -> (before, after).
_DROPS = {"degradation": ("solo_full", "solo_distributed"), "gap": ("solo_distributed", "pair")}
_DROP_SCHEMA = {
    **dict.fromkeys(("", "_se", "_lo", "_hi"), pl.Float64),
    "_reported": pl.Boolean,
    "_n_clusters": pl.Int64,
    "_no_interval": pl.String,
}
_GAPS_SCHEMA = {
    "row": pl.String,
    "model": pl.String,
    "effort": pl.String,
    "arm": pl.String,
    **{f"{what}{part}": kind for what in _DROPS for part, kind in _DROP_SCHEMA.items()},
}


@dataclass(frozen=True, kw_only=True, repr=False)
class GapResult(Result):
    """Outcome per model in the three settings, and the two differences between them.

    Attributes
    ----------
    table : one row per model and setting, models in order of their pair mean, best first: `row` (name in figures),
        `model, effort, arm, setting`, `n` (rollouts scored), `n_left_out` (rollouts of this cell that have no
        score), `mean`, `se`, `lo`, `hi` (fractions), `n_clusters` (mazes, or what `cluster` names, behind the
        interval), `no_interval` (why there is none, such as "too few: 2 mazes"; null where there is one).
    gaps : one row per model, same order: `degradation` = solo full - solo distributed, `gap` = solo distributed -
        pair (both positive when performance drops), each with `_se`, `_lo`, `_hi`, `_n_clusters`, `_no_interval`, and
        `_reported`: True where the interval lies above 0 (by `cluster="rollout"`: where the intervals of the two means
        separate in the direction of a drop), null where there is none.
    chance_floor : mean outcome of the same moves in random order, graded alike, over the `chance_n` used rollouts that
        have it (`cilab regrade DATA --with rules` computes it). The best of many schemes counts, so it lies above 0.
        None where no rollout has it.
    said : what became of rollouts that name no maze, in sentences.
    """

    gaps: pl.DataFrame
    chance_floor: float | None = None
    chance_n: int = 0
    said: tuple[str, ...] = ()

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

    def notes(self) -> list[str]:
        """What has no interval and why, then what was used and left out."""
        differences = [
            r for what in _DROPS for r in self.gaps.filter(pl.col(what).is_not_null())[f"{what}_no_interval"]
        ]
        means = self.table.filter(pl.col("mean").is_not_null())["no_interval"]
        return [*interval_notes({"means": means, "differences": differences}), *self.said, *super().notes()]


@estimator
def gap(
    runs: Any,
    *,
    outcome: Literal["weighted_outcome", "success"] = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    models: Sequence[str] | None = None,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> GapResult:
    """Mean outcome with its interval, solo with the full map, solo with the distributed map, and as a pair of copies.

    Per model and setting the mean over rollouts. A pair is one model at one reasoning setting on both seats
    (`version == "pair"`, `partner_model == model` and `partner_effort == effort`). What was sampled are the mazes, so
    repeats of one maze are no new evidence: intervals are taken over mazes, by the rule of
    `cilab.stats.methods.uncertainty` (Student's t, for fewer than ten mazes no narrower than the score interval where
    all outcomes lie between 0 and 1; for `success` the score interval), and not clipped. The two
    differences, degradation (full map to distributed map) and collaboration gap (distributed map to pair), are paired
    by maze, so that what is hard in both settings cancels. They are reported where their interval lies above 0.

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
    cluster : what intervals are taken over. "auto" or "maze": mazes (by task id, size and density; a rollout without a
        task id stands for itself). A column of the runs whose values hold whole mazes. "pair": ordered pairs of
        agents. "rollout": the paper's plain standard error, sd / sqrt(n) over rollouts as if independent, with the
        normal interval mean ± z x se; a difference is then reported where the intervals of both means separate.
    ci_level : a fraction between 0 and 1.

    Returns
    -------
    GapResult
        Models in order of the pair mean. Rollouts that were refused, gated out, ended in an error or have no outcome
        are never scored as 0: they are left out and counted. With fewer than three clusters, or without any spread
        between them, the mean stands without interval and `no_interval` says why; with n = 0 the model stands without
        mean.

    Raises
    ------
    TableError
        A column is missing, a value is outside its range (percentages, an outcome above 1), a filter leaves nothing,
        two scored runs are of one agent, arm, maze, version and seed, or the column of clusters has a gap, one value
        only, or a maze in several of its values.

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
    found = read_gap_rows(
        runs,
        outcome=outcome,
        maze_size=maze_size,
        wall_density=wall_density,
        models=models,
        cluster=cluster,
    )
    units = found.clustering.units(ci_level, outcome)
    table, gaps = _estimate(found.cells, units)
    used = found.cells.filter(pl.col("reason").is_null())
    floor, floor_n = _chance(runs, used, outcome)
    return GapResult(
        table=table,
        gaps=gaps,
        n_used=used.height,
        n_left_out=found.left_out,
        provenance=found.provenance,
        parameters={"maze_size": found.mazes[0], "wall_density": found.mazes[1], "cluster": found.clustering.name},
        caption=_caption(outcome, found.mazes, found.clustering, units) + _chance_words(floor, floor_n),
        chance_floor=floor,
        chance_n=floor_n,
        said=tuple(found.clustering.notes()),
    )


@dataclass(frozen=True, slots=True)
class GapRows:
    """Solo rollouts and pairs of copies, scored or not, as `gap` reads them: `cells`, and what they stand on."""

    cells: pl.DataFrame
    left_out: dict[str, int]
    provenance: Provenance
    mazes: tuple[int | None, float | None]
    clustering: Clustering

    def samples(self) -> dict[tuple, dict[str, tuple[Sample, int]]]:
        """(model, effort, arm) -> setting -> its scored outcomes, and how many rollouts have none."""
        return _samples(self.cells)


def read_gap_rows(
    runs: Any,
    *,
    outcome: str,
    maze_size: int | None,
    wall_density: float | None,
    models: Sequence[str] | None,
    cluster: str,
) -> GapRows:
    """The rollouts of `gap`, whose arguments these are."""
    rows, provenance = read_rows(
        runs,
        required=("version", "model", "partner_model", "status", outcome),
        optional=(
            *("benchmark", "effort", "partner_effort", "arm", "maze_size", "wall_density"),
            *("run_id", "task_id", "seed"),
            *cluster_columns(runs, cluster),
        ),
    )
    rows = typed(rows, outcome, runs)
    check_models(rows, models, ("model",))
    mazes = _mazes(rows, models, maze_size, wall_density)
    rows = rows.with_columns(_reason(models, mazes).alias("reason"))
    rows = mark_doubles(rows)
    cells = rows.filter(pl.col("reason").is_null() | pl.col("reason").is_in([*STATUS_REASONS.values(), NO_OUTCOME]))
    left_out = count_reasons(rows)
    if cells["reason"].null_count() == 0:
        raise TableError(f"runs: no scored solo or same-model pair rollout of a maze; left out: {_listed(left_out)}")
    cells, clustering = with_clusters(cells, cluster)
    return GapRows(cells, left_out, provenance, mazes, clustering)


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


def _samples(cells: pl.DataFrame) -> dict[tuple, dict[str, tuple[Sample, int]]]:
    found: dict[tuple, dict[str, tuple[Sample, int]]] = {}
    for (*key, version), part in cells.partition_by(*ROW, "version", as_dict=True).items():
        scored = part.filter(pl.col("reason").is_null())
        found.setdefault(tuple(key), {})[version] = sample(scored), part.height - scored.height
    return found


def _estimate(cells: pl.DataFrame, units: Units) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two tables, from the rows of every cell, scored or not."""
    samples = _samples(cells)
    found = {
        key: {s: clustered_mean(values, units) | {"n_left_out": lost} for s, (values, lost) in settings.items()}
        for key, settings in samples.items()
    }
    names = row_names(list(found))
    order = sorted(found, key=lambda key: (*_rank(found[key]), names[key]))
    table, gaps = [], []
    for key in order:
        head = {"row": names[key], **dict(zip(ROW, key, strict=True))}
        table += [{**head, "setting": s, **found[key][s]} for s in SETTINGS if s in found[key]]
        there = samples[key]
        drops = (_drop(name, there.get(a), there.get(b), units) for name, (a, b) in _DROPS.items())
        gaps.append(head | {name: value for drop in drops for name, value in drop.items()})
    return pl.DataFrame(table, schema=_TABLE_SCHEMA), pl.DataFrame(gaps, schema=_GAPS_SCHEMA)


def _drop(
    name: str, before: tuple[Sample, int] | None, after: tuple[Sample, int] | None, units: Units
) -> dict[str, Any]:
    """Difference before - after, its interval, and whether it is reported."""
    if before is None or after is None:
        return {f"{name}{part}": None for part in _DROP_SCHEMA} | {f"{name}_no_interval": "a setting was not played"}
    drop = clustered_contrast([(1, before[0]), (-1, after[0])], units)
    reported = lies_below(before[0], after[0], drop, units)
    return {name: drop.pop("diff"), f"{name}_reported": reported, **{f"{name}_{k}": v for k, v in drop.items()}}


def lies_below(before: Sample, after: Sample, drop: dict[str, Any], units: Units) -> bool | None:
    """Whether a drop is reported; None where it has no interval.

    By the rule where its interval lies above 0; by the paper where the intervals of the two means separate.
    """
    if drop["no_interval"] is not None:
        return None
    if not units.plain:
        return drop["lo"] > 0
    high, low = (mean_interval(s.values.tolist(), z_of(units.ci_level)) for s in (before, after))
    return high["lo"] > low["hi"]


def _rank(settings: dict[str, dict[str, Any]]) -> tuple[float, ...]:
    """Best pair first; without one, best solo; without any, last."""
    means = (settings.get(s, {}).get("mean") for s in reversed(SETTINGS))
    return tuple(math.inf if m is None else -m for m in means)


def _maze_text(mazes: tuple[int | None, float | None]) -> str:
    return "mazes of unknown size" if mazes == (None, None) else maze_text(*mazes)


def _caption(outcome: str, mazes: tuple[int | None, float | None], clustering: Clustering, units: Units) -> str:
    where = "" if mazes == (None, None) else f" {_maze_text(mazes)}."
    star = "the two intervals separate" if units.plain else "the interval lies above 0"
    return (
        f"{OUTCOMES[outcome]} ± half the {clustering.level(units)}, rollouts in brackets.{where} "
        f"Degradation: full map to distributed map. Collaboration gap: distributed map to pair. * {star}."
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
    return "" if cell is None else f"{bare(cell).half()} ({cell['n']})"


def _drop_text(row: dict[str, Any], name: str) -> str:
    return bare(row, name).half("") + (" *" if row[f"{name}_reported"] else "")


def _listed(left_out: dict[str, int]) -> str:
    return "; ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "nothing"
