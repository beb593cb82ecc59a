"""Rollouts of mazes as the maze statistics read them: checked, with the reason why each is or is not used.

May import `cilab.core` and `cilab.stats`. Nothing here scores a rollout that has no
outcome: refused, gated out, failed and unscored rollouts are left out and counted, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, read_rows, runs_of
from cilab.core.vocabulary import check_statuses
from cilab.results.arguments import numeric, or_none
from cilab.results.numbers import Interval, percent
from cilab.stats.methods.means import Sample, Units, z_of
from cilab.stats.methods.uncertainty import Bounds, mean_bounds, t_test_p, too_few

MazeOutcome = Literal["weighted_outcome", "success"]

#: A density of walls asked for, or None.
Density = Annotated[float | None, or_none(numeric(lambda v: 0 <= v < 1, "a fraction of cells, such as 0.30"))]
OUTCOMES = {
    "weighted_outcome": "Mean weighted outcome (fraction, 1 = goal reached)",
    "success": "Share of mazes solved (fraction)",
}

#: The paper's mazes: 6 x 6, wall density 0.30.
PAPER_MAZES = {"maze_size": 6, "wall_density": 0.3}

NO_OUTCOME = "without an outcome"

#: What an interval may be taken over, beside any column of the runs.
CLUSTERS = ("auto", "maze", "pair", "rollout")
_MAZE = ("task_id", "maze_size", "wall_density")
_SEATS = ("model", "effort", "partner_model", "partner_effort")

STATUS_REASONS = {"refused": "refused", "gated_out": "gated out", "error": "ended in an error"}

_TEXT = (
    *("version", "model", "partner_model", "status", "benchmark", "effort", "partner_effort", "arm"),
    *("run_id", "task_id", "relay_kind", "ended"),
)

_WHOLE = ("maze_size", "seed", "relay_k", "path_length", "messages", "rounds")

#: What tells one rollout from another in the columns of the runs table. The run id also hashes the prompts, the graders
#: and the sampling: two rollouts that differ in these only are two studies, which are never pooled in silence.
_CELL = (
    *("model", "effort", "partner_model", "partner_effort", "arm", "task_id", "version", "seed"),
    *("relay_kind", "relay_k", "maze_size", "wall_density"),
)


@dataclass(frozen=True, slots=True)
class Clustering:
    """What was sampled, and so what an interval is taken over.

    Attributes
    ----------
    name : maze, pair, rollout, or a column of the runs.
    unit : what one is called.
    alone : used rollouts that name no maze; each is a cluster of its own.
    of_maze : maze -> its cluster, where that is not the maze itself.
    """

    name: str
    unit: str
    alone: int = 0
    of_maze: Mapping[str, int] | None = None

    def units(self, ci_level: float, outcome: str | None = None) -> Units:
        """How intervals of an outcome (None: a number without bounds) are taken. By `rollout` they are the paper's."""
        kind = {"share": outcome == "success", "fraction": outcome == "weighted_outcome"}
        return Units(self.unit, ci_level, **kind, plain=self.name == "rollout")

    def level(self, units: Units) -> str:
        """The interval in words: `95% interval (t over mazes)`."""
        if units.plain:
            how = f"{z_of(units.ci_level):.2f} standard errors, rollouts as independent"
        else:
            how = f"score interval over {plural(self.unit)}" if units.share else f"t over {plural(self.unit)}"
        return f"{percent(units.ci_level)} interval ({how})"

    def notes(self) -> list[str]:
        """What became of rollouts without a maze."""
        gone = f"{self.alone:,} rollouts name no maze (task_id): each stands for itself."
        return [gone] if self.alone else []

    def paired(self, a: Mapping[str, float], b: Mapping[str, float], units: Units) -> dict[str, Any]:
        """`n_mazes, diff, lo, hi, p, n_clusters, reason` of a - b over the mazes that both have, each maze once.

        Student's t over the differences, clustered where clusters hold several mazes; p is that of the same t.
        """
        shared = sorted(set(a) & set(b))
        if not shared:
            empty = dict.fromkeys(("diff", "lo", "hi", "p"))
            return {"n_mazes": 0, **empty, "n_clusters": 0, "reason": "no maze in common"}
        found = self.over_mazes([a[t] - b[t] for t in shared], shared, units)
        diff = math.fsum(a[t] - b[t] for t in shared) / len(shared)
        return {
            "n_mazes": len(shared),
            "diff": diff,
            "lo": found.lo,
            "hi": found.hi,
            "p": None if found.reason else t_test_p(diff, found),
            "n_clusters": found.n_clusters,
            "reason": found.reason,
        }

    def over_mazes(self, values: Sequence[float], mazes: Sequence[str], units: Units) -> Bounds:
        """Interval of the mean of one number for each maze, which nothing bounds."""
        return mean_bounds(
            np.asarray(values, float),
            clusters=self.codes(mazes),
            span=None,
            ci_level=units.ci_level,
            unit="maze" if self.of_maze is None else self.unit,
        )

    def codes(self, mazes: Sequence[str]) -> np.ndarray:
        """The cluster of each maze."""
        return np.array([i if self.of_maze is None else self.of_maze[t] for i, t in enumerate(mazes)], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class MazeRows:
    """Rollouts in scope, scored or not.

    Attributes
    ----------
    rows : the columns of the runs, `value` (the outcome as a number), `first` and `second` (names of the two agents,
        with the reasoning setting where one model stands with several), `reason` (why a rollout is left out; null
        where it is used).
    left_out : reason -> number of rows, those out of scope included.
    provenance : of the whole table.
    kept : what was held fixed: maze_size, wall_density, arm.
    clustering : what `unit`, a further column of the rows, stands for.
    """

    rows: pl.DataFrame
    left_out: Mapping[str, int]
    provenance: Provenance
    kept: Mapping[str, Any]
    clustering: Clustering

    @property
    def used(self) -> pl.DataFrame:
        """The rollouts that have an outcome."""
        return self.rows.filter(pl.col("reason").is_null())

    @property
    def parameters(self) -> dict[str, Any]:
        """What was settled: `kept`, and over what intervals are taken."""
        return {**self.kept, "cluster": self.clustering.name}

    def maze_words(self) -> str:
        """The mazes in words: `6×6 mazes with wall density 0.30`."""
        return maze_text(self.kept.get("maze_size"), self.kept.get("wall_density"))


def read_maze_rows(
    data: Any,
    *,
    outcome: str,
    versions: Sequence[str],
    what: str,
    fixed: Mapping[str, Any],
    models: Sequence[str] | None = None,
    optional: Sequence[str] = (),
    cluster: str = "auto",
) -> MazeRows:
    """The rollouts of some versions of the maze task.

    Parameters
    ----------
    data : as in `cilab.core.frames.read_rows`.
    outcome : `weighted_outcome` or `success`.
    versions : versions in scope; `what` names them for an error.
    fixed : maze_size, wall_density and arm, as far as the caller holds them fixed, with the value asked for or None.
        None takes the most frequent value among the rollouts in scope (on a tie the paper's); for the arm rollouts
        without a treatment where there are any.
    models : names to keep, on both seats; None keeps all.
    optional : further columns of the runs.
    cluster : as in `with_clusters`.

    Raises
    ------
    TableError
        A column is missing, the cluster cannot be used (see `with_clusters`), a value is outside its range (an outcome
        above 1), a filter leaves nothing, or one rollout stands there twice with two scores (see `mark_doubles`).
    """
    columns = ("effort", "partner_effort", "arm", "benchmark", "run_id", "task_id", "seed", "maze_size", "wall_density")
    required = ("version", "model", "partner_model", "status", outcome)
    relay = ("relay_kind", "relay_k") if "relay" in versions else ()
    wanted = tuple(dict.fromkeys((*columns, *relay, *optional, *cluster_columns(data, cluster))))
    rows, provenance = read_rows(data, required, wanted)
    rows = typed(rows, outcome, data)
    check_models(rows, models)
    scope = pl.col("benchmark").fill_null("maze").eq("maze") & pl.col("version").is_in(list(versions))
    if models is not None:
        scope &= pl.col("model").is_in(list(models)) & pl.col("partner_model").fill_null(pl.col("model")).is_in(
            list(models)
        )
    inside = rows.filter(scope)
    if inside.is_empty():
        raise TableError(f"runs: no {what}; these runs hold {_versions_there(rows)}")
    kept = {name: _fixed(inside, name, asked) for name, asked in fixed.items()}
    marked = _with_reasons(rows, scope, kept)
    left_out = count_reasons(marked)
    lasting = {*STATUS_REASONS.values(), NO_OUTCOME}
    cells = _named(marked.filter(pl.col("reason").is_null() | pl.col("reason").is_in(lasting)))
    if cells.filter(pl.col("reason").is_null()).is_empty():
        listed = "; ".join(f"{n:,} {reason}" for reason, n in left_out.items())
        raise TableError(f"runs: no scored {what}; left out: {listed}")
    cells, clustering = with_clusters(cells, cluster)
    return MazeRows(cells, left_out, provenance, kept, clustering)


def check_models(
    rows: pl.DataFrame, models: Sequence[str] | None, seats: Sequence[str] = ("model", "partner_model")
) -> None:
    """Refuse a model that played on none of the seats."""
    known = sorted({name for seat in seats for name in rows[seat].drop_nulls()})
    if unknown := [name for name in models or () if name not in known]:
        raise TableError(f"no rollout of model {unknown[0]!r} in these runs.{nearest(str(unknown[0]), known)}")


def typed(rows: pl.DataFrame, outcome: str, data: Any) -> pl.DataFrame:
    """Columns in the types of the runs table; the outcome, checked, as a float named `value`."""
    kind = rows.schema[outcome]
    if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise TableError(f"runs: {outcome} holds {kind}, not numbers")
    try:
        rows = with_partner_effort(rows).with_columns(
            *(pl.col(c).cast(pl.String) for c in _TEXT if c in rows.columns),
            *(pl.col(c).cast(pl.Int64) for c in _WHOLE if c in rows.columns),
            pl.col("wall_density").cast(pl.Float64).round(6),
            pl.col(outcome).cast(pl.Float64).fill_nan(None).alias("value"),
        )
    except pl.exceptions.PolarsError as e:
        raise TableError(f"runs: a column has another type than the runs table: {str(e).splitlines()[0]}") from None
    for column in ("version", "model", "status"):
        if n := rows[column].null_count():
            raise TableError(f"runs: {n} rows without {column}")
    check_statuses(rows["status"].unique(), data)
    _check_values(rows.filter(pl.col("status") == "ok")["value"].drop_nulls(), outcome)
    return rows


def copies() -> pl.Expr:
    """Two copies of one agent: the same model at the same reasoning setting on both seats."""
    same_effort = pl.col("partner_effort").eq_missing(pl.col("effort"))
    return pl.col("partner_model").eq_missing(pl.col("model")) & same_effort


def with_partner_effort(rows: pl.DataFrame) -> pl.DataFrame:
    """The reasoning setting of the partner where a table of one's own has no column for it.

    `rows` are those of `read_rows`, which makes a missing column one of type Null. A copy then has the setting of its
    model; another partner has its own where it stands with one only, as far as these rows say. In the runs table null
    says that no setting was asked for, and stays.
    """
    if rows.schema["partner_effort"] != pl.Null:
        return rows
    rows = rows.with_columns(pl.col("model", "partner_model", "effort").cast(pl.String))
    alone = rows.group_by(pl.col("model").alias("partner_model")).agg(pl.col("effort").unique().alias("settings"))
    alone = alone.filter(pl.col("settings").list.len() == 1).with_columns(pl.col("settings").list.first())
    rows = rows.join(alone, on="partner_model", how="left", maintain_order="left")
    same = pl.col("partner_model").eq_missing(pl.col("model"))
    filled = pl.when(same).then("effort").otherwise("settings").alias("partner_effort")
    return rows.with_columns(filled).drop("settings")


def _check_values(scored: pl.Series, outcome: str) -> None:
    if scored.is_infinite().any() or (scored > 1).any():
        worst = scored.abs().max() if scored.is_infinite().any() else scored.max()
        raise TableError(f"runs: {outcome} is {worst:g}, above 1; it is a fraction (divide percentages by 100)")
    if outcome == "success" and not scored.is_in([0.0, 1.0]).all():
        raise TableError("runs: success holds values other than true and false; use outcome='weighted_outcome'")


def _versions_there(rows: pl.DataFrame) -> str:
    return ", ".join(sorted(rows["version"].unique().to_list())) or "nothing"


def _fixed(inside: pl.DataFrame, name: str, asked: Any) -> Any:
    """The value to keep of maze_size, wall_density or arm."""
    counts = dict(inside[name].value_counts().rows())
    if asked is not None:
        fits = [v for v in counts if v == asked or (isinstance(v, float) and math.isclose(v, asked, abs_tol=1e-6))]
        if not fits:
            there = ", ".join(sorted(str(v) for v in counts if v is not None)) or "none"
            raise TableError(f"no rollouts with {name} {asked!r}; these runs hold {there}")
        return fits[0]
    if name == "arm" and None in counts:
        return None
    paper = PAPER_MAZES.get(name)
    return max(counts, key=lambda v: (counts[v], v == paper, str(v)))


def _with_reasons(rows: pl.DataFrame, scope: pl.Expr, kept: Mapping[str, Any]) -> pl.DataFrame:
    """`reason` for every row; the first that fits counts. A run that stands twice counts once."""
    reason = pl.when(~scope).then(pl.lit("of other settings or models than asked for"))
    if not {"maze_size", "wall_density"}.isdisjoint(kept):
        other = pl.any_horizontal(
            ~pl.col(c).eq_missing(pl.lit(kept[c])) for c in ("maze_size", "wall_density") if c in kept
        )
        words = maze_text(kept.get("maze_size"), kept.get("wall_density"))
        reason = reason.when(other).then(pl.lit(f"in other mazes than {words}"))
    if "arm" in kept:
        reason = reason.when(~pl.col("arm").eq_missing(pl.lit(kept["arm"], pl.String))).then(pl.lit("of another arm"))
    paired = pl.col("version").is_in(["pair", "relay"])
    reason = reason.when(paired & pl.col("partner_model").is_null()).then(pl.lit("pairs without a partner named"))
    for status, words in STATUS_REASONS.items():
        reason = reason.when(pl.col("status") == status).then(pl.lit(words))
    reason = reason.when(pl.col("value").is_null()).then(pl.lit(NO_OUTCOME)).otherwise(None)
    return mark_doubles(rows.with_columns(reason.alias("reason")))


def mark_doubles(marked: pl.DataFrame) -> pl.DataFrame:
    """A run id that stands twice (merged studies) counts once: with its score where one of them has one.

    Raises
    ------
    TableError
        One run id has two different scores; or two scored runs have the same agents, efforts, arm, maze, version, seed
        and relay. A table without task ids or seeds does not tell, and is taken as it is.
    """
    order = marked.sort("run_id", pl.col("reason").is_not_null(), "reason", "value", maintain_order=True)
    again = pl.col("run_id").is_not_null() & pl.col("run_id").is_first_distinct().not_()
    _refuse_two_scores(order.filter(pl.col("reason").is_null() & pl.col("run_id").is_not_null()))
    out = order.with_columns(pl.when(again).then(pl.lit("the same run again")).otherwise("reason").alias("reason"))
    refuse_doubles(out.filter(pl.col("reason").is_null()))
    return out


def _refuse_two_scores(scored: pl.DataFrame) -> None:
    """One run id with two scores is no repeat of a run but a contradiction."""
    odd = scored.group_by("run_id").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)["run_id"].sort()
    if odd.len():
        raise TableError(
            f"runs: {odd.len()} run ids stand here with two different scores, such as {odd[0]}; keep one of them"
        )


def refuse_doubles(scored: pl.DataFrame) -> None:
    """Two rollouts of one cell would count twice, and narrow every interval; see `mark_doubles`."""
    if not {"task_id", "seed"} <= set(scored.columns):
        return
    cell = [c for c in _CELL if c in scored.columns]
    known = scored.filter(pl.col("task_id").is_not_null() & pl.col("seed").is_not_null())
    double = known.filter(pl.struct(cell).is_duplicated())
    if double.is_empty():
        return
    first = double.row(0, named=True)
    same = double.filter(pl.all_horizontal(pl.col(c).eq_missing(pl.lit(first[c], double.schema[c])) for c in cell))
    ids = ", ".join("no run id" if i is None else i for i in same["run_id"][:3])
    partner = first["partner_model"]
    team = first["model"] if partner in (None, first["model"]) else f"{first['model']} with {partner}"
    raise TableError(
        f"runs: {team}, maze {first['task_id']}, {first['version']}, seed {first['seed']} has {same.height} scored "
        f"runs ({ids}); keep one study, or give them different arms"
    )


def count_reasons(marked: pl.DataFrame) -> dict[str, int]:
    """Reason -> rows that are left out for it, the most frequent first."""
    counts = marked.filter(pl.col("reason").is_not_null())["reason"].value_counts()
    return dict(sorted(counts.rows(), key=lambda item: (-item[1], item[0])))


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """`first` and `second`: the model, with its reasoning setting where it stands with several."""
    seats = pl.concat(
        [
            rows.select("model", "effort"),
            rows.filter(pl.col("partner_model").is_not_null()).select(
                pl.col("partner_model").alias("model"), pl.col("partner_effort").alias("effort").cast(pl.String)
            ),
        ]
    ).unique()
    several = seats.group_by("model").len().filter(pl.col("len") > 1)["model"].to_list()

    def name(model: str, effort: str) -> pl.Expr:
        added = pl.concat_str(pl.col(model), pl.lit(" · "), pl.col(effort).fill_null("default effort"))
        return pl.when(pl.col(model).is_in(several)).then(added).otherwise(pl.col(model))

    return rows.with_columns(
        name("model", "effort").alias("first"), name("partner_model", "partner_effort").alias("second")
    )


def families(
    data: Any, names: Iterable[str], given: Mapping[str, str] | None, column: str = "family"
) -> dict[str, Any]:
    """A column of the models table (family, strength, distilled) by model; None where unknown.

    `given` goes before the data set's own models table, and this before the registry.
    """
    from cilab.core import registry

    own: dict[str, Any] = {}
    table = getattr(data, "models", None)
    if isinstance(table, pl.LazyFrame):
        own = dict(table.select("model", column).collect().rows())
    out = {}
    for name in names:
        model = name.split(" · ")[0]
        value = (given or {}).get(name, (given or {}).get(model, own.get(model)))
        if value is None and (known := registry.lookup(model)) is not None:
            value = getattr(known, column)
        out[name] = value
    return out


# -- clusters ---------------------------------------------------------------------------------------------


def cluster_columns(data: Any, cluster: str) -> tuple[str, ...]:
    """The column that `cluster` names, if it names one, for the reader of the rows.

    Raises
    ------
    TableError
        There is no such column.
    """
    if cluster in CLUSTERS:
        return ()
    there = runs_of(data, (cluster, "task_id", "model")).collect_schema().names()
    if cluster not in there:
        hint = nearest(cluster, [*CLUSTERS, *there])
        raise TableError(f"cluster is {cluster!r}: give {', '.join(CLUSTERS)} or a column of the runs.{hint}")
    return (cluster,)


def with_clusters(rows: pl.DataFrame, cluster: str) -> tuple[pl.DataFrame, Clustering]:
    """`rows`, with a column `unit` of whole numbers; rollouts with the same number came together.

    Parameters
    ----------
    rows : rollouts with `reason` (null where used), `value`, `task_id` and the two seats.
    cluster : `maze` (`auto`): the maze, by task id, size and density; a rollout without a task id stands for itself.
        `pair`: the ordered pair of agents. `rollout`: each rollout. Else a column of the runs, whose values hold whole
        mazes.

    Raises
    ------
    TableError
        A used rollout has no value in the column, all have the same, or a maze lies in several of its clusters.
    """
    name = "maze" if cluster == "auto" else cluster
    keys = {"maze": _MAZE, "pair": _SEATS, "rollout": ()}.get(name, (name,))
    if name not in CLUSTERS:
        _refuse_cluster(rows.filter(pl.col("reason").is_null()), name)
    # By value, so that the numbers do not hang on the order of rows.
    rows = rows.sort("task_id", "maze_size", "wall_density", "value", "run_id").with_row_index("unit")
    alone = pl.col("task_id").is_null() if name == "maze" else pl.lit(name == "rollout")
    first = pl.when(alone).then("unit").otherwise(pl.col("unit").min().over(keys or "unit"))
    rows = rows.with_columns(first.cast(pl.Int64).alias("unit"))
    used = rows.filter(pl.col("reason").is_null())
    without = used["task_id"].null_count() if name == "maze" else 0
    unit = "rollout" if without and without == used.height else name
    return rows, Clustering(name, unit, without, _of_maze(used, name))


def _refuse_cluster(used: pl.DataFrame, name: str) -> None:
    if gone := used[name].null_count():
        raise TableError(
            f"cluster {name}: {gone:,} of {used.height:,} rollouts have no value there; fill it, or leave them out"
        )
    if used[name].n_unique() < 2:
        raise TableError(f"cluster {name}: all {used.height:,} rollouts are {used[name][0]}; intervals need several")
    known = used.filter(pl.col("task_id").is_not_null())
    torn = known.group_by(_MAZE).agg(pl.col(name).n_unique().alias("n")).filter(pl.col("n") > 1)
    if torn.height:
        maze, n = torn.sort("task_id").select("task_id", "n").row(0)
        raise TableError(
            f"cluster {name}: maze {maze} lies in {n} of them; a cluster holds whole mazes (or take cluster='rollout')"
        )


def _of_maze(used: pl.DataFrame, name: str) -> dict[str, int] | None:
    """The cluster of every maze; None where each maze is one, or rollouts are."""
    if name in ("maze", "rollout"):
        return None
    known = used.filter(pl.col("task_id").is_not_null())
    if name == "pair":  # what differs within a maze is within the pair
        return dict.fromkeys(known["task_id"].unique(), 0)
    return dict(known.select("task_id", "unit").unique().rows())


def sample(rows: pl.DataFrame, column: str = "value") -> Sample:
    """The known values of a column, and the clusters of their rollouts."""
    there = rows.filter(pl.col(column).is_not_null()).sort("unit", column)
    return Sample(there[column].cast(pl.Float64).to_numpy(), there["unit"].to_numpy())


def bare(row: Mapping[str, Any] | None, name: str = "mean", *, digits: int = 2) -> Interval:
    """A number of a table and its interval, without the words of one that is missing: these stand below the sheet."""
    lo, hi = ("lo", "hi") if name in ("mean", "diff") else (f"{name}_lo", f"{name}_hi")
    return Interval(None) if row is None else Interval(row[name], row[lo], row[hi], digits)


def interval_notes(tables: Mapping[str, Iterable[str | None]]) -> list[str]:
    """Why numbers of a table have no interval, in a sentence for each kind of number.

    `tables` : what the numbers are called, such as `means`, with their reasons (a column, null where there is one).
    """
    out = []
    for what, reasons in tables.items():
        counts: dict[str, int] = {}
        for reason in known(list(reasons)):
            counts[reason] = counts.get(reason, 0) + 1
        if counts:
            several = len(counts) > 1
            listed = "; ".join(f"{reason} ({n})" if several else reason for reason, n in sorted(counts.items()))
            total = sum(counts.values())
            out.append(f"No interval of {total:,} {what if total > 1 else what.removesuffix('s')}: {listed}.")
    return out


def plural(unit: str) -> str:
    """Several of a unit: mazes, pairs, families."""
    return too_few(2, unit).removeprefix("too few: 2 ")


def by_maze(rows: pl.DataFrame) -> dict[str, float]:
    """Mean outcome of each maze; rollouts without a task are left out."""
    kept = rows.filter(pl.col("task_id").is_not_null()).sort("task_id", "value")
    grouped = kept.group_by("task_id", maintain_order=True).agg("value").rows()
    return {task: math.fsum(values) / len(values) for task, values in grouped}


def maze_text(size: int | None, density: float | None) -> str:
    """Mazes in words."""
    grid = f"{size}×{size} mazes" if size is not None else "mazes"
    return grid if density is None else f"{grid} with wall density {density:.2f}"


def known(values: Collection[Any]) -> list[Any]:
    """Those that are not None."""
    return [v for v in values if v is not None]
