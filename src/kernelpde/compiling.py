"""How the library's functions are compiled, and how long what was compiled is kept."""

import functools
import gc
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.core
import numpy as np

from kernelpde import disk_cache

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OPTIONS: dict[str, Any] = {
    # XLA uses half of a 512-bit vector unit unless told otherwise. Where there is none this changes
    # nothing; where there is one, Gram matrices and their derivatives take about half the time.
    "xla_cpu_prefer_vector_width": 512,
}

_ARCTAN: dict[str, Any] = {
    # With 512 bits XLA's code for the arctangent of double precision numbers is wrong (jaxlib
    # 0.10.2): jnp.arctan(0.3) is off by 0.3. `tests/test_compiling.py` tells when that is mended.
    "xla_cpu_prefer_vector_width": 256,
}

_QUICK: dict[str, Any] = {
    # Programs are compiled in about half the time. They run as fast without derivatives and take up
    # to 1.3 times as long with them (1200 rows), which matters only where they run for long.
    "xla_cpu_use_fusion_emitters": False,
}

_POINTWISE: dict[str, Any] = {
    # For what has little to do per point, a tenth of the time that optimized code takes to compile.
    **_QUICK,
    "xla_backend_optimization_level": 0,
}

SMALL = 1000
"""Programs of which no argument is longer than this are compiled quickly: their arithmetic takes
less time than their compilation."""

_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_RUNGS = np.unique([int(step * decade) for decade in (1, 10, 100, 1000) for step in _STEPS])
"""Numbers of points that small problems are filled up to. Round ones are on it: these cost nothing,
others compile no more than these."""

_KEPT = 120
"""Maximum number of programs in memory. Each takes 150 to 240 memory maps of a process; Linux
grants 65,530: without a limit a process dies after about 270 of them."""


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

    def get(
        self,
        function: Callable,
        structure: Any,
        arrays: list,
        statics: tuple,
        quick: Mapping[str, Any] = _QUICK,
    ) -> tuple[Callable, bool]:
        """The program of a function for arguments like these, and whether it is new.

        If they are small it is made quickly.
        """
        shapes = tuple((a.shape, a.dtype, getattr(a, "weak_type", False)) for a in arrays)
        # Part of another program, whose options hold, if a transformation is under way.
        nested = any(isinstance(a, jax.core.Tracer) for a in arrays)
        key = (function, structure, statics, shapes, jax.default_backend(), nested)
        if key in self._programs:
            self._programs.move_to_end(key)
            return self._programs[key], False
        name = getattr(function, "__qualname__", repr(function))
        self.made[name] = self.made.get(name, 0) + 1
        while len(self._programs) >= self.most:
            self._programs.popitem(last=False)
        options = None
        if jax.default_backend() == "cpu" and not nested:
            small = max((n for a in arrays for n in a.shape), default=0) <= SMALL
            options = cpu_options(quick if small else {})
        program = _jitted(function, structure, statics, options)
        wide = options or {}
        if _ARCTAN.keys() <= wide.keys() and _has_arctan(program.trace(list(arrays)).jaxpr.jaxpr):
            program = _jitted(function, structure, statics, wide | _ARCTAN)
        self._programs[key] = program
        return program, True


def _has_arctan(jaxpr: Any) -> bool:
    """Whether a function takes an arctangent somewhere, in loops and branches too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "atan":
            return True
        for value in equation.params.values():
            for body in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(body, "jaxpr", body)
                if hasattr(inner, "eqns") and _has_arctan(inner):
                    return True
    return False


def _jitted(
    function: Callable, structure: Any, statics: tuple, options: dict[str, Any] | None
) -> Any:
    def flat(arrays: list) -> tuple[Any, _Static]:
        given = iter(arrays)
        leaves = [next(given) if leaf is _ARRAY else leaf for leaf in statics]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        dynamic, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        return dynamic, _Static(static)

    flat.__name__ = getattr(function, "__name__", "compiled")
    return jax.jit(flat, compiler_options=options)


def _first_call(program: Callable, arrays: list) -> Any:
    """Call a program for the first time, which traces and compiles it."""
    # Each collection would look through all that JAX has made so far: a fifth of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with disk_cache.used(program.__name__):
            return program(arrays)
    finally:
        if collecting:
            gc.enable()


class _Array:
    """Stands for an array among the leaves that are none."""


_ARRAY = _Array()

_programs = Programs(_KEPT)


def compiled(function: Callable[_P, _R], *, quick: Mapping[str, Any] = _QUICK) -> Callable[_P, _R]:
    """`function` compiled, arrays as arguments and all else as part of the program.

    With options that suit the library on a CPU; inside somebody else's `jit`, whose options hold,
    it is the function itself.

    **Arguments:**

    - `function`: of trees of arrays and other things.
    - `quick`: options for arguments that are small.
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
        program, new = _programs.get(function, structure, arrays, statics, quick)
        dynamic, static = _first_call(program, arrays) if new else program(arrays)
        return cast(_R, eqx.combine(dynamic, static.value))

    return call


def pointwise(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` compiled, one of those that do little per point and nothing per pair of points.

    These are what is compiled anew for every equation.
    """
    return compiled(function, quick=_POINTWISE)


def cpu_options(quick: Mapping[str, Any]) -> dict[str, Any]:
    """Those of our options that this version of XLA knows; it refuses what it does not."""
    wanted = _OPTIONS | dict(quick)
    if known(**_OPTIONS, **_POINTWISE):
        return wanted
    return {name: value for name, value in wanted.items() if known(**{name: value})}


@functools.cache
def known(**options: Any) -> bool:
    """Whether XLA takes all of these options."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def rung(count: int) -> int:
    """The number of points for which a program is compiled that has to do with `count` of them."""
    return count if count > SMALL else int(_RUNGS[np.searchsorted(_RUNGS, count)])


def traced(*trees: Any) -> bool:
    """Whether a transformation of JAX is under way, of which some of these arrays are part."""
    leaves = jax.tree.leaves(trees)
    return _inside_jit() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _inside_jit() -> bool:
    return isinstance(jax.device_put(np.zeros(())), jax.core.Tracer)
