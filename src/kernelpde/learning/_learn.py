"""Learning the kernels of a problem."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kernelpde.deprecation import adapted
from kernelpde.errors import SolveError
from kernelpde.gauss_newton import (
    RESULT,
    Points,
    Solution,
    Start,
    default_solver,
    solve,
)
from kernelpde.learning._arguments import check_learn
from kernelpde.learning._checkpoint import Checkpoint, Stored
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._finishing import all_points, follow_exact_gradient, resolved
from kernelpde.learning._learned import Learned
from kernelpde.learning._method import Bilevel, FinalSolve, RunFile, earlier
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    GaussNewtonCG,
    LevenbergMarquardt,
)
from kernelpde.learning._pictures import LearningHistory
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import LEARNING
from kernelpde.learning._starting import compare_settled, compare_starts
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._states import states, with_free_states
from kernelpde.learning._step import step
from kernelpde.learning._task import Options, Task
from kernelpde.learning._warm import stationary, varying, with_own_lengthscales
from kernelpde.learning.validation import (
    AbstractValidation,
    data_conditions,
    default_validation,
)
from kernelpde.linear_solvers import Automatic, LinearSolver
from kernelpde.precision import require_float64
from kernelpde.problem import Collocation, Problem, StudentT

_CONSTANT_STEPS = 6
"""So many steps at most with constant lengthscales, before they may vary."""

_MANY = 300
"""With more hyperparameters than this, their Jacobian is not formed."""


def _suited(problem: Problem) -> AbstractOptimizer:
    """The default optimizer, by the number of hyperparameters."""
    count = Parameters.of(problem.kernels, problem.noises).vector.size
    return LevenbergMarquardt() if count <= _MANY else GaussNewtonCG()


@adapted(earlier)
def learn(
    problem: Problem,
    points: Points | None = None,
    *,
    validation: AbstractValidation | None = None,
    method: Bilevel | None = None,
    start: Start | None = None,
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
    sampling: str = "halton",
    max_steps: int | None = None,
    throw: bool = True,
    callback: Callable[[LearningRecord], None] | None = None,
    checkpoint: str | Path | RunFile | None = None,
) -> Learned:
    """Learn the hyperparameters of a problem's kernels, and solve it with them.

    Bilevel optimization with a linearized inner problem, section 2 of the paper: in each step the
    residuals are linearized at the state uᵏ, the solution of the linearized training problem is an
    explicit function Π_k(θ) of the hyperparameters, and θ is moved to lower

        ½ Σ_c w_c / N_c Σᵢ (rᵢ(θ) / s_c)² + R(θ),

    with r the linearized residuals of Π_k(θ) at validation points, s_c the size of such a residual
    under the prior at the beginning of the step, and R a regularizer. Then uᵏ⁺¹ = Π_k(θ), or as
    much of the way as the true residuals allow.

    **Arguments:**

    - `problem`: with kernels to begin with.
    - `points`: training points per condition, as in `solve`.
    - `validation`: with noisy data `LeaveOneOutPredictive()`, the density of each datum given the
      rest; otherwise `HeldOut()` points, of points of your own some that are left out of training.
      `Resampled()` ones in every step, or `KFold()` of the training points.
    - `method`: optimizer, regularizer and further settings, and the solve that follows.
    - `start`: a solution or functions to begin with, as in `solve`.
    - `linear_solver`: of the inner systems; `Automatic()` with a nugget of 1e-10 and without
      refinement by default.
    - `seed`, `sampling`: of the points.
    - `max_steps`: largest number of Gauss-Newton steps; 30, with data 80 unless given.
    - `throw`: raise `SolveError` if nothing usable was learned, or if the final solve has no
      solution. One that is not good enough is returned, with a result that says so.
    - `callback`: called with a `LearningRecord` after every evaluation of the outer loss and after
      every step.
    - `checkpoint`: a file for the state of the run, written after every step. If it exists the run
      goes on from there, to the same result bit for bit; if it belongs to another problem, other
      points or other settings, it is refused. `max_steps` may differ: a run that ended at its limit
      goes on.
    """
    require_float64()
    check_learn(
        problem, points, validation, method, start, linear_solver, max_steps, throw, callback
    )
    method = Bilevel() if method is None else method
    problem = problem.current()
    if max_steps is None:
        max_steps = 80 if data_conditions(problem) else 30
    if not isinstance(points, tuple):
        points = problem.collocate(points, seed=seed, sampling=sampling)
    blocks = points
    validation = default_validation(problem, blocks) if validation is None else validation
    linear_solver = linear_solver or Automatic(nugget=1e-10, refinement=0)
    problem = problem.balanced(blocks)
    if method.multistart:
        problem = with_own_lengthscales(problem, blocks)
    options = Options(
        validation,
        method.regularizer,
        default_solver(method.solver),
        linear_solver,
        seed,
        sampling,
        method.multistart,
        callback,
    )
    run = _Run(problem, blocks, options, method, start, max_steps, checkpoint)
    return _with_states_free(run.with_noise_of_outliers(), throw)


class _Run(NamedTuple):
    """All that `learn` was given, with defaults for what was not."""

    problem: Problem
    blocks: tuple[Collocation, ...]
    options: Options
    method: Bilevel
    start: Start | None
    max_steps: int
    checkpoint: str | Path | RunFile | None

    def with_noise_of_outliers(self) -> "_Run":
        """The same, where data may be wrong each with the noise that it deserves.

        By a solve with the kernels as they are, and one with those that are then learned.
        """
        if not any(isinstance(c.noise, StudentT) for c in self.problem.conditions):
            return self
        alone = self._replace(checkpoint=None)
        free = alone.with_free_states() or alone
        first = solve(
            free.problem,
            self.blocks,
            start=self.start,
            linear_solver=self.options.linear_solver,
            throw=False,
        )
        learned = _with_states_free(alone.weighted_by(first), throw=False)
        return self.weighted_by(learned.solution)

    def weighted_by(self, solution: Solution) -> "_Run":
        """The same, data with outliers having the noise they have in a solution, if it is one."""
        if solution.result in (RESULT.not_positive_definite, RESULT.not_finite):
            return self
        blocks = tuple(
            replace(own, noise=found.noise) if isinstance(c.noise, StudentT) else own
            for c, own, found in zip(
                self.problem.conditions, self.blocks, solution.blocks, strict=True
            )
        )
        return self._replace(blocks=blocks)

    def with_free_states(self) -> "_Run | None":
        """The same with a prior of states that says nothing; without states nothing."""
        if not self.method.multistart:
            return None
        nugget = float(self.options.linear_solver.nugget)
        problem = with_free_states(self.problem, self.blocks, nugget)
        if problem is self.problem:
            return None
        options = replace(self.options, free=states(problem))
        return self._replace(problem=problem, options=options)


def _with_states_free(run: _Run, throw: bool) -> Learned:
    """Learn with states left free or, where points are too few for that, as they were given."""
    free = run.with_free_states()
    if free is None:
        return _learned(run, throw)
    learned = _learned(free, throw=False)
    return learned if learned.solution.converged else _learned(run._replace(checkpoint=None), throw)


def _learned(run: _Run, throw: bool) -> Learned:
    """Learn from the beginning or from where a file was left, and solve with what was learned."""
    task, state = _steps(run, _file(run))
    if run.method.hypergradient == "exact" and state.result is not LEARNING.not_finite:
        state = follow_exact_gradient(task, state)
    return _finished(task, state, run.method.final, run.start, throw)


def _finished(
    task: Task, state: LearningState, final: FinalSolve, start: Start | None, throw: bool
) -> Learned:
    """The final solve with what was learned: at all points, or at others."""
    learned, options = task.problem_at(state.theta), task.options
    assert state.result is not None
    if throw and state.result is LEARNING.not_finite:
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
    # Anything else is worth having, and its result says what it is worth.
    if throw and solution.result in (RESULT.not_positive_definite, RESULT.not_finite):
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


def _file(run: _Run) -> Checkpoint | None:
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


def _steps(run: _Run, file: Checkpoint | None) -> tuple[Task, LearningState]:
    """All steps, from the beginning or from where the file was left."""
    problem, blocks, options, method, start, max_steps, _ = run
    stored = None if file is None else file.read()
    optimizer, tolerance = method.optimizer, method.tolerance
    constant = stationary(problem.kernels, blocks) if options.multistart else None
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
        elif options.multistart:
            state = compare_starts(task, state)
    theta = None if before is None else before.theta
    if state.result is LEARNING.step_limit and len(state.history) < max_steps:
        state = replace(state, result=None)
    while not state.done:
        if file is not None:
            file.write(task, state, theta)
        state = step(task, state, tolerance)
        if not state.done and len(state.history) >= max_steps:
            state = replace(state, result=LEARNING.step_limit)
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
        state,
        train=other.train,
        pool=other.pool,
        pool_view=other.pool_view,
        history=other.history,
        evaluations=other.evaluations,
        factorizations=other.factorizations,
        started=other.started,
    )
