"""What points contribute to the uncertainty of an inverse problem."""

import numpy as np

from kernelpde.gauss_newton import Solution, field_names
from kernelpde.inference import Posterior, conditioned


def error_in_std(solution: Solution) -> float:
    """The largest error of a field or number by its points, in posterior standard deviations.

    The error is the difference to the solution at other points of the conditions that hold exactly,
    divided by √2, with the same data; both in root mean square over the domain. Other lengthscales
    do not count: with data they belong to what is believed, and change more than the points do.
    """
    if not solution.converged:
        return np.inf
    known, estimate = Posterior((conditioned(solution),)), solution.error_estimate
    numbers = {parameter.name for parameter in solution.problem.parameters}
    found = []
    for name in field_names(solution.problem):
        if name in numbers:
            continue
        there, here = (np.asarray(s[name](estimate.places)) for s in (estimate.elsewhere, solution))
        std = np.asarray(known[name].std(estimate.places))
        found.append(_rms(there - here) / np.sqrt(2) / max(_rms(std), 1e-300))
    for name, about in known.parameters.items():
        apart = float(estimate.elsewhere.parameters[name]) - float(solution.parameters[name])
        found.append(abs(apart) / np.sqrt(2) / max(float(about.std), 1e-300))
    return float(max(found))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(values) ** 2)))
