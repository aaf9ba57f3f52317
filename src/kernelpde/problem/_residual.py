"""What a residual computes of the fields, found by tracing, and its linearization at points."""

from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.arrays import known
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._equation import Equation
from kernelpde.problem._integral import LOCAL
from kernelpde.problem._refusals import refuse_indices
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
    def integrates(self) -> bool:
        """Whether there are integrals in it, whose nodes follow each point."""
        return LOCAL[0] in self.data

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


def trace_residual(equation: Equation) -> tuple[Residual, Traced]:
    """What a residual computes, and F alone; what cannot be a residual is refused."""
    where, terms = equation.where, equation.terms()
    count, inputs = len(terms), equation.arguments_of(terms)
    closed = equation.values(terms)
    refuse_indices(where, closed.jaxpr)
    reach = dependencies(closed.jaxpr, range(count))
    if equation.integrals:
        equation.refuse_nonlinear_integrals(terms)
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
