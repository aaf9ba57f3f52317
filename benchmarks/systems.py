"""Systems in space-time: learning on the Schrodinger equation and the Gray-Scott system.

    python benchmarks/systems.py schrodinger|gray-scott|windows

writes `results/systems-NAME.json`, anew after every run. Final solves are at fresh points, with the
paper's numbers of points. Times are also given in Cholesky factorizations of the same size.
`windows` goes on to t = 4 with the kernels of the first run of `schrodinger`.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import scipy.linalg
from _report import RESULTS, Run, measure, seconds, write

import kernelpde as kp
from kernelpde.gallery import Example, gray_scott, product_grid, schrodinger

FRESH = 10_000
SAMPLING = "halton"


def cholesky_seconds(size: int) -> float:
    """Median time of one LAPACK factorization."""
    random = np.random.default_rng(0).standard_normal((size, size))
    matrix = random @ random.T + size * np.eye(size)
    return statistics.median(
        seconds(lambda: scipy.linalg.cholesky(matrix, lower=True, check_finite=False))
        for _ in range(5)
    )


def unlearned(example: Example, seed: int, sampling: str = SAMPLING) -> dict[str, Any]:
    """A solve with the kernel as it is."""
    solution = kp.solve(
        example.problem,
        example.points,
        seed=seed + FRESH,
        sampling=sampling,
        throw=False,
        max_steps=30,
    )
    return {"seed": seed, "errors": example.errors(solution), "converged": solution.converged}


def learned(example: Example, seed: int, sampling: str = SAMPLING) -> tuple[Any, dict[str, Any]]:
    """Learning, and the final solve."""
    started, ended = time.perf_counter(), []

    def note(record: kp.LearningRecord) -> None:
        ended.append(record.seconds)

    result = kp.learn(
        example.problem,
        example.training,
        method=kp.learning.Bilevel(final=kp.learning.FinalSolve(example.points, seed=seed + FRESH)),
        seed=seed,
        sampling=sampling,
        throw=False,
        callback=note,
    )
    rows = sum(
        example.training[c.name] * len(r.components)
        for c, r in zip(example.problem.conditions, example.problem.residuals, strict=True)
    )
    factor = cholesky_seconds(rows)
    return result, {
        "seed": seed,
        "errors": example.errors(result.solution),
        "hyperparameters": {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in result.problem.hyperparameters.items()
        },
        "factorizations": result.factorizations,
        "result": result.result.name,
        "solution": result.solution.result.name,
        "learning_seconds": ended[-1],
        "learning_in_choleskys": ended[-1] / factor,
        "cholesky_seconds": factor,
        "seconds": time.perf_counter() - started,
    }


def schrodinger_cases() -> Iterator[tuple[str, Run]]:
    for start in (1.0, 0.5, 0.2):
        yield f"from {start}", lambda seed, start=start: learned(schrodinger(start), seed)[1]
    for start in (1.0, 0.5, 0.2):
        yield f"unlearned {start}", lambda seed, start=start: unlearned(schrodinger(start), seed)


def gray_scott_cases() -> Iterator[tuple[str, Run]]:
    kernels = {}

    def learn(seed: int) -> dict[str, Any]:
        result, report = learned(gray_scott(1.0), seed, "uniform")
        kernels[seed] = result.kernels
        return report

    def reuse(seed: int, case: str) -> dict[str, Any]:
        example = gray_scott(1.0, case)
        problem = example.problem.with_kernels(kernels[seed])
        solution = kp.solve(
            problem, example.points, seed=seed + FRESH, sampling="uniform", throw=False
        )
        return {"seed": seed, "errors": example.errors(solution), "converged": solution.converged}

    cases = ("gray-scott-a", "gray-scott-b", "gray-scott-c")
    yield "from 1.0", learn
    for case in cases:
        yield f"reuse {case}", lambda seed, case=case: reuse(seed, case)
    for case in ("gray-scott", *cases):
        yield (
            f"unlearned {case}",
            lambda seed, case=case: unlearned(gray_scott(1.0, case), seed, "uniform"),
        )


def windows(count: int = 16) -> dict[str, Any]:
    """The Schrodinger equation to t = 4: error and cost of each window."""
    stored = json.loads((RESULTS / "systems-schrodinger.json").read_text())
    found = stored["cases"]["from 1.0"]["runs"][0]["hyperparameters"]
    kernels = [kp.Gaussian(v["kernel.lengthscale"]) for v in found.values()]
    example = schrodinger(1.0, duration=4.0)
    points = {"equation": 1200, "initial": 256}
    evolution = kp.march(example.problem.with_kernels(kernels), count, points, throw=False)
    grid = product_grid(np.linspace(0, 4, 321), np.linspace(-5, 5, 128, endpoint=False))
    truth = example.references["h"](grid)
    values = np.asarray(evolution["h"](grid))
    each = []
    for number, (begin, end) in enumerate(pairwise(evolution.times)):
        here = (grid[:, 0] >= begin) & (grid[:, 0] <= end)
        size = np.abs(values[here]) - np.abs(truth[here])
        each.append(
            {
                "until": float(end),
                "l2 of abs(h)": float(np.sqrt(np.mean(size**2))),
                "l2 of h": float(np.sqrt(np.mean(np.abs(values - truth)[here] ** 2))),
                "steps": evolution.solutions[number].steps,
                "result": evolution.solutions[number].result.name,
                "seconds": evolution.seconds[number],
            }
        )
    return {"hyperparameters": found, "points in each window": points, "windows": each}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"median {norm} of {field}": statistics.median(r["errors"][field][norm] for r in runs)
        for field in runs[0]["errors"]
        for norm in ("l2", "linf")
    }
    for name in ("factorizations", "learning_in_choleskys", "learning_seconds"):
        if name in runs[0]:
            found[f"most {name}"] = max(r[name] for r in runs)
    return found


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parts = {"schrodinger": schrodinger_cases, "gray-scott": gray_scott_cases}
    if sys.argv[1:] == ["windows"]:
        write("systems-windows", windows())
        return
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(f"usage: python benchmarks/systems.py {'|'.join(parts)}|windows")
    measure(f"systems-{sys.argv[1]}", dict(parts[sys.argv[1]]()), summary)


if __name__ == "__main__":
    main()
