"""Closed curves and surfaces made of segments in the plane or of triangles in space."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from kernelpde.geometry._curved import curved
from kernelpde.geometry._graded import along_curve
from kernelpde.geometry._region import Sample

_CHUNK = 200_000
"""Points whose places are found at once: the pairs of points and facets stay in some 100 MB."""

_NEAREST = 8
"""Facets looked at first for the distance of a point; more where these do not settle it."""

_SETTLED = 0.99
"""A distance is right to this factor, and exact near the surface."""

_ON = 1e-12
"""What is nearer to the surface than this part of its extent lies on it."""

_SHARPEST = np.cos(np.deg2rad(5.0))
"""Neighbors on a curve whose normals differ by less are one smooth piece of it."""


@dataclass(frozen=True, eq=False)
class Facets:
    """Segments (d = 2) or triangles (d = 3), the image of the unit cube of dimension d - 1.

    **Attributes:**

    - `corners`: of each facet.
    - `normals`: of each facet, outwards and of length one.
    - `at_corners`: normals at the corners of each, if points are drawn from curved facets. What
      they enclose, and distances, are those of flat ones.
    """

    corners: Float[np.ndarray, "m d d"]
    normals: Float[np.ndarray, "m d"]
    at_corners: Float[np.ndarray, "m d d"] | None = None

    @cached_property
    def measures(self) -> Float[np.ndarray, " m"]:
        """Lengths or areas."""
        sides = self.corners[:, 1:] - self.corners[:, :1]
        if sides.shape[1] == 1:
            return np.linalg.norm(sides[:, 0], axis=1)
        return 0.5 * np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)

    @cached_property
    def _shares(self) -> Float[np.ndarray, " m"]:
        return np.cumsum(self.measures) / self.measures.sum()

    @property
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        return np.stack([self.corners.min(axis=(0, 1)), self.corners.max(axis=(0, 1))], axis=1)

    def only(self, rows: Int[np.ndarray, " k"] | Bool[np.ndarray, " m"]) -> "Facets":
        """Some of them."""
        bent = None if self.at_corners is None else self.at_corners[rows]
        return Facets(self.corners[rows], self.normals[rows], bent)

    def ordered(self) -> "Facets":
        """Triangles in the order of a curve that fills space, so that even parameters mean even
        points."""
        middles = self.corners.mean(axis=1)
        low, extent = self.bounds[:, 0], np.maximum(np.ptp(self.bounds, axis=1).max(), 1e-300)
        return self.only(np.argsort(along_curve((middles - low) / (1.001 * extent))))

    def __call__(self, unit: np.ndarray) -> Sample:
        facet = np.searchsorted(self._shares, unit[:, 0], side="right")
        facet = np.minimum(facet, len(self._shares) - 1)
        before = np.where(facet > 0, self._shares[facet - 1], 0.0)
        rest = np.clip((unit[:, 0] - before) / (self._shares[facet] - before), 0.0, 1.0)
        if self.corners.shape[1] == 2:
            shares = np.stack([1 - rest, rest], axis=1)
        else:
            away, across = np.sqrt(rest), unit[:, 1]
            shares = np.stack([1 - away, away * (1 - across), away * across], axis=1)
        if self.at_corners is not None:
            return curved(self.corners[facet], self.at_corners[facet], shares)
        first = self.corners[facet, 0]
        sides = self.corners[facet, 1:] - first[:, None]
        return Sample(first + np.einsum("mi,mix->mx", shares[:, 1:], sides), self.normals[facet])

    @cached_property
    def turn(self) -> float:
        """Degrees by which flat facets turn at most where curved ones do not."""
        if self.at_corners is None:
            return 0.0
        least = np.einsum("mcx,mx->mc", self.at_corners, self.normals).min()
        return 2 * float(np.rad2deg(np.arccos(np.clip(least, -1.0, 1.0))))

    @cached_property
    def bulge(self) -> float:
        """How far curved facets reach from flat ones."""
        if self.at_corners is None:
            return 0.0
        d = self.corners.shape[1]
        middle = np.full((len(self.corners), d), 1 / d)
        apart = curved(self.corners, self.at_corners, middle).points - self.corners.mean(axis=1)
        return float(np.linalg.norm(apart, axis=1).max())

    @cached_property
    def surface_area(self) -> float:
        """Length or area of all together, curved if they are."""
        if self.at_corners is None:
            return float(self.measures.sum())
        # By finer and finer flat facets, their error of second order taken out.
        coarse, fine = (self._divided(parts) for parts in (2, 4))
        return fine + (fine - coarse) / 3

    def _divided(self, parts: int) -> float:
        """The area of flat facets through points of the curved ones."""
        assert self.at_corners is not None
        count, d = self.corners.shape[:2]
        if d == 2:
            rest = np.linspace(0, 1, parts + 1)
            nodes, cells = np.stack([1 - rest, rest], axis=1), np.arange(parts)[:, None] + [0, 1]
        else:
            pairs = [(i, j) for i in range(parts + 1) for j in range(parts + 1 - i)]
            index = {pair: number for number, pair in enumerate(pairs)}
            nodes = np.array([(parts - i - j, i, j) for i, j in pairs]) / parts
            up = [
                (index[i, j], index[i + 1, j], index[i, j + 1]) for i, j in pairs if i + j < parts
            ]
            down = [
                (index[i + 1, j], index[i + 1, j + 1], index[i, j + 1])
                for i, j in pairs
                if i + j < parts - 1
            ]
            cells = np.array(up + down)
        rows = np.repeat(np.arange(count), len(nodes))
        shares = np.tile(nodes, (count, 1))
        places = curved(self.corners[rows], self.at_corners[rows], shares).points
        corners = places.reshape(count, len(nodes), d)[:, cells].reshape(-1, d, d)
        return float(Facets(corners, np.zeros((len(corners), d))).measures.sum())

    @cached_property
    def breaks(self) -> Float[np.ndarray, "k 1"]:
        """Parameters at which a curve bends, or goes on elsewhere."""
        if self.corners.shape[1] != 2:
            return np.zeros((0, 1))
        if self.at_corners is None:
            before, after = np.roll(self.normals, 1, axis=0), self.normals
        else:
            before, after = np.roll(self.at_corners[:, 1], 1, axis=0), self.at_corners[:, 0]
        bends = np.sum(before * after, axis=1) < _SHARPEST
        bends |= np.any(self.corners[:, 0] != np.roll(self.corners[:, 1], 1, axis=0), axis=1)
        return np.concatenate([[0.0], self._shares[:-1]])[bends, None]

    def encloses(self, points: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
        """Whether a ray from each point along the last coordinate crosses an odd number of them."""
        low, high = self.bounds[:-1, 0], self.bounds[:-1, 1]
        found = np.zeros(len(points), dtype=bool)
        for begin in range(0, len(points), _CHUNK):
            some = points[begin : begin + _CHUNK]
            near = np.flatnonzero(((some[:, :-1] >= low) & (some[:, :-1] <= high)).all(axis=1))
            row, facet = self._columns.pairs(some[near, :-1])
            above = self._above(some[near[row]], facet)
            odd = np.bincount(near[row[above]], minlength=len(some)) % 2 == 1
            found[begin : begin + _CHUNK] = odd
        return found

    @cached_property
    def _columns(self) -> "_Columns":
        return _Columns.of(self.corners[:, :, :-1])

    @cached_property
    def _lowest_first(self) -> Float[np.ndarray, "m d d"]:
        """Corners in the order of their coordinates: an edge is the same for both its facets."""
        order = np.lexsort(np.moveaxis(self.corners, 2, 0)[::-1])
        return np.take_along_axis(self.corners, order[:, :, None], axis=1)

    @cached_property
    def _leans(self) -> tuple[np.ndarray, ...]:
        """Slopes of edges 02, 01 and 12 as seen along the last coordinate, and of planes."""
        a, b, c = np.moveaxis(self._lowest_first, 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            edges = [(q[:, 1] - p[:, 1]) / (q[:, 0] - p[:, 0]) for p, q in ((a, c), (a, b), (b, c))]
            normal = np.cross(b - a, c - a)
            plane = [-normal[:, 0] / normal[:, 2], -normal[:, 1] / normal[:, 2]]
        # No ray crosses a plane that it is parallel to.
        return tuple(np.where(np.isfinite(slope), slope, 0.0) for slope in (*edges, *plane))

    def _above(
        self, points: Float[np.ndarray, "k d"], facet: Int[np.ndarray, " k"]
    ) -> Int[np.ndarray, " l"]:
        """Which rays from points cross a facet. Neighbors are told apart by intervals that are
        closed below and open above, so that a ray through their common edge crosses one."""
        corners = self._lowest_first
        x = points[:, 0]
        within = (corners[facet, 0, 0] <= x) & (x < corners[facet, -1, 0])
        if corners.shape[1] == 2:
            (first, last), place = np.moveaxis(corners[facet[within]], 1, 0), points[within]
            share = (place[:, 0] - first[:, 0]) / (last[:, 0] - first[:, 0])
            over = first[:, 1] + share * (last[:, 1] - first[:, 1]) > place[:, 1]
            return np.flatnonzero(within)[over]
        within &= self._tops[facet] > points[:, 2]
        rows = np.flatnonzero(within)
        facet, (x, y, z) = facet[rows], points[rows].T
        a, b = corners[facet, 0], corners[facet, 1]
        long, early, late, along, across = (lean[facet] for lean in self._leans)
        # Between the edge from the first corner to the last and those through the middle one.
        later = x >= b[:, 0]
        bent = np.where(later, b[:, 1] + late * (x - b[:, 0]), a[:, 1] + early * (x - a[:, 0]))
        between = (a[:, 1] + long * (x - a[:, 0]) > y) ^ (bent > y)
        over = a[:, 2] + along * (x - a[:, 0]) + across * (y - a[:, 1]) > z
        return rows[between & over]

    @cached_property
    def _tops(self) -> Float[np.ndarray, " m"]:
        return self.corners[:, :, -1].max(axis=1)

    @cached_property
    def _tree(self) -> tuple[Any, float]:
        """Where the middles of facets are, and how far any reaches from its own."""
        from scipy.spatial import KDTree  # slow to import, and rarely needed

        middles = self.corners.mean(axis=1)
        return KDTree(middles), float(np.linalg.norm(self.corners - middles[:, None], axis=2).max())

    def distances(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """How far points lie from the nearest facet; 0 for those on it, up to rounding."""
        tree, radius = self._tree
        middles = tree.data
        found, left = np.full(len(points), np.inf), np.arange(len(points))
        count = min(_NEAREST, len(middles))
        while len(left):
            apart, facets = tree.query(points[left], k=count)
            apart, facets = (np.asarray(each).reshape(len(left), -1) for each in (apart, facets))
            for begin in range(0, len(left), max(1, _CHUNK // count)):
                rows = slice(begin, begin + max(1, _CHUNK // count))
                place = points[left[rows], None, :]
                found[left[rows]] = _apart(place, self.corners[facets[rows]]).min(axis=1)
            if count == len(middles):
                break
            left = left[apart[:, -1] - radius < _SETTLED * found[left]]
            count = min(4 * count, len(middles))
        extent = np.ptp(self.bounds, axis=1).max()
        return np.where(found < _ON * extent, 0.0, found)

    def signed_distances(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Negative for points that they enclose."""
        return np.where(self.encloses(points), -1.0, 1.0) * self.distances(points)

    @property
    def enclosed(self) -> float:
        """Area or volume that they enclose, by the divergence theorem."""
        heights = np.sum(self.corners.mean(axis=1) * self.normals, axis=1)
        return float(heights @ self.measures) / self.corners.shape[2]


@dataclass(frozen=True, eq=False)
class _Columns:
    """Which facets lie over each cell of a grid in all coordinates but the last."""

    low: np.ndarray
    width: np.ndarray
    cells: np.ndarray
    begin: np.ndarray
    members: np.ndarray

    @staticmethod
    def of(flat: Float[np.ndarray, "m c e"]) -> "_Columns":
        low, high = flat.min(axis=1), flat.max(axis=1)
        least, extent = low.min(axis=0), np.maximum(np.ptp(flat, axis=(0, 1)), 1e-300)
        per_axis = {1: 4 * len(flat), 2: 2 * int(np.sqrt(len(flat)))}[flat.shape[2]]
        cells = np.full(
            flat.shape[2], int(np.clip(per_axis, 1, 65536 if len(extent) == 1 else 512))
        )
        width = extent / cells
        first = np.clip(np.floor((low - least) / width).astype(int), 0, cells - 1)
        last = np.clip(np.floor((high - least) / width).astype(int), 0, cells - 1)
        spans = last - first + 1
        number = np.prod(spans, axis=1)
        facet = np.repeat(np.arange(len(flat)), number)
        rank = np.arange(len(facet)) - np.repeat(np.cumsum(number) - number, number)
        cell = first[facet, 0] + (rank if spans.shape[1] == 1 else rank // spans[facet, 1])
        if spans.shape[1] == 2:
            cell = cell * cells[1] + first[facet, 1] + rank % spans[facet, 1]
        order = np.argsort(cell, kind="stable")
        begin = np.searchsorted(cell[order], np.arange(np.prod(cells) + 1))
        return _Columns(least, width, cells, begin, facet[order])

    def pairs(
        self, places: Float[np.ndarray, "n e"]
    ) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """Numbers of points and of the facets over their cells."""
        axis = np.clip(((places - self.low) / self.width).astype(int), 0, self.cells - 1)
        cell = axis[:, 0] if len(self.cells) == 1 else axis[:, 0] * self.cells[1] + axis[:, 1]
        begin, number = self.begin[cell], self.begin[cell + 1] - self.begin[cell]
        row = np.repeat(np.arange(len(places)), number)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
        return row, self.members[begin[row] + rank]


def _apart(
    points: Float[np.ndarray, "n 1 d"], corners: Float[np.ndarray, "n k d d"]
) -> Float[np.ndarray, "n k"]:
    """Distances of points from segments or triangles."""
    edges = [(0, 1)] if corners.shape[2] == 2 else [(0, 1), (1, 2), (2, 0)]
    found = np.min([_from_segment(points, corners[:, :, i], corners[:, :, j]) for i, j in edges], 0)
    if len(edges) == 1:
        return found
    one, two = corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0]
    to = points - corners[:, :, 0]
    normal = np.cross(one, two)
    size = np.maximum(np.sum(normal * normal, axis=-1), 1e-300)
    u = np.sum(np.cross(to, two) * normal, axis=-1) / size
    v = np.sum(np.cross(one, to) * normal, axis=-1) / size
    over = (u >= 0) & (v >= 0) & (u + v <= 1)
    return np.where(over, np.abs(np.sum(to * normal, axis=-1)) / np.sqrt(size), found)


def _from_segment(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    along = b - a
    square = np.maximum(np.sum(along * along, axis=-1), 1e-300)
    share = np.clip(np.sum((points - a) * along, axis=-1) / square, 0.0, 1.0)
    return np.linalg.norm(points - a - share[..., None] * along, axis=-1)


def normals_of(corners: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, "m d"]:
    """To the right of segments; of triangles by the right hand."""
    sides = corners[:, 1:] - corners[:, :1]
    if sides.shape[1] == 1:
        found = np.stack([sides[:, 0, 1], -sides[:, 0, 0]], axis=1)
    else:
        found = np.cross(sides[:, 0], sides[:, 1])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def loops(edges: Int[np.ndarray, "m 2"]) -> Iterator[Int[np.ndarray, " k"]]:
    """Edges of closed curves in their order, curve by curve: numbers of edges."""
    after = {int(begin): i for i, (begin, _) in enumerate(edges)}
    left = set(range(len(edges)))
    while left:
        number = min(left)
        chain = []
        while number in left:
            left.discard(number)
            chain.append(number)
            number = after[int(edges[number, 1])]
        yield np.array(chain)
