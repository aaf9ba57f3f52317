"""Traced residuals and their linearization at points."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import concrete_array
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.problem._dependencies import dependencies
from kernelpde.problem._equation import LocalArguments, ResidualTracer
from kernelpde.problem._integral import LOCAL
from kernelpde.problem._residual_errors import check_indices
from kernelpde.tracing import Traced, lift_constants


class Residual(eqx.Module):
    """A residual F(x, j₁, ..., j_T), a function of the point and of the jet entries that it uses.

    Its constants are arrays. Residuals that differ only in them have equal static attributes.

    **Attributes:**

    - `traced`: F and ∂F/∂j as functions of jet values and the leaves of `LocalArguments`.
    - `inputs`: numbers of all inputs of the problem.
    - `terms`: jet entries jₜ, in the order of the arguments.
    - `equation_terms`: indices of the jet entries in each equation of the residual.
    - `nonlinear`: indices of the jet entries in which F is nonlinear. In the others it is linear,
      with coefficients that depend on the point only.
    - `has_normals`: whether a normal is an argument of the trace.
    - `uses_normal`: whether F depends on the normal.
    - `data`: names of the data.
    """

    traced: Traced
    inputs: tuple[Array, ...]
    terms: tuple[Term, ...] = eqx.field(static=True)
    equation_terms: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    nonlinear: tuple[int, ...] = eqx.field(static=True)
    has_normals: bool = eqx.field(static=True)
    uses_normal: bool = eqx.field(static=True)
    data: tuple[str, ...] = eqx.field(static=True)

    def value_and_jacobian(
        self,
        point: Float[Array, " d"],
        normal: Float[Array, " d"] | None,
        data: Mapping[str, Array],
        jet_values: Sequence[Array],
    ) -> tuple[Float[Array, " R"], Float[Array, "R T"]]:
        """Evaluate F and ∂F/∂j at one point."""
        if normal is None and self.uses_normal:
            raise InputError("residual: it uses normals, and these points have none.")
        if not self.has_normals:
            normal = None
        elif normal is None:
            normal = jnp.zeros_like(point)
        used_data = {name: data[name] for name in self.data}
        arguments = LocalArguments(point, normal, used_data, self.inputs)
        values, jacobian = self.traced(*jet_values, *jax.tree.leaves(arguments))
        return values, jacobian

    def __call__(
        self,
        point: Float[Array, " d"],
        normal: Float[Array, " d"] | None,
        data: Mapping[str, Array],
        jet_values: Sequence[Array],
    ) -> Float[Array, " R"]:
        """Evaluate all equations of F at one point."""
        return self.value_and_jacobian(point, normal, data, jet_values)[0]

    @property
    def has_integrals(self) -> bool:
        """True if the residual contains integrals, whose nodes follow each point."""
        return LOCAL[0] in self.data

    @property
    def nonlinear_terms(self) -> tuple[Term, ...]:
        """Jet entries in which F is nonlinear."""
        return tuple(self.terms[t] for t in self.nonlinear)

    def linearize(
        self,
        points: Float[Array, "N d"],
        normals: Float[Array, "N d"] | None,
        data: Mapping[str, Array],
        jets: Float[Array, "N K"],
    ) -> tuple[Float[Array, "N R"], Float[Array, "N R T"]]:
        """Evaluate F without its linear part, and ∂F/∂j, at all points.

        **Arguments:**

        - `points`, `normals`, `data`: arrays with one row per point.
        - `jets`: values of the nonlinear jet entries, in the order of `nonlinear`.

        **Returns:**

        F(x, j) with the linear jet entries set to zero, and the coefficients ∂F/∂jₜ. The residual
        is the first plus the linear jet entries times their coefficients.
        """

        def linearize_at(point, normal, data, nonlinear_values):
            jet_values = [jnp.zeros(())] * len(self.terms)
            for index, value in zip(self.nonlinear, nonlinear_values, strict=True):
                jet_values[index] = value
            return self.value_and_jacobian(point, normal, data, jet_values)

        columns = tuple(jets[:, k] for k in range(jets.shape[1]))
        return jax.vmap(linearize_at)(points, normals, dict(data), columns)


def trace_residual(tracer: ResidualTracer) -> tuple[Residual, Traced]:
    """Return a traced residual, and F without its derivatives.

    The function is checked: it must use fields, valid indices, and integrals linearly.
    """
    terms = tracer.terms()
    num_terms = len(terms)
    closed = tracer.trace(terms)
    num_inputs = len(closed.jaxpr.invars)
    check_indices(tracer.location, closed.jaxpr)
    on_jets = dependencies(closed.jaxpr, range(num_terms))
    if tracer.num_integrals:
        tracer.check_linear_in_integrals(terms)
    for equation, dependence in enumerate(on_jets):
        if not dependence.inputs:
            raise InputError(
                f"{tracer.location}: component {equation} of its residual uses no field. Remove "
                "it, or check for a factor of zero."
            )
    on_arguments = dependencies(closed.jaxpr, range(num_terms, num_inputs))
    # The normal follows the point among the arguments.
    uses_normal = any(num_terms + 1 in dependence.inputs for dependence in on_arguments)
    residual = Residual(
        jax.tree.map(concrete_array, _with_jacobian(closed, num_terms)),
        tracer.inputs.values,
        terms,
        tuple(tuple(sorted(dependence.inputs)) for dependence in on_jets),
        tuple(sorted(frozenset().union(*(dependence.nonlinear for dependence in on_jets)))),
        tracer.has_normals,
        tracer.has_normals and uses_normal,
        tracer.data,
    )
    return residual, lift_constants(closed)


def _with_jacobian(closed: jex.ClosedJaxpr, num_terms: int) -> Traced:
    """Trace all equations, stacked, and their derivatives in the jet entries."""
    function = jex.jaxpr_as_fun(closed)

    def value_and_jacobian(*inputs):
        jet_values, arguments = inputs[:num_terms], inputs[num_terms:]

        def stacked(*jet_values):
            return jnp.stack(function(*jet_values, *arguments))

        try:
            values, pull_back = jax.vjp(stacked, *jet_values)
            rows = [jnp.stack(pull_back(row)) for row in jnp.eye(values.shape[0])]
            return values, jnp.stack(rows)
        except ValueError:
            # Loops of unknown length have no reverse mode.
            columns = jax.jacfwd(stacked, argnums=tuple(range(num_terms)))(*jet_values)
            return stacked(*jet_values), jnp.stack(columns, axis=-1)

    inputs = [np.zeros(aval.shape, aval.dtype) for aval in closed.in_avals]
    return lift_constants(jax.make_jaxpr(value_and_jacobian)(*inputs))
