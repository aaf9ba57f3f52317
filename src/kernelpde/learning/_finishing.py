"""The end of a learning run: with the gradient of the true objective, and at all points."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.learning._exact import Objective, exact_gradients
from kernelpde.learning._optimizers import LBFGS, Evaluation, LevenbergMarquardt
from kernelpde.learning._state import LearningState
from kernelpde.learning._step import Tally, evaluation_of, outer_loss_at
from kernelpde.learning._task import Task
from kernelpde.problem import Collocation


def follow_exact_gradient(task: Task, state: LearningState, inner_steps: int = 5) -> LearningState:
    """Go on with the true objective, whose gradient sees the linearization point move.

    Curvature is that of the linearized loss.

    **Arguments:**

    - `task`, `state`: of learning.
    - `inner_steps`: Gauss-Newton steps per evaluation, from the last state that was kept.
    """
    if not task.plan.stays:
        raise InputError(
            "learn: the exact hypergradient needs validation points that stay; "
            f"got {task.plan!r}. Use HeldOut() without batches."
        )
    (loss, _, _), state = outer_loss_at(task, state, task.kernels(state.theta))
    assert state.pool is not None
    objective = Objective(
        task.parameters,
        task.residuals,
        task.blocks,
        state.pool,
        loss.row_weights,
        loss.plan,
        loss.near,
    )
    tally = Tally.of(task, state)
    linearized_loss, start = evaluation_of(tally, loss), state.train.jets

    def evaluate(theta: np.ndarray) -> Evaluation:
        held = linearized_loss(theta)
        if not held.finite:
            return held
        at = array(theta)
        value, gradient, _ = exact_gradients(objective, at, start, inner_steps)
        tally.factorizations += inner_steps + 2
        if task.regularizer is not None:
            roots, pull = jax.vjp(task.regularizer.roots, at)
            value, gradient = value + 0.5 * roots @ roots, gradient + pull(roots)[0]
        return Evaluation(theta, float(value), np.asarray(gradient), held.normal, None)

    optimizer = LevenbergMarquardt(steps=5) if task.optimizer.curvature == "matrix" else LBFGS()
    best, _ = optimizer.minimize(evaluate, state.theta, None, 1.0)
    state = tally.into(state)
    return replace(state, theta=best.theta) if best.finite else state


def all_points(
    task: Task, state: LearningState
) -> tuple[tuple[Collocation, ...], tuple[Array, ...]]:
    """Training and validation points together, and what is known of the state there."""
    if state.pool is None or state.pool_view is None:
        return task.blocks, state.train.jets
    points = task.points
    blocks, entries = [], []
    for block, other, whole, rows, known, more in zip(
        points.train,
        state.pool,
        points.whole,
        points.left,
        state.train.jets,
        state.pool_view.jets,
        strict=True,
    ):
        if rows is not None:
            # In the order in which the user gave them.
            kept = np.setdiff1d(np.arange(whole.count), rows)
            order = np.argsort(whole.points_of(np.concatenate([kept, rows])))
            blocks.append(whole)
            entries.append(array(np.asarray(_joined(known, more))[order]))
        elif np.array_equal(block.points, other.points):
            blocks.append(block)
            entries.append(known)
        else:
            blocks.append(jax.tree.map(_joined, block, other))
            entries.append(_joined(known, more))
    return tuple(blocks), tuple(entries)


def _joined(first: Array, second: Array) -> Array:
    return array(np.concatenate([np.asarray(first), np.asarray(second)]))
