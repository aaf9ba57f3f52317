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

from kernelpde.arrays import array
from kernelpde.functionals import gram_diagonal
from kernelpde.learning.validation import data_conditions
from kernelpde.problem import Collocation, Problem, linearized

_FREE = 1e6
"""The variance of a state over the mean square of its data: tried from 1e2 to 1e12 on one family of
random problems (`line` of `benchmarks/calibration.py`, seeds from 1000), where more than this makes
the nugget as large as noise of one percent."""


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


def with_free_states(problem: Problem, blocks: tuple[Collocation, ...]) -> Problem:
    """The problem with variances of states, where kernels have some to learn, large enough."""
    found = states(problem)
    if not found or not isinstance(problem.kernels, tuple):
        return problem
    kernels = list(problem.kernels)
    for number in found:
        larger = _FREE * _mean_square(problem, blocks, number)
        if np.isfinite(larger) and larger > 1.0:
            kernels[number] = jax.tree_util.tree_map_with_path(
                lambda path, leaf, by=larger: leaf + jnp.log(by) if is_variance(path) else leaf,
                kernels[number],
            )
    return problem.with_kernels(tuple(kernels))


def is_variance(path: Any) -> bool:
    """Whether a leaf of a kernel, by its path, is the logarithm of a variance."""
    return bool(path) and getattr(path[-1], "name", "") == "log_variance"


def _mean_square(problem: Problem, blocks: tuple[Collocation, ...], field: int) -> float:
    """That of the data of a field, over what its kernel expects."""
    ratios = []
    for name in data_conditions(problem):
        number = problem.condition_index(name)
        residual, block = problem.residuals[number], blocks[number]
        if field not in {term.field for term in residual.terms}:
            continue
        zero = array(np.zeros((len(block.points), len(residual.nonlinear))))
        rows = linearized((residual,), (block,), (zero,))
        expected = np.mean(np.asarray(gram_diagonal(problem.kernels, rows.batches)))
        ratios.append(np.mean(np.asarray(rows.target) ** 2) / max(float(expected), 1e-300))
    return float(max(ratios, default=np.nan))
