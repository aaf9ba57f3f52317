"""Laws: unknown functions of the solution, such as k(u), as arguments of residuals.

A law is the polynomial that interpolates its values at Chebyshev nodes. These values have the
covariance of its kernel. A residual that calls a law is a nonlinear function of jet values and of
nodal values. Its covariances agree with the kernel up to 0.5% for
lengthscales of a tenth of the range, and up to 1e-7 for a fifth.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.polynomial import chebyshev

from kernelpde.errors import InputError
from kernelpde.functionals._jet import NoArithmetic, Term

_NODES = 24
"""Number of nodes, sufficient for lengthscales of a tenth of the range."""

_MARGIN = 0.1
"""Extension of the node range beyond either end of the range, relative to its length."""


class LawArgument(NamedTuple):
    """The argument of a law.

    **Attributes:**

    - `name`: name of the argument.
    - `lower`, `upper`: range of the argument.
    """

    name: str
    lower: float
    upper: float

    @property
    def node_range(self) -> tuple[float, float]:
        """Bounds of the nodes. Laws are extrapolated linearly."""
        margin = _MARGIN * (self.upper - self.lower)
        return self.lower - margin, self.upper + margin

    @property
    def nodes(self) -> Float[np.ndarray, " m"]:
        low, high = self.node_range
        return (low + high) / 2 + (high - low) / 2 * chebyshev.chebpts1(_NODES)

    def contains(self, arguments: Float[Array, " n"]) -> Bool[Array, ""]:
        """Return whether all arguments are in the node range."""
        low, high = self.node_range
        return ((low <= arguments) & (arguments <= high)).all()

    def order(self, *coordinates: int | str) -> int:
        """Return the order of a derivative."""
        for name in coordinates:
            if name not in (self.name, 0):
                raise InputError(
                    f"Unknown argument {name!r}; this law is a function of {self.name!r}. Write "
                    f".d({self.name!r}) for its derivative."
                )
        return len(coordinates)

    def basis(self, at: Float[Array, "*n"], order: int = 0) -> Float[Array, "*n m"]:
        """Return the matrix from nodal values to values or derivatives of the law."""
        low, high = self.node_range
        reference = (2.0 * at - (low + high)) / (high - low)
        clipped = jnp.clip(reference, -1.0, 1.0)
        polynomials = [jnp.ones_like(clipped), clipped]
        for _ in range(_NODES - 2):
            polynomials.append(2.0 * clipped * polynomials[-1] - polynomials[-2])
        stacked, scale = jnp.stack(polynomials, axis=-1), 2.0 / (high - low)
        value, slope = (
            scale**order * (stacked @ _chebyshev_derivative(n)) for n in (order, order + 1)
        )
        return value + (reference - clipped)[..., None] * slope


def _chebyshev_derivative(order: int) -> Float[np.ndarray, "m m"]:
    """Return the matrix from nodal values to Chebyshev coefficients of a derivative."""
    points = chebyshev.chebpts1(_NODES)
    inverse = 2.0 / _NODES * chebyshev.chebvander(points, _NODES - 1).T
    inverse[0] /= 2.0
    if order == 0:
        return inverse
    derivative = np.zeros_like(inverse)
    if order < _NODES:
        derivative[: _NODES - order] = chebyshev.chebder(inverse, order, axis=0)
    return derivative


class LawJet(NoArithmetic):
    """An unknown law. Residuals call it with the value of its argument: `k(u.value)`."""

    def __init__(
        self,
        argument: LawArgument,
        mean: float,
        values: Callable[[], Float[Array, " m"]],
        on_call: Callable[[Array], None] | None = None,
    ):
        self._argument, self._mean, self._values, self._asked = argument, mean, values, on_call

    def __call__(self, at: Any) -> "LawValue":
        """Evaluate the law at a number."""
        if isinstance(at, NoArithmetic):
            raise InputError("a law must be called with a number: k(u.value), not k(u).")
        if jnp.shape(at) != ():
            raise InputError(f"a law must be called with one number; got shape {jnp.shape(at)}.")
        at = jnp.asarray(at, float)
        if self._asked is not None:
            self._asked(at)
        return LawValue(self._argument, self._mean, self._values, at)

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise InputError(
            f"a law has no {name!r} before it is called. Write k(u.value).value, or "
            f"k(u.value).d({self._argument.name!r}) for its derivative."
        )


class LawValue(NoArithmetic):
    """The value of a law and its derivatives `.d("u")` at one value of its argument."""

    def __init__(self, argument: LawArgument, mean: float, values: Callable, at: Float[Array, ""]):
        self._argument, self._mean, self._values, self._at = argument, mean, values, at

    def d(self, *coordinates: int | str) -> Float[Array, ""]:
        """Return a derivative, of the order in which the argument is repeated."""
        order = self._argument.order(*coordinates)
        derivative = self._argument.basis(self._at, order) @ self._values()
        return derivative if order else self._mean + derivative

    @property
    def value(self) -> Float[Array, ""]:
        return self.d()


def nodal_terms(field: int, dimension: int, count: int = _NODES) -> tuple[Term, ...]:
    """Return the terms of the nodal values of a law."""
    zeros = (0,) * (dimension - 1)
    return tuple(Term(field, ((-1 - node, *zeros),)) for node in range(count))
