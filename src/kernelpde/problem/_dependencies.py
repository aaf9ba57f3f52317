"""Which inputs each output of a traced function depends on, and on which of them not linearly.

Dependence is what counts, not the derivative: a sign or a step has derivative zero and depends on
its argument all the same. Real and imaginary parts are followed apart, and parts that are exactly
zero are known to be: the real part of i h depends on the imaginary part of h alone.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np


class Reach(NamedTuple):
    """The inputs that a number depends on, and those among them on which it does not linearly.

    In the others it is linear with coefficients that depend on no input.
    """

    inputs: frozenset[int] = frozenset()
    nonlinear: frozenset[int] = frozenset()

    @property
    def bent(self) -> "Reach":
        """The same after something that is not linear."""
        return Reach(self.inputs, self.inputs)


class Parts(NamedTuple):
    """What real and imaginary part depend on; `None` for a part that is zero."""

    real: Reach | None
    imag: Reach | None


_NOTHING = Reach()

_SAME = {
    "broadcast_in_dim",
    "conj",
    "copy",
    "cumsum",
    "neg",
    "reduce_sum",
    "reshape",
    "rev",
    "slice",
    "squeeze",
    "transpose",
}
"""Linear primitives of one argument that keep real and imaginary parts apart."""

_SUMS = {"add", "add_any", "concatenate", "pad", "stack", "sub"}
"""Linear in all arguments together."""

_INDEXED = {"dynamic_slice", "gather"}
"""Linear in the first argument if the others depend on nothing."""

_CALLS = {"closed_call": "call_jaxpr", "jit": "jaxpr", "pjit": "jaxpr"}


def dependencies(jaxpr: jex.Jaxpr, followed: Sequence[int]) -> list[Reach]:
    """For each real output, which of the inputs to be followed it depends on."""
    inputs = [
        Parts(Reach(frozenset({i})) if i in followed else _NOTHING, None)
        for i in range(len(jaxpr.invars))
    ]
    return [_sum(parts) or _NOTHING for parts in _followed(jaxpr, inputs)]


def _followed(jaxpr: jex.Jaxpr, inputs: Sequence[Parts]) -> list[Parts]:
    reached: dict[jex.Var, Parts] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atom) -> Parts:
        if not isinstance(atom, jex.Literal):
            # Constants depend on nothing, but may have both parts.
            return reached.get(atom, Parts(_NOTHING, _NOTHING))
        value = np.asarray(atom.val)
        return Parts(
            _NOTHING if np.real(value).any() else None, _NOTHING if np.imag(value).any() else None
        )

    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, [of(atom) for atom in equation.invars]
        inner = equation.params.get(_CALLS.get(name, ""))
        if isinstance(inner, jex.ClosedJaxpr):
            outputs = _followed(inner.jaxpr, given)
        else:
            found = _rule(name, given, equation)
            whole = _sum(part for parts in given for part in parts) or _NOTHING
            outputs = [
                found
                if found is not None
                else Parts(whole.bent, whole.bent if _is_complex(variable) else None)
                for variable in equation.outvars
            ]
        reached.update(zip(equation.outvars, outputs, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _rule(name: str, given: list[Parts], equation: jex.JaxprEqn) -> Parts | None:
    """What is known of a linear primitive; `None` if nothing is."""
    first = given[0] if given else Parts(None, None)
    if name in _SAME or (name == "convert_element_type" and _is_inexact(equation.outvars[0])):
        return first
    if name in _SUMS:
        return Parts(_sum(p.real for p in given), _sum(p.imag for p in given))
    if name in ("mul", "dot_general"):
        a, b = given
        return Parts(
            _sum([_product(a.real, b.real), _product(a.imag, b.imag)]),
            _sum([_product(a.real, b.imag), _product(a.imag, b.real)]),
        )
    if name == "complex":
        return Parts(given[0].real, given[1].real)
    if name == "real":
        return Parts(first.real, None)
    if name == "imag":
        return Parts(first.imag, None)
    if name == "div" and given[1].imag is None and not _depends(given[1:]):
        return first
    if name in _INDEXED and not _depends(given[1:]):
        return first
    if name == "select_n" and not _depends(given[:1]):
        return Parts(_sum(p.real for p in given[1:]), _sum(p.imag for p in given[1:]))
    return None


def _depends(given: Iterable[Parts]) -> bool:
    return any(part.inputs for parts in given for part in parts if part is not None)


def _sum(parts: Iterable[Reach | None]) -> Reach | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return Reach(
        frozenset().union(*(part.inputs for part in found)),
        frozenset().union(*(part.nonlinear for part in found)),
    )


def _product(a: Reach | None, b: Reach | None) -> Reach | None:
    if a is None or b is None:
        return None
    both = Reach(a.inputs | b.inputs, a.nonlinear | b.nonlinear)
    return both.bent if a.inputs and b.inputs else both


def _is_complex(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.complexfloating)


def _is_inexact(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.inexact)
