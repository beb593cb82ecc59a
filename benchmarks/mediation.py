"""Mediation and odds ratios with a cluster bootstrap: ours against refitting every replicate.

2,650 rows, 53 clusters, 14 control columns, B = 1,000 (tests/golden/mediation_clustered.csv, made for this project).
Ours is the whole call, from a polars frame to the numbers of the table. The peers are what a user would write instead:
refit every replicate with statsmodels formulas, or with normal equations in numpy on one design matrix. They fit
the three models (the total effect is c' + a b) and rho at zero from the residuals; they are timed on few replicates and
scaled, which the table says.

    python benchmarks/mediation.py [--json] [--resamples 1000] [--peer-replicates 20]

Times are CPU seconds of this process, one thread for everybody, the best of several rounds in turn.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402
from lines import line, show  # noqa: E402

DATA = Path(__file__).resolve().parents[1] / "tests" / "golden" / "mediation_clustered.csv"
NUMBERS = ("homogeneous", "same_family", "path_length", "log_tokens")
TEXTS = ("starter_tier", "follower_tier", "starter_family", "follower_family")
CONTROLS = (*TEXTS, *NUMBERS)
PAIR_LEVEL = (*TEXTS, "homogeneous", "same_family")
#: Promised ratios.
PROMISED = {
    "mediation / statsmodels formula refit": 2500,
    "mediation / numpy refit": 40,
    "odds ratios / statsmodels formula refit": 500,
}


def best(*calls: Callable[[], Any], rounds: int) -> list[float]:
    """Least CPU seconds of each call; the calls take turns, so that a disturbance does not hit one of them only."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for kept, call in zip(times, calls, strict=True):
            began = time.process_time()
            call()
            kept.append(time.process_time() - began)
    return [min(kept) for kept in times]


class Peers:
    """Refitting every replicate; the rows of each cluster are looked up once."""

    def __init__(self, frame: pl.DataFrame, replicates: int) -> None:
        self.frame = frame.to_pandas().astype(dict.fromkeys(TEXTS, "category"))
        codes = frame["pair"].to_numpy()
        self.rows = [np.flatnonzero(codes == c) for c in np.unique(codes)]
        picks = np.random.default_rng(1).integers(0, len(self.rows), (replicates, len(self.rows)))
        self.draws = [np.concatenate([self.rows[c] for c in pick]) for pick in picks]
        dummies = frame.select(TEXTS).to_dummies(drop_first=True).to_numpy()
        controls = np.column_stack([np.ones(frame.height), dummies, frame.select(NUMBERS).to_numpy()])
        x, m = (frame[c].to_numpy().astype(float) for c in ("grounding", "global_strategy"))
        self.full = np.column_stack([controls, x, m, x * m]).astype(float)
        self.m, self.y = m, frame["outcome"].to_numpy()

    def numpy_refit(self) -> list[tuple[float, ...]]:
        """a, b, c', b1, b2, rho and rho at X = 1 of every replicate, by normal equations."""
        out, k = [], self.full.shape[1]
        for index in self.draws:
            z, m, y = self.full[index], self.m[index], self.y[index]
            fits = []
            for columns, target in ((k - 2, m), (k - 1, y), (k, y)):
                part = z[:, :columns]
                b = np.linalg.lstsq(part.T @ part, part.T @ target, rcond=None)[0]
                fits.append((b, np.sqrt(np.mean((target - part @ b) ** 2))))
            (bm, sm), (b1, s1), (b2, s2) = fits
            h, h1 = b1[-1] * sm / s1, (b2[-2] + b2[-1]) * sm / s2
            rho = (h / np.sqrt(1 + h * h), h1 / np.sqrt(1 + h1 * h1))
            out.append((bm[-1], b1[-1], b1[-2], b2[-2], b2[-1], *rho))
        return out

    def statsmodels_refit(self) -> list[tuple[float, ...]]:
        """The same with statsmodels formulas on the drawn rows."""
        import statsmodels.formula.api as smf

        controls, out = " + ".join(CONTROLS), []
        for index in self.draws:
            drawn = self.frame.iloc[index]
            m = smf.ols(f"global_strategy ~ {controls} + grounding", drawn).fit()
            additive = smf.ols(f"outcome ~ {controls} + grounding + global_strategy", drawn).fit()
            synergy = smf.ols(f"outcome ~ {controls} + grounding * global_strategy", drawn).fit()
            b1, b2 = synergy.params["global_strategy"], synergy.params["grounding:global_strategy"]
            sm, s1, s2 = (np.sqrt(np.mean(fit.resid**2)) for fit in (m, additive, synergy))
            h, h1 = additive.params["global_strategy"] * sm / s1, (b1 + b2) * sm / s2
            rho = (h / np.sqrt(1 + h * h), h1 / np.sqrt(1 + h1 * h1))
            a, b, c = m.params["grounding"], additive.params["global_strategy"], additive.params["grounding"]
            out.append((a, b, c, b1, b2, *rho))
        return out

    def statsmodels_odds(self) -> list[np.ndarray]:
        """Odds ratios of every replicate, with a statsmodels formula."""
        import statsmodels.formula.api as smf

        formula = f"disagreement ~ {' + '.join(PAIR_LEVEL)}"
        return [np.exp(smf.logit(formula, self.frame.iloc[i]).fit(disp=0).params.to_numpy()) for i in self.draws]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--peer-replicates", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    from cilab.stats.maze.disagreement import odds_ratios
    from cilab.stats.maze.mediation import mediate

    frame = pl.read_csv(DATA).with_columns(pl.col("tokens").log().alias("log_tokens"))
    peers = Peers(frame, args.peer_replicates)

    def mediation() -> Any:
        columns = {"x": "grounding", "m": "global_strategy", "y": "outcome", "controls": CONTROLS, "cluster": "pair"}
        return mediate(frame, **columns, resamples=args.resamples)

    def odds() -> Any:
        return odds_ratios(
            frame, outcome="disagreement", predictors=PAIR_LEVEL, cluster="pair", resamples=args.resamples
        )

    np.testing.assert_allclose(peers.numpy_refit(), peers.statsmodels_refit(), atol=1e-6)
    mediation(), odds()
    ours, by_numpy = best(mediation, peers.numpy_refit, rounds=7)
    ours_odds = best(odds, rounds=7)[0]
    by_statsmodels, odds_by_statsmodels = best(peers.statsmodels_refit, peers.statsmodels_odds, rounds=3)
    scale = args.resamples / args.peer_replicates
    note = f"peer scaled from {args.peer_replicates} replicates"
    rows = [
        line(name, mine, "s of CPU", peer=peer * scale, ratio=peer * scale / mine, least=PROMISED[name], note=note)
        for name, mine, peer in (
            ("mediation / statsmodels formula refit", ours, by_statsmodels),
            ("mediation / numpy refit", ours, by_numpy),
            ("odds ratios / statsmodels formula refit", ours_odds, odds_by_statsmodels),
        )
    ]
    return show(rows, args.json)


if __name__ == "__main__":
    sys.exit(main())
