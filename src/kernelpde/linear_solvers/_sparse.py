"""Sparse solver with near-linear cost in the number of rows, for kernels of finite smoothness.

Let ψ be the values of the fields at all points and the derivatives that the equations use, and
Θ = κ(ψ, ψ). Each row of a linearized system combines few of them, Φ = Aψ, and

    (A Θ Aᵀ + T) z = b,    u = κ(·, Φ) z.

Values and derivatives of functions with a Matern kernel are nearly independent of distant ones
given those nearby. Ordered from coarse to fine, Θ⁻¹ therefore has a sparse approximate Cholesky
factor, Θ⁻¹ ≈ U Uᵀ (Chen, Owhadi and Schäfer 2025). Products with Θ are two triangular solves. The
system is solved by conjugate gradients, preconditioned by such a factor for κ(Φ, Φ) + T. The factor
is too inaccurate for a direct solve.

For the derivative in the kernels let v = Θ Aᵀ z. Then ∂(A Θ Aᵀ z) = -A Θ ∂(U Uᵀ) v, with one more
conjugate gradient solve. The derivative does not involve the preconditioner.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import stop_gradient
from kernelpde.checking import check_integer, check_real
from kernelpde.compiling import compiled
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Prior, concatenate, flatten_mesh, gram_diagonal
from kernelpde.linear_solvers._cost import Cost
from kernelpde.linear_solvers._factor import Factor, factorize_sparse, precision_times
from kernelpde.linear_solvers._local import LocalExpansion, group_neighbors
from kernelpde.linear_solvers._metric import ScaledCoordinates
from kernelpde.linear_solvers._nugget import DEFAULT_NUGGET, MAX_NUGGET
from kernelpde.linear_solvers._products import diagonal_and_shift
from kernelpde.linear_solvers._protocol import (
    AbstractLinearSolver,
    AbstractLinearSolverState,
    Coefficients,
    Neighbors,
    split_tangents,
)
from kernelpde.linear_solvers._sparse_order import collect_functionals, order_rows
from kernelpde.linear_solvers._sparse_solution import SparseSolution
from kernelpde.linear_solvers._supernodes import Pattern, make_pattern
from kernelpde.linear_solvers._zero_rows import pad_functionals
from kernelpde.memory import require_bytes
from kernelpde.problem import Conditions, DiscreteProblem, LinearSystem
from kernelpde.results import RESULTS, select_result

_PREDICTION_RADIUS = 4.0
"""Largest support radius of evaluation points, in units of the finest length scale."""

_FLOPS_PER_GRAM_ENTRY = 1000.0
"""Floating-point operations per entry of the small Gram matrices, for all parts of a step."""


class Sparse(AbstractLinearSolver):
    """Sparse Cholesky factors and conjugate gradients, for Matern kernels.

    **Arguments:**

    - `nugget`, `max_nugget`: as for `Dense`.
    - `radius`: ρ, distance within which functionals are coupled, in units of the distance from
      previous ones. It should grow like log M. The error decreases exponentially with ρ, and work
      and memory grow like ρ^(2d).
    - `preconditioner_radius`: the same for the preconditioner, which may be less accurate.
    - `jitter`: relative increase of the diagonal of small Gram matrices.
    - `tolerance`: tolerance of conjugate gradients on the relative residual.
    - `max_iterations`: maximum number of conjugate gradient iterations.
    - `num_maximin`: number of points that start the elimination order and are coupled to all
      previous ones; the remaining points are ordered in levels.
    - `mesh`: devices that share the small factorizations, as for `Automatic`.

    **Example:**

    ```python
    >>> rough = problem.with_kernels((kp.Matern(4.5, 0.3),))
    >>> solution = kp.solve(rough, {"equation": 200, "ends": 2}, linear_solver=kp.Sparse())
    >>> solution.linear_solver_message.startswith("Sparse")
    True
    ```
    """

    nugget: float = DEFAULT_NUGGET
    max_nugget: float = MAX_NUGGET
    radius: float = eqx.field(static=True, default=5.0)
    preconditioner_radius: float = eqx.field(static=True, default=5.0)
    jitter: float = eqx.field(static=True, default=1e-13)
    tolerance: float = eqx.field(static=True, default=1e-8)
    max_iterations: int = eqx.field(static=True, default=200)
    num_maximin: int = eqx.field(static=True, default=256)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=flatten_mesh)

    def __check_init__(self):
        for name in ("radius", "preconditioner_radius", "tolerance"):
            check_real("Sparse", name, getattr(self, name), greater_than=0)
        check_real("Sparse", "jitter", self.jitter, at_least=0)
        for name in ("max_iterations", "num_maximin"):
            check_integer("Sparse", name, getattr(self, name), at_least=1)

    def init(self, problem: DiscreteProblem) -> "SparseState":
        if problem.uses_laws:
            raise InputError(
                "Sparse: problems with a Law are not supported: a law couples all rows, so the "
                "matrix has no sparse approximation. Use Dense() or LowRank()."
            )
        if problem.has_averages:
            raise InputError("Sparse: averages are not local; use Dense() or LowRank().")
        points = np.concatenate([np.asarray(p.points) for p in problem.point_sets])
        metric = ScaledCoordinates.from_prior(problem.prior, points)
        conditions = problem.conditions
        functionals, functional_indices, groups = collect_functionals(
            conditions, metric, self.num_maximin
        )
        row_points, row_groups = order_rows(conditions, metric, self.num_maximin)
        variance = _prior_variance(problem.prior, functionals)
        scaled = functionals.scale(1.0 / jnp.sqrt(jnp.where(variance > 0, variance, 1.0)))
        return SparseState(
            self,
            pad_functionals(scaled, 1),
            tuple(map(jnp.asarray, functional_indices)),
            make_pattern(metric(np.asarray(functionals.points)), groups, self.radius, self.mesh),
            make_pattern(metric(row_points), row_groups, self.preconditioner_radius, self.mesh),
            metric,
            min(self.radius, _PREDICTION_RADIUS) * groups[-1].scale,
        )


@compiled
def _prior_variance(prior: Prior, functionals: Functionals) -> Float[Array, " N"]:
    return gram_diagonal(prior, [functionals])


class SparseState(AbstractLinearSolverState[Sparse]):
    """State of the sparse solver: elimination orders and sparsity patterns.

    **Attributes:**

    - `functionals`: functionals ψ, scaled to unit variance, and a zero functional.
    - `functional_indices`: for each condition the indices of its jet values in ψ.
    - `pattern`, `row_pattern`: sparsity patterns of the factors for ψ and for the rows.
    - `metric`: coordinates in which distances are measured.
    - `support_radius`: distance within which functionals are used to evaluate a solution.
    - `factor`: factor for ψ, if it is stored.
    """

    functionals: Functionals
    functional_indices: tuple[Int[Array, "_ _"], ...]
    pattern: Pattern
    row_pattern: Pattern
    metric: ScaledCoordinates
    support_radius: float
    factor: Factor | None = None

    @property
    def _bytes(self) -> float:
        return self.pattern.bytes + self.row_pattern.bytes

    def describe(self, num_rows: int) -> str:
        return (
            f"Sparse solver: {num_rows} rows, radius {self.solver.radius:g}, factors of "
            f"{self._bytes / 1e9:.2g} GB"
        )

    def cost(self, num_rows: int, *, learning: bool) -> Cost:
        # Small Gram matrices and conjugate gradients dominate the factorizations.
        del num_rows, learning
        return Cost(_FLOPS_PER_GRAM_ENTRY * self.row_pattern.num_gram_entries, self._bytes)

    def check_size(self, num_rows: int, *, learning: bool) -> None:
        del learning
        require_bytes(
            f"Sparse: {num_rows} rows with radius {self.solver.radius}",
            self._bytes,
            "Use fewer points or a smaller radius.",
        )

    def with_factor(self, prior: Prior) -> "SparseState":
        return replace(self, factor=_factorize(prior, self))

    def zero_coefficients(self, conditions: Conditions) -> Coefficients:
        del conditions
        return (jnp.asarray(np.zeros((self.pattern.padding_index + 1, 1))),)

    def to_expansion(self, conditions: Conditions, coefficients: Coefficients) -> LocalExpansion:
        del conditions
        (values,) = coefficients
        return self.local_expansion(values[:, 0])

    def local_expansion(self, values: Float[Array, " N1"]) -> LocalExpansion:
        """Return the function with ψu = `values`."""
        return LocalExpansion(
            self.functionals, values, self.metric, self.support_radius, self.solver.jitter
        )

    def neighbors(self, conditions: Conditions) -> Neighbors:
        return tuple(
            group_neighbors(c.point_set.points, self.functionals, self.metric, self.support_radius)
            for c in conditions
        )

    def apply_transpose(
        self, system: LinearSystem, weights: Float[Array, " M"]
    ) -> Float[Array, " N1"]:
        """Return Aᵀ z."""
        total = jnp.zeros(self.pattern.padding_index + 1)
        for batch, indices in zip(system.expansion(weights), self.functional_indices, strict=True):
            total = total.at[indices].add(batch.coefficients)
        return total / self._scale()

    def jet_values(self, values: Float[Array, " N1"]) -> tuple[Float[Array, "_ _"], ...]:
        """Return the jet values of each condition from ψu."""
        unscaled = values / self._scale()
        return tuple(unscaled[indices] for indices in self.functional_indices)

    def apply(self, system: LinearSystem, values: Float[Array, " N1"]) -> Float[Array, " M"]:
        """Return A ψu."""
        return jnp.concatenate(
            [
                stack.apply(jet_values)
                for stack, jet_values in zip(system.stacks, self.jet_values(values), strict=True)
            ]
        )

    def _scale(self) -> Float[Array, " N1"]:
        return jnp.sum(self.functionals.coefficients, axis=1).at[-1].set(1.0)

    def solve(
        self,
        prior: Prior,
        system: LinearSystem,
        sweeps: int | Int[Array, ""] = 0,
        cache_intermediates: bool = False,
    ) -> SparseSolution:
        del sweeps, cache_intermediates
        diagonal, shift = diagonal_and_shift(prior, system, self.solver.nugget)
        frozen_kernels, frozen_system, frozen_shift = stop_gradient((prior, system, shift))
        operator = PreconditionedOperator(
            self,
            frozen_system,
            self.factorize(frozen_kernels) if self.factor is None else self.factor,
            factorize_sparse(
                frozen_kernels,
                pad_functionals(concatenate(frozen_system.batches), 1),
                jnp.concatenate([frozen_shift, jnp.ones(1)]),
                self.solver.jitter,
                self.row_pattern,
            ),
            frozen_shift,
        )
        frozen_weights, converged = operator.conjugate_gradients(frozen_system.rhs)
        frozen_values = operator.values(frozen_weights)
        weights, values = _weights_and_values(
            (prior, system, shift, system.rhs), operator, (frozen_weights, frozen_values)
        )
        row_values = self.apply(system, values)
        succeeded = operator.factor.succeeded & operator.preconditioner.succeeded
        result = select_result(
            RESULTS.successful.code,
            (~succeeded, RESULTS.not_positive_definite),
            (~converged, RESULTS.linear_solver_failed),
            (~jnp.isfinite(diagonal).all(), RESULTS.not_finite),
        )
        return SparseSolution(
            system.stacks,
            jnp.where(succeeded, weights, jnp.nan),
            row_values,
            weights @ row_values,
            diagonal,
            jnp.asarray(self.solver.nugget, dtype=float),
            result,
            shift,
            self.pattern.mesh,
            self.local_expansion(values),
            self.jet_values(values),
        )

    def factorize(self, prior: Prior) -> Factor:
        """Compute the factor for ψ."""
        shift = jnp.zeros(self.pattern.padding_index + 1)
        return factorize_sparse(prior, self.functionals, shift, self.solver.jitter, self.pattern)


@compiled
def _factorize(prior: Prior, solver_state: SparseState) -> Factor:
    return solver_state.factorize(prior)


class PreconditionedOperator(eqx.Module):
    """Matrix A Θ Aᵀ + T with its preconditioner."""

    solver_state: SparseState
    system: LinearSystem
    factor: Factor
    preconditioner: Factor
    shift: Float[Array, " M"]

    def values(self, weights: Float[Array, " M"]) -> Float[Array, " N1"]:
        """Return ψu = Θ Aᵀ z."""
        return self.factor.covariance_times(self.solver_state.apply_transpose(self.system, weights))

    def times(self, weights: Float[Array, " M"]) -> Float[Array, " M"]:
        """Return (A Θ Aᵀ + T) z."""
        return self.solver_state.apply(self.system, self.values(weights)) + self.shift * weights

    def precondition(self, vector: Float[Array, " M"]) -> Float[Array, " M"]:
        """Apply the approximate inverse."""
        return self.preconditioner.precision_times(jnp.concatenate([vector, jnp.zeros(1)]))[:-1]

    def conjugate_gradients(
        self, rhs: Float[Array, " M"]
    ) -> tuple[Float[Array, " M"], Bool[Array, ""]]:
        """Return the solution and whether the iteration converged."""
        solver = self.solver_state.solver
        first = self.precondition(rhs)
        initial = rhs @ first
        bound = solver.tolerance**2 * initial

        def should_continue(state) -> Bool[Array, ""]:
            count, _, _, _, squared_norm = state
            return (count < solver.max_iterations) & (squared_norm > bound)

        def iterate(state):
            count, solution, residual, direction, squared_norm = state
            image = self.times(direction)
            step_length = squared_norm / (direction @ image)
            residual = residual - step_length * image
            preconditioned = self.precondition(residual)
            new_norm = residual @ preconditioned
            return (
                count + 1,
                solution + step_length * direction,
                residual,
                preconditioned + (new_norm / squared_norm) * direction,
                new_norm,
            )

        start = (jnp.asarray(0), jnp.zeros_like(rhs), rhs, first, initial)
        _, solution, _, _, squared_norm = jax.lax.while_loop(should_continue, iterate, start)
        return solution, squared_norm <= bound

    def inverse_times(self, rhs: Float[Array, " M"]) -> Float[Array, " M"]:
        """Solve (A Θ Aᵀ + T) z = b with implicit derivatives."""
        return jax.lax.custom_linear_solve(
            self.times, rhs, lambda _, b: self.conjugate_gradients(b)[0], symmetric=True
        )


@eqx.filter_custom_jvp
def _weights_and_values(
    operands,
    operator: PreconditionedOperator,
    solution: tuple[Float[Array, " M"], Float[Array, " N1"]],
):
    """Return z and v = ψu = Θ Aᵀ z as functions of kernels, A, T and b."""
    del operands, operator
    return solution


@_weights_and_values.def_jvp
def _(primals, tangents):
    (prior, system, _, _), operator, (weights, values) = primals
    (kernels_dot, system_dot, shift_dot, rhs_dot), _, _ = tangents
    state: SparseState = operator.solver_state
    if any(stack.points is not None for stack in system_dot.stacks):
        raise InputError(
            "Sparse: derivatives in points are not available. Use Dense() or LowRank()."
        )
    active, active_dot, inactive = split_tangents((prior, system), (kernels_dot, system_dot))

    def products(leaves):
        """Return Θ⁻¹ v, Aᵀ z and A v."""
        prior, system = eqx.combine(leaves, inactive)
        jitter = state.solver.jitter
        return (
            precision_times(prior, state.functionals, jitter, state.pattern, values),
            state.apply_transpose(system, weights),
            state.apply(system, values),
        )

    precision_dot, transpose_dot, applied_dot = jax.jvp(products, (active,), (active_dot,))[1]
    # dv = Θ (dAᵀ z - dΘ⁻¹ v + Aᵀ dz), and P dz = db - dT z - dA v - A Θ (dAᵀ z - dΘ⁻¹ v).
    explicit = operator.factor.covariance_times(transpose_dot - precision_dot)
    change = -applied_dot - state.apply(operator.system, explicit)
    if shift_dot is not None:
        change = change - shift_dot * weights
    if rhs_dot is not None:
        change = change + rhs_dot
    weights_dot = operator.inverse_times(change)
    return (weights, values), (weights_dot, operator.values(weights_dot) + explicit)
