"""Point sets whose spacing follows a size field."""

import heapq
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.geometry._sampling import Chart, Points
from kernelpde.geometry._size_field import SizeField
from kernelpde.memory import CACHE_BYTES

OVERSAMPLING = 4
"""Number of candidates per point; sample elimination removes those that are too close."""

MAX_POINTS = CACHE_BYTES // (4 * FLOAT_BYTES)
"""Number of points per pass, and maximum number of cells: wider ones are not subdivided further."""


class ParameterCells(NamedTuple):
    """Boxes that partition the unit cube, with approximate integrals of H⁻ᵖ over their images."""

    low: Float[np.ndarray, "n p"]
    width: Float[np.ndarray, "n p"]
    densities: Float[np.ndarray, " n"]


def subdivide(chart: Chart, parameter_dim: int, size_field: SizeField) -> ParameterCells:
    """Divide the unit cube into boxes whose images are at most a quarter of the size field wide."""
    p = parameter_dim
    batches: list[np.ndarray] = []
    low, width = np.zeros((1, p)), np.ones((1, p))
    total = 0
    while len(low):
        center = chart(low + width / 2).points
        spans = np.zeros_like(low)
        # Widths are measured through the center, because a closed curve ends at its start.
        for axis, end in product(range(p), (0.0, 1.0)):
            face = np.where(np.arange(p) == axis, end, 0.5)
            offset = size_field.scaled(chart(low + width * face).points) - size_field.scaled(center)
            spans[:, axis] += np.linalg.norm(offset, axis=1)
        size = size_field.evaluate(center)
        fine = spans.max(axis=1) <= 0.25 * size
        if total + len(low) > MAX_POINTS:
            fine[:] = True
        densities = np.prod(spans[fine], axis=1) * size[fine] ** -p
        batches.append(np.column_stack([low[fine], width[fine], densities]))
        total += int(fine.sum())
        low, width, spans = low[~fine], width[~fine], spans[~fine]
        row, axis = np.arange(len(low)), spans.argmax(axis=1)
        width[row, axis] /= 2
        upper = low.copy()
        upper[row, axis] += width[row, axis]
        low, width = np.concatenate([low, upper]), np.concatenate([width, width])
    cells = np.concatenate(batches)
    cells = cells[np.argsort(morton_index(cells[:, :p]))]
    return ParameterCells(cells[:, :p], cells[:, p:-1], cells[:, -1])


def morton_index(points: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return the positions of points of the unit cube along Morton's space-filling curve."""
    depth = 52 // points.shape[1]
    digits = (points * 2.0**depth).astype(np.int64)
    index = np.zeros(len(points), dtype=np.int64)
    for bit in reversed(range(depth)):
        for axis in range(points.shape[1]):
            index = 2 * index + ((digits[:, axis] >> bit) & 1)
    return index.astype(float)


def thin(points: Points, sizes: Float[np.ndarray, " n"], count: int) -> Int[np.ndarray, " m"]:
    """Select `count` points that are well separated relative to their sizes.

    Weighted sample elimination: repeatedly remove the most crowded point (Yuksel, Computer Graphics
    Forum 34, 2015).
    """
    total = len(points)
    if total <= count:
        return np.arange(total)
    num_neighbors = min(total, 4 * OVERSAMPLING)
    from scipy.spatial import KDTree

    distances, indices = map(np.asarray, KDTree(points).query(points, k=num_neighbors))
    # An estimate of the spacing after elimination, relative to the sizes.
    reach = 2.0 * np.median(distances[:, min(num_neighbors - 1, total // count)] / sizes)
    gaps = distances[:, 1:] / (0.5 * reach * (sizes[:, None] + sizes[indices[:, 1:]]))
    weights = np.maximum(1.0 - gaps, 0.0) ** 8
    crowding = weights.sum(axis=1).tolist()
    neighbors, contributions = indices[:, 1:].tolist(), weights.tolist()
    heap = [(-value, i) for i, value in enumerate(crowding)]
    heapq.heapify(heap)
    remains, remaining = [True] * total, total
    while remaining > count:
        value, i = heapq.heappop(heap)
        if not remains[i] or -value != crowding[i]:
            continue
        remains[i] = False
        remaining -= 1
        for neighbor, contribution in zip(neighbors[i], contributions[i], strict=True):
            if contribution > 0 and remains[neighbor]:
                crowding[neighbor] -= contribution
                heapq.heappush(heap, (-crowding[neighbor], neighbor))
    return np.flatnonzero(remains)
