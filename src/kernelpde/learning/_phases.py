"""Phases of learning: constant lengthscales, all hyperparameters, and repetitions with data.

All optimizations belong to one `bilevel.Run`, whose checkpoint stores the last state of each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelpde.bilevel import (
    GaussianPrior,
    LevenbergMarquardt,
    Record,
    Run,
    State,
    Task,
    default_optimizer,
)
from kernelpde.errors import SolveError
from kernelpde.learning._collocation import Collocation, split_points
from kernelpde.learning._finishing import merge_points, shorten_until_resolved
from kernelpde.learning._learned import LearningResult
from kernelpde.learning._method import Bilevel
from kernelpde.learning._record import LearningHistory, LearningRecord
from kernelpde.learning._starts import (
    lengthscale_mask,
    local_candidates,
    starts_after_updates,
    starts_at_zero,
    theta_reference,
    varying_prior,
    weak_prior,
)
from kernelpde.learning._state_fields import (
    state_fields,
    with_large_state_variance,
    with_shorter_state_lengthscales,
)
from kernelpde.learning._stationary_start import stationary_prior, with_varying_lengthscales
from kernelpde.learning.validation import AbstractValidation
from kernelpde.linear_solvers import Automatic, LinearSolver
from kernelpde.nonlinear import GaussNewton
from kernelpde.problem import PointSet, Problem, StudentT
from kernelpde.results import RESULTS
from kernelpde.solution import Solution, Start, solve

_UNUSABLE = (RESULTS.not_positive_definite, RESULTS.not_finite)
"""Result codes of solves that return no usable solution."""

_MAX_STATIONARY_STEPS = 6
"""Maximum number of steps with constant lengthscales, before they may vary."""

_STEP_LENGTHS = tuple(0.5**power for power in range(12))
"""Fractions of an inner step to choose from."""

_MAX_ADJUSTMENTS = 2
"""Maximum number of adjustments of the lengthscales of states after learning."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The arguments of `learn`, with defaults filled in.

    **Attributes:**

    - `problem`, `point_sets`: problem and all points.
    - `validation`, `method`, `linear_solver`, `seed`, `sampling`, `max_steps`, `start`, `callback`:
      as in `learn`.
    - `run`: sequence of optimizations.
    - `pinned_variance_fields`: indices of fields with a narrow prior on their variance.
    - `pinned_lengthscale_fields`: indices of fields with a narrow prior on their lengthscales.
    """

    problem: Problem
    point_sets: tuple[PointSet, ...]
    validation: AbstractValidation
    method: Bilevel
    linear_solver: LinearSolver
    seed: int = 0
    sampling: str = "halton"
    max_steps: int = 30
    start: Start | None = None
    callback: Callable[[LearningRecord], bool | None] | None = None
    run: Run = field(default_factory=Run)
    pinned_variance_fields: tuple[int, ...] = ()
    pinned_lengthscale_fields: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Phase:
    """Last state of an optimization.

    **Attributes:**

    - `collocation`: inner problem.
    - `state`: last state.
    - `history`, `evaluations`: records of this optimization and of those that it continues.
    """

    collocation: Collocation
    state: State
    history: tuple[LearningRecord, ...]
    evaluations: tuple[LearningRecord, ...]


def build_collocation(setup: Setup, problem: Problem | None = None) -> Collocation:
    """Return the inner problem of a setup, with the held-out rows of the validation."""
    problem = setup.problem if problem is None else problem
    held_out = setup.validation.held_out_rows(problem, setup.point_sets, setup.seed)
    points = split_points(setup.point_sets, held_out, setup.seed, setup.sampling)
    return Collocation.of(problem, points, setup.validation, setup.linear_solver, setup.start)


def build_task(
    setup: Setup,
    collocation: Collocation,
    *,
    stationary: bool = False,
    is_single_start: bool = False,
    **settings: Any,
) -> Task:
    """Return the task to learn the hyperparameters of a collocation."""
    theta_map, extents, multistart = collocation.theta_map, collocation.extents, False
    if not is_single_start:
        multistart = setup.method.multistart

    def report(record: Record) -> bool | None:
        assert setup.callback is not None
        return setup.callback(collocation.learning_record(record, stationary))

    def neighbors(theta: np.ndarray) -> list[np.ndarray]:
        return local_candidates(theta_map, theta)

    has_full_steps = isinstance(setup.method.solver, GaussNewton)
    regularizer = setup.method.regularizer
    if collocation.data is not None and regularizer is None:
        regularizer = weak_prior(
            theta_map,
            extents,
            multistart,
            setup.pinned_variance_fields,
            setup.pinned_lengthscale_fields,
        )
    defaults: dict[str, Any] = {
        "theta": collocation.theta,
        "optimizer": setup.method.optimizer or default_optimizer(collocation.theta.size),
        "regularizer": regularizer,
        "tolerance": setup.method.tolerance,
        "max_steps": setup.max_steps,
        "neighbors": neighbors if multistart and collocation.data is None else None,
        "center": theta_reference(theta_map, extents),
        "stochastic": setup.validation.is_stochastic,
        "inexact": collocation.data is not None,
        "step_lengths": (1.0,) if has_full_steps else _STEP_LENGTHS,
        "callback": None if setup.callback is None else report,
    }
    return Task(collocation.criterion, collocation, **(defaults | settings))


def learn_kernels(setup: Setup, previous: Phase | None = None) -> Phase:
    """Learn all hyperparameters.

    **Arguments:**

    - `previous`: optimization with other hyperparameters, whose records are continued.
    """
    prior = None
    if setup.method.multistart and previous is None:
        prior = stationary_prior(setup.problem.prior, setup.point_sets)
    if prior is not None:
        return _learn_varying(setup, _learn_stationary(setup, setup.problem.with_prior(prior)))
    collocation = build_collocation(setup)
    task = build_task(setup, collocation)
    if previous is not None:
        max_steps = setup.max_steps + len(previous.history)
        return _run_phase(setup, collocation, replace(task, max_steps=max_steps), previous)
    if setup.method.multistart:
        theta = task.theta
        if isinstance(task.regularizer, GaussianPrior):
            mask = lengthscale_mask(collocation.theta_map)
            theta = np.where(mask, np.asarray(task.regularizer.center), theta)
        starts = starts_at_zero(collocation, theta, setup.pinned_variance_fields)
        task = replace(task, theta=theta, starts=starts)
    return _run_phase(setup, collocation, task)


def _learn_stationary(setup: Setup, problem: Problem) -> Phase:
    """Learn constant lengthscales in a few steps."""
    collocation = build_collocation(setup, problem)
    task = build_task(
        setup,
        collocation,
        stationary=True,
        is_single_start=True,
        optimizer=LevenbergMarquardt(),
        max_steps=_MAX_STATIONARY_STEPS,
        starts=starts_after_updates(collocation),
    )
    return _run_phase(setup, collocation, task, stationary=True)


def _learn_varying(setup: Setup, stationary: Phase) -> Phase:
    """Learn lengthscales that vary over the domain, starting from constant ones."""
    learned = stationary.collocation.prior(stationary.state.theta)
    prior = with_varying_lengthscales(setup.problem.prior, learned)
    collocation = build_collocation(setup, setup.problem.with_prior(prior))
    settings: dict[str, Any] = {}
    if setup.method.regularizer is None and collocation.data is None:
        settings["regularizer"] = varying_prior(collocation)
    task = build_task(setup, collocation, is_single_start=True, **settings)
    # A nugget that was increased for the stationary kernels may be unnecessary.
    inner = replace(stationary.state.inner, nugget=float(setup.linear_solver.nugget))
    return _run_phase(setup, collocation, task, stationary, inner_state=inner)


def _run_phase(
    setup: Setup,
    collocation: Collocation,
    task: Task,
    previous: Phase | None = None,
    *,
    stationary: bool = False,
    inner_state: Any = None,
) -> Phase:
    """Run an optimization, and convert its records."""
    state = setup.run.minimize(
        task, None if previous is None else previous.state, inner_state=inner_state
    )
    history, evaluations = (
        tuple(collocation.learning_record(record, stationary) for record in records)
        for records in (state.history, state.evaluations)
    )
    if previous is not None:
        history, evaluations = previous.history + history, previous.evaluations + evaluations
    return Phase(collocation, state, history, evaluations)


def final_solve(setup: Setup, phase: Phase, throw: bool) -> LearningResult:
    """Solve with the learned kernels, at all points of the run or at the points of `FinalSolve`."""
    collocation, state, final = phase.collocation, phase.state, setup.method.final
    problem = collocation.problem_at(state.theta)
    assert state.result is not None
    if throw and state.result is RESULTS.loss_not_finite:
        raise SolveError(f"learn: {state.result.value} Hyperparameters: {problem!r}")
    linear_solver = final.linear_solver
    if linear_solver is None:
        # Noise and amplitudes learned from data are valid for the system of learning only.
        keep_solver = collocation.data is not None
        linear_solver = (
            setup.linear_solver if keep_solver else Automatic(mesh=setup.linear_solver.mesh)
        )
    point_sets, jets = merge_points(collocation, state.inner)

    def solve_from(problem: Problem, start: Any) -> Solution:
        return solve(
            problem,
            point_sets if final.points is None else final.points,
            start=start,
            seed=setup.seed if final.seed is None else final.seed,
            max_steps=final.max_steps,
            sampling=setup.sampling,
            linear_solver=linear_solver,
            throw=False,
            callback=final.callback,
        )

    solution = solve_from(problem, jets if final.points is None else setup.start)
    if collocation.data is None:
        solution = shorten_until_resolved(solution, solve_from)
    if throw and solution.result in _UNUSABLE:
        raise SolveError(str(solution), solution)
    return LearningResult(
        solution.problem,
        solution,
        state.result,
        state.factorizations,
        LearningHistory(phase.history),
        phase.evaluations,
        linear_solver,
        state.covariance,
    )


def learn_with_data(setup: Setup, throw: bool) -> LearningResult:
    """Learn from data with uninformative priors of states and reduced weights of outliers.

    The noise of outliers among data with `StudentT` noise is estimated from a solution with the
    initial kernels, and again from one with the kernels that are then learned.
    """
    if any(isinstance(c.noise, StudentT) for c in setup.problem.conditions):
        initial = with_state_priors(setup)
        first = solve(
            initial.problem,
            setup.point_sets,
            start=setup.start,
            linear_solver=setup.linear_solver,
            throw=False,
        )
        weighted = with_state_priors(_with_reweighted_noise(setup, first))
        result = final_solve(weighted, learn_kernels(weighted), throw=False)
        setup = _with_reweighted_noise(setup, result.solution)
    return _learn_with_state_priors(setup, throw)


def _with_reweighted_noise(setup: Setup, solution: Solution) -> Setup:
    """Return the setup with the noise of outliers in a solution, if that is usable."""
    if solution.result in _UNUSABLE:
        return setup
    point_sets = tuple(
        replace(points, noise=solved_points.noise) if isinstance(c.noise, StudentT) else points
        for c, points, solved_points in zip(
            setup.problem.conditions, setup.point_sets, solution.point_sets, strict=True
        )
    )
    return replace(setup, point_sets=point_sets)


def with_state_priors(setup: Setup) -> Setup:
    """Return the setup with uninformative priors of states, unchanged if there are no states."""
    if not setup.method.multistart:
        return setup
    nugget = float(setup.linear_solver.nugget)
    problem = with_large_state_variance(setup.problem, setup.point_sets, nugget)
    if problem is setup.problem:
        return setup
    return replace(setup, problem=problem, pinned_variance_fields=state_fields(problem))


def _learn_with_state_priors(setup: Setup, throw: bool) -> LearningResult:
    """Learn with uninformative priors of states, or with the original priors if that fails.

    The first attempt may fail with too few points.
    """
    uninformative = with_state_priors(setup)
    phase = learn_kernels(uninformative)
    result = final_solve(uninformative, phase, throw=throw and uninformative is setup)
    if uninformative is setup:
        return result
    result = _shorten_state_lengthscales(uninformative, phase, result)
    if result.solution.converged:
        return result
    fallback = final_solve(setup, learn_kernels(setup), throw=False)
    best = fallback if fallback.solution.converged else result
    if throw and best.solution.result in _UNUSABLE:
        raise SolveError(str(best.solution), best.solution)
    return best


def _shorten_state_lengthscales(
    setup: Setup, phase: Phase, result: LearningResult
) -> LearningResult:
    """Shorten the lengthscales of states and learn the other hyperparameters again."""
    if setup.method.regularizer is not None:
        # Only the default prior can pin the lengthscales.
        return result
    for _ in range(_MAX_ADJUSTMENTS):

        def solve_from(
            problem: Problem, start: Solution, result: LearningResult = result
        ) -> Solution:
            return solve(
                problem,
                result.solution.point_sets,
                start=start,
                linear_solver=result.linear_solver,
                seed=setup.seed,
                sampling=setup.sampling,
                throw=False,
            )

        adjusted = with_shorter_state_lengthscales(result.solution, solve_from)
        if adjusted is None:
            break
        adjusted_setup = replace(
            setup,
            problem=adjusted.problem,
            start=adjusted,
            pinned_lengthscale_fields=state_fields(result.problem),
        )
        phase = learn_kernels(adjusted_setup, phase)
        new_result = final_solve(adjusted_setup, phase, throw=False)
        if result.solution.converged and not new_result.solution.converged:
            break
        result = new_result
    return result
