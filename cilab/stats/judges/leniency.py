"""Whether judges are lenient with models of their own developer (collaborative-intelligence paper, section C.3).

May import `cilab.core` and `cilab.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.frames import read_rows
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level
from cilab.results.estimator import estimator
from cilab.results.result import Result
from cilab.stats.judges.labels import read_labels, wide
from cilab.stats.methods.distributions import share_interval
from cilab.stats.methods.hypothesis_tests import HypothesisTest, fisher
from cilab.stats.methods.ratings import column_of, is_missing, rows_of


@dataclass(frozen=True, slots=True)
class Leniency:
    """Whether a judge lets the models of its own developer off.

    Attributes
    ----------
    n_own, n_other : messages of the developer's own models, and of all others.
    lenient_own, lenient_other : how many of them were judged leniently.
    test : Fisher's exact test of the two shares.
    detectable : the smallest share of lenient judgements of own models that the test would find with `power`, given
        `n_own`, `n_other` and the other models' share; None where no share below 1 suffices.
    power, alpha : fractions.
    majority : how many of the other judges must have chosen a label that is not in the model's favour.
    n_left_out : reason -> number of messages.
    by_label : what to say where the other judges were asked more often for what the final label is; None where not.
    """

    n_own: int
    n_other: int
    lenient_own: int
    lenient_other: int
    test: HypothesisTest
    detectable: float | None
    power: float = 0.8
    alpha: float = 0.05
    majority: int = 3
    n_left_out: Mapping[str, int] = field(default_factory=dict)
    by_label: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LeniencyResult(Result):
    """Lenient judgements in a study, of the judges' own family's models and of all others.

    Attributes
    ----------
    table : two lines, `own` first: `models` (own, other), `n_messages, n_lenient, lenient_pct` (null without messages),
        `lo_pct, hi_pct` (Clopper and Pearson).
    found : the test, with the share that it could have detected.
    seed : None; nothing here is drawn at random.
    """

    found: Leniency
    seed: None = None

    title: ClassVar[str] = "Leniency of the judges"

    def notes(self) -> list[str]:
        """As in `Result` (what is counted are messages), and what the test says."""
        out, test = super().notes(), self.found.test
        out[0] = out[0].replace("rollouts.", "messages.")
        said = f"p = {test.p:.3f}" if test.p is not None else f"undefined: {test.reason}"
        able = self.found.detectable
        power = f" A share of {100 * able:.0f}% of the own models would be found with {self.found.power:.0%} power."
        chosen = [self.found.by_label] if self.found.by_label else []
        return [*out[:-1], f"{test.method}: {said}.{power if able is not None else ''}", *chosen, out[-1]]


def leniency_test(
    final_favours: Sequence[bool | None],
    judges_favour: Any,
    own: Sequence[bool | None],
    *,
    majority: int | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Leniency:
    """Compare lenient judgements of the judges' own developer's models with those of all other models.

    A judgement is lenient when the final label is in the model's favour (in the paper: it makes the scripted teammate
    give way) while at least `majority` of the other judges chose one that is not.

    Parameters
    ----------
    final_favours : per message, whether the final label is in the model's favour.
    judges_favour : messages x other judges, the same for each of them.
    own : per message, whether the model under test is the final judges' own developer's.
    majority : default three quarters of the other judges, rounded up (3 of 4).
    power, alpha : of the share that the test could detect.

    Returns
    -------
    Leniency
        Messages with a missing value anywhere are left out and counted; `by_label` says where judges were asked because
        of the final label (Fisher's exact test).

    References
    ----------
    Collaborative-intelligence paper, section C.3: 1 of 52 against 6 of 128, p = 0.68, detectable about 19 %.
    """
    final, mine, others = column_of("final_favours", final_favours), column_of("own", own), rows_of(judges_favour)
    if not len(final) == len(mine) == len(others):
        raise TableError(
            f"one row per message: {len(final)} final labels, {len(others)} rows of judges, {len(mine)} own"
        )
    judges = len(others[0]) if others else 0
    most = math.ceil(0.75 * judges) if majority is None else majority
    if not 1 <= most <= max(1, judges):
        raise TableError(f"majority is {majority}: with {judges} judges give a number from 1 to {judges}")
    rows = list(zip(final, others, mine, strict=True))
    whole = [(f, o, m) for f, o, m in rows if not any(map(is_missing, (f, m, *o)))]
    lenient = [(bool(f) and sum(not v for v in o) >= most, bool(m)) for f, o, m in whole]
    n_own = sum(m for _, m in lenient)
    hits = [sum(hit for hit, m in lenient if m is side) for side in (True, False)]
    n_other = len(lenient) - n_own
    table = [[hits[0], n_own - hits[0]], [hits[1], n_other - hits[1]]]
    left = len(rows) - len(whole)
    return Leniency(
        n_own=n_own,
        n_other=n_other,
        lenient_own=hits[0],
        lenient_other=hits[1],
        test=fisher(table),
        detectable=_detectable(n_own, n_other, hits[1], power, alpha),
        power=power,
        alpha=alpha,
        majority=most,
        n_left_out={"without a label of every judge": left} if left else {},
        by_label=_asked_by_label(rows),
    )


#: Level of the test whether judges were asked more often for the final label.
_BY_CHANCE = 0.001


def _asked_by_label(rows: Sequence[tuple[Any, tuple[Any, ...], Any]]) -> str | None:
    """A sentence where whether all judges labelled a message hung on its final label."""
    known = [(bool(f), not any(map(is_missing, o))) for f, o, _ in rows if not is_missing(f)]
    counts = [[sum(pair == (side, asked) for pair in known) for asked in (True, False)] for side in (True, False)]
    p = fisher(counts).p
    if p is None or p >= _BY_CHANCE:
        return None
    (own, own_left), (against, against_left) = counts
    return (
        f"The other judges labelled {own:,} of {own + own_left:,} messages whose final label favours the model and "
        f"{against:,} of {against + against_left:,} of the others: both shares are of those they labelled."
    )


@estimator
def leniency(
    study: Any,
    *,
    judges: Sequence[str],
    own_family: str,
    majority: int | None = None,
    families: Any = None,
    ci_level: Level = CI_LEVEL,
) -> LeniencyResult:
    """`leniency_test` on a study's labels.

    A label is in the model's favour when it does not say that the model gave way. The paper asks whether it makes the
    scripted teammate give way, which stands in the tasks' scripts and not among the labels; so this counts a few more.

    Parameters
    ----------
    study : an opened study or data set with `labels` and `runs`.
    judges : raters of `labels` beside the study's own, for instance four judges from other families.
    own_family : family of the study's judges (as in the models table).
    majority : as in `leniency_test`.
    families : mapping model -> family; the models table fills what it leaves out.
    ci_level : of the intervals of both shares.

    Returns
    -------
    LeniencyResult
        `n_used` and `n_left_out` count messages with a final label.

    Raises
    ------
    TableError
        A judge has no label in the study; `majority` is no number of them.

    References
    ----------
    Collaborative-intelligence paper, section C.3.
    """
    labels, provenance = read_labels(study)
    table = wide(labels, "gives_way", ("final", *judges))
    models = read_rows(study, ("run_id", "model"))[0].unique("run_id")
    rows = table.join(models, on="run_id", how="left")
    known = _families(rows["model"].to_list(), families)
    own = [None if known.get(m) is None else known[m] == own_family for m in rows["model"]]
    favours = rows.select(~pl.col("final", *judges))
    found = leniency_test(favours["final"], favours.select(judges), pl.Series(own, dtype=pl.Boolean), majority=majority)
    sides = (("own", found.lenient_own, found.n_own), ("other", found.lenient_other, found.n_other))
    return LeniencyResult(
        table=pl.DataFrame([_line(*side, ci_level) for side in sides], schema=_LINE),
        found=found,
        n_used=found.n_own + found.n_other,
        n_left_out=found.n_left_out,
        provenance=provenance,
        parameters={"majority": found.majority},
        caption=(
            f"Lenient: by the final label the model did not give way, while for at least {found.majority} of the "
            f"{len(judges)} other judges it did. Own: models of the family {own_family}."
        ),
    )


_LINE = {"models": pl.String, "n_messages": pl.Int64, "n_lenient": pl.Int64}
_LINE |= dict.fromkeys(("lenient_pct", "lo_pct", "hi_pct"), pl.Float64)


def _line(models: str, lenient: int, n: int, ci_level: float) -> dict[str, Any]:
    line: dict[str, Any] = {"models": models, "n_messages": n, "n_lenient": lenient}
    if n:
        lo, hi = share_interval(lenient, n, ci_level)
        line |= {"lenient_pct": 100 * lenient / n, "lo_pct": 100 * lo, "hi_pct": 100 * hi}
    return line


def _families(models: Collection[str | None], given: Mapping[str, str] | None) -> dict[str, str | None]:
    from cilab.core import registry

    given = given or {}
    return {m: given.get(m) or registry.family(m) for m in set(models) if m is not None}


def _detectable(n_own: int, n_other: int, hits_other: int, power: float, alpha: float) -> float | None:
    """Smallest share among own messages, in thousandths, that Fisher's test finds with the given power."""
    if n_own == 0 or n_other == 0:
        return None
    from scipy.stats import binom

    base = hits_other / n_other
    own, other = np.arange(n_own + 1), np.arange(n_other + 1)
    found = _rejects(n_own, n_other, alpha)
    chance = found @ binom.pmf(other, n_other, base)  # power for each number of own hits

    def power_at(share: float) -> float:
        return float(binom.pmf(own, n_own, share) @ chance)

    shares = np.arange(math.floor(1000 * base) + 1, 1001) / 1000
    return next((float(s) for s in shares if power_at(s) >= power), None)


def _rejects(n_own: int, n_other: int, alpha: float) -> np.ndarray:
    """Whether Fisher's two-sided test rejects, for every pair of hit counts that favours the own models."""
    from scipy.stats import hypergeom

    out = np.zeros((n_own + 1, n_other + 1))
    for total in range(n_own + n_other + 1):
        support = np.arange(max(0, total - n_other), min(n_own, total) + 1)
        pmf = hypergeom.pmf(support, n_own + n_other, n_own, total)
        order = np.argsort(pmf, kind="stable")
        cumulative = np.cumsum(pmf[order])
        # All outcomes as likely as this one count, so that ties do not depend on rounding.
        p = np.array([cumulative[np.searchsorted(pmf[order], v * (1 + 1e-7), side="right") - 1] for v in pmf])
        greater = support * n_other > (total - support) * n_own
        out[support, total - support] = (p <= alpha) & greater
    return out
