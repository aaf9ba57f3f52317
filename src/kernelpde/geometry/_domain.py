"""Domains: boxes, balls, and what can be cut and joined from them."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.checking import did_you_mean, listed, shown
from kernelpde.errors import InputError
from kernelpde.geometry._region import Patch, Patches, Sample, Space, patches_of

_TOUCHES = 1e-9
"""What is nearer to a boundary than this part of its extent lies on it."""

_ASIDE = 1e-6
"""How far from a boundary to look what is on either side of it, relative to the extent."""


class AbstractDomain(abc.ABC):
    """An open set with a boundary made of named pieces.

    `a & b`, `a | b` and `a - b` are intersection, union and difference.
    """

    space: Space
    fills_its_bounds: bool

    @property
    @abc.abstractmethod
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        """Lower and upper ends of a box that holds the domain."""

    @property
    @abc.abstractmethod
    def pieces(self) -> Mapping[str, Patch]:
        """The pieces of the boundary by name."""

    @abc.abstractmethod
    def signed_distance(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Negative inside, positive outside, zero on the boundary; a bound on the distance."""

    def contains(self, points: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
        """Which points lie inside."""
        return self.signed_distance(points) < 0

    @property
    def bulge(self) -> float:
        """Maximum distance of sampled boundary points from the zero set of `signed_distance`."""
        return 0.0

    @property
    def volume(self) -> float:
        """Volume, in the plane area; estimated on 65536 points where there is no formula."""
        return self.interior.size

    @property
    def surface_area(self) -> float:
        """Area of the boundary, in the plane its length."""
        return sum(patch.size for piece in self.pieces.values() for patch in patches_of(piece))

    @property
    def interior(self) -> Patch:
        """The domain itself, to draw points from."""
        lower, upper = self.bounds.T
        return Patch(
            "interior",
            self.space,
            len(lower),
            _Stretched(lower, upper),
            prod(upper - lower),
            None if self.fills_its_bounds else self.contains,
            _Beyond(self),
        )

    @property
    def boundary(self) -> Patches:
        """All pieces of the boundary; in a space-time box those in space."""
        if not self.pieces:
            raise InputError("All coordinates in space are periodic: there is no boundary.")
        return Patches("boundary", self.space, tuple(self.pieces.values()))

    def __getitem__(self, name: str) -> Patch:
        pieces = self.pieces
        if not isinstance(name, str) or name not in pieces:
            raise InputError(
                f"There is no boundary piece {name!r}; the domain has {listed(pieces)}."
                f"{did_you_mean(name, pieces)}"
            )
        return pieces[name]

    def interface(self, other: "AbstractDomain") -> Patches:
        """The part of the boundary that it shares with another domain, normals out of this one.

        On it conditions couple fields of the two: `u.value - v.value` and
        `a * u.normal_derivative - b * v.normal_derivative`.
        """
        _same_coordinates("interface", self, other)
        shared = [
            part
            for piece in self.pieces.values()
            for patch in patches_of(piece)
            if (part := patch.restricted(_On(other, self.bulge + other.bulge))).fraction() > 0
        ]
        if not shared:
            raise InputError(f"{self!r} and {other!r} have no part of their boundaries in common.")
        return Patches("interface", self.space, tuple(shared))

    def __and__(self, other: "AbstractDomain") -> "Combination":
        return Combination("intersection", self, other)

    def __or__(self, other: "AbstractDomain") -> "Combination":
        return Combination("union", self, other)

    def __sub__(self, other: "AbstractDomain") -> "Combination":
        return Combination("difference", self, other)

    def __add__(self, other: object) -> "Combination":
        raise InputError(f"Domains are joined by a | b; got a + {shown(other)}.")


def _touching(domain: AbstractDomain) -> float:
    """How near to the boundary of a domain what lies on it is."""
    return float(_TOUCHES * np.ptp(domain.bounds, axis=1).max())


# Maps and tests are objects and not local functions, so that regions can be pickled.
@dataclass(frozen=True, eq=False)
class _Stretched:
    """The unit cube onto a box."""

    lower: np.ndarray
    upper: np.ndarray

    def __call__(self, unit: np.ndarray) -> Sample:
        return Sample(self.lower + unit * (self.upper - self.lower), None)


@dataclass(frozen=True, eq=False)
class _Beside:
    """Whether points lie inside a domain, or outside."""

    domain: AbstractDomain
    inside: bool

    def __call__(self, points: np.ndarray) -> np.ndarray:
        distance = self.domain.signed_distance(points)
        return distance < 0 if self.inside else distance > 0


@dataclass(frozen=True, eq=False)
class _OnEdge:
    """Whether points of one boundary belong to that of a combination with another domain.

    - `own`, `other`: whose boundary, and the other domain.
    - `inside`: whether what lies inside of the other belongs to it, or what lies outside.
    - `shared`: of what lies on both boundaries, the part that belongs to it: where the domains are
      on the same side (1), on different sides (-1), or none (0).
    """

    own: AbstractDomain
    other: AbstractDomain
    inside: bool
    shared: int

    def __call__(self, points: np.ndarray) -> np.ndarray:
        distance = self.other.signed_distance(points)
        near = _touching(self.other)
        kept = distance < -near if self.inside else distance > near
        (both,) = np.nonzero(np.abs(distance) <= near)
        if self.shared and len(both):
            kept[both] = self._side(points[both]) == self.shared
        return kept

    def _side(self, points: np.ndarray) -> np.ndarray:
        """Whether both domains are on the same side (1), on different sides (-1), or neither."""
        step = _ASIDE * np.ptp(self.own.bounds, axis=1)
        rise = np.stack(
            [
                self.own.signed_distance(points + move) - self.own.signed_distance(points - move)
                for move in np.diag(step)
            ],
            axis=1,
        )
        out = step * rise / np.maximum(np.linalg.norm(rise, axis=1, keepdims=True), 1e-300)
        within = self.other.signed_distance(points - out) < 0
        beyond = self.other.signed_distance(points + out) < 0
        return within.astype(int) - beyond.astype(int)


@dataclass(frozen=True, eq=False)
class _On:
    """Whether points lie on the boundary of a domain."""

    domain: AbstractDomain
    slack: float = 0.0

    def __call__(self, points: np.ndarray) -> np.ndarray:
        near = _touching(self.domain) + 1.01 * self.slack
        return np.abs(self.domain.signed_distance(points)) < near


@dataclass(frozen=True, eq=False)
class _Beyond:
    """How far points lie outside a domain, relative to its size; periodic coordinates wound up."""

    domain: AbstractDomain

    def __call__(self, points: np.ndarray) -> np.ndarray:
        lower, upper = self.domain.bounds.T
        for axis, period in enumerate(self.domain.space.periods):
            if period is not None:
                points = points.copy()
                points[:, axis] = lower[axis] + (points[:, axis] - lower[axis]) % period
        return self.domain.signed_distance(points) / np.max(upper - lower)


def _same_coordinates(kind: str, first: AbstractDomain, second: Any) -> None:
    if not isinstance(second, AbstractDomain):
        raise InputError(f"The {kind} needs two domains, such as Box or Ball; got {shown(second)}.")
    if first.space.coordinates != second.space.coordinates:
        raise InputError(
            f"The {kind} of domains needs the same coordinates; got "
            f"{first.space.coordinates} and {second.space.coordinates}."
        )


class Combination(AbstractDomain):
    """Intersection, union or difference of two domains, by their signed distances.

    A piece of the boundary is a piece of one of the two, less what the other covers or removes;
    pieces of the second that share a name with one of the first are marked with a prime. Where both
    boundaries are the same, the piece of the first is kept.
    """

    fills_its_bounds = False

    def __init__(self, kind: str, first: AbstractDomain, second: Any):
        _same_coordinates(kind, first, second)
        self._kind = kind
        self._first = first
        self._second = second
        self.space = first.space

    @property
    def bounds(self):
        a, b = self._first.bounds, self._second.bounds
        if self._kind == "difference":
            return a
        lower, upper = (
            (np.minimum, np.maximum) if self._kind == "union" else (np.maximum, np.minimum)
        )
        combined = np.stack([lower(a[:, 0], b[:, 0]), upper(a[:, 1], b[:, 1])], axis=1)
        if (combined[:, 0] >= combined[:, 1]).any():
            raise InputError("The intersection of the two domains is empty.")
        return combined

    @property
    def bulge(self):
        return max(self._first.bulge, self._second.bulge)

    def signed_distance(self, points):
        a, b = self._first.signed_distance(points), self._second.signed_distance(points)
        if self._kind == "union":
            return np.minimum(a, b)
        return np.maximum(a, b if self._kind == "intersection" else -b)

    def contains(self, points):
        inside = self._first.contains(points)
        if self._kind == "union":
            return inside | self._second.contains(points)
        # A point on the boundary of what is cut out lies in neither.
        return inside & _Beside(self._second, self._kind == "intersection")(points)

    def __repr__(self) -> str:
        sign = {"intersection": "&", "union": "|", "difference": "-"}[self._kind]
        return f"({self._first!r} {sign} {self._second!r})"

    @property
    def pieces(self):
        first, second, kind = self._first, self._second, self._kind
        shared = -1 if kind == "difference" else 1
        from_second = _OnEdge(first, second, kind == "intersection", shared)
        from_first = _OnEdge(second, first, kind != "union", 0)
        found = {name: patch.restricted(from_second) for name, patch in first.pieces.items()}
        for name, patch in self._second.pieces.items():
            while name in found:
                name += "'"
            found[name] = patch.restricted(from_first, flip=kind == "difference")
        return found
