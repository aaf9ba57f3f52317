"""Solve an evolution problem in successive time windows."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kernelpde.adaptive import Accuracy, check_accuracy
from kernelpde.checking import (
    check_instance,
    check_integer,
    check_mapping,
    format_names,
)
from kernelpde.errors import InputError, SolveError
from kernelpde.evolve._accuracy import march_to_accuracy
from kernelpde.evolve._evolution import Evolution
from kernelpde.evolve._run import WindowSettings, march_once
from kernelpde.evolve._windows import initial_condition
from kernelpde.learning import learn
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import AbstractNonlinearSolver
from kernelpde.problem import Problem
from kernelpde.solution import (
    Solution,
    check_common,
    check_linear_solver,
    check_problem,
    check_solver,
)


def march(
    problem: Problem,
    windows: int,
    points: Mapping[str, int] | None = None,
    *,
    accuracy: float | Accuracy | None = None,
    learning: Mapping[str, Any] | None = None,
    solver: AbstractNonlinearSolver | None = None,
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
    sampling: str = "halton",
    throw: bool = True,
    callback: Callable[[int, Solution], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Evolution:
    """Solve an evolution problem in successive time windows, at a cost linear in their number.

    In each window the conditions of the problem are restricted to it. The initial condition is the
    one at the start of time. From the second window on, it is the final state of the previous
    window, for every field and, if there are second derivatives in time, for its rate. All windows
    share the kernels.

    Solves with given points, or to a given accuracy. Then points and kernels are those that reach a
    sufficient accuracy in the first window. This is repeated with a higher accuracy there, until
    the estimated error of the whole evolution is below the target.

    **Arguments:**

    - `problem`: on a domain with a time coordinate, over the whole time interval.
    - `windows`: number of windows of equal length.
    - `points`: for each condition the number of points per window.
    - `accuracy`: instead of points, the root mean square error of each field over the whole time
      interval, relative to the root mean square of the field; an `Accuracy` also limits time and
      rows.
    - `learning`: if given, kernels are learned in the first window by `learn` with these options.
    - `solver`, `linear_solver`, `sampling`, `throw`: as in `solve`.
    - `seed`: seed of the points, which differ between windows.
    - `callback`: called with the number and the solution of each window.
    - `checkpoint`: a directory in which each finished window is saved. The same call reads existing
      windows and continues; a directory with other settings is rejected.

    **Example:**

    ```python
    >>> kp.march(cooling, 2, {"equation": 60, "initial": 12}).converged
    True
    ```
    """
    target = None if accuracy is None else Accuracy.from_value(accuracy)
    _check(problem, windows, points, learning, seed, target)
    initial = initial_condition(problem)
    check_solver("march", solver)
    check_linear_solver("march", "linear_solver", linear_solver)
    check_common("march", throw, callback)
    if checkpoint is not None:
        check_instance("march", "checkpoint", checkpoint, (str, Path), "the name of a directory")
    settings = WindowSettings(
        windows,
        initial,
        _time_order(problem, initial),
        solver,
        linear_solver,
        seed,
        sampling,
        callback,
        None if checkpoint is None else Path(checkpoint),
    )
    if target is None:
        assert points is not None
        return march_once(problem, points, settings, learning=learning, throw=throw)
    evolution = march_to_accuracy(problem, target, settings)
    if throw and not evolution.converged:
        raise SolveError(str(evolution), evolution)
    return evolution


def _check(
    problem: Problem,
    windows: int,
    points: Mapping[str, int] | None,
    learning: Mapping[str, Any] | None,
    seed: int,
    target: Accuracy | None,
) -> None:
    check_problem("march", problem)
    check_integer("march", "windows", windows)
    check_integer("march", "seed", seed, at_least=0)
    for name, residual in problem.by_condition(problem.residuals).items():
        if residual.has_integrals:
            raise InputError(
                f"march: condition {name!r} has an integral, which may extend beyond a "
                "time window. Use solve, which treats the whole time interval at once."
            )
    space = problem.space
    names = [condition.name for condition in problem.conditions]
    if space.time is None or space.duration is None:
        raise InputError("march: the domain has no time coordinate: Box(t=(0, 1), ..., time='t').")
    if problem.laws:
        raise InputError(
            f"march: the law {problem.laws[0].name!r} couples all times and cannot be solved in "
            "windows. Use learn or solve."
        )
    if windows < 1:
        raise InputError(f"march: expected at least one window; got {windows}.")
    if (points is None) == (target is None):
        raise InputError(
            "march: expected either points, a number for each condition and window, or an "
            f"accuracy; got {'both' if target else 'neither'}. Write accuracy=1e-3."
        )
    if target is not None or points is None:
        assert target is not None
        check_accuracy("march", problem, target)
        if target.relative is None or learning is not None:
            raise InputError(
                "march: with an accuracy, which has to be a relative one, kernels are always "
                "learned; remove learning=... and write accuracy=1e-3."
            )
        return
    count = partial(check_integer, at_least=1)
    check_mapping("march", "points", points, names, count, "Write points={'equation': 100}.")
    missing = [name for name in names if name not in points and not problem.has_given_points(name)]
    if missing:
        raise InputError(f"march: no number of points given for {format_names(missing)}.")
    if learning is not None:
        options = set(inspect.signature(learn).parameters) - {"problem", "points"}
        reserved = {"seed", "sampling", "throw"}
        check_mapping("march", "learning", learning, sorted(options - reserved))


def _time_order(problem: Problem, initial: str) -> int:
    """Return the order of the equations in time: 2 if windows also pass on time derivatives."""
    assert problem.space.time is not None
    axis = problem.space.coordinates.index(problem.space.time)
    orders = [
        order[axis]
        for name, residual in problem.by_condition(problem.residuals).items()
        if name != initial
        for term in residual.terms
        for order in term.orders
    ]
    highest = max([1, *orders])
    if highest > 2:
        raise InputError(
            f"march: there are time derivatives of order {highest}; windows pass on values and "
            "first derivatives only. Write the equation as a system of lower order, or use solve."
        )
    return highest
