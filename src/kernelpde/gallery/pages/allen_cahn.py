"""Allen and Cahn: phases with a sharp boundary, as the networks for physics have it.

    u_t = 0.0001 u_xx + 5 (u - u³), periodic,    u = x² cos(πx) at the beginning

Boundaries of width 0.01 ask for a lengthscale that varies. The reference is a Fourier series with
exponential time differencing.
"""

import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from kernelpde.gallery._references import FourierSeries

GROUP = "reaction and patterns"


def initial(x):
    return x**2 * jnp.cos(jnp.pi * x)


domain = kp.Box(t=(0, 1), x=(-1, 1), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t") - 1e-4 * u.d("x", "x") - 5 * (u.value - u.value**3),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - initial(x[1])),
    fields=[kp.Field("u", kp.Gaussian([0.2, 0.05]))],
)
points = {"equation": 2500, "initial": 150}
references = {
    "u": FourierSeries(
        lambda x: x**2 * np.cos(np.pi * x),
        lambda k: np.real(1e-4 * k**2) + 5.0,
        lambda u, _, k: -5 * np.fft.fft(u**3),
        -1.0,
        1.0,
        1.0,
        modes=1024,
    )
}
small = {"equation": 700, "initial": 80}, 0.5
