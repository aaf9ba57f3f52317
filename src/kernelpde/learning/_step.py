"""One step of learning: linearize, lower the outer loss, move the state."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelpde.arrays import array
from kernelpde.errors import RankError
from kernelpde.functionals import Kernels
from kernelpde.learning._advance import Progress, advance, view_of
from kernelpde.learning._evaluation import (
    Loss,
    Reached,
    damped_direction,
    evaluator,
    few,
    loss_without_derivatives,
    losses,
    predicted_std,
)
from kernelpde.learning._inner import Linearization
from kernelpde.learning._optimizers import Evaluation
from kernelpde.learning._outer import AbstractRegularizer, Around
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._starts import nearby
from kernelpde.learning._state import LearningState
from kernelpde.learning._task import Task
from kernelpde.problem import Collocation, linearize

_LARGEST = 20.0
"""A hyperparameter has run away if its logarithm is farther than this from the extent of its
coordinate, or from where it began."""

_FEW_ROWS = 500
"""Number of rows up to which unneeded derivatives cost less than a program without them."""

_BATCH = 8
"""Number of hyperparameters compared by one call of one compiled program."""

_BETTER = 0.9
"""How much lower the loss elsewhere must be to go there."""


class Outer(NamedTuple):
    """The outer loss of one linearization, the validation points it is measured at, and what is
    seen of the state there; `None` without any."""

    loss: Loss
    blocks: tuple[Collocation, ...] | None
    view: Linearization | None


@dataclass
class Tally:
    """What is done in the course of a step.

    **Attributes:**

    - `task`, `state`: of the step; the state is that before it.
    - `factorizations`, `evaluations`: so far.
    """

    task: Task
    state: LearningState
    factorizations: int
    evaluations: list[LearningRecord]

    @staticmethod
    def of(task: Task, state: LearningState) -> "Tally":
        return Tally(task, state, state.factorizations, list(state.evaluations))

    def into(self, state: LearningState) -> LearningState:
        """A state with what was done."""
        return replace(
            state, factorizations=self.factorizations, evaluations=tuple(self.evaluations)
        )

    def record(
        self, loss: float, theta: np.ndarray, nugget: float, progress: Progress | None
    ) -> LearningRecord:
        """Tell of an evaluation, or with `progress` of a whole step."""
        task, residuals, size = self.task, {}, (None, None)
        if progress is not None:
            names = (condition.name for condition in task.problem.conditions)
            residuals = dict(zip(names, np.asarray(progress.residuals).tolist(), strict=True))
            size = float(progress.length), float(progress.change)
        record = LearningRecord(
            len(self.state.history) + (progress is not None),
            self.factorizations,
            loss,
            theta,
            task.hyperparameters_at(theta),
            task.constant,
            residuals,
            *size,
            nugget,
            self.state.seconds,
        )
        if progress is None:
            self.evaluations.append(record)
        if task.options.callback is not None:
            task.options.callback(record)
        return record


def outer_loss_at(
    task: Task, state: LearningState, kernels: Kernels
) -> tuple[Outer, LearningState]:
    """The outer loss linearized at a state; and the state, whose batches are drawn.

    **Arguments:**

    - `task`, `state`: of learning.
    - `kernels`: by which rows are weighted and the linear solver is chosen.
    """
    rows = linearize(task.residuals, task.blocks, state.train.jets)
    blocks, view, random = _batches(task, state)
    validation = None
    if blocks is not None and view is not None:
        validation = linearize(task.residuals, blocks, view.jets)
    scored = rows if validation is None else validation
    where = task.blocks if blocks is None else blocks
    weights = task.row_weights(kernels, scored, where, validation is None)
    choice = task.choice(kernels, state.nugget)
    if type(choice.plan) is not state.announced:
        choice.announce()
    if validation is not None and task.plan.standardized:
        stds = np.asarray(predicted_std(kernels, rows, choice.plan, validation))
        weights = weights * _shares(stds, [len(batch) for batch in validation.batches])
        state = replace(state, factorizations=state.factorizations + 1)
    loss = Loss(
        task.parameters,
        rows,
        validation,
        array(weights),
        choice.plan,
        _regularizer(task, state, len(weights)),
        task.plan.folds(len(rows.rhs), task.options.seed, len(state.history)),
        task.plan.judge,
        task.data,
        task.plan.predictions,
        () if blocks is None else choice.plan.nearby(blocks),
    )
    return Outer(loss, blocks, view), replace(state, random=random, announced=type(choice.plan))


def _shares(stds: np.ndarray, counts: list[int]) -> np.ndarray:
    """Of each row the median standard deviation of its equation over its own, if that is larger.

    What is known better than most counts as much as they do: where a kernel is far from right,
    standard deviations there are those of rounding.
    """
    equations = np.split(stds, np.cumsum(counts)[:-1])
    middle = np.concatenate([np.full(len(each), np.median(each)) for each in equations])
    return middle / np.maximum(middle, stds)


def _batches(task: Task, state: LearningState):
    """Where the outer loss of this step is measured, what is seen of the state there, and the
    random numbers left."""
    if state.pool is None or state.pool_view is None or task.plan.batch is None:
        return state.pool, state.pool_view, state.random
    rng = np.random.default_rng()
    rng.bit_generator.state = state.random
    # A condition that does not count is there with one point, for the shape of things.
    chosen = [
        batch_of(block, task.plan.batch if weight > 0 else 1, rng)
        for block, weight in zip(state.pool, task.weights, strict=True)
    ]
    blocks = tuple(block for block, _ in chosen)
    numbers = [some for _, some in chosen]
    view = Linearization(
        tuple(e[some] for e, some in zip(state.pool_view.jets, numbers, strict=True)),
        state.pool_view.linear[_rows_of(task, state.pool, numbers)],
    )
    return blocks, view, rng.bit_generator.state


def batch_of(
    block: Collocation, size: int, rng: np.random.Generator
) -> tuple[Collocation, np.ndarray]:
    """Some of the points of a block, and their numbers; averages stay together."""
    count = block.count
    if block.quadrature is not None:
        return block, np.arange(count)
    chosen = np.sort(rng.choice(count, size=min(size, count), replace=False))
    return block.take(chosen), chosen


def _rows_of(task: Task, blocks: tuple[Collocation, ...], numbers: list[np.ndarray]) -> np.ndarray:
    """The rows that belong to some of the points of each condition."""
    rows, start = [], 0
    for residual, block, some in zip(task.residuals, blocks, numbers, strict=True):
        for _ in residual.components:
            rows.append(start + some)
            start += block.count
    return np.concatenate(rows)


def _regularizer(task: Task, state: LearningState, rows: int) -> AbstractRegularizer | None:
    """What was asked for, or else a weak prior on how far lengthscales vary.

    A prior θ ~ N(m, s²) against N residuals of unknown size adds ½ (J / N) Σ ((θ - m) / s)² to
    the loss, with J the loss so far.
    """
    if task.regularizer is not None or task.variation is None:
        return task.regularizer
    relative = np.sqrt(rows / (2.0 * max(state.history[-1].loss, 1e-300)))
    return Around(array(task.variation[0]), array(task.variation[1] * relative))


def evaluation_of(
    tally: Tally, loss: Loss, derivatives: bool = True
) -> Callable[[np.ndarray], Evaluation]:
    """The outer loss as a function of θ, each call of which is counted and told of."""
    curvature = tally.task.optimizer.curvature
    compiled = evaluator(loss, curvature) if derivatives else loss_without_derivatives
    costly = derivatives and curvature == "matrix" and loss.data is None and not few(loss)

    def direction(theta: np.ndarray) -> Callable[[float, int], np.ndarray]:
        def along(damping: float, iterations: int) -> np.ndarray:
            tally.factorizations += 1
            at = array(theta)
            return np.asarray(damped_direction(at, loss, array(damping), iterations)[1])

        return along

    def evaluate(theta: np.ndarray) -> Evaluation:
        away = np.abs(theta - tally.task.origin)
        if not np.isfinite(theta).all() or np.max(away) > _LARGEST:
            return Evaluation(theta, np.inf, np.zeros_like(theta), None, None)
        evaluation = found_by(loss_without_derivatives if costly else compiled, theta)
        tally.record(evaluation.loss, theta, float(evaluation.extra.nugget), None)
        if not costly:
            return evaluation
        return replace(evaluation, derivatives=lambda: found_by(compiled, theta))

    def found_by(program: Callable, theta: np.ndarray) -> Evaluation:
        value, gradient, normal, reached = program(array(theta), loss)
        tally.factorizations += 1
        return Evaluation(
            theta,
            float(value) if bool(reached.usable) else np.inf,
            np.asarray(gradient),
            None if normal is None else np.asarray(normal),
            reached,
            direction(theta) if curvature == "products" else None,
        )

    return evaluate


def best_of(tally: Tally, loss: Loss, candidates: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """The θ with the lowest loss, and that loss; values only, a batch of them at a time."""
    values = []
    if loss.plan.forms_matrix and len(loss.rows.rhs) <= _FEW_ROWS:
        evaluate = evaluation_of(tally, loss)
        found = [evaluate(theta).loss for theta in candidates]
        values = [value if np.isfinite(value) else np.inf for value in found]
    for start in range(len(values), len(candidates), _BATCH):
        chosen = np.stack(candidates[start : start + _BATCH])
        padding = np.repeat(chosen[-1:], _BATCH - len(chosen), axis=0)
        found = losses(array(np.concatenate([chosen, padding])), loss)
        for theta, value, nugget, usable in zip(chosen, *map(np.asarray, found), strict=False):
            values.append(float(value) if usable and np.isfinite(value) else np.inf)
            tally.factorizations += 1
            tally.record(values[-1], theta, float(nugget), None)
    best = int(np.argmin(values))
    return candidates[best], values[best]


def moved_on(
    task: Task,
    state: LearningState,
    outer: Outer,
    kernels: Kernels,
    reached: Reached,
    lengths: np.ndarray,
) -> tuple[LearningState, Progress]:
    """The state moved to the inner solution, or part of the way."""
    loss = outer.loss
    alone = loss.validation is None
    train_weights = array(task.row_weights(kernels, loss.rows, task.blocks, alone))
    progress = advance(
        task.residuals,
        (task.blocks, outer.blocks),
        (loss.rows, loss.validation),
        (state.train, outer.view),
        kernels,
        reached,
        (train_weights, None if loss.validation is None else loss.row_weights),
        loss.near,
        array(lengths),
    )
    view = state.pool_view
    if state.pool is not None:
        whole = task.plan.batch is None
        view = progress.validation if whole else _seen(task, state.pool, kernels, loss, reached)
    return replace(state, train=progress.train, pool_view=view), progress


def _seen(
    task: Task, pool: tuple[Collocation, ...], kernels: Kernels, loss: Loss, reached: Reached
) -> Linearization:
    """What is seen of the inner solution at all validation points."""
    return view_of(kernels, reached, task.residuals, pool, loss.plan.nearby(pool))


def step(task: Task, state: LearningState, tolerance: float) -> LearningState:
    """Linearize, lower the outer loss, move the state.

    **Arguments:**

    - `task`, `state`: of learning.
    - `tolerance`: on the change of the logarithms of the hyperparameters; with 0 learning never
      comes to rest.
    """
    try:
        outer, state = outer_loss_at(task, state, task.kernels(state.theta))
    except RankError:
        if state.followed is None:
            raise
        theta = _nearest_followed(task, state, state.followed)
        return replace(state, theta=theta, result=RESULTS.rank_limit)
    tally, loss, before = Tally.of(task, state), outer.loss, state.theta
    state_alone = tolerance > 0.0 and state.pace.state_alone()
    # Derivatives that are not needed cost less than another program, but for many rows.
    evaluate = evaluation_of(tally, loss, loss.plan.forms_matrix or not state_alone)
    memory = state.memory
    if state_alone:
        best = evaluate(before)
    else:
        best, memory = task.optimizer.minimize(evaluate, before, memory, 1.0)
    state = replace(tally.into(state), followed=before, memory=memory)
    if not best.finite:
        nugget = 10.0 * state.nugget
        over = nugget > task.options.linear_solver.largest_nugget
        return replace(state, nugget=nugget, result=RESULTS.not_finite if over else None)
    state, reached, kernels = replace(state, theta=best.theta), best.extra, task.kernels(best.theta)
    if task.data is not None and best.normal is not None:
        state = replace(state, covariance=np.linalg.pinv(best.normal, hermitian=True))
    pace = state.pace.before_step()
    lengths = pace.lengths(task.options.solver.lengths)
    state, progress = moved_on(task, state, outer, kernels, reached, lengths)
    pace = pace.after_step(None if state_alone else best.theta, float(progress.change))
    record = tally.record(best.loss, best.theta, float(reached.nugget), progress)
    state = replace(state, pace=pace, history=(*state.history, record))
    state = with_new_points(task, state)
    if task.plan.redraws and state.pool is not None:
        state = replace(state, pool_view=_seen(task, state.pool, kernels, loss, reached))
    if tolerance == 0.0 or (float(progress.length) < 1.0 and not pace.shortened):
        return state
    moved = float(np.max(np.abs(best.theta - before)))
    if moved < tolerance and float(progress.change) < 10 * tolerance and pace.rested():
        return _at_rest(task, state, loss, best)
    if (middle := pace.scattered()) is not None:
        return replace(state, theta=middle, result=RESULTS.scattered)
    return state


def with_new_points(task: Task, state: LearningState) -> LearningState:
    """With the validation points of the next step, where each has its own."""
    if not task.plan.redraws or not state.history:
        return state
    return replace(state, pool=task.plan.drawn(task.problem, task.points, len(state.history)))


def _nearest_followed(task: Task, state: LearningState, last: np.ndarray) -> np.ndarray:
    """As far on the way from the last θ to the present one as the solver can follow."""
    for part in (0.5, 0.25, 0.125):
        theta = last + part * (state.theta - last)
        with suppress(RankError):
            task.choice(task.kernels(theta), state.nugget)
            return theta
    return last


def _at_rest(task: Task, state: LearningState, loss: Loss, best: Evaluation) -> LearningState:
    """Converged, unless some other lengthscale does better now that the state is known.

    With few validation points the loss has several minima, and the first comparison of starts
    was made before anything was known of the solution.
    """
    settled = replace(state, result=RESULTS.converged)
    if not task.options.multistart or task.data is not None or state.local_searches == 0:
        return settled
    state = replace(state, local_searches=state.local_searches - 1)
    settled = replace(settled, local_searches=state.local_searches)
    candidates = nearby(task.parameters, state.theta)
    if not candidates:
        return settled
    tally = Tally.of(task, state)
    theta, value = best_of(tally, loss, candidates)
    if value > _BETTER * best.loss:
        return tally.into(settled)
    return replace(tally.into(state), theta=theta, memory=None)
