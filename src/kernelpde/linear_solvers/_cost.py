"""Time estimates of large solves."""

import statistics
import time
from functools import cache

import numpy as np

_BENCHMARK_SIZE = 800
"""Size of the matrices whose product is timed."""


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
