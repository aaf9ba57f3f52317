"""Points from coarse to fine: few that are far apart first, then more and more in between.

A maximin order takes in each step the point that is farthest from all before. Here the first are
chosen like that, and then whole levels: with a radius that shrinks by a fixed factor, a largest
set of points no two of which are closer than the radius, to each other or to those before. That
needs a number of searches for nearest neighbors that does not depend on the number of points.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from kernelpde.linear_solvers._trees import tree_of

_SHRINK = 2**-0.5
"""From one level to the next."""

_LAST = 0.7
"""Where the last level begins, in units of the spacing of a grid with as many points."""


@dataclass(frozen=True)
class Level:
    """Points that follow each other in the order.

    **Attributes:**

    - `members`: their numbers.
    - `scale`: how far each is from the third nearest of those before and beside it, on average.
    """

    members: Int[np.ndarray, " n"]
    scale: float


def levels(points: Float[np.ndarray, "N d"], top: int, spacing: float) -> Iterator[Level]:
    """All points, in levels from coarse to fine.

    **Arguments:**

    - `points`: no two of them the same.
    - `top`: how many are in the first level.
    - `spacing`: of a grid with as many points.
    """
    count = len(points)
    first, radius = _farthest(points, min(top, count))
    # Where there are no others, none is far from them.
    yield Level(first, radius if count > top else _third(points, points))
    remaining = np.setdiff1d(np.arange(count), first)
    selected = [first]
    rng = np.random.default_rng(0)
    while remaining.size:
        radius *= _SHRINK
        if radius < _LAST * spacing:
            yield Level(remaining, _third(points, points[remaining]))
            return
        tree = tree_of(points[np.concatenate(selected)])
        near, _ = tree.query(points[remaining], distance_upper_bound=radius, workers=-1)
        chosen = _apart(points, remaining[np.isinf(near)], radius, rng)
        if not chosen.size:
            continue
        selected.append(chosen)
        yield Level(chosen, _third(points[np.concatenate(selected)], points[chosen]))
        remaining = np.setdiff1d(remaining, chosen, assume_unique=True)


def _third(points: Float[np.ndarray, "n d"], some: Float[np.ndarray, "m d"]) -> float:
    """How far some of the points are from the third nearest of all, on average."""
    distances, _ = tree_of(points).query(some, k=min(4, len(points)), workers=-1)
    return float(distances[:, -1].mean())


def _farthest(points: Float[np.ndarray, "N d"], count: int) -> tuple[Int[np.ndarray, " n"], float]:
    """The first points of the maximin order, and how far others are from them at most."""
    middle = np.argmin(((points - points.mean(0)) ** 2).sum(1))
    chosen, distance = [int(middle)], np.full(len(points), np.inf)
    while True:
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(1))
        if len(chosen) == count:
            return np.array(chosen), float(np.sqrt(distance.max()))
        chosen.append(int(np.argmax(distance)))


def _apart(
    points: Float[np.ndarray, "N d"],
    candidates: Int[np.ndarray, " n"],
    radius: float,
    rng: np.random.Generator,
) -> Int[np.ndarray, " m"]:
    """A largest subset no two of which are closer than the radius."""
    chosen = []
    while candidates.size:
        # One of each small cell, then those that come first among their neighbors.
        shuffled = rng.permutation(candidates)
        cells = np.floor(points[shuffled] / (0.5 * radius)).astype(np.int64)
        _, one = np.unique(cells, axis=0, return_index=True)
        few = shuffled[one]
        pairs = tree_of(points[few]).query_pairs(radius, output_type="ndarray")
        priority = rng.permutation(few.size)
        beaten = np.zeros(few.size, dtype=bool)
        lower = np.where(priority[pairs[:, 0]] < priority[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
        beaten[lower] = True
        new = few[~beaten]
        chosen.append(new)
        near, _ = tree_of(points[new]).query(
            points[candidates], distance_upper_bound=radius, workers=-1
        )
        candidates = candidates[np.isinf(near)]
    return np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
