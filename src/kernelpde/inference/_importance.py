"""Importance sampling as a check of the Laplace approximation of a log density."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.compiling import compiled
from kernelpde.inference._density import LogDensity

_MIN_ESS_FRACTION = 0.9
"""Smallest effective fraction of the draws without a warning. A Gaussian density that is shifted by
a third of its standard deviation gives this fraction, exp(-1/9)."""


class ImportanceSample(NamedTuple):
    """Draws from N(mode, covariance) with importance weights of the exact density.

    **Attributes:**

    - `positions`, `weights`: draws and their normalized weights.
    - `effective_sample_size`: effective fraction of the draws, (Σw)² / (n Σw²). It is 1 if the
      approximation is exact.
    """

    positions: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    effective_sample_size: float

    @property
    def warning(self) -> str:
        """Reason to distrust the Laplace approximation; empty if there is none."""
        if self.effective_sample_size >= _MIN_ESS_FRACTION:
            return ""
        return (
            "The parameters are not Gaussian, nor are their logarithms: the effective sample size "
            f"of the Laplace approximation is {self.effective_sample_size:.0%} of the draws, "
            f"expected at least {_MIN_ESS_FRACTION:.0%}. Use sample(result, key)."
        )


@compiled
def _log_densities(density: LogDensity, positions: Float[Array, "n p"]) -> Float[Array, " n"]:
    return jax.lax.map(density, positions)


def importance_sample(density: LogDensity, key: PRNGKeyArray, count: int = 100) -> ImportanceSample:
    """Draw from the Laplace approximation and weight by the exact density."""
    root = np.linalg.cholesky(np.asarray(density.covariance))
    scores = np.asarray(jax.random.normal(key, (count, len(root))))
    positions = np.asarray(density.mode) + scores @ root.T
    log_densities = np.asarray(_log_densities(density, jnp.asarray(positions)))
    log_weights = log_densities + 0.5 * np.sum(scores**2, axis=1)
    if not np.isfinite(log_weights).any():
        return ImportanceSample(positions, np.zeros(count), 0.0)
    weights = np.exp(log_weights - np.max(log_weights))
    return ImportanceSample(
        positions,
        weights / weights.sum(),
        float(weights.sum() ** 2 / (count * (weights @ weights))),
    )
