"""Conversion of user input to JAX arrays."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.core
import numpy as np
from jaxtyping import Array, ArrayLike

_Tree = TypeVar("_Tree")

TINY = 1e-300
"""Lower bound of denominators, so that a magnitude of zero divides nothing by zero. Its half and
double are as far below every magnitude of a problem."""

FLOAT_BYTES = np.dtype(float).itemsize

_PROGRAM_TOLERANCE = 1e-6
"""Relative difference up to which two programs computed the same value. Rounding errors of
derivatives reach a hundredth of it. Half and double were not measured."""


def is_tracer(value: object) -> TypeGuard[jax.core.Tracer]:
    """Return whether a value is an array inside of a transformation of JAX, without numbers."""
    return isinstance(value, jax.core.Tracer)


@runtime_checkable
class SupportsArray(Protocol):
    """An object that `np.asarray` accepts, such as a `pandas.Series` or an `xarray.DataArray`."""

    def __array__(self) -> np.ndarray: ...


Numbers: TypeAlias = ArrayLike | Sequence[Any] | SupportsArray
"""A number, an array of JAX, numpy, pandas or xarray, or nested lists of numbers."""


def to_array(values: object) -> Array:
    """Return a JAX array that shares no memory with a numpy array of the caller.

    `jnp.asarray` may share it, and compiles a program for every shape of a numpy array.
    """
    return values if isinstance(values, jax.Array) else jax.device_put(np.array(values))


def on_host(function: Callable, *arrays: Any) -> Array:
    """Return `function(*arrays)`, computed by numpy if no array is a tracer.

    A single operation on JAX arrays outside of `jit` compiles a program for its shapes.
    """
    if any(map(is_tracer, arrays)):
        return function(*arrays)
    return to_array(function(*map(np.asarray, arrays)))


def agree(first: Any, second: Any) -> bool:
    """Return whether two programs, which may differ in rounding, computed the same array."""
    if np.shape(first) != np.shape(second):
        return False
    magnitude = np.max(np.abs(second), initial=0.0, where=np.isfinite(second))
    absolute = _PROGRAM_TOLERANCE * magnitude / 1000
    return np.allclose(first, second, _PROGRAM_TOLERANCE, absolute, equal_nan=True)


def stop_gradient(tree: _Tree) -> _Tree:
    """Return a tree whose arrays have no derivatives. Other leaves are unchanged."""
    return jax.tree.map(
        lambda leaf: jax.lax.stop_gradient(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def concrete_array(values: object) -> Array:
    """Return a JAX array that stays concrete inside of `jit`. Tracers are returned unchanged."""
    if is_tracer(values):
        return values
    with jax.ensure_compile_time_eval():
        return to_array(values)
