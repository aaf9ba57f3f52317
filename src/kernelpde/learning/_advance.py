"""The inner state after a step: at Π_k(θ), or on the way there."""

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.compiling import compiled, pointwise
from kernelpde.functionals import Kernels, everywhere
from kernelpde.gauss_newton import largest_change, true_residual
from kernelpde.learning._evaluation import Reached
from kernelpde.learning._inner import Linearization, entries_of, places_of
from kernelpde.linear_solvers import (
    Nearby,
)
from kernelpde.problem import Collocation, LinearizedProblem, Residual, linearized


class Progress(eqx.Module):
    """The state after a Gauss-Newton step of the inner problem.

    **Attributes:**

    - `train`, `validation`: what the residuals at both sets of points see of it.
    - `length`: the fraction of the step that was taken.
    - `change`: relative change of the nonlinear entries.
    - `residuals`: root mean square of each condition, at validation points if there are any.
    """

    train: Linearization
    validation: Linearization | None
    length: Float[Array, ""]
    change: Float[Array, ""]
    residuals: Float[Array, " C"]


def advance(
    residuals: tuple[Residual, ...],
    blocks: tuple[tuple[Collocation, ...], tuple[Collocation, ...] | None],
    rows: tuple[LinearizedProblem, LinearizedProblem | None],
    seen: tuple[Linearization, Linearization | None],
    kernels: Kernels,
    reached: Reached,
    row_weights: tuple[Float[Array, " M"], Float[Array, " N"] | None],
    near: tuple[Nearby | None, ...],
    lengths: Float[Array, " L"],
) -> Progress:
    """From uᵏ to Π_k(θ), or as far on the way as the true residual bears the linearization out.

    **Arguments:** each pair is for training and for validation points; `near` is what the plan
    knows about the latter.
    """
    full = _whole_step(rows, kernels, reached, near)
    return _part_of_step(residuals, blocks, seen, full, row_weights, lengths)


@compiled
def _whole_step(
    rows: tuple[LinearizedProblem, LinearizedProblem | None],
    kernels: Kernels,
    reached: Reached,
    near: tuple[Nearby | None, ...],
) -> tuple[Linearization, Linearization | None]:
    """What training and validation residuals see of Π_k(θ); the same for many equations."""
    solved, (train, validation) = reached.solved, rows

    def view(
        entries: tuple[Array, ...], row: LinearizedProblem, image: Float[Array, " _"]
    ) -> Linearization:
        return Linearization(entries, image - row.through_jets(entries))

    full = view(solved.entries(kernels, train), train, solved.fitted)
    if validation is None:
        return everywhere((full, None), solved.devices)
    places = tuple(
        (stack.points, terms)
        for stack, terms in zip(validation.stacks, validation.nonlinear_terms, strict=True)
    )
    entries = entries_of(kernels, solved, places, near)
    other = view(entries, validation, reached.validation_image)
    return everywhere((full, other), solved.devices)


@pointwise
def _part_of_step(
    residuals: tuple[Residual, ...],
    blocks: tuple[tuple[Collocation, ...], tuple[Collocation, ...] | None],
    seen: tuple[Linearization, Linearization | None],
    full: tuple[Linearization, Linearization | None],
    row_weights: tuple[Float[Array, " M"], Float[Array, " N"] | None],
    lengths: Float[Array, " L"],
) -> Progress:
    """How far to go towards Π_k(θ)."""

    def mixed(length):
        return jax.tree.map(lambda old, new: (1.0 - length) * old + length * new, seen, full)

    def misfit(state) -> Float[Array, ""]:
        total = jnp.zeros(())
        for block, view, weights in zip(blocks, state, row_weights, strict=True):
            if block is not None and weights is not None:
                total += jnp.sum(
                    (weights * true_residual(residuals, block, view.jets, view.linear)) ** 2
                )
        return total

    merits = jax.vmap(lambda length: misfit(mixed(length)))(lengths)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    # Close to the end differences of the misfit are rounding, and the whole step is as good as any.
    close = _change(seen[0], full[0]) <= _CLOSE
    length = lengths[jnp.where(close, 0, jnp.argmin(merits))]
    new = mixed(length)
    where, shown = (
        (blocks[0], new[0]) if blocks[1] is None or new[1] is None else (blocks[1], new[1])
    )
    sizes = _condition_sizes(residuals, where, shown)
    return Progress(new[0], new[1], length, _change(seen[0], new[0]), sizes)


def _condition_sizes(
    residuals, blocks: tuple[Collocation, ...], view: Linearization
) -> Float[Array, " C"]:
    """The root mean square residual of each condition."""
    rows = true_residual(residuals, blocks, view.jets, view.linear)
    sizes, start = [], 0
    for residual, block in zip(residuals, blocks, strict=True):
        count = block.count * len(residual.components)
        sizes.append(jnp.sqrt(jnp.mean(rows[start : start + count] ** 2)))
        start += count
    return jnp.stack(sizes)


_CLOSE = 1e-4
"""A whole step with a smaller relative change is taken without looking at the misfit."""


def _change(old: Linearization, new: Linearization) -> Float[Array, ""]:
    """The largest relative change, in root mean square, among the nonlinear entries."""
    return largest_change(old.jets, new.jets)


@compiled
def view_of(
    kernels: Kernels,
    reached: Reached,
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    near: tuple[Nearby | None, ...],
) -> Linearization:
    """What residuals at other points see of Π_k(θ)."""
    solved = reached.solved
    entries = entries_of(kernels, solved, places_of(residuals, blocks), near)
    here = linearized(residuals, blocks, entries)
    image = solved.predicted(kernels, here.stacks, near)
    return everywhere(Linearization(entries, image - here.through_jets(entries)), solved.devices)
