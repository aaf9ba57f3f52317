"""Diagnosis of this machine, and the speed of the library on it."""

import os
import platform
import time

import jax
import numpy as np
import scipy.linalg
import typer
from rich.console import Console
from rich.table import Table

from kernelpde.gallery import elliptic
from kernelpde.io import Attributes, versions
from kernelpde.learning import Bilevel, FinalSolve, HeldOut, LevenbergMarquardt, learn
from kernelpde.linear_solvers import (
    LEARNING_NUGGET,
    Dense,
    dense_cost,
    describe_automatic,
    format_duration,
)
from kernelpde.memory import physical_bytes
from kernelpde.solution import solve

_SAMPLE = 1500
"""Number of rows of the matrix whose factorization is timed."""

_FACTORIZATIONS = {"solve": 12.0, "learn": 240.0}
"""Typical time of a solve and of learning, in Cholesky factorizations."""


def diagnose(rows: int | None) -> Attributes:
    """Return facts about this machine; with a number of rows also its cost."""
    memory = physical_bytes()
    seconds = _factor_seconds(_SAMPLE)
    facts = {
        "python": platform.python_version(),
        "versions": versions(),
        "x64": bool(jax.config.read("jax_enable_x64")),
        "backend": jax.default_backend(),
        "devices": [str(device) for device in jax.devices()],
        "processors": _processors(),
        "memory_gigabytes": None if memory is None else memory / 1e9,
        "cholesky_seconds": {"size": _SAMPLE, "seconds": seconds},
    }
    if rows is not None:
        facts["estimate"] = _estimate(rows, seconds, facts["memory_gigabytes"])
    return facts


def _estimate(rows: int, sample_seconds: float, gigabytes: float | None) -> Attributes:
    """Return memory and time for a dense system of the given size."""
    factor = sample_seconds * (rows / _SAMPLE) ** 3
    costs = {task: dense_cost(rows, learning=task == "learn") for task in _FACTORIZATIONS}
    return {
        "rows": rows,
        "solver": describe_automatic(rows),
        "gigabytes": {task: cost.bytes / 1e9 for task, cost in costs.items()},
        "seconds": {task: count * factor for task, count in _FACTORIZATIONS.items()},
        "fits": None if gigabytes is None else costs["learn"].fits_in_memory,
    }


def _factor_seconds(rows: int, repeats: int = 7) -> float:
    """Return the best time of a Cholesky factorization."""
    root = np.random.default_rng(0).random((rows, rows))
    matrix = root @ root.T + rows * np.eye(rows)
    seconds = []
    for _ in range(repeats):
        start_time = time.perf_counter()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        seconds.append(time.perf_counter() - start_time)
    return min(seconds)


def _processors() -> int | None:
    is_linux = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if is_linux else os.cpu_count()


def print_diagnosis(facts: Attributes) -> None:
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


def run_benchmark(rows: int, seed: int) -> Attributes:
    """Time a Gauss-Newton step and an evaluation of the outer loss on the elliptic problem."""
    points = {"equation": rows - rows // 4, "boundary": rows // 4}
    problem = elliptic().problem
    start_time = time.perf_counter()
    cold = solve(problem, points, seed=seed, throw=False)
    cold_seconds = time.perf_counter() - start_time
    warm = solve(problem, points, seed=seed, throw=False)
    stamps: list[float] = []
    start_time = time.perf_counter()
    learn(
        problem,
        points,
        seed=seed,
        method=Bilevel(
            optimizer=LevenbergMarquardt(max_steps=4),
            tolerance=0.0,
            multistart=False,
            final=FinalSolve({"equation": 20, "boundary": 12}),
        ),
        max_steps=4,
        validation=HeldOut(),
        linear_solver=Dense(nugget=LEARNING_NUGGET, refinement_sweeps=0),
        throw=False,
        callback=lambda _: stamps.append(time.perf_counter()),
    )
    factor = _factor_seconds(rows)
    step = min(record.seconds for record in warm.history[1:])
    evaluation = float(np.min(np.diff(stamps)))
    return {
        "rows": rows,
        "cholesky_seconds": factor,
        "solve_cold_seconds": cold_seconds,
        "solve_steps": cold.num_steps,
        "step": {"seconds": step, "choleskys": step / factor},
        "evaluation": {"seconds": evaluation, "choleskys": evaluation / factor},
        "learn_cold_seconds": stamps[0] - start_time,
    }


def print_benchmark(times: Attributes) -> None:
    """Print the result of `run_benchmark` as a table."""
    table = Table(box=None, pad_edge=False)
    for title in (f"{times['rows']} rows", "seconds", "Choleskys"):
        table.add_column(title)
    table.add_row("one LAPACK Cholesky", f"{times['cholesky_seconds']:.3g}", "1")
    labels = {"step": "Gauss-Newton step", "evaluation": "evaluation of the outer loss"}
    for key, label in labels.items():
        table.add_row(label, f"{times[key]['seconds']:.3g}", f"{times[key]['choleskys']:.1f}")
    table.add_row("first solve, compilation included", f"{times['solve_cold_seconds']:.3g}", "")
    table.add_row("first loss, compilation included", f"{times['learn_cold_seconds']:.3g}", "")
    Console().print(table)
    Console().print("Each is the best of several.")
