"""The density of data given equations and each other, as an outer loss.

With P = K + Σ + ηD and b the right-hand sides of the linearized rows, z = P⁻¹ b and B the block of
P⁻¹ that belongs to data, data are predicted from everything else (equations, boundary conditions)
with misses B⁻¹ z and covariance B⁻¹, their noise included. A datum i that is predicted from the
rest and all other data has miss zᵢ / pᵢ and variance 1 / pᵢ with pᵢ = Bᵢᵢ. The loss is minus the
log density of the data,

    J(θ) = Σᵢ ½ tᵢ² + log σᵢ,    tᵢ the miss of datum i over its standard deviation σᵢ,

each of them given all others (leave-one-out), or given those that follow it: then J is minus the
log evidence of the data given the equations.

Equations are what data are judged by, and are not judged themselves: their right-hand sides change
from one linearization to the next, and with them any loss that scores them; it would even depend on
the form in which an equation is written. Data do not change with the state, and multiplying a
linearized equation by a number changes nothing. Leave-one-out is the default: the evidence trusts
the priors of all fields together, which cannot all be right when one field is the solution of an
equation in which the other is a coefficient; what counts is how well data are predicted.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.functionals import Kernels
from kernelpde.learning._inner import inner_map
from kernelpde.learning._outer import in_turn
from kernelpde.linear_solvers import (
    AbstractLeftOut,
    AbstractLinearSolution,
    AbstractLinearSolverState,
    Model,
)
from kernelpde.problem import LinearizedProblem


class Predicted(NamedTuple):
    """For each datum t and log σ; or, for each entry of θ, their derivatives."""

    misses: Float[Array, "*p d"]
    log_std: Float[Array, "*p d"]

    @property
    def density(self) -> Float[Array, ""]:
        """Minus its logarithm."""
        return jnp.sum(0.5 * self.misses**2 + self.log_std)


class Predictions(NamedTuple):
    """From what each datum is predicted: the predictions, and their derivatives in θ."""

    values: Callable[[AbstractLeftOut], Predicted]
    slopes: Callable[[AbstractLeftOut, Model, Float[Array, " p"]], Predicted]


def _from_others(z: Float[Array, " d"], precision: Float[Array, " d"]) -> Predicted:
    return Predicted(z / jnp.sqrt(precision), -0.5 * jnp.log(precision))


def _in_turn(z: Float[Array, " d"], block: Float[Array, "d d"]) -> Predicted:
    return Predicted(*in_turn(z, block))


def _along(function: Callable[..., Predicted], at: tuple, slopes: tuple) -> Predicted:
    return jax.vmap(lambda *s: jax.jvp(function, at, s)[1])(*slopes)


each_given_all = Predictions(
    lambda some: _from_others(some.weights, some.precision),
    lambda some, model, theta: _along(
        _from_others, (some.weights, some.precision), some.slopes(model, theta)
    ),
)
"""Each datum from everything else: leave-one-out."""

each_in_turn = Predictions(
    lambda some: _in_turn(some.weights, some.joint),
    lambda some, model, theta: _along(
        _in_turn, (some.weights, some.joint), some.joint_slopes(model, theta)
    ),
)
"""Each datum from equations and the data that follow it: the evidence."""


class Judged(eqx.Module):
    """J, its gradient, its expected curvature, and the inner solution."""

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    normal: Float[Array, "p p"]
    inner: AbstractLinearSolution


def predictive(
    kernels: Kernels,
    rows: LinearizedProblem,
    plan: AbstractLinearSolverState,
    data: tuple[int, ...],
    predictions: Predictions = each_given_all,
) -> tuple[Float[Array, ""], AbstractLinearSolution]:
    """J for the conditions numbered in `data`."""
    inner = inner_map(kernels, rows, plan)
    return predictions.values(inner.left_out(kernels, rows, data)).density, inner


def judged(
    theta: Float[Array, " p"],
    model: Model,
    plan: AbstractLinearSolverState,
    data: tuple[int, ...],
    predictions: Predictions = each_given_all,
) -> Judged:
    """J with gradient and curvature: one factorization, and some products per parameter.

    The curvature is the information Σᵢ (∂μᵢ / σᵢ)² + 2 (∂ log σᵢ)² of the predictive densities,
    with μᵢ = dᵢ - tᵢ σᵢ for a datum dᵢ.

    **Arguments:**

    - `theta`: θ.
    - `model`: from θ to kernels, and to the rows, whose noise may depend on it.
    - `plan`: of the solver of the inner problem.
    - `data`: the numbers of the conditions that are data.
    - `predictions`: from what each of them is predicted.
    """
    kernels, rows = model(theta)
    inner = inner_map(kernels, rows, plan)
    left_out = inner.left_out(kernels, rows, data)
    found, slopes = predictions.values(left_out), predictions.slopes(left_out, model, theta)
    gradient = slopes.misses @ found.misses + slopes.log_std.sum(1)
    shift = slopes.misses + found.misses * slopes.log_std
    normal = shift @ shift.T + 2.0 * (slopes.log_std @ slopes.log_std.T)
    return Judged(found.density, gradient, normal, inner)
