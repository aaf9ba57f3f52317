"""Problems: unknowns and the conditions that determine them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import Numbers, concrete_array, to_array
from kernelpde.checking import (
    check_choice,
    check_instance,
    check_integer,
    check_mapping,
    check_name,
    format_names,
    format_value,
    is_sequence,
)
from kernelpde.errors import InputError
from kernelpde.functionals import CoordinateFrame, Prior, Term
from kernelpde.geometry import METHODS
from kernelpde.kernels import AbstractKernel, all_parameters, hyperparameters
from kernelpde.precision import require_float64
from kernelpde.problem._checks import (
    check_arguments,
    check_conditions,
    check_distinct,
    check_inputs,
    check_mixing,
    common_space,
)
from kernelpde.problem._condition import Condition
from kernelpde.problem._discrete import DiscreteCondition, DiscreteProblem
from kernelpde.problem._equation import ResidualTracer
from kernelpde.problem._field_scales import coordinate_extents, field_exponents
from kernelpde.problem._fields import (
    Unknown,
    Unknowns,
    flatten_fields,
    original_kernel,
    traced_functions,
)
from kernelpde.problem._inputs import Inputs
from kernelpde.problem._noise import LearnedNoise
from kernelpde.problem._point_set import PointSet, draw_point_set
from kernelpde.problem._residual import trace_residual
from kernelpde.problem._smoothness import check_smooth

_T = TypeVar("_T")


@jax.tree_util.register_pytree_node_class
class Problem:
    """Unknowns and the conditions that determine them.

    A problem is a pytree of its hyperparameters, constants of residuals, and inputs.

    **Arguments:**

    - `*conditions`: conditions, each with a different name.
    - `fields`: unknown functions, `Field` or `ComplexField`; unknown numbers, `Parameter`; and
      unknown functions of the solution, `Law`.
    - `mixing`: square matrix A with one row per real field. The kernels of the fields then belong
      to independent functions w, and the fields are u = A w, correlated with each other. A is
      learned along with the kernels.
    - `inputs`: prescribed values by name, for residuals that have an argument of that name:
      numbers, arrays, or pytrees of them such as a network. `solve` accepts other values without
      recompiling, and can be differentiated with respect to them.

    **Example:**

    ```python
    >>> print(problem)
    Problem in x
      field u: Gaussian(lengthscale=0.5)
      condition equation on interior
      condition ends on boundary
    ```
    """

    def __init__(
        self,
        *conditions: Condition,
        fields: Sequence[Unknown],
        mixing: Numbers | None = None,
        inputs: Mapping[str, PyTree] | None = None,
    ):
        require_float64()
        if not conditions or (is_sequence(fields) and not fields):
            raise InputError("Problem: expected at least one condition and one field.")
        check_conditions(conditions)
        unknowns = flatten_fields(fields)
        complex_names = [name for name, *_ in unknowns.complex_fields]
        check_distinct("field", [*(field.name for field in unknowns.fields), *complex_names])
        self.conditions = tuple(conditions)
        self.space = common_space(conditions)
        self.frame = CoordinateFrame(self.space.coordinates, self.space.spatial)
        flat, self.complex_fields, self.parameters, self.laws = unknowns
        self.fields = tuple(replace(f, kernel=self._bind_kernel(f.kernel)) for f in flat)
        self.mixing = None if mixing is None else check_mixing(mixing, unknowns)
        self.exponents: np.ndarray | Array | None = None
        self._inputs = Inputs.from_mapping(check_inputs({} if inputs is None else inputs))
        self._trace()
        check_arguments(conditions, self._unknowns, mixing is not None, self._inputs.names)
        check_smooth(self.fields, self.residuals, [c.region for c in conditions])

    def _replace(self, **attributes: Any) -> "Problem":
        """Return a copy with other attributes. Residuals are not traced again."""
        problem = object.__new__(type(self))
        problem.__dict__.update(self.__dict__ | attributes)
        return problem

    def __reduce__(self):
        # Traced residuals cannot be pickled. Another process traces them again.
        stored = {name: value for name, value in self.__dict__.items() if name not in _TRACED}
        return _unpickle, (stored,)

    def tree_flatten(self) -> "tuple[tuple[Any, ...], _Structure]":
        """Return hyperparameters, constants of residuals and inputs, and the static structure."""
        kernels = tuple(field.kernel for field in self.fields)
        residuals = tuple(replace(residual, inputs=()) for residual in self.residuals)
        children = (kernels, self.mixing, self.exponents, residuals, self._inputs.values)
        return children, _Structure(self)

    @classmethod
    def tree_unflatten(cls, structure: "_Structure", children: Sequence[Any]) -> "Problem":
        """Return a problem with other arrays."""
        kernels, mixing, exponents, residuals, inputs = children
        fields = tuple(copy(field) for field in structure.problem.fields)
        for field, kernel in zip(fields, kernels, strict=True):
            # Kernels of a pytree may be placeholders, which the checks of Field would reject.
            object.__setattr__(field, "kernel", kernel)
        return structure.problem._replace(
            fields=fields,
            mixing=mixing,
            exponents=exponents,
            residuals=tuple(replace(residual, inputs=inputs) for residual in residuals),
            _inputs=structure.problem._inputs.with_values(inputs),
        )

    def _bind_kernel(self, kernel: AbstractKernel) -> AbstractKernel:
        """Resolve names of coordinates in a kernel and make it periodic with the domain."""
        bound, periods = kernel.bind_coordinates(self.space.coordinates), self.space.periods
        return bound if all(period is None for period in periods) else bound.make_periodic(periods)

    @property
    def _unknowns(self) -> Unknowns:
        return Unknowns(self.fields, self.complex_fields, self.parameters, self.laws)

    @property
    def prior(self) -> Prior:
        """Gaussian-process prior of all fields."""
        exponents = None if self.exponents is None else to_array(self.exponents)
        return Prior(tuple(f.kernel for f in self.fields), self.mixing, exponents)

    def with_prior(self, prior: Prior) -> "Problem":
        """Replace the kernels, the mixing and the relative scales of the fields."""
        laws = {law.name: law for law in self.laws}
        fields = []
        for field, kernel in zip(self.fields, prior.kernels, strict=True):
            if field.name in laws:
                kernel = laws[field.name].to_nodal_kernel(kernel)
            fields.append(replace(field, kernel=self._bind_kernel(kernel)))
        return self._replace(fields=tuple(fields), mixing=prior.mixing, exponents=prior.exponents)

    def with_kernels(self, kernels: Sequence[AbstractKernel]) -> "Problem":
        """Replace the kernels, one per real field."""
        if not is_sequence(kernels) or len(kernels) != len(self.fields):
            raise InputError(
                f"with_kernels: expected a list of {len(self.fields)} kernels, one for each of "
                f"{format_names(f.name for f in self.fields)}; got {format_value(kernels)}."
            )
        for kernel in kernels:
            expected = "a kernel such as Gaussian(0.2)"
            check_instance("with_kernels", "every entry", kernel, AbstractKernel, expected)
        return self.with_prior(replace(self.prior, kernels=tuple(kernels)))

    def with_field_scales(self, point_sets: tuple[PointSet, ...]) -> "Problem":
        """Scale the fields relative to each other, see `Prior`.

        Noise, parameters, laws, mixing and kernel variances determine the scales of fields. With
        any of them the problem is returned unchanged.
        """
        groups = list(range(len(self.fields)))
        for _, real, imag in self.complex_fields:
            groups[imag] = groups[real]
        scales_are_given = (
            self.mixing is not None
            or bool(self.parameters)
            or bool(self.laws)
            or any(point_set.has_noise for point_set in point_sets)
            or any("variance" in name for f in self.fields for name in all_parameters(f.kernel))
        )
        if scales_are_given or self.exponents is not None or len(set(groups)) == 1:
            return self
        extents = coordinate_extents(point_sets, self.space.periods)
        conditions = self.at_points(point_sets).conditions
        return self._replace(exponents=field_exponents(conditions, extents, groups))

    @property
    def noises(self) -> tuple[Float[Array, ""] | None, ...]:
        """Logarithms of the learned standard deviations, None for conditions without."""
        return tuple(
            None if c.learned_noise is None else to_array(np.log(c.learned_noise.initial))
            for c in self.conditions
        )

    def with_noises(self, noises: Sequence[Float[Array, ""] | None]) -> "Problem":
        """Replace the learned noise of the conditions whose entry is not None."""
        noises_by_name = self.by_condition(noises).items()
        learned = {n: LearnedNoise(float(np.exp(v))) for n, v in noises_by_name if v is not None}
        conditions = (
            replace(c, noise=learned[c.name]) if c.name in learned else c for c in self.conditions
        )
        return self._replace(conditions=tuple(conditions))

    def with_current_noise(self, point_sets: tuple[PointSet, ...]) -> tuple[PointSet, ...]:
        """Replace the learned noise in point sets by its current estimate."""
        return tuple(
            point_set
            if c.learned_noise is None
            else replace(point_set, noise=jnp.full(point_set.rows_per_equation, c.noise_std))
            for c, point_set in zip(self.conditions, point_sets, strict=True)
        )

    def with_conditions(self, conditions: Sequence[Condition]) -> "Problem":
        """Replace the conditions and keep the fields and kernels."""
        check_conditions(conditions)
        space = common_space(conditions)
        problem = self._replace(conditions=tuple(conditions), space=space)
        problem._trace()
        return problem

    @property
    def inputs(self) -> dict[str, PyTree]:
        """Prescribed values by name."""
        return self._inputs.tree

    def with_inputs(self, inputs: Mapping[str, PyTree]) -> "Problem":
        """Replace some of the inputs."""
        new = self._inputs.replace(inputs)
        residuals = tuple(replace(residual, inputs=new.values) for residual in self.residuals)
        problem = self._replace(_inputs=new, residuals=residuals)
        if not new.is_compatible(self._inputs):
            problem._trace()
        return problem

    def retraced(self) -> "Problem":
        """Return the problem with residuals and user-defined kernels in their current state.

        They may read a global or an attribute that has changed since the problem was created.
        """
        tracers = self._tracers()
        fields = tuple(replace(f, kernel=self._bind_kernel(f.kernel)) for f in self.fields)
        same_kernels = traced_functions(fields) == traced_functions(self.fields)
        if same_kernels and self._matches(tracers):
            return self
        problem = self._replace(fields=self.fields if same_kernels else fields)
        problem._trace()
        if not problem._matches(tracers):
            raise InputError(
                "A residual changes from call to call. Draw random numbers once, and pass them "
                "as data."
            )
        return problem

    def _tracers(self) -> list[ResidualTracer]:
        return [
            ResidualTracer(
                c.name,
                c.residual,
                self._unknowns,
                self.frame,
                c.region.has_normals,
                {name: concrete_array(values) for name, values in c.data.items()},
                self._inputs,
            )
            for c in self.conditions
        ]

    def _matches(self, tracers: Sequence[ResidualTracer]) -> bool:
        return all(
            tracer.matches_trace(residual.terms, form)
            for tracer, residual, form in zip(tracers, self.residuals, self._forms, strict=True)
        )

    def _trace(self) -> None:
        traces = [trace_residual(tracer) for tracer in self._tracers()]
        self.residuals = tuple(residual for residual, _ in traces)
        self._forms = tuple(form for _, form in traces)

    def law_arguments(
        self, point_sets: tuple[PointSet, ...], jets: Callable[[tuple[Term, ...], Array], Array]
    ) -> dict[str, Float[Array, " n"]]:
        """Return the arguments at which the conditions evaluate each law, at all points."""
        if not self.laws:
            return {}
        recorded: dict[str, list[Array]] = {law.name: [] for law in self.laws}
        law_fields = {self.field_index(name) for name in recorded}
        for tracer, residual, point_set in zip(
            self._tracers(), self.residuals, point_sets, strict=True
        ):
            if law_fields & {term.field for term in residual.terms}:
                jet_values = jets(residual.terms, point_set.points)
                arguments = tracer.law_arguments(residual.terms, point_set, jet_values)
                for name, values in arguments.items():
                    recorded[name].append(values.reshape(-1))
        return {name: jnp.concatenate(arguments) for name, arguments in recorded.items()}

    @property
    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """Hyperparameters by field and name.

        The matrix of a mixing is under "mixing", and learned noise by condition under "noise".
        """
        parameters = {parameter.name for parameter in self.parameters}
        values = {
            field.name: hyperparameters(original_kernel(field))
            for field in self.fields
            if field.name not in parameters
        }
        noises = {c.name: c.noise_std for c in self.conditions if c.learned_noise is not None}
        if noises:
            values["noise"] = noises
        if self.mixing is not None:
            values["mixing"] = {"matrix": np.asarray(self.mixing)}
        return values

    def field_index(self, name: str) -> int:
        """Return the index of a real field."""
        names = [f.name for f in self.fields]
        if name not in names:
            complex_names = [complex_name for complex_name, *_ in self.complex_fields]
            check_name("Problem", "field", name, [*complex_names, *names])
        return names.index(name)

    def condition_index(self, name: str) -> int:
        """Return the index of a condition."""
        names = [c.name for c in self.conditions]
        check_name("Problem", "condition", name, names)
        return names.index(name)

    def by_condition(self, values: Iterable[_T]) -> dict[str, _T]:
        """Return values, one for each condition in order, by the name of the condition."""
        return dict(zip((c.name for c in self.conditions), values, strict=True))

    def row_counts(self, point_sets: Sequence[PointSet]) -> dict[str, int]:
        """Return the number of rows per equation of each condition, by its name."""
        return self.by_condition(point_set.rows_per_equation for point_set in point_sets)

    def at_points(self, point_sets: Sequence[PointSet]) -> DiscreteProblem:
        """Return the prior and the conditions at points, on which a solve depends."""
        pairs = zip(self.residuals, point_sets, strict=True)
        return DiscreteProblem(self.prior, tuple(DiscreteCondition(r, p) for r, p in pairs))

    def has_given_points(self, name: str) -> bool:
        """Return whether the points of a condition are user-supplied."""
        return self.conditions[self.condition_index(name)].num_points is not None

    def collocate(
        self,
        points: Mapping[str, int | Numbers] | None = None,
        *,
        seed: int = 0,
        sampling: str = "halton",
    ) -> tuple[PointSet, ...]:
        """Draw the points of every condition.

        The random stream of a condition depends on the seed and its name only. Adding a condition
        does not change the points of the others.

        **Arguments:**

        - `points`: number of points or array of points of each condition. Conditions on
          user-supplied points need no entry.
        - `seed`: seed of the random streams.
        - `sampling`: one of `kernelpde.geometry.METHODS`.
        """
        points = {} if points is None else points
        names = [c.name for c in self.conditions]
        advice = f"Write points={{{names[0]!r}: 300}}."
        check_mapping("solve", "points", points, names, advice=advice)
        check_integer("points", "the seed", seed, at_least=0)
        check_choice("points", "sampling", sampling, METHODS)
        return tuple(self._draw(i, points, seed, sampling) for i in range(len(names)))

    def collocate_condition(self, name: str, count: int, *, seed: int, sampling: str) -> PointSet:
        """Draw points of one condition."""
        return self._draw(self.condition_index(name), {name: count}, seed, sampling)

    def _draw(
        self, condition: int, points: Mapping[str, int | Numbers], seed: int, sampling: str
    ) -> PointSet:
        dimension = len(self.space.coordinates)
        point_set = draw_point_set(self.conditions[condition], dimension, points, seed, sampling)
        return self.append_integral_nodes(condition, point_set)

    def append_integral_nodes(self, condition: int, point_set: PointSet) -> PointSet:
        """Append the nodes of the integrals of a condition to its points."""
        if not self.residuals[condition].has_integrals:
            return point_set
        return self._tracers()[condition].append_integral_nodes(point_set)

    def __repr__(self) -> str:
        lines = [f"Problem in {', '.join(self.space.coordinates)}"]
        lines += [f"  field {f.name}: {original_kernel(f)!r}" for f in self.fields]
        lines += [f"  condition {c.name} on {c.region.name}" for c in self.conditions]
        return "\n".join(lines)


_TRACED = ("residuals", "_forms")


def _unpickle(stored: dict[str, Any]) -> Problem:
    require_float64()
    problem = object.__new__(Problem)
    problem.__dict__.update(stored)
    problem._trace()
    return problem


class _Structure:
    """Static part of a problem, equal for problems with the same conditions and fields."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self._key = tuple(map(id, problem.conditions)), tuple(f.name for f in problem.fields)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, structure: object) -> bool:
        return isinstance(structure, _Structure) and self._key == structure._key
