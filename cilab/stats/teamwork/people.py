"""People beside models on the same tasks: what source studies report, and the models' runs of the tasks made from them.

May import `cilab.core` and its own folder. Reads no file: the people's results come in as a frame
(`cilab.datasets.published_table("people")` is one).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Unpack

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, numeric
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods.bootstrap import exact_mean
from cilab.stats.methods.distributions import share_interval
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups
from cilab.teamwork.terms import VERSIONS

ALL_MODELS = "all"


_SUCCESS = numeric(lambda v: 0 < v <= 1, "the least score of a success, a fraction above 0 and up to 1")


@dataclass(frozen=True, kw_only=True, repr=False)
class People(Result):
    """People and models on the same tasks.

    Attributes
    ----------
    table : see `people`.
    by_model : `task, version, model, n_runs, n_success, success_pct`.
    unmatched : lines of the frame for which no task of these data is named, or whose tasks have no run.
    seed : None; nothing here is drawn at random.
    """

    by_model: pl.DataFrame
    unmatched: tuple[str, ...]
    seed: None = None

    figure: ClassVar[str | None] = "people"
    title: ClassVar[str] = "People and models on the same tasks"

    def sheet(self) -> Sheet:
        """One line per comparison and group of models."""
        lines = []
        for r in self.table.iter_rows(named=True):
            n = "" if r["people_n"] is None else f" (n = {r['people_n']:,})"
            lines.append(
                {
                    "Task": r["task"],
                    "Version": r["version"],
                    "People (%)": _people(r) + n,
                    "Models": "no runs" if r["group"] is None else r["group"],
                    "Models (%)": Interval.of(r, "models_pct", "min_pct", "max_pct", digits=0).ends(""),
                    "Runs": "" if r["n_runs"] is None else f"{r['n_runs']:,} of {r['n_models']} models",
                }
            )
        return self.on_sheet(lines)

    def paper_sheet(self) -> Sheet:
        """A line per task, a column per group of models: table 9 of the collaborative-intelligence paper."""
        groups = {g: g.capitalize() for g in self.table["group"].unique(maintain_order=True) if g is not None}
        lines: dict[tuple[str, str], dict[str, str]] = {}
        for r in self.table.iter_rows(named=True):
            first = {"Task": r["task"].capitalize(), "Version": r["version"]}
            first |= {"n people": number(r["people_n"], 0), "People (%)": _people(r)}
            line = lines.setdefault((r["task"], r["version"]), first | dict.fromkeys(groups.values(), ""))
            if r["group"] is not None:
                line[groups[r["group"]]] = number(r["models_pct"], 0)
        spanner = ("Models (%)", list(groups.values())) if groups else None
        return self.on_sheet(list(lines.values()), spanner=spanner)

    def notes(self) -> list[str]:
        """As in `Result`, with the tasks that have no runs."""
        out = super().notes()
        named = f"No runs here for: {'; '.join(self.unmatched)}."
        return [*out[:-1], *([named] if self.unmatched else []), out[-1]]


def _people(row: Mapping[str, Any]) -> str:
    return Interval.of(row, "people_pct", "people_lo_pct", "people_hi_pct", digits=0).ends("")


@estimator
def people(
    study: Any,
    table: Any,
    tasks: Mapping[str, str | Sequence[str]] | None = None,
    *,
    groups: Groups = None,
    success: Annotated[float, _SUCCESS] = 1.0,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> People:
    """What share of people, and of model runs, did the right thing on the same tasks.

    A model's share is over all its runs of the tasks in the version that matches the people's setting; a group's is the
    mean over its models. A model that fails a task alone has no run of it and does not enter. Rows at each model's
    default setting. The settings of people and models are not fully matched: see the paper's section G.1.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    table : frame (polars or pandas), one line per comparison: `task, version, people_pct` (null where the study gives
        no rate), `people_n` (people, pairs or groups; null where unknown) and, unless `tasks` is given,
        `task_ids` (separated by |).
    tasks : `{task: task id or ids}`, from the names in `table` to the tasks of the data.
    groups : as in `cilab.stats.teamwork.scores.group_means`.
    success : a run succeeded if its score is at least this (a fraction above 0 and up to 1).
    ci_level : of the interval of the people's share (Clopper and Pearson, where `people_n` is known).
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    People
        `.table`: `task, version, people_pct, people_lo_pct, people_hi_pct, people_n, group` (`all` first), `n_models,
        n_runs, models_pct, min_pct, max_pct` (of single models), `people_minus_models_points`. Lines without runs have
        one line with null.

    Raises
    ------
    TableError
        The frame lacks a column, a percentage is outside 0 to 100, a number of people is no whole number above 0, a
        version is unknown, or `tasks` names a task or a comparison that is not there; `success` is no fraction; or as
        in `grid`.

    References
    ----------
    Collaborative-intelligence paper, sections 5 and G.1, figure 7, table 9.
    """
    lines = _people_lines(table, tasks)
    whole = grid(study, **scope)
    g = task_runs.default_grid(whole)
    _check_tasks(lines, whole)
    out, by_model, unmatched, used = [], [], [], set()
    for line in lines:
        runs = task_runs.used_runs(study, g, (), line["version"]).filter(pl.col("task_id").is_in(line["task_ids"]))
        known = _people_share(line, ci_level)
        if runs.height == 0:
            unmatched.append(line["task"])
            out.append(known | {"group": None})
            continue
        used |= set(runs["run_id"])
        of = _by_model(runs, success).with_columns(task=pl.lit(line["task"]), version=pl.lit(line["version"]))
        by_model.append(of.select("task", "version", "model", "n_runs", "n_success", "success_pct"))
        out += [known | part for part in _groups(study, g, of, line["people_pct"], groups)]
    shown = pl.concat(by_model) if by_model else pl.DataFrame(schema=_BY_MODEL)
    return People(
        table=pl.DataFrame(out, schema=_TABLE, orient="row"),
        by_model=shown,
        unmatched=tuple(unmatched),
        n_used=len(used),
        n_left_out=task_runs.left_out(whole, len(used), {"of other tasks, versions or rows": whole.n_used - len(used)}),
        provenance=whole.provenance,
        parameters=g.asked,
        caption=(
            "Share that did the right thing, in percent: people as the source study counts them, models as the mean "
            "over models of their runs on the same task. In brackets: the interval; for models the worst and the best."
        ),
    )


_BY_MODEL = {"task": pl.String, "version": pl.String, "model": pl.String, "n_runs": pl.Int64, "n_success": pl.Int64}
_BY_MODEL |= {"success_pct": pl.Float64}
_TABLE = {"task": pl.String, "version": pl.String}
_TABLE |= dict.fromkeys(("people_pct", "people_lo_pct", "people_hi_pct"), pl.Float64)
_TABLE |= {"people_n": pl.Int64, "group": pl.String, "n_models": pl.Int64, "n_runs": pl.Int64}
_TABLE |= dict.fromkeys(("models_pct", "min_pct", "max_pct", "people_minus_models_points"), pl.Float64)


def _people_lines(table: Any, tasks: Mapping[str, str | Sequence[str]] | None) -> list[dict[str, Any]]:
    frame = as_frame(table, "people: the table must be a polars or pandas DataFrame")
    for column in ("task", "version", "people_pct"):
        if column not in frame.columns:
            raise TableError(f"people: missing column {column}")
    names = frame["task"].to_list()
    for name in tasks or ():
        if name not in names:
            raise TableError(f"people: no comparison is called {name!r}.{nearest(name, names)}")
    out = []
    for row in frame.iter_rows(named=True):
        pct, n = (_number(row, column) for column in ("people_pct", "people_n"))
        if pct is not None and not 0 <= pct <= 100:
            raise TableError(f"people: people_pct of {row['task']} is {pct}; it is a percentage from 0 to 100")
        if n is not None and (n < 1 or n != int(n)):
            raise TableError(f"people: people_n of {row['task']} is {n:g}; it is a whole number above 0, or null")
        if row["version"] not in VERSIONS:
            hint = nearest(str(row["version"]), VERSIONS)
            raise TableError(f"people: version of {row['task']} is {row['version']!r}.{hint}")
        ids = (tasks or {}).get(row["task"], row.get("task_ids") if tasks is None else None)
        kept = {"task": row["task"], "version": row["version"], "people_pct": pct}
        out.append(kept | {"people_n": None if n is None else int(n), "task_ids": _listed(row["task"], ids)})
    return out


def _number(row: Mapping[str, Any], column: str) -> float | None:
    """A number of the frame; null and NaN (a gap in pandas) are unknown."""
    value = row.get(column)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise TableError(f"people: {column} of {row['task']} is {value!r}; it is a number, or null where unknown")
    return float(value)


def _listed(task: str, ids: Any) -> list[str]:
    """The ids in a text, separated by |, or in a list."""
    if ids is None or (isinstance(ids, float) and math.isnan(ids)):
        return []
    if not isinstance(ids, str | list | tuple):
        raise TableError(f"people: the task ids of {task} are {ids!r}; give a text, separated by |, or a list")
    return [i for one in (ids.split("|") if isinstance(ids, str) else ids) if (i := str(one).strip())]


def _check_tasks(lines: Sequence[Mapping[str, Any]], g: Grid) -> None:
    known = g.tasks["task_id"].to_list()
    for line in lines:
        for task in line["task_ids"]:
            if task not in known:
                raise TableError(
                    f"people: {line['task']} names the task {task!r}, which is not in these data.{nearest(task, known)}"
                )


def _people_share(line: Mapping[str, Any], ci_level: float) -> dict[str, Any]:
    pct, n = line["people_pct"], line["people_n"]
    lo = hi = None
    if pct is not None and n:
        lo, hi = (100 * end for end in share_interval(round(pct * n / 100), int(n), ci_level))
    return {
        "task": line["task"],
        "version": line["version"],
        "people_pct": pct,
        "people_lo_pct": lo,
        "people_hi_pct": hi,
        "people_n": n,
    }


def _by_model(runs: pl.DataFrame, success: float) -> pl.DataFrame:
    ok = pl.col("score") >= success - 1e-9
    counted = runs.group_by("model", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n_runs"), ok.sum().cast(pl.Int64).alias("n_success")
    )
    return counted.with_columns(success_pct=100 * pl.col("n_success") / pl.col("n_runs")).sort("model")


def _groups(
    study: Any,
    g: Grid,
    of: pl.DataFrame,
    people_pct: float | None,
    groups: Mapping[str, Any] | pl.DataFrame | None,
) -> list[dict[str, Any]]:
    of_group = {
        name: [g.rows["model"][r] for r in rows] for name, rows in task_runs.groups_of(study, g, groups).items()
    }
    out = []
    for name, models in {ALL_MODELS: of["model"].to_list(), **of_group}.items():
        own = of.filter(pl.col("model").is_in(models))
        if own.height == 0:
            continue
        mean = exact_mean(own["success_pct"].to_numpy())
        out.append(
            {
                "group": name,
                "n_models": own.height,
                "n_runs": int(own["n_runs"].sum()),
                "models_pct": mean,
                "min_pct": own["success_pct"].min(),
                "max_pct": own["success_pct"].max(),
                "people_minus_models_points": None if people_pct is None else people_pct - mean,
            }
        )
    return out
