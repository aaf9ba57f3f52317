"""Diagnostics for kernels that are too smooth.

A field u has the prior density exp(-½ ‖u‖²), and a noise-free condition holds up to the nugget, as
with noise of variance ηD. A kernel that is too smooth for its field increases both the RKHS norm
and the residual of noise-free conditions. In an inverse problem both bias the unknowns, and no
other diagnostic detects it.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY
from kernelpde.compiling import compiled
from kernelpde.functionals import Prior, gram_diagonal
from kernelpde.problem import LinearSystem
from kernelpde.solution._solution import Solution


def squared_norm(solution: Solution, fields: tuple[int, ...]) -> float:
    """Return ‖u‖² over some fields; NaN for the sparse solver."""
    if solution.local_expansion is not None:
        return float("nan")
    total = 0.0
    for batch in solution.batches:
        mask = np.array([term.field in fields for term in batch.terms])
        if mask.any():
            values = np.asarray(solution.evaluate_jets(batch.terms, batch.points))
            total += float(np.sum((np.asarray(batch.coefficients) * values)[:, mask]))
    return total


def nugget_misfit(solution: Solution) -> float:
    """Return Σ F² / (ηD) over the noise-free rows, the residual that the nugget permits.

    If the nugget is interpreted as noise of variance ηD, it reduces the log density by half this
    value.
    """
    discrete = solution.problem.at_points(solution.point_sets)
    jet_values = tuple(
        solution.evaluate_jets(condition.terms, condition.point_set.points)
        for condition in discrete.conditions
    )
    nonlinear = tuple(
        values[:, list(condition.residual.nonlinear)]
        for condition, values in zip(discrete.conditions, jet_values, strict=True)
    )
    system = discrete.linearize(nonlinear)
    nugget = jnp.maximum(jnp.asarray(solution.nugget), TINY)
    return float(_scaled_misfit(discrete.prior, system, jet_values, nugget))


@compiled
def _scaled_misfit(
    prior: Prior,
    system: LinearSystem,
    jet_values: tuple[Float[Array, "_ _"], ...],
    nugget: Float[Array, ""],
) -> Float[Array, ""]:
    applied = jnp.concatenate(
        [
            stack.reduce_quadrature(jnp.einsum("nrk,nk->rn", stack.coefficients, values))
            for stack, values in zip(system.stacks, jet_values, strict=True)
        ]
    )
    variance = nugget * gram_diagonal(prior, system.batches)
    squares = (applied - system.rhs) ** 2 / variance
    return jnp.sum(jnp.where(system.variance == 0, squares, 0.0))
