"""The ledger: every published number beside ours, near or far, in a table and in words.

May import `cilab.datasets`, `cilab.results.result`, `cilab.core` and its own folder.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cilab import datasets
from cilab.claims import mazes, release, scores
from cilab.claims.data import OTHER_DATA_TOLERANCE, Answer, Estimator, Inputs, Kind, MissingInput, Relation
from cilab.core.errors import TableError
from cilab.results.sheet import html_table

PARTS = ("value", "lo", "hi")
#: Kinds of data, what is evidence first; and what each part of the ledger is headed.
KINDS = {
    "real": "On runs of real models",
    "published": "On published numbers and rounds",
    "design": "By design of this package",
    "simulated": "On simulated data: no reproduction",
    "not computable": "Not computable here",
}
NEAR, FAR, NO_INPUT = "near", "far", "missing input"

#: claim id -> how it is computed.
ESTIMATORS: dict[str, Estimator] = {**scores.ESTIMATORS, **release.ESTIMATORS, **mazes.ESTIMATORS}


#: (first id, last id, the input without which nothing can be computed) for claims without an estimator. A claim about
#: one named model cannot be computed on simulated rows, which stand for no real model.
MISSING: tuple[tuple[str, str, str], ...] = (
    ("CI032", "CI033", "takeover runs in which the diff was shown at the handoff"),
    ("CI044", "CI047", "costs of the named models' runs"),
    ("CI051", "CI051", "runs of Kimi K3.1 Pro at high effort"),
    ("CI057", "CI057", "conflict runs of Claude Opus 5.5 at both settings"),
    ("CI069", "CI069", "failed initiative runs of the earlier round, with labels"),
    ("CI202", "CI202", "runs of the 13 negotiation tasks and the pairs' own deals"),
)


# -- the ledger -----------------------------------------------------------------------------------------

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "paper", "section", "quantity", "unit"), pl.String),
    **{f"published{s}": pl.Float64 for s in ("", "_lo", "_hi")},
    **{f"computed{s}": pl.Float64 for s in ("", "_lo", "_hi")},
    **dict.fromkeys(("function", "data"), pl.String),
    "tolerance": pl.Float64,
    **dict.fromkeys(("verdict", "interval", "note"), pl.String),
}


@dataclass(frozen=True, repr=False)
class ClaimsResult:
    """The ledger: one line per published number.

    Attributes
    ----------
    table : `id, paper, section, quantity, unit`; `published, published_lo, published_hi`; `computed...` likewise (null
        where that part is not computed); `function` (null without estimator); `data` (`real`, `published`,
        `simulated`, `design`, or `not computable`); `tolerance` (absolute, in the claim's unit); `verdict` (near, far,
        missing input); `interval` (near or far, where both are intervals of the same value, else
        null); `note` (remark, or the missing input).
    data_name : the runs that estimators of runs have read.
    data_kind : `real`, `published` or `simulated`.
    """

    table: pl.DataFrame = field()
    data_name: str
    data_kind: Kind

    @property
    def counts(self) -> dict[str, int]:
        """Number of claims per verdict."""
        verdicts = self.table["verdict"]
        return {v: int((verdicts == v).sum()) for v in (NEAR, FAR, NO_INPUT)}

    @property
    def by_paper(self) -> pl.DataFrame:
        """Number of claims by `paper, verdict, on`: the kind of data in brackets, empty where nothing is computed."""
        on = pl.when(pl.col("verdict").is_in([NEAR, FAR])).then(pl.format(" ({})", "data")).otherwise(pl.lit(""))
        return self.table.group_by("paper", "verdict", on=on).len().sort("paper", "verdict", "on")

    def __repr__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        lines = [_line(row) for row in self.table.iter_rows(named=True)]
        label = "simulated data" if self.data_kind == "simulated" else None
        notes = [_summary(self), *([_SIMULATED] if _on_simulated(self) else []), _TOLERANCES, _OWN, *_own_words()]
        return html_table(pl.DataFrame(lines), title="Published numbers and ours", label=label, notes=notes)


def ledger(data: Any = None) -> ClaimsResult:
    """Hold every published number against what this package computes.

    Parameters
    ----------
    data : runs of the teamwork benchmark (a study, a data set or a table) for the claims about runs. None takes the
        published round of 2026-10-09, which is not the paper's set of runs.

    Returns
    -------
    ClaimsResult
        167 lines: first what rests on real or published data, then this package's design, then simulated data and what
        cannot be computed; within these in the order of `data/published/claims.csv`.

    Raises
    ------
    TableError
        `data` is no runs table.

    Examples
    --------
    >>> row = ledger().table.row(by_predicate=pl.col("id") == "CG025", named=True)
    >>> row["verdict"], round(row["computed"], 1)
    ('near', 38.4)
    """
    inputs = Inputs.of(datasets.published_round("2026-10-09") if data is None else data, given=data is not None)
    lines = [_entry(claim, inputs) for claim in datasets.published_table("claims").iter_rows(named=True)]
    lines.sort(key=lambda line: list(KINDS).index(line["data"]))
    return ClaimsResult(pl.DataFrame(lines, schema=_SCHEMA), inputs.name, inputs.kind)


def _entry(claim: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    line = {c: claim[c] for c in ("id", "paper", "section", "quantity", "unit")}
    line |= {"published": claim["value"], "published_lo": claim["lo"], "published_hi": claim["hi"]}
    line |= dict.fromkeys(("computed", "computed_lo", "computed_hi", "tolerance", "interval", "function"))
    estimator = ESTIMATORS.get(claim["id"])
    if estimator is None:
        return line | {"data": "not computable", "verdict": NO_INPUT, "note": f"missing: {missing(claim['id'])}"}
    line["function"] = estimator.function
    try:
        answer, read = _answer(estimator, inputs)
    except MissingInput as e:
        return line | {"data": "not computable", "verdict": NO_INPUT, "note": f"missing: {e}"}
    tolerance = _tolerance(claim, estimator) if answer.tolerance is None else answer.tolerance
    verdict, interval = compare(claim, answer, tolerance, estimator.relation)
    return line | {
        "computed": answer.value,
        "computed_lo": answer.lo,
        "computed_hi": answer.hi,
        "data": read.kind if estimator.source in _ON_RUNS else _NOT_ON_RUNS[estimator.source][0],
        "tolerance": tolerance,
        "verdict": verdict,
        "interval": interval,
        "note": "; ".join(filter(None, _remarks(estimator, answer, read))),
    }


_ON_RUNS = ("runs", "tasks", "mazes")
#: source -> what kind of data it is, and where from
_NOT_ON_RUNS = {
    "counts": ("published", "from numbers printed beside it"),
    "tables": ("published", "from a published table"),
    "design": ("design", "default of this package"),
}


def _answer(estimator: Estimator, inputs: Inputs) -> tuple[Answer, Inputs]:
    """The answer, and the inputs that it is from: what the published round lacks is looked for in the release."""
    read = inputs.read_by(estimator.source)
    try:
        return estimator.compute(read), read
    except MissingInput as lacking:
        if estimator.source != "runs" or inputs.given:
            raise
        try:
            return estimator.compute(inputs.tasks), inputs.tasks
        except MissingInput:
            raise lacking from None


def _remarks(estimator: Estimator, answer: Answer, read: Inputs) -> list[str]:
    bound = "the claim is a lower bound" if estimator.relation == "at least" else ""
    if estimator.source in _ON_RUNS:
        where = f"on {read.name}" + (": simulated, no reproduction" if read.kind == "simulated" else "")
    else:
        where = _NOT_ON_RUNS[estimator.source][1]
    simulated = estimator.simulated if estimator.source in _ON_RUNS and read.kind == "simulated" else ""
    return [estimator.why, answer.note, simulated, bound, where]


#: Where the collaborative-intelligence paper contradicts itself (the other paper's places are computed).
_TEAMWORK_INCONSISTENCIES = (
    "Section C.2 samples the 6 dimensions in which judges label messages, and then gives the judges' agreement for "
    "eight (CI095, CI096).",
    "Section C.3 prints p = 0.68 for 1 of 52 against 6 of 128; Fisher's exact test gives 0.675 (CI099).",
)


def inconsistencies() -> pl.DataFrame:
    """Where the papers contradict themselves: `paper, where` (one sentence each). Reported, not smoothed over.

    Returns
    -------
    DataFrame
        Those of the collaboration-gap paper are computed from its published tables.
    """
    lines = [("collaboration-gap", text) for text in mazes.inconsistencies()]
    lines += [("collaborative-intelligence", text) for text in _TEAMWORK_INCONSISTENCIES]
    return pl.DataFrame(lines, schema=["paper", "where"], orient="row")


def missing(claim_id: str) -> str:
    """The input without which the claim cannot be computed.

    Raises
    ------
    TableError
        The claim has an estimator, or `MISSING` does not name it.
    """
    what = None if claim_id in ESTIMATORS else _named(claim_id, MISSING)
    if what is None:
        raise TableError(f"claim {claim_id}: neither an estimator nor a missing input is named in cilab.claims")
    return what


def _named(claim_id: str, ranges: Sequence[tuple[str, str, str]]) -> str | None:
    return next((what for first, last, what in ranges if first <= claim_id <= last), None)


def compare(
    claim: Mapping[str, Any], answer: Answer, tolerance: float, relation: Relation = "equal"
) -> tuple[str, str | None]:
    """near or far for the claim's numbers, and for its interval where both have one (else None).

    A claim with value, lo and hi has an interval, unless it is CG002, whose three numbers are three quantities. Parts
    that the estimator does not compute are not compared; at least one must be. A number is near within the tolerance,
    and within half of itself: what zero would pass tells nothing.
    """
    has_interval = all(claim[p] is not None for p in PARTS) and claim["id"] != "CG002"
    distances = {p: _distance(claim[p], getattr(answer, p), relation) for p in PARTS}
    known = {p: d for p, d in distances.items() if d is not None}
    allowed = {p: min(tolerance, abs(claim[p]) / 2 or tolerance) for p in known}
    numbers = [known[p] <= allowed[p] + _EXACT for p in known if p == "value" or not has_interval]
    if not numbers:
        raise TableError(f"claim {claim['id']}: the estimator computes none of its numbers")
    ends = [known[p] <= tolerance + _EXACT for p in known if p != "value" and has_interval]
    return _verdict(numbers), _verdict(ends) if ends else None


#: Printed decimals are not exact in binary: 0.77 - 0.03 must count as 0.74.
_EXACT = 1e-9


def _distance(published: float | None, ours: float | None, relation: Relation) -> float | None:
    if published is None or ours is None:
        return None
    return max(0.0, published - ours) if relation == "at least" else abs(ours - published)


def _verdict(within: Sequence[bool]) -> str:
    return NEAR if all(within) else FAR


def _tolerance(claim: Mapping[str, Any], estimator: Estimator) -> float:
    if estimator.tolerance is not None:
        return estimator.tolerance
    if estimator.source in _ON_RUNS:
        largest = max(abs(claim[p]) for p in PARTS if claim[p] is not None)
        return OTHER_DATA_TOLERANCE.get(claim["unit"], 0.1 * largest)
    printed = [claim[f"{p}_printed"] for p in PARTS if claim[f"{p}_printed"] is not None]
    decimals = min(len(text.partition(".")[2]) for text in printed)
    return 0.5 * 10.0**-decimals


# -- in words -------------------------------------------------------------------------------------------


def render(result: ClaimsResult, width: int = 118) -> str:
    """The ledger as text: three short lines per claim, and a summary first and last."""
    head = textwrap.fill(_summary(result), width)
    blocks = []
    kind = None
    for row in result.table.iter_rows(named=True):
        if row["data"] != kind:
            kind = row["data"]
            blocks.append(f"{KINDS[kind]}:\n")
        line = _line(row)
        first = f"{line['Claim']}  {line['Verdict']:<19} {line['Published']}  |  {line['Ours']}"
        rest = [f"{row['quantity']} [{row['paper']}, section {row['section']}]"]
        rest.append(" - ".join(filter(None, (row["function"], row["note"]))))
        wrapped = [w for text in rest for w in textwrap.wrap(text, width - 7) or [""]]
        blocks.append("\n".join([first.rstrip(" |"), *(f"       {w}" for w in wrapped)]))
    own = [textwrap.fill(f"- {text}", width, subsequent_indent="  ") for text in _own_words()]
    told = [textwrap.fill(_SIMULATED, width)] if _on_simulated(result) else []
    return "\n".join([head, *told, textwrap.fill(_TOLERANCES, width), "", *blocks, "", _OWN, *own, "", head, *told])


_SIMULATED = (
    "On simulated data nothing is reproduced: the simulations are fitted to numbers that the papers print, and near "
    "says only that the estimator finds such a number again."
)
_TOLERANCES = (
    "Tolerances: half a unit of the last printed digit for what follows from printed numbers; on other runs 5 points "
    "or percent (half the width of a typical interval), 0.05 for outcomes, 0.1 for correlations and agreement, a tenth "
    "for counts; otherwise the line says why. No number is near that is off by more than half of itself."
)
_OWN = "Where the papers contradict themselves:"


def _on_simulated(result: ClaimsResult) -> bool:
    return bool((result.table["data"] == "simulated").any())


def _own_words() -> list[str]:
    return [f"{paper}: {text}" for paper, text in inconsistencies().iter_rows()]


def _line(row: Mapping[str, Any]) -> dict[str, str]:
    """One claim as short texts, for the terminal and the notebook."""
    ours = _numbers(row, "computed", row["unit"])
    if ours and row["tolerance"] is not None:
        ours += f" (tolerance {row['tolerance']:.4g})"
    interval = {None: "", NEAR: "", FAR: ", interval far"}[row["interval"]]
    kind = f" ({row['data']})" if row["verdict"] in (NEAR, FAR) else ""
    return {
        "Claim": row["id"],
        "Verdict": row["verdict"] + kind + interval,
        "Published": _numbers(row, "published", row["unit"]),
        "Ours": ours,
        "Function": row["function"] or "",
        "Quantity": row["quantity"],
        "Note": row["note"],
    }


def _numbers(row: Mapping[str, Any], prefix: str, unit: str) -> str:
    value, lo, hi = row[prefix], row[f"{prefix}_lo"], row[f"{prefix}_hi"]
    if value is None and lo is None and hi is None:
        return ""
    ends = [None if x is None else f"{x:.4g}" for x in (lo, hi)]
    text = "" if value is None else f"{value:.5g}"
    if ends[0] is not None and ends[1] is not None:
        text += f" [{ends[0]}, {ends[1]}]"
    elif ends[1] is not None:
        text += f" and {ends[1]}" if text else f"second number {ends[1]}"
    return f"{text.strip()} {unit}"


def _summary(result: ClaimsResult) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in result.counts.items())
    by_paper = "; ".join(
        f"{paper}: " + ", ".join(f"{r['len']} {r['verdict']}{r['on']}" for r in rows.iter_rows(named=True))
        for (paper,), rows in result.by_paper.partition_by("paper", as_dict=True, maintain_order=True).items()
    )
    flag = "[SIMULATED DATA] " if result.data_kind == "simulated" else ""
    own = ", which is not the paper's set of runs" if result.data_kind == "published" else ""
    return (
        f"{flag}{result.table.height} published numbers: {counts} ({by_paper}). "
        f"Claims about runs: {result.data_name}{own}."
    )
