"""The coordinates of lengthscales: how kernels change with the units of a domain."""

from collections.abc import Iterator, Sequence
from math import log, pi
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._kernel import AbstractKernel, Restriction
from kernelpde.kernels._nodes import NodalKernel
from kernelpde.kernels._parameters import hyperparameters
from kernelpde.kernels._periodic import Periodic
from kernelpde.kernels._radial import AbstractRadial, PeriodicRadial

CoordinateSet: TypeAlias = tuple[int, ...] | float | None
"""The coordinates of a lengthscale, empty if it is relative to a period. A float is the extent of a
law's argument, which is no coordinate. `None` marks a parameter that is no lengthscale."""


def _walk(
    tree: PyTree, coordinates: tuple[int, ...], kernel_types: tuple[type, ...]
) -> Iterator[tuple[Any, Any, tuple[int, ...]]]:
    """Iterate over paths, nodes and their coordinates; nodes of `kernel_types` are not entered."""
    types = (Restriction, *kernel_types)
    for path, node in jax.tree_util.tree_leaves_with_path(
        tree, is_leaf=lambda node: isinstance(node, types)
    ):
        if isinstance(node, Restriction):
            inner = tuple(coordinates[c] for c in node.coordinates if isinstance(c, int))
            yield from _walk(node.kernel, inner, kernel_types)
        else:
            yield path, node, coordinates


def _leaves(tree: PyTree, coordinates: tuple[int, ...]) -> Iterator[tuple[Array, CoordinateSet]]:
    """Iterate over array leaves, in the order of JAX, with their coordinates."""
    for path, node, inner in _walk(tree, coordinates, (Frozen, Periodic, NodalKernel)):
        if isinstance(node, Frozen):
            yield from _leaves(node.trainable, inner)
        elif isinstance(node, Periodic):
            yield from ((leaf, ()) for leaf in jax.tree.leaves(node))
        elif isinstance(node, NodalKernel):
            for leaf, argument in _leaves(node.kernel, (0,)):
                yield leaf, node.extent if argument else argument
        elif eqx.is_array(node):
            yield node, inner if _is_lengthscale(path) else None


def _is_lengthscale(path: Any) -> bool:
    return bool(path) and getattr(path[-1], "name", "") == "log_lengthscale"


def coordinates_of_parameters(tree: PyTree, dimension: int) -> list[CoordinateSet]:
    """Return the coordinates of every scalar parameter of kernels."""
    sets: list[CoordinateSet] = []
    for leaf, coordinates in _leaves(tree, tuple(range(dimension))):
        if isinstance(coordinates, tuple) and leaf.size == len(coordinates):
            sets += [(c,) for c in coordinates]
        else:
            sets += [coordinates] * leaf.size
    return sets


def log_extents(tree: PyTree, extents: Float[np.ndarray, " d"]) -> Float[np.ndarray, " p"]:
    """Return the logarithm of the extent that every scalar parameter of kernels scales with.

    The extent of one lengthscale for several coordinates is their geometric mean. The extent of one
    relative to a period is the circumference of the unit circle. NaN marks other parameters.
    """
    logs = np.log(extents)

    def log_extent(coordinates: CoordinateSet) -> float:
        if coordinates is None:
            return np.nan
        if not isinstance(coordinates, tuple):
            return log(coordinates)
        return float(logs[list(coordinates)].mean()) if coordinates else log(2.0 * pi)

    return np.array([log_extent(c) for c in coordinates_of_parameters(tree, len(extents))])


def _unfrozen(tree: PyTree) -> PyTree:
    """Replace frozen kernels by kernels with all numbers as leaves."""
    return jax.tree.map(
        lambda n: n.kernel if isinstance(n, Frozen) else n,
        tree,
        is_leaf=lambda n: isinstance(n, Frozen),
    )


def all_parameters(tree: PyTree) -> dict[str, Any]:
    """Return all parameters of kernels by name, including frozen ones."""
    return hyperparameters(_unfrozen(tree))


def scale_lengthscales(tree: PyTree, factor: float, *, include_frozen: bool = True) -> PyTree:
    """Multiply all lengthscales of kernels by a factor. Return `None` if there are none."""
    kernels = _unfrozen(tree) if include_frozen else tree
    leaves = jax.tree_util.tree_leaves_with_path(kernels)
    if not any(_is_lengthscale(path) for path, _ in leaves):
        return None
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf + log(factor) if _is_lengthscale(path) else leaf, kernels
    )


def typical_lengthscales(
    kernels: Sequence[AbstractKernel], extents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Return the geometric mean of all lengthscales by coordinate, by default its extent."""
    logs: list[list[float]] = [[] for _ in extents]
    for leaf, coordinates in _leaves(_unfrozen(tuple(kernels)), tuple(range(len(extents)))):
        if coordinates and isinstance(coordinates, tuple):
            values = np.broadcast_to(np.asarray(leaf).reshape(-1), len(coordinates))
            for coordinate, value in zip(coordinates, values, strict=True):
                logs[coordinate].append(float(value))
    return np.array(
        [np.exp(np.mean(v)) if v else extent for v, extent in zip(logs, extents, strict=True)]
    )


def kernel_periods(tree: PyTree, dimension: int) -> tuple[float | None, ...]:
    """Return the period of the kernels in every coordinate, `None` where they have none."""
    periods: list[float | None] = [None] * dimension
    kernels = _unfrozen(tree)
    for _, node, inner in _walk(kernels, tuple(range(dimension)), (PeriodicRadial, Periodic)):
        if isinstance(node, PeriodicRadial | Periodic):
            for coordinate, period in zip(inner, node.periods_in(len(inner)), strict=True):
                periods[coordinate] = period
    return tuple(periods)


def per_coordinate_lengthscales(tree: PyTree, extents: Float[np.ndarray, " d"]) -> PyTree:
    """Replace shared lengthscales of radial kernels by one lengthscale per coordinate.

    They are equal relative to the extents. Where all extents are equal, the kernel is unchanged.
    """

    def split(node: Any) -> Any:
        if isinstance(node, Restriction):
            inner = extents[[c for c in node.coordinates if isinstance(c, int)]]
            return Restriction(per_coordinate_lengthscales(node.kernel, inner), node.coordinates)
        if not isinstance(node, AbstractRadial) or node.log_lengthscale.ndim or len(extents) < 2:
            return node
        logs = np.log(extents)
        log_lengthscales = jnp.asarray(node.log_lengthscale + (logs - logs.mean()))
        return eqx.tree_at(lambda n: n.log_lengthscale, node, log_lengthscales)

    types = (Restriction, AbstractRadial, Frozen, NodalKernel)
    return jax.tree.map(split, tree, is_leaf=lambda n: isinstance(n, types))
