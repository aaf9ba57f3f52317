"""Rows that are left out one at a time, and predicted from all others.

With P = K + T, z = P⁻¹ b and pᵢ = (P⁻¹)ᵢᵢ, row i is predicted with mean bᵢ - zᵢ / pᵢ and variance
1 / pᵢ, its noise included: one factorisation serves all rows.
"""

import abc
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.functionals import Kernels, gram_diagonal, gram_of_blocks
from kernelpde.linalg import DenseFactor, solve_half, solve_with
from kernelpde.problem import Rows
from kernelpde.systems._features import Features

Numbers: TypeAlias = Int[Array, "d"] | np.ndarray
"""Of rows."""

Model: TypeAlias = Callable[[Float[Array, "p"]], tuple[Kernels, Rows]]
"""From θ to kernels, and to rows whose noise may depend on it."""


class AbstractLeftOut(eqx.Module):
    """What is predicted of some rows from all others.

    **Attributes:**

    - `weights`: z of these rows.
    - `precision`: p of these rows.
    """

    weights: eqx.AbstractVar[Float[Array, "d"]]
    precision: eqx.AbstractVar[Float[Array, "d"]]

    @abc.abstractmethod
    def along(
        self, model: Model, theta: Float[Array, "p"], direction: Float[Array, "p"]
    ) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
        """How z and p change with θ in a direction."""


class DenseLeftOut(AbstractLeftOut):
    """From columns of P⁻¹.

    With C = (P⁻¹)_d the columns of the rows in question, ∂z_d = -Cᵀ ∂P z and ∂p = -diag(Cᵀ ∂P C).

    **Attributes:** as for `AbstractLeftOut`, and

    - `columns`: C.
    - `every`: z of all rows.
    - `nugget`: of P.
    """

    weights: Float[Array, "d"]
    precision: Float[Array, "d"]
    columns: Float[Array, "M d"]
    every: Float[Array, "M"]
    nugget: Float[Array, ""]

    @staticmethod
    def of(system: DenseFactor, weights: Float[Array, "M"], numbers: Numbers) -> "DenseLeftOut":
        unit = jnp.zeros((len(weights), len(numbers)))
        half = system.solve_half(unit.at[numbers, jnp.arange(len(numbers))].set(1.0))
        columns = system.solve_other_half(half)
        precision = jnp.sum(half**2, axis=0)
        return DenseLeftOut(weights[numbers], precision, columns, weights, system.nugget)

    def along(
        self, model: Model, theta: Float[Array, "p"], direction: Float[Array, "p"]
    ) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
        vectors = jnp.concatenate([self.columns, self.every[:, None]], axis=1)
        vectors = jax.lax.stop_gradient(vectors)

        def product(t: Float[Array, "p"]) -> Float[Array, "M e"]:
            kernels, rows = model(t)
            added = added_to(kernels, rows, jax.lax.stop_gradient(self.nugget))
            return gram_of_blocks(kernels, rows.batches) @ vectors + added[:, None] * vectors

        times = jax.jvp(product, (theta,), (direction,))[1]
        return -self.columns.T @ times[:, -1], -jnp.sum(self.columns * times[:, :-1], axis=0)


class LowRankLeftOut(AbstractLeftOut):
    """From P = F Fᵀ + T with few columns F, H = I + Fᵀ T⁻¹ F.

    With fᵢ the rows of F and a = H⁻¹ Fᵀ T⁻¹ b,

        zᵢ = (bᵢ - fᵢ a) / Tᵢ,    pᵢ = (1 - qᵢ / Tᵢ) / Tᵢ,    qᵢ = fᵢ H⁻¹ fᵢᵀ.

    With E = ∂K_ΦΨ R⁻¹, D = R⁻ᵀ ∂K_ΨΨ R⁻¹ and gᵢ = H⁻¹ fᵢᵀ,

        ∂qᵢ = 2 eᵢ gᵢ - gᵢᵀ (D + Fᵀ T⁻¹ E + Eᵀ T⁻¹ F - Fᵀ T⁻² ∂T F) gᵢ,
        ∂(fᵢ a) = eᵢ a + fᵢ H⁻¹ (Eᵀ z - D a - Fᵀ T⁻¹ (E a + ∂T z)).

    Where T is the variance of noise nothing cancels: qᵢ / Tᵢ is the part of a datum by which it
    determines its own prediction.

    **Attributes:** as for `AbstractLeftOut`, and

    - `features`, `middle`, `coefficients`: F, the Cholesky factor of H, and a.
    - `rhs`, `added`: b and T.
    - `numbers`: of the rows in question.
    - `nugget`: in T.
    """

    weights: Float[Array, "d"]
    precision: Float[Array, "d"]
    features: Features
    middle: Float[Array, "r r"]
    coefficients: Float[Array, "r"]
    rhs: Float[Array, "M"]
    added: Float[Array, "M"]
    numbers: Numbers
    nugget: Float[Array, ""]

    @staticmethod
    def of(
        features: Features,
        middle: Float[Array, "r r"],
        coefficients: Float[Array, "r"],
        added: Float[Array, "M"],
        numbers: Numbers,
        nugget: Float[Array, ""],
    ) -> "LowRankLeftOut":
        def one(part: Float[Array, "r n"], _, factor, a):
            return a @ part, jnp.sum(solve_half(factor, part) ** 2, axis=0)

        seen, known = features.by_row(one, (), middle, coefficients)
        rhs = features.rows.target
        weights = (rhs - seen) / added
        precision = (1.0 - known / added) / added
        return LowRankLeftOut(
            weights[numbers],
            precision[numbers],
            features,
            middle,
            coefficients,
            rhs,
            added,
            numbers,
            nugget,
        )

    def along(
        self, model: Model, theta: Float[Array, "p"], direction: Float[Array, "p"]
    ) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
        def moving(t: Float[Array, "p"]):
            kernels, rows = model(t)
            return eqx.filter(kernels, eqx.is_inexact_array), added_to(kernels, rows, self.nugget)

        slope, widened = jax.jvp(moving, (theta,), (direction,))[1]
        features, a = self.features.along(slope), self.coefficients
        z = (self.rhs - self.features.times(a)) / self.added

        def sums(parts, numbers):
            f, e = parts
            weight, change, dual = numbers
            pulled = weight * (a @ e + change * dual)
            return (f * weight) @ e.T, (f * (weight**2 * change)) @ f.T, e @ dual - f @ pulled

        crossed, spread, pull = features.summed(sums, (1.0 / self.added, widened, z))
        square = features.square_slope()
        bent = square + crossed + crossed.T - spread
        turned = solve_with(self.middle, pull - square @ a)

        def one(parts, _, factor, bent, a, turned):
            f, e = parts
            g = solve_with(factor, f)
            return a @ e + turned @ f, jnp.sum(g * (2.0 * e - bent @ g), axis=0), jnp.sum(f * g, 0)

        seen, known, share = features.by_row(one, (), self.middle, bent, a, turned)
        weights = -(seen + widened * z) / self.added
        precision = (-widened - known + 2.0 * share * widened / self.added) / self.added**2
        return weights[self.numbers], precision[self.numbers]


def added_to(kernels: Kernels, rows: Rows, nugget: Float[Array, ""]) -> Float[Array, "M"]:
    """T = Σ + ηD, with D the diagonal of K + Σ."""
    size = gram_diagonal(kernels, rows.batches) + rows.variance
    return rows.variance + nugget * size
