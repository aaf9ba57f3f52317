"""A long time axis in causal windows: the end of one is the beginning of the next."""

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

from kernelpde.archive import digest
from kernelpde.checking import instance, listed, named, whole_number
from kernelpde.deprecation import adapted, warn_moved
from kernelpde.errors import InputError
from kernelpde.evolve._evolution import Evolution
from kernelpde.evolve._windows import continued, cut, learned_noise
from kernelpde.gauss_newton import (
    Solution,
    Solver,
    check_common,
    check_linear_solver,
    check_problem,
    check_solver,
    earlier,
    load_solution,
    save_solution,
    solution_notes,
    solve,
)
from kernelpde.learning import Learned, learn
from kernelpde.linear_solvers import LinearSolver
from kernelpde.problem import Collocation, Problem


def _earlier(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the first edition as those of today."""
    given = earlier(owner, given)
    if "order" in given:
        order = given.pop("order")
        if order not in (1, 2):
            raise InputError(f"march: expected order 1 or 2; got {order!r}.")
        warn_moved("march(order=...)", "found from the equations")
    return given


@adapted(_earlier)
def march(
    problem: Problem,
    windows: int,
    points: Mapping[str, int],
    *,
    initial: str = "initial",
    learning: Mapping[str, Any] | None = None,
    solver: Solver | None = None,
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
    sampling: str = "halton",
    throw: bool = True,
    callback: Callable[[int, Solution], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Evolution:
    """Solve an evolution problem in successive time windows, at a cost linear in their number.

    In each window the conditions are those of the problem, restricted to it. From the second window
    on, the initial condition is the final state of the previous window, for every field and, if
    there are second derivatives in time, for its rate. All windows share the kernels.

    **Arguments:**

    - `problem`: on a domain with a time coordinate, over the whole time interval.
    - `windows`: number of windows, of equal length.
    - `points`: for each condition the number of points per window.
    - `initial`: the name of the initial condition.
    - `learning`: if given, kernels are learned in the first window by `learn` with these options.
    - `solver`, `linear_solver`, `sampling`, `throw`: as in `solve`.
    - `seed`: of the points; they differ from window to window.
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
    order = _order(problem, initial)
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
        "kernels": digest(jax.tree.leaves((problem.kernels, problem.noises))),
    }
    files = _Files(checkpoint, settings)
    solutions: list[Solution] = []
    spent: list[float] = []
    learned: Learned | None = None
    kernels = problem.kernels
    for number, (begin, end) in enumerate(pairwise(times)):
        started = time.perf_counter()
        conditions = []
        for condition in problem.conditions:
            if condition.name == initial and solutions:
                before = solutions[-1]
                conditions.append(
                    continued(problem, condition, before, begin, points, order, sampling, seed)
                )
            elif (part := cut(condition, space, begin, end, number == windows - 1)) is not None:
                conditions.append(part)
        window = problem.with_conditions(conditions).with_kernels(kernels)
        counts = {c.name: points[c.name] for c in conditions if not window.has_own_points(c.name)}
        drawn = {"seed": seed + 104_729 * (number + 1), "sampling": sampling}
        solution = files.read(number, window, partial(window.collocate, counts, **drawn))
        if solution is None:
            if learning is not None and number == 0:
                drawing = {"seed": seed, "sampling": sampling}
                learned = learn(window, counts, throw=throw, **drawing, **learning)
                window = learned.problem
            solution = solve(
                window, counts, solver=solver, linear_solver=linear_solver, throw=throw, **drawn
            )
            files.write(number, solution)
        if learning is not None and number == 0:
            kernels = solution.problem.kernels
            noises = {c.name: c.noise for c in solution.problem.conditions}
            problem = problem.with_conditions(
                [replace(c, noise=learned_noise(c, noises.get(c.name))) for c in problem.conditions]
            )
        solutions.append(solution)
        spent.append(time.perf_counter() - started)
        if callback is not None:
            callback(number, solution)
    problem = problem.with_kernels(kernels)
    return Evolution(problem, times, tuple(solutions), learned, tuple(spent))


class _Files:
    """Windows on disk, one file each; what they were computed with is noted in every one.

    **Arguments:**

    - `directory`: where; `None` if nothing is kept.
    - `settings`: as text and numbers, to be compared.
    """

    def __init__(self, directory: str | Path | None, settings: dict[str, Any]):
        if directory is not None:
            instance("march", "checkpoint", directory, (str, Path), "the name of a directory")
        self.directory = None if directory is None else Path(directory)
        self.settings = settings

    def read(
        self, number: int, window: Problem, collocate: Callable[[], tuple[Collocation, ...]]
    ) -> Solution | None:
        """The solution of a window if it is there; one of something else is refused.

        **Arguments:**

        - `number`, `window`: which, and its problem.
        - `collocate`: draws the points that it should have.
        """
        path = self._path(number)
        if path is None or not path.exists():
            return None
        kept = solution_notes(path).get("march", {})
        for what, expected in self.settings.items():
            if kept.get(what) != expected:
                self._refuse(path, f"{what}: the file has {kept.get(what)}, expected {expected}")
        solution = load_solution(path, window)
        pairs = zip(window.conditions, solution.blocks, collocate(), strict=True)
        for condition, old, new in pairs:
            # What was handed over is computed anew, and by another program if windows are others.
            for one, other in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
                if np.shape(one) != np.shape(other) or not np.allclose(one, other, 1e-6, 1e-9):
                    self._refuse(path, f"the points or data of {condition.name!r} are others")
        return solution

    def write(self, number: int, solution: Solution) -> None:
        path = self._path(number)
        if path is not None and jax.process_index() == 0:
            save_solution(path, solution, {"march": self.settings})

    def _path(self, number: int) -> Path | None:
        return None if self.directory is None else self.directory / f"window-{number:04d}.kpde"

    def _refuse(self, path: Path, reason: str) -> None:
        raise InputError(
            f"{path}: belongs to another run; {reason}. Name another directory, or remove this one "
            "to begin anew."
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
    whole_number("march", "windows", windows)
    whole_number("march", "seed", seed, at_least=0)
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        if residual.integrates:
            raise InputError(
                f"march: condition {condition.name!r} has an integral, which may reach out of a "
                "window of time. Use solve, which takes all of the time at once."
            )
    space = problem.space
    names = [condition.name for condition in problem.conditions]
    if space.time is None or space.duration is None:
        raise InputError("march: the domain has no time coordinate: Box(t=(0, 1), ..., time='t').")
    if problem.laws:
        raise InputError(
            f"march: the law {problem.laws[0].name!r} is found from all times at once; use learn "
            "or solve."
        )
    if windows < 1:
        raise InputError(f"march: expected at least one window; got {windows}.")
    if initial not in names or not isinstance(points, Mapping) or initial not in points:
        raise InputError(
            f"march: no condition {initial!r} with a number of points; the conditions are "
            f"{', '.join(map(repr, names))}."
        )
    count = partial(whole_number, at_least=1)
    named("march", "points", points, names, count, "Write points={'equation': 100}.")
    missing = [name for name in names if name not in points and not problem.has_own_points(name)]
    if missing:
        raise InputError(f"march: no number of points given for {listed(missing)}.")
    if learning is not None:
        options = set(inspect.signature(learn).parameters) - {"problem", "points"}
        taken = {"seed", "sampling", "throw"}
        named("march", "learning", learning, sorted(options - taken))


def _order(problem: Problem, initial: str) -> int:
    """The order of the equations in time: of how much the end of a window has to be handed over."""
    assert problem.space.time is not None
    axis = problem.space.coordinates.index(problem.space.time)
    found = 1
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        if condition.name != initial:
            orders = [order[axis] for term in residual.terms for order in term.orders]
            found = max([found, *orders])
    if found > 2:
        raise InputError(
            f"march: there are time derivatives of order {found}; windows hand over values and "
            "rates. Write the equation as a system of lower order, or use solve."
        )
    return found
