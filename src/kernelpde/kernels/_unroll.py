"""Running a function of small vectors on large batches, one array per component.

`jax.vmap` of a function of points makes arrays with a short axis for the coordinates, and XLA's CPU
code for them is slow. Here the function is traced once for a single point and replayed with every
component of every small vector as an array of its own, so that the whole becomes elementwise
arithmetic on large arrays, which XLA fuses into one loop.
"""

from collections.abc import Callable, Sequence
from math import prod

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

_ELEMENTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh ceil convert_element_type copy cos cosh
    div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p
    logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sinh sqrt square
    stop_gradient sub tan tanh""".split()
)
_MOVES: dict[str, Callable] = {
    "squeeze": lambda a, p: np.squeeze(a, axis=p["dimensions"]),
    "reshape": lambda a, p: a.reshape(p["new_sizes"]),
    "transpose": lambda a, p: np.transpose(a, p["permutation"]),
    "rev": lambda a, p: np.flip(a, axis=p["dimensions"]),
    "slice": lambda a, p: a[
        tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * a.ndim))
    ],
    "reduce_sum": lambda a, p: _reduced(np.add, a, p["axes"]),
    "reduce_prod": lambda a, p: _reduced(np.multiply, a, p["axes"]),
}


class Unsupported(Exception):
    """The function uses a primitive that cannot be taken apart into components."""


class _Component:
    """A batch of numbers that numpy treats as one entry of an object array."""

    def __init__(self, batch: Array):
        self.batch = batch

    def __add__(self, other: "_Component") -> "_Component":
        return _Component(self.batch + other.batch)

    def __mul__(self, other: "_Component") -> "_Component":
        return _Component(self.batch * other.batch)


def unrolled(function: Callable[..., Array], lengths: Sequence[int]) -> Callable[..., Array]:
    """`function` of vectors of the given lengths as a function of all their components.

    **Arguments:**

    - `function`: takes one vector per entry of `lengths` and returns a number.
    - `lengths`: static.

    **Returns:**

    A function of `sum(lengths)` broadcastable arrays, elementwise.
    Raises `Unsupported` at once if `function` cannot be replayed in this way.
    """
    closed = jax.make_jaxpr(function)(*(jnp.zeros(n) for n in lengths))
    if _operations(closed.jaxpr) > _LARGEST:
        raise Unsupported("too many scalar operations")

    def run(*components: Array) -> Array:
        iterator = iter(components)
        arguments = []
        for length in lengths:
            arguments.append(_entries([next(iterator) for _ in range(length)], (length,)))
        (result,) = _replay(closed, arguments)
        return result.reshape(-1)[0].batch

    return run


_LARGEST = 400
"""Scalar operations up to which taking a function apart pays: beyond, compilation does not."""


def _operations(jaxpr: jex.Jaxpr) -> int:
    """How many scalar operations a function consists of; raises if it cannot be taken apart."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        size = sum(prod(_shape(v)) for v in equation.outvars)
        if name in ("pjit", "jit"):
            total += _operations(equation.params["jaxpr"].jaxpr)
        elif name == "dot_general":
            contracted, batched = equation.params["dimension_numbers"]
            if any(batched):
                raise Unsupported("dot_general with batch dimensions")
            total += size * prod(_shape(equation.invars[0])[i] for i in contracted[0])
        elif name in _ELEMENTWISE:
            total += size
        elif name not in _MOVES and name not in _OTHER:
            raise Unsupported(name)
    return total


def _shape(atom) -> tuple[int, ...]:
    return atom.aval.shape


_OTHER = ("broadcast_in_dim", "concatenate", "iota")


def _replay(closed: jex.ClosedJaxpr, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    jaxpr = closed.jaxpr
    values: dict[jex.Var, np.ndarray] = {}
    values.update(zip(jaxpr.constvars, map(_components, closed.consts), strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom) -> np.ndarray:
        return _components(atom.val) if isinstance(atom, jex.Literal) else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        name, params = equation.primitive.name, equation.params
        if name in ("pjit", "jit"):
            results = _replay(params["jaxpr"], inputs)
        elif name in _MOVES:
            results = [np.asarray(_MOVES[name](inputs[0], params), dtype=object)]
        elif name == "broadcast_in_dim":
            results = [_broadcast(inputs[0], params["shape"], params["broadcast_dimensions"])]
        elif name == "concatenate":
            results = [np.concatenate(inputs, axis=params["dimension"])]
        elif name == "iota":
            results = [_components(equation.primitive.bind(**params))]
        elif name == "dot_general":
            results = [_contracted(inputs[0], inputs[1], params["dimension_numbers"][0])]
        else:
            results = [_elementwise(equation.primitive, params, inputs)]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _entries(batches: Sequence[Array], shape: tuple[int, ...]) -> np.ndarray:
    entries = np.empty(len(batches), dtype=object)
    for i, batch in enumerate(batches):
        entries[i] = _Component(batch)
    return entries.reshape(shape)


def _components(value) -> np.ndarray:
    """Each entry of a small array as a component of its own."""
    array = jnp.asarray(value)
    flat = array.reshape(-1)
    return _entries([flat[i] for i in range(flat.shape[0])], array.shape)


def _elementwise(primitive, params, inputs: Sequence[np.ndarray]) -> np.ndarray:
    broadcast = np.broadcast_arrays(*inputs)
    results = [
        primitive.bind(*jnp.broadcast_arrays(*(c.batch for c in operands)), **params)
        for operands in zip(*(operand.reshape(-1) for operand in broadcast), strict=True)
    ]
    return _entries(results, broadcast[0].shape)


def _broadcast(value: np.ndarray, shape, dimensions) -> np.ndarray:
    expanded = [1] * len(shape)
    for axis, dimension in enumerate(dimensions):
        expanded[dimension] = value.shape[axis]
    return np.broadcast_to(value.reshape(expanded), shape)


def _contracted(left: np.ndarray, right: np.ndarray, axes) -> np.ndarray:
    return np.asarray(
        np.tensordot(left, right, axes=(tuple(axes[0]), tuple(axes[1]))), dtype=object
    )


def _reduced(operation: np.ufunc, value: np.ndarray, axes) -> np.ndarray:
    for axis in sorted(axes, reverse=True):
        value = np.asarray(operation.reduce(value, axis=axis), dtype=object)
    return value
