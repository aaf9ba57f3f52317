"""Smoothness of user-defined kernels, compared with the derivatives in the conditions."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.errors import InputError
from kernelpde.geometry import AbstractRegion, bounding_box
from kernelpde.kernels import AbstractKernel, FunctionKernel
from kernelpde.problem._fields import Field
from kernelpde.problem._residual import Residual

_PROBE_DISTANCE = 1e-5
"""Distance from the diagonal in units of the domain, compared with ten times this distance. From
there the difference across the diagonal falls tenfold for smooth functions, and not at all for
jumps. Half and double change a difference by a factor of two, which decides nothing."""


def check_smooth(
    fields: Sequence[Field], residuals: Sequence[Residual], regions: Sequence[AbstractRegion]
) -> None:
    """Check that derivatives of a `FunctionKernel` are continuous at x = y.

    Automatic derivatives are wrong where they jump.
    """
    if not any(_is_user_function(field.kernel) for field in fields):
        return
    lower, upper = bounding_box(regions).T
    point = lower + (np.sqrt(2) - 1) * (upper - lower)
    for index, field in enumerate(fields):
        if not _is_user_function(field.kernel):
            continue
        orders = {
            order
            for residual in residuals
            for term in residual.terms
            if term.field == index
            for order in term.orders
            if any(order)
        }
        for order in sorted(orders, key=sum):
            _check_order(field, point, order, float(np.max(upper - lower)))


def _is_user_function(kernel: AbstractKernel) -> bool:
    def is_function(node: object) -> bool:
        return isinstance(node, FunctionKernel)

    return any(map(is_function, jax.tree.leaves(kernel, is_leaf=is_function)))


def _check_order(field: Field, point: np.ndarray, order: tuple[int, ...], extent: float) -> None:
    x = tuple(jnp.full((5,), c) for c in point)
    steps = extent * _PROBE_DISTANCE * np.array([0, 1, -1, 10, -10])
    y = tuple(c + jnp.asarray(steps) for c in x)
    axis = next(i for i, n in enumerate(order) if n)
    lower_order = tuple(n - (i == axis) for i, n in enumerate(order))
    # Even derivatives jump on the diagonal itself, odd derivatives across it.
    for values in field.kernel.partials(x, y, [(order, order), (order, lower_order)]):
        if values is None:
            continue
        center, right, left, outer_right, outer_left = np.asarray(values).tolist()
        jump, outer_jump = abs(right - left), abs(outer_right - outer_left)
        largest = max(map(abs, (right, left, outer_right, outer_left)))
        is_discontinuous = (
            jump > max(0.5 * outer_jump, _PROBE_DISTANCE * largest)
            or abs(center - 0.5 * (right + left)) > 0.25 * largest
            or not np.isfinite(center)
        )
        if np.isfinite(largest) and largest > _PROBE_DISTANCE and is_discontinuous:
            raise InputError(
                f"Field {field.name!r}: the derivatives of its FunctionKernel jump at x = y, from "
                f"{left:.3g} to {center:.3g} to {right:.3g}. Its conditions require continuous "
                f"ones up to order {sum(order)} in both points. A distance or an absolute value is "
                "not smooth there. Use a Matern kernel, or a smooth function."
            )
