"""Coarse-to-fine orderings of points.

A maximin ordering appends the point that is farthest from all previous ones. Here the first level
is a maximin ordering, and the following ones are sets: for radii that decrease by a fixed factor, a
maximal set of points whose distances from each other and from all previous points exceed the
radius. The number of nearest-neighbor searches does not depend on the number of points.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from kernelpde.linear_solvers._trees import make_tree

_LAST_RADIUS = 0.7
"""Radius below which all remaining points form the last level, in units of the grid spacing."""


@dataclass(frozen=True)
class Level:
    """Consecutive points of an ordering.

    **Attributes:**

    - `members`: indices of the points.
    - `scale`: mean distance from the third nearest point of this and all previous levels.
    """

    members: Int[np.ndarray, " n"]
    scale: float


def levels(points: Float[np.ndarray, "N d"], num_first: int, spacing: float) -> Iterator[Level]:
    """Order points in levels from coarse to fine.

    **Arguments:**

    - `points`: distinct points.
    - `num_first`: number of points in the first level.
    - `spacing`: spacing of a uniform grid with the same number of points.
    """
    count = len(points)
    first, radius = _maximin_order(points, min(num_first, count))
    # The radius is zero if the first level contains all points.
    yield Level(first, radius if count > num_first else _third_neighbor_distance(points, points))
    remaining = np.setdiff1d(np.arange(count), first)
    ordered = [first]
    rng = np.random.default_rng(0)
    while remaining.size:
        radius *= np.sqrt(0.5)  # levels double in size in the plane
        if radius < _LAST_RADIUS * spacing:
            yield Level(remaining, _third_neighbor_distance(points, points[remaining]))
            return
        is_far = _is_far(points[remaining], points[np.concatenate(ordered)], radius)
        members = _maximal_independent_set(points, remaining[is_far], radius, rng)
        if not members.size:
            continue
        ordered.append(members)
        scale = _third_neighbor_distance(points[np.concatenate(ordered)], points[members])
        yield Level(members, scale)
        remaining = np.setdiff1d(remaining, members, assume_unique=True)


def _third_neighbor_distance(
    points: Float[np.ndarray, "n d"], targets: Float[np.ndarray, "m d"]
) -> float:
    """Return the mean distance from the targets to their third nearest points."""
    distances, _ = make_tree(points).query(targets, k=min(4, len(points)), workers=-1)
    return float(distances[:, -1].mean())


def _is_far(points: Float[np.ndarray, "n d"], previous: Float[np.ndarray, "m d"], radius: float):
    """Return whether the distance of each point from all previous ones exceeds the radius."""
    distances, _ = make_tree(previous).query(points, distance_upper_bound=radius, workers=-1)
    return np.isinf(distances)


def _maximin_order(
    points: Float[np.ndarray, "N d"], count: int
) -> tuple[Int[np.ndarray, " n"], float]:
    """Return the first points of a maximin ordering and the largest distance from them."""
    center = np.argmin(((points - points.mean(0)) ** 2).sum(1))
    order, squares = [int(center)], np.full(len(points), np.inf)
    while True:
        squares = np.minimum(squares, ((points - points[order[-1]]) ** 2).sum(1))
        if len(order) == count:
            return np.array(order), float(np.sqrt(squares.max()))
        order.append(int(np.argmax(squares)))


def _maximal_independent_set(
    points: Float[np.ndarray, "N d"],
    candidates: Int[np.ndarray, " n"],
    radius: float,
    rng: np.random.Generator,
) -> Int[np.ndarray, " m"]:
    """Select a maximal subset whose mutual distances exceed the radius."""
    subsets = [np.zeros(0, dtype=np.int64)]
    while candidates.size:
        # Keep one candidate per small cell, then those with the highest priority nearby.
        shuffled = rng.permutation(candidates)
        cells = np.floor(points[shuffled] / (0.5 * radius)).astype(np.int64)
        _, representatives = np.unique(cells, axis=0, return_index=True)
        thinned = shuffled[representatives]
        pairs = make_tree(points[thinned]).query_pairs(radius, output_type="ndarray")
        priority = rng.permutation(thinned.size)
        left, right = pairs[:, 0], pairs[:, 1]
        is_dominated = np.zeros(thinned.size, dtype=bool)
        is_dominated[np.where(priority[left] < priority[right], left, right)] = True
        subset = thinned[~is_dominated]
        subsets.append(subset)
        candidates = candidates[_is_far(points[candidates], points[subset], radius)]
    return np.concatenate(subsets).astype(np.int64)
