"""Priors of state fields in inverse problems.

A state field is determined by the equations given the coefficients, so the prior of the
coefficients already implies a prior of the state. An informative prior on the state counts the
same information twice: estimated coefficients are oversmoothed and their credible intervals too
narrow. Hence the prior variance of a state is set large. Its lengthscale is shortened after
learning if necessary, because data alone favor lengthscales that are too long for the unknowns.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.arrays import TINY
from kernelpde.kernels import scale_lengthscales
from kernelpde.learning.validation import data_conditions
from kernelpde.problem import PointSet, Problem, prior_and_data_mean_square
from kernelpde.results import RESULTS
from kernelpde.solution import Solution, nugget_misfit, squared_norm

_STATE_VARIANCE_FACTOR = 1e6
"""Variance of a state over the mean square of its data. Values from 1e2 to 1e12 were tested on one
family of random problems (`line` of `benchmarks/calibration.py`, seeds from 1000)."""

_MAX_NUGGET_FRACTION = 0.1
"""Maximum ratio of the nugget of a state to the variance of the noise of its data."""

_MAX_PRIOR_PENALTY = 0.5
"""Maximum of `prior_penalty`, twice a log density, so a quarter of a unit of it. The value 0.5 and
the smallest possible were tested on two families (`darcy` and `source` of
`benchmarks/calibration.py`, seeds from 1000); the latter widens the estimates."""

_SHRINK_FACTOR, _MAX_REDUCTIONS = 0.85, 6
"""Factor by which lengthscales are shortened, and the maximum number of reductions."""


def state_fields(problem: Problem) -> tuple[int, ...]:
    """Return the indices of observed fields if the problem also has parameters or other fields."""
    if problem.prior.mixing is not None:
        return ()
    parameters = {problem.field_index(parameter.name) for parameter in problem.parameters}
    fields = set(range(len(problem.fields))) - parameters
    observed = {
        term.field
        for name in data_conditions(problem)
        for term in problem.residuals[problem.condition_index(name)].terms
    }
    return tuple(sorted(fields & observed)) if parameters or fields - observed else ()


def with_large_state_variance(
    problem: Problem, point_sets: tuple[PointSet, ...], nugget: float
) -> Problem:
    """Increase the trainable variances of state fields until their priors are uninformative.

    The variance is limited so that the nugget, which is proportional to it, stays below the noise.
    """
    fields = state_fields(problem)
    if not fields:
        return problem
    kernels = list(problem.prior.kernels)
    for field in fields:
        data_ratio, noise_ratio = _data_mean_square(problem, point_sets, field)
        factor = data_ratio * min(
            _STATE_VARIANCE_FACTOR, _MAX_NUGGET_FRACTION * noise_ratio / nugget
        )
        if np.isfinite(factor) and factor > 1.0:
            kernels[field] = jax.tree_util.tree_map_with_path(
                lambda path, leaf, by=factor: leaf + jnp.log(by) if _is_variance(path) else leaf,
                kernels[field],
            )
    return problem.with_kernels(kernels)


def prior_penalty(solution: Solution) -> float:
    """Return ‖u‖² of the states plus the nugget misfit, infinite without a converged solution.

    States without trainable variance are excluded, because their prior was specified by the user.
    """
    if not solution.converged:
        return np.inf
    problem = solution.problem
    kernels = problem.prior.kernels
    fields = tuple(n for n in state_fields(problem) if _has_variance(kernels[n]))
    return squared_norm(solution, fields) + nugget_misfit(solution)


def with_shorter_state_lengthscales(
    solution: Solution, solve_from: Callable[[Problem, Solution], Solution]
) -> Solution | None:
    """Return a solution with state lengthscales so short that the prior penalty is small.

    They are not shortened below what the points resolve. The result is `None` if the penalty is
    small already or cannot be reduced.

    **Arguments:**

    - `solve_from`: function that solves a problem, starting from a solution.
    """
    best, lowest = None, prior_penalty(solution)
    if not lowest > _MAX_PRIOR_PENALTY:
        return None
    too_short = solution.result is RESULTS.test_residual_too_large
    factor = 1.0 / _SHRINK_FACTOR if too_short else _SHRINK_FACTOR
    for power in range(1, 1 + (_MAX_REDUCTIONS // 2 if too_short else _MAX_REDUCTIONS)):
        problem = _scale_state_lengthscales(solution.problem, factor**power)
        if problem is None:
            break
        trial = solve_from(problem, best or solution)
        if trial.result is RESULTS.test_residual_too_large and not too_short:
            break
        penalty = prior_penalty(trial)
        if penalty < lowest:
            best, lowest = trial, penalty
        if lowest <= _MAX_PRIOR_PENALTY or (too_short and best is not None):
            break
    return best


def _scale_state_lengthscales(problem: Problem, factor: float) -> Problem | None:
    """Multiply the trainable lengthscales of state fields; return `None` if there are none."""
    kernels, is_changed = list(problem.prior.kernels), False
    for field in state_fields(problem):
        scaled = scale_lengthscales(kernels[field], factor, include_frozen=False)
        if scaled is not None:
            kernels[field], is_changed = scaled, True
    return problem.with_kernels(kernels) if is_changed else None


def _has_variance(kernel: Any) -> bool:
    return any(_is_variance(path) for path, _ in jax.tree_util.tree_leaves_with_path(kernel))


def _is_variance(path: Any) -> bool:
    """Return whether the leaf of a kernel at this path is a log variance."""
    return bool(path) and getattr(path[-1], "name", "") == "log_variance"


def _data_mean_square(
    problem: Problem, point_sets: tuple[PointSet, ...], field: int
) -> tuple[float, float]:
    """Return mean squares for the data of a field: data over prior, and noise over data."""
    data_ratios, noise_ratios = [], []
    for name in data_conditions(problem):
        index = problem.condition_index(name)
        if field not in {term.field for term in problem.residuals[index].terms}:
            continue
        prior, data = prior_and_data_mean_square(problem, index, point_sets[index])
        data_ratios.append(data / prior)
        noise = np.asarray(point_sets[index].noise)
        noise_ratios.append(float(np.mean(noise**2)) / max(data, TINY))
    return max(data_ratios, default=np.nan), min(noise_ratios, default=np.nan)
