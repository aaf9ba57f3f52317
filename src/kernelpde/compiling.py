"""Compilation of the library's functions, and the cache of their programs."""

import functools
import gc
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.core
import numpy as np

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OPTIONS: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}
"""Options of all programs on a CPU. XLA uses half of a 512-bit vector unit by default. With the
full width, Gram matrices and their derivatives take about half the time. The option has no effect
on other CPUs."""

_ARCTAN: dict[str, Any] = {"xla_cpu_prefer_vector_width": 256}
"""Options of programs with an arctangent. With 512 bits XLA's code for the arctangent of double
precision numbers is wrong (jaxlib 0.10.2): jnp.arctan(0.3) is off by 0.3. `tests/test_compiling.py`
fails when that is fixed."""

_FAST_COMPILE: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
"""Options of programs with small arguments. They compile in about half the time. They run at the
same speed without derivatives and up to 1.3 times as long with them (1200 rows)."""

_POINTWISE: dict[str, Any] = {**_FAST_COMPILE, "xla_backend_optimization_level": 0}
"""Options of programs with little arithmetic per point. They compile in a tenth of the time."""

MAX_PADDED_ROWS = 1000
"""Longest argument with which a program counts as small. Compilation of small programs costs more
time than their arithmetic."""

_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_PADDED_SIZES = np.unique([int(step * decade) for decade in (1, 10, 100, 1000) for step in _STEPS])
"""Numbers of points to which small problems are padded, so that they share programs. Round numbers
are among them and need no padding."""

_MAX_PROGRAMS = 120
"""Maximum number of programs in memory. Each uses 150 to 240 memory maps of a process, and Linux
grants 65,530. Without a limit a process fails after about 270 programs."""


class _Static(eqx.Module):
    """The outputs of a function that are not arrays."""

    value: Any = eqx.field(static=True)


class ProgramCache:
    """Recently used programs, by function, structure and shapes of the arguments.

    The memory of a dropped program is freed, whereas JAX's cache of a function keeps all programs.

    **Arguments:**

    - `max_programs`: maximum number of programs.

    **Attributes:**

    - `compile_counts`: number of compilations by the name of the function.
    """

    def __init__(self, max_programs: int):
        self.max_programs = max_programs
        self.compile_counts: Counter[str] = Counter()
        self._programs: OrderedDict[Any, Callable] = OrderedDict()

    def __len__(self) -> int:
        return len(self._programs)

    def call(
        self,
        function: Callable,
        args: tuple,
        kwargs: Mapping[str, Any],
        fast_compile: Mapping[str, Any] = _FAST_COMPILE,
    ) -> Any:
        """Call the program of a function for such arguments, and compile it if it is new."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray)]
        statics = tuple(
            _ARRAY if isinstance(leaf, jax.Array | np.ndarray) else leaf for leaf in leaves
        )
        shapes = tuple((a.shape, a.dtype, getattr(a, "weak_type", False)) for a in arrays)
        # Inside a transformation the options of the enclosing program apply.
        nested = any(isinstance(a, jax.core.Tracer) for a in arrays)
        key = (function, structure, statics, shapes, jax.default_backend(), nested)
        if key in self._programs:
            self._programs.move_to_end(key)
            dynamic, static = self._programs[key](arrays)
            return eqx.combine(dynamic, static.value)
        self.compile_counts[getattr(function, "__qualname__", repr(function))] += 1
        while len(self._programs) >= self.max_programs:
            self._programs.popitem(last=False)
        options = None
        if jax.default_backend() == "cpu" and not nested:
            small = max((n for a in arrays for n in a.shape), default=0) <= MAX_PADDED_ROWS
            options = cpu_options(fast_compile if small else {})
        program = _jit(function, structure, statics, options)
        if (
            options
            and _ARCTAN.keys() <= options.keys()
            and _has_arctan(program.trace(arrays).jaxpr.jaxpr)
        ):
            program = _jit(function, structure, statics, options | _ARCTAN)
        self._programs[key] = program
        dynamic, static = _first_call(program, arrays)
        return eqx.combine(dynamic, static.value)


def _has_arctan(jaxpr: Any) -> bool:
    """Return whether a jaxpr contains an arctangent, also in loops and branches."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "atan":
            return True
        for value in equation.params.values():
            for body in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(body, "jaxpr", body)
                if hasattr(inner, "eqns") and _has_arctan(inner):
                    return True
    return False


def _jit(function: Callable, structure: Any, statics: tuple, options: dict[str, Any] | None) -> Any:
    def flat(arrays: list) -> tuple[Any, _Static]:
        remaining = iter(arrays)
        leaves = [next(remaining) if leaf is _ARRAY else leaf for leaf in statics]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        dynamic, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        return dynamic, _Static(static)

    flat.__name__ = getattr(function, "__name__", "compiled")
    return jax.jit(flat, compiler_options=options)


def _first_call(program: Callable, arrays: list) -> Any:
    """Call a program for the first time, which traces and compiles it."""
    # Garbage collections during tracing cost a fifth of its time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return program(arrays)
    finally:
        if collecting:
            gc.enable()


class _ArrayPlaceholder:
    """Placeholder of an array among the static leaves of the arguments."""


_ARRAY = _ArrayPlaceholder()

program_cache = ProgramCache(_MAX_PROGRAMS)
"""Programs of all functions of the library."""


def compiled(
    function: Callable[_P, _R], *, fast_compile: Mapping[str, Any] = _FAST_COMPILE
) -> Callable[_P, _R]:
    """Compile a function. Arrays are its arguments, and other leaves are part of the program.

    Inside `jit` of the caller it is the function itself, and the options of the caller apply.

    **Arguments:**

    - `function`: function of pytrees of arrays and hashable leaves.
    - `fast_compile`: compiler options for small arguments.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _inside_jit():
            return function(*args, **kwargs)
        return cast(_R, program_cache.call(function, args, kwargs, fast_compile))

    return call


def pointwise(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function with little arithmetic per point and none per pair of points.

    Such functions contain the equation and are compiled once per equation.
    """
    return compiled(function, fast_compile=_POINTWISE)


def cpu_options(fast_compile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compiler options that this version of XLA accepts."""
    options = _OPTIONS | dict(fast_compile)
    if supports_options(**_OPTIONS, **_POINTWISE):
        return options
    return {name: value for name, value in options.items() if supports_options(**{name: value})}


@functools.cache
def supports_options(**options: Any) -> bool:
    """Return whether XLA accepts all of these options."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def padded_size(count: int) -> int:
    """Return the number of points to which `count` points are padded."""
    if count > MAX_PADDED_ROWS:
        return count
    return int(_PADDED_SIZES[np.searchsorted(_PADDED_SIZES, count)])


def is_traced(*trees: Any) -> bool:
    """Return whether the caller runs inside `jit`, or any leaf is a tracer."""
    leaves = jax.tree.leaves(trees)
    return _inside_jit() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _inside_jit() -> bool:
    return isinstance(jax.device_put(np.zeros(())), jax.core.Tracer)
