"""Extrusion of a spatial domain along an interval of time."""

from functools import partial

import numpy as np

from kernelpde.checking import check_instance, require
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch
from kernelpde.geometry._sampling import Chart, Mask, RegionSample
from kernelpde.geometry._space import Space, check_interval


class Extrusion(AbstractDomain):
    """A fixed shape during an interval of time: `Extrusion(polygon, t=(0, 1))`.

    Its coordinates are time followed by the coordinates of the shape, and its boundary pieces have
    the names of the shape's. `initial` and `final` are the shape at the ends of the interval.

    **Arguments:**

    - `shape`: a domain without time.
    - `**interval`: name of the time coordinate, with the start and end of time.

    **Example:**

    ```python
    >>> pipe = kp.Extrusion(kp.Ball((0, 0), 1.0), t=(0, 2))
    >>> pipe.space.coordinates
    ('t', 'x', 'y')
    ```
    """

    def __init__(self, shape: AbstractDomain, **interval: tuple[float, float]):
        check_instance(
            "Extrusion", "shape", shape, AbstractDomain, "a domain such as Ball((0, 0), 1)"
        )
        expected = "one interval, such as t=(0, 1)"
        require(len(interval) == 1, "Extrusion", "the duration", expected, interval)
        ((name, duration),) = interval.items()
        self._duration = check_interval("Extrusion", name, duration)
        space = shape.space
        if space.time is not None or name in space.coordinates:
            raise InputError(
                f"Extrusion: the shape must have neither time nor a coordinate {name!r}; it has "
                f"{space.coordinates}."
            )
        self._shape = shape
        self.is_box = shape.is_box
        start, end = self._duration.tolist()
        periods = (None, *space.periods) if space.periods else ()
        self.space = Space((name, *space.coordinates), name, (start, end), periods)

    @property
    def bounds(self):
        return np.concatenate([self._duration[None], self._shape.bounds])

    @property
    def faceting_error(self):
        return self._shape.faceting_error

    def signed_distance(self, points):
        start, end = self._duration
        distance = self._shape.signed_distance(points[:, 1:])
        return np.max([start - points[:, 0], points[:, 0] - end, distance], axis=0)

    def contains(self, points):
        start, end = self._duration
        is_during = (points[:, 0] > start) & (points[:, 0] < end)
        return is_during & self._shape.contains(points[:, 1:])

    @property
    def volume(self):
        return float(np.ptp(self._duration)) * self._shape.volume

    @property
    def boundary_patches(self):
        return {name: self._side(patch) for name, patch in self._shape.boundary_patches.items()}

    def _side(self, patch: Patch) -> Patch:
        measure = float(np.ptp(self._duration)) * patch.full_measure
        chart = partial(_extrude, patch.chart, self._duration)
        return self._embed(patch, patch.name, patch.parameter_dim + 1, chart, measure)

    def _time_side(self, end):
        shape, time = self._shape.interior, float(self._duration[end])
        chart, name = (
            partial(_fix_time, shape.chart, time, 2 * end - 1),
            f"{self.space.time}={time:g}",
        )
        return self._embed(shape, name, shape.parameter_dim, chart, shape.full_measure)

    def _embed(
        self, patch: Patch, name: str, parameter_dim: int, chart: Chart, measure: float
    ) -> Patch:
        """Return a patch in space-time with the mask of a patch in space."""
        mask = None if patch.mask is None else partial(_apply_in_space, patch.mask)
        return Patch(name, self.space, parameter_dim, chart, measure, mask, smooth=patch.smooth)

    def __repr__(self) -> str:
        start, end = self._duration
        return f"Extrusion({self._shape!r}, {self.space.time}=({start:g}, {end:g}))"


def _apply_in_space(mask: Mask, points: np.ndarray) -> np.ndarray:
    return mask(points[:, 1:])


def _extrude(chart: Chart, duration: np.ndarray, unit: np.ndarray) -> RegionSample:
    """Map the first parameter to time and the others to space."""
    points, normals, _ = chart(unit[:, 1:])
    time = duration[0] + unit[:, :1] * (duration[1] - duration[0])
    if normals is not None:
        normals = np.concatenate([np.zeros_like(time), normals], axis=1)
    return RegionSample(np.concatenate([time, points], axis=1), normals)


def _fix_time(chart: Chart, time: float, sign: int, unit: np.ndarray) -> RegionSample:
    """Map all parameters to space at one time, with normals along time."""
    points = chart(unit).points
    points = np.concatenate([np.full((len(points), 1), time), points], axis=1)
    normals = np.zeros_like(points)
    normals[:, 0] = sign
    return RegionSample(points, normals)
