"""Numbers whose distribution is a mixture of Gaussians."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

_HALVINGS = 60
"""Of an interval that holds a quantile: to the last digit."""


def pooled(
    means: Float[np.ndarray, " m *_"],
    stds: Float[np.ndarray, " m *_"],
    weights: Float[np.ndarray, " m"],
) -> tuple[Float[np.ndarray, "*_"], Float[np.ndarray, "*_"]]:
    """Mean and standard deviation: var = E[var] + var[E]."""
    mean = np.asarray(np.tensordot(weights, means, 1))
    variance = np.tensordot(weights, stds**2 + (means - mean) ** 2, 1)
    return mean, np.asarray(np.sqrt(variance))


def mixed_quantile(
    means: Float[np.ndarray, " m *_"],
    stds: Float[np.ndarray, " m *_"],
    weights: Float[np.ndarray, " m"],
    level: float,
) -> Float[np.ndarray, "*_"]:
    """Where Σ w Φ((x - μ) / σ) has a given value: between the quantiles of the members."""
    ends = means + ndtri(level) * stds
    low, high = ends.min(axis=0), ends.max(axis=0)
    if len(weights) == 1:
        return np.asarray(low)
    safe = np.maximum(stds, 1e-300)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = np.tensordot(weights, ndtr((middle - means) / safe), 1) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
