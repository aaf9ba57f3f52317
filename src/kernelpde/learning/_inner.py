"""Inner problem: a linearized system and its solution as a function of the kernels."""

import equinox as eqx
from jaxtyping import Array, Float

from kernelpde.functionals import Prior
from kernelpde.linear_solvers import AbstractLinearSolution, AbstractLinearSolverState
from kernelpde.problem import LinearSystem


class LinearizationPoint(eqx.Module):
    """Values of an iterate that the residuals at given points depend on; linear in the iterate.

    **Attributes:**

    - `jets`: per condition, the jet values in which its residual is nonlinear.
    - `linear`: per row, the part of the residual that is linear in u.
    """

    jets: tuple[Float[Array, "_ _"], ...]
    linear: Float[Array, " M"]


def solve_inner(
    prior: Prior,
    linearized: LinearSystem,
    solver_state: AbstractLinearSolverState,
    cache_intermediates: bool = False,
) -> AbstractLinearSolution:
    """Solve the linearized training problem of the paper; noise relaxes its conditions.

    The solution is Π_k(θ) = κ_θ(·, Φ) z with z = (K_Φ + Σ)⁻¹ b, or an approximation of it. It is
    differentiable in the kernels, in forward and reverse mode. A derivative costs one more solve
    and one more product with the Gram matrix, which is recomputed. `cache_intermediates` stores
    the intermediate arrays of this product instead.
    """
    return solver_state.solve(
        prior, linearized, solver_state.refinement_sweeps, cache_intermediates
    )
