"""Solving a problem with given points, or to an accuracy."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from kernelpde.adaptive._accuracy import Accuracy, checked
from kernelpde.adaptive._counts import counts
from kernelpde.adaptive._grading import graded, places_of
from kernelpde.adaptive._uncertainty import error_in_std
from kernelpde.deprecation import adapted
from kernelpde.errors import SolveError
from kernelpde.gauss_newton import (
    RESULTS,
    Discretization,
    Points,
    Solution,
    Solver,
    Start,
    code_of,
    earlier,
)
from kernelpde.gauss_newton import solve as solve_at_points
from kernelpde.geometry import Places
from kernelpde.learning import Bilevel, FinalSolve, Parameters, learn, resolved
from kernelpde.linear_solvers import LinearSolver
from kernelpde.problem import Collocation, Problem

_FIRST = {1: 12.0, 2: 7.0, 3: 4.5}
"""Points along each coordinate on the first level, by the dimension; 3 beyond. So few that many
lengthscales can be tried."""

_MORE = 2.0
"""Growth of the number of points from level to level."""

_STEPS = 4
"""Steps of learning on a level that begins with the kernels of the last."""

_ARITHMETIC = 1000
"""With more rows than this in training a level takes the time of its factorizations, which grows
with the cube of their number; with fewer that of compilation and Python, which hardly grows."""

_SLOW = 0.3
"""A level that leaves more than this of the estimated error, or has not converged, is followed by
grading, if there are places to grade towards. Smooth solutions leave a tenth or less."""

_LEARNED = 1000
"""With more rows than this in training kernels are kept as the last level has learned them."""

_PROGRESS = 0.9
"""A level that leaves more of the estimated error than this has gained nothing; after two of them
more points do not help."""


@adapted(earlier)
def solve(
    problem: Problem | Discretization,
    points: Points | None = None,
    *,
    accuracy: float | Accuracy | None = None,
    inputs: Mapping[str, Any] | None = None,
    start: Start | tuple[Array, ...] | None = None,
    seed: int = 0,
    sampling: str = "halton",
    solver: Solver | None = None,
    linear_solver: LinearSolver | None = None,
    max_steps: int = 50,
    throw: bool = True,
    callback: Callable[[Any], None] | None = None,
) -> Solution:
    """Find the fields of minimum norm that satisfy the conditions of a problem at points.

    Minimizes the RKHS norm ‖u‖² subject to F(u) = 0 at the points, or with noisy conditions
    ½ ‖u‖² + ½ Σ Fᵢ² / σᵢ², by Gauss-Newton steps.

    Solves either at given points with the given kernels, or to a given accuracy: then kernels are
    learned and the number of points is doubled until the estimated error is below it.

    **Arguments:**

    - `problem`: fields with their kernels, and conditions; or a `Discretization`, which includes
      points and a linear solver.
    - `points`: for each condition the number of points to draw, or an array of points; or the
      result of `problem.collocate`.
    - `accuracy`: instead of points, the root mean square error of each field, relative to the
      root mean square of the field; `Accuracy(1e-6, at_most=60.0)` for at most a minute; with noisy
      data `Accuracy(std=0.2)`, in posterior standard deviations of each unknown.
    - `inputs`: values that replace some of the inputs of the problem.
    - `start`: initial guess: a solution of a problem with the same fields, at any points; or for
      some fields a function of a point, `{"u": lambda x: x[0] ** 2}`; or nonlinear jet entries at
      the points of each condition. Zero by default.
    - `seed`: of the random points.
    - `sampling`: how to draw them, one of `kernelpde.geometry.METHODS`. The default is evenly
      spread; the paper uses `"uniform"`, which costs about a factor of two in accuracy.
    - `solver`: `LevenbergMarquardt()` by default; `GaussNewton()` for undamped steps. It sets the
      tolerance.
    - `linear_solver`: sets nugget and refinement; `Automatic()` by default, which is `Dense()` up
      to 6000 rows.
    - `max_steps`: maximum number of steps, each with one factorization; with an accuracy, for the
      solve of each level.
    - `throw`: raise `SolveError` if the iteration does not converge or the accuracy is not reached,
      instead of returning the solution so far.
    - `callback`: called with a `Record` after every step; with an accuracy, with every
      `LearningRecord` of a level, and then with the records of its solve.

    **Returns:**

    A `Solution`. Inside `jax.jit`, `jax.vmap` and `jax.grad` it consists of traced arrays: its
    fields, `parameters` and `converged` can be used as usual. Derivatives with respect to inputs,
    data and kernel hyperparameters are computed by the implicit function theorem.

    **Example:**

    ```python
    >>> coarse = kp.solve(problem, accuracy=1e-4)
    >>> coarse.converged, bool(coarse.error_estimate["u"].rms < 1e-4)
    (True, True)
    ```
    """
    if accuracy is None:
        return solve_at_points(
            problem,
            points,
            inputs=inputs,
            start=start,
            seed=seed,
            sampling=sampling,
            solver=solver,
            linear_solver=linear_solver,
            max_steps=max_steps,
            throw=throw,
            callback=callback,
        )
    asked = Accuracy.of(accuracy)
    problem, start = checked(problem, asked, points, inputs, start)
    final = FinalSolve(linear_solver=linear_solver, max_steps=max_steps)
    ways = _Ways(Bilevel(solver=solver, final=final), seed, sampling, callback)
    solution = _levels(problem, asked, ways, start)
    if throw and not solution.converged:
        raise SolveError(str(solution), solution)
    return solution


class _Ways(NamedTuple):
    """How each level is learned and solved."""

    method: Bilevel
    seed: int
    sampling: str
    callback: Callable[[Any], None] | None


def _levels(
    problem: Problem,
    asked: Accuracy,
    ways: _Ways,
    start: Start | None,
) -> Solution:
    """From few points to many, until the estimated error is as small as was asked for."""
    dimension = len(problem.space.coordinates)
    along, begun = _FIRST.get(dimension, 3.0), time.perf_counter()
    best: Solution | None = None
    rank, tried = (True, np.inf), list[str]()
    first, idle, lowest = True, 0, np.inf
    places = places_of(problem) if asked.relative is not None else Places.none()
    while True:
        started = time.perf_counter()
        wanted = counts(problem, along)
        drawn = problem.collocate(wanted, seed=ways.seed, sampling=ways.sampling)
        rows = problem.row_count(drawn)
        held = not Parameters.of(problem.kernels, problem.noises).vector.size
        # As many as training and validation points together.
        finer = counts(problem, along * 2.0 ** (1.0 / dimension))
        growth = sum(finer.values()) / max(1, sum(wanted.values()))
        if not held and (first or rows <= _LEARNED):
            finer, growth = None, 2.0
        if best is not None and growth * rows > asked.max_rows:
            why = f"a further level may have more than {asked.max_rows} rows (max_rows)"
            return _limited(best, asked, why, tried)
        level = _level(problem, drawn, finer, ways, start, first)
        error = _error(level, asked)
        if level.converged and error <= _wanted(asked):
            return _with_reason(level, f"{_goal(asked)} was asked for, and is reached.")
        slow = best is not None and not (level.converged and error < _SLOW * lowest)
        if level.converged:
            # What is estimated of others means little: these only need more points.
            idle = 0 if error < _PROGRESS * lowest else idle + 1
            lowest, start = min(lowest, error), level
        said = "" if level.converged else " (not converged)"
        tried.append(f"{problem.row_count(level.blocks)} rows {error:.0e}{said}")
        found = _rank(level, error)
        if best is None or found < rank:
            best, rank = level, found
        if slow and len(places.points):
            problem = graded(problem, places, _wanted(asked))
            places, first, idle, lowest = Places.none(), True, 0, np.inf
        else:
            problem, first = (level.problem, False) if level.converged else (problem, first)
        if idle >= 2:
            why = "more points do not help, by rounding or by the kernel"
            return _limited(best, asked, why, tried)
        if not wanted:
            return _limited(best, asked, "every condition comes with its points", tried)
        along *= _MORE ** (1.0 / dimension)
        now = time.perf_counter()
        longer = _MORE**3 if rows > _ARITHMETIC else _MORE
        if asked.at_most is not None and now - begun + longer * (now - started) > asked.at_most:
            why = f"a further level may take longer than {asked.at_most:g} s (at_most)"
            return _limited(best, asked, why, tried)


def _level(
    problem: Problem,
    drawn: tuple[Collocation, ...],
    finer: dict[str, int] | None,
    ways: _Ways,
    start: Start | None,
    first: bool,
) -> Solution:
    """Learn and solve; only solve, if hyperparameters are held or have been learned well enough.

    - `drawn`: points to learn with.
    - `finer`: numbers of points if there is nothing to learn.
    - `first`: whether nothing is known of the kernels, so that several have to be tried.
    """
    method, seed, sampling, callback = ways
    method = replace(method, multistart=first)
    if finer is not None:
        found = _solved(problem, finer, start, ways)
        return found if first else resolved(found, lambda p, s: _solved(p, s.blocks, s, ways))
    learned = learn(
        problem,
        drawn,
        method=method,
        start=start,
        seed=seed,
        sampling=sampling,
        max_steps=None if first else _STEPS,
        throw=False,
        callback=callback,
    )
    assert learned.solution is not None
    if callback is not None:
        for record in learned.solution.history:
            callback(record)
    return learned.solution


def _solved(problem: Problem, points: Points, start: Start | None, ways: _Ways) -> Solution:
    """With the kernels as they are."""
    return solve_at_points(
        problem,
        points,
        start=start,
        seed=ways.seed,
        sampling=ways.sampling,
        solver=ways.method.solver,
        linear_solver=ways.method.final.linear_solver,
        max_steps=ways.method.final.max_steps,
        throw=False,
        callback=ways.callback,
    )


def _wanted(asked: Accuracy) -> float:
    return asked.std if asked.relative is None else asked.relative


def _error(solution: Solution, asked: Accuracy) -> float:
    """The estimated error in the units that it was asked for in."""
    relative = asked.relative is not None
    return solution.error_estimate.largest if relative else error_in_std(solution)


def _rank(level: Solution, error: float) -> tuple[bool, float]:
    """How far from the goal a level is; lower is better.

    Estimates mean little where a solution has not converged: one that does not meet its equations
    by a half between the points is not near the true one, whatever others say.
    """
    between = [0.0 if size is None else float(size) for size in level.between.values()]
    return (False, error) if level.converged else (True, max(error, *between, 0.0))


def _limited(best: Solution, asked: Accuracy, why: str, tried: list[str]) -> Solution:
    """The best solution, with a result that says that it is not as good as asked for."""
    code = code_of(RESULTS.accuracy_limit) if best.converged else best.code
    solution = replace(best, code=code)
    vars(solution)["error_estimate"] = best.error_estimate
    said = f"{_goal(asked)} was asked for, and is not reached: {why}."
    if len(tried) > 1:
        said += f" Estimated by level: {', '.join(tried)}."
    return _with_reason(solution, said)


def _goal(asked: Accuracy) -> str:
    return f"{asked.relative:.0e}" if asked.relative else f"{asked.std:g} std"


def _with_reason(solution: Solution, reason: str) -> Solution:
    estimate = solution.error_estimate
    said = f"{reason} {estimate.reason}".strip()
    vars(solution)["error_estimate"] = replace(estimate, reason=said)
    return solution
