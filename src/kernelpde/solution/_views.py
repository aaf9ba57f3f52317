"""Fields and laws of a solution as functions."""

import abc
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from kernelpde.arrays import Numbers, is_tracer, on_host, to_array
from kernelpde.checking import to_float_array
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.functionals import Term, nodal_terms
from kernelpde.geometry import Box, make_grid
from kernelpde.plotting import BAND_WIDTH, Panel, draw_panels, label_with_unit
from kernelpde.problem import Law, Problem
from kernelpde.solution._error import AbstractErrorEstimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EXTRAPOLATION_TOLERANCE = 0.01
"""Fraction of the used range of a law by which an argument may leave it without a warning."""


class FieldSource(abc.ABC):
    """Base class of solutions, with the members that fields and laws use.

    It is no protocol, since runtime checks of protocols compute cached properties.
    """

    problem: Problem

    @abc.abstractmethod
    def evaluate_jets(self, terms: tuple[Term, ...], points: Numbers) -> Array: ...

    @cached_property
    def law_arguments(self) -> dict[str, Array]:
        raise NotImplementedError

    @cached_property
    def error_estimate(self) -> AbstractErrorEstimate:
        raise NotImplementedError

    def __getitem__(self, field: str) -> "FieldView | ComplexView":
        if field in [parameter.name for parameter in self.problem.parameters]:
            raise InputError(
                f"Solution: {field!r} is a parameter, not a field. Use parameters[{field!r}]."
            )
        for name, real, imag in self.problem.complex_fields:
            if name == field:
                return ComplexView(FieldView(self, real), FieldView(self, imag))
        for law in self.problem.laws:
            if law.name == field:
                return LawView(self, law)
        return FieldView(self, self.problem.field_index(field))


class FieldView:
    """A field of a solution as a function of points.

    `u(points)`, `u.d("x", "x")(points)`, `u.gradient(points)`, `u.hessian(points)`,
    `u.laplacian(points)`: points have their coordinates on the last axis.
    """

    def __init__(self, solution: FieldSource, field: int):
        self._solution = solution
        self._field = field

    def __call__(self, points: Numbers) -> Float[Array, "..."]:
        """Return the values at points."""
        return self.d()(points)

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """Return the estimated error at points."""
        estimate = self._solution.error_estimate
        return estimate.of_quantity(
            lambda solution: FieldView(solution, self._field)(points),
            reference_quantity=lambda solution: FieldView(solution, self._field)(estimate.points),
        )

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Float[Array, "..."]]:
        """Return the partial derivative along coordinates, given by index or name."""
        order = self._solution.problem.frame.multi_index(*coordinates)
        return lambda points: self._first_value([(order,)], points)

    def gradient(self, points: Numbers) -> Float[Array, "... s"]:
        """Return the first derivatives in space, on the last axis."""
        frame = self._solution.problem.frame
        return self._jet_values([(frame.multi_index(i),) for i in frame.spatial], points)

    def hessian(self, points: Numbers) -> Float[Array, "... s s"]:
        """Return the second derivatives in space, on the last two axes."""
        frame = self._solution.problem.frame
        size = len(frame.spatial)
        orders = [(frame.multi_index(i, j),) for i in frame.spatial for j in frame.spatial]
        values = self._jet_values(orders, points)
        return values.reshape(*values.shape[:-1], size, size)

    def laplacian(self, points: Numbers) -> Float[Array, "..."]:
        """Return the sum of the second derivatives in space."""
        return self._first_value([self._solution.problem.frame.laplacian], points)

    def _first_value(self, sums, points: Numbers) -> Float[Array, "..."]:
        return on_host(lambda values: values[..., 0], self._jet_values(sums, points))

    def _jet_values(self, sums, points: Numbers) -> Float[Array, "... T"]:
        terms = tuple(Term(self._field, orders) for orders in sums)
        return self._solution.evaluate_jets(terms, points)


class LawView(FieldView):
    """A law of a solution as a function of its argument: `k(u)` and `k.d("u")(u)`.

    It has the methods of a field, with values of the argument instead of points.

    **Attributes:**

    - `range_used`: smallest and largest argument at which the conditions evaluate the law.
    """

    def __init__(self, solution: FieldSource, law: Law):
        super().__init__(solution, solution.problem.field_index(law.name))
        self._law = law

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """Return the estimated error at arguments."""
        arguments = np.linspace(*self.range_used, 101)
        return self._solution.error_estimate.of_quantity(
            lambda solution: LawView(solution, self._law)(points),
            reference_quantity=lambda solution: LawView(solution, self._law)(arguments),
        )

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Float[Array, "..."]]:
        """Return the derivative, of as high an order as the argument is repeated."""
        order = self._law.argument.order(*coordinates)

        def derivative(arguments: Numbers) -> Float[Array, "..."]:
            basis = self._law.argument.basis(self.check_range(arguments), order)
            values = basis @ self._nodal_values
            return values if order else self._law.mean + values

        return derivative

    def gradient(self, points: Numbers) -> Float[Array, "... s"]:
        """Return the first derivative, with an additional last axis."""
        return self.d(0)(points)[..., None]

    def hessian(self, points: Numbers) -> Float[Array, "... s s"]:
        """Return the second derivative, with two additional last axes."""
        return self.laplacian(points)[..., None, None]

    def laplacian(self, points: Numbers) -> Float[Array, "..."]:
        """Return the second derivative."""
        return self.d(0, 0)(points)

    @cached_property
    def _nodal_values(self) -> Float[Array, " m"]:
        dimension = len(self._solution.problem.space.coordinates)
        terms = nodal_terms(self._field, dimension)
        return self._solution.evaluate_jets(terms, np.zeros((1, dimension)))[0]

    @cached_property
    def range_used(self) -> tuple[float, float]:
        arguments = self._solution.law_arguments[self._law.name]
        return float(arguments.min()), float(arguments.max())

    def check_range(self, arguments: Numbers) -> Float[Array, "*n"]:
        """Return arguments as an array; warn if some are extrapolated."""
        if is_tracer(arguments):
            return jnp.asarray(arguments)
        values = to_float_array("Law", "arguments", arguments)
        if values.size and not is_traced(self._solution):
            (low, high), (smallest, largest) = self.range_used, (np.min(values), np.max(values))
            margin = _EXTRAPOLATION_TOLERANCE * (high - low)
            if smallest < low - margin or largest > high + margin:
                warnings.warn(
                    f"Law {self._law.name!r}: evaluated on [{smallest:.4g}, {largest:.4g}], but "
                    f"the conditions constrain it only on [{low:.4g}, {high:.4g}]. Values outside "
                    "are extrapolated from the prior; check their standard deviation.",
                    stacklevel=3,
                )
        return to_array(values)

    def plot(
        self,
        *,
        reference: Callable | None = None,
        std: Callable | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Plot the law over the range that the conditions use.

        **Arguments:**

        - `reference`: known law, a function of arguments.
        - `std`: standard deviation, a function of arguments; `posterior["k"].plot()` passes it.
        - `units`: units of the law and of its argument, for the labels.
        """
        units, name = units or {}, self._law.name
        argument = self._law.argument.name
        bounds: dict[str, Any] = {argument: self.range_used}
        grid = make_grid([Box(**bounds).interior], (argument,), 201, {})
        arguments = grid.points[:, 0]

        def on_grid(function: Callable) -> np.ndarray:
            return grid.to_grid(np.asarray(function(arguments)))

        panel = Panel(
            f"law {name}",
            on_grid(self),
            label=label_with_unit(name, units),
            overlay=None if reference is None else ("reference", on_grid(reference)),
            band=None if std is None else BAND_WIDTH * on_grid(std),
        )
        return draw_panels([panel], grid, units)


def _to_complex(real: Float[Array, "..."], imag: Float[Array, "..."]) -> Complex[Array, "..."]:
    return on_host(lambda x, y: x + 1j * y, real, imag)


class ComplexView:
    """A complex field of a solution, with the methods of `FieldView`."""

    def __init__(self, real: FieldView, imag: FieldView):
        self.real, self.imag = real, imag

    def __call__(self, points: Numbers) -> Complex[Array, "..."]:
        """Return the values at points."""
        return _to_complex(self.real(points), self.imag(points))

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """Return the absolute value of the estimated error at points."""
        return np.hypot(self.real.error(points), self.imag.error(points))

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Complex[Array, "..."]]:
        """Return the partial derivative along coordinates, given by index or name."""
        real, imag = self.real.d(*coordinates), self.imag.d(*coordinates)
        return lambda points: _to_complex(real(points), imag(points))

    def gradient(self, points: Numbers) -> Complex[Array, "... s"]:
        """Return the first derivatives in space, on the last axis."""
        return on_host(
            lambda a, b: a + 1j * b, self.real.gradient(points), self.imag.gradient(points)
        )

    def hessian(self, points: Numbers) -> Complex[Array, "... s s"]:
        """Return the second derivatives in space, on the last two axes."""
        return on_host(
            lambda a, b: a + 1j * b, self.real.hessian(points), self.imag.hessian(points)
        )

    def laplacian(self, points: Numbers) -> Complex[Array, "..."]:
        """Return the sum of the second derivatives in space."""
        return on_host(
            lambda a, b: a + 1j * b, self.real.laplacian(points), self.imag.laplacian(points)
        )
