"""Balls."""

from functools import partial
from math import gamma, pi

import numpy as np

from kernelpde.checking import check_real, require, to_float_array
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._region import Patch
from kernelpde.geometry._sampling import RegionSample
from kernelpde.geometry._space import make_space


class Ball(AbstractDomain):
    """The ball of a given center and radius; its boundary is the piece `"sphere"`.

    **Arguments:**

    - `center`: one number per coordinate.
    - `radius`: positive radius.
    - `coordinates`: coordinate names; by default x, y, z, or x0, x1, ... in more than three
      dimensions.

    **Example:**

    ```python
    >>> disc = kp.Ball((0, 0), 2.0, coordinates=("x", "y"))
    >>> round(disc.volume, 3), list(disc.boundary_patches)
    (12.566, ['sphere'])
    ```
    """

    is_box = False

    def __init__(self, center, radius: float, coordinates: tuple[str, ...] | None = None):
        self._center = np.atleast_1d(to_float_array("Ball", "center", center))
        is_valid = self._center.ndim == 1 and bool(np.isfinite(self._center).all())
        require(is_valid, "Ball", "center", "one finite number per coordinate", center)
        self._radius = check_real("Ball", "radius", radius, greater_than=0)
        advice = "In one dimension, an interval is a Box."
        require(len(self._center) > 1, "Ball", "center", "of two or more numbers", center, advice)
        self.space = make_space("Ball", coordinates, len(self._center))

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
    def boundary_patches(self):
        dimension = len(self._center)
        chart = partial(_map_to_sphere, self._center, self._radius)
        parameter_dim = dimension - 1 if dimension <= 3 else dimension
        area = dimension * self.volume / self._radius
        return {"sphere": Patch("sphere", self.space, parameter_dim, chart, area)}


def _map_to_sphere(center: np.ndarray, radius: float, unit: np.ndarray) -> RegionSample:
    directions = _unit_vectors(unit, len(center))
    return RegionSample(center + radius * directions, directions)


def _unit_vectors(unit: np.ndarray, dimension: int) -> np.ndarray:
    """Map points of a cube to the unit sphere so that uniform points remain uniform."""
    if dimension == 2:
        angle = 2 * pi * unit[:, 0]
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if dimension == 3:
        height, angle = 2 * unit[:, 0] - 1, 2 * pi * unit[:, 1]
        width = np.sqrt(1 - height**2)
        return np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1)
    from scipy.special import ndtri

    normal = ndtri(np.clip(unit, np.finfo(float).eps, 1 - np.finfo(float).eps))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)
