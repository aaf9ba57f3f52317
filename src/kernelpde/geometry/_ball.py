"""Balls."""

from dataclasses import dataclass
from math import gamma, pi

import numpy as np

from kernelpde.checking import listed, numbers, real_number, shown
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch, Sample, Space


class Ball(AbstractDomain):
    """All points nearer than `radius` to `center`; its boundary is the piece `"sphere"`.

    **Arguments:**

    - `center`: as many numbers as there are coordinates.
    - `radius`: positive.
    - `coordinates`: their names; x, y, z by default, and x0, x1, ... beyond three.

    **Example:**

    ```python
    >>> disc = kp.Ball((0, 0), 2.0, coordinates=("x", "y"))
    >>> round(disc.volume, 3), list(disc.pieces)
    (12.566, ['sphere'])
    ```
    """

    fills_its_bounds = False

    def __init__(self, center, radius: float, coordinates: tuple[str, ...] | None = None):
        self._center = np.atleast_1d(numbers("Ball", "center", center))
        if self._center.ndim != 1 or not np.isfinite(self._center).all():
            raise InputError(
                f"Ball: center must be one finite number per coordinate; got {shown(center)}."
            )
        self._radius = real_number("Ball", "radius", radius, above=0)
        dimension = len(self._center)
        if coordinates is None:
            coordinates = (
                ("x", "y", "z")[:dimension]
                if dimension <= 3
                else tuple(f"x{i}" for i in range(dimension))
            )
        if dimension < 2:
            raise InputError("Ball: expected at least two coordinates; an interval is a Box.")
        if len(coordinates) != dimension or len(set(coordinates)) != dimension:
            raise InputError(
                f"Ball: expected {dimension} different coordinate names, one per number in the "
                f"center; got {listed(coordinates)}."
            )
        self.space = Space(tuple(coordinates))

    def __repr__(self) -> str:
        return f"Ball({tuple(self._center.tolist())}, {self._radius:g})"

    @property
    def bounds(self):
        return np.stack([self._center - self._radius, self._center + self._radius], axis=1)

    def signed_distance(self, points):
        return np.linalg.norm(points - self._center, axis=1) - self._radius

    @property
    def volume(self):
        dimension = len(self._center)
        return pi ** (dimension / 2) / gamma(dimension / 2 + 1) * self._radius**dimension

    @property
    def pieces(self):
        dimension = len(self._center)
        chart = _Sphere(self._center, self._radius)
        parameters = {2: 1, 3: 2}.get(dimension, dimension)
        area = 2 * pi ** (dimension / 2) / gamma(dimension / 2) * self._radius ** (dimension - 1)
        return {"sphere": Patch("sphere", self.space, parameters, chart, area)}


@dataclass(frozen=True, eq=False)
class _Sphere:
    """The unit cube onto a sphere."""

    center: np.ndarray
    radius: float

    def __call__(self, unit: np.ndarray) -> Sample:
        directions = _directions(unit, len(self.center))
        return Sample(self.center + self.radius * directions, directions)


def _directions(unit: np.ndarray, dimension: int) -> np.ndarray:
    """Points of a cube to points of the unit sphere, uniform to uniform."""
    if dimension == 2:
        angle = 2 * pi * unit[:, 0]
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if dimension == 3:
        height, angle = 2 * unit[:, 0] - 1, 2 * pi * unit[:, 1]
        width = np.sqrt(1 - height**2)
        return np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1)
    from scipy.special import ndtri  # slow to import, and rarely needed

    normal = ndtri(np.clip(unit, 1e-15, 1 - 1e-15))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)
