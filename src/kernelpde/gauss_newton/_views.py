"""Fields of a solution, to be evaluated."""

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from kernelpde.arrays import Numbers, array
from kernelpde.checking import numbers
from kernelpde.deprecation import renamed_arguments
from kernelpde.drawing import Panel, draw_panels, labeled
from kernelpde.functionals import Term, node_terms
from kernelpde.geometry import Box, grid_over
from kernelpde.problem import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelpde.gauss_newton._solution import Solution


_BEYOND = 0.01
"""Arguments beyond what is asked for by this part of it are extrapolation."""


class FieldView:
    """A field of a solution, to be evaluated anywhere.

    `u(points)`, `u.d("x", "x")(points)`, `u.gradient(points)`, `u.hessian(points)`,
    `u.laplacian(points)`: points have their coordinates on the last axis.
    """

    def __init__(self, solution: "Solution", field: int):
        self._solution = solution
        self._field = field

    def __call__(self, points: Numbers) -> Float[Array, "..."]:
        """Values at points."""
        return self.d()(points)

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """The estimated error at points."""
        estimate = self._solution.error_estimate
        everywhere = np.concatenate([estimate.places, estimate.edges])
        return estimate.of(
            lambda other: FieldView(other, self._field)(points),
            like=lambda other: FieldView(other, self._field)(everywhere),
        )

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Float[Array, "..."]]:
        """The partial derivative along each coordinate given, by index or name."""
        order = self._solution.problem.frame.order(*coordinates)
        return lambda points: self._entries([(order,)], points)[..., 0]

    def gradient(self, points: Numbers) -> Float[Array, "... s"]:
        """First derivatives in space, on the last axis."""
        frame = self._solution.problem.frame
        return self._entries([(frame.order(i),) for i in frame.spatial], points)

    def hessian(self, points: Numbers) -> Float[Array, "... s s"]:
        """Second derivatives in space, on the last two axes."""
        frame = self._solution.problem.frame
        size = len(frame.spatial)
        second = [(frame.order(i, j),) for i in frame.spatial for j in frame.spatial]
        entries = self._entries(second, points)
        return entries.reshape(*entries.shape[:-1], size, size)

    def laplacian(self, points: Numbers) -> Float[Array, "..."]:
        """Sum of the second derivatives in space."""
        return self._entries([self._solution.problem.frame.laplacian], points)[..., 0]

    def _entries(self, sums, points: Numbers) -> Float[Array, "... T"]:
        terms = tuple(Term(self._field, orders) for orders in sums)
        return self._solution.jets(terms, points)


class LawView(FieldView):
    """A law of a solution: `k(u)` and `k.d("u")(u)` for any values of its argument.

    All that a field has, with numbers for points: its one argument is its space.

    **Attributes:**

    - `asked`: the smallest and the largest argument for which conditions ask for it.
    """

    def __init__(self, solution: "Solution", law: Law):
        super().__init__(solution, solution.problem.field_index(law.name))
        self._law = law

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """The estimated error for some arguments."""
        everywhere = np.linspace(*self.asked, 101)
        return self._solution.error_estimate.of(
            lambda other: LawView(other, self._law)(points),
            like=lambda other: LawView(other, self._law)(everywhere),
        )

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Float[Array, "..."]]:
        """The derivative in the argument, once for each time it is named."""
        order = self._law.argument.order(*coordinates)

        def at(arguments: Numbers) -> Float[Array, "..."]:
            found = self._law.argument.basis(self.checked(arguments), order) @ self._values
            return found if order else self._law.mean + found

        return at

    def gradient(self, points: Numbers) -> Float[Array, "... s"]:
        """The slope, on a last axis of its own."""
        return self.d(0)(points)[..., None]

    def hessian(self, points: Numbers) -> Float[Array, "... s s"]:
        """The second derivative, on two last axes of its own."""
        return self.laplacian(points)[..., None, None]

    def laplacian(self, points: Numbers) -> Float[Array, "..."]:
        """The second derivative."""
        return self.d(0, 0)(points)

    @cached_property
    def _values(self) -> Float[Array, " m"]:
        dimension = len(self._solution.problem.space.coordinates)
        terms = node_terms(self._field, dimension)
        return self._solution.jets(terms, np.zeros((1, dimension)))[0]

    @cached_property
    def asked(self) -> tuple[float, float]:
        found = self._solution.asked[self._law.name]
        return float(found.min()), float(found.max())

    def checked(self, arguments: Numbers) -> Float[Array, "*n"]:
        """Arguments as an array; a warning where nothing is known but what the kernel says."""
        given = isinstance(arguments, jax.core.Tracer)
        where = jnp.asarray(arguments) if given else numbers("Law", "arguments", arguments)
        if not given and not isinstance(self._solution.code, Array) and np.size(where):
            (low, high), (least, most) = self.asked, (np.min(where), np.max(where))
            margin = _BEYOND * (high - low)
            if least < low - margin or most > high + margin:
                warnings.warn(
                    f"Law {self._law.name!r}: the conditions ask for it between {low:.4g} and "
                    f"{high:.4g}; between {least:.4g} and {most:.4g} it is extrapolated, and only "
                    "its error bars say how far.",
                    stacklevel=3,
                )
        return array(where)

    @renamed_arguments(deviation="std")
    def plot(
        self,
        *,
        reference: Callable | None = None,
        std: Callable | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Draw the law where conditions ask for it.

        **Arguments:**

        - `reference`: the true law, a function of arguments.
        - `std`: the standard deviation, likewise; `posterior["k"].plot()` knows it.
        - `units`: of the law and its argument, for the labels.
        """
        units, name = units or {}, self._law.name
        along = self._law.argument.name
        ends: dict[str, Any] = {along: self.asked}
        grid = grid_over([Box(**ends).interior], (along,), 201, {})
        where = grid.points[:, 0]
        band = None if std is None else grid.masked(1.96 * np.asarray(std(where)))
        known = None if reference is None else np.asarray(reference(where))
        panel = Panel(
            f"law {name}",
            grid.masked(np.asarray(self(where))),
            label=labeled(name, units),
            beside=None if known is None else ("reference", grid.masked(known)),
            band=band,
        )
        return draw_panels([panel], grid, units)


class ComplexView:
    """A complex field of a solution: everything a `FieldView` has, complex."""

    def __init__(self, real: FieldView, imag: FieldView):
        self.real, self.imag = real, imag

    def __call__(self, points: Numbers) -> Complex[Array, "..."]:
        """Values at points."""
        return self.real(points) + 1j * self.imag(points)

    def error(self, points: Numbers) -> Float[np.ndarray, "..."]:
        """The estimated error at points, its absolute value."""
        return np.hypot(self.real.error(points), self.imag.error(points))

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Complex[Array, "..."]]:
        """The partial derivative along each coordinate given, by index or name."""
        real, imag = self.real.d(*coordinates), self.imag.d(*coordinates)
        return lambda points: real(points) + 1j * imag(points)

    def gradient(self, points: Numbers) -> Complex[Array, "... s"]:
        """First derivatives in space, on the last axis."""
        return self.real.gradient(points) + 1j * self.imag.gradient(points)

    def hessian(self, points: Numbers) -> Complex[Array, "... s s"]:
        """Second derivatives in space, on the last two axes."""
        return self.real.hessian(points) + 1j * self.imag.hessian(points)

    def laplacian(self, points: Numbers) -> Complex[Array, "..."]:
        """Sum of the second derivatives in space."""
        return self.real.laplacian(points) + 1j * self.imag.laplacian(points)
