"""Closed curves and surfaces of segments in the plane or triangles in space."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from kernelpde.arrays import TINY
from kernelpde.geometry._curved import curved_points
from kernelpde.geometry._graded import MAX_POINTS, morton_index
from kernelpde.geometry._sampling import Points, RegionSample
from kernelpde.geometry._tolerances import Tolerances

_DISTANCE_RATIO = 0.99
"""Relative accuracy of distances, which are exact near the surface. A lower bound of the distance
to all further facets must exceed this fraction of the computed distance."""

_EXTENT_MARGIN = 1.001
"""Ratio of the cube of the space-filling curve to the extent, so that all centers are inside."""

_SMOOTH_COSINE = np.cos(np.deg2rad(5.0))
"""Cosine of the angle between normals below which neighboring segments form one smooth curve."""


@dataclass(frozen=True, eq=False)
class Facets:
    """Segments (d = 2) or triangles (d = 3) as a chart of the unit cube of dimension d - 1.

    **Attributes:**

    - `corners`: corners of the facets.
    - `normals`: outward unit normals of the facets.
    - `corner_normals`: unit normals at the corners if points are drawn from curved facets, or
      `None`. Enclosed sets and distances always refer to the flat facets.
    """

    corners: Float[np.ndarray, "m d d"]
    normals: Float[np.ndarray, "m d"]
    corner_normals: Float[np.ndarray, "m d d"] | None = None

    @cached_property
    def measures(self) -> Float[np.ndarray, " m"]:
        """Lengths or areas of the flat facets."""
        return _measures(self.corners)

    @cached_property
    def _ends(self) -> Float[np.ndarray, " ends"]:
        """First parameters at which each facet starts and the last one ends."""
        return np.concatenate([[0.0], np.cumsum(self.measures) / self.measures.sum()])

    @property
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        return np.stack([self.corners.min(axis=(0, 1)), self.corners.max(axis=(0, 1))], axis=1)

    def select(self, rows: Int[np.ndarray, " k"] | Bool[np.ndarray, " m"]) -> "Facets":
        """Return a subset of the facets."""
        corner_normals = None if self.corner_normals is None else self.corner_normals[rows]
        return Facets(self.corners[rows], self.normals[rows], corner_normals)

    def sorted_by_curve(self) -> "Facets":
        """Sort by a space-filling curve, so that evenly spaced parameters give even points."""
        extent = np.maximum(np.ptp(self.bounds, axis=1).max(), TINY)
        unit = (self._centers - self.bounds[:, 0]) / (_EXTENT_MARGIN * extent)
        return self.select(np.argsort(morton_index(unit)))

    def __call__(self, unit: np.ndarray) -> RegionSample:
        ends = self._ends
        facet = np.searchsorted(ends[1:-1], unit[:, 0], side="right")
        start, end = ends[facet], ends[facet + 1]
        t = np.clip((unit[:, 0] - start) / (end - start), 0.0, 1.0)
        if self.corners.shape[1] == 2:
            barycentric = np.stack([1 - t, t], axis=1)
        else:
            r, s = np.sqrt(t), unit[:, 1]
            barycentric = np.stack([1 - r, r * (1 - s), r * s], axis=1)
        if self.corner_normals is not None:
            return curved_points(self.corners[facet], self.corner_normals[facet], barycentric)
        points = np.einsum("mi,mix->mx", barycentric, self.corners[facet])
        return RegionSample(points, self.normals[facet])

    @cached_property
    def max_normal_angle(self) -> float:
        """Maximum angle in degrees between neighboring flat facets of a smooth curved surface."""
        if self.corner_normals is None:
            return 0.0
        cosine = np.einsum("mcx,mx->mc", self.corner_normals, self.normals).min()
        return 2 * float(np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0))))

    @cached_property
    def curvature_offset(self) -> float:
        """Maximum distance between the centers of curved and flat facets."""
        if self.corner_normals is None:
            return 0.0
        d = self.corners.shape[1]
        barycentric = np.full((len(self.corners), d), 1 / d)
        centers = curved_points(self.corners, self.corner_normals, barycentric).points
        return float(np.linalg.norm(centers - self._centers, axis=1).max())

    @cached_property
    def surface_area(self) -> float:
        """Total length or area of the facets, curved if they have corner normals."""
        if self.corner_normals is None:
            return float(self.measures.sum())
        # Richardson extrapolation removes the second-order error of the flat refinements.
        coarse, fine = self._refined_area(1), self._refined_area(2)
        return fine + (fine - coarse) / 3

    def _refined_area(self, num_bisections: int) -> float:
        """Return the area of flat facets through points of the curved ones."""
        assert self.corner_normals is not None
        count, d = self.corners.shape[:2]
        cells = np.eye(d)[None]
        for _ in range(num_bisections):
            middles = (cells + np.roll(cells, -1, axis=1)) / 2
            at_corners = np.stack([cells, middles, np.roll(middles, 1, axis=1)], axis=2)[:, :, :d]
            inner = middles if d == 3 else middles[:0]
            cells = np.concatenate([at_corners.reshape(-1, d, d), inner])
        barycentric = cells.reshape(-1, d)
        rows = np.repeat(np.arange(count), len(barycentric))
        barycentric = np.tile(barycentric, (count, 1))
        points = curved_points(self.corners[rows], self.corner_normals[rows], barycentric).points
        return float(_measures(points.reshape(-1, d, d)).sum())

    @cached_property
    def breaks(self) -> Float[np.ndarray, "k 1"]:
        """Parameters at which a curve has a corner or a gap; none for surfaces."""
        if self.corners.shape[1] != 2:
            return np.zeros((0, 1))
        incoming = outgoing = self.normals
        if self.corner_normals is not None:
            incoming, outgoing = self.corner_normals[:, 1], self.corner_normals[:, 0]
        is_break = np.sum(np.roll(incoming, 1, axis=0) * outgoing, axis=1) < _SMOOTH_COSINE
        is_break |= np.any(self.corners[:, 0] != np.roll(self.corners[:, 1], 1, axis=0), axis=1)
        return self._ends[:-1][is_break, None]

    def contains(self, points: Points) -> Bool[np.ndarray, " n"]:
        """Return whether the facets enclose points.

        True if a ray along the last coordinate crosses an odd number of facets.
        """
        low, high = self.bounds[:-1, 0], self.bounds[:-1, 1]
        inside = np.zeros(len(points), dtype=bool)
        for start in range(0, len(points), MAX_POINTS):
            chunk = points[start : start + MAX_POINTS]
            columns = chunk[:, :-1]
            candidates = np.flatnonzero(((columns >= low) & (columns <= high)).all(axis=1))
            row, facet = self._facet_grid.pairs(columns[candidates])
            crossing = self._find_crossings(chunk[candidates[row]], facet)
            num_crossings = np.bincount(candidates[row[crossing]], minlength=len(chunk))
            inside[start : start + MAX_POINTS] = num_crossings % 2 == 1
        return inside

    @cached_property
    def _facet_grid(self) -> "_FacetGrid":
        return _FacetGrid.build(self.corners[:, :, :-1])

    @cached_property
    def _sorted_corners(self) -> Float[np.ndarray, "m d d"]:
        """Corners in lexicographic order, so that an edge is identical in both its facets."""
        order = np.lexsort(np.moveaxis(self.corners, 2, 0)[::-1])
        return np.take_along_axis(self.corners, order[:, :, None], axis=1)

    def _find_crossings(self, points: Points, facet: Int[np.ndarray, " n"]) -> np.ndarray:
        """Return the indices of pairs in which the ray from the point crosses the facet.

        Intervals are closed below and open above, so that a ray through a common edge of two facets
        crosses one of them.
        """
        corners = self._sorted_corners
        x = points[:, 0]
        in_range = (corners[facet, 0, 0] <= x) & (x < corners[facet, -1, 0])
        rows = np.flatnonzero(in_range & (self._upper_bounds[facet] > points[:, -1]))
        facet, points = facet[rows], points[rows]
        a, b, c = corners[facet, 0], corners[facet, 1], corners[facet, -1]
        is_crossed = _passes_above(a, c, points)
        if corners.shape[1] == 3:
            # The projected triangle lies between the edge ac and the polyline abc.
            is_first = points[:, 0] < b[:, 0]
            is_crossed ^= np.where(
                is_first, _passes_above(a, b, points), _passes_above(b, c, points)
            )
            normals = self.normals[facet]
            is_crossed &= np.sum((points - a) * normals, axis=1) * normals[:, 2] < 0
        return rows[is_crossed]

    @cached_property
    def _upper_bounds(self) -> Float[np.ndarray, " m"]:
        return self.corners[:, :, -1].max(axis=1)

    @cached_property
    def _centers(self) -> Float[np.ndarray, "m d"]:
        return self.corners.mean(axis=1)

    @cached_property
    def _tree(self) -> tuple[Any, float]:
        """Search tree of the facet centers, and maximum distance of a corner from its center."""
        radii = np.linalg.norm(self.corners - self._centers[:, None], axis=2)
        from scipy.spatial import KDTree

        return KDTree(self._centers), float(radii.max())

    def distances(self, points: Points) -> Float[np.ndarray, " n"]:
        """Return the distances of points from the nearest facet; 0 within rounding of a facet."""
        tree, radius = self._tree
        num_facets = len(tree.data)
        distances, pending = np.full(len(points), np.inf), np.arange(len(points))
        count = min(2 ** self.corners.shape[1], num_facets)
        while len(pending):
            query = tree.query(points[pending], k=count)
            center_distances, facets = (np.reshape(array, (-1, count)) for array in query)
            chunk = max(1, MAX_POINTS // count)
            for start in range(0, len(pending), chunk):
                rows = slice(start, start + chunk)
                corners = self.corners[facets[rows]]
                nearest = _facet_distances(points[pending[rows], None, :], corners).min(axis=1)
                distances[pending[rows]] = nearest
            if count == num_facets:
                break
            bounds = center_distances[:, -1] - radius
            pending = pending[bounds < _DISTANCE_RATIO * distances[pending]]
            count = min(4 * count, num_facets)
        tolerance = Tolerances.from_bounds(self.bounds).on_facet
        return np.where(distances < tolerance, 0.0, distances)

    def signed_distances(self, points: Points) -> Float[np.ndarray, " n"]:
        """Return distances from the nearest facet, negative for enclosed points."""
        return np.where(self.contains(points), -1.0, 1.0) * self.distances(points)

    @property
    def enclosed_measure(self) -> float:
        """Enclosed area or volume, by the divergence theorem."""
        heights = np.sum(self._centers * self.normals, axis=1)
        return float(heights @ self.measures) / self.corners.shape[2]


@dataclass(frozen=True, eq=False)
class _FacetGrid:
    """Regular grid in all coordinates but the last, with the facets that overlap each cell.

    The indices of the facets of cell i are `members[starts[i] : starts[i + 1]]`.
    """

    low: np.ndarray
    width: np.ndarray
    shape: tuple[int, ...]
    starts: np.ndarray
    members: np.ndarray

    @staticmethod
    def build(projected: Float[np.ndarray, "m c e"]) -> "_FacetGrid":
        """Build the grid from the projected corners of all facets."""
        count, _, e = projected.shape
        low, high = projected.min(axis=1), projected.max(axis=1)
        origin, extent = low.min(axis=0), np.maximum(np.ptp(projected, axis=(0, 1)), TINY)
        per_axis = min(4 * count, 65536) if e == 1 else min(max(2 * int(np.sqrt(count)), 1), 512)
        shape = (per_axis,) * e
        width = extent / per_axis
        first = np.clip(np.floor((low - origin) / width).astype(int), 0, per_axis - 1)
        last = np.clip(np.floor((high - origin) / width).astype(int), 0, per_axis - 1)
        spans = last - first + 1
        facet, rank = _repeat_ranges(np.prod(spans, axis=1))
        inner = np.prod(spans[:, 1:], axis=1)[facet]
        steps = np.stack([rank // inner, rank % inner], axis=1)[:, :e]
        cell = np.asarray(np.ravel_multi_index(tuple((first[facet] + steps).T), shape))
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(np.prod(shape) + 1))
        return _FacetGrid(origin, width, shape, starts, facet[order])

    def pairs(self, points: Float[np.ndarray, "n e"]) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a point and a facet that overlaps its cell, as index arrays."""
        index = ((points - self.low) / self.width).astype(int)
        cell = np.ravel_multi_index(tuple(index.T), self.shape, mode="clip")
        row, rank = _repeat_ranges(self.starts[cell + 1] - self.starts[cell])
        return row, self.members[self.starts[cell][row] + rank]


def _repeat_ranges(counts: Int[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs (i, j) with 0 <= j < counts[i], as two arrays."""
    i = np.repeat(np.arange(len(counts)), counts)
    return i, np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)


def _passes_above(first: np.ndarray, last: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return whether segments from left to right pass above points, in the first two coordinates.

    The result is identical for both facets of an edge.
    """
    (dx, dy), (x, y) = (last - first).T[:2], (points - first).T[:2]
    return dy * x > dx * y


def _measures(corners: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, " m"]:
    """Return the lengths of segments or the areas of triangles."""
    sides = corners[:, 1:] - corners[:, :1]
    if sides.shape[1] == 1:
        return np.linalg.norm(sides[:, 0], axis=1)
    return 0.5 * np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)


def _facet_distances(
    points: Float[np.ndarray, "n 1 d"], corners: Float[np.ndarray, "n k d d"]
) -> Float[np.ndarray, "n k"]:
    """Return the distances of points from segments or triangles."""
    if corners.shape[2] == 2:
        return _segment_distances(points, corners[:, :, 0], corners[:, :, 1])
    a, b, c = np.moveaxis(corners, 2, 0)
    edges = ((a, b), (b, c), (c, a))
    edge_distance = np.min([_segment_distances(points, *edge) for edge in edges], axis=0)
    ab, ac, offset = b - a, c - a, points - a
    normal = np.cross(ab, ac)
    square = np.maximum(np.sum(normal * normal, axis=-1), TINY)
    u = np.sum(np.cross(offset, ac) * normal, axis=-1) / square
    v = np.sum(np.cross(ab, offset) * normal, axis=-1) / square
    projects_inside = (u >= 0) & (v >= 0) & (u + v <= 1)
    height = np.abs(np.sum(offset * normal, axis=-1)) / np.sqrt(square)
    return np.where(projects_inside, height, edge_distance)


def _segment_distances(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    direction = b - a
    square = np.maximum(np.sum(direction * direction, axis=-1), TINY)
    t = np.clip(np.sum((points - a) * direction, axis=-1) / square, 0.0, 1.0)
    return np.linalg.norm(points - a - t[..., None] * direction, axis=-1)


def facet_normals(corners: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, "m d"]:
    """Return unit normals: to the right of segments, right-handed for triangles."""
    sides = corners[:, 1:] - corners[:, :1]
    if sides.shape[1] == 1:
        normals = np.stack([sides[:, 0, 1], -sides[:, 0, 0]], axis=1)
    else:
        normals = np.cross(sides[:, 0], sides[:, 1])
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def loops(edges: Int[np.ndarray, "m 2"]) -> Iterator[Int[np.ndarray, " k"]]:
    """Yield the edge indices of each closed curve, in order."""
    following = {start: i for i, start in enumerate(edges[:, 0].tolist())}
    remaining = set(range(len(edges)))
    while remaining:
        edge = min(remaining)
        chain = []
        while edge in remaining:
            remaining.discard(edge)
            chain.append(edge)
            edge = following[edges[edge, 1]]
        yield np.array(chain)
