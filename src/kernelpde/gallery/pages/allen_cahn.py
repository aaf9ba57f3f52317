"""The Allen-Cahn equation: sharp phase boundaries, a benchmark of physics-informed networks.

    u_t = 0.0001 u_xx + 5 (u - u³), periodic,    u = x² cos(πx) at t = 0

The periodic initial value has a kink at x = 1. `FeatureKernel` adds an unknown multiple of the
solution of the heat equation for this kink. Phase boundaries are 0.01 wide, so the problem needs
many points and is solved in twenty time windows. The reference is a Fourier series with exponential
time differencing.
"""

import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np

import kernelpde as kp
from kernelpde.gallery import FourierSeries

GROUP = "reaction and patterns"


def initial(x):
    return x**2 * jnp.cos(jnp.pi * x)


def kink(x):
    width = jnp.sqrt(4e-4 * (x[0] + 1e-9))
    ratio = 2 / jnp.pi * jnp.sin(jnp.pi * (x[1] + 1) / 2) / width
    rounded = jnp.exp(-(ratio**2)) / jnp.sqrt(jnp.pi) + ratio * special.erf(ratio)
    return jnp.exp(-10 * x[0]) * width * rounded


domain = kp.Box(t=(0, 1), x=(-1, 1), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t") - 1e-4 * u.d("x", "x") - 5 * (u.value - u.value**3),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - initial(x[1])),
    fields=[kp.Field("u", kp.Gaussian([0.06, 0.012]) + kp.kernels.FeatureKernel(kink))],
)
windows, points = 20, {"equation": 2400, "initial": 400}
references = {
    "u": FourierSeries(
        lambda x: x**2 * np.cos(np.pi * x),
        lambda k: np.real(1e-4 * k**2) + 5.0,
        lambda u, _, k: -5 * np.fft.fft(u**3),
        -1.0,
        1.0,
        1.0,
        modes=2048,
    )
}
small = {"equation": 400, "initial": 120}, 0.5
