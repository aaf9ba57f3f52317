"""Boxes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from kernelpde.checking import check_instance, check_name, check_real, require
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch, PatchUnion
from kernelpde.geometry._sampling import RegionSample
from kernelpde.geometry._space import Space, check_interval
from kernelpde.geometry._tolerances import ROUNDING_TOLERANCE


class Box(AbstractDomain):
    """A product of intervals: `Box(x=(0, 1), y=(0, 1))`, or in space-time `Box(t=(0, 1), x=(-1, 1),
    time="t")`.

    Its sides are named by their position, `"x=0"` and `"x=1"`; `box.side(x=0)` is the same side.

    **Arguments:**

    - `time`: name of the time coordinate, if there is one. Its two sides are then `initial` and
      `final`, and do not belong to `boundary`.
    - `periodic`: names of periodic coordinates. They have no sides and need no condition, and the
      kernels of a problem on the box become periodic in them.
    - `**intervals`: lower and upper end of each coordinate.

    **Example:**

    ```python
    >>> strip = kp.Box(t=(0, 1), x=(-1, 1), time="t")
    >>> list(strip.boundary_patches), strip.volume
    (['x=-1', 'x=1'], 2.0)
    ```
    """

    is_box = True

    def __init__(
        self,
        *unnamed: object,
        time: str | None = None,
        periodic: str | Sequence[str] = (),
        **intervals: tuple[float, float],
    ):
        expected = "named by its coordinate, as in Box(x=(0, 1), y=(0, 1))"
        require(not unnamed, "Box", "every interval", expected, unnamed)
        if not intervals:
            raise InputError("Box: expected at least one interval, such as Box(x=(0, 1)).")
        ends = {name: check_interval("Box", name, interval) for name, interval in intervals.items()}
        self._bounds = np.array(list(ends.values()))
        if time is not None:
            check_name("Box", "time coordinate", time, intervals)
        expected = 'a name or names of coordinates, such as "x" or ("x", "y")'
        check_instance("Box", "periodic", periodic, (str, Sequence, set, frozenset), expected)
        periodic_names = (periodic,) if isinstance(periodic, str) else tuple(periodic)
        for name in periodic_names:
            check_name("Box", "periodic coordinate", name, [i for i in intervals if i != time])
        lengths = {name: float(np.ptp(ends[name])) for name in periodic_names}
        periods = tuple(map(lengths.get, intervals)) if lengths else ()
        duration = None if time is None else tuple(ends[time].tolist())
        self.space = Space(tuple(intervals), time, duration, periods)

    def __repr__(self) -> str:
        space = self.space
        arguments = [f"{name}=({low:g}, {high:g})" for name, (low, high) in self.intervals.items()]
        if space.time is not None:
            arguments.append(f"time={space.time!r}")
        periodic = tuple(space.coordinates[axis] for axis in space.periodic)
        if periodic:
            arguments.append(f"periodic={periodic[0] if len(periodic) == 1 else periodic!r}")
        return f"Box({', '.join(arguments)})"

    @property
    def bounds(self):
        return self._bounds

    @property
    def volume(self):
        return float(np.prod(np.ptp(self._bounds, axis=1)))

    def signed_distance(self, points):
        lower, upper = self._bounds.T
        outside = np.maximum(lower - points, points - upper)
        distance = np.linalg.norm(np.maximum(outside, 0.0), axis=1)
        return distance + np.minimum(outside.max(axis=1), 0.0)

    def _side(self, axis: int, end: int) -> Patch:
        name = f"{self.space.coordinates[axis]}={self._bounds[axis, end]:g}"
        lengths = np.delete(self._bounds[:, 1] - self._bounds[:, 0], axis)
        chart = partial(_map_to_side, self._bounds, axis, end)
        return Patch(name, self.space, len(lengths), chart, prod(lengths))

    @property
    def boundary(self) -> PatchUnion:
        """All spatial sides, with the same number of points on each."""
        return replace(super().boundary, equal_counts=True)

    @property
    def boundary_patches(self):
        axes = [axis for axis in self.space.spatial if axis not in self.space.periodic]
        sides = [self._side(axis, end) for axis in axes for end in (0, 1)]
        return {side.name: side for side in sides}

    def side(self, **position: float) -> Patch:
        """Return the side on which one coordinate has the given value."""
        require(len(position) == 1, "Box.side", "the position", "one number, as in x=0", position)
        ((name, value),) = position.items()
        check_name("Box.side", "coordinate", name, self.space.coordinates)
        check_real("Box.side", name, value)
        axis = self.space.coordinates.index(name)
        if axis in self.space.periodic:
            raise InputError(f"Box.side: {name} is periodic and has no sides.")
        is_end = np.isclose(self._bounds[axis], value, rtol=ROUNDING_TOLERANCE, atol=0.0)
        low, high = self._bounds[axis]
        require(bool(is_end.any()), "Box.side", name, f"{low:g} or {high:g}", value)
        return self._side(axis, int(np.argmax(is_end)))

    def _time_side(self, end):
        if self.space.time is None:
            return super()._time_side(end)
        return self._side(self.space.coordinates.index(self.space.time), end)


def _map_to_side(bounds: np.ndarray, axis: int, end: int, unit: np.ndarray) -> RegionSample:
    lower, upper = bounds.T
    free = np.arange(len(bounds)) != axis
    points = np.full((len(unit), len(bounds)), bounds[axis, end])
    points[:, free] = lower[free] + unit * (upper - lower)[free]
    normals = np.zeros_like(points)
    normals[:, axis] = 2 * end - 1
    return RegionSample(points, normals)
