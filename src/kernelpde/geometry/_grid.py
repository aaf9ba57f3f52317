"""Regular grids over whatever a problem lives on: for pictures and for export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.checking import did_you_mean, instance, real_number, shown, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry._region import AbstractRegion, Patch, patches_of
from kernelpde.geometry._sampling import unit_points


@dataclass(frozen=True, eq=False)
class Grid:
    """All combinations of some numbers along each free coordinate, the others held.

    **Attributes:**

    - `coordinates`: the names of all coordinates.
    - `axes`: for each free coordinate its numbers, in order.
    - `held`: the value of each coordinate that is held.
    - `inside`: which points belong to the domain, in the shape of the grid.
    """

    coordinates: tuple[str, ...]
    axes: dict[str, Float[np.ndarray, " _"]]
    held: dict[str, float]
    inside: Bool[np.ndarray, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes.values())

    @property
    def points(self) -> Float[np.ndarray, "n d"]:
        """One row per point, the last free coordinate changing fastest."""
        return _points(self.coordinates, self.axes, self.held)

    def masked(self, values: np.ndarray) -> np.ndarray:
        """Values at the points in the shape of the grid, NaN outside the domain."""
        given = np.asarray(values)
        if given.size != self.inside.size:
            raise InputError(
                f"Expected one value for each of {self.inside.size} points, which a function of "
                f"points (n, {len(self.coordinates)}) returns; got shape {given.shape}."
            )
        shaped = given.reshape(self.shape)
        return shaped if self.inside.all() else np.where(self.inside, shaped, np.nan)

    def within(self, regions: Sequence[AbstractRegion]) -> "Grid":
        """The same grid, of which only what is in some regions belongs to the domain."""
        inside = _belongs(regions, self.points).reshape(self.shape)
        return replace(self, inside=self.inside & inside)


def grid_over(
    regions: Sequence[AbstractRegion],
    coordinates: tuple[str, ...],
    counts: int | Sequence[int],
    at: Mapping[str, float] | None = None,
) -> Grid:
    """A grid over the box that holds some regions.

    **Arguments:**

    - `regions`: for example those of the conditions of a problem.
    - `coordinates`: their names.
    - `counts`: how many numbers along each free coordinate, one or one for each.
    - `at`: coordinates to hold, and where.
    """
    given = {} if at is None else at
    instance("A grid", "at", given, Mapping, 'a dictionary such as {"t": 0.5}')
    unknown = [name for name in given if name not in coordinates]
    if unknown:
        raise InputError(
            f"There is no coordinate {', '.join(map(str, unknown))}; got at={dict(given)}, the "
            f"coordinates are {', '.join(coordinates)}.{did_you_mean(unknown[0], coordinates)}"
        )
    held = {name: real_number("A grid", f"at[{name!r}]", v) for name, v in given.items()}
    free = [name for name in coordinates if name not in held]
    if isinstance(counts, Sequence | np.ndarray) and not isinstance(counts, str):
        numbers = [whole_number("A grid", "the resolution", count) for count in counts]
    else:
        numbers = [whole_number("A grid", "the resolution", counts)] * len(free)
    if not free or len(numbers) != len(free) or min(numbers) < 2:
        raise InputError(
            f"A grid needs at least 2 numbers along each of the {len(free)} free coordinates; "
            f"got {shown(counts)}."
        )
    ends = bounding_box(regions)[[coordinates.index(name) for name in free]]
    axes = {
        name: np.linspace(low, high, number)
        for name, (low, high), number in zip(free, ends, numbers, strict=True)
    }
    inside = _belongs(regions, _points(coordinates, axes, held))
    return Grid(coordinates, axes, held, inside.reshape([len(axis) for axis in axes.values()]))


def bounding_box(regions: Sequence[AbstractRegion]) -> Float[np.ndarray, "d 2"]:
    """Lower and upper ends of a box that holds all points of some regions."""
    patches = [patch for region in regions for patch in patches_of(region)]
    solid = [patch for patch in patches if patch.solid]
    found = [_extremes(patch) for patch in (solid or patches)]
    if not found:
        rng = np.random.default_rng(0)
        found = [region.sample(None, rng).points for region in regions]
    points = np.concatenate(found)
    return np.stack([points.min(0), points.max(0)], axis=1)


def _extremes(patch: Patch) -> Float[np.ndarray, "n d"]:
    """Points of which some are about as far out as any of a patch."""
    if patch.solid:
        return patch.corners()
    within = unit_points(1024, patch.parameters, "sobol", np.random.default_rng(0))
    return np.concatenate([patch.corners(), patch.chart(within).points])


def _belongs(
    regions: Sequence[AbstractRegion], points: Float[np.ndarray, "n d"]
) -> Bool[np.ndarray, " n"]:
    """Points in some solid region; all of them if there is none."""
    solid = [patch for region in regions for patch in patches_of(region) if patch.solid]
    # What is on the edge belongs to it: tests of shapes are strict, a picture is whole.
    middle = (points.min(0) + points.max(0)) / 2
    moved = middle + (1 - 1e-9) * (points - middle)
    kept = [patch.keeps(moved) for patch in solid if patch.keeps is not None]
    if not solid or len(kept) < len(solid):
        return np.ones(len(points), dtype=bool)
    return np.any(kept, axis=0)


def _points(
    coordinates: tuple[str, ...], axes: Mapping[str, np.ndarray], held: Mapping[str, float]
) -> Float[np.ndarray, "n d"]:
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    columns = dict(zip(axes, mesh, strict=True))
    return np.stack(
        [
            columns[name].reshape(-1) if name in columns else np.full(mesh[0].size, held[name])
            for name in coordinates
        ],
        axis=1,
    )
