"""Dense symmetric positive definite systems, factored once."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from kernelpde.checking import real_number, whole_number
from kernelpde.errors import InputError
from kernelpde.linear_solvers._cholesky import (
    cholesky,
    restored,
    solve_half,
    solve_other_half,
    solve_with,
)
from kernelpde.linear_solvers._result import RESULTS

Product: TypeAlias = Callable[[Float[Array, " M"]], Float[Array, " M"]]
"""v ↦ Kv."""


def check_nuggets(owner: str, nugget: float, largest: float, *, zero: bool = True) -> None:
    """Refuse nuggets that are not numbers from 0 to 1; 0 itself unless `zero`."""
    given = real_number(owner, "nugget", nugget)
    if not isinstance(given, jax.core.Tracer) and not (0 <= given <= 1 and (zero or given)):
        raise InputError(f"{owner}: nugget must lie between 0 and 1; got {given}.")
    real_number(owner, "largest_nugget", largest, at_least=0, at_most=1)


class Dense(eqx.Module):
    """Cholesky factorization of K + Σ with a nugget relative to the diagonal.

    With D the diagonal of K + Σ, the factored matrix is P = K + Σ + ηD: the matrix scaled to unit
    diagonal, plus ηI. The scaling itself is left to the factorization, whose rounding errors do not
    depend on it. If P is not numerically positive definite, η is multiplied by ten until it is, or
    until `largest_nugget` is reached.

    **Arguments:**

    - `nugget`: η.
    - `largest_nugget`: the largest η to try.
    - `refinement`: number of sweeps x ← x + P⁻¹ (b - (K + Σ) x) after a solve. They remove most of
      the bias due to the nugget.

    **Example:**

    ```python
    >>> kp.solve(problem, points, linear_solver=kp.Dense(nugget=1e-11)).nugget
    1e-11
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"folds", "left out", "covariance"})
    mesh: ClassVar[None] = None

    nugget: float = 1e-12
    largest_nugget: float = 1e-6
    refinement: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        check_nuggets("Dense", self.nugget, self.largest_nugget)
        whole_number("Dense", "refinement", self.refinement, at_least=0)

    def factorize(
        self,
        matrix: Float[Array, "M M"],
        noise: Float[Array, " M"],
        matrix_diagonal: Float[Array, " M"] | None = None,
    ) -> "DenseFactor":
        """Factor K + Σ.

        **Arguments:**

        - `matrix`: K, symmetric.
        - `noise`: the diagonal of Σ; 0 for a condition to be met exactly.
        - `matrix_diagonal`: that of K, if it is known otherwise. Nothing then looks into the matrix
          before it is factored, and the pass that writes it also adds Σ and the nugget.
        """
        own_diagonal = jnp.diagonal(matrix) if matrix_diagonal is None else matrix_diagonal
        frozen = jax.lax.stop_gradient(matrix)
        diagonal = jax.lax.stop_gradient(own_diagonal + noise)
        finite = jnp.isfinite(diagonal).all() & (diagonal > 0).all()

        def failed(state) -> Bool[Array, ""]:
            nugget, _, factored = state
            return ~factored & finite & (nugget < self.largest_nugget)

        def escalate(state):
            # From what the failed attempt has left: the matrix need not be kept for this.
            raised = jnp.minimum(jnp.maximum(10.0 * state[0], 1e-15), self.largest_nugget)
            return raised, *cholesky(restored(state[1], (1.0 + raised) * diagonal))

        start = jnp.asarray(self.nugget, dtype=matrix.dtype)
        lifted = jnp.where(
            jnp.eye(matrix.shape[0], dtype=bool), ((1.0 + start) * diagonal)[:, None], frozen
        )
        first = (start, *cholesky(lifted))
        # The branch around the loop saves a copy of the matrix where the loop is not entered.
        nugget, factor, factored = jax.lax.cond(
            failed(first),
            lambda state: jax.lax.while_loop(failed, escalate, state),
            lambda state: state,
            first,
        )
        result = RESULTS.where(nugget > start, RESULTS.nugget_raised, RESULTS.successful)
        result = RESULTS.where(factored, result, RESULTS.not_positive_definite)
        result = RESULTS.where(finite, result, RESULTS.not_finite)
        return DenseFactor(matrix, own_diagonal, noise, factor, nugget, result, self.refinement)


class DenseFactor(eqx.Module):
    """A factored system P = K + Σ + ηD, with derivatives in K and Σ that reuse the factor.

    Nothing differentiates through the factorization: each derivative is one more solve.
    """

    matrix: Float[Array, "M M"]
    matrix_diagonal: Float[Array, " M"]
    noise: Float[Array, " M"]
    factor: Float[Array, "M M"]
    nugget: Float[Array, ""]
    result: RESULTS
    refinement: int = eqx.field(static=True)

    @property
    def usable(self) -> Bool[Array, ""]:
        """Whether there is a factor; without one every answer is NaN."""
        return (self.result == RESULTS.successful) | (self.result == RESULTS.nugget_raised)

    @property
    def added(self) -> Float[Array, " M"]:
        """What P has on its diagonal beyond K: Σ + ηD."""
        return self.noise + self.nugget * (self.matrix_diagonal + self.noise)

    def _solve_once(self, rhs: Float[Array, " M"], product: Product | None) -> Float[Array, " M"]:
        """P⁻¹ b."""
        added = self.added
        times = self.matrix.__matmul__ if product is None else product
        return jax.lax.custom_linear_solve(
            lambda v: times(v) + added * v,
            rhs,
            lambda _, b: jnp.where(self.usable, solve_with(self.factor, b), jnp.nan),
            symmetric=True,
        )

    def solve(
        self,
        rhs: Float[Array, " M"],
        sweeps: int | None = None,
        product: Product | None = None,
    ) -> Float[Array, " M"]:
        """(K + Σ)⁻¹ b, by P⁻¹ and sweeps of refinement; derivatives are those of what is computed.

        **Arguments:**

        - `rhs`: b.
        - `sweeps`: how many; as the solver says if left out.
        - `product`: v ↦ Kv, if the matrix itself is not to be kept for refinement and derivatives.
          Derivatives are then those of this function.
        """
        sweeps = self.refinement if sweeps is None else sweeps
        times = self.matrix.__matmul__ if product is None else product
        solution = self._solve_once(rhs, product)
        for _ in range(sweeps):
            defect = rhs - times(solution) - self.noise * solution
            solution = solution + self._solve_once(defect, product)
        return solution

    def solve_refined(
        self, rhs: Float[Array, " M"], sweeps: Int[Array, ""], product: Product | None = None
    ) -> Float[Array, " M"]:
        """As `solve`, for a number of sweeps that is not known before it runs.

        Derivatives are those of the exact solution, of P without sweeps and of K + Σ with them.
        """
        times = self.matrix.__matmul__ if product is None else product
        added = jnp.where(sweeps > 0, self.noise, self.added)

        def once(b: Float[Array, " M"]) -> Float[Array, " M"]:
            return jnp.where(self.usable, solve_with(self.factor, b), jnp.nan)

        def solver(matvec: Product, b: Float[Array, " M"]) -> Float[Array, " M"]:
            return jax.lax.fori_loop(0, sweeps, lambda _, x: x + once(b - matvec(x)), once(b))

        return jax.lax.custom_linear_solve(
            lambda v: times(v) + added * v, rhs, solver, symmetric=True
        )

    def solve_columns(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """P⁻¹ applied to columns, without refinement."""
        return jax.vmap(lambda b: self._solve_once(b, None), in_axes=1, out_axes=1)(columns)

    def solve_half(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """R⁻ᵀ b for columns, with P = RᵀR: inner products of such are those of b in P⁻¹."""
        return jnp.where(self.usable, solve_half(self.factor, columns), jnp.nan)

    def solve_other_half(self, columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
        """R⁻¹ b for columns."""
        return solve_other_half(self.factor, columns)

    def logdet(self) -> Float[Array, ""]:
        """log |P|."""
        return jnp.where(self.usable, _logdet(self.matrix, self.added, self.factor), jnp.nan)

    def inverse_diagonal(self) -> Float[Array, " M"]:
        """The diagonal of P⁻¹."""
        diagonal = _inverse_diagonal(self.matrix, self.added, self.factor)
        return jnp.where(self.usable, diagonal, jnp.nan)

    def condition(self) -> Float[Array, ""]:
        """A bound from below on the condition number of P scaled to unit diagonal.

        Of its eigenvalues the largest is at least 1, and the smallest at most the smallest pivot
        Rᵢᵢ² / Pᵢᵢ: each is the reciprocal of an entry of the inverse of a leading block.
        """
        diagonal = jax.lax.stop_gradient(self.matrix_diagonal + self.added)
        return jnp.max(diagonal / jnp.diagonal(self.factor) ** 2)


@jax.custom_jvp
def _logdet(matrix, added, factor):
    del matrix, added
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))


@_logdet.defjvp
def _(primals, tangents):
    # d log|P| = tr(P⁻¹ dP)
    factor = primals[2]
    matrix_dot, added_dot, _ = tangents
    inverse = solve_with(factor, jnp.eye(factor.shape[0]))
    tangent = jnp.sum(inverse * matrix_dot) + jnp.sum(jnp.diagonal(inverse) * added_dot)
    return _logdet(*primals), tangent


@jax.custom_jvp
def _inverse_diagonal(matrix, added, factor):
    del matrix, added
    half = solve_half(factor, jnp.eye(factor.shape[0]))
    return jnp.sum(half * half, axis=0)


@_inverse_diagonal.defjvp
def _(primals, tangents):
    # d diag(P⁻¹) = -diag(P⁻¹ dP P⁻¹)
    factor = primals[2]
    matrix_dot, added_dot, _ = tangents
    inverse = solve_with(factor, jnp.eye(factor.shape[0]))
    tangent = -jnp.sum(inverse * (matrix_dot @ inverse), axis=0) - (inverse * inverse) @ added_dot
    return jnp.diagonal(inverse), tangent
