"""How the library's functions are compiled."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WIDE = {"xla_cpu_prefer_vector_width": 512}
"""XLA uses half of a 512-bit vector unit unless told otherwise. Where there is none this changes
nothing; where there is one, Gram matrices and their derivatives take about half the time."""


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`equinox.filter_jit` with the whole vector unit of a CPU.

    Inside somebody else's `jit`, whose options hold, it is `filter_jit` alone.
    """
    plain: Callable[_P, _R] = eqx.filter_jit(function)
    options: dict[str, Any] = {"compiler_options": _WIDE}
    wide: Callable[_P, _R] = eqx.filter_jit(**options)(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        alone = jax.default_backend() == "cpu" and not _inside_jit()
        return (wide if alone else plain)(*args, **kwargs)

    return call


def _inside_jit() -> bool:
    return isinstance(jnp.zeros(()), jax.core.Tracer)
