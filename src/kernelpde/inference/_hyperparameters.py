"""Values of the hyperparameters by which a posterior is averaged over them."""

import numpy as np
from jaxtyping import Float

from kernelpde.errors import SolveError
from kernelpde.gauss_newton import solve
from kernelpde.inference._conditioned import Conditioned, conditioned
from kernelpde.learning import Learned

_REACH = 1.1
"""How far from the center, relative to √p standard deviations: what is left of the weight of a
Gaussian density is that of the center. The value of Rue, Martino and Chopin (2009)."""


def design(
    covariance: Float[np.ndarray, "p p"],
) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, " m"]]:
    """The center and two points along each principal axis, with weights.

    Means, variances and all odd moments of N(0, `covariance`) are exact.
    """
    values, vectors = np.linalg.eigh(covariance)
    axes = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    count = len(axes)
    far = _REACH * np.sqrt(count) * axes
    weight = 0.5 / (count * _REACH**2)
    shifts = np.concatenate([np.zeros((1, count)), far, -far])
    return shifts, np.concatenate([[1.0 - 1.0 / _REACH**2], np.full(2 * count, weight)])


def members_of(
    learned: Learned, best: Conditioned
) -> tuple[tuple[Conditioned, ...], Float[np.ndarray, " m"], float]:
    """Conditioned processes, their weights, and the weight of those without a solution."""
    assert learned.covariance is not None
    shifts, weights = design(learned.covariance)
    members, kept = [best], [weights[0]]
    for shift, weight in zip(shifts[1:], weights[1:], strict=True):
        solution = solve(
            learned.shifted(shift),
            learned.solution.blocks,
            start=learned.solution,
            linear_solver=learned.linear_solver,
            throw=False,
        )
        if not solution.converged:
            continue
        try:
            members.append(conditioned(solution, amplitude=best.amplitude))
        except SolveError:
            continue
        kept.append(weight)
    total = float(np.sum(kept))
    return tuple(members), np.array(kept) / total, 1.0 - total
