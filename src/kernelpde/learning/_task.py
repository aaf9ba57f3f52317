"""Constant inputs of a learning run: problem, points and options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from kernelpde.arrays import to_array
from kernelpde.errors import InputError
from kernelpde.functionals import Prior
from kernelpde.learning._evaluation import ThetaMap, prior_row_variance
from kernelpde.learning._inner import LinearizationPoint
from kernelpde.learning._optimizers import AbstractOptimizer
from kernelpde.learning._outer import AbstractRegularizer, check_weights
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._starts import theta_reference, varying_prior, weak_prior
from kernelpde.learning.validation import AbstractValidation, HeldOutRows, LearningPoints
from kernelpde.linear_solvers import LinearSolver, SolverChoice, choose_solver
from kernelpde.nonlinear import AbstractNonlinearSolver
from kernelpde.problem import (
    Conditions,
    DiscreteProblem,
    LinearSystem,
    PointSet,
    Problem,
    coordinate_extents,
)


@dataclass(frozen=True)
class LearningOptions:
    """Options of a learning run.

    **Attributes:**

    - `validation`, `regularizer`, `solver`, `linear_solver`, `callback`: as in `learn`.
    - `seed`, `sampling`: seed and method of point sampling.
    - `multistart`: whether to compare starting lengthscales and to search locally at the end.
    - `pinned_variance_fields`: indices of fields with a narrow prior on their variance.
    - `pinned_lengthscale_fields`: indices of fields with a narrow prior on their lengthscales.
    """

    validation: AbstractValidation
    regularizer: AbstractRegularizer | None
    solver: AbstractNonlinearSolver
    linear_solver: LinearSolver
    seed: int = 0
    sampling: str = "halton"
    multistart: bool = True
    callback: Callable[[LearningRecord], None] | None = None
    pinned_variance_fields: tuple[int, ...] = ()
    pinned_lengthscale_fields: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class LearningTask:
    """A problem with hyperparameters to learn.

    **Attributes:**

    - `problem`: problem with the initial kernels.
    - `options`: options of the run.
    - `optimizer`: optimizer of the outer loss.
    - `points`: training and held-out points.
    - `theta_map`: map from θ to kernels and noise.
    - `stationary`: whether varying lengthscales are replaced by constant ones.
    - `extents`: extents of the coordinates.
    - `theta_scale_reference`: θ relative to which divergence is detected.
    - `data`: indices of the conditions whose density is the loss, `None` for other losses.
    - `regularizer`: regularizer of the options; by default a weak prior if there are data.
    - `varying_prior`: prior mean and standard deviation of θ for varying lengthscales, or `None`.
    - `weights`: weights of the conditions in the loss.
    """

    problem: Problem
    options: LearningOptions
    optimizer: AbstractOptimizer
    points: LearningPoints
    theta_map: ThetaMap
    stationary: bool
    extents: np.ndarray
    theta_scale_reference: np.ndarray
    data: tuple[int, ...] | None
    regularizer: AbstractRegularizer | None
    varying_prior: tuple[np.ndarray, np.ndarray] | None
    weights: tuple[float, ...]

    @staticmethod
    def of(
        problem: Problem,
        point_sets: tuple[PointSet, ...],
        options: LearningOptions,
        optimizer: AbstractOptimizer,
        *,
        stationary: bool = False,
        varying: bool = False,
        held_out: HeldOutRows | None = None,
    ) -> "LearningTask":
        """Split the points into training and held-out points, and check that θ can be learned.

        **Arguments:**

        - `point_sets`: all points.
        - `stationary`: whether varying lengthscales are replaced by constant ones.
        - `varying`: whether varying lengthscales start from learned constant ones.
        - `held_out`: held-out rows; selected by the validation if omitted.
        """
        validation = options.validation
        if held_out is None:
            held_out = validation.held_out_rows(problem, point_sets, options.seed)
        train = tuple(
            points
            if rows is None
            else points.select_rows(np.setdiff1d(np.arange(points.rows_per_equation), rows))
            for points, rows in zip(point_sets, held_out, strict=True)
        )
        data = validation.data_condition_indices(problem)
        if any(noise is not None for noise in problem.noises) and data is None:
            raise InputError(
                "learn: LearnedNoise requires the predictive density of data as the loss. Use "
                "validation=LeaveOneOutPredictive() or learning.Evidence(), or specify the noise."
            )
        theta_map = ThetaMap.of(problem.prior, problem.noises)
        extents = coordinate_extents(point_sets, problem.space.periods)
        if not theta_map.vector.size:
            raise InputError(
                "learn: the kernels have no trainable hyperparameters (all are frozen). Unfreeze "
                "one, or call solve."
            )
        regularizer = options.regularizer
        if data is not None and regularizer is None:
            regularizer = weak_prior(
                theta_map,
                extents,
                options.multistart,
                options.pinned_variance_fields,
                options.pinned_lengthscale_fields,
            )
        names = tuple(condition.name for condition in problem.conditions)
        return LearningTask(
            problem,
            options,
            optimizer,
            LearningPoints(train, point_sets, held_out, options.seed, options.sampling),
            theta_map,
            stationary,
            extents,
            theta_reference(theta_map, extents),
            data,
            regularizer,
            varying_prior(theta_map) if varying else None,
            check_weights(names, validation.weights),
        )

    @property
    def validation(self) -> AbstractValidation:
        return self.options.validation

    @property
    def conditions(self) -> Conditions:
        """Conditions at the training points."""
        return self.conditions_at(self.points.train)

    def conditions_at(self, point_sets: tuple[PointSet, ...]) -> Conditions:
        """Return the conditions at some points."""
        return self.problem.at_points(point_sets).conditions

    def prior(self, theta: np.ndarray) -> Prior:
        return self.theta_map.prior(to_array(theta))

    def problem_at(self, theta: np.ndarray) -> Problem:
        """Return the problem with other hyperparameters."""
        return self.theta_map.apply_to(self.problem, to_array(theta))

    def hyperparameters_at(self, theta: np.ndarray) -> dict[str, dict[str, Any]]:
        """Return the hyperparameters of θ by field and name, as numbers and lists of numbers."""
        return {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in self.problem_at(theta).hyperparameters.items()
        }

    def zero(self, point_sets: tuple[PointSet, ...]) -> LinearizationPoint:
        """Return the linearization point of u = 0."""
        conditions = self.conditions_at(point_sets)
        num_rows = sum(condition.num_rows for condition in conditions)
        jets = tuple(condition.zero_jets() for condition in conditions)
        return LinearizationPoint(jets, to_array(np.zeros(num_rows)))

    def row_weights(
        self,
        prior: Prior,
        linearized: LinearSystem,
        conditions: Conditions,
        training_rows_only: bool,
    ) -> np.ndarray:
        """Return √(w_c / N_c) / s_c for every row, or √w_c if training rows are standardized.

        **Arguments:**

        - `training_rows_only`: whether there are no validation points.
        """
        standardized = training_rows_only and self.validation.standardized
        variances = None if standardized else np.asarray(prior_row_variance(prior, linearized))
        weights, start = [], 0
        for condition, weight in zip(conditions, self.weights, strict=True):
            # Equations are scaled separately because they may have different units.
            num_rows = condition.point_set.rows_per_equation
            for _ in range(condition.num_equations):
                squared = weight
                if variances is not None:
                    mean_variance = np.mean(variances[start : start + num_rows])
                    squared = weight / (condition.num_rows * mean_variance)
                weights.append(np.full(num_rows, np.sqrt(squared)))
                start += num_rows
        return np.concatenate(weights)

    def choose_solver(self, prior: Prior, nugget: float) -> SolverChoice:
        """Choose the linear solver of the inner systems of a step."""
        options = self.options
        return choose_solver(
            eqx.tree_at(lambda s: s.nugget, options.linear_solver, nugget),
            DiscreteProblem(prior, self.conditions),
            learning=True,
            needs=self.validation.required_capabilities,
        )
