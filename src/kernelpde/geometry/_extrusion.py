"""Shapes that last: a domain in space, times an interval of time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpde.checking import instance, numbers, shown
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch, Sample, Space, patches_of


class Extrusion(AbstractDomain):
    """A shape in space during an interval of time: `Extrusion(polygon, t=(0, 1))`.

    Its coordinates are time and those of the shape, its pieces those of the shape; `initial` and
    `final` are the shape when time begins and ends.

    **Arguments:**

    - `shape`: a domain without time.
    - `**interval`: the name of the time coordinate, and when it begins and ends.

    **Example:**

    ```python
    >>> pipe = kp.Extrusion(kp.Ball((0, 0), 1.0), t=(0, 2))
    >>> pipe.space.coordinates
    ('t', 'x', 'y')
    ```
    """

    def __init__(self, shape: AbstractDomain, **interval: tuple[float, float]):
        instance("Extrusion", "shape", shape, AbstractDomain, "a domain such as Ball((0, 0), 1)")
        if len(interval) != 1:
            raise InputError(
                f"Extrusion: expected one interval of time, such as t=(0, 1); got {interval}."
            )
        ((name, given),) = interval.items()
        ends = numbers("Extrusion", name, given)
        if ends.shape != (2,) or not 0 < ends[1] - ends[0] < np.inf:
            raise InputError(
                f"Extrusion: {name} must be an interval (low, high) with low < high; got "
                f"{shown(given)}."
            )
        space = shape.space
        if space.time is not None or name in space.coordinates:
            raise InputError(
                f"Extrusion: the shape must have neither time nor a coordinate {name!r}; it has "
                f"{space.coordinates}."
            )
        self._shape, self._ends = shape, ends
        self.fills_its_bounds = shape.fills_its_bounds
        periods = (None, *space.periods) if space.periods else ()
        duration = (float(ends[0]), float(ends[1]))
        self.space = Space((name, *space.coordinates), name, duration, periods)

    @property
    def bounds(self):
        return np.concatenate([self._ends[None], self._shape.bounds])

    @property
    def bulge(self):
        return self._shape.bulge

    def signed_distance(self, points):
        before, after = self._ends[0] - points[:, 0], points[:, 0] - self._ends[1]
        within = self._shape.signed_distance(points[:, 1:])
        return np.max([before, after, within], axis=0)

    def contains(self, points):
        during = (points[:, 0] > self._ends[0]) & (points[:, 0] < self._ends[1])
        return during & self._shape.contains(points[:, 1:])

    @property
    def volume(self):
        return float(self._ends[1] - self._ends[0]) * self._shape.volume

    @property
    def pieces(self):
        found = {}
        for name, piece in self._shape.pieces.items():
            (patch,) = patches_of(piece)
            found[name] = self._patch(patch, name, _Lasting(patch.chart, self._ends), 1)
        return found

    def _patch(self, patch: Patch, name: str, chart: Callable[[Any], Sample], more: int) -> Patch:
        duration = float(self._ends[1] - self._ends[0]) if more else 1.0
        keeps = None if patch.keeps is None else _InSpace(patch.keeps)
        measure = duration * patch.measure
        parameters = patch.parameters + more
        return Patch(name, self.space, parameters, chart, measure, keeps, smooth=patch.smooth)

    def _at(self, end: int) -> Patch:
        solid = self._shape.interior
        name = f"{self.space.time}={self._ends[end]:g}"
        return self._patch(solid, name, _When(solid.chart, float(self._ends[end]), 2 * end - 1), 0)

    @property
    def initial(self) -> Patch:
        """The shape when time begins."""
        return self._at(0)

    @property
    def final(self) -> Patch:
        """The shape when time ends."""
        return self._at(1)

    def __repr__(self) -> str:
        return (
            f"Extrusion({self._shape!r}, {self.space.time}=({self._ends[0]:g}, {self._ends[1]:g}))"
        )


# Maps and tests are objects and not local functions, so that regions can be pickled.
@dataclass(frozen=True, eq=False)
class _InSpace:
    """A test that looks at all coordinates but time."""

    keeps: Callable[[np.ndarray], np.ndarray]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.keeps(points[:, 1:])


@dataclass(frozen=True, eq=False)
class _Lasting:
    """A map into space, with one more parameter that is time."""

    chart: Callable[[np.ndarray], Sample]
    ends: np.ndarray

    def __call__(self, unit: np.ndarray) -> Sample:
        points, normals, _ = self.chart(unit[:, 1:])
        time = self.ends[0] + unit[:, :1] * (self.ends[1] - self.ends[0])
        if normals is not None:
            normals = np.concatenate([np.zeros_like(time), normals], axis=1)
        return Sample(np.concatenate([time, points], axis=1), normals)


@dataclass(frozen=True, eq=False)
class _When:
    """A map into space, at one time; its normal is along time."""

    chart: Callable[[np.ndarray], Sample]
    time: float
    sign: int

    def __call__(self, unit: np.ndarray) -> Sample:
        points = self.chart(unit).points
        at = np.concatenate([np.full((len(points), 1), self.time), points], axis=1)
        normals = np.zeros_like(at)
        normals[:, 0] = self.sign
        return Sample(at, normals)
