"""Linear solver protocol: settings, state and solution.

A linear solver computes the minimum-norm function u with Φu = b up to noise. The solution is an
expansion in functionals ψⱼ applied to the kernel,

    u = Σⱼ wⱼ ψⱼ κ,

with ψ the rows Φ themselves or inducing functionals.
`AbstractLinearSolver.init` selects functionals, orderings and sparsity patterns on the host.
`AbstractLinearSolverState.solve` is traced and differentiable.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from kernelpde.checking import check_real
from kernelpde.functionals import (
    Functionals,
    Prior,
    StackedFunctionals,
    Term,
    evaluate_jets,
    expand,
    stacked_matvec,
)
from kernelpde.linear_solvers._leave_one_out import AbstractLeaveOneOut
from kernelpde.linear_solvers._local import LocalExpansion, NeighborGroups
from kernelpde.linear_solvers._products import sharded_jets
from kernelpde.linear_solvers._result import RESULTS, has_solution
from kernelpde.problem import Conditions, DiscreteProblem, LinearSystem


class AbstractLinearSolution(eqx.Module):
    """Solution u = Σⱼ wⱼ ψⱼ κ of a linearized system.

    Dense and low-rank solutions also implement `leave_one_out`, `covariance` and `variance`.

    **Attributes:**

    - `stacks`: functionals ψ.
    - `weights`: weights w.
    - `row_values`: Φu.
    - `norm_squared`: ‖u‖².
    - `diagonal`: diagonal of the Gram matrix of the rows.
    - `nugget`, `result`: nugget and result code of the linear solve.
    - `diagonal_shift`: diagonal of T, which is added to the Gram matrix.
    """

    stacks: eqx.AbstractVar[tuple[StackedFunctionals, ...]]
    weights: eqx.AbstractVar[Float[Array, " m"]]
    row_values: eqx.AbstractVar[Float[Array, " M"]]
    norm_squared: eqx.AbstractVar[Float[Array, ""]]
    diagonal: eqx.AbstractVar[Float[Array, " M"]]
    nugget: eqx.AbstractVar[Float[Array, ""]]
    result: eqx.AbstractVar[RESULTS]
    diagonal_shift: eqx.AbstractVar[Float[Array, " M"]]

    @property
    def device_mesh(self) -> Mesh | None:
        """Devices that shared the computation."""
        return None

    @property
    def succeeded(self) -> Bool[Array, ""]:
        """True if the solve succeeded; otherwise all values are NaN."""
        return has_solution(self.result)

    def without_factor(self) -> "AbstractLinearSolution":
        """Return a copy without factorizations."""
        return self

    @property
    def expansion(self) -> tuple[Functionals, ...]:
        """Weighted functionals, one batch per stack."""
        return expand(self.stacks, self.weights)

    @property
    def coefficients(self) -> tuple[Float[Array, "_ _"], ...]:
        """Coefficients that represent u; they are linear in u."""
        return tuple(batch.coefficients for batch in self.expansion)

    def jets(
        self,
        prior: Prior,
        points: Float[Array, "P d"],
        terms: tuple[Term, ...],
        neighbors: NeighborGroups | None,
    ) -> Float[Array, "P T"]:
        """Evaluate jet values of u at points, with `neighbors` from the solver state."""
        del neighbors
        return evaluate_jets(prior, points, terms, self.expansion)

    def predict(
        self,
        prior: Prior,
        stacks: tuple[StackedFunctionals, ...],
        neighbors: tuple[NeighborGroups | None, ...],
        cache_intermediates: bool = False,
    ) -> Float[Array, " N"]:
        """Evaluate other functionals of u, with the `neighbors` of their points."""
        del neighbors
        return stacked_matvec(
            prior, stacks, self.stacks, self.weights, cache_intermediates=cache_intermediates
        )

    @abc.abstractmethod
    def condition_number(self) -> Float[Array, ""]:
        """Return a lower bound on the condition number of the matrix scaled to unit diagonal."""

    @abc.abstractmethod
    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        """Return ⟨v, u⟩ for a function v of the same span.

        **Arguments:**

        - `applied`: Φv.
        - `coefficients`: coefficients that represent v.
        """

    def leave_one_out(
        self, prior: Prior, system: LinearSystem, conditions: tuple[int, ...]
    ) -> AbstractLeaveOneOut:
        """Return the leave-one-out predictions of the rows of some conditions.

        **Arguments:**

        - `kernels`, `system`: kernels and system of this solution.
        - `conditions`: indices of the conditions.
        """
        raise NotImplementedError(f"{type(self).__name__} has no inverse.")

    def covariance(
        self, prior: Prior, system: LinearSystem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        """Return the covariance between functionals conditioned on the rows."""
        raise NotImplementedError(f"{type(self).__name__} has no covariances.")

    def variance(
        self, prior: Prior, system: LinearSystem, functionals: Functionals
    ) -> Float[Array, " n"]:
        """Return the variance of functionals conditioned on the rows."""
        raise NotImplementedError(f"{type(self).__name__} has no covariances.")

    def quadratic_form(self, rhs: Float[Array, " M"]) -> Float[Array, ""]:
        """Return bᵀ P⁻¹ b = ‖u‖² + (b - Φu)ᵀ T⁻¹ (b - Φu)."""
        return self.norm_squared + jnp.sum((rhs - self.row_values) ** 2 / self.diagonal_shift)

    def jet_values(self, prior: Prior, system: LinearSystem) -> tuple[Float[Array, "_ _"], ...]:
        """Return the jet values in which the residual of each condition is nonlinear."""
        return tuple(
            sharded_jets(prior, stack.points, terms, self.expansion, self.device_mesh)
            for stack, terms in zip(system.stacks, system.nonlinear_terms, strict=True)
        )


class AbstractLinearSolverState(eqx.Module):
    """Precomputed structure of a linear solver for given kernels, residuals and points.

    **Attributes:**

    - `solver`: solver settings.
    """

    solver: eqx.AbstractVar[Any]

    @property
    def nugget(self) -> float | Float[Array, ""]:
        """Nugget η relative to the diagonal."""
        return self.solver.nugget

    @property
    def forms_matrix(self) -> bool:
        """True if the matrix of all rows is formed; its rows can then be padded."""
        return False

    @property
    def refinement_sweeps(self) -> int:
        """Number of refinement sweeps after the last solve."""
        return 0

    @abc.abstractmethod
    def describe(self, num_rows: int) -> str:
        """Return the solver type and its size for messages."""

    @abc.abstractmethod
    def check_size(self, num_rows: int, *, learning: bool) -> None:
        """Raise an error if the memory or the number of rows is insufficient."""

    @abc.abstractmethod
    def flops(self, num_rows: int) -> float:
        """Estimate the floating-point operations of a step."""

    def with_factor(self, prior: Prior) -> "AbstractLinearSolverState":
        """Return a copy with the factorizations that depend on the kernels only."""
        del prior
        return self

    @abc.abstractmethod
    def zero_coefficients(self, conditions: Conditions) -> tuple[Float[Array, "_ _"], ...]:
        """Return the coefficients that represent u = 0."""

    @abc.abstractmethod
    def to_expansion(
        self, conditions: Conditions, coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> tuple[Functionals, ...] | LocalExpansion:
        """Convert coefficients to an expansion that can be evaluated at any point."""

    def neighbors(self, conditions: Conditions) -> tuple[NeighborGroups | None, ...]:
        """Return the neighbors of points, as required by `AbstractLinearSolution.jets`."""
        return (None,) * len(conditions)

    @abc.abstractmethod
    def solve(
        self,
        prior: Prior,
        system: LinearSystem,
        sweeps: int | Int[Array, ""] = 0,
        cache_intermediates: bool = False,
    ) -> AbstractLinearSolution:
        """Compute the minimum-norm u with Φu = b up to noise, differentiable in the kernels.

        **Arguments:**

        - `kernels`: one kernel per field.
        - `system`: linearized system, with the rows Φ, the right-hand side b and the noise Σ.
        - `sweeps`: number of refinement sweeps.
        - `cache_intermediates`: store the intermediate values of derivatives, for repeated use.
        """


class AbstractLinearSolver(eqx.Module):
    """Settings of a linear solver.

    **Attributes:**

    - `capabilities`: optional operations of the solution, from "folds" (blocks of the inverse),
      "left out" (`leave_one_out`) and "covariance" (`covariance`, `variance`).
    - `nugget`, `max_nugget`: nugget and its upper bound, relative to the diagonal.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()

    nugget: eqx.AbstractVar[float]
    max_nugget: eqx.AbstractVar[float]

    def __check_init__(self):
        caller = type(self).__name__
        check_real(caller, "nugget", self.nugget, at_least=0, at_most=1)
        check_real(caller, "max_nugget", self.max_nugget, at_least=0, at_most=1)

    @abc.abstractmethod
    def init(self, problem: DiscreteProblem) -> AbstractLinearSolverState:
        """Precompute the structure that does not depend on the linearization."""


def split_tangents(primals: Any, tangents: Any) -> tuple[Any, Any, Any]:
    """Split the arguments of a derivative rule into active leaves, their tangents and the rest."""
    is_active = jax.tree.map(lambda tangent: tangent is not None, tangents, is_leaf=_is_none)
    active, inactive = eqx.partition(primals, is_active)
    return active, tangents, inactive


def _is_none(tree: Any) -> bool:
    return tree is None
