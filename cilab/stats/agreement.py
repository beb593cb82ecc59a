"""How far raters agree: coefficients with intervals, undefined where they do not exist, and the judges of a study.

May import `cilab.errors` and `cilab.stats`. No coefficient is ever NaN: where it does not exist its value is None and
`reason` says why. A table of counts where ratings belong is refused, not computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import polars as pl

from cilab.errors import TableError, nearest
from cilab.stats.coefficients import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    majority_label,
    majority_vs_reference,
    raw_agreement,
)
from cilab.stats.hypothesis_tests import mcnemar
from cilab.stats.intraclass import ICC_FORMS, icc, icc_forms
from cilab.stats.labels import read_labels, wide
from cilab.stats.leniency import Leniency, leniency, leniency_test
from cilab.stats.ratings import Agreement, Ratings, estimate
from cilab.stats.result import Result, read_rows

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
    "krippendorff_alpha",
    "leniency",
    "leniency_test",
    "majority_label",
    "majority_vs_reference",
    "mcnemar",
    "raw_agreement",
]

#: What a judge's answer is recorded as when it is no label.
UNPARSED = "unparsed"
JUDGES = ("referee", "second", "third")
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

    figure: ClassVar[str | None] = None
    title: ClassVar[str] = "Agreement of raters"

    def notes(self) -> list[str]:
        """As `Result.notes`; what is counted are labels."""
        return [note.replace("rollouts.", "labels.", 1) if i == 0 else note for i, note in enumerate(super().notes())]

    def display(self) -> pl.DataFrame:
        """One line per group and comparison: raw agreement and kappa, each with its interval."""

        def text(row: dict[str, Any], name: str) -> str:
            if row[name] is None:
                return "undefined"
            ends = "" if row[f"{name}_lo"] is None else f" [{row[f'{name}_lo']:.2f}, {row[f'{name}_hi']:.2f}]"
            return f"{row[name]:.2f}{ends}"

        return pl.DataFrame(
            [
                {
                    "Group": row["group"],
                    "Raters": row["comparison"],
                    "Messages": f"{row['n']:,}",
                    "Raw agreement": text(row, "raw"),
                    "Kappa or alpha": text(row, "kappa"),
                    "Note": row["reason"] or "",
                }
                for row in self.table.iter_rows(named=True)
            ]
        )


def agreement(
    study: Any,
    by: Literal["dimension", "model", "version", "task_id"] | None = "dimension",
    *,
    raters: Sequence[str] | None = None,
    versions: Sequence[str] | None = ("baseline", "test"),
    resamples: int = 2000,
    seed: int = 0,
    ci_level: float = 0.95,
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
        An answer that was no label (`unparsed`) is missing, and counted.

    Raises
    ------
    TableError
        No labels, a rater without labels, a rater who labelled a message twice, or an unknown `by`.

    References
    ----------
    Collaborative-intelligence paper, section C.2, table 3 (referee and second rater agree on 81 %) and figure 10
    (people choose the final label for 33 of 40 messages).
    """
    if resample not in ("message", "run"):
        raise TableError(f"resample is {resample!r}, not one of message, run")
    if by is not None and by not in _BY:
        raise TableError(f"by is {by!r}, not one of {', '.join(_BY)}, None.{nearest(str(by), _BY)}")
    labels, provenance = read_labels(study)
    chosen = _raters(labels, raters)
    runs = read_rows(study, ("run_id",), _BY)[0].unique("run_id").with_columns(pl.lit(True).alias("_known"))
    labels, left_out = _countable(labels.join(runs, on="run_id", how="left"), versions)
    if labels.is_empty():
        raise TableError(f"labels: none left to compare; left out: {left_out}")
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
    return AgreementResult(
        table=table.with_columns(share.alias("share_of_differences")),
        n_used=labels.height,
        n_left_out=left_out,
        provenance=provenance,
        parameters={
            "by": by,
            "raters": list(chosen),
            "versions": None if versions is None else list(versions),
            "resamples": resamples,
            "seed": seed,
            "ci_level": ci_level,
            "resample": resample,
        },
        caption="Share of messages with the same label, and Cohen's kappa (two raters) or Krippendorff's alpha (more), "
        f"with {100 * ci_level:g}% percentile intervals over {resamples:,} resamples of {resample}s. "
        "Labels of the same text are one category, whatever the task.",
    )


_BY = ("dimension", "model", "version", "task_id")
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
        for i, a in enumerate(judges):
            out += [_two(table, a, b, how) for b in judges[i + 1 :]]
        if len(judges) > 2:
            out.append(_many(table, judges, how))
    out += _against_final(labels, there - set(raters) - {"final"}, how) if "final" in there else []
    return out


def _two(table: pl.DataFrame, a: str, b: str, how: _How) -> dict[str, Any]:
    both = table.drop_nulls([a, b])
    row = _two_columns(f"{a} × {b}", both[a].to_list(), both[b].to_list(), both["run_id"].to_list(), how)
    only_settles = (
        b == "third"
        and {"referee", "second"} <= set(table.columns)
        and both.height
        and (both["referee"] != both["second"]).all()
    )
    if only_settles:
        row["reason"] = "third was asked only where referee and second differ: not an estimate for all messages"
    return row


def _two_columns(name: str, a: list[str], b: list[str], runs: list[str], how: _How) -> dict[str, Any]:
    groups = runs if how.resample == "run" else None
    draws = {"resamples": how.resamples, "seed": how.seed, "ci_level": how.ci_level, "groups": groups}
    kappa = cohen_kappa(a, b, **draws)
    raw = _share_interval([x == y for x, y in zip(a, b, strict=True)], groups, how)
    return {
        "comparison": name,
        "n": len(a),
        "raw": raw[0],
        "raw_lo": raw[1],
        "raw_hi": raw[2],
        "kappa": kappa.value,
        "kappa_lo": kappa.lo,
        "kappa_hi": kappa.hi,
        "method": kappa.method,
        "n_differ": sum(x != y for x, y in zip(a, b, strict=True)),
        "reason": kappa.reason,
    }


def _share_interval(hits: list[bool], groups: list[str] | None, how: _How) -> tuple[float | None, ...]:
    """A share of messages with its interval: estimate, lo, hi."""
    p, _ = Ratings.read([(hit,) for hit in hits], [False, True]).patterns(1, groups) if hits else (None, {})
    if p is None:
        return None, None, None
    hit = (p.codes[:, 0] == 1).astype(float)
    value, boot = estimate(p, lambda c: c @ hit / c.sum(1), how.resamples, how.seed, how.ci_level)
    return value, boot.lo, boot.hi


def _many(table: pl.DataFrame, raters: Sequence[str], how: _How) -> dict[str, Any]:
    rows = table.select(raters).rows()
    groups = table["run_id"].to_list() if how.resample == "run" else None
    draws = {"resamples": how.resamples, "seed": how.seed, "ci_level": how.ci_level, "groups": groups}
    alpha, raw = krippendorff_alpha(rows, **draws), raw_agreement(rows, **draws)
    rated = [[v for v in row if v is not None] for row in rows]
    return {
        "comparison": " × ".join(raters),
        "n": alpha.n_subjects,
        "raw": raw.value,
        "raw_lo": raw.lo,
        "raw_hi": raw.hi,
        "kappa": alpha.value,
        "kappa_lo": alpha.lo,
        "kappa_hi": alpha.hi,
        "method": alpha.method,
        "n_differ": sum(len(set(row)) > 1 for row in rated if len(row) > 1),
        "reason": alpha.reason,
    }


def _against_final(labels: pl.DataFrame, others: Collection[str], how: _How) -> list[dict[str, Any]]:
    """People (all under one name) and further judges against the final label."""
    final = labels.filter(pl.col("rater") == "final").select("run_id", "index", pl.col("label").alias("final"))
    people = sorted(r for r in others if r.startswith("person:"))
    sets = [(_PEOPLE, people)] if people else []
    sets += [(r, [r]) for r in sorted(set(others) - set(people))]
    out = []
    for name, members in sets:
        pairs = labels.filter(pl.col("rater").is_in(members)).join(final, on=["run_id", "index"])
        pairs = pairs.sort("run_id", "index", "rater")
        columns = (pairs[c].to_list() for c in ("label", "final", "run_id"))
        out.append(_two_columns(f"{name} × final", *columns, how))
    return out
