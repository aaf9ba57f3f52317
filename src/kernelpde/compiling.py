"""How the library's functions are compiled, and how long what was compiled is kept."""

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OPTIONS: dict[str, Any] = {
    # XLA uses half of a 512-bit vector unit unless told otherwise. Where there is none this changes
    # nothing; where there is one, Gram matrices and their derivatives take about half the time.
    "xla_cpu_prefer_vector_width": 512,
}

_KEPT = 60
"""So many programs are kept. Each takes some 240 memory maps of a process, and Linux grants 65,530:
without a limit a process dies after about 270 of them."""


class _Static(eqx.Module):
    """What a function returns besides arrays."""

    value: Any = eqx.field(static=True)


class Programs:
    """The programs used last, each for one function, structure and shape of its arguments.

    What is dropped is freed: JAX's own cache of a function keeps all of its programs for ever.

    **Arguments:**

    - `most`: how many to keep.

    **Attributes:**

    - `made`: how many were compiled so far, by the name of their function.
    """

    def __init__(self, most: int):
        self.most = most
        self.made: dict[str, int] = {}
        self._programs: OrderedDict[Any, Callable] = OrderedDict()

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, function: Callable, structure: Any, arrays: list, statics: tuple) -> Callable:
        """The program of a function for arguments like these."""
        shapes = tuple((a.shape, a.dtype, getattr(a, "weak_type", False)) for a in arrays)
        # Part of another program, whose options hold, if a transformation is under way.
        nested = any(isinstance(a, jax.core.Tracer) for a in arrays)
        key = (function, structure, statics, shapes, jax.default_backend(), nested)
        if key in self._programs:
            self._programs.move_to_end(key)
            return self._programs[key]
        name = getattr(function, "__qualname__", repr(function))
        self.made[name] = self.made.get(name, 0) + 1
        while len(self._programs) >= self.most:
            self._programs.popitem(last=False)
        program = self._programs[key] = _jitted(function, structure, statics, nested)
        return program


def _jitted(function: Callable, structure: Any, statics: tuple, nested: bool) -> Callable:
    def flat(arrays: list) -> tuple[Any, _Static]:
        given = iter(arrays)
        leaves = [next(given) if leaf is _ARRAY else leaf for leaf in statics]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        dynamic, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        return dynamic, _Static(static)

    flat.__name__ = getattr(function, "__name__", "compiled")
    on_cpu = jax.default_backend() == "cpu" and not nested
    options: dict[str, Any] = {"compiler_options": cpu_options()} if on_cpu else {}
    return jax.jit(flat, **options)


class _Array:
    """Stands for an array among the leaves that are none."""


_ARRAY = _Array()

_programs = Programs(_KEPT)


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` compiled, arrays as arguments and all else as part of the program.

    With options that suit the library on a CPU; inside somebody else's `jit`, whose options hold,
    it is the function itself.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _inside_jit():
            return function(*args, **kwargs)
        leaves, structure = jax.tree.flatten((args, kwargs))
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray)]
        statics = tuple(
            _ARRAY if isinstance(leaf, jax.Array | np.ndarray) else leaf for leaf in leaves
        )
        dynamic, static = _programs.get(function, structure, arrays, statics)(arrays)
        return cast(_R, eqx.combine(dynamic, static.value))

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


def traced(*trees: Any) -> bool:
    """Whether a transformation of JAX is under way, of which some of these arrays are part."""
    leaves = jax.tree.leaves(trees)
    return _inside_jit() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _inside_jit() -> bool:
    return isinstance(jnp.zeros(()), jax.core.Tracer)
