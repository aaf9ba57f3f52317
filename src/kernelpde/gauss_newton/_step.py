"""One Gauss-Newton step: linearize, assemble, factor, solve, and look at the new residual."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import array
from kernelpde.compiling import compiled, pointwise
from kernelpde.functionals import Kernels, everywhere, gram_diagonal
from kernelpde.linear_solvers import RESULTS as LINEAR
from kernelpde.linear_solvers import AbstractLinearSolverState
from kernelpde.problem import Collocation, LinearizedProblem, Residual, linearize

_SMALLEST_NUGGET = 1e-15
"""Stands for a nugget of zero where the damping is measured by it."""


_MERIT_ROUNDING = 1e-6
"""Relative differences of the merit that say nothing."""

_CLOSE = 1e-5
"""A full step with a smaller relative change is judged by its change, no longer by its merit."""


class State(eqx.Module):
    """An iterate u, through everything that the next step needs to know of it.

    **Attributes:**

    - `jets`: for each condition, the entries at its points in which its residual is nonlinear.
    - `linear`: for each row, the part of its residual that is linear in u.
    - `weights`: what the solver keeps u as, for example w in u = Σᵢₜ wᵢₜ ψᵢₜ κ with ψᵢₜ the jet
      entry t at point i. A sum of iterates is a sum of weights.
    - `norm_squared`: ‖u‖² in the space of the kernel.
    """

    jets: tuple[Float[Array, "_ _"], ...]
    linear: Float[Array, " M"]
    weights: tuple[Float[Array, "_ _"], ...]
    norm_squared: Float[Array, ""]


class Outcome(eqx.Module):
    """What a step has led to.

    **Attributes:**

    - `state`: the new iterate.
    - `residual_rms`, `residual_max`: of the true residual at the new iterate, per condition.
    - `merit_before`, `merit`: what a step has to lower; see `take_step`.
    - `descends`: whether it does, as far as rounding lets one tell.
    - `length`: the fraction of the step that was taken.
    - `change`: largest relative change (root mean square) among the nonlinear jet entries.
    - `misfit_at_zero`, `misfit`: root mean square of the residual relative to what a row may miss,
      for u = 0 and for the new iterate.
    - `diagonal`: of the Gram matrix.
    - `nugget`, `condition`, `result`: of the linear solve.
    - `finite`: whether every number is.
    """

    state: State
    residual_rms: Float[Array, " C"]
    residual_max: Float[Array, " C"]
    merit_before: Float[Array, ""]
    merit: Float[Array, ""]
    descends: Bool[Array, ""]
    length: Float[Array, ""]
    change: Float[Array, ""]
    misfit_at_zero: Float[Array, ""]
    misfit: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    condition: Float[Array, ""]
    result: LINEAR
    finite: Bool[Array, ""]


def zero_state(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    plan: AbstractLinearSolverState,
) -> State:
    """u = 0."""
    counts = [len(block.points) for block in blocks]
    rows = sum(b.count * len(r.components) for b, r in zip(blocks, residuals, strict=True))
    return State(
        tuple(
            array(np.zeros((n, len(r.nonlinear)))) for n, r in zip(counts, residuals, strict=True)
        ),
        array(np.zeros(rows)),
        plan.zero(residuals, blocks),
        array(np.zeros(())),
    )


def take_step(
    residuals: tuple[Residual, ...],
    kernels: Kernels,
    blocks: tuple[Collocation, ...],
    state: State,
    plan: AbstractLinearSolverState,
    *,
    damping: Float[Array, ""],
    lengths: Float[Array, " L"],
    sweeps: Int[Array, ""],
    merit_scale: Float[Array, " M"],
) -> Outcome:
    """From uᵏ towards the minimizer of the linearized problem, damped.

    Let Φ be the functionals of the residual linearized at uᵏ, b = Φuᵏ - F(uᵏ), K = κ(Φ, Φ), D its
    diagonal, η the nugget and T = Σ + ηD what a row may miss. The step minimizes

        ½ ‖u‖² + ½ ‖Φu - b‖² in T⁻¹ + ½ λ ‖u - uᵏ‖²,

    the linearized problem with the damping λ of Levenberg and Marquardt. With s = λ / (1 + λ) it is

        u = s uᵏ + κ(·, Φ) z,    z = (K + (1 + λ) T)⁻¹ (b - s Φuᵏ).

    For λ = 0 this is the Gauss-Newton step u = κ(·, Φ)(K + Σ)⁻¹ b, the closed form of the
    paper. On the way from uᵏ to u the true residual costs next to nothing, since everything that
    it depends on is linear in u; so the best of several `lengths` is taken, by the merit
    ½ ‖u‖² + ½ ‖F(u)‖² in T⁻¹.

    Four programs: the two that depend on the equation do little per point and are compiled quickly;
    the others know only of rows.

    **Arguments:**

    - `residuals`, `kernels`, `blocks`: the problem and its points.
    - `state`: uᵏ.
    - `plan`: of the solver of the linear system.
    - `damping`: μ = λη, relative to the diagonal of K, so that 1 is strong.
    - `lengths`: fractions of the step to choose from, longest first.
    - `sweeps`: of iterative refinement in the linear solve.
    - `merit_scale`: a diagonal to use for D in the merit; where it is 0 it stands for D itself.
      Only a fixed one makes merits comparable across steps, since D depends on uᵏ; only D itself
      makes the limit of the iteration a minimum of the merit.
    """
    rows = linearize(residuals, blocks, state.jets)
    target, tried = whole_step(kernels, rows, state, plan, damping, sweeps, lengths)
    found = _true_residuals(residuals, blocks, *tried)
    return _part_of_step(*found, rows.variance, state, target, lengths, merit_scale)


class Target(eqx.Module):
    """Where the whole step leads.

    **Attributes:**

    - `state`: u.
    - `inner_product`: ⟨uᵏ, u⟩.
    - `undamped`: whether it is the minimizer itself.
    - `smallest`: η, of which no nugget is less.
    - `diagonal`, `nugget`, `condition`, `result`: of the matrix and its solve.
    - `finite`: whether every number is.
    """

    state: State
    inner_product: Float[Array, ""]
    undamped: Bool[Array, ""]
    smallest: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    condition: Float[Array, ""]
    result: LINEAR
    finite: Bool[Array, ""]


@compiled
def whole_step(
    kernels: Kernels,
    rows: LinearizedProblem,
    state: State,
    plan: AbstractLinearSolverState,
    damping: Float[Array, ""],
    sweeps: Int[Array, ""],
    lengths: Float[Array, " L"],
) -> tuple[Target, tuple[tuple[Float[Array, "K _ _"], ...], Float[Array, "K M"]]]:
    """The minimizer of the linearized problem, damped.

    And the jets and linear parts of the states whose residuals are of interest: where the step
    begins, u = 0, and all fractions of the step.
    """
    applied = rows.through_jets(state.jets) + state.linear
    diagonal = gram_diagonal(kernels, rows.batches)
    nugget = jnp.maximum(plan.nugget, _SMALLEST_NUGGET)
    shrink = damping / (nugget + damping)
    damped_noise = rows.variance * (1.0 + damping / nugget) + damping * diagonal
    solved = plan.solve(kernels, rows, damped_noise, rows.rhs - shrink * applied, sweeps)
    jet_increments = solved.entries(kernels, rows)
    cross = solved.inner_product(applied, state.weights)
    full = State(
        tuple(shrink * old + inc for old, inc in zip(state.jets, jet_increments, strict=True)),
        shrink * state.linear + solved.fitted - rows.through_jets(jet_increments),
        tuple(
            shrink * old + inc for old, inc in zip(state.weights, solved.coefficients, strict=True)
        ),
        shrink**2 * state.norm_squared + 2.0 * shrink * cross + solved.norm_squared,
    )
    target = Target(
        full,
        shrink * state.norm_squared + cross,
        damping == 0.0,
        nugget,
        diagonal,
        solved.nugget,
        solved.condition(),
        solved.result,
        jnp.isfinite(solved.weights).all(),
    )

    def tried(old: Array, new: Array) -> Array:
        some = jax.vmap(lambda length: (1.0 - length) * old + length * new)(lengths)
        return jnp.concatenate([old[None], jnp.zeros_like(old)[None], some])

    every = tuple(map(tried, state.jets, full.jets)), tried(state.linear, full.linear)
    return everywhere((target, every), solved.devices)


@pointwise
def _true_residuals(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    jets_there: tuple[Float[Array, "K _ _"], ...],
    linear: Float[Array, "K M"],
) -> tuple[Float[Array, "K M"], Float[Array, "K C"], Float[Array, "K C"]]:
    """F(u) for several u; for each condition its root mean square and largest."""
    rows = jax.vmap(lambda j, v: true_residual(residuals, blocks, j, v))(jets_there, linear)
    parts = [rows[:, a:b] for a, b in _spans(residuals, blocks)]
    counts = [b.active * len(r.components) for r, b in zip(residuals, blocks, strict=True)]
    rms = [jnp.sqrt(jnp.sum(p**2, 1) / n) for p, n in zip(parts, counts, strict=True)]
    return rows, jnp.stack(rms, 1), jnp.stack([jnp.max(jnp.abs(p), 1) for p in parts], 1)


@pointwise
def _part_of_step(
    rows: Float[Array, "K M"],
    rms: Float[Array, "K C"],
    largest: Float[Array, "K C"],
    variance: Float[Array, " M"],
    state: State,
    target: Target,
    lengths: Float[Array, " L"],
    merit_scale: Float[Array, " M"],
) -> Outcome:
    """How far to go, from the true residuals of all states that `whole_step` has named."""
    full = target.state
    norms = (
        (1.0 - lengths) ** 2 * state.norm_squared
        + 2.0 * (1.0 - lengths) * lengths * target.inner_product
        + lengths**2 * full.norm_squared
    )
    allowed = variance + target.smallest * jnp.where(merit_scale > 0, merit_scale, target.diagonal)
    misfits = jnp.sum(rows**2 / allowed, axis=1)
    merit_before = 0.5 * (state.norm_squared + misfits[0])
    merits = 0.5 * (norms + misfits[2:])
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    close = (largest_change(state.jets, full.jets) <= _CLOSE) & (merits[0] <= 1.1 * merit_before)
    tied = merits[0] <= jnp.minimum(jnp.min(merits), merit_before) * (1.0 + _MERIT_ROUNDING)
    which = jnp.where(close | tied, 0, jnp.argmin(merits))
    length, merit = lengths[which], merits[which]
    misfit = misfits[which + 2]
    new = jax.tree.map(lambda old, new: (1.0 - length) * old + length * new, state, full)
    new = eqx.tree_at(lambda s: s.norm_squared, new, norms[which])
    whole = (length == 1.0) & target.undamped
    return Outcome(
        new,
        rms[which + 2],
        largest[which + 2],
        merit_before,
        merit,
        close | (merit < merit_before * jnp.where(whole, 1 + _MERIT_ROUNDING, 1 - _MERIT_ROUNDING)),
        length,
        largest_change(state.jets, new.jets),
        jnp.sqrt(misfits[1] / rows.shape[1]),
        jnp.sqrt(misfit / rows.shape[1]),
        target.diagonal,
        target.nugget,
        target.condition,
        target.result,
        target.finite & jnp.isfinite(merit),
    )


def true_residual(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    jets_there: tuple[Float[Array, "_ _"], ...],
    linear: Float[Array, " M"],
) -> Float[Array, " M"]:
    """F(u), row by row, from the nonlinear jet entries of u and the linear part of each row."""
    curved = [
        block.by_rows(residual.linearize(block.points, block.normals, block.data, entries)[0])
        for residual, block, entries in zip(residuals, blocks, jets_there, strict=True)
    ]
    return linear + jnp.concatenate(curved)


def largest_change(
    old: tuple[Float[Array, "_ _"], ...], new: tuple[Float[Array, "_ _"], ...]
) -> Float[Array, ""]:
    """The largest relative change, in root mean square, among the nonlinear jet entries."""
    ratios = [
        jnp.sqrt(jnp.sum((n - o) ** 2, axis=0) / jnp.maximum(jnp.sum(n**2, axis=0), 1e-300))
        for o, n in zip(old, new, strict=True)
    ]
    return jnp.max(jnp.concatenate([*ratios, jnp.zeros(1)]))


def _spans(
    residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
) -> tuple[tuple[int, int], ...]:
    """First row and end of the rows of each condition."""
    sizes = [b.count * len(r.components) for r, b in zip(residuals, blocks, strict=True)]
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(pairwise(ends))
