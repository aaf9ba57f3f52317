"""Bratu's problem of thermal explosion: the lower of two solutions.

    u'' + 2 eᵘ = 0 in (0, 1),    u(0) = u(1) = 0

The lower solution is -2 log(cosh((x - 1/2) θ/2) / cosh(θ/4)), θ = 2 cosh(θ/4).
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "ordinary differential equations"
THETA = 2.3575510538774023


def exact(x):
    return -2 * jnp.log(jnp.cosh((x[0] - 0.5) * THETA / 2) / jnp.cosh(THETA / 4))


domain = kp.Box(x=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.d("x", "x") + 2 * jnp.exp(u.value)),
    kp.Condition("ends", domain.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
points = {"equation": 50, "ends": 2}
references = {"u": jax.vmap(exact)}
small = {"equation": 20, "ends": 2}, 1e-5
