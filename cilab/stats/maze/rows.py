"""Rollouts of mazes as the maze statistics read them: checked, with the reason why each is or is not used.

May import `cilab.core` and `cilab.stats`. Nothing here scores a rollout that has no
outcome: refused, gated out, failed and unscored rollouts are left out and counted, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, read_rows
from cilab.core.vocabulary import check_statuses
from cilab.results.arguments import numeric, or_none
from cilab.stats.methods.hypothesis_tests import paired_t

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
    """

    rows: pl.DataFrame
    left_out: Mapping[str, int]
    provenance: Provenance
    kept: Mapping[str, Any]

    @property
    def used(self) -> pl.DataFrame:
        """The rollouts that have an outcome."""
        return self.rows.filter(pl.col("reason").is_null())

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

    Raises
    ------
    TableError
        A column is missing, a value is outside its range (an outcome above 1), a filter leaves nothing, or one rollout
        stands there twice with two scores (see `mark_doubles`).
    """
    columns = ("effort", "partner_effort", "arm", "benchmark", "run_id", "task_id", "seed", "maze_size", "wall_density")
    required = ("version", "model", "partner_model", "status", outcome)
    relay = ("relay_kind", "relay_k") if "relay" in versions else ()
    rows, provenance = read_rows(data, required, tuple(dict.fromkeys((*columns, *relay, *optional))))
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
    return MazeRows(cells, left_out, provenance, kept)


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


def by_maze(rows: pl.DataFrame) -> dict[str, float]:
    """Mean outcome of each maze; rollouts without a task are left out."""
    kept = rows.filter(pl.col("task_id").is_not_null()).sort("task_id", "value")
    grouped = kept.group_by("task_id", maintain_order=True).agg("value").rows()
    return {task: math.fsum(values) / len(values) for task, values in grouped}


def paired_by_maze(a: Mapping[str, float], b: Mapping[str, float], ci_level: float) -> dict[str, Any]:
    """`n_mazes, diff, lo, hi, p, reason` of a - b over the mazes that both have: paired t, and its interval."""
    shared = sorted(set(a) & set(b))
    if not shared:
        return {"n_mazes": 0, "diff": None, "lo": None, "hi": None, "p": None, "reason": "no maze in common"}
    test = paired_t([a[t] for t in shared], [b[t] for t in shared], ci_level=ci_level)
    return {
        "n_mazes": len(shared),
        "diff": test.estimate,
        "lo": test.lo,
        "hi": test.hi,
        "p": test.p,
        "reason": test.reason,
    }


def maze_text(size: int | None, density: float | None) -> str:
    """Mazes in words."""
    grid = f"{size}×{size} mazes" if size is not None else "mazes"
    return grid if density is None else f"{grid} with wall density {density:.2f}"


def known(values: Collection[Any]) -> list[Any]:
    """Those that are not None."""
    return [v for v in values if v is not None]
