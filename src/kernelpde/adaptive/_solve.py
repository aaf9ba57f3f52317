"""`solve` at given points, or to a target accuracy by refinement in levels."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from kernelpde.adaptive._accuracy import Accuracy, check_arguments
from kernelpde.adaptive._counts import points_per_condition
from kernelpde.adaptive._grading import grade_problem, grading_centers
from kernelpde.adaptive._uncertainty import error_over_posterior_std
from kernelpde.boxes import is_supported
from kernelpde.errors import SolveError
from kernelpde.geometry import GradingCenters
from kernelpde.kernels import scale_lengthscales
from kernelpde.learning import Bilevel, FinalSolve, ThetaMap, learn, shorten_until_resolved
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import (
    AbstractNonlinearSolver,
    Discretization,
    Points,
)
from kernelpde.problem import PointSet, Problem, add_corner_functions
from kernelpde.results import RESULTS
from kernelpde.solution import Solution, Start
from kernelpde.solution import solve as solve_at_points

_INITIAL_POINTS_PER_AXIS = {1: 12.0, 2: 7.0, 3: 4.5}
"""Points along each coordinate on the first level by dimension, and 3 beyond. The first level tries
many lengthscales, so it has to be small."""

_REFINEMENT_FACTOR = 2.0
"""Growth of the number of points from level to level."""

_STEPS_PER_LEVEL = 4
"""Learning steps on a level that starts from the kernels of the previous one."""

_LEARNING_SHARE = 0.6
"""Share of the remaining time in which a level may learn. The rest is for its solve and the error
estimate. It trades lengthscales that are not compared for a level that is lost; not tuned."""

_MAX_LEARNING_ROWS = 1000
"""Number of training rows above which the kernels of the previous level are kept."""

_SLOW_RATIO = 0.3
"""Ratio of estimated errors of successive levels above which the problem is graded, if it has
grading centers. Smooth solutions have a ratio of a tenth or less."""

_STAGNATION_RATIO = 0.9
"""Ratio of estimated errors above which a level stagnates."""

_SHORTENING = 0.7
"""Factor of lengthscales that are too long, the inverse of the one in error estimates."""

_IMPROVEMENT = 0.7
"""Ratio of estimated errors below which shorter lengthscales are accepted. At half of it fewer
levels are saved; near one, the smaller of two equal estimates is chosen, which is too low."""

_MAX_STAGNANT_LEVELS = 2
"""Number of successive stagnant levels that end the refinement."""

_MIN_BOX_ACCURACY = 1e-5
"""Target above which a message mentions adaptive boxes. With thousands of rows they reach 1e-4 to
1e-5 on kinks and layers."""


def solve(
    problem: Problem | Discretization,
    points: Points | None = None,
    *,
    accuracy: float | Accuracy | None = None,
    inputs: Mapping[str, Any] | None = None,
    start: Start | tuple[Array, ...] | None = None,
    seed: int = 0,
    sampling: str = "halton",
    solver: AbstractNonlinearSolver | None = None,
    linear_solver: LinearSolver | None = None,
    max_steps: int = 50,
    throw: bool = True,
    callback: Callable[[Any], bool | None] | None = None,
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
      root mean square of the field; `Accuracy(1e-6, max_seconds=60.0)` for at most a minute; with
      noisy data `Accuracy(posterior_std=0.2)`, in posterior standard deviations of each unknown.
    - `inputs`: values that replace some of the inputs of the problem.
    - `start`: initial guess: a solution of a problem with the same fields, at any points; or for
      some fields a function of a point, `{"u": lambda x: x[0] ** 2}`; or nonlinear jet entries at
      the points of each condition. Zero by default.
    - `seed`: seed of the random points.
    - `sampling`: sampling method, one of `kernelpde.geometry.METHODS`. The default is evenly
      spread; the paper uses `"uniform"`, which costs about a factor of two in accuracy.
    - `solver`: `LevenbergMarquardt()` by default; `GaussNewton()` for undamped steps. It sets the
      tolerance.
    - `linear_solver`: sets nugget and refinement; `Automatic()` by default, which is `Dense()` up
      to 6000 rows.
    - `max_steps`: maximum number of steps, each with one factorization; with an accuracy, for the
      solve of each level.
    - `throw`: raise `SolveError` if the iteration does not converge or the accuracy is not reached,
      instead of returning the solution so far.
    - `callback`: called with a `SolveRecord` after every step; with an accuracy, also with every
      `LearningRecord` of a level. If it returns True, the iteration ends with its best iterate.

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
    settings = _LevelSettings(seed, sampling, solver, linear_solver, max_steps, callback)
    if accuracy is None:
        options = settings._asdict()
        return solve_at_points(problem, points, inputs=inputs, start=start, throw=throw, **options)
    target = Accuracy.from_value(accuracy)
    problem, start = check_arguments(problem, target, points, inputs, start)
    if target.relative is not None:
        problem = add_corner_functions(problem)
    solution = _solve_adaptively(problem, target, settings, start)
    if throw and not solution.converged:
        raise SolveError(str(solution), solution)
    return solution


class _LevelSettings(NamedTuple):
    """Settings that all levels share."""

    seed: int
    sampling: str
    solver: AbstractNonlinearSolver | None
    linear_solver: LinearSolver | None
    max_steps: int
    callback: Callable[[Any], bool | None] | None

    def until_stopped(self) -> "_LevelSettings":
        """Return the settings with a callback that returns True from its first True on."""
        is_stopped = False

        def stop(record: Any) -> bool:
            nonlocal is_stopped
            is_stopped |= self.callback is not None and self.callback(record) is True
            return is_stopped

        return self._replace(callback=stop)

    def until(self, deadline: float) -> "_LevelSettings":
        """Return the settings with a callback that stops at a time of `time.perf_counter`."""

        def stop(record: Any) -> bool:
            is_stopped = self.callback is not None and self.callback(record) is True
            return is_stopped or time.perf_counter() >= deadline

        return self._replace(callback=stop)

    def solve(self, problem: Problem, points: Points, start: Start | None) -> Solution:
        """Solve with the current kernels."""
        return solve_at_points(problem, points, start=start, throw=False, **self._asdict())


@dataclass
class _Progress:
    """Progress of the refinement.

    **Attributes:**

    - `best`, `sort_key`: best solution so far; see `_sort_key`.
    - `best_error`: smallest estimated error of a converged level with the current grading.
    - `stagnant_levels`: number of successive levels without progress.
    - `level_log`: rows and estimated error of each level.
    """

    best: Solution | None = None
    sort_key: tuple[bool, float] = (True, np.inf)
    best_error: float = np.inf
    stagnant_levels: int = 0
    level_log: list[str] = field(default_factory=list)

    def add(self, level: Solution, error: float) -> bool:
        """Add a level; return whether it made little progress."""
        is_slow = self.best is not None and not (
            level.converged and error < _SLOW_RATIO * self.best_error
        )
        # Estimates of solutions that have not converged do not indicate stagnation.
        if level.converged:
            is_stagnant = not error < _STAGNATION_RATIO * self.best_error
            self.stagnant_levels = self.stagnant_levels + 1 if is_stagnant else 0
            self.best_error = min(self.best_error, error)
        suffix = "" if level.converged else " (not converged)"
        rows = level.problem.at_points(level.point_sets).num_rows
        self.level_log.append(f"{rows} rows {error:.0e}{suffix}")
        sort_key = _sort_key(level, error)
        if self.best is None or sort_key < self.sort_key:
            self.best, self.sort_key = level, sort_key
        return is_slow

    def best_effort(self, target: Accuracy, limit: str) -> Solution:
        """Return the best solution, with a result and a message that explain the limit."""
        best = self.best
        assert best is not None
        code = RESULTS.accuracy_not_reached.code
        solution = replace(best, result_code=code if best.converged else best.result_code)
        vars(solution)["error_estimate"] = best.error_estimate
        message = f"Accuracy {target} requested, not reached: {limit}."
        if len(self.level_log) > 1:
            message += f" Estimated errors by level: {', '.join(self.level_log)}."
        if (target.relative or 0.0) >= _MIN_BOX_ACCURACY and is_supported(best.problem):
            message += (
                f" For kinks and layers use kernelpde.boxes.solve_in_boxes(problem, {target})."
            )
        return _with_message(solution, message)


def _solve_adaptively(
    problem: Problem, target: Accuracy, settings: _LevelSettings, start: Start | None
) -> Solution:
    """Refine the points until the estimated error is below the target."""
    dimension = len(problem.space.coordinates)
    points_per_axis = _INITIAL_POINTS_PER_AXIS.get(dimension, 3.0)
    # A callback that ends learning ends the solve of the level and the refinement as well.
    settings = settings.until_stopped()
    deadline, progress, compares = np.inf, _Progress(), True
    if target.max_seconds is not None:
        deadline = time.perf_counter() + target.max_seconds
    centers = grading_centers(problem) if target.relative is not None else GradingCenters.empty()
    while True:
        counts = points_per_condition(problem, points_per_axis)
        points = problem.collocate(counts, seed=settings.seed, sampling=settings.sampling)
        rows = problem.at_points(points).num_rows
        is_frozen = not ThetaMap.of(problem.prior, problem.noises).vector.size
        if not is_frozen and (compares or rows <= _MAX_LEARNING_ROWS):
            solve_counts, row_growth = None, 2.0
        else:
            # As many points as training and validation points of a learning level.
            solve_counts = points_per_condition(problem, points_per_axis * 2.0 ** (1.0 / dimension))
            row_growth = sum(solve_counts.values()) / max(1, sum(counts.values()))
        if progress.best is not None and row_growth * rows > target.max_rows:
            limit = f"a further level may have more than {target.max_rows} rows (max_rows)"
            return progress.best_effort(target, limit)
        # The first level is small, and its solve is the least that is returned.
        limited = settings if progress.best is None else settings.until(deadline)
        now = time.perf_counter()
        learning = settings.until(now + _LEARNING_SHARE * (deadline - now))
        level = _solve_level(problem, points, solve_counts, limited, learning, start, compares)
        limit = "the time limit (max_seconds) or the callback ended a level"
        if level.result is RESULTS.stopped and progress.best is not None:
            return progress.best_effort(target, limit)
        level, error = _shorten(level, target, limited)
        if level.converged and error <= target.target_error:
            return _with_message(level, f"Accuracy {target} requested and reached.")
        is_slow = progress.add(level, error)
        if level.converged:
            start = level
        if is_slow and len(centers.points):
            problem = grade_problem(problem, centers, target.target_error)
            centers, compares = GradingCenters.empty(), True
            progress.stagnant_levels, progress.best_error = 0, np.inf
        elif level.converged:
            # Lengthscales learned from few points may be far from those that suit more points.
            problem, compares = level.problem, is_slow and 2 * rows <= _MAX_LEARNING_ROWS
        if progress.stagnant_levels >= _MAX_STAGNANT_LEVELS:
            limit = "more points do not help, because of rounding or the kernel"
            return progress.best_effort(target, limit)
        if not counts:
            return progress.best_effort(target, "all conditions have user-supplied points")
        points_per_axis *= _REFINEMENT_FACTOR ** (1.0 / dimension)
        if time.perf_counter() >= deadline or level.result is RESULTS.stopped:
            return progress.best_effort(target, limit)


def _solve_level(
    problem: Problem,
    points: tuple[PointSet, ...],
    solve_counts: dict[str, int] | None,
    settings: _LevelSettings,
    learning: _LevelSettings,
    start: Start | None,
    compares: bool,
) -> Solution:
    """Learn the kernels at points and solve, or solve only, with `solve_counts` points.

    **Arguments:**

    - `compares`: whether learning compares several lengthscales, as on the first level and after
      one with little progress.
    """
    if solve_counts is not None:
        solution = settings.solve(problem, solve_counts, start)
        if compares:
            return solution
        return shorten_until_resolved(
            solution, lambda shorter, s: settings.solve(shorter, s.point_sets, s)
        )
    final = FinalSolve(
        linear_solver=settings.linear_solver,
        max_steps=settings.max_steps,
        callback=settings.callback,
    )
    result = learn(
        problem,
        points,
        method=Bilevel(solver=settings.solver, multistart=compares, final=final),
        start=start,
        seed=settings.seed,
        sampling=settings.sampling,
        max_steps=None if compares else _STEPS_PER_LEVEL,
        throw=False,
        callback=learning.callback,
    )
    return result.solution


def _shorten(level: Solution, target: Accuracy, settings: _LevelSettings) -> tuple[Solution, float]:
    """Shorten lengthscales at the same points while that reduces the estimated error.

    Lengthscales that are learned from half of the points are often too long for all of them.
    Returns the solution and its estimated error.
    """
    error = _error(level, target)
    while level.converged and target.relative is not None and error > target.relative:
        prior = scale_lengthscales(level.problem.prior, _SHORTENING, include_frozen=False)
        if prior is None or not level.error_estimate.is_shorter_closer:
            break
        shorter = settings.solve(level.problem.with_prior(prior), level.point_sets, level)
        shorter_error = _error(shorter, target)
        if not (shorter.converged and shorter_error < _IMPROVEMENT * error):
            break
        level, error = shorter, shorter_error
    return level, error


def _error(solution: Solution, target: Accuracy) -> float:
    """Return the estimated error in the units of the target."""
    if target.relative is None:
        return error_over_posterior_std(solution)
    return solution.error_estimate.largest


def _sort_key(level: Solution, error: float) -> tuple[bool, float]:
    """Return a key by which levels are sorted, the best first.

    The estimate of a solution that has not converged is unreliable, so its test residuals count as
    errors as well.
    """
    sizes = [0.0 if size is None else float(size) for size in level.test_residuals.values()]
    return (False, error) if level.converged else (True, max(error, *sizes, 0.0))


def _with_message(solution: Solution, message: str) -> Solution:
    """Put a message before the limitations of the error estimate."""
    estimate = solution.error_estimate
    message = f"{message} {estimate.message}".strip()
    vars(solution)["error_estimate"] = replace(estimate, message=message)
    return solution
