"""Boxes that cover a domain: halved along coordinates, with sizes balanced between neighbors."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

_INITIAL_BOXES = {1: 16, 2: 8}
"""Boxes along each coordinate on the first level, by dimension. A power of two, so that corners are
exact. It trades the cost of the first levels for structure that they overlook: 6 to 11 boxes in the
plane change errors by at most a factor of two, four for a source of width 0.02."""

_MIN_SIZE = 2.0**-12
"""Smallest box, relative to the extent of the domain. It bounds the depth of the refinement, since
box sides are sampled at this distance. Layers of width 0.001 reach it with 4000 rows; not tuned."""

_MAX_SIZE_RATIO = 2.0
"""Maximum ratio of the sizes of neighboring boxes along each coordinate. A larger ratio saves boxes
and reduces the overlap of coarse and fine kernels; without balance errors change by a factor of two
or less on kinks and boundary layers."""

_ROUNDING = 1e-12
"""Tolerance of comparisons between coordinates of corners."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes in coordinates in which the bounding box of the domain is the unit cube.

    **Attributes:**

    - `lower`: lower corners.
    - `sizes`: lengths of the sides, powers of two.
    """

    lower: Float[np.ndarray, "n d"]
    sizes: Float[np.ndarray, "n d"]

    @staticmethod
    def uniform(dimension: int) -> "Boxes":
        """Return the boxes of the first level."""
        count = _INITIAL_BOXES[dimension]
        axes = np.meshgrid(*[np.arange(count) / count] * dimension, indexing="ij")
        lower = np.stack([axis.ravel() for axis in axes], axis=1)
        return Boxes(lower, np.full_like(lower, 1.0 / count))

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def middles(self) -> Float[np.ndarray, "n d"]:
        """Middle of each box."""
        return self.lower + self.sizes / 2

    @property
    def volumes(self) -> Float[np.ndarray, " n"]:
        """Volume of each box."""
        return self.sizes.prod(axis=1)

    def points(self, offset: tuple[float, ...]) -> Float[np.ndarray, "n d"]:
        """Return the point of each box at an offset relative to its size."""
        return self.lower + self.sizes * np.array(offset)

    def select(self, indices: Int[np.ndarray, " m"]) -> "Boxes":
        """Return a subset."""
        return Boxes(self.lower[indices], self.sizes[indices])

    def split(self, axes: Bool[np.ndarray, "n d"]) -> "Boxes":
        """Halve boxes along the marked coordinates, except the smallest ones."""
        axes = axes & (self.sizes > _MIN_SIZE)
        lower, sizes = self.lower, self.sizes
        for axis in range(lower.shape[1]):
            marked = axes[:, axis]
            half = sizes[marked].copy()
            half[:, axis] /= 2
            upper_half = lower[marked].copy()
            upper_half[:, axis] += half[:, axis]
            lower = np.concatenate([lower[~marked], lower[marked], upper_half])
            sizes = np.concatenate([sizes[~marked], half, half])
            axes = np.concatenate([axes[~marked], axes[marked], axes[marked]])
        return Boxes(lower, sizes)

    def balanced(self) -> "Boxes":
        """Halve boxes until the sizes of neighbors differ by at most a factor of two."""
        boxes = self
        while (excess := boxes._unbalanced_axes()).any():
            boxes = boxes.split(excess)
        return boxes

    def _unbalanced_axes(self) -> Bool[np.ndarray, "n d"]:
        """Return along which coordinates each box is much longer than a neighbor."""
        upper = self.lower + self.sizes
        touching = np.ones((len(self), len(self)), dtype=bool)
        for low, high in zip(self.lower.T, upper.T, strict=True):
            touching &= low[:, None] <= high[None, :] + _ROUNDING
            touching &= high[:, None] >= low[None, :] - _ROUNDING
        excess = np.zeros(self.lower.shape, dtype=bool)
        rows, columns = np.nonzero(touching)
        ratio = self.sizes[rows] > (_MAX_SIZE_RATIO + _ROUNDING) * self.sizes[columns]
        for axis in range(self.lower.shape[1]):
            excess[rows[ratio[:, axis]], axis] = True
        return excess

    def locate(self, points: Float[np.ndarray, "m d"]) -> Int[np.ndarray, " m"]:
        """Return the index of the box that contains each point; the nearest one if none does."""
        points = np.clip(points, 0.0, 1.0 - _MIN_SIZE / 4)
        indices = np.full(len(points), -1)
        for sizes in np.unique(self.sizes, axis=0):
            members = np.flatnonzero((self.sizes == sizes).all(axis=1))
            stride = round(1.0 / _MIN_SIZE) ** np.arange(len(sizes))
            keys = np.rint(self.lower[members] / sizes).astype(int) @ stride
            order = np.argsort(keys)
            targets = np.floor(points / sizes).astype(int) @ stride
            positions = np.minimum(np.searchsorted(keys[order], targets), len(keys) - 1)
            matches = keys[order][positions] == targets
            indices[matches] = members[order][positions[matches]]
        for index in np.flatnonzero(indices < 0):
            indices[index] = np.argmin(np.sum((self.middles - points[index]) ** 2, axis=1))
        return indices

    def ghosts(self, layers: Int[np.ndarray, "d 2"]) -> "Boxes":
        """Return copies of the boxes at the sides of the unit cube, outside of it.

        **Arguments:**

        - `layers`: number of copies at the lower and upper side of each coordinate.
        """
        lower, sizes = [self.lower[:0]], [self.sizes[:0]]
        for axis, end in np.ndindex(layers.shape):
            side = self.lower[:, axis] + end * self.sizes[:, axis]
            at_side = np.abs(side - end) < _ROUNDING
            for layer in range(layers[axis, end]):
                copy, size = self.lower[at_side].copy(), self.sizes[at_side]
                copy[:, axis] += (2 * end - 1) * (layer + 1) * size[:, axis]
                lower.append(copy)
                sizes.append(size)
        return Boxes(np.concatenate(lower), np.concatenate(sizes))
