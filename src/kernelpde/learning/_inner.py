"""The inner problem: a linearized system, and its solution as a function of the kernels."""

from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Float

from kernelpde.functionals import Kernels, Term
from kernelpde.linear_solvers import AbstractLinearSolution, AbstractLinearSolverState, Nearby
from kernelpde.problem import Collocation, LinearizedProblem, Residual


class Linearization(eqx.Module):
    """What the residuals at some points see of a state: sums of states are sums of views.

    **Attributes:**

    - `jets`: per condition, the entries in which its residual is nonlinear.
    - `linear`: per row, the part of the residual that is linear in u.
    """

    jets: tuple[Float[Array, "_ _"], ...]
    linear: Float[Array, " M"]


def inner_map(
    kernels: Kernels, rows: LinearizedProblem, plan: AbstractLinearSolverState, keep: bool = False
) -> AbstractLinearSolution:
    """Solve the linearized training problem of the paper; with noise, the one with relaxed
    conditions.

    The state is Π_k(θ) = κ_θ(·, Φ) z, z = (K_Φ + Σ)⁻¹ b, or what stands for it. Differentiable in
    the kernels, forwards and backwards, at the cost of one more solve and one more product with the
    Gram matrix, which is not kept for it; with `keep`, more is.
    """
    return plan.solve(kernels, rows, rows.variance, rows.rhs, plan.refinement, keep)


Places: TypeAlias = tuple[tuple[Float[Array, "_ _"], tuple[Term, ...]], ...]
"""Per condition its points, and the entries in which its residual is nonlinear."""


def places_of(residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]) -> Places:
    return tuple((b.points, r.nonlinear_terms) for r, b in zip(residuals, blocks, strict=True))


def entries_of(
    kernels: Kernels,
    solved: AbstractLinearSolution,
    places: Places,
    near: tuple[Nearby | None, ...],
) -> tuple[Float[Array, "_ _"], ...]:
    """The nonlinear jet entries of a state at other points, per condition."""
    return tuple(
        solved.jets(kernels, points, terms, n)
        for (points, terms), n in zip(places, near, strict=True)
    )
