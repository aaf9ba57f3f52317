"""Times as multiples of a Cholesky factorization, and measurements in separate processes."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg

from benchmarks._report import ROOT, repeats

_REST = 0.1


def seconds(function: Callable[[], Any]) -> float:
    """Return the wall time of one call, until all of its results are available."""
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU time of one call, until all of its results are available."""
    start = time.process_time()
    jax.block_until_ready(function())
    return time.process_time() - start


def cholesky(rows: int) -> Callable[[], Any]:
    """Return one LAPACK factorization of a matrix of that size, as a function to time."""
    matrix = 0.1 * np.ones((rows, rows)) + np.eye(rows)
    return lambda: scipy.linalg.cholesky(matrix, lower=True, check_finite=False)


def against_cholesky(
    function: Callable[[], Any], matrix: np.ndarray, count: int = 15
) -> dict[str, float]:
    """Time `function` as a multiple of one LAPACK Cholesky of `matrix`, alternately.

    With a pause in between: for some tens of milliseconds after a call the threads of BLAS wait
    busily for the next one and would take half of a small machine from whatever follows.
    """

    def factor():
        return scipy.linalg.cholesky(matrix, lower=True, check_finite=False)

    function()
    factor()
    pairs = []
    for _ in range(repeats(count)):
        time.sleep(_REST)
        first = seconds(function)
        time.sleep(_REST)
        pairs.append((first, seconds(factor)))
    return {
        "rows": len(matrix),
        "ratio": statistics.median(a / b for a, b in pairs),
        "seconds": statistics.median(a for a, _ in pairs),
        "seconds of one Cholesky": statistics.median(b for _, b in pairs),
    }


def in_process(
    command: Sequence[str],
    *,
    cores: Sequence[int] | None = None,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Run Python with these arguments, and return what the last line of its output holds as JSON.

    **Arguments:**

    - `command`: arguments of the interpreter.
    - `cores`: processor cores to run on; all if `None`.
    - `timeout`: in seconds.
    - `environment`: further environment variables.
    """
    start = (
        ["taskset", "-c", ",".join(map(str, cores))] if cores and sys.platform == "linux" else []
    )
    process = subprocess.run(
        [*start, sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if process.returncode:
        raise RuntimeError(process.stderr.strip().splitlines()[-1][:200])
    return json.loads(process.stdout.splitlines()[-1])
