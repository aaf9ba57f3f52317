"""Tolerances of geometric decisions, all of which are multiples of one relative rounding error."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

ROUNDING_TOLERANCE = 1e-12
"""Relative difference up to which two coordinates, or a measure and zero, are equal."""

BOUNDARY_TOLERANCE = 1e3 * ROUNDING_TOLERANCE
"""Distance from a boundary, relative to the extent, below which a point lies on the boundary."""

UNIT_LENGTH_TOLERANCE = 1e6 * ROUNDING_TOLERANCE
"""Accepted deviation of the length of user-supplied normals from one."""

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
        rounding = ROUNDING_TOLERANCE * np.ptp(bounds, axis=1)
        return Tolerances(
            on_boundary=1e3 * float(rounding.max()),
            on_facet=float(rounding.max()),
            probe=1e6 * rounding,
            on_surface=1e2 * rounding,
            newton_step=1e-3 * rounding,
            # The cube root of the machine epsilon balances truncation and rounding.
            difference_step=6e6 * rounding,
        )
