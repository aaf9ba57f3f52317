"""The outer loss of one linearization, compiled once and used for all of them."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.functionals import Kernels, everywhere, gram_diagonal
from kernelpde.learning._inner import inner_map
from kernelpde.learning._outer import (
    AbstractRegularizer,
    Judge,
    held_out_residual,
    squares,
)
from kernelpde.learning._predictive import Predictions, each_given_all, judged, predictive
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    DenseSolution,
    Nearby,
)
from kernelpde.problem import LinearizedProblem


class Parameters(eqx.Module):
    """Hyperparameters as one vector θ, and the way back to kernels and noise.

    **Attributes:**

    - `learned`: the kernels with only their inexact arrays, and log σ of conditions with noise to
      be learned.
    - `rest`: the kernels without them.
    """

    learned: Any
    rest: Any

    @staticmethod
    def of(kernels: Kernels, noises: Sequence[Float[Array, ""] | None] = ()) -> "Parameters":
        return Parameters(*eqx.partition((kernels, tuple(noises)), eqx.is_inexact_array))

    @property
    def vector(self) -> np.ndarray:
        leaves = jax.tree.leaves(self.learned)
        if not leaves:
            return np.zeros(0)
        return np.concatenate([np.asarray(leaf, dtype=float).reshape(-1) for leaf in leaves])

    def kernels(self, theta: Float[Array, " p"]) -> Kernels:
        return self._both(theta)[0]

    def noises(self, theta: Float[Array, " p"]) -> tuple[Float[Array, ""] | None, ...]:
        """For each condition log σ, if it is learned."""
        return self._both(theta)[1]

    def _both(self, theta: Float[Array, " p"]):
        leaves, structure = jax.tree.flatten(self.learned)
        ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
        values = theta if isinstance(theta, jax.core.Tracer) else np.asarray(theta)
        parts = [
            array(values[a:b].reshape(leaf.shape))
            for leaf, a, b in zip(leaves, ends[:-1], ends[1:], strict=True)
        ]
        return eqx.combine(jax.tree.unflatten(structure, parts), self.rest)


class Loss(eqx.Module):
    """Everything that the outer loss of one linearization depends on besides θ.

    **Attributes:**

    - `parameters`: how θ becomes kernels.
    - `rows`: the linearized training residuals.
    - `validation`: the linearized validation residuals; `None` for folds of the training rows.
    - `row_weights`: what each validation residual is multiplied by; its square is the weight wᵢ of
      a standardized one.
    - `plan`: of the solver of the inner problem.
    - `regularizer`: R(θ), if any.
    - `folds`: row numbers, empty to leave out one row at a time.
    - `judge`: what is made of the inner solution where there are no validation points.
    - `data`: the numbers of the conditions that are data, if the loss is their density.
    - `predictions`: from what each of them is predicted.
    - `near`: what the plan knows about the validation points.
    """

    parameters: Parameters
    rows: LinearizedProblem
    validation: LinearizedProblem | None
    row_weights: Float[Array, " N"]
    plan: AbstractLinearSolverState
    regularizer: AbstractRegularizer | None
    folds: tuple[np.ndarray, ...] = ()
    judge: Judge = eqx.field(static=True, default=squares)
    data: tuple[int, ...] | None = eqx.field(static=True, default=None)
    predictions: Predictions = eqx.field(static=True, default=each_given_all)
    near: tuple[Nearby | None, ...] = (None,)

    def rows_at(self, theta: Float[Array, " p"]) -> LinearizedProblem:
        """The training rows with the noise that belongs to θ."""
        return self.rows.with_noises(self.parameters.noises(theta))


class Reached(eqx.Module):
    """The inner solution that belongs to an evaluation.

    **Attributes:**

    - `solved`: it, without the matrix it was found with.
    - `validation_image`: what the validation functionals give for it.
    """

    solved: AbstractLinearSolution
    validation_image: Float[Array, " N"]

    @property
    def nugget(self) -> Float[Array, ""]:
        return self.solved.nugget

    @property
    def usable(self) -> Bool[Array, ""]:
        return self.solved.usable


def outer_roots(
    theta: Float[Array, " p"], loss: Loss, keep: bool = False
) -> tuple[Float[Array, " q"], Reached]:
    """ρ(θ), half of whose sum of squares is the outer loss, and the inner solution.

    With `keep`, what derivatives are made of is kept to be used many times.
    """
    kernels = loss.parameters.kernels(theta)
    inner = inner_map(kernels, loss.rows_at(theta), loss.plan, keep)
    weights, seen = loss.row_weights, inner.fitted
    if loss.validation is not None:
        residual = held_out_residual(kernels, inner, loss.validation, loss.near, keep)
        seen, roots = residual + loss.validation.rhs, weights * residual
    else:
        assert isinstance(inner, DenseSolution)
        roots = loss.judge(inner, loss.folds, weights)
    if loss.regularizer is not None:
        roots = jnp.concatenate([roots, loss.regularizer.roots(theta)])
    return roots, _reached(inner, seen)


def _reached(inner: AbstractLinearSolution, seen: Float[Array, " N"]) -> Reached:
    return everywhere(Reached(inner.without_factor(), seen), inner.devices)


def _penalty(theta: Float[Array, " p"], loss: Loss) -> Float[Array, " q"]:
    return jnp.zeros(0) if loss.regularizer is None else loss.regularizer.roots(theta)


def outer_loss(theta: Float[Array, " p"], loss: Loss) -> tuple[Float[Array, ""], Reached]:
    """J(θ), and the inner solution."""
    if loss.data is None:
        roots, reached = outer_roots(theta, loss)
        return 0.5 * (roots @ roots), reached
    kernels, rows = loss.parameters.kernels(theta), loss.rows_at(theta)
    value, inner = predictive(kernels, rows, loss.plan, loss.data, loss.predictions)
    penalty = _penalty(theta, loss)
    return value + 0.5 * (penalty @ penalty), _reached(inner, inner.fitted)


@compiled
def density_and_normal(theta: Float[Array, " p"], loss: Loss):
    """Minus the predictive log density of data, its gradient and expected curvature."""
    assert loss.data is not None

    def model(t: Float[Array, " p"]) -> tuple[Kernels, LinearizedProblem]:
        return loss.parameters.kernels(t), loss.rows_at(t)

    found = judged(theta, model, loss.plan, loss.data, loss.predictions)
    penalty, pull = jax.vjp(lambda t: _penalty(t, loss), theta)
    slopes = jax.jacfwd(lambda t: _penalty(t, loss))(theta)
    return (
        found.value + 0.5 * (penalty @ penalty),
        found.gradient + pull(penalty)[0],
        found.normal + slopes.T @ slopes,
        _reached(found.inner, found.inner.fitted),
    )


@compiled
def loss_and_normal(theta: Float[Array, " p"], loss: Loss):
    """Loss, gradient and JᵀJ by forward mode: one factorization for all directions."""

    def along(direction: Float[Array, " p"]):
        return jax.jvp(lambda t: outer_roots(t, loss), (theta,), (direction,), has_aux=True)

    roots, jacobian, reached = jax.vmap(along, out_axes=(None, 0, None))(jnp.eye(len(theta)))
    return 0.5 * (roots @ roots), jacobian @ roots, jacobian @ jacobian.T, reached


@compiled
def loss_and_gradient(theta: Float[Array, " p"], loss: Loss):
    """Loss and gradient by reverse mode."""

    def scalar(t: Float[Array, " p"]):
        roots, reached = outer_roots(t, loss)
        return 0.5 * (roots @ roots), reached

    (value, reached), gradient = jax.value_and_grad(scalar, has_aux=True)(theta)
    return value, gradient, None, reached


loss_and_state = compiled(outer_loss)
"""Loss and inner solution, without derivatives."""


@compiled
def damped_direction(
    theta: Float[Array, " p"], loss: Loss, damping: Float[Array, ""], iterations: int
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """The gradient g and the step d of (JᵀJ + λ c I) d = -g, with J = ∂ρ/∂θ never formed.

    By conjugate gradients on products with J and Jᵀ, which all use one factorization. The damping λ
    is relative to c = ‖Jg‖² / ‖g‖², the curvature along the gradient.
    """
    keep = 8 * _ARRAYS * len(loss.rows.rhs) ** 2 <= _KEPT
    roots, forward, _ = jax.linearize(lambda t: outer_roots(t, loss, keep), theta, has_aux=True)
    backward = jax.linear_transpose(forward, theta)
    (gradient,) = backward(roots)
    size = jnp.maximum(gradient @ gradient, 1e-300)

    def unfinished(state) -> Bool[Array, ""]:
        count, _, left, _, _ = state
        return (count < iterations) & (left @ left > _ENOUGH**2 * size)

    def iterate(state):
        # The only place where J and Jᵀ are applied: they are most of what there is to compile. The
        # first direction is the gradient, so the first product also gives the curvature c.
        count, step, left, along, curvature = state
        image = backward(forward(along))[0]
        curvature = jnp.where(count == 0, (along @ image) / size, curvature)
        image = image + damping * curvature * along
        before = left @ left
        length = before / jnp.maximum(along @ image, 1e-300)
        left = left - length * image
        return (
            count + 1,
            step + length * along,
            left,
            left + (left @ left) / before * along,
            curvature,
        )

    zero = jnp.zeros(())
    begin = (jnp.asarray(0), jnp.zeros_like(theta), -gradient, -gradient, zero)
    return gradient, jax.lax.while_loop(unfinished, iterate, begin)[1]


@compiled
def losses(thetas: Float[Array, "n p"], loss: Loss):
    """Loss, nugget and usability for each row θ: one program, one matrix in memory at a time."""

    def one(theta: Float[Array, " p"]):
        value, reached = outer_loss(theta, loss)
        return value, reached.nugget, reached.usable

    return jax.lax.map(one, thetas)


_ENOUGH = 1e-3
"""Conjugate gradients stop at a residual of this relative size."""

_KEPT, _ARRAYS = 2**29, 40
"""Bytes of arrays of pairs that may be kept between products with J, and how many there are."""

FORWARD_LIMIT = 8
"""Number of parameters up to which forward mode is cheaper than the adjoint of the assembly."""


def evaluator(loss: Loss, curvature: str) -> Callable:
    """The compiled function that suits the optimizer and the number of parameters."""
    if loss.data is not None:
        return density_and_normal
    if curvature == "products":
        return loss_without_derivatives
    forward = curvature == "matrix" or few(loss)
    return loss_and_normal if forward else loss_and_gradient


def few(loss: Loss) -> bool:
    """Whether derivatives cost little more than the loss itself."""
    return loss.parameters.vector.size <= FORWARD_LIMIT


def loss_without_derivatives(theta: Float[Array, " p"], loss: Loss):
    """The loss alone; its gradient comes with a direction, see `damped_direction`."""
    value, reached = loss_and_state(theta, loss)
    return value, np.zeros(0), None, reached


@compiled
def row_scales(kernels: Kernels, rows: LinearizedProblem) -> Float[Array, " M"]:
    """κ(φᵢ, φᵢ) + Σᵢ: the squared size of a row under the prior."""
    return gram_diagonal(kernels, rows.batches) + rows.variance


@compiled
def predicted_std(
    kernels: Kernels,
    rows: LinearizedProblem,
    plan: AbstractLinearSolverState,
    validation: LinearizedProblem,
) -> Float[Array, " N"]:
    """The standard deviation of validation residuals given the training rows.

    Not below what the nugget leaves of them, since rounding rules there.
    """
    inner = inner_map(kernels, rows, plan)
    batches = validation.batches
    known = jnp.concatenate([inner.variance(kernels, rows, batch) for batch in batches])
    prior = gram_diagonal(kernels, batches)
    return jnp.sqrt(jnp.maximum(known, inner.nugget * prior) + validation.variance)
