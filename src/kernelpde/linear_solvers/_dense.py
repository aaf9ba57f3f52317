"""The dense solver: one Cholesky factor of the Gram matrix of all rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import array
from kernelpde.functionals import (
    Functionals,
    Kernels,
    Stack,
    gram,
    gram_diagonal,
    gram_of_blocks,
    stacked_matvec,
)
from kernelpde.linear_solvers._dense_factor import Dense, DenseFactor
from kernelpde.linear_solvers._left_out import DenseLeftOut
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.linear_solvers._system import AbstractLinearSolution, AbstractLinearSolverState
from kernelpde.problem import Collocation, LinearizedProblem, Residual


class DenseSolution(AbstractLinearSolution):
    """u = κ(·, Φ) z with z = (K + Σ)⁻¹ b.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `factor`: the factored matrix.
    """

    stacks: tuple[Stack, ...]
    weights: Float[Array, " M"]
    fitted: Float[Array, " M"]
    norm_squared: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    result: RESULTS
    added: Float[Array, " M"]
    factor: DenseFactor | None

    @property
    def system(self) -> DenseFactor:
        """The factored matrix."""
        assert self.factor is not None
        return self.factor

    def without_factor(self) -> "DenseSolution":
        return eqx.tree_at(lambda s: s.factor, self, None)

    def condition(self) -> Float[Array, ""]:
        return self.system.condition()

    def left_out(
        self, kernels: Kernels, rows: LinearizedProblem, conditions: tuple[int, ...]
    ) -> DenseLeftOut:
        del kernels
        return DenseLeftOut.of(self.system, self.weights, rows.numbers(conditions))

    def covariance(
        self, kernels: Kernels, rows: LinearizedProblem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        halves = [self._half(kernels, rows, functionals) for functionals in (left, right)]
        return gram(kernels, left, right) - halves[0].T @ halves[1]

    def variance(
        self, kernels: Kernels, rows: LinearizedProblem, functionals: Functionals
    ) -> Float[Array, " n"]:
        half = self._half(kernels, rows, functionals)
        prior = gram_diagonal(kernels, [functionals])
        return jnp.maximum(prior - jnp.sum(half**2, axis=0), 0.0)

    def _half(
        self, kernels: Kernels, rows: LinearizedProblem, functionals: Functionals
    ) -> Float[Array, "M n"]:
        """R⁻ᵀ κ(Φ, ψ)."""
        cross = jnp.concatenate([gram(kernels, batch, functionals) for batch in rows.batches])
        return self.system.solve_half(cross)

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        del coefficients
        return self.weights @ applied


class DenseState(AbstractLinearSolverState):
    """Nothing has to be planned: the functionals ψ are the rows."""

    solver: Dense

    @property
    def forms_matrix(self) -> bool:
        return True

    @property
    def refinement(self) -> int:
        return self.solver.refinement

    def operations(self, rows: int) -> float:
        return 0.5 * rows**3

    def zero(
        self, residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
    ) -> tuple[Float[Array, "_ _"], ...]:
        return tuple(
            array(np.zeros((len(block.points), len(residual.terms))))
            for residual, block in zip(residuals, blocks, strict=True)
        )

    def function(
        self,
        residuals: tuple[Residual, ...],
        blocks: tuple[Collocation, ...],
        coefficients: tuple[Float[Array, "_ _"], ...],
    ) -> tuple[Functionals, ...]:
        return tuple(
            Functionals(block.points, weights, residual.terms)
            for residual, block, weights in zip(residuals, blocks, coefficients, strict=True)
        )

    def solve(
        self,
        kernels: Kernels,
        rows: LinearizedProblem,
        noise: Float[Array, " M"],
        rhs: Float[Array, " M"],
        sweeps: int | Int[Array, ""],
        keep: bool = False,
    ) -> DenseSolution:
        batches = rows.batches
        diagonal = gram_diagonal(kernels, batches)

        def product(vector: Float[Array, " M"]) -> Float[Array, " M"]:
            # Not the matrix: with nothing else to be kept for, it is factored where it stands.
            return stacked_matvec(kernels, rows.stacks, rows.stacks, vector, keep=keep)

        system = self.solver.factorize(gram_of_blocks(kernels, batches), noise, diagonal)
        if isinstance(sweeps, int):
            z = system.solve(rhs, sweeps, product)
            image = product(z) if sweeps else rhs - system.added * z
        else:
            z = system.solve_refined(rhs, sweeps, product)
            image = jax.lax.cond(sweeps > 0, product, lambda v: rhs - system.added * v, z)
        return DenseSolution(
            rows.stacks,
            z,
            image,
            z @ image,
            diagonal,
            system.nugget,
            system.result,
            system.added,
            system,
        )
