"""The sparse solver: near-linear in the number of rows, for kernels of finite smoothness.

Let ψ be the values of the fields at all points and the derivatives that the equations use, and
Θ = κ(ψ, ψ). Each row of a linearized problem is a combination of few of them, Φ = Aψ, and

    (A Θ Aᵀ + T) z = b,    u = κ(·, Φ) z.

Given values nearby, values and derivatives of functions with a Matern kernel hardly depend on what
is farther away: ordered from coarse to fine Θ⁻¹ has a sparse triangular factor, Θ⁻¹ ≈ U Uᵀ (Chen,
Owhadi and Schäfer 2025). Products with Θ are two triangular solves. The system is solved by
conjugate gradients, with a factor of the same kind for κ(Φ, Φ) + T as preconditioner; on its own
that would be no solver.

For the derivative in the kernels let v = Θ Aᵀ z; then ∂(A Θ Aᵀ z) = -A Θ ∂(U Uᵀ) v, with one more
run of conjugate gradients. The preconditioner needs none.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import held
from kernelpde.checking import real_number, whole_number
from kernelpde.compiling import compiled
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Kernels, concatenate, gram_diagonal, one_axis
from kernelpde.linear_solvers._dense_factor import check_nuggets
from kernelpde.linear_solvers._factor import Factor, Pattern, factorized, precision_times
from kernelpde.linear_solvers._local import Local, Nearby, nearby
from kernelpde.linear_solvers._metric import Metric
from kernelpde.linear_solvers._ordering import Level
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.linear_solvers._sparse_order import pool_of, row_groups
from kernelpde.linear_solvers._sparse_solution import SparseSolution
from kernelpde.linear_solvers._supernodes import elimination
from kernelpde.linear_solvers._system import (
    AbstractLinearSolverState,
    moving_parts,
)
from kernelpde.problem import Collocation, LinearizedProblem, Residual

_ELSEWHERE = 4.0
"""How far a point that is no collocation point sees, in units of the finest length scale."""

_PER_ENTRY = 1000.0
"""Operations for each entry of the small Gram matrices, everything included."""


class Sparse(eqx.Module):
    """Sparse Cholesky factors and conjugate gradients, for Matern kernels.

    **Arguments:**

    - `nugget`, `largest_nugget`: as for `Dense`.
    - `radius`: ρ, within which functionals are coupled, in units of the distance to earlier ones.
      Should grow like log M; the error decays exponentially in ρ, work and memory grow like ρ^(2d).
    - `preconditioner_radius`: likewise for the preconditioner, which may be less accurate.
    - `jitter`: added to the diagonal of small Gram matrices, relative to it.
    - `tolerance`: of conjugate gradients, on the relative residual.
    - `max_iterations`: of conjugate gradients.
    - `mesh`: devices that share the small factors, as for `Automatic`.

    **Example:**

    ```python
    >>> rough = problem.with_kernels((kp.Matern(4.5, 0.3),))
    >>> found_by = kp.solve(rough, {"equation": 200, "ends": 2}, linear_solver=kp.Sparse())
    >>> found_by.linear_solver.startswith("Sparse")
    True
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()

    nugget: float = 1e-12
    largest_nugget: float = 1e-6
    radius: float = eqx.field(static=True, default=5.0)
    preconditioner_radius: float = eqx.field(static=True, default=5.0)
    jitter: float = eqx.field(static=True, default=1e-13)
    tolerance: float = eqx.field(static=True, default=1e-8)
    max_iterations: int = eqx.field(static=True, default=200)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=one_axis)

    def __check_init__(self):
        check_nuggets("Sparse", self.nugget, self.largest_nugget)
        for name in ("radius", "preconditioner_radius", "tolerance"):
            real_number("Sparse", name, getattr(self, name), above=0)
        real_number("Sparse", "jitter", self.jitter, at_least=0)
        whole_number("Sparse", "max_iterations", self.max_iterations, at_least=1)

    def planned(
        self,
        kernels: Kernels,
        residuals: tuple[Residual, ...],
        blocks: tuple[Collocation, ...],
    ) -> "SparseState":
        """Order and pattern for a problem and its points."""
        if any(block.width > 1 for block in blocks):
            raise InputError("Sparse: averages are not local; use Dense() or LowRank().")
        every = np.concatenate([np.asarray(block.points) for block in blocks])
        metric = Metric.of(kernels, every)
        pool, alias, groups = pool_of(residuals, blocks, metric)
        points = np.concatenate(
            [
                np.tile(np.asarray(block.points), (len(residual.components), 1))
                for residual, block in zip(residuals, blocks, strict=True)
            ]
        )
        return SparseState(
            self,
            _with_idle(pool, kernels),
            tuple(map(jnp.asarray, alias)),
            _pattern(metric(np.asarray(pool.points)), groups, self.radius, self.mesh),
            _pattern(
                metric(points),
                row_groups(residuals, blocks, metric),
                self.preconditioner_radius,
                self.mesh,
            ),
            metric,
            min(self.radius, _ELSEWHERE) * groups[-1].scale,
        )


def _pattern(
    points: Float[np.ndarray, "N d"], groups: list[Level], radius: float, mesh: Mesh | None
) -> Pattern:
    return Pattern.of(elimination(points, groups, radius), mesh)


def _with_idle(functionals: Functionals, kernels: Kernels | None = None) -> Functionals:
    """One more functional that is zero; with kernels, all others scaled to unit variance."""
    if kernels is not None:
        size = _sizes(kernels, functionals)
        functionals = functionals.scaled(1.0 / jnp.sqrt(jnp.where(size > 0, size, 1.0)))
    zero = jnp.zeros((1, functionals.coefficients.shape[1]))
    return Functionals(
        jnp.concatenate([functionals.points, functionals.points[-1:]]),
        jnp.concatenate([functionals.coefficients, zero]),
        functionals.terms,
    )


@compiled
def _sizes(kernels: Kernels, functionals: Functionals) -> Float[Array, " N"]:
    return gram_diagonal(kernels, [functionals])


class SparseState(AbstractLinearSolverState):
    """Order and pattern.

    **Attributes:**

    - `solver`: its numbers.
    - `pool`: ψ, scaled to about unit variance.
    - `alias`: for each condition the numbers in ψ of its entries.
    - `pattern`, `row_pattern`: of the factors for ψ and for the rows.
    - `metric`, `reach`: how far functionals matter for other points.
    - `factor`: that of ψ, if it was made already.
    """

    solver: Sparse
    pool: Functionals
    alias: tuple[Int[Array, "_ _"], ...]
    pattern: Pattern
    row_pattern: Pattern
    metric: Metric
    reach: float
    factor: Factor | None = None

    def operations(self, rows: int) -> float:
        del rows
        # Small Gram matrices and conjugate gradients take more than small factors do.
        return _PER_ENTRY * self.row_pattern.entries

    @property
    def bytes(self) -> float:
        """The memory of both factors."""
        return self.pattern.bytes + self.row_pattern.bytes

    def prepared(self, kernels: Kernels) -> "SparseState":
        """With the factor of ψ for kernels that stay."""
        return eqx.tree_at(
            lambda plan: plan.factor, self, _factor(kernels, self), is_leaf=lambda x: x is None
        )

    def zero(
        self, residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
    ) -> tuple[Float[Array, "_ _"], ...]:
        del residuals, blocks
        return (jnp.asarray(np.zeros((self.pattern.idle + 1, 1))),)

    def function(
        self,
        residuals: tuple[Residual, ...],
        blocks: tuple[Collocation, ...],
        coefficients: tuple[Float[Array, "_ _"], ...],
    ) -> Local:
        del residuals, blocks
        ((values,),) = (tuple(c[:, 0] for c in coefficients),)
        return Local(self.pool, values, self.metric, self.reach, self.solver.jitter)

    def nearby(self, blocks: tuple[Collocation, ...]) -> tuple[Nearby | None, ...]:
        others = self.metric(np.asarray(self.pool.points)[:-1])
        return tuple(
            nearby(self.metric(np.asarray(block.points)), others, self.reach) for block in blocks
        )

    def gathered(self, rows: LinearizedProblem, weights: Float[Array, " M"]) -> Float[Array, " N1"]:
        """Aᵀ z."""
        total = jnp.zeros(self.pattern.idle + 1)
        for part, alias in zip(rows.expansion(weights), self.alias, strict=True):
            total = total.at[alias].add(part.coefficients)
        return total / self._scale()

    def entries(self, values: Float[Array, " N1"]) -> tuple[Float[Array, "_ _"], ...]:
        """For each condition its jet entries, from ψu."""
        unscaled = values / self._scale()
        return tuple(unscaled[alias] for alias in self.alias)

    def applied(self, rows: LinearizedProblem, values: Float[Array, " N1"]) -> Float[Array, " M"]:
        """A ψu."""
        entries = self.entries(values)
        return jnp.concatenate(
            [stack.applied(e) for stack, e in zip(rows.stacks, entries, strict=True)]
        )

    def _scale(self) -> Float[Array, " N1"]:
        return jnp.sum(self.pool.coefficients, axis=1).at[-1].set(1.0)

    def solve(
        self,
        kernels: Kernels,
        rows: LinearizedProblem,
        noise: Float[Array, " M"],
        rhs: Float[Array, " M"],
        sweeps: int | Int[Array, ""],
        keep: bool = False,
    ) -> SparseSolution:
        del sweeps, keep
        diagonal = gram_diagonal(kernels, rows.batches)
        added = noise + self.solver.nugget * (diagonal + noise)
        still_kernels, still_added, still_rhs = held((kernels, added, rhs))
        still = held(rows)
        system = _System(
            self,
            still,
            self._made(still_kernels) if self.factor is None else self.factor,
            factorized(
                still_kernels,
                _with_idle(concatenate(still.batches)),
                jnp.concatenate([still_added, jnp.ones(1)]),
                self.solver.jitter,
                self.row_pattern,
            ),
            still_added,
        )
        found, iterations, converged = system.conjugate_gradients(still_rhs)
        seen = system.factor.covariance_times(self.gathered(still, found))
        z, values = _solution((kernels, rows, added, rhs), system, (found, seen))
        raw = self.entries(values)
        image = jnp.concatenate(
            [stack.applied(e) for stack, e in zip(rows.stacks, raw, strict=True)]
        )
        usable = system.factor.usable & system.preconditioner.usable
        result = RESULTS.where(usable, RESULTS.successful, RESULTS.not_positive_definite)
        result = RESULTS.where(converged, result, RESULTS.not_converged)
        result = RESULTS.where(jnp.isfinite(diagonal).all(), result, RESULTS.not_finite)
        return SparseSolution(
            rows.stacks,
            jnp.where(usable, z, jnp.nan),
            image,
            z @ image,
            diagonal,
            jnp.asarray(self.solver.nugget, dtype=float),
            result,
            added,
            values,
            raw,
            iterations,
            self.pool,
            self.solver.jitter,
            self.pattern.mesh,
        )

    def _made(self, kernels: Kernels) -> Factor:
        nothing = jnp.zeros(self.pattern.idle + 1)
        return factorized(kernels, self.pool, nothing, self.solver.jitter, self.pattern)


@compiled
def _factor(kernels: Kernels, plan: SparseState) -> Factor:
    return plan._made(kernels)


class _System(eqx.Module):
    """A Θ Aᵀ + T with its preconditioner."""

    plan: SparseState
    rows: LinearizedProblem
    factor: Factor
    preconditioner: Factor
    added: Float[Array, " M"]

    def times(self, vector: Float[Array, " M"]) -> Float[Array, " M"]:
        seen = self.factor.covariance_times(self.plan.gathered(self.rows, vector))
        return self.plan.applied(self.rows, seen) + self.added * vector

    def _preconditioned(self, vector: Float[Array, " M"]) -> Float[Array, " M"]:
        return self.preconditioner.precision_times(jnp.concatenate([vector, jnp.zeros(1)]))[:-1]

    def conjugate_gradients(
        self, rhs: Float[Array, " M"]
    ) -> tuple[Float[Array, " M"], Int[Array, ""], Bool[Array, ""]]:
        """The solution, the number of iterations, and whether the tolerance was met."""
        solver = self.plan.solver
        first = self._preconditioned(rhs)
        size = rhs @ first
        bound = solver.tolerance**2 * size

        def unfinished(state) -> Bool[Array, ""]:
            count, _, _, _, energy = state
            return (count < solver.max_iterations) & (energy > bound)

        def iterate(state):
            count, found, left, along, energy = state
            image = self.times(along)
            length = energy / (along @ image)
            left = left - length * image
            better = self._preconditioned(left)
            new = left @ better
            return count + 1, found + length * along, left, better + (new / energy) * along, new

        begin = (jnp.asarray(0), jnp.zeros_like(rhs), rhs, first, size)
        count, found, _, _, energy = jax.lax.while_loop(unfinished, iterate, begin)
        return found, count, energy <= bound

    def inverse_times(self, rhs: Float[Array, " M"]) -> Float[Array, " M"]:
        return jax.lax.custom_linear_solve(
            self.times, rhs, lambda _, b: self.conjugate_gradients(b)[0], symmetric=True
        )


@eqx.filter_custom_jvp
def _solution(moving, system: _System, found: tuple[Float[Array, " M"], Float[Array, " N1"]]):
    """z and v = ψu = Θ Aᵀ z as functions of kernels, A, T and b."""
    del moving, system
    return found


@_solution.def_jvp
def _(primals, tangents):
    (kernels, rows, _, _), system, (z, values) = primals
    (kernels_dot, rows_dot, added_dot, rhs_dot), _, _ = tangents
    plan, factor = system.plan, system.factor
    if any(stack.points is not None for stack in rows_dot.stacks):
        raise InputError("Sparse: there is no derivative in points. Use Dense() or LowRank().")
    moved, along, rest = moving_parts((kernels, rows), (kernels_dot, rows_dot))

    def products(leaves):
        """Θ⁻¹ v, Aᵀ z and A v."""
        model, phi = eqx.combine(leaves, rest)
        return (
            precision_times(model, plan.pool, plan.solver.jitter, plan.pattern, values),
            plan.gathered(phi, z),
            plan.applied(phi, values),
        )

    by_kernel, by_rows, applied_dot = jax.jvp(products, (moved,), (along,))[1]
    # dv = Θ (dAᵀ z - dΘ⁻¹ v + Aᵀ dz), and P dz = db - dT z - dA v - A Θ (dAᵀ z - dΘ⁻¹ v).
    first = factor.covariance_times(by_rows - by_kernel)
    change = -applied_dot - plan.applied(system.rows, first)
    if added_dot is not None:
        change = change - added_dot * z
    if rhs_dot is not None:
        change = change + rhs_dot
    z_dot = system.inverse_times(change)
    values_dot = factor.covariance_times(plan.gathered(system.rows, z_dot)) + first
    return (z, values), (z_dot, values_dot)
