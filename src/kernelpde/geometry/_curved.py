"""Curved facets from the flat facets of a mesh.

The mesh of a curved boundary has flat facets, whose normals jump between neighbors. Neighbors with
a small angle between them are therefore treated as parts of a smooth boundary, with normals at the
vertices and cubic interpolation.
"""

import numpy as np
from jaxtyping import Float, Int

from kernelpde.geometry._sampling import Points, RegionSample

_STRAIGHT_RATIO = 3.0
"""Length ratio of neighboring sides from which the longer one counts as straight, with the next one
tangent to it. Meshes of curves rarely change their size so abruptly."""


def corner_normals(
    vertices: Int[np.ndarray, "m d"],
    corners: Float[np.ndarray, "m d d"],
    normals: Float[np.ndarray, "m d"],
    angle: float,
) -> Float[np.ndarray, "m d d"]:
    """Return normals at the corners of facets, averaged over neighbors at a small angle.

    The average is exact for points of a circle or sphere (Max, Journal of Graphics Tools 4, 1999).
    In the plane it is the normal of the parabola through three points.

    **Arguments:**

    - `vertices`: vertex indices of each facet.
    - `angle`: maximum angle in degrees between the normals of facets that are averaged.
    """
    count, dimension = vertices.shape
    sizes, weights = _corner_weights(corners)
    weighted = (weights[:, :, None] * normals[:, None]).reshape(-1, dimension)
    facet, vertex = np.repeat(np.arange(count), dimension), vertices.reshape(-1)
    order = np.argsort(vertex, kind="stable")
    starts = np.searchsorted(vertex[order], np.arange(vertex.max() + 2))
    averages = np.empty_like(weighted)
    is_single, is_straight = np.zeros((2, count * dimension), dtype=bool)
    min_cosine = np.cos(np.deg2rad(angle))
    for incident in np.split(order, starts[1:-1]):
        if not len(incident):
            continue
        facet_normals, facet_sizes = normals[facet[incident]], sizes[facet[incident]]
        is_smooth = facet_normals @ facet_normals.T > min_cosine
        np.fill_diagonal(is_smooth, True)
        averages[incident] = is_smooth @ weighted[incident]
        is_single[incident] = is_smooth.sum(axis=1) == 1
        is_abrupt = facet_sizes.max() > _STRAIGHT_RATIO * facet_sizes.min()
        if dimension == 2 and is_smooth.all() and is_abrupt:
            averages[incident] = facet_normals[np.argmax(facet_sizes)]
            is_straight[incident] = True
    averages /= np.linalg.norm(averages, axis=1, keepdims=True)
    averages = averages.reshape(count, dimension, dimension)
    if dimension == 2:
        # The last arc of a curve that ends at a corner is symmetric.
        is_joined = ~(is_single | is_straight).reshape(count, 2)
        for end in (0, 1):
            last = is_single.reshape(count, 2)[:, end] & is_joined[:, 1 - end]
            opposite, normal = averages[last, 1 - end], normals[last]
            projection = np.sum(opposite * normal, axis=1, keepdims=True)
            averages[last, end] = 2 * projection * normal - opposite
    return averages


def _corner_weights(
    corners: Float[np.ndarray, "m d d"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Return the size of each facet, and its weight at each corner.

    The weight is the size over the squared lengths of the edges at the corner.
    """
    dimension = corners.shape[1]
    edges = [
        [corners[:, j] - corners[:, i] for j in range(dimension) if j != i]
        for i in range(dimension)
    ]
    products = [np.prod([np.linalg.norm(edge, axis=1) for edge in pair], axis=0) for pair in edges]
    sizes = products[0]
    if dimension == 3:
        sizes = np.linalg.norm(np.cross(edges[0][0], edges[0][1]), axis=1)
    return sizes, np.stack([sizes / product**2 for product in products], axis=1)


def curved_points(
    corners: Float[np.ndarray, "n d d"],
    corner_normals: Float[np.ndarray, "n d d"],
    barycentric: Points,
) -> RegionSample:
    """Return points of curved facets from barycentric coordinates in the flat facets."""
    if corners.shape[1] == 2:
        points, normals = _hermite_segments(corners, corner_normals, barycentric[:, 1:])
    else:
        points, normals = _curved_triangles(corners, corner_normals, barycentric)
    return RegionSample(points, normals / np.linalg.norm(normals, axis=1, keepdims=True))


def _hermite_segments(
    corners: np.ndarray, corner_normals: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate cubic Hermite segments whose end tangents are orthogonal to the normals."""
    first, last = np.moveaxis(corners, 1, 0)
    length = np.linalg.norm(last - first, axis=1, keepdims=True)
    start, end = (
        length * np.stack([-normal[:, 1], normal[:, 0]], axis=1)
        for normal in np.moveaxis(corner_normals, 1, 0)
    )
    points = (
        (1 + 2 * s) * (1 - s) ** 2 * first
        + s * (1 - s) ** 2 * start
        + s**2 * (3 - 2 * s) * last
        + s**2 * (s - 1) * end
    )
    slope = 6 * s * (1 - s) * (last - first) + (1 - s) * (1 - 3 * s) * start + s * (3 * s - 2) * end
    return points, np.stack([slope[:, 1], -slope[:, 0]], axis=1)


def _curved_triangles(
    corners: np.ndarray, corner_normals: np.ndarray, barycentric: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate the point-normal triangles of Vlachos, Peters, Boyd and Mitchell (2001)."""
    p, n = np.moveaxis(corners, 1, 0), np.moveaxis(corner_normals, 1, 0)
    w = [barycentric[:, i : i + 1] for i in range(3)]
    points = w[0] ** 3 * p[0] + w[1] ** 3 * p[1] + w[2] ** 3 * p[2]
    normals = w[0] ** 2 * n[0] + w[1] ** 2 * n[1] + w[2] ** 2 * n[2]
    edge_points = []
    for i in range(3):
        for j in range(3):
            if i != j:
                lift = np.sum((p[j] - p[i]) * n[i], axis=1, keepdims=True) * n[i]
                edge_points.append((2 * p[i] + p[j] - lift) / 3)
                points = points + 3 * w[i] ** 2 * w[j] * edge_points[-1]
        j = (i + 1) % 3
        edge = p[j] - p[i]
        turn = 2 * np.sum(edge * (n[i] + n[j]), axis=1) / np.sum(edge * edge, axis=1)
        mid_normal = n[i] + n[j] - turn[:, None] * edge
        mid_normal /= np.linalg.norm(mid_normal, axis=1, keepdims=True)
        # This coefficient gives the quadratic the normal mid_normal at the middle of the edge.
        normals = normals + w[i] * w[j] * (4 * mid_normal - n[i] - n[j])
    center = np.sum(edge_points, axis=0) / 6
    center = center + (center - np.sum(p, axis=0) / 3) / 2
    return points + 6 * w[0] * w[1] * w[2] * center, normals
