"""Relative scales of fields: the scale S_u of u that corresponds to the scale S_v of v.

Each row of a problem linearized at u = 0 relates the scales of its terms: c_rt ∂^γ u_f is of the
order of |c_rt| S_f / L^γ, where L are the extents of the domain. Scales for which all terms of a
row, including the inhomogeneity, have the same order ρ_r solve

    log |c_rt| - γ · log L + log S_f - log ρ_r = 0

in the sense of least squares (Curtis and Reid 1972 scale matrices in this way). The scales are
invariant under changes of the units of fields, coordinates and equations.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import is_tracer
from kernelpde.compiling import compiled
from kernelpde.functionals import SCALES_PER_OCTAVE
from kernelpde.problem._discrete import Conditions
from kernelpde.problem._point_set import PointSet


def coordinate_extents(
    point_sets: Sequence[PointSet], periods: Sequence[float | None] = ()
) -> Float[np.ndarray, " d"]:
    """Return the extent of all points along each coordinate, or its period."""
    points = np.concatenate([np.asarray(point_set.points) for point_set in point_sets])
    extents = np.ptp(points, axis=0)
    for coordinate, period in enumerate(periods):
        if period is not None:
            extents[coordinate] = period
    return np.where(extents > 0, extents, 1.0)


def field_exponents(
    conditions: Conditions,
    extents: Float[np.ndarray, " d"],
    groups: Sequence[int],
) -> Int[Array | np.ndarray, " F"]:
    """Return eight times the binary logarithm of the scale of each field, rounded.

    **Arguments:**

    - `conditions`: conditions at their points.
    - `extents`: extents of the coordinates.
    - `groups`: index of the group of each field. All fields of a group have the same scale.
    """
    num_groups = max(groups) + 1
    num_rows = sum(condition.num_equations for condition in conditions)
    linearizations = linearize_at_zero(conditions)
    traced = any(map(is_tracer, jax.tree.leaves(linearizations)))
    xp = jnp if traced else np
    matrix, rhs = [], []
    terms = _row_terms(conditions, linearizations, groups, np.log2(extents))
    for row, group, order, values in terms:
        rms = xp.sqrt(xp.mean(xp.asarray(values) ** 2))
        # Terms that are zero or not finite do not determine scales.
        is_valid = xp.isfinite(rms) & (rms > 0)
        coefficients = np.zeros(num_groups + num_rows)
        coefficients[num_groups + row] = -1.0
        if group is not None:
            coefficients[group] = 1.0
        matrix.append(xp.where(is_valid, coefficients, 0.0))
        rhs.append(xp.where(is_valid, order - xp.log2(xp.where(is_valid, rms, 1.0)), 0.0))
    log_scales = xp.linalg.lstsq(xp.stack(matrix), xp.stack(rhs), rcond=None)[0][:num_groups]
    exponents = xp.round(SCALES_PER_OCTAVE * log_scales[np.array(groups)]).astype(np.int64)
    return jax.lax.stop_gradient(exponents) if traced else exponents


def _row_terms(
    conditions: Conditions,
    linearizations: list[tuple[Float[Array, "_ _"], Float[Array, "_ _ _"]]],
    groups: Sequence[int],
    log_extents: np.ndarray,
) -> Iterator[tuple[int, int | None, float, Any]]:
    """Yield the row, group, order γ · log L and coefficients of all terms and inhomogeneities."""
    row = 0
    for condition, (values, jacobian) in zip(conditions, linearizations, strict=True):
        for r, terms in enumerate(condition.residual.equation_terms):
            yield row, None, 0.0, values[:, r]
            for t in terms:
                term = condition.terms[t]
                order = np.mean([np.dot(gamma, log_extents) for gamma in term.orders])
                yield row, groups[term.field], float(order), jacobian[:, r, t]
            row += 1


@compiled
def linearize_at_zero(
    conditions: Conditions,
) -> list[tuple[Float[Array, "N R"], Float[Array, "N R T"]]]:
    """Return F and ∂F/∂j of each condition at its points for u = 0."""
    return [condition.evaluate(condition.zero_jets()) for condition in conditions]
