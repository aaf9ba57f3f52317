"""One computation of the paper: solve or learn, and the errors that come of it."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from kernelpde.gallery import Example, elliptic, gray_scott
from kernelpde.gauss_newton import GaussNewton, Solution, solve
from kernelpde.learning import (
    Bilevel,
    FinalSolve,
    HeldOut,
    data_conditions,
    learn,
    paper_adam,
)
from kernelpde.linear_solvers import Dense
from kernelpde.problem import kernel_numbers, with_kernel_numbers

FRESH = 10_000
"""What is added to the seed for the points of the final solve."""

_SMALLER, _FEWER_STEPS = 3, 8
"""Factor by which a quick run has fewer points, and its maximum number of steps of learning;
problems with data are small as they are."""

Run: TypeAlias = dict[str, Any]
Factory: TypeAlias = Callable[[int], Example]


@dataclasses.dataclass(frozen=True)
class Computed:
    """What came of a case for one seed.

    **Attributes:**

    - `run`: the figures, to be kept.
    - `solution`: to be drawn.
    - `example`: with the references.
    """

    run: Run
    solution: Solution
    example: Example


Compute: TypeAlias = Callable[[int, bool, Mapping[str, list[Run]]], Computed]
"""A case for a seed, quick or not, given the runs of the cases before it."""


def counts(points: Mapping[str, int], quick: bool) -> dict[str, int]:
    """Numbers of points, fewer for a quick run."""
    if not quick:
        return dict(points)
    return {name: max(count // _SMALLER, min(count, 12)) for name, count in points.items()}


def learned(factory: Factory, sampling: str | None = None) -> Compute:
    """Learn with default settings, then solve at fresh points."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = factory(seed)
        data = bool(data_conditions(example.problem))
        fewer = quick and not data
        begun = time.perf_counter()
        found = learn(
            example.problem,
            counts(example.training, fewer),
            seed=seed,
            sampling=sampling or example.sampling,
            linear_solver=Dense(nugget=max(example.nugget, 1e-10), refinement=0),
            max_steps=_FEWER_STEPS if fewer else None,
            method=Bilevel(
                final=FinalSolve(
                    None if data else counts(example.points, quick),
                    seed + FRESH,
                    None if data else Dense(nugget=example.nugget),
                )
            ),
            throw=False,
        )
        facts = {
            "factorizations": found.factorizations,
            "steps": len(found.history),
            "stopped": found.result.name,
            "seconds": time.perf_counter() - begun,
        }
        return _computed(seed, example, found.solution, facts)

    return compute


def published_adam(start: float) -> Compute:
    """The published algorithm on the elliptic problem."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = elliptic(start)
        begun = time.perf_counter()
        found = learn(
            example.problem,
            counts(example.training, quick),
            seed=seed,
            sampling="uniform",
            validation=HeldOut(batch=200, weights={"boundary": 0.0}),
            method=Bilevel(
                optimizer=paper_adam(),
                solver=GaussNewton(),
                multistart=False,
                tolerance=0.0,
                final=FinalSolve(counts(example.points, quick), seed + FRESH),
            ),
            max_steps=_FEWER_STEPS if quick else 30,
            throw=False,
        )
        facts = {
            "factorizations": found.factorizations,
            "path": [record.hyperparameters["u"]["lengthscale"] for record in found.history],
            "stopped": found.result.name,
            "seconds": time.perf_counter() - begun,
        }
        return _computed(seed, example, found.solution, facts)

    return compute


def unlearned(factory: Factory, sampling: str | None = None) -> Compute:
    """Solve with the kernel as it begins."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        example = factory(seed)
        return _computed(seed, example, _solved(example, seed, quick, sampling), {})

    return compute


def with_lengthscale(lengthscale: float, interior: int, boundary: int) -> Compute:
    """The elliptic problem with a given number of points and lengthscale."""

    def compute(seed: int, quick: bool, _: Mapping[str, list[Run]]) -> Computed:
        points = {"equation": interior, "boundary": boundary}
        example = dataclasses.replace(elliptic(lengthscale), points=points)
        return _computed(seed, example, _solved(example, seed, quick, "uniform"), {})

    return compute


def reused(case: str, learned_by: str) -> Compute:
    """Another case of the Gray-Scott system with the kernels learned before."""

    def compute(seed: int, quick: bool, before: Mapping[str, list[Run]]) -> Computed:
        example = gray_scott(1.0, case)
        numbers = next(run["kernels"] for run in before[learned_by] if run["seed"] == seed)
        problem = with_kernel_numbers(example.problem, numbers)
        solution = _solved(example, seed, quick, "uniform", problem)
        return _computed(seed, example, solution, {})

    return compute


def _solved(
    example: Example, seed: int, quick: bool, sampling: str | None, problem=None
) -> Solution:
    data = bool(data_conditions(example.problem))
    return solve(
        example.problem if problem is None else problem,
        counts(example.points, quick and not data),
        seed=seed + (0 if data else FRESH),
        sampling=sampling or example.sampling,
        linear_solver=Dense(nugget=example.nugget, refinement=0 if data else 2),
        throw=False,
    )


def _computed(seed: int, example: Example, solution: Solution, facts: Run) -> Computed:
    run = {
        "seed": seed,
        "errors": example.errors(solution),
        "converged": solution.converged,
        "result": solution.result.name,
        "kernels": {
            name: np.asarray(leaf).tolist()
            for name, leaf in kernel_numbers(solution.problem).items()
        },
        **facts,
    }
    return Computed(run, solution, example)
