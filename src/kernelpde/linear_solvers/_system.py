"""What every solver of a linearized problem has in common.

The problem is: of all u with Φu = b up to noise, the one of least norm. Its solution is a
combination of functionals ψⱼ applied to the kernel,

    u = Σⱼ wⱼ ψⱼ κ,

with ψ the rows themselves or fewer functionals that stand for them.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from kernelpde.functionals import (
    Functionals,
    Kernels,
    Stack,
    Term,
    expansion,
    jets,
    stacked_matvec,
)
from kernelpde.linear_solvers._left_out import AbstractLeftOut
from kernelpde.linear_solvers._local import Local, Nearby
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.problem import Collocation, LinearizedProblem, Residual


class AbstractLinearSolution(eqx.Module):
    """A combination u = Σⱼ wⱼ ψⱼ κ that solves a linearized problem.

    **Attributes:**

    - `stacks`: ψ.
    - `weights`: w.
    - `fitted`: Φu.
    - `norm_squared`: ‖u‖².
    - `diagonal`: of the Gram matrix of the rows.
    - `nugget`, `result`: of the linear solve.
    - `added`: T, what the matrix has on its diagonal beyond the Gram matrix.
    """

    stacks: eqx.AbstractVar[tuple[Stack, ...]]
    weights: eqx.AbstractVar[Float[Array, " m"]]
    fitted: eqx.AbstractVar[Float[Array, " M"]]
    norm_squared: eqx.AbstractVar[Float[Array, ""]]
    diagonal: eqx.AbstractVar[Float[Array, " M"]]
    nugget: eqx.AbstractVar[Float[Array, ""]]
    result: eqx.AbstractVar[RESULTS]
    added: eqx.AbstractVar[Float[Array, " M"]]

    @property
    def devices(self) -> Mesh | None:
        """Those that have shared the work."""
        return None

    @property
    def usable(self) -> Bool[Array, ""]:
        """Whether there is a solution; without one every answer is NaN."""
        return (self.result == RESULTS.successful) | (self.result == RESULTS.nugget_raised)

    def without_factor(self) -> "AbstractLinearSolution":
        """The same without what takes the memory of a matrix."""
        return self

    @property
    def expansion(self) -> tuple[Functionals, ...]:
        """u as functionals with their weights multiplied in, one batch per stack."""
        return expansion(self.stacks, self.weights)

    @property
    def coefficients(self) -> tuple[Float[Array, "_ _"], ...]:
        """What u is kept as: numbers that add up when functions do."""
        return tuple(batch.coefficients for batch in self.expansion)

    def jets(
        self,
        kernels: Kernels,
        points: Float[Array, "P d"],
        terms: tuple[Term, ...],
        near: Nearby | None,
    ) -> Float[Array, "P T"]:
        """Jet entries of u at other points.

        **Arguments:**

        - `kernels`, `points`, `terms`: of what, where and which.
        - `near`: what the plan knows about the points.
        """
        del near
        return jets(kernels, points, terms, self.expansion)

    def predicted(
        self,
        kernels: Kernels,
        stacks: tuple[Stack, ...],
        near: tuple[Nearby | None, ...],
        keep: bool = False,
    ) -> Float[Array, " N"]:
        """What functionals at other points see of u; `near` and `keep` as elsewhere."""
        del near
        return stacked_matvec(kernels, stacks, self.stacks, self.weights, keep=keep)

    @abc.abstractmethod
    def condition(self) -> Float[Array, ""]:
        """A bound from below on the condition number of the matrix scaled to unit diagonal."""

    @abc.abstractmethod
    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        """⟨v, u⟩ for another function v of the same kind.

        **Arguments:**

        - `applied`: Φv.
        - `coefficients`: what v is kept as.
        """

    def left_out(
        self, kernels: Kernels, rows: LinearizedProblem, conditions: tuple[int, ...]
    ) -> AbstractLeftOut:
        """What is predicted of the rows of some conditions, each left out in turn.

        **Arguments:**

        - `kernels`, `rows`: what u was found with.
        - `conditions`: their numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no inverse.")

    def covariance(
        self, kernels: Kernels, rows: LinearizedProblem, left: Functionals, right: Functionals
    ) -> Float[Array, "m n"]:
        """Between functionals, given the rows."""
        raise NotImplementedError(f"{type(self).__name__} has no covariances.")

    def variance(
        self, kernels: Kernels, rows: LinearizedProblem, functionals: Functionals
    ) -> Float[Array, " n"]:
        """Of each functional, given the rows."""
        raise NotImplementedError(f"{type(self).__name__} has no covariances.")

    def energy(self, rhs: Float[Array, " M"]) -> Float[Array, ""]:
        """bᵀ P⁻¹ b = ‖u‖² + (b - Φu)ᵀ T⁻¹ (b - Φu)."""
        return self.norm_squared + jnp.sum((rhs - self.fitted) ** 2 / self.added)

    def entries(self, kernels: Kernels, rows: LinearizedProblem) -> tuple[Float[Array, "_ _"], ...]:
        """The entries of u at the points of each condition in which its residual is nonlinear."""
        return tuple(
            jets(kernels, stack.points, terms, self.expansion)
            for stack, terms in zip(rows.stacks, rows.nonlinear_terms, strict=True)
        )


class AbstractLinearSolverState(eqx.Module):
    """What is settled on the host before anything is compiled: an order, pivots, a pattern.

    **Attributes:**

    - `solver`: its numbers.
    """

    solver: eqx.AbstractVar[Any]

    @property
    def nugget(self) -> float | Float[Array, ""]:
        """η, what a row may miss relative to its prior variance."""
        return self.solver.nugget

    @property
    def forms_matrix(self) -> bool:
        """Whether the matrix of all rows is formed: they are few, and zero ones may be added."""
        return False

    @property
    def refinement(self) -> int:
        """Sweeps after a final solve; only with a factor of the whole matrix do they help."""
        return 0

    @abc.abstractmethod
    def operations(self, rows: int) -> float:
        """About how many a step with that number of rows takes, for an estimate of its time."""

    def prepared(self, kernels: Kernels) -> "AbstractLinearSolverState":
        """With everything that can be done once if the kernels stay."""
        del kernels
        return self

    @abc.abstractmethod
    def zero(
        self, residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
    ) -> tuple[Float[Array, "_ _"], ...]:
        """What u = 0 is kept as."""

    @abc.abstractmethod
    def function(
        self,
        residuals: tuple[Residual, ...],
        blocks: tuple[Collocation, ...],
        coefficients: tuple[Float[Array, "_ _"], ...],
    ) -> tuple[Functionals, ...] | Local:
        """A function that can be evaluated anywhere, from what it is kept as."""

    def nearby(self, blocks: tuple[Collocation, ...]) -> tuple[Nearby | None, ...]:
        """What has to be known about other points to see u there."""
        return (None,) * len(blocks)

    @abc.abstractmethod
    def solve(
        self,
        kernels: Kernels,
        rows: LinearizedProblem,
        noise: Float[Array, " M"],
        rhs: Float[Array, " M"],
        sweeps: int | Int[Array, ""],
        keep: bool = False,
    ) -> AbstractLinearSolution:
        """Of all u with Φu = b up to noise, the one of least norm; differentiable in the kernels.

        **Arguments:**

        - `kernels`: one per field.
        - `rows`: Φ.
        - `noise`: the diagonal of Σ.
        - `rhs`: b.
        - `sweeps`: of refinement.
        - `keep`: what derivatives are made of is kept to be used many times.
        """


def moving_parts(primals: Any, tangents: Any) -> tuple[Any, Any, Any]:
    """The arrays that have tangents, these, and the rest of the arguments of a derivative."""
    leaves, structure = jax.tree.flatten(primals, is_leaf=_nothing)
    along = jax.tree.leaves(tangents, is_leaf=_nothing)
    pairs = [(leaf, t) for leaf, t in zip(leaves, along, strict=True)]
    moved = [None if t is None else leaf for leaf, t in pairs]
    rest = [leaf if t is None else None for leaf, t in pairs]
    return tuple(jax.tree.unflatten(structure, part) for part in (moved, along, rest))


def _nothing(tree: Any) -> bool:
    return tree is None
