"""What a step will take, said before it begins."""

import statistics
import time
from functools import cache

import numpy as np

_SAMPLE = 800
"""Size of the matrices that are multiplied to see how fast this machine is."""


@cache
def operations_per_second() -> float:
    """Of this machine, from products of small matrices; measured once."""
    matrix = np.random.default_rng(0).random((_SAMPLE, _SAMPLE))
    times = []
    for _ in range(4):
        begun = time.perf_counter()
        np.matmul(matrix, matrix)
        times.append(time.perf_counter() - begun)
    return 2.0 * _SAMPLE**3 / statistics.median(times)


def in_words(seconds: float) -> str:
    """A duration with its unit."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.2g} {unit}"
    raise ValueError(f"Expected a number of seconds; got {seconds}.")
