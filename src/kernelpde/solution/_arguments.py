"""Checks of the arguments of `solve`, before anything is computed."""

from collections.abc import Mapping

import numpy as np

from kernelpde.checking import (
    check_bool,
    check_callable,
    check_instance,
    check_integer,
    format_value,
)
from kernelpde.errors import InputError
from kernelpde.linear_solvers import Automatic, Dense, LowRank, Sparse
from kernelpde.nonlinear import AbstractNonlinearSolver, Discretization
from kernelpde.problem import PointSet, Problem
from kernelpde.solution._solution import Solution


def check_solve(
    problem: Problem | Discretization,
    points: object,
    start: object,
    solver: object,
    linear_solver: object,
    max_steps: object,
    throw: object,
    callback: object,
) -> None:
    """Check the types of arguments; `collocate` checks `points`, `seed` and `sampling`."""
    if isinstance(problem, Discretization):
        for name, value in {"points": points, "linear_solver": linear_solver}.items():
            if value is not None:
                raise InputError(
                    f"solve: a Discretization comes with its {name}; got another one. Pass {name} "
                    "to kernelpde.discretize instead."
                )
        points, problem = problem.point_sets, problem.problem
    check_problem("solve", problem)
    check_point_sets("solve", problem, points)
    check_solver("solve", solver)
    check_linear_solver("solve", "linear_solver", linear_solver)
    check_common("solve", throw, callback)
    check_integer("solve", "max_steps", max_steps, at_least=1)
    if start is not None:
        _check_start(problem, points, start)


def check_problem(caller: str, problem: object) -> None:
    """Check that an argument is a `Problem`."""
    expected = "a Problem, of conditions and fields"
    check_instance(caller, "the first argument", problem, Problem, expected)


def check_solution(caller: str, solution: object) -> None:
    """Check that an argument is a `Solution`, and not the result of `learn` or `posterior`."""
    expected = "a Solution, from solve or learn(...).solution"
    check_instance(caller, "the solution", solution, Solution, expected)


def check_linear_solver(caller: str, name: str, linear_solver: object) -> None:
    """Check that an argument is a linear solver or `None`."""
    if linear_solver is not None:
        solvers = (Automatic, Dense, LowRank, Sparse)
        expected = "Automatic(), Dense(), LowRank() or Sparse()"
        check_instance(caller, name, linear_solver, solvers, expected)


def check_solver(caller: str, solver: object) -> None:
    """Check that an argument is a nonlinear solver or `None`."""
    if solver is not None:
        expected = "GaussNewton() or LevenbergMarquardt()"
        check_instance(caller, "solver", solver, AbstractNonlinearSolver, expected)


def check_common(caller: str, throw: object, callback: object) -> None:
    """Check the arguments that `solve`, `learn` and `march` share."""
    check_bool(caller, "throw", throw)
    if callback is not None:
        check_callable(caller, "callback", callback, "a function of a record")


def check_point_sets(caller: str, problem: Problem, points: object) -> None:
    """Check that a tuple of points consists of the point sets of all conditions."""
    if not isinstance(points, tuple):
        return
    count = len(problem.conditions)
    if not all(isinstance(point_set, PointSet) for point_set in points) or len(points) != count:
        raise InputError(
            f"{caller}: points must be a dictionary, or the tuple of {count} that "
            f"problem.collocate returns; got {len(points)}: {format_value(points)}."
        )
    dimension, residuals = len(problem.space.coordinates), problem.by_condition(problem.residuals)
    for name, point_set in problem.by_condition(points).items():
        residual = residuals[name]
        num_columns = point_set.points.shape[1]
        if num_columns != dimension or set(point_set.data) != set(residual.data):
            raise InputError(
                f"{caller}: the points of condition {name!r} belong to another problem: "
                f"expected {dimension} coordinates and data {sorted(residual.data)}; got "
                f"{num_columns} and {sorted(point_set.data)}. Draw them by problem.collocate."
            )


def _check_start(problem: Problem, points: object, start: object) -> None:
    if isinstance(start, Solution | Mapping):
        return
    if not isinstance(start, tuple | list) or len(start) != len(problem.residuals):
        raise InputError(
            "solve: start must be a Solution, functions of a point as in {'u': lambda x: x[0]}, or "
            f"{len(problem.residuals)} arrays, one per condition; got {format_value(start)}."
        )
    for index, (residual, values) in enumerate(zip(problem.residuals, start, strict=True)):
        rows = _expected_num_points(problem, index, points)
        expected = (rows, len(residual.nonlinear_terms))
        if np.ndim(values) != 2 or np.shape(values) != expected:
            raise InputError(
                f"solve: start for condition {problem.conditions[index].name!r} must have shape "
                f"{expected}, a row per point and a column per nonlinear term; got "
                f"{np.shape(values)}."
            )


def _expected_num_points(problem: Problem, index: int, points: object) -> int | None:
    """Return the number of points that a condition will have, or `None` for invalid points."""
    if isinstance(points, tuple):
        return len(points[index].points)
    condition = problem.conditions[index]
    count = points.get(condition.name) if isinstance(points, Mapping) else None
    if count is not None:
        # `collocate` rejects values that are neither arrays nor integers.
        return len(count) if np.ndim(count) else count if isinstance(count, int) else None
    given_points = getattr(condition.region, "points", None)
    return None if given_points is None else int(np.prod(np.shape(given_points)[:-1]))
