"""Polygons."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kernelpde.checking import listed, numbers, shown, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._facets import Facets
from kernelpde.geometry._region import Patch, Space


class Faceted(AbstractDomain):
    """What segments or triangles enclose."""

    fills_its_bounds = False
    _facets: Facets
    _named: Mapping[str, Facets]

    @property
    def bounds(self):
        return self._facets.bounds

    def signed_distance(self, points):
        return self._facets.signed_distances(points)

    def contains(self, points):
        return self._facets.encloses(points)

    @property
    def bulge(self):
        return self._facets.bulge

    @property
    def volume(self):
        return self._facets.enclosed

    @property
    def pieces(self):
        return {name: self._piece(name, facets) for name, facets in self._named.items()}

    def _piece(self, name: str, facets: Facets) -> Patch:
        dimension = facets.corners.shape[2]
        smooth = len(facets.measures) == 1
        return Patch(name, self.space, dimension - 1, facets, facets.surface_area, smooth=smooth)


class Polygon(Faceted):
    """A polygon in the plane, with or without holes: `Polygon([(0, 0), (2, 0), (0, 1)])`.

    Its boundary has the pieces `"outer"`, `"hole 1"`, `"hole 2"` and so on, or those that `names`
    gives to the edges of the outer curve; `polygon.edge(3)` is a single edge.

    **Arguments:**

    - `vertices`: of the outer curve, in order, either way round; or a polygon of `shapely`.
    - `holes`: for each hole its vertices.
    - `names`: for each edge of the outer curve the piece it belongs to; edge i begins at vertex i.
    - `coordinates`: their names.

    **Example:**

    ```python
    >>> hole = [(0.5, 0.5), (1, 0.5), (1, 0.8)]
    >>> room = kp.Polygon([(0, 0), (2, 0), (2, 1), (0, 1)], holes=[hole])
    >>> round(room.volume, 3), list(room.pieces)
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
        if len(coordinates) != 2 or coordinates[0] == coordinates[1]:
            raise InputError(
                f"Polygon: expected two different coordinate names; got {listed(coordinates)}."
            )
        self.space = Space(tuple(coordinates))
        outer = _ring("vertices", vertices)
        rings = [outer, *(_ring(f"hole {i + 1}", hole) for i, hole in enumerate(holes))]
        _check_crossings(rings)
        around = Facets(*_edges(outer, outwards=True))
        for i, hole in enumerate(rings[1:]):
            outside = np.flatnonzero(~around.encloses(hole))
            if len(outside):
                raise InputError(
                    f"Polygon: hole {i + 1} must lie inside of the outer curve; its vertex "
                    f"{outside[0]} is {hole[outside[0]].tolist()}."
                )
        self._outer = around
        self._named = _named(around, names)
        for i, hole in enumerate(rings[1:]):
            self._named[f"hole {i + 1}"] = Facets(*_edges(hole, outwards=False))
        everything = list(self._named.values())
        self._facets = Facets(
            np.concatenate([each.corners for each in everything]),
            np.concatenate([each.normals for each in everything]),
        )

    def edge(self, number: int) -> Patch:
        """The edge of the outer curve that begins at a vertex."""
        last = len(self._outer.corners) - 1
        whole_number("Polygon.edge", "number", number, at_least=0)
        if number > last:
            raise InputError(f"Polygon.edge: expected a number from 0 to {last}; got {number}.")
        return self._piece(f"edge {number}", self._outer.only(np.array([number])))

    def __repr__(self) -> str:
        holes = sum(name.startswith("hole ") for name in self._named)
        more = f", {holes} hole{'s' * (holes > 1)}" if holes else ""
        return f"Polygon({len(self._outer.corners)} vertices{more})"


def _named(outer: Facets, names: Sequence[str] | None) -> dict[str, Facets]:
    if names is None:
        return {"outer": outer}
    edges = len(outer.corners)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(f"Polygon: names must be a list of strings; got {shown(names)}.")
    if len(names) != edges or any(name.startswith("hole ") for name in names):
        raise InputError(
            f"Polygon: expected one name for each of {edges} edges, none of them 'hole ...'; got "
            f"{listed(names)}."
        )
    given = np.array(names)
    return {name: outer.only(np.flatnonzero(given == name)) for name in dict.fromkeys(names)}


def _ring(what: str, vertices: Any) -> Float[np.ndarray, "m 2"]:
    found = numbers("Polygon", what, vertices)
    if found.ndim == 2 and len(found) > 1 and (found[0] == found[-1]).all():
        found = found[:-1]
    if found.ndim != 2 or found.shape[1] != 2 or len(found) < 3 or not np.isfinite(found).all():
        raise InputError(
            f"Polygon: {what} must be at least three finite points (x, y); got {shown(vertices)}."
        )
    same = np.flatnonzero((found == np.roll(found, -1, axis=0)).all(axis=1))
    if len(same):
        raise InputError(
            f"Polygon: {what} {same[0]} and the next are the same point, {found[same[0]].tolist()}."
            " Leave one of them out."
        )
    return found


def _edges(ring: np.ndarray, outwards: bool) -> tuple[np.ndarray, np.ndarray]:
    """Corners and normals of the edges of a closed curve; normals out of it, or into it."""
    after = np.roll(ring, -1, axis=0)
    area = np.sum(ring[:, 0] * after[:, 1] - ring[:, 1] * after[:, 0])
    along = after - ring
    sign = np.sign(area) * (1 if outwards else -1)
    normals = sign * np.stack([along[:, 1], -along[:, 0]], axis=1)
    corners = np.stack([ring, after], axis=1)
    return corners, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def _check_crossings(rings: Sequence[np.ndarray]) -> None:
    """No two edges but neighbors may meet."""
    begin = np.concatenate(rings)
    end = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])

    def side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        one, two = b - a, c - a
        return np.sign(one[..., 0] * two[..., 1] - one[..., 1] * two[..., 0])

    for i in range(len(begin) - 1):
        a, b, c, d = begin[i], end[i], begin[i + 1 :], end[i + 1 :]
        near = (np.maximum(c, d) >= np.minimum(a, b)).all(1) & (
            np.minimum(c, d) <= np.maximum(a, b)
        ).all(1)
        neighbor = (c == b).all(1) | (d == a).all(1)
        others = np.flatnonzero(near & ~neighbor)
        if not len(others):
            continue
        c, d = c[others], d[others]
        apart = (side(a, b, c) * side(a, b, d) > 0) | (side(c, d, a) * side(c, d, b) > 0)
        if not apart.all():
            j = i + 1 + int(others[np.argmin(apart)])
            raise InputError(
                f"Polygon: its edges must not cross or touch, but that from {begin[i].tolist()} to "
                f"{end[i].tolist()} meets that from {begin[j].tolist()} to {end[j].tolist()}. "
                "Check the order of the vertices."
            )
