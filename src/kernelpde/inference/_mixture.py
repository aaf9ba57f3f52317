"""Moments and quantiles of mixtures of Gaussians."""

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import TINY


def mixture_moments(
    means: Float[np.ndarray, " m *_"],
    stds: Float[np.ndarray, " m *_"],
    weights: Float[np.ndarray, " m"],
) -> tuple[Float[np.ndarray, "*_"], Float[np.ndarray, "*_"]]:
    """Return mean and standard deviation: var = E[var] + var[E]."""
    mean = np.asarray(np.tensordot(weights, means, 1))
    variance = np.tensordot(weights, stds**2 + (means - mean) ** 2, 1)
    return mean, np.asarray(np.sqrt(variance))


def mixture_quantile(
    means: Float[np.ndarray, " m *_"],
    stds: Float[np.ndarray, " m *_"],
    weights: Float[np.ndarray, " m"],
    level: float,
) -> Float[np.ndarray, "*_"]:
    """Return x with Σ w Φ((x - μ) / σ) = `level`, by bisection between the component quantiles."""
    from scipy.special import ndtr, ndtri

    quantiles = means + ndtri(level) * stds
    low, high = quantiles.min(axis=0), quantiles.max(axis=0)
    if len(weights) == 1:
        return np.asarray(low)
    safe = np.maximum(stds, TINY)
    middle = 0.5 * (low + high)
    # Until no number lies between the bounds.
    while np.any((low < middle) & (middle < high)):
        is_lower = np.tensordot(weights, ndtr((middle - means) / safe), 1) < level
        low, high = np.where(is_lower, middle, low), np.where(is_lower, high, middle)
        middle = 0.5 * (low + high)
    return np.asarray(middle)
