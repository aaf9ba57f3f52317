"""The inner problem: a linearised system, and its solution as a function of the kernels."""

import equinox as eqx
from jaxtyping import Array, Float

from kernelpde.functionals import (
    Functionals,
    Kernels,
    gram_diagonal,
    gram_of_blocks,
    jets,
    stacked_matvec,
)
from kernelpde.linalg import Dense, DenseFactor
from kernelpde.problem import Block, Residual, Rows


class View(eqx.Module):
    """What the residuals at some points see of a state: sums of states are sums of views.

    **Attributes:**

    - `jets`: per condition, the entries in which its residual is nonlinear.
    - `linear`: per row, the part of the residual that is linear in u.
    """

    jets: tuple[Float[Array, "_ _"], ...]
    linear: Float[Array, "M"]


class Inner(eqx.Module):
    """Π_k(θ): the state κ_θ(·, Φ) z that solves the linearised training problem.

    **Attributes:**

    - `rows`: Φ and b.
    - `weights`: z = (K_Φ + Σ)⁻¹ b.
    - `system`: the factored matrix.
    - `image`: Φu = K_Φ z.
    """

    rows: Rows
    weights: Float[Array, "M"]
    system: DenseFactor
    image: Float[Array, "M"]


def inner_map(kernels: Kernels, rows: Rows, solver: Dense, keep: bool = False) -> Inner:
    """Solve the linearised training problem: equations (otd:explicit) and, with noise,
    (reg:linear_mini) of the paper.

    Differentiable in the kernels, forwards and backwards, at the cost of one more solve and one
    more product with the Gram matrix, which is not kept for it; with `keep`, more is.
    """

    def product(vector: Float[Array, "M"]) -> Float[Array, "M"]:
        return stacked_matvec(kernels, rows.stacks, rows.stacks, vector, keep=keep)

    batches = rows.batches
    diagonal = gram_diagonal(kernels, batches)
    system = solver.factorize(gram_of_blocks(kernels, batches), rows.variance, diagonal)
    z = system.solve(rows.target, product=product)
    image = product(z) if solver.refinement else rows.target - system.added * z
    return Inner(rows, z, system, image)


def entries_of(
    kernels: Kernels,
    expansion: tuple[Functionals, ...],
    residuals: tuple[Residual, ...],
    blocks: tuple[Block, ...],
) -> tuple[Float[Array, "_ _"], ...]:
    """The nonlinear jet entries, per condition, of a state given by weighted functionals."""
    return tuple(
        jets(kernels, block.points, residual.nonlinear_terms, expansion)
        for residual, block in zip(residuals, blocks, strict=True)
    )
