"""Rows that are left out one at a time, and predicted from all others.

With P = K + T, z = P⁻¹ b and pᵢ = (P⁻¹)ᵢᵢ, row i is predicted with mean bᵢ - zᵢ / pᵢ and variance
1 / pᵢ, its noise included: one factorization serves all rows.
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
from kernelpde.linear_solvers._cholesky import solve_half, solve_with
from kernelpde.linear_solvers._dense_factor import DenseFactor
from kernelpde.linear_solvers._features import Features, Parts
from kernelpde.problem import LinearizedProblem

Model: TypeAlias = Callable[[Float[Array, " p"]], tuple[Kernels, LinearizedProblem]]
"""From θ to kernels, and to rows whose noise may depend on it."""


class AbstractLeftOut(eqx.Module):
    """What is predicted of some rows from all others.

    **Attributes:**

    - `weights`: z of these rows.
    - `precision`: p of these rows.
    """

    weights: eqx.AbstractVar[Float[Array, " d"]]
    precision: eqx.AbstractVar[Float[Array, " d"]]

    @abc.abstractmethod
    def slopes(
        self, model: Model, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        """The derivatives of z and p in each entry of θ."""

    @property
    def joint(self) -> Float[Array, "d d"]:
        """The block of P⁻¹ that belongs to these rows."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks of the inverse.")

    def joint_slopes(
        self, model: Model, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d d"]]:
        """The derivatives of z and of this block in each entry of θ."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks of the inverse.")


class DenseLeftOut(AbstractLeftOut):
    """From columns of P⁻¹.

    With C = (P⁻¹)_d the columns of the rows in question, ∂z_d = -Cᵀ ∂P z and ∂B = -Cᵀ ∂P C for the
    block B of P⁻¹ with diagonal p.

    **Attributes:** as for `AbstractLeftOut`, and

    - `columns`: C.
    - `numbers`: of the rows in question.
    - `every`: z of all rows.
    - `nugget`: of P.
    """

    weights: Float[Array, " d"]
    precision: Float[Array, " d"]
    columns: Float[Array, "M d"]
    numbers: Int[np.ndarray, " d"]
    every: Float[Array, " M"]
    nugget: Float[Array, ""]

    @staticmethod
    def of(
        system: DenseFactor, weights: Float[Array, " M"], numbers: Int[np.ndarray, " d"]
    ) -> "DenseLeftOut":
        unit = jnp.zeros((len(weights), len(numbers)))
        half = system.solve_half(unit.at[numbers, jnp.arange(len(numbers))].set(1.0))
        columns = system.solve_other_half(half)
        precision = jnp.sum(half**2, axis=0)
        return DenseLeftOut(weights[numbers], precision, columns, numbers, weights, system.nugget)

    @property
    def joint(self) -> Float[Array, "d d"]:
        return self.columns[self.numbers]

    def slopes(
        self, model: Model, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        def diagonal(times: Float[Array, "M d"]) -> Float[Array, " d"]:
            return -jnp.sum(self.columns * times, axis=0)

        return self._slopes(model, theta, diagonal)

    def joint_slopes(
        self, model: Model, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d d"]]:
        return self._slopes(model, theta, lambda times: -self.columns.T @ times)

    def _slopes(self, model: Model, theta: Float[Array, " p"], of_inverse: Callable) -> tuple:
        """∂z_d, and what is made of ∂P C."""
        vectors = jnp.concatenate([self.columns, self.every[:, None]], axis=1)
        vectors = jax.lax.stop_gradient(vectors)

        def product(t: Float[Array, " p"]) -> Float[Array, "M e"]:
            kernels, rows = model(t)
            added = added_to(kernels, rows, jax.lax.stop_gradient(self.nugget))
            return gram_of_blocks(kernels, rows.batches) @ vectors + added[:, None] * vectors

        def along(direction: Float[Array, " p"]) -> tuple[Float[Array, " d"], Array]:
            times = jax.jvp(product, (theta,), (direction,))[1]
            return -self.columns.T @ times[:, -1], of_inverse(times[:, :-1])

        return jax.lax.map(along, jnp.eye(len(theta)))


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

    - `features`, `some`: F for all rows, and for those in question.
    - `middle`, `coefficients`: the Cholesky factor of H, and a.
    - `dual`, `added`: z and T of all rows.
    - `numbers`: of the rows in question.
    - `known`: q of these rows.
    - `nugget`: in T.
    """

    weights: Float[Array, " d"]
    precision: Float[Array, " d"]
    features: Features
    some: Features
    middle: Float[Array, "r r"]
    coefficients: Float[Array, " r"]
    dual: Float[Array, " M"]
    added: Float[Array, " M"]
    numbers: Int[np.ndarray, " d"]
    known: Float[Array, " d"]
    nugget: Float[Array, ""]

    @staticmethod
    def of(
        features: Features,
        rows: LinearizedProblem,
        conditions: tuple[int, ...],
        middle: Float[Array, "r r"],
        coefficients: Float[Array, " r"],
        added: Float[Array, " M"],
        nugget: Float[Array, ""],
    ) -> "LowRankLeftOut":
        numbers = rows.numbers(conditions)
        some = features.of(tuple(b for c in conditions for b in rows.stacks[c].batches))
        (known,) = some.by_row(
            lambda part, _, factor: (jnp.sum(solve_half(factor, part) ** 2, axis=0),), (), middle
        )
        dual = (rows.rhs - features.times(coefficients)) / added
        return LowRankLeftOut(
            dual[numbers],
            (1.0 - known / added[numbers]) / added[numbers],
            features,
            some,
            middle,
            coefficients,
            dual,
            added,
            numbers,
            known,
            nugget,
        )

    def slopes(
        self, model: Model, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        def moving(t: Float[Array, " p"]):
            kernels, rows = model(t)
            return eqx.filter(kernels, eqx.is_inexact_array), added_to(kernels, rows, self.nugget)

        def along(direction: Float[Array, " p"]):
            return jax.jvp(moving, (theta,), (direction,))[1]

        directions, widened = jax.vmap(along)(jnp.eye(len(theta)))
        features, a = self.features.along(directions), self.coefficients

        def sums(parts: Parts, numbers, a):
            f, (weight, dual, *changes) = parts.features, numbers
            scaled = f * weight

            def one(direction, change):
                e = parts.slope(direction)
                pulled = weight * (a @ e + change * dual)
                # Half of ∂T here, and half in the transpose.
                crossed = scaled @ (e - (0.5 * weight * change) * f).T
                return crossed, e @ dual - f @ pulled

            return jax.lax.map(lambda args: one(*args), (parts.directions, jnp.stack(changes)))

        crossed, pull = features.summed(sums, (1.0 / self.added, self.dual, *widened), a)
        square = features.square_slopes()
        bent = square + crossed + crossed.mT
        turned = jax.vmap(lambda p, d: solve_with(self.middle, p - d @ a))(pull, square)

        def rows(parts: Parts, _, factor, bent, a, turned):
            f = parts.features
            g = solve_with(factor, f)

            def one(direction, bent, turned):
                e = parts.slope(direction)
                return a @ e + turned @ f, jnp.sum(g * (2.0 * e - bent @ g), axis=0)

            found = jax.lax.map(lambda args: one(*args), (parts.directions, bent, turned))
            return tuple(part for both in found for part in both)

        found = self.some.along(directions).by_row(rows, (), self.middle, bent, a, turned)
        seen, known = jnp.stack(found).reshape(2, len(theta), -1)
        added, widened = self.added[self.numbers], widened[:, self.numbers]
        weights = -(seen + widened * self.weights) / added
        precision = (-widened - known + 2.0 * self.known * widened / added) / added**2
        return weights, precision


def added_to(
    kernels: Kernels, rows: LinearizedProblem, nugget: Float[Array, ""]
) -> Float[Array, " M"]:
    """T = Σ + ηD, with D the diagonal of K + Σ."""
    size = gram_diagonal(kernels, rows.batches) + rows.variance
    return rows.variance + nugget * size
