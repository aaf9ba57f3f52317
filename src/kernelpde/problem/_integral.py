"""Integrals inside residuals: ∫ g(x, y, u(y)) dy as a sum over nodes y, each with a weight.

A row of a condition with integrals is a sum over local points: its own point x, where the rest of
the residual is taken, and the nodes of all integrals. To which of these a local point belongs, the
own point and the weight come with it as data, so that everything that is done with sums over points
is done with integrals too.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import product
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import known
from kernelpde.checking import shown, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractDomain, Patch, gauss
from kernelpde.problem._collocation import Collocation

LOCAL = ("integral: own point", "integral: part", "integral: weight")
"""Names of what comes with each local point."""

_NODES = {1: 32, 2: 16, 3: 10}
"""Nodes of Gauss-Legendre quadrature along each coordinate of a region, by its dimension."""


class Call(NamedTuple):
    """An integral that a residual asks for."""

    integrand: Callable
    nodes: Float[Array, "Q d"]
    weights: Float[Array, " Q"]


Answer = Callable[[Call], Any]
"""What a residual is told when it asks for an integral."""

_ANSWER: ContextVar[Answer | None] = ContextVar("integrals", default=None)


def integral(
    integrand: Callable,
    over: AbstractDomain | Patch | tuple[Any, Any] | None = None,
    *,
    start: Any = None,
    end: Any = None,
    nodes: int | None = None,
) -> Any:
    """An integral inside a residual: `u.value - kp.integral(lambda y, u: k(x, y) * u.value, box)`.

    Over a region (Fredholm), or along the straight line between two points, which may depend on
    the point of the residual: `kp.integral(lambda y, u: u.value, start=[0.0], end=x)` is the
    integral from 0 to x (Volterra). In one dimension a line integral is signed; otherwise it is
    taken with respect to arc length.

    The integrand may be nonlinear in the fields. The residual must be linear in the integral, with
    a factor that does not involve fields; otherwise introduce the integral as a separate field w,
    with the equation `w.value - kp.integral(...)`.

    **Arguments:**

    - `integrand`: takes the point of integration and then fields by name, as a residual does.
    - `over`: a `Box` or `Ball`, a piece of a boundary, or nodes `(Q, d)` and weights `(Q,)` of a
      quadrature of your own.
    - `start`, `end`: of a line.
    - `nodes`: of Gauss-Legendre quadrature, along each coordinate; 32 in one dimension, 16 in two
      and 10 in three by default.

    **Example:**

    ```python
    >>> def fredholm(x, u):
    ...     return u.value - kp.integral(lambda y, u: x[0] * y[0] * u.value, rod) - 1.0
    >>> equation = kp.Condition("equation", rod.interior, fredholm)
    >>> whole = kp.Problem(equation, fields=[kp.Field("u", kp.Gaussian(0.5))])
    >>> round(float(kp.solve(whole, {"equation": 20})["u"]([[1.0]])[0]), 3)  # 1 + 3x/4
    1.75
    ```
    """
    answer = _ANSWER.get()
    if answer is None:
        raise InputError(
            "integral: it belongs into a residual. To integrate a solution, evaluate it at the "
            "nodes of a quadrature."
        )
    return answer(Call(integrand, *_rule(over, start, end, nodes)))


def answered(answer: Answer, function: Callable[[], Any]) -> Any:
    """What a function returns if integrals in it are answered like this."""
    token = _ANSWER.set(answer)
    try:
        return function()
    finally:
        _ANSWER.reset(token)


def _rule(over: Any, start: Any, end: Any, nodes: int | None) -> tuple[Array, Array]:
    if nodes is not None:
        whole_number("integral", "nodes", nodes, at_least=1)
    if over is None:
        if start is None or end is None:
            raise InputError("integral: expected a region, or start and end of a line.")
        first, last = (jnp.asarray(each, float) for each in (start, end))
        if first.ndim != 1 or first.shape != last.shape:
            raise InputError(
                f"integral: start and end must be points with all coordinates; got shapes "
                f"{first.shape} and {last.shape}."
            )
        place, weight = gauss(nodes or _NODES[1])
        along = last - first
        length = along[0] if len(along) == 1 else jnp.sqrt(jnp.sum(along**2))
        return first + place[:, None] * along, length * weight
    if start is not None or end is not None:
        raise InputError("integral: expected a region or the ends of a line; got both.")
    if isinstance(over, tuple) and len(over) == 2:
        places, weights = (jnp.asarray(each, float) for each in over)
        if places.ndim != 2 or weights.shape != places.shape[:1]:
            raise InputError(
                f"integral: expected nodes of shape (Q, d) and weights of shape (Q,); got "
                f"{places.shape} and {weights.shape}."
            )
        return places, weights
    places, weights = quadrature(over, nodes)
    return jnp.asarray(places), jnp.asarray(weights)


def quadrature(over: Any, nodes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a product of Gauss-Legendre rules on a region."""
    region = over.interior if isinstance(over, AbstractDomain) else over
    if not isinstance(region, Patch):
        raise InputError(
            f"integral: expected a region such as Box(x=(0, 1)) or box.at(x=0); got {shown(over)}."
        )
    if region.keeps is not None or not region.smooth:
        raise InputError(
            f"integral: there is no quadrature for the region {region.name!r}. Give nodes and "
            "weights of your own: over=(nodes, weights)."
        )
    place, weight = gauss(nodes or _NODES.get(region.parameters, 6))
    cube = np.array(list(product(place, repeat=region.parameters)))
    shares = np.prod(list(product(weight, repeat=region.parameters)), axis=1)
    return region.chart(cube.reshape(len(cube), region.parameters)).points, region.measure * shares


def with_nodes(
    block: Collocation,
    nodes: Float[Array, "N Q d"],
    weights: Float[Array, "N Q"],
    parts: np.ndarray,
) -> Collocation:
    """Points of a condition, each followed by the nodes of its integrals."""
    count, dimension = block.points.shape
    width = 1 + nodes.shape[1]
    own = np.asarray(block.points)
    places = np.concatenate([own[:, None], np.asarray(nodes)], axis=1)
    data = {key: known(np.repeat(np.asarray(v), width, axis=0)) for key, v in block.data.items()}
    local = (
        np.repeat(own, width, axis=0),
        np.tile(np.concatenate([[0.0], parts]), count),
        np.concatenate([np.ones((count, 1)), np.asarray(weights)], axis=1).reshape(-1),
    )
    normals = block.normals
    return Collocation(
        known(places.reshape(-1, dimension)),
        None if normals is None else known(np.repeat(np.asarray(normals), width, axis=0)),
        data | {name: known(values) for name, values in zip(LOCAL, local, strict=True)},
        block.noise,
        known(np.ones((count, width))),
    )


def numbered(calls: Sequence[Call]) -> np.ndarray:
    """For each node the number of its integral, from one."""
    return np.concatenate([np.full(len(call.weights), k + 1.0) for k, call in enumerate(calls)])
