"""Regions: sets of points on which a condition holds."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Float

from kernelpde.checking import check_instance, check_integer, format_value, is_sequence, require
from kernelpde.errors import InputError
from kernelpde.geometry._graded import OVERSAMPLING, subdivide, thin
from kernelpde.geometry._sampling import Chart, Mask, Points, RegionSample, unit_points
from kernelpde.geometry._size_field import SizeField
from kernelpde.geometry._space import Space

_TRIAL_MARGIN = 1.1
"""Ratio of trial points to those that a masked region needs on average. The number is doubled until
it suffices, so that only the cost of a draw depends on the ratio."""


class AbstractRegion(abc.ABC):
    """A set from which points can be drawn: an interior, a boundary piece or a point cloud."""

    name: str

    @property
    @abc.abstractmethod
    def has_normals(self) -> bool:
        """True if conditions on the region can use the normal derivative."""

    @abc.abstractmethod
    def sample(
        self, count: int | None, rng: np.random.Generator, method: str = "uniform"
    ) -> RegionSample:
        """Draw `count` points, as `Patch.sample`; `None` for all points of a finite set."""

    def as_patches(self) -> "tuple[Patch, ...]":
        """Return the patches that form the region; none for point clouds and averages."""
        return ()

    def restrict_time(self, start: float, end: float) -> "AbstractRegion":
        """Return the part of the region in a time window."""
        del start, end
        raise InputError(f"The region {self.name!r} has no part in a time window.")

    def with_size_field(self, size_field: SizeField) -> "AbstractRegion":
        """Return the region with points spaced by a size field; finite regions are unchanged."""
        del size_field
        return self

    def __or__(self, region: "AbstractRegion") -> "PatchUnion":
        return union([self, region])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


@dataclass(frozen=True, eq=False, repr=False)
class Patch(AbstractRegion):
    """The image of the unit cube under a chart, restricted by a mask.

    **Attributes:**

    - `parameter_dim`: dimension of the cube.
    - `chart`: map from the cube to points and normals that preserves measure up to a constant.
    - `full_measure`: length, area or volume of the image without the mask; see `measure`.
    - `mask`: predicate of the points that belong to the patch; `None` if all do.
    - `outside_distance`: distance outside the domain, relative to its extent; `None` if unknown.
    - `size_field`: local spacing of the points; uniform if `None`.
    - `time_slice`: function that restricts a moving patch to a time window; `None` if it is fixed.
    - `smooth`: true if the chart is smooth inside the cube, so that quadrature is accurate.
    """

    name: str
    space: Space
    parameter_dim: int
    chart: Chart
    full_measure: float
    mask: Mask | None = None
    outside_distance: Callable[[np.ndarray], np.ndarray] | None = None
    size_field: SizeField | None = None
    time_slice: Callable[[float, float], "Patch"] | None = None
    smooth: bool = True

    def as_patches(self):
        return (self,)

    def with_size_field(self, size_field):
        return replace(self, size_field=size_field)

    @property
    def has_normals(self):
        return self.chart(np.full((1, self.parameter_dim), 0.5)).normals is not None

    @property
    def is_interior(self) -> bool:
        """True for a piece of the domain itself, false for a piece of its boundary."""
        return self.parameter_dim == len(self.space.coordinates)

    def corners(self) -> Points:
        """Return the images of the corners of the cube, including those that the mask rejects."""
        return self.chart(np.array(list(product((0.0, 1.0), repeat=self.parameter_dim)))).points

    def fraction(self, points: int = 4096) -> float:
        """Return the fraction of the image in the mask, estimated on fixed Sobol points."""
        if self.mask is None:
            return 1.0
        trial = unit_points(points, self.parameter_dim, "sobol", np.random.default_rng(0))
        return float(np.mean(self.mask(self.chart(trial).points)))

    @property
    def measure(self) -> float:
        """Length, area or volume of the patch; with a mask, estimated on 65536 points.

        The integral of a function over the patch is its mean at uniform points times this measure.
        """
        return self.full_measure * self.fraction(65536)

    def sample(self, count, rng, method="uniform"):
        """Draw points: a `RegionSample` with `points` and, on a boundary, outward unit `normals`.

        **Arguments:**

        - `count`: number of points.
        - `rng`: random number generator, such as `np.random.default_rng(0)`.
        - `method`: one of `kernelpde.geometry.METHODS`.
        """
        count = _check_request(self, count, rng)
        if self.parameter_dim == 0 and count > 1:
            raise InputError(f"The region {self.name!r} is a single point; got {count}.")
        if self.is_graded:
            return self.chart(self._graded_parameters(count, rng))
        if self.mask is None:
            return self.chart(unit_points(count, self.parameter_dim, method, rng))
        fraction = self.fraction()
        if fraction == 0.0:
            raise InputError(
                f"The region {self.name!r} is empty: it contains none of 4096 trial points. "
                "Leave it out, or check how the domain was constructed."
            )
        if method == "grid":
            raise InputError(
                f"The region {self.name!r} is not an image of a cube; a grid does not fit it. "
                "Use another sampling method."
            )
        num_trials = int(_TRIAL_MARGIN * count / fraction) + 32
        for _ in range(20):
            sample = self.chart(unit_points(num_trials, self.parameter_dim, method, rng))
            rows = np.flatnonzero(self.mask(sample.points))[:count]
            if len(rows) == count:
                return sample.select(rows)
            num_trials *= 2
        raise InputError(f"The region {self.name!r} is too small to draw {count} points from.")

    @property
    def is_graded(self) -> bool:
        """True if the spacing of points follows a size field."""
        return self.size_field is not None and self.parameter_dim > 0

    def _graded_parameters(self, count: int, rng: np.random.Generator) -> Float[np.ndarray, "n p"]:
        """Draw parameters of points whose distances are proportional to the size field."""
        assert self.size_field is not None
        low, width, densities = subdivide(self.chart, self.parameter_dim, self.size_field)
        cumulative = np.cumsum(densities) / densities.sum()
        num_candidates = num_trials = OVERSAMPLING * count
        while True:
            # Stratified along the Morton curve through all cells, and uniform within each.
            steps = (np.arange(num_trials) + rng.random()) / num_trials
            cell = np.minimum(np.searchsorted(cumulative, steps), len(cumulative) - 1)
            unit = low[cell] + width[cell] * rng.random((num_trials, self.parameter_dim))
            points = self.chart(unit).points
            if self.mask is not None:
                inside = self.mask(points)
                unit, points = unit[inside], points[inside]
            if len(unit) >= num_candidates // 2 or num_trials > 100 * num_candidates:
                break
            num_trials *= 2
        sizes = self.size_field.evaluate(points)
        return unit[thin(self.size_field.scaled(points), sizes, count)]

    def restrict(self, mask: Mask, flip: bool = False) -> "Patch":
        """Return the part of this patch inside a mask, with reversed normals if `flip`."""
        return replace(
            self,
            chart=partial(_flip_normals, self.chart) if flip else self.chart,
            mask=mask if self.mask is None else partial(_intersect, self.mask, mask),
            outside_distance=None,
            size_field=None,
            time_slice=None,
        )

    def restrict_time(self, start: float, end: float) -> "Patch":
        """Return the part of this patch in a time window."""
        space = self.space
        if space.time is None or space.duration is None:
            raise InputError(f"The region {self.name!r} has no time coordinate to restrict.")
        if self.time_slice is not None:
            return self.time_slice(start, end)
        axis = space.coordinates.index(space.time)
        first, last = space.duration
        rate = (end - start) / (last - first)
        return replace(
            self,
            space=replace(space, duration=(start, end)),
            chart=partial(_map_time, self.chart, axis, first, start, rate),
            full_measure=rate * self.full_measure,
            outside_distance=None,
            size_field=None,
        )


def _flip_normals(chart: Chart, unit: np.ndarray) -> RegionSample:
    points, normals, _ = chart(unit)
    return RegionSample(points, normals if normals is None else -normals)


def _intersect(first: Mask, second: Mask, points: np.ndarray) -> np.ndarray:
    return first(points) & second(points)


def _map_time(
    chart: Chart, axis: int, first: float, start: float, rate: float, unit: np.ndarray
) -> RegionSample:
    """Map times t of a chart to start + rate (t - first)."""
    points, normals, _ = chart(unit)
    points = points.copy()
    points[:, axis] = start + rate * (points[:, axis] - first)
    return RegionSample(points, normals)


@dataclass(frozen=True, eq=False, repr=False)
class PatchUnion(AbstractRegion):
    """Several patches as one region.

    **Attributes:**

    - `equal_counts`: true if all patches get equally many points, as the sides of a box, whose
      measures compare lengths in possibly different units; otherwise in proportion to measure.
    """

    name: str
    space: Space
    patches: tuple[Patch, ...]
    equal_counts: bool = False

    def as_patches(self):
        return self.patches

    def with_size_field(self, size_field):
        patches = tuple(patch.with_size_field(size_field) for patch in self.patches)
        return replace(self, patches=patches)

    @property
    def has_normals(self):
        return all(patch.has_normals for patch in self.patches)

    def sample(self, count, rng, method="uniform"):
        count = _check_request(self, count, rng)
        shares = np.array([self._share(patch) for patch in self.patches])
        if not shares.any():
            raise InputError(f"The region {self.name!r} is empty: all its pieces are empty.")
        counts = _apportion(count, shares / shares.sum())
        if all(patch.parameter_dim == 0 for patch in self.patches):
            counts = np.ones(len(self.patches), dtype=int)
            expected = f"{len(counts)}, since it consists of single points"
            caller = f"The region {self.name!r}"
            require(count == len(counts), caller, "the number of points", expected, count)
        drawn_from = np.flatnonzero(counts)
        return RegionSample.concatenate(
            [self.patches[i].sample(int(counts[i]), rng, method) for i in drawn_from]
        )

    def _share(self, patch: Patch) -> float:
        """Return the relative number of points of a patch."""
        if patch.is_graded:
            return density_integral(patch)
        return (1.0 if self.equal_counts else patch.full_measure) * patch.fraction()

    def restrict_time(self, start: float, end: float) -> "PatchUnion":
        """Return the part of these patches in a time window."""
        patches = tuple(patch.restrict_time(start, end) for patch in self.patches)
        return replace(self, space=patches[0].space, patches=patches)


def density_integral(patch: Patch) -> float:
    """Approximate ∫ H⁻ᵖ over a patch of dimension p, proportional to the points that it needs."""
    assert patch.size_field is not None
    low, width, densities = subdivide(patch.chart, patch.parameter_dim, patch.size_field)
    if patch.mask is not None:
        densities = densities[patch.mask(patch.chart(low + width / 2).points)]
    return float(densities.sum())


def as_patches(*regions: AbstractRegion) -> tuple[Patch, ...]:
    """Return the patches that form regions; none for point clouds and averages."""
    return tuple(patch for region in regions for patch in region.as_patches())


def union(regions: Sequence[AbstractRegion]) -> PatchUnion:
    """Combine several boundary pieces into one region.

    **Example:**

    ```python
    >>> square = kp.Box(x=(0, 1), y=(0, 1))
    >>> walls = kp.union([square["x=0"], square["x=1"]])
    ```
    """
    check_regions("union", regions, (Patch, PatchUnion), 'box["x=0"]')
    patches = as_patches(*regions)
    name = " | ".join(region.name for region in regions)
    if len({(patch.parameter_dim, patch.space.coordinates) for patch in patches}) > 1:
        raise InputError(
            f"union: {name} differ in dimension or coordinates, so that they have no common "
            "measure. Write a separate condition for each."
        )
    return PatchUnion(name, patches[0].space, patches)


def check_regions(
    caller: str, regions: Sequence[AbstractRegion], kinds: type | tuple[type, ...], example: str
) -> None:
    """Check that an argument is a nonempty list of regions of the given types."""
    if not is_sequence(regions) or not len(regions):
        raise InputError(
            f"{caller}: expected a list of regions, such as [{example}]; got "
            f"{format_value(regions)}."
        )
    for region in regions:
        check_instance(caller, "every entry", region, kinds, f"a region such as {example}")


def _check_request(region: AbstractRegion, count: int | None, rng: np.random.Generator) -> int:
    """Return the number of points to draw."""
    caller = f"The region {region.name!r}"
    expected = "a random number generator, such as np.random.default_rng(0)"
    check_instance(caller, "rng", rng, np.random.Generator, expected)
    return check_integer(caller, "the number of points", count, at_least=1)


def _apportion(count: int, shares: np.ndarray) -> np.ndarray:
    """Round `count * shares` to integers that sum to `count`, by largest remainders."""
    quotas = count * shares
    counts = np.floor(quotas).astype(int)
    order = np.argsort(counts - quotas, kind="stable")
    counts[order[: count - counts.sum()]] += 1
    return counts
