"""Ablations over the mazes (size, wall density), and distilled models against base models.

May import `cilab.core` and `cilab.stats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Column, Level
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze import rows as maze_rows
from cilab.stats.maze.gap import SETTING_NAMES, SETTINGS, GapResult, gap, lies_below, read_gap_rows
from cilab.stats.maze.rows import PAPER_MAZES, Density, MazeOutcome, bare, interval_notes
from cilab.stats.methods.hypothesis_tests import two_sample_t
from cilab.stats.methods.means import Sample, Units, clustered_contrast, clustered_mean, mean_over

Factor = Literal["maze_size", "wall_density"]
FACTORS = {"maze_size": "cells along a side", "wall_density": "wall density"}

_MEANS = {
    **dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64),
    "n_clusters": pl.Int64,
    "no_interval": pl.String,
}
_DROP = {
    **dict.fromkeys(("drop", "drop_lo", "drop_hi"), pl.Float64),
    "drop_reported": pl.Boolean,
    "drop_n_clusters": pl.Int64,
    "drop_no_interval": pl.String,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class AblationResult(Result):
    """Mean outcome by agent, setting and level of the mazes.

    Attributes
    ----------
    table : one row per agent, setting (`solo_full`, `solo_distributed`, `pair` of copies) and level: `agent, setting,
        level, n, n_left_out, mean, se, lo, hi`, `n_clusters` (mazes, or what `cluster` names, behind the interval),
        `no_interval` (why there is none); `drop` from the base level with its interval (base - level),
        `drop_reported`: True where that lies above 0 (by `cluster="rollout"`: where the intervals of the two means
        separate downwards), `drop_n_clusters` and `drop_no_interval`.
    factor : what varies: `maze_size` or `wall_density`.
    base : the level that the others are compared with.
    said : what became of rollouts that name no maze, in sentences.
    """

    factor: str
    base: float
    said: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "ablation"
    title: ClassVar[str] = "Maze ablation"

    def sheet(self) -> Sheet:
        """One line per agent and setting, one column per level; * where the drop from the base is reported."""
        levels = sorted(self.table["level"].unique())
        lines = []
        for (agent, setting), part in self.table.partition_by(
            "agent", "setting", as_dict=True, maintain_order=True
        ).items():
            cells = {
                r["level"]: bare(r).half() + (" *" if r["drop_reported"] else "") for r in part.iter_rows(named=True)
            }
            lines.append(
                {"Agent": agent, "Setting": SETTING_NAMES[setting]} | {f"{v:g}": cells.get(v, NONE) for v in levels}
            )
        return self.on_sheet(lines, spanner=(FACTORS[self.factor].capitalize(), [f"{v:g}" for v in levels]))

    def notes(self) -> list[str]:
        """What has no interval and why, then what was used and left out."""
        means = self.table.filter(pl.col("mean").is_not_null())["no_interval"]
        drops = self.table.filter(pl.col("drop").is_not_null())["drop_no_interval"]
        return [*interval_notes({"means": means, "drops": drops}), *self.said, *super().notes()]


@estimator
def ablation(
    data: Any,
    factor: Factor = "maze_size",
    *,
    outcome: MazeOutcome = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    arm: str | None = None,
    models: Sequence[str] | None = None,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> AblationResult:
    """Mean outcome against maze size or wall density, solo and in pairs of copies.

    Parameters
    ----------
    data : an opened study, a data set, or a runs table.
    factor : `maze_size` (figure C.1) or `wall_density` (figure C.2).
    maze_size, wall_density : the other one is held fixed at the value given here, or at the most frequent one. The
        factor's own value is the base level that the others are compared with; default the paper's (6, 0.30) where
        it is among the levels, else the easiest.
    outcome, arm, models, cluster, ci_level : as in `cilab.stats.maze.pairs.pairs`. Mazes of two levels are two mazes,
        whatever their task ids.

    Raises
    ------
    TableError
        The factor is not known, has a single level or does not hold the base asked for; the clusters cannot be used.

    References
    ----------
    Collaboration-gap paper, appendix C.
    """
    if factor not in FACTORS:
        raise TableError(f"factor is {factor!r}, not one of {', '.join(FACTORS)}.{nearest(str(factor), [*FACTORS])}")
    given = {"maze_size": maze_size, "wall_density": wall_density}
    base = given.pop(factor)
    found = maze_rows.read_maze_rows(
        data,
        outcome=outcome,
        versions=SETTINGS,
        what="solo or same-model pair rollout of a maze",
        fixed={**given, "arm": arm},
        models=models,
        cluster=cluster,
    )
    units = found.clustering.units(ci_level, outcome)
    rows = found.rows.filter((pl.col("version") != "pair") | (pl.col("first") == pl.col("second")))
    unknown = rows.filter(pl.col(factor).is_null())
    rows = rows.filter(pl.col(factor).is_not_null())
    other = found.used.height - rows.filter(pl.col("reason").is_null()).height
    base = _base(factor, base, sorted(rows[factor].unique().to_list()))
    left_out = dict(found.left_out)
    without = unknown.filter(pl.col("reason").is_null()).height
    left_out |= {f"without a {factor}": without} if without else {}
    left_out |= {"pairs of two different models": other - without} if other - without else {}
    return AblationResult(
        table=_levels(rows, factor, base, units),
        factor=factor,
        base=base,
        said=tuple(found.clustering.notes()),
        n_used=rows.filter(pl.col("reason").is_null()).height,
        n_left_out=left_out,
        provenance=found.provenance,
        parameters={"base": base, **found.parameters},
        caption=f"{maze_rows.OUTCOMES[outcome]} ± half the {found.clustering.level(units)} by {FACTORS[factor]}. * "
        + (f"the interval lies below that at {base:g}." if units.plain else f"the drop from {base:g} lies above 0."),
    )


def _base(factor: str, asked: float | None, levels: list[float]) -> float:
    if len(levels) < 2:
        there = ", ".join(f"{v:g}" for v in levels) or "no value"
        raise TableError(f"runs: {factor} has {there} only; an ablation needs two levels or more")
    if asked is None:
        return PAPER_MAZES[factor] if PAPER_MAZES[factor] in levels else levels[0]
    if asked not in levels:
        raise TableError(f"no rollouts with {factor} {asked:g}; these runs hold {', '.join(f'{v:g}' for v in levels)}")
    return asked


def _levels(rows: pl.DataFrame, factor: str, base: float, units: Units) -> pl.DataFrame:
    cells: dict[tuple[str, str], dict[float, tuple[Sample, int]]] = {}
    for (agent, setting, level), part in sorted(
        rows.partition_by("first", "version", factor, as_dict=True).items(),
        key=lambda item: (item[0][0], SETTINGS.index(item[0][1]), item[0][2]),
    ):
        scored = part.filter(pl.col("reason").is_null())
        found = maze_rows.sample(scored), part.height - scored.height
        cells.setdefault((agent, setting), {})[level] = found
    out = []
    for (agent, setting), levels in cells.items():
        for level, (values, lost) in levels.items():
            before = levels.get(base) if level != base else None
            head = {"agent": agent, "setting": setting, "level": float(level), "n_left_out": lost}
            drop = {} if before is None else _drop(before[0], values, units)
            out.append(head | clustered_mean(values, units) | drop)
    schema = {"agent": pl.String, "setting": pl.String, "level": pl.Float64, "n": pl.Int64, "n_left_out": pl.Int64}
    return pl.DataFrame(out, schema={**schema, **_MEANS, **_DROP})


def _drop(before: Sample, after: Sample, units: Units) -> dict[str, Any]:
    found = clustered_contrast([(1, before), (-1, after)], units)
    parts = {f"drop_{k}": found[k] for k in ("lo", "hi", "n_clusters", "no_interval")}
    return {"drop": found["diff"], "drop_reported": lies_below(before, after, found, units), **parts}


# -- distilled against base -------------------------------------------------------------------------------

#: Pairs that the text of section 4.1 names: distilled -> base.
PAPER_BASES = {"gpt-5-nano": "gpt-5", "gemini-2.5-flash-lite": "gemini-2.5-pro"}


@dataclass(frozen=True, kw_only=True, repr=False)
class DistilledResult(Result):
    """Collaboration gaps of distilled models beside those of base models.

    Attributes
    ----------
    table : one row per model: `row, model, distilled, gap, gap_lo, gap_hi, gap_reported, gap_n_clusters,
        gap_no_interval, degradation`.
    groups : mean gap of `distilled` and of `base` models with interval over models, and the row `difference` (Welch's
        t).
    pairs : one row per distilled model with a known base: both gaps and their difference, paired by maze, with its
        interval, `n_clusters` and `no_interval`.
    gaps : the `cilab.stats.maze.gap.GapResult` that all of this is from.
    """

    groups: pl.DataFrame
    pairs: pl.DataFrame
    gaps: GapResult

    figure: ClassVar[str | None] = "distilled"
    title: ClassVar[str] = "Distilled against base models"

    def sheet(self) -> Sheet:
        """The groups, then the pairs."""
        lines = [
            {
                "Models": r["group"],
                "n": str(r["n_models"]),
                "Gap": Interval.of(r, "gap", "lo", "hi", digits=2).ends(),
                "p": p_value(r["p"]),
                "Note": r["reason"] or "",
            }
            for r in self.groups.iter_rows(named=True)
        ]
        lines += [
            {
                "Models": f"{r['distilled']} − {r['base']}",
                "n": "2",
                "Gap": bare(r, "diff").ends(),
                "p": "",
                "Note": r["no_interval"] or "",
            }
            for r in self.pairs.iter_rows(named=True)
        ]
        return self.on_sheet(lines)


@estimator
def distilled(
    data: Any,
    *,
    bases: Mapping[str, str] | None = None,
    flags: Mapping[str, bool] | None = None,
    outcome: MazeOutcome = "weighted_outcome",
    maze_size: int | None = None,
    wall_density: Density = None,
    models: Sequence[str] | None = None,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> DistilledResult:
    """Whether distilled models lose more by collaborating than base models.

    Parameters
    ----------
    data : as in `cilab.stats.maze.gap.gap`.
    bases : mapping distilled model -> base model; default the two pairs that the paper's text names.
    flags : mapping model -> whether it is distilled; the models table fills what it leaves out.
    outcome, maze_size, wall_density, models, cluster, ci_level : as in `cilab.stats.maze.gap.gap`.

    Returns
    -------
    DistilledResult
        Models whose origin is unknown are left out of the groups and counted there.

    References
    ----------
    Collaboration-gap paper, section 4.1 and table 1.
    """
    asked: dict[str, Any] = {"outcome": outcome, "maze_size": maze_size, "wall_density": wall_density}
    asked |= {"models": models, "cluster": cluster}
    gaps = gap(data, ci_level=ci_level, **asked)
    known = maze_rows.families(data, gaps.gaps["model"].unique().to_list(), flags, "distilled")
    table = gaps.gaps.select(
        "row",
        "model",
        pl.col("model").replace_strict(known, return_dtype=pl.Boolean).alias("distilled"),
        "gap",
        "gap_lo",
        "gap_hi",
        "gap_reported",
        "gap_n_clusters",
        "gap_no_interval",
        "degradation",
    )
    found = read_gap_rows(data, **asked)
    units = found.clustering.units(ci_level, outcome)
    by_key = found.samples()
    samples = {row: by_key[tuple(key)] for row, *key in gaps.gaps.select("row", *ROW).iter_rows()}
    return DistilledResult(
        table=table,
        groups=_groups(table, ci_level),
        pairs=_base_pairs(samples, PAPER_BASES if bases is None else bases, units),
        gaps=gaps,
        n_used=gaps.n_used,
        n_left_out=gaps.n_left_out,
        provenance=gaps.provenance,
        parameters={n: gaps.parameters[n] for n in ("maze_size", "wall_density", "cluster")},
        caption=f"Collaboration gap (distributed map alone - pair of copies) with {percent(ci_level)} intervals: means "
        f"over models, Welch's t for their difference; single pairs: {found.clustering.level(units)}.",
    )


def _groups(table: pl.DataFrame, ci_level: float) -> pl.DataFrame:
    there = table.filter(pl.col("gap").is_not_null())
    values = {
        name: there.filter(pl.col("distilled") == flag)["gap"].to_list()
        for name, flag in (("distilled", True), ("base", False))
    }
    rows = []
    for name, gaps in values.items():
        m = mean_over(gaps, "model", ci_level)
        numbers = {"gap": m["diff"], "lo": m["lo"], "hi": m["hi"]}
        rows.append({"group": name, "n_models": m["n"], **numbers, "reason": m["reason"]})
    test = two_sample_t(values["distilled"], values["base"], ci_level=ci_level)
    ends = {"lo": None, "hi": None} if test.reason else {"lo": test.lo, "hi": test.hi}
    rows.append(
        {"group": "difference", "n_models": test.n, "gap": test.estimate, **ends, "p": test.p} | {"reason": test.reason}
    )
    if unknown := there["distilled"].null_count():
        rows.append({"group": "origin unknown", "n_models": unknown, "reason": "left out: give flags={model: True}"})
    numbers = dict.fromkeys(("gap", "lo", "hi", "p"), pl.Float64)
    return pl.DataFrame(rows, schema={"group": pl.String, "n_models": pl.Int64, **numbers, "reason": pl.String})


def _base_pairs(
    samples: Mapping[str, Mapping[str, tuple[Sample, int]]], bases: Mapping[str, str], units: Units
) -> pl.DataFrame:
    """Gap of a distilled model less that of its base: four means, paired by maze."""
    out = []
    for small, large in sorted(bases.items()):
        ends = [samples.get(row, {}).get(setting) for row in (small, large) for setting in ("solo_distributed", "pair")]
        if None in ends:
            continue
        there = [end[0] for end in ends if end is not None]
        both = (clustered_contrast([(1, a), (-1, b)], units)["diff"] for a, b in (there[:2], there[2:]))
        head = {"distilled": small, "base": large, **dict(zip(("distilled_gap", "base_gap"), both, strict=True))}
        found = clustered_contrast(list(zip((1, -1, -1, 1), there, strict=True)), units)
        out.append(head | {k: found[k] for k in ("diff", "lo", "hi", "n_clusters", "no_interval")})
    numbers = dict.fromkeys(("distilled_gap", "base_gap", "diff", "lo", "hi"), pl.Float64)
    names = {"distilled": pl.String, "base": pl.String}
    return pl.DataFrame(out, schema={**names, **numbers, "n_clusters": pl.Int64, "no_interval": pl.String})
