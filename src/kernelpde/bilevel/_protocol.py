"""Inner problems, criteria and the outer objective of one linearization."""

import abc
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kernelpde.arrays import TINY
from kernelpde.bilevel._regularizers import AbstractRegularizer
from kernelpde.compiling import compiled

_CG_TOLERANCE = 1e-3
"""Relative residual at which conjugate gradients stop."""

State = Any
"""State uᵏ of an inner problem, a pytree of arrays and numbers."""

_Linearized = TypeVar("_Linearized", bound="AbstractLinearizedProblem")


class Derivatives(NamedTuple):
    """Outer loss at one θ with its gradient, its curvature, and the inner solution Π_k(θ)."""

    loss: Float[Array, ""]
    gradient: Float[Array, " p"]
    curvature: Float[Array, "p p"] | None
    solution: Any


class AbstractLinearizedProblem(eqx.Module):
    """Inner problem linearized about uᵏ, with its minimizer in closed form.

    With r = R(uᵏ), A = D_u R(uᵏ), the minimizer of ½ ‖u‖²_θ + ½ ‖r + A (u - uᵏ)‖² is

        Π_k(θ) = A* (A A* + I)⁻¹ (A uᵏ - r),

    and without I if the conditions hold exactly.
    """

    @abc.abstractmethod
    def solve(self, theta: Float[Array, " p"], cache_intermediates: bool = False) -> Any:
        """Return Π_k(θ), differentiable in θ in forward and reverse mode.

        **Arguments:**

        - `cache_intermediates`: whether memory may be traded for time in repeated products with
          the derivative of this map.
        """

    @abc.abstractmethod
    def without_factor(self, solution: Any) -> Any:
        """Return the part of a solution that `AbstractInnerProblem.update` needs."""

    @abc.abstractmethod
    def is_usable(self, solution: Any) -> Bool[Array, ""]:
        """Return whether the linear system was solved."""

    @property
    @abc.abstractmethod
    def prefers_forward(self) -> bool:
        """True if all derivatives in θ cost little more than the loss, by forward mode."""

    @property
    @abc.abstractmethod
    def can_cache(self) -> bool:
        """True if there is memory for `cache_intermediates`."""


class InnerStep(NamedTuple):
    """State after an update.

    **Attributes:**

    - `state`: new state.
    - `length`: fraction of the step from uᵏ to Π_k(θ).
    - `change`: relative change of the state.
    - `metrics`: JSON-serializable figures for the record of the step.
    """

    state: State
    length: float
    change: float
    metrics: dict[str, Any]


class AbstractInnerProblem(eqx.Module, Generic[_Linearized]):
    """Regularized least-squares problem min_u ½ ‖u‖²_θ + ½ ‖R(u)‖² with hyperparameters θ."""

    @property
    @abc.abstractmethod
    def factorizations_per_linearization(self) -> int:
        """Number of factorizations that `linearize` computes, usually 0."""

    @abc.abstractmethod
    def init(self) -> State:
        """Return the initial state u⁰."""

    @abc.abstractmethod
    def linearize(self, theta: np.ndarray, state: State) -> _Linearized:
        """Linearize R about a state.

        The result is a pytree that `jit` accepts. Only choices of the discretization, such as
        weights of residuals or the method of the linear solver, may depend on `theta`. They are
        fixed during a step of θ. A `RankError` rejects `theta`.
        """

    @abc.abstractmethod
    def update(
        self,
        theta: np.ndarray,
        linearized: _Linearized,
        solution: Any,
        state: State,
        lengths: np.ndarray,
    ) -> InnerStep:
        """Move the state to Π_k(θ), or by one of the fractions `lengths` of the way."""

    @abc.abstractmethod
    def stabilize(self, state: State) -> State | None:
        """Increase the Tikhonov regularization after a failed solve; `None` at its limit."""

    @abc.abstractmethod
    def metrics(self, solution: Any) -> dict[str, Any]:
        """Return JSON-serializable figures for the record of an evaluation."""


class AbstractCriterion(eqx.Module, Generic[_Linearized]):
    """Outer criterion of a linearized inner problem and its solution."""

    has_residual: ClassVar[bool]

    @abc.abstractmethod
    def loss(
        self, theta: Float[Array, " p"], linearized: _Linearized
    ) -> tuple[Float[Array, ""], Any]:
        """Return J(θ) and Π_k(θ)."""

    @abc.abstractmethod
    def loss_and_curvature(self, theta: Float[Array, " p"], linearized: _Linearized) -> Derivatives:
        """Return J(θ), its gradient and a positive semidefinite approximation of its Hessian."""


class AbstractResidualCriterion(AbstractCriterion[_Linearized]):
    """Criterion J(θ) = ½ ‖ρ(θ)‖² with a validation residual ρ(θ) = R_val(Π_k(θ))."""

    has_residual: ClassVar[bool] = True

    @abc.abstractmethod
    def residual(
        self, theta: Float[Array, " p"], linearized: _Linearized, solution: Any
    ) -> Float[Array, " q"]:
        """Return ρ(θ)."""

    def loss(self, theta, linearized):
        solution = linearized.solve(theta)
        residual = self.residual(theta, linearized, solution)
        return 0.5 * (residual @ residual), linearized.without_factor(solution)

    def loss_and_curvature(self, theta, linearized):
        """Return J, ∇J = Jᵀρ and JᵀJ by forward mode, with one factorization for all directions."""

        def push_forward(tangent: Float[Array, " p"]):
            return jax.jvp(
                lambda t: self._residual_and_solution(t, linearized),
                (theta,),
                (tangent,),
                has_aux=True,
            )

        residual, jacobian, solution = jax.vmap(push_forward, out_axes=(None, 0, None))(
            jnp.eye(len(theta))
        )
        return Derivatives(
            0.5 * (residual @ residual), jacobian @ residual, jacobian @ jacobian.T, solution
        )

    def _residual_and_solution(self, theta, linearized, cache_intermediates: bool = False):
        solution = linearized.solve(theta, cache_intermediates)
        residual = self.residual(theta, linearized, solution)
        return residual, linearized.without_factor(solution)


class Objective(eqx.Module, Generic[_Linearized]):
    """Outer objective of one linearization, J_k(θ) = J(θ) + R(θ).

    It is fixed during a step of θ, and compiled once for all linearizations.

    **Attributes:**

    - `criterion`: J.
    - `linearized`: linearized inner problem.
    - `regularizer`: R, or `None`.
    """

    criterion: AbstractCriterion[_Linearized]
    linearized: _Linearized
    regularizer: AbstractRegularizer | None = None

    def penalty(self, theta: Float[Array, " p"]) -> Float[Array, " r"]:
        """Return ρ_R with R = ½ ‖ρ_R‖²."""
        if self.regularizer is None:
            return jnp.zeros(0)
        return self.regularizer.weighted_residuals(theta)


def outer_residual(
    theta: Float[Array, " p"], objective: Objective, cache_intermediates: bool = False
) -> tuple[Float[Array, " q"], Any]:
    """Return (ρ, ρ_R) and Π_k(θ), for criteria with a residual form."""
    criterion = objective.criterion
    assert isinstance(criterion, AbstractResidualCriterion)
    residual, solution = criterion._residual_and_solution(
        theta, objective.linearized, cache_intermediates
    )
    return jnp.concatenate([residual, objective.penalty(theta)]), solution


def outer_loss(theta: Float[Array, " p"], objective: Objective) -> tuple[Float[Array, ""], Any]:
    """Return J_k(θ) and Π_k(θ)."""
    value, solution = objective.criterion.loss(theta, objective.linearized)
    penalty = objective.penalty(theta)
    return value + 0.5 * (penalty @ penalty), solution


loss_and_solution = compiled(outer_loss)
"""J_k(θ) and Π_k(θ), without derivatives."""


@compiled
def loss_and_curvature(theta: Float[Array, " p"], objective: Objective) -> Derivatives:
    """Return J_k with gradient and curvature."""
    value, gradient, curvature, solution = objective.criterion.loss_and_curvature(
        theta, objective.linearized
    )
    assert curvature is not None
    penalty, jacobian = objective.penalty(theta), jax.jacfwd(objective.penalty)(theta)
    return Derivatives(
        value + 0.5 * (penalty @ penalty),
        gradient + jacobian.T @ penalty,
        curvature + jacobian.T @ jacobian,
        solution,
    )


@compiled
def loss_and_gradient(theta: Float[Array, " p"], objective: Objective) -> Derivatives:
    """Return J_k and its gradient by reverse mode, through one linearization."""
    (value, solution), gradient = jax.value_and_grad(outer_loss, has_aux=True)(theta, objective)
    return Derivatives(value, gradient, None, solution)


@compiled
def damped_direction(
    theta: Float[Array, " p"], objective: Objective, damping: Float[Array, ""], iterations: int
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return the gradient g and the step d of (JᵀJ + λ c I) d = -g with J = ∂(ρ, ρ_R)/∂θ.

    J is never formed: conjugate gradients use products with J and Jᵀ and one factorization. The
    damping λ is relative to c = ‖Jg‖² / ‖g‖², the curvature along the gradient.
    """
    cache = objective.linearized.can_cache
    roots, forward, _ = jax.linearize(
        lambda t: outer_residual(t, objective, cache), theta, has_aux=True
    )
    backward = jax.linear_transpose(forward, theta)
    (gradient,) = backward(roots)
    norm_squared = jnp.maximum(gradient @ gradient, TINY)

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
        length = old_squared / jnp.maximum(direction @ image, TINY)
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
