"""Solve an evolution problem in successive time windows."""

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kernelpde.checking import check_instance, check_integer, check_mapping, format_names
from kernelpde.errors import InputError
from kernelpde.evolve._evolution import Evolution
from kernelpde.evolve._windows import continuity_condition, restrict_to_window
from kernelpde.io import digest
from kernelpde.learning import LearningResult, learn
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import AbstractNonlinearSolver
from kernelpde.problem import LearnedNoise, PointSet, Problem
from kernelpde.solution import (
    Solution,
    check_common,
    check_linear_solver,
    check_problem,
    check_solver,
    load_solution,
    save_solution,
    solution_notes,
    solve,
)

_WINDOW_SEED = 104_729
"""Increment of the seed from window to window, so that windows have different points."""


def march(
    problem: Problem,
    windows: int,
    points: Mapping[str, int],
    *,
    initial: str = "initial",
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

    In each window the conditions of the problem are restricted to it. From the second window
    on, the initial condition is the final state of the previous window, for every field and, if
    there are second derivatives in time, for its rate. All windows share the kernels.

    **Arguments:**

    - `problem`: on a domain with a time coordinate, over the whole time interval.
    - `windows`: number of windows of equal length.
    - `points`: for each condition the number of points per window.
    - `initial`: the name of the initial condition.
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
    _check(problem, windows, points, initial, learning, seed)
    order = _time_order(problem, initial)
    check_solver("march", solver)
    check_linear_solver("march", "linear_solver", linear_solver)
    check_common("march", throw, callback)
    space = problem.space
    assert space.duration is not None
    times = np.linspace(*space.duration, windows + 1)
    settings = {
        "windows": windows,
        "seed": seed,
        "points": {name: int(count) for name, count in points.items()},
        "sampling": sampling,
        "order": order,
        "learning": repr(learning),
        "solver": repr(solver),
        "linear solver": repr(linear_solver),
        "kernels": digest(jax.tree.leaves((problem.prior, problem.noises))),
    }
    files = _WindowFiles(checkpoint, settings)
    solutions: list[Solution] = []
    seconds: list[float] = []
    learned: LearningResult | None = None
    for index, (start, stop) in enumerate(pairwise(times)):
        start_time = time.perf_counter()
        conditions = []
        for condition in problem.conditions:
            if condition.name == initial and solutions:
                rng = np.random.default_rng([seed, int(1e6 * start)])
                sample = condition.region.sample(points[condition.name], rng, sampling)
                restricted = continuity_condition(
                    condition.name, solutions[-1], start, sample.points, order
                )
            else:
                is_last = index == windows - 1
                restricted = restrict_to_window(condition, space, start, stop, is_last)
            if restricted is not None:
                conditions.append(restricted)
        window = problem.with_conditions(conditions)
        counts = {c.name: points[c.name] for c in conditions if not window.has_given_points(c.name)}
        options = {"seed": seed + _WINDOW_SEED * (index + 1), "sampling": sampling}
        solution = files.read(index, window, partial(window.collocate, counts, **options))
        if solution is None:
            if learning is not None and index == 0:
                learned = learn(
                    window, counts, throw=throw, seed=seed, sampling=sampling, **learning
                )
                window = learned.problem
            solution = solve(
                window, counts, solver=solver, linear_solver=linear_solver, throw=throw, **options
            )
            files.write(index, solution)
        if learning is not None and index == 0:
            problem = _adopt_learned(problem, solution.problem)
        solutions.append(solution)
        seconds.append(time.perf_counter() - start_time)
        if callback is not None:
            callback(index, solution)
    return Evolution(problem, times, tuple(solutions), learned, tuple(seconds))


def _adopt_learned(problem: Problem, window: Problem) -> Problem:
    """Return a problem with the kernels and the learned noise of its first window."""
    noises = {c.name: c.noise for c in window.conditions if isinstance(c.noise, LearnedNoise)}
    conditions = [replace(c, noise=noises.get(c.name, c.noise)) for c in problem.conditions]
    return problem.with_conditions(conditions).with_prior(window.prior)


class _WindowFiles:
    """Files of the windows, each with the settings of its run, which are compared on reading."""

    def __init__(self, directory: str | Path | None, settings: dict[str, Any]):
        if directory is not None:
            check_instance("march", "checkpoint", directory, (str, Path), "the name of a directory")
        self.directory = None if directory is None else Path(directory)
        self.settings = settings

    def read(
        self, index: int, window: Problem, collocate: Callable[[], tuple[PointSet, ...]]
    ) -> Solution | None:
        """Read the solution of a window if its file exists; reject one of another run.

        A solution must have the points that `collocate` draws.
        """
        path = self._path(index)
        if path is None or not path.exists():
            return None
        stored = solution_notes(path).get("march", {})
        for name, expected in self.settings.items():
            if (value := stored.get(name)) != expected:
                _raise_mismatch(path, f"{name}: the file has {value}, expected {expected}")
        solution = load_solution(path, window)
        triples = zip(window.conditions, solution.point_sets, collocate(), strict=True)
        for condition, old, new in triples:
            # The data of the previous window are recomputed, by a program that may differ.
            for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
                if np.shape(a) != np.shape(b) or not np.allclose(a, b, 1e-6, 1e-9):
                    _raise_mismatch(path, f"the points or data of {condition.name!r} differ")
        return solution

    def write(self, index: int, solution: Solution) -> None:
        """Write the solution of a window."""
        path = self._path(index)
        if path is not None and jax.process_index() == 0:
            save_solution(path, solution, {"march": self.settings})

    def _path(self, index: int) -> Path | None:
        return None if self.directory is None else self.directory / f"window-{index:04d}.kpde"


def _raise_mismatch(path: Path, mismatch: str) -> None:
    raise InputError(
        f"{path}: belongs to another run; {mismatch}. Name another directory, or remove this one "
        "to start a new run."
    )


def _check(
    problem: Problem,
    windows: int,
    points: Mapping[str, int],
    initial: str,
    learning: Mapping[str, Any] | None,
    seed: int,
) -> None:
    check_problem("march", problem)
    check_integer("march", "windows", windows)
    check_integer("march", "seed", seed, at_least=0)
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        if residual.has_integrals:
            raise InputError(
                f"march: condition {condition.name!r} has an integral, which may extend beyond a "
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
    if initial not in names or not isinstance(points, Mapping) or initial not in points:
        raise InputError(
            f"march: no condition {initial!r} with a number of points; the conditions are "
            f"{', '.join(map(repr, names))}."
        )
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
        for condition, residual in zip(problem.conditions, problem.residuals, strict=True)
        if condition.name != initial
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
