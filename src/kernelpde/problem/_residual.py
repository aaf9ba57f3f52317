"""What a residual uses of the fields, found by tracing, and its linearisation at points."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.errors import InputError
from kernelpde.functionals import ComplexJet, Frame, Jet, Term
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._fields import Parameter


@dataclass(frozen=True)
class Residual:
    """A residual F(x, j₁, ..., j_T) as a function of the point and of the jet entries it uses.

    **Attributes:**

    - `fields`: the names of the real fields.
    - `complex_fields`: name, number of the real and number of the imaginary part of complex ones.
    - `parameters`: unknown numbers, which are among the fields as well.
    - `terms`: the entries jₜ, in the order in which they are passed.
    - `components`: for each equation that the residual returns, the numbers of the entries in it.
    - `nonlinear`: the numbers of the entries on which some ∂F/∂jₜ depends. In the others F is
      linear with coefficients that depend on the point alone: ∂F/∂jₛ depends on jₜ exactly if
      ∂F/∂jₜ depends on jₛ.
    """

    condition: str
    function: Callable
    fields: tuple[str, ...]
    complex_fields: tuple[tuple[str, int, int], ...]
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...]
    frame: Frame
    terms: tuple[Term, ...]
    components: tuple[tuple[int, ...], ...]
    nonlinear: tuple[int, ...]

    def __call__(
        self,
        point: Float[Array, "d"],
        normal: Float[Array, "d"] | None,
        data: Mapping[str, Array],
        entries: Sequence[Array],
    ) -> Float[Array, "R"]:
        """F at one point, all components."""
        return jnp.stack(self.parts(point, normal, data, entries))

    def parts(self, point, normal, data, entries: Sequence[Array]) -> list[Array]:
        """F at one point, each component by itself."""
        values = dict(zip(self.terms, entries, strict=True))
        return self._call(point, normal, data, values.__getitem__)

    def _call(self, point, normal, data, lookup: Callable[[Term], Array]) -> list[Array]:
        jets: dict[str, Jet | ComplexJet | Array] = {
            name: Jet(self.fields.index(name), self.frame, lookup, normal)
            for name in self.arguments
            if name in self.fields
        }
        for name, *parts in self.complex_fields:
            if name in self.arguments:
                real, imaginary = (Jet(part, self.frame, lookup, normal) for part in parts)
                jets[name] = ComplexJet(real, imaginary)
        for parameter in self.parameters:
            if parameter.name in self.arguments:
                jet = Jet(self.fields.index(parameter.name), self.frame, lookup)
                jets[parameter.name] = parameter.value(jet.value)
        others = data if normal is None else {"normal": normal, **data}
        given = (jets[name] if name in jets else others[name] for name in self.arguments)
        return _components(self.function(point, *given), self.condition)

    @property
    def nonlinear_terms(self) -> tuple[Term, ...]:
        return tuple(self.terms[t] for t in self.nonlinear)

    def linearise(
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
            values, pull = jax.vjp(lambda *e: self(point, normal, datum, e), *full)
            rows = [pull(row) for row in jnp.eye(values.shape[0])]
            return values, jnp.stack([jnp.stack(row) for row in rows])

        axes = (0, None if normals is None else 0, 0, 0)
        columns = tuple(jets[:, k] for k in range(jets.shape[1]))
        return jax.vmap(at, in_axes=axes)(points, normals, dict(data), columns)


def trace_residual(
    condition: str,
    function: Callable,
    fields: tuple[str, ...],
    frame: Frame,
    has_normals: bool,
    data: Mapping[str, Array],
    complex_fields: tuple[tuple[str, int, int], ...] = (),
    parameters: tuple[Parameter, ...] = (),
) -> Residual:
    """Find out what a residual uses, and refuse what cannot be a residual.

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
    """
    known = (*fields, *(name for name, *_ in complex_fields))
    others = ("normal", *data) if has_normals else tuple(data)
    arguments = _argument_names(condition, function, known, others)
    dimension = len(frame.coordinates)
    place = (
        np.zeros(dimension),
        np.zeros(dimension) if has_normals else None,
        {name: np.zeros(values.shape[1:]) for name, values in data.items()},
    )
    blank = Residual(
        condition, function, fields, complex_fields, parameters, arguments, frame, (), (), ()
    )

    used: set[Term] = set()

    def recorded(point, normal, datum):
        def lookup(term: Term) -> Array:
            used.add(term)
            return point[0]

        return blank._call(point, normal, datum, lookup)

    count = len(jax.eval_shape(recorded, *place))
    terms = tuple(sorted(used))
    if not terms:
        raise InputError(
            f"Condition {condition!r}: its residual uses no field. Expected something like "
            "lambda x, u: u.value - g(x)."
        )
    whole = replace(blank, terms=terms)
    zeros = tuple(np.zeros(()) for _ in terms)
    components, nonlinear = [], set()
    for r in range(count):

        def component(entries, point, normal, datum, r=r):
            return whole.parts(point, normal, datum, entries)[r]

        (present,) = dependencies(jax.make_jaxpr(component)(zeros, *place).jaxpr)
        entries = tuple(t for t in range(len(terms)) if t in present)
        if not entries:
            raise InputError(
                f"Condition {condition!r}: component {r} of its residual uses no field."
            )
        components.append(entries)
        for found in dependencies(jax.make_jaxpr(jax.grad(component))(zeros, *place).jaxpr):
            nonlinear |= {t for t in found if t < len(terms)}
    return replace(whole, components=tuple(components), nonlinear=tuple(sorted(nonlinear)))


def _argument_names(
    condition: str, function: Callable, fields: tuple[str, ...], data: tuple[str, ...]
) -> tuple[str, ...]:
    parameters = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(p.name for p in parameters[1:] if p.default is inspect.Parameter.empty)
    known = f"fields {', '.join(map(repr, fields))}" + (
        f" and data {', '.join(map(repr, data))}" if data else ""
    )
    if not parameters or any(p.kind not in positional for p in parameters):
        raise InputError(
            f"Condition {condition!r}: a residual takes the point and then fields or data by name, "
            f"as in lambda x, {fields[0]}: ...; got {inspect.signature(function)}."
        )
    for name in names:
        if name not in fields and name not in data:
            raise InputError(
                f"Condition {condition!r}: its residual has an argument {name!r}, but the problem "
                f"has {known}. Arguments after the first are matched by name."
            )
    return names


def _components(result, condition: str) -> list[Float[Array, ""]]:
    """A residual's result as one real number per equation, complex ones in two parts."""
    parts = list(result) if isinstance(result, tuple | list) else [result]
    shapes = [jnp.shape(part) for part in parts]
    if len(parts) == 1 and len(shapes[0]) == 1 and shapes[0][0] > 0:
        parts, shapes = list(jnp.asarray(parts[0])), [()]
    if not parts or any(shape != () for shape in shapes):
        raise InputError(
            f"Condition {condition!r}: its residual must return a number, or a tuple or vector of "
            f"numbers for several equations; got shape {shapes[0] if len(shapes) == 1 else shapes}."
        )
    found = []
    for part in parts:
        if jnp.iscomplexobj(part):
            found += [jnp.real(part), jnp.imag(part)]
        else:
            found.append(jnp.asarray(part, dtype=float))
    return found
