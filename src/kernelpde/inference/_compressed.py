"""Approximate variances of many functionals by inducing functionals.

The exact variances of N functionals cost N triangular solves, that is N M² operations. For N of
several M this exceeds the cost of the factorization. Neighboring functionals are strongly
correlated: with inducing functionals Z among them, each ψ is a combination of Z plus a remainder e.
The prior variance d = κ(ψ, ψ) - κ(ψ, Z) κ(Z, Z)⁻¹ κ(Z, ψ) of e bounds the error of the posterior
standard deviation,

    |std(ψ) - std(ψ - e)| ≤ std(e) ≤ √d,

since a posterior variance never exceeds the prior variance.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY, to_array
from kernelpde.compiling import compiled
from kernelpde.functionals import Functionals, Prior, gram, gram_diagonal
from kernelpde.linear_solvers import MIN_NUGGET, DenseFactor, pivoted_cholesky

CHUNK = 1024
"""Number of functionals that are conditioned at a time, and among which inducing functionals are
selected. Half of it selects from too few, double factors eight times as long. Not measured."""


def select_inducing(
    prior: Prior, functionals: Functionals, max_rank: int, tolerance: float
) -> Functionals | None:
    """Select inducing functionals; return `None` if more than `max_rank` are needed.

    **Arguments:**

    - `kernels`, `functionals`: kernels and functionals of the approximated covariance.
    - `max_rank`: largest number of inducing functionals.
    - `tolerance`: largest conditional variance of a candidate, relative to its prior variance.
    """
    count = len(functionals)
    rng = np.random.default_rng(count)
    indices = np.sort(rng.choice(count, size=min(CHUNK, count), replace=False))
    candidates = functionals[to_array(indices)]
    matrix = np.array(_gram(prior, candidates, candidates))
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), TINY))
    correlation = scale[:, None] * matrix * scale
    order, rank = pivoted_cholesky(correlation, max(tolerance, 10 * MIN_NUGGET))
    if rank > max_rank:
        return None
    return candidates[to_array(order[:rank])]


_gram = compiled(gram)


class CompressedPosterior(eqx.Module):
    """Posterior covariance of the inducing functionals, whitened by their prior covariance.

    **Attributes:**

    - `inducing`: inducing functionals Z.
    - `factor`: Cholesky factor L with κ(Z, Z) = L Lᵀ, up to a nugget at rounding level.
    - `root`: matrix S with S Sᵀ = I - L⁻¹ κ(Z, Φ) P⁻¹ κ(Φ, Z) L⁻ᵀ.
    """

    inducing: Functionals
    factor: Float[Array, "r r"]
    root: Float[Array, "r r"]

    def whitened_covariance(self, prior: Prior, functionals: Functionals) -> Float[Array, "r n"]:
        """Return v = L⁻¹ κ(Z, ψ) for each functional ψ."""
        cross = gram(prior, self.inducing, functionals)
        return jax.scipy.linalg.solve_triangular(self.factor, cross, lower=True)


@compiled
def compress_posterior(
    prior: Prior, inducing: Functionals, rows: tuple[Functionals, ...], system: DenseFactor
) -> CompressedPosterior:
    """Condition the inducing functionals on the rows of the linear system."""
    inducing_gram = gram(prior, inducing, inducing)
    factor = jnp.linalg.cholesky(
        inducing_gram + 10 * MIN_NUGGET * jnp.diag(jnp.diagonal(inducing_gram))
    )
    cross = jnp.concatenate([gram(prior, batch, inducing) for batch in rows])
    whitened = jax.scipy.linalg.solve_triangular(factor, cross.T, lower=True).T
    half = system.solve_transposed(whitened)
    values, vectors = jnp.linalg.eigh(jnp.eye(len(inducing)) - half.T @ half)
    return CompressedPosterior(inducing, factor, vectors * jnp.sqrt(jnp.maximum(values, 0.0)))


@compiled
def compressed_variance(
    prior: Prior, compressed: CompressedPosterior, functionals: Functionals
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Return the posterior variance explained by the inducing functionals, and the remainder d."""
    whitened = compressed.whitened_covariance(prior, functionals)
    remainder = gram_diagonal(prior, [functionals]) - jnp.sum(whitened**2, axis=0)
    explained = jnp.sum((compressed.root.T @ whitened) ** 2, axis=0)
    return explained, jnp.maximum(remainder, 0.0)
