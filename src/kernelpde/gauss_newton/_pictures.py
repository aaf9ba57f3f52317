"""Pictures of solutions, and grids to look at them on."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.checking import function, instance, named
from kernelpde.drawing import Chart, Curve, Panel, draw_charts, draw_panels, labeled
from kernelpde.errors import InputError
from kernelpde.gauss_newton._views import LawView
from kernelpde.geometry import AbstractRegion, Grid, bounding_box, grid_over
from kernelpde.kernels import gibbs_in
from kernelpde.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelpde.gauss_newton._history import Record
    from kernelpde.gauss_newton._solution import Solution

Function = Callable[[np.ndarray], np.ndarray]

_RESOLUTION = {1: 401, 2: 121}
"""Points along each free coordinate of a picture."""


def grid_of(
    problem: Problem,
    counts: int | Sequence[int] | None = None,
    at: Mapping[str, float] | None = None,
    free: int | None = None,
) -> Grid:
    """A grid over the domain of a problem.

    **Arguments:**

    - `problem`: where.
    - `counts`: points along each free coordinate.
    - `at`: coordinates to hold.
    - `free`: hold coordinates at their middle, time first and then from the last on, until this
      many are free.
    """
    names, time = problem.space.coordinates, problem.space.time
    regions = [condition.region for condition in problem.conditions]
    held = {} if at is None else at
    instance("A grid", "at", held, Mapping, 'a dictionary such as {"t": 0.5}')
    held = dict(held)
    if free is not None:
        middles = dict(zip(names, bounding_box(regions).mean(1), strict=True))
        for name in sorted(names, key=lambda name: (name != time, -names.index(name))):
            if len(names) - len(held) > free and name not in held:
                held[name] = float(middles[name])
    left = len(names) - len([name for name in held if name in names])
    return grid_over(regions, names, _RESOLUTION.get(left, 41) if counts is None else counts, held)


@runtime_checkable
class Drawable(Protocol):
    """What can be drawn: a solution, or solutions in successive windows of time."""

    @property
    def problem(self) -> Problem: ...

    def __getitem__(self, field: str, /) -> Any: ...

    def residual(self, condition: str, points: Any, /) -> Any: ...


def plot_solution(
    solution: Drawable,
    fields: Sequence[str] | None,
    references: Mapping[str, Function],
    stds: Mapping[str, Function],
    residuals: Sequence[str] | None,
    points: bool,
    at: Mapping[str, float] | None,
    resolution: int | None,
    units: Mapping[str, str],
) -> "Figure":
    """See `Solution.plot`."""
    problem = solution.problem
    whole = grid_of(problem, resolution, at, free=2)
    where = whole.points
    line = len(whole.axes) == 1
    panels: list[Panel] = []
    names = field_names(problem) if fields is None else list(fields)
    known = [*field_names(problem), *(f.name for f in problem.fields)]
    for what, given in (("references", references), ("std", stds)):
        named("plot", what, given, known, partial(function, expected="a function of points"))
    for number, name in enumerate(names):
        view, grid = solution[name], whole.within(_regions(problem, name))
        if isinstance(view, LawView):
            raise InputError(f"plot: {name!r} is a law, no field: use [{name!r}].plot().")
        values = np.asarray(view(where))
        truth = np.asarray(references[name](where)) if name in references else None
        std = np.asarray(stds[name](where)) if name in stds else None
        shown, label = _real(values), f"|{name}|" if np.iscomplexobj(values) else name
        panels.append(
            Panel(
                f"solution {label}",
                grid.masked(shown),
                label=labeled(label, units),
                beside=None
                if truth is None or not line
                else ("reference", grid.masked(_real(truth))),
                band=grid.masked(1.96 * std) if line and std is not None else None,
                points=_marks(cast("Solution", solution), whole) if points and number == 0 else {},
            )
        )
        if truth is not None:
            error = grid.masked(np.abs(values - truth))
            panels.append(Panel(f"error of {name}", error, "decades", labeled(name, units)))
        elif "error_estimate" in vars(solution):
            error = grid.masked(view.error(where))
            title = f"estimated error of {name}"
            panels.append(Panel(title, error, "decades", labeled(name, units)))
        if std is not None and not line:
            title = f"standard deviation of {name}"
            panels.append(Panel(title, grid.masked(std), "sizes", labeled(name, units)))
    for name in _solid_conditions(problem) if residuals is None else residuals:
        found = np.abs(np.asarray(solution.residual(name, where)))
        size = np.sqrt(np.mean(found**2, axis=1)) if found.shape[1] > 1 else found[:, 0]
        own = whole.within([c.region for c in problem.conditions if c.name == name])
        panels.append(Panel(f"residual of {name}", own.masked(size), "decades"))
    return draw_panels(panels, whole, units)


def plot_lengthscales(
    problem: Problem, at: Mapping[str, float] | None, units: Mapping[str, str]
) -> "Figure":
    """See `Solution.plot_lengthscales`."""
    grid = grid_of(problem, None, at, free=2)
    panels = []
    for field in problem.fields:
        for kernel in gibbs_in(field.kernel):
            lengths = np.asarray(jax.vmap(kernel.lengthscale)(jnp.asarray(grid.points)))
            lengths = lengths.reshape(len(lengths), -1)
            for i in range(lengths.shape[1]):
                along = f" in {grid.coordinates[i]}" if lengths.shape[1] > 1 else ""
                panels.append(
                    Panel(f"lengthscale of {field.name}{along}", grid.masked(lengths[:, i]))
                )
    if not panels:
        raise InputError(
            "No kernel of this problem has a lengthscale that varies from place to place: "
            f"{', '.join(repr(field.kernel) for field in problem.fields)}. Gibbs kernels have."
        )
    return draw_panels(panels, grid, units)


def plot_records(records: "Sequence[Record]") -> "Figure":
    """Residuals and changes over the steps of a solve."""
    steps = np.array([record.step for record in records])
    conditions = list(records[0].residuals) if records else []
    residuals = [
        Curve(name, steps, np.array([record.residuals[name] for record in records]))
        for name in conditions
    ]
    changes = Curve("", steps, np.array([record.change for record in records]))
    return draw_charts(
        [
            Chart("residual, root mean square", "step", residuals),
            Chart("relative change of the solution", "step", [changes]),
        ]
    )


def field_names(problem: Problem) -> list[str]:
    """The fields as a user named them: complex ones whole, numbers and laws left out."""
    parts = {problem.fields[i].name for _, *pair in problem.complex_fields for i in pair}
    left_out = parts | {other.name for other in (*problem.parameters, *problem.laws)}
    return [
        *(name for name, *_ in problem.complex_fields),
        *(field.name for field in problem.fields if field.name not in left_out),
    ]


def _regions(problem: Problem, name: str) -> list[AbstractRegion]:
    """Where the conditions are that a field occurs in: one of a part of the domain is not drawn
    outside of it."""
    parts = {complex_name: pair for complex_name, *pair in problem.complex_fields}
    numbers = parts.get(name) or [i for i, f in enumerate(problem.fields) if f.name == name]
    return [
        condition.region
        for condition, residual in zip(problem.conditions, problem.residuals, strict=True)
        if any(term.field in numbers for term in residual.terms)
    ]


def _solid_conditions(problem: Problem) -> list[str]:
    """Conditions whose residual can be looked at everywhere."""
    found = []
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        patch = condition.region
        full = getattr(patch, "parameters", 0) == len(problem.space.coordinates)
        if full and not condition.data and not residual.uses_normal:
            found.append(condition.name)
    return found


def _marks(solution: "Solution", grid: Grid) -> dict[str, np.ndarray]:
    """Collocation points in the free coordinates; in a slice those of a thin layer around it."""
    found = {}
    free = [grid.coordinates.index(name) for name in grid.axes]
    for condition, block in zip(solution.problem.conditions, solution.blocks, strict=True):
        points = np.asarray(block.points)
        for name, value in grid.held.items():
            along = points[:, grid.coordinates.index(name)]
            points = points[np.abs(along - value) < 0.05 * max(np.ptp(along), 1e-300)]
        if len(points):
            found[condition.name] = points[:, free]
    return found


def _real(values: np.ndarray) -> np.ndarray:
    return np.abs(values) if np.iscomplexobj(values) else values
