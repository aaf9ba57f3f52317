"""Many functionals through a few of them: variances at a fraction of the cost.

The exact variance of N functionals takes a triangular solve each, N M² operations, far more than
the factorization for N of several M. But functionals that lie close together know much of each
other: with pivots Z among them, each ψ is a combination of pivots up to a rest e, whose size in the
prior, √d with d = κ(ψ, ψ) - κ(ψ, Z) κ(Z, Z)⁻¹ κ(Z, ψ), bounds the error of its standard deviation:

    |std(ψ) - std(ψ - e)| ≤ std(e) ≤ √d,

since no posterior variance is larger than the prior one.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.functionals import Functionals, Kernels, gram, gram_diagonal
from kernelpde.linear_solvers import DenseFactor

_CANDIDATES = 1024
"""Number of functionals among which pivots are chosen."""

_DEPTH = 1e-14
"""No more than this part of a prior variance can be resolved beside it."""


def pivots(
    kernels: Kernels, functionals: Functionals, most: int, depth: float
) -> Functionals | None:
    """Functionals that span all of them; `None` if that takes more than `most`.

    **Arguments:**

    - `kernels`, `functionals`: what is to be spanned.
    - `most`: where pivots no longer pay.
    - `depth`: pivots are added until no more than this part of a prior variance is left.
    """
    if functionals.width > 1:
        return None
    count = len(functionals)
    rng = np.random.default_rng(count)
    chosen = np.sort(rng.choice(count, size=min(_CANDIDATES, count), replace=False))
    candidates = functionals[array(chosen)]
    matrix = np.array(_gram(kernels, candidates, candidates))
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    from scipy.linalg import get_lapack_funcs  # slow to import, and needed for many points only

    (pivoted,) = get_lapack_funcs(("pstrf",), (matrix,))
    _, order, rank, _ = pivoted(scale[:, None] * matrix * scale, tol=max(depth, _DEPTH), lower=1)
    if rank > most:
        return None
    return candidates[array(order[:rank] - 1)]


_gram = compiled(gram)


class Compressed(eqx.Module):
    """The posterior covariance of pivots, whitened by their prior.

    **Attributes:**

    - `chosen`: the pivots Z.
    - `factor`: L with κ(Z, Z) = L Lᵀ, up to a nugget at rounding level.
    - `root`: S with S Sᵀ = I - L⁻¹ κ(Z, Φ) P⁻¹ κ(Φ, Z) L⁻ᵀ.
    """

    chosen: Functionals
    factor: Float[Array, "r r"]
    root: Float[Array, "r r"]

    def coordinates(self, kernels: Kernels, functionals: Functionals) -> Float[Array, "r n"]:
        """v = L⁻¹ κ(Z, ψ) for each functional."""
        cross = gram(kernels, self.chosen, functionals)
        return jax.scipy.linalg.solve_triangular(self.factor, cross, lower=True)


@compiled
def compressed(
    kernels: Kernels, chosen: Functionals, rows: tuple[Functionals, ...], system: DenseFactor
) -> Compressed:
    """Condition the pivots on everything that is known."""
    prior = gram(kernels, chosen, chosen)
    lifted = prior + _DEPTH * jnp.diag(jnp.diagonal(prior))
    factor = jnp.linalg.cholesky(lifted)
    cross = jnp.concatenate([gram(kernels, batch, chosen) for batch in rows])
    whitened = jax.scipy.linalg.solve_triangular(factor, cross.T, lower=True).T
    half = system.solve_half(whitened)
    values, vectors = jnp.linalg.eigh(jnp.eye(len(chosen)) - half.T @ half)
    return Compressed(chosen, factor, vectors * jnp.sqrt(jnp.maximum(values, 0.0)))


@compiled
def compressed_variance(
    kernels: Kernels, few: Compressed, functionals: Functionals
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Posterior variance of each functional as seen through the pivots, and the rest d."""
    coordinates = few.coordinates(kernels, functionals)
    rest = gram_diagonal(kernels, [functionals]) - jnp.sum(coordinates**2, axis=0)
    seen = jnp.sum((few.root.T @ coordinates) ** 2, axis=0)
    return seen, jnp.maximum(rest, 0.0)
