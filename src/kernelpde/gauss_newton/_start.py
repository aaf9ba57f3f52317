"""Where an iteration begins, if not at u = 0."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.gauss_newton._solution import Solution
from kernelpde.problem import Collocation, Problem

Start: TypeAlias = Solution | Mapping[str, Callable | float]
"""A solution of a problem with the same fields; or for some fields a function of a point, and for
some unknown numbers a number."""


def start_entries(
    problem: Problem, start: Start, blocks: tuple[Collocation, ...]
) -> tuple[Float[Array, "_ _"], ...]:
    """The entries of a start in which the residuals are nonlinear, at the points of each."""
    if isinstance(start, Solution):
        names = [field.name for field in problem.fields]
        theirs = [field.name for field in start.problem.fields]
        if names != theirs or problem.frame != start.problem.frame:
            raise InputError(
                f"start: a solution with the fields {theirs} in {start.problem.frame.coordinates}; "
                f"expected {names} in {problem.frame.coordinates}."
            )
        return tuple(
            start.jets(residual.nonlinear_terms, block.points)
            for residual, block in zip(problem.residuals, blocks, strict=True)
        )
    functions = _functions(problem, start)
    found = []
    for residual, block in zip(problem.residuals, blocks, strict=True):
        columns = [np.zeros((len(block.points), 0))]
        for term in residual.nonlinear_terms:
            function = functions.get(term.field)
            column = np.zeros(len(block.points))
            if function is not None and term.node is not None:
                law = next(w for w in problem.laws if problem.field_index(w.name) == term.field)
                column = column + np.asarray(function(law.argument.nodes[term.node]) - law.mean)
            elif function is not None:
                for order in term.orders:
                    column = column + np.asarray(jax.vmap(_partial(function, order))(block.points))
            columns.append(column[:, None])
        found.append(array(np.concatenate(columns, axis=1)))
        if not np.isfinite(found[-1]).all():
            raise InputError("start: it has NaN or infinite values or derivatives at some points.")
    return tuple(found)


def _functions(
    problem: Problem, start: Mapping[str, Callable | float]
) -> dict[int, Callable[[Array], Array]]:
    """The function to begin with for each real field that has one."""
    if not isinstance(start, Mapping):
        raise InputError(
            "start: expected a solution, or functions of a point for some fields as in "
            f"start={{'u': lambda x: x[0] ** 2}}; got {type(start).__name__}."
        )
    pairs = {name: parts for name, *parts in problem.complex_fields}
    numbers = {parameter.name: parameter for parameter in problem.parameters}
    found: dict[int, Callable[[Array], Array]] = {}
    for name, given in start.items():
        if name in numbers:
            offset = numbers[name].offset(float(np.asarray(given)))
            found[problem.field_index(name)] = lambda x, offset=offset: jnp.asarray(offset)
            continue
        if not callable(given):
            raise InputError(
                f"start: expected a function of a point for field {name!r}, for example "
                f"lambda x: 1.0; got {given!r}."
            )
        for part, take in zip(pairs.get(name, ()), (jnp.real, jnp.imag), strict=False):
            found[part] = lambda x, f=given, take=take: take(jnp.asarray(f(x)))
        if name not in pairs:
            found[problem.field_index(name)] = lambda x, f=given: jnp.asarray(f(x), dtype=float)
    return found


def _partial(function: Callable[[Array], Array], order: tuple[int, ...]) -> Callable:
    """∂^γ of a function of a point."""
    for axis in np.repeat(np.arange(len(order)), order):
        direction = jnp.eye(len(order))[axis]
        function = _along(function, direction)
    return function


def _along(function: Callable[[Array], Array], direction: Array) -> Callable[[Array], Array]:
    return lambda x: jax.jvp(function, (x,), (direction,))[1]
