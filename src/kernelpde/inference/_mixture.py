"""Moments and quantiles of mixtures of Gaussians."""

import numpy as np
from jaxtyping import Float

_BISECTIONS = 60
"""Number of bisections of the interval that contains a quantile: enough for full precision."""


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
    safe = np.maximum(stds, 1e-300)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_lower = np.tensordot(weights, ndtr((middle - means) / safe), 1) < level
        low, high = np.where(is_lower, middle, low), np.where(is_lower, high, middle)
    return np.asarray(0.5 * (low + high))
