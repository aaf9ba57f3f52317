"""Speed of the library on this machine, in units of one LAPACK Cholesky factorization."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kernelpde.cli._doctor import BUSY_MESSAGE, factor_seconds
from kernelpde.gallery import elliptic
from kernelpde.learning import Bilevel, FinalSolve, HeldOut, LevenbergMarquardt, learn
from kernelpde.linear_solvers import Dense
from kernelpde.solution import solve


def run_benchmark(rows: int, seed: int) -> dict[str, Any]:
    """Time a Gauss-Newton step and an evaluation of the outer loss on the elliptic problem."""
    points = {"equation": rows - rows // 4, "boundary": rows // 4}
    problem = elliptic(0.2).problem
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
        linear_solver=Dense(nugget=1e-10, refinement_sweeps=0),
        throw=False,
        callback=lambda _: stamps.append(time.perf_counter()),
    )
    factor, busy = factor_seconds(rows)
    step = min(record.seconds for record in warm.history[1:])
    evaluation = float(np.min(np.diff(stamps)))
    return {
        "rows": rows,
        "cholesky_seconds": factor,
        "busy": busy,
        "solve_cold_seconds": cold_seconds,
        "solve_steps": cold.num_steps,
        "step": {"seconds": step, "choleskys": step / factor},
        "evaluation": {"seconds": evaluation, "choleskys": evaluation / factor},
        "learn_cold_seconds": stamps[0] - start_time,
    }


def print_benchmark(times: Mapping[str, Any]) -> None:
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
    Console().print(BUSY_MESSAGE if times["busy"] else "Each is the best of several.")
