"""Student's t noise by iteratively reweighted solves.

Noise with ν degrees of freedom and scale σ has the density (1 + r² / (ν σ²))^(-(ν + 1) / 2). Its
maximum a posteriori solution is the solution with Gaussian noise of variance

    σ² (ν + r² / σ²) / (ν + 1),

where r are the residuals of the solution itself (Lange, Little and Taylor, 1989, as expectation
maximization). The posterior has several modes, since a flexible field can pass through an outlier.
The scale therefore starts large and is reduced to σ: data that are outliers then remain so.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import numpy as np

from kernelpde.arrays import to_array
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.nonlinear import Discretization
from kernelpde.problem import StudentT
from kernelpde.results import RESULTS
from kernelpde.solution._evaluation import evaluate_residual
from kernelpde.solution._solution import Solution

_SCALE_SCHEDULE = (30.0, 10.0, 3.0)
"""Initial scales, relative to the final one. More of them cost solves; without them the solution
passes through outliers."""

_MAX_SOLVES, _MAX_NOISE_CHANGE = 30, 0.01
"""Maximum number of solves with the final scale, and the relative change of the noise at which they
have converged."""

SolveFunction = Callable[[Discretization, Solution | None], Solution]
"""A solve with Gaussian noise, from an optional initial solution."""


def has_student_t_noise(discretization: Discretization) -> bool:
    """Return whether some data have Student's t noise; reject it inside transformations."""
    result = any(c.student_t is not None for c in discretization.problem.conditions)
    if result and is_traced(discretization):
        raise InputError(
            "solve: StudentT noise requires several solves and is not supported inside jit, grad "
            "or vmap. Solve outside, and use the noise of solution.point_sets inside."
        )
    return result


def solve_reweighted(
    discretization: Discretization, solve: SolveFunction, start: Solution | None = None
) -> Solution:
    """Solve with Student's t noise; the point sets of the result contain the noise of each datum.

    From an initial solution the scale is σ from the first solve on.
    """
    conditions = discretization.problem.conditions
    noises = {n: c.student_t for n, c in enumerate(conditions) if c.student_t is not None}
    schedule = (1.0,) * _MAX_SOLVES
    if start is None:
        schedule = (*_SCALE_SCHEDULE, *schedule)
        factors = {n: np.ones(discretization.point_sets[n].rows_per_equation) for n in noises}
    else:
        factors = {n: _noise_factors(start, n, noise, 1.0) for n, noise in noises.items()}
    solution = start
    for scale in schedule:
        point_sets = list(discretization.point_sets)
        for n, noise in noises.items():
            std = to_array(scale * np.asarray(noise.scale) * factors[n])
            point_sets[n] = eqx.tree_at(lambda points: points.noise, point_sets[n], std)
        solution = solve(replace(discretization, point_sets=tuple(point_sets)), solution)
        if not solution.converged and scale == 1.0:
            return solution
        previous = factors
        factors = {n: _noise_factors(solution, n, noise, scale) for n, noise in noises.items()}
        changes = [np.abs(np.log(factors[n] / previous[n])).max() for n in noises]
        if scale == 1.0 and max(changes) <= _MAX_NOISE_CHANGE:
            return solution
    assert solution is not None
    return replace(solution, result_code=RESULTS.max_steps_reached.code)


def _noise_factors(solution: Solution, index: int, noise: StudentT, scale: float) -> np.ndarray:
    """Return the factor of the standard deviation of each datum."""
    residual, points = solution.problem.residuals[index], solution.point_sets[index]
    jet_values = solution.evaluate_jets(residual.terms, points.points)
    rows = points.reduce_to_rows(evaluate_residual(residual, points, jet_values))
    rows = np.asarray(rows).reshape(len(residual.equation_terms), points.rows_per_equation)
    ratio = np.mean(rows**2, axis=0) / (scale * np.asarray(noise.scale)) ** 2
    factors = np.sqrt((noise.df + ratio) / (noise.df + 1.0))
    return np.where(np.isfinite(factors), factors, 1.0)
