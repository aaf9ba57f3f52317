"""Jets: the value and the derivatives of a field at a point, as arguments of residuals."""

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

    Most terms are a single derivative. The Laplacian is one term, because its derivatives share a
    coefficient and a Gram matrix then has fewer products.

    **Attributes:**

    - `field`: index of the field.
    - `orders`: multi-indices γ of the derivatives, or the nodal value of a law (`NodalKernel`).
    """

    field: int
    orders: tuple[MultiIndex, ...]

    @property
    def derivatives(self) -> tuple["Term", ...]:
        """One term per derivative."""
        return tuple(Term(self.field, (order,)) for order in self.orders)

    @property
    def node_index(self) -> int | None:
        """Index of the node for nodal values of a law, otherwise `None`."""
        return -1 - self.orders[0][0] if self.orders[0][0] < 0 else None

    @property
    def order(self) -> int:
        """Maximum order of the derivatives."""
        return 0 if self.node_index is not None else max(map(sum, self.orders))


class CoordinateFrame(NamedTuple):
    """Coordinates of the domain of a jet.

    **Attributes:**

    - `coordinates`: names of all coordinates.
    - `spatial`: indices of all coordinates except time.
    """

    coordinates: tuple[str, ...]
    spatial: tuple[int, ...]

    def multi_index(self, *coordinates: int | str) -> MultiIndex:
        """Return the multi-index of a derivative in coordinates given by index or name."""
        dimension = len(self.coordinates)
        orders = [0] * dimension
        names = ", ".join(map(repr, self.coordinates))
        for coordinate in coordinates:
            if isinstance(coordinate, str):
                if coordinate not in self.coordinates:
                    raise InputError(f"Unknown coordinate {coordinate!r}; the domain has {names}.")
                coordinate = self.coordinates.index(coordinate)
            if isinstance(coordinate, bool) or not isinstance(coordinate, int | np.integer):
                raise InputError(
                    f"A coordinate must be a name or an index; got {coordinate!r}. The domain has "
                    f"{names}."
                )
            if not 0 <= coordinate < dimension:
                raise InputError(
                    f"Coordinate index {coordinate} is out of range; the domain has {dimension} "
                    f"coordinates: {names}."
                )
            orders[coordinate] += 1
        return tuple(orders)

    @property
    def laplacian(self) -> tuple[MultiIndex, ...]:
        """Multi-indices of the derivatives in the Laplacian."""
        return tuple(self.multi_index(i, i) for i in self.spatial)


def _raise_no_arithmetic(usage: str):
    def raise_error(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(
            f"a field was {usage}, but it is no number. Use its value u.value, or its derivatives "
            "u.d('x'), u.gradient and u.laplacian."
        )

    return raise_error


class NoArithmetic:
    """Base class that raises an error if `.value` is missing in an expression."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _raise_no_arithmetic(
        "used in arithmetic"
    )
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _raise_no_arithmetic("used in arithmetic")
    __matmul__ = __rmatmul__ = __mod__ = __floordiv__ = _raise_no_arithmetic("used in arithmetic")
    __neg__ = __pos__ = __abs__ = _raise_no_arithmetic("used in arithmetic")
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _raise_no_arithmetic("compared")
    __float__ = __int__ = __complex__ = __array__ = __jax_array__ = _raise_no_arithmetic(
        "used as a number"
    )
    __call__ = _raise_no_arithmetic("called like a function")
    __getitem__ = __iter__ = __len__ = _raise_no_arithmetic("indexed")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        names = [n for n in dir(type(self)) if not n.startswith("_")]
        derivative = re.fullmatch(r"d?_?([a-z]{1,2})", name)
        if derivative is not None and name not in names:
            advice = f"Derivatives are u.d({', '.join(map(repr, derivative[1]))})."
        else:
            matches = difflib.get_close_matches(name, names, 1)
            advice = f"Did you mean u.{matches[0]}?" if matches else ""
        raise InputError(f"a field has no {name!r}; it has {', '.join(names)}. {advice}")


class Jet(NoArithmetic):
    """The value and the derivatives of a field at one point, as an argument of residuals.

    Available are `u.value`, `u.d("x")`, `u.d("x", "y")`, `u.d(0, 0)`, `u.gradient`, `u.hessian`,
    `u.laplacian` and, on boundaries with normals, `u.normal_derivative`. In a space-time domain,
    gradient, Hessian and Laplacian are spatial.
    """

    def __init__(
        self,
        field: int,
        frame: CoordinateFrame,
        lookup: Callable[[Term], Array],
        normal: Float[Array, "d"] | None = None,
    ):
        self._field = field
        self._frame = frame
        self._lookup = lookup
        self._normal = normal

    def d(self, *coordinates: int | str) -> Float[Array, ""]:
        """Return the partial derivative in the given coordinates, by index or name."""
        return self._lookup(Term(self._field, (self._frame.multi_index(*coordinates),)))

    @property
    def value(self) -> Float[Array, ""]:
        return self.d()

    @property
    def gradient(self) -> Float[Array, " s"]:
        """First spatial derivatives."""
        return jnp.stack([self.d(i) for i in self._frame.spatial])

    @property
    def hessian(self) -> Float[Array, "s s"]:
        """Second spatial derivatives."""
        spatial = self._frame.spatial
        return jnp.stack([jnp.stack([self.d(i, j) for j in spatial]) for i in spatial])

    @property
    def laplacian(self) -> Float[Array, ""]:
        """Spatial Laplacian."""
        return self._lookup(Term(self._field, self._frame.laplacian))

    @property
    def normal_derivative(self) -> Float[Array, ""]:
        """Derivative along the outward normal of the boundary piece."""
        if self._normal is None:
            raise InputError(
                "normal_derivative requires normals, but the points of this condition have none. "
                "Use a boundary piece, or a PointCloud with normals."
            )
        terms = [self._normal[i] * self.d(i) for i in range(len(self._frame.coordinates))]
        return sum(terms[1:], start=terms[0])


class ComplexJet(NoArithmetic):
    """The value and the derivatives of a complex field at one point, with the names of `Jet`."""

    def __init__(self, real: Jet, imaginary: Jet):
        self.real, self.imag = real, imaginary

    def d(self, *coordinates: int | str) -> Complex[Array, ""]:
        """Return the partial derivative in the given coordinates, by index or name."""
        return jax.lax.complex(self.real.d(*coordinates), self.imag.d(*coordinates))

    @property
    def value(self) -> Complex[Array, ""]:
        return self.d()

    @property
    def gradient(self) -> Complex[Array, " s"]:
        """First spatial derivatives."""
        return jax.lax.complex(self.real.gradient, self.imag.gradient)

    @property
    def hessian(self) -> Complex[Array, "s s"]:
        """Second spatial derivatives."""
        return jax.lax.complex(self.real.hessian, self.imag.hessian)

    @property
    def laplacian(self) -> Complex[Array, ""]:
        """Spatial Laplacian."""
        return jax.lax.complex(self.real.laplacian, self.imag.laplacian)

    @property
    def normal_derivative(self) -> Complex[Array, ""]:
        """Derivative along the outward normal of the boundary piece."""
        return jax.lax.complex(self.real.normal_derivative, self.imag.normal_derivative)
