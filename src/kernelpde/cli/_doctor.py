"""Diagnosis of this machine, and the cost of a linear system on it."""

import os
import platform
import time
from typing import Any

import jax
import numpy as np
import scipy.linalg
import typer

from kernelpde.io import versions
from kernelpde.linear_solvers import dense_cost, describe_automatic, format_duration
from kernelpde.memory import physical_bytes

BUSY_MESSAGE = "Warning: other processes are using the CPU; timings are too long."

_SAMPLE = 1500
"""Number of rows of the matrix whose factorization is timed."""

_PAUSE = 0.1
"""Seconds between two timings. BLAS threads wait actively for some time after a call."""

_BUSY_RATIO = 1.3
"""Ratio of median to minimum time above which other processes are assumed to run."""

_SOLVE_FACTORIZATIONS, _LEARN_FACTORIZATIONS = 8, 80
"""Typical number of factorizations of a solve and of learning."""


def diagnose(rows: int | None) -> dict[str, Any]:
    """Return facts about this machine; with a number of rows also its cost."""
    memory = physical_bytes()
    seconds, busy = factor_seconds(_SAMPLE)
    facts: dict[str, Any] = {
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
        facts["estimate"] = _estimate(rows, seconds, facts["memory_gigabytes"])
    return facts


def _estimate(rows: int, sample_seconds: float, gigabytes: float | None) -> dict[str, Any]:
    """Return memory and time for a dense system of the given size."""
    factor = sample_seconds * (rows / _SAMPLE) ** 3
    required = {
        "solve": dense_cost(rows, learning=False).bytes / 1e9,
        "learn": dense_cost(rows, learning=True).bytes / 1e9,
    }
    return {
        "rows": rows,
        "solver": describe_automatic(rows),
        "gigabytes": required,
        "seconds": {
            "solve": 1.5 * _SOLVE_FACTORIZATIONS * factor,
            "learn": 3.0 * _LEARN_FACTORIZATIONS * factor,
        },
        "fits": None if gigabytes is None else required["learn"] < 0.9 * gigabytes,
    }


def factor_seconds(rows: int, repeats: int = 7) -> tuple[float, bool]:
    """Return the best time of a Cholesky factorization, and whether the machine is busy."""
    root = np.random.default_rng(0).random((rows, rows))
    matrix = root @ root.T + rows * np.eye(rows)
    seconds = []
    for _ in range(repeats):
        time.sleep(_PAUSE)
        start_time = time.perf_counter()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        seconds.append(time.perf_counter() - start_time)
    return min(seconds), float(np.median(seconds)) > _BUSY_RATIO * min(seconds)


def _processors() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()  # pragma: no cover


def print_diagnosis(facts: dict[str, Any]) -> None:
    """Print the result of `diagnose`."""
    memory, sample = facts["memory_gigabytes"], facts["cholesky_seconds"]
    packages = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [
        f"Python {facts['python']}, {packages}",
        f"{facts['backend']}: {', '.join(facts['devices'])}; {facts['processors']} processors, "
        + ("unknown memory" if memory is None else f"{memory:.1f} GB of memory"),
        f"64-bit numbers: {'on' if facts['x64'] else 'OFF'}; best time of a Cholesky factorization "
        f"of {sample['size']} rows: {sample['seconds']:.3f} s",
    ]
    if facts["busy"]:
        lines.append(BUSY_MESSAGE)
    estimate = facts.get("estimate")
    if estimate is None:
        lines.append("To estimate memory and time of a system: kernelpde doctor --rows 5000")
    else:
        lines += [
            f"{estimate['rows']} rows, dense, {task}: about {estimate['gigabytes'][task]:.2g} GB "
            f"and {format_duration(estimate['seconds'][task])} on the CPU"
            for task in ("solve", "learn")
        ]
        if estimate["fits"] is False:
            lines.append("A dense matrix of this size does not fit into the memory.")
        lines.append(f"The automatic solver is {estimate['solver']}.")
    typer.echo("\n".join(lines))
