"""Chances over several runs of a task: that all of k pass, and that any of k does.

May import numpy. Knows arrays only: no tables, no files.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def all_pass(passed: Counts, runs: Counts, k: int) -> Array:
    """Chance that k runs of a task all pass, without bias: C(passed, k) / C(runs, k).

    Parameters
    ----------
    passed, runs : numbers of passed runs and of all runs of each task, of one shape.
    k : how many runs, at least 1.

    Returns
    -------
    Array
        Fractions; NaN where a task has fewer than k runs.

    References
    ----------
    Yao, Shinn, Razavi and Narasimhan (2024), tau-bench (pass^k).

    Examples
    --------
    >>> all_pass(np.array([4, 2, 1]), np.array([4, 4, 1]), 2).round(3).tolist()
    [1.0, 0.167, nan]
    """
    passed, runs = np.asarray(passed), np.asarray(runs)
    out = np.where(runs >= k, 1.0, np.nan)
    for i in range(k):
        out = out * np.maximum(passed - i, 0) / np.maximum(runs - i, 1)
    return out


def any_pass(passed: Counts, runs: Counts, k: int) -> Array:
    """Chance that any of k runs of a task passes, without bias: 1 - C(runs - passed, k) / C(runs, k).

    Arguments and returns as in `all_pass`.

    References
    ----------
    Chen et al. (2021), Evaluating large language models trained on code (pass@k).

    Examples
    --------
    >>> any_pass(np.array([4, 2, 0]), np.array([4, 4, 4]), 2).round(3).tolist()
    [1.0, 0.833, 0.0]
    """
    return 1.0 - all_pass(np.asarray(runs) - np.asarray(passed), runs, k)


__all__ = ["all_pass", "any_pass"]
