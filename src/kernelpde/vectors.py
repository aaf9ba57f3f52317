"""Vector fields from scalar fields: by components, as a curl, or as a gradient.

The scalar fields are the arguments of a residual, `u = kp.vectors.curl(psi)`, or the fields of a
solution, `kp.vectors.curl(solution["psi"])`. The curl of a Gaussian process is a Gaussian process
with zero divergence. Its kernel consists of second derivatives of a scalar kernel.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import format_value
from kernelpde.errors import InputError
from kernelpde.functionals import CoordinateFrame, Jet, NoArithmetic


class _SignedDerivative(NamedTuple):
    """A derivative of a scalar field, times a sign."""

    sign: float
    field: Any
    coordinates: tuple[int, ...] = ()


Component: TypeAlias = tuple[_SignedDerivative, ...]
"""One component of a vector field, as a sum."""


class VectorJet(NoArithmetic):
    """A vector field at one point, for use in a residual.

    `u.value`, `u.d("x")`, `u.laplacian` and, on a boundary, `u.normal_derivative` are vectors.
    `u.divergence` is a number. `u.curl` is a number in two dimensions and a vector in three. The
    rows of `u.jacobian` are the gradients of the components, and `u.advect(w)` is (w·∇)u.
    """

    def __init__(self, components: Sequence[Component], frame: CoordinateFrame):
        self._components, self._frame = tuple(components), frame

    def d(self, *coordinates: int | str) -> Float[Array, "... m"]:
        """Return the partial derivative along coordinates, by index or name."""
        components = [self._entry(i, *coordinates) for i in range(len(self._components))]
        return jnp.stack(components, axis=-1)

    def _entry(self, component: int, *coordinates: int | str) -> Float[Array, "..."]:
        return _sum(
            term.sign * term.field.d(*term.coordinates, *coordinates)
            for term in self._components[component]
        )

    @property
    def value(self) -> Float[Array, "... m"]:
        """Components of the field."""
        return self.d()

    @property
    def jacobian(self) -> Float[Array, "m s"]:
        """∂uᵢ/∂xⱼ."""
        return jnp.stack([self.d(i) for i in self._frame.spatial], axis=1)

    @property
    def divergence(self) -> Float[Array, "..."]:
        """∇ · u."""
        self._check_square()
        return _sum(self._entry(n, i) for n, i in enumerate(self._frame.spatial))

    @property
    def curl(self) -> Float[Array, "..."]:
        """∂v/∂x - ∂u/∂y in two dimensions, ∇ × u in three."""
        self._check_square()
        x = self._frame.spatial
        pairs = _curl_pairs(len(x))
        rotations = [self._entry(j, x[i]) - self._entry(i, x[j]) for i, j in pairs]
        return rotations[0] if len(x) == 2 else jnp.stack(rotations, axis=-1)

    def _check_square(self) -> None:
        counts = len(self._components), len(self._frame.spatial)
        if counts not in ((2, 2), (3, 3)):
            raise InputError(
                "vectors: a divergence or curl needs one component per spatial coordinate, two or "
                f"three; got {counts[0]} components and {counts[1]} coordinates."
            )

    @property
    def laplacian(self) -> Float[Array, " m"]:
        """Sum of the second derivatives in space."""
        return _sum(self.d(i, i) for i in self._frame.spatial)

    @property
    def normal_derivative(self) -> Float[Array, " m"]:
        """Derivative along the outward normal of the boundary piece."""
        normal = self._components[0][0].field._normal
        if normal is None:
            raise InputError(
                "normal_derivative: the points of this condition have no normals. Use a boundary "
                "piece, or a PointCloud with normals."
            )
        return _sum(normal[i] * self.d(i) for i in range(len(self._frame.coordinates)))

    def advect(self, direction: "VectorJet | ArrayLike") -> Float[Array, " m"]:
        """Return (w·∇)u for a vector w or a vector field w."""
        w = direction.value if isinstance(direction, VectorJet) else jnp.asarray(direction)
        return self.jacobian @ w


class _FieldAtPoints(NamedTuple):
    """A field of a solution at points, with the derivatives of a jet."""

    field: Any
    points: Numbers

    def d(self, *coordinates: int | str) -> Float[Array, "..."]:
        return self.field.d(*coordinates)(self.points)


class VectorView:
    """A vector field of a solution, with components on the last axis.

    `u(points)`, `u.d("x")(points)`, `u.divergence(points)`, `u.curl(points)`.
    """

    def __init__(self, components: Sequence[Component], frame: CoordinateFrame):
        self._components, self._frame = tuple(components), frame

    def _at(self, points: Numbers) -> VectorJet:
        components = [
            tuple(term._replace(field=_FieldAtPoints(term.field, points)) for term in component)
            for component in self._components
        ]
        return VectorJet(components, self._frame)

    def __call__(self, points: Numbers) -> Float[Array, "... m"]:
        return self._at(points).value

    def d(self, *coordinates: int | str) -> Callable[[Numbers], Float[Array, "... m"]]:
        """Return the partial derivative along coordinates, by index or name."""
        return lambda points: self._at(points).d(*coordinates)

    def divergence(self, points: Numbers) -> Float[Array, "..."]:
        """Evaluate ∇ · u."""
        return self._at(points).divergence

    def curl(self, points: Numbers) -> Float[Array, "..."]:
        """Evaluate ∂v/∂x - ∂u/∂y in two dimensions, or ∇ × u in three, on the last axis."""
        return self._at(points).curl


def vector_field(*fields: Any) -> Any:
    """Make a vector field from its components, as in `kp.vectors.vector_field(u, v)`.

    **Arguments:**

    - `fields`: arguments of a residual, or fields of a solution.
    """
    frame = _frame("vector_field", fields)
    return _build(fields, frame, [(_SignedDerivative(1.0, field),) for field in fields])


def curl(*potential: Any) -> Any:
    """Make a vector field without divergence, (ψ_y, -ψ_x) or ∇ × (a, b, c).

    **Arguments:**

    - `potential`: stream function in two dimensions, or the three components of a vector potential.
    """
    frame = _frame("curl", potential)
    x = frame.spatial
    if (len(x), len(potential)) == (2, 1):
        components = [
            (_SignedDerivative(sign, potential[0], (i,)),)
            for sign, i in ((1.0, x[1]), (-1.0, x[0]))
        ]
    elif (len(x), len(potential)) == (3, 3):
        components = [
            (
                _SignedDerivative(1.0, potential[j], (x[i],)),
                _SignedDerivative(-1.0, potential[i], (x[j],)),
            )
            for i, j in _curl_pairs(3)
        ]
    else:
        raise InputError(
            "vectors.curl: expected one stream function in two dimensions or three potentials in "
            f"three; got {len(potential)} with {len(x)} spatial coordinates."
        )
    return _build(potential, frame, components)


def gradient(potential: Any) -> Any:
    """Make a vector field without curl, the spatial gradient of a potential.

    **Arguments:**

    - `potential`: argument of a residual, or field of a solution.
    """
    frame = _frame("gradient", (potential,))
    components = [(_SignedDerivative(1.0, potential, (i,)),) for i in frame.spatial]
    return _build((potential,), frame, components)


def _build(fields: Sequence[object], frame: CoordinateFrame, components: list[Component]) -> Any:
    vector_type = VectorJet if isinstance(fields[0], Jet) else VectorView
    return vector_type(components, frame)


def _frame(caller: str, fields: Sequence[Any]) -> CoordinateFrame:
    are_jets = {isinstance(field, Jet) for field in fields}
    if len(are_jets) != 1 or not all(hasattr(type(field), "d") for field in fields):
        raise InputError(
            f"vectors.{caller}: expected fields, arguments of a residual or of a solution; got "
            f"{', '.join(format_value(field) for field in fields) or 'none'}."
        )
    return fields[0]._frame if are_jets == {True} else fields[0]._solution.problem.frame


def _sum(terms: Iterable[Array]) -> Array:
    return reduce(operator.add, terms)


def _curl_pairs(dimension: int) -> list[tuple[int, int]]:
    """Return the pair of coordinates of each component of a curl."""
    return [(0, 1)] if dimension == 2 else [(1, 2), (2, 0), (0, 1)]
