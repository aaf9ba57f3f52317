"""Discretization error of an inverse problem relative to its uncertainty."""

import numpy as np

from kernelpde.arrays import TINY
from kernelpde.inference import Posterior, condition_on
from kernelpde.problem import field_names
from kernelpde.solution import Solution


def error_over_posterior_std(solution: Solution) -> float:
    """Return the largest error of a field or parameter, in posterior standard deviations.

    The error is the difference to the solution at resampled points of the noise-free conditions,
    divided by √2, with the same data. Error and standard deviation are root mean squares over the
    domain. Solutions with modified lengthscales are not used: with data, lengthscales are part of
    the prior and change the solution more than the points do.
    """
    if not solution.converged:
        return np.inf
    posterior, estimate = Posterior((condition_on(solution),)), solution.error_estimate
    points, resampled = estimate.interior_points, estimate.resampled
    parameters = {parameter.name for parameter in solution.problem.parameters}
    ratios = []
    for name in field_names(solution.problem):
        if name not in parameters:
            difference = np.asarray(resampled[name](points)) - np.asarray(solution[name](points))
            std = max(_rms(np.asarray(posterior[name].std(points))), TINY)
            ratios.append(_rms(difference) / np.sqrt(2) / std)
    for name, marginal in posterior.parameters.items():
        difference = float(resampled.parameters[name]) - float(solution.parameters[name])
        ratios.append(abs(difference) / np.sqrt(2) / max(float(marginal.std), TINY))
    return float(max(ratios))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(values) ** 2)))
