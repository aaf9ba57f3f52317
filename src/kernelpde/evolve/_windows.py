"""Conditions of one time window, and continuity with the previous window."""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import format_names
from kernelpde.errors import InputError
from kernelpde.geometry import FiniteRegion, PointCloud, Space
from kernelpde.problem import Condition, Problem
from kernelpde.solution import Solution


def initial_condition(problem: Problem) -> str:
    """Return the name of the noise-free condition whose points are all at the start of time."""
    space = problem.space
    assert space.time is not None
    assert space.duration is not None
    start, axis = space.duration[0], space.coordinates.index(space.time)

    def is_initial(condition: Condition) -> bool:
        region, rng = condition.region, np.random.default_rng(0)
        is_finite = isinstance(region, FiniteRegion)
        points = region.points if is_finite else region.sample(8, rng, "uniform").points
        return bool(np.all(points[..., axis] == start) and not condition.noise_std.any())

    names = [condition.name for condition in problem.conditions if is_initial(condition)]
    if len(names) != 1:
        raise InputError(
            f"march: expected one condition at {space.time} = {start:g}, which windows continue; "
            f"got {format_names(names) if names else 'none'}. Write "
            "Condition('initial', domain.initial, ...) with a tuple for several fields."
        )
    return names[0]


def restrict_to_window(
    condition: Condition, space: Space, start: float, stop: float, is_last: bool
) -> Condition | None:
    """Restrict a condition to a time window; return `None` if none of its points are inside.

    An average belongs to the window that contains its end.
    """
    region = condition.region
    if not isinstance(region, FiniteRegion):
        return replace(condition, region=region.restrict_time(start, stop))
    times = region.points[..., space.coordinates.index(str(space.time))]
    first, last = (times, times) if times.ndim == 1 else (times.min(1), times.max(1))
    inside = (last >= start) & ((last <= stop) if is_last else (last < stop))
    if np.any(first[inside] < start):
        raise InputError(
            f"march: an average of condition {condition.name!r} reaches across the start of a "
            f"window at {start:g}. Use fewer windows, or averages at one time."
        )
    if not inside.any():
        return None
    return condition.select(inside)


def continuity_condition(
    name: str, previous: Solution, start: float, points: Float[np.ndarray, "n d"], order: int
) -> Condition:
    """Return the initial condition of a window: all fields continue the previous solution.

    The times of the points are replaced by the start of the window. For equations of order 2 in
    time first derivatives are continuous as well.
    """
    space = previous.problem.space
    assert space.time is not None
    points = points.copy()
    points[:, space.coordinates.index(space.time)] = start
    fields = tuple(field.name for field in previous.problem.fields)
    residual = ContinuityResidual(fields, space.time, order)
    cloud = PointCloud(points, name=name)
    return Condition(name, cloud, residual, data=residual.data_from(previous, points))


@dataclass(frozen=True)
class ContinuityResidual:
    """The residual u - u_before for all real fields, and its time derivative if `order` is 2.

    Residuals of all windows are equal, so that they share one program.
    """

    fields: tuple[str, ...]
    time: str
    order: int

    @property
    def data(self) -> tuple[str, ...]:
        suffixes = ("before", "rate_before")[: self.order]
        return tuple(f"{field}_{suffix}" for field in self.fields for suffix in suffixes)

    def data_from(
        self, previous: Solution, points: Float[np.ndarray, "n d"]
    ) -> dict[str, np.ndarray]:
        """Return the values, and for order 2 the rates, of all fields of a solution at points."""
        values = []
        for field in self.fields:
            view = previous[field]
            values += [view(points)] + [view.d(self.time)(points)] * (self.order == 2)
        return dict(zip(self.data, map(np.asarray, values), strict=True))

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature with the fields and data as arguments, by which a problem calls residuals."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ("x", *self.fields, *self.data)
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(self, x: Array, *arguments: Any) -> tuple[Array, ...]:
        views, data = arguments[: len(self.fields)], arguments[len(self.fields) :]
        residuals = [view.value - data[self.order * i] for i, view in enumerate(views)]
        if self.order == 2:
            residuals += [view.d(self.time) - data[2 * i + 1] for i, view in enumerate(views)]
        return tuple(residuals)
