"""States of inverse problems: fields that an equation determines, once its unknowns are known.

What is believed of a state follows from what is believed of the coefficients, sources and numbers
in its equation. A prior of its own that says more than nothing counts this twice: coefficients are
found too smooth and their error bars too narrow. So a state whose size is learned gets a variance
that leaves it free.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.learning.validation import data_conditions
from kernelpde.problem import Collocation, Problem, mean_squares

_FREE = 1e6
"""The variance of a state over the mean square of its data: tried from 1e2 to 1e12 on one family of
random problems (`line` of `benchmarks/calibration.py`, seeds from 1000)."""

_PART = 0.1
"""The nugget of a state is at most this part of the variance of the noise of its data."""


def states(problem: Problem) -> tuple[int, ...]:
    """The numbers of fields that data see, where there are others, or numbers, to be found."""
    numbers = {problem.field_index(p.name) for p in problem.parameters}
    if not isinstance(problem.kernels, tuple):
        return ()
    fields = set(range(len(problem.kernels))) - numbers
    seen = {
        term.field
        for name in data_conditions(problem)
        for term in problem.residuals[problem.condition_index(name)].terms
    }
    found = fields & seen
    return tuple(sorted(found)) if numbers or fields - seen else ()


def with_free_states(problem: Problem, blocks: tuple[Collocation, ...], nugget: float) -> Problem:
    """The problem with variances of states, where kernels have some to learn, large enough.

    The nugget, which goes with the variance, stays below the noise.
    """
    found = states(problem)
    if not found or not isinstance(problem.kernels, tuple):
        return problem
    kernels = list(problem.kernels)
    for number in found:
        size, noise = _mean_square(problem, blocks, number)
        larger = size * min(_FREE, _PART * noise / nugget)
        if np.isfinite(larger) and larger > 1.0:
            kernels[number] = jax.tree_util.tree_map_with_path(
                lambda path, leaf, by=larger: leaf + jnp.log(by) if is_variance(path) else leaf,
                kernels[number],
            )
    return problem.with_kernels(tuple(kernels))


def is_variance(path: Any) -> bool:
    """Whether a leaf of a kernel, by its path, is the logarithm of a variance."""
    return bool(path) and getattr(path[-1], "name", "") == "log_variance"


def _mean_square(
    problem: Problem, blocks: tuple[Collocation, ...], field: int
) -> tuple[float, float]:
    """That of the data of a field, over what its kernel expects; and that of their noise, over that
    of the data."""
    sizes, noises = [], []
    for name in data_conditions(problem):
        number = problem.condition_index(name)
        if field not in {term.field for term in problem.residuals[number].terms}:
            continue
        expected, found = mean_squares(problem, number, blocks[number])
        sizes.append(found / expected)
        noise = np.asarray(blocks[number].noise)
        noises.append(float(np.mean(noise**2)) / max(found, 1e-300))
    return max(sizes, default=np.nan), min(noises, default=np.nan)
