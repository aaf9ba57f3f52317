"""Boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from kernelpde.checking import listed, numbers, real_number, shown
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch, Patches, Sample, Space


class Box(AbstractDomain):
    """A product of intervals: `Box(x=(0, 1), y=(0, 1))`, or in space-time `Box(t=(0, 1), x=(-1, 1),
    time="t")`.

    Its sides are named by their position, `"x=0"` and `"x=1"`; `box.at(x=0)` is the same side.

    **Arguments:**

    - `time`: the name of the time coordinate, if there is one. Its two sides are then `initial`
      and `final`, and do not belong to `boundary`.
    - `periodic`: the names of periodic coordinates. They have no sides and need no condition, and
      the kernels of a problem on the box become periodic in them.
    - `**intervals`: lower and upper end of each coordinate.

    **Example:**

    ```python
    >>> strip = kp.Box(t=(0, 1), x=(-1, 1), time="t")
    >>> list(strip.pieces), strip.volume
    (['x=-1', 'x=1'], 2.0)
    ```
    """

    fills_its_bounds = True

    def __init__(
        self,
        *unnamed: Any,
        time: str | None = None,
        periodic: str | Sequence[str] = (),
        **intervals: tuple[float, float],
    ):
        if unnamed:
            raise InputError(
                f"Box: every interval needs the name of its coordinate, as in Box(x=(0, 1), "
                f"y=(0, 1)); got {shown(unnamed)}."
            )
        if not intervals:
            raise InputError("Box: expected at least one interval, such as Box(x=(0, 1)).")
        for name, interval in intervals.items():
            ends = numbers("Box", name, interval)
            # The length may overflow though both ends are finite.
            with np.errstate(over="ignore", invalid="ignore"):
                fits = ends.shape == (2,) and 0 < ends[1] - ends[0] < np.inf
            if not fits:
                raise InputError(
                    f"Box: {name} must be an interval (low, high) with low < high; got {interval}."
                )
        if time is not None and time not in intervals:
            raise InputError(f"Box: the time coordinate {time!r} is not among {listed(intervals)}.")
        if not isinstance(periodic, str | Sequence | set | frozenset):
            raise InputError(
                f"Box: periodic must be a name or names of coordinates; got {shown(periodic)}. "
                'Write periodic="x" or periodic=("x", "y").'
            )
        wound = (periodic,) if isinstance(periodic, str) else tuple(periodic)
        for name in wound:
            if name not in intervals or name == time:
                raise InputError(
                    f"Box: the periodic coordinate {name!r} must be one of "
                    f"{listed(i for i in intervals if i != time)}."
                )
        self._bounds = np.array([list(map(float, ends)) for ends in intervals.values()])
        lengths = dict(zip(intervals, np.diff(self._bounds, axis=1)[:, 0].tolist(), strict=True))
        begin, end = (0.0, 0.0) if time is None else map(float, intervals[time])
        self.space = Space(
            tuple(intervals),
            time,
            None if time is None else (begin, end),
            tuple(lengths[name] if name in wound else None for name in intervals) if wound else (),
        )

    def __repr__(self) -> str:
        names, space = self.space.coordinates, self.space
        parts = [f"{name}=({a:g}, {b:g})" for name, (a, b) in zip(names, self._bounds, strict=True)]
        wound = [n for n, p in zip(names, space.periods, strict=False) if p is not None]
        parts += [f"time={space.time!r}"] * (space.time is not None)
        parts += [f"periodic={wound[0] if len(wound) == 1 else tuple(wound)!r}"] * bool(wound)
        return f"Box({', '.join(parts)})"

    @property
    def bounds(self):
        return self._bounds

    @property
    def volume(self):
        return float(np.prod(self._bounds[:, 1] - self._bounds[:, 0]))

    def signed_distance(self, points):
        lower, upper = self._bounds.T
        outside = np.maximum(lower - points, points - upper)
        return np.linalg.norm(np.maximum(outside, 0.0), axis=1) + np.minimum(
            outside.max(axis=1), 0.0
        )

    def _side(self, axis: int, end: int) -> Patch:
        lower, upper = self._bounds.T
        others = [i for i in range(len(lower)) if i != axis]
        name = f"{self.space.coordinates[axis]}={self._bounds[axis, end]:g}"
        chart = _Side(self._bounds, axis, end)
        return Patch(name, self.space, len(others), chart, prod((upper - lower)[others]))

    @property
    def boundary(self) -> Patches:
        """All sides, in a space-time box those in space; as many points on each as on any other."""
        return replace(super().boundary, equal=True)

    @property
    def pieces(self):
        periods = self.space.periods or (None,) * len(self._bounds)
        sides = [
            self._side(axis, end)
            for axis in self.space.spatial
            for end in (0, 1)
            if periods[axis] is None
        ]
        return {side.name: side for side in sides}

    def at(self, **where: float) -> Patch:
        """The side on which one coordinate has the given value."""
        if len(where) != 1:
            raise InputError(f"Box.at: expected one coordinate, such as at(x=0); got {where}.")
        ((name, value),) = where.items()
        if name not in self.space.coordinates:
            raise InputError(
                f"Unknown coordinate {name!r}; the domain has "
                f"{', '.join(map(repr, self.space.coordinates))}."
            )
        real_number("Box.at", name, value)
        axis = self.space.coordinates.index(name)
        if self.space.periods and self.space.periods[axis] is not None:
            raise InputError(f"Box.at: {name} is periodic and has no sides.")
        matches = np.flatnonzero(np.isclose(self._bounds[axis], value, rtol=1e-12, atol=0.0))
        if not len(matches):
            low, high = self._bounds[axis]
            raise InputError(
                f"Box.at: {name}={value:g} is not a side; {name} runs from {low:g} to {high:g}."
            )
        return self._side(axis, int(matches[0]))

    def _end_of_time(self, end: int, name: str) -> Patch:
        if self.space.time is None:
            raise InputError(f"Box.{name} needs a time coordinate: Box(t=(0, 1), ..., time='t').")
        return self._side(self.space.coordinates.index(self.space.time), end)

    @property
    def initial(self) -> Patch:
        """The side where time begins."""
        return self._end_of_time(0, "initial")

    @property
    def final(self) -> Patch:
        """The side where time ends."""
        return self._end_of_time(1, "final")


@dataclass(frozen=True, eq=False)
class _Side:
    """The unit cube onto a side of a box."""

    bounds: np.ndarray
    axis: int
    end: int

    def __call__(self, unit: np.ndarray) -> Sample:
        lower, upper = self.bounds.T
        others = [i for i in range(len(lower)) if i != self.axis]
        points = np.full((len(unit), len(lower)), self.bounds[self.axis, self.end])
        points[:, others] = lower[others] + unit * (upper - lower)[others]
        normals = np.zeros_like(points)
        normals[:, self.axis] = 2 * self.end - 1
        return Sample(points, normals)
