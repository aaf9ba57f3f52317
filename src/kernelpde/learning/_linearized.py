"""Collocation linearized about an iterate, and its solution as a function of θ."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kernelpde.bilevel import AbstractLinearizedProblem
from kernelpde.compiling import compiled
from kernelpde.functionals import Prior, gram_diagonal, merge_small, replicate
from kernelpde.learning._theta_map import ThetaMap
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    NeighborGroups,
)
from kernelpde.problem import LinearSystem

_MAX_CACHED_BYTES, _NUM_CACHED_ARRAYS = 2**29, 40
"""Memory limit for pairwise arrays stored between products with J, and their number."""

_FORWARD_LIMIT = 8
"""Number of parameters up to which forward mode is cheaper than the adjoint of the assembly."""


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


class CollocationSolution(eqx.Module):
    """Solution Π_k(θ) of the linearized training problem.

    **Attributes:**

    - `linear_solution`: representation of Π_k(θ).
    - `validation_values`: values of the validation functionals.
    """

    linear_solution: AbstractLinearSolution
    validation_values: Float[Array, " N"]


class LinearizedCollocation(AbstractLinearizedProblem):
    """Collocation linearized about an iterate.

    **Attributes:**

    - `theta_map`: map from θ to kernels and noise.
    - `training_system`: linearized training residuals.
    - `validation_system`: linearized validation residuals, `None` without validation points.
    - `row_weights`: factor of each validation residual. For standardized residuals its square is
      the weight wᵢ.
    - `solver_state`: solver state of the inner problem.
    - `folds`: row indices of each fold, empty for leave-one-out.
    - `neighbor_groups`: solver-specific neighbor groups of the validation points.
    """

    theta_map: ThetaMap
    training_system: LinearSystem
    validation_system: LinearSystem | None
    row_weights: Float[Array, " N"]
    solver_state: AbstractLinearSolverState
    folds: tuple[np.ndarray, ...] = ()
    neighbor_groups: tuple[NeighborGroups | None, ...] = (None,)

    @property
    def prefers_forward(self) -> bool:
        return self.theta_map.vector.size <= _FORWARD_LIMIT

    @property
    def can_cache(self) -> bool:
        num_bytes = 8 * _NUM_CACHED_ARRAYS * len(self.training_system.rhs) ** 2
        return num_bytes <= _MAX_CACHED_BYTES

    def model(self, theta: Float[Array, " p"]) -> tuple[Prior, LinearSystem]:
        """Return the prior and the training system, with the noise of θ."""
        noises = self.theta_map.noises(theta)
        return self.theta_map.prior(theta), self.training_system.with_noises(noises)

    def solve(
        self, theta: Float[Array, " p"], cache_intermediates: bool = False
    ) -> CollocationSolution:
        prior, system = self.model(theta)
        inner = solve_inner(prior, system, self.solver_state, cache_intermediates)
        if self.validation_system is None:
            return CollocationSolution(inner, inner.row_values)
        values = inner.predict(
            prior, self.validation_system.stacks, self.neighbor_groups, cache_intermediates
        )
        return CollocationSolution(inner, values)

    def without_factor(self, solution: CollocationSolution) -> CollocationSolution:
        inner = solution.linear_solution
        return replicate(
            CollocationSolution(inner.without_factor(), solution.validation_values),
            inner.device_mesh,
        )

    def is_usable(self, solution: Any) -> Bool[Array, ""]:
        return solution.linear_solution.succeeded


@compiled
def prior_row_variance(prior: Prior, linearized: LinearSystem) -> Float[Array, " M"]:
    """Return κ(φᵢ, φᵢ) + Σᵢ, the variance of each row under the prior."""
    return gram_diagonal(prior, linearized.batches) + linearized.variance


@compiled
def prediction_std(
    prior: Prior,
    training: LinearSystem,
    solver_state: AbstractLinearSolverState,
    validation: LinearSystem,
) -> Float[Array, " N"]:
    """Return the standard deviations of validation residuals given the training rows.

    The nugget times the prior variance is a lower bound, below which rounding errors dominate.
    """
    inner = solve_inner(prior, training, solver_state)
    batches = merge_small(validation.batches)
    posterior = jnp.concatenate([inner.variance(prior, training, batch) for batch in batches])
    prior_variance = gram_diagonal(prior, batches)
    return jnp.sqrt(jnp.maximum(posterior, inner.nugget * prior_variance) + validation.variance)
