"""Domains from meshes: triangles in the plane, tetrahedra or closed surfaces in space."""

import warnings
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kernelpde.arrays import Numbers
from kernelpde.checking import did_you_mean, listed, numbers, real_number
from kernelpde.errors import FileError, InputError
from kernelpde.geometry._curved import corner_normals
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._facets import Facets, loops, normals_of
from kernelpde.geometry._polygon import Faceted
from kernelpde.geometry._region import Patches, Space

_FLAT = 1e-12
"""Cells and facets whose volume is below this part of that of their longest edge have none."""


class Mesh(Faceted):
    """The domain of a mesh: `Mesh(points, triangles)`, or from a file `kp.read_mesh("part.msh")`.

    Only its shape matters: conditions hold at points drawn from it, not at its vertices. Where
    sides meet at a small angle the boundary is treated as curved, and points and normals are those
    of a smooth curve or surface through the vertices.

    **Arguments:**

    - `points`: of shape (n, 2) or (n, 3).
    - `cells`: for each cell the numbers of its vertices: three of a triangle in the plane, four of
      a tetrahedron in space, or three of a triangle on a closed surface in space.
    - `groups`: names of boundary pieces, and for each the vertices of its segments or triangles.
      What belongs to none is the piece `"surface"`.
    - `subdomains`: names of parts, and for each the numbers of its cells; see `subdomain`.
    - `coordinates`: their names; x, y, z by default.
    - `feature_angle`: in degrees; sides that meet at more are an edge or a corner. A circle of
      thirteen sides is smooth, an octagon has corners. 0 leaves all sides straight. Volumes are
      those of the flat sides.

    **Example:**

    ```python
    >>> triangle = kp.Mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]])
    >>> triangle.volume, list(triangle.pieces)
    (0.5, ['surface'])
    ```
    """

    def __init__(
        self,
        points: Numbers,
        cells: Numbers,
        groups: Mapping[str, Numbers] | None = None,
        subdomains: Mapping[str, Numbers] | None = None,
        coordinates: tuple[str, ...] | None = None,
        feature_angle: float = 30.0,
    ):
        self._feature_angle = real_number(
            "Mesh", "feature_angle", feature_angle, at_least=0.0, at_most=90.0
        )
        self._points, self._cells, same = _checked(points, cells)
        dimension = self._points.shape[1]
        names = ("x", "y", "z")[:dimension] if coordinates is None else tuple(coordinates)
        if len(names) != dimension or len(set(names)) != dimension:
            raise InputError(
                f"Mesh: expected {dimension} different coordinate names; got {listed(names)}."
            )
        self.space = Space(names)
        _check_flat(self._points, self._cells)
        solid = self._cells.shape[1] == dimension + 1
        facets = _boundary(self._points, self._cells) if solid else _closed(self._cells)
        corners = self._points[facets]
        normals = normals_of(corners)
        enclosing = Facets(corners, normals)
        if not solid and enclosing.enclosed < 0:
            enclosing = Facets(corners, -normals)
        if self._feature_angle > 0:
            bent = corner_normals(facets, corners, enclosing.normals, self._feature_angle)
            enclosing = Facets(corners, enclosing.normals, bent)
        self._facets = enclosing
        self._vertices = facets
        self._groups = {name: same[np.asarray(group)] for name, group in (groups or {}).items()}
        self._subdomains = {name: np.asarray(rows) for name, rows in (subdomains or {}).items()}
        self._named = _pieces(enclosing, facets, self._groups)

    @property
    def subdomains(self) -> tuple[str, ...]:
        """Names of the parts that the mesh distinguishes."""
        return tuple(self._subdomains)

    def subdomain(self, name: str) -> "Mesh":
        """One of its parts, as a domain of its own."""
        if name not in self._subdomains:
            raise InputError(
                f"Mesh: there is no subdomain {name!r}; it has {listed(self._subdomains)}."
                f"{did_you_mean(name, self._subdomains)}"
            )
        cells = self._cells[self._subdomains[name]]
        return Mesh(
            self._points,
            cells,
            self._groups,
            coordinates=self.space.coordinates,
            feature_angle=self._feature_angle,
        )

    def interface(self, other: AbstractDomain) -> Patches:
        if not isinstance(other, Mesh):
            return super().interface(other)
        # Of two parts of a mesh the sides that they share, whatever they are bent to.
        theirs = {_unordered(corners) for corners in other._facets.corners}
        shared = np.array([_unordered(corners) in theirs for corners in self._facets.corners])
        if not shared.any():
            return super().interface(other)
        return Patches(
            "interface", self.space, (self._piece("interface", self._facets.only(shared)),)
        )

    def __repr__(self) -> str:
        kind = {3: "triangles", 4: "tetrahedra"}[self._cells.shape[1]]
        return f"Mesh({len(self._cells)} {kind}, pieces {listed(self._named)})"


def _unordered(corners: np.ndarray) -> frozenset[tuple[float, ...]]:
    return frozenset(map(tuple, corners.tolist()))


def _checked(
    points: Any, cells: Any
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "m c"], Int[np.ndarray, " v"]]:
    """Points without repetition, cells, and for each vertex as given the number of its point."""
    places, corners = numbers("Mesh", "points", points), np.asarray(cells)
    if places.ndim != 2 or places.shape[1] not in (2, 3) or not np.isfinite(places).all():
        raise InputError(
            f"Mesh: points must be finite, of shape (n, 2) or (n, 3); got shape {places.shape}."
        )
    if (
        corners.ndim != 2
        or corners.shape[1] not in (3, places.shape[1] + 1)
        or not len(corners)
        or not np.issubdtype(corners.dtype, np.integer)
    ):
        raise InputError(
            "Mesh: cells must be whole numbers, three vertices for each triangle or four for each "
            f"tetrahedron; got shape {corners.shape} of {corners.dtype}."
        )
    if corners.min() < 0 or corners.max() >= len(places):
        raise InputError(
            f"Mesh: cells must name vertices from 0 to {len(places) - 1}; got "
            f"{corners.min()} to {corners.max()}."
        )
    # Formats such as STL repeat a vertex for each of its triangles.
    places, same = np.unique(places, axis=0, return_inverse=True)
    return places, same.reshape(-1)[corners], same.reshape(-1)


def _check_flat(points: np.ndarray, cells: np.ndarray) -> None:
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    edges = [
        points[cells[:, i]] - points[cells[:, j]] for i, j in combinations(range(cells.shape[1]), 2)
    ]
    longest = np.max([np.linalg.norm(edge, axis=1) for edge in edges], axis=0)
    square = np.linalg.det(sides @ sides.transpose(0, 2, 1))
    flat = np.flatnonzero(np.sqrt(np.maximum(square, 0)) <= _FLAT * longest ** sides.shape[1])
    if len(flat):
        raise InputError(
            f"Mesh: {len(flat)} of {len(cells)} cells are degenerate, the first is cell {flat[0]} "
            f"at {points[cells[flat[0]]].tolist()}. Clean the mesh, for example merge vertices."
        )


def _boundary(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Facets of a single cell, turned so that their normals point out of it."""
    count = cells.shape[1]
    rest = [[j for j in range(count) if j != i] for i in range(count)]
    facets = np.concatenate([cells[:, each] for each in rest])
    opposite = np.concatenate([cells[:, i] for i in range(count)])
    _, first, number = np.unique(
        np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True
    )
    if (number > 2).any():
        row = int(np.argmax(number))
        raise InputError(
            f"Mesh: no side may belong to more than two cells, but that with the vertices "
            f"{points[facets[first[row]]].tolist()} belongs to {number[row]}. Cells overlap."
        )
    alone = np.sort(first[number == 1])
    facets, opposite = facets[alone], opposite[alone]
    corners = points[facets]
    inwards = np.sum(normals_of(corners) * (points[opposite] - corners[:, 0]), axis=1) > 0
    facets[inwards] = facets[inwards][:, [1, 0, *range(2, count - 1)]]
    if count == 3:
        facets = facets[np.concatenate(list(loops(facets)))]
    return facets


def _closed(triangles: np.ndarray) -> np.ndarray:
    """The triangles of a surface, if it is closed and all are turned the same way."""
    edges = np.concatenate([triangles[:, [i, (i + 1) % 3]] for i in range(3)])
    _, place, number = np.unique(
        np.sort(edges, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    open_ = np.flatnonzero(number == 1)
    if len(open_):
        raise InputError(
            f"Mesh: the surface is not closed: {len(open_)} edges belong to one triangle only, so "
            "that there is no inside. Fill its holes, or give tetrahedra."
        )
    if (number > 2).any():
        raise InputError(
            f"Mesh: {int((number > 2).sum())} edges belong to more than two triangles, so that "
            "inside and outside cannot be told. Remove triangles that are there twice or meet "
            "others along an edge."
        )
    up = np.bincount(place.reshape(-1), weights=np.where(edges[:, 0] < edges[:, 1], 1, -1))
    turned = np.flatnonzero(up[place.reshape(-1)] != 0)
    if len(turned):
        raise InputError(
            f"Mesh: triangles are turned differently, among them triangle "
            f"{turned[0] % len(triangles)} and a neighbor, so that normals would point in and out. "
            "Reverse the order of their vertices."
        )
    return triangles


def _pieces(
    enclosing: Facets, vertices: np.ndarray, groups: Mapping[str, np.ndarray]
) -> dict[str, Facets]:
    """The facets of each group by the names, and the rest; groups without any are inside."""
    number = {tuple(sorted(facet)): row for row, facet in enumerate(vertices.tolist())}
    left = np.ones(len(vertices), dtype=bool)
    found: dict[str, Facets] = {}
    for name, group in groups.items():
        rows = [number.get(tuple(sorted(facet))) for facet in np.asarray(group).tolist()]
        kept = np.unique([row for row in rows if row is not None]).astype(int)
        if len(kept):
            found[name] = enclosing.only(kept)
            left[kept] = False
    if left.any():
        found["surface" if "surface" not in found else "other"] = enclosing.only(left)
    if vertices.shape[1] == 3:
        found = {name: facets.ordered() for name, facets in found.items()}
    return found


def read_mesh(
    path: str | Path,
    coordinates: tuple[str, ...] | None = None,
    feature_angle: float = 30.0,
) -> Mesh:
    """A domain from a mesh file: `.msh`, `.vtu`, `.stl`, `.obj` and what else `meshio` reads.

    Physical groups of Gmsh become boundary pieces and subdomains of the same names.

    **Arguments:**

    - `path`: of the file.
    - `coordinates`: names of coordinates; x, y, z by default.
    - `feature_angle`: in degrees; sides that meet at less belong to a curved boundary, see `Mesh`.

    **Example:**

    ```python
    >>> import meshio
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> meshio.write_points_cells("square.vtu", corners, [("triangle", [[0, 1, 2], [0, 2, 3]])])
    >>> kp.read_mesh("square.vtu").volume
    1.0
    ```
    """
    try:
        import meshio
    except ImportError as error:
        raise InputError("read_mesh needs an extra: pip install 'kernelpde[mesh]'.") from error
    if not Path(path).is_file():
        raise FileError(f"read_mesh: there is no file {str(path)!r}.")
    try:
        # To tell text from binary STL it multiplies what may be letters.
        with warnings.catch_warnings(action="ignore"):
            found = meshio.read(path)
    except (SystemExit, Exception) as error:  # some of its readers end the program
        raise FileError(f"read_mesh: {str(path)!r} cannot be read as a mesh: {error}") from error
    points = np.asarray(found.points, dtype=float)
    if points.shape[1] == 3 and np.ptp(points[:, 2]) == 0.0:
        points = points[:, :2]
    tags = found.cell_data.get("gmsh:physical")
    names = {(int(t), int(d)): name for name, (t, d) in found.field_data.items()}
    by_dimension: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {1: [], 2: [], 3: []}
    for i, block in enumerate(found.cells):
        kind = _KINDS.get(block.type)
        if kind is None and block.type != "vertex":
            raise FileError(
                f"read_mesh: {str(path)!r} has cells of type {block.type!r}; expected triangles, "
                "tetrahedra and their sides. Export a mesh of simplices."
            )
        if kind is not None:
            tag = np.zeros(len(block.data), int) if tags is None else np.asarray(tags[i])
            by_dimension[kind].append((np.asarray(block.data)[:, : kind + 1], tag))
    top = max((d for d, blocks in by_dimension.items() if blocks), default=0)
    if top < 2:
        raise FileError(f"read_mesh: {str(path)!r} has no triangles or tetrahedra.")
    cells, cell_tags = _joined(by_dimension[top])
    sides, side_tags = _joined(by_dimension[top - 1]) if top == points.shape[1] else ((), ())

    def named(tag: int, dimension: int) -> str:
        return names.get((tag, dimension), f"group {tag}")

    groups = {
        named(int(tag), top - 1): sides[side_tags == tag] for tag in np.unique(side_tags) if tag
    }
    parts = {
        named(int(tag), top): np.flatnonzero(cell_tags == tag)
        for tag in np.unique(cell_tags)
        if tag and top == points.shape[1]
    }
    return Mesh(points, cells, groups, parts, coordinates, feature_angle)


_KINDS = {
    "line": 1,
    "line3": 1,
    "triangle": 2,
    "triangle6": 2,
    "tetra": 3,
    "tetra10": 3,
}
"""Dimensions of cells; those with nodes on their edges begin with their corners."""


def _joined(blocks: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not blocks:
        return np.zeros((0, 1), int), np.zeros(0, int)
    return np.concatenate([cells for cells, _ in blocks]), np.concatenate([t for _, t in blocks])
