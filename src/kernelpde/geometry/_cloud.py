"""Finite regions: user-supplied points, and the base class of all of them."""

import abc

import numpy as np
from jaxtyping import Bool

from kernelpde.checking import check_finite, require, to_float_array
from kernelpde.errors import InputError
from kernelpde.geometry._region import AbstractRegion
from kernelpde.geometry._sampling import RegionSample
from kernelpde.geometry._space import Space, make_space
from kernelpde.geometry._tolerances import PROBE_DISTANCE


class FiniteRegion(AbstractRegion):
    """A region of finitely many points, all of which belong to every sample."""

    points: np.ndarray
    space: Space | None

    @property
    @abc.abstractmethod
    def all_points(self) -> RegionSample:
        """All points of the region."""

    @abc.abstractmethod
    def select(self, rows: Bool[np.ndarray, " n"]) -> "FiniteRegion":
        """Return the region of a subset of the points, or of the sets of points."""

    def sample(self, count, rng, method="uniform"):
        del rng, method
        size = len(self.points)
        require(count in (None, size), self.name, "count", f"{size}, or left out", count)
        return self.all_points


class PointCloud(FiniteRegion):
    """User-supplied points, with or without outward normals.

    **Arguments:**

    - `points`: one row per point.
    - `normals`: one row per point, if a condition uses the normal derivative.
    - `name`: name in messages.
    - `coordinates`: coordinate names, such as `("x", "y")`; by default taken from other regions of
      the problem, or x0, x1, ... if there are none.

    **Example:**

    ```python
    >>> cloud = kp.PointCloud([[0.1, 0.2], [0.5, 0.9]], coordinates=("x", "y"))
    ```
    """

    def __init__(
        self,
        points,
        normals=None,
        name: str = "point cloud",
        coordinates: tuple[str, ...] | None = None,
    ):
        self.points = to_float_array(name, "points", points)
        self.normals = None if normals is None else to_float_array(name, "normals", normals)
        self.name = name
        shape = self.points.shape
        is_valid = len(shape) == 2 and 0 not in shape
        require(is_valid, name, "points", "of shape (n, d) with n > 0", shape)
        advice = "Expected finite numbers. Drop such rows, in pandas df.dropna(subset=['x', 'y'])."
        check_finite(name, "points", self.points, advice)
        self.space = None if coordinates is None else make_space(name, coordinates, shape[1])
        if self.normals is None:
            return
        expected = f"of the same shape as the points, {shape}"
        require(self.normals.shape == shape, name, "normals", expected, self.normals.shape)
        check_finite(name, "normals", self.normals)
        lengths = np.linalg.norm(self.normals, axis=1)
        row = int(np.argmax(np.abs(lengths - 1.0)))
        if np.abs(lengths[row] - 1.0) > PROBE_DISTANCE:
            raise InputError(
                f"{name}: normals must have length 1; got {lengths[row]:g} in row {row}. Divide by "
                "np.linalg.norm(normals, axis=1, keepdims=True)."
            )

    @property
    def has_normals(self):
        return self.normals is not None

    @property
    def all_points(self):
        return RegionSample(self.points, self.normals)

    def select(self, rows):
        return PointCloud(*self.all_points.select(rows)[:2], self.name)
