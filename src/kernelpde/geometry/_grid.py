"""Regular grids over the regions of a problem, for pictures and export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.checking import (
    check_instance,
    check_integer,
    check_name,
    check_real,
    is_sequence,
    require,
)
from kernelpde.geometry._region import AbstractRegion, Patch, as_patches
from kernelpde.geometry._sampling import Points, tensor_grid, unit_points
from kernelpde.geometry._tolerances import BOUNDARY_TOLERANCE


@dataclass(frozen=True, eq=False)
class Grid:
    """A tensor-product grid in the free coordinates, with the remaining coordinates fixed.

    **Attributes:**

    - `coordinates`: names of all coordinates.
    - `axes`: grid values of each free coordinate, in order.
    - `fixed`: value of each fixed coordinate.
    - `inside`: mask of the points in the domain, in the shape of the grid.
    """

    coordinates: tuple[str, ...]
    axes: dict[str, Float[np.ndarray, " _"]]
    fixed: dict[str, float]
    inside: Bool[np.ndarray, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes.values())

    @property
    def points(self) -> Points:
        """One row per point; the last free coordinate varies fastest."""
        return _grid_points(self.coordinates, self.axes, self.fixed)

    def to_grid(self, values: np.ndarray) -> np.ndarray:
        """Reshape values at the points to the grid, with NaN outside the domain."""
        values = np.asarray(values)
        is_valid, expected = values.size == self.inside.size, f"of shape ({self.inside.size},)"
        require(is_valid, "A grid", "the values at its points", expected, values.shape)
        shaped = values.reshape(self.shape)
        return shaped if self.inside.all() else np.where(self.inside, shaped, np.nan)

    def restrict(self, regions: Sequence[AbstractRegion]) -> "Grid":
        """Return the same grid with `inside` restricted to the given regions."""
        inside = _inside_any(regions, self.points).reshape(self.shape)
        return replace(self, inside=self.inside & inside)


def make_grid(
    regions: Sequence[AbstractRegion],
    coordinates: tuple[str, ...],
    counts: int | Sequence[int],
    at: Mapping[str, float] | None = None,
) -> Grid:
    """Make a grid over the bounding box of regions.

    **Arguments:**

    - `regions`: for example the regions of all conditions of a problem.
    - `coordinates`: names of all coordinates.
    - `counts`: number of grid values, for all free coordinates or for each.
    - `at`: values of fixed coordinates.
    """
    at = {} if at is None else at
    check_instance("A grid", "at", at, Mapping, 'a dictionary such as {"t": 0.5}')
    for name in at:
        check_name("A grid", "coordinate", name, coordinates)
    fixed = {name: check_real("A grid", f"at[{name!r}]", value) for name, value in at.items()}
    free = [name for name in coordinates if name not in fixed]
    if is_sequence(counts):
        per_axis = [check_integer("A grid", "the resolution", count) for count in counts]
    else:
        per_axis = [check_integer("A grid", "the resolution", counts)] * len(free)
    is_valid = 0 < len(free) == len(per_axis) and min(per_axis) >= 2
    expected = f"at least 2 for each of {len(free)} free coordinates"
    require(is_valid, "A grid", "the resolution", expected, counts)
    bounds = bounding_box(regions)[[coordinates.index(name) for name in free]]
    lines = [np.linspace(low, high, per_axis[i]) for i, (low, high) in enumerate(bounds)]
    axes = {name: lines[i] for i, name in enumerate(free)}
    inside = _inside_any(regions, _grid_points(coordinates, axes, fixed))
    return Grid(coordinates, axes, fixed, inside.reshape(per_axis))


def bounding_box(regions: Sequence[AbstractRegion]) -> Float[np.ndarray, "d 2"]:
    """Return the lower and upper ends of a box that contains all points of regions."""
    patches = as_patches(*regions)
    interiors = [patch for patch in patches if patch.is_interior]
    samples = [_extreme_points(patch) for patch in (interiors or patches)]
    if not samples:
        rng = np.random.default_rng(0)
        samples = [region.sample(None, rng).points for region in regions]
    points = np.concatenate(samples)
    return np.stack([points.min(0), points.max(0)], axis=1)


def _extreme_points(patch: Patch) -> Points:
    """Return points with approximately the bounding box of the patch."""
    if patch.is_interior:
        return patch.corners()
    unit = unit_points(1024, patch.parameter_dim, "sobol", np.random.default_rng(0))
    return np.concatenate([patch.corners(), patch.chart(unit).points])


def _inside_any(regions: Sequence[AbstractRegion], points: Points) -> Bool[np.ndarray, " n"]:
    """Return whether points lie in the interior of any region; all do if there is no interior."""
    patches = [patch for patch in as_patches(*regions) if patch.is_interior]
    # Masks are strict, but points on the boundary belong to a picture.
    middle = (points.min(0) + points.max(0)) / 2
    points = middle + (1 - BOUNDARY_TOLERANCE) * (points - middle)
    masks = [patch.mask for patch in patches if patch.mask is not None]
    if not patches or len(masks) < len(patches):
        return np.ones(len(points), dtype=bool)
    return np.any([mask(points) for mask in masks], axis=0)


def _grid_points(
    coordinates: tuple[str, ...], axes: Mapping[str, np.ndarray], fixed: Mapping[str, float]
) -> Points:
    return tensor_grid([axes.get(name, np.array(fixed.get(name))) for name in coordinates])
