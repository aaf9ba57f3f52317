"""The residuals of a problem, linearized at a state: one linear functional per row."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.compiling import pointwise
from kernelpde.functionals import Functionals, Stack, Term, expansion
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._residual import Residual


class LinearizedProblem(eqx.Module):
    """Residuals linearized at a state uᵏ: Φu = b up to noise, one row per residual.

    **Attributes:**

    - `stacks`: Φ, one stack per condition.
    - `rhs`: b = Φuᵏ - F(uᵏ).
    - `variance`: the diagonal of Σ.
    - `curved`: per condition, the coefficients of the entries in which its residual is nonlinear.
    - `nonlinear`: per condition, the numbers of these entries among the terms of its stack.
    """

    stacks: tuple[Stack, ...]
    rhs: Float[Array, " M"]
    variance: Float[Array, " M"]
    curved: tuple[Float[Array, "_ _ _"], ...]
    nonlinear: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @property
    def batches(self) -> tuple[Functionals, ...]:
        """Φ with one batch per condition and equation."""
        return tuple(batch for stack in self.stacks for batch in stack.batches)

    @property
    def nonlinear_terms(self) -> tuple[tuple[Term, ...], ...]:
        """Per condition, the entries in which its residual is nonlinear."""
        return tuple(
            tuple(stack.terms[n] for n in numbers)
            for stack, numbers in zip(self.stacks, self.nonlinear, strict=True)
        )

    def numbers(self, conditions: tuple[int, ...]) -> Int[np.ndarray, " d"]:
        """The numbers of the rows of some conditions."""
        ends = np.cumsum([0, *(len(stack) for stack in self.stacks)])
        return np.concatenate([np.arange(ends[c], ends[c + 1]) for c in conditions])

    def expansion(self, weights: Float[Array, " M"]) -> tuple[Functionals, ...]:
        """Σᵢ wᵢ φᵢ, one functional per point of each condition."""
        return expansion(self.stacks, weights)

    def through_jets(self, entries: tuple[Array, ...]) -> Float[Array, " M"]:
        """The part of Φu that comes from the nonlinear entries."""
        parts = [
            stack.summed(jnp.einsum("nrk,nk->rn", c, e))
            for stack, c, e in zip(self.stacks, self.curved, entries, strict=True)
        ]
        return jnp.concatenate(parts)

    def with_noises(self, noises: Sequence[Float[Array, ""] | None]) -> "LinearizedProblem":
        """The same with log σ of some conditions replaced."""
        if not any(noise is not None for noise in noises):
            return self
        ends = np.cumsum([0, *(len(stack) for stack in self.stacks)])
        parts = [
            self.variance[a:b] if noise is None else jnp.full(b - a, jnp.exp(2.0 * noise))
            for noise, (a, b) in zip(noises, pairwise(ends), strict=True)
        ]
        return eqx.tree_at(lambda rows: rows.variance, self, jnp.concatenate(parts))


def linearized(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    jets_there: tuple[Float[Array, "_ _"], ...],
) -> LinearizedProblem:
    """The residuals at the points of `blocks`, linearized at a state given by its entries."""
    stacks, targets, variances, curved = [], [], [], []
    for residual, block, entries in zip(residuals, blocks, jets_there, strict=True):
        value, slope = residual.linearize(block.points, block.normals, block.data, entries)
        nonlinear = slope[:, :, list(residual.nonlinear)]
        targets.append(block.by_rows(jnp.einsum("nrk,nk->nr", nonlinear, entries) - value))
        curved.append(block.weighted(nonlinear))
        stacks.append(
            Stack(
                block.points,
                block.weighted(slope),
                residual.terms,
                residual.components,
                block.width,
            )
        )
        variances.append(jnp.tile(block.noise**2, len(residual.components)))
    return LinearizedProblem(
        tuple(stacks),
        jnp.concatenate(targets),
        jnp.concatenate(variances),
        tuple(curved),
        tuple(tuple(residual.nonlinear) for residual in residuals),
    )


linearize = pointwise(linearized)
"""`linearized`, compiled."""
