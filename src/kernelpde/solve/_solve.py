"""Solving a problem with given kernels."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from kernelpde.arrays import Numbers
from kernelpde.errors import SolveError
from kernelpde.linalg import LINEAR
from kernelpde.precision import require_float64
from kernelpde.problem import Block, Problem, refuse_at_zero
from kernelpde.solve._arguments import check_solve
from kernelpde.solve._between import LIMIT, between_points
from kernelpde.solve._result import RESULT
from kernelpde.solve._solution import History, Record, Solution
from kernelpde.solve._start import Start, start_entries
from kernelpde.solve._step import Outcome, take_step, zero_state
from kernelpde.systems import Automatic, Choice, Solver, chosen

_ROUNDING = 1e-6
"""Below this relative change, a full step that no longer shrinks it is limited by rounding."""

_TO_AND_FRO = 0.3
"""Relative changes larger than this are not yet near a solution."""

_WORSE = 1.1
"""A last refined step may make the merit worse by this factor."""

_NOISE = 1e-4
"""Below this, so are three steps in a row that no longer shrink it."""

_NEAR = 0.1
"""After a full step with a smaller relative change, merits use the step's own diagonal."""

_UNRESOLVED = 1e-3
"""A settled iteration that keeps this part of the initial misfit has not met its conditions."""


_LOST = 1e3
"""A misfit so many times the initial one ends the trust in full steps."""


class GaussNewton(eqx.Module):
    """Full steps, always taken, as published."""

    trust: ClassVar[int] = 0

    @property
    def lengths(self) -> tuple[float, ...]:
        """Fractions of a step to choose from."""
        return (1.0,)

    def accepts(self, outcome: Outcome) -> bool:
        """Whether a step is kept: always."""
        del outcome
        return True

    def damping_after(self, damping: float, length: float, accepted: bool) -> float | None:
        """The damping of the next step; `None` to give up."""
        del damping, length
        return 0.0 if accepted else None


class LevenbergMarquardt(eqx.Module):
    """Full steps on trust; if they lead nowhere, shortened, and then damped.

    On the way to a solution full steps may pass through worse states, where an iteration that
    lowers its merit at every step creeps. So some are taken on trust. If they have not settled by
    then, the best state is taken up again, and from there every step goes as far along its way as
    lowers the merit most. Where that is less than a quarter of the way, the next step is damped
    more; after a full one, less.

    **Arguments:**

    - `trust`: how many full steps to take first.
    - `first`: the smallest damping that is not zero, relative to the diagonal.
    - `factor`: by which it grows and shrinks.
    - `last`: where to give up.
    """

    trust: int = 20
    first: float = 1e-8
    factor: float = 10.0
    last: float = 1e8

    @property
    def lengths(self) -> tuple[float, ...]:
        """Fractions of a step to choose from."""
        return tuple(0.5**k for k in range(12))

    def accepts(self, outcome: Outcome) -> bool:
        """Whether a step is kept: if it lowers the merit."""
        return bool(outcome.descends)

    def damping_after(self, damping: float, length: float, accepted: bool) -> float | None:
        """The damping of the next step; `None` to give up."""
        if accepted and length == 1.0:
            reduced = damping / self.factor
            return reduced if reduced >= self.first else 0.0
        if accepted and length >= 0.25:
            return damping
        raised = max(self.first, damping * self.factor * (1.0 if accepted else self.factor))
        return raised if raised <= self.last else None


def solve(
    problem: Problem,
    points: Mapping[str, int | Numbers] | None = None,
    *,
    blocks: tuple[Block, ...] | None = None,
    start: Start | tuple[Array, ...] | None = None,
    seed: int = 0,
    sampling: str = "halton",
    method: GaussNewton | LevenbergMarquardt | None = None,
    solver: Solver | None = None,
    mesh: Mesh | None = None,
    tolerance: float = 1e-7,
    max_steps: int = 50,
    throw: bool = True,
    callback: Callable[[Record], None] | None = None,
) -> Solution:
    """Find the fields of least norm that meet the conditions of a problem at points.

    Minimises ‖u‖² over the kernels' spaces subject to F(u) = 0 at the points, equation (gp_pde) of
    the paper, or with noisy conditions ½ ‖u‖² + ½ Σ Fᵢ² / σᵢ², by Gauss-Newton steps.

    **Arguments:**

    - `problem`: fields with their kernels, and conditions.
    - `points`: for each condition how many points to draw, or the points themselves.
    - `blocks`: points drawn already, by `problem.collocate`, instead.
    - `start`: a solution to begin with, of a problem with the same fields, at any points; or for
      some fields a function of a point, `{"u": lambda x: x[0] ** 2}`; or nonlinear jet entries at
      the points of each condition. Zero if left out.
    - `seed`: of the random points.
    - `sampling`: how to draw them, one of `kernelpde.geometry.METHODS`. The default is even; the
      paper's points are `"uniform"`, which costs about a factor of two in accuracy.
    - `method`: `LevenbergMarquardt()` by default; `GaussNewton()` for undamped steps.
    - `solver`: of the linear systems, with its nugget and refinement; `Automatic()` by default,
      which is `Dense()` up to some thousand rows.
    - `mesh`: devices along one axis that share the work of a large system, from
      `jax.make_mesh((8,), ("rows",))`. Every process calls with the same arguments.
    - `tolerance`: on the relative change of the solution in a full step.
    - `max_steps`: largest number of steps, each with one factorisation.
    - `throw`: raise `SolveError` if the iteration does not converge, instead of returning what was
      reached.
    - `callback`: called with a `Record` after every step.

    **Returns:**

    A `Solution`.
    """
    require_float64()
    check_solve(
        problem,
        points,
        blocks,
        start,
        method,
        solver,
        mesh,
        tolerance,
        max_steps,
        throw,
        callback,
    )
    method = LevenbergMarquardt() if method is None else method
    problem = problem.current()
    if blocks is None:
        blocks = problem.collocate(points, seed=seed, sampling=sampling)
    blocks = problem.with_present_noise(blocks)
    problem = problem.balanced(blocks)
    choice = chosen(
        Automatic() if solver is None else solver, problem.kernels, problem.residuals, blocks, mesh
    )
    choice.announce()
    choice = replace(choice, plan=choice.plan.prepared(problem.kernels))
    iteration = _Iteration(problem, blocks, choice, method, callback)
    if start is not None:
        iteration.begin_at(start)
    while iteration.result is None:
        iteration.advance(tolerance)
        if iteration.result is None and len(iteration.history) >= max_steps:
            iteration.result = RESULT.step_limit
    if choice.plan.refinement and iteration.result is not RESULT.not_positive_definite:
        iteration.polish()
    solution = iteration.solution()
    if solution.converged:
        solution = _looked_at_between(solution, seed)
    elif throw and start is None and iteration.kept is None:
        refuse_at_zero(problem, blocks)
    if throw and not solution.converged:
        advice = "If its lengthscales are a guess, learn the kernel with kernelpde.learn."
        raise SolveError(f"{solution}\n{advice}", solution)
    return solution


def _looked_at_between(solution: Solution, seed: int) -> Solution:
    """The same with its residuals between points, and the result that follows from them."""
    between = between_points(solution.problem, solution.blocks, solution.jets, seed)
    met = all(size is None or size <= LIMIT for size in between.values())
    result = solution.result if met else RESULT.not_met_between
    return replace(solution, between=between, result=result)


def cycles(changes: Sequence[float]) -> bool:
    """Whether steps lead to and fro: near a solution, and none smaller than the last but one.

    Half steps end this: what a whole one turns round, they bring to rest.
    """
    if len(changes) < 5 or max(changes[-3:]) > _TO_AND_FRO:
        return False
    return all(changes[-k] > 0.95 * changes[-k - 2] for k in (1, 2, 3))


def _failure(outcome: Outcome) -> RESULT | None:
    """What the linear solve has failed with, if there is no use in going on."""
    if outcome.result == LINEAR.not_positive_definite:
        return RESULT.not_positive_definite
    return RESULT.linear_solve if outcome.result == LINEAR.not_converged else None


class _Iteration:
    """A solve under way."""

    def __init__(
        self,
        problem: Problem,
        blocks: tuple[Block, ...],
        choice: Choice,
        method: GaussNewton | LevenbergMarquardt,
        callback: Callable[[Record], None] | None,
    ):
        self.problem = problem
        self.blocks = blocks
        self.choice = choice
        self.method = method
        self.callback = callback
        self.state = zero_state(problem.residuals, blocks, choice.plan)
        self.first_diagonal = self.yardstick = jnp.zeros_like(self.state.linear)
        self.damping = 0.0
        self.history: list[Record] = []
        self.kept: Outcome | None = None
        self.best: Outcome | None = None
        self.trust = method.trust
        self.shortened = False
        self.initial_misfit = np.inf
        self.condition = np.inf
        self.result: RESULT | None = None

    def begin_at(self, start: Start | tuple[Array, ...]) -> None:
        """Linearise first at a given state. The first step is a full one, which keeps no more."""
        entries = start if isinstance(start, tuple) else None
        if not isinstance(start, tuple):
            entries = start_entries(self.problem, start, self.blocks)
        self.state = eqx.tree_at(lambda state: state.jets, self.state, entries)
        self.trust = max(self.trust, 1)

    def _step(
        self, damping: float, lengths: tuple[float, ...], sweeps: int, trusted: bool = False
    ) -> Outcome:
        started = time.perf_counter()
        outcome = take_step(
            self.problem.residuals,
            self.problem.kernels,
            self.blocks,
            self.state,
            self.choice.plan,
            damping=jnp.asarray(np.float64(damping)),
            lengths=jnp.asarray(np.asarray(lengths)),
            sweeps=jnp.asarray(np.int64(sweeps)),
            yardstick=self.yardstick,
        )
        finite = bool(outcome.finite)
        if finite and self.kept is None:
            self.first_diagonal = outcome.diagonal
            self.initial_misfit = float(outcome.misfit_at_zero)
        if finite and damping == 0.0:
            self.condition = float(outcome.condition)
        names = [condition.name for condition in self.problem.conditions]
        record = Record(
            len(self.history) + 1,
            damping,
            float(outcome.length),
            finite and (sweeps > 0 or trusted or self.method.accepts(outcome)),
            dict(zip(names, np.asarray(outcome.residual_rms).tolist(), strict=True)),
            float(outcome.merit),
            float(outcome.change),
            float(outcome.nugget),
            time.perf_counter() - started,
        )
        self.history.append(record)
        if self.callback is not None:
            self.callback(record)
        return outcome

    def _keep(self, outcome: Outcome) -> None:
        self.state, self.kept = outcome.state, outcome

    def _trusted(self, tolerance: float) -> None:
        """One full step, kept whatever its merit; the best state is remembered."""
        self.shortened = self.shortened or cycles([r.change for r in self.history])
        length = 0.5 if self.shortened else 1.0
        outcome = self._step(0.0, (length,) * len(self.method.lengths), 0, trusted=True)
        finite = bool(outcome.finite)
        # Steps that keep shrinking are on their way, however slow: with noise or few data the
        # iteration converges linearly.
        self.trust -= not self._contracting()
        if finite:
            self._keep(outcome)
            if self.best is None or outcome.misfit < self.best.misfit:
                self.best = outcome
            settled = self._settled(tolerance)
            if settled is not None and _failure(outcome) is None:
                self._finish(settled, outcome)
                return
        if (failed := _failure(outcome)) is not None:
            self.result = failed
        elif not finite or self.trust == 0 or float(outcome.misfit) > _LOST * self.initial_misfit:
            self.trust = 0
            self.yardstick = self.first_diagonal
            if self.best is not None:
                self._keep(self.best)

    def _finish(self, settled: RESULT, outcome: Outcome) -> None:
        noisy = any(np.any(np.asarray(block.noise) > 0) for block in self.blocks)
        left = float(outcome.misfit) / max(self.initial_misfit, 1e-300)
        self.result = RESULT.unresolved if left > _UNRESOLVED and not noisy else settled

    def advance(self, tolerance: float) -> None:
        """One step, and what follows from it."""
        if self.trust > 0:
            self._trusted(tolerance)
            return
        outcome = self._step(self.damping, self.method.lengths, 0)
        last = self.history[-1]
        settled = self._settled(tolerance) if bool(outcome.finite) else None
        # A settled step is kept even if rounding made its merit a little worse.
        if last.accepted or settled is not None:
            self._keep(outcome)
        damping = self.method.damping_after(self.damping, last.length, last.accepted)
        near = last.length == 1.0 and last.damping == 0.0 and last.change < _NEAR
        self.yardstick = jnp.zeros_like(self.first_diagonal) if near else self.first_diagonal
        if settled is not None:
            self._finish(settled, outcome)
        elif (failed := _failure(outcome)) is not None:
            self.result = failed
        elif damping is None:
            self.result = RESULT.stalled if bool(outcome.finite) else RESULT.not_finite
        else:
            self.damping = damping

    def _settled(self, tolerance: float) -> RESULT | None:
        """Whether the last step was full and changed the solution no more than it could."""
        last = self.history[-1]
        if last.damping > 0.0 or (last.length < 1.0 and not self.trust):
            return None
        if last.change <= tolerance * last.length:
            return RESULT.converged
        if len(self.history) > 1 and _ROUNDING >= last.change >= 0.9 * self.history[-2].change:
            return RESULT.rounding_level
        before = [record.change for record in self.history[-4:-1]]
        if len(before) == 3 and max(before) <= _NOISE and last.change >= 0.9 * min(before):
            return RESULT.rounding_level
        return None

    def _contracting(self) -> bool:
        """Whether the last two steps changed ever less, and little."""
        changes = [record.change for record in self.history[-2:]]
        return len(changes) == 2 and changes[1] < 0.9 * changes[0] and changes[0] <= _NEAR

    def polish(self) -> None:
        """A last full step with iterative refinement, which takes out the bias of the nugget.

        Only from where the iteration has settled: elsewhere a full step may lead anywhere.
        """
        if self.result in (RESULT.converged, RESULT.rounding_level):
            full_steps = (1.0,) * len(self.method.lengths)
            outcome, kept = self._step(0.0, full_steps, self.choice.plan.refinement), self.kept
            # Where the nugget decides between solutions, one step without it leads astray.
            if kept is None or bool(outcome.finite & (outcome.merit <= _WORSE * kept.merit)):
                self._keep(outcome)

    def solution(self) -> Solution:
        shown, result = self.kept, self.result
        assert result is not None
        names = [condition.name for condition in self.problem.conditions]
        nothing = np.full(len(names), np.nan)
        rms = nothing if shown is None else np.asarray(shown.residual_rms)
        largest = nothing if shown is None else np.asarray(shown.residual_max)
        return Solution(
            self.problem,
            self.blocks,
            self.choice.plan.function(self.problem.residuals, self.blocks, self.state.weights),
            {
                n: {"rms": float(r), "max": float(m)}
                for n, r, m in zip(names, rms, largest, strict=True)
            },
            result,
            self.history[-1].nugget,
            self.condition,
            History(self.history),
            self.choice.reason,
        )
