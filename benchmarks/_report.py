"""What every benchmark says about itself, and how it is timed."""

import importlib.metadata
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.linalg

RESULTS = Path(__file__).parent.parent / "results"
SMALLEST = False
"""Whether only to see that benchmarks run, see `smallest.py`: one seed, and one timing of each."""


def environment() -> dict[str, str]:
    """Versions that a figure depends on."""
    packages = ("kernelpde", "jax", "jaxlib", "numpy", "scipy", "equinox")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def write(name: str, report: dict[str, Any], quiet: bool = False) -> None:
    """Print a report as JSON unless `quiet`, and keep it in `results/NAME.json`."""
    text = json.dumps({**report, "environment": environment()}, indent=2)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    if not quiet:
        print(text)


Run = Callable[[int], dict[str, Any]]
"""One measurement, by its seed."""


def measure(
    name: str,
    cases: Mapping[str, Run],
    summary: Callable[[list[dict[str, Any]]], dict[str, Any]],
    seeds: Iterable[int] = range(5),
) -> None:
    """Every case for every seed; the report is written anew after each, so that nothing is lost."""
    runs: dict[str, list[dict[str, Any]]] = {case: [] for case in cases}
    for seed in list(seeds)[: 1 if SMALLEST else None]:
        for case, one in cases.items():
            runs[case].append(one(seed))
            report = {c: {**summary(done), "runs": done} for c, done in runs.items() if done}
            write(name, {"cases": report})


def seconds(function: Callable[[], Any]) -> float:
    """Time of one call, all of its results awaited."""
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


_REST = 0.1


def against_cholesky(
    function: Callable[[], Any], matrix: np.ndarray, repeats: int = 15
) -> dict[str, float]:
    """Time of `function` as a multiple of one LAPACK Cholesky of `matrix`, taken in turns.

    With a rest in between: for some tens of milliseconds after a call the threads of BLAS wait
    busily for the next one and would take half of a small machine from whatever follows.
    """

    def factor():
        return scipy.linalg.cholesky(matrix, lower=True, check_finite=False)

    function()
    factor()
    pairs = []
    for _ in range(1 if SMALLEST else repeats):
        time.sleep(_REST)
        ours = seconds(function)
        time.sleep(_REST)
        pairs.append((ours, seconds(factor)))
    return {
        "ratio": statistics.median(a / b for a, b in pairs),
        "seconds": statistics.median(a for a, _ in pairs),
        "cholesky_seconds": statistics.median(b for _, b in pairs),
        "size": len(matrix),
    }
