"""One step: linearize, reduce the outer objective, update the state."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelpde.arrays import to_array
from kernelpde.bilevel._optimizers import Evaluation
from kernelpde.bilevel._protocol import (
    AbstractInnerProblem,
    Derivatives,
    InnerStep,
    Objective,
    damped_direction,
    loss_and_curvature,
    loss_and_gradient,
    loss_and_solution,
)
from kernelpde.bilevel._state import Candidate, Record, Starts, State, StopOptimization, Task
from kernelpde.errors import RankError
from kernelpde.results import RESULTS

_MAX_DISTANCE = 20.0
"""Distance of a log hyperparameter from its reference above which the loss counts as infinite."""

_MAX_STEP = 1.0
"""Radius of the trust region: maximum change of an entry of θ in one step of an optimizer."""

_CONVERGED_START = 0.05
"""Relative change of the state below which updates of a compared start end."""

_RESTART_FACTOR = 0.9
"""Ratio of losses below which the local search restarts from another θ."""


@dataclass
class EvaluationLog:
    """Evaluations and factorizations made during one step.

    **Attributes:**

    - `task`: task of the run.
    - `state`: state before the step.
    - `factorizations`: total number of factorizations.
    - `evaluations`: records of all evaluations.
    """

    task: Task
    state: State
    factorizations: int
    evaluations: list[Record]

    @staticmethod
    def of(task: Task, state: State) -> "EvaluationLog":
        return EvaluationLog(task, state, state.factorizations, list(state.evaluations))

    def apply_to(self, state: State) -> State:
        """Return the state with these evaluations and factorizations."""
        return replace(
            state, factorizations=self.factorizations, evaluations=tuple(self.evaluations)
        )

    def record(
        self, loss: float, theta: np.ndarray, metrics: dict[str, Any], step: InnerStep | None = None
    ) -> Record:
        """Record an evaluation, or a step of θ and u, and call the callback."""
        record = Record(
            self.state.num_steps + (step is not None),
            self.factorizations,
            loss,
            theta,
            None if step is None else step.length,
            None if step is None else step.change,
            self.state.seconds,
            metrics if step is None else metrics | step.metrics,
        )
        if step is None:
            self.evaluations.append(record)
        if self.task.callback is not None and self.task.callback(record) is True:
            raise StopOptimization
        return record


def linearize(
    task: Task, theta: np.ndarray, state: State, inner: AbstractInnerProblem | None = None
) -> tuple[Objective, State]:
    """Return the outer objective linearized about uᵏ, and the state with its factorizations."""
    inner = task.inner if inner is None else inner
    regularizer = None if task.regularizer is None else task.regularizer.at_loss(state.loss)
    objective = Objective(task.criterion, inner.linearize(theta, state.inner), regularizer)
    factorizations = state.factorizations + inner.factorizations_per_linearization
    return objective, replace(state, factorizations=factorizations)


def make_evaluate(log: EvaluationLog, objective: Objective) -> Callable[[np.ndarray], Evaluation]:
    """Return the objective as a function of θ that records its evaluations.

    One program computes the loss with its derivatives where these cost little more. Otherwise
    derivatives wait until an optimizer starts a step at this θ.
    """
    task, inner = log.task, log.task.inner
    curvature = task.optimizer.curvature
    program, is_deferred = loss_and_curvature, False
    if objective.criterion.has_residual and not objective.linearized.prefers_forward:
        program = loss_and_curvature if curvature == "matrix" else loss_and_gradient
        is_deferred = curvature != "none"
    center = task.theta if task.center is None else task.center

    def direction_at(theta: np.ndarray) -> Callable[[float, int], np.ndarray]:
        def direction(damping: float, iterations: int) -> np.ndarray:
            log.factorizations += 1
            return np.asarray(
                damped_direction(to_array(theta), objective, to_array(damping), iterations)[1]
            )

        return direction

    def evaluate(theta: np.ndarray) -> Evaluation:
        if not np.isfinite(theta).all() or np.max(np.abs(theta - center)) > _MAX_DISTANCE:
            return Evaluation(theta, np.inf, np.zeros_like(theta), None, None)
        evaluation = run(theta, is_deferred or curvature == "products")
        log.record(evaluation.loss, theta, inner.metrics(evaluation.inner_solution))
        if not is_deferred or curvature == "products":
            return evaluation
        return replace(evaluation, derivatives=lambda: run(theta, False))

    def run(theta: np.ndarray, only_loss: bool) -> Evaluation:
        if only_loss:
            loss, solution = loss_and_solution(to_array(theta), objective)
            derivatives = Derivatives(loss, to_array(np.zeros(0)), None, solution)
        else:
            derivatives = program(to_array(theta), objective)
        log.factorizations += 1
        value, gradient, matrix, solution = derivatives
        return Evaluation(
            theta,
            float(value) if bool(objective.linearized.is_usable(solution)) else np.inf,
            np.asarray(gradient),
            None if matrix is None else np.asarray(matrix),
            solution,
            direction_at(theta) if curvature == "products" else None,
        )

    return evaluate


def compare(task: Task, starts: Starts, state: State) -> State:
    """Make one round of successive halving."""
    if starts.num_updates == 0:
        return _compare_at_start(task, starts, state)
    candidates, is_converged = [], True
    for candidate in state.candidates:
        inner, loss, change = candidate.inner, np.inf, 0.0
        for _ in range(starts.num_updates):
            objective, state = linearize(task, starts.reference, replace(state, inner=inner))
            log = EvaluationLog.of(task, state)
            best = make_evaluate(log, objective)(candidate.theta)
            state, loss = log.apply_to(state), best.loss if best.finite else np.inf
            if not np.isfinite(loss):
                break
            inner, _, change, _ = task.inner.update(
                candidate.theta, objective.linearized, best.inner_solution, inner, np.ones(1)
            )
            if change < _CONVERGED_START:
                break
        is_converged &= change < _CONVERGED_START
        candidates.append(Candidate(candidate.theta, inner, loss))
    candidates = sorted(candidates, key=lambda candidate: candidate.loss)
    remaining = tuple(candidates[: 1 if is_converged else (len(candidates) + 1) // 2])
    best = remaining[0]
    return replace(state, theta=best.theta, inner=best.inner, loss=best.loss, candidates=remaining)


def _compare_at_start(task: Task, starts: Starts, state: State) -> State:
    """Choose the start with the lowest objective at the first linearization."""
    trial = state if starts.inner is None else replace(state, inner=starts.inner.init())
    objective, trial = linearize(task, starts.reference, trial, starts.inner)
    log = EvaluationLog.of(task, trial)
    theta, value = _choose_best(log, objective, starts.thetas)
    state = log.apply_to(replace(state, candidates=()))
    return replace(state, theta=theta, loss=value) if np.isfinite(value) else state


def _choose_best(
    log: EvaluationLog, objective: Objective, thetas: tuple[np.ndarray, ...] | list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Return the candidate with the lowest objective, and its value."""
    evaluate = make_evaluate(log, objective)
    losses = [evaluate(theta).loss for theta in thetas]
    values = np.where(np.isfinite(losses), losses, np.inf)
    best = int(np.argmin(values))
    return thetas[best], float(values[best])


def step(task: Task, state: State) -> State:
    """Compare a start, or linearize, reduce the outer objective and update the state."""
    if task.starts is not None and len(state.candidates) > 1:
        return compare(task, task.starts, state)
    try:
        objective, state = linearize(task, state.theta, state)
    except RankError:
        if state.feasible_theta is None:
            raise
        theta = _backtrack_to_feasible(task, state, state.feasible_theta)
        return replace(state, theta=theta, result=RESULTS.max_rank_reached)
    log, old_theta = EvaluationLog.of(task, state), state.theta
    is_frozen = task.tolerance > 0.0 and state.control.freeze_hyperparameters()
    evaluate, optimizer_state = make_evaluate(log, objective), state.optimizer_state
    if is_frozen:
        best = evaluate(old_theta)
    else:
        best, optimizer_state = task.optimizer.minimize(
            evaluate, old_theta, optimizer_state, _MAX_STEP
        )
    state = log.apply_to(replace(state, feasible_theta=old_theta, optimizer_state=optimizer_state))
    if not best.finite:
        inner = task.inner.stabilize(state.inner)
        if inner is None:
            return replace(state, result=RESULTS.loss_not_finite)
        return replace(state, inner=inner)
    if not task.criterion.has_residual and best.curvature is not None:
        state = replace(state, covariance=np.linalg.pinv(best.curvature, hermitian=True))
    return _update(task, state, objective, best, is_frozen)


def _update(
    task: Task, state: State, objective: Objective, best: Evaluation, is_frozen: bool
) -> State:
    """Update the state of the inner problem at the best θ, and test convergence."""
    log, old_theta = EvaluationLog.of(task, state), state.theta
    control = state.control.before_step()
    inner_step = task.inner.update(
        best.theta,
        objective.linearized,
        best.inner_solution,
        state.inner,
        control.lengths(task.step_lengths),
    )
    control = control.after_step(None if is_frozen else best.theta, inner_step.change)
    metrics = task.inner.metrics(best.inner_solution)
    record = log.record(best.loss, best.theta, metrics, inner_step)
    state = replace(
        state,
        theta=best.theta,
        inner=inner_step.state,
        loss=best.loss,
        control=control,
        history=(*state.history, record),
    )
    if task.tolerance == 0.0 or (inner_step.length < 1.0 and not control.halve_steps):
        return state
    max_move = float(np.max(np.abs(best.theta - old_theta)))
    is_small = max_move < task.tolerance and inner_step.change < 10 * task.tolerance
    if is_small and control.has_converged():
        return _finish_or_restart(task, state, objective, best)
    if (mean_theta := control.mean_if_fluctuating()) is not None:
        return replace(state, theta=mean_theta, result=RESULTS.fluctuating)
    return state


def _backtrack_to_feasible(task: Task, state: State, feasible_theta: np.ndarray) -> np.ndarray:
    """Return the θ closest to the current one that can be linearized, by bisection."""
    for fraction in (0.5, 0.25, 0.125):
        theta = feasible_theta + fraction * (state.theta - feasible_theta)
        with suppress(RankError):
            task.inner.linearize(theta, state.inner)
            return theta
    return feasible_theta


def _finish_or_restart(task: Task, state: State, objective: Objective, best: Evaluation) -> State:
    """Report convergence unless a local search reduces the objective further.

    With few validation points the objective has several minima.
    """
    candidates = []
    if task.neighbors is not None and state.local_searches > 0:
        state = replace(state, local_searches=state.local_searches - 1)
        candidates = task.neighbors(state.theta)
    if not candidates:
        return replace(state, result=RESULTS.converged)
    log = EvaluationLog.of(task, state)
    theta, value = _choose_best(log, objective, candidates)
    state = log.apply_to(state)
    if value > _RESTART_FACTOR * best.loss:
        return replace(state, result=RESULTS.converged)
    return replace(state, theta=theta, optimizer_state=None)
