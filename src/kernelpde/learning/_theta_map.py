"""Map between the vector θ of hyperparameters and the prior of a problem."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.functionals import Prior
from kernelpde.problem import Problem


class ThetaMap(eqx.Module):
    """Map between the vector θ of hyperparameters and kernels with noise.

    **Attributes:**

    - `trainable`: inexact arrays of the kernels, and log σ of conditions with learned noise.
    - `static`: everything else in the kernels.
    """

    trainable: Any
    static: Any

    @staticmethod
    def of(prior: Prior, noises: Sequence[Float[Array, ""] | None] = ()) -> "ThetaMap":
        return ThetaMap(*eqx.partition((prior, tuple(noises)), eqx.is_inexact_array))

    @property
    def vector(self) -> np.ndarray:
        leaves = jax.tree.leaves(self.trainable)
        if not leaves:
            return np.zeros(0)
        return np.concatenate([np.asarray(leaf, dtype=float).reshape(-1) for leaf in leaves])

    def prior(self, theta: Float[Array, " p"]) -> Prior:
        return self._kernels_and_noises(theta)[0]

    def noises(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""] | None, ...]:
        """Return log σ of each condition, `None` where it is not learned."""
        return self._kernels_and_noises(theta)[1]

    def apply_to(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """Return the problem with the kernels and noises of θ."""
        return problem.with_prior(self.prior(theta)).with_noises(self.noises(theta))

    def _kernels_and_noises(self, theta: Float[Array, " p"]):
        leaves, structure = jax.tree.flatten(self.trainable)
        stops = np.cumsum([leaf.size for leaf in leaves])
        values = theta if isinstance(theta, jax.core.Tracer) else np.asarray(theta)
        new_leaves = [
            to_array(values[stop - leaf.size : stop].reshape(leaf.shape))
            for leaf, stop in zip(leaves, stops, strict=True)
        ]
        return eqx.combine(jax.tree.unflatten(structure, new_leaves), self.static)
