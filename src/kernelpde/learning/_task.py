"""What is learned, at which points and how: everything of a learning run that does not change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.functionals import Kernels
from kernelpde.gauss_newton import Solver
from kernelpde.learning._evaluation import Parameters, row_scales
from kernelpde.learning._inner import Linearization
from kernelpde.learning._optimizers import AbstractOptimizer
from kernelpde.learning._outer import AbstractRegularizer, condition_weights
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._starts import relative_to, variation, weak_prior
from kernelpde.learning.validation import AbstractValidation, Left, Points
from kernelpde.linear_solvers import Choice, LinearSolver, chosen
from kernelpde.problem import Collocation, LinearizedProblem, Problem, Residual, extents_of


@dataclass(frozen=True)
class Options:
    """How to learn.

    **Attributes:**

    - `validation`, `regularizer`, `solver`, `linear_solver`, `callback`: as in `learn`.
    - `seed`, `sampling`: of the points.
    - `multistart`: whether to look for the best lengthscales to begin with, and around in the end.
    - `free`: numbers of the fields whose variances are held where they leave them free.
    - `held`: numbers of the fields whose lengthscales are held as well.
    """

    validation: AbstractValidation
    regularizer: AbstractRegularizer | None
    solver: Solver
    linear_solver: LinearSolver
    seed: int = 0
    sampling: str = "halton"
    multistart: bool = True
    callback: Callable[[LearningRecord], None] | None = None
    free: tuple[int, ...] = ()
    held: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with hyperparameters to learn.

    **Attributes:**

    - `problem`: with kernels to begin with.
    - `options`, `optimizer`: how.
    - `points`: where.
    - `parameters`: how θ becomes kernels and noise.
    - `constant`: whether lengthscales that may vary are still held constant.
    - `extents`: of the coordinates.
    - `origin`: what θ is compared with to see whether it has run away.
    - `data`: the numbers of the conditions whose density is the loss, if it is one.
    - `regularizer`: that of the options, or what is expected before seeing data.
    - `variation`: how far lengthscales that vary are expected to go from where they begin.
    - `weights`: of the conditions in the loss.
    """

    problem: Problem
    options: Options
    optimizer: AbstractOptimizer
    points: Points
    parameters: Parameters
    constant: bool
    extents: np.ndarray
    origin: np.ndarray
    data: tuple[int, ...] | None
    regularizer: AbstractRegularizer | None
    variation: tuple[np.ndarray, np.ndarray] | None
    weights: tuple[float, ...]

    @staticmethod
    def of(
        problem: Problem,
        blocks: tuple[Collocation, ...],
        options: Options,
        optimizer: AbstractOptimizer,
        *,
        constant: bool = False,
        varies: bool = False,
        left: Left | None = None,
    ) -> "Task":
        """Divide the points, and refuse what cannot be learned.

        **Arguments:**

        - `blocks`: all points.
        - `constant`: as above.
        - `varies`: whether lengthscales begin with constant ones that were learned.
        - `left`: rows to leave out of training; as the plan of validation says unless given.
        """
        plan = options.validation
        left = plan.left_out(problem, blocks, options.seed) if left is None else left
        train = tuple(
            block if rows is None else block.take(np.setdiff1d(np.arange(block.count), rows))
            for block, rows in zip(blocks, left, strict=True)
        )
        data = plan.data_of(problem)
        if any(noise is not None for noise in problem.noises) and data is None:
            raise InputError(
                "learn: noise is learned from the density of data. Use "
                "validation=LeaveOneOutPredictive() or learning.Evidence(), or give the noise."
            )
        parameters = Parameters.of(problem.kernels, problem.noises)
        extents = extents_of(blocks, problem.space.periods)
        if not parameters.vector.size:
            raise InputError("learn: the kernels have no hyperparameters; are all of them frozen?")
        regularizer = options.regularizer
        if data is not None and regularizer is None:
            regularizer = weak_prior(
                parameters,
                extents,
                options.multistart,
                options.free,
                options.held,
            )
        names = tuple(condition.name for condition in problem.conditions)
        return Task(
            problem,
            options,
            optimizer,
            Points(train, blocks, left, options.seed, options.sampling),
            parameters,
            constant,
            extents,
            relative_to(parameters, extents),
            data,
            regularizer,
            variation(parameters) if varies else None,
            condition_weights(names, plan.weights),
        )

    @property
    def plan(self) -> AbstractValidation:
        return self.options.validation

    @property
    def residuals(self) -> tuple[Residual, ...]:
        return self.problem.residuals

    @property
    def blocks(self) -> tuple[Collocation, ...]:
        """The training points."""
        return self.points.train

    def kernels(self, theta: np.ndarray) -> Kernels:
        return self.parameters.kernels(array(theta))

    def problem_at(self, theta: np.ndarray) -> Problem:
        """The problem with other hyperparameters."""
        at = array(theta)
        found = self.problem.with_kernels(self.parameters.kernels(at))
        return found.with_noises(self.parameters.noises(at))

    def hyperparameters_at(self, theta: np.ndarray) -> dict[str, dict[str, Any]]:
        """Those of a vector, by field and name, as numbers and lists of numbers."""
        return {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in self.problem_at(theta).hyperparameters.items()
        }

    def zero(self, blocks: tuple[Collocation, ...]) -> Linearization:
        """What residuals see of u = 0."""
        pairs = list(zip(self.residuals, blocks, strict=True))
        entries = tuple(array(np.zeros((len(b.points), len(r.nonlinear)))) for r, b in pairs)
        rows = sum(b.count * len(r.components) for r, b in pairs)
        return Linearization(entries, array(np.zeros(rows)))

    def row_weights(
        self,
        kernels: Kernels,
        rows: LinearizedProblem,
        blocks: tuple[Collocation, ...],
        alone: bool,
    ) -> np.ndarray:
        """√(w_c / N_c) / s_c for every row; √w_c for rows that are standardized by each other.

        **Arguments:**

        - `alone`: whether there are no points but those for training.
        """
        parts = zip(self.residuals, blocks, self.weights, strict=True)
        if alone and self.plan.standardized:
            return np.concatenate(
                [np.full(b.count * len(r.components), np.sqrt(weight)) for r, b, weight in parts]
            )
        scales = np.asarray(row_scales(kernels, rows))
        weights, start = [], 0
        for residual, block, weight in parts:
            # Each equation by itself: those of a system may have units of their own.
            total = block.count * len(residual.components)
            for _ in residual.components:
                size = np.mean(scales[start : start + block.count])
                weights.append(np.full(block.count, np.sqrt(weight / (total * size))))
                start += block.count
        return np.concatenate(weights)

    def choice(self, kernels: Kernels, nugget: float) -> Choice:
        """How the inner systems of a step are solved."""
        options = self.options
        return chosen(
            eqx.tree_at(lambda s: s.nugget, options.linear_solver, nugget),
            kernels,
            self.residuals,
            self.blocks,
            learning=True,
            needs=self.plan.needs,
        )
