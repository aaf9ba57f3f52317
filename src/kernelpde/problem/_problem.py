"""A problem: fields and the conditions that determine them."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, array
from kernelpde.checking import did_you_mean, instance, listed, one_of, shown, whole_number
from kernelpde.errors import InputError
from kernelpde.functionals import Balanced, Frame, Kernels, Mixed, Term
from kernelpde.geometry import METHODS, Averages, PointCloud
from kernelpde.kernels import AbstractKernel, all_numbers, bind_coordinates, hyperparameters
from kernelpde.precision import require_float64
from kernelpde.problem._balance import extents_of, field_exponents
from kernelpde.problem._checks import (
    check_arguments,
    check_conditions,
    common_space,
    data_arrays,
    named_inputs,
    square_mixing,
)
from kernelpde.problem._collocation import Collocation, collocated
from kernelpde.problem._condition import Condition, LearnedNoise
from kernelpde.problem._equation import Equation
from kernelpde.problem._fields import Unknown, functions_in, kernel_of, real_fields
from kernelpde.problem._inputs import Inputs
from kernelpde.problem._residual import trace_residual
from kernelpde.problem._smoothness import check_smooth


class Problem:
    """Fields and the conditions that determine them.

    **Arguments:**

    - `*conditions`: each with a different name.
    - `fields`: the unknown functions, `Field` or `ComplexField`, numbers, `Parameter`, and
      functions of the solution, `Law`.
    - `mixing`: a square matrix A with one row per real field. With it the kernels of the fields are
      those of independent functions w, and the fields are u = A w, correlated with each other; A is
      learned along with the kernels.
    - `inputs`: known values by name, for residuals that have an argument of that name: numbers,
      arrays, or pytrees of them such as a network. `solve` accepts other values without
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
        inputs: Mapping[str, Any] | None = None,
    ):
        require_float64()
        if not conditions or (isinstance(fields, Sequence) and not fields):
            raise InputError("Problem: expected at least one condition and one field.")
        check_conditions(conditions)
        flat, pairs, self.parameters, self.laws = real_fields(fields)
        for what, names in (
            ("condition", [c.name for c in conditions]),
            ("field", [*(f.name for f in flat), *(name for name, *_ in pairs)]),
        ):
            if len(set(names)) != len(names):
                raise InputError(f"Problem: every {what} needs a name of its own; got {names}.")
        self.conditions = tuple(conditions)
        self.space = common_space(conditions)
        self.frame = Frame(self.space.coordinates, self.space.spatial)
        self.complex_fields = pairs
        self.fields = tuple(replace(f, kernel=self._bound(f.kernel)) for f in flat)
        self.mixing = None if mixing is None else square_mixing(mixing, len(flat))
        if (self.parameters or self.laws) and mixing is not None:
            others = "parameters" if self.parameters else "laws"
            raise InputError(f"Problem: mixing is for fields alone; there are also {others}.")
        self.exponents: np.ndarray | Array | None = None
        self._inputs = Inputs.of(named_inputs({} if inputs is None else inputs))
        self._trace()
        check_arguments(conditions, self.fields, pairs, mixing is not None, self._inputs.names)
        check_smooth(self.fields, self.residuals, [c.region for c in conditions])

    def __copy__(self) -> "Problem":
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self):
        # What residuals are compiled to stays behind: another process traces them anew.
        kept = {name: value for name, value in self.__dict__.items() if name not in _TRACED}
        return _rebuilt, (kept,)

    def _bound(self, kernel: AbstractKernel) -> AbstractKernel:
        """A kernel that knows the domain's coordinates and periods."""
        bound, periods = bind_coordinates(kernel, self.space.coordinates), self.space.periods
        return bound if all(period is None for period in periods) else bound.periodized(periods)

    @property
    def kernels(self) -> Kernels:
        kernels = tuple(f.kernel for f in self.fields)
        if self.exponents is not None:
            return Balanced(kernels, array(self.exponents))
        return kernels if self.mixing is None else Mixed(kernels, self.mixing)

    def with_kernels(self, kernels: Kernels | Sequence[AbstractKernel]) -> "Problem":
        """The same problem with other kernels, one per real field."""
        other = copy(self)
        if isinstance(kernels, Mixed):
            other.mixing, kernels = kernels.mixing, kernels.latents
        elif isinstance(kernels, Balanced):
            other.exponents, kernels = np.asarray(kernels.exponents), kernels.latents
        if not isinstance(kernels, Sequence) or len(kernels) != len(self.fields):
            raise InputError(
                f"with_kernels: expected a list of {len(self.fields)} kernels, one for each of "
                f"{listed(f.name for f in self.fields)}; got {shown(kernels)}."
            )
        for kernel in kernels:
            expected = "a kernel such as Gaussian(0.2)"
            instance("with_kernels", "every entry", kernel, AbstractKernel, expected)
        laws = {law.name: law for law in self.laws}
        other.fields = tuple(
            replace(f, kernel=self._bound(laws[f.name].on_nodes(k) if f.name in laws else k))
            for f, k in zip(self.fields, kernels, strict=True)
        )
        return other

    def balanced(self, blocks: tuple[Collocation, ...]) -> "Problem":
        """The same problem with the sizes of its fields in proportion, see `Balanced`.

        Noise, parameters, laws, mixing and kernel variances fix the sizes of fields: with any of
        them the problem is returned unchanged.
        """
        groups = list(range(len(self.fields)))
        for _, real, imag in self.complex_fields:
            groups[imag] = groups[real]
        meant = self.mixing is not None or bool(self.parameters) or bool(self.laws)
        meant = meant or any(block.noisy for block in blocks)
        meant = meant or any("variance" in n for f in self.fields for n in all_numbers(f.kernel))
        if meant or self.exponents is not None or len(set(groups)) == 1:
            return self
        extents = extents_of(blocks, self.space.periods)
        other = copy(self)
        other.exponents = field_exponents(self.residuals, blocks, extents, groups)
        return other

    @property
    def noises(self) -> tuple[Float[Array, ""] | None, ...]:
        """For each condition the logarithm of its noise, if that is to be learned."""
        return tuple(
            array(np.log(c.noise.start)) if isinstance(c.noise, LearnedNoise) else None
            for c in self.conditions
        )

    def with_noises(self, noises: Sequence[Float[Array, ""] | None]) -> "Problem":
        """The same problem with other values for the noise to be learned."""
        other = copy(self)
        other.conditions = tuple(
            c if noise is None else replace(c, noise=LearnedNoise(float(np.exp(noise))))
            for c, noise in zip(self.conditions, noises, strict=True)
        )
        return other

    def with_present_noise(self, blocks: tuple[Collocation, ...]) -> tuple[Collocation, ...]:
        """Points with the noise that the conditions have now, where that is learned."""
        return tuple(
            eqx.tree_at(lambda b: b.noise, block, jnp.full(block.count, c.noise.start))
            if isinstance(c.noise, LearnedNoise)
            else block
            for c, block in zip(self.conditions, blocks, strict=True)
        )

    def with_conditions(self, conditions: Sequence[Condition]) -> "Problem":
        """The same fields and kernels under other conditions."""
        check_conditions(conditions)
        other = copy(self)
        other.conditions = tuple(conditions)
        other.space = common_space(conditions)
        other._trace()
        return other

    @property
    def inputs(self) -> dict[str, Any]:
        """The known values that residuals name."""
        return self._inputs.tree

    def with_inputs(self, inputs: Mapping[str, Any]) -> "Problem":
        """The same problem with other values for some of its inputs."""
        new = self._inputs.updated(inputs)
        other = copy(self)
        other._inputs = new
        if new.fits(self._inputs):
            other._attach_inputs()
        else:
            other._trace()
        return other

    def _attach_inputs(self) -> None:
        values = self._inputs.values
        self.residuals = tuple(replace(residual, inputs=values) for residual in self.residuals)

    def current(self) -> "Problem":
        """This problem with its residuals as they are now.

        A residual, or a function that is a kernel, may read a global or an attribute that has
        changed since the problem was made.
        """
        equations = self._equations()
        fields = tuple(replace(f, kernel=self._bound(f.kernel)) for f in self.fields)
        same = functions_in(fields) == functions_in(self.fields)
        if same and self._computed_by(equations):
            return self
        other = copy(self)
        other.fields = self.fields if same else fields
        other._trace()
        if not other._computed_by(equations):
            raise InputError(
                "A residual changes from call to call. Draw random numbers once, and pass them "
                "as data."
            )
        return other

    def _equations(self) -> list[Equation]:
        names = tuple(field.name for field in self.fields)
        return [
            Equation(
                c.name,
                c.residual,
                names,
                self.frame,
                c.region.has_normals,
                data_arrays(c.data),
                self.complex_fields,
                self.parameters,
                self.laws,
                self._inputs,
            )
            for c in self.conditions
        ]

    def asked(
        self, blocks: tuple[Collocation, ...], jets: Callable[[tuple[Term, ...], Array], Array]
    ) -> dict[str, Float[Array, " n"]]:
        """For each law, the arguments at which the conditions evaluate it, over all points."""
        found: dict[str, list[Array]] = {law.name: [] for law in self.laws}
        if not found:
            return {}
        numbers = {self.field_index(name) for name in found}
        for equation, residual, block in zip(
            self._equations(), self.residuals, blocks, strict=True
        ):
            if numbers & {term.field for term in residual.terms}:
                entries = jets(residual.terms, block.points)
                for name, values in equation.asked(residual.terms, block, entries).items():
                    found[name].append(values.reshape(-1))
        return {name: jnp.concatenate(each) for name, each in found.items()}

    def _computed_by(self, equations: Sequence[Equation]) -> bool:
        return all(
            equation.computes(residual.terms, form)
            for equation, residual, form in zip(equations, self.residuals, self._forms, strict=True)
        )

    def _trace(self) -> None:
        traced = [trace_residual(equation) for equation in self._equations()]
        self.residuals = tuple(residual for residual, _ in traced)
        self._forms = tuple(form for _, form in traced)

    @property
    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """Every hyperparameter by field and name; those of a mixing under "mixing", and learned
        noise by condition under "noise"."""
        numbers = {parameter.name for parameter in self.parameters}
        found = {
            f.name: hyperparameters(kernel_of(f)) for f in self.fields if f.name not in numbers
        }
        learned = {
            c.name: c.noise_level for c in self.conditions if isinstance(c.noise, LearnedNoise)
        }
        if learned:
            found["noise"] = learned
        if self.mixing is not None:
            found["mixing"] = {"matrix": np.asarray(self.mixing)}
        return found

    def field_index(self, name: str) -> int:
        """The number of a real field."""
        names = [f.name for f in self.fields]
        if name not in names:
            having = [*(name for name, *_ in self.complex_fields), *names]
            raise InputError(
                f"Unknown field {name!r}; the problem has {', '.join(having)}."
                f"{did_you_mean(name, having)}"
            )
        return names.index(name)

    def condition_index(self, name: str) -> int:
        """The number of a condition."""
        names = [c.name for c in self.conditions]
        if name not in names:
            raise InputError(
                f"Unknown condition {name!r}; the problem has {', '.join(names)}."
                f"{did_you_mean(name, names)}"
            )
        return names.index(name)

    def row_count(self, blocks: Sequence[Collocation]) -> int:
        """How many rows the linear system has: one per equation and point, or average."""
        return sum(
            block.count * len(residual.components)
            for block, residual in zip(blocks, self.residuals, strict=True)
        )

    def has_own_points(self, name: str) -> bool:
        """Whether a condition comes with its points, so that none can be drawn."""
        region = self.conditions[self.condition_index(name)].region
        return isinstance(region, PointCloud | Averages)

    def collocate(
        self,
        points: Mapping[str, int | Numbers] | None = None,
        *,
        seed: int = 0,
        sampling: str = "halton",
    ) -> tuple[Collocation, ...]:
        """Draw the points of every condition.

        Each condition draws from its own stream, made from the seed and its name: adding a
        condition leaves the points of the others as they were.

        **Arguments:**

        - `points`: for each condition a number of points or an array of points; conditions on a
          cloud need no entry.
        - `seed`: a number.
        - `sampling`: one of `kernelpde.geometry.METHODS`.
        """
        points = {} if points is None else points
        names = [c.name for c in self.conditions]
        example = {names[0]: 300}
        instance("solve", "points", points, Mapping, f"a dictionary such as {example}")
        unknown = [name for name in points if name not in names]
        if unknown:
            raise InputError(
                f"points names {listed(unknown)}, but the conditions are {listed(names)}."
                f"{did_you_mean(unknown[0], names)}"
            )
        whole_number("points", "the seed", seed, at_least=0)
        one_of("points", "sampling", sampling, METHODS)
        dimension = len(self.space.coordinates)
        return tuple(
            self.with_nodes(number, collocated(condition, dimension, points, seed, sampling))
            for number, condition in enumerate(self.conditions)
        )

    def with_nodes(self, number: int, block: Collocation) -> Collocation:
        """Points of a condition, with the nodes of its integrals."""
        if not self.residuals[number].integrates:
            return block
        return self._equations()[number].nodes(block)

    def collocated(self, name: str, count: int, *, seed: int, sampling: str) -> Collocation:
        """Draw points of one condition."""
        number = self.condition_index(name)
        condition, dimension = self.conditions[number], len(self.space.coordinates)
        block = collocated(condition, dimension, {name: count}, seed, sampling)
        return self.with_nodes(number, block)

    def __repr__(self) -> str:
        lines = [f"Problem in {', '.join(self.space.coordinates)}"]
        lines += [f"  field {f.name}: {kernel_of(f)!r}" for f in self.fields]
        lines += [f"  condition {c.name} on {c.region.name}" for c in self.conditions]
        return "\n".join(lines)


_TRACED = ("residuals", "_forms")


def _rebuilt(kept: dict[str, Any]) -> Problem:
    """A problem from what was pickled of it."""
    require_float64()
    problem = object.__new__(Problem)
    problem.__dict__.update(kept)
    problem._trace()
    return problem
