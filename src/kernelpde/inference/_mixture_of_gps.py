"""Mixtures of Gaussian processes that are conditioned at different hyperparameters."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.functionals import Functionals
from kernelpde.inference._conditioned import ConditionedGP
from kernelpde.inference._mixture import mixture_moments, mixture_quantile
from kernelpde.solution import Solution


@dataclass(frozen=True, eq=False, repr=False)
class MixtureOfGPs:
    """Base class of `Posterior`: the joint distribution of functionals.

    **Attributes:**

    - `components`: conditioned Gaussian processes, the first at the best hyperparameters.
    - `weights`: weights of the components.
    """

    components: tuple[ConditionedGP, ...]
    weights: Float[np.ndarray, " m"] = field(default_factory=lambda: np.ones(1))

    @property
    def solution(self) -> Solution:
        """Solution at the best hyperparameters."""
        return self.components[0].solution

    @property
    def amplitude(self) -> float:
        """Factor on all prior standard deviations."""
        return self.components[0].amplitude

    def _moments(
        self, functionals: Functionals
    ) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n"]]:
        """Return mean and standard deviation of each functional in each component."""
        means = np.stack([np.asarray(gp.mean(functionals)) for gp in self.components])
        stds = np.stack([np.asarray(gp.std(functionals)) for gp in self.components])
        return means, stds

    def mean(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the posterior mean of each functional."""
        return sum(
            (w * gp.mean(functionals) for w, gp in zip(self.weights, self.components, strict=True)),
            start=jnp.zeros(len(functionals)),
        )

    def covariance(
        self, left: Functionals, right: Functionals | None = None
    ) -> Float[Array, "m n"]:
        """Return the posterior covariance between functionals.

        It is the mean covariance of the components plus the covariance of their means.
        """
        right = left if right is None else right
        covariances = jnp.stack([gp.covariance(left, right) for gp in self.components])
        left_means = jnp.stack([gp.mean(left) for gp in self.components])
        right_means = jnp.stack([gp.mean(right) for gp in self.components])
        covariance_of_means = jnp.einsum(
            "k,ki,kj->ij",
            self.weights,
            left_means - self.weights @ left_means,
            right_means - self.weights @ right_means,
        )
        return jnp.tensordot(self.weights, covariances, 1) + covariance_of_means

    def std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the posterior standard deviation of each functional.

        With many functionals, most standard deviations are approximated with a relative error below
        1%. The remaining ones are computed exactly.
        """
        return jnp.asarray(mixture_moments(*self._moments(functionals), self.weights)[1])

    def contraction(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the fraction of the prior variance of each functional that conditions and data
        remove: 0 if they are uninformative, 1 if they determine it."""
        prior_stds = np.stack([np.asarray(gp.prior_std(functionals)) for gp in self.components])
        prior_variance = np.tensordot(self.weights, prior_stds**2, 1)
        return jnp.clip(1.0 - self.std(functionals) ** 2 / prior_variance, 0.0, 1.0)

    def quantile(self, functionals: Functionals, level: float) -> Float[Array, " n"]:
        """Return the quantile of each functional for a probability."""
        return jnp.asarray(mixture_quantile(*self._moments(functionals), self.weights, level))

    def sample_functionals(
        self, batches: list[Functionals], key: PRNGKeyArray, count: int
    ) -> Float[Array, " s n"]:
        """Return joint draws of functionals, with a random component of the mixture for each."""
        component_key, normal_key = jax.random.split(key)
        indices = np.asarray(
            jax.random.choice(
                component_key, len(self.components), (count,), p=jnp.asarray(self.weights)
            )
        )
        normal = jax.random.normal(normal_key, (count, sum(len(batch) for batch in batches)))
        draws = np.zeros(normal.shape)
        for index in np.unique(indices):
            gp, selected = self.components[index], indices == index
            mean = jnp.concatenate([gp.mean(batch) for batch in batches])
            covariance = jnp.block([[gp.covariance(a, b) for b in batches] for a in batches])
            values, vectors = jnp.linalg.eigh(covariance)
            root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
            draws[selected] = np.asarray(mean + normal[selected] @ root.T)
        return jnp.asarray(draws)
