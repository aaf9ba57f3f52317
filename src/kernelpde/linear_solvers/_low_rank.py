"""Low-rank solver with inducing functionals (Nyström approximation).

The Gram matrix of functionals of a very smooth kernel has few eigenvalues above the nugget. Choose
r functionals Ψ such that the conditional variance of every other functional is below the nugget,
and restrict the solution to u = κ(·, Ψ) w:

    (K_ΨΨ + K_ΨΦ T⁻¹ K_ΦΨ) w = K_ΨΦ T⁻¹ b,    T = Σ + ηD.

This is the solution for the kernel κ(·, Ψ) K_ΨΨ⁻¹ κ(Ψ, ·), which differs from κ by less than the
nugget. With K_ΨΨ = RᵀR and F = K_ΦΨ R⁻¹ the matrix is Rᵀ (I + Fᵀ T⁻¹ F) R. The core matrix is
formed from chunks of rows, with M r² operations and r² memory. Its entries decrease in pivot order.
Its Cholesky factor is therefore accurate in spite of a huge condition number.

With a = R w and z = T⁻¹ (b - F a) the derivative in the kernels is

    R ∂w = (I + Fᵀ T⁻¹ F)⁻¹ [R⁻ᵀ (∂K_ΨΦ z - ∂K_ΨΨ w) - Fᵀ T⁻¹ (∂K_ΦΨ w + ∂T z)].

Products with F must be formed from F. The weights w are large numbers that cancel, and
R⁻ᵀ (K_ΨΦ v), which equals Fᵀ v in exact arithmetic, doubles the number of digits lost in w.
The result is accurate if there are many rows per inducing functional.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.arrays import stop_gradient, to_array
from kernelpde.checking import check_integer, check_real
from kernelpde.errors import RankError
from kernelpde.functionals import (
    Functionals,
    Prior,
    StackedFunctionals,
    flatten_mesh,
    gram,
    gram_diagonal,
)
from kernelpde.linear_solvers._cholesky import cholesky, cholesky_solve, solve_transposed
from kernelpde.linear_solvers._cost import Cost, low_rank_cost
from kernelpde.linear_solvers._dense_factor import DenseFactor, factorize
from kernelpde.linear_solvers._inducing import InducingFunctionals, select_inducing
from kernelpde.linear_solvers._leave_one_out import LowRankLeaveOneOut
from kernelpde.linear_solvers._nugget import DEFAULT_NUGGET, MAX_NUGGET, MIN_NUGGET
from kernelpde.linear_solvers._nystrom import LowRankFactors, NystromFactor
from kernelpde.linear_solvers._products import CrossCovariance, diagonal_and_shift
from kernelpde.linear_solvers._protocol import (
    AbstractLinearSolution,
    AbstractLinearSolver,
    AbstractLinearSolverState,
    Coefficients,
    split_tangents,
)
from kernelpde.linear_solvers._zero_rows import PADDING_MULTIPLE
from kernelpde.problem import Conditions, DiscreteProblem, LinearSystem
from kernelpde.results import RESULTS, select_result

MIN_ROWS_PER_FUNCTIONAL = 10
"""Minimum number of rows per inducing functional. With fewer rows, rounding errors dominate the
derivative of the low-rank solution."""

_TOLERANCE_FRACTION = 1e-3
"""Default tolerance as a fraction of the nugget, so that the nugget dominates the error."""


class LowRank(AbstractLinearSolver):
    """Inducing functionals by pivoted Cholesky, for Gaussian and other very smooth kernels.

    Requires M r² operations and r² memory, with r the rank of the Gram matrix at the nugget. The
    rank is about 350 for lengthscales of a fifth of a square.

    **Arguments:**

    - `nugget`, `max_nugget`: as for `Dense`; the nugget must be positive.
    - `tolerance`: largest variance of a functional conditioned on the inducing ones, relative to
      its prior variance; by default a thousandth of the nugget.
    - `max_rank`: maximum number of inducing functionals; a `RankError` is raised if the kernel
      needs more.
    - `mesh`: devices that share the rows, as for `Automatic`.

    **Example:**

    ```python
    >>> solution = kp.solve(problem, {"equation": 2000, "ends": 2}, linear_solver=kp.LowRank())
    >>> solution.linear_solver_message.startswith("Low-rank")
    True
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"left out", "covariance"})

    nugget: float = DEFAULT_NUGGET
    max_nugget: float = MAX_NUGGET
    tolerance: float | None = None
    max_rank: int = eqx.field(static=True, default=2048)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=flatten_mesh)

    def __check_init__(self):
        check_real("LowRank", "nugget", self.nugget, greater_than=0)
        if self.tolerance is not None:
            check_real("LowRank", "tolerance", self.tolerance, greater_than=0)
        check_integer("LowRank", "max_rank", self.max_rank, at_least=1)

    def select_inducing(self, problem: DiscreteProblem) -> InducingFunctionals:
        """Select inducing functionals, at most `max_rank`."""
        tolerance = _TOLERANCE_FRACTION * self.nugget if self.tolerance is None else self.tolerance
        return select_inducing(problem, max(float(tolerance), MIN_NUGGET), self.max_rank)

    def init(self, problem: DiscreteProblem) -> "LowRankState":
        inducing = self.select_inducing(problem)
        if not inducing.spans_all:
            raise RankError(
                f"LowRank: {inducing.rank} functionals do not determine the others up to the "
                f"nugget {float(self.nugget):.0e}. The kernel is not smooth enough or its "
                "lengthscale is too short. Use Dense(), a larger nugget or a larger max_rank."
            )
        return LowRankState.from_inducing(self, inducing)


class LowRankSolution(AbstractLinearSolution):
    """Solution u = κ(·, Ψ) w.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `inducing_values`: Ψu.
    - `stored_factors`: factors of the solve, `None` after `without_factor`.
    """

    inducing_values: Float[Array, " r"]
    stored_factors: LowRankFactors | None

    @property
    def factors(self) -> LowRankFactors:
        """Factors of the solve."""
        assert self.stored_factors is not None
        return self.stored_factors

    @property
    def _inducing(self) -> Functionals:
        return self.stacks[0].batches[0]

    def without_factor(self) -> "LowRankSolution":
        return eqx.tree_at(lambda solution: solution.stored_factors, self, None)

    def leave_one_out(
        self, prior: Prior, system: LinearSystem, conditions: tuple[int, ...]
    ) -> LowRankLeaveOneOut:
        factor = self.factors.inducing_factor
        return LowRankLeaveOneOut.from_factors(
            NystromFactor(prior, system.batches, self._inducing, factor, self.device_mesh),
            self.factors,
            system,
            conditions,
            self.diagonal_shift,
            self.nugget,
        )

    def covariance(
        self, prior: Prior, system: LinearSystem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        del system
        left_features, right_features = (self._features(prior, side) for side in (left, right))
        left_half, right_half = map(self._explained_half, (left_features, right_features))
        explained = left_half.T @ right_half
        return gram(prior, left, right) - left_features.T @ right_features + explained

    def variance(
        self, prior: Prior, system: LinearSystem, functionals: Functionals
    ) -> Float[Array, " n"]:
        # Where there are rows, the variance given the inducing functionals is below the nugget.
        del system
        features = self._features(prior, functionals)
        remaining = gram_diagonal(prior, [functionals]) - jnp.sum(features**2, axis=0)
        explained = jnp.sum(self._explained_half(features) ** 2, axis=0)
        return jnp.maximum(remaining, 0.0) + explained

    def _explained_half(self, features: Float[Array, "r n"]) -> Float[Array, "r n"]:
        return solve_transposed(self.factors.core_factor, features)

    def _features(self, prior: Prior, functionals: Functionals) -> Float[Array, "r n"]:
        """Return R⁻ᵀ κ(Ψ, ψ)."""
        cross = gram(prior, self._inducing, functionals)
        return self.factors.inducing_factor.solve_transposed(cross)

    def condition_number(self) -> Float[Array, ""]:
        # The largest eigenvalue is at least the mean over the low-rank part, and the smallest is
        # the diagonal shift.
        rows_per_functional = self.row_values.shape[0] / self.weights.shape[0]
        ratios = (self.diagonal + self.diagonal_shift) / self.diagonal_shift
        return rows_per_functional * jnp.max(ratios)

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: Coefficients
    ) -> Float[Array, ""]:
        del applied
        (v_coefficients,) = coefficients
        inducing_coefficients = self.stacks[0].coefficients[:, 0]
        products = jnp.sum(v_coefficients * inducing_coefficients, axis=1)
        squares = jnp.sum(inducing_coefficients**2, axis=1)
        # Padding functionals have zero coefficients.
        weights = jnp.where(squares > 0, products / jnp.where(squares > 0, squares, 1.0), 0.0)
        return weights @ self.inducing_values


class LowRankState(AbstractLinearSolverState[LowRank]):
    """State of the low-rank solver: the inducing functionals.

    **Attributes:**

    - `stack`: inducing functionals Ψ, padded with zero functionals.
    - `rank`: number of inducing functionals without padding.
    """

    stack: StackedFunctionals
    rank: int = eqx.field(static=True)

    @staticmethod
    def from_inducing(solver: LowRank, inducing: InducingFunctionals) -> "LowRankState":
        """Pad inducing functionals."""
        functionals, terms = inducing.functionals, inducing.functionals.terms
        # NumPy keeps the arrays concrete inside transformations.
        widths = ((0, -inducing.rank % PADDING_MULTIPLE), (0, 0))
        stack = StackedFunctionals(
            to_array(np.pad(functionals.points, widths, mode="edge")),
            to_array(np.pad(functionals.coefficients, widths)[:, None]),
            terms,
            (tuple(range(len(terms))),),
        )
        return LowRankState(solver, stack, inducing.rank)

    def describe(self, num_rows: int) -> str:
        nugget = float(self.solver.nugget)
        return f"Low-rank solver: {num_rows} rows, rank {self.rank} at nugget {nugget:.0e}"

    def check_size(self, num_rows: int, *, learning: bool) -> None:
        required = MIN_ROWS_PER_FUNCTIONAL * self.rank
        if learning and num_rows < required:
            raise RankError(
                f"LowRank: {num_rows} rows for a rank of {self.rank}. Derivatives in the kernel "
                f"need at least {MIN_ROWS_PER_FUNCTIONAL} rows per inducing functional. Use "
                f"Dense() or at least {required} rows."
            )

    def cost(self, num_rows: int, *, learning: bool) -> Cost:
        del learning
        return low_rank_cost(num_rows, len(self.stack.points))

    def zero_coefficients(self, conditions: Conditions) -> Coefficients:
        del conditions
        return (jnp.zeros_like(self.stack.coefficients[:, 0]),)

    def to_expansion(
        self, conditions: Conditions, coefficients: Coefficients
    ) -> tuple[Functionals, ...]:
        del conditions
        return tuple(
            Functionals(self.stack.points, weights, self.stack.terms) for weights in coefficients
        )

    def solve(
        self,
        prior: Prior,
        system: LinearSystem,
        sweeps: int | Int[Array, ""] = 0,
        cache_intermediates: bool = False,
    ) -> LowRankSolution:
        del sweeps, cache_intermediates
        mesh, (inducing,) = self.solver.mesh, self.stack.batches
        diagonal, shift = diagonal_and_shift(prior, system, self.solver.nugget)
        inducing_gram = gram(prior, inducing, inducing)
        inducing_factor = _factor_inducing(
            jax.lax.stop_gradient(inducing_gram), self.solver.max_nugget
        )
        frozen_kernels, frozen_system, frozen_shift = stop_gradient((prior, system, shift))
        features = NystromFactor(
            frozen_kernels, frozen_system.batches, inducing, inducing_factor, mesh
        )
        core, projected = features.normal_equations(frozen_shift, frozen_system.rhs)
        core_factor, is_definite = cholesky(core)
        coefficients = cholesky_solve(core_factor, projected)
        result = select_result(
            inducing_factor.result,
            # A larger nugget of K_ΨΨ does not change the solution.
            (inducing_factor.result == RESULTS.nugget_raised.code, RESULTS.successful),
            (~is_definite, RESULTS.not_positive_definite),
            (~jnp.isfinite(diagonal).all() | ~jnp.isfinite(core).all(), RESULTS.not_finite),
        )
        factors = LowRankFactors(inducing_factor, core_factor, coefficients)
        context = _JvpContext(features, factors, self.stack)
        w = _weights((prior, system.stacks, shift, system.rhs), context)
        w = jnp.where(result == RESULTS.successful.code, w, jnp.nan)
        return LowRankSolution(
            (self.stack,),
            w,
            CrossCovariance(prior, system.stacks, self.stack, mesh).times(w),
            coefficients @ coefficients,
            diagonal,
            jnp.asarray(self.solver.nugget, dtype=float),
            result,
            shift,
            mesh,
            inducing_gram @ w,
            factors,
        )


class _JvpContext(eqx.Module):
    """Values that the derivative rule of `_weights` reuses."""

    features: NystromFactor
    factors: LowRankFactors
    stack: StackedFunctionals


@eqx.filter_custom_jvp
def _weights(operands, context: _JvpContext) -> Float[Array, " r"]:
    """Return w = R⁻¹ a as a function of kernels, Φ, T and b."""
    del operands
    factors = context.factors
    return factors.inducing_factor.solve_triangular(factors.coefficients[:, None])[:, 0]


@_weights.def_jvp
def _(primals, tangents):
    (prior, stacks, shift, rhs), context = primals
    (kernels_dot, stacks_dot, shift_dot, rhs_dot), _ = tangents
    features: NystromFactor = context.features
    factors: LowRankFactors = context.factors
    w = _weights(*primals)
    z = (rhs - features.times(factors.coefficients)) / shift
    active, active_dot, inactive = split_tangents((prior, stacks), (kernels_dot, stacks_dot))

    def products(leaves):
        prior, stacks = eqx.combine(leaves, inactive)
        cross = CrossCovariance(prior, stacks, context.stack, features.mesh)
        inducing_gram = gram(prior, features.inducing, features.inducing)
        return cross.times(w), cross.transposed_times(z) - inducing_gram @ w

    row_dot, inducing_dot = jax.jvp(products, (active,), (active_dot,))[1]
    if shift_dot is not None:
        row_dot = row_dot + shift_dot * z
    if rhs_dot is not None:
        row_dot = row_dot - rhs_dot
    inducing_factor = factors.inducing_factor
    whitened = inducing_factor.solve_transposed(inducing_dot[:, None])[:, 0]
    change = whitened - features.transposed_times(row_dot / shift)
    a_dot = cholesky_solve(factors.core_factor, change)
    return w, inducing_factor.solve_triangular(a_dot[:, None])[:, 0]


def _factor_inducing(matrix: Float[Array, "r r"], max_nugget: float) -> DenseFactor:
    """Factor K_ΨΨ = RᵀR, with ones on the diagonal for zero functionals."""
    padding = (jnp.diagonal(matrix) == 0).astype(matrix.dtype)
    return factorize(matrix, padding, MIN_NUGGET, max_nugget)
