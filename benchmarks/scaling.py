"""How time, memory and error grow with the number of rows, and what several processes gain.

    python benchmarks/scaling.py CASE

with CASE one of dense, low-rank, sparse, agreement, step, learning, darcy, processes; each writes
`results/scaling-CASE.json`. Every size runs in a process of its own, whose peak memory is read.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from _report import write

import kernelpde as kp
from kernelpde.gallery import Example, darcy, elliptic
from kernelpde.learning import Loss, Parameters
from kernelpde.learning._evaluation import loss_and_normal, loss_and_state
from kernelpde.linear_solvers import chosen
from kernelpde.problem import linearized

SIZES = {
    "low-rank": (10_000, 100_000, 1_000_000),
    "sparse": (6_500, 25_000, 100_000, 250_000),
}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""For many small matrices: threads of BLAS would only wait for each other."""

LENGTHSCALE = {"low-rank": 0.12, "sparse": 0.2}


def example_for(case: str) -> Example:
    if case == "sparse":
        return elliptic(kernel=kp.Matern(3.5, LENGTHSCALE[case]))
    return elliptic(LENGTHSCALE["low-rank"])


def points_for(rows: int) -> dict[str, int]:
    """As many on the boundary as a grid with so many points would have."""
    boundary = int(4 * rows**0.5)
    return {"equation": rows - boundary, "boundary": boundary}


def solved(case: str, rows: int) -> dict[str, Any]:
    """A nonlinear solve to convergence, everything included, and its error."""
    example = example_for(case)
    solver = {"dense": kp.Dense(), "sparse": kp.Sparse(), "low-rank": kp.LowRank()}[case]
    begun = time.perf_counter()
    solution = kp.solve(example.problem, points_for(rows), linear_solver=solver)
    seconds = time.perf_counter() - begun
    return {
        "rows": rows,
        "seconds": seconds,
        "gigabytes": peak(),
        "l2": example.errors(solution)["u"]["l2"],
        "steps": solution.steps,
        "seconds of a step, compiled": statistics.median(
            record.seconds for record in solution.history[1:]
        ),
        "solver": solution.linear_solver,
    }


def agreed(rows: int) -> dict[str, Any]:
    """How far solutions at the same points, with the same nugget, are from the dense one."""
    report: dict[str, Any] = {"rows": rows}
    for case, solver in (("low-rank", kp.LowRank()), ("sparse", kp.Sparse())):
        example = example_for(case)
        dense = kp.solve(example.problem, points_for(rows), linear_solver=kp.Dense(solver.nugget))
        other = kp.solve(example.problem, points_for(rows), linear_solver=solver)
        apart = np.asarray(other["u"](example.grid)) - np.asarray(dense["u"](example.grid))
        report[case] = {
            "rms difference": float(np.sqrt(np.mean(apart**2))),
            "l2": example.errors(other)["u"]["l2"],
            "l2 dense": example.errors(dense)["u"]["l2"],
        }
    return report


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def loss_of(example: Example, rows: int, solver: Any) -> tuple[Loss, Any]:
    """The outer loss near the solution, with a thousand validation points."""
    problem = example.problem

    def at(points: dict[str, int], seed: int):
        blocks = problem.collocate(points, seed=seed)
        exact = 0.99 * example.references["u"](np.asarray(blocks[0].points))
        nothing = jnp.zeros((len(blocks[1].points), 0))
        entries = (jnp.asarray(exact)[:, None], nothing)
        return blocks, linearized(problem.residuals, blocks, entries)

    blocks, training = at(points_for(rows), 0)
    others, validation = at({"equation": 1000, "boundary": 100}, 1)
    plan = chosen(solver, problem.kernels, problem.residuals, blocks, learning=True).plan
    weights = jnp.asarray(np.r_[np.full(1000, 1e-2), np.ones(100)])
    parameters = Parameters.of(problem.kernels)
    near = plan.nearby(others)
    return Loss(parameters, training, validation, weights, plan, None, near=near), parameters


def timed(function, *arguments, repeats: int = 1) -> tuple[Any, float, float]:
    """What a function gives, and its seconds with and without compilation, the least of some."""
    found, times = None, []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        found = jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begun)
    return found, times[0], min(times[1:])


def stepped(case: str, rows: int) -> dict[str, Any]:
    """Loss, gradient and curvature at one size, and the gradient by differences."""
    solver = (
        kp.Sparse(nugget=1e-10, tolerance=1e-10)
        if case == "sparse"
        else kp.Dense(nugget=1e-10, refinement=0)
        if case == "dense"
        else kp.LowRank(nugget=1e-10)
    )
    loss, parameters = loss_of(example_for(case), rows, solver)
    theta = jnp.asarray(parameters.vector)
    found, first, seconds = timed(loss_and_normal, theta, loss)
    report = {
        "rows": rows,
        "loss": float(found[0]),
        "gradient": float(found[1][0]),
        "seconds": seconds,
        "seconds with compilation": first,
        "gigabytes": peak(),
    }
    if case == "sparse":
        step = 1e-3
        ends = [float(loss_and_state(theta + h, loss)[0]) for h in (step, -step)]
        report["by differences"] = (ends[0] - ends[1]) / (2 * step)
    if case == "dense" and rows <= _SCIPY:
        del loss, found
        report["choleskys"] = seconds / cholesky_seconds(rows)
    return report


_SCIPY = 14_000
"""The parallel factorization of OpenBLAS ends the process above some 15,000 rows."""


def cholesky_seconds(rows: int) -> float:
    matrix = np.random.default_rng(0).random((rows, rows))
    matrix += matrix.T
    matrix[np.diag_indices(rows)] += 2.0 * rows
    times = []
    for _ in range(3):
        again = np.array(matrix, order="F")
        begun = time.perf_counter()
        scipy.linalg.lapack.dpotrf(again, lower=1, overwrite_a=1)  # pyright: ignore
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def learned(rows: int) -> dict[str, Any]:
    """Ten outer steps with the sparse solver, from a lengthscale that is too short."""
    example = elliptic(kernel=kp.Matern(3.5, 0.1))
    solver = kp.Sparse(nugget=1e-10, radius=4.0, preconditioner_radius=4.0)
    before = kp.solve(example.problem, points_for(rows), linear_solver=solver)
    begun = time.perf_counter()
    found = kp.learn(
        example.problem,
        points_for(rows),
        method=kp.learning.Bilevel(
            optimizer=kp.learning.LevenbergMarquardt(steps=1),
            multistart=False,
            tolerance=0.0,
            final=kp.learning.FinalSolve(points_for(rows), linear_solver=solver),
        ),
        validation=kp.HeldOut(points={"equation": 1000, "boundary": 100}),
        linear_solver=solver,
        max_steps=10,
        throw=False,
        callback=lambda record: print(record.step, record.loss, record.theta, flush=True),
    )
    return {
        "rows": rows,
        "outer steps": len(found.history),
        "evaluations": found.factorizations,
        "seconds": time.perf_counter() - begun,
        "l2 before": example.errors(before)["u"]["l2"],
        "l2 after": example.errors(found.solution)["u"]["l2"],
        "lengthscale": float(found.problem.hyperparameters["u"]["lengthscale"]),
        "losses": [record.loss for record in found.history],
        "gigabytes": peak(),
    }


def inverse() -> dict[str, Any]:
    """Kernels from 5,000 observations, and a solution with them from 60,000."""
    few, many = darcy(observations=5_000), darcy(observations=60_000)
    begun = time.perf_counter()
    found = kp.learn(
        few.problem,
        {"equation": 4_000, "boundary": 400},
        method=kp.learning.Bilevel(tolerance=1e-2),
    )
    stages = [
        {
            "outer steps": len(found.history),
            "evaluations": found.factorizations,
            **judged(few, found.solution, begun),
        }
    ]
    begun = time.perf_counter()
    problem = many.problem.with_kernels(found.kernels)
    solver = kp.Automatic(nugget=1e-10, refinement=0)
    solution = kp.solve(problem, {"equation": 38_000, "boundary": 2_000}, linear_solver=solver)
    stages.append({"outer steps": 0, "evaluations": 0, **judged(many, solution, begun)})
    return {"stages": stages}


def judged(example: Example, solution: kp.Solution, begun: float) -> dict[str, Any]:
    """The error of a, and how many standard deviations it is."""
    seconds = time.perf_counter() - begun
    deviation = np.asarray(kp.posterior(solution)["a"].std(example.grid))
    missed = np.asarray(solution["a"](example.grid)) - example.references["a"](example.grid)
    return {
        "rows": sum(block.count for block in solution.blocks),
        "solver": solution.linear_solver,
        "seconds": seconds,
        "seconds for standard deviations": time.perf_counter() - begun - seconds,
        "relative error of a": example.errors(solution)["a"]["relative"],
        "part of a within two standard deviations": float(
            np.mean(np.abs(missed) < 1.96 * deviation)
        ),
        "gigabytes": peak(),
    }


def member(case: str, process: int, processes: int, rows: int) -> dict[str, Any]:
    """One of several processes that take a learning step together."""
    if processes > 1:
        jax.distributed.initialize("127.0.0.1:12356", processes, process)
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    kind = kp.Sparse if case == "sparse" else kp.LowRank
    loss, parameters = loss_of(example_for(case), rows, kind(nugget=1e-8, mesh=mesh))
    theta = jnp.asarray(parameters.vector)
    found, first, seconds = timed(loss_and_normal, theta, loss, repeats=3)
    return {
        "processes": processes,
        "rows": rows,
        "loss": float(found[0]),
        "gradient": float(found[1][0]),
        "seconds": seconds,
        "seconds with compilation": first,
    }


def together(case: str, rows: int) -> dict[str, Any]:
    """A learning step by one process on one core, and by two on one core each."""
    runs = {}
    for processes in (1, 2):
        started = [
            subprocess.Popen(
                [
                    *(("taskset", "-c", str(process)) if sys.platform == "linux" else ()),
                    sys.executable,
                    __file__,
                    "member",
                    case,
                    f"{process},{processes},{rows}",
                ],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | ONE_THREAD,
            )
            for process in range(processes)
        ]
        answers = [run.communicate()[0] for run in started]
        runs[processes] = json.loads(answers[0].splitlines()[-1])
    one, two = runs[1], runs[2]
    return {
        "runs": [one, two],
        "speed-up": one["seconds"] / two["seconds"],
        "relative difference of the loss": abs(two["loss"] / one["loss"] - 1.0),
        "relative difference of the gradient": abs(two["gradient"] / one["gradient"] - 1.0),
    }


def alone(*arguments: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    answer = subprocess.run(
        [sys.executable, str(Path(__file__)), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | (ONE_THREAD if "sparse" in arguments else {}),
    )
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    case, *rest = sys.argv[1:]
    if case == "one":
        print(json.dumps(solved(rest[0], int(rest[1]))))
    elif case == "one-step":
        print(json.dumps(stepped(rest[0], int(rest[1]))))
    elif case == "member":
        print(json.dumps(member(rest[0], *map(int, rest[1].split(",")))))
    elif case in SIZES:
        runs = []
        for rows in map(int, rest) if rest else SIZES[case]:
            runs.append(alone("one", case, str(rows)))
            ends = [runs[0], runs[-1]]
            slope = np.diff(np.log([r["seconds of a step, compiled"] for r in ends]))
            whole = np.diff(np.log([r["seconds"] for r in ends]))
            size = np.diff(np.log([r["rows"] for r in ends]))
            report: dict[str, Any] = {"runs": runs}
            if len(runs) > 1:
                report["exponent"] = float((whole / size)[0])
                report["exponent of a step"] = float((slope / size)[0])
            write(f"scaling-{case}", report)
    elif case == "dense":
        runs = [alone("one", "dense", str(rows)) for rows in (1_250, 2_500, 5_000, 10_000)]
        steps = [alone("one-step", "dense", str(rows)) for rows in (10_000, 20_000)]
        write("scaling-dense", {"runs": runs, "learning step": steps})
    elif case == "step":
        runs = {
            "low rank": alone("one-step", "low-rank", "100000"),
            "sparse": alone("one-step", "sparse", "4000"),
        }
        write("scaling-step", runs)
    elif case == "agreement":
        write("scaling-agreement", agreed(4_000))
    elif case == "learning":
        write("scaling-learning", learned(25_000))
    elif case == "processes":
        runs = {
            "low rank": together("low-rank", 100_000),
            "sparse": together("sparse", 25_000),
        }
        write("scaling-processes", runs)
    elif case == "darcy":
        write("scaling-darcy", inverse())
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
