"""Points of the user's own."""

import numpy as np

from kernelpde.checking import finite, listed, numbers
from kernelpde.errors import InputError
from kernelpde.geometry._region import AbstractRegion, Sample, Space


class PointCloud(AbstractRegion):
    """Given points, with or without outward normals.

    **Arguments:**

    - `points`: one row per point.
    - `normals`: one row per point, if a condition uses the normal derivative.
    - `name`: used in messages.
    - `coordinates`: their names, such as `("x", "y")`; by default those of the problem's other
      regions, and x0, x1, ... if there are none.

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
        self.points = numbers(name, "points", points)
        self.normals = None if normals is None else numbers(name, "normals", normals)
        self.name = name
        if self.points.ndim != 2 or not self.points.size:
            raise InputError(
                f"{name}: expected points of shape (n, d) with n > 0; got {self.points.shape}."
            )
        finite(name, "points", self.points)
        self.space = None if coordinates is None else Space(tuple(coordinates))
        dimension = self.points.shape[1]
        if coordinates is not None and len(set(coordinates)) != dimension:
            raise InputError(
                f"{name}: expected {dimension} different coordinate names, one per column; got "
                f"{listed(coordinates)}."
            )
        if self.normals is None:
            return
        if self.normals.shape != self.points.shape:
            raise InputError(
                f"{name}: expected normals of the same shape as the points {self.points.shape}; "
                f"got {self.normals.shape}."
            )
        finite(name, "normals", self.normals)
        lengths = np.linalg.norm(self.normals, axis=1)
        if (np.abs(lengths - 1.0) > 1e-6).any():
            row = int(np.argmax(np.abs(lengths - 1.0)))
            raise InputError(
                f"{name}: normals must have length 1; got {lengths[row]:g} in row {row}. Divide by "
                "np.linalg.norm(normals, axis=1, keepdims=True)."
            )

    @property
    def has_normals(self):
        return self.normals is not None

    def sample(self, count, rng, method="uniform"):
        del rng, method
        if count not in (None, len(self.points)):
            raise InputError(
                f"{self.name}: has {len(self.points)} points of its own; got a request for "
                f"{count}. Leave the count out."
            )
        return Sample(self.points, self.normals)
