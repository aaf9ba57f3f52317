"""Problems whose solutions are rough in places: sections 5.4 and 5.5 of the paper."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, product_grid
from kernelpde.gallery._references import ColeHopf, RegularisedDistance
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian
from kernelpde.problem import Condition, Field, Problem

_VISCOSITY = 0.02
_REGULARISATION = 0.01


def _zero(x: Float[Array, "d"], u: Jet) -> Array:
    return u.value


def _burgers(x: Float[Array, "d"], u: Jet) -> Array:
    return u.d("t") + u.value * u.d("x") - _VISCOSITY * u.d("x", "x")


def _sine(x: Float[Array, "d"], u: Jet) -> Array:
    return u.value + jnp.sin(jnp.pi * x[1])


def burgers(lengthscale: float = 0.3) -> Example:
    """uₜ + u uₓ = 0.02 uₓₓ on 0 < t < 1, -1 < x < 1, u(0, x) = -sin πx, u = 0 at both ends.

    A shock forms at x = 0.

    **Arguments:**

    - `lengthscale`: in both coordinates, to begin with; a stationary Gaussian kernel.
    """
    box = Box(t=(0, 1), x=(-1, 1), time="t")
    problem = Problem(
        Condition("equation", box.interior, _burgers),
        Condition("ends", box.boundary, _zero),
        Condition("initial", box.initial, _sine),
        fields=[Field("u", Gaussian([lengthscale, lengthscale]))],
    )
    return Example(
        "burgers",
        "Burgers' equation with a shock",
        problem,
        {"equation": 1800, "ends": 150, "initial": 150},
        {"u": ColeHopf(_VISCOSITY)},
        product_grid(np.linspace(0, 1, 60), np.linspace(-1, 1, 60)),
        {"equation": 900, "ends": 150, "initial": 150},
    )


def _eikonal(x: Float[Array, "d"], u: Jet) -> Array:
    return u.gradient @ u.gradient - 1.0 - _REGULARISATION * u.laplacian


def eikonal(lengthscale: float = 0.2) -> Example:
    """|∇u|² = 1 + 0.01 Δu on the unit square, u = 0 on its boundary: a smoothed distance to it.

    **Arguments:**

    - `lengthscale`: to begin with; a stationary Gaussian kernel.
    """
    square = Box(x=(0, 1), y=(0, 1))
    problem = Problem(
        Condition("equation", square.interior, _eikonal),
        Condition("boundary", square.boundary, _zero),
        fields=[Field("u", Gaussian(lengthscale))],
    )
    grid = np.linspace(0, 1, 100)
    return Example(
        "eikonal",
        "a regularised eikonal equation, with kinks along the diagonals",
        problem,
        {"equation": 1800, "boundary": 300},
        {"u": RegularisedDistance(_REGULARISATION)},
        product_grid(grid, grid),
        {"equation": 900, "boundary": 300},
        nugget=1e-8,
    )
