"""Dependence of the outputs of a traced function on its inputs, linear and nonlinear.

Dependence does not follow from derivatives: a sign has derivative zero, but depends on its
argument. Real and imaginary parts are tracked separately, including parts that vanish identically.
For example, the real part of i h depends on the imaginary part of h only.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np


class Dependence(NamedTuple):
    """Inputs that a number depends on.

    **Attributes:**

    - `inputs`: indices of all inputs that it depends on.
    - `nonlinear`: indices of inputs on which it depends nonlinearly. The dependence on the others
      is linear, with coefficients that depend on no input.
    """

    inputs: frozenset[int] = frozenset()
    nonlinear: frozenset[int] = frozenset()

    @property
    def as_nonlinear(self) -> "Dependence":
        """Dependence of a nonlinear function of the number."""
        return Dependence(self.inputs, self.inputs)


class ComplexDependence(NamedTuple):
    """Dependence of the real and the imaginary part; `None` for a part that is zero."""

    real: Dependence | None
    imag: Dependence | None


_INDEPENDENT = Dependence()

_LINEAR_UNARY = {
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
"""Linear primitives of one argument that do not mix real and imaginary parts."""

_LINEAR_NARY = {"add", "add_any", "concatenate", "pad", "stack", "sub"}
"""Primitives that are linear in all arguments jointly."""

_LINEAR_INDEXED = {"dynamic_slice", "gather"}
"""Primitives that are linear in the first argument for constant other arguments."""

_CALLS = {"closed_call": "call_jaxpr", "jit": "jaxpr", "pjit": "jaxpr"}


def dependencies(jaxpr: jex.Jaxpr, inputs: Sequence[int]) -> list[Dependence]:
    """Return the dependence of each real output on some of the inputs."""
    sources = [
        ComplexDependence(Dependence(frozenset({i})) if i in inputs else _INDEPENDENT, None)
        for i in range(len(jaxpr.invars))
    ]
    return [_sum(output) or _INDEPENDENT for output in _propagate(jaxpr, sources)]


def _propagate(jaxpr: jex.Jaxpr, inputs: Sequence[ComplexDependence]) -> list[ComplexDependence]:
    by_variable: dict[jex.Var, ComplexDependence] = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom) -> ComplexDependence:
        if not isinstance(atom, jex.Literal):
            # Captured constants depend on no input, but either part may be nonzero.
            return by_variable.get(atom, ComplexDependence(_INDEPENDENT, _INDEPENDENT))
        value = np.asarray(atom.val)
        return ComplexDependence(
            _INDEPENDENT if np.real(value).any() else None,
            _INDEPENDENT if np.imag(value).any() else None,
        )

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        body = equation.params.get(_CALLS.get(equation.primitive.name, ""))
        if isinstance(body, jex.ClosedJaxpr):
            outputs = _propagate(body.jaxpr, operands)
        elif (linear := _linear_rule(operands, equation)) is not None:
            outputs = [linear] * len(equation.outvars)
        else:
            joint = _sum(component for operand in operands for component in operand)
            nonlinear = (joint or _INDEPENDENT).as_nonlinear
            outputs = [
                ComplexDependence(nonlinear, nonlinear if _is_complex(variable) else None)
                for variable in equation.outvars
            ]
        by_variable.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _linear_rule(
    operands: list[ComplexDependence], equation: jex.JaxprEqn
) -> ComplexDependence | None:
    """Return the dependence of the outputs of a linear primitive; `None` for other primitives."""
    name = equation.primitive.name
    first = operands[0] if operands else ComplexDependence(None, None)
    others_constant = not any(c.inputs for o in operands[1:] for c in o if c is not None)
    if name in _LINEAR_UNARY or (
        name == "convert_element_type" and _is_inexact(equation.outvars[0])
    ):
        return first
    if name in _LINEAR_NARY:
        return _sum_complex(operands)
    if name in ("mul", "dot_general"):
        a, b = operands
        return ComplexDependence(
            _sum([_product(a.real, b.real), _product(a.imag, b.imag)]),
            _sum([_product(a.real, b.imag), _product(a.imag, b.real)]),
        )
    if name == "complex":
        return ComplexDependence(first.real, operands[1].real)
    if name == "real":
        return ComplexDependence(first.real, None)
    if name == "imag":
        return ComplexDependence(first.imag, None)
    if name == "div" and operands[1].imag is None and others_constant:
        return first
    if name in _LINEAR_INDEXED and others_constant:
        return first
    if name == "select_n" and not (_sum(first) or _INDEPENDENT).inputs:
        return _sum_complex(operands[1:])
    return None


def _sum(terms: Iterable[Dependence | None]) -> Dependence | None:
    nonzero = [term for term in terms if term is not None]
    if not nonzero:
        return None
    return Dependence(
        frozenset().union(*(term.inputs for term in nonzero)),
        frozenset().union(*(term.nonlinear for term in nonzero)),
    )


def _sum_complex(terms: Sequence[ComplexDependence]) -> ComplexDependence:
    return ComplexDependence(_sum(t.real for t in terms), _sum(t.imag for t in terms))


def _product(a: Dependence | None, b: Dependence | None) -> Dependence | None:
    if a is None or b is None:
        return None
    joint = Dependence(a.inputs | b.inputs, a.nonlinear | b.nonlinear)
    return joint.as_nonlinear if a.inputs and b.inputs else joint


def _is_complex(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.complexfloating)


def _is_inexact(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.inexact)
