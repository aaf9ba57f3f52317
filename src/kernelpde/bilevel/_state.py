"""State of a bilevel optimization between two steps, and its records."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelpde.bilevel._optimizers import AbstractOptimizer
from kernelpde.bilevel._protocol import AbstractCriterion, AbstractInnerProblem
from kernelpde.bilevel._regularizers import AbstractRegularizer
from kernelpde.bilevel._step_control import StepControl
from kernelpde.results import RESULTS

_LOCAL_SEARCHES = 4
"""Maximum number of local searches after convergence."""


@dataclass(frozen=True, eq=False)
class Record:
    """Record of one evaluation of the outer objective, or of one step.

    **Attributes:**

    - `step`: index of the step, from 1; 0 during the comparison of starts.
    - `factorizations`: number of factorizations so far.
    - `loss`: outer objective.
    - `theta`: hyperparameters.
    - `step_length`: fraction of the update of the state; `None` for an evaluation.
    - `change`: relative change of the state; `None` for an evaluation.
    - `seconds`: seconds since the start.
    - `metrics`: figures of the inner problem.
    """

    step: int
    factorizations: int
    loss: float
    theta: np.ndarray
    step_length: float | None
    change: float | None
    seconds: float
    metrics: dict[str, Any]

    @property
    def is_step(self) -> bool:
        """True for a completed step, false for a single evaluation of the objective."""
        return self.step_length is not None


@dataclass(frozen=True, eq=False)
class Starts:
    """Starting hyperparameters to compare by successive halving.

    In each round every candidate updates its state, and the better half remains.
    Without updates one round at the common initial state decides.

    **Attributes:**

    - `thetas`: candidates.
    - `reference`: hyperparameters at which the inner problem is linearized for all of them.
    - `num_updates`: number of updates per round.
    - `inner`: smaller version of the inner problem for a comparison without updates, or `None`.
    """

    thetas: tuple[np.ndarray, ...]
    reference: np.ndarray
    num_updates: int = 0
    inner: AbstractInnerProblem | None = None


class StopOptimization(Exception):
    """Raised in a step whose callback ends the optimization. The state before it is the last."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Starting hyperparameters that remain in the comparison, with their state and objective."""

    theta: np.ndarray
    inner: Any
    loss: float


@dataclass(frozen=True, eq=False)
class Task:
    """Constant inputs of a bilevel optimization.

    **Attributes:**

    - `criterion`: outer criterion.
    - `inner`: inner problem.
    - `theta`: initial hyperparameters.
    - `optimizer`: optimizer of the outer objective.
    - `regularizer`: R(θ), or `None`.
    - `tolerance`: convergence tolerance on the change of θ in a step; 0 runs all steps.
    - `max_steps`, `max_factorizations`: limits.
    - `starts`: candidates to start from, or `None`.
    - `neighbors`: map from a converged θ to candidates of a local search, or `None`.
    - `center`: θ relative to which divergence is detected; `theta` if `None`.
    - `stochastic`: whether the objective is random from step to step.
    - `inexact`: whether R(u) does not vanish at the solution, as with noisy data. Updates of the
      state then converge linearly.
    - `step_lengths`: fractions of an update to choose from.
    - `callback`: function called with each record. If it returns True, the optimization ends.
    """

    criterion: AbstractCriterion
    inner: AbstractInnerProblem
    theta: np.ndarray
    optimizer: AbstractOptimizer
    regularizer: AbstractRegularizer | None = None
    tolerance: float = 1e-3
    max_steps: int = 30
    max_factorizations: int | None = None
    starts: Starts | None = None
    neighbors: Callable[[np.ndarray], list[np.ndarray]] | None = None
    center: np.ndarray | None = None
    stochastic: bool = False
    inexact: bool = False
    step_lengths: tuple[float, ...] = (1.0,)
    callback: Callable[[Record], bool | None] | None = None


@dataclass(frozen=True, eq=False)
class State:
    """State of a bilevel optimization, which a step maps to the next and a checkpoint stores.

    **Attributes:**

    - `theta`: hyperparameters θᵏ.
    - `inner`: state uᵏ of the inner problem.
    - `loss`: outer objective of the last step, or the lowest of the compared starts.
    - `candidates`: remaining starts; a single one after the comparison.
    - `optimizer_state`: internal state of the optimizer.
    - `control`: history of the steps, which controls the next one.
    - `local_searches`: remaining number of local searches.
    - `covariance`: inverse curvature of a criterion without residual form, a covariance of θ.
    - `feasible_theta`: last θ that could be linearized.
    - `factorizations`: number of factorizations.
    - `previous_steps`: number of steps before this optimization.
    - `history`, `evaluations`: records of steps and evaluations.
    - `started`: `time.perf_counter()` at the start.
    - `result`: result code; `None` while the optimization continues.
    """

    theta: np.ndarray
    inner: Any
    loss: float
    control: StepControl
    candidates: tuple[Candidate, ...] = ()
    optimizer_state: Any = None
    local_searches: int = _LOCAL_SEARCHES
    covariance: np.ndarray | None = None
    feasible_theta: np.ndarray | None = None
    factorizations: int = 0
    previous_steps: int = 0
    history: tuple[Record, ...] = ()
    evaluations: tuple[Record, ...] = ()
    started: float = field(default_factory=time.perf_counter)
    result: RESULTS | None = None

    @property
    def has_ended(self) -> bool:
        return self.result is not None

    @property
    def num_steps(self) -> int:
        """Number of steps, including previous optimizations."""
        return self.previous_steps + len(self.history)

    @property
    def seconds(self) -> float:
        """Seconds since the start, including those before an interruption."""
        return time.perf_counter() - self.started


def init(task: Task, previous: State | None = None, inner_state: Any = None) -> State:
    """Return the state before the first step.

    **Arguments:**

    - `previous`: last state of a previous optimization, whose counts are continued.
    - `inner_state`: state of the inner problem to start from; its initial state by default.
    """
    inner_state = task.inner.init() if inner_state is None else inner_state
    thetas = () if task.starts is None else task.starts.thetas
    state = State(
        np.asarray(task.theta, dtype=float),
        inner_state,
        np.inf,
        StepControl(task.inexact, task.stochastic),
        tuple(Candidate(theta, inner_state, np.inf) for theta in thetas),
    )
    if previous is None:
        return state
    counts = {
        "loss": previous.loss,
        "factorizations": previous.factorizations,
        "previous_steps": previous.num_steps,
        "started": previous.started,
    }
    return State(**(vars(state) | counts))
