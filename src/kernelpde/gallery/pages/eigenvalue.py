"""The ground state of a harmonic oscillator: unknown eigenvalue and eigenfunction.

-u'' + x² u = λ u,    u(±5) = 0,    u(0) = 1:    λ = 1, u = exp(-x²/2)
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "ordinary differential equations"


def exact(x):
    return jnp.exp(-(x[0] ** 2) / 2)


domain = kp.Box(x=(-5, 5))
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u, lam: -u.d("x", "x") + (x[0] ** 2 - lam) * u.value,
    ),
    kp.Condition("ends", domain.boundary, lambda x, u: u.value),
    kp.Condition("size", kp.PointCloud([[0.0]]), lambda x, u: u.value - 1),
    fields=[kp.Field("u", kp.Gaussian(1.0)), kp.Parameter("lam", mean=0.8, std=1.0)],
)
points = {"equation": 80, "ends": 2}
references = {"u": jax.vmap(exact)}
parameters = {"lam": 1.0}
small = {"equation": 40, "ends": 2}, 1e-3
