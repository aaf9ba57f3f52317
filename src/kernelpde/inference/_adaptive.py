"""Adaptive refinement of the collocation points of one condition."""

from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import TINY, Numbers
from kernelpde.checking import check_choice, check_instance, check_integer
from kernelpde.errors import InputError
from kernelpde.inference._conditioned import condition_on
from kernelpde.linear_solvers import LinearSolver
from kernelpde.problem import PointSet, Problem
from kernelpde.solution import Solution, check_linear_solver, check_problem, solve


def refine(
    problem: Problem,
    points: Mapping[str, int | Numbers],
    *,
    condition: str,
    target_count: int,
    rounds: int = 4,
    indicator: Literal["residual", "std"] = "residual",
    candidates: int = 2000,
    seed: int = 0,
    sampling: str = "halton",
    linear_solver: LinearSolver | None = None,
    throw: bool = True,
) -> Solution:
    """Solve repeatedly and add collocation points where the last solution is least accurate.

    Each round selects points from random candidates. The next point maximizes the product of the
    squared residual and its posterior variance given all points so far, including new ones. Points
    therefore concentrate where the residual is large and keep their distance. Wenzel, Santin and
    Haasdonk (2021) analyze such selections.

    **Arguments:**

    - `problem`: problem with its kernels.
    - `points`: initial points, as in `solve`.
    - `condition`: name of the refined condition. It must hold on a region, without normals or data.
    - `target_count`: final number of points of the condition.
    - `rounds`: number of rounds.
    - `indicator`: `"residual"`, or `"std"` to ignore the residual.
    - `candidates`: number of candidates in each round.
    - `seed`, `sampling`, `linear_solver`: as in `solve`.
    - `throw`: raise `SolveError` if the last solve does not converge.

    **Example:**

    ```python
    >>> finer = kp.refine(problem, points, condition="equation", target_count=50, rounds=2)
    >>> len(finer.point_sets[0].points)
    50
    ```
    """
    check_problem("refine", problem)
    check_instance("refine", "points", points, Mapping, "a dictionary such as {'equation': 100}")
    check_choice("refine", "indicator", indicator, ("residual", "std"))
    check_integer("refine", "target_count", target_count)
    check_integer("refine", "rounds", rounds, at_least=1)
    check_integer("refine", "candidates", candidates)
    check_linear_solver("refine", "linear_solver", linear_solver)
    index = problem.condition_index(condition)
    region = problem.conditions[index].region
    initial = points.get(condition)
    if initial is None or np.ndim(initial):
        raise InputError(f"refine: points[{condition!r}] must be the initial number of points.")
    count = check_integer("refine", f"points[{condition!r}]", initial, at_least=1)
    num_new = target_count - count
    if num_new < 1:
        raise InputError(
            f"refine: target_count must exceed the initial number of points, {count}; got "
            f"{target_count}."
        )
    if candidates < num_new:
        raise InputError(
            f"refine: {num_new} points cannot be selected from {candidates} candidates. Increase "
            "candidates."
        )
    point_sets = problem.collocate(points, seed=seed, sampling=sampling)
    rng = np.random.default_rng([seed, 17])
    for stage in range(rounds):
        solution = solve(problem, point_sets, linear_solver=linear_solver, throw=False)
        locations = region.sample(candidates, rng, "halton").points
        stage_count = count + num_new * (stage + 1) // rounds
        weights = np.ones(candidates)
        if indicator == "residual":
            residual = np.asarray(solution.residual(condition, locations))
            weights = np.linalg.norm(residual, axis=1) ** 2
        pivots = _pivoted_cholesky(
            _residual_covariance(solution, condition, locations),
            weights,
            stage_count - point_sets[index].rows_per_equation,
        )
        point_sets = (
            *point_sets[:index],
            _append_points(point_sets[index], locations[pivots]),
            *point_sets[index + 1 :],
        )
    return solve(problem, point_sets, linear_solver=linear_solver, throw=throw)


def _residual_covariance(solution: Solution, condition: str, points: np.ndarray) -> np.ndarray:
    """Return the posterior covariance of the residual at points, summed over its equations."""
    gp = condition_on(solution)
    batches = gp.residual_functionals(condition, points)
    return np.sum([np.asarray(gp.covariance(batch)) for batch in batches], axis=0)


def _pivoted_cholesky(
    covariance: Float[np.ndarray, "n n"], weights: Float[np.ndarray, " n"], count: int
) -> list[int]:
    """Return pivots of a Cholesky factorization by the largest weighted conditional variance."""
    variance = np.diagonal(covariance).copy()
    factor = np.zeros((len(variance), count))
    pivots: list[int] = []
    for step in range(count):
        score = weights * variance
        score[pivots] = -np.inf
        best = int(np.argmax(score))
        column = covariance[:, best] - factor[:, :step] @ factor[best, :step]
        factor[:, step] = column / np.sqrt(max(variance[best], TINY))
        variance = np.maximum(variance - factor[:, step] ** 2, 0.0)
        pivots.append(best)
    return pivots


def _append_points(point_set: PointSet, points: np.ndarray) -> PointSet:
    """Append points to the point set of a condition without normals and data."""
    if point_set.normals is not None or point_set.data:
        raise InputError("refine: points cannot be added to a condition with normals or data.")
    noise = jnp.concatenate([point_set.noise, jnp.full(len(points), point_set.noise[0])])
    return PointSet(jnp.concatenate([point_set.points, jnp.asarray(points)]), None, {}, noise)
