"""Problems of the gallery at full size: relative errors and CPU time.

For each problem `kp.learn(problem, points)` without options, or `kp.march(problem, windows,
points)` if its page gives windows. Relative errors of all fields at 1500 points inside, CPU seconds
with everything compiled, and those of one Cholesky factorization of the final matrix on the same
core:

    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python -m benchmarks gallery
"""

import time
from typing import Any

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks._timing import cholesky, cpu_seconds
from kernelpde.gallery import EXAMPLES, Example, page_summaries


def run(example: Example, seed: int) -> tuple[dict[str, Any], kp.Solution]:
    """Learn and solve one problem; return the figures and the last solution."""
    start = time.process_time()
    if example.num_windows > 1:
        evolution = kp.march(
            example.problem, example.num_windows, example.points, seed=seed, throw=False
        )
        solution, solved, solutions = evolution.solutions[-1], evolution, evolution.solutions
        factorizations = sum(window.num_steps for window in solutions)
    else:
        learned = kp.learn(
            example.problem, example.points, seed=seed, sampling=example.sampling, throw=False
        )
        solution = solved = learned.solution
        solutions, factorizations = [solution], learned.factorizations
    errors = example.errors(solved)
    figures = {
        **{f"{field} relative": sizes["relative"] for field, sizes in errors.items()},
        "result": ", ".join(sorted({window.result.name for window in solutions})),
        "converged": solved.converged,
        "CPU seconds": time.process_time() - start,
        "factorizations": factorizations,
    }
    return figures, solution


def measure(name: str, numbers: range) -> None:
    """Record all seeds of one problem."""
    example = EXAMPLES[name]()
    # The first run is mostly the time of the compiler, so that its seed is run again.
    first, solution = run(example, numbers[0])
    rows = solution.problem.at_points(solution.point_sets).num_rows
    factor = cholesky(rows)
    once = {
        "CPU seconds with compilation": first["CPU seconds"],
        "CPU seconds of one Cholesky": max(min(cpu_seconds(factor) for _ in range(3)), 1e-6),
    }
    for seed in numbers:
        line = {"case": name, "seed": seed, "rows": rows, **run(example, seed)[0]}
        if example.num_windows > 1:
            line["windows"] = example.num_windows
        record("gallery", line | (once if seed == numbers[0] else {}))


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("names", nargs="*", help="problems; all if none is named")
    command.add_argument("--seeds", type=seeds, default="0:3")
    options = command.parse_args(arguments)
    for name in options.names or page_summaries():
        measure(name, options.seeds)
