"""How often does `mediate`'s interval of the indirect effect cover the truth where there are few clusters?

Simulated: x is drawn per cluster (as a property of a pair of models is), m = 0.5 x + cluster effect + noise,
y = 0.5 m + 0.2 x + cluster effect + noise, ten rows a cluster, so that the indirect effect is 0.25. Six to 53 clusters,
1,500 data sets each; the Monte Carlo error of a share of 92 % is 0.7 points. A minute and a half of one core:

    python benchmarks/studies/few_clusters.py --write

The stored results are tests/golden/few_clusters.json.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from cilab.stats.maze.mediation import mediate  # noqa: E402
from cilab.stats.methods.cluster import FewClustersWarning  # noqa: E402

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "few_clusters.json"
SIZES, DATA_SETS, RESAMPLES, ROWS = (6, 10, 20, 30, 53), 1500, 500, 10
INDIRECT = 0.25
#: Data sets whose outcome is stored one by one, for the gate.
FIRST = 5


def drawn(clusters: int, rng: np.random.Generator) -> pl.DataFrame:
    """One simulated data set."""

    def of_cluster(sd: float) -> np.ndarray:
        return np.repeat(rng.normal(size=clusters) * sd, ROWS)

    n = clusters * ROWS
    x = of_cluster(1.0)
    m = 0.5 * x + of_cluster(0.6) + rng.normal(size=n)
    y = 0.5 * m + 0.2 * x + of_cluster(0.6) + rng.normal(size=n)
    return pl.DataFrame({"x": x, "m": m, "y": y, "cluster": np.repeat(np.arange(clusters), ROWS)})


def covered(clusters: int, data_sets: int) -> tuple[list[int], list[float]]:
    """Whether the interval of each data set covers the truth, and its half width."""
    rng, hits, widths = np.random.default_rng(clusters), [], []
    for k in range(data_sets):
        data = drawn(clusters, rng)
        with warnings.catch_warnings(action="ignore", category=FewClustersWarning):
            found = mediate(data, x="x", m="m", y="y", cluster="cluster", resamples=RESAMPLES, seed=k).table
        row = found.row(by_predicate=pl.col("effect") == "indirect", named=True)
        hits.append(int(row["lo"] <= INDIRECT <= row["hi"]))
        widths.append((row["hi"] - row["lo"]) / 2)
    return hits, widths


def study(data_sets: int = DATA_SETS) -> dict[str, Any]:
    """The whole of it."""
    lines = []
    for clusters in SIZES:
        hits, widths = covered(clusters, data_sets)
        lines.append(
            {"clusters": clusters, "coverage_pct": round(100 * float(np.mean(hits)), 2)}
            | {"mean_half_width": round(float(np.mean(widths)), 4), "first": hits[:FIRST]}
        )
    return {
        "made_by": "python benchmarks/studies/few_clusters.py --write",
        "data_sets": data_sets,
        "resamples": RESAMPLES,
        "rows_per_cluster": ROWS,
        "simulated": True,
        "sizes": lines,
    }


if __name__ == "__main__":
    text = json.dumps(study(), indent=1) + "\n"
    if sys.argv[1:] == ["--write"]:
        OUT.write_text(text)
    sys.stdout.write(text)
