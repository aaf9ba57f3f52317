"""Which lengthscales belong to which coordinates: what a change of units does to a kernel."""

from collections.abc import Sequence
from math import log, pi
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._kernel import Restriction
from kernelpde.kernels._nodes import OnNodes
from kernelpde.kernels._parameters import hyperparameters
from kernelpde.kernels._periodic import Periodic
from kernelpde.kernels._radial import AbstractRadial, PeriodicRadial

About: TypeAlias = tuple[int, ...] | float | None
"""The coordinates that a lengthscale is about, none if it is relative to a period; the extent of an
argument that is no coordinate; `None` for what is no lengthscale."""


def _leaves(tree: Any, coordinates: tuple[int, ...]) -> list[tuple[Any, About]]:
    """Each array leaf, in the order of JAX, with the coordinates it is about."""
    found: list[tuple[Any, About]] = []
    whole = (Restriction, Frozen, Periodic, OnNodes)
    nodes = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda n: isinstance(n, whole))
    for path, node in nodes:
        if isinstance(node, Restriction):
            inner = tuple(coordinates[c] for c in node.coordinates if isinstance(c, int))
            found += _leaves(node.kernel, inner)
        elif isinstance(node, Frozen):
            found += _leaves(node.learned, coordinates)
        elif isinstance(node, Periodic):
            found += [(leaf, ()) for leaf in jax.tree.leaves(node)]
        elif isinstance(node, OnNodes):
            own = _leaves(node.kernel, (0,))
            found += [(leaf, node.extent if about else about) for leaf, about in own]
        elif eqx.is_array(node):
            is_length = bool(path) and getattr(path[-1], "name", "") == "log_lengthscale"
            found.append((node, coordinates if is_length else None))
    return found


def places(tree: Any, dimension: int) -> list[About]:
    """For each number among the array leaves of kernels the coordinates it is about."""
    found: list[About] = []
    for leaf, about in _leaves(tree, tuple(range(dimension))):
        if isinstance(about, tuple) and leaf.size == len(about):
            found += [(c,) for c in about]
        else:
            found += [about] * leaf.size
    return found


def log_extents(tree: Any, extents: Float[np.ndarray, " d"]) -> Float[np.ndarray, " p"]:
    """For each number among the array leaves of kernels the logarithm of the extent it is about.

    One lengthscale for several coordinates is about their geometric mean; one that is relative to a
    period, about the whole circle. NaN for what is no lengthscale.
    """
    logs = np.log(extents)

    def one(about: About) -> float:
        if about is None:
            return np.nan
        if not isinstance(about, tuple):
            return log(about)
        return float(logs[list(about)].mean()) if about else log(2.0 * pi)

    return np.array([one(about) for about in places(tree, len(extents))])


def _thawed(tree: Any) -> Any:
    """Kernels with what is held in its place."""
    return jax.tree.map(
        lambda n: n.kernel if isinstance(n, Frozen) else n,
        tree,
        is_leaf=lambda n: isinstance(n, Frozen),
    )


def all_numbers(tree: Any) -> dict[str, Any]:
    """Every number of kernels by its name, those that are held too."""
    return hyperparameters(_thawed(tree))


def stretched(tree: Any, factor: float, *, held: bool = True) -> Any:
    """Kernels with all their lengthscales multiplied, and those that are `held` unless told
    otherwise; `None` if there are none."""
    thawed, found = _thawed(tree) if held else tree, []

    def one(path: Any, leaf: Any) -> Any:
        if not path or getattr(path[-1], "name", "") != "log_lengthscale":
            return leaf
        found.append(leaf)
        return leaf + log(factor)

    new = jax.tree_util.tree_map_with_path(one, thawed)
    return new if found else None


def typical_lengthscales(
    kernels: Sequence[Any], extents: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """The geometric mean of the lengthscales along each coordinate; its extent where none is."""
    thawed = _thawed(tuple(kernels))
    logs: list[list[float]] = [[] for _ in extents]
    for leaf, about in _leaves(thawed, tuple(range(len(extents)))):
        if about and isinstance(about, tuple):
            values = np.broadcast_to(np.asarray(leaf).reshape(-1), len(about))
            for coordinate, value in zip(about, values, strict=True):
                logs[coordinate].append(float(value))
    return np.array(
        [np.exp(np.mean(own)) if own else extent for own, extent in zip(logs, extents, strict=True)]
    )


def periods_of(tree: Any, dimension: int) -> tuple[float | None, ...]:
    """The period of each coordinate in which kernels are periodic."""
    found: list[float | None] = [None] * dimension

    def look(node: Any, coordinates: tuple[int, ...]) -> None:
        whole = (Restriction, PeriodicRadial, Periodic)
        for part in jax.tree.leaves(node, is_leaf=lambda n: isinstance(n, whole)):
            if isinstance(part, Restriction):
                inner = tuple(coordinates[c] for c in part.coordinates if isinstance(c, int))
                look(part.kernel, inner)
            elif isinstance(part, PeriodicRadial | Periodic):
                own = part.periods if isinstance(part, PeriodicRadial) else part.period
                each = own if isinstance(own, tuple) else (own,) * len(coordinates)
                for coordinate, period in zip(coordinates, each, strict=True):
                    found[coordinate] = period

    look(_thawed(tree), tuple(range(dimension)))
    return tuple(found)


def per_coordinate_lengthscales(tree: Any, extents: Float[np.ndarray, " d"]) -> Any:
    """Radial kernels with one lengthscale for several coordinates get one for each.

    Relative to the extent of their coordinate they are all the same, and the kernel is what it was
    where all extents are.
    """

    def one(node: Any) -> Any:
        if isinstance(node, Restriction):
            own = extents[[c for c in node.coordinates if isinstance(c, int)]]
            return Restriction(per_coordinate_lengthscales(node.kernel, own), node.coordinates)
        if not isinstance(node, AbstractRadial) or node.log_lengthscale.ndim or len(extents) < 2:
            return node
        logs = np.log(extents)
        each = node.log_lengthscale + (logs - logs.mean())
        return eqx.tree_at(lambda n: n.log_lengthscale, node, jnp.asarray(each))

    whole = (Restriction, AbstractRadial, Frozen, OnNodes)
    return jax.tree.map(one, tree, is_leaf=lambda n: isinstance(n, whole))
