"""Checks of problems and arguments of `solve_in_boxes`."""

from collections.abc import Iterator, Mapping
from typing import Any

from kernelpde.checking import (
    check_callable,
    check_instance,
    check_integer,
    check_name,
    check_real,
    format_names,
)
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.problem import Problem, field_names
from kernelpde.solution import FieldSource, check_common, check_problem

_CALLER = "solve_in_boxes"
_MAX_ORDER = 2
"""Maximum order of the equations. Rounding errors of the normal equations grow with the order: a
beam equation on 200 boxes has an error of the size of the solution."""

_MIN_ROWS = 250
"""Smallest limit of the number of rows: the first level in the plane has about 200."""


def check_arguments(
    problem: Problem,
    accuracy: Any,
    start: Any,
    seed: Any,
    max_rows: Any,
    max_seconds: Any,
    throw: Any,
    callback: Any,
) -> None:
    """Check all arguments before anything is computed."""
    check_problem(_CALLER, problem)
    check_real(_CALLER, "accuracy", accuracy, greater_than=0, at_most=1)
    check_integer(_CALLER, "max_rows", max_rows, at_least=_MIN_ROWS)
    if max_seconds is not None:
        check_real(_CALLER, "max_seconds", max_seconds, greater_than=0)
    if seed is not None:
        check_integer(_CALLER, "seed", seed, at_least=0)
    check_common(_CALLER, throw, callback)
    if is_traced(problem):
        raise InputError(
            f"{_CALLER}: expected a call outside of jax.jit, jax.vmap and jax.grad; got a traced "
            "problem. The number of boxes depends on computed values."
        )
    limitation = next(limitations(problem), None)
    if limitation is not None:
        raise InputError(f"{_CALLER}: {limitation}")
    if start is not None:
        _check_start(problem, start)


def _check_start(problem: Problem, start: Any) -> None:
    expected = "a solution, or a function of a point as in {'u': lambda x: x[0] ** 2}"
    check_instance(_CALLER, "start", start, (FieldSource, Mapping), expected)
    (name,) = field_names(problem)
    if isinstance(start, Mapping):
        for key, function in start.items():
            check_name(_CALLER, "key of start", key, [name])
            check_callable(_CALLER, f"start[{key!r}]", function, "a function of a point")
        names = list(start)
    else:
        names = field_names(start.problem)
    if name not in names:
        raise InputError(
            f"{_CALLER}: start has no field {name!r}; got {format_names(names)}. Name it {name!r}."
        )


def is_supported(problem: Problem) -> bool:
    """Return whether `solve_in_boxes` accepts a problem."""
    return next(limitations(problem), None) is None


def limitations(problem: Problem) -> Iterator[str]:
    """Yield the reasons for which boxes do not support a problem: got, expected and a remedy."""
    advice = "Use kernelpde.solve."
    space = problem.space
    if len(space.coordinates) > 2:
        yield (f"expected one or two coordinates; got {format_names(space.coordinates)}. {advice}")
    if len(problem.fields) != 1 or problem.parameters or problem.laws:
        names = format_names(field.name for field in problem.fields)
        yield f"expected one real field and no unknown numbers or laws; got {names}. {advice}"
    if space.periodic:
        names = format_names(space.coordinates[axis] for axis in space.periodic)
        yield f"expected no periodic coordinates; got {names}. {advice}"
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        name = condition.name
        if not condition.region.as_patches():
            yield (
                f"expected conditions on regions; condition {name!r} has user-supplied points or "
                f"averages. {advice}"
            )
        elif (condition.noise_std > 0).any() or condition.data:
            yield f"expected conditions without noise and data; got {name!r}. {advice}"
        if residual.has_integrals:
            yield f"expected residuals without integrals; condition {name!r} has them. {advice}"
        order = max(term.order for term in residual.terms)
        if order > _MAX_ORDER:
            yield (
                f"expected derivatives of order {_MAX_ORDER} or less; condition {name!r} has order "
                f"{order}. {advice}"
            )
    regions = [condition.region for condition in problem.conditions]
    if not any(patch.is_interior for region in regions for patch in region.as_patches()):
        yield "expected a condition on domain.interior; got conditions on the boundary only."
