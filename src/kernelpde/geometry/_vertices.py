"""Vertices of planar domains: points at which two smooth parts of the boundary end."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.geometry._facets import Facets
from kernelpde.geometry._grid import bounding_box
from kernelpde.geometry._region import AbstractRegion, Patch, as_patches
from kernelpde.geometry._sampling import Mask, Points
from kernelpde.geometry._tolerances import Tolerances

_STEPS = 2048
"""Number of steps along a curve in the search for the ends of its parts. At half of it, parts
shorter than 1/1024 of the curve can be missed; at double, the search takes twice the time."""

_BISECTIONS = 40
"""Number of bisections that locate the parameter at which a curve leaves its mask: to rounding."""

_PARAMETER_STEP = 1e-6
"""Distance from an end of a curve, in parameters, at which its direction is computed. At double,
directions of curved sides have twice the error; rounding is smaller by three digits."""

_SAME_DIRECTION = 1e-3
"""Angle up to which two curves at a vertex are the same side."""


class Side(NamedTuple):
    """One of the two sides of the boundary at a vertex.

    **Attributes:**

    - `direction`: unit vector along the side, away from the vertex.
    - `normal`: outward unit normal.
    - `regions`: indices of the regions to which the side belongs.
    """

    direction: Float[np.ndarray, " 2"]
    normal: Float[np.ndarray, " 2"]
    regions: tuple[int, ...]


class Vertex(NamedTuple):
    """A common end of two sides; the domain is to the left of the first."""

    point: Float[np.ndarray, " 2"]
    first: Side
    second: Side

    @property
    def angle(self) -> float:
        """Interior angle, between 0 and 2π."""
        angles = [np.arctan2(*side.direction[::-1]) for side in (self.first, self.second)]
        return float((angles[1] - angles[0]) % (2 * np.pi))

    @property
    def bisector(self) -> Float[np.ndarray, " 2"]:
        """Unit vector from the vertex into the domain."""
        start = np.arctan2(*self.first.direction[::-1])
        return np.array([np.cos(start + self.angle / 2), np.sin(start + self.angle / 2)])


class _CurveEnd(NamedTuple):
    """An end of a smooth part of a curve."""

    point: Float[np.ndarray, " 2"]
    direction: Float[np.ndarray, " 2"]
    normal: Float[np.ndarray, " 2"]
    region: int


def find_vertices(regions: Sequence[AbstractRegion]) -> list[Vertex]:
    """Return the points at which two parts of the boundary of a planar domain end.

    Common ends of more than two parts, as on interfaces between domains, are no vertices.
    """
    curves = [
        (patch, index)
        for index, region in enumerate(regions)
        for patch in region.as_patches()
        if patch.parameter_dim == 1 and len(patch.space.coordinates) == 2 and patch.has_normals
    ]
    if not curves:
        return []
    probe = Tolerances.from_bounds(bounding_box(regions)).probe
    interiors = [p.mask for p in as_patches(*regions) if p.is_interior and p.mask is not None]
    is_boundary = partial(_is_boundary, interiors, probe)
    ends = [end for patch, index in curves for end in _curve_ends(patch, index, is_boundary)]
    vertices = []
    while ends:
        offsets = np.abs(np.stack([end.point for end in ends]) - ends[0].point)
        is_equal = np.all(offsets < 2 * probe, axis=1)
        sides = _merge([ends[i] for i in np.flatnonzero(is_equal)])
        if len(sides) == 2:
            (dx, dy), (nx, ny) = sides[0].direction, sides[0].normal
            is_first = dx * ny < dy * nx
            vertices.append(Vertex(ends[0].point, *(sides if is_first else sides[::-1])))
        ends = [ends[i] for i in np.flatnonzero(~is_equal)]
    return vertices


def _merge(ends: Sequence[_CurveEnd]) -> list[Side]:
    """Merge the ends of curves in the same direction, which belong to several regions."""
    sides: list[Side] = []
    for end in ends:
        for i, side in enumerate(sides):
            if np.linalg.norm(side.direction - end.direction) < _SAME_DIRECTION:
                sides[i] = side._replace(regions=tuple(sorted({*side.regions, end.region})))
                break
        else:
            sides.append(Side(end.direction, end.normal, (end.region,)))
    return sides


def _is_boundary(
    interiors: Sequence[Mask], probe: Float[np.ndarray, " 2"], points: Points, normals: Points
) -> Bool[np.ndarray, " n"]:
    """Return whether a domain is on the inner side of points, and none on the outer side."""
    inner, outer = (
        np.any([mask(points + sign * probe * normals) for mask in interiors], axis=0)
        for sign in (-1.0, 1.0)
    )
    return inner & ~outer


def _curve_ends(
    curve: Patch, region: int, is_boundary: Callable[[Points, Points], Bool[np.ndarray, " n"]]
) -> list[_CurveEnd]:
    """Return the ends of a curve, of its smooth pieces, and of its parts in the mask.

    **Arguments:**

    - `is_boundary`: predicate of points with normals. Masks of coordinates with very different
      units have tolerances in the larger unit, and may reject all of a curve.
    """
    starts, stops = [0.0], [1.0]
    if isinstance(curve.chart, Facets):
        # The end of a piece is the last number before the start of the next one.
        starts += curve.chart.breaks[:, 0].tolist()
        stops += np.nextafter(curve.chart.breaks[:, 0], 0.0).tolist()
    if curve.mask is not None:
        steps = np.linspace(0, 1, _STEPS + 1)[:, None]
        inside = curve.mask(curve.chart(steps).points)
        change = np.flatnonzero(inside[1:] != inside[:-1])
        low, high = steps[change], steps[change + 1]
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            is_low = (curve.mask(curve.chart(middle).points) == inside[change])[:, None]
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        stops += low[inside[change], 0].tolist()
        starts += low[~inside[change], 0].tolist()
    parameters = np.array([*starts, *stops])
    signs = np.repeat([1.0, -1.0], [len(starts), len(stops)])
    nearby = parameters + signs * _PARAMETER_STEP
    is_valid = (nearby > 0.0) & (nearby < 1.0)
    parameters, nearby = parameters[is_valid, None], nearby[is_valid, None]
    points, (near_points, normals, _) = curve.chart(parameters).points, curve.chart(nearby)
    assert normals is not None
    directions = near_points - points
    lengths = np.linalg.norm(directions, axis=1)
    is_end = lengths > 0
    if curve.mask is not None:
        is_end &= curve.mask(near_points) | is_boundary(near_points, normals)
    return [
        _CurveEnd(points[i], directions[i] / lengths[i], normals[i], region)
        for i in np.flatnonzero(is_end)
    ]
