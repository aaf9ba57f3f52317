"""Tolerances of geometric decisions, all of which are multiples of one relative rounding error."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

ROUNDING_TOLERANCE = 1e-12
"""Relative difference up to which two coordinates, or a measure and zero, are equal."""

BOUNDARY_TOLERANCE = 1000 * ROUNDING_TOLERANCE
"""Distance from a boundary, relative to the extent, below which a point lies on the boundary. It
also bounds the rounding of ten operations with the coordinates."""

PROBE_DISTANCE = 1000 * BOUNDARY_TOLERANCE
"""Distance, relative to the extent, at which the two sides of a boundary are compared, and accepted
deviation of the length of user-supplied normals from one."""


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
        extents, epsilon = np.ptp(bounds, axis=1), np.finfo(float).eps
        return Tolerances(
            on_boundary=BOUNDARY_TOLERANCE * float(extents.max()),
            on_facet=ROUNDING_TOLERANCE * float(extents.max()),
            probe=PROBE_DISTANCE * extents,
            on_surface=100 * ROUNDING_TOLERANCE * extents,
            newton_step=4 * epsilon * extents,
            # The cube root of the machine epsilon balances truncation and rounding.
            difference_step=np.cbrt(epsilon) * extents,
        )
