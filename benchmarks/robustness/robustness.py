"""Learning on random problems with known solutions, also in other units.

    python -m benchmarks robustness problems [--names box2,heat] [--seeds 0:14]
    python -m benchmarks robustness units [--count 100]

`problems`: 17 kinds of forward problems with random scales, frequencies, point sets and starts:
the error with learned kernels, with the initial kernel, and with the best of eight lengthscales at
the same points. Limits of the library were chosen on seeds 0 to 13.

`units`: coordinates and fields multiplied by independent factors between 1e-9 and 1e9 (one for all
coordinates where a ball is part of the domain), kernels with a lengthscale for each coordinate:
relative errors and result codes in three systems of units.
"""

import time
from typing import Any

import numpy as np

import kernelpde as kp
from benchmarks._report import Line, column, parser, record, seeds
from benchmarks.robustness._problems import NAMES
from benchmarks.robustness._problems import problem as random_problem

EIGHT = np.geomspace(0.04, 1.5, 8)
"""Lengthscales relative to the domain, the best of which learning is compared with."""


def largest(between: dict[str, Any]) -> float | None:
    """Return the largest relative residual at test points."""
    return max((float(value) for value in between.values() if value is not None), default=None)


def learned(name: str, seed: int) -> Line:
    """Learn one problem and compare."""
    case, start, sampling = random_problem(name, seed)
    begin = time.perf_counter()
    problem = case.problem(start)
    result = kp.learn(problem, case.points, sampling=sampling, seed=seed, throw=False)
    seconds = time.perf_counter() - begin
    solution = result.solution
    errors = []
    for fraction in EIGHT:
        kernels = [kp.Gaussian(k) for k in case.lengthscales([fraction] * len(case.exact))]
        errors.append(
            case.error(kp.solve(problem.with_kernels(kernels), solution.point_sets, throw=False))
        )
    return {
        "case": name,
        "seed": seed,
        "study": "problems",
        "learning": result.result.name,
        "result": solution.result.name,
        "converged": result.converged,
        "error": case.error(solution),
        "between": largest(solution.test_residuals),
        "start": case.error(kp.solve(problem, solution.point_sets, throw=False)),
        "best": np.nanmin(errors),
        "factorizations": result.factorizations,
        "seconds": seconds,
    }


def in_units(name: str, seed: int, systems: int = 3) -> list[Line]:
    """Return results and errors of one problem in several systems of units."""
    case, start, sampling = random_problem(name, seed)
    start = [np.broadcast_to(np.asarray(k), case.extents.shape) for k in start]
    rng, rows = np.random.default_rng([seed, 31]), []
    for _ in range(systems):
        scales = np.exp(rng.uniform(np.log(1e-9), np.log(1e9), len(case.extents)))
        sizes = np.exp(rng.uniform(np.log(1e-9), np.log(1e9), len(case.exact)))
        if case.one_scale or name == "robin2":
            # Normals of a square do not change only if both sides are stretched alike.
            scales = np.full_like(scales, scales[0])
        problem = case.problem([k * scales for k in start], scales, sizes)
        learned = kp.learn(problem, case.points, sampling=sampling, seed=seed, throw=False)
        rows.append(
            {
                "result": f"{learned.result.name}, {learned.solution.result.name}",
                "error": case.error(learned.solution, scales, sizes),
            }
        )
    return rows


def agreement(name: str, seed: int) -> Line:
    """Compare the systems of units of one problem."""
    rows = in_units(name, seed)
    errors = column(rows, "error")
    return {
        "case": f"units: {name}",
        "seed": seed,
        "study": "units",
        "systems": len(rows),
        "smallest error": min(errors),
        "largest error": max(errors),
        "results": sorted(set(column(rows, "result"))),
    }


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("study", choices=("problems", "units"))
    command.add_argument("--names", default=",".join(NAMES))
    command.add_argument("--seeds", type=seeds, default="0:14")
    command.add_argument("--count", type=int, default=100)
    options = command.parse_args(arguments)
    names = options.names.split(",")
    if options.study == "problems":
        for name in names:
            for seed in options.seeds:
                record("robustness", learned(name, seed))
        return
    # Kind by kind, so that programs are compiled once for each.
    pairs = [(name, seed) for seed in range(100, 200) for name in names]
    for name, seed in sorted(pairs[: options.count], key=lambda pair: names.index(pair[0])):
        record("robustness", agreement(name, seed))
