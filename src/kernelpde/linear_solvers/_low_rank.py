"""The low-rank solver: a few functionals that stand for all.

The Gram matrix of functionals of a very smooth kernel has few eigenvalues above the nugget. With r
functionals Ψ, chosen so that given them nothing more than the nugget is unknown of any other, the
solution is sought among u = κ(·, Ψ) w:

    (K_ΨΨ + K_ΨΦ T⁻¹ K_ΦΨ) w = K_ΨΦ T⁻¹ b,    T = Σ + ηD.

That is the solution for the kernel κ(·, Ψ) K_ΨΨ⁻¹ κ(Ψ, ·), which differs from κ by less than the
nugget. With K_ΨΨ = RᵀR and F = K_ΦΨ R⁻¹ the matrix is Rᵀ (I + Fᵀ T⁻¹ F) R: the middle is formed
from some rows at a time, M r² operations in the memory of r². Its entries decrease with the order
in which Ψ were chosen, and so its Cholesky factor is accurate though its condition number is huge.

With a = R w and z = T⁻¹ (b - F a) the derivative in the kernels is

    R ∂w = (I + Fᵀ T⁻¹ F)⁻¹ [R⁻ᵀ (∂K_ΨΦ z - ∂K_ΨΨ w) - Fᵀ T⁻¹ (∂K_ΦΨ w + ∂T z)].

It matters that products with F are formed from F: w is a vector of large numbers that cancel, and
R⁻ᵀ (K_ΨΦ v), the same as Fᵀ v on paper, loses as many digits again as w has lost. What remains is
accurate if there are many rows for each functional.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.arrays import array, held
from kernelpde.checking import real_number, whole_number
from kernelpde.functionals import (
    Functionals,
    Kernels,
    Stack,
    gram,
    gram_diagonal,
    jets,
    one_axis,
    rows_shared,
)
from kernelpde.linear_solvers._cholesky import cholesky, solve_half, solve_with
from kernelpde.linear_solvers._dense_factor import Dense, DenseFactor, check_nuggets
from kernelpde.linear_solvers._features import Features
from kernelpde.linear_solvers._left_out import LowRankLeftOut
from kernelpde.linear_solvers._pivots import Pivots, pivots
from kernelpde.linear_solvers._products import rows_times, times_rows
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.linear_solvers._system import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    moving_parts,
)
from kernelpde.problem import Collocation, LinearizedProblem, Residual

_ROUND = 64
"""Ranks are filled up to multiples of this, so that programs are compiled for few of them."""

_SMALLEST = 1e-15
"""Where the nugget of K_ΨΨ begins; it grows only if there is no factor."""

_PART = 1e-3
"""What remains unknown of a functional, as a part of the nugget: then the nugget decides."""


class LowRank(eqx.Module):
    """Inducing functionals by pivoted Cholesky, for Gaussian and other very smooth kernels.

    Takes M r² operations and the memory of r² numbers, with r the rank of the Gram matrix at the
    nugget: about 350 for lengthscales of a fifth of a square.

    **Arguments:**

    - `nugget`, `largest_nugget`: as for `Dense`.
    - `tolerance`: on the variance of a functional given the inducing ones, relative to its prior
      variance; a thousandth of the nugget by default.
    - `max_rank`: a larger rank is an error: the kernel is not smooth enough.
    - `mesh`: devices that share the rows, as for `Automatic`.

    **Example:**

    ```python
    >>> many = {"equation": 2000, "ends": 2}
    >>> kp.solve(problem, many, linear_solver=kp.LowRank()).linear_solver.startswith("Low-rank")
    True
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"left out", "covariance"})

    nugget: float = 1e-12
    largest_nugget: float = 1e-6
    tolerance: float | None = None
    max_rank: int = eqx.field(static=True, default=2048)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=one_axis)

    def __check_init__(self):
        check_nuggets("LowRank", self.nugget, self.largest_nugget, zero=False)
        if self.tolerance is not None:
            real_number("LowRank", "tolerance", self.tolerance, above=0)
        whole_number("LowRank", "max_rank", self.max_rank, at_least=1)

    def pivots(
        self, kernels: Kernels, residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
    ) -> Pivots:
        """The functionals that stand for all, or as many as are allowed."""
        tolerance = _PART * self.nugget if self.tolerance is None else self.tolerance
        return pivots(kernels, residuals, blocks, max(float(tolerance), _SMALLEST), self.max_rank)


class Basis(eqx.Module):
    """What the solution was found with.

    **Attributes:**

    - `root`: K_ΨΨ = RᵀR.
    - `middle`: the Cholesky factor of H = I + Fᵀ T⁻¹ F.
    - `coefficients`: a = H⁻¹ Fᵀ T⁻¹ b.
    """

    root: DenseFactor
    middle: Float[Array, "r r"]
    coefficients: Float[Array, " r"]


class LowRankSolution(AbstractLinearSolution):
    """u = κ(·, Ψ) w.

    **Attributes:** as for `AbstractLinearSolution`; `seen` is Ψu, `basis` what it was found with.
    """

    stacks: tuple[Stack, ...]
    weights: Float[Array, " r"]
    fitted: Float[Array, " M"]
    norm_squared: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    result: RESULTS
    added: Float[Array, " M"]
    seen: Float[Array, " r"]
    basis: Basis | None
    mesh: Mesh | None = eqx.field(static=True)

    @property
    def devices(self) -> Mesh | None:
        return self.mesh

    def without_factor(self) -> "LowRankSolution":
        return eqx.tree_at(lambda s: s.basis, self, None)

    def left_out(
        self, kernels: Kernels, rows: LinearizedProblem, conditions: tuple[int, ...]
    ) -> LowRankLeftOut:
        assert self.basis is not None
        few, basis = self.stacks[0].batches[0], self.basis
        return LowRankLeftOut.of(
            Features(kernels, rows.batches, few, basis.root, self.mesh),
            rows,
            conditions,
            basis.middle,
            basis.coefficients,
            self.added,
            self.nugget,
        )

    def covariance(
        self, kernels: Kernels, rows: LinearizedProblem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        del rows
        assert self.basis is not None
        one, other = (self._features(kernels, functionals) for functionals in (left, right))
        known = solve_half(self.basis.middle, one).T @ solve_half(self.basis.middle, other)
        return gram(kernels, left, right) - one.T @ other + known

    def variance(
        self, kernels: Kernels, rows: LinearizedProblem, functionals: Functionals
    ) -> Float[Array, " n"]:
        # What the few functionals do not say of another is below the nugget where there are rows.
        del rows
        assert self.basis is not None
        features = self._features(kernels, functionals)
        left = gram_diagonal(kernels, [functionals]) - jnp.sum(features**2, axis=0)
        known = jnp.sum(solve_half(self.basis.middle, features) ** 2, axis=0)
        return jnp.maximum(left, 0.0) + known

    def _features(self, kernels: Kernels, functionals: Functionals) -> Float[Array, "r n"]:
        """R⁻ᵀ κ(Ψ, ψ)."""
        assert self.basis is not None
        few = self.stacks[0].batches[0]
        return self.basis.root.solve_half(gram(kernels, few, functionals))

    def condition(self) -> Float[Array, ""]:
        # The largest eigenvalue is at least the mean of those that are not small; the smallest is
        # what there is beyond the low-rank part.
        share = self.fitted.shape[0] / self.weights.shape[0]
        return share * jnp.max((self.diagonal + self.added) / self.added)

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        del applied
        (stack,), (others,) = self.stacks, coefficients
        weights = jnp.sum(others * stack.coefficients[:, 0], axis=1)
        size = jnp.sum(stack.coefficients[:, 0] ** 2, axis=1)
        return jnp.where(size > 0, weights / jnp.where(size > 0, size, 1.0), 0.0) @ self.seen

    def entries(self, kernels: Kernels, rows: LinearizedProblem) -> tuple[Float[Array, "_ _"], ...]:
        return tuple(
            rows_shared(
                lambda points, model, parts, terms=terms: jets(model, points, terms, parts),
                stack.points,
                kernels,
                self.expansion,
                mesh=self.mesh,
            )
            for stack, terms in zip(rows.stacks, rows.nonlinear_terms, strict=True)
        )


class LowRankState(AbstractLinearSolverState):
    """The functionals that stand for all.

    **Attributes:**

    - `solver`: its numbers.
    - `stack`: Ψ, filled up with functionals that are zero.
    """

    solver: LowRank
    stack: Stack

    def operations(self, rows: int) -> float:
        return 4.0 * rows * len(self.stack.points) ** 2

    @staticmethod
    def of(solver: LowRank, found: Pivots) -> "LowRankState":
        extra = -len(found.points) % _ROUND
        points = np.concatenate([found.points, np.repeat(found.points[-1:], extra, axis=0)])
        coefficients = np.concatenate(
            [found.coefficients, np.zeros((extra, found.coefficients.shape[1]))]
        )
        every = tuple(range(len(found.terms)))
        stack = Stack(array(points), array(coefficients[:, None]), found.terms, (every,))
        return LowRankState(solver, stack)

    def zero(
        self, residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
    ) -> tuple[Float[Array, "_ _"], ...]:
        del residuals, blocks
        return (jnp.zeros_like(self.stack.coefficients[:, 0]),)

    def function(
        self,
        residuals: tuple[Residual, ...],
        blocks: tuple[Collocation, ...],
        coefficients: tuple[Float[Array, "_ _"], ...],
    ) -> tuple[Functionals, ...]:
        del residuals, blocks
        return tuple(
            Functionals(self.stack.points, weights, self.stack.terms) for weights in coefficients
        )

    def solve(
        self,
        kernels: Kernels,
        rows: LinearizedProblem,
        noise: Float[Array, " M"],
        rhs: Float[Array, " M"],
        sweeps: int | Int[Array, ""],
        keep: bool = False,
    ) -> LowRankSolution:
        del sweeps, keep
        few, diagonal = self.stack.batches[0], gram_diagonal(kernels, rows.batches)
        added = noise + self.solver.nugget * (diagonal + noise)
        square = gram(kernels, few, few)
        root = _factored(jax.lax.stop_gradient(square), self.solver.largest_nugget)
        still = held((kernels, rows, added, rhs))
        features = Features(still[0], still[1].batches, few, root, self.solver.mesh)
        middle, first = features.normal_equations(*still[2:])
        factor, definite = cholesky(middle)
        coefficients = solve_with(factor, first)
        result = RESULTS.where(definite, root.result, RESULTS.not_positive_definite)
        # K_ΨΨ may be factored with a little on its diagonal without the answer changing.
        result = RESULTS.where(result == RESULTS.nugget_raised, RESULTS.successful, result)
        finite = jnp.isfinite(diagonal).all() & jnp.isfinite(middle).all()
        result = RESULTS.where(finite, result, RESULTS.not_finite)
        basis = Basis(root, factor, coefficients)
        w = _weights((kernels, rows.stacks, added, rhs), _Frozen(features, basis, self.stack))
        w = jnp.where(result == RESULTS.successful, w, jnp.nan)
        return LowRankSolution(
            (self.stack,),
            w,
            rows_times(kernels, rows.stacks, (self.stack,), w, self.solver.mesh),
            coefficients @ coefficients,
            diagonal,
            jnp.asarray(self.solver.nugget, dtype=float),
            result,
            added,
            square @ w,
            basis,
            self.solver.mesh,
        )


class _Frozen(eqx.Module):
    """What the solution was found with, for its derivative."""

    features: Features
    basis: Basis
    stack: Stack


@eqx.filter_custom_jvp
def _weights(moving, frozen: _Frozen) -> Float[Array, " r"]:
    """w = R⁻¹ a, as a function of kernels, Φ, T and b."""
    del moving
    return frozen.basis.root.solve_other_half(frozen.basis.coefficients[:, None])[:, 0]


@_weights.def_jvp
def _(primals, tangents):
    (kernels, rows, added, rhs), frozen = primals
    (kernels_dot, rows_dot, added_dot, rhs_dot), _ = tangents
    features, basis, mesh = frozen.features, frozen.basis, frozen.features.mesh
    stacks, w = (frozen.stack,), _weights(*primals)
    dual = (rhs - features.times(basis.coefficients)) / added
    moved, along, rest = moving_parts((kernels, rows), (kernels_dot, rows_dot))

    def products(leaves):
        (model, phi), few = eqx.combine(leaves, rest), features.few
        return (
            rows_times(model, phi, stacks, w, mesh),
            times_rows(model, stacks, phi, dual, mesh) - gram(model, few, few) @ w,
        )

    by_rows, by_few = jax.jvp(products, (moved,), (along,))[1]
    if added_dot is not None:
        by_rows = by_rows + added_dot * dual
    if rhs_dot is not None:
        by_rows = by_rows - rhs_dot
    change = basis.root.solve_half(by_few[:, None])[:, 0] - features.transposed(by_rows / added)
    return w, basis.root.solve_other_half(solve_with(basis.middle, change)[:, None])[:, 0]


def _factored(square: Float[Array, "r r"], largest: float) -> DenseFactor:
    """K_ΨΨ = RᵀR, with ones for functionals that are zero."""
    idle = (jnp.diagonal(square) == 0).astype(square.dtype)
    return Dense(_SMALLEST, largest, 0).factorize(square, idle)
