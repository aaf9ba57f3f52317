"""Vector fields from scalar ones: by components, as a curl, as a gradient.

They are built from the arguments of a residual, `u = kp.vectors.curl(psi)`, or from the fields of a
solution, `kp.vectors.curl(solution["psi"])`. The curl of a Gaussian process is a Gaussian process
with zero divergence, whose kernel consists of second derivatives of a scalar kernel.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.checking import shown
from kernelpde.errors import InputError
from kernelpde.functionals import Frame, Jet, NotANumber


class _Part(NamedTuple):
    """A derivative of a scalar field, times a sign."""

    sign: float
    field: Any
    along: tuple[int, ...]


Component = tuple[_Part, ...]


class VectorJet(NotANumber):
    """A vector field at one point, as a residual sees it.

    `u.value`, `u.d("x")`, `u.laplacian` and, on a boundary, `u.normal_derivative` are vectors;
    `u.divergence` is a number, `u.curl` one in the plane and a vector in space, `u.jacobian` has
    components along rows, and `u.along(w)` is (w·∇)u.
    """

    def __init__(self, components: Sequence[Component], frame: Frame):
        self._components, self._frame = tuple(components), frame

    def d(self, *coordinates: int | str) -> Float[Array, " m"]:
        """The partial derivative along each coordinate given, by index or name."""
        return jnp.stack([self._entry(i, *coordinates) for i in range(len(self._components))])

    def _entry(self, component: int, *coordinates: int | str) -> Float[Array, ""]:
        return _sum(
            part.sign * part.field.d(*part.along, *coordinates)
            for part in self._components[component]
        )

    @property
    def value(self) -> Float[Array, " m"]:
        return self.d()

    @property
    def jacobian(self) -> Float[Array, "m s"]:
        """∂uᵢ/∂xⱼ."""
        return jnp.stack([self.d(i) for i in self._frame.spatial], axis=1)

    @property
    def divergence(self) -> Float[Array, ""]:
        _check_square(self._components, self._frame)
        return _sum(self._entry(n, i) for n, i in enumerate(self._frame.spatial))

    @property
    def curl(self) -> Float[Array, "..."]:
        """∂v/∂x - ∂u/∂y in the plane, ∇ × u in space."""
        _check_square(self._components, self._frame)
        spatial = self._frame.spatial
        turned = [
            self._entry(j, spatial[i]) - self._entry(i, spatial[j]) for i, j in _turns(len(spatial))
        ]
        return turned[0] if len(spatial) == 2 else jnp.stack(turned)

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
                "normal_derivative needs normals, and the points of this condition have none. "
                "Use a boundary piece, or a PointCloud with normals."
            )
        return _sum(normal[i] * self.d(i) for i in range(len(self._frame.coordinates)))

    def along(self, direction: Any) -> Float[Array, " m"]:
        """(w·∇)u for a vector w, or for a vector field its value."""
        w = direction.value if isinstance(direction, VectorJet) else jnp.asarray(direction)
        return self.jacobian @ w


class VectorView:
    """A vector field of a solution, to be evaluated anywhere: components on the last axis.

    `u(points)`, `u.d("x")(points)`, `u.divergence(points)`, `u.curl(points)`.
    """

    def __init__(self, components: Sequence[Component], frame: Frame):
        self._components, self._frame = tuple(components), frame

    def __call__(self, points: Any) -> Float[Array, "... m"]:
        return self.d()(points)

    def d(self, *coordinates: int | str) -> Callable[[Any], Float[Array, "... m"]]:
        """The partial derivative along each coordinate given, by index or name."""
        return lambda points: jnp.stack(
            [self._entry(i, points, *coordinates) for i in range(len(self._components))], axis=-1
        )

    def _entry(self, component: int, points: Any, *coordinates: int | str) -> Array:
        return _sum(
            part.sign * part.field.d(*part.along, *coordinates)(points)
            for part in self._components[component]
        )

    def divergence(self, points: Any) -> Float[Array, "..."]:
        _check_square(self._components, self._frame)
        return _sum(self._entry(n, points, i) for n, i in enumerate(self._frame.spatial))

    def curl(self, points: Any) -> Float[Array, "..."]:
        """∂v/∂x - ∂u/∂y in the plane, ∇ × u in space, on the last axis."""
        _check_square(self._components, self._frame)
        spatial = self._frame.spatial
        turned = [
            self._entry(j, points, spatial[i]) - self._entry(i, points, spatial[j])
            for i, j in _turns(len(spatial))
        ]
        return turned[0] if len(spatial) == 2 else jnp.stack(turned, axis=-1)


def of(*fields: Any) -> Any:
    """A vector field from its components: `kp.vectors.of(u, v)`.

    **Arguments:**

    - `fields`: what a residual is given, or fields of a solution.
    """
    return _made("of", fields, [(_Part(1.0, field, ()),) for field in fields])


def curl(*potential: Any) -> Any:
    """A vector field without divergence: (ψ_y, -ψ_x) in the plane, ∇ × (a, b, c) in space.

    **Arguments:**

    - `potential`: a stream function, or the three components of a vector potential.
    """
    frame = _frame("curl", potential)
    x = frame.spatial
    if (len(x), len(potential)) == (2, 1):
        (psi,) = potential
        components = [(_Part(1.0, psi, (x[1],)),), (_Part(-1.0, psi, (x[0],)),)]
    elif (len(x), len(potential)) == (3, 3):
        components = [
            (_Part(1.0, potential[j], (x[i],)), _Part(-1.0, potential[i], (x[j],)))
            for i, j in _turns(3)
        ]
    else:
        raise InputError(
            "curl: expected one stream function in the plane or three potentials in space; got "
            f"{len(potential)} with {len(x)} coordinates in space."
        )
    return _made("curl", potential, components)


def gradient(potential: Any) -> Any:
    """A vector field without curl: the derivatives of a potential in space.

    **Arguments:**

    - `potential`: what a residual is given, or a field of a solution.
    """
    spatial = _frame("gradient", (potential,)).spatial
    return _made("gradient", (potential,), [(_Part(1.0, potential, (i,)),) for i in spatial])


def _made(owner: str, fields: Sequence[Any], components: Sequence[Component]) -> Any:
    frame = _frame(owner, fields)
    made = VectorJet if isinstance(fields[0], Jet) else VectorView
    return made(components, frame)


def _frame(owner: str, fields: Sequence[Any]) -> Frame:
    kinds = {isinstance(field, Jet) for field in fields}
    if len(kinds) != 1 or not all(hasattr(type(field), "d") for field in fields):
        raise InputError(
            f"vectors.{owner}: expected fields, as a residual is given them or of a solution; got "
            f"{', '.join(shown(field) for field in fields) or 'none'}."
        )
    if kinds == {True}:
        return fields[0]._frame
    return fields[0]._solution.problem.frame


def _sum(parts: Iterable[Array]) -> Array:
    return reduce(operator.add, parts)


def _turns(dimension: int) -> list[tuple[int, int]]:
    """Pairs of coordinates of the components of a curl."""
    return [(0, 1)] if dimension == 2 else [(1, 2), (2, 0), (0, 1)]


def _check_square(components: Sequence[Component], frame: Frame) -> None:
    if len(components) != len(frame.spatial) or len(components) not in (2, 3):
        raise InputError(
            f"A divergence or curl needs as many components as coordinates in space, two or three; "
            f"got {len(components)} and {len(frame.spatial)}."
        )
