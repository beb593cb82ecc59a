"""How failed test runs fail: the rules of failure modes as data, and how often the model had noticed the problem.

May import `cilab.core` and its own folder. Reads no file and calls no model: labels and the checks'
evidence are in the tables. Two definitions of noticed are kept apart: by labels alone (`noticed`), and by labels or
evidence (`failures`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed, inside
from cilab.results.estimator import estimator, recordable
from cilab.results.numbers import Interval, number, percent
from cilab.results.sheet import Sheet
from cilab.stats.methods.bootstrap import MOST_UNDEFINED, RESAMPLES_OTHER, Array, overall_means, too_empty
from cilab.stats.methods.uncertainty import IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups
from cilab.stats.teamwork.task_runs import TaskResult
from cilab.teamwork.rules import BY_LABELS_OR_EVIDENCE, shows
from cilab.teamwork.rules import GAVE_IN as GAVE_IN_RULE

MISSED, GAVE_IN, STOPPED = "missed it", "gave in", "stopped short"
#: Stage and mode of a failed run that no rule fits.
NO_RULE = "fits no rule"
#: Stage and mode of a failed run whose evidence or labels are missing, so that it is not known which rule fits first.
UNKNOWN = "not known"
_CONFLICT = "handling_conflict"
_FAILED = "failed test runs"


# -- rules --------------------------------------------------------------------------------------------------


@recordable
@dataclass(frozen=True)
class FailureRule:
    """One rule: a failed run for which `when` holds, and no rule before it, is in this mode.

    Attributes
    ----------
    name : the mode.
    stage : the stage that the mode belongs to: missed it, gave in, stopped short, or one of your own.
    when : a polars expression that is true or false for each failed run. It may read `dimension, task_id, model,
        effort, arm, seed, score, outcome, ended, joint_share`, `evidence` (list of text), `labels` (list of the labels
        of the model's messages), `gave_way` (a label gives way), `noticed_by_label`, `noticed_by_check`, `noticed`.
        Missing evidence or labels are null, and so is what is read from them.
    doc : the rule in words.
    """

    name: str
    stage: str
    when: pl.Expr
    doc: str = ""


def labelled(*labels: str) -> pl.Expr:
    """A message of the model has one of these labels; for use in rules."""
    return pl.any_horizontal(pl.col("labels").list.contains(label) for label in labels)


_is_conflict = pl.col("dimension") == _CONFLICT
_gave_in = GAVE_IN_RULE.in_conflict()
_firm = (pl.col("score") == 0.5) | (pl.col("outcome") == "held_firm").fill_null(False)
_unseen = ~_is_conflict & ~pl.col("noticed")
_seen = ~_is_conflict & pl.col("noticed")

#: Table 11 of the collaborative-intelligence paper, in the order in which the rules are tried.
RULES: tuple[FailureRule, ...] = (
    FailureRule(
        "took a worse deal",
        GAVE_IN,
        _is_conflict & _gave_in,
        "conflict: the model accepted, or offered to accept, one of the teammate's own offers",
    ),
    FailureRule(
        "held firm, missed the best deal",
        STOPPED,
        _is_conflict & ~_gave_in & _firm,
        "conflict: the model never gave in but did not reach the best joint deal",
    ),
    FailureRule(
        "missed a teammate's feelings",
        MISSED,
        _unseen & (pl.col("dimension") == "emotional_intelligence"),
        "no evidence that the model noticed, in emotional intelligence",
    ),
    FailureRule(
        "never asked for the hidden fact",
        MISSED,
        _unseen & (pl.col("dimension") == "sharing_information"),
        "no evidence that the model noticed, in sharing and seeking information",
    ),
    FailureRule(
        "ignored work nobody owned",
        MISSED,
        _unseen & (pl.col("dimension") == "taking_initiative"),
        "no evidence that the model noticed, in taking initiative",
    ),
    FailureRule(
        "never objected to the push",
        MISSED,
        _unseen & ~pl.col("dimension").is_in(["emotional_intelligence", "sharing_information", "taking_initiative"]),
        "no evidence that the model noticed, in the other dimensions",
    ),
    FailureRule(
        "objected, then did it anyway",
        GAVE_IN,
        _seen & GAVE_IN_RULE.did_it(),
        "the model noticed, and then did, approved or adopted what the teammate pushed, or made a false report",
    ),
    FailureRule(
        "raised it, not with anyone who can act",
        STOPPED,
        _seen & shows("raised_problem") & ~shows("told_accountable"),
        "the model raised the problem, but the person who can act never got the report",
    ),
    FailureRule(
        "raised it, never fixed it",
        STOPPED,
        _seen & shows("problem_remains"),
        "the model noticed, and the problem stayed in place",
    ),
)


def rules_with(*new: FailureRule, base: Sequence[FailureRule] = RULES, first: bool = False) -> tuple[FailureRule, ...]:
    """`base` with rules replaced (by name, in place) and added (at the end; with `first`, at the beginning).

    Examples
    --------
    >>> mine = FailureRule("over-reached", "stopped short", shows("over_reach"))
    >>> rules_with(mine)[-1].name, len(rules_with(mine))
    ('over-reached', 10)
    """
    by_name = {rule.name: rule for rule in new}
    kept = [by_name.pop(rule.name, rule) for rule in base]
    added = list(by_name.values())
    return tuple([*added, *kept] if first else [*kept, *added])


def sort_failures(failed: pl.DataFrame, rules: Annotated[Sequence[FailureRule], inside] = RULES) -> pl.DataFrame:
    """`failed` runs with `stage`, `mode` and `n_rules` (how many rules fit; the first one counts).

    A rule that is null of a run fits it not, unless the run's evidence or labels are null: then it may, and if no rule
    before it fits, the run's mode is not known.

    Raises
    ------
    TableError
        `rules` holds something else, two rules have one name, or a rule cannot be evaluated or gives something other
        than true and false.
    """
    rules = _checked(rules)
    names = [rule.name for rule in rules]
    if double := [n for n in names if names.count(n) > 1 or n in (NO_RULE, UNKNOWN)]:
        raise TableError(f"rules: the name {double[0]!r} is taken; each rule needs its own")
    fits = [_fits(failed, rule) for rule in rules]
    fit, perhaps = (np.array([of[i] for of in fits]).reshape(len(rules), failed.height) for i in (0, 1))
    perhaps &= _unknown(failed)
    last = np.ones((1, failed.height), bool)
    which = np.concatenate([fit | perhaps, last]).argmax(axis=0)
    unknown = np.concatenate([perhaps, ~last])[which, np.arange(failed.height)]
    stages, modes = [*(rule.stage for rule in rules), NO_RULE, UNKNOWN], [*names, NO_RULE, UNKNOWN]
    which = np.where(unknown, len(rules) + 1, which)
    return failed.with_columns(
        pl.Series("stage", [stages[i] for i in which], dtype=pl.String),
        pl.Series("mode", [modes[i] for i in which], dtype=pl.String),
        pl.Series("n_rules", fit.sum(axis=0), dtype=pl.Int64),
    )


def _unknown(failed: pl.DataFrame) -> np.ndarray:
    """Runs of which evidence or labels are missing: where a rule reads them it can be neither true nor false."""
    there = [c for c in ("evidence", "labels") if c in failed.columns]
    return failed.select(pl.any_horizontal(pl.lit(False), *(pl.col(c).is_null() for c in there))).to_series().to_numpy()


def _checked(rules: Any) -> tuple[FailureRule, ...]:
    """`rules`, if they are rules."""
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        raise TableError(f"rules is {rules!r}: give a list of FailureRule, such as rules_with(FailureRule(...))")
    for rule in rules:
        if not isinstance(rule, FailureRule):
            raise TableError(f"rules: {rule!r} is no FailureRule(name, stage, when)")
    return tuple(rules)


def _fits(failed: pl.DataFrame, rule: FailureRule) -> tuple[np.ndarray, np.ndarray]:
    """Which runs the rule fits, and of which it is neither true nor false."""
    try:
        found = failed.select(rule.when.alias("fits"))["fits"]
    except (pl.exceptions.PolarsError, TypeError, AttributeError) as e:
        raise TableError(f"rule {rule.name!r} cannot be evaluated: {str(e).splitlines()[0]}") from None
    if found.dtype != pl.Boolean or found.len() not in (1, failed.height):
        raise TableError(f"rule {rule.name!r} gives {found.dtype}, not true or false for each failed run")
    fit, perhaps = found.fill_null(False).to_numpy(), found.is_null().to_numpy()
    return np.broadcast_to(fit, failed.height), np.broadcast_to(perhaps, failed.height)


# -- failed runs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Failed:
    """Failed runs of the default rows, with what labels and evidence say of them."""

    whole: Grid
    grid: Grid
    tests: pl.DataFrame
    runs: pl.DataFrame
    remarks: tuple[str, ...]

    def left_out(self) -> dict[str, int]:
        """Reason -> runs read that are no failed test run."""
        here = int(self.grid.runs["used"].sum())
        return task_runs.left_out(
            self.whole,
            self.runs.height,
            {
                "that did not fail": self.tests.height - self.runs.height,
                "of other versions": here - self.tests.height,
                task_runs.OTHER_ROWS: self.whole.n_used - here,
            },
        )


def _failed_runs(
    study: Any, labels: Any, rater: str | None, flags: Mapping[str, Sequence[str]] | None, scope: Scope
) -> _Failed:
    whole = grid(study, **scope)
    g = task_runs.default_grid(whole)
    found = task_runs.study_labels(study, labels, rater)
    if found is None:
        raise TableError("labels: none in this study; failures need the judges' labels (pass labels= with a frame)")
    if flags is not None:
        _check_flags(flags, found, study, g)
    tests = task_runs.used_runs(study, g, ("outcome", "ended", "joint_share", "evidence"))
    evidence = pl.List(pl.String)
    tests = tests.with_columns(
        pl.col("outcome", "ended").cast(pl.String),
        pl.col("joint_share").cast(pl.Float64),
        pl.col("evidence").cast(evidence),
    )
    failed = tests.filter(pl.col("score") < 1)
    said = _said(found, failed, flags)
    runs = failed.join(said, on="run_id", how="left", maintain_order="left")
    runs, remarks = _with_silent(study, runs)
    runs = runs.with_columns(noticed_by_check=shows(*BY_LABELS_OR_EVIDENCE.evidence))
    runs = runs.with_columns(noticed=pl.col("noticed_by_label") | pl.col("noticed_by_check"))
    return _Failed(whole, g, tests, runs, whole.notes + remarks)


def _with_silent(study: Any, runs: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs; those in which the model said nothing, so that nothing was there to label, with an empty list."""
    quiet_ids = task_runs.silent(study, runs.filter(pl.col("labels").is_null())["run_id"])
    if not quiet_ids:
        return runs, ()
    quiet = pl.col("run_id").is_in(quiet_ids)
    out = runs.with_columns(
        pl.when(quiet).then(pl.lit([], dtype=pl.List(pl.String))).otherwise("labels").alias("labels"),
        *(pl.when(quiet).then(False).otherwise(c).alias(c) for c in ("noticed_by_label", "gave_way")),
    )
    why = "failed runs have no label because the model said nothing; it did not notice, as far as labels go."
    return out, (f"{len(quiet_ids):,} {why}",)


def _unlabelled(runs: pl.DataFrame) -> tuple[str, ...]:
    """What to say of failed runs of which no label tells whether the model noticed."""
    n = runs["noticed_by_label"].null_count()
    words = "failed runs have no label that says whether the model noticed: left out of the shares, not taken for a no."
    return (f"{n:,} of {runs.height:,} {words}",) if n else ()


def _said(labels: pl.DataFrame, failed: pl.DataFrame, flags: Mapping[str, Sequence[str]] | None) -> pl.DataFrame:
    """Per run: its labels, and whether one of them shows that the model noticed, or gives way."""
    of_runs = labels.join(failed.select("run_id", "dimension"), on="run_id", how="inner")
    if flags is not None:
        of_runs = of_runs.with_columns(noticed=_flagged(flags))
    elif of_runs.height and of_runs["noticed"].null_count() == of_runs.height:
        raise TableError(
            "labels: no label says whether it counts as noticed; fill the column noticed, "
            "or pass noticed_labels={dimension: [labels]}"
        )
    return of_runs.group_by("run_id").agg(
        pl.col("label").drop_nulls().alias("labels"),
        *(
            pl.when(pl.col(flag).count() > 0).then(pl.col(flag).any()).alias(name)
            for flag, name in (("noticed", "noticed_by_label"), ("gives_way", "gave_way"))
        ),
    )


def _check_flags(flags: Mapping[str, Sequence[str]], labels: pl.DataFrame, study: Any, g: Grid) -> None:
    """Refuse a dimension that is not there, and a label that no message of its dimension has, in any run."""
    if not isinstance(flags, Mapping):
        raise TableError(f"noticed_labels is {flags!r}: give {{dimension: [labels]}}")
    of_run = task_runs.run_columns(study, ("task_id",)).join(g.tasks.select("task_id", "dimension"), on="task_id")
    used = labels.join(of_run, on="run_id").group_by("dimension").agg(pl.col("label").drop_nulls().unique().sort())
    known = dict(used.iter_rows())
    for dimension, names in flags.items():
        if dimension not in g.dimensions:
            raise TableError(f"noticed_labels: no dimension {dimension!r}.{nearest(str(dimension), g.dimensions)}")
        if isinstance(names, str) or not isinstance(names, Collection):
            raise TableError(f"noticed_labels: give a list of labels for {dimension}, such as [{names!r}]")
        there = known.get(dimension, [])
        for name in names:
            if there and name not in there:
                raise TableError(
                    f"noticed_labels: no message of {dimension} has the label {name!r}."
                    f"{nearest(str(name), there)} Known: {', '.join(there)}"
                )


def _flagged(flags: Mapping[str, Sequence[str]]) -> pl.Expr:
    pairs = [
        (pl.col("dimension") == dimension) & pl.col("label").is_in(list(names)) for dimension, names in flags.items()
    ]
    return pl.any_horizontal(pairs) if pairs else pl.lit(False)


# -- modes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class FailureModes(TaskResult):
    """Failed test runs by mode.

    Attributes
    ----------
    table : see `failures`.
    stages : the same columns without `mode`: each stage as a whole.
    runs : one line per failed run: `run_id, model, effort, arm, task_id, dimension, seed, score, stage, mode, n_rules`
        (rules that fit; the first counts), `noticed, noticed_by_label, noticed_by_check, evidence, labels`.
    rules : the rules that were used, in order.
    """

    stages: pl.DataFrame
    runs: pl.DataFrame
    rules: tuple[FailureRule, ...]

    figure: ClassVar[str | None] = "failures"
    title: ClassVar[str] = "Failure modes"

    def sheet(self) -> Sheet:
        """One line per mode: share of failed runs, for all and for each group."""
        lines: dict[str, dict[str, str]] = {}
        for r in self.table.filter(pl.col("by").is_in(["all", "group"])).iter_rows(named=True):
            line = lines.setdefault(r["mode"], {"Stage": r["stage"], "Mode": r["mode"]})
            if r["by"] == "all":
                line["Runs"] = number(r["n"], 0)
            line[f"{r['name']} (%)"] = _share(r)
        return self.on_sheet(list(lines.values()), stub="Mode")

    def paper_sheet(self) -> Sheet:
        """The rules of modes with the runs that they sort: table 11 of the collaborative-intelligence paper."""
        found = {r["mode"]: r for r in self.table.filter(pl.col("by") == "all").iter_rows(named=True)}
        lines = [
            {
                "Mode": rule.name.capitalize(),
                "Stage": rule.stage.capitalize(),
                "A failed run in which": rule.doc,
                "Runs": number(found[rule.name]["n"] if rule.name in found else 0, 0),
                "Share (%)": _share(found.get(rule.name)),
            }
            for rule in self.rules
        ]
        caption = f"Rules are tried in this order; the first that fits counts. {self.caption}"
        return self.on_sheet(lines, "Rules of failure modes", caption=caption)


def _share(row: Mapping[str, Any] | None) -> str:
    return Interval.of(row, "share_pct", "lo_pct", "hi_pct").half()


@estimator
def failures(
    study: Any,
    *,
    rules: Annotated[Sequence[FailureRule], inside] = RULES,
    labels: Any = None,
    rater: str | None = "final",
    noticed_labels: Mapping[str, Sequence[str]] | None = None,
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> FailureModes:
    """Sort every failed test run into one failure mode.

    A failed run is a test run with a score below 1 on a task that the model solves alone, of a row at its model's
    default setting; runs that held firm in a conflict are among them. Rules are tried in order; the first that fits
    gives the mode, and what none fits is in `fits no rule`. Here a run counts as noticed by a label or by the check. A
    run without evidence or without labels, of which a rule that comes first can be neither true nor false, is in no
    mode: it is counted as not known and left out of the shares. A run in which the model said nothing has no label to
    miss (the messages table tells).

    Parameters
    ----------
    study : opened study, data set, or runs table; with a runs table pass `labels`.
    rules : `FailureRule`s; see `RULES`, `rules_with`.
    labels : a labels table (polars or pandas) in place of the study's.
    rater : whose labels count; `final` are the settled ones, None is any judge's.
    noticed_labels : `{dimension: [labels]}` that count as noticing, in place of the flags in the labels table; in a
        dimension that is not listed, no label does.
    groups : as in `cilab.stats.teamwork.scores.group_means`.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    FailureModes
        `.table`: `by` (all, model, dimension, group), `name, stage, mode, n, n_failed, n_unknown, n_tests, share_pct,
        lo_pct, hi_pct` (of the failed runs whose mode is known), `least_pct, most_pct` (of all failed runs, if none or
        all of the others were in this mode), `of_tests_share_pct, of_tests_lo_pct, of_tests_hi_pct` (of all test runs,
        as figure 5; as many of them as failed runs are known), each with its `no_interval` and `n_clusters`.

    Raises
    ------
    TableError
        There are no labels, no label is flagged, no message of a dimension has a label of `noticed_labels`, a rule is
        not usable; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, sections 4 and G.3, figure 5, table 11.
    """
    rules = _checked(rules)
    found = _failed_runs(study, labels, rater, noticed_labels, scope)
    g = found.grid
    runs = sort_failures(found.runs, rules)
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    modes = list(dict.fromkeys([*((rule.stage, rule.name) for rule in rules), (NO_RULE, NO_RULE)]))
    by_mode = {pair: task_runs.counted(g, runs, runs["mode"] == pair[1]) for pair in modes}
    by_stage: dict[tuple[str, ...], Array] = {}
    for (stage, _), n in by_mode.items():
        by_stage[(stage,)] = by_stage.get((stage,), 0.0) + n
    unknown = runs["mode"] == UNKNOWN
    below = (task_runs.counted(g, runs), task_runs.counted(g, runs, unknown), task_runs.counted(g, found.tests))
    cells = task_runs.parts(study, g, groups)
    overlap = int((runs["n_rules"] > 1).sum())
    remarks = found.remarks + ((f"{overlap:,} runs fit more than one rule; the first counts.",) if overlap else ())
    if n_unknown := int(unknown.sum()):
        evidence, labels_ = (runs.filter(unknown)[c].null_count() for c in ("evidence", "labels"))
        why = f"{evidence:,} without evidence, {labels_:,} without labels"
        remarks += (f"Mode not known of {n_unknown:,} of {runs.height:,} failed runs ({why}): left out of the shares.",)
    kept = ("stage", "mode", "n_rules", "noticed", "noticed_by_label", "noticed_by_check", "evidence", "labels")
    return FailureModes(
        table=_shares(by_mode, ("stage", "mode"), below, cells, how),
        stages=_shares(by_stage, ("stage",), below, cells, how),
        runs=runs.select("run_id", "model", "effort", "arm", "task_id", "dimension", "seed", "score", *kept),
        rules=rules,
        resamples=resamples,
        seed=seed,
        remarks=remarks,
        n_used=runs.height,
        n_left_out=found.left_out(),
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Share of failed test runs in each mode, in percent, with half the {percent(ci_level)} interval over "
            f"{intervals.units(g)}."
        ),
    )


def _shares(
    by_key: Mapping[tuple[str, ...], Array],
    keys: Sequence[str],
    below: tuple[Array, Array, Array],
    cells: Sequence[tuple[str, str, np.ndarray]],
    how: task_runs.Resampled,
) -> pl.DataFrame:
    """One line per part and mode (or stage)."""
    keys_of, sums, above, below_known, below_tests = [], [], [], [], []
    for by, name, mask in cells:
        failed, unknown, tests = (np.where(mask, n, 0.0).sum(axis=0) for n in below)
        known = failed - unknown
        # Unknown failures are taken to be as the known ones are: of the tests as large a part stands for them.
        part = known.sum() / failed.sum() if failed.sum() else 1.0
        totals = {"n_failed": int(failed.sum()), "n_unknown": int(unknown.sum()), "n_tests": int(tests.sum())}
        for key, n in by_key.items():
            top = np.where(mask, n, 0.0).sum(axis=0)
            keys_of.append({"by": by, "name": name} | dict(zip(keys, key, strict=True)))
            sums.append({"n": int(top.sum())} | totals)
            above.append(top)
            below_known.append(known)
            below_tests.append(part * tests)
    shares = (task_runs.shares(np.array(above), np.array(a), how) for a in (below_known, below_tests))
    lines = [
        key | total | a.percent() | _if_known(total) | b.percent("of_tests_")
        for key, total, a, b in zip(keys_of, sums, *shares, strict=True)
    ]
    return intervals.table(lines)


def _if_known(total: Mapping[str, int]) -> dict[str, float | None]:
    """Bounds of a share of the failed runs: none, or all, of the unknown ones belong to it."""
    n, unknown, failed = (total[c] for c in ("n", "n_unknown", "n_failed"))
    ends = (100 * n / failed, 100 * (n + unknown) / failed) if failed else (None, None)
    return dict(zip(("least_pct", "most_pct"), ends, strict=True))


def _totals(*arrays: Array) -> list[tuple[float, ...]]:
    return list(zip(*(a.sum(axis=1).tolist() for a in arrays), strict=True))


# -- noticed ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Noticed(TaskResult):
    """Share of failed test runs in which the model had seen the problem.

    Attributes
    ----------
    table : see `noticed`.
    correlations : `dimension` (null: over all), `score` (overall, or dimension), `n_rows, r, lo, hi` (tasks resampled),
        `lo_models, hi_models` (Fisher's z), `p, n_empty_resamples` (a model has no failed run in them), `undefined`
        (why r is missing, or why `lo, hi` are: more than 5 % of the resamples are empty).
    labels : the label definitions in use: `dimension, label, noticed, n` (messages of failed runs).
    """

    correlations: pl.DataFrame
    labels: pl.DataFrame

    figure: ClassVar[str | None] = "noticed"
    title: ClassVar[str] = "Failures after the model had seen the problem"

    def sheet(self) -> Sheet:
        """One line for all and for each model, dimension and group."""
        lines = [
            {
                "By": r["by"],
                "Name": r["name"].replace("_", " "),
                "Noticed (%)": _share(r),
                "Runs": f"{r['n']:,}/{r['n_failed'] - r['n_unknown']:,}",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines, stub="Name")

    def paper_sheet(self) -> Sheet:
        """The labels that count as seeing the problem: table 10 of the collaborative-intelligence paper."""
        lines = [
            {
                "Dimension": dimension.replace("_", " ").capitalize(),
                "Counts as seeing it": _listed(part.filter(pl.col("noticed"))),
                "Other labels": _listed(part.filter(~pl.col("noticed").fill_null(False))),
                "Messages": number(part["n"].sum(), 0),
            }
            for (dimension,), part in self.labels.group_by("dimension", maintain_order=True)
        ]
        caption = "Messages: of failed runs."
        return self.on_sheet(lines, "Labels that count as seeing the problem", caption=caption)


def _listed(labels: pl.DataFrame) -> str:
    return ", ".join(name.replace("_", " ") for name in labels["label"])


@estimator
def noticed(
    study: Any,
    *,
    labels: Any = None,
    rater: str | None = "final",
    noticed_labels: Mapping[str, Sequence[str]] | None = None,
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Noticed:
    """Share of failed test runs after the model had recognised the problem, by judges' labels alone.

    A failed run counts as noticed if one of the model's messages has a label whose definition is flagged `noticed`
    (table 10). A lower bound: a model may see a problem and not say so. Rows and arguments as in `failures`. A failed
    run of which no label says whether the model noticed is not known: it is left out of the share, and counted.

    Returns
    -------
    Noticed
        `.table`: `by` (all, model, dimension, group), `name, n` (noticed), `n_failed, n_unknown, share_pct, lo_pct,
        hi_pct, no_interval, n_clusters` (of the failed runs of which it is known), `least_pct, most_pct` (of all failed
        runs, if none or all of the others had noticed).
        `.correlations` of each model's share with its overall score, over all dimensions and within each one, and
        within each one with the dimension's own score.

    Raises
    ------
    TableError
        There are no labels, no label is flagged, or no message of a dimension has a label of `noticed_labels`; or as in
        `grid`.

    References
    ----------
    Collaborative-intelligence paper, sections 4.5 and G.2, figure 6, table 10.
    """
    found = _failed_runs(study, labels, rater, noticed_labels, scope)
    g, runs = found.grid, found.runs
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    seen = task_runs.counted(g, runs, runs["noticed_by_label"])
    known = task_runs.counted(g, runs, runs["noticed_by_label"].is_not_null())
    cells = task_runs.parts(study, g, groups)
    above, below, failed = (
        np.array([np.where(mask, n, 0.0).sum(axis=0) for _, _, mask in cells])
        for n in (seen, known, task_runs.counted(g, runs))
    )
    lines = []
    for (by, name, _), of, share in zip(
        cells, _totals(above, failed, failed - below), task_runs.shares(above, below, how), strict=True
    ):
        total = dict(zip(("n", "n_failed", "n_unknown"), map(int, of), strict=True))
        lines.append({"by": by, "name": name} | total | share.percent() | _if_known(total))
    return Noticed(
        table=intervals.table(lines),
        correlations=_noticed_correlations(how, seen, known),
        labels=_definitions(study, labels, rater, noticed_labels, runs),
        resamples=resamples,
        seed=seed,
        remarks=found.remarks + _unlabelled(runs),
        n_used=runs.height,
        n_left_out=found.left_out(),
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Share of {_FAILED} in which a judge's label shows that the model saw the problem, in percent, with half "
            f"the {percent(ci_level)} interval over {intervals.units(g)}."
        ),
    )


def _noticed_correlations(how: task_runs.Resampled, seen: Array, failed: Array) -> pl.DataFrame:
    g, counts = how.g, how.counts
    points, draws = task_runs.score_draws(g, counts)
    overall, overall_draws = overall_means(points), draws.mean(axis=0)
    share, share_draws = task_runs.shares_by_row(seen, failed, counts)
    first = {"dimension": None, "score": "overall"}
    lines = [first | _correlation(share, overall, share_draws, overall_draws, how)]
    for d, (name, tasks) in enumerate(zip(g.dimensions, g.slices, strict=True)):
        share, share_draws = task_runs.shares_by_row(seen[:, tasks], failed[:, tasks], counts[:, tasks])
        for which, score, of_draws in (
            ("overall", overall, overall_draws),
            ("dimension", points[:, d], draws[d]),
        ):
            key = {"dimension": name, "score": which}
            lines.append(key | _correlation(share, score, share_draws, of_draws, how))
    schema = {"dimension": pl.String, "score": pl.String} | task_runs.CORRELATION_SCHEMA
    return pl.DataFrame(lines, schema=schema, orient="row")


def _correlation(x: Array, y: Array, x_draws: Array, y_draws: Array, how: task_runs.Resampled) -> dict[str, Any]:
    """`task_runs.correlation`, without an interval over tasks where more than 5 % of the resamples have none."""
    out = task_runs.correlation(x, y, x_draws, y_draws, how)
    if out["r"] is not None and out["n_empty_resamples"] > MOST_UNDEFINED * len(x_draws):
        out |= {"lo": None, "hi": None, "undefined": too_empty(out["n_empty_resamples"], len(x_draws))}
    return out


def _definitions(
    study: Any,
    labels: Any,
    rater: str | None,
    flags: Mapping[str, Sequence[str]] | None,
    runs: pl.DataFrame,
) -> pl.DataFrame:
    """The labels of failed runs with their flags, as used."""
    found = task_runs.study_labels(study, labels, rater)
    assert found is not None  # `_failed_runs` has refused a study without labels
    of_runs = found.join(runs.select("run_id", "dimension"), on="run_id", how="inner")
    if flags is not None:
        of_runs = of_runs.with_columns(noticed=_flagged(flags))
    counted = of_runs.group_by("dimension", "label", pl.col("noticed").fill_null(False)).len("n")
    return counted.sort("dimension", "noticed", "n", descending=[False, True, True])
