"""Distances in units of the lengthscales, periodic coordinates included."""

from math import pi

import equinox as eqx
import numpy as np
from jaxtyping import Float

from kernelpde.functionals import Prior
from kernelpde.kernels import kernel_periods, typical_lengthscales


class ScaledCoordinates(eqx.Module):
    """Coordinates with equal lengthscales, in which periodic ones are circles.

    A coordinate with period P is mapped to a circle of radius P / 2π. Distances are chords, as in
    the kernels.

    **Attributes:**

    - `scale`: scale factor of each coordinate.
    - `periods`: period of each coordinate, `None` if it is not periodic.
    """

    scale: Float[np.ndarray, " d"]
    periods: tuple[float | None, ...] = eqx.field(static=True)

    @staticmethod
    def from_prior(prior: Prior, points: Float[np.ndarray, "N d"]) -> "ScaledCoordinates":
        """Scale by the typical lengthscales of the kernels at the points."""
        extents = np.ptp(points, axis=0)
        scale = typical_lengthscales(prior.kernels, np.where(extents > 0, extents, 1.0))
        return ScaledCoordinates(
            np.exp(np.mean(np.log(scale))) / scale, kernel_periods(prior.kernels, len(extents))
        )

    def __call__(self, points: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N e"]:
        """Return the scaled coordinates of points."""
        columns = []
        for axis, period in enumerate(self.periods):
            column, scale = points[:, axis], self.scale[axis]
            if period is None:
                columns.append(scale * column)
            else:
                angle, radius = 2.0 * pi * column / period, scale * period / (2.0 * pi)
                columns += [radius * np.cos(angle), radius * np.sin(angle)]
        return np.stack(columns, axis=1)

    def grid_spacing(self, points: Float[np.ndarray, "N d"]) -> float:
        """Return the spacing of a uniform grid with the same number of points."""
        extent = np.ptp(points, axis=0) * self.scale
        volume = float(np.prod(extent[extent > 0]))
        return (volume / len(points)) ** (1.0 / max(int((extent > 0).sum()), 1))
