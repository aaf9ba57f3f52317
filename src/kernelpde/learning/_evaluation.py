"""Outer loss of one linearization and its derivatives, compiled once for all linearizations."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kernelpde.arrays import to_array
from kernelpde.compiling import compiled
from kernelpde.functionals import Prior, gram_diagonal, replicate
from kernelpde.learning._inner import solve_inner
from kernelpde.learning._outer import (
    AbstractRegularizer,
    Criterion,
    held_out_residual,
    squared_error,
)
from kernelpde.learning._predictive import (
    Predictor,
    leave_one_out_predictor,
    predictive_loss,
    predictive_loss_and_curvature,
)
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    DenseSolution,
    NeighborGroups,
)
from kernelpde.problem import LinearSystem, Problem

_CG_TOLERANCE = 1e-3
"""Relative residual at which conjugate gradients stop."""

_MAX_CACHED_BYTES, _NUM_CACHED_ARRAYS = 2**29, 40
"""Memory limit for pairwise arrays stored between products with J, and their number."""

FORWARD_LIMIT = 8
"""Number of parameters up to which forward mode is cheaper than the adjoint of the assembly."""


class ThetaMap(eqx.Module):
    """Map between the vector θ of hyperparameters and kernels with noise.

    **Attributes:**

    - `trainable`: inexact arrays of the kernels, and log σ of conditions with learned noise.
    - `static`: everything else in the kernels.
    """

    trainable: Any
    static: Any

    @staticmethod
    def of(prior: Prior, noises: Sequence[Float[Array, ""] | None] = ()) -> "ThetaMap":
        return ThetaMap(*eqx.partition((prior, tuple(noises)), eqx.is_inexact_array))

    @property
    def vector(self) -> np.ndarray:
        leaves = jax.tree.leaves(self.trainable)
        if not leaves:
            return np.zeros(0)
        return np.concatenate([np.asarray(leaf, dtype=float).reshape(-1) for leaf in leaves])

    def prior(self, theta: Float[Array, " p"]) -> Prior:
        return self._kernels_and_noises(theta)[0]

    def noises(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""] | None, ...]:
        """Return log σ of each condition, `None` where it is not learned."""
        return self._kernels_and_noises(theta)[1]

    def apply_to(self, problem: Problem, theta: Float[Array, " p"]) -> Problem:
        """Return the problem with the kernels and noises of θ."""
        return problem.with_prior(self.prior(theta)).with_noises(self.noises(theta))

    def _kernels_and_noises(self, theta: Float[Array, " p"]):
        leaves, structure = jax.tree.flatten(self.trainable)
        stops = np.cumsum([leaf.size for leaf in leaves])
        values = theta if isinstance(theta, jax.core.Tracer) else np.asarray(theta)
        new_leaves = [
            to_array(values[stop - leaf.size : stop].reshape(leaf.shape))
            for leaf, stop in zip(leaves, stops, strict=True)
        ]
        return eqx.combine(jax.tree.unflatten(structure, new_leaves), self.static)


class Loss(eqx.Module):
    """Outer loss of one linearization, as a function of θ.

    **Attributes:**

    - `theta_map`: map from θ to kernels and noise.
    - `training_system`: linearized training residuals.
    - `validation_system`: linearized validation residuals, `None` without validation points.
    - `row_weights`: factor of each validation residual. For standardized residuals its square is
      the weight wᵢ.
    - `solver_state`: solver state of the inner problem.
    - `regularizer`: R(θ), or `None`.
    - `folds`: row indices of each fold, empty for leave-one-out.
    - `criterion`: map from the inner solution to ρ without validation points.
    - `data`: indices of the data conditions if the loss is their predictive density.
    - `predictor`: conditioning of the data in this density.
    - `neighbor_groups`: solver-specific neighbor groups of the validation points.
    """

    theta_map: ThetaMap
    training_system: LinearSystem
    validation_system: LinearSystem | None
    row_weights: Float[Array, " N"]
    solver_state: AbstractLinearSolverState
    regularizer: AbstractRegularizer | None
    folds: tuple[np.ndarray, ...] = ()
    criterion: Criterion = eqx.field(static=True, default=squared_error)
    data: tuple[int, ...] | None = eqx.field(static=True, default=None)
    predictor: Predictor = eqx.field(static=True, default=leave_one_out_predictor)
    neighbor_groups: tuple[NeighborGroups | None, ...] = (None,)

    @property
    def has_few_parameters(self) -> bool:
        """True if derivatives cost little more than the loss."""
        return self.theta_map.vector.size <= FORWARD_LIMIT

    def system_at(self, theta: Float[Array, " p"]) -> LinearSystem:
        """Return the training system with the noise of θ."""
        return self.training_system.with_noises(self.theta_map.noises(theta))

    def penalty(self, theta: Float[Array, " p"]) -> Float[Array, " q"]:
        """Return the residual of the regularizer."""
        if self.regularizer is None:
            return jnp.zeros(0)
        return self.regularizer.weighted_residuals(theta)


class InnerSolution(eqx.Module):
    """Solution of the inner problem at one θ.

    **Attributes:**

    - `linear_solution`: solution without its matrix factor.
    - `validation_values`: values of the validation functionals.
    """

    linear_solution: AbstractLinearSolution
    validation_values: Float[Array, " N"]

    @property
    def nugget(self) -> Float[Array, ""]:
        return self.linear_solution.nugget

    @property
    def succeeded(self) -> Bool[Array, ""]:
        return self.linear_solution.succeeded


def outer_residual(
    theta: Float[Array, " p"], loss: Loss, cache_intermediates: bool = False
) -> tuple[Float[Array, " q"], InnerSolution]:
    """Return ρ(θ) and the inner solution. The outer loss is ½ ‖ρ‖².

    `cache_intermediates` stores intermediate arrays for repeated products with the Jacobian.
    """
    prior = loss.theta_map.prior(theta)
    inner = solve_inner(prior, loss.system_at(theta), loss.solver_state, cache_intermediates)
    weights, values = loss.row_weights, inner.row_values
    if loss.validation_system is not None:
        residual = held_out_residual(
            prior, inner, loss.validation_system, loss.neighbor_groups, cache_intermediates
        )
        values, weighted = residual + loss.validation_system.rhs, weights * residual
    else:
        assert isinstance(inner, DenseSolution)
        weighted = loss.criterion(inner, loss.folds, weights)
    if loss.regularizer is not None:
        weighted = jnp.concatenate([weighted, loss.penalty(theta)])
    return weighted, _without_matrix(inner, values)


def _without_matrix(
    inner: AbstractLinearSolution, validation_values: Float[Array, " N"]
) -> InnerSolution:
    return replicate(InnerSolution(inner.without_factor(), validation_values), inner.device_mesh)


def outer_loss(theta: Float[Array, " p"], loss: Loss) -> tuple[Float[Array, ""], InnerSolution]:
    """Return J(θ) and the inner solution."""
    if loss.data is None:
        residual, solution = outer_residual(theta, loss)
        return 0.5 * (residual @ residual), solution
    prior, linearized = loss.theta_map.prior(theta), loss.system_at(theta)
    value, inner = predictive_loss(prior, linearized, loss.solver_state, loss.data, loss.predictor)
    penalty = loss.penalty(theta)
    return value + 0.5 * (penalty @ penalty), _without_matrix(inner, inner.row_values)


@compiled
def density_and_curvature(theta: Float[Array, " p"], loss: Loss):
    """Return the negative predictive log density of data, its gradient and expected curvature."""
    assert loss.data is not None

    def model(theta: Float[Array, " p"]) -> tuple[Prior, LinearSystem]:
        return loss.theta_map.prior(theta), loss.system_at(theta)

    density = predictive_loss_and_curvature(
        theta, model, loss.solver_state, loss.data, loss.predictor
    )
    penalty, pull_back = jax.vjp(lambda t: loss.penalty(t), theta)
    jacobian = jax.jacfwd(lambda t: loss.penalty(t))(theta)
    return (
        density.value + 0.5 * (penalty @ penalty),
        density.gradient + pull_back(penalty)[0],
        density.curvature + jacobian.T @ jacobian,
        _without_matrix(density.inner, density.inner.row_values),
    )


@compiled
def loss_and_curvature(theta: Float[Array, " p"], loss: Loss):
    """Return loss, gradient and JᵀJ by forward mode, with one factorization for all directions."""

    def push_forward(tangent: Float[Array, " p"]):
        return jax.jvp(lambda t: outer_residual(t, loss), (theta,), (tangent,), has_aux=True)

    residual, jacobian, solution = jax.vmap(push_forward, out_axes=(None, 0, None))(
        jnp.eye(len(theta))
    )
    return 0.5 * (residual @ residual), jacobian @ residual, jacobian @ jacobian.T, solution


@compiled
def loss_and_gradient(theta: Float[Array, " p"], loss: Loss):
    """Return loss and gradient by reverse mode."""

    def scalar(theta: Float[Array, " p"]):
        residual, solution = outer_residual(theta, loss)
        return 0.5 * (residual @ residual), solution

    (value, solution), gradient = jax.value_and_grad(scalar, has_aux=True)(theta)
    return value, gradient, None, solution


loss_and_state = compiled(outer_loss)
"""Loss and inner solution, without derivatives."""


def loss_without_derivatives(theta: Float[Array, " p"], loss: Loss):
    """Return the loss alone; `damped_direction` computes the gradient."""
    value, solution = loss_and_state(theta, loss)
    return value, np.zeros(0), None, solution


@compiled
def damped_direction(
    theta: Float[Array, " p"], loss: Loss, damping: Float[Array, ""], iterations: int
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return the gradient g and the step d of (JᵀJ + λ c I) d = -g with J = ∂ρ/∂θ.

    J is never formed: conjugate gradients use products with J and Jᵀ and one factorization. The
    damping λ is relative to c = ‖Jg‖² / ‖g‖², the curvature along the gradient.
    """
    cache_intermediates = (
        8 * _NUM_CACHED_ARRAYS * len(loss.training_system.rhs) ** 2 <= _MAX_CACHED_BYTES
    )
    roots, forward, _ = jax.linearize(
        lambda t: outer_residual(t, loss, cache_intermediates), theta, has_aux=True
    )
    backward = jax.linear_transpose(forward, theta)
    (gradient,) = backward(roots)
    norm_squared = jnp.maximum(gradient @ gradient, 1e-300)

    def unfinished(state) -> Bool[Array, ""]:
        count, _, residual, _, _ = state
        return (count < iterations) & (residual @ residual > _CG_TOLERANCE**2 * norm_squared)

    def iterate(state):
        # J and Jᵀ are applied only here because they dominate the compile time. The first
        # direction is the gradient, so the first product also gives the curvature c.
        count, step, residual, direction, curvature = state
        image = backward(forward(direction))[0]
        curvature = jnp.where(count == 0, (direction @ image) / norm_squared, curvature)
        image = image + damping * curvature * direction
        old_squared = residual @ residual
        length = old_squared / jnp.maximum(direction @ image, 1e-300)
        residual = residual - length * image
        return (
            count + 1,
            step + length * direction,
            residual,
            residual + (residual @ residual) / old_squared * direction,
            curvature,
        )

    start = (jnp.asarray(0), jnp.zeros_like(theta), -gradient, -gradient, jnp.zeros(()))
    return gradient, jax.lax.while_loop(unfinished, iterate, start)[1]


@compiled
def batched_losses(thetas: Float[Array, "n p"], loss: Loss):
    """Return loss, nugget and usability for each row θ, with one matrix in memory at a time."""

    def evaluate(theta: Float[Array, " p"]):
        value, solution = outer_loss(theta, loss)
        return value, solution.nugget, solution.succeeded

    return jax.lax.map(evaluate, thetas)


def evaluator(loss: Loss, curvature: str) -> Callable:
    """Return the compiled evaluation for an optimizer's curvature and the number of parameters."""
    if loss.data is not None:
        return density_and_curvature
    if curvature == "products":
        return loss_without_derivatives
    forward = curvature == "matrix" or loss.has_few_parameters
    return loss_and_curvature if forward else loss_and_gradient


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
    batches = validation.batches
    posterior = jnp.concatenate([inner.variance(prior, training, batch) for batch in batches])
    prior_variance = gram_diagonal(prior, batches)
    return jnp.sqrt(jnp.maximum(posterior, inner.nugget * prior_variance) + validation.variance)
