"""Learning the kernels of a problem."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jax.sharding import Mesh

from kernelpde.arrays import Numbers
from kernelpde.deprecation import renamed
from kernelpde.errors import SolveError
from kernelpde.gauss_newton import (
    RESULT,
    Solver,
    Start,
    default_solver,
    moved,
    solve,
)
from kernelpde.learning._arguments import check_learn
from kernelpde.learning._checkpoint import Checkpoint, Stored
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._finishing import all_points, follow_exact_gradient
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    GaussNewtonCG,
    LevenbergMarquardt,
)
from kernelpde.learning._outer import AbstractRegularizer
from kernelpde.learning._pictures import LearningHistory
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import LEARNING
from kernelpde.learning._starting import compare_settled, compare_starts
from kernelpde.learning._state import LearningState, init
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
from kernelpde.problem import Collocation, Problem

if TYPE_CHECKING:
    pass
from kernelpde.learning._learned import Learned

_CONSTANT_STEPS = 6
"""So many steps at most with constant lengthscales, before they may vary."""

_MANY = 300
"""With more hyperparameters than this, their Jacobian is not formed."""


def _suited(problem: Problem) -> AbstractOptimizer:
    """The default optimizer, by the number of hyperparameters."""
    count = Parameters.of(problem.kernels, problem.noises).vector.size
    return LevenbergMarquardt() if count <= _MANY else GaussNewtonCG()


@renamed(moved)
def learn(
    problem: Problem,
    points: Mapping[str, int | Numbers] | None = None,
    *,
    validation: AbstractValidation | None = None,
    start: Start | None = None,
    optimizer: AbstractOptimizer | None = None,
    regularizer: AbstractRegularizer | None = None,
    starts: bool = True,
    hypergradient: Literal["linearized", "exact"] = "linearized",
    solver: Solver | None = None,
    linear_solver: LinearSolver | None = None,
    mesh: Mesh | None = None,
    seed: int = 0,
    sampling: str = "halton",
    tolerance: float = 1e-3,
    max_steps: int | None = None,
    final: Mapping[str, int] | None = None,
    final_seed: int | None = None,
    final_linear_solver: LinearSolver | None = None,
    throw: bool = True,
    callback: Callable[[LearningRecord], None] | None = None,
    checkpoint: str | Path | None = None,
    notes: Mapping[str, Any] | None = None,
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
    - `start`: a solution or functions to begin with, as in `solve`.
    - `optimizer`: `learning.LevenbergMarquardt()` by default, with more than 300 hyperparameters
      `learning.GaussNewtonCG()`; `paper_adam()` as published, any `Optax`, or `LBFGS`.
    - `regularizer`: R.
    - `starts`: compare lengthscales from a thirtieth of the domain to all of it first, by one
      factorization each, begin with the best, and look around once more at the end; for a
      lengthscale that varies from place to place, solve and learn with constant ones first.
      Otherwise begin with those given and stay in their valley.
    - `hypergradient`: "exact" goes on at the end with the gradient of the true objective, which
      sees the linearization point move with θ; each of its evaluations takes some eight
      factorizations.
    - `solver`: of the inner steps; `GaussNewton()` never shortens them.
    - `linear_solver`: of the inner systems; `Automatic()` with a nugget of 1e-10 and without
      refinement by default.
    - `mesh`: devices that share the work of large systems, as in `solve`.
    - `seed`, `sampling`: of the points.
    - `tolerance`: on the change of the logarithms of the hyperparameters in a step; 0 takes all
      `max_steps`.
    - `max_steps`: largest number of Gauss-Newton steps; 30, with data 80 unless given.
    - `final`: number of points for the final solve; training points and validation points together
      if left out.
    - `final_seed`: of the points of the final solve; `seed` if left out.
    - `final_linear_solver`: for it; `Automatic()` by default, with data the same as for learning.
    - `throw`: raise `SolveError` if nothing usable was learned, or if the final solve has no
      solution. One that is not good enough is returned, with a result that says so.
    - `callback`: called with a `LearningRecord` after every evaluation of the outer loss and after
      every step.
    - `checkpoint`: a file for the state of the run, written after every step. If it exists the run
      goes on from there, to the same result bit for bit; if it belongs to another problem, other
      points or other settings, it is refused. `max_steps` may differ: a run that ended at its limit
      goes on.
    - `notes`: facts to be kept in that file.
    """
    require_float64()
    check_learn(
        problem,
        validation,
        start,
        optimizer,
        regularizer,
        starts,
        hypergradient,
        solver,
        linear_solver,
        mesh,
        tolerance,
        max_steps,
        final,
        final_seed,
        final_linear_solver,
        throw,
        callback,
        checkpoint,
        notes,
    )
    problem = problem.current()
    if max_steps is None:
        max_steps = 80 if data_conditions(problem) else 30
    blocks = problem.collocate(points, seed=seed, sampling=sampling)
    validation = default_validation(problem, blocks) if validation is None else validation
    if linear_solver is None:
        linear_solver = Automatic(nugget=1e-10, refinement=0)
    problem = problem.balanced(blocks)
    if starts:
        problem = with_own_lengthscales(problem, blocks)
    options = Options(
        validation,
        regularizer,
        default_solver(solver),
        linear_solver,
        mesh,
        seed,
        sampling,
        starts,
        callback,
    )
    given = {"optimizer": optimizer, "solver": solver, "tolerance": tolerance}
    file = None if checkpoint is None else _file(checkpoint, problem, blocks, options, given, notes)
    task, state = _run(problem, blocks, options, optimizer, start, tolerance, max_steps, file)
    if hypergradient == "exact" and state.result is not LEARNING.not_finite:
        state = follow_exact_gradient(task, state)
    return _finished(task, state, final, final_seed, final_linear_solver, start, throw)


def _finished(
    task: Task,
    state: LearningState,
    final: Mapping[str, int] | None,
    final_seed: int | None,
    final_linear_solver: LinearSolver | None,
    start: Start | None,
    throw: bool,
) -> Learned:
    """The final solve with what was learned: at all points, or at others."""
    learned, options = task.problem_at(state.theta), task.options
    assert state.result is not None
    if throw and state.result is LEARNING.not_finite:
        raise SolveError(f"learn: {state.result.value} Hyperparameters: {learned!r}")
    if final_linear_solver is None:
        # What is learned from data holds for the system it was learned with.
        final_linear_solver = options.linear_solver if task.data is not None else Automatic()
    blocks, reached = all_points(task, state)
    solution = solve(
        learned,
        final,
        blocks=blocks if final is None else None,
        start=reached if final is None else start,
        seed=options.seed if final_seed is None else final_seed,
        sampling=options.sampling,
        linear_solver=final_linear_solver,
        mesh=options.mesh,
        throw=False,
    )
    # Anything else is worth having, and its result says what it is worth.
    if throw and solution.result in (RESULT.not_positive_definite, RESULT.not_finite):
        raise SolveError(str(solution), solution)
    return Learned(
        learned,
        solution,
        state.result,
        state.factorizations,
        LearningHistory(state.history),
        state.evaluations,
        final_linear_solver,
        state.covariance,
    )


def _file(
    path: str | Path,
    problem: Problem,
    blocks: tuple[Collocation, ...],
    options: Options,
    given: Mapping[str, Any],
    notes: Mapping[str, Any] | None,
) -> Checkpoint:
    """The file of a run, which knows what the run is of."""
    settings = {
        "validation": options.validation,
        "regularizer": options.regularizer,
        "starts": options.multistart,
        "linear solver": options.linear_solver,
        "seed": options.seed,
        "sampling": options.sampling,
        **given,
    }
    return Checkpoint(path, problem, blocks, settings, notes or {})


def _run(
    problem: Problem,
    blocks: tuple[Collocation, ...],
    options: Options,
    optimizer: AbstractOptimizer | None,
    start: Start | None,
    tolerance: float,
    max_steps: int,
    file: Checkpoint | None,
) -> tuple[Task, LearningState]:
    """All steps, from the beginning or from where the file was left."""
    stored = None if file is None else file.read()
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
