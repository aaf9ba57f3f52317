"""A learning run: the linearization, the outer loss at it, the next state."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from kernelpde.arrays import array
from kernelpde.errors import InputError, RankError
from kernelpde.functionals import Kernels
from kernelpde.gauss_newton import Solver, Start, start_entries
from kernelpde.learning._evaluation import (
    Loss,
    Parameters,
    Progress,
    Reached,
    advance,
    damped_direction,
    evaluator,
    loss_without_derivatives,
    losses,
    row_scales,
    view_of,
)
from kernelpde.learning._inner import Linearization
from kernelpde.learning._optimizers import (
    AbstractOptimizer,
    Evaluation,
)
from kernelpde.learning._outer import AbstractRegularizer, Around, condition_weights
from kernelpde.learning._pace import Pace
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import LEARNING
from kernelpde.learning._starts import nearby, relative_to, variation, weak_prior
from kernelpde.learning._validation import (
    HeldOut,
    KFold,
    LeaveOneOutPredictive,
    Resampled,
    Validation,
    batch_of,
    left_out,
)
from kernelpde.linear_solvers import (
    AbstractLinearSolverState,
    DenseState,
    LinearSolver,
    LowRank,
    Sparse,
    chosen,
)
from kernelpde.problem import Collocation, LinearizedProblem, Problem, extents_of, linearize

_LARGEST = 20.0
"""A hyperparameter has run away if its logarithm is farther than this from the extent of its
coordinate, or from where it began."""

_FEW_ROWS = 500
"""With so many rows derivatives that are not needed cost less than a program without them."""

_BATCH = 8
"""So many hyperparameters are compared by one call of one compiled program."""

_BETTER = 0.9
"""How much lower the loss elsewhere must be to go there."""


class Run:
    """A learning run under way."""

    def __init__(
        self,
        problem: Problem,
        blocks: tuple[Collocation, ...],
        plan: Validation,
        optimizer: AbstractOptimizer,
        regularizer: AbstractRegularizer | None,
        solver: Solver,
        linear_solver: LinearSolver,
        mesh: Mesh | None = None,
        seed: int = 0,
        sampling: str = "halton",
        starts: bool = True,
        callback: Callable[[LearningRecord], None] | None = None,
        constant: bool = False,
        left: tuple[np.ndarray | None, ...] | None = None,
    ):
        self.plan, self.optimizer = plan, optimizer
        self.problem, self.residuals, self.whole = problem, problem.residuals, blocks
        if left is None and isinstance(plan, HeldOut | Resampled):
            left = left_out(problem, blocks, plan.points, seed)
        self.left = (None,) * len(blocks) if left is None else left
        self.blocks = tuple(
            block if rows is None else block.take(np.setdiff1d(np.arange(block.count), rows))
            for block, rows in zip(blocks, self.left, strict=True)
        )
        self.data = plan.conditions(problem) if isinstance(plan, LeaveOneOutPredictive) else None
        self.regularizer, self.solver = regularizer, solver
        self.linear_solver, self.mesh = linear_solver, mesh
        self.seed, self.sampling, self.callback = seed, sampling, callback
        self.rng = np.random.default_rng([seed, 11])
        if any(noise is not None for noise in problem.noises) and self.data is None:
            raise InputError(
                "learn: noise is learned from the density of data. Use "
                "validation=LeaveOneOutPredictive(), or give the noise."
            )
        self.parameters = Parameters.of(problem.kernels, problem.noises)
        self.theta = self.parameters.vector
        self.extents = extents_of(self.whole, problem.space.periods)
        self.origin = relative_to(self.parameters, self.extents)
        if not self.theta.size:
            raise InputError("learn: the kernels have no hyperparameters; are all of them frozen?")
        if self.data is not None and regularizer is None:
            self.regularizer = weak_prior(self.parameters, self.extents, starts)
        names = tuple(condition.name for condition in problem.conditions)
        given = None if isinstance(plan, LeaveOneOutPredictive) else plan.weights
        self.condition_weights = condition_weights(names, given)
        self.train = self._zero_view(self.blocks)
        self.pool = self._draw(0) if isinstance(plan, HeldOut | Resampled) else None
        self.pool_view = None if self.pool is None else self._zero_view(self.pool)
        self.memory: Any = None
        self.pace = Pace(
            self.data is not None,
            isinstance(plan, Resampled) or (isinstance(plan, HeldOut) and plan.batch is not None),
        )
        self.spread: np.ndarray | None = None
        self.variation: tuple[np.ndarray, np.ndarray] | None = None
        self.starts, self.constant = starts, constant
        self.looks = 4
        self.started = time.perf_counter()
        self.history: list[LearningRecord] = []
        self.evaluations: list[LearningRecord] = []
        self.factorizations = 0
        self.nugget = linear_solver.nugget
        self.announced: type | None = None
        self.followed: np.ndarray | None = None
        self.result: LEARNING | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since learning began, those before an interruption included."""
        return time.perf_counter() - self.started

    @property
    def kernels(self) -> Kernels:
        return self.parameters.kernels(array(self.theta))

    @property
    def learned_problem(self) -> Problem:
        """The problem with the hyperparameters reached."""
        return self._problem_at(self.theta)

    def _problem_at(self, theta: np.ndarray) -> Problem:
        at = array(theta)
        found = self.problem.with_kernels(self.parameters.kernels(at))
        return found.with_noises(self.parameters.noises(at))

    def hyperparameters_at(self, theta: np.ndarray) -> dict[str, dict[str, Any]]:
        """Those of a vector, by field and name, as numbers and lists of numbers."""
        return {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in self._problem_at(theta).hyperparameters.items()
        }

    def _zero_view(self, blocks: tuple[Collocation, ...]) -> Linearization:
        entries = tuple(
            array(np.zeros((len(b.points), len(r.nonlinear))))
            for r, b in zip(self.residuals, blocks, strict=True)
        )
        rows = sum(b.count * len(r.components) for r, b in zip(self.residuals, blocks, strict=True))
        return Linearization(entries, array(np.zeros(rows)))

    def _draw(self, step: int) -> tuple[Collocation, ...]:
        """Validation points: others, or those of the user's own that were left out."""
        assert isinstance(self.plan, HeldOut | Resampled)
        asked, found = self.plan.points or {}, []
        for condition, block, whole, rows in zip(
            self.problem.conditions, self.blocks, self.whole, self.left, strict=True
        ):
            name = condition.name
            if rows is not None:
                found.append(whole.take(rows))
            elif self.problem.has_own_points(name):
                found.append(block)
            else:
                # Another random stream than that of the training points.
                seed = self.seed + 7919 * step + 1_000_003
                count = asked.get(name, block.count)
                drawn = self.problem.collocated(name, count, seed=seed, sampling=self.sampling)
                found.append(drawn)
        return tuple(found)

    def renew_pool(self) -> None:
        """The validation points of the next step, where each has its own."""
        if isinstance(self.plan, Resampled) and self.history:
            self.pool = self._draw(len(self.history))

    def final(self) -> tuple[tuple[Collocation, ...], tuple[Array, ...]]:
        """Training and validation points together, and what is known of the state there."""
        if self.pool is None or self.pool_view is None:
            return self.blocks, self.train.jets
        blocks, entries = [], []
        for block, other, whole, rows, known, more in zip(
            self.blocks,
            self.pool,
            self.whole,
            self.left,
            self.train.jets,
            self.pool_view.jets,
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

    def begin_at(self, start: Start) -> None:
        """Linearize first at a given state."""
        self.train = Linearization(
            start_entries(self.problem, start, self.blocks), self.train.linear
        )
        if self.pool is not None and self.pool_view is not None:
            entries = start_entries(self.problem, start, self.pool)
            self.pool_view = Linearization(entries, self.pool_view.linear)

    def _validation(self) -> tuple[tuple[Collocation, ...] | None, Linearization | None]:
        """Where the outer loss of this step is measured, and what is seen of the state there."""
        if self.pool is None or self.pool_view is None:
            return None, None
        size = self.plan.batch if isinstance(self.plan, HeldOut) else None
        if size is None:
            return self.pool, self.pool_view
        # A condition that does not count is there with one point, for the shape of things.
        chosen = [
            batch_of(block, size if weight > 0 else 1, self.rng)
            for block, weight in zip(self.pool, self.condition_weights, strict=True)
        ]
        blocks = tuple(block for block, _ in chosen)
        view = Linearization(
            tuple(e[numbers] for e, (_, numbers) in zip(self.pool_view.jets, chosen, strict=True)),
            self.pool_view.linear[_rows_of(self.residuals, self.pool, [n for _, n in chosen])],
        )
        return blocks, view

    def _row_weights(
        self, kernels: Kernels, rows: LinearizedProblem, blocks: tuple[Collocation, ...]
    ) -> np.ndarray:
        """√(w_c / N_c) / s_c for every row; √w_c for rows that are standardized."""
        if isinstance(self.plan, KFold) and self.plan.standardized:
            return np.concatenate(
                [
                    np.full(block.count * len(residual.components), np.sqrt(weight))
                    for residual, block, weight in zip(
                        self.residuals, blocks, self.condition_weights, strict=True
                    )
                ]
            )
        scales = np.asarray(row_scales(kernels, rows))
        weights, start = [], 0
        for residual, block, weight in zip(
            self.residuals, blocks, self.condition_weights, strict=True
        ):
            # Each equation by itself: those of a system may have units of their own.
            total = block.count * len(residual.components)
            for _ in residual.components:
                size = np.mean(scales[start : start + block.count])
                weights.append(np.full(block.count, np.sqrt(weight / (total * size))))
                start += block.count
        return np.concatenate(weights)

    def loss(
        self, kernels: Kernels
    ) -> tuple[Loss, tuple[Collocation, ...] | None, Linearization | None]:
        """Linearize at the state: the outer loss of this step."""
        rows = linearize(self.residuals, self.blocks, self.train.jets)
        blocks, view = self._validation()
        validation = None
        if blocks is not None and view is not None:
            validation = linearize(self.residuals, blocks, view.jets)
        scored = rows if validation is None else validation
        weights = self._row_weights(kernels, scored, self.blocks if blocks is None else blocks)
        folds = ()
        if isinstance(self.plan, KFold):
            folds = self.plan.rows(len(rows.target), self.seed)
        plan = self._plan(kernels)
        return (
            Loss(
                self.parameters,
                rows,
                validation,
                array(weights),
                plan,
                self._regularizer(len(weights)),
                folds,
                isinstance(self.plan, KFold) and self.plan.standardized,
                self.data,
                () if blocks is None else plan.nearby(blocks),
            ),
            blocks,
            view,
        )

    def _plan(self, kernels: Kernels) -> AbstractLinearSolverState:
        """How the inner systems of this step are solved."""
        linear_solver = eqx.tree_at(lambda s: s.nugget, self.linear_solver, self.nugget)
        choice = chosen(
            linear_solver,
            kernels,
            self.residuals,
            self.blocks,
            self.mesh,
            learning=True,
            without=_unable(self.plan),
        )
        if type(choice.plan) is not self.announced:
            choice.announce()
            self.announced = type(choice.plan)
        return choice.plan

    def _regularizer(self, rows: int) -> AbstractRegularizer | None:
        """What was asked for, or else a weak prior on how far lengthscales vary.

        A prior θ ~ N(m, s²) against N residuals of unknown size adds ½ (J / N) Σ ((θ - m) / s)² to
        the loss, with J the loss so far.
        """
        if self.regularizer is not None or self.variation is None:
            return self.regularizer
        relative = np.sqrt(rows / (2.0 * max(self.history[-1].loss, 1e-300)))
        return Around(array(self.variation[0]), array(self.variation[1] * relative))

    def evaluate(self, loss: Loss, derivatives: bool = True) -> Callable[[np.ndarray], Evaluation]:
        compiled = (
            evaluator(loss, self.optimizer.curvature) if derivatives else loss_without_derivatives
        )

        def evaluate(theta: np.ndarray) -> Evaluation:
            if not np.isfinite(theta).all() or np.max(np.abs(theta - self.origin)) > _LARGEST:
                return Evaluation(theta, np.inf, np.zeros_like(theta), None, None)
            value, gradient, normal, reached = compiled(array(theta), loss)
            usable = bool(reached.usable)
            self.factorizations += 1
            evaluation = Evaluation(
                theta,
                float(value) if usable else np.inf,
                np.asarray(gradient),
                None if normal is None else np.asarray(normal),
                reached,
                self._direction(theta, loss) if self.optimizer.curvature == "products" else None,
            )
            self.record(self.evaluations, evaluation.loss, theta, float(reached.nugget), None)
            return evaluation

        return evaluate

    def _direction(self, theta: np.ndarray, loss: Loss) -> Callable[[float, int], np.ndarray]:
        def direction(damping: float, iterations: int) -> np.ndarray:
            self.factorizations += 1
            at = array(theta)
            return np.asarray(damped_direction(at, loss, array(damping), iterations)[1])

        return direction

    def record(
        self,
        records: list[LearningRecord],
        loss: float,
        theta: np.ndarray,
        nugget: float,
        progress: Progress | None,
    ) -> None:
        names = (condition.name for condition in self.problem.conditions)
        record = LearningRecord(
            len(self.history) + (progress is not None),
            self.factorizations,
            loss,
            theta,
            self.hyperparameters_at(theta),
            self.constant,
            {}
            if progress is None
            else dict(zip(names, np.asarray(progress.residuals).tolist(), strict=True)),
            None if progress is None else float(progress.length),
            None if progress is None else float(progress.change),
            nugget,
            self.elapsed,
        )
        records.append(record)
        if self.callback is not None:
            self.callback(record)

    def go_on_from(self, other: "Run") -> None:
        """Take over the state, the count and the record of another run at the same points."""
        self.train, self.pool_view = other.train, other.pool_view
        self.history, self.evaluations = other.history, other.evaluations
        self.factorizations, self.started = other.factorizations, other.started
        self.pool = other.pool
        self.expect_variation()

    def expect_variation(self) -> None:
        """Hold lengthscales that vary near the constant ones they begin with."""
        self.variation = variation(self.parameters)

    def advance(
        self,
        loss: Loss,
        blocks: tuple[Collocation, ...] | None,
        view: Linearization | None,
        kernels: Kernels,
        reached: Any,
        lengths: np.ndarray,
    ) -> Progress:
        """Move the state to the inner solution, or part of the way."""
        train_weights = array(self._row_weights(kernels, loss.rows, self.blocks))
        progress = advance(
            self.residuals,
            (self.blocks, blocks),
            (loss.rows, loss.validation),
            (self.train, view),
            kernels,
            reached,
            (train_weights, None if loss.validation is None else loss.row_weights),
            loss.near,
            array(lengths),
        )
        self.train = progress.train
        if self.pool is not None:
            whole = not (isinstance(self.plan, HeldOut) and self.plan.batch is not None)
            self.pool_view = (
                progress.validation if whole else self._seen_at_pool(kernels, loss, reached)
            )
        return progress

    def _seen_at_pool(self, kernels: Kernels, loss: Loss, reached: Reached) -> Linearization:
        """What is seen of the inner solution at all validation points."""
        assert self.pool is not None
        near = loss.plan.nearby(self.pool)
        return view_of(kernels, reached, self.residuals, self.pool, near)

    def step(self, tolerance: float) -> None:
        """Linearize, lower the outer loss, move the state."""
        try:
            loss, blocks, view = self.loss(self.kernels)
        except RankError:
            if self.followed is None:
                raise
            self.theta, self.result = self._nearest_followed(self.followed), LEARNING.rank_limit
            return
        self.followed = self.theta
        state_alone = tolerance > 0.0 and self.pace.state_alone()
        # Derivatives that are not needed cost less than another program, but for many rows.
        small = isinstance(loss.plan, DenseState)
        evaluate = self.evaluate(loss, derivatives=small or not state_alone)
        if state_alone:
            best = evaluate(self.theta)
        else:
            best, self.memory = self.optimizer.minimize(evaluate, self.theta, self.memory, 1.0)
        if not best.finite:
            self.nugget *= 10.0
            if self.nugget > self.linear_solver.largest_nugget:
                self.result = LEARNING.not_finite
            return
        reached = best.extra
        moved = float(np.max(np.abs(best.theta - self.theta)))
        self.theta = best.theta
        if self.data is not None and best.normal is not None:
            self.spread = np.linalg.pinv(best.normal, hermitian=True)
        lengths = self.pace.lengths(self.solver.lengths)
        progress = self.advance(loss, blocks, view, self.kernels, reached, lengths)
        self.pace.note(None if state_alone else best.theta, float(progress.change))
        self.record(self.history, best.loss, best.theta, float(reached.nugget), progress)
        self.renew_pool()
        if isinstance(self.plan, Resampled) and self.pool is not None:
            self.pool_view = self._seen_at_pool(self.kernels, loss, reached)
        if tolerance == 0.0 or (float(progress.length) < 1.0 and not self.pace.shortened):
            return
        if moved < tolerance and float(progress.change) < 10 * tolerance and self.pace.rested():
            if not (self.starts and self.data is None and self._elsewhere(loss, best)):
                self.result = LEARNING.converged
        elif (middle := self.pace.scattered()) is not None:
            self.theta = middle
            self.result = LEARNING.scattered

    def _nearest_followed(self, last: np.ndarray) -> np.ndarray:
        """As far on the way from the last θ to the present one as the solver can follow."""
        for part in (0.5, 0.25, 0.125):
            theta = last + part * (self.theta - last)
            with suppress(RankError):
                self._plan(self.parameters.kernels(array(theta)))
                return theta
        return last

    def best_of(self, loss: Loss, candidates: list[np.ndarray]) -> tuple[np.ndarray, float]:
        """The θ with the lowest loss, and that loss; values only, a batch of them at a time."""
        if isinstance(loss.plan, DenseState) and len(loss.rows.target) <= _FEW_ROWS:
            evaluate = self.evaluate(loss)
            found = [evaluate(theta).loss for theta in candidates]
            best = int(np.argmin(np.where(np.isfinite(found), found, np.inf)))
            return candidates[best], found[best]
        values = []
        for start in range(0, len(candidates), _BATCH):
            chosen = np.stack(candidates[start : start + _BATCH])
            padding = np.repeat(chosen[-1:], _BATCH - len(chosen), axis=0)
            found = losses(array(np.concatenate([chosen, padding])), loss)
            for theta, value, nugget, usable in zip(chosen, *map(np.asarray, found), strict=False):
                values.append(float(value) if usable and np.isfinite(value) else np.inf)
                self.factorizations += 1
                self.record(self.evaluations, values[-1], theta, float(nugget), None)
        best = int(np.argmin(values))
        return candidates[best], values[best]

    def _elsewhere(self, loss: Loss, best: Evaluation) -> bool:
        """Whether some other lengthscale does better now that the state is known; if so, go there.

        With few validation points the loss has several minima, and the first comparison of starts
        was made before anything was known of the solution.
        """
        if self.looks == 0:
            return False
        self.looks -= 1
        candidates = nearby(self.parameters, self.theta)
        if not candidates:
            return False
        theta, value = self.best_of(loss, candidates)
        if value > _BETTER * best.loss:
            return False
        self.theta, self.memory = theta, None
        return True


def _joined(first: Array, second: Array) -> Array:
    return array(np.concatenate([np.asarray(first), np.asarray(second)]))


def _unable(plan: Validation) -> tuple[type, ...]:
    """Solvers that have not got what a plan of validation needs."""
    if isinstance(plan, KFold):
        return LowRank, Sparse
    return (Sparse,) if isinstance(plan, LeaveOneOutPredictive) else ()


def _rows_of(residuals, blocks: tuple[Collocation, ...], numbers: list[np.ndarray]) -> np.ndarray:
    """The rows that belong to some of the points of each condition."""
    rows, start = [], 0
    for residual, block, some in zip(residuals, blocks, numbers, strict=True):
        for _ in residual.components:
            rows.append(start + some)
            start += block.count
    return np.concatenate(rows)
