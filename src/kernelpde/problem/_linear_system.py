"""Linear systems: conditions linearized at an iterate, one functional per row."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.functionals import Functionals, StackedFunctionals, Term, expand


class LinearSystem(eqx.Module):
    """Residuals linearized at an iterate uᵏ: Φu = b up to noise, one row per residual.

    **Attributes:**

    - `stacks`: functionals Φ, one stack per condition.
    - `rhs`: right-hand side b = Φuᵏ - F(uᵏ).
    - `variance`: diagonal of the noise covariance Σ.
    - `nonlinear_coefficients`: coefficients of the nonlinear jet entries, per condition.
    - `nonlinear_indices`: indices of the nonlinear jet entries among the terms of each stack.
    - `row_scale`: D, by which the nugget of each row is multiplied; by default the diagonal of
      K + Σ.
    """

    stacks: tuple[StackedFunctionals, ...]
    rhs: Float[Array, " M"]
    variance: Float[Array, " M"]
    nonlinear_coefficients: tuple[Float[Array, "_ _ _"], ...]
    nonlinear_indices: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    row_scale: Float[Array, " M"] | None = None

    @property
    def batches(self) -> tuple[Functionals, ...]:
        """Functionals Φ, one batch per condition and equation."""
        return tuple(batch for stack in self.stacks for batch in stack.batches)

    @property
    def nonlinear_terms(self) -> tuple[tuple[Term, ...], ...]:
        """Jet entries in which the residual of each condition is nonlinear."""
        return tuple(
            tuple(stack.terms[i] for i in indices)
            for stack, indices in zip(self.stacks, self.nonlinear_indices, strict=True)
        )

    @property
    def _row_ranges(self) -> list[tuple[int, int]]:
        """First row of each condition, and of the next."""
        return list(pairwise(np.cumsum([0, *(len(stack) for stack in self.stacks)]).tolist()))

    def row_indices(self, conditions: tuple[int, ...]) -> Int[np.ndarray, " d"]:
        """Return the indices of the rows of some conditions."""
        return np.concatenate([np.arange(*self._row_ranges[c]) for c in conditions])

    def expansion(self, weights: Float[Array, " M"]) -> tuple[Functionals, ...]:
        """Return Σᵢ wᵢ φᵢ, one functional per point of each condition."""
        return expand(self.stacks, weights)

    def apply_to_jets(self, jet_values: tuple[Array, ...]) -> Float[Array, " M"]:
        """Return the contribution of the nonlinear jet entries to Φu."""
        contributions = [
            stack.reduce_quadrature(jnp.einsum("nrk,nk->rn", coefficients, values))
            for stack, coefficients, values in zip(
                self.stacks, self.nonlinear_coefficients, jet_values, strict=True
            )
        ]
        return jnp.concatenate(contributions)

    def with_noises(self, noises: Sequence[Float[Array, ""] | None]) -> "LinearSystem":
        """Replace log σ of the conditions whose entry is not None."""
        if all(noise is None for noise in noises):
            return self
        variances = [
            self.variance[start:stop]
            if noise is None
            else jnp.full(stop - start, jnp.exp(2.0 * noise))
            for noise, (start, stop) in zip(noises, self._row_ranges, strict=True)
        ]
        return eqx.tree_at(lambda system: system.variance, self, jnp.concatenate(variances))
