"""Whether graders can be trusted: appendix E of the collaboration-gap paper in one call.

May import `cilab.core` and `cilab.stats`. Compares regraded outcomes (the annotations) with those that the rollouts
were stored with (the reference); nothing is graded here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_lazy, read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed, inside
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze.rows import copies, with_partner_effort
from cilab.stats.methods.coefficients import fleiss_kappa, majority_label
from cilab.stats.methods.hypothesis_tests import (
    HypothesisTest,
    adjust,
    fisher,
    mcnemar,
    paired_t,
    pearson,
    two_sample_t,
    wilcoxon,
)
from cilab.stats.methods.intraclass import ICC_FORMS, icc
from cilab.stats.methods.means import z_of
from cilab.stats.methods.ratings import Agreement

#: The stored outcome as a rater beside the graders.
REFERENCE = "reference"
#: Fewest and most differences for which Shapiro-Wilk is asked; above, scipy's p is not accurate.
_SHAPIRO = (3, 5000)
#: Level of the test whether rollouts were graded more often for their outcome.
_BY_CHANCE = 0.001

Setting = Literal["solo", "homogeneous", "heterogeneous", "relay"]
SETTINGS = ("solo", "homogeneous", "heterogeneous", "relay")
_FEATURES = ("weighted_outcome", "success")


@dataclass(frozen=True, kw_only=True, repr=False)
class GradingResult(Result):
    """How far graders agree with each other and with the stored outcomes.

    Attributes
    ----------
    table : overall (appendix E, "Overall"): the rows `weighted outcome` (intraclass correlation) and `binary success`
        (Fleiss' kappa) with `method, value, lo, hi, n, raters, reason`.
    correlations : one row per two raters: Pearson's r of the weighted outcomes with interval, and `p`.
    majority : the graders' majority against the reference, rows `weighted outcome` (median of all raters; paired t or
        Wilcoxon) and `binary success` (majority of all raters; exact McNemar): `n, n_changed, mean_difference, lo, hi,
        method, p, p_adjusted, cohen_d, normality_p, reason`.
    conditional : one row per verdict of the reference (`success`, `failure`): `n`, `n_disagree` and
        `disagreement_rate` (a grader's verdict differs), `mean_sd` (divisor: number of raters) and `mean_range` of the
        weighted outcomes across raters.
    conditional_tests : Fisher's exact test of the two disagreement rates and Welch's t of the standard deviations:
        `measure, method, p, p_adjusted, effect, effect_name, reason`.
    by_agent : one row per model: `icc, icc_lo, icc_hi, kappa, kappa_lo, kappa_hi, raw, n, reason`; `raw` is the raw
        agreement on success, which stands where kappa is undefined (a model that always succeeds).
    raters : names of the raters, the reference first.
    repeated : gradings that are the reference's in every rollout: the same grading twice raises all agreement.
    by_outcome : what to say where rollouts were graded more often for their stored outcome: agreement then is that of
        the graded ones, no estimate for all. None where they were not.
    """

    correlations: pl.DataFrame
    majority: pl.DataFrame
    conditional: pl.DataFrame
    conditional_tests: pl.DataFrame
    by_agent: pl.DataFrame
    raters: tuple[str, ...]
    repeated: tuple[str, ...] = ()
    by_outcome: str | None = None

    figure: ClassVar[str | None] = "grading"
    title: ClassVar[str] = "Grader agreement"

    def sheet(self) -> Sheet:
        """The overall numbers, the majority against the reference, the two conditional tests and each model."""
        lines = [
            _line(r["measure"], r["method"], _ends(r, "value"), None, r["n"], r["reason"])
            for r in self.table.iter_rows(named=True)
        ]
        for r in self.majority.iter_rows(named=True):
            what, value = f"majority − reference, {r['measure']}", _ends(r, "mean_difference")
            lines.append(_line(what, r["method"], value, r, r["n"], r["reason"]))
        for r in self.conditional.iter_rows(named=True):
            lines.append(_line(f"disagreement on a {r['group']}", "rate", _two(r["disagreement_rate"]), None, r["n"]))
        for r in self.conditional_tests.iter_rows(named=True):
            name = f"{r['method']} ({r['effect_name']})"
            lines.append(_line(f"success − failure, {r['measure']}", name, _two(r["effect"]), r, r["n"], r["reason"]))
        for r in self.by_agent.iter_rows(named=True):
            value = f"{_two(r['icc'])} / {_two(r['kappa'])}"
            lines.append(_line(r["model"], "ICC / kappa", value, None, r["n"], r["reason"]))
        return self.on_sheet(lines)

    def paper_sheet(self) -> Sheet:
        """The three parts of tables 6 to 9 of the collaboration-gap paper.

        Which of the four it is depends on the gradings and the setting that `cilab.grader_agreement` was given.
        """
        setting = self.parameters["setting"]
        where = "" if setting is None else f" ({str(setting).replace('_', ' ')})"
        parts = {
            "All raters": self._overall(),
            "(a) Majority vote against the reference": self._majority(),
            "(b) By the reference's outcome": self._conditional(),
            "(c) By agent: ICC / kappa": (
                _part(r["model"], f"{_two(r['icc'])} / {_two(r['kappa'])}", r["n"])
                for r in self.by_agent.iter_rows(named=True)
            ),
        }
        lines = [{"Part": part} | line for part, found in parts.items() for line in found]
        return self.on_sheet(lines, f"Consistency of graders{where}", group="Part")

    def _overall(self) -> Iterator[dict[str, str]]:
        for r in self.table.iter_rows(named=True):
            yield _part(f"{r['method'].partition(':')[0]}, {r['measure']}", _ends(r, "value"), r["n"])
        for r in self.correlations.iter_rows(named=True):
            yield _part(f"Pearson's r, {r['first']} and {r['second']}", _ends(r, "r"), r["n"])

    def _majority(self) -> Iterator[dict[str, str]]:
        for r in self.majority.iter_rows(named=True):
            yield _part(f"Difference in mean, {r['measure']}", _ends(r, "mean_difference"), r["n"], r)
            if r["cohen_d"] is not None:
                yield _part(f"Cohen's d, {r['measure']}", _two(r["cohen_d"]), r["n"])

    def _conditional(self) -> Iterator[dict[str, str]]:
        for r in self.conditional.iter_rows(named=True):
            yield _part(f"Binary disagreement, {r['group']}", _two(r["disagreement_rate"]), r["n"])
            yield _part(f"Mean sd of weighted outcomes, {r['group']}", _two(r["mean_sd"]), r["n"])
        for r in self.conditional_tests.iter_rows(named=True):
            yield _part(f"{r['effect_name'].capitalize()}, {r['measure']}", _two(r["effect"]), r["n"], r)

    def notes(self) -> list[str]:
        """A warning where a grading repeats the reference, then what was used and left out."""
        words = "gives the reference's grade in every rollout: if it is the same grading, name it as reference="
        first = [f"{name} {words}(name, repeat)." for name in self.repeated]
        return [*first, *([self.by_outcome] if self.by_outcome else []), *super().notes()]


def _line(
    what: str, method: str, value: str, p: Mapping[str, Any] | None, n: int, reason: str | None = None
) -> dict[str, str]:
    return {"Quantity": what, "Method": method, "Value": value, "p (BH)": _both_p(p), "n": number(n, 0)} | {
        "Note": reason or ""
    }


def _part(what: str, value: str, n: int, p: Mapping[str, Any] | None = None) -> dict[str, str]:
    return {"Quantity": what, "Value": value, "p (BH)": _both_p(p), "n": number(n, 0)}


def _both_p(row: Mapping[str, Any] | None) -> str:
    """p, and in brackets the one adjusted for several tests."""
    return "" if row is None or row["p"] is None else f"{p_value(row['p'])} ({p_value(row['p_adjusted'])})"


def _ends(row: Mapping[str, Any], value: str) -> str:
    return Interval.of(row, value, "lo", "hi", digits=2).ends()


def _two(value: float | None) -> str:
    return number(value, 2, NONE)


@estimator
def grader_agreement(
    data: Any,
    *,
    runs: Any = None,
    graders: Annotated[Sequence[str | tuple[str, int]] | None, inside] = None,
    reference: Annotated[tuple[str, int] | None, inside] = None,
    setting: Setting | None = None,
    form: str = "ICC(A,1)",
    normality_alpha: float = 0.05,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
) -> GradingResult:
    """Appendix E: overall agreement, correlations, majority against reference, conditional analysis, by agent.

    The raters are the reference (the outcome stored with the rollout, unless a grader is named) and every chosen
    grader. Intra-model consistency is this with repeats of the reference's own grader; inter-model consistency with
    other models.

    Parameters
    ----------
    data : an opened study or a data set with `annotations` and `runs`; or a frame of annotations, with `runs`.
    runs : the runs table where `data` is a frame.
    graders : names of annotators (all their repeats), or (name, repeat); None takes every annotator that graded.
    reference : a grading (name, repeat) that takes the place of the stored outcome, which then is no rater.
    setting : `solo`, `homogeneous` (a model with a copy of itself), `heterogeneous`, `relay`, or None for all together.
        The paper reports the first two one by one.
    form : of the intraclass correlation, one of `cilab.stats.judges.agreement.ICC_FORMS`. The paper does not say
        which; the default, two-way absolute agreement of a single rating, counts a grader who is always milder as
        disagreement.
    normality_alpha : the weighted outcomes are compared by a paired t-test where Shapiro-Wilk does not reject normal
        differences at this level, else (and with fewer than 3 or more than 5,000 rollouts) by Wilcoxon's test.
    resamples, seed : of kappa's percentile intervals over rollouts.
    ci_level : a fraction.

    Returns
    -------
    GradingResult
        A rollout that a grader left out, or whose grade could not be read, is left out and counted by grader; a note
        says where those are more often successes, or failures, than by chance (Fisher's exact test). The four
        tests are corrected together (Benjamini-Hochberg).

    Raises
    ------
    TableError
        No grades, an unknown grader or setting, or no rollout that all raters graded.

    References
    ----------
    Collaboration-gap paper, appendix E, tables 6 to 9. The standard deviations' divisor is the number of raters: the
    printed ratio of range to deviation (2.1 for three raters of whom one differs) fits no other.
    """
    _check(setting, form, normality_alpha)
    z_of(ci_level)
    notes, stored = _read(data, runs)
    if isinstance(reference, str):
        raise TableError(f"reference is a text; give a grading (name, repeat), such as ({reference!r}, 0)")
    chosen, first = _graders(notes, graders), None if reference is None else _graders(notes, [reference])[0]
    chosen = [g for g in chosen if g != first]
    if not chosen:
        raise TableError("graders: nobody is left beside the reference")
    rollouts, left_out, provenance = _rollouts(stored, setting)
    everyone = chosen if first is None else [first, *chosen]
    grades, missing = _grades(rollouts, notes, everyone)
    left_out |= missing
    if grades.height == 0:
        listed = "; ".join(f"{n:,} {reason}" for reason, n in left_out.items())
        raise TableError(f"annotations: no rollout that every grader graded; left out: {listed}")
    names = tuple(f"{name}#{repeat}" for name, repeat in everyone)
    names = names if first is not None else (REFERENCE, *names)
    raters = _Raters(grades, names, form, resamples, seed, ci_level)
    weighted, binary = _majority_weighted(raters, normality_alpha), _majority_binary(raters)
    conditional, fisher_test, t_test = _conditional(raters)
    adjusted = adjust([weighted["p"], binary["p"], fisher_test["p"], t_test["p"]])
    rows = [
        r | {"p_adjusted": p} for r, p in zip((weighted, binary, fisher_test, t_test), adjusted.adjusted, strict=True)
    ]
    return GradingResult(
        table=_overall(raters),
        correlations=_correlations(raters),
        majority=pl.DataFrame(rows[:2], schema=_MAJORITY),
        conditional=conditional,
        conditional_tests=pl.DataFrame(rows[2:], schema=_TESTS),
        by_agent=_by_agent(raters),
        raters=names,
        repeated=raters.repeated(),
        by_outcome=_graded_by_outcome(rollouts, grades),
        n_used=grades.height,
        n_left_out={reason: n for reason, n in left_out.items() if n},
        provenance=provenance,
        parameters={"graders": [list(g) for g in chosen], "reference": None if first is None else list(first)},
        caption=f"Reference and {len(chosen)} gradings of {setting or 'all'} rollouts. Weighted outcomes: {form}, with "
        f"the {percent(ci_level)} interval of McGraw and Wong; binary success: Fleiss' kappa, percentile interval over "
        f"rollouts. Differences are majority - reference. p in brackets: {adjusted.method}.",
    )


# -- reading ----------------------------------------------------------------------------------------------


def _check(setting: str | None, form: str, normality_alpha: float) -> None:
    if setting is not None and setting not in SETTINGS:
        raise TableError(f"setting is {setting!r}, not one of {', '.join(SETTINGS)}.{nearest(str(setting), SETTINGS)}")
    if form not in ICC_FORMS:
        raise TableError(f"form is {form!r}, not one of {', '.join(ICC_FORMS)}.{nearest(str(form), ICC_FORMS)}")
    if not 0 < normality_alpha < 1:
        raise TableError(f"normality_alpha is {normality_alpha!r}: give a fraction between 0 and 1, such as 0.05")


def _read(data: Any, runs: Any) -> tuple[pl.DataFrame, Any]:
    """The grades among the annotations, and what holds the runs."""
    columns = ("run_id", "annotator", "repeat", "agent", "feature", "value")
    if isinstance(getattr(data, "annotations", None), pl.LazyFrame):
        notes, stored = data.annotations, data
    elif runs is None:
        raise TableError("annotations: give an opened study, or a frame of annotations with runs=the runs table")
    else:
        notes, stored = as_lazy(data, "annotations must be a polars or pandas DataFrame"), runs
    there = notes.collect_schema().names()
    if gone := [c for c in columns if c not in there]:
        raise TableError(f"annotations: missing column {', '.join(gone)}.{nearest(gone[0], there)}")
    wanted = pl.col("feature").is_in(_FEATURES) & (pl.col("agent") == 0)
    grades = (
        notes.filter(wanted).select(columns).with_columns(pl.col("value").cast(pl.Float64).fill_nan(None)).collect()
    )
    if grades.is_empty():
        raise TableError("annotations: no grades; `cilab regrade DATA --with MODEL` makes them")
    double = grades.filter(pl.struct(pl.all().exclude("value")).is_duplicated())
    if double.height:
        run, name, repeat = double.select("run_id", "annotator", "repeat").row(0)
        raise TableError(f"annotations: {name} graded run {run} twice in repeat {repeat}")
    return grades, stored


def _graders(notes: pl.DataFrame, asked: Sequence[str | tuple[str, int]] | None) -> list[tuple[str, int]]:
    there = sorted(notes.select("annotator", "repeat").unique().rows())
    if asked is None:
        return there
    if isinstance(asked, str):
        raise TableError(f"graders is a text; give a list of names, such as [{asked!r}]")
    known = sorted({name for name, _ in there})
    chosen = []
    for grader in asked:
        if not isinstance(grader, str) and not (isinstance(grader, list | tuple) and len(grader) == 2):
            raise TableError(f"graders and reference: {grader!r} is neither a name nor (name, repeat)")
        name, repeat = (grader, None) if isinstance(grader, str) else grader
        hits = [g for g in there if g[0] == name and repeat in (None, g[1])]
        if not hits:
            which = "" if repeat is None else f" in repeat {repeat}"
            raise TableError(
                f"annotations: no grades by {name!r}{which}.{nearest(str(name), known)} Known: {', '.join(known)}"
            )
        chosen += hits
    return list(dict.fromkeys(chosen))


def _rollouts(stored: Any, setting: str | None) -> tuple[pl.DataFrame, dict[str, int], Any]:
    """Finished rollouts of the setting with their stored outcome."""
    required = ("run_id", "version", "model", "partner_model", "status", *_FEATURES)
    rows, provenance = read_rows(stored, required, ("benchmark", "effort", "partner_effort"))
    rows = with_partner_effort(rows).with_columns(
        pl.col("weighted_outcome").cast(pl.Float64).fill_nan(None), pl.col("success").cast(pl.Float64).fill_nan(None)
    )
    if (worst := rows["weighted_outcome"].max()) is not None and worst > 1:
        raise TableError(f"runs: weighted_outcome is {worst:g}, above 1; it is a fraction (divide percentages by 100)")
    solo = pl.col("version").is_in(["solo_full", "solo_distributed"])
    which = (
        pl.when(solo)
        .then(pl.lit("solo"))
        .when((pl.col("version") == "pair") & copies())
        .then(pl.lit("homogeneous"))
        .when(pl.col("version") == "pair")
        .then(pl.lit("heterogeneous"))
        .when(pl.col("version") == "relay")
        .then(pl.lit("relay"))
    )
    outside = pl.col("setting").is_null() if setting is None else pl.col("setting").ne_missing(pl.lit(setting))
    reason = (
        pl.when((pl.col("benchmark").fill_null("maze") != "maze") | outside)
        .then(pl.lit("of other settings than asked for"))
        .when(pl.col("status") != "ok")
        .then(pl.lit("not finished with an outcome"))
        .when(pl.any_horizontal(pl.col(*_FEATURES).is_null()))
        .then(pl.lit("without a stored outcome"))
        .when(~pl.col("run_id").is_first_distinct())
        .then(pl.lit("the same run again"))
    )
    marked = rows.with_columns(which.alias("setting")).with_columns(reason.alias("reason"))
    counts = dict(sorted(marked.filter(pl.col("reason").is_not_null())["reason"].value_counts().rows()))
    return marked.filter(pl.col("reason").is_null()), counts, provenance


def _grades(
    rollouts: pl.DataFrame, notes: pl.DataFrame, chosen: Sequence[tuple[str, int]]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Rollouts with the grades of every rater (`weighted_outcome|i`, `success|i`), and who left rollouts out."""
    table = rollouts.sort("run_id")
    for i, (name, repeat) in enumerate(chosen):
        mine = notes.filter((pl.col("annotator") == name) & (pl.col("repeat") == repeat))
        for feature in _FEATURES:
            values = mine.filter(pl.col("feature") == feature).select("run_id", pl.col("value").alias(f"{feature}|{i}"))
            table = table.join(values, on="run_id", how="left")
        seen = mine.select("run_id").unique().with_columns(pl.lit(True).alias(f"seen|{i}"))
        table = table.join(seen, on="run_id", how="left")
    seen_columns = [f"seen|{i}" for i in range(len(chosen))]
    reason = pl.when(pl.all_horizontal(pl.col(seen_columns).is_null())).then(pl.lit("graded once only, not regraded"))
    for i, (name, repeat) in enumerate(chosen):
        unread = pl.any_horizontal(pl.col(f"{f}|{i}").is_null() for f in _FEATURES)
        reason = reason.when(pl.col(f"seen|{i}").is_null()).then(pl.lit(f"left out by {name}#{repeat}"))
        reason = reason.when(unread).then(pl.lit(f"with an unreadable grade by {name}#{repeat}"))
    marked = table.with_columns(reason.alias("reason"))
    counts = dict(sorted(marked.filter(pl.col("reason").is_not_null())["reason"].value_counts().rows()))
    return marked.filter(pl.col("reason").is_null()), counts


def _graded_by_outcome(rollouts: pl.DataFrame, grades: pl.DataFrame) -> str | None:
    """A sentence where whether a rollout was graded hung on its stored verdict."""
    n = {}
    for verdict in (1.0, 0.0):
        all_of, graded = (frame.filter(pl.col("success") == verdict).height for frame in (rollouts, grades))
        n[verdict] = (graded, all_of - graded)
    p = fisher([n[1.0], n[0.0]]).p
    if p is None or p >= _BY_CHANCE:
        return None
    shares = " and ".join(
        f"{done:,} of {done + left:,} that {words}"
        for (done, left), words in ((n[1.0], "succeeded"), (n[0.0], "failed"))
    )
    return f"Graded were {shares}: agreement is that of the graded rollouts, not an estimate for all of them."


# -- the numbers ------------------------------------------------------------------------------------------


class _Raters:
    """The grades as two matrices, rollouts x raters (the reference first), and how to estimate."""

    def __init__(
        self, grades: pl.DataFrame, names: Sequence[str], form: str, resamples: int, seed: int, ci_level: float
    ):
        self.names, self.models = tuple(names), grades["model"].to_list()
        stored = names[0] == REFERENCE
        others = range(len(names) - stored)
        self.weighted, self.binary = (
            grades.select(*([f] if stored else []), *(f"{f}|{i}" for i in others)).to_numpy() for f in _FEATURES
        )
        self.form, self.draws, self.ci_level = form, {"resamples": resamples, "seed": seed}, ci_level

    def repeated(self) -> tuple[str, ...]:
        """Graders who gave the reference's grades in every rollout."""
        same = (self.weighted == self.weighted[:, :1]).all(0) & (self.binary == self.binary[:, :1]).all(0)
        return tuple(name for name, alike in zip(self.names[1:], same[1:], strict=True) if alike)

    def coefficients(self, rows: Any = slice(None)) -> tuple[Agreement, Agreement]:
        """Intraclass correlation and Fleiss' kappa of some rollouts."""
        weighted, binary = self.weighted[rows], self.binary[rows]
        method = f"{self.form}: fewer than two rollouts"
        if len(weighted) < 2:
            correlation = Agreement(method, None, n_subjects=len(weighted), reason="fewer than two rollouts")
        else:
            correlation = icc(weighted, form=self.form, ci_level=self.ci_level)
        kappa = fleiss_kappa(binary, counts=False, ci_level=self.ci_level, **self.draws)
        return correlation, kappa


def _overall(raters: _Raters) -> pl.DataFrame:
    rows = [
        {"measure": measure, "method": a.method, "value": a.value, "lo": a.lo, "hi": a.hi}
        | {"n": a.n_subjects, "raters": a.n_raters, "reason": a.reason}
        for measure, a in zip(("weighted outcome", "binary success"), raters.coefficients(), strict=True)
    ]
    numbers = dict.fromkeys(("value", "lo", "hi"), pl.Float64)
    schema = {"measure": pl.String, "method": pl.String, **numbers, "n": pl.Int64, "raters": pl.Int64}
    return pl.DataFrame(rows, schema={**schema, "reason": pl.String})


def _correlations(raters: _Raters) -> pl.DataFrame:
    rows = []
    for i, j in itertools.combinations(range(len(raters.names)), 2):
        t = pearson(raters.weighted[:, i], raters.weighted[:, j], ci_level=raters.ci_level)
        rows.append(
            {"first": raters.names[i], "second": raters.names[j], "r": t.estimate, "lo": t.lo, "hi": t.hi, "p": t.p}
            | {"n": t.n, "reason": t.reason}
        )
    numbers = dict.fromkeys(("r", "lo", "hi", "p"), pl.Float64)
    schema = {"first": pl.String, "second": pl.String, **numbers, "n": pl.Int64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema)


_NUMBERS = ("mean_difference", "lo", "hi", "p", "p_adjusted", "cohen_d", "normality_p")
_MAJORITY = {
    "measure": pl.String,
    "n": pl.Int64,
    "n_changed": pl.Int64,
    **dict.fromkeys(_NUMBERS, pl.Float64),
    "method": pl.String,
    "reason": pl.String,
}
_TESTS = {
    "measure": pl.String,
    "method": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(("p", "p_adjusted", "effect"), pl.Float64),
    "effect_name": pl.String,
    "reason": pl.String,
}


def _majority_weighted(raters: _Raters, alpha: float) -> dict[str, Any]:
    """The median of all raters against the reference."""
    median = np.median(raters.weighted, axis=1)
    # The median of an even number of raters may lie between two equal grades by a rounding error only.
    diff = np.round(median - raters.weighted[:, 0], 12)
    t = paired_t(diff, ci_level=raters.ci_level)
    normality = _normality(diff)
    test = _location_test(diff, t, normality, alpha)
    return {
        "measure": "weighted outcome",
        "n": diff.size,
        "n_changed": int((diff != 0).sum()),
        "mean_difference": t.estimate,
        "lo": t.lo,
        "hi": t.hi,
        "p": test.p,
        "cohen_d": t.detail.get("cohen_d"),
        "normality_p": normality,
        "method": test.method,
        "reason": test.reason,
    }


def _normality(diff: np.ndarray) -> float | None:
    """Shapiro-Wilk's p; None where it cannot be asked."""
    if not _SHAPIRO[0] <= diff.size <= _SHAPIRO[1] or np.ptp(diff) == 0:
        return None
    from scipy import stats

    return float(stats.shapiro(diff).pvalue)


def _location_test(diff: np.ndarray, t: HypothesisTest, normality: float | None, alpha: float) -> HypothesisTest:
    """The stated rule: paired t where normality is not rejected, else Wilcoxon."""
    if not t.defined or (normality is not None and normality >= alpha):
        return t
    return wilcoxon(diff)


def _majority_binary(raters: _Raters) -> dict[str, Any]:
    """The majority of all raters against the reference; ties keep no verdict and are counted."""
    majority = majority_label(raters.binary.tolist())
    pairs = [(m, r) for m, r in zip(majority, raters.binary[:, 0].tolist(), strict=True) if m is not None]
    counts = [[sum(m == a and r == b for m, r in pairs) for b in (1.0, 0.0)] for a in (1.0, 0.0)]
    test = mcnemar(counts)
    ties = len(majority) - len(pairs)
    words = [test.reason, f"{ties} rollouts without a majority left out" if ties else None]
    return {
        "measure": "binary success",
        "n": len(pairs),
        "n_changed": counts[0][1] + counts[1][0],
        "mean_difference": test.estimate,
        "p": test.p,
        "method": test.method,
        "reason": "; ".join(filter(None, words)) or None,
    }


def _conditional(raters: _Raters) -> tuple[pl.DataFrame, dict[str, Any], dict[str, Any]]:
    """Successes and failures of the reference apart: who disagrees, and by how much."""
    success = raters.binary[:, 0] == 1
    disagree = (raters.binary[:, 1:] != raters.binary[:, :1]).any(axis=1)
    sd, spread = raters.weighted.std(axis=1), np.ptp(raters.weighted, axis=1)
    sd = np.where(spread == 0, 0.0, sd)
    rows = [
        {
            "group": name,
            "n": int(group.sum()),
            "n_disagree": int(disagree[group].sum()),
            "disagreement_rate": _mean(disagree[group]),
            "mean_sd": _mean(sd[group]),
            "mean_range": _mean(spread[group]),
        }
        for name, group in (("success", success), ("failure", ~success))
    ]
    schema = {"group": pl.String, "n": pl.Int64, "n_disagree": pl.Int64}
    numbers = dict.fromkeys(("disagreement_rate", "mean_sd", "mean_range"), pl.Float64)
    exact = fisher([[r["n_disagree"], r["n"] - r["n_disagree"]] for r in rows], ci_level=raters.ci_level)
    t = two_sample_t(sd[success], sd[~success], ci_level=raters.ci_level)
    infinite = exact.estimate is not None and not math.isfinite(exact.estimate)
    odds = None if infinite else exact.estimate
    reason = "all disagreement lies on one side: the odds ratio is infinite" if infinite else exact.reason
    return (
        pl.DataFrame(rows, schema=schema | numbers),
        {"measure": "binary disagreement", "n": exact.n, "method": exact.method, "p": exact.p, "effect": odds}
        | {"effect_name": "odds ratio", "reason": reason},
        {"measure": "sd of weighted outcomes", "n": t.n, "method": t.method, "p": t.p}
        | {"effect": t.detail.get("cohen_d"), "effect_name": "Cohen's d", "reason": t.reason},
    )


def _mean(values: np.ndarray) -> float | None:
    return math.fsum(values) / values.size if values.size else None


def _by_agent(raters: _Raters) -> pl.DataFrame:
    rows = []
    for model in sorted(set(raters.models)):
        mine = np.array([m == model for m in raters.models])
        correlation, kappa = raters.coefficients(mine)
        words = [correlation.reason and f"ICC: {correlation.reason}", kappa.reason and f"kappa: {kappa.reason}"]
        rows.append(
            {
                "model": model,
                "icc": correlation.value,
                "icc_lo": correlation.lo,
                "icc_hi": correlation.hi,
                "kappa": kappa.value,
                "kappa_lo": kappa.lo,
                "kappa_hi": kappa.hi,
                "raw": kappa.raw,
                "n": int(mine.sum()),
                "reason": "; ".join(filter(None, words)) or None,
            }
        )
    numbers = dict.fromkeys(("icc", "icc_lo", "icc_hi", "kappa", "kappa_lo", "kappa_hi", "raw"), pl.Float64)
    return pl.DataFrame(rows, schema={"model": pl.String, **numbers, "n": pl.Int64, "reason": pl.String})
