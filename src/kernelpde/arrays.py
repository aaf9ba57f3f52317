"""What counts as numbers where a user gives them."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.core
import numpy as np
from jaxtyping import Array, ArrayLike

_Tree = TypeVar("_Tree")

Numbers: TypeAlias = ArrayLike | Sequence[Any]
"""A number, an array of JAX or numpy, or nested lists of numbers."""


def array(values: Any) -> Array:
    """An array of JAX that shares no memory with one of numpy, which its owner may change.

    `jnp.asarray` may share it, and compiles a program for every shape of a numpy array.
    """
    return values if isinstance(values, jax.Array) else jax.device_put(np.array(values))


def held(tree: _Tree) -> _Tree:
    """A tree whose arrays have no derivatives; functions in it are what they are."""
    return jax.tree.map(
        lambda leaf: jax.lax.stop_gradient(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def known(values: Any) -> Array:
    """An array of JAX that stays known while a function is traced, unless it is being traced."""
    if isinstance(values, jax.core.Tracer):
        return values
    with jax.ensure_compile_time_eval():
        return array(values)
