"""How far raters agree: coefficients with intervals, undefined where they do not exist, and the judges of a study.

May import `cilab.core` and `cilab.stats`. No coefficient is ever NaN: where it does not exist its
value is None and `reason` says why. A table of counts where ratings belong is refused, not computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import polars as pl

from cilab.core.errors import TableError, choice, nearest
from cilab.core.frames import read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Seed, whole
from cilab.results.estimator import estimator
from cilab.results.numbers import MINUS, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.judges.labels import read_labels, wide
from cilab.stats.judges.leniency import Leniency, leniency, leniency_test
from cilab.stats.methods.coefficients import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff,
    majority_label,
    majority_vs_reference,
    raw_agreement,
)
from cilab.stats.methods.hypothesis_tests import fisher, mcnemar
from cilab.stats.methods.intraclass import ICC_FORMS, icc, icc_forms
from cilab.stats.methods.ratings import Agreement
from cilab.stats.teamwork.grid import check_names, listed
from cilab.teamwork.terms import JUDGES, VERSIONS

__all__ = [
    "ICC_FORMS",
    "Agreement",
    "AgreementResult",
    "Leniency",
    "agreement",
    "cohen_kappa",
    "fleiss_kappa",
    "icc",
    "icc_forms",
    "krippendorff",
    "leniency",
    "leniency_test",
    "majority_label",
    "majority_vs_reference",
    "mcnemar",
    "raw_agreement",
]

#: What a judge's answer is recorded as when it is no label.
UNPARSED = "unparsed"
_PEOPLE = "people"


@dataclass(frozen=True, kw_only=True, repr=False)
class AgreementResult(Result):
    """How far the judges of a study agree with each other, and people with them.

    Attributes
    ----------
    table : one row per group and comparison: `group` (a dimension; `all` first), `comparison`, `n` (messages; for
        people judgements), `raw`, `raw_lo`, `raw_hi`, `kappa`, `kappa_lo`, `kappa_hi` (Cohen's for two raters,
        Krippendorff's nominal alpha for more), `method`, `n_differ`, `share_of_differences` (of those of all groups),
        `reason`.
    """

    figure: ClassVar[str | None] = "agreement"
    title: ClassVar[str] = "Agreement of raters"

    def notes(self) -> list[str]:
        """As `Result.notes`; what is counted are labels."""
        return [note.replace("rollouts.", "labels.", 1) if i == 0 else note for i, note in enumerate(super().notes())]

    def sheet(self) -> Sheet:
        """One line per group and comparison: raw agreement and kappa, each with its interval."""
        return self.on_sheet(
            self._line(row) | {"Note": row["reason"] or ""} for row in self.table.iter_rows(named=True)
        )

    def paper_sheet(self, comparison: str = "referee × second") -> Sheet:
        """One comparison, and where its raters differ: table 3 of the collaborative-intelligence paper.

        Raises
        ------
        TableError
            There is no such comparison.
        """
        there = self.table["comparison"].unique(maintain_order=True).to_list()
        if comparison not in there:
            raise TableError(f"comparison is {comparison!r}, not one of {', '.join(there)}")
        lines = []
        for row in self.table.filter(pl.col("comparison") == comparison).iter_rows(named=True):
            share = row["share_of_differences"]
            more = {"Differ": number(row["n_differ"], 0)}
            more["Of all differences (%)"] = number(None if share is None else 100 * share, 0)
            lines.append(self._line(row) | more)
        return self.on_sheet(pl.DataFrame(lines).drop("Raters"), f"Agreement of judges: {comparison}")

    def _line(self, row: dict[str, Any]) -> dict[str, str]:
        group = row["group"]
        return {
            "Group": group.replace("_", " ") if self.parameters.get("by") == "dimension" else group,
            "Raters": row["comparison"],
            "Messages": number(row["n"], 0),
            "Raw agreement": Interval.of(row, "raw", digits=2).ends("undefined"),
            # With a hyphen for a minus: as this table has always been printed.
            "Kappa or alpha": Interval.of(row, "kappa", digits=2).ends("undefined").replace(MINUS, "-"),
        }


@estimator
def agreement(
    study: Any,
    by: Literal["dimension", "model", "version", "task_id"] | None = "dimension",
    *,
    raters: Sequence[str] | None = None,
    versions: Sequence[str] | None = ("baseline", "test"),
    resamples: Annotated[int, whole(0)] = 2000,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    resample: Literal["message", "run"] = "message",
) -> AgreementResult:
    """Agreement of the raters of a study's labels, overall and by a column of its runs.

    Compared are each two of the raters, all of them together where there are more than two, and every other rater
    (people under one name, other judges under their own) with the final label.

    Parameters
    ----------
    study : an opened study or data set with `labels` and `runs`.
    by : column of the runs, or None for the whole only.
    raters : default: those of `referee`, `second`, `third` that have labels.
    versions : versions of the tasks whose messages count; None for all.
    resamples, seed, ci_level : of the percentile intervals.
    resample : what is drawn: `message` (the paper) or `run`, since messages of one run depend on each other.

    Returns
    -------
    AgreementResult
        An answer that was no label (`unparsed`) is missing, and counted. A rater who was asked because of the others'
        answers (a third judge who settles disputes) has no coefficient, alone or among all, but its reason. `n_used`
        counts the labels that stand beside another one they are compared with.

    Raises
    ------
    TableError
        No labels, a rater without labels, a rater who labelled a message twice, an unknown `by` or version, or nothing
        to compare.

    References
    ----------
    Collaborative-intelligence paper, section C.2, table 3 (referee and second rater agree on 81 %) and figure 10
    (people choose the final label for 33 of 40 messages).
    """
    choice("resample", resample, ("message", "run"))
    if by is not None and by not in _BY:
        raise TableError(f"by is {by!r}, not one of {', '.join(_BY)}, None.{nearest(str(by), _BY)}")
    labels, provenance = read_labels(study)
    chosen = _raters(labels, raters)
    runs = read_rows(study, ("run_id",), _BY)[0].unique("run_id").with_columns(pl.lit(True).alias("_known"))
    if versions is not None:
        check_names("version", versions, pl.Series([*VERSIONS, *runs["version"].cast(pl.String)]))
    labels, left_out = _countable(labels.join(runs, on="run_id", how="left"), versions)
    if labels.is_empty():
        raise TableError(f"labels: none left to compare; left out: {listed(left_out)}")
    rows, how = [], _How(resamples, seed, ci_level, resample)
    groups = [("all", labels)]
    if by is not None:
        parts = labels.with_columns(pl.col(by).fill_null("(none)")).partition_by(by, as_dict=True, include_key=True)
        groups += sorted((str(key[0]), part) for key, part in parts.items())
    for name, part in groups:
        rows += [{"group": name, **row} for row in _compare(part, chosen, how)]
    if not rows:
        raise TableError("labels: fewer than two of referee, second, third, and nobody beside final to compare with it")
    table = pl.DataFrame(rows, schema=_AGREEMENT_SCHEMA)
    whole = pl.col("n_differ").filter(pl.col("group") == "all").first().over("comparison")
    share = pl.when((pl.col("group") != "all") & (whole > 0)).then(pl.col("n_differ") / whole)
    n_used = _n_compared(labels, chosen)
    if alone := labels.height - n_used:
        left_out["without another label to compare with"] = alone
    return AgreementResult(
        table=table.with_columns(share.alias("share_of_differences")),
        n_used=n_used,
        n_left_out=left_out,
        provenance=provenance,
        parameters={"raters": list(chosen)},
        caption="Share of messages with the same label, and Cohen's kappa (two raters) or Krippendorff's alpha (more), "
        f"with {percent(ci_level)} percentile intervals over {resamples:,} resamples of {resample}s. "
        "Labels of the same text are one category, whatever the task.",
    )


_BY = ("dimension", "model", "version", "task_id")
_ESTIMATES = ("raw", "raw_lo", "raw_hi", "kappa", "kappa_lo", "kappa_hi")
#: Level of the test whether a rater was asked more often where the others differ.
_BY_CHANCE = 0.001
_AGREEMENT_SCHEMA = {
    "group": pl.String,
    "comparison": pl.String,
    "n": pl.Int64,
    "raw": pl.Float64,
    "raw_lo": pl.Float64,
    "raw_hi": pl.Float64,
    "kappa": pl.Float64,
    "kappa_lo": pl.Float64,
    "kappa_hi": pl.Float64,
    "method": pl.String,
    "n_differ": pl.Int64,
    "reason": pl.String,
}


@dataclass(frozen=True, slots=True)
class _How:
    resamples: int
    seed: int
    ci_level: float
    resample: str


def _raters(labels: pl.DataFrame, asked: Sequence[str] | None) -> tuple[str, ...]:
    known = sorted(labels["rater"].unique().to_list())
    if asked is None:
        found = tuple(r for r in JUDGES if r in known)
        return found if len(found) > 1 else ()
    if isinstance(asked, str):
        raise TableError(f"raters is a text; give a list of names, such as [{asked!r}]")
    for rater in asked:
        if rater not in known:
            raise TableError(
                f"labels: no label of rater {rater!r}.{nearest(str(rater), known)} Known: {', '.join(known)}"
            )
    return tuple(dict.fromkeys(asked))


def _countable(labels: pl.DataFrame, versions: Sequence[str] | None) -> tuple[pl.DataFrame, dict[str, int]]:
    other = pl.lit(False) if versions is None else ~pl.col("version").fill_null("").is_in(list(versions))
    reason = (
        pl.when(pl.col("_known").is_null())
        .then(pl.lit("of runs that the runs table does not hold"))
        .when(other)
        .then(pl.lit("of another version"))
        .when(pl.col("label").is_null() | (pl.col("label") == UNPARSED))
        .then(pl.lit("answers that were no label"))
    )
    marked = labels.with_columns(reason.alias("_why"))
    counts = marked.filter(pl.col("_why").is_not_null())["_why"].value_counts()
    return marked.filter(pl.col("_why").is_null()).drop("_why", "_known"), dict(sorted(counts.rows()))


def _compare(labels: pl.DataFrame, raters: Sequence[str], how: _How) -> list[dict[str, Any]]:
    """Every comparison within one group of messages."""
    there = set(labels["rater"])
    judges = [r for r in raters if r in there]
    out = []
    if len(judges) > 1:
        table = wide(labels, "label", judges)
        picked = {rater: why for rater in judges if (why := _asked_by_answers(table, rater, judges))}
        for i, a in enumerate(judges):
            out += [_no_estimate(_two(table, a, b, how), picked, (a, b)) for b in judges[i + 1 :]]
        if len(judges) > 2:
            out.append(_no_estimate(_many(table, judges, how), picked, judges))
    out += _against_final(labels, judges, there - set(raters) - {"final"}, how) if "final" in there else []
    return out


def _asked_by_answers(table: pl.DataFrame, rater: str, raters: Sequence[str]) -> str | None:
    """Why a rater's labels are no sample of all messages: whether it was asked hung on what the others answered.

    Coefficients take missing ratings for missing by chance. Of a judge who settles disputes they are not, and alpha of
    all three comes out too high: its disputes count as half agreed, and what the first two agree on stays.
    """
    others = [r for r in raters if r != rater]
    if len(others) < 2 or not table[rater].null_count():
        return None
    answers = pl.concat_list(others).list.drop_nulls()
    both = table.filter(answers.list.len() > 1)
    counts = both.group_by(differ=answers.list.n_unique() > 1, asked=pl.col(rater).is_not_null()).len()
    n = {(differ, asked): k for differ, asked, k in counts.iter_rows()}
    (asked, left), (asked_agreed, left_agreed) = ((n.get((d, True), 0), n.get((d, False), 0)) for d in (True, False))
    words = f"where {' and '.join(others)} differ"
    if asked and not asked_agreed and rater == JUDGES[2]:  # the judge who is there to settle them
        return f"{rater} was asked only {words}: not an estimate for all messages"
    p = fisher([[asked, left], [asked_agreed, left_agreed]], alternative="greater").p
    if p is None or p >= _BY_CHANCE:
        return None
    shares = (k / (k + rest) for k, rest in ((asked, left), (asked_agreed, left_agreed)))
    more, less = (percent(round(share, 3)) for share in shares)
    return f"{rater}: asked more often {words} ({more}) than elsewhere ({less}): not an estimate for all messages"


def _no_estimate(row: dict[str, Any], picked: Mapping[str, str], raters: Sequence[str]) -> dict[str, Any]:
    """The line without coefficients where one of its raters was asked because of the answers; counts stay."""
    reasons = [picked[r] for r in raters if r in picked]
    return row | dict.fromkeys(_ESTIMATES) | {"reason": "; ".join(reasons)} if reasons else row


def _n_compared(labels: pl.DataFrame, raters: Sequence[str]) -> int:
    """Labels that stand beside another one of their message with which `_compare` compares them."""
    judge, final = pl.col("rater").is_in(list(raters)), pl.col("rater") == "final"
    other, message = ~judge & ~final, ("run_id", "index")
    used = (judge & (judge.sum().over(message) > 1)) | (other & final.any().over(message))
    return labels.filter(used | (final & other.any().over(message))).height


def _two(table: pl.DataFrame, a: str, b: str, how: _How) -> dict[str, Any]:
    both = table.drop_nulls([a, b])
    return _two_columns(f"{a} × {b}", both.select("run_id", a=pl.col(a), b=pl.col(b)), how)


def _two_columns(name: str, labels: pl.DataFrame, how: _How) -> dict[str, Any]:
    """Two raters: columns run_id, a and b, one row per message."""
    counted, draws = _counted(labels, ("a", "b"), how)
    alike = (counted["a"] == counted["b"]).to_list()
    kappa = cohen_kappa(counted["a"], counted["b"], **draws)
    raw = raw_agreement([(True, hit) for hit in alike], **draws)
    return _line(name, kappa, raw, sum(n for n, hit in zip(draws["times"], alike, strict=True) if not hit))


def _many(table: pl.DataFrame, raters: Sequence[str], how: _How) -> dict[str, Any]:
    counted, draws = _counted(table, raters, how)
    rows = counted.select(raters).rows()
    alpha, raw = krippendorff(rows, **draws), raw_agreement(rows, **draws)
    apart = [len({v for v in row if v is not None}) > 1 for row in rows]
    return _line(" × ".join(raters), alpha, raw, sum(n for n, d in zip(draws["times"], apart, strict=True) if d))


def _counted(labels: pl.DataFrame, columns: Sequence[str], how: _How) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Each combination of labels once (within a run where runs are drawn), and the settings of the bootstrap."""
    by_run = how.resample == "run"
    counted = labels.group_by(*(["run_id"] if by_run else []), *columns).len().sort(pl.all())
    draws = {"resamples": how.resamples, "seed": how.seed, "ci_level": how.ci_level, "times": counted["len"].to_list()}
    return counted, draws | {"groups": counted["run_id"].to_list() if by_run else None}


def _line(name: str, coefficient: Agreement, raw: Agreement, n_differ: int) -> dict[str, Any]:
    return {
        "comparison": name,
        "n": coefficient.n_subjects,
        "raw": raw.value,
        "raw_lo": raw.lo,
        "raw_hi": raw.hi,
        "kappa": coefficient.value,
        "kappa_lo": coefficient.lo,
        "kappa_hi": coefficient.hi,
        "method": coefficient.method,
        "n_differ": n_differ,
        "reason": coefficient.reason,
    }


def _against_final(
    labels: pl.DataFrame, judges: Sequence[str], others: Collection[str], how: _How
) -> list[dict[str, Any]]:
    """People (all under one name) and further judges against the final label."""
    final = labels.filter(pl.col("rater") == "final").select("run_id", "index", pl.col("label").alias("final"))
    people = sorted(r for r in others if r.startswith("person:"))
    sets = [(_PEOPLE, people)] if people else []
    sets += [(r, [r]) for r in sorted(set(others) - set(people))]
    judged = wide(labels, "label", judges) if len(judges) > 1 else None
    out = []
    for name, members in sets:
        own = labels.filter(pl.col("rater").is_in(members))
        pairs = own.join(final, on=["run_id", "index"])
        line = _two_columns(f"{name} × final", pairs.select("run_id", a="label", b="final"), how)
        why = None
        if judged is not None:
            seen = own.unique(["run_id", "index"]).select("run_id", "index", pl.col("label").alias(name))
            why = _asked_by_answers(judged.join(seen, on=["run_id", "index"], how="left"), name, [*judges, name])
        out.append(_no_estimate(line, {name: why} if why else {}, (name,)))
    return out
