"""Integrals inside residuals: ∫ g(x, y, u(y)) dy as a weighted sum over quadrature nodes y.

A row of a condition with integrals is a sum over local points: the collocation point x, at which
the rest of the residual is evaluated, and the nodes of all integrals. Each local point carries its
collocation point, the index of its integral and its weight as data. Rows with integrals therefore
need no special treatment elsewhere: they are sums over points, like averages.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import product
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import concrete_array
from kernelpde.checking import check_integer, input_error
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractDomain, Patch, gauss_legendre
from kernelpde.problem._point_set import PointSet

_T = TypeVar("_T")

LOCAL = ("integral: collocation point", "integral: index", "integral: weight")
"""Names of the data of each local point. The index is 0 at the collocation point itself."""

_NODES = (32, 16, 10, 6)
"""Default number of Gauss-Legendre nodes along each coordinate of a region of one, two, three, and
four or more dimensions. Each is a term of every row, so that memory limits their product."""


def local_data(point: _T, index: _T, weight: _T) -> dict[str, _T]:
    """Return the data of local points, by name."""
    return dict(zip(LOCAL, (point, index, weight), strict=True))


class IntegralCall(NamedTuple):
    """A call of `integral` in a residual."""

    integrand: Callable
    nodes: Float[Array, "Q d"]
    weights: Float[Array, " Q"]


IntegralHandler = Callable[[IntegralCall], Any]
"""Function that returns the value of an integral in a residual."""

_HANDLER: ContextVar[IntegralHandler | None] = ContextVar("integrals", default=None)


def integral(
    integrand: Callable,
    over: AbstractDomain | Patch | tuple[Any, Any] | None = None,
    *,
    start: Any = None,
    end: Any = None,
    nodes: int | None = None,
) -> Any:
    """Integrate inside a residual: `u.value - kp.integral(lambda y, u: k(x, y) * u.value, box)`.

    The integral is over a region (Fredholm), or along the line segment between two points, which
    may depend on the point of the residual. For example,
    `kp.integral(lambda y, u: u.value, start=[0.0], end=x)` is the integral from 0 to x (Volterra).
    In one dimension a line integral is signed. Otherwise it is with respect to arc length.

    The integrand may be nonlinear in the fields. The residual must be linear in the integral, with
    a factor that does not involve fields. Otherwise introduce the integral as a separate field w,
    with the equation `w.value - kp.integral(...)`.

    **Arguments:**

    - `integrand`: function of the point of integration and, by name, of fields, as a residual.
    - `over`: a `Box` or `Ball`, a boundary piece, or user-supplied nodes `(Q, d)` and weights
      `(Q,)`.
    - `start`, `end`: end points of a line segment.
    - `nodes`: number of Gauss-Legendre nodes along each coordinate, by default 32 in one dimension,
      16 in two and 10 in three.

    **Example:**

    ```python
    >>> def fredholm(x, u):
    ...     return u.value - kp.integral(lambda y, u: x[0] * y[0] * u.value, rod) - 1.0
    >>> equation = kp.Condition("equation", rod.interior, fredholm)
    >>> integral_equation = kp.Problem(equation, fields=[kp.Field("u", kp.Gaussian(0.5))])
    >>> solution = kp.solve(integral_equation, {"equation": 20})
    >>> round(float(solution["u"]([[1.0]])[0]), 3)  # 1 + 3x/4
    1.75
    ```
    """
    handler = _HANDLER.get()
    if handler is None:
        raise InputError(
            "integral: only residuals can contain it. To integrate a solution, evaluate it at the "
            "nodes of a quadrature."
        )
    return handler(IntegralCall(integrand, *_make_quadrature(over, start, end, nodes)))


def with_integral_handler(handler: IntegralHandler, function: Callable[[], Any]) -> Any:
    """Call a function in which `integral` returns the values of a handler."""
    token = _HANDLER.set(handler)
    try:
        return function()
    finally:
        _HANDLER.reset(token)


def _make_quadrature(over: Any, start: Any, end: Any, nodes: int | None) -> tuple[Array, Array]:
    if nodes is not None:
        check_integer("integral", "nodes", nodes, at_least=1)
    num_ends = sum(point is not None for point in (start, end))
    if num_ends != (2 if over is None else 0):
        raise InputError("integral: expected either a region, or start and end of a line segment.")
    if over is None:
        return _line_quadrature(jnp.asarray(start, float), jnp.asarray(end, float), nodes)
    if not isinstance(over, tuple) or len(over) != 2:
        points, weights = quadrature(over, nodes)
        return jnp.asarray(points), jnp.asarray(weights)
    points, weights = (jnp.asarray(values, float) for values in over)
    if points.ndim != 2 or weights.shape != points.shape[:1]:
        raise InputError(
            f"integral: expected nodes of shape (Q, d) and weights of shape (Q,); got "
            f"{points.shape} and {weights.shape}."
        )
    return points, weights


def _line_quadrature(start: Array, end: Array, nodes: int | None) -> tuple[Array, Array]:
    if start.ndim != 1 or start.shape != end.shape:
        raise InputError(
            f"integral: start and end must be points with all coordinates; got shapes "
            f"{start.shape} and {end.shape}."
        )
    positions, weights = gauss_legendre(nodes or _NODES[0])
    tangent = end - start
    length = tangent[0] if len(tangent) == 1 else jnp.sqrt(jnp.sum(tangent**2))
    return start + positions[:, None] * tangent, length * weights


def quadrature(over: Any, nodes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of a product of Gauss-Legendre rules on a region."""
    region = over.interior if isinstance(over, AbstractDomain) else over
    if not isinstance(region, Patch):
        expected = "a region such as Box(x=(0, 1)) or box.side(x=0)"
        raise input_error("integral", "over", expected, over)
    if region.mask is not None or not region.smooth:
        raise InputError(
            f"integral: the region {region.name!r} has no quadrature. Pass nodes and weights: "
            "over=(nodes, weights)."
        )
    dimension = region.parameter_dim
    positions, weights = gauss_legendre(nodes or _NODES[min(dimension, len(_NODES)) - 1])
    cube = np.array(list(product(positions, repeat=dimension)))
    products = np.prod(list(product(weights, repeat=dimension)), axis=1)
    return region.chart(cube).points, region.full_measure * products


def append_nodes(
    point_set: PointSet,
    nodes: Float[Array, "N Q d"],
    weights: Float[Array, "N Q"],
    indices: np.ndarray,
) -> PointSet:
    """Append to each point of a condition the nodes of its integrals."""
    collocation_points = np.asarray(point_set.points)
    count, dimension = collocation_points.shape
    width = 1 + nodes.shape[1]

    def repeat(values: Array | np.ndarray) -> np.ndarray:
        return np.repeat(np.asarray(values), width, axis=0)

    points = np.concatenate([collocation_points[:, None], np.asarray(nodes)], axis=1)
    local = (
        repeat(collocation_points),
        np.tile(np.concatenate([[0.0], indices]), count),
        np.concatenate([np.ones((count, 1)), np.asarray(weights)], axis=1).reshape(-1),
    )
    data = {name: repeat(values) for name, values in point_set.data.items()}
    data |= local_data(*local)
    normals = point_set.normals
    return PointSet(
        concrete_array(points.reshape(-1, dimension)),
        None if normals is None else concrete_array(repeat(normals)),
        {name: concrete_array(values) for name, values in data.items()},
        point_set.noise,
        concrete_array(np.ones((count, width))),
    )


def integral_indices(calls: Sequence[IntegralCall]) -> np.ndarray:
    """Return the index of the integral of each node, counted from one."""
    return np.concatenate([np.full(len(call.weights), k + 1.0) for k, call in enumerate(calls)])
