"""A problem whose solution is rough in places: section 5.5 of the paper, its kernel stationary."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, product_grid
from kernelpde.gallery._references import ColeHopf
from kernelpde.geometry import Box
from kernelpde.kernels import Matern
from kernelpde.problem import Condition, Field, Problem

_VISCOSITY = 0.02


def _zero(x: Float[Array, "d"], u: Jet) -> Array:
    return u.value


def _burgers(x: Float[Array, "d"], u: Jet) -> Array:
    return u.d("t") + u.value * u.d("x") - _VISCOSITY * u.d("x", "x")


def _sine(x: Float[Array, "d"], u: Jet) -> Array:
    return u.value + jnp.sin(jnp.pi * x[1])


def burgers(lengthscale: float = 0.5) -> Example:
    """uₜ + u uₓ = 0.02 uₓₓ on 0 < t < 1, -1 < x < 1, u(0, x) = -sin πx, u = 0 at both ends.

    A shock forms at x = 0.

    **Arguments:**

    - `lengthscale`: of a stationary Matérn kernel in time; 0.4 times as much in space.
    """
    box = Box(t=(0, 1), x=(-1, 1), time="t")
    problem = Problem(
        Condition("equation", box.interior, _burgers),
        Condition("ends", box.boundary, _zero),
        Condition("initial", box.initial, _sine),
        fields=[Field("u", Matern(3.5, [lengthscale, 0.4 * lengthscale]))],
    )
    return Example(
        "burgers",
        "Burgers' equation with a shock",
        problem,
        {"equation": 1800, "ends": 150, "initial": 150},
        {"u": ColeHopf(_VISCOSITY)},
        product_grid(np.linspace(0, 1, 60), np.linspace(-1, 1, 60)),
        {"equation": 900, "ends": 150, "initial": 150},
        nugget=1e-10,
    )
