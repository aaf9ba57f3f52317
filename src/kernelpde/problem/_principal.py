"""Principal parts of equations and boundary conditions at points."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.compiling import pointwise
from kernelpde.functionals import Term
from kernelpde.problem._residual import Residual

_ROUNDING = 1e-6
"""Relative difference up to which principal parts at different jets are equal."""


class Principal(NamedTuple):
    """Highest derivatives of an equation in one field at a point.

    **Attributes:**

    - `field`: index of the field.
    - `order`: highest order of derivatives in the equation, 0, 1 or 2.
    - `tensor`: their coefficients up to a factor: a number, a vector or a symmetric matrix. `None`
      if they depend on the solution, if other fields have derivatives of this order too, or if the
      order is higher.
    - `value`: solution of a linear equation of order 0 in the field alone, otherwise NaN.
    """

    field: int
    order: int
    tensor: np.ndarray | None
    value: float


def principal_parts(
    residual: Residual, points: Float[np.ndarray, "n d"], normals: Float[np.ndarray, "n d"] | None
) -> list[list[Principal]]:
    """Return the principal parts of all equations of a residual, for each of several points."""
    if residual.data:
        return [[] for _ in points]
    count = len(points)
    # Jets of three functions: zero, and two that are generic.
    jets = np.random.default_rng(0).normal(size=(3 * count, len(residual.nonlinear)))
    jets[:count] = 0.0
    normals = None if normals is None else np.tile(normals, (3, 1))
    values, jacobian = _linearize(
        residual,
        to_array(np.tile(points, (3, 1))),
        None if normals is None else to_array(normals),
        to_array(jets),
    )
    values = np.asarray(values)[:count]
    jacobians = np.asarray(jacobian).reshape(3, count, *jacobian.shape[1:])
    return [
        [
            principal
            for equation in range(values.shape[1])
            for principal in _principal(
                residual.terms, values[n, equation], jacobians[:, n, equation]
            )
        ]
        for n in range(count)
    ]


@pointwise
def _linearize(
    residual: Residual,
    points: Float[Array, "n d"],
    normals: Float[Array, "n d"] | None,
    jets: Float[Array, "n K"],
) -> tuple[Float[Array, "n R"], Float[Array, "n R T"]]:
    return residual.linearize(points, normals, {}, jets)


def _principal(
    terms: Sequence[Term], value: float, coefficients: Float[np.ndarray, "3 T"]
) -> list[Principal]:
    """Return the principal part of one equation, one entry per field."""
    is_nonzero = np.any(coefficients[1:] != 0, axis=0)
    summands = [(term, coefficients[:, t]) for t, term in enumerate(terms) if is_nonzero[t]]
    order = max((term.order for term, _ in summands), default=0)
    fields = sorted({term.field for term, _ in summands if term.order == order})
    if len(fields) != 1 or order > 2:
        return [Principal(field, order, None, np.nan) for field in fields]
    tensors = np.zeros((3, *(2,) * order))
    for term, values in summands:
        if term.order == order and term.node_index is None:
            for multi_index in term.orders:
                axes = np.repeat(np.arange(len(multi_index)), multi_index)
                # The coefficient of a mixed derivative belongs to two entries of the matrix.
                for entry in {tuple(axes), tuple(axes[::-1])}:
                    tensors[(slice(None), *entry)] += values / (1 + (len(set(axes)) > 1))
    tensor = _common_direction(tensors[1:])
    is_linear = order == 0 and len(summands) == 1 and tensors[0] == tensors[1]
    return [Principal(fields[0], order, tensor, -value / tensors[0] if is_linear else np.nan)]


def _common_direction(tensors: Float[np.ndarray, " 2 *_"]) -> np.ndarray | None:
    """Return two tensors of norm 1 if they are equal up to a factor."""
    norms = np.sqrt(np.sum(tensors.reshape(2, -1) ** 2, axis=1))
    if not (np.isfinite(norms).all() and norms.all()):
        return None
    first, second = (tensor / norm for tensor, norm in zip(tensors, norms, strict=True))
    second = second * np.sign(np.sum(first * second))
    return np.asarray(first) if np.abs(first - second).max() < _ROUNDING else None
