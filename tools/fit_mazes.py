"""What the stated maze model implies where no formula is exact: model 1 of the mediation, and the odds ratios.

    python tools/fit_mazes.py    # rewrites cilab/datasets/mazes/mazes_truth.csv, about two minutes

May import `cilab.datasets.mazes.model`, numpy, polars. The parameters themselves (`cilab.datasets.mazes.model`) were
set by hand until data of 53 x 50 rollouts gave table 2 of the collaboration-gap paper; this script pools many data
sets, so that what the usual least-squares and fractional-logit estimators converge to comes along as the truth. Its
sampling error is printed as `se`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from cilab.datasets import mazes
from cilab.datasets.mazes import model as m

SEED, DATA_SETS, PER_PAIR = 20261110, 1000, 50
_BATCHES = 20

Array = m.Array


def controls(r: m.Rollouts) -> Array:
    """Intercept and controls, one row per rollout."""
    columns = m.design()
    at_pair = np.column_stack([np.ones(len(m.pairs())), *columns.values()])[r.pair]
    return np.column_stack([at_pair, r.path, r.log_tokens.mean(1)])


def effects(moments: Array, k: int) -> dict[str, float]:
    """The effects of both models from the pooled moments of (controls, X, M, XM, Y); k is the number of controls."""
    base, x, mm, xm, y = list(range(k)), k, k + 1, k + 2, k + 3

    def coefficients(predictors: list[int], outcome: int) -> Array:
        xx = moments[np.ix_(predictors, predictors)]
        return np.linalg.solve(xx, moments[predictors, outcome])[k:]

    (a,) = coefficients([*base, x], mm)
    (total,) = coefficients([*base, x], y)
    direct, b = coefficients([*base, x, mm], y)
    direct_synergy, b1, b2 = coefficients([*base, x, mm, xm], y)
    return {
        "a": a,
        "b": b,
        "direct": direct,
        "total": total,
        "indirect": a * b,
        "share_mediated": a * b / total,
        "synergy_b1": b1,
        "synergy_b2": b2,
        "synergy_direct": direct_synergy,
        "indirect_at_0": a * b1,
        "indirect_at_1": a * (b1 + b2),
    }


def odds(means: Array, weights: Array) -> Array:
    """Odds ratios of the fractional logit on pair means; shapes (53,)."""
    x = np.column_stack([np.ones(len(means)), *m.design().values()])
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = m.expit(x @ beta)
        beta += np.linalg.solve(x.T * (weights * p * (1 - p)) @ x, x.T @ (weights * (means - p)))
    return np.exp(beta)


def one_batch(rng: np.random.Generator, data_sets: int) -> tuple[dict[str, float], Array]:
    """Effects and odds ratios (3, predictors) from `data_sets` pooled data sets."""
    n_pairs = len(m.pairs())
    pair = np.repeat(np.arange(n_pairs), PER_PAIR)
    moments, k = None, 0
    sums = np.zeros((3, 2, n_pairs))
    for _ in range(data_sets):
        r = m.draw_rollouts(pair, rng.integers(7, 10, len(pair)), rng)
        base = controls(r)
        k = base.shape[1]
        z = np.column_stack([base, r.x, r.m, r.x * r.m, r.y])
        moments = z.T @ z if moments is None else moments + z.T @ z
        verdicts = m.draw_disagreement(pair, rng)
        any_ = verdicts.max(2).mean(1)
        among = any_ > 0
        for j, (value, rows) in enumerate(
            ((any_, among | True), (verdicts[:, :, 0].mean(1), among), (verdicts[:, :, 1].mean(1), among))
        ):
            sums[j, 0] += np.bincount(pair[rows], value[rows], minlength=n_pairs)
            sums[j, 1] += np.bincount(pair[rows], minlength=n_pairs)
    return effects(moments, k), np.array([odds(s / n, n) for s, n in sums])


def truth() -> pl.DataFrame:
    """Rows `kind, name, value, se`: mediation effects, and odds ratios of the three outcomes."""
    rngs = [np.random.default_rng(s) for s in np.random.SeedSequence(SEED).spawn(_BATCHES)]
    batches = [one_batch(rng, DATA_SETS // _BATCHES) for rng in rngs]
    rows = []
    for name in batches[0][0]:
        values = [b[0][name] for b in batches]
        rows.append(("mediation", name, np.mean(values), np.std(values) / np.sqrt(_BATCHES)))
    for j, kind in enumerate(("odds_total", "odds_factual", "odds_nonfactual")):
        for i, name in enumerate(("intercept", *m.design())):
            values = [b[1][j, i] for b in batches]
            rows.append((kind, name, np.mean(values), np.std(values) / np.sqrt(_BATCHES)))
    return pl.DataFrame(rows, schema=["kind", "name", "value", "se"], orient="row").with_columns(
        pl.selectors.float().round(5)
    )


if __name__ == "__main__":
    found = truth()
    found.write_csv(Path(mazes.__file__).parent / "mazes_truth.csv")
    with pl.Config(tbl_rows=60):
        print(found)
