"""Initial guesses of the iteration."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.problem import PointSet, Problem
from kernelpde.solution._solution import Solution

Start: TypeAlias = Solution | Mapping[str, Callable | float]
"""A solution of a problem with the same fields; or functions of a point for some fields, and
numbers for some parameters."""


def initial_jets(
    problem: Problem, start: Start, point_sets: tuple[PointSet, ...]
) -> tuple[Float[Array, "_ _"], ...]:
    """Evaluate the nonlinear jet values of an initial guess at the points of each condition."""
    conditions = problem.at_points(point_sets).conditions
    if isinstance(start, Solution):
        expected = [field.name for field in problem.fields]
        names = [field.name for field in start.problem.fields]
        if names != expected or problem.frame != start.problem.frame:
            raise InputError(
                f"start: expected a solution with the fields {expected} in "
                f"{problem.frame.coordinates}; got {names} in {start.problem.frame.coordinates}."
            )
        return tuple(start.evaluate_jets(c.nonlinear_terms, c.point_set.points) for c in conditions)
    functions = _initial_functions(problem, start)
    jet_values = []
    for condition in conditions:
        points = condition.point_set.points
        columns = [np.zeros((len(points), 0))]
        for term in condition.nonlinear_terms:
            column = np.zeros(len(points))
            if term.field in functions:
                column = column + _evaluate_term(problem, term, functions[term.field], points)
            columns.append(column[:, None])
        jet_values.append(to_array(np.concatenate(columns, axis=1)))
        if not np.isfinite(jet_values[-1]).all():
            raise InputError(
                "start: it has NaN or infinite values or derivatives at some points; expected "
                "finite ones at all collocation points."
            )
    return tuple(jet_values)


def _evaluate_term(
    problem: Problem, term: Term, function: Callable, points: Float[Array, "n d"]
) -> np.ndarray:
    """Evaluate a term of the function of its field, at all points or at its node of a law."""
    if term.node_index is not None:
        law = next(law for law in problem.laws if problem.field_index(law.name) == term.field)
        return np.asarray(function(law.argument.nodes[term.node_index]) - law.mean)
    return sum(
        (np.asarray(jax.vmap(_partial(function, order))(points)) for order in term.orders),
        start=np.zeros(len(points)),
    )


def _initial_functions(
    problem: Problem, start: Mapping[str, Callable | float]
) -> dict[int, Callable[[Array], Array]]:
    """Return the initial function of each real field that has one."""
    if not isinstance(start, Mapping):
        raise InputError(
            "start: expected a solution, or functions of a point for some fields as in "
            f"start={{'u': lambda x: x[0] ** 2}}; got {type(start).__name__}."
        )
    components = {name: indices for name, *indices in problem.complex_fields}
    parameters = {parameter.name: parameter for parameter in problem.parameters}
    functions: dict[int, Callable[[Array], Array]] = {}
    for name, value in start.items():
        if name in parameters:
            offset = parameters[name].offset(float(np.asarray(value)))
            functions[problem.field_index(name)] = lambda x, offset=offset: jnp.asarray(offset)
        elif not callable(value):
            raise InputError(
                f"start: expected a function of a point for field {name!r}, for example "
                f"lambda x: 1.0; got {value!r}."
            )
        elif name in components:
            for index, component in zip(components[name], (jnp.real, jnp.imag), strict=True):
                functions[index] = lambda x, f=value, c=component: c(jnp.asarray(f(x)))
        else:
            index = problem.field_index(name)
            functions[index] = lambda x, f=value: jnp.asarray(f(x), dtype=float)
    return functions


def _partial(function: Callable[[Array], Array], order: tuple[int, ...]) -> Callable:
    """Return the partial derivative ∂^γ of a function of a point."""
    for axis in np.repeat(np.arange(len(order)), order):
        function = _directional_derivative(function, jnp.eye(len(order))[axis])
    return function


def _directional_derivative(
    function: Callable[[Array], Array], direction: Array
) -> Callable[[Array], Array]:
    return lambda x: jax.jvp(function, (x,), (direction,))[1]
