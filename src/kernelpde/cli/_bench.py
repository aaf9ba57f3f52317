"""How fast the library is here, as multiples of one LAPACK Cholesky of the same matrix."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

from kernelpde.gallery import elliptic
from kernelpde.gauss_newton import solve
from kernelpde.learning import Bilevel, FinalSolve, HeldOut, LevenbergMarquardt, learn
from kernelpde.linear_solvers import Dense

_REST = 0.1
"""Seconds after which the threads of BLAS no longer wait busily for another call."""


def measured(rows: int, seed: int) -> dict[str, Any]:
    """A Gauss-Newton step and an evaluation of the outer loss on the elliptic problem."""
    points = {"equation": rows - rows // 4, "boundary": rows // 4}
    example = elliptic(0.2)
    begun = time.perf_counter()
    first = solve(example.problem, points, seed=seed, throw=False)
    cold = time.perf_counter() - begun
    again = solve(example.problem, points, seed=seed, throw=False)
    stamps: list[float] = []
    begun = time.perf_counter()
    learn(
        example.problem,
        points,
        seed=seed,
        method=Bilevel(
            optimizer=LevenbergMarquardt(steps=4),
            tolerance=0.0,
            multistart=False,
            final=FinalSolve({"equation": 20, "boundary": 12}),
        ),
        max_steps=4,
        validation=HeldOut(),
        linear_solver=Dense(nugget=1e-10, refinement=0),
        throw=False,
        callback=lambda _: stamps.append(time.perf_counter()),
    )
    factor = _cholesky(rows)
    step = float(np.median([record.seconds for record in again.history[1:]]))
    evaluation = float(np.median(np.diff(stamps)))
    return {
        "rows": rows,
        "cholesky_seconds": factor,
        "solve_cold_seconds": cold,
        "solve_steps": first.steps,
        "step": {"seconds": step, "choleskys": step / factor},
        "evaluation": {"seconds": evaluation, "choleskys": evaluation / factor},
        "learn_cold_seconds": stamps[0] - begun,
    }


def _cholesky(rows: int) -> float:
    root = np.random.default_rng(0).random((rows, rows))
    matrix = root @ root.T + rows * np.eye(rows)
    times = []
    for _ in range(7):
        time.sleep(_REST)
        begun = time.perf_counter()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def show_times(facts: Mapping[str, Any], rows: int) -> None:
    """As a table."""
    table = Table(box=None, pad_edge=False)
    for title in (f"{rows} rows", "seconds", "Choleskys"):
        table.add_column(title)
    table.add_row("one LAPACK Cholesky", f"{facts['cholesky_seconds']:.3g}", "1")
    named = {"step": "Gauss-Newton step", "evaluation": "evaluation of the outer loss"}
    for key, name in named.items():
        found = facts[key]
        table.add_row(name, f"{found['seconds']:.3g}", f"{found['choleskys']:.1f}")
    table.add_row("first solve, compilation included", f"{facts['solve_cold_seconds']:.3g}", "")
    table.add_row("first loss, compilation included", f"{facts['learn_cold_seconds']:.3g}", "")
    Console().print(table)
