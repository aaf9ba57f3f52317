"""A long time axis in causal windows: the end of one is the beginning of the next."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import listed, named, numbers, whole_number
from kernelpde.deprecation import adapted
from kernelpde.errors import InputError
from kernelpde.gauss_newton import (
    Solution,
    Solver,
    check_common,
    check_linear_solver,
    check_problem,
    check_solver,
    earlier,
    plot_solution,
    solve,
)
from kernelpde.geometry import Averages, Patch, Patches, PointCloud, Space
from kernelpde.learning import Learned, learn
from kernelpde.linear_solvers import LinearSolver
from kernelpde.notebooks import InNotebooks
from kernelpde.problem import Condition, LearnedNoise, Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Evolution(InNotebooks):
    """Solutions on successive windows of time, seen as one.

    **Attributes:**

    - `problem`: the whole of it, with the kernels that all windows share.
    - `times`: ends of the windows, one more than there are windows.
    - `solutions`: one per window.
    - `learned`: what learning in the first window has led to; `None` if nothing was learned.
    - `seconds`: what each window took.
    """

    problem: Problem
    times: Float[np.ndarray, " W"]
    solutions: tuple[Solution, ...]
    learned: Learned | None
    seconds: tuple[float, ...]

    @property
    def converged(self) -> bool:
        return all(solution.converged for solution in self.solutions)

    def __getitem__(self, field: str) -> Callable[[Numbers], Array]:
        """A field as a function of points, each looked up in the window of its time."""
        views: list[Callable] = [solution[field] for solution in self.solutions]
        return lambda points: self._evaluated(views, points)

    def d(self, field: str, *coordinates: int | str) -> Callable[[Numbers], Array]:
        """A partial derivative of a field as a function of points."""
        views = [solution[field].d(*coordinates) for solution in self.solutions]
        return lambda points: self._evaluated(views, points)

    def residual(self, condition: str, points: Numbers) -> Array:
        """What is left of a condition at points, one column for each of its equations."""
        views = [partial(solution.residual, condition) for solution in self.solutions]
        return self._evaluated(views, points)

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Draw the fields over all windows; arguments as those of `Solution.plot`."""
        return plot_solution(
            self,
            fields or None,
            references or {},
            {},
            residuals,
            False,
            at,
            resolution,
            units or {},
        )

    def _evaluated(self, views: list[Callable], points: Numbers) -> Array:
        where = numbers("Evolution", "points", points)
        space = self.problem.space
        assert space.time is not None
        if where.ndim < 1 or where.shape[-1] != len(space.coordinates):
            raise InputError(
                f"Expected points with {len(space.coordinates)} coordinates on the last axis; "
                f"got shape {where.shape}."
            )
        flat = where.reshape(-1, where.shape[-1])
        inside = np.searchsorted(
            self.times[1:-1], flat[:, space.coordinates.index(space.time)], side="right"
        )
        most = max(int(np.max(np.bincount(inside, minlength=len(views)))), 1)
        values: np.ndarray | None = None
        for number, view in enumerate(views):
            rows = np.flatnonzero(inside == number)
            if len(rows):
                # All windows get as many points as the fullest one, so that one program serves all.
                padded = flat[np.resize(rows, most)]
                found = np.asarray(view(padded))[: len(rows)]
                if values is None:
                    values = np.zeros((len(flat), *found.shape[1:]), dtype=found.dtype)
                values[rows] = found
        assert values is not None
        return jnp.asarray(values.reshape(*where.shape[:-1], *values.shape[1:]))

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        lines = [f"Evolution: {len(self.solutions)} windows, {state}."]
        for begin, end, solution, spent in zip(
            self.times[:-1], self.times[1:], self.solutions, self.seconds, strict=True
        ):
            sizes = ", ".join(f"{n} {s['rms']:.1e}" for n, s in solution.residuals.items())
            lines.append(
                f"  {begin:g} to {end:g}: {solution.steps} steps, {spent:.1f} s, residuals {sizes}"
            )
        return "\n".join(lines)


@adapted(earlier)
def march(
    problem: Problem,
    windows: int,
    points: Mapping[str, int],
    *,
    initial: str = "initial",
    order: int = 1,
    learning: Mapping[str, Any] | None = None,
    solver: Solver | None = None,
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
    sampling: str = "halton",
    throw: bool = True,
    callback: Callable[[int, Solution], None] | None = None,
) -> Evolution:
    """Solve an evolution problem window by window; the cost grows with their number, not its cube.

    In each window the conditions are those of the problem, cut to it; the initial condition of the
    second and later ones is the end of the one before, for every field. All share their kernels.

    **Arguments:**

    - `problem`: on a domain with a time coordinate, all of the time axis.
    - `windows`: how many, of equal length.
    - `points`: for each condition how many points in each window.
    - `initial`: the name of the condition at the beginning of time.
    - `order`: of the equation in time; 2 hands over first time derivatives too.
    - `learning`: if given, kernels are learned in the first window by `learn` with these options.
    - `solver`, `linear_solver`, `sampling`, `throw`: as in `solve`.
    - `seed`: of the points; every window has its own.
    - `callback`: called with the number and the solution of each window.
    """
    _check(problem, windows, points, initial, order, learning, seed)
    check_solver("march", solver)
    check_linear_solver("march", "linear_solver", linear_solver)
    check_common("march", throw, callback)
    space = problem.space
    assert space.duration is not None
    times = np.linspace(*space.duration, windows + 1)
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
                    _continued(problem, condition, before, begin, points, order, sampling, seed)
                )
            elif (cut := _cut(condition, space, begin, end, number == windows - 1)) is not None:
                conditions.append(cut)
        window = problem.with_conditions(conditions).with_kernels(kernels)
        counts = {c.name: points[c.name] for c in conditions if not window.has_own_points(c.name)}
        if learning is not None and number == 0:
            learned = learn(window, counts, seed=seed, sampling=sampling, throw=throw, **learning)
            window = learned.problem
            kernels = window.kernels
            noises = {c.name: c.noise for c in window.conditions}
            problem = problem.with_conditions(
                [replace(c, noise=_noise(c, noises.get(c.name))) for c in problem.conditions]
            )
        solution = solve(
            window,
            counts,
            seed=seed + 104_729 * (number + 1),
            sampling=sampling,
            solver=solver,
            linear_solver=linear_solver,
            throw=throw,
        )
        solutions.append(solution)
        spent.append(time.perf_counter() - started)
        if callback is not None:
            callback(number, solution)
    problem = problem.with_kernels(kernels)
    return Evolution(problem, times, tuple(solutions), learned, tuple(spent))


def _check(
    problem: Problem,
    windows: int,
    points: Mapping[str, int],
    initial: str,
    order: int,
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
    if windows < 1 or order not in (1, 2):
        raise InputError(
            f"march: expected at least one window and order 1 or 2; got {windows} and {order}."
        )
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


def _cut(
    condition: Condition, space: Space, begin: float, end: float, last: bool
) -> Condition | None:
    """A condition on the part of its region in a window; `None` if its points are elsewhere.

    An average belongs to the window in which it ends.
    """
    region = condition.region
    if isinstance(region, Patch | Patches):
        return replace(condition, where=region.during(begin, end))
    assert isinstance(region, PointCloud | Averages)
    axis = space.coordinates.index(str(space.time))
    when = region.points[..., axis]
    first, when = (when, when) if when.ndim == 1 else (when.min(1), when.max(1))
    inside = (when >= begin) & ((when <= end) if last else (when < end))
    if np.any(first[inside] < begin):
        raise InputError(
            f"march: an average of condition {condition.name!r} reaches across the beginning of a "
            f"window at {begin:g}. Take fewer windows, or averages at one time."
        )
    if not inside.any():
        return None
    if isinstance(region, PointCloud):
        normals = None if region.normals is None else region.normals[inside]
        where = PointCloud(region.points[inside], normals, region.name)
    else:
        where = Averages(region.points[inside], region.weights[inside], region.name)
    noise = condition.noise_level
    return replace(
        condition,
        where=where,
        noise=noise[inside] if noise.ndim else condition.noise,
        data={key: np.asarray(values)[inside] for key, values in condition.data.items()},
    )


def _noise(condition: Condition, learned: Any) -> Any:
    """The noise of a condition, as it was learned if it was."""
    return learned if isinstance(learned, LearnedNoise) else condition.noise


def _continued(
    problem: Problem,
    condition: Condition,
    before: Solution,
    begin: float,
    points: Mapping[str, int],
    order: int,
    sampling: str,
    seed: int,
) -> Condition:
    """Every field is what it was at the end of the window before."""
    space = problem.space
    assert space.time is not None
    rng = np.random.default_rng([seed, int(1e6 * begin)])
    drawn = condition.region.sample(points[condition.name], rng, sampling).points.copy()
    drawn[:, space.coordinates.index(space.time)] = begin
    names = tuple(field.name for field in problem.fields)
    data = {}
    for name in names:
        view = before[name]
        data[f"{name}_before"] = np.asarray(view(drawn))
        if order == 2:
            data[f"{name}_rate_before"] = np.asarray(view.d(space.time)(drawn))
    residual = _HandingOver(names, space.time, order)
    return Condition(condition.name, PointCloud(drawn, name=condition.name), residual, data=data)


@dataclass(frozen=True)
class _HandingOver:
    """The residual u - u_before for all fields; equal for all windows, so that one program serves.

    **Attributes:**

    - `fields`: the names of all real fields.
    - `time`: the name of the time coordinate.
    - `order`: of the equation in time.
    """

    fields: tuple[str, ...]
    time: str
    order: int

    @property
    def data(self) -> tuple[str, ...]:
        suffixes = ("before", "rate_before")[: self.order]
        return tuple(f"{name}_{suffix}" for name in self.fields for suffix in suffixes)

    @property
    def __signature__(self) -> inspect.Signature:
        """Residuals are called by the names of their arguments; here the problem gives them."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ("x", *self.fields, *self.data)
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(self, x: Array, *given: Any) -> tuple[Array, ...]:
        jets = dict(zip(self.fields, given[: len(self.fields)], strict=True))
        known = dict(zip(self.data, given[len(self.fields) :], strict=True))
        parts = [jets[name].value - known[f"{name}_before"] for name in self.fields]
        if self.order == 2:
            parts += [
                jets[name].d(self.time) - known[f"{name}_rate_before"] for name in self.fields
            ]
        return tuple(parts)
