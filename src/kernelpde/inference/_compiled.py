"""Compiled parts of a posterior."""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.functionals import (
    Functionals,
    Kernels,
    jets,
)
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
)
from kernelpde.problem import Collocation, LinearizedProblem, Residual, linearized

if TYPE_CHECKING:
    pass


@compiled
def conditioned_at(
    residuals: tuple[Residual, ...],
    kernels: Kernels,
    blocks: tuple[Collocation, ...],
    expansion: tuple[Functionals, ...],
    plan: AbstractLinearSolverState,
) -> tuple[LinearizedProblem, AbstractLinearSolution, Float[Array, ""]]:
    entries = tuple(
        jets(kernels, block.points, residual.nonlinear_terms, expansion)
        for residual, block in zip(residuals, blocks, strict=True)
    )
    rows = linearized(residuals, blocks, entries)
    solved = plan.solve(kernels, rows, rows.variance, rows.rhs, 0)
    return rows, solved, jnp.sqrt(solved.energy(rows.rhs) / rows.rhs.shape[0])


@compiled
def surprise_of(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    conditions: tuple[int, ...],
) -> Float[Array, ""]:
    left = solved.left_out(kernels, rows, conditions)
    return jnp.mean(left.weights**2 / left.precision)


@compiled
def covariance_of(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    left: Functionals,
    right: Functionals,
) -> Float[Array, "m n"]:
    return solved.covariance(kernels, rows, left, right)


@compiled
def variance_of(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    functionals: Functionals,
) -> Float[Array, " n"]:
    return solved.variance(kernels, rows, functionals)


def chunks(functionals: Functionals, size: int) -> list[Functionals]:
    """Parts of one size, the last one filled up with its last functional."""
    count = len(functionals)
    size = -(-count // -(-count // size))
    starts = range(0, count, size)
    return [
        functionals[array(np.minimum(np.arange(start, start + size), count - 1))]
        for start in starts
    ]
