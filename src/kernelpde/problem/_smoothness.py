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

_NEAR = 1e-6
"""So near to the diagonal, in units of the domain, a smooth kernel is what it is on it."""

_JUMP = 0.1


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
                _check_order(field, place, order, _NEAR * float(np.max(upper - lower)))


def _written(kernel: AbstractKernel) -> bool:
    def is_function(node: object) -> bool:
        return isinstance(node, Function)

    return any(map(is_function, jax.tree.leaves(kernel, is_leaf=is_function)))


def _check_order(field: Field, place: np.ndarray, order: tuple[int, ...], near: float) -> None:
    x = tuple(jnp.full((2,), c) for c in place)
    y = tuple(c + jnp.array([0.0, near]) for c in x)
    (values,) = field.kernel.partials(x, y, [(order, order)])
    if values is None:
        return
    on, beside = np.asarray(values).tolist()
    size = max(abs(on), abs(beside))
    if np.isfinite(beside) and not (abs(on - beside) <= _JUMP * size or size < 1e-6):
        raise InputError(
            f"Field {field.name!r}: derivatives of order {sum(order)} of its Function kernel jump "
            f"at x = y, from {beside:.3g} to {on:.3g}. A distance under a square root or an "
            "absolute value is not smooth there: use a Matern kernel, or a smooth function."
        )
