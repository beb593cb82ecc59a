"""Many independent computations, over as many processes or machines as the user says.

May import joblib, inside functions. Knows nothing of what is computed. Random numbers are the caller's: each item must
bring its own stream, so that the results are the same however the items are spread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def each(function: Callable[[Item], Found], items: Iterable[Item], workers: int | None = None) -> list[Found]:
    """`[function(item) for item in items]`, in order, wherever `joblib.parallel_config` says.

    Parameters
    ----------
    function : of one item; with more than one process, it and the items are pickled.
    items : independent of each other.
    workers : processes; None takes those of the `joblib.parallel_config` around the call, and one where there is none.

    Notes
    -----
    What goes through here: the splits of `lite` and `lite_curve`, the simulated studies of `power`, the fits of
    `fill_in` (cross-validation, hide-and-predict) where they are too many for one batch, and the simulation studies
    in `benchmarks/studies`. On a Dask cluster::

        from dask.distributed import Client
        import joblib
        with Client("tcp://host:8786"), joblib.parallel_config(backend="dask"):
            cilab.lite(study, splits=4000)

    Examples
    --------
    >>> each(abs, [-1, 2])
    [1, 2]
    """
    # Nobody can have configured joblib without importing it, which takes longer than many a computation here.
    if workers is None and "joblib" not in sys.modules:
        return [function(item) for item in items]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=workers)(delayed(function)(item) for item in items))
