"""Driver of bilevel optimizations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from kernelpde.bilevel._checkpoint import CheckpointStore
from kernelpde.bilevel._optimizers import AbstractOptimizer, GaussNewtonCG, LevenbergMarquardt
from kernelpde.bilevel._protocol import AbstractCriterion, AbstractInnerProblem
from kernelpde.bilevel._state import Record, State, StopOptimization, Task, init
from kernelpde.bilevel._step import step
from kernelpde.io import digest
from kernelpde.results import RESULTS

_MAX_JACOBIAN_PARAMETERS = 300
"""Number of hyperparameters up to which the default optimizer forms the Jacobian."""


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of a bilevel optimization.

    **Attributes:**

    - `theta`: hyperparameters.
    - `state`: state u of the inner problem, Π_k(θ) of the last step.
    - `result`: result code.
    - `factorizations`: number of factorizations.
    - `history`: one record per step.
    - `evaluations`: one record per evaluation of the outer objective.
    - `covariance`: covariance of θ if the criterion is a density, else `None`.
    """

    theta: np.ndarray
    state: Any
    result: RESULTS
    factorizations: int
    history: tuple[Record, ...]
    evaluations: tuple[Record, ...]
    covariance: np.ndarray | None

    @property
    def converged(self) -> bool:
        return self.result in (RESULTS.converged, RESULTS.fluctuating)

    @property
    def message(self) -> str:
        return self.result.value


def default_optimizer(num_parameters: int) -> AbstractOptimizer:
    """Return the default optimizer for a number of hyperparameters."""
    is_small = num_parameters <= _MAX_JACOBIAN_PARAMETERS
    return LevenbergMarquardt() if is_small else GaussNewtonCG()


class Run:
    """Sequence of optimizations with one checkpoint file, which stores the last state of each.

    Optimizations that the file contains are not repeated. Further computations must be
    deterministic functions of their results.

    **Arguments:**

    - `store`: checkpoint store, or `None`.
    """

    def __init__(self, store: CheckpointStore | None = None):
        self._store = store
        self._stored = [] if store is None else store.read()
        self._states: list[State] = []

    def minimize(self, task: Task, previous: State | None = None, inner_state: Any = None) -> State:
        """Return the last state of the next optimization.

        **Arguments:**

        - `task`: constant inputs.
        - `previous`, `inner_state`: as in `init`.
        """
        state, index = init(task, previous, inner_state), len(self._states)
        if self._store is not None and index < len(self._stored):
            state = self._store.restore(task, state, self._stored[index])
        is_limited = state.result is RESULTS.max_steps_reached and state.num_steps < task.max_steps
        if is_limited or state.result is RESULTS.stopped:
            # Later optimizations started from a state that is not final.
            state, self._stored = replace(state, result=None), self._stored[: index + 1]
        while not state.has_ended:
            self._write(state)
            try:
                state = _check_limits(task, step(task, state))
            except StopOptimization:
                state = replace(state, result=RESULTS.stopped)
        self._states.append(state)
        self._write()
        return state

    def _write(self, *last: State) -> None:
        if self._store is not None and len(self._states) + len(last) >= len(self._stored):
            self._store.write([*self._states, *last])


def _check_limits(task: Task, state: State) -> State:
    """Return the state, ended if it has reached a limit."""
    limit = task.max_factorizations
    if state.has_ended:
        return state
    if state.history and state.num_steps >= task.max_steps:
        return replace(state, result=RESULTS.max_steps_reached)
    if limit is not None and state.factorizations >= limit:
        return replace(state, result=RESULTS.max_factorizations_reached)
    return state


def minimize(
    criterion: AbstractCriterion,
    inner: AbstractInnerProblem,
    theta: np.ndarray,
    *,
    optimizer: AbstractOptimizer | None = None,
    max_factorizations: int | None = None,
    callback: Callable[[Record], bool | None] | None = None,
    checkpoint: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Learned:
    """Minimize J(Π(θ)) + R(θ) over θ by linearizations of the inner problem.

    Each step linearizes the inner problem about uᵏ and reduces J_k(θ) = J(Π_k(θ)) + R(θ) from θᵏ
    in a trust region, which gives θᵏ⁺¹. Then uᵏ⁺¹ = Π_k(θᵏ⁺¹), or a fraction of this step.

    **Arguments:**

    - `criterion`: outer criterion J.
    - `inner`: inner problem.
    - `theta`: initial hyperparameters, with logarithms of positive ones.
    - `optimizer`: `LevenbergMarquardt()` by default, with many hyperparameters `GaussNewtonCG()`.
    - `max_factorizations`: limit on the number of evaluations of Π_k.
    - `callback`: function called with the `Record` of each evaluation and each step. If it returns
      True, the optimization ends.
    - `checkpoint`: file for the state of the run. If it exists, the run resumes from it.
    - `settings`: further attributes of `Task`, such as `regularizer`, `starts` or `tolerance`.
    """
    theta = np.asarray(theta, dtype=float)
    optimizer = default_optimizer(theta.size) if optimizer is None else optimizer
    task = Task(
        criterion,
        inner,
        theta,
        optimizer,
        max_factorizations=max_factorizations,
        callback=callback,
        **(settings or {}),
    )
    store = None
    if checkpoint is not None:
        leaves = jax.tree.leaves((criterion, inner, theta, task.regularizer))
        inputs = digest(leaf for leaf in leaves if eqx.is_array_like(leaf))
        identity = {"inputs": inputs, "optimizer": repr(optimizer)}
        store = CheckpointStore(checkpoint, identity, {}, {})
    state = Run(store).minimize(task)
    assert state.result is not None
    return Learned(
        state.theta,
        state.inner,
        state.result,
        state.factorizations,
        state.history,
        state.evaluations,
        state.covariance,
    )
