"""Dense solver: one Cholesky factorization of the Gram matrix of all rows."""

from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import to_array
from kernelpde.checking import check_integer
from kernelpde.functionals import (
    Functionals,
    Prior,
    block_gram,
    gram,
    gram_diagonal,
    is_nonstationary,
    merge_small,
    stacked_matvec,
)
from kernelpde.linear_solvers._cost import (
    MAX_STORED_ROWS,
    Cost,
    dense_cost,
    max_dense_rows,
)
from kernelpde.linear_solvers._dense_factor import DenseFactor, factorize
from kernelpde.linear_solvers._leave_one_out import DenseLeaveOneOut
from kernelpde.linear_solvers._nugget import DEFAULT_NUGGET, MAX_NUGGET
from kernelpde.linear_solvers._protocol import (
    AbstractLinearSolution,
    AbstractLinearSolver,
    AbstractLinearSolverState,
    Coefficients,
)
from kernelpde.memory import require_bytes
from kernelpde.problem import Conditions, DiscreteProblem, LinearSystem


class Dense(AbstractLinearSolver):
    """Cholesky factorization of K + Σ with a nugget relative to the diagonal.

    The factored matrix is P = K + Σ + ηD, with D the diagonal of K + Σ, which a nonlinear iteration
    freezes. If P is not numerically positive definite, η is multiplied by ten until it is, or until
    `max_nugget` is reached.

    **Arguments:**

    - `nugget`: nugget η.
    - `max_nugget`: largest η to try.
    - `refinement_sweeps`: number of sweeps x ← x + P⁻¹ (b - (K + Σ) x) after a solve. They remove
      most of the bias due to the nugget.

    **Example:**

    ```python
    >>> kp.solve(problem, points, linear_solver=kp.Dense(nugget=1e-11)).nugget
    1e-11
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"folds", "left out", "covariance"})
    mesh: ClassVar[None] = None

    nugget: float = DEFAULT_NUGGET
    max_nugget: float = MAX_NUGGET
    refinement_sweeps: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        check_integer("Dense", "refinement_sweeps", self.refinement_sweeps, at_least=0)

    def init(self, problem: DiscreteProblem) -> "DenseState":
        del problem
        return DenseState(self)

    def needs_concrete_kernels(self, num_rows: int) -> bool:
        del num_rows
        return False


class DenseSolution(AbstractLinearSolution):
    """Solution u = κ(·, Φ) z with z = (K + Σ)⁻¹ b.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `stored_factor`: factored matrix, `None` after `without_factor`.
    """

    stored_factor: DenseFactor | None

    @property
    def factor(self) -> DenseFactor:
        """Factored matrix."""
        assert self.stored_factor is not None
        return self.stored_factor

    def without_factor(self) -> "DenseSolution":
        return eqx.tree_at(lambda solution: solution.stored_factor, self, None)

    def condition_number(self) -> Float[Array, ""]:
        return self.factor.condition_number()

    def leave_one_out(
        self, prior: Prior, system: LinearSystem, conditions: tuple[int, ...]
    ) -> DenseLeaveOneOut:
        del prior
        return DenseLeaveOneOut.from_factor(
            self.factor, self.weights, system.row_indices(conditions)
        )

    def covariance(
        self, prior: Prior, system: LinearSystem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        left_half, right_half = (self._half(prior, system, side) for side in (left, right))
        return gram(prior, left, right) - left_half.T @ right_half

    def variance(
        self, prior: Prior, system: LinearSystem, functionals: Functionals
    ) -> Float[Array, " n"]:
        half = self._half(prior, system, functionals)
        prior_variance = gram_diagonal(prior, [functionals])
        return jnp.maximum(prior_variance - jnp.sum(half**2, axis=0), 0.0)

    def _half(
        self, prior: Prior, system: LinearSystem, functionals: Functionals
    ) -> Float[Array, "M n"]:
        """Return R⁻ᵀ κ(Φ, ψ)."""
        batches = merge_small(system.batches)
        cross = jnp.concatenate([gram(prior, batch, functionals) for batch in batches])
        return self.factor.solve_transposed(cross)


class DenseState(AbstractLinearSolverState[Dense]):
    """State of the dense solver, whose functionals ψ are the rows."""

    forms_matrix: ClassVar[bool] = True

    @property
    def refinement_sweeps(self) -> int:
        return self.solver.refinement_sweeps

    def describe(self, num_rows: int) -> str:
        return f"Dense solver: {num_rows} rows"

    def cost(self, num_rows: int, *, learning: bool) -> Cost:
        return dense_cost(num_rows, learning=learning)

    def check_size(self, num_rows: int, *, learning: bool) -> None:
        cost = self.cost(num_rows, learning=learning)
        if cost.fits_in_memory:
            return
        require_bytes(
            f"{'learn' if learning else 'solve'}: {num_rows} rows",
            cost.bytes,
            f"Use at most {max_dense_rows(learning=learning)} rows in total, or split time into "
            "windows with march.",
        )

    def zero_coefficients(self, conditions: Conditions) -> Coefficients:
        return tuple(
            to_array(np.zeros((len(condition.point_set.points), len(condition.terms))))
            for condition in conditions
        )

    def to_expansion(
        self, conditions: Conditions, coefficients: Coefficients
    ) -> tuple[Functionals, ...]:
        return tuple(
            Functionals(condition.point_set.points, weights, condition.terms)
            for condition, weights in zip(conditions, coefficients, strict=True)
        )

    def solve(
        self,
        prior: Prior,
        system: LinearSystem,
        sweeps: int | Int[Array, ""] = 0,
        cache_intermediates: bool = False,
    ) -> DenseSolution:
        matrix = block_gram(prior, system.batches)
        # Products with nonstationary kernels have derivatives that store no matrices.
        stores_matrix = len(system.rhs) <= MAX_STORED_ROWS and not is_nonstationary(
            prior, system.batches
        )
        factor = factorize(
            matrix,
            system.variance,
            self.solver.nugget,
            self.solver.max_nugget,
            system.row_scale,
            None if stores_matrix else gram_diagonal(prior, system.batches),
        )
        product = partial(
            stacked_matvec,
            prior,
            system.stacks,
            system.stacks,
            cache_intermediates=cache_intermediates,
        )
        if stores_matrix:
            product = matrix.__matmul__

        def unrefined_row_values(vector: Float[Array, " M"]) -> Float[Array, " M"]:
            return system.rhs - factor.diagonal_shift * vector

        if isinstance(sweeps, int):
            weights = factor.solve(system.rhs, sweeps, product)
            row_values = product(weights) if sweeps else unrefined_row_values(weights)
        else:
            weights = factor.solve_refined(system.rhs, sweeps, product)
            row_values = jax.lax.cond(sweeps > 0, product, unrefined_row_values, weights)
        return DenseSolution(
            system.stacks,
            weights,
            row_values,
            weights @ row_values,
            factor.matrix_diagonal,
            factor.nugget,
            factor.result,
            factor.diagonal_shift,
            None,
            factor,
        )
