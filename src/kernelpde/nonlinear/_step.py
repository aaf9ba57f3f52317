"""One damped Gauss-Newton step: linearize, assemble, factor, solve and evaluate the residual."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import TINY, to_array
from kernelpde.compiling import compiled, pointwise
from kernelpde.functionals import Prior, gram_diagonal, replicate
from kernelpde.linear_solvers import MIN_NUGGET, AbstractLinearSolverState
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.problem import Conditions, LinearSystem, PointSet, nonlinear_residual

JetValues = tuple[Float[Array, "_ _"], ...]
Weights = tuple[Float[Array, "_ _"], ...]


class Iterate(eqx.Module):
    """A Gauss-Newton iterate uᵏ.

    **Attributes:**

    - `jet_values`: for each condition, the jet values at its points in which its residual is
      nonlinear.
    - `linear_part`: for each row, the part of its residual that is linear in u.
    - `weights`: weights w of the expansion u = Σᵢₜ wᵢₜ ψᵢₜ κ, with ψᵢₜ the jet entry t at point i,
      or another linear representation of the linear solver.
    - `norm_squared`: ‖u‖² in the RKHS.
    """

    jet_values: JetValues
    linear_part: Float[Array, " M"]
    weights: Weights
    norm_squared: Float[Array, ""]


class DampedStep(eqx.Module):
    """The minimizer u of the damped quadratic model at uᵏ.

    **Attributes:**

    - `iterate`: u.
    - `distance_squared`: ‖u - uᵏ‖².
    - `row_change`: Φ(u - uᵏ).
    - `refrozen`: whether D is the diagonal of K + Σ at this linearization.
    - `damping`: damping λ relative to the objective.
    - `row_scale`, `row_variance`: diagonals of D and of T = Σ + ηD.
    - `diagonal`: diagonal of K + Σ.
    - `nugget`, `condition_number`, `result`: nugget, condition number and result code of the linear
      solve.
    - `finite`: whether all weights are finite.
    """

    iterate: Iterate
    distance_squared: Float[Array, ""]
    row_change: Float[Array, " M"]
    refrozen: Bool[Array, ""]
    damping: Float[Array, ""]
    row_scale: Float[Array, " M"]
    row_variance: Float[Array, " M"]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    condition_number: Float[Array, ""]
    result: Int[Array, ""]
    finite: Bool[Array, ""]


class Residuals(eqx.Module):
    """Nonlinear residuals of uᵏ, of u = 0 and of the new u.

    **Attributes:**

    - `rows`: F(u), row by row.
    - `rms`, `largest`: root mean square and maximum of F(u) per condition.
    - `noisy`: whether a condition has noise.
    """

    rows: Float[Array, "3 M"]
    rms: Float[Array, "3 C"]
    largest: Float[Array, "3 C"]
    noisy: Bool[Array, ""]


def zero_iterate(inputs: SolveInputs) -> Iterate:
    """Return the iterate u = 0."""
    return Iterate(
        tuple(condition.zero_jets() for condition in inputs.conditions),
        to_array(np.zeros(inputs.discrete.num_rows)),
        inputs.solver_state.zero_coefficients(inputs.conditions),
        to_array(np.zeros(())),
    )


def take_step(
    inputs: SolveInputs,
    iterate: Iterate,
    damping: Float[Array, ""],
    nugget: Float[Array, ""],
    row_scale: Float[Array, " M"],
    max_scale_ratio: Float[Array, ""],
    sweeps: Int[Array, ""],
) -> tuple[DampedStep, Residuals]:
    """Take a damped Gauss-Newton step from uᵏ.

    Let Φ be the functionals of the residual linearized at uᵏ, b = Φuᵏ - F(uᵏ), K = κ(Φ, Φ), η the
    nugget, D a fixed row scale and T = Σ + ηD the variance of a row. The step minimizes

        ½ ‖u‖² + ½ ‖Φu - b‖² in T⁻¹ + ½ λ ‖u - uᵏ‖²,

    the linearized objective with the damping λ of Levenberg and Marquardt. With s = λ / (1 + λ) it
    is

        u = s uᵏ + κ(·, Φ) z,    z = (K + (1 + λ) T)⁻¹ (b - s Φuᵏ).

    For λ = 0 this is the Gauss-Newton step u = κ(·, Φ)(K + T)⁻¹ b, the closed form of the paper.

    Three programs: the two that depend on the equation are pointwise and compile fast, and the one
    that forms matrices depends on array shapes only.

    **Arguments:**

    - `inputs`: prior, conditions and linear-solver state.
    - `iterate`: uᵏ.
    - `damping`: μ = λη, relative to the row scale, so that 1 is strong.
    - `nugget`: smallest η, if D is not replaced.
    - `row_scale`: D, or zeros for the diagonal of K + Σ at this linearization.
    - `max_scale_ratio`: ratio of this diagonal to D above which it replaces D.
    - `sweeps`: sweeps of iterative refinement in the linear solve.
    """
    system = inputs.discrete.linearize(iterate.jet_values)
    step, jets, linear_parts = _damped_step(
        inputs.prior,
        system,
        iterate,
        inputs.solver_state,
        damping,
        nugget,
        row_scale,
        max_scale_ratio,
        sweeps,
    )
    return step, _residuals(inputs.conditions, jets, linear_parts)


def linearized_weights(inputs: SolveInputs, jet_values: JetValues) -> Weights:
    """Return the weights of the solution of the system that is linearized at given jet values."""
    system, zero = inputs.discrete.linearize(jet_values), zero_iterate(inputs)
    step, *_ = _damped_step(
        inputs.prior,
        system,
        replace(zero, jet_values=jet_values),
        inputs.solver_state,
        zero.norm_squared,
        zero.norm_squared,
        zero.linear_part,
        zero.norm_squared,
        to_array(np.asarray(inputs.solver_state.refinement_sweeps)),
    )
    return step.iterate.weights


@compiled
def _damped_step(
    prior: Prior,
    system: LinearSystem,
    iterate: Iterate,
    solver_state: AbstractLinearSolverState,
    damping: Float[Array, ""],
    nugget: Float[Array, ""],
    row_scale: Float[Array, " M"],
    max_scale_ratio: Float[Array, ""],
    sweeps: Int[Array, ""],
) -> tuple[DampedStep, tuple[Float[Array, "3 _ _"], ...], Float[Array, "3 M"]]:
    """Minimize the damped quadratic model; return also the arguments of three residuals."""
    applied = system.apply_to_jets(iterate.jet_values) + iterate.linear_part
    diagonal = gram_diagonal(prior, system.batches) + system.variance
    refrozen = jnp.max(diagonal / row_scale) > max_scale_ratio
    row_scale = jnp.where(refrozen, diagonal, row_scale)
    nugget = jnp.maximum(solver_state.nugget, jnp.where(refrozen, 0.0, nugget))
    solver_state = eqx.tree_at(lambda state: state.solver.nugget, solver_state, nugget)
    min_nugget = jnp.maximum(nugget, MIN_NUGGET)
    relative = damping / min_nugget
    shrinkage = relative / (1.0 + relative)
    damped = replace(
        system,
        variance=system.variance + relative * (system.variance + min_nugget * row_scale),
        rhs=system.rhs - shrinkage * applied,
        row_scale=row_scale,
    )
    solution = solver_state.solve(prior, damped, sweeps)
    increments = solution.jet_values(prior, system)
    cross = solution.inner_product(applied, iterate.weights)
    remaining = 1.0 - shrinkage
    new = Iterate(
        _scaled_sum(shrinkage, iterate.jet_values, increments),
        shrinkage * iterate.linear_part + solution.row_values - system.apply_to_jets(increments),
        _scaled_sum(shrinkage, iterate.weights, solution.coefficients),
        shrinkage**2 * iterate.norm_squared + 2.0 * shrinkage * cross + solution.norm_squared,
    )
    distance_squared = (
        remaining**2 * iterate.norm_squared - 2.0 * remaining * cross + solution.norm_squared
    )
    step = DampedStep(
        new,
        jnp.maximum(distance_squared, 0.0),
        solution.row_values - remaining * applied,
        refrozen,
        relative,
        row_scale,
        system.variance + jnp.maximum(solution.nugget, MIN_NUGGET) * row_scale,
        diagonal,
        solution.nugget,
        solution.condition_number(),
        solution.result,
        jnp.isfinite(solution.weights).all(),
    )

    def stack(old: Array, new: Array) -> Array:
        return jnp.stack([old, jnp.zeros_like(old), new])

    jets = tuple(map(stack, iterate.jet_values, new.jet_values))
    linear_parts = stack(iterate.linear_part, new.linear_part)
    return replicate((step, jets, linear_parts), solution.device_mesh)


def _scaled_sum(
    factor: Float[Array, ""],
    arrays: tuple[Float[Array, "_ _"], ...],
    increments: tuple[Float[Array, "_ _"], ...],
) -> tuple[Float[Array, "_ _"], ...]:
    return jax.tree.map(lambda a, b: factor * a + b, arrays, increments)


@pointwise
def _residuals(
    conditions: Conditions,
    jet_values: tuple[Float[Array, "3 _ _"], ...],
    linear_part: Float[Array, "3 M"],
) -> Residuals:
    """Evaluate F(u) for three u."""
    rows = jax.vmap(lambda j, v: nonlinear_residual(conditions, j, v))(jet_values, linear_part)
    stops = np.cumsum([condition.num_rows for condition in conditions])
    chunks = jnp.split(rows, stops[:-1], axis=1)
    rms = [
        jnp.sqrt(jnp.sum(chunk**2, 1) / condition.num_active_rows)
        for chunk, condition in zip(chunks, conditions, strict=True)
    ]
    largest = [jnp.max(jnp.abs(chunk), 1) for chunk in chunks]
    noisy = jnp.stack([_has_noise(condition.point_set) for condition in conditions]).any()
    return Residuals(rows, jnp.stack(rms, 1), jnp.stack(largest, 1), noisy)


def _has_noise(points: PointSet) -> Bool[Array, ""]:
    """Return whether a row has noise. Padding rows do not count."""
    noisy = points.noise > 0
    if points.quadrature is not None:
        noisy &= (points.quadrature != 0).any(axis=1)
    return noisy.any()


def max_relative_change(old: JetValues, new: JetValues) -> Float[Array, ""]:
    """Return the largest relative change, in root mean square, among nonlinear jet values."""

    def ratios(old: Array, new: Array) -> Array:
        change = jnp.sum((new - old) ** 2, axis=0)
        return jnp.sqrt(change / jnp.maximum(jnp.sum(new**2, axis=0), TINY))

    return jnp.max(jnp.concatenate([*jax.tree.map(ratios, old, new), jnp.zeros(1)]))
