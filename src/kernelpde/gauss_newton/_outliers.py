"""Data with outliers: Student's t as noise, by solving again with other weights.

Noise with ν degrees of freedom and scale σ has the density (1 + r² / (ν σ²))^(-(ν + 1) / 2). Its
maximum a posteriori solution is that with Gaussian noise of variance

    σ² (ν + r² / σ²) / (ν + 1),

r being the residuals of the solution itself (Lange, Little and Taylor, 1989, as an expectation
maximization). The posterior has several modes, since a flexible field can pass through an outlier.
So scales begin large and are lowered to σ: what then stands out stays out.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np

from kernelpde.arrays import array
from kernelpde.compiling import traced
from kernelpde.errors import InputError
from kernelpde.gauss_newton._discretization import Discretization
from kernelpde.gauss_newton._result import RESULTS, code_of
from kernelpde.gauss_newton._solution import Solution
from kernelpde.problem import Collocation, Residual, StudentT

_LADDER = (30.0, 10.0, 3.0)
"""Scales to begin with, relative to the true one."""

_ROUNDS, _STILL = 30, 0.01
"""Maximum number of solves with the true scale, and the relative change of residuals at which they
end."""

Once = Callable[[Discretization, Solution | None], Solution]
"""A solve with the noise as it is, begun at another solution if there is one."""


def has_outliers(discretization: Discretization) -> bool:
    """Whether some data have Student's t as noise."""
    found = any(isinstance(c.noise, StudentT) for c in discretization.problem.conditions)
    if found and traced(discretization):
        raise InputError(
            "solve: StudentT noise takes several solves, and is not for jit, grad or vmap. Solve "
            "outside, and use the noise of its data: solution.blocks[...].noise."
        )
    return found


def reweighted(
    discretization: Discretization, once: Once, start: Solution | None = None
) -> Solution:
    """The solution for noise with outliers; its blocks have the noise that each datum was given."""
    conditions = discretization.problem.conditions
    noises = {n: c.noise for n, c in enumerate(conditions) if isinstance(c.noise, StudentT)}
    factors = {n: np.ones(discretization.blocks[n].count) for n in noises}
    solution = start
    if start is not None:
        factors = {n: _factors(start, n, noise, 1.0) for n, noise in noises.items()}
    ladder = (1.0,) * _ROUNDS if start is not None else (*_LADDER, *(1.0,) * _ROUNDS)
    for larger in ladder:
        blocks = list(discretization.blocks)
        for n, noise in noises.items():
            level = array(larger * np.asarray(noise.scale) * factors[n])
            blocks[n] = eqx.tree_at(lambda block: block.noise, blocks[n], level)
        solution = once(replace(discretization, blocks=tuple(blocks)), solution)
        if not solution.converged and larger == 1.0:
            return solution
        before = factors
        factors = {n: _factors(solution, n, noise, larger) for n, noise in noises.items()}
        changes = [np.abs(np.log(factors[n] / before[n])).max() for n in noises]
        if larger == 1.0 and max(changes) <= _STILL:
            return solution
    assert solution is not None
    return replace(solution, code=code_of(RESULTS.step_limit))


def _factors(solution: Solution, number: int, noise: StudentT, larger: float) -> np.ndarray:
    """What the standard deviation of each datum is multiplied by."""
    residual, block = solution.problem.residuals[number], solution.blocks[number]
    entries = solution.jets(residual.terms, block.points)
    found = _squares(residual, block, np.asarray(entries))
    ratio = found / (larger * np.asarray(noise.scale)) ** 2
    factors = np.sqrt((noise.degrees + ratio) / (noise.degrees + 1.0))
    return np.where(np.isfinite(factors), factors, 1.0)


def _squares(residual: Residual, block: Collocation, entries: np.ndarray) -> np.ndarray:
    """The square of each datum's residual, the mean over several equations."""

    def at(point, normal, datum, entry):
        return residual(point, normal, datum, tuple(entry))

    axes = (0, None if block.normals is None else 0, 0, 0)
    values = jax.vmap(at, in_axes=axes)(block.points, block.normals, block.data, array(entries))
    rows = np.asarray(block.by_rows(values)).reshape(len(residual.components), block.count)
    return np.mean(rows**2, axis=0)
