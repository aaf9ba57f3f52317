"""The Cahn-Hilliard equation: an alloy separates into two phases.

    u_t = (u³ - u - ε² u_xx)_xx, periodic,    ε = 0.3

It is solved in ten time windows. The reference is a Fourier series with exponential time
differencing.
"""

import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from kernelpde.gallery import FourierSeries

GROUP = "reaction and patterns"
EPSILON = 0.3


def equation(x, u):
    bulk = (3 * u.value**2 - 1) * u.d("x", "x") + 6 * u.value * u.d("x") ** 2
    return u.d("t") - bulk + EPSILON**2 * u.d("x", "x", "x", "x")


domain = kp.Box(t=(0, 1), x=(-jnp.pi, jnp.pi), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition("equation", domain.interior, equation),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - 0.3 * jnp.cos(2 * x[1])),
    fields=[kp.Field("u", kp.Gaussian([0.03, 0.35]))],
)
windows, points = 10, {"equation": 900, "initial": 80}
references = {
    "u": FourierSeries(
        lambda x: 0.3 * np.cos(2 * x),
        lambda k: np.real(-(k**2) - EPSILON**2 * k**4),
        lambda u, _, k: k**2 * np.fft.fft(u**3),
        -np.pi,
        np.pi,
        1.0,
        modes=128,
    )
}
small = {"equation": 400, "initial": 40}, 1e-2
