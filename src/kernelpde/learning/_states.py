"""States of inverse problems: fields that an equation determines, once its unknowns are known.

What is believed of a state follows from what is believed of the coefficients, sources and numbers
in its equation. A prior of its own that says more than nothing counts this twice: coefficients are
found too smooth and their error bars too narrow. So a state whose size is learned gets a variance
that leaves it free, and after learning a lengthscale that does: data alone would prefer a longer
one, by which a smooth state is predicted from fewer of them, at the expense of what is to be found.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.gauss_newton import RESULTS, Solution, nugget_misfit, squared_norm
from kernelpde.kernels import stretched
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
"""Factor by which lengthscales are shortened, and how often at most."""


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
    sized = tuple(n for n in states(problem) if _has_variance(problem.kernels[n]))
    return squared_norm(solution, sized) + nugget_misfit(solution)


def with_suited_states(
    solution: Solution, solved: Callable[[Problem, Solution], Solution]
) -> Solution | None:
    """A solution with lengthscales of states so short that little is held against them, and not
    shorter than points allow; `None` if there is nothing to be gained, or they are free as it is.

    **Arguments:**

    - `solution`: with lengthscales as they were learned.
    - `solved`: a solution with other kernels, from where to start.
    """
    best, least = None, held_against(solution)
    if not least > _HELD_AGAINST:
        return None
    too_short = solution.result is RESULTS.not_met_between
    factor = 1.0 / _SHORTER if too_short else _SHORTER
    for times in range(1, 1 + (_TIMES // 2 if too_short else _TIMES)):
        problem = _stretched(solution.problem, factor**times)
        if problem is None:
            break
        tried = solved(problem, best or solution)
        if tried.result is RESULTS.not_met_between and not too_short:
            break
        against = held_against(tried)
        if against < least:
            best, least = tried, against
        if least <= _HELD_AGAINST or (too_short and best is not None):
            break
    return best


def _stretched(problem: Problem, by: float) -> Problem | None:
    """The same with lengthscales of states multiplied, but for those held; `None` without any."""
    assert isinstance(problem.kernels, tuple)
    changed = {n: stretched(problem.kernels[n], by, held=False) for n in states(problem)}
    if all(kernel is None for kernel in changed.values()):
        return None
    return problem.with_kernels(
        tuple(
            kernel if changed.get(n) is None else changed[n]
            for n, kernel in enumerate(problem.kernels)
        )
    )


def _has_variance(kernel: Any) -> bool:
    return any(is_variance(path) for path, _ in jax.tree_util.tree_leaves_with_path(kernel))


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
