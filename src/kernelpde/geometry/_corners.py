"""Places on the boundary of a domain in the plane near which solutions vary on a small scale.

Corners that point into the domain, where solutions are singular whatever the data, and bends around
small holes and fillets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from kernelpde.geometry._facets import Facets
from kernelpde.geometry._grid import bounding_box
from kernelpde.geometry._region import AbstractRegion, Patch, patches_of

_ANGLE = 190.0
"""Degrees of the domain around a point of its boundary from which on it is such a corner."""

_STEPS = 2048
"""Along each piece of the boundary, to find where it ends."""

_NEAR = 1e-6
"""How far around a point the domain is looked at, relative to its extent."""

_BEND = 0.25
"""Radius of a bend from which on it is no small one, relative to the smaller extent of a domain."""

_ARC = 0.5
"""Radians that an arc turns at least: normals of meshes are that far off in a few places."""

_COARSE = 128
"""Steps along each piece of the boundary, to find how it bends, if there are many."""

_SUDDEN = 0.5
"""Radians by which a curve turns within a step from which on it is a corner and no bend."""


class Places(NamedTuple):
    """Points, and around each a radius below which nothing becomes finer: 0 if it is singular."""

    points: Float[np.ndarray, "k 2"]
    radii: Float[np.ndarray, " k"]

    @staticmethod
    def none() -> "Places":
        return Places(np.zeros((0, 2)), np.zeros(0))

    @staticmethod
    def all_of(points: Float[np.ndarray, "n 2"], radii: Float[np.ndarray, " n"]) -> "Places":
        """Those with the smallest radii, none of which is within the radius of another."""
        kept: list[int] = []
        for place in np.argsort(radii, kind="stable"):
            apart = np.linalg.norm(points[kept] - points[place], axis=1)
            if not np.any(apart <= radii[place]):
                kept.append(int(place))
        return Places(points[kept], radii[kept])


def fine_places(regions: Sequence[AbstractRegion]) -> Places:
    """Where solutions are likely to be singular, or to vary over a short distance.

    **Arguments:**

    - `regions`: of the conditions of a problem, one for each: the domain and its boundary.
    """
    sharp, bends = reentrant_corners(regions), small_bends(regions)
    return Places.all_of(
        np.concatenate([sharp, bends.points]), np.concatenate([np.zeros(len(sharp)), bends.radii])
    )


def _boundary(regions: Sequence[AbstractRegion]) -> list[Patch]:
    """The curves that regions of the plane consist of."""
    patches = [patch for region in regions for patch in patches_of(region)]
    planar = all(len(p.space.spatial) == len(p.space.coordinates) == 2 for p in patches)
    return [p for p in patches if p.parameters == 1 and not p.solid] if planar else []


def small_bends(regions: Sequence[AbstractRegion]) -> Places:
    """Centers and radii of the arcs around which a domain bends: of small holes and fillets.

    **Arguments:**

    - `regions`: of the conditions of a problem: the domain and its boundary.
    """
    curves = _boundary(regions)
    if not curves:
        return Places.none()
    most = _BEND * np.ptp(bounding_box(regions), axis=1).min()
    count = max(_COARSE, _STEPS // len(curves))
    found = [_bends(patch, count, most) for patch in curves]
    centers, radii, turns = (np.concatenate(each) for each in zip(*found, strict=True))
    if not len(radii):
        return Places.none()
    together = KDTree(centers).query_ball_point(centers, 0.5 * radii)
    total = np.array([turns[arc].sum() for arc in together])
    places, sizes, left = [], [], np.ones(len(radii), dtype=bool)
    # The arcs that turn most first, of whatever the radii of their steps say.
    for step in np.argsort(-total, kind="stable"):
        if left[step] and total[step] > _ARC:
            places.append(np.median(centers[together[step]], axis=0))
            sizes.append(np.median(radii[together[step]]))
            left &= np.linalg.norm(centers - places[-1], axis=1) > sizes[-1]
    return Places(np.stack(places), np.array(sizes)) if places else Places.none()


def _bends(patch: Patch, count: int, most: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centers and radii of the steps along a curve that bend around something small, and by what
    angle."""
    steps = (np.arange(count) + 0.5)[:, None] / count
    points, normals, _ = patch.chart(steps)
    if normals is None:
        return np.zeros((0, 2)), np.zeros(0), np.zeros(0)
    along, turn = np.diff(points, axis=0), np.diff(normals, axis=0)
    length = np.linalg.norm(along, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = -np.sum(turn * along, axis=1) / length**2
    bend[(np.linalg.norm(turn, axis=1) > _SUDDEN) | ~np.isfinite(bend)] = 0.0
    if patch.keeps is not None:
        kept = patch.keeps(points)
        bend[~(kept[1:] & kept[:-1])] = 0.0
    # A vertex of a polygon is one step that turns, and an arc is many.
    steady = np.median(np.stack([bend[:-2], bend[1:-1], bend[2:]]), axis=0)
    (small,) = np.nonzero(steady > 1 / most)
    radius = 1 / steady[small]
    small += 1
    return points[small] + radius[:, None] * normals[small], radius, length[small] / radius


def reentrant_corners(regions: Sequence[AbstractRegion]) -> Float[np.ndarray, "k 2"]:
    """Where pieces of the boundary of a domain in the plane meet at more than a straight angle.

    **Arguments:**

    - `regions`: of the conditions of a problem: the domain itself and its boundary.
    """
    patches = [patch for region in regions for patch in patches_of(region)]
    solid = [patch for patch in patches if patch.solid and patch.keeps is not None]
    edges = [patch for patch in patches if patch.parameters == 1 and not patch.solid]
    none = np.zeros((0, 2))
    if not solid or not edges or len(solid[0].space.coordinates) != 2:
        return none
    box = bounding_box(regions)
    extent = box[:, 1] - box[:, 0]
    turn = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    around = _NEAR * extent.min() * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    found: list[np.ndarray] = []
    # What is inside is told by flat sides of a mesh, which turn where its boundary does not.
    flat = max((p.chart.turn for p in edges if isinstance(p.chart, Facets)), default=0.0)
    least = max(_ANGLE, 185.0 + flat)
    for end in np.concatenate([none, *(_ends(patch) for patch in edges)]):
        inside = np.any([patch.keeps(end + around) for patch in solid if patch.keeps], axis=0)
        known = any(np.all(np.abs(end - other) < 2 * _NEAR * extent) for other in found)
        if least < 360 * inside.mean() < 359 and not known:
            found.append(end)
    return np.stack(found) if found else none


def _ends(patch: Patch) -> Float[np.ndarray, "k 2"]:
    """Where a curve begins and ends, and where it leaves what is kept of it."""
    steps = np.linspace(0, 1, _STEPS + 1)[:, None]
    ends = [steps[:1], steps[-1:]]
    if isinstance(patch.chart, Facets):
        # The end of what comes before, and the beginning of what comes next.
        ends += [patch.chart.breaks, np.nextafter(patch.chart.breaks, 0.0)]
    if patch.keeps is not None:
        kept = patch.keeps(patch.chart(steps).points)
        change = np.flatnonzero(kept[1:] != kept[:-1])
        low, high = steps[change], steps[change + 1]
        for _ in range(40):
            middle = (low + high) / 2
            same = patch.keeps(patch.chart(middle).points) == kept[change]
            low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
        ends.append(low)
    return patch.chart(np.concatenate(ends)).points
