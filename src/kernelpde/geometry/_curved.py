"""Curved boundaries from the flat facets of a mesh.

A mesh has a polygon where its maker had a curve. Conditions with normals see the difference: those
of facets jump from one to the next. Where facets meet at a small angle they are taken for parts of
something smooth, with normals at the vertices and a cubic in between.
"""

import numpy as np
from jaxtyping import Float, Int

from kernelpde.geometry._region import Sample

_STRAIGHT = 3.0
"""A side of a curve in the plane that is longer than the next one by this factor is straight, and
tangent to what follows: meshes of curves do not change their size so suddenly."""


def corner_normals(
    vertices: Int[np.ndarray, "m d"],
    corners: Float[np.ndarray, "m d d"],
    normals: Float[np.ndarray, "m d"],
    angle: float,
) -> Float[np.ndarray, "m d d"]:
    """Normals at the corners of facets, one for all that meet there at less than an angle.

    Exact for points of a circle or a sphere: weights are those of Max, Journal of Graphics Tools 4
    (1999), and in the plane of the parabola through three points.

    **Arguments:**

    - `vertices`: numbers of the corners of each facet.
    - `corners`, `normals`: of each facet.
    - `angle`: in degrees, between the normals of facets.
    """
    count, dimension = vertices.shape
    sides = [
        [corners[:, j] - corners[:, i] for j in range(dimension) if j != i]
        for i in range(dimension)
    ]
    # What a facet contributes at its corner i: its normal over the squares of the edges there,
    # times its size.
    lengths = [np.prod([np.linalg.norm(s, axis=1) for s in at], axis=0) for at in sides]
    size = (
        lengths[0] if dimension == 2 else np.linalg.norm(np.cross(sides[0][0], sides[0][1]), axis=1)
    )
    parts = np.stack([(size / length**2)[:, None] * normals for length in lengths], axis=1)
    facet, place = np.repeat(np.arange(count), dimension), vertices.reshape(-1)
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(place.max() + 2))
    found = np.empty_like(parts).reshape(count * dimension, dimension)
    alone, straight = np.zeros((2, count * dimension), dtype=bool)
    flat, least = parts.reshape(count * dimension, dimension), np.cos(np.deg2rad(angle))
    for vertex in range(len(begin) - 1):
        here = order[begin[vertex] : begin[vertex + 1]]
        if len(here):
            own = normals[facet[here]]
            near = own @ own.T > least
            np.fill_diagonal(near, True)
            found[here] = near @ flat[here]
            alone[here] = near.sum(axis=1) == 1
            sizes = size[facet[here]]
            if dimension == 2 and near.all() and sizes.max() > _STRAIGHT * sizes.min():
                found[here], straight[here] = own[np.argmax(sizes)], True
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    found = found.reshape(count, dimension, dimension)
    if dimension == 2:
        # Where a curve ends at a corner, its last arc is taken to be symmetric.
        alone, joined = alone.reshape(count, 2), ~(alone | straight).reshape(count, 2)
        for end in (0, 1):
            last = alone[:, end] & joined[:, 1 - end]
            other, own = found[last, 1 - end], normals[last]
            found[last, end] = 2 * np.sum(other * own, axis=1, keepdims=True) * own - other
    return found


def curved(
    corners: Float[np.ndarray, "n d d"],
    at_corners: Float[np.ndarray, "n d d"],
    shares: Float[np.ndarray, "n d"],
) -> Sample:
    """Points of curved facets.

    **Arguments:**

    - `corners`, `at_corners`: of the facet of each point, and the normals there.
    - `shares`: of the corners in the point of the flat facet, one in sum.
    """
    if corners.shape[1] == 2:
        return _segments(corners, at_corners, shares[:, 1:])
    return _triangles(corners, at_corners, shares)


def _segments(corners: np.ndarray, at_corners: np.ndarray, s: np.ndarray) -> Sample:
    """Cubics of Hermite with the tangents that belong to the normals."""
    (first, last), (one, two) = np.moveaxis(corners, 1, 0), np.moveaxis(at_corners, 1, 0)
    length = np.linalg.norm(last - first, axis=1, keepdims=True)
    start, end = (length * np.stack([-normal[:, 1], normal[:, 0]], axis=1) for normal in (one, two))
    points = (
        (1 + 2 * s) * (1 - s) ** 2 * first
        + s * (1 - s) ** 2 * start
        + s**2 * (3 - 2 * s) * last
        + s**2 * (s - 1) * end
    )
    slope = 6 * s * (1 - s) * (last - first) + (1 - s) * (1 - 3 * s) * start + s * (3 * s - 2) * end
    normals = np.stack([slope[:, 1], -slope[:, 0]], axis=1)
    return Sample(points, normals / np.linalg.norm(normals, axis=1, keepdims=True))


def _triangles(corners: np.ndarray, at_corners: np.ndarray, shares: np.ndarray) -> Sample:
    """The point-normal triangles of Vlachos, Peters, Boyd and Mitchell (2001)."""
    p, n = np.moveaxis(corners, 1, 0), np.moveaxis(at_corners, 1, 0)
    w = [shares[:, i : i + 1] for i in range(3)]
    points = w[0] ** 3 * p[0] + w[1] ** 3 * p[1] + w[2] ** 3 * p[2]
    normals = w[0] ** 2 * n[0] + w[1] ** 2 * n[1] + w[2] ** 2 * n[2]
    edges = []
    for i in range(3):
        for j in range(3):
            if i != j:
                lift = np.sum((p[j] - p[i]) * n[i], axis=1, keepdims=True) * n[i]
                edges.append((2 * p[i] + p[j] - lift) / 3)
                points = points + 3 * w[i] ** 2 * w[j] * edges[-1]
        j = (i + 1) % 3
        along = p[j] - p[i]
        turn = 2 * np.sum(along * (n[i] + n[j]), axis=1) / np.sum(along * along, axis=1)
        between = n[i] + n[j] - turn[:, None] * along
        between /= np.linalg.norm(between, axis=1, keepdims=True)
        # The quadratic has this normal in the middle of the edge.
        normals = normals + w[i] * w[j] * (4 * between - n[i] - n[j])
    middle = np.sum(edges, axis=0) / 6
    middle = middle + (middle - np.sum(p, axis=0) / 3) / 2
    points = points + 6 * w[0] * w[1] * w[2] * middle
    return Sample(points, normals / np.linalg.norm(normals, axis=1, keepdims=True))
