"""Tolerances of geometric decisions."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

BOUNDARY_TOLERANCE = 1e-9
"""Distance from a boundary, relative to the extent, below which a point lies on the boundary."""

ROUNDING_TOLERANCE = 1e-12
"""Relative difference up to which two coordinates, or a measure and zero, are equal."""

TINY = 1e-300
"""Lower bound of denominators, so that degenerate inputs do not divide by zero."""


@dataclass(frozen=True, eq=False)
class Tolerances:
    """Lengths that decide whether points of a domain coincide, derived from its extents.

    **Attributes:**

    - `on_boundary`: distance below which a point lies on a boundary.
    - `on_facet`: distance below which a point lies on a facet, so that its distance is set to zero.
    - `probe`: distance, per coordinate, at which the two sides of a boundary are compared.
    - `on_surface`: accepted error, per coordinate, of a projection onto an implicit surface.
    - `newton_step`: step, per coordinate, below which the projection has converged.
    - `difference_step`: step, per coordinate, of central differences.
    """

    on_boundary: float
    on_facet: float
    probe: Float[np.ndarray, " d"]
    on_surface: Float[np.ndarray, " d"]
    newton_step: Float[np.ndarray, " d"]
    difference_step: Float[np.ndarray, " d"]

    @staticmethod
    def from_bounds(bounds: Float[np.ndarray, "d 2"]) -> "Tolerances":
        """Derive tolerances from the lower and upper ends of a bounding box."""
        extents = np.ptp(bounds, axis=1)
        return Tolerances(
            on_boundary=float(BOUNDARY_TOLERANCE * extents.max()),
            on_facet=float(ROUNDING_TOLERANCE * extents.max()),
            probe=1e-6 * extents,
            on_surface=1e-10 * extents,
            newton_step=1e-15 * extents,
            # The cube root of the machine epsilon balances truncation and rounding.
            difference_step=6e-6 * extents,
        )
