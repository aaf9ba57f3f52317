"""Robin, radiation and coupled boundary conditions, with manufactured solutions."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian
from kernelpde.problem import Condition, Field, Problem


def _u(x: Float[Array, " d"]) -> Float[Array, ""]:
    return jnp.exp(x[0]) * jnp.sin(2.0 * x[1]) + x[0] * x[1]


def _v(x: Float[Array, " d"]) -> Float[Array, ""]:
    return 0.5 * jnp.cos(2.0 * x[0] + x[1])


def _laplacian(f, x: Float[Array, " d"]) -> Float[Array, ""]:
    return jnp.trace(jax.hessian(f)(x))


def _square_grid() -> Float[np.ndarray, "n 2"]:
    axis = np.linspace(0, 1, 41)
    return product_grid(axis, axis)


def _cubic(x: Float[Array, " d"], u: Jet) -> Float[Array, ""]:
    return -u.laplacian + u.value**3 - (-_laplacian(_u, x) + _u(x) ** 3)


def _flux(x: Float[Array, " d"], normal: Float[Array, " d"]) -> Float[Array, ""]:
    return jax.grad(_u)(x) @ normal


def _left(x: Float[Array, " d"], u: Jet, normal: Float[Array, " d"]) -> Float[Array, ""]:
    return u.normal_derivative + 2.0 * u.value - (_flux(x, normal) + 2.0 * _u(x))


def _right(x: Float[Array, " d"], u: Jet, normal: Float[Array, " d"]) -> Float[Array, ""]:
    # Radiation: the flux is the fourth power of the temperature.
    return u.normal_derivative + u.value**4 - (_flux(x, normal) + _u(x) ** 4)


def _bottom(x: Float[Array, " d"], u: Jet, normal: Float[Array, " d"]) -> Float[Array, ""]:
    return u.normal_derivative - _flux(x, normal)


def _top(x: Float[Array, " d"], u: Jet) -> Float[Array, ""]:
    return u.value - _u(x)


@gallery
def robin(lengthscale: float = 0.5) -> Example:
    """-Δu + u³ = f with a different condition on each side.

    ∂ₙu + 2u = g on the left, ∂ₙu + u⁴ = g on the right, ∂ₙu = g below, u = g above.

    **Arguments:**

    - `lengthscale`: lengthscale of the Gaussian kernel.
    """
    square = Box(x=(0, 1), y=(0, 1))
    problem = Problem(
        Condition("equation", square.interior, _cubic),
        Condition("left", square["x=0"], _left),
        Condition("right", square["x=1"], _right),
        Condition("bottom", square["y=0"], _bottom),
        Condition("top", square["y=1"], _top),
        fields=[Field("u", Gaussian(lengthscale))],
    )
    counts = {"equation": 300, "left": 30, "right": 30, "bottom": 30, "top": 30}
    return Example(
        "robin",
        "Robin, radiation, Neumann and Dirichlet conditions on the four sides of a square",
        problem,
        counts,
        {"u": lambda points: np.asarray(jax.vmap(_u)(jnp.asarray(points)))},
        _square_grid(),
        counts,
    )


def _pair(x: Float[Array, " d"], u: Jet, v: Jet) -> tuple[Array, Array]:
    return (
        -u.laplacian + u.value + v.value**2 - (-_laplacian(_u, x) + _u(x) + _v(x) ** 2),
        -v.laplacian + v.value + u.value * v.value - (-_laplacian(_v, x) + _v(x) + _u(x) * _v(x)),
    )


def _coupled(
    x: Float[Array, " d"], u: Jet, v: Jet, normal: Float[Array, " d"]
) -> tuple[Array, Array]:
    slope = jax.grad(_u)(x) - jax.grad(_v)(x)
    return (
        u.value + v.value - _u(x) - _v(x),
        u.normal_derivative - v.normal_derivative - slope @ normal,
    )


@gallery
def coupled(lengthscale: float = 0.5) -> Example:
    """-Δu + u + v² = f, -Δv + v + uv = g, with prescribed u + v and ∂ₙu - ∂ₙv on the boundary.

    **Arguments:**

    - `lengthscale`: lengthscale of both Gaussian kernels.
    """
    square = Box(x=(0, 1), y=(0, 1))
    problem = Problem(
        Condition("equation", square.interior, _pair),
        Condition("boundary", square.boundary, _coupled),
        fields=[Field("u", Gaussian(lengthscale)), Field("v", Gaussian(lengthscale))],
    )
    counts = {"equation": 250, "boundary": 100}
    return Example(
        "coupled",
        "two fields whose boundary conditions couple them",
        problem,
        counts,
        {
            "u": lambda points: np.asarray(jax.vmap(_u)(jnp.asarray(points))),
            "v": lambda points: np.asarray(jax.vmap(_v)(jnp.asarray(points))),
        },
        _square_grid(),
        counts,
    )
