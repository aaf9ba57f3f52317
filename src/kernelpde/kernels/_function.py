"""Kernels from functions of two points, by automatic differentiation."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array

from kernelpde.checking import check_callable
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials
from kernelpde.kernels._multiindex import MultiIndex, OrderPair
from kernelpde.kernels._parameters import call_user_function, trace_user_function
from kernelpde.kernels._unroll import Unsupported, unroll


class FunctionKernel(AbstractKernel):
    """κ(x, y) = `function(x, y)`, a user-supplied function.

    Derivatives are computed by nested forward-mode differentiation. The function must be smooth at
    x = y. A distance with a square root is not, and its derivatives there are silently wrong.

    **Arguments:**

    - `function`: function that maps two points of shape `(d,)` to a number. The inexact array
      leaves of an `equinox.Module` with a `__call__` are hyperparameters.

    **Example:**

    ```python
    >>> squared_exponential = kp.FunctionKernel(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)))
    ```
    """

    function: Callable[[Array, Array], Array]

    def __check_init__(self):
        check_callable("FunctionKernel", "the kernel", self.function, "a function of two points")

    def bind_coordinates(self, names: Sequence[str]) -> "FunctionKernel":
        return trace_user_function(self, "function", len(names), num_points=2)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        dimension = len(x)
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        point = jax.ShapeDtypeStruct((dimension,), jnp.float64)
        result = call_user_function(
            "FunctionKernel", "the kernel", partial(jax.eval_shape, self.function), point, point
        )
        if getattr(result, "shape", None) != ():
            raise InputError(f"FunctionKernel: a kernel must return one number; got {result}.")
        try:
            value = unroll(self.function, (dimension, dimension))
            arguments = [jnp.asarray(c) for c in (*x, *y)]
        except Unsupported:
            value = _batched(self.function, dimension)
            arguments = [jnp.broadcast_to(c, shape).reshape(-1) for c in (*x, *y)]

        values = differentiate(value, arguments, orders)
        return [
            value.reshape(shape) if value.size == prod(shape) else jnp.broadcast_to(value, shape)
            for value in values
        ]


def nested_partials(
    value: Callable[..., Array], x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
) -> list[Array]:
    """Return ∂ₓ^α ∂ᵧ^β of an elementwise function of all coordinates."""
    shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
    arguments = [jnp.asarray(c) for c in (*x, *y)]
    return [jnp.broadcast_to(v, shape) for v in differentiate(value, arguments, orders)]


def differentiate(
    value: Callable[..., Array], arguments: Sequence[Array], orders: Sequence[OrderPair]
) -> list[Array]:
    """Return derivatives of an elementwise function by nested forward-mode differentiation."""
    functions: dict[MultiIndex, Callable[..., Array]] = {(0,) * len(arguments): value}

    def derivative(order: MultiIndex) -> Callable[..., Array]:
        if order not in functions:
            axis = next(i for i, n in enumerate(order) if n)
            lower = derivative(tuple(n - (i == axis) for i, n in enumerate(order)))
            functions[order] = _partial(lower, axis)
        return functions[order]

    return [derivative((*alpha, *beta))(*arguments) for alpha, beta in orders]


def _batched(function: Callable[[Array, Array], Array], dimension: int) -> Callable[..., Array]:
    """Map `function` over the last axis, along which memory is contiguous."""
    over_pairs = jax.vmap(function, in_axes=(-1, -1), out_axes=-1)

    def value(*coordinates: Array) -> Array:
        return over_pairs(jnp.stack(coordinates[:dimension]), jnp.stack(coordinates[dimension:]))

    return value


def _partial(function: Callable[..., Array], axis: int) -> Callable[..., Array]:
    """Return the partial derivative of `function` in its argument `axis`."""

    def derivative(*arguments: Array) -> Array:
        def restricted(argument: Array) -> Array:
            return function(*arguments[:axis], argument, *arguments[axis + 1 :])

        return jax.jvp(restricted, (arguments[axis],), (jnp.ones_like(arguments[axis]),))[1]

    return derivative
