"""How far Laplace's approximation is from the density it stands for."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.compiling import compiled
from kernelpde.inference._density import LogDensity

_LEFT = 0.9
"""With a smaller part of draws left the approximation is doubted: a Gaussian density that is
shifted by a third of its standard deviation leaves so much, exp(-1/9)."""


class Importance(NamedTuple):
    """Draws from N(mode, covariance), weighed by the density itself.

    **Attributes:**

    - `positions`, `weights`: of the draws.
    - `effective`: the part of them that is left, (Σw)² / (n Σw²): 1 if the approximation is exact.
    """

    positions: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    effective: float

    @property
    def doubts(self) -> str:
        """Why the approximation is not to be trusted; empty if nothing speaks against it."""
        if self.effective >= _LEFT:
            return ""
        return (
            "Unknown numbers are not Gaussian, not even by their logarithms: of draws from the "
            f"approximation {self.effective:.0%} are left when weighed by the density itself, "
            f"expected at least {_LEFT:.0%}. Draw from it: sample(found, key)."
        )


@compiled
def _densities(density: LogDensity, positions: Float[Array, "n p"]) -> Float[Array, " n"]:
    return jax.lax.map(density, positions)


def importance(density: LogDensity, key: PRNGKeyArray, count: int = 100) -> Importance:
    """Weigh draws from Laplace's approximation."""
    root = np.linalg.cholesky(np.asarray(density.covariance))
    scores = np.asarray(jax.random.normal(key, (count, len(root))))
    positions = np.asarray(density.mode) + scores @ root.T
    logs = np.asarray(_densities(density, jnp.asarray(positions))) + 0.5 * np.sum(scores**2, axis=1)
    if not np.isfinite(logs).any():
        return Importance(positions, np.zeros(count), 0.0)
    weights = np.exp(logs - np.max(logs))
    return Importance(
        positions,
        weights / weights.sum(),
        float(weights.sum() ** 2 / (count * (weights @ weights))),
    )
