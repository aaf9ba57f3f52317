"""How fine things are from place to place."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import array

_PLACES = 64
"""Number of places at which a size is given: the same for all problems, so that one program
serves."""

_UNIT = 2.0**-40
"""Of the whole numbers that places and sizes are kept as; they are not learned then."""

_FAR = 2.0**20
"""Where places are that were not given: their sizes make no difference."""


class Sizes(eqx.Module):
    """H(x) = (1 + Σⱼ 1 / (sⱼ² + |x - pⱼ|²))^(-1/2): small around some places, at most one.

    It grows no faster than the distance, and is smooth between places: with the smallest distance
    instead, two holes in a plate take several times as many points. Coordinates are scaled to
    extents of one.

    **Attributes:**

    - `places`, `sizes`: pⱼ and sⱼ, scaled, in units of 2⁻⁴⁰.
    - `low`, `extent`: of the box that is scaled to one.
    """

    places: Int[Array, "J d"]
    sizes: Int[Array, " J"]
    low: tuple[float, ...] = eqx.field(static=True)
    extent: tuple[float, ...] = eqx.field(static=True)

    @staticmethod
    def of(
        places: Float[np.ndarray, "k d"],
        sizes: Float[np.ndarray, " k"],
        box: Float[np.ndarray, "d 2"],
    ) -> "Sizes":
        """From places in the domain's own coordinates."""
        low, extent = box[:, 0], box[:, 1] - box[:, 0]
        filled = np.full((_PLACES, len(box)), _FAR)
        given = np.full(_PLACES, _FAR)
        filled[: len(places)], given[: len(sizes)] = (places - low) / extent, sizes
        return Sizes(
            array(np.rint(filled / _UNIT).astype(np.int64)),
            array(np.rint(given / _UNIT).astype(np.int64)),
            tuple(low.tolist()),
            tuple(extent.tolist()),
        )

    def scaled(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Points in coordinates with extents of one."""
        return (points - np.array(self.low)) / np.array(self.extent)

    def at(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Sizes at many points, without JAX."""
        places, sizes = np.asarray(self.places) * _UNIT, np.asarray(self.sizes) * _UNIT
        apart = ((self.scaled(points)[:, None, :] - places) ** 2).sum(-1)
        return (1 + (1 / (apart + sizes**2)).sum(axis=1)) ** -0.5

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        places, sizes = self.places * _UNIT, self.sizes * _UNIT
        scaled = (x - jnp.array(self.low)) / jnp.array(self.extent)
        apart = jnp.sum((scaled - places) ** 2, axis=1)
        return (1 + jnp.sum(1 / (apart + sizes**2))) ** -0.5
