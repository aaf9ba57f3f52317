"""The coordinates of lengthscales: how kernels change with the units of a domain."""

from collections.abc import Sequence
from math import log
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from kernelpde.arrays import on_host
from kernelpde.kernels._kernel import (
    AbstractKernel,
    CoordinateSet,
    is_lengthscale,
    iterate_parameters,
    map_kernels,
)
from kernelpde.kernels._parameters import hyperparameters


def coordinates_of_parameters(tree: PyTree, dimension: int) -> list[CoordinateSet]:
    """Return the coordinates of every scalar parameter of kernels."""
    sets: list[CoordinateSet] = []
    for leaf, coordinates in iterate_parameters((tree,), tuple(range(dimension))):
        if isinstance(coordinates, tuple) and leaf.size == len(coordinates):
            sets += [(c,) for c in coordinates]
        else:
            sets += [coordinates] * leaf.size
    return sets


def log_extents(tree: PyTree, extents: Float[np.ndarray, " d"]) -> Float[np.ndarray, " p"]:
    """Return the logarithm of the extent that every scalar parameter of kernels scales with.

    The extent of one lengthscale for several coordinates is their geometric mean. NaN marks other
    parameters.
    """
    logs = np.log(extents)

    def log_extent(coordinates: CoordinateSet) -> float:
        if coordinates is None:
            return np.nan
        return (
            logs[list(coordinates)].mean() if isinstance(coordinates, tuple) else log(coordinates)
        )

    return np.array([log_extent(c) for c in coordinates_of_parameters(tree, len(extents))])


def _unfreeze(tree: PyTree) -> PyTree:
    (unfrozen,) = map_kernels(lambda kernel: kernel.unfreeze(), (tree,))
    return unfrozen


def all_parameters(tree: PyTree) -> dict[str, Any]:
    """Return all parameters of kernels by name, including frozen ones."""
    return hyperparameters(_unfreeze(tree))


def scale_lengthscales(tree: PyTree, factor: float, *, include_frozen: bool = True) -> PyTree:
    """Multiply all lengthscales of kernels by a factor. Return `None` if there are none."""
    kernels = _unfreeze(tree) if include_frozen else tree
    leaves = jax.tree_util.tree_leaves_with_path(kernels)
    if not any(is_lengthscale(path) for path, _ in leaves):
        return None
    shift = log(factor)

    def scale(path: tuple[object, ...], leaf: Any) -> Any:
        return on_host(lambda logarithm: logarithm + shift, leaf) if is_lengthscale(path) else leaf

    return jax.tree_util.tree_map_with_path(scale, kernels)


def typical_lengthscales(
    kernels: Sequence[AbstractKernel], extents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Return the geometric mean of all lengthscales by coordinate, by default its extent."""
    logs: list[list[float]] = [[] for _ in extents]
    for leaf, coordinates in iterate_parameters(_unfreeze(kernels), tuple(range(len(extents)))):
        if isinstance(coordinates, tuple):
            values = np.broadcast_to(np.asarray(leaf).reshape(-1), len(coordinates))
            for position, coordinate in enumerate(coordinates):
                logs[coordinate].append(float(values[position]))
    return np.array([np.exp(np.mean(v)) if v else extents[i] for i, v in enumerate(logs)])


def per_coordinate_lengthscales(tree: PyTree, extents: Float[np.ndarray, " d"]) -> PyTree:
    """Replace shared lengthscales of radial kernels by one lengthscale per coordinate.

    They are equal relative to the extents. Where all extents are equal, the kernel is unchanged.
    """
    return map_kernels(lambda kernel: kernel.split_lengthscales(extents), tree)
