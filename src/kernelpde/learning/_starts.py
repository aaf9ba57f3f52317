"""Lengthscales to begin with, by the size of the domain."""

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import array
from kernelpde.kernels import log_extents, places
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._outer import Around

_FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""Starting lengthscales relative to the size of the domain."""

MIDDLE = 3
"""The number of one that is neither rough nor smooth."""

_NEARBY = (0.5, 0.6, 0.7, 0.84, 1.2, 1.4, 1.7, 2.0)
"""Factors on all lengthscales that are tried once the state has settled."""

_APART = (0.6, 1.7)
"""Factors on each lengthscale by itself."""

_LARGER = (1.0, 1e2, 1e4)
"""Factors on variances of unknown fields that are tried where noise is learned."""

_EXPECTED = 0.2
"""What a lengthscale is expected to be, relative to the size of the domain."""

_VARIATION = 0.2
"""The expected size of coefficients by which the logarithm of a lengthscale varies."""

_HELD = 0.1
"""How far the logarithm of the variance of a state may go: hardly anywhere."""

_FIXED = 0.02
"""How far that of a lengthscale may go that is held."""

_MANY = 12
"""With more lengthscales than this they are not tried one by one."""


def spread(parameters: Parameters, extents: Float[np.ndarray, " d"]) -> list[np.ndarray]:
    """θ with all lengthscales a fraction of the extent of their own coordinate.

    Once all at the same fraction, but for what several in the same place differ by; and once in
    the proportions in which they were given, if these are others.
    """
    mask = lengthscales(parameters)
    if not mask.any():
        return []
    theta, extent = parameters.vector, relative_to(parameters, extents)
    relative = theta - extent
    together = np.where(mask, relative - np.mean(relative[mask]), 0.0)
    even = _apart_in_place(parameters, relative, mask, len(extents))
    families = [even] if np.allclose(even, together) else [even, together]
    return [
        np.where(mask, extent + np.log(fraction) + family, theta)
        for family in families
        for fraction in _FRACTIONS
    ]


def _apart_in_place(
    parameters: Parameters, relative: np.ndarray, mask: np.ndarray, dimension: int
) -> np.ndarray:
    """How lengthscales differ from the mean of those of the same field and coordinates."""
    kernels, _ = parameters.learned
    trees = kernels if isinstance(kernels, tuple) else kernels.latents
    keys = [(n, place) for n, tree in enumerate(trees) for place in places(tree, dimension)]
    found = np.zeros_like(relative)
    for key in set(keys):
        some = np.array([n for n, other in enumerate(keys) if other == key])
        some = some[mask[some]]
        if some.size:
            found[some] = relative[some] - relative[some].mean()
    return found


def relative_to(parameters: Parameters, extents: Float[np.ndarray, " d"]) -> np.ndarray:
    """For each hyperparameter what it is measured by: the extent of its coordinate, or itself."""
    kernels, noises = parameters.learned
    rest = sum(leaf.size for leaf in jax.tree.leaves(noises))
    logs = np.concatenate([log_extents(kernels, extents), np.full(rest, np.nan)])
    return np.where(np.isnan(logs), parameters.vector, logs)


def nearby(parameters: Parameters, theta: np.ndarray) -> list[np.ndarray]:
    """θ with all lengthscales somewhat smaller or larger, and with one of them so."""
    mask = lengthscales(parameters)
    if not mask.any():
        return []
    together = [theta + mask * np.log(factor) for factor in _NEARBY]
    single = np.eye(len(theta))[mask] if 1 < mask.sum() <= _MANY else []
    return together + [theta + one * np.log(factor) for one in single for factor in _APART]


def larger(parameters: Parameters, theta: np.ndarray, states: tuple[int, ...]) -> list[np.ndarray]:
    """θ with larger variances of unknown fields, if there are some, and noise to be learned."""
    mask = _named(parameters, "log_variance") & ~_of_fields(parameters, states)
    if not states or not mask.any() or not _noises(parameters).any():
        return []
    return [theta + mask * np.log(factor) for factor in _LARGER]


def weak_prior(
    parameters: Parameters,
    extents: Float[np.ndarray, " d"],
    by_domain: bool = True,
    free: tuple[int, ...] = (),
    held: tuple[int, ...] = (),
) -> Around:
    """What one expects before seeing data: used with a likelihood, which a few data leave flat.

    Lengthscales are between a tenth and four tenths of the domain, amplitudes and noise within a
    factor of seven of where they begin, with 95% each; of other hyperparameters nothing is known.
    If not `by_domain`, lengthscales are within a factor of two of where they begin. Variances of
    fields numbered in `free` stay about where they are, and lengthscales of those in `held`.
    """
    lengths, variances = lengthscales(parameters), _named(parameters, "log_variance")
    noises = _noises(parameters)
    theta = parameters.vector
    expected = np.log(_EXPECTED) + relative_to(parameters, extents)
    center = np.where(lengths & by_domain, expected, theta)
    spread = np.where(lengths, 0.35, np.where(noises, 1.0, np.where(variances, 2.0, np.inf)))
    spread[variances & _of_fields(parameters, free)] = _HELD
    fixed = lengths & _of_fields(parameters, held)
    center[fixed], spread[fixed] = theta[fixed], _FIXED
    return Around(array(center), array(spread))


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


def _of_fields(parameters: Parameters, fields: tuple[int, ...]) -> np.ndarray:
    """Which entries of θ belong to kernels of these fields."""
    paths = jax.tree_util.tree_leaves_with_path(parameters.learned)
    return np.concatenate(
        [
            np.full(leaf.size, len(path) > 2 and getattr(path[1], "idx", None) in fields)
            for path, leaf in paths
        ]
    )


def _noises(parameters: Parameters) -> np.ndarray:
    """Which entries of θ are logarithms of noise: those at the end."""
    kernels, noises = parameters.learned
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(part)) for part in (kernels, noises)]
    return np.repeat([False, True], sizes)
