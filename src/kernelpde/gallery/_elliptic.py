"""The nonlinear elliptic equation of section 5.1 of the paper.

    -Δu + u³ = f in (0, 1)²,    u = 0 on the boundary,

with f such that u = sin πx sin πy + 4 sin 4πx sin 4πy.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.geometry import Box
from kernelpde.kernels import AbstractKernel, Gaussian, Polynomial
from kernelpde.problem import Condition, Field, Problem

_MODES = ((1, 1.0), (4, 4.0))
"""Frequency and amplitude of each sin kπx sin kπy in the solution."""


def _solution(x: Float[Array, " d"]) -> Float[Array, ""]:
    return sum(
        (a * jnp.sin(k * jnp.pi * x[0]) * jnp.sin(k * jnp.pi * x[1]) for k, a in _MODES),
        start=jnp.zeros(()),
    )


def _source(x: Float[Array, " d"]) -> Float[Array, ""]:
    minus_laplacian = sum(
        2.0 * (k * jnp.pi) ** 2 * a * jnp.sin(k * jnp.pi * x[0]) * jnp.sin(k * jnp.pi * x[1])
        for k, a in _MODES
    )
    return minus_laplacian + _solution(x) ** 3


def _exact(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    x, y = points.T
    return sum(
        (a * np.sin(k * np.pi * x) * np.sin(k * np.pi * y) for k, a in _MODES),
        start=np.zeros(len(points)),
    )


# Module-level functions, so that problems with different kernels share compiled programs.
def _equation(x: Float[Array, " d"], u: Jet) -> Float[Array, ""]:
    return -u.laplacian + u.value**3 - _source(x)


def _boundary(x: Float[Array, " d"], u: Jet) -> Float[Array, ""]:
    return u.value


def _example(name: str, summary: str, kernel: AbstractKernel) -> Example:
    square = Box(x=(0, 1), y=(0, 1))
    problem = Problem(
        Condition("equation", square.interior, _equation),
        Condition("boundary", square.boundary, _boundary),
        fields=[Field("u", kernel)],
    )
    axis = np.linspace(0, 1, 60)
    return Example(
        name,
        summary,
        problem,
        {"equation": 1800, "boundary": 300},
        {"u": _exact},
        product_grid(axis, axis),
        {"equation": 900, "boundary": 300},
    )


@gallery
def elliptic(lengthscale: float = 0.2, kernel: AbstractKernel | None = None) -> Example:
    """-Δu + u³ = f with a Gaussian kernel; the paper's case (A).

    **Arguments:**

    - `lengthscale`: lengthscale of the Gaussian kernel.
    - `kernel`: kernel that replaces the Gaussian.
    """
    kernel = Gaussian(lengthscale) if kernel is None else kernel
    return _example("elliptic", "-Lap u + u^3 = f on the unit square, two scales", kernel)


@gallery
def elliptic_additive(lengthscale: float = 1.0) -> Example:
    """-Δu + u³ = f with σ² exp(-r² / 2ℓ²) + (c + a x·y)², all but ℓ equal to 1; case (B).

    **Arguments:**

    - `lengthscale`: ℓ.
    """
    kernel = 1.0 * Gaussian(lengthscale) + Polynomial(2)
    return _example("elliptic-additive", "the same equation with an additive kernel", kernel)
