"""Gauss-Newton iteration: a single step and the stopping rule.

`advance_iteration` maps an `IterationState` to the next. `solve` calls it from a Python loop, which
reports progress and can be interrupted, or from `lax.while_loop` inside `jit`, `vmap` and `grad`.
"""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.compiling import compiled
from kernelpde.linear_solvers import RESULTS as LINEAR
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.nonlinear._iterate import (
    EvaluatedIterate,
    IterationControl,
    IterationState,
    StepReport,
)
from kernelpde.nonlinear._result import RESULTS, RUNNING, code_from_result
from kernelpde.nonlinear._solvers import AbstractNonlinearSolver, Scalar
from kernelpde.nonlinear._step import StepResult, take_step, zero_iterate
from kernelpde.problem import PointSet

_ROUNDING_CHANGE = 1e-6
"""Relative change below which a full step that does not reduce it is limited by rounding."""

_STAGNATION_CHANGE = 1e-4
"""Relative change below which three steps that do not reduce it are limited by rounding."""

_FLUCTUATION_CHANGE, _STAGNANT_MERIT_CHANGE = 1e-2, 1e-3
"""Relative changes of solution and merit below which fluctuating half steps are due to rounding: a
jet value that should vanish consists of rounding errors. Slowly converging iterations have
decreasing changes instead."""

_OSCILLATION_CHANGE = 0.3
"""Relative change above which an iteration is not yet near a solution."""

_NEAR_SOLUTION_CHANGE = 0.1
"""Relative change of a full step below which merits are scaled by the diagonal of each step."""

_REFINED_MERIT_FACTOR = 1.1
"""Factor by which the final refined step may increase the merit."""

_MAX_MISFIT_FRACTION = 1e-3
"""Fraction of the initial misfit above which the residual of a converged iteration is too large."""

_DIVERGED_MISFIT = 1e3
"""Growth of the misfit over the initial one that ends the full steps."""

_WINDOW = 5
"""Number of recent steps that determine whether the iteration oscillates."""


def initial_iteration(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    jet_values: tuple[Float[Array, "_ _"], ...] | None = None,
) -> IterationState:
    """Return the iteration before its first step.

    The start is u = 0, or the given nonlinear jet values. The first step from the latter is a full
    one, which depends on the start only through the linearization.
    """
    iterate = zero_iterate(inputs)
    if jet_values is not None:
        jet_values = tuple(map(jnp.asarray, jet_values))
        iterate = eqx.tree_at(lambda it: it.jet_values, iterate, jet_values)
    undefined = to_array(np.full(len(inputs.conditions), np.nan))
    start = EvaluatedIterate(iterate, undefined, undefined)
    nan, inf, false, running = np.float64(np.nan), np.float64(np.inf), np.False_, np.int64(RUNNING)
    num_full_steps = solver.num_full_steps if jet_values is None else max(solver.num_full_steps, 1)
    return IterationState(
        current=start,
        best=start,
        jets_before_refinement=iterate.jet_values,
        first_diagonal=to_array(np.zeros(iterate.linear_part.shape[0])),
        last_step=StepReport(
            damping=nan,
            length=nan,
            accepted=false,
            merit=nan,
            change=nan,
            nugget=nan,
            finite=false,
            merit_decreased=false,
            failure=running,
            initial_misfit=nan,
            misfit=nan,
            condition_number=nan,
        ),
        last_rms=undefined,
        control=IterationControl(
            recent_changes=np.full(_WINDOW, np.inf),
            damping=np.float64(0.0),
            full_steps_left=np.int64(num_full_steps),
            halve_steps=false,
            use_initial_merit_scale=false,
            initial_misfit=inf,
            best_misfit=inf,
            merit=nan,
            condition_number=inf,
            refined=false,
            steps=np.int64(0),
            code=running,
        ),
    )


def is_oscillating(changes: Float[Array | np.ndarray, " n"]) -> Scalar:
    """Return whether the iteration oscillates near a solution.

    True if the last three relative changes are small and none is smaller than the change two steps
    earlier. Steps of length ½ damp such oscillations.

    **Arguments:**

    - `changes`: at least five relative changes, the latest last, with infinity for missing steps.
    """
    near_solution = changes[-3:].max() <= _OSCILLATION_CHANGE
    return near_solution & (changes[-3:] > 0.95 * changes[-5:-2]).all()


def _is_contracting(changes: Float[Array | np.ndarray, "5"]) -> Scalar:
    """Return whether the last two changes are small and decreasing."""
    return (changes[-1] < 0.9 * changes[-2]) & (changes[-2] <= _NEAR_SOLUTION_CHANGE)


def is_fluctuating(changes: Float[Array | np.ndarray, "5"]) -> Scalar:
    """Return whether the last changes are small, not monotone and no longer decreasing."""
    rises = (changes[1:] > 1.05 * changes[:-1]).sum()
    small = changes.max() <= _FLUCTUATION_CHANGE
    return small & (rises >= 1) & (rises <= 3) & (changes[-1] >= 0.9 * changes[:-1].min())


def _has_converged(
    last: StepReport,
    changes: Float[Array | np.ndarray, "5"],
    full_steps_left: Scalar,
    stagnant: Scalar,
    tolerance: Scalar,
) -> tuple[Scalar, Scalar]:
    """Return whether the iteration has converged, and whether rounding limits it.

    **Arguments:**

    - `stagnant`: whether half steps no longer change the merit.
    """
    is_full_step = (last.damping == 0.0) & ((last.length == 1.0) | (full_steps_left > 0))
    previous = changes[-4:-1]
    rounding = (changes[-1] <= _ROUNDING_CHANGE) & (changes[-1] >= 0.9 * changes[-2])
    rounding |= (previous.max() <= _STAGNATION_CHANGE) & (changes[-1] >= 0.9 * previous.min())
    rounding |= stagnant & is_fluctuating(changes)
    converged = last.change <= tolerance * last.length
    return is_full_step & (converged | rounding), ~converged


class _StepDecision(NamedTuple):
    """The consequences of a step.

    **Attributes:**

    - `control`: next control state.
    - `first`: whether this was the first finite step.
    - `accept`: whether the new iterate becomes the current one.
    - `is_best`: whether the new iterate becomes the best one.
    - `restore_best`: whether the best iterate becomes the current one.
    """

    control: IterationControl
    first: Scalar
    accept: Scalar
    is_best: Scalar
    restore_best: Scalar


def _decide_step(
    control: IterationControl,
    last: StepReport,
    force_full_step: Scalar,
    halved: Scalar,
    noisy: Scalar,
    solver: AbstractNonlinearSolver,
    tolerance: Scalar,
    np_: Any,
) -> _StepDecision:
    """Decide on a step without refinement."""
    changes = np_.concatenate([control.recent_changes[1:], np_.reshape(last.change, 1)])
    first = last.finite & np_.isnan(control.merit)
    initial_misfit = np_.where(first, last.initial_misfit, control.initial_misfit)
    # Contracting steps do not count: with noise or few data convergence is linear, but certain.
    counts = force_full_step & ~_is_contracting(changes)
    full_steps_left = control.full_steps_left - np_.where(counts, 1, 0)
    merit_change = np_.abs(last.merit - control.merit)
    stagnant = halved & (merit_change <= _STAGNANT_MERIT_CHANGE * last.merit)
    converged, by_rounding = _has_converged(last, changes, full_steps_left, stagnant, tolerance)
    solve_succeeded = last.failure == RUNNING
    converged = converged & last.finite & solve_succeeded

    # If full steps fail, the iteration continues from the best of their iterates.
    is_best = force_full_step & last.finite & (last.misfit < control.best_misfit)
    best_misfit = np_.where(is_best, last.misfit, control.best_misfit)
    diverged = ~last.finite | (full_steps_left == 0)
    diverged |= last.misfit > _DIVERGED_MISFIT * initial_misfit
    restore_best = force_full_step & ~converged & solve_succeeded & diverged

    # At convergence rounding may increase the merit slightly.
    accept = last.accepted | converged
    damping, continues = solver.next_damping(control.damping, last.length, last.accepted, np_)
    near_solution = (
        (last.length == 1.0) & (last.damping == 0.0) & (last.change < _NEAR_SOLUTION_CHANGE)
    )

    misfit_fraction = last.misfit / np_.maximum(initial_misfit, 1e-300)
    converged_code = np_.where(
        by_rounding, code_from_result(RESULTS.rounding_limited), code_from_result(RESULTS.converged)
    )
    converged_code = np_.where(
        (misfit_fraction > _MAX_MISFIT_FRACTION) & ~noisy,
        code_from_result(RESULTS.residual_too_large),
        converged_code,
    )
    failed_code = np_.where(
        last.finite, code_from_result(RESULTS.stalled), code_from_result(RESULTS.not_finite)
    )
    code = np_.where(force_full_step | continues, RUNNING, failed_code)
    code = np_.where(solve_succeeded, code, last.failure)
    code = np_.where(converged, converged_code, code)
    undamped = last.finite & (last.damping == 0.0)
    new = IterationControl(
        recent_changes=changes,
        damping=np_.where(force_full_step, control.damping, damping),
        full_steps_left=np_.where(restore_best, 0, full_steps_left),
        halve_steps=halved,
        use_initial_merit_scale=np_.where(
            force_full_step, control.use_initial_merit_scale | restore_best, ~near_solution
        ),
        initial_misfit=initial_misfit,
        best_misfit=best_misfit,
        merit=np_.where(accept, last.merit, control.merit),
        condition_number=np_.where(undamped, last.condition_number, control.condition_number),
        refined=control.refined,
        steps=control.steps + 1,
        code=code,
    )
    return _StepDecision(new, first, accept, is_best, restore_best & np_.isfinite(best_misfit))


def _decide_refined_step(control: IterationControl, last: StepReport, np_: Any) -> _StepDecision:
    """Decide on the final refined step."""
    # If several solutions differ by less than the nugget resolves, the step may leave the current
    # one; a larger merit reveals this.
    accept = last.finite & (last.merit <= _REFINED_MERIT_FACTOR * control.merit)
    condition_number = np_.where(last.finite, last.condition_number, control.condition_number)
    new = eqx.tree_at(
        lambda c: (c.condition_number, c.refined, c.steps),
        control,
        (condition_number, accept, control.steps + 1),
    )
    false = np_.zeros_like(accept)
    return _StepDecision(new, false, accept, false, false)


_T = TypeVar("_T")


def _select_tree(condition: Scalar, if_true: _T, if_false: _T) -> _T:
    """Return one of two trees, leaf by leaf if the condition is traced."""
    if isinstance(condition, jax.Array):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)
    return if_true if condition else if_false


def advance_iteration(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    iteration: IterationState,
    sweeps: Scalar,
    tolerance: Scalar,
) -> IterationState:
    """Take one step, and decide whether and how to continue.

    Decisions use NumPy in the Python loop, since compiling them costs more than a step, and JAX in
    `lax.while_loop`.

    **Arguments:**

    - `inputs`, `solver`: discretized problem and nonlinear solver.
    - `iteration`: state before the step.
    - `sweeps`: sweeps of iterative refinement. If positive, this is the final step. It is a full
      one that removes the bias of the nugget, and valid only from a converged iterate.
    - `tolerance`: tolerance of the relative change in a full step.
    """
    control = iteration.control
    traced = isinstance(sweeps, jax.Array)
    np_: Any = jnp if traced else np
    refining = np_.asarray(sweeps > 0)
    force_full_step = (control.full_steps_left > 0) & ~refining
    halved = control.halve_steps | (force_full_step & is_oscillating(control.recent_changes))
    full_length = np_.where(halved & ~refining, 0.5, 1.0)
    damping = np_.where(force_full_step | refining, 0.0, control.damping)
    step_lengths = np_.where(
        force_full_step | refining, full_length, np_.asarray(solver.step_lengths)
    )
    no_scale = to_array(np.zeros(iteration.first_diagonal.shape))
    step = take_step(
        inputs,
        iteration.current.iterate,
        damping=to_array(damping),
        step_lengths=to_array(step_lengths),
        sweeps=to_array(np_.asarray(sweeps)),
        merit_scale=_select_tree(
            control.use_initial_merit_scale, iteration.first_diagonal, no_scale
        ),
    )
    last = _report_step(step, damping)
    last = last if traced else jax.device_get(last)
    accepted = last.finite & (
        force_full_step | refining | solver.accept(last.finite, last.merit_decreased)
    )
    last = eqx.tree_at(lambda report: report.accepted, last, accepted)
    noisy = np_.stack([_has_noise(points, np_) for points in inputs.discrete.point_sets]).any()
    decision = _decide_step(control, last, force_full_step, halved, noisy, solver, tolerance, np_)
    decision = _select_tree(refining, _decide_refined_step(control, last, np_), decision)
    new = EvaluatedIterate(step.iterate, step.residual_rms, step.residual_max)
    best = _select_tree(decision.is_best, new, iteration.best)
    current = _select_tree(decision.accept, new, iteration.current)
    return IterationState(
        current=_select_tree(decision.restore_best, best, current),
        best=best,
        jets_before_refinement=iteration.current.iterate.jet_values,
        first_diagonal=_select_tree(decision.first, step.diagonal, iteration.first_diagonal),
        last_step=last,
        last_rms=step.residual_rms,
        control=decision.control,
    )


def _has_noise(points: PointSet, np_: Any) -> Scalar:
    """Return whether a condition has a row with noise and a nonzero weight."""
    noisy = np_.asarray(points.noise) > 0
    if points.quadrature is not None:
        noisy &= (np_.asarray(points.quadrature) != 0).any(axis=1)
    return noisy.any()


@compiled
def _report_step(step: StepResult, damping: Scalar) -> StepReport:
    failure = jnp.where(
        step.result == LINEAR.cg_not_converged,
        code_from_result(RESULTS.linear_solver_failed),
        RUNNING,
    )
    singular = step.result == LINEAR.not_positive_definite
    return StepReport(
        damping=to_array(damping),
        length=step.step_length,
        accepted=step.finite,
        merit=step.merit,
        change=step.change,
        nugget=step.nugget,
        finite=step.finite,
        merit_decreased=step.merit_decreased,
        failure=jnp.where(singular, code_from_result(RESULTS.not_positive_definite), failure),
        initial_misfit=step.initial_misfit,
        misfit=step.misfit,
        condition_number=step.condition_number,
    )
