"""What `solve` is given, checked before anything is computed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh

from kernelpde.checking import function, instance, real_number, shown, truth, whole_number
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
    blocks: Any,
    start: Any,
    solver: Any,
    linear_solver: Any,
    mesh: Any,
    tolerance: Any,
    max_steps: Any,
    throw: Any,
    callback: Any,
) -> None:
    """Refuse arguments of the wrong make; `points`, `seed` and `sampling` are for `collocate`."""
    if isinstance(problem, Discretization):
        others = {"points": points, "blocks": blocks, "linear_solver": linear_solver, "mesh": mesh}
        for name, given in others.items():
            if given is not None:
                raise InputError(
                    f"solve: a Discretization comes with its {name}; give {name} to "
                    "kernelpde.discretize instead."
                )
        blocks, problem = problem.blocks, problem.problem
    check_problem("solve", problem)
    if points is not None and blocks is not None:
        raise InputError("solve: expected points, or blocks drawn from them; got both.")
    if blocks is not None:
        _check_blocks(problem, blocks)
    check_solver("solve", solver)
    check_linear_solver("solve", "linear_solver", linear_solver)
    check_common("solve", mesh, throw, callback)
    real_number("solve", "tolerance", tolerance, at_least=0, at_most=1)
    whole_number("solve", "max_steps", max_steps, at_least=1)
    if start is not None:
        _check_start(problem, points, blocks, start)


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
    if isinstance(solver, LevenbergMarquardt):
        name = "LevenbergMarquardt"
        whole_number(name, "trust", solver.trust, at_least=0)
        real_number(name, "first", solver.first, above=0)
        real_number(name, "factor", solver.factor, above=1)
        real_number(name, "last", solver.last, at_least=solver.first)


def check_common(owner: str, mesh: Any, throw: Any, callback: Any) -> None:
    """What `solve` and `learn` share."""
    if mesh is not None:
        instance(owner, "mesh", mesh, Mesh, 'a mesh such as jax.make_mesh((8,), ("rows",))')
    truth(owner, "throw", throw)
    if callback is not None:
        function(owner, "callback", callback, "a function of a record")


def _check_blocks(problem: Problem, blocks: Any) -> None:
    expected = f"{len(problem.conditions)} blocks from problem.collocate"
    if not isinstance(blocks, tuple | list) or not all(isinstance(b, Collocation) for b in blocks):
        raise InputError(f"solve: blocks must be {expected}; got {shown(blocks)}.")
    if len(blocks) != len(problem.conditions):
        raise InputError(f"solve: blocks must be {expected}; got {len(blocks)}.")
    dimension = len(problem.space.coordinates)
    for condition, block in zip(problem.conditions, blocks, strict=True):
        if block.points.shape[1] != dimension or set(block.data) != set(condition.data):
            raise InputError(
                f"solve: the block of condition {condition.name!r} belongs to another problem: it "
                f"has {block.points.shape[1]} coordinates and data {sorted(block.data)}."
            )


def _check_start(problem: Problem, points: Any, blocks: Any, start: Any) -> None:
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
        rows = _rows(problem, n, points, blocks)
        if np.ndim(entries) != 2 or np.shape(entries)[1] != size or len(entries) not in (rows,):
            raise InputError(
                f"solve: start for condition {condition.name!r} must have shape ({rows}, {size}), "
                f"a row per point and a column per nonlinear term; got {np.shape(entries)}."
            )


def _rows(problem: Problem, n: int, points: Any, blocks: Any) -> int | None:
    """How many points a condition will have."""
    if blocks is not None:
        return len(blocks[n].points)
    condition = problem.conditions[n]
    asked = points.get(condition.name) if isinstance(points, Mapping) else None
    if asked is not None:
        # What is no number is refused where the points are drawn.
        return len(asked) if np.ndim(asked) else asked if isinstance(asked, int) else None
    own = getattr(condition.region, "points", None)
    return None if own is None else int(np.prod(np.shape(own)[:-1]))


def moved(name: str, value: Any) -> str | None:
    """The new name of an argument of the first edition, for `renamed`."""
    if name == "solver":
        return "linear_solver" if isinstance(value, LinearSolver) else None
    return {"method": "solver", "final_solver": "final_linear_solver"}.get(name)
