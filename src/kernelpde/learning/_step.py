"""Learning step: linearize, reduce the outer loss, update the linearization point."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelpde.arrays import to_array
from kernelpde.errors import RankError
from kernelpde.functionals import Prior
from kernelpde.learning._evaluation import (
    InnerSolution,
    Loss,
    batched_losses,
    damped_direction,
    evaluator,
    loss_without_derivatives,
    prediction_std,
)
from kernelpde.learning._inner import LinearizationPoint
from kernelpde.learning._inner_step import (
    InnerStep,
    full_inner_step,
    line_search,
    linearization_point_at,
)
from kernelpde.learning._optimizers import Evaluation
from kernelpde.learning._outer import AbstractRegularizer, GaussianPrior
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._starts import local_candidates
from kernelpde.learning._state import LearningState
from kernelpde.learning._task import LearningTask
from kernelpde.problem import Conditions, PointSet, linearize

_MAX_THETA_DISTANCE = 20.0
"""Distance of a log hyperparameter from its reference above which the loss counts as infinite."""

_FEW_ROWS = 500
"""Number of rows up to which unneeded derivatives cost less than compiling a second program."""

_BATCH = 8
"""Number of hyperparameter vectors evaluated by one call of a compiled program."""

_RESTART_FACTOR = 0.9
"""Ratio of losses below which the local search restarts from another θ."""


class OuterProblem(NamedTuple):
    """The outer loss of one linearization, with the conditions at its validation points and their
    linearization point (`None` without validation points)."""

    loss: Loss
    validation_conditions: Conditions | None
    validation_linearization: LinearizationPoint | None


@dataclass
class EvaluationLog:
    """Evaluations and factorizations made during one learning step.

    **Attributes:**

    - `task`: task of the run.
    - `state`: state before the step.
    - `factorizations`: total number of factorizations.
    - `evaluations`: records of all evaluations.
    """

    task: LearningTask
    state: LearningState
    factorizations: int
    evaluations: list[LearningRecord]

    @staticmethod
    def of(task: LearningTask, state: LearningState) -> "EvaluationLog":
        return EvaluationLog(task, state, state.factorizations, list(state.evaluations))

    def apply_to(self, state: LearningState) -> LearningState:
        """Return the state with these evaluations and factorizations."""
        return replace(
            state, factorizations=self.factorizations, evaluations=tuple(self.evaluations)
        )

    def record(
        self, loss: float, theta: np.ndarray, nugget: float, inner_step: InnerStep | None
    ) -> LearningRecord:
        """Record an evaluation, or with `inner_step` a full step, and call the callback."""
        task, residuals, length, change = self.task, {}, None, None
        if inner_step is not None:
            names = (condition.name for condition in task.problem.conditions)
            residuals = dict(zip(names, np.asarray(inner_step.residuals).tolist(), strict=True))
            length, change = float(inner_step.length), float(inner_step.change)
        record = LearningRecord(
            len(self.state.history) + (inner_step is not None),
            self.factorizations,
            loss,
            theta,
            task.hyperparameters_at(theta),
            task.stationary,
            residuals,
            length,
            change,
            nugget,
            self.state.seconds,
        )
        if inner_step is None:
            self.evaluations.append(record)
        if task.options.callback is not None:
            task.options.callback(record)
        return record


def build_outer_problem(
    task: LearningTask, state: LearningState, prior: Prior
) -> tuple[OuterProblem, LearningState]:
    """Build the outer loss linearized at a state, and return it with the state after drawing.

    **Arguments:**

    - `kernels`: kernels for the row weights and the choice of the linear solver.
    """
    training = linearize(task.conditions, state.train_linearization.jets)
    conditions, view, rng_state = _draw_batches(task, state)
    if conditions is None or view is None:
        validation = None
        weights = task.row_weights(prior, training, task.conditions, True)
    else:
        validation = linearize(conditions, view.jets)
        weights = task.row_weights(prior, validation, conditions, False)
    choice = task.choose_solver(prior, state.nugget)
    if type(choice.solver_state) is not state.logged_solver:
        choice.log_message()
    if validation is not None and task.validation.standardized:
        stds = np.asarray(prediction_std(prior, training, choice.solver_state, validation))
        weights = weights * _std_weights(stds, [len(batch) for batch in validation.batches])
        state = replace(state, factorizations=state.factorizations + 1)
    loss = Loss(
        task.theta_map,
        training,
        validation,
        to_array(weights),
        choice.solver_state,
        _regularizer(task, state, len(weights)),
        task.validation.folds(len(training.rhs), task.options.seed, len(state.history)),
        task.validation.criterion,
        task.data,
        task.validation.predictor,
        () if conditions is None else choice.solver_state.neighbors(conditions),
    )
    return OuterProblem(loss, conditions, view), replace(
        state, rng_state=rng_state, logged_solver=type(choice.solver_state)
    )


def _std_weights(stds: np.ndarray, counts: list[int]) -> np.ndarray:
    """Return min(1, median / std) for every row, with the median over its equation.

    Smaller standard deviations do not increase the weight, because far from suitable kernels they
    are dominated by rounding errors.
    """
    equations = np.split(stds, np.cumsum(counts)[:-1])
    medians = np.concatenate([np.full(len(rows), np.median(rows)) for rows in equations])
    return medians / np.maximum(medians, stds)


def _draw_batches(task: LearningTask, state: LearningState):
    """Return the conditions at the validation points of this step, their linearization point and
    the RNG state."""
    points, view = state.validation_points, state.validation_linearization
    if points is None or view is None:
        return None, None, state.rng_state
    conditions = task.conditions_at(points)
    if task.validation.batch_size is None:
        return conditions, view, state.rng_state
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng_state
    # Conditions with zero weight keep one point, so that array shapes do not depend on the weights.
    batches = [
        draw_batch(point_set, task.validation.batch_size if weight > 0 else 1, rng)
        for point_set, weight in zip(points, task.weights, strict=True)
    ]
    indices = [selected for _, selected in batches]
    batch_view = LinearizationPoint(
        tuple(jets[selected] for jets, selected in zip(view.jets, indices, strict=True)),
        view.linear[_row_indices(conditions, indices)],
    )
    batch_conditions = task.conditions_at(tuple(batch for batch, _ in batches))
    return batch_conditions, batch_view, rng.bit_generator.state


def draw_batch(
    point_set: PointSet, size: int, rng: np.random.Generator
) -> tuple[PointSet, np.ndarray]:
    """Draw points of a point set and return them with their indices; averages are kept whole."""
    count = point_set.rows_per_equation
    if point_set.quadrature is not None:
        return point_set, np.arange(count)
    indices = np.sort(rng.choice(count, size=min(size, count), replace=False))
    return point_set.select_rows(indices), indices


def _row_indices(conditions: Conditions, indices: list[np.ndarray]) -> np.ndarray:
    """Return the row indices that belong to the point indices of all conditions."""
    rows, start = [], 0
    for condition, selected in zip(conditions, indices, strict=True):
        for _ in range(condition.num_equations):
            rows.append(start + selected)
            start += condition.point_set.rows_per_equation
    return np.concatenate(rows)


def _regularizer(
    task: LearningTask, state: LearningState, num_rows: int
) -> AbstractRegularizer | None:
    """Return the regularizer, by default a weak prior on the variation of lengthscales.

    A prior θ ~ N(m, s²) against N residuals of unknown variance adds ½ (J / N) Σ ((θ - m) / s)² to
    the loss, with J the previous loss.
    """
    if task.regularizer is not None or task.varying_prior is None:
        return task.regularizer
    mean, std = task.varying_prior
    scale = np.sqrt(num_rows / (2.0 * max(state.history[-1].loss, 1e-300)))
    return GaussianPrior(to_array(mean), to_array(std * scale))


def make_evaluate(
    log: EvaluationLog, loss: Loss, derivatives: bool = True
) -> Callable[[np.ndarray], Evaluation]:
    """Return the outer loss as a function of θ that records its evaluations."""
    curvature = log.task.optimizer.curvature
    compiled = evaluator(loss, curvature) if derivatives else loss_without_derivatives
    defer_derivatives = (
        derivatives and curvature == "matrix" and loss.data is None and not loss.has_few_parameters
    )

    def direction_at(theta: np.ndarray) -> Callable[[float, int], np.ndarray]:
        def direction(damping: float, iterations: int) -> np.ndarray:
            log.factorizations += 1
            return np.asarray(
                damped_direction(to_array(theta), loss, to_array(damping), iterations)[1]
            )

        return direction

    def evaluate(theta: np.ndarray) -> Evaluation:
        distances = np.abs(theta - log.task.theta_scale_reference)
        if not np.isfinite(theta).all() or np.max(distances) > _MAX_THETA_DISTANCE:
            return Evaluation(theta, np.inf, np.zeros_like(theta), None, None)
        evaluation = run_program(loss_without_derivatives if defer_derivatives else compiled, theta)
        log.record(evaluation.loss, theta, float(evaluation.inner_solution.nugget), None)
        if not defer_derivatives:
            return evaluation
        return replace(evaluation, derivatives=lambda: run_program(compiled, theta))

    def run_program(program: Callable, theta: np.ndarray) -> Evaluation:
        value, gradient, curvature_matrix, solution = program(to_array(theta), loss)
        log.factorizations += 1
        return Evaluation(
            theta,
            float(value) if bool(solution.succeeded) else np.inf,
            np.asarray(gradient),
            None if curvature_matrix is None else np.asarray(curvature_matrix),
            solution,
            direction_at(theta) if curvature == "products" else None,
        )

    return evaluate


def evaluate_candidates(
    log: EvaluationLog, loss: Loss, candidates: list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Return the candidate with the lowest loss, and this loss."""
    values: list[float] = []
    if loss.solver_state.forms_matrix and len(loss.training_system.rhs) <= _FEW_ROWS:
        evaluate = make_evaluate(log, loss)
        losses = [evaluate(theta).loss for theta in candidates]
        values = [value if np.isfinite(value) else np.inf for value in losses]
    for start in range(len(values), len(candidates), _BATCH):
        thetas = np.stack(candidates[start : start + _BATCH])
        padding = np.repeat(thetas[-1:], _BATCH - len(thetas), axis=0)
        outputs = batched_losses(to_array(np.concatenate([thetas, padding])), loss)
        for theta, value, nugget, usable in zip(thetas, *map(np.asarray, outputs), strict=False):
            values.append(float(value) if usable and np.isfinite(value) else np.inf)
            log.factorizations += 1
            log.record(values[-1], theta, float(nugget), None)
    best = int(np.argmin(values))
    return candidates[best], values[best]


def update_linearization(
    task: LearningTask,
    state: LearningState,
    outer: OuterProblem,
    prior: Prior,
    solution: InnerSolution,
    lengths: np.ndarray,
) -> tuple[LearningState, InnerStep]:
    """Move the linearization point to the inner solution, or a fraction of the way."""
    loss = outer.loss
    systems = loss.training_system, loss.validation_system
    train_weights = to_array(
        task.row_weights(
            prior, loss.training_system, task.conditions, loss.validation_system is None
        )
    )
    inner_step = line_search(
        (task.conditions, outer.validation_conditions),
        (state.train_linearization, outer.validation_linearization),
        full_inner_step(systems, prior, solution, loss.neighbor_groups),
        (train_weights, None if loss.validation_system is None else loss.row_weights),
        to_array(lengths),
    )
    view = state.validation_linearization
    if state.validation_points is not None:
        view = (
            inner_step.validation
            if task.validation.batch_size is None
            else _linearize_at_validation_points(
                task, state.validation_points, prior, loss, solution
            )
        )
    state = replace(state, train_linearization=inner_step.train, validation_linearization=view)
    return state, inner_step


def _linearize_at_validation_points(
    task: LearningTask,
    points: tuple[PointSet, ...],
    prior: Prior,
    loss: Loss,
    solution: InnerSolution,
) -> LinearizationPoint:
    """Return the linearization point of the inner solution at all validation points."""
    conditions = task.conditions_at(points)
    groups = loss.solver_state.neighbors(conditions)
    return linearization_point_at(prior, solution, conditions, groups)


def step(task: LearningTask, state: LearningState, tolerance: float) -> LearningState:
    """Linearize, reduce the outer loss, and update the linearization point.

    **Arguments:**

    - `tolerance`: convergence tolerance on the change of the log hyperparameters; 0 disables the
      convergence test.
    """
    try:
        outer, state = build_outer_problem(task, state, task.prior(state.theta))
    except RankError:
        if state.last_feasible_theta is None:
            raise
        theta = _backtrack_to_feasible(task, state, state.last_feasible_theta)
        return replace(state, theta=theta, result=RESULTS.max_rank_reached)
    log, loss, old_theta = EvaluationLog.of(task, state), outer.loss, state.theta
    frozen = tolerance > 0.0 and state.step_control.freeze_hyperparameters()
    # For few rows, unneeded derivatives cost less than compiling a second program.
    evaluate = make_evaluate(log, loss, loss.solver_state.forms_matrix or not frozen)
    optimizer_state = state.optimizer_state
    if frozen:
        best = evaluate(old_theta)
    else:
        best, optimizer_state = task.optimizer.minimize(evaluate, old_theta, optimizer_state, 1.0)
    state = replace(
        log.apply_to(state), last_feasible_theta=old_theta, optimizer_state=optimizer_state
    )
    if not best.finite:
        nugget = 10.0 * state.nugget
        too_large = nugget > task.options.linear_solver.max_nugget
        return replace(state, nugget=nugget, result=RESULTS.not_finite if too_large else None)
    state, solution = replace(state, theta=best.theta), best.inner_solution
    prior = task.prior(best.theta)
    if task.data is not None and best.curvature is not None:
        state = replace(state, covariance=np.linalg.pinv(best.curvature, hermitian=True))
    step_control = state.step_control.before_step()
    lengths = step_control.lengths(task.options.solver.step_lengths)
    state, inner_step = update_linearization(task, state, outer, prior, solution, lengths)
    length, change = float(inner_step.length), float(inner_step.change)
    step_control = step_control.after_step(None if frozen else best.theta, change)
    record = log.record(best.loss, best.theta, float(solution.nugget), inner_step)
    state = replace(state, step_control=step_control, history=(*state.history, record))
    state = redraw_validation_points(task, state)
    if task.validation.is_resampled and state.validation_points is not None:
        view = _linearize_at_validation_points(task, state.validation_points, prior, loss, solution)
        state = replace(state, validation_linearization=view)
    if tolerance == 0.0 or (length < 1.0 and not step_control.halve_steps):
        return state
    max_move = float(np.max(np.abs(best.theta - old_theta)))
    if max_move < tolerance and change < 10 * tolerance and step_control.has_converged():
        return _finish_or_restart(task, state, loss, best)
    if (mean_theta := step_control.mean_if_fluctuating()) is not None:
        return replace(state, theta=mean_theta, result=RESULTS.fluctuating)
    return state


def redraw_validation_points(task: LearningTask, state: LearningState) -> LearningState:
    """Draw the validation points of the next step if they are resampled in each step."""
    if not task.validation.is_resampled or not state.history:
        return state
    points = task.validation.draw_points(task.problem, task.points, len(state.history))
    return replace(state, validation_points=points)


def _backtrack_to_feasible(
    task: LearningTask, state: LearningState, feasible_theta: np.ndarray
) -> np.ndarray:
    """Return the θ closest to the current one that the linear solver accepts, by bisection."""
    for fraction in (0.5, 0.25, 0.125):
        theta = feasible_theta + fraction * (state.theta - feasible_theta)
        with suppress(RankError):
            task.choose_solver(task.prior(theta), state.nugget)
            return theta
    return feasible_theta


def _finish_or_restart(
    task: LearningTask, state: LearningState, loss: Loss, best: Evaluation
) -> LearningState:
    """Report convergence unless a local search finds better lengthscales.

    With few validation points the loss has several minima, and starts were compared at u = 0.
    """
    converged = replace(state, result=RESULTS.converged)
    if not task.options.multistart or task.data is not None or state.local_searches == 0:
        return converged
    state = replace(state, local_searches=state.local_searches - 1)
    converged = replace(converged, local_searches=state.local_searches)
    candidates = local_candidates(task.theta_map, state.theta)
    if not candidates:
        return converged
    log = EvaluationLog.of(task, state)
    theta, value = evaluate_candidates(log, loss, candidates)
    if value > _RESTART_FACTOR * best.loss:
        return log.apply_to(converged)
    return replace(log.apply_to(state), theta=theta, optimizer_state=None)
