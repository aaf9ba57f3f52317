"""One Gauss-Newton step: linearise, assemble, factor, solve, and look at the new residual."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.compiling import compiled
from kernelpde.functionals import Kernels, everywhere, gram_diagonal
from kernelpde.linalg import LINEAR
from kernelpde.problem import Block, Residual, linearised
from kernelpde.systems import AbstractPlan

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
    residuals: tuple[Residual, ...], blocks: tuple[Block, ...], plan: AbstractPlan
) -> State:
    """u = 0."""
    counts = [len(block.points) for block in blocks]
    rows = sum(b.count * len(r.components) for b, r in zip(blocks, residuals, strict=True))
    return State(
        tuple(
            jnp.asarray(np.zeros((n, len(r.nonlinear))))
            for n, r in zip(counts, residuals, strict=True)
        ),
        jnp.asarray(np.zeros(rows)),
        plan.zero(residuals, blocks),
        jnp.asarray(np.zeros(())),
    )


@compiled
def take_step(
    residuals: tuple[Residual, ...],
    kernels: Kernels,
    blocks: tuple[Block, ...],
    state: State,
    plan: AbstractPlan,
    *,
    damping: Float[Array, ""],
    lengths: Float[Array, " L"],
    sweeps: Int[Array, ""],
    yardstick: Float[Array, " M"],
) -> Outcome:
    """From uᵏ towards the minimiser of the linearised problem, damped.

    Let Φ be the functionals of the residual linearised at uᵏ, b = Φuᵏ - F(uᵏ), K = κ(Φ, Φ), D its
    diagonal, η the nugget and T = Σ + ηD what a row may miss. The step minimises

        ½ ‖u‖² + ½ ‖Φu - b‖² in T⁻¹ + ½ λ ‖u - uᵏ‖²,

    the linearised problem with the damping λ of Levenberg and Marquardt. With s = λ / (1 + λ) it is

        u = s uᵏ + κ(·, Φ) z,    z = (K + (1 + λ) T)⁻¹ (b - s Φuᵏ).

    For λ = 0 this is the Gauss-Newton step u = κ(·, Φ)(K + Σ)⁻¹ b, equation (otd:explicit) of the
    paper. On the way from uᵏ to u the true residual costs next to nothing, since everything that
    it depends on is linear in u; so the best of several `lengths` is taken, by the merit
    ½ ‖u‖² + ½ ‖F(u)‖² in T⁻¹.

    **Arguments:**

    - `residuals`, `kernels`, `blocks`: the problem and its points.
    - `state`: uᵏ.
    - `plan`: of the solver of the linear system.
    - `damping`: μ = λη, relative to the diagonal of K, so that 1 is strong.
    - `lengths`: fractions of the step to choose from, longest first.
    - `sweeps`: of iterative refinement in the linear solve.
    - `yardstick`: a diagonal to use for D in the merit; its entries that are 0 stand for D itself.
      Only a fixed one makes merits comparable across steps, since D depends on uᵏ; only D itself
      makes the limit of the iteration a minimum of the merit.
    """
    # Only entries in which a residual is nonlinear are ever evaluated.
    rows = linearised(residuals, blocks, state.jets)
    variance = rows.variance
    applied = rows.through_jets(state.jets) + state.linear

    # Solve.
    diagonal = gram_diagonal(kernels, rows.batches)
    nugget = jnp.maximum(plan.nugget, _SMALLEST_NUGGET)
    shrink = damping / (nugget + damping)
    damped_noise = variance * (1.0 + damping / nugget) + damping * diagonal
    solved = plan.solve(kernels, rows, damped_noise, rows.target - shrink * applied, sweeps)

    # Where the whole step leads.
    jet_increments = solved.entries(kernels, residuals, blocks)
    cross = solved.cross(applied, state.weights)
    full = State(
        tuple(shrink * old + inc for old, inc in zip(state.jets, jet_increments, strict=True)),
        shrink * state.linear + solved.image - rows.through_jets(jet_increments),
        tuple(
            shrink * old + inc for old, inc in zip(state.weights, solved.coefficients, strict=True)
        ),
        shrink**2 * state.norm_squared + 2.0 * shrink * cross + solved.norm_squared,
    )
    inner_product = shrink * state.norm_squared + cross

    def on_the_way(length: Float[Array, ""]) -> State:
        back = 1.0 - length
        mixed = jax.tree.map(lambda old, new: back * old + length * new, state, full)
        norm_squared = (
            back**2 * state.norm_squared
            + 2.0 * back * length * inner_product
            + length**2 * full.norm_squared
        )
        return eqx.tree_at(lambda s: s.norm_squared, mixed, norm_squared)

    # How far to go.
    spans = _spans(residuals, blocks)
    allowed = variance + nugget * jnp.where(yardstick > 0, yardstick, diagonal)

    def judged(candidate: State) -> tuple[Array, Array, Array]:
        """Merit, mean square misfit, and the true residual."""
        residual = true_residual(residuals, blocks, candidate.jets, candidate.linear)
        misfit = jnp.sum(residual**2 / allowed)
        return 0.5 * (candidate.norm_squared + misfit), misfit, residual

    merit_before, _, _ = judged(state)
    at_zero = true_residual(
        residuals,
        blocks,
        tuple(map(jnp.zeros_like, state.jets)),
        jnp.zeros_like(state.linear),
    )
    merits = jax.vmap(lambda length: judged(on_the_way(length))[0])(lengths)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    close = (largest_change(state.jets, full.jets) <= _CLOSE) & (merits[0] <= 1.1 * merit_before)
    tied = merits[0] <= jnp.minimum(jnp.min(merits), merit_before) * (1.0 + _MERIT_ROUNDING)
    length = lengths[jnp.where(close | tied, 0, jnp.argmin(merits))]
    new = on_the_way(length)
    whole = (length == 1.0) & (damping == 0.0)
    merit, misfit, residual_now = judged(new)
    outcome = Outcome(
        new,
        jnp.stack([jnp.sqrt(jnp.mean(residual_now[a:b] ** 2)) for a, b in spans]),
        jnp.stack([jnp.max(jnp.abs(residual_now[a:b])) for a, b in spans]),
        merit_before,
        merit,
        close | (merit < merit_before * jnp.where(whole, 1 + _MERIT_ROUNDING, 1 - _MERIT_ROUNDING)),
        length,
        largest_change(state.jets, new.jets),
        jnp.sqrt(jnp.mean(at_zero**2 / allowed)),
        jnp.sqrt(misfit / rows.target.shape[0]),
        diagonal,
        solved.nugget,
        solved.condition(),
        solved.result,
        jnp.isfinite(solved.weights).all() & jnp.isfinite(merit),
    )
    return everywhere(outcome, solved.devices)


def true_residual(
    residuals: tuple[Residual, ...],
    blocks: tuple[Block, ...],
    jets_there: tuple[Float[Array, "_ _"], ...],
    linear: Float[Array, " M"],
) -> Float[Array, " M"]:
    """F(u), row by row, from the nonlinear jet entries of u and the linear part of each row."""
    curved = [
        block.by_rows(residual.linearise(block.points, block.normals, block.data, entries)[0])
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


def _spans(residuals: tuple[Residual, ...], blocks: tuple[Block, ...]) -> list[tuple[int, int]]:
    """First row and end of the rows of each condition."""
    sizes = [b.count * len(r.components) for r, b in zip(residuals, blocks, strict=True)]
    ends = np.cumsum([0, *sizes]).tolist()
    return list(pairwise(ends))
