"""Computations of the paper: solve or learn, and compare with the reference."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from kernelpde.gallery import Example, elliptic, gray_scott
from kernelpde.learning import (
    Bilevel,
    FinalSolve,
    HeldOut,
    data_conditions,
    learn,
    paper_adam,
)
from kernelpde.linear_solvers import Dense
from kernelpde.nonlinear import GaussNewton
from kernelpde.problem import kernel_arrays, with_kernel_arrays
from kernelpde.solution import Solution, solve

_FINAL_SEED_OFFSET = 10_000
"""Offset of the seed for the final solve, which uses new points."""

_QUICK_REDUCTION, _QUICK_STEPS = 3, 8
"""Divisor of the numbers of points, and maximum number of learning steps, in a quick run. Problems
with data are small and not reduced."""

Run: TypeAlias = dict[str, Any]
Factory: TypeAlias = Callable[[int], Example]


@dataclasses.dataclass(frozen=True)
class Computed:
    """Result of a case for one seed.

    **Attributes:**

    - `run`: figures, stored in the results file.
    - `solution`: solution, for plots.
    - `example`: problem with its references.
    """

    run: Run
    solution: Solution
    example: Example


Compute: TypeAlias = Callable[[int, bool, Mapping[str, list[Run]]], Computed]
"""Function that computes a case from a seed, a flag for a quick run, and all previous runs."""


def _counts(points: Mapping[str, int], quick: bool) -> dict[str, int]:
    """Return numbers of points, reduced for a quick run."""
    if not quick:
        return dict(points)
    return {name: max(count // _QUICK_REDUCTION, min(count, 12)) for name, count in points.items()}


def learned(factory: Factory, sampling: str | None = None) -> Compute:
    """Learn with default settings, then solve at new points."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = factory(seed)
        has_data = bool(data_conditions(example.problem))
        reduced = quick and not has_data
        start_time = time.perf_counter()
        result = learn(
            example.problem,
            _counts(example.training, reduced),
            seed=seed,
            sampling=sampling or example.sampling,
            linear_solver=Dense(nugget=max(example.nugget, 1e-10), refinement_sweeps=0),
            max_steps=_QUICK_STEPS if reduced else None,
            method=Bilevel(
                final=FinalSolve(
                    None if has_data else _counts(example.points, quick),
                    seed + _FINAL_SEED_OFFSET,
                    None if has_data else Dense(nugget=example.nugget),
                )
            ),
            throw=False,
        )
        facts = {
            "factorizations": result.factorizations,
            "steps": len(result.history),
            "stopped": result.result.name,
            "seconds": time.perf_counter() - start_time,
        }
        return _collect(seed, example, result.solution, facts)

    return compute


def published_adam(start: float) -> Compute:
    """Learn the elliptic problem by the published algorithm."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = elliptic(start)
        start_time = time.perf_counter()
        result = learn(
            example.problem,
            _counts(example.training, quick),
            seed=seed,
            sampling="uniform",
            validation=HeldOut(batch_size=200, weights={"boundary": 0.0}),
            method=Bilevel(
                optimizer=paper_adam(),
                solver=GaussNewton(),
                multistart=False,
                tolerance=0.0,
                final=FinalSolve(_counts(example.points, quick), seed + _FINAL_SEED_OFFSET),
            ),
            max_steps=_QUICK_STEPS if quick else 30,
            throw=False,
        )
        facts = {
            "factorizations": result.factorizations,
            "path": [record.hyperparameters["u"]["lengthscale"] for record in result.history],
            "stopped": result.result.name,
            "seconds": time.perf_counter() - start_time,
        }
        return _collect(seed, example, result.solution, facts)

    return compute


def unlearned(factory: Factory, sampling: str | None = None) -> Compute:
    """Solve with the initial kernel."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = factory(seed)
        return _collect(seed, example, _solve(example, seed, quick, sampling), {})

    return compute


def with_lengthscale(lengthscale: float, interior: int, boundary: int) -> Compute:
    """Solve the elliptic problem with given numbers of points and lengthscale."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        points = {"equation": interior, "boundary": boundary}
        example = dataclasses.replace(elliptic(lengthscale), points=points)
        return _collect(seed, example, _solve(example, seed, quick, "uniform"), {})

    return compute


def reused(case: str, source: str) -> Compute:
    """Solve another case of the Gray-Scott system with the kernels learned in case `source`."""

    def compute(seed: int, quick: bool, runs: Mapping[str, list[Run]]) -> Computed:
        example = gray_scott(1.0, case)
        arrays = next(run["kernels"] for run in runs[source] if run["seed"] == seed)
        problem = with_kernel_arrays(example.problem, arrays)
        solution = _solve(example, seed, quick, "uniform", problem)
        return _collect(seed, example, solution, {})

    return compute


def _solve(
    example: Example, seed: int, quick: bool, sampling: str | None, problem=None
) -> Solution:
    has_data = bool(data_conditions(example.problem))
    return solve(
        example.problem if problem is None else problem,
        _counts(example.points, quick and not has_data),
        seed=seed + (0 if has_data else _FINAL_SEED_OFFSET),
        sampling=sampling or example.sampling,
        linear_solver=Dense(nugget=example.nugget, refinement_sweeps=0 if has_data else 2),
        throw=False,
    )


def _collect(seed: int, example: Example, solution: Solution, facts: Run) -> Computed:
    run = {
        "seed": seed,
        "errors": example.errors(solution),
        "converged": solution.converged,
        "result": solution.result.name,
        "kernels": {
            name: np.asarray(leaf).tolist()
            for name, leaf in kernel_arrays(solution.problem).items()
        },
        **facts,
    }
    return Computed(run, solution, example)
