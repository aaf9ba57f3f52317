"""Stationary kernels for the start of learning, where lengthscales vary over the domain.

Far from the solution a varying lengthscale adapts to the errors of the iterate. The problem is
therefore first solved and learned with constant lengthscales and Gaussian kernels.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import to_array
from kernelpde.functionals import Prior
from kernelpde.kernels import Frozen, Gaussian, Gibbs, per_coordinate_lengthscales
from kernelpde.problem import PointSet, Problem, coordinate_extents

_UNIT_RATIO = 3.0
"""Ratio of extents above which coordinates are assumed to have different units."""


def extents_differ(extents: Float[np.ndarray, " d"]) -> bool:
    """Return whether coordinates are assumed to have different units."""
    return bool(extents.max() > _UNIT_RATIO * extents.min())


def with_per_coordinate_lengthscales(problem: Problem, point_sets: tuple[PointSet, ...]) -> Problem:
    """Replace common lengthscales by one per coordinate if the extents of coordinates differ.

    Time up to 1000 and space up to 1, for example, have no common lengthscale.
    """
    extents = coordinate_extents(point_sets, problem.space.periods)
    if not extents_differ(extents):
        return problem
    return problem.with_prior(per_coordinate_lengthscales(problem.prior, extents))


def stationary_prior(prior: Prior, point_sets: tuple[PointSet, ...]) -> Prior | None:
    """Replace each trainable Gibbs kernel by a Gaussian; return `None` if there is none."""
    if not any(_is_varying(node) for node in jax.tree.leaves(prior, is_leaf=_is_opaque)):
        return None
    point = to_array(np.asarray(point_sets[0].points)[0])

    def to_stationary(node: Any) -> Any:
        if not _is_varying(node):
            return node
        num_lengthscales = node.local_parameters(point).shape[0] - 1
        return Gaussian(1.0 if num_lengthscales == 1 else np.ones(num_lengthscales))

    return jax.tree.map(to_stationary, prior, is_leaf=_is_opaque)


def with_varying_lengthscales(prior: Prior, stationary: Prior) -> Prior:
    """Set the lengthscales of the kernels to the constants of their stationary counterparts."""
    leaves = jax.tree.leaves(stationary, is_leaf=_is_opaque)
    gaussians = (node for node in leaves if isinstance(node, Gaussian))

    def to_varying(node: Any) -> Any:
        if isinstance(node, Gaussian):
            return next(gaussians)
        if not _is_varying(node):
            return node
        return Gibbs(node.lengthscale.with_constant(next(gaussians).lengthscale))

    return jax.tree.map(to_varying, prior, is_leaf=_is_opaque)


def _is_varying(node: object) -> bool:
    """Return whether this is a kernel with a trainable lengthscale that may vary."""
    return isinstance(node, Gibbs) and hasattr(node.lengthscale, "with_constant")


def _is_opaque(node: object) -> bool:
    """Return whether tree traversal stops at this node, as for partially frozen kernels."""
    return _is_varying(node) or isinstance(node, Gaussian | Frozen)
