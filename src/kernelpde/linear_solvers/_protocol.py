"""Linear solver protocol: settings, state and solution.

A linear solver computes the minimum-norm function u with Φu = b up to noise. The solution is an
expansion in functionals ψⱼ applied to the kernel,

    u = Σⱼ wⱼ ψⱼ κ,

with ψ the rows Φ themselves or inducing functionals.
`AbstractLinearSolver.init` selects functionals, orderings and sparsity patterns on the host.
`AbstractLinearSolverState.solve` is traced and differentiable.
"""

import abc
from typing import ClassVar, Generic, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PyTree

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
from kernelpde.linear_solvers._cost import Cost
from kernelpde.linear_solvers._leave_one_out import AbstractLeaveOneOut
from kernelpde.linear_solvers._local import LocalExpansion, NeighborGroups
from kernelpde.linear_solvers._products import sharded_jets
from kernelpde.problem import Conditions, DiscreteProblem, LinearSystem
from kernelpde.results import RESULTS, is_any

_Tree = TypeVar("_Tree", bound=PyTree)

Coefficients: TypeAlias = tuple[Float[Array, "_ _"], ...]
"""Coefficients that represent a solution u; they are linear in u."""

Neighbors: TypeAlias = tuple[NeighborGroups | None, ...]
"""For each condition the neighbors of its points, if the evaluation of a solution needs them."""


class AbstractLinearSolution(eqx.Module):
    """Solution u = Σⱼ wⱼ ψⱼ κ of a linearized system.

    The optional operations `leave_one_out`, `covariance` and `variance` exist if the `capabilities`
    of the solver contain them. Subclasses append fields for the operations below.

    **Attributes:**

    - `stacks`, `weights`: functionals ψ and weights w.
    - `row_values`: Φu.
    - `norm_squared`: ‖u‖².
    - `diagonal`: diagonal of the Gram matrix of the rows.
    - `nugget`, `result`: nugget and result code of the linear solve.
    - `diagonal_shift`: diagonal of T, which is added to the Gram matrix.
    - `device_mesh`: devices that shared the computation.
    """

    stacks: tuple[StackedFunctionals, ...]
    weights: Float[Array, " m"]
    row_values: Float[Array, " M"]
    norm_squared: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    result: Int[Array, ""]
    diagonal_shift: Float[Array, " M"]
    device_mesh: Mesh | None = eqx.field(static=True)

    @property
    def succeeded(self) -> Bool[Array, ""]:
        """True if the solve succeeded; otherwise all values are NaN."""
        return is_any(self.result, RESULTS.successful, RESULTS.nugget_raised)

    def without_factor(self) -> "AbstractLinearSolution":
        """Return a copy without factorizations."""
        return self

    @property
    def expansion(self) -> tuple[Functionals, ...]:
        """Weighted functionals, one batch per stack."""
        return expand(self.stacks, self.weights)

    @property
    def coefficients(self) -> Coefficients:
        """Coefficients that represent u."""
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
        neighbors: Neighbors,
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

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: Coefficients
    ) -> Float[Array, ""]:
        """Return ⟨v, u⟩ for v of the same span, with its row values Φv and its coefficients."""
        del coefficients
        return self.weights @ applied

    def leave_one_out(
        self, prior: Prior, system: LinearSystem, conditions: tuple[int, ...]
    ) -> AbstractLeaveOneOut:
        """Return the leave-one-out predictions of the rows of some conditions, by their indices."""
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
    def init(self, problem: DiscreteProblem) -> "AbstractLinearSolverState":
        """Precompute the structure that does not depend on the linearization."""

    def select(
        self, problem: DiscreteProblem, *, learning: bool, needs: frozenset[str]
    ) -> tuple["AbstractLinearSolverState", str]:
        """Return the state of the solver to use and the reason of its selection, if there is one.

        **Arguments:**

        - `problem`: prior and conditions at their points.
        - `learning`: whether derivatives in the kernels are required.
        - `needs`: required capabilities.
        """
        del learning, needs
        return self.init(problem), ""

    def needs_concrete_kernels(self, num_rows: int) -> bool:
        """Return whether the state depends on the values of kernels and points."""
        del num_rows
        return True


_Solver = TypeVar("_Solver", bound=AbstractLinearSolver)


class AbstractLinearSolverState(eqx.Module, Generic[_Solver]):
    """Precomputed structure of a linear solver for given kernels, residuals and points.

    **Attributes:**

    - `solver`: solver settings.
    - `forms_matrix`: whether the matrix of all rows is formed; its rows can then be padded.
    """

    forms_matrix: ClassVar[bool] = False

    solver: _Solver

    @property
    def nugget(self) -> float | Float[Array, ""]:
        """Nugget η relative to the diagonal."""
        return self.solver.nugget

    @property
    def refinement_sweeps(self) -> int:
        """Number of refinement sweeps after the last solve."""
        return 0

    @abc.abstractmethod
    def describe(self, num_rows: int) -> str:
        """Return the solver type and its size for messages."""

    @abc.abstractmethod
    def cost(self, num_rows: int, *, learning: bool) -> Cost:
        """Estimate the work and the memory of a step."""

    @abc.abstractmethod
    def check_size(self, num_rows: int, *, learning: bool) -> None:
        """Raise an error if the memory or the number of rows is insufficient."""

    def with_factor(self, prior: Prior) -> "AbstractLinearSolverState":
        """Return a copy with the factorizations that depend on the kernels only."""
        del prior
        return self

    @abc.abstractmethod
    def zero_coefficients(self, conditions: Conditions) -> Coefficients:
        """Return the coefficients that represent u = 0."""

    @abc.abstractmethod
    def to_expansion(
        self, conditions: Conditions, coefficients: Coefficients
    ) -> tuple[Functionals, ...] | LocalExpansion:
        """Convert coefficients to an expansion that can be evaluated at any point."""

    def neighbors(self, conditions: Conditions) -> Neighbors:
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

        - `prior`: prior of the fields.
        - `system`: linearized system, with the rows Φ, the right-hand side b and the noise Σ.
        - `sweeps`: number of refinement sweeps.
        - `cache_intermediates`: store the intermediate values of derivatives, for repeated use.
        """


def split_tangents(primals: _Tree, tangents: _Tree) -> tuple[_Tree, _Tree, _Tree]:
    """Split the arguments of a derivative rule into active leaves, their tangents and the rest."""
    is_active = jax.tree.map(lambda tangent: tangent is not None, tangents, is_leaf=_is_none)
    active, inactive = eqx.partition(primals, is_active)
    return active, tangents, inactive


def _is_none(tree: object) -> bool:
    return tree is None
