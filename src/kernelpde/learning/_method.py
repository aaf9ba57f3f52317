"""Settings of `learn`: method, final solve and checkpoint file."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import optax

from kernelpde.bilevel import AbstractOptimizer, AbstractRegularizer
from kernelpde.checking import (
    check_bool,
    check_instance,
    check_integer,
    check_mapping,
    check_real,
    format_value,
)
from kernelpde.errors import InputError
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import AbstractNonlinearSolver
from kernelpde.solution import SolveRecord, check_linear_solver, check_solver


@dataclass(frozen=True)
class FinalSolve:
    """The solve with the learned kernels.

    **Arguments:**

    - `points`: number of points per condition; by default the training and validation points.
    - `seed`: seed of these points; the seed of `learn` by default.
    - `linear_solver`: linear solver; `Automatic()` by default, with data the one used for learning.
    - `max_steps`: maximum number of Gauss-Newton steps.
    - `callback`: as for `solve`.
    """

    points: Mapping[str, int] | None = None
    seed: int | None = None
    linear_solver: LinearSolver | None = None
    max_steps: int = 50
    callback: Callable[[SolveRecord], bool | None] | None = None

    def __post_init__(self):
        check_integer("FinalSolve", "max_steps", self.max_steps, at_least=1)
        if self.points is not None and not isinstance(self.points, Mapping):
            raise InputError(
                f"FinalSolve: points must be a dictionary; got {format_value(self.points)}. Write "
                "FinalSolve({'equation': 600})."
            )
        if self.seed is not None:
            check_integer("FinalSolve", "seed", self.seed, at_least=0)
        check_linear_solver("FinalSolve", "linear_solver", self.linear_solver)

    def check_names(self, names: list[str]) -> None:
        """Check that `points` refers to conditions with these names."""
        if self.points is not None:
            count = partial(check_integer, at_least=1)
            check_mapping("FinalSolve", "points", self.points, names, count, "")


@dataclass(frozen=True)
class Bilevel:
    """Bilevel optimization with a linearized inner problem, section 2 of the paper.

    **Arguments:**

    - `optimizer`: `learning.LevenbergMarquardt()` by default, with more than 300 hyperparameters
      `learning.GaussNewtonCG()`; `paper_adam()` as published, any `Optax`, or `LBFGS`.
    - `regularizer`: penalty on the hyperparameters, added to the outer loss.
    - `solver`: solver of the inner steps; `GaussNewton()` always uses full steps.
    - `tolerance`: convergence tolerance on the change of the log hyperparameters in a step; 0 runs
      all `max_steps`.
    - `multistart`: compare starting lengthscales from 3% of the domain to all of it by one
      factorization each, and search locally after convergence. Lengthscales that vary over the
      domain are first learned as constants. If false, start from the initial lengthscales and
      converge to a local minimum near them.
    - `final`: settings of the solve with the learned kernels.
    """

    optimizer: AbstractOptimizer | None = None
    regularizer: AbstractRegularizer | None = None
    solver: AbstractNonlinearSolver | None = None
    tolerance: float = 1e-3
    multistart: bool = True
    final: FinalSolve = field(default_factory=FinalSolve)

    def __post_init__(self):
        if isinstance(self.optimizer, optax.GradientTransformation):
            raise InputError(
                "Bilevel: optimizer is an optax transformation. Wrap it: Optax(optax.adam(1e-2))."
            )
        if self.optimizer is not None:
            expected = "LevenbergMarquardt(), GaussNewtonCG(), LBFGS() or Optax(...)"
            check_instance("Bilevel", "optimizer", self.optimizer, AbstractOptimizer, expected)
        if self.regularizer is not None:
            expected = "L2(1e-3), L1(1e-3) or LogNormal(0.2, 1.0)"
            check_instance(
                "Bilevel", "regularizer", self.regularizer, AbstractRegularizer, expected
            )
        check_solver("Bilevel", self.solver)
        check_real("Bilevel", "tolerance", self.tolerance, at_least=0)
        check_bool("Bilevel", "multistart", self.multistart)
        expected = "a FinalSolve such as FinalSolve({'equation': 600})"
        check_instance("Bilevel", "final", self.final, FinalSolve, expected)


@dataclass(frozen=True)
class CheckpointFile:
    """Checkpoint file of a learning run, with metadata to store in it.

    **Arguments:**

    - `path`: path of the file.
    - `metadata`: JSON-serializable dictionary.
    """

    path: str | Path
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.path, str | os.PathLike):
            raise InputError(
                f"CheckpointFile: path must be the name of a file, such as 'run.kpde'; got "
                f"{format_value(self.path)}."
            )
        if not isinstance(self.metadata, Mapping):
            raise InputError(
                f"CheckpointFile: metadata must be a dictionary; got {format_value(self.metadata)}."
            )
        try:
            json.dumps(dict(self.metadata))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"CheckpointFile: metadata must be JSON-serializable: {error}."
            ) from error
