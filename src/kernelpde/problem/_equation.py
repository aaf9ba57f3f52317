"""Tracing of residuals: evaluation of the user's Python functions on jets."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.errors import InputError
from kernelpde.functionals import ComplexJet, CoordinateFrame, Jet, LawJet, Term, nodal_terms
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._fields import Unknowns
from kernelpde.problem._inputs import Inputs
from kernelpde.problem._integral import (
    LOCAL,
    IntegralCall,
    IntegralHandler,
    append_nodes,
    integral_indices,
    local_data,
    with_integral_handler,
)
from kernelpde.problem._point_set import PointSet
from kernelpde.problem._residual_errors import raise_residual_error, source_location
from kernelpde.tracing import Traced, lift_constants

Lookup = Callable[[Term], Array]
"""Function that returns the value of a jet entry."""

LawRecorder = Callable[[str, Array], None]
"""Function that records the name of a law and the argument at which it is evaluated."""


class LocalArguments(NamedTuple):
    """Arguments of a residual at one point besides the fields.

    **Attributes:**

    - `point`, `normal`, `data`: point, outward normal if there is one, and data by name.
    - `inputs`: values of all inputs of the problem.
    """

    point: Any
    normal: Any
    data: Mapping[str, Any]
    inputs: Sequence[Any]


class ResidualTracer:
    """A user-defined residual and its arguments, for tracing.

    **Arguments:**

    - `condition`: name of the condition, for messages.
    - `function`: function of the point and, by the names of its arguments, of fields, data, inputs
      and, where there are normals, the outward `normal`.
    - `unknowns`: fields, parameters and laws.
    - `frame`: coordinates.
    - `has_normals`: whether the points of the condition have normals.
    - `data`: arrays with one row per point.
    - `inputs`: inputs of the problem.
    """

    def __init__(
        self,
        condition: str,
        function: Callable,
        unknowns: Unknowns,
        frame: CoordinateFrame,
        has_normals: bool,
        data: Mapping[str, Array],
        inputs: Inputs | None = None,
    ):
        self.location = f"Condition {condition!r}{source_location(function)}"
        self.function, self.unknowns, self.frame = function, unknowns, frame
        self.has_normals = has_normals
        self.inputs = Inputs.from_mapping({}) if inputs is None else inputs
        self._fields = [field.name for field in unknowns.fields]
        self._components = {name: indices for name, *indices in unknowns.complex_fields}
        self._parameters = {parameter.name: parameter for parameter in unknowns.parameters}
        self._laws = {law.name: law for law in unknowns.laws}
        self._other_names = (*["normal"] * has_normals, *data, *self.inputs.names)
        self._signature = self._match_arguments(function)
        point = np.zeros(len(frame.coordinates))
        example_data = {name: np.zeros(values.shape[1:]) for name, values in data.items()}
        self.example = LocalArguments(
            point,
            point if has_normals else None,
            example_data,
            [np.zeros(jnp.shape(v), jnp.result_type(v)) for v in self.inputs.values],
        )
        calls: list[IntegralCall] = []
        jax.eval_shape(partial(self._collect_integrals, calls), self.example)
        self.num_integrals = len(calls)
        if calls:
            example_data |= local_data(point, np.zeros(()), np.zeros(()))

    @property
    def data(self) -> tuple[str, ...]:
        """Names of the data of each point."""
        return tuple(self.example.data)

    def _collect_integrals(self, calls: list[IntegralCall], arguments: LocalArguments) -> None:
        """Append the integrals of the residual at a point to a list."""

        def handler(call: IntegralCall) -> float:
            calls.append(call)
            return 0.0

        self._evaluate(_ones, arguments, handler)

    def append_integral_nodes(self, point_set: PointSet) -> PointSet:
        """Append to each point the nodes of the integrals of its row."""
        indices: list[np.ndarray] = []

        def quadrature_at(point, normal, data):
            calls: list[IntegralCall] = []
            self._collect_integrals(calls, LocalArguments(point, normal, data, self.inputs.values))
            indices[:] = [integral_indices(calls)]
            nodes = jnp.concatenate([call.nodes for call in calls])
            return nodes, jnp.concatenate([call.weights for call in calls])

        if point_set.quadrature is not None:
            raise InputError(f"{self.location}: integrals inside averages are not supported.")
        nodes, weights = jax.vmap(quadrature_at)(
            point_set.points, point_set.normals, dict(point_set.data)
        )
        return append_nodes(point_set, nodes, weights, indices[0])

    def _evaluate_local(
        self, lookup: Lookup, arguments: LocalArguments, record: LawRecorder | None = None
    ) -> list[Array]:
        """Evaluate F at a local point.

        At a collocation point this is F without integrals. At a node of an integral it is the
        contribution of the node.
        """
        if not self.num_integrals:
            return self._evaluate(lookup, arguments, _raise_nested_integral, record)
        collocation_point, index, weight = (arguments.data[name] for name in LOCAL)
        at_collocation_point = arguments._replace(point=collocation_point)

        def only(integral: int) -> IntegralHandler:
            position = count()

            def handler(call: IntegralCall) -> Any:
                if next(position) != integral:
                    return 0.0
                return self._evaluate(
                    lookup, arguments, _raise_nested_integral, record, call.integrand
                )

            return handler

        base = self._evaluate(_ones, at_collocation_point, _zero)
        total = [
            jnp.where(index == 0, value, 0.0)
            for value in self._evaluate(lookup, at_collocation_point, _zero, record)
        ]
        for integral in range(self.num_integrals):
            values = self._evaluate(_ones, at_collocation_point, only(integral))
            total = [
                subtotal + jnp.where(index == integral + 1, weight * (value - zero), 0.0)
                for subtotal, value, zero in zip(total, values, base, strict=True)
            ]
        return total

    def _evaluate(
        self,
        lookup: Lookup,
        arguments: LocalArguments,
        integral_handler: IntegralHandler,
        record: LawRecorder | None = None,
        integrand: Callable | None = None,
    ) -> Any:
        """Evaluate F, or an integrand in it, at one point."""
        function = self.function if integrand is None else integrand
        names, keywords = self._signature if integrand is None else self._match_arguments(integrand)
        argument = partial(self._argument, lookup, arguments, record)
        try:
            result = with_integral_handler(
                integral_handler,
                lambda: function(
                    arguments.point, *map(argument, names), **{k: argument(k) for k in keywords}
                ),
            )
        except _NewTerm:
            raise
        except Exception as error:
            raise_residual_error(self.location, error)
        if integrand is None:
            return _split_equations(result, self.location)
        if jnp.shape(result) != ():
            raise InputError(
                f"{self.location}: an integrand must be one number; got shape {jnp.shape(result)}."
            )
        return result

    def _argument(
        self, lookup: Lookup, arguments: LocalArguments, record: LawRecorder | None, name: str
    ) -> Any:
        """Return the argument of a residual with a certain name."""
        normal = arguments.normal
        if name in self._components:
            return ComplexJet(*(Jet(i, self.frame, lookup, normal) for i in self._components[name]))
        if name in self._laws:
            terms = nodal_terms(self._fields.index(name), len(self.frame.coordinates))
            return LawJet(
                self._laws[name].argument,
                self._laws[name].mean,
                lambda: jnp.stack([lookup(term) for term in terms]),
                None if record is None else partial(record, name),
            )
        if name in self._fields:
            jet = Jet(self._fields.index(name), self.frame, lookup, normal)
            return self._parameters[name].value(jet.value) if name in self._parameters else jet
        if name in self.inputs.names:
            return self.inputs.with_values(tuple(arguments.inputs)).tree[name]
        return normal if name == "normal" else arguments.data[name]

    def terms(self) -> tuple[Term, ...]:
        """Return the jet entries that the residual uses."""
        terms: set[Term] = set()

        def evaluate(arguments: LocalArguments):
            def lookup(term: Term) -> Array:
                terms.add(term)
                return arguments.point[0]

            return self._evaluate_local(lookup, arguments)

        try:
            jax.eval_shape(evaluate, self.example)
        except InputError as error:
            # A new exception has none of the notes that JAX adds about its stack frames.
            raise InputError(str(error)) from error.__cause__
        if not terms:
            raise InputError(
                f"{self.location}: its residual uses no field. Expected something like "
                "lambda x, u: u.value - g(x)."
            )
        return tuple(sorted(terms))

    def trace(self, terms: tuple[Term, ...]) -> jex.ClosedJaxpr:
        """Trace F as a function of jet entries and local arguments."""

        def residual(jet_values: list[Array], arguments: LocalArguments):
            by_term = _by_term(terms, jet_values)

            def lookup(term: Term) -> Array:
                if term not in by_term:
                    raise _NewTerm
                return by_term[term]

            return self._evaluate_local(lookup, arguments)

        return jax.make_jaxpr(residual)([np.zeros(())] * len(terms), self.example)

    def law_arguments(
        self, terms: tuple[Term, ...], point_set: PointSet, jet_values: Float[Array, "N T"]
    ) -> dict[str, Array]:
        """Return all arguments at which laws are evaluated at the points of a point set."""

        def arguments_at(jet_values, point, normal, data):
            recorded: dict[str, list[Array]] = {}
            self._evaluate_local(
                _by_term(terms, jet_values).__getitem__,
                LocalArguments(point, normal, data, self.inputs.values),
                lambda name, argument: recorded.setdefault(name, []).append(argument),
            )
            return {name: jnp.stack(arguments) for name, arguments in recorded.items()}

        return jax.vmap(arguments_at)(
            jet_values, point_set.points, point_set.normals, dict(point_set.data)
        )

    def check_linear_in_integrals(self, terms: tuple[Term, ...]) -> None:
        """Check that F is linear in its integrals, with factors that contain no fields."""

        def residual(jet_values: list[Array], integrals: list[Array], arguments: LocalArguments):
            by_term, remaining = _by_term(terms, jet_values), iter(integrals)
            return self._evaluate(
                lambda term: by_term.get(term, jnp.ones(())), arguments, lambda _: next(remaining)
            )

        zeros, zero_integrals = [np.zeros(())] * len(terms), [np.zeros(())] * self.num_integrals
        closed = jax.make_jaxpr(residual)(zeros, zero_integrals, self.example)
        num_unknowns = len(terms) + self.num_integrals
        for dependence in dependencies(closed.jaxpr, range(num_unknowns)):
            if any(index >= len(terms) for index in dependence.nonlinear):
                raise InputError(
                    f"{self.location}: its residual is not linear in an integral, or multiplies it "
                    "by a field. Introduce a separate field w for the integral, with the equation "
                    "w.value - kp.integral(...), and use w.value in this residual."
                )

    def matches_trace(self, terms: tuple[Term, ...], form: Traced) -> bool:
        """Return whether F is still the function that was traced as `form`."""
        try:
            return lift_constants(self.trace(terms)).equivalent(form)
        except _NewTerm:
            return False

    def _match_arguments(self, function: Callable) -> tuple[list[str], list[str]]:
        """Return the names of positional arguments without default, and of keyword arguments."""
        fields = (*self._fields, *self._components)
        names = (*fields, *self._other_names)
        if not callable(function):
            raise InputError(
                f"{self.location}: expected a function as residual, for example "
                f"lambda x, {fields[0]}: {fields[0]}.value; got {function!r}."
            )
        parameters = list(inspect.signature(function).parameters.values())
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if not parameters or any(parameter.kind in variadic for parameter in parameters):
            raise InputError(
                f"{self.location}: a residual is a function of the point and then of fields or "
                f"data by name, as in lambda x, {fields[0]}: ...; got "
                f"{inspect.signature(function)}."
            )
        positional, keywords = [], []
        for parameter in parameters[1:]:
            required = parameter.default is parameter.empty
            if required and parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(parameter.name)
            elif required or parameter.name in names:
                keywords.append(parameter.name)
        for name in (*positional, *keywords):
            if name not in names:
                available = f"fields {', '.join(map(repr, fields))}"
                if self._other_names:
                    available += f", and data or inputs {', '.join(map(repr, self._other_names))}"
                raise InputError(
                    f"{self.location}: its residual has an argument {name!r}, but the problem has "
                    f"{available}. Arguments after the first are matched by name."
                )
        return positional, keywords


class _NewTerm(Exception):
    """A jet entry that the residual did not use when it was traced."""


def _ones(_: Term) -> Array:
    return jnp.ones(())


def _zero(_: IntegralCall) -> float:
    return 0.0


def _raise_nested_integral(_: IntegralCall) -> Any:
    raise InputError("integral: integrals inside integrals are not supported.")


def _split_equations(result: Any, location: str) -> list[Float[Array, ""]]:
    """Return one real number per equation, and two for complex numbers."""
    equations = list(result) if isinstance(result, tuple | list) else [result]
    expected = "its residual must return a number, or a tuple or vector of numbers"
    for value in equations:
        if isinstance(value, Jet | ComplexJet):
            raise InputError(f"{location}: its residual returns a field. Use its value: u.value.")
        if not isinstance(value, jax.Array | np.ndarray | np.generic | float | int | complex):
            raise InputError(f"{location}: {expected} for several equations; got {value!r}.")
    shapes = [jnp.shape(value) for value in equations]
    if len(equations) == 1 and len(shapes[0]) == 1 and shapes[0][0] > 0:
        equations, shapes = list(jnp.asarray(equations[0])), [()]
    if not equations or any(shape != () for shape in shapes):
        raise InputError(
            f"{location}: {expected} for several equations; got shape "
            f"{shapes[0] if len(shapes) == 1 else shapes}."
        )
    real: list[Array] = []
    for value in map(jnp.asarray, equations):
        if value.dtype == bool:
            raise InputError(
                f"{location}: its residual returns True or False. Expected a number that is zero "
                "where the equation holds: u.value - 1.0 instead of u.value == 1.0."
            )
        if value.dtype == jnp.float32:
            raise InputError(
                f"{location}: its residual returns single precision. Expected double precision; "
                "remove .astype(jnp.float32)."
            )
        if jnp.iscomplexobj(value):
            real += [jnp.real(value), jnp.imag(value)]
        else:
            real.append(value.astype(float))
    return real


def _by_term(terms: Sequence[Term], jet_values: Sequence[Array] | Array) -> dict[Term, Array]:
    return dict(zip(terms, jet_values, strict=True))
