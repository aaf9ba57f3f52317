"""What a residual computes of the fields, found by tracing, and its linearization at points."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import known
from kernelpde.errors import InputError
from kernelpde.functionals import ComplexJet, Frame, Jet, LawJet, Term, node_terms
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._fields import Law, Parameter
from kernelpde.problem._inputs import Inputs
from kernelpde.problem._refusals import line_of, refuse, refuse_indices
from kernelpde.tracing import Traced, lifted


class Residual(eqx.Module):
    """A residual F(x, j₁, ..., j_T) as a function of the point and of the jet entries it uses.

    It is what was traced, not the Python function: its numbers are arrays, the rest is static and
    equal for all residuals that do the same.

    **Attributes:**

    - `traced`: F and ∂F/∂j as functions of the entries, the point, the normal if there is one,
      data in the order of their names, and inputs.
    - `inputs`: the numbers of all inputs of the problem.
    - `terms`: the entries jₜ, in the order in which they are passed.
    - `components`: for each equation that the residual returns, the numbers of the entries in it.
    - `nonlinear`: the numbers of the entries in which F is not linear. In the others it is, with
      coefficients that depend on the point alone.
    - `has_normals`, `uses_normal`: whether normals are passed, and whether F depends on them.
    - `data`: the names of data that are passed.
    """

    traced: Traced
    inputs: tuple[Array, ...]
    terms: tuple[Term, ...] = eqx.field(static=True)
    components: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    nonlinear: tuple[int, ...] = eqx.field(static=True)
    has_normals: bool = eqx.field(static=True)
    uses_normal: bool = eqx.field(static=True)
    data: tuple[str, ...] = eqx.field(static=True)

    def with_slopes(
        self,
        point: Float[Array, " d"],
        normal: Float[Array, " d"] | None,
        data: Mapping[str, Array],
        entries: Sequence[Array],
    ) -> tuple[Float[Array, " R"], Float[Array, "R T"]]:
        """F and ∂F/∂j at one point."""
        if normal is None and self.uses_normal:
            raise InputError("This residual uses normals, and there are none at these points.")
        normals = [jnp.zeros_like(point) if normal is None else normal] * self.has_normals
        given = (data[name] for name in self.data)
        values, slopes = self.traced(*entries, point, *normals, *given, *self.inputs)
        return values, slopes

    def __call__(
        self,
        point: Float[Array, " d"],
        normal: Float[Array, " d"] | None,
        data: Mapping[str, Array],
        entries: Sequence[Array],
    ) -> Float[Array, " R"]:
        """F at one point, all components."""
        return self.with_slopes(point, normal, data, entries)[0]

    @property
    def nonlinear_terms(self) -> tuple[Term, ...]:
        return tuple(self.terms[t] for t in self.nonlinear)

    def linearize(
        self,
        points: Float[Array, "N d"],
        normals: Float[Array, "N d"] | None,
        data: Mapping[str, Array],
        jets: Float[Array, "N K"],
    ) -> tuple[Float[Array, "N R"], Float[Array, "N R T"]]:
        """F with its linear part left out, and ∂F/∂j, at every point.

        **Arguments:**

        - `points`, `normals`, `data`: one row per point.
        - `jets`: the nonlinear entries of the state, in the order of `nonlinear`.

        **Returns:**

        F(x, j) with the linear entries set to zero, and the coefficients ∂F/∂jₜ. The residual is
        the first plus the linear entries times their coefficients.
        """

        def at(point, normal, datum, entries):
            full = [jnp.zeros(())] * len(self.terms)
            for number, entry in zip(self.nonlinear, entries, strict=True):
                full[number] = entry
            return self.with_slopes(point, normal, datum, full)

        axes = (0, None if normals is None else 0, 0, 0)
        columns = tuple(jets[:, k] for k in range(jets.shape[1]))
        return jax.vmap(at, in_axes=axes)(points, normals, dict(data), columns)


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
        others = (*(("normal",) if has_normals else ()), *data, *self.inputs.names)
        self.arguments = _argument_names(self.where, function, (*fields, *self.pairs), others)
        self.place = [np.zeros(len(frame.coordinates))] * (1 + has_normals)
        self.place += [np.zeros(values.shape[1:]) for values in data.values()]
        self.place += [np.zeros(jnp.shape(v), jnp.result_type(v)) for v in self.inputs.values]

    def _called(
        self,
        lookup: Callable[[Term], Array],
        place: Sequence[Array],
        asked: Callable[[str, Array], None] | None = None,
    ) -> list[Array]:
        """F, with jet entries as `lookup` has them; `asked` is told of what laws are asked."""
        point, *rest = place
        normal = rest.pop(0) if self.has_normals else None
        data, values = rest[: len(self.data)], rest[len(self.data) :]
        given: dict[str, Any] = {"normal": normal, **dict(zip(self.data, data, strict=True))}
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

        try:
            required, others = self.arguments
            result = self.function(
                point, *map(argument, required), **{name: argument(name) for name in others}
            )
        except _NewTerm:
            raise
        except Exception as error:
            refuse(self.where, error)
        return _components(result, self.where)

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

    def computes(self, terms: tuple[Term, ...], form: Traced) -> bool:
        """Whether F is now what it was when it was traced as `form`."""
        try:
            return lifted(self.values(terms)).same(form)
        except _NewTerm:
            return False


class _NewTerm(Exception):
    """A residual asks for a jet entry that it did not ask for before."""


def trace_residual(equation: Equation) -> tuple[Residual, Traced]:
    """What a residual computes, and F alone; what cannot be a residual is refused."""
    where, terms = equation.where, equation.terms()
    count, inputs = len(terms), equation.arguments_of(terms)
    closed = equation.values(terms)
    refuse_indices(where, closed.jaxpr)
    reach = dependencies(closed.jaxpr, range(count))
    for number, one in enumerate(reach):
        if not one.inputs:
            raise InputError(
                f"{where}: component {number} of its residual uses no field. Leave it out, or "
                "check for a factor of zero."
            )
    by_place = dependencies(closed.jaxpr, range(count, len(inputs)))
    traced = lifted(jax.make_jaxpr(_with_slopes(closed, count))(*inputs))
    residual = Residual(
        jax.tree.map(known, traced),
        equation.inputs.values,
        terms,
        tuple(tuple(sorted(one.inputs)) for one in reach),
        tuple(sorted(frozenset().union(*(one.nonlinear for one in reach)))),
        equation.has_normals,
        equation.has_normals and any(count + 1 in one.inputs for one in by_place),
        equation.data,
    )
    return residual, lifted(closed)


def _with_slopes(closed: jex.ClosedJaxpr, count: int) -> Callable:
    """All equations stacked, and their derivatives in the first inputs."""
    function = jex.jaxpr_as_fun(closed)

    def both(*inputs):
        place = inputs[count:]

        def stacked(*entries):
            return jnp.stack(function(*entries, *place))

        try:
            values, pull = jax.vjp(stacked, *inputs[:count])
            rows = [jnp.stack(pull(row)) for row in jnp.eye(values.shape[0])]
            return values, jnp.stack(rows)
        except ValueError:
            # Loops of unknown length have no reverse mode.
            slopes = jax.jacfwd(stacked, argnums=tuple(range(count)))(*inputs[:count])
            return stacked(*inputs[:count]), jnp.stack(slopes, axis=-1)

    return both


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
