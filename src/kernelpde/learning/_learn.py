"""Learning the kernels of a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jax.sharding import Mesh

from kernelpde.arrays import Numbers, array
from kernelpde.deprecation import renamed
from kernelpde.errors import SolveError
from kernelpde.functionals import Kernels
from kernelpde.gauss_newton import (
    RESULT,
    Solution,
    Solver,
    Start,
    default_solver,
    moved,
    solve,
)
from kernelpde.learning._arguments import check_learn
from kernelpde.learning._checkpoint import Checkpoint
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._finishing import follow_exact_gradient
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    GaussNewtonCG,
    LevenbergMarquardt,
)
from kernelpde.learning._outer import AbstractRegularizer
from kernelpde.learning._pictures import LearningHistory, plot_learning
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import LEARNING
from kernelpde.learning._run import Run
from kernelpde.learning._starting import compare_settled, compare_starts
from kernelpde.learning._validation import (
    HeldOut,
    KFold,
    LeaveOneOutPredictive,
    Validation,
    can_hold_out,
    data_conditions,
)
from kernelpde.learning._warm import stationary, varying, with_own_lengthscales
from kernelpde.linear_solvers import Automatic, LinearSolver
from kernelpde.precision import require_float64
from kernelpde.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Learned:
    """What learning has led to.

    **Attributes:**

    - `problem`: the problem with the learned kernels.
    - `solution`: of that problem at the final points.
    - `result`: why learning stopped.
    - `factorizations`: how many it took, the final solve not counted.
    - `history`: one record per Gauss-Newton step.
    - `evaluations`: one record per evaluation of the outer loss.
    - `linear_solver`: of the final solve.
    - `spread`: with data, the covariance of the hyperparameters (of their logarithms, as a vector):
      the inverse curvature of the outer loss. Otherwise `None`.
    """

    problem: Problem
    solution: Solution
    result: LEARNING
    factorizations: int
    history: LearningHistory
    evaluations: tuple[LearningRecord, ...]
    linear_solver: LinearSolver
    spread: np.ndarray | None

    def shifted(self, by: np.ndarray) -> Problem:
        """The problem with hyperparameters other than those learned, moved by a vector."""
        parameters = Parameters.of(self.problem.kernels, self.problem.noises)
        theta = array(parameters.vector + by)
        found = self.problem.with_kernels(parameters.kernels(theta))
        return found.with_noises(parameters.noises(theta))

    def plot(self) -> "Figure":
        """Draw the outer loss, the residuals and the hyperparameters over the run."""
        return plot_learning(self.history, self.evaluations)

    @property
    def kernels(self) -> Kernels:
        return self.problem.kernels

    @property
    def converged(self) -> bool:
        """Whether learning has converged, and the solution with what was learned as well."""
        settled = self.result in (LEARNING.converged, LEARNING.scattered)
        return settled and bool(self.solution.converged)

    @property
    def reason(self) -> str:
        if self.solution.converged:
            return self.result.value
        return f"{self.result.value} The solution with what was learned: {self.solution.reason}"

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"Learned: {state} after {len(self.history)} Gauss-Newton steps and "
            f"{self.factorizations} factorizations. {self.reason}\n{self.solution!r}"
        )


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
    validation: Validation | None = None,
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
    if validation is None and data_conditions(problem):
        validation = LeaveOneOutPredictive()
    elif validation is None:
        validation = HeldOut() if can_hold_out(problem, blocks) else KFold()
    linear_solver = (
        Automatic(nugget=1e-10, refinement=0) if linear_solver is None else linear_solver
    )
    if final_linear_solver is None:
        # What is learned from data holds for the system it was learned with.
        final_linear_solver = (
            linear_solver if isinstance(validation, LeaveOneOutPredictive) else Automatic()
        )
    problem = problem.balanced(blocks)
    if starts:
        problem = with_own_lengthscales(problem, blocks)

    def begun(
        problem: Problem, optimizer: AbstractOptimizer, starts: bool, constant: bool = False
    ) -> Run:
        run = Run(
            problem,
            blocks,
            validation,
            optimizer,
            regularizer,
            default_solver(solver),
            linear_solver,
            mesh,
            seed,
            sampling,
            starts,
            callback,
            constant,
        )
        if start is not None:
            run.begin_at(start)
        return run

    file = None
    if checkpoint is not None:
        settings = {
            "validation": validation,
            "optimizer": optimizer,
            "regularizer": regularizer,
            "starts": starts,
            "method": solver,
            "solver": linear_solver,
            "seed": seed,
            "sampling": sampling,
            "tolerance": tolerance,
        }
        file = Checkpoint(checkpoint, problem, blocks, settings, notes or {})
    stored = None if file is None else file.read()

    def keep(run: Run, before: np.ndarray | None) -> None:
        if file is not None:
            file.write(run, before)

    constant = stationary(problem.kernels, blocks) if starts else None
    before = None
    if constant is None:
        run = begun(problem, _suited(problem) if optimizer is None else optimizer, starts)
        if stored is not None:
            stored.restore(run)
        elif starts:
            compare_starts(run)
    else:
        first = begun(problem.with_kernels(constant), LevenbergMarquardt(), False, True)
        if stored is None:
            compare_settled(first)
        elif stored.constant:
            stored.restore(first)
        elif stored.before is not None:
            first.theta = stored.before
        if stored is None or stored.constant:
            while first.result is None and len(first.history) < _CONSTANT_STEPS:
                keep(first, None)
                first.step(tolerance)
        before = first.theta
        problem = problem.with_kernels(varying(problem.kernels, first.kernels))
        run = begun(problem, _suited(problem) if optimizer is None else optimizer, False)
        if stored is None or stored.constant:
            run.go_on_from(first)
        else:
            run.expect_variation()
            stored.restore(run, first)
    if run.result is LEARNING.step_limit and len(run.history) < max_steps:
        run.result = None
    while run.result is None:
        keep(run, before)
        run.step(tolerance)
        if run.result is None and len(run.history) >= max_steps:
            run.result = LEARNING.step_limit
    keep(run, before)
    if hypergradient == "exact" and run.result is not LEARNING.not_finite:
        follow_exact_gradient(run)
    learned = run.learned_problem
    if throw and run.result is LEARNING.not_finite:
        raise SolveError(f"learn: {run.result.value} Hyperparameters: {learned!r}")
    final_blocks, reached = run.final()
    solution = solve(
        learned,
        final,
        blocks=final_blocks if final is None else None,
        start=start if final is not None else reached,
        seed=seed if final_seed is None else final_seed,
        sampling=sampling,
        linear_solver=final_linear_solver,
        mesh=mesh,
        throw=False,
    )
    # Anything else is worth having, and its result says what it is worth.
    if throw and solution.result in (RESULT.not_positive_definite, RESULT.not_finite):
        raise SolveError(str(solution), solution)
    return Learned(
        learned,
        solution,
        run.result,
        run.factorizations,
        LearningHistory(run.history),
        tuple(run.evaluations),
        final_linear_solver,
        run.spread,
    )
