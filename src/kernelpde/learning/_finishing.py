"""The end of a learning run: with the gradient of the true objective, and at all points."""

from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.gauss_newton import RESULTS, Solution
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._exact import Objective, exact_gradients
from kernelpde.learning._optimizers import LBFGS, Evaluation, LevenbergMarquardt
from kernelpde.learning._starts import lengthscales, relative_to
from kernelpde.learning._state import LearningState
from kernelpde.learning._step import Tally, evaluation_of, outer_loss_at
from kernelpde.learning._task import Task
from kernelpde.problem import Collocation, Problem, extents_of

_SHORTER, _ATTEMPTS = 1.4, 4
"""Lengthscales longer than rounding allows are divided by the first, at most as often as the second
says."""

_ERROR = 0.05
"""An estimated error above this, and a solution with such lengthscales is still called unresolved:
residuals at the level of rounding may be small between points where a layer makes errors large."""


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


def resolved(solution: Solution, again: Callable[[Problem, Solution], Solution]) -> Solution:
    """The same with lengthscales so much shorter that conditions are met at their points.

    Learning, with a larger nugget, may find some that are longer than rounding allows. None is
    left longer than the domain, and none that is held is changed.

    **Arguments:**

    - `again`: solves the problem at the same points, from a solution.
    """
    found = solution
    for _ in range(_ATTEMPTS):
        if found.result is not RESULTS.unresolved:
            break
        problem = found.problem
        parameters = Parameters.of(problem.kernels)
        mask = lengthscales(parameters) if parameters.vector.size else np.zeros(0, dtype=bool)
        if not mask.any():
            break
        extents = extents_of(found.blocks, problem.space.periods)
        longest = np.where(mask, relative_to(parameters, extents), np.inf)
        theta = np.minimum(parameters.vector, longest) - mask * np.log(_SHORTER)
        found = again(problem.with_kernels(parameters.kernels(array(theta))), found)
    if found is solution or not found.converged:
        return found
    errors = [error.rms for error in found.error_estimate.values()]
    return found if max(errors, default=np.inf) < _ERROR else replace(found, code=solution.code)
