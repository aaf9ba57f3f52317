"""Points and lengthscales of the final solve."""

from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import to_array
from kernelpde.learning._collocation import Collocation, Iterate
from kernelpde.learning._starts import lengthscale_mask, theta_reference
from kernelpde.learning._theta_map import ThetaMap
from kernelpde.problem import PointSet, Problem, coordinate_extents
from kernelpde.results import RESULTS
from kernelpde.solution import Solution

_SHRINK_FACTOR, _ATTEMPTS = 1.4, 4
"""Divisor of unresolved lengthscales, and the maximum number of divisions."""

_ERROR = 0.05
"""Estimated error above which a solution with shortened lengthscales still counts as unresolved. In
a layer the error may be large although residuals at the points are at the level of rounding."""


def merge_points(
    collocation: Collocation, iterate: Iterate
) -> tuple[tuple[PointSet, ...], tuple[Array, ...]]:
    """Return training and validation points together, and the jet values of the iterate there."""
    points, validation_points = collocation.points, collocation.validation_points(iterate)
    if validation_points is None or iterate.validation is None:
        return points.train, iterate.train.jets
    point_sets, jets = [], []
    for train, validation, all_points, held_out, train_jets, validation_jets in zip(
        points.train,
        validation_points,
        points.all_points,
        points.held_out,
        iterate.train.jets,
        iterate.validation.jets,
        strict=True,
    ):
        if held_out is not None:
            # User-supplied points keep their order.
            train_rows = np.setdiff1d(np.arange(all_points.rows_per_equation), held_out)
            order = np.argsort(all_points.point_indices(np.concatenate([train_rows, held_out])))
            point_sets.append(all_points)
            jets.append(to_array(np.asarray(_concatenate(train_jets, validation_jets))[order]))
        elif np.array_equal(train.points, validation.points):
            point_sets.append(train)
            jets.append(train_jets)
        else:
            point_sets.append(jax.tree.map(_concatenate, train, validation))
            jets.append(_concatenate(train_jets, validation_jets))
    return tuple(point_sets), tuple(jets)


def _concatenate(first: Array, second: Array) -> Array:
    return to_array(np.concatenate([np.asarray(first), np.asarray(second)]))


def shorten_until_resolved(
    solution: Solution, solve_from: Callable[[Problem, Solution], Solution]
) -> Solution:
    """Shorten lengthscales until the conditions are satisfied at the collocation points.

    Learning uses a larger nugget and may lead to lengthscales that are too long for the final
    solve. Lengthscales are limited to the extent of the domain; frozen ones are not changed.

    **Arguments:**

    - `solve_from`: function that solves a problem at the same points, starting from a solution.
    """
    current = solution
    for _ in range(_ATTEMPTS):
        if current.result is not RESULTS.residual_too_large:
            break
        problem = current.problem
        theta_map = ThetaMap.of(problem.prior)
        mask = lengthscale_mask(theta_map) if theta_map.vector.size else np.zeros(0, dtype=bool)
        if not mask.any():
            break
        extents = coordinate_extents(current.point_sets, problem.space.periods)
        longest = np.where(mask, theta_reference(theta_map, extents), np.inf)
        theta = np.minimum(theta_map.vector, longest) - mask * np.log(_SHRINK_FACTOR)
        current = solve_from(problem.with_prior(theta_map.prior(to_array(theta))), current)
    if current is solution or not current.converged:
        return current
    errors = [error.rms for error in current.error_estimate.values()]
    if max(errors, default=np.inf) < _ERROR:
        return current
    return replace(current, result_code=solution.result_code)
