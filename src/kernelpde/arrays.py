"""Conversion of user input to JAX arrays."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.core
import numpy as np
from jaxtyping import Array, ArrayLike

_Tree = TypeVar("_Tree")


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


def on_host(function: Callable[..., Any], *arrays: Any) -> Array:
    """Return `function(*arrays)`, computed by numpy if no array is a tracer.

    A single operation on JAX arrays outside of `jit` compiles a program for its shapes.
    """
    if any(map(is_tracer, arrays)):
        return function(*arrays)
    return to_array(function(*map(np.asarray, arrays)))


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
