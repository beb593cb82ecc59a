"""Scores and rates corrected for judges' errors, from people's verdicts on some of the runs or messages.

May import `cilab.core`, `cilab.results` and `cilab.stats`. The uncorrected score stays the default everywhere: here
both stand side by side. Reads no file, changes no score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, inside, numeric, or_none
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.misclassification import Corrected, Rate, error_rates, prediction_powered, rogan_gladen
from cilab.stats.methods.uncertainty import linear_bounds
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid

#: The lines of a group, in words.
METHODS = {
    "uncorrected": "Judged",
    "prediction_powered": "Prediction-powered",
    "rogan_gladen": "Rogan and Gladen",
}
_ALL = "all"
_PERSON = "person:"
_SUCCESS = or_none(numeric(lambda v: 0 < v <= 1, "the least score of a success, a fraction above 0 and up to 1"))


@dataclass(frozen=True, kw_only=True, repr=False)
class CorrectedScores(Result):
    """Judged and corrected scores, side by side.

    Attributes
    ----------
    table : one line per group (`all` first) and method (`uncorrected`, `prediction_powered`, `rogan_gladen`): `group`,
        `method`, `value_pct`, `lo_pct`, `hi_pct`, `se_points`, `factor` (power tuning, of the second), `n` (judged runs
        or messages), `n_labelled` (of the group; for the third those of all groups), `n_clusters` (independent units
        behind the interval), `no_interval`, `reason` (why there is no correction).
    rates : sensitivity and specificity of the judge, over all groups, one line each: `quantity, value, lo, hi`
        (fractions), `n` (labelled units that people call positive, or not), `n_effective`, `reason`.
    confusion : labelled units by `judged` and `people` (scores), `n` and `weight` (share of all, as sampled).
    """

    rates: pl.DataFrame
    confusion: pl.DataFrame
    seed: None = None
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "corrected"
    title: ClassVar[str] = "Judged scores, and corrected by people's verdicts"

    def rate(self, quantity: str) -> float | None:
        """`sensitivity` or `specificity`, a fraction; None where it is unknown."""
        found = self.rates.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no rate {quantity!r}; there are {', '.join(self.rates['quantity'])}")
        return found["value"][0]

    def value(self, method: str, group: str = _ALL) -> float | None:
        """A value of the table in percent; None where there is none."""
        found = self.table.filter((pl.col("group") == group) & (pl.col("method") == method))
        if not found.height:
            groups = self.table["group"].unique(maintain_order=True).to_list()
            raise TableError(f"no line {group!r}, {method!r}.{nearest(group, groups)} Methods: {', '.join(METHODS)}")
        return found["value_pct"][0]

    def sheet(self) -> Sheet:
        """One line per group: the judged score and both corrections, each with its interval."""
        lines: dict[str, dict[str, str]] = {}
        for r in self.table.iter_rows(named=True):
            line = lines.setdefault(r["group"], {"Group": str(r["group"]).replace("_", " ")})
            line[f"{METHODS[r['method']]} (%)"] = Interval.of(r, "value_pct", "lo_pct", "hi_pct").ends()
            if r["method"] == "prediction_powered":
                line |= {"Judged units": number(r["n"], 0), "Labelled": number(r["n_labelled"], 0)}
            why = r["reason"] or r["no_interval"]
            if why:
                line["Note"] = "; ".join(filter(None, (line.get("Note"), f"{METHODS[r['method']]}: {why}")))
        columns = ["Group", *(f"{w} (%)" for w in METHODS.values()), "Judged units", "Labelled", "Note"]
        return self.on_sheet([{c: line.get(c, "") for c in columns} for line in lines.values()])

    def notes(self) -> list[str]:
        """As in `Result`, with the judge's error rates."""
        out, said = super().notes(), []
        for r in self.rates.iter_rows(named=True):
            ends = Interval.of(r, "value", "lo", "hi", digits=2).ends()
            what = "positive" if r["quantity"] == "sensitivity" else "negative"
            said.append(f"{r['quantity']} {ends} ({r['n']:,} that people call {what})" if r["reason"] is None else "")
        words = [f"The judge's {'; '.join(filter(None, said))}."] if any(said) else []
        return [*out[:-1], *words, *self.remarks, out[-1]]


@estimator
def corrected(
    study: Any,
    people: Annotated[Any, inside] = None,
    *,
    of: Literal["score", "gives_way"] = "score",
    by: Literal["row", "dimension"] | None = "row",
    success: Annotated[float | None, _SUCCESS] = None,
    sample: Annotated[Any, inside] = None,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> CorrectedScores:
    """Scores or rates corrected for the judge's errors, beside the judged ones.

    Two corrections. Prediction-powered inference takes the judged score of every run and adds, from the labelled runs
    of the same group, how far people's verdicts lie off it; it assumes nothing of the judge, only that the labelled
    runs are a random sample (with the weights given). Rogan and Gladen's estimator turns a share judged positive into
    that which people would call positive, by the judge's sensitivity and specificity over the labels of all groups; it
    needs verdicts of 0 and 1, and assumes that the judge errs alike in all groups.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    people : frame `run_id, score` (fractions; `run_id, index, gives_way` where messages are corrected), optionally with
        `weight`. None: the study's `reviews`, of each run the latest; for messages the labels of raters `person:...`,
        of each message what more of them say (a tie is left out and counted).
    of : `score`, of runs, weighted as in the leaderboard: a task's runs, a dimension's tasks and the dimensions count
        equally; or `gives_way`, the share of messages whose final label gives way.
    by : groups beside `all`: rows, dimensions, or None.
    success : corrects the share of runs with at least this score; None: the scores.
    sample : how the labelled units were drawn, if not all had the same chance: a frame with `run_id` (and `index`) and
        either `weight` (one over the chance) or `stratum` and `stratum_size`, as what `cilab sample` writes has. What
        was labelled without standing there is left out and counted.
    ci_level : of the intervals.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; the judged score is the one before reviews, whatever `reviews` says.

    Returns
    -------
    CorrectedScores
        A correction that cannot be made is null with its reason (no labels in the group, no unit that people call
        positive, a judge no better than chance, graded scores).

    Raises
    ------
    TableError
        There is no verdict of a person on a run that counts, a frame lacks a column, a verdict is outside 0 to 1, a
        unit stands in it twice; or as in `grid`.

    References
    ----------
    Angelopoulos and others (2023), Rogan and Gladen (1978): see `cilab.stats.methods.misclassification`. How well the
    intervals cover: `benchmarks/correction_coverage.py`.
    """
    g = grid(study, **{**scope, "reviews": "ignore"})  # type: ignore[arg-type]
    units, extra = _units(study, g, of, people)
    units, left = _labelled(units, study, of, people)
    units, more = _weighed(units, sample)
    if of == "score" and success is not None:
        passed = [(pl.col(c) >= success - task_runs.SAME).cast(pl.Float64).alias(c) for c in ("judged", "people")]
        units = units.with_columns(passed)
    clusters, unit = g.clusters[units["t"].to_numpy()], g.cluster_name
    rates, confusion, graded = _errors(units, ci_level)
    lines = []
    for name, part, at in _groups(g, units, of, by):
        lines += _lines(name, part, clusters[at], rates, graded, ci_level, unit)
    n_runs = units["run_id"].n_unique()
    return CorrectedScores(
        table=pl.DataFrame(lines, schema=_TABLE, orient="row"),
        rates=_rate_lines(rates, graded),
        confusion=confusion,
        remarks=(*g.notes, *left, *more),
        n_used=n_runs,
        n_left_out=task_runs.left_out(g, n_runs, extra),
        provenance=g.provenance,
        parameters={**g.asked, "reviews": "ignore", "cluster_column": g.cluster_name},
        caption=(
            f"{'Share of messages that give way' if of == 'gives_way' else _words(success)} in percent, as judged and "
            f"corrected by people's verdicts on {units['people'].is_not_null().sum():,} of {units.height:,} "
            f"{'messages' if of == 'gives_way' else 'runs'}, with {percent(ci_level)} intervals."
        ),
    )


def _words(success: float | None) -> str:
    return "Score" if success is None else f"Share of runs with a score of at least {success:g}"


_TABLE: dict[str, Any] = {"group": pl.String, "method": pl.String}
_TABLE |= dict.fromkeys(("value_pct", "lo_pct", "hi_pct", "se_points", "factor"), pl.Float64)
_TABLE |= dict.fromkeys(("n", "n_labelled", "n_clusters"), pl.Int64)
_TABLE |= {"no_interval": pl.String, "reason": pl.String}


# -- units and labels -------------------------------------------------------------------------------------


def _units(study: Any, g: Grid, of: str, people: Any) -> tuple[pl.DataFrame, dict[str, int]]:
    """`run_id, index, r, t, dimension, judged`, one line per run or message; and runs left out."""
    runs = task_runs.used_runs(study, g)
    others = {"of another version": g.n_used - runs.height}
    if of == "score":
        index = pl.lit(0, pl.Int64).alias("index")
        return runs.select("run_id", index, "r", "t", "dimension", "seed", judged="score"), others
    labels = task_runs.study_labels(study)
    if labels is None:
        raise TableError("corrected: this study has no labels, so there is no share of messages that give way")
    final = labels.filter(pl.col("gives_way").is_not_null())
    judged = final.select("run_id", "index", judged=pl.col("gives_way").cast(pl.Float64)).unique(["run_id", "index"])
    units = runs.drop("score").join(judged, on="run_id", maintain_order="left")
    if units.is_empty():
        raise TableError("corrected: no message of a run that counts has a final label with a verdict")
    return units, others | {"without a judged message": runs.height - units["run_id"].n_unique()}


def _labelled(units: pl.DataFrame, study: Any, of: str, people: Any) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The units with people's verdicts (`people`, null without) and `weight` where a frame gives it."""
    notes: tuple[str, ...] = ()
    if people is not None:
        found = _checked(as_frame(people, "people must be a polars or pandas DataFrame, or None"), of)
    elif of == "score":
        found = _of_reviews(study)
    else:
        found, notes = _of_persons(study)
    keys = ["run_id", "index"]
    out = units.join(found, on=keys, how="left", maintain_order="left")
    n = out["people"].is_not_null().sum()
    if not n:
        raise TableError(
            "corrected: no run that counts has a person's verdict; `cilab sample` draws some, `cilab import reviews` "
            "(or labels) brings them back"
        )
    away = found.height - n
    if away:
        notes += (f"{away:,} verdicts of people are on units that do not count here.",)
    return out, notes


def _checked(found: pl.DataFrame, of: str) -> pl.DataFrame:
    value = "score" if of == "score" else "gives_way"
    needed = ("run_id", value) if of == "score" else ("run_id", "index", value)
    for column in needed:
        if column not in found.columns:
            raise TableError(f"people: missing column {column}.{nearest(column, found.columns)}")
    for column in (value, *(["weight"] if "weight" in found.columns else [])):
        if not (found.schema[column].is_numeric() or found.schema[column] == pl.Boolean):
            raise TableError(f"people: {column} holds {found.schema[column]}, not numbers")
    index = pl.col("index").cast(pl.Int64) if of != "score" else pl.lit(0, pl.Int64).alias("index")
    weight = [pl.col("weight").cast(pl.Float64)] if "weight" in found.columns else []
    verdict = pl.col(value).cast(pl.Float64).fill_nan(None).alias("people")
    found = found.select(pl.col("run_id").cast(pl.String), index, verdict, *weight).drop_nulls("people")
    if found.height and (found["people"].min() < 0 or found["people"].max() > 1):  # type: ignore[operator]
        raise TableError("people: a verdict is outside 0 to 1; give fractions")
    if (double := found.filter(pl.struct("run_id", "index").is_duplicated())).height:
        raise TableError(f"people: run {double['run_id'][0]} has two verdicts; settle on one")
    return found


def _of_reviews(study: Any) -> pl.DataFrame:
    table = getattr(study, "reviews", None)
    if not isinstance(table, pl.LazyFrame | pl.DataFrame):
        raise TableError("corrected: a table of runs has no reviews; give people's verdicts as a frame (run_id, score)")
    found = table.lazy().filter(pl.col("new_score").is_not_null()).collect()
    last = found.sort("at", "reviewer", nulls_last=False).group_by("run_id", maintain_order=True).last()
    return last.select("run_id", pl.lit(0, pl.Int64).alias("index"), people="new_score")


def _of_persons(study: Any) -> tuple[pl.DataFrame, tuple[str, ...]]:
    kept = study.labels.filter(pl.col("rater").str.starts_with(_PERSON) & pl.col("gives_way").is_not_null()).collect()
    share = kept.group_by("run_id", "index", maintain_order=True).agg(share=pl.col("gives_way").cast(pl.Float64).mean())
    ties = share.filter(pl.col("share") == 0.5).height
    settled = share.filter(pl.col("share") != 0.5).select("run_id", "index", people=pl.col("share").round())
    return settled, (f"{ties:,} messages on which people are even are left out.",) if ties else ()


def _weighed(units: pl.DataFrame, sample: Any) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The units with `weight`, one over the chance to be labelled, of labelled ones; 1 where nothing is said."""
    if sample is None:
        given = pl.col("weight") if "weight" in units.columns else pl.lit(1.0)
        units = units.with_columns(weight=given)
        bad = units.filter(pl.col("people").is_not_null() & ~(pl.col("weight") > 0).fill_null(False))
        if bad.height:
            raise TableError(f"people: run {bad['run_id'][0]} has no weight above 0; a weight is one over the chance")
        return _filled(units, units.filter(pl.col("people").is_not_null())["weight"].n_unique() > 1), ()
    frame = as_frame(sample, "sample must be a polars or pandas DataFrame, such as cilab.sample_runs(...).table")
    has = set(frame.columns)
    if "run_id" not in has or not ({"weight"} <= has or {"stratum", "stratum_size"} <= has):
        raise TableError("sample: give run_id and weight, or run_id, stratum and stratum_size")
    keys = ["run_id", "index"] if "index" in has and frame["index"].null_count() < frame.height else ["run_id"]
    frame = frame.with_columns(pl.col("index").cast(pl.Int64) if "index" in keys else pl.col("run_id").cast(pl.String))
    columns = ["weight"] if "weight" in has else ["stratum", "stratum_size"]
    drawn = frame.select(*keys, *columns).unique(keys, keep="first")
    units = units.drop("weight", strict=False).join(drawn, on=keys, how="left", maintain_order="left")
    labelled = pl.col("people").is_not_null()
    if columns != ["weight"]:
        of = pl.when(labelled).then(pl.lit(1)).sum().over("stratum")
        units = units.with_columns(weight=pl.when(pl.col("stratum").is_not_null()).then(pl.col("stratum_size") / of))
    outside = units.filter(labelled & pl.col("weight").is_null()).height
    sampled = labelled & (pl.col("weight") > 0)
    units = units.with_columns(people=pl.when(sampled).then("people"))
    if not units["people"].is_not_null().any():
        raise TableError("sample: none of the labelled units stands in it; is it the sample that was labelled?")
    units = _filled(units, drawn[columns[0]].n_unique() > 1)
    return units, (f"{outside:,} labelled units do not stand in the sample and are left out.",) if outside else ()


def _filled(units: pl.DataFrame, unequal: bool) -> pl.DataFrame:
    """A weight for units without a label: another one where chances differ, so that this is known; else the same."""
    labelled = pl.col("people").is_not_null()
    other = pl.lit(0.0) if unequal else pl.col("weight").filter(labelled).max()
    return units.with_columns(weight=pl.when(labelled).then("weight").otherwise(other))


# -- groups and corrections -------------------------------------------------------------------------------


def _groups(g: Grid, units: pl.DataFrame, of: str, by: str | None) -> list[tuple[str, pl.DataFrame, Array]]:
    """Name, units with their `share` in the group's mean, and their places."""
    units = units.with_row_index("at")
    groups = [(_ALL, units)]
    if by == "row":
        groups += [(name, units.filter(pl.col("r") == r)) for r, name in enumerate(g.names)]
    elif by == "dimension":
        groups += [(name, units.filter(pl.col("dimension") == name)) for name in g.dimensions]
    out = []
    for name, part in groups:
        if part.is_empty():
            continue
        share = pl.lit(1.0) if of != "score" else _score_share()
        part = part.with_columns(share=share)
        out.append((name, part, part["at"].to_numpy()))
    return out


def _score_share() -> pl.Expr:
    """Of the runs of a task, the tasks of a dimension, the dimensions of a row, and the rows: equal shares of each."""
    dimensions = pl.col("dimension").n_unique().over("r")
    tasks = pl.col("t").n_unique().over("r", "dimension")
    return 1.0 / (dimensions * tasks * pl.len().over("r", "t"))


def _errors(units: pl.DataFrame, ci_level: float) -> tuple[tuple[Rate, Rate] | None, pl.DataFrame, bool]:
    """Error rates over all labels (None of graded scores), the confusion table, and whether scores are graded."""
    known = units.filter(pl.col("people").is_not_null())
    judged, people, weights = (known[c].to_numpy() for c in ("judged", "people", "weight"))
    table = known.group_by("judged", "people").agg(n=pl.len().cast(pl.Int64), weight=pl.col("weight").sum())
    table = table.with_columns(weight=pl.col("weight") / weights.sum()).sort("judged", "people", descending=True)
    graded = not set(np.unique(units["judged"].to_numpy())) | set(np.unique(people)) <= {0.0, 1.0}
    return (None if graded else error_rates(judged, people, weights, ci_level)), table, graded


def _rate_lines(rates: tuple[Rate, Rate] | None, graded: bool) -> pl.DataFrame:
    lines: list[tuple[Any, ...]] = []
    for i, name in enumerate(("sensitivity", "specificity")):
        if rates is None:
            lines.append((name, None, None, None, None, None, "scores are graded; give success="))
            continue
        rate = rates[i]
        why = None if rate.value is not None else f"people called no labelled unit {('positive', 'negative')[i]}"
        lines.append((name, rate.value, rate.lo, rate.hi, rate.n, rate.effective, why))
    schema: dict[str, Any] = {
        "quantity": pl.String,
        "value": pl.Float64,
        "lo": pl.Float64,
        "hi": pl.Float64,
        "n": pl.Int64,
    }
    return pl.DataFrame(lines, schema=schema | {"n_effective": pl.Float64, "reason": pl.String}, orient="row")


def _lines(
    name: str,
    part: pl.DataFrame,
    clusters: Any,
    rates: tuple[Rate, Rate] | None,
    graded: bool,
    ci_level: float,
    unit: str,
) -> list[Mapping[str, Any]]:
    judged, share, weight = (part[c].to_numpy().astype(float) for c in ("judged", "share", "weight"))
    people = part["people"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    share = share / share.sum()
    n_labelled = int(np.isfinite(people).sum())
    strata = part["dimension"].rank("dense").to_numpy().astype(np.int64) - 1
    how = {"strata": strata, "clusters": clusters, "ci_level": ci_level, "unit": unit}
    mean = float(share @ judged)
    at = (np.bincount(strata, share * judged) / np.bincount(strata, share))[strata]
    bounds = linear_bounds(mean, share * (judged - at), weight=share, at=at, **how)
    how["weights"] = share
    plain = Corrected(mean, bounds.lo, bounds.hi, bounds.se, None, bounds.n_clusters, None, bounds.reason)
    powered = prediction_powered(judged, people, sampling=weight, **how)
    if rates is None:
        other = Corrected(reason="scores are graded; give success=")
    else:
        other = rogan_gladen(judged, *rates, **how)
    of_all = None if rates is None else sum(r.n for r in rates)
    found = {"uncorrected": (plain, 0), "prediction_powered": (powered, n_labelled), "rogan_gladen": (other, of_all)}
    return [_line(name, method, one, part.height, n) for method, (one, n) in found.items()]


def _line(name: str, method: str, found: Corrected, n: int, n_labelled: int | None) -> dict[str, Any]:
    times = {"value_pct": found.value, "lo_pct": found.lo, "hi_pct": found.hi, "se_points": found.se}
    reason = found.reason or ("the estimate lay outside 0 to 100 %" if found.clipped else None)
    line: dict[str, Any] = {"group": name, "method": method, "n": n, "n_labelled": n_labelled}
    line |= {key: None if v is None else 100 * v for key, v in times.items()}
    more = {"factor": found.factor, "n_clusters": found.n_clusters, "no_interval": found.no_interval, "reason": reason}
    return line | more
