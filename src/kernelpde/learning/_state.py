"""State of a learning run between two steps."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpde.learning._inner import LinearizationPoint
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._step_control import StepControl
from kernelpde.learning._task import LearningTask
from kernelpde.problem import PointSet
from kernelpde.solution import Start, initial_jets

_LOCAL_SEARCHES = 4
"""Maximum number of local searches for better lengthscales after convergence."""


@dataclass(frozen=True, eq=False)
class LearningState:
    """State of learning, which a step maps to the next state and a checkpoint stores.

    **Attributes:**

    - `theta`: hyperparameters.
    - `train_linearization`, `validation_linearization`: linearization points at the training and
      validation points.
    - `validation_points`: validation points.
    - `optimizer_state`: internal state of the optimizer.
    - `step_control`: history of the steps, which controls the next one.
    - `nugget`: nugget of the inner systems.
    - `rng_state`: state of the random generator that draws batches.
    - `local_searches`: remaining number of local searches after convergence.
    - `covariance`: with data, covariance of the hyperparameters.
    - `last_feasible_theta`: last hyperparameters that the linear solver accepted.
    - `logged_solver`: linear-solver type already reported in the log.
    - `factorizations`: number of factorizations.
    - `history`, `evaluations`: records of the steps and of the evaluations.
    - `started`: `time.perf_counter()` at the start of learning.
    - `result`: result code; `None` while learning continues.
    """

    theta: np.ndarray
    train_linearization: LinearizationPoint
    validation_points: tuple[PointSet, ...] | None
    validation_linearization: LinearizationPoint | None
    optimizer_state: Any
    step_control: StepControl
    nugget: float
    rng_state: Mapping[str, Any]
    local_searches: int
    covariance: np.ndarray | None
    last_feasible_theta: np.ndarray | None
    logged_solver: type | None
    factorizations: int
    history: tuple[LearningRecord, ...]
    evaluations: tuple[LearningRecord, ...]
    started: float
    result: RESULTS | None

    @property
    def has_ended(self) -> bool:
        return self.result is not None

    @property
    def seconds(self) -> float:
        """Seconds since the start of learning, including those before an interruption."""
        return time.perf_counter() - self.started


def init(task: LearningTask, start: Start | None = None) -> LearningState:
    """Return the state before the first step, linearized at `start` or u = 0."""

    def linearization_point(point_sets: tuple[PointSet, ...]) -> LinearizationPoint:
        zero = task.zero(point_sets)
        if start is None:
            return zero
        return LinearizationPoint(initial_jets(task.problem, start, point_sets), zero.linear)

    validation_points = task.validation.draw_points(task.problem, task.points, 0)
    return LearningState(
        theta=task.theta_map.vector,
        train_linearization=linearization_point(task.points.train),
        validation_points=validation_points,
        validation_linearization=(
            None if validation_points is None else linearization_point(validation_points)
        ),
        optimizer_state=None,
        step_control=StepControl(task.data is not None, task.validation.is_stochastic),
        nugget=float(task.options.linear_solver.nugget),
        rng_state=np.random.default_rng([task.options.seed, 11]).bit_generator.state,
        local_searches=_LOCAL_SEARCHES,
        covariance=None,
        last_feasible_theta=None,
        logged_solver=None,
        factorizations=0,
        history=(),
        evaluations=(),
        started=time.perf_counter(),
        result=None,
    )
