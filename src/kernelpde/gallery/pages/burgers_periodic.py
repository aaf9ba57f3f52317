"""Burgers' equation with viscosity 0.01, periodic: a sine steepens into a layer 0.02 wide.

    u_t + u u_x = 0.01 u_xx, periodic,    u = -sin(πx) at t = 0

The solution is smooth initially and steep from t = 0.3. A kernel learned in the first window would
be wrong for the last one, so all 14 time windows use the same prescribed lengthscales. The
reference is a Fourier series with exponential time differencing.
"""

import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from kernelpde.gallery import FourierSeries

GROUP = "fluids"

domain = kp.Box(t=(0, 1), x=(-1, 1), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t") + u.value * u.d("x") - 0.01 * u.d("x", "x"),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value + jnp.sin(jnp.pi * x[1])),
    fields=[kp.Field("u", kp.Gaussian([0.12, 0.015]))],
)
windows, points = 14, {"equation": 2400, "initial": 400}
references = {
    "u": FourierSeries(
        lambda x: -np.sin(np.pi * x),
        lambda k: 0.01 * np.real(k**2),
        lambda u, _, k: -0.5 * k * np.fft.fft(u**2),
        -1.0,
        1.0,
        1.0,
        modes=1024,
    )
}
small = {"equation": 700, "initial": 200}, 0.3
