"""How fast the library is here, as multiples of one LAPACK Cholesky of the same matrix."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kernelpde.cli._doctor import factor_seconds
from kernelpde.cli._facts import BUSY
from kernelpde.gallery import elliptic
from kernelpde.gauss_newton import solve
from kernelpde.learning import Bilevel, FinalSolve, HeldOut, LevenbergMarquardt, learn
from kernelpde.linear_solvers import Dense


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
    factor, busy = factor_seconds(rows)
    step = min(record.seconds for record in again.history[1:])
    evaluation = float(np.min(np.diff(stamps)))
    return {
        "rows": rows,
        "cholesky_seconds": factor,
        "busy": busy,
        "solve_cold_seconds": cold,
        "solve_steps": first.steps,
        "step": {"seconds": step, "choleskys": step / factor},
        "evaluation": {"seconds": evaluation, "choleskys": evaluation / factor},
        "learn_cold_seconds": stamps[0] - begun,
    }


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
    Console().print(BUSY if facts["busy"] else "Each is the best of several.")
