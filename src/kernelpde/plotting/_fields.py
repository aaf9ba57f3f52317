"""Plots of fields, residuals and lengthscales over the domain of a problem."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.arrays import TINY
from kernelpde.checking import check_callable, check_mapping
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractRegion, Grid
from kernelpde.kernels import find_gibbs
from kernelpde.plotting._panels import Panel, draw_panels
from kernelpde.plotting._style import BAND_WIDTH, label_with_unit
from kernelpde.problem import Problem, field_names, problem_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PointFunction = Callable[[np.ndarray], np.ndarray]

_LAYER = 0.05
"""Distance from a slice, relative to the extent of the points, up to which points are marked. Of
300 points in a cube half of it marks 15 and double 60."""


@runtime_checkable
class Plottable(Protocol):
    """A solution whose fields and residuals can be evaluated at points."""

    @property
    def problem(self) -> Problem: ...

    def __getitem__(self, field: str, /) -> Callable: ...

    def residual(self, condition: str, points: Any, /) -> Any: ...


@dataclass(frozen=True)
class FieldOverlays:
    """Functions of points `(n, d)` that a plot shows with the fields, by field name.

    **Attributes:**

    - `references`: known solutions, from which errors are computed.
    - `stds`: standard deviations.
    - `errors`: estimated errors, plotted for fields without a reference.
    """

    references: Mapping[str, PointFunction] = field(default_factory=dict)
    stds: Mapping[str, PointFunction] = field(default_factory=dict)
    errors: Mapping[str, PointFunction] = field(default_factory=dict)


def plot_fields(
    solution: Plottable,
    names: Sequence[str],
    grid: Grid,
    overlays: FieldOverlays,
    residuals: Sequence[str] | None,
    points: Mapping[str, np.ndarray],
    units: Mapping[str, str],
) -> "Figure":
    """Plot fields with their errors and standard deviations, and residuals.

    **Arguments:**

    - `solution`: solution to evaluate.
    - `names`: fields to plot; all if empty.
    - `grid`: grid with one or two free coordinates.
    - `overlays`: further functions to plot.
    - `residuals`: conditions whose residual is plotted; by default those on the whole domain.
    - `points`: points to mark in the first panel, by condition.
    - `units`: units of fields and coordinates.
    """
    problem = solution.problem
    real_names = [field.name for field in problem.fields]
    accepted = [*field_names(problem), *real_names]
    check = partial(check_callable, expected="a function of points")
    check_mapping("plot", "references", overlays.references, accepted, check)
    check_mapping("plot", "std", overlays.stds, accepted, check)
    markers = _near_grid(points, grid)
    panels: list[Panel] = []
    for name in names or field_names(problem):
        view = solution[name]
        if name in [law.name for law in problem.laws]:
            raise InputError(
                f"plot: {name!r} is a law, not a field. Use solution[{name!r}].plot()."
            )
        field_grid = grid.restrict(_regions(problem, name))
        panels += _field_panels(name, view, field_grid, overlays, markers, units)
        markers = {}
    for name in _interior_conditions(problem) if residuals is None else residuals:
        values = np.abs(np.asarray(solution.residual(name, grid.points)))
        rms = np.sqrt(np.mean(values**2, axis=1)) if values.shape[1] > 1 else values[:, 0]
        regions = [c.region for c in problem.conditions if c.name == name]
        panels.append(Panel(f"residual of {name}", grid.restrict(regions).to_grid(rms), "log"))
    return draw_panels(panels, grid, units)


def _field_panels(
    name: str,
    view: PointFunction,
    grid: Grid,
    overlays: FieldOverlays,
    markers: Mapping[str, np.ndarray],
    units: Mapping[str, str],
) -> list[Panel]:
    """Return the panels of one field: values, error and standard deviation."""

    def evaluate(functions: Mapping[str, PointFunction]) -> np.ndarray | None:
        return np.asarray(functions[name](grid.points)) if name in functions else None

    values = np.asarray(view(grid.points))
    reference, std = evaluate(overlays.references), evaluate(overlays.stds)
    is_line = len(grid.axes) == 1
    label = f"|{name}|" if np.iscomplexobj(values) else name
    overlay = None
    if is_line and reference is not None:
        overlay = ("reference", grid.to_grid(to_real(reference)))
    panels = [
        Panel(
            f"solution {label}",
            grid.to_grid(to_real(values)),
            label=label_with_unit(label, units),
            overlay=overlay,
            band=grid.to_grid(BAND_WIDTH * std) if is_line and std is not None else None,
            points=markers,
        )
    ]
    unit_label = label_with_unit(name, units)
    if reference is not None:
        error = grid.to_grid(np.abs(values - reference))
        panels.append(Panel(f"error of {name}", error, "log", unit_label))
    elif (estimate := evaluate(overlays.errors)) is not None:
        error = grid.to_grid(estimate)
        panels.append(Panel(f"estimated error of {name}", error, "log", unit_label))
    if std is not None and not is_line:
        title = f"standard deviation of {name}"
        panels.append(Panel(title, grid.to_grid(std), "magnitude", unit_label))
    return panels


def plot_lengthscales(
    problem: Problem, at: Mapping[str, float] | None, units: Mapping[str, str]
) -> "Figure":
    """Plot the lengthscales that vary over the domain; arguments as for `plot_fields`."""
    grid = problem_grid(problem, None, at, free=2)
    panels = []
    for name, kernel in [(f.name, gibbs) for f in problem.fields for gibbs in find_gibbs(f.kernel)]:
        lengths = np.asarray(jax.vmap(kernel.lengthscale)(jnp.asarray(grid.points)))
        lengths = lengths.reshape(len(lengths), -1)
        for axis, values in enumerate(lengths.T):
            suffix = f" in {grid.coordinates[axis]}" if lengths.shape[1] > 1 else ""
            panels.append(Panel(f"lengthscale of {name}{suffix}", grid.to_grid(values)))
    if not panels:
        raise InputError(
            "plot_lengthscales: no kernel of this problem has a spatially varying lengthscale: "
            f"{', '.join(repr(field.kernel) for field in problem.fields)}. Use a Gibbs kernel."
        )
    return draw_panels(panels, grid, units)


def _regions(problem: Problem, name: str) -> list[AbstractRegion]:
    """Return the regions of the conditions that contain a field."""
    components = {complex_name: pair for complex_name, *pair in problem.complex_fields}
    indices = components.get(name) or [i for i, f in enumerate(problem.fields) if f.name == name]
    residuals = problem.by_condition(problem.residuals)
    return [
        condition.region
        for condition in problem.conditions
        if any(term.field in indices for term in residuals[condition.name].terms)
    ]


def _interior_conditions(problem: Problem) -> list[str]:
    """Return the conditions whose residual can be evaluated in the interior of the domain."""
    dimension, residuals = len(problem.space.coordinates), problem.by_condition(problem.residuals)
    return [
        condition.name
        for condition in problem.conditions
        if getattr(condition.region, "parameter_dim", 0) == dimension
        and not condition.data
        and not residuals[condition.name].uses_normal
    ]


def _near_grid(points: Mapping[str, np.ndarray], grid: Grid) -> dict[str, np.ndarray]:
    """Return points in the free coordinates; in a slice, points of a thin layer around it."""
    free = [grid.coordinates.index(name) for name in grid.axes]
    layers = {}
    for condition, layer in points.items():
        for name, value in grid.fixed.items():
            coordinate = layer[:, grid.coordinates.index(name)]
            layer = layer[np.abs(coordinate - value) < _LAYER * max(np.ptp(coordinate), TINY)]
        if len(layer):
            layers[condition] = layer[:, free]
    return layers


def to_real(values: np.ndarray) -> np.ndarray:
    """Return absolute values of complex values, and real values unchanged."""
    return np.abs(values) if np.iscomplexobj(values) else values
