"""Learning the kernels of a problem."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.arrays import Numbers
from kernelpde.bilevel._evaluation import (
    Loss,
    Parameters,
    Progress,
    Reached,
    advance,
    evaluator,
    linearise,
    row_scales,
    view_of,
)
from kernelpde.bilevel._inner import Rows, View
from kernelpde.bilevel._optimizers import AbstractOuter, Evaluation, OuterLevenbergMarquardt
from kernelpde.bilevel._outer import AbstractRegularizer, condition_weights
from kernelpde.bilevel._result import LEARNING
from kernelpde.bilevel._validation import (
    Folds,
    Fresh,
    HeldOut,
    Validation,
    batch_of,
    validation_blocks,
)
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Kernels
from kernelpde.kernels import hyperparameters
from kernelpde.linalg import Dense
from kernelpde.precision import require_float64
from kernelpde.problem import Block, Problem
from kernelpde.solve import GaussNewton, LevenbergMarquardt, Solution, solve

_LARGEST = 20.0
"""A hyperparameter whose logarithm is beyond this has run away."""

_NEARBY = (0.5, 0.7, 1.4, 2.0)
"""Factors on the lengthscales that are tried once the state has settled."""

_FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""Starting lengthscales relative to the size of the domain."""


@dataclass(frozen=True)
class LearningRecord:
    """One step of learning.

    **Attributes:**

    - `step`: the Gauss-Newton step, from 1; 0 while starts are compared.
    - `factorisations`: made so far.
    - `loss`: the outer loss at the end of the step.
    - `hyperparameters`: by field and name.
    - `length`: the fraction of the inner step that was taken; `None` within a step.
    - `change`: relative change of the state; `None` within a step.
    - `nugget`: used by the linear solve.
    - `seconds`: since learning began.
    """

    step: int
    factorisations: int
    loss: float
    hyperparameters: dict[str, dict[str, Any]]
    length: float | None
    change: float | None
    nugget: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Learned:
    """What learning has led to.

    **Attributes:**

    - `problem`: the problem with the learned kernels.
    - `solution`: of that problem at the final points; `None` if none was asked for.
    - `result`: why learning stopped.
    - `factorisations`: how many it took, the final solve not counted.
    - `history`: one record per Gauss-Newton step.
    - `evaluations`: one record per evaluation of the outer loss.
    """

    problem: Problem
    solution: Solution | None
    result: LEARNING
    factorisations: int
    history: tuple[LearningRecord, ...]
    evaluations: tuple[LearningRecord, ...]

    @property
    def kernels(self) -> Kernels:
        return self.problem.kernels

    @property
    def converged(self) -> bool:
        return self.result is LEARNING.converged

    @property
    def reason(self) -> str:
        return self.result.value

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        lines = [
            f"Learned: {state} after {len(self.history)} Gauss-Newton steps and "
            f"{self.factorisations} factorisations. {self.reason}"
        ]
        lines += [f"  field {f.name}: {f.kernel!r}" for f in self.problem.fields]
        return "\n".join(lines) + ("" if self.solution is None else f"\n{self.solution!r}")


def learn(
    problem: Problem,
    points: Mapping[str, int | Numbers] | None = None,
    *,
    validation: Validation | None = None,
    optimizer: AbstractOuter | None = None,
    regularizer: AbstractRegularizer | None = None,
    starts: bool = True,
    method: GaussNewton | LevenbergMarquardt | None = None,
    solver: Dense | None = None,
    seed: int = 0,
    sampling: str = "halton",
    tolerance: float = 1e-3,
    max_steps: int = 30,
    final: Mapping[str, int] | None = None,
    final_solver: Dense | None = None,
    throw: bool = True,
    callback: Callable[[LearningRecord], None] | None = None,
) -> Learned:
    """Learn the hyperparameters of a problem's kernels, and solve it with them.

    Bilevel optimisation with a linearised inner problem, section 2 of the paper: in each step the
    residuals are linearised at the state uᵏ, the solution of the linearised training problem is an
    explicit function Π_k(θ) of the hyperparameters, and θ is moved to lower

        ½ Σ_c w_c / N_c Σᵢ (rᵢ(θ) / s_c)² + R(θ),

    with r the linearised residuals of Π_k(θ) at validation points, s_c the size of such a residual
    under the prior at the beginning of the step, and R a regulariser. Then uᵏ⁺¹ = Π_k(θ), or as
    much of the way as the true residuals allow.

    **Arguments:**

    - `problem`: with kernels to begin with.
    - `points`: training points per condition, as in `solve`.
    - `validation`: `HeldOut()` points by default; `Fresh()` ones in every step, or `Folds()` of the
      training points.
    - `optimizer`: `OuterLevenbergMarquardt()` by default; `paper_adam()` as published, any `Optax`,
      or `LBFGS` for many parameters.
    - `regularizer`: R.
    - `starts`: compare lengthscales from a thirtieth of the domain to all of it first, by one
      factorisation each, begin with the best, and look around once more at the end; otherwise
      begin with those given and stay in their valley.
    - `method`: of the inner steps; `GaussNewton()` never shortens them.
    - `solver`: of the inner systems; a nugget of 1e-10 without refinement by default.
    - `seed`, `sampling`: of the points.
    - `tolerance`: on the change of the logarithms of the hyperparameters in a step.
    - `max_steps`: largest number of Gauss-Newton steps.
    - `final`: number of points for the final solve; training points and validation points together
      if left out.
    - `final_solver`: for it; `Dense()` by default.
    - `throw`: raise `SolveError` if nothing usable was learned, or if the final solve fails.
    - `callback`: called with a `LearningRecord` after every evaluation of the outer loss and after
      every step.
    """
    require_float64()
    if max_steps < 1:
        raise InputError(f"learn: max_steps must be at least 1; got {max_steps}.")
    run = _Learning(
        problem,
        problem.collocate(points, seed=seed, sampling=sampling),
        HeldOut() if validation is None else validation,
        OuterLevenbergMarquardt() if optimizer is None else optimizer,
        regularizer,
        LevenbergMarquardt() if method is None else method,
        Dense(nugget=1e-10, refinement=0) if solver is None else solver,
        seed,
        sampling,
        starts,
        callback,
    )
    if starts:
        run.compare_starts()
    while run.result is None:
        run.step(tolerance)
        if run.result is None and len(run.history) >= max_steps:
            run.result = LEARNING.step_limit
    learned = problem.with_kernels(run.kernels)
    if throw and run.result is LEARNING.not_finite:
        raise SolveError(f"learn: {run.result.value} Hyperparameters: {learned!r}")
    blocks = run.all_blocks() if final is None else None
    solution = solve(
        learned,
        final,
        blocks=blocks,
        seed=seed,
        sampling=sampling,
        solver=final_solver,
        throw=throw,
    )
    return Learned(
        learned,
        solution,
        run.result,
        len(run.evaluations),
        tuple(run.history),
        tuple(run.evaluations),
    )


class _Learning:
    """A learning run under way."""

    def __init__(
        self,
        problem: Problem,
        blocks: tuple[Block, ...],
        plan: Validation,
        optimizer: AbstractOuter,
        regularizer: AbstractRegularizer | None,
        method: GaussNewton | LevenbergMarquardt,
        solver: Dense,
        seed: int,
        sampling: str,
        starts: bool,
        callback: Callable[[LearningRecord], None] | None,
    ):
        self.problem, self.residuals = problem, problem.residuals
        self.blocks, self.plan, self.optimizer = blocks, plan, optimizer
        self.regularizer, self.method, self.solver = regularizer, method, solver
        self.seed, self.sampling, self.callback = seed, sampling, callback
        self.rng = np.random.default_rng([seed, 11])
        self.parameters = Parameters.of(problem.kernels)
        self.theta = self.parameters.vector
        if not self.theta.size:
            raise InputError("learn: the kernels have no hyperparameters; are all of them frozen?")
        names = tuple(condition.name for condition in problem.conditions)
        self.condition_weights = condition_weights(names, plan.weights)
        self.train = self._zero_view(blocks)
        self.pool = self._draw(0) if isinstance(plan, HeldOut | Fresh) else None
        self.pool_view = None if self.pool is None else self._zero_view(self.pool)
        self.memory: Any = None
        self.starts = starts
        self.looks = 4
        self.started = time.perf_counter()
        self.history: list[LearningRecord] = []
        self.evaluations: list[LearningRecord] = []
        self.nugget = solver.nugget
        self.result: LEARNING | None = None

    @property
    def kernels(self) -> Kernels:
        return self.parameters.kernels(jnp.asarray(self.theta))

    def _zero_view(self, blocks: tuple[Block, ...]) -> View:
        entries = tuple(
            jnp.asarray(np.zeros((len(b.points), len(r.nonlinear))))
            for r, b in zip(self.residuals, blocks, strict=True)
        )
        rows = sum(
            len(b.points) * len(r.components) for r, b in zip(self.residuals, blocks, strict=True)
        )
        return View(entries, jnp.asarray(np.zeros(rows)))

    def _draw(self, step: int) -> tuple[Block, ...]:
        """Validation points."""
        assert isinstance(self.plan, HeldOut | Fresh)
        counts = {
            c.name: len(b.points) for c, b in zip(self.problem.conditions, self.blocks, strict=True)
        }
        counts.update(self.plan.points or {})
        return validation_blocks(self.problem, counts, self.seed + 7919 * step, self.sampling)

    def all_blocks(self) -> tuple[Block, ...]:
        """Training and validation points together, where validation points are their own."""
        if self.pool is None:
            return self.blocks
        return tuple(
            block
            if np.array_equal(block.points, other.points)
            else jax.tree.map(lambda a, b: jnp.concatenate([a, b]), block, other)
            for block, other in zip(self.blocks, self.pool, strict=True)
        )

    def _validation(self) -> tuple[tuple[Block, ...] | None, View | None]:
        """Where the outer loss of this step is measured, and what is seen of the state there."""
        if self.pool is None or self.pool_view is None:
            return None, None
        size = self.plan.batch if isinstance(self.plan, HeldOut) else None
        if size is None:
            return self.pool, self.pool_view
        chosen = [batch_of(block, size, self.rng) for block in self.pool]
        blocks = tuple(block for block, _ in chosen)
        view = View(
            tuple(e[numbers] for e, (_, numbers) in zip(self.pool_view.jets, chosen, strict=True)),
            self.pool_view.linear[_rows_of(self.residuals, self.pool, [n for _, n in chosen])],
        )
        return blocks, view

    def _row_weights(self, kernels: Kernels, rows: Rows, blocks: tuple[Block, ...]) -> np.ndarray:
        """√(w_c / N_c) / s_c for every row."""
        scales = np.asarray(row_scales(kernels, rows))
        weights, start = [], 0
        for residual, block, weight in zip(
            self.residuals, blocks, self.condition_weights, strict=True
        ):
            count = len(block.points) * len(residual.components)
            size = np.mean(scales[start : start + count])
            weights.append(np.full(count, np.sqrt(weight / (count * size))))
            start += count
        return np.concatenate(weights)

    def _loss(self, kernels: Kernels) -> tuple[Loss, tuple[Block, ...] | None, View | None]:
        """Linearise at the state: the outer loss of this step."""
        rows = linearise(self.residuals, self.blocks, self.train)
        blocks, view = self._validation()
        validation = None
        if blocks is not None and view is not None:
            validation = linearise(self.residuals, blocks, view)
        scored = rows if validation is None else validation
        weights = self._row_weights(kernels, scored, self.blocks if blocks is None else blocks)
        folds = ()
        if isinstance(self.plan, Folds):
            folds = self.plan.rows(len(rows.target), self.seed)
        solver = eqx.tree_at(lambda s: s.nugget, self.solver, self.nugget)
        return (
            Loss(
                self.parameters,
                rows,
                validation,
                jnp.asarray(weights),
                solver,
                self.regularizer,
                folds,
            ),
            blocks,
            view,
        )

    def _evaluate(self, loss: Loss) -> Callable[[np.ndarray], Evaluation]:
        compiled = evaluator(loss, self.optimizer.second_order)

        def evaluate(theta: np.ndarray) -> Evaluation:
            if not np.isfinite(theta).all() or np.max(np.abs(theta)) > _LARGEST:
                return Evaluation(theta, np.inf, np.zeros_like(theta), None, None)
            value, gradient, normal, reached = compiled(jnp.asarray(theta), loss)
            usable = bool(reached.usable)
            evaluation = Evaluation(
                theta,
                float(value) if usable else np.inf,
                np.asarray(gradient),
                None if normal is None else np.asarray(normal),
                reached,
            )
            self._record(self.evaluations, evaluation.loss, theta, reached, None)
            return evaluation

        return evaluate

    def _record(
        self,
        records: list[LearningRecord],
        loss: float,
        theta: np.ndarray,
        reached: Reached,
        progress: Progress | None,
    ) -> None:
        kernels = self.parameters.kernels(jnp.asarray(theta))
        record = LearningRecord(
            len(self.history) + (progress is not None),
            len(self.evaluations) + (progress is None),
            loss,
            {
                field.name: {k: v.tolist() for k, v in hyperparameters(kernel).items()}
                for field, kernel in zip(self.problem.fields, kernels, strict=True)
            },
            None if progress is None else float(progress.length),
            None if progress is None else float(progress.change),
            float(reached.nugget),
            time.perf_counter() - self.started,
        )
        records.append(record)
        if self.callback is not None:
            self.callback(record)

    def compare_starts(self) -> None:
        """Begin with the best of several lengthscales, by the outer loss at u = 0."""
        candidates = _rescaled(self.parameters, self.blocks)
        middle = self.parameters.kernels(jnp.asarray(candidates[len(candidates) // 2]))
        loss, _, _ = self._loss(middle)
        evaluate = self._evaluate(loss)
        tried = [evaluate(theta) for theta in [self.theta, *candidates]]
        usable = [e for e in tried if e.finite]
        if usable:
            self.theta = min(usable, key=lambda e: e.loss).theta

    def step(self, tolerance: float) -> None:
        """Linearise, lower the outer loss, move the state."""
        if isinstance(self.plan, Fresh) and self.history:
            self.pool = self._draw(len(self.history))
            self.pool_view = view_of(
                self.last_kernels, self.last_rows, self.last_reached, self.residuals, self.pool
            )
        loss, blocks, view = self._loss(self.kernels)
        best, self.memory = self.optimizer.minimise(
            self._evaluate(loss), self.theta, self.memory, 1.0
        )
        if not best.finite:
            self.nugget *= 10.0
            if self.nugget > self.solver.largest_nugget:
                self.result = LEARNING.not_finite
            return
        reached = best.extra
        moved = float(np.max(np.abs(best.theta - self.theta)))
        self.theta = best.theta
        kernels = self.kernels
        train_weights = jnp.asarray(self._row_weights(kernels, loss.rows, self.blocks))
        validation_weights = None if loss.validation is None else loss.row_weights
        progress = advance(
            self.residuals,
            (self.blocks, blocks),
            (loss.rows, loss.validation),
            (self.train, view),
            kernels,
            reached,
            (train_weights, validation_weights),
            jnp.asarray(np.asarray(self.method.lengths)),
        )
        self.train = progress.train
        self.last_kernels, self.last_rows, self.last_reached = kernels, loss.rows, reached
        if self.pool is not None:
            whole = not (isinstance(self.plan, HeldOut) and self.plan.batch is not None)
            self.pool_view = (
                progress.validation
                if whole
                else view_of(kernels, loss.rows, reached, self.residuals, self.pool)
            )
        self._record(self.history, best.loss, best.theta, reached, progress)
        settled = float(progress.length) == 1.0 and float(progress.change) < 10 * tolerance
        if moved < tolerance and settled and not (self.starts and self._elsewhere(loss, best)):
            self.result = LEARNING.converged

    def _elsewhere(self, loss: Loss, best: Evaluation) -> bool:
        """Whether some other lengthscale does better now that the state is known; if so, go there.

        With few validation points the loss has several minima, and the first comparison of starts
        was made before anything was known of the solution.
        """
        evaluate = self._evaluate(loss)
        mask = _lengthscales(self.parameters)
        if self.looks == 0 or not mask.any():
            return False
        self.looks -= 1
        tried = [evaluate(self.theta + mask * np.log(factor)) for factor in _NEARBY]
        winner = min(tried, key=lambda e: e.loss)
        if not winner.finite or winner.loss > 0.9 * best.loss:
            return False
        self.theta, self.memory = winner.theta, None
        return True


def _rows_of(residuals, blocks: tuple[Block, ...], numbers: list[np.ndarray]) -> np.ndarray:
    """The rows that belong to some of the points of each condition."""
    rows, start = [], 0
    for residual, block, chosen in zip(residuals, blocks, numbers, strict=True):
        for _ in residual.components:
            rows.append(start + chosen)
            start += len(block.points)
    return np.concatenate(rows)


def _rescaled(parameters: Parameters, blocks: tuple[Block, ...]) -> list[np.ndarray]:
    """θ with all lengthscales multiplied so that their mean is a fraction of the domain's size."""
    points = np.concatenate([np.asarray(block.points) for block in blocks])
    extent = np.exp(np.mean(np.log(np.ptp(points, axis=0) + 1e-300)))
    mask = _lengthscales(parameters)
    if not mask.any():
        return []
    theta = parameters.vector
    mean = np.mean(theta[mask])
    return [theta + mask * (np.log(fraction * extent) - mean) for fraction in _FRACTIONS]


def _lengthscales(parameters: Parameters) -> np.ndarray:
    """Which entries of θ are logarithms of lengthscales."""
    paths = jax.tree_util.tree_leaves_with_path(parameters.learned)
    return np.concatenate(
        [
            np.full(leaf.size, getattr(path[-1], "name", "") == "log_lengthscale")
            for path, leaf in paths
        ]
    )
