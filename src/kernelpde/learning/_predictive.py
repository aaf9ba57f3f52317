"""Predictive density of data as an outer loss.

Let P = K + Σ + ηD, z = P⁻¹ b for the right-hand sides b of the linearized rows, and let B be the
block of P⁻¹ that belongs to the data. Given the equations and boundary conditions, the data have
the residual B⁻¹ z and the covariance B⁻¹, which includes their noise. Given also all other data,
datum i has the residual zᵢ / pᵢ and the variance 1 / pᵢ with pᵢ = Bᵢᵢ. The loss is the negative log
density of the data,

    J(θ) = Σᵢ ½ tᵢ² + log σᵢ,    tᵢ the residual of datum i over its standard deviation σᵢ.

Each datum is conditioned on all others (leave-one-out) or on those after it. In the second case J
is the negative log evidence of the data given the equations.

Equations are not scored. Their right-hand sides change with the linearization, and with them any
loss that includes them; such a loss would even depend on the form of the equation. Data do not
change with the state, and the loss is invariant under scaling of a linearized equation.
Leave-one-out is the default because the evidence assumes that the joint prior of all fields is
correct. It cannot be if one field solves an equation in which another is a coefficient.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.bilevel import AbstractCriterion, Derivatives
from kernelpde.learning._linearized import LinearizedCollocation
from kernelpde.learning._outer import sequential_residuals
from kernelpde.linear_solvers import AbstractLeaveOneOut, KernelsAndRows


class StandardizedResiduals(NamedTuple):
    """t and log σ of each datum, or their derivatives in each entry of θ."""

    z_scores: Float[Array, "*p d"]
    log_std: Float[Array, "*p d"]

    @property
    def negative_log_density(self) -> Float[Array, ""]:
        return jnp.sum(0.5 * self.z_scores**2 + self.log_std)


class Predictor(NamedTuple):
    """Standardized residuals of the data under one conditioning, and their derivatives in θ."""

    residuals: Callable[[AbstractLeaveOneOut], StandardizedResiduals]
    theta_derivatives: Callable[
        [AbstractLeaveOneOut, KernelsAndRows, Float[Array, " p"]], StandardizedResiduals
    ]


def _leave_one_out(z: Float[Array, " d"], precision: Float[Array, " d"]) -> StandardizedResiduals:
    return StandardizedResiduals(z / jnp.sqrt(precision), -0.5 * jnp.log(precision))


def _sequential(z: Float[Array, " d"], precision: Float[Array, "d d"]) -> StandardizedResiduals:
    return StandardizedResiduals(*sequential_residuals(z, precision))


def _push_forward(
    function: Callable[..., StandardizedResiduals], primals: tuple, theta_derivatives: tuple
) -> StandardizedResiduals:
    return jax.vmap(lambda *tangents: jax.jvp(function, primals, tangents)[1])(*theta_derivatives)


leave_one_out_predictor = Predictor(
    lambda rows: _leave_one_out(rows.weights, rows.precision),
    lambda rows, model, theta: _push_forward(
        _leave_one_out, (rows.weights, rows.precision), rows.theta_derivatives(model, theta)
    ),
)
"""Conditions each datum on the equations and all other data: leave-one-out."""

sequential_predictor = Predictor(
    lambda rows: _sequential(rows.weights, rows.joint_precision),
    lambda rows, model, theta: _push_forward(
        _sequential,
        (rows.weights, rows.joint_precision),
        rows.joint_theta_derivatives(model, theta),
    ),
)
"""Conditions each datum on the equations and the data after it: the evidence."""


class DataDensity(AbstractCriterion[LinearizedCollocation]):
    """The negative predictive log density J of data.

    **Attributes:**

    - `data`: indices of the conditions that are data.
    - `predictor`: conditioning of the data.
    """

    has_residual: ClassVar[bool] = False

    data: tuple[int, ...] = eqx.field(static=True)
    predictor: Predictor = eqx.field(static=True, default=leave_one_out_predictor)

    def loss(self, theta, linearized):
        prior, system = linearized.model(theta)
        solution = linearized.solve(theta)
        rows = solution.linear_solution.leave_one_out(prior, system, self.data)
        density = self.predictor.residuals(rows).negative_log_density
        return density, linearized.without_factor(solution)

    def loss_and_curvature(self, theta, linearized):
        """Return J with gradient and curvature, by one factorization and a few products per θᵢ.

        The curvature is the information Σᵢ (∂μᵢ / σᵢ)² + 2 (∂ log σᵢ)² of the predictive densities,
        with μᵢ = dᵢ - tᵢ σᵢ for a datum dᵢ.
        """
        prior, system = linearized.model(theta)
        solution = linearized.solve(theta)
        rows = solution.linear_solution.leave_one_out(prior, system, self.data)
        residuals = self.predictor.residuals(rows)
        derivatives = self.predictor.theta_derivatives(rows, linearized.model, theta)
        gradient = derivatives.z_scores @ residuals.z_scores + derivatives.log_std.sum(1)
        shift = derivatives.z_scores + residuals.z_scores * derivatives.log_std
        curvature = shift @ shift.T + 2.0 * (derivatives.log_std @ derivatives.log_std.T)
        return Derivatives(
            residuals.negative_log_density,
            gradient,
            curvature,
            linearized.without_factor(solution),
        )
