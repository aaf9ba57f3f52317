"""Compilation of the library's functions, and the cache of their programs."""

import contextlib
import functools
import gc
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ParamSpec, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.core
import jax.extend.core as jex
import numpy as np
from jaxtyping import PyTree

from kernelpde.arrays import is_tracer

_P = ParamSpec("_P")
_R = TypeVar("_R")

Options: TypeAlias = dict[str, int | bool]
"""Compiler options of XLA."""

_OPTIONS: Options = {"xla_cpu_prefer_vector_width": 512}
"""Options of all programs on a CPU. XLA uses half of a 512-bit vector unit by default. With the
full width, Gram matrices and their derivatives take about half the time. The option has no effect
on other CPUs."""

_ARCTAN: Options = {"xla_cpu_prefer_vector_width": 256}
"""Options of programs with an arctangent. With 512 bits XLA's code for the arctangent of double
precision numbers is wrong (jaxlib 0.10.2): jnp.arctan(0.3) is off by 0.3. `tests/test_compiling.py`
fails when that is fixed."""

_FAST_COMPILE: Options = {"xla_cpu_use_fusion_emitters": False}
"""Options of programs with small arguments. They compile in about half the time. They run at the
same speed without derivatives and up to 1.3 times as long with them (1200 rows)."""

_POINTWISE: Options = {**_FAST_COMPILE, "xla_backend_optimization_level": 0}
"""Options of programs with little arithmetic per point. They compile in a tenth of the time."""

MAX_PADDED_ROWS = 1000
"""Longest argument with which a program counts as small. Compilation of small programs costs more
time than their arithmetic."""

_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""Steps per decade of the sizes to which small problems are padded, so that they share programs:
the series R''10 of ISO 3. Round numbers are among them and need no padding. With five
steps up to 60% of the rows are padding, with twenty fewer problems share a program."""

_MAX_PROGRAMS = 120
"""Maximum number of programs in memory. Each uses 150 to 240 memory maps of a process, and Linux
grants 65,530. Without a limit a process fails after about 270 programs."""


class _Static(eqx.Module):
    """The outputs of a function that are not arrays."""

    value: PyTree = eqx.field(static=True)


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


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
        self._programs: OrderedDict[Hashable, Callable] = OrderedDict()

    def __len__(self) -> int:
        return len(self._programs)

    def call(
        self,
        function: Callable[..., _R],
        args: tuple,
        kwargs: dict[str, object],
        fast_compile: Options = _FAST_COMPILE,
    ) -> _R:
        """Call the program of a function for such arguments, and compile it if it is new."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        arrays = list(filter(_is_array, leaves))
        statics = tuple(_ARRAY if _is_array(leaf) else leaf for leaf in leaves)
        shapes = tuple((a.shape, a.dtype, getattr(a, "weak_type", False)) for a in arrays)
        # Inside a transformation the options of the enclosing program apply.
        nested = any(map(is_tracer, arrays))
        key = (function, structure, statics, shapes, jax.default_backend(), nested)
        if key in self._programs:
            self._programs.move_to_end(key)
            return _combine(self._programs[key](arrays))
        self.compile_counts[getattr(function, "__qualname__", repr(function))] += 1
        while len(self._programs) >= self.max_programs:
            self._programs.popitem(last=False)
        options: Options = {}
        if jax.default_backend() == "cpu" and not nested:
            small = max((n for a in arrays for n in a.shape), default=0) <= MAX_PADDED_ROWS
            options = cpu_options(fast_compile if small else {})
        program = _jit(function, structure, statics, options)
        is_affected = _ARCTAN.keys() <= options.keys()
        if is_affected and _has_arctan(program.trace(arrays).jaxpr.jaxpr):
            program = _jit(function, structure, statics, options | _ARCTAN)
        self._programs[key] = program
        with _without_garbage_collection():
            return _combine(program(arrays))


def _combine(outputs: tuple[PyTree, _Static]) -> Any:
    dynamic, static = outputs
    return eqx.combine(dynamic, static.value)


def _has_arctan(jaxpr: jex.Jaxpr) -> bool:
    """Return whether a jaxpr contains an arctangent, also in loops and branches."""
    return any(
        equation.primitive.name == "atan"
        or any(map(_has_arctan, jex.jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )


def _jit(
    function: Callable, structure: Any, statics: tuple, options: Options
) -> jax.stages.Wrapped:
    def flat(arrays: list) -> tuple[PyTree, _Static]:
        remaining = iter(arrays)
        leaves = [next(remaining) if leaf is _ARRAY else leaf for leaf in statics]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        dynamic, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        return dynamic, _Static(static)

    flat.__name__ = getattr(function, "__name__", "compiled")
    return jax.jit(flat, compiler_options=options or None)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection, which costs a fifth of the time of tracing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _ArrayPlaceholder:
    """Placeholder of an array among the static leaves of the arguments."""


_ARRAY = _ArrayPlaceholder()

program_cache = ProgramCache(_MAX_PROGRAMS)
"""Programs of all functions of the library."""


def compiled(
    function: Callable[_P, _R], *, fast_compile: Options = _FAST_COMPILE
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
        return program_cache.call(function, args, kwargs, fast_compile)

    return call


def pointwise(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function with little arithmetic per point and none per pair of points.

    Such functions contain the equation and are compiled once per equation.
    """
    return compiled(function, fast_compile=_POINTWISE)


def cpu_options(fast_compile: Options) -> Options:
    """Return the compiler options that this version of XLA accepts."""
    options = _OPTIONS | fast_compile
    if supports_options(**_OPTIONS, **_POINTWISE):
        return options
    return {name: value for name, value in options.items() if supports_options(**{name: value})}


@functools.cache
def supports_options(**options: object) -> bool:
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
    decade = 10 ** (len(str(count)) - 1)
    sizes = [int(step * decade) for step in (*_STEPS, 10)]
    return next(size for size in sizes if size >= count)


def is_traced(*trees: PyTree) -> bool:
    """Return whether the caller runs inside `jit`, or any leaf is a tracer."""
    leaves = jax.tree.leaves(trees)
    return _inside_jit() or any(map(is_tracer, leaves))


def _inside_jit() -> bool:
    return is_tracer(jax.device_put(np.zeros(())))
