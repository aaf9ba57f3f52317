"""Traced functions as values: a program of primitive operations and its constants.

Functions that differ only in their constants have equal programs and share compiled code. Literals,
globals, attributes and captured arrays of the Python function all become arguments of the program.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.extend.core import primitives
from jaxtyping import Array, Float

from kernelpde.arrays import is_tracer

_R = TypeVar("_R")
_T = TypeVar("_T")

_INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}
"""Primitives that are inlined, with the parameter that contains their body. Functions are
differentiated before they are traced, so that custom derivatives are respected."""


class Operand(NamedTuple):
    """An operand: an index into the values, scalars or arrays, or a literal with its type."""

    kind: str
    index_or_literal: Any


class Operation(NamedTuple):
    """One primitive operation."""

    primitive: jex.Primitive
    params: dict[str, Any]
    operands: tuple[Operand, ...]


class ComparedByKey:
    """Base class of objects that are equal if they have the same class and the same key."""

    def __init__(self, key: Hashable):
        self._key = key

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, operand: object) -> bool:
        return self is operand or (type(operand) is type(self) and self._key == operand._key)


class Program(ComparedByKey):
    """Primitive operations in order, compared by value.

    **Attributes:**

    - `operations`: operations in the order of evaluation.
    - `outputs`: operands that are returned. Values are the inputs, then the results of operations.
    """

    def __init__(
        self, num_inputs: int, operations: Sequence[Operation], outputs: Sequence[Operand]
    ):
        self.operations, self.outputs = tuple(operations), tuple(outputs)
        keys = [(o.primitive.name, _hashable(o.params), o.operands) for o in self.operations]
        super().__init__((num_inputs, *keys, self.outputs))
        self._num_inputs = num_inputs

    def __repr__(self) -> str:
        return f"<Program of {len(self.operations)} operations>"

    def __reduce__(self):
        # Primitives are stored by name. Loops cannot be pickled, since their bodies are jaxprs.
        stored = [(o.primitive.name, o.params, o.operands) for o in self.operations]
        return _restore_program, (self._num_inputs, stored, self.outputs)

    def __deepcopy__(self, memo: object) -> "Program":
        return self

    def run(
        self,
        scalars: Array | np.ndarray,
        arrays: Sequence[Array | np.ndarray],
        inputs: Sequence[Array],
    ) -> list[Array]:
        """Evaluate all operations and return the outputs."""
        values = list(inputs)
        sources = {"value": values, "scalar": scalars, "array": arrays}

        def read(operand: Operand) -> Any:
            kind, index_or_literal = operand
            source = sources.get(kind)
            return index_or_literal if source is None else source[index_or_literal]

        for primitive, params, operands in self.operations:
            bound = primitive.get_bind_params(params)
            result = primitive.bind(*map(read, operands), **bound)
            values.extend(result if primitive.multiple_results else [result])
        return [jnp.asarray(read(operand)) for operand in self.outputs]


def _restore_program(
    num_inputs: int,
    stored: Sequence[tuple[str, dict[str, Any], tuple[Operand, ...]]],
    outputs: Sequence[Operand],
) -> Program:
    """Rebuild a pickled program."""
    candidates = [*vars(primitives).values(), *vars(jax.lax).values()]
    by_name = {value.name: value for value in candidates if isinstance(value, jex.Primitive)}
    operations = [Operation(by_name[name], params, operands) for name, params, operands in stored]
    return Program(num_inputs, operations, outputs)


class Traced(eqx.Module):
    """A program with its constants.

    **Attributes:**

    - `scalars`: constants that are double precision numbers.
    - `arrays`: constants that are arrays, or numbers of other inexact types.
    - `program`: operations on constants and inputs.
    """

    scalars: Float[Array | np.ndarray, " S"]
    arrays: tuple[Array | np.ndarray, ...]
    program: Program = eqx.field(static=True)

    def __call__(self, *inputs: Array) -> list[Array]:
        return self.program.run(self.scalars, self.arrays, inputs)

    def equivalent(self, traced: "Traced") -> bool:
        """Return whether both have the same program and constants. Tracers must be identical."""
        return self.program == traced.program and all(
            map(_equal, (self.scalars, *self.arrays), (traced.scalars, *traced.arrays))
        )


def _equal(left: Array | np.ndarray, right: Array | np.ndarray) -> bool:
    if is_tracer(left) or is_tracer(right):
        return left is right
    return np.array_equal(left, right, equal_nan=np.issubdtype(left.dtype, np.inexact))


class TracedFunction(ComparedByKey, Generic[_R]):
    """A user function, compared by its program and constants.

    Compiled programs are cached by the equality of their static arguments. A comparison by identity
    would miss that a global read by the function has changed.

    **Arguments:**

    - `function`: function of arrays.
    - `examples`: arrays with the shapes of its arguments.
    """

    def __init__(self, function: Callable[..., _R], *examples: np.ndarray):
        self.function = function
        # A new lambda, because JAX caches traces by the identity of the function.
        closed = jax.make_jaxpr(lambda *arrays: function(*arrays))(*examples)
        super().__init__(_by_value(closed))

    def __call__(self, *arguments: Array) -> _R:
        return self.function(*arguments)

    def __reduce__(self):
        # Unpickling returns the function, which is traced at its next use.
        return _unwrap, (self.function,)


def _unwrap(function: _T) -> _T:
    return function


def interpret(
    closed: jex.ClosedJaxpr,
    arguments: Sequence[_T],
    constant: Callable[[object], _T],
    evaluate: Callable[[jex.JaxprEqn, list[_T]], Sequence[_T]],
) -> list[_T]:
    """Return the outputs of a traced function for other values than arrays.

    **Arguments:**

    - `closed`: traced function.
    - `arguments`: values of its inputs.
    - `constant`: function from constants to values.
    - `evaluate`: function from an operation and its operands to the values of its results.
    """
    jaxpr = closed.jaxpr
    variables = [*jaxpr.constvars, *jaxpr.invars]
    values = dict(zip(variables, [*map(constant, closed.consts), *arguments], strict=True))

    def read(atoms: Sequence[jex.Var | jex.Literal]) -> list[_T]:
        return [constant(a.val) if isinstance(a, jex.Literal) else values[a] for a in atoms]

    for equation in jaxpr.eqns:
        results = evaluate(equation, read(equation.invars))
        values.update(zip(equation.outvars, results, strict=True))
    return read(jaxpr.outvars)


def lift_constants(closed: jex.ClosedJaxpr) -> Traced:
    """Return a traced function as a program and its constants."""
    scalars: list[float] = []
    arrays: list[Array | np.ndarray] = []
    operations: list[Operation] = []
    count = len(closed.jaxpr.invars)

    def constant(value: object) -> Operand:
        if is_tracer(value):
            arrays.append(value)
            return Operand("array", len(arrays) - 1)
        array = np.asarray(value)
        if array.ndim == 0 and array.dtype == np.float64:
            scalars.append(float(array))
            return Operand("scalar", len(scalars) - 1)
        if array.ndim or np.issubdtype(array.dtype, np.inexact):
            arrays.append(array)
            return Operand("array", len(arrays) - 1)
        # Indices, signs and flags change the operation, so they belong to the program.
        return Operand(str(array.dtype), array[()])

    def evaluate(equation: jex.JaxprEqn, operands: list[Operand]) -> list[Operand]:
        nonlocal count
        inner = equation.params.get(_INLINED.get(equation.primitive.name, ""))
        if isinstance(inner, jex.ClosedJaxpr):
            return interpret(inner, operands, constant, evaluate)
        operations.append(Operation(equation.primitive, dict(equation.params), tuple(operands)))
        start, count = count, count + len(equation.outvars)
        return [Operand("value", i) for i in range(start, count)]

    num_inputs = count
    inputs = [Operand("value", i) for i in range(num_inputs)]
    outputs = interpret(closed, inputs, constant, evaluate)
    return Traced(
        np.array(scalars, dtype=np.float64),
        tuple(arrays),
        Program(num_inputs, operations, outputs),
    )


def _by_value(closed: jex.ClosedJaxpr) -> tuple[Program, tuple[bytes, ...]]:
    """Return a program and the bytes of its constants."""
    traced = lift_constants(closed)
    constants = (traced.scalars, *traced.arrays)
    return traced.program, tuple(np.asarray(constant).tobytes() for constant in constants)


def _hashable(value: object) -> Hashable:
    """Return a hashable value that is equal for equal parameters of a primitive."""
    if isinstance(value, dict):
        return tuple(sorted((name, _hashable(item)) for name, item in value.items()))
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(_hashable, value))
    if isinstance(value, jex.Jaxpr):
        value = jex.ClosedJaxpr(value, ())
    if isinstance(value, jex.ClosedJaxpr):
        return _by_value(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    try:
        hash(value)
    except TypeError:
        return _IdentityKey(value)
    return value


class _IdentityKey(ComparedByKey):
    """A value without a hash, compared by identity. The reference prevents reuse of the id."""

    def __init__(self, value: object):
        super().__init__(id(value))
        self.value = value
