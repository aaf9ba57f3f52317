"""Leave-one-out predictions of rows.

With P = K + T, z = P⁻¹ b and pᵢ = (P⁻¹)ᵢᵢ, row i given all others has mean bᵢ - zᵢ / pᵢ and
variance 1 / pᵢ, noise included. One factorization serves all rows.
"""

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.functionals import Prior, block_gram
from kernelpde.linear_solvers._cholesky import cholesky_solve, solve_transposed
from kernelpde.linear_solvers._dense_factor import DenseFactor
from kernelpde.linear_solvers._nystrom import LowRankFactors, NystromChunk, NystromFactor
from kernelpde.linear_solvers._products import diagonal_and_shift
from kernelpde.problem import LinearSystem

KernelsAndRows: TypeAlias = Callable[[Float[Array, " p"]], tuple[Prior, LinearSystem]]
"""Function from θ to kernels and to a system whose noise may depend on θ."""


class AbstractLeaveOneOut(eqx.Module):
    """Leave-one-out predictions of selected rows.

    **Attributes:**

    - `weights`: weights z of these rows.
    - `precision`: precisions p of these rows.
    """

    weights: Float[Array, " d"]
    precision: Float[Array, " d"]

    @abc.abstractmethod
    def theta_derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        """Return the derivatives of z and p in each entry of θ."""

    @property
    def joint_precision(self) -> Float[Array, "d d"]:
        """Block of P⁻¹ that belongs to these rows."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks of the inverse.")

    def joint_theta_derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d d"]]:
        """Return the derivatives of z and of the joint precision in each entry of θ."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks of the inverse.")


class DenseLeaveOneOut(AbstractLeaveOneOut):
    """Leave-one-out predictions from columns of P⁻¹.

    With C = (P⁻¹)_d the columns of the selected rows, ∂z_d = -Cᵀ ∂P z and ∂B = -Cᵀ ∂P C for the
    block B of P⁻¹ with diagonal p.

    **Attributes:** as for `AbstractLeaveOneOut`, and

    - `columns`: columns C.
    - `row_indices`: indices of the selected rows.
    - `all_weights`: weights z of all rows.
    - `nugget`: nugget of P.
    """

    columns: Float[Array, "M d"]
    row_indices: Int[np.ndarray, " d"]
    all_weights: Float[Array, " M"]
    nugget: Float[Array, ""]

    @staticmethod
    def from_factor(
        factor: DenseFactor, weights: Float[Array, " M"], row_indices: Int[np.ndarray, " d"]
    ) -> "DenseLeaveOneOut":
        """Compute the columns of P⁻¹ from its factor."""
        unit = jnp.zeros((len(weights), len(row_indices)))
        half = factor.solve_transposed(unit.at[row_indices, jnp.arange(len(row_indices))].set(1.0))
        columns = factor.solve_triangular(half)
        precision = jnp.sum(half**2, axis=0)
        return DenseLeaveOneOut(
            weights[row_indices], precision, columns, row_indices, weights, factor.nugget
        )

    @property
    def joint_precision(self) -> Float[Array, "d d"]:
        return self.columns[self.row_indices]

    def theta_derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        def diagonal(products: Float[Array, "M d"]) -> Float[Array, " d"]:
            return -jnp.sum(self.columns * products, axis=0)

        return self._derivatives(model, theta, diagonal)

    def joint_theta_derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d d"]]:
        return self._derivatives(model, theta, lambda products: -self.columns.T @ products)

    def _derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"], from_products: Callable
    ) -> tuple:
        """Return ∂z_d and `from_products(∂P C)` for each entry of θ."""
        vectors = jnp.concatenate([self.columns, self.all_weights[:, None]], axis=1)
        vectors = jax.lax.stop_gradient(vectors)

        def product(theta: Float[Array, " p"]) -> Float[Array, "M e"]:
            prior, system = model(theta)
            _, shift = diagonal_and_shift(prior, system, jax.lax.stop_gradient(self.nugget))
            return block_gram(prior, system.batches) @ vectors + shift[:, None] * vectors

        def derivative(direction: Float[Array, " p"]) -> tuple[Float[Array, " d"], Array]:
            products = jax.jvp(product, (theta,), (direction,))[1]
            return -self.columns.T @ products[:, -1], from_products(products[:, :-1])

        return jax.lax.map(derivative, jnp.eye(len(theta)))


class LowRankLeaveOneOut(AbstractLeaveOneOut):
    """Leave-one-out predictions from P = F Fᵀ + T with few columns F, and H = I + Fᵀ T⁻¹ F.

    With fᵢ the rows of F and a = H⁻¹ Fᵀ T⁻¹ b,

        zᵢ = (bᵢ - fᵢ a) / Tᵢ,    pᵢ = (1 - qᵢ / Tᵢ) / Tᵢ,    qᵢ = fᵢ H⁻¹ fᵢᵀ.

    With E = ∂K_ΦΨ R⁻¹, D = R⁻ᵀ ∂K_ΨΨ R⁻¹ and gᵢ = H⁻¹ fᵢᵀ,

        ∂qᵢ = 2 eᵢ gᵢ - gᵢᵀ (D + Fᵀ T⁻¹ E + Eᵀ T⁻¹ F - Fᵀ T⁻² ∂T F) gᵢ,
        ∂(fᵢ a) = eᵢ a + fᵢ H⁻¹ (Eᵀ z - D a - Fᵀ T⁻¹ (E a + ∂T z)).

    Nothing cancels where T is the variance of noise: qᵢ / Tᵢ is the leverage of a datum.

    **Attributes:** as for `AbstractLeaveOneOut`, and

    - `features`, `selected`: Nyström factors F of all rows and of the selected ones.
    - `factors`: factors of the low-rank solve.
    - `all_weights`, `diagonal_shift`: z and T of all rows.
    - `row_indices`: indices of the selected rows.
    - `explained_variance`: q of the selected rows.
    - `nugget`: nugget in T.
    """

    features: NystromFactor
    selected: NystromFactor
    factors: LowRankFactors
    all_weights: Float[Array, " M"]
    diagonal_shift: Float[Array, " M"]
    row_indices: Int[np.ndarray, " d"]
    explained_variance: Float[Array, " d"]
    nugget: Float[Array, ""]

    @staticmethod
    def from_factors(
        features: NystromFactor,
        factors: LowRankFactors,
        system: LinearSystem,
        conditions: tuple[int, ...],
        diagonal_shift: Float[Array, " M"],
        nugget: Float[Array, ""],
    ) -> "LowRankLeaveOneOut":
        """Predict the rows of some conditions."""
        row_indices = system.row_indices(conditions)
        selected = replace(
            features, batches=tuple(b for c in conditions for b in system.stacks[c].batches)
        )
        (explained_variance,) = selected.map_rows(
            lambda chunk, _, factor: (
                jnp.sum(solve_transposed(factor, chunk.features) ** 2, axis=0),
            ),
            (),
            factors.core_factor,
        )
        weights = (system.rhs - features.times(factors.coefficients)) / diagonal_shift
        shift = diagonal_shift[row_indices]
        return LowRankLeaveOneOut(
            weights[row_indices],
            (1.0 - explained_variance / shift) / shift,
            features,
            selected,
            factors,
            weights,
            diagonal_shift,
            row_indices,
            explained_variance,
            nugget,
        )

    def theta_derivatives(
        self, model: KernelsAndRows, theta: Float[Array, " p"]
    ) -> tuple[Float[Array, "p d"], Float[Array, "p d"]]:
        def arrays_and_shift(theta: Float[Array, " p"]):
            prior, system = model(theta)
            arrays = eqx.filter(prior, eqx.is_inexact_array)
            return arrays, diagonal_and_shift(prior, system, self.nugget)[1]

        def tangents(direction: Float[Array, " p"]):
            return jax.jvp(arrays_and_shift, (theta,), (direction,))[1]

        directions, shift_dots = jax.vmap(tangents)(jnp.eye(len(theta)))
        features = replace(self.features, directions=directions)
        core_factor, a = self.factors.core_factor, self.factors.coefficients

        def sums(chunk: NystromChunk, row_arrays, a):
            f, (inverse_shift, z, *shift_dots) = chunk.features, row_arrays
            scaled = f * inverse_shift

            def sums_in(direction, shift_dot):
                e = chunk.tangent(direction)
                pulled = inverse_shift * (a @ e + shift_dot * z)
                # Half of ∂T enters here and half through the transpose.
                crossed = scaled @ (e - (0.5 * inverse_shift * shift_dot) * f).T
                return crossed, e @ z - f @ pulled

            return jax.lax.map(
                lambda pair: sums_in(*pair), (chunk.factor.directions, jnp.stack(shift_dots))
            )

        row_arrays = (1.0 / self.diagonal_shift, self.all_weights, *shift_dots)
        crossed, pulled = features.sum_rows(sums, row_arrays, a)
        whitened = features.whitened_tangents()
        core_dots = whitened + crossed + crossed.mT
        a_dots = jax.vmap(lambda p, d: cholesky_solve(core_factor, p - d @ a))(pulled, whitened)

        def derivatives(chunk: NystromChunk, _, core_factor, core_dots, a, a_dots):
            f = chunk.features
            g = cholesky_solve(core_factor, f)

            def derivatives_in(direction, core_dot, a_dot):
                e = chunk.tangent(direction)
                return a @ e + a_dot @ f, jnp.sum(g * (2.0 * e - core_dot @ g), axis=0)

            pairs = jax.lax.map(
                lambda operands: derivatives_in(*operands),
                (chunk.factor.directions, core_dots, a_dots),
            )
            return tuple(derivative for pair in pairs for derivative in pair)

        rows = replace(self.selected, directions=directions).map_rows(
            derivatives, (), core_factor, core_dots, a, a_dots
        )
        value_dots, explained_dots = jnp.stack(rows).reshape(2, len(theta), -1)
        shift, shift_dots = self.diagonal_shift[self.row_indices], shift_dots[:, self.row_indices]
        weight_dots = -(value_dots + shift_dots * self.weights) / shift
        precision_dots = (
            -shift_dots - explained_dots + 2.0 * self.explained_variance * shift_dots / shift
        ) / shift**2
        return weight_dots, precision_dots
