"""Lengthscales to begin with, by the size of the domain."""

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.bilevel._evaluation import Parameters
from kernelpde.bilevel._outer import Around
from kernelpde.problem import Block

_FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""Starting lengthscales relative to the size of the domain."""

_NEARBY = (0.5, 0.6, 0.7, 0.84, 1.2, 1.4, 1.7, 2.0)
"""Factors on all lengthscales that are tried once the state has settled."""

_APART = (0.6, 1.7)
"""Factors on each lengthscale by itself."""

_EXPECTED = 0.2
"""What a lengthscale is expected to be, relative to the size of the domain."""

_VARIATION = 0.2
"""The expected size of coefficients by which the logarithm of a lengthscale varies."""

_MANY = 12
"""With more lengthscales than this they are not tried one by one."""


def spread(parameters: Parameters, blocks: tuple[Block, ...]) -> list[np.ndarray]:
    """θ with all lengthscales multiplied so that their mean is a fraction of the domain's size."""
    points = np.concatenate([np.asarray(block.points) for block in blocks])
    extent = np.exp(np.mean(np.log(np.ptp(points, axis=0) + 1e-300)))
    mask = lengthscales(parameters)
    if not mask.any():
        return []
    theta = parameters.vector
    mean = np.mean(theta[mask])
    return [theta + mask * (np.log(fraction * extent) - mean) for fraction in _FRACTIONS]


def nearby(parameters: Parameters, theta: np.ndarray) -> list[np.ndarray]:
    """θ with all lengthscales somewhat smaller or larger, and with one of them so."""
    mask = lengthscales(parameters)
    if not mask.any():
        return []
    together = [theta + mask * np.log(factor) for factor in _NEARBY]
    single = np.eye(len(theta))[mask] if 1 < mask.sum() <= _MANY else []
    return together + [theta + one * np.log(factor) for one in single for factor in _APART]


def weak_prior(parameters: Parameters, blocks: tuple[Block, ...], by_domain: bool = True) -> Around:
    """What one expects before seeing data: used with a likelihood, which a few data leave flat.

    Lengthscales are between a tenth and four tenths of the domain, amplitudes and noise within a
    factor of seven of where they begin, with 95% each; of other hyperparameters nothing is known.
    If not `by_domain`, lengthscales are within a factor of two of where they begin.
    """
    points = np.concatenate([np.asarray(block.points) for block in blocks])
    extent = np.exp(np.mean(np.log(np.ptp(points, axis=0) + 1e-300)))
    lengths, variances = lengthscales(parameters), _named(parameters, "log_variance")
    noises = _noises(parameters)
    theta = parameters.vector
    centre = np.where(lengths & by_domain, np.log(_EXPECTED * extent), theta)
    spread = np.where(lengths, 0.35, np.where(noises, 1.0, np.where(variances, 2.0, np.inf)))
    return Around(jnp.asarray(centre), jnp.asarray(spread))


def variation(parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Where hyperparameters begin, and how far they are expected to go from there.

    Coefficients of logarithms of lengthscales by about `_VARIATION`; constant ones anywhere.
    """
    theta = parameters.vector
    return theta, np.where(lengthscales(parameters), np.inf, _VARIATION)


def lengthscales(parameters: Parameters) -> np.ndarray:
    """Which entries of θ are logarithms of lengthscales."""
    return _named(parameters, "log_lengthscale")


def _named(parameters: Parameters, name: str) -> np.ndarray:
    """Which entries of θ belong to a hyperparameter of this name."""
    paths = jax.tree_util.tree_leaves_with_path(parameters.learned)
    return np.concatenate(
        [np.full(leaf.size, getattr(path[-1], "name", "") == name) for path, leaf in paths]
    )


def _noises(parameters: Parameters) -> np.ndarray:
    """Which entries of θ are logarithms of noise: those at the end."""
    kernels, noises = parameters.learned
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(part)) for part in (kernels, noises)]
    return np.repeat([False, True], sizes)
