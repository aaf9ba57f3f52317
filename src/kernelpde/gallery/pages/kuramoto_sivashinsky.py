"""The Kuramoto-Sivashinsky equation in its regular regime: a wrinkling flame front.

    u_t + 5 u u_x + ½ u_xx + 0.005 u_xxxx = 0, periodic,    u = -sin(πx) at t = 0

It is solved in four time windows. The reference is a Fourier series with exponential time
differencing.
"""

import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from kernelpde.gallery import FourierSeries

GROUP = "reaction and patterns"

domain = kp.Box(t=(0, 0.3), x=(-1, 1), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: (
            u.d("t")
            + 5 * u.value * u.d("x")
            + 0.5 * u.d("x", "x")
            + 0.005 * u.d("x", "x", "x", "x")
        ),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value + jnp.sin(jnp.pi * x[1])),
    fields=[kp.Field("u", kp.Gaussian([0.03, 0.14]))],
)
windows, points = 4, {"equation": 2600, "initial": 120}
references = {
    "u": FourierSeries(
        lambda x: -np.sin(np.pi * x),
        lambda k: np.real(-0.5 * k**2 - 0.005 * k**4),
        lambda u, _, k: -2.5 * k * np.fft.fft(u**2),
        -1.0,
        1.0,
        0.3,
        modes=256,
    )
}
small = {"equation": 500, "initial": 50}, 2e-4
