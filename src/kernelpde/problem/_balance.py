"""The sizes of fields that go together: u of order S_u where v is of order S_v.

Every row of a problem linearized at u = 0 says what goes with what: c_rt ∂^γ u_f is of the order of
|c_rt| S_f / L^γ, with L the extents of the domain. Sizes for which all parts of a row are of one
order ρ_r, inhomogeneities included, solve

    log |c_rt| - γ · log L + log S_f - log ρ_r = 0

in the sense of least squares (Curtis and Reid 1972 scale matrices like that). In other units of
fields, coordinates or equations the answer is the same in those units.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.compiling import compiled
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._residual import Residual


def extents_of(
    blocks: Sequence[Collocation], periods: Sequence[float | None] = ()
) -> Float[np.ndarray, " d"]:
    """How far points reach along each coordinate; a period where there is one."""
    points = np.concatenate([np.asarray(block.points) for block in blocks])
    found = np.ptp(points, axis=0)
    for coordinate, period in enumerate(periods):
        if period is not None:
            found[coordinate] = period
    return np.where(found > 0, found, 1.0)


def field_exponents(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    extents: Float[np.ndarray, " d"],
    groups: Sequence[int],
) -> Int[Array | np.ndarray, " F"]:
    """Eight times the binary logarithm of the size of each field, rounded.

    **Arguments:**

    - `residuals`, `blocks`: of the problem.
    - `extents`: of the coordinates.
    - `groups`: for each field a number, the same for fields that have one size.
    """
    count, logs = max(groups) + 1, np.log2(extents)
    found = at_zero(residuals, blocks)
    inside = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(found))
    np_ = jnp if inside else np
    matrix, rhs = [], []
    rows = sum(len(residual.components) for residual in residuals)
    row = 0
    for residual, (values, slopes) in zip(residuals, found, strict=True):
        for r, used in enumerate(residual.components):
            parts: list[tuple[int | None, float, Any]] = [(None, 0.0, values[:, r])]
            for t in used:
                term = residual.terms[t]
                order = np.mean([np.dot(gamma, logs) for gamma in term.orders])
                parts.append((groups[term.field], float(order), slopes[:, r, t]))
            for group, order, numbers in parts:
                size = np_.sqrt(np_.mean(np_.asarray(numbers) ** 2))
                # What is zero or infinite says nothing of sizes: its row is zero.
                told = np_.isfinite(size) & (size > 0)
                equation = np.zeros(count + rows)
                equation[count + row] = -1.0
                if group is not None:
                    equation[group] = 1.0
                matrix.append(np_.where(told, equation, 0.0))
                rhs.append(np_.where(told, order - np_.log2(np_.where(told, size, 1.0)), 0.0))
            row += 1
    sizes = np_.linalg.lstsq(np_.stack(matrix), np_.stack(rhs), rcond=None)[0][:count]
    exponents = np_.round(8.0 * sizes[np.array(groups)]).astype(np.int64)
    return jax.lax.stop_gradient(exponents) if inside else exponents


@compiled
def at_zero(
    residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...]
) -> list[tuple[Float[Array, "N R"], Float[Array, "N R T"]]]:
    """F and ∂F/∂j of each condition at its points, for u = 0."""
    return [
        residual.linearize(
            block.points,
            block.normals,
            block.data,
            jnp.zeros((len(block.points), len(residual.nonlinear))),
        )
        for residual, block in zip(residuals, blocks, strict=True)
    ]
