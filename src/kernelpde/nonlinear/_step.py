"""One Gauss-Newton step: linearize, assemble, factor, solve and choose the step length."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import to_array
from kernelpde.compiling import compiled, pointwise
from kernelpde.functionals import Prior, gram_diagonal, replicate
from kernelpde.linear_solvers import RESULTS as LINEAR
from kernelpde.linear_solvers import AbstractLinearSolverState
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.problem import Conditions, LinearSystem, nonlinear_residual

_MIN_NUGGET = 1e-15
"""Lower bound of the nugget by which the damping is divided, for solvers with a nugget of zero."""

_MERIT_ROUNDING = 1e-6
"""Relative difference of merits that counts as rounding."""

_SMALL_CHANGE = 1e-5
"""Relative change below which a full step is accepted by its change instead of its merit: near the
solution rounding dominates differences of the merit."""


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

    jet_values: tuple[Float[Array, "_ _"], ...]
    linear_part: Float[Array, " M"]
    weights: tuple[Float[Array, "_ _"], ...]
    norm_squared: Float[Array, ""]


class StepResult(eqx.Module):
    """The result of a step.

    **Attributes:**

    - `iterate`: new iterate.
    - `residual_rms`, `residual_max`: nonlinear residual at the new iterate, per condition.
    - `merit_before`, `merit`: merit function before and after the step; see `take_step`.
    - `merit_decreased`: whether the merit decreased, up to rounding.
    - `step_length`: fraction of the step.
    - `change`: largest relative change (root mean square) among the nonlinear jet values.
    - `initial_misfit`, `misfit`: root mean square of the residual over T^½, for u = 0 and for the
      new iterate.
    - `diagonal`: diagonal of the Gram matrix.
    - `nugget`, `condition_number`, `result`: nugget, condition number and result code of the linear
      solve.
    - `finite`: whether all values are finite.
    """

    iterate: Iterate
    residual_rms: Float[Array, " C"]
    residual_max: Float[Array, " C"]
    merit_before: Float[Array, ""]
    merit: Float[Array, ""]
    merit_decreased: Bool[Array, ""]
    step_length: Float[Array, ""]
    change: Float[Array, ""]
    initial_misfit: Float[Array, ""]
    misfit: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    condition_number: Float[Array, ""]
    result: LINEAR
    finite: Bool[Array, ""]


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
    *,
    damping: Float[Array, ""],
    step_lengths: Float[Array, " L"],
    sweeps: Int[Array, ""],
    merit_scale: Float[Array, " M"],
) -> StepResult:
    """Take a damped Gauss-Newton step from uᵏ.

    Let Φ be the functionals of the residual linearized at uᵏ, b = Φuᵏ - F(uᵏ), K = κ(Φ, Φ), D its
    diagonal, η the nugget and T = Σ + ηD the variance of a row. The step minimizes

        ½ ‖u‖² + ½ ‖Φu - b‖² in T⁻¹ + ½ λ ‖u - uᵏ‖²,

    the linearized problem with the damping λ of Levenberg and Marquardt. With s = λ / (1 + λ) it is

        u = s uᵏ + κ(·, Φ) z,    z = (K + (1 + λ) T)⁻¹ (b - s Φuᵏ).

    For λ = 0 this is the Gauss-Newton step u = κ(·, Φ)(K + Σ)⁻¹ b, the closed form of the paper.
    Between uᵏ and u the nonlinear residual is cheap to evaluate, since all its arguments are linear
    in u. The step therefore tries several step lengths and keeps the one with the smallest merit
    ½ ‖u‖² + ½ ‖F(u)‖² in T⁻¹.

    The step consists of four programs. The two that depend on the equation are pointwise and
    compile fast; the other two depend on array shapes only.

    **Arguments:**

    - `inputs`: prior, conditions and linear-solver state.
    - `iterate`: uᵏ.
    - `damping`: μ = λη, relative to the diagonal of K, so that 1 is strong.
    - `step_lengths`: trial fractions of the step, longest first.
    - `sweeps`: sweeps of iterative refinement in the linear solve.
    - `merit_scale`: a diagonal to use for D in the merit; where it is 0, D itself. Only a fixed
      one makes merits comparable across steps, since D depends on uᵏ. Only D itself makes the limit
      of the iteration a minimum of the merit.
    """
    system = inputs.discrete.linearize(iterate.jet_values)
    full_step, trials = _full_step(
        inputs.prior, system, iterate, inputs.solver_state, damping, sweeps, step_lengths
    )
    evaluated = _nonlinear_residuals(inputs.conditions, *trials)
    return _line_search(*evaluated, system.variance, iterate, full_step, step_lengths, merit_scale)


class FullStep(eqx.Module):
    """The minimizer of the damped linearized problem.

    **Attributes:**

    - `iterate`: the minimizer u.
    - `inner_product`: ⟨uᵏ, u⟩.
    - `undamped`: whether the damping is zero.
    - `min_nugget`: nugget η, bounded away from zero.
    - `diagonal`: diagonal of the Gram matrix.
    - `nugget`, `condition_number`, `result`: nugget, condition number and result code of the linear
      solve.
    - `finite`: whether all weights are finite.
    """

    iterate: Iterate
    inner_product: Float[Array, ""]
    undamped: Bool[Array, ""]
    min_nugget: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    condition_number: Float[Array, ""]
    result: LINEAR
    finite: Bool[Array, ""]


@compiled
def _full_step(
    prior: Prior,
    system: LinearSystem,
    iterate: Iterate,
    solver_state: AbstractLinearSolverState,
    damping: Float[Array, ""],
    sweeps: Int[Array, ""],
    step_lengths: Float[Array, " L"],
) -> tuple[FullStep, tuple[tuple[Float[Array, "K _ _"], ...], Float[Array, "K M"]]]:
    """Solve the damped linearized problem.

    The second result contains the jet values and linear parts of the iterates whose residual is
    required: the current one, u = 0, and all fractions of the step.
    """
    applied = system.apply_to_jets(iterate.jet_values) + iterate.linear_part
    diagonal = gram_diagonal(prior, system.batches)
    nugget = jnp.maximum(solver_state.nugget, _MIN_NUGGET)
    shrinkage = damping / (nugget + damping)
    damped_noise = system.variance * (1.0 + damping / nugget) + damping * diagonal
    damped = replace(system, variance=damped_noise, rhs=system.rhs - shrinkage * applied)
    linear_solution = solver_state.solve(prior, damped, sweeps)
    increments = linear_solution.jet_values(prior, system)
    cross = linear_solution.inner_product(applied, iterate.weights)
    full = Iterate(
        _scaled_sum(shrinkage, iterate.jet_values, increments),
        shrinkage * iterate.linear_part
        + linear_solution.row_values
        - system.apply_to_jets(increments),
        _scaled_sum(shrinkage, iterate.weights, linear_solution.coefficients),
        shrinkage**2 * iterate.norm_squared
        + 2.0 * shrinkage * cross
        + linear_solution.norm_squared,
    )
    step = FullStep(
        full,
        shrinkage * iterate.norm_squared + cross,
        damping == 0.0,
        nugget,
        diagonal,
        linear_solution.nugget,
        linear_solution.condition_number(),
        linear_solution.result,
        jnp.isfinite(linear_solution.weights).all(),
    )

    def trial_values(old: Array, new: Array) -> Array:
        fractions = jax.vmap(lambda length: (1.0 - length) * old + length * new)(step_lengths)
        return jnp.concatenate([old[None], jnp.zeros_like(old)[None], fractions])

    trials = (
        tuple(map(trial_values, iterate.jet_values, full.jet_values)),
        trial_values(iterate.linear_part, full.linear_part),
    )
    return replicate((step, trials), linear_solution.device_mesh)


def _scaled_sum(
    factor: Float[Array, ""],
    arrays: tuple[Float[Array, "_ _"], ...],
    increments: tuple[Float[Array, "_ _"], ...],
) -> tuple[Float[Array, "_ _"], ...]:
    return tuple(factor * a + b for a, b in zip(arrays, increments, strict=True))


@pointwise
def _nonlinear_residuals(
    conditions: Conditions,
    jet_values: tuple[Float[Array, "K _ _"], ...],
    linear_part: Float[Array, "K M"],
) -> tuple[Float[Array, "K M"], Float[Array, "K C"], Float[Array, "K C"]]:
    """Return F(u) of several u, with its root mean square and maximum per condition."""
    rows = jax.vmap(lambda j, v: nonlinear_residual(conditions, j, v))(jet_values, linear_part)
    stops = np.cumsum([condition.num_rows for condition in conditions])
    chunks = jnp.split(rows, stops[:-1], axis=1)
    rms = [
        jnp.sqrt(jnp.sum(chunk**2, 1) / condition.num_active_rows)
        for chunk, condition in zip(chunks, conditions, strict=True)
    ]
    return rows, jnp.stack(rms, 1), jnp.stack([jnp.max(jnp.abs(c), 1) for c in chunks], 1)


@pointwise
def _line_search(
    rows: Float[Array, "K M"],
    rms: Float[Array, "K C"],
    largest: Float[Array, "K C"],
    variance: Float[Array, " M"],
    iterate: Iterate,
    full_step: FullStep,
    step_lengths: Float[Array, " L"],
    merit_scale: Float[Array, " M"],
) -> StepResult:
    """Choose the step length with the smallest merit among the trial iterates of `full_step`.

    The first two of the K residuals belong to the current iterate and to u = 0.
    """
    full = full_step.iterate
    norms = (
        (1.0 - step_lengths) ** 2 * iterate.norm_squared
        + 2.0 * (1.0 - step_lengths) * step_lengths * full_step.inner_product
        + step_lengths**2 * full.norm_squared
    )
    row_variance = variance + full_step.min_nugget * jnp.where(
        merit_scale > 0, merit_scale, full_step.diagonal
    )
    misfits = jnp.sum(rows**2 / row_variance, axis=1)
    merit_before = 0.5 * (iterate.norm_squared + misfits[0])
    merits = 0.5 * (norms + misfits[2:])
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    full_change = max_relative_change(iterate.jet_values, full.jet_values)
    change_is_small = (full_change <= _SMALL_CHANGE) & (merits[0] <= 1.1 * merit_before)
    tied = merits[0] <= jnp.minimum(jnp.min(merits), merit_before) * (1.0 + _MERIT_ROUNDING)
    index = jnp.where(change_is_small | tied, 0, jnp.argmin(merits))
    length, merit, misfit = step_lengths[index], merits[index], misfits[index + 2]
    new = jax.tree.map(lambda old, new: (1.0 - length) * old + length * new, iterate, full)
    new = eqx.tree_at(lambda it: it.norm_squared, new, norms[index])
    is_full_step = (length == 1.0) & full_step.undamped
    tolerance = jnp.where(is_full_step, 1 + _MERIT_ROUNDING, 1 - _MERIT_ROUNDING)
    return StepResult(
        iterate=new,
        residual_rms=rms[index + 2],
        residual_max=largest[index + 2],
        merit_before=merit_before,
        merit=merit,
        merit_decreased=change_is_small | (merit < merit_before * tolerance),
        step_length=length,
        change=max_relative_change(iterate.jet_values, new.jet_values),
        initial_misfit=jnp.sqrt(misfits[1] / rows.shape[1]),
        misfit=jnp.sqrt(misfit / rows.shape[1]),
        diagonal=full_step.diagonal,
        nugget=full_step.nugget,
        condition_number=full_step.condition_number,
        result=full_step.result,
        finite=full_step.finite & jnp.isfinite(merit),
    )


def max_relative_change(
    old: tuple[Float[Array, "_ _"], ...], new: tuple[Float[Array, "_ _"], ...]
) -> Float[Array, ""]:
    """Return the largest relative change, in root mean square, among nonlinear jet values."""
    ratios = [
        jnp.sqrt(jnp.sum((n - o) ** 2, axis=0) / jnp.maximum(jnp.sum(n**2, axis=0), 1e-300))
        for o, n in zip(old, new, strict=True)
    ]
    return jnp.max(jnp.concatenate([*ratios, jnp.zeros(1)]))
