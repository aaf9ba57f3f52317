"""Problems that many tests share, and how far solutions are from what is known."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

import kernelpde as kp

LINE = kp.Box(x=(0, 1))
SQUARE = kp.Box(x=(0, 1), y=(0, 1))


def zero(x, u):
    return u.value


def misfit(x, u, y):
    return u.value - y


def boundary_value(
    domain,
    equation: Callable,
    *fields,
    edge: Callable = zero,
    exact: Callable | None = None,
    more: Sequence[kp.Condition] = (),
    names: tuple[str, str] | None = None,
    **options,
) -> kp.Problem:
    """An equation inside, and what holds on the boundary.

    **Arguments:**

    - `fields`: the fields, or kernels of a field u.
    - `edge`: residual on the boundary; u = 0 by default.
    - `exact`: a function of a point with which u agrees on the boundary.
    - `more`: further conditions.
    - `names`: names of both conditions; the second is "ends" in one dimension, else "boundary".
    """
    if names is None:
        space = domain.space
        is_line = len(space.coordinates) - (space.time is not None) == 1
        names = ("equation", "ends" if is_line else "boundary")
    if exact is not None:
        edge = agrees_with(exact)
    return kp.Problem(
        kp.Condition(names[0], domain.interior, equation),
        kp.Condition(names[1], domain.boundary, edge),
        *more,
        fields=[kp.Field("u", f) if isinstance(f, kp.AbstractKernel) else f for f in fields],
        **options,
    )


def agrees_with(exact: Callable) -> Callable:
    return lambda x, u: u.value - exact(x)


def observed(points, values, noise=0.0, name: str = "data") -> kp.Condition:
    """Measured values of u."""
    return kp.Condition(name, points, misfit, noise=noise, data={"y": values})


def regression(points, values, noise, kernel: kp.AbstractKernel) -> kp.Problem:
    """Measured values of u, and nothing else."""
    return kp.Problem(observed(points, values, noise), fields=[kp.Field("u", kernel)])


def rms(values) -> float:
    return float(np.sqrt(np.mean(np.abs(np.asarray(values)) ** 2)))


def relative_error(field, exact: Callable, points) -> float:
    """Error of a field at points, relative to the size of the exact function of one point."""
    known = np.asarray(jax.vmap(exact)(points))
    return rms(np.asarray(field(points)) - known) / rms(known)
