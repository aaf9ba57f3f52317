"""Points whose distances follow a size that differs from place to place."""

import heapq
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from kernelpde.geometry._region import Patch

_CANDIDATES = 4
"""Factor by which more points are drawn than wanted; those too close to others are left out."""

_MOST = 200_000
"""Pieces at most: what is finer than that is left as it is."""


def load_of(patch: "Patch") -> float:
    """About ∫ H⁻ᵖ over a patch: how many points it takes, compared to others."""
    low, width, loads = _pieces(patch)
    if patch.keeps is None:
        return float(loads.sum())
    kept = patch.keeps(patch.chart(low + width / 2).points)
    return float(loads[kept].sum())


def graded_parameters(
    patch: "Patch", count: int, rng: np.random.Generator
) -> Float[np.ndarray, "n p"]:
    """Parameters of points that are as far apart as the sizes say, up to a common factor."""
    assert patch.sizes is not None
    low, width, loads = _pieces(patch)
    shares = np.cumsum(loads) / loads.sum()
    wanted = found = _CANDIDATES * count
    while True:
        # Evenly along a curve through all pieces, and anywhere within each.
        piece = np.searchsorted(shares, (np.arange(wanted) + rng.random()) / wanted)
        piece = np.minimum(piece, len(shares) - 1)
        unit = low[piece] + width[piece] * rng.random((wanted, patch.parameters))
        points = patch.chart(unit).points
        if patch.keeps is not None:
            kept = patch.keeps(points)
            unit, points = unit[kept], points[kept]
        if len(unit) >= found // 2 or wanted > 100 * found:
            break
        wanted *= 2
    return unit[_apart(patch.sizes.scaled(points), patch.sizes.at(points), count)]


def _pieces(patch: "Patch") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes of parameters, none much wider than the size there, in order; and their loads."""
    sizes, p = patch.sizes, patch.parameters
    assert sizes is not None
    done: list[tuple[np.ndarray, ...]] = []
    low, width = np.zeros((1, p)), np.ones((1, p))
    total, part = 0, 0.25
    while len(low):
        middle = low + width / 2
        sides = [low + width * (0.5 + 0.5 * side) for side in _sides(p)]
        center = patch.chart(middle).points
        # By way of the middle: a closed curve ends where it begins.
        ways = [
            np.linalg.norm(sizes.scaled(patch.chart(side).points) - sizes.scaled(center), axis=1)
            for side in sides
        ]
        spans = np.stack([ways[2 * i] + ways[2 * i + 1] for i in range(p)], axis=1)
        there = sizes.at(center)
        fine = spans.max(axis=1) <= part * there
        if total + len(low) > _MOST:
            fine[:] = True
        done.append((low[fine], width[fine], np.prod(spans[fine], axis=1) * there[fine] ** -p))
        total += int(fine.sum())
        low, width, spans = low[~fine], width[~fine], spans[~fine]
        row, axis = np.arange(len(low)), spans.argmax(axis=1)
        width[row, axis] /= 2
        upper = low.copy()
        upper[row, axis] += width[row, axis]
        low, width = np.concatenate([low, upper]), np.concatenate([width, width])
    lows, widths, loads = (np.concatenate(each) for each in zip(*done, strict=True))
    order = np.argsort(along_curve(lows))
    return lows[order], widths[order], loads[order]


def _sides(p: int) -> Float[np.ndarray, "_ p"]:
    """The middles of the sides of the cube from -1 to 1."""
    return np.stack([sign * np.eye(p)[axis] for axis in range(p) for sign in (-1.0, 1.0)])


def along_curve(places: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Where places of the unit cube come on a curve that fills it (Morton's)."""
    depth = 52 // places.shape[1]
    digits = (places * 2.0**depth).astype(np.int64)
    along = np.zeros(len(places), dtype=np.int64)
    for bit in reversed(range(depth)):
        for axis in range(places.shape[1]):
            along = 2 * along + ((digits[:, axis] >> bit) & 1)
    return along.astype(float)


def _apart(
    places: Float[np.ndarray, "n d"], sizes: Float[np.ndarray, " n"], count: int
) -> Int[np.ndarray, " m"]:
    """Which places to keep so that none are close together, for their sizes.

    The one with the most others close by goes first (Yuksel, Computer Graphics Forum 34, 2015).
    """
    from scipy.spatial import KDTree

    total = len(places)
    if total <= count:
        return np.arange(total)
    near = min(total, 4 * _CANDIDATES)
    distances, others = map(np.asarray, KDTree(places).query(places, k=near))
    # About how far apart the rest will be.
    reach = 2.0 * np.median(distances[:, min(near - 1, total // count)] / sizes)
    gaps = distances[:, 1:] / (0.5 * reach * (sizes[:, None] + sizes[others[:, 1:]]))
    pushes = np.maximum(1.0 - gaps, 0.0) ** 8
    crowd, neighbors, amounts = pushes.sum(axis=1).tolist(), others[:, 1:].tolist(), pushes.tolist()
    heap = [(-amount, place) for place, amount in enumerate(crowd)]
    heapq.heapify(heap)
    kept, left = [True] * total, total
    while left > count:
        amount, place = heapq.heappop(heap)
        if not kept[place] or -amount != crowd[place]:
            continue
        kept[place] = False
        left -= 1
        for other, push in zip(neighbors[place], amounts[place], strict=True):
            if push > 0 and kept[other]:
                crowd[other] -= push
                heapq.heappush(heap, (-crowd[other], other))
    return np.flatnonzero(kept)
