"""Lengthscales to begin with, by the size of the domain."""

import jax
import numpy as np

from kernelpde.bilevel._evaluation import Parameters
from kernelpde.problem import Block

_FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""Starting lengthscales relative to the size of the domain."""

_NEARBY = (0.5, 0.6, 0.7, 0.84, 1.2, 1.4, 1.7, 2.0)
"""Factors on all lengthscales that are tried once the state has settled."""

_APART = (0.6, 1.7)
"""Factors on each lengthscale by itself."""

_MANY = 12
"""With more lengthscales than this they are not tried one by one."""


def spread(parameters: Parameters, blocks: tuple[Block, ...]) -> list[np.ndarray]:
    """θ with all lengthscales multiplied so that their mean is a fraction of the domain's size."""
    points = np.concatenate([np.asarray(block.points) for block in blocks])
    extent = np.exp(np.mean(np.log(np.ptp(points, axis=0) + 1e-300)))
    mask = _lengthscales(parameters)
    if not mask.any():
        return []
    theta = parameters.vector
    mean = np.mean(theta[mask])
    return [theta + mask * (np.log(fraction * extent) - mean) for fraction in _FRACTIONS]


def nearby(parameters: Parameters, theta: np.ndarray) -> list[np.ndarray]:
    """θ with all lengthscales somewhat smaller or larger, and with one of them so."""
    mask = _lengthscales(parameters)
    if not mask.any():
        return []
    together = [theta + mask * np.log(factor) for factor in _NEARBY]
    single = np.eye(len(theta))[mask] if 1 < mask.sum() <= _MANY else []
    return together + [theta + one * np.log(factor) for one in single for factor in _APART]


def _lengthscales(parameters: Parameters) -> np.ndarray:
    """Which entries of θ are logarithms of lengthscales."""
    paths = jax.tree_util.tree_leaves_with_path(parameters.learned)
    return np.concatenate(
        [
            np.full(leaf.size, getattr(path[-1], "name", "") == "log_lengthscale")
            for path, leaf in paths
        ]
    )
