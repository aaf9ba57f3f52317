"""Polygons, and the base class of domains enclosed by facets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kernelpde.checking import check_integer, is_sequence, require, to_float_array
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._facets import Facets, facet_normals
from kernelpde.geometry._region import Patch
from kernelpde.geometry._space import make_space


class FacetedDomain(AbstractDomain):
    """A domain enclosed by segments or triangles."""

    is_box = False
    _facets: Facets
    _pieces: Mapping[str, Facets]

    @property
    def bounds(self):
        return self._facets.bounds

    def signed_distance(self, points):
        return self._facets.signed_distances(points)

    def contains(self, points):
        return self._facets.contains(points)

    @property
    def faceting_error(self):
        return self._facets.curvature_offset

    @property
    def volume(self):
        return self._facets.enclosed_measure

    @property
    def boundary_patches(self):
        return {name: self._make_patch(name, facets) for name, facets in self._pieces.items()}

    def _make_patch(self, name: str, facets: Facets) -> Patch:
        dimension = facets.corners.shape[2]
        smooth = len(facets.measures) == 1
        return Patch(name, self.space, dimension - 1, facets, facets.surface_area, smooth=smooth)


class Polygon(FacetedDomain):
    """A polygon in the plane, with or without holes: `Polygon([(0, 0), (2, 0), (0, 1)])`.

    Its boundary pieces are `"outer"`, `"hole 1"`, `"hole 2"` and so on; with `names`, the outer
    curve is divided into the named pieces. `polygon.edge(3)` is a single edge.

    **Arguments:**

    - `vertices`: vertices of the outer curve, in either orientation; or a polygon of `shapely`.
    - `holes`: vertices of each hole.
    - `names`: name of the piece of each outer edge; edge i starts at vertex i.
    - `coordinates`: coordinate names.

    **Example:**

    ```python
    >>> hole = [(0.5, 0.5), (1, 0.5), (1, 0.8)]
    >>> room = kp.Polygon([(0, 0), (2, 0), (2, 1), (0, 1)], holes=[hole])
    >>> round(room.volume, 3), list(room.boundary_patches)
    (1.925, ['outer', 'hole 1'])
    ```
    """

    def __init__(
        self,
        vertices: Any,
        holes: Sequence[Any] = (),
        names: Sequence[str] | None = None,
        coordinates: tuple[str, str] = ("x", "y"),
    ):
        if hasattr(vertices, "exterior"):
            holes = [ring.coords for ring in vertices.interiors]
            vertices = vertices.exterior.coords
        self.space = make_space("Polygon", coordinates, 2)
        outer = _check_ring("vertices", vertices)
        hole_rings = {f"hole {i + 1}": hole for i, hole in enumerate(holes)}
        hole_rings = {name: _check_ring(name, hole) for name, hole in hole_rings.items()}
        _check_crossings([outer, *hole_rings.values()])
        self._outer = _ring_facets(outer, outward=True)
        self._pieces = _named_edges(self._outer, names)
        for name, ring in hole_rings.items():
            for i in np.flatnonzero(~self._outer.contains(ring)):
                raise InputError(
                    f"Polygon: {name} must lie inside the outer curve; its vertex {i} is "
                    f"{ring[i].tolist()}."
                )
            self._pieces[name] = _ring_facets(ring, outward=False)
        pieces = self._pieces.values()
        corners = np.concatenate([piece.corners for piece in pieces])
        self._facets = Facets(corners, np.concatenate([piece.normals for piece in pieces]))

    def edge(self, index: int) -> Patch:
        """Return the edge of the outer curve that starts at a vertex."""
        last = len(self._outer.corners) - 1
        check_integer("Polygon.edge", "index", index, at_least=0)
        require(index <= last, "Polygon.edge", "index", f"from 0 to {last}", index)
        return self._make_patch(f"edge {index}", self._outer.select(np.array([index])))

    def __repr__(self) -> str:
        holes = sum(name.startswith("hole ") for name in self._pieces)
        suffix = f", {holes} hole{'s' * (holes > 1)}" if holes else ""
        return f"Polygon({len(self._outer.corners)} vertices{suffix})"


def _named_edges(outer: Facets, names: Sequence[str] | None) -> dict[str, Facets]:
    if names is None:
        return {"outer": outer}
    num_edges = len(outer.corners)
    is_list = is_sequence(names) and all(isinstance(name, str) for name in names)
    require(is_list, "Polygon", "names", "a list of strings", names)
    is_valid = len(names) == num_edges and not any(name.startswith("hole ") for name in names)
    expected = f"one name for each of {num_edges} edges, none of them 'hole ...'"
    require(is_valid, "Polygon", "names", expected, names)
    return {name: outer.select(np.array(names) == name) for name in dict.fromkeys(names)}


def _check_ring(label: str, vertices: Any) -> Float[np.ndarray, "m 2"]:
    ring = to_float_array("Polygon", label, vertices)
    if ring.ndim == 2 and len(ring) > 1 and (ring[0] == ring[-1]).all():
        ring = ring[:-1]
    is_valid = ring.ndim == 2 and ring.shape[1] == 2 and len(ring) > 2 and np.isfinite(ring).all()
    require(bool(is_valid), "Polygon", label, "at least three finite points (x, y)", vertices)
    for i in np.flatnonzero((ring == np.roll(ring, -1, axis=0)).all(axis=1)):
        raise InputError(
            f"Polygon: {label} {i} and the next are the same point, {ring[i].tolist()}. Leave one "
            "of them out."
        )
    return ring


def _ring_facets(ring: np.ndarray, outward: bool) -> Facets:
    """Return the edges of a closed curve, with outward or inward normals."""
    following = np.roll(ring, -1, axis=0)
    area = np.sum(ring[:, 0] * following[:, 1] - ring[:, 1] * following[:, 0])
    corners = np.stack([ring, following], axis=1)
    return Facets(corners, np.sign(area) * (1 if outward else -1) * facet_normals(corners))


def _check_crossings(rings: Sequence[np.ndarray]) -> None:
    """Raise an error if two edges that are not neighbors intersect."""
    start = np.concatenate(rings)
    end = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    for i in range(len(start) - 1):
        a, b, c, d = start[i], end[i], start[i + 1 :], end[i + 1 :]
        is_low, is_high = np.maximum(c, d) < np.minimum(a, b), np.minimum(c, d) > np.maximum(a, b)
        is_overlapping = ~(is_low | is_high).any(axis=1)
        is_neighbor = (c == b).all(axis=1) | (d == a).all(axis=1)
        is_separated = (_side(a, b, c) * _side(a, b, d) > 0) | (_side(c, d, a) * _side(c, d, b) > 0)
        for j in i + 1 + np.flatnonzero(is_overlapping & ~is_neighbor & ~is_separated):
            raise InputError(
                "Polygon: its edges must not cross or touch, but the edge from "
                f"{start[i].tolist()} to {end[i].tolist()} intersects the edge from "
                f"{start[j].tolist()} to {end[j].tolist()}. Check the order of the vertices."
            )


def _side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the sign of the orientation of the triangle abc."""
    ab, ac = b - a, c - a
    return np.sign(ab[..., 0] * ac[..., 1] - ab[..., 1] * ac[..., 0])
