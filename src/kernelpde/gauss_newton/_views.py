"""Fields of a solution, to be evaluated."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Complex, Float

from kernelpde.arrays import Numbers
from kernelpde.functionals import Term

if TYPE_CHECKING:
    from kernelpde.gauss_newton._solution import Solution


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
        return self._solution.error_estimate.of(lambda other: FieldView(other, self._field)(points))

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
