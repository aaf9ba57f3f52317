"""Follow a branch of solutions along a path of inputs, past folds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from kernelpde.arrays import TINY
from kernelpde.branches._bordered import BorderedProblem, Metric, Point
from kernelpde.branches._branch import Branch, Fold
from kernelpde.branches._path import Path
from kernelpde.checking import check_callable, check_integer, check_real
from kernelpde.errors import InputError
from kernelpde.linear_solvers import LinearSolver, Sparse
from kernelpde.nonlinear import Discretization, Points, discretize
from kernelpde.precision import require_float64
from kernelpde.problem import Problem
from kernelpde.results import RESULTS
from kernelpde.solution import (
    Solution,
    Start,
    check_linear_solver,
    check_problem,
    solve,
)

_TARGET_ERROR = 0.05
"""Wanted error of a prediction relative to its step, and wanted contraction of the first
Gauss-Newton step after it. On Bratu's problem and on two S-shaped branches, half of it takes up to
a quarter more points. Twice as much takes up to a tenth fewer, and rejects more of them."""

_MAX_ERROR = 0.5
"""Contraction, and error of a prediction relative to the previous step, above which a step is
rejected: the iteration may have converged to another branch. Half of it rejects one more step on
the branches above, and twice as much one less."""

_MIN_STEP = 1e-3
"""Length of a step, relative to the longest one so far, below which the branch ends. Such steps
only approach the point where a kernel cannot represent the solution. Half of it and twice as much
give the same branches."""

_FOLD_TOLERANCE, _MAX_FOLD_SOLVES = 1e-4, 8
"""Movement of the node of a fold, relative to the chord of the points that enclose it, at which it
is located, and limit of the solves for it. The value at a fold is stationary, so its error is the
square of the one of the node. With half or twice the tolerance, or twice the limit, folds of the
branches above agree to 1e-8. With half the limit they agree to 1e-4."""


def continuation(
    problem: Problem | Discretization,
    path: Mapping[str, Sequence[Any]],
    points: Points | None = None,
    *,
    step: float = 0.05,
    max_solutions: int = 60,
    start: Start | None = None,
    seed: int = 0,
    linear_solver: LinearSolver | None = None,
    callback: Callable[[float, Solution], None] | None = None,
) -> Branch:
    """Follow the solutions of a problem along a path of its inputs, past folds.

    With u the fields and s the position on the path, each step solves

        F(u, s) = 0,    ⟨t, (u, s) - (û, ŝ)⟩ = 0

    for u and s together. The prediction (û, ŝ) extrapolates the last three points, and t points to
    it from the last one. Where a branch turns back, these equations stay regular.

    The first solve determines the branch and is the same as by `solve`.

    **Arguments:**

    - `problem`: problem with inputs, or its discretization.
    - `path`: inputs at start and end, for example `{"lam": (0.0, 10.0)}`. Several inputs change
      together, each in proportion to the position.
    - `points`: as for `solve`.
    - `step`: first step, as a fraction of the path. Further steps follow the accuracy of the
      predictions.
    - `max_solutions`: maximum number of solutions besides the folds.
    - `start`: initial guess of the first solution, as for `solve`.
    - `seed`, `linear_solver`: as for `solve`.
    - `callback`: called with the value of the input and the solution of each point.

    **Returns:**

    A `Branch`. It ends at the end of the path, at its start, after `max_solutions`, or if no step
    succeeds. `branch.message` states the reason.

    **Example:**

    ```python
    >>> branch = kp.continuation(bratu, {"lam": (0.0, 2.0)}, points)
    >>> len(branch.at(1.5))
    1
    ```
    """
    require_float64()
    _check(problem, points, linear_solver, callback)
    step = check_real("continuation", "step", step, greater_than=0, at_most=1)
    max_solutions = check_integer("continuation", "max_solutions", max_solutions, at_least=2)
    if isinstance(problem, Discretization):
        course = Path.from_mapping(problem.problem, path)
        base = problem.current().with_inputs(course.start)
        linear_solver = problem.solver_state.solver
    else:
        check_problem("continuation", problem)
        course = Path.from_mapping(problem, path)
        base = discretize(
            problem.with_inputs(course.start), points, seed=seed, linear_solver=linear_solver
        )
    first = solve(base, start=start)
    walk = _Walk(BorderedProblem(base, course, first, linear_solver), first, callback)
    result = walk.run(step, max_solutions)
    message = result.value
    if result is RESULTS.step_too_small:
        message = f"{message} The last attempt ended with: {walk.last_message}"
    values, solutions = zip(*walk.branch, strict=True)
    return Branch(
        course.name, np.array(values), solutions, walk.folds, result, message, base, course
    )


def _check(problem: object, points: object, linear_solver: object, callback: object) -> None:
    check_linear_solver("continuation", "linear_solver", linear_solver)
    if callback is not None:
        check_callable("continuation", "callback", callback, "a function of value and solution")
    if isinstance(problem, Discretization):
        for name, value in {"points": points, "linear_solver": linear_solver}.items():
            if value is not None:
                raise InputError(
                    f"continuation: a Discretization comes with its {name}; got another one. Pass "
                    f"{name} to kernelpde.discretize instead."
                )
        linear_solver = problem.solver_state.solver
    if isinstance(linear_solver, Sparse):
        raise InputError(
            "continuation: Sparse does not support the row of the arclength, which couples all "
            "points; expected Dense(), LowRank() or Automatic()."
        )


class _Walk:
    """Walk along a branch, step by step.

    **Attributes:**

    - `points`: solved points besides the folds.
    - `branch`: value of the input and solution of all points, in the order of the branch.
    - `folds`: located folds.
    - `last_message`: message of the last corrector.
    """

    def __init__(
        self,
        problem: BorderedProblem,
        first: Solution,
        callback: Callable[[float, Solution], None] | None,
    ):
        self.problem, self.callback = problem, callback
        self.points: list[Point] = []
        self.branch: list[tuple[float, Solution]] = []
        self.folds: tuple[Fold, ...] = ()
        self.last_message = first.message
        self._append(problem.point(first, 0.0))

    def run(self, step: float, max_solutions: int) -> RESULTS:
        """Take steps until the branch ends.

        **Arguments:**

        - `step`: first step, as a fraction of the path.
        - `max_solutions`: maximum number of points.
        """
        ratio, shortest = step, _MIN_STEP * step
        while ratio >= shortest:
            if len(self.points) == max_solutions:
                return RESULTS.max_solutions_reached
            predicted, bound = self._predict(ratio)
            error, point = self._correct(predicted, bound)
            if point is not None and bound is None and _bound(point.position) is not None:
                # The prediction is on the path and the solution beyond its end.
                bound, pair = _bound(point.position), (self.points[-1], point)
                assert bound is not None
                predicted = _interpolate([p.position for p in pair], pair, bound)
                error, point = self._correct(predicted, bound)
            order = min(len(self.points), 3)
            if point is None or not self._append(point):
                ratio /= 2
                continue
            ratio = float(np.clip((_TARGET_ERROR / error) ** (1 / order), 0.5, 2.0))
            if bound is not None:
                return RESULTS.end_reached if bound == 1.0 else RESULTS.start_reached
            gaps = self._gaps()
            shortest = _MIN_STEP * max(gaps) / gaps[-1]
        return RESULTS.step_too_small

    def _gaps(self) -> list[float]:
        """Return the distances between successive points."""
        metric = Metric(self.points)
        return [metric.distance(*pair) for pair in pairwise(self.points)]

    def _append(self, point: Point) -> bool:
        """Append a point and the fold before it, unless that fold is beyond the end of the path."""
        points = [*self.points, point]
        before, middle, after = (p.position for p in [points[0], points[0], *points][-3:])
        fold = None
        if (middle - before) * (after - middle) < 0:
            fold = self._locate_fold(points)
        if fold is not None:
            fold_point, bordered, is_after_middle = fold
            if _bound(fold_point.position) is not None:
                return False
            value, solution = self._report(fold_point)
            self.folds = (*self.folds, Fold(value, solution, self.problem.path, bordered))
            self.branch.insert(len(self.branch) - (not is_after_middle), (value, solution))
        self.points = points
        self.branch.append(self._report(point))
        return True

    def _report(self, point: Point) -> tuple[float, Solution]:
        """Return the value of the input and the solution of a point, and call the callback."""
        assert point.solution is not None
        value = self.problem.path.value(point.position)
        if self.callback is not None:
            self.callback(value, point.solution)
        return value, point.solution

    def _predict(self, ratio: float) -> tuple[Point, float | None]:
        """Return the prediction of a step, and the end of the path if the step reaches it.

        **Arguments:**

        - `ratio`: length of the step relative to the last one; the first step is a fraction of the
          path.
        """
        last = self.points[-1]
        if len(self.points) == 1:
            position = min(ratio, 1.0)
            return replace(last, position=position), position if position == 1.0 else None
        recent, gaps = self.points[-3:], self._gaps()[-2:]
        nodes = (np.cumsum([0.0, *gaps]) - sum(gaps)).tolist()
        length = ratio * gaps[-1]
        predicted = _interpolate(nodes, recent, length)
        bound = _bound(predicted.position)
        if bound is None:
            return predicted, None
        # The fields at the end of the path; the position of the prediction may differ slightly.
        length *= (bound - last.position) / (predicted.position - last.position)
        return replace(_interpolate(nodes, recent, length), position=bound), bound

    def _correct(self, predicted: Point, bound: float | None) -> tuple[float, Point | None]:
        """Return the error of a prediction, and the corrected point if it is accepted."""
        metric, last = Metric(self.points), self.points[-1]
        if bound is not None or len(self.points) == 1:
            solution = self.problem.solve_at(predicted)
        else:
            direction = metric.vector(predicted) - metric.vector(last)
            direction /= np.linalg.norm(direction)
            solution = self.problem.correct(predicted, direction, metric)
        if not solution.converged:
            self.last_message = solution.message
            return np.inf, None
        contraction = _contraction([record.change for record in solution.history])
        if bound is not None or len(self.points) == 1:
            point = self.problem.point(solution, predicted.position)
        else:
            point = self.problem.accept(solution)
        error = acceptance = max(contraction, TINY)
        if len(self.points) > 1:
            # Relative to the step, the error of a direction remains however short the step is.
            miss = metric.distance(point, predicted)
            error = max(error, miss / metric.distance(predicted, last))
            acceptance = max(acceptance, miss / self._gaps()[-1])
        return error, point if acceptance <= _MAX_ERROR else None

    def _locate_fold(self, points: list[Point]) -> tuple[Point, Solution, bool] | None:
        """Solve at the point whose position is stationary, between the last three points.

        The position is interpolated by a polynomial over the chord of these points. Each solve at
        its stationary node adds a node.

        **Returns:**

        The point, the solution of the bordered problem, and whether the point is after the middle
        one of the three; `None` if no solve converged.
        """
        metric, points = Metric(points), points[-3:]
        chord = metric.vector(points[2]) - metric.vector(points[0])
        length = float(np.linalg.norm(chord))
        nodes = [float(chord @ metric.vector(point)) / length for point in points]
        solution = None
        for _ in range(_MAX_FOLD_SOLVES):
            node = _stationary_node(nodes, points)
            if node is None:
                break
            predicted = _interpolate(nodes, points, node)
            corrected = self.problem.correct(predicted, chord / length, metric)
            if not corrected.converged:
                break
            solution, movement = corrected, abs(node - nodes[-1])
            nodes.append(node)
            points.append(self.problem.accept(solution))
            if movement <= _FOLD_TOLERANCE * length:
                break
        return None if solution is None else (points[-1], solution, nodes[-1] > nodes[1])


def _bound(position: float) -> float | None:
    """Return the end of the path that a position has passed or reached, if any."""
    if position >= 1.0:
        return 1.0
    return 0.0 if position <= 0.0 else None


def _contraction(changes: Sequence[float]) -> float:
    """Return the ratio of the first two changes of an iteration.

    The smallest change is due to rounding, and is subtracted.
    """
    return (changes[1] - min(changes)) / changes[0] if len(changes) > 1 and changes[0] > 0 else 0.0


def _interpolate(nodes: Sequence[float], points: Sequence[Point], node: float) -> Point:
    """Return the polynomial through points at nodes, at another node."""
    weights = [
        np.prod([(node - x_k) / (x_n - x_k) for k, x_k in enumerate(nodes) if k != n])
        for n, x_n in enumerate(nodes)
    ]

    def combine(arrays: Iterable[Any]) -> Any:
        return sum(weight * array for weight, array in zip(weights, arrays, strict=True))

    return Point(
        float(combine(point.position for point in points)),
        combine(point.values for point in points),
        jax.tree.map(lambda *jets: combine(jets), *(point.jets for point in points)),
    )


def _stationary_node(nodes: Sequence[float], points: Sequence[Point]) -> float | None:
    """Return the node at which the polynomial through the positions has its extremum, if any.

    The polynomial passes through the first three points, of which the middle one decides between
    maximum and minimum, and the last two. Of several extrema, it is the one nearest to the last.
    """
    positions = np.array([point.position for point in points])
    indices = sorted({0, 1, 2, *range(len(nodes))[-2:]})
    # With `full` it does not warn of nodes that are close together.
    polynomial, _ = np.polynomial.Polynomial.fit(
        np.array(nodes)[indices], positions[indices], len(indices) - 1, full=True
    )
    roots = polynomial.deriv().roots()
    real = roots.real[np.isclose(roots.imag, 0.0)]
    is_extremum = polynomial.deriv(2)(real) * (positions[1] - positions[0]) < 0
    nearest = nodes[1] if len(nodes) == 3 else nodes[-1]
    return min(real[is_extremum].tolist(), key=lambda root: abs(root - nearest), default=None)
