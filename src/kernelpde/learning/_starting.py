"""Where a learning run begins: the best of several lengthscales."""

from dataclasses import replace
from typing import Any

import numpy as np

from kernelpde.arrays import array
from kernelpde.learning._evaluation import loss_and_state
from kernelpde.learning._outer import Around
from kernelpde.learning._starts import MIDDLE, larger, lengthscales, spread
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._step import Tally, batch_of, best_of, moved_on, outer_loss_at
from kernelpde.learning._task import Task
from kernelpde.learning._warm import unlike
from kernelpde.linear_solvers import Automatic

_SETTLING, _STILL = 12, 0.05
"""Maximum number of inner steps for each start, and the change of the state at which they end."""

_MANY, _FEW = 6000, 2500
"""With more rows than the first, starts are compared with about as many as the second."""


def compare_starts(task: Task, state: LearningState) -> LearningState:
    """Begin with the best of several lengthscales, by the outer loss at u = 0.

    Data say nothing of a coefficient before there is a solution; with them the lengthscales
    begin where they are expected. If their noise is to be learned too, it must not take for itself
    what a larger unknown field would explain: then several sizes of that are compared.
    """
    if isinstance(task.regularizer, Around):
        center = np.asarray(task.regularizer.center)
        state = replace(state, theta=np.where(lengthscales(task.parameters), center, state.theta))
    candidates = spread(task.parameters, task.extents)
    if task.data is not None:
        sizes = larger(task.parameters, state.theta, task.options.free)
        return _best_settled(task, state, sizes, task.kernels(state.theta)) if sizes else state
    if not candidates:
        return state
    rows = task.problem.row_count(task.blocks)
    few, begin = task, state
    if rows > _MANY:
        few = thinned(task, _FEW / rows)
        begin = init(few)
    outer, begin = outer_loss_at(few, begin, task.kernels(candidates[MIDDLE]))
    tally = Tally.of(few, begin)
    theta, value = best_of(tally, outer.loss, [state.theta, *candidates])
    state = tally.into(begin if few is task else state)
    return replace(state, theta=theta) if np.isfinite(value) else state


def thinned(task: Task, share: float) -> Task:
    """A task with a part of the points, and the linear solver that suits them."""
    options = task.options
    rng = np.random.default_rng([options.seed, 13])

    def some(count: int) -> int:
        return max(1, round(share * count))

    blocks, left = [], []
    for whole, rows in zip(task.points.whole, task.points.left, strict=True):
        if rows is None:
            blocks.append(batch_of(whole, some(whole.count), rng)[0])
            left.append(None)
            continue
        kept = np.setdiff1d(np.arange(whole.count), rows)
        kept, rows = (rng.choice(r, size=some(len(r)), replace=False) for r in (kept, rows))
        blocks.append(whole.take(np.concatenate([kept, rows])))
        left.append(np.arange(len(kept), len(kept) + len(rows)))
    solver = options.linear_solver
    fewer = replace(
        options,
        validation=options.validation.thinned(share),
        regularizer=task.regularizer,
        linear_solver=Automatic(float(solver.nugget), solver.largest_nugget, refinement=0),
    )
    return Task.of(task.problem, tuple(blocks), fewer, task.optimizer, left=tuple(left))


def compare_settled(task: Task, state: LearningState) -> LearningState:
    """Begin with the best of several lengthscales and the state that belongs to it.

    Each is given some steps of the inner iteration first: where a solution is rough, the
    problem linearized at u = 0 says nothing of it.
    """
    # In one family: the same for all coordinates, unless these have units of their own.
    families, size = spread(task.parameters, task.extents), 2 * MIDDLE
    candidates = families[:size] if unlike(task.extents) else families[-size:]
    return _best_settled(task, state, candidates, task.kernels(candidates[MIDDLE]))


def _best_settled(
    task: Task, state: LearningState, candidates: list[np.ndarray], middle: Any
) -> LearningState:
    """The candidate with the lowest loss after some inner steps, and the state it has led to."""
    begin, tally = state, Tally.of(task, state)
    best, lowest = state, np.inf
    for theta in candidates:
        # Batches go on where those of the last candidate ended.
        state = replace(state, theta=theta, train=begin.train, pool_view=begin.pool_view)
        kernels, value = task.kernels(theta), np.inf
        for _ in range(_SETTLING):
            outer, state = outer_loss_at(task, state, middle)
            value, reached = loss_and_state(array(theta), outer.loss)
            tally.factorizations += 1
            value = float(value) if bool(reached.usable) else np.inf
            if not np.isfinite(value):
                break
            state, progress = moved_on(task, state, outer, kernels, reached, np.ones(1))
            if float(progress.change) < _STILL:
                break
        tally.record(value, theta, state.nugget, None)
        if value < lowest:
            best, lowest = state, value
    best = replace(best, random=state.random, announced=state.announced)
    return tally.into(best)
