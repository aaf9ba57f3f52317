"""Which inputs each output of a traced function may depend on.

Real and imaginary parts are followed apart, and parts that are exactly zero are known to be: the
real part of i h depends on the imaginary part of h alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np


class Parts(NamedTuple):
    """What real and imaginary part may depend on; `None` for a part that is zero."""

    real: frozenset[int] | None
    imag: frozenset[int] | None

    @property
    def either(self) -> frozenset[int]:
        return (self.real or frozenset()) | (self.imag or frozenset())


_NOTHING = frozenset()

_SAME = {"convert_element_type", "copy", "reshape", "squeeze", "broadcast_in_dim", "neg", "conj"}
"""Primitives that leave each part what it was, up to its sign."""


def dependencies(jaxpr: jex.Jaxpr) -> list[set[int]]:
    """For each real output, the numbers of the inputs that it may depend on."""
    inputs = [Parts(frozenset({i}), None) for i in range(len(jaxpr.invars))]
    return [set(parts.either) for parts in _followed(jaxpr, inputs)]


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
        inner = equation.params.get("jaxpr") if name in ("pjit", "jit") else None
        if inner is not None:
            outputs = _followed(inner.jaxpr, given)
        else:
            known = _rule(name, given)
            everything = frozenset().union(*(parts.either for parts in given))
            outputs = [
                known
                if known is not None
                else Parts(everything, everything if _is_complex(variable) else None)
                for variable in equation.outvars
            ]
        reached.update(zip(equation.outvars, outputs, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _rule(name: str, given: list[Parts]) -> Parts | None:
    """What is known of a primitive; `None` if nothing is."""
    if name in _SAME:
        return given[0]
    if name in ("add", "sub", "add_any"):
        a, b = given
        return Parts(_sum(a.real, b.real), _sum(a.imag, b.imag))
    if name == "mul":
        a, b = given
        return Parts(
            _sum(_product(a.real, b.real), _product(a.imag, b.imag)),
            _sum(_product(a.real, b.imag), _product(a.imag, b.real)),
        )
    if name == "complex":
        return Parts(given[0].real, given[1].real)
    if name == "real":
        return Parts(given[0].real, None)
    if name == "imag":
        return Parts(given[0].imag, None)
    return None


def _sum(a: frozenset[int] | None, b: frozenset[int] | None) -> frozenset[int] | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _product(a: frozenset[int] | None, b: frozenset[int] | None) -> frozenset[int] | None:
    return None if a is None or b is None else a | b


def _is_complex(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.complexfloating)
