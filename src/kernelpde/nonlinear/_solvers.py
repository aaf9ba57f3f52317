"""Nonlinear solvers: full Gauss-Newton steps, and Levenberg-Marquardt damping.

The iteration minimizes one objective, with T = Σ + ηD frozen at the first linearization:

    J(u) = ½ ‖u‖² + ½ ‖F(u)‖² in T⁻¹.

A step u of the damped quadratic model Q at uᵏ predicts the decrease

    Q(uᵏ) - Q(u) = (λ + ½) ‖u - uᵏ‖² + ½ ‖Φ(u - uᵏ)‖² in T⁻¹,

a sum of squares, so that no digits cancel. At a minimizer F = -Tz. Sums of kernels with the weights
z have rounding errors of about ε (Dᵢ Σⱼ Dⱼ zⱼ²)^½ in row i, and J therefore of about

    δ = ε (J + Σᵢ Dᵢ zᵢ²),    zᵢ = Fᵢ / Tᵢ.

Decreases below δ cannot be observed.
"""

import abc
from dataclasses import replace
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import TINY
from kernelpde.checking import check_integer, check_real
from kernelpde.compiling import compiled
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.nonlinear._state import (
    EvaluatedIterate,
    EvaluatedStep,
    IterationState,
    initial_state,
)
from kernelpde.nonlinear._step import (
    DampedStep,
    JetValues,
    Residuals,
    max_relative_change,
    take_step,
)
from kernelpde.results import RESULTS, is_any, is_converged, select_result

_EPSILON = float(np.finfo(float).eps)

MAX_STEPS = 50
"""Default for the maximum number of Gauss-Newton steps. Solves that converge need 3 to 30, and half
of it ends the slowest of them. Double only delays the end of those that do not converge."""

_MAX_STEPS_WITHOUT_PROGRESS = 12
"""Number of steps without a new smallest objective that ends an iteration. It leaves six damped
steps after the watchdog, which raise the damping by four orders of magnitude."""

_STAGNANT_STEPS, _STAGNANT_CHANGE = 3, 1e-6
"""Number of full steps that do not decrease the objective, and their largest relative change, after
which rounding errors of the linear solver limit the iteration. The low-rank solver has larger ones
than δ: with 6300 rows of the elliptic problem its steps keep changing the solution by 2e-7. Half
and twice the number of steps end this iteration as well, at steps 6 and 10 instead of 7."""

_MAX_SCALE_RATIO = 3.0
"""Ratio between the diagonal of K + Σ and the frozen one at which it is frozen again. It bounds the
change of the nugget's effect. With 10 the errors of the unlearned Schrödinger and Gray-Scott rows
of the paper grow by 10% to 20%. With 2 they are as with 3."""

_MAX_REFREEZES = 2
"""Maximum number of times that the row weights are frozen again: once where they grow on the way,
and once at convergence. With two on the way, full steps that overshoot use up both."""

_MAX_MISFIT_FRACTION = 1e-3
"""Fraction of the initial misfit above which the residual of a converged iteration is too large."""

_MAX_REFINED_GROWTH = 1.1
"""Factor by which the refined step may increase the objective."""

_T = TypeVar("_T")


class AbstractNonlinearSolver(eqx.Module):
    """An iteration of Gauss-Newton steps: `init`, then `step` until the state is `has_ended`.

    **Attributes:**

    - `tolerance`: tolerance of the relative change of the solution in a full step.
    """

    tolerance: eqx.AbstractVar[float]

    def __check_init__(self):
        check_real(type(self).__name__, "tolerance", self.tolerance, at_least=0, at_most=1)

    def init(
        self, inputs: SolveInputs, jet_values: JetValues | None, max_steps: int
    ) -> IterationState:
        """Return the state before the first step, at u = 0 or at given nonlinear jet values."""
        return initial_state(inputs, jet_values, max_steps)

    def step(self, inputs: SolveInputs, state: IterationState) -> IterationState:
        """Take one step and decide on it. From a converged iterate it is the refined step.

        Refinement sweeps remove the bias of the nugget, and are valid only there.
        """
        step, residuals = take_step(
            inputs,
            state.current.iterate,
            state.damping,
            state.nugget,
            state.row_scale,
            state.max_scale_ratio,
            state.sweeps,
        )
        return _decide(self, state, step, residuals, inputs.solver_state.refinement_sweeps)

    @abc.abstractmethod
    def update(self, state: IterationState, last: EvaluatedStep) -> "Update":
        """Decide on the acceptance of a step and on the damping of the next one."""

    def terminate(
        self, state: IterationState, last: EvaluatedStep, noisy: Bool[Array, ""]
    ) -> Int[Array, ""]:
        """Return the result code after a step, or `RESULTS.running`.

        A full step has converged if its change is small, or if its decrease of the objective cannot
        be observed: by prediction, or because several small steps made none.
        """
        small = last.change <= self.tolerance
        invisible = last.predicted_decrease <= last.rounding
        invisible |= (state.steps_since_best >= _STAGNANT_STEPS) & (last.change <= _STAGNANT_CHANGE)
        converged = last.finite & (last.damping == 0) & (small | invisible)
        too_large = (last.misfit_fraction > _MAX_MISFIT_FRACTION) & ~noisy
        return select_result(
            RESULTS.running.code,
            (state.steps >= state.max_steps, RESULTS.max_steps_reached),
            (state.steps_since_best >= _MAX_STEPS_WITHOUT_PROGRESS, RESULTS.stalled),
            (~jnp.isfinite(last.previous_objective) & ~last.finite, RESULTS.not_finite),
            (converged, RESULTS.rounding_limited),
            (converged & small, RESULTS.converged),
            (converged & too_large, RESULTS.residual_too_large),
        )

    def postprocess(self, state: IterationState, last: EvaluatedStep) -> Bool[Array, ""]:
        """Return whether the refined step is accepted.

        If several solutions differ by less than the nugget resolves, the step may leave the current
        one. A larger objective reveals this.
        """
        del state
        return last.finite & (last.objective <= _MAX_REFINED_GROWTH * last.previous_objective)


class Update(eqx.Module):
    """Decision on a step.

    **Attributes:**

    - `accept`: whether the new iterate becomes the current one.
    - `restore`: whether the best iterate becomes the current one.
    - `damping`, `growth`: damping of the next step, and its factor after a rejected step.
    """

    accept: Bool[Array, ""]
    restore: Bool[Array, ""]
    damping: Float[Array, ""]
    growth: Float[Array, ""]


class GaussNewton(AbstractNonlinearSolver):
    """Full Gauss-Newton steps without damping, as in the paper.

    **Arguments:**

    - `tolerance`: tolerance of the relative change of the solution in a step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.GaussNewton()).converged
    True
    ```
    """

    tolerance: float = 1e-7

    def update(self, state: IterationState, last: EvaluatedStep) -> Update:
        return Update(last.finite, ~last.finite, state.damping, state.growth)


class LevenbergMarquardt(AbstractNonlinearSolver):
    """Full steps with a watchdog, and damped steps where they fail.

    Full steps may pass through worse iterates on the way to a solution. The watchdog of Chamberlain
    et al. (1982) accepts them for a few steps. If none of these decreases the objective, the
    iteration returns to the best iterate for a damped step. Damped steps are accepted
    by their gain ratio, and their damping follows Nielsen (1999).

    **Arguments:**

    - `watchdog_steps`: number of consecutive full steps that may fail to decrease the objective.
      Between 2 and 8 no random Burgers or Fisher problem converges or fails to because of it.
    - `initial_damping`: first damping after full steps have failed, relative to the diagonal of the
      Gram matrix. It is Nielsen's τ.
    - `tolerance`: tolerance of the relative change of the solution in a full step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.LevenbergMarquardt(tolerance=1e-10)).converged
    True
    ```
    """

    watchdog_steps: int = 5
    initial_damping: float = 1e-6
    tolerance: float = 1e-7

    def __check_init__(self):
        caller = type(self).__name__
        check_integer(caller, "watchdog_steps", self.watchdog_steps, at_least=0)
        check_real(caller, "initial_damping", self.initial_damping, greater_than=0)

    def update(self, state: IterationState, last: EvaluatedStep) -> Update:
        is_full = last.damping == 0
        restore = is_full & (state.steps_since_best > self.watchdog_steps)
        restore |= is_full & ~last.finite
        gain = jnp.where(last.finite, last.gain, -1.0)
        accept = jnp.where(is_full, ~restore, gain > 0)
        # A damping in proportion to the objective vanishes fast enough for quadratic convergence.
        ratio = jnp.minimum(last.objective / last.previous_objective, 1.0)
        reduced = last.damping * ratio * jnp.maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
        raised = last.damping * state.growth
        damping = jnp.where(accept, reduced, raised)
        # A damping below the nugget is below the curvature ½ ‖u‖² of the objective itself.
        damping = jnp.where(damping <= last.nugget, 0.0, damping)
        damping = jnp.where(restore, self.initial_damping, damping)
        return Update(accept, restore, damping, jnp.where(accept | restore, 2.0, 2 * state.growth))


def default_solver(solver: AbstractNonlinearSolver | None) -> AbstractNonlinearSolver:
    """Return the given solver, or the default one."""
    return LevenbergMarquardt() if solver is None else solver


@compiled
def _decide(
    solver: AbstractNonlinearSolver,
    state: IterationState,
    step: DampedStep,
    residuals: Residuals,
    refinement_sweeps: int,
) -> IterationState:
    """Return the state after a step."""
    last = _evaluate_step(state, step, residuals)
    new = EvaluatedIterate(step.iterate, residuals.rms[2], residuals.largest[2])
    refined = _after_refinement(solver, state, last, new)
    iterated = _after_step(solver, state, step, last, new, residuals.noisy)
    sweeps = jnp.where(is_converged(iterated.code), refinement_sweeps, 0)
    has_ended = (iterated.code != RESULTS.running.code) & (sweeps == 0)
    damping = jnp.where(sweeps > 0, 0.0, iterated.damping)
    iterated = replace(iterated, sweeps=sweeps, has_ended=has_ended, damping=damping)
    state = _select_tree(state.sweeps > 0, refined, iterated)
    return replace(state, last_rms=residuals.rms[2])


def _evaluate_step(state: IterationState, step: DampedStep, residuals: Residuals) -> EvaluatedStep:
    """Evaluate the objective at both iterates."""
    weights = 1.0 / step.row_variance
    misfits = jnp.sum(residuals.rows**2 * weights, axis=1)
    old, new = state.current.iterate, step.iterate
    objectives = 0.5 * (jnp.stack([old.norm_squared, new.norm_squared]) + misfits[::2])
    predicted = (step.damping + 0.5) * step.distance_squared
    predicted += 0.5 * jnp.sum(step.row_change**2 * weights)
    multipliers = (residuals.rows[0] + step.row_change) * weights
    rounding = _EPSILON * (objectives[1] + jnp.sum(step.diagonal * multipliers**2))
    finite = step.finite & jnp.isfinite(objectives[1])
    return EvaluatedStep(
        damping=state.damping,
        previous_objective=objectives[0],
        objective=objectives[1],
        predicted_decrease=predicted,
        rounding=rounding,
        change=max_relative_change(old.jet_values, new.jet_values),
        misfit_fraction=jnp.sqrt(misfits[2] / jnp.maximum(misfits[1], TINY)),
        nugget=step.nugget,
        condition_number=step.condition_number,
        finite=finite,
        accepted=finite,
    )


def _after_refinement(
    solver: AbstractNonlinearSolver,
    state: IterationState,
    last: EvaluatedStep,
    new: EvaluatedIterate,
) -> IterationState:
    accept = solver.postprocess(state, last)
    return replace(
        state,
        current=_select_tree(accept, new, state.current),
        fixed_point=state.current.iterate.jet_values,
        last=replace(last, accepted=accept),
        condition_number=jnp.where(last.finite, last.condition_number, state.condition_number),
        steps=state.steps + 1,
        refined=accept,
        has_ended=jnp.ones_like(accept),
    )


def _after_step(
    solver: AbstractNonlinearSolver,
    state: IterationState,
    step: DampedStep,
    last: EvaluatedStep,
    new: EvaluatedIterate,
    noisy: Bool[Array, ""],
) -> IterationState:
    state = _with_best(state, step, last, new)
    update = solver.update(state, last)
    code = select_result(
        solver.terminate(state, last, noisy),
        (step.result == RESULTS.linear_solver_failed.code, RESULTS.linear_solver_failed),
        (step.result == RESULTS.not_positive_definite.code, RESULTS.not_positive_definite),
    )
    has_converged = is_converged(code) | is_any(code, RESULTS.residual_too_large)
    failed = (code != RESULTS.running.code) & ~has_converged
    accept = update.accept | has_converged
    current = _select_tree(accept, new, state.current)
    current = _select_tree(update.restore & ~has_converged | failed, state.best, current)
    # The row weights are frozen again where D has moved, or its nugget was raised far from here.
    ratios = step.diagonal / step.row_scale
    has_moved = jnp.maximum(jnp.max(ratios), 1.0 / jnp.min(ratios)) > _MAX_SCALE_RATIO
    refreezes = has_converged & (has_moved | state.nugget_was_raised)
    refreezes &= (state.num_freezes <= _MAX_REFREEZES) & (state.steps < state.max_steps)
    growth_limit = jnp.where(state.num_freezes < _MAX_REFREEZES, _MAX_SCALE_RATIO, jnp.inf)
    return replace(
        state,
        current=current,
        last=replace(last, accepted=accept),
        damping=update.damping,
        growth=update.growth,
        max_scale_ratio=jnp.where(refreezes, 0.0, growth_limit),
        code=jnp.where(refreezes, RESULTS.running.code, code),
    )


def _with_best(
    state: IterationState, step: DampedStep, last: EvaluatedStep, new: EvaluatedIterate
) -> IterationState:
    """Compare a step with the best iterate, by the objective of this step."""
    is_raised = ~step.refrozen & (last.nugget > state.nugget)
    is_new_objective = step.refrozen | is_raised
    is_unknown = jnp.isnan(state.best_objective) | (is_new_objective & (state.steps > 0))
    best_objective = jnp.where(is_unknown, last.previous_objective, state.best_objective)
    improved = last.finite & ~(last.objective >= best_objective - last.rounding)
    best = _select_tree(is_unknown, state.current, state.best)
    is_undamped = last.finite & (last.damping == 0)
    return replace(
        state,
        best=_select_tree(improved, new, best),
        best_objective=jnp.where(improved, last.objective, best_objective),
        fixed_point=state.current.iterate.jet_values,
        row_scale=step.row_scale,
        nugget=last.nugget,
        nugget_was_raised=~step.refrozen & (state.nugget_was_raised | is_raised),
        num_freezes=state.num_freezes + step.refrozen,
        condition_number=jnp.where(is_undamped, last.condition_number, state.condition_number),
        objective_index=state.objective_index + is_new_objective,
        steps=state.steps + 1,
        steps_since_best=jnp.where(improved, 0, state.steps_since_best + 1),
    )


def _select_tree(condition: Bool[Array, ""], if_true: _T, if_false: _T) -> _T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)
