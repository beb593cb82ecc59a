"""The cells' part of the sampled model's log likelihood as one compiled loop, with its slopes.

May import pytensor and numba, at its top: `cilab.stats.methods.bayes` imports it inside a function, as both take
seconds. Knows arrays only. A general graph takes an exponential, a logarithm and two passes over memory for each cell;
since the odds of a cell are those of its row times those of its task, this loop takes one logarithm and one division.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import numba_funcify


@numba.njit(error_model="numpy")
def _normaliser(level: np.ndarray, ease: np.ndarray, runs: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Value and slopes in level and ease; see `normaliser`."""
    n_dims, n_rows, n_tasks = runs.shape
    by_level, by_ease = np.zeros((n_dims, n_rows)), np.zeros((n_dims, n_tasks))
    of_rows, of_tasks = np.exp(level), np.exp(ease)
    total = 0.0
    for d in range(n_dims):
        for r in range(n_rows):
            expected_of_row = 0.0
            for t in range(n_tasks):
                odds_and_1 = 1.0 + of_rows[d, r] * of_tasks[d, t]
                total += runs[d, r, t] * math.log(odds_and_1)
                expected = runs[d, r, t] * (1.0 - 1.0 / odds_and_1)
                expected_of_row += expected
                by_ease[d, t] += expected
            by_level[d, r] = expected_of_row
    return np.asarray(total), by_level, by_ease


class Normaliser(Op):
    """`_normaliser` in a graph. Second derivatives are not defined: no sampler here asks for them."""

    __props__ = ()

    def make_node(self, level: Any, ease: Any, runs: Any) -> Apply:
        inputs = [pt.as_tensor_variable(x, dtype="float64") for x in (level, ease, runs)]
        return Apply(self, inputs, [pt.dscalar(), inputs[0].type(), inputs[1].type()])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list[Any]]) -> None:
        for store, value in zip(output_storage, _normaliser(*inputs), strict=True):
            store[0] = value

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True, False, False], [True, False, False], [False, False, False]]

    def L_op(self, inputs: list[Variable], outputs: list[Variable], output_grads: list[Variable]) -> list[Variable]:
        slope = output_grads[0]
        if isinstance(slope.type, DisconnectedType):
            return [disconnected_type() for _ in inputs]
        return [slope * outputs[1], slope * outputs[2], disconnected_type()]


@numba_funcify.register(Normaliser)
def _compiled(op: Normaliser, node: Apply, **_: Any) -> Any:
    return _normaliser


def normaliser(level: Any, ease: Any, runs: Any) -> Variable:
    """Sum over cells of runs * log(1 + exp(level + ease)), a scalar of the graph.

    Parameters
    ----------
    level : logits of rows by dimension, shape (dimensions, R).
    ease : logits of tasks by dimension, shape (dimensions, M).
    runs : shape (dimensions, R, M).
    """
    return Normaliser()(level, ease, runs)[0]
