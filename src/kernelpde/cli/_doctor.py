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

_STEPS, _EVALUATIONS = 8, 80
"""What a solve and a learning run usually take."""


def diagnosis(rows: int | None) -> dict[str, Any]:
    """Facts about this machine; with a number of rows also what they would take."""
    memory = physical_bytes()
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "versions": versions(),
        "x64": bool(jax.config.read("jax_enable_x64")),
        "backend": jax.default_backend(),
        "devices": [str(device) for device in jax.devices()],
        "processors": _processors(),
        "memory_gigabytes": None if memory is None else memory / 1e9,
        "cholesky_seconds": {"size": _SAMPLE, "seconds": _factor_seconds()},
    }
    if rows is not None:
        found["estimate"] = estimate(rows, found)
    return found


def estimate(rows: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Memory and time for a dense system with so many rows."""
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


def _factor_seconds() -> float:
    root = np.random.default_rng(0).random((_SAMPLE, _SAMPLE))
    matrix = root @ root.T + _SAMPLE * np.eye(_SAMPLE)
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def _processors() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()  # pragma: no cover
