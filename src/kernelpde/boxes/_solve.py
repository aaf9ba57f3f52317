"""`solve_in_boxes`: adaptive boxes with local kernels, to a target accuracy."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from kernelpde.boxes._basis import LocalField
from kernelpde.boxes._checks import check_arguments
from kernelpde.boxes._level import Level, initial_boxes, refine, solve_level
from kernelpde.boxes._rows import Frame, PointValues
from kernelpde.boxes._solution import BoxLevel, BoxSolution, physical_boxes
from kernelpde.errors import SolveError
from kernelpde.precision import require_float64
from kernelpde.problem import Problem
from kernelpde.results import RESULTS
from kernelpde.solution import FieldSource

_MAX_RESOLVED_ERROR = 0.05
"""Largest estimated error, relative to the root mean square of the field, of a resolved level.
Coarse levels of a shock have small residuals and no shock; their estimates are 0.1 and more."""

_COST_EXPONENT = 3.0
"""Exponent of the time of a level in its number of rows, for the prediction of the next level."""

BoxStart = FieldSource | Mapping[str, Callable[[Any], Any]]
"""An initial guess: any solution with the same field, or a function of a point for it."""


class _Limits(NamedTuple):
    """Requested accuracy and limits of the refinement."""

    accuracy: float
    max_rows: int
    deadline: float


def solve_in_boxes(
    problem: Problem,
    accuracy: float,
    *,
    start: BoxStart | None = None,
    seed: int | None = None,
    max_rows: int = 5000,
    max_seconds: float | None = None,
    throw: bool = True,
    callback: Callable[[BoxLevel], bool | None] | None = None,
) -> BoxSolution:
    """Solve a problem with kinks, layers or fronts to a target accuracy.

    Adapts boxes to the field, each with a Matérn kernel whose lengthscales are proportional to the
    box. The kernels of the fields have no effect. Minimizes robustly weighted residuals by
    Gauss-Newton steps. Boxes with large residuals at test points are halved, along one coordinate
    if the field varies much less along the other.

    **Arguments:**

    - `problem`: problem with one real field in one or two coordinates, without noise, and
      with equations of order two or less.
    - `accuracy`: root mean square error relative to the root mean square of the field.
    - `start`: initial guess: any solution with a field of the same name, or functions of a point,
      `{"u": lambda x: x[0] ** 2}`. Zero by default. Pseudo-time steps of nonlinear problems lead to
      solutions that are stable in time.
    - `seed`: seed of random displacements of points and kernels, for another point set of the same
      quality; none by default.
    - `max_rows`: maximum number of rows of the least-squares problems. The first level is small and
      always solved.
    - `max_seconds`: time limit in seconds. A level that would exceed it is not started.
    - `throw`: raise `SolveError` if the accuracy is not reached, instead of returning the solution.
    - `callback`: called with a `BoxLevel` after every level. If it returns True, the refinement
      ends.

    **Returns:**

    A `BoxSolution`. Its result is `not_resolved` if a layer is narrower than its boxes, since then
    no error estimate is reliable.
    """
    require_float64()
    check_arguments(problem, accuracy, start, seed, max_rows, max_seconds, throw, callback)
    start_time = time.perf_counter()
    deadline = np.inf if max_seconds is None else start_time + max_seconds
    limits = _Limits(float(accuracy), max_rows, deadline)
    initial = None if start is None else _initial_values(problem, start)
    solution = _refine(problem, limits, initial, seed, callback, start_time)
    if throw and not solution.converged:
        raise SolveError(str(solution), solution)
    return solution


def _initial_values(problem: Problem, start: BoxStart) -> PointValues:
    """Return the values of an initial guess as a function of points."""
    (name,) = (field.name for field in problem.fields)
    view = start[name]
    evaluate = jax.vmap(view) if isinstance(start, Mapping) else view
    return lambda points: np.asarray(evaluate(np.asarray(points)), dtype=float)


def _refine(
    problem: Problem,
    limits: _Limits,
    initial: PointValues | None,
    seed: int | None,
    callback: Callable[[BoxLevel], bool | None] | None,
    start_time: float,
) -> BoxSolution:
    """Solve on smaller and smaller boxes until the estimated error is below the accuracy."""
    frame = Frame.from_problem(problem)
    rng = None if seed is None else np.random.default_rng(seed)
    boxes = initial_boxes(problem, frame, limits.max_rows)
    is_transient, records, previous = True, (), None
    while True:
        level_start = time.perf_counter()
        level = solve_level(problem, frame, boxes, previous or initial, is_transient, rng)
        solution = _to_solution(level, previous, records, limits, start_time)
        records = solution.levels
        is_stopped = callback is not None and callback(records[-1]) is True
        if solution.converged or not level.is_finite:
            return solution
        if is_stopped:
            return replace(solution, result=RESULTS.stopped, limit="")
        next_boxes = refine(level, limits.max_rows)
        if next_boxes is None:
            limit = f"a further level may have more than {limits.max_rows} rows (max_rows)"
            return _with_limit(solution, limits, limit)
        now = time.perf_counter()
        cost = (now - level_start) * (len(next_boxes) / len(boxes)) ** _COST_EXPONENT
        if now + cost > limits.deadline:
            limit = "a further level may exceed the time limit (max_seconds)"
            return _with_limit(solution, limits, limit)
        boxes, previous, is_transient = next_boxes, level.field, not level.has_small_residuals


def _with_limit(solution: BoxSolution, limits: _Limits, limit: str) -> BoxSolution:
    return replace(
        solution, limit=f"Accuracy {limits.accuracy:.0e} requested, not reached: {limit}."
    )


def _to_solution(
    level: Level,
    previous: LocalField | None,
    records: tuple[BoxLevel, ...],
    limits: _Limits,
    start_time: float,
) -> BoxSolution:
    """Return the solution of a level with its estimated error and its result."""
    corrected = level.field if previous is None else level.corrected()
    lower, sizes = physical_boxes(level.frame, level.boxes)
    solution = BoxSolution(
        level.problem,
        level.field,
        previous,
        corrected,
        lower,
        sizes,
        level.test_points,
        level.test_areas,
        level.test_values,
    )
    (error,) = solution.error_estimate.values()
    is_resolved = level.is_stationary and error.rms <= _MAX_RESOLVED_ERROR
    record = BoxLevel(
        level.num_rows,
        len(level.boxes),
        level.num_steps,
        level.relative_indicator,
        error.rms,
        error.max,
        is_resolved,
        time.perf_counter() - start_time,
    )
    result = RESULTS.accuracy_not_reached if is_resolved else RESULTS.not_resolved
    if not level.is_finite:
        result = RESULTS.not_finite
    elif is_resolved and error.rms <= limits.accuracy:
        result = RESULTS.converged
    return replace(solution, levels=(*records, record), result=result)
