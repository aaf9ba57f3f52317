"""The nonlinear Schrodinger equation of section 5.2 of the paper.

i hₜ + ½ hₓₓ + |h|² h = 0, x on a circle of length 10,    h(0, x) = 2 / cosh x.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from kernelpde.functionals import ComplexJet
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.gallery._references import SplitStep
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian
from kernelpde.problem import ComplexField, Condition, Problem

_LOW, _HIGH = -5.0, 5.0


def _equation(x: Float[Array, " d"], h: ComplexJet) -> Complex[Array, ""]:
    value = h.value
    return 1j * h.d("t") + 0.5 * h.d("x", "x") + jnp.abs(value) ** 2 * value


def _initial(x: Float[Array, " d"], h: ComplexJet) -> Complex[Array, ""]:
    return h.value - 2.0 / jnp.cosh(x[1])


def _soliton(x: np.ndarray) -> np.ndarray:
    return 2.0 / np.cosh(x)


@gallery
def schrodinger(lengthscale: float = 1.0, duration: float = 1.0) -> Example:
    """i hₜ + ½ hₓₓ + |h|² h = 0 with Gaussian kernels, periodic in x.

    **Arguments:**

    - `lengthscale`: initial value ℓ of all four hyperparameters in the paper, for the kernel
      exp(-(t - t')² / ℓ²) exp(-2 sin²(π (x - x') / 10) / ℓ²): here ℓ / √2 in time and
      10 ℓ / 2π in space.
    - `duration`: final time.
    """
    strip = Box(t=(0, duration), x=(_LOW, _HIGH), time="t", periodic="x")
    kernel = Gaussian([lengthscale / np.sqrt(2), lengthscale * (_HIGH - _LOW) / (2 * np.pi)])
    problem = Problem(
        Condition("equation", strip.interior, _equation),
        Condition("initial", strip.initial, _initial),
        fields=[ComplexField("h", kernel)],
    )
    counts = {"equation": 1500, "initial": 200}
    grid = product_grid(
        np.linspace(0, duration, 101), np.linspace(_LOW, _HIGH, 128, endpoint=False)
    )
    return Example(
        "schrodinger",
        "i h_t + h_xx / 2 + |h|^2 h = 0, complex, periodic in x",
        problem,
        counts,
        {"h": SplitStep(_soliton, _LOW, _HIGH)},
        grid,
        counts,
        "halton",
    )
