"""Learning the kernels of a problem."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.bilevel import CheckpointStore, Run
from kernelpde.checking import check_instance, check_integer, check_mapping
from kernelpde.io import digest
from kernelpde.learning._learned import LearningResult
from kernelpde.learning._method import Bilevel, CheckpointFile
from kernelpde.learning._phases import Setup, learn_with_data
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._stationary_start import with_per_coordinate_lengthscales
from kernelpde.learning.validation import (
    AbstractValidation,
    data_conditions,
    default_validation,
)
from kernelpde.linear_solvers import LEARNING_NUGGET, Automatic, LinearSolver
from kernelpde.nonlinear import Points
from kernelpde.precision import require_float64
from kernelpde.problem import Problem, residual_fingerprint
from kernelpde.solution import (
    Solution,
    Start,
    check_common,
    check_linear_solver,
    check_point_sets,
    check_problem,
)


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
    callback: Callable[[LearningRecord], bool | None] | None = None,
    checkpoint: str | Path | CheckpointFile | None = None,
) -> LearningResult:
    """Learn the hyperparameters of a problem's kernels, and solve it with them.

    This is bilevel optimization with a linearized inner problem, section 2 of the paper. Each step
    linearizes the residuals at the iterate uᵏ. The solution of the linearized training problem is
    then an explicit function Π_k(θ) of the hyperparameters, and the optimizer reduces

        ½ Σ_c w_c / N_c Σᵢ (rᵢ(θ) / s_c)² + R(θ),

    with r the linearized residuals of Π_k(θ) at validation points, s_c the rms of such a residual
    under the prior at the start of the step, and R a regularizer. Then uᵏ⁺¹ = Π_k(θ), or a
    fraction of that step if the nonlinear residuals require it.

    **Arguments:**

    - `problem`: problem with initial kernels.
    - `points`: training points per condition, as in `solve`.
    - `validation`: outer loss. The default for noisy data is `LeaveOneOutPredictive()`, the density
      of each datum given the rest. Otherwise it is `HeldOut()`, with `standardized=True` where the
      matrix is certain to be formed (see `Automatic`); some of the user-supplied points are then
      excluded from training. `Resampled()` draws new points in every step, `KFold()` uses folds of
      the training points.
    - `method`: optimizer, regularizer and further settings, and the final solve.
    - `start`: initial guess, a solution or functions, as in `solve`.
    - `linear_solver`: linear solver of the inner systems; by default `Automatic()` with a nugget of
      1e-10 and without refinement.
    - `seed`, `sampling`: seed and method of point sampling.
    - `max_steps`: maximum number of Gauss-Newton steps; 30 by default, with data 80.
    - `throw`: raise `SolveError` if learning or the final solve fails. A solution that did not
      converge is returned with its result code.
    - `callback`: function called with a `LearningRecord` after every evaluation of the outer loss
      and after every step. If it returns True, learning ends with the last hyperparameters.
    - `checkpoint`: file for the state of the run, written after every step. If it exists, the run
      resumes from it, with a bitwise identical result. A file from another problem, other points or
      other settings is rejected. `max_steps` may differ: a run that ended at its limit continues.

    **Example:**

    ```python
    >>> again = kp.learn(problem, points, seed=1)
    >>> sorted(again.problem.hyperparameters["u"])
    ['lengthscale']
    ```
    """
    require_float64()
    check_common("learn", throw, callback)
    _check_arguments(problem, points, validation, method, start, linear_solver, max_steps)
    method = Bilevel() if method is None else method
    problem = problem.retraced()
    if max_steps is None:
        max_steps = 80 if data_conditions(problem) else 30
    if not isinstance(points, tuple):
        points = problem.collocate(points, seed=seed, sampling=sampling)
    linear_solver = linear_solver or Automatic(nugget=LEARNING_NUGGET, refinement_sweeps=0)
    if validation is None:
        validation = default_validation(problem, points, linear_solver)
    problem = problem.with_field_scales(points)
    if method.multistart:
        problem = with_per_coordinate_lengthscales(problem, points)
    setup = Setup(
        problem,
        points,
        validation,
        method,
        linear_solver,
        seed,
        sampling,
        max_steps,
        start,
        callback,
    )
    if checkpoint is not None:
        setup = replace(setup, run=Run(_checkpoint_store(setup, checkpoint)))
    return learn_with_data(setup, throw)


def _checkpoint_store(setup: Setup, checkpoint: str | Path | CheckpointFile) -> CheckpointStore:
    """Return the checkpoint store of a run, which rejects files of other runs."""
    file = checkpoint if isinstance(checkpoint, CheckpointFile) else CheckpointFile(checkpoint)
    problem, method = setup.problem, setup.method
    # Settings are compared first: a different seed also changes data and points, and it is the
    # simpler explanation.
    settings = {
        "validation": setup.validation,
        "regularizer": method.regularizer,
        "multistart": method.multistart,
        "linear solver": setup.linear_solver,
        "seed": setup.seed,
        "sampling": setup.sampling,
        "optimizer": method.optimizer,
        "solver": method.solver,
        "tolerance": method.tolerance,
    }
    identity = {key: _stable_repr(value) for key, value in settings.items()} | {
        "fields": [field.name for field in problem.fields],
        "conditions": [condition.name for condition in problem.conditions],
        "kernels": _stable_repr(jax.tree.map(jnp.shape, problem.prior)),
        "frozen hyperparameters": _stable_repr(jax.tree.structure(problem.prior)),
        "initial hyperparameters": digest(jax.tree.leaves((problem.prior, problem.noises))),
        "data and noise": [digest(jax.tree.leaves(points)) for points in setup.point_sets],
        "arrays in the settings": digest(
            leaf for leaf in jax.tree.leaves(settings) if eqx.is_array_like(leaf)
        ),
    }
    arrays = {}
    for condition, residual, points in zip(
        problem.conditions, problem.residuals, setup.point_sets, strict=True
    ):
        arrays[f"points of {condition.name!r}"] = np.asarray(points.points)
        fingerprint = residual_fingerprint(residual, points)
        arrays[f"equation of {condition.name!r}"] = np.asarray(fingerprint)
    return CheckpointStore(file.path, identity, arrays, file.metadata)


def _stable_repr(value: object) -> str:
    """Return the repr of a value without memory addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _check_arguments(
    problem: Problem,
    points: object,
    validation: object,
    method: Any,
    start: object,
    linear_solver: object,
    max_steps: object,
) -> None:
    """Check the types of the arguments; `collocate` checks the counts of points."""
    check_problem("learn", problem)
    check_point_sets("learn", problem, points)
    names = [condition.name for condition in problem.conditions]
    if validation is not None:
        expected = "HeldOut(), Resampled(), KFold(), LeaveOneOutPredictive() or learning.Evidence()"
        check_instance("learn", "validation", validation, AbstractValidation, expected)
        for argument in ("points", "weights"):
            value = getattr(validation, argument, None)
            if value is not None:
                check_mapping(type(validation).__name__, argument, value, names)
    if method is not None:
        check_instance("learn", "method", method, Bilevel, "learning.Bilevel(...)")
        method.final.check_names(names)
    if start is not None:
        expected = "a Solution, or functions of a point as in {'u': lambda x: x[0]}"
        check_instance("learn", "start", start, (Solution, Mapping), expected)
    check_linear_solver("learn", "linear_solver", linear_solver)
    if max_steps is not None:
        check_integer("learn", "max_steps", max_steps, at_least=1)
