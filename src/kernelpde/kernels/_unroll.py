"""Evaluation of functions of small vectors on large batches, with one array per component.

`jax.vmap` of a function of points makes arrays with a short axis for the coordinates, and XLA's CPU
code for them is slow. This module traces the function once for a single point. It then replays the
trace with a separate array for every component of every small vector. The result is elementwise
arithmetic on large arrays, which XLA fuses into one loop.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from kernelpde.tracing import interpret

_ELEMENTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh ceil convert_element_type copy cos cosh
    div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p
    logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sinh sqrt square
    stop_gradient sub tan tanh""".split()
)
_RULES: dict[str, Callable[..., np.ndarray]] = {
    "squeeze": lambda p, a: np.squeeze(a, axis=p["dimensions"]),
    "reshape": lambda p, a: a.reshape(p["new_sizes"]),
    "transpose": lambda p, a: np.transpose(a, p["permutation"]),
    "rev": lambda p, a: np.flip(a, axis=p["dimensions"]),
    "slice": lambda p, a: a[
        tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * a.ndim))
    ],
    "reduce_sum": lambda p, a: _reduce(np.add, a, p["axes"]),
    "reduce_prod": lambda p, a: _reduce(np.multiply, a, p["axes"]),
    "broadcast_in_dim": lambda p, a: _broadcast(a, p["shape"], p["broadcast_dimensions"]),
    "concatenate": lambda p, *a: np.concatenate(a, axis=p["dimension"]),
    "iota": lambda p: _components(jax.lax.iota_p.bind(**p)),
    "dot_general": lambda p, a, b: np.tensordot(a, b, axes=p["dimension_numbers"][0]),
}
"""Evaluation of primitives that are not elementwise, from parameters and operands."""


class Unsupported(Exception):
    """The function has a primitive that cannot be unrolled, or too many operations."""


class _Component:
    """A batch of numbers as one entry of a numpy object array."""

    def __init__(self, batch: Array):
        self.batch = batch

    def __add__(self, other: "_Component") -> "_Component":
        return _Component(self.batch + other.batch)

    def __mul__(self, other: "_Component") -> "_Component":
        return _Component(self.batch * other.batch)


def unroll(function: Callable[..., Array], lengths: Sequence[int]) -> Callable[..., Array]:
    """Return a function of vectors as an elementwise function of all their components.

    Raises `Unsupported` if the function cannot be unrolled.

    **Arguments:**

    - `function`: function of one vector per entry of `lengths` that returns a number.
    - `lengths`: lengths of the vectors.

    **Returns:**

    A function of `sum(lengths)` broadcastable arrays.
    """
    closed = jax.make_jaxpr(function)(*(jnp.zeros(n) for n in lengths))
    if _count_operations(closed.jaxpr) > _MAX_OPERATIONS:
        raise Unsupported("too many scalar operations")

    def run(*components: Array) -> Array:
        iterator = iter(components)
        arguments = [_object_array(list(islice(iterator, n)), (n,)) for n in lengths]
        (result,) = interpret(closed, arguments, _components, _evaluate)
        return result.reshape(-1)[0].batch

    return run


_MAX_OPERATIONS = 400
"""Maximum number of scalar operations. Unrolling longer functions costs too much compilation."""


def _count_operations(jaxpr: jex.Jaxpr) -> int:
    """Count scalar operations. Raise `Unsupported` for primitives that cannot be unrolled."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        size = sum(prod(_shape(v)) for v in equation.outvars)
        if name in ("pjit", "jit"):
            total += _count_operations(equation.params["jaxpr"].jaxpr)
        elif name == "dot_general":
            contracted, batched = equation.params["dimension_numbers"]
            if any(batched):
                raise Unsupported("dot_general with batch dimensions")
            total += size * prod(_shape(equation.invars[0])[i] for i in contracted[0])
        elif name in _ELEMENTWISE:
            total += size
        elif name not in _RULES:
            raise Unsupported(name)
    return total


def _shape(atom) -> tuple[int, ...]:
    return atom.aval.shape


def _evaluate(equation: jex.JaxprEqn, inputs: list[np.ndarray]) -> list[np.ndarray]:
    name, params = equation.primitive.name, equation.params
    if name in ("pjit", "jit"):
        return interpret(params["jaxpr"], inputs, _components, _evaluate)
    if name in _RULES:
        return [np.asarray(_RULES[name](params, *inputs), dtype=object)]
    return [_elementwise(equation.primitive, params, inputs)]


def _object_array(batches: Sequence[Array], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(batches), dtype=object)
    array[:] = [_Component(batch) for batch in batches]
    return array.reshape(shape)


def _components(value) -> np.ndarray:
    """Split a small array into its entries."""
    array = jnp.asarray(value)
    flat = array.reshape(-1)
    return _object_array([flat[i] for i in range(flat.shape[0])], array.shape)


def _elementwise(primitive, params, inputs: Sequence[np.ndarray]) -> np.ndarray:
    operands = np.broadcast_arrays(*inputs)

    def bind(*components: _Component) -> Array:
        return primitive.bind(*jnp.broadcast_arrays(*(c.batch for c in components)), **params)

    results = list(map(bind, *(operand.reshape(-1) for operand in operands)))
    return _object_array(results, operands[0].shape)


def _broadcast(value: np.ndarray, shape, dimensions) -> np.ndarray:
    expanded = [1] * len(shape)
    for axis, dimension in enumerate(dimensions):
        expanded[dimension] = value.shape[axis]
    return np.broadcast_to(value.reshape(expanded), shape)


def _reduce(operation: np.ufunc, value: np.ndarray, axes) -> np.ndarray:
    for axis in sorted(axes, reverse=True):
        value = np.asarray(operation.reduce(value, axis=axis), dtype=object)
    return value
