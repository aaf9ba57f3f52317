"""Integration of a posterior over the hyperparameters by a central composite design."""

import numpy as np
from jaxtyping import Float

from kernelpde.errors import SolveError
from kernelpde.inference._conditioned import ConditionedGP, condition_on
from kernelpde.learning import LearningResult
from kernelpde.solution import solve

_AXIAL_DISTANCE = 1.1
"""Distance of the axial points from the center, in units of √p standard deviations. The weights
depend on it. The value is from Rue, Martino and Chopin (2009)."""


def central_composite_design(
    covariance: Float[np.ndarray, "p p"],
) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, " m"]]:
    """Return the center and two points on each principal axis, with weights.

    Means, variances and all odd moments of N(0, `covariance`) are exact.
    """
    values, vectors = np.linalg.eigh(covariance)
    axes = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    count = len(axes)
    axial = _AXIAL_DISTANCE * np.sqrt(count) * axes
    weight = 0.5 / (count * _AXIAL_DISTANCE**2)
    shifts = np.concatenate([np.zeros((1, count)), axial, -axial])
    return shifts, np.concatenate([[1.0 - 1.0 / _AXIAL_DISTANCE**2], np.full(2 * count, weight)])


def mixture_components(
    learned: LearningResult, best: ConditionedGP
) -> tuple[tuple[ConditionedGP, ...], Float[np.ndarray, " m"], float]:
    """Return conditioned processes, their weights, and the total weight of failed solves."""
    assert learned.covariance is not None
    shifts, design_weights = central_composite_design(learned.covariance)
    components, weights = [best], [design_weights[0]]
    for shift, weight in zip(shifts[1:], design_weights[1:], strict=True):
        solution = solve(
            learned.problem_at_offset(shift),
            learned.solution.point_sets,
            start=learned.solution,
            linear_solver=learned.linear_solver,
            throw=False,
        )
        if not solution.converged:
            continue
        try:
            components.append(condition_on(solution, amplitude=best.amplitude))
        except SolveError:
            continue
        weights.append(weight)
    total = float(np.sum(weights))
    return tuple(components), np.array(weights) / total, 1.0 - total
