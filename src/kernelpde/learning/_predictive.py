"""The predictive density of data, each left out in turn, as an outer loss.

With P = K + Σ + ηD and b the right-hand sides of the linearized rows, z = P⁻¹ b and pᵢ = (P⁻¹)ᵢᵢ, a
datum i is predicted from everything else (equations, boundary conditions, other data) with mean
bᵢ - zᵢ / pᵢ and variance 1 / pᵢ, its noise included. The loss is minus the log density of the data,

    J(θ) = Σᵢ ½ zᵢ² / pᵢ - ½ log pᵢ,    i over the rows that are data.

Equations are what data are judged by, and are not judged themselves: their right-hand sides change
from one linearization to the next, and with them any loss that scores them; it would even depend on
the form in which an equation is written. Data do not change with the state, and multiplying a
linearized equation by a number changes nothing. Nor is it the likelihood of all data at once: that
trusts the priors of all fields together, which cannot all be right when one field is the solution
of an equation in which the other is a coefficient; what counts is how well data are foretold.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.functionals import Kernels
from kernelpde.learning._inner import inner_map
from kernelpde.linear_solvers import AbstractLinearSolution, AbstractLinearSolverState
from kernelpde.problem import LinearizedProblem


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
) -> tuple[Float[Array, ""], AbstractLinearSolution]:
    """J for the conditions numbered in `data`."""
    inner = inner_map(kernels, rows, plan)
    left_out = inner.left_out(kernels, rows, data)
    return _density(left_out.weights, left_out.precision), inner


def _density(weights: Float[Array, " d"], precision: Float[Array, " d"]) -> Float[Array, ""]:
    return 0.5 * jnp.sum(weights**2 / precision - jnp.log(precision))


def judged(
    theta: Float[Array, " p"],
    model: Callable[[Float[Array, " p"]], tuple[Kernels, LinearizedProblem]],
    plan: AbstractLinearSolverState,
    data: tuple[int, ...],
) -> Judged:
    """J with gradient and curvature: one factorization, and some products per parameter.

    The curvature is the information Σᵢ (∂μᵢ / σᵢ)² + 2 (∂ log σᵢ)² of the predictive densities.

    **Arguments:**

    - `theta`: θ.
    - `model`: from θ to kernels, and to the rows, whose noise may depend on it.
    - `plan`: of the solver of the inner problem.
    - `data`: the numbers of the conditions that are data.
    """
    kernels, rows = model(theta)
    inner = inner_map(kernels, rows, plan)
    left_out = inner.left_out(kernels, rows, data)
    z, precision = left_out.weights, left_out.precision
    z_slope, p_slope = left_out.slopes(model, theta)
    gradient = (z_slope * (z / precision)).sum(1)
    gradient -= 0.5 * (p_slope * (z**2 / precision**2 + 1.0 / precision)).sum(1)
    shift = (p_slope * (z / precision) - z_slope) / jnp.sqrt(precision)
    widening = p_slope / precision
    normal = shift @ shift.T + 0.5 * (widening @ widening.T)
    return Judged(_density(z, precision), gradient, normal, inner)
