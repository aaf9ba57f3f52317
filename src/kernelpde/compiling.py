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

_OPTIONS: dict[str, Any] = {
    # XLA uses half of a 512-bit vector unit unless told otherwise. Where there is none this changes
    # nothing; where there is one, Gram matrices and their derivatives take about half the time.
    "xla_cpu_prefer_vector_width": 512,
}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`equinox.filter_jit` with options that suit the library on a CPU.

    Inside somebody else's `jit`, whose options hold, it is `filter_jit` alone.
    """
    plain: Callable[_P, _R] = eqx.filter_jit(function)

    @functools.cache
    def suited() -> Callable[_P, _R]:
        options: dict[str, Any] = {"compiler_options": cpu_options()}
        return eqx.filter_jit(**options)(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        alone = jax.default_backend() == "cpu" and not _inside_jit()
        return (suited() if alone else plain)(*args, **kwargs)

    return call


@functools.cache
def cpu_options() -> dict[str, Any]:
    """Those of our options that this version of XLA knows; it refuses what it does not."""
    return {name: value for name, value in _OPTIONS.items() if known(name, value)}


def known(name: str, value: Any) -> bool:
    """Whether XLA takes an option."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _inside_jit() -> bool:
    return isinstance(jnp.zeros(()), jax.core.Tracer)
