"""What counts as numbers where a user gives them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

Numbers: TypeAlias = ArrayLike | Sequence[Any]
"""A number, an array of JAX or numpy, or nested lists of numbers."""


def known(values: Any) -> Array:
    """An array of JAX that stays known while a function is traced, unless it is being traced."""
    if isinstance(values, jax.core.Tracer):
        return values
    with jax.ensure_compile_time_eval():
        return jnp.asarray(values)
