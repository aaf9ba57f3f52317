"""Where a learning run begins: the best of several lengthscales."""

import dataclasses

import numpy as np

from kernelpde.arrays import array
from kernelpde.learning._evaluation import loss_and_state
from kernelpde.learning._outer import Around
from kernelpde.learning._run import Run
from kernelpde.learning._starts import MIDDLE, lengthscales, spread
from kernelpde.learning._validation import HeldOut, Resampled, batch_of
from kernelpde.learning._warm import unlike
from kernelpde.linear_solvers import Automatic

_SETTLING, _STILL = 12, 0.05
"""So many inner steps a start is given, unless one changes the state by less than this."""

_MANY, _FEW = 6000, 2500
"""With more rows than the first, starts are compared with about as many as the second."""


def compare_starts(run: Run) -> None:
    """Begin with the best of several lengthscales, by the outer loss at u = 0.

    Data say nothing of a coefficient before there is a solution; with them the lengthscales
    begin where they are expected.
    """
    if isinstance(run.regularizer, Around):
        center = np.asarray(run.regularizer.center)
        run.theta = np.where(lengthscales(run.parameters), center, run.theta)
    if run.data is not None:
        return
    candidates = spread(run.parameters, run.extents)
    if not candidates:
        return
    rows = run.problem.row_count(run.blocks)
    few = run if rows <= _MANY else thinned(run, _FEW / rows)
    middle = run.parameters.kernels(array(candidates[MIDDLE]))
    loss, _, _ = few.loss(middle)
    theta, value = few.best_of(loss, [run.theta, *candidates])
    if few is not run:
        run.evaluations += few.evaluations
        run.factorizations += few.factorizations
    if np.isfinite(value):
        run.theta = theta


def thinned(run: Run, share: float) -> Run:
    """A run with a part of the points, and the solver that suits so many."""
    rng = np.random.default_rng([run.seed, 13])

    def some(count: int) -> int:
        return max(1, round(share * count))

    plan = run.plan
    if isinstance(plan, HeldOut | Resampled) and plan.points is not None:
        fewer = {name: some(count) for name, count in plan.points.items()}
        plan = dataclasses.replace(plan, points=fewer)
    blocks, left = [], []
    for whole, rows in zip(run.whole, run.left, strict=True):
        if rows is None:
            blocks.append(batch_of(whole, some(whole.count), rng)[0])
            left.append(None)
            continue
        kept = np.setdiff1d(np.arange(whole.count), rows)
        kept, rows = (rng.choice(r, size=some(len(r)), replace=False) for r in (kept, rows))
        blocks.append(whole.take(np.concatenate([kept, rows])))
        left.append(np.arange(len(kept), len(kept) + len(rows)))
    return Run(
        run.problem,
        tuple(blocks),
        plan,
        run.optimizer,
        run.regularizer,
        run.solver,
        Automatic(float(run.linear_solver.nugget), run.linear_solver.largest_nugget, refinement=0),
        None,
        run.seed,
        run.sampling,
        run.starts,
        run.callback,
        left=tuple(left),
    )


def compare_settled(run: Run) -> None:
    """Begin with the best of several lengthscales and the state that belongs to it.

    Each is given some steps of the inner iteration first: where a solution is rough, the
    problem linearized at u = 0 says nothing of it.
    """
    # In one family: the same for all coordinates, unless these have units of their own.
    families, size = spread(run.parameters, run.extents), 2 * MIDDLE
    candidates = families[:size] if unlike(run.extents) else families[-size:]
    begin = run.train, run.pool_view
    middle = run.parameters.kernels(array(candidates[MIDDLE]))
    best = (np.inf, run.theta, *begin)
    for theta in candidates:
        run.train, run.pool_view = begin
        kernels, value = run.parameters.kernels(array(theta)), np.inf
        for _ in range(_SETTLING):
            loss, blocks, view = run.loss(middle)
            value, reached = loss_and_state(array(theta), loss)
            run.factorizations += 1
            value = float(value) if bool(reached.usable) else np.inf
            if not np.isfinite(value):
                break
            progress = run.advance(loss, blocks, view, kernels, reached, np.ones(1))
            if float(progress.change) < _STILL:
                break
        run.record(run.evaluations, value, theta, run.nugget, None)
        if value < best[0]:
            best = (value, theta, run.train, run.pool_view)
    _, run.theta, run.train, run.pool_view = best
