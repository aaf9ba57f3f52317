"""What the kernels of a problem hold against its solution.

An unknown field u has a prior density exp(-½ ‖u‖²), and a condition without noise is met up to the
nugget, as if with noise of variance ηD. Where a kernel is too smooth for its field, both are used
up: the field becomes improbable, and conditions give way. In an inverse problem that pulls at what
is to be found, and nothing else shows it.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.compiling import compiled
from kernelpde.functionals import Kernels, gram_diagonal
from kernelpde.gauss_newton._solution import Solution
from kernelpde.linear_solvers import Local
from kernelpde.problem import LinearizedProblem, linearize


def squared_norm(solution: Solution, fields: tuple[int, ...]) -> float:
    """‖u‖² over some fields, by what their functionals see of them; NaN for the sparse solver."""
    if isinstance(solution.expansion, Local):
        return float("nan")
    total = 0.0
    for batch in solution.expansion:
        own = np.array([term.field in fields for term in batch.terms])
        if own.any():
            seen = np.asarray(solution.jets(batch.terms, batch.points))
            total += float(np.sum((np.asarray(batch.coefficients) * seen)[:, own]))
    return total


def nugget_misfit(solution: Solution) -> float:
    """Σ F² / (ηD) over the rows without noise: how far the nugget lets conditions be missed.

    Were the nugget noise, half of it would be what the log density loses by it.
    """
    problem, blocks = solution.problem, solution.blocks
    entries = [
        solution.jets(residual.terms, block.points)
        for residual, block in zip(problem.residuals, blocks, strict=True)
    ]
    nonlinear = tuple(
        each[:, list(residual.nonlinear)]
        for residual, each in zip(problem.residuals, entries, strict=True)
    )
    rows = linearize(problem.residuals, blocks, nonlinear)
    nugget = jnp.maximum(jnp.asarray(solution.nugget), 1e-300)
    return float(_given_way(problem.kernels, rows, tuple(entries), nugget))


@compiled
def _given_way(
    kernels: Kernels,
    rows: LinearizedProblem,
    entries: tuple[Float[Array, "_ _"], ...],
    nugget: Float[Array, ""],
) -> Float[Array, ""]:
    image = jnp.concatenate(
        [
            stack.summed(jnp.einsum("nrk,nk->rn", stack.coefficients, each))
            for stack, each in zip(rows.stacks, entries, strict=True)
        ]
    )
    allowed = nugget * gram_diagonal(kernels, rows.batches)
    squares = (image - rows.rhs) ** 2 / allowed
    return jnp.sum(jnp.where(rows.variance == 0, squares, 0.0))
