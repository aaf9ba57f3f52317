"""Nearest-neighbor search."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from scipy.spatial import KDTree


def make_tree(points: Float[np.ndarray, "n d"]) -> "KDTree":
    """Build a `scipy.spatial.KDTree`."""
    from scipy.spatial import KDTree  # a third of the import time of this package

    return KDTree(points)


def nearest_distances(
    points: Float[np.ndarray, "n d"], targets: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, " n"]:
    """Return the distance from each point to the nearest target."""
    squares = np.zeros((len(points), len(targets)))
    for axis in range(points.shape[1]):
        squares += (points[:, None, axis] - targets[None, :, axis]) ** 2
    return np.sqrt(squares.min(1, initial=np.inf))


def neighbors_within(
    tree: "KDTree",
    points: Float[np.ndarray, "N d"],
    targets: Float[np.ndarray, "m d"],
    radius: float,
) -> Int[np.ndarray, " n"]:
    """Return the indices of the points of a tree within a distance from any of the targets."""
    center = targets.mean(0)
    width = np.sqrt(((targets - center) ** 2).sum(1).max())
    candidates = np.asarray(tree.query_ball_point(center, radius + width), dtype=np.int64)
    return candidates[nearest_distances(points[candidates], targets) <= radius]
