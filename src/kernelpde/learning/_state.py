"""A learning run under way, as a value."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpde.gauss_newton import Start, start_entries
from kernelpde.learning._inner import Linearization
from kernelpde.learning._pace import Pace
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._task import Task
from kernelpde.problem import Collocation

_LOCAL_SEARCHES = 4
"""Maximum number of searches for better lengthscales around those to which learning converged."""


@dataclass(frozen=True, eq=False)
class LearningState:
    """Where learning is. A step leads from one to the next; the run file holds one.

    **Attributes:**

    - `theta`: the hyperparameters.
    - `train`, `pool_view`: what the residuals at training and validation points see of the state.
    - `pool`: the validation points.
    - `memory`: of the optimizer.
    - `pace`: what the steps so far say about the next one.
    - `nugget`: of the inner systems.
    - `random`: state of the generator that draws batches.
    - `local_searches`: how many searches for better lengthscales are left once it has converged.
    - `covariance`: with data, that of the hyperparameters.
    - `followed`: the last hyperparameters that the linear solver could follow.
    - `announced`: the kind of linear solver that was told of.
    - `factorizations`, `history`, `evaluations`: what was done.
    - `started`: when, on the clock of this process.
    - `result`: why it ended; `None` while it goes on.
    """

    theta: np.ndarray
    train: Linearization
    pool: tuple[Collocation, ...] | None
    pool_view: Linearization | None
    memory: Any
    pace: Pace
    nugget: float
    random: Mapping[str, Any]
    local_searches: int
    covariance: np.ndarray | None
    followed: np.ndarray | None
    announced: type | None
    factorizations: int
    history: tuple[LearningRecord, ...]
    evaluations: tuple[LearningRecord, ...]
    started: float
    result: RESULTS | None

    @property
    def done(self) -> bool:
        return self.result is not None

    @property
    def seconds(self) -> float:
        """Since learning began, those before an interruption included."""
        return time.perf_counter() - self.started


def init(task: Task, start: Start | None = None) -> LearningState:
    """The state before the first step.

    **Arguments:**

    - `task`: what is learned.
    - `start`: a solution or functions at which to linearize first; u = 0 if left out.
    """
    pool = task.plan.drawn(task.problem, task.points, 0)
    train, view = task.zero(task.blocks), None if pool is None else task.zero(pool)
    if start is not None:
        train = Linearization(start_entries(task.problem, start, task.blocks), train.linear)
        if pool is not None and view is not None:
            view = Linearization(start_entries(task.problem, start, pool), view.linear)
    return LearningState(
        theta=task.parameters.vector,
        train=train,
        pool=pool,
        pool_view=view,
        memory=None,
        pace=Pace(task.data is not None, task.plan.changes),
        nugget=float(task.options.linear_solver.nugget),
        random=np.random.default_rng([task.options.seed, 11]).bit_generator.state,
        local_searches=_LOCAL_SEARCHES,
        covariance=None,
        followed=None,
        announced=None,
        factorizations=0,
        history=(),
        evaluations=(),
        started=time.perf_counter(),
        result=None,
    )
