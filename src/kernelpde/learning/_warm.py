"""A constant lengthscale first: where a kernel's lengthscale varies, learning begins without that.

While the state is wrong, a lengthscale that may vary from place to place follows its errors. So the
problem is first solved and learned with constant lengthscales, which few numbers and a Gaussian
kernel describe.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import array
from kernelpde.functionals import Kernels
from kernelpde.kernels import Frozen, Gaussian, Gibbs, per_coordinate_lengthscales
from kernelpde.problem import Collocation, Problem, extents_of

_UNLIKE = 3.0
"""Coordinates whose extents differ by more than this factor have units of their own."""


def unlike(extents: Float[np.ndarray, " d"]) -> bool:
    """Whether coordinates are taken to have units of their own."""
    return bool(extents.max() > _UNLIKE * extents.min())


def with_own_lengthscales(problem: Problem, blocks: tuple[Collocation, ...]) -> Problem:
    """One lengthscale for all coordinates becomes one for each, where extents are not alike.

    Time to 1000 and space to 1 have no common lengthscale, and learning one number finds none.
    """
    extents = extents_of(blocks, problem.space.periods)
    if not unlike(extents):
        return problem
    return problem.with_kernels(per_coordinate_lengthscales(problem.kernels, extents))


def stationary(kernels: Kernels, blocks: tuple[Collocation, ...]) -> Kernels | None:
    """The kernels with a Gaussian for each Gibbs kernel that can be learned; None without any."""
    point = array(np.asarray(blocks[0].points)[0])
    found = []

    def one(node: Any) -> Any:
        if not _varies(node):
            return node
        found.append(node)
        lengths = node.fields(point).shape[0] - 1
        return Gaussian(1.0 if lengths == 1 else np.ones(lengths))

    changed = jax.tree.map(one, kernels, is_leaf=_whole)
    return changed if found else None


def varying(kernels: Kernels, constant: Kernels) -> Kernels:
    """The kernels with their lengthscales, at first, those of the Gaussians in their place."""
    nodes = iter(
        node for node in jax.tree.leaves(constant, is_leaf=_whole) if isinstance(node, Gaussian)
    )

    def one(node: Any) -> Any:
        if isinstance(node, Gaussian):
            return next(nodes)
        if not _varies(node):
            return node
        return Gibbs(node.lengthscale.around(next(nodes).lengthscale))

    return jax.tree.map(one, kernels, is_leaf=_whole)


def _varies(node: Any) -> bool:
    """Whether this is a kernel whose lengthscale can be set to a constant and learned."""
    return isinstance(node, Gibbs) and hasattr(node.lengthscale, "around")


def _whole(node: Any) -> bool:
    """Whether to look no further: what is held in part stays as it is."""
    return _varies(node) or isinstance(node, Gaussian | Frozen)
