"""Estimates of the work and the memory of linear solvers."""

import statistics
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from kernelpde.memory import usable_bytes

_SOLVE_MATRICES, _LEARN_MATRICES = 2.2, 3.6
"""Matrices of the full size alive at once in `solve` and in `learn`, from peak memory at 3000
rows."""

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
    matrices = _LEARN_MATRICES if learning else _SOLVE_MATRICES
    return Cost(0.5 * num_rows**3, matrices * 8.0 * num_rows**2)


def low_rank_cost(num_rows: int, rank: int) -> Cost:
    """Return the cost of a step with inducing functionals."""
    return Cost(4.0 * num_rows * rank**2, _LOW_RANK_MATRICES * 8.0 * rank**2)


def max_dense_rows(*, learning: bool) -> int:
    """Return the number of rows whose matrix fits into the memory of this machine."""
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
