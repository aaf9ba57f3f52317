"""Problems for the solvers of large systems.

    -Δu + u³ = f in (0, 1)³,    u = 0 on the boundary,

with f such that u = sin πx sin πy sin πz + ½ sin 2πx sin 2πy sin 2πz; the equation of section 5.1
of the paper with a kernel of finite smoothness; and Darcy's problem with a thousand times more
observations.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._elliptic import elliptic
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.gallery._inverse import darcy
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian, Matern
from kernelpde.problem import Condition, Field, Problem

_MODES = ((1, 1.0), (2, 0.5))


def _solution(x: Float[Array, "3"]) -> Float[Array, ""]:
    return sum((a * jnp.prod(jnp.sin(k * jnp.pi * x)) for k, a in _MODES), start=jnp.zeros(()))


def _equation(x: Float[Array, "3"], u: Jet) -> Float[Array, ""]:
    minus_laplacian = sum(
        3.0 * (k * jnp.pi) ** 2 * a * jnp.prod(jnp.sin(k * jnp.pi * x)) for k, a in _MODES
    )
    return -u.laplacian + u.value**3 - minus_laplacian - _solution(x) ** 3


def _boundary(x: Float[Array, "3"], u: Jet) -> Float[Array, ""]:
    return u.value


def _exact(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    return sum(
        (a * np.prod(np.sin(k * np.pi * points), axis=1) for k, a in _MODES),
        start=np.zeros(len(points)),
    )


@gallery
def elliptic_3d(lengthscale: float = 0.5) -> Example:
    """-Δu + u³ = f in the unit cube with a Gaussian kernel.

    **Arguments:**

    - `lengthscale`: lengthscale of the kernel.
    """
    cube = Box(x=(0, 1), y=(0, 1), z=(0, 1))
    problem = Problem(
        Condition("equation", cube.interior, _equation),
        Condition("boundary", cube.boundary, _boundary),
        fields=[Field("u", Gaussian(lengthscale))],
    )
    axis = np.linspace(0, 1, 15)
    return Example(
        "elliptic-3d",
        "-Lap u + u^3 = f in the unit cube, 20,000 points",
        problem,
        {"equation": 16_000, "boundary": 4_000},
        {"u": _exact},
        product_grid(axis, axis, axis),
        {"equation": 1600, "boundary": 800},
        sampling="halton",
    )


@gallery
def elliptic_matern(lengthscale: float = 0.3) -> Example:
    """The elliptic equation with a Matern kernel of smoothness 7/2 and 25,000 points.

    **Arguments:**

    - `lengthscale`: lengthscale of the kernel.
    """
    return dataclasses.replace(
        elliptic(kernel=Matern(3.5, lengthscale)),
        name="elliptic-matern",
        summary="-Lap u + u^3 = f with a kernel of finite smoothness, 25,000 points",
        points={"equation": 24_400, "boundary": 600},
        training={"equation": 900, "boundary": 120},
        sampling="halton",
    )


@gallery
def darcy_large(lengthscale: float = 0.18, seed: int = 0) -> Example:
    """Darcy's problem with 60,000 observations and 40,000 points for equation and boundary.

    **Arguments:** as for `darcy`.
    """
    return dataclasses.replace(
        darcy(lengthscale, seed, observations=60_000),
        name="darcy-large",
        points={"equation": 38_000, "boundary": 2_000},
        training={"equation": 38_000, "boundary": 2_000},
        sampling="halton",
    )
