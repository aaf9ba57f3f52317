"""How far apart points are in units of lengthscales, around a period too."""

from math import pi

import equinox as eqx
import numpy as np
from jaxtyping import Float

from kernelpde.functionals import Kernels
from kernelpde.kernels import periods_of, typical_lengthscales


class Metric(eqx.Module):
    """Coordinates in which lengthscales are equal and periods are closed.

    A coordinate with a period P becomes two, those of a circle of radius P / 2π: distances are
    chords, as in the kernels themselves.

    **Attributes:**

    - `scale`: what each coordinate is multiplied by.
    - `periods`: one per coordinate, `None` where it is not periodic.
    """

    scale: Float[np.ndarray, " d"]
    periods: tuple[float | None, ...] = eqx.field(static=True)

    @staticmethod
    def of(kernels: Kernels, points: Float[np.ndarray, "N d"]) -> "Metric":
        """The one that suits some kernels at some points."""
        extents = np.ptp(points, axis=0)
        latents = kernels if isinstance(kernels, tuple) else kernels.latents
        scale = typical_lengthscales(latents, np.where(extents > 0, extents, 1.0))
        return Metric(np.exp(np.mean(np.log(scale))) / scale, periods_of(latents, len(extents)))

    def __call__(self, points: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N e"]:
        """Points in these coordinates."""
        columns = []
        for column, scale, period in zip(points.T, self.scale, self.periods, strict=True):
            if period is None:
                columns.append(scale * column)
            else:
                angle, radius = 2.0 * pi * column / period, scale * period / (2.0 * pi)
                columns += [radius * np.cos(angle), radius * np.sin(angle)]
        return np.stack(columns, axis=1)

    def spacing(self, points: Float[np.ndarray, "N d"]) -> float:
        """That of a grid with as many points."""
        extent = np.ptp(points, axis=0) * self.scale
        volume = float(np.prod(extent[extent > 0]))
        return (volume / len(points)) ** (1.0 / max(int((extent > 0).sum()), 1))
