"""Functions of the solution: what a residual may ask of an unknown law such as k(u).

A law is a polynomial through its values at Chebyshev nodes of its argument, and these values have
the covariance of its kernel. So a residual that calls a law is a function of entries of the
solution and of as many numbers as there are nodes, nonlinear in both, and everything that is done
with residuals is done with it. Covariances of the polynomial are those of the kernel up to 0.5% for
lengthscales of a tenth of the range, and up to 1e-7 for a fifth.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.polynomial import chebyshev

from kernelpde.errors import InputError
from kernelpde.functionals._jet import NotANumber, Term

_NODES = 24
"""Number of nodes: enough for lengthscales of a tenth of the range."""

_MARGIN = 0.1
"""Nodes reach beyond the range by this part of it, on either side."""


class Argument(NamedTuple):
    """What a law is a function of.

    **Attributes:**

    - `name`: of the argument.
    - `lower`, `upper`: the range in which the law is asked for.
    """

    name: str
    lower: float
    upper: float

    @property
    def reach(self) -> tuple[float, float]:
        """How far the nodes reach. Beyond, laws go on as straight lines."""
        margin = _MARGIN * (self.upper - self.lower)
        return self.lower - margin, self.upper + margin

    @property
    def nodes(self) -> Float[np.ndarray, " m"]:
        low, high = self.reach
        return (low + high) / 2 + (high - low) / 2 * chebyshev.chebpts1(_NODES)

    def holds(self, arguments: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether all arguments are within reach."""
        low, high = self.reach
        return ((low <= arguments) & (arguments <= high)).all()

    def order(self, *along: int | str) -> int:
        """How often to differentiate."""
        for name in along:
            if name not in (self.name, 0):
                raise InputError(
                    f"Unknown argument {name!r}; this law is a function of {self.name!r}: "
                    f".d({self.name!r}) is its slope."
                )
        return len(along)

    def basis(self, at: Float[Array, "*n"], order: int = 0) -> Float[Array, "*n m"]:
        """What values at nodes are multiplied by to give the law, or a derivative, elsewhere."""
        low, high = self.reach
        far = (2.0 * at - (low + high)) / (high - low)
        inside = jnp.clip(far, -1.0, 1.0)
        powers = [jnp.ones_like(inside), inside]
        for _ in range(_NODES - 2):
            powers.append(2.0 * inside * powers[-1] - powers[-2])
        stacked, scale = jnp.stack(powers, axis=-1), 2.0 / (high - low)
        here, slope = (scale**order * (stacked @ _through(n)) for n in (order, order + 1))
        return here + (far - inside)[..., None] * slope


def _through(order: int) -> Float[np.ndarray, "m m"]:
    """Chebyshev coefficients of a derivative of the polynomial through each node."""
    points = chebyshev.chebpts1(_NODES)
    inverse = 2.0 / _NODES * chebyshev.chebvander(points, _NODES - 1).T
    inverse[0] /= 2.0
    if order == 0:
        return inverse
    found = np.zeros_like(inverse)
    if order < _NODES:
        found[: _NODES - order] = chebyshev.chebder(inverse, order, axis=0)
    return found


class LawJet(NotANumber):
    """An unknown law, to be called with what it is a function of: `k(u.value)`."""

    def __init__(
        self,
        argument: Argument,
        mean: float,
        values: Callable[[], Float[Array, " m"]],
        asked: Callable[[Array], None] | None = None,
    ):
        self._argument, self._mean, self._values, self._asked = argument, mean, values, asked

    def __call__(self, at: Any) -> "LawThere":
        """The law for one value of its argument, a number."""
        if isinstance(at, NotANumber):
            raise InputError("a law is called with a number: k(u.value), not k(u).")
        if jnp.shape(at) != ():
            raise InputError(f"a law is called with one number; got shape {jnp.shape(at)}.")
        at = jnp.asarray(at, float)
        if self._asked is not None:
            self._asked(at)
        return LawThere(self._argument, self._mean, self._values, at)

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise InputError(
            f"a law has no {name!r} before it is called: k(u.value).value, and its slope "
            f"k(u.value).d({self._argument.name!r})."
        )


class LawThere(NotANumber):
    """A law at one value of its argument: `.value`, and derivatives `.d("u")`."""

    def __init__(self, argument: Argument, mean: float, values: Callable, at: Float[Array, ""]):
        self._argument, self._mean, self._values, self._at = argument, mean, values, at

    def d(self, *along: int | str) -> Float[Array, ""]:
        """The derivative in the argument, once for each time it is named."""
        order = self._argument.order(*along)
        found = self._argument.basis(self._at, order) @ self._values()
        return found if order else self._mean + found

    @property
    def value(self) -> Float[Array, ""]:
        return self.d()


def node_terms(field: int, dimension: int, count: int = _NODES) -> tuple[Term, ...]:
    """The entries that stand for the values of a law at its nodes."""
    rest = (0,) * (dimension - 1)
    return tuple(Term(field, ((-1 - node, *rest),)) for node in range(count))
