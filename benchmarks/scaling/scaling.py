"""Time, memory and error over the number of rows, and the speed-up of a second process.

    python -m benchmarks scaling dense|low-rank|sparse|agreement|step|learning|darcy|processes

Every size runs in a process of its own, whose peak memory is read.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import kernelpde as kp
from benchmarks._report import ROOT, parser, record
from benchmarks._timing import in_process
from kernelpde.bilevel import Objective, loss_and_curvature, loss_and_solution
from kernelpde.gallery import Example, darcy, elliptic
from kernelpde.learning import CollocationResidual, LinearizedCollocation, ThetaMap
from kernelpde.linear_solvers import choose_solver

SIZES = {
    "dense": (1_250, 2_500, 5_000, 10_000),
    "low-rank": (10_000, 100_000, 1_000_000),
    "sparse": (6_500, 25_000, 100_000, 250_000),
}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""For many small matrices: threads of BLAS would only wait for each other."""

TITLES = {"dense": "dense", "low-rank": "low rank", "sparse": "sparse"}

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
        "steps": solution.num_steps,
        "step seconds": statistics.median(record.seconds for record in solution.history[1:]),
        "chosen": solution.linear_solver_message,
    }


def agreement(rows: int) -> None:
    """Record differences from the dense solution at the same points with the same nugget."""
    for case, solver in (("low-rank", kp.LowRank()), ("sparse", kp.Sparse())):
        example = example_for(case)
        dense = kp.solve(example.problem, points_for(rows), linear_solver=kp.Dense(solver.nugget))
        other = kp.solve(example.problem, points_for(rows), linear_solver=solver)
        apart = np.asarray(other["u"](example.grid)) - np.asarray(dense["u"](example.grid))
        record(
            "scaling",
            {
                "case": f"agreement: {TITLES[case]}",
                "rows": rows,
                "rms difference": np.sqrt(np.mean(apart**2)),
                "l2": example.errors(other)["u"]["l2"],
                "l2 dense": example.errors(dense)["u"]["l2"],
            },
        )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def loss_of(
    example: Example, rows: int, solver: Any
) -> tuple[Objective[LinearizedCollocation], Any]:
    """The outer loss near the solution, with a thousand validation points."""
    problem = example.problem

    def at(points: dict[str, int], seed: int):
        blocks = problem.collocate(points, seed=seed)
        exact = 0.99 * example.references["u"](np.asarray(blocks[0].points))
        nothing = jnp.zeros((len(blocks[1].points), 0))
        entries = (jnp.asarray(exact)[:, None], nothing)
        return blocks, problem.at_points(blocks).linearize(entries)

    blocks, training = at(points_for(rows), 0)
    others, validation = at({"equation": 1000, "boundary": 100}, 1)
    plan = choose_solver(solver, problem.at_points(blocks), learning=True).solver_state
    weights = jnp.asarray(np.r_[np.full(1000, 1e-2), np.ones(100)])
    parameters = ThetaMap.of(problem.prior)
    near = plan.neighbors(problem.at_points(others).conditions)
    linearized = LinearizedCollocation(
        parameters, training, validation, weights, plan, neighbor_groups=near
    )
    return Objective(CollocationResidual(), linearized), parameters


def timed(function, *arguments, repeats: int = 1) -> tuple[Any, float, float]:
    """What a function gives, and its seconds with and without compilation, the least of some."""
    value, times = None, []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        value = jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begun)
    return value, times[0], min(times[1:])


def stepped(case: str, rows: int) -> dict[str, Any]:
    """Loss, gradient and curvature at one size, and the gradient by differences."""
    solver = (
        kp.Sparse(nugget=1e-10, tolerance=1e-10)
        if case == "sparse"
        else kp.Dense(nugget=1e-10, refinement_sweeps=0)
        if case == "dense"
        else kp.LowRank(nugget=1e-10)
    )
    loss, parameters = loss_of(example_for(case), rows, solver)
    theta = jnp.asarray(parameters.vector)
    loss_terms, first, seconds = timed(loss_and_curvature, theta, loss)
    report = {
        "rows": rows,
        "loss": float(loss_terms[0]),
        "gradient": float(loss_terms[1][0]),
        "seconds": seconds,
        "seconds of the first call": first,
        "gigabytes": peak(),
    }
    if case == "sparse":
        step = 1e-3
        ends = [float(loss_and_solution(theta + h, loss)[0]) for h in (step, -step)]
        report["by differences"] = (ends[0] - ends[1]) / (2 * step)
    if case == "dense" and rows <= _SCIPY:
        del loss, loss_terms
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
    result = kp.learn(
        example.problem,
        points_for(rows),
        method=kp.learning.Bilevel(
            optimizer=kp.learning.LevenbergMarquardt(max_steps=1),
            multistart=False,
            tolerance=0.0,
            final=kp.learning.FinalSolve(points_for(rows), linear_solver=solver),
        ),
        validation=kp.HeldOut(points={"equation": 1000, "boundary": 100}),
        linear_solver=solver,
        max_steps=10,
        throw=False,
    )
    return {
        "rows": rows,
        "outer steps": len(result.history),
        "evaluations": result.factorizations,
        "seconds": time.perf_counter() - begun,
        "l2 before": example.errors(before)["u"]["l2"],
        "l2 after": example.errors(result.solution)["u"]["l2"],
        "lengthscale": float(result.problem.hyperparameters["u"]["lengthscale"]),
        "gigabytes": peak(),
    }


def inverse() -> None:
    """Record kernels learned from 5,000 observations, and a solution with them from 60,000."""
    few, many = darcy(observations=5_000), darcy(observations=60_000)
    begun = time.perf_counter()
    learned = kp.learn(
        few.problem,
        {"equation": 4_000, "boundary": 400},
        method=kp.learning.Bilevel(tolerance=1e-2),
    )
    record(
        "scaling",
        {
            "case": "darcy: learned",
            "outer steps": len(learned.history),
            "evaluations": learned.factorizations,
            **judged(few, learned.solution, begun),
        },
    )
    begun = time.perf_counter()
    problem = many.problem.with_kernels(learned.kernels)
    solver = kp.Automatic(nugget=1e-10, refinement_sweeps=0)
    solution = kp.solve(problem, {"equation": 38_000, "boundary": 2_000}, linear_solver=solver)
    line = {"case": "darcy: solved", "outer steps": 0, "evaluations": 0}
    record("scaling", line | judged(many, solution, begun))


def judged(example: Example, solution: kp.Solution, begun: float) -> dict[str, Any]:
    """The error of a, and how many standard deviations it is."""
    seconds = time.perf_counter() - begun
    deviation = np.asarray(kp.posterior(solution)["a"].std(example.grid))
    missed = np.asarray(solution["a"](example.grid)) - example.references["a"](example.grid)
    return {
        "rows": sum(block.rows_per_equation for block in solution.point_sets),
        "chosen": solution.linear_solver_message,
        "seconds": seconds,
        "seconds for standard deviations": time.perf_counter() - begun - seconds,
        "relative error of a": example.errors(solution)["a"]["relative"],
        "share of a within two standard deviations": np.mean(np.abs(missed) < 1.96 * deviation),
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
    loss_terms, first, seconds = timed(loss_and_curvature, theta, loss, repeats=3)
    return {
        "processes": processes,
        "rows": rows,
        "loss": float(loss_terms[0]),
        "gradient": float(loss_terms[1][0]),
        "seconds": seconds,
        "seconds of the first call": first,
    }


def together(case: str, rows: int) -> None:
    """Record a learning step by one process on one core, and by two on one core each."""
    for processes in (1, 2):
        started = [
            subprocess.Popen(
                [
                    *(("taskset", "-c", str(process)) if sys.platform == "linux" else ()),
                    *(sys.executable, "-m", "benchmarks", "scaling", "member"),
                    *(case, f"{process},{processes},{rows}"),
                ],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=os.environ | ONE_THREAD,
            )
            for process in range(processes)
        ]
        answers = [run.communicate()[0] for run in started]
        figures = json.loads(answers[0].splitlines()[-1])
        title = TITLES[case]
        record("scaling", {"case": f"processes: {title}, {processes}", "solver": title, **figures})


def alone(*arguments: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    environment = ONE_THREAD if "sparse" in arguments else {}
    return in_process(["-m", "benchmarks", "scaling", *arguments], environment=environment)


def step(case: str, rows: int) -> None:
    """Record a learning step."""
    name = f"learning step: {TITLES[case]}, {rows:,} rows"
    record("scaling", {"case": name, **alone("one-step", case, str(rows))})


PRINTED = {"one": solved, "one-step": stepped}
"""What the processes of `alone` compute."""


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("case")
    command.add_argument("arguments", nargs="*", help="numbers of rows")
    options = command.parse_args(arguments)
    case, rest = options.case, options.arguments
    if case in PRINTED:
        print(json.dumps(PRINTED[case](rest[0], int(rest[1]))))
    elif case == "member":
        print(json.dumps(member(rest[0], *map(int, rest[1].split(",")))))
    elif case in SIZES:
        for rows in map(int, rest) if rest else SIZES[case]:
            line = {"case": f"{TITLES[case]}, {rows:,} rows", "solver": TITLES[case]}
            record("scaling", line | alone("one", case, str(rows)))
        if case == "dense":
            step("dense", 10_000)
            step("dense", 20_000)
    elif case == "step":
        step("low-rank", 100_000)
        step("sparse", 4_000)
    elif case == "agreement":
        agreement(4_000)
    elif case == "learning":
        record("scaling", {"case": "learning: sparse", **learned(25_000)})
    elif case == "processes":
        together("low-rank", 100_000)
        together("sparse", 25_000)
    elif case == "darcy":
        inverse()
    else:
        command.error(f"there is no case {case!r}")
