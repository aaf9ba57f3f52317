"""Abstract domain, and intersections, unions and differences of domains."""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.arrays import TINY
from kernelpde.checking import check_instance, check_name, format_value
from kernelpde.errors import InputError
from kernelpde.geometry._region import Patch, PatchUnion
from kernelpde.geometry._sampling import Points, RegionSample
from kernelpde.geometry._space import Space
from kernelpde.geometry._tolerances import Tolerances

_FACETING_MARGIN = 1.01
"""Safety factor of faceting errors, which are sampled at the centers of facets."""


class AbstractDomain(abc.ABC):
    """An open set with a boundary made of named pieces.

    `a & b`, `a | b` and `a - b` are intersection, union and difference.
    """

    space: Space
    is_box: bool

    @property
    @abc.abstractmethod
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        """Lower and upper ends of a bounding box."""

    @property
    @abc.abstractmethod
    def boundary_patches(self) -> Mapping[str, Patch]:
        """Boundary pieces by name."""

    @abc.abstractmethod
    def signed_distance(self, points: Points) -> Float[np.ndarray, " n"]:
        """Return a bound on the distance to the boundary, negative inside and positive outside."""

    def contains(self, points: Points) -> Bool[np.ndarray, " n"]:
        """Return whether points lie inside."""
        return self.signed_distance(points) < 0

    @property
    def tolerances(self) -> Tolerances:
        """Lengths that decide whether points coincide."""
        return Tolerances.from_bounds(self.bounds)

    @property
    def faceting_error(self) -> float:
        """Maximum distance of sampled boundary points from the zero set of `signed_distance`."""
        return 0.0

    @property
    def volume(self) -> float:
        """Volume, or area in the plane; estimated on 65536 points if there is no formula."""
        return self.interior.measure

    @property
    def surface_area(self) -> float:
        """Area of the boundary, or its length in the plane."""
        return sum(patch.measure for patch in self.boundary_patches.values())

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Bounds by coordinate."""
        low, high = self.bounds.T.tolist()
        return {name: (low[i], high[i]) for i, name in enumerate(self.space.coordinates)}

    @property
    def interior(self) -> Patch:
        """The domain as a region."""
        lower, upper = self.bounds.T
        return Patch(
            "interior",
            self.space,
            len(lower),
            partial(_map_to_box, lower, upper),
            prod(upper - lower),
            None if self.is_box else self.contains,
            self._outside_distance,
        )

    def _outside_distance(self, points: np.ndarray) -> np.ndarray:
        """Return signed distances relative to the extent, with periodic coordinates wrapped."""
        lower, upper = self.bounds.T
        points = points.copy()
        for axis in self.space.periodic:
            offset = points[:, axis] - lower[axis]
            points[:, axis] = lower[axis] + offset % self.space.periods[axis]
        return self.signed_distance(points) / np.max(upper - lower)

    @property
    def boundary(self) -> PatchUnion:
        """All boundary pieces; for a domain in space-time, its spatial boundary."""
        if not self.boundary_patches:
            raise InputError("All coordinates in space are periodic: there is no boundary.")
        return PatchUnion("boundary", self.space, tuple(self.boundary_patches.values()))

    @property
    def initial(self) -> Patch:
        """The domain at the initial time."""
        return self._time_side(0)

    @property
    def final(self) -> Patch:
        """The domain at the final time."""
        return self._time_side(1)

    def _time_side(self, end: Literal[0, 1]) -> Patch:
        raise InputError(
            "initial and final need a Box, an Extrusion or an Implicit with a time coordinate; got "
            f"{self!r}. Write for example Box(t=(0, 1), x=(0, 1), time='t')."
        )

    def __getitem__(self, name: str) -> Patch:
        check_name(type(self).__name__, "boundary piece", name, self.boundary_patches)
        return self.boundary_patches[name]

    def interface(self, neighbor: "AbstractDomain") -> PatchUnion:
        """Return the common boundary with another domain, with normals out of this one.

        Conditions on it couple fields of both domains: `u.value - v.value` and
        `a * u.normal_derivative - b * v.normal_derivative`.
        """
        _check_coordinates("interface", self, neighbor)
        error = self.faceting_error + neighbor.faceting_error
        tolerance = neighbor.tolerances.on_boundary + _FACETING_MARGIN * error
        patches = [
            patch.restrict(partial(_is_on_boundary, neighbor, tolerance))
            for patch in self.boundary_patches.values()
        ]
        shared = tuple(patch for patch in patches if patch.fraction() > 0)
        if not shared:
            raise InputError(f"{self!r} and {neighbor!r} have no common boundary.")
        return PatchUnion("interface", self.space, shared)

    def __and__(self, domain: "AbstractDomain") -> "BooleanDomain":
        return BooleanDomain("intersection", self, domain)

    def __or__(self, domain: "AbstractDomain") -> "BooleanDomain":
        return BooleanDomain("union", self, domain)

    def __sub__(self, domain: "AbstractDomain") -> "BooleanDomain":
        return BooleanDomain("difference", self, domain)

    def __add__(self, domain: object) -> "BooleanDomain":
        raise InputError(f"Write the union of domains as a | b; got a + {format_value(domain)}.")


def _map_to_box(lower: np.ndarray, upper: np.ndarray, unit: np.ndarray) -> RegionSample:
    return RegionSample(lower + unit * (upper - lower))


def _is_on_boundary(domain: AbstractDomain, tolerance: float, points: np.ndarray) -> np.ndarray:
    return np.abs(domain.signed_distance(points)) < tolerance


def central_differences(
    function: Callable[[np.ndarray], np.ndarray],
    points: Points,
    steps: Float[np.ndarray, " d"],
) -> Points:
    """Return the gradients of a function, by central differences."""
    rises = [function(points + step) - function(points - step) for step in np.diag(steps)]
    return np.stack(rises, axis=1) / (2 * steps)


def _check_coordinates(operation: str, first: AbstractDomain, second: AbstractDomain) -> None:
    expected = "a domain such as a Box or a Ball"
    check_instance(f"The {operation}", "the second operand", second, AbstractDomain, expected)
    if first.space.coordinates != second.space.coordinates:
        raise InputError(
            f"The {operation} of domains needs the same coordinates; got "
            f"{first.space.coordinates} and {second.space.coordinates}."
        )


_SIGNS = {"intersection": (1, 1), "difference": (1, -1), "union": (-1, -1)}
"""Signs s and r of the signed distance s max(s a, r b) of a combination of two domains."""


class BooleanDomain(AbstractDomain):
    """Intersection, union or difference of two domains, by their signed distances.

    Its boundary has the pieces of both domains, without the parts that the operation covers or
    removes. Pieces of the second domain whose name occurs in the first are marked with a prime.
    Where both boundaries coincide, the piece of the first domain is used.
    """

    is_box = False

    def __init__(
        self,
        operation: Literal["intersection", "union", "difference"],
        first: AbstractDomain,
        second: AbstractDomain,
    ):
        _check_coordinates(operation, first, second)
        self._operation, self._first, self._second = operation, first, second
        self._signs = _SIGNS[operation]
        self.space = first.space

    @property
    def bounds(self):
        first, second = self._first.bounds, self._second.bounds
        if self._operation == "difference":
            return first
        lower, upper = np.minimum(first, second), np.maximum(first, second)
        if self._operation == "union":
            return np.stack([lower[:, 0], upper[:, 1]], axis=1)
        bounds = np.stack([upper[:, 0], lower[:, 1]], axis=1)
        if (bounds[:, 0] >= bounds[:, 1]).any():
            raise InputError("The intersection of the two domains is empty.")
        return bounds

    @property
    def faceting_error(self):
        return max(self._first.faceting_error, self._second.faceting_error)

    def signed_distance(self, points):
        sign, second_sign = self._signs
        first, second = self._first.signed_distance(points), self._second.signed_distance(points)
        return sign * np.maximum(sign * first, second_sign * second)

    def contains(self, points):
        inside = self._first.contains(points)
        if self._operation == "union":
            return inside | self._second.contains(points)
        # Points on the boundary of the second domain are outside the difference as well.
        return inside & (self._signs[1] * self._second.signed_distance(points) < 0)

    def __repr__(self) -> str:
        sign = {"intersection": "&", "union": "|", "difference": "-"}[self._operation]
        return f"({self._first!r} {sign} {self._second!r})"

    @property
    def boundary_patches(self):
        first = self._first.boundary_patches.items()
        patches = {name: patch.restrict(self._on_first) for name, patch in first}
        for name, patch in self._second.boundary_patches.items():
            while name in patches:
                name += "'"
            patches[name] = patch.restrict(self._on_second, flip=prod(self._signs) < 0)
        return patches

    def _on_first(self, points: np.ndarray) -> np.ndarray:
        """Return whether boundary points of the first domain are on the boundary of the result.

        Where both boundaries coincide, this depends on `_common_side`.
        """
        distance = self._signs[1] * self._second.signed_distance(points)
        tolerance = self._second.tolerances.on_boundary
        is_kept = distance < -tolerance
        (coincident,) = np.nonzero(np.abs(distance) <= tolerance)
        if len(coincident):
            is_kept[coincident] = self._common_side(points[coincident]) == prod(self._signs)
        return is_kept

    def _on_second(self, points: np.ndarray) -> np.ndarray:
        """Return whether boundary points of the second domain are on the boundary of the result."""
        distance = self._signs[0] * self._first.signed_distance(points)
        return distance < -self._first.tolerances.on_boundary

    def _common_side(self, points: np.ndarray) -> np.ndarray:
        """Return 1 where both domains are on the same side of a common boundary, -1 where they are
        on opposite sides, and 0 otherwise."""
        step = self._first.tolerances.probe
        rise = step * central_differences(self._first.signed_distance, points, step)
        outward = step * rise / np.maximum(np.linalg.norm(rise, axis=1, keepdims=True), TINY)
        is_inside = self._second.signed_distance(points - outward) < 0
        is_outside = self._second.signed_distance(points + outward) < 0
        return is_inside.astype(int) - is_outside.astype(int)
