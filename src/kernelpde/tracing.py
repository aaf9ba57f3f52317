"""A traced function as data: what it computes, with its numbers lifted out.

Two functions that do the same with other numbers have equal programs, and what was compiled for one
serves the other. Nothing depends on which Python function was traced, or on where its numbers came
from: literals, globals, attributes and captured arrays are all arguments of the program.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
"""Calls whose body is taken in, by the parameter that holds it. Derivatives have been taken by
then, so that nothing is lost of those with a derivative of their own."""


class Place(NamedTuple):
    """Where an operand is found: among the values, scalars or arrays; or itself, by its type."""

    kind: str
    which: Any


class Operation(NamedTuple):
    """One primitive operation."""

    primitive: jex.Primitive
    params: dict[str, Any]
    operands: tuple[Place, ...]


class Program:
    """Primitive operations in order; equal to every other that does the same.

    **Attributes:**

    - `inputs`: the number of its inputs; the values that follow are results of operations.
    - `operations`: what is done.
    - `outputs`: where the results are found.
    """

    def __init__(self, inputs: int, operations: Sequence[Operation], outputs: Sequence[Place]):
        self.inputs, self.operations, self.outputs = inputs, tuple(operations), tuple(outputs)
        self._key = (
            inputs,
            tuple((o.primitive.name, _key(o.params), o.operands) for o in self.operations),
            self.outputs,
        )
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and (self is other or self._key == other._key)

    def __repr__(self) -> str:
        return f"<Program of {len(self.operations)} operations>"

    def run(
        self,
        scalars: Array | np.ndarray,
        arrays: Sequence[Array | np.ndarray],
        inputs: Sequence[Array],
    ) -> list[Array]:
        """The results."""
        values = list(inputs)

        def read(place: Place) -> Any:
            if place.kind == "value":
                return values[place.which]
            if place.kind == "scalar":
                return scalars[place.which]
            return arrays[place.which] if place.kind == "array" else place.which

        for primitive, params, operands in self.operations:
            bound = primitive.get_bind_params(params)
            result = primitive.bind(*map(read, operands), **bound)
            values.extend(result if primitive.multiple_results else [result])
        return [jnp.asarray(read(place)) for place in self.outputs]


class Traced(eqx.Module):
    """A program with its numbers.

    **Attributes:**

    - `scalars`: its double precision numbers.
    - `arrays`: arrays, and numbers of other types.
    - `program`: what is done with them.
    """

    scalars: Float[Array | np.ndarray, " S"]
    arrays: tuple[Array | np.ndarray, ...]
    program: Program = eqx.field(static=True)

    def __call__(self, *inputs: Array) -> list[Array]:
        return self.program.run(self.scalars, self.arrays, inputs)

    def same(self, other: "Traced") -> bool:
        """Whether both compute the same, numbers included as far as they are known."""
        return self.program == other.program and all(
            map(_equal, (self.scalars, *self.arrays), (other.scalars, *other.arrays))
        )


def _equal(one: Array | np.ndarray, other: Array | np.ndarray) -> bool:
    if isinstance(one, jax.core.Tracer) or isinstance(other, jax.core.Tracer):
        return one is other
    return np.array_equal(one, other, equal_nan=np.issubdtype(one.dtype, np.inexact))


class Written:
    """A function that somebody wrote, equal to every other that computes the same.

    Functions are compiled into programs that are found by equality: with the identity of a function
    for it, one that reads a global would keep the first value.

    **Arguments:**

    - `function`: any function of arrays.
    - `arguments`: stand-ins for them, for their shapes.
    """

    def __init__(self, function: Callable, *arguments: np.ndarray):
        self.function = function
        # JAX remembers what it has traced by identity; this one it has never seen.
        form = lifted(jax.make_jaxpr(lambda *given: function(*given))(*arguments))
        numbers = (form.scalars, *form.arrays)
        self._key = form.program, tuple(np.asarray(number).tobytes() for number in numbers)

    def __call__(self, *arguments: Array) -> Any:
        return self.function(*arguments)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self._key == other._key

    def __reduce__(self):
        # Traced anew where it is used next.
        return _function_itself, (self.function,)


def _function_itself(function: Callable) -> Callable:
    return function


def lifted(closed: jex.ClosedJaxpr) -> Traced:
    """The program of a traced function, and its numbers."""
    scalars: list[float] = []
    arrays: list[Any] = []
    operations: list[Operation] = []
    count = len(closed.jaxpr.invars)

    def constant(value: Any) -> Place:
        if isinstance(value, jax.core.Tracer):
            # A number of a transformation that is under way.
            arrays.append(value)
            return Place("array", len(arrays) - 1)
        number = np.asarray(value)
        if number.ndim == 0 and number.dtype == np.float64:
            scalars.append(float(number))
            return Place("scalar", len(scalars) - 1)
        if number.ndim or np.issubdtype(number.dtype, np.inexact):
            arrays.append(number)
            return Place("array", len(arrays) - 1)
        # Indices, signs and flags are part of what is done.
        return Place(str(number.dtype), number[()])

    def walk(jaxpr: jex.Jaxpr, given: Sequence[Place]) -> list[Place]:
        nonlocal count
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

        def place(atom: Any) -> Place:
            return constant(atom.val) if isinstance(atom, jex.Literal) else known[atom]

        for equation in jaxpr.eqns:
            operands = tuple(place(atom) for atom in equation.invars)
            body = equation.params.get(_INLINED.get(equation.primitive.name, ""))
            if isinstance(body, jex.ClosedJaxpr):
                known.update(zip(equation.outvars, inside(body, operands), strict=True))
                continue
            operations.append(Operation(equation.primitive, dict(equation.params), operands))
            for variable in equation.outvars:
                known[variable] = Place("value", count)
                count += 1
        return [place(atom) for atom in jaxpr.outvars]

    def inside(body: jex.ClosedJaxpr, given: Sequence[Place]) -> list[Place]:
        return walk(body.jaxpr, [*map(constant, body.consts), *given])

    inputs = [Place("value", i) for i in range(count)]
    outputs = inside(closed, inputs)
    return Traced(
        np.array(scalars, dtype=np.float64),
        tuple(arrays),
        Program(len(inputs), operations, outputs),
    )


def _key(value: Any) -> Any:
    """Something hashable that is equal for parameters that mean the same."""
    if isinstance(value, dict):
        return tuple(sorted((name, _key(item)) for name, item in value.items()))
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(_key, value))
    if isinstance(value, jex.ClosedJaxpr):
        body = lifted(value)
        numbers = (body.scalars, *body.arrays)
        return body.program._key, tuple(np.asarray(n).tobytes() for n in numbers)
    if isinstance(value, jex.Jaxpr):
        return _key(jex.ClosedJaxpr(value, ()))
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return value


class _Itself:
    """Something that cannot be hashed, equal to itself alone."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value
