"""Successive solves of the time windows, with given points."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.evolve._evolution import Evolution
from kernelpde.evolve._files import WindowFiles
from kernelpde.evolve._windows import continuity_condition, restrict_to_window
from kernelpde.io import Attributes, digest
from kernelpde.learning import LearningResult, learn
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import AbstractNonlinearSolver
from kernelpde.problem import Problem
from kernelpde.solution import Solution, solve

_WINDOW_SEED = 104_729
"""Increment of the seed from window to window, so that windows have different points."""


class WindowSettings(NamedTuple):
    """Settings of `march`, with the order of the equations in time."""

    windows: int
    initial: str
    order: int
    solver: AbstractNonlinearSolver | None
    linear_solver: LinearSolver | None
    seed: int
    sampling: str
    callback: Callable[[int, Solution], None] | None
    checkpoint: Path | None

    def point_options(self, index: int) -> Attributes:
        """Return the options that determine the points of a window."""
        return {"seed": self.seed + _WINDOW_SEED * (index + 1), "sampling": self.sampling}

    def as_text(self) -> Attributes:
        """Return the settings that determine the solutions, for comparison with a file."""
        return {
            "windows": self.windows,
            "seed": self.seed,
            "sampling": self.sampling,
            "order": self.order,
            "solver": repr(self.solver),
            "linear solver": repr(self.linear_solver),
        }


def march_once(
    problem: Problem,
    points: Mapping[str, int],
    settings: WindowSettings,
    *,
    learning: Mapping[str, Any] | None = None,
    first: Solution | None = None,
    throw: bool,
) -> Evolution:
    """Solve all windows with given numbers of points.

    **Arguments:**

    - `learning`: options of `learn` in the first window; no learning if omitted.
    - `first`: solution of the first window, if it is known already.
    """
    text = settings.as_text() | {
        "points": {name: int(count) for name, count in points.items()},
        "learning": repr(learning),
        "kernels": digest(jax.tree.leaves((problem.prior, problem.noises))),
    }
    files = WindowFiles(settings.checkpoint, text)
    times = window_times(problem, settings.windows)
    solutions: list[Solution] = []
    seconds: list[float] = []
    learned: LearningResult | None = None
    for index in range(settings.windows):
        start_time = time.perf_counter()
        window = _window_problem(problem, times, index, solutions, points, settings)
        counts = {
            c.name: points[c.name] for c in window.conditions if not window.has_given_points(c.name)
        }
        options = settings.point_options(index)
        solution = first if index == 0 else None
        if solution is None:
            solution = files.read(index, window, partial(window.collocate, counts, **options))
        if solution is None:
            if learning is not None and index == 0:
                learned = learn(
                    window,
                    counts,
                    throw=throw,
                    seed=settings.seed,
                    sampling=settings.sampling,
                    **learning,
                )
                window = learned.problem
            solution = solve(
                window,
                counts,
                solver=settings.solver,
                linear_solver=settings.linear_solver,
                throw=throw,
                **options,
            )
            files.write(index, solution)
        if learning is not None and index == 0:
            problem = _adopt_learned(problem, solution.problem)
        solutions.append(solution)
        seconds.append(time.perf_counter() - start_time)
        if settings.callback is not None:
            settings.callback(index, solution)
    return Evolution(problem, times, tuple(solutions), learned, tuple(seconds))


def window_times(problem: Problem, windows: int) -> Float[np.ndarray, " W"]:
    """Return the bounds of windows of equal length."""
    assert problem.space.duration is not None
    return np.linspace(*problem.space.duration, windows + 1)


def first_window(problem: Problem, windows: int) -> Problem:
    """Return the problem of the first window."""
    start, stop = window_times(problem, windows)[:2]
    return _restrict(problem, start, stop, is_last=windows == 1)


def _restrict(problem: Problem, start: float, stop: float, is_last: bool) -> Problem:
    restricted = (
        restrict_to_window(condition, problem.space, start, stop, is_last)
        for condition in problem.conditions
    )
    return problem.with_conditions([c for c in restricted if c is not None])


def _window_problem(
    problem: Problem,
    times: Float[np.ndarray, " W"],
    index: int,
    solutions: list[Solution],
    points: Mapping[str, int],
    settings: WindowSettings,
) -> Problem:
    """Return the problem of one window, which continues the last of the solutions."""
    (start, stop), is_last = times[index : index + 2], index == len(times) - 2
    if not solutions:
        return _restrict(problem, start, stop, is_last)
    conditions = []
    for condition in problem.conditions:
        if condition.name == settings.initial:
            rng = np.random.default_rng([settings.seed, int(1e6 * start)])
            sample = condition.region.sample(points[condition.name], rng, settings.sampling)
            restricted = continuity_condition(
                condition.name, solutions[-1], start, sample.points, settings.order
            )
        else:
            restricted = restrict_to_window(condition, problem.space, start, stop, is_last)
        if restricted is not None:
            conditions.append(restricted)
    return problem.with_conditions(conditions)


def _adopt_learned(problem: Problem, window: Problem) -> Problem:
    """Return a problem with the kernels and the learned noise of its first window."""
    noises = {c.name: c.noise for c in window.conditions if c.learned_noise is not None}
    conditions = [replace(c, noise=noises.get(c.name, c.noise)) for c in problem.conditions]
    return problem.with_conditions(conditions).with_prior(window.prior)
