"""One run of learning: its steps, and the solve with what was learned."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kernelpde.errors import SolveError
from kernelpde.gauss_newton import RESULTS as SOLVED
from kernelpde.gauss_newton import Solution, Start, solve
from kernelpde.learning._checkpoint import Checkpoint, Stored
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._finishing import all_points, follow_exact_gradient, resolved
from kernelpde.learning._learned import Learned
from kernelpde.learning._method import Bilevel, FinalSolve, RunFile
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    GaussNewtonCG,
    LevenbergMarquardt,
)
from kernelpde.learning._pictures import LearningHistory
from kernelpde.learning._result import RESULTS
from kernelpde.learning._starting import compare_settled, compare_starts
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._step import step
from kernelpde.learning._task import Options, Task
from kernelpde.learning._warm import stationary, varying
from kernelpde.linear_solvers import Automatic
from kernelpde.problem import Collocation, Problem

WORTHLESS = (SOLVED.not_positive_definite, SOLVED.not_finite)
"""Anything else is worth having, and says what it is worth."""

_CONSTANT_STEPS = 6
"""Maximum number of steps with constant lengthscales, before they may vary."""

_MANY = 300
"""With more hyperparameters than this, their Jacobian is not formed."""


class Run(NamedTuple):
    """All that `learn` was given, with defaults for what was not."""

    problem: Problem
    blocks: tuple[Collocation, ...]
    options: Options
    method: Bilevel
    start: Start | None
    max_steps: int
    checkpoint: str | Path | RunFile | None


def _suited(problem: Problem) -> AbstractOptimizer:
    """The default optimizer, by the number of hyperparameters."""
    count = Parameters.of(problem.kernels, problem.noises).vector.size
    return LevenbergMarquardt() if count <= _MANY else GaussNewtonCG()


def reached(run: Run) -> tuple[Task, LearningState]:
    """Learn from the beginning or from where a file was left."""
    task, state = steps(run, _file(run))
    if run.method.hypergradient == "exact" and state.result is not RESULTS.not_finite:
        state = follow_exact_gradient(task, state)
    return task, state


def learned_by(run: Run, throw: bool) -> Learned:
    """Learn, and solve with what was learned."""
    task, state = reached(run)
    return finished(task, state, run.method.final, run.start, throw)


def finished(
    task: Task, state: LearningState, final: FinalSolve, start: Start | None, throw: bool
) -> Learned:
    """The final solve with what was learned: at all points, or at others."""
    learned, options = task.problem_at(state.theta), task.options
    assert state.result is not None
    if throw and state.result is RESULTS.not_finite:
        raise SolveError(f"learn: {state.result.value} Hyperparameters: {learned!r}")
    linear_solver = final.linear_solver
    if linear_solver is None:
        # What is learned from data holds for the system it was learned with.
        same = task.data is not None
        linear_solver = (
            options.linear_solver if same else Automatic(mesh=options.linear_solver.mesh)
        )
    blocks, reached = all_points(task, state)

    def solved(problem: Problem, start: Any) -> Solution:
        return solve(
            problem,
            blocks if final.points is None else final.points,
            start=start,
            seed=options.seed if final.seed is None else final.seed,
            max_steps=final.max_steps,
            sampling=options.sampling,
            linear_solver=linear_solver,
            throw=False,
        )

    solution = solved(learned, reached if final.points is None else start)
    if task.data is None:
        solution = resolved(solution, solved)
    if throw and solution.result in WORTHLESS:
        raise SolveError(str(solution), solution)
    return Learned(
        solution.problem,
        solution,
        state.result,
        state.factorizations,
        LearningHistory(state.history),
        state.evaluations,
        linear_solver,
        state.covariance,
    )


def _file(run: Run) -> Checkpoint | None:
    """The file of a run, which knows what the run is of."""
    if run.checkpoint is None:
        return None
    file = run.checkpoint if isinstance(run.checkpoint, RunFile) else RunFile(run.checkpoint)
    options, method = run.options, run.method
    settings = {
        "validation": options.validation,
        "regularizer": options.regularizer,
        "starts": options.multistart,
        "linear solver": options.linear_solver,
        "seed": options.seed,
        "sampling": options.sampling,
        "optimizer": method.optimizer,
        "solver": method.solver,
        "tolerance": method.tolerance,
    }
    return Checkpoint(file.path, run.problem, run.blocks, settings, file.notes)


def steps(
    run: Run, file: Checkpoint | None, earlier: LearningState | None = None
) -> tuple[Task, LearningState]:
    """All steps, from the beginning, from where the file was left, or after those of a run that
    had other hyperparameters to learn."""
    problem, blocks, options, method, start, max_steps, _ = run
    stored = None if file is None else file.read()
    optimizer, tolerance = method.optimizer, method.tolerance
    begins = options.multistart and earlier is None
    constant = stationary(problem.kernels, blocks) if begins else None
    first = None
    if constant is not None:
        alone = replace(options, multistart=False)
        first = Task.of(
            problem.with_kernels(constant), blocks, alone, LevenbergMarquardt(), constant=True
        )
        before = _with_constant_lengthscales(first, start, tolerance, file, stored)
        problem = problem.with_kernels(varying(problem.kernels, first.kernels(before.theta)))
        optimizer = _suited(problem) if optimizer is None else optimizer
        task = Task.of(problem, blocks, alone, optimizer, varies=True)
        state = init(task, start)
        if stored is not None and not stored.constant:
            state = stored.restored(task, state, first)
        else:
            state = _gone_on(state, before)
    else:
        before = None
        optimizer = _suited(problem) if optimizer is None else optimizer
        task = Task.of(problem, blocks, options, optimizer)
        state = init(task, start)
        if stored is not None:
            state = stored.restored(task, state)
        elif earlier is not None:
            state, max_steps = _told_of(state, earlier), max_steps + len(earlier.history)
        elif options.multistart:
            state = compare_starts(task, state)
    theta = None if before is None else before.theta
    if state.result is RESULTS.step_limit and len(state.history) < max_steps:
        state = replace(state, result=None)
    while not state.done:
        if file is not None:
            file.write(task, state, theta)
        state = step(task, state, tolerance)
        if not state.done and len(state.history) >= max_steps:
            state = replace(state, result=RESULTS.step_limit)
    if file is not None:
        file.write(task, state, theta)
    return task, state


def _with_constant_lengthscales(
    task: Task,
    start: Start | None,
    tolerance: float,
    file: Checkpoint | None,
    stored: Stored | None,
) -> LearningState:
    """Some steps with constant lengthscales, before they may vary."""
    state = init(task, start)
    if stored is None:
        state = compare_settled(task, state)
    elif stored.constant:
        state = stored.restored(task, state)
    elif stored.before is not None:
        return replace(state, theta=stored.before)
    else:
        return state
    while not state.done and len(state.history) < _CONSTANT_STEPS:
        if file is not None:
            file.write(task, state, None)
        state = step(task, state, tolerance)
    return state


def _gone_on(state: LearningState, other: LearningState) -> LearningState:
    """A state that takes over what another at the same points has reached and done."""
    return replace(
        _told_of(state, other), train=other.train, pool=other.pool, pool_view=other.pool_view
    )


def _told_of(state: LearningState, other: LearningState) -> LearningState:
    """A state that takes over what another has done."""
    return replace(
        state,
        history=other.history,
        evaluations=other.evaluations,
        factorizations=other.factorizations,
        started=other.started,
    )
