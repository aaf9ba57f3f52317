"""Poisson's equation in a flower, a domain defined by an implicit function.

Δu = f in {r < 1 + 0.3 cos 5θ},    u = g on the boundary
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "elliptic"


def flower(x, y):
    return jnp.sqrt(x**2 + y**2) - 1 - 0.3 * jnp.cos(5 * jnp.arctan2(y, x))


def exact(x):
    return jnp.sin(2 * x[0] + x[1]) * jnp.exp(0.3 * x[1]) + x[0] ** 2


domain = kp.Implicit(flower, x=(-1.5, 1.5), y=(-1.5, 1.5))
problem = kp.Problem(
    kp.Condition(
        "equation", domain.interior, lambda x, u: u.laplacian - jnp.trace(jax.hessian(exact)(x))
    ),
    kp.Condition("boundary", domain.boundary, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
points = {"equation": 800, "boundary": 250}
references = {"u": jax.vmap(exact)}
small = {"equation": 150, "boundary": 70}, 1e-4
