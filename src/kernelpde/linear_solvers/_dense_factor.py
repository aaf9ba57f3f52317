"""Factorization of dense symmetric positive definite systems."""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from kernelpde.linear_solvers._cholesky import (
    cholesky,
    cholesky_solve,
    restore_matrix,
    solve_transposed,
    solve_triangular,
)
from kernelpde.linear_solvers._nugget import MIN_NUGGET
from kernelpde.results import RESULTS, is_any, select_result

Product: TypeAlias = Callable[[Float[Array, " M"]], Float[Array, " M"]]
"""Matrix-vector product v ↦ Kv."""


def factorize(
    matrix: Float[Array, "M M"],
    noise: Float[Array, " M"],
    nugget: float | Float[Array, ""],
    max_nugget: float | Float[Array, ""],
    row_scale: Float[Array, " M"] | None = None,
    matrix_diagonal: Float[Array, " M"] | None = None,
) -> "DenseFactor":
    """Factor P = K + Σ + ηD, with D the diagonal of K + Σ or the given row scale.

    Scaled to unit diagonal, P is the scaled matrix plus ηI. The scaling is left to the
    factorization, whose rounding errors do not depend on it. If P is not numerically positive
    definite, η is multiplied by ten until it is, or until `max_nugget` is reached.

    **Arguments:**

    - `matrix`: symmetric matrix K.
    - `noise`: diagonal of Σ.
    - `nugget`, `max_nugget`: initial and largest η.
    - `row_scale`: D, if it is not the diagonal of K + Σ.
    - `matrix_diagonal`: diagonal of K. If it is passed, and K has no other use, the pass that
      writes the matrix also adds Σ and the nugget.
    """
    kernel_diagonal = jnp.diagonal(matrix) if matrix_diagonal is None else matrix_diagonal
    row_scale = kernel_diagonal + noise if row_scale is None else row_scale
    frozen, scale = jax.lax.stop_gradient((matrix, row_scale))
    diagonal = jax.lax.stop_gradient(kernel_diagonal + noise)
    finite = jnp.isfinite(diagonal).all() & (diagonal > 0).all()

    def failed(state) -> Bool[Array, ""]:
        nugget, _, factored = state
        return ~factored & finite & (nugget < max_nugget)

    def escalate(state):
        # The failed attempt still contains the matrix, so no copy is stored.
        raised = jnp.minimum(jnp.maximum(10.0 * state[0], MIN_NUGGET), max_nugget)
        return raised, *cholesky(restore_matrix(state[1], diagonal + raised * scale))

    start = jnp.asarray(nugget, dtype=matrix.dtype)
    shifted = jnp.where(
        jnp.eye(matrix.shape[0], dtype=bool), (diagonal + start * scale)[:, None], frozen
    )
    first = (start, *cholesky(shifted))
    # The conditional avoids a copy of the matrix when the loop is not entered.
    final_nugget, factor, factored = jax.lax.cond(
        failed(first),
        lambda state: jax.lax.while_loop(failed, escalate, state),
        lambda state: state,
        first,
    )
    result = select_result(
        RESULTS.successful.code,
        (final_nugget > start, RESULTS.nugget_raised),
        (~factored, RESULTS.not_positive_definite),
        (~finite, RESULTS.not_finite),
    )
    return DenseFactor(matrix, kernel_diagonal, noise, row_scale, factor, final_nugget, result)


class DenseFactor(eqx.Module):
    """Factored system P = K + Σ + ηD, with derivatives in K and Σ that reuse the factor.

    Differentiation never passes through the factorization: each derivative is another solve.

    **Attributes:**

    - `matrix`, `matrix_diagonal`: K and its diagonal.
    - `noise`, `row_scale`: diagonals of Σ and D.
    - `factor`: R with P = RᵀR in the upper triangle.
    - `nugget`, `result`: final nugget η and result code.
    """

    matrix: Float[Array, "M M"]
    matrix_diagonal: Float[Array, " M"]
    noise: Float[Array, " M"]
    row_scale: Float[Array, " M"]
    factor: Float[Array, "M M"]
    nugget: Float[Array, ""]
    result: Int[Array, ""]

    @property
    def succeeded(self) -> Bool[Array, ""]:
        """True if the factorization succeeded; otherwise all values are NaN."""
        return is_any(self.result, RESULTS.successful, RESULTS.nugget_raised)

    @property
    def diagonal_shift(self) -> Float[Array, " M"]:
        """Diagonal of P - K = Σ + ηD."""
        return self.noise + self.nugget * self.row_scale

    def _apply_inverse(self, rhs: Float[Array, " M"]) -> Float[Array, " M"]:
        return jnp.where(self.succeeded, cholesky_solve(self.factor, rhs), jnp.nan)

    def _solve_once(self, rhs: Float[Array, " M"], product: Product | None) -> Float[Array, " M"]:
        """Return P⁻¹ b."""
        shift = self.diagonal_shift
        multiply = self.matrix.__matmul__ if product is None else product
        return jax.lax.custom_linear_solve(
            lambda v: multiply(v) + shift * v,
            rhs,
            lambda _, b: self._apply_inverse(b),
            symmetric=True,
        )

    def solve(
        self, rhs: Float[Array, " M"], sweeps: int = 0, product: Product | None = None
    ) -> Float[Array, " M"]:
        """Return (K + Σ)⁻¹ b from P⁻¹ and refinement sweeps, and differentiate these operations.

        **Arguments:**

        - `rhs`: right-hand side b.
        - `sweeps`: number of refinement sweeps.
        - `product`: product v ↦ Kv for refinement and derivatives; by default with the stored
          matrix. Derivatives are then derivatives of this function.
        """
        multiply = self.matrix.__matmul__ if product is None else product
        solution = self._solve_once(rhs, product)
        for _ in range(sweeps):
            residual = rhs - multiply(solution) - self.noise * solution
            solution = solution + self._solve_once(residual, product)
        return solution

    def solve_refined(
        self, rhs: Float[Array, " M"], sweeps: Int[Array, ""], product: Product
    ) -> Float[Array, " M"]:
        """Solve as `solve` does, for a traced number of sweeps.

        Differentiates the exact solution, with P if there are no sweeps and with K + Σ otherwise.
        """
        shift = jnp.where(sweeps > 0, self.noise, self.diagonal_shift)

        def solve(matvec: Product, b: Float[Array, " M"]) -> Float[Array, " M"]:
            def refine(_, x):
                return x + self._apply_inverse(b - matvec(x))

            return jax.lax.fori_loop(0, sweeps, refine, self._apply_inverse(b))

        return jax.lax.custom_linear_solve(
            lambda v: product(v) + shift * v, rhs, solve, symmetric=True
        )

    def solve_columns(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """Return P⁻¹ b for columns, without refinement."""
        return jax.vmap(lambda b: self._solve_once(b, None), in_axes=1, out_axes=1)(columns)

    def solve_transposed(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """Return R⁻ᵀ b for columns, whose inner products are bᵀ P⁻¹ b."""
        return jnp.where(self.succeeded, solve_transposed(self.factor, columns), jnp.nan)

    def solve_triangular(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """Return R⁻¹ b for columns."""
        return solve_triangular(self.factor, columns)

    def log_det(self) -> Float[Array, ""]:
        """Return log |P|."""
        value = _log_det(self.matrix, self.diagonal_shift, self.factor)
        return jnp.where(self.succeeded, value, jnp.nan)

    def diagonal_of_inverse(self) -> Float[Array, " M"]:
        """Return the diagonal of P⁻¹."""
        diagonal = _diagonal_of_inverse(self.matrix, self.diagonal_shift, self.factor)
        return jnp.where(self.succeeded, diagonal, jnp.nan)

    def condition_number(self) -> Float[Array, ""]:
        """Return a lower bound on the condition number of P scaled to unit diagonal.

        Its largest eigenvalue is at least 1. Its smallest is at most the smallest pivot Rᵢᵢ² / Pᵢᵢ,
        because each pivot is the reciprocal of an entry of the inverse of a leading block.
        """
        diagonal = jax.lax.stop_gradient(self.matrix_diagonal + self.diagonal_shift)
        return jnp.max(diagonal / jnp.diagonal(self.factor) ** 2)


@jax.custom_jvp
def _log_det(matrix, shift, factor):
    del matrix, shift
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))


@_log_det.defjvp
def _(primals, tangents):
    # d log|P| = tr(P⁻¹ dP)
    factor = primals[2]
    matrix_dot, shift_dot, _ = tangents
    inverse = cholesky_solve(factor, jnp.eye(factor.shape[0]))
    tangent = jnp.sum(inverse * matrix_dot) + jnp.sum(jnp.diagonal(inverse) * shift_dot)
    return _log_det(*primals), tangent


@jax.custom_jvp
def _diagonal_of_inverse(matrix, shift, factor):
    del matrix, shift
    half = solve_transposed(factor, jnp.eye(factor.shape[0]))
    return jnp.sum(half * half, axis=0)


@_diagonal_of_inverse.defjvp
def _(primals, tangents):
    # d diag(P⁻¹) = -diag(P⁻¹ dP P⁻¹)
    factor = primals[2]
    matrix_dot, shift_dot, _ = tangents
    inverse = cholesky_solve(factor, jnp.eye(factor.shape[0]))
    tangent = -jnp.sum(inverse * (matrix_dot @ inverse), axis=0) - (inverse * inverse) @ shift_dot
    return jnp.diagonal(inverse), tangent
