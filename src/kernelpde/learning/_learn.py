"""Learning the kernels of a problem."""

from collections.abc import Callable
from pathlib import Path

from kernelpde.deprecation import adapted
from kernelpde.gauss_newton import (
    Points,
    Start,
    default_solver,
)
from kernelpde.learning._arguments import check_learn
from kernelpde.learning._from_data import learned_from_data, with_noise_of_outliers
from kernelpde.learning._learned import Learned
from kernelpde.learning._method import Bilevel, RunFile, earlier
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._run import Run
from kernelpde.learning._task import Options
from kernelpde.learning._warm import with_own_lengthscales
from kernelpde.learning.validation import (
    AbstractValidation,
    data_conditions,
    default_validation,
)
from kernelpde.linear_solvers import Automatic, LinearSolver
from kernelpde.precision import require_float64
from kernelpde.problem import Problem


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
    under the prior at the beginning of the step, and R a regularizer. Then uᵏ⁺¹ = Π_k(θ), or a
    fraction of that step if the true residuals require it.

    **Arguments:**

    - `problem`: with initial kernels.
    - `points`: training points per condition, as in `solve`.
    - `validation`: by default `LeaveOneOutPredictive()` with noisy data, the density of each datum
      given the rest; otherwise held-out points, `HeldOut(standardized=True)` where the matrix is
      certain to be formed (see `Automatic`). Of given points some are then left out of training.
      `Resampled()` draws new points in every step, `KFold()` uses folds of the training points.
    - `method`: optimizer, regularizer and further settings, and the final solve.
    - `start`: initial guess, a solution or functions, as in `solve`.
    - `linear_solver`: of the inner systems; `Automatic()` with a nugget of 1e-10 and without
      refinement by default.
    - `seed`, `sampling`: of the points.
    - `max_steps`: maximum number of Gauss-Newton steps; 30 by default, with data 80.
    - `throw`: raise `SolveError` if nothing usable was learned, or if the final solve has no
      solution. One that is not accurate enough is returned, with a result that says so.
    - `callback`: called with a `LearningRecord` after every evaluation of the outer loss and after
      every step.
    - `checkpoint`: a file for the state of the run, written after every step. If it exists the run
      resumes from it, to a bitwise identical result; a file from another problem, other points or
      other settings is rejected. `max_steps` may differ: a run that ended at its limit continues.

    **Example:**

    ```python
    >>> again = kp.learn(problem, points, seed=1)
    >>> sorted(again.problem.hyperparameters["u"])
    ['lengthscale']
    ```
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
    linear_solver = linear_solver or Automatic(nugget=1e-10, refinement=0)
    if validation is None:
        validation = default_validation(problem, blocks, linear_solver)
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
    run = Run(problem, blocks, options, method, start, max_steps, checkpoint)
    return learned_from_data(with_noise_of_outliers(run), throw)
