"""Building frames of a table from arrays. May import `cilab.core`, numpy and polars."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.tables import TABLES


def fill(table: str, columns: dict[str, Any], n: int) -> pl.DataFrame:
    """A frame of `table` with these columns; a text or number stands for the whole column, the rest is null."""
    data = []
    for name, dtype in TABLES[table].schema.items():
        value = columns.get(name)
        if isinstance(value, pl.Series):
            data.append(value.cast(dtype).alias(name))
        elif isinstance(value, np.ndarray):
            data.append(pl.Series(name, value, nan_to_null=True).cast(dtype))
        else:
            data.append(pl.Series(name, [value], dtype=dtype).new_from_index(0, n))
    return pl.DataFrame(data)


def pick(values: Any, at: NDArray[np.int64], dtype: Any = pl.String) -> pl.Series:
    """values[at] as a Polars series."""
    return pl.Series("", values, dtype=dtype).gather(at)
