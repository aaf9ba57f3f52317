"""States of inverse problems: fields that an equation determines, once its unknowns are known.

What is believed of a state follows from what is believed of the coefficients, sources and numbers
in its equation. A prior of its own that says more than nothing counts this twice: coefficients are
found too smooth and their error bars too narrow. So a state whose size is learned gets a variance
that leaves it free, and after learning a lengthscale that does: data alone would prefer a longer
one, by which a smooth state is foretold from fewer of them, at the expense of what is to be found.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.gauss_newton import RESULT, Solution, nugget_misfit, squared_norm
from kernelpde.learning.validation import data_conditions
from kernelpde.problem import Collocation, Problem, mean_squares

_FREE = 1e6
"""The variance of a state over the mean square of its data: tried from 1e2 to 1e12 on one family of
random problems (`line` of `benchmarks/calibration.py`, seeds from 1000)."""

_PART = 0.1
"""The nugget of a state is at most this part of the variance of the noise of its data."""

_HELD_AGAINST = 0.5
"""What kernels may hold against states: twice a log density, so a quarter of a unit of it. Tried
with 0.5 and as little as there can be on two families (`darcy` and `source` of
`benchmarks/calibration.py`, seeds from 1000): the latter widens what is to be found."""

_SHORTER, _TIMES = 0.85, 6
"""Lengthscales are shortened by this factor, and so many times at most."""


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


def held_against(solution: Solution) -> float:
    """What kernels hold against the states: ‖u‖², and what conditions give way by.

    Everything, if there is no solution with them. A state of a size that is not learned is not
    free, and its norm is what was asked for.
    """
    if not solution.converged:
        return np.inf
    problem = solution.problem
    assert isinstance(problem.kernels, tuple)
    sized = tuple(n for n in states(problem) if _leaves(problem.kernels[n], is_variance))
    return squared_norm(solution, sized) + nugget_misfit(solution)


def free_enough(solution: Solution) -> bool:
    """Whether states are determined by conditions and data alone, and conditions are met."""
    return not held_against(solution) > _HELD_AGAINST


def with_suited_states(
    solution: Solution, solved: Callable[[Problem, Solution], Solution]
) -> Solution | None:
    """A solution with lengthscales of states so short that little is held against them, and not
    shorter than points allow; `None` if there is nothing to be gained.

    **Arguments:**

    - `solution`: with lengthscales as they were learned.
    - `solved`: a solution with other kernels, from where to start.
    """
    problem = solution.problem
    assert isinstance(problem.kernels, tuple)
    if not any(_leaves(problem.kernels[n], _is_lengthscale) for n in states(problem)):
        return None
    too_short = solution.result is RESULT.not_met_between
    factor = 1.0 / _SHORTER if too_short else _SHORTER
    best, least = None, held_against(solution)
    for times in range(1, 1 + (_TIMES // 2 if too_short else _TIMES)):
        tried = solved(_stretched(problem, factor**times), best or solution)
        if tried.result is RESULT.not_met_between and not too_short:
            break
        against = held_against(tried)
        if against < least:
            best, least = tried, against
        if least <= _HELD_AGAINST or (too_short and best is not None):
            break
    return best


def _stretched(problem: Problem, by: float) -> Problem:
    """The same with lengthscales of states multiplied by a number."""
    assert isinstance(problem.kernels, tuple)
    kernels = list(problem.kernels)
    for number in states(problem):
        kernels[number] = jax.tree_util.tree_map_with_path(
            lambda path, leaf: leaf + jnp.log(by) if _is_lengthscale(path) else leaf,
            kernels[number],
        )
    return problem.with_kernels(tuple(kernels))


def _leaves(tree: Any, which: Callable[[Any], bool]) -> list[Any]:
    return [leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree) if which(path)]


def _is_lengthscale(path: Any) -> bool:
    """Whether a leaf of a kernel, by its path, is the logarithm of a lengthscale."""
    return bool(path) and getattr(path[-1], "name", "") == "log_lengthscale"


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
