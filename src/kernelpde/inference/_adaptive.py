"""Collocation points where they are needed."""

from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import Numbers
from kernelpde.checking import instance, one_of, whole_number
from kernelpde.deprecation import adapted, warn_moved
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Solution, check_linear_solver, check_problem, earlier, solve
from kernelpde.inference._conditioned import Conditioned, conditioned
from kernelpde.linear_solvers import LinearSolver
from kernelpde.problem import Collocation, Problem


@adapted(earlier)
def refine(
    problem: Problem,
    points: Mapping[str, int | Numbers],
    *,
    condition: str,
    to: int,
    rounds: int = 4,
    by: Literal["residual", "std", "deviation"] = "residual",
    candidates: int = 2000,
    seed: int = 0,
    sampling: str = "halton",
    linear_solver: LinearSolver | None = None,
    throw: bool = True,
) -> Solution:
    """Solve with points added round by round where the last solution was worst.

    In each round points are taken one by one from many candidates, always the one with the largest
    product of the residual's size and its posterior standard deviation given the points so far, the
    new ones included; so they gather where the residual is large and still keep apart (Wenzel,
    Santin and Haasdonk 2021 analyze such choices).

    **Arguments:**

    - `problem`: with its kernels.
    - `points`: to begin with, as in `solve`.
    - `condition`: whose points are added. It must hold on a region to draw from, without normals.
    - `to`: how many points it has in the end.
    - `rounds`: in how many rounds they are added.
    - `by`: `"std"` leaves the size of the residual out.
    - `candidates`: places to choose from in each round.
    - `seed`, `sampling`, `linear_solver`: as in `solve`.
    - `throw`: raise `SolveError` if the last solve does not converge.

    **Example:**

    ```python
    >>> finer = kp.refine(problem, points, condition="equation", to=50, rounds=2)
    >>> len(finer.blocks[0].points)
    50
    ```
    """
    check_problem("refine", problem)
    instance("refine", "points", points, Mapping, "a dictionary such as {'equation': 100}")
    if by == "deviation":
        warn_moved('refine(by="deviation")', 'refine(by="std")')
        by = "std"
    one_of("refine", "by", by, ("residual", "std"))
    for name, count in (("to", to), ("rounds", rounds), ("candidates", candidates)):
        whole_number("refine", name, count)
    check_linear_solver("refine", "linear_solver", linear_solver)
    number = problem.condition_index(condition)
    region = problem.conditions[number].region
    begun = points.get(condition)
    if begun is None or np.ndim(begun):
        raise InputError(f"refine: expected a number of points for {condition!r} to begin with.")
    count = whole_number("refine", f"points[{condition!r}]", begun, at_least=1)
    if candidates < to - count:
        raise InputError(
            f"refine: {to - count} points cannot be taken from {candidates} candidates. Ask for "
            "more candidates."
        )
    if to <= count or rounds < 1:
        raise InputError(f"refine: nothing to add, from {count} to {to} points in {rounds} rounds.")
    blocks = problem.collocate(points, seed=seed, sampling=sampling)
    rng = np.random.default_rng([seed, 17])
    for stage in range(rounds):
        solution = solve(problem, blocks, linear_solver=linear_solver, throw=False)
        places = region.sample(candidates, rng, "halton").points
        wanted = (to - count) * (stage + 1) // rounds + count - blocks[number].count
        covariance = _covariance(conditioned(solution), condition, places)
        weights = np.ones(candidates)
        if by == "residual":
            sizes = np.asarray(solution.residual(condition, places))
            weights = np.linalg.norm(sizes, axis=1) ** 2
        chosen = _greedy(covariance, weights, wanted)
        blocks = tuple(
            _with(block, places[chosen]) if k == number else block for k, block in enumerate(blocks)
        )
    return solve(problem, blocks, linear_solver=linear_solver, throw=throw)


def _covariance(known: Conditioned, condition: str, places: np.ndarray) -> np.ndarray:
    """Of the residual between places, summed over its equations."""
    batches = known.residual_functionals(condition, places)
    return np.sum([np.asarray(known.covariance(batch)) for batch in batches], axis=0)


def _greedy(
    covariance: Float[np.ndarray, "n n"], weights: Float[np.ndarray, " n"], count: int
) -> list[int]:
    """Pivots of a Cholesky factorization, each with the largest weighted variance that is left."""
    left = np.diagonal(covariance).copy()
    factor = np.zeros((len(left), count))
    chosen: list[int] = []
    for step in range(count):
        score = weights * left
        score[chosen] = -np.inf
        best = int(np.argmax(score))
        column = covariance[:, best] - factor[:, :step] @ factor[best, :step]
        factor[:, step] = column / np.sqrt(max(left[best], 1e-300))
        left = np.maximum(left - factor[:, step] ** 2, 0.0)
        chosen.append(best)
    return chosen


def _with(block: Collocation, places: np.ndarray) -> Collocation:
    """A block with more points, for a condition without normals and data."""
    if block.normals is not None or block.data:
        raise InputError("refine: points cannot be added to a condition with normals or data.")
    noise = jnp.concatenate([block.noise, jnp.full(len(places), block.noise[0])])
    return Collocation(jnp.concatenate([block.points, jnp.asarray(places)]), None, {}, noise)
