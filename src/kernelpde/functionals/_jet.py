"""The local view of a field at a point: what a residual may ask of it."""

import difflib
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from kernelpde.errors import InputError
from kernelpde.kernels import MultiIndex


class Term(NamedTuple):
    """One entry of a jet: a sum of partial derivatives of one field.

    Most entries are a single derivative. The Laplacian is one entry and not several: its parts
    share a coefficient, so that a Gram matrix has fewer products to form.

    **Attributes:**

    - `field`: the number of the field.
    - `orders`: the multi-indices γ of the derivatives that are added up; for the value of a law at
      one of its nodes, see `OnNodes`.
    """

    field: int
    orders: tuple[MultiIndex, ...]

    @property
    def parts(self) -> tuple["Term", ...]:
        """The single derivatives that are added up."""
        return tuple(Term(self.field, (order,)) for order in self.orders)

    @property
    def node(self) -> int | None:
        """The number of the node whose value it is, if it is one of a law."""
        return -1 - self.orders[0][0] if self.orders[0][0] < 0 else None

    @property
    def order(self) -> int:
        """The highest order of a derivative in it."""
        return 0 if self.node is not None else max(map(sum, self.orders))


class Frame(NamedTuple):
    """What a jet knows about the space it lives in.

    **Attributes:**

    - `coordinates`: the names of all coordinates, in order.
    - `spatial`: the indices of those over which gradient and Laplacian are taken: all but time.
    """

    coordinates: tuple[str, ...]
    spatial: tuple[int, ...]

    def order(self, *along: int | str) -> MultiIndex:
        """The multi-index of a derivative along coordinates given by index or name."""
        dimension = len(self.coordinates)
        orders = [0] * dimension
        for coordinate in along:
            if isinstance(coordinate, str):
                if coordinate not in self.coordinates:
                    raise InputError(
                        f"Unknown coordinate {coordinate!r}; the domain has "
                        f"{', '.join(map(repr, self.coordinates))}."
                    )
                coordinate = self.coordinates.index(coordinate)
            if isinstance(coordinate, bool) or not isinstance(coordinate, int | np.integer):
                raise InputError(
                    f"A coordinate is given by name or number; got {coordinate!r}. The domain has "
                    f"{', '.join(map(repr, self.coordinates))}."
                )
            if not 0 <= coordinate < dimension:
                raise InputError(
                    f"Coordinate number {coordinate} does not exist; the domain has {dimension}: "
                    f"{', '.join(map(repr, self.coordinates))}."
                )
            orders[coordinate] += 1
        return tuple(orders)

    @property
    def laplacian(self) -> tuple[MultiIndex, ...]:
        """The multi-indices whose derivatives add up to the Laplacian in space."""
        return tuple(self.order(i, i) for i in self.spatial)


def _refused(how: str):
    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(
            f"a field was {how}, but it is no number: its value at the point is u.value, its "
            "derivatives are u.d('x'), u.gradient, u.laplacian and so on."
        )

    return refuse


class NotANumber:
    """Refuses what one does with a number, for those who forget `.value`."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused("used in arithmetic")
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refused("used in arithmetic")
    __matmul__ = __rmatmul__ = __mod__ = __floordiv__ = _refused("used in arithmetic")
    __neg__ = __pos__ = __abs__ = _refused("used in arithmetic")
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refused("compared")
    __float__ = __int__ = __complex__ = __array__ = __jax_array__ = _refused("used as a number")
    __call__ = _refused("called like a function")
    __getitem__ = __iter__ = __len__ = _refused("indexed")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [n for n in dir(type(self)) if not n.startswith("_")]
        along = re.fullmatch(r"d?_?([a-z]{1,2})", name)
        if along is not None and name not in known:
            advice = f"Derivatives are u.d({', '.join(map(repr, along[1]))})."
        else:
            close = difflib.get_close_matches(name, known, 1)
            advice = f"Did you mean u.{close[0]}?" if close else ""
        raise InputError(f"a field has no {name!r}; it has {', '.join(known)}. {advice}")


class Jet(NotANumber):
    """A field at one point: its value and its derivatives, as a residual sees them.

    `u.value`, `u.d("x")`, `u.d("x", "y")`, `u.d(0, 0)`, `u.gradient`, `u.hessian`, `u.laplacian`
    and, on a boundary piece with normals, `u.normal_derivative`. In a space-time domain gradient,
    Hessian and Laplacian are those in space.
    """

    def __init__(
        self,
        field: int,
        frame: Frame,
        lookup: Callable[[Term], Array],
        normal: Float[Array, "d"] | None = None,
    ):
        self._field = field
        self._frame = frame
        self._lookup = lookup
        self._normal = normal

    def d(self, *coordinates: int | str) -> Float[Array, ""]:
        """The partial derivative along each coordinate given, by index or name."""
        return self._lookup(Term(self._field, (self._frame.order(*coordinates),)))

    @property
    def value(self) -> Float[Array, ""]:
        return self.d()

    @property
    def gradient(self) -> Float[Array, " s"]:
        """First derivatives in space."""
        return jnp.stack([self.d(i) for i in self._frame.spatial])

    @property
    def hessian(self) -> Float[Array, "s s"]:
        """Second derivatives in space."""
        spatial = self._frame.spatial
        return jnp.stack([jnp.stack([self.d(i, j) for j in spatial]) for i in spatial])

    @property
    def laplacian(self) -> Float[Array, ""]:
        """Sum of the second derivatives in space."""
        return self._lookup(Term(self._field, self._frame.laplacian))

    @property
    def normal_derivative(self) -> Float[Array, ""]:
        """Derivative along the outward normal of the boundary piece."""
        if self._normal is None:
            raise InputError(
                "normal_derivative needs normals, and the points of this condition have none. "
                "Use a boundary piece, or a PointCloud with normals."
            )
        first, *others = (self._normal[i] * self.d(i) for i in range(len(self._frame.coordinates)))
        return sum(others, start=first)


class ComplexJet(NotANumber):
    """A complex field at one point, as a residual sees it: everything a `Jet` has, complex."""

    def __init__(self, real: Jet, imaginary: Jet):
        self.real, self.imag = real, imaginary

    def d(self, *coordinates: int | str) -> Complex[Array, ""]:
        """The partial derivative along each coordinate given, by index or name."""
        return jax.lax.complex(self.real.d(*coordinates), self.imag.d(*coordinates))

    @property
    def value(self) -> Complex[Array, ""]:
        return self.d()

    @property
    def gradient(self) -> Complex[Array, " s"]:
        """First derivatives in space."""
        return jax.lax.complex(self.real.gradient, self.imag.gradient)

    @property
    def hessian(self) -> Complex[Array, "s s"]:
        """Second derivatives in space."""
        return jax.lax.complex(self.real.hessian, self.imag.hessian)

    @property
    def laplacian(self) -> Complex[Array, ""]:
        """Sum of the second derivatives in space."""
        return jax.lax.complex(self.real.laplacian, self.imag.laplacian)

    @property
    def normal_derivative(self) -> Complex[Array, ""]:
        """Derivative along the outward normal of the boundary piece."""
        return jax.lax.complex(self.real.normal_derivative, self.imag.normal_derivative)
