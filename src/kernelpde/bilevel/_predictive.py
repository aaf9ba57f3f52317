"""The predictive density of data, each left out in turn, as an outer loss.

With P = K + Σ + ηD and b the right-hand sides of the linearised rows, z = P⁻¹ b and pᵢ = (P⁻¹)ᵢᵢ, a
datum i is predicted from everything else (equations, boundary conditions, other data) with mean
bᵢ - zᵢ / pᵢ and variance 1 / pᵢ, its noise included. The loss is minus the log density of the data,

    J(θ) = Σᵢ ½ zᵢ² / pᵢ - ½ log pᵢ,    i over the rows that are data.

Equations are what data are judged by, and are not judged themselves: their right-hand sides change
from one linearisation to the next, and with them any loss that scores them; it would even depend on
the form in which an equation is written. Data do not change with the state, and multiplying a
linearised equation by a number changes nothing. Nor is it the likelihood of all data at once: that
trusts the priors of all fields together, which cannot all be right when one field is the solution
of an equation in which the other is a coefficient; what counts is how well data are foretold.

With C = (P⁻¹)_d the columns of the data, ∂z_d = -Cᵀ ∂P z and ∂p = -diag(Cᵀ ∂P C).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.bilevel._inner import inner_map
from kernelpde.functionals import Kernels, gram_diagonal, gram_of_blocks
from kernelpde.problem import Rows
from kernelpde.systems import DensePlan, DenseSolved


class Judged(eqx.Module):
    """J, its gradient, its expected curvature, and the inner solution."""

    value: Float[Array, ""]
    gradient: Float[Array, "p"]
    normal: Float[Array, "p p"]
    inner: DenseSolved


def predictive(
    kernels: Kernels, rows: Rows, plan: DensePlan, data: Int[Array, "d"] | np.ndarray
) -> tuple[Float[Array, ""], DenseSolved]:
    """J for the rows numbered in `data`."""
    inner, _, precision = _conditioned(kernels, rows, plan, data)
    return _density(inner.weights[data], precision), inner


def _conditioned(
    kernels: Kernels, rows: Rows, plan: DensePlan, data: Int[Array, "d"] | np.ndarray
) -> tuple[DenseSolved, Float[Array, "M d"], Float[Array, "d"]]:
    """The inner solution, the columns of P⁻¹ that belong to data, and its diagonal there."""
    inner = inner_map(kernels, rows, plan)
    assert isinstance(inner, DenseSolved)
    unit = jnp.zeros((len(rows.target), len(data))).at[data, jnp.arange(len(data))].set(1.0)
    half = inner.system.solve_half(unit)
    return inner, inner.system.solve_other_half(half), jnp.sum(half**2, axis=0)


def _density(weights: Float[Array, "d"], precision: Float[Array, "d"]) -> Float[Array, ""]:
    return 0.5 * jnp.sum(weights**2 / precision - jnp.log(precision))


def judged(
    theta: Float[Array, "p"], model, rows_of, plan: DensePlan, data: Int[Array, "d"] | np.ndarray
) -> Judged:
    """J with gradient and curvature: one factorisation, and one product per parameter.

    The curvature is the information Σᵢ (∂μᵢ / σᵢ)² + 2 (∂ log σᵢ)² of the predictive densities.

    **Arguments:**

    - `theta`: θ.
    - `model`: from θ to kernels.
    - `rows_of`: from θ to the rows, whose noise may depend on it.
    - `plan`: of the solver of the inner problem.
    - `data`: the numbers of the rows that are data.
    """
    inner, columns, precision = _conditioned(model(theta), rows_of(theta), plan, data)
    vectors = jnp.concatenate([columns, inner.weights[:, None]], axis=1)
    vectors = jax.lax.stop_gradient(vectors)
    nugget = jax.lax.stop_gradient(inner.system.nugget)

    def product(t: Float[Array, "p"]) -> Float[Array, "M e"]:
        kernels, rows = model(t), rows_of(t)
        diagonal = gram_diagonal(kernels, rows.batches) + rows.variance
        added = rows.variance + nugget * diagonal
        return gram_of_blocks(kernels, rows.batches) @ vectors + added[:, None] * vectors

    def along(direction: Float[Array, "p"]) -> tuple[Float[Array, "d"], Float[Array, "d"]]:
        times = jax.jvp(product, (theta,), (direction,))[1]
        return -columns.T @ times[:, -1], -jnp.sum(columns * times[:, :-1], axis=0)

    z = inner.weights[data]
    z_slope, p_slope = jax.lax.map(along, jnp.eye(len(theta)))
    gradient = (z_slope * (z / precision)).sum(1)
    gradient -= 0.5 * (p_slope * (z**2 / precision**2 + 1.0 / precision)).sum(1)
    shift = (p_slope * (z / precision) - z_slope) / jnp.sqrt(precision)
    widening = p_slope / precision
    normal = shift @ shift.T + 0.5 * (widening @ widening.T)
    return Judged(_density(z, precision), gradient, normal, inner)
