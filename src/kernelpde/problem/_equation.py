"""Residuals as they are written, to be traced."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.errors import InputError
from kernelpde.functionals import ComplexJet, Frame, Jet, LawJet, Term, node_terms
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._fields import Law, Parameter
from kernelpde.problem._inputs import Inputs
from kernelpde.problem._integral import LOCAL, Answer, Call, answered, numbered, with_nodes
from kernelpde.problem._refusals import line_of, refuse
from kernelpde.tracing import Traced, lifted


class Equation:
    """A residual as it was written, to be traced.

    **Arguments:**

    - `condition`: the name to use in messages.
    - `function`: takes the point and then, by the names of its arguments, fields, data and, where
      there are normals, the outward `normal`.
    - `fields`: the names of the fields, in order.
    - `frame`: the coordinates.
    - `has_normals`: whether the points of the condition have normals.
    - `data`: arrays with one row per point.
    - `complex_fields`: name, number of the real and number of the imaginary part.
    - `parameters`: unknown numbers among the fields.
    - `laws`: functions of the solution among them.
    - `inputs`: known values that residuals name.
    """

    def __init__(
        self,
        condition: str,
        function: Callable,
        fields: tuple[str, ...],
        frame: Frame,
        has_normals: bool,
        data: Mapping[str, Array],
        complex_fields: tuple[tuple[str, int, int], ...] = (),
        parameters: tuple[Parameter, ...] = (),
        laws: tuple[Law, ...] = (),
        inputs: Inputs | None = None,
    ):
        self.where = f"Condition {condition!r}{line_of(function)}"
        self.function, self.fields, self.frame = function, fields, frame
        self.has_normals, self.data = has_normals, tuple(data)
        self.pairs = {name: parts for name, *parts in complex_fields}
        self.numbers = {parameter.name: parameter for parameter in parameters}
        self.laws = {law.name: law for law in laws}
        self.inputs = Inputs.of({}) if inputs is None else inputs
        self.others = (*(("normal",) if has_normals else ()), *data, *self.inputs.names)
        self.arguments = _argument_names(self.where, function, (*fields, *self.pairs), self.others)
        self.place = [np.zeros(len(frame.coordinates))] * (1 + has_normals)
        self.place += [np.zeros(values.shape[1:]) for values in data.values()]
        values = [np.zeros(jnp.shape(v), jnp.result_type(v)) for v in self.inputs.values]
        self.integrals = 0
        self.integrals = self._count(values)
        if self.integrals:
            self.data += LOCAL
            self.place += [np.zeros(len(frame.coordinates)), np.zeros(()), np.zeros(())]
        self.place += values

    def _count(self, inputs: list[np.ndarray]) -> int:
        """How many integrals the residual asks for."""
        calls: list[Call] = []

        def asked(*place):
            return self._run(lambda _: jnp.ones(()), place, lambda call: calls.append(call) or 0.0)

        jax.eval_shape(asked, *self.place, *inputs)
        return len(calls)

    def nodes(self, block: Collocation) -> Collocation:
        """The points of a block, each followed by the nodes of the integrals of its row."""
        parts: list[np.ndarray] = []

        def at(point, normal, datum):
            calls: list[Call] = []
            normals = [normal] * self.has_normals
            given = [datum[name] for name in self.data if name not in LOCAL]
            place = [point, *normals, *given, *self.inputs.values]
            self._run(lambda _: jnp.ones(()), place, lambda call: calls.append(call) or 0.0)
            parts[:] = [numbered(calls)]
            places = jnp.concatenate([call.nodes for call in calls])
            return places, jnp.concatenate([call.weights for call in calls])

        axes = (0, None if block.normals is None else 0, 0)
        if block.quadrature is not None:
            raise InputError(f"{self.where}: integrals inside averages are not supported.")
        places, weights = jax.vmap(at, in_axes=axes)(block.points, block.normals, dict(block.data))
        return with_nodes(block, places, weights, parts[0])

    def _called(
        self,
        lookup: Callable[[Term], Array],
        place: Sequence[Array],
        asked: Callable[[str, Array], None] | None = None,
    ) -> list[Array]:
        """F at a local point, with jet entries as `lookup` has them; `asked` is told of what laws
        are asked. At an own point that is F without integrals, at a node of one of these what it
        adds."""
        if not self.integrals:
            return self._run(lookup, place, _refused, asked)
        first = len(self.place) - len(self.inputs.values) - len(LOCAL)
        local, (own, part, weight) = place[0], place[first : first + len(LOCAL)]
        place = [own, *place[1:first], *place[first + len(LOCAL) :]]

        def without(_: Call) -> float:
            return 0.0

        def only(number: int) -> Answer:
            calls: list[Call] = []

            def answer(call: Call) -> Any:
                calls.append(call)
                if len(calls) != number + 1:
                    return 0.0
                return self._run(lookup, [local, *place[1:]], _refused, asked, call.integrand)

            return answer

        def ones(_: Term) -> Array:
            return jnp.ones(())

        base = self._run(ones, place, without)
        total = [
            jnp.where(part == 0, value, 0.0) for value in self._run(lookup, place, without, asked)
        ]
        for number in range(self.integrals):
            found = self._run(ones, place, only(number))
            total = [
                sum_ + jnp.where(part == number + 1, weight * (one - zero), 0.0)
                for sum_, one, zero in zip(total, found, base, strict=True)
            ]
        return total

    def _run(
        self,
        lookup: Callable[[Term], Array],
        place: Sequence[Array],
        answer: Answer,
        asked: Callable[[str, Array], None] | None = None,
        integrand: Callable | None = None,
    ) -> Any:
        """F at one point, or what an integrand of it is there, with integrals as `answer` has
        them."""
        point, *rest = place
        normal = rest.pop(0) if self.has_normals else None
        names = [name for name in self.data if name not in LOCAL]
        data, values = rest[: len(names)], rest[len(names) :]
        given: dict[str, Any] = {"normal": normal, **dict(zip(names, data, strict=True))}
        given |= self.inputs.with_values(tuple(values)).tree

        def argument(name: str) -> Any:
            if name in self.pairs:
                parts = (Jet(part, self.frame, lookup, normal) for part in self.pairs[name])
                return ComplexJet(*parts)
            if name not in self.fields:
                return given[name]
            number = self.fields.index(name)
            if name in self.laws:
                terms = node_terms(number, len(self.frame.coordinates))
                return LawJet(
                    self.laws[name].argument,
                    self.laws[name].mean,
                    lambda: jnp.stack([lookup(term) for term in terms]),
                    None if asked is None else partial(asked, name),
                )
            jet = Jet(number, self.frame, lookup, normal)
            return self.numbers[name].value(jet.value) if name in self.numbers else jet

        function, (required, others) = self.function, self.arguments
        if integrand is not None:
            function = integrand
            names = (*self.fields, *self.pairs)
            required, others = _argument_names(self.where, function, names, self.others)
        try:
            result = answered(
                answer,
                lambda: function(
                    point, *map(argument, required), **{name: argument(name) for name in others}
                ),
            )
        except _NewTerm:
            raise
        except Exception as error:
            refuse(self.where, error)
        if integrand is None:
            return _components(result, self.where)
        if jnp.shape(result) != ():
            raise InputError(
                f"{self.where}: an integrand must be one number; got shape {jnp.shape(result)}."
            )
        return result

    def terms(self) -> tuple[Term, ...]:
        """The jet entries that are used."""
        used: set[Term] = set()

        def recorded(*place):
            def lookup(term: Term) -> Array:
                used.add(term)
                return place[0][0]

            return self._called(lookup, place)

        try:
            jax.eval_shape(recorded, *self.place)
        except InputError as error:
            # A new one, without what JAX notes about its own frames.
            raise InputError(str(error)) from error.__cause__
        if not used:
            raise InputError(
                f"{self.where}: its residual uses no field. Expected something like "
                "lambda x, u: u.value - g(x)."
            )
        return tuple(sorted(used))

    def arguments_of(self, terms: tuple[Term, ...]) -> list[np.ndarray]:
        """Stand-ins for the entries and what else F is a function of."""
        return [np.zeros(())] * len(terms) + self.place

    def values(self, terms: tuple[Term, ...]) -> jex.ClosedJaxpr:
        """F as a function of these entries and of the place, traced."""

        def value(*inputs):
            entries = dict(zip(terms, inputs[: len(terms)], strict=True))

            def lookup(term: Term) -> Array:
                if term not in entries:
                    raise _NewTerm
                return entries[term]

            return self._called(lookup, inputs[len(terms) :])

        return jax.make_jaxpr(value)(*self.arguments_of(terms))

    def asked(
        self, terms: tuple[Term, ...], block: Collocation, entries: Float[Array, "N T"]
    ) -> dict[str, Array]:
        """For each law that is called all its arguments at the points of a block."""

        def at(entry, point, normal, datum):
            found: dict[str, list[Array]] = {}
            normals = [jnp.zeros_like(point) if normal is None else normal] * self.has_normals
            place = [point, *normals, *(datum[n] for n in self.data), *self.inputs.values]
            self._called(
                dict(zip(terms, entry, strict=True)).__getitem__,
                place,
                lambda name, argument: found.setdefault(name, []).append(argument),
            )
            return {name: jnp.stack(each) for name, each in found.items()}

        axes = (0, 0, None if block.normals is None else 0, 0)
        return jax.vmap(at, in_axes=axes)(entries, block.points, block.normals, dict(block.data))

    def refuse_nonlinear_integrals(self, terms: tuple[Term, ...]) -> None:
        """F must be linear in its integrals, with factors in which there are no fields."""
        count = len(terms)

        def value(*inputs):
            entries = dict(zip(terms, inputs[:count], strict=True))
            given, calls = inputs[count : count + self.integrals], []

            def answer(call: Call) -> Any:
                calls.append(call)
                return given[len(calls) - 1]

            place = inputs[count + self.integrals :]
            return self._run(lambda term: entries.get(term, jnp.ones(())), place, answer)

        first = len(self.place) - len(self.inputs.values)
        place = self.place[: first - len(LOCAL)] + self.place[first:]
        numbers = [np.zeros(())] * (count + self.integrals)
        closed = jax.make_jaxpr(value)(*numbers, *place)
        for one in dependencies(closed.jaxpr, range(count + self.integrals)):
            if any(number >= count for number in one.nonlinear):
                raise InputError(
                    f"{self.where}: its residual is not linear in an integral, or multiplies it by "
                    "a field. Make the integral a field w of its own, by the equation "
                    "w.value - kp.integral(...), and use w.value here."
                )

    def computes(self, terms: tuple[Term, ...], form: Traced) -> bool:
        """Whether F is now what it was when it was traced as `form`."""
        try:
            return lifted(self.values(terms)).same(form)
        except _NewTerm:
            return False


def _refused(_: Call) -> Any:
    raise InputError("integral: integrals inside integrals are not supported.")


class _NewTerm(Exception):
    """A residual asks for a jet entry that it did not ask for before."""


def _argument_names(
    where: str, function: Callable, fields: tuple[str, ...], data: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of arguments without a default, which are given in order; and of those with one
    that a field, data or an input is called like."""
    if not callable(function):
        raise InputError(
            f"{where}: expected a function as residual, for example lambda x, {fields[0]}: "
            f"{fields[0]}.value; got {function!r}."
        )
    parameters = list(inspect.signature(function).parameters.values())
    kinds = [parameter.kind for parameter in parameters]
    having = f"fields {', '.join(map(repr, fields))}" + (
        f", and data or inputs {', '.join(map(repr, data))}" if data else ""
    )
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not kinds or any(kind in several for kind in kinds):
        raise InputError(
            f"{where}: a residual takes the point and then fields or data by name, "
            f"as in lambda x, {fields[0]}: ...; got {inspect.signature(function)}."
        )
    ordered = [p.default is p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters[1:]]
    names = [p.name for p, first in zip(parameters[1:], ordered, strict=True) if first]
    others = [
        p.name
        for p, first in zip(parameters[1:], ordered, strict=True)
        if not first and (p.default is p.empty or p.name in (*fields, *data))
    ]
    for name in (*names, *others):
        if name not in fields and name not in data:
            raise InputError(
                f"{where}: its residual has an argument {name!r}, but the problem "
                f"has {having}. Arguments after the first are matched by name."
            )
    return tuple(names), tuple(others)


def _components(result, where: str) -> list[Float[Array, ""]]:
    """A residual's result as one real number per equation, complex ones in two parts."""
    parts = list(result) if isinstance(result, tuple | list) else [result]
    for part in parts:
        if isinstance(part, Jet | ComplexJet):
            raise InputError(f"{where}: its residual returns a field. Use its value: u.value.")
        if not isinstance(part, jax.Array | np.ndarray | np.generic | float | int | complex):
            raise InputError(
                f"{where}: its residual must return a number, or a tuple or vector of numbers for "
                f"several equations; got {part!r}."
            )
    shapes = [jnp.shape(part) for part in parts]
    if len(parts) == 1 and len(shapes[0]) == 1 and shapes[0][0] > 0:
        parts, shapes = list(jnp.asarray(parts[0])), [()]
    if not parts or any(shape != () for shape in shapes):
        raise InputError(
            f"{where}: its residual must return a number, or a tuple or vector of "
            f"numbers for several equations; got shape {shapes[0] if len(shapes) == 1 else shapes}."
        )
    found = []
    for part in map(jnp.asarray, parts):
        if part.dtype == bool:
            raise InputError(
                f"{where}: its residual returns whether something holds. Expected a number that "
                "is zero where the equation holds: u.value - 1.0 instead of u.value == 1.0."
            )
        if part.dtype == jnp.float32:
            raise InputError(
                f"{where}: its residual returns single precision. Expected double precision; "
                "leave out .astype(jnp.float32)."
            )
        if jnp.iscomplexobj(part):
            found += [jnp.real(part), jnp.imag(part)]
        else:
            found.append(part.astype(float))
    return found
