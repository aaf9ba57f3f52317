"""Size field: the local spacing of points and lengthscales."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import to_array
from kernelpde.geometry._sampling import Points

_MAX_CENTERS = 64
"""Number of grading centers after padding; fixed, so that all problems share one program."""

_QUANTUM = np.exp2(-40)
"""Unit of the integers that store centers and radii. Integers are not trained."""

_PADDING_DISTANCE = np.reciprocal(np.sqrt(_QUANTUM))
"""Coordinate and radius of padding centers, whose contribution to H is negligible."""


class SizeField(eqx.Module):
    """Smooth size field H(x) = (1 + Σⱼ 1 / (sⱼ² + |x - pⱼ|²))^(-1/2) ≤ 1.

    Grading centers pⱼ have radii sⱼ. H is 1-Lipschitz. The smooth minimum is deliberate: with the
    distance to the nearest center, a plate with two holes needs several times more points.
    Coordinates are scaled to extents of one.

    **Attributes:**

    - `centers`, `radii`: pⱼ and sⱼ, scaled, in units of 2⁻⁴⁰.
    - `low`, `extent`: lower corner and extents of the box that is scaled to one.
    """

    centers: Int[Array, "J d"]
    radii: Int[Array, " J"]
    low: tuple[float, ...] = eqx.field(static=True)
    extent: tuple[float, ...] = eqx.field(static=True)

    @staticmethod
    def from_centers(
        centers: Float[np.ndarray, "k d"],
        radii: Float[np.ndarray, " k"],
        box: Float[np.ndarray, "d 2"],
    ) -> "SizeField":
        """Build a size field from centers in the domain's coordinates."""
        low, extent = box[:, 0], box[:, 1] - box[:, 0]
        padded_centers = np.full((_MAX_CENTERS, len(box)), _PADDING_DISTANCE)
        padded_radii = np.full(_MAX_CENTERS, _PADDING_DISTANCE)
        padded_centers[: len(centers)] = (centers - low) / extent
        padded_radii[: len(radii)] = radii
        return SizeField(
            to_array(np.rint(padded_centers / _QUANTUM).astype(np.int64)),
            to_array(np.rint(padded_radii / _QUANTUM).astype(np.int64)),
            tuple(low.tolist()),
            tuple(extent.tolist()),
        )

    def scaled(self, points: Points) -> Points:
        """Scale points to coordinates with extents of one."""
        return (points - np.array(self.low)) / np.array(self.extent)

    def evaluate(self, points: Points) -> Float[np.ndarray, " n"]:
        """Evaluate H at many points with NumPy."""
        centers, radii = np.asarray(self.centers) * _QUANTUM, np.asarray(self.radii) * _QUANTUM
        squares = ((self.scaled(points)[:, None, :] - centers) ** 2).sum(-1)
        return (1 + (1 / (squares + radii**2)).sum(axis=1)) ** -0.5

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        centers, radii = self.centers * _QUANTUM, self.radii * _QUANTUM
        scaled = (x - jnp.array(self.low)) / jnp.array(self.extent)
        squares = jnp.sum((scaled - centers) ** 2, axis=1)
        return (1 + jnp.sum(1 / (squares + radii**2))) ** -0.5
