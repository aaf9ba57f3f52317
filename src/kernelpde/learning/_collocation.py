"""Collocation as an inner problem of bilevel optimization."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from kernelpde.arrays import to_array
from kernelpde.bilevel import AbstractCriterion, AbstractInnerProblem, InnerStep, Record
from kernelpde.errors import InputError
from kernelpde.functionals import Prior
from kernelpde.learning._inner_step import (
    LinearizationPoint,
    full_inner_step,
    line_search,
    linearization_point_at,
)
from kernelpde.learning._linearized import (
    CollocationSolution,
    LinearizedCollocation,
    prediction_std,
    prior_row_variance,
)
from kernelpde.learning._outer import CollocationResidual
from kernelpde.learning._predictive import DataDensity
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._theta_map import ThetaMap
from kernelpde.learning.validation import AbstractValidation, HeldOutRows, LearningPoints
from kernelpde.linear_solvers import LinearSolver, choose_solver
from kernelpde.problem import (
    Conditions,
    DiscreteProblem,
    LinearSystem,
    PointSet,
    Problem,
    coordinate_extents,
    linearize,
)
from kernelpde.solution import Start, initial_jets


class Iterate(eqx.Module):
    """State of collocation.

    **Attributes:**

    - `train`, `validation`: linearization points at the training and validation points.
    - `nugget`: nugget of the inner systems.
    - `num_updates`: number of updates, which determines random validation points.
    """

    train: LinearizationPoint
    validation: LinearizationPoint | None
    nugget: float
    num_updates: int


class Collocation(AbstractInnerProblem[LinearizedCollocation]):
    """Collocation of a problem at given points, with hyperparameters θ of its kernels and noise.

    **Attributes:**

    - `problem`: problem with the initial kernels.
    - `validation`: outer loss.
    - `linear_solver`: linear solver of the inner systems.
    - `points`: training and held-out points.
    - `theta_map`: map from θ to kernels and noise.
    - `weights`: weights of the conditions in the loss.
    - `data`: indices of the conditions whose density is the loss, `None` for other losses.
    - `start`: initial guess of the solution, or `None`.
    - `initial_validation_points`: validation points of the first step, or `None`.
    """

    problem: Problem
    validation: AbstractValidation
    linear_solver: LinearSolver
    points: LearningPoints
    theta_map: ThetaMap
    weights: tuple[float, ...]
    data: tuple[int, ...] | None
    start: Start | None
    initial_validation_points: tuple[PointSet, ...] | None

    @staticmethod
    def of(
        problem: Problem,
        points: LearningPoints,
        validation: AbstractValidation,
        linear_solver: LinearSolver,
        start: Start | None = None,
    ) -> "Collocation":
        """Check that the problem has hyperparameters that the validation can learn."""
        data = validation.data_condition_indices(problem)
        if any(noise is not None for noise in problem.noises) and data is None:
            raise InputError(
                "learn: LearnedNoise requires the predictive density of data as the loss. Use "
                "validation=LeaveOneOutPredictive() or learning.Evidence(), or specify the noise."
            )
        theta_map = ThetaMap.of(problem.prior, problem.noises)
        if not theta_map.vector.size:
            raise InputError(
                "learn: the kernels have no trainable hyperparameters (all are frozen). Unfreeze "
                "one, or call solve."
            )
        names = tuple(condition.name for condition in problem.conditions)
        weights = _check_weights(names, validation.weights)
        return Collocation(
            problem,
            validation,
            linear_solver,
            points,
            theta_map,
            weights,
            data,
            start,
            validation.draw_points(problem, points, 0),
        )

    @property
    def criterion(self) -> AbstractCriterion:
        if self.data is not None:
            return DataDensity(self.data, self.validation.predictor)
        return CollocationResidual(self.validation.formula)

    @property
    def factorizations_per_linearization(self) -> int:
        """One for the standard deviations of validation residuals."""
        has_points = self.initial_validation_points is not None
        return int(has_points and self.validation.standardized)

    @property
    def theta(self) -> np.ndarray:
        """Hyperparameters of the problem."""
        return self.theta_map.vector

    @property
    def extents(self) -> np.ndarray:
        """Extents of the coordinates."""
        return coordinate_extents(self.points.all_points, self.problem.space.periods)

    @property
    def conditions(self) -> Conditions:
        """Conditions at the training points."""
        return self.conditions_at(self.points.train)

    @property
    def num_validation_rows(self) -> int:
        """Number of residuals in the loss."""
        conditions, _ = self._batch(self.init())
        return sum(condition.num_rows for condition in conditions or self.conditions)

    def conditions_at(self, point_sets: Sequence[PointSet]) -> Conditions:
        return self.problem.at_points(tuple(point_sets)).conditions

    def validation_points(self, state: Iterate) -> tuple[PointSet, ...] | None:
        """Return the validation points of a step, or `None` without validation points."""
        if state.num_updates == 0 or not self.validation.is_resampled:
            return self.initial_validation_points
        return self.validation.draw_points(self.problem, self.points, state.num_updates)

    def prior(self, theta: np.ndarray) -> Prior:
        return self.theta_map.prior(to_array(theta))

    def problem_at(self, theta: np.ndarray) -> Problem:
        """Return the problem with other hyperparameters."""
        return self.theta_map.apply_to(self.problem, to_array(theta))

    def learning_record(self, record: Record, stationary: bool) -> LearningRecord:
        """Return a record with the hyperparameters by field and name."""
        hyperparameters = {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in self.problem_at(record.theta).hyperparameters.items()
        }
        return LearningRecord(
            record.step,
            record.factorizations,
            record.loss,
            record.theta,
            hyperparameters,
            stationary,
            dict(record.metrics.get("residuals", {})),
            record.step_length,
            record.change,
            record.metrics["nugget"],
            record.seconds,
        )

    def init(self) -> Iterate:
        """Return the iterate `start`, or u = 0."""

        def linearization_point(point_sets: tuple[PointSet, ...]) -> LinearizationPoint:
            conditions = self.conditions_at(point_sets)
            zeros = to_array(np.zeros(sum(condition.num_rows for condition in conditions)))
            if self.start is None:
                jets = tuple(condition.zero_jets() for condition in conditions)
            else:
                jets = initial_jets(self.problem, self.start, point_sets)
            return LinearizationPoint(jets, zeros)

        points = self.initial_validation_points
        return Iterate(
            linearization_point(self.points.train),
            None if points is None else linearization_point(points),
            float(self.linear_solver.nugget),
            0,
        )

    def linearize(self, theta: np.ndarray, state: Iterate) -> LinearizedCollocation:
        prior, training = self.prior(theta), linearize(self.conditions, state.train.jets)
        choice = choose_solver(
            eqx.tree_at(lambda s: s.nugget, self.linear_solver, state.nugget),
            DiscreteProblem(prior, self.conditions),
            learning=True,
            needs=self.validation.required_capabilities,
        )
        solver_state = choice.solver_state
        if state.num_updates == 0:
            choice.log_message()
        conditions, view = self._batch(state)
        if conditions is None or view is None:
            validation, neighbor_groups = None, ()
            weights = self._row_weights(prior, training, self.conditions, True)
        else:
            validation = linearize(conditions, view.jets)
            neighbor_groups = solver_state.neighbors(conditions)
            weights = self._row_weights(prior, validation, conditions, False)
            if self.validation.standardized:
                stds = np.asarray(prediction_std(prior, training, solver_state, validation))
                weights *= _std_weights(stds, [len(batch) for batch in validation.batches])
        folds = self.validation.folds(len(training.rhs), self.points.seed, state.num_updates)
        return LinearizedCollocation(
            self.theta_map,
            training,
            validation,
            to_array(weights),
            solver_state,
            folds,
            neighbor_groups,
        )

    def update(
        self,
        theta: np.ndarray,
        linearized: LinearizedCollocation,
        solution: CollocationSolution,
        state: Iterate,
        lengths: np.ndarray,
    ) -> InnerStep:
        prior, (conditions, batch) = self.prior(theta), self._batch(state)
        systems = linearized.training_system, linearized.validation_system
        train_weights = self._row_weights(prior, systems[0], self.conditions, systems[1] is None)
        step = line_search(
            (self.conditions, conditions),
            (state.train, batch),
            full_inner_step(systems, prior, solution, linearized.neighbor_groups),
            (to_array(train_weights), None if systems[1] is None else linearized.row_weights),
            to_array(lengths),
        )
        names = (condition.name for condition in self.problem.conditions)
        residuals = dict(zip(names, np.asarray(step.residuals).tolist(), strict=True))
        state = Iterate(step.train, step.validation, state.nugget, state.num_updates + 1)
        points = self.validation_points(state)
        if points is not None and self.validation.is_stochastic:
            # Only the linearization point of the previous batch is known.
            conditions = self.conditions_at(points)
            groups = linearized.solver_state.neighbors(conditions)
            view = linearization_point_at(prior, solution, conditions, groups)
            state = replace(state, validation=view)
        return InnerStep(state, float(step.length), float(step.change), {"residuals": residuals})

    def stabilize(self, state: Iterate) -> Iterate | None:
        """Return the state with ten times the nugget, `None` above the maximum of the solver."""
        nugget = 10.0 * state.nugget
        if nugget > self.linear_solver.max_nugget:
            return None
        return replace(state, nugget=nugget)

    def metrics(self, solution: CollocationSolution) -> dict[str, Any]:
        return {"nugget": float(solution.linear_solution.nugget)}

    def _batch(self, state: Iterate) -> tuple[Conditions | None, LinearizationPoint | None]:
        """Return the conditions at the validation points of a step, and the iterate there."""
        points, view, size = self.validation_points(state), state.validation, None
        if points is None or view is None:
            return None, None
        size = self.validation.batch_size
        if size is None:
            return self.conditions_at(points), view
        rng = np.random.default_rng([self.points.seed, 11, state.num_updates])
        # Conditions with zero weight keep one point, so that array shapes are the same for all.
        batches = [
            draw_batch(point_set, size if weight > 0 else 1, rng)
            for point_set, weight in zip(points, self.weights, strict=True)
        ]
        indices = [selected for _, selected in batches]
        conditions = self.conditions_at([batch for batch, _ in batches])
        return conditions, LinearizationPoint(
            tuple(jets[selected] for jets, selected in zip(view.jets, indices, strict=True)),
            view.linear[_row_indices(self.conditions_at(points), indices)],
        )

    def _row_weights(
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


def split_points(
    point_sets: tuple[PointSet, ...], held_out: HeldOutRows, seed: int, sampling: str
) -> LearningPoints:
    """Split point sets into training and held-out points."""
    train = tuple(
        points
        if rows is None
        else points.select_rows(np.setdiff1d(np.arange(points.rows_per_equation), rows))
        for points, rows in zip(point_sets, held_out, strict=True)
    )
    return LearningPoints(train, point_sets, held_out, seed, sampling)


def draw_batch(
    point_set: PointSet, size: int, rng: np.random.Generator
) -> tuple[PointSet, np.ndarray]:
    """Draw points of a point set and return them with their indices; averages are kept whole."""
    count = point_set.rows_per_equation
    if point_set.quadrature is not None:
        return point_set, np.arange(count)
    indices = np.sort(rng.choice(count, size=min(size, count), replace=False))
    return point_set.select_rows(indices), indices


def _row_indices(conditions: Conditions, indices: list[np.ndarray]) -> np.ndarray:
    """Return the row indices that belong to the point indices of all conditions."""
    rows, start = [], 0
    for condition, selected in zip(conditions, indices, strict=True):
        for _ in range(condition.num_equations):
            rows.append(start + selected)
            start += condition.point_set.rows_per_equation
    return np.concatenate(rows)


def _std_weights(stds: np.ndarray, counts: list[int]) -> np.ndarray:
    """Return min(1, median / std) for every row, with the median over its equation.

    Smaller standard deviations do not increase the weight, because far from suitable kernels they
    are dominated by rounding errors.
    """
    equations = np.split(stds, np.cumsum(counts)[:-1])
    medians = np.concatenate([np.full(len(rows), np.median(rows)) for rows in equations])
    return medians / np.maximum(medians, stds)


def _check_weights(
    names: tuple[str, ...], weights: Mapping[str, float] | None
) -> tuple[float, ...]:
    """Return the weight of each condition in the outer loss: 1 by default, 0 to exclude it."""
    by_name = {} if weights is None else dict(weights)
    unknown = set(by_name) - set(names)
    if unknown:
        raise InputError(
            f"weights: no condition is named {', '.join(map(repr, sorted(unknown)))}. Expected "
            f"names among {', '.join(map(repr, names))}."
        )
    values = tuple(float(by_name.get(name, 1.0)) for name in names)
    if any(value < 0 or not np.isfinite(value) for value in values) or not any(values):
        raise InputError(
            f"weights: expected nonnegative numbers, at least one of them positive; got {values}."
        )
    return values
