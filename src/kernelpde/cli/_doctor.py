"""What this machine can do: devices, precision, versions, and what a size would take."""

import os
import platform
import time
from typing import Any

import jax
import numpy as np
import scipy.linalg

from kernelpde.archive import versions
from kernelpde.linear_solvers import automatic_for
from kernelpde.memory import LEARN, SOLVE, dense_bytes, physical_bytes

_SAMPLE = 1500
"""Size of the matrix that is factored to see how fast this machine is."""

_REST = 0.1
_BUSY = 1.3
"""If the median of several times is so much longer than the best, something else is running."""

_STEPS, _EVALUATIONS = 8, 80
"""What a solve and a learning run usually take."""


def diagnosis(rows: int | None) -> dict[str, Any]:
    """Facts about this machine; with a number of rows also what they would take."""
    memory = physical_bytes()
    seconds, busy = factor_seconds(_SAMPLE)
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "versions": versions(),
        "x64": bool(jax.config.read("jax_enable_x64")),
        "backend": jax.default_backend(),
        "devices": [str(device) for device in jax.devices()],
        "processors": _processors(),
        "memory_gigabytes": None if memory is None else memory / 1e9,
        "cholesky_seconds": {"size": _SAMPLE, "seconds": seconds},
        "busy": busy,
    }
    if rows is not None:
        found["estimate"] = estimate(rows, found)
    return found


def estimate(rows: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Memory and time for a dense system with a given number of rows."""
    factor = facts["cholesky_seconds"]["seconds"] * (rows / _SAMPLE) ** 3
    available = facts["memory_gigabytes"]
    needed = {
        name: dense_bytes(rows, matrices) / 1e9
        for name, matrices in (("solve", SOLVE), ("learn", LEARN))
    }
    return {
        "rows": rows,
        "solver": automatic_for(rows),
        "gigabytes": needed,
        "seconds": {"solve": 1.5 * _STEPS * factor, "learn": 3.0 * _EVALUATIONS * factor},
        "fits": None if available is None else needed["learn"] < 0.9 * available,
    }


def factor_seconds(rows: int, repeats: int = 7) -> tuple[float, bool]:
    """Time of one Cholesky factorization, the best of several; whether the machine is busy."""
    root = np.random.default_rng(0).random((rows, rows))
    matrix = root @ root.T + rows * np.eye(rows)
    times = []
    for _ in range(repeats):
        # After a rest: the threads of BLAS wait busily for another call, for some time.
        time.sleep(_REST)
        begun = time.perf_counter()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        times.append(time.perf_counter() - begun)
    return min(times), float(np.median(times)) > _BUSY * min(times)


def _processors() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()  # pragma: no cover
