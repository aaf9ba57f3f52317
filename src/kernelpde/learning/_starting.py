"""Comparison of starting hyperparameters."""

from dataclasses import replace

import numpy as np

from kernelpde.arrays import to_array
from kernelpde.functionals import Prior
from kernelpde.learning._evaluation import loss_and_state
from kernelpde.learning._outer import GaussianPrior
from kernelpde.learning._starts import (
    MIDDLE_INDEX,
    lengthscale_candidates,
    lengthscale_mask,
    variance_candidates,
)
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._stationary_start import extents_differ
from kernelpde.learning._step import (
    EvaluationLog,
    build_outer_problem,
    draw_batch,
    evaluate_candidates,
    update_linearization,
)
from kernelpde.learning._task import LearningTask
from kernelpde.linear_solvers import Automatic

_INNER_STEPS, _CONVERGED_CHANGE = 12, 0.05
"""Maximum number of inner steps per candidate, and the relative change at which they stop."""

_SUBSAMPLE_ABOVE, _SUBSAMPLE_ROWS = 6000, 2500
"""Number of rows above which starts are compared on a subsample, and its approximate size."""


def compare_starts(
    task: LearningTask,
    state: LearningState,
    max_rows: int = _SUBSAMPLE_ABOVE,
    subsample_rows: int = _SUBSAMPLE_ROWS,
) -> LearningState:
    """Start from the candidate lengthscales with the lowest outer loss at u = 0.

    With data, the lengthscales start at their prior median, because data are uninformative about
    a coefficient before the state is solved for. If noise is learned too, several variances of the
    unknown fields are compared, so that noise does not explain what a larger field would.
    """
    if isinstance(task.regularizer, GaussianPrior):
        center = np.asarray(task.regularizer.center)
        state = replace(
            state, theta=np.where(lengthscale_mask(task.theta_map), center, state.theta)
        )
    if task.data is not None:
        candidates = variance_candidates(
            task.theta_map, state.theta, task.options.pinned_variance_fields
        )
        if not candidates:
            return state
        return _best_after_inner_steps(task, state, candidates, task.prior(state.theta))
    candidates = lengthscale_candidates(task.theta_map, task.extents)
    if not candidates:
        return state
    num_rows = sum(condition.num_rows for condition in task.conditions)
    subtask, substate = task, state
    if num_rows > max_rows:
        subtask = subsample(task, subsample_rows / num_rows)
        substate = init(subtask)
    middle = task.prior(candidates[MIDDLE_INDEX])
    outer, substate = build_outer_problem(subtask, substate, middle)
    log = EvaluationLog.of(subtask, substate)
    theta, value = evaluate_candidates(log, outer.loss, [state.theta, *candidates])
    state = log.apply_to(substate if subtask is task else state)
    return replace(state, theta=theta) if np.isfinite(value) else state


def subsample(task: LearningTask, share: float) -> LearningTask:
    """Return the task with a share of its points and an appropriate linear solver."""
    options = task.options
    rng = np.random.default_rng([options.seed, 13])

    def reduced(count: int) -> int:
        return max(1, round(share * count))

    point_sets, held_out_rows = [], []
    for points, held_out in zip(task.points.all_points, task.points.held_out, strict=True):
        if held_out is None:
            point_sets.append(draw_batch(points, reduced(points.rows_per_equation), rng)[0])
            held_out_rows.append(None)
            continue
        train = np.setdiff1d(np.arange(points.rows_per_equation), held_out)
        train, held_out = (
            rng.choice(rows, size=reduced(len(rows)), replace=False) for rows in (train, held_out)
        )
        point_sets.append(points.select_rows(np.concatenate([train, held_out])))
        held_out_rows.append(np.arange(len(train), len(train) + len(held_out)))
    solver = options.linear_solver
    reduced_options = replace(
        options,
        validation=options.validation.subsampled(share),
        regularizer=task.regularizer,
        linear_solver=Automatic(float(solver.nugget), solver.max_nugget, refinement_sweeps=0),
    )
    return LearningTask.of(
        task.problem,
        tuple(point_sets),
        reduced_options,
        task.optimizer,
        held_out=tuple(held_out_rows),
    )


def compare_after_inner_steps(task: LearningTask, state: LearningState) -> LearningState:
    """Start from the best candidate lengthscales after several inner steps, and its iterate.

    For rough solutions the linearization at u = 0 is uninformative, hence the inner steps.
    """
    # One family: equal fractions if coordinates have different units, otherwise initial ratios.
    families, count = lengthscale_candidates(task.theta_map, task.extents), 2 * MIDDLE_INDEX
    candidates = families[:count] if extents_differ(task.extents) else families[-count:]
    return _best_after_inner_steps(task, state, candidates, task.prior(candidates[MIDDLE_INDEX]))


def _best_after_inner_steps(
    task: LearningTask, state: LearningState, candidates: list[np.ndarray], middle: Prior
) -> LearningState:
    """Return the state of the candidate with the lowest loss after several inner steps."""
    start, log = state, EvaluationLog.of(task, state)
    best, lowest = state, np.inf
    for theta in candidates:
        # The random state is not reset, so that each candidate draws new batches.
        state = replace(
            state,
            theta=theta,
            train_linearization=start.train_linearization,
            validation_linearization=start.validation_linearization,
        )
        prior, value = task.prior(theta), np.inf
        for _ in range(_INNER_STEPS):
            outer, state = build_outer_problem(task, state, middle)
            loss_value, solution = loss_and_state(to_array(theta), outer.loss)
            log.factorizations += 1
            value = float(loss_value) if bool(solution.succeeded) else np.inf
            if not np.isfinite(value):
                break
            state, inner_step = update_linearization(
                task, state, outer, prior, solution, np.ones(1)
            )
            if float(inner_step.change) < _CONVERGED_CHANGE:
                break
        log.record(value, theta, state.nugget, None)
        if value < lowest:
            best, lowest = state, value
    best = replace(best, rng_state=state.rng_state, logged_solver=state.logged_solver)
    return log.apply_to(best)
