"""Learning run: its steps and the final solve."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Array

from kernelpde.errors import SolveError
from kernelpde.learning._checkpoint import CheckpointStore, StoredRun
from kernelpde.learning._evaluation import ThetaMap
from kernelpde.learning._finishing import merge_points, shorten_until_resolved
from kernelpde.learning._learned import LearningResult
from kernelpde.learning._method import Bilevel, CheckpointFile, FinalSolve
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    GaussNewtonCG,
    LevenbergMarquardt,
)
from kernelpde.learning._record import LearningHistory
from kernelpde.learning._result import RESULTS
from kernelpde.learning._starting import compare_after_inner_steps, compare_starts
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._stationary_start import stationary_prior, with_varying_lengthscales
from kernelpde.learning._step import step
from kernelpde.learning._task import LearningOptions, LearningTask
from kernelpde.linear_solvers import Automatic
from kernelpde.nonlinear import RESULTS as SOLVE_RESULTS
from kernelpde.problem import PointSet, Problem
from kernelpde.solution import Solution, Start, solve

UNUSABLE = (SOLVE_RESULTS.not_positive_definite, SOLVE_RESULTS.not_finite)
"""Result codes of solves that return no usable solution."""

_MAX_STATIONARY_STEPS = 6
"""Maximum number of steps with constant lengthscales, before they may vary."""

_MAX_JACOBIAN_PARAMETERS = 300
"""Number of hyperparameters up to which the default optimizer forms the Jacobian."""


class LearningRun(NamedTuple):
    """The arguments of `learn`, with defaults filled in."""

    problem: Problem
    point_sets: tuple[PointSet, ...]
    options: LearningOptions
    method: Bilevel
    start: Start | None
    max_steps: int
    checkpoint: str | Path | CheckpointFile | None


def _default_optimizer(problem: Problem) -> AbstractOptimizer:
    """Return the default optimizer for the number of hyperparameters."""
    count = ThetaMap.of(problem.prior, problem.noises).vector.size
    return LevenbergMarquardt() if count <= _MAX_JACOBIAN_PARAMETERS else GaussNewtonCG()


def run_learning(run: LearningRun) -> tuple[LearningTask, LearningState]:
    """Run the learning steps from the start or from a checkpoint."""
    return run_steps(run, _checkpoint_for(run))


def learn_once(run: LearningRun, throw: bool) -> LearningResult:
    """Run the learning steps and the final solve."""
    task, state = run_learning(run)
    return final_solve(task, state, run.method.final, run.start, throw)


def final_solve(
    task: LearningTask, state: LearningState, final: FinalSolve, start: Start | None, throw: bool
) -> LearningResult:
    """Solve with the learned kernels, at all points of the run or at the points of `final`."""
    problem, options = task.problem_at(state.theta), task.options
    assert state.result is not None
    if throw and state.result is RESULTS.not_finite:
        raise SolveError(f"learn: {state.result.value} Hyperparameters: {problem!r}")
    linear_solver = final.linear_solver
    if linear_solver is None:
        # Noise and amplitudes learned from data are valid for the system of learning only.
        keep_solver = task.data is not None
        linear_solver = (
            options.linear_solver if keep_solver else Automatic(mesh=options.linear_solver.mesh)
        )
    point_sets, jets = merge_points(task, state)

    def solve_from(problem: Problem, start: Start | tuple[Array, ...] | None) -> Solution:
        return solve(
            problem,
            point_sets if final.points is None else final.points,
            start=start,
            seed=options.seed if final.seed is None else final.seed,
            max_steps=final.max_steps,
            sampling=options.sampling,
            linear_solver=linear_solver,
            throw=False,
        )

    solution = solve_from(problem, jets if final.points is None else start)
    if task.data is None:
        solution = shorten_until_resolved(solution, solve_from)
    if throw and solution.result in UNUSABLE:
        raise SolveError(str(solution), solution)
    return LearningResult(
        solution.problem,
        solution,
        state.result,
        state.factorizations,
        LearningHistory(state.history),
        state.evaluations,
        linear_solver,
        state.covariance,
    )


def _checkpoint_for(run: LearningRun) -> CheckpointStore | None:
    """Return the checkpoint store of a run, if it has one."""
    if run.checkpoint is None:
        return None
    file = (
        run.checkpoint
        if isinstance(run.checkpoint, CheckpointFile)
        else CheckpointFile(run.checkpoint)
    )
    options, method = run.options, run.method
    settings = {
        "validation": options.validation,
        "regularizer": options.regularizer,
        "multistart": options.multistart,
        "linear solver": options.linear_solver,
        "seed": options.seed,
        "sampling": options.sampling,
        "optimizer": method.optimizer,
        "solver": method.solver,
        "tolerance": method.tolerance,
    }
    return CheckpointStore(file.path, run.problem, run.point_sets, settings, file.metadata)


def run_steps(
    run: LearningRun, store: CheckpointStore | None, previous: LearningState | None = None
) -> tuple[LearningTask, LearningState]:
    """Run all learning steps.

    **Arguments:**

    - `store`: checkpoint store, from which the run resumes if it has a file.
    - `previous`: last state of a run with other hyperparameters, whose history is continued.
    """
    problem, point_sets, options, method, start, max_steps, _ = run
    stored = None if store is None else store.read()
    optimizer, tolerance = method.optimizer, method.tolerance
    compares_starts = options.multistart and previous is None
    prior = stationary_prior(problem.prior, point_sets) if compares_starts else None
    stationary_theta = None
    if prior is not None:
        single_start = replace(options, multistart=False)
        stationary_task = LearningTask.of(
            problem.with_prior(prior),
            point_sets,
            single_start,
            LevenbergMarquardt(),
            stationary=True,
        )
        stationary_state = _learn_stationary(stationary_task, start, tolerance, store, stored)
        stationary_theta = stationary_state.theta
        learned_prior = stationary_task.prior(stationary_theta)
        problem = problem.with_prior(with_varying_lengthscales(problem.prior, learned_prior))
        optimizer = _default_optimizer(problem) if optimizer is None else optimizer
        task = LearningTask.of(problem, point_sets, single_start, optimizer, varying=True)
        state = init(task, start)
        if stored is not None and not stored.stationary:
            state = stored.restore(task, state, stationary_task)
        else:
            state = _continue_from(state, stationary_state)
    else:
        optimizer = _default_optimizer(problem) if optimizer is None else optimizer
        task = LearningTask.of(problem, point_sets, options, optimizer)
        state = init(task, start)
        if stored is not None:
            state = stored.restore(task, state)
        elif previous is not None:
            state, max_steps = _with_history(state, previous), max_steps + len(previous.history)
        elif options.multistart:
            state = compare_starts(task, state)
    if state.result is RESULTS.max_steps_reached and len(state.history) < max_steps:
        state = replace(state, result=None)
    while not state.has_ended:
        if store is not None:
            store.write(task, state, stationary_theta)
        state = step(task, state, tolerance)
        if not state.has_ended and len(state.history) >= max_steps:
            state = replace(state, result=RESULTS.max_steps_reached)
    if store is not None:
        store.write(task, state, stationary_theta)
    return task, state


def _learn_stationary(
    task: LearningTask,
    start: Start | None,
    tolerance: float,
    store: CheckpointStore | None,
    stored: StoredRun | None,
) -> LearningState:
    """Run the initial steps with constant lengthscales."""
    state = init(task, start)
    if stored is None:
        state = compare_after_inner_steps(task, state)
    elif stored.stationary:
        state = stored.restore(task, state)
    elif stored.stationary_theta is not None:
        return replace(state, theta=stored.stationary_theta)
    else:
        return state
    while not state.has_ended and len(state.history) < _MAX_STATIONARY_STEPS:
        if store is not None:
            store.write(task, state, None)
        state = step(task, state, tolerance)
    return state


def _continue_from(state: LearningState, previous: LearningState) -> LearningState:
    """Return the state with the linearization and history of a previous run at the same points."""
    return replace(
        _with_history(state, previous),
        train_linearization=previous.train_linearization,
        validation_points=previous.validation_points,
        validation_linearization=previous.validation_linearization,
    )


def _with_history(state: LearningState, previous: LearningState) -> LearningState:
    """Return the state with the history of a previous run."""
    return replace(
        state,
        history=previous.history,
        evaluations=previous.evaluations,
        factorizations=previous.factorizations,
        started=previous.started,
    )
