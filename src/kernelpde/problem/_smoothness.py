"""Whether kernels that users wrote are as smooth as their conditions need."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.errors import InputError
from kernelpde.geometry import AbstractRegion, bounding_box
from kernelpde.kernels import AbstractKernel, Function
from kernelpde.problem._fields import Field
from kernelpde.problem._residual import Residual

_NEAR = (1e-5, 1e-4)
"""Distances from the diagonal, in units of the domain: what is smooth changes tenfold less at the
nearer one."""


def check_smooth(
    fields: Sequence[Field], residuals: Sequence[Residual], regions: Sequence[AbstractRegion]
) -> None:
    """Refuse a `Function` whose derivatives jump at x = y: automatic ones are then wrong there."""
    if not any(_written(field.kernel) for field in fields):
        return
    lower, upper = bounding_box(regions).T
    place = lower + 0.4142 * (upper - lower)
    for number, field in enumerate(fields):
        orders = {
            order
            for residual in residuals
            for term in residual.terms
            if term.field == number
            for order in term.orders
            if any(order)
        }
        if _written(field.kernel):
            for order in sorted(orders, key=sum):
                _check_order(field, place, order, float(np.max(upper - lower)))


def _written(kernel: AbstractKernel) -> bool:
    def is_function(node: object) -> bool:
        return isinstance(node, Function)

    return any(map(is_function, jax.tree.leaves(kernel, is_leaf=is_function)))


def _check_order(field: Field, place: np.ndarray, order: tuple[int, ...], size: float) -> None:
    x = tuple(jnp.full((5,), c) for c in place)
    steps = size * np.array([0.0, _NEAR[0], -_NEAR[0], _NEAR[1], -_NEAR[1]])
    y = tuple(c + jnp.asarray(steps) for c in x)
    axis = next(i for i, n in enumerate(order) if n)
    once_less = tuple(n - (i == axis) for i, n in enumerate(order))
    # Even derivatives jump at the diagonal only, odd ones from one side to the other.
    for values in field.kernel.partials(x, y, [(order, order), (order, once_less)]):
        if values is None:
            continue
        on, right, left, far_right, far_left = np.asarray(values).tolist()
        across, farther = abs(right - left), abs(far_right - far_left)
        largest = max(map(abs, (right, left, far_right, far_left)))
        beside = 0.5 * (right + left)
        jumps = across > max(0.5 * farther, 1e-6 * largest) or abs(on - beside) > 0.1 * largest
        if np.isfinite(largest) and largest > 1e-6 and (jumps or not np.isfinite(on)):
            raise InputError(
                f"Field {field.name!r}: the derivatives of its Function kernel that order "
                f"{sum(order)} needs jump at x = y: {left:.3g}, {on:.3g}, {right:.3g} across it. A "
                "distance under a square root or an absolute value is not smooth there: use a "
                "Matern kernel, or a smooth function."
            )
