"""What `solve` is given, checked before anything is computed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelpde.checking import function, instance, real_number, shown, truth, whole_number
from kernelpde.deprecation import renamed, warn_moved
from kernelpde.errors import InputError
from kernelpde.gauss_newton._discretization import Discretization
from kernelpde.gauss_newton._solution import Solution
from kernelpde.gauss_newton._solvers import GaussNewton, LevenbergMarquardt
from kernelpde.linear_solvers import Automatic, Dense, LinearSolver, LowRank, Sparse
from kernelpde.problem import Collocation, Problem

SOLVERS = (Automatic, Dense, LowRank, Sparse)


def check_solve(
    problem: Any,
    points: Any,
    start: Any,
    solver: Any,
    linear_solver: Any,
    max_steps: Any,
    throw: Any,
    callback: Any,
) -> None:
    """Refuse arguments of the wrong make; `points`, `seed` and `sampling` are for `collocate`."""
    if isinstance(problem, Discretization):
        others = {"points": points, "linear_solver": linear_solver}
        for name, given in others.items():
            if given is not None:
                raise InputError(
                    f"solve: a Discretization comes with its {name}; give {name} to "
                    "kernelpde.discretize instead."
                )
        points, problem = problem.blocks, problem.problem
    check_problem("solve", problem)
    check_drawn("solve", problem, points)
    check_solver("solve", solver)
    check_linear_solver("solve", "linear_solver", linear_solver)
    check_common("solve", throw, callback)
    whole_number("solve", "max_steps", max_steps, at_least=1)
    if start is not None:
        _check_start(problem, points, start)


def check_problem(owner: str, problem: Any) -> None:
    """A `Problem`."""
    expected = "a Problem, of conditions and fields"
    instance(owner, "the first argument", problem, Problem, expected)


def check_solution(owner: str, solution: Any) -> None:
    """A `Solution`, and nothing that holds one."""
    expected = "a Solution, from solve or learn(...).solution"
    instance(owner, "the solution", solution, Solution, expected)


def check_linear_solver(owner: str, name: str, linear_solver: Any) -> None:
    """One of the solvers of linear systems, or `None`."""
    if linear_solver is not None:
        expected = "Automatic(), Dense(), LowRank() or Sparse()"
        instance(owner, name, linear_solver, SOLVERS, expected)


def check_solver(owner: str, solver: Any) -> None:
    """How steps are taken, or `None`."""
    if solver is None:
        return
    expected = "GaussNewton() or LevenbergMarquardt()"
    instance(owner, "solver", solver, (GaussNewton, LevenbergMarquardt), expected)
    name = type(solver).__name__
    real_number(name, "tolerance", solver.tolerance, at_least=0, at_most=1)
    if isinstance(solver, LevenbergMarquardt):
        whole_number(name, "trust", solver.trust, at_least=0)
        real_number(name, "first", solver.first, above=0)
        real_number(name, "factor", solver.factor, above=1)
        real_number(name, "last", solver.last, at_least=solver.first)


def check_common(owner: str, throw: Any, callback: Any) -> None:
    """What `solve` and `learn` share."""
    truth(owner, "throw", throw)
    if callback is not None:
        function(owner, "callback", callback, "a function of a record")


def check_drawn(owner: str, problem: Problem, blocks: Any) -> None:
    """If points were drawn already, those of all conditions of the problem."""
    if not isinstance(blocks, tuple):
        return
    count = len(problem.conditions)
    if not all(isinstance(block, Collocation) for block in blocks) or len(blocks) != count:
        raise InputError(
            f"{owner}: points must be a dictionary, or the tuple of {count} that problem.collocate "
            f"returns; got {len(blocks)}: {shown(blocks)}."
        )
    dimension = len(problem.space.coordinates)
    conditions = zip(problem.conditions, problem.residuals, blocks, strict=True)
    for condition, residual, block in conditions:
        if block.points.shape[1] != dimension or set(block.data) != set(residual.data):
            raise InputError(
                f"{owner}: the points of condition {condition.name!r} belong to another problem: "
                f"they have {block.points.shape[1]} coordinates and data {sorted(block.data)}."
            )


def _check_start(problem: Problem, points: Any, start: Any) -> None:
    if isinstance(start, Solution | Mapping):
        return
    sizes = [len(residual.nonlinear_terms) for residual in problem.residuals]
    if not isinstance(start, tuple | list) or len(start) != len(sizes):
        raise InputError(
            "solve: start must be a Solution, functions of a point as in {'u': lambda x: x[0]}, or "
            f"{len(sizes)} arrays, one per condition; got {shown(start)}."
        )
    for n, (condition, entries, size) in enumerate(
        zip(problem.conditions, start, sizes, strict=True)
    ):
        rows = _rows(problem, n, points)
        if np.ndim(entries) != 2 or np.shape(entries)[1] != size or len(entries) not in (rows,):
            raise InputError(
                f"solve: start for condition {condition.name!r} must have shape ({rows}, {size}), "
                f"a row per point and a column per nonlinear term; got {np.shape(entries)}."
            )


def _rows(problem: Problem, n: int, points: Any) -> int | None:
    """How many points a condition will have."""
    if isinstance(points, tuple):
        return len(points[n].points)
    condition = problem.conditions[n]
    asked = points.get(condition.name) if isinstance(points, Mapping) else None
    if asked is not None:
        # What is no number is refused where the points are drawn.
        return len(asked) if np.ndim(asked) else asked if isinstance(asked, int) else None
    own = getattr(condition.region, "points", None)
    return None if own is None else int(np.prod(np.shape(own)[:-1]))


def earlier(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the first edition as those of today."""
    given = linear_solver_named(owner, given)
    given = with_mesh(owner, renamed(owner, given, {"method": "solver", "blocks": "points"}))
    if "tolerance" not in given:
        return given
    tolerance = given.pop("tolerance")
    new = f"{owner}(solver=LevenbergMarquardt(tolerance=...))"
    warn_moved(f"{owner}(tolerance=...)", new)
    solver = given.get("solver") or LevenbergMarquardt()
    return given | {"solver": dataclasses.replace(solver, tolerance=tolerance)}


def linear_solver_named(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """`solver=Dense()` was what is `linear_solver=Dense()` now."""
    linear = isinstance(given.get("solver"), LinearSolver)
    return renamed(owner, given, {"solver": "linear_solver"} if linear else {})


def with_mesh(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """Devices were an argument; they belong to the linear solver."""
    if "mesh" not in given:
        return given
    mesh = given.pop("mesh")
    warn_moved(f"{owner}(mesh=...)", f"{owner}(linear_solver=Automatic(mesh=...))")
    solver = given.get("linear_solver") or Automatic()
    if mesh is None or isinstance(solver, Dense):
        return given
    return given | {"linear_solver": dataclasses.replace(solver, mesh=mesh)}
