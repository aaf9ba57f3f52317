"""Estimates of the work and the memory of linear solvers."""

import statistics
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.memory import usable_bytes

MAX_STORED_ROWS = 6000
"""Number of rows up to which the Gram matrix is stored beside its factor. Products with it then do
not evaluate the kernel again: their programs compile in a tenth of the time, for twice the memory.
At half of it learning 4000 rows compiles for a minute longer. At double 12,000 rows need 6 GB. The
rank of smaller systems is not computed, since their dense factorization takes seconds."""

_STORED_SOLVE_MATRICES, _STORED_LEARN_MATRICES = 3.6, 5.4
"""Matrices of the full size alive at once in `solve` and in `learn`, if the Gram matrix is stored;
from peak memory at 4000 and 6000 rows."""

_SOLVE_MATRICES, _LEARN_MATRICES = 2.7, 3.6
"""Numbers of matrices without a stored Gram matrix, from peak memory at 6500 and 3000 rows."""

_LOW_RANK_MATRICES = 12
"""Matrices of the size of the rank alive at once."""

_LEARNING_COST = 2.5
"""Cost of a step with derivatives in the kernels, relative to a step without."""

_BENCHMARK_SIZE = 800
"""Size of the matrices whose product is timed."""


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a step of a linear solver.

    **Attributes:**

    - `flops`: number of floating-point operations.
    - `bytes`: required memory.
    """

    flops: float
    bytes: float

    @property
    def fits_in_memory(self) -> bool:
        return self.bytes <= usable_bytes()

    def seconds(self, num_devices: int, *, learning: bool) -> float:
        """Return the time of a step on this machine, with derivatives in the kernels or without."""
        factor = _LEARNING_COST if learning else 1.0
        return factor * self.flops / num_devices / flops_per_second()


def dense_cost(num_rows: int, *, learning: bool) -> Cost:
    """Return the cost of a step with a matrix of all rows."""
    if num_rows <= MAX_STORED_ROWS:
        matrices = _STORED_LEARN_MATRICES if learning else _STORED_SOLVE_MATRICES
    else:
        matrices = _LEARN_MATRICES if learning else _SOLVE_MATRICES
    return Cost(0.5 * num_rows**3, matrices * FLOAT_BYTES * num_rows**2)


def low_rank_cost(num_rows: int, rank: int) -> Cost:
    """Return the cost of a step with inducing functionals."""
    return Cost(4.0 * num_rows * rank**2, _LOW_RANK_MATRICES * FLOAT_BYTES * rank**2)


def max_dense_rows(*, learning: bool) -> int:
    """Return the number of rows whose matrix fits into the memory of this machine."""
    matrices = _LEARN_MATRICES if learning else _SOLVE_MATRICES
    num_rows = int((usable_bytes() / (FLOAT_BYTES * matrices)) ** 0.5)
    if num_rows > MAX_STORED_ROWS:
        return num_rows
    return int((usable_bytes() / dense_cost(1, learning=learning).bytes) ** 0.5)


@cache
def flops_per_second() -> float:
    """Measure the floating-point operations per second of this machine, once per process."""
    matrix = np.random.default_rng(0).random((_BENCHMARK_SIZE, _BENCHMARK_SIZE))
    durations = []
    for _ in range(4):
        start_time = time.perf_counter()
        np.matmul(matrix, matrix)
        durations.append(time.perf_counter() - start_time)
    return 2.0 * _BENCHMARK_SIZE**3 / statistics.median(durations)


def format_duration(seconds: float) -> str:
    """Format a duration with its unit."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.2g} {unit}"
    raise ValueError(f"Expected a number of seconds; got {seconds}.")
