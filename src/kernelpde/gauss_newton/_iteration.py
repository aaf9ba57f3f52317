"""The Gauss-Newton iteration as a value: where it is, one step of it, and when it ends.

A loop in Python around `advance` shows progress and can be interrupted; a `while_loop` around the
same function runs inside of `jit`, `vmap` and `grad`.
"""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.gauss_newton._discretization import Parts
from kernelpde.gauss_newton._iterate import Control, Count, Iterate, Iteration, Number, Taken, Truth
from kernelpde.gauss_newton._result import GOING_ON, RESULTS, code_of
from kernelpde.gauss_newton._solvers import Solver
from kernelpde.gauss_newton._step import Outcome, take_step, zero_state
from kernelpde.linear_solvers import RESULTS as LINEAR
from kernelpde.problem import Collocation

_ROUNDING = 1e-6
"""Below this relative change, a full step that no longer shrinks it is limited by rounding."""

_OSCILLATING = 0.3
"""Relative changes larger than this are not yet near a solution."""

_WORSE = 1.1
"""A last refined step may make the merit worse by this factor."""

_NOISE = 1e-4
"""Below this, so are three steps in a row that no longer shrink it."""

_FLUCTUATING, _STAGNANT = 1e-2, 1e-3
"""Below the first, so are half steps whose changes go up and down and no longer shrink, while the
merit changes relatively by less than the second: an entry of the jets that should vanish is made of
rounding. What converges slowly has changes that shrink."""

_NEAR = 0.1
"""After a full step with a smaller relative change, merits use the step's own diagonal."""

_UNRESOLVED = 1e-3
"""A settled iteration that keeps this part of the initial misfit has not met its conditions."""

_LOST = 1e3
"""Growth of the misfit over the initial one at which full steps are no longer trusted."""

_REMEMBERED = 5
"""Number of steps whose relative changes decide whether steps oscillate."""


def begun(
    parts: Parts,
    solver: Solver,
    entries: tuple[Float[Array, "_ _"], ...] | None = None,
) -> Iteration:
    """An iteration that begins at u = 0, or where the nonlinear jet entries are given.

    The first step from there is a full one, which keeps no more of it.
    """
    state = zero_state(parts.residuals, parts.blocks, parts.plan)
    if entries is not None:
        state = eqx.tree_at(lambda s: s.jets, state, tuple(map(jnp.asarray, entries)))
    rows, count = state.linear.shape[0], len(parts.residuals)
    nothing = array(np.full(count, np.nan))
    kept = Iterate(state, nothing, nothing)
    nan, infinite, no = np.float64(np.nan), np.float64(np.inf), np.False_
    going_on = np.int64(GOING_ON)
    return Iteration(
        kept,
        kept,
        state.jets,
        array(np.zeros(rows)),
        Taken(nan, nan, no, nan, nan, nan, no, no, going_on, nan, nan, nan),
        nothing,
        Control(
            np.full(_REMEMBERED, np.inf),
            np.float64(0.0),
            np.int64(solver.trust if entries is None else max(solver.trust, 1)),
            no,
            no,
            infinite,
            infinite,
            nan,
            infinite,
            no,
            np.int64(0),
            going_on,
        ),
    )


def cycles(changes: Float[Array | np.ndarray, " n"]) -> Truth:
    """Whether steps oscillate: near a solution, and none smaller than the last but one.

    Half steps end this: what a whole one turns round, they bring to rest.

    **Arguments:**

    - `changes`: the last relative changes, at least five, the latest at the end; infinite ones
      where there were fewer steps.
    """
    near = changes[-3:].max() <= _OSCILLATING
    return near & (changes[-3:] > 0.95 * changes[-5:-2]).all()


def _contracting(changes: Float[Array | np.ndarray, "5"]) -> Truth:
    """Whether the last two steps changed ever less, and little."""
    return (changes[-1] < 0.9 * changes[-2]) & (changes[-2] <= _NEAR)


def _fluctuates(changes: Float[Array | np.ndarray, "5"]) -> Truth:
    """Whether the last steps are small, went up and down, and no longer shrink."""
    rises = (changes[1:] > 1.05 * changes[:-1]).sum()
    small = changes.max() <= _FLUCTUATING
    return small & (rises >= 1) & (rises <= 3) & (changes[-1] >= 0.9 * changes[:-1].min())


def _settled(
    last: Taken,
    changes: Float[Array | np.ndarray, "5"],
    trust: Count,
    stagnant: Truth,
    tolerance: Number,
) -> tuple[Truth, Truth]:
    """Whether the last step was full and changed the solution no more than it could; and whether
    that is because of rounding.

    **Arguments:**

    - `stagnant`: whether half steps no longer change the merit.
    """
    full = (last.damping == 0.0) & ((last.length == 1.0) | (trust > 0))
    before = changes[-4:-1]
    rounding = (changes[-1] <= _ROUNDING) & (changes[-1] >= 0.9 * changes[-2])
    rounding |= (before.max() <= _NOISE) & (changes[-1] >= 0.9 * before.min())
    rounding |= stagnant & _fluctuates(changes)
    converged = last.change <= tolerance * last.length
    return full & (converged | rounding), ~converged


class _Verdict(NamedTuple):
    """What becomes of a step: whether it is the first, kept, the best; or the best taken up."""

    control: Control
    first: Truth
    keep: Truth
    better: Truth
    back: Truth


def _decided(
    control: Control,
    last: Taken,
    trusted: Truth,
    shortened: Truth,
    noisy: Truth,
    solver: Solver,
    tolerance: Number,
    np_: Any,
) -> _Verdict:
    """After a step that is not the refined one."""
    changes = np_.concatenate([control.changes[1:], np_.reshape(last.change, 1)])
    first = last.finite & np_.isnan(control.merit)
    initial = np_.where(first, last.misfit_at_zero, control.initial_misfit)
    # Steps that keep shrinking are on their way, however slow: with noise or few data the
    # iteration converges linearly.
    trust = control.trust - np_.where(trusted & ~_contracting(changes), 1, 0)
    stagnant = shortened & (np_.abs(last.merit - control.merit) <= _STAGNANT * last.merit)
    settled, by_rounding = _settled(last, changes, trust, stagnant, tolerance)
    solved = last.failure == GOING_ON
    settled = settled & last.finite & solved

    # Full steps on trust: the best state is remembered, and taken up again if they lead nowhere.
    better = trusted & last.finite & (last.misfit < control.best_misfit)
    best_misfit = np_.where(better, last.misfit, control.best_misfit)
    astray = ~last.finite | (trust == 0) | (last.misfit > _LOST * initial)
    back = trusted & ~settled & solved & astray

    # A settled step is kept even if rounding made its merit a little worse.
    keep = last.accepted | settled
    damping, going_on = solver.damping_after(control.damping, last.length, last.accepted, np_)
    near = (last.length == 1.0) & (last.damping == 0.0) & (last.change < _NEAR)

    unmet = (last.misfit / np_.maximum(initial, 1e-300) > _UNRESOLVED) & ~noisy
    good = np_.where(by_rounding, code_of(RESULTS.rounding_level), code_of(RESULTS.converged))
    ended = np_.where(last.finite, code_of(RESULTS.stalled), code_of(RESULTS.not_finite))
    code = np_.where(trusted | going_on, GOING_ON, ended)
    code = np_.where(solved, code, last.failure)
    code = np_.where(settled, np_.where(unmet, code_of(RESULTS.unresolved), good), code)
    undamped = last.finite & (last.damping == 0.0)
    new = Control(
        changes,
        np_.where(trusted, control.damping, damping),
        np_.where(back, 0, trust),
        shortened,
        np_.where(trusted, control.fixed | back, ~near),
        initial,
        best_misfit,
        np_.where(keep, last.merit, control.merit),
        np_.where(undamped, last.condition, control.condition),
        control.polished,
        control.steps + 1,
        code,
    )
    return _Verdict(new, first, keep, better, back & np_.isfinite(best_misfit))


def _polished(control: Control, last: Taken, np_: Any) -> _Verdict:
    """After the refined step."""
    # Where the nugget decides between solutions, one step without it leads astray.
    good = last.finite & (last.merit <= _WORSE * control.merit)
    undamped = np_.where(last.finite, last.condition, control.condition)
    new = eqx.tree_at(
        lambda c: (c.condition, c.polished, c.steps), control, (undamped, good, control.steps + 1)
    )
    no = np_.zeros_like(good)
    return _Verdict(new, no, good, no, no)


_T = TypeVar("_T")


def _chosen(which: Truth, one: _T, other: _T) -> _T:
    """One of two trees."""
    if isinstance(which, jax.Array):
        return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)
    return one if which else other


def advance(
    parts: Parts,
    solver: Solver,
    iteration: Iteration,
    sweeps: Count,
    tolerance: Number,
) -> Iteration:
    """One step, and what follows from it.

    Decisions are made with numpy in a loop of Python, and with JAX inside of one of its own: to
    compile them would take longer than the step itself.

    **Arguments:**

    - `parts`, `solver`: what is solved, where and how.
    - `iteration`: where it is.
    - `sweeps`: of iterative refinement. With any, this is the last step, a full one that takes out
      the bias of the nugget, from where the iteration has settled: elsewhere it may lead anywhere.
    - `tolerance`: on the relative change in a full step.
    """
    control = iteration.control
    inside = isinstance(sweeps, jax.Array)
    np_: Any = jnp if inside else np
    polishing = np_.asarray(sweeps > 0)
    trusted = (control.trust > 0) & ~polishing
    shortened = control.shortened | (trusted & cycles(control.changes))
    whole = np_.where(shortened & ~polishing, 0.5, 1.0)
    damping = np_.where(trusted | polishing, 0.0, control.damping)
    outcome = take_step(
        parts.residuals,
        parts.kernels,
        parts.blocks,
        iteration.kept.state,
        parts.plan,
        damping=array(damping),
        lengths=array(np_.where(trusted | polishing, whole, np_.asarray(solver.lengths))),
        sweeps=array(np_.asarray(sweeps)),
        merit_scale=_chosen(
            control.fixed,
            iteration.first_diagonal,
            array(np.zeros(iteration.first_diagonal.shape)),
        ),
    )
    last = _taken(outcome, damping)
    last = last if inside else jax.device_get(last)
    accepted = last.finite & (trusted | polishing | solver.accepts(last))
    last = eqx.tree_at(lambda t: t.accepted, last, accepted)
    noisy = np_.stack([_noisy(block, np_) for block in parts.blocks]).any()
    verdict = _decided(control, last, trusted, shortened, noisy, solver, tolerance, np_)
    verdict = _chosen(polishing, _polished(control, last, np_), verdict)
    new = Iterate(outcome.state, outcome.residual_rms, outcome.residual_max)
    best = _chosen(verdict.better, new, iteration.best)
    kept = _chosen(verdict.keep, new, iteration.kept)
    return Iteration(
        _chosen(verdict.back, best, kept),
        best,
        iteration.kept.state.jets,
        _chosen(verdict.first, outcome.diagonal, iteration.first_diagonal),
        last,
        outcome.residual_rms,
        verdict.control,
    )


def _noisy(block: Collocation, np_: Any) -> Truth:
    """Whether a condition need not be met exactly."""
    noisy = np_.asarray(block.noise) > 0
    if block.quadrature is not None:
        noisy &= (np_.asarray(block.quadrature) != 0).any(axis=1)
    return noisy.any()


@compiled
def _taken(outcome: Outcome, damping: Number) -> Taken:
    failure = jnp.where(
        outcome.result == LINEAR.not_converged, code_of(RESULTS.linear_solve), GOING_ON
    )
    singular = outcome.result == LINEAR.not_positive_definite
    return Taken(
        array(damping),
        outcome.length,
        outcome.finite,
        outcome.merit,
        outcome.change,
        outcome.nugget,
        outcome.finite,
        outcome.descends,
        jnp.where(singular, code_of(RESULTS.not_positive_definite), failure),
        outcome.misfit_at_zero,
        outcome.misfit,
        outcome.condition,
    )
