"""Any function of two points as a kernel, differentiated automatically."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array

from kernelpde.checking import function
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates
from kernelpde.kernels._multiindex import MultiIndex, OrderPair
from kernelpde.kernels._parameters import called
from kernelpde.kernels._unroll import Unsupported, unrolled


class Function(AbstractKernel):
    """κ(x, y) = `function(x, y)`, written by the user.

    Derivatives come from nested forward-mode differentiation. Write the function so that it is
    smooth at x = y: a distance under a square root is not, and its derivatives there are silently
    wrong.

    **Arguments:**

    - `function`: takes two points of shape `(d,)` and returns a number. An `equinox.Module` with a
      `__call__` brings its own hyperparameters: its inexact array leaves.

    **Example:**

    ```python
    >>> squared_exponential = kp.Function(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)))
    ```
    """

    function: Callable[[Array, Array], Array]

    def __check_init__(self):
        function("Function", "the kernel", self.function, "a function of two points")

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        dimension = len(x)
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        point = jax.ShapeDtypeStruct((dimension,), jnp.float64)
        result = called(
            "Function", "the kernel", partial(jax.eval_shape, self.function), point, point
        )
        if getattr(result, "shape", None) != ():
            raise InputError(f"Function: a kernel must return one number; got {result}.")
        try:
            value = unrolled(self.function, (dimension, dimension))
            arguments = [jnp.asarray(c) for c in (*x, *y)]
        except Unsupported:
            value = _batched(self.function, dimension)
            arguments = [jnp.broadcast_to(c, shape).reshape(-1) for c in (*x, *y)]

        values = differentiated(value, arguments, orders)
        return [
            value.reshape(shape) if value.size == prod(shape) else jnp.broadcast_to(value, shape)
            for value in values
        ]


def nested_partials(
    value: Callable[..., Array], x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
) -> list[Array]:
    """∂ₓ^α ∂ᵧ^β of an elementwise function of all coordinates, by nested differentiation."""
    shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
    arguments = [jnp.asarray(c) for c in (*x, *y)]
    return [jnp.broadcast_to(v, shape) for v in differentiated(value, arguments, orders)]


def differentiated(
    value: Callable[..., Array], arguments: Sequence[Array], orders: Sequence[OrderPair]
) -> list[Array]:
    """Each derivative of `value`, which is elementwise in its arguments."""
    memory: dict[MultiIndex, Callable[..., Array]] = {(0,) * len(arguments): value}

    def derivative(order: MultiIndex) -> Callable[..., Array]:
        if order not in memory:
            axis = next(i for i, n in enumerate(order) if n)
            lower = derivative(tuple(n - (i == axis) for i, n in enumerate(order)))
            memory[order] = _along(lower, axis)
        return memory[order]

    return [derivative((*alpha, *beta))(*arguments) for alpha, beta in orders]


def _batched(function: Callable[[Array, Array], Array], dimension: int) -> Callable[..., Array]:
    """`function` over one batch axis, last, so that its arithmetic runs along contiguous memory."""
    over_pairs = jax.vmap(function, in_axes=(-1, -1), out_axes=-1)

    def value(*coordinates: Array) -> Array:
        return over_pairs(jnp.stack(coordinates[:dimension]), jnp.stack(coordinates[dimension:]))

    return value


def _along(function: Callable[..., Array], axis: int) -> Callable[..., Array]:
    """The partial derivative of `function` in its argument number `axis`."""

    def along(*arguments: Array) -> Array:
        def of_one(argument: Array) -> Array:
            return function(*arguments[:axis], argument, *arguments[axis + 1 :])

        return jax.jvp(of_one, (arguments[axis],), (jnp.ones_like(arguments[axis]),))[1]

    return along
