"""Domains from meshes: triangles in the plane, tetrahedra or closed surfaces in space."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from kernelpde.arrays import Numbers
from kernelpde.checking import (
    check_finite,
    check_name,
    check_real,
    format_names,
    require,
    requires_extra,
    to_float_array,
)
from kernelpde.errors import FileError, InputError
from kernelpde.geometry._curved import corner_normals
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._facets import Facets, facet_normals, loops
from kernelpde.geometry._polygon import FacetedDomain
from kernelpde.geometry._region import PatchUnion
from kernelpde.geometry._sampling import Points
from kernelpde.geometry._space import make_space
from kernelpde.geometry._tolerances import ROUNDING_TOLERANCE

if TYPE_CHECKING:
    import meshio


class Mesh(FacetedDomain):
    """The domain of a mesh: `Mesh(points, triangles)`, or from a file `kp.read_mesh("part.msh")`.

    Only its shape matters: conditions hold at points drawn from it, not at its vertices. Sides with
    a small angle between them are treated as curved: points and normals are taken from a smooth
    curve or surface through the vertices.

    **Arguments:**

    - `points`: vertices, of shape (n, 2) or (n, 3).
    - `cells`: vertex indices of each cell: three of a triangle in the plane, four of a tetrahedron
      in space, or three of a triangle on a closed surface in space.
    - `groups`: names of boundary pieces, with the vertex indices of their segments or triangles.
      The remaining sides form the piece `"surface"`.
    - `subdomains`: names of subdomains, with the indices of their cells; see `subdomain`.
    - `coordinates`: coordinate names; x, y, z by default.
    - `feature_angle`: angle in degrees above which two sides form an edge or a corner. A circle of
      thirteen sides is smooth, an octagon has corners. With 0 all sides are flat. Volumes always
      refer to the flat sides.

    **Example:**

    ```python
    >>> triangle = kp.Mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]])
    >>> triangle.volume, list(triangle.boundary_patches)
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
        angle = check_real("Mesh", "feature_angle", feature_angle, at_least=0.0, at_most=90)
        self._feature_angle = angle
        self._points, self._cells, vertex_indices = _check_mesh(points, cells)
        dimension = self._points.shape[1]
        self.space = make_space("Mesh", coordinates, dimension)
        _check_degenerate(self._points, self._cells)
        if self._cells.shape[1] == dimension + 1:
            vertices = _boundary_facets(self._points, self._cells)
        else:
            vertices = _check_closed(self._cells)
        corners = self._points[vertices]
        normals = facet_normals(corners)
        if Facets(corners, normals).enclosed_measure < 0:
            normals = -normals
        at_corners = corner_normals(vertices, corners, normals, angle) if angle > 0 else None
        self._facets = Facets(corners, normals, at_corners)
        groups = groups or {}
        self._groups = {name: vertex_indices[np.asarray(sides)] for name, sides in groups.items()}
        self._subdomains = {name: np.asarray(rows) for name, rows in (subdomains or {}).items()}
        self._pieces = _boundary_pieces(self._facets, vertices, self._groups)

    @property
    def subdomains(self) -> tuple[str, ...]:
        """Names of the subdomains."""
        return tuple(self._subdomains)

    def subdomain(self, name: str) -> "Mesh":
        """Return a subdomain as a separate domain."""
        check_name("Mesh", "subdomain", name, self._subdomains)
        return Mesh(
            self._points,
            self._cells[self._subdomains[name]],
            self._groups,
            coordinates=self.space.coordinates,
            feature_angle=self._feature_angle,
        )

    def interface(self, neighbor: AbstractDomain) -> PatchUnion:
        if not isinstance(neighbor, Mesh):
            return super().interface(neighbor)
        # Common sides are compared by their vertices, since each domain curves them differently.
        neighbor_sides = {_facet_key(corners) for corners in neighbor._facets.corners}
        shared = np.array([_facet_key(c) in neighbor_sides for c in self._facets.corners])
        if not shared.any():
            return super().interface(neighbor)
        patch = self._make_patch("interface", self._facets.select(shared))
        return PatchUnion("interface", self.space, (patch,))

    def __repr__(self) -> str:
        kind = {3: "triangles", 4: "tetrahedra"}[self._cells.shape[1]]
        return f"Mesh({len(self._cells)} {kind}, pieces {format_names(self._pieces)})"


def _facet_key(corners: np.ndarray) -> frozenset[tuple[float, ...]]:
    return frozenset(map(tuple, corners.tolist()))


def _check_mesh(
    points: Numbers, cells: Numbers
) -> tuple[Points, Int[np.ndarray, "m c"], Int[np.ndarray, " v"]]:
    """Return distinct points, cells, and for each input vertex the index of its point."""
    vertices, indices = to_float_array("Mesh", "points", points), np.asarray(cells)
    is_valid = vertices.ndim == 2 and vertices.shape[1] in (2, 3)
    require(is_valid, "Mesh", "points", "of shape (n, 2) or (n, 3)", vertices.shape)
    check_finite("Mesh", "points", vertices)
    is_valid = indices.ndim == 2 and indices.shape[1] in (3, vertices.shape[1] + 1)
    is_valid = is_valid and len(indices) > 0 and np.issubdtype(indices.dtype, np.integer)
    expected = "vertex indices, three for each triangle or four for each tetrahedron"
    require(is_valid, "Mesh", "cells", expected, indices)
    limits = (int(indices.min()), int(indices.max()))
    is_valid = limits[0] >= 0 and limits[1] < len(vertices)
    require(is_valid, "Mesh", "cells", f"indices from 0 to {len(vertices) - 1}", limits)
    # Formats such as STL repeat a vertex for each of its triangles.
    distinct, inverse = np.unique(vertices, axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)[indices], inverse.reshape(-1)


def _check_degenerate(points: np.ndarray, cells: np.ndarray) -> None:
    corners = points[cells]
    sides = corners[:, 1:] - corners[:, :1]
    edges = corners[:, :, None] - corners[:, None]
    longest = np.linalg.norm(edges, axis=-1).max(axis=(1, 2))
    measure = np.sqrt(np.maximum(np.linalg.det(sides @ sides.transpose(0, 2, 1)), 0))
    degenerate = np.flatnonzero(measure <= ROUNDING_TOLERANCE * longest ** sides.shape[1])
    if len(degenerate):
        first = degenerate[0]
        raise InputError(
            f"Mesh: {len(degenerate)} of {len(cells)} cells are degenerate, the first is cell "
            f"{first} at {corners[first].tolist()}. Clean the mesh, for example merge vertices."
        )


def _boundary_facets(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the facets that belong to one cell only, oriented with outward normals."""
    count = cells.shape[1]
    facets = np.concatenate([np.delete(cells, i, axis=1) for i in range(count)])
    opposite = np.concatenate([cells[:, i] for i in range(count)])
    _, first, num_cells = np.unique(
        np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True
    )
    if (num_cells > 2).any():
        row = int(np.argmax(num_cells))
        raise InputError(
            "Mesh: a side can belong to at most two cells, but the side with the vertices "
            f"{points[facets[first[row]]].tolist()} belongs to {num_cells[row]}. Remove "
            "overlapping cells."
        )
    single = np.sort(first[num_cells == 1])
    facets, opposite = facets[single], opposite[single]
    corners = points[facets]
    inward = np.sum(facet_normals(corners) * (points[opposite] - corners[:, 0]), axis=1) > 0
    facets[inward, :2] = facets[inward, 1::-1]
    if count == 3:
        facets = facets[np.concatenate(list(loops(facets)))]
    return facets


def _check_closed(triangles: np.ndarray) -> np.ndarray:
    """Return the triangles of a surface if it is closed and consistently oriented."""
    edges = np.concatenate([triangles[:, [i, (i + 1) % 3]] for i in range(3)])
    _, edge_index, num_triangles = np.unique(
        np.sort(edges, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    num_open, num_excess = int((num_triangles == 1).sum()), int((num_triangles > 2).sum())
    if num_open:
        raise InputError(
            f"Mesh: the surface is not closed: {num_open} edges belong to one triangle only, so "
            "that there is no inside. Fill its holes, or pass tetrahedra."
        )
    if num_excess:
        raise InputError(
            f"Mesh: {num_excess} edges belong to more than two triangles, so that inside and "
            "outside are undefined. Remove duplicate triangles and triangles that touch another "
            "part of the surface along an edge."
        )
    orientation = np.where(edges[:, 0] < edges[:, 1], 1, -1)
    imbalance = np.bincount(edge_index.reshape(-1), weights=orientation)
    inconsistent = np.flatnonzero(imbalance[edge_index.reshape(-1)] != 0)
    if len(inconsistent):
        raise InputError(
            "Mesh: triangles are oriented inconsistently, among them triangle "
            f"{inconsistent[0] % len(triangles)} and a neighbor, so that normals would point in "
            "and out. Reverse the order of their vertices."
        )
    return triangles


def _boundary_pieces(
    facets: Facets, vertices: np.ndarray, groups: Mapping[str, np.ndarray]
) -> dict[str, Facets]:
    """Return the facets of each group by name, and the remaining ones.

    Groups without any boundary facet lie inside the domain and are left out.
    """
    index = {tuple(sorted(facet)): row for row, facet in enumerate(vertices.tolist())}
    is_remaining = np.ones(len(vertices), dtype=bool)
    pieces: dict[str, Facets] = {}
    for name, group in groups.items():
        keys = {tuple(sorted(facet)) for facet in np.asarray(group).tolist()}
        rows = np.array(sorted(index[key] for key in keys & index.keys()), dtype=int)
        if len(rows):
            pieces[name] = facets.select(rows)
            is_remaining[rows] = False
    if is_remaining.any():
        pieces["surface" if "surface" not in pieces else "other"] = facets.select(is_remaining)
    if vertices.shape[1] == 3:
        pieces = {name: piece.sorted_by_curve() for name, piece in pieces.items()}
    return pieces


_CELL_TYPES = ("vertex", "line", "line3", "triangle", "triangle6", "tetra", "tetra10")
"""Supported cell types of `meshio`; the corners are the first nodes of a cell."""


def read_mesh(
    path: str | Path, coordinates: tuple[str, ...] | None = None, feature_angle: float = 30.0
) -> Mesh:
    """Read a domain from a mesh file: `.msh`, `.vtu`, `.stl`, `.obj` or another `meshio` format.

    Physical groups of Gmsh become boundary pieces and subdomains of the same names.

    **Arguments:**

    - `path`: path of the file.
    - `coordinates`: coordinate names; x, y, z by default.
    - `feature_angle`: angle in degrees below which two sides form a curved boundary, see `Mesh`.

    **Example:**

    ```python
    >>> import meshio
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> meshio.write_points_cells("square.vtu", corners, [("triangle", [[0, 1, 2], [0, 2, 3]])])
    >>> kp.read_mesh("square.vtu").volume
    1.0
    ```
    """
    mesh = _read_meshio(path)
    points = np.asarray(mesh.points, dtype=float)
    if points.shape[1] == 3 and np.ptp(points[:, 2]) == 0.0:
        points = points[:, :2]
    for cell_block in mesh.cells:
        if cell_block.type not in _CELL_TYPES:
            raise FileError(
                f"read_mesh: {str(path)!r} has cells of type {cell_block.type!r}; expected "
                "triangles, tetrahedra and their sides. Export a mesh of simplices."
            )
    top = max((cell_block.dim for cell_block in mesh.cells), default=0)
    if top < 2:
        raise FileError(f"read_mesh: {str(path)!r} has no triangles or tetrahedra.")
    cells, cell_tags = _cells_with_tags(mesh, top)
    groups, subdomains = {}, {}
    # A surface in space has no boundary and encloses a single domain.
    if top == points.shape[1]:
        sides, side_tags = _cells_with_tags(mesh, top - 1)
        names = _group_names(mesh, top - 1, side_tags)
        groups = {name: sides[side_tags == tag] for tag, name in names.items()}
        names = _group_names(mesh, top, cell_tags)
        subdomains = {name: np.flatnonzero(cell_tags == tag) for tag, name in names.items()}
    return Mesh(points, cells, groups, subdomains, coordinates, feature_angle)


def _read_meshio(path: str | Path) -> "meshio.Mesh":
    with requires_extra("read_mesh", "mesh"):
        import meshio
    if not Path(path).is_file():
        raise FileError(f"read_mesh: there is no file {str(path)!r}.")
    try:
        # The detection of binary STL files overflows on text files and warns about it.
        with warnings.catch_warnings(action="ignore"):
            return meshio.read(path)
    except (SystemExit, Exception) as error:  # some of its readers end the program
        raise FileError(f"read_mesh: {str(path)!r} cannot be read as a mesh: {error}") from error


def _cells_with_tags(mesh: "meshio.Mesh", dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of all cells of a dimension, and their physical tags (0 if untagged)."""
    untagged = [np.zeros(len(cell_block.data), int) for cell_block in mesh.cells]
    tags_by_block = mesh.cell_data.get("gmsh:physical", untagged)
    cells, tags = [np.zeros((0, dimension + 1), int)], [np.zeros(0, int)]
    for i, cell_block in enumerate(mesh.cells):
        if cell_block.dim == dimension:
            cells.append(cell_block.data[:, : dimension + 1])
            tags.append(np.asarray(tags_by_block[i]))
    return np.concatenate(cells), np.concatenate(tags)


def _group_names(mesh: "meshio.Mesh", dimension: int, tags: np.ndarray) -> dict[int, str]:
    """Return the name of each physical group of a dimension by its tag."""
    names = {int(tag): name for name, (tag, d) in mesh.field_data.items() if d == dimension}
    return {int(tag): names.get(int(tag), f"group {tag}") for tag in np.unique(tags) if tag}
